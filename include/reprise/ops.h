/* reprise/ops.h -- the ops of rp_apply: inputs, outputs and attributes. `reprise ops` prints what each op saves for backward.
 *
 *   op                     inputs                                  out                    attributes
 *   matmul                 x [..., k]  w [k, n] or [n, k]  b [n]?  [..., n]               rp_attr_matmul
 *   batched_matmul         a [..., m, k]  b [..., k, n]            [..., m, n]            rp_attr_batched_matmul
 *   weight_norm            w [out, in] or [in, out]  a [r, in]  b [out, r]   [out]         rp_attr_weight_norm
 *   magnitude              x [..., k]  m [k]  n [k]  b [k]?        [..., k]
 *   rmsnorm layernorm      x [..., n]  w [n]  (b [n])              [..., n]               rp_attr_norm
 *   batch_norm             x [N, ..., n]  w [n]  b [n]  mean [n]  var [n]   [N, ..., n]   rp_attr_batch_norm
 *   attention              q [B,T,Hq,D]  k, v [B,S,Hk,D]  doc?     [B,T,Hq,D]             rp_attr_attention
 *   rotary                 x [B,T,H,D]  positions int32 [B,T]  cos, sin fp32 [P, half]   [B,T,H,D]
 *   add sub mul div        a, b, which broadcast                   the broadcast shape
 *   where                  mask int32, a, b, which broadcast       the broadcast shape
 *   swiglu                 a, b of one shape                       the same shape
 *   silu relu relu2        x                                       the same shape
 *   tanh sigmoid exp log   x                                       the same shape
 *   gelu scale             x                                       the same shape         rp_attr_gelu rp_attr_scale
 *   softcap                x                                       the same shape         rp_attr_softcap
 *   dropout                x                                       the same shape         rp_attr_dropout
 *   softmax                x [..., n]                              the same shape
 *   sum mean max           x                                       without the dimension  rp_attr_dim
 *   concat                 1 to 8, of one shape except dim         joined along dim       rp_attr_dim
 *   split                  x                                       up to 8 parts          rp_attr_split
 *   cast                   x                                       another dtype          rp_attr_cast
 *   embedding              table [V, n]  ids int32 [...]           [..., n]
 *   gather                 x [.., n, ..]  index int32 [.., m, ..]  [.., m, ..]            rp_attr_dim
 *   route                  logits [..., n]                         weights, choices int32 [..., k]   rp_attr_route
 *   spread                 x [..., n]  choices int32 [..., k]      rows by expert [R, n]  rp_attr_experts
 *   grouped_matmul         x [R, k]  w [experts, n, k]  choices    [R, n]
 *   combine                y [R, n]  weights  choices [..., k]     [..., n]               rp_attr_experts
 *   expert_load            logits [..., n]  choices  doc?          [2, n]
 *   mse                    x, target of one shape                  [1]                    rp_attr_mse
 *   cross_entropy          logits [..., V]  labels int32 [...]     [1]                    rp_attr_cross_entropy
 *   linear_cross_entropy   x [..., n]  w [V, n]  labels  b [V]?    [1]                    rp_attr_cross_entropy
 *   balance_loss           loss [1]  loads [2, n]  labels          [1]                    rp_attr_balance_loss
 *   all_gather             x [room], this rank's slice; its part?  the whole tensor       rp_attr_whole
 *   all_gather_far         x                                       its part               rp_attr_whole
 *   reduce_scatter         x                                       [room]
 *
 * An input with a ? is optional; optional inputs come last. Norms and softmax are over the last dimension. silu is x / (1 + exp(-x)), swiglu is
 * silu(a) * b, relu2 is max(x, 0)^2, sigmoid is 1 / (1 + exp(-x)). Row i of the tables cos and sin belongs to position i (0 to P - 1). All floating
 * inputs of a call have the same dtype; tables and statistics are fp32.
 *
 * Operands broadcast by numpy's rules. Counted from the last, two extents must be equal, or one of them 1 or missing. The same holds for the batch
 * extents of batched_matmul. A gradient is summed over the extents that its operand lacks, in an order that the shapes fix, and rounded once.
 *
 * where returns a where the mask is not 0, and b elsewhere. gather reads x[.., index[.., j, ..], ..] along one dimension. The index has as many
 * dimensions as x; its other extents are x's, or 1 to use an index for all of them.
 *
 * Extents may be 0. A sum or a product over nothing is 0: [4, 0] times [0, 8] is zeros. An op without a value for nothing (max, mean, softmax
 * over no classes) returns RP_ERR_SHAPE.
 *
 * The head of the op's file in src/ops/ has the formula, the paper, and the tensors that backward reads.
 */
#ifndef REPRISE_OPS_H
#define REPRISE_OPS_H

#include "reprise/reprise.h"

/* Attributes are plain data: a call copies their bytes. */
typedef struct { bool transpose_w; } rp_attr_matmul;          /* true: w is stored [n, k] (a linear layer); false: [k, n] */
typedef struct { bool transpose_a, transpose_b; } rp_attr_batched_matmul;   /* true: a is stored [..., k, m], b [..., n, k] */
typedef struct { float factor; bool in_out; } rp_attr_weight_norm;   /* norms of the rows of w + factor * b a; in_out: w is [in, out], unless quantised */
typedef struct { float eps, plus; } rp_attr_norm;             /* rmsnorm, layernorm; plus: added to each weight (rmsnorm only) */
/* Statistics of each feature over all rows. In train mode each call moves the inputs mean and var (fp32 running statistics) by `momentum`;
 * in evaluation mode they are read instead. */
typedef struct { float eps, momentum; } rp_attr_batch_norm;
typedef struct { float factor; } rp_attr_scale;
typedef struct { float cap; } rp_attr_softcap;                /* cap * tanh(x / cap) */
/* all_gather, all_gather_far: shape of the whole tensor of which ranks hold slices. dtype, an rp_dtype: that of a quantised whole whose slices are bytes, x
 * being uint8; otherwise the whole has the dtype of x. */
typedef struct { int ndim; int64_t dim[RP_MAX_DIM]; int dtype; } rp_attr_whole;
typedef struct { float p; } rp_attr_dropout;                  /* probability of setting an element to 0, in train mode */
typedef struct { bool erf; } rp_attr_gelu;                    /* false: tanh approximation */
typedef struct { int dim; } rp_attr_dim;                      /* concat, sum, mean, max, gather; negative: counts from the end */
typedef struct { int dim, n; int64_t length[8]; } rp_attr_split;   /* n parts, at most 8; lengths add up to the dimension */
typedef struct { int64_t k; bool renormalise; } rp_attr_route;    /* choose the k largest of n; renormalise: their weights sum to 1 */
typedef struct { int64_t experts; } rp_attr_experts;          /* choices are in [0, experts); R is the number of choices */
typedef struct { int dtype; } rp_attr_cast;                   /* an rp_dtype */
/* Query t has position S - T + t. The first key it sees is its doc_start (the optional fourth input, int32 [B, T]; default 0). The last one is its own
 * position (causal), or the last before the next document, which begins at a position equal to its own doc_start. A window w hides keys before
 * position - w + 1; 0: no window. softcap: a score s becomes softcap * tanh(s / softcap); 0: no cap. dropout is active in train mode. */
typedef struct { float scale, dropout; bool causal; int32_t window; float softcap; } rp_attr_attention;
typedef struct { float weight; } rp_attr_mse;                 /* loss = weight * sum of (x - target)^2; pass weight = 1 / elements for the mean */
/* loss = weight * sum of -log p over the rows whose label is not ignore_index; pass weight = 1 / rows for the mean. linear_cross_entropy only:
 * chunks: number of blocks of classes, 0: set by the shape. keeps_logits not 0: keep the logits for backward; it uses more memory, saves one
 * product, and gives the same bits. classes not 0: w is this rank's slice [room] of [classes, n], and blocks of it are gathered one at a time.
 * softcap not 0: a logit z becomes softcap * tanh(z / softcap). dtype, an rp_dtype: that of a quantised w whose slice is bytes (uint8). */
typedef struct { float weight; int32_t ignore_index; int64_t chunks, keeps_logits, classes; double softcap; int64_t dtype; } rp_attr_cross_entropy;
/* loss + weight * (number of labels other than ignore_index) * factor * sum over experts of loads[0] * loads[1] (from expert_load). */
typedef struct { double factor; float weight; int32_t ignore_index; } rp_attr_balance_loss;

#endif
