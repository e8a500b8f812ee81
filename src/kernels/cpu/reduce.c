/* kernels/cpu/reduce.c -- sums and maxima of x [outer, n, inner] over n, in fp32. Where inner is 1 a row is summed in lanes, else
 * the n rows are added in order, so the order is fixed by the shape. */
#include "kernels/cpu/blocks.h"

static float sum_row(rp_dtype dtype, const void *x, int64_t at, int64_t n)
{
    float buffer[BLOCK], total = 0;

    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t width  = block_width(i, n);
        const float *f = row_f32(dtype, x, at + i, width, buffer);
        float sum      = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < width; j++) sum += f[j];
        total += sum;
    }
    return total;
}

static void sum_columns(rp_dtype dtype, const void *x, int64_t at, int64_t n, int64_t inner, int64_t width, float *total)
{
    float buffer[BLOCK];

    memset(total, 0, (size_t)width * sizeof *total);
    for (int64_t i = 0; i < n; i++) {
        const float *f = row_f32(dtype, x, at + i * inner, width, buffer);
#pragma omp simd
        for (int64_t j = 0; j < width; j++) total[j] += f[j];
    }
}

void RP_AT_LEVEL(sum_forward)(rp_dtype dtype, const void *x, float factor, void *y, int64_t outer, int64_t n, int64_t inner, int threads)
{
    int64_t per_outer = (inner + BLOCK - 1) / BLOCK;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < outer * per_outer; b++) {
        float total[BLOCK];
        int64_t o = b / per_outer, at = b % per_outer * BLOCK, width = block_width(at, inner);
        if (inner == 1) total[0] = sum_row(dtype, x, o * n, n);
        else sum_columns(dtype, x, o * n * inner + at, n, inner, width, total);
        for (int64_t j = 0; j < width; j++) total[j] *= factor;
        block_done(dtype, y, o * inner + at, width, total, false);
    }
}

static void spread_row(rp_dtype dtype, float value, void *dx, int64_t at, bool adds, int64_t n)
{
    float same[BLOCK];

    for (int64_t i = 0; i < BLOCK; i++) same[i] = value;
    for (int64_t i = 0; i < n; i += BLOCK) block_done(dtype, dx, at + i, block_width(i, n), same, adds);
}

void RP_AT_LEVEL(sum_backward)(rp_dtype dtype, const void *dy, float factor, void *dx, rp_dtype dx_dtype, bool adds, int64_t outer,
                               int64_t n, int64_t inner, int threads)
{
    int64_t per_outer = (inner + BLOCK - 1) / BLOCK;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < outer * per_outer; b++) {
        float gbuf[BLOCK], d[BLOCK];
        int64_t o = b / per_outer, at = b % per_outer * BLOCK, width = block_width(at, inner);
        const float *g = row_f32(dtype, dy, o * inner + at, width, gbuf);
        for (int64_t j = 0; j < width; j++) d[j] = factor * g[j];
        if (inner == 1) spread_row(dx_dtype, d[0], dx, o * n, adds, n);
        else
            for (int64_t i = 0; i < n; i++) block_done(dx_dtype, dx, (o * n + i) * inner + at, width, d, adds);
    }
}

static inline bool beats(float value, float best) { return value > best || (value != value && best == best); }

static float value_at(rp_dtype dtype, const void *x, int64_t at)
{
    return dtype == RP_F32 ? ((const float *)x)[at] : rp__f32_from_bf16(((const uint16_t *)x)[at]);
}

void RP_AT_LEVEL(max_forward)(rp_dtype dtype, const void *x, void *y, int32_t *argmax, int64_t outer, int64_t n, int64_t inner, int threads)
{
    int64_t per_outer = (inner + BLOCK - 1) / BLOCK;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < outer * per_outer; b++) {
        float best[BLOCK];
        int32_t which[BLOCK] = { 0 };
        int64_t o = b / per_outer, at = b % per_outer * BLOCK, width = block_width(at, inner);
        for (int64_t j = 0; j < width; j++) best[j] = value_at(dtype, x, o * n * inner + at + j);
        for (int64_t i = 1; i < n; i++)
            for (int64_t j = 0; j < width; j++) {
                float value = value_at(dtype, x, (o * n + i) * inner + at + j);
                if (!beats(value, best[j])) continue;
                best[j]  = value;
                which[j] = (int32_t)i;
            }
        block_done(dtype, y, o * inner + at, width, best, false);
        if (argmax) memcpy(argmax + o * inner + at, which, (size_t)width * sizeof *which);
    }
}

void RP_AT_LEVEL(max_backward)(rp_dtype dtype, const void *dy, const int32_t *argmax, void *dx, rp_dtype dx_dtype, bool adds, int64_t outer,
                               int64_t n, int64_t inner, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t o = 0; o < outer; o++) {
        if (!adds)
            memset((uint8_t *)dx + o * n * inner * (dx_dtype == RP_F32 ? 4 : 2), 0, (size_t)(n * inner) * (dx_dtype == RP_F32 ? 4 : 2));
        for (int64_t j = 0; j < inner; j++) {
            float g = value_at(dtype, dy, o * inner + j);
            row_store_add(dx_dtype, dx, (o * n + argmax[o * inner + j]) * inner + j, 1, &g, adds);
        }
    }
}
