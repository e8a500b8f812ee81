/* kernels/cpu/layernorm.c -- LayerNorm over rows, mean first and then the spread around it. dw and db: each thread sums its rows (a
 * static split), then the threads' sums are added in order. */
#include "kernels/cpu/cpu.h"

#define ROW_FLOATS(n) ((((n) + 15) / 16) * 16)

static float row_mean(const float *x, int64_t n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum / (float)n;
}

static float row_rstd(const float *x, int64_t n, float mean, float eps)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (x[i] - mean) * (x[i] - mean);
    return 1.0f / sqrtf(sum / (float)n + eps);
}

void RP_AT_LEVEL(layernorm_forward)(rp_dtype dtype, const void *x, const void *w, const void *b, void *y, float *mean, float *rstd,
                                    int64_t rows, int64_t n, float eps, void *scratch, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        float *xbuf     = (float *)scratch + t * 3 * ROW_FLOATS(n);
        const float *wf = row_f32(dtype, w, 0, n, xbuf + ROW_FLOATS(n)), *bf = row_f32(dtype, b, 0, n, xbuf + 2 * ROW_FLOATS(n));
        for (int64_t r = rows * t / threads; r < rows * (t + 1) / threads; r++) {
            const float *xf = row_f32(dtype, x, r * n, n, xbuf);
            float m = row_mean(xf, n), s = row_rstd(xf, n, m, eps), *yf = dtype == RP_F32 ? (float *)y + r * n : xbuf;
            if (mean) mean[r] = m;
            if (rstd) rstd[r] = s;
#pragma omp simd
            for (int64_t i = 0; i < n; i++) yf[i] = (xf[i] - m) * s * wf[i] + bf[i];
            row_store(dtype, y, r * n, n, yf);
        }
    }
}

/* One row's part of dw and db; d = dx of the row. */
static void backward_row(const float *x, const float *w, const float *g, float mean, float rstd, float *d, float *dw, float *db, int64_t n)
{
    float a = 0, b = 0;

#pragma omp simd reduction(+ : a, b)
    for (int64_t i = 0; i < n; i++) {
        a += g[i] * w[i];
        b += g[i] * w[i] * (x[i] - mean) * rstd;
    }
    a /= (float)n;
    b /= (float)n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float normal = (x[i] - mean) * rstd;
        dw[i] += g[i] * normal;
        db[i] += g[i];
        d[i] = rstd * (g[i] * w[i] - a - normal * b);
    }
}

static void add_threads(float *sums, int64_t stride, int64_t n, int threads)
{
    for (int t = 1; t < threads; t++)
        for (int64_t i = 0; i < n; i++) sums[i] += sums[t * stride + i];
}

void RP_AT_LEVEL(layernorm_backward)(rp_dtype dtype, const void *x, const void *w, const float *mean, const float *rstd, const void *dy,
                                     void *dx, rp_dtype dx_dtype, bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, void *db,
                                     rp_dtype db_dtype, bool db_adds, int64_t rows, int64_t n, void *scratch, int threads)
{
    int64_t row = ROW_FLOATS(n);
    float *sums = scratch;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        float *mine = sums + t * 5 * row, *xbuf = mine + 2 * row, *gbuf = xbuf + row;
        const float *wf = row_f32(dtype, w, 0, n, gbuf + row);
        memset(mine, 0, (size_t)(2 * row) * sizeof *mine);
        for (int64_t r = rows * t / threads; r < rows * (t + 1) / threads; r++) {
            const float *xf = row_f32(dtype, x, r * n, n, xbuf), *g = row_f32(dtype, dy, r * n, n, gbuf);
            float *d = xbuf;          /* in place where x was converted, a copy where it was not */
            backward_row(xf, wf, g, mean[r], rstd[r], d, mine, mine + row, n);
            if (dx) row_store_add(dx_dtype, dx, r * n, n, d, dx_adds);
        }
    }
    add_threads(sums, 5 * row, n, threads);
    add_threads(sums + row, 5 * row, n, threads);
    if (dw) row_store_add(dw_dtype, dw, 0, n, sums, dw_adds);
    if (db) row_store_add(db_dtype, db, 0, n, sums + row, db_adds);
}
