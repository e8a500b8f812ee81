/* asked_plan.h -- what a plan takes, of a recipe that a few settings make. */
#ifndef ASKED_PLAN_H
#define ASKED_PLAN_H

#include "rp_test.h"

#include "temp_test.h"
#include "train/loop.h"

typedef struct { bool feasible; int64_t reserved, least; double seconds, recompute, bound; } answer;     /* least: only where asked for */

enum { ASKED_MOST = 16 };

/* budget 0: none; below 0: none either, and the least is asked for. */
static answer asked_plan(const char *const *settings, int n, const char *machine, int64_t budget)
{
    const char *all[ASKED_MOST + 1];
    char memory[64], path[512];
    rp_ctx *ctx = test_ctx(&(rp_ctx_options){ .threads = 1, .shapes_only = true, .memory_limit_bytes = budget > 0 ? budget : 0 });
    rp_report report;
    rp_recipe *recipe;
    rp_forecast f;

    assert_true(n <= ASKED_MOST);
    for (int i = 0; i < n; i++) all[i] = settings[i];
    snprintf(memory, sizeof memory, budget > 0 ? "memory_budget=%lld" : "memory_budget=null", (long long)budget);
    all[n] = memory;
    temp_text(&dir, "recipe.yaml", "{dtype: bf16, optimizer: {name: adamw}}\n");
    snprintf(path, sizeof path, "%s/recipe.yaml", dir.path);
    rp__report_open(&report, ctx);
    assert_ok(ctx, rp__recipe_load(ctx, path, n + 1, all, &report, &recipe));
    assert_ok(ctx, rp__recipe_forecast(ctx, recipe, &(rp_forecast_options){ .device = machine, .least = budget < 0 }, &report, &f));
    answer a = { f.feasible, f.plan.found.memory.reserved_bytes, f.least, f.plan.seconds, f.plan.recompute_seconds, f.plan.bound_seconds };
    rp__forecast_close(&f);
    rp_recipe_free(recipe);
    rp__report_close(&report);
    test_ctx_free(ctx);
    return a;
}

#endif
