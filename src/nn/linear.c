/* nn/linear.c -- y = x w' + b. */
#include "nn/layers.h"

typedef struct { rp_module m; bool in_out; } linear;

static rp_status linear_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    rp_attr_matmul attr = { .transpose_w = !((linear *)self)->in_out };
    rp_tensor *with[3]  = { in[0], rp__module_weight(self, 0), self->n_params > 1 ? rp__module_weight(self, 1) : NULL };

    return rp__apply(self->ctx, &rp_op_matmul, &attr, with, 1 + self->n_params, out);
}

static const rp_module_kind type = { .name = "Linear", .forward = linear_forward };

rp_status rp__linear_new_tied(rp_module *parent, const char *name, rp_param *weight, rp_module **out)
{
    linear *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    RP_TRY(rp__module_share(&l->m, "weight", weight));
    *out = &l->m;
    return RP_OK;
}

rp_status rp__linear_new(rp_module *parent, const char *name, const rp_linear_config *config, rp_dtype dtype, rp_module **out)
{
    rp_meta weight = config->in_out ? rp_meta_2d(dtype, config->in, config->out) : rp_meta_2d(dtype, config->out, config->in);
    rp_meta bias   = rp_meta_1d(dtype, config->out);
    rp_tensor *t;
    linear *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->in_out = config->in_out;
    RP_TRY(rp__module_param(&l->m, "weight", &weight, &t));
    if (config->bias) RP_TRY(rp__module_param(&l->m, "bias", &bias, &t));
    *out = &l->m;
    return RP_OK;
}
