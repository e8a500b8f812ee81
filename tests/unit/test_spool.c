/* Claims about the spool: bytes come back, memory stays what it was, faults are told and leave nothing. All of it with io_uring, where it
 * can be had, and with the plain thread. */
#include "spool_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/spool.h"

enum { BUFFER = 65536, CHUNK = BUFFER / 8, MOST = 10 * CHUNK + 77 };

static rp_ctx *ctx;
static int files_before, threads_before;
static uint8_t data[MOST], back[MOST];

static rp_spool *open_spool(void)
{
    rp_spool *s = NULL;

    assert_ok(ctx, rp__spool_open(ctx, temp_dir, BUFFER, &s));
    return s;
}

/* Nothing of it is left: no memory, no file, no descriptor, no thread. */
static void close_spool(rp_spool *s)
{
    rp__spool_close(s);
    assert_int_equal(live_bytes(ctx, 0), 0);
    assert_int_equal(n_files_in(temp_dir), 0);
    assert_int_equal(n_open_files(), files_before);
    assert_threads(threads_before);
}

/* What was written may be overwritten at once. */
static int64_t put(rp_spool *s, int64_t bytes, uint32_t seed)
{
    int64_t ticket;

    fill_bytes(data, bytes, seed);
    assert_ok(ctx, rp__spool_write(s, data, bytes, &ticket));
    memset(data, 0xee, (size_t)bytes);
    return ticket;
}

static void assert_back(int64_t bytes, uint32_t seed)
{
    fill_bytes(data, bytes, seed);
    assert_memory_equal(back, data, (size_t)bytes);
    assert_int_equal(back[bytes], 0x11);        /* and nothing beyond */
}

static void get(rp_spool *s, int64_t ticket, int64_t bytes, uint32_t seed)
{
    memset(back, 0x11, sizeof back);
    assert_int_equal(rp__spool_bytes(s, ticket), bytes);
    assert_ok(ctx, rp__spool_read(s, ticket, back));
    assert_ok(ctx, rp__spool_wait(s, ticket));
    assert_back(bytes, seed);
}

static const int64_t sizes[] = { 0, 1, 2, 511, 4095, 4096, 4097, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 10 * CHUNK, MOST - 1 };

static void contents_come_back_bit_for_bit_in_any_order_and_size(void **state)
{
    (void)state;
    rp_spool *s = open_spool();
    int64_t ticket[RP_COUNT(sizes)], total = 0;
    rp_spool_counts counts;

    for (int i = 0; i < RP_COUNT(sizes); i++) {
        ticket[i] = put(s, sizes[i], (uint32_t)i);
        total += sizes[i];
    }
    for (int i = RP_COUNT(sizes) - 1; i >= 0; i--) get(s, ticket[i], sizes[i], (uint32_t)i);
    for (int i = 0; i < RP_COUNT(sizes); i++) {
        int j = i * 5 % RP_COUNT(sizes);
        get(s, ticket[j], sizes[j], (uint32_t)j);
    }
    rp__spool_count(s, &counts);
    assert_int_equal(counts.written_bytes, total);
    assert_int_equal(counts.read_bytes, 2 * total);
    assert_true(counts.file_bytes >= total && counts.file_bytes < total + RP_COUNT(sizes) * 4096);
    for (int i = 0; i < RP_COUNT(sizes); i++) rp__spool_drop(s, ticket[i]);
    close_spool(s);
}

static void a_read_right_behind_its_write_gets_what_was_written(void **state)
{
    (void)state;
    rp_spool *s = open_spool();

    for (uint32_t i = 0; i < 200; i++) {
        int64_t bytes = 1 + i * 401 % (MOST - 1), ticket = put(s, bytes, i);
        get(s, ticket, bytes, i);
        rp__spool_drop(s, ticket);
    }
    close_spool(s);
}

static void several_reads_under_way_each_find_their_place(void **state)
{
    (void)state;
    enum { N = 40, BYTES = 2 * CHUNK + 9 };
    static uint8_t into[N][BYTES];
    rp_spool *s = open_spool();
    int64_t ticket[N];

    for (uint32_t i = 0; i < N; i++) ticket[i] = put(s, BYTES, i);
    for (int i = 0; i < N; i++) assert_ok(ctx, rp__spool_read(s, ticket[i], into[i]));
    for (int i = 0; i < N; i += 7) rp__spool_drop(s, ticket[i]);        /* one that nobody waits for any more */
    for (int i = N - 1; i >= 0; i--) {
        if (i % 7 == 0) continue;
        assert_ok(ctx, rp__spool_wait(s, ticket[i]));
        fill_bytes(data, BYTES, (uint32_t)i);
        assert_memory_equal(into[i], data, BYTES);
    }
    close_spool(s);
}

static void count_event(void *user, const rp_mem_event *event)
{
    (void)event;
    ++*(int *)user;
}

static void the_ledger_moves_at_open_and_close_alone(void **state)
{
    (void)state;
    int n_events = 0;

    rp__mem_observe(ctx->space[0], count_event, &n_events);
    rp_spool *s = open_spool();
    assert_int_equal(n_events, 1);
    assert_int_equal(live_bytes(ctx, 0), BUFFER + 4096);
    for (uint32_t i = 0; i < 300; i++) {
        int64_t ticket = put(s, i * 97, i);
        get(s, ticket, i * 97, i);
        if (i % 3) rp__spool_drop(s, ticket);
    }
    assert_int_equal(n_events, 1);
    close_spool(s);
    assert_int_equal(n_events, 2);
    rp__mem_observe(ctx->space[0], NULL, NULL);
}

static void the_folder_stays_empty_while_the_file_is_in_use(void **state)
{
    (void)state;
    rp_spool *s = open_spool();

    for (uint32_t i = 0; i < 20; i++) put(s, MOST - 1, i);
    assert_int_equal(n_files_in(temp_dir), 0);
    assert_int_equal(rmdir(temp_dir), 0);       /* a name with a leading dot would count as well */
    assert_int_equal(mkdir(temp_dir, 0700), 0);
    close_spool(s);
}

static void steps_that_are_alike_do_not_let_the_file_grow(void **state)
{
    (void)state;
    enum { N = 50 };
    rp_spool *s = open_spool();
    int64_t ticket[N], first_bytes = 0;
    rp_spool_counts counts;

    for (int step = 0; step < 6; step++) {
        for (int i = 0; i < N; i++) ticket[i] = put(s, 1 + i * 977 % CHUNK, (uint32_t)i);
        for (int i = 0; i < N; i++) {
            int j = (i * (2 * step + 3)) % N;           /* 3, 7, 9, 11, 13 have no factor in common with 50; 5 has */
            if (step == 1) j = i;
            get(s, ticket[j], 1 + j * 977 % CHUNK, (uint32_t)j);
            rp__spool_drop(s, ticket[j]);
        }
        rp__spool_count(s, &counts);
        if (step == 0) first_bytes = counts.file_bytes;
        assert_int_equal(counts.file_bytes, first_bytes);
    }
    close_spool(s);
}

static void a_hole_is_used_again_by_what_fits(void **state)
{
    (void)state;
    rp_spool *s = open_spool();
    rp_spool_counts counts;
    int64_t first = put(s, 3 * 4096, 1), last;

    last = put(s, 4096, 2);
    rp__spool_drop(s, first);
    int64_t two = put(s, 2 * 4096, 3), one = put(s, 10, 4);
    rp__spool_count(s, &counts);
    assert_int_equal(counts.file_bytes, 4 * 4096);
    rp__spool_drop(s, one);
    rp__spool_drop(s, two);
    int64_t three = put(s, 3 * 4096 - 1, 5);
    rp__spool_count(s, &counts);
    assert_int_equal(counts.file_bytes, 4 * 4096);
    get(s, three, 3 * 4096 - 1, 5);
    get(s, last, 4096, 2);
    close_spool(s);
}

/* ---- faults ---- */

static void moves_cut_short_or_interrupted_are_continued(void **state)
{
    (void)state;
    static const int numbers[] = { 0, EINTR, EAGAIN, EINVAL };      /* EINVAL: direct I/O that is refused goes through the page cache */

    for (int n = 0; n < RP_COUNT(numbers); n++) {
        rp_spool *s   = open_spool();
        int64_t times = numbers[n] == EINVAL ? 1 : 40;
        rp__spool_fail(s, RP_SPOOL_WRITE, 2, times, numbers[n]);
        int64_t a = put(s, MOST - 1, 1), b = put(s, CHUNK + 1, 2);
        assert_ok(ctx, rp__spool_wait(s, b));
        rp__spool_fail(s, RP_SPOOL_READ, 1, numbers[n] == EINVAL ? 0 : times, numbers[n]);
        get(s, b, CHUNK + 1, 2);
        get(s, a, MOST - 1, 1);
        get(s, b, CHUNK + 1, 2);
        close_spool(s);
    }
}

static const struct { rp_spool_operation operation; int number; const char *text; } faults[] = {
    { RP_SPOOL_WRITE, ENOSPC, "cannot write 73728 bytes of offloaded slots under '%s': No space left on device" },
    { RP_SPOOL_WRITE, EIO,    "cannot write 73728 bytes of offloaded slots under '%s': Input/output error" },
    { RP_SPOOL_READ,  EIO,    "cannot read 73728 bytes of offloaded slots under '%s': Input/output error" },
    { RP_SPOOL_READ,  EBADMSG, "cannot read 73728 bytes of offloaded slots under '%s': Bad message" },
};

/* From the call that may have met it on, all calls give the sentence; what is left to do is to drop and close. */
static void each_fault_is_an_error_that_says_what_where_and_why(void **state)
{
    (void)state;
    enum { BYTES = 9 * CHUNK };
    char text[RP_ERROR_CHARS];

    for (int64_t after = 0; after < 12; after++) {
        for (int i = 0; i < RP_COUNT(faults); i++) {
            rp_spool *s    = open_spool();
            int64_t ticket = put(s, BYTES, 1), second = -1;
            assert_ok(ctx, rp__spool_wait(s, ticket));
            rp__spool_fail(s, faults[i].operation, after, 1, faults[i].number);
            rp_status status = RP_OK;
            for (int round = 0; round < 3 && status == RP_OK; round++) {
                memset(data, 7, BYTES);
                status = rp__spool_write(s, data, BYTES, &second);
                if (status == RP_OK) status = rp__spool_read(s, second, back);
                if (status == RP_OK) status = rp__spool_wait(s, second);
            }
            assert_int_equal(status, RP_ERR_IO);
            snprintf(text, sizeof text, faults[i].text, temp_dir);
            assert_string_equal(rp_error(ctx), text);
            int64_t untouched = -5;
            assert_int_equal(rp__spool_write(s, data, 1, &untouched), RP_ERR_IO);
            assert_int_equal(untouched, -5);
            assert_int_equal(rp__spool_read(s, ticket, back), RP_ERR_IO);
            assert_int_equal(rp__spool_wait(s, ticket), RP_ERR_IO);
            assert_string_equal(rp_error(ctx), text);
            rp__spool_drop(s, ticket);
            close_spool(s);
        }
    }
}

static void a_failed_write_is_told_at_the_latest_when_its_ticket_is_waited_for(void **state)
{
    (void)state;
    rp_spool *s = open_spool();
    int64_t ticket;

    rp__spool_fail(s, RP_SPOOL_WRITE, 0, 1, ENOSPC);
    fill_bytes(data, 100, 1);
    assert_ok(ctx, rp__spool_write(s, data, 100, &ticket));
    assert_int_equal(rp__spool_wait(s, ticket), RP_ERR_IO);
    close_spool(s);
}

/* The limit on file sizes acts like a full disk. Its signal reaches nobody. */
static void a_file_that_may_not_grow_is_an_error_and_no_signal(void **state)
{
    (void)state;
    static const rlim_t limits[] = { 0, 4096, 3 * CHUNK, 5 * CHUNK + 1000 };
    struct rlimit old;

    getrlimit(RLIMIT_FSIZE, &old);
    for (int i = 0; i < RP_COUNT(limits); i++) {
        rp_spool *s    = open_spool();
        int64_t ticket = -1;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ limits[i], old.rlim_max }), 0);
        memset(data, 1, sizeof data);
        rp_status status = rp__spool_write(s, data, 8 * CHUNK, &ticket);
        if (status == RP_OK) status = rp__spool_wait(s, ticket);
        setrlimit(RLIMIT_FSIZE, &old);
        assert_int_equal(status, RP_ERR_IO);
        assert_non_null(strstr(rp_error(ctx), "cannot write 65536 bytes of offloaded slots under '"));
        assert_non_null(strstr(rp_error(ctx), "File too large"));
        close_spool(s);
    }
}

static void a_folder_that_is_none_is_refused_with_the_reason(void **state)
{
    (void)state;
    rp_spool *s = NULL;
    char text[RP_ERROR_CHARS];

    assert_int_equal(rp__spool_open(ctx, "/no/such", BUFFER, &s), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot make a file for offloaded slots under '/no/such': No such file or directory");
    assert_int_equal(rp__spool_open(ctx, "", BUFFER, &s), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot make a file for offloaded slots under '': No such file or directory");
    assert_ok(ctx, rp__file_write(ctx, temp_path("file"), "x", 1));
    assert_int_equal(rp__spool_open(ctx, temp_path("file"), BUFFER, &s), RP_ERR_IO);
    snprintf(text, sizeof text, "cannot make a file for offloaded slots under '%s': Not a directory", temp_path("file"));
    assert_string_equal(rp_error(ctx), text);
    assert_null(s);
    assert_int_equal(unlink(temp_path("file")), 0);
    close_spool(s);
}

static void a_buffer_of_absurd_size_is_refused_and_odd_ones_are_rounded_down(void **state)
{
    (void)state;
    static const int64_t absurd[] = { INT64_MIN, -1, 0, 4096, 8191, (INT64_C(1) << 34) + 1, INT64_MAX };
    static const struct { int64_t asked, taken; } fine[] = { { 8192, 8192 }, { 8193, 8192 }, { 5 * 4096 + 7, 5 * 4096 },
                                                             { 17 * 4096, 16 * 4096 }, { 1000000, 8 * 30 * 4096 } };
    rp_spool *s = NULL;

    for (int i = 0; i < RP_COUNT(absurd); i++) assert_int_equal(rp__spool_open(ctx, temp_dir, absurd[i], &s), RP_ERR_ARG);
    assert_null(s);
    for (int i = 0; i < RP_COUNT(fine); i++) {
        assert_ok(ctx, rp__spool_open(ctx, temp_dir, fine[i].asked, &s));
        assert_int_equal(live_bytes(ctx, 0), fine[i].taken + 4096);
        get(s, put(s, MOST - 1, 3), MOST - 1, 3);
        close_spool(s);
    }
}

static rp_status open_and_fill(rp_spool **s)
{
    int64_t ticket;

    rp_status status = rp__spool_open(ctx, temp_dir, BUFFER, s);
    for (int i = 0; i < 200 && status == RP_OK; i++) status = rp__spool_write(*s, data, 5000, &ticket);
    return status;
}

static void close_if_any(rp_spool **s)
{
    close_spool(*s);
    *s = NULL;
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    rp_spool *s = NULL;

    until_no_fault_fires(ctx, open_and_fill(&s), close_if_any(&s));
    close_spool(s);
}

static void the_memory_limit_bounds_the_buffer_too(void **state)
{
    (void)state;
    rp_ctx *small = test_ctx(&(rp_ctx_options){ .threads = 1, .memory_limit_bytes = BUFFER });
    rp_spool *s   = NULL;

    assert_int_equal(rp__spool_open(small, temp_dir, BUFFER, &s), RP_ERR_MEMORY);
    assert_null(s);
    assert_non_null(strstr(rp_error(small), "the buffer of offloading needs"));
    test_ctx_free(small);
    assert_int_equal(n_open_files(), files_before);
}

/* ---- traffic ---- */

static void thousands_of_random_writes_reads_and_drops_match_a_shadow_copy(void **state)
{
    (void)state;
    enum { N = 48, ROUNDS = 20000 };
    static uint8_t into[N][MOST];
    struct { bool live, reading; int64_t ticket, bytes; uint32_t seed; } t[N] = { 0 };
    rp_spool *s = open_spool();
    uint32_t rng = 42;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        int i = (int)(draw(&rng) % N);
        if (round % 64 == 0) rp__spool_fail(s, round % 128 ? RP_SPOOL_READ : RP_SPOOL_WRITE, draw(&rng) % 8, 3, round % 192 ? 0 : EINTR);
        if (!t[i].live) {
            t[i].seed   = draw(&rng);
            t[i].bytes  = draw(&rng) % (draw(&rng) % 8 ? 3000 : MOST);
            t[i].ticket = put(s, t[i].bytes, t[i].seed);
            t[i].live   = true;
        } else if (!t[i].reading && draw(&rng) % 4) {
            assert_ok(ctx, rp__spool_read(s, t[i].ticket, into[i]));
            t[i].reading = true;
        } else if (draw(&rng) % 4) {
            assert_ok(ctx, rp__spool_wait(s, t[i].ticket));
            fill_bytes(data, t[i].bytes, t[i].seed);
            if (t[i].reading) assert_memory_equal(into[i], data, (size_t)t[i].bytes);
            t[i].reading = false;
        } else {
            rp__spool_drop(s, t[i].ticket);
            t[i].live = t[i].reading = false;
        }
    }
    close_spool(s);         /* with what is under way */
}

static void closing_leaves_queued_work_undone(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        rp_spool *s = open_spool();
        put(s, CHUNK, 9);
        int64_t ticket = put(s, (int64_t)i * 1000, i);
        if (i % 2) assert_ok(ctx, rp__spool_read(s, ticket, back));
        close_spool(s);
    }
}

static volatile sig_atomic_t n_signals;
static void take_signal(int number) { n_signals += number == SIGUSR1; }

static void signals_are_the_callers(void **state)
{
    (void)state;
    sigset_t one, old;
    rp_spool *s = open_spool();

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
    close_spool(s);
}

/* ---- other surroundings ---- */

static void on_shapes_alone_the_ledger_and_the_counts_are_the_same(void **state)
{
    (void)state;
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_spool *real = open_spool(), *s = NULL;
    rp_spool_counts a, b;
    int64_t ticket[RP_COUNT(sizes)], files = n_open_files(), threads = n_files_in("/proc/self/task");

    assert_ok(shapes, rp__spool_open(shapes, "/no/such", BUFFER, &s));
    assert_string_equal(rp__spool_how(s), "shapes");
    assert_int_equal(live_bytes(shapes, 0), live_bytes(ctx, 0));
    assert_int_equal(n_open_files(), files);
    assert_int_equal(n_files_in("/proc/self/task"), threads);
    for (int i = 0; i < RP_COUNT(sizes); i++) {
        assert_ok(shapes, rp__spool_write(s, NULL, sizes[i], &ticket[i]));
        assert_int_equal(put(real, sizes[i], 1), ticket[i]);
        if (i % 3 == 0) continue;
        get(real, ticket[i], sizes[i], 1);
        assert_ok(shapes, rp__spool_read(s, ticket[i], NULL));
        assert_ok(shapes, rp__spool_wait(s, ticket[i]));
        rp__spool_drop(real, ticket[i]);
        rp__spool_drop(s, ticket[i]);
    }
    rp__spool_count(real, &a);
    rp__spool_count(s, &b);
    assert_memory_equal(&a, &b, sizeof a);
    rp__spool_close(s);
    test_ctx_free(shapes);
    close_spool(real);
}

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

/* Bytes go through a spool, in a folder that stays empty. */
static int use_spool_without(int call, unsigned flag, int number, const char *how)
{
    rp_spool *s = NULL;
    int64_t ticket;

    if (!forbid(call, flag, number)) return CANNOT_FORBID;
    fill_bytes(data, MOST, 5);
    if (rp__spool_open(ctx, temp_dir, BUFFER, &s) != RP_OK || (how && strcmp(rp__spool_how(s), how))) return WRONG;
    if (rp__spool_write(s, data, MOST, &ticket) != RP_OK || rp__spool_read(s, ticket, back) != RP_OK) return WRONG;
    if (rp__spool_wait(s, ticket) != RP_OK || memcmp(data, back, MOST) || n_files_in(temp_dir)) return WRONG;
    rp__spool_close(s);
    return live_bytes(ctx, 0) ? WRONG : FINE;
}

static void assert_works_without(int call, unsigned flag, int number, const char *how)
{
    int result  = -1;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) _exit(use_spool_without(call, flag, number, how));
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

/* ---- both ways ---- */

static int use_thread(void **state)
{
    (void)state;
    return setenv("REPRISE_IO", "thread", 1);
}

static int use_what_there_is(void **state)
{
    (void)state;
    return unsetenv("REPRISE_IO");
}

static void the_variable_chooses_the_thread(void **state)
{
    (void)state;
    rp_spool *s = open_spool();

    assert_string_equal(rp__spool_how(s), "thread");
    close_spool(s);
}

#define BOTH_WAYS(test) \
    { #test " [any]", test, use_what_there_is, NULL, NULL }, { #test " [thread]", test, use_thread, NULL, NULL }

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(contents_come_back_bit_for_bit_in_any_order_and_size),
        BOTH_WAYS(a_read_right_behind_its_write_gets_what_was_written),
        BOTH_WAYS(several_reads_under_way_each_find_their_place),
        BOTH_WAYS(the_ledger_moves_at_open_and_close_alone),
        BOTH_WAYS(the_folder_stays_empty_while_the_file_is_in_use),
        BOTH_WAYS(steps_that_are_alike_do_not_let_the_file_grow),
        BOTH_WAYS(a_hole_is_used_again_by_what_fits),
        BOTH_WAYS(moves_cut_short_or_interrupted_are_continued),
        BOTH_WAYS(each_fault_is_an_error_that_says_what_where_and_why),
        BOTH_WAYS(a_failed_write_is_told_at_the_latest_when_its_ticket_is_waited_for),
        BOTH_WAYS(a_file_that_may_not_grow_is_an_error_and_no_signal),
        BOTH_WAYS(a_folder_that_is_none_is_refused_with_the_reason),
        BOTH_WAYS(a_buffer_of_absurd_size_is_refused_and_odd_ones_are_rounded_down),
        BOTH_WAYS(without_memory_nothing_is_left_behind),
        BOTH_WAYS(the_memory_limit_bounds_the_buffer_too),
        BOTH_WAYS(thousands_of_random_writes_reads_and_drops_match_a_shadow_copy),
        BOTH_WAYS(closing_leaves_queued_work_undone),
        BOTH_WAYS(signals_are_the_callers),
        BOTH_WAYS(on_shapes_alone_the_ledger_and_the_counts_are_the_same),
        BOTH_WAYS(a_file_system_without_unnamed_files_gets_one_whose_name_is_gone),
        BOTH_WAYS(a_file_system_without_direct_io_is_used_through_the_page_cache),
        { "a_kernel_that_forbids_io_uring_leaves_the_thread", a_kernel_that_forbids_io_uring_leaves_the_thread, use_what_there_is, NULL, NULL },
        { "a_ring_that_takes_nothing_is_done_without", a_ring_that_takes_nothing_is_done_without, use_what_there_is, NULL, NULL },
        { "the_variable_chooses_the_thread", the_variable_chooses_the_thread, use_thread, NULL, NULL },
    };

    ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    temp_enter();
    files_before   = n_open_files();
    threads_before = n_files_in("/proc/self/task");
    int failed     = cmocka_run_group_tests(tests, NULL, NULL);
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}
