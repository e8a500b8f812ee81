/* nn/block.c -- a transformer block: two halves, each a layer with norms before it, after it, both, or after the sum.
 *
 *   x ─┬ attn_norm ─ attn ─ post_attn_norm ─ dropout ─ + ─┬ mlp_norm ─ mlp ─ post_mlp_norm ─ dropout ─ + ─▶
 *      └───────────────────────────────────────────────┘  └─────────────────────────────────────────┘
 *
 * A half does not depend on the kind of its layer: a block of another kind only needs a layer with the same inputs.
 */
#include "nn/layers.h"

#include <string.h>

typedef struct { rp_module *norm, *layer, *post_norm; } half;       /* NULL: no such norm */

typedef struct {
    rp_module m;
    float dropout;
    bool norms_sum;                                                 /* post_norm follows the sum */
    bool has_experts;
    half attn, mlp;
} block;

/* *out = x + dropout(*h). Releases *h if it succeeds. */
static rp_status add_back(block *b, rp_tensor *x, rp_tensor **h, rp_tensor **out)
{
    RP_TRY(rp__dropout_step(b->m.ctx, b->dropout, h));
    RP_TRY(rp__apply(b->m.ctx, &rp_op_add, NULL, (rp_tensor *[]){ x, *h }, 2, out));
    rp_tensor_unref(*h);
    *h = NULL;
    return RP_OK;
}

/* The normed input is released before the sum, so that it stays live only if a backward reads it. */
static rp_status half_forward(block *b, const half *part, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *with[RP_BLOCK_INPUTS], *h = NULL, *y = NULL;
    rp_status status = RP_OK;

    memcpy(with, in, sizeof with);
    if (part->norm) RP_TRY_GOTO(rp__module_call(part->norm, in, &h));
    if (h) with[RP_BLOCK_X] = h;
    RP_TRY_GOTO(rp__module_call(part->layer, with, &y));
    rp_tensor_unref(h);
    h = NULL;
    if (part->post_norm && !b->norms_sum) RP_TRY_GOTO(rp__layer_step(part->post_norm, &y));
    RP_TRY_GOTO(add_back(b, in[RP_BLOCK_X], &y, &h));
    if (b->norms_sum) RP_TRY_GOTO(rp__layer_step(part->post_norm, &h));
    *out = h;
    h    = NULL;
done:
    rp_tensor_unref(h);
    rp_tensor_unref(y);
    return status;
}

static rp_status block_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *with[RP_BLOCK_INPUTS], *x = NULL;
    block *b = (block *)self;

    memcpy(with, in, sizeof with);
    RP_TRY(half_forward(b, &b->attn, in, &x));
    with[RP_BLOCK_X] = x;
    rp_status status = half_forward(b, &b->mlp, with, out);
    rp_tensor_unref(x);
    return status;
}

static rp_status norm_at(block *b, const rp_block_config *config, bool stands, const char *name, rp_dtype dtype, rp_module **out)
{
    return !stands ? RP_OK : rp__norm_new(&b->m, name, &config->norm, dtype, out);
}

rp_status rp__block_new(rp_module *parent, const char *name, const rp_block_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "TransformerBlock", .forward = block_forward };
    bool before = config->norms == RP_NORMS_BEFORE || config->norms == RP_NORMS_AROUND, post = config->norms != RP_NORMS_BEFORE;
    block *b;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *b, &b));
    b->dropout     = config->dropout;
    b->norms_sum   = config->norms == RP_NORMS_BEHIND_SUM;
    b->has_experts = config->moe.experts > 0;
    RP_TRY(norm_at(b, config, before, "attn_norm", dtype, &b->attn.norm));
    RP_TRY(rp__attention_new(&b->m, "attn", &config->attn, dtype, &b->attn.layer));
    RP_TRY(norm_at(b, config, post, "post_attn_norm", dtype, &b->attn.post_norm));
    RP_TRY(norm_at(b, config, before, "mlp_norm", dtype, &b->mlp.norm));
    if (config->moe.experts) RP_TRY(rp__moe_new(&b->m, "mlp", &config->moe, dtype, &b->mlp.layer));
    else RP_TRY(rp__mlp_new(&b->m, "mlp", &config->mlp, dtype, &b->mlp.layer));
    RP_TRY(norm_at(b, config, post, "post_mlp_norm", dtype, &b->mlp.post_norm));
    *out = &b->m;
    return RP_OK;
}

rp_module *rp__block_experts(const rp_module *module)
{
    const block *b = (const block *)module;

    return b->has_experts ? b->mlp.layer : NULL;
}
