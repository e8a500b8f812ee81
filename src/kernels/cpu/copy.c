/* kernels/cpu/copy.c -- strips of elements from one buffer to another: concat, split, cast and their gradients. */
#include "kernels/cpu/blocks.h"

void RP_AT_LEVEL(copy_strips)(rp_dtype from_dtype, const void *from, int64_t from_stride, rp_dtype to_dtype, void *to, int64_t to_stride,
                              bool adds, int64_t strips, int64_t width, int threads)
{
    int64_t per_strip = (width + BLOCK - 1) / BLOCK;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < strips * per_strip; b++) {
        float buffer[BLOCK];
        int64_t strip = b / per_strip, at = b % per_strip * BLOCK, count = block_width(at, width);
        int64_t source = strip * from_stride + at, target = strip * to_stride + at;
        if (from_dtype == RP_BF16 && to_dtype == RP_BF16 && !adds)
            memcpy((uint16_t *)to + target, (const uint16_t *)from + source, (size_t)count * sizeof(uint16_t));
        else
            block_done(to_dtype, to, target, count, row_f32(from_dtype, from, source, count, buffer), adds);
    }
}
