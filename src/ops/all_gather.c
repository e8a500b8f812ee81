/* ops/all_gather.c -- gathers a whole tensor from the slices of all ranks. Its gradient is the sum of the ranks' gradients, of which each rank
 * keeps its slice (a reduce-scatter). See collective.h.
 *
 *   in     x [room]    this rank's slice, zeros after its last element; of a quantised whole its bytes, without a gradient
 *          part?       output of all_gather_far: y is then gathered from the parts of the inner group only
 *   out    y [...]     the attribute's shape, the same on every rank
 *
 * Backward needs only dy. It always sums over all ranks, so its bits do not depend on `part`. A replay gathers again: every rank
 * replays the same calls in the same order. The sum is never replayed.
 */
#include "ops/talk.h"

enum { X, PART };
enum { Y };

static rp_status all_gather_shape(rp_op_meta *m)
{
    const rp_meta *x = &m->in[X];

    RP_TRY(rp__check_whole(m, &m->out[Y]));
    int64_t n     = rp__sliced_elems(&m->out[Y]);
    rp_slice here = rp__slice_here(m->ctx, n);
    RP_CHECK(m->ctx, x->ndim == 1 && x->dim[0] == here.room, RP_ERR_SHAPE, "all_gather: x is %s, a slice of %s over %d ranks has %" PRId64 " elements",
             rp_meta_str(x), rp_meta_str(&m->out[Y]), rp__comm_ranks(rp__group(m->ctx)), here.room);
    RP_CHECK(m->ctx, m->n_in == 1 || (m->in[PART].ndim == 1 && m->in[PART].dtype == x->dtype && m->in[PART].dim[0] == rp__part_elems(m->ctx, n)),
             RP_ERR_SHAPE, "all_gather: the part is %s, expected %" PRId64 " elements of x's dtype", rp_meta_str(&m->in[PART]), rp__part_elems(m->ctx, n));
    m->scratch_bytes          = rp__dense_room(m, &m->in[m->n_in - 1]);
    if (x->dtype == RP_U8) return RP_OK;
    m->scratch_backward_bytes = rp__reduce_scratch(m->ctx, rp__group(m->ctx), n, x->dtype == RP_F64 ? 8 : 4);      /* gradients of bf16 weights may be fp32 */
    return RP_OK;
}

static rp_cost all_gather_cost(const rp_op_meta *m, rp_pass pass)
{
    rp_cost cost = rp__cost(m, pass, pass == RP_FORWARD ? 0 : rp_meta_elems(&m->out[Y]));

    cost.comm_bytes = pass == RP_BACKWARD ? rp__reduce_sends(m->ctx, &m->out[Y])
                                          : rp__gather_sends(m->ctx, &m->out[Y], m->n_in == 1 ? RP_FROM_ALL : RP_FROM_INNER);
    return cost;
}

void rp__all_gather_talk(const rp_op_meta *m, rp_pass pass, rp_talk *talk)
{
    if (pass == RP_BACKWARD) rp__talk_reduce(talk, m->ctx, rp__group(m->ctx), &m->out[Y]);
    else rp__talk_gather(talk, m->ctx, &m->out[Y], m->n_in == 1 ? RP_FROM_ALL : RP_FROM_INNER);
}

static void all_gather_forward(const rp_op_call *c)
{
    bool parts = c->meta->n_in > 1;

    rp__gather_slices(c, parts ? RP_FROM_INNER : RP_FROM_ALL, rp__dense_data(c->in[parts ? PART : X], c->scratch), &c->out[Y]->m, c->out[Y]);
}

static void all_gather_backward(const rp_op_call *c)
{
    rp__reduce_whole(c, rp__group(c->ctx), &c->grad_out[Y]->m, rp__tensor_data(c->grad_out[Y]), c->grad_in[X], c->grad_adds[X]);
}

static const rp_op_case all_gather_cases[] = {
    { "a matrix",        .in = { { 16 } }, .attr = &(rp_attr_whole){ 2, { 3, 5 }, 0 } },
    { "nothing is over", .in = { { 32 } }, .attr = &(rp_attr_whole){ 1, { 32 }, 0 } },
    { "blocks",          .in = { { 1616 } }, .attr = &(rp_attr_whole){ 2, { 23, 70 }, 0 } },
    { "another part",    .in = { { 16 }, { 32 } }, .attr = &(rp_attr_whole){ 2, { 3, 5 }, 0 }, .expect = RP_ERR_SHAPE },
    { "too long",        .in = { { 32 } }, .attr = &(rp_attr_whole){ 2, { 3, 5 }, 0 }, .expect = RP_ERR_SHAPE },
    { "no whole",        .in = { { 16 } }, .attr = &(rp_attr_whole){ 0 }, .expect = RP_ERR_ARG },
    { "negative",        .in = { { 16 } }, .attr = &(rp_attr_whole){ 2, { -3, -5 }, 0 }, .expect = RP_ERR_ARG },
    { "too large",       .in = { { 16 } }, .attr = &(rp_attr_whole){ 2, { INT64_MAX, 3 }, 0 }, .expect = RP_ERR_ARG },
    { "an empty whole",  .in = { { 16 } }, .attr = &(rp_attr_whole){ 1, { 0 }, 0 }, .expect = RP_ERR_ARG },
};

const rp_op rp_op_all_gather = {
    .name = "all_gather", .n_in = 2, .n_out = 1, .attr_size = sizeof(rp_attr_whole), .flags = RP_OP_VARIADIC | RP_OP_COLLECTIVE | RP_OP_REPLAYS | RP_OP_SUMS,
    .no_grad_in = RP_IN(PART), .wide_grad_in = RP_IN(X), .shape = all_gather_shape, .cost = all_gather_cost,
    .forward = all_gather_forward, .backward = all_gather_backward,
    .cases = all_gather_cases, .n_case = RP_COUNT(all_gather_cases),
};
