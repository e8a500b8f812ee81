/* kernels/cpu/quant.h -- rows of quantised matrices for the kernels of a level, by this level's decoders (quant.c). */
#ifndef RP_KERNELS_CPU_QUANT_H
#define RP_KERNELS_CPU_QUANT_H

#include "base/quant.h"
#include "kernels/cpu/cpu.h"

/* To float; to uint16_t, rounded to bf16; to float, rounded to bf16. */
typedef enum { QUANT_FLOATS, QUANT_HALVES, QUANT_ROUNDED, QUANT_OUTPUTS } quant_output;
/* Decodes n blocks, from number `block` on. */
typedef void quant_decode(const uint8_t *base, int64_t block, int64_t n, void *to);
/* By dtype, counted from RP_Q4_0. */
extern quant_decode *const RP_AT_LEVEL(quant_decoders)[][QUANT_OUTPUTS];

/* The dot product of n blocks and a row a. For floats and rounded floats, a is fp32 and the order that of `dot` (dots.h). For halves, a is bf16 and
 * the order that of `dot_pairs`. NULL: the level has no such function. */
typedef float quant_dot(const uint8_t *base, int64_t block, int64_t n, const void *a);
/* The output of decoders for products with a row of bf16. */
#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
enum { QUANT_BESIDE_BF16 = QUANT_HALVES };
#else
enum { QUANT_BESIDE_BF16 = QUANT_ROUNDED };
#endif
extern quant_dot *const RP_AT_LEVEL(quant_dots)[][QUANT_OUTPUTS];

enum { QUANT_RUN = RP_QUANT_MOST };     /* elements decoded at a time: a whole number of blocks of every type */

/* Elements [at, at + n), which need not be whole blocks. */
static inline void quant_read(const rp_quant_type *type, quant_output out, const void *from, int64_t at, int64_t n, void *to)
{
    quant_decode *decode = RP_AT_LEVEL(quant_decoders)[type->dtype - RP_Q4_0][out];
    int64_t each = type->block_elems, size = out == QUANT_HALVES ? 2 : 4, done;
    float some[QUANT_RUN];

    for (uint8_t *here = to; n > 0; n -= done, at += done, here += done * size) {
        int64_t inside = at % each;
        if (!inside && n >= each) {
            done = n / each * each;
            decode(from, at / each, n / each, here);
            continue;
        }
        done = each - inside < n ? each - inside : n;
        decode(from, at / each, 1, some);
        memcpy(here, (const uint8_t *)some + inside * size, (size_t)(done * size));
    }
}

/* As fp32, rounded to dtype. */
static inline void quant_rounded(rp_dtype dtype, const rp_quant_type *type, const void *from, int64_t at, int64_t n, float *to)
{
    quant_read(type, dtype == RP_F32 ? QUANT_FLOATS : QUANT_ROUNDED, from, at, n, to);
}

/* The part of [at, at + n) up to the next multiple of QUANT_RUN, so that a long row is decoded in whole blocks. */
static inline int64_t quant_run(int64_t at, int64_t n)
{
    int64_t run = QUANT_RUN - at % QUANT_RUN;

    return run < n ? run : n;
}

#endif
