/* Claims about the pool while it follows the places of a step. */
/* ctest: level-free thread-free watched */
#include "rp_test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* On every test device, so that the build with poison runs it, too. */
static const rp_ctx_options on_host = { .device = "cpu" };

static rp_mem read_ledger(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m;
}

static int64_t take(rp_ctx *ctx, int64_t bytes)
{
    int64_t offset = -1;

    assert_ok(ctx, rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, bytes, "a test", &offset));
    return offset;
}

static void give(rp_ctx *ctx, int64_t bytes, int64_t offset) { rp__mem_give(ctx->space[0], RP_MEM_TEMP, bytes, offset); }

/* Middle, bottom, a block of no bytes, the top before the line below it, and what lies between. */
static const rp_mem_place places[] = { { 100, 1024 }, { 64, 0 }, { 0, 640 }, { 1, 4096 }, { 128, 3968 }, { 2800, 1152 }, { 960, 64 } };

static void followed_takes_lie_where_they_were_placed(void **state)
{
    static const int order[] = { 3, 0, 6, 2, 5, 1, 4 };

    (void)state;
    for (int shapes = 0; shapes < 2; shapes++) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .shapes_only = shapes });
        rp__mem_follow(ctx->space[0], places, RP_COUNT(places));
        for (int i = 0; i < RP_COUNT(places); i++) assert_int_equal(take(ctx, places[i].bytes), places[i].offset);
        rp_mem m = read_ledger(ctx);
        assert_int_equal(m.reserved_bytes, 4160);
        assert_int_equal(m.live_bytes, 100 + 64 + 1 + 128 + 2800 + 960);
        for (int i = 0; i < RP_COUNT(order); i++) give(ctx, places[order[i]].bytes, places[order[i]].offset);
        assert_int_equal(read_ledger(ctx).reserved_bytes, 4160);
        test_ctx_free(ctx);
    }
}

static void after_the_placed_takes_best_fit_is_back_below_what_they_reserved(void **state)
{
    static const rp_mem_place two[] = { { 64, 1024 }, { 64, 2048 } };
    rp_ctx *ctx = test_ctx(&on_host);

    (void)state;
    rp__mem_follow(ctx->space[0], two, 2);
    for (int i = 0; i < 2; i++) assert_int_equal(take(ctx, 64), two[i].offset);
    assert_int_equal(take(ctx, 512), 1088);         /* the tighter of two gaps */
    assert_int_equal(take(ctx, 1024), 0);
    assert_int_equal(read_ledger(ctx).reserved_bytes, 2112);
    give(ctx, 1024, 0);
    give(ctx, 64, 1024);
    give(ctx, 512, 1088);
    give(ctx, 64, 2048);
    assert_int_equal(take(ctx, 2112), 0);           /* all of it is one gap again */
    give(ctx, 2112, 0);
    test_ctx_free(ctx);
}

static void following_ends_on_request(void **state)
{
    static const rp_mem_place far[] = { { 64, 64 }, { 64, 65536 } };
    rp_ctx *ctx = test_ctx(&on_host);

    (void)state;
    rp__mem_follow(ctx->space[0], far, 2);
    assert_int_equal(take(ctx, 64), 64);
    rp__mem_follow(ctx->space[0], NULL, 0);
    assert_int_equal(take(ctx, 64), 0);
    assert_int_equal(read_ledger(ctx).reserved_bytes, 128);
    give(ctx, 64, 0);
    give(ctx, 64, 64);
    test_ctx_free(ctx);
}

static void a_take_of_another_size_is_not_the_planned_step(void **state)
{
    static const rp_mem_place one[] = { { 100, 256 } };
    rp_ctx *ctx    = test_ctx(&on_host);
    int64_t offset = 7;

    (void)state;
    rp__mem_follow(ctx->space[0], one, 1);
    assert_int_equal(rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, 101, "a value", &offset), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "a value needs 101 bytes, but the planned step takes 100");
    assert_int_equal(offset, 7);
    assert_int_equal(read_ledger(ctx).live_bytes, 0);
    assert_int_equal(take(ctx, 100), 256);          /* its place was not used up */
    give(ctx, 100, 256);
    test_ctx_free(ctx);
}

static void a_place_past_the_limit_is_refused(void **state)
{
    static const rp_mem_place high[] = { { 64, 960 }, { 64, 1024 } };
    rp_ctx *ctx    = test_ctx(&(rp_ctx_options){ .device = "cpu", .memory_limit_bytes = 1024 });
    int64_t offset = 7;

    (void)state;
    rp__mem_follow(ctx->space[0], high, 2);
    assert_int_equal(take(ctx, 64), 960);
    assert_int_equal(rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, 64, "a value", &offset), RP_ERR_MEMORY);
    assert_int_equal(read_ledger(ctx).reserved_bytes, 1024);
    assert_int_equal(read_ledger(ctx).live_bytes, 64);
    give(ctx, 64, 960);
    test_ctx_free(ctx);
}

static void a_place_that_is_in_use_is_refused_and_nothing_is_taken(void **state)
{
    static const rp_mem_place same[] = { { 128, 0 }, { 64, 64 } };
    rp_ctx *ctx = test_ctx(&on_host);
    int64_t offset;

    (void)state;
    rp__mem_follow(ctx->space[0], same, 2);
    take(ctx, 128);
    assert_int_equal(rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, 64, "a test", &offset), RP_ERR_STATE);
    assert_string_equal(rp_error(ctx), "a test needs 64 bytes at an offset that is in use: the step differs from the planned one");
    assert_int_equal(read_ledger(ctx).live_bytes, 128);
    give(ctx, 128, 0);
    test_ctx_free(ctx);
}

/* How many, then offset and bytes of each. */
static void note_stretch(void *user, int64_t offset, int64_t bytes)
{
    int64_t *seen = user, n = seen[0]++;

    seen[1 + 2 * n] = offset;
    seen[2 + 2 * n] = bytes;
}

static void what_is_in_use_is_listed_in_stretches(void **state)
{
    static const rp_mem_place apart[] = { { 64, 64 }, { 64, 128 }, { 32, 512 } };
    rp_ctx *ctx     = test_ctx(&on_host);
    int64_t seen[8] = { 0 };

    (void)state;
    rp__mem_follow(ctx->space[0], apart, 3);
    for (int i = 0; i < 3; i++) take(ctx, apart[i].bytes);
    rp__mem_used(ctx->space[0], note_stretch, seen);
    assert_int_equal(seen[0], 2);
    assert_int_equal(seen[1], 64);
    assert_int_equal(seen[2], 128);
    assert_int_equal(seen[3], 512);
    assert_int_equal(seen[4], 64);
    for (int i = 0; i < 3; i++) give(ctx, apart[i].bytes, apart[i].offset);
    test_ctx_free(ctx);
}

/* ---- what is in no block ---- */

#ifdef RP_POISON
/* In a process of its own: does it end as a mistake of ours does? */
static bool is_a_bug(void (*run)(rp_ctx *ctx), rp_ctx *ctx)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        close(2);
        run(ctx);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void write_behind(rp_ctx *ctx)
{
    int64_t offset;

    if (rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, 100, "a test", &offset)) return;
    ((uint8_t *)rp__mem_at(ctx->space[0], offset))[100] = 0;
    rp__mem_give(ctx->space[0], RP_MEM_TEMP, 100, offset);
}

static void writing_behind_a_block_ends_the_program_when_it_goes(void **state)
{
    rp_ctx *ctx = test_ctx(&on_host);

    (void)state;
    assert_true(is_a_bug(write_behind, ctx));
    test_ctx_free(ctx);
}

static void between_placed_blocks_lies_poison(void **state)
{
    static const rp_mem_place apart[] = { { 100, 64 }, { 64, 512 } };
    rp_ctx *ctx = test_ctx(&on_host);

    (void)state;
    rp__mem_follow(ctx->space[0], apart, 2);
    for (int i = 0; i < 2; i++) take(ctx, apart[i].bytes);
    const uint8_t *p = rp__mem_at(ctx->space[0], 0);
    for (int i = 0; i < 512; i++)
        if (i < 64 || i >= 164) assert_int_equal(p[i], 0xff);
    for (int i = 0; i < 2; i++) give(ctx, apart[i].bytes, apart[i].offset);
    test_ctx_free(ctx);
}
#elif defined(RP_ASAN)
#include <sanitizer/asan_interface.h>

/* Blocks that touch, and one that does not fill its last line. */
static void one_byte_past_either_end_of_each_block_is_poison(void **state)
{
    static const rp_mem_place apart[] = { { 64, 0 }, { 100, 64 }, { 1, 192 }, { 4096, 256 } };
    rp_ctx *ctx = test_ctx(&on_host);

    (void)state;
    rp__mem_follow(ctx->space[0], apart, 4);
    for (int i = 0; i < 4; i++) take(ctx, apart[i].bytes);
    for (int i = 0; i < 4; i++) {
        const uint8_t *p = rp__mem_at(ctx->space[0], apart[i].offset);
        assert_true(__asan_address_is_poisoned(p - 1) && __asan_address_is_poisoned(p + apart[i].bytes));
        assert_null(__asan_region_is_poisoned((void *)p, (size_t)apart[i].bytes));
    }
    const uint8_t *gone = rp__mem_at(ctx->space[0], 64);
    for (int i = 0; i < 4; i++) give(ctx, apart[i].bytes, apart[i].offset);
    assert_true(__asan_address_is_poisoned(gone));
    test_ctx_free(ctx);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(followed_takes_lie_where_they_were_placed),
        cmocka_unit_test(after_the_placed_takes_best_fit_is_back_below_what_they_reserved),
        cmocka_unit_test(following_ends_on_request),
        cmocka_unit_test(a_take_of_another_size_is_not_the_planned_step),
        cmocka_unit_test(a_place_past_the_limit_is_refused),
        cmocka_unit_test(a_place_that_is_in_use_is_refused_and_nothing_is_taken),
        cmocka_unit_test(what_is_in_use_is_listed_in_stretches),
#ifdef RP_POISON
        cmocka_unit_test(writing_behind_a_block_ends_the_program_when_it_goes),
        cmocka_unit_test(between_placed_blocks_lies_poison),
#elif defined(RP_ASAN)
        cmocka_unit_test(one_byte_past_either_end_of_each_block_is_poison),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
