/* comm/mpi.c -- finds out which MPI library started this process, and loads its module: reprise-openmpi.so or reprise-mpich.so.
 *
 * The program depends on no MPI library; each module is linked to one. Modules are searched next to the program and the library, then in their
 * installation folders. REPRISE_MPI=FILE forces a module for every launcher.
 */
#include "comm/internal.h"

#include <dlfcn.h>
#include <unistd.h>

enum { PATH_CHARS = 4096 };

const rp_comm_mpi rp__comm_mpis[] = {
    { "Open MPI", "reprise-openmpi.so", "libopenmpi-dev" },
    { "MPICH", "reprise-mpich.so", "libmpich-dev" },
    { NULL, NULL, NULL },
};

#define TASKS_OF_STEP "SLURM_STEP_NUM_TASKS"

/* Environment variables that launchers set, the most reliable first. Other launchers set those of both PMIs, too; then the job's library may be the
 * second one in `mpi`. If both PMIs are set, MPICH's mpirun reached its machines with srun, whose default is PMIx; PMIx then describes its helpers. */
static const struct { const char *rank, *ranks; int mpi[2]; } launchers[] = {
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", { 0, 0 } },
    { "PMI_RANK", "PMI_SIZE", { 1, 0 } },
    { "PMIX_RANK", TASKS_OF_STEP, { 0, 1 } },
};

/* The number in a variable that the launcher set; -1: none. */
static int variable_number(const char *variable)
{
    const char *text = getenv(variable);
    int64_t number;

    return text && rp__parse_int(text, 0, INT32_MAX, &number) ? (int)number : -1;
}

/* PMIx does not give the number of ranks. Slurm's number is right only if Slurm itself runs the job, not a launcher inside one of its tasks. */
static int launched_ranks(int launcher)
{
    const char *job = getenv("PMIX_NAMESPACE");
    bool of_slurm   = job && !strncmp(job, "slurm.", 6);

    return strcmp(launchers[launcher].ranks, TASKS_OF_STEP) || of_slurm ? variable_number(launchers[launcher].ranks) : -1;
}

/* A single task of Slurm joins no job. It is often a shell, whose child processes all inherit its variables; but PMI admits one process, once. */
static bool is_lone_task(int launcher) { return variable_number(TASKS_OF_STEP) == 1 && launched_ranks(launcher) == 1; }

static int find_launcher(void)
{
    for (int i = 0; i < RP_COUNT(launchers); i++)
        if (getenv(launchers[i].rank)) return is_lone_task(i) ? -1 : i;
    return -1;
}

bool rp__comm_launched(void) { return find_launcher() >= 0; }

int rp__comm_launched_rank(void)
{
    int launcher = find_launcher();

    return launcher < 0 ? -1 : variable_number(launchers[launcher].rank);
}

int rp__comm_unjoined(void)
{
    int tasks = variable_number(TASKS_OF_STEP);

    return tasks < 1 || rp__comm_launched() ? 1 : tasks;
}

/* ---- files ---- */

static bool is_there(char out[PATH_CHARS], const char *folder, const char *below, const char *file)
{
    return snprintf(out, PATH_CHARS, "%s%s/%s", folder, below, file) < PATH_CHARS && !access(out, R_OK);
}

/* Cuts the path to its folder, in place; false if it has none. */
static bool cut_folder(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash) *slash = 0;
    return slash != NULL;
}

static bool program_folder(char out[PATH_CHARS])
{
    ssize_t n = readlink("/proc/self/exe", out, PATH_CHARS - 1);

    if (n <= 0) return false;
    out[n] = 0;
    return cut_folder(out);
}

static bool library_folder(char out[PATH_CHARS])
{
    Dl_info info;

    if (!dladdr(rp__comm_mpis, &info) || !info.dli_fname) return false;
    return snprintf(out, PATH_CHARS, "%s", info.dli_fname) < PATH_CHARS && cut_folder(out);
}

static bool find_module(const char *file, char out[PATH_CHARS])
{
    char folder[PATH_CHARS];

    if (program_folder(folder) && (is_there(out, folder, "", file) || is_there(out, folder, "/../" RP_LIBRARY_FOLDER "/reprise", file)))
        return true;
    if (library_folder(folder) && (is_there(out, folder, "", file) || is_there(out, folder, "/reprise", file))) return true;
    return is_there(out, RP_MODULE_FOLDER, "", file);
}

bool rp__comm_has_module(const rp_comm_mpi *mpi)
{
    char path[PATH_CHARS];

    return getenv("REPRISE_MPI") || find_module(mpi->module, path);
}

static rp_status find_for(rp_ctx *ctx, int launcher, char path[PATH_CHARS])
{
    const char *set        = getenv("REPRISE_MPI");
    const rp_comm_mpi *mpi = &rp__comm_mpis[launchers[launcher].mpi[0]];

    if (set) {
        RP_CHECK(ctx, snprintf(path, PATH_CHARS, "%s", set) < PATH_CHARS, RP_ERR_BACKEND, "REPRISE_MPI is too long for a path");
        return RP_OK;
    }
    for (int i = 0; i < 2; i++)
        if (find_module(rp__comm_mpis[launchers[launcher].mpi[i]].module, path)) return RP_OK;
    return rp_fail(ctx, RP_ERR_BACKEND,
                   "cannot join the MPI job that started this process: '%s' is not next to the program; build it on a machine with %s (package %s), "
                   "or set REPRISE_MPI to its path", mpi->module, mpi->name, mpi->package);
}

/* ---- the module ---- */

rp_status rp__engine_load(rp_ctx *ctx, const rp_engine **out, rp_engine_group *job)
{
    int launcher = find_launcher();
    char path[PATH_CHARS];

    *job = (rp_engine_group){ .rank = variable_number(launchers[launcher].rank), .ranks = launched_ranks(launcher) };
    RP_TRY(find_for(ctx, launcher, path));
    /* RTLD_GLOBAL: Open MPI opens components that look up its symbols. RTLD_NODELETE: no MPI library can be closed and opened again. */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    RP_CHECK(ctx, library, RP_ERR_BACKEND, "cannot load the MPI module '%s': %s", path, dlerror());
    const rp_engine *engine = dlsym(library, RP_ENGINE_SYMBOL_TEXT);
    RP_CHECK(ctx, engine, RP_ERR_BACKEND, "'%s' is not an MPI module of reprise", path);
    RP_CHECK(ctx, engine->version == RP_ENGINE_VERSION, RP_ERR_BACKEND,
             "the MPI module '%s' is of another version of reprise (%d, not %d)", path, engine->version, RP_ENGINE_VERSION);
    *out = engine;
    return RP_OK;
}

rp_status rp__engine_check(rp_ctx *ctx, const rp_engine_group *job, const rp_engine_group *world, const char *library)
{
    bool same = (job->rank < 0 || job->rank == world->rank) && (job->ranks < 0 || job->ranks == world->ranks);

    RP_CHECK(ctx, same, RP_ERR_BACKEND,
             "%s: rank %d of the job's %d is rank %d of %d there; another MPI library started the job: set REPRISE_MPI to its module", library,
             job->rank, job->ranks, world->rank, world->ranks);
    return RP_OK;
}
