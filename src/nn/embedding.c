/* nn/embedding.c -- y = weight[ids]. */
#include "nn/layers.h"

static rp_status embedding_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    return rp__apply(self->ctx, &rp_op_embedding, NULL, (rp_tensor *[]){ rp__module_weight(self, 0), in[0] }, 2, out);
}

rp_status rp__embedding_new(rp_module *parent, const char *name, int64_t n_ids, int64_t n, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "Embedding", .forward = embedding_forward };
    rp_meta weight = rp_meta_2d(dtype, n_ids, n);
    rp_tensor *t;
    rp_module *m;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *m, &m));
    RP_TRY(rp__module_param(m, "weight", &weight, &t));
    *out = m;
    return RP_OK;
}
