/* Claims about recipes: defaults, typing, settings, references, every error at once, and that what is written reads back. */
#include "rp_test.h"

#include <locale.h>

#include "train/recipe_internal.h"

#define MODEL "model: {path: m.gguf}\n"
#define MAX_SETTINGS 80

typedef struct { rp_ctx *ctx; rp_report report; rp_recipe *recipe; rp_status status; } reading;

static reading read_with(const char *text, int n, const char *const *setting)
{
    reading r = { .ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true }) };

    rp__report_open(&r.report, r.ctx);
    r.status = rp__recipe_read(r.ctx, "r.yaml", text, (int64_t)strlen(text), n, setting, &r.report, &r.recipe);
    return r;
}

static reading read_one(const char *text, const char *setting)
{
    return read_with(text, setting ? 1 : 0, &setting);
}

static void end(reading *r)
{
    rp__recipe_free(r->recipe);
    rp__report_close(&r->report);
    test_ctx_free(r->ctx);
}

static const char *line_of(const rp_report_item *item, char out[1024]) { return item ? rp__report_line(item, out, 1024) : "nothing"; }

static void assert_read(const reading *r)
{
    char line[1024];

    if (r->status != RP_OK) fail_msg("refused: %s", line_of(r->report.first, line));
}

/* Some message of the report is exactly this. */
static void assert_told(const reading *r, const char *wanted)
{
    char line[1024], all[8192] = "";

    for (const rp_report_item *item = r->report.first; item; item = item->next) {
        if (!strcmp(line_of(item, line), wanted)) return;
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "\n  %s", line);
    }
    fail_msg("'%s' is missing; told:%s", wanted, all);
}

static void assert_error(const char *text, const char *setting, const char *wanted)
{
    reading r = read_one(text, setting);

    assert_told(&r, wanted);
    assert_int_equal(r.status, RP_ERR_CONFIG);
    assert_null(r.recipe);
    end(&r);
}

static char *written(const reading *r)
{
    rp_bump bump = { .ctx = r->ctx };
    const char *text;

    assert_ok(r->ctx, rp__recipe_write(r->recipe, &bump, &text));
    char *copy = strdup(text);
    rp__bump_free(&bump);
    return copy;
}

/* ---- values ---- */

static void defaults_are_those_of_the_contract(void **state)
{
    (void)state;
    reading r          = read_one(MODEL, NULL);
    const rp_recipe *c = r.recipe;

    assert_read(&r);
    assert_null(r.report.first);
    assert_int_equal(c->max_seq_len, 512);
    assert_int_equal(c->batch_size, 2);
    assert_int_equal(c->dtype, RP_TRAIN_BF16);
    assert_true(c->optimizer.lr == 2e-5 && c->optimizer.eps == 1e-8);
    assert_true(c->optimizer.betas[0] == 0.9 && c->optimizer.betas[1] == 0.95);
    assert_false(c->max_steps.set);
    assert_false(c->clip_grad_norm.set);
    assert_false(c->loss.num_output_chunks.set);
    assert_int_equal(c->loss.ignore_index, -100);
    assert_int_equal(c->memory_budget.kind, RP_BUDGET_NONE);
    assert_int_equal(c->activation_checkpointing.mode, RP_MODE_NONE);
    assert_string_equal(c->activation_checkpointing.layers, "layers");
    assert_int_equal(c->activation_checkpointing.save.n, 3);
    assert_true(c->dataset.packed && c->dataset.train_on_input && c->shuffle);
    assert_false(c->has_dataset_val);
    assert_string_equal(c->output_dir, "runs/default");
    assert_int_equal(c->dist.reshard_after_forward.kind, RP_RESHARD_YES);
    end(&r);
}

static void every_default_is_in_the_form_it_is_written_in(void **state)
{
    (void)state;
    reading r = read_one("model: {config: c.json}\n", NULL);

    assert_read(&r);
    for (int i = 0; i < rp__recipe_n_keys; i++)
        if (strcmp(rp__recipe_keys[i].path, "model.config") && !rp__recipe_is_default(r.recipe, &rp__recipe_keys[i]))
            fail_msg("the default of '%s' is written differently", rp__recipe_keys[i].path);
    assert_int_equal(rp__recipe_unsupported(r.recipe, &r.report), 0);
    end(&r);
}

static void scalars_are_typed_by_the_schema(void **state)
{
    (void)state;
    reading r = read_one("model: {path: no}\nmax_seq_len: 010\noptimizer: {lr: 1e-8, weight_decay: 1}\ndataset: {column: 12, packed: off}\n"
                         "tokenizer: {path: None}\noutput_dir: \"null\"\noptimizer_in_bwd: no\nmemory_budget: 1.5 GiB\nresume: auto\n", NULL);

    assert_read(&r);
    assert_string_equal(r.recipe->model.path, "no");
    assert_int_equal(r.recipe->max_seq_len, 10);
    assert_true(r.recipe->optimizer.lr == 1e-8 && r.recipe->optimizer.weight_decay == 1);
    assert_string_equal(r.recipe->dataset.column, "12");
    assert_false(r.recipe->dataset.packed);
    assert_null(r.recipe->tokenizer.path);
    assert_string_equal(r.recipe->output_dir, "null");
    assert_int_equal(r.recipe->optimizer_in_bwd, RP_NO);
    assert_int_equal(r.recipe->memory_budget.bytes, 1610612736);
    assert_int_equal(r.recipe->activation_checkpointing.mode, RP_MODE_AUTO);
    assert_int_equal(r.recipe->resume.kind, RP_RESUME_AUTO);
    end(&r);
}

static void wrong_values_are_told_with_what_is_wanted(void **state)
{
    (void)state;
    assert_error(MODEL "batch_size: two\n", NULL, "r.yaml:2: 'batch_size' wants a whole number from 1 to 1048576, not 'two'");
    assert_error(MODEL "batch_size: \"2\"\n", NULL, "r.yaml:2: 'batch_size' wants a whole number from 1 to 1048576, not the quoted text '2'");
    assert_error(MODEL "optimizer: {betas: [0.9, 1]}\n", NULL,
                 "r.yaml:2: 'optimizer.betas' wants a list of two numbers from 0 and below 1, not a list");
    assert_error(MODEL "optimizer: {eps: 0}\n", NULL, "r.yaml:2: 'optimizer.eps' wants a number above 0, not '0'");
    assert_error(MODEL "optimizer: {lr: nan}\n", NULL, "r.yaml:2: 'optimizer.lr' wants a number from 0, not 'nan'");
    assert_error(MODEL "shuffle: 1\n", NULL, "r.yaml:2: 'shuffle' wants true or false, not '1'");
    assert_error(MODEL "dtype: fp16\n", NULL, "r.yaml:2: 'dtype' wants bf16 or fp32, not 'fp16'");
    assert_error(MODEL "output_dir:\n", NULL, "r.yaml:2: 'output_dir' wants a text, not nothing");
    assert_error(MODEL "optimizer: {no_decay: norm}\n", NULL, "r.yaml:2: 'optimizer.no_decay' wants a list of texts, not 'norm'");
    assert_error(MODEL "optimizer: sgd\n", NULL, "r.yaml:2: 'optimizer' wants a map, not 'sgd'");
    assert_error(MODEL "activation_checkpointing: true\n", NULL,
                 "r.yaml:2: 'activation_checkpointing' wants a map (the plain switch is 'enable_activation_checkpointing: true'), not 'true'");
    assert_error(MODEL "memory_budget: 8 gigs\n", NULL, "r.yaml:2: 'memory_budget' wants null, auto, or a size: bytes, or a number "
                                                        "with KB, MB, GB, KiB, MiB or GiB, not '8 gigs'");
    assert_error("- 1\n", NULL, "r.yaml:1: a recipe is a map of keys, not a list");
    assert_error("", NULL, "r.yaml: no model: set 'model.path', or 'model.config' for random weights");
}

static void numbers_do_not_hang_on_the_locale(void **state)
{
    (void)state;
    static const char *const locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "C" };

    for (int i = 0; i < RP_COUNT(locales); i++)
        if (setlocale(LC_NUMERIC, locales[i])) break;
    reading r  = read_one(MODEL "optimizer: {lr: 0.1}\n", NULL);
    char *text = written(&r);
    setlocale(LC_NUMERIC, "C");
    assert_true(r.recipe->optimizer.lr == 0.1);
    assert_non_null(strstr(text, "lr: 0.1\n"));
    free(text);
    end(&r);
}

/* ---- keys ---- */

static void unknown_keys_get_the_nearest_name(void **state)
{
    (void)state;
    assert_error(MODEL "bach_size: 2\n", NULL, "r.yaml:2: unknown key 'bach_size' (did you mean 'batch_size'?)");
    assert_error(MODEL "optimizer:\n  wd: 1\n  weight_decy: 1\n", NULL,
                 "r.yaml:4: unknown key 'optimizer.weight_decy' (did you mean 'optimizer.weight_decay'?)");
    assert_error(MODEL "lr: 1\n", NULL, "r.yaml:2: unknown key 'lr' (did you mean 'optimizer.lr'?)");
    assert_error(MODEL "xyzzy: 1\n", NULL, "r.yaml:2: unknown key 'xyzzy'");
    assert_error(MODEL "optimizer.lr: 1\n", NULL, "r.yaml:2: unknown key 'optimizer.lr'; in a file, groups are nested maps");
}

static void all_errors_are_told_at_once_in_the_order_of_lines(void **state)
{
    (void)state;
    const char *setting = "threads=-1";
    reading r           = read_with("batch_size: x\nfoo: 1\nseed: y\nseed: 2\n", 1, &setting);
    int before          = 0;

    assert_int_equal(r.report.n_errors, 6);
    for (const rp_report_item *item = r.report.first; item && item->place.line; item = item->next) {
        assert_true(item->place.line >= before);
        before = item->place.line;
    }
    assert_string_equal(rp_error(r.ctx), "r.yaml:1: 'batch_size' wants a whole number from 1 to 1048576, not 'x' (and 5 more)");
    assert_told(&r, "argument 'threads=-1': 'threads' wants a whole number from 0 to 4096, not '-1'");
    end(&r);
}

static void contradictions_are_errors(void **state)
{
    (void)state;
    static const struct { const char *text, *error; } cases[] = {
        { "optimizer_in_bwd: true\nclip_grad_norm: 1\n",
          "r.yaml:2: 'optimizer_in_bwd' true and 'clip_grad_norm' contradict: the norm is known after backward; unset one, or take "
          "optimizer_in_bwd: auto" },
        { "optimizer_in_bwd: true\ngradient_accumulation_steps: 4\n",
          "r.yaml:2: 'optimizer_in_bwd' true and 'gradient_accumulation_steps' 4 contradict: an update waits for the last micro-batch" },
        { "enable_activation_checkpointing: false\nactivation_checkpointing:\n  mode: full\n",
          "r.yaml:4: 'enable_activation_checkpointing' and 'activation_checkpointing.mode' are both set; the plain switch excludes it" },
        { "enable_activation_checkpointing: true\nactivation_checkpointing:\n  rules: []\n",
          "r.yaml:4: 'enable_activation_checkpointing' and 'activation_checkpointing.rules' are both set; the plain switch excludes it" },
        { "activation_checkpointing:\n  mode: full\n  save: [matmul]\n",
          "r.yaml:4: 'activation_checkpointing.save' has no effect: the mode is full" },
        { "activation_checkpointing: {every: 2}\n", "r.yaml:2: 'activation_checkpointing.every' has no effect: the mode is none" },
        { "activation_checkpointing: {mode: selective_op, offset: 1}\n",
          "r.yaml:2: 'activation_checkpointing.offset' has no effect: the mode is selective_op" },
        { "activation_checkpointing: {mode: none, conditions: [{path: x}]}\n",
          "r.yaml:2: 'activation_checkpointing.conditions' has no effect: the mode is none" },
        { "activation_checkpointing: {layers: blocks}\n", "r.yaml:2: 'activation_checkpointing.layers' has no effect: the mode is none" },
        { "run_val_every_n_steps: 5\n", "r.yaml:2: 'run_val_every_n_steps' needs 'dataset_val'" },
        { "dataset: {packed: false, cross_documents: true}\n",
          "r.yaml:2: 'dataset.cross_documents' true and 'dataset.packed' false contradict: only packed samples hold several documents" },
    };
    char text[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "%s", cases[i].text);
        assert_error(text, NULL, cases[i].error);
    }
    assert_error("model: {path: a, config: b}\n", NULL, "r.yaml:1: 'model.path' and 'model.config' are both set; keep one");
}

static void the_mode_follows_switch_budget_and_conditions(void **state)
{
    (void)state;
    static const struct { const char *text; int mode; } cases[] = {
        { "enable_activation_checkpointing: true\n", RP_MODE_FULL },
        { "enable_activation_checkpointing: true\nmemory_budget: 1GiB\nactivation_checkpointing: {verify: step, offload: {to: disk}}\n", RP_MODE_FULL },
        { "enable_activation_checkpointing: false\nmemory_budget: auto\n", RP_MODE_NONE },
        { "memory_budget: 100\n", RP_MODE_AUTO },
        { "memory_budget: auto\nactivation_checkpointing: {mode: selective_layer, every: 2, layers: transformer.h}\n", RP_MODE_SELECTIVE_LAYER },
        { "activation_checkpointing: {conditions: [{every_k_layers: 2}], layers: layers}\n", RP_MODE_CONDITIONS },
        { "activation_checkpointing: {rules: [{op: matmul, fate: keep}]}\n", RP_MODE_NONE },
    };
    char text[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "%s", cases[i].text);
        reading r = read_one(text, NULL);
        assert_read(&r);
        assert_int_equal(r.recipe->activation_checkpointing.mode, cases[i].mode);
        assert_string_equal(r.recipe->activation_checkpointing.layers, "layers");
        end(&r);
    }
}

static void what_this_version_cannot_do_is_listed(void **state)
{
    (void)state;
    reading r = read_one(MODEL "memory_budget: 1GiB\nplan: null\nprofile: true\ndist: {ranks: 2, prefetch: 1}\nactivation_checkpointing:\n"
                               "  verify: step\n  mode: selective_op\n", NULL);

    assert_read(&r);
    assert_int_equal(rp__recipe_unsupported(r.recipe, &r.report), 5);
    assert_told(&r, "r.yaml:2: 'memory_budget' is not available in this version");
    assert_told(&r, "r.yaml:5: 'dist.ranks' above 1 is not available in this version");
    assert_told(&r, "r.yaml:8: 'activation_checkpointing.mode' other than none and full is not available in this version");
    end(&r);
}

/* ---- settings and references ---- */

static void settings_change_keys_of_any_depth(void **state)
{
    (void)state;
    static const char *const setting[] = {
        "model={config: c.json}", "optimizer.lr=3e-4", "optimizer.no_decay=[a, \"b\"]", "dataset.path=*.txt", "activation_checkpointing.mode=full",
        "model.overrides.num_hidden_layers=2", "~max_steps", "batch_size=3", "batch_size=4", "output_dir=x: y # z",
        "tokenizer.path=",
    };
    reading r = read_with(MODEL "max_steps: 10\nactivation_checkpointing:\n", RP_COUNT(setting), setting);

    assert_read(&r);
    assert_null(r.recipe->model.path);
    assert_string_equal(r.recipe->model.config, "c.json");
    assert_true(r.recipe->optimizer.lr == 3e-4);
    assert_int_equal(r.recipe->optimizer.no_decay.n, 2);
    assert_string_equal(r.recipe->dataset.path, "*.txt");
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
    assert_error(MODEL, "model.path.x=1", "argument 'model.path.x=1': 'model.path' is no map, so nothing can be set inside it");
    assert_error(MODEL, "batch_size", "argument 'batch_size': not of the form KEY=VALUE or ~KEY");
    assert_error(MODEL, "optimizer.={}", "argument 'optimizer.={}': not of the form KEY=VALUE or ~KEY");
    assert_error(MODEL, "model={path: [}", "argument 'model={path: [}':1: cannot read this as YAML: did not find expected node content");
    reading r = read_one(MODEL, "~memory_budget");
    assert_read(&r);
    end(&r);
}

static void references_take_other_keys_values(void **state)
{
    (void)state;
    reading r = read_one("model: {path: m.gguf}\nseed: 7\noutput_dir: runs/${dataset.column}-${seed}$${x}$$$${y}$z\ndataset: {path: ${tokenizer.path}}\n"
                         "dataset_val: ${dataset}\ntokenizer: {path: \"t/${optimizer.lr}\"}\n", "max_seq_len=${batch_size}");

    assert_int_equal(r.status, RP_ERR_CONFIG);                /* ${…} inside braces needs quotes */
    end(&r);
    r = read_one("model: {path: m.gguf}\nseed: 7\noutput_dir: runs/${dataset.column}-${seed}$${x}$$$${y}$z\ndataset:\n  path: ${tokenizer.path}\n"
                 "dataset_val: ${dataset}\ntokenizer: {path: \"t/${optimizer.lr}\"}\n", "max_seq_len=${batch_size}");
    assert_read(&r);
    assert_string_equal(r.recipe->output_dir, "runs/text-7${x}$${y}$z");
    assert_string_equal(r.recipe->dataset.path, "t/2e-5");
    assert_true(r.recipe->has_dataset_val);
    assert_string_equal(r.recipe->dataset_val.path, "t/2e-5");
    assert_int_equal(r.recipe->max_seq_len, 2);
    end(&r);
    assert_error(MODEL "output_dir: ${outpt_dir}\n", NULL, "r.yaml:2: '${outpt_dir}' names no key (did you mean 'output_dir'?)");
    assert_error(MODEL "output_dir: a${plan}\nplan: ${output_dir}\n", NULL, "r.yaml:3: '${output_dir}' refers to itself");
    assert_error(MODEL "output_dir: a${model}\n", NULL, "r.yaml:2: '${model}' is a list or a map, so it cannot stand inside a text");
}

static void references_that_multiply_are_refused(void **state)
{
    (void)state;
    char text[4096] = "model:\n  path: m\n  overrides:\n    a0: xxxxxxxxxxxxxxxx\n";

    for (int i = 1; i < 20; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "    a%d: -${model.overrides.a%d}${model.overrides.a%d}\n", i, i - 1, i - 1);
    }
    reading r = read_one(text, NULL);
    assert_int_equal(r.status, RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(r.ctx), "references make a text of more than 1048576 bytes"));
    end(&r);
}

/* ---- conditions and rules ---- */

static void conditions_and_rules_become_trees(void **state)
{
    (void)state;
    reading r = read_one(MODEL
        "activation_checkpointing:\n"
        "  conditions:\n"
        "  - any:\n"
        "    - every_k_layers: {k: 4, offset: 1}\n"
        "    - not: {layers: {list: [0, 3, 7-9]}}\n"
        "  - all: [{module_type: {types: [MLP, TransformerSelfAttentionLayer]}}, {path: \"model.layers.*.mlp\"}]\n"
        "  - plugin: {library: ./rules.so, symbol: only_attention_projections, args: {k: 4}}\n"
        "  rules:\n"
        "  - {path: \"*.self_attn\", op: matmul*, call: 1, larger_than: 1 MiB, cheaper_than_flops: 1e9, every: 2, fate: must_save}\n"
        "  - {type: Norm, fate: prefer_recompute}\n", NULL);

    assert_read(&r);
    rp_recipe_condition **c = r.recipe->activation_checkpointing.condition;
    assert_int_equal(r.recipe->activation_checkpointing.n_conditions, 3);
    assert_int_equal(c[0]->kind, RP_CONDITION_ANY);
    assert_int_equal(c[0]->n_parts, 2);
    assert_true(c[0]->part[0]->k == 4 && c[0]->part[0]->offset == 1 && c[0]->part[0]->place.line == 5);
    assert_int_equal(c[0]->part[1]->kind, RP_CONDITION_NOT);
    assert_int_equal(c[0]->part[1]->n_parts, 1);
    assert_int_equal(c[0]->part[1]->part[0]->n_ranges, 3);
    assert_int_equal(c[0]->part[1]->part[0]->range[2].last, 9);
    assert_string_equal(c[1]->part[0]->types.item[1], "TransformerBlock");
    assert_string_equal(c[1]->part[1]->glob, "layers.*.mlp");
    assert_string_equal(c[2]->symbol, "only_attention_projections");
    assert_int_equal(c[2]->library[0], '/');
    assert_string_equal(strrchr(c[2]->library, '/'), "/rules.so");
    rp_recipe_rule *rule = r.recipe->activation_checkpointing.rule;
    assert_int_equal(r.recipe->activation_checkpointing.n_rules, 2);
    assert_int_equal(rule[0].fate, RP_FATE_KEEP);
    assert_int_equal(rule[0].when->n_parts, 6);
    assert_string_equal(rule[0].when->part[0]->glob, "*.attn");
    assert_int_equal(rule[0].when->part[3]->number, 1048576);
    assert_int_equal(rule[1].fate, RP_FATE_PREFER_RECOMPUTE);
    assert_int_equal(rule[1].place.line, 11);
    end(&r);
}

static void wrong_conditions_and_rules_are_told(void **state)
{
    (void)state;
    static const struct { const char *text, *error; } cases[] = {
        { "conditions: [{every_k_layers: {k: 0}}]", "'every_k_layers.k' wants a whole number from 1, not '0'" },
        { "conditions: [{every_k_layers: {n: 2}}]", "'every_k_layers' needs the field 'k'" },
        { "conditions: [{every_k_layers: {n: 2}}]", "unknown field 'n' of 'every_k_layers' (it has: k offset)" },
        { "conditions: [{module_typ: MLP}]", "unknown condition 'module_typ' (did you mean 'module_type'?)" },
        { "conditions: [{module_type: Linera}]", "unknown module type 'Linera' (did you mean 'Linear'?)" },
        { "conditions: [{op: matmul}]", "'op' asks about slots; only a rule can" },
        { "conditions: [{path: a, not: {path: b}}]", "two conditions in one item, 'path' and 'not'; put them under 'all' or 'any'" },
        { "conditions: [{layers: [9-7]}]", "'layers' wants block numbers from 0 and ranges such as 7-9, not '9-7'" },
        { "conditions: [{any: {path: a}}]", "'any' wants a list of conditions, not a map" },
        { "conditions: [{plugin: {library: x.so}}]", "'plugin' needs the field 'symbol' (it has: library symbol args)" },
        { "rules: [{op: matmul}]", "a rule needs a 'fate'" },
        { "rules: [{op: matmul, fate: kep}]", "unknown fate 'kep' (did you mean 'keep'?)" },
        { "rules: [{larger: 1, fate: keep}]", "unknown field of a rule 'larger' (did you mean 'larger_than'?)" },
        { "rules: [keep]", "'rules' wants rules such as { op: matmul, fate: keep }, not 'keep'" },
        { "rules: {fate: keep}", "'activation_checkpointing.rules' wants a list of rules, not a map" },
    };
    char text[512], error[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "activation_checkpointing:\n  %s\n", cases[i].text);
        snprintf(error, sizeof error, "r.yaml:3: %s", cases[i].error);
        assert_error(text, NULL, error);
    }
}

/* ---- other systems ---- */

static void foreign_keys_are_translated_and_told(void **state)
{
    (void)state;
    static const struct { const char *text, *same_as, *note; } cases[] = {
        { "ac_variant: full_activation_checkpointing\nlayers_fqn: transformer.h\nac_fun_params: {}\n",
          "activation_checkpointing: {mode: full, layers: layers}\n",
          "r.yaml:2: note: 'ac_variant: full_activation_checkpointing' is read as 'activation_checkpointing.mode: full'" },
        { "activation_checkpointing:\n  ac_variant: selective_layer_activation_checkpointing\n  layers_fqn: model.layers\n  ac_fun_params: {ac_freq: 2}\n",
          "activation_checkpointing: {mode: selective_layer, layers: layers, every: 2}\n",
          "r.yaml:5: note: 'ac_fun_params.ac_freq' is read as 'activation_checkpointing.every'" },
        { "ac_variant: selective_op_activation_checkpointing\nac_fun_params:\n  save_ops_keys: [ops.aten.mm.default, "
          "ops.aten._scaled_dot_product_efficient_attention.default, ops.aten._scaled_dot_product_flash_attention.default, "
          "ops._c10d_functional.reduce_scatter_tensor.default, torch.ops.aten.max.default]\n",
          "activation_checkpointing: {mode: selective_op, save: [matmul, attention, reduce_scatter, max]}\n",
          "r.yaml:4: note: 'ac_fun_params.save_ops_keys' is read as 'activation_checkpointing.save: [matmul, attention, reduce_scatter, max]'" },
        { "activation_checkpointing_modules: [GPT2Block]\n", "activation_checkpointing: {conditions: [{module_type: [GPT2Block]}]}\n",
          "r.yaml:2: note: 'activation_checkpointing_modules' is read as a 'module_type' in 'activation_checkpointing.conditions'" },
        { "recompute_granularity: full\nrecompute_method: uniform\nrecompute_num_layers: 1\n", "activation_checkpointing: {mode: full}\n",
          "r.yaml:3: note: 'recompute_method: uniform, recompute_num_layers: 1' is read as 'activation_checkpointing.mode: full'" },
        { "recompute_granularity: full\nrecompute_method: block\nrecompute_num_layers: 3\n",
          "activation_checkpointing: {conditions: [{layers: {list: [0-2]}}]}\n",
          "r.yaml:3: note: 'recompute_method: block, recompute_num_layers: 3' is read as 'activation_checkpointing.conditions: "
          "[{layers: {list: [0-2]}}]'" },
        { "recompute_granularity: selective\n", "activation_checkpointing: {rules: [{op: attention, fate: recompute}]}\n",
          "r.yaml:2: note: 'recompute_granularity: selective' is read as 'activation_checkpointing.rules: [{op: attention, fate: recompute}]'" },
        { "recompute_granularity: selective\nrecompute_modules: [core_attn, mlp]\n",
          "activation_checkpointing: {rules: [{op: attention, fate: recompute}, {path: \"*.mlp\", fate: recompute}]}\n", NULL },
        { "ac_mode: selective\nac_option: 2\n", "activation_checkpointing: {mode: selective_layer, every: 2}\n",
          "r.yaml:3: note: 'ac_option' is read as 'activation_checkpointing.every: 2'" },
        { "ac_mode: selective\nac_option: op\n", "activation_checkpointing: {mode: selective_op}\n", NULL },
        { "ac_mode: full\nac_option: null\n", "activation_checkpointing: {mode: full}\n", NULL },
        { "ac_conditions:\n- torchtune.training.activations.selective_active_checkpointing_condition\n- k: 4\n- module_type: MLP\n",
          "activation_checkpointing: {conditions: [{every_k_layers: {k: 4, offset: 1}}, {module_type: MLP}]}\n",
          "r.yaml:3: note: 'torchtune.training.activations.selective_active_checkpointing_condition' is read as "
          "'{every_k_layers: {k: 4, offset: 1}}'" },
        { "memory_efficient_wrapping: true\nfsdp_reshard_after_forward: false\n",
          "dist: {custom_sharded_layers: [tok_embeddings, output], reshard_after_forward: false}\n",
          "r.yaml:3: note: 'fsdp_reshard_after_forward' is read as 'dist.reshard_after_forward'" },
    };
    char text[1024];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "%s", cases[i].text);
        reading theirs = read_one(text, NULL);
        snprintf(text, sizeof text, MODEL "%s", cases[i].same_as);
        reading ours = read_one(text, NULL);
        assert_read(&theirs);
        assert_read(&ours);
        if (cases[i].note) assert_told(&theirs, cases[i].note);
        char *a = written(&theirs), *b = written(&ours);
        /* quotes differ with how a list was built; the values do not */
        for (char *p = a; (p = strchr(p, '"'));) memmove(p, p + 1, strlen(p));
        for (char *p = b; (p = strchr(p, '"'));) memmove(p, p + 1, strlen(p));
        assert_string_equal(a, b);
        free(a);
        free(b);
        end(&theirs);
        end(&ours);
    }
}

static void foreign_keys_without_equivalent_are_errors(void **state)
{
    (void)state;
    static const struct { const char *text, *error; } cases[] = {
        { "ac_variant: full_activation_checkpointing\nenable_activation_checkpointing: true\n",
          "r.yaml:2: 'ac_variant' and 'enable_activation_checkpointing' say the same thing in two ways; keep one" },
        { "ac_mode: full\nactivation_checkpointing: {mode: full}\n",
          "r.yaml:2: 'ac_mode' and 'activation_checkpointing.mode' say the same thing in two ways; keep one" },
        { "ac_mode: full\nac_variant: full_activation_checkpointing\n",
          "r.yaml:2: 'ac_variant' and 'ac_mode' say the same thing in two ways; keep one" },
        { "ac_variant: full_ac\n", "r.yaml:2: unknown 'ac_variant' 'full_ac' (did you mean 'full_activation_checkpointing'?)" },
        { "ac_variant: full_activation_checkpointing\nac_fun_params: {ac_freq: 2}\n",
          "r.yaml:3: 'ac_fun_params.ac_freq' is no parameter of 'full_activation_checkpointing'" },
        { "ac_variant: selective_layer_activation_checkpointing\n",
          "r.yaml:2: 'selective_layer_activation_checkpointing' needs 'ac_fun_params.ac_freq'" },
        { "ac_variant: selective_op_activation_checkpointing\nac_fun_params: {save_ops_keys: [aten.mn]}\n",
          "r.yaml:3: unknown op 'aten.mn' in 'save_ops_keys' (did you mean 'aten.mm'?)" },
        { "ac_fun_params: {ac_freq: 2}\n", "r.yaml:2: 'ac_fun_params' needs 'ac_variant'" },
        { "recompute_granularity: full\n", "r.yaml:2: 'recompute_granularity: full' needs 'recompute_method' and 'recompute_num_layers'" },
        { "recompute_granularity: selective\nrecompute_modules: [moe_act]\n",
          "r.yaml:3: 'moe_act' in 'recompute_modules' has no equivalent here (core_attn, mlp and layernorm have)" },
        { "recompute_method: block\n", "r.yaml:2: 'recompute_method' needs 'recompute_granularity'" },
        { "ac_mode: selective\n", "r.yaml:2: 'ac_mode: selective' needs 'ac_option'" },
        { "ac_option: 2\n", "r.yaml:2: 'ac_option' is for 'ac_mode: selective'" },
        { "ac_conditions: [my_repo.mine]\n",
          "r.yaml:2: 'my_repo.mine' in 'ac_conditions' has no equivalent; a condition of your own is a 'plugin'" },
        { "custom_sharded_layers: [a]\ndist: {custom_sharded_layers: [a]}\n",
          "r.yaml:2: 'custom_sharded_layers' and 'dist.custom_sharded_layers' say the same thing; keep one" },
    };
    char text[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "%s", cases[i].text);
        assert_error(text, NULL, cases[i].error);
    }
}

/* ---- against a model ---- */

static const rp_recipe_module modules[] = {
    { "tok_embeddings", "Embedding" }, { "tok_embeddings.weight", NULL }, { "layers", "ModuleList" },
    { "layers.0", "TransformerBlock" }, { "layers.0.attn", "Attention" }, { "layers.0.attn.q", "Linear" },
    { "layers.0.attn_norm", "Norm" }, { "layers.0.attn_norm.weight", NULL }, { "layers.0.mlp", "MLP" },
    { "layers.1", "TransformerBlock" }, { "layers.1.mlp", "MLP" }, { "norm", "Norm" }, { "output", "Linear" },
};
static const char *const known_ops[] = { "matmul", "linear", "attention", "rmsnorm", "swiglu", "dropout", NULL };
static const char *const called_ops[] = { "linear", "matmul", "attention", "rmsnorm", "swiglu", NULL };

static void names_are_checked_against_the_model(void **state)
{
    (void)state;
    static const struct { const char *text, *told; } cases[] = {
        { "  mode: full\n  layers: lyers\n", "r.yaml:4: 'activation_checkpointing.layers': no module matches 'lyers' (did you mean 'layers'?)" },
        { "  mode: full\n  layers: norm\n", "r.yaml:4: 'activation_checkpointing.layers': 'norm' is no list of modules but a module of type Norm" },
        { "  conditions: [{path: \"*.mpl\"}]\n", "r.yaml:3: 'path': no module matches '*.mpl'" },
        { "  conditions: [{path: layers.0.atn}]\n", "r.yaml:3: 'path': no module matches 'layers.0.atn' (did you mean 'layers.0.attn'?)" },
        { "  conditions: [{layers: [0, 1-2]}]\n", "r.yaml:3: no block 2: the model has 2, counted from 0" },
        { "  rules: [{op: matmull, fate: keep}]\n", "r.yaml:3: no op is called 'matmull' (did you mean 'matmul'?)" },
        { "  rules: [{op: dropout, fate: keep}]\n", "r.yaml:3: note: this model never calls the op 'dropout'" },
        { "  mode: selective_op\n  save: [atention]\n", "r.yaml:4: no op is called 'atention' (did you mean 'attention'?)" },
        { "  mode: full\noptimizer:\n  no_decay: [bias]\n", "r.yaml:5: 'optimizer.no_decay': no module matches 'bias'" },
        { "  mode: full\ndist:\n  custom_sharded_layers: [lm_haed]\n", "r.yaml:5: 'dist.custom_sharded_layers': no module matches 'lm_haed'" },
    };
    char text[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "activation_checkpointing:\n%s", cases[i].text);
        reading r = read_one(text, NULL);
        assert_read(&r);
        rp__recipe_check_model(r.recipe, RP_COUNT(modules), modules, known_ops, called_ops, &r.report);
        assert_told(&r, cases[i].told);
        end(&r);
    }
}

static void right_names_in_either_spelling_pass(void **state)
{
    (void)state;
    reading r = read_one(MODEL
        "optimizer: {no_decay: [\"*norm*\", model.embed_tokens]}\ndist: {custom_sharded_layers: [tok_embeddings, lm_head]}\n"
        "activation_checkpointing:\n  conditions: [{path: model.layers.*.self_attn.q_proj}, {module_type: MLP}, {layers: [0, 1]}]\n"
        "  rules: [{op: reduce_scatter, fate: keep}, {op: \"*norm\", fate: recompute}]\n", NULL);

    assert_read(&r);
    rp__recipe_check_model(r.recipe, RP_COUNT(modules), modules, known_ops, NULL, &r.report);
    assert_null(r.report.first);
    end(&r);
}

/* ---- written and read back ---- */

static unsigned draw_state;
static unsigned draw(unsigned n) { return (draw_state = draw_state * 1664525u + 1013904223u) / 65536u % n; }

static const char *draw_text(void)
{
    static const char *const texts[] = {
        "a", "runs/x y", "null", "true", "~", "a: b", "#", "- x", "*.txt", "\\\"'", "$${seed}", "$$$${x}", "$", "$$", "a$b", "caf\xC3\xA9", "7",
        "tab\\there", "auto", "false", "{}", "[", "%", "a,b",
    };

    return texts[draw(RP_COUNT(texts))];
}

static void draw_value(const rp_recipe_key *key, char *out, size_t bytes)
{
    static const char *const conditions[] = {
        "[]", "[{path: \"*.mlp\"}]", "[{every_k_layers: {k: 2, offset: 1}}, {any: [{not: {layers: [0, 3-4]}}, {module_type: MLP}]}]",
        "[{plugin: {library: \"/x/a b.so\", symbol: f, args: {k: \"$${n}\", l: [1, null]}}}]",
    };
    static const char *const rules[] = { "[]", "[{op: \"mat*\", larger_than: 1 KiB, fate: must_save}, {fate: prefer_recompute}]" };
    char words[128];
    int n = 0;

    switch (key->type) {
    case KEY_TEXT: snprintf(out, bytes, "\"%s\"", draw(4) ? "plain" : draw_text()); break;
    case KEY_BOOL: snprintf(out, bytes, draw(2) ? "yes" : "false"); break;
    case KEY_INT: case KEY_OPT_INT: snprintf(out, bytes, "%lld", (long long)key->low + draw(60000)); break;
    case KEY_NUMBER: case KEY_OPT_NUMBER: snprintf(out, bytes, "%.17g", (draw(65536) + 1) / 65538.0 / (1 + draw(60000))); break;
    case KEY_PAIR: snprintf(out, bytes, "[%.17g, 0]", draw(65536) / 65537.0); break;
    case KEY_TEXTS: snprintf(out, bytes, "[\"%s\", \"%s\"]", draw_text(), draw_text()); break;
    case KEY_TYPES: snprintf(out, bytes, "[MLP, LlamaDecoderLayer]"); break;
    case KEY_MAP: snprintf(out, bytes, "{a: \"%s\", b: {c: [1, %s]}, \"<<\": 2}", draw_text(), "null"); break;
    case KEY_BUDGET: snprintf(out, bytes, draw(2) ? "auto" : "%u.5 MiB", draw(5000)); break;
    case KEY_RESUME: snprintf(out, bytes, draw(2) ? "auto" : "\"%s\"", draw_text()); break;
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
    for (int round = 0; round < 3000; round++) {
        reading a = read_with("", draw_settings(text, setting), setting);
        if (a.status == RP_OK) {
            char *first = written(&a);
            reading b   = read_with(first, 0, NULL);
            assert_read(&b);
            char *second = written(&b);
            assert_string_equal(first, second);
            assert_int_equal(a.recipe->activation_checkpointing.mode, b.recipe->activation_checkpointing.mode);
            assert_int_equal(a.recipe->activation_checkpointing.n_rules, b.recipe->activation_checkpointing.n_rules);
            assert_true(a.recipe->optimizer.lr == b.recipe->optimizer.lr && a.recipe->memory_budget.bytes == b.recipe->memory_budget.bytes);
            n_read++;
            free(first);
            free(second);
            end(&b);
        }
        end(&a);
    }
    assert_true(n_read > 50);
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
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(every_default_is_in_the_form_it_is_written_in),
        cmocka_unit_test(scalars_are_typed_by_the_schema),
        cmocka_unit_test(wrong_values_are_told_with_what_is_wanted),
        cmocka_unit_test(numbers_do_not_hang_on_the_locale),
        cmocka_unit_test(unknown_keys_get_the_nearest_name),
        cmocka_unit_test(all_errors_are_told_at_once_in_the_order_of_lines),
        cmocka_unit_test(contradictions_are_errors),
        cmocka_unit_test(the_mode_follows_switch_budget_and_conditions),
        cmocka_unit_test(what_this_version_cannot_do_is_listed),
        cmocka_unit_test(settings_change_keys_of_any_depth),
        cmocka_unit_test(wrong_settings_name_the_argument),
        cmocka_unit_test(references_take_other_keys_values),
        cmocka_unit_test(references_that_multiply_are_refused),
        cmocka_unit_test(conditions_and_rules_become_trees),
        cmocka_unit_test(wrong_conditions_and_rules_are_told),
        cmocka_unit_test(foreign_keys_are_translated_and_told),
        cmocka_unit_test(foreign_keys_without_equivalent_are_errors),
        cmocka_unit_test(names_are_checked_against_the_model),
        cmocka_unit_test(right_names_in_either_spelling_pass),
        cmocka_unit_test(a_written_recipe_reads_back_the_same),
        cmocka_unit_test(a_refused_allocation_anywhere_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
