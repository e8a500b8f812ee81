/* kernels/cpu/copy.c -- copies strips of elements between buffers: for concat, split, cast and their gradients. */
#include "kernels/cpu/cpu.h"

typedef struct {
    rp_dtype from_dtype, to_dtype;
    const void *from;
    void *to;
    int64_t from_stride, to_stride, width, per_strip;
    bool adds;
} strips_of;

static void copy_block(const strips_of *c, int64_t source, int64_t target, int64_t count)
{
    float buffer[BLOCK];

    if (!c->from) {
        memset(buffer, 0, (size_t)count * sizeof *buffer);
        block_done(c->to_dtype, c->to, target, count, buffer, c->adds);
    } else if (c->from_dtype == RP_BF16 && c->to_dtype == RP_BF16 && !c->adds)
        memcpy((uint16_t *)c->to + target, (const uint16_t *)c->from + source, (size_t)count * sizeof(uint16_t));
    else block_done(c->to_dtype, c->to, target, count, row_f32(c->from_dtype, c->from, source, count, buffer), c->adds);
}

static void copy_blocks(const void *arg, int64_t from, int64_t to)
{
    const strips_of *c = arg;

    for (int64_t b = from; b < to; b++) {
        int64_t strip = b / c->per_strip, at = b % c->per_strip * BLOCK;
        copy_block(c, strip * c->from_stride + at, strip * c->to_stride + at, block_width(at, c->width));
    }
}

void RP_AT_LEVEL(copy_strips)(rp_dtype from_dtype, const void *from, int64_t from_stride, rp_dtype to_dtype, void *to, int64_t to_stride,
                              bool adds, int64_t strips, int64_t width, const rp_on *on)
{
    strips_of c = { from_dtype, to_dtype, from, to, from_stride, to_stride, width, (width + BLOCK - 1) / BLOCK, adds };

    rp__team_ranges(on->threads, strips * c.per_strip, 1, strips * width * (width_of(from_dtype) + width_of(to_dtype)), copy_blocks, &c);
}
