/* train/sweep.c -- a step under many budgets, and under the usual modes for comparison. */
#include <math.h>

#include "train/internal.h"

#include "base/report.h"
#include "cost/cost.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

static const struct { const char *name; int mode; int64_t every; } modes[RP_SWEEP_MODES] = {
    { "none", RP_MODE_NONE, 1 }, { "every 2nd layer", RP_MODE_SELECTIVE_LAYER, 2 }, { "selective_op", RP_MODE_SELECTIVE_OP, 1 }, { "full", RP_MODE_FULL, 1 },
};

rp_recipe rp__sweep_recipe(const rp_recipe *recipe, int i)
{
    rp_recipe r = *recipe;

    r.activation_checkpointing.n_conditions = 0;
    r.activation_checkpointing.mode         = RP_MODE_AUTO;
    if (i >= RP_SWEEP_MODES) return r;
    r.activation_checkpointing.mode         = modes[i].mode;
    r.activation_checkpointing.every        = modes[i].every;
    r.activation_checkpointing.offset       = 0;
    return r;
}

static rp_sweep_point point_of(const rp_plan *s, const char *mode)
{
    return (rp_sweep_point){ .mode = mode, .budget = s->budget, .reserved = s->placement.height, .peak = s->found.memory.peak_bytes,
                             .saved = s->found.saved_bytes, .recompute_flops = s->found.recompute_flops, .seconds = s->seconds,
                             .recompute_seconds = s->recompute_seconds, .variant = s->variant };
}

double rp__sweep_overhead(const rp_sweep *s, int i)
{
    return rp__overhead(s->base_seconds, s->point[i].seconds, s->point[i].recompute_seconds);
}

static rp_status plan_mode(rp_rehearsal *r, int i, rp_plan **out)
{
    const rp_recipe recipe = rp__sweep_recipe(r->recipe, i);

    RP_TRY(rp__rehearsal_begin(r, &recipe, RP_ANEW_FATES));
    return rp__rehearsal_own_fastest(r, out);
}

/* The tightest budgets may have no plan. Move the plans up over the gaps; returns their number. */
static int close_gaps(rp_plan **steps, int n)
{
    int kept = 0;

    for (int i = 0; i < n; i++)
        if (steps[i]) steps[kept++] = steps[i];
    for (int i = kept; i < n; i++) steps[i] = NULL;
    return kept;
}

static rp_status plan_points(rp_rehearsal *r, rp_plan **steps, int n, rp_sweep *out)
{
    for (int i = 0; i < RP_SWEEP_MODES; i++) RP_TRY(plan_mode(r, i, &steps[i]));
    RP_TRY(rp__rehearsal_begin_open(r));
    RP_TRY(rp__rehearsal_curve(r, steps + RP_SWEEP_MODES, n));
    out->n_modes  = RP_SWEEP_MODES;
    out->n_points = RP_SWEEP_MODES + close_gaps(steps + RP_SWEEP_MODES, n);
    out->base_seconds = INFINITY;
    for (int i = 0; i < out->n_points; i++) {
        out->point[i]     = point_of(steps[i], i < RP_SWEEP_MODES ? modes[i].name : NULL);
        out->base_seconds = fmin(out->base_seconds, out->point[i].seconds);
    }
    return RP_OK;
}

static rp_status sweep_check(rp_rehearsal *r, const rp_sweep_options *options, rp_report *report)
{
    if (options->pairs) {
        rp__recipe_check_train(r->recipe, report);
        if (!r->recipe->dataset.packed)
            rp__report_error(report, rp__recipe_place(r->recipe, "dataset.packed"),
                             "steps are measured on batches of full length: set 'dataset.packed' to true");
    }
    rp_status status = rp__rehearsal_check_names(r, report);
    return status == RP_OK ? rp__report_status(report, RP_ERR_CONFIG) : status;
}

static rp_status sweep(rp_rehearsal *r, rp_plan **steps, const rp_sweep_options *options, rp_report *report, rp_sweep *out)
{
    RP_TRY(sweep_check(r, options, report));
    r->device = options->device;
    RP_TRY(plan_points(r, steps, options->n, out));
    snprintf(out->machine, sizeof out->machine, "%s", rp__cost_machine(r->costs));
    out->measured = rp__cost_measured(r->costs);
    return options->pairs ? rp__sweep_measure(r, steps, options, out) : RP_OK;
}

rp_status rp__recipe_sweep(rp_ctx *ctx, const rp_recipe *recipe, const rp_sweep_options *options, rp_report *report, rp_sweep *out)
{
    int n = RP_SWEEP_MODES + options->n;
    rp_rehearsal r = { 0 };

    RP_CHECK(ctx, options->n >= 2, RP_ERR_ARG, "a sweep of %d points", options->n);
    *out                 = (rp_sweep){ .point = rp__host_alloc(ctx, n * (int64_t)sizeof *out->point) };
    rp_plan **steps = rp__host_alloc(ctx, n * (int64_t)sizeof *steps);
    rp_status status     = out->point && steps ? rp__rehearsal_open(ctx, recipe, NULL, report, &r) : RP_ERR_MEMORY;
    if (status == RP_OK) status = sweep(&r, steps, options, report, out);
    rp__rehearsal_close(&r);
    for (int i = 0; steps && i < n; i++) rp__plan_free(steps[i]);
    rp__release(steps);
    if (status == RP_OK) return RP_OK;
    rp__release(out->point);
    *out = (rp_sweep){ 0 };
    return status;
}
