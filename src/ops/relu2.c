/* ops/relu2.c -- y = max(x, 0)^2, the squared ReLU (So et al. 2021, Primer); Nemotron's MLP uses it.
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]
 *   needs  y, not x: the next layer keeps y anyway, and the slope is 2 sqrt(y)
 *
 * Elements are independent, so a replay computes the same bits in any order.
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_cost relu2_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 2 : 3));
}

static double relu2(double x, double unused)
{
    (void)unused;
    return x < 0 ? 0 : x * x;
}

static double relu2_slope(double y, double unused)
{
    (void)unused;
    return 2 * sqrt(y);
}

static void relu2_forward(const rp_op_call *c) { rp__unary_forward(c, rp__op_kernels(c)->relu2_forward, relu2, 0); }
static void relu2_backward(const rp_op_call *c) { rp__unary_backward(c, rp__op_kernels(c)->relu2_backward, c->out[Y], relu2_slope, 0); }

static const rp_op_case relu2_cases[] = {
    { "odd sizes",    .in = { { 3, 5, 7 } }, .roundings = 1 },                 /* backward reads y, which is rounded */
    { "three blocks", .in = { { 3, 521 } },  .roundings = 1, .scale = 3 },
};

const rp_op rp_op_relu2 = {
    .name = "relu2", .n_in = 1, .n_out = 1,
    .needs = RP_OUT(Y),
    .shape = rp__same_shape, .cost = relu2_cost,
    .forward = relu2_forward, .backward = relu2_backward,
    .cases = relu2_cases, .n_case = RP_COUNT(relu2_cases),
};
