/* kernels/cpu/quant.c -- the decoders of a level: with AVX-512 by quant_wide.h, else by loops that the compiler vectorises. */
#include "kernels/cpu/quant.h"
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#include "kernels/cpu/quant_wide.h"
#else
#include "base/quant_decode.h"

/* A multiple of QUANT_RUN elements at most is decoded, then rounded. */
INLINE void quant_convert(quant_output out, int64_t elems, rp_quant_decode *decode, const uint8_t *base, int64_t block, int64_t n, void *to)
{
    float wide[QUANT_RUN];

    for (int64_t b = 0; b < n; b++) {
        decode(base, block + b, 1, wide);
        if (out == QUANT_HALVES) row_store(RP_BF16, to, b * elems, elems, wide);
        else
            for (int64_t i = 0; i < elems; i++) ((float *)to)[b * elems + i] = rp__f32_from_bf16(rp__bf16_from_f32(wide[i]));
    }
}

#define RP_QUANT(dtype, name, elems, bytes) \
    INLINE void quant_blocks_##name(quant_output out, const uint8_t *base, int64_t block, int64_t n, void *to) \
    { \
        if (out == QUANT_FLOATS) rp__blocks_##name(base, block, n, to); \
        else quant_convert(out, elems, rp__blocks_##name, base, block, n, to); \
    }
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) RP_QUANT(dtype, name, elems, bytes)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
#endif

#define RP_QUANT(dtype, name, elems, bytes) \
    static void floats_##name(const uint8_t *base, int64_t block, int64_t n, void *to) { quant_blocks_##name(QUANT_FLOATS, base, block, n, to); } \
    static void halves_##name(const uint8_t *base, int64_t block, int64_t n, void *to) { quant_blocks_##name(QUANT_HALVES, base, block, n, to); } \
    static void rounded_##name(const uint8_t *base, int64_t block, int64_t n, void *to) { quant_blocks_##name(QUANT_ROUNDED, base, block, n, to); }
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) RP_QUANT(dtype, name, elems, bytes)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#if defined(__AVX512BF16__)
#define quant_dot_of_bf16(name, base, block, n, a) quant_dot_pairs_##name(base, block, n, a)
#else
#define quant_dot_of_bf16(name, base, block, n, a) quant_dot_##name(QUANT_ROUNDED, base, block, n, a)
#endif
#define RP_QUANT(dtype, name, elems, bytes) \
    static float dot_fp32_##name(const uint8_t *base, int64_t block, int64_t n, const void *a) { return quant_dot_##name(QUANT_FLOATS, base, block, n, a); } \
    static float dot_bf16_##name(const uint8_t *base, int64_t block, int64_t n, const void *a) { return quant_dot_of_bf16(name, base, block, n, a); }
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) RP_QUANT(dtype, name, elems, bytes)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
#endif

quant_decode *const RP_AT_LEVEL(quant_decoders)[][QUANT_OUTPUTS] = {
#define RP_QUANT(dtype, name, elems, bytes) { floats_##name, halves_##name, rounded_##name },
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) RP_QUANT(dtype, name, elems, bytes)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
};

quant_dot *const RP_AT_LEVEL(quant_dots)[][QUANT_OUTPUTS] = {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define RP_QUANT(dtype, name, elems, bytes) { [QUANT_FLOATS] = dot_fp32_##name, [QUANT_BESIDE_BF16] = dot_bf16_##name },
#else
#define RP_QUANT(dtype, name, elems, bytes) { NULL },
#endif
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) RP_QUANT(dtype, name, elems, bytes)
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
};
