/* Claims about choosing slots: who is asked, what an address is, what is stored, and what may be written or read twice. */
#include "bn_mlp.h"
#include "parity/probes.h"

#include <math.h>

/* ---- asking ---- */

typedef struct { int asked; char log[512]; } witness;

static rp_fate write_down(const rp_slot_info *slot, void *user)
{
    witness *w = user;

    w->asked++;
    snprintf(w->log + strlen(w->log), sizeof w->log - strlen(w->log), "%s.%d.%d ", slot->op, slot->call, slot->output);
    return strcmp(slot->op, "logistic") ? RP_NO_FATE : RP_KEEP;
}

static rp_status square_logistic_square(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = then_probe(ctx, "square", 3, then_probe(ctx, "logistic", 2, probe(ctx, "square", 1, in[0])));
    return RP_OK;
}

static void a_policy_is_asked_in_the_first_pass_alone_and_its_answers_serve_every_replay(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y, *loss;
    witness w    = { 0 };
    rp_checkpoint_options options = { .name = NULL };

    assert_ok(ctx, rp_policy_new(ctx, "witness", &options.policy));
    assert_ok(ctx, rp_policy_call(options.policy, write_down, NULL, &w));
    for (int step = 0; step < 3; step++) {
        assert_ok(ctx, rp_checkpoint(ctx, square_logistic_square, NULL, &x, &options, &y));
        loss = total(ctx, y);
        for (int i = 0; i < 2; i++) assert_ok(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = i == 0 }));
        rp_tensor_unref(loss);
        rp_tensor_drop_grad(x);
        assert_string_equal(w.log, "square.0.0 logistic.0.0 square.1.0 ");
    }
    assert_int_equal(probes.again[2], 0);
    rp_policy_free(options.policy);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* Its own transposed and its rows: views, and a product of one of them. */
static rp_status viewing(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *h = probe(ctx, "square", 1, in[0]), *flat, *back, *turned, *whole;

    (void)user;
    assert_ok(ctx, rp_tensor_reshape(h, 1, (int64_t[]){ ELEMS }, &flat));
    assert_ok(ctx, rp_tensor_reshape(flat, 2, (int64_t[]){ ROWS, COLUMNS }, &back));
    assert_ok(ctx, rp_tensor_transpose(back, 0, 1, &turned));
    assert_ok(ctx, rp_tensor_transpose(turned, 0, 1, &whole));
    out[0] = call(ctx, "mul", NULL, whole, h);
    rp_tensor *all[] = { h, flat, back, turned, whole };
    for (int i = 0; i < RP_COUNT(all); i++) rp_tensor_unref(all[i]);
    return RP_OK;
}

static void views_are_neither_asked_about_nor_stored_beside_what_they_show(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *y;
    witness w    = { 0 };
    values grad[2];
    rp_checkpoint_options options = { .name = NULL };

    assert_ok(ctx, rp_policy_new(ctx, "witness", &options.policy));
    assert_ok(ctx, rp_policy_call(options.policy, write_down, NULL, &w));
    for (int region = 0; region < 2; region++) {
        if (region) assert_ok(ctx, rp_checkpoint(ctx, viewing, NULL, &x, &options, &y));
        else assert_ok(ctx, viewing(ctx, NULL, &x, &y));
        assert_int_equal(saved_bytes(ctx), region ? 0 : BYTES);
        assert_ok(ctx, backward_of(ctx, y));
        grad[region] = take_grad(x);
    }
    assert_string_equal(w.log, "square.0.0 mul.0.0 ");
    assert_same_values(&grad[1], &grad[0], "the gradient through views");
    rp_policy_free(options.policy);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- addresses ---- */

static rp_fate second_output_of_the_second_pair(const rp_slot_info *slot, void *user)
{
    (void)user;
    return !strcmp(slot->op, "pair") && slot->call == 1 && slot->output == 1 && !slot->by_product ? RP_KEEP : RP_NO_FATE;
}

/* Two pairs; all four outputs are squared. */
static rp_status two_pairs(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    int *number = user;

    for (int i = 0; i < 2; i++) {
        rp_tensor *both[2];
        assert_ok(ctx, rp_apply(ctx, "pair", number, &in[i], 1, both));
        for (int k = 0; k < 2; k++) out[2 * i + k] = then_probe(ctx, "square", 1, both[k]);
    }
    return RP_OK;
}

static void a_slot_is_addressed_by_op_call_and_output(void **state)
{
    (void)state;
    rp_ctx *ctx      = probe_ctx(NULL);
    rp_tensor *in[2] = { drawn(ctx, 1, true), drawn(ctx, 2, true) }, *out[4], *sum = NULL, *more;
    int number       = 0;
    rp_checkpoint_options options = { .name = NULL };

    assert_ok(ctx, rp_policy_new(ctx, "one slot", &options.policy));
    assert_ok(ctx, rp_policy_call(options.policy, second_output_of_the_second_pair, NULL, NULL));
    assert_ok(ctx, rp_checkpoint(ctx, two_pairs, &number, in, &options, out));
    assert_int_equal(saved_bytes(ctx), BYTES);
    for (int i = 0; i < 4; i++) {
        more = sum ? call(ctx, "add", NULL, sum, out[i]) : rp_tensor_ref(out[i]);
        rp_tensor_unref(sum);
        rp_tensor_unref(out[i]);
        sum = more;
    }
    assert_ok(ctx, backward_of(ctx, sum));
    assert_int_equal(probes.again[0], 2);       /* the second pair for its first output */
    rp_policy_free(options.policy);
    for (int i = 0; i < 2; i++) {
        values got = take_grad(in[i]), x = values_of(in[i]);
        for (int e = 0; e < ELEMS; e++) assert_true(fabs(got.at[e] - 26 * x.at[e]) < 1e-5);      /* d (2x)^2 + (3x)^2 */
        rp_tensor_unref(in[i]);
    }
    test_ctx_free(ctx);
}

/* The same slot of one block out of three, by path: the answer is for it and for nothing else. */
static void a_path_picks_one_module_of_many_alike(void **state)
{
    (void)state;
    enum { OUTPUT_BYTES = BN_ROWS * BN_WIDTH * 4 };
    rp_ctx *ctx       = test_ctx(NULL);
    bn_mlp m          = bn_mlp_new(ctx, &(bn_mlp_options){ 3, 0.1f, RP_F32 });
    rp_policy *policy = NULL;
    rp_tensor *loss;
    int64_t saved[2];

    rp_module_checkpoint(m.root, rp__module_is_type, "Block");
    for (int with = 0; with < 2; with++) {
        rule_by(ctx, &policy, with ? "[{ path: layers.1.linear, op: matmul, fate: keep }]" : NULL);
        assert_ok(ctx, bn_mlp_loss(&m, 0, &loss));
        saved[with] = saved_bytes(ctx);
        rp_tensor_unref(loss);
        rp_forget(ctx);
    }
    assert_int_equal(saved[1] - saved[0], OUTPUT_BYTES);
    rule_by(ctx, &policy, NULL);
    bn_mlp_free(&m);
    test_ctx_free(ctx);
}

/* ---- what is stored ---- */

static rp_status reads_one_of_two(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *both[2];

    assert_ok(ctx, rp_apply(ctx, "pair", user, in, 1, both));
    out[0] = then_probe(ctx, "square", 1, both[0]);
    out[0] = then_probe(ctx, "twice", 2, out[0]);
    rp_tensor_unref(both[1]);
    return RP_OK;
}

static void of_a_kept_op_only_what_a_backward_reads_is_stored(void **state)
{
    (void)state;
    rp_ctx *ctx       = probe_ctx(NULL);
    rp_tensor *x      = drawn(ctx, 1, true), *y;
    rp_policy *policy = NULL;

    rule_by(ctx, &policy, "[{ fate: keep }]");
    assert_ok(ctx, rp_checkpoint(ctx, reads_one_of_two, &(int){ 0 }, &x, NULL, &y));
    assert_int_equal(saved_bytes(ctx), BYTES);          /* pair's first output, which square reads; no second, no square, no twice */
    assert_ok(ctx, backward_of(ctx, y));
    rule_by(ctx, &policy, NULL);
    rp_tensor_drop_grad(x);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

typedef struct { int64_t saved_bytes, peak_bytes, n_replayed; double loss; bn_mlp_values grad; } mlp_outcome;

static mlp_outcome run_mlp(const char *type, const char *rules)
{
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .seed = 5 });
    bn_mlp m          = bn_mlp_new(ctx, &(bn_mlp_options){ 3, 0.5f, RP_F32 });
    rp_policy *policy = NULL;
    rp_tensor *loss;
    rp_tape_stats stats;
    mlp_outcome o;

    memset(&o, 0, sizeof o);
    if (type) rp_module_checkpoint(m.root, rp__module_is_type, (void *)type);
    rule_by(ctx, &policy, rules);
    assert_ok(ctx, bn_mlp_loss(&m, 0, &loss));
    o.saved_bytes = saved_bytes(ctx);
    assert_ok(ctx, rp_tensor_read(loss, &o.loss, 1));
    assert_ok(ctx, rp_backward(ctx, loss));
    bn_mlp_grads(&m, &o.grad);
    o.peak_bytes = ledger_of(ctx, 0).peak_bytes;
    rp__tape_stats(ctx, &stats);
    o.n_replayed = stats.n_replayed;
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(loss);
    bn_mlp_free(&m);
    test_ctx_free(ctx);
    return o;
}

/* Linear layers, batch norm, dropout: everything kept is the step without regions, to the byte and to the bit. */
static void keeping_everything_is_having_no_region(void **state)
{
    (void)state;
    mlp_outcome plain = run_mlp(NULL, NULL), region = run_mlp("Block", NULL);

    assert_true(region.n_replayed > 0 && region.saved_bytes < plain.saved_bytes);
    for (int prefer = 0; prefer < 2; prefer++) {
        mlp_outcome kept = run_mlp("Block", prefer ? "[{ fate: prefer_keep }]" : "[{ fate: keep }]");
        assert_memory_equal(&kept, &plain, sizeof plain);
    }
}

static rp_status gives_its_middle(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = probe(ctx, "square", 1, in[0]);
    out[1] = probe(ctx, "square", 2, out[0]);
    return RP_OK;
}

static void a_kept_slot_that_was_written_is_an_error_unless_its_rule_allows_it(void **state)
{
    (void)state;
    rp_ctx *ctx  = probe_ctx(NULL);
    rp_tensor *x = drawn(ctx, 1, true), *out[2];
    values fives, from = values_of(x);

    for (int e = 0; e < ELEMS; e++) fives.at[e] = 5;
    for (int allowed = 0; allowed < 2; allowed++) {
        rp_checkpoint_options options = { .name = NULL };
        assert_ok(ctx, rp_policy_new(ctx, "mine", &options.policy));
        assert_ok(ctx, rp_policy_rule(options.policy, NULL, "square", (rp_fate)(RP_KEEP | (allowed ? RP_ALLOW_MUTATION : 0))));
        assert_ok(ctx, rp_checkpoint(ctx, gives_its_middle, NULL, &x, &options, out));
        assert_ok(ctx, rp_tensor_write(out[0], fives.at, ELEMS));
        rp_tensor_unref(out[0]);
        assert_int_equal(backward_of(ctx, out[1]), allowed ? RP_OK : RP_ERR_MUTATED);
        rp_policy_free(options.policy);
        if (allowed) break;
        assert_string_equal(rp_error(ctx), "'checkpoint: square output 0' (fp32 [4, 8]) was changed by rp_tensor_write between forward and backward; "
                                           "square of 'checkpoint' reads it");
        rp_tensor_drop_grad(x);
    }
    values got = take_grad(x);
    for (int e = 0; e < ELEMS; e++) assert_true(got.at[e] == (float)(2 * from.at[e] * 10));      /* 2 x, and 2 y with y = 5 */
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

static void a_selective_region_may_be_gone_through_again_and_again(void **state)
{
    (void)state;
    rp_ctx *ctx       = probe_ctx(NULL);
    rp_tensor *x      = drawn(ctx, 1, true), *y, *loss;
    rp_policy *policy = NULL;
    values first, got;

    rule_by(ctx, &policy, "[{ op: logistic, fate: keep }]");
    assert_ok(ctx, rp_checkpoint(ctx, square_logistic_square, NULL, &x, NULL, &y));
    loss = total(ctx, y);
    for (int i = 0; i < 4; i++) {
        assert_ok(ctx, rp_backward_with(ctx, loss, &(rp_backward_options){ .keep_record = true }));
        got = take_grad(x);
        if (i == 0) first = got;
        assert_same_values(&got, &first, "one more backward");
        assert_int_equal(saved_bytes(ctx), BYTES);
    }
    assert_int_equal(probes.again[1] + probes.again[2] + probes.again[3], 0);
    rp_tensor_unref(loss);
    rp_forget(ctx);
    assert_int_equal(saved_bytes(ctx), 0);
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- being wrong ---- */

static rp_status with_an_uneven_op(rp_ctx *ctx, void *user, rp_tensor *const *in, rp_tensor **out)
{
    (void)user;
    out[0] = then_probe(ctx, "uneven", 2, probe(ctx, "square", 1, in[0]));
    for (int i = 3; i < 9; i++) out[0] = then_probe(ctx, "square", i, out[0]);
    return RP_OK;
}

/* Right shape, one wrong value: found under any policy that recomputes it, and reported in a few lines. */
static void a_wrong_value_is_reported_in_ten_lines_under_any_policy(void **state)
{
    (void)state;
    static const char *const rules[] = {
        NULL, "[{ op: square, fate: keep }, { op: uneven, fate: recompute }]", "[{ op: square, every: 2, fate: keep }]",
        "[{ op: uneven, fate: keep }]", "[{ op: square, fate: prefer_offload }]",
    };
    static const char *const says = "a replay differs from the first pass: checkpoint: uneven output 0 (fp32 [4, 8]), first at element 9, [1, 1]\n";
    rp_ctx *ctx       = probe_ctx(NULL);
    rp_tensor *x      = drawn(ctx, 1, true), *y;
    rp_policy *policy = NULL;

    rp_set_verify(ctx, RP_VERIFY_ON);
    for (int i = 0; i < RP_COUNT(rules); i++) {
        bool kept = i == 3;
        int lines = 0;
        rule_by(ctx, &policy, rules[i]);
        assert_ok(ctx, rp_checkpoint(ctx, with_an_uneven_op, NULL, &x, NULL, &y));
        assert_int_equal(backward_of(ctx, y), kept ? RP_OK : RP_ERR_REPLAY);
        rp_tensor_drop_grad(x);
        if (kept) continue;
        if (strncmp(rp_error(ctx), says, strlen(says))) fail_msg("%s says: %s", rules[i], rp_error(ctx));
        for (const char *p = rp_error(ctx); *p; p++) lines += *p == '\n';
        assert_in_range(lines, 3, 9);
    }
    rule_by(ctx, &policy, NULL);
    rp_tensor_unref(x);
    test_ctx_free(ctx);
}

/* ---- the same everywhere ---- */

static void join_slots(void *user, const rp_tape_slot *slot)
{
    char *all = user;

    snprintf(all + strlen(all), 4096 - strlen(all), "%s:%s.%d=%d/%d ", slot->path, slot->op, slot->output, (int)slot->fate, slot->saved);
}

/* Another context, or one on shapes alone: the decisions are a function of the rules and the calls. */
static void contexts_decide_alike(void **state)
{
    (void)state;
    static char all[3][4096];

    for (int i = 0; i < 3; i++) {
        rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = i == 2, .seed = (uint64_t)i });
        bn_mlp m          = bn_mlp_new(ctx, &(bn_mlp_options){ 3, 0.5f, RP_F32 });
        rp_policy *policy = NULL;
        rp_tensor *loss;
        rp_module_checkpoint(m.root, rp__module_is_type, "Block");
        rule_by(ctx, &policy, "[{ op: matmul, every: 2, fate: keep }, { op: relu, larger_than: 100, fate: prefer_keep }]");
        assert_ok(ctx, bn_mlp_loss(&m, 0, &loss));
        assert_ok(ctx, rp__tape_slots(ctx, join_slots, all[i]));
        assert_string_equal(all[i], all[0]);
        rp_tensor_unref(loss);
        rp_forget(ctx);
        rule_by(ctx, &policy, NULL);
        bn_mlp_free(&m);
        test_ctx_free(ctx);
    }
    assert_non_null(strstr(all[0], "layers.1.linear:matmul.0=0/1"));
    assert_non_null(strstr(all[0], "layers.0.linear:matmul.0=1/0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_policy_is_asked_in_the_first_pass_alone_and_its_answers_serve_every_replay),
        cmocka_unit_test(views_are_neither_asked_about_nor_stored_beside_what_they_show),
        cmocka_unit_test(a_slot_is_addressed_by_op_call_and_output),
        cmocka_unit_test(a_path_picks_one_module_of_many_alike),
        cmocka_unit_test(of_a_kept_op_only_what_a_backward_reads_is_stored),
        cmocka_unit_test(keeping_everything_is_having_no_region),
        cmocka_unit_test(a_kept_slot_that_was_written_is_an_error_unless_its_rule_allows_it),
        cmocka_unit_test(a_selective_region_may_be_gone_through_again_and_again),
        cmocka_unit_test(a_wrong_value_is_reported_in_ten_lines_under_any_policy),
        cmocka_unit_test(contexts_decide_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
