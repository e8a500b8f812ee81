/* nn/embedding.c -- y = weight[ids]. Rows of a quantised table are decoded to fp32, then rounded to the model's dtype. */
#include "nn/layers.h"
#include "tensor/tensor.h"

typedef struct { rp_module m; rp_dtype dtype; } embedding;

static rp_status embedding_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    rp_dtype dtype = ((const embedding *)self)->dtype;
    rp_tensor *y;

    RP_TRY(rp__apply(self->ctx, &rp_op_embedding, NULL, (rp_tensor *[]){ rp__module_weight(self, 0), in[0] }, 2, &y));
    rp_status status = y->m.dtype == dtype ? RP_OK : rp__op_step(self->ctx, &rp_op_cast, &(rp_attr_cast){ (int)dtype }, &y);
    return rp__tensor_give(status, y, out);
}

rp_status rp__embedding_new(rp_module *parent, const char *name, int64_t n_ids, int64_t n, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "Embedding", .forward = embedding_forward };
    rp_meta weight = rp_meta_2d(dtype, n_ids, n);
    rp_tensor *t;
    embedding *e;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *e, &e));
    e->dtype     = dtype;
    weight.dtype = rp__module_stored(&e->m, "weight", &weight);
    RP_TRY(rp__module_param(&e->m, "weight", &weight, &t));
    *out = &e->m;
    return RP_OK;
}
