/* models/init.c -- initialises weights with normal numbers, by the Box-Muller method from Philox.
 *
 *   key      hash of the seed and the parameter's path
 *   counter  element / 4: four words make four normal numbers
 *
 * So a weight is a function of (seed, path, element). It does not depend on threads, ranks, other parameters or the dtype. Parts of adapters are
 * uniform, with one word per number. */
#include "models/adapter.h"
#include "models/weights_internal.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "base/team.h"
#include "tensor/tensor.h"

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

static void init_put(void *data, rp_dtype dtype, int64_t i, double value)
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
    rp_slice slice;                     /* the part of the whole parameter that `data` holds */
    uint64_t key;
    four (*of)(uint64_t key, int64_t block);
    double times;
} drawing;

static void draw_blocks(const void *arg, int64_t from, int64_t to)
{
    const drawing *d = arg;
    int64_t end      = d->slice.first + d->slice.count;

    for (int64_t block = d->slice.first / 4 + from; block < d->slice.first / 4 + to; block++) {
        four z    = d->of(d->key, block);
        int64_t i = 4 * block < d->slice.first ? d->slice.first : 4 * block;
        for (; i < end && i < 4 * block + 4; i++) init_put(d->data, d->dtype, i - d->slice.first, d->times * (double)z.number[i % 4]);
    }
}

static void init_draw(const rp_param *p, uint64_t key, four (*of)(uint64_t, int64_t), double times, int threads)
{
    drawing d      = { rp__tensor_data(p->tensor), p->whole.dtype, p->slice, key, of, times };
    int64_t blocks = (p->slice.first % 4 + p->slice.count + 3) / 4;

    rp__team_ranges(threads, blocks, 1, blocks * (int64_t)sizeof(four), draw_blocks, &d);
}

static void init_fill(const rp_param *p, double value)
{
    void *data = rp__tensor_data(p->tensor);

    for (int64_t i = 0; i < p->slice.count; i++) init_put(data, p->whole.dtype, i, value);
}

/* Each block adds to the residual twice. */
static double std_of(const rp_model_config *c, const char *path)
{
    bool into_residual = rp__glob("layers.*.attn.output.weight", path) || rp__glob("layers.*.mlp.down.weight", path);

    return c->scaled_residual_init && into_residual ? c->init_std / sqrt(2 * (double)c->n_layers) : c->init_std;
}

static uint64_t key_of(const rp_param *p, uint64_t seed)
{
    return rp__hash(p->path, strlen(p->path), rp__hash(&seed, sizeof seed, RP_HASH_START));
}

static void init_part(const rp_param *p, rp_lora_part part, uint64_t seed, int threads)
{
    if (part == RP_LORA_A) init_draw(p, key_of(p, seed), uniforms, 1 / sqrt((double)p->whole.dim[1]), threads);
    else init_fill(p, part == RP_LORA_MAGNITUDE ? 1 : 0);
}

static void init_param(const rp_model_config *c, const rp_param *p, uint64_t seed, int threads)
{
    if (!strcmp(p->name, "bias")) init_fill(p, 0);
    else if (p->whole.ndim == 1) init_fill(p, 1 - c->norm_plus);
    else init_draw(p, key_of(p, seed), normals, std_of(c, p->path), threads);
}

void rp__model_init_one(rp_model *model, int i, uint64_t seed)
{
    const rp_param *p = rp__model_param(model, i);
    int threads       = rp__model_ctx(model)->threads, unused;
    rp_lora_part part = rp__lora_part_of(p->path, &unused);

    if (!rp__tensor_real(p->tensor)) return;
    rp__mem_enter(rp__model_ctx(model));
    if (part != RP_LORA_NONE) init_part(p, part, seed, threads);
    else init_param(rp__model_config(model), p, seed, threads);
    rp__mem_leave(rp__model_ctx(model));
    rp__param_pad(p);
    rp__tensor_wrote(p->tensor, "rp__model_init");
}

static void init_all(rp_model *model, uint64_t seed, bool parts_alone)
{
    int unused;

    for (int i = 0; i < rp__model_n_params(model); i++)
        if (!parts_alone || rp__lora_part_of(rp__model_param(model, i)->path, &unused) != RP_LORA_NONE) rp__model_init_one(model, i, seed);
}

void rp__model_init(rp_model *model, uint64_t seed) { init_all(model, seed, false); }
void rp__adapters_init(rp_model *model, uint64_t seed) { init_all(model, seed, true); }
