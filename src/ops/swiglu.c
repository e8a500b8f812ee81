/* ops/swiglu.c -- y = silu(gate) * up (Shazeer 2020), the middle of a gated feed-forward, fused.
 *
 *   in     gate [...]   up [...]     one floating dtype and shape
 *   out    y [...]
 *   needs  both inputs; backward recomputes silu(gate)
 */
#include "ops/common.h"

enum { GATE, UP };
enum { Y };

static rp_cost swiglu_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[GATE]) * (pass == RP_FORWARD ? 16 : 22));
}

static void swiglu_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = rp_meta_elems(&c->meta->in[GATE]);

    if (k->swiglu_forward) {
        k->swiglu_forward(c->meta->in[GATE].dtype, rp__data(c->in[GATE]), rp__data(c->in[UP]), rp__data(c->out[Y]), n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) {
        double gate = rp_elem_get(c->in[GATE], e);
        rp_elem_put(c->out[Y], e, gate / (1 + exp(-gate)) * rp_elem_get(c->in[UP], e));
    }
}

static void swiglu_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = rp_meta_elems(&c->meta->in[GATE]);

    if (k->swiglu_backward) {
        k->swiglu_backward(c->meta->in[GATE].dtype, rp__data(c->in[GATE]), rp__data(c->in[UP]), rp__data(c->grad_out[Y]),
                           rp__data(c->grad_in[GATE]), rp__grad_dtype(c, GATE), c->grad_adds[GATE], rp__data(c->grad_in[UP]),
                           rp__grad_dtype(c, UP), c->grad_adds[UP], n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) {
        double gate = rp_elem_get(c->in[GATE], e), s = 1 / (1 + exp(-gate)), dy = rp_elem_get(c->grad_out[Y], e);
        if (c->grad_in[GATE]) rp__elem_grad(c, GATE, e, dy * rp_elem_get(c->in[UP], e) * s * (1 + gate * (1 - s)));
        if (c->grad_in[UP]) rp__elem_grad(c, UP, e, dy * gate * s);
    }
}

static const rp_op_case swiglu_cases[] = {
    { "a row",         .in = { { 7 },       { 7 } } },
    { "odd sizes",     .in = { { 3, 5, 7 }, { 3, 5, 7 } }, .scale = 3 },
    { "far out",       .in = { { 2, 700 },  { 2, 700 } },  .scale = 40 },
    { "shapes differ", .in = { { 2, 4 },    { 4, 2 } },    .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_swiglu = {
    .name = "swiglu", .n_in = 2, .n_out = 1,
    .needs = RP_IN(GATE) | RP_IN(UP),
    .shape = rp__same_shape, .cost = swiglu_cost,
    .forward = swiglu_forward, .backward = swiglu_backward,
    .cases = swiglu_cases, .n_case = RP_COUNT(swiglu_cases),
};
