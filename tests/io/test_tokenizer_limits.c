/* Claims about limits: sizes that a tokenizer's numbers do not hold are refused, and work stays in proportion to the text. */
/* ctest: device-free thread-free */
#include "texts_test.h"

static void a_piece_of_more_bytes_than_can_be_numbered_is_refused(void **state)
{
    rp_ctx *ctx   = test_ctx(NULL);
    rp_bpe bpe    = { .ctx = ctx };
    rp_unigram u  = { .ctx = ctx };
    rp_ids ids    = { 0 };

    (void)state;
    assert_int_equal(rp__bpe_encode(&bpe, "", INT32_MAX / 2, &ids), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a piece of text has 1073741823 bytes and cannot be cut");
    assert_int_equal(rp__unigram_encode(&u, "", INT32_MAX, &ids), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a piece of text has 2147483647 bytes and cannot be cut");
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

/* One piece of `n` equal characters, or of marks that all have to be sorted: counts, not clocks. */
static void a_piece_without_end_takes_time_and_memory_in_proportion(void **state)
{
    static const char *const units[] = { "a", " ", "\n", "\xcc\x81\xcc\xa3", "ab", "!", "<|im_start" };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int u = 0; u < RP_COUNT(units); u++) {
        int64_t steps[2], allocations[2], unit = (int64_t)strlen(units[u]);
        rp_tokenizer *t = golden_tokenizer(ctx, "", "qwen2");
        for (int k = 0; k < 2; k++) {
            int64_t n = (int64_t)(1 << 20) >> (1 - k) * 3, before = t->bpe.n_steps, asked = ctx->alloc_count;
            char *text = malloc((size_t)n);
            for (int64_t i = 0; i < n; i++) text[i] = units[u][i % unit];
            rp_ids ids     = encode_text(ctx, t, text, n);
            steps[k]       = t->bpe.n_steps - before;
            allocations[k] = ctx->alloc_count - asked;
            assert_true(ids.n > 0 && ids.room <= n + 64);
            rp__release(ids.at);
            free(text);
        }
        assert_true(steps[1] <= 11 * steps[0] + 1000);          /* eight times the text; a heap is three levels deeper */
        assert_true(allocations[1] <= allocations[0] + 60);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_piece_of_more_bytes_than_can_be_numbered_is_refused),
        cmocka_unit_test(a_token_of_more_bytes_than_can_be_numbered_is_refused),
        cmocka_unit_test(a_piece_without_end_takes_time_and_memory_in_proportion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
