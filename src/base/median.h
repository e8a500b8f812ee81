/* base/median.h -- the median of what was measured, and an interval for it that asks nothing of how the measurements scatter.
 *
 *   sorted    x1  x2  x3 [x4  x5  x6  x7  x8  x9  x10 x11 x12] x13 x14 x15          15 of them: 96.5 %
 *                         low             median             high
 *
 * Each measurement lies below the true median or above it like a coin that falls, whatever their distribution. So the true median is
 * below x_k when fewer than k of n coins fall low: with probability P(B <= k - 1), B binomial of n and 1/2, and as often above x_(n+1-k).
 * The interval is [x_k, x_(n+1-k)] for the greatest k that leaves at least 95 %. Source: Conover, Practical Nonparametric Statistics,
 * on confidence intervals for a quantile.
 */
#ifndef RP_MEDIAN_H
#define RP_MEDIAN_H

typedef struct {
    double median, low, high;
    double coverage;            /* the probability that [low, high] holds the true median: 0.95 at least from 6 on; with fewer that of all
                                   their range, 1 - 2^(1 - n) */
} rp_median;

/* Of n numbers, 1 at least, none of them a NaN; they are sorted. */
rp_median rp__median(double *x, int n);

#endif
