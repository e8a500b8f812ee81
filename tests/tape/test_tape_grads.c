/* Claims about gradients of leaves: accumulation, the hook, where a backward may start. */
/* ctest: no-emulator */
#include "tape/block.h"
#include "tape/graph.h"

#include <math.h>

/* ---- accumulation ---- */

static void a_second_backward_adds_to_the_gradients(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 3 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    tensor_bits loss, once[N_LEAVES], twice, expected;
    graph g;

    for (uint32_t seed = 1; seed <= 20; seed++) {
        graph_make(&g, seed, false);
        nesting none = nesting_none(), n = nesting_random(&g, seed);
        assert_ok(ctx, graph_step_run(&g, &none, ctx, &leaves, &loss));
        for (int i = 0; i < N_LEAVES; i++) bits_of(leaves.at[i]->grad, &once[i]);
        assert_ok(ctx, graph_step_run(&g, &n, ctx, &leaves, &loss));
        rp_tensor *head = leaves.at[LEAF_HEAD];
        for (int64_t e = 0; e < CLASSES * SIDE; e++)      /* one contribution each: exactly twice */
            assert_true(rp_elem_get(head->grad, e) == 2 * (double)((float *)once[LEAF_HEAD].at)[e]);
        bits_of(leaves.at[LEAF_W]->grad, &twice);
        leaves_drop_grads(&leaves);
        assert_ok(ctx, graph_step_run(&g, &n, ctx, &leaves, &loss));
        assert_ok(ctx, graph_step_run(&g, &none, ctx, &leaves, &loss));
        bits_of(leaves.at[LEAF_W]->grad, &expected);
        assert_same_bits(&twice, &expected, "the sum of two backwards");
        leaves_drop_grads(&leaves);
    }
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

/* w + w + w through three scales: the last call's contribution comes first. 1e8 + 1 - 1e8 depends on the order. */
static void contributions_are_summed_from_the_end_of_the_tape(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, 0, 1, 1, 1, "w");
    float factor[3][3] = { { 1, 1e8f, -1e8f }, { 1e8f, 1, -1e8f }, { 1e8f, -1e8f, 1 } }, expected[3] = { 1, 0, 0 };

    for (int order = 0; order < 3; order++) {
        rp_tensor *sum = NULL, *term;
        for (int i = 0; i < 3; i++) {
            term = call_op(ctx, "scale", &(rp_attr_scale){ factor[order][i] }, w, NULL);
            rp_tensor *more = sum ? call_op(ctx, "add", NULL, sum, term, NULL) : rp_tensor_ref(term);
            rp_tensor_unref(sum);
            rp_tensor_unref(term);
            sum = more;
        }
        assert_ok(ctx, rp__backward(ctx, sum));
        assert_true(first_element(w->grad) == expected[order]);
        drop_grad(w);
        rp_tensor_unref(sum);
    }
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void a_repeated_input_adds_in_place(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    rp_tensor *w  = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *y = call_op(ctx, "mul", NULL, w, w, NULL), *loss = sum_all(ctx, y);
    int64_t live  = ledger(ctx).live_bytes;
    rp_mem before;

    rp_mem_read(ctx, 0, true, &before);
    assert_ok(ctx, rp__backward(ctx, loss));
    for (int64_t e = 0; e < T * H; e++) assert_true(rp_elem_get(w->grad, e) == 2 * rp_elem_get(w, e));
    /* dy, the gradient and the second contribution; not a copy of the gradient besides. */
    assert_true(ledger(ctx).peak_bytes <= live + 3 * HIDDEN_BYTES + T * FLOAT);
    rp_tensor_unref(y);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

/* ---- the hook ---- */

typedef struct {
    graph_leaves *leaves;
    int calls[N_LEAVES];
    tensor_bits grad[N_LEAVES];
} watch;

/* What an optimizer in backward does at its worst: the leaf is overwritten, its gradient dropped. */
static rp_status take_and_spoil(void *user, rp_tensor *leaf)
{
    watch *w = user;

    for (int i = 0; i < N_LEAVES; i++) {
        if (w->leaves->at[i] != leaf) continue;
        w->calls[i]++;
        bits_of(leaf->grad, &w->grad[i]);
    }
    drop_grad(leaf);
    for (int64_t e = 0; e < rp_meta_elems(&leaf->m); e++) rp_elem_put(leaf, e, 1e30);
    rp__tensor_wrote(leaf, "an optimizer");
    return RP_OK;
}

static void check_hook(uint32_t seed, const nesting *n, const graph *g, const graph_result *expected)
{
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 3 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    static watch w;
    tensor_bits loss;

    w = (watch){ .leaves = &leaves };
    rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ take_and_spoil, &w };
    rp_status status = graph_step_run(g, n, ctx, &leaves, &loss);
    if (status != RP_OK) fail_msg("graph %u: %s", seed, rp_error(ctx));
    for (int i = 0; i < N_LEAVES; i++) {
        assert_int_equal(w.calls[i], expected->grad[i].bytes >= 0);
        assert_null(leaves.at[i]->grad);
        if (w.calls[i]) assert_same_bits(&w.grad[i], &expected->grad[i], "a gradient given to the hook");
    }
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

static void a_leaf_may_be_overwritten_in_its_hook_whatever_regions_there_are(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .seed = 3 });
    graph_leaves leaves = leaves_new(ctx, RP_F32);

    for (uint32_t seed = 1; seed <= 100; seed++) {
        graph g;
        graph_result expected;
        graph_make(&g, seed, false);
        nesting nestings[] = { nesting_none(), nesting_whole(&g), nesting_blocks(&g, 3), nesting_random(&g, seed) };
        graph_run(&g, &nestings[0], ctx, &leaves, &expected);
        for (int i = 0; i < RP_COUNT(nestings); i++) check_hook(seed, &nestings[i], &g, &expected);
    }
    leaves_free(&leaves);
    test_ctx_free(ctx);
}

typedef struct { rp_tensor *order[8]; int n; } sequence;

static rp_status note_order(void *user, rp_tensor *leaf)
{
    sequence *s = user;

    assert_non_null(leaf->grad);
    s->order[s->n++] = leaf;
    return RP_OK;
}

/* w[1] is tied: complete after the second of its contributions, which belongs to its first reader. */
static void the_hook_comes_as_soon_as_a_gradient_is_complete(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *x = new_tensor(ctx, RP_F32, T, H, RP_MEM_TEMP, 1, 9), *w[3], *y[4];
    sequence s   = { .n = 0 };

    for (int i = 0; i < 3; i++) w[i] = new_param(ctx, RP_F32, H, H, 1, 1 + (uint32_t)i, "w");
    rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ note_order, &s };
    y[0] = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, x, w[0], NULL);
    y[1] = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, y[0], w[1], NULL);
    y[2] = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, y[1], w[2], NULL);
    y[3] = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, y[2], w[1], NULL);
    rp_tensor *loss = sum_all(ctx, y[3]);
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_int_equal(s.n, 3);
    assert_ptr_equal(s.order[0], w[2]);
    assert_ptr_equal(s.order[1], w[1]);
    assert_ptr_equal(s.order[2], w[0]);
    for (int i = 0; i < 4; i++) rp_tensor_unref(y[i]);
    for (int i = 0; i < 3; i++) rp_tensor_unref(w[i]);
    rp_tensor_unref(loss);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static rp_status spoil(void *user, rp_tensor *leaf)
{
    (*(int *)user)++;
    rp_elem_put(leaf, 0, 1e30);
    rp__tensor_wrote(leaf, "an optimizer");
    return RP_OK;
}

/* w is read by a call that only leads to a dead end: the region that holds it is replayed for another call, later in the backward
 * than the calls of the dead end are passed. */
static void a_dead_end_in_a_region_is_not_replayed_on_an_updated_leaf(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *v = new_param(ctx, RP_F32, T, H, 1, 2, "v"), *a, *b, *dead[3], *loss;
    rp_tensor *sum, *used;
    int calls = 0;

    rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ spoil, &calls };
    assert_ok(ctx, rp__region_begin(ctx, "region"));
    a       = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, v, NULL);
    b       = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, a, NULL);
    dead[0] = call_op(ctx, "scale", &(rp_attr_scale){ 3 }, w, NULL);
    dead[1] = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, dead[0], NULL);
    dead[2] = call_op(ctx, "gelu", &(rp_attr_gelu){ false }, dead[1], NULL);
    assert_ok(ctx, rp__region_end(ctx));
    used = call_op(ctx, "scale", &(rp_attr_scale){ 1 }, w, NULL);
    sum  = call_op(ctx, "add", NULL, b, used, NULL);
    loss = sum_all(ctx, sum);
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_int_equal(calls, 2);
    for (int i = 0; i < 3; i++) rp_tensor_unref(dead[i]);
    rp_tensor_unref(a);
    rp_tensor_unref(b);
    rp_tensor_unref(used);
    rp_tensor_unref(sum);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    rp_tensor_unref(v);
    test_ctx_free(ctx);
}

/* y = x * stop(w): the op never gives its second input a gradient, but reads it in backward. */
static const rp_op *mul_by_stopped(void)
{
    static rp_op op;

    op            = *rp__op_find("mul");
    op.name       = "mul_by_stopped";
    op.no_grad_in = RP_IN(1);
    return &op;
}

static void a_leaf_waits_for_readers_that_give_it_no_gradient(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, T, H, 1, 1, "w"), *v = new_param(ctx, RP_F32, T, H, 1, 2, "v"), *y = NULL, *z, *loss;
    int calls    = 0;
    double expected = first_element(w) * first_element(w);

    rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ spoil, &calls };
    assert_ok(ctx, rp__apply(ctx, mul_by_stopped(), NULL, (rp_tensor *[]){ v, w }, 2, &y));
    z    = call_op(ctx, "mul", NULL, y, w, NULL);
    loss = sum_all(ctx, z);
    assert_ok(ctx, rp__backward(ctx, loss));
    assert_int_equal(calls, 2);
    assert_true(fabs(first_element(v->grad) - expected) <= 1e-6);
    rp_tensor_unref(y);
    rp_tensor_unref(z);
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    rp_tensor_unref(v);
    test_ctx_free(ctx);
}

static rp_status refuse(void *user, rp_tensor *leaf) { return rp_fail(leaf->ctx, RP_ERR_NONFINITE, "%s", (const char *)user); }

static void an_error_of_the_hook_ends_the_backward(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    block_model m = model_new(ctx, 1);
    int64_t own   = ledger(ctx).live_bytes;
    char text[]   = "the hook said no";

    rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ refuse, text };
    rp_tensor *loss = model_forward(&m, A_REGION_A_BLOCK);
    assert_int_equal(rp__backward(ctx, loss), RP_ERR_NONFINITE);
    assert_string_equal(rp_error(ctx), text);
    rp_tensor_unref(loss);
    model_drop_grads(&m);
    assert_int_equal(ledger(ctx).live_bytes, own);
    rp__tape_ctx(ctx)->on_grad = (rp_grad_hook){ 0 };
    loss = model_forward(&m, A_REGION_A_BLOCK);
    assert_ok(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(loss);
    model_drop_grads(&m);
    model_free(&m);
    test_ctx_free(ctx);
}

/* ---- where a backward starts ---- */

static void check_refused(rp_ctx *ctx, rp_tensor *loss, const char *shape)
{
    assert_int_equal(rp__backward(ctx, loss), RP_ERR_ARG);
    if (!strstr(rp_error(ctx), "backward starts from a scalar that was recorded") || !strstr(rp_error(ctx), shape))
        fail_msg("unclear: %s", rp_error(ctx));
}

static void backward_starts_from_a_recorded_scalar_alone(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, 0, 4, 1, 1, "w"), *one = new_param(ctx, RP_F32, 0, 1, 1, 1, "one");
    rp_tensor *constant = new_tensor(ctx, RP_F32, 0, 4, RP_MEM_TEMP, 1, 2), *y, *view, *sum;

    y = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
    check_refused(ctx, y, "fp32 [4]");                         /* no scalar */
    rp_tensor_unref(y);
    y = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, one, NULL);
    check_refused(ctx, one, "fp32 [1]");                       /* a leaf */
    check_refused(ctx, y, "fp32 [1]");                         /* the tape was reset */
    rp_tensor_unref(y);
    sum = call_op(ctx, "sum", &(rp_attr_dim){ 0 }, constant, NULL);
    check_refused(ctx, sum, "fp32 []");                        /* nothing wanted a gradient */
    rp_tensor_unref(sum);
    y = call_op(ctx, "scale", &(rp_attr_scale){ 2 }, w, NULL);
    assert_ok(ctx, rp_tensor_slice(y, 0, 0, 1, &view));
    check_refused(ctx, view, "fp32 [1]");                      /* a part of a recorded value */
    rp_tensor_unref(view);
    rp_tensor_unref(y);
    assert_null(w->grad);
    assert_null(one->grad);
    rp_tensor_unref(constant);
    rp_tensor_unref(one);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void a_backward_uses_the_tape_up(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *w = new_param(ctx, RP_F32, 0, 4, 1, 1, "w"), *loss = sum_all(ctx, w);

    assert_ok(ctx, rp__backward(ctx, loss));
    check_refused(ctx, loss, "fp32 []");
    rp_tensor_unref(loss);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_backward_adds_to_the_gradients),
        cmocka_unit_test(contributions_are_summed_from_the_end_of_the_tape),
        cmocka_unit_test(a_repeated_input_adds_in_place),
        cmocka_unit_test(a_leaf_may_be_overwritten_in_its_hook_whatever_regions_there_are),
        cmocka_unit_test(the_hook_comes_as_soon_as_a_gradient_is_complete),
        cmocka_unit_test(a_dead_end_in_a_region_is_not_replayed_on_an_updated_leaf),
        cmocka_unit_test(a_leaf_waits_for_readers_that_give_it_no_gradient),
        cmocka_unit_test(an_error_of_the_hook_ends_the_backward),
        cmocka_unit_test(backward_starts_from_a_recorded_scalar_alone),
        cmocka_unit_test(a_backward_uses_the_tape_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
