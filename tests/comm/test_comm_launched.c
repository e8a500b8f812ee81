/* Claims about who has started a process: the variables that mpirun and Slurm set, as in Open MPI 4.1, MPICH 4.0 and Slurm 22.05. */
#include "one_ctx_test.h"

#include <pthread.h>

#include "comm/internal.h"

static const char *const TOLD[] = {
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "PMIX_NAMESPACE", "SLURM_JOB_ID", "SLURM_PROCID",
    "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "REPRISE_MPI",
};

static int setup(void **state)
{
    for (int i = 0; i < RP_COUNT(TOLD); i++) unsetenv(TOLD[i]);
    return one_ctx_begin(state);
}

typedef struct { const char *name, *value; } variable;

static void set_variables(const variable *v)
{
    for (; v->name; v++) setenv(v->name, v->value, 1);
}

#define VARIABLES(...) set_variables((const variable[]){ __VA_ARGS__, { NULL, NULL } })

/* A task of a step, whatever MPI it was started for. */
static void set_task(const char *task, const char *tasks)
{
    VARIABLES({ "SLURM_JOB_ID", "23" }, { "SLURM_PROCID", task }, { "SLURM_NTASKS", tasks }, { "SLURM_STEP_NUM_TASKS", tasks });
}

/* Its module is not there: what is known of the job without it. */
static rp_engine_group find_job(void)
{
    const rp_engine *engine;
    rp_engine_group job = { .rank = -2, .ranks = -2 };

    setenv("REPRISE_MPI", "/nowhere/reprise-mpi.so", 1);
    assert_int_equal(rp__engine_load(ctx, &engine, &job), RP_ERR_BACKEND);
    assert_non_null(strstr(rp_error(ctx), "/nowhere/reprise-mpi.so"));
    return job;
}

static void expect_rank(int rank, int ranks)
{
    assert_true(rp__comm_launched());
    assert_int_equal(rp__comm_launched_rank(), rank);
    assert_int_equal(rp__comm_unjoined(), 1);
    rp_engine_group job = find_job();
    assert_int_equal(job.rank, rank);
    assert_int_equal(job.ranks, ranks);
}

static void expect_alone(int unjoined)
{
    rp_comm *comm;

    assert_false(rp__comm_launched());
    assert_int_equal(rp__comm_launched_rank(), -1);
    assert_int_equal(rp__comm_unjoined(), unjoined);
    assert_ok(ctx, rp__comm_open(ctx, NULL, &comm));
    assert_string_equal(rp__comm_engine(comm), "self");
    rp__comm_close(comm);
}

/* ---- ranks ---- */

static void a_task_that_slurm_starts_by_pmix_is_a_rank(void **state)
{
    (void)state;
    set_task("3", "4");
    VARIABLES({ "PMIX_RANK", "3" }, { "PMIX_NAMESPACE", "slurm.pmix.23.0" });
    expect_rank(3, 4);
}

static void a_task_that_slurm_starts_by_pmi2_is_a_rank(void **state)
{
    (void)state;
    set_task("3", "4");
    VARIABLES({ "PMI_RANK", "3" }, { "PMI_SIZE", "4" });
    expect_rank(3, 4);
}

/* mpirun reaches each machine by a task of srun, whose variables its ranks have, too. */
static void of_mpirun_in_an_allocation_its_own_word_counts(void **state)
{
    (void)state;
    set_task("1", "2");
    VARIABLES({ "PMIX_RANK", "5" }, { "PMIX_NAMESPACE", "1234567" }, { "OMPI_COMM_WORLD_RANK", "5" }, { "OMPI_COMM_WORLD_SIZE", "8" });
    expect_rank(5, 8);
}

static void of_mpich_in_an_allocation_whose_default_is_pmix_its_own_word_counts(void **state)
{
    (void)state;
    set_task("1", "2");
    VARIABLES({ "PMIX_RANK", "1" }, { "PMIX_NAMESPACE", "slurm.pmix.23.0" }, { "PMI_RANK", "5" }, { "PMI_SIZE", "8" });
    expect_rank(5, 8);
}

static void of_mpirun_inside_a_lone_task_its_own_word_counts(void **state)
{
    (void)state;
    set_task("0", "1");
    VARIABLES({ "PMI_RANK", "1" }, { "PMI_SIZE", "2" });
    expect_rank(1, 2);
    VARIABLES({ "OMPI_COMM_WORLD_RANK", "2" }, { "OMPI_COMM_WORLD_SIZE", "3" });
    expect_rank(2, 3);
}

/* Then only the MPI knows their number. */
static void another_pmix_inside_a_lone_task_of_slurm_gets_no_number(void **state)
{
    (void)state;
    set_task("0", "1");
    VARIABLES({ "PMIX_RANK", "2" }, { "PMIX_NAMESPACE", "prterun-login-77@1" });
    expect_rank(2, -1);
}

/* ---- a job that cannot be joined ---- */

static void a_name_that_no_path_can_be_is_refused(void **state)
{
    (void)state;
    static char name[8192];
    const rp_engine *engine;
    rp_engine_group job;

    memset(name, 'a', sizeof name - 1);
    VARIABLES({ "OMPI_COMM_WORLD_RANK", "0" }, { "OMPI_COMM_WORLD_SIZE", "2" }, { "REPRISE_MPI", name });
    assert_int_equal(rp__engine_load(ctx, &engine, &job), RP_ERR_BACKEND);
    assert_string_equal(rp_error(ctx), "REPRISE_MPI is too long for a path");
}

static void a_job_without_a_module_beside_the_program_is_reported_where_one_is_built(void **state)
{
    (void)state;
    const rp_engine *engine;
    rp_engine_group job;

    VARIABLES({ "OMPI_COMM_WORLD_RANK", "0" }, { "OMPI_COMM_WORLD_SIZE", "2" });
    assert_int_equal(rp__engine_load(ctx, &engine, &job), RP_ERR_BACKEND);
    assert_string_equal(rp_error(ctx), "cannot join the MPI job that started this process: 'reprise-openmpi.so' is not next to the program; build it "
                                       "on a machine with Open MPI (package libopenmpi-dev), or set REPRISE_MPI to its path");
}

static void an_mpi_that_does_not_start_says_why(void **state)
{
    (void)state;
    rp_comm *comm = NULL;

    VARIABLES({ "OMPI_COMM_WORLD_RANK", "0" }, { "OMPI_COMM_WORLD_SIZE", "2" }, { "REPRISE_MPI", FAILING_ENGINE });
    assert_int_equal(rp__comm_open(ctx, NULL, &comm), RP_ERR_BACKEND);
    assert_string_equal(rp_error(ctx), "cannot start MPI: there is no network");
    assert_null(comm);
}

/* A stack that no machine has room for. */
static void a_thread_that_cannot_start_is_reported(void **state)
{
    (void)state;
    pthread_attr_t usual, vast;
    rp_comm *comm = NULL;

    VARIABLES({ "OMPI_COMM_WORLD_RANK", "0" }, { "OMPI_COMM_WORLD_SIZE", "2" }, { "REPRISE_MPI", FAILING_ENGINE });
    assert_int_equal(pthread_getattr_default_np(&usual), 0);
    assert_int_equal(pthread_attr_init(&vast), 0);
    assert_int_equal(pthread_attr_setstacksize(&vast, (size_t)1 << 60), 0);
    assert_int_equal(pthread_setattr_default_np(&vast), 0);
    rp_status status = rp__comm_open(ctx, NULL, &comm);
    assert_int_equal(pthread_setattr_default_np(&usual), 0);
    assert_int_equal(status, RP_ERR_BACKEND);
    assert_string_equal(rp_error(ctx), "cannot start a thread: Resource temporarily unavailable");
    pthread_attr_destroy(&usual);
    pthread_attr_destroy(&vast);
}

/* ---- nobody's rank ---- */

static void a_batch_script_is_alone(void **state)
{
    (void)state;
    VARIABLES({ "SLURM_JOB_ID", "23" }, { "SLURM_PROCID", "0" }, { "SLURM_NTASKS", "4" });
    expect_alone(1);
}

/* As in `srun --pty bash`, where one program runs after the other. */
static void a_lone_task_is_alone_whatever_mpi_slurm_speaks(void **state)
{
    (void)state;
    set_task("0", "1");
    expect_alone(1);
    VARIABLES({ "PMIX_RANK", "0" }, { "PMIX_NAMESPACE", "slurm.pmix.23.0" });
    expect_alone(1);
    unsetenv("PMIX_RANK");
    VARIABLES({ "PMI_RANK", "0" }, { "PMI_SIZE", "1" });
    expect_alone(1);
}

static void tasks_that_no_mpi_joins_are_counted(void **state)
{
    (void)state;
    set_task("2", "4");
    expect_alone(4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_task_that_slurm_starts_by_pmix_is_a_rank, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(a_task_that_slurm_starts_by_pmi2_is_a_rank, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(of_mpirun_in_an_allocation_its_own_word_counts, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(of_mpich_in_an_allocation_whose_default_is_pmix_its_own_word_counts, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(of_mpirun_inside_a_lone_task_its_own_word_counts, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(another_pmix_inside_a_lone_task_of_slurm_gets_no_number, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(a_name_that_no_path_can_be_is_refused, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(a_job_without_a_module_beside_the_program_is_reported_where_one_is_built, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(an_mpi_that_does_not_start_says_why, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(a_thread_that_cannot_start_is_reported, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(a_batch_script_is_alone, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(a_lone_task_is_alone_whatever_mpi_slurm_speaks, setup, one_ctx_end),
        cmocka_unit_test_setup_teardown(tasks_that_no_mpi_joins_are_counted, setup, one_ctx_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
