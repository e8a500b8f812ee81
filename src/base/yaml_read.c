/* base/yaml_read.c -- scalars as integers, numbers and text. */
#include "base/yaml_read.h"

#include <math.h>

bool rp__yaml_int(const rp_yaml_node *node, int64_t low, int64_t high, int64_t *out)
{
    return node->kind == RP_YAML_SCALAR && !node->quoted && rp__parse_int(node->text, low, high, out);
}

bool rp__yaml_number(const rp_yaml_node *node, double *out)
{
    double value;

    if (node->kind != RP_YAML_SCALAR || node->quoted || !rp__parse_double(node->text, &value)) return false;
    if (!isfinite(value)) return false;
    *out = value;
    return true;
}

bool rp__yaml_is_text(const rp_yaml_node *node)
{
    return node->kind == RP_YAML_SCALAR && node->text[0] && !rp__yaml_is_null(node);
}

rp_place rp__yaml_key_place(const rp_yaml_node *node)
{
    return (rp_place){ node->place.origin, node->key_line ? node->key_line : node->place.line };
}

/* "[0.9, 1]", or "a list" if that would be too long. */
static void show_list(const rp_yaml_node *list, char out[RP_YAML_SHOWN_CHARS])
{
    int used = snprintf(out, RP_YAML_SHOWN_CHARS, "[");

    for (const rp_yaml_node *each = list->first; each && used < RP_YAML_SHOWN_CHARS; each = each->next)
        used += each->kind != RP_YAML_SCALAR ? RP_YAML_SHOWN_CHARS
                : snprintf(out + used, (size_t)(RP_YAML_SHOWN_CHARS - used), "%s%s", each->text, each->next ? ", " : "]");
    if (used >= RP_YAML_SHOWN_CHARS) snprintf(out, RP_YAML_SHOWN_CHARS, "a list");
}

const char *rp__yaml_shown(const rp_yaml_node *node, char out[RP_YAML_SHOWN_CHARS])
{
    if (node->kind == RP_YAML_LIST && node->n) show_list(node, out);
    else if (node->kind == RP_YAML_LIST) snprintf(out, RP_YAML_SHOWN_CHARS, "an empty list");
    else if (node->kind == RP_YAML_MAP) snprintf(out, RP_YAML_SHOWN_CHARS, "a map");
    else if (!node->text[0]) snprintf(out, RP_YAML_SHOWN_CHARS, node->quoted ? "an empty text" : "nothing");
    else snprintf(out, RP_YAML_SHOWN_CHARS, "%s'%.40s'%s", node->quoted ? "the quoted text " : "", node->text,
                  strlen(node->text) > 40 ? "…" : "");
    return out;
}

void rp__yaml_mismatch(rp_report *report, const char *key, const char *wants, const rp_yaml_node *node)
{
    char shown[RP_YAML_SHOWN_CHARS];

    rp__report_error(report, node->place, "'%s' wants %s, not %s", key, wants, rp__yaml_shown(node, shown));
}
