/* comm/comm.c -- communicators: the world of a process, parts of it, and simulated ranks for rehearsals. */
#include "comm/guard.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FIRST_REQUESTS = 16,                /* requests that can be in flight at once without allocating more memory */
    TAKEN_TRIES    = 2000,
    TAKEN_NAP_US   = 1000,
    ABORT_SECONDS  = 5,                 /* then the process ends even if the library has not returned */
};

const rp_ctx_part rp__part_comm = { .bytes = sizeof(rp_groups) };

int rp__comm_rank(const rp_comm *comm) { return comm ? comm->group.rank : 0; }
int rp__comm_ranks(const rp_comm *comm) { return comm ? comm->group.ranks : 1; }
int rp__comm_apart(const rp_comm *comm) { return comm ? comm->apart : 1; }
const char *rp__comm_engine(const rp_comm *comm) { return comm ? comm->world->name : "self"; }
rp_status rp__comm_agreed(const rp_comm *comm) { return comm ? comm->world->agreed : RP_OK; }

static void release(rp_comm *comm)
{
    if (!comm) return;
    rp__guard_close(comm);
    for (int i = 0; i < comm->n_request; i++) RP_RELEASE(comm->request[i].number, comm->request[i].stage);
    RP_RELEASE(comm->request, comm->part, comm->per_rank, comm);
}

static rp_status make(rp_ctx *ctx, const rp_engine *engine, rp_comm **out)
{
    rp_comm *comm = rp__host_alloc(ctx, sizeof *comm);

    if (!comm) return RP_ERR_MEMORY;
    comm->engine = engine;
    comm->world  = comm;
    comm->apart  = 1;
    *out         = comm;
    return RP_OK;
}

/* Allocates now all that a step needs. If one rank alone ran out of memory later, all others would wait for it. */
static rp_status furnish(rp_ctx *ctx, rp_comm *comm)
{
    comm->part = rp__host_alloc(ctx, (1 + RP_LISTS) * comm->group.ranks * (int64_t)sizeof *comm->part);
    comm->per_rank = rp__host_alloc(ctx, comm->group.ranks * (int64_t)sizeof *comm->per_rank);
    if (!comm->part || !comm->per_rank) return RP_ERR_MEMORY;
    return rp__comm_make_room(ctx, comm, comm->group.ranks > 1 ? FIRST_REQUESTS : 0);
}

/* On failure MPI is not finalized: that would wait for the other ranks, which wait for this one. */
static rp_status open_world(rp_ctx *ctx, const rp_engine_group *job, rp_comm *comm)
{
    if (job) RP_TRY(rp__guard_open(ctx, comm));
    rp__guard_enter(comm, "the start of MPI");
    bool opened = comm->engine->open(&comm->group, comm->name, comm->why);
    rp__guard_leave(comm);
    RP_CHECK(ctx, opened, RP_ERR_BACKEND, "cannot start MPI: %s", comm->why);
    if (job) RP_TRY(rp__engine_check(ctx, job, &comm->group, comm->name));
    RP_TRY(furnish(ctx, comm));
    return rp__guard_meet(ctx, comm);
}

rp_status rp__comm_open(rp_ctx *ctx, const rp_comm_watch *watch, rp_comm **out)
{
    const rp_engine *engine = &rp__engine_self;
    rp_engine_group job;
    bool launched = rp__comm_launched();
    rp_comm *comm;

    if (launched) RP_TRY(rp__engine_load(ctx, &engine, &job));
    RP_TRY(make(ctx, engine, &comm));
    if (watch) comm->watch = *watch;
    if (comm->watch.timeout <= 0) comm->watch.timeout = RP_COMM_TIMEOUT;
    rp_status status = open_world(ctx, launched ? &job : NULL, comm);
    if (status == RP_OK) *out = comm;
    else release(comm);
    return status;
}

rp_status rp__comm_shapes(rp_ctx *ctx, int rank, int ranks, rp_comm **out)
{
    rp_comm *comm;

    RP_TRY(make(ctx, &rp__engine_shapes, &comm));
    comm->group = (rp_engine_group){ .rank = rank, .ranks = ranks };
    snprintf(comm->name, sizeof comm->name, "shapes");
    rp_status status = furnish(ctx, comm);
    if (status == RP_OK) *out = comm;
    else release(comm);
    return status;
}

/* ---- parts ---- */

/* Allocates memory first, for the same reason as furnish. The number of ranks in the part is known only after the split; that of the whole is enough. */
static rp_status split(rp_ctx *ctx, rp_comm *whole, int color, const rp_engine_group *known, int apart, rp_comm **out)
{
    rp_comm *part;

    RP_TRY(rp__comm_check(ctx, whole));
    RP_TRY(make(ctx, whole->engine, &part));
    part->world      = whole->world;
    part->apart      = apart;
    part->group      = known ? *known : whole->group;
    rp_status status = furnish(ctx, part);
    rp__guard_enter(whole, "a split of the ranks");
    if (status == RP_OK && !known && !whole->engine->split(&whole->group, color, &part->group, part->why))
        status = rp_fail(ctx, RP_ERR_BACKEND, "cannot split %d ranks: %s", whole->group.ranks, part->why);
    rp__guard_leave(whole);
    if (status == RP_OK) *out = part;
    else release(part);
    return status;
}

rp_status rp__comm_split(rp_ctx *ctx, rp_comm *whole, int color, rp_comm **out)
{
    RP_CHECK(ctx, whole->engine != &rp__engine_shapes, RP_ERR_UNSUPPORTED, "cannot split simulated ranks: their colors are unknown");
    return split(ctx, whole, color, NULL, 1, out);
}

rp_status rp__comm_block(rp_ctx *ctx, rp_comm *whole, int ranks, rp_comm **out)
{
    int rank = whole->group.rank;

    RP_BUG_IF(ranks < 1 || whole->group.ranks % ranks);
    const rp_engine_group known = { .rank = rank % ranks, .ranks = ranks };
    return split(ctx, whole, rank / ranks, whole->engine == &rp__engine_shapes ? &known : NULL, whole->apart, out);
}

rp_status rp__comm_across(rp_ctx *ctx, rp_comm *whole, int ranks, rp_comm **out)
{
    int rank = whole->group.rank;

    RP_BUG_IF(ranks < 1 || whole->group.ranks % ranks);
    const rp_engine_group known = { .rank = rank / ranks, .ranks = whole->group.ranks / ranks };
    return split(ctx, whole, rank % ranks, whole->engine == &rp__engine_shapes ? &known : NULL, whole->apart * ranks, out);
}

rp_comm_part *rp__comm_list(rp_comm *comm, rp_comm_list list) { return comm->part + (1 + (int)list) * comm->group.ranks; }

/* ---- the end ---- */

/* If the world is broken, waiting for the other ranks is impossible, so MPI is not finalized. The job's launcher notices that this process ends. */
void rp__comm_leave(rp_comm *comm, int code)
{
    if (!comm) return;
    if (comm->world == comm) rp__guard_part(comm);
    rp__guard_enter(comm, "the end of MPI");
    if (!comm->world->broken && comm->world == comm) comm->engine->finish(&comm->group, code);
    else if (!comm->world->broken) comm->engine->close(&comm->group);
    rp__guard_leave(comm);
    release(comm);
}

void rp__comm_close(rp_comm *comm) { rp__comm_leave(comm, 1); }

/* A launcher reads the output of ranks through pipes. MPICH's launcher loses unread output when it ends a job: on a busy machine, one run in thirty
 * to seventy lost the message that gives the reason. So this waits until the pipe is empty, for about TAKEN_TRIES * TAKEN_NAP_US at most. */
static void wait_until_taken(int file)
{
    struct stat is;
    int bytes = 0;

    if (fstat(file, &is) || !S_ISFIFO(is.st_mode)) return;
    for (int i = 0; i < TAKEN_TRIES && !ioctl(file, FIONREAD, &bytes) && bytes > 0; i++) usleep(TAKEN_NAP_US);
}

static volatile int code_of_exit;

static void exit_now(int number)
{
    (void)number;
    _exit(code_of_exit);
}

/* Calls the library's abort, which may not return if the launcher is gone. An alarm then ends the process. */
void rp__comm_abort(rp_comm *comm, int code)
{
    struct sigaction action = { .sa_handler = exit_now };

    wait_until_taken(STDOUT_FILENO);
    wait_until_taken(STDERR_FILENO);
    if (comm) rp__guard_close(comm->world);
    code_of_exit = code;
    sigemptyset(&action.sa_mask);
    sigaction(SIGALRM, &action, NULL);
    alarm(ABORT_SECONDS);
    if (comm) comm->engine->abort(&comm->group, code);
    _exit(code);
}

void rp__comm_timeout(rp_comm *world, double seconds)
{
    if (!world) return;
    world->watch.timeout = seconds;
    rp__guard_limit(world->guard, seconds);
}
