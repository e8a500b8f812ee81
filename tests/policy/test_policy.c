/* Claims about one policy: which of its rules and functions answers, and that a mode is a few of them. */
/* ctest: thread-free */
#include "policy_test.h"

#include "policy/modes.h"
#include "policy/read.h"

/* ---- one policy ---- */

static rp_answer ask(rp_policy *policy, const char *path, const char *op)
{
    rp_slot_info slot = tree_slot(NULL, path, op);
    rp_answer answer;

    assert_ok(policy->ctx, rp__policy_ask(policy->ctx, policy, &slot, &answer));
    return answer;
}

static void the_first_rule_that_matches_decides(void **state)
{
    (void)state;
    static const char rules[] = "- { op: attention, fate: must_save }\n"
                                "- { path: layers.0, op: matmul, fate: recompute }\n"
                                "- { path: layers.0, fate: prefer_cpu_offload }\n"
                                "- { op: matmul, fate: keep }\n";
    static const struct { const char *path, *op; int fate; const char *by; } cases[] = {
        { "layers.0.attn", "attention", RP_KEEP, "r.yaml:1" },
        { "layers.0.attn.q", "matmul", RP_RECOMPUTE, "r.yaml:2" },
        { "layers.0.mlp", "swiglu", RP_PREFER_OFFLOAD, "r.yaml:3" },
        { "layers.1.attn.q", "matmul", RP_KEEP, "r.yaml:4" },
        { "norm", "rmsnorm", RP_NO_FATE, "r.yaml" },
    };
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *policy = read_policy(ctx, rules);

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_answer a = ask(policy, cases[i].path, cases[i].op);
        assert_int_equal(a.fate, cases[i].fate);
        assert_string_equal(a.by, cases[i].by);
    }
    rp_policy_free(policy);
    test_ctx_free(ctx);
}

static void every_spelling_of_a_fate_is_one_of_six(void **state)
{
    (void)state;
    static const struct { const char *name; int fate; } cases[] = {
        { "keep", RP_KEEP }, { "save", RP_KEEP }, { "must_save", RP_KEEP }, { "must_keep", RP_KEEP }, { "recompute", RP_RECOMPUTE },
        { "must_recompute", RP_RECOMPUTE }, { "offload", RP_OFFLOAD }, { "must_offload", RP_OFFLOAD },
        { "must_cpu_offload", RP_OFFLOAD }, { "prefer_keep", RP_PREFER_KEEP }, { "prefer_save", RP_PREFER_KEEP },
        { "prefer_recompute", RP_PREFER_RECOMPUTE }, { "prefer_offload", RP_PREFER_OFFLOAD },
        { "prefer_cpu_offload", RP_PREFER_OFFLOAD }, { "none", RP_NO_FATE },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) assert_int_equal(rp__fate_find(cases[i].name), cases[i].fate);
}

/* `every` counts the slots that the rest of the rule holds for, those that another rule took among them. */
static void every_counts_what_the_rest_of_the_rule_holds_for(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *policy = read_policy(ctx, "- { op: matmul, every: 2, fate: keep }\n"
                                         "- { op: matmul, every: { k: 2, offset: 1 }, fate: recompute }\n"
                                         "- { op: add, every: { k: 3, offset: 2 }, fate: offload }\n");

    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 7; i++) {
            assert_int_equal(ask(policy, "a", "matmul").fate, i % 2 ? RP_KEEP : RP_RECOMPUTE);
            assert_int_equal(ask(policy, "a", "add").fate, i % 3 == 1 ? RP_OFFLOAD : RP_NO_FATE);
        }
        rp__policy_reset(policy);
    }
    rp_policy_free(policy);
    test_ctx_free(ctx);
}

static rp_fate by_op(const rp_slot_info *slot, void *user)
{
    (void)user;
    if (!strcmp(slot->op, "add")) return RP_NO_FATE;
    if (!strcmp(slot->op, "nonsense")) return (rp_fate)42;
    return (rp_fate)(RP_OFFLOAD | RP_ALLOW_MUTATION);
}

static bool is_matmul(const rp_slot_info *slot, void *user)
{
    (void)user;
    return !strcmp(slot->op, "matmul");
}

static void rules_and_functions_of_a_program_answer_in_their_order(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_slot_info nonsense = tree_slot(NULL, "a", "nonsense");
    rp_policy *policy;
    rp_answer answer = { .fate = 77 };

    assert_ok(ctx, rp_policy_new(ctx, "mine", &policy));
    assert_ok(ctx, rp_policy_rule(policy, "layers.*.attn", "mat*", RP_PREFER_KEEP));
    assert_ok(ctx, rp_policy_rule(policy, "norm", NULL, (rp_fate)(RP_KEEP | RP_ALLOW_MUTATION)));
    assert_ok(ctx, rp_policy_call(policy, by_op, NULL, NULL));
    assert_ok(ctx, rp_policy_keep_if(policy, is_matmul, NULL, NULL));
    assert_int_equal(ask(policy, "layers.3.attn.q", "matmul").fate, RP_PREFER_KEEP);
    assert_false(ask(policy, "layers.3.attn.q", "matmul").allow_mutation);
    assert_true(ask(policy, "norm", "rmsnorm").allow_mutation);
    assert_int_equal(ask(policy, "norm", "rmsnorm").fate, RP_KEEP);
    assert_int_equal(ask(policy, "layers.3.mlp", "matmul").fate, RP_OFFLOAD);
    assert_true(ask(policy, "layers.3.mlp", "matmul").allow_mutation);
    assert_int_equal(ask(policy, "layers.3", "add").fate, RP_PREFER_RECOMPUTE);
    assert_string_equal(ask(policy, "layers.3", "add").by, "mine");
    assert_int_equal(rp__policy_ask(ctx, policy, &nonsense, &answer), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "policy 'mine' returned 42 for 'a' nonsense, which is not a fate");
    assert_int_equal(answer.fate, 77);
    assert_int_equal(rp_policy_rule(policy, NULL, NULL, RP_NO_FATE), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "policy 'mine': there is no fate 6");
    rp_policy_free(policy);
    test_ctx_free(ctx);
}

static void texts_that_are_no_rules_are_refused_with_one_sentence(void **state)
{
    (void)state;
    static const struct { const char *text, *error; } cases[] = {
        { "[{ op: matmul }]", "mine:1: a rule needs a 'fate'" },
        { "[{ op: matmul, fate: kep }]", "mine:1: unknown fate 'kep' (did you mean 'keep'?)" },
        { "{ op: matmul, fate: keep }", "mine:1: 'rules' wants a list of rules, not a map" },
        { "\n- { fate: keep, of: x }\n- 3", "mine:2: unknown field of a rule 'of' (did you mean 'op'?) (and 1 more)" },
        { "[{ any: [{ every: 2 }], fate: keep }]", "mine:1: 'every' counts the slots that a rule matches: put it next to the rule's 'fate'" },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_policy *policy = NULL;
        assert_int_equal(rp_policy_read(ctx, "mine", cases[i].text, &policy), RP_ERR_CONFIG);
        assert_string_equal(rp_error(ctx), cases[i].error);
        assert_null(policy);
    }
    rp_policy_free(NULL);
    test_ctx_free(ctx);
}

static void each_failing_allocation_of_rules_is_reported(void **state)
{
    (void)state;
    enum { RULES = 200 };               /* they take many blocks of memory, and any piece of a rule is where one of them ends */
    static const char rules[] =
        "{ path: a.*, op: matmul, larger_than: 1, fate: keep }, { any: [{ layers: [1, 2] }, { module_type: MLP }], every: 2, fate: offload }, ";
    static char text[RULES / 2 * (sizeof rules - 1) + 3] = "[";
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *policy = NULL;
    test_faults f     = { 0 };

    for (int i = 0; i < RULES / 2; i++) memcpy(text + 1 + (size_t)i * (sizeof rules - 1), rules, sizeof rules - 1);
    text[sizeof text - 2] = ']';
    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp_policy_read(ctx, "mine", text, &policy))) assert_null(policy);
    }
    assert_true(f.failed > 3);
    assert_int_equal(policy->n_rules, RULES);
    rp_policy_free(policy);
    test_ctx_free(ctx);
}

/* ---- modes ---- */

static void modes_are_a_few_conditions_and_rules(void **state)
{
    (void)state;
    static const char *const save[] = { "matmul", "attention" };
    static const struct { int mode; int64_t every, offset; const char *regions, *saved_by; } cases[] = {
        { RP_MODE_NONE, 1, 0, "", NULL },
        { RP_MODE_AUTO, 1, 0, "", NULL },
        { RP_MODE_CONDITIONS, 1, 0, "", NULL },
        { RP_MODE_FULL, 1, 0, " layers.0 layers.1 layers.2 layers.3", NULL },
        { RP_MODE_SELECTIVE_LAYER, 2, 0, " layers.1 layers.3", NULL },
        { RP_MODE_SELECTIVE_LAYER, 2, 1, " layers.0 layers.2", NULL },
        { RP_MODE_SELECTIVE_OP, 1, 0, " layers.0 layers.1 layers.2 layers.3", "r.yaml:7" },
    };
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_module *root = tree_new(ctx);

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_mode_input in = { .mode = cases[i].mode, .layers = "layers", .every = cases[i].every, .offset = cases[i].offset,
                             .n_save = 2, .save = save, .save_place = { "r.yaml", 7 } };
        char held[256] = "";
        rp_selection selection;
        assert_ok(ctx, rp__selection_open(ctx, &in, &selection));
        for (rp_module *m = root; m; m = rp__module_next(root, m))
            for (int c = 0; c < selection.n_conditions; c++)
                if (rp_condition_holds(m->path, m, selection.condition[c]))
                    snprintf(held + strlen(held), sizeof held - strlen(held), " %s", m->path);
        assert_string_equal(held, cases[i].regions);
        assert_int_equal(selection.policy != NULL, cases[i].saved_by != NULL);
        if (selection.policy) {
            rp_answer kept = ask(selection.policy, "layers.0.attn", "attention");
            assert_int_equal(kept.fate, RP_KEEP);
            assert_string_equal(kept.by, cases[i].saved_by);
            assert_int_equal(ask(selection.policy, "layers.0.mlp", "swiglu").fate, RP_NO_FATE);
        }
        rp__selection_close(&selection);
    }
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void rules_of_ones_own_go_before_those_of_the_mode(void **state)
{
    (void)state;
    static const char *const save[] = { "matmul" };
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_policy *mine   = read_policy(ctx, "[{ path: layers.0, op: matmul, fate: recompute }]");
    rp_mode_input in  = { .mode = RP_MODE_SELECTIVE_OP, .layers = "layers", .n_save = 1, .save = save, .save_place = { "r.yaml", 0 },
                          .n_rules = mine->n_rules, .rule = mine->rule };
    rp_selection selection;

    assert_ok(ctx, rp__selection_open(ctx, &in, &selection));
    assert_int_equal(ask(selection.policy, "layers.0.mlp.up", "matmul").fate, RP_RECOMPUTE);
    assert_string_equal(ask(selection.policy, "layers.0.mlp.up", "matmul").by, "r.yaml:1");
    assert_int_equal(ask(selection.policy, "layers.1.mlp.up", "matmul").fate, RP_KEEP);
    assert_string_equal(ask(selection.policy, "layers.1.mlp.up", "matmul").by, "r.yaml");
    rp__selection_close(&selection);
    rp__selection_close(&selection);        /* a second time: nothing is left to close */
    rp_policy_free(mine);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_rule_that_matches_decides),
        cmocka_unit_test(every_spelling_of_a_fate_is_one_of_six),
        cmocka_unit_test(every_counts_what_the_rest_of_the_rule_holds_for),
        cmocka_unit_test(rules_and_functions_of_a_program_answer_in_their_order),
        cmocka_unit_test(texts_that_are_no_rules_are_refused_with_one_sentence),
        cmocka_unit_test(each_failing_allocation_of_rules_is_reported),
        cmocka_unit_test(modes_are_a_few_conditions_and_rules),
        cmocka_unit_test(rules_of_ones_own_go_before_those_of_the_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
