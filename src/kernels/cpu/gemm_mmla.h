/* kernels/cpu/gemm_mmla.h -- products of bf16 on bfmmla (ARM64 with FEAT_BF16): sums of 8 x 12 in 24 registers.
 *
 *                      B panel, 4 of k
 *                      [2 columns][4] x 6         one step: 6 vectors of B and 4 of A loaded, 24 bfmmla of 2 x 2 x 4
 *   A strip, 4 of k    +----+----+ … +----+
 *   [2 rows][4]        |2 x 2    |   |    |
 *     x 4              +----+----+ … +----+
 *
 *   packed             for each 4 of k: [lines][4]        lines: the 8 rows of a strip, or the 12 columns of a panel
 *
 * Strips are read from A in place if its rows run along k and k is a multiple of 4.
 */
#ifndef RP_KERNELS_CPU_GEMM_MMLA_H
#define RP_KERNELS_CPU_GEMM_MMLA_H

#include "kernels/cpu/gemm_engine.h"
#include "kernels/cpu/mmla.h"

enum { MMLA_ROWS = 8, MMLA_COLUMNS = 12, MMLA_STEP = 4, MMLA_ROW_PAIRS = MMLA_ROWS / 2, MMLA_COLUMN_PAIRS = MMLA_COLUMNS / 2 };

static bool mmla_reads_a(const rp_gemm *g) { return !g->transpose_a && g->k % MMLA_STEP == 0; }

static gemm_strip mmla_packed(const rp_gemm *g, const void *data, int64_t depth)
{
    (void)g, (void)depth;
    return (gemm_strip){ data, MMLA_STEP, MMLA_ROWS };
}

/* ---- packing: `width` lines belong together, and these are width * depth elements apart ---- */

/* The first n of four elements, then zeros. */
INLINE uint16x4_t mmla_some(const uint16_t *from, int64_t n)
{
    uint16_t some[MMLA_STEP] = { 0 };

    if (n >= MMLA_STEP) return vld1_u16(from);
    for (int i = 0; i < n; i++) some[i] = from[i];
    return vld1_u16(some);
}

/* Lines that run along k, of which `real` elements exist. */
INLINE void mmla_pack_along(const uint16_t *from, int64_t row, int64_t lines, int64_t real, int64_t depth, int width, uint16_t *to)
{
    for (int64_t l = 0; l < gemm_up(lines, width); l++) {
        uint16_t *at = to + l / width * width * depth + l % width * MMLA_STEP;
        for (int64_t k = 0; k < depth; k += MMLA_STEP, at += width * MMLA_STEP) vst1_u16(at, mmla_some(from + l * row + k, l < lines ? real - k : 0));
    }
}

/* One step of k of lines that run across it: four rows of which `real` exist. */
INLINE void mmla_pack_step(const uint16_t *from, int64_t row, int64_t lines, int64_t real, int64_t depth, int width, uint16_t *to)
{
    for (int64_t l = 0; l < gemm_up(lines, width); l += 4) {
        uint16x4x4_t rows;
#pragma GCC unroll 4
        for (int k = 0; k < MMLA_STEP; k++) rows.val[k] = mmla_some(from + k * row + l, k < real ? lines - l : 0);
        vst4_u16(to + l / width * width * depth + l % width * MMLA_STEP, rows);
    }
}

INLINE void mmla_pack_across(const uint16_t *from, int64_t row, int64_t lines, int64_t real, int64_t depth, int width, uint16_t *to)
{
    for (int64_t k = 0; k < depth; k += MMLA_STEP, to += width * MMLA_STEP) mmla_pack_step(from + k * row, row, lines, real - k, depth, width, to);
}

static void mmla_pack_a(const rp_gemm *g, const void *a, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to)
{
    const uint16_t *from = a;
    int64_t real         = gemm_least(depth, g->k - k);

    if (g->transpose_a) mmla_pack_across(from + k * g->m + i, g->m, rows, real, depth, MMLA_ROWS, to);
    else mmla_pack_along(from + i * g->k + k, g->k, rows, real, depth, MMLA_ROWS, to);
}

/* Rows of a quantised B that run along n, in runs of whole panels. */
static void mmla_pack_rows_quant(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, uint16_t *to)
{
    enum { RUN = 2 * QUANT_RUN / MMLA_COLUMNS * MMLA_COLUMNS };
    uint16_t run[MMLA_STEP * RUN];

    for (int64_t c = 0; c < columns; c += RUN)
        for (int64_t d = 0; d < depth; d += MMLA_STEP) {
            int64_t n = gemm_least(columns - c, RUN), real = gemm_least(g->k - k - d, MMLA_STEP);
            for (int64_t r = 0; r < real; r++) quant_read(g->quant, QUANT_HALVES, b, g->b_first + (k + d + r) * g->n + j + c, n, run + r * RUN);
            mmla_pack_step(run, RUN, n, real, depth, MMLA_COLUMNS, to + c * depth + d * MMLA_COLUMNS);
        }
}

static void mmla_pack_run(const uint16_t *run, int64_t rows, int64_t n, uint16_t *panel)
{
    mmla_pack_along(run, QUANT_RUN, rows, n, gemm_up(n, MMLA_STEP), MMLA_COLUMNS, panel);
}

static void mmla_pack_turned_quant(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, uint16_t *panel)
{
    uint16_t run[MMLA_COLUMNS * QUANT_RUN];

    gemm_pack_turned_quant(g, b, j, columns, k, depth, MMLA_COLUMNS, mmla_pack_run, run, panel);
}

static void mmla_pack_b(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, void *to)
{
    const uint16_t *from = b;
    int64_t real         = gemm_least(depth, g->k - k);

    if (g->quant) (g->transpose_b ? mmla_pack_turned_quant : mmla_pack_rows_quant)(g, b, j, columns, k, depth, to);
    else if (g->transpose_b) mmla_pack_along(from + j * g->k + k, g->k, columns, real, depth, MMLA_COLUMNS, to);
    else mmla_pack_across(from + k * g->n + j, g->n, columns, real, depth, MMLA_COLUMNS, to);
}

/* ---- the tile ---- */

typedef float32x4_t mmla_sums[MMLA_ROW_PAIRS][MMLA_COLUMN_PAIRS];

INLINE void mmla_step(const uint16_t *a, int64_t row, const uint16_t *b, mmla_sums sum)
{
    bfloat16x8_t two[MMLA_ROW_PAIRS];

#pragma GCC unroll 4
    for (int r = 0; r < MMLA_ROW_PAIRS; r++) two[r] = mmla_two(a + 2 * r * row, row);
#pragma GCC unroll 8
    for (int c = 0; c < MMLA_COLUMN_PAIRS; c++) {
        bfloat16x8_t columns = mmla_eight(b + 2 * MMLA_STEP * c);
#pragma GCC unroll 4
        for (int r = 0; r < MMLA_ROW_PAIRS; r++) sum[r][c] = vbfmmlaq_f32(sum[r][c], two[r], columns);
        __asm__ volatile("" ::: "memory");      /* the compiler would load all columns first, and move sums to memory for them */
    }
}

/* a_step: elements from one step of k to the next. */
INLINE void mmla_tile(int64_t depth, const uint16_t *a, int64_t a_row, int64_t a_step, const uint16_t *b, float *sum, int64_t sum_row, bool adds,
                      const prefetch lists[N_PREFETCH])
{
    enum { STEPS_A_PREFETCH = 4 };
    prefetch strip = lists[PREFETCH_STRIP], c = lists[PREFETCH_C];
    int64_t rounds = depth / (STEPS_A_PREFETCH * MMLA_STEP), strip_share = prefetch_share(&strip, rounds), c_share = prefetch_share(&c, rounds);
    mmla_sums sums;

#pragma GCC unroll 4
    for (int r = 0; r < MMLA_ROW_PAIRS; r++)
#pragma GCC unroll 8
        for (int q = 0; q < MMLA_COLUMN_PAIRS; q++) sums[r][q] = adds ? mmla_load(sum + 2 * r * sum_row + 2 * q, sum_row) : vdupq_n_f32(0);
    for (int64_t s = 0; s < depth / MMLA_STEP; s++, a += a_step, b += MMLA_COLUMNS * MMLA_STEP) {
        if (s % STEPS_A_PREFETCH == 0) prefetch_ask(&strip, strip_share);
        if (s % STEPS_A_PREFETCH == 2) prefetch_ask(&c, c_share);
        mmla_step(a, a_row, b, sums);
    }
#pragma GCC unroll 4
    for (int r = 0; r < MMLA_ROW_PAIRS; r++)
#pragma GCC unroll 8
        for (int q = 0; q < MMLA_COLUMN_PAIRS; q++) mmla_store(sum + 2 * r * sum_row + 2 * q, sum_row, sums[r][q]);
}

static void mmla_multiply(int64_t depth, gemm_strip a, const void *b, float *sum, int64_t sum_row, bool adds, const prefetch lists[N_PREFETCH])
{
    if (a.step == 1) mmla_tile(depth, a.data, a.row, MMLA_STEP, b, sum, sum_row, adds, lists);
    else mmla_tile(depth, a.data, MMLA_STEP, MMLA_ROWS * MMLA_STEP, b, sum, sum_row, adds, lists);
}

static void mmla_to_bf16(const float *sum, uint16_t *to, int64_t to_row)
{
    for (int r = 0; r < MMLA_ROWS; r++, to += to_row)
#pragma GCC unroll 4
        for (int c = 0; c < MMLA_COLUMNS; c += 4, sum += 4) vst1_u16(to + c, vreinterpret_u16_bf16(vcvt_bf16_f32(vld1q_f32(sum))));
}

static void mmla_turn(void) { }

static const gemm_engine engine_bf16 = {
    .rows = MMLA_ROWS, .columns = MMLA_COLUMNS, .step = MMLA_STEP, .element = sizeof(uint16_t), .depth = 640, .reads_a = mmla_reads_a,
    .pack_a = mmla_pack_a, .packed = mmla_packed, .pack_b = mmla_pack_b, .multiply = mmla_multiply, .to_bf16 = mmla_to_bf16,
    .begin = mmla_turn, .end = mmla_turn,
};

#endif
