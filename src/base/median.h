/* base/median.h -- the median of measurements, with a confidence interval that assumes nothing about their distribution.
 *
 *   sorted    x1  x2  x3 [x4  x5  x6  x7  x8  x9  x10 x11 x12] x13 x14 x15          15 of them: 96.5 %
 *                         low             median             high
 *
 * Each measurement lies below or above the true median with probability 1/2, for any distribution. So the true median is
 * below x_k if fewer than k of n coins fall low: with probability P(B <= k - 1), B binomial of n and 1/2. It is as often above x_(n+1-k).
 * The interval is [x_k, x_(n+1-k)] for the largest k whose coverage is at least 95 %. Source: Conover, Practical Nonparametric Statistics,
 * on confidence intervals for a quantile.
 */
#ifndef RP_MEDIAN_H
#define RP_MEDIAN_H

typedef struct {
    double median, low, high;
    double coverage;            /* the probability that [low, high] contains the true median: at least 0.95 for n >= 6; below that [low, high] is the
                                   whole range, with coverage 1 - 2^(1 - n) */
} rp_median;

/* Sorts x and returns the median of its n numbers. n >= 1; no number is a NaN. */
rp_median rp__median(double *x, int n);

#endif
