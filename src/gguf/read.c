/* gguf/read.c -- access to an open GGUF file: values by key, tensors by name, tensor elements as fp32. */
#include "gguf/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAME_BYTES = 1 << 16 };

/* ---- values ---- */

const gguf_value_type rp__gguf_value_types[GTYPES] = {
    [GU8] = { RP_GGUF_UINT, 1 },    [GI8] = { RP_GGUF_INT, 1 },   [GU16] = { RP_GGUF_UINT, 2 },  [GI16] = { RP_GGUF_INT, 2 },
    [GU32] = { RP_GGUF_UINT, 4 },   [GI32] = { RP_GGUF_INT, 4 },  [GF32] = { RP_GGUF_FLOAT, 4 }, [GBOOL] = { RP_GGUF_BOOL, 1 },
    [GSTRING] = { RP_GGUF_STRING, 0 }, [GARRAY] = { RP_GGUF_ARRAY, 0 }, [GU64] = { RP_GGUF_UINT, 8 },  [GI64] = { RP_GGUF_INT, 8 },
    [GF64] = { RP_GGUF_FLOAT, 8 },
};

void rp__gguf_number_at(uint32_t type, const uint8_t *p, rp_gguf_value *v)
{
    union {
        uint8_t u8; uint16_t u16; uint32_t u32; uint64_t u64;
        int8_t i8; int16_t i16; int32_t i32; int64_t i64;
        float f32; double f64;
    } n;

    memcpy(&n, p, (size_t)rp__gguf_value_types[type].bytes);
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

/* ---- lookup ---- */

static int compare_key(const void *key, const void *entry) { return strcmp(key, (*(gguf_value_entry *const *)entry)->key); }
static int compare_name(const void *name, const void *entry) { return strcmp(name, (*(gguf_tensor_entry *const *)entry)->name); }

const rp_gguf_value *rp__gguf_get(const rp_gguf *g, const char *key)
{
    gguf_value_entry **e = g->n_values ? bsearch(key, g->by_key, (size_t)g->n_values, sizeof *g->by_key, compare_key) : NULL;

    return e ? &(*e)->v : NULL;
}

const rp_gguf_tensor *rp__gguf_find(const rp_gguf *g, const char *name)
{
    gguf_tensor_entry **e = g->n_listed ? bsearch(name, g->by_name, (size_t)g->n_listed, sizeof *g->by_name, compare_name) : NULL;

    return e ? &(*e)->t : NULL;
}

int64_t rp__gguf_n_values(const rp_gguf *g) { return g->n_values; }
const rp_gguf_value *rp__gguf_value_at(const rp_gguf *g, int64_t i) { return &g->value[i].v; }
int64_t rp__gguf_n_tensors(const rp_gguf *g) { return g->n_listed; }
const rp_gguf_tensor *rp__gguf_tensor_at(const rp_gguf *g, int64_t i) { return &g->listed[i]->t; }

rp_gguf_string rp__gguf_array_string(const rp_gguf *g, const rp_gguf_value *array, int64_t i)
{
    const gguf_value_entry *e = (const gguf_value_entry *)array;

    (void)g;
    return e->strings && i >= 0 && i < array->count ? e->strings[i] : (rp_gguf_string){ 0 };
}

double rp__gguf_array_number(const rp_gguf *g, const rp_gguf_value *array, int64_t i)
{
    const gguf_value_entry *e = (const gguf_value_entry *)array;
    rp_gguf_value v      = { 0 };

    (void)g;
    if (e->data && i >= 0 && i < array->count)
        rp__gguf_number_at(e->element_type, e->data + i * rp__gguf_value_types[e->element_type].bytes, &v);
    return v.f;
}

/* ---- elements ---- */

static int64_t read_row_of(const rp_gguf_tensor *t) { return t->ndim ? t->dim[t->ndim - 1] : 1; }

static rp_status unreadable(const rp_gguf *g, const gguf_tensor_entry *e)
{
    char list[256];
    int used = 0;

    for (uint32_t id = 0; id < 64; id++) {
        const rp_gguf_type *type = rp__gguf_type(id);
        if (type && type->convert) used += snprintf(list + used, sizeof list - (size_t)used, " %s", type->name);
    }
    return rp_fail(g->ctx, RP_ERR_UNSUPPORTED, "'%s': tensor '" NAME "' has the type %s, which cannot be read; readable types are%s", g->label,
                   e->name, e->type->name, list);
}

static rp_status get(const rp_gguf *g, const gguf_tensor_entry *e, int64_t offset, int64_t bytes, void *to)
{
    return rp__file_get(g->ctx, e->file->label, &e->file->map, offset, bytes, to);
}

static rp_status read_windows(const rp_gguf *g, const gguf_tensor_entry *e, int64_t start, int64_t count, void *memory, int64_t window, float *out)
{
    const rp_gguf_type *type = e->type;

    for (int64_t done = 0; done < count; done += window) {
        int64_t n    = count - done < window ? count - done : window;
        int64_t from = e->offset + (start + done) / type->block_elems * type->block_bytes;
        RP_TRY(get(g, e, from, n / type->block_elems * type->block_bytes, memory));
        type->convert(memory, n, out + done);
    }
    return RP_OK;
}

rp_status rp__gguf_read(rp_gguf *g, const rp_gguf_tensor *tensor, int64_t start, int64_t count, float *out)
{
    const gguf_tensor_entry *e    = (const gguf_tensor_entry *)tensor;
    const rp_gguf_type *type = e->type;
    int64_t row = read_row_of(tensor), window = RP_FILE_WINDOW_BYTES / type->block_bytes * type->block_elems;

    if (!type->convert) return unreadable(g, e);
    RP_CHECK(g->ctx, start >= 0 && count >= 0 && start <= tensor->elems && count <= tensor->elems - start, RP_ERR_ARG,
             "elements [%" PRId64 ", +%" PRId64 ") are outside tensor '" NAME "', which has %" PRId64, start, count, e->name,
             tensor->elems);
    RP_CHECK(g->ctx, !row || (start % row == 0 && count % row == 0), RP_ERR_ARG, "elements [%" PRId64 ", +%" PRId64
             ") of tensor '" NAME "' are not whole rows of %" PRId64, start, count, e->name, row);
    if (!count) return RP_OK;
    if (count < window) window = count;
    void *memory = rp__host_alloc(g->ctx, window / type->block_elems * type->block_bytes);
    if (!memory) return RP_ERR_MEMORY;
    rp_status status = read_windows(g, e, start, count, memory, window, out);
    rp__release(memory);
    return status;
}

rp_status rp__gguf_read_bytes(rp_gguf *g, const rp_gguf_tensor *tensor, int64_t start, int64_t bytes, void *out)
{
    const gguf_tensor_entry *e = (const gguf_tensor_entry *)tensor;

    RP_CHECK(g->ctx, start >= 0 && bytes >= 0 && start <= tensor->bytes && bytes <= tensor->bytes - start, RP_ERR_ARG,
             "bytes [%" PRId64 ", +%" PRId64 ") are outside tensor '" NAME "', which has %" PRId64, start, bytes, e->name, tensor->bytes);
    return get(g, e, e->offset + start, bytes, out);
}

rp_file_place rp__gguf_place(const rp_gguf_tensor *tensor)
{
    const gguf_tensor_entry *e = (const gguf_tensor_entry *)tensor;

    return (rp_file_place){ e->file->label, &e->file->map, e->offset };
}

void rp__gguf_drop(rp_gguf *g, const rp_gguf_tensor *tensor)
{
    const gguf_tensor_entry *e = (const gguf_tensor_entry *)tensor;

    (void)g;
    rp__file_drop(&e->file->map, e->offset, tensor->bytes);
}

bool rp__gguf_same_bytes(rp_gguf *g, const rp_gguf_tensor *a, const rp_gguf_tensor *b)
{
    const gguf_tensor_entry *x = (const gguf_tensor_entry *)a, *y = (const gguf_tensor_entry *)b;
    bool same = x->type == y->type && a->ndim == b->ndim && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]);

    uint8_t left[SAME_BYTES], right[SAME_BYTES];

    for (int64_t at = 0; at < a->bytes && same; at += SAME_BYTES) {
        int64_t n = a->bytes - at < SAME_BYTES ? a->bytes - at : SAME_BYTES;
        same      = get(g, x, x->offset + at, n, left) == RP_OK && get(g, y, y->offset + at, n, right) == RP_OK && !memcmp(left, right, (size_t)n);
    }
    return same;
}
