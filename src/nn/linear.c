/* nn/linear.c -- y = x w' + b, with an optional adapter. */
#include "nn/layers.h"
#include "nn/lora.h"

typedef struct {
    rp_module m;
    int64_t in, out;
    rp_dtype dtype;                       /* of the output; the weight may be quantised */
    bool in_out, sums_in_out;             /* of the weight as it is stored, and as the config has it */
    rp_lora_modules adapter;              /* rank 0: no adapter */
} linear;

rp_status rp__linear_product(rp_module *self, bool in_out, bool bias, rp_tensor *x, rp_tensor **y)
{
    bool with_bias = bias && self->n_params > 1;

    return rp__apply(self->ctx, &rp_op_matmul, &(rp_attr_matmul){ .transpose_w = !in_out },
                     (rp_tensor *[]){ x, rp__module_weight(self, 0), with_bias ? rp__module_weight(self, 1) : NULL }, 2 + with_bias, y);
}

static rp_status linear_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    const linear *l = (linear *)self;

    if (!l->adapter.lora.rank) return rp__linear_product(self, l->in_out, true, in[0], out);
    return (l->adapter.lora.dora ? rp__dora_forward : rp__lora_forward)(&l->adapter, self, in[0], out);
}

static const rp_module_kind type = { .name = "Linear", .forward = linear_forward };

rp_status rp__linear_new_tied(rp_module *parent, const char *name, rp_param *weight, rp_module **out)
{
    linear *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->in  = weight->whole.dim[1];
    l->out = weight->whole.dim[0];
    RP_TRY(rp__module_share(&l->m, "weight", weight));
    *out = &l->m;
    return RP_OK;
}

rp_status rp__linear_new(rp_module *parent, const char *name, const rp_linear_config *config, rp_dtype dtype, rp_module **out)
{
    rp_meta weight = rp_meta_2d(dtype, config->out, config->in), bias = rp_meta_1d(dtype, config->out);
    rp_tensor *t;
    linear *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->in        = config->in;
    l->out       = config->out;
    l->dtype     = dtype;
    weight.dtype = rp__module_stored(&l->m, "weight", &weight);
    l->sums_in_out = config->in_out;
    l->in_out    = config->in_out && weight.dtype == dtype;
    if (l->in_out) weight = rp_meta_2d(dtype, config->in, config->out);
    RP_TRY(rp__module_param(&l->m, "weight", &weight, &t));
    if (config->bias) RP_TRY(rp__module_param(&l->m, "bias", &bias, &t));
    *out = &l->m;
    return RP_OK;
}

/* ---- adapter ---- */

rp_status rp__lora_attach(rp_module *m, const rp_lora *lora)
{
    linear *l      = (linear *)m;
    rp_dtype dtype = l->dtype;

    RP_CHECK(m->ctx, lora->rank >= 1, RP_ERR_ARG, "an adapter of '%s' needs a rank of at least 1, not %" PRId64, m->path, lora->rank);
    RP_BUG_IF(m->type != &type || l->adapter.lora.rank);
    RP_TRY(rp__linear_new(m, "lora_a", &(rp_linear_config){ .in = l->in, .out = lora->rank }, dtype, &l->adapter.a));
    RP_TRY(rp__linear_new(m, "lora_b", &(rp_linear_config){ .in = lora->rank, .out = l->out }, dtype, &l->adapter.b));
    if (lora->dora) RP_TRY(rp__magnitude_new(m, l->out, dtype, &l->adapter.magnitude));
    l->adapter.in_out      = l->in_out;
    l->adapter.sums_in_out = l->sums_in_out;
    l->adapter.lora   = *lora;
    return RP_OK;
}

bool rp__lora_parts(const rp_module *m, rp_lora_parts *out)
{
    const rp_lora_modules *parts = &((const linear *)m)->adapter;

    if (m->type != &type || !parts->lora.rank) return false;
    *out = (rp_lora_parts){ parts->lora, &parts->a->param[0], &parts->b->param[0], parts->magnitude ? &parts->magnitude->param[0] : NULL,
                            parts->in_out };
    return true;
}

rp_status rp__magnitude_begin(rp_module *m, rp_tensor **norms)
{
    return rp__lora_norms(m, &((const linear *)m)->adapter, norms);
}
