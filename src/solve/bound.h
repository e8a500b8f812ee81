/* solve/bound.h -- what no schedule of a pass gets below, whatever it keeps, nests or orders: the certificate of a plan.
 *
 *   forward ──────────────▶ turn ──┬────────┬──────────────┬──────▶ backward        instants: the turn, and where in a stretch of backward
 *                                  t1       t2             t3                        most is live that is no value
 *
 * At an instant in the backward of call c, what backwards of calls before c read is live, or made again later; what c's own backward reads is
 * live; and what else is live is known. That is the question of solve/cut.h, with what is left of the budget as capacity. Each
 * instant gives a bound, the greatest holds.
 */
#ifndef RP_SOLVE_BOUND_H
#define RP_SOLVE_BOUND_H

#include "solve/cut.h"
#include "trace/trace.h"

enum { RP_BOUND_INSTANTS = 9 };

typedef struct {
    struct { rp_cut_hull hull; int64_t taken; } at[RP_BOUND_INSTANTS];      /* taken: bytes that are not for the cut to choose */
    int n;
} rp_pass_bound;

/* Free with rp__pass_bound_close, whatever it said. errors RP_ERR_MEMORY */
rp_status rp__pass_bound_open(rp_ctx *ctx, const rp_trace_pass *pass, rp_pass_bound *out);
void rp__pass_bound_close(rp_pass_bound *bound);

/* Seconds that a pass computes again at least to stay within `budget` bytes. HUGE_VAL: no schedule does. */
double rp__pass_bound_seconds(const rp_pass_bound *bound, int64_t budget);

#endif
