/* ops/attr.h -- the attributes of ops, as callers fill them. Plain data without padding bytes that matter: a call keeps a copy. */
#ifndef RP_OPS_ATTR_H
#define RP_OPS_ATTR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct { bool transpose_w; } rp_attr_matmul;          /* w stored [n, k] (a linear layer) rather than [k, n] */
typedef struct { float eps; } rp_attr_norm;                   /* rmsnorm, layernorm */
typedef struct { float factor; } rp_attr_scale;
typedef struct { float p; } rp_attr_dropout;                  /* probability of zero; acts in train mode */
typedef struct { bool erf; } rp_attr_gelu;                    /* false: tanh approximation */
typedef struct { int dim; } rp_attr_dim;                      /* concat, sum, mean, max; negative counts from the end */
typedef struct { int dim, n; int64_t length[8]; } rp_attr_split;   /* at most 8 parts; lengths add up to the dimension */
typedef struct { int dtype; } rp_attr_cast;                   /* an rp_dtype */
/* Query t stands at position S - T + t. It sees keys from its doc_start (an optional fourth input [B, T] int32, else 0) to its
 * own position when causal, else to the end; with window w none before position - w + 1. dropout acts in train mode. */
typedef struct { float scale, dropout; bool causal; int32_t window; } rp_attr_attention;   /* window 0: none */
/* mean over rows is the caller's: loss = weight * sum of -log p. */
typedef struct { float weight; int32_t ignore_index; int64_t chunk_rows; } rp_attr_cross_entropy;

#endif
