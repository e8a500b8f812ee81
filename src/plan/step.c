/* plan/step.c -- the best plan of all solvers (solver.h) for a budget, its step rehearsed, and bounds. */
#include "plan/solver.h"
#include "tape/tape.h"

#include <math.h>

/* The search for the least arena: rounds, and buffers placed in them. */
enum { MOST_LESS = 32, MOST_BUFFERS = 20000 };

static const rp_plan_solver *const solvers[] = {
#define RP_PLAN_SOLVER(name) &rp_solver_##name,
#include "plan/solvers.def"
#undef RP_PLAN_SOLVER
};

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

    if (q->unplaced) {
        RP_TRY(q->run(q, p));
        p->placement = (rp_placement){ .bound = p->found.memory.peak_bytes, .height = p->found.memory.peak_bytes, .placed = true };
        return RP_OK;
    }
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
    if (q->costs) name_costs(q->costs, p);
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

/* ---- the solvers ---- */

static rp_status ask_all(rp_question *q, rp_solver_ask *ask, rp_plan **best)
{
    for (int i = 0; i < RP_COUNT(solvers); i++) RP_TRY(solvers[i]->within(q, ask, best));
    return RP_OK;
}

/* ---- the least ---- */

/* A plan may take less than a solver counts: values may live shorter, or the arena of the smallest plan has holes. So the solvers are asked for less
 * than the smallest plan until they refuse, or until placing took too much work: then the least is reported as "at most". */
static rp_status shrink(rp_question *q, int64_t least, rp_plan **best)
{
    int64_t buffers   = MOST_BUFFERS;
    rp_solver_ask ask = { .buffers = &buffers };

    for (int i = 0; i < MOST_LESS && !ask.cut; i++) {
        rp_plan *smaller = NULL;
        ask.budget       = (*best)->placement.height - 1;
        if (ask.budget < least) return RP_OK;       /* only the least plans take so little by count, and they have been tried */
        rp_status status = ask_all(q, &ask, &smaller);
        if (status == RP_OK && !smaller && !ask.cut) return RP_OK;
        if (status == RP_OK) rp__step_keep(best, smaller, rp__step_is_smaller);
        else rp__plan_free(smaller);
        RP_TRY(status);
    }
    (*best)->at_most = true;
    return RP_OK;
}

static rp_status find_least(rp_question *q, rp_plan **best)
{
    int64_t least;

    for (int i = 0; i < RP_COUNT(solvers); i++) RP_TRY(solvers[i]->least(q, best));
    RP_TRY(rp__plan_smallest(q->ctx, &q->problem, NULL, &least));
    return shrink(q, least, best);
}

rp_status rp__step_small(rp_question *q, rp_plan **out)
{
    rp_plan_problem view;
    rp_plan *plan;
    int64_t bytes;

    *out = NULL;
    RP_TRY(rp__plan_smallest(q->ctx, &q->problem, &view, &bytes));
    RP_TRY(rp__plan_solve(q->ctx, &view, bytes, &plan));
    return rp__step_try(q, plan, RP_PLACE_ANY, out);
}

rp_status rp__step_least(rp_question *q, rp_plan **out)
{
    *out = NULL;
    return rp__step_or_none(find_least(q, out), out);
}

/* ---- a budget ---- */

/* If no solver meets a plan on its way down, the plan with the least arena may still fit: so no budget above the least is refused. */
static rp_status find_within(rp_question *q, int64_t budget, rp_plan **out)
{
    rp_solver_ask ask = { .budget = budget };

    RP_TRY(ask_all(q, &ask, out));
    if (!*out && q->trace.outside > budget) return RP_OK;       /* bytes outside of passes alone are more */
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
        const rp_known_mode *known;
        RP_TRY(rp__solver_known_mode(q, mode, &known));
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
