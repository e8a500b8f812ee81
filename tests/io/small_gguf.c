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

rp_status small_gguf(rp_ctx *ctx, const char *model, const char *pre, const char *const *merges, json_t **root, json_t **config)
{
    static const char *const tokens[] = { "<s>", "a", "b", "ab" };
    rp_bytes file = { 0 };
    rp_gguf *gguf = NULL;

    put(ctx, &file, "GGUF\3\0\0\0\0\0\0\0\0\0\0\0", 16);
    put(ctx, &file, &(uint64_t){ pre ? 6 : 5 }, 8);
    put_key(ctx, &file, "tokenizer.ggml.model", 8);
    put_text(ctx, &file, model);
    if (pre) put_key(ctx, &file, "tokenizer.ggml.pre", 8);
    if (pre) put_text(ctx, &file, pre);
    put_texts(ctx, &file, "tokenizer.ggml.tokens", tokens, RP_COUNT(tokens));
    put_texts(ctx, &file, "tokenizer.ggml.merges", merges, 1);
    put_key(ctx, &file, "tokenizer.ggml.token_type", 9);
    put(ctx, &file, (uint32_t[]){ 5, 4, 0, 3, 1, 1, 1 }, 28);       /* int32; four, as 64 bits; control, normal, … */
    put_key(ctx, &file, "tokenizer.ggml.bos_token_id", 4);
    put(ctx, &file, &(uint32_t){ 0 }, 4);
    assert_ok(ctx, rp__gguf_open_bytes(ctx, "t.gguf", file.at, file.n, &gguf));
    rp_status status = rp__tokenizer_from_gguf(ctx, gguf, "t.gguf", root, config);
    rp__gguf_close(gguf);
    rp__release(file.at);
    return status;
}
