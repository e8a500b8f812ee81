/* models/export_json.c -- writes the JSON files of an export: config.json as transformers would write it, and an unchanged copy of
 * generation_config.json, which has sampling settings. */
#include "models/weights_internal.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/json_text.h"

enum { CARRIED_CAP_BYTES = 1 << 20 };

/* jansson writes reals with a fixed number of digits: 15 reproduce 1e-5 as written, 17 reproduce any double. */
static bool reads_back_from_15(const json_t *value)
{
    const char *key;
    char text[32];
    double back;
    json_t *child;
    size_t i;
    bool ok = true;

    if (json_is_real(value)) {
        snprintf(text, sizeof text, "%.15g", json_real_value(value));
        return rp__parse_double(text, &back) && back == json_real_value(value);
    }
    json_object_foreach((json_t *)value, key, child) ok = ok && reads_back_from_15(child);
    json_array_foreach(value, i, child) ok = ok && reads_back_from_15(child);
    return ok;
}

char *rp__config_text(const json_t *json) { return rp__json_text(json, JSON_INDENT(2) | JSON_REAL_PRECISION(reads_back_from_15(json) ? 15u : 17u)); }

static const char *torch_name(rp_dtype dtype)
{
    return dtype == RP_BF16 ? "bfloat16" : dtype == RP_F64 ? "float64" : "float32";
}

/* transformers 5, and 4 since 4.56, write `dtype`; the `torch_dtype` of an older file would contradict it. */
static json_t *config_of(rp_model *model)
{
    const rp_model_config *c = rp__model_config(model);
    json_t *out              = rp__json_deep_copy(c->source);
    rp_dtype dtype           = rp__model_dtype(model);

    json_object_del(out, "torch_dtype");
    json_object_del(out, "quantization_config");
    if (!json_object_set_new(out, "architectures", json_pack("[s]", c->family->architecture)) &&
        !json_object_set_new(out, "dtype", json_string(torch_name(dtype))))
        return out;
    json_decref(out);
    return NULL;
}

rp_status rp__export_json(rp_ctx *ctx, json_t *json, const char *directory, const char *name)
{
    char *text   = json ? rp__config_text(json) : NULL;
    char *path   = text ? rp__path_join(ctx, directory, name) : NULL;
    size_t n     = text ? strlen(text) : 0;
    rp_status status;

    if (text) text[n] = '\n';           /* replaces the terminating zero */
    if (!text) status = rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate host memory for the text of %s", name);
    else status = path ? rp__file_write(ctx, path, text, (int64_t)n + 1) : RP_ERR_MEMORY;
    rp__release(path);
    free(text);
    json_decref(json);
    return status;
}

rp_status rp__export_config(rp_model *model, const char *directory)
{
    return rp__export_json(rp__model_ctx(model), config_of(model), directory, "config.json");
}

rp_status rp__model_carry(rp_ctx *ctx, const char *source, const char *directory)
{
    static const char name[] = "generation_config.json";
    char *from = rp__path_join(ctx, source, name), *to = from ? rp__path_join(ctx, directory, name) : NULL, *text = NULL;
    int64_t bytes;
    rp_status status = to ? RP_OK : RP_ERR_MEMORY;

    if (status == RP_OK && rp__file_exists(from)) {
        status = rp__file_read(ctx, from, CARRIED_CAP_BYTES, &text, &bytes);
        if (status == RP_OK) status = rp__file_write(ctx, to, text, bytes);
    }
    RP_RELEASE(text, to, from);
    return status;
}
