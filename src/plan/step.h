/* plan/step.h -- plans a step of any program for a budget: which values are kept, and the address of each buffer.
 *
 *   question ─ run on shapes ─▶ trace ─▶ problem ─▶ plan for the budget ─▶ run once more ─▶ addresses ──they fit──▶ done
 *                                                        ▲                                    │ they do not
 *                                                        └───── the next plan with fewer bytes
 *
 * All figures reported for a step come from running it on shapes, never from the solver. Both byte counts agree exactly, but an arena may
 * be larger than the live bytes.
 */
#ifndef RP_STEP_H
#define RP_STEP_H

#include "plan/modes.h"
#include "plan/time.h"
#include "trace/trace.h"

typedef struct rp_question rp_question;

/* Run one step on shapes: follow the fates and addresses of `how`, and fill in its `found` and seconds. how NULL: run as the program does
 * without a plan, while the step is recorded. Errors: those of the step. */
typedef rp_status (*rp_step_run)(const rp_question *question, rp_plan *how);

/* The figures of a mode's plan, once `simulated`. live: peak of live bytes in its step, a lower bound for every placement. */
typedef struct { bool simulated, is_there; double recompute_seconds; int64_t live; } rp_known_mode;

/* A step and, after rp__question_ask, its choices and their costs. Results found for one budget speed up the next. */
struct rp_question {
    rp_ctx *ctx;                        /* a shapes-only context */
    rp_ctx *owner;                      /* owns the plans, which may outlive ctx */
    const rp_cost_table *costs;         /* NULL: seconds are not those of a machine */
    rp_step_run run;
    void *self;                         /* data of `run` */
    bool unplaced;                      /* buffers get no addresses: the arena is `found.memory.peak_bytes` */
    rp_step_variant variant;
    rp_trace trace;
    rp_plan_problem problem;
    rp_known_mode mode[RP_PLAN_MODES];
};

/* Record the step. The question must stay at its address until it is closed. Close it even after an error. Errors: those of `run`,
 * RP_ERR_MEMORY. */
rp_status rp__question_ask(rp_question *question);
void rp__question_close(rp_question *question);

/* Run the step with the fates of `plan` and look for addresses below `most` (RP_PLACE_ANY: no limit). plan NULL: the program's own fates.
 * Takes ownership of `plan` even after an error. A plan whose placement is not `placed` cannot be followed. rp__question_ask is not
 * required. Errors: those of `run`, RP_ERR_MEMORY. */
rp_status rp__step_try(const rp_question *question, rp_plan *plan, int64_t most, rp_plan **out);
/* Find the fastest plan whose arena fits the budget; the modes are candidates too. Offloading is used only if it is faster than every plan
 * without it. *out NULL: none fits. The budget is then below the minimum, or is one that the search for the minimum missed. Errors: those
 * of rp__step_try. */
rp_status rp__step_within(rp_question *question, int64_t budget, rp_plan **out);
/* Return the plan that takes least by the solver's count, without a search. This is fast, but its arena may be slightly larger than the
 * minimum. Errors: those of rp__step_try. */
rp_status rp__step_small(rp_question *question, rp_plan **out);
/* Find the plan with the smallest arena. The budget is reduced until no plan fits. at_most is set if the search stopped before that.
 * Errors: those of rp__step_try. */
rp_status rp__step_least(rp_question *question, rp_plan **out);

/* Compute lower bounds for the seconds of the step within the budget, replays included. base: the step without replays. Errors:
 * RP_ERR_MEMORY. */
rp_status rp__step_bounds(rp_question *question, const rp_overlap_base *base, int64_t budget, rp_plan_bounds *out);

/* Returns `status`. If it is not RP_OK, *out is freed and set to NULL. */
rp_status rp__step_or_none(rp_status status, rp_plan **out);

/* Returns a hash of the live memory and its addresses. A planned step requires the hash of its plan. */
uint64_t rp__step_stands(const rp_ctx *ctx);
/* Make steps on this context follow the plan until the next call; NULL: none. The live memory must be the same as when the step was
 * planned. Errors: RP_ERR_STATE it differs. */
rp_status rp__step_follow(rp_ctx *ctx, rp_plan *plan);

#endif
