/* kernels/cpu/quant.h -- rows of quantised matrices for the kernels of a level, with this level's copies of the decoders. */
#ifndef RP_KERNELS_CPU_QUANT_H
#define RP_KERNELS_CPU_QUANT_H

#include "base/quant_decode.h"
#include "kernels/cpu/cpu.h"

static rp_quant_decode *const quant_decoders[] = {
#define RP_QUANT(dtype, name, elems, bytes) rp__blocks_##name,
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) rp__blocks_##name,
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
};

/* Elements [at, at + n) as fp32, not rounded. */
static inline void quant_read(const rp_quant_type *type, const void *from, int64_t at, int64_t n, float *to)
{
    rp__quant_span(type, quant_decoders[type->dtype - RP_Q4_0], from, at, n, to);
}

/* Rounded to dtype, and stored as fp32. */
static inline void quant_rounded(rp_dtype dtype, const rp_quant_type *type, const void *from, int64_t at, int64_t n, float *to)
{
    quant_read(type, from, at, n, to);
    if (dtype == RP_F32) return;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = rp__f32_from_bf16(rp__bf16_from_f32(to[i]));
}

enum { QUANT_RUN = 256 };               /* elements decoded at a time: a whole number of blocks of every type */

/* The part of [at, at + n) up to the next multiple of QUANT_RUN, so that a long row is decoded in whole blocks. */
static inline int64_t quant_run(int64_t at, int64_t n)
{
    int64_t run = QUANT_RUN - at % QUANT_RUN;

    return run < n ? run : n;
}

/* At most QUANT_RUN elements, rounded to bf16. */
static inline void quant_halves(const rp_quant_type *type, const void *from, int64_t at, int64_t n, uint16_t *to)
{
    float wide[QUANT_RUN];

    quant_read(type, from, at, n, wide);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = rp__bf16_from_f32(wide[i]);
}

#endif
