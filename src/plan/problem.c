/* plan/problem.c -- cuts a trace into segments, solves it for budgets, and computes its bounds. */
#include "plan/problem.h"
#include "solve/chain.h"

#include <math.h>

static bool may_offload(const rp_trace_pass *pass)
{
    for (int v = 0; v < pass->n_values; v++)
        if (pass->value[v].offloadable) return true;
    return false;
}

static rp_status stay(rp_plan_problem *p)
{
    p->resident        = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *p->resident);
    p->resident_solver = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *p->resident_solver);
    if (!p->resident || !p->resident_solver) return RP_ERR_MEMORY;
    for (int i = 0; i < p->trace->n_passes; i++) RP_TRY(rp__segments(&p->bump, &p->trace->pass[i], RP_CUT_RESIDENT, &p->resident[i]));
    return RP_OK;
}

/* Every pass must join, or `joined` stays NULL. */
static rp_status plan_join(rp_plan_problem *p)
{
    p->joined_solver    = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *p->joined_solver);
    rp_cut_pass *joined = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *joined);

    if (!joined || !p->joined_solver) return RP_ERR_MEMORY;
    for (int i = 0; i < p->trace->n_passes; i++) {
        RP_TRY(rp__segments(&p->bump, &p->trace->pass[i], RP_CUT_RESIDENT | RP_CUT_JOINED, &joined[i]));
        if (!joined[i].chain.n) return RP_OK;
    }
    p->joined = p->trace->n_passes ? joined : NULL;
    return RP_OK;
}

rp_plan_problem rp__plan_view(const rp_plan_problem *problem, rp_cut_pass *pass, rp_chain_solver **solver)
{
    rp_plan_problem view = *problem;

    view.pass   = pass;
    view.solver = solver;
    view.resident = view.joined = NULL;
    return view;
}

int rp__plan_views(const rp_plan_problem *problem, rp_plan_problem out[RP_PLAN_VIEWS])
{
    int n = 0;

    if (problem->resident) out[n++] = rp__plan_view(problem, problem->resident, problem->resident_solver);
    out[n++] = *problem;
    if (problem->joined) out[n++] = rp__plan_view(problem, problem->joined, problem->joined_solver);
    return n;
}

rp_status rp__plan_problem(rp_ctx *ctx, const rp_trace *trace, rp_plan_problem *out)
{
    rp_status status = RP_OK;

    *out      = (rp_plan_problem){ .bump = { .ctx = ctx }, .trace = trace };
    out->pass = rp__bump_alloc(&out->bump, (trace->n_passes + 1) * (int64_t)sizeof *out->pass);
    out->bound = rp__bump_alloc(&out->bump, (trace->n_passes + 1) * (int64_t)sizeof *out->bound);
    out->solver = rp__bump_alloc(&out->bump, (trace->n_passes + 1) * (int64_t)sizeof *out->solver);
    if (!out->pass || !out->bound || !out->solver) status = RP_ERR_MEMORY;
    for (int i = 0; i < trace->n_passes && status == RP_OK; i++) status = rp__segments(&out->bump, &trace->pass[i], 0, &out->pass[i]);
    for (int i = 0; i < trace->n_passes && status == RP_OK && !out->resident; i++)
        if (may_offload(&trace->pass[i])) status = stay(out);
    if (status == RP_OK) status = plan_join(out);
    for (int i = 0; i < trace->n_passes && status == RP_OK; i++) {
        out->n_bounds++;
        status = rp__pass_bound_open(ctx, &trace->pass[i], &out->bound[i]);
    }
    for (int i = 0; i < trace->n_passes && status == RP_OK && trace->n_passes > 1; i++) {
        out->pass[i].chain.regions = false;
        if (out->resident) out->resident[i].chain.regions = false;
        if (out->joined) out->joined[i].chain.regions = false;
    }
    if (status != RP_OK) rp__plan_problem_close(out);
    return status;
}

static void close_solvers(const rp_plan_problem *problem, rp_chain_solver **solver)
{
    for (int i = 0; solver && i < problem->trace->n_passes; i++) rp__chain_solver_close(solver[i]);
}

void rp__plan_problem_close(rp_plan_problem *problem)
{
    close_solvers(problem, problem->solver);
    close_solvers(problem, problem->resident_solver);
    close_solvers(problem, problem->joined_solver);
    for (int i = 0; i < problem->n_bounds; i++) rp__pass_bound_close(&problem->bound[i]);
    rp__bump_free(&problem->bump);
    *problem = (rp_plan_problem){ 0 };
}

/* Solvers stay open with the problem, because results for one budget speed up the next. */
static rp_status open_solvers(rp_ctx *ctx, const rp_plan_problem *problem)
{
    for (int i = 0; i < problem->trace->n_passes; i++) {
        if (problem->solver[i]) continue;
        rp_status status = rp__chain_solver_open(ctx, &problem->pass[i].chain, &problem->solver[i]);
        if (status == RP_OK) continue;
        rp__chain_solver_close(problem->solver[i]);
        problem->solver[i] = NULL;
        return status;
    }
    return RP_OK;
}

rp_status rp__plan_least(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes)
{
    RP_TRY(open_solvers(ctx, problem));
    *bytes = problem->trace->outside;
    for (int i = 0; i < problem->trace->n_passes; i++) {
        int64_t least = rp__chain_solver_least(problem->solver[i]);
        if (least > *bytes) *bytes = least;
    }
    return RP_OK;
}

/* The minimum over the problem and its joined view. */
static rp_status least_of_all(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes)
{
    int64_t joined;

    RP_TRY(rp__plan_least(ctx, problem, bytes));
    if (!problem->joined) return RP_OK;
    rp_plan_problem view = rp__plan_view(problem, problem->joined, problem->joined_solver);
    RP_TRY(rp__plan_least(ctx, &view, &joined));
    if (joined < *bytes) *bytes = joined;
    return RP_OK;
}

rp_status rp__plan_bound(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, double *seconds)
{
    int64_t least;

    RP_TRY(least_of_all(ctx, problem, &least));
    *seconds = 0;
    for (int i = 0; i < problem->trace->n_passes; i++)
        *seconds += rp__pass_bound_seconds(&problem->bound[i], budget > least ? budget : least) * problem->trace->pass[i].n_passes;
    return RP_OK;
}

/* Do both conditions of rp_plan_bounds hold? */
static bool knows_all(const rp_trace_pass *pass, const rp_cut_pass *cut)
{
    for (int c = 0; c < cut->chain.n_classes; c++)
        if (!cut->ways[c].all) return false;
    for (int v = 0; v < pass->n_values; v++) {
        const rp_trace_value *value = &pass->value[v];
        if (value->call >= 0 && (value->offloadable || (value->must && value->fate != RP_RECOMPUTE))) return false;
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
        if (!knows_all(&view->trace->pass[i], &view->pass[i])) {
            *seconds = 0;
            return RP_OK;
        }
        RP_TRY(rp__chain_solver_bound(view->solver[i], budget, &one));
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
        status   = rp__chain_solver_solve(problem->solver[done], budget, &solved[done]);
        feasible = solved[done].feasible;
    }
    if (status == RP_OK && feasible) status = rp__plan_make(ctx, problem, solved, out);
    for (int i = 0; i < done; i++) rp__chain_plan_free(&solved[i]);
    rp__release(solved);
    return status;
}
