/* models/weights.c -- finds a model's config: config.json of a directory, or the metadata of a GGUF file.
 *
 * Files are open only while they are read: here for the config, in rp__model_load for the weights. */
#include "models/adapter.h"
#include "models/quant.h"
#include "models/weights_internal.h"
#include "models/wrapper.h"

#include <string.h>

#include "base/file.h"
#include "base/json_text.h"
#include "safetensors/safetensors.h"
#include "tensor/tensor.h"

#define CONFIG_CAP_BYTES (INT64_C(16) << 20)

static rp_status parse_text(rp_ctx *ctx, const char *path, const char *text, int64_t bytes, const rp_yaml_node *overrides,
                            rp_report *report, rp_model_config *out)
{
    json_error_t error;
    json_t *json = rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);

    RP_CHECK(ctx, json, RP_ERR_FORMAT, "'%s': line %d: %s", path, error.line, error.text);
    rp_status status = rp__model_config_parse(ctx, path, json, overrides, report, out);
    json_decref(json);
    return status;
}

rp_status rp__model_config_load(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report,
                                rp_model_config *out)
{
    char *file = rp__file_is_dir(path) ? rp__path_join(ctx, path, "config.json") : rp__host_text(ctx, path), *text = NULL;
    int64_t bytes;

    if (!file) return RP_ERR_MEMORY;
    rp_status status = rp__file_read(ctx, file, CONFIG_CAP_BYTES, &text, &bytes);
    if (status == RP_OK) status = parse_text(ctx, file, text, bytes, overrides, report, out);
    RP_RELEASE(text, file);
    return status;
}

static rp_status config_of_gguf(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report,
                                rp_model_config *out)
{
    rp_gguf *file = NULL;
    json_t *json  = NULL;

    RP_TRY(rp__gguf_open(ctx, path, &file));
    rp_status status = rp__gguf_config(ctx, path, file, report, &json);
    if (status == RP_OK) status = rp__model_config_parse(ctx, path, json, overrides, report, out);
    json_decref(json);
    rp__gguf_close(file);
    return status;
}

static rp_status open_base(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report, rp_model_files **out)
{
    bool is_gguf = !rp__file_is_dir(path) && rp__ends_with(path, ".gguf");
    rp_model_files *files;
    rp_status status;

    if (!rp__file_is_dir(path) && rp__file_exists(path) && rp__safetensors_is_pickle(path))
        return rp__safetensors_refuse_pickle(ctx, NULL, path);
    RP_CHECK(ctx, is_gguf || rp__file_is_dir(path), rp__file_exists(path) ? RP_ERR_FORMAT : RP_ERR_IO,
             "cannot open the model '%s': %s", path,
             rp__file_exists(path) ? "neither a directory nor a .gguf file; the directory of a model holds config.json and *.safetensors"
                                   : "no such file or directory");
    if (!(files = rp__host_alloc(ctx, (int64_t)sizeof *files))) return RP_ERR_MEMORY;
    *files = (rp_model_files){ .ctx = ctx, .path = rp__host_text(ctx, path), .is_gguf = is_gguf };
    if (!files->path) status = RP_ERR_MEMORY;
    else status = (is_gguf ? config_of_gguf : rp__model_config_load)(ctx, path, overrides, report, &files->config);
    if (status == RP_OK) *out = files;
    else rp__model_files_close(files);
    return status;
}

rp_status rp__model_files_adapter(rp_model_files *files, const char *path)
{
    RP_CHECK(files->ctx, !files->adapter, RP_ERR_CONFIG, "cannot add the adapter '%s' to '%s', which already has one", path, files->path);
    RP_TRY(rp__adapter_files_open(files->ctx, path, &files->config, &files->adapter));
    files->config.adapter = *rp__adapter_files_config(files->adapter);
    return RP_OK;
}

static rp_status list_types(rp_model_files *files, rp_status (*list)(rp_weight_loader *l, json_t **out), json_t **out)
{
    rp_weight_loader l = { .ctx = files->ctx, .config = &files->config, .path = files->path };
    rp_status status   = files->is_gguf ? rp__gguf_open(files->ctx, files->path, &l.gguf) : rp__safetensors_open(files->ctx, files->path, &l.st);

    if (status == RP_OK) status = list(&l, out);
    rp__safetensors_close(l.st);
    rp__gguf_close(l.gguf);
    return status;
}

rp_status rp__model_files_quantise(rp_model_files *files, bool keep, rp_dtype dtype)
{
    files->config.quant.dtype = dtype;
    return keep ? list_types(files, rp__quant_types, &files->config.quant.types) : RP_OK;
}

rp_status rp__model_files_map(rp_model_files *files) { return list_types(files, rp__mapped_types, &files->config.mapped); }

static rp_status open_adapted(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report, rp_model_files **out)
{
    rp_model_files *files = NULL;
    char *base            = NULL;

    RP_TRY(rp__adapter_base(ctx, path, &base));
    rp_status status = open_base(ctx, base, overrides, report, &files);
    if (status == RP_OK) status = rp__model_files_adapter(files, path);
    rp__release(base);
    if (status == RP_OK) *out = files;
    else rp__model_files_close(files);
    return status;
}

rp_status rp__model_files_open(rp_ctx *ctx, const char *path, const rp_yaml_node *overrides, rp_report *report,
                               rp_model_files **out)
{
    return (rp__adapter_is_folder(path) ? open_adapted : open_base)(ctx, path, overrides, report, out);
}

const char *rp__model_files_base(const rp_model_files *files) { return files->path; }

bool rp__model_files_fresh_head(const rp_model_files *files) { return files->fresh; }

rp_left_out rp__model_files_left_out(const rp_model_files *files) { return files->left_out; }

bool rp__model_left_out_text(const rp_model *model, rp_left_out left_out, char out[RP_LEFT_OUT_CHARS])
{
    const rp_model_config *c = rp__model_config(model);
    char size[RP_SIZE_CHARS];

    if (!c->wrapper || !left_out.tensors) return false;
    snprintf(out, RP_LEFT_OUT_CHARS, "of this '%s' only the text model, '%s', is read: %" PRId64 " tensors of its other parts, %s, are left out",
             c->wrapper->model_type, rp__model_type(c), left_out.tensors, rp__size_text(size, left_out.bytes));
    return true;
}

void rp__model_files_close(rp_model_files *files)
{
    if (!files) return;
    rp__adapter_files_close(files->adapter);
    rp__model_config_drop(&files->config);
    RP_RELEASE(files->path, files);
}

rp_status rp__model_files_config(rp_model_files *files, rp_model_config *out)
{
    RP_CHECK(files->ctx, !files->taken, RP_ERR_STATE, "the config of '%s' was taken before", files->path);
    *out          = files->config;
    files->config = (rp_model_config){ .family = NULL };
    files->taken  = true;
    return RP_OK;
}

rp_status rp__param_store(const rp_param *p, int64_t at, const float *from, int64_t n)
{
    int64_t first = p->slice.first, end = first + p->slice.count;
    int64_t low = at > first ? at : first, high = at + n < end ? at + n : end;
    rp_host h;

    if (low >= high) return RP_OK;
    from += low - at;
    n  = high - low;
    at = low - first;
    RP_TRY(rp__tensor_host(p->tensor, at, n, RP_HOST_WRITE, &h));
    switch (p->whole.dtype) {
    case RP_BF16: for (int64_t i = 0; i < n; i++) ((uint16_t *)h.data)[i] = rp__bf16_from_f32(from[i]); break;
    case RP_F64: for (int64_t i = 0; i < n; i++) ((double *)h.data)[i] = (double)from[i]; break;
    default: memcpy(h.data, from, (size_t)n * sizeof *from); break;
    }
    rp__tensor_host_end(&h);
    return RP_OK;
}
