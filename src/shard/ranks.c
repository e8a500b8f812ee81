/* shard/ranks.c -- creates the groups of a world; sums a number over ranks. */
#include "shard/ranks.h"

#include "ops/collective.h"

static rp_status ranks_check(rp_ctx *ctx, int ranks, int64_t replicate_dim)
{
    RP_CHECK(ctx, ranks <= RP_MOST_RANKS, RP_ERR_UNSUPPORTED, "%d ranks are more than %d", ranks, RP_MOST_RANKS);
    RP_CHECK(ctx, replicate_dim >= 1 && ranks % replicate_dim == 0, RP_ERR_CONFIG,
             "dist.replicate_dim: %" PRId64 " copies of the weights do not divide %d ranks", replicate_dim, ranks);
    return RP_OK;
}

rp_status rp__ranks_join(rp_ctx *ctx, rp_comm *world, int64_t replicate_dim)
{
    rp_groups *g = rp__groups(ctx);
    int ranks    = rp__comm_ranks(world);

    RP_TRY(ranks_check(ctx, ranks, replicate_dim));
    g->world = world;
    if (ranks == 1) return RP_OK;
    int together = (int)(ranks / replicate_dim);
    RP_TRY(rp__comm_block(ctx, world, together, &g->shards));
    return replicate_dim == 1 ? RP_OK : rp__comm_across(ctx, world, together, &g->replicas);
}

void rp__ranks_slice(rp_ctx *ctx, int64_t elems) { rp__groups(ctx)->slice_elems = elems; }

rp_status rp__ranks_pretend(rp_ctx *ctx, int rank, int ranks, int64_t replicate_dim)
{
    if (ranks == 1) return RP_OK;
    RP_TRY(rp__comm_shapes(ctx, rank, ranks, &rp__groups(ctx)->world));
    rp__groups(ctx)->pretends = true;
    return rp__ranks_join(ctx, rp__world(ctx), replicate_dim);
}

rp_status rp__ranks_stay(rp_ctx *ctx, int64_t ranks)
{
    rp_groups *g = rp__groups(ctx);
    int all      = rp__comm_ranks(g->shards);

    if (!ranks || all == 1) return RP_OK;
    RP_CHECK(ctx, ranks > 1 && ranks < all && all % ranks == 0, RP_ERR_CONFIG,
             "dist.reshard_after_forward: groups of %" PRId64 " do not divide the %d ranks that share the weights (true means all of them, "
             "false means one)", ranks, all);
    RP_TRY(rp__comm_block(ctx, g->shards, (int)ranks, &g->inner));
    return rp__comm_across(ctx, g->shards, (int)ranks, &g->outer);
}

void rp__ranks_leave(rp_ctx *ctx)
{
    rp_groups *g = rp__groups(ctx);

    rp__comm_close(g->outer);
    rp__comm_close(g->inner);
    rp__comm_close(g->replicas);
    rp__comm_close(g->shards);
    if (g->pretends) rp__comm_close(g->world);
    *g = (rp_groups){ 0 };
}

/* ---- numbers ---- */

rp_status rp__ranks_sum(rp_ctx *ctx, rp_comm *over, double *value, const char *operation)
{
    int ranks = rp__comm_ranks(over);
    double all[RP_MOST_RANKS];          /* on the stack, so that no rank alone can run out of memory */

    if (ranks == 1) return RP_OK;
    RP_TRY(rp__comm_share(ctx, over, value, sizeof *value, all, operation));
    *value = all[0];
    for (int r = 1; r < ranks; r++) *value += all[r];
    return RP_OK;
}
