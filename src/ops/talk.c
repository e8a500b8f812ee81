/* ops/talk.c -- counts the messages of a call, their sizes and their groups (see talk.h). */
#include "ops/talk.h"

#include "ops/reduce_async.h"
#include "ops/streamed.h"

static const struct { const rp_op *op; rp_talk_of *of; } talkers[] = {
    { &rp_op_all_gather, rp__all_gather_talk },
    { &rp_op_all_gather_far, rp__all_gather_far_talk },
    { &rp_op_reduce_scatter, rp__reduce_scatter_talk },
    { &rp_op_linear_cross_entropy, rp__linear_cross_entropy_talk },
};

static void add_leg(rp_talk *talk, const rp_comm *group, int64_t rounds, int64_t bytes)
{
    int ranks = rp__comm_ranks(group);

    RP_BUG_IF(talk->n == RP_MOST_LEGS);
    if (ranks > 1 && bytes > 0)
        talk->leg[talk->n++] = (rp_leg){ .messages = rounds * (ranks - 1), .bytes = bytes, .ranks = ranks, .apart = rp__comm_apart(group) };
}

rp_talk rp__talk(const rp_op_meta *call, rp_pass pass, int64_t comm_bytes)
{
    rp_talk talk  = { .n = 0 };
    rp_comm *inner = rp__group(call->ctx);

    for (int i = 0; i < RP_COUNT(talkers); i++) {
        if (talkers[i].op != call->op) continue;
        if (comm_bytes > 0) talkers[i].of(call, pass, &talk);
        return talk;
    }
    if (comm_bytes > 0) talk.leg[talk.n++] = (rp_leg){ .messages = 1, .bytes = comm_bytes, .ranks = rp__comm_ranks(inner), .apart = rp__comm_apart(inner) };
    return talk;
}

/* ---- legs ---- */

/* A part consists of as many pieces as the outer group has ranks, one collective each (prefetch.c). */
void rp__talk_gather(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, rp_gather_from from)
{
    add_leg(talk, rp__gather_group(ctx, from), from == RP_FROM_INNER ? rp__comm_ranks(rp__groups(ctx)->outer) : 1, rp__gather_sends(ctx, whole, from));
}

/* The exchange of a group's sum of `elems` elements with the ranks that have the same slice, in `rounds` collectives. */
static void between(rp_talk *talk, const rp_ctx *ctx, int64_t rounds, int64_t elems, int64_t bytes)
{
    add_leg(talk, rp__groups(ctx)->replicas, rounds, (rp__comm_ranks(rp__groups(ctx)->replicas) - 1) * elems * (bytes == 8 ? 8 : 4));
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* A sum that fits into the buffer of reduce_async.h is sent in one piece. */
void rp__talk_reduce(rp_talk *talk, const rp_ctx *ctx, const rp_comm *group, const rp_meta *whole)
{
    int64_t n = rp_meta_elems(whole), bytes = rp_dtype_bytes(whole->dtype), room = rp__slice_in(ctx, n, 0, rp__comm_ranks(group)).room;
    bool left      = rp__ops_ctx(ctx)->reduce_async && rp__reduce_async_room(ctx, group, n, bytes) <= rp__reduce_async_bytes(ctx);
    int64_t stride = left ? room : rp__reduce_stride(ctx, group, n, bytes), pieces = ceil_div(room, stride);

    add_leg(talk, group, pieces, (rp__comm_ranks(group) - 1) * room * bytes);
    between(talk, ctx, pieces * ceil_div(stride, rp__between_stride(ctx, stride, bytes)), room, bytes);
}

/* The most elements of a window of `count` that one rank holds. */
static int64_t held(const rp_ctx *ctx, int64_t n, int64_t count)
{
    int64_t room = rp__slice_here(ctx, n).room;

    return room < count ? room : count;
}

void rp__talk_fetch(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, int64_t count)
{
    int64_t n = rp__sliced_elems(whole), stretches = ceil_div(rp_meta_elems(whole), count), others = rp__comm_ranks(rp__group(ctx)) - 1;
    int64_t most = held(ctx, n, rp__streamed_window(whole->dtype, count) / rp__sliced_bytes(whole->dtype));

    add_leg(talk, rp__group(ctx), stretches, stretches * others * most * rp__sliced_bytes(whole->dtype));
}

void rp__talk_send(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, int64_t count)
{
    int64_t n = rp_meta_elems(whole), stretches = ceil_div(n, count), others = rp__comm_ranks(rp__group(ctx)) - 1;
    int64_t bytes = rp_dtype_bytes(whole->dtype), most = held(ctx, n, count), stride = rp__window_stride(ctx, n, count);
    int64_t pieces = stretches * ceil_div(most, stride);

    add_leg(talk, rp__group(ctx), pieces, stretches * others * most * bytes);
    between(talk, ctx, pieces * ceil_div(stride, rp__between_stride(ctx, stride, bytes)), rp__slice_here(ctx, n).room, bytes);
}
