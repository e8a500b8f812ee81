/* shard/ranks.h -- the layout of a run's ranks: which ranks share a copy of the weights, and which hold the same part of it.
 *
 *   8 ranks, replicate_dim 2      shards     0 1 2 3 | 4 5 6 7      a copy of the weights in each group
 *                                 replicas   0 4 | 1 5 | 2 6 | 3 7  the same slices
 *
 *   reshard_after_forward 2       inner      0 1 | 2 3 | 4 5 | 6 7  each rank keeps half of a copy from forward to backward; backward gathers here
 *                                 outer      0 2 | 1 3 | 4 6 | 5 7  that half is made from the slices of these ranks
 */
#ifndef RP_SHARD_RANKS_H
#define RP_SHARD_RANKS_H

#include "comm/comm.h"
#include "tensor/tensor.h"

/* Makes the context's tensors and ops those of a rank of `world` (borrowed; NULL: one rank). replicate_dim: number of copies of the weights.
 * All ranks must call it.
 * errors  RP_ERR_CONFIG replicate_dim does not divide the ranks · RP_ERR_UNSUPPORTED too many ranks · RP_ERR_BACKEND · RP_ERR_MEMORY */
rp_status rp__ranks_join(rp_ctx *ctx, rp_comm *world, int64_t replicate_dim);
/* Call it before rp__ranks_join or rp__ranks_pretend: slices then hold a multiple of `elems`. 0: of RP_SLICE_ELEMS. Holds until rp__ranks_leave. */
void rp__ranks_slice(rp_ctx *ctx, int64_t elems);
/* The same on shapes alone, with a simulated world that the context owns: rank `rank` of `ranks`. errors as rp__ranks_join */
rp_status rp__ranks_pretend(rp_ctx *ctx, int rank, int ranks, int64_t replicate_dim);
/* Call it after rp__ranks_join or rp__ranks_pretend. Gathered weights then stay in parts on every `ranks` neighbours of the shards. 0: they do not.
 * Does nothing if the context has one rank.
 * errors  RP_ERR_CONFIG `ranks` is below 2, not below the number of shards, or does not divide it · RP_ERR_BACKEND · RP_ERR_MEMORY */
rp_status rp__ranks_stay(rp_ctx *ctx, int64_t ranks);
/* Leaves the groups: the context has one rank again. None of its parameters may still exist. Does nothing if the context has not joined. */
void rp__ranks_leave(rp_ctx *ctx);

/* Sums *value over the ranks of `over`, with the same result on all of them. With one rank it does nothing. errors RP_ERR_BACKEND */
rp_status rp__ranks_sum(rp_ctx *ctx, rp_comm *over, double *value, const char *operation);       /* in rank order */
/* Is this the rank that writes files and prints? */
static inline bool rp__ranks_first(const rp_ctx *ctx) { return rp__comm_rank(rp__world(ctx)) == 0; }

#endif
