/* Claims about optimizers: they agree with PyTorch, with their references, and with themselves under any split of the work. */
/* ctest: no-emulator */
#include "optim_test.h"

#include <jansson.h>
#include <math.h>

static json_t *golden(void)
{
    json_error_t e;
    json_t *g = json_load_file(RP_SOURCE_DIR "/tests/train/optim_golden.json", 0, &e);

    if (!g) fail_msg("optim_golden.json: %s", e.text);
    return g;
}

static void fill_from_json(rp_tensor *t, const json_t *numbers)
{
    double *v = test_room(t);

    for (size_t i = 0; i < json_array_size(numbers); i++) v[i] = json_number_value(json_array_get(numbers, i));
    test_put(t, v);
}

static double option(const json_t *options, const char *key, double fallback)
{
    const json_t *v = json_object_get(options, key);

    return v ? json_number_value(v) : fallback;
}

static void follow_torch(rp_ctx *ctx, const json_t *all, const char *name, const json_t *c)
{
    const json_t *o = json_object_get(c, "options"), *betas = json_object_get(o, "betas");
    rp_optim_config config = config_of(strncmp(name, "sgd", 3) ? "adamw" : "sgd");
    config.eps          = option(o, "eps", 0);
    config.momentum     = option(o, "momentum", 0);
    config.weight_decay = option(o, "weight_decay", 0);
    if (betas) {
        config.beta1 = json_number_value(json_array_get(betas, 0));
        config.beta2 = json_number_value(json_array_get(betas, 1));
    }
    int64_t n    = (int64_t)json_array_size(json_object_get(all, "start"));
    rp_tensor *p = make(ctx, RP_F32, n, RP_MEM_PARAM), *g = make(ctx, RP_F32, n, RP_MEM_GRAD);
    rp_optim *optim;
    fill_from_json(p, json_object_get(all, "start"));
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "w", .tensor = p }, 1, &optim));
    const json_t *max_norm = json_object_get(c, "max_norm"), *after = json_object_get(c, "after");
    for (size_t s = 0; s < json_array_size(after); s++) {
        rp_optim_step step = { .step = (int64_t)s + 1, .lr = option(o, "lr", 0), .grad_scale = 1 };
        fill_from_json(g, json_array_get(json_object_get(all, "grads"), s));
        if (json_is_number(max_norm)) {
            rp__optim_measure(optim, 0, g);
            double norm = rp__optim_norm(optim), expected = json_number_value(json_array_get(json_object_get(c, "norms"), s));
            assert_true(fabs(norm - expected) <= 1e-6 * expected);
            step.grad_scale = rp__clip_scale(norm, json_number_value(max_norm));
        }
        rp__optim_update(optim, 0, g, &step);
        double *got = test_values(p);
        for (int64_t i = 0; i < n; i++) {
            double want = json_number_value(json_array_get(json_array_get(after, s), (size_t)i));
            if (fabs(got[i] - want) > 2e-6 * (1 + fabs(want)))
                fail_msg("%s, step %zu, element %d: %.9g, torch has %.9g", name, s + 1, (int)i, got[i], want);
        }
        free(got);
    }
    rp__optim_free(optim);
    rp_tensor_unref(p);
    rp_tensor_unref(g);
}

static void trajectories_are_those_of_torch(void **state)
{
    (void)state;
    static const char *const devices[] = { "cpu", "sim" };
    json_t *all = golden();
    const char *name;
    json_t *c;

    for (int d = 0; d < RP_COUNT(devices); d++) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = devices[d] });
        json_object_foreach(json_object_get(all, "cases"), name, c) follow_torch(ctx, all, name, c);
        test_ctx_free(ctx);
    }
    json_decref(all);
}

/* ---- every combination of dtypes ---- */

typedef struct { rp_dtype param, grad, state; bool master, stochastic; const char *name; double momentum; } variant;

enum { N_VARIANTS = 2 * 2 * 2 * 2 * 3 * 3 };

static variant variant_at(int i)
{
    static const struct { const char *name; double momentum; } kinds[] = { { "adamw", 0 }, { "sgd", 0 }, { "sgd", 0.9 } };

    static const rp_dtype states[] = { RP_BF16, RP_F32, RP_U8 };

    return (variant){ i & 1 ? RP_F32 : RP_BF16, i & 2 ? RP_F32 : RP_BF16, states[i / 16 % 3], i & 4, i & 8, kinds[i / 48].name, kinds[i / 48].momentum };
}

typedef struct { double norm; rp_tensor *param; uint64_t hash; } outcome;

static rp_optim_config config_of_variant(const variant *v)
{
    rp_optim_config config = config_of(v->name);
    config.momentum        = v->momentum;
    config.weight_decay    = 0.1;
    config.state_dtype     = v->state;
    config.master_weights  = v->master;
    config.stochastic      = v->stochastic;
    return config;
}

static uint64_t hash_tensor(const rp_tensor *t, uint64_t h) { return rp__hash(test_bytes(t), (size_t)rp_meta_bytes(&t->m), h); }

/* Some steps on a device and kernel table of choice; the hash covers the parameter and every state. */
static outcome run_variant(rp_ctx *ctx, const variant *v, int64_t n, int steps)
{
    rp_optim_config config = config_of_variant(v);
    outcome out  = { .param = make(ctx, v->param, n, RP_MEM_PARAM), .hash = RP_HASH_START };
    rp_tensor *g = make(ctx, v->grad, n, RP_MEM_GRAD), *t;
    rp_optim *optim;
    const char *name;

    fill_noise(out.param, 1);
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "layers.0.w", .tensor = out.param }, 1, &optim));
    for (int s = 1; s <= steps; s++) {
        fill_noise(g, 100 + (uint32_t)s);
        rp__optim_update(optim, 0, g, &(rp_optim_step){ .step = s, .lr = 1e-2, .grad_scale = 0.5, .measure = true });
    }
    out.norm = rp__optim_norm(optim);
    out.hash = hash_tensor(out.param, out.hash);
    for (int i = 0; (t = rp__optim_tensor(optim, i, &name)); i++) out.hash = hash_tensor(t, out.hash);
    rp__optim_free(optim);
    rp_tensor_unref(g);
    return out;
}

/* One step, so that a bf16 state's rounding cannot drift: fp32 within rounding, bf16 within a step of the last place. */
static void kernels_agree_with_the_reference_in_every_dtype(void **state)
{
    (void)state;
    enum { N = 3 * RP_OPTIM_TILE + 77 };
    rp_ctx *fast = test_ctx(&(rp_ctx_options){ .device = "cpu" }), *slow = test_ctx(&(rp_ctx_options){ .device = "sim" });

    for (int k = 0; k < N_VARIANTS; k++) {
        variant v = variant_at(k);
        outcome a = run_variant(fast, &v, N, 1), b = run_variant(slow, &v, N, 1);
        double tolerance = v.param == RP_F32 || v.master ? 2e-6 : 1.0 / 128;
        int64_t differing = 0;
        double *x = test_values(a.param), *y = test_values(b.param);
        for (int64_t i = 0; i < N; i++) {
            differing += x[i] != y[i];
            if (fabs(x[i] - y[i]) > tolerance * fabs(y[i]) + 1e-5 && !(v.param == RP_BF16 && fabs(x[i] - y[i]) <= fabs(y[i]) / 128))
                fail_msg("variant %d, element %d: %.9g, the reference has %.9g", k, (int)i, x[i], y[i]);
        }
        free(x);
        free(y);
        if (v.param == RP_BF16) assert_true(differing < N / 100);
        assert_true(fabs(a.norm - b.norm) <= 1e-12 * b.norm);
        rp_tensor_unref(a.param);
        rp_tensor_unref(b.param);
    }
    test_ctx_free(fast);
    test_ctx_free(slow);
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { N = 9 * RP_OPTIM_TILE + 5 };

    for (int k = 0; k < N_VARIANTS; k++) {
        variant v = variant_at(k);
        uint64_t hash = 0;
        double norm   = 0;
        for (int threads = 1; threads <= 3; threads++) {
            rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = threads });
            outcome o   = run_variant(ctx, &v, N, 3);
            if (threads > 1) assert_true(o.hash == hash && o.norm == norm);
            hash = o.hash;
            norm = o.norm;
            rp_tensor_unref(o.param);
            test_ctx_free(ctx);
        }
    }
}

/* ---- slices ---- */

typedef struct { rp_optim *optim; rp_tensor *param, *grad; } updated;

static void put_slice(rp_tensor *t, rp_slice slice, uint32_t salt)
{
    double *v = test_room(t);

    for (int64_t i = 0; i < slice.room; i++) v[i] = i < slice.count ? noise(slice.first + i, salt) : NAN;
    test_put(t, v);
}

/* Elements of a parameter of n, stepped three times; beyond them the tensors have NaN, and keep it. */
static updated run_slice(rp_ctx *ctx, const variant *v, rp_slice slice)
{
    rp_optim_config config = config_of_variant(v);
    updated u = { .param = make(ctx, v->param, slice.room, RP_MEM_PARAM), .grad = make(ctx, v->grad, slice.room, RP_MEM_GRAD) };

    put_slice(u.param, slice, 1);
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "layers.0.w", .tensor = u.param, .slice = slice }, 1, &u.optim));
    for (int s = 1; s <= 3; s++) {
        put_slice(u.grad, slice, 100 + (uint32_t)s);
        rp__optim_update(u.optim, 0, u.grad, &(rp_optim_step){ .step = s, .lr = 1e-2, .grad_scale = 0.5, .measure = true });
    }
    return u;
}

static void drop_updated(updated *u)
{
    rp__optim_free(u->optim);
    rp_tensor_unref(u->param);
    rp_tensor_unref(u->grad);
}

/* Slices of states in 8 bits hold whole blocks. */
static rp_slice slice_for(const variant *v, int64_t n, int rank, int ranks)
{
    int64_t blocks = (n + RP_OPTIM_BLOCK - 1) / RP_OPTIM_BLOCK;

    return v->state == RP_U8 ? rp__slice_at((blocks + ranks - 1) / ranks * RP_OPTIM_BLOCK, n, rank) : rp__slice_of(n, rank, ranks);
}

static void assert_part(const rp_tensor *whole, const rp_tensor *part, rp_slice slice, const char *what)
{
    size_t size = (size_t)rp_dtype_bytes(whole->m.dtype);

    if (memcmp((const char *)test_bytes(part), (const char *)test_bytes(whole) + (size_t)slice.first * size, (size_t)slice.count * size))
        fail_msg("%s: elements [%d, +%d) are not those of the whole", what, (int)slice.first, (int)slice.count);
}

/* Parameter, states and master by name; and the sum of squares, up to the order of sums. */
static void assert_slices_of(rp_ctx *ctx, const variant *v, int64_t n, int ranks)
{
    updated whole = run_slice(ctx, v, (rp_slice){ n, 0, n });
    double sum    = 0;

    for (int rank = 0; rank < ranks; rank++) {
        rp_slice slice = slice_for(v, n, rank, ranks);
        updated part   = run_slice(ctx, v, slice);
        const char *name, *same;
        rp_tensor *t;
        assert_part(whole.param, part.param, slice, "the parameter");
        for (int i = 0; (t = rp__optim_tensor(whole.optim, i, &name)); i++) {
            assert_part(t, rp__optim_tensor(part.optim, i, &same), rp__optim_tensor_slice(part.optim, i, slice), name);
            assert_string_equal(name, same);
            assert_int_equal(rp__optim_tensor_param(part.optim, i), 0);
        }
        for (int64_t i = slice.count; i < slice.room; i++) assert_true(isnan(rp_elem_get(part.param, i)));
        double within = rp__optim_squares(part.optim);
        rp__optim_measure(part.optim, 0, part.grad);
        assert_true(rp__optim_squares(part.optim) == within);
        sum += within;
        drop_updated(&part);
    }
    double all = rp__optim_squares(whole.optim);
    assert_true(fabs(sum - all) <= 1e-12 * all);
    drop_updated(&whole);
}

/* Rounding at random too: the bits of an element go by its place in the whole. */
static void updates_of_slices_are_those_of_the_whole_to_the_bit(void **state)
{
    (void)state;
    static const char *const devices[] = { "cpu", "sim" };
    static const int64_t lengths[]     = { 3 * RP_OPTIM_TILE + 77, 4 * RP_OPTIM_TILE, 40 };         /* 40: most ranks have none in 8 bits */

    for (int d = 0; d < RP_COUNT(devices); d++) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = devices[d] });
        for (int k = 0; k < N_VARIANTS; k++) {
            variant v = variant_at(k);
            for (int i = 0; i < RP_COUNT(lengths); i++) assert_slices_of(ctx, &v, lengths[i], 2 + (k + i) % 4);
        }
        test_ctx_free(ctx);
    }
}

/* ---- rounding ---- */

/* 4096 parameters of 1.0, and an update of a tenth of their last bit: plain rounding never moves, the mean of the other does. */
static double mean_after_small_steps(bool stochastic, uint64_t seed)
{
    enum { N = 4096, STEPS = 20 };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = seed });
    rp_optim_config config = config_of("sgd");
    rp_tensor *p = make(ctx, RP_BF16, N, RP_MEM_PARAM), *g = make(ctx, RP_F32, N, RP_MEM_GRAD);
    rp_optim *optim;
    double sum = 0;

    config.stochastic = stochastic;
    for (int i = 0; i < N; i++) rp_elem_put(p, i, 1);
    for (int i = 0; i < N; i++) rp_elem_put(g, i, -1);
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "w", .tensor = p }, 1, &optim));
    for (int s = 1; s <= STEPS; s++) rp__optim_update(optim, 0, g, &(rp_optim_step){ .step = s, .lr = 0.1 / 128, .grad_scale = 1 });
    for (int i = 0; i < N; i++) sum += rp_elem_get(p, i);
    rp__optim_free(optim);
    rp_tensor_unref(p);
    rp_tensor_unref(g);
    test_ctx_free(ctx);
    return sum / N;
}

static void stochastic_rounding_keeps_the_mean_where_plain_rounding_stands_still(void **state)
{
    (void)state;
    double expected = 1 + 20 * 0.1 / 128, got = mean_after_small_steps(true, 1);

    assert_true(mean_after_small_steps(false, 1) == 1);
    assert_true(fabs(got - expected) < 5 * sqrt(20 * 0.09 / 4096) / 128);
    assert_true(got == mean_after_small_steps(true, 1));
    assert_true(got != mean_after_small_steps(true, 2));
}

static void stochastic_rounding_leaves_representable_and_non_finite_values_alone(void **state)
{
    (void)state;
    static const float values[] = { 0.0f, -0.0f, 1.0f, -3.5f, 0x1p-126f, INFINITY, -INFINITY };

    for (int i = 0; i < RP_COUNT(values); i++)
        for (uint32_t bits = 0; bits < 0x10000; bits += 0xfff)
            assert_int_equal(rp__bf16_stochastic(values[i], bits), rp__bf16_from_f32(values[i]));
    assert_true(isnan(rp__f32_from_bf16(rp__bf16_stochastic(NAN, 0xffff))));
}

static void master_weights_follow_fp32_training_to_the_bit(void **state)
{
    (void)state;
    enum { N = 1000 };
    rp_ctx *ctx = test_ctx(NULL);
    variant with_master = { RP_BF16, RP_BF16, RP_F32, true, false, "adamw", 0 },
            pure = { RP_F32, RP_BF16, RP_F32, false, false, "adamw", 0 };
    rp_tensor *start = make(ctx, RP_BF16, N, RP_MEM_TEMP);
    outcome a = run_variant(ctx, &with_master, N, 0), b = run_variant(ctx, &pure, N, 0);

    rp__tensor_copy(b.param, a.param);      /* both begin at the same bf16 values */
    rp_optim_config config = config_of("adamw");
    rp_optim *one, *two;
    config.master_weights = true;
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "w", .tensor = a.param }, 1, &one));
    assert_ok(ctx, rp__optim_new(ctx, &config, &(rp_optim_param){ .path = "w", .tensor = b.param }, 1, &two));
    for (int s = 1; s <= 30; s++) {
        rp_optim_step step = { .step = s, .lr = 1e-4, .grad_scale = 1 };
        fill_noise(start, (uint32_t)s);
        rp__optim_update(one, 0, start, &step);
        rp__optim_update(two, 0, start, &step);
    }
    for (int i = 0; i < N; i++)
        assert_true(rp_elem_get(a.param, i) == rp__f32_from_bf16(rp__bf16_from_f32((float)rp_elem_get(b.param, i))));
    rp__optim_free(one);
    rp__optim_free(two);
    rp_tensor_unref(a.param);
    rp_tensor_unref(b.param);
    rp_tensor_unref(start);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trajectories_are_those_of_torch),
        cmocka_unit_test(kernels_agree_with_the_reference_in_every_dtype),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(updates_of_slices_are_those_of_the_whole_to_the_bit),
        cmocka_unit_test(stochastic_rounding_keeps_the_mean_where_plain_rounding_stands_still),
        cmocka_unit_test(stochastic_rounding_leaves_representable_and_non_finite_values_alone),
        cmocka_unit_test(master_weights_follow_fp32_training_to_the_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
