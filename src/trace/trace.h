/* trace/trace.h -- what a step on shapes did, as far as a planner needs to know it.
 *
 *   tick       0     1     2   …  n-1 │  n    n+1  …   2n-1         a pass: n calls forward, then the same calls backward
 *   call       0     1     2   …  n-1 │ n-1   n-2  …    0
 *   value            ▐▀▀▀▀▀▀▀▌ until                                how long the program itself holds it, whatever a plan says
 *   fixed      ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▂▂▃▃▄▄▅▅▅▆▆▆                          all that is no value: weights, batch, gradients, scratch
 *
 * A step is recorded while all that may be recomputed is: then the ledger shows the program's own hold on values, and whatever backward
 * takes besides. Passes of a step (micro-batches) whose calls are alike share one record; they differ in what is fixed.
 * Bytes are rounded as the pool takes them.
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
    int n_needs, needs[RP_TRACE_NEEDS];         /* what its backward reads */
    int64_t run_bytes;                          /* what running it once takes: all it makes, and scratch */
    double forward, backward;                   /* seconds */
    double keep, recompute;                         /* of keeping what backward reads of what it makes; of running it again instead (cost/keep.h) */
    bool replays;                               /* it may run again */
} rp_trace_call;

typedef struct {
    int call, nth;                              /* -1: a leaf */
    int64_t bytes;
    int until;                                  /* the last tick of the forward at which the program, or a must, holds it; INT_MAX: also at the turn */
    int own;                                    /* the same of the program alone: where a must keeps it, it may let go earlier */
    int gone;                                   /* of a constant that the tape alone holds: the tick from which on `fixed` has it no more; else 0 */
    rp_fate fate;                               /* where must is set */
    bool must;                                  /* not for the plan to choose */
    bool may_go;                                /* its policy prefers that it is offloaded, and there is a place for it … */
    double copy;                                /* … then the seconds of copying it out and in */
} rp_trace_value;

/* Bytes by tick, when it begins and the most during it. A must offloads values whatever the plan; the recorded step fetched these when its own replay
 * read them. A plan may fetch them later: `unfetched` is without them. */
typedef struct {
    int64_t *before, *most, *before_unfetched, *most_unfetched;
} rp_trace_fixed;

typedef struct {
    uint64_t hash;                              /* of calls, shapes, who reads what, and what may go */
    int n_calls, n_values;
    rp_trace_call *call;
    rp_trace_value *value;
    rp_trace_fixed *fixed;                      /* of each pass that is like this */
    int n_fixed, n_passes;                      /* different ones are kept; n_passes: how many passes there were */
    double bandwidth;                           /* of the place for what goes, bytes/s; 0: nothing goes */
} rp_trace_pass;

typedef struct {
    rp_bump bump;
    rp_trace_pass *pass;
    int n_passes;                               /* different ones, in the order in which they came */
    int *order, n_order;                        /* which of them the first, the second … pass of the step is */
    int64_t outside;                            /* the most there was between passes and behind them */
    double seconds, forward_seconds;            /* of all passes without replays; of their forwards */
} rp_trace;

/* Record what runs on the context, of shapes alone, from begin to end. Its ledger is observed and its tape planned by the trace.
 * costs NULL: a second is 10^12 operations. begin: when no call is recorded and weights and states are there. errors RP_ERR_MEMORY */
typedef struct rp_tracer rp_tracer;
rp_status rp__trace_begin(rp_ctx *ctx, const rp_cost_table *costs, rp_tracer **out);
/* Ends it whatever it says; close the trace then, too. errors RP_ERR_MEMORY */
rp_status rp__trace_end(rp_tracer *tracer, rp_trace *out);
void rp__trace_close(rp_trace *trace);

/* The first call that reads a value, for its backward or to run again. The last call of a pass never runs again, as its backward comes at once.
 * -1: nobody reads it after the forward. */
int rp__trace_first_reader(const rp_trace_pass *pass, int value);

#endif
