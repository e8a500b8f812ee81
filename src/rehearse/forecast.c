/* rehearse/forecast.c -- fills a forecast from a rehearsal of the recipe's steps. */
#include <string.h>

#include "base/bump.h"
#include "base/report.h"
#include "comm/comm.h"
#include "cost/cost.h"
#include "plan/plan.h"
#include "rehearse/rehearsal.h"
#include "tape/offload.h"
#include "tape/tape.h"

/* If plans choose everything except must-rules, the recipe's least budget is that of the recipe with open fates. It is then found with the plan. */
static bool may_want_least(const rp_recipe *r, const rp_forecast_options *options)
{
    return options && options->least && rp__recipe_leaves_open(r) && !r->activation_checkpointing.n_conditions && !r->plan;
}

static void fill_forecast(const rp_rehearsal *r, rp_forecast *f)
{
    bool in_memory = rp__offload_in_memory(rp__tape_ctx(r->ctx)->offload);

    f->plan              = *r->steps;
    f->plan.bump         = (rp_bump){ 0 };
    f->plan.pass         = NULL;
    f->plan.order        = NULL;
    f->plan.place        = NULL;
    f->plan.n_passes     = f->plan.n_order = f->plan.n_places = 0;
    f->loose_bounds      = rp__plan_joins_layers(r->steps);
    f->limit             = r->limit;
    f->allowance         = r->allowance;
    f->mapped_bytes      = rp__model_mapped_bytes(r->engine.model);
    f->keep_all_bytes    = r->keep_all_seconds > 0 ? r->own_bytes : 0;
    f->keep_all_seconds  = r->keep_all_seconds;
    f->offload_bandwidth = rp__cost_offload_bandwidth(r->costs, in_memory);
    f->offload_guessed   = rp__cost_offload_guessed(r->costs, in_memory);
    f->ranks             = rp__comm_ranks(rp__world(r->ctx));
    f->links             = rp__cost_links(r->costs);
    f->solve_seconds     = r->solve_seconds;
    f->elsewhere         = r->device != NULL;
    f->estimated         = f->elsewhere && !r->ctx->far;
    if (r->engine.gather) rp__units_text(&r->engine.units, f->units);
    rp__regions_text(rp__model_root(r->engine.model), rp__engine_n_rules(&r->engine), f->regions);
}

static rp_status write_file(rp_rehearsal *r, const char *file)
{
    rp_bump bump = { .ctx = r->caller };
    const char *text;

    rp_status status = rp__recipe_write(r->recipe, &bump, &text);
    if (status == RP_OK) status = rp__step_plan_write(r->caller, r->steps, r->recipe, text, file);
    rp__bump_free(&bump);
    return status;
}

static rp_status forecast(rp_rehearsal *r, const rp_forecast_options *options, rp_report *report, rp_forecast *f)
{
    rp_status status = rp__rehearsal_check_names(r, report);

    if (status == RP_OK) status = rp__report_status(report, RP_ERR_CONFIG);
    if (status != RP_OK) return status;
    r->device         = options ? options->device : NULL;
    r->wants_remedies = options && options->least;
    r->wants_least    = may_want_least(r->recipe, options);
    status                = rp__rehearsal_rehearse(r, rp__recipe_validates(r->recipe) ? r->recipe->batch_size : 0, report);
    f->feasible   = status == RP_OK;
    if (status != RP_OK && status != RP_ERR_BUDGET) return status;
    if (f->feasible && options && options->file) RP_TRY(write_file(r, options->file));
    fill_forecast(r, f);
    f->least         = f->feasible ? 0 : r->steps->placement.height;
    f->least_at_most = !f->feasible && r->steps->at_most;
    f->n_remedies    = r->n_remedies;
    memcpy(f->remedy, r->remedy, sizeof f->remedy);
    if (f->least || !options || !options->least) return RP_OK;
    if (!r->least) RP_TRY(rp__rehearsal_begin_open(r));
    if (!r->least) RP_TRY(rp__rehearsal_least(r, &r->least));
    f->least         = r->least->placement.height;
    f->least_at_most = r->least->at_most;
    return RP_OK;
}

rp_status rp__recipe_forecast(rp_ctx *ctx, const rp_recipe *recipe, const rp_forecast_options *options, rp_report *report, rp_forecast *out)
{
    rp_rehearsal r;

    *out = (rp_forecast){ 0 };
    rp__explain_open(&out->explain, ctx);
    out->explain.wants_events = options && options->events;
    rp_status status = rp__rehearsal_open(ctx, recipe, &out->explain, report, &r);
    if (status == RP_OK) status = forecast(&r, options, report, out);
    if (status == RP_OK && options && options->trials && out->feasible) status = rp__rehearsal_try_rules(&r);
    if (status == RP_OK && options && options->graph && out->feasible) status = rp__rehearsal_write_graph(&r, options->graph);
    if (status != RP_OK) rp__forecast_close(out);
    rp__rehearsal_close(&r);
    return status;
}

double rp__overhead(double base, double seconds, double recompute_seconds) { return base > 0 ? fmax(seconds - base + recompute_seconds, 0) / base : 0; }

/* The plan remains the caller's. */
static rp_status show(rp_rehearsal *r, rp_plan *steps, rp_forecast *f)
{
    r->steps         = steps;
    r->budget        = steps->budget;
    rp_status status = rp__rehearsal_show(r);
    if (status == RP_OK) fill_forecast(r, f);
    r->steps = NULL;
    return status;
}

rp_status rp__forecast_planned(rp_ctx *ctx, const rp_recipe *recipe, const rp_model_config *config, rp_plan *steps, int64_t val_rows, rp_forecast *out)
{
    rp_rehearsal r;

    *out = (rp_forecast){ .feasible = true };
    rp__explain_open(&out->explain, ctx);
    out->explain.wants_events = true;
    rp_status status = rp__rehearsal_open_like(ctx, recipe, &out->explain, config, &r);
    r.val_rows       = val_rows;
    if (status == RP_OK) status = show(&r, steps, out);
    if (status != RP_OK) rp__forecast_close(out);
    rp__rehearsal_close(&r);
    return status;
}

void rp__forecast_close(rp_forecast *f)
{
    rp__explain_close(&f->explain);
    *f = (rp_forecast){ 0 };
}
