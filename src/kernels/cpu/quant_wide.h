/* kernels/cpu/quant_wide.h -- decodes quantised blocks with AVX-512, 32 elements at a time. The numbers are those of base/quant_decode.h: the same products
 * and sums, of which at most one rounds.
 *
 *   codes of 4 or 5 bits     the values of all 16 or 32 codes are computed and rounded once, then looked up: vpermw, vpermps
 *   other codes              (q + bias) scale - least, for two runs of 16 elements with scales of their own
 *
 * A single row is multiplied by the values in registers (quant_dot_NAME). Needs AVX512BW and AVX512VL.
 */
#ifndef RP_KERNELS_CPU_QUANT_WIDE_H
#define RP_KERNELS_CPU_QUANT_WIDE_H

#include <immintrin.h>

#include "base/quant_decode.h"
#include "kernels/cpu/dots.h"
#include "kernels/cpu/quant.h"

INLINE __m512 quant_half(const uint8_t *p)
{
    uint16_t bits;

    memcpy(&bits, p, sizeof bits);
    return _mm512_cvtph_ps(_mm256_set1_epi16((int16_t)bits));
}

/* Two of them. */
INLINE void quant_halves(const uint8_t *p, __m512 *first, __m512 *second)
{
    int32_t bits;

    memcpy(&bits, p, sizeof bits);
    __m512 both = _mm512_cvtph_ps(_mm256_set1_epi32(bits));
    *first      = _mm512_moveldup_ps(both);
    *second     = _mm512_movehdup_ps(both);
}

/* As rp__bf16_from_f32: the upper halves of the words are the result. */
INLINE __m512i quant_round(__m512 v)
{
    __m512i bits = _mm512_castps_si512(v), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);

    return _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), bits, _mm512_set1_epi32(0x400000));
}

/* The range of values before they are rounded. Scales that are fp16 give zero or at least 2^-24, so an instruction that takes denormals for zero rounds them
 * as quant_round does. */
typedef enum { QUANT_NORMAL, QUANT_ANY } quant_range;

INLINE __m256i quant_words(quant_range range, __m512 v)
{
#if defined(__AVX512BF16__)
    if (range == QUANT_NORMAL) return (__m256i)_mm512_cvtneps_pbh(v);
#endif
    (void)range;
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(quant_round(v), 16));
}

INLINE __m512 quant_round_wide(quant_range range, __m512 v)
{
#if defined(__AVX512BF16__)
    if (range == QUANT_NORMAL) return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(quant_words(range, v)), 16));
#endif
    (void)range;
    return _mm512_castsi512_ps(_mm512_and_si512(quant_round(v), _mm512_set1_epi32((int)0xffff0000u)));
}

INLINE __m512 quant_count(float from, float step)
{
    return _mm512_fmadd_ps(_mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_ps(step), _mm512_set1_ps(from));
}

/* ---- outputs of 32 elements ---- */

/* Two runs of 16 elements; or, as QUANT_HALVES, all 32 in the bits of `first`. */
typedef struct { __m512 first, second; } quant_pair;

INLINE quant_pair quant_of_halves(__m512i words) { return (quant_pair){ _mm512_castsi512_ps(words), _mm512_setzero_ps() }; }

/* Rounded to bf16: the words of low, then those of high. */
INLINE __m512i quant_words_of_two(quant_range range, __m512 low, __m512 high)
{
#if defined(__AVX512BF16__)
    if (range == QUANT_NORMAL) return (__m512i)_mm512_cvtne2ps_pbh(high, low);
#endif
    return _mm512_inserti64x4(_mm512_castsi256_si512(quant_words(range, low)), quant_words(range, high), 1);
}

/* low, high: the values of codes 0 to 15 and 16 to 31. codes: 32 bytes of which the lower five bits count. */
INLINE quant_pair quant_look_up_halves(quant_range range, __m512 low, __m512 high, __m256i codes)
{
    return quant_of_halves(_mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(codes), quant_words_of_two(range, low, high)));
}

INLINE quant_pair quant_look_up_five(quant_output out, __m512 low, __m512 high, __m256i codes)
{
    if (out == QUANT_HALVES) return quant_look_up_halves(QUANT_NORMAL, low, high, codes);
    if (out == QUANT_ROUNDED) low = quant_round_wide(QUANT_NORMAL, low);
    if (out == QUANT_ROUNDED) high = quant_round_wide(QUANT_NORMAL, high);
    __m512i first = _mm512_cvtepu8_epi32(_mm256_castsi256_si128(codes)), second = _mm512_cvtepu8_epi32(_mm256_extracti128_si256(codes, 1));
    return (quant_pair){ _mm512_permutex2var_ps(low, first, high), _mm512_permutex2var_ps(low, second, high) };
}

/* first, second: codes in the lower four bits of each word; a look-up ignores the others. */
INLINE quant_pair quant_look_up(quant_output out, quant_range range, __m512 table, __m512i first, __m512i second)
{
    if (out == QUANT_ROUNDED) table = quant_round_wide(range, table);
    return (quant_pair){ _mm512_permutexvar_ps(first, table), _mm512_permutexvar_ps(second, table) };
}

INLINE quant_pair quant_put(quant_output out, __m512 first, __m512 second)
{
    if (out == QUANT_HALVES) return quant_of_halves(quant_words_of_two(QUANT_NORMAL, first, second));
    if (out == QUANT_ROUNDED) return (quant_pair){ quant_round_wide(QUANT_NORMAL, first), quant_round_wide(QUANT_NORMAL, second) };
    return (quant_pair){ first, second };
}

/* q: 32 signed bytes; two scales, and two minima that are subtracted. */
INLINE quant_pair quant_scaled(quant_output out, __m256i q, const float scale[2], const float least[2])
{
    __m512 first  = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(q)));
    __m512 second = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(q, 1)));

    first  = _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(scale[0]), first), _mm512_set1_ps(least[0]));
    second = _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(scale[1]), second), _mm512_set1_ps(least[1]));
    return quant_put(out, first, second);
}

/* ---- codes of 32 elements ---- */

static inline __m256i quant_bytes(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }

/* 16 bytes: the low nibbles, then the high ones, with other bits above them in each byte. */
static inline __m256i quant_loose_nibbles(const uint8_t *p)
{
    __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));

    return _mm256_srlv_epi64(twice, _mm256_set_epi64x(4, 4, 0, 0));
}

static inline __m256i quant_nibbles(const uint8_t *p) { return _mm256_and_si256(quant_loose_nibbles(p), _mm256_set1_epi8(15)); }

INLINE __m512i quant_wide_bytes(const uint8_t *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)); }

/* Codes of four bits: those of the low nibbles of 16 bytes, then those of the high ones. */
INLINE quant_pair quant_look_up_nibbles(quant_output out, __m512 table, const uint8_t *p)
{
    __m512i bytes = quant_wide_bytes(p);

    if (out != QUANT_HALVES) return quant_look_up(out, QUANT_NORMAL, table, bytes, _mm512_srli_epi32(bytes, 4));
    return quant_look_up_halves(QUANT_NORMAL, table, table, quant_loose_nibbles(p));
}

/* 16 bytes: of each the high nibble, then the low one. */
static inline __m256i quant_nibbles_in_turn(const uint8_t *p)
{
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p), mask = _mm_set1_epi8(15);
    __m128i low = _mm_and_si128(b, mask), high = _mm_and_si128(_mm_srli_epi16(b, 4), mask);

    return _mm256_set_m128i(_mm_unpackhi_epi8(high, low), _mm_unpacklo_epi8(high, low));
}

/* Bits [from, from + n) of each byte. */
INLINE __m256i quant_bits(__m256i bytes, int from, int n)
{
    return _mm256_and_si256(_mm256_srl_epi16(bytes, _mm_cvtsi32_si128(from)), _mm256_set1_epi8((char)((1 << n) - 1)));
}

static inline __m256i quant_fifth(__m256i codes, const uint8_t *bits)
{
    return _mm256_or_si256(codes, _mm256_maskz_set1_epi8(word_at(bits), 16));
}

/* ---- types: one unit of 32 elements, the u-th of a block at p ---- */

#define QUANT_UNIT(name) INLINE quant_pair quant_unit_##name(quant_output out, const uint8_t *p, int u)

QUANT_UNIT(q4_0)
{
    (void)u;
    return quant_look_up_nibbles(out, _mm512_mul_ps(quant_count(-8, 1), quant_half(p)), p + 2);
}

QUANT_UNIT(q4_1)
{
    __m512 d, m;

    (void)u;
    quant_halves(p, &d, &m);
    return quant_look_up_nibbles(out, _mm512_fmadd_ps(quant_count(0, 1), d, m), p + 4);
}

QUANT_UNIT(q5_0)
{
    __m512 d = quant_half(p);

    (void)u;
    return quant_look_up_five(out, _mm512_mul_ps(quant_count(-16, 1), d), _mm512_mul_ps(quant_count(0, 1), d), quant_fifth(quant_nibbles(p + 6), p + 2));
}

QUANT_UNIT(q5_1)
{
    __m512 d, m;

    (void)u;
    quant_halves(p, &d, &m);
    return quant_look_up_five(out, _mm512_fmadd_ps(quant_count(0, 1), d, m), _mm512_fmadd_ps(quant_count(16, 1), d, m),
                              quant_fifth(quant_nibbles(p + 8), p + 4));
}

QUANT_UNIT(q8_0)
{
    __m512 d   = quant_half(p);
    __m256i q  = quant_bytes(p + 2);

    (void)u;
    return quant_put(out, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_castsi256_si128(q))), d),
                     _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm256_extracti128_si256(q, 1))), d));
}

QUANT_UNIT(iq4_nl)
{
    __m512 values = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)curve)));

    (void)u;
    return quant_look_up_nibbles(out, _mm512_mul_ps(quant_half(p), values), p + 2);
}

QUANT_UNIT(q2_k)
{
    float d = half_at(p + 80), m = half_at(p + 82);
    float scale[2] = { d * (float)(p[2 * u] & 15), d * (float)(p[2 * u + 1] & 15) };
    float least[2] = { m * (float)(p[2 * u] >> 4), m * (float)(p[2 * u + 1] >> 4) };

    return quant_scaled(out, quant_bits(quant_bytes(p + 16 + 32 * (u / 4)), 2 * (u % 4), 2), scale, least);
}

QUANT_UNIT(q3_k)
{
    static const float none[2] = { 0, 0 };
    float d   = half_at(p + 108), scale[2] = { d * (float)scale_of_16(p + 96, 2 * u), d * (float)scale_of_16(p + 96, 2 * u + 1) };
    __m256i q = quant_bits(quant_bytes(p + 32 + 32 * (u / 4)), 2 * (u % 4), 2), high = quant_bits(quant_bytes(p), u, 1);

    return quant_scaled(out, _mm256_sub_epi8(_mm256_or_si256(q, _mm256_slli_epi16(high, 2)), _mm256_set1_epi8(4)), scale, none);
}

INLINE __m512 quant_ramp(float from, float scale, float least)
{
    return _mm512_sub_ps(_mm512_mul_ps(_mm512_set1_ps(scale), quant_count(from, 1)), _mm512_set1_ps(least));
}

QUANT_UNIT(q4_k)
{
    const uint8_t *codes = p + 16 + u / 2 * 32;
    __m128i nibble       = _mm_cvtsi32_si128((u & 1) * 4);
    float scale, least;

    scale_at(p + 4, u, half_at(p), half_at(p + 2), &scale, &least);
    __m512 table = quant_ramp(0, scale, least);
    if (out != QUANT_HALVES)
        return quant_look_up(out, QUANT_NORMAL, table, _mm512_srl_epi32(quant_wide_bytes(codes), nibble),
                             _mm512_srl_epi32(quant_wide_bytes(codes + 16), nibble));
    return quant_look_up_halves(QUANT_NORMAL, table, table, quant_bits(quant_bytes(codes), (u & 1) * 4, 4));
}

QUANT_UNIT(q5_k)
{
    __m256i codes = quant_bits(quant_bytes(p + 48 + u / 2 * 32), (u & 1) * 4, 4), high = quant_bits(quant_bytes(p + 16), u, 1);
    float scale, least;

    scale_at(p + 4, u, half_at(p), half_at(p + 2), &scale, &least);
    return quant_look_up_five(out, quant_ramp(0, scale, least), quant_ramp(16, scale, least), _mm256_or_si256(codes, _mm256_slli_epi16(high, 4)));
}

QUANT_UNIT(q6_k)
{
    static const float none[2] = { 0, 0 };
    float d     = half_at(p + 208), scale[2] = { d * (float)(int8_t)p[192 + 2 * u], d * (float)(int8_t)p[193 + 2 * u] };
    __m256i low = quant_bits(quant_bytes(p + u / 4 * 64 + (u & 1) * 32), (u & 2) * 2, 4), high = quant_bits(quant_bytes(p + 128 + u / 4 * 32), (u & 3) * 2, 2);

    return quant_scaled(out, _mm256_sub_epi8(_mm256_or_si256(low, _mm256_slli_epi16(high, 4)), _mm256_set1_epi8(32)), scale, none);
}

INLINE quant_pair quant_unit_of_nf4(quant_output out, float scale, const uint8_t *codes)
{
    __m512 table = _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_loadu_ps(rp__nf4_value));
    __m256i each = quant_nibbles_in_turn(codes);

    if (out != QUANT_HALVES)
        return quant_look_up(out, QUANT_ANY, table, _mm512_cvtepu8_epi32(_mm256_castsi256_si128(each)),
                             _mm512_cvtepu8_epi32(_mm256_extracti128_si256(each, 1)));
    return quant_look_up_halves(QUANT_ANY, table, table, each);
}

QUANT_UNIT(nf4_fp32) { return quant_unit_of_nf4(out, rp__f32_from_bits(word_at(p)), p + 4 + 16 * u); }

/* Block number `block` of the tensor at `base`, and its unit u. */
#define RP_QUANT(dtype, name, elems, bytes) \
    INLINE const uint8_t *quant_block_##name(const uint8_t *base, int64_t block) { return base + block * (bytes); } \
    INLINE quant_pair quant_at_##name(quant_output out, const uint8_t *base, int64_t block, int u) \
    { \
        return quant_unit_##name(out, quant_block_##name(base, block), u); \
    }
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) \
    INLINE const uint8_t *quant_block_##name(const uint8_t *base, int64_t block) { return rp__nf4_block((uint8_t *)(uintptr_t)base, block); } \
    INLINE quant_pair quant_at_##name(quant_output out, const uint8_t *base, int64_t block, int u) \
    { \
        return quant_unit_of_nf4(out, rp__nf4_scale(base, block), quant_block_##name(base, block) + 1 + 16 * u); \
    }
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED

/* ---- decoders, and products with one row ---- */

INLINE void quant_store(quant_output out, quant_pair v, void *to, int64_t at)
{
    if (out == QUANT_HALVES) {
        _mm512_storeu_ps((uint16_t *)to + at, v.first);
        return;
    }
    _mm512_storeu_ps((float *)to + at, v.first);
    _mm512_storeu_ps((float *)to + at + 16, v.second);
}

/* The chains of `dot` (dots.h), for a row of fp32: two units advance all four. The first chain takes a unit that is left over. */
INLINE void quant_add(quant_pair v, const float *a, lanes *first, lanes *second)
{
    *first += *(const lanes_at *)a * (lanes)v.first;
    *second += *(const lanes_at *)(a + 16) * (lanes)v.second;
}

#define RP_QUANT(dtype, name, elems, bytes) \
    INLINE void quant_blocks_##name(quant_output out, const uint8_t *base, int64_t block, int64_t n, void *to) \
    { \
        for (int64_t b = 0; b < n; b++) \
            for (int u = 0; u < (elems) / 32; u++) quant_store(out, quant_at_##name(out, base, block + b, u), to, b * (elems) + 32 * u); \
    } \
    INLINE float quant_dot_##name(quant_output out, const uint8_t *base, int64_t block, int64_t n, const float *a) \
    { \
        enum { UNITS = (elems) / 32, STEP = UNITS == 1 ? 2 : 1 }; \
        lanes sum[4] = { 0 }; \
        for (; n >= STEP; n -= STEP, block += STEP) { \
            dot_prefetch(quant_block_##name(base, block), STEP * (bytes)); \
            for (int u = 0; u < STEP * UNITS; u += 2, a += 64) { \
                quant_add(quant_at_##name(out, base, block, u % UNITS), a, &sum[0], &sum[1]); \
                quant_add(quant_at_##name(out, base, block + STEP - 1, (u + 1) % UNITS), a + 32, &sum[2], &sum[3]); \
            } \
        } \
        if (n) quant_add(quant_at_##name(out, base, block, 0), a, &sum[0], &sum[0]); \
        return dot_total(sum, 0); \
    }
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) RP_QUANT(dtype, name, elems, bytes)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED

/* The chains of `dot_pairs` (dots.h): unit i of the row belongs to chain i % 4. */
#if defined(__AVX512BF16__)
#define RP_QUANT(dtype, name, elems, bytes) \
    INLINE float quant_dot_pairs_##name(const uint8_t *base, int64_t block, int64_t n, const uint16_t *a) \
    { \
        enum { UNITS = (elems) / 32, STEP = UNITS < DOT_CHAINS ? DOT_CHAINS / UNITS : 1 }; \
        __m512 sum[DOT_CHAINS] = { 0 }; \
        for (; n >= STEP; n -= STEP, block += STEP) { \
            dot_prefetch(quant_block_##name(base, block), STEP * (bytes)); \
            _Pragma("GCC unroll 8") \
            for (int u = 0; u < STEP * UNITS; u++, a += 32) \
                sum[u % DOT_CHAINS] = dot_step(sum[u % DOT_CHAINS], quant_at_##name(QUANT_HALVES, base, block + u / UNITS, u % UNITS).first, a); \
        } \
        _Pragma("GCC unroll 8") \
        for (int u = 0; u < DOT_CHAINS - 1; u++) \
            if (u < n * UNITS) sum[u] = dot_step(sum[u], quant_at_##name(QUANT_HALVES, base, block + u / UNITS, u % UNITS).first, a + 32 * u); \
        return dot_pairs_total(sum); \
    }
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) RP_QUANT(dtype, name, elems, bytes)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
#endif

#endif
