/* nn/mlp.c -- the feed-forward half of a block.
 *
 *   gated   x ─┬ gate ┐              swiglu if act is silu: one op for the product
 *              └ up ──┴ act(g) * u ─ down
 *   fused   one projection, gate_up, gives gate and up, which are copied apart, because later ops need them dense
 *   plain   x ── up ── act ── down
 */
#include "nn/layers.h"

typedef struct {
    rp_module m;
    rp_mlp_activation activation;
    int64_t hidden;
    rp_module *gate, *up, *gate_up, *down;      /* plain: gate and gate_up are NULL; fused: gate and up are NULL */
} mlp;

rp_status rp__activation_step(rp_ctx *ctx, rp_mlp_activation a, rp_tensor **x)
{
    switch (a) {
    case RP_MLP_SILU:      return rp__op_step(ctx, &rp_op_silu, NULL, x);
    case RP_MLP_GELU_TANH: return rp__op_step(ctx, &rp_op_gelu, &(rp_attr_gelu){ .erf = false }, x);
    case RP_MLP_GELU_ERF:  return rp__op_step(ctx, &rp_op_gelu, &(rp_attr_gelu){ .erf = true }, x);
    case RP_MLP_RELU:      return rp__op_step(ctx, &rp_op_relu, NULL, x);
    }
    RP_BUG_IF(true);
    return RP_ERR_ARG;
}

/* *g = act(*g) * u */
static rp_status combine(mlp *l, rp_tensor **g, rp_tensor *u)
{
    rp_ctx *ctx      = l->m.ctx;
    const rp_op *op  = l->activation == RP_MLP_SILU ? &rp_op_swiglu : &rp_op_mul;
    rp_tensor *y     = NULL;

    if (op == &rp_op_mul) RP_TRY(rp__activation_step(ctx, l->activation, g));
    RP_TRY(rp__apply(ctx, op, NULL, (rp_tensor *[]){ *g, u }, 2, &y));
    rp_tensor_unref(*g);
    *g = y;
    return RP_OK;
}

/* The two operands of the gated product. */
static rp_status gate_and_up(mlp *l, rp_tensor *const *in, rp_tensor **gate, rp_tensor **up)
{
    rp_attr_split halves = { .dim = -1, .n = 2, .length = { l->hidden, l->hidden } };
    rp_tensor *both = NULL, *part[2];

    if (!l->gate_up) {
        RP_TRY(rp__module_call(l->gate, in, gate));
        return rp__module_call(l->up, in, up);
    }
    RP_TRY(rp__module_call(l->gate_up, in, &both));
    rp_status status = rp__apply(l->m.ctx, &rp_op_split, &halves, &both, 1, part);
    rp_tensor_unref(both);
    if (status != RP_OK) return status;
    *gate = part[0];
    *up   = part[1];
    return RP_OK;
}

static rp_status mlp_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    mlp *l           = (mlp *)self;
    rp_tensor *h     = NULL, *u = NULL;
    rp_status status = RP_OK;

    if (l->gate || l->gate_up) {
        RP_TRY_GOTO(gate_and_up(l, in, &h, &u));
        RP_TRY_GOTO(combine(l, &h, u));
        rp_tensor_unref(u);
        u = NULL;
    } else {
        RP_TRY_GOTO(rp__module_call(l->up, in, &h));
        RP_TRY_GOTO(rp__activation_step(self->ctx, l->activation, &h));
    }
    RP_TRY_GOTO(rp__layer_step(l->down, &h));
    *out = h;
    return RP_OK;
done:
    rp_tensor_unref(h);
    rp_tensor_unref(u);
    return status;
}

rp_status rp__mlp_new(rp_module *parent, const char *name, const rp_mlp_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "MLP", .forward = mlp_forward };
    rp_linear_config up   = { .in = config->n, .out = config->hidden, .bias = config->bias, .in_out = config->in_out };
    rp_linear_config both = { .in = config->n, .out = 2 * config->hidden, .bias = config->bias, .in_out = config->in_out };
    rp_linear_config down = { .in = config->hidden, .out = config->n, .bias = config->bias, .in_out = config->in_out };
    mlp *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->activation = config->activation;
    l->hidden     = config->hidden;
    if (config->fused) RP_TRY(rp__linear_new(&l->m, "gate_up", &both, dtype, &l->gate_up));
    else if (config->gated) RP_TRY(rp__linear_new(&l->m, "gate", &up, dtype, &l->gate));
    if (!config->fused) RP_TRY(rp__linear_new(&l->m, "up", &up, dtype, &l->up));
    RP_TRY(rp__linear_new(&l->m, "down", &down, dtype, &l->down));
    *out = &l->m;
    return RP_OK;
}
