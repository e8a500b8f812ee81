/* Claims about cost tables when memory runs out: measuring, writing and reading end with an error and leave nothing, or give the table. */
/* ctest: device-free */
#include "heap_test.h"

#include "kernels/kernels.h"
#include "plan/cost_test.h"

static rp_status text_is_alike(rp_ctx *ctx, void *user)
{
    char *text = NULL, *want = user;
    heap_faults faults = heap_pause(ctx);
    rp_cost_table *t   = as_measured(ctx);

    heap_resume(ctx, faults);
    rp_status status = rp__cost_text(ctx, t, &text);
    if (status == RP_OK) assert_string_equal(text, want);
    else assert_null(text);
    rp__release(text);
    rp__cost_table_free(t);
    return status;
}

static rp_status parses_alike(rp_ctx *ctx, void *user)
{
    const char *text    = user;
    rp_cost_table *back = NULL;
    bool foreign        = false;
    rp_status status    = rp__cost_parse(ctx, "a.json", text, (int64_t)strlen(text), &foreign, &back);

    assert_true((status == RP_OK) == (back != NULL));
    assert_false(foreign);
    rp__cost_table_free(back);
    return status;
}

static void a_table_is_written_and_read_whole_or_not_at_all(void **state)
{
    rp_ctx *ctx      = shapes_ctx();
    rp_cost_table *t = as_measured(ctx);
    char *text       = NULL;

    (void)state;
    assert_ok(ctx, rp__cost_text(ctx, t, &text));
    every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(20, 100), .least = 1 }, text_is_alike, text);
    every_allocation_fails_once(ctx, &(heap_sweep){ .each = test_few_or(20, 100), .least = 1 }, parses_alike, text);
    rp__release(text);
    rp__cost_table_free(t);
    test_ctx_free(ctx);
}

/* ---- measuring ---- */

static int64_t live_bytes(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m.live_bytes;
}

/* Ever later allocations: what measuring costs up to them adds up to less than one whole. */
static void measuring_without_memory_leaves_nothing(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });

    (void)state;
    for (int64_t k = 1; k < test_few_or(60, 4000); k = 2 * k + 1) {
        rp_cost_table *t     = NULL;
        ctx->fault_countdown = k;
        assert_int_equal(rp__cost_measure(ctx, true, NULL, NULL, &t), RP_ERR_MEMORY);
        assert_int_equal(ctx->fault_countdown, 0);
        assert_null(t);
        assert_int_equal(live_bytes(ctx), 0);
    }
    test_ctx_free(ctx);
}

/* The update is timed last, and its four tensors of 64 MiB are more than any call takes. */
static void an_update_that_finds_no_memory_is_not_timed(void **state)
{
    rp_ctx *ctx      = test_ctx(&(rp_ctx_options){ .threads = 1, .memory_limit_bytes = INT64_C(200) << 20 });
    rp_cost_table *t = NULL;

    (void)state;
    if (rp__kernels(ctx)->adamw) {
        assert_int_equal(rp__cost_measure(ctx, true, NULL, NULL, &t), RP_ERR_MEMORY);
        assert_non_null(strstr(rp_error(ctx), "an update that is measured"));
        assert_null(t);
        assert_int_equal(live_bytes(ctx), 0);
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_is_written_and_read_whole_or_not_at_all),
        cmocka_unit_test(measuring_without_memory_leaves_nothing),
        cmocka_unit_test(an_update_that_finds_no_memory_is_not_timed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
