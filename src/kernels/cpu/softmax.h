/* kernels/cpu/softmax.h -- the maximum of a row and the sum of exp(x - maximum), in one pass over memory (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018): the sum so far is rescaled whenever a block raises the maximum. */
#ifndef RP_KERNELS_SOFTMAX_H
#define RP_KERNELS_SOFTMAX_H

#include "kernels/cpu/blocks.h"

#include <float.h>

static float exp_sum(rp_dtype dtype, const void *x, int64_t row, int64_t n, float *max)
{
    float buffer[BLOCK], top = -FLT_MAX, total = 0;

    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t width  = block_width(at, n);
        const float *f = row_f32(dtype, x, row + at, width, buffer);
        float here = top, sum = 0;
#pragma omp simd reduction(max : here)
        for (int64_t i = 0; i < width; i++) here = f[i] > here ? f[i] : here;
        if (here > top) total *= fast_exp(top - here);
        top = here;
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < width; i++) sum += fast_exp(f[i] - top);
        total += sum;
    }
    *max = top;
    return total;
}

#endif
