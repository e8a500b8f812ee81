/* kernels/cpu/softmax.c -- softmax over rows. A row is one thread's and is walked in blocks of fixed width. */
#include "kernels/cpu/softmax.h"

void RP_AT_LEVEL(softmax_forward)(rp_dtype dtype, const void *x, void *y, int64_t rows, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        float xbuf[BLOCK], ybuf[BLOCK], max, sum = exp_sum(dtype, x, r * n, n, &max), inverse = 1.0f / sum;
        for (int64_t at = 0; at < n; at += BLOCK) {
            int64_t width   = block_width(at, n);
            const float *xf = row_f32(dtype, x, r * n + at, width, xbuf);
            float *yf       = block_target(dtype, y, r * n + at, false, ybuf);
#pragma omp simd
            for (int64_t i = 0; i < width; i++) yf[i] = fast_exp(xf[i] - max) * inverse;
            block_done(dtype, y, r * n + at, width, yf, false);
        }
    }
}

static float dot_row(rp_dtype dtype, const void *a, const void *b, int64_t row, int64_t n)
{
    float abuf[BLOCK], bbuf[BLOCK], total = 0;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t width   = block_width(at, n);
        const float *af = row_f32(dtype, a, row + at, width, abuf), *bf = row_f32(dtype, b, row + at, width, bbuf);
        float sum       = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; i++) sum += af[i] * bf[i];
        total += sum;
    }
    return total;
}

void RP_AT_LEVEL(softmax_backward)(rp_dtype dtype, const void *y, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t rows,
                                   int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t r = 0; r < rows; r++) {
        float ybuf[BLOCK], gbuf[BLOCK], dbuf[BLOCK], dot = dot_row(dtype, y, dy, r * n, n);
        for (int64_t at = 0; at < n; at += BLOCK) {
            int64_t width   = block_width(at, n);
            const float *yf = row_f32(dtype, y, r * n + at, width, ybuf), *g = row_f32(dtype, dy, r * n + at, width, gbuf);
            float *d        = block_target(dx_dtype, dx, r * n + at, adds, dbuf);
#pragma omp simd
            for (int64_t i = 0; i < width; i++) d[i] = yf[i] * (g[i] - dot);
            block_done(dx_dtype, dx, r * n + at, width, d, adds);
        }
    }
}
