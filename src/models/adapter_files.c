/* models/adapter_files.c -- reads adapters in the format of the peft package.
 *
 *   adapter_config.json          peft_type LORA, r, lora_alpha, lora_dropout, use_rslora, use_dora, base_model_name_or_path, …
 *   adapter_model.safetensors    "base_model.model." + the layer's name in transformers + ".lora_A.weight" [r, in], ".lora_B.weight" [out, r],
 *                                and for DoRA ".lora_magnitude_vector" [out]
 *
 *                                "base_model.model." + the weight's name in transformers, if it is trained whole (modules_to_save)
 *
 * The names of the tensors determine which layers have adapters and which weights are trained whole, because target_modules may be a regular
 * expression. A field of peft's config that would change numbers and is not supported is an error that names it. */
#include "models/adapter.h"

#include <string.h>

#include "base/bump.h"
#include "base/file.h"
#include "base/json_text.h"
#include "models/adapter_names.h"
#include "models/weights_internal.h"
#include "safetensors/safetensors.h"
#include "tensor/tensor.h"

#define CONFIG_CAP_BYTES (INT64_C(1) << 20)

enum { WINDOW_ELEMS = 1 << 16 };

struct rp_adapter_files {
    rp_ctx *ctx;
    rp_bump bump;
    char *config_path, *path;           /* of the config; of the weights */
    json_t *json;
    rp_safetensors *set;
    rp_adapter_config config;
};

/* Called for every model that is opened. It allocates no memory, so it cannot fail. */
static bool has_file(const char *folder, const char *name)
{
    char path[4096];

    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path && rp__file_exists(path);
}

bool rp__adapter_is_folder(const char *path)
{
    return has_file(path, "adapter_config.json") && !has_file(path, "config.json");
}

/* ---- its config ---- */

static rp_status read_json(rp_ctx *ctx, const char *path, json_t **out)
{
    char *text    = NULL;
    int64_t bytes = 0;
    json_error_t error;

    RP_TRY(rp__file_read(ctx, path, CONFIG_CAP_BYTES, &text, &bytes));
    *out = rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    rp__release(text);
    RP_CHECK(ctx, *out, RP_ERR_FORMAT, "'%s': line %d: %s", path, error.line, error.text);
    return RP_OK;
}

/* Whether the value is absent, null, false, "none", [] or {}. */
static bool is_off(const json_t *v)
{
    if (!v || json_is_null(v) || json_is_false(v)) return true;
    return json_is_string(v) ? !strcmp(json_string_value(v), "none") : (json_is_array(v) && !json_array_size(v)) || (json_is_object(v) && !json_object_size(v));
}

static rp_status check_honoured(const rp_adapter_files *f)
{
    static const char *const off[] = { "bias", "rank_pattern", "alpha_pattern", "lora_bias", "trainable_token_indices",
                                       "target_parameters", "layer_replication", "use_qalora", "use_bdlora", "alora_invocation_tokens",
                                       "arrow_config", "kasa_config", "velora_config", "monteclora_config" };
    const char *type = json_string_value(json_object_get(f->json, "peft_type"));

    RP_CHECK(f->ctx, type && !strcmp(type, "LORA"), RP_ERR_UNSUPPORTED, "'%s': 'peft_type' is %s, and only LORA is read", f->config_path,
             type ? type : "missing");
    for (int i = 0; i < RP_COUNT(off); i++)
        RP_CHECK(f->ctx, is_off(json_object_get(f->json, off[i])), RP_ERR_UNSUPPORTED, "'%s': '%s' is set, and is not honoured here",
                 f->config_path, off[i]);
    return RP_OK;
}

static rp_status read_number(const rp_adapter_files *f, const char *key, double otherwise, double low, double high, double *out)
{
    const json_t *v = json_object_get(f->json, key);

    *out = v && !json_is_null(v) ? json_number_value(v) : otherwise;
    RP_CHECK(f->ctx, (!v || json_is_null(v) || json_is_number(v)) && *out >= low && *out <= high, RP_ERR_FORMAT,
             "'%s': '%s' is no number from %g to %g", f->config_path, key, low, high);
    return RP_OK;
}

static rp_status read_flag(const rp_adapter_files *f, const char *key, bool *out)
{
    const json_t *v = json_object_get(f->json, key);

    *out = json_is_true(v);
    RP_CHECK(f->ctx, !v || json_is_null(v) || json_is_boolean(v), RP_ERR_FORMAT, "'%s': '%s' is neither true nor false", f->config_path, key);
    return RP_OK;
}

static rp_status read_config(rp_adapter_files *f)
{
    rp_lora *l = &f->config.lora;
    double rank;

    RP_TRY(read_json(f->ctx, f->config_path, &f->json));
    RP_TRY(check_honoured(f));
    RP_TRY(read_number(f, "r", 8, 1, 1 << 20, &rank));
    RP_TRY(read_number(f, "lora_alpha", 8, -1e9, 1e9, &l->alpha));
    RP_TRY(read_number(f, "lora_dropout", 0, 0, 1, &l->dropout));
    l->rank = (int64_t)rank;
    RP_CHECK(f->ctx, rank == (double)l->rank, RP_ERR_FORMAT, "'%s': the rank 'r' is %g, which is not a whole number", f->config_path, rank);
    RP_TRY(read_flag(f, "use_rslora", &l->rslora));
    return read_flag(f, "use_dora", &l->dora);
}

/* ---- names ---- */

static bool is_set(const rp_adapter_files *f, const char *key) { return !is_off(json_object_get(f->json, key)); }

static rp_status append(rp_adapter_files *f, const char **list, int *n, const char *text)
{
    list[*n] = rp__bump_text(&f->bump, text, (int64_t)strlen(text));
    return list[*n] ? (++*n, RP_OK) : RP_ERR_MEMORY;
}

/* peft stores both weights of a tied pair, unless its config says to keep them tied. Only the embedding table is read. */
static rp_status take_whole(rp_adapter_files *f, const rp_model_config *model, const char *name, const char **list)
{
    char path[RP_WEIGHT_NAME_CHARS];
    bool known = rp__adapter_whole_ours(model, name, path), head = known && !strcmp(path, "output.weight");

    RP_CHECK(f->ctx, known && is_set(f, "modules_to_save"), RP_ERR_FORMAT, "'%s': tensor '%.200s' is no adapter of a layer of this model", f->path, name);
    RP_CHECK(f->ctx, !model->tied || !(head || !strcmp(path, "tok_embeddings.weight")) || is_set(f, "ensure_weight_tying"), RP_ERR_UNSUPPORTED,
             "'%s': '%.200s' is trained separately from the weight that it is tied to ('ensure_weight_tying' is not set), which is not honoured", f->path,
             name);
    return model->tied && head ? RP_OK : append(f, list, &f->config.n_whole, path);
}

static rp_status take_name(rp_adapter_files *f, const rp_model_config *model, const char *name, const char **modules, const char **whole)
{
    char layer[RP_WEIGHT_NAME_CHARS];
    rp_lora_part part = rp__adapter_name_ours(model, name, layer);

    if (part == RP_LORA_NONE) return take_whole(f, model, name, whole);
    RP_CHECK(f->ctx, part != RP_LORA_MAGNITUDE || f->config.lora.dora, RP_ERR_FORMAT, "'%s': '%.200s' is a magnitude, and 'use_dora' is not set",
             f->path, name);
    return part == RP_LORA_A ? append(f, modules, &f->config.n_modules, layer) : RP_OK;
}

static rp_status list_modules(rp_adapter_files *f, const rp_model_config *model)
{
    int64_t n         = rp__safetensors_n_tensors(f->set);
    const char **list = rp__bump_alloc(&f->bump, 2 * (n + 1) * (int64_t)sizeof *list);

    if (!list) return RP_ERR_MEMORY;
    f->config.module = list;
    f->config.whole  = list + n + 1;
    for (int64_t i = 0; i < n; i++) RP_TRY(take_name(f, model, rp__safetensors_at(f->set, i)->name, list, list + n + 1));
    RP_CHECK(f->ctx, f->config.n_modules > 0, RP_ERR_FORMAT, "'%s' holds no adapter", f->path);
    RP_CHECK(f->ctx, f->config.n_whole || !is_set(f, "modules_to_save"), RP_ERR_FORMAT, "'%s': 'modules_to_save' is set, and '%s' has no weight of such",
             f->config_path, f->path);
    return RP_OK;
}

static rp_status open_all(rp_adapter_files *f, const char *path, const rp_model_config *model)
{
    f->config_path = rp__path_join(f->ctx, path, "adapter_config.json");
    f->path        = f->config_path ? rp__path_join(f->ctx, path, "adapter_model.safetensors") : NULL;
    if (!f->path) return RP_ERR_MEMORY;
    RP_TRY(read_config(f));
    RP_TRY(rp__safetensors_open(f->ctx, f->path, &f->set));
    return list_modules(f, model);
}

rp_status rp__adapter_files_open(rp_ctx *ctx, const char *path, const rp_model_config *model, rp_adapter_files **out)
{
    rp_adapter_files *f = rp__host_alloc(ctx, sizeof *f);

    if (!f) return RP_ERR_MEMORY;
    *f               = (rp_adapter_files){ .ctx = ctx, .bump = { .ctx = ctx } };
    rp_status status = open_all(f, path, model);
    rp__safetensors_close(f->set);      /* reopened when the weights are read */
    f->set = NULL;
    if (status != RP_OK) rp__adapter_files_close(f);
    else *out = f;
    return status;
}

void rp__adapter_files_close(rp_adapter_files *f)
{
    if (!f) return;
    rp__safetensors_close(f->set);
    json_decref(f->json);
    rp__bump_free(&f->bump);
    RP_RELEASE(f->path, f->config_path, f);
}

const rp_adapter_config *rp__adapter_files_config(const rp_adapter_files *f) { return &f->config; }

/* ---- weights ---- */

/* Searches a wrapper's adapter under all names that are accepted. */
static const rp_safetensor *find_any(const rp_safetensors *set, const rp_model_config *model, const rp_param *p)
{
    char layer[RP_WEIGHT_NAME_CHARS];
    int chars         = 0;
    rp_lora_part part = rp__lora_part_of(p->path, &chars);

    for (int64_t i = 0; i < rp__safetensors_n_tensors(set); i++) {
        const rp_safetensor *t = rp__safetensors_at(set, i);
        if (part == RP_LORA_NONE && rp__adapter_whole_ours(model, t->name, layer) && !strcmp(layer, p->path)) return t;
        if (part == RP_LORA_NONE || rp__adapter_name_ours(model, t->name, layer) != part) continue;
        if ((int)strlen(layer) == chars && !strncmp(layer, p->path, (size_t)chars)) return t;
    }
    return NULL;
}

static bool has_shape(const rp_safetensor *t, const rp_meta *m)
{
    return t->ndim == m->ndim && !memcmp(t->dim, m->dim, (size_t)m->ndim * sizeof *m->dim);
}

rp_status rp__adapter_files_find(const rp_adapter_files *f, const rp_safetensors *set, const rp_model_config *model, const rp_param *p,
                                 const rp_safetensor **out)
{
    char name[RP_WEIGHT_NAME_CHARS];

    RP_BUG_IF(!rp__adapter_name_theirs(model, p->path, name));
    *out = rp__safetensors_find(set, name);
    if (!*out && model->wrapper) *out = find_any(set, model, p);
    RP_CHECK(f->ctx, *out, RP_ERR_FORMAT, "'%s': tensor '%s' is missing", f->path, name);
    RP_CHECK(f->ctx, has_shape(*out, &p->whole), RP_ERR_SHAPE,
             "'%s': tensor '%s' has another shape than '%s', %s: it belongs to another model, or its config has another rank", f->path, name, p->path,
             rp_meta_str(&p->whole));
    return RP_OK;
}

static rp_status adapter_files_fill(const rp_safetensors *set, const rp_safetensor *t, const rp_param *p, float *window)
{
    int64_t end = p->slice.first + p->slice.count;

    for (int64_t at = p->slice.first; at < end; at += WINDOW_ELEMS) {
        int64_t n = end - at < WINDOW_ELEMS ? end - at : WINDOW_ELEMS;
        RP_TRY(rp__safetensors_read(set, t, at, n, window));
        RP_TRY(rp__param_store(p, at, window, n));
    }
    rp__param_pad(p);
    rp__tensor_wrote(p->tensor, "rp__adapter_files_load");
    return RP_OK;
}

static rp_status adapter_files_load(const rp_adapter_files *f, const rp_safetensors *set, rp_model *model, float *window)
{
    const rp_model_config *config = rp__model_config(model);
    const rp_safetensor *t;
    int unused;

    for (int i = 0; i < rp__model_n_params(model); i++) {
        const rp_param *p = rp__model_param(model, i);
        if (!p->beside && rp__lora_part_of(p->path, &unused) == RP_LORA_NONE) continue;
        RP_TRY(rp__adapter_files_find(f, set, config, p, &t));
        RP_TRY(adapter_files_fill(set, t, p, window));
    }
    return RP_OK;
}

rp_status rp__adapter_files_weights(const rp_adapter_files *f, rp_safetensors **set) { return rp__safetensors_open(f->ctx, f->path, set); }

rp_status rp__adapter_files_load(const rp_adapter_files *f, rp_model *model)
{
    rp_safetensors *set = NULL;
    float *window       = rp__host_alloc(f->ctx, WINDOW_ELEMS * (int64_t)sizeof *window);
    rp_status status    = window ? rp__safetensors_open(f->ctx, f->path, &set) : RP_ERR_MEMORY;

    if (status == RP_OK) status = adapter_files_load(f, set, model, window);
    rp__safetensors_close(set);
    rp__release(window);
    return status;
}

/* ---- the base model ---- */

static rp_status find_base(rp_ctx *ctx, const char *path, const char *named, char **out)
{
    RP_CHECK(ctx, named && *named, RP_ERR_IO, "the adapter '%s' does not name its base model ('base_model_name_or_path'): set that as the "
             "model and '%s' as 'model.adapter'", path, path);
    char *base = rp__host_text(ctx, named);
    if (base && !rp__file_exists(base)) {
        rp__release(base);
        base = rp__path_join(ctx, path, named);
    }
    if (!base) return RP_ERR_MEMORY;
    if (rp__file_exists(base)) return *out = base, RP_OK;
    rp__release(base);
    return rp_fail(ctx, RP_ERR_IO, "the adapter '%s' has the base model '%s', which does not exist here: set a copy of it as the model and '%s' as "
                   "'model.adapter'", path, named, path);
}

rp_status rp__adapter_base(rp_ctx *ctx, const char *path, char **out)
{
    char *config     = rp__path_join(ctx, path, "adapter_config.json");
    json_t *json     = NULL;
    rp_status status = config ? read_json(ctx, config, &json) : RP_ERR_MEMORY;

    if (status == RP_OK) status = find_base(ctx, path, json_string_value(json_object_get(json, "base_model_name_or_path")), out);
    json_decref(json);
    rp__release(config);
    return status;
}

rp_status rp__tokenizer_place(rp_ctx *ctx, const char *path, char **out)
{
    if (rp__adapter_is_folder(path) && !has_file(path, "tokenizer.json")) return rp__adapter_base(ctx, path, out);
    *out = rp__host_text(ctx, path);
    return *out ? RP_OK : RP_ERR_MEMORY;
}
