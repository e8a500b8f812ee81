/* Claims about records that are kept: a second backward, backward of parts, backward inside a region, and errors that leave no trace. */
#include "tape/fates.h"

enum { N_GRAPHS = 60 };

static void grads_of(graph_leaves *leaves, graph_result *out)
{
    for (int i = 0; i < N_LEAVES; i++) bits_of(leaves->at[i]->grad, &out->grad[i]);
    leaves_drop_grads(leaves);
}

static void assert_same_grads(const graph_result *got, const graph_result *expected, const char *what, uint32_t seed)
{
    graph_result with_loss = *got;

    with_loss.loss = expected->loss;
    assert_same_result(&with_loss, expected, what, seed);
}

/* ---- again ---- */

static void check_again(uint32_t seed, bool keep_replays, rp_ctx *ctx, graph_leaves *leaves)
{
    graph g;
    graph_result plain, first, second;
    rp_tensor *loss;
    fates f = { .seed = seed };

    graph_make(&g, seed, false);
    nesting none = nesting_none(), random = nesting_random(&g, seed);
    fates_use(ctx, NULL);
    graph_run(&g, &none, ctx, leaves, &plain);
    if (seed % 2) fates_use(ctx, &f);
    assert_ok(ctx, graph_forward(&g, &random, ctx, leaves, &loss));
    counts_reset();
    rp_mem before = ledger(ctx);
    assert_ok(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = true, .keep_replays = keep_replays }));
    int once = counts_total().recompute;
    grads_of(leaves, &first);
    if (!keep_replays) assert_int_equal(ledger(ctx).live_bytes, before.live_bytes);
    assert_ok(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = true, .keep_replays = keep_replays }));
    assert_int_equal(counts_total().recompute, keep_replays ? once : 2 * once);
    rp_forget(ctx);
    grads_of(leaves, &second);
    assert_same_grads(&first, &plain, "first backward", seed);
    assert_same_grads(&second, &plain, "second backward", seed);
    rp_tensor_unref(loss);
}

static void check_all(void (*check)(uint32_t seed, bool flag, rp_ctx *ctx, graph_leaves *leaves))
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .seed = 5 });
    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    graph_leaves leaves = leaves_new(ctx, RP_F32);
    int64_t own         = ledger(ctx).live_bytes;

    for (uint32_t seed = 1; seed <= N_GRAPHS; seed++) {
        check(seed, false, ctx, &leaves);
        assert_int_equal(ledger(ctx).live_bytes, own);
        check(seed, true, ctx, &leaves);
        assert_int_equal(ledger(ctx).live_bytes, own);
    }
    fates_use(ctx, NULL);
    leaves_free(&leaves);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

static void a_kept_record_gives_the_same_gradients_again(void **state)
{
    (void)state;
    check_all(check_again);
}

/* ---- parts ---- */

/* Each leaf by a backward of its own; with keep_replays they share one replay. */
static void check_parts(uint32_t seed, bool keep_replays, rp_ctx *ctx, graph_leaves *leaves)
{
    graph g;
    graph_result plain, parts;
    rp_tensor *loss;

    graph_make(&g, seed, false);
    nesting none = nesting_none(), random = nesting_random(&g, seed);
    fates_use(ctx, NULL);
    graph_run(&g, &none, ctx, leaves, &plain);
    assert_ok(ctx, graph_forward(&g, &random, ctx, leaves, &loss));
    counts_reset();
    assert_ok(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = true }));
    int once = counts_total().recompute;
    leaves_drop_grads(leaves);
    counts_reset();
    for (int i = 0; i < N_LEAVES; i++) {
        rp_backward_options o = { .keep_record = true, .keep_replays = keep_replays, .only = &leaves->at[i], .n_only = 1 };
        if (!leaves->at[i]->requires_grad) continue;
        assert_ok(ctx, rp_backward_with(ctx, loss, &o));
        for (int k = i + 1; k < N_LEAVES; k++) assert_null(leaves->at[k]->grad);
    }
    if (keep_replays) assert_in_range(counts_total().recompute, once ? 1 : 0, once);
    rp_forget(ctx);
    grads_of(leaves, &parts);
    assert_same_grads(&parts, &plain, "a backward a leaf", seed);
    rp_tensor_unref(loss);
}

static void partial_backwards_add_up_and_share_one_replay(void **state)
{
    (void)state;
    check_all(check_parts);
}

/* ---- inside a region ---- */

typedef struct { rp_tensor *x, *w, *inner_grad; bool inner; } inside_case;

/* y = silu(x w); inside, a backward from sum(y), whose gradient is put away. */
static rp_status region_with_backward(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    inside_case *c = user;
    rp_tensor *h   = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, in[0], c->w, NULL), *y = call_op(ctx, "silu", NULL, h, NULL);

    if (c->inner) {
        rp_tensor *sum = sum_all(ctx, y);
        RP_TRY(rp_backward(ctx, sum));
        c->inner_grad = rp_tensor_ref(c->w->grad);
        rp_tensor_drop_grad(c->w);
        rp_tensor_unref(sum);
    }
    rp_tensor_unref(h);
    *out = y;
    return RP_OK;
}

static void run_inside(rp_ctx *ctx, inside_case *c, bool region, tensor_bits *grad)
{
    rp_tensor *y = NULL, *z, *loss;

    if (region) assert_ok(ctx, rp_checkpoint(ctx, region_with_backward, c, &c->x, NULL, &y));
    else assert_ok(ctx, region_with_backward(ctx, c, &c->x, &y));
    z    = call_op(ctx, "mul", NULL, y, y, NULL);
    loss = sum_all(ctx, z);
    assert_ok(ctx, rp_backward(ctx, loss));
    bits_of(c->w->grad, grad);
    rp_tensor_drop_grad(c->w);
    rp_tensor_unref(y);
    rp_tensor_unref(z);
    rp_tensor_unref(loss);
}

static void a_backward_inside_a_region_works_and_the_region_goes_on(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    inside_case c = { new_tensor(ctx, RP_F32, 6, 8, RP_MEM_TEMP, 1, 1), new_param(ctx, RP_F32, 8, 8, 1, 2, "w"), NULL, false };
    tensor_bits plain, outer, inner, alone;

    run_inside(ctx, &c, false, &plain);
    rp_tensor *h = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, c.x, c.w, NULL), *y = call_op(ctx, "silu", NULL, h, NULL);
    rp_tensor *sum = sum_all(ctx, y);
    assert_ok(ctx, rp_backward(ctx, sum));
    bits_of(c.w->grad, &alone);
    rp_tensor_drop_grad(c.w);
    rp_tensor_unref(h);
    rp_tensor_unref(y);
    rp_tensor_unref(sum);

    c.inner = true;
    run_inside(ctx, &c, true, &outer);
    bits_of(c.inner_grad, &inner);
    assert_same_bits(&inner, &alone, "the gradient inside the region");
    assert_same_bits(&outer, &plain, "the gradient through the region");
    rp_tensor_unref(c.inner_grad);
    rp_tensor_unref(c.x);
    rp_tensor_unref(c.w);
    test_ctx_free(ctx);
}

/* ---- errors ---- */

typedef struct { rp_tensor *w; int fail_at; } failing;

static rp_status fails_in_the_middle(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    failing *f   = user;
    rp_tensor *h = NULL, *y = NULL;
    rp_status status;

    RP_TRY(rp_apply(ctx, "matmul", &(rp_attr_matmul){ true }, (rp_tensor *[]){ in[0], f->w }, 2, &h));
    status = rp_apply(ctx, "silu", NULL, &h, 1, &y);
    rp_tensor_unref(h);
    if (status == RP_OK && f->fail_at) {
        rp_tensor_unref(y);
        return rp_apply(ctx, "matmul", &(rp_attr_matmul){ false }, (rp_tensor *[]){ in[0], in[0] }, 2, &h);      /* [6, 8] x [6, 8] */
    }
    *out = y;
    return status;
}

static void an_error_inside_a_region_leaves_no_trace(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_tensor *x = new_tensor(ctx, RP_F32, 6, 8, RP_MEM_TEMP, 1, 1), *y = NULL, *loss;
    failing f    = { new_param(ctx, RP_F32, 8, 8, 1, 2, "w"), 0 }, other = { new_param(ctx, RP_F32, 8, 8, 1, 3, "v"), 1 };
    tensor_bits expected, got;

    for (int with_error = 0; with_error < 2; with_error++) {
        rp_tensor *a = call_op(ctx, "matmul", &(rp_attr_matmul){ true }, x, f.w, NULL);
        int64_t live = ledger(ctx).live_bytes, saved = saved_bytes(ctx);
        if (with_error) {
            assert_int_equal(rp_checkpoint(ctx, fails_in_the_middle, &other, &a, NULL, &y), RP_ERR_SHAPE);
            assert_null(rp_in_checkpoint(ctx));
            assert_int_equal(ledger(ctx).live_bytes, live);
            assert_int_equal(saved_bytes(ctx), saved);
        }
        assert_ok(ctx, rp_checkpoint(ctx, fails_in_the_middle, &f, &a, NULL, &y));
        loss = sum_all(ctx, y);
        assert_ok(ctx, rp_backward(ctx, loss));
        bits_of(f.w->grad, with_error ? &got : &expected);
        assert_null(other.w->grad);
        rp_tensor_drop_grad(f.w);
        rp_tensor_unref(a);
        rp_tensor_unref(y);
        rp_tensor_unref(loss);
    }
    assert_same_bits(&got, &expected, "the gradient after an error");
    rp_tensor_unref(x);
    rp_tensor_unref(f.w);
    rp_tensor_unref(other.w);
    test_ctx_free(ctx);
}

/* ---- in sequence ---- */

enum { FUNCTIONS = 7 };

/* Function i makes i + 1 activations. */
static rp_status chain_of(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    int n        = *(int *)user;
    rp_tensor *x = rp_tensor_ref(in[0]), *y;

    for (int i = 0; i < n; i++) {
        y = call_op(ctx, i % 2 ? "silu" : "gelu", i % 2 ? NULL : (const void *)&(rp_attr_gelu){ true }, x, NULL);
        rp_tensor_unref(x);
        x = y;
    }
    *out = x;
    return RP_OK;
}

static void segments_in_sequence_keep_only_what_goes_into_them(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *x = new_param(ctx, RP_F32, 6, 8, 1, 1, "x"), *y, *loss;
    rp_checkpoint_function fn[FUNCTIONS];
    int length[FUNCTIONS] = { 1, 2, 3, 4, 5, 6, 7 };
    void *user[FUNCTIONS];
    tensor_bits plain, got;
    int64_t bytes = 6 * 8 * 4;

    for (int i = 0; i < FUNCTIONS; i++) {
        fn[i]   = chain_of;
        user[i] = &length[i];
    }
    for (int segments = 0; segments <= FUNCTIONS; segments++) {
        y = rp_tensor_ref(x);
        for (int i = 0; i < FUNCTIONS && !segments; i++) {
            rp_tensor *next;
            assert_ok(ctx, chain_of(ctx, user[i], &y, &next));
            rp_tensor_unref(y);
            y = next;
        }
        if (segments) {
            rp_tensor_unref(y);
            assert_ok(ctx, rp_checkpoint_sequential(ctx, fn, user, FUNCTIONS, segments, x, NULL, &y));
            assert_int_equal(saved_bytes(ctx), (segments - 1) * bytes);
        }
        loss = sum_all(ctx, y);
        assert_ok(ctx, rp_backward(ctx, loss));
        bits_of(x->grad, segments ? &got : &plain);
        if (segments) assert_same_bits(&got, &plain, "segments");
        rp_tensor_drop_grad(x);
        rp_tensor_unref(y);
        rp_tensor_unref(loss);
    }
    assert_int_equal(rp_checkpoint_sequential(ctx, fn, user, FUNCTIONS, FUNCTIONS + 1, x, NULL, &y), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "rp_checkpoint_sequential: 8 segments of 7 functions; 1 to 7 are allowed");
    fn[5] = NULL;
    assert_int_equal(rp_checkpoint_sequential(ctx, fn, user, FUNCTIONS, 2, x, NULL, &y), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "rp_checkpoint_sequential: function 5 is NULL");
    assert_int_equal(rp_checkpoint(ctx, fn[0], user[0], &x, &(rp_checkpoint_options){ .n_outputs = -1 }, &y), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "rp_checkpoint: -1 outputs");
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* However unequal the functions are: none is empty, and none is left over. */
static void there_are_as_many_segments_as_asked_for(void **state)
{
    static int length[][FUNCTIONS] = {
        { 9, 1, 1, 1, 1, 1, 1 }, { 1, 1, 1, 9, 1, 1, 1 }, { 1, 1, 1, 1, 1, 1, 9 }, { 7, 6, 5, 4, 3, 2, 1 }, { 3, 1, 4, 1, 5, 9, 2 }
    };
    rp_ctx *ctx                    = test_ctx(NULL);
    rp_tensor *x                   = new_param(ctx, RP_F32, 6, 8, 1, 1, "x"), *y;

    (void)state;
    for (int way = 0; way < RP_COUNT(length); way++)
        for (int segments = 1; segments <= FUNCTIONS; segments++) {
            rp_checkpoint_function fn[FUNCTIONS];
            void *user[FUNCTIONS];
            for (int i = 0; i < FUNCTIONS; i++) {
                fn[i]   = chain_of;
                user[i] = &length[way][i];
            }
            assert_ok(ctx, rp_checkpoint_sequential(ctx, fn, user, FUNCTIONS, segments, x, NULL, &y));
            assert_int_equal(saved_bytes(ctx), (segments - 1) * 6 * 8 * 4);
            rp_tensor *loss = sum_all(ctx, y);
            assert_ok(ctx, rp_backward(ctx, loss));
            rp_tensor_drop_grad(x);
            rp_tensor_unref(y);
            rp_tensor_unref(loss);
        }
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static void segments_are_balanced_by_bytes(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_tensor *x = new_param(ctx, RP_F32, 6, 8, 1, 1, "x"), *y, *loss;
    rp_checkpoint_function fn[4] = { chain_of, chain_of, chain_of, chain_of };
    int length[4] = { 9, 1, 1, 1 };
    void *user[4] = { &length[0], &length[1], &length[2], &length[3] };
    int64_t bytes = 6 * 8 * 4, own = ledger(ctx).live_bytes;

    assert_ok(ctx, rp_checkpoint_sequential(ctx, fn, user, 4, 2, x, NULL, &y));
    loss = sum_all(ctx, y);
    rp_mem before = ledger(ctx);
    rp_mem_read(ctx, 0, true, &before);
    assert_ok(ctx, rp_backward(ctx, loss));
    /* [9] [1 1 1]: the long one is alone; at its replay 8 inner values and x's gradient, 2 gradients and the output's are there at most */
    assert_in_range(ledger(ctx).peak_bytes - own, 9 * bytes, 13 * bytes);
    rp_tensor_drop_grad(x);
    rp_tensor_unref(y);
    rp_tensor_unref(loss);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kept_record_gives_the_same_gradients_again),
        cmocka_unit_test(partial_backwards_add_up_and_share_one_replay),
        cmocka_unit_test(a_backward_inside_a_region_works_and_the_region_goes_on),
        cmocka_unit_test(an_error_inside_a_region_leaves_no_trace),
        cmocka_unit_test(segments_in_sequence_keep_only_what_goes_into_them),
        cmocka_unit_test(there_are_as_many_segments_as_asked_for),
        cmocka_unit_test(segments_are_balanced_by_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
