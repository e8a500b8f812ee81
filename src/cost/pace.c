/* cost/pace.c -- measures how much longer calls take in sequence than each one repeated by itself.
 *
 *   by itself        matmul matmul matmul …  rmsnorm rmsnorm rmsnorm …      its code is in the cache, the CPU clock has adapted to it
 *   in sequence      matmul rmsnorm add attention …                         as in a training step
 *
 * All calls of a dtype run forward in order, then backward in reverse order. The pace is the time of such a turn divided by the sum of the
 * calls' own times. A turn takes the median of its runs, but a call's own time is the smallest of several. So the pace includes the effect
 * of other work on the machine.
 */
#include "cost/internal.h"

#include <math.h>

enum { MOST_CALLS = 128 };

typedef struct {
    rp_ctx *ctx;
    int n;
    rp_cost_timed *call[MOST_CALLS];
    bool runs[MOST_CALLS][RP_COST_PASSES];
    double alone;                       /* sum of the seconds of each call by itself */
} turn;

static rp_status open_calls(turn *t, rp_dtype dtype, const rp_cost_sample *sample)
{
    for (int i = 0; i < rp__cost_n_calls(); i++) {
        const rp_cost_call *c   = rp__cost_call_at(i);
        const rp_cost_sample *s = &sample[i * RP_COUNT(rp__cost_dtypes) * RP_COST_PASSES];
        for (int d = 0; rp__cost_dtypes[d] != dtype; d++) s += RP_COST_PASSES;
        if (c->when != RP_COST_SOON || !isfinite(s[RP_FORWARD].seconds)) continue;
        RP_BUG_IF(t->n == MOST_CALLS);
        RP_TRY(rp__cost_timed_new(t->ctx, rp__op_find(c->op), &c->call, dtype, 0, 0, &t->call[t->n++]));
        for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
            t->runs[t->n - 1][pass] = isfinite(s[pass].seconds);
            if (isfinite(s[pass].seconds)) t->alone += s[pass].seconds;
        }
    }
    return RP_OK;
}

static rp_status run_turn(const turn *t, double *seconds)
{
    double start = rp__seconds();

    for (int i = 0; i < t->n; i++)
        if (t->runs[i][RP_FORWARD]) RP_TRY(rp__cost_timed_run(t->call[i], RP_FORWARD));
    for (int i = t->n - 1; i >= 0; i--)
        if (t->runs[i][RP_BACKWARD]) RP_TRY(rp__cost_timed_run(t->call[i], RP_BACKWARD));
    *seconds = rp__seconds() - start;
    return RP_OK;
}

static rp_status time_turns(const turn *t, int n, double *pace)
{
    double seconds[RP_COST_MOST_RUNS], warm;

    RP_TRY(run_turn(t, &warm));
    for (int i = 0; i < n; i++) RP_TRY(run_turn(t, &seconds[i]));
    *pace = t->alone > 0 ? rp__cost_middle(seconds, n) / t->alone : 1;
    return RP_OK;
}

rp_status rp__cost_pace(rp_ctx *ctx, rp_dtype dtype, const rp_cost_sample *sample, int n, double *pace)
{
    turn t = { .ctx = ctx };

    rp_status status = open_calls(&t, dtype, sample);
    if (status == RP_OK) status = time_turns(&t, n, pace);
    for (int i = 0; i < t.n; i++) rp__cost_timed_free(t.call[i]);
    return status;
}
