/* Claims about checkpointing as a property of modules, and of functions in sequence: what is a region, and what does not know of it. */
#include "bn_mlp.h"
#include "parity/probes.h"
#include "train/temp.h"

/* ---- in sequence ---- */

enum { FUNCTIONS = 5 };

static rp_status logistic_square(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    int *number = user;

    out[0] = then_probe(ctx, "square", 2 * *number + 1, probe(ctx, "logistic", 2 * *number, in[0]));
    return RP_OK;
}

static void a_sequence_takes_the_options_of_a_region(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    rp_checkpoint_function fn[FUNCTIONS];
    rp_checkpoint_options options = { .name = "segment" };
    int number[FUNCTIONS];
    void *user[FUNCTIONS];
    values grad[2];

    assert_ok(ctx, rp_policy_read(ctx, "mine", "[{ op: logistic, fate: keep }]", &options.policy));
    for (int i = 0; i < FUNCTIONS; i++) {
        fn[i]     = logistic_square;
        number[i] = i;
        user[i]   = &number[i];
    }
    for (int policy = 0; policy < 2; policy++) {
        memset(probes.again, 0, sizeof probes.again);
        assert_ok(ctx, rp_checkpoint_sequential(ctx, fn, user, FUNCTIONS, 2, x, policy ? &options : NULL, &y));
        assert_int_equal(saved_bytes(ctx), (policy ? FUNCTIONS : 1) * BYTES);
        assert_ok(ctx, backward_of(ctx, y));
        for (int i = 0; i < FUNCTIONS; i++) assert_int_equal(probes.again[2 * i], policy ? 0 : 1);
        if (policy) assert_string_equal(probes.region[0], "segment");
        grad[policy] = take_grad(x);
    }
    assert_same_values(&grad[1], &grad[0], "the gradient");
    rp_policy_free(options.policy);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static rp_status times_parameter(rp_ctx *ctx, void *w, rp_tensor *const *in, rp_tensor **out)
{
    out[0] = then(ctx, "silu", NULL, call(ctx, "mul", NULL, in[0], w));
    return RP_OK;
}

static void a_sequence_trains_its_parameters_though_its_input_wants_no_gradient(void **state)
{
    (void)state;
    rp_ctx *ctx     = probe_ctx(NULL);
    rp_tensor *x    = drawn(ctx, 1, false), *w[3], *y;
    rp_checkpoint_function fn[3] = { times_parameter, times_parameter, times_parameter };
    values grad[2][3];

    for (uint32_t i = 0; i < 3; i++) w[i] = drawn(ctx, 2 + i, true);
    for (int segments = 1; segments <= 3; segments += 2) {
        assert_ok(ctx, rp_checkpoint_sequential(ctx, fn, (void *const *)w, 3, segments, x, NULL, &y));
        assert_ok(ctx, backward_of(ctx, y));
        for (int i = 0; i < 3; i++) {
            grad[segments == 3][i] = take_grad(w[i]);
            assert_same_values(&grad[segments == 3][i], &grad[0][i], "a parameter's gradient");
        }
    }
    for (int i = 0; i < 3; i++) rp_tensor_unref(w[i]);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* Two squares; the last function but one goes back from what it made, before it is known which functions are one segment. */
static rp_status goes_back(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    int *number   = user;
    rp_tensor *h = NULL, *y = NULL, *loss = NULL;
    rp_status status = RP_OK;

    RP_TRY_GOTO(rp_apply(ctx, "square", number, in, 1, &h));
    RP_TRY_GOTO(rp_apply(ctx, "square", number, &h, 1, &y));
    if (*number == FUNCTIONS - 2) {
        RP_TRY_GOTO(rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &y, 1, &loss));
        rp_tensor_unref(h);
        h = NULL;
        RP_TRY_GOTO(rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &loss, 1, &h));
        RP_TRY_GOTO(rp_backward(ctx, h));
    }
done:
    rp_tensor_unref(h);
    rp_tensor_unref(loss);
    if (status == RP_OK) *out = y;
    else rp_tensor_unref(y);
    return status;
}

static rp_status in_sequence(rp_ctx *ctx, rp_tensor *x, int segments, rp_tensor **y)
{
    static int number[FUNCTIONS] = { 0, 1, 2, 3, 4 };
    static void *const user[FUNCTIONS] = { &number[0], &number[1], &number[2], &number[3], &number[4] };
    rp_checkpoint_function fn[FUNCTIONS] = { goes_back, goes_back, goes_back, goes_back, goes_back };

    if (segments) return rp_checkpoint_sequential(ctx, fn, user, FUNCTIONS, segments, x, NULL, y);
    *y = rp_tensor_ref(x);
    for (int i = 0; i < FUNCTIONS; i++) {
        rp_tensor *next;
        RP_TRY(goes_back(ctx, user[i], y, &next));
        rp_tensor_unref(*y);
        *y = next;
    }
    return RP_OK;
}

static void a_function_of_a_sequence_may_go_back(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    int64_t own  = ledger_of(ctx, 0).live_bytes;
    values grad[FUNCTIONS + 1];
    test_faults f = { 0 };

    /* Without regions the backward inside would end the record: there it is kept. */
    assert_ok(ctx, rp__region_begin(ctx, "all"));
    assert_ok(ctx, in_sequence(ctx, x, 0, &y));
    assert_ok(ctx, rp__region_end(ctx));
    for (int segments = 0; segments <= FUNCTIONS; segments++) {
        if (segments) assert_ok(ctx, in_sequence(ctx, x, segments, &y));
        assert_int_equal(saved_bytes(ctx), segments ? (segments - 1) * BYTES : 0);
        assert_ok(ctx, backward_of(ctx, y));
        grad[segments] = take_grad(x);
        assert_same_values(&grad[segments], &grad[0], "both gradients");
        assert_int_equal(ledger_of(ctx, 0).live_bytes, own);
    }
    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (!test_fault_end(&f, in_sequence(ctx, x, 2, &y))) rp_tensor_unref(y);
        rp_forget(ctx);
        rp_tensor_drop_grad(x);
        assert_int_equal(ledger_of(ctx, 0).live_bytes, own);
    }
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- conditions ---- */

static bool never(const char *path, const rp_module *m, void *n_asked)
{
    (void)path;
    (void)m;
    ++*(int *)n_asked;
    return false;
}

static bool is_root(const char *path, const rp_module *m, void *user)
{
    (void)m;
    (void)user;
    return !*path;
}

static int64_t replayed_in_a_step(bn_mlp *m)
{
    rp_tape_stats stats;
    double loss;

    rp__tape_stats(m->ctx, &stats);
    bn_mlp_step(m, 0, &loss);
    rp__tape_stats(m->ctx, &stats);
    return stats.n_replayed;
}

/* It is asked about each module, and then nothing is a region. */
static void a_condition_that_holds_nowhere_changes_nothing_and_the_root_is_a_region_where_it_holds(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    bn_mlp m    = bn_mlp_new(ctx, &(bn_mlp_options){ 2, 0.1f, RP_F32 });
    int n_asked = 0;

    assert_int_equal(rp_module_checkpoint(m.root, never, &n_asked), 0);
    assert_int_equal(n_asked, 8);               /* root, two of block, linear, norm, and output; not the list */
    assert_int_equal(replayed_in_a_step(&m), 0);
    assert_int_equal(rp_module_checkpoint(m.root, rp__module_is_type, "Block"), 2);
    int64_t blocks = replayed_in_a_step(&m);
    assert_true(blocks > 0);
    rp_module_checkpoint(m.root, NULL, NULL);
    assert_int_equal(replayed_in_a_step(&m), 0);
    rp_module_checkpoint(m.root, is_root, NULL);
    assert_true(replayed_in_a_step(&m) > blocks);
    bn_mlp_free(&m);
    test_ctx_free(ctx);
}

/* Is a module that was called in this pass a region of its own each time? Its weight is one leaf with one gradient. */
static void a_module_called_twice_is_a_region_twice(void **state)
{
    (void)state;
    static const rp_module_kind kind = { .name = "Root" };
    rp_linear_config config          = { .in = COLUMNS, .out = COLUMNS };
    values grad[2][2];

    for (int region = 0; region < 2; region++) {
        rp_ctx *ctx  = probe_ctx(NULL);
        rp_tensor *x = drawn(ctx, 1, true), *h, *y;
        rp_module *root, *linear;
        rp_tape_stats stats;
        assert_ok(ctx, rp__module_new(ctx, NULL, "", &kind, sizeof *root, &root));
        assert_ok(ctx, rp__linear_new(root, "shared", &config, RP_F32, &linear));
        for (int e = 0; e < COLUMNS * COLUMNS; e++) rp_elem_put(linear->param[0].tensor, e, 0.125 * (e % 7) - 0.25);
        if (region) rp_module_checkpoint(root, rp__module_is_type, "Linear");
        assert_ok(ctx, rp__module_call(linear, &x, &h));
        h = then_probe(ctx, "square", 1, h);
        assert_ok(ctx, rp__module_call(linear, &h, &y));
        rp_tensor_unref(h);
        assert_int_equal(rp__region_count(ctx), 2 * region);
        assert_ok(ctx, backward_of(ctx, then_probe(ctx, "square", 2, y)));
        rp__tape_stats(ctx, &stats);
        assert_int_equal(rp_meta_elems(rp_tensor_meta(rp_tensor_grad(linear->param[0].tensor))), COLUMNS * COLUMNS);
        for (int e = 0; e < ELEMS; e++) grad[region][1].at[e] = rp_elem_get(rp_tensor_grad(linear->param[0].tensor), e);
        grad[region][0] = take_grad(x);
        rp_tensor_unref(x);
        rp__module_free(root);
        test_ctx_free(ctx);
    }
    for (int i = 0; i < 2; i++) assert_same_values(&grad[1][i], &grad[0][i], i ? "the shared weight's gradient" : "the gradient");
}

typedef struct { rp_module m; bool fails; } refusing;

static rp_status refuse(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    refusing *r = (refusing *)self;

    out[0] = probe(self->ctx, "square", 2, in[0]);
    if (!r->fails) return RP_OK;
    rp_tensor_unref(out[0]);
    out[0] = NULL;
    return rp_fail(self->ctx, RP_ERR_STATE, "not today");
}

static void an_error_in_a_checkpointed_module_takes_its_calls_back(void **state)
{
    (void)state;
    static const rp_module_kind kind = { .name = "Refusing", .forward = refuse };
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *h, *y = NULL;
    rp_module *root;

    assert_ok(ctx, rp__module_new(ctx, NULL, "", &kind, sizeof(refusing), &root));
    rp_module_checkpoint(root, is_root, NULL);
    h            = probe(ctx, "square", 1, x);
    int64_t live = ledger_of(ctx, 0).live_bytes, saved = saved_bytes(ctx);
    ((refusing *)root)->fails = true;
    assert_int_equal(rp__module_call(root, &h, &y), RP_ERR_STATE);
    assert_null(y);
    assert_null(rp_in_checkpoint(ctx));
    assert_int_equal(ledger_of(ctx, 0).live_bytes, live);
    assert_int_equal(saved_bytes(ctx), saved);
    ((refusing *)root)->fails = false;
    assert_ok(ctx, rp__module_call(root, &h, &y));
    rp_tensor_unref(h);
    assert_ok(ctx, backward_of(ctx, y));
    assert_string_equal(probes.log, "f1 f2 f2 b2 b1 ");
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    rp__module_free(root);
    test_ctx_free(ctx);
}

/* ---- names and files ---- */

#define CONFIG RP_SOURCE_DIR "/recipes/tiny_llama/config.json"

static void join_names(rp_model *model, char *out, size_t room)
{
    const char *path;
    char *text;

    out[0] = 0;
    for (int i = 0; rp_model_param(model, i, &path); i++) snprintf(out + strlen(out), room - strlen(out), "%s\n", path);
    assert_int_equal(rp_module_print(rp_model_root(model), &text), RP_OK);
    snprintf(out + strlen(out), room - strlen(out), "%s", text);
    rp_release(text);
}

static char *whole_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");

    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *bytes     = (size_t)ftell(f);
    char *data = malloc(*bytes);
    rewind(f);
    assert_int_equal(fread(data, 1, *bytes, f), *bytes);
    fclose(f);
    return data;
}

/* Names, the printed tree and the files of a model are the same with checkpointing and without, and either loads into either. */
static void names_and_files_do_not_know_of_checkpointing(void **state)
{
    (void)state;
    static char names[3][32768];
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .seed = 3 });
    temp_dir dir = temp_make();
    char *file[3];
    size_t bytes[3];

    for (int i = 0; i < 3; i++) {
        rp_model_options options = { .dtype = RP_F32, .checkpoint = i == 1 };
        rp_model *model;
        char folder[64];
        snprintf(folder, sizeof folder, "%d", i);
        if (i < 2) assert_ok(ctx, rp_model_new(ctx, CONFIG, &options, &model));
        else assert_ok(ctx, rp_model_load(ctx, temp_path(&dir, "1"), &options, &model));       /* saved with, loaded without */
        join_names(model, names[i], sizeof names[i]);
        assert_int_equal(mkdir(temp_path(&dir, folder), 0700), 0);
        assert_ok(ctx, rp_model_save(model, temp_path(&dir, folder)));
        snprintf(folder, sizeof folder, "%d/model.safetensors", i);
        file[i] = whole_file(temp_path(&dir, folder), &bytes[i]);
        assert_string_equal(names[i], names[0]);
        assert_int_equal(bytes[i], bytes[0]);
        assert_memory_equal(file[i], file[0], bytes[0]);
        rp_model_free(model);
    }
    assert_non_null(strstr(names[0], "layers.3.mlp.down.weight\n"));
    for (int i = 0; i < 3; i++) free(file[i]);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sequence_takes_the_options_of_a_region),
        cmocka_unit_test(a_sequence_trains_its_parameters_though_its_input_wants_no_gradient),
        cmocka_unit_test(a_function_of_a_sequence_may_go_back),
        cmocka_unit_test(a_condition_that_holds_nowhere_changes_nothing_and_the_root_is_a_region_where_it_holds),
        cmocka_unit_test(a_module_called_twice_is_a_region_twice),
        cmocka_unit_test(an_error_in_a_checkpointed_module_takes_its_calls_back),
        cmocka_unit_test(names_and_files_do_not_know_of_checkpointing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
