/* shard/units_text.c -- describes units in one line for people. */
#include "shard/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 3 };

typedef struct { char *out; size_t used; } line;

static void units_text_add(line *l, const char *fmt, ...) RP_PRINTF(2, 3);
static void units_text_add(line *l, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    l->used += (size_t)vsnprintf(l->out + l->used, RP_UNITS_CHARS - l->used, fmt, args);
    va_end(args);
    if (l->used >= RP_UNITS_CHARS) l->used = RP_UNITS_CHARS - 1;
}

static bool is_root(const rp_units *units, const rp_unit *u) { return u->entry[0] == units->root; }

/* The type of a unit's module if it has one entry and is not the root's; else NULL. */
static const char *type_of(const rp_units *units, const rp_unit *u)
{
    return u->n_entries == 1 && !is_root(units, u) ? u->entry[0]->type->name : NULL;
}

static bool same_type(const rp_units *units, int i, int k)
{
    const char *a = type_of(units, &units->unit[i]), *b = type_of(units, &units->unit[k]);

    return i == k || (a && b && !strcmp(a, b));
}

static int count_type(rp_module *root, const char *type)
{
    int n = 0;

    for (rp_module *m = root; m; m = rp__module_next(root, m)) n += !strcmp(m->type->name, type);
    return n;
}

/* "every TransformerBlock (32)", "2 of 6 Linear (layers.0.attn.q, layers.1.attn.q)", "output". The fraction counts all modules of the type, so it
 * shows how many belong to other units. */
static void add_alike(line *l, const rp_units *units, int i)
{
    const char *type = type_of(units, &units->unit[i]);
    int n = 0, of = type ? count_type(units->root, type) : 0, named = 0;

    for (int k = i; k < units->n_units; k++) n += same_type(units, i, k);
    if (n == 1) units_text_add(l, "%s", units->unit[i].path);
    else if (n == of) units_text_add(l, "every %s (%d)", type, n);
    else units_text_add(l, "%d of %d %s (", n, of, type);
    for (int k = i; n > 1 && n < of && k < units->n_units; k++) {
        if (!same_type(units, i, k) || named++ > MOST_NAMED) continue;
        units_text_add(l, "%s%s", named > 1 ? ", " : "", named > MOST_NAMED ? "…" : units->unit[k].path);
    }
    if (n > 1 && n < of) units_text_add(l, ")");
}

static void add_rest(line *l, const rp_unit *u)
{
    const char *last = NULL;
    int named        = 0;

    units_text_add(l, "and the rest (");
    for (int i = 0; i < u->n_params && named <= MOST_NAMED; i++) {
        size_t n = strlen(u->param[i]->path) - strlen(u->param[i]->name);
        n -= n > 0;
        if (last && !strncmp(last, u->param[i]->path, n + 1)) continue;
        last = u->param[i]->path;
        named++;
        if (named > MOST_NAMED) units_text_add(l, ", …");
        else units_text_add(l, "%s%.*s", named > 1 ? ", " : "", (int)n, last);
    }
    units_text_add(l, ")");
}

const char *rp__units_text(const rp_units *units, char out[RP_UNITS_CHARS])
{
    line l             = { .out = out };
    const rp_unit *rest = NULL;

    out[0] = 0;
    units_text_add(&l, "%d unit%s: ", units->n_units, units->n_units == 1 ? "" : "s");
    if (units->n_units == 1 && is_root(units, units->unit)) {
        units_text_add(&l, "the whole model");
        return out;
    }
    for (int i = 0; i < units->n_units; i++) {
        bool listed = false;
        for (int k = 0; k < i; k++) listed = listed || same_type(units, i, k);
        if (is_root(units, &units->unit[i])) rest = &units->unit[i];
        if (listed || is_root(units, &units->unit[i])) continue;
        add_alike(&l, units, i);
        units_text_add(&l, "%s", "; ");
    }
    if (rest) add_rest(&l, rest);
    else if (l.used > 2) out[l.used - 2] = 0;
    return out;
}
