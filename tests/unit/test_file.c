/* Claims about files: mapped, read, written whole or not at all; folders. */
/* ctest: device-free thread-free watched */
#include "io_test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static rp_ctx *ctx;

static void put_file(const char *path, const char *text) { assert_ok(ctx, rp__file_write(ctx, path, text, (int64_t)strlen(text))); }

static void assert_file(const char *path, const char *text)
{
    int64_t bytes;
    char *got = whole(ctx, path, &bytes);

    assert_int_equal(bytes, strlen(text));
    assert_string_equal(got, text);
    rp__release(got);
}

static void a_written_file_reads_and_maps_as_the_same_bytes(void **state)
{
    (void)state;
    const char *path = temp_path("bytes");
    rp_file_map map;

    put_file(path, "first");
    put_file(path, "a second, longer text");
    assert_file(path, "a second, longer text");
    assert_ok(ctx, rp__file_map(ctx, path, &map));
    assert_int_equal(map.bytes, 21);
    rp__file_drop(&map, 2, 5);
    assert_memory_equal(map.data, "a second, longer text", 21);
    rp__file_unmap(&map);
    assert_null(map.data);
    assert_int_equal(n_files_in(temp_dir), 1);
}

static void an_empty_file_maps_and_reads_as_no_bytes(void **state)
{
    (void)state;
    const char *path = temp_path("empty");
    rp_file_map map;

    put_file(path, "");
    assert_file(path, "");
    assert_ok(ctx, rp__file_map(ctx, path, &map));
    assert_non_null(map.data);
    assert_int_equal(map.bytes, 0);
    rp__file_unmap(&map);
}

static void absent_files_folders_and_pipes_are_refused_with_the_reason(void **state)
{
    (void)state;
    rp_file_map map = { 0 };
    char *text      = NULL;
    int64_t bytes   = -1;

    assert_int_equal(rp__file_map(ctx, "/no/such", &map), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot open '/no/such': No such file or directory");
    assert_int_equal(rp__file_map(ctx, temp_dir, &map), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "Is a directory"));
    assert_int_equal(mkfifo(temp_path("pipe"), 0600), 0);
    assert_int_equal(rp__file_map(ctx, temp_path("pipe"), &map), RP_ERR_IO);
    assert_null(map.data);
    assert_int_equal(rp__file_read(ctx, "/no/such", 10, &text, &bytes), RP_ERR_IO);
    assert_int_equal(rp__file_read(ctx, temp_dir, 10, &text, &bytes), RP_ERR_IO);
    assert_null(text);
    assert_int_equal(bytes, -1);
}

static void a_file_longer_than_the_cap_is_refused_and_one_of_its_length_is_not(void **state)
{
    (void)state;
    const char *path = temp_path("capped");
    char *text       = NULL;
    int64_t bytes    = 0;

    put_file(path, "0123456789");
    assert_int_equal(rp__file_read(ctx, path, 9, &text, &bytes), RP_ERR_FORMAT);
    assert_null(text);
    assert_ok(ctx, rp__file_read(ctx, path, 10, &text, &bytes));
    rp__release(text);
}

static void a_discarded_or_unfinished_file_never_gets_its_name(void **state)
{
    (void)state;
    int before = n_files_in(temp_dir);
    rp_file_writer *w;

    put_file(temp_path("kept"), "old");
    assert_ok(ctx, rp__file_create(ctx, temp_path("kept"), &w));
    assert_ok(ctx, rp__file_put(w, "new", 3));
    assert_file(temp_path("kept"), "old");
    rp__file_discard(w);
    assert_file(temp_path("kept"), "old");
    assert_int_equal(n_files_in(temp_dir), before + 1);
    assert_int_equal(rp__file_create(ctx, temp_path("absent/x"), &w), RP_ERR_IO);
    assert_int_equal(rp__file_create(ctx, temp_dir, &w), RP_ERR_IO);
}

/* The limit on file sizes acts like a full disk: one write is cut short there, the next fails. */
static void a_full_disk_is_an_error_and_leaves_the_old_file(void **state)
{
    (void)state;
    static char data[10000];
    const char *path = temp_path("full");
    int before       = n_files_in(temp_dir);
    struct rlimit old, small = { 4096, RLIM_INFINITY };

    put_file(path, "old");
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rp_status status = rp__file_write(ctx, path, data, sizeof data);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "cannot write '"));
    assert_file(path, "old");
    assert_int_equal(n_files_in(temp_dir), before + 1);
}

/* A rename over it would leave a file where the device was. */
static void what_is_no_file_is_written_in_place(void **state)
{
    (void)state;
    const char *pipe = temp_path("reader");
    int before       = n_files_in(temp_dir);
    char got[16]     = "";
    struct stat s;

    assert_int_equal(mkfifo(pipe, 0600), 0);
    int fd = open(pipe, O_RDWR | O_NONBLOCK);
    assert_ok(ctx, rp__file_write(ctx, pipe, "abcdef", 6));
    assert_int_equal(read(fd, got, sizeof got), 6);
    assert_string_equal(got, "abcdef");
    assert_int_equal(close(fd), 0);
    assert_int_equal(stat(pipe, &s), 0);
    assert_true(S_ISFIFO(s.st_mode));
    assert_int_equal(n_files_in(temp_dir), before + 1);

    assert_int_equal(rp__file_write(ctx, "/dev/full", "abcdef", 6), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot write '/dev/full': No space left on device");
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    assert_true(full >= 0 && !rp__write_all(full, "x", 1));
    close(full);
    assert_int_equal(stat("/dev/full", &s), 0);
    assert_true(S_ISCHR(s.st_mode));
}

static void bytes_can_be_put_out_of_order(void **state)
{
    (void)state;
    rp_file_writer *w;

    assert_ok(ctx, rp__file_create(ctx, temp_path("order"), &w));
    assert_ok(ctx, rp__file_put_at(w, 4, "efgh", 4));
    assert_ok(ctx, rp__file_put_at(w, 0, "abcd", 4));
    assert_ok(ctx, rp__file_put(w, "ij", 2));
    assert_ok(ctx, rp__file_sync(w));
    assert_ok(ctx, rp__file_commit(w));
    assert_file(temp_path("order"), "abcdefghij");
}

static void folders_are_made_with_those_above_and_removed_with_all_in_them(void **state)
{
    (void)state;
    assert_ok(ctx, rp__make_dirs(ctx, temp_path("a/b//c/")));
    assert_ok(ctx, rp__make_dirs(ctx, temp_path("a/b/c")));
    assert_true(rp__file_is_dir(temp_path("a/b/c")));
    put_file(temp_path("a/b/file"), "x");
    assert_int_equal(symlink(temp_dir, temp_path("a/link")), 0);
    assert_int_equal(rp__make_dirs(ctx, temp_path("a/b/file/d")), RP_ERR_EXISTS);
    put_file(temp_path("outside"), "y");
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("a")));
    assert_false(rp__file_exists(temp_path("a")));
    assert_true(rp__file_exists(temp_path("outside")));
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("a")));
}

static void a_folder_takes_a_name_whole_whether_it_was_taken_or_not(void **state)
{
    (void)state;
    const char *aside = temp_path("aside"), *name = temp_path("named");

    for (int taken = 0; taken < 2; taken++) {
        assert_ok(ctx, rp__make_dirs(ctx, aside));
        put_file(temp_path("aside/text"), taken ? "second" : "first");
        if (!taken) put_file(temp_path("aside/only in the first"), "");
        assert_ok(ctx, rp__dir_commit(ctx, aside, name));
        assert_false(rp__file_exists(aside));
        assert_file(temp_path("named/text"), taken ? "second" : "first");
        assert_int_equal(n_files_in(name), taken ? 1 : 2);
    }
    assert_int_equal(rp__dir_commit(ctx, aside, name), RP_ERR_IO);
    assert_file(temp_path("named/text"), "second");
    assert_ok(ctx, rp__remove_tree(ctx, name));
}

static void paths_join_with_one_slash_and_absolute_names_stand_alone(void **state)
{
    (void)state;
    static const struct { const char *folder, *name, *path; } cases[] = {
        { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "", "b", "b" }, { "a", "/b", "/b" }, { "/", "b", "/b" },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        char *path = rp__path_join(ctx, cases[i].folder, cases[i].name);
        assert_string_equal(path, cases[i].path);
        rp__release(path);
    }
}

/* ---- files that others change ---- */

static void a_file_that_is_cut_while_it_is_open_is_an_error_that_says_where_it_ends_now(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    const char *path    = temp_path("cut");
    uint8_t *bytes      = calloc(1, BYTES);
    const uint8_t *head = NULL, *more = NULL;
    rp_file_map map;

    memset(bytes, 7, BYTES);
    assert_ok(ctx, rp__file_write(ctx, path, bytes, BYTES));
    assert_ok(ctx, rp__file_map(ctx, path, &map));
    assert_ok(ctx, rp__file_head(ctx, path, &map, 10, &head));
    assert_ok(ctx, rp__file_get(ctx, path, &map, BYTES - 9, 9, bytes));
    assert_int_equal(bytes[8], 7);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(head[9], 7);                                   /* what was read stays */
    assert_int_equal(rp__file_get(ctx, path, &map, BYTES - 9, 9, bytes), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "cut': it had 3145728 bytes and ends at byte 3145719 now"));
    assert_int_equal(rp__file_head(ctx, path, &map, BYTES, &more), RP_ERR_IO);
    assert_null(more);
    rp__file_unmap(&map);
    free(bytes);
}

static void the_head_of_a_file_stays_where_it_is_while_it_grows(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    const char *path    = temp_path("long");
    uint8_t *bytes      = calloc(1, BYTES);
    const uint8_t *head = NULL, *more = NULL;
    rp_file_map map;

    for (int i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(i % 251);
    assert_ok(ctx, rp__file_write(ctx, path, bytes, BYTES));
    assert_ok(ctx, rp__file_map(ctx, path, &map));
    until_no_fault_fires(ctx, rp__file_head(ctx, path, &map, 1, &head), assert_null(head));
    assert_ok(ctx, rp__file_head(ctx, path, &map, BYTES, &more));
    assert_ptr_equal(head, more);
    assert_memory_equal(head, bytes, BYTES);
    rp__file_unmap(&map);
    free(bytes);
}

static void a_folder_takes_the_name_of_no_file(void **state)
{
    (void)state;
    char expected[2200];

    assert_ok(ctx, rp__make_dirs(ctx, temp_path("aside")));
    assert_ok(ctx, rp__file_write(ctx, temp_path("taken"), "x", 1));
    assert_int_equal(rp__dir_commit(ctx, temp_path("aside"), temp_path("taken")), RP_ERR_IO);
    snprintf(expected, sizeof expected, "cannot rename '%s' to '%s': Not a directory", temp_path("aside"), temp_path("taken"));
    assert_string_equal(rp_error(ctx), expected);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("aside")));
    assert_ok(ctx, rp__remove_tree(ctx, temp_path("taken")));
}

/* ---- folders of one process ---- */

static void a_folder_is_locked_once_and_free_when_its_holder_has_died(void **state)
{
    (void)state;
    const char *path = temp_path("mine");
    char expected[1100];
    int first = -1, second = -1, ready[2];
    char byte;

    assert_ok(ctx, rp__make_dirs(ctx, path));
    assert_ok(ctx, rp__dir_lock(ctx, path, &first));
    assert_int_equal(rp__dir_lock(ctx, path, &second), RP_ERR_EXISTS);
    snprintf(expected, sizeof expected, "'%s' is in use by another process", path);
    assert_string_equal(rp_error(ctx), expected);
    assert_int_equal(second, -1);
    rp__dir_unlock(first);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        bool has = rp__dir_lock(ctx, path, &first) == RP_OK;
        if (write(ready[1], has ? "y" : "n", 1) == 1) pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    assert_int_equal(rp__dir_lock(ctx, path, &second), RP_ERR_EXISTS);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_ok(ctx, rp__dir_lock(ctx, path, &second));
    rp__dir_unlock(second);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(n_files_in(path), 0);
}

/* Stands in front of the C library's function. flock_refuses: the next so many calls fail with EBADF, as those of NFS for a folder do. */
static int flock_refuses;

__attribute__((visibility("default"))) int flock(int fd, int operation)
{
    if (flock_refuses > 0) return flock_refuses--, errno = EBADF, -1;
    return (int)syscall(SYS_flock, fd, operation);
}

static void a_folder_that_cannot_be_locked_has_a_file_that_is(void **state)
{
    (void)state;
    const char *path = temp_path("remote");
    char expected[1100];
    int first = -1, second = -1;

    assert_ok(ctx, rp__make_dirs(ctx, path));
    flock_refuses = 1;
    assert_ok(ctx, rp__dir_lock(ctx, path, &first));
    flock_refuses = 1;
    assert_int_equal(rp__dir_lock(ctx, path, &second), RP_ERR_EXISTS);
    rp__dir_unlock(first);
    snprintf(expected, sizeof expected, "%s/.lock", path);
    assert_true(rp__file_exists(expected));
    flock_refuses = 2;                      /* no locks at all */
    assert_ok(ctx, rp__dir_lock(ctx, path, &first));
    rp__dir_unlock(first);
    flock_refuses        = 1;
    ctx->fault_countdown = 1;
    assert_int_equal(rp__dir_lock(ctx, path, &second), RP_ERR_MEMORY);
    ctx->fault_countdown = 0;
    assert_ok(ctx, rp__remove_tree(ctx, path));
    snprintf(expected, sizeof expected, "%s/.lock", path);
    assert_ok(ctx, rp__make_dirs(ctx, expected));
    flock_refuses = 1;
    assert_int_equal(rp__dir_lock(ctx, path, &second), RP_ERR_IO);
    snprintf(expected, sizeof expected, "cannot open '%s/.lock': Is a directory", path);
    assert_string_equal(rp_error(ctx), expected);
    assert_int_equal(second, -1);
    assert_ok(ctx, rp__remove_tree(ctx, path));
}

static void files_aside_of_killed_writers_go_and_nothing_else(void **state)
{
    (void)state;
    static const char *const names[] = { "a.json.12-0.tmp", "a.json.99999-17.tmp", "a.json", "a.json.tmp", "a.json.12-0.tmp.bak", "b.json.12-0.tmp",
                                         "a.json.x-0.tmp" };
    const char *folder = temp_path("left");

    assert_ok(ctx, rp__file_tidy(ctx, folder, "a.json"));
    assert_ok(ctx, rp__make_dirs(ctx, folder));
    for (int i = 0; i < RP_COUNT(names); i++) {
        char *path = rp__path_join(ctx, folder, names[i]);
        put_file(path, "x");
        rp__release(path);
    }
    assert_ok(ctx, rp__file_tidy(ctx, folder, "a.json"));
    for (int i = 0; i < RP_COUNT(names); i++) {
        char *path = rp__path_join(ctx, folder, names[i]);
        assert_int_equal(rp__file_exists(path), i >= 2);
        rp__release(path);
    }
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    int before    = n_files_in(temp_dir);
    char *text    = NULL;
    int64_t bytes = 0;
    rp_file_map map;

    until_no_fault_fires(ctx, rp__file_write(ctx, temp_path("faulty"), "x", 1), assert_int_equal(n_files_in(temp_dir), before));
    until_no_fault_fires(ctx, rp__file_read(ctx, temp_path("faulty"), 10, &text, &bytes), assert_null(text));
    rp__release(text);
    until_no_fault_fires(ctx, rp__file_map(ctx, temp_path("faulty"), &map), (void)0);
    rp__file_unmap(&map);
    until_no_fault_fires(ctx, rp__file_map(ctx, temp_path("faulty"), &map), (void)0);
    rp_file_pages *pages = NULL;
    until_no_fault_fires(ctx, rp__file_pages_open(ctx, temp_path("faulty"), &map, &pages), assert_null(pages));
    rp__file_pages_unref(pages);
    rp__file_unmap(&map);
    until_no_fault_fires(ctx, rp__make_dirs(ctx, temp_path("m/n")), assert_false(rp__file_exists(temp_path("m"))));
}

/* ---- files that are read in place ---- */

static volatile sig_atomic_t n_signals;

static void count_signal(int number)
{
    (void)number;
    n_signals++;
}

static rp_file_pages *open_pages(const char *path)
{
    rp_file_pages *pages;
    rp_file_map map;

    assert_ok(ctx, rp__file_map(ctx, path, &map));
    assert_ok(ctx, rp__file_pages_open(ctx, path, &map, &pages));
    rp__file_unmap(&map);
    return pages;
}

static void put_pages(const char *path, int n)
{
    char *all = calloc((size_t)n, 4096);

    assert_non_null(all);
    memset(all, 'x', (size_t)n * 4096);
    assert_ok(ctx, rp__file_write(ctx, path, all, (int64_t)n * 4096));
    free(all);
}

static void a_lost_page_reads_as_zeros_and_is_an_error_until_the_file_is_closed(void **state)
{
    (void)state;
    const char *path = temp_path("lost");
    struct stat was;

    put_pages(path, 4);
    rp_file_pages *pages = open_pages(path), *second = open_pages(path);
    assert_ptr_equal(pages, second);
    assert_int_equal(stat(path, &was), 0);
    assert_ok(ctx, rp__file_pages_check(ctx));
    assert_int_equal(truncate(path, 4096), 0);
    assert_int_equal(rp__file_pages_at(pages, 0)[0], 'x');
    assert_int_equal(rp__file_pages_at(pages, 8192)[5], 0);
    assert_int_equal(rp__file_pages_check(ctx), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "it had 16384 bytes and has 4096 now"));
    assert_int_equal(truncate(path, 4 * 4096), 0);          /* the size and the time as before: only the lost page is left as a sign */
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[2]){ was.st_atim, was.st_mtim }, 0), 0);
    assert_int_equal(rp__file_pages_after(ctx, RP_ERR_NONFINITE), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "' while its weights are in use"));
    rp__file_pages_unref(second);
    assert_int_equal(rp__file_pages_check(ctx), RP_ERR_IO);
    rp__file_pages_unref(pages);
    assert_ok(ctx, rp__file_pages_check(ctx));
}

static void a_file_that_was_cut_before_its_pages_are_mapped_is_refused(void **state)
{
    (void)state;
    const char *path = temp_path("before");
    rp_file_pages *pages;
    rp_file_map map;

    put_pages(path, 2);
    assert_ok(ctx, rp__file_map(ctx, path, &map));
    assert_int_equal(truncate(path, 100), 0);
    assert_int_equal(rp__file_pages_open(ctx, path, &map, &pages), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "cannot map '"));
    assert_non_null(strstr(rp_error(ctx), "': it had 8192 bytes and has 100 now"));
    rp__file_unmap(&map);
}

/* The program's handler gets every other SIGBUS, and is back in its place when no file is open. */
static void a_handler_of_the_program_keeps_its_signals(void **state)
{
    (void)state;
    const char *path = temp_path("kept");
    struct sigaction mine = { .sa_handler = count_signal }, before, now;

    sigaction(SIGBUS, &mine, &before);
    put_pages(path, 2);
    n_signals            = 0;
    rp_file_pages *pages = open_pages(path);
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_handler != count_signal);
    raise(SIGBUS);
    assert_int_equal(n_signals, 1);
    assert_int_equal(truncate(path, 0), 0);
    assert_int_equal(rp__file_pages_at(pages, 4096)[0], 0);
    assert_int_equal(n_signals, 1);
    rp__file_pages_unref(pages);
    sigaction(SIGBUS, NULL, &now);
    assert_true(now.sa_handler == count_signal);
    raise(SIGBUS);
    assert_int_equal(n_signals, 2);
    sigaction(SIGBUS, &before, NULL);
}

/* Without another handler a signal that was sent, or a fault elsewhere, ends the process as it would have. */
static void other_signals_end_the_process_as_before(void **state)
{
    (void)state;
#ifdef RP_SANITIZED
    skip();     /* a sanitizer reports the signal */
#endif
    const char *path = temp_path("ended"), *other = temp_path("other");
    int status;

    put_pages(path, 1);
    put_pages(other, 1);
    for (int sent = 0; sent < 2; sent++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
            signal(SIGBUS, SIG_DFL);
            rp_file_map map;
            open_pages(path);
            if (sent) raise(SIGBUS);
            else if (rp__file_map(ctx, other, &map) == RP_OK && !truncate(other, 0)) _exit(((const volatile uint8_t *)map.data)[0]);
            _exit(77);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    }
}

static void a_process_maps_a_limited_number_of_files(void **state)
{
    enum { LIMIT = 1024 };
    rp_file_pages **all = calloc(LIMIT + 1, sizeof *all);
    rp_file_map map;
    char name[32];

    (void)state;
    assert_non_null(all);
    for (int i = 0; i <= LIMIT; i++) {
        snprintf(name, sizeof name, "many-%d", i);
        FILE *f = fopen(temp_path(name), "wb");
        assert_true(f && fputc('x', f) == 'x' && fclose(f) == 0);
    }
    rp_status status = RP_OK;
    int n            = 0;
    for (; n <= LIMIT && status == RP_OK; n++) {
        snprintf(name, sizeof name, "many-%d", n);
        assert_ok(ctx, rp__file_map(ctx, temp_path(name), &map));
        status = rp__file_pages_open(ctx, temp_path(name), &map, &all[n]);
        rp__file_unmap(&map);
    }
    if (status == RP_ERR_UNSUPPORTED) {     /* a limit of open files may be lower */
        assert_int_equal(n, LIMIT + 1);
        assert_non_null(strstr(rp_error(ctx), "this process has mapped 1024 files"));
    } else assert_non_null(strstr(rp_error(ctx), strerror(EMFILE)));
    for (int i = 0; i < n - 1; i++) rp__file_pages_unref(all[i]);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_written_file_reads_and_maps_as_the_same_bytes),
        cmocka_unit_test(an_empty_file_maps_and_reads_as_no_bytes),
        cmocka_unit_test(absent_files_folders_and_pipes_are_refused_with_the_reason),
        cmocka_unit_test(a_file_longer_than_the_cap_is_refused_and_one_of_its_length_is_not),
        cmocka_unit_test(a_discarded_or_unfinished_file_never_gets_its_name),
        cmocka_unit_test(a_full_disk_is_an_error_and_leaves_the_old_file),
        cmocka_unit_test(what_is_no_file_is_written_in_place),
        cmocka_unit_test(bytes_can_be_put_out_of_order),
        cmocka_unit_test(folders_are_made_with_those_above_and_removed_with_all_in_them),
        cmocka_unit_test(a_folder_takes_a_name_whole_whether_it_was_taken_or_not),
        cmocka_unit_test(paths_join_with_one_slash_and_absolute_names_stand_alone),
        cmocka_unit_test(a_file_that_is_cut_while_it_is_open_is_an_error_that_says_where_it_ends_now),
        cmocka_unit_test(the_head_of_a_file_stays_where_it_is_while_it_grows),
        cmocka_unit_test(a_folder_takes_the_name_of_no_file),
        cmocka_unit_test(a_folder_is_locked_once_and_free_when_its_holder_has_died),
        cmocka_unit_test(a_folder_that_cannot_be_locked_has_a_file_that_is),
        cmocka_unit_test(files_aside_of_killed_writers_go_and_nothing_else),
        cmocka_unit_test(without_memory_nothing_is_left_behind),
        cmocka_unit_test(a_lost_page_reads_as_zeros_and_is_an_error_until_the_file_is_closed),
        cmocka_unit_test(a_file_that_was_cut_before_its_pages_are_mapped_is_refused),
        cmocka_unit_test(a_handler_of_the_program_keeps_its_signals),
        cmocka_unit_test(other_signals_end_the_process_as_before),
        cmocka_unit_test(a_process_maps_a_limited_number_of_files),
    };

    ctx = test_ctx(NULL);
    temp_enter();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}
