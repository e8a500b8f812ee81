/* cost/keep.h -- the cost of keeping values for backward, and the additional cost of recomputing a call instead.
 *
 *   kept         forward ─▶ memory ─▶ … ─▶ backward         written once and read once, at the speed of memory
 *   recomputed   replay ─▶ cache ─▶ backward                the time of the replay, at the speed of caches if it fits them
 *
 * The seconds of a step without replays include keeping everything that its backward reads. A replay costs the time it takes minus the time
 * of keeping the call's values, and never less than 0. Each later replay of the same call has the same price. Keeping takes no time if all
 * values of a pass fit the caches, or if the cache size is unknown.
 */
#ifndef RP_COST_KEEP_H
#define RP_COST_KEEP_H

#include "cost/cost.h"
#include "tape/tape.h"

/* For each recorded call: compute the seconds of keeping those of its values that backward reads. Errors: RP_ERR_MEMORY. */
rp_status rp__keep_seconds(rp_ctx *ctx, const rp_cost_table *costs, double *of_call);
/* Returns the cost of replaying a call whose values take `keep` seconds to keep. Its communication counts in full. */
double rp__keep_replay(const rp_cost_table *costs, const rp_op_meta *call, double keep);

#endif
