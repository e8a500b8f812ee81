/* kernels/gpu/attention_args.h -- the arguments of attention: the same bytes for the host, the emulated device and CUDA. */
#ifndef RP_GPU_ATTENTION_ARGS_H
#define RP_GPU_ATTENTION_ARGS_H

#ifndef __CUDACC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"     /* launches are compared by their bytes (device/record.c) */
#endif

#define ATTENTION_TILE 64       /* queries that share an entry of the table of ranges */
#define ATTENTION_STEP_BITS 42

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

typedef struct { attention_part out, g; u64 delta; i64 rows; int queries, heads, dim, dtype, g_dtype, padding; } attention_delta_args;

#ifndef __CUDACC__
#pragma GCC diagnostic pop
#endif

#endif
