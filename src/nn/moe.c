/* nn/moe.c -- a mixture of experts in place of an MLP: each token goes to a few of many gated MLPs (Shazeer et al. 2017).
 *
 *   x ─┬ router ─ route ─┬ choices ───────────┬───────────────────────────┐
 *      │          │      └ weights ───────────│─────────────────────────┐ │
 *      │          └ expert_load ▶ loads       │                         │ │
 *      └───────────────────────────── spread ─┴ experts: gate, up, down ┴ combine ─▶
 *
 * The choices are a decision, so every policy keeps them. All tensors after them have tokens * k rows, for any choice of experts. An expert
 * projection's weight is one parameter [experts, out, in].
 */
#include "nn/layers.h"

typedef struct {
    rp_module m;
    int64_t n;
    rp_module *gate, *up, *down;
} experts;

typedef struct {
    rp_module m;
    rp_attr_route route;
    rp_module *router, *experts;
    bool weigh;                             /* the next forward computes loads */
    rp_tensor *counted, *loads;             /* counted: borrowed while weigh is set */
} moe;

enum { ROWS, WEIGHTS, CHOICES, EXPERT_INPUTS };     /* of experts; ROWS and CHOICES of grouped */

/* ---- the router: not a linear layer, so that rules and adapters for linear layers do not apply to it ---- */

static rp_status router_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    return rp__apply(self->ctx, &rp_op_matmul, &(rp_attr_matmul){ .transpose_w = true }, (rp_tensor *[]){ in[0], rp__module_weight(self, 0) }, 2,
                     out);
}

static rp_status router_new(rp_module *parent, const rp_moe_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "Router", .forward = router_forward };
    rp_meta weight = rp_meta_2d(dtype, config->experts, config->n);
    rp_module *r;
    rp_tensor *t;

    RP_TRY(rp__module_new(parent->ctx, parent, "router", &type, sizeof *r, &r));
    RP_TRY(rp__module_param(r, "weight", &weight, &t));
    *out = r;
    return RP_OK;
}

/* ---- one projection of all experts ---- */

static rp_status grouped_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *with[3] = { in[ROWS], rp__module_weight(self, 0), in[CHOICES] };

    return rp__apply(self->ctx, &rp_op_grouped_matmul, NULL, with, 3, out);
}

static rp_status grouped_new(rp_module *parent, const char *name, int64_t n, int64_t in, int64_t out, rp_dtype dtype, rp_module **made)
{
    static const rp_module_kind type = { .name = "GroupedLinear", .forward = grouped_forward };
    rp_meta weight = rp_meta_make(dtype, 3, (int64_t[]){ n, out, in });
    rp_tensor *t;
    rp_module *g;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *g, &g));
    weight.dtype = rp__module_stored(g, "weight", &weight);
    RP_TRY(rp__module_param(g, "weight", &weight, &t));
    *made = g;
    return RP_OK;
}

/* ---- the experts ---- */

/* Replaces *rows, the tokens sorted by expert, by the outputs of the experts. */
static rp_status pass_through(experts *x, rp_tensor *choices, rp_tensor **rows)
{
    rp_tensor *in[EXPERT_INPUTS] = { [ROWS] = *rows, [CHOICES] = choices }, *gate = NULL, *up = NULL, *h = NULL, *y = NULL;
    rp_status status = RP_OK;

    RP_TRY_GOTO(rp__module_call(x->gate, in, &gate));
    RP_TRY_GOTO(rp__module_call(x->up, in, &up));
    RP_TRY_GOTO(rp__apply(x->m.ctx, &rp_op_swiglu, NULL, (rp_tensor *[]){ gate, up }, 2, &h));
    rp_tensor_unref(gate);
    rp_tensor_unref(up);
    gate = up = NULL;
    in[ROWS]  = h;
    RP_TRY_GOTO(rp__module_call(x->down, in, &y));
    rp_tensor_unref(*rows);
    *rows = y;
done:
    rp_tensor_unref(gate);
    rp_tensor_unref(up);
    rp_tensor_unref(h);
    return status;
}

/* in { x, weights, choices } */
static rp_status experts_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    experts *x          = (experts *)self;
    rp_attr_experts all = { x->n };
    rp_tensor *rows     = NULL;
    rp_status status    = RP_OK;

    RP_TRY_GOTO(rp__apply(self->ctx, &rp_op_spread, &all, (rp_tensor *[]){ in[ROWS], in[CHOICES] }, 2, &rows));
    RP_TRY_GOTO(pass_through(x, in[CHOICES], &rows));
    RP_TRY_GOTO(rp__apply(self->ctx, &rp_op_combine, &all, (rp_tensor *[]){ rows, in[WEIGHTS], in[CHOICES] }, 3, out));
done:
    rp_tensor_unref(rows);
    return status;
}

static rp_status experts_new(rp_module *parent, const rp_moe_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "Experts", .forward = experts_forward };
    int64_t n = config->n, hidden = config->hidden;
    experts *x;

    RP_TRY(rp__module_new(parent->ctx, parent, "experts", &type, sizeof *x, &x));
    x->n = config->experts;
    RP_TRY(grouped_new(&x->m, "gate", x->n, n, hidden, dtype, &x->gate));
    RP_TRY(grouped_new(&x->m, "up", x->n, n, hidden, dtype, &x->up));
    RP_TRY(grouped_new(&x->m, "down", x->n, hidden, n, dtype, &x->down));
    *out = &x->m;
    return RP_OK;
}

/* ---- all of it ---- */

void rp__moe_weigh(rp_module *module, rp_tensor *doc_start)
{
    moe *l = (moe *)module;

    l->weigh   = true;
    l->counted = doc_start;
}

rp_tensor *rp__moe_take_loads(rp_module *module)
{
    moe *l           = (moe *)module;
    rp_tensor *loads = l->loads;

    l->loads = NULL;
    l->weigh = false;
    return loads;
}

static void moe_drop(rp_module *self) { rp_tensor_unref(((moe *)self)->loads); }

static rp_status weigh(moe *l, rp_tensor *logits, rp_tensor *choices)
{
    rp_tensor *with[3] = { logits, choices, l->counted };

    rp_tensor_unref(rp__moe_take_loads(&l->m));
    return rp__apply(l->m.ctx, &rp_op_expert_load, NULL, with, l->counted ? 3 : 2, &l->loads);
}

static rp_status moe_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    moe *l = (moe *)self;
    rp_tensor *logits = NULL, *routed[2] = { 0 };
    rp_status status = RP_OK;

    RP_TRY_GOTO(rp__module_call(l->router, in, &logits));
    RP_TRY_GOTO(rp__apply(self->ctx, &rp_op_route, &l->route, &logits, 1, routed));
    if (l->weigh) RP_TRY_GOTO(weigh(l, logits, routed[1]));
    rp_tensor_unref(logits);
    logits = NULL;
    RP_TRY_GOTO(rp__module_call(l->experts, (rp_tensor *[]){ in[0], routed[0], routed[1] }, out));
done:
    rp_tensor_unref(logits);
    rp_tensor_unref(routed[0]);
    rp_tensor_unref(routed[1]);
    return status;
}

rp_status rp__moe_new(rp_module *parent, const char *name, const rp_moe_config *config, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type = { .name = "MixtureOfExperts", .forward = moe_forward, .drop = moe_drop };
    moe *l;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *l, &l));
    l->route = (rp_attr_route){ .k = config->chosen, .renormalise = config->renormalise };
    RP_TRY(router_new(&l->m, config, dtype, &l->router));
    RP_TRY(experts_new(&l->m, config, dtype, &l->experts));
    *out = &l->m;
    return RP_OK;
}
