/* base/quant.c -- the table of quantised types. */
#include "base/quant.h"

#include <string.h>
#include <strings.h>

#include "base/quant_decode.h"

static const rp_quant_type types[] = {
#define RP_QUANT(dtype, name, elems, bytes) { dtype, #name, elems, bytes, 1, 0, rp__blocks_##name },
#define RP_QUANT_GROUPED(dtype, name, elems, bytes, group, head) { dtype, #name, elems, bytes, group, head, rp__blocks_##name },
#include "base/quant.def"
#undef RP_QUANT
#undef RP_QUANT_GROUPED
};

const rp_quant_type *rp__quant_type(rp_dtype dtype) { return rp__is_quant(dtype) ? &types[dtype - RP_Q4_0] : NULL; }

const rp_quant_type *rp__quant_find(const char *name)
{
    for (int i = 0; i < RP_COUNT(types); i++)
        if (!strcasecmp(types[i].name, name)) return &types[i];
    return NULL;
}

int64_t rp__quant_bytes(const rp_quant_type *type, int64_t elems)
{
    int64_t blocks = elems / type->block_elems;

    return blocks * type->block_bytes + (blocks + type->group - 1) / type->group * type->head_bytes;
}

int64_t rp__quant_block_at(const rp_quant_type *type, int64_t block)
{
    return block * type->block_bytes + (block / type->group + 1) * type->head_bytes;
}

void rp__quant_read(const rp_quant_type *type, const void *base, int64_t at, int64_t n, float *to)
{
    rp__quant_span(type, type->decode, base, at, n, to);
}

/* ---- slices ---- */

/* The block that has the byte; that of a head is the first of its group. */
static int64_t block_of(const rp_quant_type *type, int64_t byte)
{
    int64_t group_bytes = type->head_bytes + type->group * type->block_bytes, inside = byte % group_bytes - type->head_bytes;

    return byte / group_bytes * type->group + (inside > 0 ? inside / type->block_bytes : 0);
}

void rp__quant_slice_blocks(const rp_quant_type *type, const rp_quant_slice *slice, int64_t *from, int64_t *to)
{
    *from = *to = 0;
    if (!slice->count) return;
    *from = block_of(type, slice->first);
    *to   = block_of(type, slice->first + slice->count - 1) + 1;
}

void rp__quant_slice_put(const rp_quant_slice *to, int64_t at, const void *from, int64_t n)
{
    int64_t first = at > to->first ? at : to->first, end = at + n < to->first + to->count ? at + n : to->first + to->count;

    if (first < end) memcpy(to->base + (first - to->first), (const uint8_t *)from + (first - at), (size_t)(end - first));
}

/* ---- NF4 ---- */

const float rp__nf4_value[16] = { RP_NF4_VALUES };
static const float scale_value[128] = { RP_NF4_SCALES };

float rp__nf4_scale_value(uint8_t code) { return rp__nf4_scale_in(scale_value, code); }
