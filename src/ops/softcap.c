/* ops/softcap.c -- y = cap * tanh(x / cap): close to x for small x, never beyond cap (Gemma 2's logits; Bello et al. 2016).
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]
 *   needs  x
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_status softcap_shape(rp_op_meta *m)
{
    double cap = (double)((const rp_attr_softcap *)m->attr)->cap;

    RP_CHECK(m->ctx, isfinite(cap) && cap > 0, RP_ERR_ARG, "softcap: cap is %g, expected a number above 0", cap);
    return rp__same_shape(m);
}

static rp_cost softcap_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 25 : 28));
}

static double capped(double x, double cap) { return cap * tanh(x / cap); }
static double capped_slope(double x, double cap) { return 1 - tanh(x / cap) * tanh(x / cap); }

static void softcap_forward(const rp_op_call *c)
{
    const rp_attr_softcap *a = c->attr;
    const rp_kernels *k      = rp__op_kernels(c);

    if (k->softcap_forward)
        k->softcap_forward(c->meta->in[X].dtype, rp__data(c->in[X]), a->cap, rp__data(c->out[Y]), rp_meta_elems(&c->meta->in[X]),
                           rp__on(c->meta));
    else rp__unary_forward(c, NULL, capped, (double)a->cap);
}

static void softcap_backward(const rp_op_call *c)
{
    const rp_attr_softcap *a = c->attr;
    const rp_kernels *k      = rp__op_kernels(c);

    if (k->softcap_backward)
        k->softcap_backward(c->meta->in[X].dtype, rp__data(c->in[X]), a->cap, rp__data(c->grad_out[Y]), rp__data(c->grad_in[X]),
                            rp__grad_dtype(c, X), c->grad_adds[X], rp_meta_elems(&c->meta->in[X]), rp__on(c->meta));
    else rp__unary_backward(c, NULL, c->in[X], capped_slope, (double)a->cap);
}

static const rp_op_case softcap_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .attr = &(rp_attr_softcap){ 1.5f }, .scale = 3 },
    { "a little",  .in = { { 2, 700 } },  .attr = &(rp_attr_softcap){ 30 } },
    { "far out",   .in = { { 2, 700 } },  .attr = &(rp_attr_softcap){ 2 }, .scale = 40 },
    { "no cap",    .in = { { 4 } },       .attr = &(rp_attr_softcap){ 0 }, .expect = RP_ERR_ARG },
};

const rp_op rp_op_softcap = {
    .name = "softcap", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_softcap),
    .needs = RP_IN(X),
    .shape = softcap_shape, .cost = softcap_cost,
    .forward = softcap_forward, .backward = softcap_backward,
    .cases = softcap_cases, .n_case = RP_COUNT(softcap_cases),
};
