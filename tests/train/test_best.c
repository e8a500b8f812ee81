/* Claims about the best validation: best/ has its weights, a run that no longer improves ends early, and a resumed run knows what it has seen. */
/* ctest: device-free thread-free */
#include "loop_test.h"
#include "refused_calls.h"
#include "state_index.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/file.h"
#include "train/internal.h"

/* Settings and a validation after each step; up to NULL. */
static const char *const *validated(const char *const *setting)
{
    static const char *with[MOST_SETTINGS];
    static char set[300];
    int n = 0;

    for (; setting[n]; n++) with[n] = setting[n];
    assert_true(n + 3 <= MOST_SETTINGS);
    snprintf(set, sizeof set, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    with[n++] = set;
    with[n++] = "run_val_every_n_steps=1";
    with[n]   = NULL;
    return with;
}

static void assert_same_model(const char *a, const char *b)
{
    char at_a[128], at_b[128];

    snprintf(at_a, sizeof at_a, "%s/model.safetensors", a);
    snprintf(at_b, sizeof at_b, "%s/model.safetensors", b);
    assert_same_file(&dir, at_a, at_b);
}

static bool same_model(const char *a, const char *b)
{
    size_t n, m;
    char *one = file_bytes(&dir, a, &n), *two = file_bytes(&dir, b, &m);
    bool same = n == m && !memcmp(one, two, n);

    free(one);
    free(two);
    return same;
}

/* ---- best/ ---- */

/* The step of the lowest loss in the metrics. */
static int64_t lowest(const char *out, double *loss)
{
    metrics m    = metrics_of(&dir, out);
    int64_t step = 0;

    for (int i = 0; i < m.n; i++) {
        double val = metric_number(m.line[i], "val_loss");
        if (step && val >= *loss) continue;
        step  = i + 1;
        *loss = val;
    }
    free(m.text);
    return step;
}

static void best_has_the_weights_of_the_lowest_loss(void **state)
{
    static const char *const models[] = { "llama", "gpt2" };
    char steps[32];
    double loss;

    (void)state;
    for (int i = 0; i < RP_COUNT(models); i++) {
        const char *out = i ? "two" : "one", *less = i ? "two-less" : "one-less";
        char best[64], final[64];
        run_whole(&dir, models[i], out, validated(RUN("keep_best=val_loss", "optimizer.lr=0.05")));
        int64_t step = lowest(out, &loss);
        assert_true(step > 0 && step < 12);     /* else the claim is that of final/ */
        snprintf(steps, sizeof steps, "max_steps=%d", (int)step);
        run_whole(&dir, models[i], less, validated(RUN("optimizer.lr=0.05", steps)));
        snprintf(best, sizeof best, "%s/best", out);
        snprintf(final, sizeof final, "%s/final", less);
        assert_same_model(best, final);
        snprintf(final, sizeof final, "%s/final/model.safetensors", out);
        snprintf(best, sizeof best, "%s/best/model.safetensors", out);
        assert_false(same_model(best, final));
    }
}

static void without_the_key_there_is_no_best_and_the_state_knows_none(void **state)
{
    size_t n;

    (void)state;
    run_whole(&dir, "llama", "plain", validated(RUN(NULL)));
    run_whole(&dir, "llama", "kept", validated(RUN("keep_best=val_loss")));
    assert_false(is_there(&dir, "plain/best"));
    assert_true(is_there(&dir, "kept/best/config.json"));
    char *plain = file_bytes(&dir, "plain/state/step-12/state.json", &n), *kept = file_bytes(&dir, "kept/state/step-12/state.json", &n);
    assert_null(strstr(plain, "\"best\""));
    assert_non_null(strstr(kept, "\"best\""));
    free(plain);
    free(kept);
    assert_same_losses(&dir, "plain", "kept");
    assert_same_final(&dir, "plain", "kept");
}

/* ---- what counts as lower ---- */

typedef struct { double loss; int64_t best, waited; bool over; } seen;

static void follow(const seen *all, int n, const char *const *setting)
{
    run r = run_open(&dir, "llama", "follow", validated(setting));

    assert_ok(r.ctx, r.status);
    for (int i = 0; i < n; i++) {
        assert_ok(r.ctx, rp__best_validated(r.trainer, i + 1, all[i].loss));
        const rp_state_best *b = &r.trainer->best;
        if (b->step != all[i].best || b->waited != all[i].waited || rp__best_is_over(r.recipe, b) != all[i].over)
            fail_msg("validation %d: best %d, waited %d", i + 1, (int)b->step, (int)b->waited);
    }
    assert_ok(r.ctx, rp__remove_tree(r.ctx, r.recipe->output_dir));
    run_close(&r);
}

static void patience_counts_validations_that_are_not_lower_by_more_than_min_delta(void **state)
{
    static const seen plain[] = { { 3, 1, 0, false }, { 3, 1, 1, false }, { 2.9, 3, 0, false }, { 3, 3, 1, false }, { 2.9, 3, 2, true }, { 2.8, 6, 0, false } };
    static const seen delta[] = { { 3, 1, 0, false }, { 2.75, 2, 1, false }, { 2.5, 3, 2, true }, { 2.25, 4, 0, false }, { 2.25, 4, 1, false } };
    const seen odd[] = { { NAN, 0, 1, false }, { 5, 2, 0, false }, { NAN, 2, 1, false }, { -INFINITY, 2, 2, true },
                         { INFINITY, 2, 3, true }, { 4, 6, 0, false } };

    (void)state;
    follow(plain, RP_COUNT(plain), RUN("early_stopping.patience=2"));
    follow(delta, RP_COUNT(delta), RUN("early_stopping={patience: 2, min_delta: 0.5}"));
    follow(odd, RP_COUNT(odd), RUN("early_stopping.patience=2"));
}

/* ---- the early end ---- */

#define OVERFITS "optimizer.lr=0.05", "keep_best=val_loss", "early_stopping.patience=4"

static void a_run_that_no_longer_improves_ends_like_a_shorter_one(void **state)
{
    char steps[32];
    double loss = 0;

    (void)state;
    run r = run_open(&dir, "llama", "early", validated(RUN(OVERFITS)));
    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    const rp_trainer_info info = *rp__trainer_info(r.trainer);
    assert_true(info.stopped_early && info.n_steps < 12);
    assert_int_equal(rp__trainer_done(r.trainer), info.n_steps);
    assert_int_equal(info.best_step, info.n_steps - 4);
    run_close(&r);
    assert_int_equal(lowest("early", &loss), info.best_step);
    assert_true(loss == info.best_loss);
    snprintf(steps, sizeof steps, "max_steps=%d", (int)info.n_steps);
    run_whole(&dir, "llama", "shorter", validated(RUN("optimizer.lr=0.05", steps)));
    assert_same_final(&dir, "early", "shorter");
}

static void a_program_that_takes_the_steps_itself_sees_the_end(void **state)
{
    rp_metrics line;

    (void)state;
    run r = run_open(&dir, "llama", "own", validated(RUN(OVERFITS)));
    assert_ok(r.ctx, r.status);
    assert_int_equal(rp_trainer_steps(r.trainer), 12);
    while (rp_trainer_done(r.trainer) < rp_trainer_steps(r.trainer)) assert_ok(r.ctx, rp_trainer_step(r.trainer, &line));
    assert_true(rp__trainer_info(r.trainer)->stopped_early);
    assert_int_equal(rp_trainer_step(r.trainer, &line), RP_ERR_STATE);
    assert_ok(r.ctx, rp_trainer_finish(r.trainer));
    run_close(&r);
}

static bool noted(const run *r, const char *words)
{
    for (const rp_report_item *item = r->report.first; item; item = item->next)
        if (item->note && strstr(item->text, words)) return true;
    return false;
}

static void a_run_that_ended_early_goes_on_with_more_patience_alone(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "whole", validated(RUN("optimizer.lr=0.05", "keep_best=val_loss", "early_stopping.patience=12")));
    run_whole(&dir, "llama", "out", validated(RUN(OVERFITS)));
    run r = run_open(&dir, "llama", "out", validated(RUN(OVERFITS, "resume=auto")));
    assert_ok(r.ctx, r.status);
    assert_true(noted(&r, "the run has stopped early: its last 4 validations were not lower; raise 'early_stopping.patience' to continue it"));
    assert_int_equal(rp__trainer_done(r.trainer), rp__trainer_info(r.trainer)->n_steps);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    run_close(&r);
    run_whole(&dir, "llama", "out", validated(RUN("optimizer.lr=0.05", "keep_best=val_loss", "early_stopping.patience=12", "resume=auto")));
    assert_same_final(&dir, "whole", "out");
    assert_same_model("whole/best", "out/best");
}

/* ---- resume ---- */

/* The state of each step, and what it has seen, are those of the run that was not stopped. */
static void a_resumed_run_knows_its_best(void **state)
{
    rp_metrics line;

    (void)state;
    run_whole(&dir, "llama", "whole", validated(RUN(OVERFITS, "keep_last_n=9")));
    for (int k = 1; k < 6; k += 2) {
        char out[16], best[32];
        snprintf(out, sizeof out, "part%d", k);
        snprintf(best, sizeof best, "%s/best", out);
        run r = run_open(&dir, "llama", out, validated(RUN(OVERFITS)));
        assert_ok(r.ctx, r.status);
        while (rp__trainer_done(r.trainer) < k) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_ok(r.ctx, rp__trainer_save(r.trainer));
        run_close(&r);
        run_whole(&dir, "llama", out, validated(RUN(OVERFITS, "resume=auto")));
        assert_same_final(&dir, "whole", out);
        assert_same_model("whole/best", best);
        assert_same_metrics(&dir, "whole", out);
    }
}

/* A child runs to its end unless it is killed first. */
static bool run_and_kill(const char *out, int64_t after_us)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        run r = run_open(&dir, "llama", out, validated(RUN(OVERFITS, "save_every_n_steps=1", "keep_last_n=1", "resume=auto")));
        _exit(r.status == RP_OK && rp__trainer_run(r.trainer, NULL, NULL) == RP_OK ? 0 : 1);
    }
    if (after_us >= 0) {
        nanosleep(&(struct timespec){ after_us / 1000000, after_us % 1000000 * 1000 }, NULL);
        kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status)) assert_int_equal(WEXITSTATUS(status), 0);
    return WIFEXITED(status);
}

static void a_killed_run_has_a_whole_best_or_none_and_ends_with_the_same(void **state)
{
    uint32_t x = (uint32_t)getpid();
    int killed = 0;

    (void)state;
    double began = rp__seconds();
    assert_true(run_and_kill("whole", -1));
    int64_t whole_us = (int64_t)(1e6 * (rp__seconds() - began));
    for (int i = 0; i < 8; i++) {
        char out[16], best[32], file[64];
        bool ended = false;
        snprintf(out, sizeof out, "killed%d", i);
        snprintf(best, sizeof best, "%s/best", out);
        snprintf(file, sizeof file, "%s/model.safetensors", best);
        for (int k = 0; k < 3 && !ended; k++) {
            x     = x * 1664525u + 1013904223u;
            ended = run_and_kill(out, (x >> 8) % whole_us);
            killed += !ended;
            assert_true(!is_there(&dir, best) || is_there(&dir, file));
        }
        if (!ended) assert_true(run_and_kill(out, -1));
        assert_same_model("whole/best", best);
        assert_same_final(&dir, "whole", out);
    }
    assert_true(killed > 0);
}

/* ---- failures ---- */

/* Each call that changes the disk fails once, in the step that writes best/ for the second time. */
static void a_call_that_fails_leaves_the_best_before(void **state)
{
    rp_metrics line;
    int fired = 0;

    (void)state;
    for (bool over = false; !over;) {
        char out[16], file[64], aside[64];
        snprintf(out, sizeof out, "fault%d", fired);
        snprintf(file, sizeof file, "%s/best/model.safetensors", out);
        snprintf(aside, sizeof aside, "%s/.best.tmp", out);
        run r = run_open(&dir, "llama", out, validated(RUN("keep_best=val_loss")));
        assert_ok(r.ctx, r.status);
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        size_t n;
        char *before = file_bytes(&dir, file, &n);
        calls.countdown  = fired + 1;
        rp_status status = rp__trainer_step(r.trainer, &line);
        over             = calls.countdown != 0;
        calls.countdown  = 0;
        assert_true(over == (status == RP_OK) || status == RP_ERR_IO || status == RP_OK);
        size_t m;
        char *after = file_bytes(&dir, file, &m);
        if (status == RP_OK) assert_true(n == m && memcmp(before, after, n));
        assert_false(is_there(&dir, aside));
        free(before);
        free(after);
        run_close(&r);
        fired++;
    }
    assert_true(fired > 8);
}

/* ---- states ---- */

static void set_best(const char *out, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/state/step-1/state.json", out);
    json_t *root = read_state_index(temp_path(&dir, path));
    assert_int_equal(json_object_set_new(root, "best", json_loads(text, JSON_DECODE_ANY, NULL)), 0);
    write_state_index(temp_path(&dir, path), root);
}

static void a_state_with_a_wrong_best_is_refused(void **state)
{
    static const char *const wrong[] = { "5", "{}", "{\"step\": -1, \"loss\": 1.0, \"mark\": 1.0, \"waited\": 0}",
                                         "{\"step\": 1, \"loss\": \"1\", \"mark\": 1.0, \"waited\": 0}", "{\"step\": 1, \"loss\": 1.0, \"waited\": 0}" };

    (void)state;
    for (int i = 0; i < RP_COUNT(wrong); i++) {
        char out[16];
        snprintf(out, sizeof out, "wrong%d", i);
        run_whole(&dir, "llama", out, validated(RUN("keep_best=val_loss", "max_steps=1")));
        set_best(out, wrong[i]);
        run r = run_open(&dir, "llama", out, validated(RUN("keep_best=val_loss", "max_steps=2", "resume=auto")));
        assert_int_equal(r.status, RP_ERR_FORMAT);
        assert_non_null(strstr(rp_error(r.ctx), "state.json' has a wrong 'best'"));
        run_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(best_has_the_weights_of_the_lowest_loss),
        TEST(without_the_key_there_is_no_best_and_the_state_knows_none),
        TEST(patience_counts_validations_that_are_not_lower_by_more_than_min_delta),
        TEST(a_run_that_no_longer_improves_ends_like_a_shorter_one),
        TEST(a_program_that_takes_the_steps_itself_sees_the_end),
        TEST(a_run_that_ended_early_goes_on_with_more_patience_alone),
        TEST(a_resumed_run_knows_its_best),
        TEST(a_killed_run_has_a_whole_best_or_none_and_ends_with_the_same),
        TEST(a_call_that_fails_leaves_the_best_before),
        TEST(a_state_with_a_wrong_best_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
