/* Claims about fates: kept, recomputed or offloaded, alone or in regions, a slot is the same bits; and what is kept is not run again. */
#include "tape/fates.h"

enum { N_GRAPHS = 100, POLICIES = 4 };

static void check_graph(uint32_t seed, rp_ctx *ctx, graph_leaves *leaves)
{
    graph g;
    graph_result plain, other;
    nesting none = nesting_none();

    graph_make(&g, seed, false);
    fates_use(ctx, NULL);
    graph_run(&g, &none, ctx, leaves, &plain);
    for (uint32_t i = 0; i < POLICIES; i++) {
        fates f        = { .seed = seed * 100 + i + 1 };
        nesting random = nesting_random(&g, 1000 * seed + i);
        fates_use(ctx, &f);
        graph_run(&g, i % 2 ? &random : &none, ctx, leaves, &other);
        assert_same_result(&other, &plain, i % 2 ? "random fates in random regions" : "random fates", seed);
    }
}

static void check_graphs(rp_dtype dtype, const rp_offload_options *to)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = 5 });
    assert_ok(ctx, rp_set_offload(ctx, to));
    graph_leaves leaves = leaves_new(ctx, dtype);
    int64_t own         = ledger(ctx).live_bytes;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        check_graph(seed, ctx, &leaves);
        assert_int_equal(ledger(ctx).live_bytes, own);
    }
    fates_use(ctx, NULL);
    leaves_free(&leaves);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

static void fates_never_change_a_bit_in_fp32(void **state)
{
    (void)state;
    check_graphs(RP_F32, &(rp_offload_options){ .device = "sim" });
}

static void fates_never_change_a_bit_in_bf16_offloaded_to_disk(void **state)
{
    (void)state;
    check_graphs(RP_BF16, &(rp_offload_options){ .folder = RP_BINARY_DIR, .buffer_bytes = 1 << 16 });
}

/* ---- what keeping all, and keeping some, means ---- */

typedef struct { int64_t saved_bytes, live_bytes; graph_result result; op_count total, matmul, attention; } outcome;

static outcome run(const graph *g, const nesting *n, fates *f, rp_ctx *ctx, graph_leaves *leaves)
{
    outcome o = { 0 };
    rp_tensor *loss;

    fates_use(ctx, f);
    counts_reset();
    assert_ok(ctx, graph_forward(g, n, ctx, leaves, &loss));
    o.saved_bytes = saved_bytes(ctx);
    o.live_bytes  = ledger(ctx).live_bytes;
    bits_of(loss, &o.result.loss);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
    for (int i = 0; i < N_LEAVES; i++) bits_of(leaves->at[i]->grad, &o.result.grad[i]);
    leaves_drop_grads(leaves);
    o.total     = counts_total();
    o.matmul    = counts_of("matmul");
    o.attention = counts_of("attention");
    fates_use(ctx, NULL);
    return o;
}

static void keeping_all_in_regions_is_having_no_regions(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 5 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    fates all           = { .op = { "*" }, .fate = { RP_KEEP | FATE_MUST } };

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph g;
        graph_make(&g, seed, false);
        nesting none = nesting_none(), random = nesting_random(&g, seed);
        outcome plain = run(&g, &none, NULL, ctx, &leaves), kept = run(&g, &random, &all, ctx, &leaves);
        assert_int_equal(kept.saved_bytes, plain.saved_bytes);
        assert_int_equal(kept.live_bytes, plain.live_bytes);
        assert_int_equal(kept.total.again, 0);
        assert_same_result(&kept.result, &plain.result, "all kept", seed);
    }
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

static void what_is_kept_never_runs_again(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 5 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    fates some          = { .op = { "matmul", "attention" }, .fate = { RP_KEEP, RP_KEEP | FATE_MUST } };
    int matmuls = 0, attentions = 0, others = 0, less = 0;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph g;
        graph_make(&g, seed, false);
        nesting whole = nesting_whole(&g);
        outcome full = run(&g, &whole, NULL, ctx, &leaves), saved = run(&g, &whole, &some, ctx, &leaves);
        assert_int_equal(saved.matmul.again, 0);
        assert_int_equal(saved.attention.again, 0);
        assert_true(saved.total.again <= full.total.again);
        assert_same_result(&saved.result, &full.result, "matmul and attention kept", seed);
        matmuls += full.matmul.again;
        attentions += full.attention.again;
        others += saved.total.again;
        less += saved.total.again < full.total.again;
    }
    assert_true(matmuls > 20 && attentions > 5 && others > 50 && less > 20);      /* else it would say little */
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

/* Nothing is kept for a slot whose fate is recompute, with or without a region around it. */
static void recomputed_slots_are_not_saved(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 5 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    fates none_kept     = { .op = { "*" }, .fate = { RP_RECOMPUTE | FATE_MUST } };
    int again           = 0;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph g;
        graph_make(&g, seed, false);
        nesting none  = nesting_none(), random = nesting_random(&g, seed);
        outcome plain = run(&g, &none, NULL, ctx, &leaves), alone = run(&g, &none, &none_kept, ctx, &leaves);
        outcome in_regions = run(&g, &random, &none_kept, ctx, &leaves);
        assert_int_equal(alone.saved_bytes, 0);
        assert_int_equal(in_regions.saved_bytes, 0);
        assert_same_result(&alone.result, &plain.result, "all made again, op by op", seed);
        assert_same_result(&in_regions.result, &plain.result, "all made again, in regions", seed);
        assert_true(alone.total.again <= alone.total.first);      /* each at most once */
        again += alone.total.again;
    }
    assert_true(again > 5 * N_GRAPHS);
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fates_never_change_a_bit_in_fp32),
        cmocka_unit_test(fates_never_change_a_bit_in_bf16_offloaded_to_disk),
        cmocka_unit_test(keeping_all_in_regions_is_having_no_regions),
        cmocka_unit_test(what_is_kept_never_runs_again),
        cmocka_unit_test(recomputed_slots_are_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
