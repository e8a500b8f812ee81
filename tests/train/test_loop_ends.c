/* Claims about the ends of runs: what is refused before the first step, and how a run ends early. */
/* ctest: level-free */
#include "loop_test.h"

#include <math.h>

/* ---- refusals ---- */

static void a_wrong_recipe_is_refused_and_nothing_is_written(void **state)
{
    (void)state;
    assert_refused("new", RP_ERR_CONFIG, "'max_seq_len' 65 is beyond the model's context of 64", RUN("max_seq_len=65"));
    assert_refused("new", RP_ERR_CONFIG, "no module matches '*attn.z'", RUN("optimizer.no_decay=['*attn.z']"));
    assert_refused("new", RP_ERR_CONFIG, "no data: set 'dataset.path'", RUN("~dataset"));
    assert_refused("new", RP_ERR_MATCH, "no file matches", RUN("dataset.path=/nowhere/*.bin"));
    assert_refused("new", RP_ERR_CONFIG, "there is no such file", RUN("model.config=/nowhere/config.json"));
    assert_refused("new", RP_ERR_CONFIG, "too little data", RUN("batch_size=1000"));
    assert_refused("new", RP_ERR_CONFIG, "there is no state at", RUN("resume=/nowhere/state"));
    assert_false(is_there(&dir, "new"));
}

static void all_messages_of_a_wrong_recipe_come_at_once(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "new", RUN("max_seq_len=65", "optimizer.no_decay=['*attn.z']", "~dataset"));

    assert_int_equal(r.report.n_errors, 3);
    assert_false(is_there(&dir, "new"));
    run_close(&r);
}

static void a_folder_that_holds_a_run_is_refused_unless_resumed(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("max_steps=2"));
    assert_refused("out", RP_ERR_EXISTS, "contains a run already (config.yaml)", RUN(NULL));
    mkdir(temp_path(&dir, "half"), 0777);
    mkdir(temp_path(&dir, "half/state"), 0777);
    assert_refused("half", RP_ERR_EXISTS, "contains a run already (state)", RUN(NULL));
    mkdir(temp_path(&dir, "fresh"), 0777);
    temp_text(&dir, "fresh/notes.txt", "mine");
    run_whole(&dir, "llama", "fresh", RUN("max_steps=2"));
    assert_same_final(&dir, "out", "fresh");
}

static void a_folder_that_holds_a_run_hides_no_other_error(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("max_steps=2"));
    run r = run_open(&dir, "llama", "out", RUN("max_seq_len=65", "dataset.path=/nowhere/*.bin"));

    assert_int_equal(r.report.n_errors, 3);
    run_close(&r);
}

static void a_limit_below_what_the_step_reserves_is_refused_before_anything_is_written(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "probe", RUN(NULL));
    assert_ok(r.ctx, r.status);
    int64_t reserved = rp__trainer_info(r.trainer)->rehearsal.memory.reserved_bytes;

    for (int enough = 0; enough < 2; enough++) {
        rp_ctx_options options     = rp__recipe_ctx_options(r.recipe);
        options.memory_limit_bytes = reserved - !enough * RP_ALIGN;
        rp_recipe recipe           = *r.recipe;
        recipe.output_dir          = temp_path(&dir, "limited");
        rp_ctx *ctx                = test_ctx(&options);
        rp_trainer *t              = NULL;
        rp_report report;
        rp__report_open(&report, ctx);
        rp_status status = rp__trainer_new(ctx, &recipe, &report, &t);
        assert_int_equal(status, enough ? RP_OK : RP_ERR_MEMORY);
        assert_true(is_there(&dir, "limited") == (bool)enough);
        if (enough) assert_ok(ctx, rp__trainer_run(t, NULL, NULL));
        rp__trainer_free(t);
        rp__report_close(&report);
        test_ctx_free(ctx);
    }
    run_close(&r);
}

/* ---- ends ---- */

static void a_loss_that_is_not_finite_ends_the_run_and_names_the_state_kept(void **state)
{
    (void)state;
    char words[256], name[64];
    run r = run_open(&dir, "llama", "out", RUN("optimizer.lr=1e9", "optimizer.weight_decay=1e9", "save_every_n_steps=1"));

    assert_ok(r.ctx, r.status);
    assert_int_equal(rp__trainer_run(r.trainer, NULL, NULL), RP_ERR_NONFINITE);
    assert_int_equal(rp_status_exit_code(RP_ERR_NONFINITE), 1);
    int done = (int)rp__trainer_done(r.trainer);
    assert_in_range(done, 1, 10);
    snprintf(words, sizeof words, "loss of step %d is nan; state of step %d in '%s/out/state/step-%d' is kept", done + 1, done,
             dir.path, done);
    assert_string_equal(rp_error(r.ctx), words);
    run_close(&r);
    snprintf(name, sizeof name, "out/state/step-%d/state.json", done);
    assert_true(is_there(&dir, name));
    snprintf(name, sizeof name, "out/state/step-%d", done + 1);
    assert_false(is_there(&dir, name));
    assert_false(is_there(&dir, "out/final"));
    metrics m = metrics_of(&dir, "out");
    assert_int_equal(m.n, done);
    free(m.text);
}

static void scale(const run *r, const char *path, double by)
{
    const rp_param *p = rp__model_find_param(rp__trainer_model(r->trainer), path);
    int64_t n         = rp_meta_elems(&p->tensor->m);
    double *values    = malloc((size_t)n * sizeof *values);

    assert_ok(r->ctx, rp_tensor_read(p->tensor, values, n));
    for (int64_t i = 0; i < n; i++) values[i] *= by;
    assert_ok(r->ctx, rp_tensor_write(p->tensor, values, n));
    free(values);
}

/* Values that attention adds up and its output makes small again have a gradient that floats do not hold. */
static void a_gradient_that_is_not_finite_ends_the_run(void **state)
{
    (void)state;
    static const char *const ways[] = { "clip_grad_norm=1", "grad_dtype=null" };

    for (int way = 0; way < RP_COUNT(ways); way++) {
        run r = run_open(&dir, "llama", way ? "out1" : "out0", RUN(ways[way]));
        rp_metrics line;
        assert_ok(r.ctx, r.status);
        scale(&r, "layers.1.attn.v.weight", 1e30);
        scale(&r, "layers.1.attn.output.weight", 1e-30);
        scale(&r, "norm.weight", 1e12);
        assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_NONFINITE);
        if (strcmp(rp_error(r.ctx), "grad_norm of step 1 is inf; no state was saved"))      /* by other kernels inf less inf */
            assert_string_equal(rp_error(r.ctx), "grad_norm of step 1 is nan; no state was saved");
        run_close(&r);
    }
}

static void a_loss_is_looked_at_before_it_touches_a_parameter(void **state)
{
    (void)state;
    static const char *const ways[] = { "clip_grad_norm=1", "optimizer_in_bwd=true", "grad_dtype=null" };

    for (int way = 0; way < RP_COUNT(ways); way++) {
        char out[16];
        snprintf(out, sizeof out, "out%d", way);
        run r = run_open(&dir, "llama", out, RUN(ways[way]));
        rp_metrics line;
        assert_ok(r.ctx, r.status);
        const rp_param *p = rp__model_find_param(rp__trainer_model(r.trainer), "tok_embeddings.weight");
        int64_t n         = rp_meta_elems(&p->tensor->m);
        double *values = malloc((size_t)n * sizeof *values), *after = malloc((size_t)n * sizeof *after);
        assert_ok(r.ctx, rp_tensor_read(p->tensor, values, n));
        for (int64_t i = 1; i < n; i += 2) values[i] = NAN;
        assert_ok(r.ctx, rp_tensor_write(p->tensor, values, n));
        assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_NONFINITE);
        assert_string_equal(rp_error(r.ctx), "loss of step 1 is nan; no state was saved");
        assert_ok(r.ctx, rp_tensor_read(p->tensor, after, n));
        for (int64_t i = 0; i < n; i += 2) assert_true(after[i] == values[i]);
        free(values);
        free(after);
        run_close(&r);
    }
}

static void a_signal_ends_the_run_after_its_step_with_a_state(void **state)
{
    (void)state;
    volatile int stop = 0;
    rp_metrics line;
    run r = run_open(&dir, "llama", "out", RUN(NULL));

    assert_ok(r.ctx, r.status);
    for (int i = 0; i < 4; i++) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    stop = 15;
    assert_int_equal(rp__trainer_run(r.trainer, &stop, NULL), RP_ERR_INTERRUPTED);
    if (!strstr(rp_error(r.ctx), "interrupted after step 4 of 12") || !strstr(rp_error(r.ctx), "out/state/step-4'"))
        fail_msg("%s", rp_error(r.ctx));
    assert_int_equal(rp__trainer_done(r.trainer), 4);
    assert_true(is_there(&dir, "out/state/step-4/state.json"));
    assert_false(is_there(&dir, "out/final"));
    run_close(&r);
}

static void there_is_no_training_on_shapes_alone(void **state)
{
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_recipe *recipe;
    rp_trainer *t = NULL;

    (void)state;
    assert_ok(ctx, rp_recipe_load(ctx, RP_SOURCE_DIR "/recipes/tiny_from_scratch.yaml", 0, NULL, &recipe));
    assert_int_equal(rp_trainer_new(ctx, recipe, &t), RP_ERR_META);
    assert_string_equal(rp_error(ctx), "cannot train on a context of shapes alone");
    assert_null(t);
    rp_recipe_free(recipe);
    test_ctx_free(ctx);
}

static void a_run_that_is_done_takes_no_step(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "out", RUN("max_steps=2"));
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    for (int i = 0; i < 2; i++) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_int_equal(rp__trainer_step(r.trainer, &line), RP_ERR_STATE);
    assert_string_equal(rp_error(r.ctx), "the run has 2 steps, and all are done");
    assert_int_equal(line.step, 2);
    metrics m = metrics_of(&dir, "out");
    assert_int_equal(m.n, 2);
    free(m.text);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_that_is_done_takes_no_step),
        TEST(a_wrong_recipe_is_refused_and_nothing_is_written),
        TEST(all_messages_of_a_wrong_recipe_come_at_once),
        TEST(a_folder_that_holds_a_run_is_refused_unless_resumed),
        TEST(a_folder_that_holds_a_run_hides_no_other_error),
        TEST(a_limit_below_what_the_step_reserves_is_refused_before_anything_is_written),
        TEST(a_loss_that_is_not_finite_ends_the_run_and_names_the_state_kept),
        TEST(a_gradient_that_is_not_finite_ends_the_run),
        TEST(a_loss_is_looked_at_before_it_touches_a_parameter),
        TEST(a_signal_ends_the_run_after_its_step_with_a_state),
        TEST(there_is_no_training_on_shapes_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
