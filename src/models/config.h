/* models/config.h -- what a config.json says, as the numbers a decoder is built from.
 *
 *   config.json, or the metadata of a GGUF file ─▶ family (by model_type) ─▶ table of fields ─▶ rp_model_config
 *   a wrapper's config.json ─▶ its text_config ──────┘
 *
 * A family's file lists every field it honours, with its default, and every field that is inert. A field that is in neither
 * list, or has a value that would change the numbers and is not honoured, is an error that names it and the value.
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
    int exact_range;                    /* RP_ROPE_YARN: where it blends is not widened to whole pairs */
    double theta, factor, low_freq_factor, high_freq_factor;
    double part;                        /* of a head that is turned; 0: not said */
    int64_t original_context;
    double beta_fast, beta_slow;        /* RP_ROPE_YARN: turns within original_context from which on, and up to which, it blends */
    double mscale, mscale_all_dim;      /* RP_ROPE_YARN: what attention_factor follows from where it is not said; 0: not there */
    double attention_factor;            /* of cos and sin; 0: none */
    const json_t *divisors, *long_divisors;     /* RP_ROPE_LONG: of each frequency, and beyond original_context; of the config's source */
} rp_rope_config;

typedef struct rp_family rp_family;     /* models/family.h */
typedef struct rp_wrapper rp_wrapper;   /* models/wrapper.h */

/* Which linear layers get an adapter; none where lora.rank is 0. A name is a path, the end of one ("attn.q"), a glob, or all-linear; without names it is
 * attn.q and attn.v, or attn.qkv where they are one. whole: globs of modules that are trained as they are beside them, and take none. Borrowed
 * until the model is built. */
typedef struct {
    rp_lora lora;
    int n_modules, n_whole;
    const char *const *module, *const *whole;
} rp_adapter_config;

typedef struct {
    const rp_family *family;
    const rp_wrapper *wrapper;          /* the files are those of a model around this one; NULL: its own */
    int64_t vocab, hidden, n_layers, n_heads, n_kv_heads, head_dim, mlp_hidden, context;
    rp_norm_kind norm;
    rp_norm_places norms;               /* of a block */
    double norm_eps, norm_plus;         /* norm_plus: added to each weight of RMSNorm */
    rp_qk_norm qk_norm;
    rp_activation activation;
    bool gated_mlp;                     /* down(act(gate(x)) * up(x)); else down(act(up(x))) */
    int64_t experts, experts_chosen, expert_hidden;     /* of blocks that have such (rp__model_config_experts) in place of an MLP; 0: none */
    int64_t experts_every;              /* each so manieth block; 0: all */
    bool experts_renormalise;           /* weights of the chosen sum to 1 */
    bool experts_balanced;              /* the loss has the term that balances them … */
    double experts_balance;             /* … times this */
    bool fused_qkv;                     /* one projection attn.qkv; else q, k, v */
    bool fused_gate_up;                 /* one projection mlp.gate_up; else gate, up */
    bool qkv_bias, attn_output_bias, mlp_bias;
    bool tied;                          /* output reads tok_embeddings' weight */
    bool weights_in_out;                /* linear weights are stored [in, out] (GPT-2's Conv1D); else [out, in] */
    bool learned_positions;
    bool both_ways;                     /* an encoder: attention sees what follows, too; positions' targets are masked tokens */
    bool masked_head;                   /* dense, activation, norm before the output, which has a bias */
    bool embed_norm;                    /* behind the sum of embeddings */
    int64_t token_types;                /* rows of type_embeddings, added to each token; 0: none */
    rp_rope_config rope, window_rope;   /* window_rope: of blocks with a window; RP_ROPE_NONE: they have the other, too */
    int64_t rotary_dim;                 /* elements of a head that are turned; 0: all */
    int64_t window;                     /* keys a query sees, its own included; 0: all. In which blocks: rp__model_config_window */
    int64_t window_every, window_from;  /* every: all but each so manieth block; else from: blocks from that one on */
    double embedding_scale;             /* 0: none; rounded to the parameters' dtype, as is the product */
    double attn_softcap, logit_softcap; /* of scores and of logits: cap * tanh(x / cap); 0: none */
    double attn_scale;                  /* of the scores; 1 / sqrt(head_dim) unless the config says otherwise */
    bool attn_scale_by_layer;           /* divided by the block's number, from 1, too (GPT-2) */
    double embd_dropout, attn_dropout, resid_dropout;
    double init_std;                    /* of fresh weights */
    bool scaled_residual_init;          /* projections into the residual: init_std / sqrt(2 * n_layers) (GPT-2) */
    int32_t bos, eos;                   /* -1: none; may be beyond the vocabulary, then inert */
    rp_adapter_config adapter;          /* not config.json's: a recipe's, or that of an adapter's files */
    json_t *source;                     /* config.json, or a wrapper's text_config, with the overrides applied, as export writes it; owned */
} rp_model_config;

/* The window of a block, from 0; 0: it sees all. `layer_types` of the config counts before window_every and window_from. */
int64_t rp__model_config_window(const rp_model_config *config, int64_t layer);

/* How many experts a block has, from 0; 0: it has an MLP. `mlp_only_layers` of the config counts before experts_every. */
int64_t rp__model_config_experts(const rp_model_config *config, int64_t layer);

/* Parse. `overrides` (may be NULL) is a YAML map of config.json's own fields set over the file's; `json` is borrowed.
 * `label` names it in messages. Every error is found in one reading: *report gets each, rp_error the first.
 * owner   *out is yours to rp__model_config_drop
 * errors  RP_ERR_CONFIG wrong types, ranges, contradictions · RP_ERR_UNSUPPORTED a family or field not honoured */
rp_status rp__model_config_parse(rp_ctx *ctx, const char *label, const json_t *json, const rp_yaml_node *overrides,
                                 rp_report *report, rp_model_config *out);
static inline void rp__model_config_drop(rp_model_config *config)
{
    json_decref(config->source);
    config->source = NULL;
}

/* "llama" */
const char *rp__model_type(const rp_model_config *config);

/* model.dropout of a recipe: all three rates. */
static inline void rp__model_config_dropout(rp_model_config *c, double p)
{
    c->embd_dropout = c->attn_dropout = c->resid_dropout = p;
}

#endif
