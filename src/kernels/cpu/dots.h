/* kernels/cpu/dots.h -- products of few rows with B stored [n, k], as in generation. Each element of C is a dot product of two rows, and B is
 * read once, in place. A single row is multiplied by the blocks of a quantised B as they are decoded in registers (quant_wide.h).
 *
 *   scratch of a thread   [ A as fp32: m x k | a row of B as fp32: k | sum: m x DOT_COLUMNS ]
 *
 * The bits of an element depend only on k and the level.
 */
#ifndef RP_KERNELS_CPU_DOTS_H
#define RP_KERNELS_CPU_DOTS_H

#include "kernels/cpu/pack.h"
#include "kernels/cpu/quant.h"
#include "kernels/cpu/tile.h"

enum { DOT_ROWS = 4, DOT_COLUMNS = 64 };

static inline bool wants_dots(const rp_gemm *g) { return g->transpose_b && g->m <= DOT_ROWS; }

typedef struct { int64_t a, b, all; } dots_floats;      /* sizes in a thread's scratch */

static inline dots_floats dots_scratch(const rp_gemm *g)
{
    int64_t a = (g->m * g->k + 15) / 16 * 16, b = (g->k + 15) / 16 * 16;

    return (dots_floats){ a, b, a + b + DOT_ROWS * DOT_COLUMNS };
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

    for (; i + 4 * LANES <= n; i += 4 * LANES)
#pragma GCC unroll 4
        for (int v = 0; v < 4; v++) sum[v] += *(const lanes_at *)(a + i + v * LANES) * *(const lanes_at *)(b + i + v * LANES);
    for (; i + LANES <= n; i += LANES) sum[0] += *(const lanes_at *)(a + i) * *(const lanes_at *)(b + i);
    for (; i < n; i++) total += a[i] * b[i];
    return dot_total(sum, total);
}

static inline void dots_load_a(const rp_gemm *g, const void *a, float *to)
{
    for (int64_t r = 0; r < g->m; r++)
        for (int64_t k = 0; k < g->k; k++) to[r * g->k + k] = load_one(g->ab, a, g->transpose_a ? k * g->m + r : r * g->k + k);
}

/* Row j of B as fp32; `buffer` may be used for it. */
static inline const float *dots_row(const rp_gemm *g, const void *b, int64_t j, float *buffer)
{
    if (!g->quant) return row_f32(g->ab, b, j * g->k, g->k, buffer);
    quant_rounded(g->ab, g->quant, b, g->b_first + j * g->k, g->k, buffer);
    return buffer;
}

/* Returns the function that multiplies a row of B as it decodes it. NULL: there is none, or several rows of A share the decoded row. */
static inline quant_dot *dots_of_blocks(const rp_gemm *g)
{
    if (!g->quant || g->m > 1 || g->k % g->quant->block_elems || g->b_first % g->quant->block_elems) return NULL;
    return RP_AT_LEVEL(quant_dots)[g->quant->dtype - RP_Q4_0][g->ab == RP_F32 ? QUANT_FLOATS : QUANT_ROUNDED];
}

/* Computes columns j0 … of all rows into sum [m, DOT_COLUMNS]. */
static inline void dots_block(const rp_gemm *g, const float *a, const void *b, int64_t j0, int64_t columns, float *buffer, float *sum)
{
    quant_dot *whole = dots_of_blocks(g);
    int64_t blocks   = whole ? g->k / g->quant->block_elems : 0, first = whole ? g->b_first / g->quant->block_elems : 0;

    for (int64_t j = 0; j < columns && whole; j++) sum[j] = whole(b, first + (j0 + j) * blocks, blocks, a);
    if (whole) return;
    for (int64_t j = 0; j < columns; j++) {
        const float *row = dots_row(g, b, j0 + j, buffer);
        for (int64_t r = 0; r < g->m; r++) sum[r * DOT_COLUMNS + j] = dot(a + r * g->k, row, g->k);
    }
}

#endif
