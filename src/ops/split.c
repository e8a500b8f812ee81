/* ops/split.c -- copies x into parts along one dimension, so that each part is dense. Backward joins the parts' gradients;
 * a part without a gradient counts as zero.
 *
 *   in     x                      any floating dtype
 *   out    y0, y1, … (1 to 8)     attr length[i] of dimension attr dim each
 */
#include "ops/common.h"

enum { X };

_Static_assert(sizeof(rp_attr_split) <= RP_MAX_ATTR, "a call keeps a copy of the attributes");

static rp_status split_shape(rp_op_meta *m)
{
    const rp_attr_split *a = m->attr;
    int64_t total          = 0;
    int dim;

    RP_TRY(rp__check_one_dtype(m));
    RP_TRY(rp__check_dim(m, a->dim, &dim));
    RP_CHECK(m->ctx, a->n >= 1 && a->n <= RP_MAX_OUT, RP_ERR_ARG, "split: %d parts, expected 1 to %d", a->n, RP_MAX_OUT);
    m->n_out = a->n;
    for (int i = 0; i < a->n; i++) RP_CHECK(m->ctx, a->length[i] >= 0, RP_ERR_ARG, "split: length %d is %" PRId64, i, a->length[i]);
    for (int i = 0; i < a->n; i++) {
        m->out[i]          = m->in[X];
        m->out[i].dim[dim] = a->length[i];
        RP_CHECK(m->ctx, a->length[i] <= m->in[X].dim[dim] - total, RP_ERR_SHAPE, "split: lengths up to %d add up to more than dimension %d of %s",
                 i, dim, rp_meta_str(&m->in[X]));
        total += a->length[i];
    }
    RP_CHECK(m->ctx, total == m->in[X].dim[dim], RP_ERR_SHAPE, "split: lengths add up to %" PRId64 ", dimension %d of %s is %" PRId64,
             total, dim, rp_meta_str(&m->in[X]), m->in[X].dim[dim]);
    return RP_OK;
}

static rp_cost split_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, 0); }

static rp_strips part_of(const rp_op_call *c, int out)
{
    const rp_attr_split *a = c->attr;
    const rp_meta *x       = &c->meta->in[X];
    rp_around around       = rp__around(x, a->dim < 0 ? a->dim + x->ndim : a->dim);
    rp_strips p = { around.outer, a->length[out] * around.inner, 0, around.n * around.inner };

    for (int i = 0; i < out; i++) p.start += a->length[i] * around.inner;
    return p;
}

static void split_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_dtype dtype      = c->meta->in[X].dtype;

    for (int i = 0; i < c->meta->n_out; i++) {
        rp_strips p = part_of(c, i);
        if (k->copy_strips)
            k->copy_strips(dtype, rp__data_at(c->in[X], p.start), p.stride, dtype, rp__data(c->out[i]), p.width, false, p.strips, p.width,
                           rp__on(c->meta));
        else
            for (int64_t e = 0; e < p.strips * p.width; e++)
                rp_elem_put(c->out[i], e, rp_elem_get(c->in[X], rp__strip_at(p, e)));
    }
}

static void put_part(const rp_op_call *c, const rp_tensor *dy, rp_strips p)
{
    const rp_kernels *k = rp__op_kernels(c);

    if (k->copy_strips) {
        k->copy_strips(dy ? dy->m.dtype : c->meta->in[X].dtype, rp__data(dy), p.width, rp__grad_dtype(c, X),
                       rp__data_at(c->grad_in[X], p.start), p.stride, c->grad_adds[X], p.strips, p.width, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < p.strips * p.width; e++)
        rp__elem_grad(c, X, rp__strip_at(p, e), dy ? rp_elem_get(dy, e) : 0);
}

static void split_backward(const rp_op_call *c)
{
    for (int i = 0; i < c->meta->n_out; i++)
        if (c->grad_out[i] || !c->grad_adds[X]) put_part(c, c->grad_out[i], part_of(c, i));
}

static const rp_op_case split_cases[] = {
    { "rows",          .in = { { 7, 3 } },    .attr = &(rp_attr_split){ 0, 3, { 2, 1, 4 } } },
    { "columns",       .in = { { 3, 523 } },  .attr = &(rp_attr_split){ -1, 2, { 2, 521 } } },
    { "middle",        .in = { { 2, 4, 5 } }, .attr = &(rp_attr_split){ 1, 2, { 3, 1 } } },
    { "too short",     .in = { { 2, 6 } },    .attr = &(rp_attr_split){ 1, 2, { 2, 3 } },  .expect = RP_ERR_SHAPE },
    { "beyond int64", .in = { { 2, 6 } },    .attr = &(rp_attr_split){ 1, 3, { INT64_MAX, INT64_MAX, 8 } }, .expect = RP_ERR_SHAPE },
    { "negative part", .in = { { 2, 6 } },    .attr = &(rp_attr_split){ 1, 2, { 7, -1 } }, .expect = RP_ERR_ARG },
    { "no parts",      .in = { { 2, 6 } },    .attr = &(rp_attr_split){ 1, 0, { 0 } },     .expect = RP_ERR_ARG },
};

const rp_op rp_op_split = {
    .name = "split", .n_in = 1, .n_out = RP_MAX_OUT, .attr_size = sizeof(rp_attr_split),
    .shape = split_shape, .cost = split_cost,
    .forward = split_forward, .backward = split_backward,
    .cases = split_cases, .n_case = RP_COUNT(split_cases),
};
