/* nn/masked_head.c -- the layers between an encoder and its output: dense, activation, norm; and the output's bias. */
#include "nn/layers.h"

typedef struct {
    rp_module m;
    rp_mlp_activation activation;
    rp_module *dense, *norm;
} masked_head;

static rp_status masked_head_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    masked_head *h   = (masked_head *)self;
    rp_tensor *x     = NULL;
    rp_status status = RP_OK;

    RP_TRY_GOTO(rp__module_call(h->dense, in, &x));
    RP_TRY_GOTO(rp__activation_step(self->ctx, h->activation, &x));
    RP_TRY_GOTO(rp__layer_step(h->norm, &x));
    *out = x;
    return RP_OK;
done:
    rp_tensor_unref(x);
    return status;
}

rp_status rp__masked_head_new(rp_module *parent, const char *name, const rp_masked_head_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "MaskedHead", .forward = masked_head_forward };
    rp_linear_config dense = { .in = config->n, .out = config->n, .bias = true };
    rp_meta bias           = rp_meta_1d(dtype, config->classes);
    rp_tensor *t;
    masked_head *h;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *h, &h));
    h->activation = config->activation;
    RP_TRY(rp__module_param(&h->m, "bias", &bias, &t));
    RP_TRY(rp__linear_new(&h->m, "dense", &dense, dtype, &h->dense));
    RP_TRY(rp__norm_new(&h->m, "norm", &config->norm, dtype, &h->norm));
    *out = &h->m;
    return RP_OK;
}
