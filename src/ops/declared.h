/* ops/declared.h -- what an op says about itself is looked over before anything relies on it: once for an op of a user's own, and
 * after `shape` for every call. */
#ifndef RP_OPS_DECLARED_H
#define RP_OPS_DECLARED_H

#include "ops/call.h"

/* What `shape` left in *m is within what the op declares, and every output and slot is a shape.
 * errors  RP_ERR_SHAPE naming the op and what is wrong */
rp_status rp__op_check_declared(const rp_op_meta *m, int n_in);

#endif
