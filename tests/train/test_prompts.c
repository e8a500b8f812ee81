/* Claims about prompts that a run continues: they change no bit and no byte of the training, and are the same after a resume. */
/* ctest: device-free */
#include "loop_test.h"

#define TINY "model.config=" RP_SOURCE_DIR "/recipes/tiny_llama/config.json"
#define PROMPTS "sample_prompts=[one two, six]", "sample_every=2", "sample_tokens=6"

static const char *const ways[][6] = {
    { "dtype=bf16" },
    { "dtype=bf16", "enable_activation_checkpointing=true", "optimizer_in_bwd=true" },
    { "activation_checkpointing.mode=selective_op", "gradient_accumulation_steps=2", "clip_grad_norm=1" },
    { "lora.rank=2", "lora.dropout=0.1" },
    { "memory_budget=3800KB" },
    { "optimizer.state_dtype=int8", "threads=2" },
};

/* Settings, the tiny model and prompts; up to NULL. */
static const char *const *with(const char *const *setting, bool prompts)
{
    static const char *all[MOST_SETTINGS];
    static const char *const more[] = { PROMPTS };
    int n = 0;

    for (; setting[n]; n++) all[n] = setting[n];
    all[n++] = TINY;
    for (int i = 0; prompts && i < RP_COUNT(more); i++) all[n++] = more[i];
    all[n] = NULL;
    return all;
}

static void prompts_change_no_bit_and_keep_to_the_planned_bytes(void **state)
{
    (void)state;
    for (int i = 0; i < RP_COUNT(ways); i++) {
        char plain[16], other[16];
        rp_metrics line;
        snprintf(plain, sizeof plain, "plain-%d", i);
        snprintf(other, sizeof other, "other-%d", i);
        run_whole(&dir, "llama", plain, with(ways[i], false));
        run r = run_open(&dir, "llama", other, with(ways[i], true));
        assert_ok(r.ctx, r.status);
        const rp_step_usage *planned = &rp__trainer_info(r.trainer)->rehearsal;
        while (rp__trainer_done(r.trainer) < 12) {
            rp_mem now;
            assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
            assert_int_equal(line.peak_memory_active, planned->memory.peak_bytes);
            rp_mem_read(r.ctx, 0, false, &now);
            assert_int_equal(now.reserved_bytes, planned->memory.reserved_bytes);
        }
        assert_ok(r.ctx, rp__trainer_finish(r.trainer));
        run_close(&r);
        assert_same_losses(&dir, plain, other);
        if (i != 3) assert_same_final(&dir, plain, other);      /* an adapter has another file */
    }
}

/* Long continuations of a model without a backward's values need more than its step: the pool is planned for them. */
static void a_long_continuation_is_part_of_the_plan(void **state)
{
    int64_t reserved[2];

    (void)state;
    for (int i = 0; i < 2; i++) {
        rp_metrics line;
        run r = run_open(&dir, "llama", i ? "long" : "short",
                         RUN(TINY, "max_seq_len=256", "batch_size=1", "freeze=['layers.*', tok_embeddings]", "sample_every=1", "epochs=9", "max_steps=2",
                             "enable_activation_checkpointing=true", i ? "sample_prompts=[one]" : "sample_prompts=[one, six]",
                             i ? "sample_tokens=255" : "sample_tokens=1"));
        assert_ok(r.ctx, r.status);
        reserved[i] = rp__trainer_info(r.trainer)->rehearsal.memory.reserved_bytes;
        for (int s = 0; s < 2; s++) {
            rp_mem now;
            assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
            rp_mem_read(r.ctx, 0, false, &now);
            assert_int_equal(now.reserved_bytes, reserved[i]);
        }
        run_close(&r);
    }
    assert_true(reserved[1] >= reserved[0]);
}

static void a_resumed_run_continues_the_same_prompts(void **state)
{
    rp_metrics line;

    (void)state;
    run_whole(&dir, "llama", "whole", with(RUN(NULL), true));
    run r = run_open(&dir, "llama", "part", with(RUN(NULL), true));
    assert_ok(r.ctx, r.status);
    while (rp__trainer_done(r.trainer) < 5) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_ok(r.ctx, rp__trainer_save(r.trainer));
    assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));       /* its line is cut */
    run_close(&r);
    run_whole(&dir, "llama", "part", with(RUN("resume=auto"), true));
    assert_same_metrics(&dir, "whole", "part");
    metrics m = metrics_of(&dir, "part");
    for (int i = 0; i < m.n; i++) assert_true((strstr(m.line[i], "\"samples\": [{\"prompt\": \"one two\", \"text\": ") != NULL) == (i % 2 == 1));
    free(m.text);
}

static void prompts_that_cannot_be_continued_are_refused(void **state)
{
    (void)state;
    assert_refused("out", RP_ERR_CONFIG, "sample_prompts: prompt 2 has 16 tokens, and max_seq_len of 16 leaves no room for a continuation",
                   RUN(TINY, "sample_prompts=[one, \"0123456789abcdef\"]", "sample_every=1"));
    assert_refused("out", RP_ERR_CONFIG, "sample_prompts: prompt 1 has the token 116, and the model's vocabulary has 100",
                   RUN(TINY, "model.overrides.vocab_size=100", "sample_prompts=[two]", "sample_every=1"));
    assert_refused("out", RP_ERR_CONFIG, "'sample_prompts' needs a model that generates text, and an encoder does not",
                   RUN("model.config=" RP_SOURCE_DIR "/tests/golden/models/bert/config.json", "tokenizer.path=" RP_SOURCE_DIR "/recipes/tiny_llama",
                       "loss.mask_token_id=4", "sample_prompts=[two]", "sample_every=1"));
    assert_false(is_there(&dir, "out"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(prompts_change_no_bit_and_keep_to_the_planned_bytes),
        TEST(a_long_continuation_is_part_of_the_plan),
        TEST(a_resumed_run_continues_the_same_prompts),
        TEST(prompts_that_cannot_be_continued_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
