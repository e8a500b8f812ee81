/* train/loop_stage.c -- the stage: a second context that has shapes alone, where the step is rehearsed and the names of a recipe are
 * held against its model. */
#include "base/file.h"
#include "tape/away.h"
#include "train/loop_inside.h"

/* ---- opening ---- */

rp_status rp__stage_run(rp_stage *stage, rp_status (*run)(rp_stage *stage))
{
    stage->ctx->fault_countdown   = stage->caller->fault_countdown;
    rp_status status              = run(stage);
    stage->caller->fault_countdown = stage->ctx->fault_countdown;
    return status == RP_OK ? RP_OK : rp__fail(stage->caller, status, "%s", stage->ctx->error);
}

/* What the program told the caller's context about fates and offloading holds for the rehearsal, too. */
static rp_status share(rp_stage *stage)
{
    RP_TRY(rp__policy_share(stage->ctx, stage->caller));
    if (!stage->caller->away) return RP_OK;
    rp_offload_options options = rp__away_options(stage->caller->away);
    return rp_set_offload(stage->ctx, &options);
}

static rp_status build(rp_stage *stage)
{
    rp_model_config config = rp__config_share(&stage->source.config);
    rp_status status       = stage->explain ? rp__explain_watch_ctx(stage->explain, stage->ctx) : RP_OK;

    if (status == RP_OK) status = share(stage);
    if (status == RP_OK) status = rp__engine_open(&stage->engine, stage->ctx, stage->recipe, &config);
    rp__model_config_drop(&config);
    for (int i = 0; status == RP_OK && i < rp__model_n_params(stage->engine.model); i++)
        stage->n_params += rp_meta_elems(&rp__model_param(stage->engine.model, i)->tensor->m);
    return status;
}

rp_status rp__stage_open(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_stage *stage)
{
    rp_ctx_options options = {
        .threads = caller->threads, .shapes_only = true, .seed = caller->seed, .device = caller->options.device,
    };

    *stage = (rp_stage){ .caller = caller, .recipe = recipe, .explain = explain };
    RP_TRY(rp__source_open(caller, recipe, report, &stage->source));
    rp_status status = rp_ctx_new(&options, &stage->ctx);
    RP_CHECK(caller, status == RP_OK, status, "cannot open a context for the rehearsal: %s", rp_status_text(status));
    return rp__stage_run(stage, build);
}

void rp__stage_close(rp_stage *stage)
{
    rp__engine_close(&stage->engine);
    if (stage->ctx) rp_set_policy(stage->ctx, NULL);
    rp_ctx_free(stage->ctx);
    rp__source_close(&stage->source);
    *stage = (rp_stage){ 0 };
}

/* ---- names in the recipe ---- */

static int count_names(rp_module *root)
{
    int n = 0;

    for (rp_module *m = rp__module_next(root, root); m; m = rp__module_next(root, m)) n += 1 + m->n_params;
    return n;
}

static int list_names(rp_module *root, rp_recipe_module *out)
{
    int n = 0;

    for (rp_module *m = rp__module_next(root, root); m; m = rp__module_next(root, m)) {
        out[n++] = (rp_recipe_module){ m->path, m->type->name };
        for (int i = 0; i < m->n_params; i++)
            if (!m->param[i].shared) out[n++] = (rp_recipe_module){ m->param[i].path, NULL };
    }
    return n;
}

/* Names may all be there and the whole hold for no module. */
static void check_conditions(const rp_recipe *recipe, rp_module *root, rp_report *report)
{
    for (int i = 0; i < recipe->activation_checkpointing.n_conditions; i++) {
        rp_condition *c = recipe->activation_checkpointing.condition[i];
        if (!rp__module_matches(root, rp_condition_holds, c))
            rp__report_error(report, c->place, "this condition holds for no module that is computed%s",
                             c->kind == RP_CONDITION_PATH ? " (of a list, name the members: 'layers.*')" : "");
    }
}

rp_status rp__stage_check_names(rp_stage *stage, rp_report *report)
{
    rp_module *root           = rp__model_root(stage->engine.model);
    rp_recipe_module *modules = rp__host_alloc(stage->caller, count_names(root) * (int64_t)sizeof *modules);
    const char **ops = modules ? rp__host_alloc(stage->caller, (rp__op_count() + 1) * (int64_t)sizeof *ops) : NULL;

    for (int i = 0; ops && i < rp__op_count(); i++) ops[i] = rp__op_at(i)->name;
    if (ops) rp__recipe_check_model(stage->recipe, list_names(root, modules), modules, ops, report);
    if (ops && !report->n_errors) check_conditions(stage->recipe, root, report);
    rp_status status = ops ? RP_OK : RP_ERR_MEMORY;
    rp__release(ops);
    rp__release(modules);
    return status;
}

/* ---- the rehearsal ---- */

/* A first step meets an untouched pool, later ones the pool it left. Steps are repeated until one asks for nothing new: from
 * there on each is like the one before, and so is a run that starts with a pool of that size. */
static rp_status rehearse(rp_stage *stage)
{
    rp_rehearsal *found = &stage->found;
    rp_step_result step;
    int64_t before;
    double score;

    RP_TRY(rp__engine_ready(&stage->engine));
    do {
        before = found->memory.reserved_bytes;
        RP_TRY(rp__engine_step(&stage->engine, NULL, 0, 0, &step));
        *found = (rp_rehearsal){ step.memory, step.saved_bytes, step.work.step_flops, step.work.recompute_flops };
        if (stage->val_rows) RP_TRY(rp__engine_score(&stage->engine, NULL, stage->val_rows, &score));
        rp_mem_read(stage->ctx, 0, false, &step.memory);
        found->memory.reserved_bytes = step.memory.reserved_bytes;
    } while (found->memory.reserved_bytes > before);
    return RP_OK;
}

static bool calls(void *user, const char *op) { return rp__policy_has_seen(((rp_stage *)user)->ctx, op); }

rp_status rp__stage_rehearse(rp_stage *stage, int64_t val_rows, rp_report *report)
{
    stage->val_rows = val_rows;
    RP_TRY(rp__stage_run(stage, rehearse));
    rp__recipe_note_idle(stage->recipe, calls, stage, stage->engine.selection.policy, report);
    return RP_OK;
}

/* ---- for those who only ask ---- */

const char *rp__recipe_missing_file(const rp_recipe *recipe)
{
    const char *const files[] = { recipe->model.path, recipe->model.config, recipe->tokenizer.path };

    for (int i = 0; i < RP_COUNT(files); i++)
        if (files[i] && !rp__file_exists(files[i])) return files[i];
    return NULL;
}

rp_status rp__stage_try(rp_ctx *ctx, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_stage *stage)
{
    int told         = report->n_errors;
    rp_status status = rp__stage_open(ctx, recipe, explain, report, stage);

    if (status == RP_OK) status = rp__stage_check_names(stage, report);
    if (status == RP_OK && report->n_errors == 0) status = rp__stage_rehearse(stage, 0, report);
    return status == RP_OK && report->n_errors > told ? rp__report_status(report, RP_ERR_CONFIG) : status;
}

rp_status rp__recipe_try(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, char regions[RP_REGIONS_CHARS])
{
    rp_stage stage;
    rp_status status = rp__stage_try(ctx, recipe, NULL, report, &stage);

    if (status == RP_OK && report->n_errors == 0)
        rp__regions_text(rp__model_root(stage.engine.model), rp__engine_n_rules(&stage.engine), regions);
    rp__stage_close(&stage);
    return status;
}
