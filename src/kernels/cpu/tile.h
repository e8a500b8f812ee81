/* kernels/cpu/tile.h -- the register tile that the fp32 products of this folder use.
 *
 *            b [depth][vectors]
 *   a [rows][depth]    ->   c             each element of c is one chain over depth, in order
 *
 * It has two shapes: TILE_ROWS x TILE_COLUMNS, whose columns divide a head's dim, and WIDE_ROWS x WIDE_COLUMNS, which reads less data per
 * multiplication, so that its operands may come from the second-level cache.
 *
 * Row and step strides of `a` are free, so `a` may be a packed panel (row 1, step its rows), a matrix or its transpose. Strides
 * that are constants where the tile is inlined use no registers. The chain does not depend on the tile's position in the matrix,
 * so the bits do not depend on how a product is cut into tiles.
 */
#ifndef RP_KERNELS_CPU_TILE_H
#define RP_KERNELS_CPU_TILE_H

#include "kernels/cpu/cpu.h"

#if defined(__AVX512F__)
enum { LANES = 16, TILE_ROWS = 12, WIDE_ROWS = 8, WIDE_VECTORS = 3 };
#elif defined(__AVX2__)
enum { LANES = 8, TILE_ROWS = 6, WIDE_ROWS = 6, WIDE_VECTORS = 2 };
#elif defined(__aarch64__)
enum { LANES = 4, TILE_ROWS = 12, WIDE_ROWS = 8, WIDE_VECTORS = 3 };        /* 32 registers */
#else
enum { LANES = 4, TILE_ROWS = 4, WIDE_ROWS = 4, WIDE_VECTORS = 2 };
#endif
enum { TILE_COLUMNS = 2 * LANES, WIDE_COLUMNS = WIDE_VECTORS * LANES, TILE_MOST_ROWS = 12, TILE_MOST_VECTORS = 3 };

/* lanes_at has an alignment of four bytes and may alias: rows of a matrix start anywhere. */
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef float lanes_at __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

typedef lanes tile_sums[TILE_MOST_ROWS][TILE_MOST_VECTORS];

/* The functions below take rows and vectors, which are constants after inlining. rows x vectors sums and the operands of a step must fit
 * the registers. Four steps are unrolled: the loop then has fewer instructions per multiplication, and the processor predicts its end.
 * Clears the sums. */
INLINE void tile_clear(int rows, int vectors, tile_sums sum)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[r][v] = (lanes){ 0 };
}

/* One step of k: sum += a x b. */
INLINE void tile_step(int rows, int vectors, const float *a, int64_t a_row, const float *b, int64_t b_step, tile_sums sum)
{
    lanes row[TILE_MOST_VECTORS];

#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        __builtin_prefetch(b + 8 * b_step + v * LANES);
        row[v] = *(const lanes_at *)(b + v * LANES);
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[r][v] += a[r * a_row] * row[v];
}

INLINE void tile_put(int rows, int vectors, tile_sums sum, float *c, int64_t c_row, bool adds)
{
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++, c += c_row)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            lanes_at *to = (lanes_at *)(c + v * LANES);
            if (adds) *to += sum[r][v];
            else *to = sum[r][v];
        }
}

/* c (+)= a x b. */
INLINE void tile_of(int rows, int vectors, int64_t depth, const float *a, int64_t a_row, int64_t a_step, const float *b, int64_t b_step,
                    float *c, int64_t c_row, bool adds)
{
    tile_sums sum;
    int64_t k = 0;

    tile_clear(rows, vectors, sum);
    for (; k + 4 <= depth; k += 4)
#pragma GCC unroll 4
        for (int s = 0; s < 4; s++, a += a_step, b += b_step) tile_step(rows, vectors, a, a_row, b, b_step, sum);
    for (; k < depth; k++, a += a_step, b += b_step) tile_step(rows, vectors, a, a_row, b, b_step, sum);
    tile_put(rows, vectors, sum, c, c_row, adds);
}

static inline __attribute__((always_inline)) void tile_multiply(int64_t depth, const float *a, int64_t a_row, int64_t a_step,
                                                                const float *b, int64_t b_step, float *c, int64_t c_row, bool adds)
{
    tile_of(TILE_ROWS, 2, depth, a, a_row, a_step, b, b_step, c, c_row, adds);
}

#endif
