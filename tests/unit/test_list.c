/* Claims about lists that grow. */
/* ctest: device-free */
#include "heap.h"
#include "rp_test.h"

#include "base/list.h"

#include <limits.h>

static void entries_stay_and_new_room_is_zero(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    int *at      = NULL, n = 0, room = 0, grown = 0;

    for (int i = 0; i < 1000; i++) {
        int had = room;
        assert_ok(ctx, RP_GROW(ctx, at, room, n + 1));
        assert_true(room > n && room >= had);
        for (int j = had; j < room; j++) assert_int_equal(at[j], 0);
        grown += room != had;
        at[n++] = i;
    }
    for (int i = 0; i < n; i++) assert_int_equal(at[i], i);
    assert_true(grown < 12);
    rp__release(at);
    test_ctx_free(ctx);
}

static void a_list_of_known_length_has_no_more_room(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    double *at   = NULL;
    int64_t room = 0;

    assert_ok(ctx, RP_RESIZE(ctx, at, room, 3));
    assert_int_equal(room, 3);
    at[2] = 1;
    assert_ok(ctx, RP_GROW(ctx, at, room, 100));
    assert_int_equal(room, 100);
    assert_true(at[2] == 1 && at[3] == 0);
    rp__release(at);
    test_ctx_free(ctx);
}

static void a_list_that_cannot_grow_is_as_before(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    int64_t *at  = NULL, wide = 0, many = (int64_t)INT_MAX + 1;
    int room     = 0;

    assert_ok(ctx, RP_GROW(ctx, at, room, 1));
    int64_t *before = at;
    int had         = room;
    ctx->fault_countdown = 1;
    assert_int_equal(RP_GROW(ctx, at, room, 1000), RP_ERR_MEMORY);
    assert_ptr_equal(at, before);
    assert_int_equal(room, had);
    assert_int_equal(RP_GROW(ctx, at, room, many), RP_ERR_MEMORY);
    assert_string_equal(rp_error(ctx), "a list of 2147483648 entries of 8 bytes is too long");
    assert_int_equal(RP_GROW(ctx, before, wide, INT64_MAX / 4), RP_ERR_MEMORY);
    assert_string_equal(rp_error(ctx), "a list of 2305843009213693951 entries of 8 bytes is too long");
    assert_int_equal(room, had);
    rp__release(at);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_stay_and_new_room_is_zero), cmocka_unit_test(a_list_of_known_length_has_no_more_room),
        cmocka_unit_test(a_list_that_cannot_grow_is_as_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
