/* kernels/cpu/few_rows.h -- a product of at most RP_GEMM_FEW_ROWS rows, as in generation: all of B is read once, where it lies.
 *
 *   B stored [n, k]   an element of C is a dot product of two rows
 *   B stored [k, n]   a stretch of C's columns gathers row after row of B
 *
 *   scratch of a thread   [ A as fp32: m x k | a stretch of B's row as fp32 | sum: m x columns ]
 *
 * A dot product's bits depend on k and the level alone; so do a gathered element's, which is one chain over k.
 */
#ifndef RP_KERNELS_CPU_FEW_ROWS_H
#define RP_KERNELS_CPU_FEW_ROWS_H

#include "kernels/cpu/pack.h"
#include "kernels/cpu/tile.h"

enum { DOT_COLUMNS = 64, GATHER_COLUMNS = 1024 };

typedef struct { int64_t columns, n_columns, a_floats, b_floats, sum_floats; } few_cut;

static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

static inline few_cut few_cut_up(const rp_gemm *g)
{
    int64_t share = (g->n + g->threads - 1) / g->threads, parts = (share + GATHER_COLUMNS - 1) / GATHER_COLUMNS;
    few_cut c     = { .columns = DOT_COLUMNS };

    if (!g->transpose_b && parts) c.columns = round_up((share + parts - 1) / parts, 16);
    c.n_columns  = (g->n + c.columns - 1) / c.columns;
    c.a_floats   = round_up(g->m * g->k, 16);
    c.b_floats   = round_up(g->transpose_b ? g->k : c.columns, 16);
    c.sum_floats = round_up(g->m * c.columns, 16);
    return c;
}

/* Four chains of vectors, then what is left, then the lanes in order. */
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
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int l = 0; l < LANES; l++) total += sum[0][l];
    return total;
}

static inline void few_dots(const rp_gemm *g, const float *a, const void *b, int64_t j0, int64_t columns, int64_t sum_row, float *buffer,
                            float *sum)
{
    for (int64_t j = 0; j < columns; j++) {
        const float *row = row_f32(g->ab, b, (j0 + j) * g->k, g->k, buffer);
        for (int64_t r = 0; r < g->m; r++) sum[r * sum_row + j] = dot(a + r * g->k, row, g->k);
    }
}

static inline void few_gathered(const rp_gemm *g, const float *a, const void *b, int64_t j0, int64_t columns, int64_t sum_row,
                                float *buffer, float *sum)
{
    memset(sum, 0, (size_t)(g->m * sum_row) * sizeof *sum);
    for (int64_t k = 0; k < g->k; k++) {
        const float *row = row_f32(g->ab, b, k * g->n + j0, columns, buffer);
        for (int64_t r = 0; r < g->m; r++) {
            float factor = a[r * g->k + k], *to = sum + r * sum_row;
#pragma omp simd
            for (int64_t j = 0; j < columns; j++) to[j] += factor * row[j];
        }
    }
}

/* C's columns j0 … of all rows, without bias, into sum [m, c->columns], which is returned. */
static inline float *few_block(const rp_gemm *g, const few_cut *c, int64_t j0, int64_t columns, const void *b, float *scratch)
{
    float *buffer = scratch + c->a_floats, *sum = buffer + c->b_floats;

    (g->transpose_b ? few_dots : few_gathered)(g, scratch, b, j0, columns, c->columns, buffer, sum);
    return sum;
}

static inline void few_load_a(const rp_gemm *g, const void *a, float *to)
{
    for (int64_t r = 0; r < g->m; r++)
        for (int64_t k = 0; k < g->k; k++) to[r * g->k + k] = load_one(g->ab, a, g->transpose_a ? k * g->m + r : r * g->k + k);
}

#endif
