/* Claims about a dataset's path: which files a folder, a glob and a list stand for, and in which order. */
#include "rp_test.h"

#include "data/files.h"
#include "temp.h"

static void put(const temp_dir *dir, const char *name)
{
    char folder[512];

    for (const char *slash = strchr(name, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(folder, sizeof folder, "%s/%.*s", dir->path, (int)(slash - name), name);
        mkdir(folder, 0700);
    }
    temp_text(dir, name, "text");
}

static void fill(const temp_dir *dir)
{
    static const char *const names[] = { "b.txt", "a/z.txt", "a.txt", "a/b/c.txt", "a/b/d.jsonl", "B.TXT", "c.md.gz", "c.txt.zst", "d.bin", "note.c",
                                         "a/b/.hidden.txt", ".git/x.txt", "a/b/c/b/c.txt", "e.json" };

    for (int i = 0; i < RP_COUNT(names); i++) put(dir, names[i]);
}

/* The files of `path` below the folder, joined by spaces. */
static const char *files_of(rp_ctx *ctx, const temp_dir *dir, const char *format, const char *path)
{
    static char out[2048];
    rp_data_config c = { .path = temp_path(dir, path), .format = format };
    rp_data_files files;
    size_t used = 0;

    rp_status status = rp__data_files(ctx, "dataset", &c, &files);
    for (int64_t i = 0; i < files.n; i++) {
        assert_memory_equal(files.path[i], dir->path, strlen(dir->path));
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%s", i ? " " : "", files.path[i] + strlen(dir->path) + 1);
    }
    assert_true(files.n == 0 || files.bytes == 4 * files.n);
    rp__data_files_free(&files);
    return status == RP_OK ? out : rp_error(ctx);
}

typedef struct { const char *format, *path, *files; } listing;

/* In a folder with the files above. */
static void lists(const char *extra, const listing *wanted, int n)
{
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();

    fill(&dir);
    if (extra) put(&dir, extra);
    for (int i = 0; i < n; i++) assert_string_equal(files_of(ctx, &dir, wanted[i].format, wanted[i].path), wanted[i].files);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void a_folder_is_its_files_with_the_formats_extensions_in_bytewise_order(void **state)
{
    static const listing wanted[] = {
        { "text", ".", "./B.TXT ./a.txt ./a/b/c.txt ./a/b/c/b/c.txt ./a/z.txt ./b.txt ./c.md.gz ./c.txt.zst" },
        { "text", "a", "a/b/c.txt a/b/c/b/c.txt a/z.txt" },
        { "text", "a/", "a/b/c.txt a/b/c/b/c.txt a/z.txt" },
        { "jsonl", "a", "a/b/d.jsonl" },
        { "chat", ".", "./a/b/d.jsonl ./e.json" },
        { "tokens", ".", "./d.bin" },
    };

    (void)state;
    lists(NULL, wanted, RP_COUNT(wanted));
}

static void two_stars_stand_for_any_number_of_folders(void **state)
{
    static const listing wanted[] = {
        { "text", "**/*.txt", "a.txt a/b/c.txt a/b/c/b/c.txt a/z.txt b.txt" },
        { "text", "**/b/c.txt", "a/b/c.txt a/b/c/b/c.txt" },
        { "text", "a/**/c.*", "a/b/c.txt a/b/c/b/c.txt" },
        { "text", "a/**/b/**/c.txt", "a/b/c.txt a/b/c/b/c.txt" },
        { "text", "a/**/c/**/c.txt", "a/b/c/b/c.txt" },
        { "text", "?/**", "a/b/c.txt a/b/c/b/c.txt a/b/d.jsonl a/z.txt" },
        { "text", "**/*.c", "note.c" },
    };

    (void)state;
    lists(NULL, wanted, RP_COUNT(wanted));
}

static void globs_of_one_folder_and_names_are_what_they_were(void **state)
{
    static const listing wanted[] = {
        { "text", "*.txt", "[x]*.txt a.txt b.txt" },
        { "text", "[x]*.txt", "[x]*.txt" },
        { "text", "note.c", "note.c" },
        { "text", "a/*", "a/b/c.txt a/b/c/b/c.txt a/z.txt" },        /* b is a folder */
    };

    (void)state;
    lists("[x]*.txt", wanted, RP_COUNT(wanted));
}

static void links_are_followed_and_circles_end(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make(), other = temp_make();

    put(&dir, "in/a.txt");
    put(&other, "far.txt");
    assert_int_equal(symlink(other.path, temp_path(&dir, "in/there")), 0);
    assert_int_equal(symlink("..", temp_path(&dir, "in/up")), 0);
    assert_string_equal(files_of(ctx, &dir, "text", "in"), "in/a.txt in/there/far.txt");
    assert_int_equal(symlink("nowhere", temp_path(&dir, "in/b.txt")), 0);
    assert_non_null(strstr(files_of(ctx, &dir, "text", "in"), "/in/b.txt': No such file or directory"));
    temp_remove(&other);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void what_is_not_there_is_reported_with_what_would_be_taken(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char wanted[1024];

    put(&dir, "d/note.c");
    snprintf(wanted, sizeof wanted, "dataset.path: no file in the folder '%s/d' ends in one of .txt .text .md (with or without .gz or .zst), which format text "
             "reads; for other files use a glob, such as '%s/d/**/*.c'", dir.path, dir.path);
    assert_string_equal(files_of(ctx, &dir, "text", "d"), wanted);
    for (int i = 0; i < 3; i++) {
        const char *path = (const char *[]){ "d/*.txt", "d/**/*.txt", "nowhere/**/*.txt" }[i];
        snprintf(wanted, sizeof wanted, "dataset.path: no file matches '%s/%s'", dir.path, path);
        assert_string_equal(files_of(ctx, &dir, "text", path), wanted);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void every_failed_allocation_is_reported(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    const char *both[] = { dir.path, temp_path(&dir, "**/*.txt") };
    rp_data_config c = { .paths = both, .n_paths = 2, .format = "text" };
    test_faults f    = { 0 };

    fill(&dir);
    while (!f.over) {
        rp_data_files files;
        test_fault_begin(&f, ctx);
        test_fault_end(&f, rp__data_files(ctx, "dataset", &c, &files));
        rp__data_files_free(&files);
    }
    assert_true(f.failed > 10);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_its_files_with_the_formats_extensions_in_bytewise_order),
        cmocka_unit_test(two_stars_stand_for_any_number_of_folders),
        cmocka_unit_test(globs_of_one_folder_and_names_are_what_they_were),
        cmocka_unit_test(links_are_followed_and_circles_end),
        cmocka_unit_test(what_is_not_there_is_reported_with_what_would_be_taken),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
