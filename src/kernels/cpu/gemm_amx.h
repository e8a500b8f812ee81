/* kernels/cpu/gemm_amx.h -- products of bf16 on AMX: sums of 32 x 32 in four tiles, two of A, two of B.
 *
 *                      B panel, 32 columns: for each 32 of k two tiles of [16 pairs of k][16 columns][2]
 *                         +---+---+
 *                         | 6 | 7 |               one step: 4 tiles of 1 KiB loaded, 4 tdpbf16ps of 16 x 16 x 32
 *   A strip, 32 rows      +---+---+
 *   of 32 of k:    +---+  +---+---+               The next panel uses the strip too, so the strip stays in the first-level
 *                  | 4 |  | 0 | 1 |               cache. Panels are streamed: their loads (tileloaddt1) carry a hint,
 *                  | 5 |  | 2 | 3 |               so that they do not evict the strip.
 *                  +---+  +---+---+
 *
 * A tile takes 16 rows of 64 bytes with any stride. Strips are read from A in place if its rows run along k and k is a multiple of 32.
 */
#ifndef RP_KERNELS_CPU_GEMM_AMX_H
#define RP_KERNELS_CPU_GEMM_AMX_H

#include "kernels/cpu/amx.h"
#include "kernels/cpu/gemm_pairs.h"

static void amx_pack_a(const rp_gemm *g, const void *a, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to)
{
    pairs_pack_a(g, a, i, rows, k, depth, PAIRS_SIDE, to);
}

static void amx_multiply(int64_t depth, gemm_strip a, const void *b, float *sum, int64_t sum_row, bool adds, const prefetch lists[N_PREFETCH])
{
    const uint16_t *top = a.data, *bottom = top + 16 * a.row, *panel = b;
    int64_t share[2] = { prefetch_share(&lists[PREFETCH_STRIP], depth / PAIRS_SIDE), prefetch_share(&lists[PREFETCH_C], depth / PAIRS_SIDE) };
    prefetch first = lists[PREFETCH_STRIP], second = lists[PREFETCH_C];
    int64_t a_row = a.row * (int64_t)sizeof *top, c_row = sum_row * (int64_t)sizeof *sum;

    if (adds) amx_load_sums(sum, 16, 16 * sum_row, c_row);
    else amx_zero_sums();
    for (int64_t k = 0; k < depth; k += PAIRS_SIDE, top += PAIRS_SIDE, bottom += PAIRS_SIDE, panel += 2 * PAIRS_HALF) {
        prefetch_ask(&first, share[0]);
        prefetch_ask(&second, share[1]);
        _tile_loadd(4, top, a_row);
        _tile_stream_loadd(6, panel, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(5, bottom, a_row);
        _tile_dpbf16ps(2, 5, 6);
        _tile_stream_loadd(7, panel + PAIRS_HALF, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
    }
    amx_store_sums(sum, 16, 16 * sum_row, c_row);
}

static void amx_to_bf16(const float *sum, uint16_t *to, int64_t to_row) { pairs_to_bf16(sum, PAIRS_SIDE, to, to_row); }

static const gemm_engine engine_bf16 = {
    .rows = PAIRS_SIDE, .columns = PAIRS_SIDE, .step = PAIRS_SIDE, .element = sizeof(uint16_t), .depth = 640, .reads_a = pairs_reads_a,
    .pack_a = amx_pack_a, .packed = pairs_packed, .pack_b = pairs_pack_b, .multiply = amx_multiply, .to_bf16 = amx_to_bf16,
    .begin = amx_begin, .end = amx_end,
};

#endif
