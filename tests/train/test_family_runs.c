/* Claims about runs, for each golden model's config: what is said of a step is what it takes, to the byte, and no way to checkpoint, no budget and no
 * fusion of launches changes a bit of what is learnt. */
/* ctest: no-emulator slow-emulated thread-free cost=12 */
#include "drawn_run.h"

#include "device/emulate/emulate.h"
#include "golden_variants.h"

static const char *const variants[] = { GOLDEN_VARIANTS(GOLDEN_VARIANT_NAME) };

static void settings_of(const char *variant, const char *dtype, settings *s)
{
    memset(s, 0, sizeof *s);
    set_drawn(s, "dtype=%s", dtype);
    set_drawn(s, "batch_size=2");
    set_drawn(s, "max_seq_len=24");
    set_drawn(s, "max_steps=2");
    if (!strncmp(variant, "bert", 4)) set_drawn(s, "loss.mask_token_id=4");
}

static uint64_t run_way(const char *variant, const char *dtype, const char *way, const char *out, int64_t budget)
{
    char name[64];
    rp_step_usage found;
    settings s;
    bool refused;

    settings_of(variant, dtype, &s);
    if (way) set_drawn(&s, "%s", way);
    snprintf(name, sizeof name, "%s-%s-%s", variant, dtype, out);
    uint64_t hash = run_drawn(&s, name, budget, &found, &refused);
    if (refused) fail_msg("%s, %s: %" PRId64 " bytes are refused", variant, dtype, budget);
    return hash;
}

static void no_way_to_checkpoint_changes_a_bit(void **state)
{
    static const char *const ways[] = {
        "enable_activation_checkpointing=true",
        "activation_checkpointing={mode: selective_layer, every: 2}",
        "activation_checkpointing={mode: selective_op}",
        "activation_checkpointing={conditions: [{path: '*.mlp'}, {module_type: {types: [Norm]}}]}",
        "activation_checkpointing={mode: full, conditions: [{path: '*.mlp'}, {path: '*.attn'}], verify: always}",
        "activation_checkpointing={rules: [{op: '*', fate: recompute}], verify: always}",
        "activation_checkpointing={rules: [{path: '*.attn.q_norm', fate: recompute}, {path: '*.post_*_norm', fate: recompute}]}",
    };

    (void)state;
    for (int v = 0; v < RP_COUNT(variants); v++) {
        const char *dtype = v % 2 ? "bf16" : "fp32";
        take_config(&dir, variants[v], "drawn.json");
        uint64_t plain = run_way(variants[v], dtype, NULL, "plain", 0);
        for (int w = 0; w < RP_COUNT(ways); w++) {
            char out[16];
            snprintf(out, sizeof out, "way%d", w);
            /* A path that matches nothing is an error, and not every family has such norms. */
            bool has_norms = strstr(variants[v], "gemma3");
            if (w == RP_COUNT(ways) - 1 && !has_norms) continue;
            if (test_takes_samples() && (v + w) % 3) continue;
            if (run_way(variants[v], dtype, ways[w], out, 0) != plain) fail_msg("%s, %s: other bits with %s", variants[v], dtype, ways[w]);
        }
    }
}

static void every_budget_is_kept_and_changes_no_bit(void **state)
{
    (void)state;
    for (int v = 0; v < RP_COUNT(variants); v++) {
        const char *dtype = v % 2 ? "fp32" : "bf16";
        rp_step_usage all;
        char name[64];
        settings s;
        bool refused;

        take_config(&dir, variants[v], "drawn.json");
        settings_of(variants[v], dtype, &s);
        snprintf(name, sizeof name, "%s-all", variants[v]);
        uint64_t expected = run_drawn(&s, name, 0, &all, &refused);
        int64_t least     = least_of(&s), most = all.memory.reserved_bytes;
        assert_true(least < most);
        for (int i = test_few_or(v % 3, 0); i < 3; i += test_few_or(3, 1)) {
            snprintf(name, sizeof name, "budget%d", i);
            if (run_way(variants[v], dtype, NULL, name, least + (most - least) * i / 3) != expected)
                fail_msg("%s, %s: other bits at budget %d", variants[v], dtype, i);
        }
    }
}

/* ---- fusion, on an emulated GPU ---- */

#ifdef RP_POISON
enum { IS_FILLED = true };      /* released memory: its fills stand between launches, so fewer of them join */
#else
enum { IS_FILLED = false };
#endif
#ifdef RP_ASAN
enum { HAS_ASAN = true };       /* host memory is not pinned */
#else
enum { HAS_ASAN = false };
#endif

static int64_t launches(void) { return rp__emulate_calls("cuLaunchKernel"); }

/* Every step takes what was said. Returns the launches of the run. */
static int64_t run_on_gpu(const char *model, const char *out, const char *fusion, const char *graphs, const char *const *setting)
{
    int64_t before = launches();

    assert_int_equal(setenv("REPRISE_FUSION", fusion, 1), 0);
    assert_int_equal(setenv("REPRISE_GRAPHS", graphs, 1), 0);
    run r = run_open(&dir, model, out, setting);
    assert_ok(r.ctx, r.status);
    int64_t said = rp__trainer_info(r.trainer)->rehearsal.memory.reserved_bytes;
    assert_ok(r.ctx, rp__trainer_run(r.trainer, NULL, NULL));
    metrics m = metrics_of(&dir, out);
    for (int i = 0; i < m.n; i++) assert_int_equal((int64_t)metric_number(m.line[i], "peak_memory_reserved"), said);
    free(m.text);
    run_close(&r);
    assert_int_equal(unsetenv("REPRISE_FUSION"), 0);
    assert_int_equal(unsetenv("REPRISE_GRAPHS"), 0);
    return launches() - before;
}

static double largest(const char *out, const char *key)
{
    metrics m   = metrics_of(&dir, out);
    double most = 0;

    for (int i = 0; i < m.n; i++) most = metric_number(m.line[i], key) > most ? metric_number(m.line[i], key) : most;
    free(m.text);
    return most;
}

/* Step by step with single launches, with fused ones, and as graphs of fused ones. Returns the largest number of bytes that a step offloads. */
static double assert_fusion_changes_nothing(const char *model, const char *const *setting)
{
    int64_t single = run_on_gpu(model, "single", "off", "off", setting), fused = run_on_gpu(model, "fused", "on", "off", setting);

    if (20 * fused > 19 * single) fail_msg("%s: %" PRId64 " launches of %" PRId64 " are left", model, fused, single);
    run_on_gpu(model, "graphs", "on", "on", setting);
    double offloaded = largest("graphs", "offloaded_bytes");
    assert_same_metrics(&dir, "single", "fused");
    assert_same_final(&dir, "single", "fused");
    assert_same_metrics(&dir, "single", "graphs");
    assert_same_final(&dir, "single", "graphs");
    temp_remove(&dir);
    dir = loop_dir();
    return offloaded;
}

/* The test device of a variant is another one. */
static void leave_out_other_devices(void)
{
    if (getenv("REPRISE_TEST_DEVICE")) skip();
}

enum { ALL_KEPT, EVERY_BLOCK, BUDGET, OFFLOADED, GPU_WAYS };

static void fusion_changes_no_bit_of_any_family(void **state)
{
    static const char *const families[] = { "llama3", "gemma3_text", "qwen3", "phi3", "olmo2", "mixtral", "bert", "gpt2_dropout" };
    static const bool is_repeated[]     = { true, true, true, false, true, true, false, true };     /* as graphs */
    static const char *const ways[]     = { NULL, "enable_activation_checkpointing=true", NULL, "activation_checkpointing={rules: [{op: add, fate: offload},"
                                            " {op: matmul, fate: recompute}], offload: {to: memory}}" };

    (void)state;
    leave_out_other_devices();
    for (int i = 0; i < RP_COUNT(families) * GPU_WAYS; i++) {
        int family = i / GPU_WAYS, way = i % GPU_WAYS;
        const char *dtype = (family + way) % 2 ? "bf16" : "fp32";
        rp_step_usage all;
        settings s;
        bool refused;

        if (test_takes_samples() && family % GPU_WAYS != way) continue;
        take_config(&dir, families[family], "drawn.json");
        settings_of(families[family], dtype, &s);
        set_drawn(&s, "device=emu");
        if (way == BUDGET) {
            run_drawn(&s, "all", 0, &all, &refused);
            int64_t least = least_of(&s);
            set_drawn(&s, "memory_budget=%" PRId64, least + (all.memory.reserved_bytes - least) / 3);
        }
        if (ways[way]) set_drawn(&s, "%s", ways[way]);
        set_drawn(&s, "max_steps=4");
        int64_t repeats  = rp__emulate_calls("cuGraphLaunch");
        double offloaded = assert_fusion_changes_nothing("drawn", s.all);
        if (is_repeated[family] && (way != OFFLOADED || !HAS_ASAN)) assert_true(rp__emulate_calls("cuGraphLaunch") > repeats);
        if (way == OFFLOADED) assert_true(offloaded > 0);
    }
}

static void fusion_changes_no_bit_of_any_update(void **state)
{
    (void)state;
    leave_out_other_devices();
    assert_fusion_changes_nothing("llama", RUN("device=emu", "max_steps=4", "clip_grad_norm=0.05", "gradient_accumulation_steps=2"));
    assert_fusion_changes_nothing("llama", RUN("device=emu", "max_steps=4", "dtype=bf16", "grad_dtype=fp32", "optimizer={name: sgd, momentum: 0.9}"));
    assert_fusion_changes_nothing("llama", RUN("device=emu", "max_steps=4", "optimizer_in_bwd=true", "enable_activation_checkpointing=true"));
    assert_fusion_changes_nothing("gpt2", RUN("device=emu", "max_steps=4", "dtype=bf16", "optimizer.state_dtype=int8", "clip_grad_norm=0.5"));
    assert_fusion_changes_nothing("gpt2", RUN("device=emu", "max_steps=4", "enable_activation_checkpointing=true", "profile=true"));
}

/* Launches of one step of a model with `layers` blocks. */
static int64_t launches_of_step(const char *text, const char *key, int layers, const char *fusion)
{
    char shape[1024];
    const char *at = strstr(text, key);

    assert_non_null(at);
    at += strlen(key);
    snprintf(shape, sizeof shape, "%.*s%d%s", (int)(at - text), text, layers, at + 1);
    temp_text(&dir, "layers.json", shape);
    int64_t n = run_on_gpu("layers", fusion, fusion, "off", RUN("device=emu", "max_steps=1", "dtype=bf16", "clip_grad_norm=1"));
    temp_remove(&dir);
    dir = loop_dir();
    return n;
}

static void assert_block(const char *text, const char *key, int64_t single, int64_t fused)
{
    assert_int_equal(launches_of_step(text, key, 2, "off") - launches_of_step(text, key, 1, "off"), single);
    assert_int_equal(launches_of_step(text, key, 2, "on") - launches_of_step(text, key, 1, "on"), fused);
}

/* The second block of a model adds so many launches to a step: forward, backward, the norm of its gradients and its updates. */
static void the_launches_of_a_block_are_these(void **state)
{
    (void)state;
    leave_out_other_devices();
    if (IS_FILLED) skip();
    assert_block(LLAMA, "\"num_hidden_layers\": ", 70, 33);
    assert_block(GPT2, "\"n_layer\": ", 76, 37);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_way_to_checkpoint_changes_a_bit),
        TEST(every_budget_is_kept_and_changes_no_bit),
        TEST(fusion_changes_no_bit_of_any_family),
        TEST(fusion_changes_no_bit_of_any_update),
        TEST(the_launches_of_a_block_are_these),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
