/* base/quant_decode.h -- decodes quantised blocks to fp32. Included where it is compiled for one level of the CPU, so that every level has a copy.
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
 *   NF4_FP32  a fp32 | 32 bytes: even elements in the high nibbles                     value[q] a
 *   NF4     of 256 blocks: f fp32, o fp32; of a block: s | 32 bytes as above           value[q] (scale[s] f + o)
 *
 * An fp16 value has 11 significant bits; s and q have few. So every product is exact in fp32 (24 bits), and a sum of two is rounded once, with
 * or without contraction. The values therefore equal gguf-py's bit for bit under any compiler flags. A product of NF4 is rounded once; its
 * scale is computed in quantise.c, which is compiled without contraction.
 *
 * The layouts are ggml's (ggml-common.h), the formulas gguf-py's. NF4 has the numbers of bitsandbytes, in an order of our own.
 */
#ifndef RP_BASE_QUANT_DECODE_H
#define RP_BASE_QUANT_DECODE_H

#include <string.h>

#include "base/convert.h"
#include "base/quant.h"
#include "base/quant_layout.h"

#define QK 32               /* elements per block of the types without K */
#define QK_K 256            /* elements per block of the types with K */

static inline float half_at(const uint8_t *p) { return rp__f32_from_f16((uint16_t)(p[0] | p[1] << 8)); }

static inline uint32_t word_at(const uint8_t *p)
{
    uint32_t w;

    memcpy(&w, p, sizeof w);
    return w;
}

static inline void rp__decode_q4_0(const uint8_t *restrict from, int64_t n, float *restrict to)
{
    for (; n > 0; n -= QK, from += 2 + QK / 2, to += QK) {
        float d = half_at(from);
        for (int i = 0; i < QK / 2; i++) {
            to[i]          = (float)((from[2 + i] & 15) - 8) * d;
            to[i + QK / 2] = (float)((from[2 + i] >> 4) - 8) * d;
        }
    }
}

static inline void rp__decode_q4_1(const uint8_t *restrict from, int64_t n, float *restrict to)
{
    for (; n > 0; n -= QK, from += 4 + QK / 2, to += QK) {
        float d = half_at(from), m = half_at(from + 2);
        for (int i = 0; i < QK / 2; i++) {
            to[i]          = (float)(from[4 + i] & 15) * d + m;
            to[i + QK / 2] = (float)(from[4 + i] >> 4) * d + m;
        }
    }
}

static inline void rp__decode_q5_0(const uint8_t *restrict from, int64_t n, float *restrict to)
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

static inline void rp__decode_q5_1(const uint8_t *restrict from, int64_t n, float *restrict to)
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

static inline void rp__decode_q8_0(const uint8_t *restrict from, int64_t n, float *restrict to)
{
    for (; n > 0; n -= QK, from += 2 + QK, to += QK) {
        float d = half_at(from);
        for (int i = 0; i < QK; i++) to[i] = (float)(int8_t)from[2 + i] * d;
    }
}

/* Two sub-blocks of 32 elements share 32 bytes: one has the low nibbles, the other the high nibbles. */
static inline void rp__decode_q4_k(const uint8_t *restrict from, int64_t n, float *restrict to)
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

static inline void rp__decode_q5_k(const uint8_t *restrict from, int64_t n, float *restrict to)
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
static inline void rp__decode_q6_k(const uint8_t *restrict from, int64_t n, float *restrict to)
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
static inline int pair_at(const uint8_t *pairs, int i) { return pairs[i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3; }

static inline void rp__decode_q2_k(const uint8_t *restrict from, int64_t n, float *restrict to)
{
    for (; n > 0; n -= QK_K, from += 84, to += QK_K) {
        float d = half_at(from + 80), m = half_at(from + 82);
        for (int i = 0; i < QK_K; i++) {
            float scale = d * (float)(from[i / 16] & 15), least = m * (float)(from[i / 16] >> 4);
            to[i]       = scale * (float)pair_at(from + 16, i) - least;
        }
    }
}

static inline void rp__decode_q3_k(const uint8_t *restrict from, int64_t n, float *restrict to)
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

static const int8_t curve[16] = { RP_IQ4_CURVE };

static inline void through_table(const int8_t *value, const uint8_t *restrict nibbles, int half, float scale, float *restrict to)
{
    for (int i = 0; i < half; i++) {
        to[i]        = scale * (float)value[nibbles[i] & 15];
        to[i + half] = scale * (float)value[nibbles[i] >> 4];
    }
}

static inline void rp__decode_iq4_nl(const uint8_t *restrict from, int64_t n, float *restrict to)
{
    for (; n > 0; n -= QK, from += 2 + QK / 2, to += QK) through_table(curve, from + 2, QK / 2, half_at(from), to);
}

/* The first element of a byte is in its high nibble. */
static inline void nf4_codes(const uint8_t *restrict nibbles, float scale, float *restrict to)
{
    for (int i = 0; i < RP_NF4_ELEMS / 2; i++) {
        to[2 * i]     = scale * rp__nf4_value[nibbles[i] >> 4];
        to[2 * i + 1] = scale * rp__nf4_value[nibbles[i] & 15];
    }
}

static inline void rp__decode_nf4_fp32(const uint8_t *restrict from, int64_t n, float *restrict to)
{
    for (; n > 0; n -= RP_NF4_ELEMS, from += 4 + RP_NF4_ELEMS / 2, to += RP_NF4_ELEMS) nf4_codes(from + 4, rp__f32_from_bits(word_at(from)), to);
}

static inline void rp__blocks_nf4(const uint8_t *base, int64_t block, int64_t n, float *to)
{
    for (int64_t b = block; b < block + n; b++, to += RP_NF4_ELEMS)
        nf4_codes(rp__nf4_block((uint8_t *)(uintptr_t)base, b) + 1, rp__nf4_scale(base, b), to);
}

#define RP_QUANT(dtype, name, elems, bytes) \
    static inline void rp__blocks_##name(const uint8_t *base, int64_t block, int64_t n, float *to) \
    { \
        rp__decode_##name(base + block * (bytes), n * (elems), to); \
    }
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED

/* Elements [at, at + n) of a tensor. */
static inline void rp__quant_span(const rp_quant_type *type, rp_quant_decode *decode, const void *base, int64_t at, int64_t n, float *to)
{
    float whole[RP_QUANT_MOST];
    int64_t each = type->block_elems, done;

    for (; n > 0; n -= done, at += done, to += done) {
        int64_t inside = at % each;
        if (!inside && n >= each) {
            done = n / each * each;
            decode(base, at / each, n / each, to);
            continue;
        }
        done = each - inside < n ? each - inside : n;
        decode(base, at / each, 1, whole);
        memcpy(to, whole + inside, (size_t)done * sizeof *to);
    }
}

#endif
