/* recipe/foreign.c -- translates the keys of Modalities, Megatron and torchtune (foreign.def) before the schema walk.
 *
 * Each translation is a note in the report. Errors are: a value without an equivalent, keys of two systems at once, and a foreign key next to a
 * Reprise key of the same meaning.
 */
#include "recipe/internal.h"

#include "base/report.h"
#include "base/yaml.h"

typedef enum { MODALITIES, MEGATRON, TORCHTUNE, SHARDING, N_SYSTEMS } foreign_system;
typedef struct { foreign_system system; const char *key, *main, *word; } foreign_key;
typedef struct { const char *key, *word, *path, *value, *param; } foreign_word;
typedef struct { const char *key, *item, *value; } foreign_item;

#define RP_FOREIGN_KEY(system, key, main, word) { system, key, main, word },
#define RP_FOREIGN_WORD(...)
#define RP_FOREIGN_ITEM(...)
static const foreign_key keys[] = {
#include "recipe/foreign.def"
};
#undef RP_FOREIGN_KEY
#undef RP_FOREIGN_WORD
#define RP_FOREIGN_KEY(...)
#define RP_FOREIGN_WORD(key, word, path, value, param) { key, word, path, value, param },
static const foreign_word words[] = {
#include "recipe/foreign.def"
};
#undef RP_FOREIGN_WORD
#undef RP_FOREIGN_ITEM
#define RP_FOREIGN_WORD(...)
#define RP_FOREIGN_ITEM(key, item, value) { key, item, value },
static const foreign_item items[] = {
#include "recipe/foreign.def"
};

typedef struct {
    rp_recipe_reader *r;
    rp_yaml_node *root;
    rp_yaml_node *found[RP_COUNT(keys)];        /* removed from the tree; NULL: not set */
} foreign;

/* Reports an error at the key of `node`. */
#define KEY_ERROR(t, node, ...) rp__report_error((t)->r->report, rp__yaml_key_place(node), __VA_ARGS__)

bool rp__recipe_is_foreign(const char *key)
{
    for (int i = 0; i < RP_COUNT(keys); i++)
        if (!strcmp(keys[i].key, key)) return true;
    return false;
}

/* ---- the tree ---- */

/* The value of a key of the table; NULL if it is not set. */
static rp_yaml_node *get(const foreign *t, const char *key)
{
    for (int i = 0; i < RP_COUNT(keys); i++)
        if (!strcmp(keys[i].key, key)) return t->found[i];
    return NULL;
}

/* The text of a scalar; "" for a list, a map or NULL. "" equals no word of the table. */
static const char *text_of(const rp_yaml_node *node) { return node && node->kind == RP_YAML_SCALAR ? node->text : ""; }

/* Sets the place of `node` and of all nodes below it. */
static void set_place(rp_yaml_node *node, rp_place place)
{
    node->place    = place;
    node->key_line = place.line;
    for (rp_yaml_node *child = node->first; child; child = child->next) set_place(child, place);
}

/* Sets the key `path` to `value` and notes the translation. `from` is the foreign key's node, `old` its description in the note. */
static rp_status become(foreign *t, const rp_yaml_node *from, const char *old, const char *path, const char *value)
{
    rp_yaml_node *node;
    rp_place place = rp__yaml_key_place(from);

    RP_TRY(rp__yaml_parse(&t->r->recipe->doc, place.origin, value, (int64_t)strlen(value), t->r->report, &node));
    set_place(node, place);
    rp__report_note(t->r->report, place, "'%s' is read as '%s: %s'", old, path, value);
    return rp__recipe_put(t->r, t->root, path, node);
}

/* Sets the key `path` to a copy of the value of `from` and notes the translation. */
static rp_status move(foreign *t, const rp_yaml_node *from, const char *old, const char *path)
{
    rp_yaml_node *node = rp__yaml_copy(&t->r->recipe->doc, from);

    if (!node) return RP_ERR_MEMORY;
    rp__report_note(t->r->report, rp__yaml_key_place(from), "'%s' is read as '%s'", old, path);
    return rp__recipe_put(t->r, t->root, path, node);
}

/* ---- words and items ---- */

/* Appends a name to a list such as "a, b". */
static void add_name(char *all, size_t room, const char *name)
{
    size_t used = strlen(all);

    snprintf(all + used, room - used, "%s%s", used ? ", " : "", name);
}

/* The row of the table for the word in `node`. NULL after a reported error if it is not a known word. */
static const foreign_word *find_word(const foreign *t, const rp_yaml_node *node)
{
    const char *names[RP_COUNT(words) + 1] = { NULL };
    char hint[RP_HINT_CHARS], all[256] = "";
    int n = 0;

    for (int i = 0; i < RP_COUNT(words); i++) {
        if (strcmp(words[i].key, node->key)) continue;
        if (!strcmp(words[i].word, text_of(node))) return &words[i];
        add_name(all, sizeof all, words[i].word);
        names[n++] = words[i].word;
    }
    rp__hint(text_of(node), names, hint);
    KEY_ERROR(t, node, "unknown '%s' '%s'%s%s", node->key, text_of(node), *hint ? hint : "; known: ", *hint ? "" : all);
    return NULL;
}

static rp_status become_word(foreign *t, const rp_yaml_node *node, const foreign_word *w)
{
    char old[96];

    snprintf(old, sizeof old, "%s: %s", w->key, w->word);
    return become(t, node, old, w->path, w->value);
}

/* Compares an item with a row. "torch.ops.aten.mm.default" and "mm" both match "aten.mm". */
static bool is_item(const foreign_item *row, const char *key, const char *name)
{
    char bare[128];
    const char *dot = strrchr(row->item, '.');

    if (!strncmp(name, "torch.", 6)) name += 6;
    if (!strncmp(name, "ops.", 4)) name += 4;
    snprintf(bare, sizeof bare, "%s", name);
    if (rp__ends_with(bare, ".default")) bare[strlen(bare) - 8] = 0;
    return !strcmp(row->key, key) && (!strcmp(bare, row->item) || (dot && !strcmp(bare, dot + 1)));
}

/* The value for an item; NULL after a reported error if it has no equivalent. */
static const char *find_item(const foreign *t, const char *key, const rp_yaml_node *item)
{
    char all[256] = "";

    for (int i = 0; i < RP_COUNT(items); i++) {
        if (is_item(&items[i], key, text_of(item))) return items[i].value;
        if (!strcmp(items[i].key, key)) add_name(all, sizeof all, items[i].item);
    }
    rp__report_error(t->r->report, item->place, "'%s' in '%s' has no equivalent here; these have: %s", text_of(item), key, all);
    return NULL;
}

/* Translates a list, or a single item, to a list in which each value occurs once. */
static rp_status become_items(foreign *t, const rp_yaml_node *list, const char *old, const char *path)
{
    const rp_yaml_node *each = list->kind == RP_YAML_LIST ? list->first : list;
    char text[512]           = "[";

    for (; each; each = list->kind == RP_YAML_LIST ? each->next : NULL) {
        const char *value = find_item(t, list->key, each);
        size_t used       = strlen(text);
        if (value && !strstr(text, value)) snprintf(text + used, sizeof text - used, "%s%s", used > 1 ? ", " : "", value);
    }
    snprintf(text + strlen(text), sizeof text - strlen(text), "]");
    return become(t, list, old, path, text);
}

/* ---- torchtune ---- */

/* Translates ac_mode: selective. ac_option is a number of layers (0 means all) or `op`. */
static rp_status translate_selective_mode(foreign *t, const rp_yaml_node *mode, const rp_yaml_node *option)
{
    int64_t k;

    if (option && !strcmp(text_of(option), "op"))
        return become(t, mode, "ac_mode: selective, ac_option: op", "activation_checkpointing.mode", "selective_op");
    rp_yaml_node plain = option ? *option : (rp_yaml_node){ 0 };
    plain.quoted       = false;                              /* torchtune also accepts "2" */
    if (!option || !rp__yaml_int(&plain, 0, 1048576, &k)) {
        if (option) rp__yaml_mismatch(t->r->report, "ac_option", "a number of layers, or op", option);
        else KEY_ERROR(t, mode, "'ac_mode: selective' needs 'ac_option'");
        return RP_OK;
    }
    if (k == 0) return become(t, mode, "ac_mode: selective, ac_option: 0", "activation_checkpointing.mode", "full");
    char every[32];
    snprintf(every, sizeof every, "%" PRId64, k);
    RP_TRY(become(t, mode, "ac_mode: selective", "activation_checkpointing.mode", "selective_layer"));
    return become(t, option, "ac_option", "activation_checkpointing.every", every);
}

/* Translates a condition of torchtune's proposal: the dotted name of a function, then a map of its arguments. Only the function for every k-th layer
 * has an equivalent; it counts from layer 0. */
static rp_status translate_condition(foreign *t, const rp_yaml_node *name, const rp_yaml_node *args, rp_yaml_node **out)
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

static rp_status translate_conditions(foreign *t, const rp_yaml_node *list)
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

static rp_status torchtune(foreign *t)
{
    const rp_yaml_node *mode = get(t, "ac_mode"), *conditions = get(t, "ac_conditions");

    if (conditions && mode) KEY_ERROR(t, mode, "'ac_mode' and 'ac_conditions' both choose what is checkpointed; keep one");
    if (conditions) return translate_conditions(t, conditions);
    const foreign_word *word = mode ? find_word(t, mode) : NULL;
    if (!word) return RP_OK;
    return word->path ? become_word(t, mode, word) : translate_selective_mode(t, mode, get(t, "ac_option"));
}

static rp_status sharding(foreign *t)
{
    static const char wrapped[] = "dist.custom_sharded_layers";
    const rp_yaml_node *layers = get(t, "custom_sharded_layers"), *reshard = get(t, "fsdp_reshard_after_forward");
    const rp_yaml_node *wrapping = get(t, "memory_efficient_wrapping"), *dist = rp__yaml_find(t->root, "dist");
    bool truth;

    if (reshard && rp__yaml_find(dist, "reshard_after_forward"))
        KEY_ERROR(t, reshard, "'fsdp_reshard_after_forward' and 'dist.reshard_after_forward' set the same thing; keep one");
    else if (reshard) RP_TRY(move(t, reshard, "fsdp_reshard_after_forward", "dist.reshard_after_forward"));
    if (wrapping && !rp__yaml_is_bool(wrapping, &truth)) {
        rp__yaml_mismatch(t->r->report, "memory_efficient_wrapping", "true or false", wrapping);
        wrapping = NULL;
    }
    if ((layers || wrapping) && rp__yaml_find(dist, "custom_sharded_layers"))
        KEY_ERROR(t, layers ? layers : wrapping, "'%s' and '%s' set the same thing; keep one",
                         (layers ? layers : wrapping)->key, wrapped);
    else if (layers && wrapping)
        KEY_ERROR(t, wrapping, "'memory_efficient_wrapping' and 'custom_sharded_layers' set the same thing; keep one");
    else if (layers) return move(t, layers, "custom_sharded_layers", wrapped);
    else if (wrapping && truth)
        return become_word(t, wrapping, find_word(t, wrapping));
    else if (wrapping)
        rp__report_note(t->r->report, rp__yaml_key_place(wrapping), "'memory_efficient_wrapping: false' has no effect");
    return RP_OK;
}

/* ---- Megatron ---- */

static rp_status translate_full(foreign *t, const rp_yaml_node *granularity)
{
    const rp_yaml_node *method = get(t, "recompute_method"), *count = get(t, "recompute_num_layers");
    char old[96], value[96];
    int64_t n;

    if (!method || !count) {
        KEY_ERROR(t, granularity, "'recompute_granularity: full' needs 'recompute_method' and 'recompute_num_layers'");
        return RP_OK;
    }
    if (!rp__yaml_int(count, 1, 1048576, &n)) {
        rp__yaml_mismatch(t->r->report, "recompute_num_layers", "a whole number from 1", count);
        return RP_OK;
    }
    snprintf(old, sizeof old, "recompute_method: %.16s, recompute_num_layers: %" PRId64, text_of(method), n);
    if (!strcmp(text_of(method), "uniform")) {
        if (n > 1)
            rp__report_note(t->r->report, rp__yaml_key_place(count), "each block is a separate region, not %" PRId64 " blocks together", n);
        return become(t, method, old, "activation_checkpointing.mode", "full");
    }
    if (!strcmp(text_of(method), "block")) {
        snprintf(value, sizeof value, "[{layers: {list: [0-%" PRId64 "]}}]", n - 1);
        return become(t, method, old, "activation_checkpointing.conditions", value);
    }
    rp__yaml_mismatch(t->r->report, "recompute_method", "uniform or block", method);
    return RP_OK;
}

static rp_status megatron(foreign *t)
{
    const rp_yaml_node *granularity = get(t, "recompute_granularity"), *modules = get(t, "recompute_modules");
    const foreign_word *word        = granularity ? find_word(t, granularity) : NULL;

    if (!word) return RP_OK;
    if (!word->path) return translate_full(t, granularity);
    if (!modules) return become_word(t, granularity, word);
    if (modules->kind != RP_YAML_MAP) return become_items(t, modules, "recompute_modules", word->path);
    rp__yaml_mismatch(t->r->report, "recompute_modules", "a list of modules", modules);
    return RP_OK;
}

/* ---- Modalities ---- */

/* Reads the parameters of the variant; parameters of other variants are errors. */
static rp_status translate_params(foreign *t, const rp_yaml_node *variant, const foreign_word *word)
{
    const rp_yaml_node *params = get(t, "ac_fun_params"), *wanted = word->param ? rp__yaml_find(params, word->param) : NULL;

    if (params && params->kind != RP_YAML_MAP) rp__yaml_mismatch(t->r->report, "ac_fun_params", "a map", params);
    for (const rp_yaml_node *each = params ? params->first : NULL; each; each = each->next)
        if (each != wanted) KEY_ERROR(t, each, "'ac_fun_params.%s' is no parameter of '%s'", each->key, word->word);
    if (word->param && !wanted) KEY_ERROR(t, variant, "'%s' needs 'ac_fun_params.%s'", word->word, word->param);
    if (!wanted) return RP_OK;
    if (!strcmp(word->param, "ac_freq")) return move(t, wanted, "ac_fun_params.ac_freq", "activation_checkpointing.every");
    if (wanted->kind == RP_YAML_LIST && wanted->n) return become_items(t, wanted, "ac_fun_params.save_ops_keys", "activation_checkpointing.save");
    rp__yaml_mismatch(t->r->report, "ac_fun_params.save_ops_keys", "a list of ops that is not empty", wanted);
    return RP_OK;
}

/* Translates activation_checkpointing_modules: a list of module types, each of which becomes a region. */
static rp_status translate_module_list(foreign *t, const rp_yaml_node *names)
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

static rp_status modalities(foreign *t)
{
    const rp_yaml_node *variant = get(t, "ac_variant"), *layers = get(t, "layers_fqn"), *modules = get(t, "activation_checkpointing_modules");

    if (variant && modules) KEY_ERROR(t, modules, "'activation_checkpointing_modules' and 'ac_variant' both choose what is checkpointed; keep one");
    else if (modules) RP_TRY(translate_module_list(t, modules));
    const foreign_word *word = variant ? find_word(t, variant) : NULL;
    if (!word) return RP_OK;
    RP_TRY(become_word(t, variant, word));
    RP_TRY(translate_params(t, variant, word));
    /* Modalities' own model calls its list of blocks transformer.h; here that is `layers` for every model. */
    if (layers && !strcmp(text_of(layers), "transformer.h")) return become(t, layers, "layers_fqn", "activation_checkpointing.layers", "layers");
    return layers ? move(t, layers, "layers_fqn", "activation_checkpointing.layers") : RP_OK;
}

/* ---- all systems ---- */

/* Moves the foreign keys from the tree into t->found. */
static void collect(foreign *t)
{
    rp_yaml_node *inner = rp__yaml_find(t->root, "activation_checkpointing");

    for (int i = 0; i < RP_COUNT(keys); i++) {
        rp_yaml_node *outer = rp__yaml_find(t->root, keys[i].key), *below = rp__yaml_find(inner, keys[i].key);
        if (outer && below) KEY_ERROR(t, outer, "'%s' is set here and under 'activation_checkpointing'", keys[i].key);
        t->found[i] = outer ? outer : below;
        if (t->found[i] && rp__yaml_is_null(t->found[i])) t->found[i] = NULL;
        if (outer) rp__yaml_remove(t->root, keys[i].key);
        if (below) rp__yaml_remove(inner, keys[i].key);
    }
}

static const rp_yaml_node *first_of(const foreign *t, foreign_system system)
{
    for (int i = 0; i < RP_COUNT(keys); i++)
        if (t->found[i] && keys[i].system == system) return t->found[i];
    return NULL;
}

/* The first key of Reprise that decides checkpointing; NULL if none is set. */
static const char *own_key(const foreign *t)
{
    static const char *const paths[] = {
        "activation_checkpointing.mode", "activation_checkpointing.layers", "activation_checkpointing.every",
        "activation_checkpointing.offset", "activation_checkpointing.save", "activation_checkpointing.conditions",
        "activation_checkpointing.rules",
    };
    const rp_yaml_node *group = rp__yaml_find(t->root, "activation_checkpointing");
    const rp_yaml_node *plain = rp__yaml_find(t->root, "enable_activation_checkpointing");

    if (plain && !rp__yaml_is_null(plain)) return "enable_activation_checkpointing";
    for (int i = 0; i < RP_COUNT(paths); i++)
        if (rp__yaml_find(group, strchr(paths[i], '.') + 1)) return paths[i];
    return NULL;
}

/* Reports keys that lack the main key, or its word, that they need. False if the main key is missing; the system is then not translated. */
static bool check_mains(const foreign *t, foreign_system system)
{
    for (int i = 0; i < RP_COUNT(keys); i++) {
        const foreign_key *k     = &keys[i];
        const rp_yaml_node *main = k->main ? get(t, k->main) : NULL;
        if (k->system != system || !t->found[i] || !k->main) continue;
        if (!main && !k->word) KEY_ERROR(t, t->found[i], "'%s' needs '%s'", k->key, k->main);
        else if (!main || (k->word && strcmp(text_of(main), k->word)))
            KEY_ERROR(t, t->found[i], "'%s' is for '%s: %s'", k->key, k->main, k->word);
        if (!main) return false;
    }
    return true;
}

static void refuse_both(const rp_recipe_reader *r, const rp_yaml_node *at, const char *one, const char *other)
{
    rp__report_error(r->report, rp__yaml_key_place(at), "'%s' and '%s' set the same thing; keep one", one, other);
}

rp_status rp__recipe_translate(rp_recipe_reader *r, rp_yaml_node *root)
{
    static rp_status (*const translate[N_SYSTEMS])(foreign *t) = {
        [MODALITIES] = modalities, [MEGATRON] = megatron, [TORCHTUNE] = torchtune, [SHARDING] = sharding,
    };
    foreign t                  = { .r = r, .root = root };
    const rp_yaml_node *before = NULL;

    collect(&t);
    const char *own = own_key(&t);
    for (int system = 0; system < N_SYSTEMS; system++) {
        const rp_yaml_node *first = first_of(&t, (foreign_system)system);
        bool shards               = system == SHARDING;
        if (!first) continue;
        if (!shards && own) refuse_both(r, first, first->key, own);
        else if (!shards && before) refuse_both(r, first, before->key, first->key);
        else if (check_mains(&t, (foreign_system)system)) RP_TRY(translate[system](&t));
        if (!shards && !before) before = first;
    }
    return RP_OK;
}
