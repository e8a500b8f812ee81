/* rehearse/regions.c -- lists the modules that are regions in one line of text. */
#include "rehearse/forecast.h"

#include "nn/module.h"

enum { MOST_NAMED = 12 };                   /* ranges of blocks; a quarter as many other modules */

typedef struct { char *out; size_t used; int n_named; } line;

static void regions_add(line *l, const char *text)
{
    int n = snprintf(l->out + l->used, RP_REGIONS_CHARS - l->used, "%s", text);

    l->used += (size_t)n;
    if (l->used >= RP_REGIONS_CHARS) l->used = RP_REGIONS_CHARS - 1;
}

/* Adds one name to a list that is cut short after `most` names. */
static void add_named(line *l, const char *name, int most)
{
    if (l->n_named == most) regions_add(l, ", …");
    if (l->n_named < most) {
        regions_add(l, l->n_named ? ", " : "");
        regions_add(l, name);
    }
    l->n_named++;
}

static void add_range(line *l, int64_t first, int64_t last)
{
    char text[64];

    snprintf(text, sizeof text, last > first ? "%" PRId64 "-%" PRId64 : "%" PRId64, first, last);
    add_named(l, text, MOST_NAMED);
}

static bool is_block(const rp_module *m) { return !strcmp(rp_module_type(m), "TransformerBlock"); }

static int count(rp_module *root, bool blocks, bool regions_alone)
{
    int n = 0;

    for (rp_module *m = root; m; m = rp__module_next(root, m)) n += is_block(m) == blocks && (m->checkpointed || !regions_alone);
    return n;
}

static void add_blocks(line *l, rp_module *root)
{
    int64_t number, first = -1, last = -1;

    l->n_named = 0;
    for (rp_module *m = root; m; m = rp__module_next(root, m)) {
        if (!is_block(m) || !m->checkpointed || !rp_path_layer(m->path, &number)) continue;
        if (first >= 0 && number != last + 1) {
            add_range(l, first, last);
            first = -1;
        }
        if (first < 0) first = number;
        last = number;
    }
    if (first >= 0) add_range(l, first, last);
}

static void add_modules(line *l, rp_module *root)
{
    l->n_named = 0;
    for (rp_module *m = root; m; m = rp__module_next(root, m))
        if (!is_block(m) && m->checkpointed) add_named(l, m->path[0] ? m->path : "the whole model", MOST_NAMED / 4);
}

const char *rp__regions_text(rp_module *root, int n_rules, char out[RP_REGIONS_CHARS])
{
    int blocks = count(root, true, true), modules = count(root, false, true);
    line l = { .out = out };
    char text[96];

    out[0] = 0;
    if (blocks) {
        snprintf(text, sizeof text, "%d of %d blocks: layers ", blocks, count(root, true, false));
        regions_add(&l, text);
        add_blocks(&l, root);
    }
    if (modules) {
        snprintf(text, sizeof text, "%s%d module%s: ", blocks ? "; and " : "", modules, modules == 1 ? "" : "s");
        regions_add(&l, text);
        add_modules(&l, root);
    }
    if (!blocks && !modules) regions_add(&l, n_rules ? "no regions" : "none");
    snprintf(text, sizeof text, "; %d rule%s", n_rules, n_rules == 1 ? "" : "s");
    if (n_rules) regions_add(&l, text);
    return out;
}
