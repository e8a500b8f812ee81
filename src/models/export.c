/* models/export.c -- writes a model as transformers would (config.json and safetensors with its names), or its adapters as peft would.
 *
 * Tensors are sorted bytewise by name, each parameter once; a tied output is not written. Weights are written directly from
 * memory, or through a buffer if an adapter is merged into them. config.json (export_json.c) is written last, so a directory that has
 * one is complete. A quantised weight is written in the model's dtype, decoded a window at a time. Rank 0 collects its bytes from the slices.
 *
 *   rank 0     [ slice 0 ]────────────────────────────────▶ file      directly
 *   rank 1     [ slice 1 ]─ window by window ─▶ [ window ]─▶ file      rank 0 holds one window at a time
 *   rank 2     [ slice 2 ]─ … */
#include "models/adapter.h"
#include "models/adapter_names.h"
#include "models/merge.h"
#include "models/weights_pair.h"
#include "models/weights_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/quant.h"
#include "comm/comm.h"
#include "safetensors/safetensors.h"
#include "tensor/tensor.h"

enum { WINDOW_BYTES = 4 << 20, DECODED_ELEMS = 1024 };

/* A parameter or a piece of it: elements [from, to). module: the owner of the parameter. */
typedef struct {
    char name[RP_WEIGHT_NAME_CHARS];
    const rp_param *param;
    const rp_module *module;
    rp_meta m;
    int64_t from, to;
} named;

static int by_name(const void *a, const void *b) { return strcmp(((const named *)a)->name, ((const named *)b)->name); }

static rp_safetensor declared(const named *n)
{
    const rp_meta *m  = &n->m;
    rp_safetensor out = { .name = n->name, .dtype = rp__safetensors_dtype_of(m->dtype), .ndim = m->ndim };

    for (int i = 0; i < m->ndim; i++) out.dim[i] = m->dim[i];
    return out;
}

/* ---- names ---- */

/* Selects either the parts of adapters and the weights trained whole, or the model's own weights. */
static bool is_wanted(const rp_param *p, bool adapters)
{
    int unused;
    bool part = rp__lora_part_of(p->path, &unused) != RP_LORA_NONE;

    if (p->owner) return adapters && p->owner->beside;      /* peft's files have a tied weight under both names */
    return adapters ? part || p->beside : !part;
}

/* Whether the file has [in, out] of a weight that is stored quantised, as [out, in]. */
static bool is_turned(const rp_model_config *c, const rp_param *p)
{
    return rp__is_quant(p->whole.dtype) && c->weights_in_out && p->whole.ndim == 2 && globs_match(c->family->gguf_turned, p->path);
}

/* The parameter as it is written. */
static rp_meta written(const rp_model *model, const rp_param *p)
{
    rp_meta m = p->whole;

    if (is_turned(rp__model_config(model), p)) m = rp_meta_2d(m.dtype, m.dim[1], m.dim[0]);
    if (rp__is_quant(m.dtype)) m.dtype = rp__model_dtype(model);
    return m;
}

static int64_t pieces_of(const rp_family *f, const rp_param *p)
{
    return rp__weight_in_pieces(f->name, f->n_names, p->path) ? p->whole.dim[0] : 1;
}

static int count_wanted(rp_model *model, bool adapters)
{
    const rp_family *f = rp__model_config(model)->family;
    int n              = 0;

    for (rp_module *root = rp__model_root(model), *m = root; m; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++)
            if (is_wanted(&m->param[i], adapters)) n += (int)pieces_of(f, &m->param[i]);
    return n;
}

static bool name_one(const rp_model_config *c, const rp_param *p, int64_t piece, bool adapters, char out[RP_WEIGHT_NAME_CHARS])
{
    const rp_family *f = c->family;

    return adapters ? rp__adapter_name_theirs(c, p->path, out) : rp__weight_piece_theirs(f->name, f->n_names, p->path, piece, out);
}

static rp_status name_pieces(const rp_model *model, const rp_module *m, const rp_param *p, bool adapters, named *to)
{
    const rp_model_config *c = rp__model_config(model);
    const rp_family *f       = c->family;
    int64_t pieces           = pieces_of(f, p);
    rp_meta each             = written(model, p);

    RP_TRY(rp__tensor_needs_data(p->tensor, "rp__model_export"));
    if (rp__weight_in_pieces(f->name, f->n_names, p->path)) each = rp_meta_make(each.dtype, each.ndim - 1, each.dim + 1);
    for (int64_t i = 0, elems = rp_meta_elems(&each); i < pieces; i++) {
        to[i] = (named){ .param = p, .module = m, .m = each, .from = i * elems, .to = (i + 1) * elems };
        RP_BUG_IF(!name_one(c, p, i, adapters, to[i].name));
    }
    return RP_OK;
}

static rp_status name_all(rp_model *model, bool adapters, named *all, rp_safetensor *tensor)
{
    const rp_model_config *c = rp__model_config(model);
    int n                    = 0;

    for (rp_module *root = rp__model_root(model), *m = root; m; m = rp__module_next(root, m))
        for (int i = 0; i < m->n_params; i++) {
            if (!is_wanted(&m->param[i], adapters)) continue;
            RP_TRY(name_pieces(model, m, &m->param[i], adapters, all + n));
            n += (int)pieces_of(c->family, &m->param[i]);
        }
    qsort(all, (size_t)n, sizeof *all, by_name);
    for (int i = 0; i < n; i++) tensor[i] = declared(&all[i]);
    return RP_OK;
}

/* ---- weights ---- */

typedef struct exporter exporter;
struct exporter {
    rp_ctx *ctx;
    const rp_model *model;
    const char *directory;
    int64_t max_shard_bytes;            /* 0: the default of the writer */
    bool adapters;                      /* write only the adapters, in a file of peft's format */
    int n, rank, ranks;                 /* rank: among those that hold the weights together */
    bool brings, writes;                /* brings: this rank belongs to the first copy; writes: it is rank 0 of all */
    named *all;
    rp_safetensor *tensor;
    rp_safetensors_writer *writer;      /* only on the rank that writes */
    void *window;                       /* host memory for elements that the host cannot address directly; NULL: not needed */
    int64_t window_at, window_bytes;
    rp_comm_part *send, *receive;       /* by rank */
    void (*sink)(exporter *x, const rp_param *p, const void *data, int64_t n);     /* receives the elements of a parameter in order */
    int64_t at;                         /* number of elements it has received */
    float *into;
    rp_merge merge;                     /* only on the rank that writes */
    float *magnitude;                   /* room for one magnitude if any adapter has one */
    void *merged;                       /* one merged row */
    void *decoded;                      /* elements of a quantised weight; NULL: there is none */
    int64_t decoded_bytes;
    rp_status status;                   /* of writing */
};

/* Bytes of the window that one parameter needs besides those of its slice. */
static int64_t least_window(const exporter *x, const rp_param *p)
{
    const rp_quant_type *type = rp__quant_type(p->whole.dtype);

    if (!type || p->mapped) return 0;
    return is_turned(rp__model_config(x->model), p) ? rp_meta_bytes(&p->whole) : rp__quant_bytes(type, rp__quant_group(type));
}

/* The window is no larger than the largest slice, so it fits where a gathered weight was during a step. It also holds a group of a quantised weight, and
 * all of one that is transposed. */
static int64_t window_bytes(const exporter *x)
{
    int64_t most = 0, least = 0;

    for (int i = 0; i < x->n; i++) {
        int64_t bytes = rp_meta_bytes(rp_tensor_meta(x->all[i].param->tensor)), need = least_window(x, x->all[i].param);
        if (bytes > most) most = bytes;
        if (need > least) least = need;
    }
    if (most > WINDOW_BYTES) most = WINDOW_BYTES;
    return ((most > least ? most : least) + 3) / 4 * 4;
}

/* Allocated before the first message, so that no rank that others wait for allocates memory. */
static rp_status take_window(exporter *x)
{
    RP_TRY(rp__mem_take(x->ctx, x->ctx->space[x->ctx->host], RP_MEM_COMM, x->window_bytes, "the window of an export", &x->window_at));
    x->window = rp__mem_at(x->ctx->space[x->ctx->host], x->window_at);
    return RP_OK;
}

static void give_window(const exporter *x)
{
    if (x->window) rp__mem_give(x->ctx->space[x->ctx->host], RP_MEM_COMM, x->window_bytes, x->window_at);
}

/* Allocates buffers for the largest adapter if adapters are merged. */
static rp_status prepare_merge(exporter *x)
{
    int64_t a = 0, b = 0, width = 0, out = 0;
    rp_lora_parts parts;

    for (int i = 0; i < x->n && x->writes && !x->adapters; i++) {
        const rp_meta *w = &x->all[i].param->whole;
        if (!rp__lora_parts(x->all[i].module, &parts)) continue;
        if (rp_meta_elems(&parts.a->whole) > a) a = rp_meta_elems(&parts.a->whole);
        if (rp_meta_elems(&parts.b->whole) > b) b = rp_meta_elems(&parts.b->whole);
        if (rp_meta_dim(w, -1) > width) width = rp_meta_dim(w, -1);
        if (rp_meta_dim(w, 0) > width) width = rp_meta_dim(w, 0);       /* it may be written [in, out] */
        if (parts.magnitude && parts.b->whole.dim[0] > out) out = parts.b->whole.dim[0];
    }
    if (!a) return RP_OK;
    x->merge.a     = rp__host_alloc(x->ctx, a * (int64_t)sizeof(float));
    x->merge.b     = x->merge.a ? rp__host_alloc(x->ctx, b * (int64_t)sizeof(float)) : NULL;
    x->merge.delta = x->merge.b ? rp__host_alloc(x->ctx, width * (int64_t)sizeof(float)) : NULL;
    x->merged      = x->merge.delta ? rp__host_alloc(x->ctx, width * (int64_t)sizeof(double)) : NULL;
    if (!x->merged || !out) return x->merged ? RP_OK : RP_ERR_MEMORY;
    x->merge.squares = rp__host_alloc(x->ctx, out * (int64_t)sizeof(double));
    x->magnitude     = x->merge.squares ? rp__host_alloc(x->ctx, out * (int64_t)sizeof(float)) : NULL;
    return x->magnitude ? RP_OK : RP_ERR_MEMORY;
}

static rp_status create(exporter *x)
{
    if (!x->adapters) return rp__safetensors_create_folder(x->ctx, x->directory, x->max_shard_bytes, x->n, x->tensor, 0, NULL, &x->writer);
    char *path       = rp__path_join(x->ctx, x->directory, "adapter_model.safetensors");
    rp_status status = path ? rp__safetensors_create(x->ctx, path, x->n, x->tensor, 0, NULL, &x->writer) : RP_ERR_MEMORY;
    rp__release(path);
    return status;
}

/* The size of a window for decoded elements, which has room for a row of any weight; 0 if no weight is quantised. */
static int64_t decoded_bytes(const exporter *x)
{
    int64_t bytes = 0;

    for (int i = 0; i < x->n; i++) {
        const rp_meta *w = &x->all[i].param->whole;
        int64_t row      = w->dim[0] * (int64_t)sizeof(double), least = row > WINDOW_BYTES ? row : WINDOW_BYTES;
        if (rp__is_quant(w->dtype) && least > bytes) bytes = least;
    }
    return bytes;
}

static rp_status prepare(exporter *x, rp_model *model)
{
    x->all     = rp__host_alloc(x->ctx, x->n * (int64_t)sizeof *x->all);
    x->tensor  = x->all ? rp__host_alloc(x->ctx, x->n * (int64_t)sizeof *x->tensor) : NULL;
    x->send    = x->tensor ? rp__host_alloc(x->ctx, x->ranks * (int64_t)sizeof *x->send) : NULL;
    x->receive = x->send ? rp__host_alloc(x->ctx, x->ranks * (int64_t)sizeof *x->receive) : NULL;
    if (!x->receive) return RP_ERR_MEMORY;
    RP_TRY(name_all(model, x->adapters, x->all, x->tensor));
    RP_TRY(prepare_merge(x));
    x->window_bytes  = window_bytes(x);         /* of the rank that writes; the others send as much at a time */
    x->decoded_bytes = decoded_bytes(x);
    if (!x->writes) return RP_OK;
    if (x->decoded_bytes && !(x->decoded = rp__host_alloc(x->ctx, x->decoded_bytes))) return RP_ERR_MEMORY;
    if (x->ranks > 1 || x->ctx->host) RP_TRY(take_window(x));
    return create(x);
}

static rp_dtype dtype_of(const exporter *x, const rp_param *p) { return rp__is_quant(p->whole.dtype) ? rp__model_dtype(x->model) : p->whole.dtype; }

/* After a failure nothing more is written, but data from other ranks is still received, because they do not know of it yet. */
static void into_file(exporter *x, const rp_param *p, const void *data, int64_t n)
{
    if (x->status == RP_OK) x->status = rp__safetensors_put(x->writer, data, n * rp_dtype_bytes(dtype_of(x, p)));
}

static void into_floats(exporter *x, const rp_param *p, const void *data, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x->into[x->at + i] = p->whole.dtype == RP_BF16 ? rp__f32_from_bf16(((const uint16_t *)data)[i]) :
                             p->whole.dtype == RP_F64 ? (float)((const double *)data)[i] : ((const float *)data)[i];
}

static void into_file_merged(exporter *x, const rp_param *p, const void *data, int64_t n)
{
    int64_t width = rp__merge_width(&x->merge), size = rp_dtype_bytes(dtype_of(x, p));

    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done < width ? n - done : width;
        rp__merge_elems(&x->merge, dtype_of(x, p), x->at + done, part, (const char *)data + done * size, x->merged);
        into_file(x, p, x->merged, part);
    }
}

static void into_norms(exporter *x, const rp_param *p, const void *data, int64_t n)
{
    rp__merge_measure(&x->merge, dtype_of(x, p), x->at, n, data);
}

static void export_put(exporter *x, const rp_param *p, const void *data, int64_t n)
{
    if (x->writes) x->sink(x, p, data, n);
    x->at += n;
}

/* Sends elements [at, at + n) of the owner's slice to rank 0, to element `to` of its window. */
static rp_status bring(exporter *x, const rp_param *p, int owner, int64_t at, int64_t n, int64_t to)
{
    int64_t size     = rp__sliced_bytes(p->whole.dtype);
    const char *mine = x->rank == owner ? (const char *)rp__tensor_data(p->tensor) + at * size : NULL;
    rp_comm_request request;

    x->send[0]        = (rp_comm_part){ 0, mine ? n : 0 };
    x->receive[owner] = (rp_comm_part){ to, x->writes ? n : 0 };
    RP_TRY(rp__comm_exchange(x->ctx, rp__shards(x->ctx), mine, x->send, x->window, x->receive, (int)size, &request));
    RP_TRY(rp__comm_wait(x->ctx, rp__shards(x->ctx), &request, "an export"));
    x->send[0] = x->receive[owner] = (rp_comm_part){ 0, 0 };
    return RP_OK;
}

/* Puts elements of this rank's own slice. */
static void put_own(exporter *x, const rp_param *p, int64_t at, int64_t n)
{
    int64_t size     = rp_dtype_bytes(p->whole.dtype);
    const char *from = (const char *)rp__tensor_data(p->tensor) + at * size;

    if (x->writes && x->ctx->host) {
        rp__mem_copy(x->ctx, x->window, from, n * size);
        rp__mem_sync(x->ctx);
        from = x->window;
    }
    export_put(x, p, from, n);
}

/* ---- quantised weights ---- */

static void convert(rp_dtype dtype, const float *from, int64_t n, int64_t apart, void *to, int64_t at)
{
    for (int64_t i = 0; i < n; i++) {
        if (dtype == RP_BF16) ((uint16_t *)to)[at + i * apart] = rp__bf16_from_f32(from[i]);
        else if (dtype == RP_F64) ((double *)to)[at + i * apart] = (double)from[i];
        else ((float *)to)[at + i * apart] = from[i];
    }
}

/* Decodes elements [at, at + n), in the order of the parameter. */
static void decode_rows(const exporter *x, const rp_param *p, const void *base, int64_t at, int64_t n)
{
    float some[DECODED_ELEMS];

    for (int64_t done = 0, part; done < n; done += part) {
        part = n - done < DECODED_ELEMS ? n - done : DECODED_ELEMS;
        rp__quant_read(rp__quant_type(p->whole.dtype), base, at + done, part, some);
        convert(dtype_of(x, p), some, part, 1, x->decoded, done);
    }
}

/* The same of the transposed parameter, [at, at + n) being whole rows of it. */
static void decode_columns(const exporter *x, const rp_param *p, const void *base, int64_t at, int64_t n)
{
    int64_t out = p->whole.dim[0], in = p->whole.dim[1], first = at / out, rows = n / out;
    float some[DECODED_ELEMS];

    for (int64_t j = 0; j < out; j++)
        for (int64_t k = 0, part; k < rows; k += part) {
            part = rows - k < DECODED_ELEMS ? rows - k : DECODED_ELEMS;
            rp__quant_read(rp__quant_type(p->whole.dtype), base, j * in + first + k, part, some);
            convert(dtype_of(x, p), some, part, out, x->decoded, k * out + j);
        }
}

/* Decodes and puts elements [from, to), of which `base` has the bytes; element `first` of the weight is the first there. */
static void put_decoded(exporter *x, const rp_param *p, const void *base, int64_t first, int64_t from, int64_t to)
{
    bool turned  = is_turned(rp__model_config(x->model), p);
    int64_t unit = turned ? p->whole.dim[0] : 1, step = x->decoded_bytes / rp_dtype_bytes(dtype_of(x, p)) / unit * unit;

    for (int64_t at = from, n; at < to && x->writes; at += n) {
        n = to - at < step ? to - at : step;
        (turned ? decode_columns : decode_rows)(x, p, base, at - first, n);
        export_put(x, p, x->decoded, n);
    }
}

/* Copies bytes [first, first + count) of a weight to the window of rank 0. */
static rp_status collect(exporter *x, const rp_param *p, int64_t first, int64_t count)
{
    for (int owner = 0; owner < x->ranks; owner++) {
        rp_slice s   = rp__slice_in(x->ctx, rp_meta_bytes(&p->whole), owner, x->ranks);
        int64_t from = first > s.first ? first : s.first, end = first + count < s.first + s.count ? first + count : s.first + s.count;
        if (from >= end) continue;
        if (owner) RP_TRY(bring(x, p, owner, from - s.first, end - from, from - first));
        else if (x->writes) rp__mem_copy(x->ctx, (char *)x->window + (from - first), (const char *)rp__tensor_data(p->tensor) + from, end - from);
    }
    rp__mem_sync(x->ctx);
    return RP_OK;
}

/* A window begins with a group, or a block. A transposed weight needs one window. */
static rp_status put_slices_of_bytes(exporter *x, const rp_param *p, int64_t from, int64_t to)
{
    const rp_quant_type *type = rp__quant_type(p->whole.dtype);
    int64_t elems = rp_meta_elems(&p->whole), unit = rp__quant_group(type), step = x->window_bytes / rp__quant_bytes(type, unit) * unit;

    if (is_turned(rp__model_config(x->model), p)) unit = step = elems;
    for (int64_t at = from, end; at < to; at = end) {
        int64_t first = at / unit * unit, first_byte = rp__quant_bytes(type, first);
        end = first + step < to ? first + step : to;
        RP_TRY(collect(x, p, first_byte, rp__quant_bytes(type, end) - first_byte));
        put_decoded(x, p, x->window, first, at, end);
    }
    return RP_OK;
}

static rp_status put_quant(exporter *x, const rp_param *p, int64_t from, int64_t to)
{
    rp_host h;

    if (x->ranks > 1 && !p->mapped) return put_slices_of_bytes(x, p, from, to);
    if (!x->writes) return RP_OK;
    RP_TRY(rp__tensor_host_all(p->tensor, RP_HOST_READ, &h));
    put_decoded(x, p, h.data, 0, from, to);
    rp__tensor_host_end(&h);
    return RP_OK;
}

/* Puts those of the elements [from, to) that are in the owner's slice. A mapped weight is a slice of rank 0. */
static rp_status put_slice(exporter *x, const rp_param *p, int64_t from, int64_t to, int owner)
{
    rp_slice slice = p->mapped ? p->slice : rp__slice_in(x->ctx, rp_meta_elems(&p->whole), owner, x->ranks);
    int64_t size = rp_dtype_bytes(p->whole.dtype), step = WINDOW_BYTES / size;
    int64_t at = from > slice.first ? from - slice.first : 0, end = to - slice.first < slice.count ? to - slice.first : slice.count;

    for (; at < end; at += step) {
        int64_t n = end - at < step ? end - at : step;
        if (owner) RP_TRY(bring(x, p, owner, at, n, 0));
        if (owner) export_put(x, p, x->window, n);
        else put_own(x, p, at, n);
    }
    return RP_OK;
}

typedef void sink(exporter *x, const rp_param *p, const void *data, int64_t n);

static rp_status put_range(exporter *x, const rp_param *p, int64_t from, int64_t to, sink *into)
{
    x->sink = into;
    x->at   = 0;
    if (rp__is_quant(p->whole.dtype)) return put_quant(x, p, from, to);
    for (int owner = 0; owner < (p->mapped ? 1 : x->ranks); owner++) RP_TRY(put_slice(x, p, from, to, owner));
    return RP_OK;
}

static rp_status put_param(exporter *x, const rp_param *p, sink *into) { return put_range(x, p, 0, rp_meta_elems(&p->whole), into); }

/* Sends the weight to rank 0 one more time, to compute the norms of its rows. */
static rp_status put_norms(exporter *x, const rp_param *weight, const rp_lora_parts *parts)
{
    x->into = x->magnitude;
    RP_TRY(put_param(x, parts->magnitude, into_floats));
    if (x->writes) memset(x->merge.squares, 0, (size_t)x->merge.out * sizeof *x->merge.squares);
    RP_TRY(put_param(x, weight, into_norms));
    x->merge.magnitude = x->magnitude;
    if (x->writes) rp__merge_measured(&x->merge, dtype_of(x, weight));
    return RP_OK;
}

/* Sends the whole adapter to rank 0, then the weight. */
static rp_status put_merged(exporter *x, const named *n, const rp_lora_parts *parts)
{
    const rp_meta *a = &parts->a->whole, *b = &parts->b->whole;

    x->into = x->merge.a;
    RP_TRY(put_param(x, parts->a, into_floats));
    x->into = x->merge.b;
    RP_TRY(put_param(x, parts->b, into_floats));
    x->merge = (rp_merge){ .rank = a->dim[0], .in = a->dim[1], .out = b->dim[0], .scale = rp__lora_scale(&parts->lora),
                           .in_out = parts->in_out || is_turned(rp__model_config(x->model), n->param),
                           .a = x->merge.a, .b = x->merge.b, .delta = x->merge.delta, .row = -1, .squares = x->merge.squares };
    if (parts->magnitude) RP_TRY(put_norms(x, n->param, parts));
    return put_param(x, n->param, into_file_merged);
}

static rp_status put_all(exporter *x)
{
    rp_lora_parts parts;

    for (int i = 0; i < x->n && x->brings; i++) {
        const named *n = &x->all[i];
        bool merges    = !x->adapters && n->param == &n->module->param[0] && rp__lora_parts(n->module, &parts);
        RP_TRY(merges ? put_merged(x, n, &parts) : put_range(x, n->param, n->from, n->to, into_file));
    }
    return x->status != RP_OK ? x->status : rp__mem_check(x->ctx, "an export");
}

static rp_status commit(exporter *x)
{
    rp_safetensors_writer *writer = x->writer;

    x->writer = NULL;
    return writer ? rp__safetensors_commit(writer) : RP_OK;
}

static rp_status write_weights(rp_model *model, const char *directory, int64_t max_shard_bytes, bool adapters)
{
    rp_ctx *ctx = rp__model_ctx(model);
    exporter x  = { .ctx = ctx, .model = model, .directory = directory, .max_shard_bytes = max_shard_bytes, .adapters = adapters,
                    .n = count_wanted(model, adapters),
                    .rank = rp__comm_rank(rp__shards(ctx)), .ranks = rp__comm_ranks(rp__shards(ctx)),
                    .brings = rp__comm_rank(rp__groups(ctx)->replicas) == 0, .writes = rp__comm_rank(rp__world(ctx)) == 0 };
    rp_status status = rp__comm_agree(ctx, rp__world(ctx), prepare(&x, model));

    if (status == RP_OK) status = rp__comm_agree(ctx, rp__world(ctx), rp__file_pages_after(ctx, put_all(&x)));
    if (status == RP_OK) status = commit(&x);
    rp__safetensors_discard(x.writer);
    give_window(&x);
    RP_RELEASE(x.decoded, x.merged, x.magnitude, x.merge.squares, x.merge.delta, x.merge.b, x.merge.a, x.receive, x.send, x.tensor, x.all);
    return status;
}

/* ---- the whole ---- */

rp_status rp__model_export_shards(rp_model *model, const char *directory, int64_t max_shard_bytes)
{
    rp_ctx *ctx      = rp__model_ctx(model);
    rp_status status = write_weights(model, directory, max_shard_bytes, false);

    if (status == RP_OK && rp__comm_rank(rp__world(ctx)) == 0) status = rp__export_config(model, directory);
    return rp__comm_agree(ctx, rp__world(ctx), status);
}

rp_status rp__adapters_export(rp_model *model, const char *base, const char *directory)
{
    rp_ctx *ctx      = rp__model_ctx(model);
    rp_status status = write_weights(model, directory, 0, true);

    if (status == RP_OK && rp__comm_rank(rp__world(ctx)) == 0)
        status = rp__export_json(ctx, rp__adapter_json(model, base), directory, "adapter_config.json");
    return rp__comm_agree(ctx, rp__world(ctx), status);
}

rp_status rp__model_export(rp_model *model, const char *directory) { return rp__model_export_shards(model, directory, 0); }
