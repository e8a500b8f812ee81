/* Claims about ops on quantised weights: every result has the bits of the same call on the weights dequantised to the dtype of the run. */
/* ctest: level-free */
#include "quant_test.h"

#include "device/emulate/emulate.h"
#include "kernels/kernels.h"
#include "ops/call.h"

enum { MOST_IN = 4 };

typedef struct {
    const char *op, *name;
    const void *attr;
    int n_in, weight;                       /* the input that is quantised */
    int64_t in[MOST_IN][4];
    int ints, limit;                        /* input of integers below limit; 0: none */
    bool no_grad;
} quant_case;

static const rp_attr_cross_entropy loss = { 0.25f, -100, 0, 0, 0, 0, 0 }, chunks = { 0.25f, -100, 3, 0, 0, 0, 0 },
                                   capped = { 0.25f, -100, 3, 1, 0, 2, 0 };

/* Rows are 256 or 1280 wide: a whole number of blocks of every type, and two depth blocks that do not end with one of K. */
static const quant_case cases[] = {
    { "matmul", "few rows", &(rp_attr_matmul){ true }, 2, 1, { { 3, 256 }, { 130, 256 } }, 0, 0, false },
    { "matmul", "rows", &(rp_attr_matmul){ true }, 2, 1, { { 37, 256 }, { 70, 256 } }, 0, 0, false },
    { "matmul", "bias", &(rp_attr_matmul){ true }, 3, 1, { { 2, 9, 512 }, { 33, 512 }, { 33 } }, 0, 0, false },
    { "matmul", "deep", &(rp_attr_matmul){ true }, 2, 1, { { 65, 1280 }, { 50, 1280 } }, 0, 0, false },
    { "matmul", "many columns", &(rp_attr_matmul){ true }, 2, 1, { { 21, 256 }, { 1300, 256 } }, 0, 0, false },
    { "matmul", "plain", &(rp_attr_matmul){ false }, 2, 1, { { 19, 45 }, { 45, 768 } }, 0, 0, false },
    { "matmul", "empty", &(rp_attr_matmul){ true }, 2, 1, { { 0, 256 }, { 5, 256 } }, 0, 0, false },
    { "grouped_matmul", "experts", NULL, 3, 1, { { 45, 256 }, { 5, 37, 256 }, { 45 } }, 2, 5, false },
    { "linear_cross_entropy", "one block", &loss, 3, 1, { { 7, 256 }, { 77, 256 }, { 7 } }, 2, 77, false },
    { "linear_cross_entropy", "three blocks", &chunks, 3, 1, { { 33, 256 }, { 130, 256 }, { 33 } }, 2, 130, false },
    { "linear_cross_entropy", "bias, capped, kept", &capped, 4, 1, { { 33, 512 }, { 100, 512 }, { 33 }, { 100 } }, 2, 100, false },
    { "weight_norm", "an adapter", &(rp_attr_weight_norm){ 1.5f, false }, 3, 0, { { 21, 768 }, { 3, 768 }, { 21, 3 } }, 0, 0, true },
};

typedef struct { rp_op_meta m; rp_tensor *in[MOST_IN], *out[RP_MAX_OUT], *slot[RP_MAX_SLOT], *grad_out[RP_MAX_OUT], *grad_in[RP_MAX_IN]; } run;

static rp_meta meta_of(const quant_case *c, int i, rp_dtype dtype)
{
    rp_meta m = { .dtype = c->ints && i == c->ints ? RP_I32 : dtype };

    while (m.ndim < 4 && (c->in[i][m.ndim] || (!m.ndim && c->in[i][1]))) m.dim[m.ndim] = c->in[i][m.ndim], m.ndim++;
    return m;
}

static rp_tensor *drawn(rp_ctx *ctx, rp_meta m, int limit, unsigned seed)
{
    int64_t n = rp_meta_elems(&m);
    double *v = malloc((size_t)(n + 1) * sizeof *v);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    for (int64_t e = 0; e < n; e++) v[e] = m.dtype == RP_I32 ? (double)(quant_draw(&seed) % (unsigned)limit) : (double)quant_draw(&seed) / 8388608.0 - 1;
    assert_ok(ctx, rp_tensor_write(t, v, n));
    free(v);
    return t;
}

/* Gradients are assigned, or added to what is there. */
static void run_call(run *r, rp_ctx *ctx, const quant_case *c, rp_dtype dtype, rp_tensor *weight, bool adds)
{
    const rp_op *op = rp__op_find(c->op);
    rp_op_call back = { .meta = &r->m };
    bool want[RP_MAX_IN] = { 0 };

    *r = (run){ 0 };
    for (int i = 0; i < c->n_in; i++) {
        r->in[i] = i == c->weight ? rp_tensor_ref(weight) : drawn(ctx, meta_of(c, i, dtype), c->limit, (unsigned)i + 5);
        want[i]  = !c->no_grad && i != c->weight && !(c->ints && i == c->ints);
    }
    assert_ok(ctx, rp__op_prepare(ctx, op, c->attr, r->in, c->n_in, true, want, &r->m));
    if (rp_meta_elems(&r->m.in[0])) assert_false(rp__op_falls_back(&r->m));
    assert_ok(ctx, rp__op_forward(&r->m, (rp_op_stream){ 0 }, false, r->in, r->out, r->slot));
    if (c->no_grad) return;
    r->grad_out[0] = drawn(ctx, r->m.out[0], 0, 77);
    for (int i = 0; i < c->n_in; i++) {
        if (r->m.in_grad[i]) r->grad_in[i] = drawn(ctx, r->m.in[i], 0, 99);
        back.grad_adds[i] = adds;
    }
    memcpy(back.in, r->in, sizeof r->in);
    memcpy(back.out, r->out, sizeof r->out);
    memcpy(back.slot, r->slot, sizeof r->slot);
    memcpy(back.grad_out, r->grad_out, sizeof r->grad_out);
    memcpy(back.grad_in, r->grad_in, sizeof r->grad_in);
    assert_ok(ctx, rp__op_backward(&back));
}

static void run_free(run *r)
{
    for (int i = 0; i < MOST_IN; i++) rp_tensor_unref(r->in[i]);
    for (int i = 0; i < RP_MAX_OUT; i++) rp_tensor_unref(r->out[i]), rp_tensor_unref(r->grad_out[i]);
    for (int i = 0; i < RP_MAX_SLOT; i++) rp_tensor_unref(r->slot[i]);
    for (int i = 0; i < RP_MAX_IN; i++) rp_tensor_unref(r->grad_in[i]);
}

static void assert_same(const quant_case *c, const rp_quant_type *type, rp_dtype dtype, const char *what, const rp_tensor *got, const rp_tensor *expected)
{
    if (!expected) return;
    if (memcmp(test_bytes(got), test_bytes(expected), (size_t)rp_meta_bytes(&expected->m)))
        fail_msg("%s (%s) on %s in %s at %s, %s: %s differs", c->op, c->name, type->name, rp_dtype_name(dtype), rp__kernels(expected->ctx)->level,
                 rp__emulate_schedule_name(rp__emulate_get_schedule()), what);
}

static void check_case(rp_ctx *ctx, const quant_case *c, const rp_quant_type *type, rp_dtype dtype, bool adds)
{
    rp_meta m          = meta_of(c, c->weight, type->dtype);
    rp_tensor *weight = quant_tensor(ctx, &m, 3), *plain = quant_plain(weight, dtype);
    run quant, same;

    run_call(&quant, ctx, c, dtype, weight, adds);
    run_call(&same, ctx, c, dtype, plain, adds);
    assert_int_equal(quant.m.scratch_bytes, same.m.scratch_bytes);
    assert_int_equal(quant.m.scratch_backward_bytes, same.m.scratch_backward_bytes);
    assert_same(c, type, dtype, "the output", quant.out[0], same.out[0]);
    for (int i = 0; i < c->n_in; i++) assert_same(c, type, dtype, "a gradient", quant.grad_in[i], same.grad_in[i]);
    run_free(&quant);
    run_free(&same);
    rp_tensor_unref(weight);
    rp_tensor_unref(plain);
}

/* GPT-2's weights are [in, out], quantised ones [out, in]; sums have the order of the former. */
static void check_turned(rp_ctx *ctx, const rp_quant_type *type, rp_dtype dtype)
{
    enum { OUT = 70, IN = 512 };
    const quant_case norms = { "weight_norm", "in, out", &(rp_attr_weight_norm){ 1.5f, true }, 3, 0, { { OUT, IN }, { 3, IN }, { OUT, 3 } }, 0, 0, true };
    rp_meta m = rp_meta_2d(type->dtype, OUT, IN), turned = rp_meta_2d(dtype, IN, OUT);
    rp_tensor *weight = quant_tensor(ctx, &m, 5), *plain;
    double *v         = malloc(2 * OUT * IN * sizeof *v), *w = v + OUT * IN;
    run quant, same;

    assert_ok(ctx, rp_tensor_read(weight, w, OUT * IN));
    for (int64_t e = 0; e < OUT * IN; e++) v[e % IN * OUT + e / IN] = w[e];
    assert_ok(ctx, rp_tensor_new(ctx, &turned, RP_MEM_PARAM, &plain));
    assert_ok(ctx, rp_tensor_write(plain, v, OUT * IN));
    free(v);
    run_call(&quant, ctx, &norms, dtype, weight, false);
    run_call(&same, ctx, &norms, dtype, plain, false);
    assert_same(&norms, type, dtype, "the output", quant.out[0], same.out[0]);
    run_free(&quant);
    run_free(&same);
    rp_tensor_unref(weight);
    rp_tensor_unref(plain);
}

static void check_level(const rp_kernels *table, int threads)
{
    rp__kernels_force(table);
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = threads });

    for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++)
        for (int i = 0; i < RP_COUNT(cases); i++)
            for (int d = 0; d < 2; d++)
                if (!test_takes_samples() || ((int)t + i + d) % 4 == 0) check_case(ctx, &cases[i], rp__quant_type(t), d ? RP_BF16 : RP_F32, i % 2);
    for (int d = 0; d < 2; d++)
        for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++) check_turned(ctx, rp__quant_type(t), d ? RP_BF16 : RP_F32);
    test_ctx_free(ctx);
    rp__kernels_force(NULL);
}

/* A GPU has kernels of its own, whatever the level of the CPU. */
static int levels_of(const rp_kernels **level)
{
    rp_ctx *ctx = test_ctx(NULL);
    int n       = rp__kernels_levels(level, RP_MAX_LEVELS);
    bool gpu    = ctx->device[0]->runs != NULL;

    test_ctx_free(ctx);
    return gpu ? 1 : n;
}

static void quantised_weights_give_the_bits_of_dequantised_ones_at_every_level(void **state)
{
    (void)state;
    const rp_kernels *level[RP_MAX_LEVELS];
    int n = levels_of(level);

    for (int i = 0; i < n; i++) check_level(level[i], 1 + i % 2);
}

/* ---- the kernels of a GPU ---- */

/* The larger tile of tensor cores, for y = x w' and for dx = dy w. */
static const quant_case large[] = {
    { "matmul", "large tiles", &(rp_attr_matmul){ true }, 2, 1, { { 968, 64 }, { 1096, 64 } }, 0, 0, false },
    { "matmul", "large tiles of dx", &(rp_attr_matmul){ true }, 2, 1, { { 1024, 1024 }, { 24, 1024 } }, 0, 0, false },
};

static void check_schedule(rp_ctx *ctx, rp_emulate_schedule schedule)
{
    rp__emulate_set_schedule(schedule);
    for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++)
        for (int d = 0; d < 2; d++) {
            for (int i = 0; i < RP_COUNT(cases); i++)
                if (!test_takes_samples() || ((int)t + i + d + (int)schedule) % 8 == 0)
                    check_case(ctx, &cases[i], rp__quant_type(t), d ? RP_BF16 : RP_F32, (i + (int)schedule) % 2);
            if (!test_takes_samples() || ((int)t + d) % RP_EMULATE_SCHEDULES == (int)schedule) check_turned(ctx, rp__quant_type(t), d ? RP_BF16 : RP_F32);
        }
}

static void a_gpus_kernels_give_the_bits_of_dequantised_weights_in_every_schedule(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });

    (void)state;
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) check_schedule(ctx, (rp_emulate_schedule)s);
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    test_ctx_free(ctx);
}

static void so_do_a_gpus_large_tiles(void **state)
{
    static const rp_dtype types[][2] = { { RP_Q5_1, RP_NF4 }, { RP_Q6_K, RP_NF4 } };

    (void)state;
    test_leave_to_full();
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });
    rp__emulate_set_schedule(RP_EMULATE_GREEDY);
    for (int i = 0; i < RP_COUNT(large); i++)
        for (int t = 0; t < 2; t++) check_case(ctx, &large[i], rp__quant_type(types[i][t]), RP_BF16, t);
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    test_ctx_free(ctx);
}

/* Each element of a reference decodes a block. */
static const quant_case small[] = {
    { "matmul", "small", &(rp_attr_matmul){ true }, 2, 1, { { 2, 256 }, { 3, 256 } }, 0, 0, false },
    { "grouped_matmul", "small", NULL, 3, 1, { { 4, 256 }, { 2, 3, 256 }, { 4 } }, 2, 2, false },
    { "linear_cross_entropy", "small", &loss, 3, 1, { { 2, 256 }, { 4, 256 }, { 2 } }, 2, 4, false },
    { "weight_norm", "small", &(rp_attr_weight_norm){ 1.5f, false }, 3, 0, { { 2, 256 }, { 1, 256 }, { 2, 1 } }, 0, 0, true },
};


static void references_give_the_bits_of_dequantised_weights(void **state)
{
    (void)state;
    rp__kernels_force(rp__kernels_none());
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu" });
    for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++)
        for (int i = 0; i < RP_COUNT(small); i++)
            for (int d = 0; d < 2; d++) check_case(ctx, &small[i], rp__quant_type(t), d ? RP_BF16 : RP_F32, false);
    test_ctx_free(ctx);
    rp__kernels_force(NULL);
}

/* ---- embedding ---- */

static void check_embedding(rp_ctx *ctx, rp_dtype dtype)
{
    rp_meta m = rp_meta_2d(dtype, 19, 512), ids_meta = rp_meta_1d(RP_I32, 33);
    rp_tensor *table = quant_tensor(ctx, &m, 8), *plain = quant_plain(table, RP_F32), *ids = drawn(ctx, ids_meta, 19, 4), *y = NULL;
    rp_tensor *same = NULL, *slot[RP_MAX_SLOT] = { NULL };
    rp_op_meta call;

    assert_ok(ctx, rp__op_prepare(ctx, rp__op_find("embedding"), NULL, (rp_tensor *[]){ table, ids }, 2, true, NULL, &call));
    assert_int_equal(call.out[0].dtype, RP_F32);
    assert_false(rp__op_falls_back(&call));
    assert_ok(ctx, rp__op_forward(&call, (rp_op_stream){ 0 }, false, (rp_tensor *[]){ table, ids }, &y, slot));
    assert_ok(ctx, rp__op_prepare(ctx, rp__op_find("embedding"), NULL, (rp_tensor *[]){ plain, ids }, 2, true, NULL, &call));
    assert_ok(ctx, rp__op_forward(&call, (rp_op_stream){ 0 }, false, (rp_tensor *[]){ plain, ids }, &same, slot));
    assert_memory_equal(test_bytes(y), test_bytes(same), (size_t)rp_meta_bytes(&same->m));
    rp_tensor *all[] = { table, plain, ids, y, same };
    for (int i = 0; i < RP_COUNT(all); i++) rp_tensor_unref(all[i]);
}

static void rows_of_a_table_on_a_gpu_are_its_numbers(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "emu", .threads = 1 });

    (void)state;
    for (int s = 0; s < RP_EMULATE_SCHEDULES; s++) {
        rp__emulate_set_schedule((rp_emulate_schedule)s);
        for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++) check_embedding(ctx, t);
    }
    rp__emulate_set_schedule(RP_EMULATE_FORWARD);
    test_ctx_free(ctx);
}

static void rows_of_a_quantised_table_are_its_numbers(void **state)
{
    (void)state;
    const rp_kernels *level[RP_MAX_LEVELS + 1];
    int n = levels_of(level);

    level[n++] = rp__kernels_none();
    for (int i = 0; i < n; i++) {
        rp__kernels_force(level[i]);
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu" });
        for (rp_dtype t = RP_Q4_0; t < RP_DTYPES; t++) check_embedding(ctx, t);
        test_ctx_free(ctx);
    }
    rp__kernels_force(NULL);
}

/* ---- refusals ---- */

static void a_quantised_weight_has_no_gradient(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_meta x_meta = rp_meta_2d(RP_F32, 4, 64), w_meta = rp_meta_2d(RP_Q8_0, 6, 64);
    rp_tensor *x, *w;
    rp_op_meta m;

    assert_ok(ctx, rp_tensor_new(ctx, &x_meta, RP_MEM_TEMP, &x));
    assert_ok(ctx, rp_tensor_new(ctx, &w_meta, RP_MEM_PARAM, &w));
    assert_int_equal(rp__op_prepare(ctx, rp__op_find("matmul"), &(rp_attr_matmul){ true }, (rp_tensor *[]){ x, w }, 2, true, (bool[]){ false, true }, &m),
                     RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "matmul: the weight q8_0 [6, 64] is quantised, so it has no gradient");
    assert_int_equal(rp_tensor_require_grad(w, true), RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "rp_tensor_require_grad: q8_0 [6, 64] is quantised, so it cannot be trained");
    assert_int_equal(rp__op_prepare(ctx, rp__op_find("matmul"), &(rp_attr_matmul){ true }, (rp_tensor *[]){ w, w }, 2, true, NULL, &m), RP_ERR_DTYPE);
    assert_int_equal(rp__op_prepare(ctx, rp__op_find("weight_norm"), &(rp_attr_weight_norm){ 1, false }, (rp_tensor *[]){ w, w, x }, 3, true, NULL, &m),
                     RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "weight_norm: w is q8_0 [6, 64], a q8_0 [6, 64] and b fp32 [4, 64], expected one floating dtype");
    rp_tensor_unref(x);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void a_quantised_tensor_is_read_and_counted_but_not_written_or_cut(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu" });
    rp_meta meta = rp_meta_2d(RP_Q4_1, 3, 64), ragged = rp_meta_2d(RP_Q4_1, 3, 48), nf4 = rp_meta_2d(RP_NF4, 257, 64);
    rp_tensor *t = quant_tensor(ctx, &meta, 1), *view;
    double v[192];
    rp_mem mem;

    assert_ok(ctx, rp_tensor_read(t, v, 192));
    rp_mem_read(ctx, 0, false, &mem);
    assert_int_equal(mem.live_at[RP_MEM_PARAM], 3 * 64 / 32 * 20);
    assert_int_equal(rp_meta_bytes(&nf4), 257 * 33 + 2 * 8);
    assert_int_equal(rp_tensor_write(t, v, 192), RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "rp_tensor_write: q4_1 [3, 64] is quantised and cannot be written");
    assert_int_equal(rp_tensor_write_i32(t, (int32_t[192]){ 1 }, 192), RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "rp_tensor_write_i32: q4_1 [3, 64] is quantised and cannot be written");
    assert_int_equal(rp_tensor_slice(t, 0, 1, 1, &view), RP_ERR_DTYPE);
    assert_string_equal(rp_error(ctx), "slice: q4_1 [3, 64] is quantised and has no such views");
    assert_int_equal(rp_tensor_new(ctx, &ragged, RP_MEM_PARAM, &view), RP_ERR_SHAPE);
    assert_string_equal(rp_error(ctx), "rows of q4_1 [3, 48] are not whole blocks of 32 elements");
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantised_weights_give_the_bits_of_dequantised_ones_at_every_level),
        cmocka_unit_test(references_give_the_bits_of_dequantised_weights),
        cmocka_unit_test(a_gpus_kernels_give_the_bits_of_dequantised_weights_in_every_schedule),
        cmocka_unit_test(so_do_a_gpus_large_tiles),
        cmocka_unit_test(rows_of_a_quantised_table_are_its_numbers),
        cmocka_unit_test(rows_of_a_table_on_a_gpu_are_its_numbers),
        cmocka_unit_test(a_quantised_weight_has_no_gradient),
        cmocka_unit_test(a_quantised_tensor_is_read_and_counted_but_not_written_or_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
