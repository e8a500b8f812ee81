/* ops/reduce.h -- shared code of sum and mean: y = factor * (sum over one dimension); y lacks that dimension. */
#ifndef RP_OPS_REDUCE_H
#define RP_OPS_REDUCE_H

#include "ops/common.h"

/* Checks the input and declares out[0] = in[0] without the dimension of attr. errors RP_ERR_DTYPE · RP_ERR_SHAPE no such dimension */
rp_status rp__reduce_shape(rp_op_meta *m);
/* in[0] as [outer, n, inner] around that dimension. */
rp_around rp__reduce_around(const rp_op_meta *m);
void rp__reduce_sum(const rp_op_call *c, double factor);
void rp__reduce_spread(const rp_op_call *c, double factor);

#endif
