/* Claims about scoring a text, on random models of both families. */
#include "tiny_model.h"

#include <math.h>

#include "temp.h"
#include "train/score.h"

enum { N = 71 };

static void text_of(int32_t *ids)
{
    for (int i = 0; i < N; i++) ids[i] = (i * i * 7 + i * 3) % TINY_VOCAB;
}

/* -log softmax(logits)[label] */
static double loss_at(const double *logits, int32_t label)
{
    double most = logits[0], sum = 0;

    for (int i = 1; i < TINY_VOCAB; i++) most = fmax(most, logits[i]);
    for (int i = 0; i < TINY_VOCAB; i++) sum += exp(logits[i] - most);
    return most + log(sum) - logits[label];
}

static double by_hand(rp_ctx *ctx, rp_model *m, const int32_t *ids, int64_t n_ids, int64_t window, int64_t *targets)
{
    double total = 0;

    *targets = 0;
    for (int64_t at = 0; at < n_ids; at += window) {
        int64_t n      = n_ids - at < window ? n_ids - at : window;
        double *logits = tiny_logits(ctx, m, ids + at, n);
        for (int64_t i = 0; i + 1 < n; i++, ++*targets) total += loss_at(logits + i * TINY_VOCAB, ids[at + i + 1]);
        free(logits);
    }
    return total / (double)*targets;
}

static void count(void *user, int64_t done, int64_t n_ids)
{
    int64_t *last = user;

    assert_true(done > *last && done <= n_ids);
    *last = done;
}

static void the_loss_is_the_mean_over_the_logits_of_each_window(void **state)
{
    static const struct { int64_t n_ids, window, windows; } cases[] = {
        { N, 32, 3 }, { N, 10, 7 }, { N, 2, 35 }, { 64, 32, 2 }, { 2, 32, 1 }, { 33, 32, 1 }, { 34, 32, 2 },
    };
    int32_t ids[N];

    (void)state;
    text_of(ids);
    for (int i = 0; i < 4; i++) {
        rp_ctx *ctx = test_ctx(NULL);
        rp_model *m = tiny_model_new(ctx, (tiny_model){ .gpt2 = i & 1, .dropout = i & 2 ? 0.5 : 0 });
        for (int c = 0; c < RP_COUNT(cases); c++) {
            int64_t targets, done = 0;
            double want = by_hand(ctx, m, ids, cases[c].n_ids, cases[c].window, &targets);
            rp_score s;
            assert_ok(ctx, rp__score(m, ids, cases[c].n_ids, cases[c].window, count, &done, &s));
            assert_int_equal(done, cases[c].n_ids);
            assert_int_equal(s.targets, targets);
            assert_int_equal(s.windows, cases[c].windows);
            assert_true(fabs(s.loss - want) < 2e-6);
        }
        assert_false(rp__tape_ctx(ctx)->eval);
        rp__model_free(m);
        test_ctx_free(ctx);
    }
}

static void scoring_saves_nothing_for_a_backward(void **state)
{
    int32_t ids[N];
    rp_score s;
    rp_mem before, after;

    (void)state;
    text_of(ids);
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ 0 });
    rp_mem_read(ctx, 0, true, &before);
    assert_ok(ctx, rp__score(m, ids, N, 32, NULL, NULL, &s));
    rp_mem_read(ctx, 0, false, &after);
    assert_int_equal(after.peak_at[RP_MEM_SAVED], 0);
    assert_int_equal(after.peak_at[RP_MEM_GRAD], 0);
    assert_int_equal(after.live_at[RP_MEM_PARAM], before.live_at[RP_MEM_PARAM]);
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void gradients_are_as_before_after_a_score(void **state)
{
    int32_t ids[N];
    rp_score s;

    (void)state;
    text_of(ids);
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ 0 });
    for (int off = 0; off < 2; off++) {
        assert_ok(ctx, rp_set_grad(ctx, !off));
        assert_ok(ctx, rp__score(m, ids, N, 32, NULL, NULL, &s));
        assert_int_equal(rp__tape_ctx(ctx)->no_grad, off);
        assert_int_equal(rp__score(m, ids, N, 1, NULL, NULL, &s), RP_ERR_ARG);
        assert_int_equal(rp__tape_ctx(ctx)->no_grad, off);
    }
    rp__model_free(m);
    test_ctx_free(ctx);
}

static void refuses(rp_ctx *ctx, rp_model *m, const int32_t *ids, int64_t n_ids, int64_t window, const char *message)
{
    rp_score s = { .targets = 77 };

    assert_true(rp__score(m, ids, n_ids, window, NULL, NULL, &s) != RP_OK);
    if (message) assert_string_equal(rp_error(ctx), message);
    assert_int_equal(s.targets, 77);
    assert_false(rp__tape_ctx(ctx)->eval);
}

static void what_cannot_be_scored_is_refused(void **state)
{
    int32_t ids[N];

    (void)state;
    text_of(ids);
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ 0 });
    refuses(ctx, m, ids, 0, 8, "there are no targets: the text has 0 tokens");
    refuses(ctx, m, ids, 1, 8, "there are no targets: the text has 1 token");
    refuses(ctx, m, ids, N, 33, "a window of 33 tokens is more than the model's context of 32");
    refuses(ctx, m, ids, N, 1, "a window of 1 tokens has no targets");
    ids[40] = TINY_VOCAB;
    refuses(ctx, m, ids, N, 32, NULL);
    ids[40] = 0;
    rp_elem_put(rp__model_find_param(m, "norm.weight")->tensor, 3, NAN);
    refuses(ctx, m, ids, N, 32, "the loss of tokens 1 to 32 is not finite");
    rp__model_free(m);
    test_ctx_free(ctx);
}

/* ---- data ---- */

static rp_data *open_tokens(rp_ctx *ctx, const char *path, int64_t length)
{
    const rp_data_config c = { .path = path, .format = "tokens", .packed = true, .train_on_input = true, .max_seq_len = length, .batch_size = 1,
                               .accumulation = 1, .ranks = 1, .ignore_index = -100 };
    const rp_data_source s = { .bos = -1, .eos = -1, .vocab = TINY_VOCAB };
    rp_data *data          = NULL;

    assert_ok(ctx, rp__data_open(ctx, "dataset", &c, &s, &data));
    return data;
}

static void tokens_of_data_have_the_loss_of_a_text(void **state)
{
    static const int64_t lengths[] = { 2, 10, 14, 32 };
    temp_dir dir = temp_make();
    uint16_t words[N];
    int32_t ids[N];

    (void)state;
    text_of(ids);
    for (int i = 0; i < N; i++) words[i] = (uint16_t)ids[i];
    temp_write(&dir, "ids.bin", words, sizeof words);
    rp_ctx *ctx = test_ctx(NULL);
    rp_model *m = tiny_model_new(ctx, (tiny_model){ .dropout = 0.5 });
    for (int i = 0; i < RP_COUNT(lengths); i++) {
        rp_data *data  = open_tokens(ctx, temp_path(&dir, "ids.bin"), lengths[i]);
        int64_t whole  = N / lengths[i] * lengths[i], done = 0;       /* what fills no sample is not scored */
        test_faults f  = { .each = 8 };
        rp_score of_data = { 0 }, of_text;
        while (!f.over) {
            test_fault_begin(&f, ctx);
            if (test_fault_end(&f, rp__score_samples(m, data, -100, NULL, NULL, &of_data))) assert_false(rp__tape_ctx(ctx)->eval);
        }
        assert_ok(ctx, rp__score_samples(m, data, -100, count, &done, &of_data));
        assert_int_equal(done, N);
        assert_ok(ctx, rp__score(m, ids, whole, lengths[i], NULL, NULL, &of_text));
        assert_int_equal(of_data.targets, of_text.targets);
        assert_int_equal(of_data.windows, of_text.windows);
        assert_true(fabs(of_data.loss - of_text.loss) < 1e-6 && !rp__tape_ctx(ctx)->eval);
        rp__data_close(data);
    }
    rp_data *data = open_tokens(ctx, temp_path(&dir, "ids.bin"), 8);
    rp_score s    = { .targets = 77 };
    rp_elem_put(rp__model_find_param(m, "norm.weight")->tensor, 3, NAN);
    assert_int_equal(rp__score_samples(m, data, -100, NULL, NULL, &s), RP_ERR_NONFINITE);
    assert_string_equal(rp_error(ctx), "the loss of sample 1 is not finite");
    assert_int_equal(s.targets, 77);
    rp__data_close(data);
    rp__model_free(m);
    test_ctx_free(ctx);
    temp_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_the_mean_over_the_logits_of_each_window),
        cmocka_unit_test(scoring_saves_nothing_for_a_backward),
        cmocka_unit_test(gradients_are_as_before_after_a_score),
        cmocka_unit_test(what_cannot_be_scored_is_refused),
        cmocka_unit_test(tokens_of_data_have_the_loss_of_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
