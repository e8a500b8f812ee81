/* cost/timed.h -- runs one call of an op repeatedly with generated data, through the op's own interface, so that it can be timed. */
#ifndef RP_COST_TIMED_H
#define RP_COST_TIMED_H

#include "ops/call.h"

/* A call with copies of its tensors in several places of memory, used in turn. Together they fill `spread` bytes (0: one place). */
typedef struct rp_cost_timed rp_cost_timed;

/* Prepare a call. An input wants a gradient if its dtype allows one and bit i of `frozen` is not set. Errors: those of the op,
 * RP_ERR_MEMORY. */
rp_status rp__cost_timed_new(rp_ctx *ctx, const rp_op *op, const rp_op_case *c, rp_dtype dtype, uint32_t frozen, int64_t spread,
                             rp_cost_timed **out);
void rp__cost_timed_free(rp_cost_timed *t);
const rp_op_meta *rp__cost_timed_meta(const rp_cost_timed *t);
/* Run one pass in the next place. A backward should use a place where a forward has run. Errors: those of the op. */
rp_status rp__cost_timed_run(rp_cost_timed *t, rp_pass pass);

#endif
