/* trace/trace.h -- the record of a step on shapes that the planner needs.
 *
 *   tick       0     1     2   …  n-1 │  n    n+1  …   2n-1         a pass: n calls forward, then the same calls backward
 *   call       0     1     2   …  n-1 │ n-1   n-2  …    0
 *   value            ▐▀▀▀▀▀▀▀▌ until                                how long the program itself holds it, under any plan
 *   fixed      ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▂▂▃▃▄▄▅▅▅▆▆▆                          bytes that are no value: weights, batch, gradients, scratch
 *
 * During the recorded step, everything that may be recomputed is recomputed. So the ledger shows how long the program itself holds values,
 * and the other memory that backward takes. Passes of a step (micro-batches) with the same calls share one record; only their fixed bytes
 * differ. Bytes are rounded as the pool rounds them.
 */
#ifndef RP_TRACE_H
#define RP_TRACE_H

#include "base/bump.h"
#include "cost/cost.h"
#include "tape/tape.h"

enum { RP_TRACE_NEEDS = RP_MAX_IN + RP_MAX_OUT + RP_MAX_SLOT };

typedef struct {
    rp_op_meta meta;
    const char *path;
    int n_in, in[RP_MAX_IN];                    /* values */
    int n_made, made[RP_MAX_OUT + RP_MAX_SLOT];
    int n_needs, needs[RP_TRACE_NEEDS];         /* values that its backward reads */
    int64_t run_bytes;                          /* bytes taken by one run: all its outputs and by-products, and scratch */
    double forward, backward;                   /* seconds */
    double keep, recompute;                         /* cost of keeping the outputs that backward reads · cost of recomputing them instead (cost/keep.h) */
    bool replays;                               /* it may be rerun */
} rp_trace_call;

typedef struct {
    int call, nth;                              /* its producer; -1: a leaf · index among the values of its producer */
    int64_t bytes;
    int until;                                  /* the last tick of the forward at which the program or a must-rule holds it; INT_MAX: still at its end */
    int own;                                    /* the same for the program alone, which may release a must-keep value earlier */
    int dropped;                                /* of a constant that only the tape holds: the first tick at which `fixed` excludes it; else 0 */
    rp_fate fate;                               /* if must is set */
    bool must;                                  /* a must-rule decides it, not the plan */
    bool offloadable;                           /* its policy prefers offloading and an offload place exists */
    double copy;                                /* if it is offloadable, or a must-rule offloads it: seconds of copying it out and in */
} rp_trace_value;

/* Bytes of a tick: at its beginning and at most during it. Must-rules offload values under any plan; the recorded step fetched them
 * when its own replay read them. A plan may fetch them later, so `unfetched` excludes them. */
typedef struct {
    int64_t before, most, before_unfetched, most_unfetched;
} rp_trace_fixed;

typedef struct {
    uint64_t hash;                              /* of calls, shapes, reads, and values that may be offloaded */
    int n_calls, n_values;
    rp_trace_call *call;
    rp_trace_value *value;
    rp_trace_fixed **fixed;                     /* for each different pass with these calls: its ticks */
    int n_fixed, n_passes;                      /* number of different ones · number of passes with these calls in the step */
    double bandwidth;                           /* of the place for offloaded values, bytes/s; 0: no offloading */
} rp_trace_pass;

typedef struct {
    rp_bump bump;
    rp_trace_pass *pass;
    int n_passes;                               /* different passes, in order of first occurrence */
    int *order, n_order;                        /* index of the first, second, … pass of the step */
    int64_t outside;                            /* peak bytes between passes and after them */
    double seconds, forward_seconds;            /* all passes without replays · only forwards */
} rp_trace;

/* Record everything that runs on a shapes-only context from begin to end. The trace observes the context's ledger and plans its tape.
 * costs NULL: 10^12 operations count as one second. At begin, no call may be recorded, and weights and states must exist. Errors:
 * RP_ERR_MEMORY. */
typedef struct rp_tracer rp_tracer;
rp_status rp__trace_begin(rp_ctx *ctx, const rp_cost_table *costs, rp_tracer **out);
/* End recording and free the tracer, even after an error. Close the trace in every case. Errors: RP_ERR_MEMORY. */
rp_status rp__trace_end(rp_tracer *tracer, rp_trace *out);
void rp__trace_close(rp_trace *trace);

/* Returns the first call that reads a value, in its backward or when it is rerun. The last call of a pass is never rerun, because its
 * backward follows at once. -1: nothing reads it after the forward. */
int rp__trace_first_reader(const rp_trace_pass *pass, int value);
/* Returns the first call whose backward reads a value. -1: none. */
int rp__trace_first_need(const rp_trace_pass *pass, int value);
/* Find the last call that reads each value in the forward; its producer if none does. */
void rp__trace_last_readers(const rp_trace_pass *pass, int *last);

#endif
