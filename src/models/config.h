/* models/config.h -- the fields of a config.json as the numbers from which a decoder is built.
 *
 *   config.json, or the metadata of a GGUF file ─▶ family (by model_type) ─▶ table of fields ─▶ rp_model_config
 *   a wrapper's config.json ─▶ its text_config ──────┘
 *
 * A family's file lists every field that it supports, with its default, and every field that it ignores. A field in neither
 * list is an error that names it. So is a value that would change the numbers and is not supported.
 */
#ifndef RP_MODELS_CONFIG_H
#define RP_MODELS_CONFIG_H

#include <jansson.h>

#include "base/base.h"
#include "base/report.h"
#include "base/yaml.h"
#include "nn/layers.h"
#include "nn/lora.h"

typedef enum { RP_ACT_SILU, RP_ACT_GELU_TANH, RP_ACT_GELU_ERF, RP_ACT_RELU } rp_activation;
typedef enum { RP_NORM_RMS, RP_NORM_LAYER } rp_norm_kind;
typedef enum { RP_ROPE_NONE, RP_ROPE_DEFAULT, RP_ROPE_LINEAR, RP_ROPE_LLAMA3, RP_ROPE_YARN, RP_ROPE_LONG } rp_rope_kind;

typedef struct {
    rp_rope_kind kind;
    int exact_range;                    /* RP_ROPE_YARN: the blended range is not widened to whole pairs */
    double theta, factor, low_freq_factor, high_freq_factor;
    double part;                        /* fraction of a head that is rotated; 0: not given */
    int64_t original_context;
    double beta_fast, beta_slow;        /* RP_ROPE_YARN: rotations within original_context between which frequencies are blended */
    double mscale, mscale_all_dim;      /* RP_ROPE_YARN: they determine attention_factor if it is not given; 0: not given */
    double attention_factor;            /* factor of cos and sin; 0: none */
    const json_t *divisors, *long_divisors;     /* RP_ROPE_LONG: one per frequency, up to and beyond original_context; borrowed from rp_model_config.source */
} rp_rope_config;

typedef struct rp_family rp_family;     /* models/family.h */
typedef struct rp_wrapper rp_wrapper;   /* models/wrapper.h */

/* The linear layers that get an adapter; none if lora.rank is 0. A name is a path, the end of a path ("attn.q"), a glob, or all-linear. Default:
 * attn.q and attn.v, or attn.qkv if they are fused. whole: globs of modules whose own weights are trained and which get no adapter. Borrowed
 * until the model is built. */
typedef struct {
    rp_lora lora;
    int n_modules, n_whole;
    const char *const *module, *const *whole;
} rp_adapter_config;

/* The weights that are stored quantised: frozen matrices of linear layers and experts, of the embedding and the head, whose rows are whole blocks.
 * Without an adapter, those that a glob of `frozen` matches are frozen, or all of them if all_frozen is set. */
typedef struct {
    rp_dtype dtype;                     /* of all of them; RP_F32: of none, … */
    json_t *types;                      /* … or, if not NULL, of those that are quantised in the files: our path to rp_dtype. Owned */
    bool all_frozen;
    int n_frozen;
    const char *const *frozen;          /* borrowed until the model is built */
} rp_quant_config;

typedef struct {
    const rp_family *family;
    const rp_wrapper *wrapper;          /* the files hold a wrapper around this model; NULL: they hold the model itself */
    int64_t vocab, hidden, n_layers, n_heads, n_kv_heads, head_dim, mlp_hidden, context;
    rp_norm_kind norm;
    rp_norm_places norms;               /* in a block */
    double norm_eps, norm_plus;         /* norm_plus: added to each weight of RMSNorm */
    rp_qk_norm qk_norm;
    rp_activation activation;
    bool gated_mlp;                     /* down(act(gate(x)) * up(x)); else down(act(up(x))) */
    int64_t experts, experts_chosen, expert_hidden;     /* of blocks with experts (rp__model_config_experts) instead of an MLP; experts 0: none */
    int64_t experts_every;              /* every n-th block has experts; 0: all */
    bool experts_renormalise;           /* the weights of the chosen experts sum to 1 */
    bool experts_balanced;              /* the loss includes the balancing term of the experts … */
    double experts_balance;             /* … with this factor */
    bool fused_qkv;                     /* one projection attn.qkv; else q, k, v */
    bool fused_gate_up;                 /* one projection mlp.gate_up; else gate, up */
    bool qkv_bias, attn_output_bias, mlp_bias;
    bool tied;                          /* output shares the weight of tok_embeddings */
    bool weights_in_out;                /* linear weights are stored [in, out] (GPT-2's Conv1D); else [out, in] */
    bool learned_positions;
    bool both_ways;                     /* an encoder: attention is bidirectional, and targets are masked tokens */
    bool masked_head;                   /* dense, activation and norm before the output, which has a bias */
    bool embed_norm;                    /* a norm after the sum of embeddings */
    int64_t token_types;                /* rows of type_embeddings, added to each token; 0: none */
    rp_rope_config rope, window_rope;   /* window_rope: for blocks with a window; RP_ROPE_NONE: they use `rope`, too */
    int64_t rotary_dim;                 /* elements of a head that are rotated; 0: all */
    int64_t window;                     /* keys that a query sees, its own included; 0: all. rp__model_config_window says in which blocks */
    int64_t window_every, window_from;  /* window_every n: all blocks except every n-th; 0: blocks from window_from on */
    double embedding_scale;             /* 0: none; the factor and the product are rounded to the parameters' dtype */
    double attn_softcap, logit_softcap; /* of scores and of logits: cap * tanh(x / cap); 0: none */
    double attn_scale;                  /* of the scores; default: 1 / sqrt(head_dim) */
    bool attn_scale_by_layer;           /* also divided by the block's number, counted from 1 (GPT-2) */
    double embd_dropout, attn_dropout, resid_dropout;
    double init_std;                    /* of newly initialised weights */
    bool scaled_residual_init;          /* projections into the residual use init_std / sqrt(2 * n_layers) (GPT-2) */
    int32_t bos, eos;                   /* -1: none; an id beyond the vocabulary is never written */
    rp_adapter_config adapter;          /* from a recipe or from an adapter's files, not from config.json */
    rp_quant_config quant;              /* from a recipe, too */
    json_t *mapped;                     /* of frozen weights: those that stay in the files, if they have this dtype: our path to rp_dtype; NULL: none. Owned */
    bool by_glob;                       /* mapped and quant.types have globs of paths: files do not exist, and a config lists their types (stand_in.c) */
    json_t *source;                     /* config.json, or a wrapper's text_config, with the overrides applied; export writes it. Owned */
} rp_model_config;

/* Window of a block (counted from 0); 0: the block sees all keys. `layer_types` of the config overrides window_every and window_from. */
int64_t rp__model_config_window(const rp_model_config *config, int64_t layer);

/* Number of experts of a block (counted from 0); 0: it has an MLP. `mlp_only_layers` of the config overrides experts_every. */
int64_t rp__model_config_experts(const rp_model_config *config, int64_t layer);

/* Parse a config. `overrides` (may be NULL) is a YAML map of config.json's own fields that replace those of the file; `json` is borrowed.
 * `label` names it in messages. All errors are found in one pass: *report gets each of them, rp_error the first.
 * owner   the caller must rp__model_config_drop *out
 * errors  RP_ERR_CONFIG wrong types, ranges, contradictions · RP_ERR_UNSUPPORTED an unsupported family or field · RP_ERR_MEMORY */
rp_status rp__model_config_parse(rp_ctx *ctx, const char *label, const json_t *json, const rp_yaml_node *overrides,
                                 rp_report *report, rp_model_config *out);
static inline void rp__model_config_drop(rp_model_config *config)
{
    json_decref(config->source);
    json_decref(config->quant.types);
    json_decref(config->mapped);
    config->source = config->quant.types = config->mapped = NULL;
}

/* "llama" */
const char *rp__model_type(const rp_model_config *config);

/* Set all three dropout rates (model.dropout of a recipe). */
static inline void rp__model_config_dropout(rp_model_config *c, double p)
{
    c->embd_dropout = c->attn_dropout = c->resid_dropout = p;
}

#endif
