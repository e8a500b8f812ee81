/* rehearse/source.c -- opens the model's config and files that a recipe names. */
#include "base/file.h"
#include "models/gguf/export.h"
#include "models/quant.h"
#include "rehearse/rehearsal.h"

static void check_there(const rp_recipe *r, const char *key, const char *path, rp_report *report)
{
    char hint[RP_HUB_HINT_CHARS];

    if (path && !rp__file_exists(path))
        rp__report_error(report, rp__recipe_place(r, key), "'%s': cannot open '%s': there is no such file%s", key, path,
                         strcmp(key, "model.path") && strcmp(key, "model.adapter") ? "" : rp__hub_hint(path, hint));
}

/* A table of positions has the length in the file. Rotary angles can be extended. */
static void check_length(const rp_recipe *r, const rp_model_config *config, rp_report *report)
{
    const char *type = rp__model_type(config);
    bool gpt2 = !strcmp(type, "gpt2"), table = gpt2 || !strcmp(type, "bert");
    char hint[128] = "";

    if (!config->context || r->max_seq_len <= config->context) return;
    if (!table || !r->model.path)
        snprintf(hint, sizeof hint, ": 'model.overrides.%s' may extend it", gpt2 ? "n_positions" : "max_position_embeddings");
    rp__report_error(report, rp__recipe_place(r, "max_seq_len"), "'max_seq_len' %" PRId64 " is beyond the model's context of %" PRId64 " tokens%s",
                     r->max_seq_len, config->context, hint);
}

/* The objective must match the model: causal models predict the next token, bidirectional ones masked tokens. */
static void check_objective(const rp_recipe *r, const rp_model_config *config, rp_report *report)
{
    const struct { const char *key; bool is_set; } masked[] = {
        { "loss.mask_probability", r->loss.mask_probability != RP_MASK_PROBABILITY }, { "loss.mask_token_id", r->loss.mask_token_id.set },
    };

    if (r->loss.objective == RP_OBJECTIVE_CAUSAL && config->both_ways)
        rp__report_error(report, rp__recipe_place(r, "loss.objective"), "'loss.objective: causal' predicts the next token, but a model "
                         "of type '%s' sees all tokens: use masked", rp__model_type(config));
    if (r->loss.objective == RP_OBJECTIVE_MASKED && !config->both_ways)
        rp__report_error(report, rp__recipe_place(r, "loss.objective"), "'loss.objective: masked' predicts tokens from both sides, but a model "
                         "of type '%s' sees only earlier tokens: use causal", rp__model_type(config));
    for (int i = 0; i < RP_COUNT(masked); i++)
        if (!config->both_ways && masked[i].is_set)
            rp__report_error(report, rp__recipe_place(r, masked[i].key), "'%s' has no effect: a model of type '%s' predicts the next token",
                             masked[i].key, rp__model_type(config));
}

/* Refuses a model that final.gguf cannot hold before the run. An adapter of a GGUF file is merged into a copy of it, which can be written. */
static void check_final_format(rp_ctx *ctx, const rp_recipe *r, const rp_model_source *source, rp_report *report)
{
    rp_place place = rp__recipe_place(r, "final_format");
    bool alone     = source->config.adapter.lora.rank && !r->lora.merge;

    if (r->final_format != RP_FINAL_GGUF) return;
    if (alone && !source->files)
        rp__report_error(report, place, "'final_format: gguf' merges the adapter into the files of 'model.path', which is not set: set 'lora.merge'");
    else if (!(alone && rp__ends_with(rp__model_files_base(source->files), ".gguf")) && rp__gguf_check_config(ctx, &source->config) != RP_OK)
        rp__report_error(report, place, "'final_format: gguf': %s", ctx->error);
}

rp_status rp__source_refuse(rp_ctx *ctx, const rp_recipe *r, const char *key, rp_status status, int n_before, rp_report *report)
{
    if (status == RP_OK || status == RP_ERR_MEMORY || report->n_errors > n_before) return status;
    rp__report_error(report, rp__recipe_place(r, key), "%s", ctx->error);
    return status;
}

/* Without an adapter and without `freeze`, no weight is frozen. */
static void check_quantize(const rp_recipe *r, const rp_model_config *config, rp_report *report)
{
    if (r->model.quantize && !config->adapter.lora.rank && !r->freeze.n)
        rp__report_error(report, rp__recipe_place(r, "model.quantize"), "'model.quantize' is for frozen weights, but all weights are trained: set "
                         "'lora.rank', 'model.adapter' or 'freeze'");
}

static void check_mapped(const rp_recipe *r, const rp_model_config *config, rp_report *report)
{
    if (r->model.mapped && !config->adapter.lora.rank && !r->freeze.n)
        rp__report_error(report, rp__recipe_place(r, "model.mapped"), "'model.mapped' is for frozen weights, but all weights are trained: set "
                         "'lora.rank', 'model.adapter' or 'freeze'");
}

/* Fresh adapters follow the recipe. Adapters from files have their own rank, scale and layers; only their dropout may be changed. */
rp_status rp__source_adapt(rp_ctx *ctx, const rp_recipe *r, rp_model_config *config)
{
    rp_adapter_config *a = &config->adapter;
    bool fresh           = r->lora.rank.set;

    RP_CHECK(ctx, !fresh || !a->lora.rank, RP_ERR_CONFIG, "'lora.rank' is set, and the model comes with an adapter already");
    if (fresh) {
        a->lora      = (rp_lora){ .rank = r->lora.rank.value, .alpha = 2 * (double)r->lora.rank.value, .rslora = r->lora.rslora,
                                  .dora = r->lora.dora };
        a->module    = r->lora.modules.item;
        a->n_modules = r->lora.modules.n;
        a->whole     = r->lora.whole.item;
        a->n_whole   = r->lora.whole.n;
        if (r->lora.alpha.set) a->lora.alpha = r->lora.alpha.value;
    }
    if (r->lora.dropout.set) a->lora.dropout = r->lora.dropout.value;
    config->quant.frozen   = r->freeze.item;
    config->quant.n_frozen = r->freeze.n;
    return RP_OK;
}

rp_status rp__source_unless_absent(rp_ctx *ctx, rp_status status, const char *folder, const char *name)
{
    char *path = status == RP_ERR_IO && rp__file_is_dir(folder) ? rp__path_join(ctx, folder, name) : NULL;

    if (path && !rp__file_exists(path)) status = RP_ERR_CONFIG;
    rp__release(path);
    return status;
}

static const rp_dtype quantized[] = { [RP_QUANTIZE_NF4] = RP_NF4, [RP_QUANTIZE_Q8_0] = RP_Q8_0, [RP_QUANTIZE_Q4_0] = RP_Q4_0 };

rp_status rp__source_store(const rp_recipe *r, rp_model_files *files)
{
    if (r->model.quantize) RP_TRY(rp__model_files_quantise(files, r->model.quantize == RP_QUANTIZE_KEEP, quantized[r->model.quantize]));
    return r->model.mapped ? rp__model_files_map(files) : RP_OK;
}

void rp__source_quantise_config(const rp_recipe *r, rp_model_config *config)
{
    json_decref(config->quant.types);
    config->quant.types = NULL;
    config->quant.dtype = quantized[r->model.quantize];
}

static rp_status read_files(rp_ctx *ctx, const rp_recipe *r, rp_report *report, rp_model_source *out)
{
    rp_status status = rp__model_files_open(ctx, r->model.path, r->model.overrides, report, &out->files);

    RP_TRY(rp__source_unless_absent(ctx, status, r->model.path, "config.json"));
    if (r->model.adapter) RP_TRY(rp__model_files_adapter(out->files, r->model.adapter));
    RP_TRY(rp__source_store(r, out->files));
    return rp__model_files_config(out->files, &out->config);
}

/* Shapes alone: of random weights, or of a model that is not there. */
static rp_status read_shapes(rp_ctx *ctx, const rp_recipe *r, rp_report *report, rp_model_source *out)
{
    bool keep = r->model.quantize == RP_QUANTIZE_KEEP;
    rp_model_config *config = &out->config;

    RP_TRY(rp__model_config_load(ctx, r->model.config, r->model.overrides, report, config));
    rp__source_quantise_config(r, config);
    RP_TRY(rp__stand_in_take(ctx, config, keep, r->model.mapped));
    RP_CHECK(ctx, !keep || config->quant.types, RP_ERR_CONFIG, "'model.quantize: keep' stores weights as the files of 'model.path' do, and they are not "
             "there: name a type, or a 'model.stand_in' that 'reprise inspect MODEL --config' printed");
    RP_CHECK(ctx, !r->model.mapped || config->mapped, RP_ERR_CONFIG, "'model.mapped' leaves weights in the files of 'model.path', and they are not there: name "
             "a 'model.stand_in' that 'reprise inspect MODEL --config' printed");
    return RP_OK;
}

static rp_status read_config(rp_ctx *ctx, const rp_recipe *r, rp_report *report, rp_model_source *out)
{
    if (r->model.config) RP_TRY(read_shapes(ctx, r, report, out));
    else RP_TRY(read_files(ctx, r, report, out));
    return rp__source_adapt(ctx, r, &out->config);
}

rp_status rp__source_open(rp_ctx *ctx, const rp_recipe *r, rp_report *report, rp_model_source *out)
{
    const char *key = r->model.path ? "model.path" : "model.config";
    int n_before        = report->n_errors;

    *out = (rp_model_source){ 0 };
    check_there(r, "model.path", r->model.path, report);
    check_there(r, "model.config", r->model.config, report);
    check_there(r, "model.adapter", r->model.adapter, report);
    check_there(r, "tokenizer.path", r->tokenizer.path, report);
    check_there(r, "tokenizer.chat_template", r->tokenizer.chat_template, report);
    if (report->n_errors > n_before || !(r->model.path || r->model.config)) return rp__report_status(report, RP_ERR_CONFIG);   /* without a model:
                                                                                                                            * reported earlier */
    RP_TRY(rp__source_refuse(ctx, r, key, read_config(ctx, r, report, out), n_before, report));
    if (r->model.dropout.set) rp__model_config_dropout(&out->config, r->model.dropout.value);
    check_length(r, &out->config, report);
    check_objective(r, &out->config, report);
    check_final_format(ctx, r, out, report);
    check_quantize(r, &out->config, report);
    check_mapped(r, &out->config, report);
    return RP_OK;
}

void rp__source_close(rp_model_source *source)
{
    rp__model_config_drop(&source->config);
    rp__model_files_close(source->files);
    *source = (rp_model_source){ 0 };
}

rp_model_config rp__config_share(const rp_model_config *config)
{
    rp_model_config second = *config;

    second.source      = json_incref(config->source);
    second.quant.types = json_incref(config->quant.types);
    second.mapped      = json_incref(config->mapped);
    return second;
}
