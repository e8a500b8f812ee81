/* Claims about the ledger and the pool. */
/* ctest: device-free host-memory */
#include "rp_test.h"

#include <sys/resource.h>

static void same_requests_give_same_offsets_with_and_without_memory(void **state)
{
    (void)state;
    rp_ctx *real = test_ctx(&(rp_ctx_options){ 0 }), *shapes = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_mem_space *space[2] = { real->space[0], shapes->space[0] };
    int64_t at[2][64], size[64];
    unsigned draw = 1;

    for (int round = 0; round < 1000; round++) {
        int i = (int)((draw = draw * 1664525u + 1013904223u) >> 26);
        int64_t bytes = (draw >> 8) % 5000;
        for (int s = 0; s < 2; s++) {
            rp_ctx *ctx = s ? shapes : real;
            if (round >= 64) rp__mem_give(space[s], RP_MEM_TEMP, size[round < 64 ? round : i], at[s][round < 64 ? round : i]);
            assert_int_equal(rp__mem_take(ctx, space[s], RP_MEM_TEMP, bytes, "a test", &at[s][round < 64 ? round : i]), RP_OK);
        }
        size[round < 64 ? round : i] = bytes;
        assert_int_equal(at[0][round < 64 ? round : i], at[1][round < 64 ? round : i]);
    }
    for (int i = 0; i < 64; i++)
        for (int s = 0; s < 2; s++) rp__mem_give(space[s], RP_MEM_TEMP, size[i], at[s][i]);
    rp_mem a, b;
    rp_mem_read(real, 0, false, &a);
    rp_mem_read(shapes, 0, false, &b);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(a.live_bytes, 0);
    rp_ctx_free(real);
    rp_ctx_free(shapes);
}

/* A limit that comes later: a pool in use keeps its addresses and bytes, one that is not gives the addresses back. */
static void a_limit_that_comes_later_moves_nothing_that_lives(void **state)
{
    (void)state;
    for (int used = 0; used < 2; used++) {
        rp_ctx *ctx    = test_ctx(NULL);
        rp_meta m      = rp_meta_1d(RP_F32, 100);
        rp_tensor *t   = NULL, *more;
        int64_t before = rp__mem_mapped(ctx->space[0]);
        if (used) assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
        for (int i = 0; i < 100 && t; i++) rp_elem_put(t, i, i);
        const void *at = t ? rp_tensor_data(t) : NULL;
        assert_ok(ctx, rp__mem_yield(ctx, ctx->space[0]));
        assert_ok(ctx, rp__mem_limit(ctx, ctx->space[0], 1 << 20));
        assert_true(used ? rp__mem_mapped(ctx->space[0]) == before : rp__mem_mapped(ctx->space[0]) < before);
        if (t) assert_ptr_equal(rp_tensor_data(t), at);
        for (int i = 0; i < 100 && t; i++) assert_true(rp_elem_get(t, i) == i);
        m.dim[0] = 1 << 18;             /* with 400 bytes there it is more than the limit */
        assert_int_equal(rp_tensor_new(ctx, &m, RP_MEM_TEMP, &more), used ? RP_ERR_MEMORY : RP_OK);
        if (!used) rp_tensor_unref(more);
        rp_tensor_unref(t);
        test_ctx_free(ctx);
    }
}

static void a_device_that_is_not_there_has_an_empty_ledger(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    rp_meta m    = rp_meta_1d(RP_F32, 100);
    rp_tensor *t = NULL;
    rp_mem none  = { 0 }, got;

    assert_ok(ctx, rp_tensor_new(ctx, &m, RP_MEM_TEMP, &t));
    for (int i = 0; i < 4; i++) {
        memset(&got, 0xff, sizeof got);
        rp_mem_read(i == 3 ? NULL : ctx, (int[]){ -1, INT32_MIN, 99, 0 }[i], true, &got);
        assert_memory_equal(&got, &none, sizeof got);
    }
    rp_mem_read(ctx, 0, true, NULL);
    rp_mem_read(ctx, 0, false, &got);
    assert_int_equal(got.live_bytes, rp_meta_bytes(&m));
    rp_tensor_unref(t);
    test_ctx_free(ctx);
}

static void the_limit_refuses_and_leaves_the_ledger_alone(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .memory_limit_bytes = 1000 });
    rp_meta fits = rp_meta_1d(RP_F32, 128), more = rp_meta_1d(RP_F32, 129);
    rp_tensor *a = NULL, *b = NULL;
    rp_mem m;

    assert_int_equal(rp_tensor_new(ctx, &fits, RP_MEM_TEMP, &a), RP_OK);
    assert_int_equal(rp_tensor_new(ctx, &more, RP_MEM_TEMP, &b), RP_ERR_MEMORY);
    assert_null(b);
    assert_string_equal(rp_error(ctx), "a tensor needs 516 bytes; 512 bytes are live and the memory limit is 1000 bytes");
    rp_tensor_unref(a);
    rp_mem_read(ctx, 0, false, &m);
    assert_int_equal(m.live_bytes, 0);
    assert_int_equal(m.peak_bytes, 512);
    rp_ctx_free(ctx);
}

static void reserving_ahead_keeps_later_requests_from_growing_the_pool(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    rp_meta meta = rp_meta_1d(RP_F32, 1024);
    rp_tensor *a, *b;
    rp_mem m;

    assert_int_equal(rp__mem_reserve(ctx, ctx->space[0], 8192), RP_OK);
    assert_int_equal(rp_tensor_new(ctx, &meta, RP_MEM_PARAM, &a), RP_OK);
    assert_int_equal(rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &b), RP_OK);
    rp_mem_read(ctx, 0, false, &m);
    assert_int_equal(m.reserved_bytes, 8192);
    assert_int_equal(m.live_at[RP_MEM_PARAM], 4096);
    rp_tensor_unref(a);
    rp_tensor_unref(b);
    rp_ctx_free(ctx);
}

static void a_pool_that_is_trimmed_gives_the_offsets_of_a_new_one(void **state)
{
    (void)state;
    rp_ctx *ctx         = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_mem_space *space = ctx->space[0];
    int64_t kept, large, again;
    rp_mem m;

    assert_ok(ctx, rp__mem_take(ctx, space, RP_MEM_PARAM, 4096, "kept", &kept));
    assert_ok(ctx, rp__mem_take(ctx, space, RP_MEM_TEMP, 65536, "large", &large));
    rp__mem_give(space, RP_MEM_TEMP, 65536, large);
    rp__mem_trim(space);
    rp_mem_read(ctx, 0, false, &m);
    assert_true(m.reserved_bytes == 4096 && m.peak_bytes == 4096);
    assert_ok(ctx, rp__mem_take(ctx, space, RP_MEM_TEMP, 64, "again", &again));
    assert_int_equal(again, large);
    rp_mem_read(ctx, 0, false, &m);
    assert_int_equal(m.reserved_bytes, 4096 + 64);
    rp__mem_give(space, RP_MEM_TEMP, 64, again);
    rp__mem_give(space, RP_MEM_PARAM, 4096, kept);
    rp__mem_trim(space);
    rp_mem_read(ctx, 0, false, &m);
    assert_int_equal(m.reserved_bytes, 0);
    test_ctx_free(ctx);
}

static void a_value_of_a_shape_only_tensor_is_an_error_that_names_the_call(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_meta meta = rp_meta_1d(RP_F32, 4);
    rp_tensor *a;
    double v[4];

    assert_int_equal(rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &a), RP_OK);
    assert_int_equal(rp_tensor_read(a, v, 4), RP_ERR_META);
    assert_non_null(strstr(rp_error(ctx), "rp_tensor_read"));
    rp_tensor_unref(a);
    rp_ctx_free(ctx);
}

static int64_t faults_of_process(void)
{
    struct rusage used;

    assert_int_equal(getrusage(RUSAGE_SELF, &used), 0);
    return used.ru_minflt;
}

static void what_is_populated_is_written_without_page_faults(void **state)
{
    enum { BYTES = 64 << 20 };
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 2 });
    int64_t offset;

    (void)state;
#if defined(RP_SANITIZED) || defined(RP_POISON)
    test_ctx_free(ctx);
    skip();             /* a sanitizer has pages of its own; poison writes before */
#endif
    assert_ok(ctx, rp__mem_reserve(ctx, ctx->space[0], BYTES));
    rp__mem_populate(ctx, ctx->space[0]);
    assert_ok(ctx, rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, BYTES, "all", &offset));
    int64_t before = faults_of_process();
    memset(rp__mem_at(ctx->space[0], offset), 1, BYTES);
    assert_true(faults_of_process() - before <= 2);         /* 32 where the pages are huge, 16384 where they are not */
    rp__mem_give(ctx->space[0], RP_MEM_TEMP, BYTES, offset);
    test_ctx_free(ctx);
}

/* ---- memory whose copies and fills are complete when sync returns ---- */

enum { LATE_BYTES = 4096 };

static uint8_t late_bytes[LATE_BYTES];
static struct { void *to; const void *from; int byte; int64_t bytes; } queued;

static uint8_t *late_reserve(int64_t limit, int64_t *bytes) { (void)limit, *bytes = LATE_BYTES; return late_bytes; }
static void late_release(uint8_t *base, int64_t bytes) { (void)base, (void)bytes; }
static void late_commit(uint8_t *base, int64_t bytes, const rp_on *on) { (void)base, (void)bytes, (void)on; }

static void late_copy(void *to, const void *from, int64_t bytes, const rp_on *on)
{
    (void)on;
    queued.to    = to;
    queued.from  = from;
    queued.bytes = bytes;
}

static void late_fill(void *at, int byte, int64_t bytes, const rp_on *on)
{
    late_copy(at, NULL, bytes, on);
    queued.byte = byte;
}

static void late_sync(const rp_on *on)
{
    (void)on;
    if (queued.from) memmove(queued.to, queued.from, (size_t)queued.bytes);
    else if (queued.to) memset(queued.to, queued.byte, (size_t)queued.bytes);
    queued.to = NULL;
}

static void copies_and_fills_are_complete_after_sync(void **state)
{
    static const rp_memory late = { .align = 256, .reserve = late_reserve, .release = late_release, .commit = late_commit, .copy = late_copy,
                                    .fill = late_fill, .sync = late_sync };
    rp_ctx *ctx         = test_ctx(NULL);
    rp_mem_space *usual = ctx->space[0], *space;

    (void)state;
    assert_ok(ctx, rp__mem_space_new(ctx, &late, LATE_BYTES, false, &space));
    ctx->space[0] = space;
    rp__mem_copy(ctx, late_bytes, "abc", 3);
    assert_memory_equal(late_bytes, "\0\0\0", 3);
    rp__mem_sync(ctx);
    assert_memory_equal(late_bytes, "abc", 3);
    rp__mem_fill(ctx, late_bytes + 1, 'x', 2);
    rp__mem_sync(ctx);
    assert_memory_equal(late_bytes, "axx", 3);
    ctx->space[0] = usual;
    rp__mem_space_free(space);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_requests_give_same_offsets_with_and_without_memory),
        cmocka_unit_test(a_limit_that_comes_later_moves_nothing_that_lives),
        cmocka_unit_test(a_device_that_is_not_there_has_an_empty_ledger),
        cmocka_unit_test(the_limit_refuses_and_leaves_the_ledger_alone),
        cmocka_unit_test(reserving_ahead_keeps_later_requests_from_growing_the_pool),
        cmocka_unit_test(a_pool_that_is_trimmed_gives_the_offsets_of_a_new_one),
        cmocka_unit_test(a_value_of_a_shape_only_tensor_is_an_error_that_names_the_call),
        cmocka_unit_test(what_is_populated_is_written_without_page_faults),
        cmocka_unit_test(copies_and_fills_are_complete_after_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
