/* kernels/cpu/amx.h -- the eight tiles of a core (Intel SDM volume 1, chapter 18): 16 rows of 64 bytes each, in the roles that products
 * of this folder give them.
 *
 *            6   7          b: [16 pairs of the depth][16 columns][2]
 *        4 [ 0 | 1 ]        a: [16 rows][32 of the depth]
 *        5 [ 2 | 3 ]        four sums of [16][16] fp32, so that every tile loaded is used twice
 *
 * Needs AMX-BF16.
 */
#ifndef RP_KERNELS_CPU_AMX_H
#define RP_KERNELS_CPU_AMX_H

#include "kernels/cpu/cpu.h"

#include <immintrin.h>

/* Around a thread's use of tiles: while they are in use every switch of threads saves 8 KiB more. */
static inline void amx_begin(void)
{
    /* Static and constant: the intrinsic tells the compiler only of its first bytes. */
    static const struct { uint8_t palette, start, unused[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } shape = {
        .palette = 1, .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 }, .rows = { 16, 16, 16, 16, 16, 16, 16, 16 }
    };

    _tile_loadconfig(&shape);
}

static inline void amx_end(void) { _tile_release(); }

/* What the compiler has stored must be in memory before a tile is loaded: the intrinsics do not say that they read. */
INLINE void amx_stored(void) { __asm__ volatile("" ::: "memory"); }

INLINE void amx_zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Sum 1 is `right` fp32 from sum 0, sum 2 `down`; rows of a tile are row_bytes apart. */
INLINE void amx_load_sums(const float *c, int64_t right, int64_t down, int64_t row_bytes)
{
    _tile_loadd(0, c, row_bytes);
    _tile_loadd(1, c + right, row_bytes);
    _tile_loadd(2, c + down, row_bytes);
    _tile_loadd(3, c + down + right, row_bytes);
}

INLINE void amx_store_sums(float *c, int64_t right, int64_t down, int64_t row_bytes)
{
    _tile_stored(0, c, row_bytes);
    _tile_stored(1, c + right, row_bytes);
    _tile_stored(2, c + down, row_bytes);
    _tile_stored(3, c + down + right, row_bytes);
}

#endif
