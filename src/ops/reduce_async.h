/* ops/reduce_async.h -- sums over ranks that are in flight while backward continues with earlier layers.
 *
 *   backward     … block 3 ──▶ block 2 ──▶ block 1 …
 *   sums               [ of 3 ─ ─ ─ ][ of 2 ─ ─ ─ ]        waited for when their buffer space or slice is needed, or the pass ends
 *
 *   buffer       [ copy of the gradient | received from the others ][ … ]       of each sum, oldest first
 *
 * The gradient itself is freed at once, so calls, values and addresses are the same as without overlap. The buffer is allocated before the first
 * step, class comm. If a sum does not fit into it, its call waits for the sum. Bits are the same, because no sum depends on the division into pieces.
 */
#ifndef RP_OPS_REDUCE_ASYNC_H
#define RP_OPS_REDUCE_ASYNC_H

#include "ops/collective.h"

typedef struct rp_reduce_async rp_reduce_async;

/* A sum over a group of ranks (collective.c). */
typedef struct {
    rp_ctx *ctx;
    const char *op, *path;              /* names the operation in messages if waiting takes long */
    int threads;
    rp_comm *group, *replicas;
    int64_t n, stride;                  /* elements of the whole; elements between received parts */
    int ranks, rank, bytes, copies;
    rp_dtype dtype;
    uint8_t *scratch, *between;         /* pieces of the call itself; memory for sums between groups */
} rp_reduction;

rp_reduction rp__reduction_over(const rp_op_call *c, rp_comm *group, int64_t n, rp_dtype dtype);
/* Sets part[] to piece i of every rank's slice, `stride` elements each. */
void rp__reduction_piece(const rp_reduction *r, int64_t i, rp_comm_part *part);
/* Starts sending part[r] of the whole to each rank r, which sums it. `origin` is the element of the whole at which `from` begins.
 * errors as rp__comm_exchange */
rp_status rp__reduction_start(const rp_reduction *r, const rp_comm_part *part, const uint8_t *from, int64_t origin, void *received, rp_comm_request *out);
/* Waits for *request and sums `mine` received elements into this rank's slice, from element `at`. errors as rp__comm_exchange */
rp_status rp__reduction_finish(const rp_reduction *r, const uint8_t *received, int64_t mine, int64_t at, rp_tensor *slice, bool adds,
                               rp_comm_request *request);
/* Bytes of `between` for received parts that are `stride` elements apart; 0 without replicas. */
int64_t rp__between_room(const rp_ctx *ctx, int64_t stride, int64_t bytes);

/* Enables overlapping sums in the context, with a buffer of this many bytes. errors RP_ERR_MEMORY */
rp_status rp__reduce_async_open(rp_ctx *ctx, int64_t bytes);
void rp__reduce_async_close(rp_ctx *ctx);             /* does nothing if they are off */
int64_t rp__reduce_async_bytes(const rp_ctx *ctx);    /* of the buffer; 0 if off */
/* Bytes of the buffer that the sum of a whole of n elements takes. */
int64_t rp__reduce_async_room(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes);

/* Starts a sum into `slice` if it fits into the buffer, and sets *left. The slice must then stay in place until the sum is settled. If *left stays
 * false, the sum did not start, and every sum in flight into this slice has been settled. errors as rp__comm_exchange */
rp_status rp__reduce_async_begin(const rp_reduction *r, const void *whole, int64_t room, rp_tensor *slice, bool adds, bool *left);
/* Waits for all sums in flight and adds them; if a slice is given, only up to its last sum. errors as rp__comm_exchange */
rp_status rp__reduce_async_settle(rp_ctx *ctx, const rp_tensor *slice);
/* After an error: waits for the sums in flight and discards them; their slices are no longer written. */
void rp__reduce_async_drop(rp_ctx *ctx);

#endif
