/* plan/time.h -- the objective: the seconds of a step under a plan, and which of two plans is better.
 *
 *   call by call (cost/, rehearse/time.c) ──▶ rp_step_time ──▶ rp__step_compute_time ──▶ rp__step_is_faster
 */
#ifndef RP_PLAN_TIME_H
#define RP_PLAN_TIME_H

#include "cost/cost.h"
#include "cost/overlap.h"
#include "plan/plan.h"

#define RP_STEP_SAME 1e-9               /* relative difference in seconds that the order of additions may cause */

/* Seconds of a step's calls by the cost table, added up while the step runs on shapes. */
typedef struct {
    const rp_cost_table *costs;
    rp_dtype dtype;                             /* of offloaded slots: sets the price of their copies */
    bool to_memory;                             /* offloaded slots go to memory, not to disk */
    double seconds, recompute_seconds;          /* forward, backward and update · replays */
    double forward_seconds, update_seconds;     /* parts of `seconds` */
    double comm_seconds, comm_recompute_seconds;    /* communication in all of them · only in replays */
    int64_t comm_bytes;                         /* sent by one rank, replays included */
    int64_t state_bytes;                        /* of optimizer states that the update reads from disk and writes back */
    double state_seconds;                       /* part of update_seconds: waiting for these states */
    double *keep;                               /* for each call of the running pass: seconds of keeping its outputs (cost/keep.h); owned */
    rp_overlap *overlap;                        /* events that may overlap; NULL: none do */
} rp_step_time;

/* Compute the seconds of a step from the added seconds; no other place does this. *base: the step without replays. plan: receives its
 * seconds and recompute_seconds, which include waits for offloaded slots, and their parts. NULL: only *base is computed. plan->found must
 * be set. Errors: RP_ERR_MEMORY. */
rp_status rp__step_compute_time(const rp_step_time *time, rp_overlap_base *base, rp_plan *plan);

/* Returns the seconds of the whole step, including replays. */
double rp__step_seconds(const rp_plan *plan);
/* Keep the better of two plans that fit in *best and free the other. *best and `other` may be NULL. */
typedef bool rp_step_better(const rp_plan *a, const rp_plan *b);
bool rp__step_is_faster(const rp_plan *a, const rp_plan *b);      /* by more than the fraction RP_STEP_SAME */
bool rp__step_is_smaller(const rp_plan *a, const rp_plan *b);     /* compares arenas */
void rp__step_keep(rp_plan **best, rp_plan *other, rp_step_better *better);

#endif
