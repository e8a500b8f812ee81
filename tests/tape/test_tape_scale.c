/* Claims about the tape's own cost: bookkeeping is proportional to the calls, whatever the regions. */
#include "tape/tape_test.h"

enum { CALLS = 10000, A_REGION = 20 };

typedef enum { NONE_AT_ALL, ALL_IN_ONE, SMALL_IN_ONE, SMALL_ONES } shape;

/* A chain of calls that all read one parameter, on shapes alone; seconds of forward, planning and backward. */
static double seconds_of(int calls, shape regions, int64_t *n_replayed)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_tensor *w = new_param(ctx, RP_F32, 4, 4, 1, 1, "w"), *x = rp_tensor_ref(w), *loss;
    bool one = regions == ALL_IN_ONE || regions == SMALL_IN_ONE, small = regions == SMALL_IN_ONE || regions == SMALL_ONES;
    rp_tape_stats stats;
    double start = rp__seconds();

    if (one) assert_ok(ctx, rp__region_begin(ctx, "all"));
    for (int i = 0; i < calls; i++) {
        if (small && i % A_REGION == 0) assert_ok(ctx, rp__region_begin(ctx, "small"));
        rp_tensor *y = i % 2 ? call_op(ctx, "mul", NULL, x, w, NULL) : call_op(ctx, "silu", NULL, x, NULL);
        rp_tensor_unref(x);
        x = y;
        if (small && i % A_REGION == A_REGION - 1) assert_ok(ctx, rp__region_end(ctx));
    }
    if (one) assert_ok(ctx, rp__region_end(ctx));
    loss = sum_all(ctx, x);
    rp_tensor_unref(x);
    assert_ok(ctx, rp__backward(ctx, loss));
    double seconds = rp__seconds() - start;
    rp__tape_stats(ctx, &stats);
    *n_replayed = stats.n_replayed;
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
    return seconds;
}

/* The least of three: other programs share the machine. */
static double least_seconds(int calls, shape regions, int64_t *n_replayed)
{
    double least = seconds_of(calls, regions, n_replayed);

    for (int i = 0; i < 2; i++) {
        double again = seconds_of(calls, regions, n_replayed);
        least        = again < least ? again : least;
    }
    return least;
}

static void ten_thousand_calls_cost_ten_times_what_a_thousand_do(void **state)
{
    (void)state;
    int64_t replayed;

    for (shape s = NONE_AT_ALL; s <= SMALL_ONES; s++) {
        double few = least_seconds(CALLS / 10, s, &replayed), many = least_seconds(CALLS, s, &replayed);
        if (many > 40 * few + 0.02) fail_msg("shape %d: %.1f ms for %d calls, %.1f ms for %d", (int)s, 1e3 * many, CALLS, 1e3 * few, CALLS / 10);
        print_message("           %.2f us a call, %d replayed\n", 1e6 * many / CALLS, (int)replayed);
    }
}

static void a_chain_is_replayed_as_often_as_its_nesting_asks(void **state)
{
    (void)state;
    int64_t replayed;

    seconds_of(CALLS, NONE_AT_ALL, &replayed);
    assert_int_equal(replayed, 0);
    seconds_of(CALLS, ALL_IN_ONE, &replayed);
    assert_int_equal(replayed, CALLS - 1);
    seconds_of(CALLS, SMALL_ONES, &replayed);
    assert_int_equal(replayed, CALLS - CALLS / A_REGION);
    seconds_of(CALLS, SMALL_IN_ONE, &replayed);
    assert_int_equal(replayed, 2 * CALLS - A_REGION - CALLS / A_REGION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_calls_cost_ten_times_what_a_thousand_do),
        cmocka_unit_test(a_chain_is_replayed_as_often_as_its_nesting_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
