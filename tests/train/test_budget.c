/* The claims of `memory_budget`: what a plan says a step takes, every step takes, to the byte; no budget is exceeded, between the least and
 * all; a larger one costs no more; and no bit of what is learnt changes. */
/* ctest: level-free no-emulator cost=12 */
#include "drawn_run.h"

#include <math.h>

static void every_step_takes_what_was_said_and_no_bit_changes(void **state)
{
    int n_draws = test_draws(100), n_planned = 0, n_refused = 0;

    (void)state;
    for (uint32_t seed = 0; seed < (uint32_t)n_draws; seed++) {
        uint32_t rng = seed * 7919 + 3;
        rp_step_usage all, found;
        char name[32];
        settings s;
        bool refused;

        write_model(&rng, pick(&rng, 2));
        draw_settings(&rng, &s);
        set_drawn(&s, "dist.state_offload=%s", seed % 3 ? "false" : "true");
        set_drawn(&s, "activation_checkpointing.offload.path=%s/slots", dir.path);
        snprintf(name, sizeof name, "%u-all", seed);
        uint64_t expected = run_drawn(&s, name, 0, &all, &refused);
        int64_t least     = least_of(&s), most = all.memory.reserved_bytes;
        assert_true(least <= most);
        int64_t bytes     = seed % 4 == 0 ? least : seed % 4 == 1 ? least - 1 : least + (int64_t)(next(&rng) % (uint32_t)(most - least + 1));
        snprintf(name, sizeof name, "%u", seed);
        uint64_t got = run_drawn(&s, name, bytes, &found, &refused);
        if (refused != (bytes < least)) fail_msg("seed %u: %lld bytes, the least is %lld, refused: %d", seed, (long long)bytes, (long long)least, refused);
        n_refused += refused;
        if (refused) continue;
        if (found.memory.reserved_bytes > bytes) fail_msg("seed %u: %lld of %lld bytes", seed, (long long)found.memory.reserved_bytes, (long long)bytes);
        if (got != expected) fail_msg("seed %u: other bits", seed);
        n_planned += found.recompute_flops > 0;
    }
    assert_true(n_planned > n_draws / 2 && n_refused > n_draws / 8);
}

/* The share of the step that a plan within the budget recomputes. */
static double overhead_within(settings *s, const char *name, int64_t bytes)
{
    rp_report report;
    rp_forecast f;

    run r = open_drawn(s, name, bytes);
    assert_ok(r.ctx, r.status);
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true, .memory_limit_bytes = bytes });
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_forecast(ctx, r.recipe, NULL, &report, &f));
    assert_true(f.feasible && f.plan.found.memory.reserved_bytes <= bytes);
    assert_true(f.plan.bound_seconds <= f.plan.recompute_seconds * (1 + 1e-9));
    double overhead = f.plan.recompute_seconds / f.plan.seconds;
    rp__forecast_close(&f);
    rp__report_close(&report);
    test_ctx_free(ctx);
    run_close(&r);
    return overhead;
}

/* Also if rules prefer to recompute, or recompute one of several outputs of a call. */
static void a_larger_budget_never_costs_more(void **state)
{
    static const char *const rules[] = {
        "[]", "[]", "[{op: '*', fate: prefer_recompute}]", "[{op: matmul, every: 2, fate: prefer_recompute}, {every: 3, fate: offload}]",
    };
    int n_budgets = test_draws(50);
    rp_step_usage all;
    settings s;
    bool refused;

    (void)state;
    for (uint32_t seed = 1000; seed < 1008; seed++) {
        uint32_t rng = seed;
        double before = INFINITY;
        char name[32];
        write_model(&rng, seed % 2);
        draw_settings(&rng, &s);
        snprintf(name, sizeof name, "%u", seed);
        run_drawn(&s, name, 0, &all, &refused);
        set_drawn(&s, "activation_checkpointing.rules=%s", rules[seed / 2 % RP_COUNT(rules)]);
        set_drawn(&s, "activation_checkpointing.offload.path=%s/slots", dir.path);
        int64_t least = least_of(&s), most = all.memory.reserved_bytes;     /* more than all that may be kept takes */
        for (int i = 0; i <= n_budgets; i++) {
            snprintf(name, sizeof name, "%u-%d", seed, i);
            double overhead = overhead_within(&s, name, least + most * i / n_budgets);
            if (overhead > before * (1 + 1e-12)) fail_msg("seed %u, budget %d: %.6f after %.6f", seed, i, overhead, before);
            before = overhead;
        }
        if (before != 0 && seed / 2 % RP_COUNT(rules) < 3) fail_msg("seed %u: %.9f with all memory", seed, before);      /* a must that offloads costs */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_step_takes_what_was_said_and_no_bit_changes),
        TEST(a_larger_budget_never_costs_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
