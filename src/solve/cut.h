/* solve/cut.h -- what any schedule must compute again so that a step fits: a lower bound, by minimum cuts.
 *
 *     forward  ────────────────────▶ turn ────────────────────▶  backward
 *     calls make values                │      a value that a backward reads was live at the turn, or the call that makes it runs
 *                                   capacity  again, and then what that call reads was live at the turn or is made again, too
 *
 * The turn is where the loss has been computed and its backward has not begun. Let S be what is live there: its bytes are within the
 * capacity, and the calls that follow from S run again at least once, whatever the order, the regions and the nesting. So no schedule
 * computes less again than the least seconds(S) with bytes(S) <= capacity. (Where values may be offloaded, count to the capacity what can
 * be moved away before the turn.) That is no less than, for any price of a byte,
 *
 *     min over S of [ seconds(S) + price bytes(S) ]  -  price capacity        (Lagrange; the best price gives the bound)
 *
 * Its inner minimum is a minimum cut:
 *
 *     source ──∞──▶ value that a backward reads
 *                   value ──price·bytes──▶ call that makes it ──seconds──▶ sink        cut left: kept, cut right: runs again
 *                     ▲                      │
 *                     └──────────∞───────────┘ every value it reads                    a call makes all its values at its price once
 *
 * Divided by the price only the arcs into the sink depend on it, so the cuts are nested (Gallo, Grigoriadis, Tarjan, SIAM J. Comput. 18,
 * 1989): a call that runs again at one price runs again at every higher one. All prices together give the lower hull of the points
 * (bytes, seconds) over all S, a point being the best S for a range of prices, and the hull at a capacity is the bound:
 *
 *     seconds
 *        │ ×  point n-1: fewest bytes; no S has less, and a lower capacity has no schedule
 *        │  ╲    ·            · other sets S: on or above the line
 *        │   ×      ·
 *        │      ╲ ─ _   ·
 *        └────────────×────── bytes      point 0: nothing runs again, fewest bytes of these
 *
 * Exact: seconds are taken in whole quanta, rounded down (a power of two, 2^-52 to 2^-51 of all calls' together), and cuts, points and
 * bound are computed in integers. So the bound is never above the true one, below it by less than a quantum a call and one more, and it
 * never rises with capacity.
 */
#ifndef RP_SOLVE_CUT_H
#define RP_SOLVE_CUT_H

#include <math.h>

#include "base/base.h"

/* Borrowed arrays. Calls in the order they ran. */
typedef struct {
    int n_values, n_calls;
    const int64_t *bytes;           /* of each value, as they count in the capacity; together < 2^62 */
    const int *call;                /* that makes it; -1: a leaf, there at no price */
    const bool *needed;             /* a backward reads it */
    const bool *fixed;              /* kept whatever is planned, counted outside the capacity: there at no price */
    const double *seconds;          /* that running a call again adds, finite and >= 0; INFINITY: it never runs again */
    const int *first_read, *read;   /* call c reads read[first_read[c]] up to before read[first_read[c + 1]], made by calls before it */
} rp_cut;

typedef struct { int64_t bytes; double seconds; } rp_cut_point;     /* kept at the turn · of the calls that run again, in whole quanta */

typedef struct {
    rp_cut_point *point;            /* bytes fall, seconds rise, every point is a corner of the hull; seconds of the first one are 0 */
    int n_points;                   /* at least 1 */
    double quantum;                 /* seconds, a power of two */
} rp_cut_hull;

/* The whole hull: every capacity's bound. Free with rp__cut_hull_free.
 * errors RP_ERR_MEMORY; `out` is untouched then */
rp_status rp__cut_hull(rp_ctx *ctx, const rp_cut *cut, rp_cut_hull *out);
void rp__cut_hull_free(rp_cut_hull *hull);

/* Seconds that any schedule runs again with at most `capacity` bytes of open values live at the turn. HUGE_VAL: none has so few, because
 * too much must be live that nothing may make again. 0: nothing needs to run again. */
double rp__cut_hull_bound(const rp_cut_hull *hull, int64_t capacity);

#endif
