/* Claims about the disk queue: it returns the bytes that were written, and memory and the file stay the same. Each claim runs with io_uring, if it is
 * available, and with the thread. */
/* ctest: device-free host-memory */
#include "spool_use.h"

#include <errno.h>
#include <sys/stat.h>

static const int64_t sizes[] = { 0, 1, 2, 511, 4095, 4096, 4097, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5, 10 * CHUNK, MOST - 1 };


static void contents_come_back_bit_for_bit_in_any_order_and_size(void **state)
{
    (void)state;
    rp_disk_queue *s = open_disk_queue();
    int64_t ticket[RP_COUNT(sizes)], total = 0;
    rp_disk_queue_counts counts;

    for (int i = 0; i < RP_COUNT(sizes); i++) {
        ticket[i] = put(s, sizes[i], (uint32_t)i);
        total += sizes[i];
    }
    for (int i = RP_COUNT(sizes) - 1; i >= 0; i--) get(s, ticket[i], sizes[i], (uint32_t)i);
    for (int i = 0; i < RP_COUNT(sizes); i++) {
        int j = i * 5 % RP_COUNT(sizes);
        get(s, ticket[j], sizes[j], (uint32_t)j);
    }
    rp__disk_queue_count(s, &counts);
    assert_int_equal(counts.written_bytes, total);
    assert_int_equal(counts.read_bytes, 2 * total);
    assert_true(counts.file_bytes >= total && counts.file_bytes < total + RP_COUNT(sizes) * 4096);
    for (int i = 0; i < RP_COUNT(sizes); i++) rp__disk_queue_drop(s, ticket[i]);
    close_disk_queue(s);
}

static void a_read_right_behind_its_write_gets_what_was_written(void **state)
{
    (void)state;
    rp_disk_queue *s = open_disk_queue();

    for (uint32_t i = 0; i < 200; i++) {
        int64_t bytes = 1 + i * 401 % (MOST - 1), ticket = put(s, bytes, i);
        get(s, ticket, bytes, i);
        rp__disk_queue_drop(s, ticket);
    }
    close_disk_queue(s);
}

static void several_reads_under_way_each_find_their_place(void **state)
{
    (void)state;
    enum { N = 40, BYTES = 2 * CHUNK + 9 };
    static uint8_t into[N][BYTES];
    rp_disk_queue *s = open_disk_queue();
    int64_t ticket[N];

    for (uint32_t i = 0; i < N; i++) ticket[i] = put(s, BYTES, i);
    for (int i = 0; i < N; i++) assert_ok(ctx, rp__disk_queue_read(s, ticket[i], into[i]));
    for (int i = 0; i < N; i += 7) rp__disk_queue_drop(s, ticket[i]);        /* one that nobody waits for any more */
    for (int i = N - 1; i >= 0; i--) {
        if (i % 7 == 0) continue;
        assert_ok(ctx, rp__disk_queue_wait(s, ticket[i]));
        fill_bytes(data, BYTES, (uint32_t)i);
        assert_memory_equal(into[i], data, BYTES);
    }
    close_disk_queue(s);
}

static void count_event(void *user, const rp_mem_event *event)
{
    (void)event;
    ++*(int *)user;
}

static void the_ledger_moves_at_open_and_close_alone(void **state)
{
    (void)state;
    static int n_events;        /* a test that fails leaves the observer behind */

    n_events = 0;
    rp__mem_observe(ctx->space[ctx->host], count_event, &n_events);
    rp_disk_queue *s = open_disk_queue();
    assert_int_equal(n_events, 1);
    assert_int_equal(live_bytes(ctx, ctx->host), BUFFER + 4096);
    for (uint32_t i = 0; i < 300; i++) {
        int64_t ticket = put(s, i * 97, i);
        get(s, ticket, i * 97, i);
        if (i % 3) rp__disk_queue_drop(s, ticket);
    }
    assert_int_equal(n_events, 1);
    close_disk_queue(s);
    assert_int_equal(n_events, 2);
    rp__mem_observe(ctx->space[ctx->host], NULL, NULL);
}

static void the_folder_stays_empty_while_the_file_is_in_use(void **state)
{
    (void)state;
    rp_disk_queue *s = open_disk_queue();

    for (uint32_t i = 0; i < 20; i++) put(s, MOST - 1, i);
    assert_int_equal(n_files_in(temp_dir), 0);
    assert_int_equal(rmdir(temp_dir), 0);       /* a name with a leading dot would count as well */
    assert_int_equal(mkdir(temp_dir, 0700), 0);
    close_disk_queue(s);
}

static void steps_that_are_alike_do_not_let_the_file_grow(void **state)
{
    (void)state;
    enum { N = 50 };
    rp_disk_queue *s = open_disk_queue();
    int64_t ticket[N], first_bytes = 0;
    rp_disk_queue_counts counts;

    for (int step = 0; step < 6; step++) {
        for (int i = 0; i < N; i++) ticket[i] = put(s, 1 + i * 977 % CHUNK, (uint32_t)i);
        for (int i = 0; i < N; i++) {
            int j = (i * (2 * step + 3)) % N;           /* 3, 7, 9, 11, 13 have no factor in common with 50; 5 has */
            if (step == 1) j = i;
            get(s, ticket[j], 1 + j * 977 % CHUNK, (uint32_t)j);
            rp__disk_queue_drop(s, ticket[j]);
        }
        rp__disk_queue_count(s, &counts);
        if (step == 0) first_bytes = counts.file_bytes;
        assert_int_equal(counts.file_bytes, first_bytes);
    }
    close_disk_queue(s);
}

static void holes_join_in_either_order_and_are_used_again_by_what_fits(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        rp_disk_queue *s = open_disk_queue();
        rp_disk_queue_counts counts;
        int64_t first = put(s, 3 * 4096, 1), last = put(s, 4096, 2);
        rp__disk_queue_drop(s, first);
        int64_t part[] = { put(s, 2 * 4096, 3), put(s, 10, 4) };
        rp__disk_queue_count(s, &counts);
        assert_int_equal(counts.file_bytes, 4 * 4096);
        rp__disk_queue_drop(s, part[order]);
        rp__disk_queue_drop(s, part[1 - order]);
        int64_t three = put(s, 3 * 4096 - 1, 5);
        rp__disk_queue_count(s, &counts);
        assert_int_equal(counts.file_bytes, 4 * 4096);
        get(s, three, 3 * 4096 - 1, 5);
        get(s, last, 4096, 2);
        rp__disk_queue_drop(s, three);
        rp__disk_queue_drop(s, last);
        put(s, 5 * 4096, 6);
        rp__disk_queue_count(s, &counts);
        assert_int_equal(counts.file_bytes, 5 * 4096);
        close_disk_queue(s);
    }
}

/* ---- traffic ---- */

static void thousands_of_random_writes_reads_and_drops_match_a_shadow_copy(void **state)
{
    (void)state;
    enum { N = 48, ROUNDS = 20000 };
    static uint8_t into[N][MOST];
    struct { bool live, reading; int64_t ticket, bytes; uint32_t seed; } t[N] = { 0 };
    rp_disk_queue *s = open_disk_queue();
    uint32_t rng = 42;

    for (uint32_t round = 0; round < ROUNDS; round++) {
        int i = (int)(draw(&rng) % N);
        if (round % 64 == 0) rp__disk_queue_fail(s, round % 128 ? RP_DISK_QUEUE_READ : RP_DISK_QUEUE_WRITE, draw(&rng) % 8, 3, round % 192 ? 0 : EINTR);
        if (!t[i].live) {
            t[i].seed   = draw(&rng);
            t[i].bytes  = draw(&rng) % (draw(&rng) % 8 ? 3000 : MOST);
            t[i].ticket = put(s, t[i].bytes, t[i].seed);
            t[i].live   = true;
        } else if (!t[i].reading && draw(&rng) % 4) {
            assert_ok(ctx, rp__disk_queue_read(s, t[i].ticket, into[i]));
            t[i].reading = true;
        } else if (draw(&rng) % 4) {
            assert_ok(ctx, rp__disk_queue_wait(s, t[i].ticket));
            fill_bytes(data, t[i].bytes, t[i].seed);
            if (t[i].reading) assert_memory_equal(into[i], data, (size_t)t[i].bytes);
            t[i].reading = false;
        } else {
            rp__disk_queue_drop(s, t[i].ticket);
            t[i].live = t[i].reading = false;
        }
    }
    close_disk_queue(s);         /* with what is under way */
}

static void closing_with_work_under_way_leaves_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 50; i++) {
        rp_disk_queue *s = open_disk_queue();
        put(s, CHUNK, 9);
        int64_t ticket = put(s, (int64_t)i * 1000, i);
        if (i % 2) assert_ok(ctx, rp__disk_queue_read(s, ticket, back));
        close_disk_queue(s);
    }
}

/* ---- other surroundings ---- */

static void on_shapes_alone_the_ledger_and_the_counts_are_the_same(void **state)
{
    (void)state;
    rp_ctx *shapes = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true });
    rp_disk_queue *real = open_disk_queue(), *s = NULL;
    rp_disk_queue_counts a, b;
    int64_t ticket[RP_COUNT(sizes)], files = n_open_files(), threads = n_files_in("/proc/self/task");

    assert_ok(shapes, rp__disk_queue_open(shapes, "/no/such", BUFFER, &s));
    assert_string_equal(rp__disk_queue_how(s), "shapes");
    assert_int_equal(live_bytes(shapes, 0), live_bytes(ctx, ctx->host));
    assert_int_equal(n_open_files(), files);
    assert_int_equal(n_files_in("/proc/self/task"), threads);
    for (int i = 0; i < RP_COUNT(sizes); i++) {
        assert_ok(shapes, rp__disk_queue_write(s, NULL, sizes[i], &ticket[i]));
        assert_int_equal(put(real, sizes[i], 1), ticket[i]);
        if (i % 3 == 0) continue;
        get(real, ticket[i], sizes[i], 1);
        assert_ok(shapes, rp__disk_queue_read(s, ticket[i], NULL));
        assert_ok(shapes, rp__disk_queue_wait(s, ticket[i]));
        rp__disk_queue_drop(real, ticket[i]);
        rp__disk_queue_drop(s, ticket[i]);
    }
    rp__disk_queue_count(real, &a);
    rp__disk_queue_count(s, &b);
    assert_memory_equal(&a, &b, sizeof a);
    rp__disk_queue_close(s);
    test_ctx_free(shapes);
    close_disk_queue(real);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(contents_come_back_bit_for_bit_in_any_order_and_size),
        BOTH_WAYS(a_read_right_behind_its_write_gets_what_was_written),
        BOTH_WAYS(several_reads_under_way_each_find_their_place),
        BOTH_WAYS(the_ledger_moves_at_open_and_close_alone),
        BOTH_WAYS(the_folder_stays_empty_while_the_file_is_in_use),
        BOTH_WAYS(steps_that_are_alike_do_not_let_the_file_grow),
        BOTH_WAYS(holes_join_in_either_order_and_are_used_again_by_what_fits),
        BOTH_WAYS(thousands_of_random_writes_reads_and_drops_match_a_shadow_copy),
        BOTH_WAYS(closing_with_work_under_way_leaves_nothing),
        BOTH_WAYS(on_shapes_alone_the_ledger_and_the_counts_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void) { return run_disk_queue_tests(run); }
