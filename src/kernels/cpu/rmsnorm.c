/* kernels/cpu/rmsnorm.c -- RMSNorm over rows. Sums run in lanes of the level's vectors: the same order in every call.
 * Forward: rstd may be NULL. Backward: dx, dw or both may be NULL. dw: each thread sums its rows (a static split), then the threads' sums are added in order. */
#include "kernels/cpu/cpu.h"

#define ROW_FLOATS(n) ((((n) + 15) / 16) * 16)

void RP_AT_LEVEL(rmsnorm_forward)(rp_dtype dtype, const void *x, const void *w, void *y, float *rstd, int64_t rows, int64_t n, float eps,
                                  void *scratch, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        float *xbuf = (float *)scratch + t * 2 * ROW_FLOATS(n), *wbuf = xbuf + ROW_FLOATS(n);
        const float *wf = row_f32(dtype, w, 0, n, wbuf);
        for (int64_t r = rows * t / threads; r < rows * (t + 1) / threads; r++) {
            const float *xf = row_f32(dtype, x, r * n, n, xbuf);
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = 0; i < n; i++) sum += xf[i] * xf[i];
            float s = 1.0f / sqrtf(sum / (float)n + eps);
            if (rstd) rstd[r] = s;
            if (dtype == RP_F32) {
                float *yf = (float *)y + r * n;
#pragma omp simd
                for (int64_t i = 0; i < n; i++) yf[i] = xf[i] * s * wf[i];
            } else {
                uint16_t *yh = (uint16_t *)y + r * n;
#pragma omp simd
                for (int64_t i = 0; i < n; i++) yh[i] = rp__bf16_from_f32(xf[i] * s * wf[i]);
            }
        }
    }
}

static void backward_rows(rp_dtype dtype, const void *x, const float *wf, const float *rstd, const void *dy, void *dx, bool dx_adds,
                          float *dw, int64_t from, int64_t to, int64_t n, float *xbuf, float *gbuf)
{
    memset(dw, 0, (size_t)n * sizeof *dw);
    for (int64_t r = from; r < to; r++) {
        const float *xf = row_f32(dtype, x, r * n, n, xbuf), *g = row_f32(dtype, dy, r * n, n, gbuf);
        float s = rstd[r], dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t i = 0; i < n; i++) dot += g[i] * wf[i] * xf[i];
        float k = s * s * dot / (float)n;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) dw[i] += g[i] * xf[i] * s;
        if (!dx) continue;
        if (dtype == RP_F32) {
            float *d = (float *)dx + r * n;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) d[i] = (dx_adds ? d[i] : 0.0f) + s * (g[i] * wf[i] - xf[i] * k);
        } else {
            uint16_t *d = (uint16_t *)dx + r * n;
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                d[i] = rp__bf16_from_f32((dx_adds ? rp__f32_from_bf16(d[i]) : 0.0f) + s * (g[i] * wf[i] - xf[i] * k));
        }
    }
}

void RP_AT_LEVEL(rmsnorm_backward)(rp_dtype dtype, const void *x, const void *w, const float *rstd, const void *dy, void *dx,
                                   bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, int64_t rows, int64_t n, void *scratch,
                                   int threads)
{
    int64_t row = ROW_FLOATS(n);
    float *sums = scratch;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        float *mine = sums + t * row, *buffers = sums + threads * row + t * 3 * row;
        const float *wf = row_f32(dtype, w, 0, n, buffers);
        backward_rows(dtype, x, wf, rstd, dy, dx, dx_adds, mine, rows * t / threads, rows * (t + 1) / threads, n, buffers + row,
                      buffers + 2 * row);
    }
    if (!dw) return;
    for (int t = 1; t < threads; t++)
        for (int64_t i = 0; i < n; i++) sums[i] += sums[t * row + i];
    row_store_add(dw_dtype, dw, 0, n, sums, dw_adds);
}
