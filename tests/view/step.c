#include "view/step.h"

#include <math.h>

#include "rp_test.h"
#include "view/report.h"

enum { N_LOSSES = 400, N_PLANNED = 40 };

struct watched_step {
    rp_ctx *ctx;
    rp_bump bump;
    rp_forecast forecast;
    rp_page page;
};

/* A convex curve, classic modes above it. */
static void add_points(watched_step *s)
{
    static const struct { const char *name; double of_saved, overhead; bool measured; } classic[] = {
        { "none", 1, 0, true }, { "full", 0, .331, true }, { "every 2nd block", .5, .166, false }, { "selective_op", .42, .094, true },
        { "every 4th block", .75, .083, false },
    };
    int64_t top = s->page.reserved, least = top - s->forecast.plan.found.saved_bytes * 9 / 10;
    rp_page_point *p = rp__bump_alloc(&s->bump, (N_PLANNED + RP_COUNT(classic)) * (int64_t)sizeof *p);

    s->page.point = p;
    for (int i = 0; i < N_PLANNED; i++) {
        double t = i / (N_PLANNED - 1.0);
        *p++     = (rp_page_point){ NULL, least + (int64_t)(t * (double)(top - least)), .26 * pow(1 - t, 2.6), i % 6 == 0 };
    }
    for (int i = 0; i < RP_COUNT(classic); i++)
        *p++ = (rp_page_point){ classic[i].name, least + (int64_t)(classic[i].of_saved * (double)(top - least)), classic[i].overhead,
                                classic[i].measured };
    s->page.n_points = N_PLANNED + RP_COUNT(classic);
}

static void add_losses(watched_step *s)
{
    rp_page_loss *l = rp__bump_alloc(&s->bump, N_LOSSES * (int64_t)sizeof *l);
    uint32_t x      = 12345;

    for (int i = 0; i < N_LOSSES; i++) {
        x    = x * 1664525u + 1013904223u;
        l[i] = (rp_page_loss){ .step = i + 1, .loss = 2.1 + 1.4 * exp(-i / 60.0) + .25 * ((double)(x >> 8) / (1 << 24) - .5),
                               .val_loss = 2.15 + 1.3 * exp(-i / 60.0), .lr = 2e-5 * (1 - i / 400.0), .has_val = i % 50 == 49 };
    }
    s->page.loss     = l;
    s->page.n_losses = N_LOSSES;
}

static void forecast(watched_step *s, const rp_recipe *recipe)
{
    const rp_forecast_options options = { .events = true };
    const rp_report_page reported         = { &s->forecast, NULL, "SmolLM2-135M, 2 x 512 tokens, bf16", NULL };
    rp_report report;

    rp__report_open(&report, s->ctx);
    assert_ok(s->ctx, rp__recipe_forecast(s->ctx, recipe, &options, &report, &s->forecast));
    assert_ok(s->ctx, rp__report_page_fill(&reported, &s->bump, &s->page));
    rp__report_close(&report);
}

watched_step *step_watch(const char *file, const char *const *setting)
{
    watched_step *s = calloc(1, sizeof *s);
    rp_ctx *reading = test_ctx(&(rp_ctx_options){ .shapes_only = true });
    rp_recipe *recipe;
    int n = 0;

    while (setting[n]) n++;
    assert_ok(reading, rp_recipe_load(reading, file, n, setting, &recipe));
    rp_ctx_options options = rp__recipe_ctx_options(recipe);
    options.shapes_only    = true;
    s->ctx                 = test_ctx(&options);
    s->bump                = (rp_bump){ .ctx = s->ctx };
    forecast(s, recipe);
    rp_recipe_free(recipe);
    test_ctx_free(reading);
    if (!s->page.budget) s->page.budget = (s->page.reserved >> 26 << 26) + (1 << 26);
    add_points(s);
    add_losses(s);
    return s;
}

const rp_page *step_page(const watched_step *s) { return &s->page; }

const rp_forecast *step_forecast(const watched_step *s) { return &s->forecast; }

int64_t step_peak_at(const watched_step *s, rp_mem_class mem_class) { return s->forecast.plan.found.memory.peak_at[mem_class]; }

void step_free(watched_step *s)
{
    rp_ctx *ctx = s->ctx;

    rp__forecast_close(&s->forecast);
    rp__bump_free(&s->bump);
    test_ctx_free(ctx);
    free(s);
}
