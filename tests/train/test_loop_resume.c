/* Claims about runs that were stopped, killed or changed, and went on. */
/* ctest: device-free thread-free */
#include "loop_test.h"
#include "state_index.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static void assert_same_run(const char *a, const char *b)
{
    char at_a[128], at_b[128];

    assert_same_metrics(&dir, a, b);
    assert_same_final(&dir, a, b);
    snprintf(at_a, sizeof at_a, "%s/state/step-12/tensors.safetensors", a);
    snprintf(at_b, sizeof at_b, "%s/state/step-12/tensors.safetensors", b);
    assert_same_file(&dir, at_a, at_b);
}

/* Run k steps with a trainer that is then freed, with or without saving their state. */
static void run_part(const char *out, int64_t k, bool saves, const char *const *setting)
{
    run r = run_open(&dir, "gpt2", out, setting);
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    while (rp__trainer_done(r.trainer) < k) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    if (saves) assert_ok(r.ctx, rp__trainer_save(r.trainer));
    run_close(&r);
}

static void a_run_stopped_after_any_step_and_resumed_is_the_run_that_was_not(void **state)
{
    (void)state;
    char out[16];

    run_whole(&dir, "gpt2", "whole", RUN("lr_scheduler.name=cosine", "lr_scheduler.num_warmup_steps=3"));
    for (int64_t k = 1; k < 12; k += 2) {
        snprintf(out, sizeof out, "part%d", (int)k);
        run_part(out, k, true, RUN("lr_scheduler.name=cosine", "lr_scheduler.num_warmup_steps=3"));
        run_whole(&dir, "gpt2", out, RUN("lr_scheduler.name=cosine", "lr_scheduler.num_warmup_steps=3", "resume=auto"));
        assert_same_run("whole", out);
    }
}

static void steps_after_the_last_state_are_done_again(void **state)
{
    (void)state;
    run_whole(&dir, "gpt2", "whole", RUN("dtype=bf16", "optimizer.rounding=stochastic", "optimizer.state_dtype=bf16"));
    run_part("part", 8, false,
             RUN("dtype=bf16", "optimizer.rounding=stochastic", "optimizer.state_dtype=bf16", "save_every_n_steps=3"));
    metrics m = metrics_of(&dir, "part");
    assert_int_equal(m.n, 8);
    free(m.text);
    run_whole(&dir, "gpt2", "part",
              RUN("dtype=bf16", "optimizer.rounding=stochastic", "optimizer.state_dtype=bf16", "resume=auto"));
    assert_same_run("whole", "part");
}

static void states_in_8_bits_go_on_with_the_same_bits(void **state)
{
    (void)state;
    run_whole(&dir, "gpt2", "whole", RUN("optimizer.state_dtype=int8", "dtype=bf16"));
    for (int64_t k = 1; k < 12; k += 5) {
        char out[16];
        snprintf(out, sizeof out, "part%d", (int)k);
        run_part(out, k, true, RUN("optimizer.state_dtype=int8", "dtype=bf16"));
        run_whole(&dir, "gpt2", out, RUN("optimizer.state_dtype=int8", "dtype=bf16", "resume=auto"));
        assert_same_run("whole", out);
    }
}

static void a_resumed_run_may_change_what_changes_no_bit(void **state)
{
    (void)state;
    char path[300], out_state[200];

    run_whole(&dir, "gpt2", "whole", RUN("optimizer_in_bwd=true"));
    run_part("part", 5, true, RUN("enable_activation_checkpointing=true"));
    snprintf(out_state, sizeof out_state, "resume=%s/part/state/step-5", dir.path);
    run_whole(&dir, "gpt2", "elsewhere", RUN("optimizer_in_bwd=true", out_state));
    assert_same_final(&dir, "whole", "elsewhere");
    metrics m = metrics_of(&dir, "elsewhere");
    assert_int_equal(m.n, 7);
    assert_int_equal(metric_number(m.line[0], "step"), 6);
    free(m.text);
    snprintf(path, sizeof path, "elsewhere/state/step-12/state.json");
    assert_true(is_there(&dir, path));
}

static void a_longer_run_goes_on_where_the_shorter_one_ended(void **state)
{
    (void)state;
    run_whole(&dir, "gpt2", "whole", RUN(NULL));
    run_whole(&dir, "gpt2", "grown", RUN("max_steps=7"));
    run_whole(&dir, "gpt2", "grown", RUN("max_steps=12", "resume=auto"));
    assert_same_run("whole", "grown");
}

static void a_finished_run_that_is_resumed_makes_final_anew(void **state)
{
    (void)state;
    char path[300];

    run_whole(&dir, "gpt2", "out", RUN(NULL));
    snprintf(path, sizeof path, "%s/out/final", dir.path);
    assert_int_equal(rename(path, temp_path(&dir, "kept")), 0);
    run_whole(&dir, "gpt2", "out", RUN("resume=auto"));
    assert_same_file(&dir, "out/final/model.safetensors", "kept/model.safetensors");
    metrics m = metrics_of(&dir, "out");
    assert_int_equal(m.n, 12);
    free(m.text);
}

static void resume_auto_in_an_empty_folder_starts_a_run(void **state)
{
    (void)state;
    run_whole(&dir, "gpt2", "whole", RUN(NULL));
    run_whole(&dir, "gpt2", "auto", RUN("resume=auto"));
    assert_same_run("whole", "auto");
}

static void assert_not_resumed(const char *words, const char *const *setting)
{
    run r = run_open(&dir, "gpt2", "out", setting);

    assert_null(r.trainer);
    assert_int_equal(rp_status_exit_code(r.status), 2);
    if (!strstr(rp_error(r.ctx), words)) fail_msg("'%s' is not in: %s", words, rp_error(r.ctx));
    run_close(&r);
    assert_true(is_there(&dir, "out/state/step-4/state.json"));
}

static void another_recipe_or_other_data_is_not_resumed(void **state)
{
    (void)state;
    run_part("out", 4, true, RUN(NULL));
    assert_not_resumed("'optimizer.lr' is 0.004", RUN("resume=auto", "optimizer.lr=0.004"));
    assert_not_resumed("'seed' is 4", RUN("resume=auto", "seed=4"));
    assert_not_resumed("the global batch is 4 samples", RUN("resume=auto", "batch_size=4"));
    put_tokens(&dir, "tokens.bin", 1500, 9);
    assert_not_resumed("the tokens of 'dataset' have changed since", RUN("resume=auto"));
}

static void a_state_of_another_seed_than_its_recipe_is_not_resumed(void **state)
{
    (void)state;
    const char *path;

    run_part("out", 4, true, RUN(NULL));
    path         = temp_path(&dir, "out/state/step-4/state.json");
    json_t *root = read_state_index(path);
    json_object_set_new(root, "seed", json_string("0000000000000005"));
    write_state_index(path, root);
    assert_not_resumed("/out/state/step-4': its seed is 5, this run's 3", RUN("resume=auto"));
}

static void a_damaged_state_is_passed_over_with_a_note(void **state)
{
    (void)state;
    bool reported = false;

    run_whole(&dir, "gpt2", "whole", RUN(NULL));
    run_part("part", 8, false, RUN("save_every_n_steps=4"));
    assert_int_equal(truncate(temp_path(&dir, "part/state/step-8/tensors.safetensors"), 1000), 0);
    run r = run_open(&dir, "gpt2", "part", RUN("resume=auto"));
    assert_ok(r.ctx, r.status);
    assert_int_equal(rp__trainer_done(r.trainer), 4);
    for (rp_report_item *item = r.report.first; item; item = item->next)
        reported = reported || (item->note && strstr(item->text, "a newer state is skipped"));
    assert_true(reported);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    run_close(&r);
    assert_same_run("whole", "part");
}

/* The state at step 4 as 2 ranks of half the batch would have left it in one copy each: its bits are the same, the index differs. */
static void as_of_two_ranks(const char *out)
{
    char path[128];

    snprintf(path, sizeof path, "%s/state/step-4/state.json", out);
    json_t *root = read_state_index(temp_path(&dir, path));
    char *recipe = strdup(json_string_value(json_object_get(root, "recipe"))), *batch = strstr(recipe, "\nbatch_size: 2\n");
    assert_non_null(batch);
    batch[strlen("\nbatch_size: ")] = '1';
    json_object_set_new(root, "recipe", json_string(recipe));
    json_object_set_new(root, "ranks", json_integer(2));
    write_state_index(temp_path(&dir, path), root);
    free(recipe);
}

static void a_state_of_more_ranks_is_resumed_where_the_global_batch_is_the_same(void **state)
{
    (void)state;
    bool reported = false;

    run_whole(&dir, "gpt2", "whole", RUN(NULL));
    run_part("out", 4, true, RUN(NULL));
    as_of_two_ranks("out");
    assert_not_resumed("the global batch is 1 samples (ranks * batch_size * gradient_accumulation_steps), but the run to resume has 2",
                       RUN("resume=auto", "batch_size=1"));
    run r = run_open(&dir, "gpt2", "out", RUN("resume=auto"));
    assert_ok(r.ctx, r.status);
    for (rp_report_item *item = r.report.first; item; item = item->next)
        reported = reported || (item->note && strstr(item->text, "state/step-4', written by 2 ranks"));
    assert_true(reported);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    run_close(&r);
    assert_same_run("whole", "out");
}

/* The state at step 4, of the emulated GPU, as a run on this card would have left it. Takes the card; NULL: it was the host. */
static void as_of_card(const char *out, json_t *card)
{
    char path[128];

    snprintf(path, sizeof path, "%s/state/step-4/state.json", out);
    run_part(out, 4, true, RUN("device=emu"));
    json_t *root = read_state_index(temp_path(&dir, path));
    assert_string_equal(json_string_value(json_object_get(root, "card")), "emulated GPU, compute capability 9.0, driver for CUDA 13.0");
    if (card) json_object_set_new(root, "card", card);
    else json_object_del(root, "card");
    write_state_index(temp_path(&dir, path), root);
}

static bool has_note(const char *out, const char *words)
{
    run r         = run_open(&dir, "gpt2", out, RUN("device=emu", "resume=auto"));
    bool reported = false;

    assert_ok(r.ctx, r.status);
    for (rp_report_item *item = r.report.first; item; item = item->next) reported = reported || (item->note && strstr(item->text, words));
    run_close(&r);
    return reported;
}

static void a_state_of_another_card_is_resumed_with_a_note(void **state)
{
    (void)state;
    as_of_card("same", json_string("emulated GPU, compute capability 9.0, driver for CUDA 13.0"));
    as_of_card("other", json_string("another GPU"));
    as_of_card("host", NULL);
    as_of_card("damaged", json_integer(5));
    assert_false(has_note("same", "bits may differ"));
    assert_true(has_note("other", "the state was written on 'another GPU', this run computes on 'emulated GPU, compute capability 9.0, driver for CUDA 13.0': "
                                  "from here on bits may differ from those of a run that stays there"));
    assert_true(has_note("host", "the state was written on 'cpu'"));
    run r = run_open(&dir, "gpt2", "damaged", RUN("device=emu", "resume=auto"));
    assert_int_equal(r.status, RP_ERR_FORMAT);
    assert_non_null(strstr(rp_error(r.ctx), "state.json' has a wrong 'card'"));
    run_close(&r);
}

/* ---- killed ---- */

enum { NEVER = -1 };

/* A child runs to its end unless it is killed first; true: it came to its end. */
static bool run_and_kill(const char *out, int64_t after_us)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        run r = run_open(&dir, "gpt2", out, RUN("save_every_n_steps=2", "keep_last_n=1", "resume=auto"));
        _exit(r.status == RP_OK && rp__trainer_run(r.trainer, NULL, NULL) == RP_OK ? 0 : 1);
    }
    if (after_us != NEVER) {
        nanosleep(&(struct timespec){ after_us / 1000000, after_us % 1000000 * 1000 }, NULL);
        kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

/* Moments are spread over as long as the whole run takes here, so that some fall into loading, steps, states and the end. */
static void a_run_killed_at_any_moment_and_resumed_is_the_run_that_was_not(void **state)
{
    (void)state;
    enum { RUNS = 10, MOST_KILLS = 4 };
    uint32_t x = (uint32_t)getpid();
    int killed = 0;
    char out[16];

    double began = rp__seconds();
    assert_true(run_and_kill("whole", NEVER));
    int64_t whole_us = (int64_t)(1e6 * (rp__seconds() - began));
    for (int i = 0; i < RUNS; i++) {
        bool ended = false;
        snprintf(out, sizeof out, "killed%d", i);
        for (int k = 0; k < MOST_KILLS && !ended; k++) {
            x     = x * 1664525u + 1013904223u;
            ended = run_and_kill(out, (x >> 8) % whole_us);
            killed += !ended;
        }
        if (!ended) assert_true(run_and_kill(out, NEVER));
        assert_same_run("whole", out);
    }
    assert_true(killed > 0);
}


int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_killed_at_any_moment_and_resumed_is_the_run_that_was_not),
        TEST(a_run_stopped_after_any_step_and_resumed_is_the_run_that_was_not),
        TEST(steps_after_the_last_state_are_done_again),
        TEST(states_in_8_bits_go_on_with_the_same_bits),
        TEST(a_resumed_run_may_change_what_changes_no_bit),
        TEST(a_longer_run_goes_on_where_the_shorter_one_ended),
        TEST(a_finished_run_that_is_resumed_makes_final_anew),
        TEST(resume_auto_in_an_empty_folder_starts_a_run),
        TEST(another_recipe_or_other_data_is_not_resumed),
        TEST(a_state_of_another_seed_than_its_recipe_is_not_resumed),
        TEST(a_damaged_state_is_passed_over_with_a_note),
        TEST(a_state_of_more_ranks_is_resumed_where_the_global_batch_is_the_same),
        TEST(a_state_of_another_card_is_resumed_with_a_note),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
