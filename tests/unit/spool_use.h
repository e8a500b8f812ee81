/* disk_queue_use.h -- for tests of the disk queue: one that is opened, used and closed by calls that must succeed, both ways of I/O. */
#ifndef RP_DISK_QUEUE_USE_H
#define RP_DISK_QUEUE_USE_H

#include "spool_test.h"
#include "base/disk_queue.h"

enum { BUFFER = 65536, CHUNK = BUFFER / 8, MOST = 10 * CHUNK + 77 };

static rp_ctx *ctx;
static int files_before, threads_before;
static uint8_t data[MOST], back[MOST];

static inline rp_disk_queue *open_disk_queue(void)
{
    rp_disk_queue *s = NULL;

    assert_ok(ctx, rp__disk_queue_open(ctx, temp_dir, BUFFER, &s));
    return s;
}

/* Nothing of it is left: no memory, no file, no descriptor, no thread. */
static inline void close_disk_queue(rp_disk_queue *s)
{
    rp__disk_queue_close(s);
    assert_int_equal(live_bytes(ctx, ctx->host), 0);
    assert_int_equal(n_files_in(temp_dir), 0);
    assert_int_equal(n_open_files(), files_before);
    assert_threads(threads_before);
}

/* What was written may be overwritten at once. */
static inline int64_t put(rp_disk_queue *s, int64_t bytes, uint32_t seed)
{
    int64_t ticket;

    fill_bytes(data, bytes, seed);
    assert_ok(ctx, rp__disk_queue_write(s, data, bytes, &ticket));
    memset(data, 0xee, (size_t)bytes);
    return ticket;
}

static inline void assert_back(int64_t bytes, uint32_t seed)
{
    fill_bytes(data, bytes, seed);
    assert_memory_equal(back, data, (size_t)bytes);
    assert_int_equal(back[bytes], 0x11);        /* and nothing beyond */
}

static inline void get(rp_disk_queue *s, int64_t ticket, int64_t bytes, uint32_t seed)
{
    memset(back, 0x11, sizeof back);
    assert_int_equal(rp__disk_queue_bytes(s, ticket), bytes);
    assert_ok(ctx, rp__disk_queue_read(s, ticket, back));
    assert_ok(ctx, rp__disk_queue_wait(s, ticket));
    assert_back(bytes, seed);
}

#define WITH(setup, test) { .name = #test, .test_func = test, .setup_func = setup }
#define BOTH_WAYS(test) \
    { .name = #test " [any]", .test_func = test, .setup_func = use_what_there_is }, \
    { .name = #test " [thread]", .test_func = test, .setup_func = use_thread }

static inline int run_disk_queue_tests(int (*run)(void))
{
    ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    temp_enter();
    files_before   = n_open_files();
    threads_before = n_threads();
    int failed     = run();
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}

#endif
