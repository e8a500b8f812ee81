/* Claims about fates: kept, recomputed or offloaded, alone or in regions, a slot has the same bits; and the calls of kept slots are not replayed. */
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
        assert_int_equal(kept.total.recompute, 0);
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
        assert_int_equal(saved.matmul.recompute, 0);
        assert_int_equal(saved.attention.recompute, 0);
        assert_true(saved.total.recompute <= full.total.recompute);
        assert_same_result(&saved.result, &full.result, "matmul and attention kept", seed);
        matmuls += full.matmul.recompute;
        attentions += full.attention.recompute;
        others += saved.total.recompute;
        less += saved.total.recompute < full.total.recompute;
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
    int recompute           = 0;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph g;
        graph_make(&g, seed, false);
        nesting none  = nesting_none(), random = nesting_random(&g, seed);
        outcome plain = run(&g, &none, NULL, ctx, &leaves), alone = run(&g, &none, &none_kept, ctx, &leaves);
        outcome in_regions = run(&g, &random, &none_kept, ctx, &leaves);
        assert_int_equal(alone.saved_bytes, 0);
        assert_int_equal(in_regions.saved_bytes, 0);
        assert_same_result(&alone.result, &plain.result, "everything recomputed, op by op", seed);
        assert_same_result(&in_regions.result, &plain.result, "everything recomputed, in regions", seed);
        assert_true(alone.total.recompute <= alone.total.first);      /* each at most once */
        recompute += alone.total.recompute;
    }
    assert_true(recompute > 5 * N_GRAPHS);
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

/* ---- a kept slot is the forward's own ---- */

static const void *seen_first, *seen_in_backward;

static void look_forward(const rp_op_call *c)
{
    if (!c->replaying) seen_first = rp_tensor_data(c->in[0]);
    rp__op_find("silu")->forward(c);
}

static void look_backward(const rp_op_call *c)
{
    seen_in_backward = rp_tensor_data(c->in[0]);
    rp__op_find("silu")->backward(c);
}

static rp_op looking_silu(void)
{
    rp_op op = *rp__op_find("silu");

    op.forward  = look_forward;
    op.backward = look_backward;
    return op;
}

/* silu of a product in a region; `written` is overwritten between forward and backward. */
static rp_status silu_of_product(rp_ctx *ctx, const rp_op *silu, fates *f, bool write, tensor_bits *grad)
{
    rp_tensor *x = new_param(ctx, RP_F32, 6, 8, 1, 1, "x"), *w = new_param(ctx, RP_F32, 8, 8, 1, 2, "w"), *y = NULL, *loss;

    fates_use(ctx, f);
    assert_ok(ctx, rp__region_begin(ctx, "region"));
    rp_tensor *h = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, x, w, NULL);
    assert_ok(ctx, rp__apply(ctx, silu, NULL, &h, 1, &y));
    assert_ok(ctx, rp__region_end(ctx));
    if (write) assert_ok(ctx, rp_tensor_write(h, (double[48]){ 0 }, 48));
    rp_tensor_unref(h);
    loss             = sum_all(ctx, y);
    rp_status status = rp__backward(ctx, loss);
    bits_of(w->grad, grad);
    fates_use(ctx, NULL);
    drop_grad(x);
    drop_grad(w);
    rp_tensor_unref(x);
    rp_tensor_unref(w);
    rp_tensor_unref(y);
    rp_tensor_unref(loss);
    return status;
}

static void a_kept_slot_is_the_forwards_own_storage(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    fates keep  = { .op = { "matmul" }, .fate = { RP_KEEP } };
    rp_op silu  = looking_silu();
    tensor_bits grad;

    assert_ok(ctx, silu_of_product(ctx, &silu, &keep, false, &grad));
    assert_non_null(seen_first);
    assert_ptr_equal(seen_in_backward, seen_first);
    test_ctx_free(ctx);
}

static void a_kept_slot_may_be_written_only_where_its_fate_allows_it(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    fates keep    = { .op = { "matmul" }, .fate = { RP_KEEP } }, allow = { .op = { "matmul" }, .fate = { RP_KEEP | FATE_MAY_CHANGE } };
    fates offload = { .op = { "matmul" }, .fate = { RP_OFFLOAD } };
    rp_op silu    = looking_silu();
    tensor_bits plain, other, zero = { .bytes = 8 * 8 * 4 };

    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    assert_ok(ctx, silu_of_product(ctx, &silu, &keep, false, &plain));
    assert_int_equal(silu_of_product(ctx, &silu, &keep, true, &other), RP_ERR_MUTATED);
    assert_non_null(strstr(rp_error(ctx), "matmul output 0' (fp32 [6, 8]) was changed by rp_tensor_write"));
    assert_ok(ctx, silu_of_product(ctx, &silu, &allow, true, &other));      /* the slope of silu at 0 is read: not the plain gradient */
    assert_true(memcmp(&other, &plain, sizeof plain) && memcmp(&other, &zero, sizeof zero));
    assert_ok(ctx, silu_of_product(ctx, &silu, &offload, true, &other));    /* what was put away before is the forward's */
    assert_same_bits(&other, &plain, "a slot written after it was offloaded");
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

/* ---- leaves that are updated in backward ---- */

typedef struct { int n; tensor_bits grad[N_LEAVES]; graph_leaves *leaves; } updates;

/* As an optimizer in backward does: the gradient is used up and the leaf is written, which whoever still read it would find out. */
static rp_status update(void *user, rp_tensor *leaf)
{
    updates *u = user;

    for (int i = 0; i < N_LEAVES; i++)
        if (u->leaves->at[i] == leaf) bits_of(leaf->grad, &u->grad[i]);
    rp__tensor_wrote(leaf, "the update");
    rp_tensor_drop_grad(leaf);
    u->n++;
    return RP_OK;
}

static void leaves_are_updated_when_no_replay_reads_them_any_more(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = 5 });
    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    fates all           = { .op = { "*" }, .fate = { RP_RECOMPUTE | FATE_MUST } };
    int n_updates       = 0;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        graph g;
        graph_result plain;
        fates drawn = { .seed = seed };
        graph_make(&g, seed, false);
        nesting none = nesting_none(), random = nesting_random(&g, seed);
        graph_run(&g, &none, ctx, &leaves, &plain);
        updates u = { .leaves = &leaves };
        fates_use(ctx, seed % 3 ? &drawn : &all);
        rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ update, &u };
        assert_ok(ctx, graph_step_run(&g, seed % 2 ? &random : &none, ctx, &leaves, &plain.loss));
        rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ 0 };
        fates_use(ctx, NULL);
        for (int i = 0; i < N_LEAVES; i++)
            if (plain.grad[i].bytes > 0) assert_same_bits(&u.grad[i], &plain.grad[i], "a gradient used in backward");
        n_updates += u.n;
    }
    assert_true(n_updates > 3 * N_GRAPHS);
    leaves_free(&leaves);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
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
        cmocka_unit_test(a_kept_slot_is_the_forwards_own_storage),
        cmocka_unit_test(a_kept_slot_may_be_written_only_where_its_fate_allows_it),
        cmocka_unit_test(leaves_are_updated_when_no_replay_reads_them_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
