/* Claims about the pool when a block finds no place. */
/* ctest: device-free host-memory thread-free watched */
#include "rp_test.h"

enum { BLOCK = 640, N_BLOCKS = 300 };

static int64_t take(rp_ctx *ctx, int64_t bytes)
{
    int64_t at;

    assert_ok(ctx, rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, bytes, "a test", &at));
    return at;
}

static void give(rp_ctx *ctx, int64_t bytes, int64_t at) { rp__mem_give(ctx->space[0], RP_MEM_TEMP, bytes, at); }

static void every_other_block_can_be_released(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    int64_t at[N_BLOCKS];
    rp_mem m;

    for (int i = 0; i < N_BLOCKS; i++) at[i] = take(ctx, BLOCK);
    for (int i = 0; i < N_BLOCKS; i += 2) give(ctx, BLOCK, at[i]);
    assert_int_equal(rp__mem_n_holes(ctx->space[0]), N_BLOCKS / 2 + 1);
    for (int i = 1; i < N_BLOCKS; i += 2) give(ctx, BLOCK, at[i]);
    assert_int_equal(rp__mem_n_holes(ctx->space[0]), 1);
    rp_mem_read(ctx, 0, false, &m);
    assert_int_equal(m.live_bytes, 0);
    rp_ctx_free(ctx);
}

typedef struct { rp_ctx *ctx; int64_t at[4]; int n, asked; int64_t bytes; } stock;

/* Gives back one block at each call. */
static bool give_one(void *user, int64_t bytes, int64_t *droppable)
{
    stock *s = user;

    s->asked++;
    s->bytes   = bytes;
    *droppable = s->n * BLOCK;
    if (s->n == 0) return false;
    give(s->ctx, BLOCK, s->at[--s->n]);
    return true;
}

static void a_take_past_the_limit_asks_until_there_is_a_place_or_nothing_left(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .memory_limit_bytes = 6 * BLOCK });
    stock s     = { .ctx = ctx };
    int64_t at;

    for (; s.n < 4; s.n++) s.at[s.n] = take(ctx, BLOCK);
    rp__mem_on_pressure(ctx->space[0], give_one, &s);
    int64_t two = take(ctx, 2 * BLOCK);
    assert_int_equal(s.asked, 0);
    int64_t more = take(ctx, 2 * BLOCK - 30);
    assert_int_equal(s.asked, 2);
    assert_int_equal(s.bytes, 2 * BLOCK);
    assert_int_equal(rp__mem_take(ctx, ctx->space[0], RP_MEM_TEMP, 3 * BLOCK, "a test", &at), RP_ERR_MEMORY);
    assert_string_equal(rp_error(ctx), "a test needs 1920 bytes (1.88 KiB); 2530 bytes (2.47 KiB) are live and the memory limit is 3840 bytes (3.75 KiB); "
                                       "0 bytes could be dropped");
    give(ctx, 2 * BLOCK, two);
    give(ctx, 2 * BLOCK - 30, more);
    test_ctx_free(ctx);
}

static void a_block_slides_down_with_its_contents(void **state)
{
    (void)state;
    rp_ctx *ctx   = test_ctx(&(rp_ctx_options){ .memory_limit_bytes = 10 * BLOCK });
    int64_t low   = take(ctx, 2 * BLOCK), kept = take(ctx, BLOCK - 40), high = take(ctx, BLOCK), offset, bytes;
    uint8_t *data = rp__mem_at(ctx->space[0], kept);

    for (int i = 0; i < BLOCK - 40; i++) data[i] = (uint8_t)(i * 7);
    give(ctx, 2 * BLOCK, low);
    assert_int_equal(rp__mem_slide(ctx->space[0], RP_MEM_TEMP, BLOCK - 40, kept), 0);
    data = rp__mem_at(ctx->space[0], 0);
    for (int i = 0; i < BLOCK - 40; i++) assert_int_equal(data[i], (uint8_t)(i * 7));
    assert_int_equal(rp__mem_n_holes(ctx->space[0]), 2);
    rp__mem_hole(ctx->space[0], 0, &offset, &bytes);
    assert_int_equal(offset, BLOCK);
    assert_int_equal(bytes, 2 * BLOCK);
    rp__mem_hole(ctx->space[0], 1, &offset, &bytes);
    assert_int_equal(offset, 4 * BLOCK);
    assert_int_equal(bytes, 6 * BLOCK);
    assert_int_equal(rp__mem_slide(ctx->space[0], RP_MEM_TEMP, BLOCK, high), BLOCK);
    assert_int_equal(rp__mem_n_holes(ctx->space[0]), 1);
    give(ctx, BLOCK, BLOCK);
    give(ctx, BLOCK - 40, 0);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_other_block_can_be_released),
        cmocka_unit_test(a_take_past_the_limit_asks_until_there_is_a_place_or_nothing_left),
        cmocka_unit_test(a_block_slides_down_with_its_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
