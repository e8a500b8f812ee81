/* Claims about runs that train a part of a model: some of its weights, or adapters beside them. */
/* ctest: no-emulator cost=8 */
#include "loop_test.h"

#include "models/adapter.h"
#include "models/weights.h"
#include "safetensors/safetensors.h"
#include "train/internal.h"

#define AC "activation_checkpointing."

/* A tied table, a norm, and a part that would get adapters. */
#define WHOLE "lora.whole=[tok_embeddings, norm, layers.1.mlp]"

/* Ends with settings of a caller's own. */
#define LORA "lora.rank=3", "lora.dropout=0.1"
#define DORA "lora.rank=3", "lora.dropout=0.1", "lora.dora=true"

static void assert_same_adapter(const temp_dir *d, const char *a, const char *b)
{
    char at_a[128], at_b[128];

    snprintf(at_a, sizeof at_a, "%s/final/adapter_model.safetensors", a);
    snprintf(at_b, sizeof at_b, "%s/final/adapter_model.safetensors", b);
    assert_same_file(d, at_a, at_b);
}

/* ---- what is frozen costs ---- */

static int64_t trained_elems(const run *r)
{
    int64_t n = 0;

    for (int i = 0; i < rp__model_n_params(rp__trainer_model(r->trainer)); i++) {
        const rp_tensor *t = rp__model_param(rp__trainer_model(r->trainer), i)->tensor;
        n += t->requires_grad ? rp_meta_elems(&t->m) : 0;
    }
    return n;
}

/* Rank 3 beside attn.q [32, 32] and attn.v [16, 32] of two blocks. */
enum { ADAPTED_ELEMS = 2 * 3 * (32 + 32 + 32 + 16) };

static void frozen_weights_have_no_gradient_and_no_state(void **state)
{
    (void)state;
    static const struct { const char *set; int64_t elems; } cases[] = {
        { "lora.rank=3", ADAPTED_ELEMS },
        { "lora={rank: 3, whole: [output, norm]}", ADAPTED_ELEMS + 61 * 32 + 32 },       /* the table is the head's, too */
        { "lora={rank: 3, whole: [layers.1.attn]}", ADAPTED_ELEMS / 2 + 2 * 32 * 32 + 2 * 16 * 32 },
        { "freeze=['*attn*', '*mlp*', tok_embeddings]", 32 },                          /* the last norm is left */
        { "freeze=[layers.0, tok_embeddings, norm.weight]", 2 * 32 + 2 * 32 * 32 + 2 * 16 * 32 + 3 * 48 * 32 },
    };

    for (int i = 0; i < RP_COUNT(cases); i++) {
        temp_dir d = loop_dir();
        run r      = run_open(&d, "llama", "out", RUN(cases[i].set, "optimizer.master_weights=true", "optimizer.no_decay=[]"));
        rp_metrics line;
        rp_mem mem;

        assert_ok(r.ctx, r.status);
        assert_int_equal(trained_elems(&r), cases[i].elems);
        assert_int_equal(rp__trainer_info(r.trainer)->n_trained, cases[i].elems);
        rp_mem_read(r.ctx, 0, false, &mem);
        assert_int_equal(mem.live_at[RP_MEM_OPTIM], 2 * cases[i].elems * (int64_t)sizeof(float));
        int64_t param = mem.live_at[RP_MEM_PARAM];
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_true(line.grad_norm > 0);
        rp_mem_read(r.ctx, 0, false, &mem);
        assert_int_equal(mem.live_at[RP_MEM_PARAM], param);
        run_close(&r);
        temp_remove(&d);
    }
}

/* A gradient of every element that is trained, and of none besides, is alive when the update begins. */
static void gradients_take_the_bytes_of_what_is_trained(void **state)
{
    (void)state;
    run r = run_open(&dir, "llama", "out", RUN("lora.rank=3"));
    rp_engine *e;
    rp_tensor *loss;
    rp_mem mem;

    assert_ok(r.ctx, r.status);
    e                   = &r.trainer->engine;
    rp_data_batch batch = { 0 };
    assert_ok(r.ctx, rp__data_batch(r.trainer->data, 0, 0, &batch));
    rp_meta m         = rp_meta_2d(RP_I32, batch.rows, batch.length);
    rp_model_batch in = { 0 };
    assert_ok(r.ctx, rp_tensor_new(r.ctx, &m, RP_MEM_TEMP, &in.tokens));
    assert_ok(r.ctx, rp_tensor_write_i32(in.tokens, batch.tokens, batch.rows * batch.length));
    rp__pass_begin(r.ctx, 0, 0);
    assert_ok(r.ctx, rp__model_loss(e->model, &(rp_model_batch){ .tokens = in.tokens, .labels = in.tokens },
                                    &(rp_attr_cross_entropy){ .weight = 1, .ignore_index = -100 }, &loss));
    assert_ok(r.ctx, rp__backward(r.ctx, loss));
    rp_tensor_unref(loss);
    rp_tensor_unref(in.tokens);
    rp_mem_read(r.ctx, 0, false, &mem);
    assert_int_equal(mem.live_at[RP_MEM_GRAD], ADAPTED_ELEMS * (int64_t)sizeof(float));
    for (int i = 0; i < rp__model_n_params(e->model); i++) rp_tensor_drop_grad(rp__model_param(e->model, i)->tensor);
    run_close(&r);
}

static rp_step_usage rehearsed(const char *const *setting)
{
    temp_dir d = loop_dir();
    run r      = run_open(&d, "llama", "out", setting);

    assert_ok(r.ctx, r.status);
    rp_step_usage out = rp__trainer_info(r.trainer)->rehearsal;
    run_close(&r);
    temp_remove(&d);
    return out;
}

/* The products of a frozen layer have one backward, dx, and x is not kept for it. */
static void a_frozen_layer_keeps_no_input_and_computes_no_gradient_of_its_weight(void **state)
{
    (void)state;
    rp_step_usage all = rehearsed(RUN(NULL)), some = rehearsed(RUN("freeze=['*mlp*']"));
    enum { ROWS = 2 * 16, WEIGHTS = 3 * 32 * 48, BLOCKS = 2 };

    /* gate and up read one x [32], down reads [48]; of its weight RMSNorm's gradient reads x and rstd, which its own dx reads, too */
    assert_int_equal(all.saved_bytes - some.saved_bytes, BLOCKS * ROWS * (32 + 48) * (int64_t)sizeof(float));
    int64_t products = BLOCKS * 2 * (int64_t)ROWS * WEIGHTS;
    assert_true(all.step_flops - some.step_flops >= products && all.step_flops - some.step_flops < products * 101 / 100);
}

static void nothing_below_the_first_trained_weight_runs_backward_or_is_kept(void **state)
{
    (void)state;
    rp_step_usage all = rehearsed(RUN(NULL)), top = rehearsed(RUN("freeze=[tok_embeddings, layers.*]"));
    int64_t slots = 2 * 16 * (32 + 32 + 2) * (int64_t)sizeof(float);       /* what goes into the last norm and into the head, what both note, and ids */

    if (top.saved_bytes > slots) fail_msg("%d bytes are kept, at most %d should be", (int)top.saved_bytes, (int)slots);
    assert_true(top.step_flops < all.step_flops * 2 / 3);
}

/* This includes the first block. Its base projections have no gradient, but backward recomputes them instead of keeping them as constants. */
static void under_checkpointing_a_block_keeps_its_input_alone(void **state)
{
    (void)state;
    rp_step_usage all = rehearsed(RUN(AC "mode=full")), lora = rehearsed(RUN(AC "mode=full", "lora.rank=3"));

    assert_int_equal(lora.saved_bytes, all.saved_bytes);
}

/* ---- bits and bytes ---- */

static void check_ways(const char *kind)
{
    static const char *const models[] = { "llama", "gpt2" }, *const dtypes[] = { "dtype=fp32", "dtype=bf16" };
    static const struct { const char *name, *first, *second; } ways[] = {
        { "full", AC "mode=full", AC "verify=always" },
        { "layers", AC "mode=selective_layer", AC "every=2" },
        { "ops", AC "mode=selective_op", AC "save=[matmul]" },
        { "nested", AC "conditions=[{layers: [0]}, {path: \"*.attn\"}, {module_type: Linear}]", AC "verify=always" },
        { "rules", AC "rules=[{path: '*lora_a', fate: recompute}, {op: matmul, every: 2, fate: prefer_recompute}]", AC "verify=step" },
        { "in backward", "optimizer_in_bwd=true", AC "verify=never" },
        { "budget", "memory_budget=%d", AC "verify=always" },
    };
    char budget[64];

    for (int m = 0; m < 2; m++)
        for (int t = 0; t < 2; t++) {
            if (m != t && test_takes_samples()) continue;
            temp_dir d = loop_dir();
            run_whole(&d, models[m], "none", RUN(dtypes[t], "model.dropout=0.1", LORA, kind, "lora.modules=['attn.*', down]"));
            metrics lines = metrics_of(&d, "none");
            snprintf(budget, sizeof budget, "memory_budget=%d", (int)(0.95 * metric_number(lines.line[0], "peak_memory_reserved")));
            free(lines.text);
            for (int i = test_few_or(m, 0); i < RP_COUNT(ways); i += test_few_or(2, 1)) {
                const char *first = strchr(ways[i].first, '%') ? budget : ways[i].first;
                run_whole(&d, models[m], ways[i].name, RUN(dtypes[t], "model.dropout=0.1", LORA, kind, "lora.modules=['attn.*', down]", first, ways[i].second));
                assert_same_losses(&d, "none", ways[i].name);
                assert_same_adapter(&d, "none", ways[i].name);
            }
            temp_remove(&d);
        }
}

static void no_mode_or_budget_changes_a_bit_of_an_adapter(void **state) { (void)state; check_ways("lora.dora=false"); }
static void no_mode_or_budget_changes_a_bit_of_one_with_magnitudes(void **state) { (void)state; check_ways("lora.dora=true"); }

static void no_mode_or_budget_changes_a_bit_of_what_is_trained_whole_beside_it(void **state) { (void)state; check_ways(WHOLE); }

static void assert_as_rehearsed(const char *model, const char *const *setting)
{
    temp_dir d = loop_dir();
    run r      = run_open(&d, model, "out", setting);

    assert_ok(r.ctx, r.status);
    const rp_step_usage planned = rp__trainer_info(r.trainer)->rehearsal;
    while (rp__trainer_done(r.trainer) < rp__trainer_info(r.trainer)->n_steps) {
        rp_metrics line;
        assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
        assert_int_equal(line.peak_memory_active, planned.memory.peak_bytes);
        assert_int_equal(line.peak_memory_alloc, planned.memory.peak_alloc_bytes);
        assert_int_equal(line.peak_memory_reserved, planned.memory.reserved_bytes);
        assert_int_equal(line.saved_bytes, planned.saved_bytes);
        assert_int_equal(line.step_flops, planned.step_flops);
        assert_int_equal(line.recompute_flops, planned.recompute_flops);
    }
    assert_ok(r.ctx, rp__trainer_finish(r.trainer));
    run_close(&r);
    temp_remove(&d);
}

static void every_step_measures_what_the_rehearsal_predicted(void **state)
{
    (void)state;
    static const char *const full = AC "mode=full";
    char set[300], budget[64];

    assert_as_rehearsed("llama", RUN("lora.rank=3"));
    assert_as_rehearsed("llama", RUN(LORA, full));
    assert_as_rehearsed("llama", RUN(LORA, full, "dtype=bf16", "optimizer_in_bwd=true"));
    assert_as_rehearsed("llama", RUN(LORA, "dtype=bf16", "grad_dtype=fp32", "gradient_accumulation_steps=3", "clip_grad_norm=1"));
    assert_as_rehearsed("gpt2", RUN(LORA, "lora.modules=[all-linear]", "dtype=bf16", "optimizer.master_weights=true"));
    assert_as_rehearsed("gpt2", RUN(LORA, full, "threads=2", "loss.num_output_chunks=4", "lora.merge=true"));
    assert_as_rehearsed("llama", RUN(DORA, "dtype=bf16", "gradient_accumulation_steps=3"));
    assert_as_rehearsed("gpt2", RUN(DORA, full, "lora.modules=[all-linear]", "optimizer_in_bwd=true"));
    assert_as_rehearsed("gpt2", RUN("lora.rank=3", "lora.dora=true", "dtype=bf16", "grad_dtype=fp32", AC "mode=selective_op", "lora.merge=true"));
    assert_as_rehearsed("llama", RUN(LORA, WHOLE, "dtype=bf16", "gradient_accumulation_steps=3"));
    assert_as_rehearsed("gpt2", RUN(DORA, WHOLE, full, "optimizer_in_bwd=true"));
    assert_as_rehearsed("llama", RUN("freeze=[layers.0, tok_embeddings]", "optimizer.no_decay=[]"));
    assert_as_rehearsed("llama", RUN("freeze=[layers.0, tok_embeddings]", "optimizer.no_decay=[]", full));
    assert_as_rehearsed("llama", RUN("freeze=['*.mlp.*']", AC "mode=selective_op"));
    assert_as_rehearsed("gpt2", RUN("freeze=[pos_embeddings, layers.1.attn]", AC "conditions=[{layers: [0]}, {path: \"*.mlp\"}]"));
    snprintf(set, sizeof set, AC "offload.path=%s/slots", dir.path);
    assert_as_rehearsed("llama", RUN(LORA, full, AC "rules=[{op: matmul, fate: offload}]", set));
    assert_as_rehearsed("llama", RUN(LORA, "dist.state_offload=true", set));
    rp_step_usage whole = rehearsed(RUN(LORA));
    for (int share = 90; share < 100; share += 4) {
        snprintf(budget, sizeof budget, "memory_budget=%d", (int)(whole.memory.reserved_bytes * share / 100));
        assert_as_rehearsed("llama", RUN(LORA, budget));
    }
}

/* ---- states ---- */

static void run_part(const char *out, int64_t k, const char *const *setting)
{
    run r = run_open(&dir, "gpt2", out, setting);
    rp_metrics line;

    assert_ok(r.ctx, r.status);
    while (rp__trainer_done(r.trainer) < k) assert_ok(r.ctx, rp__trainer_step(r.trainer, &line));
    assert_ok(r.ctx, rp__trainer_save(r.trainer));
    run_close(&r);
}

static void check_resumed(const char *kind)
{
    char out[16];

    run_whole(&dir, "gpt2", "whole", RUN(LORA, kind, "lr_scheduler.name=cosine"));
    for (int k = 1; k < 12; k += 4) {
        snprintf(out, sizeof out, "part%d", k);
        run_part(out, k, RUN(LORA, kind, "lr_scheduler.name=cosine"));
        run_whole(&dir, "gpt2", out, RUN(LORA, kind, "lr_scheduler.name=cosine", "resume=auto"));
        assert_same_metrics(&dir, "whole", out);
        assert_same_adapter(&dir, "whole", out);
    }
}

static void a_run_of_adapters_stopped_and_resumed_is_the_run_that_was_not(void **state) { (void)state; check_resumed("lora.dora=false"); }
static void one_with_magnitudes_is_too(void **state) { (void)state; check_resumed("lora.dora=true"); }

static void one_with_modules_trained_whole_is_too(void **state) { (void)state; check_resumed(WHOLE); }

static void a_state_holds_what_is_trained_alone(void **state)
{
    (void)state;
    run_part("out", 2, RUN("lora.rank=3"));
    rp_ctx *ctx = test_ctx(NULL);
    rp_safetensors *set;

    assert_ok(ctx, rp__safetensors_open(ctx, temp_path(&dir, "out/state/step-2/tensors.safetensors"), &set));
    assert_int_equal(rp__safetensors_n_tensors(set), 2 * 2 * 3);            /* two halves in two blocks: themselves and their two moments */
    assert_non_null(rp__safetensors_find(set, "layers.1.attn.qkv.lora_b.weight.exp_avg_sq"));
    assert_null(rp__safetensors_find(set, "layers.1.attn.qkv.weight"));
    rp__safetensors_close(set);
    rp_ctx_free(ctx);
}

/* "model={path: …/<name>/final}" */
static const char *model_in(char out[400], const char *name)
{
    snprintf(out, 400, "model={path: %s/%s/final}", dir.path, name);
    return out;
}

/* The recipe is the same, and the config still fits. */
static void a_state_does_not_go_on_over_other_frozen_weights(void **state)
{
    (void)state;
    char model[400];

    model_in(model, "base");
    run_whole(&dir, "llama", "base", RUN("max_steps=1"));
    run_whole(&dir, "llama", "tuned", RUN("max_steps=2", "lora.rank=2", model));
    run_whole(&dir, "llama", "tuned", RUN("max_steps=3", "lora.rank=2", model, "resume=auto"));
    run_whole(&dir, "llama", "other", RUN("max_steps=2"));
    char theirs[300], ours[300];
    snprintf(theirs, sizeof theirs, "%s/other/final/model.safetensors", dir.path);
    snprintf(ours, sizeof ours, "%s/base/final/model.safetensors", dir.path);
    assert_int_equal(rename(theirs, ours), 0);
    assert_refused("tuned", RP_ERR_CONFIG, "have changed since", RUN("max_steps=4", "lora.rank=2", model, "resume=auto"));
}

/* ---- adapters of before, and merged ---- */

static double first_loss(const temp_dir *d, const char *out)
{
    metrics lines = metrics_of(d, out);
    double loss   = metric_number(lines.line[0], "loss");

    free(lines.text);
    return loss;
}

static void check_folder(const char *kind)
{
    char base[400], adapted[400], beside[300], merged[400];

    model_in(base, "base");
    run_whole(&dir, "llama", "base", RUN("max_steps=1"));
    run_whole(&dir, "llama", "adapted", RUN("lora.rank=2", "lora.alpha=8", kind, "optimizer.lr=0.02", "max_steps=30", "epochs=9", base));
    run_whole(&dir, "llama", "merged", RUN("lora.rank=2", "lora.alpha=8", kind, "optimizer.lr=0.02", "max_steps=30", "epochs=9", base, "lora.merge=true"));
    run_whole(&dir, "llama", "again", RUN(model_in(adapted, "adapted"), "max_steps=1"));
    snprintf(beside, sizeof beside, "model.adapter=%s/adapted/final", dir.path);
    run_whole(&dir, "llama", "beside", RUN(base, beside, "max_steps=1"));
    run_whole(&dir, "llama", "whole", RUN(model_in(merged, "merged"), "max_steps=1"));
    run_whole(&dir, "llama", "fresh", RUN(base, "max_steps=1"));
    assert_same_losses(&dir, "again", "beside");
    assert_same_adapter(&dir, "again", "beside");
    if (fabs(first_loss(&dir, "again") - first_loss(&dir, "whole")) > 1e-5)
        fail_msg("%.9g beside, %.9g merged", first_loss(&dir, "again"), first_loss(&dir, "whole"));
    assert_true(fabs(first_loss(&dir, "again") - first_loss(&dir, "fresh")) > 1e-2);
    assert_true(is_there(&dir, "merged/final/config.json") && !is_there(&dir, "merged/final/adapter_config.json"));
    assert_true(is_there(&dir, "again/final/adapter_config.json") && !is_there(&dir, "again/final/config.json"));
}

static void an_adapters_folder_is_a_model_to_go_on_with(void **state) { (void)state; check_folder("lora.dora=false"); }
static void so_is_that_of_one_with_magnitudes(void **state) { (void)state; check_folder("lora.dora=true"); }

static void so_is_that_of_one_with_modules_trained_whole(void **state) { (void)state; check_folder(WHOLE); }

/* To the bit where layers have no bias: what is scaled by m / n is scaled by 1. */
static void a_fresh_adapter_changes_no_loss(void **state)
{
    static const char *const models[] = { "llama", "gpt2" }, *const dtypes[] = { "dtype=fp32", "dtype=bf16" };
    char base[400];

    (void)state;
    for (int i = 0; i < 4; i++) {
        temp_dir d        = loop_dir();
        const char *model = models[i / 2], *dtype = dtypes[i % 2];
        run_whole(&d, model, "base", RUN("max_steps=1"));
        snprintf(base, sizeof base, "model={path: %s/base/final}", d.path);
        run_whole(&d, model, "bare", RUN("max_steps=1", dtype, base));
        run_whole(&d, model, "plain", RUN("max_steps=1", dtype, base, "lora.rank=2", "lora.modules=[all-linear]"));
        run_whole(&d, model, "turned", RUN("max_steps=1", dtype, base, "lora.rank=2", "lora.modules=[all-linear]", "lora.dora=true"));
        double bare = first_loss(&d, "bare"), off = fabs(first_loss(&d, "turned") - bare), limit = i < 2 ? 0 : i == 2 ? 1e-5 : 1e-2;
        if (first_loss(&d, "plain") != bare || off > limit) fail_msg("%s %s: %.9g off", model, dtype, off);
        temp_remove(&d);
    }
}

static void a_wrong_name_is_refused_with_the_nearest(void **state)
{
    (void)state;
    assert_refused("new", RP_ERR_CONFIG, "'freeze': no module matches 'layers.0.atn' (did you mean 'layers.0.attn'?)", RUN("freeze=[layers.0.atn]"));
    assert_refused("new", RP_ERR_CONFIG, "'lora.modules': no linear layer that can have an adapter is called 'attn.qq' (did you mean 'attn.q'?)",
                   RUN("lora.rank=2", "lora.modules=[attn.k, attn.qq]"));
    assert_refused("new", RP_ERR_CONFIG, "no linear layer that can have an adapter is called 'tok_embeddings'",
                   RUN("lora.rank=2", "lora.modules=[tok_embeddings]"));
    assert_refused("new", RP_ERR_CONFIG, "'lora.whole': no module matches 'nrm' (did you mean 'norm'?)", RUN("lora.rank=2", "lora.whole=[nrm]"));
    assert_refused("new", RP_ERR_MATCH, "no layer is left for an adapter", RUN("lora.rank=2", "lora.whole=['layers.*']"));
    assert_refused("new", RP_ERR_CONFIG, "'freeze' leaves no parameter to train", RUN("freeze=['*']"));
    assert_refused("new", RP_ERR_CONFIG, "'freeze': no parameter is in 'output'", RUN("freeze=[output]"));       /* it is tied */
    assert_false(is_there(&dir, "new"));
}

static void the_names_of_transformers_are_understood(void **state)
{
    (void)state;
    run_whole(&dir, "llama", "theirs", RUN("lora.rank=2", "lora.modules=[q_proj, mlp.down_proj]", "max_steps=2"));
    run_whole(&dir, "llama", "ours", RUN("lora.rank=2", "lora.modules=[attn.q, mlp.down]", "max_steps=2"));
    assert_same_adapter(&dir, "theirs", "ours");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(frozen_weights_have_no_gradient_and_no_state),
        TEST(gradients_take_the_bytes_of_what_is_trained),
        TEST(a_frozen_layer_keeps_no_input_and_computes_no_gradient_of_its_weight),
        TEST(nothing_below_the_first_trained_weight_runs_backward_or_is_kept),
        TEST(under_checkpointing_a_block_keeps_its_input_alone),
        TEST(no_mode_or_budget_changes_a_bit_of_an_adapter),
        TEST(no_mode_or_budget_changes_a_bit_of_one_with_magnitudes),
        TEST(no_mode_or_budget_changes_a_bit_of_what_is_trained_whole_beside_it),
        TEST(every_step_measures_what_the_rehearsal_predicted),
        TEST(a_run_of_adapters_stopped_and_resumed_is_the_run_that_was_not),
        TEST(one_with_magnitudes_is_too),
        TEST(one_with_modules_trained_whole_is_too),
        TEST(a_state_holds_what_is_trained_alone),
        TEST(a_state_does_not_go_on_over_other_frozen_weights),
        TEST(an_adapters_folder_is_a_model_to_go_on_with),
        TEST(so_is_that_of_one_with_magnitudes),
        TEST(so_is_that_of_one_with_modules_trained_whole),
        TEST(a_fresh_adapter_changes_no_loss),
        TEST(a_wrong_name_is_refused_with_the_nearest),
        TEST(the_names_of_transformers_are_understood),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
