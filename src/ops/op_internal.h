/* ops/op_internal.h -- includes and helpers for every op file. */
#ifndef RP_OP_INTERNAL_H
#define RP_OP_INTERNAL_H

#include <math.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "reprise/ops.h"
#include "ops/call.h"
#include "reprise/op.h"
#include "tensor/tensor.h"

/* May this call use the kernels that take dense buffers? The answer is the same in shape, forward and backward, so that scratch has the size
 * for the code that will run. An op whose kernels take strides checks only m->fast. */
bool rp__op_fast(const rp_op_meta *m);

/* Does the device run the op with its own kernels? Then the op's code launches them and reads no tensor. Else the host runs the code. */
bool rp__op_launches(const rp_op_meta *m);
/* The table of kernels for the code of this op, wherever it runs. */
const rp_kernels *rp__op_table(const rp_op_meta *m);
/* The same if rp__op_fast, else the empty table. */
const rp_kernels *rp__op_kernels(const rp_op_call *c);

/* The last argument of this call's kernels. */
static inline const rp_on *rp__on(const rp_op_meta *m) { return &m->ctx->on; }

/* Records the status of a step of forward or backward in the context; the call that runs the op returns it. True if it is an error. */
bool rp__op_failed(const rp_op_call *c, rp_status status);

/* For shape: states that backward reads the tensors in `reads` only for the gradients of the inputs in `grads`. */
static inline void rp__read_for(rp_op_meta *m, uint32_t reads, uint32_t grads)
{
    for (int i = 0; i < m->n_in; i++)
        if (m->in_grad[i] && (grads & RP_IN(i))) return;
    m->needs &= ~reads;
}

/* Scratch is assigned from its start; shape adds up the same sizes with rp__scratch_add. Returns the offset, a multiple of the device's alignment. */
static inline int64_t rp__scratch_add(const rp_ctx *ctx, int64_t *total, int64_t bytes)
{
    int64_t at = *total;

    *total += rp__mem_rounded(ctx, bytes);
    return at;
}

static inline void *rp__data(const rp_tensor *t) { return t ? rp__tensor_data(t) : NULL; }

#endif
