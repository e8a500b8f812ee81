/* kernels/cpu/tile.h -- the register tile under every product of this folder.
 *
 *            b [depth][TILE_COLUMNS]          TILE_COLUMNS is two vectors of the level
 *   a [TILE_ROWS][depth]   ->   c             each element of c is one chain over depth, in order
 *
 * Rows and steps of `a` are free, so it may be a packed panel (row 1, step TILE_ROWS), a matrix or its transpose. Strides
 * that are constants where the tile is inlined cost no registers. The chain does not depend on where in a matrix the tile
 * lies: how a product is cut into tiles never shows in the bits.
 */
#ifndef RP_KERNELS_CPU_TILE_H
#define RP_KERNELS_CPU_TILE_H

#include "kernels/cpu/cpu.h"

#if defined(__AVX512F__)
enum { LANES = 16, TILE_ROWS = 12 };
#elif defined(__AVX2__)
enum { LANES = 8, TILE_ROWS = 6 };
#else
enum { LANES = 4, TILE_ROWS = 4 };
#endif
enum { TILE_COLUMNS = 2 * LANES };

/* Four bytes of alignment and any alias: rows of a matrix start anywhere. */
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef float lanes_at __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline __attribute__((always_inline)) void tile_multiply(int64_t depth, const float *a, int64_t a_row, int64_t a_step,
                                                                const float *b, int64_t b_step, float *c, int64_t c_row, bool adds)
{
    lanes sum[TILE_ROWS][2] = { 0 };

    for (int64_t k = 0; k < depth; k++, a += a_step, b += b_step) {
        __builtin_prefetch(b + 8 * b_step);
        __builtin_prefetch(b + 8 * b_step + LANES);
        lanes b0 = *(const lanes_at *)b, b1 = *(const lanes_at *)(b + LANES);
#pragma GCC unroll 16
        for (int r = 0; r < TILE_ROWS; r++) {
            sum[r][0] += a[r * a_row] * b0;
            sum[r][1] += a[r * a_row] * b1;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < TILE_ROWS; r++, c += c_row) {
        for (int v = 0; v < 2; v++) {
            lanes_at *to = (lanes_at *)(c + v * LANES);
            if (adds) *to += sum[r][v];
            else *to = sum[r][v];
        }
    }
}

#endif
