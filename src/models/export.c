/* models/export.c -- writes a model as transformers would: config.json and safetensors under its names.
 *
 * Tensors stand in bytewise order of their names, each parameter once: a tied output is not written. Weights go to the file from
 * where they are; config.json comes last, so a directory that has one is whole. */
#include "models/weights_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/safetensors.h"

typedef struct { char name[RP_WEIGHT_NAME_CHARS]; const rp_param *param; } named;

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

static rp_safetensor declared(const named *n)
{
    const rp_meta *m  = rp_tensor_meta(n->param->tensor);
    rp_safetensor out = { .name = n->name, .dtype = rp__safetensors_dtype_of(m->dtype), .ndim = m->ndim };

    for (int i = 0; i < m->ndim; i++) out.dim[i] = m->dim[i];
    return out;
}

/* ---- weights ---- */

static rp_status name_all(rp_model *model, named *all, rp_safetensor *tensor)
{
    const rp_family *f = rp__model_config(model)->family;
    int n              = rp__model_n_params(model);

    for (int i = 0; i < n; i++) {
        all[i].param = rp__model_param(model, i);
        RP_TRY(rp__tensor_needs_data(all[i].param->tensor, "rp__model_export"));
        RP_BUG_IF(!rp__weight_name_theirs(f->name, f->n_names, all[i].param->path, all[i].name));
    }
    qsort(all, (size_t)n, sizeof *all, by_name);
    for (int i = 0; i < n; i++) tensor[i] = declared(&all[i]);
    return RP_OK;
}

static rp_status put_all(rp_ctx *ctx, const char *directory, int n, const named *all, const rp_safetensor *tensor)
{
    rp_safetensors_writer *writer;
    rp_status status = rp__safetensors_create_folder(ctx, directory, 0, n, tensor, 0, NULL, &writer);

    RP_TRY(status);
    for (int i = 0; i < n && status == RP_OK; i++) {
        const rp_tensor *t = all[i].param->tensor;
        status             = rp__safetensors_put(writer, rp_tensor_data(t), rp_meta_bytes(rp_tensor_meta(t)));
    }
    if (status == RP_OK) return rp__safetensors_commit(writer);
    rp__safetensors_discard(writer);
    return status;
}

static rp_status write_weights(rp_model *model, const char *directory)
{
    rp_ctx *ctx           = rp__model_ctx(model);
    int n                 = rp__model_n_params(model);
    named *all            = rp__host_alloc(ctx, n * (int64_t)sizeof *all);
    rp_safetensor *tensor = all ? rp__host_alloc(ctx, n * (int64_t)sizeof *tensor) : NULL;
    rp_status status      = tensor ? name_all(model, all, tensor) : RP_ERR_MEMORY;

    if (status == RP_OK) status = put_all(ctx, directory, n, all, tensor);
    rp__release(tensor);
    rp__release(all);
    return status;
}

/* ---- config.json ---- */

/* jansson writes reals with the digits it is told: 15 keep 1e-5 as it was, 17 keep any number. */
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

static const char *torch_name(rp_dtype dtype)
{
    return dtype == RP_BF16 ? "bfloat16" : dtype == RP_F64 ? "float64" : "float32";
}

/* transformers 5 writes `dtype`, and so does 4 since 4.56; `torch_dtype` of an older file would contradict it. */
static json_t *config_of(rp_model *model)
{
    const rp_model_config *c = rp__model_config(model);
    json_t *out              = json_deep_copy(c->source);
    rp_dtype dtype           = rp_tensor_meta(rp__model_param(model, 0)->tensor)->dtype;

    json_object_del(out, "torch_dtype");
    if (!json_object_set_new(out, "architectures", json_pack("[s]", c->family->architecture)) &&
        !json_object_set_new(out, "dtype", json_string(torch_name(dtype))))
        return out;
    json_decref(out);
    return NULL;
}

static rp_status write_config(rp_model *model, const char *directory)
{
    rp_ctx *ctx  = rp__model_ctx(model);
    json_t *json = config_of(model);
    char *text   = json ? json_dumps(json, JSON_INDENT(2) | JSON_REAL_PRECISION(reads_back_from_15(json) ? 15 : 17)) : NULL;
    char *path   = text ? rp__path_join(ctx, directory, "config.json") : NULL;
    size_t n     = text ? strlen(text) : 0;
    rp_status status;

    if (text) text[n] = '\n';           /* in place of the zero */
    if (!text) status = rp__fail(ctx, RP_ERR_MEMORY, "cannot allocate host memory for the text of config.json");
    else status = path ? rp__file_write(ctx, path, text, (int64_t)n + 1) : RP_ERR_MEMORY;
    rp__release(path);
    free(text);
    json_decref(json);
    return status;
}

rp_status rp__model_export(rp_model *model, const char *directory)
{
    RP_TRY(write_weights(model, directory));
    return write_config(model, directory);
}
