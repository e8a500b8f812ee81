/* Claims about the masked-language loss: which tokens are targets, what stands in their places, and on what that depends. */
/* ctest: thread-free */
#include "loop_test.h"

#include <math.h>

#include "data/data.h"

enum { VOCAB = 61, MASK = 60, CLS = 1, SEP = 0, LENGTH = 16, NONE = -100 };

#define BERT \
    "{\"model_type\": \"bert\", \"architectures\": [\"BertForMaskedLM\"], \"hidden_size\": 32, \"intermediate_size\": 48," \
    " \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"vocab_size\": 61, \"max_position_embeddings\": 64," \
    " \"bos_token_id\": 1, \"eos_token_id\": 0}"

/* ---- batches ---- */

static rp_data_source source_of(void) { return (rp_data_source){ .bos = CLS, .eos = SEP, .vocab = VOCAB }; }

static rp_data_config config_of(double probability)
{
    return (rp_data_config){ .path = temp_path(&dir, "tokens.bin"), .format = "tokens", .packed = true, .train_on_input = true,
                             .max_seq_len = LENGTH, .batch_size = 8, .accumulation = 1, .ranks = 1, .ignore_index = NONE, .seed = 3,
                             .masking = { .probability = probability, .mask_id = MASK, .vocab = VOCAB, .key = rp__masking_key(3) } };
}

static rp_data *open_data(rp_ctx *ctx, const rp_data_config *c)
{
    rp_data_source s = source_of();
    rp_data *d;

    assert_ok(ctx, rp__data_open(ctx, "dataset", c, &s, &d));
    return d;
}

/* The words as they are, from the same data without masks. */
static rp_data *open_plain(rp_ctx *ctx, rp_data_config c)
{
    c.masking.probability = 0;
    return open_data(ctx, &c);
}

static void labels_are_what_stood_there_and_the_rest_stands_as_it_was(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    rp_data_config c = config_of(0.5);
    rp_data *d = open_data(ctx, &c), *plain = open_plain(ctx, c);
    rp_data_batch b, was;
    int64_t targets = 0, hidden = 0;
    rp_data_step s;

    assert_ok(ctx, rp__data_batch(d, 2, 0, &b));
    assert_ok(ctx, rp__data_batch(plain, 2, 0, &was));
    for (int64_t i = 0; i < b.rows * b.length; i++) {
        if (b.labels[i] == NONE) assert_int_equal(b.tokens[i], was.tokens[i]);
        else assert_int_equal(b.labels[i], was.tokens[i]);
        assert_int_equal(b.doc_start[i], was.doc_start[i]);
        targets += b.labels[i] != NONE;
        hidden += b.labels[i] != NONE && b.tokens[i] == MASK;
        if (was.tokens[i] == CLS || was.tokens[i] == SEP || was.tokens[i] == MASK) assert_int_equal(b.labels[i], NONE);
    }
    assert_ok(ctx, rp__data_step(d, 2, &s));
    assert_int_equal(s.targets, targets);
    assert_true(hidden > targets / 2 && hidden < targets);
    rp__data_close(plain);
    rp__data_close(d);
    test_ctx_free(ctx);
}

/* Of samples of 1 to 64 tokens: their mean is exact although each count is rounded, none is more than what is planned for, and none is without. */
static void a_sample_has_its_share_of_targets_rounded_up_or_down(void **state)
{
    (void)state;
    enum { MOST = 64, SAMPLES = 2000 };
    static const double probabilities[] = { 0.01, 0.15, 0.3, 0.5, 1 };

    for (int p = 0; p < RP_COUNT(probabilities); p++) {
        rp_masking m = { .probability = probabilities[p], .key = rp__masking_key(9) };
        for (int n = 1; n <= MOST; n++) {
            double sum = 0, share = fmax(n * m.probability, 1);
            for (int i = 0; i < SAMPLES; i++) {
                int64_t count = rp__masking_count(&m, i / 50, i % 50, n);
                if (!(fabs((double)count - share) < 1)) fail_msg("%d of %g: %d", n, m.probability, (int)count);
                assert_true(count <= rp__masking_most(m.probability, n) && count <= rp__masking_most(m.probability, MOST));
                sum += (double)count;
            }
            double part = share - floor(share);
            assert_true(fabs(sum / SAMPLES - share) <= 5 * sqrt(part * (1 - part) / SAMPLES) + 1e-9);
            assert_true(rp__masking_most(m.probability, n) < share + 1);
        }
    }
}

/* Each place of a sample as often as any other; bounds are five standard deviations. */
static void any_token_is_chosen_as_often_as_another(void **state)
{
    (void)state;
    enum { N = 37, SAMPLES = 20000 };
    rp_masking m = { .probability = 0.15, .key = rp__masking_key(9) };
    int often[3 * N] = { 0 };

    for (int i = 0; i < SAMPLES; i++) {
        uint64_t place[N];
        for (int k = 0; k < N; k++) place[k] = 3 * (uint64_t)k;
        int64_t n = rp__masking_choose(&m, i / 100, i % 100, place, N);
        assert_int_equal(n, rp__masking_count(&m, i / 100, i % 100, N));
        for (int64_t k = 0; k < n; k++) often[place[k]]++;
    }
    for (int k = 0; k < 3 * N; k++)
        if (!(fabs((double)often[k] / SAMPLES - (k % 3 ? 0 : 0.15)) <= 5 * sqrt(0.15 * 0.85 / SAMPLES) * !(k % 3))) fail_msg("place %d: %d", k, often[k]);
}

/* Of 100,000 chosen; bounds are five standard deviations. */
static void of_those_chosen_so_many_are_hidden_replaced_and_kept(void **state)
{
    (void)state;
    rp_masking m = { .probability = 0.15, .mask_id = MASK, .vocab = 50000, .key = rp__masking_key(9) };
    enum { ALL = 100000, ID = 7 };
    double masked = 0, kept = 0, other = 0, sum = 0;

    for (int i = 0; i < ALL; i++) {
        int32_t seen = rp__masking_seen(&m, i / 5000, i % 50, i % 5000 / 50, ID);
        assert_in_range(seen, 0, m.vocab - 1);
        masked += seen == MASK;
        kept += seen == ID;
        other += seen != MASK && seen != ID;
        sum += seen != MASK && seen != ID ? seen : 0;
    }
    assert_true(fabs(masked / ALL - 0.8) < 5 * sqrt(0.8 * 0.2 / ALL));
    assert_true(fabs(other / ALL - 0.1) < 5 * sqrt(0.1 * 0.9 / ALL));
    assert_true(fabs(kept / ALL - 0.1) < 5 * sqrt(0.1 * 0.9 / ALL));
    assert_true(fabs(sum / other / m.vocab - 0.5) < 5 * sqrt(1.0 / 12 / other));
}

/* Tokens and labels of a global step, sample by sample, however it is cut. */
static void collect(rp_ctx *ctx, rp_data_config c, int64_t step, int32_t *tokens, int32_t *labels)
{
    for (c.rank = 0; c.rank < c.ranks; c.rank++) {
        rp_data *d = open_data(ctx, &c);
        for (int64_t micro = 0; micro < c.accumulation; micro++) {
            rp_data_batch b;
            assert_ok(ctx, rp__data_batch(d, step, micro, &b));
            memcpy(tokens + b.sample_base * LENGTH, b.tokens, (size_t)(b.rows * b.length) * sizeof *tokens);
            memcpy(labels + b.sample_base * LENGTH, b.labels, (size_t)(b.rows * b.length) * sizeof *labels);
        }
        rp__data_close(d);
    }
}

static void any_cut_into_ranks_and_micro_batches_gives_the_same_masks(void **state)
{
    (void)state;
    static const struct { int64_t batch, accumulation; int ranks; } cuts[] = { { 8, 1, 1 }, { 4, 2, 1 }, { 1, 8, 1 }, { 2, 1, 4 }, { 1, 4, 2 } };
    rp_ctx *ctx = test_ctx(NULL);
    int32_t tokens[2][8 * LENGTH], labels[2][8 * LENGTH];

    for (int k = 0; k < RP_COUNT(cuts); k++) {
        rp_data_config c = config_of(0.3);
        c.shuffle      = true;
        c.batch_size   = cuts[k].batch;
        c.accumulation = cuts[k].accumulation;
        c.ranks        = cuts[k].ranks;
        collect(ctx, c, 5, tokens[k > 0], labels[k > 0]);
        if (!k) continue;
        assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
        assert_memory_equal(labels[0], labels[1], sizeof labels[0]);
    }
    test_ctx_free(ctx);
}

static int differences(const int32_t *a, const int32_t *b)
{
    int n = 0;

    for (int i = 0; i < 8 * LENGTH; i++) n += (a[i] == NONE) != (b[i] == NONE);
    return n;
}

static void each_bit_of_a_seed_changes_the_masks(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) assert_true(rp__masking_key(3 ^ UINT64_C(1) << bit) != rp__masking_key(3));
}

/* An epoch later the same samples stand at the same places; other steps and other seeds hide others, and a fixed set the same. */
static void masks_change_with_step_and_seed_unless_they_are_fixed(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    rp_data_config c = config_of(0.3);
    rp_data *d       = open_data(ctx, &c);
    int64_t epoch    = rp__data_info(d).steps_per_epoch;
    int32_t tokens[8 * LENGTH], labels[4][8 * LENGTH];

    rp__data_close(d);
    collect(ctx, c, 1, tokens, labels[0]);
    collect(ctx, c, 1 + epoch, tokens, labels[1]);
    c.masking.key = rp__masking_key(4);
    collect(ctx, c, 1, tokens, labels[2]);
    assert_true(differences(labels[0], labels[1]) > 10);
    assert_true(differences(labels[0], labels[2]) > 10);
    c.masking.fixed = true;
    collect(ctx, c, 1, tokens, labels[1]);
    collect(ctx, c, 1 + epoch, tokens, labels[2]);
    collect(ctx, c, 0, tokens, labels[3]);
    assert_int_equal(differences(labels[1], labels[2]), 0);
    assert_true(differences(labels[1], labels[3]) > 10);
    test_ctx_free(ctx);
}

static void padding_is_no_target(void **state)
{
    (void)state;
    rp_ctx *ctx      = test_ctx(NULL);
    rp_data_config c = config_of(1);
    rp_data_batch b;
    rp_data_step s;
    int64_t targets = 0;

    c.packed         = false;
    c.masking.mask_id = MASK;
    rp_data *d = open_data(ctx, &c), *plain = open_plain(ctx, c);
    rp_data_batch was;
    assert_ok(ctx, rp__data_batch(d, 0, 0, &b));
    assert_ok(ctx, rp__data_batch(plain, 0, 0, &was));
    for (int64_t i = 0; i < b.rows * b.length; i++) {
        bool padding = b.doc_start[i] > 0, special = was.tokens[i] == CLS || was.tokens[i] == SEP || was.tokens[i] == MASK;
        assert_int_equal(b.labels[i], padding || special ? NONE : was.tokens[i]);
        targets += b.labels[i] != NONE;
    }
    assert_ok(ctx, rp__data_step(d, 0, &s));
    assert_int_equal(s.targets, targets);
    rp__data_close(plain);
    rp__data_close(d);
    test_ctx_free(ctx);
}

/* ---- runs ---- */

/* The loss of the last step. */
static double train(const char *out, const char *const *settings)
{
    run r           = run_open(&dir, "bert", out, settings);
    rp_metrics line = { 0 };

    if (r.status != RP_OK) fail_msg("%s", rp_error(r.ctx));
    while (rp__trainer_done(r.trainer) < rp__trainer_info(r.trainer)->n_steps) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    run_close(&r);
    return line.loss;
}

/* Twenty times the same token, of twelve: what is hidden stands on either side. */
static void an_encoder_learns_what_is_hidden_from_it(void **state)
{
    (void)state;
    uint16_t ids[1500];

    for (int i = 0; i < RP_COUNT(ids); i++) ids[i] = (uint16_t)(2 + i / 20 * 5 % 12);
    temp_write(&dir, "tokens.bin", ids, sizeof ids);
    temp_text(&dir, "bert.json", BERT);
    double loss = train("learns", RUN("loss.mask_token_id=60", "dtype=fp32", "max_steps=200", "epochs=100", "optimizer.lr=3e-3", "batch_size=8",
                                      "max_seq_len=20"));
    if (!(loss < 1)) fail_msg("the loss is %g; of twelve tokens alike it were 2.5", loss);
}

static void an_objective_that_is_not_the_models_is_refused(void **state)
{
    (void)state;
    static const struct { const char *model, *setting, *message; } cases[] = {
        { "bert", "loss.objective=causal", "'loss.objective: causal' predicts the next token, but a model of type 'bert' sees all tokens" },
        { "llama", "loss.objective=masked", "a model of type 'llama' sees only earlier tokens" },
        { "llama", "loss.mask_probability=0.2", "'loss.mask_probability' has no effect: a model of type 'llama'" },
        { "bert", "loss.mask_token_id=61", "set loss.mask_token_id to an id below 61" },
        { "bert", "loss.mask_token_id=null", "the tokenizer has no '[MASK]'" },
    };

    temp_text(&dir, "bert.json", BERT);
    for (int i = 0; i < RP_COUNT(cases); i++) {
        run r = run_open(&dir, cases[i].model, "refused", RUN(cases[i].setting));
        assert_int_equal(r.status, RP_ERR_CONFIG);
        if (!strstr(rp_error(r.ctx), cases[i].message)) fail_msg("%s: %s", cases[i].setting, rp_error(r.ctx));
        run_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(labels_are_what_stood_there_and_the_rest_stands_as_it_was),
        TEST(a_sample_has_its_share_of_targets_rounded_up_or_down),
        TEST(any_token_is_chosen_as_often_as_another),
        TEST(of_those_chosen_so_many_are_hidden_replaced_and_kept),
        TEST(any_cut_into_ranks_and_micro_batches_gives_the_same_masks),
        TEST(each_bit_of_a_seed_changes_the_masks),
        TEST(masks_change_with_step_and_seed_unless_they_are_fixed),
        TEST(padding_is_no_target),
        TEST(an_encoder_learns_what_is_hidden_from_it),
        TEST(an_objective_that_is_not_the_models_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
