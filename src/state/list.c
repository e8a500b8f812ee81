/* state/list.c -- makes the names of states and lists the existing ones. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/json.h"

#include "base/list.h"

char *rp__state_name(rp_ctx *ctx, const char *output_dir, const char *pattern, int64_t step)
{
    char name[64];

    snprintf(name, sizeof name, "%" PRId64, step);
    int64_t room = (int64_t)(strlen(output_dir) + strlen(pattern) + strlen(name) + 16);
    char *path   = rp__host_alloc(ctx, room);
    const char *at = strchr(pattern, '#');
    if (path)
        snprintf(path, (size_t)room, "%s/state%s%.*s%s%s", output_dir, *pattern ? "/" : "", at ? (int)(at - pattern) : 0,
                 pattern, at ? name : "", at ? at + 1 : "");
    return path;
}

static bool step_of(const char *name, int64_t *step)
{
    const char *digits = name + 5;

    return !strncmp(name, "step-", 5) && *digits && strspn(digits, "0123456789") == strlen(digits) &&
           rp__parse_int(digits, 0, INT64_MAX, step) && (digits[0] != '0' || !digits[1]);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? 1 : x > y ? -1 : 0;
}

static rp_status collect(rp_ctx *ctx, DIR *dir, int64_t **steps, int *n)
{
    const struct dirent *entry;
    int room = 0;
    int64_t step;

    while ((entry = readdir(dir))) {
        if (!step_of(entry->d_name, &step)) continue;
        RP_TRY(RP_GROW(ctx, *steps, room, *n + 1));
        (*steps)[(*n)++] = step;
    }
    if (*n) qsort(*steps, (size_t)*n, sizeof **steps, newest_first);
    return RP_OK;
}

rp_status rp__state_list(rp_ctx *ctx, const char *output_dir, int64_t **steps, int *n)
{
    char *folder = rp__state_name(ctx, output_dir, "", 0);
    DIR *dir     = folder ? opendir(folder) : NULL;
    rp_status status = RP_OK;

    *steps = NULL;
    *n     = 0;
    if (!folder) status = RP_ERR_MEMORY;
    else if (dir) status = collect(ctx, dir, steps, n);
    else if (errno != ENOENT) status = rp_fail(ctx, RP_ERR_IO, "cannot list '%s': %s", folder, strerror(errno));
    if (dir) closedir(dir);
    rp__release(folder);
    if (status == RP_OK) return RP_OK;
    rp__release(*steps);
    *steps = NULL;
    return status;
}
