/* gguf/types.c -- the table of tensor types and their dequantisers.
 *
 *   Q4_0    d fp16 | 16 bytes: elements 0-15 in the low nibbles, 16-31 in the high     (q - 8) d
 *   Q4_1    d fp16 | m fp16 | 16 bytes as above                                        q d + m
 *   Q5_0    d fp16 | 32 high bits | 16 bytes as above                                  (q - 16) d
 *   Q5_1    d fp16 | m fp16 | 32 high bits | 16 bytes as above                         q d + m
 *   Q8_0    d fp16 | 32 int8                                                           q d
 *   Q2_K    16 bytes: scale s low, minimum t high nibble | 64 bytes of pairs | d, m    q (s d) - t m
 *   Q3_K    32 bytes of high bits | 64 bytes of low pairs | 12 bytes of 16 s | d       (q - 4) ((s - 32) d)
 *   Q4_K    d, m fp16 | 12 bytes: 8 scales s and 8 minima t of 6 bits | 128 bytes      q (s d) - t m
 *   Q5_K    d, m fp16 | the same 12 bytes | 32 bytes of high bits | 128 bytes          q (s d) - t m
 *   Q6_K    128 bytes of low nibbles | 64 bytes of high pairs | 16 int8 s | d fp16     (q - 32) (s d)
 *   IQ4_NL  d fp16 | 16 bytes as in Q4_0                                               curve[q] d
 *   IQ4_XS  d fp16 | 8 high pairs of s | 4 bytes of their nibbles | 8 times 16 bytes   curve[q] ((s - 32) d)
 *   TQ1_0   48 bytes of five base-3 digits, 4 of four | d fp16                         (q - 1) d
 *   TQ2_0   64 bytes of pairs | d fp16                                                 (q - 1) d
 *   MXFP4   e, an exponent | 16 bytes as in Q4_0                                       two_e2m1[q] 2^(e - 128)
 *   NVFP4   4 scales d of e4m3 | 4 times 8 bytes, halves as in Q4_0                    two_e2m1[q] (d / 2)
 *
 * An fp16 value has 11 significant bits; s and q have few. So every product is exact in fp32 (24 bits), and a sum of two is rounded once, with
 * or without contraction. The values therefore equal gguf-py's bit for bit under any compiler flags. Exception: MXFP4 with e < 3 reaches below
 * the normal numbers, and such values become zero if the caller's mode flushes denormals.
 *
 * The layouts are ggml's (ggml-common.h), the formulas gguf-py's. The IQ1, IQ2 and IQ3 types use ggml's code books of up to 2048 vectors;
 * they are not read.
 */
#include "gguf/types.h"

#include <string.h>

#define QK 32               /* elements per block of the types without K */
#define QK_K 256            /* elements per block of the types with K */

static float half_at(const uint8_t *p) { return rp__f32_from_f16((uint16_t)(p[0] | p[1] << 8)); }

static uint32_t word_at(const uint8_t *p)
{
    uint32_t w;

    memcpy(&w, p, sizeof w);
    return w;
}

static void dequantize_q4_0(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK, from += 2 + QK / 2, to += QK) {
        float d = half_at(from);
        for (int i = 0; i < QK / 2; i++) {
            to[i]          = (float)((from[2 + i] & 15) - 8) * d;
            to[i + QK / 2] = (float)((from[2 + i] >> 4) - 8) * d;
        }
    }
}

static void dequantize_q4_1(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK, from += 4 + QK / 2, to += QK) {
        float d = half_at(from), m = half_at(from + 2);
        for (int i = 0; i < QK / 2; i++) {
            to[i]          = (float)(from[4 + i] & 15) * d + m;
            to[i + QK / 2] = (float)(from[4 + i] >> 4) * d + m;
        }
    }
}

static void dequantize_q5_0(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK, from += 6 + QK / 2, to += QK) {
        float d       = half_at(from);
        uint32_t high = word_at(from + 2);
        for (int i = 0; i < QK / 2; i++) {
            int low        = (from[6 + i] & 15) | (int)(high >> i & 1) << 4;
            int top        = (from[6 + i] >> 4) | (int)(high >> (i + QK / 2) & 1) << 4;
            to[i]          = (float)(low - 16) * d;
            to[i + QK / 2] = (float)(top - 16) * d;
        }
    }
}

static void dequantize_q5_1(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK, from += 8 + QK / 2, to += QK) {
        float d = half_at(from), m = half_at(from + 2);
        uint32_t high = word_at(from + 4);
        for (int i = 0; i < QK / 2; i++) {
            int low        = (from[8 + i] & 15) | (int)(high >> i & 1) << 4;
            int top        = (from[8 + i] >> 4) | (int)(high >> (i + QK / 2) & 1) << 4;
            to[i]          = (float)low * d + m;
            to[i + QK / 2] = (float)top * d + m;
        }
    }
}

static void dequantize_q8_0(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK, from += 2 + QK, to += QK) {
        float d = half_at(from);
        for (int i = 0; i < QK; i++) to[i] = (float)(int8_t)from[2 + i] * d;
    }
}

/* Scale and minimum j of eight, 6 bits each. The last four of each are spread over three bytes. */
static void scale_at(const uint8_t *packed, int j, float d, float m, float *scale, float *least)
{
    const uint8_t *low = packed, *mid = packed + 4, *top = packed + 8;
    int s = j < 4 ? low[j] & 63 : (top[j - 4] & 15) | (low[j - 4] >> 6) << 4;
    int t = j < 4 ? mid[j] & 63 : (top[j - 4] >> 4) | (mid[j - 4] >> 6) << 4;

    *scale = d * (float)s;
    *least = m * (float)t;
}

/* Two sub-blocks of 32 elements share 32 bytes: one has the low nibbles, the other the high nibbles. */
static void dequantize_q4_k(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK_K, from += 16 + QK_K / 2, to += QK_K) {
        float d = half_at(from), m = half_at(from + 2), scale, least;
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = from + 16 + j / 2 * 32;
            scale_at(from + 4, j, d, m, &scale, &least);
            for (int i = 0; i < 32; i++) to[32 * j + i] = scale * (float)(q[i] >> (j & 1) * 4 & 15) - least;
        }
    }
}

static void dequantize_q5_k(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK_K, from += 48 + QK_K / 2, to += QK_K) {
        const uint8_t *high = from + 16;
        float d = half_at(from), m = half_at(from + 2), scale, least;
        for (int j = 0; j < 8; j++) {
            const uint8_t *q = from + 48 + j / 2 * 32;
            scale_at(from + 4, j, d, m, &scale, &least);
            for (int i = 0; i < 32; i++) {
                int five       = (q[i] >> (j & 1) * 4 & 15) | (high[i] >> j & 1) << 4;
                to[32 * j + i] = scale * (float)five - least;
            }
        }
    }
}

/* In each half of 128 elements, sub-block j of 32 has nibble j / 2 of bytes 32 (j % 2) …, and pair j of the 32 high bytes. */
static void dequantize_q6_k(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK_K, from += 210, to += QK_K) {
        float d = half_at(from + 208);
        for (int j = 0; j < 8; j++) {
            const uint8_t *low = from + j / 4 * 64 + (j & 1) * 32, *high = from + 128 + j / 4 * 32;
            for (int i = 0; i < 32; i++) {
                int six        = (low[i] >> (j & 2) * 2 & 15) | (high[i] >> (j & 3) * 2 & 3) << 4;
                float scale    = d * (float)(int8_t)from[192 + 2 * j + i / 16];
                to[32 * j + i] = scale * (float)(six - 32);
            }
        }
    }
}

/* Pair k of a byte belongs to the element 32 k further on: 32 bytes hold the pairs of 128 elements. */
static int pair_at(const uint8_t *pairs, int i) { return pairs[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3; }

static void dequantize_q2_k(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK_K, from += 84, to += QK_K) {
        float d = half_at(from + 80), m = half_at(from + 82);
        for (int i = 0; i < QK_K; i++) {
            float scale = d * (float)(from[i / 16] & 15), least = m * (float)(from[i / 16] >> 4);
            to[i]       = scale * (float)pair_at(from + 16, i) - least;
        }
    }
}

/* Scale j of sixteen: nibble j / 8 of byte j % 8, and pair j / 4 of byte 8 + j % 4. */
static int scale_of_16(const uint8_t *packed, int j)
{
    return ((packed[j % 8] >> j / 8 * 4 & 15) | (packed[8 + j % 4] >> j / 4 * 2 & 3) << 4) - 32;
}

static void dequantize_q3_k(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK_K, from += 110, to += QK_K) {
        float d = half_at(from + 108);
        for (int i = 0; i < QK_K; i++) {
            float scale = d * (float)scale_of_16(from + 96, i / 16);
            int three   = pair_at(from + 32, i) | (from[i % 32] >> i / 32 & 1) << 2;
            to[i]       = scale * (float)(three - 4);
        }
    }
}

/* The steps widen away from zero, where weights are rarer. */
static const int8_t curve[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

static void through_table(const int8_t *value, const uint8_t *nibbles, int half, float scale, float *to)
{
    for (int i = 0; i < half; i++) {
        to[i]        = scale * (float)value[nibbles[i] & 15];
        to[i + half] = scale * (float)value[nibbles[i] >> 4];
    }
}

static void dequantize_iq4_nl(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK, from += 2 + QK / 2, to += QK) through_table(curve, from + 2, QK / 2, half_at(from), to);
}

static void dequantize_iq4_xs(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK_K, from += 8 + QK_K / 2, to += QK_K) {
        float d  = half_at(from);
        int high = from[2] | from[3] << 8;
        for (int j = 0; j < 8; j++) {
            int scale = ((from[4 + j / 2] >> j % 2 * 4 & 15) | (high >> 2 * j & 3) << 4) - 32;
            through_table(curve, from + 8 + 16 * j, QK / 2, d * (float)scale, to + QK * j);
        }
    }
}

/* The first base-3 digit of a byte is the integer part of byte * 3 / 256. Multiplying by 3 modulo 256 moves the next digit there. */
static int digit_at(uint8_t byte, int k)
{
    static const uint8_t power[5] = { 1, 3, 9, 27, 81 };

    return (uint8_t)(byte * power[k]) * 3 >> 8;
}

static void dequantize_tq1_0(const uint8_t *from, int64_t n, float *to)
{
    static const struct { int bytes, digits; } part[] = { { 32, 5 }, { 16, 5 }, { 4, 4 } };

    for (; n > 0; n -= QK_K, from += 54) {
        const uint8_t *q = from;
        float d          = half_at(from + 52);
        for (int p = 0; p < RP_COUNT(part); q += part[p++].bytes)
            for (int k = 0; k < part[p].digits; k++)
                for (int i = 0; i < part[p].bytes; i++) *to++ = d * (float)(digit_at(q[i], k) - 1);
    }
}

static void dequantize_tq2_0(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK_K, from += 66, to += QK_K) {
        float d = half_at(from + 64);
        for (int i = 0; i < QK_K; i++) to[i] = d * (float)(pair_at(from, i) - 1);
    }
}

/* Twice the values of e2m1 (OCP Microscaling Formats 1.0, section 5.3.3), so that they are integers. */
static const int8_t two_e2m1[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

static void dequantize_mxfp4(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= QK, from += 1 + QK / 2, to += QK) {
        float scale = rp__f32_from_bits(from[0] < 2 ? 0x00200000u << from[0] : (uint32_t)(from[0] - 1) << 23);
        through_table(two_e2m1, from + 1, QK / 2, scale, to);
    }
}

/* As in ggml, the sign of a scale is ignored and the code for NaN is 0. */
static float unsigned_scale(uint8_t e4m3) { return e4m3 == 0x7f ? 0 : rp__f32_from_e4m3_magnitude(e4m3); }

static void dequantize_nvfp4(const uint8_t *from, int64_t n, float *to)
{
    for (; n > 0; n -= 64, from += 36, to += 64)
        for (int j = 0; j < 4; j++) through_table(two_e2m1, from + 4 + 8 * j, 8, 0.5f * unsigned_scale(from[j]), to + 16 * j);
}

/* The indices are ggml's; gaps are types that ggml has removed. */
static const rp_gguf_type types[] = {
    [0] = { "F32", 1, 4, rp__convert_f32, rp__quantise_f32, 0, 0 },
    [1] = { "F16", 1, 2, rp__convert_f16, rp__quantise_f16, 65504, 1 },
    [2] = { "Q4_0", QK, 18, dequantize_q4_0, rp__quantise_q4_0, 65504 * 8.0f, 2 },
    [3] = { "Q4_1", QK, 20, dequantize_q4_1, rp__quantise_q4_1, 65504, 3 },
    [6] = { "Q5_0", QK, 22, dequantize_q5_0, rp__quantise_q5_0, 65504 * 16.0f, 8 },
    [7] = { "Q5_1", QK, 24, dequantize_q5_1, rp__quantise_q5_1, 65504, 9 },
    [8] = { "Q8_0", QK, 34, dequantize_q8_0, rp__quantise_q8_0, 65504 * 127.0f, 7 },
    [9] = { "Q8_1", QK, 40, NULL, NULL, 0, 0 },
    [10] = { "Q2_K", QK_K, 84, dequantize_q2_k, NULL, 0, 0 },
    [11] = { "Q3_K", QK_K, 110, dequantize_q3_k, NULL, 0, 0 },
    [12] = { "Q4_K", QK_K, 144, dequantize_q4_k, NULL, 0, 0 },
    [13] = { "Q5_K", QK_K, 176, dequantize_q5_k, NULL, 0, 0 },
    [14] = { "Q6_K", QK_K, 210, dequantize_q6_k, NULL, 0, 0 },
    [15] = { "Q8_K", QK_K, 292, NULL, NULL, 0, 0 },
    [16] = { "IQ2_XXS", QK_K, 66, NULL, NULL, 0, 0 },
    [17] = { "IQ2_XS", QK_K, 74, NULL, NULL, 0, 0 },
    [18] = { "IQ3_XXS", QK_K, 98, NULL, NULL, 0, 0 },
    [19] = { "IQ1_S", QK_K, 50, NULL, NULL, 0, 0 },
    [20] = { "IQ4_NL", QK, 18, dequantize_iq4_nl, NULL, 0, 0 },
    [21] = { "IQ3_S", QK_K, 110, NULL, NULL, 0, 0 },
    [22] = { "IQ2_S", QK_K, 82, NULL, NULL, 0, 0 },
    [23] = { "IQ4_XS", QK_K, 136, dequantize_iq4_xs, NULL, 0, 0 },
    [24] = { "I8", 1, 1, rp__convert_i8, NULL, 0, 0 },
    [25] = { "I16", 1, 2, rp__convert_i16, NULL, 0, 0 },
    [26] = { "I32", 1, 4, rp__convert_i32, NULL, 0, 0 },
    [27] = { "I64", 1, 8, rp__convert_i64, NULL, 0, 0 },
    [28] = { "F64", 1, 8, rp__convert_f64, NULL, 0, 0 },
    [29] = { "IQ1_M", QK_K, 56, NULL, NULL, 0, 0 },
    [30] = { "BF16", 1, 2, rp__convert_bf16, rp__quantise_bf16, 0, 32 },
    [34] = { "TQ1_0", QK_K, 54, dequantize_tq1_0, NULL, 0, 0 },
    [35] = { "TQ2_0", QK_K, 66, dequantize_tq2_0, NULL, 0, 0 },
    [39] = { "MXFP4", QK, 17, dequantize_mxfp4, NULL, 0, 0 },
    [40] = { "NVFP4", 64, 36, dequantize_nvfp4, NULL, 0, 0 },
    [41] = { "Q1_0", 128, 18, NULL, NULL, 0, 0 },
};

const rp_gguf_type *rp__gguf_type(uint32_t id) { return id < RP_COUNT(types) && types[id].name ? &types[id] : NULL; }

int rp__gguf_type_id(const char *name)
{
    for (int id = 0; id < RP_COUNT(types); id++)
        if (types[id].name && !strcmp(types[id].name, name)) return id;
    return -1;
}
