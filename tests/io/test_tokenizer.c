/* Claims about the tokenizer. Truth is the `tokenizers` package: tests/golden/tokenizer, made by tools/make_tokenizers.py and
 * tools/goldens_tokenizer.py. */
#include "rp_test.h"

#include <unistd.h>

#include "base/file.h"
#include "io/tokenizer_inside.h"

#define GOLDEN RP_SOURCE_DIR "/tests/golden/tokenizer/"

static rp_tokenizer *load(rp_ctx *ctx, const char *name)
{
    char path[512];
    rp_tokenizer *t = NULL;

    snprintf(path, sizeof path, "%s%s", name[0] == '/' ? "" : GOLDEN, name);
    assert_ok(ctx, rp__tokenizer_load(ctx, path, &t));
    return t;
}

static rp_ids encode(rp_ctx *ctx, rp_tokenizer *t, const char *text, int64_t bytes)
{
    rp_ids ids = { 0 };

    assert_ok(ctx, rp__tokenizer_encode(t, text, bytes, &ids.at, &ids.n));
    return ids;
}

static uint64_t hash_of(const rp_ids *ids)
{
    uint64_t h = 0;

    for (int64_t i = 0; i < ids->n; i++) h = h * 6364136223846793005ull + (uint64_t)ids->at[i] + 1;
    return h;
}

/* ---- the golden strings ---- */

typedef void (*case_fn)(rp_ctx *ctx, void *user, const char *text, int64_t bytes, const json_t *expected);

static rp_bytes text_of(rp_ctx *ctx, const json_t *line)
{
    const json_t *text = json_object_get(line, "text"), *times = json_object_get(line, "times");
    const char *hex    = json_string_value(json_object_get(line, "hex"));
    rp_bytes out       = { 0 };

    for (int64_t i = 0; text && i < (times ? json_integer_value(times) : 1); i++)
        assert_ok(ctx, rp__bytes_push(ctx, &out, json_string_value(text), (int64_t)json_string_length(text)));
    for (; hex && *hex; hex += 2) {
        char byte = (char)strtol((char[]){ hex[0], hex[1], 0 }, NULL, 16);
        assert_ok(ctx, rp__bytes_push(ctx, &out, &byte, 1));
    }
    return out;
}

static int64_t for_each_case(rp_ctx *ctx, case_fn fn, void *user)
{
    char *all = NULL, *line, *rest;
    int64_t bytes, n = 0;

    assert_ok(ctx, rp__file_read(ctx, GOLDEN "strings.jsonl", 1 << 24, &all, &bytes));
    for (line = all; *line; line = rest + 1, n++) {
        rest          = strchr(line, '\n');
        json_t *value = json_loadb(line, (size_t)(rest - line), JSON_ALLOW_NUL, NULL);
        assert_non_null(value);
        rp_bytes text = text_of(ctx, value);
        fn(ctx, user, text.at ? text.at : "", text.n, json_object_get(value, "ids"));
        rp__release(text.at);
        json_decref(value);
    }
    rp__release(all);
    return n;
}

typedef struct { rp_tokenizer *t; const char *name; int64_t n_wrong; } checked;

static bool as_expected(const rp_ids *ids, const json_t *expected)
{
    char hash[17];

    if (json_is_object(expected)) {
        snprintf(hash, sizeof hash, "%016" PRIx64, hash_of(ids));
        return json_integer_value(json_object_get(expected, "n")) == ids->n &&
               !strcmp(json_string_value(json_object_get(expected, "hash")), hash);
    }
    if ((int64_t)json_array_size(expected) != ids->n) return false;
    for (int64_t i = 0; i < ids->n; i++)
        if (json_integer_value(json_array_get(expected, (size_t)i)) != ids->at[i]) return false;
    return true;
}

static void check_ids(rp_ctx *ctx, void *user, const char *text, int64_t bytes, const json_t *expected)
{
    checked *c = user;
    rp_ids ids = encode(ctx, c->t, text, bytes);

    if (!as_expected(&ids, json_object_get(expected, c->name)) && c->n_wrong++ < 20) {
        char *want = json_dumps(json_object_get(expected, c->name), JSON_COMPACT | JSON_ENCODE_ANY);
        print_error("%s: '%.*s' gives", c->name, (int)(bytes < 100 ? bytes : 100), text);
        for (int64_t i = 0; i < ids.n && i < 60; i++) print_error(" %d", ids.at[i]);
        print_error(" (%lld), not %s\n", (long long)ids.n, want);
        free(want);
    }
    rp__release(ids.at);
}

static void agrees_on_strings(const char *file, const char *name)
{
    rp_ctx *ctx = test_ctx(NULL);
    checked c   = { load(ctx, file), name, 0 };

    assert_true(for_each_case(ctx, check_ids, &c) >= 500);
    assert_int_equal(c.n_wrong, 0);
    rp__tokenizer_free(c.t);
    test_ctx_free(ctx);
}

#define AGREES(name) static void ids_of_strings_agree_for_##name(void **state) { (void)state; agrees_on_strings(#name, #name); }
AGREES(gpt2)
AGREES(llama3)
AGREES(qwen2)
AGREES(o200k)
AGREES(smollm)
AGREES(odd)

static void ids_of_strings_agree_for_smollm_from_gguf(void **state)
{
    (void)state;
    agrees_on_strings("smollm.gguf", "smollm");
}

static void ids_of_strings_agree_for_the_whole_of_smollm2(void **state)
{
    (void)state;
    const char *path = getenv("REPRISE_SMOLLM2");

    if (!path) path = RP_SOURCE_DIR "/models/smollm2.gguf";
    if (!rp__file_exists(path)) {
        print_message("skipped: there is no '%s'; set REPRISE_SMOLLM2 to the GGUF file of SmolLM2-135M-Instruct\n", path);
        skip();
    }
    agrees_on_strings(path, "smollm2");
}

/* ---- every code point ---- */

static rp_bytes block_text(rp_ctx *ctx, const char *name, uint32_t base)
{
    const char *setting = strcmp(name, "odd") ? "a@1@ @@'@\xcc\xa3\xcc\x81\n@" : "word@word @<l>@<r>@ @zz";
    rp_bytes text       = { 0 };
    char point[4];

    for (uint32_t c = base; c < base + 4096; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        int n = rp__utf8_put(point, c);
        for (const char *p = setting; *p; p++) assert_ok(ctx, rp__bytes_push(ctx, &text, *p == '@' ? point : p, *p == '@' ? n : 1));
    }
    return text;
}

/* Blocks of code points: one of so many. */
static int every(void) { return test_few_or(8, 1); }

static void every_code_point_agrees(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tokenizer *t = NULL;
    char name[16], last[16] = "";
    unsigned base;
    unsigned long long hash;
    int n_lines = 0, n_wrong = 0;
    FILE *file  = fopen(GOLDEN "points.txt", "re");

    assert_non_null(file);
    while (fscanf(file, "%15s %x %llx", name, &base, &hash) == 3) {
        if (n_lines++ % every()) continue;
        if (strcmp(name, last)) {
            rp__tokenizer_free(t);
            t = load(ctx, name);
            memcpy(last, name, sizeof last);
        }
        rp_bytes text = block_text(ctx, name, base);
        rp_ids ids    = encode(ctx, t, text.at ? text.at : "", text.n);
        if (hash_of(&ids) != hash && n_wrong++ < 20) print_error("%s: code points from %06x differ\n", name, base);
        rp__release(ids.at);
        rp__release(text.at);
    }
    fclose(file);
    assert_int_equal(n_lines, 2 * 272 + 4 * 80);     /* planes 4 to 13, 15 and 16 for two of the six */
    assert_int_equal(n_wrong, 0);
    rp__tokenizer_free(t);
    test_ctx_free(ctx);
}

/* ---- round trips ---- */

/* SmolLM2 has no token for 21 bytes that hardly any text has; they vanish, in the package, too. */
static bool can_be_written(const rp_tokenizer *t, const rp_bytes *text)
{
    for (int64_t i = 0; i < text->n; i++)
        if (t->bpe.byte_id[(uint8_t)text->at[i]] < 0) return false;
    return true;
}

static void check_round_trip(rp_ctx *ctx, void *user, const char *text, int64_t bytes, const json_t *expected)
{
    rp_bytes repaired = { 0 };
    char *back        = NULL;
    int64_t back_bytes;

    (void)expected;
    assert_ok(ctx, rp__utf8_repair(ctx, text, bytes, &repaired));
    rp_ids ids = encode(ctx, user, text, bytes);
    assert_ok(ctx, rp__tokenizer_decode(user, ids.at, ids.n, false, &back, &back_bytes));
    assert_int_equal(back[back_bytes], 0);
    if (can_be_written(user, &repaired)) {
        assert_int_equal(back_bytes, repaired.n);
        if (repaired.n) assert_memory_equal(back, repaired.at, (size_t)repaired.n);
    }
    rp__release(back);
    rp__release(ids.at);
    rp__release(repaired.at);
}

static void decoding_what_was_encoded_gives_the_text(void **state)
{
    static const char *const lossless[] = { "gpt2", "llama3", "o200k", "smollm", "smollm.gguf" };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(lossless); i++) {
        rp_tokenizer *t = load(ctx, lossless[i]);
        for_each_case(ctx, check_round_trip, t);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

static void decoding_skips_special_tokens_and_refuses_ids_outside(void **state)
{
    (void)state;
    rp_ctx *ctx       = test_ctx(NULL);
    rp_tokenizer *t   = load(ctx, "smollm.gguf");
    const char text[] = "<|im_start|>user<|im_end|>";
    rp_ids ids        = encode(ctx, t, text, (int64_t)strlen(text));
    char *back        = NULL;
    int64_t bytes     = -7;

    assert_ok(ctx, rp__tokenizer_decode(t, ids.at, ids.n, true, &back, &bytes));
    assert_string_equal(back, "user");
    assert_int_equal(bytes, 4);
    rp__release(back);
    back = NULL;
    assert_int_equal(rp__tokenizer_decode(t, (int32_t[]){ 5, 3000 }, 2, false, &back, &bytes), RP_ERR_ARG);
    assert_string_equal(rp_error(ctx), "token 3000 is outside the vocabulary of 3000");
    assert_int_equal(rp__tokenizer_decode(t, (int32_t[]){ -1 }, 1, false, &back, &bytes), RP_ERR_ARG);
    assert_null(back);
    assert_int_equal(bytes, 4);
    rp__release(ids.at);
    rp__tokenizer_free(t);
    test_ctx_free(ctx);
}

/* ---- bos, eos, names ---- */

static void bos_and_eos_come_from_config_template_and_gguf(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    static const struct { const char *name, *bos, *eos; bool adds; int32_t vocab; } want[] = {
        { "gpt2", "<|endoftext|>", "<|endoftext|>", false, 1601 },
        { "llama3", "<|begin_of_text|>", "<|end_of_text|>", true, 1604 },
        { "qwen2", NULL, "<|im_end|>", false, 1603 },
        { "smollm", "<|im_start|>", "<|im_end|>", false, 3000 },
        { "smollm.gguf", "<|im_start|>", "<|im_end|>", false, 3000 },
        { "llama3/tokenizer.json", "<|begin_of_text|>", "<|end_of_text|>", true, 1604 },
    };

    for (int i = 0; i < RP_COUNT(want); i++) {
        rp_tokenizer *t = load(ctx, want[i].name);
        assert_int_equal(rp__tokenizer_bos(t), want[i].bos ? rp__tokenizer_id(t, want[i].bos) : -1);
        assert_int_equal(rp__tokenizer_eos(t), rp__tokenizer_id(t, want[i].eos));
        assert_true(rp__tokenizer_eos(t) >= 0);
        assert_int_equal(rp__tokenizer_adds_bos(t), want[i].adds);
        assert_int_equal(rp__tokenizer_vocab(t), want[i].vocab);
        assert_int_equal(rp__tokenizer_id(t, "no such token"), -1);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

/* As transformers saves it for a tokenizer whose length has no limit. */
static void a_length_beyond_64_bits_beside_a_tokenizer_is_read(void **state)
{
    static const char text[] = "{\"add_bos_token\": true, \"model_max_length\": 1000000000000000019884624838656}";
    rp_ctx *ctx              = test_ctx(NULL);
    json_t *config           = NULL;

    (void)state;
    assert_ok(ctx, rp__tokenizer_json(ctx, "tokenizer_config.json", text, (int64_t)strlen(text), &config));
    assert_true(json_is_true(json_object_get(config, "add_bos_token")));
    assert_true(json_real_value(json_object_get(config, "model_max_length")) > 0.9e30);
    json_decref(config);
    test_ctx_free(ctx);
}

/* ---- what is refused ---- */

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
    static const struct { const char *text; rp_status status; const char *says; } cases[] = {
        { "{", RP_ERR_FORMAT, "line 1" },
        { "[]", RP_ERR_FORMAT, "it is not a JSON object" },
        { "{}", RP_ERR_FORMAT, "no model" },
        { "{\"model\":{\"type\":\"BPE\",\"merges\":[]}}", RP_ERR_FORMAT,
          "the model has no vocabulary" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{}}}", RP_ERR_FORMAT,
          "the model has no merges" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"b\"}}", RP_ERR_FORMAT,
          "the unk_token is not in the vocabulary" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":true}," BYTES "}", RP_ERR_UNSUPPORTED,
          "a model with byte_fallback that lacks some of the 256 bytes is not supported" },
        { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", RP_ERR_FORMAT,
          "the model has a vocabulary of 0" },
        { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}", RP_ERR_FORMAT,
          "the unk_id 1 is outside the vocabulary" },
        { "{" MODEL ",\"added_tokens\":[{\"id\":3}]}", RP_ERR_FORMAT,
          "an added token has no content" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Precompiled\"}," BYTES "}", RP_ERR_FORMAT,
          "a Precompiled normalizer has no precompiled_charsmap" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"x\"}," BYTES "}", RP_ERR_FORMAT,
          "a Replace has neither a Regex nor a String" },
        { "{" MODEL ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" TIMES_16("{\"type\":\"NFC\"},") "{\"type\":\"NFC\"}]}," BYTES "}", RP_ERR_UNSUPPORTED,
          "more than 16 normalizers are not supported" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" TIMES_16("{\"type\":\"Whitespace\"},") "{\"type\":\"Whitespace\"}]}}", RP_ERR_UNSUPPORTED,
          "more than 16 pre-tokenizers are not supported" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"last\"}}", RP_ERR_UNSUPPORTED,
          "a Metaspace with a prepend_scheme 'last' is not supported" },
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}}", RP_ERR_FORMAT,
          "a Metaspace has an empty replacement" },
        { "{" MODEL ",\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\"}}", RP_ERR_FORMAT,
          "a Metaspace has an empty replacement" },
        { "{" MODEL ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" TIMES_16("{\"type\":\"ByteFallback\"},") "{\"type\":\"ByteFallback\"}]}}", RP_ERR_UNSUPPORTED,
          "more than 8 decoders are not supported" },
        { "{" MODEL ",\"decoder\":{\"type\":\"Strip\",\"content\":\" \"}}", RP_ERR_FORMAT,
          "a Strip has no start or no stop" },
        { "{" MODEL ",\"decoder\":{\"type\":\"BPEDecoder\",\"suffix\":\"\"}}", RP_ERR_UNSUPPORTED,
          "a BPEDecoder without a suffix is not supported" },
        { "{\"model\":{\"type\":\"WordLevel\",\"vocab\":[]}}", RP_ERR_UNSUPPORTED, "a model 'WordLevel' is not supported, only BPE, Unigram and WordPiece" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[],\"dropout\":0.1}}", RP_ERR_UNSUPPORTED, "dropout of merges is not supported" },
        { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", RP_ERR_FORMAT,
          "merge 0 ('a' with 'a') makes a token that the vocabulary does not have" },
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
        { "{" MODEL ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{\"type\":\"ByteLevel\"}]}}",
          RP_ERR_UNSUPPORTED, "a pre-tokenizer 'ByteLevel' after ByteLevel" },
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
        rp_ids ids = encode(ctx, t, "abxybz", 6);
        assert_int_equal(ids.n, cases[i].n);
        assert_memory_equal(ids.at, cases[i].ids, (size_t)ids.n * sizeof *ids.at);
        rp__release(ids.at);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

/* ---- cost ---- */

/* One piece of `n` equal characters, or of marks that all have to be sorted: counts, not clocks. */
static void a_piece_without_end_takes_time_and_memory_in_proportion(void **state)
{
    static const char *const units[] = { "a", " ", "\n", "\xcc\x81\xcc\xa3", "ab", "!", "<|im_start" };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int u = 0; u < RP_COUNT(units); u++) {
        int64_t steps[2], allocations[2], unit = (int64_t)strlen(units[u]);
        rp_tokenizer *t = load(ctx, "qwen2");
        for (int k = 0; k < 2; k++) {
            int64_t n = (int64_t)(1 << 20) >> (1 - k) * 3, before = t->bpe.n_steps, asked = ctx->alloc_count;
            char *text = malloc((size_t)n);
            for (int64_t i = 0; i < n; i++) text[i] = units[u][i % unit];
            rp_ids ids     = encode(ctx, t, text, n);
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

/* Before a letter the pattern of Llama 3 gives back a whole run of spaces, once: more steps than PCRE2 takes by itself. */
static void a_long_run_of_spaces_stays_within_the_limit_of_steps(void **state)
{
    (void)state;
    enum { N = 24 << 20 };
    static const char spaces[] = "\\s*[\\r\\n]+|\\s+(?!\\S)";
    rp_ctx *ctx     = test_ctx(NULL);
    rp_pattern *p   = NULL;
    char *text      = malloc(N);
    int64_t start, end;

    memset(text, ' ', N - 1);
    text[N - 1] = 'x';
    assert_ok(ctx, rp__pattern_new(ctx, spaces, (int64_t)sizeof spaces - 1, 0, &p));
    assert_ok(ctx, rp__pattern_next(p, text, N, false, 0, &start, &end));
    assert_int_equal(start, 0);
    assert_int_equal(end, N - 2);
    rp__pattern_free(p);
    assert_ok(ctx, rp__pattern_new(ctx, "(a+)+[bd]", 9, 0, &p));
    memset(text, 'a', 40);
    assert_int_equal(rp__pattern_next(p, text, 40, false, 0, &start, &end), RP_ERR_UNSUPPORTED);
    rp__pattern_free(p);
    free(text);
    test_ctx_free(ctx);
}

/* The searches of one text share its steps: each here is far below what the text has, and all of them are not. */
static void a_text_has_so_many_steps_however_many_matches(void **state)
{
    (void)state;
    enum { N = 4000 };
    static const char slow[] = "(?:a|a){16}b|a";
    rp_ctx *ctx      = test_ctx(NULL);
    rp_pattern *p    = NULL;
    char *text       = malloc(N);
    rp_matches m     = { .text = text, .bytes = N, .last_end = -1 };
    rp_status status = RP_OK;

    memset(text, 'a', N);
    assert_ok(ctx, rp__pattern_new(ctx, slow, (int64_t)sizeof slow - 1, 0, &p));
    m.pattern = p;
    for (int text_number = 0; text_number < 2; text_number++) {
        rp__pattern_begin(p);
        m.from = 0;
        while ((status = rp__matches_next(&m)) == RP_OK && m.start >= 0) assert_int_equal(m.end, m.start + 1);
        assert_int_equal(status, RP_ERR_UNSUPPORTED);
        assert_in_range(m.from, 5, 300);             /* 2^16 backtracks each, and 10,000,000 steps */
        assert_non_null(strstr(rp_error(ctx), "its pattern takes more than 10000000 steps and 64 a byte on this text, at byte "));
    }
    rp__pattern_free(p);
    free(text);
    test_ctx_free(ctx);
}

/* Places before a match cost as much as the match: a search that finds nothing pays at each. */
/* An alternative within a repetition is remembered for each character, in a stack of some mebibytes. */
static void a_match_that_its_stack_does_not_hold_is_refused(void **state)
{
    enum { LENGTH = 1 << 20 };
    static const char text[] = "(?:a|b)*[cd]";
    rp_ctx *ctx    = test_ctx(NULL);
    char *all      = malloc(LENGTH);
    rp_pattern *p  = NULL;
    int64_t start, end;

    (void)state;
    assert_non_null(all);
    memset(all, 'a', LENGTH);
    assert_ok(ctx, rp__pattern_new(ctx, text, (int64_t)strlen(text), 0, &p));
    rp__pattern_begin(p);
    assert_int_equal(rp__pattern_next(p, all, LENGTH, false, 0, &start, &end), RP_ERR_UNSUPPORTED);
    assert_string_equal(rp_error(ctx), "its pattern cannot be matched against this text: JIT stack limit reached");
    rp__pattern_free(p);
    free(all);
    test_ctx_free(ctx);
}

static void a_search_that_finds_nothing_shares_the_steps_too(void **state)
{
    (void)state;
    enum { N = 4000 };
    rp_ctx *ctx   = test_ctx(NULL);
    rp_pattern *p = NULL;
    char *text    = malloc(N);
    int64_t start, end;

    memset(text, 'a', N);
    assert_ok(ctx, rp__pattern_new(ctx, "(?:a|a){16}c", 12, 0, &p));
    text[N - 1] = 'c';
    assert_int_equal(rp__pattern_next(p, text, N, false, 0, &start, &end), RP_ERR_UNSUPPORTED);
    rp__pattern_free(p);
    assert_ok(ctx, rp__pattern_new(ctx, "(?:a|a){9}c", 11, 0, &p));      /* dear at some places, and found */
    assert_ok(ctx, rp__pattern_next(p, text, 200, false, 0, &start, &end));
    assert_int_equal(start, -1);
    assert_ok(ctx, rp__pattern_next(p, text, N, false, N - 200, &start, &end));
    assert_int_equal(start, N - 10);
    assert_int_equal(end, N);
    rp__pattern_free(p);
    free(text);
    test_ctx_free(ctx);
}

static void a_hexadecimal_escape_is_one_character(void **state)
{
    (void)state;
    static const struct { const char *pattern, *text; int64_t start, end; } cases[] = {
        { "\\x41b", "41xAb", 3, 5 }, { "\\u0041b", "0041Ab", 4, 6 }, { "\\u00e9", "00e9\xc3\xa9", 4, 6 }, { "\\x{e9}+", "{e9}\xc3\xa9\xc3\xa9", 4, 8 },
        { "[\\x41-\\x43]+", "413BCDA", 3, 5 }, { "[^\\u0030-\\u0039\\x{41}]", "03A9Ax", 5, 6 }, { "\\x{1F642}a", "1F642}\xf0\x9f\x99\x82" "a", 6, 11 },
    };
    rp_ctx *ctx = test_ctx(NULL);

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_pattern *p = NULL;
        int64_t start, end;
        assert_ok(ctx, rp__pattern_new(ctx, cases[i].pattern, (int64_t)strlen(cases[i].pattern), 0, &p));
        assert_ok(ctx, rp__pattern_next(p, cases[i].text, (int64_t)strlen(cases[i].text), false, 0, &start, &end));
        if (start != cases[i].start || end != cases[i].end) fail_msg("%s: %d to %d", cases[i].pattern, (int)start, (int)end);
        rp__pattern_free(p);
    }
    test_ctx_free(ctx);
}

/* ---- failing allocations ---- */

static rp_status whole_life(rp_ctx *ctx, const char *name, const char *out)
{
    static const char text[] = "<r>  Caf\xc3\xa9 e\xcc\x81\xcc\xa3 word 1234 \xff <|im_start|>\n\n  x's averyveryverylongword"
                               "withoutendatallinit";
    rp_tokenizer *t  = NULL;
    char *back       = NULL;
    rp_ids ids       = { 0 };
    int64_t bytes    = 0;
    rp_status status = rp__tokenizer_load(ctx, name, &t);

    if (status == RP_OK) status = rp__tokenizer_encode(t, text, (int64_t)sizeof text - 1, &ids.at, &ids.n);
    if (status == RP_OK) status = rp__tokenizer_decode(t, ids.at, ids.n, false, &back, &bytes);
    if (status == RP_OK) status = rp__tokenizer_export(t, out);
    assert_true(status == RP_OK || !back || bytes > 0);
    rp__release(back);
    rp__release(ids.at);
    rp__tokenizer_free(t);
    return status;
}

static void each_failing_allocation_is_an_error_that_leaks_nothing(void **state)
{
    static const char *const names[] = { GOLDEN "odd", GOLDEN "smollm.gguf", GOLDEN "llama3/tokenizer.json" };
    char folder[] = "/tmp/rp_tokenizer_XXXXXX";
    rp_ctx *ctx   = test_ctx(NULL);

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < RP_COUNT(names); i++) {
        test_faults f = { .survived = true };       /* PCRE2 without room for its compiled code interprets: slower, the same ids */
        while (!f.over) {
            test_fault_begin(&f, ctx);
            test_fault_end(&f, whole_life(ctx, names[i], folder));
        }
        assert_true(f.failed > 30);
    }
    assert_ok(ctx, rp__remove_tree(ctx, folder));
    test_ctx_free(ctx);
}

/* ---- export ---- */

static void what_is_exported_encodes_alike(void **state)
{
    static const char *const names[] = { "smollm.gguf", "llama3", "qwen2/tokenizer.json" };
    char folder[] = "/tmp/rp_tokenizer_XXXXXX", path[64];
    rp_ctx *ctx   = test_ctx(NULL);

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < RP_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        rp_tokenizer *t = load(ctx, names[i]), *again;
        assert_ok(ctx, rp__tokenizer_export(t, path));
        again = load(ctx, path);
        checked c = { again, i == 0 ? "smollm" : i == 1 ? "llama3" : "qwen2", 0 };
        for_each_case(ctx, check_ids, &c);
        assert_int_equal(c.n_wrong, 0);
        assert_int_equal(rp__tokenizer_bos(again), rp__tokenizer_bos(t));
        assert_int_equal(rp__tokenizer_eos(again), rp__tokenizer_eos(t));
        assert_int_equal(rp__tokenizer_adds_bos(again), rp__tokenizer_adds_bos(t));
        rp__tokenizer_free(again);
        rp__tokenizer_free(t);
    }
    assert_ok(ctx, rp__remove_tree(ctx, folder));
    test_ctx_free(ctx);
}

static void what_has_changed_since_it_was_read_is_not_exported(void **state)
{
    char folder[] = "/tmp/rp_tokenizer_XXXXXX", path[64], out[64], expected[160];
    rp_ctx *ctx   = test_ctx(NULL);
    rp_tokenizer *t;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    assert_ok(ctx, rp__file_write(ctx, path, "{" MODEL "}", (int64_t)strlen("{" MODEL "}")));
    t = load(ctx, folder);
    assert_ok(ctx, rp__file_write(ctx, path, "{" MODEL " }", (int64_t)strlen("{" MODEL " }")));
    assert_int_equal(rp__tokenizer_export(t, out), RP_ERR_IO);
    snprintf(expected, sizeof expected, "'%s' has changed since it was read: what it was has to be put back", path);
    assert_string_equal(rp_error(ctx), expected);
    rp__tokenizer_free(t);
    assert_ok(ctx, rp__remove_tree(ctx, folder));
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_of_strings_agree_for_gpt2),
        cmocka_unit_test(ids_of_strings_agree_for_llama3),
        cmocka_unit_test(ids_of_strings_agree_for_qwen2),
        cmocka_unit_test(ids_of_strings_agree_for_o200k),
        cmocka_unit_test(ids_of_strings_agree_for_smollm),
        cmocka_unit_test(ids_of_strings_agree_for_odd),
        cmocka_unit_test(ids_of_strings_agree_for_smollm_from_gguf),
        cmocka_unit_test(ids_of_strings_agree_for_the_whole_of_smollm2),
        cmocka_unit_test(every_code_point_agrees),
        cmocka_unit_test(decoding_what_was_encoded_gives_the_text),
        cmocka_unit_test(decoding_skips_special_tokens_and_refuses_ids_outside),
        cmocka_unit_test(bos_and_eos_come_from_config_template_and_gguf),
        cmocka_unit_test(a_length_beyond_64_bits_beside_a_tokenizer_is_read),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(bytes_without_a_token_are_unk_or_nothing),
        cmocka_unit_test(a_piece_without_end_takes_time_and_memory_in_proportion),
        cmocka_unit_test(a_text_has_so_many_steps_however_many_matches),
        cmocka_unit_test(a_match_that_its_stack_does_not_hold_is_refused),
        cmocka_unit_test(a_search_that_finds_nothing_shares_the_steps_too),
        cmocka_unit_test(a_hexadecimal_escape_is_one_character),
        cmocka_unit_test(a_long_run_of_spaces_stays_within_the_limit_of_steps),
        cmocka_unit_test(each_failing_allocation_is_an_error_that_leaks_nothing),
        cmocka_unit_test(what_is_exported_encodes_alike),
        cmocka_unit_test(what_has_changed_since_it_was_read_is_not_exported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
