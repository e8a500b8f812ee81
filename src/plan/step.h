/* plan/step.h -- a step, whoever wrote it, planned for a budget: what is kept, and the address of each buffer.
 *
 *   question ─ run on shapes ─▶ trace ─▶ problem ─▶ plan for the budget ─▶ run once more ─▶ addresses ──they fit──▶ done
 *                                                        ▲                                    │ they do not
 *                                                        └───── the plan before it, a byte less
 *
 * What is told of a step is what running it on shapes did, never what the solver reckons; the two agree to the byte, but an arena may be
 * larger than what is live at once.
 */
#ifndef RP_STEP_H
#define RP_STEP_H

#include "plan/modes.h"
#include "plan/time.h"
#include "trace/trace.h"

typedef struct rp_question rp_question;

/* One step on shapes, as `how` says: its fates and addresses followed, `found` and seconds filled. NULL: it is recorded, as the program runs by itself. */
typedef rp_status (*rp_step_run)(const rp_question *question, rp_plan *how);

/* What is known of a mode: at first nothing, then the figures of its plan. `live`: the most bytes of its step. No placement is lower. */
typedef struct { bool reckoned, is_there; double recompute_seconds; int64_t live; } rp_known_mode;

/* A step, and once it has been asked, what may be chosen in it and what each choice takes. What one budget took to find serves the next. */
struct rp_question {
    rp_ctx *ctx;                        /* of shapes alone */
    rp_ctx *owner;                      /* of the plans: theirs may live longer */
    const rp_cost_table *costs;
    rp_step_run run;
    void *self;                         /* run's own */
    rp_step_variant variant;
    rp_trace trace;
    rp_plan_problem problem;
    rp_known_mode mode[RP_PLAN_MODES];
};

/* Record the step. Where the question is stays until it is closed; close it whatever this said. errors as run · RP_ERR_MEMORY */
rp_status rp__question_ask(rp_question *question);
void rp__question_close(rp_question *question);

/* The way to run steps with these fates, which are taken over whatever this says; NULL: the program's own. Addresses are looked for below `most`
 * alone (RP_PLACE_ANY: anywhere); a plan whose placement is not `placed` cannot be followed. The step need not have been asked. */
rp_status rp__step_try(const rp_question *question, rp_plan *plan, int64_t most, rp_plan **out);
/* The fastest plan whose arena keeps to the budget, the modes among them; something goes only where that is faster than any plan in which all
 * stays. *out NULL: there is none: the budget is below the least, or one that the search for the least missed. */
rp_status rp__step_within(rp_question *question, int64_t budget, rp_plan **out);
/* The plan that is reckoned to take least, as it is: found quickly, its arena a little larger than the least. */
rp_status rp__step_small(rp_question *question, rp_plan **out);
/* The plan with the least arena. Less is asked for until that is refused; where it never was, at_most is set. */
rp_status rp__step_least(rp_question *question, rp_plan **out);

/* Of a step with that budget: seconds that no plan of the question gets below, replays included. `base`: of the step without replays.
 * errors RP_ERR_MEMORY */
rp_status rp__step_bounds(rp_question *question, const rp_overlap_base *base, int64_t budget, rp_plan_bounds *out);

/* Returns the status. Unless it is RP_OK, *out is freed, and NULL. */
rp_status rp__step_or_none(rp_status status, rp_plan **out);

/* A hash of what is live now, and where: what a step that begins now stands on. */
uint64_t rp__step_stands(const rp_ctx *ctx);
/* Steps on this context run so from here on, until told otherwise: NULL. What is live must be what was live when it was planned.
 * errors RP_ERR_STATE it is not */
rp_status rp__step_follow(rp_ctx *ctx, rp_plan *plan);

#endif
