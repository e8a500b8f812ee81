/* kernels/cpu/gemm_fp32.h -- products in fp32 on the tile of the level; bf16 operands are converted while they are packed. */
#ifndef RP_KERNELS_CPU_GEMM_FP32_H
#define RP_KERNELS_CPU_GEMM_FP32_H

#include "kernels/cpu/gemm_engine.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/tile.h"

static bool fp32_reads_a(const rp_gemm *g) { return g->ab == RP_F32 && !g->transpose_a; }

static gemm_strip fp32_packed(const rp_gemm *g, const void *data, int64_t depth)
{
    return g->transpose_a ? (gemm_strip){ data, 1, WIDE_ROWS } : (gemm_strip){ data, depth, 1 };
}

/* Prefetches rows that will be packed soon. */
static void ask_rows(rp_dtype dtype, const void *from, int64_t at, int64_t row, int64_t rows, int64_t n)
{
    int64_t element = rp_dtype_bytes(dtype);

    for (int64_t r = 0; r < rows; r++, at += row)
        for (int64_t j = 0; j < n * element; j += 64) __builtin_prefetch((const char *)from + at * element + j);
}

static void fp32_pack_a(const rp_gemm *g, const void *a, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to)
{
    enum { RUN = 16 };          /* of k: each row of A in it is read once, for all strips */
    float *strip = to;

    if (!g->transpose_a) {
        pack_rows(g->ab, a, i * g->k + k, g->k, rows, depth, depth, strip);
        memset(strip + rows * depth, 0, (size_t)((gemm_up(rows, WIDE_ROWS) - rows) * depth) * sizeof *strip);
        return;
    }
    for (int64_t d = 0; d < depth; d += RUN) {
        int64_t run = gemm_least(RUN, depth - d);
        ask_rows(g->ab, a, (k + d + RUN) * g->m + i, g->m, gemm_least(RUN, depth - d - run), rows);
        for (int64_t r = 0; r < rows; r += WIDE_ROWS) {
            int64_t at  = (k + d) * g->m + i + r;
            float *here = strip + r * depth + d * WIDE_ROWS;
            if (rows - r >= WIDE_ROWS) pack_rows(g->ab, a, at, g->m, run, WIDE_ROWS, WIDE_ROWS, here);
            else pack_rows(g->ab, a, at, g->m, run, rows - r, WIDE_ROWS, here);
        }
    }
}

/* ---- quantised B ---- */

/* Up to four rows of B that run along k become columns of a panel. */
static void fp32_turn_quant(const rp_gemm *g, const void *b, int64_t at, int64_t rows, int64_t depth, float *to)
{
    float run[4 * QUANT_RUN];

    for (int64_t n, k = 0; k < depth; k += n, to += n * WIDE_COLUMNS) {
        n = quant_run(at + k, depth - k);
        for (int64_t r = 0; r < rows; r++) quant_rounded(g->ab, g->quant, b, at + k + r * g->k, n, run + r * QUANT_RUN);
        if (rows == 4) transpose_four(RP_F32, run, 0, QUANT_RUN, n, WIDE_COLUMNS, to);
        else transpose_some(RP_F32, run, 0, QUANT_RUN, rows, n, WIDE_COLUMNS, to);
    }
}

static void fp32_pack_turned_quant(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, float *panel)
{
    for (int64_t c = 0; c < columns; c += WIDE_COLUMNS, panel += WIDE_COLUMNS * depth) {
        int64_t n = gemm_least(columns - c, WIDE_COLUMNS);
        for (int64_t r = 0; r < n; r += 4)
            fp32_turn_quant(g, b, g->b_first + (j + c + r) * g->k + k, gemm_least(n - r, 4), depth, panel + r);
        for (int64_t d = 0; d < depth && n < WIDE_COLUMNS; d++) memset(panel + d * WIDE_COLUMNS + n, 0, (size_t)(WIDE_COLUMNS - n) * sizeof *panel);
    }
}

/* Rows of B that run along n, in runs of whole panels. */
static void fp32_pack_rows_quant(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, float *panel)
{
    enum { PANELS = 2 * QUANT_RUN / WIDE_COLUMNS };
    float run[PANELS * WIDE_COLUMNS];

    for (int64_t c = 0; c < columns; c += PANELS * WIDE_COLUMNS) {
        int64_t n = gemm_least(columns - c, PANELS * WIDE_COLUMNS), padded = gemm_up(n, WIDE_COLUMNS);
        for (int64_t d = 0; d < depth; d++) {
            quant_rounded(g->ab, g->quant, b, g->b_first + (k + d) * g->n + j + c, n, run);
            memset(run + n, 0, (size_t)(padded - n) * sizeof *run);
            for (int64_t p = 0; p < padded; p += WIDE_COLUMNS)
                memcpy(panel + (c + p) * depth + d * WIDE_COLUMNS, run + p, WIDE_COLUMNS * sizeof *run);
        }
    }
}

static void fp32_pack_b(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, void *to)
{
    enum { RUN = 16 };          /* of k: each row of B in it is read once, for all panels */
    float *panel  = to;
    int64_t whole = columns / WIDE_COLUMNS * WIDE_COLUMNS;

    if (g->quant) {
        (g->transpose_b ? fp32_pack_turned_quant : fp32_pack_rows_quant)(g, b, j, columns, k, depth, panel);
        return;
    }
    if (g->transpose_b) {
        for (int64_t c = 0; c < columns; c += WIDE_COLUMNS, panel += WIDE_COLUMNS * depth)
            pack_transposed(g->ab, b, (j + c) * g->k + k, g->k, gemm_least(columns - c, WIDE_COLUMNS), depth, WIDE_COLUMNS, panel);
        return;
    }
    for (int64_t d = 0; d < depth; d += RUN) {
        int64_t run = gemm_least(RUN, depth - d), at = (k + d) * g->n + j;
        ask_rows(g->ab, b, at + RUN * g->n, g->n, gemm_least(RUN, depth - d - run), columns);
        for (int64_t c = 0; c < whole; c += WIDE_COLUMNS)
            pack_rows(g->ab, b, at + c, g->n, run, WIDE_COLUMNS, WIDE_COLUMNS, panel + c * depth + d * WIDE_COLUMNS);
        if (whole < columns)
            pack_rows(g->ab, b, at + whole, g->n, run, columns - whole, WIDE_COLUMNS, panel + whole * depth + d * WIDE_COLUMNS);
    }
}

/* Steps of k between two prefetches of lines of the next strip and of the next tile of C. */
enum { STEPS = 16 };

INLINE void wide_multiply(int64_t depth, const float *a, int64_t a_row, int64_t a_step, const float *b, float *sum, int64_t sum_row, bool adds,
                          const prefetch lists[N_PREFETCH])
{
    prefetch strip = lists[PREFETCH_STRIP], c = lists[PREFETCH_C];
    int64_t strip_share = prefetch_share(&strip, depth / STEPS), c_share = prefetch_share(&c, depth / STEPS), k = 0;
    tile_sums sums;

    tile_clear(WIDE_ROWS, WIDE_VECTORS, sums);
    for (; k + STEPS <= depth; k += STEPS) {
        prefetch_ask(&strip, strip_share);
        prefetch_ask(&c, c_share);
#pragma GCC unroll 4
        for (int s = 0; s < STEPS; s++, a += a_step, b += WIDE_COLUMNS) tile_step(WIDE_ROWS, WIDE_VECTORS, a, a_row, b, WIDE_COLUMNS, sums);
    }
    for (; k < depth; k++, a += a_step, b += WIDE_COLUMNS) tile_step(WIDE_ROWS, WIDE_VECTORS, a, a_row, b, WIDE_COLUMNS, sums);
    tile_put(WIDE_ROWS, WIDE_VECTORS, sums, sum, sum_row, adds);
}

static void fp32_multiply(int64_t depth, gemm_strip a, const void *b, float *sum, int64_t sum_row, bool adds, const prefetch lists[N_PREFETCH])
{
    if (a.step == 1) wide_multiply(depth, a.data, a.row, 1, b, sum, sum_row, adds, lists);
    else wide_multiply(depth, a.data, 1, WIDE_ROWS, b, sum, sum_row, adds, lists);
}

static void fp32_to_bf16(const float *sum, uint16_t *to, int64_t to_row)
{
    for (int r = 0; r < WIDE_ROWS; r++, to += to_row, sum += WIDE_COLUMNS)
#pragma omp simd
        for (int j = 0; j < WIDE_COLUMNS; j++) to[j] = rp__bf16_from_f32(sum[j]);
}

static void fp32_turn(void) { }

static const gemm_engine engine_fp32 = {
    .rows = WIDE_ROWS, .columns = WIDE_COLUMNS, .step = 1, .element = sizeof(float), .depth = 640, .reads_a = fp32_reads_a,
    .pack_a = fp32_pack_a, .packed = fp32_packed, .pack_b = fp32_pack_b, .multiply = fp32_multiply, .to_bf16 = fp32_to_bf16,
    .begin = fp32_turn, .end = fp32_turn,
};

#endif
