/* ops/relu.c -- y = max(x, 0); the slope at 0 is 0.
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]
 *   needs  y, not x: the next layer keeps y anyway, and y > 0 exactly where x > 0
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_cost relu_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, rp_meta_elems(&m->in[X])); }

static double relu(double x, double unused)
{
    (void)unused;
    return x < 0 ? 0 : x;
}

static double relu_slope(double y, double unused)
{
    (void)unused;
    return y > 0 ? 1 : 0;
}

static void relu_forward(const rp_op_call *c) { rp__unary_forward(c, rp__op_kernels(c)->relu_forward, relu, 0); }
static void relu_backward(const rp_op_call *c) { rp__unary_backward(c, rp__op_kernels(c)->relu_backward, c->out[Y], relu_slope, 0); }

static const rp_op_case relu_cases[] = {
    { "odd sizes",    .in = { { 3, 5, 7 } } },
    { "three blocks", .in = { { 3, 521 } } },
};

const rp_op rp_op_relu = {
    .name = "relu", .n_in = 1, .n_out = 1,
    .needs = RP_OUT(Y),
    .shape = rp__same_shape, .cost = relu_cost,
    .forward = relu_forward, .backward = relu_backward,
    .cases = relu_cases, .n_case = RP_COUNT(relu_cases),
};
