/* temp.h -- a folder for one test, and files in it. */
#ifndef RP_TEST_TEMP_H
#define RP_TEST_TEMP_H

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMP_NAME "reprise-test-"
typedef struct { char path[128]; } temp_dir;

static inline temp_dir temp_make(void)
{
    temp_dir d;
    const char *base = getenv("TMPDIR");

    snprintf(d.path, sizeof d.path, "%s/" TEMP_NAME "XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(d.path));
    return d;
}

static inline int temp_remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s;
    (void)kind;
    (void)where;
    return remove(path);
}

static inline void temp_remove(const temp_dir *d) { assert_int_equal(nftw(d->path, temp_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

/* The path of a name in the folder; a few may be live at once. */
static inline const char *temp_path(const temp_dir *d, const char *name)
{
    static char ring[8][512];
    static unsigned next;
    char *out = ring[next++ % 8];

    snprintf(out, sizeof ring[0], "%s/%s", d->path, name);
    return out;
}

static inline const char *temp_write(const temp_dir *d, const char *name, const void *bytes, size_t n)
{
    const char *path = temp_path(d, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

static inline const char *temp_text(const temp_dir *d, const char *name, const char *text)
{
    return temp_write(d, name, text, strlen(text));
}

/* Cuts each file of the folder that this process has open and that has no name. Returns how many. */
static inline int temp_cut_nameless(const temp_dir *d, int64_t bytes)
{
    char link[64], to[512];
    int n = 0;

    for (int fd = 0; fd < 64; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t chars = readlink(link, to, sizeof to - 1);
        if (chars < 0) continue;
        to[chars] = 0;
        if (strncmp(to, d->path, strlen(d->path)) || !strstr(to, "(deleted)")) continue;
        assert_int_equal(ftruncate(fd, bytes), 0);
        n++;
    }
    return n;
}

#endif
