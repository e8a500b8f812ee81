/* Claims about the exponential that every kernel uses, as compiled for the lowest level. */
/* ctest: level-free */
#include "rp_test.h"

#define RP_LEVEL base
#include "kernels/cpu/cpu.h"

static void exp_is_within_two_steps_of_the_double_one(void **state)
{
    (void)state;
    double worst = 0;

    for (int i = -870000; i <= 880000; i++) {
        float x = (float)i * 1e-4f;
        double expected = exp((double)x), step = (double)nextafterf((float)expected, INFINITY) - (double)(float)expected;
        worst = fmax(worst, fabs((double)fast_exp(x) - expected) / step);
    }
    assert_true(worst <= 2);
}

static void exp_of_what_was_masked_is_exactly_zero(void **state)
{
    (void)state;
    static const float masked[] = { -INFINITY, -3e38f, -1e4f, -107.0f };

    for (int i = 0; i < RP_COUNT(masked); i++) assert_true(fast_exp(masked[i]) == 0);
}

static void exp_saturates_above_and_passes_nan(void **state)
{
    (void)state;
    assert_true(fast_exp(INFINITY) == fast_exp(88.0f) && isfinite(fast_exp(88.0f)));
    assert_true(isnan(fast_exp(NAN)));
    assert_true(fast_exp(0.0f) == 1);
}

/* Every level has its own exponential on vectors; softmax of { 0, x } shows it: exp(x) / (1 + exp(x)) for x <= 0. */
static void exp_on_vectors_is_within_a_millionth_at_every_level(void **state)
{
    const rp_kernels *level[RP_MAX_LEVELS];
    int n_levels = rp__kernels_levels(level, RP_COUNT(level));
    float x[2] = { 0 }, y[2];

    (void)state;
    for (int l = 0; l < n_levels; l++)
        for (int i = 0; i <= 8700; i++) {
            x[1]         = (float)i * -1e-2f;
            double right = exp((double)x[1]) / (1 + exp((double)x[1]));
            level[l]->softmax_forward(RP_F32, x, y, 1, 2, &(rp_on){ .threads = 1 });
            assert_true(fabs((double)y[1] - right) <= 1e-6 * right);
        }
}

static void exp_on_vectors_is_zero_for_what_was_masked_and_nan_for_nan_at_every_level(void **state)
{
    static const float masked[] = { -INFINITY, -3e38f, -1e4f, -107.0f };
    const rp_kernels *level[RP_MAX_LEVELS];
    int n_levels = rp__kernels_levels(level, RP_COUNT(level));
    float x[2] = { 0 }, y[2];

    (void)state;
    for (int l = 0; l < n_levels; l++) {
        for (int i = 0; i < RP_COUNT(masked); i++) {
            x[1] = masked[i];
            level[l]->softmax_forward(RP_F32, x, y, 1, 2, &(rp_on){ .threads = 1 });
            assert_true(y[0] == 1 && y[1] == 0);
        }
        x[1] = NAN;
        level[l]->softmax_forward(RP_F32, x, y, 1, 2, &(rp_on){ .threads = 1 });
        assert_true(isnan(y[0]) && isnan(y[1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_steps_of_the_double_one),
        cmocka_unit_test(exp_of_what_was_masked_is_exactly_zero),
        cmocka_unit_test(exp_saturates_above_and_passes_nan),
        cmocka_unit_test(exp_on_vectors_is_within_a_millionth_at_every_level),
        cmocka_unit_test(exp_on_vectors_is_zero_for_what_was_masked_and_nan_for_nan_at_every_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
