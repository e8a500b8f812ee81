/* ops/op_internal.h -- what every op file includes. */
#ifndef RP_OP_INTERNAL_H
#define RP_OP_INTERNAL_H

#include <math.h>
#include <string.h>

#include "kernels/gemm.h"
#include "kernels/kernels.h"
#include "ops/attr.h"
#include "ops/call.h"
#include "reprise/op.h"
#include "tensor/tensor.h"

/* The fast kernels this call may use: the empty table in fp64, on a device without kernels, or when an operand listed in the
 * call is a strided view (kernels take dense buffers unless they say otherwise). */
const rp_kernels *rp__op_kernels(const rp_op_call *c);
/* The same question at shape time, for scratch sizes (views are not known then: sizes serve both). */
bool rp__op_fast(const rp_op_meta *m);

/* A backend failed inside forward or backward: remembered in the context, returned by the call that ran the op. */
void rp__op_failed(const rp_op_call *c, rp_status status);

/* Scratch is handed out from the front; shape sums the same sizes with rp__scratch_add. */
static inline int64_t rp__scratch_add(int64_t *total, int64_t bytes)
{
    int64_t at = *total;

    *total += rp__align_up(bytes);
    return at;
}

static inline void *rp__data(const rp_tensor *t) { return t ? rp_tensor_data(t) : NULL; }

#endif
