/* tensor/draw.c -- fills tensors with random numbers from Philox; normal ones by the Box-Muller method.
 *
 *   key      of the tensor, such as a hash of the seed and its name
 *   counter  element / 4: four words make four numbers
 *
 * So a number is a function of (key, element). It does not depend on threads, ranks, other tensors or the dtype. */
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "base/team.h"

typedef struct { float number[4]; } four;

static four normals(uint64_t key, int64_t block)
{
    rp_philox bits = rp__stream_block(&(rp_stream){ .key = key }, 0, block);
    four out;

    for (int i = 0; i < 4; i += 2) {
        float u = (float)(((double)bits.word[i] + 0.5) * 0x1p-32), turn = (float)bits.word[i + 1] * 0x1p-32f;
        float r = sqrtf(-2 * logf(u)), angle = 6.2831853f * turn;
        out.number[i]     = r * cosf(angle);
        out.number[i + 1] = r * sinf(angle);
    }
    return out;
}

/* Four numbers in [-1, 1). */
static four uniforms(uint64_t key, int64_t block)
{
    rp_philox bits = rp__stream_block(&(rp_stream){ .key = key }, 0, block);
    four out;

    for (int i = 0; i < 4; i++) out.number[i] = (float)(bits.word[i] >> 8) * 0x1p-23f - 1;
    return out;
}

static void draw_put(void *data, rp_dtype dtype, int64_t i, double value)
{
    switch (dtype) {
    case RP_BF16: ((uint16_t *)data)[i] = rp__bf16_from_f32((float)value); break;
    case RP_F64: ((double *)data)[i] = (double)(float)value; break;
    default: ((float *)data)[i] = (float)value; break;
    }
}

typedef struct {
    void *data;
    rp_dtype dtype;
    int64_t first, end;                 /* the elements of the whole that `data` holds */
    uint64_t key;
    four (*of)(uint64_t key, int64_t block);
    double times;
} drawing;

static void draw_blocks(const void *arg, int64_t from, int64_t to)
{
    const drawing *d = arg;

    for (int64_t block = d->first / 4 + from; block < d->first / 4 + to; block++) {
        four z    = d->of(d->key, block);
        int64_t i = 4 * block < d->first ? d->first : 4 * block;
        for (; i < d->end && i < 4 * block + 4; i++) draw_put(d->data, d->dtype, i - d->first, d->times * (double)z.number[i % 4]);
    }
}

void rp__tensor_draw(rp_tensor *t, int64_t first, int64_t count, uint64_t key, rp_draw how, double times)
{
    drawing d      = { rp__tensor_data(t), t->m.dtype, first, first + count, key, how == RP_DRAW_NORMAL ? normals : uniforms, times };
    int64_t blocks = (first % 4 + count + 3) / 4;

    rp__team_ranges(t->ctx->threads, blocks, 1, blocks * (int64_t)sizeof(four), draw_blocks, &d);
}

void rp__tensor_fill(rp_tensor *t, int64_t count, double value)
{
    void *data = rp__tensor_data(t);

    for (int64_t i = 0; i < count; i++) draw_put(data, t->m.dtype, i, value);
}

uint64_t rp__draw_key(uint64_t seed, const char *name)
{
    return rp__hash(name, strlen(name), rp__hash(&seed, sizeof seed, RP_HASH_START));
}
