/* plan/step.c -- finds plans for a budget, and tries their steps on shapes until the arena fits too. */
#include "plan/step.h"
#include "tape/tape.h"

#include <math.h>

/* Tries for a budget · tries after the first that fits · rounds of shrinking below the minimum, and buffers placed in these rounds. */
enum { MOST_TRIES = 64, MOST_MORE = 16, MOST_LESS = 32, MOST_BUFFERS = 20000 };

rp_status rp__step_or_none(rp_status status, rp_plan **out)
{
    if (status == RP_OK) return RP_OK;
    rp__plan_free(*out);
    *out = NULL;
    return status;
}

/* ---- following a plan ---- */

static void add_stretch(void *user, int64_t offset, int64_t bytes)
{
    uint64_t *hash = user;
    int64_t at[2]  = { offset, bytes };

    *hash = rp__hash(at, sizeof at, *hash);
}

uint64_t rp__step_stands(const rp_ctx *ctx)
{
    uint64_t hash = RP_HASH_START;

    rp__mem_used(ctx->space[0], add_stretch, &hash);
    return hash;
}

rp_status rp__step_follow(rp_ctx *ctx, rp_plan *p)
{
    RP_TRY(rp__tape_open(ctx));
    if (!p) {
        rp__plan_follow(ctx, NULL);
        rp__mem_follow(ctx->space[0], NULL, 0);
        return RP_OK;
    }
    RP_CHECK(ctx, !p->place || rp__step_stands(ctx) == p->before, RP_ERR_STATE, "the live memory before the step differs from the plan, in size or address");
    rp__plan_follow(ctx, p->chosen ? p : NULL);
    rp__mem_follow(ctx->space[0], p->place, p->n_places);
    return RP_OK;
}

/* ---- trying a step on shapes ---- */

static rp_status step_note(const rp_question *q, int64_t most, rp_plan *p)
{
    rp_place_log *log;

    p->before        = rp__step_stands(q->ctx);
    RP_TRY(rp__place_log_begin(q->ctx, &log));
    rp_status status = q->run(q, p);
    rp_status noted  = rp__place_log_end(log, most, &p->place, &p->n_places, &p->placement);
    return status == RP_OK ? noted : status;
}

static void name_costs(const rp_cost_table *costs, rp_plan *p)
{
    p->costs    = rp__cost_hash(costs);
    p->measured = rp__cost_measured(costs);
    snprintf(p->machine, sizeof p->machine, "%s", rp__cost_machine(costs));
}

rp_status rp__step_try(const rp_question *q, rp_plan *p, int64_t most, rp_plan **out)
{
    if (!p) p = rp__host_alloc(q->owner, sizeof *p);
    if (!p) return RP_ERR_MEMORY;
    p->bump.ctx = q->owner;
    p->variant  = q->variant;
    name_costs(q->costs, p);
    rp_status status = step_note(q, most, p);
    if (status == RP_OK) *out = p;
    else rp__plan_free(p);
    return status;
}

/* ---- the question ---- */

rp_status rp__question_ask(rp_question *q)
{
    rp_tracer *tracer;

    RP_TRY(rp__trace_begin(q->ctx, q->costs, &tracer));
    rp_status status = q->run(q, NULL);
    rp_status ended  = rp__trace_end(tracer, &q->trace);
    if (status == RP_OK) status = ended;
    return status == RP_OK ? rp__plan_problem(q->ctx, &q->trace, &q->problem) : status;
}

void rp__question_close(rp_question *q)
{
    rp__plan_problem_close(&q->problem);
    rp__trace_close(&q->trace);
}

/* ---- a budget ---- */

/* Returns the next byte limit after the arena of a plan of `bytes` was too large: one byte less. After many tries, an eighth of the
 * distance to `least` less, and finally `least`. */
static int64_t next_below(int64_t bytes, int64_t least, int tries)
{
    int64_t far = bytes - 1 - (bytes - least) / 8;

    if (tries < MOST_TRIES) return bytes - 1;
    return rp__align_up(far) > least ? far : least;
}

/* Offloaded values are prefetched. If segments differ, more can be live than the solver counts, because other values overlap with the
 * prefetch. The excess is then subtracted from the next limit. */
static int64_t next_most(const rp_plan *p, int64_t budget, int64_t least, int tries)
{
    int64_t bytes = p->facts.bytes, most = next_below(bytes, least, tries), excess = p->placement.bound - budget;

    if (p->facts.offload_seconds <= 0 || excess <= 0 || bytes - excess >= most) return most;
    return bytes - excess > least ? bytes - excess : least;
}

/* Returns the next byte limit after a plan was tried; below `least`: stop. Recomputing forced by rules may take longer than the solver
 * counts. Then a plan of fewer bytes may be faster. */
static int64_t next_after(const rp_plan *p, int64_t budget, int64_t least, int tries)
{
    const rp_plan_facts *reckoned = &p->facts;
    bool over = p->placement.height > budget, slower = p->recompute_seconds > reckoned->recompute_seconds + RP_STEP_SAME * rp__step_seconds(p);

    if (reckoned->bytes <= least || (!over && !slower)) return least - 1;
    return over ? next_most(p, budget, least, tries) : next_below(reckoned->bytes, least, tries);
}

/* ---- one search ---- */

/* The search of one problem for a budget. `best` is shared by all searches of a question. */
typedef struct {
    const rp_question *question;
    const rp_plan_problem *problem;
    int64_t budget, least;              /* least: by the solver's count */
    bool cut;                           /* some plans were skipped */
    int64_t *buffers;                   /* buffers that may still be placed, a work limit; NULL: no limit */
    rp_plan **best;                     /* NULL at first, then a plan that fits the budget */
} walk;

/* Try the fastest plan of at most `most` bytes by the solver's count. *out NULL: none exists, or it is not faster than the best by the
 * solver's count. */
static rp_status next_plan(walk *w, int64_t most, rp_plan **out)
{
    const rp_plan *best = *w->best;
    rp_plan *plan;

    *out = NULL;
    RP_TRY(rp__plan_solve(w->question->ctx, w->problem, most, &plan));
    if (!plan) return RP_OK;
    if (!best || plan->facts.recompute_seconds < best->recompute_seconds - RP_STEP_SAME * rp__step_seconds(best))
        return rp__step_try(w->question, plan, w->budget, out);
    rp__plan_free(plan);
    return RP_OK;
}

/* The solver counts must-keep values for as long as they could be live, so the least plan may take less than counted. It is tried in any
 * case. */
static rp_status walk_down(walk *w)
{
    int64_t most = w->budget > w->least ? w->budget : w->least;

    for (int i = 0, more = 0; most >= w->least && more <= MOST_MORE; i++) {
        rp_plan *one;
        if (w->buffers && *w->buffers <= 0) w->cut = true;
        if (w->cut && w->buffers) break;
        RP_TRY(next_plan(w, most, &one));
        if (!one) break;
        if (w->buffers) *w->buffers -= one->n_places;
        most   = next_after(one, w->budget, w->least, i);
        w->cut = w->cut || i >= MOST_TRIES;
        more += *w->best != NULL;
        if (one->placement.height <= w->budget) rp__step_keep(w->best, one, rp__step_is_faster);
        else rp__plan_free(one);
    }
    return RP_OK;
}

/* ---- the views of a question ---- */

/* Find the best plan of all views that fits the budget. Each view is another way to cut the step into segments, or excludes offloading. So
 * allowing offloading makes no plan worse, even if its cost is misjudged: offloading has to beat plans without it. *out may be NULL. */
static rp_status walk_views(rp_question *q, int64_t budget, int64_t *buffers, bool *cut,
                            rp_plan **out)
{
    rp_plan_problem view[RP_PLAN_VIEWS];
    int n            = rp__plan_views(&q->problem, view);
    rp_status status = RP_OK;

    for (int i = 0; i < n && status == RP_OK; i++) {
        walk w = { .question = q, .problem = &view[i], .budget = budget, .buffers = buffers, .best = out };
        status = rp__plan_least(q->ctx, w.problem, &w.least);
        if (status == RP_OK) status = walk_down(&w);
        *cut = *cut || w.cut;
    }
    return status;
}

/* ---- the modes ---- */

static bool may_be_better(const rp_known_mode *known, int64_t most, rp_step_better *better, const rp_plan *best)
{
    if (!known->is_there || known->live > most) return false;
    if (better != rp__step_is_faster || !best || best->hidden_seconds > 0) return true;    /* with overlap, seconds do not add up */
    return known->recompute_seconds < best->recompute_seconds - RP_STEP_SAME * rp__step_seconds(best);
}

/* Compute the figures of a mode if they are unknown. *plan: the mode's plan if it was made for this, else NULL. */
static rp_status know_mode(rp_question *q, int mode, rp_plan **plan)
{
    rp_known_mode *known = &q->mode[mode];

    *plan = NULL;
    if (known->reckoned) return RP_OK;
    RP_TRY(rp__plan_mode(q->ctx, &q->problem, mode, plan));
    *known = (rp_known_mode){ .reckoned = true, .is_there = *plan };
    if (!*plan) return RP_OK;
    known->recompute_seconds = (*plan)->facts.recompute_seconds;
    known->live              = (*plan)->facts.bytes;
    return RP_OK;
}

/* Rehearse a mode to get its addresses, if it may fit into `most` bytes and be better. */
static rp_status try_mode(rp_question *q, int mode, int64_t most, rp_step_better *better, rp_plan **best)
{
    rp_known_mode *known = &q->mode[mode];
    rp_plan *one;
    rp_plan *plan;

    RP_TRY(know_mode(q, mode, &plan));
    if (!may_be_better(known, most, better, *best)) {
        rp__plan_free(plan);
        return RP_OK;
    }
    if (!plan) RP_TRY(rp__plan_mode(q->ctx, &q->problem, mode, &plan));
    if (*best) plan->facts.left = (*best)->facts.left;       /* left out by the search that found no better one */
    RP_TRY(rp__step_try(q, plan, most, &one));
    if (one->placement.height <= most) rp__step_keep(best, one, better);
    else rp__plan_free(one);
    return RP_OK;
}

static rp_status try_modes(rp_question *q, int64_t most, rp_step_better *better, rp_plan **best)
{
    for (int mode = 0; mode < RP_PLAN_MODES; mode++) RP_TRY(try_mode(q, mode, most, better, best));
    return RP_OK;
}

/* ---- the smallest arena ---- */

/* Try the plan that takes least by the solver's count. */
static rp_status try_least(rp_question *q, const rp_plan_problem *problem, int64_t budget, rp_plan **best)
{
    rp_plan *one;
    rp_plan *plan;

    RP_TRY(rp__plan_solve(q->ctx, problem, budget, &plan));
    RP_BUG_IF(!plan);
    RP_TRY(rp__step_try(q, plan, *best ? (*best)->placement.height - 1 : RP_PLACE_ANY, &one));
    rp__step_keep(best, one, rp__step_is_smaller);
    return RP_OK;
}

/* A plan with a larger count may need a smaller arena. Values may be live for a shorter time than counted, or the arena of the least plan
 * may have holes. So the budget is reduced until no plan fits, or until the work limit is reached. The result is then marked at_most. */
static rp_status shrink(rp_question *q, int64_t least, rp_plan **best)
{
    int64_t buffers = MOST_BUFFERS;
    bool cut        = false;

    for (int i = 0; i < MOST_LESS && !cut; i++) {
        rp_plan *smaller = NULL;
        int64_t budget        = (*best)->placement.height - 1;
        if (budget < least) return RP_OK;       /* only the least plans have so small a count, and they have been tried */
        rp_status status = walk_views(q, budget, &buffers, &cut, &smaller);
        if (status == RP_OK && !smaller && !cut) return RP_OK;
        if (status == RP_OK) rp__step_keep(best, smaller, rp__step_is_smaller);
        else rp__plan_free(smaller);
        RP_TRY(status);
    }
    (*best)->at_most = true;
    return RP_OK;
}

static rp_status find_least(rp_question *q, rp_plan **best)
{
    rp_plan_problem view[RP_PLAN_VIEWS];
    int n         = rp__plan_views(&q->problem, view);
    int64_t least = INT64_MAX;

    for (int i = 0; i < n; i++) {
        int64_t bytes;
        RP_TRY(rp__plan_least(q->ctx, &view[i], &bytes));
        if (bytes < least) least = bytes;
        RP_TRY(try_least(q, &view[i], bytes, best));
    }
    RP_TRY(try_modes(q, (*best)->placement.height - 1, rp__step_is_smaller, best));
    return shrink(q, least, best);
}

rp_status rp__step_small(rp_question *q, rp_plan **out)
{
    rp_plan_problem view[RP_PLAN_VIEWS];
    int n         = rp__plan_views(&q->problem, view), best = 0;
    int64_t least = INT64_MAX, bytes;

    *out = NULL;
    for (int i = 0; i < n; i++) {
        RP_TRY(rp__plan_least(q->ctx, &view[i], &bytes));
        if (bytes < least) best = i;
        if (bytes < least) least = bytes;
    }
    return rp__step_or_none(try_least(q, &view[best], least, out), out);
}

rp_status rp__step_least(rp_question *q, rp_plan **out)
{
    *out = NULL;
    return rp__step_or_none(find_least(q, out), out);
}

/* ---- a budget ---- */

/* If the search found no plan, the plan with the smallest arena may still fit. So no budget above the minimum is rejected. */
static rp_status find_within(rp_question *q, int64_t budget, rp_plan **out)
{
    bool cut = false;

    RP_TRY(walk_views(q, budget, NULL, &cut, out));
    RP_TRY(try_modes(q, budget, rp__step_is_faster, out));
    if (!*out && q->trace.outside > budget) return RP_OK;       /* memory outside passes alone exceeds the budget */
    if (!*out) RP_TRY(find_least(q, out));
    if ((*out)->placement.height <= budget) return RP_OK;
    rp__plan_free(*out);
    *out = NULL;
    return RP_OK;
}

rp_status rp__step_within(rp_question *q, int64_t budget, rp_plan **out)
{
    *out = NULL;
    return rp__step_or_none(find_within(q, budget, out), out);
}

/* ---- bounds ---- */

/* The trace rounds the seconds of calls, so the bound is reduced by the error that the order of additions may cause. */
static double bound_of(const rp_overlap_base *base, double recompute)
{
    return base->seconds + fmax(0, rp__overlap_bound(base, recompute) - RP_STEP_SAME * base->seconds);
}

/* A mode may not be among the chain's plans, so the bound is the smaller of both. It does not depend on which plans were rehearsed, so it
 * equals the bound in a plan file. */
static rp_status bound_modes(rp_question *q, int64_t budget, rp_plan_bounds *out)
{
    for (int mode = 0; mode < RP_PLAN_MODES; mode++) {
        const rp_known_mode *known = &q->mode[mode];
        rp_plan *plan;
        RP_TRY(know_mode(q, mode, &plan));
        rp__plan_free(plan);
        if (known->is_there && known->live <= budget) out->blocks = fmax(out->any, fmin(out->blocks, known->recompute_seconds));
    }
    return RP_OK;
}

rp_status rp__step_bounds(rp_question *q, const rp_overlap_base *base, int64_t budget, rp_plan_bounds *out)
{
    RP_TRY(rp__plan_bounds(q->ctx, &q->problem, budget, out));
    RP_TRY(bound_modes(q, budget, out));
    *out = (rp_plan_bounds){ bound_of(base, out->any), bound_of(base, out->blocks) };
    return RP_OK;
}
