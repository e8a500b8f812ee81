/* train/recipe_foreign.c -- the keys of Modalities, Megatron and torchtune, turned into ours before the schema sees them.
 *
 * They may stand at the top or under activation_checkpointing. Each translation is a note. What has no equivalent is an
 * error, and so are two systems at once, or a foreign key beside one of ours that says the same thing. */
#include "train/recipe_internal.h"

typedef enum { MODALITIES, MEGATRON, TORCHTUNE, SHARDING, N_GROUPS } foreign_group;

static const struct { const char *key; foreign_group group; } foreign[] = {
    { "ac_variant", MODALITIES }, { "layers_fqn", MODALITIES }, { "ac_fun_params", MODALITIES },
    { "activation_checkpointing_modules", MODALITIES },
    { "recompute_granularity", MEGATRON }, { "recompute_method", MEGATRON }, { "recompute_num_layers", MEGATRON },
    { "recompute_modules", MEGATRON },
    { "ac_mode", TORCHTUNE }, { "ac_option", TORCHTUNE }, { "ac_conditions", TORCHTUNE },
    { "custom_sharded_layers", SHARDING }, { "fsdp_reshard_after_forward", SHARDING },
    { "memory_efficient_wrapping", SHARDING },
};

typedef struct {
    rp_recipe_reader *r;
    rp_yaml_node *root;
    rp_yaml_node *found[RP_COUNT(foreign)];                  /* in the order of the table */
} translation;

bool rp__recipe_is_foreign(const char *key)
{
    for (int i = 0; i < RP_COUNT(foreign); i++)
        if (!strcmp(foreign[i].key, key)) return true;
    return false;
}

/* ---- the tree ---- */

static rp_yaml_node *get(const translation *t, const char *key)
{
    for (int i = 0; i < RP_COUNT(foreign); i++)
        if (!strcmp(foreign[i].key, key)) return t->found[i];
    return NULL;
}

#define COMPLAIN(t, node, ...) rp__report_error((t)->r->report, rp__yaml_key_place(node), __VA_ARGS__)

/* The scalar's text; "" for a list or a map, which no word equals. */
static const char *word(const rp_yaml_node *node) { return node->kind == RP_YAML_SCALAR ? node->text : ""; }

static void set_place(rp_yaml_node *node, rp_place place)
{
    node->place    = place;
    node->key_line = place.line;
    for (rp_yaml_node *child = node->first; child; child = child->next) set_place(child, place);
}

/* The key `path` gets a value written here; `old` stood at `from`. */
static rp_status become(translation *t, const rp_yaml_node *from, const char *old, const char *path, const char *value)
{
    rp_yaml_node *node;
    rp_place place = rp__yaml_key_place(from);

    RP_TRY(rp__yaml_parse(&t->r->recipe->doc, place.origin, value, (int64_t)strlen(value), t->r->report, &node));
    set_place(node, place);
    rp__report_note(t->r->report, place, "'%s' is read as '%s: %s'", old, path, value);
    return rp__recipe_put(t->r, t->root, path, node);
}

/* The key `path` gets the value of `from`, as it is. */
static rp_status move(translation *t, const rp_yaml_node *from, const char *old, const char *path)
{
    rp_yaml_node *node = rp__yaml_copy(&t->r->recipe->doc, from);

    if (!node) return RP_ERR_MEMORY;
    rp__report_note(t->r->report, rp__yaml_key_place(from), "'%s' is read as '%s'", old, path);
    return rp__recipe_put(t->r, t->root, path, node);
}

static rp_status add_text(translation *t, char *out, size_t out_bytes, size_t *used, const char *more,
                          const rp_yaml_node *at)
{
    size_t n = strlen(more);

    if (*used + n + 1 > out_bytes) {
        rp__report_error(t->r->report, at->place, "too many entries to translate");
        return RP_ERR_CONFIG;
    }
    memcpy(out + *used, more, n + 1);
    *used += n;
    return RP_OK;
}

/* ---- Modalities ---- */

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

static rp_status translate_saved_ops(translation *t, const rp_yaml_node *keys)
{
    const char *theirs[RP_COUNT(saved_ops) + 1] = { NULL };
    char value[256] = "[", hint[RP_HINT_CHARS];
    size_t used     = 1;

    for (int i = 0; i < RP_COUNT(saved_ops); i++) theirs[i] = saved_ops[i].theirs;
    if (keys->kind != RP_YAML_LIST || !keys->n) {
        rp__yaml_mismatch(t->r->report, "ac_fun_params.save_ops_keys", "a list of ops that is not empty", keys);
        return RP_OK;
    }
    for (const rp_yaml_node *each = keys->first; each; each = each->next) {
        const char *ours = translate_op(word(each));
        if (!ours) rp__report_error(t->r->report, each->place, "unknown op '%s' in 'save_ops_keys'%s", word(each),
                                    rp__hint(word(each), theirs, hint));
        else if (!strstr(value, ours)) {
            if (used > 1) RP_TRY(add_text(t, value, sizeof value, &used, ", ", each));
            RP_TRY(add_text(t, value, sizeof value, &used, ours, each));
        }
    }
    RP_TRY(add_text(t, value, sizeof value, &used, "]", keys));
    return become(t, keys, "ac_fun_params.save_ops_keys", "activation_checkpointing.save", value);
}

/* Parameters of the variant, and of no other. */
static rp_status translate_variant(translation *t, const rp_yaml_node *variant, int which)
{
    static const char *const mode[]  = { "full", "selective_layer", "selective_op" };
    static const char *const param[] = { "", "ac_freq", "save_ops_keys" };
    const rp_yaml_node *params = get(t, "ac_fun_params"), *wanted = rp__yaml_find(params, param[which]);
    char old[96];

    snprintf(old, sizeof old, "ac_variant: %s", variants[which]);
    RP_TRY(become(t, variant, old, "activation_checkpointing.mode", mode[which]));
    if (params && params->kind != RP_YAML_MAP && !rp__yaml_is_null(params))
        rp__yaml_mismatch(t->r->report, "ac_fun_params", "a map", params);
    for (const rp_yaml_node *each = params ? params->first : NULL; each; each = each->next)
        if (each != wanted)
            COMPLAIN(t, each, "'ac_fun_params.%s' is no parameter of '%s'", each->key, variants[which]);
    if (which == 1 && wanted) return move(t, wanted, "ac_fun_params.ac_freq", "activation_checkpointing.every");
    if (which == 2 && wanted) return translate_saved_ops(t, wanted);
    if (which) COMPLAIN(t, variant, "'%s' needs 'ac_fun_params.%s'", variants[which], param[which]);
    return RP_OK;
}

/* activation_checkpointing_modules: types of modules, each of which becomes a region. */
static rp_status translate_module_list(translation *t, const rp_yaml_node *names)
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

static rp_status translate_modalities(translation *t)
{
    const rp_yaml_node *variant = get(t, "ac_variant"), *layers = get(t, "layers_fqn"), *params = get(t, "ac_fun_params");
    const rp_yaml_node *modules = get(t, "activation_checkpointing_modules");
    char hint[RP_HINT_CHARS];
    int which = 0;

    if (variant && modules)
        COMPLAIN(t, modules, "'activation_checkpointing_modules' and 'ac_variant' are two ways of one thing");
    else if (modules) RP_TRY(translate_module_list(t, modules));
    if (!variant && (params || layers)) {
        COMPLAIN(t, params ? params : layers, "'%s' needs 'ac_variant'", (params ? params : layers)->key);
        return RP_OK;
    }
    if (!variant) return RP_OK;
    while (variants[which] && strcmp(word(variant), variants[which])) which++;
    if (!variants[which]) {
        COMPLAIN(t, variant, "unknown 'ac_variant' '%s'%s", word(variant),
                         rp__hint(word(variant), variants, hint));
        return RP_OK;
    }
    RP_TRY(translate_variant(t, variant, which));
    return layers ? move(t, layers, "layers_fqn", "activation_checkpointing.layers") : RP_OK;
}

/* ---- Megatron ---- */

static rp_status translate_full(translation *t, const rp_yaml_node *granularity)
{
    const rp_yaml_node *method = get(t, "recompute_method"), *count = get(t, "recompute_num_layers");
    char old[96], value[96];
    int64_t n;

    if (!method || !count) {
        COMPLAIN(t, granularity, "'recompute_granularity: full' needs 'recompute_method' and 'recompute_num_layers'");
        return RP_OK;
    }
    if (!rp__yaml_int(count, 1, 1048576, &n)) {
        rp__yaml_mismatch(t->r->report, "recompute_num_layers", "a whole number from 1", count);
        return RP_OK;
    }
    snprintf(old, sizeof old, "recompute_method: %.16s, recompute_num_layers: %" PRId64, word(method), n);
    if (!strcmp(word(method), "uniform")) {
        if (n > 1)
            rp__report_note(t->r->report, rp__yaml_key_place(count), "each block is a region of its own, not %" PRId64 " together", n);
        return become(t, method, old, "activation_checkpointing.mode", "full");
    }
    if (!strcmp(word(method), "block")) {
        snprintf(value, sizeof value, "[{layers: {list: [0-%" PRId64 "]}}]", n - 1);
        return become(t, method, old, "activation_checkpointing.conditions", value);
    }
    rp__yaml_mismatch(t->r->report, "recompute_method", "uniform or block", method);
    return RP_OK;
}

/* core_attn is the default when no module is named. */
static rp_status translate_selective(translation *t, const rp_yaml_node *granularity)
{
    static const struct { const char *theirs, *rule; } table[] = {
        { "core_attn", "{op: attention, fate: recompute}" },
        { "mlp", "{path: \"*.mlp\", fate: recompute}" },
        { "layernorm", "{type: Norm, fate: recompute}" },
    };
    const rp_yaml_node *modules = get(t, "recompute_modules"), *forbidden = get(t, "recompute_method");
    char value[512] = "[";
    size_t used     = 1;

    if (!forbidden) forbidden = get(t, "recompute_num_layers");
    if (forbidden) COMPLAIN(t, forbidden, "'%s' is for 'recompute_granularity: full'", forbidden->key);
    if (!modules) return become(t, granularity, "recompute_granularity: selective", "activation_checkpointing.rules",
                                "[{op: attention, fate: recompute}]");
    if (modules->kind == RP_YAML_MAP || rp__yaml_is_null(modules)) {
        rp__yaml_mismatch(t->r->report, "recompute_modules", "a list of modules", modules);
        return RP_OK;
    }
    const rp_yaml_node *each = modules->kind == RP_YAML_LIST ? modules->first : modules;
    for (; each; each = modules->kind == RP_YAML_LIST ? each->next : NULL) {
        int i = 0;
        while (i < RP_COUNT(table) && strcmp(word(each), table[i].theirs)) i++;
        if (i == RP_COUNT(table)) {
            rp__report_error(t->r->report, each->place,
                             "'%s' in 'recompute_modules' has no equivalent here (core_attn, mlp and layernorm have)",
                             word(each));
            continue;
        }
        if (used > 1) RP_TRY(add_text(t, value, sizeof value, &used, ", ", each));
        RP_TRY(add_text(t, value, sizeof value, &used, table[i].rule, each));
    }
    RP_TRY(add_text(t, value, sizeof value, &used, "]", modules));
    return become(t, modules, "recompute_modules", "activation_checkpointing.rules", value);
}

static rp_status translate_megatron(translation *t)
{
    const rp_yaml_node *granularity = get(t, "recompute_granularity"), *modules = get(t, "recompute_modules");
    const rp_yaml_node *first       = modules ? modules : get(t, "recompute_method");

    if (!first) first = get(t, "recompute_num_layers");
    if (!granularity && first) COMPLAIN(t, first, "'%s' needs 'recompute_granularity'", first->key);
    if (!granularity) return RP_OK;
    if (!strcmp(word(granularity), "selective")) return translate_selective(t, granularity);
    if (strcmp(word(granularity), "full")) {
        rp__yaml_mismatch(t->r->report, "recompute_granularity", "full or selective", granularity);
        return RP_OK;
    }
    if (modules) COMPLAIN(t, modules, "'recompute_modules' is for 'recompute_granularity: selective'");
    return translate_full(t, granularity);
}

/* ---- torchtune ---- */

/* ac_option: a number of layers (0 means all), or op. */
static rp_status translate_selective_mode(translation *t, const rp_yaml_node *mode, const rp_yaml_node *option)
{
    int64_t k;

    if (option && !strcmp(word(option), "op"))
        return become(t, mode, "ac_mode: selective, ac_option: op", "activation_checkpointing.mode", "selective_op");
    rp_yaml_node plain = option ? *option : (rp_yaml_node){ 0 };
    plain.quoted       = false;                              /* torchtune takes "2" as well */
    if (!option || !rp__yaml_int(&plain, 0, 1048576, &k)) {
        if (option) rp__yaml_mismatch(t->r->report, "ac_option", "a number of layers, or op", option);
        else COMPLAIN(t, mode, "'ac_mode: selective' needs 'ac_option'");
        return RP_OK;
    }
    if (k == 0) return become(t, mode, "ac_mode: selective, ac_option: 0", "activation_checkpointing.mode", "full");
    char every[32];
    snprintf(every, sizeof every, "%" PRId64, k);
    RP_TRY(become(t, mode, "ac_mode: selective", "activation_checkpointing.mode", "selective_layer"));
    return become(t, option, "ac_option", "activation_checkpointing.every", every);
}

/* A condition of torchtune's proposal: the dotted name of a function, then a map with its arguments. Only the one for
 * every k-th layer has an equivalent; it counts from layer 0. */
static rp_status translate_condition(translation *t, const rp_yaml_node *name, const rp_yaml_node *args, rp_yaml_node **out)
{
    const rp_yaml_node *k = rp__yaml_find(args, "k");
    const char *dot       = strrchr(name->text, '.');
    char value[96];
    int64_t n;

    *out = NULL;
    if (strcmp(dot ? dot + 1 : name->text, "selective_active_checkpointing_condition")) {
        rp__report_error(t->r->report, name->place,
                         "'%s' in 'ac_conditions' has no equivalent; a condition of your own is a 'plugin'", name->text);
        return RP_OK;
    }
    if (!k || !rp__yaml_int(k, 1, 1048576, &n)) {
        rp__report_error(t->r->report, name->place, "'%s' needs 'k', a whole number from 1", name->text);
        return RP_OK;
    }
    snprintf(value, sizeof value, "{every_k_layers: {k: %" PRId64 ", offset: 1}}", n);
    rp__report_note(t->r->report, name->place, "'%s' is read as '%s'", name->text, value);
    RP_TRY(rp__yaml_parse(&t->r->recipe->doc, name->place.origin, value, (int64_t)strlen(value), t->r->report, out));
    set_place(*out, name->place);
    return RP_OK;
}

static rp_status translate_conditions(translation *t, const rp_yaml_node *list)
{
    rp_yaml_node *ours = rp__yaml_new(&t->r->recipe->doc, RP_YAML_LIST, list->place);

    if (!ours) return RP_ERR_MEMORY;
    if (list->kind != RP_YAML_LIST) {
        rp__yaml_mismatch(t->r->report, "ac_conditions", "a list of conditions", list);
        return RP_OK;
    }
    for (const rp_yaml_node *each = list->first; each; each = each->next) {
        const rp_yaml_node *args = each->next;
        rp_yaml_node *made;
        if (rp__yaml_is_text(each)) {
            RP_TRY(translate_condition(t, each, args, &made));
            if (args && rp__yaml_find(args, "k")) each = args;
        } else {
            made = rp__yaml_copy(&t->r->recipe->doc, each);
            if (!made) return RP_ERR_MEMORY;
        }
        if (made) rp__yaml_append(ours, made);
    }
    rp__report_note(t->r->report, rp__yaml_key_place(list), "'ac_conditions' is read as 'activation_checkpointing.conditions'");
    return rp__recipe_put(t->r, t->root, "activation_checkpointing.conditions", ours);
}

static rp_status translate_torchtune(translation *t)
{
    static const char *const modes[] = { "none", "full", "selective", NULL };
    const rp_yaml_node *mode = get(t, "ac_mode"), *option = get(t, "ac_option"), *conditions = get(t, "ac_conditions");
    char hint[RP_HINT_CHARS];

    if (conditions) RP_TRY(translate_conditions(t, conditions));
    if (conditions && mode)
        COMPLAIN(t, mode, "'ac_mode' and 'ac_conditions' are two ways of one thing");
    if (option && (!mode || strcmp(word(mode), "selective")))
        COMPLAIN(t, option, "'ac_option' is for 'ac_mode: selective'");
    if (!mode || conditions) return RP_OK;
    if (!strcmp(word(mode), "selective")) return translate_selective_mode(t, mode, option);
    if (!strcmp(word(mode), "full")) return become(t, mode, "ac_mode: full", "activation_checkpointing.mode", "full");
    if (!strcmp(word(mode), "none")) return become(t, mode, "ac_mode: none", "activation_checkpointing.mode", "none");
    COMPLAIN(t, mode, "unknown 'ac_mode' '%s'%s", word(mode), rp__hint(word(mode), modes, hint));
    return RP_OK;
}

static rp_status translate_sharding(translation *t)
{
    static const char wrapped[] = "dist.custom_sharded_layers";
    const rp_yaml_node *layers = get(t, "custom_sharded_layers"), *reshard = get(t, "fsdp_reshard_after_forward");
    const rp_yaml_node *wrapping = get(t, "memory_efficient_wrapping"), *dist = rp__yaml_find(t->root, "dist");
    bool truth;

    if (reshard && rp__yaml_find(dist, "reshard_after_forward"))
        COMPLAIN(t, reshard, "'fsdp_reshard_after_forward' and 'dist.reshard_after_forward' say the same thing; keep one");
    else if (reshard) RP_TRY(move(t, reshard, "fsdp_reshard_after_forward", "dist.reshard_after_forward"));
    if (wrapping && !rp__yaml_is_bool(wrapping, &truth)) {
        rp__yaml_mismatch(t->r->report, "memory_efficient_wrapping", "true or false", wrapping);
        wrapping = NULL;
    }
    if ((layers || wrapping) && rp__yaml_find(dist, "custom_sharded_layers"))
        COMPLAIN(t, layers ? layers : wrapping, "'%s' and '%s' say the same thing; keep one",
                         (layers ? layers : wrapping)->key, wrapped);
    else if (layers && wrapping)
        COMPLAIN(t, wrapping, "'memory_efficient_wrapping' and 'custom_sharded_layers' say the same thing; keep one");
    else if (layers) return move(t, layers, "custom_sharded_layers", wrapped);
    else if (wrapping && truth)
        return become(t, wrapping, "memory_efficient_wrapping: true", wrapped, "[tok_embeddings, output]");
    else if (wrapping)
        rp__report_note(t->r->report, rp__yaml_key_place(wrapping), "'memory_efficient_wrapping: false' changes nothing");
    return RP_OK;
}

/* ---- all ---- */

/* Take the foreign keys out of the tree. */
static void collect(translation *t)
{
    rp_yaml_node *inner = rp__yaml_find(t->root, "activation_checkpointing");

    for (int i = 0; i < RP_COUNT(foreign); i++) {
        rp_yaml_node *outer = rp__yaml_find(t->root, foreign[i].key), *below = rp__yaml_find(inner, foreign[i].key);
        if (outer && below) COMPLAIN(t, outer, "'%s' is set here and under 'activation_checkpointing'", foreign[i].key);
        t->found[i] = outer ? outer : below;
        if (t->found[i] && rp__yaml_is_null(t->found[i])) t->found[i] = NULL;
        if (outer) rp__yaml_remove(t->root, foreign[i].key);
        if (below) rp__yaml_remove(inner, foreign[i].key);
    }
}

static const rp_yaml_node *first_of(const translation *t, foreign_group group)
{
    for (int i = 0; i < RP_COUNT(foreign); i++)
        if (t->found[i] && foreign[i].group == group) return t->found[i];
    return NULL;
}

/* One of our own keys that decides what is checkpointed; NULL: none is set. */
static const char *own_key(const translation *t)
{
    static const char *const keys[] = { "mode", "layers", "every", "offset", "save", "conditions", "rules" };
    static const char *const paths[] = {
        "activation_checkpointing.mode", "activation_checkpointing.layers", "activation_checkpointing.every",
        "activation_checkpointing.offset", "activation_checkpointing.save", "activation_checkpointing.conditions",
        "activation_checkpointing.rules",
    };
    const rp_yaml_node *group = rp__yaml_find(t->root, "activation_checkpointing");
    const rp_yaml_node *plain = rp__yaml_find(t->root, "enable_activation_checkpointing");

    if (plain && !rp__yaml_is_null(plain)) return "enable_activation_checkpointing";
    for (int i = 0; i < RP_COUNT(keys); i++)
        if (rp__yaml_find(group, keys[i])) return paths[i];
    return NULL;
}

rp_status rp__recipe_translate(rp_recipe_reader *r, rp_yaml_node *root)
{
    static rp_status (*const translate[N_GROUPS])(translation *t) = {
        [MODALITIES] = translate_modalities, [MEGATRON] = translate_megatron, [TORCHTUNE] = translate_torchtune,
        [SHARDING] = translate_sharding,
    };
    translation t = { .r = r, .root = root };
    const rp_yaml_node *before = NULL;

    collect(&t);
    const char *own = own_key(&t);
    for (int group = 0; group < N_GROUPS; group++) {
        const rp_yaml_node *first = first_of(&t, (foreign_group)group);
        bool shards               = group == SHARDING;
        if (!first) continue;
        if (!shards && own)
            rp__report_error(r->report, rp__yaml_key_place(first), "'%s' and '%s' say the same thing in two ways; keep one",
                             first->key, own);
        else if (!shards && before)
            rp__report_error(r->report, rp__yaml_key_place(first), "'%s' and '%s' say the same thing in two ways; keep one",
                             before->key, first->key);
        else RP_TRY(translate[group](&t));
        if (!shards && !before) before = first;
    }
    return RP_OK;
}
