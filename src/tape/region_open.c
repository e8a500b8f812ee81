/* tape/region_open.c -- begins and ends regions: those of the program, or those of a plan in their place.
 *
 * A region is open from its begin to its end. Calls are recorded in the innermost open region. When the outermost one closes, the calls
 * its replay has to run are found (fates/region.c).
 */
#include "tape/internal.h"

static rp_status region_open(rp_tape *tape, const char *path)
{
    rp_fates *w = &tape->fates;

    RP_TRY(rp__fates_reserve(w, 0, 0, 1, 0));
    w->region[w->n_region] = (rp_fate_region){ .path = path, .parent = tape->open, .first = w->n_call };
    if (tape->open == NONE) tape->n_outermost++;
    tape->open = w->n_region++;
    return RP_OK;
}

rp_status rp__region_plan(rp_tape *tape, int first)
{
    RP_TRY(rp__fates_list(&tape->fates, first));
    rp__fates_drop_unpromised(&tape->fates, first);
    rp__tape_check(tape, NONE);
    return RP_OK;
}

static rp_status region_close(rp_tape *tape)
{
    rp_fates *w = &tape->fates;
    int closed = tape->open, parent = w->region[closed].parent;

    w->region[closed].end = w->n_call;
    if (parent == NONE && !tape->deferred) RP_TRY(rp__region_plan(tape, closed));
    tape->open = parent;
    return RP_OK;
}

static bool is_planned(const rp_tape *tape) { return tape->open != NONE && tape->fates.region[tape->open].planned; }

rp_status rp__regions_planned_here(rp_tape *tape)
{
    const rp_planner *p = &rp__tape_ctx(tape->ctx)->planner;
    rp_fates *w         = &tape->fates;

    if (rp__tape_ctx(tape->ctx)->no_grad) return RP_OK;
    while (is_planned(tape) && w->region[tape->open].end <= w->n_call) RP_TRY(region_close(tape));
    while (tape->n_planned < p->n_regions && p->region[tape->n_planned].first == w->n_call) {
        RP_TRY(region_open(tape, p->region[tape->n_planned].path));
        w->region[tape->open].planned = true;
        w->region[tape->open].end     = p->region[tape->n_planned++].end;
    }
    return RP_OK;
}

rp_status rp__regions_planned_end(rp_tape *tape)
{
    while (is_planned(tape)) RP_TRY(region_close(tape));
    return RP_OK;
}

rp_status rp__region_begin(rp_ctx *ctx, const char *path)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return RP_ERR_MEMORY;
    if (rp__tape_is_planned(ctx)) {
        tape->n_ignored++;
        return RP_OK;
    }
    if (rp__tape_ctx(ctx)->no_grad) {
        ++*rp__tape_n_off(tape);
        return RP_OK;
    }
    return region_open(tape, path);
}

rp_status rp__region_end(rp_ctx *ctx)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return RP_ERR_MEMORY;
    if (tape->n_ignored > 0) {
        tape->n_ignored--;
        return RP_OK;
    }
    if (*rp__tape_n_off(tape) > 0) {
        --*rp__tape_n_off(tape);
        return RP_OK;
    }
    RP_CHECK(ctx, tape->open != NONE && !is_planned(tape), RP_ERR_STATE, "a checkpointed region ends that did not begin");
    RP_CHECK(ctx, !rp__tape_ctx(ctx)->no_grad, RP_ERR_STATE, "gradients were turned off inside the checkpointed region '%s' and are off at its end",
             tape->fates.region[tape->open].path);
    return region_close(tape);
}
