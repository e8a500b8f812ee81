/* Claims about a disk queue in trouble: short moves, full disks, missing memory, signals, kernels and file systems that can less. Each is reported
 * or made up for, and leaves nothing. */
/* ctest: device-free host-memory */
#include "spool_use.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* ---- faults ---- */

static void moves_cut_short_or_interrupted_are_continued(void **state)
{
    (void)state;
    static const int numbers[] = { 0, EINTR, EAGAIN, EINVAL };      /* EINVAL: direct I/O that is refused goes through the page cache */

    for (int n = 0; n < RP_COUNT(numbers); n++) {
        rp_disk_queue *s   = open_disk_queue();
        int64_t times = numbers[n] == EINVAL ? 1 : 40;
        rp__disk_queue_fail(s, RP_DISK_QUEUE_WRITE, 2, times, numbers[n]);
        int64_t a = put(s, MOST - 1, 1), b = put(s, CHUNK + 1, 2);
        assert_ok(ctx, rp__disk_queue_wait(s, b));
        rp__disk_queue_fail(s, RP_DISK_QUEUE_READ, 1, numbers[n] == EINVAL ? 0 : times, numbers[n]);
        get(s, b, CHUNK + 1, 2);
        get(s, a, MOST - 1, 1);
        get(s, b, CHUNK + 1, 2);
        close_disk_queue(s);
    }
}

static const struct { rp_disk_queue_operation operation; int number; const char *text; } faults[] = {
    { RP_DISK_QUEUE_WRITE, ENOSPC, "cannot write 73728 bytes of offloaded slots under '%s': No space left on device" },
    { RP_DISK_QUEUE_WRITE, EIO,    "cannot write 73728 bytes of offloaded slots under '%s': Input/output error" },
    { RP_DISK_QUEUE_READ,  EIO,    "cannot read 73728 bytes of offloaded slots under '%s': Input/output error" },
    { RP_DISK_QUEUE_READ,  EBADMSG, "cannot read 73728 bytes of offloaded slots under '%s': Bad message" },
};

/* From the call that may have met it on, all calls give the sentence; what is left to do is to drop and close. */
static void each_fault_is_an_error_that_says_what_where_and_why(void **state)
{
    (void)state;
    enum { BYTES = 9 * CHUNK };
    char text[RP_ERROR_CHARS];

    for (int64_t after = 0; after < 12; after++) {
        for (int i = 0; i < RP_COUNT(faults); i++) {
            rp_disk_queue *s    = open_disk_queue();
            int64_t ticket = put(s, BYTES, 1), second = -1;
            assert_ok(ctx, rp__disk_queue_wait(s, ticket));
            rp__disk_queue_fail(s, faults[i].operation, after, 1, faults[i].number);
            rp_status status = RP_OK;
            for (int round = 0; round < 3 && status == RP_OK; round++) {
                memset(data, 7, BYTES);
                status = rp__disk_queue_write(s, data, BYTES, &second);
                if (status == RP_OK) status = rp__disk_queue_read(s, second, back);
                if (status == RP_OK) status = rp__disk_queue_wait(s, second);
            }
            assert_int_equal(status, RP_ERR_IO);
            snprintf(text, sizeof text, faults[i].text, temp_dir);
            assert_string_equal(rp_error(ctx), text);
            int64_t untouched = -5;
            assert_int_equal(rp__disk_queue_write(s, data, 1, &untouched), RP_ERR_IO);
            assert_int_equal(untouched, -5);
            assert_int_equal(rp__disk_queue_read(s, ticket, back), RP_ERR_IO);
            assert_int_equal(rp__disk_queue_wait(s, ticket), RP_ERR_IO);
            assert_string_equal(rp_error(ctx), text);
            rp__disk_queue_drop(s, ticket);
            close_disk_queue(s);
        }
    }
}

static void flush_reports_every_write_before_it(void **state)
{
    (void)state;
    for (int64_t after = 0; after < 4; after++) {
        rp_disk_queue *s = open_disk_queue();
        for (uint32_t i = 0; i < 4; i++) put(s, 1000, i);
        assert_ok(ctx, rp__disk_queue_flush(s));
        rp__disk_queue_fail(s, RP_DISK_QUEUE_WRITE, after, 1, ENOSPC);
        for (int i = 0; i < 4; i++) {
            int64_t ticket;
            if (rp__disk_queue_write(s, data, 1000, &ticket) != RP_OK) break;
        }
        assert_int_equal(rp__disk_queue_flush(s), RP_ERR_IO);
        assert_int_equal(rp__disk_queue_flush(s), RP_ERR_IO);
        close_disk_queue(s);
    }
}

static void reserved_tickets_take_no_more_memory(void **state)
{
    (void)state;
    rp_disk_queue *s = open_disk_queue();
    int64_t ticket[500];

    assert_ok(ctx, rp__disk_queue_reserve(s, RP_COUNT(ticket)));
    int64_t before = ctx->alloc_count;
    for (int i = 0; i < RP_COUNT(ticket); i++) ticket[i] = put(s, 100 + i, (uint32_t)i);
    for (int i = 0; i < RP_COUNT(ticket); i += 2) rp__disk_queue_drop(s, ticket[i]);
    for (int i = 0; i < RP_COUNT(ticket); i += 2) ticket[i] = put(s, 5000, (uint32_t)i);
    for (int i = 1; i < RP_COUNT(ticket); i += 2) get(s, ticket[i], 100 + i, (uint32_t)i);
    assert_int_equal(ctx->alloc_count, before);
    close_disk_queue(s);
}

static void a_failed_write_is_reported_at_the_latest_when_its_ticket_is_waited_for(void **state)
{
    (void)state;
    rp_disk_queue *s = open_disk_queue();
    int64_t ticket;

    rp__disk_queue_fail(s, RP_DISK_QUEUE_WRITE, 0, 1, ENOSPC);
    fill_bytes(data, 100, 1);
    assert_ok(ctx, rp__disk_queue_write(s, data, 100, &ticket));
    assert_int_equal(rp__disk_queue_wait(s, ticket), RP_ERR_IO);
    close_disk_queue(s);
}

/* The limit on file sizes acts like a full disk. Its signal reaches nobody. */
static void a_file_that_may_not_grow_is_an_error_and_no_signal(void **state)
{
    (void)state;
    static const rlim_t limits[] = { 0, 4096, 3 * CHUNK, 5 * CHUNK + 1000 };
    struct rlimit old;

    getrlimit(RLIMIT_FSIZE, &old);
    for (int i = 0; i < RP_COUNT(limits); i++) {
        rp_disk_queue *s    = open_disk_queue();
        int64_t ticket = -1;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limits[i], old.rlim_max }), 0);
        memset(data, 1, sizeof data);
        rp_status status = rp__disk_queue_write(s, data, 8 * CHUNK, &ticket);
        if (status == RP_OK) status = rp__disk_queue_wait(s, ticket);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, RP_ERR_IO);
        assert_non_null(strstr(rp_error(ctx), "cannot write 65536 bytes of offloaded slots under '"));
        assert_non_null(strstr(rp_error(ctx), "File too large"));
        close_disk_queue(s);
    }
}

static void a_folder_that_is_none_is_refused_with_the_reason(void **state)
{
    (void)state;
    rp_disk_queue *s = NULL;
    char text[RP_ERROR_CHARS];

    assert_int_equal(rp__disk_queue_open(ctx, "/no/such", BUFFER, &s), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot make a file for offloaded slots under '/no/such': No such file or directory");
    assert_int_equal(rp__disk_queue_open(ctx, "", BUFFER, &s), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot make a file for offloaded slots under '': No such file or directory");
    assert_ok(ctx, rp__file_write(ctx, temp_path("file"), "x", 1));
    assert_int_equal(rp__disk_queue_open(ctx, temp_path("file"), BUFFER, &s), RP_ERR_IO);
    snprintf(text, sizeof text, "cannot make a file for offloaded slots under '%s': Not a directory", temp_path("file"));
    assert_string_equal(rp_error(ctx), text);
    assert_null(s);
    assert_int_equal(unlink(temp_path("file")), 0);
    close_disk_queue(s);
}

static void a_buffer_of_absurd_size_is_refused_and_odd_ones_are_rounded_down(void **state)
{
    (void)state;
    static const int64_t absurd[] = { INT64_MIN, -1, 0, 4096, 8191, (INT64_C(1) << 34) + 1, INT64_MAX };
    static const struct { int64_t asked, taken; } fine[] = { { 8192, 8192 }, { 8193, 8192 }, { 5 * 4096 + 7, 5 * 4096 },
                                                             { 17 * 4096, 16 * 4096 }, { 1000000, 8 * 30 * 4096 } };
    rp_disk_queue *s = NULL;

    for (int i = 0; i < RP_COUNT(absurd); i++) assert_int_equal(rp__disk_queue_open(ctx, temp_dir, absurd[i], &s), RP_ERR_ARG);
    assert_null(s);
    for (int i = 0; i < RP_COUNT(fine); i++) {
        assert_ok(ctx, rp__disk_queue_open(ctx, temp_dir, fine[i].asked, &s));
        assert_int_equal(live_bytes(ctx, ctx->host), fine[i].taken + 4096);
        get(s, put(s, MOST - 1, 3), MOST - 1, 3);
        close_disk_queue(s);
    }
}

static rp_status open_and_fill(rp_disk_queue **s)
{
    int64_t ticket;

    rp_status status = rp__disk_queue_open(ctx, temp_dir, BUFFER, s);
    for (int i = 0; i < 200 && status == RP_OK; i++) status = rp__disk_queue_write(*s, data, 5000, &ticket);
    return status;
}

static void close_if_any(rp_disk_queue **s)
{
    close_disk_queue(*s);
    *s = NULL;
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    rp_disk_queue *s = NULL;

    until_no_fault_fires(ctx, open_and_fill(&s), close_if_any(&s));
    close_disk_queue(s);
}

static void the_memory_limit_bounds_the_buffer_too(void **state)
{
    (void)state;
    rp_ctx *small = test_ctx(&(rp_ctx_options){ .threads = 1, .memory_limit_bytes = BUFFER });
    rp_disk_queue *s   = NULL;

    assert_int_equal(rp__disk_queue_open(small, temp_dir, BUFFER, &s), RP_ERR_MEMORY);
    assert_null(s);
    assert_non_null(strstr(rp_error(small), "the offload buffer needs"));
    test_ctx_free(small);
    assert_int_equal(n_open_files(), files_before);
}

static volatile sig_atomic_t n_signals;
static void take_signal(int number) { n_signals += number == SIGUSR1; }

static void signals_are_the_callers(void **state)
{
    (void)state;
    sigset_t one, old;
    rp_disk_queue *s = open_disk_queue();

    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    signal(SIGUSR1, take_signal);
    pthread_sigmask(SIG_BLOCK, &one, &old);
    kill(getpid(), SIGUSR1);
    get(s, put(s, MOST - 1, 1), MOST - 1, 1);
    assert_int_equal(n_signals, 0);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    assert_int_equal(n_signals, 1);
    n_signals = 0;
    close_disk_queue(s);
}

/* ---- kernels and file systems that can less ---- */

/* From here on one call of the kernel fails for this process: always, or where its third argument has one of the bits of `flag`. */
static bool forbid(int call, unsigned flag, int number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | (flag ? BPF_JSET : BPF_JGE) | BPF_K, flag, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)number),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { .len = RP_COUNT(code), .filter = code };

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

enum { FINE, WRONG, CANNOT_FORBID };

/* Bytes go through a disk queue, in a folder that stays empty. */
static int use_disk_queue_without(int call, unsigned flag, int number, const char *how)
{
    rp_disk_queue *s = NULL;
    int64_t ticket;

    if (!forbid(call, flag, number)) return CANNOT_FORBID;
    fill_bytes(data, MOST, 5);
    if (rp__disk_queue_open(ctx, temp_dir, BUFFER, &s) != RP_OK || (how && strcmp(rp__disk_queue_how(s), how))) return WRONG;
    if (rp__disk_queue_write(s, data, MOST, &ticket) != RP_OK || rp__disk_queue_read(s, ticket, back) != RP_OK) return WRONG;
    if (rp__disk_queue_wait(s, ticket) != RP_OK || memcmp(data, back, MOST) || n_files_in(temp_dir)) return WRONG;
    rp__disk_queue_close(s);
    return live_bytes(ctx, ctx->host) ? WRONG : FINE;
}

static void assert_works_without(int call, unsigned flag, int number, const char *how)
{
    int result  = -1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) _exit(use_disk_queue_without(call, flag, number, how));
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    if (WEXITSTATUS(result) == CANNOT_FORBID) skip();
    assert_int_equal(WEXITSTATUS(result), FINE);
}

static void a_kernel_that_forbids_io_uring_leaves_the_thread(void **state)
{
    (void)state;
    assert_works_without(__NR_io_uring_setup, 0, EPERM, "thread");
}

/* The ring is there, but takes nothing: what it was to do is done at once, by the same thread. */
static void a_ring_that_takes_nothing_is_done_without(void **state)
{
    (void)state;
    assert_works_without(__NR_io_uring_enter, 0, EBUSY, NULL);
}

static void a_file_system_without_unnamed_files_gets_one_whose_name_is_gone(void **state)
{
    (void)state;
    assert_works_without(__NR_openat, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP, NULL);
}

static void a_file_system_without_direct_io_is_used_through_the_page_cache(void **state)
{
    (void)state;
    assert_works_without(__NR_fcntl, O_DIRECT, EINVAL, NULL);
}

static void the_variable_chooses_the_thread(void **state)
{
    (void)state;
    rp_disk_queue *s = open_disk_queue();

    assert_string_equal(rp__disk_queue_how(s), "thread");
    close_disk_queue(s);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(moves_cut_short_or_interrupted_are_continued),
        BOTH_WAYS(each_fault_is_an_error_that_says_what_where_and_why),
        BOTH_WAYS(flush_reports_every_write_before_it),
        BOTH_WAYS(reserved_tickets_take_no_more_memory),
        BOTH_WAYS(a_failed_write_is_reported_at_the_latest_when_its_ticket_is_waited_for),
        BOTH_WAYS(a_file_that_may_not_grow_is_an_error_and_no_signal),
        BOTH_WAYS(a_folder_that_is_none_is_refused_with_the_reason),
        BOTH_WAYS(a_buffer_of_absurd_size_is_refused_and_odd_ones_are_rounded_down),
        BOTH_WAYS(without_memory_nothing_is_left_behind),
        BOTH_WAYS(the_memory_limit_bounds_the_buffer_too),
        BOTH_WAYS(signals_are_the_callers),
        BOTH_WAYS(a_file_system_without_unnamed_files_gets_one_whose_name_is_gone),
        BOTH_WAYS(a_file_system_without_direct_io_is_used_through_the_page_cache),
        WITH(use_what_there_is, a_kernel_that_forbids_io_uring_leaves_the_thread),
        WITH(use_what_there_is, a_ring_that_takes_nothing_is_done_without),
        WITH(use_thread, the_variable_chooses_the_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return run_disk_queue_tests(run); }
