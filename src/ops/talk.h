/* ops/talk.h -- what a pass of a call says to other ranks, as it really does it: for those who price it (cost/comm.c).
 *
 *   a leg       messages    one after the other, at the rank that has most of them
 *               bytes       that this rank sends or gets meanwhile
 *               in          a group of `ranks` ranks, each `apart` numbers from the next
 *
 * Collectives are flat: every rank sends each other rank of the group a message of its own, whatever lies between them. A gather is one message to
 * each. A reduce is one to each for every piece (collective.h). Of a head in blocks, those who hold a block send it to all others, while the
 * others send nothing: its bytes are those of the holder, not the share of each.
 */
#ifndef RP_OPS_TALK_H
#define RP_OPS_TALK_H

#include "ops/collective.h"

enum { RP_MOST_LEGS = 4 };

typedef struct { int64_t messages, bytes; int ranks, apart; } rp_leg;
typedef struct { rp_leg leg[RP_MOST_LEGS]; int n; } rp_talk;

/* Of an op of a user's own one message of its comm_bytes, to the group that holds the weights. No legs where nothing is sent. */
rp_talk rp__talk(const rp_op_meta *call, rp_pass pass, int64_t comm_bytes);

/* Its parts, for the ops: added behind those there are. */
void rp__talk_gather(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, rp_gather_from from);
void rp__talk_reduce(rp_talk *talk, const rp_ctx *ctx, const rp_comm *group, const rp_meta *whole);
/* Of a whole that comes, or goes, in stretches of `count` elements. */
void rp__talk_fetch(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, int64_t count);
void rp__talk_send(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, int64_t count);

/* What each op that talks says. */
typedef void rp_talk_of(const rp_op_meta *call, rp_pass pass, rp_talk *talk);
rp_talk_of rp__all_gather_talk, rp__all_gather_far_talk, rp__reduce_scatter_talk, rp__linear_cross_entropy_talk;

#endif
