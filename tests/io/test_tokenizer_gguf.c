/* Claims about byte-level tokenizers in GGUF: the names of their pre-tokenizers stand for the parts of the models' own, and a name that is not
 * known is refused. */
/* ctest: device-free thread-free */
#include "heap_test.h"

#include <math.h>

#include "base/file.h"
#include "io/small_gguf.h"

static json_t *golden_json(rp_ctx *ctx, const char *name)
{
    char path[512], *text = NULL;
    json_t *root = NULL;
    int64_t bytes;

    snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/tokenizer/%s/tokenizer.json", name);
    assert_ok(ctx, rp__file_read(ctx, path, 1 << 24, &text, &bytes));
    assert_ok(ctx, rp__tokenizer_json(ctx, path, text, bytes, &root));
    rp__release(text);
    return root;
}

static void pre_tokenizers_that_gguf_names_are_those_of_the_models(void **state)
{
    static const struct { const char *pre, *golden; bool adds_bos; } cases[] = {
        { "smollm", "smollm", false }, { "gpt-2", "gpt2", false }, { "llama-bpe", "llama3", true }, { "qwen2", "qwen2", false },
        { "gpt-4o", "o200k", false },
    };
    static const char *const parts[] = { "pre_tokenizer", "normalizer" };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        json_t *root = NULL, *config = NULL, *golden = golden_json(ctx, cases[i].golden);
        rp_tokenizer *t = NULL;
        assert_ok(ctx, small_gguf(ctx, "gpt2", cases[i].pre, (const char *const[]){ "a b" }, &root, &config));
        for (int p = 0; p < RP_COUNT(parts); p++)
            if (!json_equal(json_object_get(root, parts[p]), json_object_get(golden, parts[p])))
                fail_msg("%s of '%s': %s", parts[p], cases[i].pre, json_dumps(json_object_get(root, parts[p]), JSON_ENCODE_ANY));
        assert_true(json_equal(json_object_get(json_object_get(root, "model"), "ignore_merges"),
                               json_object_get(json_object_get(golden, "model"), "ignore_merges")));
        assert_ok(ctx, rp__tokenizer_build(ctx, "t.gguf", root, config, &t));
        assert_int_equal(rp__tokenizer_adds_bos(t), cases[i].adds_bos);
        assert_int_equal(rp__tokenizer_bos(t), 0);
        rp__tokenizer_free(t);
        json_decref(golden);
        json_decref(root);
        json_decref(config);
    }
    test_ctx_free(ctx);
}

static void every_kind_that_gguf_may_name_can_be_built(void **state)
{
    static const char *const names[] = { NULL, "default", "starcoder", "refact", "command-r", "phi-2", "mpt", "olmo", "llama3",
        "llama-v3", "smaug-bpe", "dbrx", "deepseek-r1-qwen", "stablelm2", "llama4" };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(names); i++) {
        json_t *root = NULL, *config = NULL;
        rp_tokenizer *t = NULL;
        assert_ok(ctx, small_gguf(ctx, "gpt2", names[i], (const char *const[]){ "a b" }, &root, &config));
        assert_ok(ctx, rp__tokenizer_build(ctx, "t.gguf", root, config, &t));
        rp_ids ids = { 0 };
        assert_ok(ctx, rp__tokenizer_encode(t, "ab<s>ba", 7, &ids.at, &ids.n));
        assert_int_equal(ids.n, 4);
        assert_memory_equal(ids.at, ((int32_t[]){ 3, 0, 2, 1 }), 16);
        rp__release(ids.at);
        rp__tokenizer_free(t);
        json_decref(root);
        json_decref(config);
    }
    test_ctx_free(ctx);
}

static void gguf_tokenizers_that_are_not_known_are_refused_by_name(void **state)
{
    static const struct { const char *model, *pre, *merge; rp_status status; const char *says; } cases[] = {
        { "rwkv", "default", "a b", RP_ERR_UNSUPPORTED, "a tokenizer model 'rwkv' is not supported, only gpt2, gemma4, llama, t5 and bert" },
        { "llama", "default", "a b", RP_ERR_FORMAT, "has no scores" },
        { "gpt2", "kimi-k2", "a b", RP_ERR_UNSUPPORTED, "cannot read 't.gguf': a pre-tokenizer 'kimi-k2' (tokenizer.ggml.pre) is not supported" },
        { "gpt2", "gpt-2", "ab", RP_ERR_FORMAT, "merge 0 is not a pair" },
    };
    rp_ctx *ctx = test_ctx(NULL);
    json_t *root = NULL, *config = NULL;

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        assert_int_equal(small_gguf(ctx, cases[i].model, cases[i].pre, &cases[i].merge, &root, &config), cases[i].status);
        assert_non_null(strstr(rp_error(ctx), cases[i].says));
        assert_null(root);
        assert_null(config);
    }
    test_ctx_free(ctx);
}

static void lists_that_do_not_fit_each_other_are_refused(void **state)
{
    static const char *const tokens[] = { "<s>", "a", "b", "a" }, *const merges[] = { "a b" };
    static const int32_t types[]      = { 3, 1, 1, 1 };
    static const struct { small_words words; const char *says; } cases[] = {
        { { .n_tokens = 0, .n_types = 1 }, "cannot read 't.gguf': the tokenizer has no tokens" },
        { { .tokens = tokens, .n_tokens = 3, .n_types = 4 }, "cannot read 't.gguf': 3 tokens have 4 types" },
        { { .tokens = tokens, .n_tokens = 3, .n_scores = 2 }, "cannot read 't.gguf': 3 tokens have 2 scores" },
        { { .tokens = tokens, .n_tokens = 3 }, "cannot read 't.gguf': the tokenizer has no merges" },
        { { .tokens = tokens, .n_tokens = 4, .merges = merges, .n_merges = 1 }, "cannot read 't.gguf': token 3 ('a') comes twice or is not UTF-8" },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    json_t *root = NULL, *config = NULL;

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        small_words w = cases[i].words;
        w.model       = "gpt2";
        w.pre         = "gpt-2";
        w.types       = types;
        assert_int_equal(small_gguf_of(ctx, &w, &root, &config), RP_ERR_FORMAT);
        assert_string_equal(rp_error(ctx), cases[i].says);
        assert_null(root);
    }
    test_ctx_free(ctx);
}

/* Merges and paths are ordered by scores: NaN has no place among them, and sums with infinities have none either. */
static void scores_that_are_not_finite_are_refused(void **state)
{
    static const char *const tokens[] = { "<s>", "a", "b", "ab" }, *const models[] = { "llama", "t5" };
    static const int32_t types[]      = { 3, 1, 1, 1 };
    static const float scores[]       = { NAN, INFINITY, -INFINITY, -1 };
    rp_ctx *ctx  = test_ctx(NULL);

    (void)state;
    for (int m = 0; m < RP_COUNT(models); m++)
        for (int i = 0; i < RP_COUNT(scores); i++) {
            json_t *root = NULL, *config = NULL;
            small_words w = { .model = models[m], .tokens = tokens, .types = types, .n_tokens = 4, .n_scores = 4, .last_score = scores[i] };
            rp_status status = small_gguf_of(ctx, &w, &root, &config);
            assert_int_equal(status, isfinite(scores[i]) ? RP_OK : RP_ERR_FORMAT);
            if (status != RP_OK) assert_string_equal(rp_error(ctx), "cannot read 't.gguf': the score of token 3 is no number");
            assert_int_equal(root != NULL, status == RP_OK);
            json_decref(root);
            json_decref(config);
        }
    test_ctx_free(ctx);
}

static void more_merges_than_there_can_be_tokens_are_refused(void **state)
{
    rp_ctx *ctx         = test_ctx(NULL);
    const char **merges = malloc(RP_MAX_TOKENS * sizeof *merges);
    json_t *root = NULL, *config = NULL;

    (void)state;
    assert_non_null(merges);
    for (int i = 0; i < RP_MAX_TOKENS; i++) merges[i] = "";
    small_words w = { .model = "gpt2", .tokens = (const char *const[]){ "a" }, .n_tokens = 1, .types = (int32_t[]){ 1 }, .merges = merges,
                      .n_merges = RP_MAX_TOKENS };
    assert_int_equal(small_gguf_of(ctx, &w, &root, &config), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "cannot read 't.gguf': 1 tokens and 4194304 merges are too many");
    free(merges);
    test_ctx_free(ctx);
}

static void added_tokens_take_the_white_space_that_those_of_their_model_do(void **state)
{
    enum { S, A, SPACE, END, MASK };
    static const char *const tokens[] = { "<s>", "a", "\xc4\xa0", "<|end|>", "<mask>", "[PAD5]" };
    static const struct { const char *architecture, *pre, *text; int32_t ids[6]; int64_t n; } cases[] = {
        { "phi3", "gpt-2", "a <|end|>  a", { A, SPACE, END, A }, 4 },
        { "phi3", "gpt-2", "a <s>  a", { A, SPACE, S, SPACE, SPACE, A }, 6 },
        { "llama", "gpt-2", "a <|end|>  a", { A, SPACE, END, SPACE, SPACE, A }, 6 },
        { "nomic-bert-moe", "gpt-2", "a <mask> a", { A, MASK, SPACE, A }, 4 },
        { "roberta", "roberta-bpe", "a <mask> a", { A, MASK, SPACE, A }, 4 },
        { "roberta", "roberta-bpe", "a <|end|> a", { A, SPACE, END, SPACE, A }, 5 },
        { "llama", "gpt-2", "a [PAD5]a", { A, SPACE, A }, 3 },       /* brackets and capitals have no token */
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        json_t *root = NULL, *config = NULL;
        rp_tokenizer *t = NULL;
        small_words w   = { cases[i].architecture, "gpt2", cases[i].pre, tokens, tokens, (int32_t[]){ 3, 1, 1, 3, 3, 4 }, RP_COUNT(tokens), 0, 0, 0, 0, NULL };
        assert_ok(ctx, small_gguf_of(ctx, &w, &root, &config));
        assert_ok(ctx, rp__tokenizer_build(ctx, "t.gguf", root, config, &t));
        assert_ids(ctx, t, cases[i].text, cases[i].ids, cases[i].n);
        rp__tokenizer_free(t);
        json_decref(root);
        json_decref(config);
    }
    test_ctx_free(ctx);
}

static void a_chat_template_that_is_not_utf8_is_refused(void **state)
{
    const small_words w = { .model = "gpt2", .tokens = (const char *const[]){ "a" }, .n_tokens = 1, .types = (int32_t[]){ 1 }, .n_merges = 0,
                            .merges = (const char *const[]){ "" }, .template = "{{ 1 }}\xff" };
    rp_ctx *ctx  = test_ctx(NULL);
    json_t *root = NULL, *config = NULL;

    (void)state;
    assert_int_equal(small_gguf_of(ctx, &w, &root, &config), RP_ERR_FORMAT);
    assert_string_equal(rp_error(ctx), "cannot read 't.gguf': its chat template is not UTF-8");
    assert_null(root);
    assert_null(config);
    test_ctx_free(ctx);
}

typedef struct { const rp_gguf *file; json_t *root, *config; } conversion;

static rp_status converts_alike(rp_ctx *ctx, void *user)
{
    const conversion *c = user;
    json_t *root = NULL, *config = NULL;

    RP_TRY(rp__tokenizer_from_gguf(ctx, c->file, "t.gguf", &root, &config));
    if (!json_equal(root, c->root) || !json_equal(config, c->config)) fail_msg("a part of the tokenizer is missing");
    json_decref(root);
    json_decref(config);
    return RP_OK;
}

static void no_part_of_a_tokenizer_is_lost_when_memory_runs_out(void **state)
{
    static const char *const tokens[] = { "<s>", "a", "b", "ab" }, *const merges[] = { "a b" };
    static const int32_t types[]      = { 3, 1, 1, 1 };
    static const struct { const char *model, *pre; } cases[] = { { "gpt2", "llama-bpe" }, { "gpt2", "qwen2" }, { "gemma4", NULL }, { "llama", NULL },
                                                                 { "t5", NULL }, { "bert", NULL } };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        small_words w = { .model = cases[i].model, .pre = cases[i].pre, .tokens = tokens, .merges = merges, .types = types, .n_tokens = 4, .n_merges = 1,
                          .n_scores = 4, .template = "{{ messages }}" };
        char *bytes;
        rp_gguf *file = small_gguf_open(ctx, &w, &bytes);
        conversion c  = { .file = file };
        assert_ok(ctx, rp__tokenizer_from_gguf(ctx, file, "t.gguf", &c.root, &c.config));
        assert_string_equal(json_string_value(json_object_get(c.config, "chat_template")), "{{ messages }}");
        every_allocation_fails_once(ctx, &(heap_sweep){ .least = 0 }, converts_alike, &c);
        json_decref(c.root);
        json_decref(c.config);
        rp__gguf_close(file);
        rp__release(bytes);
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pre_tokenizers_that_gguf_names_are_those_of_the_models),
        cmocka_unit_test(every_kind_that_gguf_may_name_can_be_built),
        cmocka_unit_test(gguf_tokenizers_that_are_not_known_are_refused_by_name),
        cmocka_unit_test(lists_that_do_not_fit_each_other_are_refused),
        cmocka_unit_test(scores_that_are_not_finite_are_refused),
        cmocka_unit_test(more_merges_than_there_can_be_tokens_are_refused),
        cmocka_unit_test(added_tokens_take_the_white_space_that_those_of_their_model_do),
        cmocka_unit_test(a_chat_template_that_is_not_utf8_is_refused),
        cmocka_unit_test(no_part_of_a_tokenizer_is_lost_when_memory_runs_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
