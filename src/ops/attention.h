/* ops/attention.h -- shared by both implementations of attention: inputs, sizes, and the reference, one query and head at a time in double.
 *
 *   attention.c             shape, cost, and the kernels of kernels/attention.h
 *   attention_reference.c   the reference for tests; it also runs if a last dimension is not dense
 */
#ifndef RP_OPS_ATTENTION_H
#define RP_OPS_ATTENTION_H

#include "ops/common.h"

enum { Q, K, V, DOC };
enum { OUT };
enum { LSE };

/* group: number of heads of q that share one of k and v */
typedef struct { int64_t batch, queries, keys, heads, kv_heads, dim, group; } sizes;

static inline sizes sizes_of(const rp_op_meta *m)
{
    const rp_meta *q = &m->in[Q], *k = &m->in[K];

    return (sizes){ q->dim[0], q->dim[1], k->dim[1], q->dim[2], k->dim[2], q->dim[3], k->dim[2] ? q->dim[2] / k->dim[2] : 1 };
}

static inline float dropout_of(const rp_op_meta *m) { return m->train ? ((const rp_attr_attention *)m->attr)->dropout : 0.0f; }

static inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* For shape: bytes of scratch. */
int64_t rp__reference_attention_scratch(const rp_op_meta *m, bool backward);
void rp__reference_attention(const rp_op_call *c);
void rp__reference_attention_gradients(const rp_op_call *c);

#endif
