/* shard/gather.h -- gathers a unit's weights before its forward and frees them afterwards.
 *
 *   forward     enter ─ all_gather of each ─▶ whole ─ read by the unit's ops ─ leave ─▶ freed
 *   backward    weights that its ops read are present, or gathered again; the gradients of whole weights are summed over ranks into slices when
 *               backward reaches the all_gather
 *
 * All of it is calls on the tape, so rules, plans, budgets and replays apply to it. A gathered weight is a slot. Freeing it after
 * the forward (reshard_after_forward) is its fate "recompute". Modules only know that a hook runs around their forward.
 *
 * With reshard_after_forward N, two gathers make a whole weight. The first, all_gather_far, makes a part of it, whose fate is "keep". The second makes
 * the whole from the parts of N neighbours; only this one is repeated (ops/prefetch.h). For all parameters, the first gather runs before any second.
 * So the first gathers of the next unit, which can be sent at any time, can be prefetched while this one computes.
 *
 * The root's unit is always kept until its backward, because its last op reads it. An output head in a unit of its own is not gathered for a loss:
 * the loss takes it one block at a time (ops/linear_cross_entropy.c).
 */
#ifndef RP_SHARD_GATHER_H
#define RP_SHARD_GATHER_H

#include "shard/units.h"

typedef struct rp_gather rp_gather;

/* From now on forwards of the tree gather. The tree's context must have shards (shard/ranks.h); units and tree must outlive the result.
 * reshard: free weights after the forward. planned: make that a must-rule; as a preference, a plan would try both ways in every block.
 * errors  RP_ERR_MEMORY */
rp_status rp__gather_new(rp_ctx *ctx, const rp_units *units, bool reshard, bool planned, rp_gather **out);
void rp__gather_free(rp_gather *gather);        /* NULL is fine */

#endif
