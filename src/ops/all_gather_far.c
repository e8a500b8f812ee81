/* ops/all_gather_far.c -- gathers a part of a sliced tensor: the slices of the outer group, this rank's own included (prefetch.h). The part is kept,
 * while the whole that all_gather makes of such parts is freed and gathered again. all_gather gives its gradient to the slice, not to the part. For
 * any other reader of the part, the gradient is the sum over the outer group.
 *
 *   in     x [room]           this rank's slice, zeros after its last element
 *   out    y [outer * room]   the slices, one after the other, in rank order
 */
#include "ops/talk.h"

enum { X };
enum { Y };

static rp_status all_gather_far_shape(rp_op_meta *m)
{
    const rp_meta *x = &m->in[X];
    rp_meta whole;

    RP_TRY(rp__check_whole(m, &whole));
    int64_t n = rp__sliced_elems(&whole), room = rp__slice_here(m->ctx, n).room;
    RP_CHECK(m->ctx, x->ndim == 1 && x->dim[0] == room, RP_ERR_SHAPE, "all_gather_far: x is %s, a slice has %" PRId64 " elements",
             rp_meta_str(x), room);
    m->out[Y]        = rp_meta_1d(x->dtype, rp__part_elems(m->ctx, n));
    m->scratch_bytes = rp__dense_room(m, x);
    if (x->dtype == RP_U8) return RP_OK;
    m->scratch_backward_bytes = rp__reduce_scratch(m->ctx, rp__groups(m->ctx)->outer, rp_meta_elems(&m->out[Y]), x->dtype == RP_F64 ? 8 : 4);
    return RP_OK;
}

static rp_cost all_gather_far_cost(const rp_op_meta *m, rp_pass pass)
{
    const rp_meta whole = rp__attr_whole(m);
    rp_cost cost        = rp__cost(m, pass, pass == RP_FORWARD ? 0 : rp_meta_elems(&m->out[Y]));

    cost.comm_bytes = rp__gather_sends(m->ctx, &whole, RP_FROM_OUTER);     /* backward sends a gradient of the same size */
    return cost;
}

void rp__all_gather_far_talk(const rp_op_meta *m, rp_pass pass, rp_talk *talk)
{
    const rp_meta whole = rp__attr_whole(m);

    if (pass == RP_BACKWARD) rp__talk_reduce(talk, m->ctx, rp__groups(m->ctx)->outer, &m->out[Y]);
    else rp__talk_gather(talk, m->ctx, &whole, RP_FROM_OUTER);
}

static void all_gather_far_forward(const rp_op_call *c)
{
    const rp_meta whole = rp__attr_whole(c->meta);

    rp__gather_slices(c, RP_FROM_OUTER, rp__dense_data(c->in[X], c->scratch), &whole, c->out[Y]);
}

static void all_gather_far_backward(const rp_op_call *c)
{
    rp__reduce_whole(c, rp__groups(c->ctx)->outer, &c->grad_out[Y]->m, rp__tensor_data(c->grad_out[Y]), c->grad_in[X], c->grad_adds[X]);
}

static const rp_op_case all_gather_far_cases[] = {
    { "a matrix", .in = { { 16 } }, .attr = &(rp_attr_whole){ 2, { 3, 5 }, 0 } },
    { "too long", .in = { { 32 } }, .attr = &(rp_attr_whole){ 2, { 3, 5 }, 0 }, .expect = RP_ERR_SHAPE },
    { "no whole", .in = { { 16 } }, .attr = &(rp_attr_whole){ 0 }, .expect = RP_ERR_ARG },
    { "negative", .in = { { 16 } }, .attr = &(rp_attr_whole){ 2, { -3, -5 }, 0 }, .expect = RP_ERR_ARG },
    { "too large", .in = { { 16 } }, .attr = &(rp_attr_whole){ 2, { INT64_MAX, 3 }, 0 }, .expect = RP_ERR_ARG },
    { "an empty whole", .in = { { 16 } }, .attr = &(rp_attr_whole){ 1, { 0 }, 0 }, .expect = RP_ERR_ARG },
};

const rp_op rp_op_all_gather_far = {
    .name = "all_gather_far", .n_in = 1, .n_out = 1, .attr_size = sizeof(rp_attr_whole), .flags = RP_OP_COLLECTIVE | RP_OP_REPLAYS,
    .wide_grad_in = RP_IN(X), .shape = all_gather_far_shape, .cost = all_gather_far_cost,
    .forward = all_gather_far_forward, .backward = all_gather_far_backward,
    .cases = all_gather_far_cases, .n_case = RP_COUNT(all_gather_far_cases),
};
