/* reprise/calls.h -- a function for each op, whose parameters the compiler checks: rp_matmul(ctx, x, w, b, &attr, &y). Each calls rp_apply.
 *
 *   order     the inputs as reprise/ops.h lists them, the attributes, the output
 *   optional  inputs come last and may be NULL: rp_matmul(ctx, x, w, NULL, &attr, &y)
 *   outputs   rp_concat takes an array of inputs. rp_split and rp_route fill an array, of up to eight tensors and of two
 *   errors    those of rp_apply
 *
 * A test compares this list with the ops of the library. Your own ops are called by rp_apply, or by a line RP_CALL_n of your own.
 */
#ifndef REPRISE_CALLS_H
#define REPRISE_CALLS_H

#include "reprise/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of inputs without those that are NULL at the end. */
static inline int rp_call_inputs(rp_tensor *const *in, int n)
{
    while (n > 0 && !in[n - 1]) n--;
    return n;
}

/* RP_CALL_n: a function with n inputs; RP_CALL_nA: the same with attributes. */
#define RP_CALL_BODY(op, attributes, n, ...) \
    { rp_tensor *in_[] = { __VA_ARGS__ }; return rp_apply(ctx, #op, attributes, in_, rp_call_inputs(in_, n), out); }
#define RP_CALL_1(op, a) static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor **out) RP_CALL_BODY(op, NULL, 1, a)
#define RP_CALL_2(op, a, b) static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor *b, rp_tensor **out) RP_CALL_BODY(op, NULL, 2, a, b)
#define RP_CALL_3(op, a, b, c) \
    static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor *b, rp_tensor *c, rp_tensor **out) RP_CALL_BODY(op, NULL, 3, a, b, c)
#define RP_CALL_4(op, a, b, c, d) \
    static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor *b, rp_tensor *c, rp_tensor *d, rp_tensor **out) \
    RP_CALL_BODY(op, NULL, 4, a, b, c, d)
#define RP_CALL_1A(op, type, a) \
    static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, const type *attr, rp_tensor **out) RP_CALL_BODY(op, attr, 1, a)
#define RP_CALL_2A(op, type, a, b) \
    static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor *b, const type *attr, rp_tensor **out) RP_CALL_BODY(op, attr, 2, a, b)
#define RP_CALL_3A(op, type, a, b, c) \
    static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor *b, rp_tensor *c, const type *attr, rp_tensor **out) \
    RP_CALL_BODY(op, attr, 3, a, b, c)
#define RP_CALL_4A(op, type, a, b, c, d) \
    static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor *b, rp_tensor *c, rp_tensor *d, const type *attr, rp_tensor **out) \
    RP_CALL_BODY(op, attr, 4, a, b, c, d)
#define RP_CALL_5A(op, type, a, b, c, d, e) \
    static inline rp_status rp_##op(rp_ctx *ctx, rp_tensor *a, rp_tensor *b, rp_tensor *c, rp_tensor *d, rp_tensor *e, const type *attr, rp_tensor **out) \
    RP_CALL_BODY(op, attr, 5, a, b, c, d, e)

RP_CALL_3A(matmul, rp_attr_matmul, x, w, bias)
RP_CALL_3A(weight_norm, rp_attr_weight_norm, w, a, b)
RP_CALL_4(magnitude, x, m, n, bias)
RP_CALL_2A(rmsnorm, rp_attr_norm, x, w)
RP_CALL_3A(layernorm, rp_attr_norm, x, w, bias)
RP_CALL_5A(batch_norm, rp_attr_batch_norm, x, w, bias, mean, var)
RP_CALL_4A(attention, rp_attr_attention, q, k, v, doc)
RP_CALL_4(rotary, x, positions, cosines, sines)
RP_CALL_2A(batched_matmul, rp_attr_batched_matmul, a, b)
RP_CALL_2(add, a, b)
RP_CALL_2(mul, a, b)
RP_CALL_2(sub, a, b)
RP_CALL_2(div, a, b)
RP_CALL_3(where, mask, a, b)
RP_CALL_2(swiglu, a, b)
RP_CALL_1(silu, x)
RP_CALL_1(relu, x)
RP_CALL_1(relu2, x)
RP_CALL_1(tanh, x)
RP_CALL_1(sigmoid, x)
RP_CALL_1(exp, x)
RP_CALL_1(log, x)
RP_CALL_1A(gelu, rp_attr_gelu, x)
RP_CALL_1A(scale, rp_attr_scale, x)
RP_CALL_1A(softcap, rp_attr_softcap, x)
RP_CALL_1A(dropout, rp_attr_dropout, x)
RP_CALL_1(softmax, x)
RP_CALL_1A(sum, rp_attr_dim, x)
RP_CALL_1A(mean, rp_attr_dim, x)
RP_CALL_1A(max, rp_attr_dim, x)
RP_CALL_1A(cast, rp_attr_cast, x)
RP_CALL_2(embedding, table, ids)
RP_CALL_2A(gather, rp_attr_dim, x, index)
RP_CALL_2A(spread, rp_attr_experts, x, choices)
RP_CALL_3(grouped_matmul, x, w, choices)
RP_CALL_3A(combine, rp_attr_experts, y, weights, choices)
RP_CALL_3(expert_load, logits, choices, doc)
RP_CALL_2A(mse, rp_attr_mse, x, target)
RP_CALL_2A(cross_entropy, rp_attr_cross_entropy, logits, labels)
RP_CALL_4A(linear_cross_entropy, rp_attr_cross_entropy, x, w, labels, bias)
RP_CALL_3A(balance_loss, rp_attr_balance_loss, loss, loads, labels)
RP_CALL_2A(all_gather, rp_attr_whole, x, part)
RP_CALL_1A(all_gather_far, rp_attr_whole, x)
RP_CALL_1(reduce_scatter, x)
RP_CALL_1A(split, rp_attr_split, x)          /* out: an array with room for attr->n tensors */
RP_CALL_1A(route, rp_attr_route, logits)     /* out: an array with room for the weights and the choices */

static inline rp_status rp_concat(rp_ctx *ctx, rp_tensor *const *in, int n_in, const rp_attr_dim *attr, rp_tensor **out)
{
    return rp_apply(ctx, "concat", attr, in, n_in, out);
}

#ifdef __cplusplus
}
#endif
#endif
