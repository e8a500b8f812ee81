/* ops/gather.c -- elements of x by index along one dimension: y[.., j, ..] = x[.., index[.., j, ..], ..] (numpy's take_along_axis).
 *
 *   in     x [..., n, ...]       any floating dtype
 *          index [..., m, ...]   int32, each in [0, n): checked. As many dimensions as x; others than attr dim are those of x, or 1 for all of x's
 *   out    y [..., m, ...]       x's other extents
 *   needs  index. The terms of an element of dx are added in the order of j, in fp32, and rounded once. A thread owns all terms of a column
 */
#include "kernels/pointwise.h"
#include "ops/common.h"

enum { X, INDEX };
enum { Y };

static int dim_of(const rp_op_meta *m)
{
    int dim = ((const rp_attr_dim *)m->attr)->dim;

    return dim < 0 ? dim + m->in[X].ndim : dim;
}

static rp_status gather_shape(rp_op_meta *m)
{
    const rp_meta *x = &m->in[X], *index = &m->in[INDEX];
    int dim;

    RP_CHECK(m->ctx, rp_meta_is_float(x), RP_ERR_DTYPE, "gather: x is %s, expected a floating dtype", rp_meta_str(x));
    RP_TRY(rp__check_int32(m, INDEX, "indices"));
    RP_TRY(rp__check_dim(m, ((const rp_attr_dim *)m->attr)->dim, &dim));
    RP_CHECK(m->ctx, x->dim[dim] <= INT32_MAX, RP_ERR_SHAPE, "gather: dimension %d of %s is longer than int32 counts", dim, rp_meta_str(x));
    bool fits = index->ndim == x->ndim;
    for (int d = 0; d < x->ndim && fits; d++) fits = d == dim || index->dim[d] == 1 || index->dim[d] == x->dim[d];
    RP_CHECK(m->ctx, fits, RP_ERR_SHAPE, "gather: the index is %s, expected the extents of %s or 1 except in dimension %d", rp_meta_str(index),
             rp_meta_str(x), dim);
    m->out[Y]          = *x;
    m->out[Y].dim[dim] = index->dim[dim];
    RP_TRY(rp__check_size(m, "y", &m->out[Y]));
    if (!rp__op_fast(m)) m->scratch_backward_bytes = rp_meta_elems(x) * (int64_t)sizeof(double);
    else if (x->dtype == RP_BF16) m->scratch_backward_bytes = rp_meta_elems(x) * (int64_t)sizeof(float);
    return RP_OK;
}

/* Forward reads as many elements of x as it writes. */
static rp_cost gather_cost(const rp_op_meta *m, rp_pass pass)
{
    int64_t y = rp_meta_bytes(&m->out[Y]), index = rp_meta_bytes(&m->in[INDEX]);

    if (pass == RP_FORWARD) return (rp_cost){ .read_bytes = y + index, .write_bytes = y };
    return (rp_cost){ .flops = rp_meta_elems(&m->out[Y]), .read_bytes = y + index, .write_bytes = rp_meta_bytes(&m->in[X]) };
}

static rp_gather_shape gather_of(const rp_op_meta *m)
{
    rp_around x = rp__around(&m->in[X], dim_of(m)), index = rp__around(&m->in[INDEX], dim_of(m));

    return (rp_gather_shape){ .outer = x.outer, .m = index.n, .n = x.n, .inner = x.inner, .shared = index.inner == 1,
                        .index = rp__spread(&m->out[Y], &m->in[INDEX], NULL, NULL) };
}

/* The element of x that element e of y is. */
static int64_t source_of(const rp_op_call *c, const rp_gather_shape *g, int64_t e)
{
    int64_t at = rp_int_get(c->in[INDEX], rp__spread_at(&g->index, RP_SPREAD_ALL, e).of[0]);

    return (e / (g->m * g->inner) * g->n + at) * g->inner + e % g->inner;
}

static void gather_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_gather_shape g   = gather_of(c->meta);

    if (rp__op_failed(c, rp__check_ints(c, INDEX, g.n, NULL, "index", "at position"))) return;
    if (k->gather_forward) {
        k->gather_forward(c->meta->in[X].dtype, &g, rp__data(c->in[X]), rp__data(c->in[INDEX]), rp__data(c->out[Y]), rp__on(c->meta));
        return;
    }
    for (int64_t e = 0, n = rp_meta_elems(&c->meta->out[Y]); e < n; e++) rp_elem_put(c->out[Y], e, rp_elem_get(c->in[X], source_of(c, &g, e)));
}

static void gather_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_gather_shape g   = gather_of(c->meta);
    int64_t elems       = rp_meta_elems(&c->meta->in[X]);
    double *sums        = c->scratch;

    if (k->gather_backward) {
        k->gather_backward(c->meta->in[X].dtype, &g, rp__data(c->grad_out[Y]), rp__data(c->in[INDEX]), rp__data(c->grad_in[X]), rp__grad_dtype(c, X),
                           c->grad_adds[X], c->scratch, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < elems; e++) sums[e] = 0;
    for (int64_t e = 0, n = rp_meta_elems(&c->meta->out[Y]); e < n; e++) sums[source_of(c, &g, e)] += rp_elem_get(c->grad_out[Y], e);
    for (int64_t e = 0; e < elems; e++) rp__elem_grad(c, X, e, sums[e]);
}

#define INDEX_FROM(low, high) .int_inputs = RP_IN(INDEX), .int_low = { [INDEX] = low }, .int_high = { [INDEX] = high }

static const rp_op_case gather_cases[] = {
    { "of each row",     .in = { { 5, 9 },     { 5, 3 } },     INDEX_FROM(0, 8), .attr = &(rp_attr_dim){ -1 } },
    { "repeated",        .in = { { 3, 4 },     { 3, 40 } },    INDEX_FROM(0, 3), .attr = &(rp_attr_dim){ 1 } },
    { "whole rows",      .in = { { 6, 67 },    { 9, 1 } },     INDEX_FROM(0, 5), .attr = &(rp_attr_dim){ 0 } },
    { "of each column",  .in = { { 6, 521 },   { 4, 521 } },   INDEX_FROM(0, 5), .attr = &(rp_attr_dim){ 0 } },
    { "the middle",      .in = { { 2, 5, 3 },  { 2, 7, 3 } },  INDEX_FROM(0, 4), .attr = &(rp_attr_dim){ 1 } },
    { "for all batches", .in = { { 3, 5, 20 }, { 1, 4, 1 } },  INDEX_FROM(0, 4), .attr = &(rp_attr_dim){ 1 } },
    { "one row of all",  .in = { { 3, 5, 4 },  { 1, 6, 4 } },  INDEX_FROM(0, 4), .attr = &(rp_attr_dim){ -2 } },
    { "past the end",    .in = { { 2, 4 },     { 2, 3 } },     INDEX_FROM(4, 4), .attr = &(rp_attr_dim){ 1 }, .expect = RP_ERR_ARG },
    { "negative",        .in = { { 2, 4 },     { 2, 3 } },     INDEX_FROM(-1, -1), .attr = &(rp_attr_dim){ 1 }, .expect = RP_ERR_ARG },
    { "other rows",      .in = { { 2, 4 },     { 3, 3 } },     INDEX_FROM(0, 3), .attr = &(rp_attr_dim){ 1 }, .expect = RP_ERR_SHAPE },
    { "a flat index",    .in = { { 2, 4 },     { 3 } },        INDEX_FROM(0, 3), .attr = &(rp_attr_dim){ 1 }, .expect = RP_ERR_SHAPE },
    { "no dimension",    .in = { { 2, 4 },     { 2, 3 } },     INDEX_FROM(0, 3), .attr = &(rp_attr_dim){ 2 }, .expect = RP_ERR_SHAPE },
    { "floating index",  .in = { { 2, 4 },     { 2, 3 } },     .attr = &(rp_attr_dim){ 1 }, .expect = RP_ERR_DTYPE },
};

const rp_op rp_op_gather = {
    .name = "gather", .n_in = 2, .n_out = 1, .attr_size = sizeof(rp_attr_dim), .no_grad_in = RP_IN(INDEX), .wide_grad_in = RP_IN(X),
    .needs = RP_IN(INDEX),
    .shape = gather_shape, .cost = gather_cost,
    .forward = gather_forward, .backward = gather_backward,
    .cases = gather_cases, .n_case = RP_COUNT(gather_cases),
};
