/* Claims about failing allocations: an error, nothing left behind, and the next run as if nothing had been. */
/* ctest: no-emulator level-free */
#include <errno.h>

#include "base/disk_queue.h"
#include "tape/fates.h"
#include "tape/offload.h"

static void check_clean(rp_ctx *ctx, graph_leaves *leaves, int64_t own)
{
    leaves_drop_grads(leaves);
    assert_int_equal(ledger(ctx).live_bytes, own);
    assert_int_equal(saved_bytes(ctx), 0);
}

/* The k-th allocation fails, k = 1, 2, … until none does; each k in a context of its own, whose tape has grown nothing yet. */
static int fail_each(const graph *g, const nesting *n, uint32_t seed, bool with_fates)
{
    graph_result expected, recompute;
    fates f = { .seed = seed };

    for (int k = 0;; k++) {
        rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 9 });
        graph_leaves leaves = leaves_new(ctx, RP_F32);
        if (with_fates) assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
        int64_t own = ledger(ctx).live_bytes;
        tensor_bits loss;
        fates_use(ctx, with_fates ? &f : NULL);
        if (with_fates) rp_set_verify(ctx, RP_VERIFY_ON);
        if (k == 0) graph_run(g, n, ctx, &leaves, &expected);
        ctx->fault_countdown = k;
        rp_status status     = graph_step_run(g, n, ctx, &leaves, &loss);
        bool fired           = k > 0 && ctx->fault_countdown == 0;
        ctx->fault_countdown = 0;
        if (fired && status != RP_ERR_MEMORY) fail_msg("graph %u, allocation %d: status %d: %s", seed, k, (int)status, rp_error(ctx));
        if (!fired) assert_int_equal(status, RP_OK);
        check_clean(ctx, &leaves, own);
        graph_run(g, n, ctx, &leaves, &recompute);
        assert_same_result(&recompute, &expected, "after a failure", seed);
        leaves_free(&leaves);
        test_ctx_free(ctx);
        if (k > 0 && !fired) return k - 1;
    }
}

static void each_failing_allocation_is_an_error_that_leaves_no_trace(void **state)
{
    (void)state;
    graph g;

    for (uint32_t seed = 1; seed <= 4; seed++) {
        graph_make(&g, seed, false);
        nesting nestings[] = { nesting_whole(&g), nesting_random(&g, seed) };
        assert_true(fail_each(&g, &nestings[seed % 2], seed, false) > 50);
        if (seed <= 2) assert_true(fail_each(&g, &nestings[seed % 2], seed, true) > 50);
    }
}

/* ---- the disk ---- */

typedef struct { rp_disk_queue_operation operation; int number; const char *says; } disk_fault;

/* The k-th attempt of the operation fails, k = 0, 1, … until none does. Returns how many did. */
static int fail_each_on_disk(const graph *g, const nesting *n, const disk_fault *fault, uint32_t seed)
{
    fates f = { .op = { "*" }, .fate = { RP_OFFLOAD } };
    graph_result expected, recompute;

    for (int k = 0;; k++) {
        rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 9 });
        graph_leaves leaves = leaves_new(ctx, RP_F32);
        tensor_bits loss;
        graph_run(g, n, ctx, &leaves, &expected);
        assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .folder = RP_BINARY_DIR, .buffer_bytes = 1 << 15 }));
        int64_t own = ledger(ctx).live_bytes;
        fates_use(ctx, &f);
        rp__disk_queue_fail(rp__offload_disk_queue(rp__tape_ctx(ctx)->offload), fault->operation, k, 1, fault->number);
        rp_status status = graph_step_run(g, n, ctx, &leaves, &loss);
        if (status != RP_OK) {
            assert_int_equal(status, RP_ERR_IO);
            if (!strstr(rp_error(ctx), fault->says)) fail_msg("no '%s' in: %s", fault->says, rp_error(ctx));
        }
        check_clean(ctx, &leaves, own);
        assert_ok(ctx, rp_set_offload(ctx, NULL));
        fates_use(ctx, NULL);
        graph_run(g, n, ctx, &leaves, &recompute);
        assert_same_result(&recompute, &expected, "after a fault of the disk", seed);
        leaves_free(&leaves);
        test_ctx_free(ctx);
        if (status == RP_OK) return k;
    }
}

static void each_fault_of_the_disk_is_an_error_that_leaves_no_trace(void **state)
{
    (void)state;
    static const disk_fault faults[] = {
        { RP_DISK_QUEUE_WRITE, ENOSPC, "No space left on device" }, { RP_DISK_QUEUE_WRITE, EIO, "cannot write" }, { RP_DISK_QUEUE_READ, EIO, "cannot read" },
    };
    graph g;

    for (uint32_t seed = 1; seed <= 3; seed++) {
        graph_make(&g, seed, false);
        nesting n = nesting_random(&g, seed);
        for (int i = 0; i < RP_COUNT(faults); i++) assert_in_range(fail_each_on_disk(&g, &n, &faults[i], seed), 1, 40);
    }
}

/* Half of what was asked for, again and again: it is gone on with. */
static void short_reads_and_writes_are_gone_on_with(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 9 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    graph_result expected, got;
    graph g;

    graph_make(&g, 2, false);
    nesting none = nesting_none();
    fates f      = { .op = { "*" }, .fate = { RP_OFFLOAD } };
    graph_run(&g, &none, ctx, &leaves, &expected);
    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .folder = RP_BINARY_DIR, .buffer_bytes = 1 << 15 }));
    fates_use(ctx, &f);
    for (rp_disk_queue_operation o = RP_DISK_QUEUE_READ; o <= RP_DISK_QUEUE_WRITE; o++)
        rp__disk_queue_fail(rp__offload_disk_queue(rp__tape_ctx(ctx)->offload), o, 0, 1000, 0);
    graph_run(&g, &none, ctx, &leaves, &got);
    assert_same_result(&got, &expected, "by halves", 2);
    fates_use(ctx, NULL);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

/* What a run leaves when only so many bytes may be reserved; true when it went through. */
static bool fits(const graph *g, const nesting *n, int64_t limit_bytes, const graph_result *expected)
{
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 9, .memory_limit_bytes = limit_bytes });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    int64_t own         = ledger(ctx).live_bytes;
    tensor_bits loss;
    rp_status status = graph_step_run(g, n, ctx, &leaves, &loss);

    if (status == RP_OK) {
        leaves_drop_grads(&leaves);
        graph_result recompute;
        graph_run(g, n, ctx, &leaves, &recompute);
        assert_same_result(&recompute, expected, "under a limit", 0);
    } else {
        assert_int_equal(status, RP_ERR_MEMORY);
        assert_non_null(strstr(rp_error(ctx), "the memory limit is"));
    }
    check_clean(ctx, &leaves, own);
    leaves_free(&leaves);
    test_ctx_free(ctx);
    return status == RP_OK;
}

static int64_t reserved_of(const graph *g, const nesting *n, graph_result *result)
{
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 9 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);

    graph_run(g, n, ctx, &leaves, result);
    int64_t reserved = ledger(ctx).reserved_bytes;
    leaves_free(&leaves);
    test_ctx_free(ctx);
    return reserved;
}

/* Below what a run reserves it may go through with less kept: fits looks at its bits. */
static void a_hard_limit_refuses_no_run_that_keeps_to_it_and_each_that_cannot(void **state)
{
    (void)state;
    graph g;
    graph_result expected;

    for (uint32_t seed = 21; seed <= 24; seed++) {
        graph_make(&g, seed, false);
        nesting n     = nesting_random(&g, seed);
        int64_t needs = reserved_of(&g, &n, &expected), leaves = 4096;
        assert_true(fits(&g, &n, needs, &expected));
        for (int i = 1; i < 12; i++) fits(&g, &n, needs - (needs - leaves) * i / 12 / RP_ALIGN * RP_ALIGN - 1, &expected);
        assert_false(fits(&g, &n, leaves, &expected));
    }
}

static rp_status chain(rp_ctx *ctx, rp_tensor *w, rp_tensor **last)
{
    rp_tensor *x     = rp_tensor_ref(w), *y = NULL;
    rp_status status = RP_OK;

    for (int i = 0; i < 20 && status == RP_OK; i++) {
        status = try_op(ctx, &y, "gelu", &(rp_attr_gelu){ false }, x, NULL);
        rp_tensor_unref(x);
        x = status == RP_OK ? y : NULL;
    }
    *last = x;
    return status;
}

static void the_end_of_a_region_that_fails_can_be_tried_again(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, 0, 8, 1, 1, "w"), *y = NULL;

    assert_ok(ctx, rp__region_begin(ctx, "outer"));
    assert_ok(ctx, rp__region_begin(ctx, "inner"));
    assert_ok(ctx, chain(ctx, w, &y));
    assert_ok(ctx, rp__region_end(ctx));
    rp_tensor *sum = sum_all(ctx, y);
    for (int k = 1; k <= 2; k++) {
        ctx->fault_countdown = k;
        assert_int_equal(rp__region_end(ctx), RP_ERR_MEMORY);
    }
    assert_ok(ctx, rp__region_end(ctx));
    assert_ok(ctx, rp__backward(ctx, sum));
    assert_non_null(w->grad);
    rp_tensor_unref(y);
    rp_tensor_unref(sum);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* No backward reads x, only the replay: it is offloaded when the region ends. */
static void the_end_of_a_region_that_cannot_offload_what_its_replay_reads_is_an_error(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(NULL);
    rp_tensor *w      = new_param(ctx, RP_F32, 4, 8, 1, 1, "w");
    fates f           = { .op = { "gelu" }, .fate = { RP_OFFLOAD | FATE_MUST } };
    test_faults fault = { 0 };

    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    fates_use(ctx, &f);
    rp_tensor *x = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, w, NULL);
    assert_ok(ctx, rp__region_begin(ctx, "r"));
    rp_tensor *s = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, x, NULL), *y = call_op(ctx, "silu", NULL, s, NULL);
    rp_tensor_unref(x);
    rp_tensor_unref(s);
    while (!fault.over) {
        test_fault_begin(&fault, ctx);
        test_fault_end(&fault, rp__region_end(ctx));
        assert_int_equal(rp__offload_tickets(rp__tape_ctx(ctx)->offload), fault.over);
    }
    assert_true(fault.failed > 1);
    rp_tensor *sum = sum_all(ctx, y);
    assert_ok(ctx, rp__backward(ctx, sum));
    assert_non_null(w->grad);
    rp_tensor_unref(y);
    rp_tensor_unref(sum);
    rp_tensor_unref(w);
    fates_use(ctx, NULL);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

static void a_call_that_fails_leaves_its_outputs_and_the_random_numbers_alone(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, 4, 64, 1, 1, "w"), *untouched = w, *y = NULL;
    tensor_bits bits[2];

    for (int round = 0; round < 2; round++) {
        rp__tape_ctx(ctx)->pass++;
        for (int k = 1; round == 1 && k <= 4; k++) {
            ctx->fault_countdown = k;
            assert_int_equal(try_op(ctx, &untouched, "dropout", &(rp_attr_dropout){ 0.5f }, w, NULL), RP_ERR_MEMORY);
            assert_ptr_equal(untouched, w);
        }
        ctx->fault_countdown = 0;
        y                    = call_op(ctx, "dropout", &(rp_attr_dropout){ 0.5f }, w, NULL);
        bits_of(y, &bits[round]);
        rp_tensor_unref(y);
    }
    assert_same_bits(&bits[1], &bits[0], "the mask");
    rp__tape_reset(ctx);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_of_the_disk_is_an_error_that_leaves_no_trace),
        cmocka_unit_test(short_reads_and_writes_are_gone_on_with),
        cmocka_unit_test(each_failing_allocation_is_an_error_that_leaves_no_trace),
        cmocka_unit_test(a_hard_limit_refuses_no_run_that_keeps_to_it_and_each_that_cannot),
        cmocka_unit_test(the_end_of_a_region_that_fails_can_be_tried_again),
        cmocka_unit_test(the_end_of_a_region_that_cannot_offload_what_its_replay_reads_is_an_error),
        cmocka_unit_test(a_call_that_fails_leaves_its_outputs_and_the_random_numbers_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
