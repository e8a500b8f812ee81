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

/* Dettmers et al., QLoRA, 2023 (arXiv 2305.14314), appendix E. */
const float rp__nf4_value[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
    -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f,
};

/* The values of codes 128 to 255. Those of codes 0 to 126 are the same up to 0.99, negative and in reverse; that of 127 is 0. */
static const float scale_value[128] = {
    5.5000004e-7f, 3.2500002e-6f, 7.75e-6f, 2.1249998e-5f, 4.375e-5f, 6.625e-5f, 8.875e-5f, 0.00015625001f,
    0.00026875004f, 0.00038125002f, 0.00049375003f, 0.0006062501f, 0.00071875006f, 0.00083125f, 0.0009437501f, 0.0012812499f,
    0.00184375f, 0.00240625f, 0.00296875f, 0.0035312497f, 0.00409375f, 0.0046562497f, 0.0052187503f, 0.00578125f,
    0.00634375f, 0.00690625f, 0.00746875f, 0.00803125f, 0.00859375f, 0.009156249f, 0.00971875f, 0.01140625f,
    0.01421875f, 0.01703125f, 0.019843752f, 0.02265625f, 0.02546875f, 0.028281251f, 0.03109375f, 0.03390625f,
    0.036718752f, 0.03953125f, 0.042343747f, 0.04515625f, 0.04796875f, 0.05078125f, 0.05359375f, 0.05640625f,
    0.059218753f, 0.06203125f, 0.06484375f, 0.067656256f, 0.070468746f, 0.07328125f, 0.07609375f, 0.07890625f,
    0.08171876f, 0.08453125f, 0.08734375f, 0.09015625f, 0.092968754f, 0.09578126f, 0.09859375f, 0.107031256f,
    0.12109375f, 0.13515624f, 0.14921875f, 0.16328125f, 0.17734376f, 0.19140625f, 0.20546874f, 0.21953125f,
    0.23359375f, 0.24765624f, 0.26171875f, 0.27578127f, 0.28984374f, 0.30390626f, 0.31796873f, 0.33203125f,
    0.34609374f, 0.36015624f, 0.37421876f, 0.38828123f, 0.40234375f, 0.41640624f, 0.43046874f, 0.44453126f,
    0.45859373f, 0.47265625f, 0.4867187f, 0.50078124f, 0.5148437f, 0.5289062f, 0.54296875f, 0.5570313f,
    0.5710938f, 0.58515626f, 0.5992187f, 0.61328125f, 0.6273438f, 0.6414063f, 0.65546876f, 0.6695312f,
    0.68359375f, 0.6976563f, 0.7117188f, 0.72578126f, 0.7398437f, 0.75390625f, 0.7679688f, 0.78203124f,
    0.79609376f, 0.8101562f, 0.82421875f, 0.8382813f, 0.85234374f, 0.86640626f, 0.8804687f, 0.89453125f,
    0.9085938f, 0.92265624f, 0.93671876f, 0.9507812f, 0.96484375f, 0.9789063f, 0.99296874f, 1.0f,
};

float rp__nf4_scale_value(uint8_t code) { return code > 127 ? scale_value[code - 128] : code == 127 ? 0 : -scale_value[126 - code]; }
