#include "io/small_gguf.h"

#include "rp_test.h"

static void put(rp_ctx *ctx, rp_bytes *file, const void *data, int64_t n) { assert_ok(ctx, rp__bytes_push(ctx, file, data, n)); }

static void put_text(rp_ctx *ctx, rp_bytes *file, const char *text)
{
    put(ctx, file, &(uint64_t){ strlen(text) }, 8);
    put(ctx, file, text, (int64_t)strlen(text));
}

static void put_key(rp_ctx *ctx, rp_bytes *file, const char *key, uint32_t type)
{
    put_text(ctx, file, key);
    put(ctx, file, &type, 4);
}

static void put_texts(rp_ctx *ctx, rp_bytes *file, const char *key, const char *const *texts, uint64_t n)
{
    put_key(ctx, file, key, 9);
    put(ctx, file, &(uint32_t){ 8 }, 4);
    put(ctx, file, &n, 8);
    for (uint64_t i = 0; i < n; i++) put_text(ctx, file, texts[i]);
}

static void put_types(rp_ctx *ctx, rp_bytes *file, const int32_t *types, uint64_t n)
{
    put_key(ctx, file, "tokenizer.ggml.token_type", 9);
    put(ctx, file, &(uint32_t){ 5 }, 4);        /* int32 */
    put(ctx, file, &n, 8);
    put(ctx, file, types, (int64_t)n * 4);
}

static void put_scores(rp_ctx *ctx, rp_bytes *file, uint64_t n, float last)
{
    put_key(ctx, file, "tokenizer.ggml.scores", 9);
    put(ctx, file, &(uint32_t){ 6 }, 4);        /* float32 */
    put(ctx, file, &n, 8);
    for (uint64_t i = 0; i < n; i++) put(ctx, file, &(float){ i == n - 1 ? last : 0 }, 4);
}

rp_gguf *small_gguf_open(rp_ctx *ctx, const small_words *w, char **bytes)
{
    const char *const named[][2] = { { "general.architecture", w->architecture }, { "tokenizer.ggml.model", w->model },
                                     { "tokenizer.ggml.pre", w->pre }, { "tokenizer.chat_template", w->template } };
    rp_bytes file   = { 0 };
    rp_gguf *gguf   = NULL;
    uint64_t n_keys = (uint64_t)2 + (w->tokens != NULL) + (w->merges != NULL) + (w->n_scores > 0);

    for (int i = 0; i < RP_COUNT(named); i++) n_keys += named[i][1] != NULL;
    put(ctx, &file, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    put(ctx, &file, &n_keys, 8);
    for (int i = 0; i < RP_COUNT(named); i++) {
        if (!named[i][1]) continue;
        put_key(ctx, &file, named[i][0], 8);
        put_text(ctx, &file, named[i][1]);
    }
    if (w->tokens) put_texts(ctx, &file, "tokenizer.ggml.tokens", w->tokens, w->n_tokens);
    if (w->merges) put_texts(ctx, &file, "tokenizer.ggml.merges", w->merges, w->n_merges);
    if (w->n_scores) put_scores(ctx, &file, w->n_scores, w->last_score);
    put_types(ctx, &file, w->types, w->n_types ? w->n_types : w->n_tokens);
    put_key(ctx, &file, "tokenizer.ggml.bos_token_id", 4);
    put(ctx, &file, &(uint32_t){ 0 }, 4);
    assert_ok(ctx, rp__gguf_open_bytes(ctx, "t.gguf", file.at, file.n, &gguf));
    *bytes = file.at;
    return gguf;
}

rp_status small_gguf_of(rp_ctx *ctx, const small_words *w, json_t **root, json_t **config)
{
    char *bytes;
    rp_gguf *gguf    = small_gguf_open(ctx, w, &bytes);
    rp_status status = rp__tokenizer_from_gguf(ctx, gguf, "t.gguf", root, config);

    rp__gguf_close(gguf);
    rp__release(bytes);
    return status;
}

rp_status small_gguf(rp_ctx *ctx, const char *model, const char *pre, const char *const *merges, json_t **root, json_t **config)
{
    return small_gguf_of(ctx, &(small_words){ .model = model, .pre = pre, .tokens = (const char *const[]){ "<s>", "a", "b", "ab" },
                                              .types = (int32_t[]){ 3, 1, 1, 1 }, .n_tokens = 4, .merges = merges, .n_merges = 1 },
                         root, config);
}

void assert_ids(rp_ctx *ctx, rp_tokenizer *t, const char *text, const int32_t *want, int64_t n_want)
{
    int32_t *ids = NULL;
    int64_t n    = 0;

    assert_ok(ctx, rp__tokenizer_encode(t, text, (int64_t)strlen(text), &ids, &n));
    assert_int_equal(n, n_want);
    assert_memory_equal(ids, want, (size_t)n * sizeof *ids);
    rp__release(ids);
}
