/* models/model.c -- a config into a tree of modules, and its passes. */
#include "models/model.h"

#include <string.h>

#include "models/adapter.h"
#include "models/family.h"
#include "models/rope.h"
#include "nn/layers.h"
#include "policy/stack.h"

/* Of blocks that see all, of those with a window where they have their own, and of all for texts beyond the original context. */
enum { TYPES = RP_BLOCK_COS };          /* in what the root is given */
enum { WHOLE_ROPE, WINDOW_ROPE, LONG_ROPE, ROPES };
typedef struct { rp_tensor *cos, *sin; } rope_tables;

struct rp_model {
    rp_ctx *ctx;
    rp_model_config config;
    rp_module *root, *tokens, *positions, *types, *embed_norm, *layers, *norm, *head, *output;    /* NULL where there is none */
    rope_tables rope[ROPES];                    /* NULL until a length is known, and where there is no such rope */
    const rp_param **param;
    int n_params;
    int64_t cached;
    bool has_cache, beyond;                     /* beyond: this pass has positions beyond the original context */
};

/* ---- building ---- */

static rp_norm_config norm_config(const rp_model_config *c)
{
    return (rp_norm_config){ .n = c->hidden, .eps = (float)c->norm_eps, .plus = (float)c->norm_plus, .layer = c->norm == RP_NORM_LAYER };
}

static const rp_mlp_activation activation[] = {
    [RP_ACT_SILU] = RP_MLP_SILU,
    [RP_ACT_GELU_TANH] = RP_MLP_GELU_TANH,
    [RP_ACT_GELU_ERF] = RP_MLP_GELU_ERF,
    [RP_ACT_RELU] = RP_MLP_RELU,
};

static rp_block_config block_config(const rp_model_config *c, int64_t layer)
{
    double scale = c->attn_scale_by_layer ? c->attn_scale / (double)(layer + 1) : c->attn_scale;

    return (rp_block_config){
        .norm    = norm_config(c),
        .norms   = c->norms,
        .attn    = { .n = c->hidden, .n_heads = c->n_heads, .n_kv_heads = c->n_kv_heads, .head_dim = c->head_dim, .fused_qkv = c->fused_qkv,
                     .qkv_bias = c->qkv_bias, .output_bias = c->attn_output_bias, .in_out = c->weights_in_out, .both_ways = c->both_ways,
                     .scale = (float)scale, .dropout = (float)c->attn_dropout, .softcap = (float)c->attn_softcap,
                     .window = (int32_t)rp__model_config_window(c, layer), .qk_norm = c->qk_norm, .norm_eps = (float)c->norm_eps,
                     .norm_plus = (float)c->norm_plus },
        .mlp     = { .n = c->hidden, .hidden = c->mlp_hidden, .gated = c->gated_mlp, .fused = c->fused_gate_up, .bias = c->mlp_bias,
                     .in_out = c->weights_in_out, .activation = activation[c->activation] },
        .moe     = { .n = c->hidden, .hidden = c->expert_hidden, .experts = rp__model_config_experts(c, layer), .chosen = c->experts_chosen,
                     .renormalise = c->experts_renormalise },
        .dropout = (float)c->resid_dropout,
    };
}

static rp_status build_layers(rp_model *m, rp_dtype dtype)
{
    RP_TRY(rp__module_list_new(m->root, "layers", &m->layers));
    for (int64_t i = 0; i < m->config.n_layers; i++) {
        rp_block_config block = block_config(&m->config, i);
        char name[24];
        rp_module *made;
        snprintf(name, sizeof name, "%" PRId64, i);
        RP_TRY(rp__block_new(m->layers, name, &block, dtype, &made));
    }
    return RP_OK;
}

/* in { tokens, positions, types, -, doc_start }: the hidden states after the last norm. Each block is given the tables of its rope. */
static rp_status decoder_forward(rp_module *root, rp_tensor *const *in, rp_tensor **out);

static bool decoder_called(const rp_module *root, const char *path, const char *glob, rp_called how);

static const rp_module_kind decoder_type = { .name = "Decoder", .forward = decoder_forward, .called = decoder_called };

typedef struct { rp_module m; rp_model *model; } decoder;

static bool decoder_called(const rp_module *root, const char *path, const char *glob, rp_called how)
{
    const rp_model_config *c = &((const decoder *)root)->model->config;

    return c->family && rp__family_calls(c->family, c->experts, path, glob, how);
}

static rp_status build_embeddings(rp_model *m, rp_dtype dtype)
{
    const rp_model_config *c = &m->config;
    rp_norm_config norm      = norm_config(c);

    RP_TRY(rp__embedding_new(m->root, "tok_embeddings", c->vocab, c->hidden, dtype, &m->tokens));
    if (c->learned_positions) RP_TRY(rp__embedding_new(m->root, "pos_embeddings", c->context, c->hidden, dtype, &m->positions));
    if (c->token_types) RP_TRY(rp__embedding_new(m->root, "type_embeddings", c->token_types, c->hidden, dtype, &m->types));
    return c->embed_norm ? rp__norm_new(m->root, "embed_norm", &norm, dtype, &m->embed_norm) : RP_OK;
}

/* What stands behind the blocks. Blocks that norm their sums have normed the last one. */
static rp_status build_output(rp_model *m, rp_dtype dtype)
{
    const rp_model_config *c   = &m->config;
    rp_norm_config norm        = norm_config(c);
    rp_linear_config output    = { .in = c->hidden, .out = c->vocab };
    rp_masked_head_config head = { .n = c->hidden, .classes = c->vocab, .activation = activation[c->activation], .norm = norm };

    if (c->norms != RP_NORMS_BEHIND_SUM) RP_TRY(rp__norm_new(m->root, "norm", &norm, dtype, &m->norm));
    if (c->masked_head) RP_TRY(rp__masked_head_new(m->root, "head", &head, dtype, &m->head));
    if (c->tied) RP_TRY(rp__linear_new_tied(m->root, "output", &m->tokens->param[0], &m->output));
    else RP_TRY(rp__linear_new(m->root, "output", &output, dtype, &m->output));
    return m->head ? rp__module_share(m->output, "bias", &m->head->param[0]) : RP_OK;
}

static rp_status build(rp_model *m, rp_dtype dtype)
{
    decoder *root;

    RP_TRY(rp__module_new(m->ctx, NULL, "", &decoder_type, sizeof *root, &root));
    root->model = m;
    m->root     = &root->m;
    RP_TRY(build_embeddings(m, dtype));
    RP_TRY(build_layers(m, dtype));
    return build_output(m, dtype);
}

static rp_status list_params(rp_model *m)
{
    int n = 0;

    for (rp_module *at = m->root; at; at = rp__module_next(m->root, at)) n += at->n_params;
    m->param = rp__host_alloc(m->ctx, n * (int64_t)sizeof *m->param);
    if (!m->param) return RP_ERR_MEMORY;
    for (rp_module *at = m->root; at; at = rp__module_next(m->root, at))
        for (int i = 0; i < at->n_params; i++)
            if (!at->param[i].owner) m->param[m->n_params++] = &at->param[i];
    return RP_OK;
}

rp_status rp__model_build(rp_ctx *ctx, rp_model_config *config, rp_dtype dtype, rp_model **out)
{
    rp_model *m = rp__host_alloc(ctx, sizeof *m);

    if (!m) return RP_ERR_MEMORY;
    m->ctx           = ctx;
    m->config        = *config;
    rp_status status = build(m, dtype);
    if (status == RP_OK && config->adapter.lora.rank) status = rp__adapters_attach(m->root, &config->adapter);
    if (status == RP_OK) status = list_params(m);
    m->config.adapter.n_modules = 0;                  /* the names were borrowed */
    if (status != RP_OK) {
        memset(&m->config, 0, sizeof m->config);      /* still the caller's */
        rp__model_free(m);
        return status;
    }
    memset(config, 0, sizeof *config);
    *out = m;
    return RP_OK;
}

void rp__model_free(rp_model *m)
{
    if (!m) return;
    rp__module_free(m->root);
    for (int i = 0; i < ROPES; i++) {
        rp_tensor_unref(m->rope[i].cos);
        rp_tensor_unref(m->rope[i].sin);
    }
    rp__release(m->param);
    rp__model_config_drop(&m->config);
    rp__release(m);
}

const rp_model_config *rp__model_config(const rp_model *m) { return &m->config; }
rp_module *rp__model_root(rp_model *m) { return m->root; }
rp_ctx *rp__model_ctx(const rp_model *m) { return m->ctx; }
int rp__model_n_params(const rp_model *m) { return m->n_params; }
const rp_param *rp__model_param(const rp_model *m, int i) { return m->param[i]; }

const rp_param *rp__model_find_param(const rp_model *m, const char *path)
{
    for (int i = 0; i < m->n_params; i++)
        if (!strcmp(m->param[i]->path, path)) return m->param[i];
    return NULL;
}

static rp_status reserve_tables(rp_model *m, const rp_rope_config *rope, int64_t length, rope_tables *tables)
{
    int64_t dim = m->config.rotary_dim ? m->config.rotary_dim : m->config.head_dim;
    rope_tables longer;

    if (rope->kind == RP_ROPE_NONE || (tables->cos && tables->cos->m.dim[0] >= length)) return RP_OK;
    RP_TRY(rp__rope_tables(m->ctx, rope, dim, length, rp_meta_stat_dtype(&m->tokens->param[0].tensor->m), &longer.cos, &longer.sin));
    rp_tensor_unref(tables->cos);
    rp_tensor_unref(tables->sin);
    *tables = longer;
    return RP_OK;
}

rp_status rp__model_reserve_length(rp_model *m, int64_t length)
{
    RP_CHECK(m->ctx, length <= m->config.context, RP_ERR_ARG, "%" PRId64 " tokens are more than the model's context of %" PRId64, length,
             m->config.context);
    RP_TRY(reserve_tables(m, &m->config.rope, length, &m->rope[WHOLE_ROPE]));
    RP_TRY(reserve_tables(m, &m->config.window_rope, length, &m->rope[WINDOW_ROPE]));
    if (m->config.rope.kind != RP_ROPE_LONG || length <= m->config.rope.original_context) return RP_OK;
    rp_rope_config longer = m->config.rope;
    longer.divisors       = longer.long_divisors;
    return reserve_tables(m, &longer, length, &m->rope[LONG_ROPE]);
}

/* ---- passes ---- */

/* Gemma's factor, in the dtype of what it multiplies. */
static rp_status scale_embedding(rp_model *m, rp_tensor **x)
{
    rp_attr_scale by = { (float)m->config.embedding_scale };

    if (by.factor == 0) return RP_OK;
    if (rp_tensor_meta(*x)->dtype == RP_BF16) by.factor = rp__f32_from_bf16(rp__bf16_from_f32(by.factor));
    return rp__op_step(m->ctx, &rp_op_scale, &by, x);
}

/* *x + the rows of another table; nothing where there is none. */
static rp_status add_embedding(rp_module *table, rp_tensor *ids, rp_tensor **x)
{
    rp_tensor *rows, *sum;

    if (!table) return RP_OK;
    RP_TRY(rp__module_call(table, &ids, &rows));
    rp_status status = rp__apply(table->ctx, &rp_op_add, NULL, (rp_tensor *[]){ *x, rows }, 2, &sum);
    rp_tensor_unref(rows);
    if (status != RP_OK) return status;
    rp_tensor_unref(*x);
    *x = sum;
    return RP_OK;
}

static rp_status embed(rp_model *m, rp_tensor *const *in, rp_tensor **out)
{
    rp_tensor *tokens = in[RP_BLOCK_X], *x = NULL;
    rp_status status  = RP_OK;

    RP_TRY_GOTO(rp__module_call(m->tokens, &tokens, &x));
    RP_TRY_GOTO(scale_embedding(m, &x));
    RP_TRY_GOTO(add_embedding(m->types, in[TYPES], &x));
    RP_TRY_GOTO(add_embedding(m->positions, in[RP_BLOCK_POSITIONS], &x));
    if (m->embed_norm) RP_TRY_GOTO(rp__layer_step(m->embed_norm, &x));
    RP_TRY_GOTO(rp__dropout_step(m->ctx, (float)m->config.embd_dropout, &x));
    *out = x;
    return RP_OK;
done:
    rp_tensor_unref(x);
    return status;
}

/* The rope of a block, from 0. */
static void with_rope(const rp_model *m, int64_t layer, rp_tensor **with)
{
    bool own             = m->rope[WINDOW_ROPE].cos && rp__model_config_window(&m->config, layer);
    const rope_tables *t = &m->rope[m->beyond ? LONG_ROPE : own ? WINDOW_ROPE : WHOLE_ROPE];

    with[RP_BLOCK_COS] = t->cos;
    with[RP_BLOCK_SIN] = t->sin;
}

static rp_status decoder_forward(rp_module *root, rp_tensor *const *in, rp_tensor **out)
{
    rp_model *m = ((decoder *)root)->model;
    rp_tensor *with[RP_BLOCK_INPUTS], *x = NULL, *y;
    rp_status status = RP_OK;
    int64_t layer    = 0;

    memcpy(with, in, sizeof with);
    RP_TRY(embed(m, in, &x));
    for (rp_module *block = m->layers->first_child; block; block = block->next) {
        with[RP_BLOCK_X] = x;
        with_rope(m, layer++, with);
        RP_TRY_GOTO(rp__module_call(block, with, &y));
        rp_tensor_unref(x);
        x = y;
    }
    if (m->norm) RP_TRY_GOTO(rp__layer_step(m->norm, &x));
    *out = x;
    return RP_OK;
done:
    rp_tensor_unref(x);
    return status;
}

/* 0, 1, … of each row, counted on from what the cache holds. */
static rp_status count_positions(rp_model *m, const rp_meta *tokens, rp_tensor **out)
{
    rp_tensor *t;

    RP_TRY(rp__tensor_new_named(m->ctx, tokens, RP_MEM_TEMP, "positions", &t));
    int32_t *p = rp__tensor_real(t) ? rp_tensor_data(t) : NULL;
    for (int64_t i = 0; p && i < rp_meta_elems(tokens); i++) p[i] = (int32_t)(m->cached + i % tokens->dim[1]);
    *out = t;
    return RP_OK;
}

/* Of the batch, or all 0; NULL where the model has none. */
static rp_status types_of(rp_model *m, const rp_model_batch *batch, rp_tensor **out)
{
    const rp_meta *tokens = rp_tensor_meta(batch->tokens);
    rp_tensor *t          = NULL;

    if (m->types && batch->types) t = rp_tensor_ref(batch->types);
    else if (m->types) {
        RP_TRY(rp__tensor_new_named(m->ctx, tokens, RP_MEM_TEMP, "token types", &t));
        if (rp__tensor_real(t)) memset(rp_tensor_data(t), 0, (size_t)rp_meta_bytes(tokens));
    }
    *out = t;
    return RP_OK;
}

/* As transformers chooses: for a whole batch by its last position. Both tables are of one size, so shapes alone need not know. */
static bool goes_beyond(const rp_model *m, const rp_tensor *positions)
{
    bool beyond = false;

    if (!m->rope[LONG_ROPE].cos || !rp__tensor_real(positions)) return false;
    for (int64_t i = 0; i < rp_meta_elems(&positions->m) && !beyond; i++)
        beyond = rp_int_get(positions, i) >= m->config.rope.original_context;
    return beyond;
}

static rp_status hidden(rp_model *m, const rp_model_batch *batch, rp_tensor **out)
{
    const rp_meta *tokens = rp_tensor_meta(batch->tokens);
    rp_tensor *positions = NULL, *types = NULL;
    rp_status status     = RP_OK;

    RP_CHECK(m->ctx, tokens->ndim == 2 && tokens->dtype == RP_I32 && tokens->dim[1] > 0, RP_ERR_SHAPE,
             "tokens are %s, expected int32 [rows, length]", rp_meta_str(tokens));
    RP_TRY(rp__model_reserve_length(m, m->cached + tokens->dim[1]));
    if (batch->positions) positions = rp_tensor_ref(batch->positions);
    else RP_TRY(count_positions(m, tokens, &positions));
    RP_TRY_GOTO(types_of(m, batch, &types));
    m->beyond = goes_beyond(m, positions);
    rp_tensor *in[RP_BLOCK_INPUTS] = { batch->tokens, positions, types, NULL, batch->doc_start };
    RP_TRY_GOTO(rp__module_call(m->root, in, out));
    if (m->has_cache) m->cached += tokens->dim[1];
done:
    rp_tensor_unref(types);
    rp_tensor_unref(positions);
    return status;
}

/* A pass that fails is forgotten, as far as it was recorded. */
static rp_status finish_pass(rp_model *m, rp_status status, rp_tape_mark before)
{
    if (status != RP_OK) rp__tape_rewind(m->ctx, before);
    return status;
}

static rp_status project_logits(rp_model *m, rp_tensor **x)
{
    rp_attr_softcap cap = { (float)m->config.logit_softcap };

    if (m->head) RP_TRY(rp__layer_step(m->head, x));
    RP_TRY(rp__layer_step(m->output, x));
    return cap.cap > 0 ? rp__op_step(m->ctx, &rp_op_softcap, &cap, x) : RP_OK;
}

static rp_status all_logits(rp_model *m, const rp_model_batch *batch, rp_tensor **logits)
{
    rp_tensor *x = NULL;

    RP_TRY(hidden(m, batch, &x));
    rp_status status = project_logits(m, &x);
    if (status == RP_OK) *logits = x;
    else rp_tensor_unref(x);
    return status;
}

rp_status rp__model_logits(rp_model *m, const rp_model_batch *batch, rp_tensor **logits)
{
    rp_tape_mark before = rp__tape_mark(m->ctx);

    RP_TRY(rp__module_enter(m->root));
    rp_status status = all_logits(m, batch, logits);
    rp__module_leave(m->root);
    return finish_pass(m, status, before);
}

/* A copy, as the product wants its rows dense. */
static rp_status keep_last_position(rp_ctx *ctx, rp_tensor **x)
{
    rp_meta meta    = *rp_tensor_meta(*x);
    int64_t length  = meta.dim[1];
    rp_tensor *view = NULL, *last;

    meta.dim[1] = 1;
    RP_TRY(rp__tensor_new_named(ctx, &meta, RP_MEM_TEMP, "last position", &last));
    rp_status status = rp_tensor_slice(*x, 1, length - 1, 1, &view);
    if (status == RP_OK && rp__tensor_real(last)) rp__tensor_copy(last, view);
    rp_tensor_unref(view);
    rp_tensor_unref(status == RP_OK ? *x : last);
    if (status == RP_OK) *x = last;
    return status;
}

rp_status rp__model_next_logits(rp_model *m, const rp_model_batch *batch, rp_tensor **logits)
{
    rp_tensor *x = NULL;

    RP_TRY(hidden(m, batch, &x));
    rp_status status = keep_last_position(m->ctx, &x);
    if (status == RP_OK) status = project_logits(m, &x);
    if (status == RP_OK) *logits = x;
    else rp_tensor_unref(x);
    return status;
}

/* The loss takes an output that is not whole a block at a time: the module is not entered, so a shard unit of the output alone gathers nothing. */
static rp_status output_loss(rp_model *m, rp_tensor *x, rp_tensor *labels, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    rp_scope *outer           = m->ctx->scope;
    rp_attr_cross_entropy how = *attr;
    rp_tensor *with[4]        = { x, rp__module_weight(m->output, 0), labels, m->head ? rp__module_weight(m->output, 1) : NULL };

    if (m->output->policy) RP_TRY(rp__policy_push(m->ctx, m->output->policy));
    how.softcap = m->config.logit_softcap;
    if (rp__module_is_sliced(m->output, 0)) how.classes = m->config.vocab;
    m->ctx->scope    = &m->output->scope;
    rp_status status = rp__apply(m->ctx, &rp_op_linear_cross_entropy, &how, with, m->head ? 4 : 3, loss);
    m->ctx->scope    = outer;
    if (m->output->policy) rp__policy_pop(m->ctx);
    return status;
}

/* The head stays entered while the loss reads its bias, which is gathered with it. */
static rp_status head_loss(rp_model *m, rp_tensor **x, rp_tensor *labels, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    if (!m->head) return output_loss(m, *x, labels, attr, loss);
    RP_TRY(rp__module_enter(m->head));
    rp_status status = rp__layer_step(m->head, x);
    if (status == RP_OK) status = output_loss(m, *x, labels, attr, loss);
    rp__module_leave(m->head);
    return status;
}

/* x becomes those of its rows: an embedding's, whose table is x. */
static rp_status take_targets(rp_model *m, rp_tensor *targets, rp_tensor **x)
{
    const rp_meta *all = rp_tensor_meta(*x);
    rp_tensor *table, *rows;

    if (!targets) return RP_OK;
    RP_TRY(rp_tensor_reshape(*x, 2, (int64_t[]){ rp_meta_rows(all), rp_meta_dim(all, -1) }, &table));
    rp_status status = rp__apply(m->ctx, &rp_op_embedding, NULL, (rp_tensor *[]){ table, targets }, 2, &rows);
    rp_tensor_unref(table);
    if (status != RP_OK) return status;
    rp_tensor_unref(*x);
    *x = rows;
    return RP_OK;
}

static rp_status whole_loss(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *attr, rp_tensor **loss)
{
    rp_tensor *x = NULL;

    RP_TRY(hidden(m, batch, &x));
    rp_status status = take_targets(m, batch->targets, &x);
    if (status == RP_OK) status = head_loss(m, &x, batch->labels, attr, loss);
    rp_tensor_unref(x);
    return status;
}

rp_status rp__model_loss(rp_model *m, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss)
{
    rp_tape_mark before = rp__tape_mark(m->ctx);

    RP_TRY(rp__module_enter(m->root));
    rp_status status = whole_loss(m, batch, how, loss);
    rp__module_leave(m->root);
    return finish_pass(m, status, before);
}

/* ---- generation ---- */

static rp_module *attention_of(rp_module *block)
{
    for (rp_module *child = block->first_child; child; child = child->next)
        if (!strcmp(child->name, "attn")) return child;
    return NULL;
}

static rp_status set_cache(rp_model *m, int64_t rows, int64_t length)
{
    m->cached    = 0;
    m->has_cache = rows > 0;
    for (rp_module *block = m->layers->first_child; block; block = block->next)
        RP_TRY(rp__attention_cache(attention_of(block), rows, length));
    return RP_OK;
}

rp_status rp__model_cache_new(rp_model *m, int64_t rows, int64_t length)
{
    RP_CHECK(m->ctx, !m->config.both_ways, RP_ERR_UNSUPPORTED, "a model of type '%s' sees what follows and keeps no cache",
             rp__model_type(&m->config));
    RP_TRY(rp__model_reserve_length(m, length));
    rp_status status = set_cache(m, rows, length);
    if (status != RP_OK) rp__model_cache_drop(m);
    return status;
}

void rp__model_cache_drop(rp_model *m) { (void)set_cache(m, 0, 0); }

int64_t rp__model_cache_used(const rp_model *m) { return m->cached; }
