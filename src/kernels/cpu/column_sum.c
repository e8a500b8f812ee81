/* kernels/cpu/column_sum.c -- sums columns, for bias gradients. A thread owns columns and adds the rows in order. */
#include "kernels/cpu/blocks.h"

enum { COLUMNS = 64 };          /* of bf16: two cache lines */

typedef struct {
    rp_dtype dtype, sum_dtype;
    const void *x;
    int64_t rows, n;
    void *sum;
    bool adds;
} columns;

INLINE void add_rows(rp_dtype dtype, const columns *c, int64_t from, int64_t width, float *total)
{
    const void *x = c->x;
    int64_t n     = c->n;

    for (int64_t r = 0; r < c->rows; r++)
#pragma omp simd
        for (int64_t i = 0; i < width; i++) total[i] += f32_at(dtype, x, r * n + from + i);
}

static void sum_columns(const void *arg, int64_t from, int64_t to)
{
    const columns *c = arg;

    for (int64_t at = from; at < to; at += BLOCK) {
        float total[BLOCK] = { 0 };
        int64_t width      = block_width(at, to);
        if (c->dtype == RP_BF16) add_rows(RP_BF16, c, at, width, total);
        else add_rows(RP_F32, c, at, width, total);
        row_store_add(c->sum_dtype, c->sum, at, width, total, c->adds);
    }
}

void RP_AT_LEVEL(column_sum)(rp_dtype dtype, const void *x, int64_t rows, int64_t n, void *sum, rp_dtype sum_dtype, bool adds,
                             const rp_on *on)
{
    rp__team_ranges(on->threads, n, COLUMNS, rows * n * width_of(dtype), sum_columns, &(columns){ dtype, sum_dtype, x, rows, n, sum, adds });
}
