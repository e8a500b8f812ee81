/* plan/trace_inside.h -- between the two halves of a trace: trace.c observes, trace_pass.c copies what was recorded. */
#ifndef RP_TRACE_INSIDE_H
#define RP_TRACE_INSIDE_H

#include "plan/trace.h"

enum { RP_TRACE_MADE = RP_MAX_OUT + RP_MAX_SLOT };

/* What the tape does not know of the pass it has recorded. */
typedef struct {
    rp_ctx *ctx;
    rp_trace *trace;
    const rp_cost_table *costs;                 /* NULL: a second is 10^12 operations */
    const int *until;                           /* by call * RP_TRACE_MADE + nth of a value: never given back in the forward, -1 */
    const uint32_t *goes;                       /* by call: what it makes that may go, a bit each */
    double bandwidth;                           /* of the place for what goes; 0: there is none */
} rp_trace_notes;

/* The pass becomes one of the trace's, if none is like it: *pass is which. errors RP_ERR_MEMORY */
rp_status rp__trace_add(const rp_trace_notes *notes, int *pass);

#endif
