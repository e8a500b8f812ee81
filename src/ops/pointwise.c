/* ops/pointwise.c -- functions of one number, y = f(x). A function is a row of `rows`: its formula, its slope and their cost.
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]
 *
 *   op        y                                     backward reads
 *   scale     factor * x                            nothing
 *   softcap   cap * tanh(x / cap)                   x   close to x for small x, never beyond cap (Gemma 2's logits; Bello et al. 2016)
 *   gelu      x Phi(x), by erf or by tanh           x   Hendrycks and Gimpel 2016; the tanh form reads x + 0.044715 x^3
 *   silu      x / (1 + exp(-x))                     x
 *   relu      max(x, 0); the slope at 0 is 0        y   the next layer keeps y anyway, and y > 0 exactly where x > 0
 *   relu2     max(x, 0)^2                           y   the squared ReLU (So et al. 2021, Primer); the slope is 2 sqrt(y)
 *   tanh      tanh(x)                               y   1 - y^2
 *   sigmoid   1 / (1 + exp(-x))                     y   y (1 - y)
 *   exp       exp(x)                                y
 *   log       log(x): -inf at 0, NaN below          x
 *
 * Elements are independent, so a replay computes the same bits in any order.
 */
#include "ops/common.h"

enum { X };
enum { Y };

/* value(x), and slope(v), where v is x or y as the op's `needs` says. p is the parameter. */
typedef struct {
    double (*value)(double x, double p), (*slope)(double v, double p);
    int flops, backward_flops;      /* of an element */
} function;

#define FORMULA(name, v, formula) \
    static double name(double v, double p) { return (void)(v), (void)p, (formula); }

static double gelu_inner(double x) { return 0.79788456080286535588 * (x + 0.044715 * x * x * x); }
static double normal_cdf(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

static double gelu_tanh_slope(double x, double p)
{
    double t = tanh(gelu_inner(x));

    (void)p;
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

static double silu_slope(double x, double p)
{
    double s = 1 / (1 + exp(-x));

    (void)p;
    return s * (1 + x * (1 - s));
}

FORMULA(scaled, x, p * x)
FORMULA(scaled_slope, x, p)
FORMULA(softcap, x, p * tanh(x / p))
FORMULA(softcap_slope, x, 1 - tanh(x / p) * tanh(x / p))
FORMULA(gelu_tanh, x, 0.5 * x * (1 + tanh(gelu_inner(x))))
FORMULA(gelu_erf, x, x * normal_cdf(x))
FORMULA(gelu_erf_slope, x, normal_cdf(x) + x * 0.39894228040143267794 * exp(-0.5 * x * x))
FORMULA(silu, x, x / (1 + exp(-x)))
FORMULA(relu, x, x < 0 ? 0 : x)
FORMULA(relu_slope, y, y > 0 ? 1 : 0)
FORMULA(relu2, x, x < 0 ? 0 : x * x)
FORMULA(relu2_slope, y, 2 * sqrt(y))
FORMULA(tanh_of, x, tanh(x))
FORMULA(tanh_slope, y, 1 - y * y)
FORMULA(sigmoid, x, 1 / (1 + exp(-x)))
FORMULA(sigmoid_slope, y, y * (1 - y))
FORMULA(exp_of, x, exp(x))
FORMULA(exp_slope, y, y)
FORMULA(log_of, x, log(x))
FORMULA(log_slope, x, 1 / x)

static const function rows[] = {
    [RP_UNARY_SCALE]     = { scaled,    scaled_slope,    1,  1 },
    [RP_UNARY_SOFTCAP]   = { softcap,   softcap_slope,   25, 28 },
    [RP_UNARY_GELU_TANH] = { gelu_tanh, gelu_tanh_slope, 20, 25 },
    [RP_UNARY_GELU_ERF]  = { gelu_erf,  gelu_erf_slope,  20, 25 },
    [RP_UNARY_SILU]      = { silu,      silu_slope,      15, 19 },
    [RP_UNARY_RELU]      = { relu,      relu_slope,      1,  1 },
    [RP_UNARY_RELU2]     = { relu2,     relu2_slope,     2,  3 },
    [RP_UNARY_TANH]      = { tanh_of,   tanh_slope,      24, 3 },
    [RP_UNARY_SIGMOID]   = { sigmoid,   sigmoid_slope,   14, 3 },
    [RP_UNARY_EXP]       = { exp_of,    exp_slope,       12, 1 },
    [RP_UNARY_LOG]       = { log_of,    log_slope,       22, 2 },
};

/* The row of a call; gelu has two. */
static rp_unary row_of(rp_unary first, const void *attr)
{
    return first == RP_UNARY_GELU_TANH && ((const rp_attr_gelu *)attr)->erf ? RP_UNARY_GELU_ERF : first;
}

static float parameter_of(rp_unary f, const void *attr)
{
    if (f == RP_UNARY_SCALE) return ((const rp_attr_scale *)attr)->factor;
    return f == RP_UNARY_SOFTCAP ? ((const rp_attr_softcap *)attr)->cap : 0;
}

static rp_status softcap_shape(rp_op_meta *m)
{
    double cap = (double)((const rp_attr_softcap *)m->attr)->cap;

    RP_CHECK(m->ctx, isfinite(cap) && cap > 0, RP_ERR_ARG, "softcap: cap is %g, expected a number above 0", cap);
    return rp__same_shape(m);
}

/* Rows of one op cost the same. */
static rp_cost pointwise_cost(const rp_op_meta *m, rp_pass pass, rp_unary first)
{
    const function *f = &rows[first];

    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? f->flops : f->backward_flops));
}

static void pointwise_forward(const rp_op_call *c, rp_unary first)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_unary f          = row_of(first, c->attr);
    float p             = parameter_of(f, c->attr);
    int64_t n           = rp_meta_elems(&c->meta->in[X]);

    if (k->unary_forward) {
        k->unary_forward(f, c->meta->in[X].dtype, rp__data(c->in[X]), p, rp__data(c->out[Y]), n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) rp_elem_put(c->out[Y], e, rows[f].value(rp_elem_get(c->in[X], e), (double)p));
}

static void pointwise_backward(const rp_op_call *c, rp_unary first)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_unary f          = row_of(first, c->attr);
    float p             = parameter_of(f, c->attr);
    int64_t n           = rp_meta_elems(&c->meta->in[X]);
    uint32_t needs      = c->meta->op->needs;
    const rp_tensor *dy = c->grad_out[Y], *of = needs & RP_IN(X) ? c->in[X] : needs & RP_OUT(Y) ? c->out[Y] : dy;

    if (k->unary_backward) {
        k->unary_backward(f, of->m.dtype, rp__data(of), p, rp__data(dy), rp__data(c->grad_in[X]), rp__grad_dtype(c, X), c->grad_adds[X], n,
                          rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) rp__elem_grad(c, X, e, rp_elem_get(dy, e) * rows[f].slope(rp_elem_get(of, e), (double)p));
}

/* ---- the ops ---- */

#define POINTWISE(op, ROW, reads, shape_of, ...) \
    static rp_cost op##_cost(const rp_op_meta *m, rp_pass pass) { return pointwise_cost(m, pass, RP_UNARY_##ROW); } \
    static void op##_forward(const rp_op_call *c) { pointwise_forward(c, RP_UNARY_##ROW); } \
    static void op##_backward(const rp_op_call *c) { pointwise_backward(c, RP_UNARY_##ROW); } \
    const rp_op rp_op_##op = { \
        .name = #op, .n_in = 1, .n_out = 1, .needs = reads, .shape = shape_of, .cost = op##_cost, .forward = op##_forward, \
        .backward = op##_backward, .cases = op##_cases, .n_case = RP_COUNT(op##_cases), __VA_ARGS__ \
    };

static const rp_op_case scale_cases[] = {
    { "halved",       .in = { { 3, 5, 7 } }, .attr = &(rp_attr_scale){ 0.5f } },
    { "three blocks", .in = { { 3, 521 } },  .attr = &(rp_attr_scale){ -1.7f } },
    { "by zero",      .in = { { 4 } },       .attr = &(rp_attr_scale){ 0 } },
};
POINTWISE(scale, SCALE, 0, rp__same_shape, .attr_size = sizeof(rp_attr_scale))

static const rp_op_case softcap_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .attr = &(rp_attr_softcap){ 1.5f }, .scale = 3 },
    { "a little",  .in = { { 2, 700 } },  .attr = &(rp_attr_softcap){ 30 } },
    { "far out",   .in = { { 2, 700 } },  .attr = &(rp_attr_softcap){ 2 }, .scale = 40 },
    { "no cap",    .in = { { 4 } },       .attr = &(rp_attr_softcap){ 0 }, .expect = RP_ERR_ARG },
};
POINTWISE(softcap, SOFTCAP, RP_IN(X), softcap_shape, .attr_size = sizeof(rp_attr_softcap))

static const rp_op_case gelu_cases[] = {
    { "tanh",           .in = { { 3, 5, 7 } }, .attr = &(rp_attr_gelu){ false }, .scale = 3 },
    { "erf",            .in = { { 3, 5, 7 } }, .attr = &(rp_attr_gelu){ true },  .scale = 3 },
    { "tanh, far out",  .in = { { 2, 700 } },  .attr = &(rp_attr_gelu){ false }, .scale = 40 },
    { "erf, far out",   .in = { { 2, 700 } },  .attr = &(rp_attr_gelu){ true },  .scale = 40 },
};
POINTWISE(gelu, GELU_TANH, RP_IN(X), rp__same_shape, .attr_size = sizeof(rp_attr_gelu))

static const rp_op_case silu_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .scale = 3 },
    { "far out",   .in = { { 2, 700 } },  .scale = 40 },
};
POINTWISE(silu, SILU, RP_IN(X), rp__same_shape, .n_slot = 0)

static const rp_op_case relu_cases[] = {
    { "odd sizes",    .in = { { 3, 5, 7 } } },
    { "three blocks", .in = { { 3, 521 } } },
};
POINTWISE(relu, RELU, RP_OUT(Y), rp__same_shape, .n_slot = 0)

/* Backward reads y, which is rounded. */
static const rp_op_case relu2_cases[] = {
    { "odd sizes",    .in = { { 3, 5, 7 } }, .roundings = 1 },
    { "three blocks", .in = { { 3, 521 } },  .roundings = 1, .scale = 3 },
};
POINTWISE(relu2, RELU2, RP_OUT(Y), rp__same_shape, .n_slot = 0)

static const rp_op_case tanh_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .roundings = 1 },
    { "far out",   .in = { { 2, 700 } },  .roundings = 1, .scale = 20 },
};
POINTWISE(tanh, TANH, RP_OUT(Y), rp__same_shape, .n_slot = 0)

static const rp_op_case sigmoid_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .roundings = 1, .scale = 3 },
    { "far out",   .in = { { 2, 700 } },  .roundings = 1, .scale = 12 },
};
POINTWISE(sigmoid, SIGMOID, RP_OUT(Y), rp__same_shape, .n_slot = 0)

static const rp_op_case exp_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .roundings = 1 },
    { "far out",   .in = { { 2, 700 } },  .roundings = 1, .scale = 9 },
};
POINTWISE(exp, EXP, RP_OUT(Y), rp__same_shape, .n_slot = 0)

static const rp_op_case log_cases[] = {
    { "odd sizes", .in = { { 3, 5, 7 } }, .shift = 2 },
    { "near 0",    .in = { { 2, 700 } },  .shift = 1, .scale = 0.95 },
    { "large",     .in = { { 4, 67 } },   .shift = 3e4, .scale = 2e4 },
};
POINTWISE(log, LOG, RP_IN(X), rp__same_shape, .n_slot = 0)
