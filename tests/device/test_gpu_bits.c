/* The kernels of GPUs have the bits of the table below: on the emulated GPU with any compiler, and on a card. Each number is a hash of all outputs and
 * gradients of the op's cases, without those that the host computes. After a change of an op's cases or of the order of its sums, the failure prints
 * the new line.
 *
 * Products in bf16 are summed by tensor cores, whose sums are not IEEE. Their hashes are those of the emulated GPU alone; a card must repeat its bits. */
/* ctest: device-free level-free thread-free cost=20 */
#include "ops/cell.h"

#include "ops/op_internal.h"
#include "reprise/ops.h"

#include "draws.h"

/* ---- hashes ---- */

/* sums: by tensor cores. */
typedef struct { const char *op; uint64_t fp32, bf16; bool sums; } golden;

static const golden goldens[] = {
    { "matmul",                0x613260e33400b160, 0x8adda14acd81aa48, true },
    { "batched_matmul",        0xff98de8c1c8da900, 0xe7e8dae08dedce4d, true },
    { "rmsnorm",               0x735cf81a4b4775ec, 0x3b8e618f00d897eb, false },
    { "attention",             0xd33250cb5ead675e, 0x679994160d051229, true },
    { "add",                   0xd1056dfa747ead6f, 0x915b6f8ab20763ea, false },
    { "mul",                   0x6be244ca79103e0a, 0xdd9321cb5192b258, false },
    { "sub",                   0x3cd372775c6a67c8, 0x6c67147e7623d6a9, false },
    { "div",                   0x49ff05d4f97b7077, 0x55a18c855e11bd97, false },
    { "where",                 0xbc0fc52c91b81a4f, 0x591a8393bc68300d, false },
    { "scale",                 0x7c44f94b1fac6c7a, 0x80e8ef79427be0ac, false },
    { "gelu",                  0x64f2dc983b6fea02, 0x337d40ab6f4eff3d, false },
    { "silu",                  0xa682f13fcfb566e1, 0x420f42259649922c, false },
    { "relu",                  0x4e658ea6cc84b754, 0x5903d2aadabe1aec, false },
    { "relu2",                 0x0df185d7f3f3dbf5, 0x944e6ad48706c080, false },
    { "tanh",                  0xa01fa184c3feb059, 0x6adc1a4478f7e4c4, false },
    { "sigmoid",               0x25d6360c72512bba, 0xbd6089dd59c9c0c6, false },
    { "exp",                   0xd9594538678829f4, 0x264915875afaed19, false },
    { "log",                   0xbe2ad70a51650f8b, 0x452122d0f43e4681, false },
    { "swiglu",                0x66f688ef7d540f5d, 0x2f0bbd7ef644b667, false },
    { "dropout",               0x587840a75c09a3c3, 0x8e74d35fa3471d85, false },
    { "cast",                  0x8cb5cb26cf7a36f5, 0x70371ca50fee9d83, false },
    { "concat",                0x0bd049c4111db89b, 0x4f643c4d128fa6af, false },
    { "split",                 0x1fd838796c1e71f5, 0x3f509f9793cefb2f, false },
    { "sum",                   0xd2a0c6cac776ba1a, 0x1f08bff252a11e0b, false },
    { "mean",                  0x61e918f5abff3975, 0x14a8d3a4a709fa59, false },
    { "max",                   0xe9b915a78bc83733, 0xcf39d5e79487ed08, false },
    { "softmax",               0xf8ef1dee3f7d105d, 0xe5354a27f40cc283, false },
    { "softcap",               0x9e4396b30a6f0990, 0x31b489e1f4cc179a, false },
    { "layernorm",             0xe20b12ad10b3067e, 0x1168baf3d784c4b9, false },
    { "batch_norm",            0x653755504b03e801, 0x328d3e224a64076c, false },
    { "weight_norm",           0x87758dd8cfec1aa5, 0x438444dde6f09062, false },
    { "magnitude",             0x4d600f1e35cab529, 0xe424c79fcdde30d5, false },
    { "embedding",             0x51ea1b5485c059bb, 0xa8418eac1708359a, false },
    { "gather",                0x812241f5d33f2f28, 0x15bfe0c2c4ff41e3, false },
    { "rotary",                0xd3711d8602ab10bc, 0xa371e3b8b32b3289, false },
    { "route",                 0xd732f140ff339b17, 0x4af317c80f8b7569, false },
    { "spread",                0xa619ddf4d1e0b751, 0x58b8b0c3e42c2f62, false },
    { "grouped_matmul",        0x3631b4be3e3fb12b, 0x45276d784eb1f4f1, true },
    { "combine",               0x6afee72ca027ec48, 0x1d8cb62f57dc6f0e, false },
    { "expert_load",           0xf7f38e92189d3f3e, 0x3f02f442907f753d, false },
    { "mse",                   0x8d42218a1346b67e, 0x0a22b214bdbe533f, false },
    { "cross_entropy",         0x2240004b6f563d30, 0x5a1cf36333ae3b03, false },
    { "linear_cross_entropy",  0x42a24e46484fb61d, 0xef5ec3cab8bc343d, true },
    { "balance_loss",          0x9512a52842ebe522, 0x9512a52842ebe522, false },
    { "all_gather",            0x39482ff2cba98b82, 0x00f85f05a4d7c2ef, false },
    { "all_gather_far",        0x5e3ccb801fd73ff9, 0xcca55f22f5911e92, false },
    { "reduce_scatter",        0xcd270fe649039361, 0x8e1d62e7f6a4fc4f, false },
};

static uint64_t add_tensors(uint64_t h, rp_tensor *const *t, int n)
{
    for (int i = 0; i < n; i++)
        if (t[i] && t[i]->storage->data) h = rp__hash(test_bytes(t[i]), (size_t)rp_meta_bytes(&t[i]->m), h);
    return h;
}

static uint64_t hash_of(const rp_op *op, rp_dtype dtype)
{
    variant where = { .name = "GPU", .device = test_gpu(), .threads = 2 };
    uint64_t h    = RP_HASH_START;

    for (int i = 0; i < op->n_case; i++) {
        cell at = { .op = op, .test = &op->cases[i], .where = &where, .dtype = dtype };
        one_call c;
        if (at.test->expect != RP_OK) continue;
        at.ctx = cell_ctx(&where, false);
        cell_run(&c, &at, NULL);
        if (rp__op_launches(&c.m)) h = add_tensors(add_tensors(h, c.out, RP_MAX_OUT), c.grad_in, RP_MAX_IN);
        call_free(&c);
        test_ctx_free(at.ctx);
    }
    return h;
}

static const golden *golden_of(const char *op)
{
    static const golden none = { 0 };

    for (int i = 0; i < RP_COUNT(goldens); i++)
        if (!strcmp(goldens[i].op, op)) return &goldens[i];
    return &none;
}

static void check_bits(const rp_op *op)
{
    const golden *want = golden_of(op->name);
    uint64_t fp32      = hash_of(op, RP_F32), bf16 = want->sums && test_is_card() ? want->bf16 : hash_of(op, RP_BF16);

    if (fp32 != want->fp32 || bf16 != want->bf16)
        fail_msg("{ \"%s\", 0x%016" PRIx64 ", 0x%016" PRIx64 ", %s },", op->name, fp32, bf16, want->sums ? "true" : "false");
}

#define RP_OP(name) \
    extern const rp_op rp_op_##name; \
    static void bits_of_##name(void **state) \
    { \
        (void)state; \
        check_bits(&rp_op_##name); \
    }
#include "ops/ops.def"
#undef RP_OP

/* ---- products repeat their bits ---- */

static rp_tensor *drawn_tensor(rp_ctx *ctx, int64_t rows, int64_t columns)
{
    rp_meta meta   = rp_meta_2d(RP_BF16, rows, columns);
    double *values = malloc((size_t)(rows * columns) * sizeof *values);
    draws d        = { (uint64_t)(rows + 7 * columns) };
    rp_tensor *t   = NULL;

    assert_non_null(values);
    for (int64_t i = 0; i < rows * columns; i++) values[i] = (double)draw(&d);
    assert_ok(ctx, rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &t));
    assert_ok(ctx, rp_tensor_write(t, values, rows * columns));
    assert_ok(ctx, rp_tensor_require_grad(t, true));
    free(values);
    return t;
}

/* y = x w^T, and the gradients of the sum of y^2. The memory that they leave holds NaN for the next time. */
static uint64_t product_hash(rp_ctx *ctx, rp_tensor *x, rp_tensor *w)
{
    rp_tensor *y = NULL, *square = NULL, *rows = NULL, *loss = NULL;

    assert_ok(ctx, rp_apply(ctx, "matmul", &(rp_attr_matmul){ true }, (rp_tensor *[]){ x, w }, 2, &y));
    assert_ok(ctx, rp_apply(ctx, "mul", NULL, (rp_tensor *[]){ y, y }, 2, &square));
    assert_ok(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 1 }, &square, 1, &rows));
    assert_ok(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &rows, 1, &loss));
    assert_ok(ctx, rp_backward(ctx, loss));
    rp_tensor *made[] = { y, rp_tensor_grad(x), rp_tensor_grad(w) };
    uint64_t h        = add_tensors(RP_HASH_START, made, 3);
    for (int i = 0; i < 3; i++) test_fill(made[i], 0xff);
    rp_tensor_drop_grad(x), rp_tensor_drop_grad(w);
    rp_tensor_unref(y), rp_tensor_unref(square), rp_tensor_unref(rows), rp_tensor_unref(loss);
    return h;
}

static void products_repeat_their_bits(void **state)
{
    static const int64_t small[][3] = { { 40, 72, 80 }, { 33, 50, 71 } };
    static const int64_t large[][3] = { { 1024, 576, 576 }, { 1024, 576, 1536 }, { 1023, 768, 2304 }, { 512, 768, 50257 }, { 64, 4096, 4096 } };
    const int64_t (*shape)[3]       = test_is_card() ? large : small;
    int n = test_is_card() ? RP_COUNT(large) : RP_COUNT(small), times = test_is_card() ? 20 : 3;

    (void)state;
    for (int i = 0; i < n; i++) {
        rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = test_gpu(), .threads = 2 });
        rp_tensor *x = drawn_tensor(ctx, shape[i][0], shape[i][1]), *w = drawn_tensor(ctx, shape[i][2], shape[i][1]);
        uint64_t first = product_hash(ctx, x, w);
        for (int t = 1; t < times; t++)
            if (product_hash(ctx, x, w) != first) fail_msg("product %d, time %d", i, t);
        rp_tensor_unref(x), rp_tensor_unref(w);
        test_ctx_free(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define RP_OP(name) cmocka_unit_test(bits_of_##name),
#include "ops/ops.def"
#undef RP_OP
        cmocka_unit_test(products_repeat_their_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
