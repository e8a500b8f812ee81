/* plan/problem.c -- cuts a trace into segments, solves it for budgets, and computes its bounds. */
#include "plan/problem.h"
#include "solve/chain.h"
#include "trace/trace.h"

#include <math.h>

static bool may_offload(const rp_trace *trace)
{
    for (int i = 0; i < trace->n_passes; i++)
        for (int v = 0; v < trace->pass[i].n_values; v++)
            if (trace->pass[i].value[v].offloadable) return true;
    return false;
}

/* Every pass must join, or *out stays empty. */
static rp_status cut_passes(rp_plan_problem *p, int how, rp_plan_cut *out)
{
    int n           = p->trace->n_passes;
    rp_plan_cut cut = { rp__bump_alloc(&p->bump, (n + 1) * (int64_t)sizeof *cut.pass),
                        rp__bump_alloc(&p->bump, (n + 1) * (int64_t)sizeof *cut.solver) };

    if (!cut.pass || !cut.solver) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) {
        RP_TRY(rp__segments(&p->bump, &p->trace->pass[i], how, &cut.pass[i]));
        if (!cut.pass[i].chain.n) return RP_OK;
        cut.pass[i].chain.regions = n == 1;
    }
    *out = cut;
    return RP_OK;
}

rp_plan_problem rp__plan_view(const rp_plan_problem *problem, rp_plan_cut cut)
{
    return (rp_plan_problem){ .trace = problem->trace, .cut = cut, .bound = problem->bound, .n_bounds = problem->n_bounds };
}

int rp__plan_views(const rp_plan_problem *problem, rp_plan_problem out[RP_PLAN_VIEWS])
{
    int n = 0;

    if (problem->resident.pass) out[n++] = rp__plan_view(problem, problem->resident);
    out[n++] = *problem;
    if (problem->joined.pass) out[n++] = rp__plan_view(problem, problem->joined);
    if (problem->whole.pass) out[n++] = rp__plan_view(problem, problem->whole);
    return n;
}

static rp_status open_problem(rp_plan_problem *p)
{
    int n = p->trace->n_passes;

    p->bound = rp__bump_alloc(&p->bump, (n + 1) * (int64_t)sizeof *p->bound);
    if (!p->bound) return RP_ERR_MEMORY;
    RP_TRY(cut_passes(p, 0, &p->cut));
    if (may_offload(p->trace)) RP_TRY(cut_passes(p, RP_CUT_RESIDENT, &p->resident));
    if (n) RP_TRY(cut_passes(p, RP_CUT_RESIDENT | RP_CUT_JOINED, &p->joined));
    if (n) RP_TRY(cut_passes(p, RP_CUT_RESIDENT | RP_CUT_WHOLE, &p->whole));
    for (int i = 0; i < n; i++) RP_TRY(rp__pass_bound_open(p->bump.ctx, &p->trace->pass[i], &p->bound[p->n_bounds++]));
    return RP_OK;
}

rp_status rp__plan_problem(rp_ctx *ctx, const rp_trace *trace, rp_plan_problem *out)
{
    *out             = (rp_plan_problem){ .bump = { .ctx = ctx }, .trace = trace };
    rp_status status = open_problem(out);

    if (status != RP_OK) rp__plan_problem_close(out);
    return status;
}

static void close_solvers(const rp_plan_problem *problem, const rp_plan_cut *cut)
{
    for (int i = 0; cut->solver && i < problem->trace->n_passes; i++) rp__chain_solver_close(cut->solver[i]);
}

void rp__plan_problem_close(rp_plan_problem *problem)
{
    close_solvers(problem, &problem->cut);
    close_solvers(problem, &problem->resident);
    close_solvers(problem, &problem->joined);
    close_solvers(problem, &problem->whole);
    for (int i = 0; i < problem->n_bounds; i++) rp__pass_bound_close(&problem->bound[i]);
    rp__bump_free(&problem->bump);
    *problem = (rp_plan_problem){ 0 };
}

/* Solvers stay open with the problem, because results for one budget speed up the next. */
static rp_status open_solvers(rp_ctx *ctx, const rp_plan_problem *problem)
{
    for (int i = 0; i < problem->trace->n_passes; i++) {
        if (problem->cut.solver[i]) continue;
        rp_status status = rp__chain_solver_open(ctx, &problem->cut.pass[i].chain, &problem->cut.solver[i]);
        if (status == RP_OK) continue;
        rp__chain_solver_close(problem->cut.solver[i]);
        problem->cut.solver[i] = NULL;
        return status;
    }
    return RP_OK;
}

rp_status rp__plan_least(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes)
{
    RP_TRY(open_solvers(ctx, problem));
    *bytes = problem->trace->outside;
    for (int i = 0; i < problem->trace->n_passes; i++) {
        int64_t least = rp__chain_solver_least(problem->cut.solver[i]);
        if (least > *bytes) *bytes = least;
    }
    return RP_OK;
}

rp_status rp__plan_smallest(rp_ctx *ctx, const rp_plan_problem *problem, rp_plan_problem *view, int64_t *bytes)
{
    rp_plan_problem all[RP_PLAN_VIEWS];
    int n = rp__plan_views(problem, all);

    *bytes = INT64_MAX;
    for (int i = 0; i < n; i++) {
        int64_t least;
        RP_TRY(rp__plan_least(ctx, &all[i], &least));
        if (least >= *bytes) continue;
        *bytes = least;
        if (view) *view = all[i];
    }
    return RP_OK;
}

rp_status rp__plan_bound(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, double *seconds)
{
    int64_t least;

    RP_TRY(rp__plan_smallest(ctx, problem, NULL, &least));
    *seconds = 0;
    for (int i = 0; i < problem->trace->n_passes; i++)
        *seconds += rp__pass_bound_seconds(&problem->bound[i], budget > least ? budget : least) * problem->trace->pass[i].n_passes;
    return RP_OK;
}

/* Does only a call that may be rerun read the constant so late, and no backward? Some plans then free it earlier. */
static bool frees_early(const rp_trace_pass *pass, int v)
{
    int need = pass->value[v].dropped ? rp__trace_first_need(pass, v) : -1;

    return pass->value[v].dropped && (need < 0 || pass->value[v].dropped != 2 * pass->n_calls - need);
}

/* Do both conditions of rp_plan_bounds hold? */
static bool knows_all(const rp_trace_pass *pass, const rp_cut_pass *cut)
{
    for (int c = 0; c < cut->chain.n_classes; c++)
        if (!cut->ways[c].all) return false;
    for (int v = 0; v < pass->n_values; v++) {
        const rp_trace_value *value = &pass->value[v];
        if (value->call >= 0 && (value->offloadable || (value->must && value->fate != RP_RECOMPUTE))) return false;
        if (frees_early(pass, v)) return false;
    }
    return true;
}

/* The bound for plans of one view; 0: unknown. */
static rp_status block_bound(rp_ctx *ctx, const rp_plan_problem *view, int64_t budget, double *seconds)
{
    double one;

    *seconds = 0;
    RP_TRY(open_solvers(ctx, view));
    for (int i = 0; i < view->trace->n_passes; i++) {
        if (!knows_all(&view->trace->pass[i], &view->cut.pass[i])) {
            *seconds = 0;
            return RP_OK;
        }
        RP_TRY(rp__chain_solver_bound(view->cut.solver[i], budget, &one));
        *seconds += one * view->trace->pass[i].n_passes;
    }
    return RP_OK;
}

rp_status rp__plan_bounds(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan_bounds *out)
{
    rp_plan_problem view[RP_PLAN_VIEWS];
    int n        = rp__plan_views(problem, view);
    double fewest = INFINITY, one;

    for (int i = 0; i < n; i++) {
        RP_TRY(block_bound(ctx, &view[i], budget, &one));
        fewest = fmin(fewest, one);
    }
    RP_TRY(rp__plan_bound(ctx, problem, budget, &out->any));
    out->blocks = fmax(fewest, out->any);
    return RP_OK;
}

/* ---- solving ---- */

rp_status rp__plan_solve(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan **out)
{
    int n                 = problem->trace->n_passes, done;
    rp_chain_plan *solved = rp__host_alloc(ctx, (n + 1) * (int64_t)sizeof *solved);
    bool feasible         = problem->trace->outside <= budget;
    rp_status status      = RP_OK;

    *out = NULL;
    if (!solved) return RP_ERR_MEMORY;
    status = open_solvers(ctx, problem);
    for (done = 0; done < n && feasible && status == RP_OK; done++) {
        status   = rp__chain_solver_solve(problem->cut.solver[done], budget, &solved[done]);
        feasible = solved[done].feasible;
    }
    if (status == RP_OK && feasible) status = rp__plan_make(ctx, problem, solved, out);
    for (int i = 0; i < done; i++) rp__chain_plan_free(&solved[i]);
    rp__release(solved);
    return status;
}
