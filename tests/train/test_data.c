/* Claims about datasets: what becomes a document, a sample, a batch. */
/* ctest: device-free thread-free */
#include "byte_data.h"
#include "temp.h"

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
    temp_text(&dir, "a.txt", "");               /* an empty file is no document */
    rp_data_config c = config_of(temp_path(&dir, "*.txt"), "text");
    c.max_seq_len    = 7;
    s.adds_bos       = true;
    assert_ok(ctx, rp__data_open(ctx, "dataset", &c, &s, &d));
    assert_int_equal(rp__data_info(d).n_files, 3);
    assert_int_equal(rp__data_info(d).n_documents, 2);
    assert_int_equal(rp__data_info(d).n_skipped, 1);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, BOS, 'z', EOS, BOS, 'x', 'y', EOS);
    assert_row(b.doc_start, 0, 0, 0, 3, 3, 3, 3);
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

/* Without a chat template: the Alpaca project's own text, answers the targets. */
static void instructions_without_a_template_are_the_text_of_alpaca(void **state)
{
    (void)state;
    static const struct { const char *object, *prompt; } cases[] = {
        { "{\"instruction\":\"Go\",\"output\":\"ok\"}", "Below is an instruction that describes a task. Write a response that appropriately completes the "
          "request.\n\n### Instruction:\nGo\n\n### Response:\n" },
        { "{\"instruction\":\"Go\",\"input\":\"on\",\"output\":\"ok\"}", "Below is an instruction that describes a task, paired with an input that provides "
          "further context. Write a response that appropriately completes the request.\n\n### Instruction:\nGo\n\n### Input:\non\n\n### Response:\n" },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_batch b;

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_data_config c = config_of(temp_text(&dir, "a.json", cases[i].object), "alpaca");
        int64_t n        = (int64_t)strlen(cases[i].prompt);
        c.packed = c.train_on_input = false;
        c.by_template               = true;
        c.max_seq_len               = 400;
        rp_data *d                  = open_data(ctx, &c);
        assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
        assert_int_equal(b.length, n + 3);
        for (int64_t k = 0; k < n; k++) assert_int_equal(b.tokens[k], cases[i].prompt[k]);
        assert_row(b.tokens + n, 'o', 'k', EOS);
        for (int64_t k = 0; k < n - 1; k++) assert_int_equal(b.labels[k], MARK);
        assert_row(b.labels + n - 1, 'o', 'k', EOS, MARK);
        rp__data_close(d);
    }
    rp_data_config c = config_of(temp_text(&dir, "a.json", "{\"instruction\":\"Go\",\"answer\":\"ok\"}"), "alpaca");
    char wanted[512];
    snprintf(wanted, sizeof wanted, "'%s', line 1: no column 'output', there is 'instruction', 'answer': set 'dataset.format'", c.path);
    refuse(ctx, &c, RP_ERR_FORMAT, wanted);
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
        cmocka_unit_test(instructions_without_a_template_are_the_text_of_alpaca),
        cmocka_unit_test(a_label_equal_to_ignore_index_is_not_counted),
        cmocka_unit_test(token_files_of_both_widths_end_documents_after_eos_and_at_their_end),
        cmocka_unit_test(long_streams_come_back_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
