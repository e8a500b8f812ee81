/* Claims about comparing replays with the first pass: a difference is an error that names op, module, slot and element. */
#include "tape/fates.h"

enum { ROWS = 6, COLUMNS = 8, WRONG = 19 };

static bool misbehaves;

/* silu, but for one element of a replay. */
static void wrong_forward(const rp_op_call *c)
{
    rp__op_find("silu")->forward(c);
    if (misbehaves && c->replaying) rp_elem_put(c->out[0], WRONG, 1 + rp_elem_get(c->out[0], WRONG));
}

typedef struct { rp_op wrong; rp_tensor *x, *w; rp_scope scope[3]; } verify_case;

static verify_case case_new(rp_ctx *ctx)
{
    verify_case c = { *rp__op_find("silu"), new_param(ctx, RP_F32, ROWS, COLUMNS, 1, 1, "x"), new_param(ctx, RP_F32, COLUMNS, COLUMNS, 1, 2, "w"),
                      { { .path = "layers.0.up" }, { .path = "layers.0.act" }, { .path = "layers.0.down" } } };

    c.wrong.name    = "own_silu";
    c.wrong.forward = wrong_forward;
    return c;
}

static void case_free(verify_case *c)
{
    rp_tensor_unref(c->x);
    rp_tensor_unref(c->w);
}

static rp_tensor *under(rp_ctx *ctx, rp_scope *scope, const rp_op *op, const void *attr, rp_tensor *x, rp_tensor *w)
{
    rp_tensor *y = NULL;

    rp__tape_ctx(ctx)->scope = scope;
    assert_ok(ctx, rp__apply(ctx, op, attr, (rp_tensor *[]){ x, w }, w ? 2 : 1, &y));
    rp__tape_ctx(ctx)->scope = NULL;
    return y;
}

/* down(own_silu(up x)) in a region, or without. */
static rp_status step(rp_ctx *ctx, verify_case *c, bool region)
{
    const rp_attr_matmul linear = { true };

    rp_pass_begin(ctx, ctx->step, 0);
    if (region) assert_ok(ctx, rp__region_begin(ctx, "layers.0"));
    rp_tensor *up = under(ctx, &c->scope[0], rp__op_find("matmul"), &linear, c->x, c->w);
    rp_tensor *act = under(ctx, &c->scope[1], &c->wrong, NULL, up, NULL);
    rp_tensor *down = under(ctx, &c->scope[2], rp__op_find("matmul"), &linear, act, c->w);
    if (region) assert_ok(ctx, rp__region_end(ctx));
    rp_tensor *loss  = sum_all(ctx, down);
    rp_status status = rp_backward(ctx, loss);
    rp_tensor_unref(up);
    rp_tensor_unref(act);
    rp_tensor_unref(down);
    rp_tensor_unref(loss);
    rp_tensor_drop_grad(c->x);
    rp_tensor_drop_grad(c->w);
    return status;
}

static void a_replay_that_differs_is_named_to_the_element(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    verify_case c = case_new(ctx);
    int64_t own   = ledger(ctx).live_bytes;
    int lines     = 1;

    rp_set_verify(ctx, RP_VERIFY_ON);
    misbehaves = false;
    assert_ok(ctx, step(ctx, &c, true));
    misbehaves = true;
    assert_int_equal(step(ctx, &c, true), RP_ERR_REPLAY);
    assert_string_equal(rp_error(ctx),
                        "a replay differs from the first pass: layers.0.act: own_silu output 0 (fp32 [6, 8]), first at element 19, [2, 3]\n"
                        "        0  matmul               layers.0.up                                      the same\n"
                        "  >     1  own_silu             layers.0.act                                     differs\n"
                        "        2  matmul               layers.0.down                                    not replayed\n"
                        "        3  sum                                                                   not replayed");
    for (const char *p = rp_error(ctx); *p; p++) lines += *p == '\n';
    assert_in_range(lines, 2, 10);
    assert_int_equal(ledger(ctx).live_bytes, own);
    misbehaves = false;
    assert_ok(ctx, step(ctx, &c, true));
    case_free(&c);
    test_ctx_free(ctx);
}

static void slots_recomputed_without_a_region_are_compared_too(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    verify_case c = case_new(ctx);
    fates f       = { .op = { "own_silu" }, .fate = { RP_RECOMPUTE } };

    misbehaves = true;
    rp_set_verify(ctx, RP_VERIFY_ON);
    fates_use(ctx, &f);
    assert_int_equal(step(ctx, &c, false), RP_ERR_REPLAY);
    f.fate[0] = RP_KEEP;        /* a kept value is not recomputed, so nothing differs */
    assert_ok(ctx, step(ctx, &c, true));
    case_free(&c);
    test_ctx_free(ctx);
}

static void the_contexts_word_overrules_every_other(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    verify_case c = case_new(ctx);

    misbehaves = true;
    rp_set_verify(ctx, RP_VERIFY_DEFER);
    assert_ok(ctx, step(ctx, &c, true));                       /* nobody asked for it */
    rp__tape_ctx(ctx)->verify = RP_TAPE_VERIFY_ALWAYS;
    assert_int_equal(step(ctx, &c, true), RP_ERR_REPLAY);
    rp_set_verify(ctx, RP_VERIFY_OFF);
    assert_ok(ctx, step(ctx, &c, true));
    rp_set_verify(ctx, RP_VERIFY_ON);
    rp__tape_ctx(ctx)->verify = RP_TAPE_VERIFY_NEVER;
    assert_int_equal(step(ctx, &c, true), RP_ERR_REPLAY);
    case_free(&c);
    test_ctx_free(ctx);
}

static void the_environment_sets_what_a_context_starts_with(void **state)
{
    (void)state;
    static const struct { const char *word; rp_verify verify; } words[] = {
        { "on", RP_VERIFY_ON }, { "off", RP_VERIFY_OFF }, { "defer", RP_VERIFY_DEFER }, { "", RP_VERIFY_DEFER },
    };

    for (int i = 0; i < RP_COUNT(words); i++) {
        setenv("REPRISE_VERIFY", words[i].word, 1);
        rp_ctx *ctx = test_ctx(NULL);
        assert_int_equal(rp__tape_ctx(ctx)->verify_all, words[i].verify);
        test_ctx_free(ctx);
    }
    unsetenv("REPRISE_VERIFY");
}

enum { REGIONS = 3 };

/* A chain of regions, the one of which misbehaves. */
static rp_status chain(rp_ctx *ctx, verify_case *c, int wrong)
{
    rp_tensor *x = rp_tensor_ref(c->x), *y;

    for (int i = 0; i < REGIONS; i++) {
        assert_ok(ctx, rp__region_begin(ctx, "part"));
        for (int k = 0; k < 2; k++) {
            y = under(ctx, &c->scope[1], i == wrong ? &c->wrong : rp__op_find("silu"), NULL, x, NULL);
            rp_tensor_unref(x);
            x = y;
        }
        assert_ok(ctx, rp__region_end(ctx));
    }
    rp_tensor *loss  = sum_all(ctx, x);
    rp_status status = rp_backward(ctx, loss);
    rp_tensor_unref(x);
    rp_tensor_unref(loss);
    rp_tensor_drop_grad(c->x);
    return status;
}

static void take_one_back(rp_ctx *ctx, verify_case *c)
{
    rp_tape_mark before = rp__tape_mark(ctx);

    assert_ok(ctx, rp__region_begin(ctx, "in vain"));
    rp_tensor_unref(under(ctx, &c->scope[1], rp__op_find("silu"), NULL, c->x, NULL));
    rp__tape_rewind(ctx, before);
}

/* Those that an error takes back have no turn. */
static void step_compares_one_region_a_step_in_turn(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(NULL);
    verify_case c = case_new(ctx);

    misbehaves = true;
    rp__tape_ctx(ctx)->verify = RP_TAPE_VERIFY_NEVER;
    assert_ok(ctx, chain(ctx, &c, 0));                         /* the tape knows how many there are */
    rp__tape_ctx(ctx)->verify = RP_TAPE_VERIFY_STEP;
    for (int64_t i = 0; i < 4 * REGIONS; i++) {
        for (int wrong = 0; wrong < REGIONS; wrong++) {
            rp_pass_begin(ctx, i, 0);
            if (i >= 2 * REGIONS) take_one_back(ctx, &c);
            assert_int_equal(chain(ctx, &c, wrong), i % REGIONS == wrong ? RP_ERR_REPLAY : RP_OK);
        }
    }
    case_free(&c);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_that_differs_is_named_to_the_element),
        cmocka_unit_test(slots_recomputed_without_a_region_are_compared_too),
        cmocka_unit_test(the_contexts_word_overrules_every_other),
        cmocka_unit_test(the_environment_sets_what_a_context_starts_with),
        cmocka_unit_test(step_compares_one_region_a_step_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
