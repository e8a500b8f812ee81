/* rehearse/plan.c -- chooses how every step on full-length batches runs: the values kept for backward, and the address of each buffer.
 *
 *   the recipe's own step ──fits, without recomputing or offloading by preference──▶ done
 *      │ otherwise
 *   planned for the budget (plan/step.h) in every variant that the recipe leaves open: the update after backward or in it; the head's logits
 *   kept or recomputed. The fastest plan is used. If logits are open, even a step that fits may be planned, because kept logits are faster.
 */
#include <math.h>
#include <string.h>

#include "cost/cost.h"
#include "ops/prefetch.h"
#include "ops/reduce_async.h"
#include "plan/file.h"
#include "plan/plan.h"
#include "plan/problem.h"
#include "plan/time.h"
#include "rehearse/rehearsal.h"
#include "tape/offload.h"
#include "tape/tape.h"
#include "trace/graph.h"

bool rp__recipe_leaves_open(const rp_recipe *r)
{
    return r->activation_checkpointing.mode == RP_MODE_AUTO && rp__recipe_is_bounded(r);
}

/* ---- variants ---- */

static int plan_number_of(rp_step_variant v) { return 2 * v.in_backward + v.keeps_logits; }

rp_step_variant rp__recipe_variant(const rp_recipe *r)
{
    return (rp_step_variant){ .in_backward = r->optimizer_in_bwd == RP_YES, .keeps_logits = r->loss.keep_logits == RP_YES };
}

/* The update may run in backward if the recipe leaves that open and one micro-batch gives the whole gradient. */
static bool may_update_in_backward(const rp_recipe *r)
{
    return r->optimizer_in_bwd == RP_AUTO && !r->clip_grad_norm.set && r->gradient_accumulation_steps == 1;
}

static bool may_keep_logits(const rp_recipe *r) { return r->loss.keep_logits == RP_AUTO; }

/* The variants a plan may choose from; the recipe's own is the first. */
static int list_variants(const rp_recipe *r, rp_step_variant out[RP_STEP_VARIANTS])
{
    const rp_step_variant own = rp__recipe_variant(r);
    int n                 = 0;

    for (int backward = 0; backward <= may_update_in_backward(r); backward++)
        for (int logits = 0; logits <= may_keep_logits(r); logits++)
            out[n++] = (rp_step_variant){ .in_backward = own.in_backward || backward, .keeps_logits = own.keeps_logits || logits };
    return n;
}

/* ---- the rehearsed step ---- */

static rp_status run_step(const rp_question *q, rp_plan *how)
{
    rp_rehearsal *r    = q->self;
    rp_engine *e       = &r->engine;
    rp_overlap overlap = { .ctx = r->ctx, .buffer_bytes = rp__prefetch_bytes(r->ctx), .sums_bytes = rp__reduce_async_bytes(r->ctx) };
    bool overlaps      = (overlap.buffer_bytes || overlap.sums_bytes) && rp__cost_overlaps(r->costs);
    rp_step_time time  = { .costs = r->costs, .overlap = overlaps ? &overlap : NULL, .dtype = r->recipe->dtype == RP_TRAIN_BF16 ? RP_BF16 : RP_F32 };
    rp_step_result step;

    e->variant       = q->variant;
    e->follow        = how;
    e->time          = &time;
    rp_status status = rp__engine_step(e, NULL, 0, 0, &step);
    e->follow        = NULL;
    e->time          = NULL;
    time.to_memory   = rp__offload_in_memory(rp__tape_ctx(r->ctx)->offload);
    if (status == RP_OK && how) {
        how->found  = rp__step_usage(&step);
        how->budget = r->budget;
    }
    if (status == RP_OK) status = rp__step_compute_time(&time, &r->base[plan_number_of(q->variant)], how);
    rp__overlap_close(&overlap);
    rp__release(time.keep);
    return status;
}

/* ---- questions ---- */

static rp_question question_of(rp_rehearsal *r, rp_step_variant variant)
{
    return (rp_question){ .ctx = r->ctx, .owner = r->caller, .costs = r->costs, .run = run_step, .self = r, .variant = variant };
}

/* Each question is asked once and stays until questions are forgotten. */
static rp_status plan_ask(rp_rehearsal *r, rp_step_variant variant, rp_question **out)
{
    rp_question *q = &r->question[plan_number_of(variant)];

    *out = q;
    if (q->ctx) return RP_OK;
    *q               = question_of(r, variant);
    rp_status status = rp__question_ask(q);
    if (status == RP_OK) return RP_OK;
    rp__question_close(q);
    q->ctx = NULL;
    return status;
}

void rp__rehearsal_forget(rp_rehearsal *r)
{
    for (int i = 0; i < RP_STEP_VARIANTS; i++) {
        if (r->question[i].ctx) rp__question_close(&r->question[i]);
        r->question[i].ctx = NULL;
        r->base[i]         = (rp_overlap_base){ 0 };
    }
}

/* Takes over the plan; NULL: the recipe's own fates. */
static rp_status try_plan(rp_rehearsal *r, rp_plan *plan, rp_step_variant variant, rp_plan **out)
{
    const rp_question q = question_of(r, variant);

    return rp__step_try(&q, plan, RP_PLACE_ANY, out);
}

/* ---- a budget ---- */

/* Makes a plan in the question's variant, *out NULL: there is none. Sets the variant's time without replays. */
typedef rp_status plan_maker(rp_question *q, int64_t budget, rp_plan **out);

/* The recipe's own fates in the question's variant count as a plan, unless they keep everything as mode none does. */
static rp_status try_own(const rp_question *q, int64_t most, rp_step_better *better, rp_plan **best)
{
    const rp_rehearsal *r = q->self;
    rp_plan *own;

    if (r->own_keeps_all) return RP_OK;
    RP_TRY(rp__step_try(q, NULL, most, &own));
    if (own->placement.height <= most) rp__step_keep(best, own, better);
    else rp__plan_free(own);
    return RP_OK;
}

static rp_status within(rp_question *q, int64_t budget, rp_plan **out)
{
    RP_TRY(rp__step_within(q, budget, out));
    return rp__step_or_none(try_own(q, budget, rp__step_is_faster, out), out);
}

/* The recipe's own fates may need fewer bytes than any computed plan if its rules leave nothing open, or offload. */
static rp_status least_one(rp_question *q, int64_t unused, rp_plan **out)
{
    (void)unused;
    RP_TRY(rp__step_least(q, out));
    return try_own(q, (*out)->placement.height - 1, rp__step_is_smaller, out);
}

/* Also for a variant without a plan: another schedule may fit the budget. */
static rp_status bound_one(rp_question *q, int64_t budget, rp_plan_bounds *bounds)
{
    const rp_rehearsal *r = q->self;
    rp_plan_bounds b;

    RP_TRY(rp__step_bounds(q, &r->base[plan_number_of(q->variant)], budget, &b));
    *bounds = (rp_plan_bounds){ fmin(bounds->any, b.any), fmin(bounds->blocks, b.blocks) };
    return RP_OK;
}

/* Plans one variant. Lowers *bounds to the least of all variants so far. budget 0: the plan's own bytes. */
static rp_status make_one(rp_rehearsal *r, rp_step_variant variant, int64_t budget, plan_maker *make, rp_plan **out, rp_plan_bounds *bounds)
{
    rp_question *q;

    *out             = NULL;
    rp_status status = plan_ask(r, variant, &q);
    if (status == RP_OK) status = make(q, budget, out);
    if (status == RP_OK) status = bound_one(q, budget ? budget : (*out)->placement.height, bounds);
    return rp__step_or_none(status, out);
}

static void set_bounds(rp_plan *p, const rp_plan_bounds *bounds)
{
    p->bound_seconds       = fmax(0, bounds->any - p->seconds);
    p->block_bound_seconds = fmax(0, bounds->blocks - p->seconds);
}

/* Plans every variant. The lower bound is the least of all variants' bounds. */
static rp_status best_of(rp_rehearsal *r, int64_t budget, plan_maker *make, rp_step_better *better, rp_plan **out)
{
    rp_step_variant variant[RP_STEP_VARIANTS];
    int n                 = list_variants(r->recipe, variant);
    rp_plan_bounds bounds = { INFINITY, INFINITY };
    rp_status status      = RP_OK;

    *out = NULL;
    for (int i = 0; i < n && status == RP_OK; i++) {
        rp_plan *one;
        status = make_one(r, variant[i], budget, make, &one, &bounds);
        if (status == RP_OK) rp__step_keep(out, one, better);
    }
    if (*out) set_bounds(*out, &bounds);
    return rp__step_or_none(status, out);
}

/* ---- the base of overheads ---- */

static rp_status find_base(rp_rehearsal *r, rp_plan *p)
{
    rp_step_variant variant[RP_STEP_VARIANTS];
    int n = list_variants(r->recipe, variant);

    p->base_seconds = p->seconds;
    for (int i = 0; i < n; i++) {
        const double *seconds = &r->base[plan_number_of(variant[i])].seconds;
        rp_plan *one          = NULL;
        if (plan_number_of(variant[i]) == plan_number_of(p->variant)) continue;
        if (*seconds == 0) RP_TRY(try_plan(r, NULL, variant[i], &one));
        rp__plan_free(one);
        p->base_seconds = fmin(p->base_seconds, *seconds);
    }
    return RP_OK;
}

/* Sets the plan's base; frees the plan if that fails. */
static rp_status with_base(rp_rehearsal *r, rp_plan **step)
{
    return *step ? rp__step_or_none(find_base(r, *step), step) : RP_OK;
}

static rp_status small_one(rp_question *q, int64_t unused, rp_plan **out)
{
    (void)unused;
    return rp__step_small(q, out);
}

rp_status rp__rehearsal_small(rp_rehearsal *r, rp_plan **out)
{
    RP_TRY(rp__rehearsal_ready(r));
    return rp__rehearsal_end(r, best_of(r, 0, small_one, rp__step_is_smaller, out));
}

rp_status rp__rehearsal_least(rp_rehearsal *r, rp_plan **out)
{
    RP_TRY(rp__rehearsal_ready(r));
    rp_status status = best_of(r, 0, least_one, rp__step_is_smaller, out);
    return rp__rehearsal_end(r, status == RP_OK ? with_base(r, out) : status);
}

/* ---- many budgets ---- */

typedef struct { rp_question *each[RP_STEP_VARIANTS]; int n; int64_t least, most; } curve;

/* The fastest step without a budget: the recipe's own, or, if that recomputes, a plan if it is faster. */
static rp_status roomiest(rp_question *q, rp_plan **best)
{
    rp_plan *own, *planned;

    RP_TRY(try_plan(q->self, NULL, q->variant, &own));
    bool recompute = own->found.recompute_flops > 0;
    rp__step_keep(best, own, rp__step_is_faster);
    if (!recompute) return RP_OK;
    RP_TRY(within(q, INT64_MAX / 4, &planned));
    rp__step_keep(best, planned, rp__step_is_faster);
    return RP_OK;
}

/* The right end is the fastest step that keeps everything. */
static rp_status open_curve(rp_rehearsal *r, curve *c, rp_plan **end)
{
    bool in_backward = r->recipe->optimizer_in_bwd == RP_YES || may_update_in_backward(r->recipe);
    rp_step_variant variant[RP_STEP_VARIANTS];
    int n = list_variants(r->recipe, variant);

    *c = (curve){ .least = INT64_MAX };
    for (int i = 0; i < n; i++) {
        rp_question *q;
        int64_t least;
        if (variant[i].in_backward != in_backward) continue;
        RP_TRY(plan_ask(r, variant[i], &q));
        c->each[c->n++] = q;
        RP_TRY(roomiest(q, end));
        RP_TRY(rp__plan_least(r->ctx, &q->problem, &least));
        if (least < c->least) c->least = least;
    }
    c->most = (*end)->budget = (*end)->placement.height;
    return RP_OK;
}

static rp_status plan_point(curve *c, int64_t budget, rp_plan **out)
{
    for (int i = 0; i < c->n; i++) {
        rp_plan *one;
        RP_TRY(within(c->each[i], budget, &one));
        rp__step_keep(out, one, rp__step_is_faster);
    }
    if (*out) (*out)->budget = budget;
    return RP_OK;
}

/* A plan for a smaller budget also fits this one; if it is faster, it is planned again. *at: the budget for which the fastest plan so far was made. */
static rp_status no_slower(curve *c, const rp_plan *before, int64_t *at, rp_plan **step)
{
    int64_t budget = (*step)->budget;

    if (!before || !rp__step_is_faster(before, *step)) {
        *at = budget;
        return RP_OK;
    }
    RP_TRY(plan_point(c, *at, step));
    (*step)->budget = budget;
    return RP_OK;
}

/* Finds the first budget from `from` on that has a plan, in steps of a small part of the curve. If there is none up to `to`, *out stays NULL. */
static rp_status first_point(curve *c, int64_t from, int64_t to, rp_plan **out)
{
    int64_t more = (c->most - c->least) / 1024 + 1;

    for (int64_t budget = from; !*out && budget <= to; budget += more) RP_TRY(plan_point(c, budget, out));
    return RP_OK;
}

/* Length of the curve between two points: its share of all bytes plus its share of all seconds. */
static double stretch(const curve *c, const rp_plan *least, const rp_plan *end, const rp_plan *a, const rp_plan *b)
{
    double bytes = (double)(b->budget - a->budget) / (double)(c->most - c->least + 1), all = fabs(rp__step_seconds(least) - rp__step_seconds(end));

    return b->budget - a->budget < 2 * RP_ALIGN ? 0 : bytes + (all > 0 ? fabs(rp__step_seconds(a) - rp__step_seconds(b)) / all : 0);
}

/* Halves the longest stretch. steps[0 … m - 1] have rising budgets; `end` follows them. *m does not change if no stretch can be halved. */
static rp_status add_point(curve *c, rp_plan **steps, const rp_plan *end, int *m)
{
    rp_plan *one = NULL;
    double longest    = 0;
    int at            = 0;

    for (int i = 0; i < *m; i++) {
        double length = stretch(c, steps[0], end, steps[i], i + 1 < *m ? steps[i + 1] : end);
        if (length > longest) at = i;
        longest = fmax(longest, length);
    }
    int64_t low = steps[at]->budget, high = at + 1 < *m ? steps[at + 1]->budget : end->budget;
    if (longest > 0) RP_TRY(first_point(c, low + (high - low) / 2, high - 1, &one));
    if (!one) return RP_OK;
    memmove(steps + at + 2, steps + at + 1, (size_t)(*m - at - 1) * sizeof *steps);
    steps[at + 1] = one;
    ++*m;
    return RP_OK;
}

static rp_status spread_points(curve *c, rp_plan **steps, int n)
{
    int64_t at = 0;
    int m      = 0, before = -1;

    RP_TRY(first_point(c, c->least, c->most, &steps[0]));
    if (!steps[0]) return RP_OK;
    for (m = 1; m < n - 1 && m != before;) {
        before = m;
        RP_TRY(add_point(c, steps, steps[n - 1], &m));
    }
    for (int i = 0; i < m; i++) RP_TRY(no_slower(c, i ? steps[i - 1] : NULL, &at, &steps[i]));
    return RP_OK;
}

rp_status rp__rehearsal_curve(rp_rehearsal *r, rp_plan **steps, int n)
{
    curve c;

    RP_TRY(rp__rehearsal_ready(r));
    rp_status status = open_curve(r, &c, &steps[n - 1]);
    if (status == RP_OK && n > 1) status = spread_points(&c, steps, n);
    return rp__rehearsal_end(r, status);
}

rp_status rp__rehearsal_own(rp_rehearsal *r, rp_plan **out)
{
    RP_TRY(rp__rehearsal_ready(r));
    return rp__rehearsal_end(r, try_plan(r, NULL, rp__recipe_variant(r->recipe), out));
}

rp_status rp__rehearsal_own_fastest(rp_rehearsal *r, rp_plan **out)
{
    rp_step_variant variant[RP_STEP_VARIANTS];
    int n            = list_variants(r->recipe, variant);
    rp_status status = RP_OK;

    *out = NULL;
    RP_TRY(rp__rehearsal_ready(r));
    for (int i = 0; i < n && status == RP_OK; i++) {
        rp_plan *one = NULL;
        status            = try_plan(r, NULL, variant[i], &one);
        rp__step_keep(out, one, rp__step_is_faster);
    }
    return rp__rehearsal_end(r, rp__step_or_none(status, out));
}

/* ---- files ---- */

/* The trace of the variant that r->steps has, with open fates. */
static rp_status write_graph(rp_rehearsal *r, const char *path)
{
    rp_step_variant variant = r->steps->variant;
    rp_question *q;

    RP_TRY(plan_ask(r, variant, &q));
    double other = r->base[plan_number_of(variant)].seconds - q->trace.seconds;
    return rp__graph_write(r->caller, path, &q->trace, r->budget, fmax(0, other));
}

rp_status rp__rehearsal_write_graph(rp_rehearsal *r, const char *path)
{
    RP_TRY(rp__rehearsal_begin_open(r));
    rp__rehearsal_forget(r);
    RP_TRY(rp__rehearsal_ready(r));
    return rp__rehearsal_end(r, write_graph(r, path));
}

static rp_plan_stamp stamp_of(const rp_rehearsal *r, char optimizer[RP_OPTIMIZER_CHARS])
{
    return (rp_plan_stamp){ rp_version(), rp__cost_machine(r->costs), r->ctx->threads, rp__cost_hash(r->costs), r->budget,
                            rp__optimizer_text(r->recipe, optimizer), rp__step_stands(r->ctx) };
}

static rp_status no_plan(rp_question *q, int64_t budget, rp_plan **out)
{
    (void)q, (void)budget, (void)out;
    return RP_OK;
}

/* Sets the same bounds that the plan got when it was made. */
static rp_status bound_file(rp_rehearsal *r, rp_plan *p)
{
    rp_step_variant variant[RP_STEP_VARIANTS];
    int n                 = list_variants(r->recipe, variant);
    rp_plan_bounds bounds = { INFINITY, INFINITY };
    rp_plan *none;

    for (int i = 0; i < n; i++) RP_TRY(make_one(r, variant[i], r->budget ? r->budget : p->placement.height, no_plan, &none, &bounds));
    set_bounds(p, &bounds);
    return RP_OK;
}

static rp_status plan_of_text(rp_rehearsal *r, const rp_plan_text *text, const rp_plan_stamp *stamp, rp_plan **out)
{
    rp_step_variant variant = rp__plan_text_variant(text);
    rp_plan *plan           = NULL;
    rp_question *q;

    rp_status status = plan_ask(r, variant, &q);
    if (status == RP_OK) status = rp__plan_from_text(r->ctx, text, &q->problem, stamp, &plan);
    if (status == RP_OK) status = try_plan(r, plan, variant, out);
    if (status == RP_OK) status = bound_file(r, *out);
    return rp__step_or_none(status, out);
}

/* A file without a plan stands for the recipe's own step, if that is the step for which the file was made. */
static rp_status plan_of_nothing(rp_rehearsal *r, const rp_plan_text *text, const rp_plan_stamp *stamp, rp_plan **out)
{
    RP_TRY(rp__plan_text_check(r->ctx, text, stamp));
    return try_plan(r, NULL, rp__plan_text_variant(text), out);
}

static rp_status plan_of_file(rp_rehearsal *r, rp_plan **out)
{
    char optimizer[RP_OPTIMIZER_CHARS];
    rp_plan_text *text;

    RP_TRY(rp__plan_read(r->ctx, r->recipe->plan, &text));
    const rp_plan_stamp stamp = stamp_of(r, optimizer);
    rp_status status = (rp__plan_text_is_empty(text) ? plan_of_nothing : plan_of_text)(r, text, &stamp, out);
    rp__plan_text_free(text);
    return status;
}

/* Whether the recipe's own step offloads values that may stay: a plan then decides how many. */
static rp_status may_stay(rp_rehearsal *r, const rp_plan *own, bool *out)
{
    rp_question *q;

    *out = false;
    if (!own->found.offloaded_bytes) return RP_OK;
    RP_TRY(plan_ask(r, own->variant, &q));
    *out = q->problem.resident.pass != NULL;
    return RP_OK;
}

static rp_status solve(rp_rehearsal *r, int64_t budget, rp_plan **out)
{
    double began         = rp__seconds();
    rp_status status     = best_of(r, budget, within, rp__step_is_faster, out);
    r->solve_seconds = rp__seconds() - began;
    return status;
}

/* The recipe's own step fits. A plan may still be better if that step recomputes or offloads by preference, or if logits are open. If it
 * offloads by preference, the plan is used; otherwise the faster of the two. */
static rp_status settle_own(rp_rehearsal *r, int64_t budget, rp_plan *own, rp_plan **out)
{
    bool resident;

    RP_TRY(may_stay(r, own, &resident));
    if (resident || own->found.recompute_flops || may_keep_logits(r->recipe)) RP_TRY(solve(r, budget, out));
    if (resident && *out) {
        rp__plan_free(own);
        return RP_OK;
    }
    rp__step_keep(&own, *out, rp__step_is_faster);
    *out = own;
    return RP_OK;
}

static rp_status plan_step(rp_rehearsal *r, int64_t budget, rp_plan **out, int64_t *own_bytes)
{
    bool of_file      = r->recipe->plan && !r->micro;      /* a plan file is for full-length batches */
    rp_plan *own = NULL;

    *out = NULL;
    if (of_file) RP_TRY(plan_of_file(r, &own));
    else RP_TRY(try_plan(r, NULL, rp__recipe_variant(r->recipe), &own));
    *own_bytes       = own->placement.height;
    r->own_keeps_all    = !own->found.recompute_flops && !own->found.offloaded_bytes;
    r->keep_all_seconds = own->found.recompute_flops || own->found.offloaded_bytes ? 0 : own->seconds;
    bool fits        = !budget || *own_bytes <= budget, open = budget && rp__recipe_leaves_open(r->recipe) && !of_file;
    rp_status status = RP_OK;
    if (fits && !open) *out = own;
    else if (fits) status = settle_own(r, budget, own, out);
    else if (open) status = solve(r, budget, out);
    if (status != RP_OK || !fits) rp__plan_free(own);
    return status == RP_OK ? with_base(r, out) : status;
}

rp_status rp__rehearsal_plan(rp_rehearsal *r, int64_t budget, rp_plan **out, int64_t *own_bytes)
{
    *out = NULL;
    rp__rehearsal_forget(r);
    RP_TRY(rp__rehearsal_ready(r));
    return rp__rehearsal_end(r, plan_step(r, budget, out, own_bytes));
}
