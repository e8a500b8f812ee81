/* kernels/cpu/gemm_pairs.h -- packs bf16 for instructions that multiply pairs of k: tdpbf16ps (gemm_amx.h) and vdpbf16ps (gemm_vdp.h).
 *
 *   strip   [rows][k]                                  rows as stored, read from A in place if k is a multiple of 32
 *   panel   for each 32 of k, for each half of the 32 columns:
 *           [16 pairs of k][16 columns][2]             two neighbours in k are adjacent: 1 KiB, a tile of AMX
 *
 * Needs AVX512-BF16. Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, "Intel AMX Instruction Set Reference" and
 * VDPBF16PS.
 */
#ifndef RP_KERNELS_CPU_GEMM_PAIRS_H
#define RP_KERNELS_CPU_GEMM_PAIRS_H

#include "kernels/cpu/gemm_engine.h"
#include "kernels/cpu/pairs.h"

enum { PAIRS_SIDE = 32, PAIRS_HALF = 512, AHEAD = 8 };      /* step of k and columns of a panel; elements of half a step; rows prefetched early */

static bool pairs_reads_a(const rp_gemm *g) { return !g->transpose_a && g->k % PAIRS_SIDE == 0; }

static gemm_strip pairs_packed(const rp_gemm *g, const void *data, int64_t depth)
{
    (void)g;
    return (gemm_strip){ data, depth, 1 };
}

/* Packs 32 of k of an A whose rows run along m: makes pairs of k adjacent, then transposes the 32-bit pairs. */
static void pairs_turn_block(const uint16_t *from, int64_t from_row, int64_t depth, uint32_t columns, uint16_t *to, int64_t to_row, int64_t rows)
{
    __m512i low[16], high[16];

    for (int p = 0; p < 16; p++) {
        __m512i even = 2 * p < depth ? _mm512_maskz_loadu_epi16(columns, from + 2 * p * from_row) : _mm512_setzero_si512();
        __m512i odd  = 2 * p + 1 < depth ? _mm512_maskz_loadu_epi16(columns, from + (2 * p + 1) * from_row) : _mm512_setzero_si512();
        _mm_prefetch(from + (PAIRS_SIDE + 2 * p) * from_row, _MM_HINT_T0);
        _mm_prefetch(from + (PAIRS_SIDE + 2 * p + 1) * from_row, _MM_HINT_T0);
        low[p]  = pairs_low(even, odd);
        high[p] = pairs_high(even, odd);
    }
    pairs_transpose(low);
    pairs_transpose(high);
    for (int r = 0; r < PAIRS_SIDE && r < rows; r++) _mm512_storeu_si512(to + r * to_row, r < 16 ? low[r] : high[r - 16]);
}

/* Packs strips of `strip` rows. The last strip is padded with zeros up to a multiple of `strip`; memory after it must not be written. */
INLINE void pairs_pack_a(const rp_gemm *g, const void *a, int64_t i, int64_t rows, int64_t k, int64_t depth, int strip, void *to)
{
    int64_t real = gemm_least(depth, g->k - k), written = gemm_up(rows, strip);
    uint16_t *row = to;

    if (g->transpose_a) {
        const uint16_t *from = (const uint16_t *)a + k * g->m + i;
        for (int64_t d = 0; d < real; d += PAIRS_SIDE)
            for (int64_t r = 0; r < written; r += PAIRS_SIDE)
                pairs_turn_block(from + d * g->m + r, g->m, gemm_least(real - d, PAIRS_SIDE), pairs_mask(rows - r), row + r * depth + d, depth,
                                 written - r);
        return;
    }
    memset(row, 0, (size_t)(written * depth) * sizeof *row);
    for (int64_t r = 0; r < rows; r++) memcpy(row + r * depth, (const uint16_t *)a + (i + r) * g->k + k, (size_t)real * sizeof *row);
}

/* Packs two rows of B that run along n, of which `real` exist, into panels that are `panel` elements apart. Prefetches later rows. */
INLINE void pairs_pack_pair(const uint16_t *b, int64_t row, int64_t real, int64_t columns, int64_t panel, uint16_t *pair)
{
    for (int64_t c = 0; c < columns; c += PAIRS_SIDE, pair += panel) {
        uint32_t some = pairs_mask(columns - c);
        __m512i even  = real > 0 ? _mm512_maskz_loadu_epi16(some, b + c) : _mm512_setzero_si512();
        __m512i odd   = real > 1 ? _mm512_maskz_loadu_epi16(some, b + row + c) : _mm512_setzero_si512();
        _mm_prefetch(b + AHEAD * row + c, _MM_HINT_T0);
        _mm_prefetch(b + (AHEAD + 1) * row + c, _MM_HINT_T0);
        _mm512_store_si512(pair, pairs_low(even, odd));
        _mm512_store_si512(pair + PAIRS_HALF, pairs_high(even, odd));
    }
}

/* Where step k of a panel begins. */
static inline int64_t pairs_at(int64_t k) { return k / PAIRS_SIDE * 2 * PAIRS_HALF + k % PAIRS_SIDE * 16; }

/* Packs rows of B that run along n: pairs of rows, for all panels at once, so that memory is read in long runs. */
static void pairs_pack_rows(const uint16_t *b, int64_t n, int64_t columns, int64_t real, int64_t depth, uint16_t *to)
{
    for (int64_t k = 0; k < depth; k += 2) pairs_pack_pair(b + k * n, n, real - k, columns, PAIRS_SIDE * depth, to + pairs_at(k));
}

/* Packs rows of B that run along k: 16 rows of 32 k become 16 pairs of k. Prefetches the next 16 rows. */
static void pairs_pack_turned(const uint16_t *b, int64_t row, int64_t rows, int64_t depth, uint16_t *to)
{
    for (int half = 0; half < 2; half++)
        for (int64_t k = 0; k < depth; k += PAIRS_SIDE) {
            uint16_t *tile = to + k / PAIRS_SIDE * 2 * PAIRS_HALF + PAIRS_HALF * half;
            __m512i r[16];
            for (int i = 0; i < 16; i++) {
                const uint16_t *from = b + (16 * half + i) * row + k;
                r[i] = 16 * half + i < rows ? _mm512_maskz_loadu_epi16(pairs_mask(depth - k), from) : _mm512_setzero_si512();
                _mm_prefetch(from + 16 * row, _MM_HINT_T0);
            }
            pairs_transpose(r);
            for (int i = 0; i < 16; i++) _mm512_store_si512(tile + 32 * i, r[i]);
        }
}

/* ---- quantised B ---- */

/* Rows of B that run along n: pairs of rows, a run of panels at a time. */
static void pairs_pack_rows_quant(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, uint16_t *to)
{
    uint16_t run[2 * QUANT_RUN];

    for (int64_t n, c = 0; c < columns; c += n, to += n * depth) {
        n = quant_run(j + c, columns - c);
        for (int64_t d = 0; d < depth; d += 2) {
            int64_t at = g->b_first + (k + d) * g->n + j + c, real = gemm_least(g->k - k - d, 2);
            for (int64_t r = 0; r < real; r++) quant_read(g->quant, QUANT_HALVES, b, at + r * g->n, n, run + r * QUANT_RUN);
            pairs_pack_pair(run, QUANT_RUN, real, n, PAIRS_SIDE * depth, to + pairs_at(d));
        }
    }
}

static void pairs_pack_run(const uint16_t *run, int64_t rows, int64_t n, uint16_t *panel) { pairs_pack_turned(run, QUANT_RUN, rows, n, panel); }

static void pairs_pack_turned_quant(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, uint16_t *panel)
{
    uint16_t run[PAIRS_SIDE * QUANT_RUN];

    gemm_pack_turned_quant(g, b, j, columns, k, depth, PAIRS_SIDE, pairs_pack_run, run, panel);
}

static void pairs_pack_b(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, void *to)
{
    const uint16_t *from = b;
    uint16_t *panel      = to;
    int64_t real         = gemm_least(depth, g->k - k);         /* without the padding */

    if (g->quant) {
        (g->transpose_b ? pairs_pack_turned_quant : pairs_pack_rows_quant)(g, b, j, columns, k, depth, panel);
        return;
    }
    if (!g->transpose_b) {
        pairs_pack_rows(from + k * g->n + j, g->n, columns, real, depth, panel);
        return;
    }
    for (int64_t c = 0; c < columns; c += PAIRS_SIDE, panel += PAIRS_SIDE * depth)
        pairs_pack_turned(from + (j + c) * g->k + k, g->k, gemm_least(columns - c, PAIRS_SIDE), real, panel);
}

INLINE void pairs_to_bf16(const float *sum, int rows, uint16_t *to, int64_t to_row)
{
    for (int r = 0; r < rows; r++, to += to_row, sum += PAIRS_SIDE)
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(sum + 16), _mm512_load_ps(sum)));
}

#endif
