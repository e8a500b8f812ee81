/* cost/keep.h -- what keeping values for backward takes, and so what running a call again takes besides.
 *
 *   kept         forward ─▶ memory ─▶ … ─▶ backward         written once and read once, at the speed of memory
 *   made again   replay ─▶ cache ─▶ backward                the replay's time, at the speed of caches where it fits them
 *
 * A step's seconds without replays are those of a step that keeps all that its backward reads. A replay costs what it takes beyond keeping what the call
 * makes, and never less than nothing; each later replay of the same call is priced like the first. Where all of a pass's values
 * stay in the caches keeping them takes no time, nor does it on a machine whose caches are not known.
 */
#ifndef RP_COST_KEEP_H
#define RP_COST_KEEP_H

#include "cost/cost.h"
#include "tape/tape.h"

/* Of each call that the tape has recorded, the seconds of keeping what backward reads of what it makes. errors RP_ERR_MEMORY */
rp_status rp__keep_seconds(rp_ctx *ctx, const rp_cost_table *costs, double *of_call);
/* Of running a call again whose values take `keep` seconds to keep. What it says to other ranks is said again in full. */
double rp__keep_replay(const rp_cost_table *costs, const rp_op_meta *call, double keep);

#endif
