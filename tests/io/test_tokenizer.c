/* Claims about the tokenizer. Truth is the `tokenizers` package: tests/golden/tokenizer, made by tools/make_tokenizers.py and
 * tools/goldens_tokenizer.py. */
/* ctest: device-free thread-free cost=22 */
#include "rp_test.h"

#include <unistd.h>

#include "texts_test.h"

static rp_tokenizer *load(rp_ctx *ctx, const char *name) { return golden_tokenizer(ctx, "", name); }

/* ---- the golden strings ---- */

typedef void (*case_fn)(rp_ctx *ctx, void *user, const char *text, int64_t bytes, const json_t *expected);

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
        snprintf(hash, sizeof hash, "%016" PRIx64, hash_of_ids(ids));
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
    rp_ids ids = encode_text(ctx, c->t, text, bytes);

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

static const char *setting_of(const char *name)
{
    return strcmp(name, "odd") ? "a@1@ @@'@\xcc\xa3\xcc\x81\n@" : "word@word @<l>@<r>@ @zz";
}

static void every_code_point_agrees(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    assert_int_equal(check_points(ctx, "", setting_of), 2 * 272 + 4 * 80);       /* planes 4 to 13, 15 and 16 for two of the six */
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
    rp_ids ids = encode_text(ctx, user, text, bytes);
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
    rp_ids ids        = encode_text(ctx, t, text, (int64_t)strlen(text));
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
/* Of ways with the same score the one that is found first stays, as in tokenizers 0.23: from the left, short before long. */
static void of_ways_with_one_score_the_first_is_taken(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1],[\"b\",-1],[\"ab\",-2],[\"ba\",-2],[\"abab\",-4]]}}";
    static const struct { const char *text; int32_t id[3]; int n; } cases[] = {
        { "ab", { 3 }, 1 }, { "aba", { 1, 4 }, 2 }, { "abab", { 5 }, 1 }, { "bab", { 2, 3 }, 2 }, { "babab", { 2, 5 }, 2 },
    };
    rp_ctx *ctx     = test_ctx(NULL);
    rp_tokenizer *t = NULL;
    json_t *root    = NULL;

    assert_ok(ctx, rp__tokenizer_json(ctx, "t.json", text, (int64_t)strlen(text), &root));
    assert_ok(ctx, rp__tokenizer_build(ctx, "t.json", root, NULL, &t));
    json_decref(root);
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_ids ids = encode_text(ctx, t, cases[i].text, (int64_t)strlen(cases[i].text));
        if (ids.n != cases[i].n || memcmp(ids.at, cases[i].id, (size_t)ids.n * sizeof *ids.at)) fail_msg("%s", cases[i].text);
        rp__release(ids.at);
    }
    rp__tokenizer_free(t);
    test_ctx_free(ctx);
}

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

    (void)state;
    tokenizers_with_faults(names, RP_COUNT(names), 30, whole_life);
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

#define SMALL "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static void what_has_changed_since_it_was_read_is_not_exported(void **state)
{
    char folder[] = "/tmp/rp_tokenizer_XXXXXX", path[64], out[64], expected[160];
    rp_ctx *ctx   = test_ctx(NULL);
    rp_tokenizer *t;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    assert_ok(ctx, rp__file_write(ctx, path, SMALL "}", (int64_t)strlen(SMALL "}")));
    t = load(ctx, folder);
    assert_ok(ctx, rp__file_write(ctx, path, SMALL " }", (int64_t)strlen(SMALL " }")));
    assert_int_equal(rp__tokenizer_export(t, out), RP_ERR_IO);
    snprintf(expected, sizeof expected, "'%s' has changed since it was read: restore the original file", path);
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
        cmocka_unit_test(of_ways_with_one_score_the_first_is_taken),
        cmocka_unit_test(a_length_beyond_64_bits_beside_a_tokenizer_is_read),
        cmocka_unit_test(each_failing_allocation_is_an_error_that_leaks_nothing),
        cmocka_unit_test(what_is_exported_encodes_alike),
        cmocka_unit_test(what_has_changed_since_it_was_read_is_not_exported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
