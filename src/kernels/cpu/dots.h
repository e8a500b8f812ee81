/* kernels/cpu/dots.h -- products of few rows with B stored [n, k], as in generation. Each element of C is a dot product of two rows, and B is
 * read once, in place. A single row is multiplied by the blocks of a quantised B as they are decoded in registers (quant_wide.h).
 *
 *   scratch of a thread   [ A: m x k | a row of B: k | sum: m x DOT_COLUMNS ]
 *
 * A and the row are fp32; with AVX512-BF16 or FEAT_BF16 they are bf16 if the matrices are. The bits of an element depend only on k, the dtype and the level.
 */
#ifndef RP_KERNELS_CPU_DOTS_H
#define RP_KERNELS_CPU_DOTS_H

#include "kernels/cpu/pack.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/tile.h"
#if defined(__AVX512BF16__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#include <arm_neon.h>
#endif

enum { DOT_ROWS = 4, DOT_COLUMNS = 64 };

static inline bool wants_dots(const rp_gemm *g) { return g->transpose_b && g->m <= DOT_ROWS; }

typedef struct { int64_t a, b, all; } dots_floats;      /* sizes in a thread's scratch */

static inline dots_floats dots_scratch(const rp_gemm *g)
{
    int64_t a = (g->m * g->k + 15) / 16 * 16, b = (g->k + 15) / 16 * 16;

    return (dots_floats){ a, b, a + b + DOT_ROWS * DOT_COLUMNS };
}

/* Asks for `bytes` of B some steps before they are read. The processor's own prefetch does not reach the speed of memory. */
INLINE void dot_prefetch(const void *b, int64_t bytes)
{
    enum { AHEAD_BYTES = 2048 };

    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)b + AHEAD_BYTES + i);
}

/* The sum of four chains, then the lanes in order. */
static inline float dot_total(lanes sum[4], float total)
{
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int l = 0; l < LANES; l++) total += sum[0][l];
    return total;
}

/* Four chains of vectors, then the remaining elements, then the chains. */
static inline float dot(const float *a, const float *b, int64_t n)
{
    lanes sum[4] = { 0 };
    float total  = 0;
    int64_t i    = 0;

    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        dot_prefetch(b + i, 4 * LANES * (int64_t)sizeof(float));
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) sum[v] += *(const lanes_at *)(a + i + v * LANES) * *(const lanes_at *)(b + i + v * LANES);
    }
    for (; i + LANES <= n; i += LANES) sum[0] += *(const lanes_at *)(a + i) * *(const lanes_at *)(b + i);
    for (; i < n; i++) total += a[i] * b[i];
    return dot_total(sum, total);
}

/* ---- rows of bf16 ---- */

#if defined(__AVX512BF16__)
enum { DOT_CHAINS = 4 };

static inline bool in_pairs(const rp_gemm *g) { return g->ab == RP_BF16; }

/* b: the bits of 32 elements. */
INLINE __m512 dot_step(__m512 sum, __m512 b, const uint16_t *a)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)_mm512_loadu_si512(a), (__m512bh)_mm512_castps_si512(b));
}

/* The sum of the chains, then by halves. */
INLINE float dot_pairs_total(const __m512 sum[DOT_CHAINS])
{
    __m512 all     = _mm512_add_ps(_mm512_add_ps(sum[0], sum[1]), _mm512_add_ps(sum[2], sum[3]));
    __m256 half    = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    __m128 two     = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));

    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Vector i of the row belongs to chain i % 4; the last may be a part of one. */
static inline float dot_pairs(const uint16_t *a, const uint16_t *b, int64_t n)
{
    __m512 sum[DOT_CHAINS] = { 0 };
    int64_t i = 0;

    for (; i + 32 * DOT_CHAINS <= n; i += 32 * DOT_CHAINS) {
        dot_prefetch(b + i, 64 * DOT_CHAINS);
#pragma GCC unroll 4
        for (int v = 0; v < DOT_CHAINS; v++) sum[v] = dot_step(sum[v], _mm512_castsi512_ps(_mm512_loadu_si512(b + i + 32 * v)), a + i + 32 * v);
    }
#pragma GCC unroll 4
    for (int v = 0; v < DOT_CHAINS; v++, i += 32) {
        __mmask32 some = n - i >= 32 ? 0xffffffff : n > i ? (1u << (n - i)) - 1 : 0;
        sum[v] = _mm512_dpbf16_ps(sum[v], (__m512bh)_mm512_maskz_loadu_epi16(some, a + i), (__m512bh)_mm512_maskz_loadu_epi16(some, b + i));
    }
    return dot_pairs_total(sum);
}
#elif defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
enum { DOT_CHAINS = 4, DOT_LANES = 8 };

static inline bool in_pairs(const rp_gemm *g) { return g->ab == RP_BF16; }

INLINE lanes dot_step(lanes sum, const uint16_t *a, const uint16_t *b)
{
    return (lanes)vbfdotq_f32((float32x4_t)sum, vreinterpretq_bf16_u16(vld1q_u16(a)), vreinterpretq_bf16_u16(vld1q_u16(b)));
}

/* Vector i of the row belongs to chain i % 4; the last may be a part of one. */
static inline float dot_pairs(const uint16_t *a, const uint16_t *b, int64_t n)
{
    uint16_t last_a[DOT_LANES] = { 0 }, last_b[DOT_LANES] = { 0 };
    lanes sum[DOT_CHAINS] = { 0 };
    int64_t i = 0;

    for (; i + DOT_LANES * DOT_CHAINS <= n; i += DOT_LANES * DOT_CHAINS) {
        dot_prefetch(b + i, 2 * DOT_LANES * DOT_CHAINS);
#pragma GCC unroll 4
        for (int v = 0; v < DOT_CHAINS; v++) sum[v] = dot_step(sum[v], a + i + DOT_LANES * v, b + i + DOT_LANES * v);
    }
    for (int v = 0; i < n; v++, i += DOT_LANES) {
        if (n - i >= DOT_LANES) {
            sum[v] = dot_step(sum[v], a + i, b + i);
            continue;
        }
        memcpy(last_a, a + i, (size_t)(n - i) * sizeof *a);
        memcpy(last_b, b + i, (size_t)(n - i) * sizeof *b);
        sum[v] = dot_step(sum[v], last_a, last_b);
    }
    return dot_total(sum, 0);
}
#else
static inline bool in_pairs(const rp_gemm *g) { return (void)g, false; }
static inline float dot_pairs(const uint16_t *a, const uint16_t *b, int64_t n) { return (void)a, (void)b, (void)n, 0; }
#endif

static inline void dots_load_a(const rp_gemm *g, const void *a, void *to)
{
    for (int64_t r = 0; r < g->m; r++)
        for (int64_t k = 0; k < g->k; k++) {
            int64_t from = g->transpose_a ? k * g->m + r : r * g->k + k;
            if (in_pairs(g)) ((uint16_t *)to)[r * g->k + k] = ((const uint16_t *)a)[from];
            else ((float *)to)[r * g->k + k] = load_one(g->ab, a, from);
        }
}

static inline quant_output dots_output(const rp_gemm *g) { return g->ab == RP_F32 ? QUANT_FLOATS : (quant_output)QUANT_BESIDE_BF16; }

/* Row j of B; `buffer` may be used for it. */
static inline const void *dots_row(const rp_gemm *g, const void *b, int64_t j, float *buffer)
{
    int64_t at = g->b_first + j * g->k;

    if (!g->quant) return in_pairs(g) ? (const uint16_t *)b + j * g->k : (const void *)row_f32(g->ab, b, j * g->k, g->k, buffer);
    quant_read(g->quant, dots_output(g), b, at, g->k, buffer);
    return buffer;
}

/* Returns the function that multiplies a row of B as it decodes it. NULL: there is none, or several rows of A share the decoded row. */
static inline quant_dot *dots_of_blocks(const rp_gemm *g)
{
    if (!g->quant || g->m > 1 || g->k % g->quant->block_elems || g->b_first % g->quant->block_elems) return NULL;
    return RP_AT_LEVEL(quant_dots)[g->quant->dtype - RP_Q4_0][dots_output(g)];
}

/* Computes columns j0 … of all rows into sum [m, DOT_COLUMNS]. */
static inline void dots_block(const rp_gemm *g, const void *a, const void *b, int64_t j0, int64_t columns, float *buffer, float *sum)
{
    quant_dot *whole = dots_of_blocks(g);
    int64_t blocks   = whole ? g->k / g->quant->block_elems : 0, first = whole ? g->b_first / g->quant->block_elems : 0;

    for (int64_t j = 0; j < columns && whole; j++) sum[j] = whole(b, first + (j0 + j) * blocks, blocks, a);
    if (whole) return;
    for (int64_t j = 0; j < columns; j++) {
        const void *row = dots_row(g, b, j0 + j, buffer);
        for (int64_t r = 0; r < g->m; r++)
            sum[r * DOT_COLUMNS + j] = in_pairs(g) ? dot_pairs((const uint16_t *)a + r * g->k, row, g->k) : dot((const float *)a + r * g->k, row, g->k);
    }
}

#endif
