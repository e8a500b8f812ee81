/* tests/faults/shim.c -- goes before a program by LD_PRELOAD: the n-th call on files of some folders fails, comes up short or is the last one.
 *
 *   FAULTS_UNDER   folders, absolute, ':' between them; a call counts where its path or its file is in one of them
 *   FAULTS_AT      which of the counted calls, from 1; 0: none, they are only counted
 *   FAULTS_KIND    what happens then: the table `kinds`
 *   FAULTS_LOG     a file that gets a line for each: "17 write /runs/x/metrics.jsonl", with a '!' before it where something was done to it
 *   FAULTS_RANK    of a job: nothing happens at other ranks
 *   FAULTS_JUMP    seconds by which the clock on the wall is another from that call on
 *
 * Calls are counted alike whatever the kind, so a count stands for the same moment of the same run. What libc calls inside itself is not seen:
 * so fopen, opendir, remove and mkostemp are here beside open and unlink. io_uring is not: the program has to be told to use threads.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { READ = 1, MAKE = 2, WRITE = 4, SYNC = 8, RENAME = 16, REMOVE = 32, CLOSE = 64, CUT = 128, LOCK = 256, MAP = 512, ALL = 1023 };
enum { GROWS = MAKE | WRITE | SYNC, CHANGES = MAKE | WRITE | RENAME | REMOVE | CUT };

static const struct { int bit; const char *name; } operations[] = {
    { READ, "read" }, { MAKE, "make" }, { WRITE, "write" }, { SYNC, "sync" }, { RENAME, "rename" }, { REMOVE, "remove" },
    { CLOSE, "close" }, { CUT, "cut" }, { LOCK, "lock" }, { MAP, "map" },
};

typedef enum { FAIL = 1, SHORT, KILL, KILL_WRITING, TRUNCATE } deed;

static const struct { const char *name; int operations, number; deed deed; bool lasts; } kinds[] = {
    { "enospc", GROWS, ENOSPC, FAIL, false },
    { "edquot", GROWS, EDQUOT, FAIL, false },
    { "eio", ALL & ~(LOCK | MAP), EIO, FAIL, false },
    { "full", GROWS & ~SYNC, ENOSPC, FAIL, true },          /* what makes nothing longer goes on working */
    { "readonly", CHANGES, EROFS, FAIL, true },
    { "unplugged", ALL & ~(LOCK | MAP), EIO, FAIL, true },
    { "short", WRITE, 0, SHORT, false },                    /* half of it, and the next call writes on */
    { "torn", WRITE, ENOSPC, SHORT, true },                 /* half of it, and then the disk is full */
    { "kill", ALL, 0, KILL, false },
    { "kill_writing", WRITE, 0, KILL_WRITING, false },      /* half of it, and then the end */
    { "unlockable", LOCK, EBADF, FAIL, true },              /* as NFS says of a folder */
    { "truncate", MAP, 0, TRUNCATE, false },                /* another process cuts what has just been mapped */
    { "empty", MAP, 0, TRUNCATE, false },                   /* … to nothing */
};

static int counted;
static int log_fd = -1;

/* ---- what is asked for ---- */

static long number_of(const char *name)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : 0;
}

static bool is_here(void)
{
    const char *wanted = getenv("FAULTS_RANK"), *open_mpi = getenv("OMPI_COMM_WORLD_RANK"), *mpich = getenv("PMI_RANK");
    const char *mine   = open_mpi ? open_mpi : mpich;

    return !wanted || (mine && !strcmp(mine, wanted));
}

static int kind_of(void)
{
    const char *name = getenv("FAULTS_KIND");
    int n            = (int)(sizeof kinds / sizeof *kinds);

    for (int i = 0; name && i < n; i++)
        if (!strcmp(name, kinds[i].name)) return i;
    return -1;
}

static bool is_under(const char *path)
{
    const char *folders = getenv("FAULTS_UNDER");
    char here[PATH_MAX], whole[2 * PATH_MAX];

    if (!folders || !path) return false;
    if (*path != '/' && !getcwd(here, sizeof here)) return false;
    snprintf(whole, sizeof whole, "%s%s%s", *path == '/' ? "" : here, *path == '/' ? "" : "/", path);
    for (size_t n; *folders; folders += n + (folders[n] == ':')) {
        n = strcspn(folders, ":");
        if (!strncmp(whole, folders, n) && (whole[n] == '/' || !whole[n])) return true;
    }
    return false;
}

static const char *path_of(int fd, char out[PATH_MAX])
{
    char link[64];

    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n < 0) return NULL;
    out[n] = 0;
    return out;
}

static void note(int at, int operation, const char *path, bool does)
{
    char line[PATH_MAX + 64];
    const char *name = getenv("FAULTS_LOG"), *what = "";

    if (!name) return;
    if (log_fd < 0) log_fd = (int)syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (operations[i].bit == operation) what = operations[i].name;
    int n = snprintf(line, sizeof line, "%s%d %s %s\n", does ? "!" : "", at, what, path);
    if (n > 0) syscall(SYS_write, log_fd, line, (size_t)n);
}

static deed deed_at(int operation, long mine)
{
    int kind = kind_of();
    long at  = number_of("FAULTS_AT");

    if (kind < 0 || !at || !(kinds[kind].operations & operation)) return 0;
    return mine == at ? kinds[kind].deed : mine > at && kinds[kind].lasts ? FAIL : 0;
}

/* 0: go on as if nothing were here. FAIL: errno says why. */
static deed judge(int operation, const char *path)
{
    int number = errno;

    if (!is_here() || !is_under(path)) return 0;
    int mine = __atomic_add_fetch(&counted, 1, __ATOMIC_SEQ_CST);
    deed d   = deed_at(operation, mine);
    note(mine, operation, path, d != 0);
    if (d == KILL) kill(getpid(), SIGKILL);
    errno = d == FAIL ? kinds[kind_of()].number : number;
    return d;
}

static deed judge_fd(int operation, int fd)
{
    char path[PATH_MAX];
    int number    = errno;
    const char *p = path_of(fd, path);

    errno = number;
    return p ? judge(operation, p) : 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* ---- opening ---- */

static int opens(int flags) { return flags & (O_CREAT | O_TRUNC) || (flags & O_TMPFILE) == O_TMPFILE ? MAKE : (flags & O_ACCMODE) == O_RDONLY ? READ : WRITE; }

#define OPEN(name)                                                                             \
    int name(const char *path, int flags, ...)                                                 \
    {                                                                                          \
        va_list args;                                                                          \
        va_start(args, flags);                                                                 \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                \
        va_end(args);                                                                          \
        return judge(opens(flags), path) == FAIL ? -1 : REAL(name)(path, flags, mode);         \
    }
OPEN(open)
OPEN(open64)
/* What fortified programs call where the flags are not constants. */
int __open_2(const char *path, int flags);
int __open_2(const char *path, int flags) { return judge(opens(flags), path) == FAIL ? -1 : REAL(open)(path, flags); }

static int file_opens(const char *mode) { return *mode == 'r' && !strchr(mode, '+') ? READ : MAKE; }
FILE *fopen(const char *path, const char *mode) { return judge(file_opens(mode), path) == FAIL ? NULL : REAL(fopen)(path, mode); }
FILE *fopen64(const char *path, const char *mode) { return judge(file_opens(mode), path) == FAIL ? NULL : REAL(fopen64)(path, mode); }
DIR *opendir(const char *path) { return judge(READ, path) == FAIL ? NULL : REAL(opendir)(path); }
int mkdir(const char *path, mode_t mode) { return judge(MAKE, path) == FAIL ? -1 : REAL(mkdir)(path, mode); }
int mkostemp(char *path, int flags) { return judge(MAKE, path) == FAIL ? -1 : REAL(mkostemp)(path, flags); }

/* ---- reading and writing ---- */

ssize_t read(int fd, void *to, size_t n) { return judge_fd(READ, fd) == FAIL ? -1 : REAL(read)(fd, to, n); }
ssize_t pread(int fd, void *to, size_t n, off_t at) { return judge_fd(READ, fd) == FAIL ? -1 : REAL(pread)(fd, to, n, at); }
ssize_t pread64(int fd, void *to, size_t n, off64_t at) { return judge_fd(READ, fd) == FAIL ? -1 : REAL(pread64)(fd, to, n, at); }

/* Half in whole blocks, where there are any: a file past the page cache takes no other. */
static size_t half(size_t n) { return n >= 8192 ? n / 2 / 4096 * 4096 : n / 2; }

static ssize_t written(deed d, ssize_t n)
{
    if (d == KILL_WRITING) kill(getpid(), SIGKILL);
    return n;
}

static bool cuts(deed d) { return d == SHORT || d == KILL_WRITING; }

ssize_t write(int fd, const void *from, size_t n)
{
    deed d = judge_fd(WRITE, fd);

    return d == FAIL ? -1 : written(d, REAL(write)(fd, from, cuts(d) && n > 1 ? half(n) : n));
}

#define PWRITE(name, offset)                                                                   \
    ssize_t name(int fd, const void *from, size_t n, offset at)                                \
    {                                                                                          \
        deed d = judge_fd(WRITE, fd);                                                          \
        return d == FAIL ? -1 : written(d, REAL(name)(fd, from, cuts(d) && n > 1 ? half(n) : n, at)); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

int fsync(int fd) { return judge_fd(SYNC, fd) == FAIL ? -1 : REAL(fsync)(fd); }
int fdatasync(int fd) { return judge_fd(SYNC, fd) == FAIL ? -1 : REAL(fdatasync)(fd); }
int ftruncate(int fd, off_t n) { return judge_fd(CUT, fd) == FAIL ? -1 : REAL(ftruncate)(fd, n); }
int ftruncate64(int fd, off64_t n) { return judge_fd(CUT, fd) == FAIL ? -1 : REAL(ftruncate64)(fd, n); }
int fallocate(int fd, int mode, off_t at, off_t n) { return judge_fd(WRITE, fd) == FAIL ? -1 : REAL(fallocate)(fd, mode, at, n); }
int flock(int fd, int how)
{
    struct stat s;

    return !fstat(fd, &s) && S_ISDIR(s.st_mode) && judge_fd(LOCK, fd) == FAIL ? -1 : REAL(flock)(fd, how);
}

/* A close that fails has closed. */
int close(int fd)
{
    if (judge_fd(CLOSE, fd) != FAIL) return REAL(close)(fd);
    int number = errno;
    REAL(close)(fd);
    errno = number;
    return -1;
}

/* ---- names ---- */

int rename(const char *from, const char *to) { return judge(RENAME, from) == FAIL ? -1 : REAL(rename)(from, to); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    return judge(RENAME, from) == FAIL ? -1 : REAL(renameat2)(a, from, b, to, flags);
}
int unlink(const char *path) { return judge(REMOVE, path) == FAIL ? -1 : REAL(unlink)(path); }
int rmdir(const char *path) { return judge(REMOVE, path) == FAIL ? -1 : REAL(rmdir)(path); }
int remove(const char *path) { return judge(REMOVE, path) == FAIL ? -1 : REAL(remove)(path); }

/* ---- mappings ---- */

static void *mapped(void *p, int fd)
{
    char path[PATH_MAX];
    struct stat s;

    if (fd < 0 || p == MAP_FAILED || judge_fd(MAP, fd) != TRUNCATE || !path_of(fd, path) || stat(path, &s)) return p;
    if (truncate(path, strcmp(getenv("FAULTS_KIND"), "empty") ? s.st_size / 2 : 0)) abort();
    return p;
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset) { return mapped(REAL(mmap)(at, n, prot, flags, fd, offset), fd); }
void *mmap64(void *at, size_t n, int prot, int flags, int fd, off64_t offset) { return mapped(REAL(mmap64)(at, n, prot, flags, fd, offset), fd); }

/* ---- the clock on the wall ---- */

static long jump(void)
{
    long by = number_of("FAULTS_JUMP");

    return by && is_here() && __atomic_load_n(&counted, __ATOMIC_SEQ_CST) >= number_of("FAULTS_AT") ? by : 0;
}

int clock_gettime(clockid_t which, struct timespec *out)
{
    int failed = REAL(clock_gettime)(which, out);

    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) out->tv_sec += jump();
    return failed;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    int failed = REAL(gettimeofday)(out, zone);

    if (!failed) out->tv_sec += jump();
    return failed;
}

time_t time(time_t *out)
{
    struct timespec now;

    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
