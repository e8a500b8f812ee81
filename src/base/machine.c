/* base/machine.c -- how much memory this process may still allocate: the smallest of the machine's available memory, the unused allowance of its
 * control groups, and its resource limits. */
#include "base/base.h"
#include "base/machine.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The first number in a file; `otherwise` if the file is absent or contains "max". */
static int64_t number_in(const char *path, int64_t otherwise)
{
    FILE *f       = fopen(path, "re");
    int64_t value = 0;
    bool read     = f && fscanf(f, "%" SCNd64, &value) == 1;

    if (f) fclose(f);
    return read ? value : otherwise;
}

static int64_t available(void)
{
    FILE *f       = fopen("/proc/meminfo", "re");
    char line[128];
    int64_t kib = -1;

    while (f && kib < 0 && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %" SCNd64 " kB", &kib);
    if (f) fclose(f);
    return kib < 0 ? INT64_MAX : kib * 1024;
}

static void less(int64_t *bytes, int64_t other)
{
    if (other < *bytes) *bytes = other > 0 ? other : 0;
}

/* A group's limit applies to all groups below it, so the loop goes up to the root. */
static void less_by_groups(const char *root, const char *path, const char *most, const char *used, int64_t *bytes)
{
    char at[RP_MACHINE_PATH_CHARS], file[RP_MACHINE_PATH_CHARS + 64];
    size_t n = strlen(path);

    if (n >= sizeof at) return;
    memcpy(at, path, n + 1);
    for (;;) {
        snprintf(file, sizeof file, "%s%s/%s", root, at, most);
        int64_t limit = number_in(file, INT64_MAX);
        snprintf(file, sizeof file, "%s%s/%s", root, at, used);
        if (limit < INT64_MAX / 2) less(bytes, limit - number_in(file, 0));
        char *up = strrchr(at, '/');
        if (!up || !*at) return;
        *up = 0;
    }
}

/* Lines of /proc/self/cgroup: "0::/user.slice" is version 2, "9:memory:/docker/x" version 1. */
static void less_by_control_groups(const char *list, const char *root, int64_t *bytes)
{
    char line[RP_MACHINE_PATH_CHARS], below[RP_MACHINE_PATH_CHARS];
    FILE *f = fopen(list, "re");

    while (f && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++                   = 0;
        path[strcspn(path, "\n")] = 0;
        if (!controllers[1]) {
            less_by_groups(root, path, "memory.max", "memory.current", bytes);
        } else if (strstr(controllers, "memory")) {
            snprintf(below, sizeof below, "%s/memory", root);
            less_by_groups(below, path, "memory.limit_in_bytes", "memory.usage_in_bytes", bytes);
        }
    }
    if (f) fclose(f);
}

/* The value of a line of /proc/self/status, in bytes; 0 if the system does not report it. */
static int64_t of_process(const char *key)
{
    FILE *f     = fopen("/proc/self/status", "re");
    size_t n    = strlen(key);
    int64_t kib = 0;
    char line[128];

    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, n) && line[n] == ':') sscanf(line + n + 1, "%" SCNd64, &kib);
    if (f) fclose(f);
    return kib * 1024;
}

/* Limits on addresses count mapped bytes, used or not. */
static void less_by_limit(const struct rlimit *l, const char *used, int64_t not_counted, int64_t *bytes)
{
    if (l->rlim_cur != RLIM_INFINITY && l->rlim_cur < INT64_MAX) less(bytes, (int64_t)l->rlim_cur - of_process(used) + not_counted);
}

static void less_by_limits(int64_t pool, int64_t later, int64_t *bytes)
{
    struct rlimit l;

    if (!getrlimit(RLIMIT_DATA, &l)) less_by_limit(&l, "VmData", pool - later, bytes);
    if (!getrlimit(RLIMIT_AS, &l)) less_by_limit(&l, "VmSize", pool - later, bytes);
}

int64_t rp__machine_memory_in(const char *groups, const char *root)
{
    int64_t bytes = available();

    less_by_control_groups(groups, root, &bytes);
    less_by_limits(0, 0, &bytes);
    return bytes;
}

int64_t rp__machine_resident(void) { return of_process("VmRSS"); }
int64_t rp__machine_mapped(void) { return of_process("VmSize"); }

int64_t rp__machine_process(int64_t pool, int64_t later)
{
    int64_t bytes = available();

    less_by_control_groups("/proc/self/cgroup", "/sys/fs/cgroup", &bytes);
    if (bytes < INT64_MAX / 2) bytes += rp__machine_resident();
    less_by_limits(pool, later, &bytes);
    return bytes;
}

int64_t rp__machine_stacks(int threads)
{
    struct rlimit l;
    int64_t each = 8 << 20;

    if (!getrlimit(RLIMIT_STACK, &l) && l.rlim_cur != RLIM_INFINITY) each = (int64_t)l.rlim_cur;
    return threads * (each + sysconf(_SC_PAGESIZE));
}

int64_t rp__machine_memory(void) { return rp__machine_memory_in("/proc/self/cgroup", "/sys/fs/cgroup"); }
