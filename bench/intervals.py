"""Medians as src/base/median.h has them."""
import math
import statistics


def median_interval(values):
    """The median, the narrowest ranks that hold the true one with 95 %, all of them where there are fewer than six, and with how much."""
    x, n, k, below = sorted(values), len(values), 0, 0.5 ** len(values)
    while k + 1 < n - 1 - k and below + math.comb(n, k + 1) * 0.5 ** n <= 0.025:
        k += 1
        below += math.comb(n, k) * 0.5 ** n
    return statistics.median(x), [x[k], x[n - 1 - k]], 1 - 2 * below
