/* rehearse/find_bound.c -- computes the lower bounds of settings that find.h describes. */
#include <math.h>
#include <string.h>

#include "base/module_path.h"
#include "comm/comm.h"
#include "cost/cost.h"
#include "models/model.h"
#include "ops/collective.h"
#include "ops/linear_cross_entropy.h"
#include "ops/talk.h"
#include "optim/optim.h"
#include "plan/plan.h"
#include "rehearse/find.h"
#include "shard/ranks.h"
#include "tensor/tensor.h"

typedef struct { rp_meta whole; bool trained, in_block, head; } weight;

struct rp_find_bounds {
    rp_rehearsal *rehearsal;
    bool alone;                                 /* the rehearsal has the model of one rank */
    const rp_recipe *recipe;
    weight *weight;
    rp_dtype dtype;                             /* of activations */
    int n;
    bool all_trained;
    double micro[RP_FIND_MOST_BATCH + 1];       /* seconds of a micro-batch of that many samples; 0: not computed yet */
    rp_ctx *ctx;                                /* of rank 0 among the ranks and groups below */
    int64_t ranks, copies, stay;
};

/* ---- weights to gather ---- */

static void note_weight(rp_find_bounds *b, const rp_param *p)
{
    int64_t layer;
    weight *w = &b->weight[b->n++];

    *w = (weight){ .whole = p->whole, .trained = p->tensor->requires_grad, .in_block = rp_path_layer(p->path, &layer) && p->whole.ndim > 1,
                   .head = !strcmp(p->path, "output.weight") };
    b->all_trained = b->all_trained && w->trained;
}

static rp_status list_weights(rp_find_bounds *b)
{
    const rp_units *units = &b->rehearsal->engine.units;
    int n = 0;

    for (int u = 0; u < units->n_units; u++) n += units->unit[u].n_params;
    b->dtype  = rp__model_dtype(b->rehearsal->engine.model);
    b->weight = rp__host_alloc(b->rehearsal->caller, (n + 1) * (int64_t)sizeof *b->weight);
    if (!b->weight) return RP_ERR_MEMORY;
    for (int u = 0; u < units->n_units; u++)
        for (int i = 0; i < units->unit[u].n_params; i++) note_weight(b, units->unit[u].param[i]);
    return RP_OK;
}

rp_status rp__find_bounds_open(rp_rehearsal *r, const rp_recipe *recipe, rp_find_bounds **out)
{
    rp_find_bounds *b = rp__host_alloc(r->caller, sizeof *b);

    if (!b) return RP_ERR_MEMORY;
    *b               = (rp_find_bounds){ .rehearsal = r, .recipe = recipe, .all_trained = true };
    rp_status status = list_weights(b);
    if (status == RP_OK) status = rp__rehearsal_end(r, rp__rehearsal_ready(r));
    if (status != RP_OK) rp__find_bounds_close(b);
    else *out = b;
    return status;
}

static void close_ranks(rp_find_bounds *b)
{
    if (b->ctx) rp__ranks_leave(b->ctx);
    rp_ctx_free(b->ctx);
    b->ctx = NULL;
}

void rp__find_bounds_close(rp_find_bounds *b)
{
    if (!b) return;
    close_ranks(b);
    RP_RELEASE(b->weight, b);
}

/* ---- computing ---- */

/* A step on one rank that keeps everything; logits too, if the recipe allows it. */
static rp_status step_seconds(rp_find_bounds *b, int64_t batch, int64_t accumulation, double *out)
{
    rp_recipe recipe = rp__find_recipe(b->recipe, &(rp_setting){ .ranks = 1, .copies = 1, .batch_size = batch, .accumulation = accumulation });
    rp_plan *own;

    recipe.memory_budget.kind = RP_BUDGET_NONE;
    if (recipe.loss.keep_logits == RP_AUTO) recipe.loss.keep_logits = RP_YES;
    RP_TRY(rp__rehearsal_begin(b->rehearsal, &recipe, b->alone ? RP_ANEW_FATES : RP_ANEW_MODEL));
    b->alone = true;
    RP_TRY(rp__rehearsal_own(b->rehearsal, &own));
    *out = own->seconds;
    rp__plan_free(own);
    return RP_OK;
}

/* The difference of steps with one and two micro-batches: so the update does not count. */
static rp_status micro_seconds(rp_find_bounds *b, int64_t batch, double *out)
{
    double one, two;

    if (b->micro[batch] == 0) {
        RP_TRY(step_seconds(b, batch, 1, &one));
        RP_TRY(step_seconds(b, batch, 2, &two));
        b->micro[batch] = two - one;
    }
    *out = b->micro[batch];
    return RP_OK;
}

/* ---- communication ---- */

static rp_status open_ranks(rp_find_bounds *b, const rp_setting *s)
{
    const rp_ctx_options options = { .threads = 1, .shapes_only = true };

    if (b->ctx && b->ranks == s->ranks && b->copies == s->copies && b->stay == s->stay) return RP_OK;
    close_ranks(b);
    b->ranks  = s->ranks;
    b->copies = s->copies;
    b->stay   = s->stay;
    RP_CHECK(b->rehearsal->caller, rp_ctx_new(&options, &b->ctx) == RP_OK, RP_ERR_MEMORY, "cannot open a context for the bounds of a search");
    rp__ranks_slice(b->ctx, rp__recipe_slice_elems(b->recipe));
    rp_status status = rp__ranks_pretend(b->ctx, 0, (int)s->ranks, s->copies);
    if (status == RP_OK) status = rp__ranks_stay(b->ctx, s->stay);
    return status == RP_OK ? RP_OK : rp_fail(b->rehearsal->caller, status, "%s", b->ctx->error);
}

static double seconds_of(const rp_find_bounds *b, const rp_talk *talk) { return rp__cost_talk_seconds(b->rehearsal->costs, (int)b->ranks, talk); }

/* A sum that may run asynchronously is sent in one piece. */
static double sum_seconds(const rp_find_bounds *b, const rp_meta *whole, bool reduce_async)
{
    rp_talk talk = { .n = 0 };

    rp__talk_reduce(&talk, b->ctx, rp__group(b->ctx), whole);
    for (int i = 0; i < talk.n && reduce_async; i++) talk.leg[i].messages = talk.leg[i].ranks - 1;
    return seconds_of(b, &talk);
}

/* With inner groups, slices of far ranks are gathered to a part, then the part to the whole. Without them, all slices are gathered to the
 * whole. With `recompute`, the last of these runs twice, the second time for backward. */
static double gather_seconds(const rp_find_bounds *b, const weight *w, bool recompute)
{
    bool parts = rp__groups(b->ctx)->inner && w->in_block;
    rp_talk talk = { .n = 0 };

    if (parts) rp__talk_gather(&talk, b->ctx, &w->whole, RP_FROM_OUTER);
    for (int i = 0; i < 1 + recompute; i++) rp__talk_gather(&talk, b->ctx, &w->whole, parts ? RP_FROM_INNER : RP_FROM_ALL);
    return seconds_of(b, &talk);
}

/* For a head in a unit of its own, in forward and backward. */
static double head_seconds(const rp_find_bounds *b, const weight *w, int64_t batch)
{
    const rp_opt_int *chunks = &b->recipe->loss.num_output_chunks;
    rp_talk talk  = { .n = 0 };
    int64_t block =
        rp__head_block(b->ctx, batch * b->recipe->max_seq_len, w->whole.dim[0], rp_dtype_bytes(b->dtype), chunks->set ? chunks->value : 0) * w->whole.dim[1];

    for (int pass = 0; pass < 2; pass++) rp__talk_fetch(&talk, b->ctx, &w->whole, block);
    if (w->trained) rp__talk_send(&talk, b->ctx, &w->whole, block);
    return seconds_of(b, &talk);
}

typedef struct { double gathers, sums, head; } talk_seconds;    /* of a micro-batch · of all weights' gradients, once · of a micro-batch */

/* Weights of blocks are gathered a second time for backward unless a rule decides otherwise. */
static talk_seconds all_talk(const rp_find_bounds *b, const rp_setting *s)
{
    const rp_recipe *r = b->recipe;
    bool recompute         = s->reshard && b->all_trained && !r->activation_checkpointing.n_rules && !r->dist.modules_to_wrap.n;
    talk_seconds t     = { 0 };

    for (int i = 0; i < b->n && s->ranks > 1; i++) {
        const weight *w = &b->weight[i];
        if (w->head && s->recipes_units) continue;              /* in its own unit or not: not counted */
        if (w->head && s->own_units) {
            t.head = head_seconds(b, w, s->batch_size);
            continue;
        }
        t.gathers += gather_seconds(b, w, recompute && w->in_block);
        if (w->trained) t.sums += sum_seconds(b, &w->whole, s->reduce_async > 0);
    }
    return t;
}

/* ---- bytes ---- */

/* Bytes of n elements of a trained weight besides the weight itself. */
static int64_t overlap_bytes(const rp_recipe *r, const weight *w, int64_t n, const rp_setting *s)
{
    int64_t bytes    = 0;
    bool in_backward = r->optimizer_in_bwd == RP_YES || (r->optimizer_in_bwd == RP_AUTO && !r->clip_grad_norm.set && s->accumulation == 1);

    if (!r->dist.state_offload && r->optimizer.name == RP_OPTIMIZER_ADAMW) bytes += 2 * rp__optim_state_bytes(rp__recipe_states(r), n);
    if (!in_backward) bytes += n * rp_dtype_bytes(w->whole.dtype);
    return bytes;
}

static int64_t least_bytes(const rp_find_bounds *b, const rp_setting *s)
{
    int64_t bytes = 0;

    for (int i = 0; i < b->n; i++) {
        const weight *w = &b->weight[i];
        int64_t here    = rp__slice_in(b->ctx, rp__sliced_elems(&w->whole), 0, (int)(s->ranks / s->copies)).count;
        bytes += here * rp__sliced_bytes(w->whole.dtype) + (w->trained ? overlap_bytes(b->recipe, w, here, s) : 0);
    }
    return bytes;
}

/* ---- both bounds ---- */

/* Sums that are not asynchronous stop computing. All other communication may overlap with it, if the machine and the setting overlap at all. */
static double combine(const rp_find_bounds *b, const rp_setting *s, double micro, talk_seconds t)
{
    const rp_recipe *r = b->recipe;
    bool overlap        = rp__cost_overlaps(b->rehearsal->costs) && (r->dist.prefetch || s->reduce_async);
    double n = (double)s->accumulation, computing = n * micro, sums = (r->dist.sync_each_batch ? n : 1) * t.sums, talk = n * (t.gathers + t.head) + sums;

    if (!overlap) return computing + talk;
    return fmax(computing + (s->reduce_async ? 0 : sums), talk);
}

rp_status rp__find_bound(rp_find_bounds *b, const rp_setting *s, double *seconds, int64_t *bytes)
{
    double micro;

    RP_TRY(micro_seconds(b, s->batch_size, &micro));
    RP_TRY(open_ranks(b, s));
    *seconds = combine(b, s, micro, all_talk(b, s)) * (1 - 1e-9);
    *bytes   = least_bytes(b, s);
    return RP_OK;
}
