/* kernels/gpu/args.h -- the structs of arguments: the same bytes for the host, the emulated device and CUDA. Addresses of device memory are u64. */
#ifndef RP_GPU_ARGS_H
#define RP_GPU_ARGS_H

#ifndef __CUDACC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"     /* launches are compared by their bytes (device/record.c) */
#endif

/* Elements that a thread handles at a time; `packed` says that all rows can be read as whole packs of 16-byte words. */
#define PACK 8
#define FLAT_THREADS 256        /* of a block of the kernels over single elements */
#define ROW_THREADS 256         /* of a block of the kernels over rows: one row of 256 threads or eight rows of 32 */
#define EXPERTS_THREADS 256
#define MSE_BLOCK 4096          /* RP_MSE_BLOCK */
#define GPU_PARTS 128           /* parts of rows whose sums are added in order */
#define ATTENTION_TILE 64       /* queries that share an entry of the table of ranges */
#define ATTENTION_STEP_BITS 42

/* The step block (device/launch.h). The host writes the values, kernels the results. Numbers of equal size lie together, so there is no padding. */
typedef struct { i64 step, sample_base; } step_stream;                      /* of random numbers: rp_stream */
typedef struct { i64 step; double lr; float rate, unbias, narrow_lr, scale; } step_update;      /* of an optimizer; the step counts from 1 */
/* norm: of the gradients. first_bad: the first loss that is not finite. stopped: updates do nothing, because the loss (1) or the norm (2) is not finite. */
typedef struct { double loss, norm; float clip; int stopped; double first_bad; } step_results;
typedef struct { step_stream stream; step_update update; float weight; int unused; step_results results; } step_block;
typedef struct { u64 loss, results; } step_loss_args;
typedef struct { u64 squares, results; i64 n; double most; } step_norm_args;

/* to (+)= formula(x, y, factor) */
typedef struct { u64 x, y, to; i64 n; float factor; int dtype, to_dtype, adds, packed, padding; } flat_args;
/* Operands that broadcast: rp_spread, with n elements of y. sums: `to` is a gradient of `elems` elements that sums `terms` terms for each, and a block
 * computes `lanes` of them. flat: all operands have y's shape. */
typedef struct {
    u64 dy, a, b, mask, to;
    i64 n, elems, terms, dim[8];
    unsigned has_a, has_b, has_mask, kept;
    int ndim, dtype, to_dtype, adds, sums, flat, packed, lanes;
} spread_args;
typedef struct { u64 gate, up, dy, dgate, dup; i64 n; int dtype, dgate_dtype, dup_dtype, dgate_adds, dup_adds, packed; } swiglu_args;
typedef struct { u64 x, to; i64 rows, n; u64 key, stream; float p, kept; int dtype, to_dtype, adds, packed; } dropout_args;

typedef struct { u64 from, to; i64 from_stride, to_stride, strips, width; int from_dtype, to_dtype, adds, packed; } strips_args;
typedef struct { u64 to; i64 n; float value; int dtype; } fill_args;
typedef struct { u64 parts, to; i64 stride, ranks, n; int dtype, to_dtype, adds, packed; } parts_args;
typedef struct { u64 table, ids, y; i64 count, n; int dtype, packed; } embedding_args;
typedef struct { u64 dy, order, first, dtable; i64 vocab, n; int dtype, dtable_dtype, adds, packed; } embedding_backward_args;
/* rp_gather_shape. from: x or dy; to: y, or the sums of dx in fp32 */
typedef struct { u64 from, index, to; i64 outer, m, n, inner, dim[8]; unsigned has_index; int ndim, dtype, shared, packed, padding; } gather_args;
typedef struct { u64 a, b, sums, d, weight, dloss; i64 n; int dtype, d_dtype, adds, packed; } mse_args;
typedef struct { u64 x, positions, cosine, sine, to; i64 tokens, heads, d, angles, half; float sign; int dtype, to_dtype, adds; } rotary_args;
typedef struct { u64 from, other, place, factor, to; i64 tokens, k, n; int dtype, to_dtype, adds, packed, team, padding; } places_args;

/* Rows of a norm. team: threads of a row. */
typedef struct { u64 x, w, b, y, mean, rstd; i64 rows, n; float eps, plus; int dtype, packed, team, padding; } norm_args;
typedef struct { u64 x, w, mean, rstd, dy, dx; i64 rows, n; float plus; int dtype, dx_dtype, adds, packed, team; } norm_backward_args;
/* Sums over the rows of a part: dw and db; dw alone if db is 0, db alone if x is 0. */
typedef struct { u64 x, mean, rstd, dy, dw, db; i64 rows, n; int parts, dtype, packed, padding; } norm_parts_args;
typedef struct { u64 from, to; i64 n; int parts, to_dtype, adds, padding; } add_parts_args;
typedef struct { u64 x, sum; i64 rows, n; int dtype, sum_dtype, adds, padding; } columns_args;

typedef struct { u64 x, y, which; i64 outer, n, inner; float factor; int dtype, y_dtype, adds, packed, team; } reduce_args;
typedef struct { u64 x, dy, to; i64 rows, n; int dtype, to_dtype, adds, packed, team, padding; } softmax_args;
typedef struct { u64 logits, starts, sums, dx; i64 rows, n, each; int dtype, dx_dtype, adds, packed, team, padding; } softmax_sums_args;
typedef struct { u64 logits, weights, choices, dweights, dlogits; i64 rows, n, k; int dtype, d_dtype, adds, renormalise; } route_args;
typedef struct { u64 choices, first, place; i64 slots; } experts_order_args;
typedef struct { u64 choices, starts, sums, loads; i64 rows, k, n, blocks; } expert_loads_args;
typedef struct { u64 loss, loads, labels, total, dloads, weight; double factor; i64 count, n; int ignore, adds; } balance_args;
typedef struct {
    u64 x, w, b, running_mean, running_var, y, mean, rstd, dy, dx, dw, db;
    i64 rows, n;
    float eps, momentum;
    int train, moves, dtype, dx_dtype, dw_dtype, db_dtype, dx_adds, dw_adds, db_adds, padding;
} batch_norm_args;

/* A tensor [batch, row, head, dim]. `row` and `head` hold the step of a row and of a head, in elements, in bits 0-41. Their bits 42-63 are the low and
 * the high half of the step of the batch. So six tensors fit into 256 bytes of arguments. address 0: the tensor is not computed. */
typedef struct { u64 address, row, head; } attention_part;

typedef struct {
    attention_part q, k, v, g;          /* g: the gradient of the output */
    attention_part first, second;       /* forward: out. backward: dq, or dk and dv */
    u64 lse, delta;                     /* [batch, heads, queries]; delta: sum of out * g */
    u64 ranges, tiles;                  /* of attention_ranges; 0: masks depend on positions alone */
    u64 key, stream;                    /* of dropout; stream: the address of its step_stream */
    int queries, keys, heads, kv_heads, dim, window;
    float scale;                        /* signed: a score is scale * q k */
    /* Tensor cores: 2^(outer * s) = exp(score) for s = q k, -q k (`flipped`) or tanh(inner * q k) (`capped`). Else: score = outer * tanh(inner * q k). */
    float inner, outer;
    float kept;                         /* 1 / (1 - dropout) */
    unsigned limit;                     /* a probability is dropped if its random word is below */
    unsigned char causal, capped, flipped, dtype, g_dtype, first_dtype, second_dtype, first_adds, second_adds, first_paired, second_paired, padding;
} attention_args;

/* ranges[batch, queries]: the keys that a query sees, as two int. tiles[batch, tiles of queries]: a tile_range as four int. */
typedef struct { u64 doc_start, ranges, tiles; i64 doc_batch_step, doc_row_step; int queries, keys, window, causal; } attention_ranges_args;

#define DELTA_TEAM 8            /* threads of a row */
typedef struct { attention_part out, g; u64 delta; i64 rows; int queries, heads, dim, dtype, g_dtype, packed; } attention_delta_args;

/* Rows of logits, or of the classes first … first + n - 1 of wider rows. cap 0: none. */
typedef struct {
    u64 logits, labels, loss, lse, top, sum, picked, d, dloss, weight;      /* weight: the address of a float */
    i64 rows, n, first;
    float cap;
    int ignore, dtype, d_dtype, adds, packed, team, padding;
} loss_args;

/* rows.k; weight: the address of a float */
#define ROWS_THREADS 256
#define ORDER_THREADS 256
typedef struct { u64 top, sum, picked, labels, loss, lse; i64 rows; int ignore, padding; } loss_rows_args;
typedef struct { u64 loss, total, weight; i64 rows; } loss_total_args;
typedef struct { u64 ids, order, first; i64 count, vocab; } order_args;

/* w_dtype: dtype, or a quantised one; then w is [out, in] in any case, and in_out fixes the order of sums alone. */
typedef struct { u64 w, a, b, norm, wide; i64 out, in, rank; float factor; int dtype, w_dtype, in_out, packed, padding; } weight_norm_args;
typedef struct { u64 x, m, n, b, dy, y, dx, dm; i64 rows, k; int dtype, dx_dtype, dm_dtype, dx_adds, dm_adds, padding; } magnitude_args;

/* One tensor's update; the factors are those of kernels/cpu/optim.c. now: the step block. clipped: the gradient's factor is its results.clip. */
typedef struct {
    u64 param, state0, state1, absmax0, absmax1, master, grad, key, now;
    i64 n, first;
    double decay;
    float weight_decay, eps, momentum, w1, b2, w2;
    int param_dtype, grad_dtype, state_dtype, stochastic, clipped, padding;
} optim_args;
typedef struct { u64 from, sums, total; i64 first, n, tiles, length; int dtype, spans; } squares_args;

/* C[m,n] = op(A) op(B). parts > 1: part z, `depth` deep, goes to partial[z], and product_add_parts adds the parts in order. `paired`: two neighbours of
 * a row of C can be written at once. Products of experts have `first`, the address of the start of each expert's rows. sum, if not 0, becomes C + other,
 * or other + C. quant: B is a quantised tensor of this dtype, from element b_first on; 0: it has dtype ab. */
typedef struct {
    u64 A, B, C, bias, partial, first, other, sum;
    i64 m, n, k, depth, experts, b_first;
    int ab, c, transpose_a, transpose_b, adds, parts, paired, other_first, quant, padding;
} product_args;

/* ---- fused launches: fuse.def ---- */

/* Launches of one kernel in one: launch i has item i, and its blocks begin at start[i] of the grid. */
#define MANY 25                 /* of the largest struct in 4,096 bytes; odd, so that there is no padding */
typedef struct { int n, start[MANY]; } many_head;
#define MANY_ARGS(one) typedef struct { many_head head; one item[MANY]; } many_##one;
MANY_ARGS(optim_args)
MANY_ARGS(squares_args)
MANY_ARGS(add_parts_args)
MANY_ARGS(rotary_args)
MANY_ARGS(product_args)

/* x of the norm becomes one + two first. */
typedef struct { norm_args norm; u64 one, two; int packed, padding; } add_norm_args;
/* dx of a norm, in the first `rows` blocks, and the parts of dw and db: blocks of `across` groups of columns for each part. */
typedef struct { norm_backward_args d; norm_parts_args parts; int rows, across; } norm_pair_args;

#ifndef __CUDACC__
#pragma GCC diagnostic pop
#endif

#endif
