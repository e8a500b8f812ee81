/* models/init.c -- the first weights of a model: normal numbers; parts of adapters are uniform.
 *
 * A weight is a function of (seed, path, element): tensor/draw.c. */
#include "models/adapter.h"
#include "models/weights_internal.h"

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

static void init_fill(const rp_param *p, double value) { rp__tensor_fill(p->tensor, p->slice.count, value); }

static void init_draw(const rp_param *p, uint64_t seed, rp_draw how, double times)
{
    rp__tensor_draw(p->tensor, p->slice.first, p->slice.count, rp__draw_key(seed, p->path), how, times);
}

/* Each block adds to the residual twice. */
static double std_of(const rp_model_config *c, const char *path)
{
    bool into_residual = rp__glob("layers.*.attn.output.weight", path) || rp__glob("layers.*.mlp.down.weight", path);

    return c->scaled_residual_init && into_residual ? c->init_std / sqrt(2 * (double)c->n_layers) : c->init_std;
}

static void init_part(const rp_param *p, rp_lora_part part, uint64_t seed)
{
    if (part == RP_LORA_A) init_draw(p, seed, RP_DRAW_UNIFORM, 1 / sqrt((double)p->whole.dim[1]));
    else init_fill(p, part == RP_LORA_MAGNITUDE ? 1 : 0);
}

static void init_param(const rp_model_config *c, const rp_param *p, uint64_t seed)
{
    if (!strcmp(p->name, "bias")) init_fill(p, 0);
    else if (p->whole.ndim == 1) init_fill(p, 1 - c->norm_plus);
    else init_draw(p, seed, RP_DRAW_NORMAL, std_of(c, p->path));
}

void rp__model_init_one(rp_model *model, int i, uint64_t seed)
{
    const rp_param *p = rp__model_param(model, i);
    int unused;
    rp_lora_part part = rp__lora_part_of(p->path, &unused);

    if (!rp__tensor_real(p->tensor)) return;
    rp__mem_enter(rp__model_ctx(model));
    if (part != RP_LORA_NONE) init_part(p, part, seed);
    else init_param(rp__model_config(model), p, seed);
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
