/* cli/next.c -- after a run: the commands that use its model, each on a line that can be copied into a shell. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>

#include "base/file.h"
#include "cli/launch.h"
#include "data/data.h"
#include "models/adapter.h"
#include "models/model.h"
#include "train/loop.h"

/* FOLDER/NAME as one word of a shell. */
static void print_path(const char *folder, const char *name)
{
    char line[CLI_LINE_CHARS];
    bool plain = *folder != '~';

    for (const char *c = cli_one_line(folder, line); *c; c++)
        plain = plain && (*c & 0x80 || strchr("/._-+,=:@%~", *c) || (*c >= '0' && *c <= '9') || ((*c | 32) >= 'a' && (*c | 32) <= 'z'));
    if (*folder == '-') fputs("./", stderr);
    if (!plain) fputc('\'', stderr);
    for (const char *c = line; *c; c++) {
        if (*c == '\'') fputs("'\\''", stderr);
        else fputc(*c, stderr);
    }
    fprintf(stderr, "%s%s", *name ? "/" : "", name);
    if (!plain) fputc('\'', stderr);
}

/* The program by the name under which it was called, so that the line works where this one did. */
static void print_command(const char *label, const char *command)
{
    fprintf(stderr, "%-15s", label);
    print_path(program_invocation_name, "");
    fprintf(stderr, " %s ", command);
}

static bool is_in_final(rp_ctx *ctx, const rp_recipe *r, const char *name)
{
    char *path = rp__path_join(ctx, r->output_dir, name);
    bool there = path && rp__file_exists(path);

    rp__release(path);
    return there;
}

/* The text that validates the run, if it is one file or folder; else the name of a value. */
static void print_eval_data(const rp_recipe *r)
{
    const rp_recipe_dataset *d = &r->dataset_val;
    bool text                  = d->format == RP_FORMAT_TEXT && d->path.all.n == 1 && rp__file_exists(d->path.first);

    if (text) print_path(d->path.first, "");
    else fputs("PATH", stderr);
}

/* final/ has the chat template of the tokenizer, but not one that the recipe names. */
static bool chats(const rp_recipe *r) { return rp__dataset_by_template(&r->dataset) && !r->tokenizer.chat_template; }

/* An encoder neither generates nor scores a text. Without a tokenizer in final/, or without the file of an adapter's base, a text has no ids or
 * the model no weights: then the user has to add a key. */
static void print_uses(const rp_recipe *r, rp_trainer *t)
{
    rp_model *model = rp__trainer_model(t);
    bool based      = !rp__model_is_adapted(model) || r->lora.merge || r->model.path;

    if (rp__model_config(model)->both_ways || !based || !is_in_final(rp__model_ctx(model), r, "final/tokenizer.json")) return;
    print_command("generate", "generate");
    print_path(r->output_dir, "final");
    fputs(chats(r) ? " --chat --prompt 'Who are you?'\n" : " --prompt 'Once upon a time'\n", stderr);
    print_command("evaluate", "eval");
    print_path(r->output_dir, "final");
    fputs(" --data ", stderr);
    print_eval_data(r);
    fputc('\n', stderr);
}

/* As many steps again. A job that mpirun or Slurm has started is started in its own way. */
static void print_longer(const rp_recipe *r, const rp_trainer_info *info)
{
    int64_t steps = info->n_steps, per_epoch = info->data.steps_per_epoch;
    bool launched = getenv(CLI_LAUNCHER) != NULL;

    if (info->stopped_early || steps > INT64_MAX / 4 || per_epoch <= 0 || r->epochs > INT64_MAX / 4 || (info->n_ranks > 1 && !launched)) return;
    print_command("train longer", "train");
    print_path(r->output_dir, "config.yaml");
    fputs(" resume=auto", stderr);
    int64_t epochs = r->max_steps.set ? (2 * steps - 1) / per_epoch + 1 : 2 * r->epochs;
    if (r->max_steps.set) fprintf(stderr, " max_steps=%" PRId64, 2 * steps);
    if (epochs > r->epochs) fprintf(stderr, " epochs=%" PRId64, epochs);
    if (info->n_ranks > 1) fprintf(stderr, " --nproc %d", info->n_ranks);
    fputs(r->allow_plugins ? " --allow-plugins\n" : "\n", stderr);
}

void cli_print_next(const rp_recipe *recipe, rp_trainer *trainer)
{
    fputs("report         ", stderr);
    print_path(recipe->output_dir, "report.html");
    fputc('\n', stderr);
    print_uses(recipe, trainer);
    print_longer(recipe, rp__trainer_info(trainer));
}
