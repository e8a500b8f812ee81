/* Claims about conditions in libraries: they get their arguments, and a missing library or symbol is reported. */
#include "policy_test.h"

#include "policy/policy.h"

#define RULES "{ plugin: { library: " RP_PLUGIN_LIBRARY ", symbol: every_kth"

static void held_modules(const char *text, const char *wanted)
{
    rp_ctx *ctx     = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_module *root = tree_new(ctx);
    char held[256]  = "";
    rp_condition *c;

    assert_ok(ctx, rp_condition_read(ctx, text, &c));
    for (rp_module *m = root; m; m = rp__module_next(root, m))
        if (rp_condition_holds(m->path, m, c)) snprintf(held + strlen(held), sizeof held - strlen(held), " %s", m->path);
    assert_string_equal(held, wanted);
    rp_condition_free(c);
    rp__module_free(root);
    test_ctx_free(ctx);
}

static void a_plugin_is_asked_about_modules_with_its_arguments(void **state)
{
    (void)state;
    held_modules(RULES ", args: { k: 3 } } }", " layers.0 layers.3");
    held_modules(RULES " } }", " layers.0 layers.2");
    held_modules(RULES ", args: { k: many } } }", " layers.0 layers.2");
    held_modules("{ all: [{ module_type: TransformerBlock }, { not: " RULES " } } }] }", " layers.1 layers.3");
}

static int fate_of(const char *args, const char *op)
{
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_slot_info slot = tree_slot(NULL, "layers.1.mlp.up", op);
    rp_policy *policy;
    rp_answer answer;
    char text[512];

    snprintf(text, sizeof text, "[" RULES ", args: %s }, fate: keep }]", args);
    assert_ok(ctx, rp_policy_read(ctx, "r", text, &policy));
    assert_ok(ctx, rp__policy_ask(ctx, policy, &slot, &answer));
    rp_policy_free(policy);
    test_ctx_free(ctx);
    return answer.fate;
}

static void a_plugin_in_a_rule_is_asked_about_slots(void **state)
{
    (void)state;
    assert_int_equal(fate_of("{}", "matmul"), RP_KEEP);
    assert_int_equal(fate_of("{ op: add }", "matmul"), RP_NO_FATE);
    assert_int_equal(fate_of("{ op: add }", "add"), RP_KEEP);
    assert_int_equal(fate_of("{ below: 1023.5 }", "matmul"), RP_NO_FATE);
    assert_int_equal(fate_of("{ below: \"1\" }", "matmul"), RP_KEEP);
}

static void what_is_not_there_is_reported_with_library_and_symbol(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_condition *c   = NULL;
    rp_policy *policy = NULL;
    char wanted[1024];

    assert_int_equal(rp_condition_read(ctx, "{ plugin: { library: " RP_PLUGIN_LIBRARY ", symbol: ever_kth } }", &c), RP_ERR_MATCH);
    assert_string_equal(rp_error(ctx), "condition:1: the library '" RP_PLUGIN_LIBRARY "' has no function 'ever_kth'");
    assert_int_equal(rp_policy_read(ctx, "r", "\n- { plugin: { library: ./absent.so, symbol: f }, fate: keep }", &policy), RP_ERR_MATCH);
    char *folder = realpath(".", NULL);
    snprintf(wanted, sizeof wanted, "r:2: cannot open the library '%s/absent.so' for 'f': cannot open shared object file: "
             "No such file or directory", folder);
    free(folder);
    assert_string_equal(rp_error(ctx), wanted);
    assert_null(c);
    assert_null(policy);
    test_ctx_free(ctx);
}

static void no_arguments_are_the_fallbacks(void **state)
{
    (void)state;
    const rp_args none = { NULL };

    assert_int_equal(rp_args_int(NULL, "k", 3), 3);
    assert_true(rp_args_number(&none, "k", 0.5) == 0.5);
    assert_string_equal(rp_args_text(&none, "k", "x"), "x");
}

static void arguments_are_read_as_they_are_written(void **state)
{
    (void)state;
    static const char text[] = "{few: -3, most: 9223372036854775807, least: -9223372036854775808, size: 2KiB, share: -0.25, word: w, list: [1]}";
    rp_ctx *ctx        = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_yaml_doc doc    = { .bump = { .ctx = ctx } };
    rp_yaml_node *root = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__yaml_parse(&doc, "args", text, (int64_t)strlen(text), &report, &root));
    const rp_args args = { root };
    assert_int_equal(rp_args_int(&args, "few", 7), -3);
    assert_true(rp_args_int(&args, "most", 7) == INT64_MAX && rp_args_int(&args, "least", 7) == INT64_MIN);
    assert_int_equal(rp_args_int(&args, "size", 7), 2048);
    assert_int_equal(rp_args_int(&args, "word", 7), 7);
    assert_int_equal(rp_args_int(&args, "list", 7), 7);
    assert_true(rp_args_number(&args, "share", 7) == -0.25 && rp_args_number(&args, "few", 7) == -3 && rp_args_number(&args, "word", 7) == 7);
    assert_string_equal(rp_args_text(&args, "word", "x"), "w");
    assert_string_equal(rp_args_text(&args, "list", "x"), "x");
    rp__bump_free(&doc.bump);
    rp__report_close(&report);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugin_is_asked_about_modules_with_its_arguments),
        cmocka_unit_test(a_plugin_in_a_rule_is_asked_about_slots),
        cmocka_unit_test(what_is_not_there_is_reported_with_library_and_symbol),
        cmocka_unit_test(no_arguments_are_the_fallbacks),
        cmocka_unit_test(arguments_are_read_as_they_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
