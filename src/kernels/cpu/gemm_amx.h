/* kernels/cpu/gemm_amx.h -- products of bf16 on AMX: sums of 32 x 32 in four tiles, two of A, two of B.
 *
 *                      B panel, 32 columns: for each 32 of k two tiles of [16 pairs of k][16 columns][2]
 *                         +---+---+
 *                         | 6 | 7 |               one step: 4 tiles of 1 KiB loaded, 4 tdpbf16ps of 16 x 16 x 32
 *   A strip, 32 rows      +---+---+
 *   of 32 of k:    +---+  +---+---+               The strip is used again by the next panel and stays in the first cache;
 *                  | 4 |  | 0 | 1 |               panels only pass through: their loads carry the hint for that
 *                  | 5 |  | 2 | 3 |               (tileloaddt1), else they evict the strip.
 *                  +---+  +---+---+
 *
 * A tile takes 16 rows of 64 bytes with any stride, so strips are read where A lies if its rows run along k and k is whole steps.
 */
#ifndef RP_KERNELS_CPU_GEMM_AMX_H
#define RP_KERNELS_CPU_GEMM_AMX_H

#include "kernels/cpu/amx.h"
#include "kernels/cpu/gemm_engine.h"

enum { AMX_SIDE = 32, AHEAD = 8 };      /* of a tile of the driver, and the step of k; rows that are asked for ahead */

static bool amx_reads_a(const rp_gemm *g) { return !g->transpose_a && g->k % AMX_SIDE == 0; }

static gemm_strip amx_packed(const rp_gemm *g, const void *data) { return (gemm_strip){ data, gemm_up(g->k, AMX_SIDE), 1 }; }

/* 32 of k, rows along m in memory: pairs of k side by side, then a transposition of 32-bit pairs. */
static void amx_turn_block(const uint16_t *from, int64_t from_row, int64_t depth, uint32_t columns, uint16_t *to, int64_t to_row)
{
    __m512i low[16], high[16];

    for (int p = 0; p < 16; p++) {
        __m512i even = 2 * p < depth ? _mm512_maskz_loadu_epi16(columns, from + 2 * p * from_row) : _mm512_setzero_si512();
        __m512i odd  = 2 * p + 1 < depth ? _mm512_maskz_loadu_epi16(columns, from + (2 * p + 1) * from_row) : _mm512_setzero_si512();
        _mm_prefetch(from + (AMX_SIDE + 2 * p) * from_row, _MM_HINT_T0);
        _mm_prefetch(from + (AMX_SIDE + 2 * p + 1) * from_row, _MM_HINT_T0);
        low[p]  = amx_pairs_low(even, odd);
        high[p] = amx_pairs_high(even, odd);
    }
    amx_transpose(low);
    amx_transpose(high);
    for (int r = 0; r < 16; r++) {
        _mm512_storeu_si512(to + r * to_row, low[r]);
        _mm512_storeu_si512(to + (16 + r) * to_row, high[r]);
    }
}

static void amx_pack_a(const rp_gemm *g, const void *a, int64_t i, int64_t rows, void *to)
{
    int64_t padded = gemm_up(g->k, AMX_SIDE);
    uint16_t *row  = to;

    if (g->transpose_a) {
        const uint16_t *from = (const uint16_t *)a + i;
        for (int64_t k = 0; k < g->k; k += AMX_SIDE)
            for (int64_t r = 0; r < rows; r += AMX_SIDE)
                amx_turn_block(from + k * g->m + r, g->m, gemm_least(g->k - k, AMX_SIDE), amx_first(rows - r), row + r * padded + k, padded);
        return;
    }
    memset(row, 0, (size_t)(gemm_up(rows, AMX_SIDE) * padded) * sizeof *row);
    for (int64_t r = 0; r < rows; r++) memcpy(row + r * padded, (const uint16_t *)a + (i + r) * g->k, (size_t)g->k * sizeof *row);
}

/* Rows of B run along n: pairs of rows side by side, for all panels, so that memory is read in long runs. */
static void amx_pack_pairs(const uint16_t *b, int64_t n, int64_t columns, int64_t real, int64_t depth, uint16_t *to)
{
    for (int64_t k = 0; k < depth; k += 2) {
        uint16_t *pair = to + k / AMX_SIDE * 1024 + k % AMX_SIDE * 16;
        for (int64_t c = 0; c < columns; c += AMX_SIDE, pair += AMX_SIDE * depth) {
            uint32_t some = amx_first(columns - c);
            __m512i even  = k < real ? _mm512_maskz_loadu_epi16(some, b + k * n + c) : _mm512_setzero_si512();
            __m512i odd   = k + 1 < real ? _mm512_maskz_loadu_epi16(some, b + (k + 1) * n + c) : _mm512_setzero_si512();
            _mm_prefetch(b + (k + AHEAD) * n + c, _MM_HINT_T0);
            _mm_prefetch(b + (k + AHEAD + 1) * n + c, _MM_HINT_T0);
            _mm512_store_si512(pair, amx_pairs_low(even, odd));
            _mm512_store_si512(pair + 512, amx_pairs_high(even, odd));
        }
    }
}

/* Rows of B run along k: 16 of them, 32 of k, become 16 pairs of k. The next 16 rows come meanwhile. */
static void amx_pack_turned(const uint16_t *b, int64_t row, int64_t rows, int64_t depth, uint16_t *to)
{
    for (int half = 0; half < 2; half++)
        for (int64_t k = 0; k < depth; k += AMX_SIDE) {
            uint16_t *tile = to + k / AMX_SIDE * 1024 + 512 * half;
            __m512i r[16];
            for (int i = 0; i < 16; i++) {
                const uint16_t *from = b + (16 * half + i) * row + k;
                r[i] = 16 * half + i < rows ? _mm512_maskz_loadu_epi16(amx_first(depth - k), from) : _mm512_setzero_si512();
                _mm_prefetch(from + 16 * row, _MM_HINT_T0);
            }
            amx_transpose(r);
            for (int i = 0; i < 16; i++) _mm512_store_si512(tile + 32 * i, r[i]);
        }
}

static void amx_pack_b(const rp_gemm *g, const void *b, int64_t j, int64_t columns, int64_t k, int64_t depth, void *to)
{
    const uint16_t *from = b;
    uint16_t *panel      = to;
    int64_t real         = gemm_least(depth, g->k - k);         /* without the padding */

    if (!g->transpose_b) {
        amx_pack_pairs(from + k * g->n + j, g->n, columns, real, depth, panel);
        return;
    }
    for (int64_t c = 0; c < columns; c += AMX_SIDE, panel += AMX_SIDE * depth)
        amx_pack_turned(from + (j + c) * g->k + k, g->k, gemm_least(columns - c, AMX_SIDE), real, panel);
}

static void amx_multiply(int64_t depth, gemm_strip a, const void *b, float *sum, int64_t sum_row, bool adds)
{
    const uint16_t *top = a.data, *bottom = top + 16 * a.row, *panel = b;
    int64_t a_row = a.row * (int64_t)sizeof *top, c_row = sum_row * (int64_t)sizeof *sum;

    if (adds) {
        _tile_loadd(0, sum, c_row);
        _tile_loadd(1, sum + 16, c_row);
        _tile_loadd(2, sum + 16 * sum_row, c_row);
        _tile_loadd(3, sum + 16 * sum_row + 16, c_row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < depth; k += AMX_SIDE, top += AMX_SIDE, bottom += AMX_SIDE, panel += 1024) {
        _tile_loadd(4, top, a_row);
        _tile_stream_loadd(6, panel, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, bottom, a_row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_stream_loadd(7, panel + 512, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sum, c_row);
    _tile_stored(1, sum + 16, c_row);
    _tile_stored(2, sum + 16 * sum_row, c_row);
    _tile_stored(3, sum + 16 * sum_row + 16, c_row);
}

static void amx_to_bf16(const float *sum, uint16_t *to, int64_t to_row)
{
    for (int r = 0; r < AMX_SIDE; r++, to += to_row, sum += AMX_SIDE)
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(_mm512_load_ps(sum + 16), _mm512_load_ps(sum)));
}

static const gemm_engine engine_amx = {
    .rows = AMX_SIDE, .columns = AMX_SIDE, .step = AMX_SIDE, .element = sizeof(uint16_t), .depth = 640, .reads_a = amx_reads_a,
    .pack_a = amx_pack_a, .packed = amx_packed, .pack_b = amx_pack_b, .multiply = amx_multiply, .to_bf16 = amx_to_bf16,
    .begin = amx_begin, .end = amx_end,
};

#endif
