/* cli/launch.c -- --nproc N: runs the same command as N ranks of this machine, with the installed mpirun.
 *
 *      reprise train CONFIG --nproc 4
 *        └─ mpirun -n 4 reprise train CONFIG threads=2      in its own process group: Ctrl-C reaches only the launcher
 *             ├─ rank 0 …                                   the launcher passes its stderr on to the terminal
 *
 *   signals   The launcher writes SIGINT, SIGTERM, SIGHUP or SIGXCPU into the notes (cli/notes.c). Ranks read them after each step, save a state
 *             and end. mpirun is not involved, unless no rank has joined the notes: then it gets SIGUSR1, which both MPIs pass on to ranks.
 *             A second SIGINT or SIGTERM kills the ranks and asks mpirun to end. A third one kills mpirun.
 *   ends      the exit code of the ranks; 1 if one was killed, with a message that has the rank and the signal
 */
#include "cli/cli.h"
#include "cli/launch.h"
#include "comm/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORDS = 32, PROGRAM_CHARS = 4096 };

/* ---- which mpirun ---- */

/* Read the output of `program --version`. False: the program cannot be run. */
static bool ask_version(const char *program, char *out, size_t room)
{
    char *argv[] = { (char *)program, (char *)"--version", NULL };
    int ends[2], status;
    size_t n = 0;

    if (pipe(ends)) return false;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        execvp(program, argv);
        _exit(127);
    }
    close(ends[1]);
    for (ssize_t got = 1; child > 0 && got > 0; n += (size_t)(got > 0 ? got : 0)) got = read(ends[0], out + n, room - 1 - n);
    out[n] = 0;
    close(ends[0]);
    return child > 0 && waitpid(child, &status, 0) == child && !(WIFEXITED(status) && WEXITSTATUS(status) == 127);
}

static const rp_comm_mpi *mpi_of(const char *version)
{
    static const struct { const char *word; int mpi; } words[] = { { "Open MPI", 0 }, { "OpenRTE", 0 }, { "HYDRA", 1 }, { "MPICH", 1 }, { "Intel", 1 } };

    for (int i = 0; i < RP_COUNT(words); i++)
        if (strstr(version, words[i].word)) return &rp__comm_mpis[words[i].mpi];
    return NULL;
}

/* Find the first mpirun for whose MPI there is a module. */
static int find_mpirun(const cli *c, const char **program, const rp_comm_mpi **mpi)
{
    const char *set     = getenv("REPRISE_MPIRUN"), *found = NULL;
    const char *names[] = { set ? set : "mpirun", "mpirun.openmpi", "mpirun.mpich", "mpiexec" };
    char version[4096];

    for (int i = 0; i < (set ? 1 : RP_COUNT(names)); i++) {
        if (!ask_version(names[i], version, sizeof version)) continue;
        found = *program = names[i];
        *mpi             = mpi_of(version);
        if (*mpi && rp__comm_has_module(*mpi)) return CLI_GO;
    }
    if (!found && set) cli_say(c, "cannot run '%s', which REPRISE_MPIRUN names", set);
    else if (!found) cli_say(c, "'--nproc' needs mpirun, which is not in PATH: install openmpi-bin or mpich, or name it in REPRISE_MPIRUN");
    else if (!*mpi) cli_say(c, "'%s' is neither Open MPI's nor MPICH's: name another one in REPRISE_MPIRUN", found);
    else cli_say(c, "'%s' is of %s, for which this program has no module '%s': build it where %s is installed", found, (*mpi)->name,
                 (*mpi)->module, (*mpi)->package);
    return CLI_USAGE;
}

/* ---- its arguments ---- */

typedef struct { const char **word; int n; char ranks[16], threads[32], program[PROGRAM_CHARS]; } command_line;

static void launch_add(command_line *l, const char *word) { l->word[l->n++] = word; }

static void add_all(command_line *l, const char *const word[], int n)
{
    for (int i = 0; i < n; i++) launch_add(l, word[i]);
}

static int cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

/* Ranks are not bound to cores: each has threads, and the system schedules them. No other machine is used, not even if Slurm has allocated some.
 * Open MPI requires a program to reach other machines; it gets `sh`, because ssh may be missing. */
static void add_mpirun(command_line *l, const char *program, const rp_comm_mpi *mpi)
{
    static const char *const open_mpi[] = { "--oversubscribe", "--bind-to", "none", "--mca", "plm_rsh_agent", "sh", "--mca", "plm", "^slurm",
                                            "--mca", "ras", "^slurm" };
    static const char *const mpich[]    = { "-launcher", "fork", "-hosts", "localhost" };
    bool is_open_mpi                    = mpi == &rp__comm_mpis[0];

    launch_add(l, program);
    if (is_open_mpi) add_all(l, open_mpi, RP_COUNT(open_mpi));
    else add_all(l, mpich, RP_COUNT(mpich));
    if (is_open_mpi && geteuid() == 0) launch_add(l, "--allow-run-as-root");
    launch_add(l, "-n");
    launch_add(l, l->ranks);
}

static int fill_line(const cli *c, const cli_job *job, const char *program, const rp_comm_mpi *mpi, command_line *l)
{
    ssize_t n = readlink("/proc/self/exe", l->program, sizeof l->program - 1);
    int share = cores() / (int)job->ranks;

    if (n <= 0) {
        cli_say(c, "cannot find this program's own file: %s", strerror(errno));
        return 1;
    }
    l->program[n] = 0;
    snprintf(l->ranks, sizeof l->ranks, "%" PRId64, job->ranks);
    snprintf(l->threads, sizeof l->threads, "threads=%d", share > 0 ? share : 1);
    add_mpirun(l, program, mpi);
    launch_add(l, l->program);
    launch_add(l, c->command);
    for (int i = 0; i < job->args->n_settings; i++) launch_add(l, job->args->setting[i]);
    if (!job->threads) launch_add(l, l->threads);
    if (c->bytes) launch_add(l, "--bytes");
    if (c->allow_plugins) launch_add(l, "--allow-plugins");
    launch_add(l, "--");
    for (int i = 0; i < job->args->n_words; i++) launch_add(l, job->args->word[i]);
    launch_add(l, NULL);
    return CLI_GO;
}

/* ---- the job ---- */

typedef struct {
    pid_t mpirun;
    cli_output output[2];
    cli_end end;
    sigset_t before, waiting;                   /* signals are delivered only while the launcher waits */
    int n_handed_on, first_signal;
    cli_notes *notes;
    int notes_file;
} running;

static volatile sig_atomic_t n_signals, last_signal;

/* A closing terminal sends SIGHUP twice, and SIGXCPU comes every second, so a repeated one is not counted. */
static void count_signal(int number)
{
    if (n_signals && (number == SIGHUP || number == SIGXCPU)) return;
    n_signals++;
    last_signal = number;
}

static void take_signals(running *r)
{
    const int *number = cli_stop_signals();
    sigset_t ours;

    sigemptyset(&ours);
    for (; *number; number++)
        if (cli_take_signal(*number, count_signal, 0)) sigaddset(&ours, *number);
    sigprocmask(SIG_BLOCK, &ours, &r->before);
    r->waiting = r->before;
    for (number = cli_stop_signals(); *number; number++) sigdelset(&r->waiting, *number);
}

/* Ranks in the notes are processes of this machine. */
static void kill_ranks(const running *r)
{
    for (int i = 0; i < r->notes->ranks; i++)
        if (r->notes->rank[i].process > 0 && !r->notes->rank[i].code) kill(r->notes->rank[i].process, SIGKILL);
    kill(-r->mpirun, SIGTERM);
}

static void ask_ranks(running *r)
{
    bool joined = false;

    r->first_signal = last_signal;
    for (int i = 0; i < r->notes->ranks; i++) joined = joined || r->notes->rank[i].process;
    r->notes->stop = last_signal;
    cli_say_stopping(last_signal);
    if (!joined) kill(r->mpirun, SIGUSR1);
}

static void pass_signals(running *r)
{
    for (; r->n_handed_on < n_signals; r->n_handed_on++) {
        if (r->n_handed_on == 0) ask_ranks(r);
        else if (r->n_handed_on == 1) kill_ranks(r);
        else kill(-r->mpirun, SIGKILL);
    }
}

/* In the child: become mpirun. It ends when the launcher ends. Its stdin is /dev/null, because a background process cannot read a terminal. */
static void become_mpirun(const command_line *l, const running *r, int out, int err, pid_t parent)
{
    int columns   = 0;
    bool terminal = cli_terminal(&columns);
    char text[64];

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    snprintf(text, sizeof text, "%d", terminal ? columns : -1);
    setenv(CLI_LAUNCHER, text, 1);
    snprintf(text, sizeof text, "/proc/%d/fd/%d", (int)parent, r->notes_file);
    setenv(CLI_NOTES, text, 1);
    if (!freopen("/dev/null", "r", stdin)) _exit(1);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    signal(SIGTERM, SIG_DFL);           /* exec resets the other signals */
    sigprocmask(SIG_SETMASK, &r->waiting, NULL);
    execvp(l->word[0], (char *const *)l->word);
    _exit(127);
}

static bool start(const cli *c, const command_line *l, running *r)
{
    int out[2], err[2];
    pid_t parent = getpid();

    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || (r->mpirun = fork()) < 0) {
        cli_say(c, "cannot start '%s': %s", l->word[0], strerror(errno));
        return false;
    }
    if (!r->mpirun) become_mpirun(l, r, out[1], err[1], parent);
    setpgid(r->mpirun, r->mpirun);
    close(out[1]);
    close(err[1]);
    r->end       = (cli_end){ .rank = -1 };
    r->output[0] = (cli_output){ .from = out[0], .to = STDOUT_FILENO, .end = &r->end };
    r->output[1] = (cli_output){ .from = err[0], .to = STDERR_FILENO, .end = &r->end };
    return true;
}

/* Wait once for output or a signal. True if there was output. */
static bool pump(running *r, int milliseconds)
{
    struct pollfd p[2] = { { r->output[0].from, POLLIN, 0 }, { r->output[1].from, POLLIN, 0 } };
    struct timespec t  = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
    int n              = ppoll(p, 2, &t, &r->waiting);

    pass_signals(r);
    for (int i = 0; n > 0 && i < 2; i++)
        if (p[i].revents) cli_output_read(&r->output[i]);
    return n > 0;
}

/* Read the pipes to their end after mpirun has ended, without waiting for processes that still hold them open. */
static int follow(running *r)
{
    enum { TURN_MS = 100 };
    int status = 0;

    while (waitpid(r->mpirun, &status, WNOHANG) != r->mpirun) pump(r, TURN_MS);
    while ((r->output[0].from >= 0 || r->output[1].from >= 0) && pump(r, TURN_MS)) {}
    for (int i = 0; i < 2; i++)
        if (r->output[i].from >= 0) close(r->output[i].from);
    return status;
}

/* The exit code in the notes: that of the first rank that failed; 0 if all succeeded; -1 if a rank has not written one. */
static int noted_code(const running *r)
{
    bool all = true;

    for (int rank = 0; rank < r->notes->ranks; rank++) {
        int32_t code = r->notes->rank[rank].code;
        if (code > 1) return code - 1;
        all = all && code;
    }
    return all ? 0 : -1;
}

static void print_killed(const cli *c, const running *r)
{
    const cli_end *end = &r->end;
    int rank           = end->rank;
    char subject[32]   = "a rank";

    for (int i = 0; rank < 0 && i < r->notes->ranks; i++)
        if (end->process && r->notes->rank[i].process == end->process) rank = i;
    if (rank >= 0) snprintf(subject, sizeof subject, "rank %d", rank);
    cli_say(c, "%s was ended by signal %d (%s), so the others were ended, too; the last state that was saved is kept", subject, end->signal, end->name);
}

static int print_end(const cli *c, const running *r, const char *mpirun, int status)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1, noted = noted_code(r);

    if (noted == 0) return 0;           /* all work is done, even if MPI failed while it ended */
    if (noted > 128) return noted;      /* all ranks stopped after a step */
    if (noted > 0 && !code) code = noted;
    if (r->n_handed_on > 1) {
        cli_say(c, "stopped at once; the last state that was saved is kept");
        return 128 + r->first_signal;
    }
    if (r->n_handed_on && (code == 128 + SIGINT || r->end.signal == SIGUSR1)) return 128 + r->first_signal;
    if (r->end.signal) {
        print_killed(c, r);
        return 1;
    }
    if (WIFSIGNALED(status)) cli_say(c, "'%s' was ended by signal %d (%s), and the ranks with it; the last state that was saved is kept", mpirun,
                                     WTERMSIG(status), strsignal(WTERMSIG(status)));
    return code;
}

static int run_job(const cli *c, const command_line *l, int ranks)
{
    running r = { .mpirun = 0 };

    r.notes = cli_notes_make(ranks, &r.notes_file);
    if (!r.notes) {
        cli_say(c, "cannot make the memory that ranks share with their launcher: %s", strerror(errno));
        return 1;
    }
    take_signals(&r);
    fflush(NULL);
    int code = start(c, l, &r) ? print_end(c, &r, l->word[0], follow(&r)) : 1;
    cli_notes_drop(r.notes, r.notes_file);
    return code;
}

int cli_launch(cli *c, const cli_job *job)
{
    command_line l;
    const char *program;
    const rp_comm_mpi *mpi;

    if (rp__comm_launched()) {
        cli_say(c, "'--nproc' starts ranks, and this process is a rank already: leave it out, or leave mpirun out");
        return CLI_USAGE;
    }
    int code = find_mpirun(c, &program, &mpi);
    if (code != CLI_GO) return code;
    l.n    = 0;
    l.word = rp__host_alloc(c->ctx, (MOST_WORDS + job->args->n_settings + job->args->n_words) * (int64_t)sizeof *l.word);
    if (!l.word) return cli_fail(c, RP_ERR_MEMORY);
    code = fill_line(c, job, program, mpi, &l);
    if (code == CLI_GO) code = run_job(c, &l, (int)job->ranks);
    rp__release(l.word);
    return code;
}
