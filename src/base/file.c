/* base/file.c -- files mapped, read, written aside and renamed; folders. See file.h for what is promised. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static rp_status io_fail(rp_ctx *ctx, const char *verb, const char *path)
{
    int number = errno;

    return rp__fail(ctx, number == ENOMEM ? RP_ERR_MEMORY : RP_ERR_IO, "cannot %s '%s': %s", verb, path, strerror(number));
}

/* ---- reading ---- */

static rp_status map_open(rp_ctx *ctx, const char *path, int fd, rp_file_map *out)
{
    struct stat s;

    if (fstat(fd, &s)) return io_fail(ctx, "read", path);
    if (S_ISDIR(s.st_mode)) errno = EISDIR;
    else if (!S_ISREG(s.st_mode)) errno = ENODEV;
    if (!S_ISREG(s.st_mode)) return io_fail(ctx, "map", path);
    if (s.st_size == 0) {
        *out = (rp_file_map){ .data = (const uint8_t *)"" };
        return RP_OK;
    }
    errno   = ENOMEM;
    void *p = rp__fault_fires(ctx) ? MAP_FAILED : mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) return io_fail(ctx, "map", path);
    *out = (rp_file_map){ .data = p, .bytes = s.st_size, .mapped = true };
    return RP_OK;
}

/* O_NONBLOCK: a pipe nobody writes to must be refused, not waited for. */
rp_status rp__file_map(rp_ctx *ctx, const char *path, rp_file_map *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0) return io_fail(ctx, "open", path);
    rp_status status = map_open(ctx, path, fd, out);
    close(fd);
    return status;
}

void rp__file_unmap(rp_file_map *map)
{
    if (map->mapped) munmap((void *)map->data, (size_t)map->bytes);
    *map = (rp_file_map){ 0 };
}

void rp__file_drop(const rp_file_map *map, int64_t offset, int64_t bytes)
{
    int64_t page = sysconf(_SC_PAGESIZE), from = offset / page * page;

    if (map->mapped && bytes > 0) madvise((void *)(map->data + from), (size_t)(offset + bytes - from), MADV_DONTNEED);
}

/* One byte is asked for beyond the cap to tell a file that ends there from one that is longer. */
static rp_status read_all(rp_ctx *ctx, const char *path, int fd, int64_t cap_bytes, char **text, int64_t *bytes)
{
    int64_t room = 0, used = 0, n;
    char size[RP_SIZE_CHARS], *grown;

    do {
        if (used + 1 >= room) {
            int64_t more = room ? 2 * room : 4096;
            if (!(grown = rp__host_grow(ctx, *text, room, more))) return RP_ERR_MEMORY;
            *text = grown;
            room  = more;
        }
        n = read(fd, *text + used, (size_t)(room - used - 1));
        if (n < 0 && errno != EINTR) return io_fail(ctx, "read", path);
        if (n > 0) used += n;
        RP_CHECK(ctx, used <= cap_bytes, RP_ERR_FORMAT, "'%s' is longer than %s", path, rp__size_text(size, cap_bytes));
    } while (n);
    (*text)[used] = 0;
    *bytes        = used;
    return RP_OK;
}

rp_status rp__file_read(rp_ctx *ctx, const char *path, int64_t cap_bytes, char **text, int64_t *bytes)
{
    char *all = NULL;
    int fd    = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) return io_fail(ctx, "open", path);
    rp_status status = read_all(ctx, path, fd, cap_bytes, &all, bytes);
    close(fd);
    if (status == RP_OK) *text = all;
    else rp__release(all);
    return status;
}

/* ---- writing ---- */

struct rp_file_writer {
    rp_ctx *ctx;
    char *path, *aside;         /* aside "": written in place */
    int fd;                     /* -1 once synced */
    int64_t end;                /* the furthest byte written */
};

static void writer_free(rp_file_writer *w)
{
    if (w->fd >= 0) close(w->fd);
    rp__release(w->path);
    rp__release(w->aside);
    rp__release(w);
}

void rp__file_discard(rp_file_writer *w)
{
    if (!w) return;
    if (w->aside[0]) unlink(w->aside);
    writer_free(w);
}

/* A name left over by a killed process with our number is passed by. */
static int open_aside(rp_file_writer *w, size_t room)
{
    for (int attempt = 0; attempt < 1000; attempt++) {
        snprintf(w->aside, room, "%s.%ld-%d.tmp", w->path, (long)getpid(), attempt);
        int fd = open(w->aside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

/* "NAME.1234-0.tmp" */
static bool is_aside(const char *entry, const char *name)
{
    size_t n   = strlen(name);
    int used   = 0;
    long pid   = 0, attempt = 0;

    return !strncmp(entry, name, n) && sscanf(entry + n, ".%ld-%ld.tmp%n", &pid, &attempt, &used) == 2 && used && !entry[n + (size_t)used];
}

rp_status rp__file_tidy(rp_ctx *ctx, const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    rp_status status = RP_OK;

    while (dir && status == RP_OK && (entry = readdir(dir))) {
        if (!is_aside(entry->d_name, name)) continue;
        char *path = rp__path_join(ctx, folder, entry->d_name);
        status     = path ? rp__remove_tree(ctx, path) : RP_ERR_MEMORY;
        rp__release(path);
    }
    if (dir) closedir(dir);
    return status;
}

/* A device or a pipe cannot be replaced by a file without breaking it for everyone. */
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
    if (rp__file_is_dir(path)) errno = EISDIR;      /* else the rename would be the first to notice */
    else w->fd = is_stream(path) ? open(path, O_WRONLY | O_CLOEXEC) : open_aside(w, room);
    if (w->fd < 0) {
        rp_status status = io_fail(ctx, "create", path);
        writer_free(w);
        return status;
    }
    *out = w;
    return RP_OK;
}

/* A signal or the disk may cut a write short: the rest is tried again, and only an error ends it. */
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
        if (n <= 0) return io_fail(w->ctx, "write", w->path);
        done += n;
    }
    if (offset + bytes > w->end) w->end = offset + bytes;
    return RP_OK;
}

rp_status rp__file_put(rp_file_writer *w, const void *data, int64_t bytes) { return rp__file_put_at(w, w->end, data, bytes); }

/* close reports what a network disk could not write, so its answer counts too. */
rp_status rp__file_sync(rp_file_writer *w)
{
    int fd = w->fd, failed;

    if (fd < 0) return RP_OK;
    failed = w->aside[0] && fsync(fd);
    if (failed) return io_fail(w->ctx, "write", w->path);
    w->fd = -1;
    if (close(fd)) return io_fail(w->ctx, "write", w->path);
    return RP_OK;
}

/* A file system that cannot sync a folder (EINVAL) has nothing to sync. */
rp_status rp__dir_sync(rp_ctx *ctx, const char *path)
{
    int fd      = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool failed = fd < 0 || (fsync(fd) && errno != EINVAL);
    int number  = errno;

    if (fd >= 0) close(fd);
    errno = number;
    return failed ? io_fail(ctx, "write the folder", path) : RP_OK;
}

/* The rename itself must reach the disk. */
static rp_status sync_folder_of(rp_ctx *ctx, char *path)
{
    char *slash = strrchr(path, '/');

    if (slash) *slash = 0;
    return rp__dir_sync(ctx, !slash ? "." : *path ? path : "/");
}

rp_status rp__file_commit(rp_file_writer *w)
{
    rp_status status = rp__file_sync(w);
    bool renamed     = w->aside[0] != 0;

    if (status == RP_OK && renamed && rename(w->aside, w->path)) status = io_fail(w->ctx, "write", w->path);
    if (status != RP_OK) {
        rp__file_discard(w);
        return status;
    }
    if (renamed) status = sync_folder_of(w->ctx, w->path);
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

/* ---- names and folders ---- */

bool rp__file_exists(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0;
}

bool rp__file_is_dir(const char *path)
{
    struct stat s;

    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

char *rp__path_join(rp_ctx *ctx, const char *folder, const char *name)
{
    size_t n = strlen(folder), room = n + strlen(name) + 2;

    if (!n || *name == '/') return rp__host_text(ctx, name);
    char *path = rp__host_alloc(ctx, (int64_t)room);
    if (path) snprintf(path, room, "%s%s%s", folder, folder[n - 1] == '/' ? "" : "/", name);
    return path;
}

static rp_status make_dir(rp_ctx *ctx, const char *path)
{
    if (mkdir(path, 0777) == 0) return RP_OK;
    int number = errno;
    if (rp__file_is_dir(path)) return RP_OK;
    errno = number;
    return io_fail(ctx, "make the folder", path);
}

rp_status rp__make_dirs(rp_ctx *ctx, const char *path)
{
    char *upto = rp__host_text(ctx, path);
    rp_status status = RP_OK;

    if (!upto) return RP_ERR_MEMORY;
    for (char *p = upto + 1; *upto && *p && status == RP_OK; p++) {
        if (*p != '/') continue;
        *p     = 0;
        status = make_dir(ctx, upto);
        *p     = '/';
    }
    if (status == RP_OK) status = make_dir(ctx, upto);
    rp__release(upto);
    return status;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s;
    (void)kind;
    (void)where;
    return remove(path);
}

rp_status rp__remove_tree(rp_ctx *ctx, const char *path)
{
    enum { OPEN_FOLDERS = 32 };

    if (nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) && errno != ENOENT) return io_fail(ctx, "remove", path);
    return RP_OK;
}

/* ---- folders replaced whole ---- */

/* Where the name is taken by a folder that is not empty the two change places. */
static rp_status give_name(rp_ctx *ctx, const char *aside, const char *name)
{
    if (rename(aside, name) == 0) return RP_OK;
    if ((errno == ENOTEMPTY || errno == EEXIST) && renameat2(AT_FDCWD, aside, AT_FDCWD, name, RENAME_EXCHANGE) == 0)
        return RP_OK;
    return rp__fail(ctx, RP_ERR_IO, "cannot rename '%s' to '%s': %s", aside, name, strerror(errno));
}

rp_status rp__dir_commit(rp_ctx *ctx, const char *aside, const char *name)
{
    char *copy = rp__host_text(ctx, name);
    rp_status status = copy ? rp__dir_sync(ctx, aside) : RP_ERR_MEMORY;

    if (status == RP_OK) status = give_name(ctx, aside, name);
    if (status == RP_OK) status = sync_folder_of(ctx, copy);
    if (status == RP_OK) status = rp__remove_tree(ctx, aside);
    rp__release(copy);
    return status;
}

rp_status rp__dir_discard(rp_ctx *ctx, const char *aside, rp_status status)
{
    char why[RP_ERROR_CHARS];

    memcpy(why, ctx->error, sizeof why);
    rp__remove_tree(ctx, aside);        /* its own failure is not the story */
    return rp__fail(ctx, status, "%s", why);
}

/* ---- folders of one process ---- */

static int open_lock_file(rp_ctx *ctx, const char *folder)
{
    char *path = rp__path_join(ctx, folder, ".lock");
    int fd     = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;

    rp__release(path);
    return fd;
}

rp_status rp__dir_lock(rp_ctx *ctx, const char *path, int *lock)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), file;

    if (fd < 0) return io_fail(ctx, "open", path);
    bool failed = flock(fd, LOCK_EX | LOCK_NB), taken = failed && errno == EWOULDBLOCK;
    if (failed && !taken && (file = open_lock_file(ctx, path)) >= 0) {
        close(fd);
        fd    = file;
        taken = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    }
    if (taken) close(fd);
    RP_CHECK(ctx, !taken, RP_ERR_EXISTS, "'%s' is in use by another process", path);
    *lock = fd;
    return RP_OK;
}

void rp__dir_unlock(int lock)
{
    if (lock >= 0) close(lock);
}
