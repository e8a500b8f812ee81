/* ops/talk.h -- the messages that a pass of a call sends to other ranks, for pricing it (cost/comm.c).
 *
 *   a leg       messages    one after the other, at the rank that sends or receives most of them
 *               bytes       that this rank sends or receives in them
 *               in          a group of `ranks` ranks, each `apart` world ranks from the next
 *
 * Collectives are flat: every rank sends each other rank of the group a message of its own, over every network. A gather is one message to
 * each. A reduce is one to each per piece (collective.h). For an output head in blocks, the ranks that hold a block send it to all others, while the
 * others send nothing; its bytes are those of the holder, not an average per rank.
 */
#ifndef RP_OPS_TALK_H
#define RP_OPS_TALK_H

#include "ops/collective.h"

enum { RP_MOST_LEGS = 4 };

typedef struct { int64_t messages, bytes; int ranks, apart; } rp_leg;
typedef struct { rp_leg leg[RP_MOST_LEGS]; int n; } rp_talk;

/* The legs of a call. A user's op counts as one message of its comm_bytes, in the group that shares the weights. No legs if nothing is sent. */
rp_talk rp__talk(const rp_op_meta *call, rp_pass pass, int64_t comm_bytes);

/* For ops: append the legs of a gather or a reduce. */
void rp__talk_gather(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, rp_gather_from from);
void rp__talk_reduce(rp_talk *talk, const rp_ctx *ctx, const rp_comm *group, const rp_meta *whole);
/* For ops: append the legs of a whole that is fetched, or sent, in windows of `count` elements. */
void rp__talk_fetch(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, int64_t count);
void rp__talk_send(rp_talk *talk, const rp_ctx *ctx, const rp_meta *whole, int64_t count);

/* The legs of each built-in op that communicates. */
typedef void rp_talk_of(const rp_op_meta *call, rp_pass pass, rp_talk *talk);
rp_talk_of rp__all_gather_talk, rp__all_gather_far_talk, rp__reduce_scatter_talk, rp__linear_cross_entropy_talk;

#endif
