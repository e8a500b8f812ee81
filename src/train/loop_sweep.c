/* train/loop_sweep.c -- the curve of budgets, and the modes everybody knows as points beside it. */
#include "train/loop_inside.h"

static const struct { const char *name; int mode; int64_t every; } modes[] = {
    { "none", RP_MODE_NONE, 1 }, { "every 2nd layer", RP_MODE_SELECTIVE_LAYER, 2 }, { "selective_op", RP_MODE_SELECTIVE_OP, 1 }, { "full", RP_MODE_FULL, 1 },
};

static rp_sweep_point point_of(const rp_step_plan *s, const char *mode)
{
    return (rp_sweep_point){ .mode = mode, .budget = s->budget, .reserved = s->placement.height, .peak = s->found.memory.peak_bytes,
                             .saved = s->found.saved_bytes, .recompute_flops = s->found.recompute_flops, .seconds = s->seconds,
                             .again_seconds = s->again_seconds, .in_backward = s->in_backward };
}

static rp_status own(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    return rp__stage_own(stage, &stage->steps);
}

/* The recipe with another mode in place of its own. */
static rp_status add_mode(rp_stage *stage, int i, rp_sweep *out)
{
    const rp_recipe *mine = stage->recipe;

    stage->open                                       = *mine;
    stage->open.activation_checkpointing.mode         = modes[i].mode;
    stage->open.activation_checkpointing.every        = modes[i].every;
    stage->open.activation_checkpointing.offset       = 0;
    stage->open.activation_checkpointing.n_conditions = 0;
    stage->recipe                                     = &stage->open;
    rp_status status = rp__stage_renew(stage, NULL);
    if (status == RP_OK) status = rp__stage_run(stage, own);
    stage->recipe = mine;
    if (status != RP_OK) return status;
    out->point[out->n_points++] = point_of(stage->steps, modes[i].name);
    rp__step_plan_free(stage->steps);
    stage->steps = NULL;
    return RP_OK;
}

static rp_status curve(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    return rp__stage_curve(stage, stage->curve, stage->n_curve);
}

static rp_status add_curve(rp_stage *stage, rp_sweep *out)
{
    RP_TRY(rp__stage_renew_open(stage, NULL));
    rp_status status = rp__stage_run(stage, curve);
    for (int i = 0; i < stage->n_curve; i++) {
        if (status == RP_OK && stage->curve[i]) out->point[out->n_points++] = point_of(stage->curve[i], NULL);
        rp__step_plan_free(stage->curve[i]);
    }
    return status;
}

static rp_status sweep(rp_stage *stage, rp_report *report, rp_sweep *out)
{
    rp_status status = rp__stage_check_names(stage, report);

    if (status == RP_OK) status = rp__report_status(report, RP_ERR_CONFIG);
    for (int i = 0; i < RP_COUNT(modes) && status == RP_OK; i++) status = add_mode(stage, i, out);
    out->n_modes = out->n_points;
    if (status == RP_OK) status = add_curve(stage, out);
    if (status != RP_OK) return status;
    snprintf(out->machine, sizeof out->machine, "%s", rp__cost_machine(stage->costs));
    out->measured = rp__cost_measured(stage->costs);
    return RP_OK;
}

rp_status rp__recipe_sweep(rp_ctx *ctx, const rp_recipe *recipe, int n, const char *device, rp_report *report, rp_sweep *out)
{
    rp_stage stage;

    RP_CHECK(ctx, n >= 2, RP_ERR_ARG, "a sweep of %d points", n);
    *out                  = (rp_sweep){ .point = rp__host_alloc(ctx, (n + RP_COUNT(modes)) * (int64_t)sizeof *out->point) };
    rp_step_plan **steps  = rp__host_alloc(ctx, n * (int64_t)sizeof *steps);
    rp_status status      = out->point && steps ? rp__stage_open(ctx, recipe, report, &stage) : RP_ERR_MEMORY;
    if (!out->point || !steps) {
        rp__release(out->point);
        rp__release(steps);
        return RP_ERR_MEMORY;
    }
    stage.device  = device;
    stage.curve   = steps;
    stage.n_curve = n;
    if (status == RP_OK) status = sweep(&stage, report, out);
    rp__stage_close(&stage);
    rp__release(steps);
    if (status != RP_OK) {
        rp__release(out->point);
        *out = (rp_sweep){ 0 };
    }
    return status;
}
