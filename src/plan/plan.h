/* plan/plan.h -- a plan: the fates of a step's calls, the addresses of its buffers, and the bytes and seconds that it takes.
 *
 *   trace ─▶ problem: segments, ways to keep each, chain ─▶ plan ─▶ followed by the tape, call by call
 *
 * A plan is made from a trace and holds for every step that makes the calls of the trace.
 */
#ifndef RP_PLAN_H
#define RP_PLAN_H

#include "plan/fates.h"
#include "place/log.h"

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

/* Has it a region of several layers? Then the bounds of rp_plan_bounds (problem.h) are loose: neither knows the bytes inside a region that runs
 * again. */
bool rp__plan_joins_layers(const rp_plan *plan);
/* "layers.3 to layers.5", for messages. NULL without memory. */
const char *rp__plan_region_name(rp_plan *plan, const rp_plan_pass *pass, const rp_stretch *region);
/* From here on passes recorded on the context follow the plan; NULL: none. Nothing is recorded then. A pass that is not of the plan fails with
 * RP_ERR_STATE at the call that differs. */
void rp__plan_follow(rp_ctx *ctx, rp_plan *plan);
/* No context follows it; NULL is fine. */
void rp__plan_free(rp_plan *plan);

#endif
