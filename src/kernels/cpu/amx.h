/* kernels/cpu/amx.h -- wraps the eight AMX tiles of a core (Intel SDM volume 1, chapter 18). Each has 16 rows of 64 bytes. The products of
 * this folder use them in these roles:
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

/* Call begin before a thread uses tiles and end after it: while tiles are in use, every thread switch saves 8 KiB more. */
static inline void amx_begin(void)
{
    /* Static and constant, so that all bytes are in memory: the compiler assumes that the intrinsic reads only the first ones. */
    static const struct { uint8_t palette, start, unused[14]; uint16_t row_bytes[16]; uint8_t rows[16]; } shape = {
        .palette = 1, .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 }, .rows = { 16, 16, 16, 16, 16, 16, 16, 16 }
    };

    _tile_loadconfig(&shape);
}

static inline void amx_end(void) { _tile_release(); }

/* Forces pending stores to memory before a tile is loaded: the compiler does not know that tile loads read memory. */
INLINE void amx_stored(void) { __asm__ volatile("" ::: "memory"); }

INLINE void amx_zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Sum 1 lies `right` floats after sum 0, sum 2 `down` floats after it; rows of a tile are row_bytes apart. */
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
