/* Claims about texts that come in pieces: wherever a text is cut, its ids are those of the whole, and what is held is little. */
/* ctest: device-free thread-free cost=12 */
#include "texts_test.h"

static const char *const tokenizers[] = {
    "families/albert", "families/bert", "families/bert_cased", "families/clip", "families/falcon", "families/gemma", "families/llama2", "families/mistral",
    "families/mixed", "families/openai", "families/phi3", "families/rest", "families/t5", "families/t5_old", "families/unigram_bytes",
    "families/llama2.gguf", "families/bert.gguf", "families/t5.gguf", "gpt2", "llama3", "qwen2", "o200k", "odd", "smollm", "smollm.gguf", "spm",
};

static rp_tokenizer *load(rp_ctx *ctx, const char *name) { return golden_tokenizer(ctx, "", name); }

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- ids ---- */

static rp_status encode_pieces(rp_ctx *ctx, rp_tokenizer *t, const rp_bytes *text, int64_t longest, uint64_t *random, rp_ids *out)
{
    int part = RP_TEXT_BEGINS;

    for (int64_t at = 0; !(part & RP_TEXT_ENDS); part &= ~RP_TEXT_BEGINS) {
        int64_t n   = least((int64_t)(draw(random) % (uint64_t)(longest + 1)), text->n - at), n_ids = 0;
        char *piece = malloc((size_t)n + 1);        /* a sanitizer sees what is read beyond it */
        int32_t *ids = NULL;
        if (n) memcpy(piece, text->at + at, (size_t)n);
        at += n;
        if (at == text->n) part |= RP_TEXT_ENDS;
        rp_status status = rp__tokenizer_feed(t, piece, n, (rp_text_part)part, &ids, &n_ids);
        free(piece);
        for (int64_t i = 0; i < n_ids && status == RP_OK; i++) status = rp__ids_push(ctx, out, ids[i]);
        rp__release(ids);
        if (status != RP_OK) return status;
    }
    return RP_OK;
}

static void same_in_pieces(rp_ctx *ctx, rp_tokenizer *t, const char *name, const rp_bytes *text, int64_t longest, uint64_t *random)
{
    rp_ids pieces = { 0 }, whole = { 0 };
    uint64_t seed = *random;
    int64_t i     = 0;

    assert_ok(ctx, rp__tokenizer_encode(t, text->at ? text->at : "", text->n, &whole.at, &whole.n));
    assert_ok(ctx, encode_pieces(ctx, t, text, longest, random, &pieces));
    while (i < whole.n && i < pieces.n && whole.at[i] == pieces.at[i]) i++;
    if (i < whole.n || i < pieces.n)
        fail_msg("%s, seed %llu, pieces of at most %lld bytes: %lld ids, in pieces %lld; id %lld is the first that differs\n'%.*s'", name,
                 (unsigned long long)seed, (long long)longest, (long long)whole.n, (long long)pieces.n, (long long)i,
                 (int)(text->n < 300 ? text->n : 300), text->at);
    rp__release(whole.at);
    rp__release(pieces.at);
}

static void a_text_in_pieces_has_the_ids_of_the_whole(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    texts *all      = all_texts(ctx);
    uint64_t random = 1;

    for (int k = 0; k < RP_COUNT(tokenizers); k++) {
        rp_tokenizer *t = load(ctx, tokenizers[k]);
        for (int i = (int)(draw(&random) % 8) * test_takes_samples(); i < all->n; i += test_takes_samples() ? 8 : 1)
            for (int64_t longest = 1; longest <= 49; longest = 7 * longest)
                same_in_pieces(ctx, t, tokenizers[k], &all->text[i], longest, &random);
        rp__tokenizer_free(t);
    }
    free_texts(all);
    test_ctx_free(ctx);
}

static rp_bytes join_some(rp_ctx *ctx, const texts *all, uint64_t *random)
{
    static const char *const between[] = { "", "", " ", "\n", "\n\n", "  ", "\xcc\x81", "\xe2\x96\x81" };
    rp_bytes out = { 0 };

    for (int n = 2 + (int)(draw(random) % 40); n > 0; n--) {
        const rp_bytes *text = &all->text[draw(random) % (uint64_t)all->n];
        int64_t from         = text->n > 300 ? (int64_t)(draw(random) % (uint64_t)text->n) : 0;
        const char *gap      = between[draw(random) % RP_COUNT(between)];
        assert_ok(ctx, rp__bytes_push(ctx, &out, text->at ? text->at + from : "", least(text->n - from, 300)));
        assert_ok(ctx, rp__bytes_push(ctx, &out, gap, (int64_t)strlen(gap)));
    }
    return out;
}

static void joined_texts_in_pieces_have_the_ids_of_the_whole(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    texts *all      = all_texts(ctx);
    uint64_t random = 2;

    for (int k = 0; k < RP_COUNT(tokenizers); k++) {
        rp_tokenizer *t = load(ctx, tokenizers[k]);
        for (int i = 0; i < test_draws(60); i++) {
            rp_bytes text = join_some(ctx, all, &random);
            same_in_pieces(ctx, t, tokenizers[k], &text, 1 + (int64_t)(draw(&random) % (i % 2 ? 50 : 1000)), &random);
            rp__release(text.at);
        }
        rp__tokenizer_free(t);
    }
    free_texts(all);
    test_ctx_free(ctx);
}

/* ---- tokenizers drawn from all parts there are ---- */

#define SPACE "\xe2\x96\x81"
#define REGEX(text) "\"pattern\":{\"Regex\":\"" text "\"}"
#define SPLIT(text, behaviour, invert) "{\"type\":\"Split\"," REGEX(text) ",\"behavior\":\"" behaviour "\",\"invert\":" invert "}"
#define BEHAVIOURS(text, invert) \
    SPLIT(text, "Isolated", invert), SPLIT(text, "Removed", invert), SPLIT(text, "Contiguous", invert), \
        SPLIT(text, "MergedWithPrevious", invert), SPLIT(text, "MergedWithNext", invert)
#define METASPACE(scheme, split) \
    "{\"type\":\"Metaspace\",\"replacement\":\"" SPACE "\",\"prepend_scheme\":\"" scheme "\",\"split\":" split "}"

static const char *const stages[] = {
    BEHAVIOURS("a+", "false"),
    BEHAVIOURS("a+", "true"),
    BEHAVIOURS("ab|b(?=a)", "false"),
    BEHAVIOURS("\\\\s+(?!\\\\S)|\\\\s", "false"),
    BEHAVIOURS("(?<=ab)1|^b|a$", "true"),
    BEHAVIOURS("x*", "false"),
    BEHAVIOURS("(?<!a)b", "false"),
    BEHAVIOURS("$|(?!a|b)1", "false"),
    BEHAVIOURS("\\\\s*\\\\n", "true"),
    METASPACE("first", "true"),
    METASPACE("always", "true"),
    METASPACE("never", "false"),
    METASPACE("first", "false"),
    "{\"type\":\"Digits\",\"individual_digits\":true}",
    "{\"type\":\"Digits\",\"individual_digits\":false}",
    "{\"type\":\"Whitespace\"}",
    "{\"type\":\"WhitespaceSplit\"}",
    "{\"type\":\"BertPreTokenizer\"}",
    "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"b\"}",
    "{\"type\":\"Punctuation\",\"behavior\":\"Contiguous\"}",
};
/* What ends a pipeline that goes over to the byte-level alphabet. */
#define BYTES(prefix, regex) "{\"type\":\"ByteLevel\",\"add_prefix_space\":" prefix ",\"use_regex\":" regex "}"
static const char *const ends[] = {
    BYTES("true", "true"), BYTES("false", "true"), BYTES("true", "false"), BYTES("false", "false") "," SPLIT("a+", "MergedWithNext", "false"),
    BYTES("true", "true") ",{\"type\":\"Digits\",\"individual_digits\":false}",
};
static const char *const normalizers[] = {
    "{\"type\":\"NFC\"}", "{\"type\":\"NFKD\"}", "{\"type\":\"Lowercase\"}", "{\"type\":\"StripAccents\"}", "{\"type\":\"BertNormalizer\"}",
    "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}", "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}",
    "{\"type\":\"Prepend\",\"prepend\":\"" SPACE "\"}", "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}",
    "{\"type\":\"Replace\"," REGEX(" {2,}") ",\"content\":\"" SPACE "\"}", "{\"type\":\"Replace\"," REGEX("(?<=a)b+(?=1)|^\\\\s") ",\"content\":\"b1\"}",
    "{\"type\":\"Replace\"," REGEX("x*") ",\"content\":\"a\"}",
};
static const char *const models[] = {
    ("{\"type\":\"BPE\",\"unk_token\":\"?\",\"fuse_unk\":true,\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\" \":3,\"" SPACE "\":4,\"ab\":5,\"abab\":6,\"" SPACE "a\":7,"
    "\"\\n\":8,\"1\":9,\"11\":10,\"ba\":11,\"<\":12},\"merges\":[\"a b\",\"ab ab\",\"" SPACE " a\",\"1 1\",\"b a\"]}"),
    "{\"type\":\"BPE\",\"vocab\":{\"a\":1,\"b\":2,\"ab\":5,\"bab\":0,\"\xc3\xa9\":3,\"b1\":4,\"1\":6},\"merges\":[\"a b\",\"b ab\",\"b 1\"]}",
    "{\"type\":\"BPE\",\"unk_token\":\"?\",\"end_of_word_suffix\":\"~\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"a~\":3,\"b~\":4},\"merges\":[]}",
    "{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"?\",0],[\"a\",-1.5],[\"b\",-1.7],[\"ab\",-2.9],[\"" SPACE "\",-2],[\"" SPACE "a\",-3],[\"1\",-2]]}",
    ("{\"type\":\"WordPiece\",\"unk_token\":\"?\",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":12,\"vocab\":{\"?\":0,\"a\":1,\"##a\":2,"
    "\"##b\":3,\"b\":4,\"1\":5,\"##ab\":6}}"),
};
#define ADDED(id, text, flags) "{\"id\":" #id ",\"content\":\"" text "\"," flags "},"
#define FLAGS(lstrip, rstrip, word, normalized, special) \
    "\"lstrip\":" lstrip ",\"rstrip\":" rstrip ",\"single_word\":" word ",\"normalized\":" normalized ",\"special\":" special
static const char *const added[] = {
    ADDED(20, "<a>", FLAGS("false", "false", "false", "false", "true")), ADDED(21, "<a>b", FLAGS("true", "false", "false", "false", "false")),
    ADDED(22, "<b>", FLAGS("true", "true", "false", "true", "false")), ADDED(23, "bb", FLAGS("false", "false", "true", "true", "false")),
    ADDED(24, "1a1", FLAGS("false", "true", "true", "false", "false")), ADDED(25, " ", FLAGS("false", "false", "false", "false", "false")),
    ADDED(26, "\xc3\xa9", FLAGS("false", "true", "false", "true", "false")),
};

static void put(rp_ctx *ctx, rp_bytes *out, const char *text) { assert_ok(ctx, rp__bytes_push(ctx, out, text, (int64_t)strlen(text))); }

static void put_some(rp_ctx *ctx, rp_bytes *out, const char *const *from, int n_from, int most, const char *between, uint64_t *random)
{
    int n = (int)(draw(random) % (uint64_t)(most + 1));

    for (int i = 0; i < n; i++) {
        if (i) put(ctx, out, between);
        put(ctx, out, from[draw(random) % (uint64_t)n_from]);
    }
}

static rp_tokenizer *draw_tokenizer(rp_ctx *ctx, rp_bytes *made, uint64_t *random)
{
    rp_tokenizer *t = NULL;
    json_t *root    = NULL;

    made->n = 0;
    put(ctx, made, "{\"model\":");
    put(ctx, made, models[draw(random) % RP_COUNT(models)]);
    put(ctx, made, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    put_some(ctx, made, normalizers, RP_COUNT(normalizers), 3, ",", random);
    put(ctx, made, "]},\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    int64_t none = made->n;
    put_some(ctx, made, stages, RP_COUNT(stages), 3, ",", random);
    if (draw(random) % 3 == 0) {
        put(ctx, made, made->n > none ? "," : "");
        put_some(ctx, made, ends, RP_COUNT(ends), 1, "", random);
        if (made->at[made->n - 1] == ',') made->n--;
    }
    put(ctx, made, "]},\"added_tokens\":[");
    put_some(ctx, made, added, RP_COUNT(added), 3, "", random);
    if (made->at[made->n - 1] == ',') made->n--;
    put(ctx, made, "]}");
    assert_ok(ctx, rp__bytes_push(ctx, made, "", 1));
    assert_ok(ctx, rp__tokenizer_json(ctx, "drawn", made->at, made->n - 1, &root));
    assert_ok(ctx, rp__tokenizer_build(ctx, made->at, root, NULL, &t));
    json_decref(root);
    return t;
}

static rp_bytes draw_text(rp_ctx *ctx, uint64_t *random)
{
    static const char *const units[] = { "a", "b", "ab", "1", "x", " ", "  ", "\n", "<a>", "<b>", "<", ".", "A", "e\xcc\x81", "\xc3\xa9", "\xcc\xa3",
                                         "\xe4\xb8\xad", SPACE, "\xff", "\xe2\x96", "bb", "1a1", "\r\n", "\xe2\x80\x83" };
    rp_bytes text = { 0 };
    int n_kinds   = 2 + (int)(draw(random) % (RP_COUNT(units) - 1));

    for (int n = (int)(draw(random) % 120); n > 0; n--) put(ctx, &text, units[draw(random) % (uint64_t)n_kinds]);
    return text;
}

static void whatever_parts_a_tokenizer_has_pieces_do_not_show(void **state)
{
    (void)state;
    rp_ctx *ctx     = test_ctx(NULL);
    rp_bytes made   = { 0 };
    uint64_t random = 3;

    for (int k = 0; k < test_draws(1500); k++) {
        rp_tokenizer *t = draw_tokenizer(ctx, &made, &random);
        for (int i = 0; i < 12; i++) {
            rp_bytes text = draw_text(ctx, &random);
            same_in_pieces(ctx, t, made.at, &text, 1 + (int64_t)(draw(&random) % 20), &random);
            rp__release(text.at);
        }
        rp__tokenizer_free(t);
    }
    rp__release(made.at);
    test_ctx_free(ctx);
}

/* ---- what is held ---- */

static int64_t bytes_held(const rp_tokenizer *t)
{
    int64_t sum = 0;

    for (int k = 0; k < t->encoding.n_levels; k++) sum += t->encoding.level[k].held.room;
    return sum;
}

/* The most that is held while a text of so many megabytes comes in pieces of 64 KiB. */
static int64_t most_held(rp_ctx *ctx, rp_tokenizer *t, const char *unit, int megabytes)
{
    enum { PIECE = 1 << 16 };
    char *piece  = malloc(PIECE);
    int64_t most = 0, n_ids, unit_bytes = (int64_t)strlen(unit);

    for (int64_t at = 0; at < (int64_t)megabytes << 20; at += PIECE) {
        int32_t *ids = NULL;
        for (int64_t i = 0; i < PIECE; i++) piece[i] = unit[(at + i) % unit_bytes];
        assert_ok(ctx, rp__tokenizer_feed(t, piece, PIECE, at ? 0 : RP_TEXT_BEGINS, &ids, &n_ids));
        rp__release(ids);
        if (bytes_held(t) > most) most = bytes_held(t);
    }
    free(piece);
    return most;
}

static void a_text_of_any_length_is_not_held(void **state)
{
    static const char prose[] = "It was the best of times, it was the worst of times; caf\xc3\xa9s in \xe4\xb8\xad\xe5\x9b\xbd, and no digit.\n";
    rp_ctx *ctx = test_ctx(NULL);

    (void)state;
    for (int k = 0; k < RP_COUNT(tokenizers); k += test_few_or(3, 1)) {
        rp_tokenizer *t = load(ctx, tokenizers[k]);
        int64_t most    = most_held(ctx, t, prose, test_few_or(2, 4));
        if (most > 3 << 19) fail_msg("%s holds %lld bytes", tokenizers[k], (long long)most);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

/* Nothing can be cut there; what grows by doubling is looked at again as often as it doubles. */
static void a_text_without_a_place_to_cut_is_held_and_takes_time_in_proportion(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    for (int k = 0; k < 3; k++) {
        const char *unit = (const char *[]){ "a", " ", "<|im_start" }[k];
        rp_tokenizer *t  = load(ctx, "qwen2");
        int64_t text     = k < 2 ? 4 << 20 : 0;
        assert_in_range(most_held(ctx, t, unit, 4), text, 3 * text + (1 << 19));
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

/* ---- what goes wrong ---- */

static void a_text_that_was_left_does_not_show_in_the_next(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);

    for (int k = 0; k < RP_COUNT(tokenizers); k++) {
        rp_tokenizer *t = load(ctx, tokenizers[k]);
        int32_t *ids[3] = { 0 };
        int64_t n[3];
        assert_ok(ctx, rp__tokenizer_encode(t, "b c", 3, &ids[0], &n[0]));
        assert_ok(ctx, rp__tokenizer_feed(t, "some wor", 8, RP_TEXT_BEGINS, &ids[1], &n[1]));
        assert_ok(ctx, rp__tokenizer_encode(t, "b c", 3, &ids[2], &n[2]));
        assert_int_equal(n[0], n[2]);
        assert_memory_equal(ids[0], ids[2], (size_t)n[0] * sizeof *ids[0]);
        for (int i = 0; i < 3; i++) rp__release(ids[i]);
        rp__tokenizer_free(t);
    }
    test_ctx_free(ctx);
}

static void a_failing_allocation_in_a_piece_is_an_error_and_the_next_text_is_well(void **state)
{
    static const char text[] = "  Caf\xc3\xa9 e\xcc\x81\xcc\xa3 word 1234 \xff <|im_start|>\n\n  x's averylongword ``a'' ";
    rp_ctx *ctx              = test_ctx(NULL);
    rp_bytes whole           = { (char *)(uintptr_t)text, sizeof text - 1, 0 };

    (void)state;
    for (int k = 0; k < RP_COUNT(tokenizers); k++) {
        test_faults f = { .each = test_few_or(6, 0), .survived = true };
        while (!f.over) {
            rp_tokenizer *t = load(ctx, tokenizers[k]);
            uint64_t random = 4;
            rp_ids out      = { 0 };
            test_fault_begin(&f, ctx);
            test_fault_end(&f, encode_pieces(ctx, t, &whole, 9, &random, &out));
            same_in_pieces(ctx, t, tokenizers[k], &whole, 9, &random);
            rp__release(out.at);
            rp__tokenizer_free(t);
        }
    }
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_in_pieces_has_the_ids_of_the_whole),
        cmocka_unit_test(joined_texts_in_pieces_have_the_ids_of_the_whole),
        cmocka_unit_test(whatever_parts_a_tokenizer_has_pieces_do_not_show),
        cmocka_unit_test(a_text_of_any_length_is_not_held),
        cmocka_unit_test(a_text_without_a_place_to_cut_is_held_and_takes_time_in_proportion),
        cmocka_unit_test(a_text_that_was_left_does_not_show_in_the_next),
        cmocka_unit_test(a_failing_allocation_in_a_piece_is_an_error_and_the_next_text_is_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
