/* solve/bound.h -- a lower bound on the recomputed seconds of a pass, over all choices of keeping, nesting and order.
 *
 *   forward ──────────────▶ turn ──┬────────┬──────────────┬──────▶ backward        instants: the turn, and in each stretch of the backward
 *                                  t1       t2             t3                        the tick with the most fixed bytes
 *
 * At an instant in the backward of call c, three things are known: values that backwards of calls before c read are live or recomputed
 * later; values that c's own backward reads are live; the fixed bytes are live. That is the problem of solve/cut.h with the remaining
 * budget as capacity. Each instant gives a bound, and the greatest one holds.
 */
#ifndef RP_SOLVE_BOUND_H
#define RP_SOLVE_BOUND_H

#include "solve/cut.h"
#include "trace/trace.h"

enum { RP_BOUND_INSTANTS = 9 };

typedef struct {
    struct { rp_cut_hull hull; int64_t taken; } at[RP_BOUND_INSTANTS];      /* taken: bytes that the cut may not choose */
    int n;
} rp_pass_bound;

/* Computes the hulls of a pass. Free with rp__pass_bound_close even if this fails. errors RP_ERR_MEMORY */
rp_status rp__pass_bound_open(rp_ctx *ctx, const rp_trace_pass *pass, rp_pass_bound *out);
void rp__pass_bound_close(rp_pass_bound *bound);

/* Returns a lower bound on the seconds that a pass recomputes within `budget` bytes. HUGE_VAL: no schedule fits. */
double rp__pass_bound_seconds(const rp_pass_bound *bound, int64_t budget);
/* Returns a lower bound on the bytes of every schedule of the pass. */
int64_t rp__pass_bound_bytes(const rp_pass_bound *bound);

#endif
