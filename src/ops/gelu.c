/* ops/gelu.c -- y = x Phi(x) (Hendrycks and Gimpel 2016), with the exact normal distribution function (erf) or its tanh
 * approximation (x + 0.044715 x^3).
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]
 *   needs  x
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_cost gelu_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 20 : 25));
}

static double inner(double x) { return 0.79788456080286535588 * (x + 0.044715 * x * x * x); }

static double gelu(double x, double erf_form)
{
    return erf_form != 0 ? 0.5 * x * erfc(-x * 0.70710678118654752440) : 0.5 * x * (1 + tanh(inner(x)));
}

static double gelu_slope(double x, double erf_form)
{
    if (erf_form != 0) return 0.5 * erfc(-x * 0.70710678118654752440) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
    double t = tanh(inner(x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

static void gelu_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    bool erf            = ((const rp_attr_gelu *)c->attr)->erf;

    rp__unary_forward(c, erf ? k->gelu_erf_forward : k->gelu_tanh_forward, gelu, erf);
}

static void gelu_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    bool erf            = ((const rp_attr_gelu *)c->attr)->erf;

    rp__unary_backward(c, erf ? k->gelu_erf_backward : k->gelu_tanh_backward, c->in[X], gelu_slope, erf);
}

static const rp_op_case gelu_cases[] = {
    { "tanh",           .in = { { 3, 5, 7 } }, .attr = &(rp_attr_gelu){ false }, .scale = 3 },
    { "erf",            .in = { { 3, 5, 7 } }, .attr = &(rp_attr_gelu){ true },  .scale = 3 },
    { "tanh, far out",  .in = { { 2, 700 } },  .attr = &(rp_attr_gelu){ false }, .scale = 40 },
    { "erf, far out",   .in = { { 2, 700 } },  .attr = &(rp_attr_gelu){ true },  .scale = 40 },
};

const rp_op rp_op_gelu = {
    .name = "gelu", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_gelu),
    .needs = RP_IN(X),
    .shape = rp__same_shape, .cost = gelu_cost,
    .forward = gelu_forward, .backward = gelu_backward,
    .cases = gelu_cases, .n_case = RP_COUNT(gelu_cases),
};
