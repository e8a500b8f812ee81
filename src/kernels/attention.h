/* kernels/attention.h -- what an attention kernel is told: shapes, where rows lie, what is masked, what is wanted. */
#ifndef RP_KERNELS_ATTENTION_H
#define RP_KERNELS_ATTENTION_H

#include "base/base.h"
#include "base/philox.h"

/* [batch, row, head, dim] with the last dimension dense; the steps are strides in elements. NULL data: not wanted. */
typedef struct {
    rp_dtype dtype;
    void *data;
    int64_t batch_step, row_step, head_step;
    bool adds;                          /* a gradient that is added to */
} rp_attention_part;

typedef struct {
    int64_t batch, queries, keys, heads, kv_heads, dim;
    float scale, dropout, softcap;      /* dropout 0, softcap 0: none; else a score s counts as softcap * tanh(s / softcap) */
    bool causal;
    int64_t window;                     /* 0: none; else a query sees that many keys back, its own included */
    const int32_t *doc_start;           /* NULL: zero everywhere */
    int64_t doc_batch_step, doc_row_step;
    rp_stream stream;
    rp_attention_part q, k, v, out;     /* read, and out written by forward */
    rp_attention_part grad_out, dq, dk, dv;
    float *lse;                         /* [batch, heads, queries]: log of the sum of exp(scores); forward: may be NULL */
    void *scratch;
    rp_on on;
} rp_attention;

#endif
