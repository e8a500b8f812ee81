/* trace/internal.h -- shared by the two halves of a trace: trace.c observes a step, pass.c copies recorded passes. */
#ifndef RP_TRACE_INTERNAL_H
#define RP_TRACE_INTERNAL_H

#include "trace/trace.h"

enum { RP_TRACE_MADE = RP_MAX_OUT + RP_MAX_SLOT };

/* Observations of one tick of a pass. For ticks of the forward, they include the lives of the values that the tick's call made. */
typedef struct {
    rp_trace_fixed fixed;
    int until[RP_TRACE_MADE];                   /* for each value: the last tick of the forward at which it existed; -1: not freed in the forward */
    int own[RP_TRACE_MADE];                     /* for each value: the last tick at which others than the tape held it; -1: until it was freed */
    uint32_t offloadable;                              /* values that may be offloaded, one bit each */
} rp_trace_tick;

/* Data about a recorded pass that the tape does not have. */
typedef struct {
    rp_ctx *ctx;
    rp_trace *trace;
    const rp_cost_table *costs;                 /* NULL: 10^12 operations count as one second */
    const rp_trace_tick *at;                    /* for each call */
    double bandwidth;                           /* of the place for offloaded values, bytes/s; 0: none */
} rp_trace_notes;

/* Returns the seconds of one run of the call. */
double rp__trace_seconds(const rp_trace_notes *notes, const rp_op_meta *call, rp_pass pass);
/* Returns the seconds of copying a value to the place for offloaded slots and back. */
double rp__trace_copy_seconds(const rp_trace_notes *notes, const rp_meta *meta);
/* Set the seconds of keeping and of replaying each call, and round all seconds. The pass must still be on the tape. Errors: RP_ERR_MEMORY. */
rp_status rp__trace_price(const rp_trace_notes *notes, rp_trace_pass *pass);
/* Round to 40 bits of the pass's seconds. Then sums do not depend on the order, and equal durations compare as equal. */
void rp__trace_round(rp_trace_pass *pass);

/* Add the pass to the trace, unless the trace has an equal one. *pass: its index. Errors: RP_ERR_MEMORY. */
rp_status rp__trace_add(const rp_trace_notes *notes, int *pass);

#endif
