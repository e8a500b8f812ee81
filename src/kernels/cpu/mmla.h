/* kernels/cpu/mmla.h -- bfmmla of ARM64 (FEAT_BF16) for products of bf16 (gemm_mmla.h) and attention (attention_tiles.h).
 *
 *   a  [2 rows][4 of k]    b  [2 columns][4 of k]    c  [2 rows][2 columns]    c += a b'
 *
 * The instruction adds two pairs of products, one after the other. It rounds the sum of a pair, and then the sum of all, to odd, and treats denormals
 * as zero. So k terms err by at most (k + 3) 2^-24 of the sum of magnitudes, as sums in fp32 do.
 *
 * Source: Arm Architecture Reference Manual for A-profile, BFMMLA and BFDotAdd.
 */
#ifndef RP_KERNELS_CPU_MMLA_H
#define RP_KERNELS_CPU_MMLA_H

#include "kernels/cpu/cpu.h"

#include <arm_neon.h>

/* Two rows of four elements, `row` elements apart, and eight elements in order. Any address. */
INLINE bfloat16x8_t mmla_two(const uint16_t *a, int64_t row) { return vreinterpretq_bf16_u16(vcombine_u16(vld1_u16(a), vld1_u16(a + row))); }
INLINE bfloat16x8_t mmla_eight(const uint16_t *b) { return vreinterpretq_bf16_u16(vld1q_u16(b)); }

/* Two columns of two rows of sums, `row` floats apart. */
INLINE float32x4_t mmla_load(const float *from, int64_t row) { return vcombine_f32(vld1_f32(from), vld1_f32(from + row)); }

INLINE void mmla_store(float *to, int64_t row, float32x4_t c)
{
    vst1_f32(to, vget_low_f32(c));
    vst1_f32(to + row, vget_high_f32(c));
}

#endif
