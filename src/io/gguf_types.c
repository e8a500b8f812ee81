/* io/gguf_types.c -- the types' table and the dequantisers.
 *
 *   Q4_0   d fp16 | 16 bytes: elements 0-15 in the low nibbles, 16-31 in the high     (q - 8) d
 *   Q4_1   d fp16 | m fp16 | 16 bytes as above                                        q d + m
 *   Q5_0   d fp16 | 32 high bits | 16 bytes as above                                  (q - 16) d
 *   Q5_1   d fp16 | m fp16 | 32 high bits | 16 bytes as above                         q d + m
 *   Q8_0   d fp16 | 32 int8                                                           q d
 *   Q4_K   d, m fp16 | 12 bytes: 8 scales s and 8 minima t of 6 bits | 128 bytes      q (s d) - t m
 *   Q5_K   d, m fp16 | the same 12 bytes | 32 bytes of high bits | 128 bytes          q (s d) - t m
 *   Q6_K   128 bytes of low nibbles | 64 bytes of high pairs | 16 int8 s | d fp16     (q - 32) (s d)
 *
 * A half has 11 significant bits, s and q have few: every product is exact in fp32 (24 bits), so a sum of two is rounded once with
 * or without contraction, and the values are gguf-py's to the bit under any compiler flags.
 */
#include "io/gguf_types.h"

#include <string.h>

#define QK 32               /* elements of a block of the types without K */
#define QK_K 256            /* of those with */

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

/* Six bits each of scale and minimum j of eight: the last four of each are spread over three bytes. */
static void scale_at(const uint8_t *packed, int j, float d, float m, float *scale, float *least)
{
    const uint8_t *low = packed, *mid = packed + 4, *top = packed + 8;
    int s = j < 4 ? low[j] & 63 : (top[j - 4] & 15) | (low[j - 4] >> 6) << 4;
    int t = j < 4 ? mid[j] & 63 : (top[j - 4] >> 4) | (mid[j - 4] >> 6) << 4;

    *scale = d * (float)s;
    *least = m * (float)t;
}

/* Sub-blocks of 32 elements lie in pairs, low nibbles and high nibbles of the same 32 bytes. */
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

/* Each half of 128 elements: sub-block j of 32 has nibble j / 2 of bytes 32 (j % 2) …, and pair j of the 32 high bytes. */
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

/* The numbers are ggml's; the gaps are types it has dropped. */
static const rp_gguf_type types[] = {
    [0] = { "F32", 1, 4, rp__convert_f32 },
    [1] = { "F16", 1, 2, rp__convert_f16 },
    [2] = { "Q4_0", QK, 18, dequantize_q4_0 },
    [3] = { "Q4_1", QK, 20, dequantize_q4_1 },
    [6] = { "Q5_0", QK, 22, dequantize_q5_0 },
    [7] = { "Q5_1", QK, 24, dequantize_q5_1 },
    [8] = { "Q8_0", QK, 34, dequantize_q8_0 },
    [9] = { "Q8_1", QK, 40, NULL },
    [10] = { "Q2_K", QK_K, 84, NULL },
    [11] = { "Q3_K", QK_K, 110, NULL },
    [12] = { "Q4_K", QK_K, 144, dequantize_q4_k },
    [13] = { "Q5_K", QK_K, 176, dequantize_q5_k },
    [14] = { "Q6_K", QK_K, 210, dequantize_q6_k },
    [15] = { "Q8_K", QK_K, 292, NULL },
    [16] = { "IQ2_XXS", QK_K, 66, NULL },
    [17] = { "IQ2_XS", QK_K, 74, NULL },
    [18] = { "IQ3_XXS", QK_K, 98, NULL },
    [19] = { "IQ1_S", QK_K, 50, NULL },
    [20] = { "IQ4_NL", QK, 18, NULL },
    [21] = { "IQ3_S", QK_K, 110, NULL },
    [22] = { "IQ2_S", QK_K, 82, NULL },
    [23] = { "IQ4_XS", QK_K, 136, NULL },
    [24] = { "I8", 1, 1, rp__convert_i8 },
    [25] = { "I16", 1, 2, rp__convert_i16 },
    [26] = { "I32", 1, 4, rp__convert_i32 },
    [27] = { "I64", 1, 8, rp__convert_i64 },
    [28] = { "F64", 1, 8, rp__convert_f64 },
    [29] = { "IQ1_M", QK_K, 56, NULL },
    [30] = { "BF16", 1, 2, rp__convert_bf16 },
    [34] = { "TQ1_0", QK_K, 54, NULL },
    [35] = { "TQ2_0", QK_K, 66, NULL },
    [39] = { "MXFP4", QK, 17, NULL },
    [40] = { "NVFP4", 64, 36, NULL },
    [41] = { "Q1_0", 128, 18, NULL },
};

const rp_gguf_type *rp__gguf_type(uint32_t id) { return id < RP_COUNT(types) && types[id].name ? &types[id] : NULL; }
