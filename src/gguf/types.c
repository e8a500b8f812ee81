/* gguf/types.c -- the table of tensor types, and dequantisers. base/quant_decode.h has those of types that tensors may have, too.
 *
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

#include "base/quant_decode.h"

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
    [2] = { "Q4_0", QK, 18, rp__decode_q4_0, rp__quantise_q4_0, 65504 * 8.0f, 2 },
    [3] = { "Q4_1", QK, 20, rp__decode_q4_1, rp__quantise_q4_1, 65504, 3 },
    [6] = { "Q5_0", QK, 22, rp__decode_q5_0, rp__quantise_q5_0, 65504 * 16.0f, 8 },
    [7] = { "Q5_1", QK, 24, rp__decode_q5_1, rp__quantise_q5_1, 65504, 9 },
    [8] = { "Q8_0", QK, 34, rp__decode_q8_0, rp__quantise_q8_0, 65504 * 127.0f, 7 },
    [9] = { "Q8_1", QK, 40, NULL, NULL, 0, 0 },
    [10] = { "Q2_K", QK_K, 84, rp__decode_q2_k, NULL, 0, 0 },
    [11] = { "Q3_K", QK_K, 110, rp__decode_q3_k, NULL, 0, 0 },
    [12] = { "Q4_K", QK_K, 144, rp__decode_q4_k, NULL, 0, 0 },
    [13] = { "Q5_K", QK_K, 176, rp__decode_q5_k, NULL, 0, 0 },
    [14] = { "Q6_K", QK_K, 210, rp__decode_q6_k, NULL, 0, 0 },
    [15] = { "Q8_K", QK_K, 292, NULL, NULL, 0, 0 },
    [16] = { "IQ2_XXS", QK_K, 66, NULL, NULL, 0, 0 },
    [17] = { "IQ2_XS", QK_K, 74, NULL, NULL, 0, 0 },
    [18] = { "IQ3_XXS", QK_K, 98, NULL, NULL, 0, 0 },
    [19] = { "IQ1_S", QK_K, 50, NULL, NULL, 0, 0 },
    [20] = { "IQ4_NL", QK, 18, rp__decode_iq4_nl, NULL, 0, 0 },
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
