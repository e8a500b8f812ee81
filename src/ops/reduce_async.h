/* ops/reduce_async.h -- sums over ranks that are on their way while the ops before them run backward.
 *
 *   backward     … block 3 ──▶ block 2 ──▶ block 1 …
 *   sums               [ of 3 ─ ─ ─ ][ of 2 ─ ─ ─ ]        waited for where their room is wanted, their slice is, or the pass ends
 *
 *   buffer       [ copy of the gradient | what the others have sent ][ … ]       of each sum, oldest first
 *
 * The gradient itself goes at once, so nothing about calls, values or addresses is other than without: the buffer stands from before the first
 * step, class comm. A sum that does not fit into it is waited for by its call. Bits are the same: pieces matter to no sum.
 */
#ifndef RP_OPS_REDUCE_ASYNC_H
#define RP_OPS_REDUCE_ASYNC_H

#include "ops/collective.h"

typedef struct rp_reduce_async rp_reduce_async;

/* A sum over a group of ranks (collective.c). */
typedef struct {
    rp_ctx *ctx;
    const char *op, *path;              /* that it is of, for whom waiting takes long */
    int threads;
    rp_comm *group, *replicas;
    int64_t n, stride;                  /* elements of the whole · between the received parts */
    int ranks, rank, bytes, copies;
    rp_dtype dtype;
    uint8_t *scratch, *between;         /* pieces of the call itself · where sums between groups stand */
} rp_reduction;

rp_reduction rp__reduction_over(const rp_op_call *c, rp_comm *group, int64_t n, rp_dtype dtype);
/* Piece i of every rank's slice, `stride` elements of each. */
void rp__reduction_piece(const rp_reduction *r, int64_t i, rp_comm_part *part);
/* part[r]: what of the whole rank r sums; `origin`: the element of the whole that `from` begins with. */
rp_status rp__reduction_start(const rp_reduction *r, const rp_comm_part *part, const uint8_t *from, int64_t origin, void *received, rp_comm_request *out);
/* `mine` elements of this rank's slice, from `at` on. */
rp_status rp__reduction_finish(const rp_reduction *r, const uint8_t *received, int64_t mine, int64_t at, rp_tensor *slice, bool adds,
                               rp_comm_request *request);
/* Bytes of `between` for received parts `stride` elements apart; 0 where there are no groups. */
int64_t rp__between_room(const rp_ctx *ctx, int64_t stride, int64_t bytes);

/* A buffer of so many bytes, for the context's sums from here on. errors RP_ERR_MEMORY */
rp_status rp__reduce_async_open(rp_ctx *ctx, int64_t bytes);
void rp__reduce_async_close(rp_ctx *ctx);             /* a context without one is fine */
int64_t rp__reduce_async_bytes(const rp_ctx *ctx);    /* of the buffer; 0 without one */
/* What it takes for the sum of a whole of n elements. */
int64_t rp__reduce_async_room(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes);

/* *left: the sum is left to come by itself, into `slice`, which stays where backward has it until then. False: there is no room for it, and all
 * that was under way for this slice has come. errors RP_ERR_BACKEND */
rp_status rp__reduce_async_begin(const rp_reduction *r, const void *whole, int64_t room, rp_tensor *slice, bool adds, bool *left);
/* All that is under way comes; of one slice alone, where one is given. errors RP_ERR_BACKEND */
rp_status rp__reduce_async_settle(rp_ctx *ctx, const rp_tensor *slice);
/* After an error: what is under way is for nobody, and its slices are not written any more. */
void rp__reduce_async_drop(rp_ctx *ctx);

#endif
