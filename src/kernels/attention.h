/* kernels/attention.h -- describes one attention call: shapes, strides, masks, and the outputs to compute. */
#ifndef RP_KERNELS_ATTENTION_H
#define RP_KERNELS_ATTENTION_H

#include "base/base.h"
#include "base/philox.h"

/* [batch, row, head, dim] with the last dimension dense; the steps are strides in elements. data NULL: this part is not computed. */
typedef struct {
    rp_dtype dtype;
    void *data;
    int64_t batch_step, row_step, head_step;
    bool adds;                          /* a gradient is added to the destination instead of assigned */
} rp_attention_part;

typedef struct {
    int64_t batch, queries, keys, heads, kv_heads, dim;
    float scale, dropout, softcap;      /* 0: none; with softcap a score s becomes softcap * tanh(s / softcap) */
    bool causal;
    int64_t window;                     /* 0: no limit; else a query sees that many keys up to and including its own position */
    const int32_t *doc_start;           /* NULL: zero everywhere */
    int64_t doc_batch_step, doc_row_step;
    rp_stream stream;
    rp_attention_part q, k, v, out;     /* q, k and v are read; forward writes out */
    rp_attention_part grad_out, dq, dk, dv;
    float *lse;                         /* [batch, heads, queries]: log of the sum of exp(scores); may be NULL in forward */
    void *scratch;
    rp_on on;
} rp_attention;

#endif
