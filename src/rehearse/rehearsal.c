/* rehearse/rehearsal.c -- opens, begins again and closes a second context of shapes with a recipe's model.
 *
 * It also checks the names in a recipe against that model.
 */
#include "base/file.h"
#include "base/report.h"
#include "comm/comm.h"
#include "cost/cost.h"
#include "nn/module.h"
#include "ops/call.h"
#include "plan/plan.h"
#include "policy/condition.h"
#include "rehearse/rehearsal.h"
#include "shard/ranks.h"
#include "tape/offload.h"
#include "tape/tape.h"

/* ---- errors ---- */

static void enter(rp_rehearsal *r)
{
    r->ctx->fault_countdown = r->caller->fault_countdown;
    r->ctx->fault_pieces    = r->caller->fault_pieces;
    r->ctx->fault_watch     = r->caller->fault_watch;
    r->n_errors             = r->caller->n_errors;
}

rp_status rp__rehearsal_end(rp_rehearsal *r, rp_status status)
{
    if (r->caller->fault_countdown) r->caller->fault_countdown = r->ctx->fault_countdown;
    if (status == RP_OK || r->caller->n_errors != r->n_errors) return status;       /* an explanation belongs to the caller, and its errors are there already */
    return rp_fail(r->caller, status, "%s", r->ctx->error);
}

/* ---- opening ---- */

/* Policies and the offload target of the caller's context also apply to the rehearsal. */
static rp_status share(rp_rehearsal *r)
{
    rp__policy_share(r->ctx, r->caller);
    if (!rp__tape_ctx(r->caller)->offload) return RP_OK;
    rp_offload_options options = rp__offload_options(rp__tape_ctx(r->caller)->offload);
    return rp_set_offload(r->ctx, &options);
}

/* Takes the ranks of the caller. A caller without ranks takes the part of rank 0 of the recipe's ranks. */
static rp_status pretend(rp_rehearsal *r)
{
    const rp_recipe *recipe = r->recipe;
    int asked               = recipe->dist.ranks.set ? (int)recipe->dist.ranks.value : 1;
    rp_comm *run            = rp__world(r->caller);

    rp__ranks_slice(r->ctx, rp__recipe_slice_elems(recipe));
    RP_TRY(rp__ranks_pretend(r->ctx, rp__comm_rank(run), run ? rp__comm_ranks(run) : asked, recipe->dist.replicate_dim));
    return rp__ranks_stay(r->ctx, rp__recipe_stay(recipe));
}

static rp_status rehearsal_build(rp_rehearsal *r)
{
    rp_model_config config = rp__config_share(&r->source.config);
    rp_status status       = rp__explain_watch_ctx(r->explain, r->ctx);

    if (status == RP_OK) status = pretend(r);
    if (status == RP_OK) status = share(r);
    if (status == RP_OK) status = rp__engine_open(&r->engine, r->ctx, r->recipe, &config);
    if (status == RP_OK) status = rp__explain_pause(r->explain);
    rp__model_config_drop(&config);
    r->n_params = 0;
    for (int i = 0; status == RP_OK && i < rp__model_n_params(r->engine.model); i++)
        r->n_params += rp_meta_elems(&rp__model_param(r->engine.model, i)->whole);
    return status;
}

static rp_status open_ctx(rp_rehearsal *r)
{
    rp_ctx *caller         = r->caller;
    rp_ctx_options options = {
        .threads = caller->threads, .shapes_only = true, .seed = caller->seed, .device = caller->options.device,
    };
    rp_status status = rp_ctx_new(&options, &r->ctx);

    RP_CHECK(caller, status == RP_OK, status, "cannot open a context for the rehearsal: %s", *rp_error(NULL) ? rp_error(NULL) : rp_status_text(status));
    enter(r);
    return rp__rehearsal_end(r, rehearsal_build(r));
}

static void close_ctx(rp_rehearsal *r)
{
    rp__rehearsal_forget(r);
    rp__explain_close(&r->own_explain);
    rp__engine_close(&r->engine);
    if (r->ctx) rp_set_policy(r->ctx, NULL);
    if (r->ctx) rp__ranks_leave(r->ctx);
    rp_ctx_free(r->ctx);
    r->ctx = NULL;
}

static void open_explain(rp_rehearsal *r, rp_explain *explain)
{
    rp__explain_open(&r->own_explain, r->caller);
    r->explain = explain ? explain : &r->own_explain;
}

rp_status rp__rehearsal_open(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_rehearsal *r)
{
    *r = (rp_rehearsal){ .caller = caller, .recipe = recipe };
    open_explain(r, explain);
    RP_TRY(rp__source_open(caller, recipe, report, &r->source));
    return open_ctx(r);
}

rp_status rp__rehearsal_open_like(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, const rp_model_config *config, rp_rehearsal *r)
{
    *r = (rp_rehearsal){ .caller = caller, .recipe = recipe, .source.config = rp__config_share(config) };
    open_explain(r, explain);
    return open_ctx(r);
}

void rp__rehearsal_close(rp_rehearsal *r)
{
    close_ctx(r);
    rp__plan_free(r->steps);
    rp__plan_free(r->least);
    rp__cost_table_free(r->costs);
    rp__source_close(&r->source);
    *r = (rp_rehearsal){ 0 };
}

/* ---- begin, and begin again ---- */

static rp_status make_states(rp_rehearsal *r)
{
    rp_engine *e = &r->engine;

    rp__explain_resume(r->explain);
    rp_status status = e->optim ? rp__engine_states(e) : rp__engine_ready(e);
    rp_status noted  = rp__explain_pause(r->explain);
    return status == RP_OK ? noted : status;
}

static rp_status open_costs(rp_rehearsal *r)
{
    int ranks = rp__comm_ranks(rp__world(r->ctx));

    if (r->costs) return RP_OK;
    if (!r->device) return rp__cost_table_open(r->ctx, &r->costs);
    RP_TRY(rp__cost_table_device(r->ctx, r->device, &r->costs));
    RP_CHECK(r->ctx, ranks == 1 || rp__cost_link(r->costs) > 0, RP_ERR_CONFIG,
             "device '%s': link is missing: set the bytes per second that each of %d ranks sends, such as link=25GB/s", r->device, ranks);
    return RP_OK;
}

rp_status rp__rehearsal_ready(rp_rehearsal *r)
{
    enter(r);
    r->engine.micro  = r->micro;
    rp_status status = r->engine.optim ? RP_OK : make_states(r);
    if (status == RP_OK) status = open_costs(r);
    return status == RP_OK ? RP_OK : rp__rehearsal_end(r, status);
}

static rp_status rehearsal_choose(rp_rehearsal *r, bool states)
{
    RP_TRY(rp__engine_choose(&r->engine, r->recipe));
    return states && r->engine.optim ? make_states(r) : RP_OK;
}

rp_status rp__rehearsal_begin(rp_rehearsal *r, const rp_recipe *recipe, rp_anew anew)
{
    r->changed       = *recipe;
    r->recipe        = &r->changed;
    r->own_keeps_all = false;
    if (anew == RP_ANEW_MODEL) {
        close_ctx(r);
        open_explain(r, NULL);
        return open_ctx(r);
    }
    rp__rehearsal_forget(r);
    enter(r);
    return rp__rehearsal_end(r, rehearsal_choose(r, anew == RP_ANEW_STATES));
}

rp_status rp__rehearsal_begin_open(rp_rehearsal *r)
{
    rp_recipe open = *r->recipe;

    open.activation_checkpointing.mode         = RP_MODE_AUTO;
    open.activation_checkpointing.n_conditions = 0;
    return rp__rehearsal_begin(r, &open, RP_ANEW_FATES);
}

void rp__rehearsal_bound(rp_rehearsal *r)
{
    const rp_recipe *recipe = r->recipe;

    r->budget    = recipe->memory_budget.kind != RP_BUDGET_NONE ? r->caller->options.memory_limit_bytes : 0;
    r->limit     = rp__process_limit(r->caller, recipe);
    r->allowance = rp__allowance(r->engine.model, r->ctx->threads, rp__comm_ranks(rp__world(r->ctx)), r->limit);
    if (recipe->memory_budget.kind == RP_BUDGET_AUTO) r->budget = r->budget > r->allowance.mapped ? r->budget - r->allowance.mapped : 1;
    int64_t left = r->limit - rp__allowance_bytes(&r->allowance);
    if (r->limit && left < 1) left = 1;
    if (r->limit && (!r->budget || left < r->budget)) r->budget = left;
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

/* All names of a condition may exist, and the condition may still hold for no module. */
static void check_conditions(const rp_recipe *recipe, rp_module *root, rp_report *report)
{
    for (int i = 0; i < recipe->activation_checkpointing.n_conditions; i++) {
        rp_condition *c = recipe->activation_checkpointing.condition[i];
        if (rp__condition_is_open(c) && !rp__module_matches(root, rp_condition_holds, c))
            rp__report_error(report, c->place, "this condition matches no module that runs%s",
                             c->kind == RP_CONDITION_PATH ? " (a list does not run: name its members, 'layers.*')" : "");
    }
}

/* If the model has fewer than k blocks, "every k-th" selects none. That may be intended for deeper models, so it is a note. */
static void note_every(const rp_recipe *recipe, rp_module *root, rp_report *report)
{
    int64_t every = recipe->activation_checkpointing.every, offset = recipe->activation_checkpointing.offset;
    const char *layers  = recipe->activation_checkpointing.layers;
    rp_condition blocks = { .kind = RP_CONDITION_EVERY_K_LAYERS, .k = every, .offset = offset, .layers = layers };

    if (recipe->activation_checkpointing.mode == RP_MODE_SELECTIVE_LAYER && !rp__module_matches(root, rp_condition_holds, &blocks))
        rp__report_note(report, rp__recipe_place(recipe, "activation_checkpointing.every"),
                        "no block of '%s' is selected by every %" PRId64 " with offset %" PRId64 ", so no block is recomputed", layers, every, offset);
}

/* Names may exist but belong to modules that cannot be units. */
static rp_status check_units(rp_rehearsal *r, rp_module *root, rp_report *report)
{
    rp_unit_rules rules = rp__recipe_unit_rules(r->recipe);
    rp_units units;

    if (!rules.n_custom && !rules.n_wrap) return RP_OK;
    rp_status status = rp__units_open(r->caller, root, &rules, &units);
    const char *key  = units.failed ? units.failed : "dist.custom_sharded_layers";
    rp__units_close(&units);
    if (status != RP_ERR_MATCH) return status;
    rp__report_error(report, rp__recipe_place(r->recipe, key), "%s", r->caller->error);
    return RP_OK;
}

rp_status rp__rehearsal_check_names(rp_rehearsal *r, rp_report *report)
{
    rp_module *root           = rp__model_root(r->engine.model);
    rp_recipe_module *modules = rp__host_alloc(r->caller, count_names(root) * (int64_t)sizeof *modules);
    const char **ops = modules ? rp__host_alloc(r->caller, (rp__op_count() + 1) * (int64_t)sizeof *ops) : NULL;

    if (r->recipe->plan && !rp__file_exists(r->recipe->plan))
        rp__report_error(report, rp__recipe_place(r->recipe, "plan"), "cannot open '%s': there is no such file", r->recipe->plan);
    for (int i = 0; ops && i < rp__op_count(); i++) ops[i] = rp__op_at(i)->name;
    if (ops) rp__recipe_check_model(r->recipe, list_names(root, modules), modules, ops, report);
    if (ops && !report->n_errors) check_conditions(r->recipe, root, report);
    if (ops && !report->n_errors) note_every(r->recipe, root, report);
    rp_status status = ops ? RP_OK : RP_ERR_MEMORY;
    if (ops && !report->n_errors) status = check_units(r, root, report);
    RP_RELEASE(ops, modules);
    return status;
}
