/* plan/problem.h -- turns a trace into a problem for the solver: plans for a budget, and lower bounds. */
#ifndef RP_PLAN_PROBLEM_H
#define RP_PLAN_PROBLEM_H

#include "plan/plan.h"
#include "solve/bound.h"
#include "solve/segment.h"

/* For each pass: its segments, and the solver of their chain (NULL: not opened yet). */
typedef struct { rp_cut_pass *pass; rp_chain_solver **solver; } rp_plan_cut;

/* All ways to solve a trace, prepared once. If a step has different passes, regions are excluded. */
typedef struct {
    rp_bump bump;
    const rp_trace *trace;
    rp_plan_cut cut;
    rp_plan_cut resident;                       /* the same without offloading; no passes: no value may be offloaded */
    rp_plan_cut joined;                         /* like `resident`, with the first segment and the first layer joined, so that the value
                                                 * between them may be recomputed too; no passes: they cannot be joined */
    rp_plan_cut whole;                          /* like `resident`, each pass as one segment, so that all sets of recomputed calls are tried; no
                                                 * passes: one has too many calls */
    rp_pass_bound *bound;                       /* for each pass: lower bound for every schedule */
    int n_bounds;
} rp_plan_problem;

rp_status rp__plan_problem(rp_ctx *ctx, const rp_trace *trace, rp_plan_problem *out);
void rp__plan_problem_close(rp_plan_problem *problem);

/* Returns a view of the problem with another cut, for example `resident`. Do not close a view. */
rp_plan_problem rp__plan_view(const rp_plan_problem *problem, rp_plan_cut cut);
/* Fill in all views, including the problem itself. Returns their number. */
enum { RP_PLAN_VIEWS = 4 };
int rp__plan_views(const rp_plan_problem *problem, rp_plan_problem out[RP_PLAN_VIEWS]);

/* Find the cheapest plan that takes at most `budget` bytes. *out NULL: none fits. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_solve(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan **out);
/* Compute the minimum bytes of all plans. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_least(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes);
/* Find the view whose smallest plan takes the fewest bytes, and these bytes. view may be NULL. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_smallest(rp_ctx *ctx, const rp_plan_problem *problem, rp_plan_problem *view, int64_t *bytes);
/* Set facts.offload_seconds and n_offloaded from the marks of the plan's calls. These seconds are copies and waits. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_count_offloaded(rp_plan *plan, const rp_plan_problem *problem);
/* Make the plan that keeps everything. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_bare(rp_ctx *ctx, const rp_plan_problem *problem, rp_plan **out);
/* Make the plan of solved chains, one for each pass. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_make(rp_ctx *ctx, const rp_plan_problem *problem, const rp_chain_plan *solved, rp_plan **out);

/* Compute a lower bound of the recompute seconds of every schedule within the budget. A budget below the minimum of all plans is raised to
 * that minimum. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_bound(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, double *seconds);

/* Lower bounds of recompute seconds within a budget. any: for every schedule. blocks: for every plan of blocks, the kind that the planner
 * searches: each segment is kept in one of its ways, in a region, or in nested regions. blocks >= any. It is larger only if both
 * conditions hold for every pass:
 *
 *   all ways are known      otherwise a way that was left out may be faster
 *   bytes are exact         a plan of blocks takes exactly the chain's byte count (test_plan_walk), and its arena is no smaller. So a
 *                           plan whose arena fits the budget is allowed by the chain, and the chain's bound holds for its replays.
 *                           Values that rules keep or offload, or that may be offloaded, may be live for a shorter time than the
 *                           chain counts. Then a plan may fit although the chain rejects it.
 *
 * Errors: RP_ERR_MEMORY. */
typedef struct { double any, blocks; } rp_plan_bounds;
rp_status rp__plan_bounds(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan_bounds *out);

#endif
