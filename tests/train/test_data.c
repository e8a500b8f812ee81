/* Claims about datasets: what becomes a document, a sample, a batch, and in which order. */
#include "rp_test.h"

#include "temp.h"
#include "train/data.h"
#include "train/shuffle.h"

/* A tokenizer whose ids are bytes. */
enum { BOS = 256, EOS = 257, VOCAB = 258, MARK = -100 };

static rp_status encode_bytes(void *user, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    (void)part;
    int32_t *out = bytes ? rp__host_alloc(user, bytes * (int64_t)sizeof *out) : NULL;

    if (bytes && !out) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < bytes; i++) out[i] = (uint8_t)text[i];
    *ids   = out;
    *n_ids = bytes;
    return RP_OK;
}

static rp_data_source source_of(rp_ctx *ctx)
{
    return (rp_data_source){ .user = ctx, .encode = encode_bytes, .bos = BOS, .eos = EOS, .adds_bos = false, .vocab = VOCAB };
}

static rp_data_config config_of(const char *path, const char *format)
{
    return (rp_data_config){ .path = path, .format = format, .column = "text", .packed = true, .train_on_input = true, .max_seq_len = 4,
                             .batch_size = 1, .accumulation = 1, .ranks = 1, .ignore_index = MARK };
}

static rp_data *open_data(rp_ctx *ctx, const rp_data_config *c)
{
    rp_data_source s = source_of(ctx);
    rp_data *d;

    assert_ok(ctx, rp__data_open(ctx, "dataset", c, &s, &d));
    return d;
}

static void refuse(rp_ctx *ctx, const rp_data_config *c, rp_status expected, const char *message)
{
    rp_data_source s = source_of(ctx);
    rp_data *d       = NULL;

    assert_int_equal(rp__data_open(ctx, "dataset", c, &s, &d), expected);
    assert_null(d);
    assert_string_equal(rp_error(ctx), message);
}

#define assert_row(got, ...) \
    do { \
        const int32_t want_[] = { __VA_ARGS__ }; \
        assert_memory_equal((got), want_, sizeof want_); \
    } while (0)

/* ---- packed ---- */

static void packed_samples_shift_labels_and_restart_at_documents(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.jsonl", "{\"text\":\"ab\"}\n\n{\"text\":\"cde\"}\r\n{\"text\":\"f\"}"), "jsonl");
    c.batch_size     = 2;
    rp_data *d       = open_data(ctx, &c);
    rp_data_info info = rp__data_info(d);
    rp_data_batch b;
    rp_data_step s;

    assert_int_equal(info.n_documents, 3);      /* a b E | c   d e E f | E (dropped) */
    assert_int_equal(info.n_tokens, 9);
    assert_int_equal(info.n_samples, 2);
    assert_int_equal(info.steps_per_epoch, 1);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_false(b.padded);
    assert_int_equal(b.rows, 2);
    assert_int_equal(b.length, 4);
    assert_row(b.tokens, 'a', 'b', EOS, 'c', 'd', 'e', EOS, 'f');
    assert_row(b.labels, 'b', EOS, 'c', MARK, 'e', EOS, 'f', MARK);
    assert_row(b.positions, 0, 1, 2, 0, 0, 1, 2, 0);
    assert_row(b.doc_start, 0, 0, 0, 3, 0, 0, 0, 3);
    assert_ok(ctx, rp__data_step(d, 0, &s));
    assert_int_equal(s.targets, 6);
    assert_int_equal(s.tokens, 8);
    rp__data_close(d);
    c.cross_documents = true;
    d                 = open_data(ctx, &c);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.positions, 0, 1, 2, 3, 0, 1, 2, 3);
    assert_row(b.doc_start, 0, 0, 0, 0, 0, 0, 0, 0);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void text_files_are_documents_in_bytewise_order(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_source s = source_of(ctx);
    rp_data_batch b;
    rp_data *d;

    temp_text(&dir, "b.txt", "xy");
    temp_text(&dir, "B.txt", "z");
    temp_text(&dir, "a.txt", "");
    rp_data_config c = config_of(temp_path(&dir, "*.txt"), "text");
    c.max_seq_len    = 8;
    s.adds_bos       = true;
    assert_ok(ctx, rp__data_open(ctx, "dataset", &c, &s, &d));
    assert_int_equal(rp__data_info(d).n_documents, 3);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, BOS, 'z', EOS, BOS, EOS, BOS, 'x', 'y');
    assert_row(b.doc_start, 0, 0, 0, 3, 3, 5, 5, 5);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- texts of many windows ---- */

static rp_status feed(void *user, const char *text, int64_t bytes, rp_text_part part, int32_t **ids, int64_t *n_ids)
{
    return rp__tokenizer_feed(user, text, bytes, part, ids, n_ids);
}

static rp_data_info info_of(rp_ctx *ctx, rp_tokenizer *t, const char *path, const char *format)
{
    rp_data_source s = { .user = t, .encode = feed, .bos = 1, .eos = 2, .adds_bos = true, .vocab = 1 << 20 };
    rp_data_config c = config_of(path, format);
    rp_data *d       = NULL;

    assert_ok(ctx, rp__data_open(ctx, "dataset", &c, &s, &d));
    rp_data_info info = rp__data_info(d);
    rp__data_close(d);
    return info;
}

/* One text as a file, and as the only line of a file of lines, which is held: runs of spaces and words that windows cut. */
static void a_text_file_of_many_windows_has_the_ids_of_the_whole(void **state)
{
    (void)state;
    enum { BYTES = 700000 };
    static const char *const tokenizers[] = { "smollm", "llama3", "qwen2", "families/llama2", "families/gemma", "families/t5", "families/bert" };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char *text   = malloc(BYTES + 64), *line = malloc(BYTES + 128);
    uint32_t x   = 7;
    size_t n     = 0, n_line;

    while (n < BYTES) {
        x = x * 1664525u + 1013904223u;
        n += (size_t)snprintf(text + n, 64, "%s%.*s", (const char *[]){ " ", "  ", ", ", "\xc3\xa9", " 12", "'s ", "", "\xe4\xb8\xad" }[x >> 29],
                             (int)(x >> 8 & 15), "characteristically");
    }
    n_line = (size_t)snprintf(line, BYTES + 128, "{\"text\": \"%s\"}\n", text);
    temp_write(&dir, "a.txt", text, n);
    temp_write(&dir, "a.jsonl", line, n_line);
    for (int i = 0; i < RP_COUNT(tokenizers); i++) {
        char path[512];
        rp_tokenizer *t = NULL;
        snprintf(path, sizeof path, RP_SOURCE_DIR "/tests/golden/tokenizer/%s", tokenizers[i]);
        assert_ok(ctx, rp__tokenizer_load(ctx, path, &t));
        rp_data_info a = info_of(ctx, t, temp_path(&dir, "a.txt"), "text"), b = info_of(ctx, t, temp_path(&dir, "a.jsonl"), "jsonl");
        assert_int_equal(a.n_documents, 1);
        assert_int_equal(a.n_tokens, b.n_tokens);
        assert_true(a.n_tokens > 50000 && a.hash == b.hash);
        rp__tokenizer_free(t);
    }
    free(line);
    free(text);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void listed_files_keep_their_order_and_globs_within_sort_bytewise(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_batch b;

    const char *paths[] = { temp_text(&dir, "z.txt", "z"), temp_path(&dir, "?.log"), temp_text(&dir, "a.txt", "a") };
    temp_text(&dir, "b.log", "b");
    temp_text(&dir, "B.log", "B");
    rp_data_config c = config_of(NULL, "text");
    c.paths          = paths;
    c.n_paths        = 3;
    c.max_seq_len    = 8;
    rp_data *d       = open_data(ctx, &c);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, 'z', EOS, 'B', EOS, 'b', EOS, 'a', EOS);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void bos_and_eos_beyond_the_vocabulary_are_inert(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"cd\"}\n"), "jsonl");
    rp_data_source s = source_of(ctx);
    rp_data_batch b;
    rp_data *d;

    s.adds_bos = true;
    s.vocab    = 256;
    assert_ok(ctx, rp__data_open(ctx, "dataset", &c, &s, &d));
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, 'a', 'b', 'c', 'd');
    assert_row(b.doc_start, 0, 0, 2, 2);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- not packed ---- */

static void unpacked_documents_are_cut_and_padded_to_the_longest(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.jsonl",
                                           "{\"text\":\"a\"}\n{\"text\":\"bcd\"}\n{\"text\":\"efghij\"}\n{\"text\":\"k\"}\n"
                                           "{\"text\":\"l\"}\n"),
                                 "jsonl");
    rp_data_batch b;
    rp_data_step s;

    c.packed      = false;
    c.batch_size  = 2;
    c.max_seq_len = 5;
    rp_data *d    = open_data(ctx, &c);
    assert_int_equal(rp__data_info(d).steps_per_epoch, 2);     /* the fifth document is a short batch */
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_int_equal(b.length, 4);
    assert_true(b.padded);
    assert_row(b.tokens, 'a', EOS, 0, 0, 'b', 'c', 'd', EOS);
    assert_row(b.labels, EOS, MARK, MARK, MARK, 'c', 'd', EOS, MARK);
    assert_row(b.positions, 0, 1, 0, 1, 0, 1, 2, 3);
    assert_row(b.doc_start, 0, 0, 2, 2, 0, 0, 0, 0);
    assert_ok(ctx, rp__data_step(d, 0, &s));
    assert_int_equal(s.tokens, 6);
    assert_int_equal(s.targets, 4);
    assert_ok(ctx, rp__data_batch(d, 1, 0, &b));
    assert_int_equal(b.length, 5);
    assert_row(b.tokens, 'e', 'f', 'g', 'h', 'i', 'k', EOS, 0, 0, 0);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Ranks that run a step together run it on one shape: two ranks of a row each cut the same batch as one rank of two rows. */
static void unpacked_batches_are_as_long_on_every_rank(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.jsonl",
                                           "{\"text\":\"a\"}\n{\"text\":\"bcd\"}\n{\"text\":\"efghij\"}\n{\"text\":\"k\"}\n"),
                                 "jsonl");
    rp_data_batch b;

    c.packed       = false;
    c.max_seq_len  = 5;
    c.accumulation = 2;
    c.ranks        = 2;
    for (c.rank = 0; c.rank < 2; c.rank++) {
        rp_data *d = open_data(ctx, &c);
        assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
        assert_true(b.rows == 1 && b.length == 4);
        if (c.rank) assert_row(b.tokens, 'b', 'c', 'd', EOS);
        else assert_row(b.tokens, 'a', EOS, 0, 0);
        assert_ok(ctx, rp__data_batch(d, 0, 1, &b));
        assert_true(b.rows == 1 && b.length == 5);
        if (c.rank) assert_row(b.tokens, 'k', EOS, 0, 0, 0);
        else assert_row(b.tokens, 'e', 'f', 'g', 'h', 'i');
        rp__data_close(d);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void prompts_are_no_targets_unless_trained_on(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.jsonl", "{\"ask\":\"pq\",\"text\":\"xy\"}\n"), "jsonl");
    rp_data_source s = source_of(ctx);
    rp_data_batch b;
    rp_data_step n;
    rp_data *d;

    s.adds_bos      = true;
    c.prompt_column = "ask";
    c.max_seq_len   = 6;
    for (int train = 0; train < 2; train++) {
        c.train_on_input = train;
        assert_ok(ctx, rp__data_open(ctx, "dataset", &c, &s, &d));
        assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
        assert_row(b.tokens, BOS, 'p', 'q', 'x', 'y', EOS);
        if (train) assert_row(b.labels, 'p', 'q', 'x', 'y', EOS, MARK);
        else assert_row(b.labels, MARK, MARK, 'x', 'y', EOS, MARK);
        assert_ok(ctx, rp__data_step(d, 0, &n));
        assert_int_equal(n.targets, train ? 5 : 3);
        assert_int_equal(n.tokens, 6);
        rp__data_close(d);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void a_label_equal_to_ignore_index_is_not_counted(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.txt", "abab"), "text");
    rp_data_step n;

    c.ignore_index = 'b';
    rp_data *d     = open_data(ctx, &c);
    assert_ok(ctx, rp__data_step(d, 0, &n));
    assert_int_equal(n.targets, 1);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- token files ---- */

static void token_files_of_both_widths_end_documents_after_eos_and_at_their_end(void **state)
{
    (void)state;
    static const uint8_t narrow[] = { 1, 0, 1, 1, 2, 0, 3, 0, 4, 0 };      /* 1 257 2 3 4 */
    static const uint8_t wide[]   = { 5, 0, 0, 0, 1, 1, 0, 0, 6, 0, 0, 0 };
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_batch b;

    temp_write(&dir, "1.bin", narrow, sizeof narrow);
    temp_write(&dir, "2.bin", narrow, sizeof narrow);
    rp_data_config c = config_of(temp_path(&dir, "?.bin"), "tokens");
    c.max_seq_len    = 10;
    rp_data *d       = open_data(ctx, &c);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, 1, EOS, 2, 3, 4, 1, EOS, 2, 3, 4);
    assert_row(b.doc_start, 0, 0, 2, 2, 2, 5, 5, 7, 7, 7);
    rp__data_close(d);
    c             = config_of(temp_write(&dir, "wide", wide, sizeof wide), "tokens");
    c.wide_tokens = true;
    c.max_seq_len = 3;
    d             = open_data(ctx, &c);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, 5, EOS, 6);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* More tokens than the writer's buffer and the reader's chunk hold, an odd number of them. */
static void long_streams_come_back_whole(void **state)
{
    (void)state;
    enum { N = 200003, LENGTH = 1000 };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    uint16_t *ids = malloc(N * sizeof *ids);
    rp_data_batch b;

    for (int i = 0; i < N; i++) ids[i] = (uint16_t)(i * 2654435761u >> 16) % 250;
    rp_data_config c = config_of(temp_write(&dir, "t.bin", ids, N * sizeof *ids), "tokens");
    c.max_seq_len    = LENGTH;
    rp_data *d       = open_data(ctx, &c);
    assert_int_equal(rp__data_info(d).n_samples, 200);
    for (int s = 0; s < 200; s++) {
        assert_ok(ctx, rp__data_batch(d, s, 0, &b));
        for (int k = 0; k < LENGTH; k++) assert_int_equal(b.tokens[k], ids[s * LENGTH + k]);
    }
    rp__data_close(d);
    free(ids);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- order ---- */

static void shuffles_are_permutations_that_differ_by_epoch_and_seed(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 16, 17, 1000, 4097 };
    bool seen[4097];

    for (int i = 0; i < RP_COUNT(sizes); i++) {
        int64_t n = sizes[i], moved = 0, differs = 0;
        for (int epoch = 0; epoch < 3; epoch++) {
            memset(seen, 0, sizeof seen);
            for (int64_t k = 0; k < n; k++) {
                int64_t x = rp__shuffled(42, epoch, n, k);
                assert_true(x >= 0 && x < n && !seen[x]);
                seen[x] = true;
                moved += x != k;
                differs += x != rp__shuffled(42, epoch + 1, n, k) || x != rp__shuffled(43, epoch, n, k);
            }
        }
        if (n >= 16) assert_true(moved > n && differs > n);
    }
}

/* Each of 12 things at each of 12 places, over 12000 orders: 1000 times give or take, chi-squared over 121 degrees of freedom. */
static void shuffles_put_everything_everywhere_equally_often(void **state)
{
    (void)state;
    enum { N = 12, ORDERS = 12000 };
    int count[N][N] = { 0 };
    double chi = 0;

    for (int e = 0; e < ORDERS; e++)
        for (int k = 0; k < N; k++) count[k][rp__shuffled(7, e, N, k)]++;
    for (int k = 0; k < N; k++)
        for (int x = 0; x < N; x++) chi += (count[k][x] - 1000.0) * (count[k][x] - 1000.0) / 1000.0;
    assert_true(chi > 70 && chi < 190);
}

enum { PLACES = 64, SAMPLE = 4 };

static const char *numbered_tokens(const temp_dir *dir)
{
    uint16_t ids[PLACES * SAMPLE];

    for (int i = 0; i < PLACES * SAMPLE; i++) ids[i] = (uint16_t)i;
    return temp_write(dir, "numbers.bin", ids, sizeof ids);
}

/* first[] of every sample of a global step, in the step's order, however it is cut into ranks, batches and accumulation. */
static void collect(rp_ctx *ctx, rp_data_config c, int64_t step, int32_t *first, int64_t *targets)
{
    for (c.rank = 0; c.rank < c.ranks; c.rank++) {
        rp_data *d = open_data(ctx, &c);
        rp_data_step n;
        for (int64_t m = 0; m < c.accumulation; m++) {
            rp_data_batch b;
            assert_ok(ctx, rp__data_batch(d, step, m, &b));
            for (int64_t r = 0; r < b.rows; r++) {
                assert_int_equal(first[b.sample_base + r], -1);
                first[b.sample_base + r] = b.tokens[r * b.length];
            }
        }
        assert_ok(ctx, rp__data_step(d, step, &n));
        *targets = n.targets;
        rp__data_close(d);
    }
}

static void any_cut_into_ranks_and_micro_batches_gives_the_same_global_steps(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, accumulation;
        int ranks;
    } cuts[] = { { 8, 1, 1 }, { 4, 2, 1 }, { 2, 1, 4 }, { 1, 4, 2 }, { 1, 8, 1 }, { 1, 1, 8 } };
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(numbered_tokens(&dir), "tokens");

    c.shuffle = true;
    c.seed    = 5;
    for (int64_t step = 0; step < 20; step += 7) {
        int32_t whole[8], parts[8];
        for (int k = 0; k < RP_COUNT(cuts); k++) {
            int64_t targets;
            memset(parts, 0xff, sizeof parts);
            c.batch_size   = cuts[k].batch;
            c.accumulation = cuts[k].accumulation;
            c.ranks        = cuts[k].ranks;
            collect(ctx, c, step, parts, &targets);
            assert_int_equal(targets, 8 * (SAMPLE - 1));
            if (k == 0) memcpy(whole, parts, sizeof whole);
            assert_memory_equal(whole, parts, sizeof whole);
        }
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void an_epoch_visits_every_sample_once_and_the_next_in_another_order(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(numbered_tokens(&dir), "tokens");
    int32_t order[2][PLACES];
    rp_data_batch b;

    for (int shuffle = 0; shuffle < 2; shuffle++) {
        c.shuffle    = shuffle;
        c.batch_size = 4;
        rp_data *d   = open_data(ctx, &c);
        assert_int_equal(rp__data_info(d).steps_per_epoch, PLACES / 4);
        for (int epoch = 0; epoch < 2; epoch++) {
            bool seen[PLACES] = { false };
            for (int at = 0; at < PLACES; at++) {
                assert_ok(ctx, rp__data_batch(d, (epoch * PLACES + at) / 4, 0, &b));
                int32_t sample = b.tokens[at % 4 * SAMPLE] / SAMPLE;
                assert_false(seen[sample]);
                seen[sample]     = true;
                order[epoch][at] = sample;
                if (!shuffle) assert_int_equal(sample, at);
            }
        }
        if (shuffle) assert_memory_not_equal(order[0], order[1], sizeof order[0]);
        rp__data_close(d);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* ---- errors ---- */

static void wrong_files_are_named_with_their_place(void **state)
{
    (void)state;
    static const struct { const char *text, *format, *says; } cases[] = {
        { "{\"text\":\"a\"}\n{\"body\":\"b\"}\n", "jsonl", "', line 2: no column 'text'" },
        { "{\"text\":5}\n", "jsonl", "', line 1: the column 'text' is not a string" },
        { "[1]\n", "jsonl", "', line 1: not a JSON object" },
        { "\n\n{\"text\":\"a\"", "jsonl", "', line 3, column 11: '}' expected near end of file" },
        { "abc", "tokens", "' has 3 bytes: not a whole number of u16 tokens" },
        { "\1\1\2\1", "tokens", "': the token 258 at byte 2 is beyond the model's vocabulary of 258" },
    };
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    char expected[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        const char *path = temp_text(&dir, "f", cases[i].text);
        rp_data_config c = config_of(path, cases[i].format);
        snprintf(expected, sizeof expected, "'%s%s", path, cases[i].says);
        refuse(ctx, &c, RP_ERR_FORMAT, expected);
    }
    rp_data_config c = config_of(temp_path(&dir, "*.txt"), "text");
    snprintf(expected, sizeof expected, "dataset.path: no file matches '%s/*.txt'", dir.path);
    refuse(ctx, &c, RP_ERR_MATCH, expected);
    c = config_of(dir.path, "text");
    snprintf(expected, sizeof expected, "dataset.path: '%s' is a folder; name files, as in '%s/*'", dir.path, dir.path);
    refuse(ctx, &c, RP_ERR_CONFIG, expected);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void odd_lines_that_are_json_are_read(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c =
        config_of(temp_text(&dir, "a", "\xef\xbb\xbf{\"id\":123456789012345678901234567890,\"text\":\"a\\u0000\xc3\xa9\"}\r\n  \t\n"),
                  "jsonl");
    rp_data *d = open_data(ctx, &c);
    rp_data_batch b;

    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, 'a', 0, 0xc3, 0xa9);
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void wrong_keys_and_too_little_data_say_what_to_change(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    const char *path = temp_text(&dir, "a.txt", "abcdefghij");
    rp_data_config c = config_of(path, "text");

    c.batch_size   = 2;
    c.accumulation = 2;
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset has too little data: 11 tokens in 1 document make 2 samples of max_seq_len 4, a step takes 4 "
                                   "(batch_size 2 x gradient_accumulation_steps 2 x 1 rank)");
    c            = config_of(path, "text");
    c.batch_size = c.accumulation = 1;
    c.max_seq_len = 12;
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset has too little data: 11 tokens in 1 document make 0 samples of max_seq_len 12, one is needed");
    c = config_of(path, "txt");
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset.format: unknown format 'txt'; did you mean 'text'?");
    c = config_of(path, "text");
    c.prompt_column = "p";
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset.prompt_column needs format jsonl, not text");
    c = config_of(path, "jsonl");
    c.train_on_input = false;
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset.train_on_input: false needs dataset.prompt_column");
    c = config_of(path, "text");
    c.max_seq_len = 1;
    refuse(ctx, &c, RP_ERR_CONFIG, "max_seq_len: 1 leaves no target; at least 2 are needed");
    c = config_of(NULL, "text");
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset.path is not set");
    c = config_of(path, "text");
    c.scratch_dir = "/nowhere";
    refuse(ctx, &c, RP_ERR_IO, "cannot make a temporary file for tokens in '/nowhere': No such file or directory");
    rp_data_source s = source_of(ctx);
    rp_data *d       = NULL;
    s.vocab          = 100;
    c                = config_of(path, "text");
    assert_int_equal(rp__data_open(ctx, "dataset", &c, &s, &d), RP_ERR_CONFIG);
    assert_non_null(strstr(rp_error(ctx), "the tokenizer gives id 100, beyond the model's vocabulary of 100"));
    s.encode = NULL;
    assert_int_equal(rp__data_open(ctx, "dataset", &c, &s, &d), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "dataset.format: text needs a tokenizer; set tokenizer.path");
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void the_hash_tells_other_data(void **state)
{
    (void)state;
    static const char *const texts[] = { "abcdefgh", "abcdefgh", "abcdefgi" };
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    uint64_t hash[3];

    for (int i = 0; i < 3; i++) {
        rp_data_config c = config_of(temp_text(&dir, "a", texts[i]), "text");
        rp_data *d       = open_data(ctx, &c);
        hash[i]          = rp__data_info(d).hash;
        rp__data_close(d);
    }
    assert_true(hash[0] == hash[1] && hash[0] != hash[2]);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void files_that_change_during_a_run_are_not_noticed_and_nothing_stays_behind(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a", "abcdefgh"), "text");
    rp_data_batch b;

    c.scratch_dir = dir.path;
    rp_data *d    = open_data(ctx, &c);
    assert_int_equal(remove(temp_path(&dir, "a")), 0);
    assert_ok(ctx, rp__data_batch(d, 1, 0, &b));
    assert_row(b.tokens, 'e', 'f', 'g', 'h');
    assert_int_equal(rmdir(dir.path), 0);       /* nothing visible is in it */
    rp__data_close(d);
    test_ctx_free(ctx);
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"def\"}\n"), "jsonl");
    rp_data_source s = source_of(ctx);
    rp_status status;
    int faults = 0;

    for (int text = 0; text < 2; text++) {
        if (text) c = config_of(temp_text(&dir, "a.txt", "abcdef"), "text");
        do {
            rp_data *d           = NULL;
            ctx->fault_countdown = faults + 1;
            status               = rp__data_open(ctx, "dataset", &c, &s, &d);
            ctx->fault_countdown = 0;
            rp__data_close(d);
            if (status == RP_OK) break;
            assert_int_equal(status, RP_ERR_MEMORY);
            assert_null(d);
            faults++;
        } while (faults < 1000);
        assert_true(faults > 5 && faults < 1000);
        faults = 0;
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_samples_shift_labels_and_restart_at_documents),
        cmocka_unit_test(text_files_are_documents_in_bytewise_order),
        cmocka_unit_test(a_text_file_of_many_windows_has_the_ids_of_the_whole),
        cmocka_unit_test(listed_files_keep_their_order_and_globs_within_sort_bytewise),
        cmocka_unit_test(bos_and_eos_beyond_the_vocabulary_are_inert),
        cmocka_unit_test(unpacked_documents_are_cut_and_padded_to_the_longest),
        cmocka_unit_test(unpacked_batches_are_as_long_on_every_rank),
        cmocka_unit_test(prompts_are_no_targets_unless_trained_on),
        cmocka_unit_test(a_label_equal_to_ignore_index_is_not_counted),
        cmocka_unit_test(token_files_of_both_widths_end_documents_after_eos_and_at_their_end),
        cmocka_unit_test(long_streams_come_back_whole),
        cmocka_unit_test(shuffles_are_permutations_that_differ_by_epoch_and_seed),
        cmocka_unit_test(shuffles_put_everything_everywhere_equally_often),
        cmocka_unit_test(any_cut_into_ranks_and_micro_batches_gives_the_same_global_steps),
        cmocka_unit_test(an_epoch_visits_every_sample_once_and_the_next_in_another_order),
        cmocka_unit_test(wrong_files_are_named_with_their_place),
        cmocka_unit_test(odd_lines_that_are_json_are_read),
        cmocka_unit_test(wrong_keys_and_too_little_data_say_what_to_change),
        cmocka_unit_test(the_hash_tells_other_data),
        cmocka_unit_test(files_that_change_during_a_run_are_not_noticed_and_nothing_stays_behind),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
