/* base/file.c -- files: mapped, read, written to a temporary name and renamed. file.h has the contract. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"

rp_status rp__io_fail(rp_ctx *ctx, const char *verb, const char *path)
{
    int number = errno;

    return rp_fail(ctx, number == ENOMEM ? RP_ERR_MEMORY : RP_ERR_IO, "cannot %s '%s': %s", verb, path, strerror(number));
}

/* ---- reading ---- */

static rp_status map_open(rp_ctx *ctx, const char *path, int fd, rp_file_map *out)
{
    struct stat s;

    if (fstat(fd, &s)) return rp__io_fail(ctx, "read", path);
    if (S_ISDIR(s.st_mode)) errno = EISDIR;
    else if (!S_ISREG(s.st_mode)) errno = ENODEV;
    if (!S_ISREG(s.st_mode)) return rp__io_fail(ctx, "map", path);
    if (s.st_size == 0) {
        *out = (rp_file_map){ .data = (const uint8_t *)"" };
        return RP_OK;
    }
    errno   = ENOMEM;
    void *p = rp__fault_fires(ctx) ? MAP_FAILED : mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return rp__io_fail(ctx, "map", path);
    *out = (rp_file_map){ .data = p, .bytes = s.st_size, .mapped = true, .fd = fd };
    return RP_OK;
}

/* O_NONBLOCK: a pipe without a writer must be refused, not waited for. */
rp_status rp__file_map(rp_ctx *ctx, const char *path, rp_file_map *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) return rp__io_fail(ctx, "open", path);
    rp_status status = map_open(ctx, path, fd, out);
    if (status != RP_OK || !out->mapped) close(fd);
    return status;
}

void rp__file_unmap(rp_file_map *map)
{
    if (map->mapped) {
        munmap((void *)map->data, (size_t)map->bytes);
        if (map->head) munmap(map->head, (size_t)map->bytes);
        close(map->fd);
    }
    *map = (rp_file_map){ 0 };
}

void rp__file_drop(const rp_file_map *map, int64_t offset, int64_t bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE), from = offset / page * page;

    if (map->mapped && bytes > 0) madvise((void *)(map->data + from), (size_t)(offset + bytes - from), MADV_DONTNEED);
}

rp_status rp__file_get(rp_ctx *ctx, const char *path, const rp_file_map *map, int64_t offset, int64_t bytes, void *to)
{
    RP_BUG_IF(offset < 0 || bytes < 0 || bytes > map->bytes - offset);
    if (!map->mapped) memcpy(to, map->data + offset, (size_t)bytes);
    for (int64_t done = 0; map->mapped && done < bytes;) {
        ssize_t n = pread(map->fd, (char *)to + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return rp__io_fail(ctx, "read", path);
        RP_CHECK(ctx, n, RP_ERR_IO, "cannot read '%s': it had %" PRId64 " bytes and ends at byte %" PRId64 " now", path, map->bytes, offset + done);
        done += n;
    }
    return RP_OK;
}

/* Reserves addresses for the whole file; unused ones take no memory. */
rp_status rp__file_head(rp_ctx *ctx, const char *path, rp_file_map *map, int64_t upto, const uint8_t **head)
{
    int64_t step = 1 << 20, want = (upto + step - 1) / step * step;

    RP_BUG_IF(upto < 0 || upto > map->bytes);
    if (want > map->bytes) want = map->bytes;
    if (map->mapped && !map->head) {
        errno   = ENOMEM;
        void *p = rp__fault_fires(ctx) ? MAP_FAILED : mmap(NULL, (size_t)map->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED) return rp__io_fail(ctx, "map", path);
        map->head = p;
    }
    if (map->mapped && upto > map->head_bytes) {
        if (mprotect(map->head, (size_t)want, PROT_READ | PROT_WRITE)) return rp__io_fail(ctx, "map", path);
        RP_TRY(rp__file_get(ctx, path, map, map->head_bytes, want - map->head_bytes, map->head + map->head_bytes));
        map->head_bytes = want;
    }
    *head = map->mapped ? map->head : map->data;
    return RP_OK;
}

/* Reads one byte more than the cap, to distinguish a file of exactly that size from a longer one. */
static rp_status file_read_all(rp_ctx *ctx, const char *path, int fd, int64_t cap_bytes, char **text, int64_t *bytes)
{
    int64_t room = 0, used = 0, n;
    char size[RP_SIZE_CHARS];

    do {
        if (used + 1 >= room) RP_TRY(RP_GROW(ctx, *text, room, room + 4096));
        n = read(fd, *text + used, (size_t)(room - used - 1));
        if (n < 0 && errno != EINTR) return rp__io_fail(ctx, "read", path);
        if (n > 0) used += n;
        RP_CHECK(ctx, used <= cap_bytes, RP_ERR_FORMAT, "'%s' is longer than %s", path, rp__size_text(size, cap_bytes));
    } while (n);
    (*text)[used] = 0;
    *bytes        = used;
    return RP_OK;
}

/* Some editors write a byte-order mark before UTF-8; no reader here expects it. */
static void drop_mark(char *text, int64_t *bytes)
{
    if (*bytes < 3 || memcmp(text, "\xef\xbb\xbf", 3)) return;
    *bytes -= 3;
    memmove(text, text + 3, (size_t)*bytes + 1);
}

rp_status rp__file_read(rp_ctx *ctx, const char *path, int64_t cap_bytes, char **text, int64_t *bytes)
{
    char *all = NULL;
    int fd    = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) return rp__io_fail(ctx, "open", path);
    rp_status status = file_read_all(ctx, path, fd, cap_bytes, &all, bytes);
    close(fd);
    if (status == RP_OK) {
        drop_mark(all, bytes);
        *text = all;
    } else rp__release(all);
    return status;
}

/* ---- writing ---- */

struct rp_file_writer {
    rp_ctx *ctx;
    char *path, *aside;         /* name of the temporary file; "": written in place */
    int fd;                     /* -1 once synced */
    int64_t end;                /* the furthest byte written */
};

static void writer_free(rp_file_writer *w)
{
    if (w->fd >= 0) close(w->fd);
    RP_RELEASE(w->path, w->aside, w);
}

void rp__file_discard(rp_file_writer *w)
{
    if (!w) return;
    if (w->aside[0]) unlink(w->aside);
    writer_free(w);
}

/* Skips names that a killed process with the same process number has left. */
static int open_aside(rp_file_writer *w, size_t room)
{
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(w->aside, room, "%s.%ld-%d.tmp", w->path, (long)getpid(), attempt);
        int fd = open(w->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* Replacing a device or a pipe by a file would break it for all its users. */
static bool is_stream(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode);
}

rp_status rp__file_create(rp_ctx *ctx, const char *path, rp_file_writer **out)
{
    size_t room       = strlen(path) + 64;
    rp_file_writer *w = rp__host_alloc(ctx, sizeof *w);

    if (!w) return RP_ERR_MEMORY;
    *w = (rp_file_writer){ .ctx = ctx, .fd = -1, .path = rp__host_text(ctx, path) };
    if (w->path) w->aside = rp__host_alloc(ctx, (int64_t)room);
    if (!w->aside) {
        writer_free(w);
        return RP_ERR_MEMORY;
    }
    if (rp__file_is_dir(path)) errno = EISDIR;      /* else only the rename would report it */
    else w->fd = is_stream(path) ? open(path, O_WRONLY | O_CLOEXEC) : open_aside(w, room);
    if (w->fd < 0) {
        rp_status status = rp__io_fail(ctx, "create", path);
        writer_free(w);
        return status;
    }
    *out = w;
    return RP_OK;
}

/* A signal or the disk may shorten a write. The rest is then written by another call; only an error ends the loop. */
rp_status rp__file_put_at(rp_file_writer *w, int64_t offset, const void *data, int64_t bytes)
{
    const char *from = data;
    size_t most      = (size_t)1 << 30;

    RP_BUG_IF(w->fd < 0 || offset < 0 || bytes < 0 || (!w->aside[0] && offset != w->end));
    for (int64_t done = 0; done < bytes;) {
        size_t want = (size_t)(bytes - done) < most ? (size_t)(bytes - done) : most;
        ssize_t n   = w->aside[0] ? pwrite(w->fd, from + done, want, offset + done) : write(w->fd, from + done, want);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return rp__io_fail(w->ctx, "write", w->path);
        done += n;
    }
    if (offset + bytes > w->end) w->end = offset + bytes;
    return RP_OK;
}

bool rp__write_all(int fd, const void *data, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = write(fd, (const char *)data + done, (size_t)(bytes - done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += n;
    }
    return true;
}

rp_status rp__file_put(rp_file_writer *w, const void *data, int64_t bytes) { return rp__file_put_at(w, w->end, data, bytes); }

/* close may report an earlier write error of a network disk, so its result is checked, too. */
rp_status rp__file_sync(rp_file_writer *w)
{
    int fd = w->fd, failed;

    if (fd < 0) return RP_OK;
    failed = w->aside[0] && fsync(fd);
    if (failed) return rp__io_fail(w->ctx, "write", w->path);
    w->fd = -1;
    if (close(fd)) return rp__io_fail(w->ctx, "write", w->path);
    return RP_OK;
}

rp_status rp__file_commit(rp_file_writer *w)
{
    rp_status status = rp__file_sync(w);
    bool renamed     = w->aside[0] != 0;

    if (status == RP_OK && renamed && rename(w->aside, w->path)) status = rp__io_fail(w->ctx, "write", w->path);
    if (status != RP_OK) {
        rp__file_discard(w);
        return status;
    }
    if (renamed) status = rp__dir_sync_of(w->ctx, w->path);
    writer_free(w);
    return status;
}

rp_status rp__file_write(rp_ctx *ctx, const char *path, const void *data, int64_t bytes)
{
    rp_file_writer *w;

    RP_TRY(rp__file_create(ctx, path, &w));
    rp_status status = rp__file_put(w, data, bytes);
    if (status == RP_OK) return rp__file_commit(w);
    rp__file_discard(w);
    return status;
}

