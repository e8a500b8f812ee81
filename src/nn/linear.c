/* nn/linear.c -- y = x w' + b, and the adapter beside it, where there is one. */
#include "nn/layers.h"
#include "nn/lora.h"

typedef struct {
    rp_module m;
    int64_t in, out;
    bool in_out;
    rp_lora_beside beside;              /* rank 0: no adapter */
} linear;

static rp_status linear_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    linear *l           = (linear *)self;
    rp_attr_matmul attr = { .transpose_w = !l->in_out };
    rp_tensor *with[3]  = { in[0], rp__module_weight(self, 0), self->n_params > 1 ? rp__module_weight(self, 1) : NULL }, *y;

    RP_TRY(rp__apply(self->ctx, &rp_op_matmul, &attr, with, 1 + self->n_params, &y));
    rp_status status = l->beside.lora.rank ? rp__lora_step(&l->beside, in[0], &y) : RP_OK;
    if (status == RP_OK) *out = y;
    else rp_tensor_unref(y);
    return status;
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
    rp_meta weight = config->in_out ? rp_meta_2d(dtype, config->in, config->out) : rp_meta_2d(dtype, config->out, config->in);
    rp_meta bias   = rp_meta_1d(dtype, config->out);
    rp_tensor *t;
    linear *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->in     = config->in;
    l->out    = config->out;
    l->in_out = config->in_out;
    RP_TRY(rp__module_param(&l->m, "weight", &weight, &t));
    if (config->bias) RP_TRY(rp__module_param(&l->m, "bias", &bias, &t));
    *out = &l->m;
    return RP_OK;
}

/* ---- its adapter ---- */

rp_status rp__lora_attach(rp_module *m, const rp_lora *lora)
{
    linear *l      = (linear *)m;
    rp_dtype dtype = m->param[0].whole.dtype;

    RP_CHECK(m->ctx, lora->rank >= 1, RP_ERR_ARG, "an adapter of '%s' has a rank of %" PRId64, m->path, lora->rank);
    RP_BUG_IF(m->type != &type || l->beside.lora.rank);
    RP_TRY(rp__linear_new(m, "lora_a", &(rp_linear_config){ .in = l->in, .out = lora->rank }, dtype, &l->beside.a));
    RP_TRY(rp__linear_new(m, "lora_b", &(rp_linear_config){ .in = lora->rank, .out = l->out }, dtype, &l->beside.b));
    l->beside.lora = *lora;
    return RP_OK;
}

bool rp__lora_parts(const rp_module *m, rp_lora_parts *out)
{
    const rp_lora_beside *beside = &((const linear *)m)->beside;

    if (m->type != &type || !beside->lora.rank) return false;
    *out = (rp_lora_parts){ beside->lora, &beside->a->param[0], &beside->b->param[0], ((const linear *)m)->in_out };
    return true;
}
