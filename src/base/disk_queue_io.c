/* base/disk_queue_io.c -- the file of a disk queue and single attempts to read and write it, through io_uring or synchronous calls. */
#include "base/disk_queue_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* ---- io_uring ---- */

#ifdef RP_HAVE_LIBURING
static bool ring_can(struct io_uring *ring)
{
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool can = probe && io_uring_opcode_supported(probe, IORING_OP_READ) && io_uring_opcode_supported(probe, IORING_OP_WRITE);

    if (probe) io_uring_free_probe(probe);
    return can;
}

static void ring_open(rp_disk_queue_io *io)
{
    const char *asked = getenv("REPRISE_IO");

    if ((asked && !strcmp(asked, "thread")) || io_uring_queue_init((unsigned)io->depth, &io->ring, 0)) return;
    io->has_ring = ring_can(&io->ring);
    if (!io->has_ring) io_uring_queue_exit(&io->ring);
}

static void ring_close(rp_disk_queue_io *io)
{
    if (io->has_ring) io_uring_queue_exit(&io->ring);
}

/* False: the kernel refused the entry, which then stays unsubmitted in the ring. The ring is not used again. */
static bool ring_begin(rp_disk_queue_io *io, rp_disk_queue_piece *p)
{
    struct io_uring_sqe *entry = io->has_ring && !io->ring_refuses ? io_uring_get_sqe(&io->ring) : NULL;
    unsigned left = (unsigned)(p->bytes - p->done);
    int taken;

    if (!entry) return false;
    if (p->write) io_uring_prep_write(entry, io->fd, p->memory + p->done, left, (uint64_t)(p->offset + p->done));
    else io_uring_prep_read(entry, io->fd, p->memory + p->done, left, (uint64_t)(p->offset + p->done));
    io_uring_sqe_set_data(entry, p);
    do taken = io_uring_submit(&io->ring);
    while (taken == -EINTR);
    io->ring_refuses = taken != 1;
    return taken == 1;
}

static rp_disk_queue_piece *ring_next(rp_disk_queue_io *io)
{
    struct io_uring_cqe *entry;

    while (io_uring_wait_cqe(&io->ring, &entry)) continue;      /* EINTR, for example from a debugger */
    rp_disk_queue_piece *p = io_uring_cqe_get_data(entry);
    p->result         = entry->res;
    io_uring_cqe_seen(&io->ring, entry);
    return p;
}
#else
static void ring_open(rp_disk_queue_io *io) { (void)io; }
static void ring_close(rp_disk_queue_io *io) { (void)io; }
static bool ring_begin(rp_disk_queue_io *io, rp_disk_queue_piece *p)
{
    (void)io;
    (void)p;
    return false;
}
static rp_disk_queue_piece *ring_next(rp_disk_queue_io *io)
{
    (void)io;
    return NULL;
}
#endif

/* ---- the file ---- */

/* If the file system does not support unnamed files, creates a named one and unlinks it at once. */
static rp_status open_unnamed(rp_ctx *ctx, const char *folder, const char *label, int *fd)
{
    *fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (*fd >= 0) return RP_OK;
    char *path = rp__path_join(ctx, folder, "reprise-XXXXXX");
    if (!path) return RP_ERR_MEMORY;
    *fd        = *folder ? mkostemp(path, O_CLOEXEC) : -1;
    int number = *folder ? errno : ENOENT;
    if (*fd >= 0) unlink(path);
    rp__release(path);
    RP_CHECK(ctx, *fd >= 0, RP_ERR_IO, "cannot make a file for %s under '%s': %s", label, folder, strerror(number));
    return RP_OK;
}

rp_status rp__disk_queue_io_open(rp_ctx *ctx, const char *folder, const char *label, int depth, rp_disk_queue_io *io)
{
    *io = (rp_disk_queue_io){ .fd = -1, .depth = depth };
    RP_TRY(open_unnamed(ctx, folder, label, &io->fd));
    io->direct = fcntl(io->fd, F_SETFL, O_DIRECT) == 0;
    ring_open(io);
    if (!io->has_ring) io->depth = 1;
    rp__log(ctx, RP_LOG_INFO, "%s go to '%s' through %s", label, folder, io->has_ring ? "io_uring" : "a thread");
    return RP_OK;
}

void rp__disk_queue_io_close(rp_disk_queue_io *io)
{
    ring_close(io);
    if (io->fd >= 0) close(io->fd);
}

void rp__disk_queue_io_leave_direct(rp_disk_queue_io *io)
{
    if (io->direct) fcntl(io->fd, F_SETFL, 0);
    io->direct = false;
}

/* ---- attempts ---- */

void rp__disk_queue_io_begin(rp_disk_queue_io *io, rp_disk_queue_piece *p)
{
    if (ring_begin(io, p)) return;
    uint8_t *at = p->memory + p->done;
    size_t left = (size_t)(p->bytes - p->done);
    ssize_t n   = p->write ? pwrite(io->fd, at, left, p->offset + p->done) : pread(io->fd, at, left, p->offset + p->done);
    p->result   = n < 0 ? -errno : n;
    p->next     = io->ended;
    io->ended   = p;
}

rp_disk_queue_piece *rp__disk_queue_io_next(rp_disk_queue_io *io)
{
    rp_disk_queue_piece *p = io->ended;

    if (!p) return ring_next(io);
    io->ended = p->next;
    return p;
}
