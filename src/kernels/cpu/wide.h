/* kernels/cpu/wide.h -- a vector of the level's width, loaded from any dtype and stored to any dtype.
 *
 *   bf16 or fp32  --wide_load-->  WIDE floats  --wide_store / wide_add-->  bf16 (rounded once) or fp32
 *
 * Formulas use the vector operators of C; other functions are here. The dtype is tested for each vector, because a predictable branch costs
 * less than a copy of each loop per dtype. The end of a row is loaded into a vector padded with zeros, so the bits of an element do not depend on
 * its position.
 */
#ifndef RP_KERNELS_CPU_WIDE_H
#define RP_KERNELS_CPU_WIDE_H

#include "kernels/cpu/cpu.h"

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
enum { WIDE = 16 };
#elif defined(__AVX2__)
enum { WIDE = 8 };
#else
enum { WIDE = 4 };
#endif

enum { AHEAD = 1024 };          /* bytes, chosen by measurement */

typedef float wide __attribute__((vector_size(4 * WIDE)));
typedef int32_t wide_int __attribute__((vector_size(4 * WIDE)));
typedef uint32_t wide_bits __attribute__((vector_size(4 * WIDE)));
typedef uint16_t wide_half __attribute__((vector_size(2 * WIDE)));
/* Types for unaligned buffers. */
typedef float wide_at __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef uint32_t wide_bits_at __attribute__((vector_size(4 * WIDE), aligned(4), may_alias));
typedef uint16_t wide_half_at __attribute__((vector_size(2 * WIDE), aligned(2), may_alias));

INLINE wide wide_of(float f) { return f - (wide){ 0 }; }

INLINE wide wide_select(wide_int where, wide yes, wide no) { return (wide)((where & (wide_int)yes) | (~where & (wide_int)no)); }

/* Returns the second operand if either is NaN, like the instructions. */
INLINE wide wide_min(wide a, wide b)
{
#if defined(__AVX512F__)
    return (wide)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (wide)_mm256_min_ps((__m256)a, (__m256)b);
#else
    return wide_select(a < b, a, b);
#endif
}

INLINE wide wide_max(wide a, wide b)
{
#if defined(__AVX512F__)
    return (wide)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX2__)
    return (wide)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return wide_select(a > b, a, b);
#endif
}

/* ---- bf16 ---- */

INLINE wide wide_from_half(const void *from)
{
#if defined(__AVX512F__)
    return (wide)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from)), 16);
#elif defined(__AVX2__)
    return (wide)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(from)), 16);
#else
    return (wide)(__builtin_convertvector(*(const wide_half_at *)from, wide_bits) << 16);
#endif
}

/* Rounds as rp__bf16_from_f32. The instruction of AVX512-BF16 also turns denormal numbers, below 1.2e-38, into 0; that of ARM does not. */
INLINE void wide_to_half(void *to, wide v)
{
#if defined(__AVX512BF16__)
    _mm256_storeu_si256(to, (__m256i)_mm512_cvtneps_pbh((__m512)v));
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    vst1_u16(to, vreinterpret_u16_bf16(vcvt_bf16_f32((float32x4_t)v)));
#else
    wide_bits u = (wide_bits)v, rounded = u + 0x7fffu + ((u >> 16) & 1u);
    wide_bits whole = (wide_bits)wide_select(v == v, (wide)rounded, (wide)(u | 0x400000u)) >> 16;

#if defined(__AVX512F__)
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16((__m512i)whole));
#elif defined(__AVX2__)
    __m256i packed = _mm256_packus_epi32((__m256i)whole, (__m256i)whole);
    _mm_storeu_si128(to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
#else
    *(wide_half_at *)to = __builtin_convertvector(whole, wide_half);
#endif
#endif
}

/* ---- any dtype ---- */

INLINE const void *element(rp_dtype dtype, const void *from, int64_t i) { return (const uint8_t *)from + i * width_of(dtype); }

/* Prefetches the data that a loop over i reads or writes AHEAD bytes later. The dependency chains of a formula are long, so its loads are issued
 * too late, and the hardware prefetcher gives up. Saves a quarter of the time if memory is the limit. */
INLINE void wide_prefetch(rp_dtype dtype, const void *at, int64_t i)
{
    __builtin_prefetch((const uint8_t *)element(dtype, at, i) + AHEAD, 0, 3);
}

/* Number of elements of a row of n that the vector at i holds. */
INLINE int64_t wide_width(int64_t i, int64_t n) { return n - i < WIDE ? n - i : WIDE; }

/* Loads elements i … i + n - 1, n <= WIDE; the other lanes are 0. */
INLINE wide wide_load(rp_dtype dtype, const void *from, int64_t i, int64_t n)
{
    wide part = { 0 };

    if (n == WIDE) return dtype == RP_F32 ? (wide)*(const wide_at *)((const float *)from + i) : wide_from_half((const uint16_t *)from + i);
    memcpy(&part, element(dtype, from, i), (size_t)(n * width_of(dtype)));
    return dtype == RP_F32 ? part : wide_from_half(&part);
}

INLINE void wide_store(rp_dtype dtype, void *to, int64_t i, int64_t n, wide v)
{
    wide part;

    if (n == WIDE && dtype == RP_F32) *(wide_at *)((float *)to + i) = v;
    else if (n == WIDE) wide_to_half((uint16_t *)to + i, v);
    if (n == WIDE) return;
    if (dtype == RP_F32) part = v;
    else wide_to_half(&part, v);
    memcpy((uint8_t *)to + i * width_of(dtype), &part, (size_t)(n * width_of(dtype)));
}

INLINE void wide_add(rp_dtype dtype, void *to, int64_t i, int64_t n, wide v, bool adds)
{
    wide_store(dtype, to, i, n, adds ? wide_load(dtype, to, i, n) + v : v);
}

/* Keeps the first n lanes and sets the others to 0. */
INLINE wide wide_inside(wide v, int64_t n)
{
    wide none = { 0 };

    if (n < WIDE) memcpy((float *)&v + n, &none, (size_t)(WIDE - n) * sizeof(float));
    return v;
}

/* Adds the lanes by halves, in the same order in every call. */
INLINE float wide_sum(wide v)
{
    float lane[WIDE];

    memcpy(lane, &v, sizeof lane);
    for (int half = WIDE / 2; half; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* ---- functions ---- */

INLINE wide wide_sqrt(wide v)
{
#if defined(__AVX512F__)
    return (wide)_mm512_sqrt_ps((__m512)v);
#elif defined(__AVX2__)
    return (wide)_mm256_sqrt_ps((__m256)v);
#else
    for (int l = 0; l < WIDE; l++) v[l] = sqrtf(v[l]);
    return v;
#endif
}

#if defined(__AVX512F__)
/* exp(x), within 2 ulp; 0 below the normal numbers, exp(88) above 88, NaN for NaN. x = (16 n + j) ln2/16 + r: 2^(j/16) comes from a table of one
 * vector, exp(r) from three terms. The chain is short, so the vectors of a loop overlap better than with a longer polynomial. */
INLINE wide wide_exp(wide x)
{
    const wide power = { 1.0f, 1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f, 1.29683955f, 1.35425555f,
                         1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f, 1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f };
    wide in = wide_max(wide_of(-106.0f), wide_min(wide_of(88.0f), x)), shifted = in * 23.0831207f + 12582912.0f, n = shifted - 12582912.0f;
    wide r = (in - n * 0.0433197021f) - n * 1.99663656e-6f;
    wide p = ((r * 0.16666667f + 0.5f) * r + 1.0f) * r + 1.0f;

    p *= (wide)_mm512_permutexvar_ps((__m512i)shifted, (__m512)power);
    return (wide)_mm512_scalef_ps((__m512)p, (__m512)(n * 0.0625f));
}
#else
/* Same as fast_exp of cpu.h. */
INLINE wide wide_exp(wide x)
{
    wide in = wide_max(wide_of(-106.0f), wide_min(wide_of(88.0f), x));
    wide shifted = in * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    wide r = (in - n * 0.693359375f) + n * 2.12194440e-4f, p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    wide_int power = (wide_int)shifted - 0x4b400000, half = power >> 1;

    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return p * (wide)((half + 127) << 23) * (wide)((power - half + 127) << 23);
}
#endif

/* log(x), within about 2 ulp; -inf for 0, NaN below it. x = 2^n (1 + f) with f in [-0.293, 0.415]; the polynomial is log(1 + f) - f + f^2 / 2. */
INLINE wide wide_log(wide x)
{
    wide_int part = (wide_int)(((wide_bits)x - 0x3f3504f3u) & 0xff800000u);
    wide n = (wide)((part >> 23) + 0x4b400000) - 12582912.0f, f = (wide)((wide_int)x - part) - 1.0f, s = f * f;
    wide p = 0.0675803551f * f - 0.11686771f, y;

    p = p * f + 0.118888984f;
    p = p * f - 0.12403608f;
    p = p * f + 0.14219166f;
    p = p * f - 0.16668109f;
    p = p * f + 0.200021453f;
    p = p * f - 0.250000075f;
    p = p * f + 0.333333121f;
    y = p * f * s - 0.5f * s + 1.42860677e-6f * n;
    y = 0.693145752f * n + (f + y);
    y = wide_select(x > 0.0f, y, wide_select(x == 0.0f, wide_of(-INFINITY), wide_of(NAN)));
    return wide_select(x == wide_of(INFINITY), x, y);
}

/* 1 / x for a normal x, within about 1 ulp: an estimate and one Newton step, or a division if the level has no estimate. */
INLINE wide wide_reciprocal(wide x)
{
#if defined(__AVX512F__)
    wide guess = (wide)_mm512_rcp14_ps((__m512)x);

    return guess + guess * (1.0f - x * guess);
#else
    return 1.0f / x;
#endif
}

/* tanh(x), within about 2 ulp. Near 0 it uses an odd polynomial (Cephes), because the quotient would cancel. Its slope, 1 - tanh^2, is computed
 * from q = 1/(1 + exp(2|x|)), which stays accurate for large |x|. */
INLINE wide wide_tanh(wide x, wide *slope)
{
    wide size = (wide)((wide_bits)x & 0x7fffffffu), square = x * x, p = -5.70498872745e-3f * square + 2.06390887954e-2f;
    wide q = wide_reciprocal(1.0f + wide_exp(2.0f * wide_min(wide_of(40.0f), size))), far = 1.0f - 2.0f * q;
    wide_bits sign = (wide_bits)x & 0x80000000u;

    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    *slope = 4.0f * q * (1.0f - q);
    return wide_select(size < 0.625f, p * square * x + x, (wide)((wide_bits)far | sign));
}

INLINE wide wide_sigmoid(wide x) { return wide_reciprocal(1.0f + wide_exp(-x)); }

#endif
