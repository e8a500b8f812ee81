/* Claims about several policies: what they decide together, how often they are asked, and in which order. */
/* ctest: watched */
#include "policy_test.h"

#include "policy/stack.h"
#include "tape/internal.h"

/* ---- several, as the tape asks them ---- */

static rp_cost hundred(const rp_op_meta *m, rp_pass pass)
{
    (void)m;
    (void)pass;
    return (rp_cost){ .flops = 100 };
}

static const rp_op matmul = { .name = "matmul", .n_out = 1, .cost = hundred }, add = { .name = "add", .n_out = 1 };
static const rp_op attention = { .name = "attention", .n_out = 1, .n_slot = 1 };
static const rp_op effect = { .name = "effect", .n_out = 1, .flags = RP_OP_EFFECT };
static const rp_op effect_left_out = { .name = "effect_left_out", .n_out = 1, .flags = RP_OP_EFFECT | RP_OP_REPLAYS };
static const rp_op route = { .name = "route", .n_out = 1, .flags = RP_OP_DECIDES };
static const rp_op gather = { .name = "gather", .n_out = 1, .flags = RP_OP_COLLECTIVE };

/* The call `at` of a pass: `rows` is its shape. */
static rp_status decide(rp_ctx *ctx, int at, const rp_op *op, const char *path, int64_t rows, rp_verdict *verdict)
{
    const rp_decider *d = &rp__tape_ctx(ctx)->decider;
    rp_op_meta m        = { .ctx = ctx, .op = op, .n_out = op->n_out, .n_slot = op->n_slot };
    rp_scope scope      = { .path = path };

    m.out[0] = m.slot[0] = rp_meta_2d(RP_F32, rows, 4);
    for (int i = 0; i < op->n_out + op->n_slot; i++) verdict[i] = (rp_verdict){ .fate = RP_NO_FATE };
    return d->decide ? d->decide(d->self, at, &m, &scope, verdict) : RP_OK;
}

static rp_verdict decide_one(rp_ctx *ctx, const rp_op *op, const char *path)
{
    rp_verdict verdict[2];

    assert_ok(ctx, decide(ctx, 0, op, path, 2, verdict));
    return verdict[0];
}

static void musts_that_differ_are_an_error_that_names_both(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *recipe = read_policy(ctx, "\n\n- { op: attention, fate: keep }"), *mine;
    rp_verdict verdict[2];

    assert_ok(ctx, rp_policy_new(ctx, "mine", &mine));
    assert_ok(ctx, rp_policy_rule(mine, "layers.0", NULL, RP_RECOMPUTE));
    rp_set_policy(ctx, recipe);
    assert_ok(ctx, rp__policy_push(ctx, mine));
    assert_int_equal(decide(ctx, 0, &attention, "layers.0.attn", 2, verdict), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx),
                        "slot 'layers.0.attn' attention output 0: 'r.yaml:3' says keep, policy 'mine' says recompute");
    assert_int_equal(decide_one(ctx, &matmul, "layers.0.attn").fate, RP_RECOMPUTE);
    assert_int_equal(decide_one(ctx, &attention, "layers.1.attn").fate, RP_KEEP);
    rp__policy_pop(ctx);
    assert_int_equal(decide_one(ctx, &attention, "layers.0.attn").fate, RP_KEEP);
    rp_set_policy(ctx, NULL);
    rp_policy_free(recipe);
    rp_policy_free(mine);
    test_ctx_free(ctx);
}

static void a_must_that_yields_gives_way_to_another_and_beats_preferences(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *recipe = read_policy(ctx, "[{ path: layers.0, fate: keep }, { path: layers.1, fate: prefer_keep }]"), *yields;

    assert_ok(ctx, rp_policy_new(ctx, "yields", &yields));
    assert_ok(ctx, rp_policy_rule(yields, NULL, NULL, RP_RECOMPUTE));
    yields->yields = true;
    for (int inner = 0; inner < 2; inner++) {
        rp_set_policy(ctx, inner ? recipe : yields);
        assert_ok(ctx, rp__policy_push(ctx, inner ? yields : recipe));
        assert_int_equal(decide_one(ctx, &matmul, "layers.0.attn").fate, RP_KEEP);
        assert_int_equal(decide_one(ctx, &matmul, "layers.1.attn").fate, RP_RECOMPUTE);
        assert_int_equal(decide_one(ctx, &matmul, "layers.2.attn").fate, RP_RECOMPUTE);
        assert_true(decide_one(ctx, &matmul, "layers.2.attn").must);
        rp__policy_pop(ctx);
    }
    rp_set_policy(ctx, NULL);
    rp_policy_free(recipe);
    rp_policy_free(yields);
    test_ctx_free(ctx);
}

/* Outer, middle, inner: what they say, and what comes of it. */
static void a_must_beats_preferences_and_of_these_the_innermost_counts(void **state)
{
    (void)state;
    enum { K = RP_KEEP, R = RP_RECOMPUTE, PK = RP_PREFER_KEEP, PR = RP_PREFER_RECOMPUTE, PO = RP_PREFER_OFFLOAD, N = RP_NO_FATE };
    static const struct { int says[3], fate; bool must; const char *by; } cases[] = {
        { { K, PR, N }, K, true, "outer" },     { { PK, R, PO }, R, true, "middle" },       { { PK, PR, K }, K, true, "inner" },
        { { K, N, K }, K, true, "outer" },      { { PK, PR, PO }, RP_OFFLOAD, false, "inner" }, { { PK, PR, N }, R, false, "middle" },
        { { PK, N, N }, K, false, "outer" },    { { N, N, N }, N, false, NULL },
    };
    static const char *const names[] = { "outer", "middle", "inner" };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
        rp_policy *policy[3];
        for (int p = 0; p < 3; p++) {
            assert_ok(ctx, rp_policy_new(ctx, names[p], &policy[p]));
            if (cases[i].says[p] != N) assert_ok(ctx, rp_policy_rule(policy[p], NULL, NULL, (rp_fate)cases[i].says[p]));
            if (p) assert_ok(ctx, rp__policy_push(ctx, policy[p]));
            else rp_set_policy(ctx, policy[p]);
        }
        rp_verdict v = decide_one(ctx, &add, "a");
        assert_int_equal(v.fate, cases[i].fate);
        assert_int_equal(v.must, cases[i].must);
        if (cases[i].by) assert_string_equal(v.by, cases[i].by);
        else assert_null(v.by);
        rp__policy_pop(ctx);
        rp__policy_pop(ctx);
        rp_set_policy(ctx, NULL);
        for (int p = 0; p < 3; p++) rp_policy_free(policy[p]);
        test_ctx_free(ctx);
    }
}

static void what_never_runs_again_is_recomputed_by_no_must_and_no_preference(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *policy = read_policy(ctx, "- { path: a, fate: recompute }\n- { path: b, fate: prefer_recompute }");
    rp_verdict verdict[2];

    rp_set_policy(ctx, policy);
    assert_int_equal(decide(ctx, 0, &effect, "a", 2, verdict), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx),
                        "slot 'a' effect output 0: 'r.yaml:1' says recompute, but effect is never recomputed: it has side effects");
    assert_int_equal(decide(ctx, 0, &gather, "a", 2, verdict), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx),
                        "slot 'a' gather output 0: 'r.yaml:1' says recompute, but gather is never recomputed: it communicates with other ranks");
    assert_int_equal(decide_one(ctx, &effect_left_out, "a").fate, RP_RECOMPUTE);
    assert_int_equal(decide_one(ctx, &effect, "b").fate, RP_NO_FATE);
    assert_int_equal(decide_one(ctx, &gather, "b").fate, RP_NO_FATE);
    assert_int_equal(decide_one(ctx, &effect_left_out, "b").fate, RP_RECOMPUTE);
    rp_set_policy(ctx, NULL);
    rp_policy_free(policy);
    test_ctx_free(ctx);
}

/* "Recompute everything" means all that can be: it is not an error where a decision is among it. */
static void a_decision_is_passed_over_by_whoever_would_recompute_it(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *policy = read_policy(ctx, "- { path: a, fate: recompute }\n- { path: b, fate: prefer_recompute }\n- { path: c, fate: offload }");

    rp_set_policy(ctx, policy);
    assert_int_equal(decide_one(ctx, &route, "a").fate, RP_NO_FATE);
    assert_int_equal(decide_one(ctx, &route, "b").fate, RP_NO_FATE);
    assert_int_equal(decide_one(ctx, &route, "c").fate, RP_OFFLOAD);
    rp_set_policy(ctx, NULL);
    rp_policy_free(policy);
    test_ctx_free(ctx);
}

static void without_a_policy_nobody_decides(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *policy = read_policy(ctx, "[{ fate: keep }]");

    assert_non_null(rp__tape_ctx(ctx)->decider.decide);
    assert_int_equal(decide_one(ctx, &add, "a").fate, RP_NO_FATE);
    rp_policy_free(policy);
    assert_null(rp__tape_ctx(ctx)->decider.decide);
    test_ctx_free(ctx);
}

/* ---- how often, and in which order ---- */

typedef struct { int asked, resets, n_matmul; char log[1024]; rp_slot_info last; } witness;

/* Keeps every second matmul, and writes down what it was asked about. */
static rp_fate every_second_matmul(const rp_slot_info *slot, void *user)
{
    witness *w = user;

    w->asked++;
    w->last = *slot;
    snprintf(w->log + strlen(w->log), sizeof w->log - strlen(w->log), " %s:%s.%d%s", slot->path, slot->op, slot->call,
             slot->by_product ? "s" : "");
    if (strcmp(slot->op, "matmul")) return RP_NO_FATE;
    return w->n_matmul++ % 2 ? RP_KEEP : RP_RECOMPUTE;
}

static void start_again(void *user)
{
    witness *w = user;

    w->resets++;
    w->n_matmul = 0;
}

static rp_fate says_nothing(const rp_slot_info *slot, void *user)
{
    (void)slot, (void)user;
    return RP_NO_FATE;
}

typedef struct { rp_ctx *ctx; rp_policy *policy; witness w; } scene;

static scene *scene_open(bool shapes_only)
{
    scene *s = calloc(1, sizeof *s);

    s->ctx = test_ctx(&(rp_ctx_options){ .shapes_only = shapes_only, .threads = 1 });
    assert_ok(s->ctx, rp_policy_new(s->ctx, "witness", &s->policy));
    assert_ok(s->ctx, rp_policy_call(s->policy, every_second_matmul, start_again, &s->w));
    rp_set_policy(s->ctx, s->policy);
    return s;
}

static void scene_close(scene *s)
{
    rp_set_policy(s->ctx, NULL);
    rp_policy_free(s->policy);
    test_ctx_free(s->ctx);
    free(s);
}

/* A pass of matmul attention matmul matmul add; their fates as letters. */
static void run_pass(scene *s, int64_t rows, int64_t late_rows, const char *fates)
{
    static const struct { const rp_op *op; const char *path; } call[] = {
        { &matmul, "q" }, { &attention, "attn" }, { &matmul, "q" }, { &matmul, "up" }, { &add, "" },
    };
    rp_verdict verdict[2];
    char got[16] = "";

    for (int i = 0; i < RP_COUNT(call); i++) {
        assert_ok(s->ctx, decide(s->ctx, i, call[i].op, call[i].path, i < 3 ? rows : late_rows, verdict));
        got[i] = "kro...-"[verdict[0].fate];
    }
    assert_string_equal(got, fates);
}

static void each_slot_of_a_shape_is_asked_about_once_in_the_order_of_the_calls(void **state)
{
    (void)state;
    scene *s = scene_open(false);

    for (int step = 0; step < 5; step++) run_pass(s, 2, 2, "r-kr-");
    assert_int_equal(s->w.asked, 6);
    assert_int_equal(s->w.resets, 1);
    assert_string_equal(s->w.log, " q:matmul.0 attn:attention.0 attn:attention.0s q:matmul.1 up:matmul.0 :add.0");
    assert_int_equal(s->w.last.meta.dim[0], 2);
    assert_int_equal(s->w.last.bytes, 32);
    assert_int_equal(s->w.last.flops, 0);
    assert_false(s->w.last.is_rehearsal);
    scene_close(s);
}

static void a_rehearsal_is_reported_so(void **state)
{
    (void)state;
    scene *s = scene_open(true);

    run_pass(s, 2, 2, "r-kr-");
    assert_true(s->w.last.is_rehearsal);
    scene_close(s);
}

static void a_new_shape_is_asked_about_after_a_reset_and_answers_alike(void **state)
{
    (void)state;
    scene *s = scene_open(false);

    run_pass(s, 2, 2, "r-kr-");
    run_pass(s, 3, 3, "r-kr-");
    assert_int_equal(s->w.asked, 12);
    assert_int_equal(s->w.resets, 2);
    run_pass(s, 2, 2, "r-kr-");
    run_pass(s, 3, 3, "r-kr-");
    assert_int_equal(s->w.asked, 12);
    scene_close(s);
}

/* A pass that begins as one before and goes on otherwise: the policy must have seen its beginning to answer for the rest. */
static void a_pass_that_leaves_the_known_way_is_asked_from_its_beginning(void **state)
{
    (void)state;
    scene *s = scene_open(false);

    run_pass(s, 2, 2, "r-kr-");
    s->w.n_matmul = 1;
    s->w.log[0]   = 0;
    run_pass(s, 2, 5, "r-kr-");
    assert_int_equal(s->w.resets, 2);
    assert_string_equal(s->w.log, " q:matmul.0 attn:attention.0 attn:attention.0s q:matmul.1 up:matmul.0 :add.0");
    run_pass(s, 2, 5, "r-kr-");
    assert_int_equal(s->w.asked, 12);
    scene_close(s);
}

/* With 2 bits of each hash, and with none, nearly every call meets others that it is not. */
static void no_answer_depends_on_a_hash(void **state)
{
    (void)state;
    for (uint64_t mask = 0; mask < 4; mask += 3) {
        scene *s = scene_open(false);
        rp__policy_hash_mask(s->ctx, mask);
        for (int step = 0; step < 3; step++) {
            run_pass(s, 2, 2, "r-kr-");
            run_pass(s, 3, 3, "r-kr-");
            run_pass(s, 2, 5, "r-kr-");
        }
        assert_int_equal(s->w.asked, 18);
        assert_int_equal(s->w.resets, 3);
        scene_close(s);
    }
}

/* 65,536 calls are known at most: one more, and all are forgotten. */
static void what_was_forgotten_is_asked_about_again(void **state)
{
    enum { PASSES = 13300, AGAIN = 64 };
    (void)state;
    scene *s = scene_open(false);

    for (int rows = 1; rows <= PASSES; rows++) run_pass(s, rows, rows, "r-kr-");
    assert_int_equal(s->w.asked, 6 * PASSES);
    for (int rows = PASSES / 2; rows < PASSES / 2 + AGAIN; rows++) run_pass(s, rows, rows, "r-kr-");
    assert_int_equal(s->w.asked, 6 * (PASSES + AGAIN));
    scene_close(s);
}

static void rules_that_answer_for_no_slot_are_named(void **state)
{
    (void)state;
    scene *s   = scene_open(false);
    char *text = NULL;

    assert_int_equal(rp_policy_idle(s->policy, &text), RP_ERR_STATE);
    assert_string_equal(rp_error(s->ctx), "policy 'witness' has not been asked yet");
    run_pass(s, 2, 2, "r-kr-");
    assert_ok(s->ctx, rp_policy_idle(s->policy, &text));
    assert_null(text);
    assert_ok(s->ctx, rp_policy_rule(s->policy, NULL, "matmull", RP_KEEP));
    assert_ok(s->ctx, rp_policy_rule(s->policy, "up", "matmul", RP_KEEP));
    assert_ok(s->ctx, rp_policy_rule(s->policy, NULL, "add", RP_KEEP));
    assert_ok(s->ctx, rp_policy_call(s->policy, says_nothing, NULL, NULL));
    run_pass(s, 2, 2, "r-krk");
    assert_ok(s->ctx, rp_policy_idle(s->policy, &text));
    assert_string_equal(text, "rule 2 (op 'matmull')\nrule 3 (path 'up', op 'matmul')\nrule 5 (a function)\n");
    rp_release(text);
    scene_close(s);
}

/* A call that fails is repeated, or another call replaces it. */
static void a_call_that_is_taken_back_is_not_seen_twice(void **state)
{
    (void)state;
    scene *s = scene_open(false);
    rp_verdict verdict[2];

    assert_ok(s->ctx, decide(s->ctx, 0, &matmul, "q", 2, verdict));
    assert_int_equal(verdict[0].fate, RP_RECOMPUTE);
    assert_ok(s->ctx, decide(s->ctx, 1, &matmul, "wrong", 9, verdict));
    assert_ok(s->ctx, decide(s->ctx, 1, &matmul, "k", 2, verdict));
    assert_int_equal(verdict[0].fate, RP_KEEP);
    assert_int_equal(s->w.n_matmul, 2);
    scene_close(s);
}

static void a_policy_that_changed_is_asked_again(void **state)
{
    (void)state;
    scene *s = scene_open(false);

    run_pass(s, 2, 2, "r-kr-");
    assert_ok(s->ctx, rp_policy_rule(s->policy, NULL, "add", RP_OFFLOAD));
    run_pass(s, 2, 2, "r-kro");
    assert_int_equal(s->w.resets, 2);
    scene_close(s);
}

/* It is active in a part of the pass alone; calls are numbered by all of the pass. */
static void a_policy_within_is_asked_about_its_own_calls(void **state)
{
    (void)state;
    scene *s = scene_open(false);
    rp_verdict verdict[2];

    rp_set_policy(s->ctx, NULL);
    for (int step = 0; step < 2; step++) {
        assert_ok(s->ctx, decide(s->ctx, 0, &matmul, "q", 2, verdict));
        assert_int_equal(verdict[0].fate, RP_NO_FATE);
        assert_ok(s->ctx, rp__policy_push(s->ctx, s->policy));
        assert_ok(s->ctx, decide(s->ctx, 1, &matmul, "q", 2, verdict));
        assert_int_equal(verdict[0].fate, RP_RECOMPUTE);
        assert_ok(s->ctx, rp__policy_push(s->ctx, s->policy));
        assert_ok(s->ctx, decide(s->ctx, 2, &matmul, "q", 2, verdict));
        assert_int_equal(verdict[0].fate, RP_KEEP);
        rp__policy_pop(s->ctx);
        rp__policy_pop(s->ctx);
    }
    assert_string_equal(s->w.log, " q:matmul.1 q:matmul.2");
    scene_close(s);
}

/* A pass goes on while its policies are freed and others come. Calls that nobody could decide have no number. */
static void what_a_freed_policy_was_asked_about_is_forgotten_in_the_middle_of_a_pass(void **state)
{
    (void)state;
    rp_verdict verdict[2];

    for (int pushed = 0; pushed < 2; pushed++) {
        scene *s = scene_open(false);
        rp_policy *later;
        if (pushed) {
            rp_set_policy(s->ctx, NULL);
            assert_ok(s->ctx, rp__policy_push(s->ctx, s->policy));
        }
        for (int at = 0; at < 3; at++) assert_ok(s->ctx, decide(s->ctx, at, at == 1 ? &attention : &matmul, "q", 2, verdict));
        assert_string_equal(s->w.log, " q:matmul.0 q:attention.0 q:attention.0s q:matmul.1");
        if (pushed) rp__policy_pop(s->ctx);
        else rp_set_policy(s->ctx, NULL);
        rp_policy_free(s->policy);
        assert_null(rp__tape_ctx(s->ctx)->decider.decide);

        witness w = { 0 };
        assert_ok(s->ctx, rp_policy_new(s->ctx, "later", &later));
        assert_ok(s->ctx, rp_policy_call(later, every_second_matmul, start_again, &w));
        assert_false(rp__policy_has_seen(s->ctx, "attention"));
        rp_set_policy(s->ctx, later);
        assert_ok(s->ctx, decide(s->ctx, 5, &matmul, "q", 2, verdict));
        assert_int_equal(verdict[0].fate, RP_RECOMPUTE);
        assert_ok(s->ctx, decide(s->ctx, 6, &matmul, "q", 2, verdict));
        assert_int_equal(verdict[0].fate, RP_KEEP);
        assert_string_equal(w.log, " q:matmul.0 q:matmul.1");
        assert_int_equal(s->w.asked, 4);
        s->policy = later;
        scene_close(s);
    }
}

static void each_failing_allocation_of_a_decision_is_reported(void **state)
{
    (void)state;
    test_faults f = { 0 };

    while (!f.over) {
        rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
        rp_policy *policy = NULL;
        rp_verdict verdict[2];
        test_fault_begin(&f, ctx);
        rp_status status = rp_policy_read(ctx, "r", "[{ path: layers.0, op: matmul, every: 2, fate: keep }]", &policy);
        if (status == RP_OK) rp_set_policy(ctx, policy);
        if (status == RP_OK) status = decide(ctx, 0, &matmul, "layers.0", 2, verdict);
        test_fault_end(&f, status);
        rp_set_policy(ctx, NULL);
        rp_policy_free(policy);
        test_ctx_free(ctx);
    }
    assert_true(f.failed > 0);
}

static void without_memory_no_policy_is_pushed(void **state)
{
    test_faults f = { 0 };

    (void)state;
    while (!f.over) {
        rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
        rp_policy *policy = NULL;
        assert_ok(ctx, rp_policy_read(ctx, "r", "[{ op: matmul, fate: keep }]", &policy));
        test_fault_begin(&f, ctx);
        if (!test_fault_end(&f, rp__policy_push(ctx, policy))) rp__policy_pop(ctx);
        rp_policy_free(policy);
        test_ctx_free(ctx);
    }
    assert_true(f.failed > 0);
}

/* ---- on a tape ---- */

static rp_status run_silu(rp_module *m, rp_tensor *const *in, rp_tensor **out)
{
    if (!m->first_child) return rp_apply(m->ctx, "silu", NULL, in, 1, out);
    return rp__module_call(m->first_child, in, out);
}

static void join_fates(void *user, const rp_tape_slot *slot)
{
    char *all = user;

    snprintf(all + strlen(all), 128 - strlen(all), " %s:%s.%d:%s", slot->path, slot->op, (int)slot->fate, slot->by ? slot->by : "nobody");
}

/* A policy of a module stands within the context's, for as long as the module runs. */
static void a_policy_of_a_module_decides_in_its_forward_alone(void **state)
{
    (void)state;
    static const rp_module_kind kind = { .name = "Part", .forward = run_silu };
    rp_ctx *ctx     = test_ctx(NULL);
    rp_module *root = tree_add(NULL, "", &kind, ctx), *part = tree_add(tree_add(root, "a", &kind, ctx), "b", &kind, ctx);
    rp_meta m       = rp_meta_1d(RP_F32, 4);
    char all[128]   = "";
    rp_policy *outer, *inner;
    rp_tensor *x, *before, *y, *after;

    assert_ok(ctx, rp_policy_new(ctx, "outer", &outer));
    assert_ok(ctx, rp_policy_rule(outer, NULL, NULL, RP_PREFER_KEEP));
    assert_ok(ctx, rp_policy_new(ctx, "inner", &inner));
    assert_ok(ctx, rp_policy_rule(inner, NULL, NULL, RP_PREFER_RECOMPUTE));
    rp_set_policy(ctx, outer);
    rp_module_policy(part->parent, inner);
    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_PARAM, &x));
    assert_ok(ctx, rp_tensor_write(x, (double[]){ 1, 2, 3, 4 }, 4));
    rp_tensor_require_grad(x, true);
    assert_ok(ctx, rp_apply(ctx, "silu", NULL, &x, 1, &before));
    assert_ok(ctx, rp__module_call(root, &before, &y));
    assert_ok(ctx, rp_apply(ctx, "silu", NULL, &y, 1, &after));
    assert_ok(ctx, rp__tape_slots(ctx, join_fates, all));
    assert_string_equal(all, " :silu.0:outer a.b:silu.1:inner");
    rp_tensor_unref(before);
    rp_tensor_unref(y);
    rp_tensor_unref(after);
    rp_forget(ctx);
    rp_tensor_unref(x);
    rp_set_policy(ctx, NULL);
    rp_module_policy(part->parent, NULL);
    rp_policy_free(outer);
    rp_policy_free(inner);
    rp__module_free(root);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(musts_that_differ_are_an_error_that_names_both),
        cmocka_unit_test(a_must_that_yields_gives_way_to_another_and_beats_preferences),
        cmocka_unit_test(a_must_beats_preferences_and_of_these_the_innermost_counts),
        cmocka_unit_test(what_never_runs_again_is_recomputed_by_no_must_and_no_preference),
        cmocka_unit_test(a_decision_is_passed_over_by_whoever_would_recompute_it),
        cmocka_unit_test(without_a_policy_nobody_decides),
        cmocka_unit_test(each_slot_of_a_shape_is_asked_about_once_in_the_order_of_the_calls),
        cmocka_unit_test(a_rehearsal_is_reported_so),
        cmocka_unit_test(a_new_shape_is_asked_about_after_a_reset_and_answers_alike),
        cmocka_unit_test(a_pass_that_leaves_the_known_way_is_asked_from_its_beginning),
        cmocka_unit_test(what_was_forgotten_is_asked_about_again),
        cmocka_unit_test(no_answer_depends_on_a_hash),
        cmocka_unit_test(rules_that_answer_for_no_slot_are_named),
        cmocka_unit_test(a_call_that_is_taken_back_is_not_seen_twice),
        cmocka_unit_test(a_policy_that_changed_is_asked_again),
        cmocka_unit_test(a_policy_within_is_asked_about_its_own_calls),
        cmocka_unit_test(what_a_freed_policy_was_asked_about_is_forgotten_in_the_middle_of_a_pass),
        cmocka_unit_test(each_failing_allocation_of_a_decision_is_reported),
        cmocka_unit_test(without_memory_no_policy_is_pushed),
        cmocka_unit_test(a_policy_of_a_module_decides_in_its_forward_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
