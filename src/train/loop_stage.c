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
    return status == RP_OK ? RP_OK : rp_fail(stage->caller, status, "%s", stage->ctx->error);
}

/* What the program told the caller's context about fates and offloading holds for the rehearsal, too. */
static rp_status share(rp_stage *stage)
{
    RP_TRY(rp__policy_share(stage->ctx, stage->caller));
    if (!stage->caller->away) return RP_OK;
    rp_offload_options options = rp__away_options(stage->caller->away);
    return rp_set_offload(stage->ctx, &options);
}

/* The ranks of the caller; one that only asks takes the part of the first of the recipe's. */
static rp_status pretend(rp_stage *stage)
{
    const rp_recipe *r = stage->recipe;
    int asked          = r->dist.ranks.set ? (int)r->dist.ranks.value : 1;
    bool run           = stage->caller->comm != NULL;

    RP_TRY(rp__ranks_pretend(stage->ctx, rp__comm_rank(stage->caller->comm), run ? rp__comm_ranks(stage->caller->comm) : asked, r->dist.replicate_dim));
    return rp__ranks_stay(stage->ctx, rp__recipe_stay(r));
}

static rp_status build(rp_stage *stage)
{
    rp_model_config config = rp__config_share(&stage->source.config);
    rp_status status       = stage->explain ? rp__explain_watch_ctx(stage->explain, stage->ctx) : RP_OK;

    if (status == RP_OK) status = pretend(stage);
    if (status == RP_OK) status = share(stage);
    if (status == RP_OK) status = rp__engine_open(&stage->engine, stage->ctx, stage->recipe, &config);
    rp__model_config_drop(&config);
    for (int i = 0; status == RP_OK && i < rp__model_n_params(stage->engine.model); i++)
        stage->n_params += rp_meta_elems(&rp__model_param(stage->engine.model, i)->whole);
    return status;
}

static rp_status open_ctx(rp_stage *stage)
{
    rp_ctx *caller         = stage->caller;
    rp_ctx_options options = {
        .threads = caller->threads, .shapes_only = true, .seed = caller->seed, .device = caller->options.device,
    };
    rp_status status = rp_ctx_new(&options, &stage->ctx);

    RP_CHECK(caller, status == RP_OK, status, "cannot open a context for the rehearsal: %s", rp_status_text(status));
    return rp__stage_run(stage, build);
}

static void close_ctx(rp_stage *stage)
{
    rp__engine_close(&stage->engine);
    if (stage->ctx) rp_set_policy(stage->ctx, NULL);
    if (stage->ctx) rp__ranks_leave(stage->ctx);
    rp_ctx_free(stage->ctx);
    stage->ctx = NULL;
}

rp_status rp__stage_open(rp_ctx *caller, const rp_recipe *recipe, rp_report *report, rp_stage *stage)
{
    *stage = (rp_stage){ .caller = caller, .recipe = recipe };
    RP_TRY(rp__source_open(caller, recipe, report, &stage->source));
    return open_ctx(stage);
}

rp_status rp__stage_open_like(rp_ctx *caller, const rp_recipe *recipe, const rp_model_config *config, rp_stage *stage)
{
    *stage = (rp_stage){ .caller = caller, .recipe = recipe, .source.config = rp__config_share(config) };
    return open_ctx(stage);
}

rp_status rp__stage_renew(rp_stage *stage, rp_explain *explain)
{
    close_ctx(stage);
    stage->explain       = explain;
    stage->n_params      = 0;
    stage->own_keeps_all = false;
    return open_ctx(stage);
}

rp_status rp__stage_renew_open(rp_stage *stage, rp_explain *explain)
{
    stage->open                                       = *stage->recipe;
    stage->open.activation_checkpointing.mode         = RP_MODE_AUTO;
    stage->open.activation_checkpointing.n_conditions = 0;
    stage->recipe                                     = &stage->open;
    return rp__stage_renew(stage, explain);
}

void rp__stage_close(rp_stage *stage)
{
    close_ctx(stage);
    rp__step_plan_free(stage->steps);
    rp__step_plan_free(stage->least);
    rp__cost_table_free(stage->costs);
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
        out[n++] = (rp_recipe_module){ m->path, m->type->name, m };
        for (int i = 0; i < m->n_params; i++)
            if (!m->param[i].owner) out[n++] = (rp_recipe_module){ m->param[i].path, NULL, m };
    }
    return n;
}

/* Names may all be there and the whole hold for no module. */
static void check_conditions(const rp_recipe *recipe, rp_module *root, rp_report *report)
{
    for (int i = 0; i < recipe->activation_checkpointing.n_conditions; i++) {
        rp_condition *c = recipe->activation_checkpointing.condition[i];
        if (rp__condition_is_open(c) && !rp__module_matches(root, rp_condition_holds, c))
            rp__report_error(report, c->place, "this condition holds for no module that is computed%s",
                             c->kind == RP_CONDITION_PATH ? " (of a list, name the members: 'layers.*')" : "");
    }
}

/* Every k-th of fewer than k is no block: that may be meant, of a recipe for deeper models. */
static void note_every(const rp_recipe *recipe, rp_module *root, rp_report *report)
{
    int64_t every = recipe->activation_checkpointing.every, offset = recipe->activation_checkpointing.offset;
    const char *layers  = recipe->activation_checkpointing.layers;
    rp_condition blocks = { .kind = RP_CONDITION_EVERY_K_LAYERS, .k = every, .offset = offset, .layers = layers };

    if (recipe->activation_checkpointing.mode == RP_MODE_SELECTIVE_LAYER && !rp__module_matches(root, rp_condition_holds, &blocks))
        rp__report_note(report, rp__recipe_place(recipe, "activation_checkpointing.every"),
                        "no block of '%s' is one of every %" PRId64 " with offset %" PRId64 ", so none is computed again", layers, every, offset);
}

/* Names may all be there and be of modules that cannot be units. */
static rp_status check_units(rp_stage *stage, rp_module *root, rp_report *report)
{
    const rp_recipe *r  = stage->recipe;
    rp_unit_rules rules = rp__recipe_unit_rules(r);
    rp_units units;

    if (!rules.n_custom && !rules.n_wrap) return RP_OK;
    rp_status status = rp__units_open(stage->caller, root, &rules, &units);
    const char *key  = units.failed ? units.failed : "dist.custom_sharded_layers";
    rp__units_close(&units);
    if (status != RP_ERR_MATCH) return status;
    rp__report_error(report, rp__recipe_place(r, key), "%s", stage->caller->error);
    return RP_OK;
}

rp_status rp__stage_check_names(rp_stage *stage, rp_report *report)
{
    rp_module *root           = rp__model_root(stage->engine.model);
    rp_recipe_module *modules = rp__host_alloc(stage->caller, count_names(root) * (int64_t)sizeof *modules);
    const char **ops = modules ? rp__host_alloc(stage->caller, (rp__op_count() + 1) * (int64_t)sizeof *ops) : NULL;

    if (stage->recipe->plan && !rp__file_exists(stage->recipe->plan))
        rp__report_error(report, rp__recipe_place(stage->recipe, "plan"), "cannot open '%s': there is no such file", stage->recipe->plan);
    for (int i = 0; ops && i < rp__op_count(); i++) ops[i] = rp__op_at(i)->name;
    if (ops) rp__recipe_check_model(stage->recipe, list_names(root, modules), modules, ops, report);
    if (ops && !report->n_errors) check_conditions(stage->recipe, root, report);
    if (ops && !report->n_errors) note_every(stage->recipe, root, report);
    rp_status status = ops ? RP_OK : RP_ERR_MEMORY;
    if (ops && !report->n_errors) status = check_units(stage, root, report);
    rp__release(ops);
    rp__release(modules);
    return status;
}

/* ---- the rehearsal ---- */

static rp_status plan(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    stage->engine.micro = stage->micro;
    return rp__stage_plan(stage, stage->budget, &stage->steps, &stage->own_bytes);
}

static rp_status plan_least(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    return rp__stage_least(stage, &stage->steps);
}

/* The run begins with nothing live: so does what tells what it will take. */
static rp_status follow(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    stage->engine.micro = stage->micro;
    return rp__stage_follow(stage, stage->steps);
}

/* What a recipe may say of weights, gradients and states so that they take less, as "'a', 'b' or 'c'". */
static const char *smaller_states(const rp_recipe *r, char out[160])
{
    const char *way[4];
    size_t used = 0;
    int n       = 0;
    bool states = r->optimizer.name == RP_OPTIMIZER_ADAMW || r->optimizer.momentum > 0;

    if (r->optimizer_in_bwd == RP_NO && !r->clip_grad_norm.set && r->gradient_accumulation_steps == 1) way[n++] = "'optimizer_in_bwd'";
    if (states && r->optimizer.state_dtype == RP_STATE_FP32) way[n++] = "'optimizer.state_dtype: bf16'";
    if (states && !r->dist.state_offload) way[n++] = "'dist.state_offload'";
    if (!r->lora.rank.set && !r->model.adapter) way[n++] = "'lora.rank'";
    for (int i = 0; i < n; i++)
        used += (size_t)snprintf(out + used, 160 - used, "%s%s", !i ? ", or take " : i + 1 == n ? " or " : ", ", way[i]);
    out[used] = 0;
    return out;
}

/* The least process that has room for the least plan beside what it takes itself, its page tables included. */
static int64_t least_limit(const rp_stage *stage)
{
    int64_t without_pages = stage->steps->placement.height + rp__allowance_bytes(&stage->allowance) - stage->allowance.pages;

    return without_pages + (without_pages - 1) / (RP_PAGES_PART - 1);
}

typedef struct { char asked[2 * RP_SIZE_CHARS + 64], raise[RP_SIZE_CHARS + 64]; } bound_words;

/* Which key bounds the arena, and to what it is to be raised. */
static void word_bound(const rp_stage *stage, bound_words *w)
{
    char budget[RP_SIZE_CHARS], of[RP_SIZE_CHARS];
    int64_t left = stage->limit - rp__allowance_bytes(&stage->allowance);

    rp__size_text(budget, stage->budget);
    snprintf(w->asked, sizeof w->asked, "%s", budget);
    snprintf(w->raise, sizeof w->raise, "'memory_budget'");
    if (!stage->limit || (left > stage->budget && stage->budget > 1)) return;
    snprintf(w->asked, sizeof w->asked, "%s, which 'memory_limit' of %s leaves it", budget, rp__size_text(of, stage->limit));
    snprintf(w->raise, sizeof w->raise, "'memory_limit' to %" PRId64, least_limit(stage));
}

/* The least budget, and what sets it: an op, or what stands before the step. */
static rp_status refuse(rp_stage *stage, bool chosen)
{
    char own[RP_SIZE_CHARS], size[RP_SIZE_CHARS], least[RP_SIZE_CHARS + 16];
    bool fits = stage->steps->placement.height <= stage->budget;
    const rp_explain *e = stage->explain;
    int64_t stands      = e->peak_at[RP_MEM_PARAM] + e->peak_at[RP_MEM_GRAD] + e->peak_at[RP_MEM_OPTIM];
    char ways[160];
    bound_words w;

    word_bound(stage, &w);
    snprintf(least, sizeof least, "%s%s", stage->steps->at_most ? "at most " : "", rp__size_text(size, stage->steps->placement.height));
    if (stage->recipe->plan)
        return rp_fail(stage->caller, RP_ERR_BUDGET, "plan '%s' takes %s, more than the memory budget of %s; the least that a plan fits is %s: make the "
                       "plan again with 'reprise plan', or raise %s", stage->recipe->plan, rp__size_text(own, stage->own_bytes), w.asked, least, w.raise);
    if (!chosen && fits)
        return rp_fail(stage->caller, RP_ERR_BUDGET, "the step as the recipe has it takes %s, more than the memory budget of %s; planned, it fits %s: "
                       "take 'activation_checkpointing.mode: auto', or raise %s", rp__size_text(own, stage->own_bytes), w.asked, least, w.raise);
    if (stands > stage->budget)
        return rp_fail(stage->caller, RP_ERR_BUDGET, "no plan fits a memory budget of %s; the least that one fits is %s, %s of it for weights, "
                       "gradients and optimizer states: raise %s%s%s", w.asked, least, rp__size_text(own, stands), w.raise,
                       stage->recipe->dist.ranks.set && stage->recipe->dist.ranks.value > 1 ? " or 'dist.ranks'" : "", smaller_states(stage->recipe, ways));
    return rp_fail(stage->caller, RP_ERR_BUDGET, "no plan fits a memory budget of %s; the least that one fits is %s, for the %s of %s%s%s: raise "
                   "%s, or lower 'batch_size' or 'max_seq_len'", w.asked, least, e->peak_event, e->peak_path, *e->peak_path ? " " : "",
                   e->peak_op, w.raise);
}

rp_status rp__stage_show(rp_stage *stage)
{
    RP_TRY(rp__engine_ready(&stage->engine));
    RP_TRY(rp__stage_follow(stage, stage->steps));
    return rp__stage_watch(stage);
}

/* Nothing fits: what would. Who explains is told of that. */
static rp_status tell_least(rp_stage *stage, rp_explain *explain)
{
    rp_explain own = { 0 };
    bool mine      = !explain;

    bool chosen = rp__recipe_leaves_open(stage->recipe);
    RP_TRY(rp__stage_renew_open(stage, NULL));
    RP_TRY(rp__stage_run(stage, plan_least));
    if (stage->wants_remedies) RP_TRY(rp__stage_find_remedies(stage, !chosen, stage->remedy, &stage->n_remedies));
    if (mine) rp__explain_open(explain = &own, stage->caller);
    rp_status status = rp__stage_renew(stage, explain);
    if (status == RP_OK) status = rp__stage_run(stage, rp__stage_show);
    if (status == RP_OK) status = refuse(stage, chosen);
    if (mine) rp__explain_close(&own);
    return status;
}

void rp__stage_bound(rp_stage *stage)
{
    const rp_recipe *r = stage->recipe;

    stage->budget    = r->memory_budget.kind != RP_BUDGET_NONE ? stage->caller->options.memory_limit_bytes : 0;
    stage->limit     = rp__process_limit(stage->caller, r);
    stage->allowance = rp__allowance(rp__model_config(stage->engine.model), stage->ctx->threads, rp__comm_ranks(stage->ctx->comm), stage->limit);
    int64_t left     = stage->limit - rp__allowance_bytes(&stage->allowance);
    if (stage->limit && left < 1) left = 1;
    if (stage->limit && (!stage->budget || left < stage->budget)) stage->budget = left;
}

rp_status rp__stage_settle(rp_stage *stage, int64_t val_rows, rp_explain *explain)
{
    stage->val_rows = val_rows;
    rp__stage_bound(stage);
    RP_TRY(rp__stage_run(stage, plan));
    if (!stage->steps) return RP_OK;
    RP_TRY(rp__stage_renew(stage, explain));
    return rp__stage_run(stage, follow);
}

static bool calls(void *user, const char *op) { return rp__policy_has_seen(((rp_stage *)user)->ctx, op); }

rp_status rp__stage_rehearse(rp_stage *stage, int64_t val_rows, rp_explain *explain, rp_report *report)
{
    RP_TRY(rp__stage_settle(stage, val_rows, explain));
    if (!stage->steps) return tell_least(stage, explain);
    rp__recipe_note_idle(stage->recipe, calls, stage, stage->engine.selection.policy, report);
    if (rp__comm_ranks(stage->ctx->comm) == 1) rp__recipe_note_alone(stage->recipe, report);
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
    rp_status status = rp__stage_open(ctx, recipe, report, stage);

    if (status == RP_OK) status = rp__stage_check_names(stage, report);
    if (status == RP_OK && report->n_errors == 0) status = rp__stage_rehearse(stage, 0, explain, report);
    return status == RP_OK && report->n_errors > told ? rp__report_status(report, RP_ERR_CONFIG) : status;
}

rp_status rp__recipe_try(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_recipe_words *words)
{
    rp_stage stage;
    rp_status status = rp__stage_try(ctx, recipe, NULL, report, &stage);

    *words = (rp_recipe_words){ "", "" };
    if (status == RP_OK && report->n_errors == 0) {
        rp__regions_text(rp__model_root(stage.engine.model), rp__engine_n_rules(&stage.engine), words->regions);
        if (stage.engine.gather) rp__units_text(&stage.engine.units, words->units);
    }
    rp__stage_close(&stage);
    return status;
}
