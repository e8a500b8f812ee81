/* shard/gather.h -- the life of a unit's weights in a pass.
 *
 *   forward     enter ─ all_gather of each ─▶ whole ─ read by the unit's ops ─ leave ─▶ let go
 *   backward    what its ops read of them is there, or gathered again; the gradients of the wholes are summed over ranks into slices when
 *               backward comes to the all_gather
 *
 * All of it is calls on the tape, so rules, plans, budgets and replays know them: a gathered weight is a slot, and letting go of it after
 * the forward (reshard_after_forward) is its fate "recompute". Modules know nothing of it but that something happens around their forward.
 *
 * With reshard_after_forward N two gathers make a whole. The first, all_gather_far, is of a part of it, whose fate is "keep"; the second makes the
 * whole of the parts that N neighbours have, and that is the one made again (ops/prefetch.h). All parameters' first come before any second: so those of
 * the next unit, which are ready to be sent at any time, can be asked for ahead while this one computes.
 *
 * Kept until its backward whatever is asked: the root's unit, which reads in its last op. A head in a unit of its own is not gathered for a loss
 * at all: the loss takes it a block at a time (ops/linear_cross_entropy.c).
 */
#ifndef RP_SHARD_GATHER_H
#define RP_SHARD_GATHER_H

#include "shard/units.h"

typedef struct rp_gather rp_gather;

/* From here on forwards of the tree gather. The tree's context has shards (shard/ranks.h); units and tree outlive it.
 * reshard: weights go after the forward. planned: that is no preference, which a plan would try both ways in every block.
 * errors  RP_ERR_MEMORY */
rp_status rp__gather_new(rp_ctx *ctx, const rp_units *units, bool reshard, bool planned, rp_gather **out);
void rp__gather_free(rp_gather *gather);        /* NULL is fine */

#endif
