/* nn/dora.c -- DoRA: a linear layer whose direction an adapter changes and whose magnitude is a parameter (drawn in nn/lora.h). */
#include "nn/layers.h"
#include "nn/lora.h"
#include "tensor/tensor.h"

/* in { x, norms, bias or NULL } out y */
static rp_status magnitude_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *with[] = { in[0], rp__module_weight(self, 0), in[1], in[2] };

    return rp__apply(self->ctx, &rp_op_magnitude, NULL, with, in[2] ? 4 : 3, out);
}

rp_status rp__magnitude_new(rp_module *linear, int64_t n, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "Magnitude", .forward = magnitude_forward };
    rp_meta weight                   = rp_meta_1d(dtype, n);
    rp_tensor *t;

    RP_TRY(rp__module_new(linear->ctx, linear, "lora_magnitude", &type, sizeof **out, out));
    return rp__module_param(*out, "weight", &weight, &t);
}

static rp_status norms_of(rp_module *linear, const rp_lora_modules *l, rp_tensor **out)
{
    rp_attr_weight_norm attr = { .factor = rp__lora_scale(&l->lora), .in_out = l->sums_in_out };
    rp_tensor *in[]          = { rp__module_weight(linear, 0), rp__module_weight(l->a, 0), rp__module_weight(l->b, 0) };

    return rp__apply(linear->ctx, &rp_op_weight_norm, &attr, in, 3, out);
}

/* The adapter's parts may be gathered separately from the layer. */
rp_status rp__lora_norms(rp_module *linear, const rp_lora_modules *l, rp_tensor **out)
{
    RP_TRY(rp__module_enter(l->a));
    rp_status status = rp__module_enter(l->b);
    if (status == RP_OK) {
        status = norms_of(linear, l, out);
        rp__module_leave(l->b);
    }
    rp__module_leave(l->a);
    return status;
}

/* *y = w x becomes (w x + adapter's share of x) m / n. Consumes x. */
static rp_status turn_take(const rp_lora_modules *l, rp_module *linear, bool bias, rp_tensor *x, rp_tensor **y)
{
    rp_tensor *norms, *turned;

    RP_TRY(rp__lora_share_take(l, x, y));
    RP_TRY(rp__lora_norms(linear, l, &norms));
    rp_tensor *in[]  = { *y, norms, bias && linear->n_params > 1 ? rp__module_weight(linear, 1) : NULL };
    rp_status status = rp__module_call(l->magnitude, in, &turned);
    rp_tensor_unref(norms);
    if (status != RP_OK) return status;
    rp_tensor_unref(*y);
    *y = turned;
    return RP_OK;
}

static rp_status undropped(const rp_lora_modules *l, rp_module *linear, rp_tensor *x, rp_tensor **y)
{
    RP_TRY(rp__linear_product(linear, l->in_out, false, x, y));
    return turn_take(l, linear, true, rp_tensor_ref(x), y);
}

/* *y = w x + bias - kept */
static rp_status rest(const rp_lora_modules *l, rp_module *linear, rp_tensor *x, rp_tensor *kept, rp_tensor **y)
{
    rp_tensor *less  = rp_tensor_ref(kept);
    rp_status status = rp__op_step(linear->ctx, &rp_op_scale, &(rp_attr_scale){ -1 }, &less);

    if (status == RP_OK) status = rp__linear_product(linear, l->in_out, true, x, y);
    if (status == RP_OK) status = rp__add_step(linear->ctx, less, y);
    rp_tensor_unref(less);
    return status;
}

static rp_status dropped(const rp_lora_modules *l, rp_module *linear, rp_tensor *x, rp_tensor **y)
{
    rp_tensor *some = rp_tensor_ref(x), *kept = NULL;
    rp_status status = rp__dropout_step(linear->ctx, (float)l->lora.dropout, &some);

    if (status == RP_OK) status = rp__linear_product(linear, l->in_out, false, some, &kept);
    if (status == RP_OK) status = rest(l, linear, x, kept, y);
    if (status == RP_OK) status = turn_take(l, linear, false, rp_tensor_ref(some), &kept);
    if (status == RP_OK) status = rp__add_step(linear->ctx, kept, y);
    rp_tensor_unref(kept);
    rp_tensor_unref(some);
    return status;
}

rp_status rp__dora_forward(const rp_lora_modules *l, rp_module *linear, rp_tensor *x, rp_tensor **out)
{
    bool drops       = l->lora.dropout > 0 && !rp__tape_ctx(linear->ctx)->eval;
    rp_tensor *y     = NULL;
    rp_status status = (drops ? dropped : undropped)(l, linear, x, &y);

    return rp__tensor_give(status, y, out);
}
