/* plan/simulate.h -- computes the bytes and seconds of a plan's steps from a trace: the peak of live bytes, and the seconds of recomputing.
 *
 * The calls of the trace run on numbers as the tape would run them under the plan, by the rules of fates/fates.h.
 */
#ifndef RP_SIMULATE_H
#define RP_SIMULATE_H

#include "plan/plan.h"
#include "trace/trace.h"

/* Results for one pass of the step: peak bytes over all its kinds, and the seconds of its replays; offloaded bytes, and the seconds of
 * copying them out and in. */
typedef struct { int64_t bytes, offloaded_bytes; double recompute_seconds, copy_seconds; } rp_simulated;

/* The recomputed calls and the fetched values, in the order of the step. `backward`: the call whose backward comes next. */
typedef struct {
    void (*run)(void *user, int backward, int call);
    void (*fetch)(void *user, int backward, int value);
    void *user;
} rp_simulate_watch;

/* watch NULL: none. Errors: RP_ERR_MEMORY. */
rp_status rp__simulate_pass(rp_ctx *ctx, const rp_trace_pass *pass, const rp_plan_pass *plan, const rp_simulate_watch *watch,
                            rp_simulated *out);
/* Set facts.bytes and facts.recompute_seconds of a plan made for the trace. Errors: RP_ERR_MEMORY. */
rp_status rp__simulate(rp_plan *plan, const rp_trace *trace);

#endif
