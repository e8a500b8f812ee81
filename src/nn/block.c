/* nn/block.c -- a pre-norm transformer block.
 *
 *   x ─┬ attn_norm ─ attn ─ dropout ─ + ─┬ mlp_norm ─ mlp ─ dropout ─ + ─▶
 *      └──────────────────────────────┘  └────────────────────────────┘
 */
#include "nn/layers.h"

#include <string.h>

typedef struct {
    rp_module m;
    float dropout;
    rp_module *attn_norm, *attn, *mlp_norm, *mlp;
} block;

/* x + dropout(h); h is used up. */
static rp_status add_back(block *b, rp_tensor *x, rp_tensor **h, rp_tensor **out)
{
    RP_TRY(rp__dropout_step(b->m.ctx, b->dropout, h));
    RP_TRY(rp__apply(b->m.ctx, &rp_op_add, NULL, (rp_tensor *[]){ x, *h }, 2, out));
    rp_tensor_unref(*h);
    *h = NULL;
    return RP_OK;
}

static rp_status attention_half(block *b, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *with[RP_BLOCK_INPUTS], *h = NULL, *y = NULL;
    rp_status status = RP_OK;

    memcpy(with, in, sizeof with);
    RP_TRY_GOTO(rp__module_call(b->attn_norm, in, &h));
    with[RP_BLOCK_X] = h;
    RP_TRY_GOTO(rp__module_call(b->attn, with, &y));
    rp_tensor_unref(h);
    h = NULL;
    RP_TRY_GOTO(add_back(b, in[RP_BLOCK_X], &y, out));
done:
    rp_tensor_unref(h);
    rp_tensor_unref(y);
    return status;
}

static rp_status block_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    block *b         = (block *)self;
    rp_tensor *x     = NULL, *h = NULL;
    rp_status status = RP_OK;

    RP_TRY_GOTO(attention_half(b, in, &x));
    RP_TRY_GOTO(rp__module_call(b->mlp_norm, &x, &h));
    RP_TRY_GOTO(rp__layer_step(b->mlp, &h));
    RP_TRY_GOTO(add_back(b, x, &h, out));
done:
    rp_tensor_unref(x);
    rp_tensor_unref(h);
    return status;
}

rp_status rp__block_new(rp_module *parent, const char *name, const rp_block_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "TransformerBlock", .forward = block_forward };
    block *b;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *b, &b));
    b->dropout = config->dropout;
    RP_TRY(rp__norm_new(&b->m, "attn_norm", &config->norm, dtype, &b->attn_norm));
    RP_TRY(rp__attention_new(&b->m, "attn", &config->attn, dtype, &b->attn));
    RP_TRY(rp__norm_new(&b->m, "mlp_norm", &config->norm, dtype, &b->mlp_norm));
    RP_TRY(rp__mlp_new(&b->m, "mlp", &config->mlp, dtype, &b->mlp));
    *out = &b->m;
    return RP_OK;
}
