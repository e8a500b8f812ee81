/* plan/bound.h -- what no schedule of a pass gets below, whatever it keeps, nests or orders: the certificate of a plan. */
#ifndef RP_BOUND_H
#define RP_BOUND_H

#include "plan/cut.h"
#include "plan/trace.h"

/* The hull of plan/cut.h for a pass. Free with rp__cut_hull_free. errors RP_ERR_MEMORY */
rp_status rp__bound_hull(rp_ctx *ctx, const rp_trace_pass *pass, rp_cut_hull *out);

/* Seconds that a pass computes again at least to stay within `budget` bytes. */
double rp__bound_seconds(const rp_trace_pass *pass, const rp_cut_hull *hull, int64_t budget);

#endif
