/* ops/collective.h -- what the collective ops share: a whole tensor from the ranks' slices of it, and the sum over ranks back into slices.
 *
 *   slice [room]     rank r's elements r * room … of the whole, in row-major order, zeros behind the last (comm/comm.h)
 *   gather           every slice to every rank; or a part of them first, from those who are far, and what is kept of it again and again, among
 *                    those who are near (ahead.h)
 *   reduce           in pieces: of each piece every rank gets the others' values of its slice, and adds them up in the order of ranks, in
 *                    fp32; one piece is on its way while the one before it is summed
 *
 *      whole, at rank 0     [ 0 . . . | 1 . . . | 2 . . . ]     a piece of each slice goes to its rank …
 *      scratch, at rank 1   [ from 0 | from 1 | from 2 ]        … and is summed there
 *
 * Where groups hold copies of the same weights (replicas), each piece of a slice's sum, in fp32, goes to those who hold the same slice, and
 * their sums are added up in the order of groups.
 *
 * So sums have the same bits whatever carries the bytes, and a reduce takes two pieces of scratch, not a second copy of the whole.
 */
#ifndef RP_OPS_COLLECTIVE_H
#define RP_OPS_COLLECTIVE_H

#include "comm/comm.h"
#include "ops/common.h"
#include "ops/prefetch.h"

/* One number of each rank stands on the stack. */
enum { RP_MOST_RANKS = 16384 };

/* The group that a call talks in: those who hold one copy of the weights together. */
static inline rp_comm *rp__group(const rp_ctx *ctx) { return rp__shards(ctx); }
/* For shape: the whole that an rp_attr_whole describes, of the dtype of input 0. It is floating, and no extent is below 1.
 * errors RP_ERR_ARG · RP_ERR_DTYPE */
rp_status rp__check_whole(const rp_op_meta *m, rp_meta *whole);
/* This rank's slice of n elements. */
rp_slice rp__slice_here(const rp_ctx *ctx, int64_t n);

/* Bytes that a rank sends: its slice to each other, or the others' slices of the gradient that it has; a sum also between groups. */
int64_t rp__gather_sends(const rp_ctx *ctx, const rp_meta *whole, rp_gather_from from);
int64_t rp__reduce_sends(const rp_ctx *ctx, const rp_meta *whole);

/* A tensor of t's shape and `dtype`, dense, in `room`. It lives as long as *storage. */
rp_tensor rp__dense_in(const rp_tensor *t, rp_dtype dtype, rp_storage *storage, void *room);
/* What is sent lies in one piece: the data of `t`, or of a strided one a copy in `room`, for which shape asks rp__dense_room bytes. */
const void *rp__dense_data(const rp_tensor *t, void *room);
int64_t rp__dense_room(const rp_op_meta *m, const rp_meta *t);

/* to = what is asked for (to->from: see rp__dense_data), of the same dtype. */
void rp__gather_slices(const rp_op_call *c, rp_gathering ask, rp_tensor *to);
/* Of so many elements in all, those of a rank's part: the slices that those who are far have at its place. */
int64_t rp__part_elems(const rp_ctx *ctx, int64_t n);

/* A stretch of a whole of n elements comes here from the slices it lies in: `to` is there when its request has been waited for. */
rp_status rp__window_fetch(const rp_op_call *c, int64_t n, const void *slice, int bytes, int64_t first, int64_t count, void *to, rp_comm_request *out);
/* A stretch of every rank's whole goes to those who hold it, whose own goes to `received`. Where they are many, in several pieces: the first
 * is begun … */
rp_status rp__window_send(const rp_op_call *c, int64_t n, rp_dtype dtype, const void *from, int64_t first, int64_t count, void *received,
                          rp_comm_request *out);
/* … and waited for here, summed into this rank's slice, and followed by the others. */
rp_status rp__window_sum(const rp_op_call *c, int64_t n, rp_dtype dtype, const void *from, int64_t first, int64_t count, void *received,
                         rp_comm_request *sent, rp_tensor *slice, bool adds);
/* Bytes of `received` for stretches of up to `count` elements of `bytes` each: at most four such stretches, and 4 MiB where there are groups. */
int64_t rp__window_room(const rp_ctx *ctx, int64_t n, int64_t count, int64_t bytes);
/* Waits for a request; RP_OK where there is none. */
rp_status rp__group_wait(const rp_op_call *c, rp_comm_request *request);
/* Zeros behind a slice's last element. */
void rp__clear_rest(const rp_comm *group, int64_t n, rp_tensor *slice);

/* slice = the sum over a group's ranks of their whole, or is added to: `adds`. dtypes may differ. scratch: rp__reduce_scratch bytes. */
void rp__reduce_whole(const rp_op_call *c, rp_comm *group, const rp_meta *meta, const void *whole, rp_tensor *slice, bool adds);
/* Elements of each slice that go in one piece; of a stretch, those that one rank sums at a time; of either, those that go between groups at once. */
int64_t rp__reduce_stride(const rp_comm *group, int64_t n, int64_t bytes);
int64_t rp__window_stride(const rp_ctx *ctx, int64_t n, int64_t count);
int64_t rp__between_stride(const rp_ctx *ctx, int64_t stride, int64_t bytes);
/* For a whole of up to `bytes` an element. */
int64_t rp__reduce_scratch(const rp_ctx *ctx, const rp_comm *group, int64_t n, int64_t bytes);

#endif
