/* kernels/cpu/cross_entropy.c -- -log softmax(logits)[label] by rows, and its gradient. A row is one thread's. */
#include "kernels/cpu/softmax.h"

static float logit_at(rp_dtype dtype, const void *logits, int64_t at)
{
    return dtype == RP_F32 ? ((const float *)logits)[at] : rp__f32_from_bf16(((const uint16_t *)logits)[at]);
}

static float row_lse(rp_dtype dtype, const void *logits, int64_t row, int64_t n)
{
    float max, sum = exp_sum(dtype, logits, row, n, &max);

    return max + logf(sum);
}

/* d (+)= factor * (softmax - onehot) of one row; d may be the logits. The label's element is computed apart, before the row is
 * overwritten: (p - 1) is -factor times what the others have, without cancellation where p is near 1. */
static void row_gradient(rp_dtype dtype, const void *logits, int64_t row, int64_t n, int32_t label, float lse, float factor, void *d,
                         rp_dtype d_dtype, bool adds)
{
    float xbuf[BLOCK], dbuf[BLOCK], target = factor * expm1f(logit_at(dtype, logits, row + label) - lse);

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t width  = block_width(at, n);
        const float *x = row_f32(dtype, logits, row + at, width, xbuf);
        float *to      = block_target(d_dtype, d, row + at, adds, dbuf);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) to[i] = factor * fast_exp(x[i] - lse);
        if (label >= at && label < at + width) to[label - at] = target;
        block_done(d_dtype, d, row + at, width, to, adds);
    }
}

static void row_zero(rp_dtype dtype, void *d, int64_t row, int64_t n)
{
    int64_t size = dtype == RP_F32 ? 4 : 2;

    memset((uint8_t *)d + row * size, 0, (size_t)(n * size));
}

void RP_AT_LEVEL(cross_entropy_forward)(rp_dtype dtype, const void *logits, const int32_t *labels, int32_t ignore, float *loss, float *lse,
                                        int64_t rows, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        bool counts = labels[r] != ignore;
        float sum   = counts ? row_lse(dtype, logits, r * n, n) : 0;
        loss[r]     = counts ? sum - logit_at(dtype, logits, r * n + labels[r]) : 0;
        if (lse) lse[r] = sum;
    }
}

void RP_AT_LEVEL(cross_entropy_backward)(rp_dtype dtype, const void *logits, const int32_t *labels, int32_t ignore, const float *lse,
                                         float factor, void *dlogits, rp_dtype dlogits_dtype, bool adds, int64_t rows, int64_t n,
                                         int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        if (labels[r] != ignore) row_gradient(dtype, logits, r * n, n, labels[r], lse[r], factor, dlogits, dlogits_dtype, adds);
        else if (!adds) row_zero(dlogits_dtype, dlogits, r * n, n);
    }
}

void RP_AT_LEVEL(cross_entropy_in_place)(rp_dtype dtype, void *logits, const int32_t *labels, int32_t ignore, float factor, float *loss,
                                         int64_t rows, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        loss[r] = 0;
        if (labels[r] == ignore) {
            row_zero(dtype, logits, r * n, n);
            continue;
        }
        float lse = row_lse(dtype, logits, r * n, n);
        loss[r]   = lse - logit_at(dtype, logits, r * n + labels[r]);
        row_gradient(dtype, logits, r * n, n, labels[r], lse, factor, logits, dtype, false);
    }
}
