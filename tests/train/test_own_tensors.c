/* Claims about tensors of a program: their names are in messages, their first values depend on seed, name and element alone, and raw bytes are kept. */
#include "rp_test.h"

#include <math.h>

#include "reprise/calls.h"
#include "reprise/train.h"

enum { ROWS = 64, COLUMNS = 128, N = ROWS * COLUMNS };

static const rp_meta META = { RP_F32, 2, { ROWS, COLUMNS } };

static rp_tensor *param(rp_ctx *ctx, const char *name, const rp_meta *meta, rp_init init)
{
    rp_tensor *t;

    assert_ok(ctx, rp_param_new(ctx, name, meta, &init, &t));
    return t;
}

static void take(rp_tensor *t, double *to)
{
    assert_ok(t->ctx, rp_tensor_read(t, to, rp_meta_elems(&t->m)));
    rp_tensor_unref(t);
}

#define assert_refused(ctx, call, status, text) \
    do { \
        assert_int_equal((call), (status)); \
        if (!strstr(rp_error(ctx), (text))) fail_msg("'%s' lacks '%s'", rp_error(ctx), (text)); \
    } while (0)

/* ---- names ---- */

static void messages_have_the_name(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    rp_tensor *w  = param(ctx, "head.weight", &(rp_meta){ RP_F32, 1, { 4 } }, (rp_init){ RP_INIT_ONES, 0, false }), *y, *loss;
    double two[4] = { 2, 2, 2, 2 };

    assert_ok(ctx, rp_apply(ctx, "mul", NULL, (rp_tensor *[]){ w, w }, 2, &y));
    assert_ok(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &y, 1, &loss));
    assert_ok(ctx, rp_tensor_write(w, two, 4));
    assert_refused(ctx, rp_backward(ctx, loss), RP_ERR_MUTATED, "'head.weight' (fp32 [4]) was changed by rp_tensor_write");
    rp_tensor_unref(loss);
    rp_tensor_unref(y);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void a_view_has_the_name_of_its_tensor_and_a_tensor_is_named_once(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    char most[514];
    rp_tensor *t, *view;

    memset(most, 'n', 513);
    most[513] = 0;
    assert_ok(ctx, rp_tensor_new(ctx, &META, RP_MEM_PARAM, &t));
    assert_ok(ctx, rp_tensor_transpose(t, 0, 1, &view));
    assert_string_equal(rp_tensor_name(view), "");
    assert_refused(ctx, rp_tensor_set_name(t, ""), RP_ERR_ARG, "a name has 1 to 512 bytes, not 0");
    assert_refused(ctx, rp_tensor_set_name(t, most), RP_ERR_ARG, "a name has 1 to 512 bytes, not 513");
    assert_ok(ctx, rp_tensor_set_name(view, "w"));
    assert_string_equal(rp_tensor_name(t), "w");
    assert_refused(ctx, rp_tensor_set_name(t, "v"), RP_ERR_STATE, "'w' cannot be named 'v', because it has a name already");
    rp_tensor_unref(t);
    assert_string_equal(rp_tensor_name(view), "w");
    rp_tensor_unref(view);
    assert_string_equal(rp_tensor_name(NULL), "");
    test_ctx_free(ctx);
}

/* ---- first values ---- */

static void first_values_depend_on_seed_name_and_element_alone(void **state)
{
    (void)state;
    static double first[N], other[N];
    rp_ctx *one = test_ctx(&(rp_ctx_options){ .threads = 1, .seed = 3 }), *four = test_ctx(&(rp_ctx_options){ .threads = 4, .seed = 3 });
    rp_ctx *seed     = test_ctx(&(rp_ctx_options){ .threads = 1, .seed = 4 });
    rp_init normal   = { RP_INIT_NORMAL, 0.5, false };
    rp_meta bf16     = { RP_BF16, 1, { N } };
    rp_tensor *alone = param(four, "other", &META, normal);

    take(param(one, "w", &META, normal), first);
    take(param(four, "w", &META, normal), other);
    assert_memory_equal(first, other, sizeof first);
    take(param(four, "w", &bf16, normal), other);
    for (int i = 0; i < N; i++) assert_true(other[i] == (double)rp__f32_from_bf16(rp__bf16_from_f32((float)first[i])));
    take(alone, other);
    assert_true(memcmp(first, other, sizeof first) != 0);
    take(param(seed, "w", &META, normal), other);
    assert_true(memcmp(first, other, sizeof first) != 0);
    test_ctx_free(one);
    test_ctx_free(four);
    test_ctx_free(seed);
}

typedef struct { double mean, deviation, most; } shape;

static shape shape_of(const double *x)
{
    shape s = { 0, 0, 0 };

    for (int i = 0; i < N; i++) s.mean += x[i] / N;
    for (int i = 0; i < N; i++) s.deviation += (x[i] - s.mean) * (x[i] - s.mean) / N;
    for (int i = 0; i < N; i++) s.most = fmax(s.most, fabs(x[i]));
    s.deviation = sqrt(s.deviation);
    return s;
}

/* With N values the deviation is within 4 % of its expectation, and the largest uniform value within 1 % of its bound. */
static void distributions_have_the_documented_widths(void **state)
{
    (void)state;
    static double x[N];
    static const struct { rp_init init; bool normal; double width; } row[] = {
        { { RP_INIT_NORMAL, 0, false }, true, 1 },
        { { RP_INIT_NORMAL, 0.02, false }, true, 0.02 },
        { { RP_INIT_UNIFORM, 0.3, false }, false, 0.3 },
        { { RP_INIT_KAIMING_NORMAL, 0, false }, true, 0.17677669529663687 },      /* sqrt(2 / 64) */
        { { RP_INIT_KAIMING_NORMAL, 0, true }, true, 0.125 },                     /* sqrt(2 / 128) */
        { { RP_INIT_KAIMING_UNIFORM, 1, false }, false, 0.21650635094610965 },    /* sqrt(3 / 64) */
        { { RP_INIT_XAVIER_NORMAL, 0, false }, true, 0.10206207261596575 },       /* sqrt(2 / 192) */
        { { RP_INIT_XAVIER_UNIFORM, 2, true }, false, 0.3535533905932738 },       /* 2 sqrt(6 / 192) */
    };

    rp_ctx *ctx = test_ctx(NULL);
    for (int i = 0; i < RP_COUNT(row); i++) {
        take(param(ctx, "w", &META, row[i].init), x);
        shape s = shape_of(x);
        assert_true(fabs(s.mean) < 0.05 * row[i].width);
        if (row[i].normal) assert_true(fabs(s.deviation - row[i].width) < 0.04 * row[i].width);
        else assert_true(s.most <= row[i].width && s.most > 0.99 * row[i].width);
    }
    test_ctx_free(ctx);
}

static void constants_need_no_name(void **state)
{
    (void)state;
    double x[6];
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *t, *view;

    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F64, 2, { 2, 3 } }, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_init(t, &(rp_init){ .kind = RP_INIT_ONES }));
    assert_ok(ctx, rp_tensor_slice(t, 0, 1, 1, &view));
    assert_ok(ctx, rp_tensor_init(view, NULL));
    assert_ok(ctx, rp_tensor_read(t, x, 6));
    assert_true(x[0] == 1 && x[2] == 1 && x[3] == 0 && x[5] == 0);
    rp_tensor_unref(view);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void wrong_first_values_are_refused(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *t, *view, *ids, *out = NULL;

    assert_ok(ctx, rp_tensor_new(ctx, &META, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_I32, 1, { 4 } }, RP_MEM_TEMP, &ids));
    assert_ok(ctx, rp_tensor_transpose(t, 0, 1, &view));
    assert_refused(ctx, rp_tensor_init(t, &(rp_init){ RP_INIT_NORMAL, 1, false }), RP_ERR_STATE,
                   "fp32 [64, 128] has no name, which its random values depend on: call rp_tensor_set_name");
    assert_refused(ctx, rp_tensor_init(ids, NULL), RP_ERR_DTYPE, "is int32, expected fp32, bf16 or fp64");
    assert_refused(ctx, rp_tensor_init(view, NULL), RP_ERR_SHAPE, "rp_tensor_init: the view fp32 [128, 64]");
    assert_refused(ctx, rp_tensor_init(t, &(rp_init){ .scale = -1 }), RP_ERR_ARG, "the scale -1 is negative or not finite");
    assert_refused(ctx, rp_tensor_init(t, &(rp_init){ (rp_init_kind)8, 0, false }), RP_ERR_ARG, "kind 8 is unknown");
    assert_refused(ctx, rp_param_new(ctx, "b", &(rp_meta){ RP_F32, 1, { 4 } }, &(rp_init){ RP_INIT_KAIMING_NORMAL, 0, false }, &out), RP_ERR_SHAPE,
                   "'b' is fp32 [4], but Kaiming and Xavier need two dimensions or more");
    assert_null(out);
    rp_tensor_unref(view);
    rp_tensor_unref(ids);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void a_parameter_that_cannot_be_made_leaves_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    test_faults f = { 0 };

    while (!f.over) {
        rp_tensor *t = NULL;
        test_fault_begin(&f, ctx);
        rp_status status = rp_param_new(ctx, "w", &META, &(rp_init){ RP_INIT_NORMAL, 0, false }, &t);
        if (test_fault_end(&f, status)) assert_null(t);
        else assert_true(t->requires_grad);
        rp_tensor_unref(t);
    }
    assert_true(f.failed >= 3);
    test_ctx_free(ctx);
}

/* ---- raw bytes ---- */

static void raw_bytes_are_kept(void **state)
{
    (void)state;
    static const rp_dtype dtypes[] = { RP_F32, RP_BF16, RP_I32, RP_F64, RP_U8 };
    rp_ctx *ctx = test_ctx(NULL);

    for (int d = 0; d < RP_COUNT(dtypes); d++) {
        unsigned char from[48], to[48] = { 0 };
        rp_tensor *t;
        for (int i = 0; i < 48; i++) from[i] = (unsigned char)(i * 37 + d);
        assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ dtypes[d], 2, { 2, 3 } }, RP_MEM_TEMP, &t));
        int64_t bytes = rp_meta_bytes(&t->m);
        assert_ok(ctx, rp_tensor_write_raw(t, from, bytes));
        assert_ok(ctx, rp_tensor_read_raw(t, to, bytes));
        assert_memory_equal(from, to, (size_t)bytes);
        rp_tensor_unref(t);
    }
    test_ctx_free(ctx);
}

static void wrong_raw_bytes_are_refused(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL), *shapes = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    char bytes[24] = { 0 };
    rp_tensor *t, *view, *blocks, *empty;

    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F32, 2, { 2, 3 } }, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_Q8_0, 1, { 32 } }, RP_MEM_TEMP, &blocks));
    assert_ok(shapes, rp_tensor_new(shapes, &(rp_meta){ RP_F32, 2, { 2, 3 } }, RP_MEM_TEMP, &empty));
    assert_ok(ctx, rp_tensor_transpose(t, 0, 1, &view));
    assert_refused(ctx, rp_tensor_write_raw(t, bytes, 20), RP_ERR_ARG, "rp_tensor_write_raw: 20 bytes given, fp32 [2, 3] has 24");
    assert_refused(ctx, rp_tensor_read_raw(t, bytes, 20), RP_ERR_ARG, "rp_tensor_read_raw: 20 bytes given, fp32 [2, 3] has 24");
    assert_refused(ctx, rp_tensor_write_raw(view, bytes, 24), RP_ERR_SHAPE, "rp_tensor_write_raw: the view fp32 [3, 2]");
    assert_refused(ctx, rp_tensor_write_raw(blocks, bytes, 34), RP_ERR_DTYPE, "rp_tensor_write_raw: q8_0 [32] is quantised and cannot be written");
    assert_ok(shapes, rp_tensor_write_raw(empty, bytes, 24));
    assert_refused(shapes, rp_tensor_read_raw(empty, bytes, 24), RP_ERR_META, "rp_tensor_read_raw: the tensor 'unnamed' has a shape");
    rp_tensor_unref(empty);
    rp_tensor_unref(view);
    rp_tensor_unref(blocks);
    rp_tensor_unref(t);
    test_ctx_free(shapes);
    test_ctx_free(ctx);
}

/* ---- imported memory ---- */

static void imported_memory_is_read_in_place_and_not_counted(void **state)
{
    (void)state;
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .device = "cpu" });
    float *memory  = aligned_alloc(RP_IMPORT_ALIGNMENT, 256);
    double sums[8] = { 0 };
    rp_tensor *t, *y, *loss;
    rp_mem before, after;

    for (int i = 0; i < 64; i++) memory[i] = (float)i;
    rp_mem_read(ctx, 0, false, &before);
    assert_ok(ctx, rp_tensor_import(ctx, &(rp_meta){ RP_F32, 2, { 8, 8 } }, memory, 256, &t));
    rp_mem_read(ctx, 0, false, &after);
    assert_int_equal(after.live_bytes, before.live_bytes);
    assert_ok(ctx, rp_tensor_set_name(t, "mine"));
    assert_ok(ctx, rp_tensor_require_grad(t, true));
    assert_ok(ctx, rp_mul(ctx, t, t, &y));
    assert_ok(ctx, rp_sum(ctx, y, &(rp_attr_dim){ 1 }, &loss));
    assert_ok(ctx, rp_tensor_read(loss, sums, 8));
    assert_true(sums[0] == 140);
    memory[0] = 10;
    rp_tensor_touch(t);
    rp_tensor_unref(y);
    assert_ok(ctx, rp_sum(ctx, loss, &(rp_attr_dim){ 0 }, &y));
    assert_refused(ctx, rp_backward(ctx, y), RP_ERR_MUTATED, "'mine' (fp32 [8, 8]) was changed by the program, through rp_tensor_touch");
    rp_tensor_unref(y);
    rp_tensor_unref(loss);
    rp_tensor_unref(t);
    assert_true(memory[0] == 10 && memory[63] == 63);
    free(memory);
    test_ctx_free(ctx);
}

/* The record may be the last to hold it. */
static void gradients_reach_imported_parameters(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .device = "cpu", .memory_limit_bytes = 1 << 20 });
    float *memory = aligned_alloc(RP_IMPORT_ALIGNMENT, 64);
    double back[4];
    rp_tensor *t, *w, *y, *loss;

    for (int i = 0; i < 4; i++) memory[i] = (float)(i + 1);
    assert_ok(ctx, rp_tensor_import(ctx, &(rp_meta){ RP_F32, 1, { 4 } }, memory, 16, &t));
    w = param(ctx, "w", &(rp_meta){ RP_F32, 1, { 4 } }, (rp_init){ RP_INIT_ONES, 0, false });
    assert_ok(ctx, rp_mul(ctx, w, t, &y));
    rp_tensor_unref(t);
    assert_ok(ctx, rp_sum(ctx, y, &(rp_attr_dim){ 0 }, &loss));
    rp_tensor_unref(y);
    assert_ok(ctx, rp_backward(ctx, loss));
    assert_ok(ctx, rp_tensor_read(rp_tensor_grad(w), back, 4));
    assert_true(back[0] == 1 && back[3] == 4);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    free(memory);
    test_ctx_free(ctx);
}

static void wrong_memory_is_refused(void **state)
{
    (void)state;
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .device = "cpu" }), *sim = test_ctx(&(rp_ctx_options){ .device = "sim" });
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .shapes_only = true, .device = "cpu" });
    _Alignas(RP_IMPORT_ALIGNMENT) float memory[32] = { 0 };
    const rp_meta meta = { RP_F32, 1, { 4 } };
    rp_tensor *t       = NULL;
    test_faults f      = { 0 };

    assert_refused(ctx, rp_tensor_import(ctx, &meta, memory, 12, &t), RP_ERR_ARG, "rp_tensor_import: 12 bytes given, fp32 [4] has 16");
    assert_refused(ctx, rp_tensor_import(ctx, &meta, memory + 1, 16, &t), RP_ERR_ARG, "is not a multiple of 64");
    assert_refused(sim, rp_tensor_import(sim, &meta, memory, 16, &t), RP_ERR_UNSUPPORTED, "the device 'sim' does not compute in host memory");
    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp_tensor_import(ctx, &meta, memory, 16, &t))) assert_null(t);
    }
    rp_tensor_unref(t);
    assert_ok(shapes, rp_tensor_import(shapes, &meta, NULL, 16, &t));
    assert_null(rp_tensor_peek(t));
    rp_tensor_unref(t);
    test_ctx_free(shapes);
    test_ctx_free(sim);
    test_ctx_free(ctx);
}

/* ---- chains of calls ---- */

static void a_chain_has_the_values_of_single_calls(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = 4 });
    rp_tensor *w, *turned, *product, *row, *loss[2];
    double value[2];

    assert_ok(ctx, rp_param_new(ctx, "w", &(rp_meta){ RP_F32, 2, { 3, 5 } }, &(rp_init){ .kind = RP_INIT_NORMAL }, &w));
    assert_ok(ctx, rp_tensor_transpose(w, 0, 1, &turned));
    assert_ok(ctx, rp_apply(ctx, "matmul", &(rp_attr_matmul){ 0 }, (rp_tensor *[]){ turned, w }, 2, &product));
    assert_ok(ctx, rp_apply(ctx, "max", &(rp_attr_dim){ 1 }, &product, 1, &row));
    assert_ok(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &row, 1, &loss[0]));
    rp_calls x = rp_calls_begin(ctx, w);
    rp_calls_transpose(&x, 0, 1);
    rp_calls_op(&x, "matmul", &(rp_attr_matmul){ 0 }, w);
    rp_calls_op(&x, "max", &(rp_attr_dim){ 1 }, NULL);
    rp_calls_op(&x, "sum", &(rp_attr_dim){ 0 }, NULL);
    assert_ok(ctx, rp_calls_end(&x, &loss[1]));
    assert_null(x.value);
    for (int i = 0; i < 2; i++) assert_ok(ctx, rp_tensor_read(loss[i], &value[i], 1));
    assert_true(value[0] == value[1]);
    rp_tensor *all[] = { w, turned, product, row, loss[0], loss[1] };
    for (int i = 0; i < RP_COUNT(all); i++) rp_tensor_unref(all[i]);
    rp_forget(ctx);
    test_ctx_free(ctx);
}

/* The message is that of the first error, and nothing is left. */
static void the_first_error_ends_a_chain(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tensor *w    = NULL, *end;
    rp_optimizer *o = NULL;

    assert_ok(ctx, rp_param_new(ctx, "w", &(rp_meta){ RP_F32, 2, { 3, 4 } }, NULL, &w));
    assert_ok(ctx, rp_optimizer_new(ctx, &w, 1, &(rp_optimizer_options){ .lr = 1 }, &o));
    for (int which = 0; which < 4; which++) {
        rp_calls x = rp_calls_begin(ctx, which == 3 ? NULL : w);
        if (which == 0) rp_calls_op(&x, "matmul", &(rp_attr_matmul){ 0 }, w);
        if (which == 1) rp_calls_transpose(&x, 0, 7);
        if (which == 2) rp_calls_op(&x, "split", &(rp_attr_split){ .dim = 1, .n = 2, .length = { 1, 3 } }, NULL);
        assert_null(x.value);
        rp_calls_op(&x, "nothing", NULL, NULL);
        rp_calls_transpose(&x, 0, 1);
        rp_status status = which % 2 ? rp_calls_train(&x, o, NULL) : rp_calls_end(&x, &end);
        assert_int_equal(status, which < 2 ? RP_ERR_SHAPE : RP_ERR_ARG);
        assert_non_null(strstr(rp_error(ctx), ((const char *[]){ "matmul", "transpose", "'split' has more than one output", "rp_calls_begin" })[which]));
        if (which % 2 == 0) assert_null(end);
        rp_forget(ctx);
    }
    rp_optimizer_free(o);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_have_the_name),
        cmocka_unit_test(a_view_has_the_name_of_its_tensor_and_a_tensor_is_named_once),
        cmocka_unit_test(first_values_depend_on_seed_name_and_element_alone),
        cmocka_unit_test(distributions_have_the_documented_widths),
        cmocka_unit_test(constants_need_no_name),
        cmocka_unit_test(wrong_first_values_are_refused),
        cmocka_unit_test(a_parameter_that_cannot_be_made_leaves_nothing),
        cmocka_unit_test(raw_bytes_are_kept),
        cmocka_unit_test(wrong_raw_bytes_are_refused),
        cmocka_unit_test(imported_memory_is_read_in_place_and_not_counted),
        cmocka_unit_test(gradients_reach_imported_parameters),
        cmocka_unit_test(wrong_memory_is_refused),
        cmocka_unit_test(a_chain_has_the_values_of_single_calls),
        cmocka_unit_test(the_first_error_ends_a_chain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
