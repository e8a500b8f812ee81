/* ops/collective.h -- shared code of the collective ops: gathers a whole tensor from slices, and sums whole tensors over ranks into slices.
 *
 *   slice [room]     rank r's elements r * room … of the whole, in row-major order, zeros after the last element (comm/comm.h). The slice of a
 *                    quantised whole is uint8, its bytes: they are never decoded before they are gathered
 *   gather           every slice goes to every rank. Or in two steps: first the outer group makes parts, which are kept; then the inner group makes
 *                    the whole from them, as often as needed (prefetch.h)
 *   reduce           in pieces: every rank receives the others' values of its slice's piece and sums them in rank order, in
 *                    fp32; one piece is in flight while the piece before it is summed
 *
 *      whole, at rank 0     [ 0 . . . | 1 . . . | 2 . . . ]     a piece of each slice goes to its rank …
 *      scratch, at rank 1   [ from 0 | from 1 | from 2 ]        … and is summed there
 *
 * If several groups hold copies of the same weights (replicas), ranks with the same slice exchange each piece of their group's sum, in fp32.
 * They add these sums in the order of groups.
 *
 * So sums have the same bits with every engine, and a reduce needs scratch for two pieces, not for a second copy of the whole.
 */
#ifndef RP_OPS_COLLECTIVE_H
#define RP_OPS_COLLECTIVE_H

#include "comm/comm.h"
#include "ops/common.h"
#include "ops/prefetch.h"

/* Limits arrays on the stack that hold one number per rank. */
enum { RP_MOST_RANKS = 16384 };

/* The group of a call: the ranks that share one copy of the weights. */
static inline rp_comm *rp__group(const rp_ctx *ctx) { return rp__shards(ctx); }
/* The whole that an rp_attr_whole describes, and its checks for shape. Input 0 is floating and has the whole's dtype; or it is uint8, and the whole is
 * quantised and wants no gradient. No extent may be below 1.
 * errors RP_ERR_ARG · RP_ERR_DTYPE · RP_ERR_SHAPE */
rp_meta rp__attr_whole(const rp_op_meta *m);
rp_status rp__check_whole(const rp_op_meta *m, rp_meta *whole);
/* This rank's slice of n elements. */
rp_slice rp__slice_here(const rp_ctx *ctx, int64_t n);

/* Bytes that a rank sends. In a gather: its slice, or part, to each other rank. In a reduce: the others' slices of its gradient, and its sums to other
 * groups. */
int64_t rp__gather_sends(const rp_ctx *ctx, const rp_meta *whole, rp_gather_from from);
int64_t rp__reduce_sends(const rp_ctx *ctx, const rp_meta *whole);

/* A dense tensor of t's shape and of `dtype` in the memory `room`. It is valid as long as *storage. */
rp_tensor rp__dense_in(const rp_tensor *t, rp_dtype dtype, rp_storage *storage, void *room);
/* Data to send must be dense. Returns the data of `t`, or of a strided t a copy in `room`. shape requests rp__dense_room bytes for it. */
const void *rp__dense_data(const rp_tensor *t, void *room);
int64_t rp__dense_room(const rp_op_meta *m, const rp_meta *t);

/* Gathers from this rank's `mine` (rp__dense_data), a slice or a part of `whole`, into `to`. Errors go to rp__op_failed. */
void rp__gather_slices(const rp_op_call *c, rp_gather_from from, const void *mine, const rp_meta *whole, rp_tensor *to);
/* Number of elements of a rank's part, of a whole with n elements: the slices of its outer group. */
int64_t rp__part_elems(const rp_ctx *ctx, int64_t n);

/* Starts fetching elements [first, first + count) of a whole of n elements from the slices that hold them. `to` is complete after rp__group_wait.
 * errors as rp__comm_gather */
rp_status rp__window_fetch(const rp_op_call *c, int64_t n, const void *slice, int bytes, int64_t first, int64_t count, void *to, rp_comm_request *out);
/* Starts sending elements [first, first + count) of this rank's whole to the ranks whose slices hold them; `received` gets theirs. With many ranks
 * the data goes in several pieces, of which this starts the first. errors as rp__comm_exchange */
rp_status rp__window_send(const rp_op_call *c, int64_t n, rp_dtype dtype, const void *from, int64_t first, int64_t count, void *received,
                          rp_comm_request *out);
/* Waits for that piece, sums it into this rank's slice, then does the same for the other pieces. errors as rp__comm_exchange */
rp_status rp__window_sum(const rp_op_call *c, int64_t n, rp_dtype dtype, const void *from, int64_t first, int64_t count, void *received,
                         rp_comm_request *sent, rp_tensor *slice, bool adds);
/* Bytes of `received` for up to `count` elements of `bytes` each: at most four times that, plus 4 MiB if there are replicas. */
int64_t rp__window_room(const rp_ctx *ctx, int64_t n, int64_t count, int64_t bytes);
/* Waits for a request of the group; RP_OK if it is 0. errors RP_ERR_BACKEND */
rp_status rp__group_wait(const rp_op_call *c, rp_comm_request *request);
/* Zeroes the elements after a slice's last one. */
void rp__clear_rest(const rp_comm *group, int64_t n, rp_tensor *slice);

/* slice = sum over the group's ranks of `whole`, or slice += that sum if `adds`. dtypes may differ. c->scratch has rp__reduce_scratch bytes. Errors go
 * to rp__op_failed. */
void rp__reduce_whole(const rp_op_call *c, rp_comm *group, const rp_meta *meta, const void *whole, rp_tensor *slice, bool adds);
/* Elements of a slice per piece of a reduce; elements that one rank sums at a time in a window; elements per exchange between groups. */
int64_t rp__reduce_stride(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes);
int64_t rp__window_stride(const rp_ctx *ctx, int64_t n, int64_t count);
int64_t rp__between_stride(const rp_ctx *ctx, int64_t stride, int64_t bytes);
/* Bytes of scratch for a whole of n elements of up to `bytes` each. */
int64_t rp__reduce_scratch(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes);

#endif
