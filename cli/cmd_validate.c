/* cli/cmd_validate.c -- validate: check a recipe without running it. */
#include "cli/cli.h"

#include "base/bump.h"
#include "base/report.h"
#include "rehearse/forecast.h"
#include "train/loop.h"

typedef struct { bool resolved, keys, data; } validate_fields;

static int validate_print_text(cli *c, rp_status status, const char *text)
{
    if (status == RP_OK) fputs(text, stdout);
    return cli_finish(c, status);
}

/* Results of the checks against the model and the data. */
typedef struct { const char *missing; rp_recipe_words words; rp_recipe_data data; } tried;

/* If the files of the model exist, check the names in the recipe against it. Reading the data may then record other errors in the context, so an error
 * of the model that is there alone joins the report. */
static rp_status try_model(const cli *c, const rp_recipe *recipe, rp_report *report, tried *out)
{
    RP_TRY(rp__recipe_look_at_plugins(recipe, report));
    int n_before     = report->n_errors;
    rp_status status = out->missing ? RP_OK : rp__recipe_try(c->ctx, recipe, report, &out->words);
    if (rp_status_exit_code(status) == CLI_USAGE && report->n_errors == n_before)
        rp__report_error(report, (rp_place){ "reprise validate", 0 }, "%s", rp_error(c->ctx));
    return status;
}

static void print_model(const tried *t)
{
    char file[CLI_LINE_CHARS];

    if (t->missing) fprintf(stderr, "note: names were not checked against the model: there is no '%s'\n", cli_one_line(t->missing, file));
    else fprintf(stderr, "checkpointing: %s\n", t->words.regions);
    if (!t->missing && *t->words.units) fprintf(stderr, "sharding: %s\n", t->words.units);
}

static void print_data(const rp_recipe_data *data)
{
    char size[RP_SIZE_CHARS], line[CLI_LINE_CHARS], amount[40];

    for (int i = 0; i < data->n; i++) {
        snprintf(amount, sizeof amount, data->set[i].looked ? "read only to its object %d" : "not read", RP_LOOK_OBJECTS);
        if (data->set[i].read) fprintf(stderr, "%s: %s\n", data->set[i].key, cli_one_line(data->set[i].text, line));
        else fprintf(stderr, "note: '%s' was %s: %" PRId64 " file%s of %s; %s\n", data->set[i].key, amount, data->set[i].n_files,
                     data->set[i].n_files == 1 ? "" : "s", rp__size_text(size, data->set[i].bytes), data->unread);
        if (*data->set[i].skipped) fprintf(stderr, "%s: the first that is skipped: %s\n", data->set[i].key, cli_one_line(data->set[i].skipped, line));
    }
}

/* Masked tokens are read by the model, but the loss does not count them. */
static void print_sample(const rp_sample *s)
{
    char line[CLI_LINE_CHARS];

    if (!s->n) return;
    fprintf(stderr, "first sample: %" PRId64 " token%s, %" PRId64 " %s\n", s->tokens, s->tokens == 1 ? "" : "s", s->targets,
            s->hidden ? "of them may be hidden" : s->targets == 1 ? "target" : "targets");
    for (int i = 0; i < s->n; i++)
        fprintf(stderr, "  %s  %s\n", s->span[i].target ? s->hidden ? "hidden" : "target" : "masked", cli_one_line(s->span[i].text, line));
    if (s->more) fprintf(stderr, "  and %" PRId64 " more stretches\n", s->more);
}

/* A run reads all data before its first step. This does so only if the data is small or --data is given. */
static int validate_check(cli *c, const rp_recipe *recipe, const char *name, bool all_data)
{
    tried t = { .missing = rp__recipe_missing_file(recipe) };
    char file[CLI_LINE_CHARS];
    rp_report report;

    rp__report_open(&report, c->ctx);
    rp_status model = try_model(c, recipe, &report, &t);
    rp_status data  = model == RP_ERR_MEMORY ? model : rp__recipe_try_data(c->ctx, recipe, all_data ? INT64_MAX : RP_LOOK_BYTES, &report, &t.data);
    int code        = cli_report(c, &report, model == RP_OK ? data : model);
    if (code != CLI_GO) return code;
    print_model(&t);
    print_data(&t.data);
    print_sample(&t.data.sample);
    fprintf(stderr, "'%s' is a valid recipe\n", cli_one_line(name, file));
    return 0;
}

static int validate(cli *c, const void *given, const cli_args *args)
{
    const validate_fields *fields = given;
    rp_bump bump                  = { .ctx = c->ctx };
    const char *text              = NULL;
    rp_recipe *recipe;

    if (fields->keys) {
        rp_status status = rp__recipe_manual(&bump, &text);
        int code         = validate_print_text(c, status, text);
        rp__bump_free(&bump);
        return code;
    }
    if (!args->n_words) {
        cli_say(c, "an argument is missing: reprise validate CONFIG [KEY=VALUE ...]");
        fprintf(stderr, "try 'reprise validate --help'\n");
        return CLI_USAGE;
    }
    int code = cli_load_recipe(c, args, 0, CLI_DATA, &recipe);
    if (code != CLI_GO) return code;
    code = 0;
    if (fields->resolved) {
        rp_status status = rp__recipe_write(recipe, &bump, &text);
        code             = validate_print_text(c, status, text);
    } else code = validate_check(c, recipe, args->word[0], fields->data);
    rp__bump_free(&bump);
    rp__recipe_free(recipe);
    return code;
}

static const cli_option options[] = {
    { "resolved", 0, CLI_FLAG, offsetof(validate_fields, resolved), NULL, "print the whole recipe with all defaults",
      0, 0 },
    { "data", 0, CLI_FLAG, offsetof(validate_fields, data), NULL, "read all data, of any size (default: up to 16 MiB)", 0, 0 },
    { "keys", 0, CLI_FLAG, offsetof(validate_fields, keys), NULL, "print every key of a recipe, its type and default; takes no CONFIG", 0, 0 },
};

const cli_command cmd_validate = {
    .usage = "CONFIG [KEY=VALUE ...]",
    .about = "Check a recipe and print every error with its line. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a\n"
             "key, ~KEY removes one. If the files of the model exist, names in the recipe are checked against the model, and the\n"
             "modules that become regions are printed. The data files must exist. Up to 16 MiB of data is read as a run reads it, and\n"
             "counted, and its first sample is printed: targets, and masked tokens, which the loss does not count. Larger JSON data is read\n"
             "up to its first objects. The limits of chat templates apply.",
    .example = "reprise validate my_recipe.yaml memory_budget=8GiB",
    CLI_OPTIONS(validate_fields, options),
    .most_words = 1, .settings = true,
    .run = validate,
};
