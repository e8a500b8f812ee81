/* Claims about replays: when they run, what they run, how long what they make lives, and what may be read. */
#include "parity/probes.h"

/* ---- when, and how long ---- */

static rp_status four_squares(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = probe(ctx, "square", 0, in[0]);
    for (int i = 1; i < 4; i++) out[0] = then_probe(ctx, "square", i, out[0]);
    return RP_OK;
}

static void a_replay_waits_for_the_first_reader_and_each_value_goes_with_its_last(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;

    assert_ok(ctx, rp_checkpoint(ctx, four_squares, NULL, &x, NULL, &y));
    y = then_probe(ctx, "square", 5, then_probe(ctx, "square", 4, y));
    assert_ok(ctx, backward_of(ctx, y));
    assert_string_equal(probes.log, "f0 f1 f2 f3 f4 f5 b5 b4 r0 r1 r2 b3 b2 b1 b0 ");
    assert_int_equal(probes.saved_at_backward[5], 2 * BYTES);      /* what 5 and 4 read */
    assert_int_equal(probes.saved_at_backward[4], BYTES);
    for (int i = 0; i < 4; i++) assert_int_equal(probes.saved_at_backward[i], i * BYTES);     /* 0 reads a leaf */
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* Once more from the start: nothing that a replay made was left over, and the leaf's gradient doubles. */
static void a_second_backward_replays_again_unless_replays_are_kept(void **state)
{
    (void)state;
    static const char *const log[2] = { "b3 b2 b1 b0 ", "r0 r1 r2 b3 b2 b1 b0 " };
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y, *loss;

    for (int keep = 0; keep < 2; keep++) {
        rp_backward_options options = { .keep_record = true, .keep_replays = keep };
        assert_ok(ctx, rp_checkpoint(ctx, four_squares, NULL, &x, NULL, &y));
        loss = total(ctx, y);
        for (int i = 0; i < 2; i++) {
            probes.log[0] = 0;
            assert_ok(ctx, rp_backward_with(ctx, loss, &options));
            assert_string_equal(probes.log, log[i == 0 || !keep]);
            assert_int_equal(saved_bytes(ctx), keep ? 3 * BYTES : 0);
        }
        rp_forget(ctx);
        rp_tensor_drop_grad(x);
        rp_tensor_unref(loss);
    }
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- no more than is needed ---- */

static rp_status with_a_tail(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *h = probe(ctx, "square", 1, in[0]), *dead;

    (void)user;
    dead   = probe(ctx, "square", 5, h);         /* nobody uses it */
    out[0] = then_probe(ctx, "square", 2, h);
    out[0] = then_probe(ctx, "twice", 3, out[0]);
    out[0] = then_probe(ctx, "twice", 4, out[0]);
    rp_tensor_unref(dead);
    return RP_OK;
}

static void calls_behind_the_last_value_that_is_read_never_run_again(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;

    assert_ok(ctx, rp_checkpoint(ctx, with_a_tail, NULL, &x, NULL, &y));
    assert_ok(ctx, backward_of(ctx, y));
    assert_string_equal(probes.log, "f1 f5 f2 f3 f4 b4 b3 r1 b2 b1 ");
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* twice, twice, then a logistic, whose backward reads what it made alone. */
static rp_status up_to_a_logistic(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = then_probe(ctx, "logistic", 3, then_probe(ctx, "twice", 2, probe(ctx, "twice", 1, in[0])));
    return RP_OK;
}

static void calls_that_lead_to_nothing_but_a_kept_value_never_run_again(void **state)
{
    (void)state;
    rp_ctx *ctx       = probe_ctx(NULL);
    rp_tensor *x      = drawn(ctx, 1, true), *y;
    rp_policy *policy = NULL;

    for (int kept = 0; kept < 2; kept++) {
        rule_by(ctx, &policy, kept ? "[{ op: logistic, fate: keep }]" : NULL);
        probes.log[0] = 0;
        assert_ok(ctx, rp_checkpoint(ctx, up_to_a_logistic, NULL, &x, NULL, &y));
        assert_ok(ctx, backward_of(ctx, y));
        assert_string_equal(probes.log, kept ? "f1 f2 f3 b3 b2 b1 " : "f1 f2 f3 r1 r2 r3 b3 b2 b1 ");
    }
    rule_by(ctx, &policy, NULL);
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- reading ---- */

static rp_status product_of_itself(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *h = probe(ctx, "square", 1, in[0]);

    (void)user;
    out[0] = call(ctx, "mul", NULL, h, h);
    rp_tensor_unref(h);
    return RP_OK;
}

static void one_call_may_read_a_value_twice(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    values grad[2];

    for (int region = 0; region < 2; region++) {
        if (region) assert_ok(ctx, rp_checkpoint(ctx, product_of_itself, NULL, &x, NULL, &y));
        else assert_ok(ctx, product_of_itself(ctx, NULL, &x, &y));
        assert_ok(ctx, backward_of(ctx, y));
        grad[region] = take_grad(x);
    }
    assert_int_equal(probes.again[1], 1);
    assert_same_values(&grad[1], &grad[0], "the gradient of x^4");
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

typedef struct { int n, saved; int64_t bytes; } listing;

static void list_slot(void *user, const rp_tape_slot *slot)
{
    listing *l = user;

    l->n++;
    l->saved += slot->saved;
    l->bytes += slot->saved ? rp_meta_bytes(&slot->meta) : 0;
}

static void slots_are_listed_without_running_anything(void **state)
{
    (void)state;
    rp_ctx *ctx       = probe_ctx(NULL);
    rp_tensor *x      = drawn(ctx, 1, true), *y;
    rp_policy *policy = NULL;
    listing l         = { 0 };

    rule_by(ctx, &policy, "[{ op: square, call: 1, fate: keep }]");
    assert_ok(ctx, rp_checkpoint(ctx, four_squares, NULL, &x, NULL, &y));
    rp_mem before = ledger_of(ctx, 0);
    assert_ok(ctx, rp__tape_slots(ctx, list_slot, &l));
    assert_int_equal(l.n, 3);                   /* what 1, 2 and 3 read: 0 reads a leaf */
    assert_int_equal(l.saved, 1);
    assert_int_equal(l.bytes, saved_bytes(ctx));
    assert_int_equal(ledger_of(ctx, 0).live_bytes, before.live_bytes);
    assert_string_equal(probes.log, "f0 f1 f2 f3 ");
    assert_ok(ctx, backward_of(ctx, y));
    rule_by(ctx, &policy, NULL);
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- dtypes ---- */

typedef struct { rp_tensor *w, *narrow_w; } narrow;

/* The narrow copy of w is made by whoever comes first. */
static rp_status in_bf16(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    narrow *n    = user;
    rp_tensor *x = call(ctx, "cast", &(rp_attr_cast){ RP_BF16 }, in[0], NULL);

    if (!n->narrow_w) n->narrow_w = call(ctx, "cast", &(rp_attr_cast){ RP_BF16 }, n->w, NULL);
    rp_tensor *y = call(ctx, "mul", NULL, x, n->narrow_w);
    rp_tensor_unref(x);
    out[0] = then(ctx, "cast", &(rp_attr_cast){ RP_F32 }, then(ctx, "silu", NULL, y));
    return RP_OK;
}

static void casts_are_replayed_as_recorded_also_one_that_another_region_made(void **state)
{
    (void)state;
    rp_ctx *ctx = probe_ctx(NULL);
    narrow n    = { drawn(ctx, 1, true), NULL };
    rp_tensor *x = drawn(ctx, 2, true), *h, *y;
    values grad[2][2];

    for (int region = 0; region < 2; region++) {
        if (region) assert_ok(ctx, rp_checkpoint(ctx, in_bf16, &n, &x, NULL, &h));
        else assert_ok(ctx, in_bf16(ctx, &n, &x, &h));
        if (region) assert_ok(ctx, rp_checkpoint(ctx, in_bf16, &n, &h, NULL, &y));
        else assert_ok(ctx, in_bf16(ctx, &n, &h, &y));
        rp_tensor_unref(h);
        rp_tensor_unref(n.narrow_w);
        n.narrow_w = NULL;
        assert_ok(ctx, backward_of(ctx, y));
        grad[region][0] = take_grad(x);
        grad[region][1] = take_grad(n.w);
    }
    for (int i = 0; i < 2; i++) assert_same_values(&grad[1][i], &grad[0][i], i ? "the weight's gradient" : "the gradient");
    rp_tensor_unref(x);
    rp_tensor_unref(n.w);
    test_ctx_free(ctx);
}

/* ---- between regions ---- */

static rp_status two_squares(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    int *number = user;

    out[0] = then_probe(ctx, "square", *number + 1, probe(ctx, "square", *number, in[0]));
    return RP_OK;
}

/* What the second region reads is call 1, the last of the first. */
static void what_one_region_gives_the_next_meets_any_fate(void **state)
{
    (void)state;
    static const struct { const char *rules; int64_t saved, offload; int again; } cases[] = {
        { NULL, BYTES, 0, 0 },
        { "[{ op: square, call: 1, fate: keep }]", BYTES, 0, 0 },
        { "[{ op: square, call: 1, fate: offload }]", 0, BYTES, 0 },
        { "[{ op: square, call: 1, fate: recompute }]", 0, 0, 1 },
    };
    rp_ctx *ctx       = probe_ctx(NULL);
    rp_tensor *x      = drawn(ctx, 1, true), *h, *y;
    rp_policy *policy = NULL;
    values grad, first;

    assert_ok(ctx, rp_set_offload(ctx, &(rp_offload_options){ .device = "sim" }));
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rule_by(ctx, &policy, cases[i].rules);
        probes.again[1] = 0;
        assert_ok(ctx, rp_checkpoint(ctx, two_squares, &(int){ 0 }, &x, NULL, &h));
        assert_ok(ctx, rp_checkpoint(ctx, two_squares, &(int){ 2 }, &h, NULL, &y));
        rp_tensor_unref(h);
        assert_int_equal(saved_bytes(ctx), cases[i].saved);
        assert_int_equal(ledger_of(ctx, ctx->n_devices - 1).live_bytes, cases[i].offload);
        assert_ok(ctx, backward_of(ctx, y));
        assert_int_equal(probes.again[1], cases[i].again);
        grad = take_grad(x);
        if (i == 0) first = grad;
        assert_same_values(&grad, &first, cases[i].rules ? cases[i].rules : "no rules");
    }
    rule_by(ctx, &policy, NULL);
    assert_ok(ctx, rp_set_offload(ctx, NULL));
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- gradients of gradients ---- */

/* There are none: what is computed from a gradient is not on the record. */
static void a_gradient_is_a_constant_to_what_reads_it(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    int64_t own  = ledger_of(ctx, 0).live_bytes;

    assert_ok(ctx, rp_checkpoint(ctx, four_squares, NULL, &x, NULL, &y));
    assert_ok(ctx, backward_of(ctx, y));
    rp_tensor *norm = call(ctx, "mul", NULL, rp_tensor_grad(x), rp_tensor_grad(x));
    assert_int_equal(backward_of(ctx, norm), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "backward starts from a scalar that was recorded, not from fp32 []");
    rp_tensor_drop_grad(x);
    assert_int_equal(ledger_of(ctx, 0).live_bytes, own);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_waits_for_the_first_reader_and_each_value_goes_with_its_last),
        cmocka_unit_test(a_second_backward_replays_again_unless_replays_are_kept),
        cmocka_unit_test(calls_behind_the_last_value_that_is_read_never_run_again),
        cmocka_unit_test(calls_that_lead_to_nothing_but_a_kept_value_never_run_again),
        cmocka_unit_test(one_call_may_read_a_value_twice),
        cmocka_unit_test(slots_are_listed_without_running_anything),
        cmocka_unit_test(casts_are_replayed_as_recorded_also_one_that_another_region_made),
        cmocka_unit_test(what_one_region_gives_the_next_meets_any_fate),
        cmocka_unit_test(a_gradient_is_a_constant_to_what_reads_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
