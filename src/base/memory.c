/* base/memory.c -- the memory functions of base/device.h: the host's, and host memory with sealed access and queues for tests. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/team.h"

enum { HUGE_PAGE = 1 << 21 };

static int64_t huge_pages(int64_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

/* Maps n bytes at a multiple of `align`, a power of two. */
static uint8_t *map_aligned(int64_t n, size_t align)
{
    uint8_t *p = mmap(NULL, (size_t)n + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)p & (align - 1));
    if (before) munmap(p, before);
    munmap(p + before + n, align - before);
    return p + before;
}

/* Address space is not memory: without a limit, reserves far more than the machine has, and halves the size until the system allows it. The mapping
 * starts at a huge page, because a mapping that starts inside one gets small pages. */
static uint8_t *host_reserve(int64_t limit, int64_t *bytes)
{
    int64_t most = INT64_C(1) << 42, wanted = limit && limit < most ? huge_pages(limit) : most;

    for (int64_t n = wanted; n == wanted || n >= INT64_C(1) << 26; n = n / 2 / HUGE_PAGE * HUGE_PAGE) {
        uint8_t *p = map_aligned(n, HUGE_PAGE);
        if (!p) continue;
        madvise(p, (size_t)n, MADV_HUGEPAGE);
        madvise(p, (size_t)n, MADV_DONTDUMP);
        *bytes = n;
        return p;
    }
    return NULL;
}

static void host_release(uint8_t *base, int64_t bytes) { munmap(base, (size_t)bytes); }

/* Puts memory behind each page, near the thread that runs this, and keeps its contents. A refusal is ignored: the page then comes on first use. */
static void populate_range(const void *base, int64_t from, int64_t to)
{
#if defined(MADV_POPULATE_WRITE) && !defined(RP_ASAN)       /* under ASan blocks are not in the pool's memory */
    madvise((uint8_t *)base + from, (size_t)(to - from), MADV_POPULATE_WRITE);
#else
    (void)base, (void)from, (void)to;
#endif
}

static void host_commit(uint8_t *base, int64_t bytes, const rp_on *on)
{
    rp__team_ranges(on->threads, bytes, HUGE_PAGE, bytes, populate_range, base);
}

static void host_copy(void *to, const void *from, int64_t bytes, const rp_on *on) { (void)on, memmove(to, from, (size_t)bytes); }
static void host_fill(void *at, int byte, int64_t bytes, const rp_on *on) { (void)on, memset(at, byte, (size_t)bytes); }
static void host_sync(const rp_on *on) { (void)on; }

const rp_memory rp__memory_host = { .on_host = true,
                                    .align = RP_ALIGN,
                                    .reserve = host_reserve,
                                    .release = host_release,
                                    .commit = host_commit,
                                    .copy = host_copy,
                                    .fill = host_fill,
                                    .sync = host_sync };

/* ---- queues of sealed memory ---- */

enum { MOST_PENDING = 64 };

typedef struct { uint8_t *to; const uint8_t *from; int64_t bytes; int byte; } pending;      /* from NULL: a fill */
struct rp_queue { int n; pending at[MOST_PENDING]; };

static void run_pending(const rp_on *on)
{
    struct rp_queue *q = on->queue;

    if (!q) return;
    for (int i = 0; i < q->n; i++) {
        const pending *p = &q->at[i];
        if (p->from) host_copy(p->to, p->from, p->bytes, on);
        else host_fill(p->to, p->byte, p->bytes, on);
    }
    q->n = 0;
}

static struct rp_queue *queue_open(void) { return calloc(1, sizeof(struct rp_queue)); }

static void queue_close(struct rp_queue *queue)
{
    run_pending(&(rp_on){ .queue = queue });
    free(queue);
}

static bool overlap(const uint8_t *a, const uint8_t *b, int64_t a_bytes, int64_t b_bytes) { return a < b + b_bytes && b < a + a_bytes; }

static bool will_be_read(const struct rp_queue *q, const uint8_t *at, int64_t bytes)
{
    for (int i = 0; i < q->n; i++)
        if (q->at[i].from && overlap(q->at[i].from, at, q->at[i].bytes, bytes)) return true;
    return false;
}

static void put(const rp_on *on, pending p)
{
    if (on->queue->n == MOST_PENDING) run_pending(on);
    on->queue->at[on->queue->n++] = p;
}

/* The target gets other bytes at once, so the host sees a read before sync. Copies that read the target run first. */
static void queued_copy(void *to, const void *from, int64_t bytes, const rp_on *on)
{
    if (!on->queue) {
        host_copy(to, from, bytes, on);
        return;
    }
    if (will_be_read(on->queue, to, bytes)) run_pending(on);
    put(on, (pending){ .to = to, .from = from, .bytes = bytes });
    if (!overlap(to, from, bytes, bytes)) host_fill(to, RP_PENDING_BYTE, bytes, on);
}

static void queued_fill(void *at, int byte, int64_t bytes, const rp_on *on)
{
    if (on->queue) put(on, (pending){ .to = at, .bytes = bytes, .byte = byte });
    else host_fill(at, byte, bytes, on);
}

#define QUEUED .open = queue_open, .close = queue_close, .copy = queued_copy, .fill = queued_fill, .sync = run_pending, .begin = run_pending

/* ---- sealed ----
 *
 *   base          the same pages, for ops        sealed: no pages, no access
 *   + SECOND      the same pages, for copies     always open
 *   + 2 SECOND    no pages                       sealed: the page tables of the first range, at addresses that no caller has
 *
 * Changing the access of each page takes milliseconds. Moving whole page tables takes microseconds, if they begin at a multiple of TABLES. */

#ifndef RP_UNSEALED
enum { SECOND_BITS = 34, TABLES = 1 << 30 };          /* SECOND: 16 GiB, because ThreadSanitizer leaves a program few addresses */
#define SECOND (INT64_C(1) << SECOND_BITS)

/* A direct system call, because some MPI libraries replace mremap and lose its last argument. */
static bool move_tables(uint8_t *from, int64_t old_bytes, int64_t bytes, int flag, uint8_t *to)
{
    return syscall(SYS_mremap, from, old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | flag, to) != -1;
}

/* If the kernel cannot move page tables, changes the access of the pages instead. */
static void seal(uint8_t *base, int64_t bytes, bool sealed)
{
    uint8_t *hidden = base + 2 * SECOND, *from = sealed ? base : hidden, *to = sealed ? hidden : base;
    bool moved      = move_tables(from, bytes, bytes, MREMAP_DONTUNMAP, to);

    if (sealed || !moved) mprotect(base, (size_t)bytes, sealed ? PROT_NONE : PROT_READ | PROT_WRITE);
}

/* Maps the same anonymous pages at two addresses. They belong to no file, so a limit on file sizes, which some tests set, does not count them. */
static bool map_twice(uint8_t *p, int64_t n)
{
    return mmap(p + SECOND, (size_t)n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED &&
           move_tables(p + SECOND, 0, n, 0, p);
}

static uint8_t *sealed_reserve(int64_t limit, int64_t *bytes)
{
    int64_t n  = limit && limit < SECOND ? huge_pages(limit) : SECOND;
    uint8_t *p = map_aligned(2 * SECOND + n, TABLES);

    *bytes = n;
    if (!p || !map_twice(p, n)) return NULL;
    seal(p, n, true);
    return p;
}

static void sealed_release(uint8_t *base, int64_t bytes) { munmap(base, (size_t)(2 * SECOND + bytes)); }

#define SEALED(at) \
    { .align = at, .copies_at = SECOND, .reserve = sealed_reserve, .release = sealed_release, .commit = host_commit, .seal = seal, QUEUED }
#else               /* each block is a separate heap allocation */
#define SEALED(at) \
    { .align = at, .reserve = host_reserve, .release = host_release, .commit = host_commit, QUEUED }
#endif

enum { GPU_ALIGN = 256 };
const rp_memory rp__memory_sealed = SEALED(RP_ALIGN), rp__memory_apart = SEALED(GPU_ALIGN);
