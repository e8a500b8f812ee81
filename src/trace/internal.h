/* trace/internal.h -- between the two halves of a trace: trace.c observes, pass.c copies what was recorded. */
#ifndef RP_TRACE_INTERNAL_H
#define RP_TRACE_INTERNAL_H

#include "trace/trace.h"

enum { RP_TRACE_MADE = RP_MAX_OUT + RP_MAX_SLOT };

/* A tick of the pass, as observed. Of its forward half also what happened to what the tick's call made. */
typedef struct {
    int64_t before, most;                       /* fixed bytes: when it begins, and the most during it */
    int64_t before_unfetched, most_unfetched;   /* the same without offloaded values that are back */
    int until[RP_TRACE_MADE];                   /* the last tick of the forward at which each value was there; -1: never given back in the forward */
    int own[RP_TRACE_MADE];                     /* of what the tape held, too: the last tick at which somebody else did; -1: until it was given back */
    uint32_t offloadable;                              /* which of them may go, a bit each */
} rp_trace_tick;

/* What the tape does not know of the pass it has recorded. */
typedef struct {
    rp_ctx *ctx;
    rp_trace *trace;
    const rp_cost_table *costs;                 /* NULL: a second is 10^12 operations */
    const rp_trace_tick *at;                    /* by call */
    double bandwidth;                           /* of the place for what goes; 0: there is none */
} rp_trace_notes;

/* Of one run of the call. */
double rp__trace_seconds(const rp_trace_notes *notes, const rp_op_meta *call, rp_pass pass);
/* Of the copies to and from the place for offloaded slots. */
double rp__trace_copy_seconds(const rp_trace_notes *notes, const rp_meta *meta);
/* Set the seconds of keeping and of replaying each call, and round all seconds. The tape still has the pass. errors RP_ERR_MEMORY */
rp_status rp__trace_price(const rp_trace_notes *notes, rp_trace_pass *pass);

/* The pass becomes one of the trace's, if none is like it: *pass is which. errors RP_ERR_MEMORY */
rp_status rp__trace_add(const rp_trace_notes *notes, int *pass);

#endif
