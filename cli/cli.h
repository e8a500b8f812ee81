/* cli/cli.h -- the frame of the program: a file for each command, a line for each in commands.def, options as tables.
 *
 * A command receives its options and words, calls the library and returns an exit code: rp_status_exit_code of the failed status, or 2 for
 * wrong usage. Data goes to stdout, everything else to stderr. Only main.c ends the program. */
#ifndef RP_CLI_H
#define RP_CLI_H

#include <jansson.h>

#include "cli/sizes.h"
#include "models/weights.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

#define CLI_USAGE 2                             /* exit code: the command line or a configuration is wrong */

typedef struct {
    rp_ctx *ctx;                                /* for messages and recipes; a command that computes opens another one */
    const char *command;
    struct rp_comm *comm;                       /* from cli_open_ranks; NULL: this process is not a rank */
    bool bytes;                                 /* --bytes was given: sizes are exact */
    bool allow_plugins;                         /* --allow-plugins was given: recipes may load plug-in libraries */
} cli;

typedef enum { CLI_FLAG, CLI_TEXT, CLI_INT, CLI_NUMBER } cli_option_kind;   /* bool, const char *, int64_t, double */

typedef struct {
    const char *name;                           /* without dashes */
    char letter;                                /* 0: no short form */
    cli_option_kind kind;
    size_t offset;                              /* of its field in the struct that cli_command.run receives */
    const char *value;                          /* name of the value in --help: "FILE" */
    const char *help;                           /* NULL: not listed */
    double low, high;                           /* range of a number; both 0: any number */
} cli_option;

typedef struct {
    int n_words, n_settings;
    const char **word, **setting;               /* borrowed from argv */
} cli_args;

typedef struct {
    const char *usage;                          /* after the command's name: "CONFIG [KEY=VALUE ...]" */
    const char *about;                          /* the description in --help, without an empty line */
    const char *example;                        /* a command line, printed after the options */
    const cli_option *option;
    int n_options, least_words, most_words;
    bool settings;                              /* accepts KEY=VALUE and ~KEY, in any order */
    bool sizes;                                 /* accepts --bytes, because it prints sizes by cli_size */
    bool plugins;                               /* accepts --allow-plugins, because it may load plug-ins of a recipe */
    size_t fields_bytes;                        /* size of the struct that the options fill */
    const void *defaults;                       /* its initial contents; NULL: zeros */
    int (*run)(cli *c, const void *fields, const cli_args *args);
} cli_command;

#define CLI_OPTIONS(fields, table) .option = table, .n_options = RP_COUNT(table), .fields_bytes = sizeof(fields)

#define CLI_COMMAND(name, summary, command) extern const cli_command command;
#include "cli/commands.def"
#undef CLI_COMMAND

/* Read argv (argv[0] is the command) by the command's table and run the command. Options and words come in any order; "--" ends the options.
 * "--name=value", "--name value", "-nvalue" and "-n value" are equivalent. A name may be shortened while it stays unique.
 * Returns the exit code: that of the command, 0 after --help, 2 after an error message. */
int cli_run(cli *c, const cli_command *command, int argc, char **argv);

#define CLI_GO (-1)                             /* no exit code yet: continue */

/* CLI_GO if a required option was given, else 2 after an error message. */
int cli_need(const cli *c, const char *option, const char *value, const char *given);

/* ---- output to a terminal (cli/print.c) ---- */

/* Replace stdout and stderr by streams that make control characters visible; print with stdio as usual. Call _begin before anything is printed,
 * _end after everything. */
void cli_print_begin(void);
void cli_print_end(void);
/* From now on lines on stderr begin with "[rank] ". */
void cli_print_rank(int rank);
/* true: write bytes to stdout unchanged (only if it is no terminal); false: make control characters visible. */
void cli_print_raw(bool raw);
/* The name of a file, tensor or recipe on one line: newlines and tabs become '?', too. NULL gives "". */
#define CLI_LINE_CHARS 4352
const char *cli_one_line(const char *text, char out[CLI_LINE_CHARS]);

/* Print "reprise validate: ..." on stderr. */
void cli_say(const cli *c, const char *fmt, ...) RP_PRINTF(2, 3);
/* Print the error message of the context on stderr; returns the exit code of the status. If all ranks agreed on the status, only the first prints. */
int cli_fail(const cli *c, rp_status status);
/* The same before work has begun: RP_ERR_IO is then wrong input, exit code 2. */
int cli_fail_input(const cli *c, rp_status status);
/* Print every message of a report on stderr, one a line. */
void cli_print_report(const rp_report *report);
/* Print the report sorted and close it. CLI_GO if the status is RP_OK, else its exit code; the error message of the context is printed only if the
 * report has no error. Only the first rank prints the report. _input: as cli_fail_input. */
int cli_report(const cli *c, rp_report *report, rp_status status);
int cli_report_input(const cli *c, rp_report *report, rp_status status);
/* Print a JSON value as one line on stdout, with jansson's flags. Takes ownership of the value. */
void cli_print_json(json_t *value, size_t flags);
/* The exit code of a command that ends: cli_fail of an error, 1 after the message that stdout cannot be written, or 0. */
int cli_finish(const cli *c, rp_status status);

/* Open a context of its own for the command (in its job of ranks); free out->ctx with rp_ctx_free. CLI_GO, or the exit code after an error message. */
int cli_open_context(const cli *c, const rp_ctx_options *options, cli *out);

/* CLI_GO if the path can be read, else the exit code after an error message. */
int cli_find_input(const cli *c, const char *path);
/* The same for a MODEL. The message hints at 'download' if the name could be one on the hub. */
int cli_find_model(const cli *c, const char *path);
/* CLI_GO if a file of that name could be created, else the exit code after an error message. */
int cli_find_output(const cli *c, const char *path);

/* Load the recipe CONFIG (the first word of args: a path or a shipped name) with the settings of args. most_bytes: upper limit for its budget, the
 * memory of a machine; 0: no limit. checks: further checks of a recipe with errors, so that all of them are printed at once: CLI_DATA of its data,
 * CLI_FOLDERS of the folders that a run writes. CLI_GO, or the exit code after an error message. */
enum { CLI_DATA = 1, CLI_FOLDERS = 2 };
int cli_load_recipe(cli *c, const cli_args *args, int64_t most_bytes, int checks, rp_recipe **out);

/* If the model's files are missing, uses the config of `model.stand_in` instead and prints a note. For commands that need shapes only. */
void cli_stand_in(const cli *c, rp_recipe *recipe);

/* ---- a model to compute with (cli/model.c) ---- */

typedef struct {
    cli run;                                    /* the command, with the context that computes */
    rp_recipe *settings;                        /* a recipe with only the KEY=VALUE settings of the command */
    rp_dtype dtype;
    rp_tokenizer *tokenizer;
    rp_model_files *files;
    rp_model_config config;                     /* cli_model_load takes it over */
    rp_model *model;                            /* NULL until cli_model_load */
} cli_model;

/* Open everything that can be refused before work begins: the settings, the config of MODEL and its tokenizer. otherwise: the default dtype.
 * more: further keys that may be set: CLI_LENGTH max_seq_len, CLI_DATASET those of a dataset but its path. CLI_GO, or the exit code after an error
 * message. Close *out in both cases. */
enum { CLI_LENGTH = 1, CLI_DATASET = 2 };
int cli_model_open(cli *c, const char *path, const cli_args *args, rp_dtype otherwise, int more, cli_model *out);
/* Encode a text. *ids is yours to rp__release.
 * errors  RP_ERR_ARG an id outside the vocabulary of the model · those of rp__tokenizer_encode */
rp_status cli_model_encode(cli_model *m, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids);
typedef struct { int32_t *id; int64_t n, room; } cli_ids;      /* `id` is yours to rp__release */
/* Append the ids of a text file, compressed or not. An empty file has none. errors as cli_model_encode · those of rp__text_ids */
rp_status cli_model_encode_file(cli_model *m, const char *path, cli_ids *ids);
/* Render a user message with the chat template of the model at `path`, up to the beginning of the answer. *text is yours to rp__release.
 * errors  RP_ERR_ARG no chat template · those of rp__chat_load, rp__chat_ask */
rp_status cli_model_ask(cli_model *m, const char *path, const char *says, char **text);
/* Load the parameters from the files. CLI_GO, or the exit code after an error message. */
int cli_model_load(cli_model *m);
void cli_model_close(cli_model *m);

/* After a run, print on stderr the path of its report and the commands that apply to its model: at most four lines. */
void cli_print_next(const rp_recipe *recipe, rp_trainer *trainer);

/* ---- ranks (cli/ranks.c, cli/launch.c) ---- */

/* The signals that stop a run after a step, 0-ended: SIGINT, SIGTERM, SIGHUP, SIGXCPU. The exit code is then 128 + signal. */
const int *cli_stop_signals(void);
/* Catch one of them and unblock it. False: it is SIGHUP and is ignored, as under `nohup`. */
bool cli_take_signal(int number, void (*handler)(int), int flags);
/* Print on stderr that the running step is finished first. Safe in signal handlers. */
void cli_say_stopping(int number);
/* Catch them all. *stop becomes the number of the first signal; in a job started by `--nproc`, the first signal of any of its processes. A second
 * SIGINT or SIGTERM ends the process at once. In a job SIGUSR1 counts as SIGINT, because MPI launchers pass it on to all ranks. */
const volatile int *cli_catch_stop(void);

/* In a process of an MPI job: join its ranks, in c->comm and rp__world(c->ctx). From then on lines of ranks above 0 on stderr begin with
 * "[rank] ". In any other process it does nothing. CLI_GO, or the exit code after an error message. */
int cli_open_ranks(cli *c);
/* Leave the job and return `code`. A failure of this rank alone, on which the ranks have not agreed, also ends the others, which wait for it. */
int cli_close_ranks(cli *c, int code);

/* Whether this process prints for all ranks. The others print only their own errors. */
bool cli_is_first(const cli *c);
/* CLI_GO if all ranks pass CLI_GO, else the exit code of the first rank that does not. Each rank prints its own error message before. */
int cli_agree(cli *c, int code);

/* Whether stderr is a terminal, or the launcher passes it on to one. *columns: its width; 0: unknown. */
bool cli_terminal(int *columns);

typedef struct {
    int64_t ranks;
    int64_t threads;                            /* of the recipe; 0: each rank gets a setting with its share of the cores */
    const cli_args *args;                       /* arguments of the command, without --nproc */
} cli_job;
/* Run the same command on several ranks of this machine with the installed mpirun. Returns the exit code of the ranks when all have ended. */
int cli_launch(cli *c, const cli_job *job);

/* Shipped recipes (cli/shipped.c): names sorted by bytes and ended by NULL; free with cli_shipped_free. */
typedef struct { char folder[4096]; int n; char **name; } cli_shipped;
bool cli_shipped_list(cli_shipped *out);
void cli_shipped_free(cli_shipped *shipped);
/* The path of a shipped recipe into out; false: no such recipe. */
bool cli_shipped_path(const cli_shipped *shipped, const char *name, char *out, size_t out_bytes);
/* Print that no such recipe is shipped, with the nearest name. */
void cli_shipped_missing(const cli *c, const cli_shipped *shipped, const char *name);

#endif
