/* base/folder.c -- names and folders: created, synced, replaced atomically, removed, tidied up, locked. file.h has the contract. */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* If a folder's name is not on the disk when the power fails, everything below it is lost. */
static rp_status make_dir(rp_ctx *ctx, const char *path)
{
    if (mkdir(path, 0777) == 0) return rp__dir_sync_of(ctx, path);
    int number = errno;
    if (rp__file_is_dir(path)) return RP_OK;
    RP_CHECK(ctx, number != EEXIST, RP_ERR_EXISTS, "cannot make the folder '%s': a file of that name is there", path);
    errno = number;
    return rp__io_fail(ctx, "make the folder", path);
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

    if (nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS) && errno != ENOENT) return rp__io_fail(ctx, "remove", path);
    return RP_OK;
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

/* ---- folders replaced atomically ---- */

/* If a file system cannot sync a folder (EINVAL), nothing needs to be synced. */
rp_status rp__dir_sync(rp_ctx *ctx, const char *path)
{
    int fd      = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool failed = fd < 0 || (fsync(fd) && errno != EINVAL);
    int number  = errno;

    if (fd >= 0) close(fd);
    errno = number;
    return failed ? rp__io_fail(ctx, "write the folder", path) : RP_OK;
}

/* Allocates no memory: a rename that succeeded must not be reported as failed because memory for the folder's name is missing. */
rp_status rp__dir_sync_of(rp_ctx *ctx, const char *path)
{
    char folder[PATH_MAX] = ".";
    size_t n              = strlen(path);

    while (n > 1 && path[n - 1] == '/') n--;
    while (n && path[n - 1] != '/') n--;
    while (n > 1 && path[n - 1] == '/') n--;
    RP_CHECK(ctx, n < sizeof folder, RP_ERR_IO, "cannot write the folder of '%s': %s", path, strerror(ENAMETOOLONG));
    if (n) snprintf(folder, sizeof folder, "%.*s", (int)n, path);
    return rp__dir_sync(ctx, folder);
}

/* If `name` is a folder that is not empty, the two exchange their names. */
static rp_status give_name(rp_ctx *ctx, const char *aside, const char *name)
{
    if (rename(aside, name) == 0) return RP_OK;
    if ((errno == ENOTEMPTY || errno == EEXIST) && renameat2(AT_FDCWD, aside, AT_FDCWD, name, RENAME_EXCHANGE) == 0)
        return RP_OK;
    return rp_fail(ctx, RP_ERR_IO, "cannot rename '%s' to '%s': %s", aside, name, strerror(errno));
}

rp_status rp__dir_commit(rp_ctx *ctx, const char *aside, const char *name)
{
    RP_TRY(rp__dir_sync(ctx, aside));
    RP_TRY(give_name(ctx, aside, name));
    RP_TRY(rp__dir_sync_of(ctx, name));
    return rp__remove_tree(ctx, aside);
}

rp_status rp__dir_discard(rp_ctx *ctx, const char *aside, rp_status status)
{
    char why[RP_ERROR_CHARS];

    memcpy(why, ctx->error, sizeof why);
    rp__remove_tree(ctx, aside);        /* its own failure is ignored: the first error matters */
    return rp_fail(ctx, status, "%s", why);
}

/* ---- locked folders ---- */

static rp_status open_lock_file(rp_ctx *ctx, const char *folder, int *out)
{
    char *path = rp__path_join(ctx, folder, ".lock");

    if (!path) return RP_ERR_MEMORY;
    *out             = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    rp_status status = *out < 0 ? rp__io_fail(ctx, "open", path) : RP_OK;
    rp__release(path);
    return status;
}

/* A file system without locks refuses the lock of the file, too. The call succeeds then. */
rp_status rp__dir_lock(rp_ctx *ctx, const char *path, int *lock)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0) return rp__io_fail(ctx, "open", path);
    bool failed = flock(fd, LOCK_EX | LOCK_NB), taken = failed && errno == EWOULDBLOCK;
    if (failed && !taken) {
        close(fd);
        RP_TRY(open_lock_file(ctx, path, &fd));
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
