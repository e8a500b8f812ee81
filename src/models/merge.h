/* models/merge.h -- an adapter added into its layer's weight, a row at a time.
 *
 *   w + scale · b a       fp32: a [r, in] and b [out, r] are widened once, a row's sum runs over r in order, and is rounded once
 *
 * Where the weight is stored [in, out] a row of it is a column of b a. With a magnitude the sum is times m / n, n the norm of the weight's row with
 * the adapter in it: the weight is gone through once for the norms before it is written. */
#ifndef RP_MODELS_MERGE_H
#define RP_MODELS_MERGE_H

#include "nn/lora.h"

typedef struct {
    int64_t rank, in, out;
    float scale;
    bool in_out;
    float *a, *b, *delta;               /* whole; of one row of the weight, scaled */
    int64_t row;                        /* that delta is of; -1: none */
    float *magnitude;                   /* [out]; NULL: none. Becomes m / n */
    double *squares;                    /* [out], of the rows so far */
} rp_merge;

/* Elements [at, at + n) of the weight, from where they are to `out`, both of `dtype`. */
void rp__merge_elems(rp_merge *merge, rp_dtype dtype, int64_t at, int64_t n, const void *from, void *out);
/* Elements [at, at + n) go into the squares. When all have, the magnitudes become factors, norms rounded as layers of `dtype` have them. */
void rp__merge_measure(rp_merge *merge, rp_dtype dtype, int64_t at, int64_t n, const void *from);
void rp__merge_measured(rp_merge *merge, rp_dtype dtype);
static inline int64_t rp__merge_width(const rp_merge *m) { return m->in_out ? m->out : m->in; }

#endif
