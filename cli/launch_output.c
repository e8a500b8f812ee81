/* cli/launch_output.c -- passes the output of ranks on at once, and keeps back mpirun's notices about their end.
 *
 * Both MPIs write a notice between two rules:
 *
 *      ----------------------------------------------------------------------------        ===========================================…
 *      mpirun noticed that process rank 1 with PID 0 on node a exited on signal 9 (…)      =   BAD TERMINATION OF ONE OF YOUR APPLICATION…
 *      ----------------------------------------------------------------------------        =   PID 4711 RUNNING AT a
 *
 * MPICH adds an empty line before the first rule and three lines after the second. A notice about anything else is passed on unchanged.
 */
#include "cli/launch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RULE = 70 };

static void launch_output_put(cli_output *o, const char *text, size_t n)
{
    bool blank = o->blank_held && n;

    o->blank_held = o->blank_held && !n;
    if (blank) launch_output_put(o, "\n", 1);
    while (n) {
        ssize_t written = write(o->to, text, n);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text += written;
        n -= (size_t)written;
    }
}

static bool has(const char *text, size_t n, const char *part) { return memmem(text, n, part, strlen(part)) != NULL; }

/* ---- notices ---- */

/* The position at which a rule begins in n characters; n: no rule. A progress bar may precede it. */
static size_t find_rule(const char *text, size_t n)
{
    size_t begin = 0;

    for (size_t i = 0; i < n; i++) {
        bool goes_on = (text[i] == '-' || text[i] == '=') && text[i] == text[begin];
        if (!goes_on) begin = text[i] == '-' || text[i] == '=' ? i : i + 1;
        else if (i - begin + 1 == RULE) return begin;
    }
    return n;
}

static const char *after(const char *text, const char *part)
{
    const char *at = strstr(text, part);

    return at ? at + strlen(part) : NULL;
}

/* Read how a rank ended from one notice or line, ended by 0. */
static void read_end(cli_end *end, const char *text)
{
    const char *rank = after(text, "process rank "), *number = after(text, "exited on signal ");
    const char *process = after(text, "=   PID "), *name = after(text, "EXIT STRING: ");

    if (rank && number && sscanf(number, "%d (%63[^)])", &end->signal, end->name) >= 1) sscanf(rank, "%d", &end->rank);
    if (process) sscanf(process, "%ld", &end->process);
    if (name) sscanf(name, "%63[^(](signal %d", end->name, &end->signal);
    size_t n = strlen(end->name);
    if (n && end->name[n - 1] == ' ') end->name[n - 1] = 0;
}

/* Whether a notice is about the end of ranks: it contains one of these phrases. */
static bool is_of_an_end(const char *text, size_t n)
{
    static const char *const of_ends[] = {
        "exited on signal", "a non-zero exit code", "with non-zero status", "without calling \"finalize\"", "MPI_ABORT was invoked",
        "BAD TERMINATION OF ONE",
    };

    for (size_t i = 0; i < sizeof of_ends / sizeof *of_ends; i++)
        if (has(text, n, of_ends[i])) return true;
    return false;
}

/* Move the first n held characters into out and add a 0. */
static void cut(cli_output *o, size_t n, char *out)
{
    memcpy(out, o->held, n);
    out[n] = 0;
    memmove(o->held, o->held + n, o->n_held - n);
    o->n_held -= n;
}

static void end_notice(cli_output *o, size_t n)
{
    char text[CLI_HELD + 1];

    cut(o, n, text);
    bool known = is_of_an_end(text, n);
    if (known) read_end(o->end, text);
    else launch_output_put(o, text, n);
    o->after_banner  = known && text[0] == '=';
    o->blank_held    = o->blank_held && !o->after_banner;
    o->inside_notice = false;
}

/* ---- lines ---- */

/* Whether a line is mpirun's own message about facts that the launcher reports itself: the end of ranks, the signal that it sent. */
static bool is_noise(cli_output *o, const char *line, size_t n)
{
    static const char *const ours[] = { ": Forwarding signal ", "] Sending Ctrl-C to processes", "] Press Ctrl-C again to" };
    static const char *const ends[] = {
        "YOUR APPLICATION TERMINATED WITH", "This typically refers to a problem with your", "Please see the FAQ page for debugging",
    };

    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (has(line, n, ours[i])) return true;
    for (size_t i = 0; o->after_banner && i < sizeof ends / sizeof *ends; i++)
        if (has(line, n, ends[i])) return true;
    return false;
}

/* Process the first n held characters: a whole line with its newline. */
static void take_line(cli_output *o, size_t n)
{
    char line[CLI_HELD + 1];

    cut(o, n, line);
    if (!o->inside_line && is_noise(o, line, n)) read_end(o->end, line);
    else if (!o->inside_line && n == 1 && !o->blank_held) o->blank_held = true;
    else launch_output_put(o, line, n);
    o->inside_line = false;
}

/* The position after the newline of the line that begins at `at`; 0: the line is incomplete. */
static size_t line_end(const cli_output *o, size_t at)
{
    const char *newline = memchr(o->held + at, '\n', o->n_held - at);

    return newline ? (size_t)(newline - o->held) + 1 : 0;
}

/* A notice is kept back until its second rule, unless it grows too long to be a notice. */
static bool take_notice(cli_output *o)
{
    size_t at = line_end(o, 0), end;

    for (; at && (end = line_end(o, at)) > 0; at = end) {
        if (o->held[at] != o->held[0] || find_rule(o->held + at, end - at) != 0) continue;
        end_notice(o, end);
        return true;
    }
    if (o->n_held == CLI_HELD - 1) end_notice(o, o->n_held);
    return false;
}

static bool begin_notice(cli_output *o, size_t at)
{
    char line[CLI_HELD + 1];

    cut(o, at, line);
    launch_output_put(o, line, at);
    if (at || o->inside_line) launch_output_put(o, "\n", 1);
    o->inside_line = false;
    return o->inside_notice = true;
}

static bool may_become_rule(const cli_output *o) { return !o->inside_line && strspn(o->held, "-=") == o->n_held; }

/* Process one part of the held text; false: more input is needed. */
static bool advance(cli_output *o)
{
    o->held[o->n_held] = 0;
    if (!o->n_held) return false;
    if (o->inside_notice) return take_notice(o);
    size_t end = line_end(o, 0), n = end ? end : o->n_held, rule = find_rule(o->held, n);
    if (rule < n) return begin_notice(o, rule);
    if (end) {
        take_line(o, end);
        return true;
    }
    if (may_become_rule(o)) return false;
    launch_output_put(o, o->held, o->n_held);
    o->n_held      = 0;
    o->inside_line = true;
    return false;
}

bool cli_output_read(cli_output *o)
{
    ssize_t n = read(o->from, o->held + o->n_held, CLI_HELD - 1 - o->n_held);

    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
    if (n > 0) {
        o->n_held += (size_t)n;
        while (advance(o)) {}
        return true;
    }
    launch_output_put(o, o->held, o->n_held);
    o->n_held = 0;
    close(o->from);
    o->from = -1;
    return false;
}
