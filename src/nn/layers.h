/* nn/layers.h -- the layers of a decoder. Each *_new creates a child of `parent` with parameters of `dtype`.
 *
 *   Linear, Embedding, Norm, BatchNorm, MLP,
 *   MixtureOfExperts                           in { x }                                              out y
 *   Attention, TransformerBlock                in { x, positions, cos, sin, doc_start }              out y
 *                                              x [B,T,n]; positions int32 [B,T] and the rope tables cos, sin [P, half] fp32 are
 *                                              NULL without rotary embedding; doc_start int32 [B,T]; NULL: each row is one document
 *
 * errors  *_new: RP_ERR_MEMORY · *_step: those of the layer or op; *x is then unchanged
 */
#ifndef RP_NN_LAYERS_H
#define RP_NN_LAYERS_H

#include "nn/module.h"

enum { RP_BLOCK_X, RP_BLOCK_POSITIONS, RP_BLOCK_COS, RP_BLOCK_SIN, RP_BLOCK_DOC_START, RP_BLOCK_INPUTS };

/* Runs a layer with one input and replaces *x by its output. */
rp_status rp__layer_step(rp_module *layer, rp_tensor **x);
/* The same for an op with one input. */
rp_status rp__op_step(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor **x);
/* Replaces *x by *x + added. */
rp_status rp__add_step(rp_ctx *ctx, rp_tensor *added, rp_tensor **x);
/* Applies dropout at rate p; does nothing if p is 0. */
rp_status rp__dropout_step(rp_ctx *ctx, float p, rp_tensor **x);

/* y = x w' + b. in_out: the weight is stored [in, out], as GPT-2's files have it; else, or if it is quantised, [out, in]. */
typedef struct { int64_t in, out; bool bias, in_out; } rp_linear_config;
rp_status rp__linear_new(rp_module *parent, const char *name, const rp_linear_config *config, rp_dtype dtype, rp_module **out);
/* The same with the weight [out, in] of another module: a tied output. */
rp_status rp__linear_new_tied(rp_module *parent, const char *name, rp_param *weight, rp_module **out);

/* y = weight[ids] */
rp_status rp__embedding_new(rp_module *parent, const char *name, int64_t n_ids, int64_t n, rp_dtype dtype, rp_module **out);

/* RMSNorm (weight, with `plus` added to each element), or LayerNorm (weight and bias). */
typedef struct { int64_t n; float eps, plus; bool layer; } rp_norm_config;
rp_status rp__norm_new(rp_module *parent, const char *name, const rp_norm_config *config, rp_dtype dtype, rp_module **out);

/* BatchNorm over the rows. Its running statistics begin at 0 and 1. Each call in train mode moves them by `momentum`. */
typedef struct { int64_t n; float eps, momentum; } rp_batch_norm_config;
rp_status rp__batch_norm_new(rp_module *parent, const char *name, const rp_batch_norm_config *config, rp_dtype dtype, rp_module **out);
/* Both are borrowed. */
void rp__batch_norm_running(rp_module *batch_norm, rp_tensor **mean, rp_tensor **var);

/* Activations: silu, gelu with tanh, gelu with erf, relu. */
typedef enum { RP_MLP_SILU, RP_MLP_GELU_TANH, RP_MLP_GELU_ERF, RP_MLP_RELU } rp_mlp_activation;
/* down(act(gate x) * up x) with children gate, up, down; fused: gate_up, down, with one projection for both. Not gated: down(act(up x)). */
typedef struct {
    int64_t n, hidden;
    bool gated, fused, bias, in_out;
    rp_mlp_activation activation;
} rp_mlp_config;
rp_status rp__mlp_new(rp_module *parent, const char *name, const rp_mlp_config *config, rp_dtype dtype, rp_module **out);

/* Sum of weight_e * down_e(silu(gate_e x) * up_e x) over the `chosen` experts with the largest router outputs. Children: router, and
 * experts with gate, up, down, each one parameter [experts, out, in]. renormalise: the weights of the chosen experts sum to 1. */
typedef struct { int64_t n, hidden, experts, chosen; bool renormalise; } rp_moe_config;
rp_status rp__moe_new(rp_module *parent, const char *name, const rp_moe_config *config, rp_dtype dtype, rp_module **out);
/* Makes the next forward also compute the loads of its experts (ops/expert_load.c): over all tokens, or with `doc_start` (borrowed, may be
 * NULL) over the tokens of each row's first document. */
void rp__moe_weigh(rp_module *moe, rp_tensor *doc_start);
/* Returns the loads that the last forward computed; the caller owns them. NULL: it failed, or did not compute any. */
rp_tensor *rp__moe_take_loads(rp_module *moe);

/* The norm applied to queries and keys before rotation: none, one over each head, or one over all heads together. */
typedef enum { RP_QK_PLAIN, RP_QK_NORM_HEAD, RP_QK_NORM_WHOLE } rp_qk_norm;
/* Attention with grouped heads, causal or bidirectional. Children: q, k, v, or qkv; q_norm and k_norm if qk_norm is set; output. */
typedef struct {
    int64_t n, n_heads, n_kv_heads, head_dim;
    bool fused_qkv, qkv_bias, output_bias, in_out;
    bool both_ways;                 /* a query also sees later tokens of its document */
    rp_qk_norm qk_norm;             /* not with fused_qkv */
    float norm_eps, norm_plus;      /* of those norms */
    float scale, dropout, softcap;  /* softcap 0: none */
    int32_t window;                 /* keys that a query sees, its own included; 0: all */
} rp_attention_config;
rp_status rp__attention_new(rp_module *parent, const char *name, const rp_attention_config *config, rp_dtype dtype, rp_module **out);

/* Keeps keys and values from now on, for `length` tokens of `rows` sequences. Queries then also attend to earlier tokens. rows 0: frees the
 * cache. errors RP_ERR_MEMORY */
rp_status rp__attention_cache(rp_module *attention, int64_t rows, int64_t length);

/* The place of a block's norms: before attention and MLP (attn_norm, mlp_norm); after each (post_attn_norm, post_mlp_norm); both; or after
 * the sum: post_attn_norm(x + dropout(attn x)), likewise post_mlp_norm, as in BERT. */
typedef enum { RP_NORMS_BEFORE, RP_NORMS_BEHIND, RP_NORMS_AROUND, RP_NORMS_BEHIND_SUM } rp_norm_places;
/* x + dropout(post_attn_norm(attn(attn_norm x))), then + dropout(post_mlp_norm(mlp(mlp_norm ·))), without the norms that are absent. */
typedef struct {
    rp_norm_config norm;
    rp_norm_places norms;
    rp_attention_config attn;
    rp_mlp_config mlp;
    rp_moe_config moe;              /* if it has experts: replaces the MLP, under its name */
    float dropout;                  /* of both sums */
} rp_block_config;
rp_status rp__block_new(rp_module *parent, const char *name, const rp_block_config *config, rp_dtype dtype, rp_module **out);
/* Returns its mixture of experts; NULL: it has an MLP. */
rp_module *rp__block_experts(const rp_module *block);

/* The layers of an encoder before its output: norm(act(dense x)). Parameter 0 is the bias [classes] of that output, which other modules
 * read. Children: dense, norm. */
typedef struct {
    int64_t n, classes;
    rp_mlp_activation activation;
    rp_norm_config norm;
} rp_masked_head_config;
rp_status rp__masked_head_new(rp_module *parent, const char *name, const rp_masked_head_config *config, rp_dtype dtype, rp_module **out);

/* *x = act(*x) */
rp_status rp__activation_step(rp_ctx *ctx, rp_mlp_activation activation, rp_tensor **x);

/* A named list of modules; the owner calls the children. type "ModuleList" */
rp_status rp__module_list_new(rp_module *parent, const char *name, rp_module **out);

#endif
