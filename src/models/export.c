/* models/export.c -- writes a model as transformers would: config.json and safetensors under its names.
 *
 * Tensors stand in bytewise order of their names, each parameter once: a tied output is not written. Weights go to the file from
 * where they are; config.json comes last, so a directory that has one is whole. generation_config.json, which says how to sample
 * from the model, is carried over as it is where the source has one.
 *
 *   rank 0     [ slice 0 ]────────────────────────────────▶ file      as it lies
 *   rank 1     [ slice 1 ]─ window by window ─▶ [ window ]─▶ file      what rank 0 holds of it at a time
 *   rank 2     [ slice 2 ]─ … */
#include "models/weights_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/safetensors.h"

enum { WINDOW_BYTES = 4 << 20, CARRIED_CAP_BYTES = 1 << 20 };

typedef struct { char name[RP_WEIGHT_NAME_CHARS]; const rp_param *param; } named;

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

static rp_safetensor declared(const named *n)
{
    const rp_meta *m  = &n->param->whole;
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

typedef struct {
    rp_ctx *ctx;
    const char *directory;
    int64_t max_shard_bytes;            /* 0: as the writer has it */
    int n, rank, ranks;                 /* rank: of those that hold the weights together */
    bool brings, writes;                /* it is one of the first copy's ranks; it is the first of all */
    named *all;
    rp_safetensor *tensor;
    rp_safetensors_writer *writer;      /* of the one that writes */
    rp_tensor *window;                  /* … where other ranks' elements come to */
    rp_comm_part *send, *receive;       /* by rank */
    rp_status status;                   /* of writing */
} exporter;

/* It fits where a gathered weight was in a step: it is no larger than a slice. */
static int64_t window_bytes(const exporter *x)
{
    int64_t most = 0;

    for (int i = 0; i < x->n; i++) {
        int64_t bytes = rp_meta_bytes(rp_tensor_meta(x->all[i].param->tensor));
        if (bytes > most) most = bytes;
    }
    return most < WINDOW_BYTES ? most : WINDOW_BYTES;
}

static rp_status take_window(exporter *x)
{
    rp_meta m = rp_meta_1d(RP_I32, (window_bytes(x) + 3) / 4);

    return rp__tensor_new_named(x->ctx, &m, RP_MEM_COMM, "the window of an export", &x->window);
}

static rp_status prepare(exporter *x, rp_model *model)
{
    x->all     = rp__host_alloc(x->ctx, x->n * (int64_t)sizeof *x->all);
    x->tensor  = x->all ? rp__host_alloc(x->ctx, x->n * (int64_t)sizeof *x->tensor) : NULL;
    x->send    = x->tensor ? rp__host_alloc(x->ctx, x->ranks * (int64_t)sizeof *x->send) : NULL;
    x->receive = x->send ? rp__host_alloc(x->ctx, x->ranks * (int64_t)sizeof *x->receive) : NULL;
    if (!x->receive) return RP_ERR_MEMORY;
    RP_TRY(name_all(model, x->all, x->tensor));
    if (!x->writes) return RP_OK;
    if (x->ranks > 1) RP_TRY(take_window(x));
    return rp__safetensors_create_folder(x->ctx, x->directory, x->max_shard_bytes, x->n, x->tensor, 0, NULL, &x->writer);
}

/* After a failure no more is written, but what other ranks send is still taken: they do not know yet. */
static void put(exporter *x, const void *data, int64_t bytes)
{
    if (x->writes && x->status == RP_OK) x->status = rp__safetensors_put(x->writer, data, bytes);
}

/* Elements [at, at + n) of the owner's slice come to the window. */
static rp_status bring(exporter *x, const rp_param *p, int owner, int64_t at, int64_t n)
{
    int64_t size  = rp_dtype_bytes(p->whole.dtype);
    void *into    = x->window ? rp_tensor_data(x->window) : NULL;
    rp_comm_request request;

    x->send[0]        = (rp_comm_part){ at, x->rank == owner ? n : 0 };
    x->receive[owner] = (rp_comm_part){ 0, x->writes ? n : 0 };
    RP_TRY(rp__comm_exchange(x->ctx, x->ctx->shards, rp_tensor_data(p->tensor), x->send, into, x->receive, (int)size, &request));
    RP_TRY(rp__comm_wait(x->ctx, x->ctx->shards, &request, "an export"));
    x->send[0] = x->receive[owner] = (rp_comm_part){ 0, 0 };
    put(x, into, n * size);
    return RP_OK;
}

static rp_status put_slice(exporter *x, const rp_param *p, int owner)
{
    int64_t size = rp_dtype_bytes(p->whole.dtype), count = rp__slice_of(rp_meta_elems(&p->whole), owner, x->ranks).count;
    int64_t step = WINDOW_BYTES / size;

    if (owner == 0) put(x, rp_tensor_data(p->tensor), count * size);
    for (int64_t at = 0; owner && at < count; at += step) RP_TRY(bring(x, p, owner, at, count - at < step ? count - at : step));
    return RP_OK;
}

static rp_status put_all(exporter *x)
{
    for (int i = 0; i < x->n && x->brings; i++)
        for (int owner = 0; owner < x->ranks; owner++) RP_TRY(put_slice(x, x->all[i].param, owner));
    return x->status;
}

static rp_status commit(exporter *x)
{
    rp_safetensors_writer *writer = x->writer;

    x->writer = NULL;
    return writer ? rp__safetensors_commit(writer) : RP_OK;
}

static rp_status write_weights(rp_model *model, const char *directory, int64_t max_shard_bytes)
{
    rp_ctx *ctx = rp__model_ctx(model);
    exporter x  = { .ctx = ctx, .directory = directory, .max_shard_bytes = max_shard_bytes, .n = rp__model_n_params(model),
                    .rank = rp__comm_rank(ctx->shards), .ranks = rp__comm_ranks(ctx->shards),
                    .brings = rp__comm_rank(ctx->replicas) == 0, .writes = rp__comm_rank(ctx->comm) == 0 };
    rp_status status = rp__comm_agree(ctx, ctx->comm, prepare(&x, model));

    if (status == RP_OK) status = rp__comm_agree(ctx, ctx->comm, put_all(&x));
    if (status == RP_OK) status = commit(&x);
    rp__safetensors_discard(x.writer);
    rp_tensor_unref(x.window);
    rp__release(x.receive);
    rp__release(x.send);
    rp__release(x.tensor);
    rp__release(x.all);
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

rp_status rp__model_export_shards(rp_model *model, const char *directory, int64_t max_shard_bytes)
{
    rp_ctx *ctx      = rp__model_ctx(model);
    rp_status status = write_weights(model, directory, max_shard_bytes);

    if (status == RP_OK && rp__comm_rank(ctx->comm) == 0) status = write_config(model, directory);
    return rp__comm_agree(ctx, ctx->comm, status);
}

rp_status rp__model_export(rp_model *model, const char *directory) { return rp__model_export_shards(model, directory, 0); }

/* ---- beside it ---- */

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
    rp__release(text);
    rp__release(to);
    rp__release(from);
    return status;
}
