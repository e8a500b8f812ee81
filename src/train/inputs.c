/* train/inputs.c -- opens the tokenizer and the data that a recipe names. */
#include "base/file.h"
#include "base/report.h"
#include "comm/comm.h"
#include "data/files.h"
#include "data/masking.h"
#include "models/adapter.h"
#include "recipe/recipe.h"
#include "template/chat.h"
#include "tokenizer/text_ids.h"
#include "train/internal.h"
#include "train/score.h"

/* ---- tokenizer ---- */

char *rp__model_folder(rp_ctx *ctx, const rp_recipe *r)
{
    const char *path = r->model.config ? r->model.config : r->model.path, *slash = strrchr(path, '/');
    char *place      = NULL;

    if (r->model.path) return rp__tokenizer_place(ctx, path, &place) == RP_OK ? place : NULL;
    if (rp__file_is_dir(path)) return rp__host_text(ctx, path);
    if (!slash) return rp__host_text(ctx, ".");
    char *folder = rp__host_text(ctx, path);
    if (folder) folder[slash == path ? 1 : slash - path] = 0;
    return folder;
}

static bool reads_text(const rp_recipe *r)
{
    return r->sample_prompts.n || (r->dataset.format != RP_FORMAT_TOKENS && !r->documents) || (r->has_dataset_val && r->dataset_val.format != RP_FORMAT_TOKENS);
}

/* The folder or file of the tokenizer: that of the recipe, else that of the model. */
static char *tokenizer_place(const rp_trainer *t)
{
    const char *own = t->recipe->tokenizer.path;

    return own ? rp__host_text(t->ctx, own) : rp__model_folder(t->ctx, t->recipe);
}

/* If the recipe reads no text and names no tokenizer, a missing one (no tokenizer.json, none in the .gguf) is no error. */
static rp_status open_tokenizer(rp_trainer *t, const char *place)
{
    rp_status status = rp__tokenizer_load(t->ctx, place, &t->tokenizer);
    bool needed      = t->recipe->tokenizer.path || reads_text(t->recipe);

    return needed || status == RP_ERR_MEMORY ? rp__source_unless_absent(t->ctx, status, place, "tokenizer.json") : RP_OK;
}

static bool by_template(const rp_recipe *r)
{
    return (rp__dataset_by_template(&r->dataset) && !r->documents) || (r->has_dataset_val && rp__dataset_by_template(&r->dataset_val));
}

static bool needs_template(const rp_recipe *r)
{
    return (r->dataset.format == RP_FORMAT_CHAT && !r->documents) || (r->has_dataset_val && r->dataset_val.format == RP_FORMAT_CHAT);
}

/* The chat template is searched for where the tokenizer is. */
static rp_status open_chat(const rp_trainer *t, const char *place, rp_chat **out)
{
    char why[RP_ERROR_CHARS];

    if (!by_template(t->recipe)) return RP_OK;
    rp_status status = rp__chat_load(t->ctx, place, t->recipe->tokenizer.chat_template, out);
    if ((status != RP_ERR_FORMAT && status != RP_ERR_UNSUPPORTED) || needs_template(t->recipe)) return status;
    memcpy(why, t->ctx->error, sizeof why);
    return rp_fail(t->ctx, status, "%s; it is not needed if 'dataset.use_chat_template' is false", why);
}

static bool is_special(void *user, int32_t id) { return rp__tokenizer_is_special(user, id); }

/* ---- data ---- */

static rp_data_source data_source(rp_trainer *t, const rp_model_config *config, rp_chat *chat)
{
    int32_t bos = t->tokenizer ? rp__tokenizer_bos(t->tokenizer) : -1;
    int32_t eos = t->tokenizer ? rp__tokenizer_eos(t->tokenizer) : -1;

    return (rp_data_source){
        .user = t->tokenizer, .encode = t->tokenizer ? rp__text_ids_feed : NULL, .bos = bos >= 0 ? bos : config->bos,
        .eos = eos >= 0 ? eos : config->eos, .adds_bos = t->tokenizer && rp__tokenizer_adds_bos(t->tokenizer),
        .vocab = (int32_t)config->vocab, .is_special = t->tokenizer ? is_special : NULL, .chat = chat,
    };
}

static rp_data_config data_config(const rp_ctx *ctx, const rp_recipe *r, const rp_recipe_dataset *d)
{
    static const char *const formats[] = { [RP_FORMAT_TEXT] = "text", [RP_FORMAT_JSONL] = "jsonl", [RP_FORMAT_TOKENS] = "tokens",
                                           [RP_FORMAT_CHAT] = "chat", [RP_FORMAT_ALPACA] = "alpaca" };

    return (rp_data_config){
        .path = d->path.first, .n_paths = d->path.all.n, .paths = d->path.all.item, .format = formats[d->format], .column = d->column,
        .prompt_column = d->format == RP_FORMAT_JSONL ? d->prompt_column : NULL, .packed = d->packed,
        .cross_documents = d->cross_documents,
        .by_template = rp__dataset_by_template(d),
        .train_on_input = d->train_on_input || !(rp__dataset_has_pairs(d) || d->format == RP_FORMAT_CHAT),
        .wide_tokens = d->token_type == RP_TOKEN_U32, .max_seq_len = r->max_seq_len, .batch_size = r->batch_size,
        .accumulation = 1, .ranks = rp__comm_ranks(rp__world(ctx)), .rank = rp__comm_rank(rp__world(ctx)),
        .seed = (uint64_t)r->seed, .ignore_index = (int32_t)r->loss.ignore_index,
    };
}

/* The masking for an encoder; probability 0 for other models. */
static rp_masking masking_of(const rp_trainer *t, const rp_model_config *config)
{
    const rp_recipe *r = t->recipe;
    int32_t mask_id    = t->tokenizer ? rp__tokenizer_id(t->tokenizer, "[MASK]") : -1;

    if (!config->both_ways) return (rp_masking){ 0 };
    if (r->loss.mask_token_id.set) mask_id = (int32_t)r->loss.mask_token_id.value;
    return (rp_masking){ .probability = r->loss.mask_probability, .mask_id = mask_id, .vocab = (int32_t)config->vocab,
                         .key = rp__masking_key((uint64_t)r->seed) };
}

/* A set with fewer samples than a batch is scored with batches of one sample. */
static rp_status open_val(rp_trainer *t, const rp_data_source *source, const rp_masking *masking)
{
    rp_data_config c = data_config(t->ctx, t->recipe, &t->recipe->dataset_val);

    c.masking       = *masking;
    c.masking.fixed = true;
    rp_status status = rp__data_open(t->ctx, "dataset_val", &c, source, &t->val);

    if (status == RP_ERR_CONFIG && c.batch_size > 1) {
        c.batch_size = 1;
        status       = rp__data_open(t->ctx, "dataset_val", &c, source, &t->val);
    }
    t->val_rows = c.batch_size;
    return status;
}

/* The data of the steps: that of the recipe, or documents of the program. */
static rp_data_config steps_config(const rp_ctx *ctx, const rp_recipe *r)
{
    rp_data_config c = data_config(ctx, r, &r->dataset);

    c.documents = (rp_data_documents){ r->documents, r->documents_user };
    if (!r->documents) return c;
    c.by_template    = false;
    c.train_on_input = true;
    return c;
}

static rp_status open_data(rp_trainer *t, const rp_model_config *config, rp_chat *chat, rp_recipe_data *out)
{
    (void)out;
    rp_data_config c      = steps_config(t->ctx, t->recipe);
    rp_data_source source = data_source(t, config, chat);

    c.accumulation        = t->recipe->gradient_accumulation_steps;
    c.shuffle             = t->recipe->shuffle;
    c.masking             = masking_of(t, config);
    RP_TRY(rp__samples_open(t, config, rp__dataset_by_template(&t->recipe->dataset) ? chat : NULL));
    RP_TRY(rp__data_open(t->ctx, "dataset", &c, &source, &t->data));
    return rp__recipe_validates(t->recipe) ? open_val(t, &source, &c.masking) : RP_OK;
}

typedef rp_status (*data_fn)(rp_trainer *t, const rp_model_config *config, rp_chat *chat, rp_recipe_data *out);

static rp_status open_inputs(rp_trainer *t, const rp_model_config *config, data_fn data, rp_recipe_data *out)
{
    char *place   = tokenizer_place(t);
    rp_chat *chat = NULL;

    if (!place) return RP_ERR_MEMORY;
    rp_status status = open_tokenizer(t, place);
    if (status == RP_OK) status = open_chat(t, place, &chat);
    if (status == RP_OK) status = data(t, config, chat, out);
    rp__chat_free(chat);
    rp__release(place);
    return status;
}

rp_status rp__inputs_open(rp_trainer *t, const rp_model_config *config) { return open_inputs(t, config, open_data, NULL); }

static rp_status score_open(rp_trainer *t, const rp_model_config *config, const char *place, rp_data **out)
{
    rp_data_config c = data_config(t->ctx, t->recipe, &t->recipe->dataset);
    rp_chat *chat    = NULL;

    c.batch_size = 1;
    RP_TRY(open_chat(t, place, &chat));
    const rp_data_source source = data_source(t, config, chat);
    rp_status status            = rp__data_open(t->ctx, "dataset", &c, &source, out);
    rp__chat_free(chat);
    return status;
}

rp_status rp__score_open(rp_ctx *ctx, const rp_recipe *recipe, const rp_model_config *config, rp_tokenizer *tokenizer, rp_data **out)
{
    rp_trainer t     = { .ctx = ctx, .recipe = recipe, .tokenizer = tokenizer };
    char *place      = tokenizer_place(&t);
    rp_status status = place ? score_open(&t, config, place, out) : RP_ERR_MEMORY;

    rp__release(place);
    return status;
}

/* ---- data alone ---- */

/* List the files of a set. errors RP_ERR_MATCH no file */
static rp_status list_set(rp_ctx *ctx, const rp_recipe *r, const rp_recipe_dataset *d, const char *key, rp_recipe_data *out)
{
    rp_data_config c = data_config(ctx, r, d);
    rp_data_files files;
    rp_status status = rp__data_files(ctx, key, &c, &files);

    if (status == RP_OK) {
        out->set[out->n].key     = key;
        out->set[out->n].n_files = files.n;
        out->set[out->n].bytes   = files.bytes;
        out->n++;
    }
    rp__data_files_free(&files);
    return status;
}

static void describe_set(const rp_data *data, const rp_recipe_dataset *d, int i, rp_recipe_data *out)
{
    rp_data_info info = rp__data_info(data);

    out->set[i].read = true;
    rp__data_text(&info, d->path.first, d->path.all.n, out->set[i].text);
    snprintf(out->set[i].skipped, sizeof out->set[i].skipped, "%s", info.first_skipped);
}

static rp_status read_sets(rp_ctx *ctx, const rp_recipe *r, const rp_model_config *config, rp_recipe_data *out)
{
    rp_trainer t     = { .ctx = ctx, .recipe = r };
    rp_status status = rp__inputs_open(&t, config);

    if (status == RP_OK) describe_set(t.data, &r->dataset, 0, out);
    if (status == RP_OK) status = rp__sample_render(ctx, t.data, t.tokenizer, r->max_seq_len, &out->sample);
    if (status == RP_OK && t.val) describe_set(t.val, &r->dataset_val, 1, out);
    rp__samples_close(t.samples);
    rp__data_close(t.val);
    rp__data_close(t.data);
    rp__tokenizer_free(t.tokenizer);
    return status;
}

static rp_status look_at_data(rp_trainer *t, const rp_model_config *config, rp_chat *chat, rp_recipe_data *out)
{
    const rp_recipe *r          = t->recipe;
    const rp_data_source source = data_source(t, config, chat);
    const struct { const char *key; const rp_recipe_dataset *set; } sets[] = { { "dataset", &r->dataset }, { "dataset_val", &r->dataset_val } };

    for (int i = 0; i < out->n; i++) {
        rp_data_config c = data_config(t->ctx, r, sets[i].set);
        c.masking        = masking_of(t, config);
        RP_TRY(rp__data_look(t->ctx, sets[i].key, &c, &source, RP_LOOK_OBJECTS, &out->set[i].looked));
    }
    return RP_OK;
}

/* Read the beginning of the data, enough to find a wrong format or template. */
static rp_status look_at_sets(rp_ctx *ctx, const rp_recipe *r, const rp_model_config *config, rp_recipe_data *out)
{
    rp_trainer t     = { .ctx = ctx, .recipe = r };
    rp_status status = open_inputs(&t, config, look_at_data, out);

    rp__tokenizer_free(t.tokenizer);
    return status;
}

static bool holds(rp_ctx *ctx, const char *folder, const char *name)
{
    char *path = rp__path_join(ctx, folder, name);
    bool there = path && rp__file_exists(path);

    rp__release(path);
    return there;
}

/* A shipped config has no tokenizer beside it. */
static bool has_tokenizer(rp_ctx *ctx, const rp_recipe *r)
{
    char *place = tokenizer_place(&(rp_trainer){ .ctx = ctx, .recipe = r });
    bool there  = place && (rp__file_is_dir(place) ? holds(ctx, place, "tokenizer.json") || holds(ctx, place, "tokenizer.model") : rp__file_exists(place));

    rp__release(place);
    return there || !reads_text(r);
}

static rp_status try_data(rp_ctx *ctx, const rp_recipe *r, int64_t most_bytes, rp_report *report, rp_recipe_data *out)
{
    rp_model_source source = { 0 };
    int64_t bytes          = 0;
    bool all;

    if (r->dataset.path.first) RP_TRY(list_set(ctx, r, &r->dataset, "dataset", out));
    if (out->n && rp__recipe_validates(r)) RP_TRY(list_set(ctx, r, &r->dataset_val, "dataset_val", out));
    for (int i = 0; i < out->n; i++) bytes += out->set[i].bytes;
    if (!r->model.path && !r->model.config) out->unread = "the recipe names no model";
    else if (rp__recipe_missing_file(r)) out->unread = "the model's files are not there";
    else if (!has_tokenizer(ctx, r)) out->unread = "there is no tokenizer beside the model";
    if (!out->n || out->unread) return RP_OK;
    all = bytes <= most_bytes;
    if (!all) out->unread = "--data reads all";
    int n_before     = report->n_errors;
    rp_status status = rp__source_open(ctx, r, report, &source);
    if (status == RP_OK && report->n_errors == n_before) status = (all ? read_sets : look_at_sets)(ctx, r, &source.config, out);
    rp__source_close(&source);
    return status;
}

rp_status rp__recipe_try_data(rp_ctx *ctx, const rp_recipe *r, int64_t most_bytes, rp_report *report, rp_recipe_data *out)
{
    int n_before = report->n_errors;
    rp_report of_model;

    *out = (rp_recipe_data){ 0 };
    rp__report_open(&of_model, ctx);
    rp_status status = try_data(ctx, r, most_bytes, n_before ? &of_model : report, out);
    bool known       = of_model.n_errors > 0;
    const char *key  = out->n > 1 ? "dataset_val.path" : "dataset.path";
    rp__report_close(&of_model);
    if (known) return status;
    if (status != RP_ERR_MATCH || !rp__recipe_missing_file(r)) return rp__source_refuse(ctx, r, key, status, n_before, report);
    rp__report_note(report, rp__recipe_place(r, key), "%s", ctx->error);
    return RP_OK;
}
