/* cli/ranks.c -- a command as one rank of a job: signals, messages, joining and leaving. */
#include "cli/cli.h"
#include "cli/launch.h"
#include "comm/comm.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ---- signals ---- */

static volatile int own_stop, *stop = &own_stop;        /* points into the launcher's notes if it has any: then all ranks see it at once */
static bool is_quiet;                                   /* another process prints the message; set before the handler is installed */

const int *cli_stop_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGXCPU, 0 };

    return numbers;
}

/* An ignored SIGHUP stays ignored, as `nohup` wants. The signal is unblocked, because the parent may have blocked it. */
bool cli_take_signal(int number, void (*handler)(int), int flags)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = flags }, before;
    sigset_t one;

    sigemptyset(&action.sa_mask);
    sigemptyset(&one);
    sigaddset(&one, number);
    if (number == SIGHUP && !sigaction(number, NULL, &before) && before.sa_handler == SIG_IGN) return false;
    sigaction(number, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    return true;
}

void cli_say_stopping(int number)
{
    static const char text[] = "\nfinishing the step and saving its state", once_more[] = "; once more to stop at once";
    bool again               = number == SIGINT || number == SIGTERM;

    if (write(STDERR_FILENO, text, sizeof text - 1) < 0 || (again && write(STDERR_FILENO, once_more, sizeof once_more - 1) < 0) ||
        write(STDERR_FILENO, "\n", 1) < 0)
        errno = 0;
}

static void on_signal(int number)
{
    if (!is_quiet && !*stop) cli_say_stopping(number);
    if (!*stop) *stop = number == SIGUSR1 ? SIGINT : number;
}

static bool below_launcher(void) { return rp__comm_launched() && getenv(CLI_LAUNCHER); }

/* The handler of SIGINT, SIGTERM and SIGUSR1 is removed after the first, so a second one ends the process at once. SIGHUP and SIGXCPU may repeat by
 * themselves. Under --nproc SIGTERM is not caught: mpirun sends it to end the job after a rank has died. */
static void take_signals(void)
{
    static bool hangup_ignored;

    for (const int *number = cli_stop_signals(); *number; number++) {
        bool repeats = *number == SIGHUP || *number == SIGXCPU;
        if (*number == SIGTERM && below_launcher()) continue;
        if (*number == SIGHUP && hangup_ignored) signal(SIGHUP, SIG_IGN);
        hangup_ignored = !cli_take_signal(*number, on_signal, SA_RESTART | (repeats ? 0 : (int)SA_RESETHAND)) || hangup_ignored;
    }
    if (rp__comm_launched()) cli_take_signal(SIGUSR1, on_signal, (int)(SA_RESETHAND | SA_RESTART));
}

const volatile int *cli_catch_stop(void)
{
    cli_notes *notes = cli_notes_join(rp__comm_launched_rank());

    if (notes) stop = &notes->stop;
    is_quiet = rp__comm_launched_rank() > 0 || (below_launcher() && !notes);    /* the launcher prints it */
    take_signals();
    return stop;
}

/* ---- messages ---- */

static void print_slow(void *user, const char *text) { cli_say(user, "%s", text); }

static void note_end(int code)
{
    cli_notes *notes = cli_notes_join(rp__comm_launched_rank());

    if (notes) notes->rank[rp__comm_launched_rank()].code = code + 1;
}

/* Ends the process, because the main thread is blocked in MPI. */
static void end_lost(void *user, const char *text)
{
    cli_say(user, "%s", text);
    note_end(1);
    _exit(1);
}

static bool launcher_left(void *user)
{
    (void)user;
    return cli_notes_are_left();
}

bool cli_terminal(int *columns)
{
    const char *columns_text = rp__comm_launched() ? getenv(CLI_LAUNCHER) : NULL;
    struct winsize size = { 0 };
    int64_t width;

    *columns = 0;
    if (columns_text && rp__parse_int(columns_text, 0, 10000, &width)) {
        *columns = (int)width;
        return true;
    }
    if (!isatty(STDERR_FILENO)) return false;
    if (!ioctl(STDERR_FILENO, TIOCGWINSZ, &size)) *columns = size.ws_col;
    return true;
}

/* ---- joining and leaving ---- */

int cli_open_ranks(cli *c)
{
    if (!rp__comm_launched()) return CLI_GO;
    if (rp__comm_launched_rank() > 0) cli_print_rank(rp__comm_launched_rank());
    rp_comm_watch watch = { .left = launcher_left, .lost = end_lost, .slow = print_slow, .user = c };
    rp_status status    = rp__comm_open(c->ctx, &watch, &c->comm);
    if (status != RP_OK) return cli_fail(c, status);
    rp__groups(c->ctx)->world = c->comm;
    if (!*stop) take_signals();         /* MPI libraries install handlers of their own: UCX catches SIGHUP */
    return CLI_GO;
}

bool cli_is_first(const cli *c) { return rp__comm_rank(c->comm) == 0; }

/* The ranks agree on a status with the same exit code. Its message is printed already. */
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
    note_end(code);
    if (code != 0 && rp__comm_ranks(world) > 1 && rp__comm_agreed(world) == RP_OK) rp__comm_abort(world, code);
    rp__groups(c->ctx)->world = c->comm = NULL;
    rp__comm_leave(world, code);
    return code;
}
