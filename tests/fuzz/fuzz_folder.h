/* fuzz_folder.h -- for targets whose reader takes paths: files in a folder in memory, made once and rewritten for each input. */
#ifndef RP_FUZZ_FOLDER_H
#define RP_FUZZ_FOLDER_H

#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "fuzz.h"

static char fuzz_folder_name[64];

static inline void fuzz_folder_remove(void) { rp__remove_tree(fuzz_ctx(), fuzz_folder_name); }

static inline const char *fuzz_folder(void)
{
    if (!*fuzz_folder_name) {
        snprintf(fuzz_folder_name, sizeof fuzz_folder_name, "%s/reprise-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        FUZZ_CHECK(mkdtemp(fuzz_folder_name));
        atexit(fuzz_folder_remove);
    }
    return fuzz_folder_name;
}

/* The folder's file of that name now holds just these bytes; its path lives until a few calls later. No rename and no fsync: those
 * would take most of the time. */
static inline const char *fuzz_file(const char *name, const void *data, size_t size)
{
    static char ring[4][128];
    static int next;
    char *path = ring[next++ % 4];

    snprintf(path, sizeof ring[0], "%s/%s", fuzz_folder(), name);
    FILE *f = fopen(path, "we");
    FUZZ_CHECK(f && fwrite(data, 1, size, f) == size);
    FUZZ_CHECK(!fclose(f));
    return path;
}

#endif
