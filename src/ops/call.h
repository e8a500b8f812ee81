/* ops/call.h -- runs one op: first its declarations, then its buffers from the ledger, then its code.
 *
 * These three functions are the only place that calls an op's shape, forward and backward. The tape decides when.
 */
#ifndef RP_OPS_CALL_H
#define RP_OPS_CALL_H

#include "reprise/ops.h"
#include "reprise/op.h"
#include "tensor/tensor.h"

/* Every built-in op by its name: rp_op_matmul, … */
#define RP_OP(name) extern const rp_op rp_op_##name;
#include "ops/ops.def"
#undef RP_OP

/* The part of ops/ in a context. */
typedef struct {
    const rp_op **own;                  /* ops registered with rp_op_register */
    int n_own, room_own;
    rp_status status;                   /* the error of a backend inside an op, which itself cannot return one */
    const char *path;                   /* of the running or last call, for messages; NULL: none yet. Set by the tape */
    struct rp_prefetch *prefetch;             /* gathers started before their call (prefetch.h); NULL: off */
    struct rp_reduce_async *reduce_async;           /* sums over ranks that overlap with backward (reduce_async.h); NULL: off */
} rp_ops_ctx;
static inline rp_ops_ctx *rp__ops_ctx(const rp_ctx *ctx) { return ctx->part[RP_PART_OPS]; }

/* The built-in op of that name, or NULL. */
const rp_op *rp__op_find(const char *name);
/* May a replay run it? If not, its outputs are kept. */
static inline bool rp__op_replays(const rp_op *op)
{
    return !(op->flags & (RP_OP_COLLECTIVE | RP_OP_EFFECT | RP_OP_DECIDES)) || (op->flags & RP_OP_REPLAYS);
}
/* Is the gradient of input i the output's gradient itself, which the tape passes on? Backward does not compute it. */
static inline bool rp__op_passes(const rp_op_meta *m, int i) { return (m->op->flags & RP_OP_GRAD_PASS) && rp_meta_same(&m->in[i], &m->out[0]); }
/* Does backward compute a wanted gradient? */
static inline bool rp__op_runs_back(const rp_op_meta *m)
{
    bool runs = false;

    for (int i = 0; i < m->n_in; i++) runs = runs || (m->in_grad[i] && !rp__op_passes(m, i));
    return runs && m->want_grad && m->op->backward;
}
/* The outputs of a call, then its by-products: the declaration of the i-th, and its bit in `needs`. */
static inline const rp_meta *rp__op_made(const rp_op_meta *m, int i) { return i < m->n_out ? &m->out[i] : &m->slot[i - m->n_out]; }
static inline uint32_t rp__op_made_bit(const rp_op_meta *m, int i) { return i < m->n_out ? RP_OUT(i) : RP_SLOT(i - m->n_out); }
/* Does the host compute this call because its device has no kernels for it? Always false for devices whose ops the host runs. */
bool rp__op_falls_back(const rp_op_meta *m);
int rp__op_count(void);
const rp_op *rp__op_at(int i);
/* The same, and also among the context's registered ops. */
const rp_op *rp__op_find_in(const rp_ctx *ctx, const char *name);

/* Fills *m, runs `shape` and checks its declarations. in[] must be set; want_grad[i] says whether input i wants a gradient (NULL: none do).
 * errors  RP_ERR_ARG wrong inputs · RP_ERR_SHAPE wrong declarations · those of the op's `shape` */
rp_status rp__op_prepare(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, bool train,
                         const bool *want_grad, rp_op_meta *m);

/* Allocates the NULL entries of out[] and slot[] (class temp, of collectives comm) and runs forward. On failure it frees them and sets them to NULL.
 * In train mode, a forward that is not a replay counts as a write to the inputs in the op's `writes_in`.
 * errors  RP_ERR_MEMORY · those that the op's code recorded */
rp_status rp__op_forward(const rp_op_meta *m, rp_op_stream stream, bool replaying, rp_tensor *const *in, rp_tensor **out,
                         rp_tensor **slot);

/* Runs backward on a filled call (meta, tensors, adds, stream); allocates only its scratch. errors as rp__op_forward */
rp_status rp__op_backward(rp_op_call *call);

/* Adds the FLOPs of a pass. The sum stops at INT64_MAX: shapes without data may be that large. */
static inline void rp__op_add_flops(int64_t *sum, const rp_op_meta *m, rp_pass pass)
{
    int64_t flops = m->op->cost ? m->op->cost(m, pass).flops : 0;

    *sum = flops > INT64_MAX - *sum ? INT64_MAX : *sum + flops;
}

#endif
