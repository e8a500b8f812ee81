/* kernels/cpu/attention_lanes.h -- vectors of 16 fp32 and of 32 bf16 for attention in bf16: a register of AVX-512, or four of NEON.
 *
 *   lanes16    16 fp32                 ints16    16 integers              some16    which of 16 lanes
 *   halves32   32 bf16, or 16 pairs
 *
 * Loads and stores of lanes16 and halves32 are aligned to 64 bytes, unless a comment says otherwise.
 */
#ifndef RP_KERNELS_CPU_ATTENTION_LANES_H
#define RP_KERNELS_CPU_ATTENTION_LANES_H

#include "kernels/cpu/wide.h"

#if defined(__AVX512BF16__)
#include "kernels/cpu/pairs.h"

typedef __m512 lanes16;
typedef __m512i ints16, halves32;
typedef __mmask16 some16;

INLINE lanes16 load16(const float *from) { return _mm512_load_ps(from); }
INLINE void store16(float *to, lanes16 x) { _mm512_store_ps(to, x); }
INLINE lanes16 all16(float x) { return _mm512_set1_ps(x); }
INLINE lanes16 add16(lanes16 x, lanes16 y) { return _mm512_add_ps(x, y); }
INLINE lanes16 sub16(lanes16 x, lanes16 y) { return _mm512_sub_ps(x, y); }
INLINE lanes16 mul16(lanes16 x, lanes16 y) { return _mm512_mul_ps(x, y); }
INLINE lanes16 max16(lanes16 x, lanes16 y) { return _mm512_max_ps(x, y); }
/* x y - z, rounded once. */
INLINE lanes16 fms16(lanes16 x, lanes16 y, lanes16 z) { return _mm512_fmsub_ps(x, y, z); }
INLINE float sum16(lanes16 x) { return _mm512_reduce_add_ps(x); }

/* 2^x within 3e-6, which is much finer than the rounding of a probability to bf16. 2^-inf is 0, NaN stays NaN. The polynomial has the least
 * relative error on [0, 1) with 2^0 = 1. */
INLINE lanes16 power_of_two(lanes16 x)
{
    __m512 r = _mm512_reduce_ps(x, 0x09), p = _mm512_set1_ps(0.0134267947f);

    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.052242297f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.241280288f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.693044834f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, x);
}

INLINE lanes16 tanh16(lanes16 x, lanes16 *slope)
{
    wide slopes, t = wide_tanh((wide)x, &slopes);

    *slope = (__m512)slopes;
    return (__m512)t;
}

/* Each lane gets the larger value of two halves, quarters … of x and y. After four rounds a lane is the maximum of a vector. */
#define RP_FOLD(shuffle, x, y, first, second) _mm512_max_ps(shuffle(x, y, first), shuffle(x, y, second))

/* Lane i: the maximum of x[i]. */
INLINE lanes16 maxima16(const lanes16 x[16])
{
    __m512 y[4];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512 a = RP_FOLD(_mm512_shuffle_f32x4, x[i], x[4 + i], 0x44, 0xee), b = RP_FOLD(_mm512_shuffle_f32x4, x[8 + i], x[12 + i], 0x44, 0xee);
        y[i]     = RP_FOLD(_mm512_shuffle_f32x4, a, b, 0x88, 0xdd);
    }
    y[0] = RP_FOLD(_mm512_shuffle_ps, y[0], y[1], 0x44, 0xee);
    y[2] = RP_FOLD(_mm512_shuffle_ps, y[2], y[3], 0x44, 0xee);
    return RP_FOLD(_mm512_shuffle_ps, y[0], y[2], 0x88, 0xdd);
}
#undef RP_FOLD

/* At any address. */
INLINE ints16 load_ints16(const int32_t *from) { return _mm512_loadu_si512(from); }
INLINE ints16 all_ints16(int32_t x) { return _mm512_set1_epi32(x); }
/* first, first + 1 … */
INLINE ints16 count16(int32_t first)
{
    return _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), _mm512_set1_epi32(first));
}

/* low <= at < high: whether 16 rows see a key, or which of 16 keys a row sees. */
INLINE some16 within(ints16 at, ints16 low, ints16 high) { return _mm512_cmple_epi32_mask(low, at) & _mm512_cmplt_epi32_mask(at, high); }
INLINE some16 has_bits(ints16 x, ints16 bits) { return _mm512_test_epi32_mask(x, bits); }
/* True for NaN. */
INLINE some16 not_at_most(lanes16 x, lanes16 y) { return _mm512_cmp_ps_mask(x, y, _CMP_NLE_UQ); }
INLINE bool any16(some16 s) { return s != 0; }
INLINE bool has_lane(some16 s, int64_t i) { return s >> i & 1; }
/* The other lanes become 0. */
INLINE lanes16 where16(some16 s, lanes16 x) { return _mm512_maskz_mov_ps(s, x); }
INLINE lanes16 select16(some16 s, lanes16 yes, lanes16 no) { return _mm512_mask_mov_ps(no, s, yes); }
/* Stores -inf to the other lanes. */
INLINE void hide16(float *to, some16 s) { _mm512_mask_storeu_epi32(to, (__mmask16)~s, _mm512_set1_epi32((int)0xff800000)); }

/* Rounded to bf16. */
INLINE halves32 to_bf16(lanes16 low, lanes16 high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }
INLINE void store_halves(void *to, halves32 x) { _mm512_store_si512(to, x); }
/* At any address: the first n, then zeros. */
INLINE halves32 load_halves(const uint16_t *from, int64_t n) { return _mm512_maskz_loadu_epi16(pairs_mask(n), from); }
INLINE halves32 flip_signs(halves32 x, bool flips) { return _mm512_xor_si512(x, _mm512_set1_epi16(flips ? (short)0x8000 : 0)); }
/* Those whose bit is 1; the others become 0. */
INLINE halves32 keep_halves(uint32_t bits, halves32 x) { return _mm512_maskz_mov_epi16(bits, x); }
/* Lane i: sum[i] + the products of pair i. */
INLINE lanes16 dot_halves(lanes16 sum, halves32 x, halves32 y) { return _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)y); }

/* Stores x and y as pairs: of elements 0 … 15 to `low`, of 16 … 31 to `high`. */
INLINE void store_pairs(const uint16_t *x, const uint16_t *y, uint16_t *low, uint16_t *high)
{
    __m512i a = _mm512_load_si512(x), b = _mm512_load_si512(y);

    _mm512_store_si512(low, pairs_low(a, b));
    _mm512_store_si512(high, pairs_high(a, b));
}

/* The same of quarters: the first four elements of each eight to `low`, the others to `high`. */
INLINE void store_pairs_in_eights(halves32 x, halves32 y, uint16_t *low, uint16_t *high)
{
    _mm512_store_si512(low, _mm512_unpacklo_epi16(x, y));
    _mm512_store_si512(high, _mm512_unpackhi_epi16(x, y));
}

/* Transposes 16 x 16 words of 32 bits. */
static inline void transpose_tile(const void *from, void *to)
{
    __m512i x[16];

#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) x[i] = _mm512_load_si512((const char *)from + 64 * i);
    pairs_transpose(x);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) _mm512_store_si512((char *)to + 64 * i, x[i]);
}

/* The first n <= 16 at any address; the others become 0. */
INLINE lanes16 load_first(rp_dtype dtype, const void *from, int64_t at, int64_t n)
{
    __mmask16 few = (__mmask16)((1u << n) - 1);

    if (dtype == RP_F32) return _mm512_maskz_loadu_ps(few, (const float *)from + at);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(few, (const uint16_t *)from + at)), 16));
}

INLINE void store_first(rp_dtype dtype, void *to, int64_t at, int64_t n, lanes16 x)
{
    __mmask16 few = (__mmask16)((1u << n) - 1);

    if (dtype == RP_F32) _mm512_mask_storeu_ps((float *)to + at, few, x);
    else _mm256_mask_storeu_epi16((uint16_t *)to + at, few, (__m256i)_mm512_cvtneps_pbh(x));
}
#else
typedef struct { float32x4_t v[4]; } lanes16;
typedef struct { int32x4_t v[4]; } ints16;
typedef struct { uint32x4_t v[4]; } some16;
typedef struct { uint16x8_t v[4]; } halves32;

#define RP_FOUR _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)
#define RP_LANES(name, function) INLINE lanes16 name(lanes16 x, lanes16 y) { RP_FOUR x.v[i] = function(x.v[i], y.v[i]); return x; }
RP_LANES(add16, vaddq_f32)
RP_LANES(sub16, vsubq_f32)
RP_LANES(mul16, vmulq_f32)
RP_LANES(max16, vmaxq_f32)
#undef RP_LANES

INLINE lanes16 load16(const float *from) { lanes16 x; RP_FOUR x.v[i] = vld1q_f32(from + 4 * i); return x; }
INLINE void store16(float *to, lanes16 x) { RP_FOUR vst1q_f32(to + 4 * i, x.v[i]); }
INLINE lanes16 all16(float x) { float32x4_t v = vdupq_n_f32(x); return (lanes16){ { v, v, v, v } }; }
INLINE lanes16 fms16(lanes16 x, lanes16 y, lanes16 z) { RP_FOUR x.v[i] = vfmaq_f32(vnegq_f32(z.v[i]), x.v[i], y.v[i]); return x; }
INLINE float sum16(lanes16 x) { return vaddvq_f32(vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]))); }

/* As above. The power of two is applied in two halves, which can reach 0 and infinity. */
INLINE lanes16 power_of_two(lanes16 x)
{
    RP_FOUR {
        float32x4_t in = vminq_f32(vmaxq_f32(x.v[i], vdupq_n_f32(-160)), vdupq_n_f32(128)), whole = vrndmq_f32(in), r = vsubq_f32(in, whole);
        int32x4_t power = vcvtq_s32_f32(whole), half = vshrq_n_s32(power, 1);
        float32x4_t p = vfmaq_f32(vdupq_n_f32(0.052242297f), r, vdupq_n_f32(0.0134267947f));
        p = vfmaq_f32(vdupq_n_f32(0.241280288f), p, r);
        p = vfmaq_f32(vdupq_n_f32(0.693044834f), p, r);
        p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
        p = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, vdupq_n_s32(127)), 23)));
        x.v[i] = vmulq_f32(p, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vsubq_s32(power, half), vdupq_n_s32(127)), 23)));
    }
    return x;
}

INLINE lanes16 tanh16(lanes16 x, lanes16 *slope)
{
    RP_FOUR {
        wide slopes, t = wide_tanh((wide)x.v[i], &slopes);
        x.v[i]         = (float32x4_t)t;
        slope->v[i]    = (float32x4_t)slopes;
    }
    return x;
}

INLINE lanes16 maxima16(const lanes16 x[16])
{
    float each[16];

    for (int i = 0; i < 16; i++)
        each[i] = vmaxvq_f32(vmaxq_f32(vmaxq_f32(x[i].v[0], x[i].v[1]), vmaxq_f32(x[i].v[2], x[i].v[3])));
    return load16(each);
}

INLINE ints16 load_ints16(const int32_t *from) { ints16 x; RP_FOUR x.v[i] = vld1q_s32(from + 4 * i); return x; }
INLINE ints16 all_ints16(int32_t x) { int32x4_t v = vdupq_n_s32(x); return (ints16){ { v, v, v, v } }; }
INLINE ints16 count16(int32_t first)
{
    ints16 x;

    RP_FOUR x.v[i] = vaddq_s32((int32x4_t){ 0, 1, 2, 3 }, vdupq_n_s32(first + 4 * i));
    return x;
}

INLINE some16 within(ints16 at, ints16 low, ints16 high)
{
    some16 s;

    RP_FOUR s.v[i] = vandq_u32(vcleq_s32(low.v[i], at.v[i]), vcltq_s32(at.v[i], high.v[i]));
    return s;
}

INLINE some16 has_bits(ints16 x, ints16 bits) { some16 s; RP_FOUR s.v[i] = vtstq_s32(x.v[i], bits.v[i]); return s; }
INLINE some16 not_at_most(lanes16 x, lanes16 y) { some16 s; RP_FOUR s.v[i] = vmvnq_u32(vcleq_f32(x.v[i], y.v[i])); return s; }
INLINE bool any16(some16 s) { return vmaxvq_u32(vorrq_u32(vorrq_u32(s.v[0], s.v[1]), vorrq_u32(s.v[2], s.v[3]))) != 0; }
INLINE bool has_lane(some16 s, int64_t i) { return s.v[i / 4][i % 4] != 0; }
INLINE lanes16 select16(some16 s, lanes16 yes, lanes16 no) { RP_FOUR no.v[i] = vbslq_f32(s.v[i], yes.v[i], no.v[i]); return no; }
INLINE lanes16 where16(some16 s, lanes16 x) { return select16(s, x, all16(0)); }
INLINE void hide16(float *to, some16 s) { store16(to, select16(s, load16(to), all16(-INFINITY))); }

INLINE halves32 to_bf16(lanes16 low, lanes16 high)
{
    halves32 x;

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const lanes16 *from = i < 2 ? &low : &high;
        x.v[i] = vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(from->v[i % 2 * 2]), from->v[i % 2 * 2 + 1]));
    }
    return x;
}

INLINE void store_halves(void *to, halves32 x) { RP_FOUR vst1q_u16((uint16_t *)to + 8 * i, x.v[i]); }
INLINE halves32 load_halves(const uint16_t *from, int64_t n)
{
    uint16_t some[32] = { 0 };
    halves32 x;

    if (n < 32) memcpy(some, from, n > 0 ? (size_t)n * sizeof *from : 0);
    RP_FOUR x.v[i] = vld1q_u16((n < 32 ? some : from) + 8 * i);
    return x;
}

INLINE halves32 flip_signs(halves32 x, bool flips) { RP_FOUR x.v[i] = veorq_u16(x.v[i], vdupq_n_u16(flips ? 0x8000 : 0)); return x; }

INLINE halves32 keep_halves(uint32_t bits, halves32 x)
{
    const uint16x8_t bit = { 1, 2, 4, 8, 16, 32, 64, 128 };

    RP_FOUR x.v[i] = vandq_u16(x.v[i], vtstq_u16(vdupq_n_u16((uint16_t)(bits >> 8 * i)), bit));
    return x;
}

INLINE lanes16 dot_halves(lanes16 sum, halves32 x, halves32 y)
{
    RP_FOUR sum.v[i] = vbfdotq_f32(sum.v[i], vreinterpretq_bf16_u16(x.v[i]), vreinterpretq_bf16_u16(y.v[i]));
    return sum;
}

INLINE void store_pairs(const uint16_t *x, const uint16_t *y, uint16_t *low, uint16_t *high)
{
    RP_FOUR vst2q_u16((i < 2 ? low : high) + i % 2 * 16, ((uint16x8x2_t){ { vld1q_u16(x + 8 * i), vld1q_u16(y + 8 * i) } }));
}

INLINE void store_pairs_in_eights(halves32 x, halves32 y, uint16_t *low, uint16_t *high)
{
    RP_FOUR {
        vst1q_u16(low + 8 * i, vzip1q_u16(x.v[i], y.v[i]));
        vst1q_u16(high + 8 * i, vzip2q_u16(x.v[i], y.v[i]));
    }
}

/* Four by four: an interleaving store makes rows of four columns. The tiles hold floats or pairs, so they are copied as bytes. */
static inline void transpose_tile(const void *from, void *to)
{
    const char *row = from;
    char *column    = to;
    uint32_t turned[16];

    for (int r = 0; r < 16; r += 4)
        for (int c = 0; c < 16; c += 4) {
            uint32x4x4_t rows;
            RP_FOUR memcpy(&rows.val[i], row + 64 * (r + i) + 4 * c, 16);
            vst4q_u32(turned, rows);
            RP_FOUR memcpy(column + 64 * (c + i) + 4 * r, turned + 4 * i, 16);
        }
}

INLINE lanes16 load_first(rp_dtype dtype, const void *from, int64_t at, int64_t n)
{
    lanes16 x;

    RP_FOUR x.v[i] = (float32x4_t)wide_load(dtype, from, at + 4 * i, n <= 4 * i ? 0 : n - 4 * i < 4 ? n - 4 * i : 4);
    return x;
}

INLINE void store_first(rp_dtype dtype, void *to, int64_t at, int64_t n, lanes16 x)
{
    RP_FOUR wide_store(dtype, to, at + 4 * i, n <= 4 * i ? 0 : n - 4 * i < 4 ? n - 4 * i : 4, (wide)x.v[i]);
}
#undef RP_FOUR
#endif

#endif
