/* recipe/recipe.c -- reads a recipe: text to tree, the passes over the tree, the walk along the schema, the checks. A pass that cannot produce a tree
 * ends the reading; all other errors are collected, and the reading continues. */
#include "recipe/internal.h"

#include <errno.h>
#include <limits.h>

#include "base/bump.h"
#include "base/report.h"
#include "base/yaml.h"

/* ---- the walk ---- */

static void unknown_key(rp_recipe_reader *r, const rp_yaml_node *node, const char *path)
{
    char near[RP_KEY_CHARS];
    const char *hint  = rp__recipe_elsewhere(path);
    const char *found = rp__recipe_nearest_key(path, near);
    rp_place place    = { node->place.origin, node->key_line ? node->key_line : node->place.line };

    if (strchr(node->key, '.') && place.line)
        rp__report_error(r->report, place, "unknown key '%s'; in a file, groups are nested maps", path);
    else if (hint) rp__report_error(r->report, place, "unknown key '%s': %s", path, hint);
    else if (found) rp__report_error(r->report, place, "unknown key '%s' (did you mean '%s'?)", path, found);
    else rp__report_error(r->report, place, "unknown key '%s'", path);
}

static void not_a_group(rp_recipe_reader *r, const rp_yaml_node *node, const char *path)
{
    char wants[RP_WANTS_CHARS];
    bool truth;

    if (!strcmp(path, "activation_checkpointing") && rp__yaml_is_bool(node, &truth))
        snprintf(wants, sizeof wants, "a map (the plain switch is 'enable_activation_checkpointing: %s')",
                 truth ? "true" : "false");
    else snprintf(wants, sizeof wants, "a map");
    rp__yaml_mismatch(r->report, path, wants, node);
}

static rp_status walk(rp_recipe_reader *r, const rp_yaml_node *map, const char *group)
{
    for (const rp_yaml_node *node = map->first; node; node = node->next) {
        const char *path = group[0] ? rp__bump_format(&r->recipe->doc.bump, "%s.%s", group, node->key) : node->key;
        if (!path) return RP_ERR_MEMORY;
        int key = strchr(node->key, '.') ? -1 : rp__recipe_find_key(path);
        if (key >= 0) {
            r->recipe->given[key] = node;
            RP_TRY(rp__recipe_value_read(r, &rp__recipe_keys[key], node));
        } else if (!rp__recipe_is_group(path) || strchr(node->key, '.')) {
            unknown_key(r, node, path);
        } else if (node->kind == RP_YAML_MAP) {
            if (!strcmp(path, "dataset_val")) r->recipe->has_dataset_val = true;
            RP_TRY(walk(r, node, path));
        } else if (!rp__yaml_is_null(node)) {
            not_a_group(r, node, path);
        }
    }
    return RP_OK;
}

static rp_status set_defaults(rp_recipe_reader *r)
{
    for (int i = 0; i < rp__recipe_n_keys; i++) {
        const rp_recipe_key *key = &rp__recipe_keys[i];
        rp_yaml_node *node;
        RP_TRY(rp__yaml_parse(&r->recipe->doc, "default", key->fallback, (int64_t)strlen(key->fallback), r->report, &node));
        RP_TRY(rp__recipe_value_read(r, key, node));
    }
    return RP_OK;
}

/* ---- reading ---- */

/* Finds the absolute folder of the recipe. A name without a folder means the working folder. */
static rp_status find_folder(rp_recipe_reader *r, const char *name)
{
    char folder[PATH_MAX] = ".", whole[PATH_MAX];
    const char *slash     = strrchr(name, '/');

    if (slash) snprintf(folder, sizeof folder, "%.*s", slash == name ? 1 : (int)(slash - name), name);
    if (!realpath(folder, whole)) snprintf(whole, sizeof whole, "%s", folder);
    r->folder = rp__bump_text(&r->recipe->doc.bump, whole, (int64_t)strlen(whole));
    return r->folder ? RP_OK : RP_ERR_MEMORY;
}

/* Removes trailing slashes, so that "runs/a/" gives the same file names as "runs/a". */
static rp_status trim_output_dir(rp_recipe *recipe)
{
    const char *given = recipe->output_dir;
    size_t n          = given ? strlen(given) : 0;

    if (n < 2 || given[n - 1] != '/') return RP_OK;
    while (n > 1 && given[n - 1] == '/') n--;
    recipe->output_dir = rp__bump_text(&recipe->doc.bump, given, (int64_t)n);
    return recipe->output_dir ? RP_OK : RP_ERR_MEMORY;
}

static void lower_budget(rp_recipe_reader *r)
{
    rp_budget *budget = &r->recipe->memory_budget;

    if (r->most_bytes && (budget->kind != RP_BUDGET_BYTES || budget->bytes > r->most_bytes))
        *budget = (rp_budget){ .kind = RP_BUDGET_BYTES, .bytes = r->most_bytes };
}

static rp_status read_tree(rp_recipe_reader *r, const char *text, int64_t bytes, int n_settings, const char *const *setting)
{
    rp_yaml_node *root;

    RP_TRY(rp__yaml_parse(&r->recipe->doc, r->recipe->file, text, bytes, r->report, &root));
    if (rp__yaml_is_null(root)) root->kind = RP_YAML_MAP;
    if (root->kind != RP_YAML_MAP) {
        rp__report_error(r->report, root->place, "a recipe is a map of keys, not a %s",
                         root->kind == RP_YAML_LIST ? "list" : "single value");
        return RP_ERR_CONFIG;
    }
    for (int i = 0; i < n_settings; i++) RP_TRY(rp__recipe_apply_setting(r, root, setting[i]));
    RP_TRY(rp__recipe_interpolate(r, root));
    RP_TRY(rp__recipe_translate(r, root));
    RP_TRY(set_defaults(r));
    RP_TRY(walk(r, root, ""));
    RP_TRY(trim_output_dir(r->recipe));
    lower_budget(r);
    rp__recipe_bind_layers(r->recipe);
    rp__recipe_check(r);
    return RP_OK;
}

static rp_status read_text(rp_recipe_reader *r, const char *name, const char *text, int64_t bytes, int n_settings,
                           const char *const *setting, rp_recipe **out)
{
    rp_recipe *recipe = r->recipe = rp__host_alloc(r->ctx, (int64_t)sizeof *recipe);

    if (!recipe) return RP_ERR_MEMORY;
    recipe->doc.bump.ctx = r->ctx;
    recipe->file         = rp__bump_text(&recipe->doc.bump, name, (int64_t)strlen(name));
    rp_status status     = recipe->file ? find_folder(r, name) : RP_ERR_MEMORY;
    if (status == RP_OK) status = read_tree(r, text, bytes, n_settings, setting);
    bool whole           = status == RP_OK;
    if (whole || status == RP_ERR_CONFIG) {
        rp__report_sort(r->report);
        status = rp__report_status(r->report, RP_ERR_CONFIG);
    }
    if (status == RP_OK || (whole && r->with_errors)) *out = recipe;
    else rp__recipe_free(recipe);
    return status;
}

rp_status rp__recipe_read(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, int n_settings,
                          const char *const *setting, rp_report *report, rp_recipe **out)
{
    return read_text(&(rp_recipe_reader){ .ctx = ctx, .report = report }, name, text, bytes, n_settings, setting, out);
}

static rp_status read_file(rp_ctx *ctx, const char *path, char **text, int64_t *bytes)
{
    FILE *file = fopen(path, "rb");

    RP_CHECK(ctx, file, RP_ERR_CONFIG, "cannot open '%s': %s", path, strerror(errno));
    char *buffer = rp__host_alloc(ctx, RP_YAML_MAX_BYTES + 1);
    size_t n     = buffer ? fread(buffer, 1, (size_t)RP_YAML_MAX_BYTES + 1, file) : 0;
    int failed   = ferror(file) ? errno : 0;
    fclose(file);
    if (!buffer) return RP_ERR_MEMORY;
    if (failed) {
        rp__release(buffer);
        return rp_fail(ctx, RP_ERR_IO, "cannot read '%s': %s", path, strerror(failed));
    }
    *text  = buffer;
    *bytes = (int64_t)n;
    return RP_OK;
}

static rp_status recipe_load(rp_recipe_reader *r, const char *path, int n_settings, const char *const *setting, rp_recipe **out)
{
    char *text    = NULL;
    int64_t bytes = 0;

    RP_TRY(read_file(r->ctx, path, &text, &bytes));
    rp_status status = read_text(r, path, text, bytes, n_settings, setting, out);
    rp__release(text);
    return status;
}

rp_status rp__recipe_load(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, rp_report *report,
                          rp_recipe **out)
{
    return recipe_load(&(rp_recipe_reader){ .ctx = ctx, .report = report }, path, n_settings, setting, out);
}

rp_status rp__recipe_load_with_errors(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, int64_t most_bytes,
                                      rp_report *report, rp_recipe **out)
{
    rp_recipe_reader r = { .ctx = ctx, .report = report, .most_bytes = most_bytes, .with_errors = true };

    *out = NULL;
    return recipe_load(&r, path, n_settings, setting, out);
}

void rp__recipe_free(rp_recipe *recipe)
{
    if (!recipe) return;
    rp__recipe_close_plugins(recipe);
    rp__bump_free(&recipe->doc.bump);
    rp__release(recipe);
}
