/* train/ranks.c -- a run on several ranks: joins them, and combines the metrics of a step. */
#include <stdio.h>
#include <string.h>

#include "comm/comm.h"
#include "recipe/recipe.h"
#include "shard/ranks.h"
#include "train/internal.h"

/* ---- joining ---- */

static uint64_t hash_text(const char *text) { return rp__hash(text, strlen(text), RP_HASH_START); }

static rp_status check_number(const rp_trainer *t)
{
    const rp_recipe *r = t->recipe;
    int ranks          = rp__comm_ranks(rp__world(t->ctx));

    RP_CHECK(t->ctx, !r->dist.ranks.set || r->dist.ranks.value == ranks, RP_ERR_CONFIG,
             "dist.ranks is %" PRId64 ", but this is a run of %d rank%s: start it with --nproc %" PRId64 " or mpirun -n %" PRId64 ", or leave the key out",
             r->dist.ranks.value, ranks, ranks == 1 ? "" : "s", r->dist.ranks.value, r->dist.ranks.value);
    return RP_OK;
}

/* Compare the recipes before the ranks are split: a rank that splits differently would make the others wait forever. */
static rp_status check_recipe(const rp_trainer *t)
{
    rp_ctx *ctx   = t->ctx;
    uint64_t mine = hash_text(t->recipe_text), first = mine;

    RP_TRY(rp__comm_broadcast(ctx, rp__world(ctx), 0, &first, sizeof first, "the comparison of recipes"));
    RP_CHECK(ctx, mine == first, RP_ERR_CONFIG, "rank %d has another recipe than rank 0: all ranks of a run need the same",
             rp__comm_rank(rp__world(ctx)));
    return RP_OK;
}

rp_status rp__trainer_join(rp_trainer *t)
{
    rp_ctx *ctx = t->ctx;

    rp__ranks_slice(ctx, rp__recipe_slice_elems(t->recipe));
    RP_TRY(rp__comm_agree(ctx, rp__world(ctx), check_number(t)));
    if (rp__comm_ranks(rp__world(ctx)) == 1) return RP_OK;
    RP_TRY(rp__comm_agree(ctx, rp__world(ctx), check_recipe(t)));
    RP_TRY(rp__comm_agree(ctx, rp__world(ctx), rp__ranks_join(ctx, rp__world(ctx), t->recipe->dist.replicate_dim)));
    return rp__comm_agree(ctx, rp__world(ctx), rp__ranks_stay(ctx, rp__recipe_stay(t->recipe)));
}

/* ---- a line of metrics ---- */

/* Sums and maxima of the metrics that differ between ranks. All other metrics are equal. */
static void add_line(rp_metrics *sum, const rp_metrics *one)
{
    int64_t *const most[]      = { &sum->peak_memory_active, &sum->peak_memory_alloc, &sum->peak_memory_reserved, &sum->saved_bytes, &sum->rss };
    const int64_t from[]       = { one->peak_memory_active, one->peak_memory_alloc, one->peak_memory_reserved, one->saved_bytes, one->rss };

    for (int i = 0; i < RP_COUNT(most); i++)
        if (from[i] > *most[i]) *most[i] = from[i];
    sum->step_flops += one->step_flops;
    sum->recompute_flops += one->recompute_flops;
    sum->offloaded_bytes += one->offloaded_bytes;
    if (one->step_seconds > sum->step_seconds) sum->step_seconds = one->step_seconds;
}

rp_status rp__trainer_share_line(rp_trainer *t, rp_metrics *line)
{
    int ranks = rp__comm_ranks(rp__world(t->ctx));

    if (ranks == 1) return RP_OK;
    rp_metrics *all = rp__host_alloc(t->ctx, ranks * (int64_t)sizeof *all);
    if (!all) return RP_ERR_MEMORY;
    rp_status status = rp__comm_share(t->ctx, rp__world(t->ctx), line, sizeof *line, all, "the metrics of a step");
    if (status == RP_OK) *line = all[0];
    for (int r = 1; r < ranks && status == RP_OK; r++) add_line(line, &all[r]);
    line->tokens_per_second = line->step_seconds > 0 ? (double)line->tokens / line->step_seconds : 0;
    rp__release(all);
    return status;
}
