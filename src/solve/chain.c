/* solve/chain.c -- the solver: tries the searches for a budget and keeps the best of their plans. */
#include "solve/chain_internal.h"

#include <math.h>

/* ---- plans ---- */

void rp__chain_plan_free(rp_chain_plan *plan)
{
    RP_RELEASE(plan->option, plan->region);
    *plan = (rp_chain_plan){ 0 };
}

static double seconds_of(const rp_chain_work *w, double ticks) { return ldexp(ticks, w->tick); }

/* Lowered by the possible rounding error, because a bound must hold. */
static double bound_seconds(const rp_chain_bound *b) { return seconds_of(b->work, fmax(b->bound - b->most_error, 0)); }

/* Searches plans without regions. */
static rp_status find_flat(rp_chain_work *w, int64_t budget, rp_chain_found *best)
{
    rp_chain_bound bound;

    if (w->rest_bytes[0] > budget) return RP_OK;
    rp_status status = rp__bound_open(&bound, w, budget, false);
    if (status == RP_OK) status = rp__chain_search(&bound, NULL, INT64_MAX, best);
    if (status == RP_OK) best->plan.bound = bound_seconds(&bound);
    rp__bound_close(&bound);
    return status;
}

/* Whether a plan with a region may take no more ticks than `ticks`. */
static bool regions_may_help(const rp_chain_nest *nest, const rp_chain_bound *b, int64_t ticks)
{
    for (int first = 0; first + 1 < b->work->chain->n; first++)
        for (int end = first + 1; end < b->work->chain->n; end++)
            if (rp__nest_allows(nest, first, end) && rp__bound_region(b, first, end) <= (double)ticks) return true;
    return false;
}

/* The search also covers plans without regions. So its plan is no slower than *best, unless the work limit was reached. */
static rp_status search_nested(rp_chain_nest *nest, rp_chain_bound *bound, rp_chain_found *best)
{
    rp_chain_found found = { 0 };
    int64_t cap          = best->plan.feasible ? best->ticks : INT64_MAX;

    rp__nest_limit(nest, bound->budget);
    rp_status status = rp__chain_search(bound, nest, cap, &found);
    if (status == RP_OK && found.plan.feasible && found.ticks <= cap) {
        rp_chain_found worse = *best;
        *best                = found;
        found                = worse;
    }
    rp__chain_plan_free(&found.plan);
    return status;
}

static rp_status try_nested(rp_chain_nest *nest, rp_chain_work *w, int64_t budget, rp_chain_found *best)
{
    rp_chain_bound bound;
    int64_t least;

    RP_TRY(rp__nest_least(nest, w, &least));
    if (least > budget) return RP_OK;
    rp_status status = rp__bound_open(&bound, w, budget, true);
    bool helps       = status == RP_OK && (!best->plan.feasible || regions_may_help(nest, &bound, best->ticks));
    if (helps) status = search_nested(nest, &bound, best);
    if (status == RP_OK) best->plan.bound = bound_seconds(&bound);
    rp__bound_close(&bound);
    return status;
}

/* ---- many budgets ---- */

struct rp_chain_solver {
    rp_chain_work work;
    rp_chain_nest *nest;            /* NULL: no regions */
    int64_t least;
};

static rp_status open_solver(rp_chain_solver *s, rp_ctx *ctx, const rp_chain *chain)
{
    RP_TRY(rp__chain_open(&s->work, ctx, chain));
    if (chain->regions) RP_TRY(rp__nest_open(&s->work, RP_CHAIN_FINE, &s->nest));
    s->least = s->work.rest_bytes[0];
    return s->nest ? rp__nest_least(s->nest, &s->work, &s->least) : RP_OK;
}

rp_status rp__chain_solver_open(rp_ctx *ctx, const rp_chain *chain, rp_chain_solver **out)
{
    rp_chain_solver *s = rp__host_alloc(ctx, sizeof *s);

    *out = s;
    return s ? open_solver(s, ctx, chain) : RP_ERR_MEMORY;
}

int64_t rp__chain_solver_least(const rp_chain_solver *s) { return s->least; }

rp_status rp__chain_solver_bound(rp_chain_solver *s, int64_t budget, double *seconds)
{
    rp_chain_work *w = &s->work;
    rp_chain_bound bound;

    budget   = rp__less(budget, RP_CHAIN_MOST);
    *seconds = INFINITY;
    if (!rp__bound_exists(w, budget, w->chain->regions)) return RP_OK;
    rp_status status = rp__bound_open(&bound, w, budget, w->chain->regions);
    if (status == RP_OK) *seconds = bound_seconds(&bound);
    rp__bound_close(&bound);
    return status;
}

void rp__chain_solver_close(rp_chain_solver *s)
{
    if (!s) return;
    rp__nest_close(s->nest);
    rp__chain_close(&s->work);
    rp__release(s);
}

rp_status rp__chain_solver_solve(rp_chain_solver *s, int64_t budget, rp_chain_plan *out)
{
    rp_chain_found best = { 0 };

    budget           = rp__less(budget, RP_CHAIN_MOST);
    *out             = (rp_chain_plan){ 0 };
    rp_status status = find_flat(&s->work, budget, &best);
    if (status == RP_OK && s->nest) status = try_nested(s->nest, &s->work, budget, &best);
    if (status == RP_OK) {
        *out         = best.plan;
        out->seconds = seconds_of(&s->work, (double)best.ticks);
        out->bound   = fmin(out->bound, out->seconds);
    } else rp__chain_plan_free(&best.plan);
    return status;
}
