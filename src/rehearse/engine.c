/* rehearse/engine.c -- opens and closes the parts of a step: model, regions, units and optimizer, for data and for shapes. */
#include "base/file.h"
#include "comm/comm.h"
#include "models/adapter.h"
#include "ops/prefetch.h"
#include "ops/reduce_async.h"
#include "policy/modes.h"
#include "rehearse/engine.h"
#include "tape/tape.h"

/* A rehearsal creates no folder. */
static rp_status make_folder(const rp_engine *e)
{
    return e->ctx->options.shapes_only ? RP_OK : rp__make_dirs(e->ctx, e->recipe->activation_checkpointing.offload.path);
}

/* A target that the program has set overrides the recipe's. */
static rp_status open_offload(rp_engine *e)
{
    if (rp__tape_ctx(e->ctx)->offload) return RP_OK;
    const char *folder        = e->recipe->activation_checkpointing.offload.path;
    bool memory               = e->recipe->activation_checkpointing.offload.to == RP_OFFLOAD_MEMORY;
    rp_offload_options options = { .folder = memory ? NULL : folder, .device = memory ? "cpu" : NULL };

    if (!memory) RP_TRY(make_folder(e));
    RP_TRY(rp_set_offload(e->ctx, &options));
    e->offloads = true;
    return RP_OK;
}

void rp__engine_regions(rp_engine *e)
{
    rp_module *root = rp__model_root(e->model);

    rp_module_checkpoint(root, NULL, NULL);
    for (int i = 0; i < e->selection.n_conditions; i++) rp_module_checkpoint(root, rp_condition_holds, e->selection.condition[i]);
}

rp_unit_rules rp__recipe_unit_rules(const rp_recipe *r)
{
    return (rp_unit_rules){ .n_custom = r->dist.custom_sharded_layers.n, .custom = r->dist.custom_sharded_layers.item,
                            .n_wrap = r->dist.modules_to_wrap.n, .wrap = r->dist.modules_to_wrap.item,
                            .layers = r->activation_checkpointing.layers };
}

/* A name that matches nothing is reported with all other errors of the recipe. So on shapes, which run before the real step, units are
 * opened without such rules. */
static rp_status find_units(rp_engine *e)
{
    rp_module *root     = rp__model_root(e->model);
    rp_unit_rules rules = rp__recipe_unit_rules(e->recipe), none = { .layers = rules.layers };
    rp_status status    = rp__units_open(e->ctx, root, &rules, &e->units);

    if (status != RP_ERR_MATCH || !e->ctx->options.shapes_only) return status;
    rp__units_close(&e->units);
    return rp__units_open(e->ctx, root, &none, &e->units);
}

static rp_status open_gather(rp_engine *e)
{
    const rp_recipe *r = e->recipe;
    bool planned       = rp__recipe_is_bounded(r) || r->activation_checkpointing.mode == RP_MODE_AUTO;

    return rp__gather_new(e->ctx, &e->units, r->dist.reshard_after_forward.kind != RP_RESHARD_NO, planned, &e->gather);
}

rp_status rp__engine_choose(rp_engine *e, const rp_recipe *recipe)
{
    rp__replays_free(e);
    e->recipe  = recipe;
    e->variant = rp__recipe_variant(recipe);
    rp__selection_close(&e->selection);
    rp__gather_free(e->gather);
    e->gather = NULL;
    if (rp__shards(e->ctx)) RP_TRY(open_gather(e));
    RP_TRY(rp__recipe_selection(recipe, e->ctx, &e->selection));
    rp__engine_regions(e);
    rp__tape_ctx(e->ctx)->verify = (rp_tape_verify)recipe->activation_checkpointing.verify;
    return RP_OK;
}

rp_status rp__engine_open(rp_engine *e, rp_ctx *ctx, const rp_recipe *recipe, rp_model_config *config)
{
    *e = (rp_engine){ .ctx = ctx, .recipe = recipe };
    rp__tape_ctx(ctx)->wide_grads = recipe->grad_dtype == RP_GRAD_FP32;
    RP_TRY(rp__model_build(ctx, config, recipe->dtype == RP_TRAIN_BF16 ? RP_BF16 : RP_F32, &e->model));
    if (recipe->freeze.n) RP_TRY(rp__model_freeze(e->model, recipe->freeze.n, recipe->freeze.item));
    rp__tape_ctx(ctx)->records_frozen = rp__model_is_frozen(e->model);
    if (rp__shards(ctx)) RP_TRY(find_units(e));
    RP_TRY(rp__engine_choose(e, recipe));
    return rp__recipe_offloads(recipe) ? open_offload(e) : RP_OK;
}

/* The buffer has room for `dist.prefetch` of the largest blocks. Larger units, such as an embedding, are not prefetched. */
static rp_status open_prefetch(rp_engine *e)
{
    int64_t most = 0, layer;

    for (int u = 0; u < e->units.n_units; u++) {
        const rp_unit *unit = &e->units.unit[u];
        int64_t bytes       = unit->whole_bytes + unit->n_params * rp__mem_rounded(e->ctx, 1);
        if (rp_path_layer(unit->path, &layer) && bytes > most) most = bytes;
    }
    return most && e->recipe->dist.prefetch ? rp__prefetch_open(e->ctx, e->recipe->dist.prefetch * most) : RP_OK;
}

/* The same for sums of gradients. Frozen parameters have none. */
static rp_status open_reduce_async(rp_engine *e)
{
    int64_t most = 0, layer;

    for (int u = 0; u < e->units.n_units; u++) {
        const rp_unit *unit = &e->units.unit[u];
        int64_t bytes       = 0;
        for (int i = 0; i < unit->n_params && rp_path_layer(unit->path, &layer); i++) {
            const rp_meta *whole = &unit->param[i]->whole;
            if (!unit->param[i]->tensor->requires_grad) continue;
            bool wide            = e->recipe->grad_dtype == RP_GRAD_FP32;
            bytes += rp__reduce_async_room(e->ctx, rp__shards(e->ctx), rp_meta_elems(whole), wide ? (int64_t)sizeof(float) : rp_dtype_bytes(whole->dtype));
        }
        if (bytes > most) most = bytes;
    }
    return most && e->recipe->dist.reduce_behind ? rp__reduce_async_open(e->ctx, e->recipe->dist.reduce_behind * most) : RP_OK;
}

rp_status rp__engine_states(rp_engine *e)
{
    static const char *const names[] = { [RP_OPTIMIZER_ADAMW] = "adamw", [RP_OPTIMIZER_SGD] = "sgd" };
    const rp_recipe *r     = e->recipe;
    rp_optim_config config = {
        .name = names[r->optimizer.name], .beta1 = r->optimizer.betas[0], .beta2 = r->optimizer.betas[1],
        .eps = r->optimizer.eps, .momentum = r->optimizer.momentum, .weight_decay = r->optimizer.weight_decay,
        .no_decay = r->optimizer.no_decay.item, .n_no_decay = r->optimizer.no_decay.n, .model = rp__model_root(e->model),
        .state_dtype = rp__recipe_states(r),
        .master_weights = r->optimizer.master_weights, .stochastic = r->optimizer.rounding == RP_ROUND_STOCHASTIC,
        .offload = r->dist.state_offload ? r->activation_checkpointing.offload.path : NULL,
    };
    int n                  = rp__model_n_params(e->model);

    rp__replays_free(e);
    rp__optim_free(e->optim);
    e->optim = NULL;
    if (config.offload) RP_TRY(make_folder(e));
    rp_optim_param *params = rp__host_alloc(e->ctx, n * (int64_t)sizeof *params);
    if (!params) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) {
        const rp_param *p = rp__model_param(e->model, i);
        params[i]         = (rp_optim_param){ p->path, p->tensor, p->slice, .frozen = !p->tensor->requires_grad };
    }
    rp_status status = rp__optim_new(e->ctx, &config, params, n, &e->optim);
    rp__release(params);
    return status;
}

rp_status rp__engine_ready(rp_engine *e)
{
    RP_TRY(rp__model_reserve_length(e->model, e->recipe->max_seq_len));
    if (rp__comm_ranks(rp__shards(e->ctx)) > 1) {
        RP_TRY(open_prefetch(e));
        RP_TRY(open_reduce_async(e));
    }
    return rp__engine_states(e);
}

void rp__engine_close(rp_engine *e)
{
    if (e->ctx) {
        rp__tape_reset(e->ctx);             /* while the objects it refers to still exist */
        rp__tape_ctx(e->ctx)->wide_grads = rp__tape_ctx(e->ctx)->records_frozen = false;
        rp__tape_ctx(e->ctx)->verify     = RP_TAPE_VERIFY_NEVER;
    }
    if (e->ctx) rp__engine_drop(e);
    if (e->ctx) rp__replays_free(e);
    if (e->offloads) rp_set_offload(e->ctx, NULL);
    rp__selection_close(&e->selection);
    rp__optim_free(e->optim);
    if (e->ctx) rp__prefetch_close(e->ctx);
    if (e->ctx) rp__reduce_async_close(e->ctx);
    rp__gather_free(e->gather);
    rp__units_close(&e->units);
    rp__model_free(e->model);
    *e = (rp_engine){ 0 };
}

int rp__engine_n_rules(const rp_engine *e) { return e->selection.policy ? e->selection.policy->n_rules : 0; }
