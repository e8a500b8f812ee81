/* kernels/cpu/attention_tiles.h -- products of bf16 tiles for attention, on AMX, on vdpbf16ps, or on bfmmla.
 *
 *                b0   b1        b: [16 pairs of the depth][16 columns][2]
 *         a0   [ c0 | c1 ]      a: [16 rows][32 of the depth]
 *         a1   [ c2 | c3 ]      four sums of [16][16] fp32
 *
 * Tiles are 1 KiB each, 16 rows of 64 bytes, contiguous. c1 follows c0, c2 lies `down` floats after c0, and c3 follows c2.
 */
#ifndef RP_KERNELS_CPU_ATTENTION_TILES_H
#define RP_KERNELS_CPU_ATTENTION_TILES_H

#include "kernels/cpu/cpu.h"

enum { TILE = 512, TILE_F = 256 };      /* elements of a tile: bf16, fp32 */

/* The operands of a product. The steps lead, in elements, from a tile to the next one along the depth; `depth` counts tiles. */
typedef struct { const uint16_t *a0, *a1, *b0, *b1; int64_t a_step, b_step, depth; } tiles;

#if defined(__AMX_BF16__)
#include "kernels/cpu/amx.h"

static inline void tiles_begin(void) { amx_begin(); }
static inline void tiles_end(void) { amx_end(); }

/* c = a b, or c += a b. */
INLINE void tiles_multiply(tiles t, float *c, int64_t down, bool adds)
{
    amx_stored();
    if (adds) amx_load_sums(c, TILE_F, down, 64);
    else amx_zero_sums();
    for (int64_t k = 0; k < t.depth; k++, t.a0 += t.a_step, t.a1 += t.a_step, t.b0 += t.b_step, t.b1 += t.b_step) {
        _tile_loadd(6, t.b0, 64);
        _tile_loadd(4, t.a0, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, t.b1, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, t.a1, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    amx_store_sums(c, TILE_F, down, 64);
}
#elif defined(__AVX512BF16__)
#include "kernels/cpu/pairs.h"

enum { TILE_EIGHT = 8 };                /* rows whose sums are in registers: 16 chains hide the latency of vdpbf16ps */

static inline void tiles_begin(void) { }
static inline void tiles_end(void) { }

/* Eight rows of a0 or a1, 32 columns. */
INLINE void tiles_multiply_eight(const uint16_t *a, const tiles *t, float *c, bool adds)
{
    const uint16_t *b0 = t->b0, *b1 = t->b1;
    __m512 sum[TILE_EIGHT][2];

#pragma GCC unroll 8
    for (int r = 0; r < TILE_EIGHT; r++)
        for (int v = 0; v < 2; v++) sum[r][v] = adds ? _mm512_load_ps(c + v * TILE_F + 16 * r) : _mm512_setzero_ps();
    for (int64_t k = 0; k < t->depth; k++, a += t->a_step, b0 += t->b_step, b1 += t->b_step)
        for (int p = 0; p < 16; p++) {
            __m512bh left = (__m512bh)_mm512_load_si512(b0 + 32 * p), right = (__m512bh)_mm512_load_si512(b1 + 32 * p);
#pragma GCC unroll 8
            for (int r = 0; r < TILE_EIGHT; r++) {
                __m512bh pair = (__m512bh)_mm512_set1_epi32(*(const pair_word *)(a + 32 * r + 2 * p));
                sum[r][0] = _mm512_dpbf16_ps(sum[r][0], pair, left);
                sum[r][1] = _mm512_dpbf16_ps(sum[r][1], pair, right);
            }
        }
#pragma GCC unroll 8
    for (int r = 0; r < TILE_EIGHT; r++)
        for (int v = 0; v < 2; v++) _mm512_store_ps(c + v * TILE_F + 16 * r, sum[r][v]);
}

/* c = a b, or c += a b. */
INLINE void tiles_multiply(tiles t, float *c, int64_t down, bool adds)
{
    for (int64_t half = 0; half < 2; half++) {
        tiles_multiply_eight(t.a0 + half * TILE / 2, &t, c + half * TILE_F / 2, adds);
        tiles_multiply_eight(t.a1 + half * TILE / 2, &t, c + down + half * TILE_F / 2, adds);
    }
}
#else
#include "kernels/cpu/mmla.h"

enum { TILE_PAIRS = 4 };                /* of rows, and of columns, whose sums are in registers */

static inline void tiles_begin(void) { }
static inline void tiles_end(void) { }

/* Eight rows of a0 or a1, eight columns of b0 or b1. Two pairs of k of four columns become two columns of four of k. */
INLINE void tiles_multiply_eight(const uint16_t *a, int64_t a_step, const uint16_t *b, int64_t b_step, int64_t depth, float *c, bool adds)
{
    float32x4_t sum[TILE_PAIRS][TILE_PAIRS];

#pragma GCC unroll 4
    for (int r = 0; r < TILE_PAIRS; r++)
#pragma GCC unroll 4
        for (int q = 0; q < TILE_PAIRS; q++) sum[r][q] = adds ? mmla_load(c + 32 * r + 2 * q, 16) : vdupq_n_f32(0);
    for (int64_t k = 0; k < depth; k++, a += a_step, b += b_step)
        for (int s = 0; s < 8; s++) {
            bfloat16x8_t two[TILE_PAIRS];
#pragma GCC unroll 4
            for (int r = 0; r < TILE_PAIRS; r++) two[r] = mmla_two(a + 64 * r + 4 * s, 32);
#pragma GCC unroll 2
            for (int q = 0; q < TILE_PAIRS; q += 2) {
                uint32x4_t even = vreinterpretq_u32_u16(vld1q_u16(b + 64 * s + 4 * q)), odd = vreinterpretq_u32_u16(vld1q_u16(b + 64 * s + 32 + 4 * q));
                bfloat16x8_t left = vreinterpretq_bf16_u32(vzip1q_u32(even, odd)), right = vreinterpretq_bf16_u32(vzip2q_u32(even, odd));
#pragma GCC unroll 4
                for (int r = 0; r < TILE_PAIRS; r++) {
                    sum[r][q]     = vbfmmlaq_f32(sum[r][q], two[r], left);
                    sum[r][q + 1] = vbfmmlaq_f32(sum[r][q + 1], two[r], right);
                }
            }
        }
#pragma GCC unroll 4
    for (int r = 0; r < TILE_PAIRS; r++)
#pragma GCC unroll 4
        for (int q = 0; q < TILE_PAIRS; q++) mmla_store(c + 32 * r + 2 * q, 16, sum[r][q]);
}

/* c = a b, or c += a b. */
INLINE void tiles_multiply(tiles t, float *c, int64_t down, bool adds)
{
    for (int64_t i = 0; i < 8; i++) {           /* halves of a0 and a1, of b0 and b1 */
        int64_t row = i & 1, column = i >> 1 & 1, tile = i >> 2;
        const uint16_t *b = (tile ? t.b1 : t.b0) + 16 * column;
        float *to         = c + tile * TILE_F + 128 * row + 8 * column;
        tiles_multiply_eight(t.a0 + 256 * row, t.a_step, b, t.b_step, t.depth, to, adds);
        tiles_multiply_eight(t.a1 + 256 * row, t.a_step, b, t.b_step, t.depth, to + down, adds);
    }
}
#endif

#endif
