/* Claims about datasets: what is refused, and in which words; how other data is found; files that are left. */
/* ctest: device-free thread-free */
#include "byte_data.h"
#include "temp.h"

#include <signal.h>
#include <sys/resource.h>

static void wrong_files_are_named_with_their_place(void **state)
{
    (void)state;
    static const struct { const char *text, *format, *says; } cases[] = {
        { "{\"text\":\"a\"}\n{\"body\":\"b\"}\n", "jsonl", "', line 2: no column 'text', there is 'body': set 'dataset.column'" },
        { "{\"q\":1,\"messages\":[]}\n", "jsonl", "', line 1: no column 'text', there is 'q', 'messages': set 'dataset.format: chat'" },
        { "{}\n", "jsonl", "', line 1: no column 'text', there is none: set 'dataset.column'" },
        { "\xff\xfe" "a", "text", "' is not text but UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8" },
        { "\xfe\xff" "a", "jsonl", "' is not text but UTF-16: convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8" },
        { "%PDF-1.4\n", "text", "' is not text but a PDF: extract its text first, for example with pdftotext" },
        { "{\"text\":5}\n", "jsonl", "', line 1: the column 'text' is not a string" },
        { "{\"text\":\"a\"}\n[1]\n", "jsonl", "', line 2: not a JSON object" },
        { "1\n", "jsonl", "', line 1, column 1: '[' or '{' expected near '1'" },
        { "\n\n{\"text\":\"a\"", "jsonl", "', line 3, column 11: '}' expected near end of file; each object must be on one line, or all objects in one list" },
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
    c = config_of(path, "jsonl");
    c.column = NULL;
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset.column is not set");
    c = config_of(path, "chat");
    refuse(ctx, &c, RP_ERR_CONFIG, "dataset.format: chat needs a chat template, and the model's tokenizer has none; set tokenizer.chat_template");
    rp_data_source s = source_of(ctx);
    rp_data *d       = NULL;
    s.vocab          = 0;
    c                = config_of(path, "text");
    assert_int_equal(rp__data_open(ctx, "dataset", &c, &s, &d), RP_ERR_CONFIG);
    assert_string_equal(rp_error(ctx), "a vocabulary of 0 ids is not supported");
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

/* Each number may be wrong alone; a step of all of them must be countable. */
static void sizes_of_a_step_that_are_too_small_or_too_large_are_refused(void **state)
{
    (void)state;
    enum { LARGE = INT32_MAX };
    static const int64_t half = INT64_MAX / 2 + 1;      /* twice that is beyond 64 bits */
    static const struct { int64_t batch, accumulation; int ranks, rank; bool large; } cases[] = {
        { 0, 1, 1, 0, false }, { -2, 1, 1, 0, false }, { 1, 0, 1, 0, false }, { 1, -2, 1, 0, false }, { 1, 1, 0, 0, false },
        { 1, 1, 1, 1, false }, { 1, 1, 2, -1, false }, { half, 2, 1, 0, true }, { 2, half, 1, 0, true }, { half, 1, 2, 0, true },
        { 1, half, 2, 1, true }, { INT64_C(1) << 32, INT64_C(1) << 31, 2, 0, true }, { INT64_C(1) << 33, 1, LARGE, LARGE - 1, true },
    };
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.txt", "abcdefghij"), "text");
    char expected[256];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        c.batch_size   = cases[i].batch;
        c.accumulation = cases[i].accumulation;
        c.ranks        = cases[i].ranks;
        c.rank         = cases[i].rank;
        if (cases[i].large)
            snprintf(expected, sizeof expected, "a step of batch_size %" PRId64 ", gradient_accumulation_steps %" PRId64 " and %d ranks is too large",
                     c.batch_size, c.accumulation, c.ranks);
        else
            snprintf(expected, sizeof expected, "batch_size %" PRId64 ", gradient_accumulation_steps %" PRId64 ", rank %d of %d: each must be at least 1",
                     c.batch_size, c.accumulation, c.rank, c.ranks);
        refuse(ctx, &c, RP_ERR_CONFIG, expected);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void the_hash_of_other_data_differs(void **state)
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

static void a_disk_without_room_for_tokens_is_reported(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a", "abcdefgh"), "text");
    struct rlimit old;

    c.scratch_dir = dir.path;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 0, old.rlim_max }), 0);
    refuse(ctx, &c, RP_ERR_IO, "cannot write the temporary file of tokens at byte 0: File too large");
    setrlimit(RLIMIT_FSIZE, &old);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void tokens_that_are_gone_from_the_temporary_file_are_reported(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a", "abcdefgh"), "text");
    rp_data_batch b;

    c.scratch_dir = dir.path;
    rp_data *d    = open_data(ctx, &c);
    assert_in_range(temp_cut_nameless(&dir, 0), 1, 2);
    assert_int_equal(rp__data_batch(d, 0, 0, &b), RP_ERR_IO);
    assert_string_equal(rp_error(ctx), "cannot read the temporary file of tokens at byte 0: it ends there");
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void failing_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(NULL);
    temp_dir dir = temp_make();
    rp_data_config c = config_of(temp_text(&dir, "a.jsonl", "{\"text\":\"abc\"}\n{\"text\":\"def\"}\n"), "jsonl");

    open_with_faults(ctx, &c);
    c = config_of(temp_text(&dir, "a.txt", "abcdef"), "text");
    open_with_faults(ctx, &c);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_files_are_named_with_their_place),
        cmocka_unit_test(odd_lines_that_are_json_are_read),
        cmocka_unit_test(wrong_keys_and_too_little_data_say_what_to_change),
        cmocka_unit_test(sizes_of_a_step_that_are_too_small_or_too_large_are_refused),
        cmocka_unit_test(the_hash_of_other_data_differs),
        cmocka_unit_test(files_that_change_during_a_run_are_not_noticed_and_nothing_stays_behind),
        cmocka_unit_test(a_disk_without_room_for_tokens_is_reported),
        cmocka_unit_test(tokens_that_are_gone_from_the_temporary_file_are_reported),
        cmocka_unit_test(failing_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
