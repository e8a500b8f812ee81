/* shard/units.c -- makes units from wrapping rules: marks modules, joins uses of shared weights, then gives each weight to its innermost unit. */
#include "shard/units.h"

#include <string.h>

#include "policy/condition.h"
#include "policy/names.h"

/* The tree in the order of a walk, parents first. A module is identified by its index there, a unit by the index of its first entry. */
typedef struct {
    rp_ctx *ctx;
    rp_bump *bump;
    int n;
    rp_module **module;
    int *parent, *end;                          /* end: the first index behind all modules below it */
    bool *has_params;                           /* of it or of a module below it */
    int *unit;                                  /* of an entry: its unit; NONE: not an entry */
    int *home;                                  /* the unit that its own weights belong to */
    const char *key;                            /* the recipe's key of the current rule */
} tree;

enum { NONE = -1 };

/* ---- the walk ---- */

static int count(rp_module *root)
{
    int n = 0;

    for (rp_module *m = root; m; m = rp__module_next(root, m)) n++;
    return n;
}

static rp_status units_make_room(tree *t)
{
    int64_t each = (int64_t)t->n * (int64_t)sizeof(int);

    t->module     = rp__bump_alloc(t->bump, t->n * (int64_t)sizeof *t->module);
    t->parent     = t->module ? rp__bump_alloc(t->bump, each) : NULL;
    t->end        = t->parent ? rp__bump_alloc(t->bump, each) : NULL;
    t->has_params = t->end ? rp__bump_alloc(t->bump, t->n * (int64_t)sizeof *t->has_params) : NULL;
    t->unit       = t->has_params ? rp__bump_alloc(t->bump, each) : NULL;
    t->home       = t->unit ? rp__bump_alloc(t->bump, each) : NULL;
    return t->home ? RP_OK : RP_ERR_MEMORY;
}

static rp_status list_modules(tree *t, rp_module *root)
{
    int at = 0, above = NONE;

    t->n = count(root);
    RP_TRY(units_make_room(t));
    for (rp_module *m = root; m; m = rp__module_next(root, m)) {
        while (above != NONE && t->module[above] != m->parent) above = t->parent[above];
        t->module[at]     = m;
        t->parent[at]     = above;
        t->end[at]        = at + 1;
        t->has_params[at] = m->n_params > 0;
        t->unit[at]       = NONE;
        above             = at++;
    }
    for (int i = t->n - 1; i > 0; i--) {
        int up = t->parent[i];
        if (t->end[i] > t->end[up]) t->end[up] = t->end[i];
        t->has_params[up] = t->has_params[up] || t->has_params[i];
    }
    return RP_OK;
}

/* ---- messages for a rule that matches nothing ---- */

static rp_status no_module(const tree *t, const char *key, const char *name, bool types)
{
    const char **list = rp__bump_alloc(t->bump, (t->n + 16) * (int64_t)sizeof *list);
    char hint[RP_HINT_CHARS];
    int n = 0;

    if (!list) return RP_ERR_MEMORY;
    for (int i = 0; types && rp__module_types[i] && n < 15; i++) list[n++] = rp__module_types[i];
    for (int i = 1; i < t->n; i++)
        if (!t->module[i]->type->is_list) list[n++] = t->module[i]->path;
    return rp_fail(t->ctx, RP_ERR_MATCH, "'%s': no module %s '%s'%s", key, types ? "is of type, or matches," : "matches", name,
                   strchr(name, '*') ? "" : rp__hint(name, list, hint));
}

static const rp_module *module_of_param(const tree *t, const char *path)
{
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->module[i]->n_params; k++)
            if (!strcmp(t->module[i]->param[k].path, path)) return t->module[i];
    return NULL;
}

/* `list`, `bare`: a list, and a module without parameters, that the rule matches; or NONE. */
static rp_status nothing(const tree *t, const char *key, const char *name, bool types, int list, int bare)
{
    const rp_module *m = module_of_param(t, name);

    RP_CHECK(t->ctx, list == NONE, RP_ERR_MATCH, "'%s': '%s' is a list of modules, which has no forward; name its members: '%s.*'", key, name,
             t->module[list]->path);
    RP_CHECK(t->ctx, bare == NONE, RP_ERR_MATCH, "'%s': '%s' has no parameters", key, name);
    RP_CHECK(t->ctx, !m, RP_ERR_MATCH, "'%s': '%s' is a parameter; name its module, '%s'", key, name, m->path);
    return no_module(t, key, name, types);
}

/* ---- rules ---- */

static void make_entry(tree *t, int at)
{
    if (t->unit[at] == NONE) t->unit[at] = at;
}

static bool matches(const rp_module *m, const char *name, const char *type)
{
    return (type && !strcmp(m->type->name, type)) || (m->path[0] && rp__module_called(m, m->path, name, RP_CALLED));
}

static rp_status take_rule(tree *t, const char *key, const char *name, bool types)
{
    const char *ours = types ? rp__module_type_name(name) : NULL, *type = types ? (ours ? ours : name) : NULL;
    int taken = 0, list = NONE, bare = NONE;

    for (int i = 0; i < t->n;) {
        bool is_list = t->module[i]->type->is_list, hit = matches(t->module[i], name, type);
        bool takes   = hit && !is_list && t->has_params[i];
        if (takes) make_entry(t, i);
        else if (hit && is_list) list = i;
        else if (hit) bare = i;
        taken += takes;
        i = takes ? t->end[i] : i + 1;
    }
    return taken ? RP_OK : nothing(t, key, name, types, list, bare);
}

static rp_status take_blocks(tree *t, const char *layers)
{
    int taken = 0;

    for (int i = 1; i < t->n; i++) {
        const rp_module *list = t->module[t->parent[i]];
        if (!list->type->is_list || !rp__module_called(list, list->path, layers, RP_CALLED) || !t->has_params[i]) continue;
        make_entry(t, i);
        taken++;
    }
    RP_CHECK(t->ctx, taken, RP_ERR_MATCH, "no list of modules is named '%s'; by default each of its blocks is a shard unit", layers);
    return RP_OK;
}

static rp_status take_rules(tree *t, const rp_unit_rules *r)
{
    make_entry(t, 0);
    if (!r->n_wrap) RP_TRY(take_blocks(t, r->layers));
    t->key = "dist.modules_to_wrap";
    for (int i = 0; i < r->n_wrap; i++) RP_TRY(take_rule(t, t->key, r->wrap[i], true));
    t->key = "dist.custom_sharded_layers";
    for (int i = 0; i < r->n_custom; i++) RP_TRY(take_rule(t, t->key, r->custom[i], false));
    t->key = NULL;
    return RP_OK;
}

/* ---- shared weights ---- */

static void find_homes(tree *t)
{
    for (int i = 0; i < t->n; i++) t->home[i] = t->unit[i] != NONE ? t->unit[i] : t->home[t->parent[i]];
}

static int place_of_owner(const tree *t, const rp_param *owner)
{
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->module[i]->n_params; k++)
            if (&t->module[i]->param[k] == owner) return i;
    return NONE;
}

static void units_join(tree *t, int a, int b)
{
    make_entry(t, a);
    make_entry(t, b);
    int keep = t->unit[a] < t->unit[b] ? t->unit[a] : t->unit[b], go = t->unit[a] + t->unit[b] - keep;
    for (int i = 0; i < t->n; i++)
        if (t->unit[i] == go) t->unit[i] = keep;
}

static bool join_one(tree *t)
{
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->module[i]->n_params; k++) {
            int owner = t->module[i]->param[k].owner ? place_of_owner(t, t->module[i]->param[k].owner) : i;
            if (owner == NONE || t->home[owner] == t->home[i]) continue;
            units_join(t, i, owner);
            return true;
        }
    return false;
}

/* A module that becomes an entry moves everything below it into its unit, which may separate other uses. So this repeats until no uses are
 * separated. Each turn joins two units or makes an entry, so there are at most 2 n turns. */
static void join_uses(tree *t)
{
    do find_homes(t);
    while (join_one(t));
}

/* ---- units ---- */

static char *join_paths(const tree *t, int at)
{
    char *path = rp__bump_text(t->bump, t->module[at]->path, (int64_t)strlen(t->module[at]->path));

    for (int i = at + 1; at > 0 && path && i < t->n; i++)
        if (t->unit[i] == at) path = rp__bump_format(t->bump, "%s + %s", path, t->module[i]->path);
    return path;
}

/* Whether ranks share the weight, and the module owns it. Every rank maps all of a mapped weight. */
static bool is_shared(const rp_param *p) { return !p->owner && !p->mapped; }

static void units_fill(const tree *t, int at, rp_unit *u)
{
    u->n_entries = u->n_params = 0;
    for (int i = at; i < t->n; i++) {
        rp_module *m = t->module[i];
        if (t->unit[i] == at) u->entry[u->n_entries++] = m;
        for (int k = 0; t->home[i] == at && k < m->n_params; k++) {
            if (!is_shared(&m->param[k])) continue;
            u->param[u->n_params++] = &m->param[k];
            u->whole_bytes += rp_meta_bytes(&m->param[k].whole);
            u->slice_bytes += rp_meta_bytes(&m->param[k].tensor->m);
        }
    }
}

static rp_status make_unit(const tree *t, int at, rp_unit *u)
{
    for (int i = at; i < t->n; i++) {
        u->n_entries += t->unit[i] == at;
        for (int k = 0; t->home[i] == at && k < t->module[i]->n_params; k++) u->n_params += is_shared(&t->module[i]->param[k]);
    }
    if (!u->n_params) return RP_OK;
    u->path  = join_paths(t, at);
    u->entry = u->path ? rp__bump_alloc(t->bump, u->n_entries * (int64_t)sizeof *u->entry) : NULL;
    u->param = u->entry ? rp__bump_alloc(t->bump, u->n_params * (int64_t)sizeof *u->param) : NULL;
    if (!u->param) return RP_ERR_MEMORY;
    units_fill(t, at, u);
    return RP_OK;
}

/* A unit whose weights all belong to units further in is left out. */
static rp_status make_units(const tree *t, rp_units *out)
{
    out->unit = rp__bump_alloc(t->bump, t->n * (int64_t)sizeof *out->unit);
    if (!out->unit) return RP_ERR_MEMORY;
    for (int i = 0; i < t->n; i++) {
        rp_unit u = { 0 };
        if (t->unit[i] != i) continue;
        RP_TRY(make_unit(t, i, &u));
        if (u.n_params) out->unit[out->n_units++] = u;
    }
    return RP_OK;
}

rp_status rp__units_open(rp_ctx *ctx, rp_module *root, const rp_unit_rules *rules, rp_units *out)
{
    tree t = { .ctx = ctx, .bump = &out->bump };

    *out = (rp_units){ .root = root, .bump = { .ctx = ctx } };
    RP_TRY(list_modules(&t, root));
    rp_status status = take_rules(&t, rules);
    out->failed      = status == RP_ERR_MATCH ? t.key : NULL;
    RP_TRY(status);
    join_uses(&t);
    return make_units(&t, out);
}

void rp__units_close(rp_units *units)
{
    rp__bump_free(&units->bump);
    *units = (rp_units){ 0 };
}

rp_unit *rp__units_entered(const rp_units *units, const rp_module *m)
{
    for (int i = 0; i < units->n_units; i++)
        for (int k = 0; k < units->unit[i].n_entries; k++)
            if (units->unit[i].entry[k] == m) return &units->unit[i];
    return NULL;
}
