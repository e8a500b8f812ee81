/* fuzz_tokenizer_encode.c -- any bytes as text, the first a choice of tokenizer: the ids decode to the repaired text, and are the same when
 * it comes in pieces. The tokenizers are small ones made here, so that the target needs no files. */
/* ctest: watched */
#include "fuzz.h"

#include <stdio.h>

#include "tokenizer/internal.h"

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

#define SPACE "\xe2\x96\x81"
#define MERGED \
    "\"vocab\":{\"<unk>\":0,\"" SPACE "\":1,\"a\":2,\"b\":3,\"" SPACE "a\":4,\"ab\":5,\"" SPACE SPACE \
    "\":6,\"abab\":7,\"<0xC3>\":8,\"<0xA9>\":9,\"\xc3\xa0\":10," \
    "\"a\xc3\xa0\":11,\"" SPACE "ab\":12,\"<0x0A>\":13},\"merges\":[\"a b\",\"" SPACE " " SPACE "\",\"" SPACE " a\",\"ab ab\",\"a \xc3\xa0\",\"" SPACE \
    " ab\"]"
#define SCORED \
    "\"vocab\":[[\"<unk>\",0],[\"" SPACE "\",-1],[\"a\",-2.5],[\"b\",-2.25],[\"ab\",-3.1],[\"" SPACE "a\",-3],[\"<0xC3>\",-4],[\"<0xA9>\",-4],[\"aba\",-5.3]]"
#define WORDS "\"vocab\":{\"[UNK]\":0,\"a\":1,\"##a\":2,\"ab\":3,\"##b\":4,\"##ab\":5,\"!\":6,\"12\":7,\"e\":8}"
#define METASPACE(scheme, split) "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"
#define REPLACE(from, to) "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"

/* Whole ones of the other kinds. */
static const char *const whole[] = {
    "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"fuse_unk\":true,\"unk_token\":\"<unk>\"," MERGED "},\"normalizer\":{\"type\":\"Sequence\","
    "\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}," REPLACE(" ", SPACE) "]},\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
    REPLACE(SPACE, " ") ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}]}}",
    "{\"model\":{\"type\":\"BPE\"," MERGED "},\"pre_tokenizer\":" METASPACE("first", "false")
    ",\"decoder\":" METASPACE("first", "false") "}",
    "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true," SCORED "},\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,"
    "\"strip_right\":false},\"pre_tokenizer\":" METASPACE("always", "true") ",\"decoder\":{\"type\":\"ByteFallback\"}}",
    "{\"model\":{\"type\":\"WordPiece\",\"max_input_chars_per_word\":20," WORDS "},\"normalizer\":{\"type\":\"BertNormalizer\"},\"pre_tokenizer\":"
    "{\"type\":\"BertPreTokenizer\"},\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"}}",
    "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"fuse_unk\":true," MERGED "},\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
    "{\"type\":\"NFKC\"},{\"type\":\"StripAccents\"},{\"type\":\"Lowercase\"}]},\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"decoder\":{\"type\":"
    "\"BPEDecoder\",\"suffix\":\"b\"},\"added_tokens\":[" ADDED(20, "<a>", "true") "]}",
};

/* All bytes, and merges of some that text has. */
static rp_tokenizer *make_bytes(rp_ctx *ctx, int kind)
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

static rp_tokenizer *make(rp_ctx *ctx, int kind)
{
    rp_tokenizer *t = NULL;
    json_t *root    = NULL;

    if (kind < RP_COUNT(kinds)) return make_bytes(ctx, kind);
    const char *text = whole[kind - RP_COUNT(kinds)];
    FUZZ_CHECK(rp__tokenizer_json(ctx, "whole", text, (int64_t)strlen(text), &root) == RP_OK);
    FUZZ_CHECK(rp__tokenizer_build(ctx, "whole", root, NULL, &t) == RP_OK);
    json_decref(root);
    return t;
}

/* Where a document is cut does not show in its ids. */
static void check_seams(rp_tokenizer *t, const char *text, int64_t bytes, const int32_t *ids, int64_t n)
{
    bool never        = t->bpe.seams.never;
    int32_t *whole_id = NULL;
    int64_t n_whole;

    t->bpe.seams.never = true;
    FUZZ_CHECK(rp__tokenizer_encode(t, text, bytes, &whole_id, &n_whole) == RP_OK);
    FUZZ_CHECK(n == n_whole && (!n || !memcmp(ids, whole_id, (size_t)n * sizeof *ids)));
    t->bpe.seams.never = never;
    rp__release(whole_id);
}

/* Nor where it is given in pieces; their lengths are drawn from the text. */
static void check_pieces(rp_tokenizer *t, const char *text, int64_t bytes, const int32_t *ids, int64_t n)
{
    uint64_t random = rp__hash(text, (size_t)bytes, RP_HASH_START);
    int64_t longest = 1 + (int64_t)(random % 50), done = 0;
    int part        = RP_TEXT_BEGINS;

    for (int64_t at = 0; !(part & RP_TEXT_ENDS); part &= ~RP_TEXT_BEGINS) {
        int32_t *some = NULL;
        int64_t n_some, piece;
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        piece  = (int64_t)(random >> 33) % (longest + 1);
        if (piece >= bytes - at) part |= RP_TEXT_ENDS, piece = bytes - at;
        FUZZ_CHECK(rp__tokenizer_feed(t, text + at, piece, (rp_text_part)part, &some, &n_some) == RP_OK);
        FUZZ_CHECK(n_some <= n - done && (!n_some || !memcmp(ids + done, some, (size_t)n_some * sizeof *ids)));
        at += piece;
        done += n_some;
        rp__release(some);
    }
    FUZZ_CHECK(done == n);
}

static void check(rp_ctx *ctx, rp_tokenizer *t, const char *text, int64_t bytes)
{
    rp_bytes repaired = { 0 };
    int32_t *ids = NULL, *again = NULL;
    int64_t n, n_recomputed, back_bytes;
    char *back = NULL;

    FUZZ_CHECK(rp__utf8_repair(ctx, text, bytes, &repaired) == RP_OK);
    FUZZ_CHECK(rp__utf8_valid(repaired.at, repaired.n) == repaired.n);
    FUZZ_CHECK(rp__tokenizer_encode(t, text, bytes, &ids, &n) == RP_OK);
    FUZZ_CHECK(rp__tokenizer_encode(t, text, bytes, &again, &n_recomputed) == RP_OK);
    FUZZ_CHECK(n == n_recomputed && (!n || !memcmp(ids, again, (size_t)n * sizeof *ids)));       /* the cache does not show */
    FUZZ_CHECK(rp__tokenizer_decode(t, ids, n, false, &back, &back_bytes) == RP_OK);
    check_seams(t, text, bytes, ids, n);
    check_pieces(t, text, bytes, ids, n);
    if (!t->normalizers.n_steps && t->decoders.bytes)
        FUZZ_CHECK(back_bytes == repaired.n && (!repaired.n || !memcmp(back, repaired.at, (size_t)repaired.n)));
    FUZZ_CHECK(rp__utf8_valid(back, back_bytes) == back_bytes);
    rp__release(back);
    rp__release(again);
    rp__release(ids);
    rp__release(repaired.at);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static rp_tokenizer *made[RP_COUNT(kinds) + RP_COUNT(whole)];
    rp_ctx *ctx = fuzz_ctx();

    if (!size) return 0;
    int kind = data[0] % RP_COUNT(made);
    if (!made[kind]) made[kind] = make(ctx, kind);
    check(ctx, made[kind], (const char *)data + 1, (int64_t)size - 1);
    return 0;
}
