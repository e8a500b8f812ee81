/* gguf/gguf.c -- parses a GGUF file in one pass over its header, with a cursor that cannot leave the file.
 *
 * Every step goes through gguf_take(), which refuses to pass the end of the file. A count from the file never sizes an allocation beyond
 * what the file could hold. The strings of an array get a table of their positions, because a tokenizer reads them in any order. Keys and
 * tensors are found by bisection over pointers sorted by name. Sorting also reveals duplicates.
 */
#include "gguf/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* ---- the cursor ---- */

static rp_status gguf_take(rp_gguf *g, int64_t bytes, const char *inside, const uint8_t **out)
{
    const uint8_t *head = NULL;

    RP_CHECK(g->ctx, bytes <= g->map.bytes - g->at, RP_ERR_FORMAT, "'%s' ends at byte %" PRId64 ", inside %s", g->label, g->map.bytes, inside);
    RP_TRY(rp__file_head(g->ctx, g->label, &g->map, g->at + bytes, &head));
    *out = head + g->at;
    g->at += bytes;
    return RP_OK;
}

static rp_status take_number(rp_gguf *g, size_t bytes, const char *inside, void *out)
{
    const uint8_t *from = NULL;

    RP_TRY(gguf_take(g, (int64_t)bytes, inside, &from));
    memcpy(out, from, bytes);           /* little endian: convert.c does not compile elsewhere */
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
    const uint8_t *from = NULL;

    RP_TRY(take_count(g, inside, &out->bytes));
    RP_TRY(gguf_take(g, out->bytes, inside, &from));
    out->text = (const char *)from;
    return RP_OK;
}

/* A name is used as a zero-terminated string, so it must not contain a zero byte. */
static rp_status take_name(rp_gguf *g, const char *inside, char **out)
{
    rp_gguf_string s = { 0 };

    RP_TRY(take_string(g, inside, &s));
    RP_CHECK(g->ctx, !memchr(s.text, 0, (size_t)s.bytes), RP_ERR_FORMAT, "'%s' has a zero byte in %s", g->label, inside);
    if (!(*out = rp__host_alloc(g->ctx, s.bytes + 1))) return RP_ERR_MEMORY;
    memcpy(*out, s.text, (size_t)s.bytes);
    return RP_OK;
}

/* ---- metadata ---- */

static rp_status check_bools(const rp_gguf *g, const char *key, const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        RP_CHECK(g->ctx, p[i] <= 1, RP_ERR_FORMAT, "'%s': a boolean of '" NAME "' is %d", g->label, key, p[i]);
    return RP_OK;
}

static rp_status parse_scalar(rp_gguf *g, uint32_t type, gguf_value_entry *e)
{
    const uint8_t *from = NULL;

    if (type == GSTRING) return take_string(g, "a metadata value", &e->v.s);
    RP_TRY(gguf_take(g, rp__gguf_value_types[type].bytes, "a metadata value", &from));
    if (type == GBOOL) RP_TRY(check_bools(g, e->key, from, 1));
    rp__gguf_number_at(type, from, &e->v);
    return RP_OK;
}

/* A string takes at least the 8 bytes of its length, so the table has fewer entries than the file has bytes. */
static rp_status parse_strings(rp_gguf *g, gguf_value_entry *e)
{
    RP_CHECK(g->ctx, e->v.count <= (g->map.bytes - g->at) / 8, RP_ERR_FORMAT, "'%s': the array '" NAME "' of %" PRId64
             " strings does not fit in the file", g->label, e->key, e->v.count);
    e->strings = rp__host_alloc(g->ctx, e->v.count * (int64_t)sizeof *e->strings);
    if (!e->strings) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < e->v.count; i++) RP_TRY(take_string(g, "an array of strings", &e->strings[i]));
    return RP_OK;
}

static rp_status parse_array(rp_gguf *g, gguf_value_entry *e)
{
    RP_TRY(take_number(g, sizeof e->element_type, "the type of an array", &e->element_type));
    RP_CHECK(g->ctx, e->element_type < GTYPES, RP_ERR_FORMAT, "'%s': the array '" NAME "' has elements of type %" PRIu32
             ", which does not exist", g->label, e->key, e->element_type);
    RP_CHECK(g->ctx, e->element_type != GARRAY, RP_ERR_UNSUPPORTED, "'%s': '" NAME "' is an array of arrays, which is not read",
             g->label, e->key);
    e->v.element = rp__gguf_value_types[e->element_type].kind;
    RP_TRY(take_count(g, "the length of an array", &e->v.count));
    if (e->element_type == GSTRING) return parse_strings(g, e);
    int64_t size = rp__gguf_value_types[e->element_type].bytes;
    RP_CHECK(g->ctx, e->v.count <= (g->map.bytes - g->at) / size, RP_ERR_FORMAT, "'%s': the array '" NAME "' of %" PRId64
             " elements does not fit in the file", g->label, e->key, e->v.count);
    RP_TRY(gguf_take(g, e->v.count * size, "an array", &e->data));
    return e->element_type == GBOOL ? check_bools(g, e->key, e->data, e->v.count) : RP_OK;
}

/* Keeps the position of the value's bytes, for copies. The head's address stays the same while it grows. */
static rp_status mark_raw(rp_gguf *g, gguf_value_entry *e, int64_t from)
{
    const uint8_t *head = NULL;

    RP_TRY(rp__file_head(g->ctx, g->label, &g->map, g->at, &head));
    e->raw       = head + from;
    e->raw_bytes = g->at - from;
    return RP_OK;
}

static rp_status parse_value(rp_gguf *g)
{
    uint32_t type;

    RP_TRY(RP_GROW(g->ctx, g->value, g->room_values, g->n_values + 1));     /* grown entry by entry: the counts of a header are not trusted */
    gguf_value_entry *e = &g->value[g->n_values++];
    *e                  = (gguf_value_entry){ 0 };
    RP_TRY(take_name(g, "a metadata key", &e->key));
    RP_TRY(take_number(g, sizeof type, "the type of a metadata value", &type));
    RP_CHECK(g->ctx, type < GTYPES, RP_ERR_FORMAT, "'%s': '" NAME "' has the type %" PRIu32 ", which does not exist", g->label,
             e->key, type);
    e->v.key  = e->key;
    e->v.kind = rp__gguf_value_types[type].kind;
    e->type   = type;
    int64_t at = g->at;
    RP_TRY(type == GARRAY ? parse_array(g, e) : parse_scalar(g, type, e));
    return mark_raw(g, e, at);
}

/* ---- tensors ---- */

static rp_status parse_dims(rp_gguf *g, gguf_tensor_entry *e)
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

static int64_t gguf_row_of(const rp_gguf_tensor *t) { return t->ndim ? t->dim[t->ndim - 1] : 1; }

static rp_status parse_type(rp_gguf *g, gguf_tensor_entry *e)
{
    uint32_t id;

    RP_TRY(take_number(g, sizeof id, "a tensor's type", &id));
    e->type = rp__gguf_type(id);
    RP_CHECK(g->ctx, e->type, RP_ERR_UNSUPPORTED, "'%s': tensor '" NAME "' has the type %" PRIu32 ", which is not known here",
             g->label, e->name, id);
    RP_CHECK(g->ctx, gguf_row_of(&e->t) % e->type->block_elems == 0, RP_ERR_FORMAT, "'%s': rows of tensor '" NAME "' have %" PRId64
             " elements, which is not a multiple of the %" PRId64 " of a block of %s", g->label, e->name, gguf_row_of(&e->t),
             e->type->block_elems, e->type->name);
    RP_CHECK(g->ctx, !__builtin_mul_overflow(e->t.elems / e->type->block_elems, e->type->block_bytes, &e->t.bytes), RP_ERR_FORMAT,
             "'%s': tensor '" NAME "' has a shape whose size overflows", g->label, e->name);
    e->t.type = e->type->name;
    return RP_OK;
}

static rp_status parse_tensor(rp_gguf *g)
{
    RP_TRY(RP_GROW(g->ctx, g->tensor, g->room_tensors, g->n_tensors + 1));
    gguf_tensor_entry *e = &g->tensor[g->n_tensors++];
    *e                   = (gguf_tensor_entry){ 0 };
    RP_TRY(take_name(g, "a tensor's name", &e->name));
    e->t.name = e->name;
    e->file   = g;
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
    const gguf_tensor_entry *a = *(gguf_tensor_entry *const *)left, *b = *(gguf_tensor_entry *const *)right;

    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return a->t.bytes < b->t.bytes ? -1 : a->t.bytes > b->t.bytes;      /* empty tensors first */
}

/* Checks that every tensor lies within the file and that no two overlap. Bytes between tensors are padding. */
static rp_status place_all(rp_gguf *g, gguf_tensor_entry *const *sorted)
{
    int64_t alignment, padding, end = 0;

    RP_TRY(alignment_of(g, &alignment));
    padding = (alignment - g->at % alignment) % alignment;
    for (int64_t i = 0; i < g->n_tensors; i++) {
        gguf_tensor_entry *e = sorted[i];
        int64_t room    = g->map.bytes - g->at - padding;       /* negative if the file ends within the padding */
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

static rp_status place_tensors(rp_gguf *g)
{
    gguf_tensor_entry **sorted = rp__host_alloc(g->ctx, g->n_tensors * (int64_t)sizeof *sorted);

    if (!sorted) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < g->n_tensors; i++) sorted[i] = &g->tensor[i];
    if (g->n_tensors) qsort(sorted, (size_t)g->n_tensors, sizeof *sorted, by_offset);
    rp_status status = place_all(g, sorted);
    rp__release(sorted);
    return status;
}

/* ---- sorted by name ---- */

static int order_keys(const void *left, const void *right)
{
    return strcmp((*(gguf_value_entry *const *)left)->key, (*(gguf_value_entry *const *)right)->key);
}

static int order_names(const void *left, const void *right)
{
    return strcmp((*(gguf_tensor_entry *const *)left)->name, (*(gguf_tensor_entry *const *)right)->name);
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

static void list_own(rp_gguf *g, rp_gguf *file)
{
    for (int64_t i = 0; i < file->n_tensors; i++) g->listed[g->n_listed++] = &file->tensor[i];
}

rp_status rp__gguf_list_tensors(rp_gguf *g)
{
    int64_t n = g->n_tensors;

    for (int i = 0; i < g->n_parts; i++) n += g->part[i]->n_tensors;
    RP_RELEASE(g->listed, g->by_name);
    g->n_listed = 0;
    g->by_name  = NULL;
    g->listed   = rp__host_alloc(g->ctx, n * (int64_t)sizeof *g->listed);
    if (!g->listed || !(g->by_name = rp__host_alloc(g->ctx, n * (int64_t)sizeof *g->by_name))) return RP_ERR_MEMORY;
    list_own(g, g);
    for (int i = 0; i < g->n_parts; i++) list_own(g, g->part[i]);
    if (!n) return RP_OK;
    memcpy(g->by_name, g->listed, (size_t)n * sizeof *g->by_name);
    qsort(g->by_name, (size_t)n, sizeof *g->by_name, order_names);
    for (int64_t i = 1; i < n; i++)
        RP_CHECK(g->ctx, order_names(&g->by_name[i - 1], &g->by_name[i]), RP_ERR_FORMAT, "'%s' has the tensor '" NAME "' twice",
                 g->label, g->by_name[i]->name);
    return RP_OK;
}

/* ---- open and close ---- */

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
    RP_TRY(rp__gguf_list_tensors(g));
    return place_tensors(g);
}

void rp__gguf_close(rp_gguf *g)
{
    if (!g) return;
    for (int64_t i = 0; i < g->n_values; i++) RP_RELEASE(g->value[i].key, g->value[i].strings);
    for (int64_t i = 0; i < g->n_tensors; i++) rp__release(g->tensor[i].name);
    RP_RELEASE(g->value, g->tensor, g->by_key, g->listed, g->by_name);
    for (int i = 0; i < g->n_parts; i++) rp__gguf_close(g->part[i]);
    rp__release(g->part);
    rp__file_unmap(&g->map);
    RP_RELEASE(g->label, g);
}

rp_status rp__gguf_open_one(rp_ctx *ctx, const char *label, const rp_file_map *map, rp_gguf **out)
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

rp_status rp__gguf_open(rp_ctx *ctx, const char *path, rp_gguf **out)
{
    rp_gguf *g = NULL;

    RP_TRY(rp__gguf_open_one(ctx, path, NULL, &g));
    rp_status status = rp__gguf_join(g);
    if (status == RP_OK) *out = g;
    else rp__gguf_close(g);
    return status;
}

rp_status rp__gguf_open_bytes(rp_ctx *ctx, const char *label, const void *data, int64_t bytes, rp_gguf **out)
{
    return rp__gguf_open_one(ctx, label, &(rp_file_map){ .data = data, .bytes = bytes }, out);
}
