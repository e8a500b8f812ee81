/* kernels/cpu/softmax.h -- computes the maximum of a row and the sum of exp(x - maximum) in one pass over memory (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018): if a block raises the maximum, the sum so far is rescaled. */
#ifndef RP_KERNELS_SOFTMAX_H
#define RP_KERNELS_SOFTMAX_H

#include "kernels/cpu/wide.h"

#include <float.h>

enum { SOFTMAX_BLOCK = 1024 };

/* The largest of n elements and `start`; NaNs are ignored. */
static inline float block_max(rp_dtype dtype, const void *x, int64_t at, int64_t n, float start)
{
    wide top = wide_of(start), other = top;
    float lane[WIDE];
    int64_t i = 0;

    for (; i + 2 * WIDE <= n; i += 2 * WIDE) {
        wide_prefetch(dtype, x, at + i);
        top   = wide_max(wide_load(dtype, x, at + i, WIDE), top);
        other = wide_max(wide_load(dtype, x, at + i + WIDE, WIDE), other);
    }
    top = wide_max(other, top);
    memcpy(lane, &top, sizeof lane);
    for (; i < n; i++) lane[0] = f32_at(dtype, x, at + i) > lane[0] ? f32_at(dtype, x, at + i) : lane[0];
    for (int l = 1; l < WIDE; l++) lane[0] = lane[l] > lane[0] ? lane[l] : lane[0];
    return lane[0];
}

static inline float block_exp_sum(rp_dtype dtype, const void *x, int64_t at, int64_t n, float top)
{
    wide sum  = { 0 };
    int64_t i = 0;

    for (; i + WIDE <= n; i += WIDE) sum += wide_exp(wide_load(dtype, x, at + i, WIDE) - top);
    if (i < n) sum += wide_inside(wide_exp(wide_load(dtype, x, at + i, n - i) - top), n - i);
    return wide_sum(sum);
}

/* Adds n more elements of a row to its running maximum and sum. Start with -FLT_MAX and 0. */
static inline void exp_fold(rp_dtype dtype, const void *x, int64_t row, int64_t n, float *max, float *total)
{
    for (int64_t at = 0; at < n; at += SOFTMAX_BLOCK) {
        int64_t width = n - at < SOFTMAX_BLOCK ? n - at : SOFTMAX_BLOCK;
        float here    = block_max(dtype, x, row + at, width, *max);
        if (here > *max) *total *= fast_exp(*max - here);
        *max = here;
        *total += block_exp_sum(dtype, x, row + at, width, here);
    }
}

static inline float exp_sum(rp_dtype dtype, const void *x, int64_t row, int64_t n, float *max)
{
    float total = 0;

    *max = -FLT_MAX;
    exp_fold(dtype, x, row, n, max, &total);
    return total;
}

#endif
