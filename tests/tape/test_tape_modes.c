/* Claims about modes: no gradients, evaluation, wide gradients, ops that may not be replayed, two contexts at once. */
#include "tape/block.h"
#include "tape/graph.h"

#include <math.h>

static void nothing_is_recorded_or_kept_without_gradients(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 2);
    int64_t own   = ledger(ctx).live_bytes;

    rp__tape_ctx(ctx)->no_grad = true;
    for (block_regions r = NO_REGIONS; r <= BLOCKS_IN_ONE_REGION; r++) {
        rp_tensor *loss = model_forward(&m, r);
        assert_int_equal(ledger(ctx).live_bytes, own + FLOAT);
        assert_int_equal(rp__backward(ctx, loss), RP_ERR_ARG);
        rp_tensor_unref(loss);
    }
    assert_int_equal(ledger(ctx).peak_at[RP_MEM_SAVED], 0);
    rp__tape_ctx(ctx)->no_grad = false;
    rp_tensor *loss = model_forward(&m, NO_REGIONS);
    assert_true(saved_bytes(ctx) > 0);
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_non_null(m.up[0]->grad);
    rp_tensor_unref(loss);
    model_drop_grads(&m);
    model_free(&m);
    test_ctx_free(ctx);
}

static void a_frozen_part_is_not_recorded(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 2);

    m.gain[0]->requires_grad = m.up[0]->requires_grad = m.down[0]->requires_grad = false;
    rp_tensor *loss = model_forward(&m, A_REGION_A_BLOCK);
    rp_tape_stats stats;
    assert_int_equal(saved_bytes(ctx), LOSS_SLOT_BYTES);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp__tape_stats(ctx, &stats);
    assert_int_equal(stats.n_replayed, 3);
    assert_null(m.up[0]->grad);
    assert_non_null(m.up[1]->grad);
    rp_tensor_unref(loss);
    model_drop_grads(&m);
    model_free(&m);
    test_ctx_free(ctx);
}

/* The block is frozen up to its last product. Its calls before that one have no backward; recorded, they make again what that one reads, which is
 * a constant else, held from the forward. */
static void a_frozen_part_that_is_recorded_is_recomputed(void **state)
{
    (void)state;
    enum { WAYS = 2 };
    tensor_bits grad[WAYS];
    int64_t saved[WAYS], constants[WAYS];

    for (int way = 0; way < WAYS; way++) {
        rp_ctx *ctx   = test_ctx(NULL);
        block_model m = model_new(ctx, 1);
        rp_tape_stats stats;
        m.gain[0]->requires_grad = m.up[0]->requires_grad = false;
        rp__tape_ctx(ctx)->records_frozen = way == 1;
        int64_t own     = ledger(ctx).live_bytes;
        rp_tensor *loss = model_forward(&m, A_REGION_A_BLOCK);
        saved[way]      = saved_bytes(ctx);
        constants[way]  = ledger(ctx).live_bytes - own - saved[way];
        rp__tape_stats(ctx, &stats);
        assert_ok(ctx, rp__backward(ctx, loss));
        rp__tape_stats(ctx, &stats);
        assert_int_equal(stats.n_replayed, way == 1 ? 3 : 0);      /* rmsnorm, matmul, gelu */
        assert_null(m.up[0]->grad);
        bits_of(m.down[0]->grad, &grad[way]);
        rp_tensor_unref(loss);
        model_drop_grads(&m);
        model_free(&m);
        test_ctx_free(ctx);
    }
    assert_same_bits(&grad[1], &grad[0], "the gradient of the last product");
    assert_int_equal(saved[0], saved[1]);
    assert_int_equal(constants[0] - constants[1], MIDDLE_BYTES);      /* the gelu's output */
}

static void without_gradients_a_frozen_part_is_not_recorded_whatever_is_asked(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 1);

    rp__tape_ctx(ctx)->records_frozen = true;
    rp__tape_ctx(ctx)->no_grad = true;
    rp_tensor *loss = model_forward(&m, A_REGION_A_BLOCK);
    assert_int_equal(rp__tape_n_calls(ctx), 0);
    rp__tape_ctx(ctx)->no_grad = false;
    rp_tensor_unref(loss);
    model_free(&m);
    test_ctx_free(ctx);
}

/* ---- train and eval ---- */

static void dropout_rests_in_evaluation(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *x = new_tensor(ctx, RP_F32, 4, 64, RP_MEM_TEMP, 1, 1), *y;
    tensor_bits in, out;

    bits_of(x, &in);
    rp__tape_ctx(ctx)->eval = true;
    y         = call_op(ctx, "dropout", &(rp_attr_dropout){ 0.5f }, x, NULL);
    bits_of(y, &out);
    assert_same_bits(&out, &in, "dropout in evaluation");
    rp_tensor_unref(y);
    rp__tape_ctx(ctx)->eval = false;
    y         = call_op(ctx, "dropout", &(rp_attr_dropout){ 0.5f }, x, NULL);
    bits_of(y, &out);
    assert_memory_not_equal(out.at, in.at, (size_t)in.bytes);
    rp_tensor_unref(y);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static void run_under_change(const graph *g, rp_ctx *ctx, graph_leaves *leaves, bool change, graph_result *out)
{
    nesting n       = nesting_whole(g);
    rp_tensor *loss = NULL;
    uint64_t seed   = ctx->seed;

    *out = (graph_result){ { 0 }, { { 0 } } };
    assert_ok(ctx, graph_forward(g, &n, ctx, leaves, &loss));
    bits_of(loss, &out->loss);
    if (change) {
        rp__tape_ctx(ctx)->eval = true;
        ctx->seed++;
        ctx->step++;
        ctx->sample_base += 100;
        rp__tape_ctx(ctx)->pass++;
    }
    assert_ok(ctx, rp__backward(ctx, loss));
    if (change) {
        rp__tape_ctx(ctx)->eval = false;
        ctx->seed = seed;
        ctx->step--;
        ctx->sample_base -= 100;
    }
    for (int i = 0; i < N_LEAVES; i++) bits_of(leaves->at[i]->grad, &out->grad[i]);
    rp_tensor_unref(loss);
    leaves_drop_grads(leaves);
}

static void a_replay_runs_in_the_mode_and_stream_of_the_forward(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 3 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);

    for (uint32_t seed = 1; seed <= 40; seed++) {
        graph g;
        graph_result expected, got;
        graph_make(&g, seed, false);
        run_under_change(&g, ctx, &leaves, false, &expected);
        run_under_change(&g, ctx, &leaves, true, &got);
        assert_same_result(&got, &expected, "eval set between forward and backward", seed);
    }
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

static void masks_differ_by_call_seed_step_and_path_and_by_nothing_else(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .seed = 3 });
    rp_tensor *x    = new_tensor(ctx, RP_F32, 8, 64, RP_MEM_TEMP, 1, 1), *y;
    rp_scope scopes[2] = { { .path = "layers.0" }, { .path = "layers.1" } };
    tensor_bits mask[6];

    for (int i = 0; i < 6; i++) {
        if (i != 2) rp__tape_ctx(ctx)->pass++;             /* 2 is the second call of a pass; the others are first calls */
        ctx->seed  = i == 3 ? 4 : 3;
        ctx->step  = i == 4;
        rp__tape_ctx(ctx)->scope = &scopes[i == 5];
        y          = call_op(ctx, "dropout", &(rp_attr_dropout){ 0.5f }, x, NULL);
        bits_of(y, &mask[i]);
        rp_tensor_unref(y);
    }
    assert_same_bits(&mask[1], &mask[0], "the mask of the same call in another pass");
    for (int i = 2; i < 6; i++)
        for (int j = 1; j < i; j++) assert_memory_not_equal(mask[i].at, mask[j].at, (size_t)mask[i].bytes);
    rp__tape_ctx(ctx)->scope = NULL;
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- wide gradients ---- */

static void wide_gradients_are_fp32_for_bf16_leaves(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 3 });
    graph_leaves leaves = leaves_new(ctx, RP_BF16);

    rp__tape_ctx(ctx)->wide_grads = true;
    for (uint32_t seed = 1; seed <= 60; seed++) {
        graph g;
        graph_result plain, other;
        graph_make(&g, seed, false);
        nesting none = nesting_none(), random = nesting_random(&g, seed);
        graph_run(&g, &none, ctx, &leaves, &plain);
        graph_run(&g, &random, ctx, &leaves, &other);
        assert_same_result(&other, &plain, "wide gradients", seed);
        for (int i = 0; i < N_LEAVES; i++)
            if (plain.grad[i].bytes >= 0) assert_int_equal(plain.grad[i].bytes, 2 * rp_meta_bytes(&leaves.at[i]->m));
    }
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

/* mul writes gradients as narrow as its inputs: both halves of d(w*w) = 2 g w are rounded, their sum is not. */
static void an_op_that_writes_no_wide_gradient_is_added_to_one(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_BF16, T, H, 1, 1, "w"), *v = new_param(ctx, RP_BF16, T, H, 1, 2, "v"), *x[2], *y, *z, *loss;
    float third  = 1 / 3.0f;

    rp__tape_ctx(ctx)->wide_grads = true;
    for (int i = 0; i < 2; i++) x[i] = call_op(ctx, "scale", &(rp_attr_scale){ third }, w, NULL);
    y    = call_op(ctx, "add", NULL, x[0], x[1], NULL);
    z    = call_op(ctx, "mul", NULL, y, v, NULL);
    loss = sum_all(ctx, z);
    assert_ok(ctx, rp__backward(ctx, loss));
    for (int64_t e = 0; e < T * H; e++) {
        uint16_t half = rp__bf16_from_f32(third * (float)rp_elem_get(v, e));
        assert_true(rp_elem_get(w->grad, e) == 2 * (double)rp__f32_from_bf16(half));
    }
    assert_int_equal(w->grad->m.dtype, RP_F32);
    for (int i = 0; i < 2; i++) rp_tensor_unref(x[i]);
    rp_tensor_unref(y);
    rp_tensor_unref(z);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    rp_tensor_unref(v);
    test_ctx_free(ctx);
}

/* y = w w' sums to |column sums of w|^2: d = 2 (1' w) in every row. matmul writes one gradient wide, the other narrow. */
static void a_weight_used_as_activation_and_weight_gets_both_gradients(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_BF16, T, H, 1, 1, "w"), *y, *loss;

    rp__tape_ctx(ctx)->wide_grads = true;
    y    = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, w, w, NULL);
    loss = sum_all(ctx, y);
    assert_ok(ctx, rp__backward(ctx, loss));
    for (int64_t e = 0; e < T * H; e++) {
        double column = 0;
        for (int64_t row = 0; row < T; row++) column += rp_elem_get(w, row * H + e % H);
        assert_true(fabs(rp_elem_get(w->grad, e) - 2 * column) <= fabs(column) / 256 + 1e-6);
    }
    rp_tensor_unref(y);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* ---- ops with effects ---- */

typedef struct { int *runs; float factor; } counted_attr;

static rp_status counted_shape(rp_op_meta *m)
{
    m->out[0] = m->slot[0] = m->in[0];
    return RP_OK;
}

/* y = factor * x, counting itself; the slot keeps the factor for backward. */
static void counted_forward(const rp_op_call *c)
{
    const counted_attr *a = c->attr;

    ++*a->runs;
    for (int64_t e = 0; e < rp_meta_elems(&c->meta->in[0]); e++) {
        rp_elem_put(c->out[0], e, a->factor * rp_elem_get(c->in[0], e));
        rp_elem_put(c->slot[0], e, a->factor);
    }
}

static void counted_backward(const rp_op_call *c)
{
    for (int64_t e = 0; e < rp_meta_elems(&c->meta->in[0]); e++)
        rp_elem_put(c->grad_in[0], e,
                    rp_elem_get(c->slot[0], e) * rp_elem_get(c->grad_out[0], e) + (c->grad_adds[0] ? rp_elem_get(c->grad_in[0], e) : 0));
}

static const rp_op counted = {
    .name = "counted", .n_in = 1, .n_out = 1, .n_slot = 1, .attr_size = sizeof(counted_attr), .needs = RP_SLOT(0), .flags = RP_OP_EFFECT,
    .shape = counted_shape, .forward = counted_forward, .backward = counted_backward,
};

static void an_op_with_an_effect_is_never_replayed_and_what_it_made_is_kept(void **state)
{
    (void)state;
    int runs = 0;
    rp_tensor *a, *b = NULL, *c, *loss;
    rp_tape_stats stats;
    counted_attr attr;

    memset(&attr, 0, sizeof attr);
    attr.runs   = &runs;
    attr.factor = 3;
    for (int nested = 0; nested < 3; nested++) {
        rp_ctx *ctx  = test_ctx(NULL);
        rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w");
        runs         = 0;
        for (int i = 0; i < nested; i++) assert_ok(ctx, rp__region_begin(ctx, "region"));
        a = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
        assert_ok(ctx, rp__apply(ctx, &counted, &attr, &a, 1, &b));
        c = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, b, NULL);
        for (int i = 0; i < nested; i++) assert_ok(ctx, rp__region_end(ctx));
        loss = sum_all(ctx, c);
        rp_tensor_unref(a);
        rp_tensor_unref(b);
        rp_tensor_unref(c);
        assert_int_equal(saved_bytes(ctx), 2 * HIDDEN_BYTES);      /* its output, which gelu reads, and its slot */
        assert_ok(ctx, rp__backward(ctx, loss));
        rp__tape_stats(ctx, &stats);
        assert_int_equal(runs, 1);
        assert_int_equal(stats.n_replayed, 0);
        rp_tensor_unref(loss);
        rp_tensor_unref(w);
        test_ctx_free(ctx);
    }
}

/* ---- contexts and regions ---- */

static void two_contexts_do_not_meet(void **state)
{
    (void)state;
    rp_ctx *ctx[2]         = { test_ctx(&(rp_ctx_options){ .seed = 1 }), test_ctx(&(rp_ctx_options){ .seed = 2 }) };
    graph_leaves leaves[2] = { leaves_new(ctx[0], RP_F32), leaves_new(ctx[1], RP_BF16) };
    graph g[2];
    graph_result alone[2], together[2];
    rp_tensor *loss[2] = { NULL, NULL };

    memset(together, 0, sizeof together);
    for (int i = 0; i < 2; i++) {
        graph_make(&g[i], 30 + (uint32_t)i, false);
        nesting n = nesting_blocks(&g[i], 3);
        graph_run(&g[i], &n, ctx[i], &leaves[i], &alone[i]);
    }
    for (int i = 0; i < 2; i++) {
        nesting n = nesting_blocks(&g[i], 3);
        assert_ok(ctx[i], graph_forward(&g[i], &n, ctx[i], &leaves[i], &loss[i]));
    }
    assert_int_equal(rp__backward(ctx[1], loss[0]), RP_ERR_ARG);
    nesting n = nesting_blocks(&g[1], 3);
    rp_tensor_unref(loss[1]);
    assert_ok(ctx[1], graph_forward(&g[1], &n, ctx[1], &leaves[1], &loss[1]));
    for (int i = 0; i < 2; i++) {
        bits_of(loss[i], &together[i].loss);
        assert_ok(ctx[i], rp__backward(ctx[i], loss[i]));
        for (int j = 0; j < N_LEAVES; j++) bits_of(leaves[i].at[j]->grad, &together[i].grad[j]);
        assert_same_result(&together[i], &alone[i], "beside another context", 30 + (uint32_t)i);
        rp_tensor_unref(loss[i]);
        leaves_drop_grads(&leaves[i]);
    }
    rp_tensor *out = NULL;
    assert_int_equal(try_op(ctx[0], &out, "gelu", &(rp_attr_gelu){ false }, leaves[1].at[LEAF_X], NULL), RP_ERR_ARG);
    for (int i = 0; i < 2; i++) {
        leaves_free(&leaves[i]);
        test_ctx_free(ctx[i]);
    }
}

static void an_end_without_a_beginning_is_an_error(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    assert_int_equal(rp__region_end(ctx), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "a checkpointed region ends that did not begin");
    assert_ok(ctx, rp__region_begin(ctx, "empty"));
    assert_ok(ctx, rp__region_end(ctx));
    assert_int_equal(rp__region_end(ctx), RP_ERR_STATE);
    test_ctx_free(ctx);
}

static void empty_regions_change_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 2);
    tensor_bits expected, got;

    for (int empty = 0; empty < 2; empty++) {
        rp__tape_ctx(ctx)->pass++;
        for (int i = 0; i < 2 * empty; i++) assert_ok(ctx, rp__region_begin(ctx, "outer"));
        for (int i = 0; i < 2 * empty; i++) assert_ok(ctx, i % 2 ? rp__region_end(ctx) : rp__region_begin(ctx, "empty"));
        rp_tensor *y = block_forward(&m, 0, m.x, true), *loss = sum_all(ctx, y);
        for (int i = 0; i < 2 * empty; i++) assert_ok(ctx, i % 2 ? rp__region_end(ctx) : rp__region_begin(ctx, "empty"));
        for (int i = 0; i < 2 * empty; i++) assert_ok(ctx, rp__region_end(ctx));
        assert_ok(ctx, rp__backward(ctx, loss));
        bits_of(m.up[0]->grad, empty ? &got : &expected);
        rp_tensor_unref(y);
        rp_tensor_unref(loss);
        model_drop_grads(&m);
    }
    assert_same_bits(&got, &expected, "a gradient among empty regions");
    model_free(&m);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_recorded_or_kept_without_gradients),
        cmocka_unit_test(a_frozen_part_is_not_recorded),
        cmocka_unit_test(a_frozen_part_that_is_recorded_is_recomputed),
        cmocka_unit_test(without_gradients_a_frozen_part_is_not_recorded_whatever_is_asked),
        cmocka_unit_test(dropout_rests_in_evaluation),
        cmocka_unit_test(a_replay_runs_in_the_mode_and_stream_of_the_forward),
        cmocka_unit_test(masks_differ_by_call_seed_step_and_path_and_by_nothing_else),
        cmocka_unit_test(wide_gradients_are_fp32_for_bf16_leaves),
        cmocka_unit_test(an_op_that_writes_no_wide_gradient_is_added_to_one),
        cmocka_unit_test(a_weight_used_as_activation_and_weight_gets_both_gradients),
        cmocka_unit_test(an_op_with_an_effect_is_never_replayed_and_what_it_made_is_kept),
        cmocka_unit_test(two_contexts_do_not_meet),
        cmocka_unit_test(an_end_without_a_beginning_is_an_error),
        cmocka_unit_test(empty_regions_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
