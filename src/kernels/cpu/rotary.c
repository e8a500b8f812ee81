/* kernels/cpu/rotary.c -- rotary position embedding: pairs half an extent apart, angles from a table by position. A head is short,
 * so a thread converts one head at a time. */
#include "kernels/cpu/blocks.h"

enum { HEAD = RP_ROTARY_MAX_HEAD };    /* the op sends wider heads to its reference */

static void turn(const float *x, const float *cosine, const float *sine, float sign, float *y, int64_t half)
{
#pragma omp simd
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[half + i], s = sign * sine[i];
        y[i]        = a * cosine[i] - b * s;
        y[half + i] = b * cosine[i] + a * s;
    }
}

void RP_AT_LEVEL(rotary)(rp_dtype dtype, const void *x, const int32_t *positions, const float *cosine, const float *sine, void *to,
                         rp_dtype to_dtype, bool adds, bool inverse, int64_t tokens, int64_t heads, int64_t d, int64_t half, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t t = 0; t < tokens; t++) {
        float xbuf[HEAD], ybuf[HEAD];
        const float *c = cosine + positions[t] * half, *s = sine + positions[t] * half;
        for (int64_t at = t * heads * d; at < (t + 1) * heads * d; at += d) {
            const float *xf = row_f32(dtype, x, at, d, xbuf);
            float *y        = block_target(to_dtype, to, at, adds, ybuf);
            turn(xf, c, s, inverse ? -1.0f : 1.0f, y, half);
            if (y + 2 * half != xf + 2 * half) memcpy(y + 2 * half, xf + 2 * half, (size_t)(d - 2 * half) * sizeof *y);
            block_done(to_dtype, to, at, d, y, adds);
        }
    }
}
