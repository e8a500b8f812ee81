/* io_test.h -- for tests of files: a folder of their own, whole files, fault injection until success. */
#ifndef RP_IO_TEST_H
#define RP_IO_TEST_H

#include <dirent.h>
#include <unistd.h>

#include "rp_test.h"
#include "base/file.h"

/* One folder a test program, removed by temp_leave. */
static char temp_dir[512];

static inline void temp_enter(void)
{
    snprintf(temp_dir, sizeof temp_dir, "%s/test-XXXXXX", RP_BINARY_DIR);
    assert_non_null(mkdtemp(temp_dir));
}

static inline void temp_leave(rp_ctx *ctx) { assert_ok(ctx, rp__remove_tree(ctx, temp_dir)); }

/* temp_dir/name; a few may be live at once. */
static inline const char *temp_path(const char *name)
{
    static char ring[8][1024];
    static unsigned next;
    char *path = ring[next++ % 8];

    snprintf(path, sizeof ring[0], "%s/%s", temp_dir, name);
    return path;
}

static inline int n_files_in(const char *folder)
{
    DIR *d = opendir(folder);
    int n  = 0;

    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* A file of tests/io/golden. */
static inline const char *io_golden(const char *name)
{
    static char path[1024];

    snprintf(path, sizeof path, "%s/tests/io/golden/%s", RP_SOURCE_DIR, name);
    return path;
}

static inline char *whole(rp_ctx *ctx, const char *path, int64_t *bytes)
{
    char *text = NULL;

    assert_ok(ctx, rp__file_read(ctx, path, INT64_C(1) << 30, &text, bytes));
    return text;
}

static inline void assert_same_files(rp_ctx *ctx, const char *a, const char *b)
{
    int64_t a_bytes, b_bytes;
    char *in_a = whole(ctx, a, &a_bytes), *in_b = whole(ctx, b, &b_bytes);

    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(in_a, in_b, (size_t)a_bytes);
    RP_RELEASE(in_a, in_b);
}

/* Runs `expr`, which gives a status, with allocation 1, 2, … failing until none does. `after` checks what a failure left. */
#define until_no_fault_fires(ctx, expr, after) \
    do { \
        test_faults f_ = { 0 }; \
        while (!f_.over) { \
            test_fault_begin(&f_, ctx); \
            if (test_fault_end(&f_, expr)) { after; } \
        } \
        assert_true(f_.failed > 0); \
    } while (0)

#endif
