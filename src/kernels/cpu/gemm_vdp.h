/* kernels/cpu/gemm_vdp.h -- products of bf16 on vdpbf16ps (AVX512-BF16): sums of 12 x 32 in 24 registers.
 *
 *                   B panel        [b0: 16 columns of a pair of k][b1: 16 more]
 *   A strip         +----+----+
 *   12 pairs of k   | 12 | 12 |    one step: 2 vectors loaded, 12 pairs broadcast as words of 32 bits, 24 vdpbf16ps
 *                   +----+----+
 *
 * The instruction multiplies a pair and adds the products to the sum. It rounds to nearest and treats denormals as zero.
 */
#ifndef RP_KERNELS_CPU_GEMM_VDP_H
#define RP_KERNELS_CPU_GEMM_VDP_H

#include "kernels/cpu/gemm_pairs.h"

enum { VDP_ROWS = 12 };

static void vdp_pack_a(const rp_gemm *g, const void *a, int64_t i, int64_t rows, int64_t k, int64_t depth, void *to)
{
    pairs_pack_a(g, a, i, rows, k, depth, VDP_ROWS, to);
}

static void vdp_multiply(int64_t depth, gemm_strip a, const void *b, float *sum, int64_t sum_row, bool adds, const prefetch lists[N_PREFETCH])
{
    const uint16_t *strip = a.data, *panel = b;
    int64_t a_row = a.row;
    int64_t share[2] = { prefetch_share(&lists[PREFETCH_STRIP], depth / 8), prefetch_share(&lists[PREFETCH_C], depth / 8) };
    prefetch first = lists[PREFETCH_STRIP], second = lists[PREFETCH_C];
    __m512 c[VDP_ROWS][2];

#pragma GCC unroll 16
    for (int r = 0; r < VDP_ROWS; r++)
        for (int v = 0; v < 2; v++) c[r][v] = adds ? _mm512_loadu_ps(sum + r * sum_row + 16 * v) : _mm512_setzero_ps();
    for (int64_t k = 0; k < depth; k += PAIRS_SIDE, panel += PAIRS_HALF)
        for (int p = 0; p < 16; p++, strip += 2, panel += 32) {
            if (p % 4 == 0) prefetch_ask(&first, share[0]);
            if (p % 4 == 2) prefetch_ask(&second, share[1]);
            __m512bh b0 = (__m512bh)_mm512_load_si512(panel), b1 = (__m512bh)_mm512_load_si512(panel + PAIRS_HALF);
            _mm_prefetch(panel + 2 * PAIRS_HALF, _MM_HINT_T0);
            _mm_prefetch(panel + 3 * PAIRS_HALF, _MM_HINT_T0);
#pragma GCC unroll 16
            for (int r = 0; r < VDP_ROWS; r++) {
                __m512bh pair = (__m512bh)_mm512_set1_epi32(*(const pair_word *)(strip + r * a_row));
                c[r][0] = _mm512_dpbf16_ps(c[r][0], pair, b0);
                c[r][1] = _mm512_dpbf16_ps(c[r][1], pair, b1);
            }
        }
#pragma GCC unroll 16
    for (int r = 0; r < VDP_ROWS; r++)
        for (int v = 0; v < 2; v++) _mm512_storeu_ps(sum + r * sum_row + 16 * v, c[r][v]);
}

static void vdp_to_bf16(const float *sum, uint16_t *to, int64_t to_row) { pairs_to_bf16(sum, VDP_ROWS, to, to_row); }

static void vdp_turn(void) { }

static const gemm_engine engine_bf16 = {
    .rows = VDP_ROWS, .columns = PAIRS_SIDE, .step = PAIRS_SIDE, .element = sizeof(uint16_t), .depth = 640, .reads_a = pairs_reads_a,
    .pack_a = vdp_pack_a, .packed = pairs_packed, .pack_b = pairs_pack_b, .multiply = vdp_multiply, .to_bf16 = vdp_to_bf16,
    .begin = vdp_turn, .end = vdp_turn,
};

#endif
