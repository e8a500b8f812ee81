/* models/merge.h -- merges an adapter into its layer's weight, one row at a time.
 *
 *   w + scale · b a       fp32: a [r, in] and b [out, r] are converted once; the sum of a row runs over r in order and is rounded once
 *
 * If the weight is stored [in, out], a row of it is a column of b a. With a magnitude m, the sum is multiplied by m / n, where n is the norm of the
 * weight's row with the adapter. This needs one more pass over the weight for the norms before it is written. */
#ifndef RP_MODELS_MERGE_H
#define RP_MODELS_MERGE_H

#include "nn/lora.h"

typedef struct {
    int64_t rank, in, out;
    float scale;
    bool in_out;
    float *a, *b, *delta;               /* a and b complete; delta is one row of the weight's change, scaled */
    int64_t row;                        /* the row that delta holds; -1: none */
    float *magnitude;                   /* [out]; NULL: none. Becomes m / n */
    double *squares;                    /* [out], of the rows so far */
} rp_merge;

/* Merge elements [at, at + n) of the weight, from `from` to `out`, both of `dtype`. */
void rp__merge_elems(rp_merge *merge, rp_dtype dtype, int64_t at, int64_t n, const void *from, void *out);
/* measure adds the squares of elements [at, at + n) to the norms. After all elements, measured converts the magnitudes to factors m / n; norms
 * are rounded to `dtype`, as in the layers. */
void rp__merge_measure(rp_merge *merge, rp_dtype dtype, int64_t at, int64_t n, const void *from);
void rp__merge_measured(rp_merge *merge, rp_dtype dtype);
static inline int64_t rp__merge_width(const rp_merge *m) { return m->in_out ? m->out : m->in; }

#endif
