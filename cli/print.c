/* cli/print.c -- guards stdout and stderr: everything that the program or a library writes to them passes through here.
 *
 *   printf, fprintf, json_dumpf … ─▶ stdout ─┐
 *   of this program and of libraries         ├─▶ guard: makes control characters visible ─▶ descriptor 1, 2
 *                                    stderr ─┘          on ranks above 0 each line begins with "[rank] "
 *
 * A control character, or a mark or override of direction, becomes \u001b, which in JSON means the same character. A byte that is not UTF-8
 * becomes \xff. Newlines and tabs pass, and so does a carriage return at the beginning of a write to stderr: it is the progress bar. Names
 * with newlines are put on one line where they are printed (cli_one_line).
 */
#include "cli/cli.h"

#include <errno.h>
#include <unistd.h>

enum { LONGEST = 24, AT_ONCE = 4096 };          /* LONGEST: a prefix and one visible character, in bytes */

typedef struct {
    int fd, rank;                               /* rank > 0: prefix of each line */
    bool raw, inside;                           /* inside: within a line */
    size_t n, n_held;
    char out[AT_ONCE], held[4];                 /* held: an incomplete character */
} guard;

static guard guards[2] = { { .fd = STDOUT_FILENO }, { .fd = STDERR_FILENO } };

/* ---- output ---- */

static bool send_out(guard *g)
{
    const char *text = g->out;
    size_t n         = g->n;

    g->n = 0;
    while (n) {
        ssize_t written = write(g->fd, text, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text += written;
        n -= (size_t)written;
    }
    return true;
}

/* n: at most 12 bytes. A rank writes each line at once, so that lines of several ranks do not mix. */
static bool print_put(guard *g, const char *text, size_t n)
{
    if (g->n + LONGEST > AT_ONCE && !send_out(g)) return false;
    if (g->rank > 0 && !g->inside) g->n += (size_t)snprintf(g->out + g->n, LONGEST / 2, "[%d] ", g->rank);
    memcpy(g->out + g->n, text, n);
    g->n += n;
    g->inside = text[n - 1] != '\n';
    return g->inside || g->rank <= 0 || send_out(g);
}

static bool put_visible(guard *g, const char *form, uint32_t point)
{
    char text[16];

    return print_put(g, text, (size_t)snprintf(text, sizeof text, form, (unsigned)point));
}

/* ---- characters ---- */

/* Put the complete characters that are held. all: nothing follows, so put the rest as bytes. */
static bool put_held(guard *g, bool all)
{
    for (int n = 0; g->n_held; g->n_held -= (size_t)n) {
        uint32_t point;
        rp_shown shown = rp__shown(g->held, g->n_held, &n, &point);
        bool line      = point == '\n' || point == '\t';
        if (shown == RP_SHOWN_CUT && !all) return true;
        if (shown == RP_SHOWN_CUT) shown = RP_SHOWN_BYTE;
        if (shown == RP_SHOWN_AS_IS || (shown == RP_SHOWN_CONTROL && line)) {
            if (!print_put(g, g->held, (size_t)n)) return false;
        } else if (!put_visible(g, shown == RP_SHOWN_BYTE ? "\\x%02x" : "\\u%04x", shown == RP_SHOWN_BYTE ? (uint8_t)g->held[0] : point)) return false;
        memmove(g->held, g->held + n, g->n_held - (size_t)n);
    }
    return true;
}

static ssize_t write_guarded(void *cookie, const char *text, size_t n)
{
    guard *g = cookie;
    size_t i = 0;

    if (n && text[0] == '\r' && g->fd == STDERR_FILENO && !print_put(g, text, ++i)) return 0;
    for (; i < n; i++) {
        bool plain = g->raw || (!g->n_held && text[i] >= 0x20 && text[i] < 0x7f);
        if (plain && !print_put(g, text + i, 1)) return 0;
        if (plain) continue;
        g->held[g->n_held++] = text[i];
        if (!put_held(g, false)) return 0;
    }
    return send_out(g) ? (ssize_t)n : 0;
}

/* ---- the streams ---- */

/* Replaces a stream without threads or pipes, so nothing is lost if the process dies. Sanitizers write to the descriptor and are not affected. */
static void guard_stream(FILE **stream, guard *g, int mode)
{
    FILE *own = fopencookie(g, "w", (cookie_io_functions_t){ .write = write_guarded });

    if (!own) return;
    setvbuf(own, NULL, mode, BUFSIZ);
    *stream = own;
}

void cli_print_begin(void)
{
    guard_stream(&stdout, &guards[0], isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF);
    guard_stream(&stderr, &guards[1], _IONBF);
}

void cli_print_end(void)
{
    fflush(stdout);
    fflush(stderr);
    for (int i = 0; i < RP_COUNT(guards); i++)
        if (!put_held(&guards[i], true) || !send_out(&guards[i])) return;
}

void cli_print_rank(int rank)
{
    fflush(stderr);
    guards[1].rank = rank;
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ);
}

void cli_print_raw(bool raw)
{
    fflush(stdout);
    guards[0].raw = raw;
}

const char *cli_one_line(const char *text, char out[CLI_LINE_CHARS])
{
    snprintf(out, CLI_LINE_CHARS, "%s", text ? text : "");
    rp__shown_only(out);
    return out;
}
