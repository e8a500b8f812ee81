/* Claims about conditions, rules, the keys of other systems, and the names of a recipe against a model. */
/* ctest: thread-free */
#include "recipe_test.h"

/* ---- conditions and rules ---- */

static void conditions_and_rules_become_trees(void **state)
{
    (void)state;
    reading r =
        read_one(MODEL
                 "activation_checkpointing:\n"
                 "  conditions:\n"
                 "  - any:\n"
                 "    - every_k_layers: {k: 4, offset: 1}\n"
                 "    - not: {layers: {list: [0, 3, 7-9]}}\n"
                 "  - all: [{module_type: {types: [MLP, TransformerSelfAttentionLayer]}}, {path: \"layers.*.mlp\"}]\n"
                 "  - plugin: {library: ./rules.so, symbol: only_attention_projections, args: {k: 4}}\n"
                 "  rules:\n"
                 "  - {path: \"*.attn\", op: matmul*, call: 1, larger_than: 1 MiB, cheaper_than_flops: 1e9, every: 2, "
                 "fate: must_save}\n"
                 "  - {type: Norm, fate: prefer_recompute}\n",
                 NULL);

    assert_read(&r);
    rp_condition **c = r.recipe->activation_checkpointing.condition;
    assert_int_equal(r.recipe->activation_checkpointing.n_conditions, 3);
    assert_int_equal(c[0]->kind, RP_CONDITION_ANY);
    assert_int_equal(c[0]->n_parts, 2);
    assert_true(c[0]->part[0]->k == 4 && c[0]->part[0]->offset == 1 && c[0]->part[0]->place.line == 5);
    assert_int_equal(c[0]->part[1]->kind, RP_CONDITION_NOT);
    assert_int_equal(c[0]->part[1]->n_parts, 1);
    assert_int_equal(c[0]->part[1]->part[0]->n_ranges, 3);
    assert_int_equal(c[0]->part[1]->part[0]->range[2].last, 9);
    assert_string_equal(c[1]->part[0]->type[1], "TransformerBlock");
    assert_string_equal(c[1]->part[1]->glob, "layers.*.mlp");
    assert_string_equal(c[2]->symbol, "only_attention_projections");
    assert_int_equal(c[2]->library[0], '/');
    assert_string_equal(strrchr(c[2]->library, '/'), "/rules.so");
    rp_rule *rule = r.recipe->activation_checkpointing.rule;
    assert_int_equal(r.recipe->activation_checkpointing.n_rules, 2);
    assert_int_equal(rule[0].fate, RP_KEEP);
    assert_int_equal(rule[0].when->n_parts, 5);
    assert_string_equal(rule[0].when->part[0]->glob, "*.attn");
    assert_int_equal(rule[0].when->part[3]->number, 1048576);
    assert_int_equal(rule[0].k, 2);
    assert_string_equal(rule[0].by, "r.yaml:10");
    assert_int_equal(rule[1].fate, RP_PREFER_RECOMPUTE);
    assert_int_equal(rule[1].place.line, 11);
    end(&r);
}

#define LONG_WORD "a_word_of_forty_five_characters_and_a_bit____"

static void wrong_conditions_and_rules_are_reported(void **state)
{
    (void)state;
    static const struct { const char *text, *error;
    } cases[] = {
        { "conditions: [{every_k_layers: {k: 0}}]", "'every_k_layers.k' wants a whole number from 1, not '0'" },
        { "conditions: [{every_k_layers: {n: 2}}]", "'every_k_layers' needs the field 'k'" },
        { "conditions: [{every_k_layers: {n: 2}}]", "unknown field 'n' of 'every_k_layers' (it has: k offset)" },
        { "conditions: [{module_typ: MLP}]", "unknown condition 'module_typ' (did you mean 'module_type'?)" },
        { "conditions: [{module_type: Linera}]", "unknown module type 'Linera' (did you mean 'Linear'?)" },
        { "conditions: [{op: matmul}]", "'op' is a condition on slots, which only rules may have" },
        { "conditions: [{path: a, not: {path: b}}]", "two conditions in one item, 'path' and 'not'; put them under 'all' or 'any'" },
        { "conditions: [{layers: [9-7]}]", "'layers' wants block numbers from 0 and ranges such as 7-9, not '9-7'" },
        { "conditions: [{any: {path: a}}]", "'any' wants a list of conditions, not a map" },
        { "conditions: [{plugin: {library: x.so}}]", "'plugin' needs the field 'symbol' (it has: library symbol args)" },
        { "rules: [{op: matmul}]", "a rule needs a 'fate'" },
        { "rules: [{op: matmul, fate: kep}]", "unknown fate 'kep' (did you mean 'keep'?)" },
        { "rules: [{larger: 1, fate: keep}]", "unknown field of a rule 'larger' (did you mean 'larger_than'?)" },
        { "rules: [keep]", "'rules' wants rules such as { op: matmul, fate: keep }, not 'keep'" },
        { "rules: {fate: keep}", "'activation_checkpointing.rules' wants a list of rules, not a map" },
        { "rules: [{op: matmul, fate: [keep]}]", "'fate' wants one word, not [keep]" },
        { "rules: [{op: matmul, fate: [" LONG_WORD ", x" LONG_WORD "]}]", "'fate' wants one word, not [" LONG_WORD ", x" LONG_WORD "]" }, /* 95 characters */
        { "rules: [{op: matmul, fate: [" LONG_WORD ", xx" LONG_WORD "]}]", "'fate' wants one word, not a list" },
        { "rules: [{op: matmul, fate: [" LONG_WORD ", " LONG_WORD ", " LONG_WORD ", " LONG_WORD ", " LONG_WORD "]}]", "'fate' wants one word, not a list" },
        { "conditions: [{layers: 3}]", "'layers' wants a list of block numbers and ranges such as [0, 3, 7-9], not '3'" },
        { "conditions: [{layers: []}]", "'layers' wants a list of block numbers and ranges such as [0, 3, 7-9], not an empty list" },
        { "conditions: [{module_type: []}]", "'module_type' wants module types, not an empty list" },
        { "conditions: [{module_type: [MLP, {a: b}]}]", "'module_type' wants module types, not a map" },
        { "conditions: [{plugin: x.so}]", "'plugin' wants a map with library, symbol and args, not 'x.so'" },
        { "conditions: [{plugin: {library: [x.so], symbol: f}}]", "'library' wants the path of a library, not [x.so]" },
        { "conditions: [{plugin: {library: x.so, symbol: {f: g}}}]", "'symbol' wants the name of a function, not a map" },
        { "conditions: [{plugin: {library: x.so, symbol: f, args: 3}}]", "'args' wants a map, not '3'" },
        { "rules: [{larger_than: 3 feet, fate: keep}]", "'larger_than' wants a size: bytes, or a number with KB, MB, GB, KiB, MiB or GiB, not '3 feet'" },
        { "rules: [{cheaper_than_flops: -1, fate: keep}]", "'cheaper_than_flops' wants a number from 0, not '-1'" },
        { "rules: [{cheaper_than_flops: few, fate: keep}]", "'cheaper_than_flops' wants a number from 0, not 'few'" },
    };
    char text[512], error[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "activation_checkpointing:\n  %s\n", cases[i].text);
        snprintf(error, sizeof error, "r.yaml:3: %s", cases[i].error);
        assert_error(text, NULL, error);
    }
}

static void no_plugin_is_loaded_that_nobody_allowed(void **state)
{
    (void)state;
    static const char *const text = MODEL "activation_checkpointing:\n  conditions: [{not: {plugin: {library: /absent.so, symbol: f}}}]\n"
                                          "  rules: [{plugin: {library: /absent.so, symbol: f}, fate: keep}]\n";
    reading r = read_one(text, NULL);

    assert_read(&r);
    assert_int_equal(rp__recipe_open_plugins(r.recipe, &r.report), RP_ERR_CONFIG);
    assert_reported(&r, "r.yaml:3: the plug-in '/absent.so' runs code, and plug-ins are not allowed: '--allow-plugins' allows them "
                    "(in C rp_recipe_allow_plugins)");
    assert_int_equal(r.report.n_errors, 2);
    rp_recipe_allow_plugins(r.recipe, true);
    assert_int_equal(rp__recipe_open_plugins(r.recipe, &r.report), RP_ERR_MATCH);
    end(&r);
}

/* ---- other systems ---- */

static void foreign_keys_are_translated_and_noted(void **state)
{
    (void)state;
    static const struct { const char *text, *same_as, *note;
    } cases[] = {
        { "ac_variant: full_activation_checkpointing\nlayers_fqn: transformer.h\nac_fun_params: {}\n",
          "activation_checkpointing: {mode: full, layers: layers}\n",
          "r.yaml:2: note: 'ac_variant: full_activation_checkpointing' is read as 'activation_checkpointing.mode: full'" },
        { "activation_checkpointing:\n  ac_variant: selective_layer_activation_checkpointing\n  layers_fqn: blocks\n  "
          "ac_fun_params: {ac_freq: 2}\n",
          "activation_checkpointing: {mode: selective_layer, layers: blocks, every: 2}\n",
          "r.yaml:5: note: 'ac_fun_params.ac_freq' is read as 'activation_checkpointing.every'" },
        { "ac_variant: selective_op_activation_checkpointing\nac_fun_params:\n  save_ops_keys: [ops.aten.mm.default, "
          "ops.aten._scaled_dot_product_efficient_attention.default, ops.aten._scaled_dot_product_flash_attention.default, "
          "ops._c10d_functional.reduce_scatter_tensor.default, torch.ops.aten.max.default]\n",
          "activation_checkpointing: {mode: selective_op, save: [matmul, attention, reduce_scatter, max]}\n",
          "r.yaml:4: note: 'ac_fun_params.save_ops_keys' is read as 'activation_checkpointing.save: [matmul, attention, "
          "reduce_scatter, max]'" },
        { "activation_checkpointing_modules: [GPT2Block]\n",
          "activation_checkpointing: {conditions: [{module_type: [GPT2Block]}]}\n",
          "r.yaml:2: note: 'activation_checkpointing_modules' is read as a 'module_type' in "
          "'activation_checkpointing.conditions'" },
        { "recompute_granularity: full\nrecompute_method: uniform\nrecompute_num_layers: 1\n",
          "activation_checkpointing: {mode: full}\n",
          "r.yaml:3: note: 'recompute_method: uniform, recompute_num_layers: 1' is read as 'activation_checkpointing.mode: "
          "full'" },
        { "recompute_granularity: full\nrecompute_method: block\nrecompute_num_layers: 3\n",
          "activation_checkpointing: {conditions: [{layers: {list: [0-2]}}]}\n",
          "r.yaml:3: note: 'recompute_method: block, recompute_num_layers: 3' is read as "
          "'activation_checkpointing.conditions: "
          "[{layers: {list: [0-2]}}]'" },
        { "recompute_granularity: selective\n", "activation_checkpointing: {rules: [{op: attention, fate: recompute}]}\n",
          "r.yaml:2: note: 'recompute_granularity: selective' is read as 'activation_checkpointing.rules: [{op: attention, "
          "fate: recompute}]'" },
        { "recompute_granularity: selective\nrecompute_modules: [core_attn, mlp]\n",
          "activation_checkpointing: {rules: [{op: attention, fate: recompute}, {path: \"*.mlp\", fate: recompute}]}\n",
          NULL },
        { "ac_mode: selective\nac_option: 2\n", "activation_checkpointing: {mode: selective_layer, every: 2}\n",
          "r.yaml:3: note: 'ac_option' is read as 'activation_checkpointing.every: 2'" },
        { "ac_mode: selective\nac_option: op\n", "activation_checkpointing: {mode: selective_op}\n", NULL },
        { "ac_mode: full\nac_option: null\n", "activation_checkpointing: {mode: full}\n", NULL },
        { "ac_conditions:\n- torchtune.training.activations.selective_active_checkpointing_condition\n- k: 4\n- "
          "module_type: MLP\n",
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
        if (cases[i].note) assert_reported(&theirs, cases[i].note);
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
    static const struct { const char *text, *error;
    } cases[] = {
        { "ac_variant: full_activation_checkpointing\nenable_activation_checkpointing: true\n",
          "r.yaml:2: 'ac_variant' and 'enable_activation_checkpointing' set the same thing; keep one" },
        { "ac_mode: full\nactivation_checkpointing: {mode: full}\n",
          "r.yaml:2: 'ac_mode' and 'activation_checkpointing.mode' set the same thing; keep one" },
        { "ac_mode: full\nac_variant: full_activation_checkpointing\n", "r.yaml:2: 'ac_variant' and 'ac_mode' set the same thing; keep one" },
        { "ac_variant: full_ac\n", "r.yaml:2: unknown 'ac_variant' 'full_ac' (did you mean 'full_activation_checkpointing'?)" },
        { "ac_variant: full_activation_checkpointing\nac_fun_params: {ac_freq: 2}\n",
          "r.yaml:3: 'ac_fun_params.ac_freq' is no parameter of 'full_activation_checkpointing'" },
        { "ac_variant: selective_layer_activation_checkpointing\n", "r.yaml:2: 'selective_layer_activation_checkpointing' needs 'ac_fun_params.ac_freq'" },
        { "ac_variant: selective_op_activation_checkpointing\nac_fun_params: {save_ops_keys: [aten.mn]}\n",
          "r.yaml:3: 'aten.mn' in 'save_ops_keys' has no equivalent here; these have: aten.mm, aten._scaled_dot_product_efficient_attention, "
          "aten._scaled_dot_product_flash_attention, _c10d_functional.reduce_scatter_tensor, aten.max" },
        { "ac_fun_params: {ac_freq: 2}\n", "r.yaml:2: 'ac_fun_params' needs 'ac_variant'" },
        { "recompute_granularity: full\n", "r.yaml:2: 'recompute_granularity: full' needs 'recompute_method' and 'recompute_num_layers'" },
        { "recompute_granularity: selective\nrecompute_modules: [moe_act]\n",
          "r.yaml:3: 'moe_act' in 'recompute_modules' has no equivalent here; these have: core_attn, mlp, layernorm" },
        { "ac_mode: full\nactivation_checkpointing: {ac_mode: full}\n", "r.yaml:2: 'ac_mode' is set here and under 'activation_checkpointing'" },
        { "recompute_granularity: selective\nrecompute_num_layers: 2\n", "r.yaml:3: 'recompute_num_layers' is for 'recompute_granularity: full'" },
        { "ac_variant: full_activation_checkpointing\nactivation_checkpointing_modules: [GPT2Block]\n",
          "r.yaml:3: 'activation_checkpointing_modules' and 'ac_variant' both choose what is checkpointed; keep one" },
        { "ac_mode: full\nac_conditions:\n- k: 4\n", "r.yaml:2: 'ac_mode' and 'ac_conditions' both choose what is checkpointed; keep one" },
        { "ac_mode: ful\n", "r.yaml:2: unknown 'ac_mode' 'ful' (did you mean 'full'?)" },
        { "fsdp_reshard_after_forward: true\ndist: {reshard_after_forward: true}\n",
          "r.yaml:2: 'fsdp_reshard_after_forward' and 'dist.reshard_after_forward' set the same thing; keep one" },
        { "memory_efficient_wrapping: true\ncustom_sharded_layers: [output]\n",
          "r.yaml:2: 'memory_efficient_wrapping' and 'custom_sharded_layers' set the same thing; keep one" },
        { "recompute_granularity: full\nrecompute_method: block\nrecompute_num_layers: 0\n",
          "r.yaml:4: 'recompute_num_layers' wants a whole number from 1, not '0'" },
        { "recompute_granularity: full\nrecompute_method: blok\nrecompute_num_layers: 1\n", "r.yaml:3: 'recompute_method' wants uniform or block, not 'blok'" },
        { "recompute_granularity: selective\nrecompute_modules: {mlp: 1}\n", "r.yaml:3: 'recompute_modules' wants a list of modules, not a map" },
        { "recompute_granularity: some\n", "r.yaml:2: unknown 'recompute_granularity' 'some'; known: full, selective" },
        { "ac_variant: selective_op_activation_checkpointing\nac_fun_params: {save_ops_keys: []}\n",
          "r.yaml:3: 'ac_fun_params.save_ops_keys' wants a list of ops that is not empty, not an empty list" },
        { "ac_variant: full_activation_checkpointing\nac_fun_params: 2\n", "r.yaml:3: 'ac_fun_params' wants a map, not '2'" },
        { "ac_mode: selective\nac_option: few\n", "r.yaml:3: 'ac_option' wants a number of layers, or op, not 'few'" },
        { "ac_conditions: my_repo.mine\n", "r.yaml:2: 'ac_conditions' wants a list of conditions, not 'my_repo.mine'" },
        { "memory_efficient_wrapping: maybe\n", "r.yaml:2: 'memory_efficient_wrapping' wants true or false, not 'maybe'" },
        { "recompute_method: block\n", "r.yaml:2: 'recompute_method' is for 'recompute_granularity: full'" },
        { "ac_mode: selective\n", "r.yaml:2: 'ac_mode: selective' needs 'ac_option'" },
        { "ac_option: 2\n", "r.yaml:2: 'ac_option' is for 'ac_mode: selective'" },
        { "ac_conditions: [my_repo.mine]\n", "r.yaml:2: 'my_repo.mine' in 'ac_conditions' has no equivalent; a condition of your own is a 'plugin'" },
        { "custom_sharded_layers: [a]\ndist: {custom_sharded_layers: [a]}\n",
          "r.yaml:2: 'custom_sharded_layers' and 'dist.custom_sharded_layers' set the same thing; keep one" },
    };
    char text[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "%s", cases[i].text);
        assert_error(text, NULL, cases[i].error);
    }
}

/* ---- against a model ---- */

static const rp_recipe_module modules[] = {
    { "tok_embeddings", "Embedding", NULL }, { "tok_embeddings.weight", NULL, NULL }, { "layers", "ModuleList", NULL },
    { "layers.0", "TransformerBlock", NULL }, { "layers.0.attn", "Attention", NULL }, { "layers.0.attn.q", "Linear", NULL },
    { "layers.0.attn_norm", "Norm", NULL }, { "layers.0.attn_norm.weight", NULL, NULL }, { "layers.0.mlp", "MLP", NULL },
    { "layers.1", "TransformerBlock", NULL }, { "layers.1.mlp", "MLP", NULL }, { "norm", "Norm", NULL }, { "output", "Linear", NULL },
};
static const char *const known_ops[] = { "matmul", "linear", "attention", "rmsnorm", "swiglu", "dropout", NULL };

static void names_are_checked_against_the_model(void **state)
{
    (void)state;
    static const struct { const char *text, *reported;
    } cases[] = {
        { "  mode: full\n  layers: lyers\n",
          "r.yaml:4: 'activation_checkpointing.layers': no module matches 'lyers' (did you mean 'layers'?)" },
        { "  mode: full\n  layers: norm\n",
          "r.yaml:4: 'activation_checkpointing.layers': 'norm' is not a list of modules but a module of type Norm" },
        { "  conditions: [{path: \"*.mpl\"}]\n", "r.yaml:3: 'path': no module matches '*.mpl'" },
        { "  conditions: [{path: layers.0.atn}]\n",
          "r.yaml:3: 'path': no module matches 'layers.0.atn' (did you mean 'layers.0.attn'?)" },
        { "  conditions: [{layers: [0, 1-2]}]\n", "r.yaml:3: no block 2: the model has 2, counted from 0" },
        { "  rules: [{op: matmull, fate: keep}]\n", "r.yaml:3: no op is called 'matmull' (did you mean 'matmul'?)" },
        { "  mode: selective_op\n  save: [atention]\n", "r.yaml:4: no op is called 'atention' (did you mean 'attention'?)" },
        { "  mode: full\noptimizer:\n  no_decay: [bias]\n", "r.yaml:5: 'optimizer.no_decay': no module matches 'bias'" },
        { "  mode: full\ndist:\n  custom_sharded_layers: [lm_haed]\n",
          "r.yaml:5: 'dist.custom_sharded_layers': no module matches 'lm_haed'" },
    };
    char text[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        snprintf(text, sizeof text, MODEL "activation_checkpointing:\n%s", cases[i].text);
        reading r = read_one(text, NULL);
        assert_read(&r);
        rp__recipe_check_model(r.recipe, RP_COUNT(modules), modules, known_ops, &r.report);
        assert_reported(&r, cases[i].reported);
        end(&r);
    }
}

static void right_names_pass(void **state)
{
    (void)state;
    reading r = read_one(
        MODEL
        "optimizer: {no_decay: [\"*norm*\", tok_embeddings]}\ndist: {custom_sharded_layers: [tok_embeddings, output]}\n"
        "activation_checkpointing:\n  conditions: [{path: layers.*.attn.q}, {module_type: MLP}, {layers: "
        "[0, 1]}]\n"
        "  rules: [{op: reduce_scatter, fate: keep}, {op: \"*norm\", fate: recompute}]\n",
        NULL);

    assert_read(&r);
    rp__recipe_check_model(r.recipe, RP_COUNT(modules), modules, known_ops, &r.report);
    assert_null(r.report.first);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conditions_and_rules_become_trees),
        cmocka_unit_test(wrong_conditions_and_rules_are_reported),
        cmocka_unit_test(no_plugin_is_loaded_that_nobody_allowed),
        cmocka_unit_test(foreign_keys_are_translated_and_noted),
        cmocka_unit_test(foreign_keys_without_equivalent_are_errors),
        cmocka_unit_test(names_are_checked_against_the_model),
        cmocka_unit_test(right_names_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
