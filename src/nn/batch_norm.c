/* nn/batch_norm.c -- BatchNorm over the rows, with its running statistics: state of the layer, no parameters. */
#include "nn/layers.h"

#include "tensor/tensor.h"

typedef struct {
    rp_module m;
    rp_batch_norm_config config;
    rp_tensor *mean, *var;
} batch_norm;

static rp_status batch_norm_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    batch_norm *l           = (batch_norm *)self;
    rp_attr_batch_norm attr = { l->config.eps, l->config.momentum };

    return rp__apply(self->ctx, &rp_op_batch_norm, &attr,
                     (rp_tensor *[]){ in[0], rp__module_weight(self, 0), rp__module_weight(self, 1), l->mean, l->var }, 5, out);
}

static void batch_norm_drop(rp_module *self)
{
    rp_tensor_unref(((batch_norm *)self)->mean);
    rp_tensor_unref(((batch_norm *)self)->var);
}

static rp_status running_new(batch_norm *l, const rp_meta *meta, const char *name, double value, rp_tensor **out)
{
    RP_TRY(rp__tensor_new_named(l->m.ctx, meta, RP_MEM_TEMP, l->m.path, out));
    (*out)->name = name;
    for (int64_t i = 0; rp__tensor_real(*out) && i < l->config.n; i++) rp_elem_put(*out, i, value);
    return RP_OK;
}

void rp__batch_norm_running(rp_module *m, rp_tensor **mean, rp_tensor **var)
{
    *mean = ((batch_norm *)m)->mean;
    *var  = ((batch_norm *)m)->var;
}

rp_status rp__batch_norm_new(rp_module *parent, const char *name, const rp_batch_norm_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "BatchNorm", .forward = batch_norm_forward, .drop = batch_norm_drop };
    rp_meta meta = rp_meta_1d(dtype, config->n), running = rp_meta_1d(rp_meta_stat_dtype(&meta), config->n);
    rp_tensor *t;
    batch_norm *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->config = *config;
    RP_TRY(rp__module_param(&l->m, "weight", &meta, &t));
    RP_TRY(rp__module_param(&l->m, "bias", &meta, &t));
    RP_TRY(running_new(l, &running, "running_mean", 0, &l->mean));
    RP_TRY(running_new(l, &running, "running_var", 1, &l->var));
    *out = &l->m;
    return RP_OK;
}
