/* Claims about random numbers and side effects under replays: masks belong to calls, effects happen once. */
#include "parity/probes.h"

static const rp_attr_dropout half = { 0.5f };

/* ---- masks ---- */

enum { LAYERS = 3 };

/* square, dropout, square, dropout, square, dropout: all masks are drawn in one stream, that of the pass. */
static rp_status dropping_chain(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = rp_tensor_ref(in[0]);
    for (int i = 0; i < LAYERS; i++) {
        out[0] = then(ctx, "dropout", &half, then_probe(ctx, "square", i, out[0]));
        out[0] = then_probe(ctx, "logistic", LAYERS + i, out[0]);
    }
    return RP_OK;
}

typedef struct { values y, grad, behind; } outcome;

/* The chain in a region or not, then one more mask behind it, and another after the backward. */
static outcome run(rp_ctx *ctx, rp_tensor *x, bool region)
{
    outcome o;
    rp_tensor *y, *behind;

    rp_pass_begin(ctx, 3, 0);
    if (region) assert_ok(ctx, rp_checkpoint(ctx, dropping_chain, NULL, &x, NULL, &y));
    else assert_ok(ctx, dropping_chain(ctx, NULL, &x, &y));
    y   = then(ctx, "dropout", &half, y);
    o.y = values_of(y);
    assert_ok(ctx, backward_of(ctx, y));
    o.grad   = take_grad(x);
    behind   = call(ctx, "dropout", &half, x, NULL);
    o.behind = values_of(behind);
    rp_tensor_unref(behind);
    rp_forget(ctx);
    return o;
}

static void assert_same_outcome(const outcome *got, const outcome *expected, const char *what)
{
    assert_same_values(&got->y, &expected->y, what);
    assert_same_values(&got->grad, &expected->grad, what);
    assert_same_values(&got->behind, &expected->behind, what);
}

static void a_replay_draws_the_masks_of_the_first_pass_and_moves_no_other(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(&(rp_ctx_options){ .seed = 7 });
    rp_tensor *x = drawn(ctx, 1, true);
    outcome plain = run(ctx, x, false), region = run(ctx, x, true);
    int zeros     = 0;

    for (int e = 0; e < ELEMS; e++) zeros += plain.y.at[e] == 0;
    assert_in_range(zeros, 1, ELEMS - 1);
    assert_same_outcome(&region, &plain, "masks");
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* Every choice of which of the three masked values are kept: the others are drawn again, in their own place of the stream. */
static void keeping_some_random_values_shifts_no_other(void **state)
{
    (void)state;
    rp_ctx *ctx       = probe_ctx(&(rp_ctx_options){ .seed = 7 });
    rp_tensor *x      = drawn(ctx, 1, true);
    rp_policy *policy = NULL;
    outcome plain     = run(ctx, x, false);
    const char *fate[LAYERS];
    char rules[256];

    for (int kept = 0; kept < 1 << LAYERS; kept++) {
        for (int i = 0; i < LAYERS; i++) fate[i] = kept >> i & 1 ? "keep" : "recompute";
        snprintf(rules, sizeof rules,
                 "[{ op: dropout, call: 0, fate: %s }, { op: dropout, call: 1, fate: %s }, { op: dropout, call: 2, fate: %s }]", fate[0],
                 fate[1], fate[2]);
        rule_by(ctx, &policy, rules);
        outcome o = run(ctx, x, true);
        assert_same_outcome(&o, &plain, rules);
    }
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static rp_status dropped(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = then_probe(ctx, "square", 1, call(ctx, "dropout", &half, in[0], NULL));
    return RP_OK;
}

/* Two branches whose masks come from one stream; their backwards, and so their replays, in either order, or one alone. */
static void masks_of_regions_with_one_stream_do_not_depend_on_the_order_of_replays(void **state)
{
    (void)state;
    enum { NOBODY = 2 };
    static const int order[][2] = { { 0, 1 }, { 1, 0 }, { 0, NOBODY }, { 1, NOBODY } };
    rp_ctx *ctx     = probe_ctx(&(rp_ctx_options){ .seed = 7 });
    rp_tensor *x[2] = { drawn(ctx, 1, true), drawn(ctx, 2, true) }, *loss[2], *y;
    values first[2], got;

    for (int o = 0; o < RP_COUNT(order); o++) {
        rp_pass_begin(ctx, 0, 0);
        for (int i = 0; i < 2; i++) {
            assert_ok(ctx, rp_checkpoint(ctx, dropped, NULL, &x[i], NULL, &y));
            loss[i] = total(ctx, y);
        }
        for (int i = 0; i < 2 && order[o][i] != NOBODY; i++) {
            int which = order[o][i];
            assert_ok(ctx, rp_backward_with(ctx, loss[which], &(rp_backward_options){ .keep_record = true }));
            got = take_grad(x[which]);
            if (o == 0) first[which] = got;
            assert_same_values(&got, &first[which], "a masked gradient");
        }
        rp_forget(ctx);
        for (int i = 0; i < 2; i++) rp_tensor_unref(loss[i]);
    }
    for (int i = 0; i < 2; i++) rp_tensor_unref(x[i]);
    test_ctx_free(ctx);
}

/* ---- effects ---- */

static rp_status counting(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = then_probe(ctx, "square", 1, probe(ctx, "twice", 0, in[0]));
    out[0] = then_probe(ctx, "square", 3, then_probe(ctx, "counter", 2, out[0]));
    out[0] = then_probe(ctx, "square", 5, then_probe(ctx, "tally", 4, out[0]));
    return RP_OK;
}

/* One kind is never replayed, so its output is kept. The other is replayed and leaves its effect out. */
static void effects_happen_once_whichever_calls_are_replayed(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y, *loss;
    values grad[2];

    for (int region = 0; region < 2; region++) {
        probes = (probe_record){ .counter = 0 };
        if (region) assert_ok(ctx, rp_checkpoint(ctx, counting, NULL, &x, NULL, &y));
        else assert_ok(ctx, counting(ctx, NULL, &x, &y));
        loss = total(ctx, y);
        for (int i = 0; i < 2; i++) {
            assert_ok(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = i == 0 }));
            grad[region] = take_grad(x);
            assert_same_values(&grad[region], &grad[0], "the gradient");
        }
        assert_int_equal(probes.counter, 1);
        assert_int_equal(probes.tally, 1);
        assert_int_equal(probes.again[2], 0);
        assert_int_equal(probes.again[4], 2 * region);
        rp_tensor_unref(loss);
    }
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_draws_the_masks_of_the_first_pass_and_moves_no_other),
        cmocka_unit_test(keeping_some_random_values_shifts_no_other),
        cmocka_unit_test(masks_of_regions_with_one_stream_do_not_depend_on_the_order_of_replays),
        cmocka_unit_test(effects_happen_once_whichever_calls_are_replayed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
