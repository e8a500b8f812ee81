/* kernels/cpu/pack.h -- copies parts of fp32 or bf16 matrices to packed fp32 buffers, padded with zeros.
 *
 *   pack_rows        to[i][0..n)  = from[i][0..n)        rows stay rows
 *   pack_transposed  to[k][0..n)  = from[0..n)[k]        columns become rows, four by four in registers
 *
 * `to` has `width` >= n floats per row. Columns n .. width become zero, so the padding adds nothing to a product.
 */
#ifndef RP_KERNELS_CPU_PACK_H
#define RP_KERNELS_CPU_PACK_H

#include "kernels/cpu/cpu.h"

typedef float four __attribute__((vector_size(16)));
typedef float four_at __attribute__((vector_size(16), aligned(4), may_alias));
typedef uint32_t four_words __attribute__((vector_size(16)));
typedef uint16_t four_halves_at __attribute__((vector_size(8), aligned(2), may_alias));

static inline float load_one(rp_dtype dtype, const void *from, int64_t at)
{
    return dtype == RP_F32 ? ((const float *)from)[at] : rp__f32_from_bf16(((const uint16_t *)from)[at]);
}

static inline four load_four(rp_dtype dtype, const void *from, int64_t at)
{
    if (dtype == RP_F32) return *(const four_at *)((const float *)from + at);
    four_halves_at h = *(const four_halves_at *)((const uint16_t *)from + at);
    return (four)(__builtin_convertvector(h, four_words) << 16);
}

/* Inlined, so that a constant count at the call reduces the copy to a few instructions. */
static inline __attribute__((always_inline)) void pack_rows(rp_dtype dtype, const void *from, int64_t at, int64_t from_row, int64_t rows,
                                                            int64_t n, int64_t width, float *to)
{
    for (int64_t i = 0; i < rows; i++, at += from_row, to += width) {
        if (dtype == RP_F32) memcpy(to, (const float *)from + at, (size_t)n * sizeof *to);
        else row_f32(dtype, from, at, n, to);
        for (int64_t j = n; j < width; j++) to[j] = 0;
    }
}

static inline void transpose_some(rp_dtype dtype, const void *from, int64_t at, int64_t from_row, int64_t n, int64_t depth, int64_t width,
                                  float *to)
{
    for (; depth > 0; depth--, at++, to += width)
        for (int64_t i = 0; i < n; i++) to[i] = load_one(dtype, from, at + i * from_row);
}

/* Four rows of `from` become four columns of `to`. */
static inline void transpose_four(rp_dtype dtype, const void *from, int64_t at, int64_t from_row, int64_t depth, int64_t width, float *to)
{
    int64_t k = 0;

    for (; k + 4 <= depth; k += 4, to += 4 * width) {
        four a = load_four(dtype, from, at + k), b = load_four(dtype, from, at + from_row + k);
        four c = load_four(dtype, from, at + 2 * from_row + k), d = load_four(dtype, from, at + 3 * from_row + k);
        four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
        four ba = __builtin_shufflevector(a, b, 2, 6, 3, 7), dc = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        *(four_at *)to               = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
        *(four_at *)(to + width)     = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
        *(four_at *)(to + 2 * width) = __builtin_shufflevector(ba, dc, 0, 1, 4, 5);
        *(four_at *)(to + 3 * width) = __builtin_shufflevector(ba, dc, 2, 3, 6, 7);
    }
    transpose_some(dtype, from, at + k, from_row, 4, depth - k, width, to);
}

static inline void pack_transposed(rp_dtype dtype, const void *from, int64_t at, int64_t from_row, int64_t n, int64_t depth, int64_t width,
                                   float *to)
{
    int64_t j = 0;

    for (; j + 4 <= n; j += 4) transpose_four(dtype, from, at + j * from_row, from_row, depth, width, to + j);
    transpose_some(dtype, from, at + j * from_row, from_row, n - j, depth, width, to + j);
    for (int64_t k = 0; k < depth && n < width; k++) memset(to + k * width + n, 0, (size_t)(width - n) * sizeof *to);
}

#endif
