/* kernels/cpu/blocks.h -- work on flat buffers in blocks that stay in the first cache, fp32 inside whatever the dtypes.
 *
 *   source --row_f32--> block of fp32 --compute--> block_target --block_done--> destination (assigned or added, rounded once)
 *
 * fp32 sources are read in place and fp32 destinations that are assigned are written in place, so the buffers cost nothing there.
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

/* 1/(1 + exp(-x)), inline so that it vectorises. */
static inline float sigmoid(float x) { return 1.0f / (1.0f + fast_exp(-x)); }

#endif
