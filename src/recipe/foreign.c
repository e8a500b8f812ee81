/* recipe/foreign.c -- the keys of Modalities, Megatron and torchtune, turned into ours before the schema sees them.
 *
 * They may stand at the top or under activation_checkpointing. Each translation is a note. What has no equivalent is an
 * error, and so are two systems at once, or a foreign key beside one of ours that says the same thing. */
#include "recipe/foreign.h"

#include "base/report.h"
#include "base/yaml.h"

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

_Static_assert(RP_COUNT(foreign) <= RP_FOREIGN_MOST, "room for what is found of each");

bool rp__recipe_is_foreign(const char *key)
{
    for (int i = 0; i < RP_COUNT(foreign); i++)
        if (!strcmp(foreign[i].key, key)) return true;
    return false;
}

/* ---- the tree ---- */

rp_yaml_node *rp__foreign_get(const rp_foreign *t, const char *key)
{
    for (int i = 0; i < RP_COUNT(foreign); i++)
        if (!strcmp(foreign[i].key, key)) return t->found[i];
    return NULL;
}

const char *rp__foreign_word(const rp_yaml_node *node) { return node->kind == RP_YAML_SCALAR ? node->text : ""; }

void rp__foreign_set_place(rp_yaml_node *node, rp_place place)
{
    node->place    = place;
    node->key_line = place.line;
    for (rp_yaml_node *child = node->first; child; child = child->next) rp__foreign_set_place(child, place);
}

rp_status rp__foreign_become(rp_foreign *t, const rp_yaml_node *from, const char *old, const char *path, const char *value)
{
    rp_yaml_node *node;
    rp_place place = rp__yaml_key_place(from);

    RP_TRY(rp__yaml_parse(&t->r->recipe->doc, place.origin, value, (int64_t)strlen(value), t->r->report, &node));
    rp__foreign_set_place(node, place);
    rp__report_note(t->r->report, place, "'%s' is read as '%s: %s'", old, path, value);
    return rp__recipe_put(t->r, t->root, path, node);
}

rp_status rp__foreign_move(rp_foreign *t, const rp_yaml_node *from, const char *old, const char *path)
{
    rp_yaml_node *node = rp__yaml_copy(&t->r->recipe->doc, from);

    if (!node) return RP_ERR_MEMORY;
    rp__report_note(t->r->report, rp__yaml_key_place(from), "'%s' is read as '%s'", old, path);
    return rp__recipe_put(t->r, t->root, path, node);
}

static rp_status add_text(rp_foreign *t, rp_foreign_list *list, const char *more, const rp_yaml_node *at)
{
    size_t n = strlen(more);

    if (list->used + n + 1 > sizeof list->text) {
        rp__report_error(t->r->report, at->place, "too many entries to translate");
        return RP_ERR_CONFIG;
    }
    memcpy(list->text + list->used, more, n + 1);
    list->used += n;
    return RP_OK;
}

rp_status rp__foreign_list_add(rp_foreign *t, rp_foreign_list *list, const char *item, const rp_yaml_node *at)
{
    RP_TRY(add_text(t, list, list->used ? ", " : "[", at));
    return add_text(t, list, item, at);
}

rp_status rp__foreign_list_end(rp_foreign *t, rp_foreign_list *list, const rp_yaml_node *at)
{
    return add_text(t, list, list->used ? "]" : "[]", at);
}

/* ---- all ---- */

/* Take the foreign keys out of the tree. */
static void collect(rp_foreign *t)
{
    rp_yaml_node *inner = rp__yaml_find(t->root, "activation_checkpointing");

    for (int i = 0; i < RP_COUNT(foreign); i++) {
        rp_yaml_node *outer = rp__yaml_find(t->root, foreign[i].key), *below = rp__yaml_find(inner, foreign[i].key);
        if (outer && below) RP_FOREIGN_ERROR(t, outer, "'%s' is set here and under 'activation_checkpointing'", foreign[i].key);
        t->found[i] = outer ? outer : below;
        if (t->found[i] && rp__yaml_is_null(t->found[i])) t->found[i] = NULL;
        if (outer) rp__yaml_remove(t->root, foreign[i].key);
        if (below) rp__yaml_remove(inner, foreign[i].key);
    }
}

static const rp_yaml_node *first_of(const rp_foreign *t, foreign_group group)
{
    for (int i = 0; i < RP_COUNT(foreign); i++)
        if (t->found[i] && foreign[i].group == group) return t->found[i];
    return NULL;
}

/* One of our own keys that decides what is checkpointed; NULL: none is set. */
static const char *own_key(const rp_foreign *t)
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

rp_status rp__recipe_translate(rp_recipe_reader *r, rp_yaml_node *root)
{
    static rp_status (*const translate[N_GROUPS])(rp_foreign *t) = {
        [MODALITIES] = rp__foreign_modalities, [MEGATRON] = rp__foreign_megatron, [TORCHTUNE] = rp__foreign_torchtune,
        [SHARDING] = rp__foreign_sharding,
    };
    rp_foreign t = { .r = r, .root = root };
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
