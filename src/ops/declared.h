/* ops/declared.h -- checks an op's declarations before other code relies on them: when a user's op is registered, and
 * after `shape` in every call. */
#ifndef RP_OPS_DECLARED_H
#define RP_OPS_DECLARED_H

#include "ops/call.h"

/* Checks that *m, as `shape` left it, is within the op's declarations, and that every output and slot has a valid shape.
 * errors  RP_ERR_SHAPE names the op and the problem */
rp_status rp__op_check_declared(const rp_op_meta *m, int n_in);

#endif
