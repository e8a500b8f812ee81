/* plan/solver.h -- a solver: one way to find plans of a question. Each is a file `solver_NAME.c` and a line of solvers.def.
 *
 *   question, budget ─▶ solver ─▶ fates ─ rp__step_try ─▶ plan with addresses ──▶ better than the best so far? then it stays
 *
 * A solver proposes fates. Bytes and seconds are those of the rehearsed step, so a solver may be wrong about them without harm.
 */
#ifndef RP_PLAN_SOLVER_H
#define RP_PLAN_SOLVER_H

#include "plan/step.h"

/* A request for plans whose arena fits in `budget` bytes. */
typedef struct {
    int64_t budget;
    int64_t *buffers;           /* The budget is below that of the smallest plan found so far, and only so many buffers may still be placed. NULL:
                                 * a budget like any other, no limit */
    bool cut;                   /* set if the search left plans out: then finding none proves nothing */
} rp_solver_ask;

typedef struct {
    /* Makes *best the plan with the smallest arena among it and the solver's own. *best is NULL at first. errors as rp_step_run · RP_ERR_MEMORY */
    rp_status (*least)(rp_question *question, rp_plan **best);
    /* Makes *best the fastest plan among it and the solver's own that fit. *best is NULL or fits. errors as rp_step_run · RP_ERR_MEMORY */
    rp_status (*within)(rp_question *question, rp_solver_ask *ask, rp_plan **best);
} rp_plan_solver;

#define RP_PLAN_SOLVER(name) extern const rp_plan_solver rp_solver_##name;
#include "plan/solvers.def"
#undef RP_PLAN_SOLVER

/* The figures of a mode, computed once per question. errors RP_ERR_MEMORY */
rp_status rp__solver_known_mode(rp_question *question, int mode, const rp_known_mode **out);

#endif
