/* policy/read.c -- reads conditions and rules from YAML trees and from texts of programs, and remembers their lines. */
#include "policy/read.h"

#include <limits.h>

#include "base/bump.h"
#include "base/report.h"
#include "base/yaml.h"

static rp_status read_any(rp_condition_reader *r, const rp_yaml_node *node, bool slots, rp_condition **out);

const char *rp__place_text(rp_bump *bump, rp_place place)
{
    return place.line ? rp__bump_format(bump, "%s:%d", place.origin, place.line) : place.origin;
}

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

const rp_yaml_node *rp__condition_field(rp_condition_reader *r, const rp_condition_line *line, const rp_yaml_node *value)
{
    char first[32];

    if (value->kind != RP_YAML_MAP || !line->fields) return value;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(line->fields, " "), line->fields);
    for (const rp_yaml_node *field = value->first; field; field = field->next)
        if (!in_words(field->key, line->fields))
            rp__report_error(r->report, (rp_place){ field->place.origin, field->key_line },
                             "unknown field '%s' of '%s' (it has: %s)", field->key, line->name, line->fields);
    const rp_yaml_node *found = rp__yaml_find(value, first);
    if (!found) rp__report_error(r->report, value->place, "'%s' needs the field '%s'", line->name, first);
    return found;
}

/* ---- conditions ---- */

static const rp_condition_line *find_line(const char *name)
{
    if (!strcmp(name, "type")) return &rp__conditions[RP_CONDITION_MODULE_TYPE];     /* the name used in rules */
    for (int i = 0; i < RP_CONDITION_KINDS; i++)
        if (!strcmp(name, rp__conditions[i].name)) return &rp__conditions[i];
    return NULL;
}

static void unknown(rp_condition_reader *r, const rp_yaml_node *field, const char *kind, bool rule)
{
    const char *names[RP_CONDITION_KINDS + 2];
    char hint[RP_HINT_CHARS];
    int n = 0;

    for (int i = 0; i < RP_CONDITION_KINDS; i++) names[n++] = rp__conditions[i].name;
    if (rule) names[n++] = "fate";
    names[n] = NULL;
    rp__report_error(r->report, (rp_place){ field->place.origin, field->key_line }, "unknown %s '%s'%s", kind, field->key,
                     rp__hint(field->key, names, hint));
}

static rp_status read_parts(rp_condition_reader *r, const rp_yaml_node *list, bool slots, rp_condition *c)
{
    c->part = rp__bump_alloc(r->bump, list->n * (int64_t)sizeof *c->part);
    if (!c->part) return RP_ERR_MEMORY;
    for (const rp_yaml_node *each = list->first; each; each = each->next) {
        rp_condition *part;
        RP_TRY(read_any(r, each, slots, &part));
        if (part) c->part[c->n_parts++] = part;
    }
    return RP_OK;
}

/* any and all take a list, not takes one condition. All three may contain the same conditions as their surroundings. */
static rp_status read_combination(rp_condition_reader *r, const rp_yaml_node *value, bool slots, rp_condition *c)
{
    if (c->kind == RP_CONDITION_NOT) {
        rp_yaml_node only = *value, list = { .kind = RP_YAML_LIST, .n = 1, .first = &only };
        only.next = NULL;                                    /* its siblings are not its parts */
        return read_parts(r, &list, slots, c);
    }
    if (value->kind == RP_YAML_LIST && value->n) return read_parts(r, value, slots, c);
    rp__yaml_mismatch(r->report, rp__conditions[c->kind].name, "a list of conditions", value);
    return RP_OK;
}

/* Reads one named condition; *out stays NULL after a reported error. */
static rp_status read_named(rp_condition_reader *r, const rp_yaml_node *field, const rp_condition_line *line, bool slots,
                            rp_condition **out)
{
    rp_place place = rp__yaml_key_place(field);

    *out = NULL;
    if (!line->holds_for_module && !slots) {
        rp__report_error(r->report, place, "'%s' is a condition on slots, which only rules may have", line->name);
        return RP_OK;
    }
    rp_condition *c = rp__bump_alloc(r->bump, (int64_t)sizeof *c);
    if (!c) return RP_ERR_MEMORY;
    c->kind  = line->kind;
    c->place = place;
    *out     = c;
    return line->read ? line->read(r, field, c) : read_combination(r, field, slots, c);
}

static rp_status read_any(rp_condition_reader *r, const rp_yaml_node *node, bool slots, rp_condition **out)
{
    *out = NULL;
    if (node->kind != RP_YAML_MAP || !node->n) {
        rp__yaml_mismatch(r->report, "conditions", "conditions such as { path: \"*.mlp\" }", node);
        return RP_OK;
    }
    if (node->n > 1) {
        rp__report_error(r->report, node->place, "two conditions in one item, '%s' and '%s'; put them under 'all' or 'any'",
                         node->first->key, node->first->next->key);
        return RP_OK;
    }
    const rp_condition_line *line = find_line(node->first->key);
    if (line && line->kind == RP_CONDITION_EVERY && slots)
        rp__report_error(r->report, node->place, "'every' counts the slots that a rule matches: put it next to the rule's 'fate'");
    else if (line) return read_named(r, node->first, line, slots, out);
    else unknown(r, node->first, "condition", false);
    return RP_OK;
}

rp_status rp__condition_read(rp_condition_reader *r, const rp_yaml_node *node, rp_condition **out)
{
    return read_any(r, node, false, out);
}

rp_status rp__conditions_read(rp_condition_reader *r, const rp_yaml_node *list, int *n, rp_condition ***out)
{
    rp_condition all = { 0 };

    RP_TRY(read_parts(r, list, false, &all));
    *n   = all.n_parts;
    *out = all.part;
    return RP_OK;
}

/* ---- rules ---- */

static void read_fate(rp_condition_reader *r, const rp_yaml_node *rule, rp_rule *out)
{
    const rp_yaml_node *fate = rp__yaml_find(rule, "fate");
    char hint[RP_HINT_CHARS];

    if (!fate) {
        rp__report_error(r->report, rule->place, "a rule needs a 'fate'");
        return;
    }
    out->fate = fate->kind == RP_YAML_SCALAR ? rp__fate_find(fate->text) : RP_NO_FATE;
    if (fate->kind != RP_YAML_SCALAR) rp__yaml_mismatch(r->report, "fate", "one word", fate);
    else if (out->fate == RP_NO_FATE)
        rp__report_error(r->report, fate->place, "unknown fate '%s'%s", fate->text, rp__fate_hint(fate->text, hint));
}

static rp_status read_rule_field(rp_condition_reader *r, const rp_yaml_node *field, rp_rule *out)
{
    const rp_condition_line *line = find_line(field->key);
    rp_condition *part            = NULL;

    if (line) RP_TRY(read_named(r, field, line, true, &part));
    else if (strcmp(field->key, "fate")) unknown(r, field, "field of a rule", true);
    if (!part) return RP_OK;
    if (part->kind == RP_CONDITION_EVERY) {
        out->k      = part->k;
        out->offset = part->offset;
    } else out->when->part[out->when->n_parts++] = part;
    return RP_OK;
}

static rp_status read_rule(rp_condition_reader *r, const rp_yaml_node *node, rp_rule *out)
{
    rp_condition *when = rp__bump_alloc(r->bump, (int64_t)sizeof *when);
    const char *by     = rp__place_text(r->bump, node->place);

    if (!when || !by) return RP_ERR_MEMORY;
    *out = (rp_rule){ .place = node->place, .by = by, .when = when, .fate = RP_NO_FATE };
    if (node->kind != RP_YAML_MAP) {
        rp__yaml_mismatch(r->report, "rules", "rules such as { op: matmul, fate: keep }", node);
        return RP_OK;
    }
    when->kind  = RP_CONDITION_ALL;
    when->place = node->place;
    when->part  = rp__bump_alloc(r->bump, node->n * (int64_t)sizeof *when->part);
    if (!when->part) return RP_ERR_MEMORY;
    for (const rp_yaml_node *field = node->first; field; field = field->next) RP_TRY(read_rule_field(r, field, out));
    read_fate(r, node, out);
    return RP_OK;
}

rp_status rp__rules_read(rp_condition_reader *r, const rp_yaml_node *list, int *n, rp_rule **out)
{
    rp_rule *rule = rp__bump_alloc(r->bump, list->n * (int64_t)sizeof *rule);

    if (!rule) return RP_ERR_MEMORY;
    *out = rule;
    *n   = 0;
    for (const rp_yaml_node *each = list->first; each; each = each->next, ++*n) RP_TRY(read_rule(r, each, rule++));
    return RP_OK;
}

/* ---- texts of programs ---- */

/* Relative library paths start at the working folder. */
static rp_status parse(rp_yaml_doc *doc, const char *name, const char *text, rp_report *report, rp_condition_reader *r,
                       rp_yaml_node **out)
{
    char folder[PATH_MAX];

    doc->bump.ctx = report->bump.ctx;
    *r            = (rp_condition_reader){ .ctx = doc->bump.ctx, .bump = &doc->bump, .report = report, .own_types = true };
    if (!realpath(".", folder)) snprintf(folder, sizeof folder, ".");
    const char *origin = rp__bump_text(&doc->bump, name, (int64_t)strlen(name));
    r->folder          = rp__bump_text(&doc->bump, folder, (int64_t)strlen(folder));
    if (!origin || !r->folder) return RP_ERR_MEMORY;
    return rp__yaml_parse(doc, origin, text, (int64_t)strlen(text), report, out);
}

/* A condition read for a program. `condition` must be the first member, because rp_condition_free gets its address. */
typedef struct { rp_condition condition, *only[1]; rp_yaml_doc doc; } read_condition;

static rp_status read_text(rp_report *report, const char *text, read_condition *made)
{
    rp_condition_reader r;
    rp_yaml_node *root;

    RP_TRY(parse(&made->doc, "condition", text, report, &r, &root));
    RP_TRY(rp__condition_read(&r, root, &made->only[0]));
    RP_TRY(rp__report_status(report, RP_ERR_CONFIG));
    made->condition = (rp_condition){ .kind = RP_CONDITION_ALL, .n_parts = 1, .part = made->only };
    rp__condition_open(&made->condition, report);
    return rp__report_status(report, RP_ERR_MATCH);
}

rp_status rp_condition_read(rp_ctx *ctx, const char *text, rp_condition **out)
{
    RP_GIVEN(ctx, ctx && text && out);
    read_condition *made = rp__host_alloc(ctx, sizeof *made);
    rp_report report;

    if (!made) return RP_ERR_MEMORY;
    rp__report_open(&report, ctx);
    rp_status status = read_text(&report, text, made);
    if (status == RP_ERR_CONFIG) status = rp__report_status(&report, RP_ERR_CONFIG);
    rp__report_log(&report);
    if (status == RP_OK) *out = &made->condition;
    else rp_condition_free(&made->condition);
    return status;
}

void rp_condition_free(rp_condition *condition)
{
    read_condition *made = (read_condition *)condition;

    if (!made) return;
    rp__condition_close(condition);
    rp__bump_free(&made->doc.bump);
    rp__release(made);
}

bool rp_condition_holds(const char *path, const rp_module *module, void *condition)
{
    if (!path || !module || !condition) return false;
    return rp__condition_holds_for_module(condition, path, module);
}

static rp_status read_rules(rp_report *report, const char *text, rp_policy *policy)
{
    rp_condition_reader r;
    rp_yaml_node *root;
    rp_rule *rule;
    int n;

    RP_TRY(parse(&policy->doc, policy->name, text, report, &r, &root));
    if (root->kind != RP_YAML_LIST) {
        rp__yaml_mismatch(report, "rules", "a list of rules", root);
        return RP_ERR_CONFIG;
    }
    RP_TRY(rp__rules_read(&r, root, &n, &rule));
    RP_TRY(rp__report_status(report, RP_ERR_CONFIG));
    for (int i = 0; i < n; i++) RP_TRY(rp__policy_add(policy, &rule[i]));
    return RP_OK;
}

rp_status rp__policy_parse(rp_ctx *ctx, const char *name, const char *text, rp_report *report, rp_policy **out)
{
    rp_policy *policy;

    RP_TRY(rp_policy_new(ctx, name, &policy));
    rp_status status = read_rules(report, text, policy);
    if (status == RP_ERR_CONFIG) status = rp__report_status(report, RP_ERR_CONFIG);
    if (status == RP_OK) *out = policy;
    else rp_policy_free(policy);
    return status;
}

rp_status rp_policy_read(rp_ctx *ctx, const char *name, const char *text, rp_policy **out)
{
    RP_GIVEN(ctx, ctx && name && text && out);
    rp_policy *policy = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = rp__policy_parse(ctx, name, text, &report, &policy);
    if (policy) {
        policy->owns_plugins = true;
        for (int i = 0; i < policy->n_rules; i++) rp__condition_open(policy->rule[i].when, &report);
        status = rp__report_status(&report, RP_ERR_MATCH);
    }
    rp__report_log(&report);
    if (status == RP_OK) *out = policy;
    else rp_policy_free(policy);
    return status;
}
