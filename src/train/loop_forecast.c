/* train/loop_forecast.c -- what a recipe's steps will take: the stage asked, the step it settles on watched once more. */
#include <string.h>

#include "tape/away.h"
#include "train/loop_inside.h"

rp_status rp__stage_costs(rp_stage *stage)
{
    int ranks = rp__comm_ranks(stage->ctx->comm);

    if (stage->costs) return RP_OK;
    if (!stage->device) return rp__cost_table_open(stage->ctx, &stage->costs);
    RP_TRY(rp__cost_table_device(stage->ctx, stage->device, &stage->costs));
    RP_CHECK(stage->ctx, ranks == 1 || rp__cost_link(stage->costs) > 0, RP_ERR_CONFIG,
             "device '%s': link is missing: what each of %d ranks sends the others a second, such as link=25GB/s", stage->device, ranks);
    return RP_OK;
}

rp_status rp__stage_watch(rp_stage *stage)
{
    rp_engine *e = &stage->engine;
    rp_step_result step;

    RP_TRY(rp__stage_costs(stage));
    stage->explain->costs = stage->costs;
    rp__explain_begin(stage->explain);
    e->explain       = stage->explain;
    e->follow        = stage->steps;
    rp_status status = rp__engine_step(e, NULL, 0, 0, &step);
    e->explain       = NULL;
    return status == RP_OK ? rp__explain_end(stage->explain, &step.work) : status;
}

static rp_status find_least(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    return rp__stage_least(stage, &stage->least);
}

/* Where plans choose all that no must decides, the least of the recipe is that of the recipe with its fates left open. */
static bool may_want_least(const rp_stage *stage, const rp_forecast_options *options)
{
    const rp_recipe *r = stage->recipe;

    return options && options->least && rp__recipe_leaves_open(r) && !r->activation_checkpointing.n_conditions && !r->plan;
}

static void tell(const rp_stage *stage, rp_forecast *f)
{
    const rp_step_plan *s = stage->steps;

    f->budget          = stage->budget;
    f->limit           = stage->limit;
    f->allowance       = stage->allowance;
    f->planned         = s->plan != NULL;
    f->left            = s->plan ? s->plan->facts.left : (rp_plan_left){ 0 };
    f->variant         = s->variant;
    f->found           = s->found;
    f->bound           = s->placement.bound;
    f->seconds         = s->seconds;
    f->base_seconds    = s->base_seconds;
    f->keep_all_bytes   = stage->keep_all_seconds > 0 ? stage->own_bytes : 0;
    f->keep_all_seconds = stage->keep_all_seconds;
    f->again_seconds   = s->again_seconds;
    f->away_seconds    = s->away_seconds;
    f->state_bytes     = s->state_bytes;
    f->state_seconds   = s->state_seconds;
    f->offload_bandwidth = rp__cost_offload_bandwidth(stage->costs, rp__away_in_memory(stage->ctx->away));
    f->offload_guessed   = rp__cost_offload_guessed(stage->costs, rp__away_in_memory(stage->ctx->away));
    f->ranks           = rp__comm_ranks(stage->ctx->comm);
    f->comm_seconds       = s->comm_seconds;
    f->comm_again_seconds = s->comm_again_seconds;
    f->hidden_seconds     = s->hidden_seconds;
    f->comm_bytes         = s->comm_bytes;
    if (stage->costs) f->links = rp__cost_links(stage->costs);
    if (stage->engine.gather) rp__units_text(&stage->engine.units, f->units);
    f->bound_seconds   = s->bound_seconds;
    f->block_bound_seconds = s->block_bound_seconds;
    f->loose_bounds    = s->plan && rp__plan_joins_layers(s->plan);
    f->solve_seconds   = stage->solve_seconds;
    f->measured        = s->measured;
    f->estimated       = stage->device != NULL;
    snprintf(f->machine, sizeof f->machine, "%s", s->machine);
    rp__regions_text(rp__model_root(stage->engine.model), rp__engine_n_rules(&stage->engine), f->regions);
}

static rp_status write_file(rp_stage *stage, const char *file)
{
    rp_bump bump = { .ctx = stage->caller };
    const char *text;

    rp_status status = rp__recipe_write(stage->recipe, &bump, &text);
    if (status == RP_OK) status = rp__step_plan_write(stage->caller, stage->steps, stage->recipe, text, file);
    rp__bump_free(&bump);
    return status;
}

static rp_status forecast(rp_stage *stage, const rp_forecast_options *options, rp_report *report, rp_forecast *f)
{
    rp_status status = rp__stage_check_names(stage, report);

    if (status == RP_OK) status = rp__report_status(report, RP_ERR_CONFIG);
    if (status != RP_OK) return status;
    stage->device         = options ? options->device : NULL;
    stage->wants_remedies = options && options->least;
    stage->wants_least    = may_want_least(stage, options);
    status                = rp__stage_rehearse(stage, rp__recipe_validates(stage->recipe) ? stage->recipe->batch_size : 0, &f->explain, report);
    f->feasible   = status == RP_OK;
    if (status != RP_OK && status != RP_ERR_BUDGET) return status;
    if (f->feasible) RP_TRY(rp__stage_run(stage, rp__stage_watch));
    if (f->feasible && options && options->file) RP_TRY(write_file(stage, options->file));
    tell(stage, f);
    f->least         = f->feasible ? 0 : stage->steps->placement.height;
    f->least_at_most = !f->feasible && stage->steps->at_most;
    f->n_remedies    = stage->n_remedies;
    memcpy(f->remedy, stage->remedy, sizeof f->remedy);
    if (f->least || !options || !options->least) return RP_OK;
    if (!stage->least) RP_TRY(rp__stage_renew_open(stage, NULL));
    if (!stage->least) RP_TRY(rp__stage_run(stage, find_least));
    f->least         = stage->least->placement.height;
    f->least_at_most = stage->least->at_most;
    return RP_OK;
}

rp_status rp__recipe_forecast(rp_ctx *ctx, const rp_recipe *recipe, const rp_forecast_options *options, rp_report *report, rp_forecast *out)
{
    rp_stage stage;

    *out = (rp_forecast){ 0 };
    rp__explain_open(&out->explain, ctx);
    out->explain.wants_events = options && options->events;
    rp_status status = rp__stage_open(ctx, recipe, report, &stage);
    if (status == RP_OK) status = forecast(&stage, options, report, out);
    if (status == RP_OK && options && options->trials && out->feasible) status = rp__stage_try_rules(&stage);
    if (status != RP_OK) rp__forecast_close(out);
    rp__stage_close(&stage);
    return status;
}

/* The plan is the run's own, and stays so. */
static rp_status show(rp_trainer *t, rp_stage *stage, rp_forecast *f)
{
    stage->steps     = t->steps;
    stage->budget    = t->steps->budget;
    stage->val_rows  = t->val ? t->val_rows : 0;
    rp_status status = rp__stage_renew(stage, &f->explain);
    if (status == RP_OK) status = rp__stage_run(stage, rp__stage_show);
    if (status == RP_OK) tell(stage, f);
    stage->steps = NULL;
    return status;
}

rp_status rp__trainer_forecast(rp_trainer *t, rp_forecast *out)
{
    rp_stage stage;

    *out = (rp_forecast){ .feasible = true };
    rp__explain_open(&out->explain, t->ctx);
    out->explain.wants_events = true;
    rp_status status = rp__stage_open_like(t->ctx, t->recipe, rp__model_config(t->engine.model), &stage);
    if (status == RP_OK) status = show(t, &stage, out);
    if (status != RP_OK) rp__forecast_close(out);
    rp__stage_close(&stage);
    return status;
}

void rp__forecast_close(rp_forecast *f)
{
    rp__explain_close(&f->explain);
    *f = (rp_forecast){ 0 };
}
