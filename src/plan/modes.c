/* plan/modes.c -- marks calls and regions as each mode does. */
#include "plan/modes.h"

#include <math.h>
#include <string.h>

#include "base/bump.h"
#include "plan/simulate.h"
#include "policy/modes.h"

enum { NONE = -1 };

/* ---- blocks ---- */

static bool gathers(const rp_trace_call *c) { return c->meta.op->flags & RP_OP_COLLECTIVE; }

/* List the stretches of calls that belong to one layer. Returns their number. */
static int list_layers(const rp_trace_pass *pass, rp_stretch *out)
{
    int64_t layer, here;
    int n = 0;

    for (int first = 0, end; first < pass->n_calls; first = end) {
        bool is = rp_path_layer(pass->call[first].path, &layer);
        for (end = first + 1; end < pass->n_calls && rp_path_layer(pass->call[end].path, &here) == is && (!is || here == layer);) end++;
        int from = first;
        while (from < end && gathers(&pass->call[from])) from++;
        if (is && from < end) out[n++] = (rp_stretch){ from, end, NULL };
    }
    return n;
}

static int list_segments(const rp_cut_pass *cut, rp_stretch *out)
{
    for (int s = 0; s + 1 < cut->chain.n; s++) out[s] = (rp_stretch){ cut->first[s], cut->first[s + 1], NULL };
    return cut->chain.n - 1;
}

/* ---- regions ---- */

static rp_status add_region(rp_plan *plan, rp_plan_pass *to, int first, int end)
{
    rp_stretch *r = &to->region[to->n_regions++];

    *r      = (rp_stretch){ first, end, NULL };
    r->path = rp__plan_region_name(plan, to, r);
    return r->path ? RP_OK : RP_ERR_MEMORY;
}

/* Make regions of every k-th block. With every == 1, make regions of `together` consecutive blocks each. */
static rp_status add_regions(rp_plan *plan, rp_plan_pass *to, const rp_stretch *block, int n, int every, int together)
{
    for (int i = every - 1; i < n; i += every > 1 ? every : together) {
        int last = every > 1 ? i : i + together < n ? i + together - 1 : n - 1;
        RP_TRY(add_region(plan, to, block[i].first, block[last].end));
    }
    return RP_OK;
}

/* Mark the outputs of the listed ops inside regions as kept. */
static void keep_ops(const rp_trace_pass *pass, rp_plan_pass *to)
{
    for (int r = 0; r < to->n_regions; r++)
        for (int c = to->region[r].first; c < to->region[r].end; c++) to->call[c].kept = rp__mode_saves(pass->call[c].meta.op->name);
}

static rp_status mark(rp_plan *plan, const rp_plan_problem *problem, int mode, rp_stretch *block, bool *has)
{
    const rp_trace_pass *pass = &problem->trace->pass[0];
    rp_plan_pass *to          = &plan->pass[0];
    int n = list_layers(pass, block), every = mode >= RP_PLAN_EVERY_2ND && mode <= RP_PLAN_EVERY_8TH ? mode - RP_PLAN_FULL + 1 : 1;

    if (!n) n = list_segments(&problem->cut.pass[0], block);
    *has = n >= every;
    if (!*has) return RP_OK;
    to->region = rp__bump_alloc(&plan->bump, n * (int64_t)sizeof *to->region);
    if (!to->region) return RP_ERR_MEMORY;
    RP_TRY(add_regions(plan, to, block, n, every, mode == RP_PLAN_ROOT ? (int)ceil(sqrt(n)) : 1));
    if (mode == RP_PLAN_SELECTIVE_OP) keep_ops(pass, to);
    return RP_OK;
}

/* ---- a mode ---- */

static rp_status make_mode(rp_plan *plan, const rp_plan_problem *problem, int mode, bool *has)
{
    rp_bump bump = { .ctx = plan->bump.ctx };

    *has = true;
    if (mode != RP_PLAN_NONE) {
        rp_stretch *block = rp__bump_alloc(&bump, (problem->trace->pass[0].n_calls + 1) * (int64_t)sizeof *block);
        rp_status status  = block ? mark(plan, problem, mode, block, has) : RP_ERR_MEMORY;
        rp__bump_free(&bump);
        RP_TRY(status);
    }
    return *has ? rp__simulate(plan, problem->trace) : RP_OK;
}

rp_status rp__plan_mode(rp_ctx *ctx, const rp_plan_problem *problem, int mode, rp_plan **out)
{
    int n = problem->trace->n_passes;
    bool has;

    *out = NULL;
    if (n < 1 || (n > 1 && mode != RP_PLAN_NONE)) return RP_OK;
    RP_TRY(rp__plan_bare(ctx, problem, out));
    rp_status status = make_mode(*out, problem, mode, &has);
    if (status == RP_OK && has) return RP_OK;
    rp__plan_free(*out);
    *out = NULL;
    return status;
}
