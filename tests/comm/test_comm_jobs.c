/* Claims about jobs that go wrong. This program is their ranks, too: with an argument it is what that names.
 *
 * Each claim holds for each MPI that was found when the tests were built; where there is none it is skipped. */
/* ctest: repository device-free long */
#include "rp_test.h"

#include "comm/internal.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef RP_MPIRUN_openmpi
#define RP_MPIRUN_openmpi NULL
#define RP_MPI_MODULE_openmpi NULL
#endif
#ifndef RP_MPIRUN_mpich
#define RP_MPIRUN_mpich NULL
#define RP_MPI_MODULE_mpich NULL
#endif

/* Ranks share cores here, and Open MPI would rather not. */
static const struct { const char *mpirun, *module, *flag[3]; } mpis[] = {
    { RP_MPIRUN_openmpi, RP_MPI_MODULE_openmpi, { "--oversubscribe", "--bind-to", "none" } },
    { RP_MPIRUN_mpich, RP_MPI_MODULE_mpich, { NULL } },
};

/* ---- ranks ---- */

static void say(const rp_comm *world, const char *text)
{
    char line[2048];
    int n = snprintf(line, sizeof line, "[%d] %s\n", rp__comm_rank(world), text);

    if (write(STDERR_FILENO, line, (size_t)n) < 0) _exit(99);
}

/* All wait for rank 1, which is killed. */
static int rank_killed(rp_ctx *ctx, rp_comm *world)
{
    static float mine[1000], all[64000];
    rp_comm_part part[64];
    rp_comm_request request = { 0 };

    rp__comm_barrier(ctx, world, "the start");
    if (rp__comm_rank(world) == 1) raise(SIGKILL);
    for (int r = 0; r < rp__comm_ranks(world); r++) part[r] = (rp_comm_part){ r * 1000, 1000 };
    rp_status status = rp__comm_gather(ctx, world, mine, all, part, 4, &request);
    if (status == RP_OK) status = rp__comm_wait(ctx, world, &request, "gather of layers.3");
    say(world, status == RP_OK ? "came through" : rp_error(ctx));
    rp__comm_close(world);
    return rp_status_exit_code(status);
}

/* Rank 1 does not come. */
static int rank_missed(rp_ctx *ctx, rp_comm *world)
{
    int32_t mine = 0, all[64];
    rp_comm_part part[64];
    rp_comm_request request = { 0 };

    ctx->step = 12;
    rp__comm_barrier(ctx, world, "the start");
    if (rp__comm_rank(world) == 1) raise(SIGSTOP);
    rp__comm_timeout(world, 0.5);
    for (int r = 0; r < rp__comm_ranks(world); r++) part[r] = (rp_comm_part){ r, 1 };
    rp_status status = rp__comm_gather(ctx, world, &mine, all, part, 4, &request);
    if (status == RP_OK) status = rp__comm_wait(ctx, world, &request, "gather of layers.3");
    say(world, status == RP_OK ? "came through" : rp_error(ctx));
    status = rp__comm_gather(ctx, world, &mine, all, part, 4, &request);
    say(world, status == RP_OK ? "began again" : rp_error(ctx));
    rp__comm_close(world);
    return rp_status_exit_code(status);
}

/* Rank 1 ends all, having said so. */
static int rank_aborts(rp_ctx *ctx, rp_comm *world)
{
    rp__comm_barrier(ctx, world, "the start");
    if (rp__comm_rank(world) == 1) {
        say(world, "ends all");
        rp__comm_abort(world, 3);
    }
    rp__comm_barrier(ctx, world, "the end");
    say(world, "came through");
    rp__comm_close(world);
    return 0;
}

static int rank_ends(rp_ctx *ctx, rp_comm *world)
{
    char text[64];

    rp__comm_barrier(ctx, world, "the only thing");
    snprintf(text, sizeof text, "one of %d", rp__comm_ranks(world));
    say(world, text);
    rp__comm_close(world);
    return 0;
}

static void end_lost(void *user, const char *text)
{
    (void)user;
    say(NULL, text);
    _exit(1);
}

static int be_rank(const char *what)
{
    static const struct { const char *name; int (*run)(rp_ctx *ctx, rp_comm *world); } parts[] = {
        { "killed", rank_killed }, { "missed", rank_missed }, { "aborts", rank_aborts }, { "ends", rank_ends },
    };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    rp_comm *world;

    rp_comm_watch watch = { .lost = end_lost };
    const char *number  = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
    if (!strcmp(what, "absent")) {
        watch.timeout = 2;
        if (number && !strcmp(number, "1")) raise(SIGSTOP);
    }
    rp_status status = rp__comm_open(ctx, &watch, &world);
    if (status != RP_OK) {
        say(NULL, rp_error(ctx));
        return rp_status_exit_code(status);
    }
    for (int i = 0; i < RP_COUNT(parts); i++)
        if (!strcmp(what, parts[i].name)) return parts[i].run(ctx, world);
    return 98;
}

/* ---- jobs ---- */

typedef struct { int code; double seconds; char text[65536]; } outcome;

enum { MOST_SECONDS = 60 };

/* In a process of its own: becomes mpirun. */
static void become_job(int mpi, int ranks, const char *what, int to)
{
    char n[16], self[4096] = { 0 };
    const char *argv[16];
    int i = 0;

    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) _exit(96);
    snprintf(n, sizeof n, "%d", ranks);
    argv[i++] = mpis[mpi].mpirun;
    for (int f = 0; f < 3 && mpis[mpi].flag[f]; f++) argv[i++] = mpis[mpi].flag[f];
    argv[i++] = "-n";
    argv[i++] = n;
    argv[i++] = self;
    argv[i++] = what;
    argv[i]   = NULL;
    signal(SIGPIPE, SIG_IGN);       /* a rank that ends at once closes what the launcher still writes to; its message counts */
    setpgid(0, 0);
    dup2(to, STDOUT_FILENO);
    dup2(to, STDERR_FILENO);
    execv(argv[0], (char *const *)argv);
    _exit(97);
}

static void run_job(int mpi, int ranks, const char *what, outcome *out)
{
    FILE *file = tmpfile();
    int status = 0;

    assert_non_null(file);
    double began = rp__seconds();
    pid_t job    = fork();
    assert_true(job >= 0);
    if (!job) become_job(mpi, ranks, what, fileno(file));
    while (waitpid(job, &status, WNOHANG) == 0) {
        usleep(20000);
        if (rp__seconds() - began > MOST_SECONDS) kill(-job, SIGKILL);
    }
    out->seconds = rp__seconds() - began;
    out->code    = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    rewind(file);
    size_t n     = fread(out->text, 1, sizeof out->text - 1, file);
    out->text[n] = 0;
    fclose(file);
}

static void expect_text(const outcome *o, const char *text)
{
    if (!strstr(o->text, text)) fail_msg("exit code %d, '%s' is not in:\n%s", o->code, text, o->text);
}

static bool has(int mpi) { return mpis[mpi].mpirun && mpis[mpi].module; }

/* The next MPI that is here, its module named; -1 after the last. */
static int next_mpi(int mpi)
{
    for (mpi++; mpi < RP_COUNT(mpis); mpi++) {
        if (!has(mpi)) continue;
        setenv("REPRISE_MPI", mpis[mpi].module, 1);
        return mpi;
    }
    return -1;
}

#define FOR_EACH_MPI(mpi) for (int mpi = next_mpi(-1); mpi >= 0; mpi = next_mpi(mpi))

static void need_mpi(void **state)
{
    (void)state;
    if (!has(0) && !has(1)) skip();
}

/* ---- claims ---- */

static outcome o;

static void a_job_ends_by_itself_with_all_its_ranks(void **state)
{
    need_mpi(state);
    FOR_EACH_MPI(mpi) {
        run_job(mpi, 2, "ends", &o);
        expect_text(&o, "[0] one of 2");
        expect_text(&o, "[1] one of 2");
        assert_int_equal(o.code, 0);
    }
}

static void when_a_rank_is_killed_the_job_ends_within_seconds(void **state)
{
    need_mpi(state);
    FOR_EACH_MPI(mpi) {
        run_job(mpi, 3, "killed", &o);
        assert_true(o.seconds < 15);
        assert_int_not_equal(o.code, 0);
        assert_null(strstr(o.text, "came through"));
    }
}

static void a_rank_that_does_not_come_is_waited_for_no_longer_than_the_limit(void **state)
{
    need_mpi(state);
    FOR_EACH_MPI(mpi) {
        run_job(mpi, 3, "missed", &o);
        assert_true(o.seconds < 15);
        /* 0 or 2: with the first that ends mpirun ends the other */
        expect_text(&o, " has waited 0.5 s ('dist.timeout') for the others in gather of layers.3 (step 12); rank 1 (process ");
        expect_text(&o, ") is stopped");
        expect_text(&o, "the ranks of this job are out of step");
        assert_int_not_equal(o.code, 0);
    }
}

static void a_call_of_mpi_that_does_not_come_back_is_ended(void **state)
{
    need_mpi(state);
    FOR_EACH_MPI(mpi) {
        run_job(mpi, 2, "absent", &o);
        expect_text(&o, "the start of MPI has not ended within 2 s ('dist.timeout')");
        assert_int_not_equal(o.code, 0);
    }
}

static void one_rank_can_end_all(void **state)
{
    need_mpi(state);
    FOR_EACH_MPI(mpi) {
        run_job(mpi, 3, "aborts", &o);
        assert_true(o.seconds < 15);
        assert_int_equal(o.code, 3);
        assert_null(strstr(o.text, "came through"));
        expect_text(&o, "[1] ends all");
    }
}

static void a_module_that_is_not_there_is_reported(void **state)
{
    need_mpi(state);
    FOR_EACH_MPI(mpi) {
        setenv("REPRISE_MPI", "/nowhere/reprise-mpi.so", 1);
        run_job(mpi, 1, "ends", &o);
        expect_text(&o, "cannot load the MPI module '/nowhere/reprise-mpi.so': ");
        assert_int_equal(o.code, 1);
    }
}

static void a_module_with_a_longer_name_than_paths_have_is_reported(void **state)
{
    char name[4097];

    need_mpi(state);
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    FOR_EACH_MPI(mpi) {
        setenv("REPRISE_MPI", name, 1);
        run_job(mpi, 1, "ends", &o);
        expect_text(&o, "REPRISE_MPI is too long for a path");
        assert_int_equal(o.code, 1);
    }
}

static void a_library_that_is_no_module_is_reported(void **state)
{
    need_mpi(state);
    FOR_EACH_MPI(mpi) {
        setenv("REPRISE_MPI", "libm.so.6", 1);
        run_job(mpi, 1, "ends", &o);
        expect_text(&o, "'libm.so.6' is not an MPI module of reprise");
        assert_int_equal(o.code, 1);
    }
}

/* By itself each process would be a job of one rank, and all would write the same files. */
static void the_module_of_another_mpi_is_reported(void **state)
{
    need_mpi(state);
    if (!has(0) || !has(1)) skip();
    for (int mpi = 0; mpi < 2; mpi++) {
        setenv("REPRISE_MPI", mpis[1 - mpi].module, 1);
        run_job(mpi, 2, "ends", &o);
        expect_text(&o, "of the job's 2 is rank 0 of 1");
        expect_text(&o, "another MPI library started the job");
        assert_int_equal(o.code, 1);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_by_itself_with_all_its_ranks),
        cmocka_unit_test(when_a_rank_is_killed_the_job_ends_within_seconds),
        cmocka_unit_test(a_rank_that_does_not_come_is_waited_for_no_longer_than_the_limit),
        cmocka_unit_test(a_call_of_mpi_that_does_not_come_back_is_ended),
        cmocka_unit_test(one_rank_can_end_all),
        cmocka_unit_test(a_module_that_is_not_there_is_reported),
        cmocka_unit_test(a_module_with_a_longer_name_than_paths_have_is_reported),
        cmocka_unit_test(a_library_that_is_no_module_is_reported),
        cmocka_unit_test(the_module_of_another_mpi_is_reported),
    };

    if (argc > 1) return be_rank(argv[1]);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);        /* of the ranks: MPI's leaks are not ours */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    setenv("OMPI_MCA_plm_rsh_agent", "sh", 1);         /* there may be no ssh … */
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);      /* … and no permission to copy out of another process */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
