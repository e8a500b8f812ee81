/* tensor/tensor.c -- storages, tensors, views; reading and writing elements. */
#include "reprise/train.h"
#include "tensor/tensor.h"

#include <string.h>

#include "base/file.h"
#include "base/quant.h"
#include "kernels/kernels.h"

static void dense_strides(rp_tensor *t)
{
    int64_t step = 1;

    for (int i = t->m.ndim - 1; i >= 0; i--) {
        t->stride[i] = step;
        step *= t->m.dim[i];
    }
}

/* The storage has no bytes yet. */
static rp_status new_tensor(rp_ctx *ctx, const rp_meta *meta, rp_mem_class c, rp_tensor **out)
{
    RP_TRY(rp__meta_check(ctx, meta));
    rp_tensor *t  = rp__host_alloc(ctx, sizeof *t);
    rp_storage *s = t ? rp__host_alloc(ctx, sizeof *s) : NULL;

    if (!s) {
        rp__release(t);
        return RP_ERR_MEMORY;
    }
    *s = (rp_storage){ .ctx = ctx, .refs = 1, .mem_class = c, .bytes = rp_meta_bytes(meta), .writer = "nothing" };
    *t = (rp_tensor){ .ctx = ctx, .refs = 1, .m = *meta, .storage = s };
    dense_strides(t);
    *out = t;
    return RP_OK;
}

rp_status rp__tensor_new_named(rp_ctx *ctx, const rp_meta *meta, rp_mem_class c, const char *label, rp_tensor **out)
{
    rp_tensor *t;

    RP_TRY(new_tensor(ctx, meta, c, &t));
    rp_storage *s    = t->storage;
    rp_status status = rp__mem_take(ctx, ctx->space[0], c, s->bytes, label, &s->offset);
    if (status != RP_OK) {
        RP_RELEASE(s, t);
        return RP_ERR_MEMORY;
    }
    s->data = rp__mem_at(ctx->space[0], s->offset);
    *out    = t;
    return RP_OK;
}

rp_status rp__tensor_new_mapped(rp_ctx *ctx, const rp_meta *meta, rp_tensor **out)
{
    RP_TRY(new_tensor(ctx, meta, RP_MEM_PARAM, out));
    (*out)->storage->mapped = true;
    return RP_OK;
}

void rp__tensor_map(rp_tensor *t, rp_file_pages *pages, int64_t offset)
{
    rp_storage *s = t->storage;

    RP_BUG_IF(!s->mapped || s->pages);
    s->pages = rp__file_pages_ref(pages);
    s->data  = (uint8_t *)(uintptr_t)rp__file_pages_at(pages, offset);
}

rp_status rp__tensor_import(rp_ctx *ctx, const rp_meta *meta, void *memory, rp_tensor **out)
{
    rp_tensor *t  = rp__host_alloc(ctx, sizeof *t);
    rp_storage *s = t ? rp__host_alloc(ctx, sizeof *s) : NULL;

    if (!s) {
        rp__release(t);
        return RP_ERR_MEMORY;
    }
    *s = (rp_storage){ .ctx = ctx, .refs = 1, .mem_class = RP_MEM_TEMP, .bytes = rp_meta_bytes(meta), .offset = -1, .imported = true, .data = memory,
                       .writer = "the program, before rp_tensor_import" };
    *t = (rp_tensor){ .ctx = ctx, .refs = 1, .m = *meta, .storage = s };
    dense_strides(t);
    *out = t;
    return RP_OK;
}

rp_status rp_tensor_new(rp_ctx *ctx, const rp_meta *meta, rp_mem_class c, rp_tensor **out)
{
    RP_GIVEN(ctx, ctx && meta && out);
    RP_CHECK(ctx, (unsigned)c < RP_MEM_CLASSES, RP_ERR_ARG, "memory class %d is unknown", (int)c);
    return rp__tensor_new_named(ctx, meta, c, "a tensor", out);
}

rp_tensor *rp_tensor_ref(rp_tensor *t)
{
    if (t) t->refs++;
    return t;
}

static void stays_put(rp_storage *s)
{
    if (!s->link) return;
    *s->link = s->next;
    if (s->next) s->next->link = s->link;
    s->link = NULL;
}

static void storage_unref(rp_storage *s)
{
    if (--s->refs) return;
    stays_put(s);
    if (s->mapped) rp__file_pages_unref(s->pages);
    else if (!s->imported) rp__mem_give(s->ctx->space[s->device], s->mem_class, s->bytes, s->offset);
    rp__release(s);
}

void rp_tensor_unref(rp_tensor *t)
{
    if (!t || --t->refs) return;
    rp_tensor_unref(t->grad);
    rp_tensor_unref(t->carried);
    rp_tensor_unref(t->base);
    storage_unref(t->storage);
    RP_RELEASE(t->own_name, t);
}

rp_status rp__tensor_give(rp_status status, rp_tensor *t, rp_tensor **out)
{
    if (status == RP_OK) *out = t;
    else rp_tensor_unref(t);
    return status;
}

const rp_meta *rp_tensor_meta(const rp_tensor *t) { return t ? &t->m : NULL; }
const int64_t *rp_tensor_strides(const rp_tensor *t)
{
    if (!t) return NULL;
    return t->stride;
}

/* The start of the storage for the code that runs now: kernels, or host code that acts as a kernel (rp__mem_inside). */
static uint8_t *base_of(rp_storage *s)
{
    const rp_ctx *ctx = s->ctx;

    if (!ctx->far || !ctx->inside || !s->data) return s->data;
    if (__atomic_load_n(&s->turn, __ATOMIC_ACQUIRE) == ctx->turn) return s->inside;
    uint8_t *inside = rp__mem_inside(ctx, s->data, s->bytes);
    __atomic_store_n(&s->inside, inside, __ATOMIC_RELAXED);
    __atomic_store_n(&s->turn, ctx->turn, __ATOMIC_RELEASE);
    return inside;
}

void *rp__tensor_data(const rp_tensor *t)
{
    return t->storage->data ? base_of(t->storage) + t->start * rp_dtype_bytes(t->m.dtype) : NULL;
}

bool rp_tensor_is_dense(const rp_tensor *t)
{
    if (!t) return false;
    int64_t step = 1;

    for (int i = t->m.ndim - 1; i >= 0; i--) {
        if (t->m.dim[i] != 1 && t->stride[i] != step) return false;
        step *= t->m.dim[i];
    }
    return true;
}

rp_status rp__tensor_alias(rp_tensor *t, rp_tensor **out)
{
    rp_tensor *v = rp__host_alloc(t->ctx, sizeof *v);

    if (!v) return RP_ERR_MEMORY;
    *v      = *t;
    v->refs = 1;
    v->grad = v->carried = NULL;
    v->own_name = NULL;
    v->requires_grad = false;
    v->base = rp_tensor_ref(t->base ? t->base : t);
    v->storage->refs++;
    *out = v;
    return RP_OK;
}

void rp__tensor_reclass(rp_tensor *t, rp_mem_class c)
{
    rp_storage *s = t->storage;

    if (s->mem_class == c) return;
    RP_BUG_IF(s->mapped);
    if (!s->imported) rp__mem_reclass(s->ctx->space[s->device], s->mem_class, c, s->bytes, s->offset);
    s->mem_class = c;
}

void rp__tensor_movable(rp_tensor *t, bool movable)
{
    rp_storage *s = t->storage, **first = &rp__tensor_ctx(s->ctx)->movable;

    if (!movable) stays_put(s);
    if (!movable || s->link || s->imported) return;
    s->next = *first;
    s->link = first;
    if (*first) (*first)->link = &s->next;
    *first = s;
}

void rp__tensor_wrote(rp_tensor *t, const char *writer)
{
    t->storage->version++;
    t->storage->writer = writer;
}

rp_status rp__tensor_needs_data(const rp_tensor *t, const char *call)
{
    RP_CHECK(t->ctx, rp__tensor_real(t), RP_ERR_META, "%s: the tensor '%s' has a shape (%s) but no data in a shapes-only run", call,
             *rp_tensor_name(t) ? rp_tensor_name(t) : "unnamed", rp_meta_str(&t->m));
    return RP_OK;
}

/* ---- views ---- */

rp_status rp_tensor_reshape(rp_tensor *t, int ndim, const int64_t *dim, rp_tensor **out)
{
    RP_GIVEN(t ? t->ctx : NULL, t && out && (dim || ndim <= 0));
    rp_meta m = rp_meta_make(t->m.dtype, ndim, dim);

    RP_TRY(rp__meta_check(t->ctx, &m));
    RP_CHECK(t->ctx, rp_meta_elems(&m) == rp_meta_elems(&t->m), RP_ERR_SHAPE, "reshape: %s does not hold as many elements as %s",
             rp_meta_str(&m), rp_meta_str(&t->m));
    RP_CHECK(t->ctx, rp_tensor_is_dense(t), RP_ERR_SHAPE, "reshape: the view %s is not dense", rp_meta_str(&t->m));
    RP_TRY(rp__tensor_alias(t, out));
    (*out)->m = m;
    dense_strides(*out);
    return RP_OK;
}

static rp_status check_dim(const rp_tensor *t, const char *call, int *dim)
{
    int given = *dim;

    RP_CHECK(t->ctx, !rp__is_quant(t->m.dtype), RP_ERR_DTYPE, "%s: %s is quantised and has no such views", call, rp_meta_str(&t->m));
    if (*dim < 0) *dim += t->m.ndim;
    RP_CHECK(t->ctx, *dim >= 0 && *dim < t->m.ndim, RP_ERR_SHAPE, "%s: %s has no dimension %d", call, rp_meta_str(&t->m), given);
    return RP_OK;
}

rp_status rp_tensor_slice(rp_tensor *t, int dim, int64_t start, int64_t length, rp_tensor **out)
{
    RP_GIVEN(t ? t->ctx : NULL, t && out);
    RP_TRY(check_dim(t, "slice", &dim));
    RP_CHECK(t->ctx, start >= 0 && length >= 0 && start <= t->m.dim[dim] && length <= t->m.dim[dim] - start, RP_ERR_SHAPE,
             "slice: %" PRId64 " from %" PRId64 " is outside dimension %d of %s", length, start, dim, rp_meta_str(&t->m));
    RP_TRY(rp__tensor_alias(t, out));
    (*out)->m.dim[dim] = length;
    (*out)->start += start * t->stride[dim];
    return RP_OK;
}

rp_status rp_tensor_transpose(rp_tensor *t, int a, int b, rp_tensor **out)
{
    RP_GIVEN(t ? t->ctx : NULL, t && out);
    RP_TRY(check_dim(t, "transpose", &a));
    RP_TRY(check_dim(t, "transpose", &b));
    RP_TRY(rp__tensor_alias(t, out));
    (*out)->m.dim[a]  = t->m.dim[b];
    (*out)->m.dim[b]  = t->m.dim[a];
    (*out)->stride[a] = t->stride[b];
    (*out)->stride[b] = t->stride[a];
    return RP_OK;
}

/* ---- elements ---- */

/* Offset in elements of the first element of a row of the last dimension. */
static int64_t row_start(const rp_tensor *t, int64_t row)
{
    int64_t at = t->start;

    for (int i = t->m.ndim - 2; i >= 0; i--) {
        at += row % t->m.dim[i] * t->stride[i];
        row /= t->m.dim[i];
    }
    return at;
}

static double load_quant(rp_dtype dtype, const void *p, int64_t at)
{
    float one;

    rp__quant_read(rp__quant_type(dtype), p, at, 1, &one);
    return (double)one;
}

static double load_from(rp_dtype dtype, const void *p, int64_t at)
{
    if (rp__is_quant(dtype)) return load_quant(dtype, p, at);
    switch (dtype) {
    case RP_F32: return ((const float *)p)[at];
    case RP_BF16: return rp__f32_from_bf16(((const uint16_t *)p)[at]);
    case RP_I32: return ((const int32_t *)p)[at];
    case RP_U8: return ((const uint8_t *)p)[at];
    default: return ((const double *)p)[at];
    }
}

static void store_to(rp_dtype dtype, void *p, int64_t at, double value)
{
    switch (dtype) {
    case RP_F32: ((float *)p)[at] = (float)value; break;
    case RP_BF16: ((uint16_t *)p)[at] = rp__bf16_from_f32((float)value); break;
    case RP_I32: ((int32_t *)p)[at] = (int32_t)value; break;
    case RP_U8: ((uint8_t *)p)[at] = (uint8_t)(int32_t)value; break;
    default: ((double *)p)[at] = value;
    }
}

/* Tensors are on device 0. If the host is another device, the host reaches them directly only inside rp__mem_enter. */
static inline bool is_apart(const rp_ctx *ctx) { return ctx->host && !ctx->inside; }

/* A quantised tensor has one address. */
static uint8_t *address_of(const rp_tensor *t, int64_t at) { return base_of(t->storage) + at * rp_dtype_bytes(t->m.dtype); }

/* An element of a quantised tensor on a device that the host reaches only through copies. */
static double tensor_load_quant(const rp_tensor *t, int64_t at)
{
    rp_host h;

    if (rp__tensor_host_all(t, RP_HOST_READ, &h) != RP_OK) return 0;
    double one = load_quant(t->m.dtype, h.data, at);
    rp__tensor_host_end(&h);
    return one;
}

static double tensor_load(const rp_tensor *t, int64_t at)
{
    double one = 0;

    if (!is_apart(t->ctx)) return load_from(t->m.dtype, base_of(t->storage), at);
    if (rp__is_quant(t->m.dtype)) return tensor_load_quant(t, at);
    rp__mem_copy(t->ctx, &one, address_of(t, at), rp_dtype_bytes(t->m.dtype));
    rp__mem_sync(t->ctx);
    return load_from(t->m.dtype, &one, 0);
}

/* Does device 0 run kernels on whole tensors now? */
static bool launches(const rp_ctx *ctx) { return ctx->device[0]->runs && ctx->on.queue && !ctx->inside; }

static bool is_narrow_float(const rp_tensor *t) { return t->m.dtype == RP_F32 || t->m.dtype == RP_BF16; }

static void store(rp_tensor *t, int64_t at, double value)
{
    double one = 0;

    if (!is_apart(t->ctx)) {
        store_to(t->m.dtype, base_of(t->storage), at, value);
        return;
    }
    if (launches(t->ctx) && rp__kernels(t->ctx)->fill && is_narrow_float(t)) {
        rp__kernels(t->ctx)->fill(t->m.dtype, address_of(t, at), (float)value, 1, &t->ctx->on);
        return;
    }
    store_to(t->m.dtype, &one, 0, value);
    rp__mem_put(t->ctx, address_of(t, at), &one, rp_dtype_bytes(t->m.dtype));
}

rp_status rp__tensor_host(const rp_tensor *t, int64_t first, int64_t count, rp_host_access access, rp_host *out)
{
    bool quant      = rp__is_quant(t->m.dtype);
    int64_t bytes   = quant ? rp_meta_bytes(&t->m) : count * rp_dtype_bytes(t->m.dtype);
    uint8_t *device = t->storage->data ? address_of(t, t->start + first) : NULL;

    RP_BUG_IF(!rp_tensor_is_dense(t) || (quant && count != rp_meta_elems(&t->m)));
    *out = (rp_host){ .data = device, .ctx = t->ctx, .device = device, .bytes = bytes, .access = access };
    if (!device || !bytes || !is_apart(t->ctx)) return RP_OK;
    out->data = rp__host_alloc(t->ctx, bytes);
    if (!out->data) {
        out->data = device;
        return RP_ERR_MEMORY;
    }
    if (!(access & RP_HOST_READ)) return RP_OK;
    rp__mem_copy(t->ctx, out->data, device, bytes);
    rp__mem_sync(t->ctx);
    rp_status status = rp__mem_check(t->ctx, "a copy to the host");
    if (status == RP_OK) return RP_OK;
    rp__release(out->data);
    out->data = device;
    return status;
}

rp_status rp__tensor_host_all(const rp_tensor *t, rp_host_access access, rp_host *out)
{
    return rp__tensor_host(t, 0, rp_meta_elems(&t->m), access, out);
}

void rp__tensor_host_end(rp_host *h)
{
    if (h->data == h->device) return;
    if (h->access & RP_HOST_WRITE) rp__mem_put(h->ctx, h->device, h->data, h->bytes);
    rp__release(h->data);
    h->data = h->device;
}

static int64_t last_stride(const rp_tensor *t) { return t->m.ndim ? t->stride[t->m.ndim - 1] : 1; }

void rp_row_get(const rp_tensor *t, int64_t row, double *to)
{
    if (!t || !to) return;
    int64_t n = rp_meta_dim(&t->m, -1), at = row_start(t, row), step = last_stride(t);

    for (int64_t i = 0; i < n; i++) to[i] = tensor_load(t, at + i * step);
}

/* The op's caller counts writes inside an op. */
static void wrote(const rp_tensor *t, const char *call)
{
    if (rp__tensor_ctx(t->ctx)->in_op) return;
    t->storage->version++;
    t->storage->writer = call;
}

/* Inside an op it does not count as a write: ops read their inputs through addresses, too, and the op's caller counts writes. */
void *rp_tensor_data(const rp_tensor *t)
{
    if (!t) return NULL;
    wrote(t, "the program, through rp_tensor_data");
    return rp__tensor_data(t);
}

const void *rp_tensor_peek(const rp_tensor *t) { return t ? rp__tensor_data(t) : NULL; }

void rp_tensor_touch(rp_tensor *t)
{
    if (t) rp__tensor_wrote(t, "the program, through rp_tensor_touch");
}

void rp_row_put(rp_tensor *t, int64_t row, const double *from)
{
    if (!t || !from) return;
    wrote(t, "rp_row_put");
    int64_t n = rp_meta_dim(&t->m, -1), at = row_start(t, row), step = last_stride(t);

    for (int64_t i = 0; i < n; i++) store(t, at + i * step, from[i]);
}

static void row_add(rp_tensor *t, int64_t row, const double *from)
{
    int64_t n = rp_meta_dim(&t->m, -1), at = row_start(t, row), step = last_stride(t);

    for (int64_t i = 0; i < n; i++) store(t, at + i * step, tensor_load(t, at + i * step) + from[i]);
}

void rp_row_grad(const rp_op_call *c, int in, int64_t row, const double *from)
{
    if (!c || !from || !c->grad_in[in]) return;
    (c->grad_adds[in] ? row_add : rp_row_put)(c->grad_in[in], row, from);
}

static int64_t element_at(const rp_tensor *t, int64_t element)
{
    int64_t n = rp_meta_dim(&t->m, -1);

    return row_start(t, element / n) + element % n * last_stride(t);
}

double rp_elem_get(const rp_tensor *t, int64_t element) { return t ? tensor_load(t, element_at(t, element)) : 0; }
static void tensor_put(rp_tensor *t, int64_t element, double value) { store(t, element_at(t, element), value); }

void rp_elem_put(rp_tensor *t, int64_t element, double value)
{
    if (!t) return;
    wrote(t, "rp_elem_put");
    tensor_put(t, element, value);
}

int32_t rp_int_get(const rp_tensor *t, int64_t element)
{
    if (!t) return 0;
    return (int32_t)tensor_load(t, element_at(t, element));
}

static rp_status check_writable(const rp_tensor *t, const char *call)
{
    RP_CHECK(t->ctx, !rp__is_quant(t->m.dtype), RP_ERR_DTYPE, "%s: %s is quantised and cannot be written", call, rp_meta_str(&t->m));
    RP_CHECK(t->ctx, !t->storage->mapped, RP_ERR_STATE, "%s: '%s' stays in its file and cannot be written", call, t->name ? t->name : "a tensor");
    return RP_OK;
}

static rp_status check_count(const rp_tensor *t, int64_t count, const char *call)
{
    RP_CHECK(t->ctx, count == rp_meta_elems(&t->m), RP_ERR_ARG, "%s: %" PRId64 " elements given, %s has %" PRId64, call, count,
             rp_meta_str(&t->m), rp_meta_elems(&t->m));
    return RP_OK;
}

static rp_status check_whole(const rp_tensor *t, const double *from, int64_t count)
{
    bool byte  = t->m.dtype == RP_U8;
    double low = byte ? -1 : -2147483649.0, high = byte ? 256 : 2147483648.0;

    if (!byte && t->m.dtype != RP_I32) return RP_OK;
    for (int64_t i = 0; i < count; i++)
        RP_CHECK(t->ctx, from[i] > low && from[i] < high, RP_ERR_ARG, "rp_tensor_write: element %" PRId64 " is %g, beyond %s", i, from[i],
                 rp_dtype_name(t->m.dtype));
    return RP_OK;
}

/* Writes `wide` or, if that is NULL, `whole`. */
static rp_status write_all(rp_tensor *t, const double *wide, const int32_t *whole, int64_t count)
{
    rp_host h;

    if (!rp__tensor_real(t)) return RP_OK;
    if (!rp_tensor_is_dense(t)) {
        for (int64_t i = 0; i < count; i++) tensor_put(t, i, wide ? wide[i] : whole[i]);
        return RP_OK;
    }
    RP_TRY(rp__tensor_host_all(t, RP_HOST_WRITE, &h));
    for (int64_t i = 0; i < count; i++) store_to(t->m.dtype, h.data, i, wide ? wide[i] : whole[i]);
    rp__tensor_host_end(&h);
    return RP_OK;
}

rp_status rp_tensor_write(rp_tensor *t, const double *from, int64_t count)
{
    RP_GIVEN(t ? t->ctx : NULL, t && (from || !count));
    RP_TRY(check_writable(t, "rp_tensor_write"));
    RP_TRY(check_count(t, count, "rp_tensor_write"));
    RP_TRY(check_whole(t, from, count));
    RP_TRY(write_all(t, from, NULL, count));
    rp__tensor_wrote(t, "rp_tensor_write");
    return RP_OK;
}

static rp_int_range range_of(const int32_t *values, int64_t count)
{
    rp_int_range r = { .count = count };

    if (!count) return r;
    r.low = r.high = values[0];
    for (int64_t i = 1; i < count; i++) {
        if (values[i] < r.low) r.low = values[i];
        if (values[i] > r.high) r.high = values[i];
    }
    r.next_low  = r.high;
    r.next_high = r.low;
    for (int64_t i = 0; i < count; i++) {
        if (values[i] != r.low && values[i] < r.next_low) r.next_low = values[i];
        if (values[i] != r.high && values[i] > r.next_high) r.next_high = values[i];
    }
    return r;
}

rp_status rp_tensor_write_i32(rp_tensor *t, const int32_t *from, int64_t count)
{
    RP_GIVEN(t ? t->ctx : NULL, t && (from || !count));
    RP_TRY(check_writable(t, "rp_tensor_write_i32"));
    RP_TRY(check_count(t, count, "rp_tensor_write_i32"));
    RP_TRY(write_all(t, NULL, from, count));
    rp__tensor_wrote(t, "rp_tensor_write_i32");
    if (t->m.dtype != RP_I32 || !rp_tensor_is_dense(t)) return RP_OK;
    t->storage->range         = range_of(from, count);
    t->storage->range.version = t->storage->version;
    t->storage->range.start   = t->start;
    return RP_OK;
}

/* ---- ranges of integers ---- */

const rp_int_range *rp__tensor_int_range(const rp_tensor *t)
{
    const rp_int_range *r = &t->storage->range;

    if (!rp_tensor_is_dense(t) || r->version != t->storage->version || r->start != t->start || r->count != rp_meta_elems(&t->m)) return NULL;
    return r->version ? r : NULL;
}

bool rp__int_range_within(const rp_int_range *r, int64_t limit, const int32_t *other)
{
    int64_t low  = other && r->low == *other ? r->next_low : r->low;
    int64_t high = other && r->high == *other ? r->next_high : r->high;

    if (!r->count || (other && r->low == *other && r->high == *other)) return true;
    return low >= 0 && high < limit;
}

rp_status rp_tensor_read(const rp_tensor *t, double *to, int64_t count)
{
    RP_GIVEN(t ? t->ctx : NULL, t && (to || !count));
    RP_TRY(rp__tensor_needs_data(t, "rp_tensor_read"));
    RP_TRY(check_count(t, count, "rp_tensor_read"));
    if (!rp_tensor_is_dense(t)) {
        for (int64_t i = 0; i < count; i++) to[i] = rp_elem_get(t, i);
        return RP_OK;
    }
    rp_host h;
    RP_TRY(rp__tensor_host_all(t, RP_HOST_READ, &h));
    for (int64_t i = 0; i < count; i++) to[i] = load_from(t->m.dtype, h.data, i);
    rp__tensor_host_end(&h);
    return RP_OK;
}

/* ---- whole tensors ---- */

static int64_t rows_of(const rp_tensor *t) { return rp_meta_elems(&t->m) ? rp_meta_rows(&t->m) : 0; }

void rp__tensor_zero(rp_tensor *t)
{
    if (!t->storage->data) return;
    int64_t n = rp_meta_dim(&t->m, -1), size = rp_dtype_bytes(t->m.dtype), rows = rows_of(t);
    if (rp_tensor_is_dense(t)) {
        rp__mem_fill(t->ctx, rp__tensor_data(t), 0, rp_meta_bytes(&t->m));
        return;
    }
    rp__mem_enter(t->ctx);
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = row_start(t, r);
        for (int64_t i = 0; i < n; i++) memset(base_of(t->storage) + (at + i * last_stride(t)) * size, 0, (size_t)size);
    }
    rp__mem_leave(t->ctx);
}

/* Elements of a strided tensor may share one location, so they are added one after the other, without the kernel. */
static bool kernel_adds(const rp_tensor *to, const rp_tensor *from)
{
    return rp__kernels_inside(to->ctx)->copy_strips && rp_tensor_is_dense(to) && rp_tensor_is_dense(from) && is_narrow_float(to) &&
           is_narrow_float(from);
}

static void launch_strips(rp_tensor *to, const rp_tensor *from, bool adds)
{
    int64_t n = rp_meta_elems(&to->m);

    rp__kernels(to->ctx)->copy_strips(from->m.dtype, rp__tensor_data(from), n, to->m.dtype, rp__tensor_data(to), n, adds, 1, n, &to->ctx->on);
}

void rp__tensor_copy(rp_tensor *to, const rp_tensor *from)
{
    if (!to->storage->data) return;
    if (to->m.dtype == from->m.dtype && rp_tensor_is_dense(to) && rp_tensor_is_dense(from)) {
        rp__mem_copy(to->ctx, rp__tensor_data(to), rp__tensor_data(from), rp_meta_bytes(&to->m));
        return;
    }
    if (launches(to->ctx) && kernel_adds(to, from)) {
        launch_strips(to, from, false);
        return;
    }
    rp__mem_enter(to->ctx);
    for (int64_t i = 0, n = rp_meta_elems(&to->m); i < n; i++) tensor_put(to, i, rp_elem_get(from, i));
    rp__mem_leave(to->ctx);
}

void rp__tensor_add(rp_tensor *to, const rp_tensor *from)
{
    rp_ctx *ctx = to->ctx;
    int64_t n   = rp_meta_elems(&to->m);

    if (!to->storage->data) return;
    if (launches(ctx) && kernel_adds(to, from)) {
        launch_strips(to, from, true);
        return;
    }
    rp__mem_enter(ctx);
    if (kernel_adds(to, from))
        rp__kernels_inside(ctx)->copy_strips(from->m.dtype, rp__tensor_data(from), n, to->m.dtype, rp__tensor_data(to), n, true, 1, n, &ctx->on);
    else for (int64_t i = 0; i < n; i++) tensor_put(to, i, rp_elem_get(to, i) + rp_elem_get(from, i));
    rp__mem_leave(ctx);
}
