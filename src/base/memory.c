/* base/memory.c -- the two memories of base/device.h: the host's, and the same one sealed. */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/team.h"

enum { HUGE_PAGE = 1 << 21 };

static int64_t huge_pages(int64_t bytes) { return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE; }

/* n bytes from a multiple of `align`, a power of two. */
static uint8_t *map_aligned(int64_t n, size_t align)
{
    uint8_t *p = mmap(NULL, (size_t)n + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED) return NULL;
    size_t before = (size_t)(-(uintptr_t)p & (align - 1));
    if (before) munmap(p, before);
    munmap(p + before + n, align - before);
    return p + before;
}

/* Address space is not memory: without a limit ask for far more than the machine has. Halve where that is forbidden. A mapping that begins within
 * a huge page gets small pages where huge ones are cut. */
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

/* Each page gets its memory, on the thread's side of the machine, and keeps its contents. A refusal is none: the page comes when it is used. */
static void populate_range(const void *base, int64_t from, int64_t to)
{
#if defined(MADV_POPULATE_WRITE) && !defined(RP_ASAN)       /* there the pool's memory holds no blocks */
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

/* ---- sealed ----
 *
 *   base          the same pages, for ops        sealed: nothing, and no access
 *   + SECOND      the same pages, for copies     always open
 *   + 2 SECOND    nothing                        sealed: the page tables of the first, which nobody knows the addresses of
 *
 * To change the access of each page takes milliseconds. To move whole page tables takes microseconds, if they begin at a multiple of TABLES. */

#ifndef RP_ASAN
enum { SECOND_BITS = 34, TABLES = 1 << 30 };          /* 16 GiB: ThreadSanitizer leaves a program few addresses */
#define SECOND (INT64_C(1) << SECOND_BITS)

/* Libraries of MPI stand in the place of mremap, and lose where to. */
static bool move_tables(uint8_t *from, int64_t old_bytes, int64_t bytes, int flag, uint8_t *to)
{
    return syscall(SYS_mremap, from, old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | flag, to) != -1;
}

/* A kernel that moves no page tables changes pages. */
static void seal(uint8_t *base, int64_t bytes, bool sealed)
{
    uint8_t *hidden = base + 2 * SECOND, *from = sealed ? base : hidden, *to = sealed ? hidden : base;
    bool moved      = move_tables(from, bytes, bytes, MREMAP_DONTUNMAP, to);

    if (sealed || !moved) mprotect(base, (size_t)bytes, sealed ? PROT_NONE : PROT_READ | PROT_WRITE);
}

/* No file has these pages: a limit on the size of files, which some tests set, does not count them. */
static bool map_twice(uint8_t *p, int64_t n)
{
    const int flags = MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;

    return mmap(p + SECOND, (size_t)n, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED &&
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
    { .align = at, .copies_at = SECOND, .reserve = sealed_reserve, .release = sealed_release, .commit = host_commit, .copy = host_copy, \
      .fill = host_fill, .sync = host_sync, .seal = seal }
#else               /* blocks lie on the heap, each by itself */
#define SEALED(at) \
    { .align = at, .reserve = host_reserve, .release = host_release, .commit = host_commit, .copy = host_copy, .fill = host_fill, .sync = host_sync }
#endif

enum { GPU_ALIGN = 256 };
const rp_memory rp__memory_sealed = SEALED(RP_ALIGN), rp__memory_apart = SEALED(GPU_ALIGN);
