/* models/stand_in.c -- the types in which the files of a model store weights, kept in a config.json that stands in for the files.
 *
 *   "quantization_config": { "quant_method": "reprise",
 *     "types":  { "tok_embeddings.weight": "q8_0", "layers.*.attn.q.weight": "q4_1", … }       quantised weights
 *     "mapped": { "tok_embeddings.weight": "q8_0", "norm.weight": "fp32", … } }                weights that can stay in the files (mapped.c)
 *
 * A key is our path of a weight, or a glob for a weight that has one type in all blocks. A weight without a key is not quantised, or cannot stay in the
 * files. So a plan of the config counts the bytes of the files.
 */
#include "models/quant.h"

#include <string.h>

#include "base/json_text.h"
#include "base/quant.h"
#include "text/utf8.h"

#define METHOD "reprise"
#define TYPES "types"
#define MAPPED "mapped"

/* ---- reading ---- */

static const json_t *list_in(const json_t *field, const char *list)
{
    const char *method = json_string_value(json_object_get(field, "quant_method"));

    return method && !strcmp(method, METHOD) ? json_object_get(field, list) : NULL;
}

/* RP_DTYPES: no dtype has this name. */
static rp_dtype dtype_named(const json_t *name)
{
    rp_dtype dtype = RP_F32;

    while (dtype < RP_DTYPES && !(json_is_string(name) && !strcmp(rp_dtype_name(dtype), json_string_value(name)))) dtype++;
    return dtype;
}

static bool is_list(const json_t *list, bool quantised)
{
    const char *glob;
    json_t *name;

    json_object_foreach((json_t *)list, glob, name)
        if (quantised ? !rp__is_quant(dtype_named(name)) : dtype_named(name) == RP_DTYPES) return false;
    return json_is_object(list);
}

bool rp__stand_in_is_valid(const json_t *field)
{
    const json_t *mapped = list_in(field, MAPPED);

    return is_list(list_in(field, TYPES), true) && (!mapped || is_list(mapped, false));
}

/* *out is NULL if the config has no such list. */
static bool take_list(const rp_model_config *config, const char *list, json_t **out)
{
    const json_t *names = list_in(json_object_get(config->source, "quantization_config"), list);
    json_t *types       = names ? json_object() : NULL, *name;
    bool complete       = types || !names;
    const char *glob;

    json_object_foreach((json_t *)names, glob, name)
        complete = complete && !json_object_set_new_nocheck(types, glob, json_integer((json_int_t)dtype_named(name)));
    json_decref(*out);
    *out = types;
    return complete;
}

rp_status rp__stand_in_take(rp_ctx *ctx, rp_model_config *config, bool keep, bool mapped)
{
    bool complete = (!keep || take_list(config, TYPES, &config->quant.types)) && (!mapped || take_list(config, MAPPED, &config->mapped));

    RP_CHECK(ctx, complete, RP_ERR_MEMORY, "cannot allocate host memory for the types of weights");
    config->by_glob = true;
    return RP_OK;
}

/* ---- writing ---- */

#define LAYERS "layers."

/* The path of the same weight in this block, or in "*". */
static void path_in(const char *path, const char *block, char out[RP_WEIGHT_NAME_CHARS])
{
    const char *number = path + sizeof LAYERS - 1;

    snprintf(out, RP_WEIGHT_NAME_CHARS, LAYERS "%s%s", block, number + strcspn(number, "."));
}

/* Whether the weight has this type in all blocks. */
static bool in_all_blocks(const rp_model_config *c, const json_t *types, const char *path, json_int_t type)
{
    char number[24], other[RP_WEIGHT_NAME_CHARS];

    for (int64_t i = 0; i < c->n_layers; i++) {
        snprintf(number, sizeof number, "%" PRId64, i);
        path_in(path, number, other);
        if (json_integer_value(json_object_get(types, other)) != type) return false;
    }
    return true;
}

static bool add_type(const rp_model_config *c, const json_t *types, const char *path, json_int_t type, json_t *to)
{
    int64_t bytes = (int64_t)strlen(path);
    char glob[RP_WEIGHT_NAME_CHARS];

    if (rp__utf8_valid(path, bytes) < bytes) return true;               /* no parameter of ours has such a name */
    snprintf(glob, sizeof glob, "%s", path);
    if (!strncmp(path, LAYERS, sizeof LAYERS - 1) && in_all_blocks(c, types, path, type)) path_in(path, "*", glob);
    return !json_object_set_new(to, glob, json_string(rp_dtype_name((rp_dtype)type)));
}

/* The names of the types, without that of tensors which are `none` of them. NULL: no memory. */
static json_t *list_of(const rp_model_config *c, json_t *types, rp_dtype none)
{
    json_t *out = json_object(), *type;
    bool complete = out != NULL;
    const char *path;

    json_object_foreach(types, path, type)
        if (complete && (rp_dtype)json_integer_value(type) != none) complete = add_type(c, types, path, json_integer_value(type), out);
    if (complete) return out;
    json_decref(out);
    return NULL;
}

rp_status rp__stand_in_config(rp_ctx *ctx, const rp_model_config *config, json_t **out)
{
    json_t *all = rp__json_deep_copy(config->source), *types = list_of(config, config->quant.types, RP_F32), *mapped = list_of(config, config->mapped, RP_I32);
    bool complete = all && types && mapped;

    if (complete && json_object_size(types) + json_object_size(mapped)) {
        json_t *field = json_pack("{s:s, s:O, s:O}", "quant_method", METHOD, TYPES, types, MAPPED, mapped);
        complete      = field && !json_object_set_new(all, "quantization_config", field);
    }
    json_decref(types);
    json_decref(mapped);
    if (!complete) json_decref(all);
    RP_CHECK(ctx, complete, RP_ERR_MEMORY, "cannot allocate host memory for a config");
    *out = all;
    return RP_OK;
}
