/* kernels/cpu/dropout.c -- dropout as a function of (key, step, sample, element): backward and replays draw the same mask. */
#include "kernels/cpu/cpu.h"

/* Sets factors of 0 or `kept` for the elements at .. at+width of one sample; at is a multiple of 4. */
static void dropout_draw(const rp_stream *s, int64_t row, int64_t at, int64_t width, float p, float kept, float *factor)
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

typedef struct {
    rp_dtype dtype, to_dtype;
    const void *x;
    void *to;
    bool adds;
    rp_stream stream;
    float p, kept;
    int64_t n, per_row;
} drops;

static void drop_blocks(const void *arg, int64_t from, int64_t to)
{
    const drops *c = arg;
    float xbuf[BLOCK], ybuf[BLOCK], factor[BLOCK];

    for (int64_t b = from; b < to; b++) {
        int64_t row = b / c->per_row, in_row = b % c->per_row * BLOCK, width = block_width(in_row, c->n), at = row * c->n + in_row;
        const float *x = row_f32(c->dtype, c->x, at, width, xbuf);
        float *y       = block_target(c->to_dtype, c->to, at, c->adds, ybuf);
        dropout_draw(&c->stream, row, in_row, width, c->p, c->kept, factor);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) y[i] = factor[i] == 0.0f ? 0.0f : x[i] * factor[i];
        block_done(c->to_dtype, c->to, at, width, y, c->adds);
    }
}

void RP_AT_LEVEL(dropout)(rp_dtype dtype, const void *x, void *to, rp_dtype to_dtype, bool adds, rp_stream stream, float p, int64_t rows,
                          int64_t n, const rp_on *on)
{
    drops c = { dtype, to_dtype, x, to, adds, stream, p, p < 1 ? 1.0f / (1.0f - p) : 0.0f, n, (n + BLOCK - 1) / BLOCK };

    rp__team_ranges(on->threads, rows * c.per_row, 1, rows * n * (width_of(dtype) + width_of(to_dtype)), drop_blocks, &c);
}
