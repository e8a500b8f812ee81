/* kernels/cpu/amx.h -- what kernels on tiles share: the tiles' shape, and the order that tdpbf16ps wants its second operand in.
 *
 *   first   [16 rows][32 of k]               rows as they lie
 *   second  [16 pairs of k][16 columns][2]   two neighbours in k side by side
 *
 * Source: Intel 64 and IA-32 Architectures Software Developer's Manual, "Intel AMX Instruction Set Reference".
 */
#ifndef RP_KERNELS_CPU_AMX_H
#define RP_KERNELS_CPU_AMX_H

#if defined(__AMX_BF16__)
#include <immintrin.h>
#include <stdint.h>

/* Eight tiles of 16 rows of 64 bytes. Static and constant: the intrinsic tells the compiler only of its first bytes. */
typedef struct { uint8_t palette, start, unused[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } amx_shape;

static const amx_shape amx_whole = { .palette = 1, .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
                                     .rows = { 16, 16, 16, 16, 16, 16, 16, 16 } };

/* Around a thread's use of tiles: while they are in use every switch of threads saves 8 KiB more. */
static void amx_begin(void) { _tile_loadconfig(&amx_whole); }
static void amx_end(void) { _tile_release(); }

/* A mask of the first n of 32. */
static inline uint32_t amx_first(int64_t n) { return n >= 32 ? UINT32_MAX : (UINT32_C(1) << n) - 1; }

static const uint16_t amx_low[32] = { 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                      8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47 };
static const uint16_t amx_high[32] = { 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55,
                                       24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62, 31, 63 };

/* Columns 0 … 15, and 16 … 31, of two rows of bf16 as pairs. */
static inline __m512i amx_pairs_low(__m512i even, __m512i odd) { return _mm512_permutex2var_epi16(even, _mm512_loadu_si512(amx_low), odd); }
static inline __m512i amx_pairs_high(__m512i even, __m512i odd) { return _mm512_permutex2var_epi16(even, _mm512_loadu_si512(amx_high), odd); }

/* 16 x 16 words of 32 bits: in pairs, fours, then quarters of registers. */
static inline __attribute__((always_inline)) void amx_transpose(__m512i r[16])
{
    __m512i t[16];

    for (int i = 0; i < 16; i += 2) {
        t[i]     = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i]     = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i]      = _mm512_shuffle_i32x4(r[i], r[4 + i], 0x88);
        t[4 + i]  = _mm512_shuffle_i32x4(r[i], r[4 + i], 0xdd);
        t[8 + i]  = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(r[8 + i], r[12 + i], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        r[i]     = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        r[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    }
}
#endif

#endif
