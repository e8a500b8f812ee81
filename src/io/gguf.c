/* io/gguf.c -- the GGUF reader: one pass over the header with a cursor that cannot leave the file.
 *
 * Every step goes through take(), which refuses to pass the end; counts from the file never size an allocation beyond what the
 * file could hold. Strings of arrays get a table of their places, since a tokenizer asks for them in any order. Keys and
 * tensors are found by bisection over pointers sorted by name, and the sorting shows duplicates.
 */
#include "io/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "io/gguf_types.h"

#define NAME "%.200s"           /* a name in a message: it comes from a file and may be very long */
#define DEFAULT_ALIGNMENT 32

enum { GU8, GI8, GU16, GI16, GU32, GI32, GF32, GBOOL, GSTRING, GARRAY, GU64, GI64, GF64, GTYPES };

static const struct { rp_gguf_kind kind; int64_t bytes; } value_types[GTYPES] = {
    [GU8] = { RP_GGUF_UINT, 1 },    [GI8] = { RP_GGUF_INT, 1 },   [GU16] = { RP_GGUF_UINT, 2 },  [GI16] = { RP_GGUF_INT, 2 },
    [GU32] = { RP_GGUF_UINT, 4 },   [GI32] = { RP_GGUF_INT, 4 },  [GF32] = { RP_GGUF_FLOAT, 4 }, [GBOOL] = { RP_GGUF_BOOL, 1 },
    [GSTRING] = { RP_GGUF_STRING, 0 }, [GARRAY] = { RP_GGUF_ARRAY, 0 }, [GU64] = { RP_GGUF_UINT, 8 },  [GI64] = { RP_GGUF_INT, 8 },
    [GF64] = { RP_GGUF_FLOAT, 8 },
};

typedef struct {                /* `v` comes first: a pointer to it is a pointer to the entry */
    rp_gguf_value v;
    char *key;
    uint32_t element_type;
    const uint8_t *data;        /* of an array of numbers */
    rp_gguf_string *strings;    /* of an array of strings */
} value_entry;

typedef struct {
    rp_gguf_tensor t;
    char *name;
    const rp_gguf_type *type;
    int64_t offset;             /* in the data; then in the file */
} tensor_entry;

struct rp_gguf {
    rp_ctx *ctx;
    char *label;
    rp_file_map map;
    int64_t at;                 /* the cursor */
    int64_t n_values, n_tensors;
    value_entry *value;
    tensor_entry *tensor;
    value_entry **by_key;
    tensor_entry **by_name, **by_offset;
};

/* ---- the cursor ---- */

/* NULL after recording RP_ERR_FORMAT. */
static const uint8_t *take(rp_gguf *g, int64_t bytes, const char *inside)
{
    const uint8_t *from = g->map.data + g->at;

    if (bytes > g->map.bytes - g->at) {
        rp__fail(g->ctx, RP_ERR_FORMAT, "'%s' ends at byte %" PRId64 ", inside %s", g->label, g->map.bytes, inside);
        return NULL;
    }
    g->at += bytes;
    return from;
}

static rp_status take_number(rp_gguf *g, size_t bytes, const char *inside, void *out)
{
    const uint8_t *from = take(g, (int64_t)bytes, inside);

    if (!from) return RP_ERR_FORMAT;
    memcpy(out, from, bytes);           /* little endian: convert.c refuses other machines */
    return RP_OK;
}

static rp_status take_count(rp_gguf *g, const char *inside, int64_t *out)
{
    uint64_t n = 0;

    RP_TRY(take_number(g, sizeof n, inside, &n));
    RP_CHECK(g->ctx, n <= (uint64_t)g->map.bytes, RP_ERR_FORMAT, "'%s' says %" PRIu64 " for %s, the file has %" PRId64 " bytes",
             g->label, n, inside, g->map.bytes);
    *out = (int64_t)n;
    return RP_OK;
}

static rp_status take_string(rp_gguf *g, const char *inside, rp_gguf_string *out)
{
    RP_TRY(take_count(g, inside, &out->bytes));
    out->text = (const char *)take(g, out->bytes, inside);
    return out->text ? RP_OK : RP_ERR_FORMAT;
}

/* A name is used as terminated text, so it must not end early. */
static rp_status take_name(rp_gguf *g, const char *inside, char **out)
{
    rp_gguf_string s = { 0 };

    RP_TRY(take_string(g, inside, &s));
    RP_CHECK(g->ctx, !memchr(s.text, 0, (size_t)s.bytes), RP_ERR_FORMAT, "'%s' has a zero byte in %s", g->label, inside);
    if (!(*out = rp__host_alloc(g->ctx, s.bytes + 1))) return RP_ERR_MEMORY;
    memcpy(*out, s.text, (size_t)s.bytes);
    return RP_OK;
}

/* Room for one more in an array that doubles: the counts of a header are not believed. */
static void *grow(rp_ctx *ctx, void *array, int64_t used, int64_t size)
{
    if (used & (used - 1)) return array;        /* not a power of two: there is room */
    return rp__host_grow(ctx, array, used * size, (used ? 2 * used : 1) * size);
}

/* ---- metadata ---- */

static void number_at(uint32_t type, const uint8_t *p, rp_gguf_value *v)
{
    union {
        uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64;
        int8_t i8; int16_t i16; int32_t i32; int64_t i64;
        float f32; double f64;
    } n;

    memcpy(&n, p, (size_t)value_types[type].bytes);
    switch (type) {
    case GU8: case GBOOL: v->i = n.u8; break;
    case GI8: v->i = n.i8; break;
    case GU16: v->i = n.u16; break;
    case GI16: v->i = n.i16; break;
    case GU32: v->i = n.u32; break;
    case GI32: v->i = n.i32; break;
    case GI64: v->i = n.i64; break;
    case GU64: v->i = n.u64 > INT64_MAX ? INT64_MAX : (int64_t)n.u64; break;
    case GF32: v->f = (double)n.f32; return;
    default: v->f = n.f64; return;
    }
    v->f = type == GU64 ? (double)n.u64 : (double)v->i;
}

static rp_status check_bools(const rp_gguf *g, const char *key, const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        RP_CHECK(g->ctx, p[i] <= 1, RP_ERR_FORMAT, "'%s': a boolean of '" NAME "' is %d", g->label, key, p[i]);
    return RP_OK;
}

static rp_status parse_scalar(rp_gguf *g, uint32_t type, value_entry *e)
{
    if (type == GSTRING) return take_string(g, "a metadata value", &e->v.s);
    const uint8_t *from = take(g, value_types[type].bytes, "a metadata value");
    if (!from) return RP_ERR_FORMAT;
    if (type == GBOOL) RP_TRY(check_bools(g, e->key, from, 1));
    number_at(type, from, &e->v);
    return RP_OK;
}

/* A string takes at least the 8 bytes of its length, so the table is no longer than the file. */
static rp_status parse_strings(rp_gguf *g, value_entry *e)
{
    RP_CHECK(g->ctx, e->v.count <= (g->map.bytes - g->at) / 8, RP_ERR_FORMAT, "'%s': the array '" NAME "' of %" PRId64
             " strings does not fit in the file", g->label, e->key, e->v.count);
    e->strings = rp__host_alloc(g->ctx, e->v.count * (int64_t)sizeof *e->strings);
    if (!e->strings) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < e->v.count; i++) RP_TRY(take_string(g, "an array of strings", &e->strings[i]));
    return RP_OK;
}

static rp_status parse_array(rp_gguf *g, value_entry *e)
{
    RP_TRY(take_number(g, sizeof e->element_type, "the type of an array", &e->element_type));
    RP_CHECK(g->ctx, e->element_type < GTYPES, RP_ERR_FORMAT, "'%s': the array '" NAME "' has elements of type %" PRIu32
             ", which does not exist", g->label, e->key, e->element_type);
    RP_CHECK(g->ctx, e->element_type != GARRAY, RP_ERR_UNSUPPORTED, "'%s': '" NAME "' is an array of arrays, which is not read",
             g->label, e->key);
    e->v.element = value_types[e->element_type].kind;
    RP_TRY(take_count(g, "the length of an array", &e->v.count));
    if (e->element_type == GSTRING) return parse_strings(g, e);
    int64_t size = value_types[e->element_type].bytes;
    RP_CHECK(g->ctx, e->v.count <= (g->map.bytes - g->at) / size, RP_ERR_FORMAT, "'%s': the array '" NAME "' of %" PRId64
             " elements does not fit in the file", g->label, e->key, e->v.count);
    e->data = take(g, e->v.count * size, "an array");
    return e->element_type == GBOOL ? check_bools(g, e->key, e->data, e->v.count) : RP_OK;
}

static rp_status parse_value(rp_gguf *g)
{
    value_entry *all = grow(g->ctx, g->value, g->n_values, sizeof *all);
    uint32_t type;

    if (!all) return RP_ERR_MEMORY;
    g->value       = all;
    value_entry *e = &all[g->n_values++];
    *e             = (value_entry){ 0 };
    RP_TRY(take_name(g, "a metadata key", &e->key));
    RP_TRY(take_number(g, sizeof type, "the type of a metadata value", &type));
    RP_CHECK(g->ctx, type < GTYPES, RP_ERR_FORMAT, "'%s': '" NAME "' has the type %" PRIu32 ", which does not exist", g->label,
             e->key, type);
    e->v.key  = e->key;
    e->v.kind = value_types[type].kind;
    return type == GARRAY ? parse_array(g, e) : parse_scalar(g, type, e);
}

/* ---- tensors ---- */

static rp_status parse_dims(rp_gguf *g, tensor_entry *e)
{
    uint32_t n;

    RP_TRY(take_number(g, sizeof n, "a tensor's shape", &n));
    RP_CHECK(g->ctx, n <= RP_COUNT(e->t.dim), RP_ERR_FORMAT,
             "'%s': tensor '" NAME "' has %" PRIu32 " dimensions, at most %d are possible", g->label, e->name, n,
             RP_COUNT(e->t.dim));
    e->t.ndim  = (int)n;
    e->t.elems = 1;
    for (int i = e->t.ndim - 1; i >= 0; i--) {
        uint64_t dim;
        RP_TRY(take_number(g, sizeof dim, "a tensor's shape", &dim));
        RP_CHECK(g->ctx, dim <= INT64_MAX && !__builtin_mul_overflow(e->t.elems, (int64_t)dim, &e->t.elems), RP_ERR_FORMAT,
                 "'%s': tensor '" NAME "' has a shape whose size overflows", g->label, e->name);
        e->t.dim[i] = (int64_t)dim;
    }
    return RP_OK;
}

static int64_t row_of(const rp_gguf_tensor *t) { return t->ndim ? t->dim[t->ndim - 1] : 1; }

static rp_status parse_type(rp_gguf *g, tensor_entry *e)
{
    uint32_t id;

    RP_TRY(take_number(g, sizeof id, "a tensor's type", &id));
    e->type = rp__gguf_type(id);
    RP_CHECK(g->ctx, e->type, RP_ERR_UNSUPPORTED, "'%s': tensor '" NAME "' has the type %" PRIu32 ", which is not known here",
             g->label, e->name, id);
    RP_CHECK(g->ctx, row_of(&e->t) % e->type->block_elems == 0, RP_ERR_FORMAT, "'%s': rows of tensor '" NAME "' have %" PRId64
             " elements, which is not a multiple of the %" PRId64 " of a block of %s", g->label, e->name, row_of(&e->t),
             e->type->block_elems, e->type->name);
    RP_CHECK(g->ctx, !__builtin_mul_overflow(e->t.elems / e->type->block_elems, e->type->block_bytes, &e->t.bytes), RP_ERR_FORMAT,
             "'%s': tensor '" NAME "' has a shape whose size overflows", g->label, e->name);
    e->t.type = e->type->name;
    return RP_OK;
}

static rp_status parse_tensor(rp_gguf *g)
{
    tensor_entry *all = grow(g->ctx, g->tensor, g->n_tensors, sizeof *all);

    if (!all) return RP_ERR_MEMORY;
    g->tensor       = all;
    tensor_entry *e = &all[g->n_tensors++];
    *e              = (tensor_entry){ 0 };
    RP_TRY(take_name(g, "a tensor's name", &e->name));
    e->t.name = e->name;
    RP_TRY(parse_dims(g, e));
    RP_TRY(parse_type(g, e));
    return take_count(g, "a tensor's offset", &e->offset);
}

/* ---- the data ---- */

static rp_status alignment_of(const rp_gguf *g, int64_t *out)
{
    const rp_gguf_value *v = rp__gguf_get(g, "general.alignment");

    *out = v ? v->i : DEFAULT_ALIGNMENT;
    RP_CHECK(g->ctx, !v || v->kind == RP_GGUF_UINT || v->kind == RP_GGUF_INT, RP_ERR_FORMAT,
             "'%s': 'general.alignment' is not a number", g->label);
    RP_CHECK(g->ctx, *out > 0 && (*out & (*out - 1)) == 0, RP_ERR_FORMAT,
             "'%s': 'general.alignment' is %" PRId64 ", not a power of two", g->label, *out);
    return RP_OK;
}

static int by_offset(const void *left, const void *right)
{
    const tensor_entry *a = *(tensor_entry *const *)left, *b = *(tensor_entry *const *)right;

    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->t.bytes < b->t.bytes ? -1 : a->t.bytes > b->t.bytes;      /* the empty ones first */
}

/* Each tensor in the file and none over another; what lies between them is padding. */
static rp_status place_tensors(rp_gguf *g)
{
    int64_t alignment, padding, end = 0;

    RP_TRY(alignment_of(g, &alignment));
    padding = (alignment - g->at % alignment) % alignment;
    if (g->n_tensors) qsort(g->by_offset, (size_t)g->n_tensors, sizeof *g->by_offset, by_offset);
    for (int64_t i = 0; i < g->n_tensors; i++) {
        tensor_entry *e = g->by_offset[i];
        int64_t room    = g->map.bytes - g->at - padding;       /* negative where the file ends in the padding */
        RP_CHECK(g->ctx, e->offset % alignment == 0, RP_ERR_FORMAT, "'%s': the data of tensor '" NAME "' begins at %" PRId64
                 ", which is not a multiple of %" PRId64, g->label, e->name, e->offset, alignment);
        RP_CHECK(g->ctx, e->offset >= end, RP_ERR_FORMAT, "'%s': the data of tensor '" NAME "' overlaps another's", g->label,
                 e->name);
        RP_CHECK(g->ctx, e->t.bytes <= room && e->offset <= room - e->t.bytes, RP_ERR_FORMAT,
                 "'%s': the data of tensor '" NAME "' ends beyond the end of the file", g->label, e->name);
        end = e->offset + e->t.bytes;
        e->offset += g->at + padding;
    }
    return RP_OK;
}

/* ---- lookup ---- */

static int order_keys(const void *left, const void *right)
{
    return strcmp((*(value_entry *const *)left)->key, (*(value_entry *const *)right)->key);
}

static int order_names(const void *left, const void *right)
{
    return strcmp((*(tensor_entry *const *)left)->name, (*(tensor_entry *const *)right)->name);
}

static rp_status sort_values(rp_gguf *g)
{
    if (!(g->by_key = rp__host_alloc(g->ctx, g->n_values * (int64_t)sizeof *g->by_key))) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < g->n_values; i++) g->by_key[i] = &g->value[i];
    if (g->n_values) qsort(g->by_key, (size_t)g->n_values, sizeof *g->by_key, order_keys);
    for (int64_t i = 1; i < g->n_values; i++)
        RP_CHECK(g->ctx, order_keys(&g->by_key[i - 1], &g->by_key[i]), RP_ERR_FORMAT, "'%s' has the metadata key '" NAME "' twice",
                 g->label, g->by_key[i]->key);
    return RP_OK;
}

static rp_status sort_tensors(rp_gguf *g)
{
    int64_t bytes = g->n_tensors * (int64_t)sizeof *g->by_name;

    if (!(g->by_name = rp__host_alloc(g->ctx, bytes)) || !(g->by_offset = rp__host_alloc(g->ctx, bytes))) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < g->n_tensors; i++) g->by_name[i] = g->by_offset[i] = &g->tensor[i];
    if (g->n_tensors) qsort(g->by_name, (size_t)g->n_tensors, sizeof *g->by_name, order_names);
    for (int64_t i = 1; i < g->n_tensors; i++)
        RP_CHECK(g->ctx, order_names(&g->by_name[i - 1], &g->by_name[i]), RP_ERR_FORMAT, "'%s' has the tensor '" NAME "' twice",
                 g->label, g->by_name[i]->name);
    return RP_OK;
}

static int compare_key(const void *key, const void *entry) { return strcmp(key, (*(value_entry *const *)entry)->key); }
static int compare_name(const void *name, const void *entry) { return strcmp(name, (*(tensor_entry *const *)entry)->name); }

const rp_gguf_value *rp__gguf_get(const rp_gguf *g, const char *key)
{
    value_entry **e = g->n_values ? bsearch(key, g->by_key, (size_t)g->n_values, sizeof *g->by_key, compare_key) : NULL;

    return e ? &(*e)->v : NULL;
}

const rp_gguf_tensor *rp__gguf_find(const rp_gguf *g, const char *name)
{
    tensor_entry **e = g->n_tensors ? bsearch(name, g->by_name, (size_t)g->n_tensors, sizeof *g->by_name, compare_name) : NULL;

    return e ? &(*e)->t : NULL;
}

int64_t rp__gguf_n_values(const rp_gguf *g) { return g->n_values; }
const rp_gguf_value *rp__gguf_value_at(const rp_gguf *g, int64_t i) { return &g->value[i].v; }
int64_t rp__gguf_n_tensors(const rp_gguf *g) { return g->n_tensors; }
const rp_gguf_tensor *rp__gguf_tensor_at(const rp_gguf *g, int64_t i) { return &g->tensor[i].t; }

rp_gguf_string rp__gguf_array_string(const rp_gguf *g, const rp_gguf_value *array, int64_t i)
{
    const value_entry *e = (const value_entry *)array;

    (void)g;
    return e->strings && i >= 0 && i < array->count ? e->strings[i] : (rp_gguf_string){ 0 };
}

double rp__gguf_array_number(const rp_gguf *g, const rp_gguf_value *array, int64_t i)
{
    const value_entry *e = (const value_entry *)array;
    rp_gguf_value v      = { 0 };

    (void)g;
    if (e->data && i >= 0 && i < array->count) number_at(e->element_type, e->data + i * value_types[e->element_type].bytes, &v);
    return v.f;
}

/* ---- open, read, close ---- */

static rp_status parse_counts(rp_gguf *g, int64_t *n_tensors, int64_t *n_values)
{
    char magic[4];
    uint32_t version;

    RP_TRY(take_number(g, sizeof magic, "its first four bytes", magic));
    RP_CHECK(g->ctx, !memcmp(magic, "GGUF", sizeof magic), RP_ERR_FORMAT, "'%s' is not a GGUF file", g->label);
    RP_TRY(take_number(g, sizeof version, "its version", &version));
    RP_CHECK(g->ctx, version & 0xffffu, RP_ERR_UNSUPPORTED, "'%s' is a big-endian GGUF file, which is not read", g->label);
    RP_CHECK(g->ctx, version == 2 || version == 3, RP_ERR_UNSUPPORTED, "'%s' has GGUF version %" PRIu32 ", only 2 and 3 are read",
             g->label, version);
    RP_TRY(take_count(g, "the number of tensors", n_tensors));
    return take_count(g, "the number of metadata values", n_values);
}

static rp_status parse(rp_gguf *g)
{
    int64_t n_tensors, n_values;

    RP_TRY(parse_counts(g, &n_tensors, &n_values));
    while (n_values--) RP_TRY(parse_value(g));
    while (n_tensors--) RP_TRY(parse_tensor(g));
    RP_TRY(sort_values(g));
    RP_TRY(sort_tensors(g));
    return place_tensors(g);
}

void rp__gguf_close(rp_gguf *g)
{
    if (!g) return;
    for (int64_t i = 0; i < g->n_values; i++) {
        rp__release(g->value[i].key);
        rp__release(g->value[i].strings);
    }
    for (int64_t i = 0; i < g->n_tensors; i++) rp__release(g->tensor[i].name);
    rp__release(g->value);
    rp__release(g->tensor);
    rp__release(g->by_key);
    rp__release(g->by_name);
    rp__release(g->by_offset);
    rp__file_unmap(&g->map);
    rp__release(g->label);
    rp__release(g);
}

static rp_status open_map(rp_ctx *ctx, const char *label, const rp_file_map *map, rp_gguf **out)
{
    rp_gguf *g       = rp__host_alloc(ctx, sizeof *g);
    rp_status status = RP_ERR_MEMORY;

    if (g) {
        *g     = (rp_gguf){ .ctx = ctx, .label = rp__host_text(ctx, label) };
        status = !g->label ? RP_ERR_MEMORY : map ? RP_OK : rp__file_map(ctx, label, &g->map);
        if (map) g->map = *map;
        if (status == RP_OK) status = parse(g);
    }
    if (status == RP_OK) *out = g;
    else rp__gguf_close(g);
    return status;
}

rp_status rp__gguf_open(rp_ctx *ctx, const char *path, rp_gguf **out) { return open_map(ctx, path, NULL, out); }

rp_status rp__gguf_open_bytes(rp_ctx *ctx, const char *label, const void *data, int64_t bytes, rp_gguf **out)
{
    return open_map(ctx, label, &(rp_file_map){ .data = data, .bytes = bytes }, out);
}

static rp_status unreadable(const rp_gguf *g, const tensor_entry *e)
{
    char list[256];
    int used = 0;

    for (uint32_t id = 0; id < 64; id++) {
        const rp_gguf_type *type = rp__gguf_type(id);
        if (type && type->convert) used += snprintf(list + used, sizeof list - (size_t)used, " %s", type->name);
    }
    return rp__fail(g->ctx, RP_ERR_UNSUPPORTED, "'%s': tensor '" NAME "' has the type %s, which is not read; read are%s", g->label,
                    e->name, e->type->name, list);
}

rp_status rp__gguf_read(rp_gguf *g, const rp_gguf_tensor *tensor, int64_t start, int64_t count, float *out)
{
    const tensor_entry *e    = (const tensor_entry *)tensor;
    const rp_gguf_type *type = e->type;
    int64_t row = row_of(tensor), window = RP_FILE_WINDOW_BYTES / type->block_bytes * type->block_elems;

    if (!type->convert) return unreadable(g, e);
    RP_CHECK(g->ctx, start >= 0 && count >= 0 && start <= tensor->elems && count <= tensor->elems - start, RP_ERR_ARG,
             "elements [%" PRId64 ", +%" PRId64 ") are outside tensor '" NAME "', which has %" PRId64, start, count, e->name,
             tensor->elems);
    RP_CHECK(g->ctx, !row || (start % row == 0 && count % row == 0), RP_ERR_ARG, "elements [%" PRId64 ", +%" PRId64
             ") of tensor '" NAME "' are not whole rows of %" PRId64, start, count, e->name, row);
    for (int64_t done = 0; done < count; done += window) {
        int64_t n    = count - done < window ? count - done : window;
        int64_t from = e->offset + (start + done) / type->block_elems * type->block_bytes;
        type->convert(g->map.data + from, n, out + done);
        if (count > window) rp__file_drop(&g->map, from, n / type->block_elems * type->block_bytes);
    }
    return RP_OK;
}

void rp__gguf_drop(rp_gguf *g, const rp_gguf_tensor *tensor)
{
    rp__file_drop(&g->map, ((const tensor_entry *)tensor)->offset, tensor->bytes);
}
