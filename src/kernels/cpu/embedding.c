/* kernels/cpu/embedding.c -- gathers rows of a table by id, and elements by index, and sums the gradients of each row or element. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/quant.h"
#include "kernels/order.h"

typedef struct {
    const uint8_t *table;
    const int32_t *ids;
    uint8_t *y;
    int64_t row_bytes;
} rows_of;

static void take_rows(const void *arg, int64_t from, int64_t to)
{
    const rows_of *c = arg;

    for (int64_t i = from; i < to; i++) memcpy(c->y + i * c->row_bytes, c->table + c->ids[i] * c->row_bytes, (size_t)c->row_bytes);
}

typedef struct {
    const rp_quant_type *type;
    const void *table;
    const int32_t *ids;
    float *y;
    int64_t n;
} quant_rows_of;

static void take_quant_rows(const void *arg, int64_t from, int64_t to)
{
    const quant_rows_of *c = arg;

    for (int64_t i = from; i < to; i++) quant_read(c->type, QUANT_FLOATS, c->table, c->ids[i] * c->n, c->n, c->y + i * c->n);
}

void RP_AT_LEVEL(embedding_forward)(rp_dtype dtype, const void *table, const int32_t *ids, void *y, int64_t count, int64_t n, const rp_on *on)
{
    int64_t row_bytes = n * width_of(dtype);

    if (rp__is_quant(dtype)) {
        quant_rows_of c = { rp__quant_type(dtype), table, ids, y, n };
        rp__team_ranges(on->threads, count, 1, 8 * count * n, take_quant_rows, &c);
        return;
    }
    rp__team_ranges(on->threads, count, 1, 2 * count * row_bytes, take_rows, &(rows_of){ table, ids, y, row_bytes });
}

void RP_AT_LEVEL(embedding_order)(const int32_t *ids, int32_t *order, int32_t *first, int64_t count, int64_t vocab, const rp_on *on)
{
    (void)on;
    rp__order(ids, order, first, count, vocab);
}

typedef struct {
    rp_dtype dtype, dtable_dtype;
    const void *dy;
    const int32_t *order, *first;
    void *dtable;
    bool adds;
    int64_t n, blocks;          /* of columns, in a row */
} sums_of;

INLINE void add_rows(rp_dtype dtype, const sums_of *c, int64_t id, int64_t column, int64_t width, float *sums)
{
    const void *dy = c->dy;

    memset(sums, 0, (size_t)width * sizeof *sums);
    for (int64_t k = c->first[id]; k < c->first[id + 1]; k++) {
        int64_t at = c->order[k] * c->n + column;
#pragma omp simd
        for (int64_t i = 0; i < width; i++) sums[i] += f32_at(dtype, dy, at + i);
    }
}

/* An item is a block of columns of a row of the table. */
static void sum_blocks(const void *arg, int64_t from, int64_t to)
{
    const sums_of *c = arg;
    float sums[BLOCK];

    for (int64_t b = from; b < to; b++) {
        int64_t id = b / c->blocks, column = b % c->blocks * BLOCK, width = block_width(column, c->n);
        if (c->adds && c->first[id] == c->first[id + 1]) continue;
        if (c->dtype == RP_BF16) add_rows(RP_BF16, c, id, column, width, sums);
        else add_rows(RP_F32, c, id, column, width, sums);
        row_store_add(c->dtable_dtype, c->dtable, id * c->n + column, width, sums, c->adds);
    }
}

void RP_AT_LEVEL(embedding_backward)(rp_dtype dtype, const void *dy, const int32_t *order, const int32_t *first, void *dtable,
                                     rp_dtype dtable_dtype, bool adds, int64_t vocab, int64_t n, const rp_on *on)
{
    sums_of c     = { dtype, dtable_dtype, dy, order, first, dtable, adds, n, (n + BLOCK - 1) / BLOCK };
    int64_t bytes = first[vocab] * n * width_of(dtype) + (adds ? 0 : vocab * n * width_of(dtable_dtype));

    rp__team_ranges(on->threads, vocab * c.blocks, 1, bytes, sum_blocks, &c);
}

/* ---- elements by index along one dimension ---- */

typedef struct {
    rp_dtype dtype, to_dtype;
    const rp_gather_shape *g;
    const void *from;           /* x or dy */
    const int32_t *index;
    void *to;                   /* y or dx */
    float *sums;                /* NULL: terms are added to dx */
    bool adds;
    int64_t blocks;             /* of columns */
} indexed;

/* The index of column `at` of row o, j of y. */
static int64_t index_at(const indexed *c, int64_t row, int64_t at)
{
    return c->index[rp__spread_at(&c->g->index, RP_SPREAD_ALL, row * c->g->inner + at).of[0]];
}

/* Items: rows of y. */
static void gather_rows_of(const void *arg, int64_t from, int64_t to)
{
    const indexed *c = arg;
    int64_t inner = c->g->inner, bytes = width_of(c->dtype);

    for (int64_t row = from; row < to; row++) {
        int64_t first = row / c->g->m * c->g->n;
        uint8_t *y    = (uint8_t *)c->to + row * inner * bytes;
        for (int64_t i = 0; i < inner; i += c->g->shared ? inner : 1)
            memcpy(y + i * bytes, (const uint8_t *)c->from + ((first + index_at(c, row, i)) * inner + i) * bytes,
                   (size_t)((c->g->shared ? inner : 1) * bytes));
    }
}

void RP_AT_LEVEL(gather_forward)(rp_dtype dtype, const rp_gather_shape *g, const void *x, const int32_t *index, void *y, const rp_on *on)
{
    indexed c = { .dtype = dtype, .g = g, .from = x, .index = index, .to = y };

    rp__team_ranges(on->threads, g->outer * g->m, 1, 2 * g->outer * g->m * g->inner * width_of(dtype), gather_rows_of, &c);
}

/* Adds row `row` of dy, columns [at, at + width), to the sums. */
static void add_indexed(const indexed *c, float *sums, int64_t row, int64_t at, int64_t width)
{
    int64_t first = row / c->g->m * c->g->n, inner = c->g->inner, which = c->g->shared ? index_at(c, row, 0) : 0;

    for (int64_t i = at; i < at + width; i++) {
        int64_t n = c->g->shared ? which : index_at(c, row, i);
        sums[(first + n) * inner + i] += f32_at(c->dtype, c->from, row * inner + i);
    }
}

/* Items: blocks of columns of the rows of one outer index. */
static void sum_indexed(const void *arg, int64_t from, int64_t to)
{
    const indexed *c = arg;
    int64_t inner = c->g->inner, n = c->g->n;

    for (int64_t b = from; b < to; b++) {
        int64_t outer = b / c->blocks, at = b % c->blocks * BLOCK, width = block_width(at, inner);
        float *sums   = c->sums ? c->sums : c->to;
        for (int64_t r = 0; r < n && (c->sums || !c->adds); r++) memset(sums + (outer * n + r) * inner + at, 0, (size_t)width * sizeof *sums);
        for (int64_t j = 0; j < c->g->m; j++) add_indexed(c, sums, outer * c->g->m + j, at, width);
        for (int64_t r = 0; r < n && c->sums; r++) {
            int64_t first = (outer * n + r) * inner + at;
            row_store_add(c->to_dtype, c->to, first, width, sums + first, c->adds);
        }
    }
}

void RP_AT_LEVEL(gather_backward)(rp_dtype dtype, const rp_gather_shape *g, const void *dy, const int32_t *index, void *dx, rp_dtype dx_dtype, bool adds,
                                  float *sums, const rp_on *on)
{
    indexed c = { dtype, dx_dtype, g, dy, index, dx, dx_dtype == RP_BF16 ? sums : NULL, adds, (g->inner + BLOCK - 1) / BLOCK };

    rp__team_ranges(on->threads, g->outer * c.blocks, 1, g->outer * (g->m + g->n) * g->inner * width_of(dtype), sum_indexed, &c);
}
