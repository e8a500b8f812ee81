/* gguf/write.c -- the writer: metadata and tensor infos in memory, then the tensors' bytes, each padded to the alignment. */
#include "gguf/write.h"

#include <math.h>

#include "base/list.h"
#include "gguf/internal.h"

typedef struct {
    int64_t name, name_bytes;           /* in `names` */
    uint32_t type;
    int ndim;
    int64_t dim[4], bytes;
} out_tensor;

struct rp_gguf_writer {
    rp_ctx *ctx;
    char *path;
    rp_bytes values, names;
    int64_t n_values, alignment;
    out_tensor *tensor;
    int64_t n_tensors, room;
    rp_file_writer *file;               /* NULL until the first put */
    int64_t at, done_bytes;             /* the tensor being filled, and how many of its bytes are written */
};

rp_status rp__gguf_create(rp_ctx *ctx, const char *path, rp_gguf_writer **out)
{
    rp_gguf_writer *w = rp__host_alloc(ctx, sizeof *w);

    if (!w) return RP_ERR_MEMORY;
    *w = (rp_gguf_writer){ .ctx = ctx, .alignment = DEFAULT_ALIGNMENT, .path = rp__host_text(ctx, path) };
    if (!w->path) {
        rp__release(w);
        return RP_ERR_MEMORY;
    }
    *out = w;
    return RP_OK;
}

void rp__gguf_discard(rp_gguf_writer *w)
{
    if (!w) return;
    rp__file_discard(w->file);
    RP_RELEASE(w->tensor, w->names.at, w->values.at, w->path, w);
}

/* ---- metadata ---- */

static rp_status put(rp_gguf_writer *w, const void *data, int64_t bytes) { return rp__bytes_push(w->ctx, &w->values, data, bytes); }

static rp_status put_text(rp_gguf_writer *w, rp_gguf_string text)
{
    uint64_t n = (uint64_t)text.bytes;

    RP_TRY(put(w, &n, sizeof n));
    return put(w, text.text, text.bytes);
}

static rp_status put_key(rp_gguf_writer *w, const char *key, uint32_t type)
{
    RP_TRY(put_text(w, rp__gguf_text(key)));
    w->n_values++;
    return put(w, &type, sizeof type);
}

static rp_status put_array(rp_gguf_writer *w, const char *key, uint32_t type, int64_t n)
{
    uint64_t count = (uint64_t)n;

    RP_TRY(put_key(w, key, GARRAY));
    RP_TRY(put(w, &type, sizeof type));
    return put(w, &count, sizeof count);
}

rp_status rp__gguf_add_u32(rp_gguf_writer *w, const char *key, uint32_t value)
{
    RP_TRY(put_key(w, key, GU32));
    return put(w, &value, sizeof value);
}

rp_status rp__gguf_add_f32(rp_gguf_writer *w, const char *key, float value)
{
    RP_TRY(put_key(w, key, GF32));
    return put(w, &value, sizeof value);
}

rp_status rp__gguf_add_bool(rp_gguf_writer *w, const char *key, bool value)
{
    uint8_t byte = value;

    RP_TRY(put_key(w, key, GBOOL));
    return put(w, &byte, sizeof byte);
}

rp_status rp__gguf_add_text(rp_gguf_writer *w, const char *key, rp_gguf_string value)
{
    RP_TRY(put_key(w, key, GSTRING));
    return put_text(w, value);
}

rp_status rp__gguf_add_i32s(rp_gguf_writer *w, const char *key, const int32_t *value, int64_t n)
{
    RP_TRY(put_array(w, key, GI32, n));
    return put(w, value, n * (int64_t)sizeof *value);
}

rp_status rp__gguf_add_f32s(rp_gguf_writer *w, const char *key, const float *value, int64_t n)
{
    RP_TRY(put_array(w, key, GF32, n));
    return put(w, value, n * (int64_t)sizeof *value);
}

rp_status rp__gguf_begin_texts(rp_gguf_writer *w, const char *key, int64_t n) { return put_array(w, key, GSTRING, n); }

rp_status rp__gguf_add_item(rp_gguf_writer *w, rp_gguf_string text) { return put_text(w, text); }

rp_status rp__gguf_add_copy(rp_gguf_writer *w, const rp_gguf_value *value)
{
    const gguf_value_entry *e = (const gguf_value_entry *)value;

    if (!strcmp(value->key, "general.alignment")) w->alignment = value->i;      /* the reader has checked it */
    RP_TRY(put_key(w, value->key, e->type));
    return put(w, e->raw, e->raw_bytes);
}

typedef struct { char magic[4]; uint32_t version; uint64_t n_tensors, n_values; } file_head;

static file_head head_of(const rp_gguf_writer *w, int64_t n_tensors)
{
    return (file_head){ { 'G', 'G', 'U', 'F' }, 3, (uint64_t)n_tensors, (uint64_t)w->n_values };
}

rp_status rp__gguf_peek(rp_gguf_writer *w, rp_bytes *held, rp_gguf **out)
{
    const file_head head = head_of(w, 0);

    RP_TRY(rp__bytes_push(w->ctx, held, (const char *)&head, sizeof head));
    RP_TRY(rp__bytes_push(w->ctx, held, w->values.at, w->values.n));
    return rp__gguf_open_bytes(w->ctx, w->path, held->at, held->n, out);
}

/* ---- types ---- */

static const rp_gguf_type *type_of(const char *name)
{
    int id = rp__gguf_type_id(name);

    return id < 0 ? NULL : rp__gguf_type((uint32_t)id);
}

bool rp__gguf_can_write(const char *type) { return type_of(type) && type_of(type)->quantise; }
uint32_t rp__gguf_file_type(const char *type) { return (uint32_t)type_of(type)->file_type; }
int64_t rp__gguf_block_elems(const char *type) { return type_of(type)->block_elems; }
int64_t rp__gguf_bytes_of(const char *type, int64_t elems) { return elems / type_of(type)->block_elems * type_of(type)->block_bytes; }

bool rp__gguf_quantise(const char *type, const float *from, int64_t elems, void *to)
{
    const rp_gguf_type *t = type_of(type);
    float range           = t->range > 0 ? t->range : INFINITY;
    bool fits             = true;

    for (int64_t i = 0; i < elems; i++) fits &= isfinite(from[i]) && fabsf(from[i]) <= range;
    if (fits) t->quantise(from, elems, to);
    return fits;
}

/* ---- tensors ---- */

rp_status rp__gguf_add_tensor(rp_gguf_writer *w, const char *name, const char *type, int ndim, const int64_t *dim)
{
    int64_t elems = 1, n = (int64_t)strlen(name);

    RP_TRY(RP_GROW(w->ctx, w->tensor, w->room, w->n_tensors + 1));
    out_tensor *t = &w->tensor[w->n_tensors];
    *t            = (out_tensor){ .name = w->names.n, .name_bytes = n, .type = (uint32_t)rp__gguf_type_id(type), .ndim = ndim };
    for (int i = 0; i < ndim; i++) {
        t->dim[i] = dim[i];
        elems *= dim[i];
    }
    t->bytes = rp__gguf_bytes_of(type, elems);
    RP_TRY(rp__bytes_push(w->ctx, &w->names, name, n));
    w->n_tensors++;
    return RP_OK;
}

static int64_t padding_of(const rp_gguf_writer *w, int64_t bytes) { return (w->alignment - bytes % w->alignment) % w->alignment; }

static rp_status put_infos(rp_gguf_writer *w)
{
    uint64_t offset = 0;

    for (int64_t i = 0; i < w->n_tensors; i++) {
        const out_tensor *t = &w->tensor[i];
        uint32_t ndim       = (uint32_t)t->ndim;
        RP_TRY(put_text(w, (rp_gguf_string){ w->names.at + t->name, t->name_bytes }));
        RP_TRY(put(w, &ndim, sizeof ndim));
        for (int k = t->ndim - 1; k >= 0; k--) RP_TRY(put(w, &(uint64_t){ (uint64_t)t->dim[k] }, sizeof(uint64_t)));
        RP_TRY(put(w, &t->type, sizeof t->type));
        RP_TRY(put(w, &offset, sizeof offset));
        offset += (uint64_t)(t->bytes + padding_of(w, t->bytes));
    }
    return RP_OK;
}

static rp_status pad(rp_gguf_writer *w, int64_t bytes)
{
    static const uint8_t zeros[256];

    for (int64_t n = padding_of(w, bytes), part; n > 0; n -= part) {
        part = n < (int64_t)sizeof zeros ? n : (int64_t)sizeof zeros;
        RP_TRY(rp__file_put(w->file, zeros, part));
    }
    return RP_OK;
}

/* Creates the file and writes everything in front of the tensors. */
static rp_status begin(rp_gguf_writer *w)
{
    const file_head head = head_of(w, w->n_tensors);

    RP_TRY(put_infos(w));
    RP_TRY(rp__file_create(w->ctx, w->path, &w->file));
    RP_TRY(rp__file_put(w->file, &head, sizeof head));
    RP_TRY(rp__file_put(w->file, w->values.at, w->values.n));
    return pad(w, (int64_t)sizeof head + w->values.n);
}

/* Pads and passes the tensors that are complete; empty ones at once. */
static rp_status settle(rp_gguf_writer *w)
{
    while (w->at < w->n_tensors && w->done_bytes == w->tensor[w->at].bytes) {
        RP_TRY(pad(w, w->done_bytes));
        w->done_bytes = 0;
        w->at++;
    }
    return RP_OK;
}

rp_status rp__gguf_put(rp_gguf_writer *w, const void *data, int64_t bytes)
{
    const uint8_t *from = data;

    if (!w->file) RP_TRY(begin(w));
    RP_TRY(settle(w));
    while (bytes > 0) {
        RP_CHECK(w->ctx, w->at < w->n_tensors, RP_ERR_ARG, "'%s' gets %" PRId64 " bytes more than its tensors have", w->path, bytes);
        int64_t left = w->tensor[w->at].bytes - w->done_bytes, n = left < bytes ? left : bytes;
        RP_TRY(rp__file_put(w->file, from, n));
        w->done_bytes += n;
        from += n;
        bytes -= n;
        RP_TRY(settle(w));
    }
    return RP_OK;
}

rp_status rp__gguf_commit(rp_gguf_writer *w)
{
    rp_status status = rp__gguf_put(w, NULL, 0);

    if (status == RP_OK && w->at < w->n_tensors) {
        const out_tensor *t = &w->tensor[w->at];
        status = rp_fail(w->ctx, RP_ERR_STATE, "'%s' lacks %" PRId64 " bytes of tensor '%.*s'", w->path, t->bytes - w->done_bytes,
                         (int)t->name_bytes, w->names.at + t->name);
    }
    rp_file_writer *file = w->file;
    w->file              = status == RP_OK ? NULL : file;
    if (status == RP_OK) status = rp__file_commit(file);
    rp__gguf_discard(w);
    return status;
}
