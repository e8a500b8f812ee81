/* models/model.c -- builds the tree of modules, the parameters and the tables from a config. model_pass.c runs it. */
#include "models/model_internal.h"

#include <string.h>

#include "models/adapter.h"
#include "models/family.h"
#include "models/quant.h"
#include "models/rope.h"
#include "nn/layers.h"

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

static bool decoder_called(const rp_module *root, const char *path, const char *glob, rp_called how)
{
    const rp_model_config *c = &((const rp_decoder *)root)->model->config;

    return c->family && rp__model_config_calls(c, path, glob, how);
}

static const rp_model_config *config_of(const rp_module *m)
{
    while (m->parent) m = m->parent;
    return &((const rp_decoder *)m)->model->config;
}

static rp_dtype decoder_stored(const rp_module *m, const char *name, const rp_meta *meta) { return rp__quant_stored(config_of(m), m, name, meta); }

static bool decoder_mapped(const rp_module *m, const char *name, const rp_meta *meta)
{
    return rp__weight_is_mapped(config_of(m), m, name, meta);
}

static const rp_module_kind decoder_type = { .name = "Decoder", .forward = rp__decoder_forward, .called = decoder_called, .stored = decoder_stored,
                                             .mapped = decoder_mapped };

static rp_status build_embeddings(rp_model *m, rp_dtype dtype)
{
    const rp_model_config *c = &m->config;
    rp_norm_config norm      = norm_config(c);

    RP_TRY(rp__embedding_new(m->root, "tok_embeddings", c->vocab, c->hidden, dtype, &m->tokens));
    if (c->learned_positions) RP_TRY(rp__embedding_new(m->root, "pos_embeddings", c->context, c->hidden, dtype, &m->positions));
    if (c->token_types) RP_TRY(rp__embedding_new(m->root, "type_embeddings", c->token_types, c->hidden, dtype, &m->types));
    return c->embed_norm ? rp__norm_new(m->root, "embed_norm", &norm, dtype, &m->embed_norm) : RP_OK;
}

/* Builds the layers after the blocks. There is no final norm if the blocks already normalise their sums. */
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

static rp_status model_build(rp_model *m, rp_dtype dtype)
{
    rp_decoder *root;

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

static bool is_adapted(const rp_module *m)
{
    rp_lora_parts parts;

    return rp__lora_parts(m, &parts);
}

static bool is_whole(const rp_module *m) { return m->n_params && m->param[0].beside; }

/* Stores the paths from path[*n] on, or only counts them if path is NULL. */
static void list_paths(rp_model *m, bool (*belongs)(const rp_module *), const char **path, int *n)
{
    for (rp_module *at = m->root; at; at = rp__module_next(m->root, at)) {
        if (!belongs(at)) continue;
        if (path) path[*n] = at->path;
        ++*n;
    }
}

/* Replaces the borrowed names of the config by owned paths, so that a second model built from this config gets the same layers. */
static rp_status keep_adapted(rp_model *m)
{
    rp_adapter_config *c = &m->config.adapter;
    int n                = 0;

    list_paths(m, is_adapted, NULL, &n);
    c->n_modules = n;
    list_paths(m, is_whole, NULL, &n);
    c->n_whole = n - c->n_modules;
    m->adapted = rp__host_alloc(m->ctx, (n + 1) * (int64_t)sizeof *m->adapted);
    if (!m->adapted) return RP_ERR_MEMORY;
    c->module = m->adapted;
    c->whole  = m->adapted + c->n_modules;
    n         = 0;
    list_paths(m, is_adapted, m->adapted, &n);
    list_paths(m, is_whole, m->adapted, &n);
    return RP_OK;
}

/* Refuses weights for which peft has no module. */
static rp_status check_whole(const rp_model *m)
{
    const rp_family *f = m->config.family;

    RP_CHECK(m->ctx, !m->config.adapter.n_whole || !m->config.masked_head, RP_ERR_UNSUPPORTED, "in an encoder no module can be trained whole beside adapters");
    for (rp_module *at = m->root; at && f; at = rp__module_next(m->root, at))
        for (int i = 0; i < at->n_params; i++)
            RP_CHECK(m->ctx, !at->param[i].beside || !rp__weight_in_pieces(f->name, f->n_names, at->param[i].path), RP_ERR_UNSUPPORTED,
                     "'%s' holds weights of experts, which cannot be trained whole beside adapters", at->param[i].path);
    return RP_OK;
}

static rp_status adapt(rp_model *m, const rp_adapter_config *c)
{
    RP_TRY(rp__adapters_attach(m->root, c));
    RP_TRY(check_whole(m));
    return keep_adapted(m);
}

/* ---- life ---- */

rp_status rp__model_build(rp_ctx *ctx, rp_model_config *config, rp_dtype dtype, rp_model **out)
{
    rp_model *m = rp__host_alloc(ctx, sizeof *m);

    if (!m) return RP_ERR_MEMORY;
    m->ctx           = ctx;
    m->dtype         = dtype;
    m->config        = *config;
    rp_status status = model_build(m, dtype);
    if (status == RP_OK && config->adapter.lora.rank) status = adapt(m, &config->adapter);
    if (status == RP_OK) status = list_params(m);
    if (status != RP_OK) {
        memset(&m->config, 0, sizeof m->config);      /* it still belongs to the caller */
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
    RP_RELEASE(m->adapted, m->param);
    rp__model_config_drop(&m->config);
    rp__release(m);
}

const rp_model_config *rp__model_config(const rp_model *m) { return &m->config; }
rp_module *rp__model_root(rp_model *m) { return m->root; }
rp_ctx *rp__model_ctx(const rp_model *m) { return m->ctx; }
rp_dtype rp__model_dtype(const rp_model *m) { return m->dtype; }
int rp__model_n_params(const rp_model *m) { return m->n_params; }
const rp_param *rp__model_param(const rp_model *m, int i) { return m->param[i]; }

const rp_param *rp__model_find_param(const rp_model *m, const char *path)
{
    for (int i = 0; i < m->n_params; i++)
        if (!strcmp(m->param[i]->path, path)) return m->param[i];
    return NULL;
}

/* ---- ropes ---- */

static rp_status reserve_tables(rp_model *m, const rp_rope_config *rope, int64_t length, rope_tables *tables)
{
    int64_t dim = m->config.rotary_dim ? m->config.rotary_dim : m->config.head_dim;
    rope_tables longer;

    if (rope->kind == RP_ROPE_NONE || (tables->cos && tables->cos->m.dim[0] >= length)) return RP_OK;
    RP_TRY(rp__rope_tables(m->ctx, rope, dim, length, m->dtype == RP_F64 ? RP_F64 : RP_F32, &longer.cos, &longer.sin));
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
