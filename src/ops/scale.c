/* ops/scale.c -- y = factor * x. Backward needs only dy.
 *
 *   in     x [...]     any floating dtype
 *   out    y [...]
 */
#include "ops/common.h"

enum { X };
enum { Y };

static rp_cost scale_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, rp_meta_elems(&m->in[X])); }

static double scaled(double x, double factor) { return factor * x; }

static void scale_forward(const rp_op_call *c)
{
    const rp_attr_scale *a = c->attr;
    const rp_kernels *k    = rp__op_kernels(c);
    rp_dtype dtype         = c->meta->in[X].dtype;

    if (k->scale)
        k->scale(dtype, rp__data(c->in[X]), a->factor, rp__data(c->out[Y]), dtype, false, rp_meta_elems(&c->meta->in[X]), rp__on(c->meta));
    else rp__unary_forward(c, NULL, scaled, a->factor);
}

static void scale_backward(const rp_op_call *c)
{
    const rp_attr_scale *a = c->attr;
    const rp_kernels *k    = rp__op_kernels(c);
    int64_t n              = rp_meta_elems(&c->meta->in[X]);

    if (k->scale) {
        k->scale(c->meta->in[X].dtype, rp__data(c->grad_out[Y]), a->factor, rp__data(c->grad_in[X]), rp__grad_dtype(c, X), c->grad_adds[X],
                 n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < n; e++) rp__elem_grad(c, X, e, scaled(rp_elem_get(c->grad_out[Y], e), a->factor));
}

static const rp_op_case scale_cases[] = {
    { "halved",       .in = { { 3, 5, 7 } }, .attr = &(rp_attr_scale){ 0.5f } },
    { "three blocks", .in = { { 3, 521 } },  .attr = &(rp_attr_scale){ -1.7f } },
    { "by zero",      .in = { { 4 } },       .attr = &(rp_attr_scale){ 0 } },
};

const rp_op rp_op_scale = {
    .name = "scale", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_scale),
    .shape = rp__same_shape, .cost = scale_cost,
    .forward = scale_forward, .backward = scale_backward,
    .cases = scale_cases, .n_case = RP_COUNT(scale_cases),
};
