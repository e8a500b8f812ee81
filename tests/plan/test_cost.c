/* Claims about cost tables: what they say of calls, whoever made them. */
/* ctest: device-free thread-free */
#include "plan/cost_test.h"

#include <math.h>

#include "kernels/kernels.h"

/* ---- any table ---- */

typedef void (*table_check)(rp_ctx *ctx, const rp_cost_table *t);

static void on_every_table(table_check check)
{
    rp_ctx *ctx = shapes_ctx();
    rp_cost_machine machine[6];
    rp_cost_table *t;

    for (int i = 0, n = machines(machine); i < n; i++) {
        t = builtin(ctx, &machine[i]);
        check(ctx, t);
        rp__cost_table_free(t);
    }
    assert_ok(ctx, rp__cost_table_device(ctx, "h100", &t));
    check(ctx, t);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

static double both(const rp_cost_table *t, const rp_op_meta *m)
{
    return rp__cost_seconds(t, m, RP_FORWARD) + rp__cost_seconds(t, m, RP_BACKWARD);
}

static void check_monotone(rp_ctx *ctx, const rp_cost_table *t)
{
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
        double product_before = 0, gelu_before = 0;
        for (int64_t rows = 1; rows <= 4096; rows *= 2) {
            rp_op_meta p = product(ctx, rp__cost_dtypes[d], rows, 576, 1536);
            rp_op_meta g = pointwise(ctx, &rp_op_gelu, &(rp_attr_gelu){ false }, rp__cost_dtypes[d], rows, 1536);
            assert_true(both(t, &p) >= product_before);
            assert_true(both(t, &g) >= gelu_before);
            product_before = both(t, &p);
            gelu_before    = both(t, &g);
        }
    }
}

static void more_work_is_never_faster(void **state)
{
    (void)state;
    on_every_table(check_monotone);
}

static rp_meta case_input(const rp_op_case *c, int i, rp_dtype dtype)
{
    int n = 0;

    while (n < RP_MAX_DIM && c->in[i][n]) n++;
    if (c->int_inputs >> i & 1) dtype = RP_I32;
    else if (c->stat_inputs >> i & 1) dtype = dtype == RP_F64 ? RP_F64 : RP_F32;
    return rp_meta_make(dtype, n, c->in[i]);
}

static bool case_on_shapes(rp_ctx *ctx, const rp_op *op, const rp_op_case *c, rp_dtype dtype, rp_op_meta *m)
{
    rp_meta in[RP_MAX_IN];
    int n = 0;

    for (; n < RP_MAX_IN && c->in[n][0]; n++) in[n] = case_input(c, n, dtype);
    return c->expect == RP_OK && call_on_shapes(ctx, op, c->attr, in, n, m);
}

/* If an op has no backward, or passes its gradient on, nothing runs. */
static void check_takes_time(const rp_cost_table *t, const rp_op_meta *m)
{
    double forward = rp__cost_seconds(t, m, RP_FORWARD), backward = rp__cost_seconds(t, m, RP_BACKWARD);

    assert_true(forward > 0 && forward < 1);
    if (rp__op_runs_back(m)) assert_true(backward > 0 && backward < 1);
    else assert_true(backward == 0);
}

static void check_every_op(rp_ctx *ctx, const rp_cost_table *t)
{
    rp_op_meta m;

    for (int op = 0; op < rp__op_count(); op++)
        for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
            int n_checked = 0;
            for (int i = 0; i < rp__op_at(op)->n_case; i++) {
                if (!case_on_shapes(ctx, rp__op_at(op), &rp__op_at(op)->cases[i], rp__cost_dtypes[d], &m)) continue;
                check_takes_time(t, &m);
                n_checked++;
            }
            if (!n_checked) fail_msg("no case of %s in %s", rp__op_at(op)->name, rp_dtype_name(rp__cost_dtypes[d]));
        }
}

static void every_op_takes_time_in_every_dtype(void **state)
{
    (void)state;
    on_every_table(check_every_op);
}

static void a_call_whose_gradient_nobody_wants_has_no_backward(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_op_meta m     = product(ctx, RP_F32, 8, 8, 8);
    rp_cost_table *t = NULL;

    (void)state;
    assert_ok(ctx, rp__cost_table_device(ctx, "h100", &t));
    assert_true(rp__cost_seconds(t, &m, RP_BACKWARD) > 0);
    m.want_grad = false;
    assert_true(rp__cost_seconds(t, &m, RP_BACKWARD) == 0);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

static rp_op_meta attend(rp_ctx *ctx)
{
    static const rp_attr_attention attr = { 0.125f, 0, true, 0, 0 };
    rp_meta x = rp_meta_make(RP_F32, 4, (int64_t[]){ 1, 256, 4, 64 });
    rp_op_meta m;

    assert_true(call_on_shapes(ctx, &rp_op_attention, &attr, (rp_meta[]){ x, x, x }, 3, &m));
    return m;
}

static double forward_if(const rp_cost_table *t, rp_op_meta m, bool fast, bool dense)
{
    m.fast  = fast;
    m.dense = dense;
    return rp__cost_seconds(t, &m, RP_FORWARD);
}

/* Attention alone has kernels for views. */
static void what_has_no_kernel_goes_at_the_pace_of_the_reference(void **state)
{
    rp_cost_machine machine[6];
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = builtin(ctx, &machine[machines(machine) - 1]);
    rp_op_meta p = product(ctx, RP_F32, 256, 256, 256), a = attend(ctx);

    (void)state;
    assert_true(forward_if(t, p, true, false) > 10 * forward_if(t, p, true, true));
    assert_true(forward_if(t, p, false, true) > 10 * forward_if(t, p, true, true));
    assert_true(forward_if(t, a, true, false) == forward_if(t, a, true, true));
    assert_true(forward_if(t, a, false, true) > 10 * forward_if(t, a, true, true));
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* ---- ops of a user's own ---- */

static rp_status twice_shape(rp_op_meta *m)
{
    m->out[0] = m->in[0];
    return RP_OK;
}

static void twice_forward(const rp_op_call *c) { (void)c; }
static void twice_backward(const rp_op_call *c) { (void)c; }
static rp_cost negative_cost(const rp_op_meta *m, rp_pass pass)
{
    (void)m, (void)pass;
    return (rp_cost){ -5, -5, -5, -5 };
}

static const rp_op twice = { .name = "twice", .n_in = 1, .n_out = 1, .needs = RP_IN(0), .shape = twice_shape, .forward = twice_forward,
                             .backward = twice_backward };

static void check_own_op(rp_ctx *ctx, const rp_cost_table *t)
{
    rp_op_meta small = pointwise(ctx, &twice, NULL, RP_F32, 16, 16), large = pointwise(ctx, &twice, NULL, RP_F32, 4096, 4096);

    assert_true(rp__cost_seconds(t, &small, RP_FORWARD) > 0);
    assert_true(rp__cost_seconds(t, &large, RP_FORWARD) > 10 * rp__cost_seconds(t, &small, RP_FORWARD));
    assert_true(rp__cost_seconds(t, &large, RP_BACKWARD) > 10 * rp__cost_seconds(t, &small, RP_BACKWARD));
}

static void an_own_op_without_a_cost_costs_the_bytes_it_touches(void **state)
{
    (void)state;
    on_every_table(check_own_op);
}

static void a_cost_below_zero_counts_as_none(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_op wrong      = twice;
    rp_cost_table *t = NULL;

    (void)state;
    wrong.cost   = negative_cost;
    rp_op_meta m = pointwise(ctx, &wrong, NULL, RP_F32, 16, 16);
    assert_ok(ctx, rp__cost_table_device(ctx, "h100", &t));
    assert_true(rp__cost_seconds(t, &m, RP_FORWARD) == 0);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* ---- caches ---- */

/* A call whose bytes fit the caches runs at their speed, and keeping what fits them takes no time; a device's caches are not known. */
static void what_fits_the_caches_moves_at_their_speed(void **state)
{
    rp_ctx *ctx          = shapes_ctx();
    rp_cost_machine m    = machine_of("amx", "amx", 2);
    rp_cost_table *t     = builtin(ctx, &m);
    rp_op_meta small     = pointwise(ctx, &rp_op_scale, &(rp_attr_scale){ 0.5f }, RP_F32, 1024, 256);      /* 2 MiB read and written */
    double overhead      = rp__cost_row(t, rp__op_count(), RP_F32, RP_FORWARD)->overhead;

    (void)state;
    t->near  = 4;
    t->cache = 2 << 20;
    double near = rp__cost_seconds(t, &small, RP_FORWARD) - overhead;
    t->cache = (2 << 20) - 1;
    double far = rp__cost_seconds(t, &small, RP_FORWARD) - overhead;
    assert_true(fabs(far - 4 * near) < 1e-9 * far);
    assert_true(rp__cost_is_near(t, t->cache) && !rp__cost_is_near(t, (int64_t)t->cache + 1));
    assert_true(fabs(rp__cost_keep(t, RP_F32, 1 << 20) - far) < 1e-9 * far);       /* written and read: as much traffic */
    rp__cost_table_free(t);
    assert_ok(ctx, rp__cost_table_device(ctx, "h100", &t));
    assert_true(rp__cost_cache(t) == 0 && !rp__cost_is_near(t, 1));
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* ---- the built-in table ---- */

/* AMD's bf16 units are twice its fp32 units, so between it and an AVX-512 of the other kind neither is better. */
static void wider_units_never_multiply_slower(void **state)
{
    static const int pairs[][2] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 2, 4 }, { 4, 5 }, { 3, 6 } };
    rp_ctx *ctx = shapes_ctx();
    rp_cost_machine machine[7];

    (void)state;
    machine[machines(machine)] = machine_of("zen4", "avx512-bf16", 2);
    snprintf(machine[6].cpu, sizeof machine[6].cpu, "AMD EPYC Processor 26-2");
    for (int i = 0; i < RP_COUNT(pairs); i++) {
        rp_cost_table *slow = builtin(ctx, &machine[pairs[i][0]]), *fast = builtin(ctx, &machine[pairs[i][1]]);
        for (rp_dtype dtype = RP_F32; dtype <= RP_BF16; dtype++) {
            rp_op_meta p = product(ctx, dtype, 1024, 576, 1536);
            assert_true(both(fast, &p) <= both(slow, &p));
        }
        rp__cost_table_free(slow);
        rp__cost_table_free(fast);
    }
    test_ctx_free(ctx);
}

static void products_rank_by_what_multiplies(void **state)
{
    rp_ctx *ctx = shapes_ctx();
    rp_op_meta fp32 = product(ctx, RP_F32, 1024, 576, 1536), bf16 = product(ctx, RP_BF16, 1024, 576, 1536);
    rp_cost_machine machine[6];
    int n              = machines(machine);
    rp_cost_table *amx = builtin(ctx, &machine[n - 1]), *avx2 = builtin(ctx, &machine[2]), *base = builtin(ctx, &machine[1]);

    (void)state;
    assert_true(both(amx, &fp32) < both(avx2, &fp32));
    assert_true(both(avx2, &fp32) < both(base, &fp32));
    assert_true(2 * both(amx, &bf16) < both(amx, &fp32));
    rp__cost_table_free(amx);
    rp__cost_table_free(avx2);
    rp__cost_table_free(base);
    test_ctx_free(ctx);
}

static void more_threads_are_never_slower(void **state)
{
    rp_ctx *ctx  = shapes_ctx();
    rp_op_meta p = product(ctx, RP_F32, 1024, 576, 1536), g = pointwise(ctx, &rp_op_silu, NULL, RP_F32, 1024, 1536);
    double product_before = INFINITY, silu_before = INFINITY;

    (void)state;
    for (int threads = 1; threads <= 128; threads *= 2) {
        rp_cost_machine m = machine_of("v4", "avx512", threads);
        rp_cost_table *t  = builtin(ctx, &m);
        assert_true(both(t, &p) <= product_before);
        assert_true(both(t, &g) <= silu_before);
        product_before = both(t, &p);
        silu_before    = both(t, &g);
        rp__cost_table_free(t);
    }
    test_ctx_free(ctx);
}

static void a_machine_is_named_by_its_cpu_threads_and_instructions(void **state)
{
    rp_cost_machine one = machine_of("v4", "avx512", 1), two = machine_of("zen4", "avx512-bf16", 2);
    char name[RP_COST_NAME_CHARS], wanted[RP_COST_NAME_CHARS];

    (void)state;
    rp__cost_machine_name(&one, name);
    snprintf(wanted, sizeof wanted, "%s, 1 thread, avx512", one.cpu);
    assert_string_equal(name, wanted);
    rp__cost_machine_name(&two, name);
    snprintf(wanted, sizeof wanted, "%s, 2 threads, avx512-bf16", two.cpu);
    assert_string_equal(name, wanted);
}

#if defined(__x86_64__)
/* The words of the name that the system gives, without their marks; false: it gives none. */
static bool words_of_cpu(char out[512])
{
    static const char *const marks[] = { "(R)", "(TM)", "(tm)" };
    char line[512], *at = NULL, *rest = NULL;
    FILE *f = fopen("/proc/cpuinfo", "r");

    while (f && !at && fgets(line, sizeof line, f))
        if (!strncmp(line, "model name", 10)) at = strchr(line, ':');
    if (f) fclose(f);
    out[0] = 0;
    for (char *word = at ? strtok_r(at + 1, " \n", &rest) : NULL; word && *word != '@'; word = strtok_r(NULL, " \n", &rest)) {
        if (!strcmp(word, "CPU")) continue;
        for (int i = 0; i < RP_COUNT(marks); i++)
            for (char *mark; (mark = strstr(word, marks[i]));) memmove(mark, mark + strlen(marks[i]), strlen(mark + strlen(marks[i])) + 1);
        size_t used = strlen(out);
        snprintf(out + used, 512 - used, "%s%s", used ? " " : "", word);
    }
    return out[0];
}
#else
/* Its name is a number. */
static bool words_of_cpu(char out[512])
{
    out[0] = 0;
    return false;
}
#endif

static void a_cpu_is_named_without_marks(void **state)
{
    rp_cost_machine here;
    char words[512];

    (void)state;
    if (!words_of_cpu(words)) skip();
    rp_ctx *ctx = shapes_ctx();
    rp__cost_machine_find(ctx, &here);
    if (strncmp(here.cpu, words, strlen(words))) fail_msg("'%s' is no name of '%s'", here.cpu, words);
    test_ctx_free(ctx);
}

static void a_built_in_table_is_the_same_each_time(void **state)
{
    rp_ctx *ctx = shapes_ctx();
    rp_cost_machine machine[6];

    (void)state;
    for (int i = 0, n = machines(machine); i < n; i++) {
        rp_cost_table *a = builtin(ctx, &machine[i]), *b = builtin(ctx, &machine[i]), *other = builtin(ctx, &machine[(i + 1) % n]);
        assert_true(rp__cost_hash(a) == rp__cost_hash(b));
        assert_true(rp__cost_hash(a) != rp__cost_hash(other));
        assert_false(rp__cost_measured(a));
        rp__cost_table_free(a);
        rp__cost_table_free(b);
        rp__cost_table_free(other);
    }
    test_ctx_free(ctx);
}

/* As REPRISE_CPU chooses it. */
static void a_forced_level_is_the_machine(void **state)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    double before = INFINITY;

    (void)state;
    assert_int_equal(setenv("REPRISE_COSTS", temp_path("none.json"), 1), 0);
    for (int i = 0, n = rp__kernels_levels(level, RP_COUNT(level)); i < n; i++) {
        rp__kernels_force(level[i]);
        rp_ctx *ctx = shapes_ctx();
        rp_cost_machine m;
        rp_cost_table *t = NULL;
        rp__cost_machine_find(ctx, &m);
        assert_string_equal(m.level, level[i]->level);
        assert_ok(ctx, rp__cost_table_open(ctx, &t));
        rp_op_meta p = product(ctx, RP_BF16, 1024, 576, 1536);
        bool other = !strcmp(m.level, "zen4");              /* another maker's cores, half as wide */
        assert_true(other || both(t, &p) < before);
        before = other ? before : both(t, &p);
        rp__cost_table_free(t);
        test_ctx_free(ctx);
    }
    rp__kernels_force(NULL);
}

static void a_device_without_kernels_is_a_machine_of_its_own(void **state)
{
    rp_ctx *cpu = shapes_ctx(), *sim = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "sim", .threads = 2 });
    rp_cost_machine a, b;

    (void)state;
    rp__cost_machine_find(cpu, &a);
    rp__cost_machine_find(sim, &b);
    assert_string_equal(a.cpu, b.cpu);
    assert_string_equal(b.level, "none");
    assert_int_equal(rp__cost_machine_same(&a, &b), !strcmp(a.level, "none"));
    test_ctx_free(cpu);
    test_ctx_free(sim);
}

/* ---- which CPU ---- */

/* As CPUID gives them, with what /proc/cpuinfo says there. */
static void family_and_model_are_those_that_the_system_names(void **state)
{
    static const struct { unsigned signature, family, model; const char *what;
    } known[] = {
        { 0x00050654, 6, 85, "Skylake-SP" },      { 0x000606a6, 6, 106, "Ice Lake-SP" }, { 0x000806f8, 6, 143, "Sapphire Rapids" },
        { 0x000a06d1, 6, 173, "Granite Rapids" }, { 0x00830f10, 23, 49, "Zen 2" },       { 0x00a00f11, 25, 1, "Zen 3" },
        { 0x00a10f11, 25, 17, "Zen 4" },          { 0x00b00f21, 26, 2, "Zen 5" },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(known); i++) {
        unsigned family, model;
        rp__cost_cpu_model(known[i].signature, &family, &model);
        if (family != known[i].family || model != known[i].model) fail_msg("%s is %u-%u", known[i].what, family, model);
    }
}

#ifdef __x86_64__
static unsigned said_by_system(const char *field)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256], format[64];
    unsigned found = 0;

    snprintf(format, sizeof format, "%s : %%u", field);
    assert_non_null(f);
    while (!found && fgets(line, sizeof line, f)) sscanf(line, format, &found);
    fclose(f);
    return found;
}

static void this_machine_has_the_family_and_model_that_the_system_names(void **state)
{
    rp_ctx *ctx = shapes_ctx();
    rp_cost_machine here;
    char wanted[32];

    (void)state;
    rp__cost_machine_find(ctx, &here);
    snprintf(wanted, sizeof wanted, " %u-%u", said_by_system("cpu family"), said_by_system("model"));
    assert_true(rp__ends_with(here.cpu, wanted));
    test_ctx_free(ctx);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(family_and_model_are_those_that_the_system_names),
#ifdef __x86_64__
        cmocka_unit_test(this_machine_has_the_family_and_model_that_the_system_names),
#endif
        cmocka_unit_test(more_work_is_never_faster),
        cmocka_unit_test(every_op_takes_time_in_every_dtype),
        cmocka_unit_test(a_call_whose_gradient_nobody_wants_has_no_backward),
        cmocka_unit_test(what_has_no_kernel_goes_at_the_pace_of_the_reference),
        cmocka_unit_test(an_own_op_without_a_cost_costs_the_bytes_it_touches),
        cmocka_unit_test(a_cost_below_zero_counts_as_none),
        cmocka_unit_test(what_fits_the_caches_moves_at_their_speed), cmocka_unit_test(wider_units_never_multiply_slower),
        cmocka_unit_test(products_rank_by_what_multiplies),
        cmocka_unit_test(more_threads_are_never_slower),
        cmocka_unit_test(a_machine_is_named_by_its_cpu_threads_and_instructions),
        cmocka_unit_test(a_cpu_is_named_without_marks),
        cmocka_unit_test(a_built_in_table_is_the_same_each_time),
        cmocka_unit_test(a_forced_level_is_the_machine),
        cmocka_unit_test(a_device_without_kernels_is_a_machine_of_its_own),
    };

    return cmocka_run_group_tests(tests, enter, leave);
}
