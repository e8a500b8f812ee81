/* shard/ranks.h -- the ranks of a run, laid out: who holds a copy of the weights together, and who holds the same part of it.
 *
 *   8 ranks, replicate_dim 2      shards     0 1 2 3 | 4 5 6 7      a copy of the weights in each row
 *                                 replicas   0 4 | 1 5 | 2 6 | 3 7  the same slices
 *
 *   reshard_after_forward 2       near       0 1 | 2 3 | 4 5 | 6 7  keep a half of a copy each from forward to backward, and gather it there
 *                                 far        0 2 | 1 3 | 4 6 | 5 7  the others of whose slices that half is made
 */
#ifndef RP_SHARD_RANKS_H
#define RP_SHARD_RANKS_H

#include "comm/comm.h"
#include "tensor/tensor.h"

/* The context's tensors and ops are those of a rank of `world` from here on (borrowed; NULL: alone). All ranks call it.
 * errors  RP_ERR_CONFIG replicate_dim does not divide the ranks · RP_ERR_BACKEND · RP_ERR_MEMORY */
rp_status rp__ranks_join(rp_ctx *ctx, rp_comm *world, int64_t replicate_dim);
/* The same on shapes alone: rank `rank` of `ranks`, whom the context owns from here on. */
rp_status rp__ranks_pretend(rp_ctx *ctx, int rank, int ranks, int64_t replicate_dim);
/* After one of these: weights that were gathered stay in parts on every `ranks` neighbours of those that hold a copy together. 0: they do not.
 * Nothing is done where the context is alone.
 * errors  RP_ERR_CONFIG not more than 1 and fewer than those, or they do not divide them · RP_ERR_BACKEND · RP_ERR_MEMORY */
rp_status rp__ranks_stay(rp_ctx *ctx, int64_t ranks);
/* The context is alone again; no parameter of it is left. Nothing is done where nobody joined. */
void rp__ranks_leave(rp_ctx *ctx);

/* Small sums and choices that every rank makes alike, over the context's world; alone they cost nothing. errors RP_ERR_BACKEND */
rp_status rp__ranks_sum(rp_ctx *ctx, rp_comm *over, double *value, const char *what);       /* in the order of ranks */
/* Is this rank the one that writes files and speaks? */
static inline bool rp__ranks_first(const rp_ctx *ctx) { return rp__comm_rank(rp__world(ctx)) == 0; }

#endif
