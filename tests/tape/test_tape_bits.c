/* Claims about bits: what regions there are never shows in a loss or a gradient. */
#include "tape/graph.h"

#include <math.h>

enum { N_GRAPHS = 200 };

static void check_graph(uint32_t seed, rp_ctx *ctx, graph_leaves *leaves)
{
    graph g;
    graph_result plain, other;

    graph_make(&g, seed, false);
    nesting none = nesting_none(), whole = nesting_whole(&g);
    graph_run(&g, &none, ctx, leaves, &plain);
    graph_run(&g, &none, ctx, leaves, &other);
    assert_same_result(&other, &plain, "a second run", seed);
    graph_run(&g, &whole, ctx, leaves, &other);
    assert_same_result(&other, &plain, "one region around all", seed);
    for (int steps = 1; steps <= 6; steps += 2) {
        nesting blocks = nesting_blocks(&g, steps);
        graph_run(&g, &blocks, ctx, leaves, &other);
        assert_same_result(&other, &plain, "a region a block", seed);
    }
    for (uint32_t i = 0; i < 4; i++) {
        nesting random = nesting_random(&g, 1000 * seed + i);
        graph_run(&g, &random, ctx, leaves, &other);
        assert_same_result(&other, &plain, "random regions", seed);
    }
}

static void check_graphs(rp_dtype dtype)
{
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 5 });
    graph_leaves leaves = leaves_new(ctx, dtype);
    int64_t own         = ledger(ctx).live_bytes;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        check_graph(seed, ctx, &leaves);
        assert_int_equal(ledger(ctx).live_bytes, own);
    }
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

static void regions_never_change_a_bit_in_fp32(void **state)
{
    (void)state;
    check_graphs(RP_F32);
}

static void regions_never_change_a_bit_in_bf16(void **state)
{
    (void)state;
    check_graphs(RP_BF16);
}

static double loss_at(const graph *g, const nesting *n, rp_ctx *ctx, const graph_leaves *leaves)
{
    rp_tensor *loss = NULL;

    assert_ok(ctx, graph_forward(g, n, ctx, leaves, &loss));
    double value = first_element(loss);
    rp_tensor_unref(loss);
    rp__tape_reset(ctx);
    return value;
}

static void check_differences(uint32_t seed, rp_ctx *ctx, graph_leaves *leaves)
{
    const double step = 1e-5;
    graph g;
    tensor_bits loss;

    graph_make(&g, seed, true);
    nesting n = nesting_random(&g, seed);
    assert_ok(ctx, graph_step_run(&g, &n, ctx, leaves, &loss));
    for (int i = 0; i < N_LEAVES; i++) {
        rp_tensor *leaf = leaves->at[i];
        for (int64_t e = 0; leaf->requires_grad && e < rp_meta_elems(&leaf->m); e += 7) {
            double was = rp_elem_get(leaf, e), grad = leaf->grad ? rp_elem_get(leaf->grad, e) : 0;
            rp_elem_put(leaf, e, was + step);
            double above = loss_at(&g, &n, ctx, leaves);
            rp_elem_put(leaf, e, was - step);
            double slope = (above - loss_at(&g, &n, ctx, leaves)) / (2 * step);
            rp_elem_put(leaf, e, was);
            if (!(fabs(slope - grad) <= 2e-5 * (1 + fabs(slope))))
                fail_msg("graph %u, leaf %d, element %d: gradient %.9g, difference %.9g", seed, i, (int)e, grad, slope);
        }
    }
    leaves_drop_grads(leaves);
}

static void gradients_are_those_of_central_differences(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(NULL);
    graph_leaves leaves = leaves_new(ctx, RP_F64);

    for (uint32_t seed = 1; seed <= 25; seed++) check_differences(seed, ctx, &leaves);
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

/* The graphs would prove little if they were tiny, dead or not finite. */
static void the_random_graphs_are_worth_running(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(NULL);
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    int calls = 0, replayed = 0, grads = 0;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph g;
        tensor_bits loss;
        rp_tape_stats stats;
        graph_make(&g, seed, false);
        nesting n = nesting_random(&g, seed);
        assert_ok(ctx, graph_step_run(&g, &n, ctx, &leaves, &loss));
        rp__tape_stats(ctx, &stats);
        calls += (int)stats.n_calls;
        replayed += (int)stats.n_replayed;
        for (int i = 0; i < N_LEAVES; i++) {
            grads += leaves.at[i]->grad != NULL;
            for (int64_t e = 0; leaves.at[i]->grad && e < rp_meta_elems(&leaves.at[i]->m); e++)
                assert_true(isfinite(rp_elem_get(leaves.at[i]->grad, e)));
        }
        leaves_drop_grads(&leaves);
    }
    assert_in_range(calls, 15 * N_GRAPHS, MOST_STEPS * N_GRAPHS);
    assert_in_range(replayed, 5 * N_GRAPHS, 2 * calls);
    assert_in_range(grads, 3 * N_GRAPHS, N_LEAVES * N_GRAPHS);
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_random_graphs_are_worth_running),
        cmocka_unit_test(regions_never_change_a_bit_in_fp32),
        cmocka_unit_test(regions_never_change_a_bit_in_bf16),
        cmocka_unit_test(gradients_are_those_of_central_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
