/* Each op against PyTorch's double run of it: value and gradients, in fp64 and with the kernels of fp32, everyday ops also
 * with those of bf16. A further op is a line. */
#include "golden.h"
#include "ops/call.h"

typedef struct {
    const char *name, *op;              /* the case in ops.safetensors, "*_frozen" in evaluation mode; the op in the registry */
    const char *in[RP_MAX_IN];
    const void *attr;
} golden_op;

static const golden_op row[] = {
    { "rmsnorm", "rmsnorm", { "x", "w" }, &(rp_attr_norm){ .eps = 1e-5f } },
    { "rmsnorm_small", "rmsnorm", { "x", "w" }, &(rp_attr_norm){ .eps = 1e-2f } },
    { "rmsnorm_plus", "rmsnorm", { "x", "w" }, &(rp_attr_norm){ 1e-5f, 1 } },
    { "layernorm", "layernorm", { "x", "w", "b" }, &(rp_attr_norm){ .eps = 1e-5f } },
    { "batch_norm", "batch_norm", { "x", "w", "b", "rm", "rv" }, &(rp_attr_batch_norm){ 1e-5f, 0.1f } },
    { "batch_norm_rows", "batch_norm", { "x", "w", "b", "rm", "rv" }, &(rp_attr_batch_norm){ 1e-5f, 0.1f } },
    { "batch_norm_frozen", "batch_norm", { "x", "w", "b", "rm", "rv" }, &(rp_attr_batch_norm){ 1e-5f, 0.1f } },
    { "weight_norm", "weight_norm", { "w", "a", "b" }, &(rp_attr_weight_norm){ 1.5f, false } },
    { "weight_norm_in_out", "weight_norm", { "w", "a", "b" }, &(rp_attr_weight_norm){ 0.75f, true } },
    { "magnitude", "magnitude", { "x", "m", "n", "b" }, NULL },
    { "magnitude_plain", "magnitude", { "x", "m", "n" }, NULL },
    { "softmax", "softmax", { "x" }, &(rp_attr_dim){ -1 } },
    { "gelu_tanh", "gelu", { "x" }, &(rp_attr_gelu){ false } },
    { "gelu_tanh_far", "gelu", { "x" }, &(rp_attr_gelu){ false } },
    { "gelu_erf", "gelu", { "x" }, &(rp_attr_gelu){ true } },
    { "gelu_erf_far", "gelu", { "x" }, &(rp_attr_gelu){ true } },
    { "silu", "silu", { "x" }, NULL },
    { "silu_far", "silu", { "x" }, NULL },
    { "softcap", "softcap", { "x" }, &(rp_attr_softcap){ 1.5f } },
    { "softcap_far", "softcap", { "x" }, &(rp_attr_softcap){ 1.5f } },
    { "tanh", "tanh", { "x" }, NULL },
    { "tanh_far", "tanh", { "x" }, NULL },
    { "sigmoid", "sigmoid", { "x" }, NULL },
    { "sigmoid_far", "sigmoid", { "x" }, NULL },
    { "exp", "exp", { "x" }, NULL },
    { "log", "log", { "x" }, NULL },
    { "add", "add", { "a", "b" }, NULL },
    { "sub", "sub", { "a", "b" }, NULL },
    { "mul", "mul", { "a", "b" }, NULL },
    { "div", "div", { "a", "b" }, NULL },
    { "where", "where", { "mask", "a", "b" }, NULL },
    { "batched_matmul", "batched_matmul", { "a", "b" }, &(rp_attr_batched_matmul){ false, false } },
    { "batched_matmul_turned", "batched_matmul", { "a", "b" }, &(rp_attr_batched_matmul){ true, true } },
    { "gather", "gather", { "x", "index" }, &(rp_attr_dim){ 1 } },
    { "gather_rows", "gather", { "x", "index" }, &(rp_attr_dim){ 0 } },
    { "mse", "mse", { "input", "target" }, &(rp_attr_mse){ 1 / 32.0f } },
    { "swiglu", "swiglu", { "gate", "up" }, NULL },
    { "embedding", "embedding", { "w", "ids" }, NULL },
    { "rope", "rotary", { "x", "positions", "cos", "sin" }, NULL },
    { "cross_entropy", "cross_entropy", { "x", "target" }, &(rp_attr_cross_entropy){ 0.125f, -100, 0, 0, 0, 0, 0 } },
    { "linear_cross_entropy", "linear_cross_entropy", { "x", "w", "target" }, &(rp_attr_cross_entropy){ 0.125f, 7, 0, 0, 0, 0, 0 } },
    { "route", "route", { "x" }, &(rp_attr_route){ 4, false } },
    { "route_renormalised", "route", { "x" }, &(rp_attr_route){ 4, true } },
    { "route_one", "route", { "x" }, &(rp_attr_route){ 1, false } },
    { "spread", "spread", { "x", "choices" }, &(rp_attr_experts){ 6 } },
    { "grouped_matmul", "grouped_matmul", { "x", "w", "choices" }, NULL },
    { "combine", "combine", { "rows", "weights", "choices" }, &(rp_attr_experts){ 6 } },
    { "expert_load", "expert_load", { "x", "choices" }, NULL },
    { "expert_load_padded", "expert_load", { "x", "choices", "starts" }, NULL },
    { "linear_cross_entropy_capped", "linear_cross_entropy", { "x", "w", "target" }, &(rp_attr_cross_entropy){ 0.125f, -100, 0, 0, 0, 1.25, 0 } },
};

/* An input without a gradient in the file wants none: ids, positions, tables. */
static bool has_gradient(const golden *g, const golden_op *r, int i)
{
    char full[128];

    snprintf(full, sizeof full, "%s.g.%s", r->name, r->in[i]);
    return rp__safetensors_find(g->tensors, full) != NULL;
}

static golden_tensor get(const golden *g, const char *name, const char *prefix, const char *tensor)
{
    char full[128];

    snprintf(full, sizeof full, "%s.%s%s", name, prefix, tensor);
    return golden_get(g, full);
}

/* A tensor of the golden's shape; with its values unless `empty`. */
static rp_tensor *tensor_of(rp_ctx *ctx, const golden_tensor *from, rp_dtype dtype, bool empty)
{
    rp_meta m = rp_meta_make(from->is_int ? RP_I32 : dtype, from->ndim, from->dim);
    rp_tensor *t;

    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    if (!empty) assert_ok(ctx, rp_tensor_write(t, from->value, from->elems));
    return t;
}

static void assert_close(const rp_tensor *t, const golden_tensor *want, rp_dtype dtype)
{
    double *got = calloc((size_t)want->elems, sizeof *got);

    assert_non_null(got);
    assert_int_equal(rp_tensor_read(t, got, want->elems), RP_OK);
    assert_rel_l2(got, want, dtype == RP_F64 ? 1e-12 : dtype == RP_F32 ? 1e-6 : 1.5e-2);      /* bf16 rounds inputs, results and dy by up to 2^-9 */
    free(got);
}

static int make_inputs(rp_ctx *ctx, const golden *g, const golden_op *r, rp_dtype dtype, rp_tensor **in, bool *want_grad)
{
    int n = 0;

    for (; n < RP_MAX_IN && r->in[n]; n++) {
        golden_tensor given = get(g, r->name, "", r->in[n]);
        in[n]        = tensor_of(ctx, &given, dtype, false);
        want_grad[n] = has_gradient(g, r, n);
        golden_tensor_free(&given);
    }
    return n;
}

static void compare_gradients(const golden *g, const golden_op *r, rp_dtype dtype, const bool *want_grad, rp_op_call *call)
{
    golden_tensor want[RP_MAX_IN], seed = get(g, r->name, "", "g");

    call->grad_out[0] = tensor_of(call->ctx, &seed, call->meta->out[0].dtype, false);
    for (int i = 0; i < call->meta->n_in; i++) {
        if (!want_grad[i]) continue;
        want[i]          = get(g, r->name, "g.", r->in[i]);
        call->grad_in[i] = tensor_of(call->ctx, &want[i], dtype, true);
    }
    assert_ok(call->ctx, rp__op_backward(call));
    for (int i = 0; i < call->meta->n_in; i++) {
        if (!want_grad[i]) continue;
        assert_close(call->grad_in[i], &want[i], dtype);
        rp_tensor_unref(call->grad_in[i]);
        golden_tensor_free(&want[i]);
    }
    rp_tensor_unref(call->grad_out[0]);
    golden_tensor_free(&seed);
}

/* What the op writes besides its output, after the first call and after one more. */
static void compare_written(const golden *g, const golden_op *r, rp_dtype dtype, rp_op_call *call)
{
    for (int calls = 1; calls <= 2; calls++) {
        for (int i = 0; i < call->meta->n_in; i++) {
            char name[16];
            if (!(call->meta->op->writes_in & RP_IN(i))) continue;
            snprintf(name, sizeof name, "%s.%d", r->in[i], calls);
            golden_tensor want = get(g, r->name, "", name);
            assert_close(call->in[i], &want, dtype);
            golden_tensor_free(&want);
        }
        assert_ok(call->ctx, rp__op_forward(call->meta, call->stream, false, call->in, call->out, call->slot));
    }
}

/* y, and y1, … of an op of several. */
static void compare_outputs(const golden *g, const golden_op *r, rp_dtype dtype, const rp_op_call *call)
{
    for (int j = 0; j < call->meta->n_out; j++) {
        char name[16];
        snprintf(name, sizeof name, j ? "y%d" : "y", j);
        golden_tensor want = get(g, r->name, "", name);
        assert_close(call->out[j], &want, dtype);
        golden_tensor_free(&want);
    }
}

static void compare(rp_ctx *ctx, const golden *g, const golden_op *r, rp_dtype dtype)
{
    const rp_op *op = rp__op_find(r->op);
    bool want_grad[RP_MAX_IN] = { 0 };
    rp_op_meta m;
    rp_op_call call = { .ctx = ctx, .meta = &m, .attr = r->attr };
    int n           = make_inputs(ctx, g, r, dtype, call.in, want_grad);

    assert_non_null(op);
    assert_ok(ctx, rp__op_prepare(ctx, op, r->attr, call.in, n, !rp__ends_with(r->name, "_frozen"), want_grad, &m));
    assert_ok(ctx, rp__op_forward(&m, call.stream, false, call.in, call.out, call.slot));
    compare_outputs(g, r, dtype, &call);
    if (op->backward) compare_gradients(g, r, dtype, want_grad, &call);
    compare_written(g, r, dtype, &call);

    for (int i = 0; i < n; i++) rp_tensor_unref(call.in[i]);
    for (int i = 0; i < m.n_out; i++) rp_tensor_unref(call.out[i]);
    for (int i = 0; i < m.n_slot; i++) rp_tensor_unref(call.slot[i]);
}

/* Of the others the cases compare bf16 with the reference, which is compared with PyTorch. */
static bool is_everyday(const char *op)
{
    static const char *const ops[] = { "gelu", "silu", "swiglu", "softcap", "tanh", "sigmoid", "exp", "log", "add", "sub", "mul", "div", "where", "gather",
                                       "batched_matmul", "mse" };
    bool found = false;

    for (int i = 0; i < RP_COUNT(ops); i++) found = found || !strcmp(ops[i], op);
    return found;
}

static void ops_agree_with_pytorch_in(rp_dtype dtype)
{
    rp_ctx *ctx = test_ctx(NULL);
    golden *g   = golden_open(ctx, "ops");

    for (int i = 0; i < RP_COUNT(row); i++)
        if (dtype != RP_BF16 || is_everyday(row[i].op)) compare(ctx, g, &row[i], dtype);
    golden_close(g);
    test_ctx_free(ctx);
}

static void ops_agree_with_pytorch_in_fp64(void **state)
{
    (void)state;
    ops_agree_with_pytorch_in(RP_F64);
}

static void ops_agree_with_pytorch_in_fp32(void **state)
{
    (void)state;
    ops_agree_with_pytorch_in(RP_F32);
}

static void ops_agree_with_pytorch_in_bf16(void **state)
{
    (void)state;
    ops_agree_with_pytorch_in(RP_BF16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ops_agree_with_pytorch_in_fp64),
        cmocka_unit_test(ops_agree_with_pytorch_in_fp32),
        cmocka_unit_test(ops_agree_with_pytorch_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
