/* Claims about the shapes and attributes that ops take: each part of a condition refuses alone, and the bounds themselves are taken. */
/* ctest: device-free */
#include "rp_test.h"

#include <math.h>

#include "reprise/ops.h"

enum { MOST_IN = 6 };

/* Inputs: a letter for the dtype, then sizes; "f 2 3, i 2" is fp32 [2, 3] and int32 [2]. said: a part of the sentence; NULL: it is taken. */
typedef struct { const char *op, *inputs, *said; rp_status status; const void *attr; } one_case;

#define A(type, ...) (&(type){ __VA_ARGS__ })
#define ARG RP_ERR_ARG
#define SHAPE RP_ERR_SHAPE

static int read_inputs(const char *text, rp_meta *m)
{
    int n = 0;
    char *end;

    for (; *text; n++) {
        while (*text == ' ' || *text == ',') text++;
        m[n] = (rp_meta){ .dtype = *text == 'f' ? RP_F32 : *text == 'b' ? RP_BF16 : RP_I32 };
        for (text++; *text == ' '; text = end) m[n].dim[m[n].ndim++] = strtoll(text, &end, 10);
    }
    return n;
}

static rp_status apply(rp_ctx *ctx, const one_case *c)
{
    rp_meta m[MOST_IN] = { 0 };
    rp_tensor *in[MOST_IN] = { NULL }, *out[8] = { NULL };
    int n = read_inputs(c->inputs, m);

    for (int i = 0; i < n; i++) assert_ok(ctx, rp_tensor_new(ctx, &m[i], RP_MEM_TEMP, &in[i]));
    rp_status status = rp_apply(ctx, c->op, c->attr, in, n, out);
    for (int i = 0; i < 8; i++) rp_tensor_unref(out[i]);
    for (int i = 0; i < n; i++) rp_tensor_unref(in[i]);
    return status;
}

#define X4 "f 1 4 2 4, f 1 4 2 4, f 1 4 2 4"
#define LCE(...) A(rp_attr_cross_entropy, .weight = 1, __VA_ARGS__)

static void each_part_of_a_condition_refuses_alone(void **state)
{
    const rp_attr_attention plain = { .scale = 1 };
    const one_case cases[] = {
        { "matmul", "f 4, f 4 3", NULL, RP_OK, A(rp_attr_matmul, false) },
        { "matmul", "f, f 4 3", "expected w [k, n]", SHAPE, A(rp_attr_matmul, false) },
        { "matmul", "f 2 4, f 4", "expected w [k, n]", SHAPE, A(rp_attr_matmul, false) },
        { "matmul", "f 2 4, f 4 3 1", "expected w [k, n]", SHAPE, A(rp_attr_matmul, false) },
        { "matmul", "f 2 4, f 3 4", "expected w [k, n]", SHAPE, A(rp_attr_matmul, false) },
        { "matmul", "f 2 4, f 4 3", "expected w [n, k]", SHAPE, A(rp_attr_matmul, true) },
        { "matmul", "f 2 4, f 4 3, f 3 1", "bias is", SHAPE, A(rp_attr_matmul, false) },
        { "matmul", "f 2 4, f 4 3, f 4", "bias is", SHAPE, A(rp_attr_matmul, false) },
        { "matmul", "f 2 4", "x and w are needed", ARG, A(rp_attr_matmul, false) },
        { "add", "f 2 4, f 4", NULL, RP_OK, NULL },
        { "add", "f 2 1, f 1 4", NULL, RP_OK, NULL },
        { "add", "f, f 2 4", NULL, RP_OK, NULL },
        { "add", "f 2 0, f 1", NULL, RP_OK, NULL },
        { "add", "f 2 4, f 2", "input 1 is", SHAPE, NULL },
        { "add", "f 0 4, f 2 4", "input 1 is", SHAPE, NULL },
        { "add", "f 2 4, b 2 4", "expected one floating dtype", RP_ERR_DTYPE, NULL },
        { "sub", "i 4, i 4", "expected one floating dtype", RP_ERR_DTYPE, NULL },
        { "div", "f 1099511627776 1, f 1 1099511627776", "the size of y", SHAPE, NULL },
        { "where", "i 4, f 2 4, f 2 1", NULL, RP_OK, NULL },
        { "where", "f 4, f 4, f 4", "elements of the mask are", RP_ERR_DTYPE, NULL },
        { "where", "i 4, f 4, b 4", "expected one floating dtype", RP_ERR_DTYPE, NULL },
        { "where", "i 3, f 2 4, f 4", "input 0 is", SHAPE, NULL },
        { "batched_matmul", "f 4 5, f 5 6", NULL, RP_OK, A(rp_attr_batched_matmul, false, false) },
        { "batched_matmul", "f 3 4 5, f 2 1 5 6", NULL, RP_OK, A(rp_attr_batched_matmul, false, false) },
        { "batched_matmul", "f 4 5, f 5", "expected a [..., m, k] and b [..., k, n]", SHAPE, A(rp_attr_batched_matmul, false, false) },
        { "batched_matmul", "f 4 5, f 6 4", "expected a [..., k, m] and b [..., k, n]", SHAPE, A(rp_attr_batched_matmul, true, false) },
        { "batched_matmul", "f 4 5, f 4 6", "expected a [..., k, m] and b [..., n, k]", SHAPE, A(rp_attr_batched_matmul, true, true) },
        { "batched_matmul", "f 2 4 5, f 3 5 6", "do not broadcast", SHAPE, A(rp_attr_batched_matmul, false, false) },
        { "batched_matmul", "f 4 5, b 5 6", "expected the floating dtype", RP_ERR_DTYPE, A(rp_attr_batched_matmul, false, false) },
        { "batched_matmul", "f 1099511627776 1, f 1 1099511627776", "the size of y", SHAPE, A(rp_attr_batched_matmul, false, false) },
        { "gather", "f 5 3, i 2 3", NULL, RP_OK, A(rp_attr_dim, 0) },
        { "gather", "f 5 3, i 2 1", NULL, RP_OK, A(rp_attr_dim, -2) },
        { "gather", "f 5 3, i 2 2", "the index is", SHAPE, A(rp_attr_dim, 0) },
        { "gather", "f 5 3, i 2", "the index is", SHAPE, A(rp_attr_dim, 0) },
        { "gather", "f, i", "has no dimension", SHAPE, A(rp_attr_dim, 0) },
        { "gather", "f 2147483647, i 2", NULL, RP_OK, A(rp_attr_dim, 0) },
        { "gather", "f 2147483648, i 2", "longer than int32", SHAPE, A(rp_attr_dim, 0) },
        { "gather", "f 5, f 2", "indices are", RP_ERR_DTYPE, A(rp_attr_dim, 0) },
        { "gather", "i 5, i 2", "x is", RP_ERR_DTYPE, A(rp_attr_dim, 0) },
        { "mse", "f 2 4, f 2 4", NULL, RP_OK, A(rp_attr_mse, 1) },
        { "mse", "f 2 4, f 4", "expected the shape", SHAPE, A(rp_attr_mse, 1) },
        { "mse", "f 2 4, b 2 4", "expected the floating dtype", RP_ERR_DTYPE, A(rp_attr_mse, 1) },
        { "rmsnorm", "f 2 4, f 4", NULL, RP_OK, A(rp_attr_norm, 1e-5f, 0) },
        { "rmsnorm", "f 2 4, f 4 1", "weight is", SHAPE, A(rp_attr_norm, 1e-5f, 0) },
        { "rmsnorm", "f 2 4, f 5", "weight is", SHAPE, A(rp_attr_norm, 1e-5f, 0) },
        { "rmsnorm", "f 2 0, f 0", "weight is", SHAPE, A(rp_attr_norm, 1e-5f, 0) },
        { "rmsnorm", "f 2 1, f 1", NULL, RP_OK, A(rp_attr_norm, 1e-5f, 0) },
        { "layernorm", "f 2 1, f 1, f 1", NULL, RP_OK, A(rp_attr_norm, 1e-5f, 0) },
        { "layernorm", "f 2 0, f 0, f 0", "weight is", SHAPE, A(rp_attr_norm, 1e-5f, 0) },
        { "layernorm", "f 2 4, f 4 1, f 4", "weight is", SHAPE, A(rp_attr_norm, 1e-5f, 0) },
        { "layernorm", "f 2 4, f 4, f 4 1", "bias is", SHAPE, A(rp_attr_norm, 1e-5f, 0) },
        { "attention", X4, NULL, RP_OK, &plain },
        { "attention", X4, "dropout is", ARG, A(rp_attr_attention, .scale = 1, .dropout = -0.5f) },
        { "attention", X4, "dropout is", ARG, A(rp_attr_attention, .scale = 1, .dropout = 1) },
        { "attention", X4, "dropout is", ARG, A(rp_attr_attention, .scale = 1, .dropout = NAN) },
        { "attention", X4, "window is", ARG, A(rp_attr_attention, .scale = 1, .window = -1) },
        { "attention", X4, "softcap is", ARG, A(rp_attr_attention, .scale = 1, .softcap = INFINITY) },
        { "attention", X4, "softcap is", ARG, A(rp_attr_attention, .scale = 1, .softcap = -1) },
        { "attention", X4, "scale is", ARG, A(rp_attr_attention, .scale = INFINITY) },
        { "attention", "f 1 1 1 1, f 1 1073741822 1 1, f 1 1073741822 1 1", NULL, RP_OK, &plain },
        { "attention", "f 1 1 1 1, f 1 1073741823 1 1, f 1 1073741823 1 1", "too long", SHAPE, &plain },
        { "attention", "f 1 1073741823 1 1, f 1 1 1 1, f 1 1 1 1", "too long", SHAPE, &plain },
        { "attention", "f 2 4 2 4, f 1 4 2 4, f 1 4 2 4", "q is", SHAPE, &plain },
        { "dropout", "f 2 3", NULL, RP_OK, A(rp_attr_dropout, 0) },
        { "dropout", "f 2 3", NULL, RP_OK, A(rp_attr_dropout, 1) },
        { "dropout", "f 2 3", "p is", ARG, A(rp_attr_dropout, -0.1f) },
        { "dropout", "f 2 3", "p is", ARG, A(rp_attr_dropout, NAN) },
        { "dropout", "f 1 131072 131072", NULL, RP_OK, A(rp_attr_dropout, 0.5f) },
        { "dropout", "f 1 131072 131073", "more elements than a random stream", SHAPE, A(rp_attr_dropout, 0.5f) },
        { "softcap", "f 2", "cap is", ARG, A(rp_attr_softcap, INFINITY) },
        { "softcap", "f 2", "cap is", ARG, A(rp_attr_softcap, -1) },
        { "softcap", "f 2", NULL, RP_OK, A(rp_attr_softcap, 1) },
        { "weight_norm", "f 7 5, f 2 5, f 7 2", NULL, RP_OK, A(rp_attr_weight_norm, 1, false) },
        { "weight_norm", "f 5 7, f 2 5, f 7 2", NULL, RP_OK, A(rp_attr_weight_norm, 1, true) },
        { "weight_norm", "f 7 5 1, f 2 5, f 7 2", "expected w", SHAPE, A(rp_attr_weight_norm, 1, false) },
        { "weight_norm", "f 7 5, f 2 5 1, f 7 2", "expected w", SHAPE, A(rp_attr_weight_norm, 1, false) },
        { "weight_norm", "f 7 5, f 2 5, f 7 2 1", "expected w", SHAPE, A(rp_attr_weight_norm, 1, false) },
        { "weight_norm", "f 7 5, f 0 5, f 7 0", "expected w", SHAPE, A(rp_attr_weight_norm, 1, false) },
        { "weight_norm", "f 7 5, f 2 6, f 7 2", "expected w", SHAPE, A(rp_attr_weight_norm, 1, false) },
        { "weight_norm", "f 7 5, f 2 5, f 6 2", "expected w", SHAPE, A(rp_attr_weight_norm, 1, false) },
        { "weight_norm", "f 7 5, f 2 5, f 7 3", "expected w", SHAPE, A(rp_attr_weight_norm, 1, false) },
        { "magnitude", "f 3 4, f 4, f 4", NULL, RP_OK, NULL },
        { "magnitude", "f 3 4, f 4 1, f 4", "input 1 is", SHAPE, NULL },
        { "magnitude", "f 3 4, f 4, f 4 1", "input 2 is", SHAPE, NULL },
        { "magnitude", "f 3 4, f 4", "x, m and n are needed", ARG, NULL },
        { "embedding", "f 5 3, i 2 2", NULL, RP_OK, NULL },
        { "embedding", "f 5 3 1, i 2", "the table is", SHAPE, NULL },
        { "embedding", "f 2147483647 1, i 2", NULL, RP_OK, NULL },
        { "embedding", "f 2147483648 1, i 2", "the table is", SHAPE, NULL },
        { "embedding", "f 5 1, i 2147483647", NULL, RP_OK, NULL },
        { "embedding", "f 5 1, i 2147483648", "ids are", SHAPE, NULL },
        { "rotary", "f 1 2 2 4, i 1 2, f 3 2, f 3 2", NULL, RP_OK, NULL },
        { "rotary", "f 1 2 2 4, i 1 2, f 3 1, f 3 1", NULL, RP_OK, NULL },
        { "rotary", "f 1 2 2, i 1 2, f 3 2, f 3 2", "x is", SHAPE, NULL },
        { "rotary", "f 1 2 2 4, i 2, f 3 2, f 3 2", "positions are", SHAPE, NULL },
        { "rotary", "f 1 2 2 4, i 2 2, f 3 2, f 3 2", "positions are", SHAPE, NULL },
        { "rotary", "f 1 2 2 4, i 1 3, f 3 2, f 3 2", "positions are", SHAPE, NULL },
        { "rotary", "f 1 2 2 4, i 1 2, f 3 2 1, f 3 2 1", "cos is", SHAPE, NULL },
        { "rotary", "f 1 2 2 4, i 1 2, f 3 2, f 4 2", "cos is", SHAPE, NULL },
        { "rotary", "f 1 2 2 4, i 1 2, f 3 3, f 3 3", "cos is", SHAPE, NULL },
        { "route", "f 2 4", NULL, RP_OK, A(rp_attr_route, 4, false) },
        { "route", "f 2 4", NULL, RP_OK, A(rp_attr_route, 1, true) },
        { "route", "f 2 4", "cannot be chosen", SHAPE, A(rp_attr_route, 5, false) },
        { "route", "f", "logits are", SHAPE, A(rp_attr_route, 1, false) },
        { "route", "f 0 2147483648", "logits are", SHAPE, A(rp_attr_route, 1, false) },
        { "spread", "f 4 3, i 4 2", NULL, RP_OK, A(rp_attr_experts, 1) },
        { "spread", "f 4 3, i 4 2", "experts, expected", SHAPE, A(rp_attr_experts, 0) },
        { "spread", "f 4 3, i 4 2", NULL, RP_OK, A(rp_attr_experts, 2147483646) },
        { "spread", "f 4 3, i 4 2", "experts, expected", SHAPE, A(rp_attr_experts, 2147483647) },
        { "spread", "f 4 3, i 6", "choices are", SHAPE, A(rp_attr_experts, 4) },
        { "spread", "f 0 3, i 4 2", "choices are", SHAPE, A(rp_attr_experts, 4) },
        { "grouped_matmul", "f 4 7, f 4 2 7, i 4", NULL, RP_OK, NULL },
        { "grouped_matmul", "f 4 1 7, f 4 2 7, i 4", "expected x", SHAPE, NULL },
        { "grouped_matmul", "f 4 7, f 4 7, i 4", "expected x", SHAPE, NULL },
        { "combine", "f 8 7, f 4 2, i 4 2", NULL, RP_OK, A(rp_attr_experts, 4) },
        { "combine", "f 8 7 1, f 4 2, i 4 2", "expected a row", SHAPE, A(rp_attr_experts, 4) },
        { "combine", "f 1 7, f, i", "expected a row", SHAPE, A(rp_attr_experts, 4) },
        { "expert_load", "f 3 4", "with 0 more inputs", SHAPE, NULL },
        { "expert_load", "f, i 1", "with 1 more inputs", SHAPE, NULL },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3", NULL, RP_OK, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3, f 5", NULL, RP_OK, LCE(.chunks = 1) },
        { "linear_cross_entropy", "f 3 4, f 5 4", "are needed", ARG, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f, f 5 4, i 1", "expected w", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 4 1, i 3", "expected w", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 3, i 3", "expected w", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 0 4, i 3", "expected w", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 1 4, i 3", NULL, RP_OK, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 4", "a label for each row", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3, f 5 1", "bias", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3, f 4", "bias", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3, b 5", "bias", SHAPE, LCE(.chunks = 0) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3", "chunks is", ARG, LCE(.chunks = -1) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3", "softcap is", ARG, LCE(.softcap = -1) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3", "softcap is", ARG, LCE(.softcap = INFINITY) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3", "classes is", ARG, LCE(.classes = -1) },
        { "linear_cross_entropy", "f 3 4, f 5 4, i 3", "classes is", ARG, LCE(.classes = 2147483648) },
        { "balance_loss", "f 1, f 2 4, i 3", NULL, RP_OK, A(rp_attr_balance_loss, 1, 1, -100) },
        { "balance_loss", "f 1 1, f 2 4, i 3", "loss is", SHAPE, A(rp_attr_balance_loss, 1, 1, -100) },
        { "balance_loss", "f 2, f 2 4, i 3", "loss is", SHAPE, A(rp_attr_balance_loss, 1, 1, -100) },
        { "balance_loss", "f 1, f 2 4 1, i 3", "loss is", SHAPE, A(rp_attr_balance_loss, 1, 1, -100) },
        { "balance_loss", "f 1, f 3 4, i 3", "loss is", SHAPE, A(rp_attr_balance_loss, 1, 1, -100) },
        { "all_gather", "f 5 1", "x is", SHAPE, A(rp_attr_whole, 1, { 5 }, 0) },
        { "all_gather", "f 5", "the shape of the whole", ARG, A(rp_attr_whole, 0, { 5 }, 0) },
        { "all_gather", "f 5", "the shape of the whole", ARG, A(rp_attr_whole, RP_MAX_DIM + 1, { 5 }, 0) },
        { "no_such_op", "f 5", "no_such_op", RP_ERR_MATCH, NULL },
        { "relu", "f 5", "attributes are", ARG, A(rp_attr_scale, 1) },
        { "scale", "f 5", "attributes are", ARG, NULL },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1 });

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        const one_case *c = &cases[i];
        rp_status status  = apply(ctx, c);
        if (status != c->status || (c->said && !strstr(rp_error(ctx), c->said)))
            fail_msg("%s %s: status %d: %s", c->op, c->inputs, (int)status, rp_error(ctx));
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_of_a_condition_refuses_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
