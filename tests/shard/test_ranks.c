/* Claims about groups of ranks that cannot be: they are refused by the recipe's key. */
#include "rp_test.h"

#include "shard/ranks.h"

static void groups_that_do_not_divide_the_ranks_are_refused(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1 });

    (void)state;
    assert_int_equal(rp__ranks_pretend(ctx, 0, 3, 2), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "dist.replicate_dim: 2 copies of the weights do not divide 3 ranks");
    rp__ranks_leave(ctx);
    assert_ok(ctx, rp__ranks_pretend(ctx, 0, 4, 1));
    assert_int_equal(rp__ranks_stay(ctx, 3), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "dist.reshard_after_forward: groups of 3 do not divide the 4 ranks that share the weights (true means "
                                       "all of them, false means one)");
    rp__ranks_leave(ctx);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(groups_that_do_not_divide_the_ranks_are_refused) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
