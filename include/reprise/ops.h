/* ops.h -- the ops that rp_apply knows, and the attributes they take. `reprise ops` prints the table.
 *
 *   op                     inputs                                  out                    attributes
 *   matmul                 x [..., k]  w [k, n] or [n, k]  b [n]?  [..., n]               rp_attr_matmul
 *   weight_norm            w [out, in] or [in, out]  a [r, in]  b [out, r]   [out]         rp_attr_weight_norm
 *   magnitude              x [..., k]  m [k]  n [k]  b [k]?        [..., k]
 *   rmsnorm layernorm      x [..., n]  w [n]  (b [n])              [..., n]               rp_attr_norm
 *   batch_norm             x [N, ..., n]  w [n]  b [n]  mean [n]  var [n]   [N, ..., n]   rp_attr_batch_norm
 *   attention              q [B,T,Hq,D]  k, v [B,S,Hk,D]  doc?     [B,T,Hq,D]             rp_attr_attention
 *   rotary                 x [B,T,H,D]  positions int32 [B,T]  cos, sin fp32 [P, half]   [B,T,H,D]
 *   add mul swiglu         a, b of one shape                       the same
 *   silu relu relu2        x                                       the same
 *   gelu scale             x                                       the same               rp_attr_gelu rp_attr_scale
 *   softcap                x                                       the same               rp_attr_softcap
 *   dropout                x                                       the same               rp_attr_dropout
 *   softmax                x [..., n]                              the same
 *   sum mean max           x                                       without the dimension  rp_attr_dim
 *   concat                 1 to 8 of one shape but for `dim`   joined along it             rp_attr_dim
 *   split                  x                                       up to 8 parts          rp_attr_split
 *   cast                   x                                       another dtype          rp_attr_cast
 *   embedding              table [V, n]  ids int32 [...]           [..., n]
 *   route                  logits [..., n]                         weights, choices int32 [..., k]   rp_attr_route
 *   spread                 x [..., n]  choices int32 [..., k]      rows by expert [R, n]  rp_attr_experts
 *   grouped_matmul         x [R, k]  w [experts, n, k]  choices    [R, n]
 *   combine                y [R, n]  weights  choices [..., k]     [..., n]               rp_attr_experts
 *   expert_load            logits [..., n]  choices  doc?          [2, n]
 *   cross_entropy          logits [..., V]  labels int32 [...]     [1]                    rp_attr_cross_entropy
 *   linear_cross_entropy   x [..., n]  w [V, n]  labels  b [V]?    [1]                    rp_attr_cross_entropy
 *   balance_loss           loss [1]  loads [2, n]  labels          [1]                    rp_attr_balance_loss
 *   all_gather             x [room], this rank's slice; its part?  the whole              rp_attr_whole
 *   all_gather_far         x                                       its part               rp_attr_whole
 *   reduce_scatter         x                                       [room]
 *
 * What has a ? may be left out; it comes last. Norms and softmax are over the last dimension. silu is x / (1 + exp(-x)), swiglu silu(a) b,
 * relu2 max(x, 0)^2. A table's cos and sin are those of positions 0 to P - 1. Floating inputs of a call have one dtype, tables and
 * statistics fp32.
 *
 * Extents may be 0. A sum or a product over nothing is 0: [4, 0] times [0, 8] is zeros. An op that has no value for nothing (max, mean,
 * softmax over no classes) returns RP_ERR_SHAPE.
 *
 * Each src/ops/<name>.c says what it computes, from which paper, and what its backward reads.
 */
#ifndef REPRISE_OPS_H
#define REPRISE_OPS_H

#include "reprise/reprise.h"

/* Plain data without padding bytes that matter: a call keeps a copy. */
typedef struct { bool transpose_w; } rp_attr_matmul;          /* w stored [n, k] (a linear layer) rather than [k, n] */
typedef struct { float factor; bool in_out; } rp_attr_weight_norm;   /* of the rows of w + factor * b a; in_out: w is stored [in, out] */
typedef struct { float eps, plus; } rp_attr_norm;             /* rmsnorm, layernorm; plus: added to each weight of rmsnorm */
/* Over all rows, feature by feature. In train mode the inputs mean and var, fp32 running statistics, move by `momentum`, once a call;
 * else they are read. */
typedef struct { float eps, momentum; } rp_attr_batch_norm;
typedef struct { float factor; } rp_attr_scale;
typedef struct { float cap; } rp_attr_softcap;                /* cap * tanh(x / cap) */
typedef struct { int ndim; int64_t dim[RP_MAX_DIM]; } rp_attr_whole;   /* all_gather, all_gather_far: the shape of what the ranks hold slices of */
typedef struct { float p; } rp_attr_dropout;                  /* probability of zero; acts in train mode */
typedef struct { bool erf; } rp_attr_gelu;                    /* false: tanh approximation */
typedef struct { int dim; } rp_attr_dim;                      /* concat, sum, mean, max; negative counts from the end */
typedef struct { int dim, n; int64_t length[8]; } rp_attr_split;   /* at most 8 parts; lengths add up to the dimension */
typedef struct { int64_t k; bool renormalise; } rp_attr_route;    /* the k largest of n; renormalise: their weights sum to 1 */
typedef struct { int64_t experts; } rp_attr_experts;          /* choices are in [0, experts); R is how many choices there are */
typedef struct { int dtype; } rp_attr_cast;                   /* an rp_dtype */
/* Query t stands at position S - T + t. It sees keys from its doc_start (an optional fourth input [B, T] int32, else 0) to its own position
 * when causal, else to where the next document begins (the next position that is its own doc_start), or to the end; with window w none
 * before position - w + 1. A score s becomes softcap * tanh(s / softcap). dropout acts in train mode. window 0, softcap 0: none. */
typedef struct { float scale, dropout; bool causal; int32_t window; float softcap; } rp_attr_attention;
/* loss = weight * sum of -log p over rows whose label is not ignore_index; the mean over rows is the caller's weight. */
/* Of linear_cross_entropy alone: chunks, the pieces its classes come in, 0: fixed by shape; keeps_logits, not 0: backward is given the
 * logits of forward instead of making them again, for their bytes and with the same bits; classes, not 0: w is this rank's slice [room] of
 * [classes, n], and comes and goes a block at a time; softcap, not 0: a logit z becomes softcap * tanh(z / softcap). */
typedef struct { float weight; int32_t ignore_index; int64_t chunks, keeps_logits, classes; double softcap; } rp_attr_cross_entropy;
/* loss + weight * (labels but ignore_index) * factor * sum over experts of what chose them and what they were given (expert_load). */
typedef struct { double factor; float weight; int32_t ignore_index; } rp_attr_balance_loss;

#endif
