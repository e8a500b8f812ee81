/* cli/main.c -- finds the command and runs it. The only file that ends the program. */
#include "cli/cli.h"
#include "base/file.h"
#include "base/report.h"
#include "comm/comm.h"
#include "models/weights.h"

#include <errno.h>
#include <fcntl.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static const struct { const char *name, *summary; const cli_command *command; } commands[] = {
#define CLI_COMMAND(name, summary, command) { name, summary, &command },
#include "cli/commands.def"
#undef CLI_COMMAND
};

/* ---- messages ---- */

/* One write for the whole line, so that lines of several ranks do not mix. */
void cli_say(const cli *c, const char *fmt, ...)
{
    char text[RP_ERROR_CHARS + 512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    fprintf(stderr, "reprise%s%s: %s\n", c->command ? " " : "", c->command ? c->command : "", text);
}

int cli_fail(const cli *c, rp_status status)
{
    bool printed = !cli_is_first(c) && rp__comm_agreed(c->comm) == status;

    if (!printed) cli_say(c, "%s", rp_error(c->ctx)[0] ? rp_error(c->ctx) : rp_status_text(status));
    return rp_status_exit_code(status);
}

int cli_fail_input(const cli *c, rp_status status)
{
    int code = cli_fail(c, status);

    return status == RP_ERR_IO ? CLI_USAGE : code;
}

void cli_print_report(const rp_report *report)
{
    char line[RP_ERROR_CHARS + 512];

    for (const rp_report_item *item = report->first; item; item = item->next)
        fprintf(stderr, "%s\n", rp__report_line(item, line, sizeof line));
}

static int close_report(const cli *c, rp_report *report, rp_status status, int (*fail)(const cli *, rp_status))
{
    bool first = cli_is_first(c), printed = first && report->n_errors > 0;

    rp__report_sort(report);
    if (first) cli_print_report(report);
    rp__report_close(report);
    if (status == RP_OK) return CLI_GO;
    return printed ? rp_status_exit_code(status) : fail(c, status);
}

int cli_report(const cli *c, rp_report *report, rp_status status) { return close_report(c, report, status, cli_fail); }

int cli_report_input(const cli *c, rp_report *report, rp_status status) { return close_report(c, report, status, cli_fail_input); }

void cli_print_json(json_t *value, size_t flags)
{
    json_dumpf(value, stdout, flags);
    putchar('\n');
    json_decref(value);
}

int cli_finish(const cli *c, rp_status status)
{
    if (status != RP_OK) return cli_fail(c, status);
    if (!fflush(stdout) && !ferror(stdout)) return 0;
    cli_say(c, "cannot write to the standard output: %s", strerror(errno));
    return 1;
}

int cli_find_input(const cli *c, const char *path)
{
    if (!access(path, R_OK)) return CLI_GO;
    cli_say(c, "cannot open '%s': %s", path, strerror(errno));
    return CLI_USAGE;
}

int cli_find_model(const cli *c, const char *path)
{
    char hint[RP_HUB_HINT_CHARS];

    if (rp__file_exists(path) || !*rp__hub_hint(path, hint)) return cli_find_input(c, path);
    cli_say(c, "cannot open '%s': No such file or directory%s", path, hint);
    return CLI_USAGE;
}

int cli_find_output(const cli *c, const char *path)
{
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/');

    if (slash) snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    if (!*path) cli_say(c, "cannot write '': a name is missing");
    else if (rp__file_is_dir(path) || (slash && !slash[1])) cli_say(c, "cannot write '%s': it is a folder", path);
    else if (!rp__file_is_dir(folder)) cli_say(c, "cannot write '%s': there is no folder '%s'", path, folder);
    else return CLI_GO;
    return CLI_USAGE;
}

int cli_open_context(const cli *c, const rp_ctx_options *options, cli *out)
{
    rp_ctx_options on = *options;
    *out              = (cli){ .command = c->command, .comm = c->comm };
    if (!on.device) on.device = getenv("REPRISE_TEST_DEVICE");
    if (on.device && !strcmp(on.device, "cuda") && !on.shapes_only && cli_is_first(c))
        cli_say(c, "note: device 'cuda' is experimental: one model of card has run it, and several ranks never ran on hardware");
    rp_status status = rp_ctx_new(&on, &out->ctx);

    if (status == RP_OK) return CLI_GO;
    if (*rp_error(NULL)) cli_say(c, "%s", rp_error(NULL));
    else cli_say(c, "cannot open a context of %d threads: %s", options->threads, rp_status_text(status));
    return rp_status_exit_code(status);
}

/* ---- commands ---- */

static void print_help(FILE *to)
{
    fprintf(to, "usage: reprise COMMAND [ARGUMENT ...]\n\n"
                "Train and fine-tune transformers inside a memory budget.\n\n");
    for (int i = 0; i < RP_COUNT(commands); i++) fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\n'reprise COMMAND --help' describes a command; 'reprise --version' prints the version.\n");
}

/* Names of these commands in torchtune and other systems. */
static const char *known_elsewhere(const char *name)
{
    static const char *const names[][2] = { { "run", "train" }, { "finetune", "train" }, { "estimate", "plan" }, { "evaluate", "eval" } };

    for (int i = 0; i < RP_COUNT(names); i++)
        if (!strcmp(names[i][0], name)) return names[i][1];
    return NULL;
}

static int unknown_command(const cli *c, const char *name)
{
    const char *names[RP_COUNT(commands) + 1] = { NULL };

    for (int i = 0; i < RP_COUNT(commands); i++) names[i] = commands[i].name;
    const char *near = known_elsewhere(name);
    if (!near) near  = rp__nearest(name, names);
    const char *kind = name[0] == '-' ? "option" : "command";
    if (near) cli_say(c, "unknown %s '%s' (did you mean '%s'?)", kind, name, near);
    else cli_say(c, "unknown %s '%s'", kind, name);
    fprintf(stderr, "try 'reprise --help'\n");
    return CLI_USAGE;
}

static int find_and_run(cli *c, int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "help") && argc > 2) {             /* help COMMAND */
        argv[1] = argv[2];
        argv[2] = "--help";
        argc    = 3;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return cli_finish(c, RP_OK);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("reprise %s\n", rp_version());
        return cli_finish(c, RP_OK);
    }
    for (int i = 0; i < RP_COUNT(commands); i++) {
        if (strcmp(argv[1], commands[i].name)) continue;
        c->command = commands[i].name;
        return cli_run(c, commands[i].command, argc - 1, argv + 1);
    }
    return unknown_command(c, argv[1]);
}

/* If a standard descriptor is closed, the first opened file would get its number, and messages would be written into that file. So open
 * /dev/null in its place, in the direction that makes reads or writes fail as on a closed descriptor. */
static void take_closed_descriptors(void)
{
    static const int useless[] = { O_WRONLY, O_RDONLY, O_RDONLY };

    for (int fd = 0; fd < RP_COUNT(useless); fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) open("/dev/null", useless[fd]);
}

int main(int argc, char **argv)
{
    cli c;

    take_closed_descriptors();
    cli_print_begin();
#if defined(__GLIBC__)
    mallopt(M_ARENA_MAX, 1);        /* else each thread that allocates reserves 64 MiB of addresses, which a limit may count */
#endif
    int code = cli_open_context(&(cli){ 0 }, &(rp_ctx_options){ .threads = 1, .shapes_only = true }, &c);

    if (code == CLI_GO) {
        code = find_and_run(&c, argc, argv);
        rp_ctx_free(c.ctx);
    }
    cli_print_end();
    return code;
}
