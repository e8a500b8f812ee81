/* nn/attention.c -- self-attention, causal or bidirectional, with grouped heads, rotary embedding and an optional cache for generation.
 *
 *   x ─ q ─ q_norm ─ [B,T,Hq,D] ─ rotary ┐
 *   x ─ k ─ k_norm ─ [B,T,Hk,D] ─ rotary ┼ attention ─ [B,T,Hq*D] ─ output
 *   x ─ v ───────────[B,T,Hk,D] ─────────┘
 *
 * A fused projection qkv gives [B,T,3H,D], and q, k and v are views of it. With a cache, k and v are first appended to those of earlier
 * tokens, and attention reads all of them.
 */
#include "nn/layers.h"

#include "tensor/tensor.h"

enum { Q, K, V, PARTS };

typedef struct {
    rp_module m;
    rp_attention_config config;
    rp_module *part[PARTS], *qkv, *output;      /* either q, k and v, or qkv */
    rp_module *norm[PARTS];                     /* of Q and K; NULL: none */
    rp_dtype dtype;
    rp_tensor *cache[PARTS];                    /* of K and V: [rows, length, Hk, D] */
    int64_t cached;                             /* tokens in the cache */
} attention;

static rp_status as_heads(rp_tensor **x, int64_t heads, int64_t dim)
{
    const rp_meta *m = rp_tensor_meta(*x);
    rp_tensor *view;

    RP_TRY(rp_tensor_reshape(*x, 4, (int64_t[]){ m->dim[0], m->dim[1], heads, dim }, &view));
    rp_tensor_unref(*x);
    *x = view;
    return RP_OK;
}

static rp_status project_fused(attention *a, rp_tensor *const *in, rp_tensor **part)
{
    int64_t heads[PARTS] = { a->config.n_heads, a->config.n_kv_heads, a->config.n_kv_heads }, start = 0;
    rp_tensor *qkv       = NULL;

    RP_TRY(rp__module_call(a->qkv, in, &qkv));
    rp_status status = as_heads(&qkv, heads[Q] + heads[K] + heads[V], a->config.head_dim);
    for (int i = 0; i < PARTS && status == RP_OK; i++) {
        status = rp_tensor_slice(qkv, 2, start, heads[i], &part[i]);
        start += heads[i];
    }
    rp_tensor_unref(qkv);
    return status;
}

static rp_status project(attention *a, rp_tensor *const *in, rp_tensor **part)
{
    bool whole = a->config.qk_norm == RP_QK_NORM_WHOLE;

    if (a->qkv) return project_fused(a, in, part);
    for (int i = 0; i < PARTS; i++) {
        RP_TRY(rp__module_call(a->part[i], in, &part[i]));
        if (a->norm[i] && whole) RP_TRY(rp__layer_step(a->norm[i], &part[i]));
        RP_TRY(as_heads(&part[i], i == Q ? a->config.n_heads : a->config.n_kv_heads, a->config.head_dim));
        if (a->norm[i] && !whole) RP_TRY(rp__layer_step(a->norm[i], &part[i]));
    }
    return RP_OK;
}

static rp_status rotate(attention *a, rp_tensor *const *in, rp_tensor **x)
{
    rp_tensor *with[4] = { *x, in[RP_BLOCK_POSITIONS], in[RP_BLOCK_COS], in[RP_BLOCK_SIN] }, *y;

    if (!in[RP_BLOCK_COS]) return RP_OK;
    RP_TRY(rp__apply(a->m.ctx, &rp_op_rotary, NULL, with, 4, &y));
    rp_tensor_unref(*x);
    *x = y;
    return RP_OK;
}

/* Appends x to the cache; then x becomes a view of the whole cache. */
static rp_status into_cache(attention *a, int part, rp_tensor **x)
{
    int64_t tokens = rp_tensor_meta(*x)->dim[1];
    rp_tensor *place, *all;

    if (!a->cache[part]) return RP_OK;
    RP_CHECK(a->m.ctx, a->cached + tokens <= a->cache[part]->m.dim[1], RP_ERR_ARG, "'%s': the cache has room for %" PRId64
             " tokens, not for %" PRId64, a->m.path, a->cache[part]->m.dim[1], a->cached + tokens);
    RP_TRY(rp_tensor_slice(a->cache[part], 1, a->cached, tokens, &place));
    if (rp__tensor_real(place)) rp__tensor_copy(place, *x);
    rp__tensor_wrote(place, "the cache");
    rp_tensor_unref(place);
    RP_TRY(rp_tensor_slice(a->cache[part], 1, 0, a->cached + tokens, &all));
    rp_tensor_unref(*x);
    *x = all;
    return RP_OK;
}

static rp_status attend(attention *a, rp_tensor *const *part, rp_tensor *doc_start, rp_tensor **out)
{
    const rp_attention_config *c = &a->config;
    rp_attr_attention attr       = { .scale = c->scale, .dropout = c->dropout, .causal = !c->both_ways, .window = c->window, .softcap = c->softcap };
    rp_tensor *with[4]           = { part[Q], part[K], part[V], doc_start }, *y, *flat;
    const rp_meta *m             = rp_tensor_meta(part[Q]);

    RP_TRY(rp__apply(a->m.ctx, &rp_op_attention, &attr, with, doc_start ? 4 : 3, &y));
    rp_status status = rp_tensor_reshape(y, 3, (int64_t[]){ m->dim[0], m->dim[1], c->n_heads * c->head_dim }, &flat);
    rp_tensor_unref(y);
    if (status == RP_OK) *out = flat;
    return status;
}

static void release_parts(rp_tensor **part)
{
    for (int i = 0; i < PARTS; i++) {
        rp_tensor_unref(part[i]);
        part[i] = NULL;
    }
}

static rp_status attention_forward(rp_module *self, rp_tensor *const *in, rp_tensor **out)
{
    attention *a           = (attention *)self;
    rp_tensor *part[PARTS] = { 0 }, *y = NULL;
    rp_status status       = RP_OK;

    RP_TRY_GOTO(project(a, in, part));
    RP_TRY_GOTO(rotate(a, in, &part[Q]));
    RP_TRY_GOTO(rotate(a, in, &part[K]));
    int64_t tokens = rp_tensor_meta(part[K])->dim[1];
    RP_TRY_GOTO(into_cache(a, K, &part[K]));
    RP_TRY_GOTO(into_cache(a, V, &part[V]));
    if (a->cache[K]) a->cached += tokens;
    RP_TRY_GOTO(attend(a, part, in[RP_BLOCK_DOC_START], &y));
    release_parts(part);
    RP_TRY_GOTO(rp__layer_step(a->output, &y));
    *out = y;
    return RP_OK;
done:
    release_parts(part);
    rp_tensor_unref(y);
    return status;
}

static void attention_drop(rp_module *self) { release_parts(((attention *)self)->cache); }

rp_status rp__attention_cache(rp_module *m, int64_t rows, int64_t length)
{
    attention *a = (attention *)m;
    rp_meta meta = { .ndim = 4, .dim = { rows, length, a->config.n_kv_heads, a->config.head_dim } };

    release_parts(a->cache);
    a->cached = 0;
    if (rows == 0) return RP_OK;
    meta.dtype = a->dtype;
    RP_TRY(rp__tensor_new_named(m->ctx, &meta, RP_MEM_TEMP, "cached keys", &a->cache[K]));
    return rp__tensor_new_named(m->ctx, &meta, RP_MEM_TEMP, "cached values", &a->cache[V]);
}

static rp_status new_norms(attention *a, const int64_t *width, rp_dtype dtype)
{
    static const char *const names[PARTS] = { "q_norm", "k_norm" };
    const rp_attention_config *c          = &a->config;

    RP_BUG_IF(c->fused_qkv && c->qk_norm);      /* norms need dense rows */
    for (int i = Q; i <= K && c->qk_norm; i++) {
        rp_norm_config norm = { .n = c->qk_norm == RP_QK_NORM_WHOLE ? width[i] : c->head_dim, .eps = c->norm_eps, .plus = c->norm_plus };
        RP_TRY(rp__norm_new(&a->m, names[i], &norm, dtype, &a->norm[i]));
    }
    return RP_OK;
}

rp_status rp__attention_new(rp_module *parent, const char *name, const rp_attention_config *c, rp_dtype dtype, rp_module **out)
{
    static const rp_module_kind type       = { .name = "Attention", .forward = attention_forward, .drop = attention_drop };
    static const char *const names[PARTS]  = { "q", "k", "v" };
    int64_t q = c->n_heads * c->head_dim, kv = c->n_kv_heads * c->head_dim, width[PARTS] = { q, kv, kv };
    attention *a;

    RP_TRY(rp__module_new(parent->ctx, parent, name, &type, sizeof *a, &a));
    a->config = *c;
    a->dtype  = dtype;
    rp_linear_config in = { .in = c->n, .out = q + 2 * kv, .bias = c->qkv_bias, .in_out = c->in_out };
    if (c->fused_qkv) RP_TRY(rp__linear_new(&a->m, "qkv", &in, dtype, &a->qkv));
    for (int i = 0; i < PARTS && !c->fused_qkv; i++) {
        in.out = width[i];
        RP_TRY(rp__linear_new(&a->m, names[i], &in, dtype, &a->part[i]));
    }
    RP_TRY(new_norms(a, width, dtype));
    rp_linear_config output = { .in = q, .out = c->n, .bias = c->output_bias, .in_out = c->in_out };
    RP_TRY(rp__linear_new(&a->m, "output", &output, dtype, &a->output));
    *out = &a->m;
    return RP_OK;
}
