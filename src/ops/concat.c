/* ops/concat.c -- joins inputs along one dimension. Backward copies each input's part of dy.
 *
 *   in     x0, x1, … (1 to 8)     one floating dtype; shapes are equal except in dimension attr dim
 *   out    y
 */
#include "ops/common.h"

enum { Y };

static rp_status concat_shape(rp_op_meta *m)
{
    int dim;

    RP_TRY(rp__check_one_dtype(m));
    RP_TRY(rp__check_dim(m, ((const rp_attr_dim *)m->attr)->dim, &dim));
    m->out[Y] = m->in[0];
    for (int i = 1; i < m->n_in; i++) {
        rp_meta expected  = m->in[0];
        expected.dim[dim] = rp_meta_dim(&m->in[i], dim);
        RP_CHECK(m->ctx, rp_meta_same_shape(&m->in[i], &expected), RP_ERR_SHAPE,
                 "concat: input %d is %s, expected the shape of %s except in dimension %d", i, rp_meta_str(&m->in[i]), rp_meta_str(&m->in[0]), dim);
        m->out[Y].dim[dim] += m->in[i].dim[dim];
    }
    return RP_OK;
}

static rp_cost concat_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, 0); }

static rp_strips part_of(const rp_op_call *c, int in)
{
    const rp_op_meta *m = c->meta;
    int given = ((const rp_attr_dim *)c->attr)->dim, dim = given < 0 ? given + m->in[0].ndim : given;
    rp_around y = rp__around(&m->out[Y], dim);
    rp_strips p = { y.outer, m->in[in].dim[dim] * y.inner, 0, y.n * y.inner };

    for (int i = 0; i < in; i++) p.start += m->in[i].dim[dim] * y.inner;
    return p;
}

static void concat_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);

    for (int i = 0; i < c->meta->n_in; i++) {
        rp_strips p    = part_of(c, i);
        rp_dtype dtype = c->meta->in[i].dtype;
        if (k->copy_strips)
            k->copy_strips(dtype, rp__data(c->in[i]), p.width, dtype, rp__data_at(c->out[Y], p.start), p.stride, false, p.strips, p.width,
                           rp__on(c->meta));
        else
            for (int64_t e = 0; e < p.strips * p.width; e++)
                rp_elem_put(c->out[Y], rp__strip_at(p, e), rp_elem_get(c->in[i], e));
    }
}

static void concat_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    const rp_tensor *dy = c->grad_out[Y];

    for (int i = 0; i < c->meta->n_in; i++) {
        rp_strips p = part_of(c, i);
        if (!c->grad_in[i]) continue;
        if (k->copy_strips)
            k->copy_strips(dy->m.dtype, rp__data_at(dy, p.start), p.stride, rp__grad_dtype(c, i), rp__data(c->grad_in[i]), p.width,
                           c->grad_adds[i], p.strips, p.width, rp__on(c->meta));
        else
            for (int64_t e = 0; e < p.strips * p.width; e++)
                rp__elem_grad(c, i, e, rp_elem_get(dy, rp__strip_at(p, e)));
    }
}

static const rp_op_case concat_cases[] = {
    { "rows",           .in = { { 2, 3 },    { 1, 3 },    { 4, 3 } },   .attr = &(rp_attr_dim){ 0 } },
    { "columns",        .in = { { 3, 2 },    { 3, 521 } },              .attr = &(rp_attr_dim){ -1 } },
    { "middle",         .in = { { 2, 3, 5 }, { 2, 1, 5 } },             .attr = &(rp_attr_dim){ 1 } },
    { "one input",      .in = { { 2, 3 } },                             .attr = &(rp_attr_dim){ 1 } },
    { "sizes differ",   .in = { { 2, 3 },    { 3, 4 } },                .attr = &(rp_attr_dim){ 1 }, .expect = RP_ERR_SHAPE },
    { "no dimension",   .in = { { 2, 3 },    { 2, 3 } },                .attr = &(rp_attr_dim){ 2 }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_concat = {
    .name = "concat", .n_in = RP_MAX_IN, .n_out = 1, .attr_size = sizeof(rp_attr_dim), .flags = RP_OP_VARIADIC,
    .shape = concat_shape, .cost = concat_cost,
    .forward = concat_forward, .backward = concat_backward,
    .cases = concat_cases, .n_case = RP_COUNT(concat_cases),
};
