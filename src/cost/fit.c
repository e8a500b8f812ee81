/* cost/fit.c -- computes rows from times.
 *
 *   overhead     the time of the smallest call
 *   t            the time of a larger call minus the overhead
 *   flow, peak   the largest bytes / t and the largest flops / t of all ops of a dtype
 *   memory-bound an op whose bytes / t is at least half the flow: its row has that bandwidth, and the peak as rate
 *   else         its row has the rate flops / t, and the flow as bandwidth
 *   others       the median over ops of each of the three
 *   pace         factor on all times, because calls run one after the other (pace.c)
 *
 * For several sizes the geometric mean is used: a plan adds up calls of all sizes, so no size should be far off.
 */
#include "cost/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_OPS = 256 };

/* ---- measured rates ---- */

static bool counts(const rp_cost_sample *s, int op, rp_dtype dtype, rp_pass pass, bool tiny)
{
    return isfinite(s->seconds) && s->op == op && s->dtype == dtype && s->pass == pass && (s->when == RP_COST_TINY) == tiny;
}

/* Limits the rate if a time is close to its overhead, where noise would make the rate unbounded. */
static double beyond(double seconds, double overhead) { return fmax(seconds - overhead, 0.1 * seconds); }

/* rate 0: no arithmetic. bandwidth 0: not measured. */
static rp_cost_row reached(const rp_cost_sample *sample, int n, int op, rp_dtype dtype, rp_pass pass)
{
    rp_cost_row r = { 0 };
    double flops = 0, bytes = 0;
    int sizes = 0;

    for (int i = 0; i < n; i++)
        if (counts(&sample[i], op, dtype, pass, true)) r.overhead = sample[i].seconds;
    for (int i = 0; i < n; i++) {
        if (!counts(&sample[i], op, dtype, pass, false)) continue;
        double t = beyond(sample[i].seconds, r.overhead);
        flops += log((double)sample[i].work.flops / t);
        bytes += log((double)rp__cost_bytes(sample[i].work) / t);
        sizes++;
    }
    return sizes ? (rp_cost_row){ r.overhead, exp(flops / sizes), exp(bytes / sizes), 0 } : r;
}

/* ---- rows ---- */

static int upwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double rp__cost_middle(double *value, int n)
{
    if (n == 0) return 0;
    qsort(value, (size_t)n, sizeof *value, upwards);
    return value[n / 2];
}

static rp_cost_row others(const rp_cost_table *t, rp_dtype dtype, rp_pass pass)
{
    double overhead[MOST_OPS], rate[MOST_OPS], bandwidth[MOST_OPS];
    int n = 0, n_rate = 0;

    for (int op = 0; op < rp__op_count(); op++) {
        const rp_cost_row *r = rp__cost_row(t, op, dtype, pass);
        if (r->bandwidth <= 0) continue;
        overhead[n]    = r->overhead;
        bandwidth[n++] = r->bandwidth;
        if (r->rate > 0) rate[n_rate++] = r->rate;
    }
    return (rp_cost_row){ rp__cost_middle(overhead, n), rp__cost_middle(rate, n_rate), rp__cost_middle(bandwidth, n), 0 };
}

static void bound(rp_cost_row *r, double peak, double flow)
{
    if (r->bandwidth <= 0) return;
    if (r->bandwidth >= flow / 2 || r->rate <= 0) r->rate = peak;
    else r->bandwidth = flow;
}

static void fit_dtype(rp_cost_table *t, const rp_cost_sample *sample, int n, rp_dtype dtype)
{
    double peak = 0, flow = 0;

    for (int op = 0; op < rp__op_count(); op++)
        for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
            rp_cost_row r = reached(sample, n, op, dtype, pass);
            peak          = fmax(peak, r.rate);
            flow          = fmax(flow, r.bandwidth);
            *rp__cost_row(t, op, dtype, pass) = r;
        }
    for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
        *rp__cost_row(t, rp__op_count(), dtype, pass) = others(t, dtype, pass);
        for (int op = 0; op < rp__op_count(); op++) bound(rp__cost_row(t, op, dtype, pass), peak, flow);
    }
}

static void slow_down(rp_cost_row *r, double pace)
{
    r->overhead *= pace;
    r->rate /= pace;
    r->bandwidth /= pace;
}

void rp__cost_fit(rp_cost_table *table, const rp_cost_sample *sample, int n, const double pace[RP_DTYPES])
{
    RP_BUG_IF(rp__op_count() > MOST_OPS);
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
        rp_dtype dtype = rp__cost_dtypes[d];
        fit_dtype(table, sample, n, dtype);
        for (int op = 0; op <= rp__op_count(); op++)
            for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) slow_down(rp__cost_row(table, op, dtype, pass), pace[dtype]);
    }
}

const char *rp__cost_line(const rp_cost_table *table, int op, rp_dtype dtype, rp_pass pass, char out[RP_COST_LINE_CHARS])
{
    const rp_cost_row *r = rp__cost_row(table, op, dtype, pass);

    snprintf(out, RP_COST_LINE_CHARS, "%-20s  %-4s  %-8s  %9.1f us  %9.4g GFLOP/s  %8.4g GB/s",
             rp__cost_op_name(op), rp_dtype_name(dtype), rp__cost_pass_names[pass], r->overhead * 1e6, r->rate * 1e-9, r->bandwidth * 1e-9);
    return out;
}
