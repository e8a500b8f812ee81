/* cli/cmd_recipes.c -- ls, cat and cp: list, print and copy the shipped recipes. */
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* The summary of a recipe is its first line, if that is a comment. */
static void read_summary(const char *path, char out[128])
{
    FILE *file = fopen(path, "r");

    out[0] = 0;
    if (!file) return;
    if (fgets(out, 128, file) && out[0] == '#') {
        memmove(out, out + strspn(out, "# "), strlen(out + strspn(out, "# ")) + 1);
        out[strcspn(out, "\n")] = 0;
    } else {
        out[0] = 0;
    }
    fclose(file);
}

/* ---- ls ---- */

typedef struct { bool models; } ls_fields;

static int is_model(const struct dirent *entry) { return entry->d_name[0] != '.' && !strchr(entry->d_name, '.'); }

static void print_model(const char *folder, const char *name)
{
    char path[8192];

    snprintf(path, sizeof path, "%s/%s/config.json", folder, name);
    json_t *config   = json_load_file(path, 0, NULL);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    if (type) printf("%-28s %s\n", name, type);
    json_decref(config);
}

/* Lists the names that model.config and model.stand_in accept. */
static int list_models(cli *c, const cli_shipped *shipped)
{
    struct dirent **entry;
    int n = scandir(shipped->folder, &entry, is_model, alphasort);

    for (int i = 0; i < n; i++) {
        print_model(shipped->folder, entry[i]->d_name);
        free(entry[i]);
    }
    if (n >= 0) free(entry);
    return cli_finish(c, RP_OK);
}

static int ls(cli *c, const void *given, const cli_args *args)
{
    const ls_fields *fields = given;
    cli_shipped shipped;

    (void)args;
    if (!cli_shipped_list(&shipped)) {
        cli_say(c, "cannot find the shipped recipes; set REPRISE_RECIPES to their folder");
        return 1;
    }
    if (fields->models) {
        int code = list_models(c, &shipped);
        cli_shipped_free(&shipped);
        return code;
    }
    for (int i = 0; i < shipped.n; i++) {
        char path[8192], summary[128];
        cli_shipped_path(&shipped, shipped.name[i], path, sizeof path);
        read_summary(path, summary);
        printf("%-28s %s\n", shipped.name[i], summary);
    }
    cli_shipped_free(&shipped);
    return cli_finish(c, RP_OK);
}

static const cli_option ls_options[] = {
    { "models", 0, CLI_FLAG, offsetof(ls_fields, models), NULL, "list the shipped model configs, for 'model.config', instead", 0, 0 },
};

const cli_command cmd_ls = {
    .usage = "[--models]",
    .about = "List the shipped recipes with a summary of each.",
    .example = "reprise ls --models",
    CLI_OPTIONS(ls_fields, ls_options),
    .run = ls,
};

/* ---- cat ---- */

/* Open a shipped recipe for reading; NULL after an error message. */
static FILE *open_shipped(cli *c, const char *name, int *code)
{
    char path[8192];
    cli_shipped shipped;
    FILE *file = NULL;

    *code = CLI_USAGE;
    if (!cli_shipped_list(&shipped)) {
        cli_say(c, "cannot find the shipped recipes; set REPRISE_RECIPES to their folder");
    } else if (!cli_shipped_path(&shipped, name, path, sizeof path)) {
        cli_shipped_missing(c, &shipped, name);
    } else if (!(file = fopen(path, "rb"))) {
        cli_say(c, "cannot open '%s': %s", path, strerror(errno));
        *code = 1;
    }
    cli_shipped_free(&shipped);
    return file;
}

static bool copy_stream(FILE *from, FILE *to)
{
    char buffer[4096];
    size_t n;

    while ((n = fread(buffer, 1, sizeof buffer, from)) > 0)
        if (fwrite(buffer, 1, n, to) != n) return false;
    return !ferror(from);
}

static int cat(cli *c, const void *given, const cli_args *args)
{
    int code;
    FILE *file = open_shipped(c, args->word[0], &code);

    (void)given;
    if (!file) return code;
    copy_stream(file, stdout);
    fclose(file);
    return cli_finish(c, RP_OK);
}

const cli_command cmd_cat = { .usage = "NAME", .about = "Print a shipped recipe.", .example = "reprise cat smollm2_135m_full",
                             .least_words = 1, .most_words = 1, .run = cat };

/* ---- cp ---- */

typedef struct { bool no_clobber, make_parents; } cp_fields;

static void make_parents(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
}

static int write_copy(cli *c, const cp_fields *fields, FILE *from, char *to)
{
    if (fields->make_parents) make_parents(to);
    if (fields->no_clobber && !access(to, F_OK)) {
        cli_say(c, "'%s' exists already and is not changed", to);
        return 0;
    }
    FILE *file = fopen(to, "wb");
    if (!file) {
        cli_say(c, "cannot write '%s': %s", to, strerror(errno));
        return CLI_USAGE;
    }
    bool copied = copy_stream(from, file);
    if (fclose(file) || !copied) {
        cli_say(c, "cannot write '%s': %s", to, strerror(errno));
        return 1;
    }
    fprintf(stderr, "copied to %s\n", to);
    return 0;
}

static int cp(cli *c, const void *given, const cli_args *args)
{
    struct stat s;
    char to[8192];
    int code;
    FILE *from     = open_shipped(c, args->word[0], &code);
    bool to_folder = !stat(args->word[1], &s) && S_ISDIR(s.st_mode);

    if (!from) return code;
    if (to_folder) snprintf(to, sizeof to, "%s/%s.yaml", args->word[1], args->word[0]);
    else snprintf(to, sizeof to, "%s", args->word[1]);
    code = write_copy(c, given, from, to);
    fclose(from);
    return code;
}

static const cli_option cp_options[] = {
    { "no-clobber", 'n', CLI_FLAG, offsetof(cp_fields, no_clobber), NULL, "do not overwrite an existing file", 0, 0 },
    { "make-parents", 0, CLI_FLAG, offsetof(cp_fields, make_parents), NULL, "create the folders of DEST", 0, 0 },
};

const cli_command cmd_cp = {
    .usage = "NAME DEST",
    .about = "Copy a shipped recipe to the file or folder DEST.",
    .example = "reprise cp smollm2_135m_full my_recipe.yaml",
    CLI_OPTIONS(cp_fields, cp_options),
    .least_words = 2, .most_words = 2,
    .run = cp,
};
