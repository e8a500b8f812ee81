/* plan/solver_modes.c -- the classic modes as candidates, so that no plan is worse than a mode.
 *
 * A mode's bytes and seconds are computed once per question from the trace. It is rehearsed only if it may fit and be better.
 */
#include "plan/solver.h"

rp_status rp__solver_known_mode(rp_question *q, int mode, const rp_known_mode **out)
{
    rp_known_mode *known = &q->mode[mode];
    rp_plan *plan;

    *out = known;
    if (known->simulated) return RP_OK;
    RP_TRY(rp__plan_mode(q->ctx, &q->problem, mode, &plan));
    *known = (rp_known_mode){ .simulated = true, .is_there = plan };
    if (!plan) return RP_OK;
    known->recompute_seconds = plan->facts.recompute_seconds;
    known->live              = plan->facts.bytes;
    rp__plan_free(plan);
    return RP_OK;
}

/* Seconds of plans that overlap with communication do not add up, so those are rehearsed to be compared. */
static bool may_be_better(const rp_known_mode *known, int64_t most, rp_step_better *better, const rp_plan *best)
{
    if (!known->is_there || known->live > most) return false;
    if (better != rp__step_is_faster || !best || best->hidden_seconds > 0) return true;
    return known->recompute_seconds < best->recompute_seconds - RP_STEP_SAME * rp__step_seconds(best);
}

static rp_status try_mode(rp_question *q, int mode, int64_t most, rp_step_better *better, rp_plan **best)
{
    const rp_known_mode *known;
    rp_plan *plan, *one;

    RP_TRY(rp__solver_known_mode(q, mode, &known));
    if (!may_be_better(known, most, better, *best)) return RP_OK;
    RP_TRY(rp__plan_mode(q->ctx, &q->problem, mode, &plan));
    if (*best) plan->facts.left = (*best)->facts.left;       /* of the search that found no better plan */
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

static rp_status modes_least(rp_question *q, rp_plan **best)
{
    return try_modes(q, *best ? (*best)->placement.height - 1 : RP_PLACE_ANY, rp__step_is_smaller, best);
}

/* modes_least has tried every mode, so no mode fits in less than the smallest plan. */
static rp_status modes_within(rp_question *q, rp_solver_ask *ask, rp_plan **best)
{
    return ask->buffers ? RP_OK : try_modes(q, ask->budget, rp__step_is_faster, best);
}

const rp_plan_solver rp_solver_modes = { .least = modes_least, .within = modes_within };
