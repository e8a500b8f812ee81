/* kernels/cpu/cpu.h -- common code of the kernel files: names with the level's suffix, rows and blocks of fp32 from any dtype.
 *
 * Every function of this folder that is not static is named RP_AT_LEVEL(name), so that the copies of the levels do not
 * clash. `static inline` functions are compiled with each level's flags.
 */
#ifndef RP_KERNELS_CPU_H
#define RP_KERNELS_CPU_H

#include "base/team.h"
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#define RP_PASTE2(a, b) a##_##b
#define RP_PASTE(a, b) RP_PASTE2(a, b)
#define RP_AT_LEVEL(name) RP_PASTE(name, RP_LEVEL)
#define RP_TEXT2(x) #x
#define RP_TEXT(x) RP_TEXT2(x)
#define RP_LEVEL_TEXT RP_TEXT(RP_LEVEL)

extern const rp_kernels RP_AT_LEVEL(rp_table);
#define RP_KERNEL(name, prototype) extern rp_kernel_##name RP_AT_LEVEL(name);
#include "kernels/kernels.def"
#undef RP_KERNEL

/* For loops that are compiled once per dtype: the dtype is a constant argument. */
#define INLINE static inline __attribute__((always_inline))

INLINE float f32_at(rp_dtype dtype, const void *from, int64_t i)
{
    return dtype == RP_F32 ? ((const float *)from)[i] : rp__f32_from_bf16(((const uint16_t *)from)[i]);
}

INLINE void put_at(rp_dtype dtype, void *to, int64_t i, float value)
{
    if (dtype == RP_F32) ((float *)to)[i] = value;
    else ((uint16_t *)to)[i] = rp__bf16_from_f32(value);
}

/* `adds` is a constant, too; without it the destination is not read. */
INLINE void put_add_at(rp_dtype dtype, void *to, int64_t i, float value, bool adds)
{
    put_at(dtype, to, i, adds ? f32_at(dtype, to, i) + value : value);
}

static inline int64_t width_of(rp_dtype dtype) { return dtype == RP_F32 ? 4 : 2; }

/* n values at `from` (element offset `at`) as fp32: the row itself if it is fp32, else converted into `buffer`. */
static inline const float *row_f32(rp_dtype dtype, const void *from, int64_t at, int64_t n, float *buffer)
{
    if (dtype == RP_F32) return (const float *)from + at;
    const uint16_t *h = (const uint16_t *)from + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) buffer[i] = rp__f32_from_bf16(h[i]);
    return buffer;
}

/* Stores a row of fp32 to `to` (element offset `at`), converted to dtype. An fp32 row that was computed in place is not copied. */
static inline void row_store(rp_dtype dtype, void *to, int64_t at, int64_t n, const float *row)
{
    if (dtype == RP_F32) {
        float *f = (float *)to + at;
        if (f != row) memcpy(f, row, (size_t)n * sizeof *f);
        return;
    }
    uint16_t *h = (uint16_t *)to + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) h[i] = rp__bf16_from_f32(row[i]);
}

static inline void row_store_add(rp_dtype dtype, void *to, int64_t at, int64_t n, const float *row, bool adds)
{
    if (!adds) {
        row_store(dtype, to, at, n, row);
        return;
    }
    if (dtype == RP_F32) {
        float *f = (float *)to + at;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) f[i] += row[i];
        return;
    }
    uint16_t *h = (uint16_t *)to + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) h[i] = rp__bf16_from_f32(rp__f32_from_bf16(h[i]) + row[i]);
}

/* ---- a result in blocks of fp32 that stay in the first-level cache ----
 *
 *   block_target --> loops over block_width elements write fp32 --> block_done --> destination of any dtype, assigned or added to
 *
 * A destination of fp32 that is assigned needs no block: the loops write to it. */

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

/* ---- functions ---- */

/* exp(x) by range reduction and a degree-6 polynomial, within 2 ulp of fp32 if the result is a normal number. 0 far below
 * (-inf included), exp(88) above 88; NaN stays NaN. It uses no library calls, branches or conversions to int, so that loops
 * vectorise at every level: adding 1.5 * 2^23 leaves the integer part in the low bits. The power of two is applied in two halves,
 * which can reach subnormal numbers. */
static inline float fast_exp(float x)
{
    float most = 88.0f < x ? 88.0f : x, in = -106.0f > most ? -106.0f : most;
    float shifted = in * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    float r = (in - n * 0.693359375f) + n * 2.12194440e-4f, p = 1.9875691500e-4f;
    union { float f; int32_t i; } whole = { .f = shifted };
    int32_t power = whole.i - 0x4b400000, half = power >> 1;
    union { uint32_t u; float f; } low = { .u = (uint32_t)(half + 127) << 23 }, high = { .u = (uint32_t)(power - half + 127) << 23 };

    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + (r + 1.0f);
    return p * low.f * high.f;
}

#endif
