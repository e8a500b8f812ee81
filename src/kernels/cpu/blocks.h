/* kernels/cpu/blocks.h -- loops over flat buffers of any dtype, with arithmetic in fp32.
 *
 *   dtype in = dtype out, assigned     source --f32_at--> registers --put_at--> destination
 *   all other cases                    source --f32_at--> block of fp32 in the first-level cache --row_store_add--> destination
 *
 * So each formula is compiled into four loops instead of one for each kind of destination. Both ways round a result once.
 */
#ifndef RP_KERNELS_BLOCKS_H
#define RP_KERNELS_BLOCKS_H

#include "kernels/cpu/cpu.h"

enum { BLOCK = 512 };

static inline int64_t block_width(int64_t at, int64_t n) { return n - at < BLOCK ? n - at : BLOCK; }

static inline float *block_target(rp_dtype dtype, void *to, int64_t at, bool adds, float *buffer)
{
    return dtype == RP_F32 && !adds ? (float *)to + at : buffer;
}

static inline void block_done(rp_dtype dtype, void *to, int64_t at, int64_t n, const float *block, bool adds)
{
    row_store_add(dtype, to, at, n, block, adds);
}

typedef struct {                /* to (+)= formula(a, b, factor), element by element */
    rp_dtype dtype, to_dtype;
    const void *a, *b;          /* b: equals a if the formula has one operand */
    void *to;
    float factor;
    bool adds;
} flat;

typedef float flat_formula(float a, float b, float factor);

/* Loop inputs are copied from the struct to locals, because compilers otherwise assume that stores may change them. */
INLINE void flat_direct(rp_dtype dtype, const flat *f, int64_t from, int64_t to, flat_formula *formula)
{
    const void *a = f->a, *b = f->b;
    void *out     = f->to;
    float factor  = f->factor;

#pragma omp simd
    for (int64_t i = from; i < to; i++) put_at(dtype, out, i, formula(f32_at(dtype, a, i), f32_at(dtype, b, i), factor));
}

INLINE void flat_blocks(rp_dtype dtype, const flat *f, int64_t from, int64_t to, flat_formula *formula)
{
    const void *a = f->a, *b = f->b;
    float block[BLOCK], factor = f->factor;

    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t width = block_width(at, to);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) block[i] = formula(f32_at(dtype, a, at + i), f32_at(dtype, b, at + i), factor);
        row_store_add(f->to_dtype, f->to, at, width, block, f->adds);
    }
}

/* Inline this into one function per formula; the formula then becomes part of the loops. */
INLINE void flat_range(const flat *f, int64_t from, int64_t to, flat_formula *formula)
{
    bool direct = f->to_dtype == f->dtype && !f->adds;

    if (f->dtype == RP_BF16 && direct) flat_direct(RP_BF16, f, from, to, formula);
    else if (f->dtype == RP_BF16) flat_blocks(RP_BF16, f, from, to, formula);
    else if (direct) flat_direct(RP_F32, f, from, to, formula);
    else flat_blocks(RP_F32, f, from, to, formula);
}

static inline void flat_run(const rp_on *on, int64_t n, rp_team_range *work, const flat *f)
{
    int64_t inputs = f->a == f->b ? 1 : 2;

    rp__team_ranges(on->threads, n, BLOCK, n * (inputs * width_of(f->dtype) + width_of(f->to_dtype)), work, f);
}

/* 1/(1 + exp(-x)), inline so that loops vectorise. */
static inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

#endif
