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

static void silu_forward(const rp_op_call *c) { rp__unary_forward(c, rp__op_kernels(c)->silu_forward, silu, 0); }
static void silu_backward(const rp_op_call *c) { rp__unary_backward(c, rp__op_kernels(c)->silu_backward, c->in[X], silu_slope, 0); }

static const rp_op_case silu_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .scale = 3 },
    { "far out",   .in = { { 2, 700 } },  .scale = 40 },
};

const rp_op rp_op_silu = {
    .name = "silu", .n_in = 1, .n_out = 1,
    .needs = RP_IN(X),
    .shape = rp__same_shape, .cost = silu_cost,
    .forward = silu_forward, .backward = silu_backward,
    .cases = silu_cases, .n_case = RP_COUNT(silu_cases),
};
