/* Claims about targets: every sample has one, whatever the files hold; what has none is counted and reported with its place. */
#include "byte_data.h"
#include "temp.h"

static rp_data_info info_of(rp_ctx *ctx, const rp_data_config *c)
{
    rp_data *d       = open_data(ctx, c);
    rp_data_info all = rp__data_info(d);
    rp_data_step s;
    int64_t targets = 0;

    for (int64_t i = 0; i < all.steps_per_epoch; i++) {
        assert_ok(ctx, rp__data_step(d, i, &s));
        assert_true(s.targets >= c->batch_size);
        targets += s.targets;
    }
    if (all.steps_per_epoch == all.n_samples) assert_int_equal(targets, all.n_targets);
    rp__data_close(d);
    return all;
}

static rp_data_config answers_of(const char *path)
{
    rp_data_config c = config_of(path, "jsonl");

    c.packed = c.train_on_input = false;
    c.prompt_column             = "ask";
    return c;
}

static void samples_without_a_target_are_skipped_and_counted(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    const char *path = temp_text(&dir, "a.jsonl", "{\"ask\":\"p\",\"text\":\"x\"}\n"             /* p x E */
                                                  "{\"ask\":\"pqrst\",\"text\":\"x\"}\n"         /* the prompt takes all 4 */
                                                  "{\"ask\":\"pqr\",\"text\":\"xyz\"}\n"         /* cut: x is a target */
                                                  "{\"ask\":\"p\",\"text\":\"\"}\n"              /* no answer */
                                                  "{\"ask\":\"\",\"text\":\"xy\"}\n");
    rp_data_config c = answers_of(path);
    rp_data *d       = open_data(ctx, &c);
    rp_data_info all = rp__data_info(d);
    rp_data_batch b;
    char wanted[512], text[RP_DATA_TEXT_CHARS];

    assert_int_equal(all.n_files, 1);
    assert_int_equal(all.n_documents, 4);
    assert_int_equal(all.n_samples, 3);
    assert_int_equal(all.n_truncated, 1);
    assert_int_equal(all.n_skipped, 2);
    assert_int_equal(all.n_targets, 2 + 1 + 2);
    snprintf(wanted, sizeof wanted, "'%s', line 2: its first target is token 6, beyond max_seq_len 4", path);
    assert_string_equal(all.first_skipped, wanted);
    assert_string_equal(rp__data_text(&all, "a.jsonl", 1, text),
                        "a.jsonl: 1 file, 4 documents, 20 tokens, 5 targets; 3 samples, 1 truncated, 2 skipped");
    assert_ok(ctx, rp__data_batch(d, 1, 0, &b));
    assert_row(b.tokens, 'p', 'q', 'r', 'x');
    assert_row(b.labels, MARK, MARK, 'x', MARK);
    rp__data_close(d);
    info_of(ctx, &c);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Packed: a stretch that is all prompt is no sample, and those behind it keep their tokens. */
static void packed_stretches_without_a_target_are_skipped(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    rp_data_config c = answers_of(temp_text(&dir, "a.jsonl", "{\"ask\":\"pqrstuvwp\",\"text\":\"x\"}\n{\"ask\":\"p\",\"text\":\"yz\"}\n"));

    c.packed         = true;            /* pqrs | tuvw | p x E p | y z E */
    rp_data *d       = open_data(ctx, &c);
    rp_data_info all = rp__data_info(d);
    rp_data_batch b;
    assert_int_equal(all.n_samples, 1);
    assert_int_equal(all.n_skipped, 2);
    assert_int_equal(all.n_targets, 2);
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_row(b.tokens, 'p', 'x', EOS, 'p');
    assert_row(b.labels, 'x', EOS, MARK, MARK);
    assert_non_null(strstr(all.first_skipped, "a.jsonl', line 1: none of the 4 tokens of a sample that ends here is a target"));
    rp__data_close(d);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void data_without_a_single_target_is_refused_with_its_place_and_the_reason(void **state)
{
    (void)state;
    static const struct { const char *name, *text, *format; bool packed, answers; int64_t length; const char *says; } cases[] = {
        { "a.jsonl", "{\"ask\":\"pqrst\",\"text\":\"x\"}\n{\"ask\":\"p\",\"text\":\"\"}\n", "jsonl", false, true, 4,
          "2 were skipped, the first: 'DIR/a.jsonl', line 1: its first target is token 6, beyond max_seq_len 4" },
        { "a.jsonl", "\n{\"ask\":\"p\",\"text\":\"\"}\n", "jsonl", false, true, 4, "1 was skipped, the first: 'DIR/a.jsonl', line 2: its answer is empty" },
        { "a.jsonl", "{\"ask\":\"pqrst\",\"text\":\"\"}\n", "jsonl", true, true, 4, "1 was skipped, the first: 'DIR/a.jsonl', line 1: its answer is empty" },
        { "a.jsonl", "{\"ask\":\"pqrst\",\"text\":\"x\"}\n", "jsonl", true, true, 4,
          "1 was skipped, the first: 'DIR/a.jsonl', line 1: none of the 4 tokens of a sample that ends here is a target" },
        { "a.jsonl", "{\"text\":\"\"}\n{\"text\":\"\"}\n", "jsonl", true, false, 4, "2 were skipped, the first: 'DIR/a.jsonl', line 1: its text is empty" },
        { "a.jsonl", " \n", "jsonl", true, false, 4, "1 was skipped, the first: 'DIR/a.jsonl': it is empty" },
        { "a.json", "[]", "jsonl", true, false, 4, "1 was skipped, the first: 'DIR/a.json': it is empty" },
        { "a.txt", "", "text", true, false, 4, "1 was skipped, the first: 'DIR/a.txt': it is empty" },
        { "a.txt", "\xef\xbb\xbf", "text", true, false, 4, "1 was skipped, the first: 'DIR/a.txt': it is empty" },
        { "a.bin", "", "tokens", true, false, 4, "1 was skipped, the first: 'DIR/a.bin': it is empty" },
        { "a.bin", "\1\1\1\1", "tokens", false, false, 4,
          "2 were skipped, the first: 'DIR/a.bin', byte 0: it is a single token, and nothing comes after it" },
    };
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    char wanted[512];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        rp_data_config c = answers_of(temp_text(&dir, cases[i].name, cases[i].text));
        c.format         = cases[i].format;
        c.packed         = cases[i].packed;
        c.max_seq_len    = cases[i].length;
        if (!cases[i].answers) c.prompt_column = NULL;
        if (!cases[i].answers) c.train_on_input = true;
        const char *at = strstr(cases[i].says, "DIR");
        snprintf(wanted, sizeof wanted, "dataset has nothing to learn from: no sample has a target; %.*s%s%s", (int)(at - cases[i].says), cases[i].says,
                 dir.path, at + 3);
        refuse(ctx, &c, RP_ERR_CONFIG, wanted);
    }
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void too_little_data_is_reported_with_the_skipped_samples(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    const char *path = temp_text(&dir, "a.jsonl", "{\"ask\":\"p\",\"text\":\"x\"}\n{\"ask\":\"p\",\"text\":\"\"}\n");
    rp_data_config c = answers_of(path);
    char wanted[512];

    c.batch_size = 2;
    snprintf(wanted, sizeof wanted, "dataset has too little data: 3 tokens in 1 document make 1 sample of max_seq_len 4, a step takes 2 (batch_size 2 x "
             "gradient_accumulation_steps 1 x 1 rank); 1 was skipped, the first: '%s', line 2: its answer is empty", path);
    refuse(ctx, &c, RP_ERR_CONFIG, wanted);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

/* Prompts and answers of all lengths, none too: whatever is drawn, a step that comes has a target in each of its rows. */
static void no_row_of_any_batch_is_without_a_target(void **state)
{
    (void)state;
    rp_ctx *ctx  = test_ctx(NULL);
    temp_dir dir = temp_make();
    uint32_t x   = 5;
    int n_opened = 0, n_refused = 0;

    for (int draw = 0; draw < test_draws(200); draw++) {
        char text[4096];
        int used = 0;
        for (int k = 0; k < 12; k++) {
            x = x * 1664525u + 1013904223u;
            used += snprintf(text + used, sizeof text - (size_t)used, "{\"ask\":\"%.*s\",\"text\":\"%.*s\"}\n", (int)(x >> 28), "pqrstuvwpqrstuvw",
                             (int)(x >> 24 & 7) - 4 < 0 ? 0 : (int)(x >> 24 & 3), "xyz");
        }
        rp_data_config c  = answers_of(temp_text(&dir, "a.jsonl", text));
        rp_data_source s  = source_of(ctx);
        rp_data *d        = NULL;
        c.packed          = x >> 20 & 1;
        c.cross_documents = c.packed && x >> 21 & 1;
        c.train_on_input  = (x >> 22 & 3) == 0;
        c.max_seq_len     = 2 + (x >> 16 & 7);
        c.batch_size      = 1 + (x >> 12 & 1);
        if (x >> 13 & 1) c.masking = (rp_masking){ .probability = 0.15, .mask_id = 1, .vocab = VOCAB, .key = rp__masking_key(x) };
        rp_status status = rp__data_open(ctx, "dataset", &c, &s, &d);
        n_refused += status != RP_OK;
        if (status != RP_OK) continue;
        for (int64_t step = 0; step < rp__data_info(d).steps_per_epoch; step++) {
            rp_data_batch b;
            assert_ok(ctx, rp__data_batch(d, step, 0, &b));
            for (int64_t r = 0; r < b.rows; r++) {
                int targets = 0;
                for (int64_t i = 0; i < b.length; i++) targets += b.labels[r * b.length + i] != MARK;
                assert_true(targets > 0);
            }
        }
        n_opened++;
        rp__data_close(d);
    }
    assert_true(n_opened > n_refused);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

static void a_set_with_skipped_samples_is_other_data_to_a_resume(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    temp_dir dir     = temp_make();
    rp_data_config c = answers_of(temp_text(&dir, "a.jsonl", "{\"ask\":\"p\",\"text\":\"x\"}\n{\"ask\":\"pqrst\",\"text\":\"x\"}\n"));
    uint64_t hash    = info_of(ctx, &c).hash;

    c.max_seq_len = 8;
    assert_true(info_of(ctx, &c).hash != hash);
    temp_remove(&dir);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_without_a_target_are_skipped_and_counted),
        cmocka_unit_test(packed_stretches_without_a_target_are_skipped),
        cmocka_unit_test(data_without_a_single_target_is_refused_with_its_place_and_the_reason),
        cmocka_unit_test(too_little_data_is_reported_with_the_skipped_samples),
        cmocka_unit_test(no_row_of_any_batch_is_without_a_target),
        cmocka_unit_test(a_set_with_skipped_samples_is_other_data_to_a_resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
