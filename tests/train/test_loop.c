/* Claims about runs: their results, what changes no bit, and the measured memory of a rehearsed step. */
/* ctest: no-emulator level-free */
#include "loop_test.h"

#include <math.h>

#include "tape/internal.h"

/* ---- what a run gives ---- */

static void a_run_learns(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("max_steps=40", "optimizer.lr=1e-2"));
    metrics m = metrics_of(&dir, "out");

    assert_int_equal(m.n, 40);
    assert_true(fabs(metric_number(m.line[0], "loss") - log(61)) < 0.1);
    assert_true(metric_number(m.line[39], "loss") < 3.6);
    for (int i = 0; i < m.n; i++) {
        assert_int_equal(metric_number(m.line[i], "step"), i + 1);
        assert_int_equal(metric_number(m.line[i], "tokens"), 32);
        assert_true(metric_number(m.line[i], "rss") > 1e6);
        assert_true(metric_number(m.line[i], "step_flops") > 0);
        assert_true(metric_number(m.line[i], "step_seconds") > 0);
    }
    free(m.text);
}

static void a_finished_run_leaves_its_recipe_its_last_state_and_a_model(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "out", RUN("max_steps=3"));
    assert_true(is_there(&dir, "out/config.yaml"));
    assert_true(is_there(&dir, "out/state/step-3/state.json"));
    assert_true(is_there(&dir, "out/final/config.json"));
    assert_true(is_there(&dir, "out/final/model.safetensors"));
    assert_false(is_there(&dir, "out/.final.tmp"));
}

static void what_says_how_to_sample_from_a_model_goes_with_it(void **state)
{
    (void)state;
    const char *text = "{\"temperature\": 0.6, \"eos_token_id\": [0, 2]}\n";

    run_whole(&dir, "llama", "without", RUN("max_steps=1"));
    assert_false(is_there(&dir, "without/final/generation_config.json"));
    temp_text(&dir, "generation_config.json", text);
    run_whole(&dir, "llama", "out", RUN("max_steps=1"));
    assert_same_file(&dir, "out/final/generation_config.json", "generation_config.json");
}

/* On one sample that is all data, without dropout, the loss of a step of rate 0 is the validation's. */
static void val_loss_is_the_mean_loss_of_the_validation_set(void **state)
{
    (void)state;
    put_tokens(&dir, "tokens.bin", 40, 5);
    put_tokens(&dir, "val.bin", 40, 5);
    char set[300];
    snprintf(set, sizeof set, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    run_whole(&dir, "gpt2", "out",
              RUN(set, "run_val_every_n_steps=2", "optimizer.lr=0", "model.dropout=0", "epochs=5", "max_steps=5"));
    metrics m = metrics_of(&dir, "out");

    assert_int_equal(m.n, 5);
    for (int i = 0; i < m.n; i++) {
        assert_true(!!strstr(m.line[i], "val_loss") == (i % 2 == 1));
        if (i % 2 == 1) assert_true(fabs(metric_number(m.line[i], "val_loss") / metric_number(m.line[i], "loss") - 1) < 1e-6);
    }
    free(m.text);
}

static void validation_rests_dropout_and_changes_no_bit_of_the_run(void **state)
{
    (void)state;
    char set[300];
    snprintf(set, sizeof set, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    run_whole(&dir, "gpt2", "plain", RUN(NULL));
    run_whole(&dir, "gpt2", "scored", RUN(set, "run_val_every_n_steps=3"));
    assert_same_losses(&dir, "plain", "scored");
    assert_same_final(&dir, "plain", "scored");
}

static void a_validation_set_shorter_than_a_batch_is_scored_sample_by_sample(void **state)
{
    (void)state;
    char set[300];
    put_tokens(&dir, "val.bin", 16 * 3 + 5, 5);
    snprintf(set, sizeof set, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    run_whole(&dir, "llama", "out", RUN(set, "run_val_every_n_steps=1", "batch_size=8", "max_steps=2"));
    metrics m = metrics_of(&dir, "out");
    assert_true(metric_number(m.line[0], "val_loss") > 3);
    free(m.text);
}

/* Plain gradient descent moves by rate times gradient: the clipped norm, measured on what moved. */
static void clipping_bounds_the_norm_and_reports_the_one_before(void **state)
{
    (void)state;
    double moved = 0, norm[2];

    for (int clipped = 0; clipped < 2; clipped++) {
        run r = run_open(&dir, "llama", clipped ? "clipped" : "plain",
                         RUN("optimizer.name=sgd", "optimizer.lr=1", "optimizer.weight_decay=0",
                             clipped ? "clip_grad_norm=1e-2" : "clip_grad_norm=null"));
        assert_ok(r.ctx, r.status);
        const rp_param *p = rp__model_find_param(rp__trainer_model(r.trainer), "tok_embeddings.weight");
        int64_t n         = rp_meta_elems(&p->tensor->m);
        double *before = malloc((size_t)n * sizeof *before), *after = malloc((size_t)n * sizeof *after);
        rp_metrics line;
        assert_ok(r.ctx, rp_tensor_read(p->tensor, before, n));
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_ok(r.ctx, rp_tensor_read(p->tensor, after, n));
        double sum = 0;
        for (int64_t i = 0; i < n; i++) sum += (after[i] - before[i]) * (after[i] - before[i]);
        if (clipped) moved /= sqrt(sum);
        else moved = sqrt(sum);
        norm[clipped] = line.grad_norm;
        free(before);
        free(after);
        run_close(&r);
    }
    assert_true(norm[0] == norm[1]);
    assert_true(norm[0] > 1e-2);
    assert_true(fabs(moved / (norm[0] / 1e-2) - 1) < 1e-3);
}

/* ---- bits ---- */

#define AC "activation_checkpointing."

static void checkpointing_changes_no_bit(void **state)
{
    (void)state;
    static const char *const models[] = { "llama", "gpt2" }, *const dtypes[] = { "dtype=fp32", "dtype=bf16" };
    static const struct { const char *name, *first, *second; } ways[] = {
        { "full", "enable_activation_checkpointing=true", AC "verify=never" },
        { "layers", AC "mode=selective_layer", AC "every=2" },
        { "ops", AC "mode=selective_op", AC "save=[matmul]" },
        { "nested", AC "conditions=[{layers: [0]}, {path: \"*.attn\"}, {module_type: Norm}]", AC "verify=always" },
        { "logits", "loss.keep_logits=true", AC "verify=never" },
        { "full, logits", "loss.keep_logits=true", AC "mode=full" },
        { "rules", AC "rules=[{type: MLP, fate: recompute}, {op: matmul, every: 2, fate: prefer_recompute}]", AC "verify=step" },
    };

    for (int m = 0; m < 2; m++)
        for (int t = 0; t < 2; t++) {
            temp_dir d = loop_dir();
            run_whole(&d, models[m], "none", RUN(dtypes[t], "model.dropout=0.1"));
            for (int i = 0; i < RP_COUNT(ways); i++) {
                run_whole(&d, models[m], ways[i].name, RUN(dtypes[t], "model.dropout=0.1", ways[i].first, ways[i].second));
                assert_same_losses(&d, "none", ways[i].name);
                assert_same_final(&d, "none", ways[i].name);
            }
            temp_remove(&d);
        }
}

static void checkpointing_saves_memory_and_says_what_it_recomputes(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "none", RUN("max_steps=2"));
    run_whole(&dir, "llama", "full", RUN("max_steps=2", "enable_activation_checkpointing=true"));
    metrics none = metrics_of(&dir, "none"), full = metrics_of(&dir, "full");

    assert_true(metric_number(full.line[1], "saved_bytes") < metric_number(none.line[1], "saved_bytes") / 2);
    assert_true(metric_number(full.line[1], "peak_memory_active") < metric_number(none.line[1], "peak_memory_active"));
    assert_true(metric_number(none.line[1], "recompute_flops") == 0);
    assert_true(metric_number(full.line[1], "recompute_flops") > 0);
    assert_true(metric_number(full.line[1], "step_flops") == metric_number(none.line[1], "step_flops"));
    free(none.text);
    free(full.text);
}

static void updates_in_backward_change_no_bit(void **state)
{
    (void)state;
    static const char *const ways[][2] = {
        { "dtype=fp32", "optimizer.name=adamw" },
        { "dtype=bf16", "optimizer.rounding=stochastic" },
        { "dtype=bf16", "optimizer.master_weights=true" },
        { "dtype=bf16", "grad_dtype=fp32" },
        { "dtype=fp32", "optimizer.name=sgd" },
    };

    for (int i = 0; i < RP_COUNT(ways); i++) {
        temp_dir d = loop_dir();
        run_whole(&d, "gpt2", "after", RUN(ways[i][0], ways[i][1]));
        run_whole(&d, "gpt2", "within", RUN(ways[i][0], ways[i][1], "optimizer_in_bwd=true", "enable_activation_checkpointing=true"));
        assert_same_losses(&d, "after", "within");
        assert_same_final(&d, "after", "within");
        temp_remove(&d);
    }
}

/* The masks belong to samples: cut into other micro-batches the same step has the same loss but for the order of its sum. */
static void accumulation_draws_the_same_masks(void **state)
{
    (void)state;
    run_whole(&dir, "gpt2", "whole", RUN("batch_size=4", "max_steps=3", "model.dropout=0.5"));
    run_whole(&dir, "gpt2", "split", RUN("batch_size=2", "gradient_accumulation_steps=2", "max_steps=3", "model.dropout=0.5"));
    run_whole(&dir, "gpt2", "other", RUN("batch_size=4", "max_steps=3", "model.dropout=0.499"));
    metrics a = metrics_of(&dir, "whole"), b = metrics_of(&dir, "split"), c = metrics_of(&dir, "other");

    for (int i = 0; i < 3; i++) {
        double x = metric_number(a.line[i], "loss"), y = metric_number(b.line[i], "loss");
        assert_true(fabs(x / y - 1) < 2e-6);
        assert_true(fabs(metric_number(a.line[i], "grad_norm") / metric_number(b.line[i], "grad_norm") - 1) < 1e-4);
        assert_true(fabs(x / metric_number(c.line[i], "loss") - 1) > 2e-6);
    }
    free(a.text);
    free(b.text);
    free(c.text);
}

/* ---- the rehearsal ---- */

static void assert_as_rehearsed(const char *model, const char *const *setting)
{
    temp_dir d = loop_dir();
    run r      = run_open(&d, model, "out", setting);

    assert_ok(r.ctx, r.status);
    const rp_trainer_info *info = rp__trainer_info(r.trainer);
    const rp_step_usage *planned    = &info->rehearsal;
    int64_t sum                 = 0;
    for (int c = 0; c < RP_MEM_CLASSES; c++) sum += planned->memory.peak_at[c];
    assert_int_equal(sum, planned->memory.peak_bytes);
    while (rp__trainer_done(r.trainer) < info->n_steps) {
        rp_metrics line;
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_int_equal(line.peak_memory_active, planned->memory.peak_bytes);
        assert_int_equal(line.peak_memory_alloc, planned->memory.peak_alloc_bytes);
        assert_int_equal(line.peak_memory_reserved, planned->memory.reserved_bytes);
        assert_int_equal(line.saved_bytes, planned->saved_bytes);
        assert_int_equal(line.step_flops, planned->step_flops);
        assert_int_equal(line.recompute_flops, planned->recompute_flops);
    }
    assert_ok(r.ctx, rp__trainer_finish(r.trainer));
    rp_mem after;
    rp_mem_read(r.ctx, 0, false, &after);
    assert_int_equal(after.reserved_bytes, planned->memory.reserved_bytes);
    run_close(&r);
    temp_remove(&d);
}

static void every_step_measures_what_the_rehearsal_predicted(void **state)
{
    (void)state;
    static const char *const full = "enable_activation_checkpointing=true";
    char set[300];

    assert_as_rehearsed("llama", RUN(NULL));
    assert_as_rehearsed("llama", RUN(full));
    assert_as_rehearsed("llama", RUN(full, "dtype=bf16", "optimizer_in_bwd=true"));
    assert_as_rehearsed("llama", RUN("dtype=bf16", "grad_dtype=fp32", "gradient_accumulation_steps=3", "clip_grad_norm=1"));
    assert_as_rehearsed("gpt2", RUN("gradient_accumulation_steps=2"));
    assert_as_rehearsed("gpt2", RUN(full, "threads=2", "loss.num_output_chunks=4", "optimizer.state_dtype=bf16"));
    assert_as_rehearsed("gpt2", RUN("dtype=bf16", "optimizer.master_weights=true", "optimizer_in_bwd=true"));
    assert_as_rehearsed("gpt2", RUN("loss.keep_logits=true", "dtype=bf16"));
    assert_as_rehearsed("llama", RUN(AC "mode=selective_op", AC "rules=[{type: Norm, fate: recompute}]"));
    assert_as_rehearsed("gpt2", RUN(AC "conditions=[{layers: [0]}, {path: \"*.mlp\"}]", "gradient_accumulation_steps=2"));
    snprintf(set, sizeof set, AC "offload.path=%s/slots", dir.path);
    assert_as_rehearsed("llama", RUN(AC "mode=full", AC "rules=[{op: matmul, fate: offload}]", set));
    assert_as_rehearsed("gpt2", RUN(AC "rules=[{path: layers.0, fate: prefer_offload}]", AC "offload.to=memory"));
    snprintf(set, sizeof set, "dataset_val={path: %s/val.bin, format: tokens}", dir.path);
    assert_as_rehearsed("llama", RUN(full, set, "run_val_every_n_steps=2", "save_every_n_steps=3"));
    assert_as_rehearsed("gpt2", RUN(set, "run_val_every_n_steps=1", "max_seq_len=64"));
}

typedef struct { int rehearsed, run; } asked;

/* Recomputes what swiglu gives, wherever. */
static rp_fate cheap_again(const rp_slot_info *slot, void *user)
{
    asked *a = user;

    if (slot->is_rehearsal) a->rehearsed++;
    else a->run++;
    return !strcmp(slot->op, "swiglu") ? RP_PREFER_RECOMPUTE : RP_NO_FATE;
}

/* The recipe's rules stand inside the program's policy; the planning and the rehearsal ask both, and each once. */
static void a_policy_of_the_program_is_rehearsed_too(void **state)
{
    (void)state;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1 });
    run probe   = run_open(&dir, "llama", "program", RUN("max_steps=2", AC "rules=[{op: matmul, fate: keep}]"));
    asked a     = { 0 };
    rp_policy *mine;
    rp_trainer *t;
    rp_report report;
    rp_metrics line;

    assert_ok(probe.ctx, probe.status);
    rp_recipe recipe  = *probe.recipe;
    recipe.output_dir = temp_path(&dir, "program2");
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp_policy_new(ctx, "mine", &mine));
    assert_ok(ctx, rp_policy_call(mine, cheap_again, NULL, &a));
    rp_set_policy(ctx, mine);
    assert_ok(ctx, rp__trainer_new(ctx, &recipe, &report, &t));
    int once = a.rehearsed / 2;
    assert_true(once > 20);
    assert_true(rp__trainer_info(t)->rehearsal.recompute_flops > 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(ctx, rp__trainer_step(t, &line));
        assert_int_equal(line.peak_memory_active, rp__trainer_info(t)->rehearsal.memory.peak_bytes);
        assert_int_equal(line.recompute_flops, rp__trainer_info(t)->rehearsal.recompute_flops);
        assert_int_equal(a.run, once);
    }
    assert_int_equal(a.rehearsed, 2 * once);
    rp__trainer_free(t);
    rp_set_policy(ctx, NULL);
    rp_policy_free(mine);
    rp__report_close(&report);
    run_close(&probe);
    test_ctx_free(ctx);
}

static void documents_of_any_length_stay_inside_the_rehearsed_pool(void **state)
{
    (void)state;
    run r = run_open(&dir, "gpt2", "out", RUN("dataset.packed=false", "max_seq_len=24"));

    assert_ok(r.ctx, r.status);
    int64_t reserved = rp__trainer_info(r.trainer)->rehearsal.memory.reserved_bytes;
    while (rp__trainer_done(r.trainer) < rp__trainer_info(r.trainer)->n_steps) {
        rp_metrics line;
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_int_equal(line.peak_memory_reserved, reserved);
        assert_true(line.peak_memory_active <= rp__trainer_info(r.trainer)->rehearsal.memory.peak_bytes);
    }
    run_close(&r);
}

/* The file is of batches of full length; the others are planned for its budget as they come. */
static void documents_of_any_length_train_by_a_plan_file(void **state)
{
    char budget[64], plan[300];

    (void)state;
    run all = run_open(&dir, "gpt2", "all", RUN("dataset.packed=false", "max_seq_len=24"));
    assert_ok(all.ctx, all.status);
    snprintf(budget, sizeof budget, "memory_budget=%" PRId64, rp__trainer_info(all.trainer)->rehearsal.memory.reserved_bytes - 1);
    snprintf(plan, sizeof plan, "plan=%s/first/plan.json", dir.path);
    run_close(&all);
    for (int i = 0; i < 2; i++) {
        run r = run_open(&dir, "gpt2", i ? "second" : "first", RUN("dataset.packed=false", "max_seq_len=24", budget, i ? plan : NULL));
        assert_ok(r.ctx, r.status);
        assert_true(rp__trainer_info(r.trainer)->rehearsal.recompute_flops > 0);
        while (rp__trainer_done(r.trainer) < rp__trainer_info(r.trainer)->n_steps) {
            rp_metrics line;
            assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        }
        run_close(&r);
    }
}

/* ---- the context ---- */

/* A context may be used again: for the next trainer, or by hand. */
static void a_trainer_leaves_the_tape_of_its_context_as_it_found_it(void **state)
{
    (void)state;
    run r =
        run_open(&dir, "llama", "out", RUN("enable_activation_checkpointing=true", AC "verify=always", "dtype=bf16", "grad_dtype=fp32", "freeze=['layers.0']"));

    assert_ok(r.ctx, r.status);
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    const rp_tape_ctx *tape = rp__tape_ctx(r.ctx);
    assert_int_equal(tape->verify, RP_TAPE_VERIFY_ALWAYS);
    assert_true(tape->wide_grads && tape->records_frozen);
    rp__trainer_free(r.trainer);
    r.trainer = NULL;
    assert_int_equal(tape->verify, RP_TAPE_VERIFY_NEVER);
    assert_false(tape->wide_grads || tape->records_frozen || tape->no_grad);
    assert_false(tape->on_grad.call || tape->on_replay.call || tape->on_backward.call);
    assert_null(r.ctx->watch);
    run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_run_learns),
        TEST(a_trainer_leaves_the_tape_of_its_context_as_it_found_it),
        TEST(a_finished_run_leaves_its_recipe_its_last_state_and_a_model),
        TEST(what_says_how_to_sample_from_a_model_goes_with_it),
        TEST(val_loss_is_the_mean_loss_of_the_validation_set),
        TEST(validation_rests_dropout_and_changes_no_bit_of_the_run),
        TEST(a_validation_set_shorter_than_a_batch_is_scored_sample_by_sample),
        TEST(clipping_bounds_the_norm_and_reports_the_one_before),
        TEST(checkpointing_changes_no_bit),
        TEST(checkpointing_saves_memory_and_says_what_it_recomputes),
        TEST(updates_in_backward_change_no_bit),
        TEST(accumulation_draws_the_same_masks),
        TEST(every_step_measures_what_the_rehearsal_predicted),
        TEST(a_policy_of_the_program_is_rehearsed_too),
        TEST(documents_of_any_length_stay_inside_the_rehearsed_pool),
        TEST(documents_of_any_length_train_by_a_plan_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
