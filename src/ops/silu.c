/* ops/silu.c -- y = x / (1 + exp(-x)).
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]
 *   needs  x
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_cost silu_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 15 : 19));
}

static double silu(double x, double unused)
{
    (void)unused;
    return x / (1 + exp(-x));
}

static double silu_slope(double x, double unused)
{
    double s = 1 / (1 + exp(-x));

    (void)unused;
    return s * (1 + x * (1 - s));
}

static void silu_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);

    if (k->silu_forward)
        k->silu_forward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->out[Y]), rp_meta_elems(&c->meta->in[X]), rp__on(c->meta));
    else rp__unary_forward(c, silu, 0);
}

static void silu_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);

    if (k->silu_backward)
        k->silu_backward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->grad_out[Y]), rp__data(c->grad_in[X]), rp__grad_dtype(c, X),
                         c->grad_adds[X], rp_meta_elems(&c->meta->in[X]), rp__on(c->meta));
    else rp__unary_backward(c, c->in[X], silu_slope, 0);
}

static const rp_op_case silu_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .scale = 3 },
    { "far out",   .in = { { 2, 700 } },  .scale = 40 },
};

const rp_op rp_op_silu = {
    .name = "silu", .n_in = 1, .n_out = 1,
    .needs = RP_IN(X),
    .shape = rp__unary_shape, .cost = silu_cost,
    .forward = silu_forward, .backward = silu_backward,
    .cases = silu_cases, .n_case = RP_COUNT(silu_cases),
};
