/* plan/reckon.h -- what the steps of a plan take, from a trace alone: the most bytes that are live, and seconds of what runs again.
 *
 * The trace's calls run in numbers as the tape would run them under the plan, by the rules of fates/fates.h.
 */
#ifndef RP_RECKON_H
#define RP_RECKON_H

#include "plan/plan.h"
#include "trace/trace.h"

/* Of one pass of the step: the most bytes over all its kinds, and the seconds of its replays. */
typedef struct { int64_t bytes; double recompute_seconds; } rp_reckoned;

/* errors RP_ERR_MEMORY */
rp_status rp__reckon_pass(rp_ctx *ctx, const rp_trace_pass *pass, const rp_plan_pass *plan, rp_reckoned *out);
/* Sets facts.bytes and recompute_seconds of a plan made for the trace. errors RP_ERR_MEMORY */
rp_status rp__reckon(rp_plan *plan, const rp_trace *trace);

#endif
