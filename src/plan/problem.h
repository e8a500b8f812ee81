/* plan/problem.h -- a trace as a problem: the plans that it has within a budget, and bounds for them. */
#ifndef RP_PLAN_PROBLEM_H
#define RP_PLAN_PROBLEM_H

#include "plan/plan.h"
#include "solve/bound.h"
#include "solve/segment.h"

/* Every way there is to solve a trace for, made once. Where a step has different passes, regions are not among them. */
typedef struct {
    rp_bump bump;
    const rp_trace *trace;
    rp_cut_pass *pass;
    rp_cut_pass *resident;                         /* the same where nothing goes; NULL: nothing may */
    rp_cut_pass *joined;                        /* the same as stays, or else as pass, with the first segment and the first layer in one: what goes
                                                 * over between them may run again, too. NULL: they do not join */
    rp_chain_solver **solver, **resident_solver, **joined_solver;      /* of each pass; NULL: not asked yet */
    rp_pass_bound *bound;                       /* of each pass: what no schedule gets below */
    int n_bounds;
} rp_plan_problem;

rp_status rp__plan_problem(rp_ctx *ctx, const rp_trace *trace, rp_plan_problem *out);
void rp__plan_problem_close(rp_plan_problem *problem);

/* The same question with other segments, such as `stays` with its solvers: a view of the problem, not to be closed. */
rp_plan_problem rp__plan_view(const rp_plan_problem *problem, rp_cut_pass *pass, rp_chain_solver **solver);
/* All of them, the problem itself included. Returns how many. */
enum { RP_PLAN_VIEWS = 3 };
int rp__plan_views(const rp_plan_problem *problem, rp_plan_problem out[RP_PLAN_VIEWS]);

/* The cheapest plan that takes at most `budget` bytes. *out NULL: there is none. errors RP_ERR_MEMORY */
rp_status rp__plan_solve(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan **out);
/* The least bytes that any plan takes. errors RP_ERR_MEMORY */
rp_status rp__plan_least(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes);
/* What of its seconds is copied and waited for, from its calls' marks: facts.offload_seconds and n_offloaded are set. errors RP_ERR_MEMORY */
rp_status rp__plan_count_offloaded(rp_plan *plan, const rp_plan_problem *problem);
/* The plan that keeps everything. errors RP_ERR_MEMORY */
rp_status rp__plan_bare(rp_ctx *ctx, const rp_plan_problem *problem, rp_plan **out);
/* The plan that solved chains say, one of each pass. errors RP_ERR_MEMORY */
rp_status rp__plan_make(rp_ctx *ctx, const rp_plan_problem *problem, const rp_chain_plan *solved, rp_plan **out);

/* Seconds of what runs again that no schedule within the budget gets below; of a budget below the least of any plan, within that. errors RP_ERR_MEMORY */
rp_status rp__plan_bound(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, double *seconds);

/* Seconds of what runs again that are not got below within a budget: by any schedule; by any plan of blocks, one that the planner chooses among:
 * each segment kept in one of its ways, or in a region, or in regions in regions. The second is no less than the first, and more only where these two
 * hold of every pass:
 *
 *   all ways are known      else a way that was left out may be faster
 *   bytes are exact         a plan of blocks takes exactly what the chain reckons (test_plan_walk), an arena no less; so a plan whose arena keeps
 *                           to the budget is one that the chain allows, and its replays take no less than the chain's bound. A value that a must keeps or
 *                           offloads, or that may go, may be there for a shorter time than is reckoned: then a plan may fit that the chain refuses
 *
 * errors RP_ERR_MEMORY */
typedef struct { double any, blocks; } rp_plan_bounds;
rp_status rp__plan_bounds(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan_bounds *out);

#endif
