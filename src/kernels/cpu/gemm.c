/* kernels/cpu/gemm.c -- products for every level, where oneDNN is not or does not want to.
 *
 *   C is cut into blocks; a thread owns whole blocks and, depth block by depth block in order, packs its part of A and B
 *   to fp32 panels and adds their product to the block's sum. The sum leaves for C once, with bias and conversion.
 *
 *   scratch of a thread   [ A panels: rows x depth | B panels: depth x columns | sum: rows x columns ]
 *
 * An element of C is the sum over depth blocks of one chain each, whatever block it lies in: its bits depend on k and the
 * level alone, not on m, n or the number of threads. Where C has few rows most of that would be packing: dots.h takes those, in
 * an order of its own.
 */
#include "kernels/cpu/dots.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/tile.h"

enum { MOST_ROWS = 192, MOST_COLUMNS = 256, MOST_DEPTH = 384 };

typedef struct {
    int64_t rows, columns, depth;           /* of a block; the last ones may be smaller */
    int64_t n_rows, n_columns, n_depth;     /* blocks along m, n, k */
    int64_t scratch_floats;                 /* of a thread */
} cut;

static int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/* Equal blocks of at most `most`, each a multiple of `step`. */
static int64_t even(int64_t n, int64_t most, int64_t step)
{
    int64_t parts = (n + most - 1) / most;

    return parts ? up((n + parts - 1) / parts, step) : step;
}

static int64_t blocks_of(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* Large blocks pack least; smaller ones where the team would go idle. */
static cut cut_up(const rp_gemm *g)
{
    cut c         = { .depth = even(g->k, MOST_DEPTH, 1) };
    int64_t m = MOST_ROWS, n = MOST_COLUMNS;

    for (;;) {
        c.rows      = even(g->m, m, TILE_ROWS);
        c.columns   = even(g->n, n, TILE_COLUMNS);
        c.n_rows    = blocks_of(g->m, c.rows);
        c.n_columns = blocks_of(g->n, c.columns);
        if (c.n_rows * c.n_columns >= 2 * g->threads || g->threads == 1) break;
        if (n >= m && n > TILE_COLUMNS) n /= 2;
        else if (m > 2 * TILE_ROWS) m /= 2;
        else break;
    }
    c.n_depth        = blocks_of(g->k, c.depth);
    c.scratch_floats = up(c.rows * c.depth, 16) + up(c.depth * c.columns, 16) + up(c.rows * c.columns, 16);
    return c;
}

/* Panels of `width` rows of op(A), or columns of op(B): to[panel][k][width]. `along` says that the stored rows run along k. */
static inline __attribute__((always_inline)) void pack(rp_dtype dtype, const void *from, int64_t stored_row, bool along, int64_t first,
                                                       int64_t n, int64_t k, int64_t depth, int width, float *to)
{
    for (int64_t i = 0; i < n; i += width, to += width * depth) {
        int64_t here = n - i < width ? n - i : width;
        if (along) pack_transposed(dtype, from, (first + i) * stored_row + k, stored_row, here, depth, width, to);
        else if (here == width) pack_rows(dtype, from, k * stored_row + first + i, stored_row, depth, width, width, to);
        else pack_rows(dtype, from, k * stored_row + first + i, stored_row, depth, here, width, to);
    }
}

static void multiply(const cut *c, int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b, float *sum, bool adds)
{
    for (int64_t j = 0; j < columns; j += TILE_COLUMNS)
        for (int64_t i = 0; i < rows; i += TILE_ROWS)
            tile_multiply(depth, a + i * depth, 1, TILE_ROWS, b + j * depth, TILE_COLUMNS, sum + i * c->columns + j, c->columns, adds);
}

static void put(const rp_gemm *g, int64_t i0, int64_t j0, int64_t rows, int64_t columns, float *sum, int64_t sum_row, void *to,
                const void *bias)
{
    for (int64_t i = 0; i < rows; i++) {
        float *row = sum + i * sum_row;
        if (bias)
            for (int64_t j = 0; j < columns; j++) row[j] += load_one(g->ab, bias, j0 + j);
        row_store_add(g->c, to, (i0 + i) * g->n + j0, columns, row, g->adds);
    }
}

static void one_block(const rp_gemm *g, const cut *c, int64_t i0, int64_t j0, const void *a, const void *b, void *to, const void *bias,
                      float *scratch)
{
    int64_t rows = g->m - i0 < c->rows ? g->m - i0 : c->rows, columns = g->n - j0 < c->columns ? g->n - j0 : c->columns;
    float *ap = scratch, *bp = ap + up(c->rows * c->depth, 16), *sum = bp + up(c->depth * c->columns, 16);

    if (g->k == 0) memset(sum, 0, (size_t)(c->rows * c->columns) * sizeof *sum);
    for (int64_t d = 0; d < c->n_depth; d++) {
        int64_t k = d * c->depth, depth = g->k - k < c->depth ? g->k - k : c->depth;
        pack(g->ab, a, g->transpose_a ? g->m : g->k, !g->transpose_a, i0, rows, k, depth, TILE_ROWS, ap);
        pack(g->ab, b, g->transpose_b ? g->k : g->n, g->transpose_b, j0, columns, k, depth, TILE_COLUMNS, bp);
        multiply(c, rows, columns, depth, ap, bp, sum, d > 0);
    }
    put(g, i0, j0, rows, columns, sum, c->columns, to, bias);
}

static void all_blocks(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, float *scratch)
{
    cut how        = cut_up(g);
    int64_t blocks = how.n_rows * how.n_columns;

#pragma omp parallel for schedule(static) num_threads(g->threads)
    for (int t = 0; t < g->threads; t++)
        for (int64_t i = blocks * t / g->threads; i < blocks * (t + 1) / g->threads; i++)
            one_block(g, &how, i % how.n_rows * how.rows, i / how.n_rows * how.columns, a, b, c, bias, scratch + t * how.scratch_floats);
}

static void all_dots(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, float *scratch)
{
    dots_floats floats = dots_scratch(g);
    int64_t blocks     = blocks_of(g->n, DOT_COLUMNS);

#pragma omp parallel for schedule(static) num_threads(g->threads)
    for (int t = 0; t < g->threads; t++) {
        float *a_rows = scratch + t * floats.all, *buffer = a_rows + floats.a, *sum = buffer + floats.b;
        dots_load_a(g, a, a_rows);
        for (int64_t i = blocks * t / g->threads; i < blocks * (t + 1) / g->threads; i++) {
            int64_t j0 = i * DOT_COLUMNS, columns = g->n - j0 < DOT_COLUMNS ? g->n - j0 : DOT_COLUMNS;
            dots_block(g, a_rows, b, j0, columns, buffer, sum);
            put(g, 0, j0, g->m, columns, sum, DOT_COLUMNS, c, bias);
        }
    }
}

void RP_AT_LEVEL(gemm_scratch)(const rp_gemm *g, int64_t *bytes)
{
    int64_t floats = wants_dots(g) ? dots_scratch(g).all : cut_up(g).scratch_floats;

    *bytes = floats * (int64_t)sizeof(float) * g->threads;
}

void RP_AT_LEVEL(gemm)(const rp_gemm *g, const void *a, const void *b, void *c, const void *bias, void *scratch)
{
    if (wants_dots(g)) all_dots(g, a, b, c, bias, scratch);
    else all_blocks(g, a, b, c, bias, scratch);
}
