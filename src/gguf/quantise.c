/* gguf/quantise.c -- converts fp32 to ggml's tensor types, with exactly the bytes of gguf-py.
 *
 *   Q4_0   d = m / -8, where m is the element of largest magnitude; codes x / d + 8        Q5_0: m / -16, + 16; Q8_0: |m| / 127, no offset
 *   Q4_1   d = (max - min) / 15; codes (x - min) / d                                       Q5_1: / 31
 *
 * Codes are rounded as gguf-py and libggml round them: add a half and truncate. Products and sums are rounded one by one, so this file is
 * compiled without fused multiply-add (CMakeLists.txt). A code of NaN is 0: callers refuse elements that are not finite.
 */
#include "gguf/types.h"

#include <math.h>
#include <string.h>

enum { QK = 32 };

/* ---- 16 bits ---- */

/* To nearest, ties to even. Beyond the range the result is infinite. */
static uint16_t f16_from(float value)
{
    union { float f; uint32_t u; } v = { .f = value };
    uint32_t sign = v.u >> 16 & 0x8000u, magnitude = v.u & 0x7fffffffu;

    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) return (uint16_t)(sign | (uint32_t)lrintf(fabsf(value) * 0x1p24f));     /* denormal: multiples of 2^-24 */
    uint32_t half = (magnitude - 0x38000000u) >> 13, rest = magnitude & 0x1fffu;
    return (uint16_t)(sign | (half + (rest > 0x1000u || (rest == 0x1000u && half & 1))));
}

static void put_half(float value, uint8_t *to)
{
    uint16_t half = f16_from(value);

    memcpy(to, &half, sizeof half);
}

void rp__quantise_f32(const float *from, int64_t n, uint8_t *to) { memcpy(to, from, (size_t)n * sizeof *from); }

void rp__quantise_f16(const float *from, int64_t n, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++) put_half(from[i], to + 2 * i);
}

void rp__quantise_bf16(const float *from, int64_t n, uint8_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits = rp__bf16_from_f32(from[i]);
        memcpy(to + 2 * i, &bits, sizeof bits);
    }
}

/* ---- blocks of 32 ---- */

static uint8_t code_of(float value, int most) { return !(value >= 1) ? 0 : value >= (float)most ? (uint8_t)most : (uint8_t)value; }

static float inverse(float d) { return d == 0 ? 0 : 1 / d; }

/* The element of largest magnitude, with its sign; the first of equal ones. */
static float extreme(const float *x)
{
    float most = x[0];

    for (int i = 1; i < QK; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    return most;
}

static void signed_codes(const float *x, int levels, uint8_t q[QK], uint8_t *scale)
{
    float d = extreme(x) / (float)(-levels / 2), by = inverse(d), half = (float)(levels / 2) + 0.5f;

    for (int i = 0; i < QK; i++) q[i] = code_of(x[i] * by + half, levels - 1);
    put_half(d, scale);
}

static void ranged_codes(const float *x, int levels, uint8_t q[QK], uint8_t *scale)
{
    float low = x[0], high = x[0];

    for (int i = 1; i < QK; i++) {
        if (x[i] < low) low = x[i];
        if (x[i] > high) high = x[i];
    }
    float d = (high - low) / (float)(levels - 1), by = inverse(d);
    for (int i = 0; i < QK; i++) q[i] = code_of((x[i] - low) * by + 0.5f, levels - 1);
    put_half(d, scale);
    put_half(low, scale + 2);
}

static void pack_low(const uint8_t q[QK], uint8_t *to)
{
    for (int i = 0; i < QK / 2; i++) to[i] = (uint8_t)((q[i] & 15) | q[i + QK / 2] << 4);
}

/* Bit i is the fifth bit of code i. */
static void pack_high(const uint8_t q[QK], uint8_t *to)
{
    uint32_t bits = 0;

    for (int i = 0; i < QK; i++) bits |= (uint32_t)(q[i] >> 4) << i;
    memcpy(to, &bits, sizeof bits);
}

/* 4 bits of each code, behind the scale, the minimum and the fifth bits, if there are any. */
static inline void pack_blocks(const float *from, int64_t n, uint8_t *to, bool ranged, bool fifth)
{
    int levels = fifth ? 32 : 16;
    uint8_t q[QK];

    for (; n > 0; n -= QK, from += QK) {
        (ranged ? ranged_codes : signed_codes)(from, levels, q, to);
        to += ranged ? 4 : 2;
        if (fifth) pack_high(q, to);
        to += fifth ? 4 : 0;
        pack_low(q, to);
        to += QK / 2;
    }
}

void rp__quantise_q4_0(const float *from, int64_t n, uint8_t *to) { pack_blocks(from, n, to, false, false); }
void rp__quantise_q4_1(const float *from, int64_t n, uint8_t *to) { pack_blocks(from, n, to, true, false); }
void rp__quantise_q5_0(const float *from, int64_t n, uint8_t *to) { pack_blocks(from, n, to, false, true); }
void rp__quantise_q5_1(const float *from, int64_t n, uint8_t *to) { pack_blocks(from, n, to, true, true); }

void rp__quantise_q8_0(const float *from, int64_t n, uint8_t *to)
{
    for (; n > 0; n -= QK, from += QK, to += 34) {
        float d = fabsf(extreme(from)) / 127, by = inverse(d);
        put_half(d, to);
        for (int i = 0; i < QK; i++) {
            float code = roundf(from[i] * by);
            to[2 + i]  = (uint8_t)(int8_t)(code > 127 ? 127 : code >= -127 ? code : -127);
        }
    }
}
