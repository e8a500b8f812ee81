/* ops/op_internal.h -- what every op file includes. */
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

/* May this call use the kernels that take dense buffers? The same answer in shape, forward and backward, so that scratch is sized
 * for what will run. An op whose kernels take strides asks m->fast alone. */
bool rp__op_fast(const rp_op_meta *m);

/* The table for this call: the device's when rp__op_fast, else the empty one. */
const rp_kernels *rp__op_kernels(const rp_op_call *c);

/* What the kernels of this call are given last. */
static inline const rp_on *rp__on(const rp_op_meta *m) { return &m->ctx->on; }

/* A backend failed inside forward or backward: remembered in the context, returned by the call that ran the op. */
void rp__op_failed(const rp_op_call *c, rp_status status);

/* For shape: backward reads what `reads` lists only for the gradients of these inputs. */
static inline void rp__read_for(rp_op_meta *m, uint32_t reads, uint32_t grads)
{
    for (int i = 0; i < m->n_in; i++)
        if (m->in_grad[i] && (grads & RP_IN(i))) return;
    m->needs &= ~reads;
}

/* Scratch is handed out from the front; shape sums the same sizes with rp__scratch_add. */
static inline int64_t rp__scratch_add(int64_t *total, int64_t bytes)
{
    int64_t at = *total;

    *total += rp__align_up(bytes);
    return at;
}

static inline void *rp__data(const rp_tensor *t) { return t ? rp__tensor_data(t) : NULL; }

#endif
