/* kernels/cpu/blocks.h -- a result in blocks of fp32 that stay in the first-level cache.
 *
 *   block_target --> loops over block_width elements write fp32 --> block_done --> destination of any dtype, assigned or added to
 *
 * A destination of fp32 that is assigned needs no block: the loops write to it.
 */
#ifndef RP_KERNELS_BLOCKS_H
#define RP_KERNELS_BLOCKS_H

#include "kernels/cpu/cpu.h"

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

#endif
