/* tensor/own.c -- the public functions for tensors of a program: names, first values, raw bytes, imported memory; reprise/train.h documents them. */
#include "reprise/train.h"
#include "base/quant.h"
#include "base/sized.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { MOST_CHARS = 512 };

/* ---- names ---- */

rp_status rp_tensor_set_name(rp_tensor *t, const char *name)
{
    RP_GIVEN(t ? t->ctx : NULL, t && name);
    rp_tensor *whole = rp__tensor_whole(t);

    RP_CHECK(t->ctx, *name && strlen(name) <= MOST_CHARS, RP_ERR_ARG, "rp_tensor_set_name: a name has 1 to %d bytes, not %zu", MOST_CHARS, strlen(name));
    RP_CHECK(t->ctx, !whole->name, RP_ERR_STATE, "rp_tensor_set_name: '%s' cannot be named '%s', because it has a name already", whole->name, name);
    whole->own_name = rp__host_text(t->ctx, name);
    if (!whole->own_name) return RP_ERR_MEMORY;
    whole->name = whole->own_name;
    return RP_OK;
}

const char *rp_tensor_name(const rp_tensor *t)
{
    const rp_tensor *whole = t && t->base ? t->base : t;

    return whole && whole->name ? whole->name : "";
}

static const char *shown_name(const rp_tensor *t) { return *rp_tensor_name(t) ? rp_tensor_name(t) : rp_meta_str(&t->m); }

static rp_status check_dense(const rp_tensor *t, const char *call)
{
    RP_CHECK(t->ctx, rp_tensor_is_dense(t), RP_ERR_SHAPE, "%s: the view %s of '%s' is not dense", call, rp_meta_str(&t->m), shown_name(t));
    return RP_OK;
}

/* ---- first values ---- */

static bool is_random(rp_init_kind kind) { return kind != RP_INIT_ZEROS && kind != RP_INIT_ONES; }
static bool has_fans(rp_init_kind kind) { return kind > RP_INIT_UNIFORM; }

static rp_status check_init(const rp_tensor *t, const rp_init *init)
{
    rp_ctx *ctx = t->ctx;

    RP_CHECK(ctx, (unsigned)init->kind <= RP_INIT_XAVIER_UNIFORM, RP_ERR_ARG, "rp_tensor_init: kind %d is unknown", (int)init->kind);
    RP_CHECK(ctx, init->scale >= 0 && isfinite(init->scale), RP_ERR_ARG, "rp_tensor_init: the scale %g is negative or not finite", init->scale);
    RP_CHECK(ctx, rp_meta_is_float(&t->m), RP_ERR_DTYPE, "rp_tensor_init: '%s' is %s, expected fp32, bf16 or fp64", shown_name(t), rp_dtype_name(t->m.dtype));
    RP_TRY(check_dense(t, "rp_tensor_init"));
    RP_CHECK(ctx, !is_random(init->kind) || *rp_tensor_name(t), RP_ERR_STATE,
             "rp_tensor_init: %s has no name, which its random values depend on: call rp_tensor_set_name", rp_meta_str(&t->m));
    RP_CHECK(ctx, !has_fans(init->kind) || t->m.ndim >= 2, RP_ERR_SHAPE, "rp_tensor_init: '%s' is %s, but Kaiming and Xavier need two dimensions or more",
             shown_name(t), rp_meta_str(&t->m));
    return RP_OK;
}

/* The standard deviation, or the bound of uniform values. */
static double width_of(const rp_tensor *t, const rp_init *init)
{
    bool kaiming = init->kind == RP_INIT_KAIMING_NORMAL || init->kind == RP_INIT_KAIMING_UNIFORM;
    double scale = init->scale > 0 ? init->scale : kaiming ? sqrt(2) : 1;
    double in = (double)rp_meta_dim(&t->m, init->out_in ? -1 : -2), out = (double)rp_meta_dim(&t->m, init->out_in ? -2 : -1);

    switch (init->kind) {
    case RP_INIT_KAIMING_NORMAL: return scale * sqrt(1 / in);
    case RP_INIT_KAIMING_UNIFORM: return scale * sqrt(3 / in);
    case RP_INIT_XAVIER_NORMAL: return scale * sqrt(2 / (in + out));
    case RP_INIT_XAVIER_UNIFORM: return scale * sqrt(6 / (in + out));
    default: return scale;
    }
}

static void init_values(rp_tensor *t, const rp_init *init)
{
    static const bool normal[] = { [RP_INIT_NORMAL] = true, [RP_INIT_KAIMING_NORMAL] = true, [RP_INIT_XAVIER_NORMAL] = true, [RP_INIT_XAVIER_UNIFORM] = false };
    int64_t n = rp_meta_elems(&t->m);

    rp__mem_enter(t->ctx);
    if (!is_random(init->kind)) rp__tensor_fill(t, n, init->kind == RP_INIT_ONES);
    else
        rp__tensor_draw(t, 0, n, rp__draw_key(t->ctx->seed, rp_tensor_name(t)), normal[init->kind] ? RP_DRAW_NORMAL : RP_DRAW_UNIFORM, width_of(t, init));
    rp__mem_leave(t->ctx);
}

rp_status rp_tensor_init_sized(size_t size, rp_tensor *t, const rp_init *init)
{
    RP_GIVEN(NULL, t);
    rp_init own = { RP_INIT_ZEROS, 0, false };

    RP_TAKE(t->ctx, own, init, size);
    RP_TRY(check_init(t, &own));
    if (t->storage->data && rp_meta_elems(&t->m)) init_values(t, &own);
    rp__tensor_wrote(t, "rp_tensor_init");
    return RP_OK;
}

rp_status (rp_tensor_init)(rp_tensor *t, const rp_init *init) { return rp_tensor_init_sized(RP_FIRST_INIT, t, init); }

rp_status rp_param_new_sized(size_t size, rp_ctx *ctx, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out)
{
    RP_GIVEN(ctx, ctx && name && meta && out);
    rp_tensor *t;

    RP_TRY(rp__tensor_new_named(ctx, meta, RP_MEM_PARAM, *name ? name : "a parameter", &t));
    rp_status status = rp_tensor_set_name(t, name);
    if (status == RP_OK) status = rp_tensor_init_sized(size, t, init);
    if (status == RP_OK) t->requires_grad = true;
    return rp__tensor_give(status, t, out);
}

rp_status (rp_param_new)(rp_ctx *ctx, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out)
{
    return rp_param_new_sized(RP_FIRST_INIT, ctx, name, meta, init, out);
}

/* ---- raw bytes ---- */

static rp_status check_raw(const rp_tensor *t, int64_t bytes, const char *call)
{
    RP_CHECK(t->ctx, bytes == rp_meta_bytes(&t->m), RP_ERR_ARG, "%s: %" PRId64 " bytes given, %s has %" PRId64, call, bytes, rp_meta_str(&t->m),
             rp_meta_bytes(&t->m));
    return check_dense(t, call);
}

rp_status rp_tensor_write_raw(rp_tensor *t, const void *from, int64_t bytes)
{
    RP_GIVEN(t ? t->ctx : NULL, t && (from || !bytes));
    rp_host h;

    RP_CHECK(t->ctx, !rp__is_quant(t->m.dtype), RP_ERR_DTYPE, "rp_tensor_write_raw: %s is quantised and cannot be written", rp_meta_str(&t->m));
    RP_TRY(check_raw(t, bytes, "rp_tensor_write_raw"));
    if (t->storage->data && bytes) {
        RP_TRY(rp__tensor_host_all(t, RP_HOST_WRITE, &h));
        memcpy(h.data, from, (size_t)bytes);
        rp__tensor_host_end(&h);
    }
    rp__tensor_wrote(t, "rp_tensor_write_raw");
    return RP_OK;
}

rp_status rp_tensor_read_raw(const rp_tensor *t, void *to, int64_t bytes)
{
    RP_GIVEN(t ? t->ctx : NULL, t && (to || !bytes));
    rp_host h;

    RP_TRY(rp__tensor_needs_data(t, "rp_tensor_read_raw"));
    RP_TRY(check_raw(t, bytes, "rp_tensor_read_raw"));
    if (!bytes) return RP_OK;
    RP_TRY(rp__tensor_host_all(t, RP_HOST_READ, &h));
    memcpy(to, h.data, (size_t)bytes);
    rp__tensor_host_end(&h);
    return RP_OK;
}

/* ---- imported memory ---- */

static rp_status check_import(rp_ctx *ctx, const rp_meta *meta, const void *memory, int64_t bytes)
{
    RP_TRY(rp__meta_check(ctx, meta));
    RP_CHECK(ctx, bytes == rp_meta_bytes(meta), RP_ERR_ARG, "rp_tensor_import: %" PRId64 " bytes given, %s has %" PRId64, bytes, rp_meta_str(meta),
             rp_meta_bytes(meta));
    RP_CHECK(ctx, (uintptr_t)memory % RP_IMPORT_ALIGNMENT == 0, RP_ERR_ARG, "rp_tensor_import: the address %p is not a multiple of %d", memory,
             RP_IMPORT_ALIGNMENT);
    RP_CHECK(ctx, rp__mem_on_host(ctx->space[0]) && !ctx->far, RP_ERR_UNSUPPORTED, "rp_tensor_import: the device '%s' does not compute in host memory",
             ctx->device[0]->name);
    return RP_OK;
}

rp_status rp_tensor_import(rp_ctx *ctx, const rp_meta *meta, void *memory, int64_t bytes, rp_tensor **out)
{
    RP_GIVEN(ctx, ctx && meta && out && (memory || !bytes || ctx->options.shapes_only));
    RP_TRY(check_import(ctx, meta, memory, bytes));
    return rp__tensor_import(ctx, meta, ctx->options.shapes_only || !bytes ? NULL : memory, out);
}
