/* cli/ranks.c -- a command as one rank of a job: signals, what it says, how it joins and leaves. */
#include "cli/cli.h"
#include "cli/launch.h"
#include "comm/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- signals ---- */

static volatile int stop_signal;
static bool is_quiet;                           /* rank 0 speaks for all; set before the handler is */

/* The handler is gone after its first call: a second signal of the kind ends the program at once. */
static void on_signal(int number)
{
    static const char text[] = "\nfinishing the step and saving its state; once more to stop at once\n";

    if (!is_quiet && !stop_signal && write(STDERR_FILENO, text, sizeof text - 1) < 0) errno = 0;
    stop_signal = number == SIGUSR1 ? SIGINT : number;
}

/* Where our own launcher asks for the end it sends SIGUSR1; SIGTERM then comes from an mpirun that ends the job because a rank has gone. */
const volatile int *cli_catch_stop(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART) };

    is_quiet = rp__comm_launched_rank() > 0;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    if (!rp__comm_launched() || !getenv(CLI_LAUNCHER)) sigaction(SIGTERM, &action, NULL);
    if (rp__comm_launched()) sigaction(SIGUSR1, &action, NULL);
    return &stop_signal;
}

/* ---- what is said ---- */

typedef struct { int rank; bool inside; } prefix;       /* inside: the line has begun */

static bool put(const char *text, size_t n)
{
    while (n) {
        ssize_t written = write(STDERR_FILENO, text, n);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        text += written;
        n -= (size_t)written;
    }
    return true;
}

/* A line goes out in one write: lines of several ranks do not mix. */
static ssize_t write_prefixed(void *cookie, const char *text, size_t n)
{
    prefix *p = cookie;
    char line[4096];

    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t length   = end ? (size_t)(end - text) + 1 - at : n - at;
        if (length > sizeof line - 16) length = sizeof line - 16;
        int head = p->inside ? 0 : snprintf(line, sizeof line, "[%d] ", p->rank);
        memcpy(line + head, text + at, length);
        if (!put(line, (size_t)head + length)) return 0;
        at += length;
        p->inside = text[at - 1] != '\n';
    }
    return (ssize_t)n;
}

/* The stream itself is another one: no thread or pipe stands between, so nothing is lost when the process dies. What libraries and
 * sanitizers write to the descriptor stays as it is. */
static void prefix_lines(int rank)
{
    static prefix own;

    own          = (prefix){ .rank = rank };
    FILE *stream = fopencookie(&own, "w", (cookie_io_functions_t){ .write = write_prefixed });
    if (!stream) return;
    setvbuf(stream, NULL, _IOLBF, BUFSIZ);
    stderr = stream;
}

static void tell_slow(void *user, const char *text) { cli_say(user, "%s", text); }

bool cli_terminal(int *columns)
{
    const char *told    = rp__comm_launched() ? getenv(CLI_LAUNCHER) : NULL;
    struct winsize size = { 0 };
    int64_t width;

    *columns = 0;
    if (told && rp__parse_int(told, 0, 10000, &width)) {
        *columns = (int)width;
        return true;
    }
    if (!isatty(STDERR_FILENO)) return false;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size)) *columns = size.ws_col;
    return true;
}

/* ---- joining and leaving ---- */

/* What cannot be written is not missed: the launcher then knows what mpirun tells. */
static void write_note(int32_t code)
{
    const char *path = getenv(CLI_NOTES);
    cli_note note    = { getpid(), code };
    int file         = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;

    if (file < 0) return;
    if (pwrite(file, &note, sizeof note, rp__comm_launched_rank() * (off_t)sizeof note) < 0) errno = 0;
    close(file);
}

int cli_open_ranks(cli *c, const volatile int *stop)
{
    if (!rp__comm_launched()) return CLI_GO;
    if (rp__comm_launched_rank() > 0) prefix_lines(rp__comm_launched_rank());
    write_note(0);
    rp_status status = rp__comm_open(c->ctx, &c->comm);
    if (status != RP_OK) return cli_fail(c, status);
    c->ctx->comm = c->comm;
    rp__comm_watch(c->comm, &(rp_comm_watch){ .stop = stop, .slow = tell_slow, .user = c });
    return CLI_GO;
}

bool cli_is_first(const cli *c) { return rp__comm_rank(c->comm) == 0; }

/* The ranks agree upon a status of the same exit code; what it says has been said. */
int cli_agree(cli *c, int code)
{
    static const rp_status of_code[] = { [1] = RP_ERR_IO, [2] = RP_ERR_CONFIG, [3] = RP_ERR_BUDGET };
    rp_status mine = code == CLI_GO ? RP_OK : code > 0 && code < RP_COUNT(of_code) ? of_code[code] : RP_ERR_CONFIG;

    if (rp__comm_ranks(c->comm) == 1) return code;
    rp_status all = rp__comm_agree(c->ctx, c->comm, mine);
    return all == RP_OK ? CLI_GO : rp_status_exit_code(all);
}

int cli_close_ranks(cli *c, int code)
{
    rp_comm *world = c->comm;

    fflush(stdout);
    fflush(stderr);
    if (!world) return code;
    write_note(code + 1);
    if (code != 0 && rp__comm_ranks(world) > 1 && rp__comm_agreed(world) == RP_OK) rp__comm_abort(world, code);
    c->ctx->comm = c->comm = NULL;
    rp__comm_leave(world, code);
    return code;
}
