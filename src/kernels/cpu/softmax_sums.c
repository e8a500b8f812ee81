/* kernels/cpu/softmax_sums.c -- sums softmax over rows, in blocks of rows, and computes the gradient. Each block, or each row of the gradient, is
 * computed by one thread. The shape fixes the blocks, so no sum depends on the number of threads. */
#include "kernels/cpu/softmax.h"

typedef struct {
    rp_dtype dtype, dx_dtype;
    const void *x;
    const int32_t *starts;
    const float *dsum;
    float *sums;
    void *dx;
    int64_t rows, n, each;
    bool adds;
} rows_of;

static bool row_counts(const rows_of *c, int64_t row) { return !c->starts || c->starts[row] == 0; }

static void add_row(const rows_of *c, int64_t row, float *sum)
{
    float max, inverse = 1.0f / exp_sum(c->dtype, c->x, row * c->n, c->n, &max);

    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        wide_add(RP_F32, sum, i, n, wide_exp(wide_load(c->dtype, c->x, row * c->n + i, n) - max) * inverse, true);
    }
}

static void sum_blocks(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t b = from; b < to; b++) {
        int64_t end = (b + 1) * c->each < c->rows ? (b + 1) * c->each : c->rows;
        memset(c->sums + b * c->n, 0, (size_t)c->n * sizeof *c->sums);
        for (int64_t r = b * c->each; r < end; r++)
            if (row_counts(c, r)) add_row(c, r, c->sums + b * c->n);
    }
}

void RP_AT_LEVEL(softmax_sums)(rp_dtype dtype, const void *logits, const int32_t *starts, float *sums, int64_t rows, int64_t n, int64_t each,
                               const rp_on *on)
{
    rows_of c = { .dtype = dtype, .x = logits, .starts = starts, .sums = sums, .rows = rows, .n = n, .each = each };

    rp__team_ranges(on->threads, (rows + each - 1) / each, 1, rows * n * width_of(dtype), sum_blocks, &c);
}

static void slope_of_row(const rows_of *c, int64_t row)
{
    float max, inverse = 1.0f / exp_sum(c->dtype, c->x, row * c->n, c->n, &max), dot;
    wide sum = { 0 };

    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        sum += wide_inside(wide_exp(wide_load(c->dtype, c->x, row * c->n + i, n) - max), n) * wide_load(RP_F32, c->dsum, i, n);
    }
    dot = wide_sum(sum) * inverse;
    for (int64_t i = 0; i < c->n; i += WIDE) {
        int64_t n = wide_width(i, c->n);
        wide p    = wide_exp(wide_load(c->dtype, c->x, row * c->n + i, n) - max) * inverse;
        wide_add(c->dx_dtype, c->dx, row * c->n + i, n, p * (wide_load(RP_F32, c->dsum, i, n) - dot), c->adds);
    }
}

static void no_slope(const rows_of *c, int64_t row)
{
    wide zero = { 0 };

    for (int64_t i = 0; i < c->n && !c->adds; i += WIDE) wide_store(c->dx_dtype, c->dx, row * c->n + i, wide_width(i, c->n), zero);
}

static void slope_of_rows(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t r = from; r < to; r++) {
        if (row_counts(c, r)) slope_of_row(c, r);
        else no_slope(c, r);
    }
}

void RP_AT_LEVEL(softmax_sums_backward)(rp_dtype dtype, const void *logits, const int32_t *starts, const float *dsum, void *dlogits,
                                        rp_dtype dlogits_dtype, bool adds, int64_t rows, int64_t n, const rp_on *on)
{
    rows_of c = { .dtype = dtype, .dx_dtype = dlogits_dtype, .x = logits, .starts = starts, .dsum = dsum, .dx = dlogits, .rows = rows, .n = n,
                  .adds = adds };

    rp__team_ranges(on->threads, rows, 1, 2 * rows * n * width_of(dtype), slope_of_rows, &c);
}
