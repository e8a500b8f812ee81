/* recipe/modalities.c -- the keys of Modalities: ac_variant and its parameters, activation_checkpointing_modules. */
#include "recipe/foreign.h"

#include "base/report.h"
#include "base/yaml.h"

static const char *const variants[] = {
    "full_activation_checkpointing",
    "selective_layer_activation_checkpointing",
    "selective_op_activation_checkpointing",
    NULL,
};
static const struct { const char *theirs, *ours; } saved_ops[] = {
    { "aten.mm", "matmul" },
    { "aten._scaled_dot_product_efficient_attention", "attention" },
    { "aten._scaled_dot_product_flash_attention", "attention" },
    { "_c10d_functional.reduce_scatter_tensor", "reduce_scatter" },
    { "aten.max", "max" },
};

/* "torch.ops.aten.mm.default" and the shorter forms; NULL: none of the five. */
static const char *translate_op(const char *name)
{
    char bare[128];

    if (!strncmp(name, "torch.", 6)) name += 6;
    if (!strncmp(name, "ops.", 4)) name += 4;
    size_t n = strlen(name);
    if (n > 8 && !strcmp(name + n - 8, ".default")) n -= 8;
    snprintf(bare, sizeof bare, "%.*s", (int)n, name);
    for (int i = 0; i < RP_COUNT(saved_ops); i++) {
        const char *dot = strrchr(saved_ops[i].theirs, '.');
        if (!strcmp(bare, saved_ops[i].theirs) || !strcmp(bare, dot + 1)) return saved_ops[i].ours;
    }
    return NULL;
}

static rp_status translate_saved_ops(rp_foreign *t, const rp_yaml_node *keys)
{
    const char *theirs[RP_COUNT(saved_ops) + 1] = { NULL };
    rp_foreign_list list = { 0 };
    char hint[RP_HINT_CHARS];

    for (int i = 0; i < RP_COUNT(saved_ops); i++) theirs[i] = saved_ops[i].theirs;
    if (keys->kind != RP_YAML_LIST || !keys->n) {
        rp__yaml_mismatch(t->r->report, "ac_fun_params.save_ops_keys", "a list of ops that is not empty", keys);
        return RP_OK;
    }
    for (const rp_yaml_node *each = keys->first; each; each = each->next) {
        const char *ours = translate_op(rp__foreign_word(each));
        if (!ours) rp__report_error(t->r->report, each->place, "unknown op '%s' in 'save_ops_keys'%s", rp__foreign_word(each),
                                    rp__hint(rp__foreign_word(each), theirs, hint));
        else if (!strstr(list.text, ours)) RP_TRY(rp__foreign_list_add(t, &list, ours, each));
    }
    RP_TRY(rp__foreign_list_end(t, &list, keys));
    return rp__foreign_become(t, keys, "ac_fun_params.save_ops_keys", "activation_checkpointing.save", list.text);
}

/* Parameters of the variant, and of no other. */
static rp_status translate_variant(rp_foreign *t, const rp_yaml_node *variant, int which)
{
    static const char *const mode[]  = { "full", "selective_layer", "selective_op" };
    static const char *const param[] = { "", "ac_freq", "save_ops_keys" };
    const rp_yaml_node *params = rp__foreign_get(t, "ac_fun_params"), *wanted = rp__yaml_find(params, param[which]);
    char old[96];

    snprintf(old, sizeof old, "ac_variant: %s", variants[which]);
    RP_TRY(rp__foreign_become(t, variant, old, "activation_checkpointing.mode", mode[which]));
    if (params && params->kind != RP_YAML_MAP && !rp__yaml_is_null(params))
        rp__yaml_mismatch(t->r->report, "ac_fun_params", "a map", params);
    for (const rp_yaml_node *each = params ? params->first : NULL; each; each = each->next)
        if (each != wanted)
            RP_FOREIGN_ERROR(t, each, "'ac_fun_params.%s' is no parameter of '%s'", each->key, variants[which]);
    if (which == 1 && wanted) return rp__foreign_move(t, wanted, "ac_fun_params.ac_freq", "activation_checkpointing.every");
    if (which == 2 && wanted) return translate_saved_ops(t, wanted);
    if (which) RP_FOREIGN_ERROR(t, variant, "'%s' needs 'ac_fun_params.%s'", variants[which], param[which]);
    return RP_OK;
}

/* activation_checkpointing_modules: types of modules, each of which becomes a region. */
static rp_status translate_module_list(rp_foreign *t, const rp_yaml_node *names)
{
    rp_yaml_doc *doc         = &t->r->recipe->doc;
    rp_yaml_node *conditions = rp__yaml_new(doc, RP_YAML_LIST, names->place);
    rp_yaml_node *condition  = rp__yaml_new(doc, RP_YAML_MAP, names->place);
    rp_yaml_node *types      = rp__yaml_copy(doc, names);

    if (!conditions || !condition || !types) return RP_ERR_MEMORY;
    types->key = "module_type";
    rp__yaml_append(condition, types);
    rp__yaml_append(conditions, condition);
    rp__report_note(
        t->r->report, rp__yaml_key_place(names),
        "'activation_checkpointing_modules' is read as a 'module_type' in 'activation_checkpointing.conditions'");
    return rp__recipe_put(t->r, t->root, "activation_checkpointing.conditions", conditions);
}

rp_status rp__foreign_modalities(rp_foreign *t)
{
    const rp_yaml_node *variant = rp__foreign_get(t, "ac_variant"), *params = rp__foreign_get(t, "ac_fun_params");
    const rp_yaml_node *layers = rp__foreign_get(t, "layers_fqn"), *modules = rp__foreign_get(t, "activation_checkpointing_modules");
    char hint[RP_HINT_CHARS];
    int which = 0;

    if (variant && modules)
        RP_FOREIGN_ERROR(t, modules, "'activation_checkpointing_modules' and 'ac_variant' are two ways of one thing");
    else if (modules) RP_TRY(translate_module_list(t, modules));
    if (!variant && (params || layers)) {
        RP_FOREIGN_ERROR(t, params ? params : layers, "'%s' needs 'ac_variant'", (params ? params : layers)->key);
        return RP_OK;
    }
    if (!variant) return RP_OK;
    while (variants[which] && strcmp(rp__foreign_word(variant), variants[which])) which++;
    if (!variants[which]) {
        RP_FOREIGN_ERROR(t, variant, "unknown 'ac_variant' '%s'%s", rp__foreign_word(variant),
                         rp__hint(rp__foreign_word(variant), variants, hint));
        return RP_OK;
    }
    RP_TRY(translate_variant(t, variant, which));
    /* Their own model's list of blocks is ours, whatever this model's files call it. */
    if (layers && !strcmp(rp__foreign_word(layers), "transformer.h"))
        return rp__foreign_become(t, layers, "layers_fqn", "activation_checkpointing.layers", "layers");
    return layers ? rp__foreign_move(t, layers, "layers_fqn", "activation_checkpointing.layers") : RP_OK;
}
