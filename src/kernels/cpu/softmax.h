/* kernels/cpu/softmax.h -- the maximum of a row and the sum of exp(x - maximum), in one pass over memory (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018): the sum so far is rescaled whenever a block raises the maximum. */
#ifndef RP_KERNELS_SOFTMAX_H
#define RP_KERNELS_SOFTMAX_H

#include "kernels/cpu/blocks.h"

#include <float.h>

enum { LANES = 16 };

/* The largest of f[n] and `start`, kept in lanes: compilers do not reorder a maximum by themselves, NaNs and signed zeros forbid it. */
static inline float block_max(const float *f, int64_t n, float start)
{
    float lane[LANES];
    int64_t i = 0;

    for (int l = 0; l < LANES; l++) lane[l] = start;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int l = 0; l < LANES; l++) lane[l] = f[i + l] > lane[l] ? f[i + l] : lane[l];
    for (; i < n; i++) lane[0] = f[i] > lane[0] ? f[i] : lane[0];
    for (int l = 1; l < LANES; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

/* n more of a row into its maximum and sum so far; an empty row has -FLT_MAX and 0. */
static void exp_fold(rp_dtype dtype, const void *x, int64_t row, int64_t n, float *max, float *all)
{
    float buffer[BLOCK], top = *max, total = *all;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t width  = block_width(at, n);
        const float *f = row_f32(dtype, x, row + at, width, buffer);
        float here = block_max(f, width, top), sum = 0;
        if (here > top) total *= fast_exp(top - here);
        top = here;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; i++) sum += fast_exp(f[i] - top);
        total += sum;
    }
    *max = top;
    *all = total;
}

static inline float exp_sum(rp_dtype dtype, const void *x, int64_t row, int64_t n, float *max)
{
    float total = 0;

    *max = -FLT_MAX;
    exp_fold(dtype, x, row, n, max, &total);
    return total;
}

#endif
