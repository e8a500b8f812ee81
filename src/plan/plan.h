/* plan/plan.h -- a plan: the fates of a step's calls, the addresses of its buffers, and its bytes and seconds.
 *
 *   trace ─▶ problem: segments, ways to keep each, chain ─▶ plan ─▶ followed by the tape, call by call
 *
 * A plan is made from a trace. It is valid for every step that makes the calls of the trace.
 */
#ifndef RP_PLAN_H
#define RP_PLAN_H

#include "plan/fates.h"
#include "place/log.h"

/* The alternatives a search did not consider. All false and 0: it considered everything. */
typedef struct {
    bool ways;                                  /* some ways to keep a segment */
    bool limit;                                 /* plans without nested regions: the work limit was reached */
    bool regions;                               /* some plans with regions */
    int grain;                                  /* regions of several blocks were considered only if they end at a multiple of this many blocks */
} rp_plan_left;

typedef struct {
    int64_t bytes;                              /* bytes live at the peak by the solver's count, buffers rounded up to RP_ALIGN */
    double seconds, recompute_seconds;              /* of the step's calls · of recomputing, and of waiting for offloaded values */
    double offload_seconds;                        /* part of recompute_seconds: copying offloaded values and waiting for them */
    rp_plan_left left;                          /* by the search that found it */
} rp_plan_facts;

typedef struct {                        /* results of rehearsing a step */
    rp_mem memory;                      /* peak by class; reserved_bytes is the final size of the pool */
    int64_t saved_bytes, step_flops, recompute_flops, offloaded_bytes;
} rp_step_usage;

/* Choices of the program that change no bit of a step's results. The program reads them and carries them out. */
typedef struct {
    bool in_backward;                   /* the optimizer updates in the backward */
    bool keeps_logits;                  /* the head keeps the logits for its backward */
} rp_step_variant;
enum { RP_STEP_VARIANTS = 4 };

/* How a step runs: its fates, the address of each buffer, its bytes and seconds. A plan is made on shapes and followed by every step of
 * these shapes. The public name is rp_step_plan. */
typedef struct rp_step_plan rp_plan;
struct rp_step_plan {
    /* the chosen fates */
    rp_bump bump;
    bool chosen;                                /* false: the program's own fates are used, and there are no passes */
    rp_plan_pass *pass;                         /* distinct passes */
    int n_passes;
    int *order, n_order;                        /* index in `pass` of each pass of a step, because some passes are equal */
    int done;                                   /* passes of the current step so far */
    rp_plan_facts facts;
    rp_step_variant variant;

    /* results of running the step on shapes with these fates: rp__step_try */
    rp_mem_place *place;                        /* of each buffer that a step takes, in order */
    int n_places;
    rp_placement placement;                     /* of a step; its `bound` is a lower bound for every placement of this step */
    uint64_t before;                            /* hash of the live memory at the beginning of a step, with addresses */
    uint64_t id;                                /* unique in the process; 0: not asked for yet (rehearse/replay.c) */
    rp_step_usage found;
    double seconds, recompute_seconds;              /* step without replays · replays and waits for offloaded slots. Overlapped seconds are not
                                                     * counted (cost/overlap.h) */
    double offload_seconds;                        /* part of recompute_seconds: copies of offloaded slots and waits for them, with plans and rules */
    double comm_seconds, comm_recompute_seconds;    /* parts of seconds and recompute_seconds: communication between ranks · only in replays */
    double hidden_seconds;                      /* overlapped, so in none of these */
    int64_t comm_bytes;                         /* sent by one rank */
    int64_t state_bytes;                        /* of optimizer states that an update reads from disk and writes back … */
    double state_seconds;                       /* … and the additional time for that, part of seconds */
    char machine[128];                          /* of the cost table for the seconds … */
    uint64_t costs;                             /* … its hash … */
    bool measured;                              /* … and whether it was measured */

    /* values to compare with */
    int64_t budget;                             /* 0: none */
    double base_seconds;                        /* of the fastest step without a budget that keeps everything; overheads are relative to it. 0: not computed */
    double bound_seconds, block_bound_seconds;  /* lower bounds of recompute_seconds in every variant: any schedule · plans of blocks (rp_plan_bounds) */
    bool at_most;                               /* for a plan of the least arena: the search for a smaller one was stopped early */
};

/* Has it a region of several layers? Then the bounds of rp_plan_bounds (problem.h) are loose, because they ignore the bytes inside a
 * replayed region. */
bool rp__plan_joins_layers(const rp_plan *plan);
/* Is region n within the calls, inside or after each earlier region, and sorted by `first`? The last call is in no region. */
bool rp__plan_nests(const rp_plan_pass *pass, int n);
/* Returns a name for messages such as "layers.3 to layers.5". NULL: RP_ERR_MEMORY. */
const char *rp__plan_region_name(rp_plan *plan, const rp_plan_pass *pass, const rp_stretch *region);
/* Make passes recorded on the context follow the plan from now on; NULL: none. Nothing may be recorded at this time. A pass that differs
 * from the plan fails with RP_ERR_STATE at the first different call. */
void rp__plan_follow(rp_ctx *ctx, rp_plan *plan);
/* No context may follow it; NULL is fine. */
void rp__plan_free(rp_plan *plan);

#endif
