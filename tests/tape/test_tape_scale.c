/* Claims about the tape's own cost, counted: bookkeeping is proportional to the calls, whatever the regions. bench/tape.c times it. */
/* ctest: level-free thread-free */
#include "tape/internal.h"
#include "tape/tape_test.h"

enum { CALLS = 5000, A_REGION = 20 };

typedef enum { NONE_AT_ALL, ALL_IN_ONE, SMALL_IN_ONE, SMALL_ONES } shape;

typedef struct {
    int64_t allocs;                 /* of the whole pass: forward, planning, backward */
    int64_t listed;                 /* entries of all lists that replays go through */
    int64_t replayed;
} cost;

static int64_t entries(const rp_tape *tape)
{
    int64_t n = 0;

    for (int i = 0; i < tape->fates.n_region; i++) n += tape->fates.region[i].n_run + tape->fates.region[i].n_makes + tape->fates.region[i].n_bounds;
    return n;
}

/* A chain of calls that all read one parameter, on shapes alone. */
static cost cost_of(int calls, shape regions)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_tensor *w = new_param(ctx, RP_F32, 4, 4, 1, 1, "w"), *x = rp_tensor_ref(w), *loss;
    bool one = regions == ALL_IN_ONE || regions == SMALL_IN_ONE, small = regions == SMALL_IN_ONE || regions == SMALL_ONES;
    rp_tape_stats stats;
    cost c;

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
    c.listed = entries(rp__tape(ctx));
    assert_ok(ctx, rp__backward(ctx, loss));
    c.allocs = ctx->alloc_count;
    rp__tape_stats(ctx, &stats);
    c.replayed = stats.n_replayed;
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
    return c;
}

/* Each further stretch of the chain has as many entries as the one before. Arrays that grow by doubling add allocations by the
 * logarithm, so those may only fall behind. */
static void bookkeeping_is_linear_in_the_calls(void **state)
{
    (void)state;

    for (shape s = NONE_AT_ALL; s <= SMALL_ONES; s++) {
        cost one = cost_of(CALLS, s), two = cost_of(2 * CALLS, s), three = cost_of(3 * CALLS, s), eight = cost_of(8 * CALLS, s);
        assert_int_equal(three.listed - two.listed, two.listed - one.listed);
        assert_int_equal(eight.listed - one.listed, 7 * (two.listed - one.listed));
        assert_true(eight.allocs - one.allocs <= 7 * (two.allocs - one.allocs));
    }
}

static void a_chain_is_replayed_as_often_as_its_nesting_asks(void **state)
{
    (void)state;

    assert_int_equal(cost_of(CALLS, NONE_AT_ALL).replayed, 0);
    assert_int_equal(cost_of(CALLS, ALL_IN_ONE).replayed, CALLS - 1);
    assert_int_equal(cost_of(CALLS, SMALL_ONES).replayed, CALLS - CALLS / A_REGION);
    assert_int_equal(cost_of(CALLS, SMALL_IN_ONE).replayed, 2 * CALLS - A_REGION - CALLS / A_REGION);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bookkeeping_is_linear_in_the_calls),
        cmocka_unit_test(a_chain_is_replayed_as_often_as_its_nesting_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
