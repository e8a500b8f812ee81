/* kernels/cpu/pairs.h -- arranges rows of bf16 as pairs for tdpbf16ps and vdpbf16ps: two neighbours along the sum form a word of 32 bits.
 *
 *   even   e0 e1 … e31         pairs_low    e0 o0  e1 o1  …  e15 o15          pairs of rows: the sum runs down the columns
 *   odd    o0 o1 … o31         pairs_high   e16 o16  …       e31 o31
 *
 *   16 rows of 16 words        pairs_transpose   16 columns of pairs          the sum runs along the rows
 *
 * Needs AVX512BW.
 */
#ifndef RP_KERNELS_CPU_PAIRS_H
#define RP_KERNELS_CPU_PAIRS_H

#include "kernels/cpu/cpu.h"

#include <immintrin.h>

/* A pair, to be broadcast. Rows of a matrix start at any element. */
typedef int32_t pair_word __attribute__((aligned(2), may_alias));

/* A mask of the first n of 32. */
static inline uint32_t pairs_mask(int64_t n) { return n >= 32 ? UINT32_MAX : n > 0 ? (UINT32_C(1) << n) - 1 : 0; }

static const uint16_t pairs_order_low[32]  = { 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                               8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47 };
static const uint16_t pairs_order_high[32] = { 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                               24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63 };

/* Columns 0 … 15, and 16 … 31, of two rows of bf16 as pairs. */
static inline __m512i pairs_low(__m512i even, __m512i odd)
{
    return _mm512_permutex2var_epi16(even, _mm512_loadu_si512(pairs_order_low), odd);
}

static inline __m512i pairs_high(__m512i even, __m512i odd)
{
    return _mm512_permutex2var_epi16(even, _mm512_loadu_si512(pairs_order_high), odd);
}

/* Transposes 16 x 16 words of 32 bits: exchanges single words, then pairs of words, then quarters of registers. */
INLINE void pairs_transpose(__m512i r[16])
{
    __m512i t[16];

#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        t[i]     = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i]     = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        t[i]      = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i]  = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i]  = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        r[i]     = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    }
}

#endif
