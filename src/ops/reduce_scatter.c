/* ops/reduce_scatter.c -- sums the ranks' tensors; each rank keeps its slice of the sum. The gradient is gathered (see
 * collective.h). It is never replayed: its output is always kept, under every policy.
 *
 *   in     x [...]     of the same shape on every rank
 *   out    y [room]    this rank's slice of the sum, zeros after its last element
 */
#include "ops/talk.h"

enum { X };
enum { Y };

static rp_status reduce_scatter_shape(rp_op_meta *m)
{
    const rp_meta *x = &m->in[X];
    int64_t n        = rp_meta_elems(x);

    RP_CHECK(m->ctx, rp_meta_is_float(x), RP_ERR_DTYPE, "reduce_scatter: x is %s, expected a floating dtype", rp_meta_str(x));
    m->out[Y]        = rp_meta_1d(x->dtype, rp__slice_here(m->ctx, n).room);
    m->scratch_bytes = rp__mem_rounded(m->ctx, rp__reduce_scratch(m->ctx, rp__group(m->ctx), n, rp_dtype_bytes(x->dtype))) + rp__dense_room(m, x);
    if (m->want_grad) m->scratch_backward_bytes = n * rp_dtype_bytes(x->dtype);
    return RP_OK;
}

static rp_cost reduce_scatter_cost(const rp_op_meta *m, rp_pass pass)
{
    rp_cost cost = rp__cost(m, pass, pass == RP_FORWARD ? rp_meta_elems(&m->in[X]) : 0);

    cost.comm_bytes = pass == RP_FORWARD ? rp__reduce_sends(m->ctx, &m->in[X]) : rp__gather_sends(m->ctx, &m->in[X], RP_FROM_ALL);
    return cost;
}

void rp__reduce_scatter_talk(const rp_op_meta *m, rp_pass pass, rp_talk *talk)
{
    if (pass == RP_FORWARD) rp__talk_reduce(talk, m->ctx, rp__group(m->ctx), &m->in[X]);
    else rp__talk_gather(talk, m->ctx, &m->in[X], RP_FROM_ALL);
}

static void reduce_scatter_forward(const rp_op_call *c)
{
    const rp_meta *x = &c->meta->in[X];
    int64_t pieces   = rp__mem_rounded(c->ctx, rp__reduce_scratch(c->ctx, rp__group(c->ctx), rp_meta_elems(x), rp_dtype_bytes(x->dtype)));

    rp__reduce_whole(c, rp__group(c->ctx), x, rp__dense_data(c->in[X], (uint8_t *)c->scratch + pieces), c->out[Y], false);
}

/* Gathers into scratch first, because the gradient may be added to, or have a wider dtype. */
static void reduce_scatter_backward(const rp_op_call *c)
{
    rp_storage aside;
    rp_tensor whole = rp__dense_in(c->grad_in[X], c->grad_out[Y]->m.dtype, &aside, c->scratch);

    rp__gather_slices(c, RP_FROM_ALL, rp__tensor_data(c->grad_out[Y]), &whole.m, &whole);
    for (int64_t e = 0, n = rp_meta_elems(&whole.m); e < n && rp__ops_ctx(c->ctx)->status == RP_OK; e++)
        rp__elem_grad(c, X, e, rp_elem_get(&whole, e));
}

static const rp_op_case reduce_scatter_cases[] = {
    { "a matrix",        .in = { { 3, 5 } } },
    { "nothing is over", .in = { { 32 } } },
    { "blocks",          .in = { { 23, 70 } } },
};

const rp_op rp_op_reduce_scatter = {
    .name = "reduce_scatter", .n_in = 1, .n_out = 1, .flags = RP_OP_COLLECTIVE,
    .shape = reduce_scatter_shape, .cost = reduce_scatter_cost,
    .forward = reduce_scatter_forward, .backward = reduce_scatter_backward,
    .cases = reduce_scatter_cases, .n_case = RP_COUNT(reduce_scatter_cases),
};
