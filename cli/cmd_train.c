/* cli/cmd_train.c -- train: run a recipe. Messages go to stderr; results go to output_dir. */
#include "cli/cli.h"

#include <signal.h>

#include "base/report.h"
#include "cli/progress.h"
#include "comm/comm.h"
#include "data/data.h"
#include "models/model.h"
#include "rehearse/forecast.h"
#include "train/loop.h"
#include "view/report.h"

typedef struct { int64_t nproc; } train_fields;

/* ---- the head ---- */

static const char *s_of(int64_t n) { return n == 1 ? "" : "s"; }

/* The regions of the recipe, and what the plan for its budget adds. */
static void print_checkpointing(const rp_recipe *r, rp_trainer *t, const rp_step_usage *found)
{
    char regions[RP_REGIONS_CHARS], offloaded[RP_SIZE_CHARS];
    bool planned = rp__recipe_is_bounded(r) && found->recompute_flops + found->offloaded_bytes > 0;

    fprintf(stderr, "checkpointing  %s", rp__regions_text(rp__model_root(rp__trainer_model(t)), rp__trainer_n_rules(t), regions));
    if (planned)
        fprintf(stderr, " by the recipe; the plan for the budget recomputes %.1f %% of the work",
                100 * (double)found->recompute_flops / (double)found->step_flops);
    if (planned && found->offloaded_bytes) fprintf(stderr, " and offloads %s", cli_size(offloaded, found->offloaded_bytes));
    fputc('\n', stderr);
}

/* "4 ranks x " */
static const char *ranks_text(int n, char out[RP_SIZE_CHARS])
{
    if (n > 1) snprintf(out, RP_SIZE_CHARS, "%d ranks x ", n);
    else *out = 0;
    return out;
}

static void print_data(const char *label, const rp_recipe_dataset *d, const rp_data_info *info)
{
    char text[RP_DATA_TEXT_CHARS], line[CLI_LINE_CHARS];

    fprintf(stderr, "%-15s%s\n", label, cli_one_line(rp__data_text(info, d->path.first, d->path.all.n, text), line));
    if (info->n_skipped) fprintf(stderr, "%-15sthe first of %" PRId64 ": %s\n", "skipped", info->n_skipped, cli_one_line(info->first_skipped, line));
}

static void print_head(const rp_recipe *r, rp_trainer *t)
{
    const rp_trainer_info *info = rp__trainer_info(t);
    const rp_step_usage *found   = &info->rehearsal;
    char ranks[RP_SIZE_CHARS], peak[RP_SIZE_CHARS], reserved[RP_SIZE_CHARS], quantised[RP_SIZE_CHARS], gathered[RP_UNITS_CHARS], name[CLI_LINE_CHARS];

    fprintf(stderr, "model          %s: %" PRId64 " parameters, %s\n", cli_one_line(r->model.path ? r->model.path : r->model.config, name),
            info->n_params, r->dtype == RP_TRAIN_BF16 ? "bf16" : "fp32");
    if (info->device) fprintf(stderr, "device         %s\n", info->device);
    if (info->n_trained < info->n_params) fprintf(stderr, "trained        %" PRId64 " of them; the others are frozen\n", info->n_trained);
    if (info->n_quantised)
        fprintf(stderr, "quantised      %" PRId64 " of them, in %s\n", info->n_quantised, rp__size_text(quantised, info->quantised_bytes));
    if (info->mapped_bytes) fprintf(stderr, "mapped         %s of them stay in the model's files\n", rp__size_text(quantised, info->mapped_bytes));
    print_data("data", &r->dataset, &info->data);
    if (info->val.n_samples) print_data("validation", &r->dataset_val, &info->val);
    fprintf(stderr, "steps          %" PRId64 " to %" PRId64 ", each of %s%" PRId64 " x %" PRId64 " sample%s of %" PRId64 " tokens\n",
            info->first_step + 1, info->n_steps, ranks_text(info->n_ranks, ranks), r->gradient_accumulation_steps, r->batch_size,
            s_of(r->batch_size), r->max_seq_len);
    print_checkpointing(r, t, found);
    const char *units = rp__trainer_units_text(t, gathered);
    if (units) fprintf(stderr, "sharding       %s\n", units);
    fprintf(stderr, "memory         peak %s, reserved %s\n", cli_size(peak, found->memory.peak_bytes),
            cli_size(reserved, found->memory.reserved_bytes));
    if (info->limit)
        fprintf(stderr, "memory limit   %s for the process, %s of it outside the budget\n", cli_size(peak, info->limit),
                cli_size(reserved, info->allowance));
}

/* ---- the run ---- */

static cli_progress shown_progress(rp_trainer *t)
{
    int columns   = 0;
    bool terminal = cli_terminal(&columns);

    return (cli_progress){ .to = stderr, .terminal = terminal, .n_steps = rp__trainer_info(t)->n_steps, .columns = columns };
}

static void show_step(void *shown, const rp_metrics *line, double seconds_left) { cli_progress_step(shown, line, seconds_left); }

static void show_sample(void *shown, int64_t step, const char *prompt, const char *text)
{
    char line[CLI_LINE_CHARS];

    cli_progress_break(shown);
    fprintf(stderr, "sample         after step %" PRId64 ", '%s' goes on:", step, cli_one_line(prompt, line));
    fprintf(stderr, " %s\n", cli_one_line(text, line));
}

/* Write the report, also of an interrupted run, unless no step was done. */
static rp_status write_report(rp_trainer *t, rp_status ended)
{
    if (!rp__trainer_done(t)) return ended;
    rp_status status = rp_trainer_report(t);
    return status == RP_OK ? ended : status;
}

static void print_end(const rp_recipe *recipe, rp_trainer *t)
{
    char out[RP_PROFILE_TEXT_CHARS], folder[CLI_LINE_CHARS];
    const char *text = rp__trainer_profile_text(t, out);

    const rp_trainer_info *info = rp__trainer_info(t);

    cli_one_line(recipe->output_dir, folder);
    if (info->stopped_early)
        fprintf(stderr, "stopped early  after step %" PRId64 ": %" PRId64 " validations in a row without a lower loss\n", info->n_steps,
                recipe->early_stopping.patience.value);
    if (text) fprintf(stderr, "the profile is in '%s/profile.txt' and profile.trace.json: %s\n", folder, text);
    fprintf(stderr, "the model is in '%s/final'%s\n", folder, recipe->final_format == RP_FINAL_GGUF ? ", and for llama.cpp in final.gguf" : "");
    if (recipe->keep_best && info->best_step)
        fprintf(stderr, "the best one is in '%s/best': val_loss %.4f at step %" PRId64 "\n", folder, info->best_loss, info->best_step);
    cli_print_next(recipe, t);
}

/* In a job only the first rank prints the progress. Ranks that finish or stop have reached the same step, so they agree on the status. A rank
 * that fails in between does not wait for the others. */
static int run_trainer(const cli *c, const rp_recipe *recipe, rp_trainer *t, const volatile int *stop)
{
    cli_progress shown   = shown_progress(t);
    rp_progress progress = { show_step, show_sample, &shown };
    bool first           = cli_is_first(c);

    if (first && rp__trainer_done(t) < rp__trainer_info(t)->n_steps) print_head(recipe, t);
    rp_status status = rp__trainer_run(t, stop, first ? &progress : NULL);
    cli_progress_break(&shown);
    if (status == RP_OK || status == RP_ERR_INTERRUPTED) status = write_report(t, status);
    if (status == RP_OK || status == RP_ERR_INTERRUPTED) status = rp__comm_agree(c->ctx, c->comm, status);
    if (status == RP_OK && first) print_end(recipe, t);
    if (status == RP_OK) return 0;
    int code = cli_fail(c, status);
    return status == RP_ERR_INTERRUPTED ? 128 + rp__trainer_stopped_by(t) : code;
}

static int train_on(const cli *c, const rp_recipe *recipe, const volatile int *stop)
{
    rp_trainer *t = NULL;
    rp_report report;

    rp__report_open(&report, c->ctx);
    rp_status status = rp__trainer_new(c->ctx, recipe, &report, &t);
    int code = cli_report(c, &report, status);
    if (code != CLI_GO) return code;
    code = run_trainer(c, recipe, t, stop);
    rp__trainer_free(t);
    return code;
}

static int train_recipe(const cli *c, const rp_recipe *recipe, const volatile int *stop)
{
    rp_ctx_options options = rp__recipe_ctx_options(recipe);
    cli own;
    int code = cli_open_context(c, &options, &own);

    if (code != CLI_GO) return code;
    rp__groups(own.ctx)->world = c->comm;
    code          = train_on(&own, recipe, stop);
    rp_ctx_free(own.ctx);
    return code;
}

/* An error of the recipe is the same on all ranks. So the first rank reads it first, and the others only if it is valid. */
static int load_recipe(cli *c, const cli_args *args, rp_recipe **out)
{
    bool first = cli_is_first(c);
    int code   = CLI_GO;

    if (first) code = cli_load_recipe(c, args, 0, CLI_DATA | CLI_FOLDERS, out);
    code = cli_agree(c, code);
    if (code != CLI_GO || rp__comm_ranks(c->comm) == 1) return code;
    if (!first) code = cli_load_recipe(c, args, 0, CLI_DATA | CLI_FOLDERS, out);
    return cli_agree(c, code);
}

/* Refuse Slurm tasks that no MPI joins: each would train alone and write the same files. */
static int check_joined(const cli *c, const rp_recipe *recipe)
{
    const char *task = getenv("SLURM_PROCID");
    int tasks        = rp__comm_unjoined();

    if (tasks == 1 || recipe->dist.ranks.set) return CLI_GO;
    if (!task || !strcmp(task, "0"))
        cli_say(c, "Slurm runs this as %d tasks, and no MPI joins them: use srun --mpi=pmix for Open MPI, --mpi=pmi2 for MPICH; to train "
                "independently in each task, with an 'output_dir' of its own, set dist.ranks=1", tasks);
    return CLI_USAGE;
}

static int train_here(cli *c, const cli_args *args)
{
    const volatile int *stop = cli_catch_stop();
    rp_recipe *recipe        = NULL;
    int code                 = cli_open_ranks(c);

    if (code != CLI_GO) return code;
    code = load_recipe(c, args, &recipe);
    if (code == CLI_GO) code = check_joined(c, recipe);
    if (code == CLI_GO) code = train_recipe(c, recipe, stop);
    rp__recipe_free(recipe);
    return cli_close_ranks(c, code);
}

/* The recipe is read here, too, so that its errors are printed before any rank starts. */
static int launch(cli *c, int64_t ranks, const cli_args *args)
{
    rp_recipe *recipe;
    int code = cli_load_recipe(c, args, 0, CLI_DATA | CLI_FOLDERS, &recipe);

    if (code != CLI_GO) return code;
    code = cli_launch(c, &(cli_job){ .ranks = ranks, .threads = recipe->threads, .args = args });
    rp__recipe_free(recipe);
    return code;
}

static int train(cli *c, const void *given, const cli_args *args)
{
    const train_fields *fields = given;
    bool alone                 = fields->nproc <= 1 && !(fields->nproc && rp__comm_launched());

    signal(SIGPIPE, SIG_IGN);       /* the run continues if the reader of the progress exits */
    signal(SIGXFSZ, SIG_IGN);       /* a file-size limit then fails the write, like a full disk */
    return alone ? train_here(c, args) : launch(c, fields->nproc, args);
}

static const cli_option options[] = {
    { "nproc", 0, CLI_INT, offsetof(train_fields, nproc), "N", "run on N ranks of this machine, with its mpirun", 1, 4096 },
};

const cli_command cmd_train = {
    .usage = "CONFIG [KEY=VALUE ...] [--nproc N] [--bytes] [--allow-plugins]",
    .about = "Train the model of a recipe. CONFIG is a path or the name of a shipped recipe; KEY=VALUE sets a key,\n"
             "~KEY removes one. Metrics, states, the trained model and a report are written under output_dir.\n"
             "SIGINT, SIGTERM, SIGHUP and SIGXCPU finish the step and save a state; 'resume=auto' continues from it.",
    .example = "reprise train smollm2_135m_full max_steps=4",
    CLI_OPTIONS(train_fields, options),
    .least_words = 1, .most_words = 1, .settings = true, .sizes = true, .plugins = true,
    .run = train,
};
