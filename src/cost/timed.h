/* cost/timed.h -- one call of an op with made-up data, run over and over to be timed, through the op's own interface. */
#ifndef RP_COST_TIMED_H
#define RP_COST_TIMED_H

#include "ops/call.h"

/* In so many places of memory by turns that they fill `spread` bytes (0: one place). */
typedef struct rp_cost_timed rp_cost_timed;

/* An input wants a gradient where its dtype allows one and bit i of `frozen` is not set.
 * errors those of the op · RP_ERR_MEMORY */
rp_status rp__cost_timed_new(rp_ctx *ctx, const rp_op *op, const rp_op_case *c, rp_dtype dtype, uint32_t frozen, int64_t spread,
                             rp_cost_timed **out);
void rp__cost_timed_free(rp_cost_timed *t);
const rp_op_meta *rp__cost_timed_meta(const rp_cost_timed *t);
/* A backward follows a forward in the same place. */
rp_status rp__cost_timed_run(rp_cost_timed *t, rp_pass pass);

#endif
