/* cli/cli.h -- the frame of the program: one file a command, one line of commands.def each, options as tables.
 *
 * A command is given its options and words, calls the library and returns an exit code: rp_status_exit_code of what
 * failed, 2 for usage. Data goes to stdout, all else to stderr. Only main.c ends the program. */
#ifndef RP_CLI_H
#define RP_CLI_H

#include <jansson.h>

#include "models/weights.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

#define CLI_USAGE 2                             /* exit code: the command line or a configuration is wrong */

typedef struct {
    rp_ctx *ctx;                                /* for messages and recipes; a command that computes opens its own */
    const char *command;
    struct rp_comm *comm;                       /* of cli_open_ranks; NULL: this process alone */
    bool allow_plugins;                         /* --allow-plugins was given: recipes may load the libraries that they name */
} cli;

typedef enum { CLI_FLAG, CLI_TEXT, CLI_INT, CLI_NUMBER } cli_option_kind;   /* bool, const char *, int64_t, double */

typedef struct {
    const char *name;                           /* without dashes */
    char letter;                                /* 0: it has no short form */
    cli_option_kind kind;
    size_t offset;                              /* of its field in the struct that cli_command.run is given */
    const char *value;                          /* what --help calls the value: "FILE" */
    const char *help;                           /* NULL: not listed */
    double low, high;                           /* of a number; both 0: any */
} cli_option;

typedef struct {
    int n_words, n_settings;
    const char **word, **setting;               /* borrowed from argv */
} cli_args;

typedef struct {
    const char *usage;                          /* after the command's name: "CONFIG [KEY=VALUE ...]" */
    const char *about;
    const cli_option *option;
    int n_options, least_words, most_words;
    bool settings;                              /* KEY=VALUE and ~KEY may come, in any order */
    bool plugins;                               /* it runs what a recipe names: --allow-plugins may come */
    size_t fields_bytes;                        /* of the struct that the options fill … */
    const void *defaults;                       /* … and what is in it before; NULL: zeros */
    int (*run)(cli *c, const void *fields, const cli_args *args);
} cli_command;

#define CLI_OPTIONS(fields, table) .option = table, .n_options = RP_COUNT(table), .fields_bytes = sizeof(fields)

#define CLI_COMMAND(name, summary, command) extern const cli_command command;
#include "cli/commands.def"
#undef CLI_COMMAND

/* argv (argv[0] is the command) read as the command's table says, and the command run. Options and words come in any order; "--" ends
 * options; "--name=value", "--name value", "-nvalue" and "-n value" are alike; a name may be cut while it stays unique.
 * Returns the exit code: the command's, 0 after --help, 2 after saying what is wrong. */
int cli_run(cli *c, const cli_command *command, int argc, char **argv);

#define CLI_GO (-1)                             /* no exit code yet: go on */

/* CLI_GO when a required option came, else 2 after telling that it is missing. */
int cli_need(const cli *c, const char *option, const char *value, const char *given);

/* ---- what reaches a terminal (cli/print.c) ---- */

/* Print with stdio as ever: nothing that drives a terminal passes. _begin is called before anything is printed, _end after all. */
void cli_print_begin(void);
void cli_print_end(void);
/* Lines on stderr begin with "[rank] " from now on. */
void cli_print_rank(int rank);
/* Bytes go to stdout as they are, for output that is no terminal's; or no more. */
void cli_print_raw(bool raw);
/* A name of a file, a tensor, a recipe: newlines and tabs in it become '?', too, so that it begins no line of its own. NULL: "". */
#define CLI_LINE_CHARS 4352
const char *cli_one_line(const char *text, char out[CLI_LINE_CHARS]);

/* "reprise validate: ..." on stderr. */
void cli_say(const cli *c, const char *fmt, ...) RP_PRINTF(2, 3);
/* The context's sentence on stderr; returns the exit code of the status. Where all ranks have agreed upon it, the first one says it. */
int cli_fail(const cli *c, rp_status status);
/* The same before work has begun: a file that cannot be read is then wrong input, 2. */
int cli_fail_input(const cli *c, rp_status status);
/* Every message of a report on stderr, one a line. */
void cli_print_report(const rp_report *report);
/* The same, sorted, and the report closed. CLI_GO where the status is RP_OK, else its exit code: the context's sentence is told only if the
 * report has told no error. Ranks above 0 leave the report to the first. _input: as cli_fail_input. */
int cli_tell(const cli *c, rp_report *report, rp_status status);
int cli_tell_input(const cli *c, rp_report *report, rp_status status);
/* One line on stdout; jansson's flags. The value is taken over. */
void cli_print_json(json_t *value, size_t flags);
/* How a command ends: cli_fail of what failed, 1 after telling that stdout could not be written, or 0. */
int cli_finish(const cli *c, rp_status status);

/* The command, in its job, with a context of its own, to be freed with rp_ctx_free; tells what is wrong. CLI_GO, or the exit code. */
int cli_open_context(const cli *c, const rp_ctx_options *options, cli *out);

/* CLI_GO when something of that name is there; else the exit code after telling that it cannot be opened. */
int cli_find_input(const cli *c, const char *path);
/* The same for a MODEL, which may be meant as a name on a hub. */
int cli_find_model(const cli *c, const char *path);
/* CLI_GO when a file of that name could be made; else the exit code after telling why not. */
int cli_find_output(const cli *c, const char *path);

/* CONFIG, args' first word, a path or a shipped name, into a recipe with args' settings. Its budget is at most `most_bytes`, of a machine
 * that has so much; 0: as it says. Tells what is wrong. CLI_GO, or the exit code. */
int cli_load_recipe(cli *c, const cli_args *args, int64_t most_bytes, rp_recipe **out);

/* If the model's files are missing, uses the config of `model.stand_in` instead and prints a note. For commands that need shapes only. */
void cli_stand_in(const cli *c, rp_recipe *recipe);

/* ---- a model to compute with (cli/model.c) ---- */

typedef struct {
    cli run;                                    /* the command with the context that computes: for cli_fail */
    rp_recipe *settings;                        /* a recipe in which only the KEY=VALUE of the command are set */
    rp_dtype dtype;
    rp_tokenizer *tokenizer;
    rp_model_files *files;
    rp_model_config config;                     /* until cli_model_load takes it */
    rp_model *model;                            /* NULL until cli_model_load */
} cli_model;

/* Everything that can be refused before work begins: the settings, MODEL's config and its tokenizer. `otherwise` is the
 * dtype where none is set; `length` says that max_seq_len may be. Tells what is wrong: CLI_GO, or the exit code.
 * Close it in both cases. */
int cli_model_open(cli *c, const char *path, const cli_args *args, rp_dtype otherwise, bool length, cli_model *out);
/* The ids of a text, or of a file of text (packed or not), all of them in the model's vocabulary. *ids is yours to rp__release.
 * errors  as rp__tokenizer_encode, rp__text_ids · RP_ERR_ARG the tokenizer is of another model */
rp_status cli_model_encode(cli_model *m, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids);
rp_status cli_model_encode_file(cli_model *m, const char *path, int32_t **ids, int64_t *n_ids);
/* What a user says, as the model's chat template writes it, up to where the answer begins; `path` is MODEL. *text is yours to rp__release.
 * errors  RP_ERR_ARG there is no template · as rp__chat_load, rp__chat_ask */
rp_status cli_model_ask(cli_model *m, const char *path, const char *says, char **text);
/* The parameters, from the files. */
int cli_model_load(cli_model *m);
void cli_model_close(cli_model *m);

/* ---- ranks (cli/ranks.c, cli/launch.c) ---- */

/* The signals that stop a run after a step, 0-ended: SIGINT, SIGTERM, SIGHUP, SIGXCPU. The exit code is then 128 + signal. */
const int *cli_stop_signals(void);
/* Catches one of them, unblocked. False: it is SIGHUP, and the caller ignores it, as `nohup` does. */
bool cli_take_signal(int number, void (*handler)(int), int flags);
/* Says on stderr that the step is finished first. For handlers, too. */
void cli_say_stopping(int number);
/* Catches them all. *stop becomes the first signal that came, or, in a job that `--nproc` started, the one that any of its processes got.
 * A second SIGINT or SIGTERM ends the process at once. In a job SIGUSR1 counts as SIGINT: MPI's launchers pass it on to all ranks. */
const volatile int *cli_catch_stop(void);

/* In a process of an MPI job: the ranks of it, into c->comm and rp__world(c->ctx). Lines that ranks
 * above 0 write to stderr begin with "[rank] " from then on. Else nothing is done. Tells what is wrong: CLI_GO, or the exit code. */
int cli_open_ranks(cli *c);
/* Leaves the job and returns `code`. A failure that the ranks have not agreed upon is this one's own: it ends the others, who wait for it. */
int cli_close_ranks(cli *c, int code);

/* Does this process speak for all ranks? The others say only what is theirs alone. */
bool cli_is_first(const cli *c);
/* CLI_GO when all ranks have it, else the exit code of the first that has another: each tells for itself what is wrong. */
int cli_agree(cli *c, int code);

/* Is stderr a terminal, or is it handed on to one by the process that started the ranks? Its width into *columns, 0 where nobody knows. */
bool cli_terminal(int *columns);

typedef struct {
    int64_t ranks;
    int64_t threads;                            /* as the recipe has it; 0: each rank gets its share of the cores, as a setting */
    const cli_args *args;                       /* what the command was given, without --nproc */
} cli_job;
/* The command again on so many ranks of this machine, by the mpirun that is here. Returns when all have ended; the exit code is theirs. */
int cli_launch(cli *c, const cli_job *job);

/* Shipped recipes (cli/shipped.c): names sorted by bytes, NULL-ended; free with cli_shipped_free. */
typedef struct { char folder[4096]; int n; char **name; } cli_shipped;
bool cli_shipped_list(cli_shipped *out);
void cli_shipped_free(cli_shipped *shipped);
/* Path of a shipped recipe into out; false: there is none of that name. */
bool cli_shipped_path(const cli_shipped *shipped, const char *name, char *out, size_t out_bytes);
/* Tell that there is no such recipe, with the nearest name. */
void cli_shipped_missing(const cli *c, const cli_shipped *shipped, const char *name);

#endif
