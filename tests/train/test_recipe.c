/* Claims about recipes: defaults, typing, keys, and every error at once. */
/* ctest: device-free thread-free */
#include "recipe_test.h"

#include <locale.h>

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
    end(&r);
}

static void times_have_a_unit(void **state)
{
    (void)state;
    static const struct { const char *text; int64_t seconds; } good[] = {
        { "dist.timeout=90s", 90 }, { "dist.timeout=10min", 600 }, { "dist.timeout=2 h", 7200 }, { "dist.timeout=720h", 2592000 },
    };
    static const char *const bad[] = { "10", "0s", "721h", "-1s", "1.5h", "min", "10 minutes", "99999999999999999999s", "[1s]" };

    for (int i = 0; i < RP_COUNT(good); i++) {
        reading r = read_one(MODEL, good[i].text);
        assert_read(&r);
        assert_int_equal(r.recipe->dist.timeout, good[i].seconds);
        end(&r);
    }
    for (int i = 0; i < RP_COUNT(bad); i++) {
        char text[128], error[256];
        snprintf(text, sizeof text, MODEL "dist: {timeout: %s}\n", bad[i]);
        const char *quote = bad[i][0] == '[' ? "" : "'";
        snprintf(error, sizeof error, "r.yaml:2: 'dist.timeout' wants a time from 1s to 720h: a whole number with s, min or h, not %s%s%s", quote,
                 bad[i], quote);
        assert_error(text, NULL, error);
    }
}

static void scalars_are_typed_by_the_schema(void **state)
{
    (void)state;
    reading r = read_one(
        "model: {path: no}\nmax_seq_len: 010\noptimizer: {lr: 1e-8, weight_decay: 1}\ndataset: {column: 12, packed: off}\n"
        "tokenizer: {path: None}\noutput_dir: \"null\"\noptimizer_in_bwd: no\nmemory_budget: 1.5 GiB\nresume: auto\n",
        NULL);

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

static void wrong_values_are_reported_with_the_accepted_ones(void **state)
{
    (void)state;
    assert_error(MODEL "batch_size: two\n", NULL,
                 "r.yaml:2: 'batch_size' wants a whole number from 1 to 1048576, not 'two'");
    assert_error(MODEL "batch_size: \"2\"\n", NULL,
                 "r.yaml:2: 'batch_size' wants a whole number from 1 to 1048576, not the quoted text '2'");
    assert_error(MODEL "optimizer: {betas: [0.9, 1]}\n", NULL,
                 "r.yaml:2: 'optimizer.betas' wants a list of two numbers from 0 and below 1, not [0.9, 1]");
    assert_error(MODEL "dist: {modules_to_wrap: [Linera]}\n", NULL,
                 "r.yaml:2: 'dist.modules_to_wrap': unknown module type 'Linera' (did you mean 'Linear'?)");
    assert_error(MODEL "optimizer: {eps: 0}\n", NULL, "r.yaml:2: 'optimizer.eps' wants a number above 0, not '0'");
    assert_error(MODEL "optimizer: {lr: nan}\n", NULL, "r.yaml:2: 'optimizer.lr' wants a number from 0, not 'nan'");
    assert_error(MODEL "seed: 18446744073709551615\n", NULL,
                 "r.yaml:2: 'seed' wants a whole number from 0, at most 9007199254740992, not '18446744073709551615'");
    assert_error(MODEL "optimizer: {lr: 1e30}\n", NULL, "r.yaml:2: 'optimizer.lr' wants a number from 0, at most 1000000000, not '1e30'");
    assert_error(MODEL "shuffle: 1\n", NULL, "r.yaml:2: 'shuffle' wants true or false, not '1'");
    assert_error(MODEL "dtype: fp16\n", NULL, "r.yaml:2: 'dtype' wants bf16 or fp32, not 'fp16'");
    assert_error(MODEL "output_dir:\n", NULL, "r.yaml:2: 'output_dir' wants a text, not nothing");
    assert_error(MODEL "optimizer: {no_decay: norm}\n", NULL,
                 "r.yaml:2: 'optimizer.no_decay' wants a list of texts, as [norm], not 'norm'");
    assert_error(MODEL "optimizer: sgd\n", NULL, "r.yaml:2: 'optimizer' wants a map, not 'sgd'");
    assert_error(MODEL "activation_checkpointing: true\n", NULL,
                 "r.yaml:2: 'activation_checkpointing' wants a map (the plain switch is 'enable_activation_checkpointing: "
                 "true'), not 'true'");
    assert_error(MODEL "memory_budget: 8 gigs\n", NULL,
                 "r.yaml:2: 'memory_budget' wants null, auto, or a size: bytes, or a number "
                 "with KB, MB, GB, KiB, MiB or GiB, not '8 gigs'");
    assert_error("- 1\n", NULL, "r.yaml:1: a recipe is a map of keys, not a list");
    assert_error("", NULL, "r.yaml: no model: set 'model.path', or 'model.config' for random weights");
}

/* Needs a locale that writes a comma; without one the test is skipped, not passed. */
static void numbers_do_not_hang_on_the_locale(void **state)
{
    (void)state;
    static const char *const locales[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8", "de_DE", "fr_FR" };
    bool found = false;

    for (int i = 0; i < RP_COUNT(locales) && !found; i++) found = setlocale(LC_NUMERIC, locales[i]) != NULL;
    if (!found) skip();
    reading r  = read_one(MODEL "optimizer: {lr: 0.1}\n", NULL);
    char *text = written(&r);
    setlocale(LC_NUMERIC, "C");
    assert_true(r.recipe->optimizer.lr == 0.1);
    assert_non_null(strstr(text, "lr: 0.1\n"));
    free(text);
    end(&r);
}

/* ---- keys ---- */

static void keys_that_other_systems_have_say_what_to_write_here(void **state)
{
    (void)state;
    assert_error(MODEL "gradient_checkpointing: true\n", NULL,
                 "r.yaml:2: unknown key 'gradient_checkpointing': here it is 'enable_activation_checkpointing'");
    assert_error(MODEL "enable_activation_offloading: true\n", NULL,
                 "r.yaml:2: unknown key 'enable_activation_offloading': here a rule with the fate offload does it: 'activation_checkpointing.rules'");
    assert_error("model: {path: m, lora_rank: 8}\n", NULL, "r.yaml:1: unknown key 'model.lora_rank': here it is 'lora.rank'");
    assert_error("model: {path: m, use_dora: true}\n", NULL, "r.yaml:1: unknown key 'model.use_dora': here it is 'lora.dora'");
    assert_error(MODEL "lora_modules_to_save: [lm_head]\n", NULL, "r.yaml:2: unknown key 'lora_modules_to_save': here it is 'lora.whole'");
    assert_error(MODEL "lora: {r: 8}\n", NULL, "r.yaml:2: unknown key 'lora.r': here it is 'lora.rank'");
    assert_error(MODEL "lora: {target_modules: all-linear}\n", NULL,
                 "r.yaml:2: unknown key 'lora.target_modules': here it is 'lora.modules', and every linear layer is [all-linear]");
    assert_error(MODEL "lora: {rank: 8, modules: all-linear}\n", NULL, "r.yaml:2: 'lora.modules' wants a list of texts, as [all-linear], not 'all-linear'");
    assert_error(MODEL "optimizer: {learning_rate: 1e-4}\n", NULL, "r.yaml:2: unknown key 'optimizer.learning_rate': here it is 'optimizer.lr'");
    assert_error(MODEL "load_in_4bit: true\n", NULL, "r.yaml:2: unknown key 'load_in_4bit': here it is 'model.quantize': nf4");
    assert_error("model: {path: m, load_in_4bit: true}\n", NULL, "r.yaml:1: unknown key 'model.load_in_4bit': here it is 'model.quantize': nf4");
    assert_error("model: {config: m.json, quantize: keep}\n", NULL, "r.yaml:1: 'model.quantize' needs 'model.path', not 'model.config'");
    assert_error("model: {path: m, quantize: int8}\n", NULL, "r.yaml:1: 'model.quantize' wants null, keep, nf4, q8_0 or q4_0, not 'int8'");
    assert_error(MODEL "optimizer:\n  _component_: torch.optim.AdamW\n", NULL,
                 "r.yaml:3: unknown key 'optimizer._component_': no constructors are named here: 'model.path' names the model, 'optimizer.name' the "
                 "update rule");
    assert_error(MODEL, "max_steps_per_epoch=3",
                 "argument 'max_steps_per_epoch=3': unknown key 'max_steps_per_epoch': here it is 'max_steps', which counts the whole run");
}

/* What stands in quotes is a key of ours. */
static void hints_for_other_systems_keys_name_keys_there_are(void **state)
{
    (void)state;
    char key[RP_KEY_CHARS];
    const char *hint;

    for (int i = 0; (hint = rp__recipe_elsewhere_at(i)); i++)
        for (const char *open = strchr(hint, '\''), *close; open; open = strchr(close + 1, '\'')) {
            close = strchr(open + 1, '\'');
            assert_non_null(close);
            snprintf(key, sizeof key, "%.*s", (int)(close - open - 1), open + 1);
            if (rp__recipe_find_key(key) < 0 && !rp__recipe_is_group(key)) fail_msg("'%s' in \"%s\" is no key", key, hint);
        }
}

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

static void all_errors_are_reported_at_once_in_the_order_of_lines(void **state)
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
    assert_string_equal(rp_error(r.ctx),
                        "r.yaml:1: 'batch_size' wants a whole number from 1 to 1048576, not 'x' (and 5 more)");
    assert_reported(&r, "argument 'threads=-1': 'threads' wants a whole number from 0 to 4096, not '-1'");
    end(&r);
}

static void contradictions_are_errors(void **state)
{
    (void)state;
    static const struct { const char *text, *error;
    } cases[] = {
        { "optimizer_in_bwd: true\nclip_grad_norm: 1\n", "r.yaml:2: 'optimizer_in_bwd' true and 'clip_grad_norm' "
                                                         "contradict: the norm is known after backward; unset one, or set "
                                                         "optimizer_in_bwd: auto" },
        { "optimizer_in_bwd: true\ngradient_accumulation_steps: 4\n",
          "r.yaml:2: 'optimizer_in_bwd' true and 'gradient_accumulation_steps' 4 contradict: an update needs the gradients of "
          "all micro-batches" },
        { "enable_activation_checkpointing: false\nactivation_checkpointing:\n  mode: full\n",
          "r.yaml:4: 'enable_activation_checkpointing' and 'activation_checkpointing.mode' are both set; keep one" },
        { "enable_activation_checkpointing: true\nactivation_checkpointing:\n  rules: []\n",
          "r.yaml:4: 'enable_activation_checkpointing' and 'activation_checkpointing.rules' are both set; keep one" },
        { "activation_checkpointing:\n  mode: full\n  save: [matmul]\n",
          "r.yaml:4: 'activation_checkpointing.save' has no effect: the mode is full" },
        { "activation_checkpointing: {every: 2}\n",
          "r.yaml:2: 'activation_checkpointing.every' has no effect: the mode is none" },
        { "activation_checkpointing: {mode: selective_op, offset: 1}\n",
          "r.yaml:2: 'activation_checkpointing.offset' has no effect: the mode is selective_op" },
        { "activation_checkpointing: {mode: none, conditions: [{path: x}]}\n",
          "r.yaml:2: 'activation_checkpointing.conditions' has no effect: the mode is none" },
        { "activation_checkpointing: {layers: blocks}\n",
          "r.yaml:2: 'activation_checkpointing.layers' has no effect: the mode is none" },
        { "run_val_every_n_steps: 5\n", "r.yaml:2: 'run_val_every_n_steps' needs 'dataset_val'" },
        { "dataset_val: {format: text}\n", "r.yaml: 'dataset_val' needs 'dataset_val.path'" },
        { "activation_checkpointing: {mode: full}\nplan: p.json\n", "r.yaml:3: 'plan' has no effect: the mode is full" },
        { "dataset: {train_on_input: false}\n", "r.yaml:2: 'dataset.train_on_input' false needs 'dataset.prompt_column'" },
        { "dataset: {packed: false, cross_documents: true}\n",
          "r.yaml:2: 'dataset.cross_documents' true and 'dataset.packed' false contradict: only packed samples hold several "
          "documents" },
    };
    char text[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "%s", cases[i].text);
        assert_error(text, NULL, cases[i].error);
    }
    assert_error("model: {path: a, config: b}\n", NULL, "r.yaml:1: 'model.path' and 'model.config' are both set; keep one");
    assert_error("model: {config: b, adapter: c}\n", NULL, "r.yaml:1: 'model.adapter' needs 'model.path', not 'model.config'");
    assert_error("model: {path: a, adapter: c}\nlora: {rank: 4}\n", NULL,
                 "r.yaml:2: 'model.adapter' and 'lora.rank' are both set: the first continues an adapter, the second begins a new one; keep one");
}

static void the_mode_follows_switch_budget_and_conditions(void **state)
{
    (void)state;
    static const struct { const char *text; int mode;
    } cases[] = {
        { "enable_activation_checkpointing: true\n", RP_MODE_FULL },
        { "enable_activation_checkpointing: true\nmemory_budget: 1GiB\nactivation_checkpointing: {verify: step, offload: "
          "{to: disk}}\n",
          RP_MODE_FULL },
        { "enable_activation_checkpointing: false\nmemory_budget: auto\n", RP_MODE_NONE },
        { "memory_budget: 100\n", RP_MODE_AUTO },
        { "memory_budget: auto\nactivation_checkpointing: {mode: selective_layer, every: 2, layers: layers}\n",
          RP_MODE_SELECTIVE_LAYER },
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

static void states_on_disk_of_an_optimizer_without_states_are_noted(void **state)
{
    static const struct { const char *text; bool noted; } cases[] = {
        { "optimizer: {name: sgd}\n", true },
        { "optimizer: {name: sgd, momentum: 0.9}\n", false },
        { "optimizer: {name: sgd, master_weights: true}\n", false },
        { "optimizer: {name: sgd, master_weights: true}\ndtype: fp32\n", true },
        { "", false },
    };
    char text[512];

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "%sdist: {state_offload: true}\n", cases[i].text);
        reading r  = read_one(text, NULL);
        bool noted = false;
        assert_int_equal(r.report.n_errors, 0);
        for (const rp_report_item *m = r.report.first; m; m = m->next) noted |= strstr(m->text, "'dist.state_offload' has no effect") != NULL;
        assert_int_equal(noted, cases[i].noted);
        end(&r);
    }
}

static void a_resumed_run_may_change_resources_and_no_more(void **state)
{
    (void)state;
    static const struct { const char *setting; int64_t ranks; const char *error; } cases[] = {
        { "max_steps=100", 1, NULL }, { "memory_budget=1GiB", 1, NULL }, { "enable_activation_checkpointing=true", 1, NULL },
        { "dataset_val={path: v.txt}", 1, NULL }, { "batch_size=2", 2, NULL }, { "dist={prefetch: 2}", 1, NULL },
        { "optimizer.lr=0.00002", 1, NULL },
        { "batch_size=2", 1, "argument 'batch_size=2': the global batch is 2 samples (ranks * batch_size * "
                             "gradient_accumulation_steps), but the run to resume has 4" },
        { "optimizer.lr=1e-3", 1, "argument 'optimizer.lr=1e-3': 'optimizer.lr' is 0.001, but the run to resume has 2e-5" },
        { "threads=3", 1, "argument 'threads=3': 'threads' is 3, but the run to resume has 0" },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        reading before = read_one(MODEL "batch_size: 4\n", NULL), now = read_one(MODEL "batch_size: 4\n", cases[i].setting);
        assert_read(&now);
        rp__recipe_check_resume(before.recipe, 1, now.recipe, cases[i].ranks, &now.report);
        if (cases[i].error) assert_reported(&now, cases[i].error);
        else assert_int_equal(now.report.n_errors, 0);
        end(&before);
        end(&now);
    }
}

static void training_needs_data_and_a_plan_does_not(void **state)
{
    (void)state;
    reading r = read_one(MODEL, NULL);

    assert_read(&r);
    rp__recipe_check_train(r.recipe, &r.report);
    assert_reported(&r, "r.yaml: no data: set 'dataset.path'");
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_contract),
        cmocka_unit_test(every_default_is_in_the_form_it_is_written_in),
        cmocka_unit_test(times_have_a_unit),
        cmocka_unit_test(scalars_are_typed_by_the_schema),
        cmocka_unit_test(wrong_values_are_reported_with_the_accepted_ones),
        cmocka_unit_test(numbers_do_not_hang_on_the_locale),
        cmocka_unit_test(keys_that_other_systems_have_say_what_to_write_here),
        cmocka_unit_test(hints_for_other_systems_keys_name_keys_there_are),
        cmocka_unit_test(unknown_keys_get_the_nearest_name),
        cmocka_unit_test(all_errors_are_reported_at_once_in_the_order_of_lines),
        cmocka_unit_test(contradictions_are_errors),
        cmocka_unit_test(the_mode_follows_switch_budget_and_conditions),
        cmocka_unit_test(states_on_disk_of_an_optimizer_without_states_are_noted),
        cmocka_unit_test(a_resumed_run_may_change_resources_and_no_more),
        cmocka_unit_test(training_needs_data_and_a_plan_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
