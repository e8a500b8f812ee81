/* refused_calls.h -- the system's calls that change files in a test's folder are ours here: each can be made the last one a process makes,
 * or to fail, and their order is recorded. */
#ifndef RP_TEST_REFUSED_CALLS_H
#define RP_TEST_REFUSED_CALLS_H

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>

#include "temp.h"

static struct {
    int countdown;              /* > 0: at that many calls from now … */
    bool dies;                  /* … the process ends as if killed; else the call fails with ENOSPC */
    int calls;
    bool records;
    char log[64][96];
    int n_log;
} calls;

static bool refused(const char *what, const char *path)
{
    char copy[1024];

    if (!strstr(path, TEMP_NAME)) return false;         /* a library's own files */
    calls.calls++;
    snprintf(copy, sizeof copy, "%s", path);
    if (calls.records && calls.n_log < RP_COUNT(calls.log))
        snprintf(calls.log[calls.n_log++], sizeof calls.log[0], "%s %.80s", what, basename(copy));
    if (calls.countdown == 0 || --calls.countdown) return false;
    if (calls.dies) _exit(9);
    errno = ENOSPC;
    return true;
}

static const char *path_of(int fd)
{
    static char path[1024];
    char link[64];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return path;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
int rename(const char *from, const char *to) { return refused("rename", to) ? -1 : REAL(rename)(from, to); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return refused("exchange", to) ? -1 : REAL(renameat2)(a, from, b, to, flags);
}
int mkdir(const char *path, mode_t mode) { return refused("mkdir", path) ? -1 : REAL(mkdir)(path, mode); }
int remove(const char *path) { return refused("remove", path) ? -1 : REAL(remove)(path); }
int unlink(const char *path) { return refused("unlink", path) ? -1 : REAL(unlink)(path); }
int fsync(int fd) { return refused("fsync", path_of(fd)) ? -1 : REAL(fsync)(fd); }
ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    return refused("pwrite", path_of(fd)) ? -1 : REAL(pwrite)(fd, data, bytes, at);
}
int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode = 0;

    va_start(args, flags);
    if (flags & O_CREAT) mode = va_arg(args, mode_t);
    va_end(args);
    if (flags & O_CREAT && refused("create", path)) return -1;
    return REAL(open)(path, flags, mode);
}

#endif
