/* Claims about memory for things that die together: pieces are aligned, zeroed and nobody else's, whatever their sizes. */
/* ctest: device-free */
#include "rp_test.h"

#include "base/bump.h"

enum { PIECES = 400 };

static int64_t size_of(int i) { return i % 37 == 36 ? 8192 + i : i % 7 == 6 ? 0 : (int64_t)(i * 29 % 97); }

static void pieces_are_aligned_zeroed_and_apart(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_bump bump = { .ctx = ctx };
    char *piece[PIECES];

    (void)state;
    for (int i = 0; i < PIECES; i++) {
        int64_t more = rp__bump_more(&bump, size_of(i)), before = rp__bump_bytes(&bump);
        piece[i]     = rp__bump_alloc(&bump, size_of(i));
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % 16, 0);
        assert_int_equal(rp__bump_bytes(&bump), before + more);
        for (int64_t b = 0; b < size_of(i); b++) assert_int_equal(piece[i][b], 0);
        memset(piece[i], i % 127 + 1, (size_t)size_of(i));
    }
    for (int i = 0; i < PIECES; i++)
        for (int64_t b = 0; b < size_of(i); b++) assert_int_equal(piece[i][b], i % 127 + 1);
    rp__bump_free(&bump);
    test_ctx_free(ctx);
}

static void texts_end_and_are_copies(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_bump bump = { .ctx = ctx };
    char text[]  = "abcdef";

    (void)state;
    char *copy = rp__bump_text(&bump, text, 3), *none = rp__bump_text(&bump, text, 0), *made = rp__bump_format(&bump, "%d-%s", 7, text);
    text[0]    = 'x';
    assert_string_equal(copy, "abc");
    assert_string_equal(none, "");
    assert_string_equal(made, "7-abcdef");
    rp__bump_free(&bump);
    test_ctx_free(ctx);
}

static void without_memory_a_piece_is_null_and_the_others_stay(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_bump bump = { .ctx = ctx };

    (void)state;
    char *kept = rp__bump_text(&bump, "kept", 4);
    ctx->fault_countdown = 1;
    assert_null(rp__bump_alloc(&bump, 10000));
    assert_int_equal(ctx->fault_countdown, 0);
    assert_string_equal(kept, "kept");
    assert_string_equal(rp__bump_text(&bump, "next", 4), "next");
    rp__bump_free(&bump);
    test_ctx_free(ctx);
}

static void with_fault_pieces_a_block_ends_where_its_piece_does(void **state)
{
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_bump bump = { .ctx = ctx };

    (void)state;
    assert_non_null(rp__bump_alloc(&bump, 1));
    ctx->fault_pieces = true;
    int64_t head      = rp__bump_more(&bump, 0);
    for (int64_t bytes = 1; bytes < 40; bytes++) {
        int64_t before = rp__bump_bytes(&bump);
        char *piece    = rp__bump_alloc(&bump, bytes);
        assert_non_null(piece);
        assert_int_equal((uintptr_t)piece % 16, 0);
        assert_int_equal(rp__bump_bytes(&bump) - before, head + bytes);
        memset(piece, 1, (size_t)bytes);
    }
    ctx->fault_pieces = false;
    assert_string_equal(rp__bump_text(&bump, "in another block", 16), "in another block");
    rp__bump_free(&bump);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_aligned_zeroed_and_apart),
        cmocka_unit_test(texts_end_and_are_copies),
        cmocka_unit_test(without_memory_a_piece_is_null_and_the_others_stay),
        cmocka_unit_test(with_fault_pieces_a_block_ends_where_its_piece_does),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
