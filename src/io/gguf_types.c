/* io/gguf_types.c -- the types' table and the dequantisers.
 *
 *   Q4_0   d fp16 | 16 bytes: elements 0-15 in the low nibbles, 16-31 in the high     (q - 8) d
 *   Q4_1   d fp16 | m fp16 | 16 bytes as above                                        q d + m
 *   Q5_0   d fp16 | 32 high bits | 16 bytes as above                                  (q - 16) d
 *   Q5_1   d fp16 | m fp16 | 32 high bits | 16 bytes as above                         q d + m
 *   Q8_0   d fp16 | 32 int8                                                           q d
 *
 * d has 11 significant bits and q at most 8: the products are exact in fp32, so q d + m is rounded once with or without
 * contraction, and the values are gguf-py's to the bit under any compiler flags.
 */
#include "io/gguf_types.h"

#include <string.h>

#define QK 32               /* elements of a block of every type above */

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
    [10] = { "Q2_K", 256, 84, NULL },
    [11] = { "Q3_K", 256, 110, NULL },
    [12] = { "Q4_K", 256, 144, NULL },
    [13] = { "Q5_K", 256, 176, NULL },
    [14] = { "Q6_K", 256, 210, NULL },
    [15] = { "Q8_K", 256, 292, NULL },
    [16] = { "IQ2_XXS", 256, 66, NULL },
    [17] = { "IQ2_XS", 256, 74, NULL },
    [18] = { "IQ3_XXS", 256, 98, NULL },
    [19] = { "IQ1_S", 256, 50, NULL },
    [20] = { "IQ4_NL", 32, 18, NULL },
    [21] = { "IQ3_S", 256, 110, NULL },
    [22] = { "IQ2_S", 256, 82, NULL },
    [23] = { "IQ4_XS", 256, 136, NULL },
    [24] = { "I8", 1, 1, rp__convert_i8 },
    [25] = { "I16", 1, 2, rp__convert_i16 },
    [26] = { "I32", 1, 4, rp__convert_i32 },
    [27] = { "I64", 1, 8, rp__convert_i64 },
    [28] = { "F64", 1, 8, rp__convert_f64 },
    [29] = { "IQ1_M", 256, 56, NULL },
    [30] = { "BF16", 1, 2, rp__convert_bf16 },
    [34] = { "TQ1_0", 256, 54, NULL },
    [35] = { "TQ2_0", 256, 66, NULL },
    [39] = { "MXFP4", 32, 17, NULL },
    [40] = { "NVFP4", 64, 36, NULL },
    [41] = { "Q1_0", 128, 18, NULL },
};

const rp_gguf_type *rp__gguf_type(uint32_t id) { return id < RP_COUNT(types) && types[id].name ? &types[id] : NULL; }
