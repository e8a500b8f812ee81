/* base/quantise.c -- quantises fp32 to ggml's tensor types, with exactly the bytes of gguf-py, and to NF4, with those of bitsandbytes.
 *
 *   Q4_0   d = m / -8, where m is the element of largest magnitude; codes x / d + 8        Q5_0: m / -16, + 16; Q8_0: |m| / 127, no offset
 *   Q4_1   d = (max - min) / 15; codes (x - min) / d                                       Q5_1: / 31
 *
 *   NF4    a = max |x|; codes: the nearest value to x / a. Scales are quantised again: o = the mean of all a, f = max |a - o| of 256 blocks, and
 *          the code of a is the nearest value to (a - o) / f
 *
 * Codes are rounded as gguf-py and libggml round them: add a half and truncate. Products and sums are rounded one by one, so this file is
 * compiled without fused multiply-add (CMakeLists.txt). A code of NaN is 0: callers refuse elements that are not finite.
 */
#include "base/quant.h"

#include <math.h>
#include <string.h>

#include "base/convert.h"

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

/* ---- NF4 ---- */

void rp__nf4_head(const rp_quant_slice *to, int64_t group, float factor, float offset)
{
    const float head[] = { factor, offset };

    rp__quant_slice_put(to, group * (RP_NF4_HEAD + RP_NF4_GROUP * RP_NF4_BLOCK), head, sizeof head);
}

float rp__nf4_scale(const uint8_t *base, int64_t block)
{
    const uint8_t *head = base + block / RP_NF4_GROUP * (RP_NF4_HEAD + RP_NF4_GROUP * RP_NF4_BLOCK);
    float factor, offset;

    memcpy(&factor, head, sizeof factor);
    memcpy(&offset, head + sizeof factor, sizeof offset);
    return rp__nf4_scale_value(head[RP_NF4_HEAD + block % RP_NF4_GROUP * RP_NF4_BLOCK]) * factor + offset;
}

/* The number of the value nearest to x; of two that are equally near, the smaller. Values ascend. */
static int nearest(const float *value, int n, float x)
{
    int low = 0, high = n - 1;

    while (low < high) {
        int middle = (low + high) / 2;
        if (x > (value[middle] + value[middle + 1]) / 2) low = middle + 1;
        else high = middle;
    }
    return low;
}

static float nf4_absmax(const float *x)
{
    float most = 0;

    for (int i = 0; i < RP_NF4_ELEMS; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* Every block's scale is needed, but only the slice's codes. */
static void nf4_put(const rp_quantiser *q, int64_t block, bool inside, const float *x)
{
    uint8_t codes[RP_NF4_ELEMS / 2];
    float most = q->scales[block] = nf4_absmax(x);

    if (!inside) return;
    for (int i = 0; i < RP_NF4_ELEMS; i += 2) {
        int even = most > 0 ? nearest(rp__nf4_value, 16, x[i] / most) : 7, odd = most > 0 ? nearest(rp__nf4_value, 16, x[i + 1] / most) : 7;
        codes[i / 2] = (uint8_t)(even << 4 | odd);
    }
    rp__quant_slice_put(&q->to, rp__quant_block_at(q->type, block) + 1, codes, sizeof codes);
}

/* The code of each scale of a group. */
static void nf4_group(const rp_quantiser *q, int64_t group, int64_t n, const float *scale, float offset)
{
    float most = 0, value[256];

    for (int c = 0; c < 256; c++) value[c] = rp__nf4_scale_value((uint8_t)c);
    for (int64_t b = 0; b < n; b++) most = fabsf(scale[b] - offset) > most ? fabsf(scale[b] - offset) : most;
    rp__nf4_head(&q->to, group, most, offset);
    for (int64_t b = 0; b < n; b++) {
        uint8_t code = (uint8_t)(most > 0 ? nearest(value, 256, (scale[b] - offset) / most) : 127);
        rp__quant_slice_put(&q->to, rp__quant_block_at(q->type, group * RP_NF4_GROUP + b), &code, 1);
    }
}

static void nf4_end(const rp_quantiser *q)
{
    int64_t blocks = q->elems / RP_NF4_ELEMS, from, to;
    double sum     = 0;

    for (int64_t b = 0; b < blocks; b++) sum += (double)q->scales[b];
    rp__quant_slice_blocks(q->type, &q->to, &from, &to);
    for (int64_t b = from / RP_NF4_GROUP * RP_NF4_GROUP; b < to; b += RP_NF4_GROUP)
        nf4_group(q, b / RP_NF4_GROUP, blocks - b < RP_NF4_GROUP ? blocks - b : RP_NF4_GROUP, q->scales + b, (float)(sum / (double)blocks));
}

/* ---- any type ---- */

static const struct { rp_dtype dtype; void (*quantise)(const float *from, int64_t n, uint8_t *to); } writes[] = {
    { RP_Q4_0, rp__quantise_q4_0 }, { RP_Q4_1, rp__quantise_q4_1 }, { RP_Q5_0, rp__quantise_q5_0 }, { RP_Q5_1, rp__quantise_q5_1 },
    { RP_Q8_0, rp__quantise_q8_0 }, { RP_NF4, NULL },
};

static int writes_at(const rp_quant_type *type)
{
    for (int i = 0; i < RP_COUNT(writes); i++)
        if (writes[i].dtype == type->dtype) return i;
    return -1;
}

bool rp__quant_writes(const rp_quant_type *type) { return writes_at(type) >= 0; }

int64_t rp__quant_scales(const rp_quant_type *type, int64_t elems) { return type->dtype == RP_NF4 ? elems / RP_NF4_ELEMS : 0; }

void rp__quant_put(const rp_quantiser *q, int64_t at, int64_t n, const float *from)
{
    int64_t each = q->type->block_elems, first, end;
    uint8_t bytes[RP_QUANT_MOST];
    int i = writes_at(q->type);

    if (i < 0) return;
    rp__quant_slice_blocks(q->type, &q->to, &first, &end);
    for (int64_t b = at / each; b < (at + n) / each; b++, from += each) {
        bool inside = b >= first && b < end;
        if (!writes[i].quantise) nf4_put(q, b, inside, from);
        else if (inside) {
            writes[i].quantise(from, each, bytes);
            rp__quant_slice_put(&q->to, rp__quant_block_at(q->type, b), bytes, q->type->block_bytes);
        }
    }
}

void rp__quant_end(const rp_quantiser *q)
{
    if (q->type->dtype == RP_NF4) nf4_end(q);
}
