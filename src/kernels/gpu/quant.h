/* kernels/gpu/quant.h -- elements of quantised tensors, PACK of them at a time.
 *
 *   blocks --quant_pack--> PACK floats, the numbers of base/quant_decode.h bit for bit
 *
 * base/quant_decode.h has the layouts and says why no value depends on the order of operations; quant.def lists the types. A row is a whole number of
 * blocks, and a block is a whole number of packs. Types with K and the others have blocks of an even number of bytes, so two bytes are read at a time;
 * those of NF4 with quantised scales may be odd.
 */
#ifndef RP_GPU_QUANT_H
#define RP_GPU_QUANT_H

#include "base/quant_layout.h"
#include "kernels/gpu/elements.h"

#ifdef TARGET_CUDA
enum {
    BEFORE_QUANT = 4,           /* the values of rp_dtype */
#define RP_QUANT(dtype, name, elems, bytes) dtype,
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) dtype,
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
};
#else
_Static_assert(RP_Q4_0 == 5, "BEFORE_QUANT is the value of the library");
#endif

TABLE signed char iq4_curve[16] = { RP_IQ4_CURVE };
TABLE float nf4_value[16]       = { RP_NF4_VALUES };
TABLE float nf4_scale[128]      = { RP_NF4_SCALES };

FN int is_quant(i32 dtype) { return dtype >= RP_Q4_0; }

/* ---- bytes ---- */

typedef struct { u32 w[2]; } eight;

FN float half_at(const u8 *p) { return widened(*(const u16 *)(const void *)p); }
/* From an even address. */
FN u32 word_at(const u8 *p)
{
    const u16 *halves = (const u16 *)(const void *)p;
    return (u32)halves[0] | (u32)halves[1] << 16;
}
FN eight eight_at(const u8 *p)
{
    eight e;
    e.w[0] = word_at(p);
    e.w[1] = word_at(p + 4);
    return e;
}
FN float float_at(const u8 *p) { return FLOAT((u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24); }
/* The bits of `mask` of byte j, after `shift` bits are dropped. */
FN int bits_of(eight e, int j, int shift, int mask) { return (int)(e.w[j / 4] >> (j % 4 * 8 + shift)) & mask; }

/* ---- elements i … i + 7 of a block; i is a multiple of 8 ---- */

/* Blocks of 32 elements have 16 bytes of nibbles: the first half low, the second high. */
FN int nibble_of(eight e, int i, int j) { return bits_of(e, j, i / 16 * 4, 15); }
FN int five_of(eight e, u32 high, int i, int j) { return nibble_of(e, i, j) | (int)(high >> (i + j) & 1u) << 4; }

FN void pack_q4_0(const u8 *b, int i, float *v)
{
    float d = half_at(b);
    eight e = eight_at(b + 2 + i % 16);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = (float)(nibble_of(e, i, j) - 8) * d;
}

FN void pack_q4_1(const u8 *b, int i, float *v)
{
    float d = half_at(b), m = half_at(b + 2);
    eight e = eight_at(b + 4 + i % 16);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = (float)nibble_of(e, i, j) * d + m;
}

FN void pack_q5_0(const u8 *b, int i, float *v)
{
    float d  = half_at(b);
    u32 high = word_at(b + 2);
    eight e  = eight_at(b + 6 + i % 16);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = (float)(five_of(e, high, i, j) - 16) * d;
}

FN void pack_q5_1(const u8 *b, int i, float *v)
{
    float d = half_at(b), m = half_at(b + 2);
    u32 high = word_at(b + 4);
    eight e  = eight_at(b + 8 + i % 16);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = (float)five_of(e, high, i, j) * d + m;
}

FN void pack_q8_0(const u8 *b, int i, float *v)
{
    float d = half_at(b);
    eight e = eight_at(b + 2 + i);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = (float)(signed char)bits_of(e, j, 0, 255) * d;
}

FN void pack_q2_k(const u8 *b, int i, float *v)
{
    float scale = half_at(b + 80) * (float)(b[i / 16] & 15), least = half_at(b + 82) * (float)(b[i / 16] >> 4);
    eight e     = eight_at(b + 16 + i / 128 * 32 + i % 32);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = scale * (float)bits_of(e, j, i / 32 % 4 * 2, 3) - least;
}

FN void pack_q3_k(const u8 *b, int i, float *v)
{
    float scale = half_at(b + 108) * (float)scale_of_16(b + 96, i / 16);
    eight e = eight_at(b + 32 + i / 128 * 32 + i % 32), high = eight_at(b + i % 32);
    UNROLL for (int j = 0; j < PACK; j++)
        v[j] = scale * (float)((bits_of(e, j, i / 32 % 4 * 2, 3) | bits_of(high, j, i / 32, 1) << 2) - 4);
}

FN void pack_q4_k(const u8 *b, int i, float *v)
{
    float scale, least;
    eight e = eight_at(b + 16 + i / 64 * 32 + i % 32);
    scale_at(b + 4, i / 32, half_at(b), half_at(b + 2), &scale, &least);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = scale * (float)bits_of(e, j, i / 32 % 2 * 4, 15) - least;
}

FN void pack_q5_k(const u8 *b, int i, float *v)
{
    float scale, least;
    eight e = eight_at(b + 48 + i / 64 * 32 + i % 32), high = eight_at(b + 16 + i % 32);
    scale_at(b + 4, i / 32, half_at(b), half_at(b + 2), &scale, &least);
    UNROLL for (int j = 0; j < PACK; j++)
        v[j] = scale * (float)(bits_of(e, j, i / 32 % 2 * 4, 15) | bits_of(high, j, i / 32, 1) << 4) - least;
}

FN void pack_q6_k(const u8 *b, int i, float *v)
{
    float scale = half_at(b + 208) * (float)(signed char)b[192 + i / 16];
    eight e = eight_at(b + i / 128 * 64 + i % 64), high = eight_at(b + 128 + i / 128 * 32 + i % 32);
    UNROLL for (int j = 0; j < PACK; j++)
        v[j] = scale * (float)((bits_of(e, j, i / 64 % 2 * 4, 15) | bits_of(high, j, i / 32 % 4 * 2, 3) << 4) - 32);
}

FN void pack_iq4_nl(const u8 *b, int i, float *v)
{
    float d = half_at(b);
    eight e = eight_at(b + 2 + i % 16);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = d * (float)iq4_curve[nibble_of(e, i, j)];
}

/* The first element of a byte is in its high nibble. */
FN void pack_nf4_codes(const u8 *codes, float scale, float *v)
{
    UNROLL for (int j = 0; j < PACK / 2; j++) {
        v[2 * j]     = scale * nf4_value[codes[j] >> 4];
        v[2 * j + 1] = scale * nf4_value[codes[j] & 15];
    }
}

FN void pack_nf4_fp32(const u8 *b, int i, float *v) { pack_nf4_codes(b + 4 + i / 2, float_at(b), v); }

/* b follows its group's head: factor and offset of the scales. The scale is rounded twice. */
FN void pack_nf4(const u8 *head, const u8 *b, int i, float *v)
{
    float product = rp__nf4_scale_in(nf4_scale, b[0]) * float_at(head);
    pack_nf4_codes(b + 1 + i / 2, product + float_at(head + 4), v);
}

/* ---- elements at, … at + 7 of the tensor at `base`; `at` is a multiple of 8 ---- */

FN void quant_pack(i32 dtype, u64 base, i64 at, float *v)
{
    const u8 *from = G(const u8, base);
    u64 place      = (u64)at;

    switch (dtype) {
#define RP_QUANT(dtype, name, elems, bytes) case dtype: pack_##name(from + place / elems * bytes, (int)(place % elems), v); return;
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) \
    case dtype: \
        from += place / (elems * group) * (head + group * bytes); \
        pack_##name(from, from + head + place / elems % group * bytes, (int)(place % elems), v); \
        return;
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
    }
    UNROLL for (int j = 0; j < PACK; j++) v[j] = NOT_A_NUMBER;
}

/* The same, rounded to `to`: the elements of a dequantised copy of this dtype. */
FN void quant_pack_as(i32 to, i32 dtype, u64 base, i64 at, float *v)
{
    quant_pack(dtype, base, at, v);
    UNROLL for (int j = 0; j < PACK; j++) v[j] = rounded(to, v[j]);
}

#endif
