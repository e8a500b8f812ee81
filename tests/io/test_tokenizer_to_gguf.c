/* Claims about tokenizers written as GGUF: the bytes that the gguf package writes, the same ids when they are read back, and refusals by name. */
/* ctest: device-free thread-free level-free */
#include "heap_test.h"
#include "io_test.h"

#include <jansson.h>

#include "tokenizer/to_gguf.h"

static rp_ctx *ctx;

static int setup(void **state)
{
    (void)state;
    ctx = test_ctx(NULL);
    temp_enter();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_leave(ctx);
    test_ctx_free(ctx);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const char *golden(const char *name)
{
    static char path[2][512];
    static int next;

    next ^= 1;
    snprintf(path[next], sizeof path[0], RP_SOURCE_DIR "/tests/golden/%s", name);
    return path[next];
}

static rp_tokenizer *load(const char *path)
{
    rp_tokenizer *t;

    assert_ok(ctx, rp__tokenizer_load(ctx, path, &t));
    return t;
}

/* As a file without tensors; more: ids without a token. */
static rp_status write_tokenizer(rp_tokenizer *t, int64_t more, const char *architecture, const char *to, rp_report *report)
{
    rp_gguf_writer *w = NULL;

    RP_TRY(rp__gguf_create(ctx, to, &w));
    rp_status status = rp__gguf_add_text(w, "general.architecture", rp__gguf_text(architecture));
    if (status == RP_OK) status = rp__tokenizer_to_gguf(t, rp__tokenizer_vocab(t) + more, w, report);
    if (status == RP_OK) return rp__gguf_commit(w);
    rp__gguf_discard(w);
    return status;
}

/* ---- against the gguf package ---- */

static void files_are_those_that_the_gguf_package_writes(void **state)
{
    json_t *all = json_load_file(golden("gguf/written.json"), 0, NULL), *want;
    const char *name;
    char path[600], hash[32];

    (void)state;
    json_object_foreach(json_object_get(all, "tokenizers"), name, want) {
        rp_report report;
        int64_t bytes;
        snprintf(path, sizeof path, "%s/%s", golden("tokenizer"), name);
        rp_tokenizer *t = load(path);
        rp__report_open(&report, ctx);
        assert_ok(ctx, write_tokenizer(t, 3, "llama", temp_path("t.gguf"), &report));
        char *text = whole(ctx, temp_path("t.gguf"), &bytes);
        snprintf(hash, sizeof hash, "%016" PRIx64, rp__hash(text, (size_t)bytes, RP_HASH_START));
        if (bytes != json_integer_value(json_array_get(want, 0)) || strcmp(hash, json_string_value(json_array_get(want, 1))))
            fail_msg("%s has other bytes, %" PRId64, name, bytes);
        rp__release(text);
        rp__report_close(&report);
        rp__tokenizer_free(t);
    }
    json_decref(all);
}

/* ---- read back ---- */

static void assert_same_ids(const char *name, rp_tokenizer *a, rp_tokenizer *b, const char *text, int64_t bytes)
{
    rp_ids x = { 0 }, y = { 0 };

    assert_ok(ctx, rp__tokenizer_encode(a, text, bytes, &x.at, &x.n));
    assert_ok(ctx, rp__tokenizer_encode(b, text, bytes, &y.at, &y.n));
    if (x.n != y.n || (x.n && memcmp(x.at, y.at, (size_t)x.n * sizeof *x.at))) fail_msg("%s: other ids for '%.*s'", name, (int)bytes, text);
    rp__release(x.at);
    rp__release(y.at);
}

/* Each line of a file of JSON strings. */
static int64_t compare_lines(const char *name, rp_tokenizer *a, rp_tokenizer *b, const char *path)
{
    int64_t bytes, n = 0;
    char *text = whole(ctx, path, &bytes), *line = text;

    for (char *end; (end = strchr(line, '\n')); line = end + 1, n++) {
        json_t *one = json_loadb(line, (size_t)(end - line), JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (json_is_string(one)) assert_same_ids(name, a, b, json_string_value(one), (int64_t)json_string_length(one));
        json_decref(one);
    }
    rp__release(text);
    return n;
}

/* Phi-3 tokens take white space, which the reader knows by the architecture. */
static void a_tokenizer_read_back_gives_the_same_ids(void **state)
{
    static const struct { const char *path, *architecture; bool families; } cases[] = {
        { "tokenizer/smollm", "llama", false }, { "tokenizer/gpt2", "gpt2", false }, { "tokenizer/llama3", "llama", false },
        { "tokenizer/qwen2", "qwen2", false }, { "tokenizer/o200k", "llama", false }, { "tokenizer/smollm.gguf", "llama", false },
        { "tokenizer/families/falcon", "llama", true }, { "tokenizer/families/llama2", "llama", true },
        { "tokenizer/families/phi3", "phi3", true }, { "tokenizer/families/llama2.model", "llama", true }, { "tokenizer/families/llama2.gguf", "llama", true },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_report report;
        rp_tokenizer *t = load(golden(cases[i].path));
        rp__report_open(&report, ctx);
        assert_ok(ctx, write_tokenizer(t, 0, cases[i].architecture, temp_path("back.gguf"), &report));
        rp_tokenizer *back = load(temp_path("back.gguf"));
        assert_int_equal(rp__tokenizer_vocab(back), rp__tokenizer_vocab(t));
        assert_int_equal(rp__tokenizer_bos(back), rp__tokenizer_bos(t));
        assert_int_equal(rp__tokenizer_eos(back), rp__tokenizer_eos(t));
        assert_int_equal(rp__tokenizer_adds_bos(back), rp__tokenizer_adds_bos(t));
        assert_true(compare_lines(cases[i].path, t, back, golden(cases[i].families ? "tokenizer/families/strings.jsonl" : "tokenizer/strings.jsonl")) > 100);
        rp__tokenizer_free(back);
        rp__tokenizer_free(t);
        rp__report_close(&report);
    }
}

/* Gemma's files put no space in front of a text, and split at spaces, of which none are left. */
static void a_tokenizer_without_a_space_in_front_reads_back_the_same(void **state)
{
    rp_report report;
    int64_t bytes;
    char *text   = whole(ctx, golden("tokenizer/families/llama2/tokenizer.json"), &bytes);
    json_t *root = json_loadb(text, (size_t)bytes, 0, NULL), *steps = json_object_get(json_object_get(root, "normalizer"), "normalizers");

    (void)state;
    json_object_set(root, "normalizer", json_array_get(steps, 1));
    json_object_set_new(root, "pre_tokenizer", json_pack("{sss{ss}sssb}", "type", "Split", "pattern", "String", " ", "behavior", "MergedWithPrevious",
                                                         "invert", 0));
    assert_int_equal(json_dump_file(root, temp_path("tokenizer.json"), 0), 0);
    rp_tokenizer *t = load(temp_path("tokenizer.json"));
    rp__report_open(&report, ctx);
    assert_ok(ctx, write_tokenizer(t, 0, "gemma2", temp_path("t.gguf"), &report));
    rp_tokenizer *back = load(temp_path("t.gguf"));
    assert_true(compare_lines("without a space", t, back, golden("tokenizer/families/strings.jsonl")) > 100);
    rp__tokenizer_free(back);
    rp__tokenizer_free(t);
    rp__report_close(&report);
    rp__release(text);
    json_decref(root);
}

/* ---- notes and refusals ---- */

static void what_gguf_cannot_say_is_noted(void **state)
{
    rp_report report;
    rp_tokenizer *t = load(golden("tokenizer/families/phi3"));

    (void)state;
    rp__report_open(&report, ctx);
    assert_ok(ctx, write_tokenizer(t, -1, "phi3", temp_path("t.gguf"), &report));
    assert_true(report.n_notes > 1);
    assert_non_null(strstr(report.first->text, "takes the white space or words beside it, which GGUF cannot express"));
    assert_non_null(strstr(report.last->text, "on have no embedding and are left out"));
    rp__report_close(&report);
    rp__tokenizer_free(t);
}

static void tokenizers_that_llama_cpp_does_not_have_are_refused(void **state)
{
    static const struct { const char *path, *says; } refused[] = {
        { "tokenizer/families/t5", "its model is no BPE, and llama.cpp's decoders have no other" },
        { "tokenizer/families/bert", "its model is no BPE" },
        { "tokenizer/families/clip", "its tokens have a prefix or a suffix inside words" },
        { "tokenizer/odd", "llama.cpp has no name for its pre-tokenizer and normalizer" },
        { "tokenizer/families/mistral", "its spaces are not marked as in llama.cpp's tokenizer 'llama'" },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(refused); i++) {
        rp_report report;
        rp_tokenizer *t = load(golden(refused[i].path));
        rp__report_open(&report, ctx);
        assert_int_equal(write_tokenizer(t, 0, "llama", temp_path("t.gguf"), &report), RP_ERR_UNSUPPORTED);
        if (!strstr(rp_error(ctx), refused[i].says)) fail_msg("%s: %s", refused[i].path, rp_error(ctx));
        assert_non_null(strstr(rp_error(ctx), "has no form in GGUF: "));
        rp__report_close(&report);
        rp__tokenizer_free(t);
    }
    assert_int_equal(n_files_in(temp_dir), 0);
}

/* Trained as merges: not every way to cut a token is a merge, as it is in files made from SentencePiece's scores. */
static void merges_that_do_not_follow_from_scores_are_refused(void **state)
{
    rp_report report;
    rp_tokenizer *t = load(golden("tokenizer/families/gemma"));

    (void)state;
    rp__report_open(&report, ctx);
    assert_int_equal(write_tokenizer(t, 0, "gemma2", temp_path("t.gguf"), &report), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(ctx), "its merges do not follow from scores of its tokens"));
    rp__report_close(&report);
    rp__tokenizer_free(t);
}

/* ---- faults ---- */

static rp_status write_noted(rp_ctx *of, void *tokenizer)
{
    rp_tokenizer *t = tokenizer;
    rp_report report;

    (void)of;
    rp__report_open(&report, ctx);
    rp_status status = write_tokenizer(t, 1, "llama", temp_path("faults.gguf"), &report);
    if (report.lost) status = RP_ERR_MEMORY;
    rp__report_close(&report);
    return status;
}

/* Of the library, of jansson and of PCRE2: a byte-level tokenizer of 257 tokens, and SentencePiece's, of which some allocations are tried. */
static void whichever_allocation_fails_is_reported(void **state)
{
    static const struct { const char *path; heap_sweep sweep; } uses[] = {
        { RP_SOURCE_DIR "/recipes/tiny_llama/tokenizer.json", { .each = 200, .least = 10 } },
        { RP_SOURCE_DIR "/tests/golden/tokenizer/families/llama2", { .each = 20, .least = 10 } },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(uses); i++) {
        rp_tokenizer *t = load(uses[i].path);
        every_allocation_fails_once(ctx, &uses[i].sweep, write_noted, t);
        rp__tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_those_that_the_gguf_package_writes),
        TEST(a_tokenizer_read_back_gives_the_same_ids),
        TEST(a_tokenizer_without_a_space_in_front_reads_back_the_same),
        TEST(what_gguf_cannot_say_is_noted),
        TEST(tokenizers_that_llama_cpp_does_not_have_are_refused),
        TEST(merges_that_do_not_follow_from_scores_are_refused),
        TEST(whichever_allocation_fails_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
