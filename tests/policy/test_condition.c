/* Claims about conditions: what they hold for, of modules and of slots, and how a program's text is refused. */
/* ctest: device-free thread-free */
#include "policy_test.h"

#include "policy/policy.h"

static void a_condition_holds_for_the_modules_it_says(void **state)
{
    (void)state;
    static const struct { const char *text, *holds_for; } cases[] = {
        { "{ every_k_layers: { k: 2 } }", "layers.1 layers.3" },
        { "{ every_k_layers: { k: 2, offset: 1 } }", "layers.0 layers.2" },
        { "{ every_k_layers: 4 }", "layers.3" },
        { "{ layers: [0, 2-3] }", "layers.0 layers.2 layers.3" },
        { "{ layers: { list: [1] } }", "layers.1" },
        { "{ module_type: Norm }", "norm" },
        { "{ module_type: [GPT2Block, Embedding] }", "tok_embeddings layers.0 layers.1 layers.2 layers.3" },
        { "{ path: layers.1 }", "layers.1" },
        { "{ path: '*.mlp' }", "layers.0.mlp layers.1.mlp layers.2.mlp layers.3.mlp" },
        { "{ path: files.blocks.2.attn.q }", "layers.2.attn.q" },
        { "{ any: [{ path: norm }, { layers: [0] }] }", "layers.0 norm" },
        { "{ all: [{ path: '*.2.*' }, { module_type: Linear }] }", "layers.2.attn.q layers.2.attn.output layers.2.mlp.up" },
        { "{ all: [{ path: 'layers*' }, { not: { path: '*.*.*' } }, { not: { layers: [0] } }] }", "layers.1 layers.2 layers.3" },
    };
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_module *root = tree_new(ctx);

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_condition *c;
        char held[512] = "";
        assert_ok(ctx, rp_condition_read(ctx, cases[i].text, &c));
        for (rp_module *m = root; m; m = rp__module_next(root, m))
            if (rp_condition_holds(m->path, m, c))
                snprintf(held + strlen(held), sizeof held - strlen(held), "%s%s", held[0] ? " " : "", m->path);
        assert_string_equal(held, cases[i].holds_for);
        rp_condition_free(c);
    }
    rp__module_free(root);
    test_ctx_free(ctx);
}

/* The rule { condition, fate: keep } answers keep. */
static bool rule_holds(rp_ctx *ctx, const char *condition, const rp_slot_info *slot)
{
    char text[RP_MODULE_PATH_CHARS + 64];
    rp_policy *policy;
    rp_answer answer;

    snprintf(text, sizeof text, "[{ %s, fate: keep }]", condition);
    assert_ok(ctx, rp_policy_read(ctx, "test", text, &policy));
    assert_ok(ctx, rp__policy_ask(ctx, policy, slot, &answer));
    rp_policy_free(policy);
    return answer.fate == RP_KEEP;
}

static void a_condition_holds_for_slots_of_its_modules_and_of_all_under_them(void **state)
{
    (void)state;
    static const struct { const char *condition, *path, *op; bool with_module, without; } cases[] = {
        { "path: layers.1", "layers.1", "add", true, true },
        { "path: layers.1", "layers.1.attn.q", "matmul", true, true },
        { "path: layers.1", "layers.11.attn.q", "matmul", false, false },
        { "path: layers", "layers.1.attn.q", "matmul", true, true },
        { "path: '*.mlp'", "layers.1.mlp.up", "matmul", true, true },
        { "path: '*.mlp'", "layers.1.attn.q", "matmul", false, false },
        { "path: files.blocks.1.attn", "layers.1.attn.q", "matmul", true, false },
        { "path: files.blocks.1.attn", "layers.2.attn.q", "matmul", false, false },
        { "type: Attention", "layers.1.attn.q", "matmul", true, false },
        { "type: [Attention, MLP]", "layers.1.mlp", "swiglu", true, false },
        { "type: MLP", "layers.1.attn", "attention", false, false },
        { "layers: [1]", "layers.1.attn.q", "matmul", true, true },
        { "layers: [1]", "layers.2.attn.q", "matmul", false, false },
        { "every_k_layers: 2", "layers.3.mlp.up", "matmul", true, true },
        { "every_k_layers: 2", "norm", "rmsnorm", false, false },
        { "op: matmul", "norm", "matmul", true, true },
        { "op: mat*, path: '*.attn'", "layers.0.attn.q", "matmul", true, true },
        { "op: mat*, path: '*.attn'", "layers.0.mlp.up", "matmul", false, false },
        { "not: { op: matmul }", "norm", "rmsnorm", true, true },
        { "not: { path: layers.0 }", "layers.0.attn", "rotary", false, false },
        { "any: [{ op: add }, { path: norm }]", "norm", "rmsnorm", true, true },
        { "all: [{ op: add }, { path: norm }]", "norm", "rmsnorm", false, false },
        { "larger_than: 1023", "", "add", true, true },
        { "larger_than: 1 KiB", "", "add", false, false },
        { "cheaper_than_flops: 1001", "", "add", true, true },
        { "cheaper_than_flops: 1e3", "", "add", false, false },
        { "call: 0", "", "add", true, true },
        { "call: 1", "", "add", false, false },
    };
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_module *root = tree_new(ctx);

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_slot_info in_tree = tree_slot(root, cases[i].path, cases[i].op), alone = tree_slot(NULL, cases[i].path, cases[i].op);
        if (rule_holds(ctx, cases[i].condition, &in_tree) != cases[i].with_module ||
            rule_holds(ctx, cases[i].condition, &alone) != cases[i].without)
            fail_msg("'%s' of '%s' %s", cases[i].condition, cases[i].path, cases[i].op);
    }
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void a_path_as_long_as_paths_may_be_is_one_of_its_modules(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    char module[RP_MODULE_PATH_CHARS], slot[RP_MODULE_PATH_CHARS], text[RP_MODULE_PATH_CHARS + 16];

    for (int n = 200; n < RP_MODULE_PATH_CHARS - 4; n += n < 260 ? 1 : 50) {
        memset(module, 'm', (size_t)n);
        module[n] = 0;
        snprintf(slot, sizeof slot, "%.*s.1.q", n, module);
        snprintf(text, sizeof text, "path: %.*s.1", n, module);
        rp_slot_info alone = tree_slot(NULL, slot, "matmul");
        if (!rule_holds(ctx, text, &alone) || !rule_holds(ctx, "layers: [1]", &alone)) fail_msg("a path of %d characters", n);
        module[n - 1] = 0;
        snprintf(text, sizeof text, "path: %.*s", n, module);
        if (rule_holds(ctx, text, &alone)) fail_msg("the beginning of a path of %d characters", n);
    }
    test_ctx_free(ctx);
}

/* Two lists of blocks in one model: a recipe's conditions count its own. */
static void blocks_are_those_of_the_list(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_condition *c;

    assert_ok(ctx, rp_condition_read(ctx, "{ any: [{ layers: [1] }] }", &c));
    assert_true(rp__condition_holds_for_module(c, "encoder.layers.1", NULL));
    assert_true(rp__condition_holds_for_module(c, "decoder.layers.1", NULL));
    assert_false(rp__condition_holds_for_module(c, "decoder.layers.1.mlp", NULL));
    rp__condition_in_list(c, "decoder.layers");
    assert_false(rp__condition_holds_for_module(c, "encoder.layers.1", NULL));
    assert_true(rp__condition_holds_for_module(c, "decoder.layers.1", NULL));
    rp__condition_in_list(c, "*.layers");
    assert_true(rp__condition_holds_for_module(c, "encoder.layers.1", NULL));
    assert_false(rp__condition_holds_for_module(c, "layers.1", NULL));
    rp_condition_free(c);
    test_ctx_free(ctx);
}

static void texts_that_say_nothing_are_refused_with_one_sentence(void **state)
{
    (void)state;
    static const struct { const char *text, *error; } cases[] = {
        { "{ paht: norm }", "condition:1: unknown condition 'paht' (did you mean 'path'?)" },
        { "norm", "condition:1: 'conditions' wants conditions such as { path: \"*.mlp\" }, not 'norm'" },
        { "", "condition:1: 'conditions' wants conditions such as { path: \"*.mlp\" }, not a map" },
        { "{ op: matmul }", "condition:1: 'op' is a condition on slots, which only rules may have" },
        { "{ every: 2 }", "condition:1: 'every' is a condition on slots, which only rules may have" },
        { "{ any: [{ path: a }, { path: {} }, { layers: [b] }] }", "condition:1: 'path' needs the field 'glob' (and 1 more)" },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_condition *c = NULL;
        assert_int_equal(rp_condition_read(ctx, cases[i].text, &c), RP_ERR_CONFIG);
        assert_string_equal(rp_error(ctx), cases[i].error);
        assert_null(c);
    }
    rp_condition_free(NULL);
    test_ctx_free(ctx);
}

static void each_failing_allocation_of_a_condition_is_reported(void **state)
{
    (void)state;
    static const char text[] = "{ any: [{ path: model.norm }, { layers: [0, 2-3] }, { module_type: [MLP, Norm] }] }";
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_condition *c = NULL;
    test_faults f   = { 0 };

    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp_condition_read(ctx, text, &c))) assert_null(c);
    }
    assert_true(f.failed > 0);
    rp_condition_free(c);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_condition_holds_for_the_modules_it_says),
        cmocka_unit_test(a_condition_holds_for_slots_of_its_modules_and_of_all_under_them),
        cmocka_unit_test(a_path_as_long_as_paths_may_be_is_one_of_its_modules),
        cmocka_unit_test(blocks_are_those_of_the_list),
        cmocka_unit_test(texts_that_say_nothing_are_refused_with_one_sentence),
        cmocka_unit_test(each_failing_allocation_of_a_condition_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
