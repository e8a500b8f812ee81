/* ops/call.h -- run one op: declarations first, then its buffers from the ledger, then its code.
 *
 * These three functions are the only place that calls an op's shape, forward and backward. The tape decides when.
 */
#ifndef RP_OPS_CALL_H
#define RP_OPS_CALL_H

#include "reprise/ops.h"
#include "reprise/op.h"
#include "tensor/tensor.h"

/* Every op by its name: rp_op_matmul, … */
#define RP_OP(name) extern const rp_op rp_op_##name;
#include "ops/ops.def"
#undef RP_OP

/* What ops/ keeps in a context. */
typedef struct {
    const rp_op **own;                  /* ops made known by rp_op_register */
    int n_own, room_own;
    rp_status status;                   /* what a backend said inside an op that cannot fail */
    const char *path;                   /* of the call that runs, or ran last, for messages; NULL: none has. The tape sets it */
    struct rp_prefetch *prefetch;             /* gathers that are under way before they are asked for (ahead.h); NULL: none are */
    struct rp_reduce_async *reduce_async;           /* sums over ranks that are left to come by themselves (reduce_async.h); NULL: none are */
} rp_ops_ctx;
static inline rp_ops_ctx *rp__ops_ctx(const rp_ctx *ctx) { return ctx->part[RP_PART_OPS]; }

/* The built-in op of that name, or NULL. */
const rp_op *rp__op_find(const char *name);
/* May it run again? Else a replay keeps what it made. */
static inline bool rp__op_replays(const rp_op *op)
{
    return !(op->flags & (RP_OP_COLLECTIVE | RP_OP_EFFECT | RP_OP_DECIDES)) || (op->flags & RP_OP_REPLAYS);
}
int rp__op_count(void);
const rp_op *rp__op_at(int i);
/* The same among those the context was told of too (rp_op_register). */
const rp_op *rp__op_find_in(const rp_ctx *ctx, const char *name);

/* Fill *m, run `shape` and look over what it declares. in[] must be set; want_grad[i] says which inputs want a gradient (NULL: none). */
rp_status rp__op_prepare(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, bool train,
                         const bool *want_grad, rp_op_meta *m);

/* Allocate what of out[] and slot[] is NULL (class temp), run forward. On failure nothing stays allocated here. In train mode a forward
 * that is no replay writes the inputs that the op's `writes_in` lists. */
rp_status rp__op_forward(const rp_op_meta *m, rp_op_stream stream, bool replaying, rp_tensor *const *in, rp_tensor **out,
                         rp_tensor **slot);

/* Run backward on a filled call (meta, tensors, adds, stream); allocates only its scratch. */
rp_status rp__op_backward(rp_op_call *call);

#endif
