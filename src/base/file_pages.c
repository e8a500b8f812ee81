/* base/file_pages.c -- files that are read in place, and the handler of SIGBUS for them. file.h has the contract.
 *
 * The handler takes no lock and no memory: it reads a table of address ranges. A range of the table is in use while `from` is not 0. The thread that
 * faults reads a file that is open, so its range cannot change meanwhile. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_FILES = 1024 };     /* that are mapped in a process */

typedef struct {
    _Atomic uintptr_t from, to;
    _Atomic bool lost;          /* a page could not be read */
} range;

static range ranges[MOST_FILES];

static struct {
    pthread_mutex_t lock;       /* of everything here, except in the handler */
    int n_open;
    bool installed;
    struct sigaction before;    /* the handler that ours replaced */
} bus = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct rp_file_pages {
    rp_ctx *ctx;
    rp_file_pages *next;        /* of the context */
    int refs, fd;
    char *path;
    const uint8_t *data;
    struct stat was;
    range *in;
};

/* ---- the signal ---- */

/* On 64-bit systems a direct call, because ThreadSanitizer takes mmap for a write to the pages. */
static bool map_zeros(uintptr_t from, uintptr_t to)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
#if defined(SYS_mmap) && defined(__LP64__)
    return syscall(SYS_mmap, from, to - from, PROT_READ, flags, -1, 0) == (long)from;
#else
    return mmap((void *)from, to - from, PROT_READ, flags, -1, 0) != MAP_FAILED;
#endif
}

/* Lost pages are seldom alone, so all that follow are replaced, too. */
static bool replace(const void *address)
{
    uintptr_t at = (uintptr_t)address, page = (uintptr_t)sysconf(_SC_PAGESIZE), start = at / page * page;

    for (int i = 0; i < MOST_FILES; i++) {
        uintptr_t from = atomic_load(&ranges[i].from), to = atomic_load(&ranges[i].to);
        if (!from || at < from || at >= to) continue;
        atomic_store(&ranges[i].lost, true);
        return map_zeros(start, to);
    }
    return false;
}

/* Without another handler the signal has its default action: a fault is repeated when this returns, a signal that was sent is sent again. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0;

    if (bus.before.sa_flags & SA_SIGINFO) bus.before.sa_sigaction(number, info, context);
    else if (bus.before.sa_handler == SIG_IGN && sent) return;
    else if (bus.before.sa_handler != SIG_DFL && bus.before.sa_handler != SIG_IGN) bus.before.sa_handler(number);
    else {
        signal(number, SIG_DFL);
        if (sent) raise(number);
    }
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    int error = errno;

    if (info->si_code <= 0 || !replace(info->si_addr)) pass_on(number, info, context);
    errno = error;
}

static bool is_ours(const struct sigaction *a) { return a->sa_flags & SA_SIGINFO && a->sa_sigaction == on_bus; }

/* A handler that was installed over ours calls it, so ours stays where it is. */
static void install(void)
{
    struct sigaction now, ours = { .sa_sigaction = on_bus };

    sigaction(SIGBUS, NULL, &now);
    if (is_ours(&now) || (bus.installed && (now.sa_flags & SA_SIGINFO || (now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN)))) return;
    bus.before    = now;
    ours.sa_mask  = now.sa_mask;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (now.sa_flags & SA_RESTART);
    sigaction(SIGBUS, &ours, NULL);
    bus.installed = true;
}

static void remove_ours(void)
{
    struct sigaction now;

    sigaction(SIGBUS, NULL, &now);
    if (!is_ours(&now)) return;
    sigaction(SIGBUS, &bus.before, NULL);
    bus.installed = false;
}

/* ---- the table ---- */

/* NULL: it is full. */
static range *take_range(const uint8_t *data, int64_t bytes)
{
    range *free = NULL;

    pthread_mutex_lock(&bus.lock);
    for (int i = 0; i < MOST_FILES && !free; i++)
        if (!atomic_load(&ranges[i].from)) free = &ranges[i];
    if (free) {
        atomic_store(&free->lost, false);
        atomic_store(&free->to, (uintptr_t)data + (uintptr_t)bytes);
        atomic_store(&free->from, (uintptr_t)data);
        if (!bus.n_open++) install();
    }
    pthread_mutex_unlock(&bus.lock);
    return free;
}

static void give_range(range *r)
{
    pthread_mutex_lock(&bus.lock);
    atomic_store(&r->from, 0);
    if (!--bus.n_open) remove_ours();
    pthread_mutex_unlock(&bus.lock);
}

/* ---- files ---- */

static bool same_time(struct timespec a, struct timespec b) { return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec; }
static bool same_file(const struct stat *a, const struct stat *b) { return a->st_dev == b->st_dev && a->st_ino == b->st_ino; }

static rp_file_pages *find(const rp_ctx *ctx, const char *path, const struct stat *now)
{
    for (rp_file_pages *p = ctx->pages; p; p = p->next)
        if (!strcmp(p->path, path) && same_file(&p->was, now) && p->was.st_size == now->st_size && same_time(p->was.st_mtim, now->st_mtim)) return p;
    return NULL;
}

static rp_status map_pages(rp_file_pages *p, const rp_file_map *map)
{
    errno   = ENOMEM;
    p->fd   = rp__fault_fires(p->ctx) ? -1 : fcntl(map->fd, F_DUPFD_CLOEXEC, 0);
    void *d = p->fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)map->bytes, PROT_READ, MAP_SHARED, p->fd, 0);

    if (d == MAP_FAILED) return rp__io_fail(p->ctx, "map", p->path);
    p->data = d;
    p->in   = take_range(d, map->bytes);
    RP_CHECK(p->ctx, p->in, RP_ERR_UNSUPPORTED, "cannot map '%s': this process has mapped %d files", p->path, MOST_FILES);
    return RP_OK;
}

static void pages_free(rp_file_pages *p)
{
    if (p->in) give_range(p->in);
    if (p->data) munmap((void *)p->data, (size_t)p->was.st_size);
    if (p->fd >= 0) close(p->fd);
    RP_RELEASE(p->path, p);
}

rp_status rp__file_pages_open(rp_ctx *ctx, const char *path, const rp_file_map *map, rp_file_pages **out)
{
    struct stat now;

    RP_BUG_IF(!map->mapped);
    if (fstat(map->fd, &now)) return rp__io_fail(ctx, "read", path);
    RP_CHECK(ctx, now.st_size == map->bytes, RP_ERR_IO, "cannot map '%s': it had %" PRId64 " bytes and has %" PRId64 " now", path, map->bytes,
             (int64_t)now.st_size);
    rp_file_pages *p = find(ctx, path, &now);
    if (p) {
        *out = rp__file_pages_ref(p);
        return RP_OK;
    }
    if (!(p = rp__host_alloc(ctx, sizeof *p))) return RP_ERR_MEMORY;
    *p               = (rp_file_pages){ .ctx = ctx, .refs = 1, .fd = -1, .path = rp__host_text(ctx, path), .was = now };
    rp_status status = p->path ? map_pages(p, map) : RP_ERR_MEMORY;
    if (status != RP_OK) {
        pages_free(p);
        return status;
    }
    p->next    = ctx->pages;
    ctx->pages = p;
    *out       = p;
    return RP_OK;
}

rp_file_pages *rp__file_pages_ref(rp_file_pages *p)
{
    p->refs++;
    return p;
}

void rp__file_pages_unref(rp_file_pages *p)
{
    if (!p || --p->refs) return;
    rp_file_pages **at = &p->ctx->pages;
    while (*at != p) at = &(*at)->next;
    *at = p->next;
    pages_free(p);
}

const uint8_t *rp__file_pages_at(const rp_file_pages *p, int64_t offset) { return p->data + offset; }

/* ---- checking ---- */

/* A file whose name is gone keeps its bytes. */
static rp_status check_pages(rp_ctx *ctx, const rp_file_pages *p)
{
    struct stat now, named;
    bool known = !fstat(p->fd, &now);

    RP_CHECK(ctx, !known || now.st_size == p->was.st_size, RP_ERR_IO, "'%s' was cut or extended while its weights were in use: it had %" PRId64
             " bytes and has %" PRId64 " now", p->path, (int64_t)p->was.st_size, (int64_t)now.st_size);
    RP_CHECK(ctx, !known || same_time(now.st_mtim, p->was.st_mtim), RP_ERR_IO, "'%s' was written while its weights were in use", p->path);
    RP_CHECK(ctx, stat(p->path, &named) || same_file(&named, &p->was), RP_ERR_IO, "'%s' was replaced while its weights were in use", p->path);
    RP_CHECK(ctx, known && !atomic_load(&p->in->lost), RP_ERR_IO, "cannot read '%s' while its weights are in use", p->path);
    return RP_OK;
}

rp_status rp__file_pages_check(rp_ctx *ctx)
{
    for (const rp_file_pages *p = ctx->pages; p; p = p->next) RP_TRY(check_pages(ctx, p));
    return RP_OK;
}

rp_status rp__file_pages_after(rp_ctx *ctx, rp_status status)
{
    rp_status pages = ctx->pages ? rp__file_pages_check(ctx) : RP_OK;

    return pages == RP_OK ? status : pages;
}
