/* Claims about the work that a tokenizer's regular expressions may take: it is bounded for each text, whatever the pattern is. */
/* ctest: device-free thread-free */
#include "io/small_gguf.h"
#include "texts_test.h"

#include <utf8proc.h>

#define TOO_MUCH "its pattern takes more than 10000000 steps and 64 a byte on this text, at byte "

static rp_pattern *pattern(rp_ctx *ctx, const char *text)
{
    rp_pattern *p = NULL;

    assert_ok(ctx, rp__pattern_new(ctx, text, (int64_t)strlen(text), 0, &p));
    return p;
}

/* `unit` over and over. */
static char *repeated(const char *unit, int64_t bytes)
{
    int64_t n  = (int64_t)strlen(unit);
    char *text = malloc((size_t)bytes);

    assert_non_null(text);
    for (int64_t i = 0; i < bytes; i++) text[i] = unit[i % n];
    return text;
}

/* PCRE2's limit of matching does not bound all of these: an item runs over many bytes in one of its steps. */
static void an_item_pays_for_each_byte_that_it_runs_over(void **state)
{
    enum { N = 300000 };
    static const struct { const char *pattern, *unit;
    } cases[] = {
        { "(?<!q)a*+[cd]", "a" },
        { "(?=(?:a*+x|a*+y|a*+z))a", "a" },
        { "a*a*a*a*[bc]", "a" },
        { "a*[bc]", "a" },
        { ".*.*[bc]", "a" },
        { "[^b]*[bc]", "a" },
        { "\\p{L}*\\p{Lu}", "a" },
        { "(?>a*)(?!a)[bc]", "a" },
        { "(a+)+[bc]", "a" },
        { "(?:a?){30}a{30}[bc]", "a" },
        { "a{60000}[bc]", "a" },
        { "(?<=a{1000})[bc]|(?<=a{1000}b)a", "a" },
        { "[\xc4\x80-\xc4\x90]{900}[bc]", "\xc4\x81" },
    };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_pattern *p = pattern(ctx, cases[i].pattern);
        char *text    = repeated(cases[i].unit, N);
        int64_t start, end;
        if (rp__pattern_next(p, text, N, false, 0, &start, &end) != RP_ERR_UNSUPPORTED || !strstr(rp_error(ctx), TOO_MUCH "0"))
            fail_msg("'%s' is not refused", cases[i].pattern);
        rp__pattern_free(p);
        free(text);
    }
    test_ctx_free(ctx);
}

/* Texts that are hard for what published models cut at. */
static const char *const units[] = { "a", "A", " ", "\n", " \n", "7", "\xe4\xb8\xad", "\xf0\x9f\x98\x80", "aA", "!", "e\xcc\x81", " a", "\xcc\x81" };

static void patterns_of_published_models_stay_below_the_limit(void **state)
{
    enum { N = 1 << 18 };
    static const char *const names[] = { "gpt2", "llama3", "qwen2", "o200k", "smollm" };
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; i < RP_COUNT(names) * RP_COUNT(units); i += test_few_or(4, 1)) {
        rp_tokenizer *t = golden_tokenizer(ctx, "", names[i % RP_COUNT(names)]);
        char *text      = repeated(units[i / RP_COUNT(names)], N);
        rp_ids ids      = encode_text(ctx, t, text, N);
        assert_true(t->encoding.work.steps <= 48 * (int64_t)N);
        rp__release(ids.at);
        rp__tokenizer_free(t);
        free(text);
    }
    test_ctx_free(ctx);
}

/* The patterns of every name that GGUF files have for a pre-tokenizer. */
static void so_do_all_that_gguf_names(void **state)
{
    enum { N = 1 << 16 };
    rp_ctx *ctx = test_ctx(NULL);
    FILE *file  = fopen(GOLDEN "families/named.txt", "re");
    char name[40];
    unsigned long long hash;

    (void)state;
    assert_non_null(file);
    for (int n = 0; fscanf(file, "%39s %llx", name, &hash) == 2; n++) {
        json_t *root = NULL, *config = NULL;
        rp_tokenizer *t = NULL;
        assert_ok(ctx, small_gguf(ctx, "gpt2", name, (const char *const[]){ "a b" }, &root, &config));
        assert_ok(ctx, rp__tokenizer_build(ctx, "t.gguf", root, config, &t));
        for (int u = n % test_few_or(5, 1); u < RP_COUNT(units); u += test_few_or(5, 1)) {
            char *text = repeated(units[u], N);
            rp_ids ids = encode_text(ctx, t, text, N);
            if (t->encoding.work.steps > 48 * (int64_t)N) fail_msg("%s: %" PRId64 " steps a byte of '%s'", name, t->encoding.work.steps / N, units[u]);
            rp__release(ids.at);
            free(text);
        }
        rp__tokenizer_free(t);
        json_decref(root);
        json_decref(config);
    }
    fclose(file);
    test_ctx_free(ctx);
}

/* Each alone would be within the limit. */
static void the_patterns_of_a_tokenizer_share_the_steps_of_a_text(void **state)
{
    enum { N = 170 };
    static const char one[]  = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?:a*a*b|a)\"},\"behavior\":\"Contiguous\"}";
    static const char model[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[";
    rp_ctx *ctx = test_ctx(NULL);
    char *text  = repeated("a", N);

    (void)state;
    for (int stages = 1; stages <= 8; stages += 7) {
        rp_tokenizer *t = NULL;
        json_t *root    = NULL;
        rp_bytes all    = { 0 };
        rp_ids ids      = { 0 };
        assert_ok(ctx, rp__bytes_push(ctx, &all, model, (int64_t)strlen(model)));
        for (int i = 0; i < stages; i++) {
            if (i) assert_ok(ctx, rp__bytes_push(ctx, &all, ",", 1));
            assert_ok(ctx, rp__bytes_push(ctx, &all, one, (int64_t)strlen(one)));
        }
        assert_ok(ctx, rp__bytes_push(ctx, &all, "]}}", 4));
        assert_ok(ctx, rp__tokenizer_json(ctx, "t.json", all.at, all.n - 1, &root));
        assert_ok(ctx, rp__tokenizer_build(ctx, "t.json", root, NULL, &t));
        for (int again = 0; again < 2; again++) {            /* the next text has its own */
            rp_status status = rp__tokenizer_encode(t, text, N, &ids.at, &ids.n);
            assert_int_equal(status, stages == 1 ? RP_OK : RP_ERR_UNSUPPORTED);
            if (status == RP_OK) rp__release(ids.at);
            else assert_non_null(strstr(rp_error(ctx), TOO_MUCH));
        }
        rp__tokenizer_free(t);
        json_decref(root);
        rp__release(all.at);
    }
    free(text);
    test_ctx_free(ctx);
}

/* PCRE2's tables may be older than the Unicode version of tokenizers; these characters are added to their categories. */
static void each_new_character_is_in_its_category(void **state)
{
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int i = 0; rp__late_range(i); i++) {
        const rp_late_range *late = rp__late_range(i);
        char text[16] = "\1", pattern[16];
        int64_t start, end;
        rp_pattern *p;
        int n = 1;
        if (late->category[0] == '+') continue;
        snprintf(pattern, sizeof pattern, "\\p{%s}+", late->category);
        assert_ok(ctx, rp__pattern_new(ctx, pattern, (int64_t)strlen(pattern), 0, &p));
        n += (int)utf8proc_encode_char((utf8proc_int32_t)late->first, (utf8proc_uint8_t *)text + n);
        n += (int)utf8proc_encode_char((utf8proc_int32_t)late->last, (utf8proc_uint8_t *)text + n);
        assert_ok(ctx, rp__pattern_next(p, text, n, false, 0, &start, &end));
        if (start != 1 || end != n) fail_msg("U+%04X is not in %s", (unsigned)late->first, late->category);
        rp__pattern_free(p);
    }
    test_ctx_free(ctx);
}

static void a_pattern_has_so_many_bytes_and_a_class_so_many_characters(void **state)
{
    rp_ctx *ctx   = test_ctx(NULL);
    rp_pattern *p = NULL;
    char *text    = repeated("a", 5000);

    (void)state;
    assert_ok(ctx, rp__pattern_new(ctx, text, 4096, 0, &p));
    rp__pattern_free(p);
    p = NULL;
    assert_int_equal(rp__pattern_new(ctx, text, 4097, 0, &p), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(ctx), "aaa' has 4097 bytes; at most 4096 are supported"));
    text[0]   = '[';
    text[513] = ']';
    assert_ok(ctx, rp__pattern_new(ctx, text, 514, 0, &p));
    rp__pattern_free(p);
    p         = NULL;
    text[513] = 'a';
    text[514] = ']';
    assert_int_equal(rp__pattern_new(ctx, text, 515, 0, &p), RP_ERR_UNSUPPORTED);
    assert_non_null(strstr(rp_error(ctx), "uses a class of more than 512 characters, which is not supported"));
    assert_null(p);
    free(text);
    test_ctx_free(ctx);
}

/* Before a letter the pattern of Llama 3 gives back a whole run of spaces, once. */
static void a_long_run_of_spaces_stays_within_the_limit_of_steps(void **state)
{
    (void)state;
    enum { N = 4 << 20 };
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

/* Places before a match cost as much as the match: a search that finds nothing pays at each. */
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

/* Without room for machine code PCRE2 interprets, and what it holds of a match is bounded as well. */
static void an_interpreted_match_holds_so_much(void **state)
{
    enum { LENGTH = 1 << 20 };
    static const char slow[] = "(?:a|b)*[cd]";
    rp_ctx *ctx     = test_ctx(NULL);
    char *text      = repeated("a", LENGTH);
    test_faults f   = { .survived = true };
    int interpreted = 0;

    (void)state;
    while (!f.over) {
        rp_pattern *p = NULL;
        int64_t start, end;
        test_fault_begin(&f, ctx);
        test_fault_end(&f, rp__pattern_new(ctx, slow, (int64_t)strlen(slow), 0, &p));
        if (p && !f.over) {
            assert_int_equal(rp__pattern_next(p, text, LENGTH, false, 0, &start, &end), RP_ERR_UNSUPPORTED);
            assert_string_equal(rp_error(ctx), "its pattern cannot be matched against this text: heap limit exceeded");
            interpreted++;
        }
        rp__pattern_free(p);
    }
    assert_true(interpreted >= 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_pays_for_each_byte_that_it_runs_over),
        cmocka_unit_test(patterns_of_published_models_stay_below_the_limit),
        cmocka_unit_test(so_do_all_that_gguf_names),
        cmocka_unit_test(the_patterns_of_a_tokenizer_share_the_steps_of_a_text),
        cmocka_unit_test(each_new_character_is_in_its_category),
        cmocka_unit_test(a_pattern_has_so_many_bytes_and_a_class_so_many_characters),
        cmocka_unit_test(a_text_has_so_many_steps_however_many_matches),
        cmocka_unit_test(a_match_that_its_stack_does_not_hold_is_refused),
        cmocka_unit_test(a_search_that_finds_nothing_shares_the_steps_too),
        cmocka_unit_test(an_interpreted_match_holds_so_much),
        cmocka_unit_test(a_hexadecimal_escape_is_one_character),
        cmocka_unit_test(a_long_run_of_spaces_stays_within_the_limit_of_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
