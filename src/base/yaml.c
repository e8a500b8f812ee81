/* base/yaml.c -- turns libyaml's events into a tree, with one function per kind of node. The walk stops at depth 64, before libyaml's own
 * nesting becomes expensive. It rejects duplicate keys, which libyaml accepts. */
#include "base/yaml.h"

#include <yaml.h>

typedef struct anchor anchor;
struct anchor {
    const char *name;
    const rp_yaml_node *node;
    int height;                 /* levels of the tree it refers to */
    anchor *older;
};

typedef struct {
    rp_yaml_doc *doc;
    rp_report *report;
    const char *origin, *source;
    int64_t source_bytes;
    yaml_parser_t parser;
    yaml_event_t event;
    bool has_event;
    anchor *anchors;
} walk;

static rp_place here(const walk *w) { return (rp_place){ w->origin, (int)w->event.start_mark.line + 1 }; }

/* A hint for a line that could not be parsed, from the characters that people often forget to quote. */
static const char *hint(const walk *w, int line)
{
    const char *p = w->source, *end = w->source + w->source_bytes;

    for (int i = 1; i < line && p; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (p) p++;
    }
    if (!p || p >= end) return "";
    const char *stop = memchr(p, '\n', (size_t)(end - p));
    size_t n = (size_t)((stop ? stop : end) - p);
    if (memmem(p, n, "${", 2)) return "; inside braces or brackets, put quotes around a '${...}'";
    if (memchr(p, '*', n)) return "; put quotes around a word that begins with '*'";
    if (memchr(p, '\t', n)) return "; indent with spaces, not tabs";
    return "";
}

/* For bytes that it cannot decode, libyaml reports an offset instead of a line. */
static int line_at(const walk *w, size_t offset)
{
    int line = 1;

    for (size_t i = 0; i < offset && i < (size_t)w->source_bytes; i++) line += w->source[i] == '\n';
    return line;
}

static rp_status syntax_error(walk *w)
{
    const yaml_parser_t *p = &w->parser;
    bool undecodable       = p->error == YAML_READER_ERROR;
    int line               = undecodable ? line_at(w, p->problem_offset) : (int)p->problem_mark.line + 1;

    if (p->error == YAML_MEMORY_ERROR)
        return rp_fail(w->doc->bump.ctx, RP_ERR_MEMORY, "cannot allocate host memory to read '%s'", w->origin);
    rp__report_error(w->report, (rp_place){ w->origin, line }, "cannot read this as YAML: %s%s",
                     p->problem ? p->problem : "unknown error", undecodable ? "" : hint(w, line));
    return RP_ERR_CONFIG;
}

static rp_status next_event(walk *w)
{
    if (w->has_event) yaml_event_delete(&w->event);
    w->has_event = yaml_parser_parse(&w->parser, &w->event);
    return w->has_event ? RP_OK : syntax_error(w);
}

static rp_status yaml_refuse(walk *w, rp_place place, const char *problem)
{
    rp__report_error(w->report, place, "%s", problem);
    return RP_ERR_CONFIG;
}

static rp_status new_node(walk *w, rp_yaml_kind kind, rp_yaml_node **out)
{
    if (w->doc->n_nodes >= RP_YAML_MAX_NODES) return yaml_refuse(w, here(w), "more values than a recipe may hold");
    *out = rp__yaml_new(w->doc, kind, here(w));
    return *out ? RP_OK : RP_ERR_MEMORY;
}

static int height_of(const rp_yaml_node *node)
{
    int highest = 0;

    for (const rp_yaml_node *child = node->first; child; child = child->next) {
        int h = height_of(child);
        if (h > highest) highest = h;
    }
    return highest + 1;
}

static rp_status remember(walk *w, const char *name, const rp_yaml_node *node)
{
    anchor *a = rp__bump_alloc(&w->doc->bump, (int64_t)sizeof *a);

    if (!a) return RP_ERR_MEMORY;
    *a         = (anchor){ .name = name, .node = node, .height = height_of(node), .older = w->anchors };
    w->anchors = a;
    return RP_OK;
}

static rp_status read_alias(walk *w, int depth, rp_yaml_node **out)
{
    const char *name = (const char *)w->event.data.alias.anchor;
    const anchor *a  = w->anchors;

    while (a && strcmp(a->name, name)) a = a->older;
    if (!a) {
        rp__report_error(w->report, here(w), "'*%s' names no anchor; put quotes around a word that begins with '*'", name);
        return RP_ERR_CONFIG;
    }
    if (depth + a->height > RP_YAML_MAX_DEPTH) return yaml_refuse(w, here(w), "nested more than 64 levels deep");
    *out = rp__yaml_copy(w->doc, a->node);
    if (*out) {
        (*out)->place = here(w);
        return RP_OK;
    }
    return w->doc->n_nodes >= RP_YAML_MAX_NODES ? yaml_refuse(w, here(w), "more values than a recipe may hold") : RP_ERR_MEMORY;
}

/* Types come from the schema. A tag must be one of the core schema; only !!str has an effect: it makes the scalar text. */
static rp_status check_tag(walk *w, const char *tag, bool *is_text)
{
    static const char *const core[] = { "str", "int", "float", "bool", "null", "map", "seq" };
    static const char prefix[] = "tag:yaml.org,2002:";

    if (!tag || !strcmp(tag, "!")) return RP_OK;
    if (!strncmp(tag, prefix, sizeof prefix - 1))
        for (int i = 0; i < RP_COUNT(core); i++)
            if (!strcmp(tag + sizeof prefix - 1, core[i])) {
                if (i == 0) *is_text = true;
                return RP_OK;
            }
    rp__report_error(w->report, here(w), "cannot read the tag '%s'", tag);
    return RP_ERR_CONFIG;
}

static rp_status read_scalar(walk *w, rp_yaml_node **out)
{
    const char *value = (const char *)w->event.data.scalar.value;
    size_t length     = w->event.data.scalar.length;
    rp_yaml_node *node;

    if (memchr(value, 0, length)) return yaml_refuse(w, here(w), "a text holds a NUL character");
    RP_TRY(new_node(w, RP_YAML_SCALAR, &node));
    node->quoted = w->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    RP_TRY(check_tag(w, (const char *)w->event.data.scalar.tag, &node->quoted));
    node->text = rp__bump_text(&w->doc->bump, value, (int64_t)length);
    *out       = node;
    return node->text ? RP_OK : RP_ERR_MEMORY;
}

static rp_status read_node(walk *w, int depth, rp_yaml_node **out);

static rp_status read_list(walk *w, int depth, rp_yaml_node **out)
{
    rp_yaml_node *list, *child;
    bool unused;

    RP_TRY(check_tag(w, (const char *)w->event.data.sequence_start.tag, &unused));
    RP_TRY(new_node(w, RP_YAML_LIST, &list));
    for (;;) {
        RP_TRY(next_event(w));
        if (w->event.type == YAML_SEQUENCE_END_EVENT) break;
        RP_TRY(read_node(w, depth + 1, &child));
        rp__yaml_append(list, child);
    }
    *out = list;
    return RP_OK;
}

/* Appends the keys of `from` that `map` does not have itself (merge type of YAML 1.1). */
static rp_status merge_map(walk *w, rp_yaml_node *map, const rp_yaml_node *from)
{
    if (from->kind == RP_YAML_LIST) {
        for (const rp_yaml_node *each = from->first; each; each = each->next) RP_TRY(merge_map(w, map, each));
        return RP_OK;
    }
    if (from->kind != RP_YAML_MAP) return yaml_refuse(w, from->place, "'<<' wants a map, or a list of maps");
    for (const rp_yaml_node *each = from->first; each; each = each->next) {
        if (rp__yaml_find(map, each->key)) continue;
        rp_yaml_node *copy = rp__yaml_copy(w->doc, each);
        if (!copy) return RP_ERR_MEMORY;
        rp__yaml_append(map, copy);
    }
    return RP_OK;
}

static rp_status read_map(walk *w, int depth, rp_yaml_node **out)
{
    rp_yaml_node *map, *child, *merge = NULL;
    bool unused;

    RP_TRY(check_tag(w, (const char *)w->event.data.mapping_start.tag, &unused));
    RP_TRY(new_node(w, RP_YAML_MAP, &map));
    for (;;) {
        RP_TRY(next_event(w));
        if (w->event.type == YAML_MAPPING_END_EVENT) break;
        if (w->event.type != YAML_SCALAR_EVENT) return yaml_refuse(w, here(w), "a key must be a plain word");
        rp_place key_place = here(w);
        bool is_merge      = w->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                             !strcmp((const char *)w->event.data.scalar.value, "<<");
        rp_yaml_node *key;
        RP_TRY(read_scalar(w, &key));
        RP_TRY(next_event(w));
        RP_TRY(read_node(w, depth + 1, &child));
        const rp_yaml_node *twin = is_merge ? merge : rp__yaml_find(map, key->text);
        child->key      = key->text;
        child->key_line = key_place.line;
        if (twin)
            rp__report_error(w->report, key_place, "key '%s' is set twice, first on line %d", key->text, twin->key_line);
        else if (is_merge) merge = child;
        else rp__yaml_append(map, child);
    }
    if (merge) RP_TRY(merge_map(w, map, merge));
    *out = map;
    return RP_OK;
}

static rp_status read_node(walk *w, int depth, rp_yaml_node **out)
{
    const char *name = NULL;

    if (depth > RP_YAML_MAX_DEPTH) return yaml_refuse(w, here(w), "nested more than 64 levels deep");
    if (w->event.type == YAML_ALIAS_EVENT) return read_alias(w, depth, out);
    if (w->event.type == YAML_SCALAR_EVENT) name = (const char *)w->event.data.scalar.anchor;
    if (w->event.type == YAML_SEQUENCE_START_EVENT) name = (const char *)w->event.data.sequence_start.anchor;
    if (w->event.type == YAML_MAPPING_START_EVENT) name = (const char *)w->event.data.mapping_start.anchor;
    if (name) {
        name = rp__bump_text(&w->doc->bump, name, (int64_t)strlen(name));
        if (!name) return RP_ERR_MEMORY;
    }
    if (w->event.type == YAML_SCALAR_EVENT) RP_TRY(read_scalar(w, out));
    else if (w->event.type == YAML_SEQUENCE_START_EVENT) RP_TRY(read_list(w, depth, out));
    else RP_TRY(read_map(w, depth, out));
    return name ? remember(w, name, *out) : RP_OK;
}

static rp_status read_document(walk *w, rp_yaml_node **out)
{
    RP_TRY(next_event(w));                                   /* stream start */
    RP_TRY(next_event(w));
    if (w->event.type == YAML_STREAM_END_EVENT) {
        *out = rp__yaml_new(w->doc, RP_YAML_MAP, (rp_place){ w->origin, 1 });
        return *out ? RP_OK : RP_ERR_MEMORY;
    }
    RP_TRY(next_event(w));
    RP_TRY(read_node(w, 1, out));
    RP_TRY(next_event(w));                                   /* document end */
    RP_TRY(next_event(w));
    if (w->event.type != YAML_STREAM_END_EVENT) return yaml_refuse(w, here(w), "a second document begins; a recipe must be one document");
    return RP_OK;
}

rp_status rp__yaml_parse(rp_yaml_doc *doc, const char *origin, const char *text, int64_t bytes, rp_report *report,
                         rp_yaml_node **out)
{
    walk w = { .doc = doc, .report = report, .origin = origin, .source = text, .source_bytes = bytes };
    rp_yaml_node *root = NULL;

    if (bytes > RP_YAML_MAX_BYTES) {
        rp__report_error(report, (rp_place){ origin, 0 }, "too large: more than %" PRId64 " bytes", RP_YAML_MAX_BYTES);
        return RP_ERR_CONFIG;
    }
    RP_CHECK(doc->bump.ctx, yaml_parser_initialize(&w.parser), RP_ERR_MEMORY,
             "cannot allocate host memory to read '%s'", origin);
    yaml_parser_set_input_string(&w.parser, (const unsigned char *)text, (size_t)bytes);
    rp_status status = read_document(&w, &root);
    if (w.has_event) yaml_event_delete(&w.event);
    yaml_parser_delete(&w.parser);
    if (status == RP_OK) *out = root;
    return status;
}
