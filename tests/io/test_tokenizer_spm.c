/* Claims about SentencePiece's tokenizer.model: a folder with nothing else is a tokenizer, what is not known is refused. That ids are those of the
 * `tokenizers` package is claimed in test_tokenizer_families.c. */
/* ctest: device-free thread-free watched */
#include "rp_test.h"

#include <unistd.h>

#include "base/file.h"
#include "io/small_gguf.h"

#define SPM RP_SOURCE_DIR "/tests/golden/tokenizer/spm"

static void assert_small(rp_ctx *ctx, rp_tokenizer *t)
{
    assert_int_equal(rp__tokenizer_vocab(t), 11);
    assert_int_equal(rp__tokenizer_bos(t), 1);
    assert_int_equal(rp__tokenizer_eos(t), 10);         /* tokenizer_config.json's, not the model's */
    assert_true(rp__tokenizer_adds_bos(t));
    assert_ids(ctx, t, "ab\nz<|end|>  ab", (int32_t[]){ 4, 8, 3, 0, 10, 4, 8 }, 7);
}

static void a_folder_with_a_model_of_sentencepiece_alone_is_a_tokenizer_and_exports_one(void **state)
{
    (void)state;
    char folder[] = "/tmp/rp_spm_XXXXXX", path[64];
    rp_ctx *ctx   = test_ctx(NULL);
    rp_tokenizer *t = NULL, *again = NULL;

    assert_non_null(mkdtemp(folder));
    assert_ok(ctx, rp__tokenizer_load(ctx, SPM, &t));
    assert_small(ctx, t);
    assert_ok(ctx, rp__tokenizer_export(t, folder));
    assert_ok(ctx, rp__tokenizer_load(ctx, folder, &again));
    assert_small(ctx, again);
    static const char *const files[] = { "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja" };
    for (int i = 0; i < RP_COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        assert_true(rp__file_exists(path));
    }
    rp__tokenizer_free(again);
    rp__tokenizer_free(t);
    assert_ok(ctx, rp__remove_tree(ctx, folder));
    test_ctx_free(ctx);
}

/* Pieces "<unk>" (unknown) and "a", and what follows them in the protobuf. */
#define PIECES "\x0a\x09\x0a\x05<unk>\x18\x02\x0a\x08\x0a\x01" "a\x15\0\0\x80\xbf"

static void models_of_sentencepiece_that_are_not_known_are_refused(void **state)
{
    static const struct { const char *bytes; int64_t n; rp_status status; const char *says; } cases[] = {
#define CASE(bytes) bytes, sizeof bytes - 1
        { CASE("dG9rZW4= 0\n"), RP_ERR_FORMAT, "not a SentencePiece model" },
        { CASE(""), RP_ERR_FORMAT, "not a SentencePiece model" },
        { CASE(PIECES "\x12\x02\x18\x03"), RP_ERR_UNSUPPORTED, "a SentencePiece model of kind 3" },
        { CASE(PIECES "\x12\x03\xc0\x01\x01"), RP_ERR_UNSUPPORTED, "marks spaces after words" },
        { CASE(PIECES "\x1a\x02\x28\0"), RP_ERR_UNSUPPORTED, "marks spaces after words, or not at all" },
        { CASE(PIECES "\x12\x02\x18\x02"), RP_ERR_UNSUPPORTED, "a SentencePiece BPE that normalizes" },
        { CASE(PIECES PIECES), RP_ERR_FORMAT, "<unk>" },
        { CASE(PIECES "\x1a\x03\x12\x01x"), RP_ERR_FORMAT, "a precompiled_charsmap of 1 bytes has a trie of -1" },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        json_t *root = NULL, *config = NULL;
        rp_tokenizer *t  = NULL;
        rp_status status = rp__tokenizer_from_spm(ctx, "t.model", cases[i].bytes, cases[i].n, &root, &config);
        if (status == RP_OK) status = rp__tokenizer_build(ctx, "t.model", root, config, &t);
        assert_int_equal(status, cases[i].status);
        if (!strstr(rp_error(ctx), cases[i].says)) fail_msg("case %d: %s", i, rp_error(ctx));
        json_decref(root);
        json_decref(config);
    }
    test_ctx_free(ctx);
}

static rp_status load_beside(rp_ctx *ctx, const char *folder, const char *name, const char *text)
{
    char path[128];
    rp_tokenizer *t = NULL;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(ctx, rp__file_write(ctx, path, text, (int64_t)strlen(text)));
    rp_status status = rp__tokenizer_load(ctx, folder, &t);
    rp__tokenizer_free(t);
    unlink(path);
    return status;
}

static void tokens_beside_a_model_that_would_get_other_ids_are_refused(void **state)
{
    char folder[] = "/tmp/rp_spm_XXXXXX", path[64], expected[160];
    rp_ctx *ctx   = test_ctx(NULL);
    rp_bytes longer = { 0 };
    rp_tokenizer *t;
    char *text    = NULL;
    int64_t bytes = 0;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.model", folder);
    assert_ok(ctx, rp__file_read(ctx, SPM "/tokenizer.model", 1 << 20, &text, &bytes));
    assert_ok(ctx, rp__file_write(ctx, path, text, bytes));
    assert_ok(ctx, load_beside(ctx, folder, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"9\":{\"content\":\"x\"}}}"));
    assert_int_equal(load_beside(ctx, folder, "tokenizer_config.json", "{\"added_tokens_decoder\":{\"12\":{\"content\":\"x\"}}}"),
                     RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(ctx), "none with the id 9"));
    assert_int_equal(load_beside(ctx, folder, "added_tokens.json", "{\"<pad>\":9}"), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(ctx), "the added_tokens.json next to it cannot be used without a tokenizer.json"));
    assert_int_equal(load_beside(ctx, folder, "tokenizer_config.json", "[]"), RP_ERR_FORMAT);
    snprintf(expected, sizeof expected, "cannot read 'tokenizer_config.json' next to '%s': it is not a JSON object", path);
    assert_string_equal(rp_error(ctx), expected);
    assert_ok(ctx, rp__tokenizer_load(ctx, folder, &t));
    assert_ok(ctx, rp__bytes_push(ctx, &longer, text, bytes));
    assert_ok(ctx, rp__bytes_push(ctx, &longer, "\x78", 2));      /* a field that nobody knows */
    assert_ok(ctx, rp__file_write(ctx, path, longer.at, longer.n));
    assert_int_equal(rp__tokenizer_export(t, folder), RP_ERR_IO);
    snprintf(expected, sizeof expected, "'tokenizer.model' in '%s' has changed since it was read: restore the original file", folder);
    assert_string_equal(rp_error(ctx), expected);
    rp__tokenizer_free(t);
    rp__release(longer.at);
    rp__release(text);
    assert_ok(ctx, rp__remove_tree(ctx, folder));
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_with_a_model_of_sentencepiece_alone_is_a_tokenizer_and_exports_one),
        cmocka_unit_test(models_of_sentencepiece_that_are_not_known_are_refused),
        cmocka_unit_test(tokens_beside_a_model_that_would_get_other_ids_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
