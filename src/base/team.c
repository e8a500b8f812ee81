/* base/team.c -- runs one round of parts at a time. The state of a round is one atomic word, so entering and closing exclude each other.
 *
 *   word    [ round : 32 | open : 1 | inside : 31 ]        entering adds 1 if the round is still open
 *
 *   share of thread t   [ next … end )       of the parts; the thread that adds 1 to next has taken that part
 */
#include "base/team.h"

#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

/* Kernels of a step follow each other within microseconds, but waking a sleeping core can take hundreds of them. So a waiting thread first spins,
 * then yields its core repeatedly, and sleeps only after awake_seconds without a new round. */
enum { SPINS = 400 };
static const double awake_seconds = 5e-3;

#define OPEN (UINT64_C(1) << 31)
#define INSIDE (OPEN - 1)

typedef struct {
    _Alignas(64) _Atomic int64_t next;
    int64_t end;
} share;

static struct {
    pthread_mutex_t busy, lock;         /* busy: held during a round; lock: held while falling asleep */
    pthread_cond_t wake;
    _Atomic uint64_t word;
    _Atomic int asleep;
    int started;                        /* threads besides the caller's */
    rp_team_work *work;                 /* of the current round; written only while the round is closed and no thread is inside */
    void *arg;
    int threads;
    share shares[RP_TEAM_MOST];
} team = { .busy = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static inline void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void take_parts(share *s, int thread)
{
    for (;;) {
        int64_t part = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
        if (part >= s->end) return;
        team.work(team.arg, part, thread);
    }
}

/* Takes parts of its own share first, then parts that are left in the shares of the next threads, in order. */
static void take_part(int thread)
{
    for (int i = 0; i < team.threads; i++) take_parts(&team.shares[(thread + i) % team.threads], thread);
}

static bool is_new(uint64_t word, uint32_t seen) { return (word & OPEN) && (uint32_t)(word >> 32) != seen; }

/* Spins or yields once. True: it yielded. */
static bool wait_a_little(int *spins)
{
    if (*spins == SPINS) return sched_yield(), true;
    ++*spins;
    pause_briefly();
    return false;
}

static uint64_t await_round(uint32_t seen)
{
    uint64_t word = atomic_load(&team.word);
    double start  = 0;
    int spins     = 0;

    for (; !is_new(word, seen); word = atomic_load(&team.word)) {
        if (!wait_a_little(&spins)) continue;
        if (start == 0) start = rp__seconds();
        else if (rp__seconds() - start > awake_seconds) break;
    }
    if (is_new(word, seen)) return word;
    pthread_mutex_lock(&team.lock);
    atomic_fetch_add(&team.asleep, 1);
    while (!is_new(word = atomic_load(&team.word), seen)) pthread_cond_wait(&team.wake, &team.lock);
    atomic_fetch_sub(&team.asleep, 1);
    pthread_mutex_unlock(&team.lock);
    return word;
}

static void *member(void *number)
{
    int thread    = (int)(intptr_t)number;
    uint32_t seen = 0;

    rp__fp_enter();
    for (;;) {
        uint64_t word = await_round(seen);
        while (is_new(word, seen) && !atomic_compare_exchange_weak(&team.word, &word, word + 1)) continue;
        if (!is_new(word, seen)) continue;
        seen = (uint32_t)(word >> 32);
        if (thread < team.threads) take_part(thread);
        atomic_fetch_sub(&team.word, 1);
    }
    return NULL;
}

/* In a child of fork only the caller's thread exists. */
static void forget(void)
{
    pthread_mutex_init(&team.busy, NULL);
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.wake, NULL);
    atomic_store(&team.word, atomic_load(&team.word) & ~(OPEN | INSIDE));
    atomic_store(&team.asleep, 0);
    team.started = 0;
}

static void watch_fork(void) { pthread_atfork(NULL, NULL, forget); }

/* Blocks all signals in the new threads, so that the program's own threads receive them. SIGBUS is for the thread that reads a lost page
 * (base/file.h). */
static void start(int threads)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;

    if (team.started + 1 >= threads || pthread_attr_init(&attr)) return;
    pthread_once(&once, watch_fork);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (team.started + 1 < threads && !pthread_create(&thread, &attr, member, (void *)(intptr_t)(team.started + 1))) team.started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
}

static void deal(int threads, int64_t parts)
{
    team.threads = threads;
    for (int t = 0; t < threads; t++) {
        atomic_store_explicit(&team.shares[t].next, parts * t / threads, memory_order_relaxed);
        team.shares[t].end = parts * (t + 1) / threads;
    }
}

static void open_round(void)
{
    uint64_t round = (atomic_load(&team.word) >> 32) + 1;

    atomic_store(&team.word, round << 32 | OPEN);
    if (atomic_load(&team.asleep) == 0) return;
    pthread_mutex_lock(&team.lock);
    pthread_cond_broadcast(&team.wake);
    pthread_mutex_unlock(&team.lock);
}

/* All parts are taken. Threads inside finish their parts; the others cannot enter any more. */
static void close_round(void)
{
    int spins = 0;

    atomic_fetch_and(&team.word, ~OPEN);
    while (atomic_load(&team.word) & INSIDE) (void)wait_a_little(&spins);
}

static void run_alone(int64_t parts, rp_team_work *work, void *arg)
{
    for (int64_t part = 0; part < parts; part++) work(arg, part, 0);
}

void rp__team_run(int threads, int64_t parts, rp_team_work *work, void *arg)
{
    if (threads > parts) threads = (int)parts;
    if (threads > RP_TEAM_MOST) threads = RP_TEAM_MOST;
    if (threads < 2 || pthread_mutex_trylock(&team.busy)) {
        run_alone(parts, work, arg);
        return;
    }
    start(threads);
    team.work = work;
    team.arg  = arg;
    deal(threads, parts);
    open_round();
    take_part(0);
    close_round();
    pthread_mutex_unlock(&team.busy);
}

/* ---- ranges ---- */

enum { RANGES_A_THREAD = 4 };

typedef struct {
    rp_team_range *work;
    const void *arg;
    int64_t n, step, parts;
} ranges;

static void run_range(void *arg, int64_t part, int thread)
{
    const ranges *r = arg;
    int64_t from = rp__part_from(r->n, r->step, r->parts, part), to = rp__part_from(r->n, r->step, r->parts, part + 1);

    (void)thread;
    if (from < to) r->work(r->arg, from, to);
}

void rp__team_ranges(int threads, int64_t n, int64_t step, int64_t bytes, rp_team_range *work, const void *arg)
{
    if (threads < 2 || bytes < RP_TEAM_BYTES) {
        if (n > 0) work(arg, 0, n);
        return;
    }
    ranges r = { work, arg, n, step, (int64_t)threads * RANGES_A_THREAD };
    rp__team_run(threads, r.parts, run_range, &r);
}
