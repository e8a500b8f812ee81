/* kernels/cpu/softmax.c -- softmax over rows. Each row is computed by one thread. */
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
    float max, sum = exp_sum(c->dtype, c->x, row, c->n, &max), inverse = 1.0f / sum;

    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        wide_store(c->dtype, c->to, row + i, n, wide_exp(wide_load(c->dtype, c->x, row + i, n) - max) * inverse);
    }
}

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t r = from; r < to; r++) forward_row(c, r * c->n);
}

void RP_AT_LEVEL(softmax_forward)(rp_dtype dtype, const void *x, void *y, int64_t rows, int64_t n, const rp_on *on)
{
    rp__team_ranges(on->threads, rows, 1, 2 * rows * n * width_of(dtype), forward_rows, &(rows_of){ .dtype = dtype, .x = x, .to = y, .n = n });
}

static float dot_row(const rows_of *c, int64_t row)
{
    wide sum = { 0 };

    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        wide_prefetch(c->dtype, c->y, row + i);
        wide_prefetch(c->dtype, c->dy, row + i);
        sum += wide_load(c->dtype, c->y, row + i, n) * wide_load(c->dtype, c->dy, row + i, n);
    }
    return wide_sum(sum);
}

static void backward_row(const rows_of *c, int64_t row)
{
    float dot = dot_row(c, row);

    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        wide d    = wide_load(c->dtype, c->y, row + i, n) * (wide_load(c->dtype, c->dy, row + i, n) - dot);
        wide_add(c->dx_dtype, c->to, row + i, n, d, c->adds);
    }
}

static void backward_rows(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t r = from; r < to; r++) backward_row(c, r * c->n);
}

void RP_AT_LEVEL(softmax_backward)(rp_dtype dtype, const void *y, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t rows,
                                   int64_t n, const rp_on *on)
{
    rows_of c = { .dtype = dtype, .dx_dtype = dx_dtype, .y = y, .dy = dy, .to = dx, .n = n, .adds = adds };

    rp__team_ranges(on->threads, rows, 1, 3 * rows * n * width_of(dtype), backward_rows, &c);
}
