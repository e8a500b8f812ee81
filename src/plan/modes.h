/* plan/modes.h -- the classic modes as plans of a step, so that each of them can be rehearsed like any other plan.
 *
 *   none           nothing runs again
 *   full           every block is a region
 *   every k-th     every k-th block is, k = 2 … 8
 *   root           regions of about sqrt(L) of L blocks
 *   selective_op   every block is a region; in it what the ops of the default list make is kept (policy/modes.h)
 *
 * A block is all calls of a layer of the model, from the first one that is no collective: weights are gathered before a module begins. A step
 * without layers has none: each of its segments but the last is a block.
 *
 * The chain has modes of its own (chain_modes.c), in its own terms: segments, and bytes as reckoned. A block that is cut in two segments has no
 * way there that recomputes the value between them, and constants are counted for longer than the tape holds them. Here calls are marked as
 * the mode marks them, so the rehearsal finds what the mode takes.
 */
#ifndef RP_PLAN_MODES_H
#define RP_PLAN_MODES_H

#include "plan/problem.h"

enum { RP_PLAN_NONE, RP_PLAN_FULL, RP_PLAN_EVERY_2ND, RP_PLAN_EVERY_8TH = RP_PLAN_EVERY_2ND + 6, RP_PLAN_ROOT, RP_PLAN_SELECTIVE_OP, RP_PLAN_MODES };

/* Its facts are reckoned (reckon.h). *out NULL: the step does not have the mode, as it has no blocks, or, but for `none`, as its passes differ. errors
 * RP_ERR_MEMORY */
rp_status rp__plan_mode(rp_ctx *ctx, const rp_plan_problem *problem, int mode, rp_plan **out);

#endif
