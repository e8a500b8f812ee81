/* ops/reduce.h -- what sum and mean share: y = factor * (sum over one dimension), the dimension gone from y. */
#ifndef RP_OPS_REDUCE_H
#define RP_OPS_REDUCE_H

#include "ops/common.h"

/* Checks, and out[0] = in[0] without the dimension of attr. */
rp_status rp__reduce_shape(rp_op_meta *m);
/* in[0] as [outer, n, inner] around that dimension. */
rp_around rp__reduce_around(const rp_op_meta *m);
void rp__reduce_sum(const rp_op_call *c, double factor);
void rp__reduce_spread(const rp_op_call *c, double factor);

#endif
