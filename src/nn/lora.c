/* nn/lora.c -- the adapter's share of a linear layer. */
#include "nn/lora.h"

#include <math.h>
#include <string.h>

#include "nn/layers.h"

float rp__lora_scale(const rp_lora *l)
{
    return (float)(l->alpha / (l->rslora ? sqrt((double)l->rank) : (double)l->rank));
}

static rp_status share(const rp_lora_beside *l, rp_tensor **x)
{
    rp_ctx *ctx = l->a->ctx;

    RP_TRY(rp__dropout_step(ctx, (float)l->lora.dropout, x));
    RP_TRY(rp__layer_step(l->a, x));
    RP_TRY(rp__op_step(ctx, &rp_op_scale, &(rp_attr_scale){ rp__lora_scale(&l->lora) }, x));
    return rp__layer_step(l->b, x);
}

rp_status rp__lora_step(const rp_lora_beside *l, rp_tensor *x, rp_tensor **y)
{
    rp_tensor *added = rp_tensor_ref(x), *sum;
    rp_status status = share(l, &added);

    if (status == RP_OK) status = rp__apply(l->a->ctx, &rp_op_add, NULL, (rp_tensor *[]){ *y, added }, 2, &sum);
    rp_tensor_unref(added);
    if (status != RP_OK) return status;
    rp_tensor_unref(*y);
    *y = sum;
    return RP_OK;
}

rp_lora_part rp__lora_part_of(const char *path, int *layer_chars)
{
    static const char a[] = ".lora_a.weight", b[] = ".lora_b.weight";
    bool is_a = rp__ends_with(path, a);

    if (!is_a && !rp__ends_with(path, b)) return RP_LORA_NONE;
    *layer_chars = (int)(strlen(path) - (sizeof a - 1));
    return is_a ? RP_LORA_A : RP_LORA_B;
}
