/* policy/condition.c -- the table of conditions: how each is read, and when it holds. */
#include "policy/names.h"
#include "base/bump.h"
#include "base/report.h"
#include "base/yaml.h"
#include "policy/plugin.h"
#include "policy/read.h"

/* ---- asking ---- */

static bool holds_above(const rp_condition *c, bool (*holds)(const rp_condition *, const char *, const rp_module *),
                        const rp_slot_info *slot)
{
    char above[RP_MODULE_PATH_CHARS];
    const rp_module *m = slot->module;

    for (; m; m = rp_module_parent(m))
        if (holds(c, rp_module_path(m), m)) return true;
    if (slot->module) return false;
    if (holds(c, slot->path, NULL)) return true;
    snprintf(above, sizeof above, "%s", slot->path);
    for (char *dot = strrchr(above, '.'); dot; dot = strrchr(above, '.')) {
        *dot = 0;
        if (holds(c, above, NULL)) return true;
    }
    return false;
}

bool rp__condition_holds_for_module(const rp_condition *c, const char *path, const rp_module *module)
{
    return rp__conditions[c->kind].holds_for_module && rp__conditions[c->kind].holds_for_module(c, path, module);
}

bool rp__condition_holds_for_slot(const rp_condition *c, const rp_slot_info *slot)
{
    const rp_condition_line *line = &rp__conditions[c->kind];

    return line->holds_for_slot ? line->holds_for_slot(c, slot) : holds_above(c, line->holds_for_module, slot);
}

/* ---- any, all, not ---- */

/* Is there a part that holds, or with holds == false one that does not? */
static bool some_for_module(const rp_condition *c, const char *path, const rp_module *module, bool holds)
{
    for (int i = 0; i < c->n_parts; i++)
        if (rp__condition_holds_for_module(c->part[i], path, module) == holds) return true;
    return false;
}

static bool some_for_slot(const rp_condition *c, const rp_slot_info *slot, bool holds)
{
    for (int i = 0; i < c->n_parts; i++)
        if (rp__condition_holds_for_slot(c->part[i], slot) == holds) return true;
    return false;
}

static bool any_module(const rp_condition *c, const char *path, const rp_module *module) { return some_for_module(c, path, module, true); }
static bool all_module(const rp_condition *c, const char *path, const rp_module *module) { return !some_for_module(c, path, module, false); }
static bool not_module(const rp_condition *c, const char *path, const rp_module *module) { return !any_module(c, path, module); }
static bool any_slot(const rp_condition *c, const rp_slot_info *slot) { return some_for_slot(c, slot, true); }
static bool all_slot(const rp_condition *c, const rp_slot_info *slot) { return !some_for_slot(c, slot, false); }
static bool not_slot(const rp_condition *c, const rp_slot_info *slot) { return !any_slot(c, slot); }

/* ---- fields shared by several conditions ---- */

#define READ(name) static rp_status read_##name(rp_condition_reader *r, const rp_yaml_node *value, rp_condition *c)

static void read_whole(rp_condition_reader *r, const char *name, const rp_yaml_node *node, int64_t low, int64_t *out)
{
    char wants[64];

    if (rp__yaml_int(node, low, INT64_C(1) << 53, out)) return;
    snprintf(wants, sizeof wants, "a whole number from %" PRId64, low);
    rp__yaml_mismatch(r->report, name, wants, node);
}

/* Reads k and offset of every_k_layers and every. */
READ(every)
{
    const rp_condition_line *line = &rp__conditions[c->kind];
    const rp_yaml_node *k = rp__condition_field(r, line, value), *offset = rp__yaml_find(value, "offset");
    char name[64];

    c->k = 1;
    snprintf(name, sizeof name, "%s.k", line->name);
    if (k) read_whole(r, name, k, 1, &c->k);
    snprintf(name, sizeof name, "%s.offset", line->name);
    if (offset) read_whole(r, name, offset, 0, &c->offset);
    return RP_OK;
}

READ(glob)
{
    const rp_condition_line *line = &rp__conditions[c->kind];
    const rp_yaml_node *glob      = rp__condition_field(r, line, value);

    if (glob && rp__yaml_is_text(glob)) c->glob = glob->text;
    else if (glob) rp__yaml_mismatch(r->report, line->name, "a glob", glob);
    return RP_OK;
}

/* ---- blocks ---- */

/* Reads the number of a block, the last part of its path. Returns false if it is not in the list. */
static bool block_of(const rp_condition *c, const char *path, const rp_module *module, int64_t *i)
{
    char list[RP_MODULE_PATH_CHARS];
    const char *dot = strrchr(path, '.');

    if (!rp__parse_int(dot ? dot + 1 : path, 0, INT64_C(1) << 53, i)) return false;
    if (!c->layers) return true;
    snprintf(list, sizeof list, "%.*s", dot ? (int)(dot - path) : 0, path);
    return rp__module_called(module, list, c->layers, RP_CALLED);
}

static bool every_k_layers(const rp_condition *c, const char *path, const rp_module *module)
{
    int64_t i;

    return block_of(c, path, module, &i) && rp__every(i, c->k, c->offset);
}

static bool layers(const rp_condition *c, const char *path, const rp_module *module)
{
    int64_t block;

    if (!block_of(c, path, module, &block)) return false;
    for (int i = 0; i < c->n_ranges; i++)
        if (block >= c->range[i].first && block <= c->range[i].last) return true;
    return false;
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

READ(layers)
{
    const rp_yaml_node *list = rp__condition_field(r, &rp__conditions[c->kind], value);

    if (!list) return RP_OK;
    if (list->kind != RP_YAML_LIST || !list->n) {
        rp__yaml_mismatch(r->report, "layers", "a list of block numbers and ranges such as [0, 3, 7-9]", list);
        return RP_OK;
    }
    c->range = rp__bump_alloc(r->bump, list->n * (int64_t)sizeof *c->range);
    if (!c->range) return RP_ERR_MEMORY;
    for (const rp_yaml_node *each = list->first; each; each = each->next) {
        if (each->kind == RP_YAML_SCALAR && read_range(each->text, &c->range[c->n_ranges])) c->n_ranges++;
        else rp__yaml_mismatch(r->report, "layers", "block numbers from 0 and ranges such as 7-9", each);
    }
    return RP_OK;
}

/* ---- modules ---- */

const char *const rp__module_types[] = { "TransformerBlock", "Attention", "MLP", "Norm", "Linear", "Embedding", NULL };

const char *rp__module_type_name(const char *name)
{
    static const char *const blocks[] = {
        "TransformerSelfAttentionLayer", "GPT2Block", "LlamaDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer",
    };

    for (int i = 0; rp__module_types[i]; i++)
        if (!strcmp(name, rp__module_types[i])) return rp__module_types[i];
    for (int i = 0; i < RP_COUNT(blocks); i++)
        if (!strcmp(name, blocks[i])) return rp__module_types[0];
    return NULL;
}

static bool module_type(const rp_condition *c, const char *path, const rp_module *module)
{
    (void)path;
    for (int i = 0; module && i < c->n_types; i++)
        if (!strcmp(c->type[i], rp_module_type(module))) return true;
    return false;
}

READ(module_type)
{
    const rp_yaml_node *list = rp__condition_field(r, &rp__conditions[c->kind], value), *each = list;
    char hint[RP_HINT_CHARS];

    if (!list) return RP_OK;
    if (list->kind == RP_YAML_LIST) each = list->first;
    c->type = rp__bump_alloc(r->bump, (list->n + 1) * (int64_t)sizeof *c->type);
    if (!c->type) return RP_ERR_MEMORY;
    for (; each; each = list->kind == RP_YAML_LIST ? each->next : NULL) {
        const char *ours = rp__yaml_is_text(each) ? rp__module_type_name(each->text) : NULL;
        if (!ours && rp__yaml_is_text(each) && r->own_types) ours = each->text;
        if (ours) c->type[c->n_types++] = ours;
        else if (!rp__yaml_is_text(each)) rp__yaml_mismatch(r->report, "module_type", "module types", each);
        else rp__report_error(r->report, each->place, "unknown module type '%s'%s", each->text,
                              rp__hint(each->text, rp__module_types, hint));
    }
    if (list->kind == RP_YAML_LIST && !list->n) rp__yaml_mismatch(r->report, "module_type", "module types", list);
    return RP_OK;
}

static bool path_is(const rp_condition *c, const char *path, const rp_module *module)
{
    return rp__module_called(module, path, c->glob, RP_CALLED);
}

/* "layers" covers "layers.0" by name alone, independently of the modules above it in the tree. */
static bool path_covers(const rp_condition *c, const rp_slot_info *slot)
{
    return rp__module_called(slot->module, slot->path, c->glob, RP_CALLED_WITHIN);
}

/* ---- plug-ins: a plug-in that is not open never holds ---- */

static bool plugin_module(const rp_condition *c, const char *path, const rp_module *module)
{
    return c->plugin && c->plugin(path, module, NULL, &c->args);
}

static bool plugin_slot(const rp_condition *c, const rp_slot_info *slot)
{
    return c->plugin && c->plugin(slot->path, slot->module, slot, &c->args);
}

static rp_status read_library(rp_condition_reader *r, const rp_yaml_node *library, rp_condition *c)
{
    const char *local = strncmp(library->text, "./", 2) ? library->text : library->text + 2;

    c->library = local[0] == '/' ? local : rp__bump_format(r->bump, "%s/%s", r->folder, local);
    if (!c->library) return RP_ERR_MEMORY;
    ((rp_yaml_node *)library)->text = c->library;        /* the recipe may be written to another folder than its own */
    return RP_OK;
}

READ(plugin)
{
    const rp_condition_line *line = &rp__conditions[c->kind];

    if (value->kind != RP_YAML_MAP) {
        rp__yaml_mismatch(r->report, "plugin", "a map with library, symbol and args", value);
        return RP_OK;
    }
    const rp_yaml_node *library = rp__condition_field(r, line, value), *symbol = rp__yaml_find(value, "symbol");
    c->args.map = rp__yaml_find(value, "args");
    if (library && !rp__yaml_is_text(library)) rp__yaml_mismatch(r->report, "library", "the path of a library", library);
    else if (library) RP_TRY(read_library(r, library, c));
    if (!symbol) rp__report_error(r->report, value->place, "'plugin' needs the field 'symbol' (it has: %s)", line->fields);
    else if (!rp__yaml_is_text(symbol)) rp__yaml_mismatch(r->report, "symbol", "the name of a function", symbol);
    else c->symbol = symbol->text;
    if (c->args.map && c->args.map->kind != RP_YAML_MAP) rp__yaml_mismatch(r->report, "args", "a map", c->args.map);
    return RP_OK;
}

/* ---- slots ---- */

static bool op(const rp_condition *c, const rp_slot_info *slot) { return rp__glob(c->glob, slot->op); }
static bool call(const rp_condition *c, const rp_slot_info *slot) { return slot->call == c->number; }
static bool larger_than(const rp_condition *c, const rp_slot_info *slot) { return slot->bytes > c->number; }
static bool cheaper_than_flops(const rp_condition *c, const rp_slot_info *slot) { return (double)slot->flops < c->flops; }

/* The rule counts, because only it knows its other conditions. */
static bool counted_elsewhere(const rp_condition *c, const rp_slot_info *slot)
{
    (void)c;
    (void)slot;
    return true;
}

READ(call)
{
    read_whole(r, "call", value, 0, &c->number);
    return RP_OK;
}

READ(larger_than)
{
    if (value->kind != RP_YAML_SCALAR || !rp__size_parse(value->text, &c->number))
        rp__yaml_mismatch(r->report, "larger_than", "a size: bytes, or a number with KB, MB, GB, KiB, MiB or GiB", value);
    return RP_OK;
}

READ(cheaper_than_flops)
{
    if (!rp__yaml_number(value, &c->flops) || c->flops < 0)
        rp__yaml_mismatch(r->report, "cheaper_than_flops", "a number from 0", value);
    return RP_OK;
}

const rp_condition_line rp__conditions[RP_CONDITION_KINDS] = {
    { "any", RP_CONDITION_ANY, NULL, NULL, any_module, any_slot },
    { "all", RP_CONDITION_ALL, NULL, NULL, all_module, all_slot },
    { "not", RP_CONDITION_NOT, NULL, NULL, not_module, not_slot },
    { "every_k_layers", RP_CONDITION_EVERY_K_LAYERS, "k offset", read_every, every_k_layers, NULL },
    { "layers", RP_CONDITION_LAYERS, "list", read_layers, layers, NULL },
    { "module_type", RP_CONDITION_MODULE_TYPE, "types", read_module_type, module_type, NULL },
    { "path", RP_CONDITION_PATH, "glob", read_glob, path_is, path_covers },
    { "plugin", RP_CONDITION_PLUGIN, "library symbol args", read_plugin, plugin_module, plugin_slot },
    { "op", RP_CONDITION_OP, "glob", read_glob, NULL, op },
    { "call", RP_CONDITION_CALL, NULL, read_call, NULL, call },
    { "larger_than", RP_CONDITION_LARGER_THAN, NULL, read_larger_than, NULL, larger_than },
    { "cheaper_than_flops", RP_CONDITION_CHEAPER_THAN_FLOPS, NULL, read_cheaper_than_flops, NULL, cheaper_than_flops },
    { "every", RP_CONDITION_EVERY, "k offset", read_every, NULL, counted_elsewhere },
};

/* ---- operations on a whole condition ---- */

void rp__condition_in_list(rp_condition *c, const char *list)
{
    c->layers = list;
    for (int i = 0; i < c->n_parts; i++) rp__condition_in_list(c->part[i], list);
}

void rp__condition_plugins(rp_condition *c, rp_plugin_use *use, rp_report *report)
{
    if (c->kind == RP_CONDITION_PLUGIN) use(c, report);
    for (int i = 0; i < c->n_parts; i++) rp__condition_plugins(c->part[i], use, report);
}

void rp__condition_open(rp_condition *c, rp_report *report) { rp__condition_plugins(c, rp__plugin_open, report); }

bool rp__condition_is_open(const rp_condition *c)
{
    if (c->kind == RP_CONDITION_PLUGIN && !c->opened) return false;
    for (int i = 0; i < c->n_parts; i++)
        if (!rp__condition_is_open(c->part[i])) return false;
    return true;
}

void rp__condition_close(rp_condition *c)
{
    if (c->kind == RP_CONDITION_PLUGIN) rp__plugin_close(c);
    for (int i = 0; i < c->n_parts; i++) rp__condition_close(c->part[i]);
}
