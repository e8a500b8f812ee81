/* Claims about offloading as a fate: real, without replays, once a storage, never a parameter, beside the other fates. */
#include "parity/probes.h"

static rp_ctx *offload_ctx(void)
{
    rp_ctx *ctx = probe_ctx(NULL);

    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    return ctx;
}

static void offload_ctx_free(rp_ctx *ctx)
{
    assert_int_equal(ledger_of(ctx, ctx->n_devices - 1).live_bytes, 0);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    test_ctx_free(ctx);
}

static int64_t bytes_offloaded(rp_ctx *ctx) { return ledger_of(ctx, ctx->n_devices - 1).live_bytes; }

static rp_status four_squares(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = probe(ctx, "square", 0, in[0]);
    for (int i = 1; i < 4; i++) out[0] = then_probe(ctx, "square", i, out[0]);
    return RP_OK;
}

/* No region: all slots that backward reads are offloaded and fetched. */
static void slots_are_offloaded_and_fetched_without_being_recomputed(void **state)
{
    (void)state;
    rp_ctx *ctx       = offload_ctx();
    rp_tensor *x      = drawn(ctx, 1, true), *y;
    rp_policy *policy = NULL;
    values grad[2];

    for (int offload = 0; offload < 2; offload++) {
        rule_by(ctx, &policy, offload ? "[{ fate: offload }]" : NULL);
        assert_ok(ctx, four_squares(ctx, NULL, &x, &y));
        assert_int_equal(saved_bytes(ctx), offload ? 0 : 3 * BYTES);
        assert_int_equal(bytes_offloaded(ctx), offload ? 3 * BYTES : 0);
        assert_ok(ctx, backward_of(ctx, y));
        if (offload) assert_true(probes.saved_at_backward[3] >= 2 * BYTES);      /* its own, and the next, which is on its way */
        grad[offload] = take_grad(x);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(probes.again[i], 0);
    assert_same_values(&grad[1], &grad[0], "the gradient");
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    offload_ctx_free(ctx);
}

/* However many calls lie between two readers: the value that is read and the one that comes next are here, no more. */
static void one_value_is_on_its_way_at_a_time(void **state)
{
    (void)state;
    rp_ctx *ctx       = offload_ctx();
    rp_tensor *x      = drawn(ctx, 1, true), *y;
    rp_policy *policy = NULL;

    rule_by(ctx, &policy, "[{ fate: offload }]");
    y = probe(ctx, "square", 0, x);
    for (int i = 1; i < 7; i++) {
        for (int k = 0; k < 4; k++) y = then_probe(ctx, "twice", 9, y);
        y = then_probe(ctx, "square", i, y);
    }
    assert_ok(ctx, backward_of(ctx, y));
    for (int i = 0; i < 7; i++) assert_int_equal(probes.saved_at_backward[i], (i < 2 ? i : 2) * BYTES);      /* 0 reads a leaf */
    rule_by(ctx, &policy, NULL);
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    offload_ctx_free(ctx);
}

static void a_must_without_a_place_is_an_error_and_a_preference_keeps(void **state)
{
    (void)state;
    rp_ctx *ctx       = probe_ctx(NULL);
    rp_tensor *x      = drawn(ctx, 1, true), *y = NULL;
    rp_policy *policy = NULL;

    rule_by(ctx, &policy, "[{ op: square, fate: prefer_offload }]");
    assert_ok(ctx, rp_checkpoint(ctx, four_squares, NULL, &x, NULL, &y));
    assert_int_equal(saved_bytes(ctx), 3 * BYTES);
    assert_ok(ctx, backward_of(ctx, y));
    rp_tensor_drop_grad(x);
    rule_by(ctx, &policy, "\n[{ op: square, fate: offload }]");
    assert_int_equal(rp_apply(ctx, "square", &(int){ 0 }, &x, 1, &y), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "rules:2: slot of square of '' must be offloaded, but no folder or device for offloading is set");
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* x w, which reads both, then a square. */
static rp_status product(rp_ctx *ctx, void *w, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *h = probe(ctx, "square", 1, in[0]);

    out[0] = then_probe(ctx, "square", 2, call(ctx, "mul", NULL, h, w));
    rp_tensor_unref(h);
    return RP_OK;
}

static void parameters_and_inputs_are_never_offloaded(void **state)
{
    (void)state;
    rp_ctx *ctx       = offload_ctx();
    rp_tensor *x      = drawn(ctx, 1, true), *w = drawn(ctx, 2, true), *batch = drawn(ctx, 3, false), *y;
    rp_policy *policy = NULL;

    rule_by(ctx, &policy, "[{ fate: offload }]");
    for (int i = 0; i < 2; i++) {
        rp_tensor *in = i ? batch : x;
        assert_ok(ctx, product(ctx, w, &in, &y));
        assert_int_equal(ledger_of(ctx, 0).live_at[RP_MEM_PARAM], 2 * BYTES);
        assert_int_equal(bytes_offloaded(ctx), (i ? 1 : 2) * BYTES);       /* h where w's gradient reads it: also of the batch, x w */
        assert_ok(ctx, backward_of(ctx, y));
    }
    rule_by(ctx, &policy, NULL);
    rp_tensor *all[] = { x, w, batch };
    for (int i = 0; i < 3; i++) {
        rp_tensor_drop_grad(all[i]);
        rp_tensor_unref(all[i]);
    }
    offload_ctx_free(ctx);
}

/* Three calls read it, one of them through a view. */
static void a_storage_with_several_readers_is_offloaded_once(void **state)
{
    (void)state;
    rp_ctx *ctx       = offload_ctx();
    rp_tensor *x      = drawn(ctx, 1, true), *h, *y, *z, *turned, *back, *sum;
    rp_policy *policy = NULL;
    rp_tape_stats stats;
    values grad[2];

    for (int offload = 0; offload < 2; offload++) {
        rule_by(ctx, &policy, offload ? "[{ op: twice, fate: offload }]" : NULL);
        rp__tape_stats(ctx, &stats);
        h = probe(ctx, "twice", 1, x);
        assert_ok(ctx, rp_tensor_transpose(h, 0, 1, &turned));
        assert_ok(ctx, rp_tensor_transpose(turned, 0, 1, &back));
        y   = probe(ctx, "square", 2, h);
        z   = call(ctx, "mul", NULL, h, back);
        sum = call(ctx, "add", NULL, y, z);
        rp_tensor *all[] = { h, turned, back, y, z };
        for (int i = 0; i < RP_COUNT(all); i++) rp_tensor_unref(all[i]);
        assert_int_equal(bytes_offloaded(ctx), offload * BYTES);
        rp__tape_stats(ctx, &stats);
        assert_int_equal(stats.offloaded_bytes, offload * BYTES);
        assert_ok(ctx, backward_of(ctx, sum));
        grad[offload] = take_grad(x);
    }
    assert_same_values(&grad[1], &grad[0], "the gradient");
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    offload_ctx_free(ctx);
}

static rp_status two_squares(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    int *number = user;

    out[0] = then_probe(ctx, "square", *number + 1, probe(ctx, "square", *number, in[0]));
    return RP_OK;
}

/* Everything inside regions is recomputed, and their inputs are offloaded, so no slot is saved. */
static void around_regions_only_their_inputs_are_offloaded(void **state)
{
    (void)state;
    rp_ctx *ctx       = offload_ctx();
    rp_tensor *x      = drawn(ctx, 1, true), *h, *y;
    rp_policy *policy = NULL;
    values grad[2];

    for (int offload = 0; offload < 2; offload++) {
        rule_by(ctx, &policy, offload ? "[{ op: twice, fate: offload }]" : NULL);
        memset(probes.again, 0, sizeof probes.again);
        h = probe(ctx, "twice", 9, x);
        for (int i = 0; i < 3; i++) {
            assert_ok(ctx, rp_checkpoint(ctx, two_squares, &(int){ 2 * i }, &h, NULL, &y));
            rp_tensor_unref(h);
            h = then_probe(ctx, "twice", 9, y);
        }
        assert_int_equal(saved_bytes(ctx), offload ? 0 : 3 * BYTES);
        assert_int_equal(bytes_offloaded(ctx), offload ? 3 * BYTES : 0);
        assert_ok(ctx, backward_of(ctx, h));
        for (int i = 0; i < 6; i++) assert_int_equal(probes.again[i], i % 2 == 0);
        grad[offload] = take_grad(x);
    }
    assert_same_values(&grad[1], &grad[0], "the gradient");
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    offload_ctx_free(ctx);
}

/* One region, a slot of each kind, and a second backward over it. */
static void the_three_fates_stand_beside_each_other_in_a_region(void **state)
{
    (void)state;
    rp_ctx *ctx       = offload_ctx();
    rp_tensor *x      = drawn(ctx, 1, true), *y, *loss;
    rp_policy *policy = NULL;
    values plain, got;

    assert_ok(ctx, four_squares(ctx, NULL, &x, &y));
    assert_ok(ctx, backward_of(ctx, y));
    plain = take_grad(x);
    rule_by(ctx, &policy, "[{ call: 0, fate: keep }, { call: 1, fate: offload }]");
    assert_ok(ctx, rp_checkpoint(ctx, four_squares, NULL, &x, NULL, &y));
    assert_int_equal(saved_bytes(ctx), BYTES);
    assert_int_equal(bytes_offloaded(ctx), BYTES);
    loss = total(ctx, y);
    for (int i = 0; i < 2; i++) {
        assert_ok(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = i == 0 }));
        got = take_grad(x);
        assert_same_values(&got, &plain, "the gradient");
        assert_int_equal(probes.again[0] + probes.again[1] + probes.again[3], 0);
        assert_int_equal(probes.again[2], i + 1);
    }
    rp_tensor_unref(loss);
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    offload_ctx_free(ctx);
}

static void a_rule_leaves_small_slots_where_they_are(void **state)
{
    (void)state;
    rp_ctx *ctx       = offload_ctx();
    rp_tensor *x      = drawn(ctx, 1, true), *row, *y, *z;
    rp_policy *policy = NULL;

    rule_by(ctx, &policy, "[{ larger_than: 127, fate: offload }]");     /* a whole one has 128 bytes, a row 32 */
    y = then_probe(ctx, "square", 2, probe(ctx, "square", 1, x));
    assert_ok(ctx, rp_tensor_slice(x, 0, 0, 1, &row));
    z = then_probe(ctx, "square", 4, probe(ctx, "square", 3, row));
    assert_int_equal(bytes_offloaded(ctx), BYTES);
    assert_int_equal(saved_bytes(ctx), BYTES / ROWS);
    rp_tensor_unref(row);
    rp_tensor_unref(z);
    rp_tensor_unref(y);
    rp_forget(ctx);
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    offload_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_offloaded_and_fetched_without_being_recomputed),
        cmocka_unit_test(one_value_is_on_its_way_at_a_time),
        cmocka_unit_test(a_must_without_a_place_is_an_error_and_a_preference_keeps),
        cmocka_unit_test(parameters_and_inputs_are_never_offloaded),
        cmocka_unit_test(a_storage_with_several_readers_is_offloaded_once),
        cmocka_unit_test(around_regions_only_their_inputs_are_offloaded),
        cmocka_unit_test(the_three_fates_stand_beside_each_other_in_a_region),
        cmocka_unit_test(a_rule_leaves_small_slots_where_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
