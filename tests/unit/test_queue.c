/* Claims about the queues of the test devices: copies and fills wait for sync or a kernel, and the library waits before it reads a result or frees a
 * source. A sync that does nothing is planted below each place that needs one. */
/* ctest: device-free watched */
#include "spool_test.h"

#include <stdatomic.h>

#include "base/disk_queue.h"
#include "tape/offload.h"

static const char *const devices[] = { "sim", "sealed" };

enum { N = 100, BYTES = N * (int)sizeof(float) };

static rp_tensor *filled(rp_ctx *ctx, double value)
{
    rp_meta m = rp_meta_1d(RP_F32, N);
    double all[N];
    rp_tensor *t;

    for (int i = 0; i < N; i++) all[i] = value;
    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    assert_ok(ctx, rp_tensor_write(t, all, N));
    return t;
}

static bool holds(const rp_tensor *t, double value)
{
    double all[N];

    assert_ok(t->ctx, rp_tensor_read(t, all, N));
    for (int i = 0; i < N; i++)
        if (all[i] != value) return false;
    return true;
}

static bool all_bytes(const void *at, int byte)
{
    for (int i = 0; i < BYTES; i++)
        if (((const unsigned char *)at)[i] != byte) return false;
    return true;
}

static void copy_out(void *to, const rp_tensor *t) { rp__mem_copy(t->ctx, to, rp__tensor_data(t), BYTES); }
static void copy_in(rp_tensor *t, const void *from) { rp__mem_copy(t->ctx, rp__tensor_data(t), from, BYTES); }
static void fill(rp_tensor *t, int byte) { rp__mem_fill(t->ctx, rp__tensor_data(t), byte, BYTES); }

/* ---- ranges that overlap ---- */

static void moves_alike(rp_ctx *ctx, rp_tensor *t, int64_t bytes, int64_t to, int64_t from)
{
    uint8_t *want = malloc((size_t)bytes), *got = malloc((size_t)bytes), *at = rp__tensor_data(t);
    int64_t n     = bytes - (to > from ? to : from);

    for (int64_t i = 0; i < bytes; i++) want[i] = (uint8_t)((uint32_t)i * 2654435761u >> 24);
    rp__mem_copy(ctx, at, want, bytes);
    rp__mem_copy(ctx, at + to, at + from, n);
    rp__mem_copy(ctx, got, at, bytes);
    rp__mem_sync(ctx);
    memmove(want + to, want + from, (size_t)n);
    assert_memory_equal(got, want, (size_t)bytes);
    free(want);
    free(got);
}

/* Longer than the buffer through which a GPU's memory copies such ranges. */
static void a_copy_onto_itself_moves(void **state)
{
    static const char *const with_gpu[] = {
        "cpu", "sim", "sealed", "emu",
    };
    const int64_t bytes = 5 << 20, shifts[] = { 4, 1 << 20, (3 << 20) + 4 };

    (void)state;
    for (int d = 0; d < RP_COUNT(with_gpu) - !TEST_HAS_EMU; d++) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = with_gpu[d] });
        rp_meta m   = rp_meta_1d(RP_F32, bytes / 4);
        rp_tensor *t;
        assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
        for (int i = 0; i < RP_COUNT(shifts); i++) {
            moves_alike(ctx, t, bytes, 0, shifts[i]);
            moves_alike(ctx, t, bytes, shifts[i], 0);
        }
        rp_tensor_unref(t);
        test_ctx_free(ctx);
    }
}

/* ---- the queue ---- */

static void a_copy_to_the_host_holds_other_bytes_until_sync(void **state)
{
    (void)state;
    for (int d = 0; d < RP_COUNT(devices); d++) {
        rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = devices[d] });
        rp_tensor *t = filled(ctx, 3);
        float back[N];
        copy_out(back, t);
        assert_true(all_bytes(back, RP_PENDING_BYTE));
        rp__mem_sync(ctx);
        for (int i = 0; i < N; i++) assert_true(back[i] == 3);
        rp_tensor_unref(t);
        test_ctx_free(ctx);
    }
}

static void a_copy_reads_its_source_when_sync_or_a_kernel_runs_it(void **state)
{
    (void)state;
    for (int d = 0; d < RP_COUNT(devices); d++) {
        rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = devices[d] });
        rp_tensor *t = filled(ctx, 0);
        float from[N];
        for (int kernel = 0; kernel < 2; kernel++) {
            memset(from, 1, sizeof from);
            copy_in(t, from);
            memset(from, 2, sizeof from);
            if (kernel) rp__mem_enter(ctx);
            else rp__mem_sync(ctx);
            memset(from, 3, sizeof from);
            if (kernel) assert_true(all_bytes(rp__tensor_data(t), 2));
            if (kernel) rp__mem_leave(ctx);
            assert_true(all_bytes(test_bytes(t), 2));
        }
        rp_tensor_unref(t);
        test_ctx_free(ctx);
    }
}

/* As many as a queue holds, and more. */
static void copies_and_fills_run_in_order(void **state)
{
    enum { MANY = 150 };

    (void)state;
    for (int d = 0; d < RP_COUNT(devices); d++) {
        rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = devices[d] });
        rp_tensor *t = filled(ctx, 0), *second = filled(ctx, 0);
        static unsigned char back[MANY][BYTES];
        for (int i = 0; i < MANY; i++) {
            fill(t, i);
            rp__tensor_copy(second, t);
            fill(t, 0);
            copy_out(back[i], second);
        }
        rp__mem_sync(ctx);
        for (int i = 0; i < MANY; i++) assert_true(all_bytes(back[i], i));
        rp_tensor_unref(t);
        rp_tensor_unref(second);
        test_ctx_free(ctx);
    }
}

static void a_target_that_an_earlier_copy_reads_is_read_first(void **state)
{
    rp_ctx *ctx      = test_ctx(&(rp_ctx_options){ .device = "sealed" });
    rp_tensor *three = filled(ctx, 3), *t = filled(ctx, 0);
    float at[N];

    (void)state;
    memset(at, 1, sizeof at);
    copy_in(t, at);
    copy_out(at, three);
    assert_true(all_bytes(at, RP_PENDING_BYTE));
    assert_true(all_bytes(test_bytes(t), 1));
    assert_true(at[0] == 3);
    rp_tensor_unref(t);
    rp_tensor_unref(three);
    test_ctx_free(ctx);
}

/* The code of an op counts as a kernel. */
static void a_copy_inside_a_kernel_is_complete_when_it_returns(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = "sealed" });
    rp_tensor *t = filled(ctx, 3);
    float back[N];

    (void)state;
    rp__mem_hold(ctx);              /* a message in flight makes no difference */
    copy_out(back, t);
    assert_true(all_bytes(back, RP_PENDING_BYTE));
    rp__mem_enter(ctx);
    assert_true(back[0] == 3);
    fill(t, 1);
    copy_out(back, t);
    assert_true(all_bytes(back, 1));
    rp__mem_leave(ctx);
    rp__mem_unhold(ctx);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void a_queue_that_cannot_open_is_an_error(void **state)
{
    rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .device = "sealed" });
    test_faults f = { 0 };
    rp_on on      = { .threads = 1 };

    (void)state;
    while (!f.over) {
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp__mem_queue_open(ctx, &on))) assert_string_equal(rp_error(ctx), "cannot open a queue of device 'sealed'");
        rp__mem_queue_close(ctx, &on);
        assert_null(on.queue);
    }
    assert_int_equal(f.failed, 1);
    test_ctx_free(ctx);
}

static void the_cpu_has_no_queue(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .device = "cpu" });
    rp_tensor *t = filled(ctx, 3);
    float back[N];

    (void)state;
    assert_null(ctx->on.queue);
    copy_out(back, t);
    assert_true(back[0] == 3);
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

/* ---- a forgotten sync ---- */

static _Atomic(const rp_on *) forgotten;        /* sync of this queue does nothing … */
static rp_ctx *dropping;                        /* … but for this context's, which then loses its copies, because their targets are freed */

static void forgetful_sync(const rp_on *on)
{
    if (on != atomic_load(&forgotten)) {
        rp__memory_sealed.sync(on);
    } else if (dropping) {
        free(dropping->on.queue);
        dropping->on.queue = rp__memory_sealed.open();
    }
}

static rp_memory forgetful;
static rp_mem_space *usual;

static rp_ctx *forgetful_ctx(void)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "sealed" });

    forgetful      = rp__memory_sealed;
    forgetful.sync = forgetful_sync;
    usual          = ctx->space[0];
    assert_ok(ctx, rp__mem_space_new(ctx, &forgetful, 0, false, &ctx->space[0]));
    return ctx;
}

static void forgetful_end(rp_ctx *ctx)
{
    rp_mem_space *planted = ctx->space[0];

    rp__mem_sync(ctx);              /* builds with poison fill blocks that are freed */
    ctx->space[0] = usual;
    rp__mem_space_free(planted);
    test_ctx_free(ctx);
}

static bool read_is_right(rp_ctx *ctx, rp_tensor *t) { return (void)ctx, holds(t, 3); }
static bool element_is_right(rp_ctx *ctx, rp_tensor *t) { return (void)ctx, rp_elem_get(t, 7) == 3; }

static bool window_is_right(rp_ctx *ctx, rp_tensor *t)
{
    rp_host h;

    assert_ok(ctx, rp__tensor_host(t, 5, 1, RP_HOST_READ, &h));
    bool right = *(float *)h.data == 3;
    rp__tensor_host_end(&h);
    return right;
}

/* The window's copy is freed, and the heap of tests writes over it. */
static bool written_window_is_right(rp_ctx *ctx, rp_tensor *t)
{
    double four[N];

    for (int i = 0; i < N; i++) four[i] = 4;
    assert_ok(ctx, rp_tensor_write(t, four, N));
    atomic_store(&forgotten, NULL);
    rp__mem_sync(ctx);
    return holds(t, 4);
}

static bool written_element_is_right(rp_ctx *ctx, rp_tensor *t)
{
    rp_elem_put(t, 7, 4);
    rp_elem_put(t, 8, 5);           /* in the same place of the stack */
    atomic_store(&forgotten, NULL);
    rp__mem_sync(ctx);
    return rp_elem_get(t, 7) == 4 && rp_elem_get(t, 8) == 5;
}

static rp_disk_queue *opened(rp_ctx *ctx)
{
    rp_disk_queue *q;

    assert_ok(ctx, rp__disk_queue_open(ctx, temp_dir, 1 << 16, &q));
    return q;
}

/* Writes t, zeroes it and reads it; `write` or `read` forgets. */
static bool file_is_right(rp_ctx *ctx, rp_tensor *t, bool write, bool read)
{
    rp_disk_queue *q = opened(ctx);
    int64_t ticket;

    atomic_store(&forgotten, write ? &ctx->on : NULL);
    assert_ok(ctx, rp__disk_queue_write(q, rp__tensor_data(t), BYTES, &ticket));
    assert_ok(ctx, rp__disk_queue_flush(q));
    atomic_store(&forgotten, NULL);
    rp__mem_sync(ctx);
    rp__tensor_zero(t);
    atomic_store(&forgotten, read ? &ctx->on : NULL);
    assert_ok(ctx, rp__disk_queue_read(q, ticket, rp__tensor_data(t)));
    assert_ok(ctx, rp__disk_queue_wait(q, ticket));
    atomic_store(&forgotten, NULL);
    rp__mem_sync(ctx);
    rp__disk_queue_close(q);
    return holds(t, 3);
}

static bool file_written_is_right(rp_ctx *ctx, rp_tensor *t) { return file_is_right(ctx, t, atomic_load(&forgotten), false); }
static bool file_read_is_right(rp_ctx *ctx, rp_tensor *t) { return file_is_right(ctx, t, false, atomic_load(&forgotten)); }

/* The host takes the memory of a slot that was offloaded and dropped. */
static bool freed_slot_is_the_host_s(rp_ctx *ctx, rp_tensor *t)
{
    rp_mem_space *host = ctx->space[ctx->host];
    rp_offload *offload;
    int64_t ticket, at;

    assert_ok(ctx, rp__offload_open(ctx, &(rp_offload_options){ .device = "cpu" }, &offload));
    assert_ok(ctx, rp__offload_put(offload, t, &ticket));
    rp__offload_drop(offload, ticket);
    rp__offload_close(offload);
    assert_ok(ctx, rp__mem_take(ctx, host, RP_MEM_TEMP, BYTES, "a test", &at));
    memset(rp__mem_at(host, at), 7, BYTES);
    atomic_store(&forgotten, NULL);
    rp__mem_sync(ctx);
    bool right = all_bytes(rp__mem_at(host, at), 7);
    rp__mem_give(host, RP_MEM_TEMP, BYTES, at);
    return right;
}

static const struct {
    const char *name;
    bool (*is_right)(rp_ctx *ctx, rp_tensor *t);
    enum { KEPT, LOST, REUSED } end;        /* lost: a target is freed, so the copy is dropped; reused: an end is freed, which AddressSanitizer reports */
} places[] = {
    { "rp_tensor_read", read_is_right, LOST },
    { "rp_elem_get", element_is_right, LOST },
    { "a window", window_is_right, LOST },
    { "a window that is written back", written_window_is_right, REUSED },
    { "rp_elem_put", written_element_is_right, REUSED },
    { "a write to a file", file_written_is_right, KEPT },
    { "a read from a file", file_read_is_right, KEPT },
    { "a slot in host memory", freed_slot_is_the_host_s, REUSED },
};

static void each_place_that_needs_a_sync_shows_that_it_is_missing(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(places); i++)
        for (int forgets = 0; forgets < 2; forgets++) {
#if defined(RP_ASAN) || defined(RP_SANITIZED)     /* the sanitizer reports it */
            if (forgets && places[i].end == REUSED) continue;
#endif
            rp_ctx *ctx  = forgetful_ctx();
            rp_tensor *t = filled(ctx, 3);
            dropping     = forgets && places[i].end == LOST ? ctx : NULL;
            atomic_store(&forgotten, forgets ? &ctx->on : NULL);
            bool right = places[i].is_right(ctx, t);
            atomic_store(&forgotten, NULL);
            rp__mem_sync(ctx);
            if (right == forgets) fail_msg("%s %s", places[i].name, forgets ? "without sync is right" : "is wrong");
            rp_tensor_unref(t);
            forgetful_end(ctx);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_onto_itself_moves),
        cmocka_unit_test(a_copy_to_the_host_holds_other_bytes_until_sync),
        cmocka_unit_test(a_copy_reads_its_source_when_sync_or_a_kernel_runs_it),
        cmocka_unit_test(copies_and_fills_run_in_order),
        cmocka_unit_test(a_target_that_an_earlier_copy_reads_is_read_first),
        cmocka_unit_test(a_copy_inside_a_kernel_is_complete_when_it_returns),
        cmocka_unit_test(a_queue_that_cannot_open_is_an_error),
        cmocka_unit_test(the_cpu_has_no_queue),
        cmocka_unit_test(each_place_that_needs_a_sync_shows_that_it_is_missing),
    };

    temp_enter();
    int failed  = cmocka_run_group_tests(tests, NULL, NULL);
    rp_ctx *ctx = test_ctx(NULL);
    temp_leave(ctx);
    test_ctx_free(ctx);
    return failed;
}
