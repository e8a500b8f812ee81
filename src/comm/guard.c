/* comm/guard.c -- a thread that notices when another process of the job has exited: this rank's parent, the launcher, ranks on this machine. */
#include "comm/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

typedef struct { uint64_t machine, began; int64_t process; } peer;     /* began: start time in ticks since boot; machine 0: unknown */

struct rp_guard {
    rp_comm *world;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool ends;                                  /* protected by the lock */
    pid_t parent;
    uint64_t machine;
    peer *peer;                                 /* one per rank */
    _Atomic(const peer *) met;                  /* `peer` once it is filled */
    _Atomic double limit;                       /* dist.timeout, in seconds */
    atomic_uint calls;                          /* odd while the main thread is inside the library */
    _Atomic(const char *) operation;            /* names that call */
    atomic_bool parted, decided;
    char verdict[RP_GUARD_CHARS];               /* does not change once `decided` */
};

/* ---- processes ---- */

/* Reads state and start time of a process from /proc/PID/stat; false: no such process. */
static bool read_process(int64_t process, char *state, uint64_t *began)
{
    char path[64], text[1024];
    size_t n = 0;

    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", process);
    FILE *f = fopen(path, "re");
    if (f) n = fread(text, 1, sizeof text - 1, f);
    if (f) fclose(f);
    text[n]       = 0;
    const char *p = strrchr(text, ')');         /* the name before it may contain any character */
    if (!p || sscanf(p + 1, " %c", state) != 1) return false;
    p += 1;
    for (int field = 3; field < 22 && p; field++) p = strchr(p + 1, ' ');
    return p && sscanf(p, " %" SCNu64, began) == 1;
}

/* A hash that is equal for processes on one machine in one PID namespace; 0: unknown. */
static uint64_t this_machine(void)
{
    char boot[64] = "", space[64] = "";
    FILE *f       = fopen("/proc/sys/kernel/random/boot_id", "re");
    size_t n      = f ? fread(boot, 1, sizeof boot, f) : 0;
    ssize_t m     = readlink("/proc/self/ns/pid", space, sizeof space);

    if (f) fclose(f);
    return n && m > 0 ? rp__hash(space, (size_t)m, rp__hash(boot, n, RP_HASH_START)) | 1 : 0;
}

typedef enum { RUNS, STOPPED, GONE } life;

static life look_at(const rp_guard *g, const peer *p)
{
    uint64_t began;
    char state;

    if (!p->machine || p->machine != g->machine) return RUNS;
    if (!read_process(p->process, &state, &began)) return GONE;
    if (began != p->began || state == 'Z' || state == 'X') return GONE;
    return state == 'T' ? STOPPED : RUNS;
}

/* ---- the thread ---- */

/* Describes a process that is gone at this moment; "" if none is. */
static void find_gone(rp_guard *g, char out[RP_GUARD_CHARS])
{
    const rp_comm_watch *watch = &g->world->watch;
    const peer *met            = atomic_load(&g->parted) ? NULL : atomic_load(&g->met);

    *out = 0;
    if (watch->left && watch->left(watch->user)) snprintf(out, RP_GUARD_CHARS, "the launcher of the ranks is gone");
    else if (getppid() != g->parent) snprintf(out, RP_GUARD_CHARS, "the process that started this rank (%d) is gone", (int)g->parent);
    for (int r = 0; met && !*out && r < g->world->group.ranks; r++)
        if (look_at(g, &met[r]) == GONE) snprintf(out, RP_GUARD_CHARS, "rank %d (process %" PRId64 ") is gone", r, met[r].process);
}

/* Sleeps for one tick. True: the guard must stop. */
static bool nap(rp_guard *g)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)RP_GUARD_TICK;
    pthread_mutex_lock(&g->lock);
    for (int error = 0; !g->ends && error != ETIMEDOUT;) error = pthread_cond_timedwait(&g->over, &g->lock, &until);
    bool ends = g->ends;
    pthread_mutex_unlock(&g->lock);
    return ends;
}

static void end_process(const rp_guard *g)
{
    const rp_comm_watch *watch = &g->world->watch;
    const char *operation      = atomic_load(&g->operation);
    char text[RP_ERROR_CHARS];

    if (atomic_load(&g->decided)) snprintf(text, sizeof text, "%s; the last state that was saved is kept", g->verdict);
    else snprintf(text, sizeof text, "%s has not ended within %g s ('dist.timeout'); the last state that was saved is kept", operation,
                  atomic_load(&g->limit));
    if (watch->lost) watch->lost(watch->user, text);
}

static void *look_after(void *argument)
{
    rp_guard *g   = argument;
    unsigned seen = 0;
    double stuck = 0, gone = 0;
    char missing[RP_GUARD_CHARS];

    while (!nap(g)) {
        unsigned calls = atomic_load(&g->calls);
        bool decided   = atomic_load(&g->decided);
        stuck          = calls % 2 && calls == seen ? stuck + RP_GUARD_TICK : 0;
        seen           = calls;
        if (!decided) {
            find_gone(g, missing);
            gone = *missing ? gone + RP_GUARD_TICK : 0;
            if (gone >= RP_GUARD_GRACE) {
                memcpy(g->verdict, missing, sizeof missing);
                atomic_store(&g->decided, true);
                stuck = 0;
            }
        }
        if (stuck >= atomic_load(&g->limit) || (decided && stuck >= RP_GUARD_GRACE)) end_process(g);
    }
    return NULL;
}

/* ---- open and close ---- */

/* Signals are blocked in the guard's thread, so that the main thread receives them. */
static int start(rp_guard *g)
{
    pthread_condattr_t clock;
    sigset_t all, before;

    sigfillset(&all);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->lock, NULL);
    pthread_cond_init(&g->over, &clock);
    pthread_condattr_destroy(&clock);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int number = pthread_create(&g->thread, NULL, look_after, g);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return number;
}

void rp__guard_limit(rp_guard *g, double seconds)
{
    if (g) atomic_store(&g->limit, seconds);
}

rp_status rp__guard_open(rp_ctx *ctx, rp_comm *world)
{
    rp_guard *g = rp__host_alloc(ctx, sizeof *g);

    if (!g) return RP_ERR_MEMORY;
    g->world     = world;
    g->operation = "MPI";
    rp__guard_limit(g, world->watch.timeout);
    g->parent  = getppid();
    g->machine = this_machine();
    int number = start(g);
    if (number) {
        rp__release(g);
        return rp_fail(ctx, RP_ERR_BACKEND, "cannot start a thread: %s", strerror(number));
    }
    world->guard = g;
    return RP_OK;
}

rp_status rp__guard_meet(rp_ctx *ctx, rp_comm *world)
{
    rp_guard *g = world->guard;
    peer mine   = { .process = getpid() };
    char state;

    if (!g || world->group.ranks == 1) return RP_OK;
    if (read_process(mine.process, &state, &mine.began)) mine.machine = g->machine;
    g->peer = rp__host_alloc(ctx, world->group.ranks * (int64_t)sizeof *g->peer);
    if (!g->peer) return RP_ERR_MEMORY;
    RP_TRY(rp__comm_share(ctx, world, &mine, sizeof mine, g->peer, "the meeting of the ranks"));
    atomic_store(&g->met, g->peer);
    return RP_OK;
}

void rp__guard_close(rp_comm *world)
{
    rp_guard *g = world->guard;

    if (!g) return;
    pthread_mutex_lock(&g->lock);
    g->ends = true;
    pthread_cond_signal(&g->over);
    pthread_mutex_unlock(&g->lock);
    pthread_join(g->thread, NULL);
    pthread_cond_destroy(&g->over);
    pthread_mutex_destroy(&g->lock);
    RP_RELEASE(g->peer, g);
    world->guard = NULL;
}

/* ---- for the main thread ---- */

/* Only the main thread writes `calls`. */
static void count_call(rp_guard *g)
{
    atomic_store_explicit(&g->calls, atomic_load_explicit(&g->calls, memory_order_relaxed) + 1, memory_order_relaxed);
}

void rp__guard_enter(rp_comm *comm, const char *operation)
{
    rp_guard *g = comm->world->guard;

    if (!g) return;
    atomic_store_explicit(&g->operation, operation, memory_order_relaxed);
    count_call(g);
}

void rp__guard_leave(rp_comm *comm)
{
    rp_guard *g = comm->world->guard;

    if (g) count_call(g);
}

void rp__guard_part(rp_comm *world)
{
    if (world->guard) atomic_store(&world->guard->parted, true);
}

const char *rp__guard_verdict(const rp_comm *comm)
{
    const rp_guard *g = comm->world->guard;

    return g && atomic_load(&g->decided) ? g->verdict : NULL;
}

const char *rp__guard_stopped(const rp_comm *comm, char out[RP_GUARD_CHARS])
{
    const rp_guard *g = comm->world->guard;
    const peer *met   = g ? atomic_load(&g->met) : NULL;

    *out = 0;
    for (int r = 0; met && !*out && r < comm->world->group.ranks; r++)
        if (look_at(g, &met[r]) == STOPPED) snprintf(out, RP_GUARD_CHARS, "; rank %d (process %" PRId64 ") is stopped", r, met[r].process);
    return out;
}
