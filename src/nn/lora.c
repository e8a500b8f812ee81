/* nn/lora.c -- the adapter's share of a linear layer, and the names of the adapter's parameters. */
#include "nn/lora.h"

#include <math.h>
#include <string.h>

#include "nn/layers.h"
#include "tensor/tensor.h"

float rp__lora_scale(const rp_lora *l)
{
    return (float)(l->alpha / (l->rslora ? sqrt((double)l->rank) : (double)l->rank));
}

static rp_status share(const rp_lora_modules *l, rp_tensor **x)
{
    RP_TRY(rp__layer_step(l->a, x));
    RP_TRY(rp__op_step(l->a->ctx, &rp_op_scale, &(rp_attr_scale){ rp__lora_scale(&l->lora) }, x));
    return rp__layer_step(l->b, x);
}

rp_status rp__lora_share_take(const rp_lora_modules *l, rp_tensor *x, rp_tensor **y)
{
    rp_status status = share(l, &x);

    if (status == RP_OK) status = rp__add_step(l->a->ctx, x, y);
    rp_tensor_unref(x);
    return status;
}

static rp_status add_share(const rp_lora_modules *l, rp_tensor *x, rp_tensor **y)
{
    rp_tensor *dropped = rp_tensor_ref(x);
    rp_status status   = rp__dropout_step(l->a->ctx, (float)l->lora.dropout, &dropped);

    if (status == RP_OK) return rp__lora_share_take(l, dropped, y);
    rp_tensor_unref(dropped);
    return status;
}

rp_status rp__lora_forward(const rp_lora_modules *l, rp_module *linear, rp_tensor *x, rp_tensor **out)
{
    rp_tensor *y;

    RP_TRY(rp__linear_product(linear, l->in_out, true, x, &y));
    rp_status status = add_share(l, x, &y);
    return rp__tensor_give(status, y, out);
}

static const char *const ends[RP_LORA_PARTS] = {
    [RP_LORA_A] = ".lora_a.weight", [RP_LORA_B] = ".lora_b.weight", [RP_LORA_MAGNITUDE] = ".lora_magnitude.weight",
};

const char *rp__lora_part_end(rp_lora_part part) { return ends[part]; }

rp_lora_part rp__lora_part_of(const char *path, int *layer_chars)
{
    for (rp_lora_part part = RP_LORA_A; part < RP_LORA_PARTS; part++) {
        if (!rp__ends_with(path, ends[part])) continue;
        *layer_chars = (int)(strlen(path) - strlen(ends[part]));
        return part;
    }
    return RP_LORA_NONE;
}
