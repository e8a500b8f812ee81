/* ops/max.c -- y = the largest of x over one dimension, which y lacks. Among equal elements the first one is chosen and gets the whole
 * gradient. A NaN counts as larger than every number.
 *
 *   in     x [...]         any floating dtype; the dimension is not empty
 *   out    y               x without dimension attr dim
 *   slot   argmax int32    one index per element of y; backward reads nothing else
 */
#include "ops/reduce.h"

enum { X };
enum { Y };
enum { ARGMAX };

static rp_status max_shape(rp_op_meta *m)
{
    RP_TRY(rp__reduce_shape(m));
    int64_t n = rp__reduce_around(m).n;
    RP_CHECK(m->ctx, n > 0 && n <= INT32_MAX, RP_ERR_SHAPE, "max: dimension %d of %s is %" PRId64 ", expected 1 to %d",
             ((const rp_attr_dim *)m->attr)->dim, rp_meta_str(&m->in[X]), n, INT32_MAX);
    m->slot[ARGMAX]       = m->out[Y];
    m->slot[ARGMAX].dtype = RP_I32;
    return RP_OK;
}

static rp_cost max_cost(const rp_op_meta *m, rp_pass pass) { return rp__cost(m, pass, rp_meta_elems(&m->in[X])); }

static void max_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_around a         = rp__reduce_around(c->meta);

    if (k->max_forward) {
        k->max_forward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->out[Y]), rp__data(c->slot[ARGMAX]), a.outer, a.n, a.inner,
                       rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < a.outer * a.inner; e++) {
        int64_t first = e / a.inner * a.n * a.inner + e % a.inner, which = 0;
        double best = rp_elem_get(c->in[X], first);
        for (int64_t i = 1; i < a.n; i++) {
            double value = rp_elem_get(c->in[X], first + i * a.inner);
            if (!(value > best || (isnan(value) && !isnan(best)))) continue;
            best  = value;
            which = i;
        }
        rp_elem_put(c->out[Y], e, best);
        if (c->slot[ARGMAX]) rp_elem_put(c->slot[ARGMAX], e, (double)which);
    }
}

static void max_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    rp_around a         = rp__reduce_around(c->meta);

    if (k->max_backward) {
        k->max_backward(c->meta->in[X].dtype, rp__data(c->grad_out[Y]), rp__data(c->slot[ARGMAX]), rp__data(c->grad_in[X]),
                        rp__grad_dtype(c, X), c->grad_adds[X], a.outer, a.n, a.inner, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < a.outer * a.inner; e++) {
        int64_t first = e / a.inner * a.n * a.inner + e % a.inner, which = rp_int_get(c->slot[ARGMAX], e);
        for (int64_t i = 0; i < a.n; i++) rp__elem_grad(c, X, first + i * a.inner, i == which ? rp_elem_get(c->grad_out[Y], e) : 0);
    }
}

static const rp_op_case max_cases[] = {
    { "to a scalar",  .in = { { 7 } },        .attr = &(rp_attr_dim){ 0 } },
    { "rows",         .in = { { 5, 67 } },    .attr = &(rp_attr_dim){ -1 } },
    { "columns",      .in = { { 5, 521 } },   .attr = &(rp_attr_dim){ 0 } },
    { "middle",       .in = { { 2, 3, 5 } },  .attr = &(rp_attr_dim){ 1 } },
    { "no dimension", .in = { { 2, 3 } },     .attr = &(rp_attr_dim){ 2 }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_max = {
    .name = "max", .n_in = 1, .n_out = 1, .n_slot = 1, .attr_size = sizeof(rp_attr_dim),
    .needs = RP_SLOT(ARGMAX),
    .shape = max_shape, .cost = max_cost,
    .forward = max_forward, .backward = max_backward,
    .cases = max_cases, .n_case = RP_COUNT(max_cases),
};
