/* Claims about the report that a run leaves: it is the page that `view` makes, but for the curve, though nothing is planned again. */
/* ctest: device-free thread-free */
#include "train/loop_test.h"

#include <sys/stat.h>

#include "view/report.h"

static void make_page(run *r, const char *file)
{
    char losses[600], title[RP_TITLE_CHARS];
    const rp_forecast_options options = { .events = true };
    rp_ctx_options shapes = rp__recipe_ctx_options(r->recipe);
    rp_forecast f;
    rp_report report;
    rp_ctx *ctx;

    shapes.shapes_only = true;
    ctx                = test_ctx(&shapes);
    snprintf(losses, sizeof losses, "%s/metrics.jsonl", r->recipe->output_dir);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_forecast(ctx, r->recipe, &options, &report, &f));
    assert_ok(ctx, rp__report_page_write(ctx, &(rp_report_page){ &f, NULL, rp__report_title(r->recipe->output_dir, r->recipe, title), losses }, file));
    rp__forecast_close(&f);
    rp__report_close(&report);
    test_ctx_free(ctx);
}

static void the_report_of_a_run_is_the_page_of_its_recipe(void **state)
{
    (void)state;
    static const char *const settings[][3] = {
        { "max_steps=3" }, { "max_steps=3", "enable_activation_checkpointing=true" }, { "max_steps=3", "memory_budget=510KB", "dtype=bf16" },
        { "max_steps=3", "activation_checkpointing.rules=[{op: swiglu, fate: recompute}]", "gradient_accumulation_steps=2" },
        { "max_steps=3", "lora={rank: 2, modules: [attn.q, layers.1.mlp.down]}" },
    };

    for (int i = 0; i < RP_COUNT(settings); i++) {
        char out[16], mine[32], recompute[32];
        snprintf(out, sizeof out, "out%d", i);
        snprintf(mine, sizeof mine, "%s/report.html", out);
        snprintf(recompute, sizeof recompute, "%s/again.html", out);
        run r = run_open(&dir, "llama", out, RUN(settings[i][0], settings[i][1], settings[i][2]));
        assert_ok(r.ctx, r.status);
        assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
        assert_ok(r.ctx, rp_trainer_report(r.trainer));
        make_page(&r, temp_path(&dir, recompute));
        assert_same_file(&dir, mine, recompute);
        run_close(&r);
    }
}

static void a_title_names_the_run_and_the_model_without_absolute_folders(void **state)
{
    (void)state;
    static const struct { const char *place, *path, *config, *wanted; } cases[] = {
        { "runs/first", "models/a.gguf", NULL, "first: models/a.gguf, 2 x 16 tokens, fp32" },
        { "/home/me/first//", "/models/SmolLM2/", NULL, "first: SmolLM2, 2 x 16 tokens, fp32" },
        { ".", NULL, "/usr/share/reprise/recipes/tiny_llama/config.json", "out: tiny_llama, 2 x 16 tokens, fp32" },
        { "..", NULL, "/config.json", "out: config.json, 2 x 16 tokens, fp32" },
        { "/", NULL, "c/config.json", "/: c/config.json, 2 x 16 tokens, fp32" },
    };
    rp_recipe recipe = { .batch_size = 2, .max_seq_len = 16, .dtype = RP_TRAIN_FP32, .output_dir = "/tmp/out" };
    char title[RP_TITLE_CHARS];

    for (int i = 0; i < RP_COUNT(cases); i++) {
        recipe.model.path   = cases[i].path;
        recipe.model.config = cases[i].config;
        assert_string_equal(rp__report_title(cases[i].place, &recipe, title), cases[i].wanted);
    }
}

/* After it the trainer is as it was: its next step has the bits it would have had. */
static void a_report_between_steps_changes_no_bit(void **state)
{
    (void)state;
    for (int reports = 0; reports < 2; reports++) {
        run r = run_open(&dir, "gpt2", reports ? "with" : "without", RUN("max_steps=4", "memory_budget=850KB"));
        rp_metrics line;
        assert_ok(r.ctx, r.status);
        for (int i = 0; i < 4; i++) {
            assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
            if (reports) assert_ok(r.ctx, rp_trainer_report(r.trainer));
            assert_int_equal(line.peak_memory_active, rp__trainer_info(r.trainer)->rehearsal.memory.peak_bytes);
        }
        assert_ok(r.ctx, rp__trainer_finish(r.trainer));
        run_close(&r);
    }
    assert_same_final(&dir, "with", "without");
}

static void a_failing_allocation_is_reported_and_the_old_report_stays(void **state)
{
    (void)state;
    run r         = run_open(&dir, "llama", "out", RUN("max_steps=2", "memory_budget=620KB"));
    test_faults f = { .each = 8 };

    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    temp_text(&dir, "out/report.html", "old");
    while (!f.over) {
        size_t bytes;
        test_fault_begin(&f, r.ctx);
        bool failed = test_fault_end(&f, rp_trainer_report(r.trainer));
        char *page  = file_bytes(&dir, "out/report.html", &bytes);
        if (failed) assert_string_equal(page, "old");
        else assert_non_null(strstr(page, "<html"));
        free(page);
    }
    assert_true(f.failed > 20);
    run_close(&r);
}

/* ---- the losses of a long run ---- */

static void the_page_of_a_long_run_shows_some_of_its_steps_and_its_first_and_last(void **state)
{
    (void)state;
    enum { STEPS = 100000, EVERY = 5 };
    run r            = run_open(&dir, "llama", "out", RUN("max_steps=1"));
    const char *path = temp_path(&dir, "long.jsonl");
    FILE *f          = fopen(path, "w");
    rp_bump bump     = { .ctx = r.ctx };
    int n_vals       = 0;
    rp_forecast forecast;
    rp_page page;

    assert_ok(r.ctx, r.status);
    for (int i = 1; i <= STEPS; i++) fprintf(f, "{\"step\": %d, \"loss\": 2.5, \"lr\": 0.1%s}\n", i, i % EVERY ? "" : ", \"val_loss\": 3");
    assert_int_equal(fclose(f), 0);
    assert_ok(r.ctx, rp__trainer_forecast(r.trainer, &forecast));
    assert_ok(r.ctx, rp__report_page_fill(&(rp_report_page){ &forecast, NULL, "long", path }, &bump, &page));
    assert_in_range(page.n_losses, 4000, 8192);
    assert_int_equal(page.loss[0].step, 1);
    assert_int_equal(page.loss[page.n_losses - 1].step, STEPS);
    for (int i = 1; i < page.n_losses; i++) {
        assert_in_range(page.loss[i].step - page.loss[i - 1].step, 1, 25);
        n_vals += page.loss[i].has_val;
    }
    assert_true(n_vals > 3000);
    rp__bump_free(&bump);
    rp__forecast_close(&forecast);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_report_of_a_run_is_the_page_of_its_recipe),
        TEST(a_title_names_the_run_and_the_model_without_absolute_folders),
        TEST(a_report_between_steps_changes_no_bit),
        TEST(a_failing_allocation_is_reported_and_the_old_report_stays),
        TEST(the_page_of_a_long_run_shows_some_of_its_steps_and_its_first_and_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
