/* base/yaml_node.c -- nodes: created, found, copied, spliced; plain scalars read as null or boolean. */
#include "base/yaml.h"

#include <strings.h>

rp_yaml_node *rp__yaml_new(rp_yaml_doc *doc, rp_yaml_kind kind, rp_place place)
{
    if (doc->n_nodes >= RP_YAML_MAX_NODES) {
        rp_fail(doc->bump.ctx, RP_ERR_MEMORY, "%s holds more than %d values", place.origin, RP_YAML_MAX_NODES);
        return NULL;
    }
    rp_yaml_node *node = rp__bump_alloc(&doc->bump, (int64_t)sizeof *node);
    if (!node) return NULL;
    doc->n_nodes++;
    node->kind  = kind;
    node->place = place;
    return node;
}

rp_yaml_node *rp__yaml_scalar(rp_yaml_doc *doc, const char *text, bool quoted, rp_place place)
{
    rp_yaml_node *node = rp__yaml_new(doc, RP_YAML_SCALAR, place);

    if (!node) return NULL;
    node->quoted = quoted;
    node->text   = rp__bump_text(&doc->bump, text, (int64_t)strlen(text));
    return node->text ? node : NULL;
}

void rp__yaml_append(rp_yaml_node *parent, rp_yaml_node *child)
{
    child->next = NULL;
    if (parent->last) parent->last->next = child;
    else parent->first = child;
    parent->last = child;
    parent->n++;
}

/* Texts are shared with the original, because no code changes a text. */
rp_yaml_node *rp__yaml_copy(rp_yaml_doc *doc, const rp_yaml_node *node)
{
    rp_yaml_node *copy = rp__yaml_new(doc, node->kind, node->place);

    if (!copy) return NULL;
    copy->quoted   = node->quoted;
    copy->mark     = node->mark;
    copy->key      = node->key;
    copy->key_line = node->key_line;
    copy->text     = node->text;
    for (const rp_yaml_node *child = node->first; child; child = child->next) {
        rp_yaml_node *child_copy = rp__yaml_copy(doc, child);
        if (!child_copy) return NULL;
        rp__yaml_append(copy, child_copy);
    }
    return copy;
}

rp_yaml_node *rp__yaml_find(const rp_yaml_node *map, const char *key)
{
    if (!map || map->kind != RP_YAML_MAP) return NULL;
    for (rp_yaml_node *child = map->first; child; child = child->next)
        if (!strcmp(child->key, key)) return child;
    return NULL;
}

bool rp__yaml_remove(rp_yaml_node *map, const char *key)
{
    rp_yaml_node *before = NULL;

    for (rp_yaml_node *child = map->first; child; before = child, child = child->next) {
        if (strcmp(child->key, key)) continue;
        if (before) before->next = child->next;
        else map->first = child->next;
        if (map->last == child) map->last = before;
        map->n--;
        return true;
    }
    return false;
}

bool rp__yaml_is_null(const rp_yaml_node *node)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL", "None" };

    if (node->kind != RP_YAML_SCALAR || node->quoted) return false;
    for (int i = 0; i < RP_COUNT(words); i++)
        if (!strcmp(node->text, words[i])) return true;
    return false;
}

bool rp__yaml_is_bool(const rp_yaml_node *node, bool *value)
{
    static const struct { const char *word; bool value; } words[] = {
        { "true", true }, { "false", false }, { "yes", true }, { "no", false }, { "on", true }, { "off", false },
    };

    if (node->kind != RP_YAML_SCALAR || node->quoted) return false;
    for (int i = 0; i < RP_COUNT(words); i++)
        if (!strcasecmp(node->text, words[i].word)) {
            *value = words[i].value;
            return true;
        }
    return false;
}
