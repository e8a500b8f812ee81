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

#include "plan/beside.h"
#include "plan/place_log.h"
#include "plan/plan_modes.h"

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

/* Made for steps of one shape, on shapes; followed by every step of that shape. */
struct rp_step_plan {
    rp_plan *plan;                      /* what is kept; NULL: what the program says, and all else */
    rp_mem_place *place;                /* of each buffer a step takes, in order */
    int n_places;
    rp_placement placement;             /* of a step; no step of another placement takes less than its bound */
    uint64_t before;                    /* what is live when a step begins, and where */
    rp_step_variant variant;
    rp_step_usage found;
    double seconds, again_seconds;      /* of a step without replays; of these, and of what is waited for that is away, by the cost table. What runs beside
                                           something else takes no time (plan/beside.h) … */
    double base_seconds;                /* of the fastest step without a budget, all kept; overheads are over it. 0: nobody asked */
    double bound_seconds, block_bound_seconds;  /* no schedule for this budget has less of these again, no plan of blocks (rp_plan_bounds), in any variant */
    rp_beside_base beside;              /* of a step in which one thing runs beside another; seconds 0: nothing does */
    double away_seconds;                /* of again_seconds: offloaded slots copied and waited for, whoever offloads them */
    int64_t state_bytes;                /* of optimizer states that an update reads from disk, and writes back … */
    double state_seconds;               /* … and what it takes longer for that, of seconds */
    double comm_seconds, comm_again_seconds;    /* … of both, in talk with other ranks; of replays alone … */
    double hidden_seconds;              /* … all of it; so much of a step runs beside something else */
    int64_t comm_bytes;                 /* … to whom a rank sends so many */
    char machine[128];                  /* of that table … */
    uint64_t costs;                     /* … and its hash */
    bool measured;
    int64_t budget;                     /* 0: none */
    bool at_most;                       /* of a plan of the least arena: the search for a smaller one was cut short */
};

typedef struct rp_question rp_question;

/* One step on shapes, as `how` says: its fates and addresses followed, `found` and seconds filled. NULL: it is recorded, as the program runs by itself. */
typedef rp_status (*rp_step_run)(const rp_question *question, rp_step_plan *how);

/* What is known of a mode: at first nothing, then what its plan reckons, then the live peak of its step, too. No placement is lower than either. */
typedef struct { bool reckoned, is_there; double again_seconds; int64_t turn, live; } rp_known_mode;

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
rp_status rp__step_try(const rp_question *question, rp_plan *plan, int64_t most, rp_step_plan **out);
/* The fastest plan whose arena keeps to the budget, the modes among them; something goes only where that is faster than any plan in which all
 * stays. *out NULL: there is none: the budget is below the least, or one that the search for the least missed. */
rp_status rp__step_within(rp_question *question, int64_t budget, rp_step_plan **out);
/* The plan that is reckoned to take least, as it is: found quickly, its arena a little larger than the least. */
rp_status rp__step_small(rp_question *question, rp_step_plan **out);
/* The plan with the least arena. Less is asked for until that is refused; where it never was, at_most is set. */
rp_status rp__step_least(rp_question *question, rp_step_plan **out);
void rp__step_plan_free(rp_step_plan *plan);

/* Of a step with that budget: seconds that no plan of the question gets below, replays included. `timed`: a step of the same program, whose time is known.
 * errors RP_ERR_MEMORY */
rp_status rp__step_bounds(rp_question *question, const rp_step_plan *timed, int64_t budget, rp_plan_bounds *out);

/* Of two plans that fit the better one stays at *best, the other goes; at first there may be none, and `other` may be NULL. */
typedef bool rp_step_better(const rp_step_plan *a, const rp_step_plan *b);
bool rp__step_is_faster(const rp_step_plan *a, const rp_step_plan *b);      /* by more than what the order of additions makes */
bool rp__step_is_smaller(const rp_step_plan *a, const rp_step_plan *b);     /* its arena is */
void rp__step_keep(rp_step_plan **best, rp_step_plan *other, rp_step_better *better);

/* A hash of what is live now, and where: what a step that begins now stands on. */
uint64_t rp__step_stands(const rp_ctx *ctx);
/* Steps on this context run so from here on, until told otherwise: NULL. What is live must be what was live when it was planned.
 * errors RP_ERR_STATE it is not */
rp_status rp__step_follow(rp_ctx *ctx, const rp_step_plan *plan);

#endif
