/* Claims about runs and plans: whichever call leads to an allocation that fails, the error comes out, and nothing is left. */
/* ctest: device-free long */
#include "loop_test.h"

#include "base/file.h"
#include "sites_test.h"

typedef struct { const char *text; int n; const char *setting[4]; } source;

static rp_status read_source(rp_ctx *ctx, const source *s, rp_report *report, rp_recipe **out)
{
    return rp__recipe_read(ctx, "r.yaml", s->text, (int64_t)strlen(s->text), s->n, s->setting, report, out);
}

/* ---- recipes ---- */

/* Hints of errors may be left out where memory ends. A recipe that is read is the one that the first call reads. */
static rp_status read_and_write(rp_ctx *ctx, const source *s, char **first)
{
    rp_recipe *recipe = NULL;
    rp_bump bump      = { .ctx = ctx };
    const char *text;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = read_source(ctx, s, &report, &recipe);
    if (status == RP_OK) status = rp__recipe_write(recipe, &bump, &text);
    if (status == RP_OK && !*first) *first = strdup(text);
    if (status == RP_OK) assert_string_equal(text, *first);
    rp__bump_free(&bump);
    rp__recipe_free(recipe);
    rp__report_close(&report);
    return status;
}

#define M "model: {path: m}\n"

/* Every group, with values of every type. */
static const char all_groups[] =
    "model: {path: m, stand_in: s.json, dropout: 0.1, overrides: {rope_theta: 1e6, layer_types: [a, b]}}\nfreeze: ['*.norm']\n"
    "tokenizer: {path: t, chat_template: c.jinja}\n"
    "dataset: {path: [a, 'b/*.gz'], format: jsonl, column: say, prompt_column: ask, train_on_input: false, packed: false}\n"
    "dataset_val: {path: v, format: chat, packed: false}\nrun_val_every_n_steps: 5\nmax_steps: 7\nclip_grad_norm: 1\n"
    "optimizer: {lr: 1e-3, betas: [0.8, 0.9], no_decay: ['*norm*', bias], state_dtype: bf16}\nlr_scheduler: {name: cosine, num_warmup_steps: 2}\n"
    "loss: {num_output_chunks: 4, ignore_index: -1, keep_logits: auto}\noutput_dir: runs/x//\nsave_every_n_steps: 3\nresume: auto\nmemory_limit: null\n"
    "activation_checkpointing:\n"
    "  conditions: [{any: [{path: '*.attn'}, {module_type: [MLP, Norm]}]}, {layers: [0, 2-3]}, {not: {every_k_layers: 2}}]\n"
    "  rules: [{path: '*.mlp', op: matmul, fate: prefer_offload}, {larger_than: 1MB, fate: recompute}]\n"
    "  offload: {path: o}\n"
    "  verify: step\n"
    "dist: {ranks: 2, custom_sharded_layers: [output], timeout: 90s, state_offload: true}\n";

/* References, settings, lists; and the spellings of other programs. */
static const source sources[] = {
    { all_groups, 0, { 0 } },
    { M "seed: 3\nmax_steps: ${seed}\noutput_dir: out/${seed}/x${optimizer.lr}\noptimizer: {lr: 1e-3, betas: [0.9, 0.95]}\n"
      "lora: {rank: 2, modules: [q, v]}\ndataset: {path: [a, b], format: text}\nresume: ${output_dir}\n", 2, { "lora.alpha=4", "optimizer.lr=${seed}" } },
    { M "activation_checkpointing: {rules: [{path: \"*.attn.*\", op: matmul, fate: keep}], conditions: [{layers: [0, 2-3]}]}\n", 0, { 0 } },
    { M "ac_mode: selective\nac_option: 2\nfsdp_reshard_after_forward: false\ncustom_sharded_layers: [tok_embeddings, output]\n", 0, { 0 } },
    { M "ac_mode: selective\nac_option: op\n", 0, { 0 } },
    { M "ac_conditions:\n- torchtune.training.activations.selective_active_checkpointing_condition\n- k: 4\n", 0, { 0 } },
    { M "recompute_granularity: selective\nrecompute_modules: [core_attn, mlp]\n", 0, { 0 } },
    { M "recompute_granularity: full\nrecompute_method: uniform\nrecompute_num_layers: 2\n", 0, { 0 } },
};

static rp_status read_all(rp_ctx *ctx, void *user)
{
    char **first = user;

    for (int i = 0; i < RP_COUNT(sources); i++) RP_TRY(read_and_write(ctx, &sources[i], &first[i]));
    return RP_OK;
}

static void each_call_that_reads_a_recipe_passes_an_error_on(void **state)
{
    rp_ctx *ctx                      = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    char *first[RP_COUNT(sources)] = { NULL };

    (void)state;
    every_site_fails_once(ctx, true, 50, read_all, first);
    for (int i = 0; i < RP_COUNT(sources); i++) free(first[i]);
    test_ctx_free(ctx);
}

/* ---- plans ---- */

typedef struct { source source; int64_t budget; const char *device; enum { FORECAST, FIND, FIT, SWEEP } what; } asking;

static rp_status ask_recipe(rp_ctx *ctx, const asking *a, const rp_recipe *recipe, rp_report *report)
{
    rp_forecast_options options = { .device = a->device, .least = !a->budget, .trials = true };
    rp_status status;

    if (a->what == FIND) {
        rp_find found = { 0 };
        status = rp__recipe_find(ctx, recipe, &(rp_find_options){ .device = a->device }, report, &found);
        rp__find_close(&found);
    } else if (a->what == FIT) {
        rp_fit fit = { 0 };
        status = rp__recipe_fit(ctx, recipe, a->device, report, &fit);
        rp__fit_close(&fit);
    } else if (a->what == SWEEP) {
        rp_sweep sweep = { 0 };
        status = rp__recipe_sweep(ctx, recipe, &(rp_sweep_options){ .n = 2, .device = a->device }, report, &sweep);
        rp__release(sweep.point);
    } else {
        rp_forecast f;
        status = rp__recipe_forecast(ctx, recipe, &options, report, &f);
        rp__forecast_close(&f);
    }
    return status;
}

static rp_status ask_plan(rp_ctx *ctx, void *user)
{
    const asking *a   = user;
    rp_recipe *recipe = NULL;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = read_source(ctx, &a->source, &report, &recipe);
    if (status == RP_OK) status = ask_recipe(ctx, a, recipe, &report);
    rp__recipe_free(recipe);
    rp__report_close(&report);
    return status;
}

static void sweep_plan(const char *more, asking a)
{
    char text[2048];
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .shapes_only = true, .threads = 1, .memory_limit_bytes = a.budget });

    snprintf(
        text, sizeof text,
        "model: {config: %s/llama.json, overrides: {num_hidden_layers: 1}}\ndataset: {path: %s/tokens.bin, format: tokens}\nmax_seq_len: 16\nbatch_size: 2\n"
        "epochs: 1\nmax_steps: 2\nseed: 3\noptimizer: {lr: 1e-3}\nthreads: 1\noutput_dir: %s/out\n%s",
        dir.path, dir.path, dir.path, more);
    a.source.text = text;
    every_site_fails_once(ctx, false, 20, ask_plan, &a);
    test_ctx_free(ctx);
}

static void each_call_of_a_plan_passes_an_error_on(void **state)
{
    (void)state;
    sweep_plan("gradient_accumulation_steps: 2\n", (asking){ .what = FORECAST });
    sweep_plan("", (asking){ .what = SWEEP });
    sweep_plan("memory_budget: 2000000\n", (asking){ .budget = 2000000, .device = "h100", .what = FIT });
    sweep_plan("dist: {ranks: 2}\nmemory_budget: 2000000\n",
               (asking){ .source = { .n = 1, .setting = { "batch_size=1" } }, .budget = 2000000, .device = "h100", .what = FIND });
}

/* ---- runs ---- */

typedef struct { const char *text; double loss, val_loss; } training;

/* A run that goes on without an allocation has the losses of the first run. */
static rp_status train(rp_ctx *ctx, void *user)
{
    training *all     = user;
    const source s    = { all->text, 0, { 0 } };
    rp_recipe *recipe = NULL;
    rp_trainer *t     = NULL;
    rp_metrics line;
    rp_report report;

    rp__report_open(&report, ctx);
    rp_status status = read_source(ctx, &s, &report, &recipe);
    if (status == RP_OK) status = rp__trainer_new(ctx, recipe, &report, &t);
    while (status == RP_OK && rp__trainer_done(t) < 2) status = rp__trainer_step(t, &line);
    if (status == RP_OK && !all->loss) all->loss = line.loss, all->val_loss = line.val_loss;
    if (status == RP_OK) assert_true(line.loss == all->loss && line.val_loss == all->val_loss);
    if (status == RP_OK) status = rp__trainer_finish(t);
    rp__trainer_free(t);
    rp__recipe_free(recipe);
    rp__report_close(&report);
    heap_faults faults = heap_pause(ctx);
    assert_ok(ctx, rp__remove_tree(ctx, temp_path(&dir, "out")));
    heap_resume(ctx, faults);
    return status;
}

static void each_call_of_a_run_passes_an_error_on(void **state)
{
    char text[2048];
    training all = { .text = text };
    rp_ctx *ctx  = test_ctx(&(rp_ctx_options){ .threads = 1, .seed = 3 });

    (void)state;
    snprintf(
        text, sizeof text,
        "model: {config: %s/llama.json, overrides: {num_hidden_layers: 1}}\ndataset: {path: %s/tokens.bin, format: tokens}\nmax_seq_len: 16\nbatch_size: 2\n"
        "epochs: 1\nmax_steps: 2\nseed: 3\noptimizer: {lr: 1e-3}\nthreads: 1\noutput_dir: %s/out\nsave_every_n_steps: 1\nkeep_last_n: 1\nprofile: "
        "true\ntensorboard: true\n"
        "dataset_val: {path: %s/val.bin, format: tokens}\nrun_val_every_n_steps: 1\nclip_grad_norm: 1\n",
        dir.path, dir.path, dir.path, dir.path);
    every_site_fails_once(ctx, true, 100, train, &all);
    test_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_call_that_reads_a_recipe_passes_an_error_on),
        TEST(each_call_of_a_plan_passes_an_error_on),
        TEST(each_call_of_a_run_passes_an_error_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
