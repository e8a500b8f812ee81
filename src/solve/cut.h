/* solve/cut.h -- a lower bound on recomputation for every schedule that fits, by minimum cuts.
 *
 *     forward  ────────────────────▶ turn ────────────────────▶  backward
 *     calls make values                │      a value that a backward reads was live at the turn, or its call is recomputed;
 *                                   capacity  then each value that this call reads was live at the turn, or is recomputed, too
 *
 * At the turn the loss has been computed and its backward has not begun. Let S be the values that are live there. Their bytes are within
 * the capacity. The calls that follow from S are recomputed at least once, for any order, regions and nesting. So every schedule recomputes
 * for at least the minimum of seconds(S) with bytes(S) <= capacity. (If values may be offloaded, add to the capacity the bytes that can be
 * moved away before the turn.) For any price of a byte, that minimum is at least
 *
 *     min over S of [ seconds(S) + price bytes(S) ]  -  price capacity        (Lagrange; the best price gives the bound)
 *
 * Its inner minimum is a minimum cut:
 *
 *     source ──∞──▶ value that a backward reads
 *                   value ──price·bytes──▶ call that makes it ──seconds──▶ sink        cut left: kept, cut right: recomputed
 *                     ▲                      │
 *                     └──────────∞───────────┘ every value it reads                    a call makes all its values, at its price once
 *
 * After division by the price only the arcs into the sink depend on it. So the cuts are nested (Gallo, Grigoriadis, Tarjan, SIAM J. Comput.
 * 18, 1989): a call recomputed at one price is recomputed at every higher price. All prices together give the lower hull of the points
 * (bytes, seconds) over all S. Each point is the best S for a range of prices. The hull at a capacity is the bound:
 *
 *     seconds
 *        │ ×  point n-1: fewest bytes; no S has fewer, and below that capacity no schedule fits
 *        │  ╲    ·            · other sets S: on or above the line
 *        │   ×      ·
 *        │      ╲ ─ _   ·
 *        └────────────×────── bytes      point 0: nothing is recomputed, with the fewest bytes for that
 *
 * Everything is exact. Seconds are rounded down to whole quanta (a power of two, 2^-52 to 2^-51 of the sum over all calls). Cuts, points
 * and bound are computed in integers. So the bound never exceeds the true one. It falls short by less than one quantum per call plus one,
 * and it never rises with capacity.
 */
#ifndef RP_SOLVE_CUT_H
#define RP_SOLVE_CUT_H

#include <math.h>

#include "base/base.h"

/* All arrays are borrowed. Calls are in the order in which they ran. */
typedef struct {
    int n_values, n_calls;
    const int64_t *bytes;           /* of each value, as counted in the capacity; their sum is below 2^62 */
    const int *call;                /* that makes each value; -1: a leaf, which costs nothing */
    const bool *needed;             /* a backward reads it */
    const bool *fixed;              /* kept under every plan and counted outside the capacity: costs nothing */
    const double *seconds;          /* that recomputing a call adds, finite and >= 0; INFINITY: it is never recomputed */
    const int *first_read, *read;   /* call c reads read[first_read[c]] … read[first_read[c + 1] - 1], made by calls before it */
} rp_cut;

typedef struct { int64_t bytes; double seconds; } rp_cut_point;     /* kept at the turn · of the recomputed calls, in whole quanta */

typedef struct {
    rp_cut_point *point;            /* bytes fall, seconds rise, every point is a corner of the hull; the first one has 0 seconds */
    int n_points;                   /* at least 1 */
    double quantum;                 /* seconds, a power of two */
} rp_cut_hull;

/* Computes the whole hull, which has the bound for every capacity. Free with rp__cut_hull_free. errors RP_ERR_MEMORY; `out` is unchanged then */
rp_status rp__cut_hull(rp_ctx *ctx, const rp_cut *cut, rp_cut_hull *out);
void rp__cut_hull_free(rp_cut_hull *hull);

/* Returns the least seconds that any schedule recomputes with at most `capacity` bytes of open values live at the turn. HUGE_VAL: no
 * schedule has so few bytes, because the values that nothing may recompute are larger. 0: nothing has to be recomputed. */
double rp__cut_hull_bound(const rp_cut_hull *hull, int64_t capacity);

#endif
