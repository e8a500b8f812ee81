/* recipe/model.c -- checks the names in a recipe against a model: paths and globs without a match, block numbers beyond the last, unknown ops. It
 * works on plain lists of names, so it needs no model. */
#include "recipe/internal.h"

#include "base/report.h"
#include "models/adapter.h"
#include "policy/condition.h"
#include "policy/names.h"

typedef struct {
    const rp_recipe *recipe;
    int n_modules;
    const rp_recipe_module *module;
    const char *const *known_ops;
    rp_report *report;
    int64_t n_blocks;                                        /* -1: the list of blocks is unknown */
} checker;

/* The first module or parameter whose path matches the glob; NULL if none does. */
static const rp_recipe_module *find_match(const checker *c, const char *glob)
{
    for (int i = 0; i < c->n_modules; i++)
        if (rp__module_called(c->module[i].in, c->module[i].path, glob, RP_CALLED)) return &c->module[i];
    return NULL;
}

/* The module whose path is spelled most like a wrong path. Parameters are not suggested. */
static const char *nearest_path(const checker *c, const char *path)
{
    const char *best = NULL;

    for (int i = 0; i < c->n_modules; i++) {
        const char *pair[] = { c->module[i].path, best, NULL };
        if (c->module[i].type && rp__nearest(path, pair)) best = rp__nearest(path, pair);
    }
    return best;
}

static void no_such_path(const checker *c, rp_place place, const char *key, const char *path)
{
    const char *near = strchr(path, '*') ? NULL : nearest_path(c, path);

    if (near) rp__report_error(c->report, place, "'%s': no module matches '%s' (did you mean '%s'?)", key, path, near);
    else rp__report_error(c->report, place, "'%s': no module matches '%s'", key, path);
}

/* ---- adapters ---- */

static bool takes_adapter(const rp_recipe_module *m) { return m->type && !strcmp(m->type, "Linear"); }

/* The end of a linear layer's path that is spelled most like `name`. */
static const char *nearest_layer(const checker *c, const char *name)
{
    const char *best = NULL;

    for (int i = 0; i < c->n_modules; i++) {
        if (!takes_adapter(&c->module[i])) continue;
        for (const char *end = strchr(c->module[i].path, '.'); end; end = strchr(end + 1, '.')) {
            const char *pair[] = { end + 1, best, NULL }, *near = rp__nearest(name, pair);
            if (near) best = near;
        }
    }
    return best;
}

static void check_adapted(const checker *c)
{
    static const char key[]  = "lora.modules";
    const rp_text_list *list = &c->recipe->lora.modules;

    for (int i = 0; i < list->n; i++) {
        const char *name = list->item[i], *near = nearest_layer(c, name);
        bool found       = false;
        for (int k = 0; k < c->n_modules && !found; k++) found = takes_adapter(&c->module[k]) && rp__adapter_names(c->module[k].in, name, c->module[k].path);
        if (!found)
            rp__report_error(c->report, rp__recipe_place(c->recipe, key), "'%s': no linear layer that can have an adapter is called '%s'%s%s%s", key, name,
                             near ? " (did you mean '" : "", near ? near : "", near ? "'?)" : "");
    }
}

/* ---- paths ---- */

static void check_paths(const checker *c, const char *key, const rp_text_list *list)
{
    for (int i = 0; i < list->n; i++)
        if (!find_match(c, list->item[i])) no_such_path(c, rp__recipe_place(c->recipe, key), key, list->item[i]);
}

/* Checks `freeze`. If two modules share a parameter, only one of them contains it. */
static void check_frozen(const checker *c)
{
    static const char key[]  = "freeze";
    const rp_text_list *list = &c->recipe->freeze;

    check_paths(c, key, list);
    for (int i = 0; i < list->n; i++) {
        bool found = !find_match(c, list->item[i]);          /* reported already */
        for (int k = 0; k < c->n_modules && !found; k++)
            found = !c->module[k].type && rp__module_called(c->module[k].in, c->module[k].path, list->item[i], RP_CALLED_WITHIN);
        if (!found)
            rp__report_error(c->report, rp__recipe_place(c->recipe, key), "'%s': no parameter is in '%s'", key, list->item[i]);
    }
}

/* ---- the list of blocks ---- */

static int64_t count_children(const checker *c, const char *path)
{
    size_t n      = strlen(path);
    int64_t count = 0, index;

    for (int i = 0; i < c->n_modules; i++) {
        const char *p = c->module[i].path;
        if (!strncmp(p, path, n) && p[n] == '.' && rp__parse_int(p + n + 1, 0, INT64_MAX - 1, &index) && index >= count)
            count = index + 1;
    }
    return count;
}

static void check_layers(checker *c)
{
    static const char key[] = "activation_checkpointing.layers";
    const char *path              = c->recipe->activation_checkpointing.layers;
    const rp_recipe_module *found = find_match(c, path);
    rp_place place                = rp__recipe_place(c->recipe, key);

    c->n_blocks = count_children(c, found ? found->path : path);
    if (c->n_blocks) return;
    c->n_blocks = -1;
    if (c->recipe->activation_checkpointing.mode == RP_MODE_NONE && !rp__recipe_given(c->recipe, key)) return;
    if (found) rp__report_error(c->report, place, "'%s': '%s' is not a list of modules but %s %s", key, path,
                                found->type ? "a module of type" : "a", found->type ? found->type : "parameter");
    else no_such_path(c, place, key, path);
}

/* ---- conditions ---- */

static void check_types(const checker *c, const rp_condition *condition)
{
    for (int i = 0; i < condition->n_types; i++) {
        bool found = false;
        for (int k = 0; k < c->n_modules && !found; k++)
            found = c->module[k].type && !strcmp(c->module[k].type, condition->type[i]);
        if (!found)
            rp__report_error(c->report, condition->place, "no module of this model is of type '%s'",
                             condition->type[i]);
    }
}

/* Checks dist.modules_to_wrap: types, paths and globs of modules. */
static void check_wrapped(const checker *c)
{
    static const char key[]  = "dist.modules_to_wrap";
    const rp_text_list *list = &c->recipe->dist.modules_to_wrap;

    for (int i = 0; i < list->n; i++) {
        bool found = find_match(c, list->item[i]) != NULL;
        for (int k = 0; k < c->n_modules && !found; k++) found = c->module[k].type && !strcmp(c->module[k].type, list->item[i]);
        if (!found) no_such_path(c, rp__recipe_place(c->recipe, key), key, list->item[i]);
    }
}

static bool list_has(const char *const *list, const char *glob)
{
    for (; *list; list++)
        if (rp__glob(glob, *list)) return true;
    return false;
}

/* Ops that a recipe may always name, even if this build's registry lacks them: they occur with several ranks or in other models. */
static bool is_standing_op(const char *glob)
{
    static const char *const ops[] = { "matmul", "grouped_matmul", "attention", "reduce_scatter", "max", NULL };

    return list_has(ops, glob);
}

static void check_op(const checker *c, rp_place place, const char *glob)
{
    char hint[RP_HINT_CHARS];

    if (!list_has(c->known_ops, glob) && !is_standing_op(glob))
        rp__report_error(c->report, place, "no op is called '%s'%s", glob, rp__hint(glob, c->known_ops, hint));
}

static void check_condition(const checker *c, const rp_condition *condition)
{
    for (int i = 0; i < condition->n_parts; i++) check_condition(c, condition->part[i]);
    for (int i = 0; i < condition->n_ranges && c->n_blocks >= 0; i++)
        if (condition->range[i].last >= c->n_blocks)
            rp__report_error(c->report, condition->place, "no block %" PRId64 ": the model has %" PRId64 ", counted from 0",
                             condition->range[i].last, c->n_blocks);
    check_types(c, condition);
    if (condition->kind == RP_CONDITION_PATH && condition->glob && !find_match(c, condition->glob))
        no_such_path(c, condition->place, "path", condition->glob);
    if (condition->kind == RP_CONDITION_OP && condition->glob) check_op(c, condition->place, condition->glob);
}

void rp__recipe_check_model(const rp_recipe *recipe, int n_modules, const rp_recipe_module *module,
                            const char *const *known_ops, rp_report *report)
{
    checker c = { recipe, n_modules, module, known_ops, report, -1 };

    check_layers(&c);
    for (int i = 0; i < recipe->activation_checkpointing.n_conditions; i++)
        check_condition(&c, recipe->activation_checkpointing.condition[i]);
    for (int i = 0; i < recipe->activation_checkpointing.n_rules; i++)
        check_condition(&c, recipe->activation_checkpointing.rule[i].when);
    if (rp__recipe_given(recipe, "activation_checkpointing.save"))
        for (int i = 0; i < recipe->activation_checkpointing.save.n; i++)
            check_op(&c, rp__recipe_place(recipe, "activation_checkpointing.save"),
                     recipe->activation_checkpointing.save.item[i]);
    check_frozen(&c);
    check_adapted(&c);
    check_paths(&c, "lora.whole", &recipe->lora.whole);
    check_paths(&c, "optimizer.no_decay", &recipe->optimizer.no_decay);
    check_paths(&c, "dist.custom_sharded_layers", &recipe->dist.custom_sharded_layers);
    check_wrapped(&c);
}

/* ---- checks after a step ---- */

typedef struct { bool (*calls)(void *user, const char *op); void *user; rp_report *report; } witness;

static bool note_op(const witness *w, rp_place place, const char *glob)
{
    if (w->calls(w->user, glob)) return false;
    rp__report_note(w->report, place, "this model never calls the op '%s'", glob);
    return true;
}

static bool note_ops(const witness *w, const rp_condition *condition)
{
    bool noted = condition->kind == RP_CONDITION_OP && note_op(w, condition->place, condition->glob);

    for (int i = 0; i < condition->n_parts; i++) noted = note_ops(w, condition->part[i]) || noted;
    return noted;
}

void rp__recipe_note_idle(const rp_recipe *recipe, bool (*calls)(void *user, const char *op), void *user, const rp_policy *policy,
                          rp_report *report)
{
    static const char save[] = "activation_checkpointing.save";
    const rp_rule *rule      = recipe->activation_checkpointing.rule;
    const witness w          = { calls, user, report };

    for (int i = 0; i < recipe->activation_checkpointing.n_rules; i++)
        if (!note_ops(&w, rule[i].when) && !policy->rule[i].n_decided && rp__condition_is_open(rule[i].when))
            rp__report_note(report, rule[i].place, "this rule has no effect: no slot that earlier rules leave matches it");
    if (recipe->activation_checkpointing.mode != RP_MODE_SELECTIVE_OP || !rp__recipe_given(recipe, save)) return;
    for (int i = 0; i < recipe->activation_checkpointing.save.n; i++)
        note_op(&w, rp__recipe_place(recipe, save), recipe->activation_checkpointing.save.item[i]);
}
