/* nn/common.c -- steps that layers share, and the list of modules. */
#include "nn/layers.h"

static void common_put(rp_tensor **x, rp_tensor *y)
{
    rp_tensor_unref(*x);
    *x = y;
}

rp_status rp__layer_step(rp_module *layer, rp_tensor **x)
{
    rp_tensor *y = NULL;

    RP_TRY(rp__module_call(layer, x, &y));
    common_put(x, y);
    return RP_OK;
}

rp_status rp__op_step(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor **x)
{
    rp_tensor *y = NULL;

    RP_TRY(rp__apply(ctx, op, attr, x, 1, &y));
    common_put(x, y);
    return RP_OK;
}

rp_status rp__add_step(rp_ctx *ctx, rp_tensor *added, rp_tensor **x)
{
    rp_tensor *sum;

    RP_TRY(rp__apply(ctx, &rp_op_add, NULL, (rp_tensor *[]){ *x, added }, 2, &sum));
    common_put(x, sum);
    return RP_OK;
}

rp_status rp__dropout_step(rp_ctx *ctx, float p, rp_tensor **x)
{
    return p > 0 ? rp__op_step(ctx, &rp_op_dropout, &(rp_attr_dropout){ p }, x) : RP_OK;
}

static rp_status list_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    (void)in;
    (void)out;
    return rp_fail(self->ctx, RP_ERR_STATE, "'%s' is a list of modules; call its members", self->path);
}

rp_status rp__module_list_new(rp_module *parent, const char *name, rp_module **out)
{
    static const rp_module_kind type = { .name = "ModuleList", .forward = list_forward, .is_list = true };

    return rp__module_new(parent->ctx, parent, name, &type, sizeof **out, out);
}
