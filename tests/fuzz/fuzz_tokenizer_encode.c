/* fuzz_tokenizer_encode.c -- any bytes as text, the first a choice of tokenizer: the ids decode to the repaired text. The
 * tokenizers are small ones made here, so that the target needs no files. */
#include "fuzz.h"

#include <stdio.h>

#include "io/tokenizer_inside.h"

#define SPLIT(pattern) "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"},\"behavior\":\"Isolated\"},"
#define ENDS "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":"
#define LLAMA3 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|" \
    "\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define ADDED(id, text, flags) "{\"id\":" #id ",\"content\":\"" text "\",\"special\":false,\"normalized\":" flags "}"

static const struct { const char *stages, *normalizer; } kinds[] = {
    { "{\"type\":\"Digits\",\"individual_digits\":true}," ENDS "true}", "null" },
    { SPLIT(LLAMA3) ENDS "false}", "null" },
    { SPLIT(LLAMA3) ENDS "false}", "{\"type\":\"NFC\"}" },
    { ENDS "true}", "{\"type\":\"NFKD\"}" },
};

/* All bytes, and merges of some that text has. */
static rp_tokenizer *make(rp_ctx *ctx, int kind)
{
    static const char *const merges[][2] = { { "a", "b" }, { "ab", "ab" }, { "\xc4\xa0", "a" }, { "\xc4\xa0", "\xc4\xa0" },
        { "b", "a" }, { "\xc3\x83", "\xc2\xa9" }, { "abab", "abab" }, { "1", "2" }, { "'", "s" } };
    static char text[16384];
    rp_tokenizer *t = NULL;
    json_t *root    = NULL;
    rp_bytes one    = { 0 };
    size_t n        = 0;

    n += (size_t)snprintf(text + n, sizeof text - n, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (int b = 0; b < 256; b++) {
        one.n = 0;
        FUZZ_CHECK(rp__byte_text(ctx, (char[]){ (char)b }, 1, &one) == RP_OK);
        const char *escape = b == '"' || b == '\\' ? "\\" : "";
        n += (size_t)snprintf(text + n, sizeof text - n, "\"%s%.*s\":%d,", escape, (int)one.n, one.at, b);
    }
    for (int i = 0; i < RP_COUNT(merges); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s%s\":%d", i ? "," : "", merges[i][0], merges[i][1], 256 + i);
    n += (size_t)snprintf(text + n, sizeof text - n, "},\"merges\":[");
    for (int i = 0; i < RP_COUNT(merges); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s[\"%s\",\"%s\"]", i ? "," : "", merges[i][0], merges[i][1]);
    n += (size_t)snprintf(text + n, sizeof text - n,
                          "]},\"added_tokens\":[" ADDED(300, "<a>", "false") "," ADDED(301, "<a>\xc3\xa9", "true") "],"
                          "\"normalizer\":%s,\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s]}}",
                          kinds[kind].normalizer, kinds[kind].stages);
    FUZZ_CHECK(n < sizeof text);
    FUZZ_CHECK(rp__tokenizer_json(ctx, "made", text, (int64_t)n, &root) == RP_OK);
    FUZZ_CHECK(rp__tokenizer_build(ctx, "made", root, NULL, &t) == RP_OK);
    json_decref(root);
    rp__release(one.at);
    return t;
}

static void check(rp_ctx *ctx, rp_tokenizer *t, const char *text, int64_t bytes)
{
    rp_bytes repaired = { 0 };
    int32_t *ids = NULL, *again = NULL;
    int64_t n, n_again, back_bytes;
    char *back = NULL;

    FUZZ_CHECK(rp__utf8_repair(ctx, text, bytes, &repaired) == RP_OK);
    FUZZ_CHECK(rp__utf8_valid(repaired.at, repaired.n) == repaired.n);
    FUZZ_CHECK(rp__tokenizer_encode(t, text, bytes, &ids, &n) == RP_OK);
    FUZZ_CHECK(rp__tokenizer_encode(t, text, bytes, &again, &n_again) == RP_OK);
    FUZZ_CHECK(n == n_again && (!n || !memcmp(ids, again, (size_t)n * sizeof *ids)));       /* the cache does not show */
    FUZZ_CHECK(rp__tokenizer_decode(t, ids, n, false, &back, &back_bytes) == RP_OK);
    if (!t->n_normalizers)
        FUZZ_CHECK(back_bytes == repaired.n && (!repaired.n || !memcmp(back, repaired.at, (size_t)repaired.n)));
    FUZZ_CHECK(rp__utf8_valid(back, back_bytes) == back_bytes);
    rp__release(back);
    rp__release(again);
    rp__release(ids);
    rp__release(repaired.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rp_tokenizer *made[RP_COUNT(kinds)];
    rp_ctx *ctx = fuzz_ctx();

    if (!size) return 0;
    int kind = data[0] % RP_COUNT(kinds);
    if (!made[kind]) made[kind] = make(ctx, kind);
    check(ctx, made[kind], (const char *)data + 1, (int64_t)size - 1);
    return 0;
}
