/* plan/modes.h -- the classic checkpointing modes as plans of a step, so that each can be rehearsed like any other plan.
 *
 *   none           nothing is recomputed
 *   full           every block is a region
 *   every k-th     every k-th block is a region, k = 2 … 8
 *   root           regions of about sqrt(L) of L blocks
 *   selective_op   every block is a region; inside, outputs of the ops in the default list are kept (policy/modes.h)
 *
 * A block is all calls of one layer of the model, starting at the first call that is no collective. Weights are gathered before a module
 * begins, so these gathers are left out. In a step without layers, each segment but the last is a block.
 *
 * The chain solver counts segments instead. There, a block cut into two segments cannot recompute the value between them, and constants
 * count for longer than the tape holds them. Here calls are marked exactly as the mode marks them, so a rehearsal measures the mode itself.
 */
#ifndef RP_PLAN_MODES_H
#define RP_PLAN_MODES_H

#include "plan/problem.h"

enum { RP_PLAN_NONE, RP_PLAN_FULL, RP_PLAN_EVERY_2ND, RP_PLAN_EVERY_8TH = RP_PLAN_EVERY_2ND + 6, RP_PLAN_ROOT, RP_PLAN_SELECTIVE_OP, RP_PLAN_MODES };

/* Make the plan of a mode and set its facts (simulate.h). *out NULL: the step does not have the mode, because it has no blocks. Modes other
 * than `none` also need a step with a single kind of pass. Errors: RP_ERR_MEMORY. */
rp_status rp__plan_mode(rp_ctx *ctx, const rp_plan_problem *problem, int mode, rp_plan **out);

#endif
