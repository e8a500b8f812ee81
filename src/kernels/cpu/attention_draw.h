/* kernels/cpu/attention_draw.h -- draws one bit for each probability of a row: whether dropout keeps it.
 *
 *   element   e        4 neighbours share a block of the generator: word e % 4 of block e / 4
 *   bits      31 … 0   of word w: elements first + 32 w + 31 … first + 32 w; 1 is kept
 *
 * A row may begin inside a block; its bits are then shifted into place. uniform(word) < p compares 24 bits with p * 2^24, so it is
 * one comparison of whole words.
 */
#ifndef RP_KERNELS_CPU_ATTENTION_DRAW_H
#define RP_KERNELS_CPU_ATTENTION_DRAW_H

#include "kernels/cpu/cpu.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

enum { DRAW_WORDS = 4 };                /* words drawn at once */

/* uniform(word) < p is equivalent to word < draw_limit(p). */
static inline uint32_t draw_limit(float p) { return (uint32_t)ceilf(p * 16777216.0f) << 8; }

#if defined(__AVX512F__)
/* Eight Philox blocks per vector: each number is in the low half of 64 bits, which the multiplier reads; the high half is ignored. */
typedef struct { __m512i c0, c1, c2, c3; } draw_lanes;

static inline __attribute__((always_inline)) draw_lanes draw_round(draw_lanes x, __m512i k0, __m512i k1)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    __m512i p0 = _mm512_mul_epu32(x.c0, m0), p1 = _mm512_mul_epu32(x.c2, m1);

    return (draw_lanes){ .c0 = _mm512_ternarylogic_epi64(_mm512_shuffle_epi32(p1, 0xf5), x.c1, k0, 0x96), .c1 = p1,
                         .c2 = _mm512_ternarylogic_epi64(_mm512_shuffle_epi32(p0, 0xf5), x.c3, k1, 0x96), .c3 = p0 };
}

static inline uint32_t draw_kept(draw_lanes x, __m512i limit)
{
    __m512i low  = _mm512_mask_shuffle_epi32(x.c0, 0xaaaa, x.c1, 0xa0);         /* words 0 and 1 of each block */
    __m512i high = _mm512_mask_shuffle_epi32(x.c2, 0xaaaa, x.c3, 0xa0);

    return _pdep_u32(_mm512_cmpge_epu32_mask(low, limit), 0x33333333) | _pdep_u32(_mm512_cmpge_epu32_mask(high, limit), 0xcccccccc);
}

/* Draws the bits of 32 * DRAW_WORDS elements, from block `block` on. */
static inline void draw_some(const rp_stream *s, int64_t row, int64_t block, uint32_t limit, uint32_t *to)
{
    uint64_t sample = (uint64_t)(s->sample_base + row), step = (uint64_t)s->step;
    uint32_t k0 = (uint32_t)s->key, k1 = (uint32_t)(s->key >> 32), c3 = (uint32_t)(sample >> 32) ^ (uint32_t)(step >> 32) << 16;
    const __m512i count = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0), limits = _mm512_set1_epi32((int)limit);
    draw_lanes x[DRAW_WORDS];

#pragma GCC unroll 4
    for (int w = 0; w < DRAW_WORDS; w++)
        x[w] = (draw_lanes){ _mm512_add_epi64(count, _mm512_set1_epi64(block + 8 * w)), _mm512_set1_epi64((uint32_t)sample),
                             _mm512_set1_epi64((uint32_t)step), _mm512_set1_epi64(c3) };
    for (int round = 0; round < 10; round++) {
        __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
#pragma GCC unroll 4
        for (int w = 0; w < DRAW_WORDS; w++) x[w] = draw_round(x[w], key0, key1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
#pragma GCC unroll 4
    for (int w = 0; w < DRAW_WORDS; w++) to[w] = draw_kept(x[w], limits);
}
#else
static inline void draw_some(const rp_stream *s, int64_t row, int64_t block, uint32_t limit, uint32_t *to)
{
    uint32_t four_bits[8 * DRAW_WORDS];

#pragma omp simd
    for (int b = 0; b < 8 * DRAW_WORDS; b++) {
        rp_philox x  = rp__stream_block(s, row, block + b);
        four_bits[b] = (uint32_t)(x.word[0] >= limit) | (uint32_t)(x.word[1] >= limit) << 1 | (uint32_t)(x.word[2] >= limit) << 2 |
                       (uint32_t)(x.word[3] >= limit) << 3;
    }
    for (int w = 0; w < DRAW_WORDS; w++) {
        to[w] = 0;
        for (int b = 0; b < 8; b++) to[w] |= four_bits[8 * w + b] << 4 * b;
    }
}
#endif

/* Draws words x 32 bits for the elements from `element` on of a row of the batch; word w goes to to[w * step]. */
static inline void draw_bits(const rp_stream *s, int64_t row, int64_t element, int64_t words, uint32_t limit, uint32_t *to, int64_t step)
{
    int shift = (int)(element & 3);
    uint32_t some[DRAW_WORDS + 1];

    for (int64_t w = 0; w < words; w += DRAW_WORDS) {
        draw_some(s, row, (element >> 2) + 8 * w, limit, some);
        some[DRAW_WORDS] = 0;
        if (shift) {                    /* at most three elements of the next block */
            rp_philox next = rp__stream_block(s, row, (element >> 2) + 8 * (w + DRAW_WORDS));
            for (int i = 0; i < shift; i++) some[DRAW_WORDS] |= (uint32_t)(next.word[i] >= limit) << i;
        }
        for (int i = 0; i < DRAW_WORDS && w + i < words; i++)
            to[(w + i) * step] = (uint32_t)(((uint64_t)some[i + 1] << 32 | some[i]) >> shift);
    }
}

#endif
