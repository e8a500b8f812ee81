/* safetensors/write.c -- the writer: lays out declared tensors in one file or in shards, then fills them in order of declaration.
 *
 *   declared   a F32 | b BF16 | c F32 | d F32            the order in which bytes arrive
 *   shards     [ a b ] [ c d ]                           runs of that order, cut before a shard would exceed its limit
 *   layout     | a | b |  | c | d |                      within a shard by decreasing element size: each tensor is aligned to it
 *
 * A shard's file is created with its first byte and synced after its last, so only one is open at a time. Commit gives all files their
 * names. Only the header is built in memory.
 */
#include "safetensors/internal.h"
#include "base/json_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    int64_t first, n;           /* its tensors: [first, first + n) as declared */
    char *path;
    rp_file_writer *file;       /* NULL until the shard is begun */
} st_shard;

struct rp_safetensors_writer {
    rp_ctx *ctx;
    int64_t n_tensors;
    rp_safetensor *tensor;      /* in order of declaration; file: its shard; offset: within the shard's data, later within its file */
    char *names;
    json_t *metadata;
    char *folder;               /* NULL: a single file */
    int n_shards;
    st_shard *shard;
    int64_t at, done_bytes;     /* the tensor being filled, and how many of its bytes are written */
    rp_file_writer *index;      /* NULL unless commit has started and there are several shards */
    char *stale;                /* file that commit removes at the end */
};

void rp__safetensors_discard(rp_safetensors_writer *w)
{
    if (!w) return;
    for (int i = 0; w->shard && i < w->n_shards; i++) {
        rp__file_discard(w->shard[i].file);
        rp__release(w->shard[i].path);
    }
    rp__file_discard(w->index);
    rp__release(w->stale);
    json_decref(w->metadata);
    RP_RELEASE(w->shard, w->folder, w->names, w->tensor, w);
}

/* ---- declarations ---- */

static rp_status no_memory(rp_ctx *ctx) { return rp_fail(ctx, RP_ERR_MEMORY, "cannot allocate memory for a safetensors header"); }

static rp_status check_declared(rp_ctx *ctx, const rp_safetensor *t)
{
    rp_safetensor sized = *t;

    RP_CHECK(ctx, (unsigned)t->dtype < RP_ST_DTYPES, RP_ERR_ARG, "tensor '%.200s' has the unknown dtype %d", t->name,
             (int)t->dtype);
    RP_CHECK(ctx, t->ndim >= 0 && t->ndim <= RP_SAFETENSORS_MAX_DIM, RP_ERR_ARG,
             "tensor '%.200s' has %d dimensions, at most %d are written", t->name, t->ndim, RP_SAFETENSORS_MAX_DIM);
    for (int i = 0; i < t->ndim; i++)
        RP_CHECK(ctx, t->dim[i] >= 0, RP_ERR_ARG, "dimension %d of tensor '%.200s' is %" PRId64, i, t->name, t->dim[i]);
    RP_CHECK(ctx, rp__st_size(&sized), RP_ERR_ARG, "tensor '%.200s' has a shape whose size overflows", t->name);
    RP_CHECK(ctx, strcmp(t->name, "__metadata__"), RP_ERR_ARG, "a tensor cannot have the reserved name '__metadata__'");
    return RP_OK;
}

/* Copies names, shapes and dtypes, so that the caller may free its own. */
static rp_status copy_declared(rp_safetensors_writer *w, const rp_safetensor *declared)
{
    int64_t names_bytes = 0;

    for (int64_t i = 0; i < w->n_tensors; i++) {
        RP_TRY(check_declared(w->ctx, &declared[i]));
        names_bytes += (int64_t)strlen(declared[i].name) + 1;
    }
    w->tensor = rp__host_alloc(w->ctx, w->n_tensors * (int64_t)sizeof *w->tensor);
    if (w->tensor) w->names = rp__host_alloc(w->ctx, names_bytes);
    if (!w->names) return RP_ERR_MEMORY;
    char *name = w->names;
    for (int64_t i = 0; i < w->n_tensors; i++) {
        size_t length = strlen(declared[i].name) + 1;
        memcpy(name, declared[i].name, length);
        w->tensor[i]      = declared[i];
        w->tensor[i].name = name;
        rp__st_size(&w->tensor[i]);
        name += length;
    }
    return RP_OK;
}

static rp_status check_names(rp_ctx *ctx, const rp_safetensors_writer *w)
{
    json_t *seen     = json_object();
    rp_status status = seen ? RP_OK : no_memory(ctx);

    for (int64_t i = 0; i < w->n_tensors && status == RP_OK; i++) {
        const char *name = w->tensor[i].name;
        json_t *text     = json_string(name);
        if (!text) status = rp_fail(ctx, RP_ERR_ARG, "the tensor name '%.200s' is not UTF-8", name);
        else if (json_object_get(seen, name)) status = rp_fail(ctx, RP_ERR_ARG, "tensor '%.200s' is declared twice", name);
        else if (json_object_set(seen, name, text)) status = no_memory(ctx);
        json_decref(text);
    }
    json_decref(seen);
    return status;
}

static rp_status make_metadata(rp_safetensors_writer *w, int n_pairs, const rp_safetensors_pair *pairs)
{
    w->metadata = json_pack("{s:s}", "format", "pt");
    if (!w->metadata) return no_memory(w->ctx);
    for (int i = 0; i < n_pairs; i++)
        RP_CHECK(w->ctx, !json_object_set_new(w->metadata, pairs[i].key, json_string(pairs[i].value)), RP_ERR_ARG,
                 "the metadata '%.200s' is not UTF-8", pairs[i].key);
    return RP_OK;
}

/* ---- shards ---- */

/* Assigns each tensor to a shard and returns the number of shards. `limit_bytes` < 0: no limit. A larger tensor gets a shard of its own. */
static int assign_shards(rp_safetensors_writer *w, int64_t limit_bytes)
{
    int64_t used = 0;
    int shard    = 0;

    for (int64_t i = 0; i < w->n_tensors; i++) {
        int64_t bytes = w->tensor[i].bytes;
        bool full     = limit_bytes >= 0 && used > 0 && (bytes > limit_bytes || used > limit_bytes - bytes);
        if (full) {
            shard++;
            used = 0;
        }
        w->tensor[i].file = shard;
        if (__builtin_add_overflow(used, bytes, &used)) used = INT64_MAX;      /* refused when the shard is laid out */
    }
    return shard + 1;
}

static char *shard_path(const rp_safetensors_writer *w, const char *path, int i)
{
    char name[64];

    if (!w->folder) return rp__host_text(w->ctx, path);
    if (w->n_shards == 1) return rp__path_join(w->ctx, w->folder, ST_SINGLE_NAME);
    snprintf(name, sizeof name, "model-%05d-of-%05d.safetensors", i + 1, w->n_shards);
    return rp__path_join(w->ctx, w->folder, name);
}

static rp_status make_shards(rp_safetensors_writer *w, const char *path, int64_t limit_bytes)
{
    w->n_shards = assign_shards(w, limit_bytes);
    w->shard    = rp__host_alloc(w->ctx, w->n_shards * (int64_t)sizeof *w->shard);
    if (!w->shard) return RP_ERR_MEMORY;
    for (int i = 0; i < w->n_shards; i++)
        if (!(w->shard[i].path = shard_path(w, path, i))) return RP_ERR_MEMORY;
    for (int64_t i = w->n_tensors - 1; i >= 0; i--) {
        st_shard *s = &w->shard[w->tensor[i].file];
        s->first    = i;
        s->n++;
    }
    return RP_OK;
}

/* ---- one shard's file ---- */

static rp_status add_entry(json_t *top, rp_ctx *ctx, const rp_safetensor *t)
{
    json_t *shape = json_array();
    int failed    = !shape;

    for (int i = 0; i < t->ndim && !failed; i++) failed = json_array_append_new(shape, json_integer(t->dim[i]));
    if (failed) {
        json_decref(shape);
        return no_memory(ctx);
    }
    json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", rp__st_dtypes[t->dtype].name, "shape", shape, "data_offsets",
                              (json_int_t)t->offset, (json_int_t)(t->offset + t->bytes));
    return json_object_set_new(top, t->name, entry) ? no_memory(ctx) : RP_OK;
}

/* Adds entries in the order of the data: element sizes 8, 4, 2, 1. Offsets are relative to the data until the header's length is known. */
static rp_status lay_out(rp_safetensors_writer *w, const st_shard *s, json_t *top)
{
    int64_t at = 0;

    for (int64_t size = 8; size >= 1; size /= 2)
        for (int64_t i = s->first; i < s->first + s->n; i++) {
            rp_safetensor *t = &w->tensor[i];
            if (rp__st_dtypes[t->dtype].bytes != size) continue;
            RP_CHECK(w->ctx, !__builtin_add_overflow(at, t->bytes, &at), RP_ERR_ARG, "the tensors of '%s' overflow a file's size",
                     s->path);
            t->offset = at - t->bytes;
            RP_TRY(add_entry(top, w->ctx, t));
        }
    return RP_OK;
}

/* The header is padded with spaces so that the data begins at a multiple of 8. */
static rp_status write_header(rp_safetensors_writer *w, st_shard *s, json_t *top)
{
    char *text = rp__json_text(top, JSON_COMPACT), spaces[8] = "       ";

    if (!text) return no_memory(w->ctx);
    int64_t bytes    = (int64_t)strlen(text), padding = (8 - bytes % 8) % 8;
    uint64_t n       = (uint64_t)(bytes + padding);
    rp_status status = rp__file_put(s->file, &n, sizeof n);
    if (status == RP_OK) status = rp__file_put(s->file, text, bytes);
    if (status == RP_OK) status = rp__file_put(s->file, spaces, padding);
    free(text);
    for (int64_t i = s->first; i < s->first + s->n; i++) w->tensor[i].offset += (int64_t)(n + sizeof n);
    return status;
}

static rp_status begin_shard(rp_safetensors_writer *w, st_shard *s)
{
    json_t *top      = json_pack("{s:O}", "__metadata__", w->metadata);
    rp_status status = top ? lay_out(w, s, top) : no_memory(w->ctx);

    if (status == RP_OK) status = rp__file_create(w->ctx, s->path, &s->file);
    if (status == RP_OK) status = write_header(w, s, top);
    json_decref(top);
    return status;
}

/* Skips the tensors that are complete (empty ones at once), and begins and syncs shards on the way. */
static rp_status write_settle(rp_safetensors_writer *w)
{
    while (w->at < w->n_tensors) {
        const rp_safetensor *t = &w->tensor[w->at];
        st_shard *s            = &w->shard[t->file];
        if (!s->file) RP_TRY(begin_shard(w, s));
        if (w->done_bytes < t->bytes) return RP_OK;
        w->done_bytes = 0;
        if (++w->at == s->first + s->n) RP_TRY(rp__file_sync(s->file));
    }
    return RP_OK;
}

/* ---- public functions ---- */

static rp_status new_writer(rp_ctx *ctx, const char *path, const char *folder, int64_t limit_bytes, int64_t n_tensors,
                            const rp_safetensor *declared, int n_pairs, const rp_safetensors_pair *pairs,
                            rp_safetensors_writer **out)
{
    rp_safetensors_writer *w = rp__host_alloc(ctx, sizeof *w);
    rp_status status;

    if (!w) return RP_ERR_MEMORY;
    w->ctx       = ctx;
    w->n_tensors = n_tensors;
    RP_TRY_GOTO(copy_declared(w, declared));
    RP_TRY_GOTO(check_names(ctx, w));
    RP_TRY_GOTO(make_metadata(w, n_pairs, pairs));
    if (folder) {
        w->folder = rp__host_text(ctx, folder);
        RP_TRY_GOTO(w->folder ? RP_OK : RP_ERR_MEMORY);
    }
    RP_TRY_GOTO(make_shards(w, path, limit_bytes));
    if (n_tensors == 0) RP_TRY_GOTO(begin_shard(w, &w->shard[0]));
    RP_TRY_GOTO(write_settle(w));
done:
    if (status == RP_OK) *out = w;
    else rp__safetensors_discard(w);
    return status;
}

rp_status rp__safetensors_create(rp_ctx *ctx, const char *path, int64_t n_tensors, const rp_safetensor *declared, int n_pairs,
                                 const rp_safetensors_pair *pairs, rp_safetensors_writer **out)
{
    return new_writer(ctx, path, NULL, -1, n_tensors, declared, n_pairs, pairs, out);
}

rp_status rp__safetensors_create_folder(rp_ctx *ctx, const char *folder, int64_t max_shard_bytes, int64_t n_tensors,
                                        const rp_safetensor *declared, int n_pairs, const rp_safetensors_pair *pairs,
                                        rp_safetensors_writer **out)
{
    RP_CHECK(ctx, max_shard_bytes >= 0, RP_ERR_ARG, "a shard cannot have %" PRId64 " bytes", max_shard_bytes);
    if (max_shard_bytes == 0) max_shard_bytes = RP_SHARD_BYTES;
    return new_writer(ctx, NULL, folder, max_shard_bytes, n_tensors, declared, n_pairs, pairs, out);
}

rp_status rp__safetensors_put(rp_safetensors_writer *w, const void *data, int64_t bytes)
{
    const uint8_t *from = data;

    while (bytes > 0) {
        RP_CHECK(w->ctx, w->at < w->n_tensors, RP_ERR_ARG, "%" PRId64 " bytes were put after the last declared tensor", bytes);
        const rp_safetensor *t = &w->tensor[w->at];
        int64_t n              = t->bytes - w->done_bytes < bytes ? t->bytes - w->done_bytes : bytes;
        RP_TRY(rp__file_put_at(w->shard[t->file].file, t->offset + w->done_bytes, from, n));
        w->done_bytes += n;
        from += n;
        bytes -= n;
        RP_TRY(write_settle(w));
    }
    return RP_OK;
}

/* ---- commit ---- */

static rp_status fill_index(rp_safetensors_writer *w, json_t *weight_map, int64_t *total_bytes, int64_t *total_elems)
{
    for (int64_t i = 0; i < w->n_tensors; i++) {
        const rp_safetensor *t = &w->tensor[i];
        json_t *name           = json_string(strrchr(w->shard[t->file].path, '/') + 1);
        if (json_object_set_new(weight_map, t->name, name)) return no_memory(w->ctx);
        *total_bytes += t->bytes;
        *total_elems += t->elems;
    }
    return RP_OK;
}

/* Writes the index in the format of transformers: sorted keys, indented by two, a line feed at the end. */
static rp_status write_index(rp_safetensors_writer *w)
{
    json_t *weight_map = json_object();
    int64_t bytes = 0, elems = 0;
    rp_status status   = weight_map ? fill_index(w, weight_map, &bytes, &elems) : no_memory(w->ctx);
    json_t *top        = NULL;

    if (status == RP_OK) top = json_pack("{s:{s:I, s:I}, s:O}", "metadata", "total_parameters", (json_int_t)elems, "total_size",
                                         (json_int_t)bytes, "weight_map", weight_map);
    char *text = top ? rp__json_text(top, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    if (text) {
        size_t length = strlen(text);
        text[length]  = '\n';       /* replaces the terminator, which a file does not need */
        status        = rp__file_put(w->index, text, (int64_t)length + 1);
    } else if (status == RP_OK) {
        status = no_memory(w->ctx);
    }
    free(text);
    json_decref(top);
    json_decref(weight_map);
    return status == RP_OK ? rp__file_sync(w->index) : status;
}

/* Readers prefer model.safetensors to an index, so the one that does not belong to this save is stale. Every step that needs memory or disk
 * space runs before the first file gets its name. */
static rp_status prepare_folder(rp_safetensors_writer *w)
{
    bool sharded = w->n_shards > 1;
    char *index  = sharded ? rp__path_join(w->ctx, w->folder, ST_INDEX_NAME) : NULL;

    if (sharded && !index) return RP_ERR_MEMORY;
    rp_status status = sharded ? rp__file_create(w->ctx, index, &w->index) : RP_OK;
    rp__release(index);
    if (status == RP_OK && sharded) status = write_index(w);
    if (status != RP_OK) return status;
    w->stale = rp__path_join(w->ctx, w->folder, sharded ? ST_SINGLE_NAME : ST_INDEX_NAME);
    return w->stale ? RP_OK : RP_ERR_MEMORY;
}

static rp_status commit_one(rp_file_writer **file)
{
    rp_file_writer *ending = *file;

    *file = NULL;                   /* rp__file_commit frees it whatever the status */
    return rp__file_commit(ending);
}

static rp_status commit_all(rp_safetensors_writer *w)
{
    if (w->folder) RP_TRY(prepare_folder(w));
    for (int i = 0; i < w->n_shards; i++) RP_TRY(commit_one(&w->shard[i].file));
    if (w->index) RP_TRY(commit_one(&w->index));
    RP_CHECK(w->ctx, !w->stale || !unlink(w->stale) || errno == ENOENT, RP_ERR_IO, "cannot remove '%s': %s", w->stale,
             strerror(errno));
    return RP_OK;
}

rp_status rp__safetensors_commit(rp_safetensors_writer *w)
{
    rp_status status;

    if (w->at == w->n_tensors) status = commit_all(w);
    else status = rp_fail(w->ctx, RP_ERR_STATE, "tensor '%.200s' lacks %" PRId64 " of its %" PRId64 " bytes",
                          w->tensor[w->at].name, w->tensor[w->at].bytes - w->done_bytes, w->tensor[w->at].bytes);
    rp__safetensors_discard(w);
    return status;
}
