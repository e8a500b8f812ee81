/* Claims about sizes that a tokenizer's numbers do not hold: each is refused before a byte is read or allocated. */
#include "rp_test.h"

#include "io/tokenizer_inside.h"

static void a_piece_of_more_bytes_than_can_be_numbered_is_refused(void **state)
{
    rp_ctx *ctx   = test_ctx(NULL);
    rp_bpe bpe    = { .ctx = ctx };
    rp_unigram u  = { .ctx = ctx };
    rp_ids ids    = { 0 };

    (void)state;
    assert_int_equal(rp__bpe_encode(&bpe, "", INT32_MAX / 2, &ids), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a piece of text has 1073741823 bytes without a place to cut it");
    assert_int_equal(rp__unigram_encode(&u, "", INT32_MAX, &ids), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a piece of text has 2147483647 bytes without a place to cut it");
    test_ctx_free(ctx);
}

static void a_token_of_more_bytes_than_can_be_numbered_is_refused(void **state)
{
    rp_ctx *ctx      = test_ctx(NULL);
    rp_vocab vocab   = { 0 };
    rp_trie trie     = { .n_nodes = 1 << 30, .room = 1 << 30 };
    bool fresh       = false;

    (void)state;
    assert_int_equal(rp__vocab_add(ctx, &vocab, "", INT32_MAX / 2, 7, RP_TOKEN_IN_MODEL), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "token 7 has 1073741823 bytes");
    assert_ok(ctx, rp__vocab_add(ctx, &vocab, "a", 1, 0, RP_TOKEN_IN_MODEL));
    assert_int_equal(rp__vocab_show(ctx, &vocab, 0, "", INT32_MAX / 2), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "token 0 has 1073741823 bytes when normalized");
    rp__vocab_free(&vocab);
    assert_int_equal(rp__trie_insert(ctx, &trie, "a", 1, 0, &fresh), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "the tokens are too long");
    assert_false(fresh);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_of_more_bytes_than_can_be_numbered_is_refused),
        cmocka_unit_test(a_token_of_more_bytes_than_can_be_numbered_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
