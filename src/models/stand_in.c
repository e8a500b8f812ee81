/* models/stand_in.c -- the types in which the files of a model store weights, kept in a config.json that stands in for the files.
 *
 *   "quantization_config": { "quant_method": "reprise", "types": { "tok_embeddings.weight": "q8_0", "layers.*.attn.q.weight": "q4_1", … } }
 *
 * A key is our path of a weight, or a glob for a weight that has one type in all blocks. A weight without a key is not quantised in the files.
 * So a plan of the config counts the bytes of the files.
 */
#include "models/quant.h"

#include <string.h>

#include "base/json_text.h"
#include "base/quant.h"
#include "text/utf8.h"

#define METHOD "reprise"

/* ---- reading ---- */

static const json_t *types_in(const json_t *field)
{
    const char *method = json_string_value(json_object_get(field, "quant_method"));

    return method && !strcmp(method, METHOD) ? json_object_get(field, "types") : NULL;
}

static const rp_quant_type *type_named(const json_t *name) { return json_is_string(name) ? rp__quant_find(json_string_value(name)) : NULL; }

bool rp__stand_in_is_valid(const json_t *field)
{
    json_t *types = (json_t *)types_in(field), *name;
    const char *glob;

    if (!json_is_object(types)) return false;
    json_object_foreach(types, glob, name)
        if (!type_named(name)) return false;
    return true;
}

rp_status rp__stand_in_take(rp_ctx *ctx, rp_model_config *config)
{
    json_t *types = (json_t *)types_in(json_object_get(config->source, "quantization_config")), *name;
    json_t *out   = json_object();
    bool complete = out != NULL;
    const char *glob;

    json_object_foreach(types, glob, name)
        complete = complete && !json_object_set_new_nocheck(out, glob, json_integer((json_int_t)type_named(name)->dtype));
    if (!complete) json_decref(out);
    RP_CHECK(ctx, complete, RP_ERR_MEMORY, "cannot allocate host memory for the types of weights");
    json_decref(config->quant.types);
    config->quant.types   = types ? out : NULL;
    config->quant.by_glob = true;
    if (!types) json_decref(out);
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

static bool add_type(const rp_model_config *c, json_t *types, const char *path, json_int_t type, json_t *to)
{
    const rp_quant_type *quant = rp__quant_type((rp_dtype)type);
    int64_t bytes              = (int64_t)strlen(path);
    char glob[RP_WEIGHT_NAME_CHARS];

    if (!quant || rp__utf8_valid(path, bytes) < bytes) return true;     /* no parameter of ours has such a name */
    snprintf(glob, sizeof glob, "%s", path);
    if (!strncmp(path, LAYERS, sizeof LAYERS - 1) && in_all_blocks(c, types, path, type)) path_in(path, "*", glob);
    return !json_object_set_new(to, glob, json_string(quant->name));
}

rp_status rp__stand_in_config(rp_ctx *ctx, const rp_model_config *config, json_t **out)
{
    json_t *all = rp__json_deep_copy(config->source), *types = json_object(), *type;
    bool complete = all && types;
    const char *path;

    json_object_foreach(config->quant.types, path, type)
        complete = complete && add_type(config, config->quant.types, path, json_integer_value(type), types);
    if (complete && json_object_size(types)) {
        json_t *field = json_pack("{s:s, s:O}", "quant_method", METHOD, "types", types);
        complete      = field && !json_object_set_new(all, "quantization_config", field);
    }
    json_decref(types);
    if (!complete) json_decref(all);
    RP_CHECK(ctx, complete, RP_ERR_MEMORY, "cannot allocate host memory for a config");
    *out = all;
    return RP_OK;
}
