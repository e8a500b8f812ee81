/* base/median.c -- sorts, and sums binomial probabilities. */
#include "base/median.h"

#include <math.h>
#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* P(B = k) for n coins. It uses logarithms, because 2^-n underflows a double. */
static double coins(int n, int k) { return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2)); }

rp_median rp__median(double *x, int n)
{
    double below = coins(n, 0), more;           /* P(B <= k) */
    int k        = 0;

    qsort(x, (size_t)n, sizeof *x, by_size);
    for (; k + 1 < n - 1 - k && below + (more = coins(n, k + 1)) <= 0.025; k++) below += more;
    return (rp_median){ (x[(n - 1) / 2] + x[n / 2]) / 2, x[k], x[n - 1 - k], 1 - 2 * below };
}
