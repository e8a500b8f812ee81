/* kernels/cpu/dropout.c -- dropout as a function of (key, step, sample, element): the mask is drawn again wherever it is needed. */
#include "kernels/cpu/blocks.h"

/* 0 or `kept` for the elements at .. at+width of one sample; at is a multiple of 4. */
static void draw(const rp_stream *s, int64_t row, int64_t at, int64_t width, float p, float kept, float *factor)
{
#pragma omp simd
    for (int64_t q = 0; q < (width + 3) / 4; q++) {
        rp_philox r       = rp__stream_block(s, row, at / 4 + q);
        factor[4 * q]     = rp__uniform(r.word[0]) < p ? 0.0f : kept;
        factor[4 * q + 1] = rp__uniform(r.word[1]) < p ? 0.0f : kept;
        factor[4 * q + 2] = rp__uniform(r.word[2]) < p ? 0.0f : kept;
        factor[4 * q + 3] = rp__uniform(r.word[3]) < p ? 0.0f : kept;
    }
}

void RP_AT_LEVEL(dropout)(rp_dtype dtype, const void *x, void *to, rp_dtype to_dtype, bool adds, rp_stream stream, float p, int64_t rows,
                          int64_t n, int threads)
{
    int64_t per_row = (n + BLOCK - 1) / BLOCK;
    float kept      = p < 1 ? 1.0f / (1.0f - p) : 0.0f;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < rows * per_row; b++) {
        float xbuf[BLOCK], ybuf[BLOCK], factor[BLOCK];
        int64_t row = b / per_row, at = b % per_row * BLOCK, width = block_width(at, n);
        const float *xf = row_f32(dtype, x, row * n + at, width, xbuf);
        float *y        = block_target(to_dtype, to, row * n + at, adds, ybuf);
        draw(&stream, row, at, width, p, kept, factor);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) y[i] = factor[i] == 0.0f ? 0.0f : xf[i] * factor[i];
        block_done(to_dtype, to, row * n + at, width, y, adds);
    }
}
