/* Claims about rp_checkpoint as a call: what goes in and comes out, what it costs without gradients, what an error leaves. */
#include "parity/probes.h"

/* ---- inputs, outputs, options ---- */

static int n_calls;

/* Of a and b: a', b' and their product, with a' = (2 a)^2. */
static rp_status three_of_two(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    n_calls++;
    out[0] = then_probe(ctx, "square", 1, probe(ctx, "twice", 0, in[0]));
    out[1] = probe(ctx, "logistic", 2, in[1]);
    out[2] = call(ctx, "mul", NULL, out[0], out[1]);
    return RP_OK;
}

/* Its gradients when all three outputs are used. */
static void run_three(rp_ctx *ctx, rp_tensor *const *in, bool region, const rp_checkpoint_options *options, values *grad)
{
    rp_tensor *out[3], *sum;

    if (region) assert_ok(ctx, rp_checkpoint(ctx, three_of_two, NULL, in, options, out));
    else assert_ok(ctx, three_of_two(ctx, NULL, in, out));
    rp_tensor *product = call(ctx, "mul", NULL, out[1], out[2]);
    sum = call(ctx, "add", NULL, out[0], product);
    rp_tensor_unref(product);
    for (int i = 0; i < 3; i++) rp_tensor_unref(out[i]);
    assert_ok(ctx, backward_of(ctx, sum));
    for (int i = 0; i < 2; i++) grad[i] = take_grad(in[i]);
}

static void a_function_of_any_inputs_and_outputs_is_a_region(void **state)
{
    (void)state;
    rp_ctx *ctx      = probe_ctx(NULL);
    rp_tensor *in[2] = { drawn(ctx, 1, true), drawn(ctx, 2, true) };
    values plain[2], got[2];

    run_three(ctx, in, false, NULL, plain);
    n_calls = 0;
    run_three(ctx, in, true, NULL, got);
    assert_int_equal(n_calls, 1);
    assert_int_equal(probes.again[0] + probes.again[1], 2);
    assert_int_equal(probes.again[2], 0);       /* what is read outside is held */
    for (int i = 0; i < 2; i++) {
        assert_same_values(&got[i], &plain[i], "a gradient through three outputs");
        rp_tensor_unref(in[i]);
    }
    test_ctx_free(ctx);
}

static rp_status squares(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = then_probe(ctx, "square", 4, probe(ctx, "square", 3, in[0]));
    return RP_OK;
}

static void options_serve_any_function_and_any_step(void **state)
{
    (void)state;
    rp_ctx *ctx      = probe_ctx(NULL);
    rp_tensor *in[2] = { drawn(ctx, 1, true), drawn(ctx, 2, true) }, *y;
    rp_checkpoint_options options = { .name = "mine" };
    values grad[2];

    assert_ok(ctx, rp_policy_read(ctx, "keeps squares", "[{ op: square, fate: keep }]", &options.policy));
    for (int step = 0; step < 3; step++) {
        probes = (probe_record){ .counter = 0 };
        run_three(ctx, in, true, &options, grad);
        assert_ok(ctx, rp_checkpoint(ctx, squares, NULL, in, &options, &y));
        assert_ok(ctx, backward_of(ctx, y));
        rp_tensor_drop_grad(in[0]);
        assert_int_equal(probes.again[0], 1);
        assert_int_equal(probes.again[1] + probes.again[3] + probes.again[4], 0);
        assert_string_equal(probes.region[1], "mine");
        assert_string_equal(probes.region[4], "mine");
    }
    rp_policy_free(options.policy);
    for (int i = 0; i < 2; i++) rp_tensor_unref(in[i]);
    test_ctx_free(ctx);
}

/* ---- what wants a gradient ---- */

static rp_status times_captured(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    out[0] = then_probe(ctx, "square", 1, call(ctx, "mul", NULL, in[0], user));
    return RP_OK;
}

static void parameters_inside_get_gradients_though_no_input_wants_one(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, false), *w = drawn(ctx, 2, true), *y;
    values grad[2];

    for (int region = 0; region < 2; region++) {
        if (region) assert_ok(ctx, rp_checkpoint(ctx, times_captured, w, &x, NULL, &y));
        else assert_ok(ctx, times_captured(ctx, w, &x, &y));
        assert_ok(ctx, backward_of(ctx, y));
        grad[region] = take_grad(w);
    }
    assert_same_values(&grad[1], &grad[0], "the gradient of a parameter inside");
    rp_tensor_unref(x);
    rp_tensor_unref(w);
    test_ctx_free(ctx);
}

static void a_region_in_which_nothing_wants_a_gradient_has_no_backward(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, false), *y;

    assert_ok(ctx, rp_checkpoint(ctx, squares, NULL, &x, NULL, &y));
    assert_int_equal(backward_of(ctx, y), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "backward starts from a scalar that was recorded, not from fp32 []");
    assert_string_equal(probes.log, "f3 f4 ");
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static rp_fate count_questions(const rp_slot_info *slot, void *asked)
{
    (void)slot;
    ++*(int *)asked;
    return RP_NO_FATE;
}

/* Host allocations of one run of the function. */
static int64_t allocations(rp_ctx *ctx, rp_tensor *x, bool region, const rp_checkpoint_options *options)
{
    int64_t before = ctx->alloc_count;
    rp_tensor *y;

    if (region) assert_ok(ctx, rp_checkpoint(ctx, squares, NULL, &x, options, &y));
    else assert_ok(ctx, squares(ctx, NULL, &x, &y));
    rp_tensor_unref(y);
    return ctx->alloc_count - before;
}

static void without_gradients_a_region_costs_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true);
    int asked    = 0;
    rp_checkpoint_options options = { .name = NULL };

    assert_ok(ctx, rp_policy_new(ctx, "witness", &options.policy));
    assert_ok(ctx, rp_policy_call(options.policy, count_questions, NULL, &asked));
    assert_ok(ctx, rp_set_grad(ctx, false));
    allocations(ctx, x, true, &options);        /* what is made once */
    rp_mem_read(ctx, 0, true, &(rp_mem){ 0 });
    int64_t plain = allocations(ctx, x, false, NULL), plain_peak = ledger_of(ctx, 0).peak_bytes;
    rp_mem_read(ctx, 0, true, &(rp_mem){ 0 });
    assert_int_equal(allocations(ctx, x, true, &options), plain);
    assert_int_equal(ledger_of(ctx, 0).peak_bytes, plain_peak);
    assert_int_equal(ledger_of(ctx, 0).peak_at[RP_MEM_SAVED], 0);
    assert_int_equal(asked, 0);
    assert_string_equal(probes.log, "f3 f4 f3 f4 f3 f4 ");
    assert_int_equal(rp__region_count(ctx), 0);
    assert_ok(ctx, rp_set_grad(ctx, true));
    rp_policy_free(options.policy);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- errors ---- */

static rp_status fails(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *h = then_probe(ctx, "square", 6, probe(ctx, "square", 5, in[0]));

    (void)user;
    rp_status status = rp_apply(ctx, "matmul", &(rp_attr_matmul){ false }, (rp_tensor *[]){ h, in[0] }, 2, out);      /* [4, 8] x [4, 8] */
    rp_tensor_unref(h);
    return status;
}

typedef struct { bool with_error; rp_policy *inner; } tries;

/* Tries what fails in a region inside, and goes on without it. */
static rp_status goes_on(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    tries *t     = user;
    rp_tensor *h = probe(ctx, "square", 1, in[0]), *none = NULL;
    rp_checkpoint_options options = { .name = "inner", .policy = t->inner };

    if (t->with_error) {
        int64_t live = ledger_of(ctx, 0).live_bytes;
        assert_int_equal(rp_checkpoint(ctx, fails, NULL, &h, &options, &none), RP_ERR_SHAPE);
        assert_null(none);
        assert_string_equal(rp_in_checkpoint(ctx), "outer");
        assert_int_equal(ledger_of(ctx, 0).live_bytes, live);
    }
    out[0] = then_probe(ctx, "square", 2, h);
    return RP_OK;
}

/* Regions that began are gone, policies decide no more, and the gradients are as if nothing had been. */
static void an_error_leaves_nothing_also_where_it_is_caught_in_a_region(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y = NULL;
    int asked    = 0, asked_at_error = 0;
    int64_t own  = ledger_of(ctx, 0).live_bytes;
    values grad[2];
    tries t = { false, NULL };

    assert_ok(ctx, rp_policy_new(ctx, "inner", &t.inner));
    assert_ok(ctx, rp_policy_call(t.inner, count_questions, NULL, &asked));
    for (int i = 0; i < 2; i++) {
        t.with_error = i;
        assert_ok(ctx, rp_checkpoint(ctx, goes_on, &t, &x, &(rp_checkpoint_options){ .name = "outer" }, &y));
        asked_at_error = asked;
        assert_ok(ctx, backward_of(ctx, y));
        grad[i] = take_grad(x);
        assert_int_equal(ledger_of(ctx, 0).live_bytes, own);
    }
    assert_int_equal(asked_at_error, 2);        /* for the two squares; not for what came behind the error */
    assert_int_equal(asked, asked_at_error);
    assert_int_equal(probes.again[5] + probes.again[6], 0);
    assert_same_values(&grad[1], &grad[0], "the gradient beside an error");
    rp_policy_free(t.inner);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- code that is not alike twice ---- */

static int n_branches;

/* Goes another way the second time it is called, and counts on the side. */
static rp_status never_alike(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *h = probe(ctx, "square", 1, in[0]);

    (void)user;
    for (int i = 0; i < n_branches; i++) h = then_probe(ctx, "logistic", 2, h);
    n_branches++;
    out[0] = then_probe(ctx, "square", 3, h);
    return RP_OK;
}

static void a_function_is_called_once_whatever_it_would_do_the_second_time(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    values grad[2];

    for (int region = 0; region < 2; region++) {
        n_branches = 0;
        if (region) assert_ok(ctx, rp_checkpoint(ctx, never_alike, NULL, &x, NULL, &y));
        else assert_ok(ctx, never_alike(ctx, NULL, &x, &y));
        assert_ok(ctx, backward_of(ctx, y));
        assert_int_equal(n_branches, 1);
        grad[region] = take_grad(x);
    }
    assert_int_equal(probes.again[1], 1);
    assert_int_equal(probes.first[2] + probes.again[2], 0);
    assert_same_values(&grad[1], &grad[0], "the gradient");
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static rp_status outer_and_inner(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *h = probe(ctx, "square", 1, in[0]), *y;

    (void)user;
    assert_ok(ctx, rp_checkpoint(ctx, squares, NULL, &h, &(rp_checkpoint_options){ .name = "inner" }, &y));
    rp_tensor_unref(h);
    out[0] = then_probe(ctx, "square", 2, y);
    return RP_OK;
}

static void an_op_can_find_its_region_and_whether_it_is_replayed(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;

    for (int replayed = 0; replayed < 2; replayed++) {
        if (replayed) {
            memset(probes.region, 'x', sizeof probes.region);
            assert_ok(ctx, backward_of(ctx, y));
        } else {
            assert_ok(ctx, rp_checkpoint(ctx, outer_and_inner, NULL, &x, &(rp_checkpoint_options){ .name = "outer" }, &y));
        }
        assert_string_equal(probes.region[1], "outer");
        assert_string_equal(probes.region[3], "inner");
        assert_int_equal(probes.again[1], replayed);
        assert_int_equal(probes.again[3], 2 * replayed);    /* for what comes behind the inner region, and for its own backward */
    }
    assert_int_equal(probes.refused, 0);
    assert_null(rp_in_checkpoint(ctx));
    assert_false(rp_is_replaying(ctx));
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- ends that fail ---- */

static rp_status square_and_off(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *y = probe(ctx, "square", 1, in[0]);

    *(rp_tensor **)user = rp_tensor_ref(y);
    rp_status status    = rp_set_grad(ctx, false);
    if (status == RP_OK) out[0] = y;
    else rp_tensor_unref(y);
    return status;
}

static void a_function_that_leaves_gradients_off_is_an_error_that_leaves_no_region(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y = NULL, *seen = NULL;

    assert_int_equal(rp_checkpoint(ctx, square_and_off, &seen, &x, &(rp_checkpoint_options){ .name = "mine" }, &y), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "gradients were turned off inside the checkpointed region 'mine' and are off at its end");
    assert_null(y);
    assert_null(rp_in_checkpoint(ctx));
    rp_tensor_unref(seen);
    assert_ok(ctx, rp_set_grad(ctx, true));
    assert_int_equal(rp_checkpoint_sequential(ctx, (rp_checkpoint_function[]){ square_and_off }, (void *[]){ &seen }, 1, 1, x,
                                              &(rp_checkpoint_options){ .n_outputs = 9 }, &y), RP_ERR_STATE);      /* of a function it takes back one */
    assert_null(y);
    assert_null(rp_in_checkpoint(ctx));
    rp_tensor_unref(seen);
    assert_ok(ctx, rp_checkpoint(ctx, square_and_off, &seen, &x, NULL, &y));       /* off before, off after */
    assert_null(rp_in_checkpoint(ctx));
    assert_ok(ctx, rp_set_grad(ctx, true));
    rp_tensor_unref(seen);
    rp_tensor_unref(y);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static rp_status silu_only(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    return rp_apply(ctx, "silu", NULL, in, 1, out);
}

/* ---- an error that is caught in a sequence ---- */

static rp_status add_then_silu(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *y = NULL;

    (void)user;
    RP_TRY(rp_apply(ctx, "add", NULL, (rp_tensor *[]){ in[0], in[0] }, 2, &y));     /* read by the replay alone */
    rp_status status = rp_apply(ctx, "silu", NULL, &y, 1, out);
    rp_tensor_unref(y);
    return status;
}

static rp_status refused_product(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    return rp_apply(ctx, "matmul", &(rp_attr_matmul){ false }, (rp_tensor *[]){ in[0], in[0] }, 2, out);      /* [4, 8] x [4, 8] */
}

static rp_status catches(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *none = NULL;

    assert_int_equal(rp_checkpoint(ctx, refused_product, NULL, in, NULL, &none), RP_ERR_SHAPE);
    return add_then_silu(ctx, user, in, out);
}

static rp_status nothing_made(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *y = NULL;

    (void)user, (void)out;
    RP_TRY(rp_apply(ctx, "silu", NULL, (rp_tensor *[]){ in[0] }, 1, &y));
    rp_tensor_unref(y);
    return RP_OK;
}

static void a_function_of_a_sequence_without_an_output_is_an_error_that_leaves_no_call(void **state)
{
    (void)state;
    char expected[128];

    for (int at = 0; at < 3; at++) {
        rp_checkpoint_function fn[] = { add_then_silu, add_then_silu, add_then_silu };
        rp_ctx *ctx  = probe_ctx(NULL);
        rp_tensor *x = drawn(ctx, 1, true), *y = NULL;
        fn[at]       = nothing_made;
        assert_int_equal(rp_checkpoint_sequential(ctx, fn, NULL, 3, 2, x, NULL, &y), RP_ERR_STATE);
        snprintf(expected, sizeof expected, "rp_checkpoint_sequential: function %d returned RP_OK without an output", at);
        assert_string_equal(rp_error(ctx), expected);
        assert_null(y);
        assert_int_equal(rp__tape_n_calls(ctx), 0);
        rp_tensor_unref(x);
        test_ctx_free(ctx);
    }
}

static void an_error_that_a_function_of_a_sequence_catches_takes_nothing_from_the_others(void **state)
{
    (void)state;
    rp_checkpoint_function with[] = { add_then_silu, add_then_silu, catches }, without[] = { add_then_silu, add_then_silu, add_then_silu };
    double grad[2][32];

    for (int i = 0; i < 2; i++) {
        rp_ctx *ctx  = probe_ctx(NULL);
        rp_tensor *x = drawn(ctx, 1, true), *h = NULL, *y = NULL;
        assert_ok(ctx, rp_apply(ctx, "add", NULL, (rp_tensor *[]){ x, x }, 2, &h));
        assert_ok(ctx, rp_checkpoint_sequential(ctx, i ? with : without, NULL, 3, 3, h, NULL, &y));
        rp_tensor_unref(h);
        assert_ok(ctx, backward_of(ctx, y));
        assert_ok(ctx, rp_tensor_read(rp_tensor_grad(x), grad[i], 32));
        rp_tensor_drop_grad(x);
        rp_tensor_unref(x);
        test_ctx_free(ctx);
    }
    assert_memory_equal(grad[0], grad[1], sizeof grad[0]);
}

/* Whichever allocation refused_product, the region's plan included, there is an output or nothing at all. */
static void where_memory_fails_there_is_no_output(void **state)
{
    (void)state;
    test_faults f = { 0 };

    while (!f.over) {
        rp_ctx *ctx  = probe_ctx(NULL);
        rp_tensor *x = drawn(ctx, 1, true), *y = NULL;
        rp_mem before, after;
        rp_mem_read(ctx, 0, false, &before);
        test_fault_begin(&f, ctx);
        bool failed = test_fault_end(&f, rp_checkpoint(ctx, silu_only, NULL, &x, NULL, &y));
        assert_int_equal(y == NULL, failed);
        rp_mem_read(ctx, 0, false, &after);
        if (failed) assert_int_equal(after.live_bytes, before.live_bytes);
        rp_tensor_unref(y);
        rp_forget(ctx);
        rp_tensor_unref(x);
        test_ctx_free(ctx);
    }
    assert_in_range(f.failed, 4, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_of_any_inputs_and_outputs_is_a_region),
        cmocka_unit_test(options_serve_any_function_and_any_step),
        cmocka_unit_test(parameters_inside_get_gradients_though_no_input_wants_one),
        cmocka_unit_test(a_region_in_which_nothing_wants_a_gradient_has_no_backward),
        cmocka_unit_test(without_gradients_a_region_costs_nothing),
        cmocka_unit_test(an_error_leaves_nothing_also_where_it_is_caught_in_a_region),
        cmocka_unit_test(a_function_is_called_once_whatever_it_would_do_the_second_time),
        cmocka_unit_test(an_op_can_find_its_region_and_whether_it_is_replayed),
        cmocka_unit_test(a_function_of_a_sequence_without_an_output_is_an_error_that_leaves_no_call),
        cmocka_unit_test(a_function_that_leaves_gradients_off_is_an_error_that_leaves_no_region),
        cmocka_unit_test(where_memory_fails_there_is_no_output),
        cmocka_unit_test(an_error_that_a_function_of_a_sequence_catches_takes_nothing_from_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
