/* Claims about the median of measurements: which ranks its interval takes, and that the interval holds as often as it says. */
/* ctest: device-free thread-free */
#include "rp_test.h"

#include "base/median.h"

#include <math.h>

enum { MOST = 400 };

/* n, … 2, 1: a value is its rank. */
static rp_median of_ranks(int n)
{
    double x[MOST];

    for (int i = 0; i < n; i++) x[i] = n - i;
    return rp__median(x, n);
}

static void the_median_is_in_the_middle(void **state)
{
    double odd[] = { 3, -1, 2 }, even[] = { 4, 1, 3, 2 }, one[] = { 5 };

    (void)state;
    assert_true(rp__median(odd, 3).median == 2);
    assert_true(rp__median(even, 4).median == 2.5);
    assert_true(rp__median(one, 1).median == 5);
    for (int i = 1; i < 4; i++) assert_true(even[i - 1] < even[i]);
}

/* As exact sums of binomial coefficients give them. */
static void the_interval_takes_the_widest_ranks_that_are_needed(void **state)
{
    static const struct { int n, low; double coverage; } table[] = {
        { 6, 1, 0.96875 }, { 8, 1, 0.9921875 }, { 9, 2, 0.9609375 }, { 10, 2, 0.978515625 }, { 15, 4, 0.96484375 },
        { 20, 6, 0.95861053466796875 }, { 25, 8, 0.9567147493362427 }, { 30, 10, 0.9572260547429323 },
        { 100, 40, 0.9647997997822952 },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(table); i++) {
        rp_median m = of_ranks(table[i].n);
        if (m.low != table[i].low || m.high != table[i].n + 1 - table[i].low)
            fail_msg("of %d: ranks %g to %g, not from %d", table[i].n, m.low, m.high, table[i].low);
        if (fabs(m.coverage - table[i].coverage) > 1e-12) fail_msg("of %d: %.15f", table[i].n, m.coverage);
    }
}

static void of_fewer_than_six_the_range_holds_less_and_says_so(void **state)
{
    (void)state;
    for (int n = 1; n < 6; n++) {
        rp_median m = of_ranks(n);
        assert_true(m.low == 1 && m.high == n);
        assert_true(fabs(m.coverage - (1 - pow(2, 1 - n))) < 1e-12);
    }
}

/* No rank nearer to the middle would do, for any count. */
static void no_narrower_interval_holds_with_95_percent(void **state)
{
    (void)state;
    for (int n = 6; n <= MOST; n++) {
        rp_median m  = of_ranks(n);
        double inner = m.coverage;
        int k        = (int)m.low;
        inner -= 2 * exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2));
        if (m.coverage < 0.95 || inner >= 0.95) fail_msg("of %d: from rank %d, %.6f; the next one %.6f", n, k, m.coverage, inner);
        assert_true(m.high == n + 1 - k);
    }
}

static double uniform(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (double)(*x >> 11) / 9007199254740992.0;
}

/* Draws of a lopsided distribution with the median 1: the interval holds it as often as it says, within four deviations of the count. */
static void the_interval_holds_the_true_median_as_often_as_it_says(void **state)
{
    enum { DRAWS = 20000, N = 15 };
    uint64_t seed = 7;
    int held      = 0;
    double said   = 0;

    (void)state;
    for (int i = 0; i < DRAWS; i++) {
        double x[N];
        for (int k = 0; k < N; k++) x[k] = -log(1 - uniform(&seed)) / log(2);
        rp_median m = rp__median(x, N);
        held += m.low <= 1 && 1 <= m.high;
        said = m.coverage;
    }
    double deviation = sqrt(said * (1 - said) * DRAWS);
    if (fabs(held - said * DRAWS) > 4 * deviation) fail_msg("held %d of %d times; said %.4f", held, DRAWS, said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_median_is_in_the_middle),
        cmocka_unit_test(the_interval_takes_the_widest_ranks_that_are_needed),
        cmocka_unit_test(of_fewer_than_six_the_range_holds_less_and_says_so),
        cmocka_unit_test(no_narrower_interval_holds_with_95_percent),
        cmocka_unit_test(the_interval_holds_the_true_median_as_often_as_it_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
