/* Claims about budgets on SmolLM2-135M and some tiny models, on shapes: from the least to all there is none is exceeded, no byte of an arena is wasted,
 * and more
 * memory never costs more. Of a kernel's scratch they know what this CPU takes; the test device has another. */
/* ctest: device-free thread-free */
#include "loop_test.h"

#include <math.h>

#define SIZES "model.config=" RP_SOURCE_DIR "/bench/configs/smollm2-135m.json", "max_seq_len=512", "batch_size=2", "optimizer.lr=2e-5"
#define TINY(name) "model.path=" RP_SOURCE_DIR "/tests/golden/models/" name, "max_seq_len=16", "batch_size=2"

static const char *const *steps_of(int way)
{
    static const char *const ways[][MOST_SETTINGS] = {
        { SIZES, "dtype=bf16", "clip_grad_norm=1.0" },
        { SIZES, "dtype=fp32", "gradient_accumulation_steps=3" },
        { SIZES, "dtype=bf16", "optimizer_in_bwd=auto", "optimizer.state_dtype=bf16" },
        { SIZES, "dtype=bf16", "optimizer.name=sgd", "optimizer.momentum=0.9", "activation_checkpointing.rules=[{op: attention, fate: keep}]" },
        { SIZES, "dtype=bf16", "loss.keep_logits=auto", "optimizer_in_bwd=auto", "optimizer.state_dtype=bf16" },
    };

    return way < RP_COUNT(ways) ? ways[way] : NULL;
}

typedef struct { bool feasible, keeps_logits; int64_t least, reserved, bound; double seconds, bound_seconds, block_bound; } figures;

/* budget 0: none */
static figures forecast_of(const char *const *setting, int64_t budget)
{
    const char *all[MOST_SETTINGS] = { 0 };
    char size[64];
    rp_recipe *recipe = NULL;
    rp_forecast f;
    rp_report report;
    int n = 0;

    for (; setting[n]; n++) all[n] = setting[n];
    snprintf(size, sizeof size, "memory_budget=%" PRId64, budget);
    if (budget) all[n++] = size;
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .device = "cpu", .threads = 2, .shapes_only = true, .memory_limit_bytes = budget });
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_read(ctx, "r.yaml", "threads: 2\nmax_steps: 1\n", 24, n, all, &report, &recipe));
    assert_ok(ctx, rp__recipe_forecast(ctx, recipe, &(rp_forecast_options){ .least = !budget }, &report, &f));
    figures t = { f.feasible,
               f.plan.variant.keeps_logits,
               f.least,
               f.plan.found.memory.reserved_bytes,
               f.plan.placement.bound,
               f.plan.seconds + f.plan.recompute_seconds,
               f.plan.seconds + f.plan.bound_seconds,
               f.plan.seconds + f.plan.block_bound_seconds };
    rp__forecast_close(&f);
    rp__report_close(&report);
    rp__recipe_free(recipe);
    test_ctx_free(ctx);
    return t;
}

/* Returns at how many budgets the bound of plans of blocks says more than that of all schedules. */
static int check_budgets(const char *const *setting, int n_budgets)
{
    figures all      = forecast_of(setting, 0);
    double before = INFINITY;
    int n_tighter = 0;

    assert_true(all.feasible && all.seconds == all.bound_seconds && all.least < all.reserved);
    assert_false(forecast_of(setting, all.least - 1).feasible);
    for (int i = 0; i < n_budgets; i++) {
        int64_t budget = all.least + (all.reserved - all.least) * i / (n_budgets - 1);
        figures t         = forecast_of(setting, budget);
        if (!t.feasible || t.reserved > budget || (double)t.reserved > 1.001 * (double)t.bound)
            fail_msg("budget %" PRId64 ": %" PRId64 " reserved, %" PRId64 " are live at once", budget, t.reserved, t.bound);
        if (t.seconds > before * (1 + 1e-9) || t.block_bound > t.seconds || t.bound_seconds > t.block_bound)
            fail_msg("budget %" PRId64 ": %.9f s after %.9f, the bounds are %.9f and %.9f", budget, t.seconds, before, t.block_bound, t.bound_seconds);
        before = t.seconds;
        n_tighter += t.block_bound > t.bound_seconds;
    }
    assert_true(before <= all.seconds);
    return n_tighter;
}

/* Fifty of the recipe that is shipped, fewer of others. */
static void fifty_budgets_of_smollm2_are_kept_and_more_never_costs_more(void **state)
{
    int n_tighter = 0;

    (void)state;
    for (int way = 0; steps_of(way); way++) {
        bool kept_by_a_rule = way == 3;        /* for the simulated time or less: then plans of blocks have no bound */
        int n               = check_budgets(steps_of(way), way ? test_few_or(3, 15) : test_draws(50));
        assert_true(n == 0 || !kept_by_a_rule);
        n_tighter += n;
    }
    assert_true(n_tighter > 0);
}

/* If a rule recomputes a value, or keeps one that nothing reads, the plan's bytes and seconds are estimates, so several plans are tried. */
static void if_rules_recompute_slots_more_memory_never_costs_more_either(void **state)
{
    static const char *const ways[][MOST_SETTINGS] = {
        { TINY("mistral"), "lora.rank=1", "lora.modules=['*']", "activation_checkpointing.rules=[{every: {k: 2, offset: 1}, fate: recompute}]" },
        { TINY("gemma2"), "optimizer_in_bwd=auto", "activation_checkpointing.rules=[{not: {module_type: Linear}, type: MLP, fate: keep}]" },
        { TINY("qwen3"), "activation_checkpointing.rules=[{op: add, fate: recompute}]" },
        { TINY("smollm2"), "activation_checkpointing.rules=[{every: 3, fate: recompute}, {every: 5, fate: keep}]" },
    };

    (void)state;
    for (int i = 0; i < RP_COUNT(ways); i++) {
        figures all      = forecast_of(ways[i], 0);
        double before = INFINITY;
        int n         = test_draws(40);
        assert_true(forecast_of(ways[i], all.least).feasible && !forecast_of(ways[i], all.least - 1).feasible);
        for (int j = 0; j < n; j++) {
            int64_t budget = all.least + (all.reserved - all.least) * j / (n - 1);
            figures t         = forecast_of(ways[i], budget);
            if (!t.feasible || t.reserved > budget || t.seconds > before * (1 + 1e-9) || t.block_bound > t.seconds * (1 + 1e-9))
                fail_msg("way %d, budget %" PRId64 ": %" PRId64 " reserved, %.9g s after %.9g", i, budget, t.reserved, t.seconds, before);
            before = t.seconds;
        }
    }
}

static void where_a_plan_may_keep_the_logits_no_budget_is_slower_and_some_are_faster(void **state)
{
    static const char *const never[MOST_SETTINGS] = { SIZES, "dtype=bf16" }, *const may[MOST_SETTINGS] = { SIZES, "dtype=bf16", "loss.keep_logits=auto" };
    figures all   = forecast_of(never, 0);
    int n_kept = 0;

    (void)state;
    assert_false(forecast_of(may, 0).keeps_logits);
    for (int i = 0; i < 10; i += test_few_or(3, 1)) {
        int64_t budget = all.least + (all.reserved - all.least) * i / 9;
        figures without = forecast_of(never, budget), with = forecast_of(may, budget);
        if (with.seconds > without.seconds * (1 + 1e-9) || with.bound_seconds > without.bound_seconds * (1 + 1e-9) || with.reserved > budget)
            fail_msg("budget %" PRId64 ": %.9f s where it was %.9f", budget, with.seconds, without.seconds);
        if (with.keeps_logits != (with.seconds < without.seconds)) fail_msg("budget %" PRId64 ": kept for nothing, or not for something", budget);
        n_kept += with.keeps_logits;
    }
    assert_true(n_kept > 0);            /* all of them, where products are slow */
}

/* The step of this model takes less than scoring a batch: what is reported of it shows which is meant. */
static void a_validation_that_is_never_run_takes_nothing(void **state)
{
    #define STEP TINY("phi3"), "freeze=[layers.0]", "lora.rank=1", "lora.modules=[layers.0.*]", "lora.whole=[norm]"
    static const char *const none[MOST_SETTINGS] = { STEP }, *const idle[MOST_SETTINGS] = { STEP, "dataset_val={path: val.txt}" },
                      *const due[MOST_SETTINGS] = { STEP, "dataset_val={path: val.txt}", "run_val_every_n_steps=1" };

    (void)state;
    assert_int_equal(forecast_of(idle, 0).reserved, forecast_of(none, 0).reserved);
    assert_true(forecast_of(due, 0).reserved > forecast_of(none, 0).reserved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(fifty_budgets_of_smollm2_are_kept_and_more_never_costs_more),
        TEST(if_rules_recompute_slots_more_memory_never_costs_more_either),
        TEST(a_validation_that_is_never_run_takes_nothing),
        TEST(where_a_plan_may_keep_the_logits_no_budget_is_slower_and_some_are_faster),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
