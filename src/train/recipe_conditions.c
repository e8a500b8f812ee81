/* train/recipe_conditions.c -- conditions and rules: from the tree into structs that keep their lines.
 *
 *   condition   one key, its name, with its fields: { every_k_layers: { k: 4 } }; the short forms leave the inner map
 *               out where it has one field: { path: "*.mlp" }, { module_type: MLP }, { layers: [0, 3, 7-9] }
 *   rule        several conditions, all of which must hold, and a fate
 *
 * One table serves both. What asks about slots (op, call, sizes) is refused where modules are asked about. */
#include "train/recipe_internal.h"

typedef struct {
    const char *name;
    rp_condition_kind kind;
    bool slots_only;
    const char *fields;                                      /* of the map form, the required one first; NULL: none */
    rp_status (*read)(rp_recipe_reader *r, const rp_yaml_node *value, rp_recipe_condition *c);
} condition_kind;

static const condition_kind kinds[RP_CONDITION_EVERY + 1];
static rp_status read_condition(rp_recipe_reader *r, const rp_yaml_node *node, bool slots, rp_recipe_condition **out);

/* ---- names ---- */

const char *const rp__recipe_module_types[] = {
    "TransformerBlock", "Attention", "MLP", "Norm", "Linear", "Embedding", NULL
};

const char *rp__recipe_module_type(const char *name)
{
    static const char *const blocks[] = {
        "TransformerSelfAttentionLayer", "GPT2Block", "LlamaDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer",
    };

    for (int i = 0; rp__recipe_module_types[i]; i++)
        if (!strcmp(name, rp__recipe_module_types[i])) return rp__recipe_module_types[i];
    for (int i = 0; i < RP_COUNT(blocks); i++)
        if (!strcmp(name, blocks[i])) return rp__recipe_module_types[0];
    return NULL;
}

static const struct { const char *name; rp_recipe_fate fate; } fates[] = {
    { "keep", RP_FATE_KEEP }, { "recompute", RP_FATE_RECOMPUTE }, { "offload", RP_FATE_OFFLOAD },
    { "prefer_keep", RP_FATE_PREFER_KEEP }, { "prefer_recompute", RP_FATE_PREFER_RECOMPUTE },
    { "prefer_offload", RP_FATE_PREFER_OFFLOAD },
    { "save", RP_FATE_KEEP }, { "must_save", RP_FATE_KEEP }, { "must_keep", RP_FATE_KEEP },
    { "must_recompute", RP_FATE_RECOMPUTE }, { "must_offload", RP_FATE_OFFLOAD }, { "must_cpu_offload", RP_FATE_OFFLOAD },
    { "prefer_save", RP_FATE_PREFER_KEEP }, { "prefer_cpu_offload", RP_FATE_PREFER_OFFLOAD },
};

/* ---- fields ---- */

static bool in_words(const char *word, const char *words)
{
    size_t n = strlen(word);

    for (const char *p = words; *p;) {
        size_t len = strcspn(p, " ");
        if (len == n && !strncmp(p, word, n)) return true;
        p += len + (p[len] == ' ');
    }
    return false;
}

static void unknown_field(rp_recipe_reader *r, const rp_yaml_node *field, const char *of, const char *fields)
{
    rp__report_error(r->report, (rp_place){ field->place.origin, field->key_line },
                     "unknown field '%s' of '%s' (it has: %s)", field->key, of, fields);
}

/* The value of the first field when `value` is the map form, `value` itself when it is the short one. NULL after a
 * reported error. */
static const rp_yaml_node *first_field(rp_recipe_reader *r, const condition_kind *kind, const rp_yaml_node *value)
{
    char first[32];

    if (value->kind != RP_YAML_MAP || !kind->fields) return value;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(kind->fields, " "), kind->fields);
    for (const rp_yaml_node *field = value->first; field; field = field->next)
        if (!in_words(field->key, kind->fields)) unknown_field(r, field, kind->name, kind->fields);
    const rp_yaml_node *found = rp__yaml_find(value, first);
    if (!found) rp__report_error(r->report, value->place, "'%s' needs the field '%s'", kind->name, first);
    return found;
}

static rp_status read_int_field(rp_recipe_reader *r, const char *name, const rp_yaml_node *node, int64_t low, int64_t *out)
{
    char wants[RP_WANTS_CHARS];

    if (rp__recipe_scalar_int(node, low, INT64_C(1) << 53, out)) return RP_OK;
    snprintf(wants, sizeof wants, "a whole number from %" PRId64, low);
    rp__recipe_mismatch(r, name, wants, node);
    return RP_OK;
}

/* k and offset of every_k_layers and every. */
static rp_status read_every(rp_recipe_reader *r, const condition_kind *kind, const rp_yaml_node *value,
                            rp_recipe_condition *c)
{
    const rp_yaml_node *k = first_field(r, kind, value), *offset = rp__yaml_find(value, "offset");
    char name[64];

    c->k = 1;
    snprintf(name, sizeof name, "%s.k", kind->name);
    if (k) RP_TRY(read_int_field(r, name, k, 1, &c->k));
    snprintf(name, sizeof name, "%s.offset", kind->name);
    return offset ? read_int_field(r, name, offset, 0, &c->offset) : RP_OK;
}

static rp_status read_glob(rp_recipe_reader *r, const condition_kind *kind, const rp_yaml_node *value,
                           rp_recipe_condition *c)
{
    const rp_yaml_node *glob = first_field(r, kind, value);

    if (!glob) return RP_OK;
    if (rp__recipe_scalar_text(glob)) c->glob = glob->text;
    else rp__recipe_mismatch(r, kind->name, "a glob", glob);
    return RP_OK;
}

static bool read_range(const char *text, rp_layer_range *out)
{
    char first[32];
    size_t n = strcspn(text, "-");

    if (n == 0 || n >= sizeof first) return false;
    snprintf(first, sizeof first, "%.*s", (int)n, text);
    if (!rp__parse_int(first, 0, 1048576, &out->first)) return false;
    if (!text[n]) out->last = out->first;
    else if (!rp__parse_int(text + n + 1, out->first, 1048576, &out->last) || text[n + 1] == '+') return false;
    return true;
}

/* ---- one function a condition ---- */

#define READ(name) static rp_status read_##name(rp_recipe_reader *r, const rp_yaml_node *value, rp_recipe_condition *c)

READ(every_k_layers) { return read_every(r, &kinds[RP_CONDITION_EVERY_K_LAYERS], value, c); }
READ(every_slot) { return read_every(r, &kinds[RP_CONDITION_EVERY], value, c); }
READ(op) { return read_glob(r, &kinds[RP_CONDITION_OP], value, c); }

READ(path)
{
    RP_TRY(read_glob(r, &kinds[RP_CONDITION_PATH], value, c));
    if (!c->glob) return RP_OK;
    c->glob = rp__recipe_module_path(r, c->glob);
    return c->glob ? RP_OK : RP_ERR_MEMORY;
}

READ(layers)
{
    const rp_yaml_node *list = first_field(r, &kinds[RP_CONDITION_LAYERS], value);

    if (!list) return RP_OK;
    if (list->kind != RP_YAML_LIST || !list->n) {
        rp__recipe_mismatch(r, "layers", "a list of block numbers and ranges such as [0, 3, 7-9]", list);
        return RP_OK;
    }
    c->range = rp__bump_alloc(&r->recipe->doc.bump, list->n * (int64_t)sizeof *c->range);
    if (!c->range) return RP_ERR_MEMORY;
    for (const rp_yaml_node *each = list->first; each; each = each->next) {
        if (each->kind == RP_YAML_SCALAR && read_range(each->text, &c->range[c->n_ranges])) c->n_ranges++;
        else rp__recipe_mismatch(r, "layers", "block numbers from 0 and ranges such as 7-9", each);
    }
    return RP_OK;
}

READ(module_type)
{
    const rp_yaml_node *list = first_field(r, &kinds[RP_CONDITION_MODULE_TYPE], value), *each = list;
    char hint[RP_HINT_CHARS];

    if (!list) return RP_OK;
    if (list->kind == RP_YAML_LIST) each = list->first;
    c->types.item = rp__bump_alloc(&r->recipe->doc.bump, (list->n + 1) * (int64_t)sizeof *c->types.item);
    if (!c->types.item) return RP_ERR_MEMORY;
    for (; each; each = list->kind == RP_YAML_LIST ? each->next : NULL) {
        const char *ours = rp__recipe_scalar_text(each) ? rp__recipe_module_type(each->text) : NULL;
        if (ours) c->types.item[c->types.n++] = ours;
        else if (!rp__recipe_scalar_text(each)) rp__recipe_mismatch(r, "module_type", "module types", each);
        else rp__report_error(r->report, each->place, "unknown module type '%s'%s", each->text,
                              rp__recipe_hint(each->text, rp__recipe_module_types, hint));
    }
    if (list->kind == RP_YAML_LIST && !list->n) rp__recipe_mismatch(r, "module_type", "module types", list);
    return RP_OK;
}

READ(plugin)
{
    const char *fields = kinds[RP_CONDITION_PLUGIN].fields;

    if (value->kind != RP_YAML_MAP) {
        rp__recipe_mismatch(r, "plugin", "a map with library, symbol and args", value);
        return RP_OK;
    }
    const rp_yaml_node *library = first_field(r, &kinds[RP_CONDITION_PLUGIN], value);
    const rp_yaml_node *symbol  = rp__yaml_find(value, "symbol");
    c->args = rp__yaml_find(value, "args");
    if (library && !rp__recipe_scalar_text(library)) rp__recipe_mismatch(r, "library", "the path of a library", library);
    else if (library && library->text[0] == '/') c->library = library->text;
    else if (library) {
        const char *local = strncmp(library->text, "./", 2) ? library->text : library->text + 2;
        c->library = rp__bump_format(&r->recipe->doc.bump, "%s/%s", r->folder, local);
        if (!c->library) return RP_ERR_MEMORY;
        ((rp_yaml_node *)library)->text = c->library;        /* the recipe is written to another folder than it came from */
    }
    if (!symbol) rp__report_error(r->report, value->place, "'plugin' needs the field 'symbol' (it has: %s)", fields);
    else if (!rp__recipe_scalar_text(symbol)) rp__recipe_mismatch(r, "symbol", "the name of a function", symbol);
    else c->symbol = symbol->text;
    if (c->args && c->args->kind != RP_YAML_MAP) rp__recipe_mismatch(r, "args", "a map", c->args);
    return RP_OK;
}

READ(call) { return read_int_field(r, "call", value, 0, &c->number); }

READ(larger_than)
{
    if (value->kind != RP_YAML_SCALAR || !rp__size_parse(value->text, &c->number))
        rp__recipe_mismatch(r, "larger_than", "a size: bytes, or a number with KB, MB, GB, KiB, MiB or GiB", value);
    return RP_OK;
}

READ(cheaper_than_flops)
{
    if (!rp__recipe_scalar_number(value, &c->flops) || c->flops < 0)
        rp__recipe_mismatch(r, "cheaper_than_flops", "a number from 0", value);
    return RP_OK;
}

static rp_status read_parts(rp_recipe_reader *r, const rp_yaml_node *list, bool slots, rp_recipe_condition *c)
{
    c->part = rp__bump_alloc(&r->recipe->doc.bump, list->n * (int64_t)sizeof(rp_recipe_condition *));
    if (!c->part) return RP_ERR_MEMORY;
    for (const rp_yaml_node *each = list->first; each; each = each->next) {
        rp_recipe_condition *part;
        RP_TRY(read_condition(r, each, slots, &part));
        if (part) c->part[c->n_parts++] = part;
    }
    return RP_OK;
}

/* any and all take a list, not takes one; all three may ask whatever their surroundings may. */
static rp_status read_combination(rp_recipe_reader *r, const rp_yaml_node *value, bool slots, rp_recipe_condition *c)
{
    if (c->kind == RP_CONDITION_NOT) {
        rp_yaml_node only = *value, list = { .kind = RP_YAML_LIST, .n = 1, .first = &only };
        only.next = NULL;                                    /* the siblings are none of its parts */
        return read_parts(r, &list, slots, c);
    }
    if (value->kind == RP_YAML_LIST && value->n) return read_parts(r, value, slots, c);
    rp__recipe_mismatch(r, kinds[c->kind].name, "a list of conditions", value);
    return RP_OK;
}

/* In the order of rp_condition_kind. */
static const condition_kind kinds[RP_CONDITION_EVERY + 1] = {
    { "any", RP_CONDITION_ANY, false, NULL, NULL },
    { "all", RP_CONDITION_ALL, false, NULL, NULL },
    { "not", RP_CONDITION_NOT, false, NULL, NULL },
    { "every_k_layers", RP_CONDITION_EVERY_K_LAYERS, false, "k offset", read_every_k_layers },
    { "layers", RP_CONDITION_LAYERS, false, "list", read_layers },
    { "module_type", RP_CONDITION_MODULE_TYPE, false, "types", read_module_type },
    { "path", RP_CONDITION_PATH, false, "glob", read_path },
    { "plugin", RP_CONDITION_PLUGIN, false, "library symbol args", read_plugin },
    { "op", RP_CONDITION_OP, true, "glob", read_op },
    { "call", RP_CONDITION_CALL, true, NULL, read_call },
    { "larger_than", RP_CONDITION_LARGER_THAN, true, NULL, read_larger_than },
    { "cheaper_than_flops", RP_CONDITION_CHEAPER_THAN_FLOPS, true, NULL, read_cheaper_than_flops },
    { "every", RP_CONDITION_EVERY, true, "k offset", read_every_slot },
};

/* ---- conditions and rules ---- */

static const condition_kind *find_kind(const char *name)
{
    if (!strcmp(name, "type")) return &kinds[RP_CONDITION_MODULE_TYPE];      /* a rule's word for it */
    for (int i = 0; i < RP_COUNT(kinds); i++)
        if (!strcmp(name, kinds[i].name)) return &kinds[i];
    return NULL;
}

static void unknown_condition(rp_recipe_reader *r, const rp_yaml_node *field, const char *what, bool rule)
{
    const char *names[RP_COUNT(kinds) + 3];
    char hint[RP_HINT_CHARS];
    int n = 0;

    for (int i = 0; i < RP_COUNT(kinds); i++) names[n++] = kinds[i].name;
    if (rule) names[n++] = "fate";
    names[n] = NULL;
    rp__report_error(r->report, (rp_place){ field->place.origin, field->key_line }, "unknown %s '%s'%s", what, field->key,
                     rp__recipe_hint(field->key, names, hint));
}

/* One named condition; *out stays NULL after a reported error. */
static rp_status read_named(rp_recipe_reader *r, const rp_yaml_node *field, const condition_kind *kind, bool slots,
                            rp_recipe_condition **out)
{
    rp_place place = { field->place.origin, field->key_line ? field->key_line : field->place.line };

    *out = NULL;
    if (kind->slots_only && !slots) {
        rp__report_error(r->report, place, "'%s' asks about slots; only a rule can", kind->name);
        return RP_OK;
    }
    rp_recipe_condition *c = rp__bump_alloc(&r->recipe->doc.bump, (int64_t)sizeof *c);
    if (!c) return RP_ERR_MEMORY;
    c->kind  = kind->kind;
    c->place = place;
    *out     = c;
    return kind->read ? kind->read(r, field, c) : read_combination(r, field, slots, c);
}

static rp_status read_condition(rp_recipe_reader *r, const rp_yaml_node *node, bool slots, rp_recipe_condition **out)
{
    *out = NULL;
    if (node->kind != RP_YAML_MAP || !node->n) {
        rp__recipe_mismatch(r, "conditions", "conditions such as { path: \"*.mlp\" }", node);
        return RP_OK;
    }
    if (node->n > 1) {
        rp__report_error(r->report, node->place, "two conditions in one item, '%s' and '%s'; put them under 'all' or 'any'",
                         node->first->key, node->first->next->key);
        return RP_OK;
    }
    const condition_kind *kind = find_kind(node->first->key);
    if (kind) return read_named(r, node->first, kind, slots, out);
    unknown_condition(r, node->first, "condition", false);
    return RP_OK;
}

rp_status rp__recipe_read_conditions(rp_recipe_reader *r, const rp_yaml_node *node)
{
    rp_recipe_condition all = { 0 };

    RP_TRY(read_parts(r, node, false, &all));
    r->recipe->activation_checkpointing.condition    = all.part;
    r->recipe->activation_checkpointing.n_conditions = all.n_parts;
    return RP_OK;
}

static void read_fate(rp_recipe_reader *r, const rp_yaml_node *rule, rp_recipe_rule *out)
{
    const char *names[RP_COUNT(fates) + 1];
    const rp_yaml_node *fate = rp__yaml_find(rule, "fate");
    char hint[RP_HINT_CHARS];

    if (!fate) {
        rp__report_error(r->report, rule->place, "a rule needs a 'fate'");
        return;
    }
    for (int i = 0; i < RP_COUNT(fates); i++) {
        names[i] = fates[i].name;
        if (fate->kind != RP_YAML_SCALAR || strcmp(fate->text, fates[i].name)) continue;
        out->fate = (int)fates[i].fate;
        return;
    }
    names[RP_COUNT(fates)] = NULL;
    if (fate->kind != RP_YAML_SCALAR) rp__recipe_mismatch(r, "fate", "one word", fate);
    else
        rp__report_error(r->report, fate->place, "unknown fate '%s'%s", fate->text,
                         rp__recipe_hint(fate->text, names, hint));
}

static rp_status read_rule(rp_recipe_reader *r, const rp_yaml_node *node, rp_recipe_rule *out)
{
    rp_recipe_condition *when = rp__bump_alloc(&r->recipe->doc.bump, (int64_t)sizeof *when);

    if (!when) return RP_ERR_MEMORY;
    *out = (rp_recipe_rule){ .place = node->place, .when = when };
    if (node->kind != RP_YAML_MAP) {
        rp__recipe_mismatch(r, "rules", "rules such as { op: matmul, fate: keep }", node);
        return RP_OK;
    }
    when->kind  = RP_CONDITION_ALL;
    when->place = node->place;
    when->part  = rp__bump_alloc(&r->recipe->doc.bump, node->n * (int64_t)sizeof *when->part);
    if (!when->part) return RP_ERR_MEMORY;
    for (const rp_yaml_node *field = node->first; field; field = field->next) {
        const condition_kind *kind = find_kind(field->key);
        rp_recipe_condition *part  = NULL;
        if (kind) RP_TRY(read_named(r, field, kind, true, &part));
        else if (strcmp(field->key, "fate")) unknown_condition(r, field, "field of a rule", true);
        if (part) when->part[when->n_parts++] = part;
    }
    read_fate(r, node, out);
    return RP_OK;
}

rp_status rp__recipe_read_rules(rp_recipe_reader *r, const rp_yaml_node *node)
{
    rp_recipe_rule *rule = rp__bump_alloc(&r->recipe->doc.bump, node->n * (int64_t)sizeof *rule);

    if (!rule) return RP_ERR_MEMORY;
    r->recipe->activation_checkpointing.rule    = rule;
    r->recipe->activation_checkpointing.n_rules = node->n;
    for (const rp_yaml_node *each = node->first; each; each = each->next) RP_TRY(read_rule(r, each, rule++));
    return RP_OK;
}
