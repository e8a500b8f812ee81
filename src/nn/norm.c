/* nn/norm.c -- RMSNorm or LayerNorm over the last dimension. */
#include "nn/layers.h"

typedef struct { rp_module m; rp_norm_config config; } norm;

static rp_status norm_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    const rp_norm_config *c = &((norm *)self)->config;
    rp_attr_norm attr       = { .eps = c->eps, .plus = c->plus };
    rp_tensor *with[3]      = { in[0], rp__module_weight(self, 0), c->layer ? rp__module_weight(self, 1) : NULL };

    return rp__apply(self->ctx, c->layer ? &rp_op_layernorm : &rp_op_rmsnorm, &attr, with, 1 + self->n_params, out);
}

rp_status rp__norm_new(rp_module *parent, const char *name, const rp_norm_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "Norm", .forward = norm_forward };
    rp_meta meta = rp_meta_1d(dtype, config->n);
    rp_tensor *t;
    norm *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->config = *config;
    RP_TRY(rp__module_param(&l->m, "weight", &meta, &t));
    if (config->layer) RP_TRY(rp__module_param(&l->m, "bias", &meta, &t));
    *out = &l->m;
    return RP_OK;
}
