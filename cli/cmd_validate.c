/* cli/cmd_validate.c -- check a recipe without running it. */
#include "cli/cli.h"

#include "train/loop.h"

typedef struct { bool resolved, keys; } validate_fields;

static int print_text(cli *c, rp_status status, const char *text)
{
    if (status == RP_OK) fputs(text, stdout);
    return cli_finish(c, status);
}

/* The names in it, where the model's files are there, and what follows from them. */
static int try_model(cli *c, const rp_recipe *recipe, const char *name)
{
    const char *missing = rp__recipe_missing_file(recipe);
    char file[CLI_LINE_CHARS];
    rp_recipe_words words;
    rp_report report;

    rp__report_open(&report, c->ctx);
    rp_status status = rp__recipe_look_at_plugins(recipe, &report);
    if (status == RP_OK && !missing) status = rp__recipe_try(c->ctx, recipe, &report, &words);
    int code = cli_tell(c, &report, status);
    if (code != CLI_GO) return code;
    if (missing) fprintf(stderr, "note: names were not checked against the model: there is no '%s'\n", cli_one_line(missing, file));
    else fprintf(stderr, "checkpointing: %s\n", words.regions);
    if (!missing && *words.units) fprintf(stderr, "sharding: %s\n", words.units);
    fprintf(stderr, "'%s' is a valid recipe\n", name);
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
        int code         = print_text(c, status, text);
        rp__bump_free(&bump);
        return code;
    }
    if (!args->n_words) {
        cli_say(c, "an argument is missing: reprise validate CONFIG [KEY=VALUE ...]");
        fprintf(stderr, "try 'reprise validate --help'\n");
        return CLI_USAGE;
    }
    int code = cli_load_recipe(c, args, 0, &recipe);
    if (code != CLI_GO) return code;
    code = 0;
    if (fields->resolved) {
        rp_status status = rp__recipe_write(recipe, &bump, &text);
        code             = print_text(c, status, text);
    } else code = try_model(c, recipe, args->word[0]);
    rp__bump_free(&bump);
    rp__recipe_free(recipe);
    return code;
}

static const cli_option options[] = {
    { "resolved", 0, CLI_FLAG, offsetof(validate_fields, resolved), NULL, "print the whole recipe, defaults filled in",
      0, 0 },
    { "keys", 0, CLI_FLAG, offsetof(validate_fields, keys), NULL, NULL, 0, 0 },
};

const cli_command cmd_validate = {
    .usage = "CONFIG [KEY=VALUE ...]",
    .about = "Check a recipe and tell every error it has, with its line. CONFIG is a path or the name of a shipped\n"
             "recipe; KEY=VALUE sets a key, ~KEY removes one. Where the model's files are there, names are held\n"
             "against it, and the modules that become regions are told.",
    CLI_OPTIONS(validate_fields, options),
    .most_words = 1, .settings = true,
    .run = validate,
};
