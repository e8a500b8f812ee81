/* Claims about memory that runs out: at every allocation of a step, of opening, of saving. */
/* ctest: device-free */
#include "loop_test.h"

#include <dirent.h>

#include "base/file.h"

#define TINY "model.config=" RP_SOURCE_DIR "/recipes/tiny_llama/config.json", "model.overrides.num_hidden_layers=1"
#define REGIONS "activation_checkpointing.conditions=[{layers: [0]}, {path: \"*.attn\"}]"
#define RULES "activation_checkpointing.rules=[{path: \"*.attn.*\", op: matmul, fate: keep}, {type: Norm, fate: recompute}]"

static int64_t live(rp_ctx *ctx)
{
    rp_mem m;

    rp_mem_read(ctx, 0, false, &m);
    return m.live_bytes;
}

/* The same step is tried until no allocation is left to fail; what it took is given back each time. */
static void sweep_step(const char *out, const char *const *setting)
{
    run r = run_open(&dir, "gpt2", out, setting);
    rp_metrics line;
    test_faults f = { 0 };

    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    int64_t before = live(r.ctx), done = rp__trainer_done(r.trainer);
    while (!f.over) {
        test_fault_begin(&f, r.ctx);
        if (test_fault_end(&f, rp__trainer_step(r.trainer, &line))) assert_int_equal(rp__trainer_done(r.trainer), done);
        if (live(r.ctx) != before) fail_msg("allocation %d leaks %d bytes", (int)f.k, (int)(live(r.ctx) - before));
    }
    assert_true(f.failed > 50);
    assert_int_equal(rp__trainer_done(r.trainer), done + 1);
    rp_mem m;
    rp_mem_read(r.ctx, 0, false, &m);
    assert_int_equal(m.reserved_bytes, rp__trainer_info(r.trainer)->rehearsal.memory.reserved_bytes);
    run_close(&r);
}

static void every_allocation_of_a_step_may_fail(void **state)
{
    (void)state;
    char set[300], path[300];

    snprintf(path, sizeof path, "activation_checkpointing.offload.path=%s/slots", dir.path);
    snprintf(set, sizeof set, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    sweep_step("plain", RUN("model.overrides.n_layer=1", set, "run_val_every_n_steps=1"));
    sweep_step("best", RUN("model.overrides.n_layer=1", set, "run_val_every_n_steps=1", "keep_best=val_loss", "optimizer.lr=1e-9"));
    assert_false(is_there(&dir, "best/.best.tmp"));
    sweep_step("prompts", RUN(TINY, "sample_prompts=[one, two]", "sample_every=1", "sample_tokens=3"));
    sweep_step("full", RUN("model.overrides.n_layer=1", "enable_activation_checkpointing=true", "optimizer_in_bwd=true"));
    sweep_step("rules", RUN("model.overrides.n_layer=1", REGIONS, RULES));
    sweep_step("profiled", RUN("model.overrides.n_layer=1", "enable_activation_checkpointing=true", "profile=true", "max_steps=3"));
    sweep_step("away", RUN("model.overrides.n_layer=1", "dist.state_offload=true", path, "clip_grad_norm=1"));
    sweep_step("adapters", RUN("model.overrides.n_layer=1", "lora.rank=2", "lora.dropout=0.1", REGIONS));
    sweep_step("magnitudes", RUN("model.overrides.n_layer=1", "lora.rank=2", "lora.dropout=0.1", "lora.dora=true", "lora.whole=[norm]", REGIONS));
    sweep_step("accumulated", RUN("model.overrides.n_layer=1", "gradient_accumulation_steps=2", "clip_grad_norm=1"));
}

static int n_files(const char *path)
{
    DIR *d = opendir(path);
    int n  = 0;

    if (!d) return 0;
    for (const struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(d);
    return n;
}

/* Opening a run: nothing leaks, and until output_dir is made, last of all, nothing is written. */
static void any_allocation_of_opening_a_run_may_fail(void **state)
{
    char path[300];

    (void)state;
    snprintf(path, sizeof path, "activation_checkpointing.offload.path=%s/slots", dir.path);
    run r = run_open(&dir, "llama", "probe", RUN(TINY, REGIONS, RULES, "dist.state_offload=true", path, "sample_prompts=[one]", "sample_every=5"));
    test_faults f = { .each = 64, .survived = true };        /* a note may go without its words */
    int early     = 0;

    assert_ok(r.ctx, r.status);
    rp_recipe recipe  = *r.recipe;
    recipe.output_dir = temp_path(&dir, "out");
    while (!f.over) {
        rp_ctx_options options = rp__recipe_ctx_options(&recipe);
        rp_ctx *ctx            = test_ctx(&options);
        rp_trainer *t          = NULL;
        rp_report report;
        rp__report_open(&report, ctx);
        recipe.resume.kind = RP_RESUME_AUTO;
        test_fault_begin(&f, ctx);
        if (test_fault_end(&f, rp__trainer_new(ctx, &recipe, &report, &t))) {
            assert_null(t);
            early += !is_there(&dir, "out");
        }
        bool opened = t != NULL;
        rp__trainer_free(t);
        if (opened) assert_ok(ctx, rp__remove_tree(ctx, recipe.output_dir));
        rp__report_close(&report);
        test_ctx_free(ctx);
    }
    assert_true(f.failed > 50);
    assert_true(early > f.failed - 20);
    run_close(&r);
}

/* A state or final/ that could not be written leaves those there were, and no half of a new one. */
static void any_allocation_of_the_end_may_fail(void **state)
{
    char path[300];

    (void)state;
    snprintf(path, sizeof path, "activation_checkpointing.offload.path=%s/slots", dir.path);
    run r = run_open(&dir, "llama", "out", RUN("save_every_n_steps=11", "dist.state_offload=true", path));
    rp_metrics line;
    test_faults f = { 0 };

    assert_ok(r.ctx, r.status);
    while (rp__trainer_done(r.trainer) < 12) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    while (!f.over) {
        bool had_final = is_there(&dir, "out/final/model.safetensors");
        test_fault_begin(&f, r.ctx);
        if (!test_fault_end(&f, rp__trainer_finish(r.trainer))) continue;
        assert_true(is_there(&dir, "out/state/step-11/state.json"));
        assert_true(n_files(temp_path(&dir, "out/state")) <= 3);
        assert_false(is_there(&dir, "out/.final.tmp"));
        assert_true(!had_final || is_there(&dir, "out/final/model.safetensors"));
    }
    assert_true(f.failed > 20);
    run_close(&r);
    run_whole(&dir, "llama", "again", RUN(NULL));
    assert_same_final(&dir, "out", "again");
}

/* Reading the data of a recipe and rendering its first sample: nothing leaks. */
static void any_allocation_of_a_sample_may_fail(void **state)
{
    (void)state;
    run r         = run_open(&dir, "llama", "probe", RUN(NULL));
    test_faults f = { .each = 64, .survived = true };        /* a note may go without its words */

    assert_ok(r.ctx, r.status);
    while (!f.over) {
        rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true });
        rp_report report;
        rp_recipe_data data;
        rp__report_open(&report, ctx);
        test_fault_begin(&f, ctx);
        if (!test_fault_end(&f, rp__recipe_try_data(ctx, r.recipe, INT64_MAX, &report, &data)) && !report.n_errors && data.set[0].read)
            assert_true(data.sample.n > 0 && data.sample.tokens == 16);
        rp__report_close(&report);
        test_ctx_free(ctx);
    }
    assert_true(f.failed > 10);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_allocation_of_a_step_may_fail),
        TEST(any_allocation_of_opening_a_run_may_fail),
        TEST(any_allocation_of_the_end_may_fail),
        TEST(any_allocation_of_a_sample_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
