/* plan/solver_chain.c -- the solver of solve/: the step is a chain of segments, and each is kept in one of several ways.
 *
 *   budget ─▶ plan by the chain's bytes ─ rehearsed ─▶ its arena fits ──▶ done
 *                ▲                                        │ it does not
 *                └──────────── a smaller one ◀────────────┘
 *
 * A question has up to RP_PLAN_VIEWS views: the same step, cut into segments in another way, or with less to offload.
 */
#include "plan/solver.h"

/* Plans tried for one budget: without leaving one out, before the steps grow further, after the first that fits, above one that fits. */
enum { MOST_NEAR = 8, MOST_TRIES = 64, MOST_MORE = 16, MOST_BETWEEN = 12 };

typedef struct {
    const rp_question *question;
    const rp_plan_problem *problem;
    rp_solver_ask *ask;
    int64_t least;                      /* bytes of the view's smallest plan, by the chain */
    bool cut;                           /* plans of this view were left out */
    rp_plan **best;
} walk;

/* ---- the next smaller plan ---- */

/* Returns the bytes to ask for after a plan of `bytes` whose arena is too large. This is the plan just below. If several in a row do not fit, plans are
 * close together: then the steps down from the budget grow by a quarter, and after many tries further. A search for the least leaves no plan out. */
static int64_t next_below(const walk *w, int64_t bytes, int tries)
{
    int64_t budget = w->ask->budget, step = tries < MOST_NEAR || bytes >= budget || w->ask->buffers ? 0 : (budget - bytes) / 4;
    int64_t far = (bytes - w->least) / 8, next = bytes - 1 - (tries < MOST_TRIES || far < step ? step : far);

    return rp__align_up(next) > w->least ? next : w->least;
}

/* Offloaded values are prefetched. If segments differ, that overlaps with another segment than the chain counted, and more is live than it says. The
 * next plan must be smaller by that much. */
static int64_t next_most(const walk *w, const rp_plan *p, int tries)
{
    int64_t bytes = p->facts.bytes, most = next_below(w, bytes, tries), excess = p->placement.bound - w->ask->budget;

    if (p->facts.offload_seconds <= 0 || excess <= 0 || bytes - excess >= most) return most;
    return bytes - excess > w->least ? bytes - excess : w->least;
}

/* The bytes to ask for after a plan that was tried; below the least: nothing. Values that rules recompute may take longer than the chain counts: then a
 * plan of fewer bytes may be faster. */
static int64_t next_after(const walk *w, const rp_plan *p, int tries)
{
    const rp_plan_facts *simulated = &p->facts;
    bool over   = p->placement.height > w->ask->budget;
    bool slower = p->recompute_seconds > simulated->recompute_seconds + RP_STEP_SAME * rp__step_seconds(p);

    if (simulated->bytes <= w->least || (!over && !slower)) return w->least - 1;
    return over ? next_most(w, p, tries) : next_below(w, simulated->bytes, tries);
}

/* ---- one view ---- */

/* The fastest plan within `most` bytes by the chain, rehearsed. NULL: none exists, or the chain expects it to be no faster than the best. */
static rp_status next_plan(walk *w, int64_t most, rp_plan **out)
{
    const rp_plan *best = *w->best;
    rp_plan *plan;

    *out = NULL;
    RP_TRY(rp__plan_solve(w->question->ctx, w->problem, most, &plan));
    if (!plan) return RP_OK;
    if (!best || plan->facts.recompute_seconds < best->recompute_seconds - RP_STEP_SAME * rp__step_seconds(best))
        return rp__step_try(w->question, plan, w->ask->budget, out);
    rp__plan_free(plan);
    return RP_OK;
}

/* The best plan is replaced by one that fits and is faster. Returns whether this one fits. */
static bool offer(walk *w, rp_plan *one)
{
    bool fits = one->placement.height <= w->ask->budget;

    if (fits) rp__step_keep(w->best, one, rp__step_is_faster);
    else rp__plan_free(one);
    return fits;
}

/* The walk down left out plans between `fit` and `over` bytes, of which the first fits and the second does not. Tries some halfway between. */
static rp_status walk_between(walk *w, int64_t fit, int64_t over)
{
    for (int i = 0; i < MOST_BETWEEN && over - fit > 1; i++) {
        int64_t middle = fit + (over - fit) / 2, bytes;
        rp_plan *one;
        RP_TRY(next_plan(w, middle, &one));
        bytes = one ? one->facts.bytes : 0;
        if (one && !offer(w, one)) over = bytes;
        else fit = middle;
    }
    return RP_OK;
}

/* The chain counts values that a must-rule keeps for as long as they could live. So the least plan may take less than its count, and it is always tried. */
static rp_status walk_down(walk *w)
{
    int64_t budget = w->ask->budget, most = budget > w->least ? budget : w->least, *buffers = w->ask->buffers, fit = INT64_MAX, over = 0;

    for (int i = 0, more = 0; most >= w->least && more <= MOST_MORE; i++) {
        rp_plan *one;
        if (buffers && *buffers <= 0) w->cut = true;
        if (w->cut && buffers) break;
        RP_TRY(next_plan(w, most, &one));
        if (!one) break;
        if (buffers) *buffers -= one->n_places;
        int64_t bytes = one->facts.bytes;
        most   = next_after(w, one, i);
        w->cut = w->cut || i >= MOST_TRIES;
        more += *w->best != NULL;
        if (offer(w, one)) fit = bytes < fit ? bytes : fit;
        else over = bytes;
    }
    return buffers ? RP_OK : walk_between(w, fit, over);
}

/* ---- the solver ---- */

/* Views with more to offload come later. So a value is offloaded only if that beats every plan in which it stays. */
static rp_status chain_within(rp_question *q, rp_solver_ask *ask, rp_plan **best)
{
    rp_plan_problem view[RP_PLAN_VIEWS];
    int n            = rp__plan_views(&q->problem, view);
    rp_status status = RP_OK;

    for (int i = 0; i < n && status == RP_OK; i++) {
        walk w = { .question = q, .problem = &view[i], .ask = ask, .best = best };
        status = rp__plan_least(q->ctx, w.problem, &w.least);
        if (status == RP_OK) status = walk_down(&w);
        ask->cut = ask->cut || w.cut;
    }
    return status;
}

static rp_status chain_least(rp_question *q, rp_plan **best)
{
    rp_plan_problem view[RP_PLAN_VIEWS];
    int n = rp__plan_views(&q->problem, view);

    for (int i = 0; i < n; i++) {
        rp_plan *plan, *one;
        int64_t bytes;
        RP_TRY(rp__plan_least(q->ctx, &view[i], &bytes));
        RP_TRY(rp__plan_solve(q->ctx, &view[i], bytes, &plan));
        RP_BUG_IF(!plan);
        RP_TRY(rp__step_try(q, plan, *best ? (*best)->placement.height - 1 : RP_PLACE_ANY, &one));
        rp__step_keep(best, one, rp__step_is_smaller);
    }
    return RP_OK;
}

const rp_plan_solver rp_solver_chain = { .least = chain_least, .within = chain_within };
