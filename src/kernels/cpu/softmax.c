/* kernels/cpu/softmax.c -- softmax over rows. A row is one thread's and is walked in blocks of fixed width. */
#include "kernels/cpu/softmax.h"

typedef struct {
    rp_dtype dtype, dx_dtype;
    const void *x, *y, *dy;
    void *to;                   /* y or dx */
    int64_t n;
    bool adds;
} rows_of;

static void forward_row(const rows_of *c, int64_t row)
{
    float xbuf[BLOCK], ybuf[BLOCK], max, sum = exp_sum(c->dtype, c->x, row, c->n, &max), inverse = 1.0f / sum;

    for (int64_t at = 0; at < c->n; at += BLOCK) {
        int64_t width   = block_width(at, c->n);
        const float *xf = row_f32(c->dtype, c->x, row + at, width, xbuf);
        float *yf       = block_target(c->dtype, c->to, row + at, false, ybuf);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) yf[i] = fast_exp(xf[i] - max) * inverse;
        block_done(c->dtype, c->to, row + at, width, yf, false);
    }
}

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t r = from; r < to; r++) forward_row(c, r * c->n);
}

void RP_AT_LEVEL(softmax_forward)(rp_dtype dtype, const void *x, void *y, int64_t rows, int64_t n, int threads)
{
    rp__team_ranges(threads, rows, 1, 2 * rows * n * width_of(dtype), forward_rows, &(rows_of){ .dtype = dtype, .x = x, .to = y, .n = n });
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

static void backward_row(const rows_of *c, int64_t row)
{
    float ybuf[BLOCK], gbuf[BLOCK], dbuf[BLOCK], dot = dot_row(c->dtype, c->y, c->dy, row, c->n);

    for (int64_t at = 0; at < c->n; at += BLOCK) {
        int64_t width   = block_width(at, c->n);
        const float *yf = row_f32(c->dtype, c->y, row + at, width, ybuf), *g = row_f32(c->dtype, c->dy, row + at, width, gbuf);
        float *d        = block_target(c->dx_dtype, c->to, row + at, c->adds, dbuf);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) d[i] = yf[i] * (g[i] - dot);
        block_done(c->dx_dtype, c->to, row + at, width, d, c->adds);
    }
}

static void backward_rows(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t r = from; r < to; r++) backward_row(c, r * c->n);
}

void RP_AT_LEVEL(softmax_backward)(rp_dtype dtype, const void *y, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t rows,
                                   int64_t n, int threads)
{
    rows_of c = { .dtype = dtype, .dx_dtype = dx_dtype, .y = y, .dy = dy, .to = dx, .n = n, .adds = adds };

    rp__team_ranges(threads, rows, 1, 3 * rows * n * width_of(dtype), backward_rows, &c);
}
