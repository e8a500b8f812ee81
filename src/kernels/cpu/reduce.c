/* kernels/cpu/reduce.c -- sums and maxima of x [outer, n, inner] over n, in fp32. If inner is 1, a row is summed in lanes, else the n rows
 * are added in order. So the shape fixes the order. */
#include "kernels/cpu/cpu.h"

typedef struct {
    rp_dtype dtype, to_dtype;
    const void *from;           /* x or dy */
    void *to;                   /* y or dx */
    int32_t *argmax;
    float factor;
    bool adds;
    int64_t outer, n, inner;
} reduction;

/* Item b of a reduction: columns [at, at + width) of the rows of one outer index. */
typedef struct { int64_t outer, at, width; } block;

static int64_t blocks_of(const reduction *c) { return (c->inner + BLOCK - 1) / BLOCK; }

static block block_at(const reduction *c, int64_t b)
{
    int64_t at = b % blocks_of(c) * BLOCK;

    return (block){ b / blocks_of(c), at, block_width(at, c->inner) };
}

static void run_blocks(const rp_on *on, const reduction *c, rp_team_range *work)
{
    rp__team_ranges(on->threads, c->outer * blocks_of(c), 1, c->outer * c->n * c->inner * width_of(c->dtype), work, c);
}

static float sum_row(rp_dtype dtype, const void *x, int64_t at, int64_t n)
{
    float buffer[BLOCK], total = 0;

    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t width  = block_width(i, n);
        const float *f = row_f32(dtype, x, at + i, width, buffer);
        float sum      = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < width; j++) sum += f[j];
        total += sum;
    }
    return total;
}

static void sum_columns(rp_dtype dtype, const void *x, int64_t at, int64_t n, int64_t inner, int64_t width, float *total)
{
    float buffer[BLOCK];

    memset(total, 0, (size_t)width * sizeof *total);
    for (int64_t i = 0; i < n; i++) {
        const float *f = row_f32(dtype, x, at + i * inner, width, buffer);
#pragma omp simd
        for (int64_t j = 0; j < width; j++) total[j] += f[j];
    }
}

static void sum_forward_blocks(const void *arg, int64_t from, int64_t to)
{
    const reduction *c = arg;
    float total[BLOCK];

    for (int64_t i = from; i < to; i++) {
        block b = block_at(c, i);
        if (c->inner == 1) total[0] = sum_row(c->dtype, c->from, b.outer * c->n, c->n);
        else sum_columns(c->dtype, c->from, b.outer * c->n * c->inner + b.at, c->n, c->inner, b.width, total);
        for (int64_t j = 0; j < b.width; j++) total[j] *= c->factor;
        block_done(c->dtype, c->to, b.outer * c->inner + b.at, b.width, total, false);
    }
}

void RP_AT_LEVEL(sum_forward)(rp_dtype dtype, const void *x, float factor, void *y, int64_t outer, int64_t n, int64_t inner, const rp_on *on)
{
    reduction c = { .dtype = dtype, .from = x, .to = y, .factor = factor, .outer = outer, .n = n, .inner = inner };

    run_blocks(on, &c, sum_forward_blocks);
}

static void spread_row(rp_dtype dtype, float value, void *dx, int64_t at, bool adds, int64_t n)
{
    float same[BLOCK];

    for (int64_t i = 0; i < BLOCK; i++) same[i] = value;
    for (int64_t i = 0; i < n; i += BLOCK) block_done(dtype, dx, at + i, block_width(i, n), same, adds);
}

static void sum_backward_blocks(const void *arg, int64_t from, int64_t to)
{
    const reduction *c = arg;
    float gbuf[BLOCK], d[BLOCK];

    for (int64_t i = from; i < to; i++) {
        block b        = block_at(c, i);
        const float *g = row_f32(c->dtype, c->from, b.outer * c->inner + b.at, b.width, gbuf);
        for (int64_t j = 0; j < b.width; j++) d[j] = c->factor * g[j];
        if (c->inner == 1) spread_row(c->to_dtype, d[0], c->to, b.outer * c->n, c->adds, c->n);
        else
            for (int64_t r = 0; r < c->n; r++)
                block_done(c->to_dtype, c->to, (b.outer * c->n + r) * c->inner + b.at, b.width, d, c->adds);
    }
}

void RP_AT_LEVEL(sum_backward)(rp_dtype dtype, const void *dy, float factor, void *dx, rp_dtype dx_dtype, bool adds, int64_t outer,
                               int64_t n, int64_t inner, const rp_on *on)
{
    reduction c = { .dtype = dtype, .to_dtype = dx_dtype, .from = dy, .to = dx, .factor = factor, .adds = adds, .outer = outer, .n = n,
                    .inner = inner };

    run_blocks(on, &c, sum_backward_blocks);
}

static inline bool beats(float value, float best) { return value > best || (value != value && best == best); }

static void max_columns(const reduction *c, block b, float *best, int32_t *which)
{
    memset(which, 0, (size_t)b.width * sizeof *which);
    for (int64_t j = 0; j < b.width; j++) best[j] = f32_at(c->dtype, c->from, b.outer * c->n * c->inner + b.at + j);
    for (int64_t i = 1; i < c->n; i++)
        for (int64_t j = 0; j < b.width; j++) {
            float value = f32_at(c->dtype, c->from, (b.outer * c->n + i) * c->inner + b.at + j);
            if (!beats(value, best[j])) continue;
            best[j]  = value;
            which[j] = (int32_t)i;
        }
}

static void max_forward_blocks(const void *arg, int64_t from, int64_t to)
{
    const reduction *c = arg;
    float best[BLOCK];
    int32_t which[BLOCK];

    for (int64_t i = from; i < to; i++) {
        block b = block_at(c, i);
        max_columns(c, b, best, which);
        block_done(c->dtype, c->to, b.outer * c->inner + b.at, b.width, best, false);
        if (c->argmax) memcpy(c->argmax + b.outer * c->inner + b.at, which, (size_t)b.width * sizeof *which);
    }
}

void RP_AT_LEVEL(max_forward)(rp_dtype dtype, const void *x, void *y, int32_t *argmax, int64_t outer, int64_t n, int64_t inner, const rp_on *on)
{
    reduction c = { .dtype = dtype, .from = x, .to = y, .argmax = argmax, .outer = outer, .n = n, .inner = inner };

    run_blocks(on, &c, max_forward_blocks);
}

static void max_backward_rows(const void *arg, int64_t from, int64_t to)
{
    const reduction *c = arg;
    int64_t size       = c->n * c->inner * width_of(c->to_dtype);

    for (int64_t o = from; o < to; o++) {
        if (!c->adds) memset((uint8_t *)c->to + o * size, 0, (size_t)size);
        for (int64_t j = 0; j < c->inner; j++) {
            float g = f32_at(c->dtype, c->from, o * c->inner + j);
            row_store_add(c->to_dtype, c->to, (o * c->n + c->argmax[o * c->inner + j]) * c->inner + j, 1, &g, c->adds);
        }
    }
}

void RP_AT_LEVEL(max_backward)(rp_dtype dtype, const void *dy, const int32_t *argmax, void *dx, rp_dtype dx_dtype, bool adds, int64_t outer,
                               int64_t n, int64_t inner, const rp_on *on)
{
    reduction c = { .dtype = dtype, .to_dtype = dx_dtype, .from = dy, .to = dx, .argmax = (int32_t *)argmax, .adds = adds, .outer = outer,
                    .n = n, .inner = inner };

    rp__team_ranges(on->threads, outer, 1, outer * n * inner * width_of(dx_dtype), max_backward_rows, &c);
}

/* ---- sums of columns, for bias gradients: a thread owns columns and adds the rows in order ---- */

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

static void sum_bias_columns(const void *arg, int64_t from, int64_t to)
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
    rp__team_ranges(on->threads, n, COLUMNS, rows * n * width_of(dtype), sum_bias_columns, &(columns){ dtype, sum_dtype, x, rows, n, sum, adds });
}
