/* cli/shipped.c -- shipped recipes: their folder, their names, and the CONFIG argument.
 *
 * The folder is $REPRISE_RECIPES, else ../share/reprise/recipes relative to the program (installed), else ../recipes (a build folder of the
 * source tree). A recipe NAME is the file NAME.yaml there. A model NAME, for the keys model.config and model.stand_in, is NAME/config.json. */
#include "base/bump.h"
#include "base/report.h"
#include "cli/cli.h"
#include "rehearse/forecast.h"
#include "train/loop.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_folder(const char *path)
{
    struct stat s;

    return !stat(path, &s) && S_ISDIR(s.st_mode);
}

static bool find_folder(char *out, size_t out_bytes)
{
    static const char *const beside[] = { "../share/reprise/recipes", "../recipes", "recipes" };
    const char *set = getenv("REPRISE_RECIPES");
    char program[3072];

    if (set) return snprintf(out, out_bytes, "%s", set) < (int)out_bytes && is_folder(out);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) return false;
    program[n]  = 0;
    char *slash = strrchr(program, '/');
    if (!slash) return false;
    *slash = 0;
    for (int i = 0; i < RP_COUNT(beside); i++) {
        char path[4096], whole[4096];
        snprintf(path, sizeof path, "%s/%s", program, beside[i]);
        if (!is_folder(path) || !realpath(path, whole)) continue;
        snprintf(out, out_bytes, "%s", whole);
        return true;
    }
    return false;
}

static int is_recipe(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && !strcmp(entry->d_name + n - 5, ".yaml");
}

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

bool cli_shipped_list(cli_shipped *out)
{
    struct dirent **entry;

    *out = (cli_shipped){ 0 };
    if (!find_folder(out->folder, sizeof out->folder)) return false;
    int n = scandir(out->folder, &entry, is_recipe, by_bytes);
    if (n < 0) return false;
    out->name = calloc((size_t)n + 1, sizeof *out->name);
    for (int i = 0; i < n; i++) {
        if (out->name) out->name[out->n] = strndup(entry[i]->d_name, strlen(entry[i]->d_name) - 5);
        if (out->name && out->name[out->n]) out->n++;
        free(entry[i]);
    }
    free(entry);
    return out->name != NULL;
}

void cli_shipped_free(cli_shipped *shipped)
{
    for (int i = 0; i < shipped->n; i++) free(shipped->name[i]);
    free(shipped->name);
    *shipped = (cli_shipped){ 0 };
}

bool cli_shipped_path(const cli_shipped *shipped, const char *name, char *out, size_t out_bytes)
{
    for (int i = 0; i < shipped->n; i++)
        if (!strcmp(shipped->name[i], name))
            return snprintf(out, out_bytes, "%s/%s.yaml", shipped->folder, name) < (int)out_bytes;
    return false;
}

void cli_shipped_missing(const cli *c, const cli_shipped *shipped, const char *name)
{
    const char *near = shipped->n ? rp__nearest(name, (const char *const *)shipped->name) : NULL;

    if (near) cli_say(c, "no recipe is called '%s' (did you mean '%s'?)", name, near);
    else cli_say(c, "no recipe is called '%s'; 'reprise ls' lists those that are shipped", name);
}

static bool is_file(const char *path)
{
    struct stat s;

    return !stat(path, &s) && !S_ISDIR(s.st_mode);
}

/* A name is a word that is not a path. An existing file or folder of that name has priority over a shipped config. */
static const char *config_of(rp_recipe *recipe, const char *name)
{
    char *path = NULL;
    cli_shipped shipped;

    if (!name || strchr(name, '/') || strchr(name, '.') || !access(name, F_OK)) return name;
    if (cli_shipped_list(&shipped)) path = rp__bump_format(&recipe->doc.bump, "%s/%s/config.json", shipped.folder, name);
    cli_shipped_free(&shipped);
    return path && is_file(path) ? path : name;
}

void cli_stand_in(const cli *c, rp_recipe *recipe)
{
    const char *stand_in = recipe->model.stand_in;

    if (!stand_in || !recipe->model.path || recipe->model.config || recipe->model.adapter || !access(recipe->model.path, F_OK)) return;
    cli_say(c, "note: '%s' is not there: the shapes are those of '%s'", recipe->model.path, stand_in);
    recipe->model.path   = NULL;
    recipe->model.config = config_of(recipe, stand_in);
}

/* Does an error name a key that begins like this? The recipe then has another value than the user wrote. */
static bool has_error_of(const rp_report *report, const char *key)
{
    char quoted[80];

    snprintf(quoted, sizeof quoted, "'%s", key);
    for (const rp_report_item *item = report->first; item; item = item->next)
        if (!item->note && strstr(item->text, quoted)) return true;
    return false;
}

/* Add further errors of a recipe that has some already. They concern names that the model does not have, the data and the folders of a run. */
static void add_errors(const cli *c, const rp_recipe *recipe, int checks, rp_report *report)
{
    bool folders = checks & CLI_FOLDERS && !has_error_of(report, "output_dir") && !has_error_of(report, "resume") &&
                   !has_error_of(report, "activation_checkpointing.offload");
    bool data    = checks & CLI_DATA && !has_error_of(report, "dataset");
    rp_recipe_words words;
    rp_recipe_data found;

    if (!rp__recipe_missing_file(recipe)) (void)rp__recipe_try(c->ctx, recipe, report, &words);
    if (folders) (void)rp__recipe_check_folders(c->ctx, recipe, report);
    if (data) (void)rp__recipe_try_data(c->ctx, recipe, 0, report, &found);
    rp__report_sort(report);
}

/* On the CPU, host memory that no budget counts is for tests alone. */
static void check_devices(const rp_recipe *recipe, rp_report *report)
{
    if (recipe->activation_checkpointing.offload.to != RP_OFFLOAD_MEMORY || rp__recipe_device(recipe) || getenv("REPRISE_TEST_DEVICE")) return;
    rp__report_error(report, rp__recipe_place(recipe, "activation_checkpointing.offload.to"),
                     "'activation_checkpointing.offload.to' memory is the host's, and needs a GPU ('device'): take disk");
    rp__report_sort(report);
}

/* Put the file of CONFIG into `path`. False after an error message. */
static bool find_recipe(const cli *c, const char *config, char *path, size_t path_bytes)
{
    cli_shipped shipped = { 0 };

    snprintf(path, path_bytes, "%s", config);
    if (is_file(config)) return true;
    cli_shipped_list(&shipped);
    bool found = cli_shipped_path(&shipped, config, path, path_bytes);
    if (found) goto done;
    if (is_folder(config)) cli_say(c, "cannot read '%s': it is a folder", config);
    else if (strchr(config, '/') || strchr(config, '.')) cli_say(c, "cannot open '%s': no such file", config);
    else cli_shipped_missing(c, &shipped, config);
done:
    cli_shipped_free(&shipped);
    return found;
}

int cli_load_recipe(cli *c, const cli_args *args, int64_t most_bytes, int checks, rp_recipe **out)
{
    char path[8192];
    rp_recipe *recipe = NULL;
    rp_report report;

    if (!find_recipe(c, args->word[0], path, sizeof path)) return CLI_USAGE;
    rp__report_open(&report, c->ctx);
    rp_status status = rp__recipe_load_with_errors(c->ctx, path, args->n_settings, args->setting, most_bytes, &report, &recipe);
    if (recipe) check_devices(recipe, &report);
    if (status == RP_OK) status = rp__report_status(&report, RP_ERR_CONFIG);
    bool has_errors = report.n_errors > 0;
    if (recipe) recipe->model.config = config_of(recipe, recipe->model.config);
    if (recipe && has_errors) add_errors(c, recipe, checks, &report);
    cli_print_report(&report);
    rp__report_close(&report);
    if (status == RP_OK) {
        rp_recipe_allow_plugins(recipe, c->allow_plugins);
        *out = recipe;
        return CLI_GO;
    }
    rp__recipe_free(recipe);
    return has_errors ? rp_status_exit_code(status) : cli_fail(c, status);
}
