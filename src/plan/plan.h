/* plan/plan.h -- what a step is to keep, within a budget; and the step made to do so.
 *
 *   trace ─▶ segments ─▶ ways to keep each ─▶ chain ─▶ plan ─▶ followed by the tape, call by call
 *
 * A plan names, for each pass of a step, the calls that run again, alone or in regions. It is made from a trace and holds for every step whose
 * calls are those of the trace: the tape is stopped at the first call that is another.
 */
#ifndef RP_PLAN_H
#define RP_PLAN_H

#include "cost/overlap.h"
#include "place/log.h"
#include "solve/bound.h"
#include "solve/segment.h"

typedef struct {
    const char *op, *path;                      /* of a call */
    rp_meta out;                                /* its first output */
    bool recompute, open;                           /* it runs again, alone; a plan may choose */
    bool kept;                                  /* in a region: what it makes stays, as backward reads it */
    bool offload;                                  /* what it makes that may go, goes … */
    uint32_t may_go;                            /* … by their place among what it makes, a bit each: of its policy's preferences, those of a plan */
} rp_plan_call;

typedef struct {
    uint64_t hash;
    int n_calls, n_regions, n_recomputed, n_offloaded;
    rp_plan_call *call;
    rp_stretch *region;
} rp_plan_pass;

/* What a search left out. All false and 0: nothing. */
typedef struct {
    bool ways;                                  /* some ways to keep a segment */
    bool limit;                                 /* plans of one level: the work limit was met */
    bool regions;                               /* some plans with regions */
    int grain;                                  /* regions that end elsewhere than at every so manieth block, but for each block alone */
} rp_plan_left;

typedef struct {
    int64_t bytes;                              /* what it takes, buffers rounded to RP_ALIGN, by the solver's reckoning */
    double seconds, recompute_seconds;              /* of the step's calls · of what runs again, or is waited for */
    double offload_seconds;                        /* of these, what is away took: copied, waited for */
    rp_plan_left left;                          /* of the search that found it */
} rp_plan_facts;

typedef struct {                        /* what a rehearsal found of a step */
    rp_mem memory;                      /* its peak, with its classes; reserved_bytes is the pool's final size */
    int64_t saved_bytes, step_flops, recompute_flops, offloaded_bytes;
} rp_step_usage;

/* What a program may do otherwise without another bit in what a step computes. It is the program's own affair: whoever runs it reads this. */
typedef struct {
    bool in_backward;                   /* the optimizer's update */
    bool keeps_logits;                  /* the head, for its backward */
} rp_step_variant;
enum { RP_STEP_VARIANTS = 4 };

/* How a step runs: its fates, the address of each buffer, and the bytes and seconds that it takes. A plan is made on shapes for steps of one shape, and
 * every step of that shape follows it. Programs know it as rp_step_plan. */
typedef struct rp_step_plan rp_plan;
struct rp_step_plan {
    /* the fates, as they were chosen */
    rp_bump bump;
    bool chosen;                                /* false: fates are the program's own, and there are no passes */
    rp_plan_pass *pass;                         /* different ones */
    int n_passes;
    int *order, n_order;                        /* which pass each of a step's is: some begin alike */
    int done;                                   /* passes of the step so far */
    rp_plan_facts facts;
    rp_step_variant variant;

    /* the step run with them on shapes: rp__step_try */
    rp_mem_place *place;                        /* of each buffer a step takes, in order */
    int n_places;
    rp_placement placement;                     /* of a step; no step of another placement takes less than its bound */
    uint64_t before;                            /* what is live when a step begins, and where */
    rp_step_usage found;
    double seconds, recompute_seconds;              /* of a step without replays; of these, and of waiting for what was offloaded. Overlapped seconds are not
                                                 * counted (cost/overlap.h) */
    double offload_seconds;                        /* of recompute_seconds: offloaded slots copied and waited for, whoever offloads them */
    double comm_seconds, comm_recompute_seconds;    /* of seconds and recompute_seconds, in talk with other ranks; of replays alone */
    double hidden_seconds;                      /* overlapped: in none of these */
    int64_t comm_bytes;                         /* that a rank sends */
    int64_t state_bytes;                        /* of optimizer states that an update reads from disk, and writes back … */
    double state_seconds;                       /* … and what it takes longer for that, of seconds */
    char machine[128];                          /* of the cost table that seconds are of … */
    uint64_t costs;                             /* … its hash … */
    bool measured;                              /* … and whether it was measured */

    /* what it is compared with */
    int64_t budget;                             /* 0: none */
    double base_seconds;                        /* of the fastest step without a budget, all kept; overheads are over it. 0: nobody asked */
    double bound_seconds, block_bound_seconds;  /* no schedule for this budget has less recompute_seconds, no plan of blocks (rp_plan_bounds), in any variant */
    bool at_most;                               /* of a plan of the least arena: the search for a smaller one was cut short */
};

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
/* Has it a region of several layers? Then the bounds of rp_plan_bounds are loose: neither knows what the inside of a region takes when it runs again. */
bool rp__plan_joins_layers(const rp_plan *plan);
/* What of its seconds is copied and waited for, from its calls' marks: facts.offload_seconds and n_offloaded are set. errors RP_ERR_MEMORY */
rp_status rp__plan_count_offloaded(rp_plan *plan, const rp_plan_problem *problem);
/* The plan that keeps everything. errors RP_ERR_MEMORY */
rp_status rp__plan_bare(rp_ctx *ctx, const rp_plan_problem *problem, rp_plan **out);
/* The plan that solved chains say, one of each pass. errors RP_ERR_MEMORY */
rp_status rp__plan_make(rp_ctx *ctx, const rp_plan_problem *problem, const rp_chain_plan *solved, rp_plan **out);
/* The least bytes that any plan takes. errors RP_ERR_MEMORY */
rp_status rp__plan_least(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes);
/* "layers.3 to layers.5", for messages. NULL without memory. */
const char *rp__plan_region_name(rp_plan *plan, const rp_plan_pass *pass, const rp_stretch *region);
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
/* Nobody follows it any more; NULL is fine. */
void rp__plan_free(rp_plan *plan);

/* From here on passes recorded on the context follow the plan; NULL: none. Nothing is recorded then. A pass that is not of the plan fails with
 * RP_ERR_STATE at the call that differs. */
void rp__plan_follow(rp_ctx *ctx, rp_plan *plan);

#endif
