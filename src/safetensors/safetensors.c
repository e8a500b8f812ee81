/* safetensors/safetensors.c -- the reader: checks a header against its file, finds tensors by name and reads them.
 *
 * Sorted by offset, the tensors must cover the data exactly: the first begins at 0, each begins where the one before it ends, and the last
 * ends at the end of the file. The format requires this. It rules out overlaps, gaps and hidden bytes.
 */
#include "safetensors/internal.h"
#include "base/json_text.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

#define NAME "%.200s"           /* tensor names in messages are cut: they come from a file and may be very long */

const st_dtype rp__st_dtypes[RP_ST_DTYPES] = {
    [RP_ST_BOOL] = { "BOOL", 1, rp__convert_bool }, [RP_ST_U8] = { "U8", 1, rp__convert_u8 },
    [RP_ST_I8] = { "I8", 1, rp__convert_i8 },       [RP_ST_F8_E5M2] = { "F8_E5M2", 1, rp__convert_f8_e5m2 },
    [RP_ST_F8_E4M3] = { "F8_E4M3", 1, rp__convert_f8_e4m3 },       [RP_ST_I16] = { "I16", 2, rp__convert_i16 },
    [RP_ST_U16] = { "U16", 2, rp__convert_u16 },    [RP_ST_F16] = { "F16", 2, rp__convert_f16 },
    [RP_ST_BF16] = { "BF16", 2, rp__convert_bf16 }, [RP_ST_I32] = { "I32", 4, rp__convert_i32 },
    [RP_ST_U32] = { "U32", 4, rp__convert_u32 },    [RP_ST_F32] = { "F32", 4, rp__convert_f32 },
    [RP_ST_F64] = { "F64", 8, rp__convert_f64 },    [RP_ST_I64] = { "I64", 8, rp__convert_i64 },
    [RP_ST_U64] = { "U64", 8, rp__convert_u64 },
};

const char *rp__safetensors_dtype_name(rp_safetensors_dtype dtype) { return rp__st_dtypes[dtype].name; }
int64_t rp__safetensors_dtype_bytes(rp_safetensors_dtype dtype) { return rp__st_dtypes[dtype].bytes; }

rp_safetensors_dtype rp__safetensors_dtype_of(rp_dtype dtype)
{
    static const rp_safetensors_dtype of[RP_DTYPES] = {
        [RP_F32] = RP_ST_F32, [RP_BF16] = RP_ST_BF16, [RP_I32] = RP_ST_I32, [RP_F64] = RP_ST_F64,
        [RP_U8] = RP_ST_U8,
    };

    RP_BUG_IF((unsigned)dtype >= RP_DTYPES);
    return of[dtype];
}

rp_status rp__st_json(rp_ctx *ctx, const char *label, const char *text, int64_t bytes, json_t **out)
{
    json_error_t error = { .text = "" };
    json_t *top        = rp__fault_fires(ctx) ? NULL : rp__json_read(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &error);
    bool no_memory     = !top && (!error.text[0] || json_error_code(&error) == json_error_out_of_memory);

    RP_CHECK(ctx, !no_memory, RP_ERR_MEMORY, "cannot allocate memory for the JSON of '%s'", label);
    RP_CHECK(ctx, top, RP_ERR_FORMAT, "'%s' has malformed JSON at byte %d: %s", label, error.position, error.text);
    if (!json_is_object(top)) {
        json_decref(top);
        return rp_fail(ctx, RP_ERR_FORMAT, "'%s' has JSON that is not an object", label);
    }
    *out = top;
    return RP_OK;
}

bool rp__st_size(rp_safetensor *t)
{
    t->elems = 1;
    for (int i = 0; i < t->ndim; i++)
        if (__builtin_mul_overflow(t->elems, t->dim[i], &t->elems)) return false;
    return !__builtin_mul_overflow(t->elems, rp__st_dtypes[t->dtype].bytes, &t->bytes);
}

/* ---- one file's header ---- */

typedef struct {
    rp_ctx *ctx;
    const char *label;
    int64_t data_at, data_bytes;
} header;

static rp_status parse_dtype(const header *h, const char *name, const json_t *text, rp_safetensor *t)
{
    RP_CHECK(h->ctx, json_is_string(text), RP_ERR_FORMAT, "'%s': tensor '" NAME "' has no dtype", h->label, name);
    for (int i = 0; i < RP_ST_DTYPES; i++) {
        if (strcmp(json_string_value(text), rp__st_dtypes[i].name)) continue;
        t->dtype = (rp_safetensors_dtype)i;
        return RP_OK;
    }
    return rp_fail(h->ctx, RP_ERR_UNSUPPORTED, "'%s': tensor '" NAME "' has the dtype '%.40s', which is not known here", h->label,
                   name, json_string_value(text));
}

static rp_status parse_shape(const header *h, const char *name, const json_t *shape, rp_safetensor *t)
{
    size_t n = json_array_size(shape);

    RP_CHECK(h->ctx, json_is_array(shape), RP_ERR_FORMAT, "'%s': tensor '" NAME "' has no shape", h->label, name);
    RP_CHECK(h->ctx, n <= RP_SAFETENSORS_MAX_DIM, RP_ERR_UNSUPPORTED,
             "'%s': tensor '" NAME "' has %zu dimensions, at most %d are read", h->label, name, n, RP_SAFETENSORS_MAX_DIM);
    t->ndim = (int)n;
    for (int i = 0; i < t->ndim; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        t->dim[i]         = json_integer_value(dim);
        RP_CHECK(h->ctx, json_is_integer(dim) && t->dim[i] >= 0, RP_ERR_FORMAT,
                 "'%s': dimension %d of tensor '" NAME "' is not a whole number", h->label, i, name);
    }
    RP_CHECK(h->ctx, rp__st_size(t), RP_ERR_FORMAT, "'%s': tensor '" NAME "' has a shape whose size overflows", h->label, name);
    return RP_OK;
}

static rp_status parse_offsets(const header *h, const char *name, const json_t *offsets, rp_safetensor *t)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    int64_t b = json_integer_value(begin), e = json_integer_value(end);

    RP_CHECK(h->ctx, json_array_size(offsets) == 2 && json_is_integer(begin) && json_is_integer(end), RP_ERR_FORMAT,
             "'%s': tensor '" NAME "' has no pair of data offsets", h->label, name);
    RP_CHECK(h->ctx, 0 <= b && b <= e && e <= h->data_bytes, RP_ERR_FORMAT,
             "'%s': tensor '" NAME "' has the data offsets [%" PRId64 ", %" PRId64 "), the file has %" PRId64 " bytes of data%s",
             h->label, name, b, e, h->data_bytes, e > h->data_bytes ? ": it was cut short" : "");
    RP_CHECK(h->ctx, e - b == t->bytes, RP_ERR_FORMAT,
             "'%s': tensor '" NAME "' has %" PRId64 " bytes of data, its shape needs %" PRId64, h->label, name, e - b, t->bytes);
    t->offset = h->data_at + b;
    return RP_OK;
}

static rp_status parse_tensor(const header *h, const char *name, const json_t *entry, rp_safetensor *t)
{
    RP_CHECK(h->ctx, json_is_object(entry), RP_ERR_FORMAT, "'%s': the entry of tensor '" NAME "' is not an object", h->label, name);
    RP_TRY(parse_dtype(h, name, json_object_get(entry, "dtype"), t));
    RP_TRY(parse_shape(h, name, json_object_get(entry, "shape"), t));
    return parse_offsets(h, name, json_object_get(entry, "data_offsets"), t);
}

static rp_status check_metadata(const header *h, json_t *metadata)
{
    const char *key;
    json_t *value;

    RP_CHECK(h->ctx, json_is_object(metadata), RP_ERR_FORMAT, "'%s': '__metadata__' is not an object", h->label);
    json_object_foreach(metadata, key, value)
        RP_CHECK(h->ctx, json_is_string(value), RP_ERR_FORMAT, "'%s': the metadata '" NAME "' is not a string", h->label, key);
    return RP_OK;
}

static int by_offset(const void *left, const void *right)
{
    const rp_safetensor *a = left, *b = right;

    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;      /* empty tensors first */
    return strcmp(a->name, b->name);
}

static rp_status check_cover(const header *h, rp_safetensor *tensor, int64_t n)
{
    int64_t at = h->data_at, end = h->data_at + h->data_bytes;

    if (n) qsort(tensor, (size_t)n, sizeof *tensor, by_offset);
    for (int64_t i = 0; i < n; i++) {
        RP_CHECK(h->ctx, tensor[i].offset == at, RP_ERR_FORMAT, "'%s': the data of tensor '" NAME "' %s", h->label, tensor[i].name,
                 tensor[i].offset < at ? "overlaps another's" : "has a gap before it");
        at += tensor[i].bytes;
    }
    RP_CHECK(h->ctx, at == end, RP_ERR_FORMAT, "'%s' has %" PRId64 " bytes after the data of its last tensor", h->label, end - at);
    return RP_OK;
}

/* Appends the tensors of the header to the set. Their names are copied into one block, which the file owns. */
static rp_status parse_entries(rp_safetensors *set, const header *h, json_t *top)
{
    int file_index       = set->n_files - 1;
    st_file *file        = &set->file[file_index];
    int64_t n            = (int64_t)json_object_size(top), names_bytes = 0;
    const char *key;
    json_t *value;

    json_object_foreach(top, key, value) names_bytes += (int64_t)strlen(key) + 1;
    file->tensor_names = rp__host_alloc(set->ctx, names_bytes);
    if (!file->tensor_names) return RP_ERR_MEMORY;
    RP_TRY(RP_GROW(set->ctx, set->tensor, set->room_tensors, set->n_tensors + n));

    char *name   = file->tensor_names;
    int64_t had  = set->n_tensors;
    json_object_foreach(top, key, value) {
        if (!strcmp(key, "__metadata__")) {
            RP_TRY(check_metadata(h, value));
            file->metadata = json_incref(value);
            continue;
        }
        rp_safetensor t = { .name = name, .file = file_index };
        RP_TRY(parse_tensor(h, key, value, &t));
        size_t length = strlen(key) + 1;
        memcpy(name, key, length);
        name += length;
        set->tensor[set->n_tensors++] = t;
    }
    return check_cover(h, set->tensor ? set->tensor + had : NULL, set->n_tensors - had);      /* NULL: no file had a tensor so far */
}

static rp_status parse_file(rp_safetensors *set, const st_file *file)
{
    rp_ctx *ctx = set->ctx;
    uint64_t n  = 0;
    json_t *top = NULL;
    char *text;

    RP_CHECK(ctx, file->map.bytes >= 8, RP_ERR_FORMAT, "'%s' is no safetensors file: it has %" PRId64 " bytes, too few for a header",
             file->name, file->map.bytes);
    RP_TRY(rp__file_get(ctx, file->name, &file->map, 0, sizeof n, &n));     /* little endian: convert.c does not compile elsewhere */
    RP_CHECK(ctx, n <= (uint64_t)file->map.bytes - 8, RP_ERR_FORMAT,
             "'%s' is no safetensors file, or cut short: its header has %" PRIu64 " bytes, the file has %" PRId64,
             file->name, n, file->map.bytes);
    RP_CHECK(ctx, n <= ST_MAX_HEADER_BYTES, RP_ERR_FORMAT,
             "'%s' is no safetensors file: its header has %" PRIu64 " bytes, at most %" PRId64 " are allowed",
             file->name, n, ST_MAX_HEADER_BYTES);
    header h = { .ctx = ctx, .label = file->name, .data_at = 8 + (int64_t)n, .data_bytes = file->map.bytes - 8 - (int64_t)n };
    if (!(text = rp__host_alloc(ctx, (int64_t)n + 1))) return RP_ERR_MEMORY;
    rp_status status = rp__file_get(ctx, file->name, &file->map, 8, (int64_t)n, text);
    if (status == RP_OK) status = rp__st_json(ctx, file->name, text, (int64_t)n, &top);
    rp__release(text);
    if (status == RP_OK) status = parse_entries(set, &h, top);
    json_decref(top);
    return status;
}

rp_status rp__st_add_file(rp_safetensors *set, const char *path, const rp_file_map *map)
{
    RP_TRY(RP_GROW(set->ctx, set->file, set->room_files, set->n_files + 1));
    st_file file = { .name = rp__host_text(set->ctx, path) };
    if (!file.name) return RP_ERR_MEMORY;
    rp_status status = RP_OK;
    if (map) file.map = *map;
    else status = rp__file_map(set->ctx, path, &file.map);
    set->file[set->n_files++] = file;
    return status == RP_OK ? parse_file(set, &set->file[set->n_files - 1]) : status;
}

/* ---- open and close ---- */

static int by_name(const void *left, const void *right)
{
    const rp_safetensor *a = left, *b = right;
    int order = strcmp(a->name, b->name);

    return order ? order : a->file - b->file;
}

void rp__st_sort(rp_safetensors *set)
{
    if (set->n_tensors) qsort(set->tensor, (size_t)set->n_tensors, sizeof *set->tensor, by_name);
}

/* Without an index, two files may contain a tensor of the same name. The set is refused because either could be meant. */
static rp_status check_names(const rp_safetensors *set)
{
    for (int64_t i = 1; i < set->n_tensors; i++) {
        const rp_safetensor *a = &set->tensor[i - 1], *b = &set->tensor[i];
        RP_CHECK(set->ctx, strcmp(a->name, b->name), RP_ERR_FORMAT, "tensor '" NAME "' is in both '%.200s' and '%.200s'", a->name,
                 set->file[a->file].name, set->file[b->file].name);
    }
    return RP_OK;
}

static rp_status add_path(rp_safetensors *set, const char *path)
{
    if (rp__file_is_dir(path)) return rp__st_open_folder(set, path);
    if (rp__file_exists(path) && rp__safetensors_is_pickle(path)) return rp__safetensors_refuse_pickle(set->ctx, NULL, path);
    return rp__st_add_file(set, path, NULL);
}

static rp_status open_set(rp_ctx *ctx, const char *path, const rp_file_map *map, rp_safetensors **out)
{
    rp_safetensors *set = rp__host_alloc(ctx, sizeof *set);

    if (!set) return RP_ERR_MEMORY;
    set->ctx         = ctx;
    rp_status status = map ? rp__st_add_file(set, path, map) : add_path(set, path);
    if (status == RP_OK) {
        rp__st_sort(set);
        status = check_names(set);
    }
    if (status == RP_OK) *out = set;
    else rp__safetensors_close(set);
    return status;
}

rp_status rp__safetensors_open(rp_ctx *ctx, const char *path, rp_safetensors **out) { return open_set(ctx, path, NULL, out); }

rp_status rp__safetensors_open_bytes(rp_ctx *ctx, const char *label, const void *data, int64_t bytes, rp_safetensors **out)
{
    return open_set(ctx, label, &(rp_file_map){ .data = data, .bytes = bytes }, out);
}

void rp__safetensors_close(rp_safetensors *set)
{
    if (!set) return;
    for (int i = 0; i < set->n_files; i++) {
        rp__file_unmap(&set->file[i].map);
        json_decref(set->file[i].metadata);
        RP_RELEASE(set->file[i].tensor_names, set->file[i].name);
    }
    RP_RELEASE(set->file, set->tensor, set);
}

/* ---- access ---- */

int64_t rp__safetensors_n_tensors(const rp_safetensors *set) { return set->n_tensors; }
const rp_safetensor *rp__safetensors_at(const rp_safetensors *set, int64_t i) { return &set->tensor[i]; }
const char *rp__safetensors_file_name(const rp_safetensors *set, int file) { return set->file[file].name; }

static int compare_name(const void *name, const void *tensor) { return strcmp(name, ((const rp_safetensor *)tensor)->name); }

const rp_safetensor *rp__safetensors_find(const rp_safetensors *set, const char *name)
{
    if (!set->n_tensors) return NULL;
    return bsearch(name, set->tensor, (size_t)set->n_tensors, sizeof *set->tensor, compare_name);
}

const char *rp__safetensors_metadata(const rp_safetensors *set, const char *key)
{
    const char *value = NULL;

    for (int i = 0; i < set->n_files && !value; i++) value = json_string_value(json_object_get(set->file[i].metadata, key));
    return value;
}

const uint8_t *rp__safetensors_bytes(const rp_safetensors *set, const rp_safetensor *tensor)
{
    return set->file[tensor->file].map.data + tensor->offset;
}

rp_status rp__safetensors_get(const rp_safetensors *set, const rp_safetensor *tensor, int64_t start, int64_t bytes, void *to)
{
    const st_file *file = &set->file[tensor->file];

    RP_BUG_IF(start < 0 || bytes < 0 || start > tensor->bytes - bytes);
    return rp__file_get(set->ctx, file->name, &file->map, tensor->offset + start, bytes, to);
}

rp_file_place rp__safetensors_place(const rp_safetensors *set, const rp_safetensor *tensor)
{
    return (rp_file_place){ set->file[tensor->file].name, &set->file[tensor->file].map, tensor->offset };
}

void rp__safetensors_drop(const rp_safetensors *set, const rp_safetensor *tensor)
{
    rp__file_drop(&set->file[tensor->file].map, tensor->offset, tensor->bytes);
}

/* `window`: capacity of `memory` in elements. */
static rp_status read_windows(const rp_safetensors *set, const rp_safetensor *tensor, int64_t start, int64_t count, void *memory, int64_t window,
                              float *out)
{
    const st_dtype *dtype = &rp__st_dtypes[tensor->dtype];
    const st_file *file   = &set->file[tensor->file];

    for (int64_t done = 0; done < count; done += window) {
        int64_t n = count - done < window ? count - done : window, from = tensor->offset + (start + done) * dtype->bytes;
        RP_TRY(rp__file_get(set->ctx, file->name, &file->map, from, n * dtype->bytes, memory));
        dtype->convert(memory, n, out + done);
    }
    return RP_OK;
}

rp_status rp__safetensors_read(const rp_safetensors *set, const rp_safetensor *tensor, int64_t start, int64_t count, float *out)
{
    int64_t size = rp__st_dtypes[tensor->dtype].bytes, window = RP_FILE_WINDOW_BYTES / size;

    RP_CHECK(set->ctx, start >= 0 && count >= 0 && start <= tensor->elems && count <= tensor->elems - start, RP_ERR_ARG,
             "elements [%" PRId64 ", +%" PRId64 ") are outside tensor '" NAME "', which has %" PRId64, start, count, tensor->name,
             tensor->elems);
    if (!count) return RP_OK;
    if (count < window) window = count;
    void *memory = rp__host_alloc(set->ctx, window * size);
    if (!memory) return RP_ERR_MEMORY;
    rp_status status = read_windows(set, tensor, start, count, memory, window, out);
    rp__release(memory);
    return status;
}
