/* Claims about tokenizer files that are malformed or not supported: each is refused by name. */
/* ctest: device-free thread-free */
#include "texts_test.h"

static rp_status build(rp_ctx *ctx, const char *text, rp_tokenizer **out)
{
    json_t *root = NULL;

    RP_TRY(rp__tokenizer_json(ctx, "t.json", text, (int64_t)strlen(text), &root));
    rp_status status = rp__tokenizer_build(ctx, "t.json", root, NULL, out);
    json_decref(root);
    return status;
}

#define MODEL "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"
#define BYTES "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"
#define REGEX(r) "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\"," \
                 "\"pattern\":{\"Regex\":\"" r "\"},\"behavior\":\"Isolated\"},{\"type\":\"ByteLevel\"}]}}"

#define TIMES_4(text) text text text text
#define TIMES_16(text) TIMES_4(text) TIMES_4(text) TIMES_4(text) TIMES_4(text)

static void what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tokenizer *t = NULL;
    static const struct { const char *text; rp_status status; const char *says;
    } cases[] = {
        { "{", RP_ERR_FORMAT, "as a tokenizer.json: line 1: " },
        { "[]", RP_ERR_FORMAT, "it is not a JSON object" },
        { "{}", RP_ERR_FORMAT, "no model" },
        { "{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", RP_ERR_FORMAT, "the model has no vocabulary" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", RP_ERR_FORMAT, "the model has no merges" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"b\"}}", RP_ERR_FORMAT, "the unk_token is not in the vocabulary" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":true}," BYTES "}", RP_ERR_UNSUPPORTED,
          "a model with byte_fallback that lacks some of the 256 bytes is not supported" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", RP_ERR_FORMAT, "the model has a vocabulary of 0" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", RP_ERR_FORMAT, "the unk_id 1 is outside the vocabulary" },
        { "{" MODEL ",\"added_tokens\":[{\"id\":3}]}", RP_ERR_FORMAT, "an added token has no content" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\"}," BYTES "}", RP_ERR_FORMAT, "a Precompiled normalizer has no precompiled_charsmap" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"x\"}," BYTES "}", RP_ERR_FORMAT,
          "a Replace has neither a Regex nor a String" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" TIMES_16("{\"type\":\"NFC\"},") "{\"type\":\"NFC\"}]}," BYTES "}",
          RP_ERR_UNSUPPORTED, "more than 16 normalizers are not supported" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" TIMES_16("{\"type\":\"Whitespace\"},") "{\"type\":\"Whitespace\"}]}}",
          RP_ERR_UNSUPPORTED, "more than 16 pre-tokenizers are not supported" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}}", RP_ERR_UNSUPPORTED,
          "a Metaspace with a prepend_scheme 'last' is not supported" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}}", RP_ERR_FORMAT, "a Metaspace has an empty replacement" },
        { "{" MODEL ",\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\"}}", RP_ERR_FORMAT, "a Metaspace has an empty replacement" },
        { "{" MODEL ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" TIMES_16("{\"type\":\"ByteFallback\"},") "{\"type\":\"ByteFallback\"}]}}",
          RP_ERR_UNSUPPORTED, "more than 8 decoders are not supported" },
        { "{" MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\" \"}}", RP_ERR_FORMAT, "a Strip has no start or no stop" },
        { "{" MODEL ",\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"\"}}", RP_ERR_UNSUPPORTED, "a BPEDecoder without a suffix is not supported" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":[]}}", RP_ERR_UNSUPPORTED, "a model 'WordLevel' is not supported, only BPE, Unigram and WordPiece" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"dropout\":0.1}}", RP_ERR_UNSUPPORTED, "dropout of merges is not supported" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", RP_ERR_FORMAT,
          "merge 0 ('a' with 'a') makes a token that is not in the vocabulary" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a x\"]}}", RP_ERR_FORMAT, "merge 0 names" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", RP_ERR_FORMAT, "merge 0 is not a pair" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", RP_ERR_FORMAT, "token 'a' has id -1, outside 0 to 4194303" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", RP_ERR_FORMAT, "tokens 'a' and 'b' have the same id 0" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999},\"merges\":[]}}", RP_ERR_FORMAT, "id 99999999999" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"x\"},\"merges\":[]}}", RP_ERR_FORMAT, "not an integer" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",0],[\"a\",0]]}}", RP_ERR_FORMAT, "token 'a' has ids 0 and 1" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AA!A\"}," BYTES "}", RP_ERR_FORMAT,
          "a precompiled_charsmap is not base64 at character 2" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}," BYTES "}", RP_ERR_FORMAT,
          "a precompiled_charsmap of 3 bytes has a trie of -1" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"BAAAAAAAAAD/\"}," BYTES "}", RP_ERR_FORMAT,
          "a precompiled_charsmap has texts that are not UTF-8" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}}", RP_ERR_UNSUPPORTED, "a pre-tokenizer 'UnicodeScripts'" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"ByteLevel\"}]}}", RP_ERR_UNSUPPORTED,
          "a pre-tokenizer 'ByteLevel' after ByteLevel" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Nmt\"}," BYTES "}", RP_ERR_UNSUPPORTED, "a normalizer 'Nmt'" },
        { "{" MODEL ",\"decoder\":{\"type\":\"CTC\"}," BYTES "}", RP_ERR_UNSUPPORTED, "a decoder 'CTC'" },
        { "{" MODEL ",\"post_processor\":{\"type\":\"Other\"}," BYTES "}", RP_ERR_UNSUPPORTED, "a post-processor 'Other'" },
        { REGEX("(?P<a>x)"), RP_ERR_UNSUPPORTED, "a group of another kind" },
        { REGEX("(*UTF)x"), RP_ERR_UNSUPPORTED, "'(*'" },
        { REGEX("\\\\bx"), RP_ERR_UNSUPPORTED, "'\\b'" },
        { REGEX("(a)\\\\1"), RP_ERR_UNSUPPORTED, "'\\1'" },
        { REGEX("\\\\p{Cn}"), RP_ERR_UNSUPPORTED, "the property '\\p{Cn}'" },
        { REGEX("[a&&b]"), RP_ERR_UNSUPPORTED, "the pattern '[a&&b]' uses '&&' in a class, which is not supported" },
        { REGEX("[[:alpha:]]"), RP_ERR_UNSUPPORTED, "a class inside a class" },
        { REGEX("[\\\\W]"), RP_ERR_UNSUPPORTED, "a negated set inside a class" },
        { REGEX("a{2}+"), RP_ERR_UNSUPPORTED, "a quantifier after" },
        { REGEX("[a"), RP_ERR_FORMAT, "a class without end" },
        { REGEX("(a"), RP_ERR_FORMAT, "the pattern '(a' is malformed: missing closing parenthesis" },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_status status = build(ctx, cases[i].text, &t);
        if (status != cases[i].status || !strstr(rp_error(ctx), cases[i].says))
            fail_msg("%s: status %d: %s", cases[i].text, status, rp_error(ctx));
        assert_null(t);
    }
    assert_int_equal(rp__tokenizer_load(ctx, GOLDEN "absent", &t), RP_ERR_IO);
    assert_non_null(strstr(rp_error(ctx), "absent"));
    assert_int_equal(rp__tokenizer_load(ctx, GOLDEN, &t), RP_ERR_IO);
    assert_null(t);
    test_ctx_free(ctx);
}

/* A byte without a token is unk where there is one, fused with its neighbours when asked, and nothing otherwise. */
static void bytes_without_a_token_are_unk_or_nothing(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    static const struct { const char *more; int n; int32_t ids[6]; } cases[] = {
        { "", 2, { 2, 1 } },
        { ",\"unk_token\":\"u\"", 5, { 2, 3, 3, 1, 3 } },
        { ",\"unk_token\":\"u\",\"fuse_unk\":true", 4, { 2, 3, 1, 3 } },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_tokenizer *t = NULL;
        char text[400];
        snprintf(text, sizeof text,
                 "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"u\":3},\"merges\":[\"a b\"]%s},"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}}", cases[i].more);
        assert_ok(ctx, build(ctx, text, &t));
        rp_ids ids = encode_text(ctx, t, "abxybz", 6);
        assert_int_equal(ids.n, cases[i].n);
        assert_memory_equal(ids.at, cases[i].ids, (size_t)ids.n * sizeof *ids.at);
        rp__release(ids.at);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

static void a_character_without_a_token_is_refused_where_nothing_stands_for_it(void **state)
{
    static const char text[] = "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",-1],[\"ab\",-2]]}}";
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tokenizer *t = NULL;
    int32_t *ids    = NULL;
    int64_t n       = 0;

    (void)state;
    assert_ok(ctx, build(ctx, text, &t));
    assert_ok(ctx, rp__tokenizer_encode(t, "aaa", 3, &ids, &n));
    assert_int_equal(n, 3);
    rp__release(ids);
    ids = NULL;
    assert_int_equal(rp__tokenizer_encode(t, "aba b", 5, &ids, &n), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "a character has no token, and the tokenizer has no token for unknown characters");
    assert_null(ids);
    rp__tokenizer_free(t);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(bytes_without_a_token_are_unk_or_nothing),
        cmocka_unit_test(a_character_without_a_token_is_refused_where_nothing_stands_for_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
