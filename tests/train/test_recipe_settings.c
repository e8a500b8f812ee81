/* Claims about recipes: settings, files, and that what is written reads back. */
/* ctest: device-free thread-free */
#include "recipe_test.h"

#define MAX_SETTINGS 80

/* ---- settings and references ---- */

static void settings_change_keys_of_any_depth(void **state)
{
    (void)state;
    static const char *const setting[] = {
        "model={config: c.json}",
        "optimizer.lr=3e-4",
        "optimizer.no_decay=[a, \"b\"]",
        "dataset.path=*.txt",
        "activation_checkpointing.mode=full",
        "model.overrides.num_hidden_layers=2",
        "~max_steps",
        "batch_size=3",
        "batch_size=4",
        "output_dir=x: y # z",
        "tokenizer.path=",
    };
    reading r = read_with(MODEL "max_steps: 10\nactivation_checkpointing:\n", RP_COUNT(setting), setting);

    assert_read(&r);
    assert_null(r.recipe->model.path);
    assert_string_equal(r.recipe->model.config, "c.json");
    assert_true(r.recipe->optimizer.lr == 3e-4);
    assert_int_equal(r.recipe->optimizer.no_decay.n, 2);
    assert_string_equal(r.recipe->dataset.path.first, "*.txt");
    assert_int_equal(r.recipe->activation_checkpointing.mode, RP_MODE_FULL);
    assert_string_equal(rp__yaml_find(r.recipe->model.overrides, "num_hidden_layers")->text, "2");
    assert_false(r.recipe->max_steps.set);
    assert_int_equal(r.recipe->batch_size, 4);
    assert_string_equal(r.recipe->output_dir, "x: y # z");
    assert_null(r.recipe->tokenizer.path);
    end(&r);
}

static void wrong_settings_name_the_argument(void **state)
{
    (void)state;
    assert_error(MODEL, "bach_size=1", "argument 'bach_size=1': unknown key 'bach_size' (did you mean 'batch_size'?)");
    assert_error(MODEL, "~bach_size", "argument '~bach_size': unknown key 'bach_size' (did you mean 'batch_size'?)");
    assert_error(MODEL, "model.path.x=1",
                 "argument 'model.path.x=1': 'model.path' is not a map, so nothing can be set inside it");
    assert_error(MODEL, "batch_size", "argument 'batch_size': not of the form KEY=VALUE or ~KEY");
    assert_error(MODEL, "optimizer.={}", "argument 'optimizer.={}': not of the form KEY=VALUE or ~KEY");
    assert_error(MODEL, "model={path: [}",
                 "argument 'model={path: [}':1: cannot read this as YAML: did not find expected node content");
    reading r = read_one(MODEL, "~memory_budget");
    assert_read(&r);
    end(&r);
}

/* ---- written and read back ---- */

static unsigned draw_state;
static unsigned draw(unsigned n) { return (draw_state = draw_state * 1664525u + 1013904223u) / 65536u % n; }

static const char *draw_text(void)
{
    static const char *const texts[] = {
        "a", "runs/x y", "null", "true",        "~", "a: b",       "#",    "- x",   "*.txt", "\\\"'", "$${seed}", "$$$${x}",
        "$", "$$",       "a$b",  "caf\xC3\xA9", "7", "tab\\there", "auto", "false", "{}",    "[",     "%",        "a,b",
    };

    return texts[draw(RP_COUNT(texts))];
}

static void draw_value(const rp_recipe_key *key, char *out, size_t bytes)
{
    static const char *const conditions[] = {
        "[]",
        "[{path: \"*.mlp\"}]",
        "[{every_k_layers: {k: 2, offset: 1}}, {any: [{not: {layers: [0, 3-4]}}, {module_type: MLP}]}]",
        "[{plugin: {library: \"/x/a b.so\", symbol: f, args: {k: \"$${n}\", l: [1, null]}}}]",
    };
    static const char *const rules[] = { "[]",
                                         "[{op: \"mat*\", larger_than: 1 KiB, fate: must_save}, {fate: prefer_recompute}]" };
    char words[128];
    int n = 0;

    switch (key->type) {
    case KEY_TEXT: snprintf(out, bytes, "\"%s\"", draw(4) ? "plain" : draw_text()); break;
    case KEY_BOOL: snprintf(out, bytes, draw(2) ? "yes" : "false"); break;
    case KEY_INT: case KEY_OPT_INT: snprintf(out, bytes, "%lld", (long long)key->low + draw(60000)); break;
    case KEY_NUMBER:
    case KEY_OPT_NUMBER: snprintf(out, bytes, "%.17g", (draw(65536) + 1) / 65538.0 / (1 + draw(60000))); break;
    case KEY_PAIR: snprintf(out, bytes, "[%.17g, 0]", draw(65536) / 65537.0); break;
    case KEY_TEXTS: snprintf(out, bytes, "[\"%s\", \"%s\"]", draw_text(), draw_text()); break;
    case KEY_FILES: snprintf(out, bytes, draw(2) ? "\"%s\"" : "[\"%s\", b.txt]", draw_text()); break;
    case KEY_TYPES: snprintf(out, bytes, "[MLP, LlamaDecoderLayer]"); break;
    case KEY_MAP: snprintf(out, bytes, "{a: \"%s\", b: {c: [1, %s]}, \"<<\": 2}", draw_text(), "null"); break;
    case KEY_BUDGET: snprintf(out, bytes, draw(2) ? "auto" : "%u.5 MiB", draw(5000)); break;
    case KEY_RESUME: snprintf(out, bytes, draw(2) ? "auto" : "\"%s\"", draw_text()); break;
    case KEY_DURATION: snprintf(out, bytes, "%u%s", 1 + draw(700), (const char *[]){ "s", " min", "h" }[draw(3)]); break;
    case KEY_RESHARD: snprintf(out, bytes, draw(2) ? "no" : "%u", 1 + draw(8)); break;
    case KEY_CONDITIONS: snprintf(out, bytes, "%s", conditions[draw(RP_COUNT(conditions))]); break;
    case KEY_RULES: snprintf(out, bytes, "%s", rules[draw(RP_COUNT(rules))]); break;
    case KEY_WORD:
        snprintf(words, sizeof words, "%s", key->words);
        for (char *p = words; *p; p++) n += *p == ' ';
        n = (int)draw((unsigned)n + 1);
        char *p = words;
        while (n--) p = strchr(p, ' ') + 1;
        p[strcspn(p, " ")] = 0;
        snprintf(out, bytes, "%s", p);
    }
}

static int draw_settings(char text[MAX_SETTINGS][256], const char **setting)
{
    int n = 0;

    for (int i = 0; i < rp__recipe_n_keys; i++) {
        char value[192];
        if (draw(6)) continue;
        draw_value(&rp__recipe_keys[i], value, sizeof value);
        snprintf(text[n], 256, "%s=%s", rp__recipe_keys[i].path, value);
        setting[n] = text[n];
        n++;
    }
    return n;
}

static void a_written_recipe_reads_back_the_same(void **state)
{
    (void)state;
    static char text[MAX_SETTINGS][256];
    const char *setting[MAX_SETTINGS];
    int n_read = 0;

    draw_state = 1;
    for (int round = 0; round < 9000; round++) {
        reading a = read_with("", draw_settings(text, setting), setting);
        if (a.status == RP_OK) {
            char *first = written(&a);
            reading b   = read_with(first, 0, NULL);
            assert_read(&b);
            char *second = written(&b);
            assert_string_equal(first, second);
            assert_int_equal(a.recipe->activation_checkpointing.mode, b.recipe->activation_checkpointing.mode);
            assert_int_equal(a.recipe->activation_checkpointing.n_rules, b.recipe->activation_checkpointing.n_rules);
            assert_true(a.recipe->optimizer.lr == b.recipe->optimizer.lr &&
                        a.recipe->memory_budget.bytes == b.recipe->memory_budget.bytes);
            n_read++;
            free(first);
            free(second);
            end(&b);
        }
        end(&a);
    }
    assert_true(n_read > 50);
}

/* ---- files ---- */

static void a_recipe_that_cannot_be_opened_or_read_is_reported(void **state)
{
    (void)state;
    static const struct { const char *path; rp_status status; const char *says; } cases[] = {
        { "/nowhere/r.yaml", RP_ERR_CONFIG, "cannot open '/nowhere/r.yaml': No such file or directory" },
        { "/dev/null/r.yaml", RP_ERR_CONFIG, "cannot open '/dev/null/r.yaml': Not a directory" },
        { "/proc", RP_ERR_IO, "cannot read '/proc': Is a directory" },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_recipe *recipe = NULL, *wrong = NULL;
        rp_report report;
        rp__report_open(&report, ctx);
        assert_int_equal(rp__recipe_load(ctx, cases[i].path, 0, NULL, &report, &recipe), cases[i].status);
        assert_string_equal(rp_error(ctx), cases[i].says);
        assert_int_equal(rp__recipe_load_with_errors(ctx, cases[i].path, 0, NULL, 0, &report, &wrong), cases[i].status);
        assert_string_equal(rp_error(ctx), cases[i].says);
        assert_true(!recipe && !wrong && !report.n_errors);
        rp__report_close(&report);
    }
    test_ctx_free(ctx);
}

/* ---- memory ---- */

static void a_refused_allocation_anywhere_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *text = "model: {path: m}\noutput_dir: x${seed}\nac_variant: full_activation_checkpointing\nbad: 1\n"
                       "optimizer: {no_decay: [a, b]}\n";
    int64_t k = 1;

    for (;; k++) {
        rp_ctx *ctx       = test_ctx(&(rp_ctx_options){ .shapes_only = true });
        rp_recipe *recipe = NULL;
        rp_report report;
        rp__report_open(&report, ctx);
        ctx->fault_countdown = k;
        rp_status status = rp__recipe_read(ctx, "r.yaml", text, (int64_t)strlen(text), 0, NULL, &report, &recipe);
        bool fired       = ctx->fault_countdown == 0;
        assert_null(recipe);
        assert_int_equal(status, fired ? RP_ERR_MEMORY : RP_ERR_CONFIG);
        rp__report_close(&report);
        test_ctx_free(ctx);
        if (!fired) break;
    }
    assert_true(k > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_change_keys_of_any_depth),
        cmocka_unit_test(wrong_settings_name_the_argument),
        cmocka_unit_test(a_written_recipe_reads_back_the_same),
        cmocka_unit_test(a_recipe_that_cannot_be_opened_or_read_is_reported),
        cmocka_unit_test(a_refused_allocation_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
