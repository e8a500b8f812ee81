/* models/fields.h -- lines that many families share: for their tables of config.json's fields and of weight names; and checks of those
 * fields.
 *
 * A family that writes such a line itself has another default, or ignores the value. Defaults are those of transformers, but sizes are
 * required. */
#ifndef RP_MODELS_FIELDS_H
#define RP_MODELS_FIELDS_H

#include "models/family.h"

#define RP_FIELD_SIZE(name, at, most) { name, .kind = RP_FIELD_INT, RP_AT(at), .required = true, .low = 1, .high = most }

#define RP_FIELDS_SIZES \
    RP_FIELD_SIZE("vocab_size", vocab, INT32_MAX), \
    RP_FIELD_SIZE("hidden_size", hidden, 1 << 24), \
    RP_FIELD_SIZE("intermediate_size", mlp_hidden, 1 << 26), \
    RP_FIELD_SIZE("num_hidden_layers", n_layers, RP_MOST_LAYERS), \
    RP_FIELD_SIZE("num_attention_heads", n_heads, 1 << 16)

/* Null or absent (if not required): as many as query heads. */
#define RP_FIELD_KV_HEADS(must) \
    { "num_key_value_heads", .kind = RP_FIELD_INT, RP_AT(n_kv_heads), .required = must, .nullable = true, .low = 1, .high = 1 << 16 }

#define RP_FIELD_HEAD_DIM(usual) \
    { "head_dim", .kind = RP_FIELD_INT, RP_AT(head_dim), .nullable = true, .low = 2, .high = 1 << 16, .otherwise = usual }

#define RP_FIELD_CONTEXT(usual) \
    { "max_position_embeddings", .kind = RP_FIELD_INT, RP_AT(context), .low = 1, .high = INT32_MAX, .otherwise = usual }

#define RP_FIELD_ACTIVATION(name) \
    { name, .kind = RP_FIELD_WORD, RP_AT(activation), .word = rp__config_activations, .otherwise = RP_ACT_SILU }

#define RP_FIELD_EPS(usual) { "rms_norm_eps", .kind = RP_FIELD_NUMBER, RP_AT(norm_eps), .low = 0, .high = 1, .otherwise = usual }

#define RP_FIELDS_WEIGHTS \
    { "initializer_range", .kind = RP_FIELD_NUMBER, RP_AT(init_std), .low = 0, .high = 1, .otherwise = 0.02 }, \
    { "attention_dropout", .kind = RP_FIELD_NUMBER, RP_AT(attn_dropout), .nullable = true, .low = 0, .high = 1 }

#define RP_FIELD_TIED(usual) { "tie_word_embeddings", .kind = RP_FIELD_BOOL, RP_AT(tied), .otherwise = usual }

#define RP_FIELDS_TOKENS(first, last) \
    { "bos_token_id", .kind = RP_FIELD_ID, RP_AT(bos), .otherwise = first }, \
    { "eos_token_id", .kind = RP_FIELD_ID, RP_AT(eos), .otherwise = last }

#define RP_FIELDS_ROPE \
    { "rope_theta", .kind = RP_FIELD_LATER }, \
    { "rope_scaling", .kind = RP_FIELD_LATER }, \
    { "rope_parameters", .kind = RP_FIELD_LATER }

/* Null means no window. */
#define RP_FIELD_WINDOW(usual) \
    { "sliding_window", .kind = RP_FIELD_INT, RP_AT(window), .null_is_zero = true, .low = 1, .high = INT32_MAX, .otherwise = usual }

/* A mixture of experts: the number of experts, under either name, and the number chosen per token. rp__config_finish_experts checks the rest. If
 * output_router_logits is true, the loss includes the balancing term. */
#define RP_FIELDS_EXPERTS(name, other, usual, usual_chosen) \
    { name, .also = other, .kind = RP_FIELD_INT, RP_AT(experts), .low = 1, .high = 1 << 16, .otherwise = usual }, \
    { "num_experts_per_tok", .kind = RP_FIELD_INT, RP_AT(experts_chosen), .low = 1, .high = 1 << 16, .otherwise = usual_chosen }, \
    { "output_router_logits", .kind = RP_FIELD_BOOL, RP_AT(experts_balanced) }, \
    { "router_aux_loss_coef", .kind = RP_FIELD_NUMBER, RP_AT(experts_balance), .low = 0, .high = 1e9, .otherwise = 0.001 }

/* The gate of experts must use silu. */
#define RP_FIELD_EXPERT_ACTIVATION { "hidden_act", .kind = RP_FIELD_ONLY, .only = "\"silu\"" }

/* Null means no cap. */
#define RP_FIELD_CAP(name, at, usual) \
    { name, .kind = RP_FIELD_NUMBER, RP_AT(at), .null_is_zero = true, .low = 1e-6, .high = 1e9, .otherwise = usual }

/* The fields that Gemma 2 and 3 share. */
#define RP_FIELDS_GEMMA(usual) \
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(true), RP_FIELD_HEAD_DIM(256), RP_FIELD_CONTEXT(usual), RP_FIELD_EPS(1e-6), RP_FIELDS_WEIGHTS, \
    RP_FIELD_TIED(1), RP_FIELDS_TOKENS(2, 1), RP_FIELDS_ROPE, RP_FIELD_WINDOW(4096), \
    { "hidden_activation", .kind = RP_FIELD_WORD, RP_AT(activation), .nullable = true, .word = rp__config_activations, \
      .otherwise = RP_ACT_GELU_TANH }, \
    { "hidden_act", .kind = RP_FIELD_ONLY, .only = "\"gelu_pytorch_tanh\"" }, \
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) }, \
    { "query_pre_attn_scalar", .kind = RP_FIELD_NUMBER, RP_AT(attn_scale), .low = 1e-6, .high = 1e9, .otherwise = 256 }, \
    { "use_bidirectional_attention", .kind = RP_FIELD_ONLY, .only = "false" }

/* ---- names of weights: in safetensors files, in GGUF ---- */

/* For families whose blocks have no MLP. Names in the table that no model of the family has would change the common prefix of a block's parts. */
#define RP_NAMES_BUT_MLP \
    { "tok_embeddings", "model.embed_tokens" }, \
    { "layers.*.attn.output", "model.layers.*.self_attn.o_proj" }, \
    { "norm", "model.norm" }, \
    { "output", "lm_head" }
#define RP_NAMES_ENDS RP_NAMES_BUT_MLP, { "layers.*.mlp.down", "model.layers.*.mlp.down_proj" }
#define RP_GGUF_ENDS \
    { "tok_embeddings", "token_embd" }, \
    { "layers.*.attn.output", "blk.*.attn_output" }, \
    { "layers.*.mlp.down", "blk.*.ffn_down" }, \
    { "norm", "output_norm" }, \
    { "output", "output" }

/* Projections that are not fused. */
#define RP_NAMES_QKV \
    { "layers.*.attn.q", "model.layers.*.self_attn.q_proj" }, \
    { "layers.*.attn.k", "model.layers.*.self_attn.k_proj" }, \
    { "layers.*.attn.v", "model.layers.*.self_attn.v_proj" }
#define RP_GGUF_QKV \
    { "layers.*.attn.q", "blk.*.attn_q" }, { "layers.*.attn.k", "blk.*.attn_k" }, { "layers.*.attn.v", "blk.*.attn_v" }
#define RP_NAMES_GATE_UP \
    { "layers.*.mlp.gate", "model.layers.*.mlp.gate_proj" }, { "layers.*.mlp.up", "model.layers.*.mlp.up_proj" }
#define RP_GGUF_GATE_UP { "layers.*.mlp.gate", "blk.*.ffn_gate" }, { "layers.*.mlp.up", "blk.*.ffn_up" }

#define RP_NAMES_QK_NORMS \
    { "layers.*.attn.q_norm", "model.layers.*.self_attn.q_norm" }, { "layers.*.attn.k_norm", "model.layers.*.self_attn.k_norm" }
#define RP_GGUF_QK_NORMS { "layers.*.attn.q_norm", "blk.*.attn_q_norm" }, { "layers.*.attn.k_norm", "blk.*.attn_k_norm" }

/* All experts of a projection in one tensor, or each in its own, as in older files. */
#define RP_GGUF_ROUTER { "layers.*.mlp.router", "blk.*.ffn_gate_inp" }
#define RP_GGUF_EXPERTS \
    RP_GGUF_ROUTER, { "layers.*.mlp.experts.gate", "blk.*.ffn_gate_exps" }, { "layers.*.mlp.experts.up", "blk.*.ffn_up_exps" }, \
    { "layers.*.mlp.experts.down", "blk.*.ffn_down_exps" }
#define RP_GGUF_EXPERTS_APART \
    RP_GGUF_ROUTER, { "layers.*.mlp.experts.gate", "blk.*.ffn_gate.*" }, { "layers.*.mlp.experts.up", "blk.*.ffn_up.*" }, \
    { "layers.*.mlp.experts.down", "blk.*.ffn_down.*" }

/* Norms before attention and MLP, after them, or both. The same name in files is a different norm in each variant. */
#define RP_NAMES_NORMS_BEFORE \
    { "layers.*.attn_norm", "model.layers.*.input_layernorm" }, { "layers.*.mlp_norm", "model.layers.*.post_attention_layernorm" }
#define RP_GGUF_NORMS_BEFORE { "layers.*.attn_norm", "blk.*.attn_norm" }, { "layers.*.mlp_norm", "blk.*.ffn_norm" }
#define RP_NAMES_NORMS_BEHIND \
    { "layers.*.post_attn_norm", "model.layers.*.post_attention_layernorm" }, \
    { "layers.*.post_mlp_norm", "model.layers.*.post_feedforward_layernorm" }
#define RP_GGUF_NORMS_BEHIND \
    { "layers.*.post_attn_norm", "blk.*.post_attention_norm" }, { "layers.*.post_mlp_norm", "blk.*.post_ffw_norm" }
#define RP_NAMES_NORMS_AROUND \
    RP_NAMES_NORMS_BEHIND, { "layers.*.attn_norm", "model.layers.*.input_layernorm" }, \
    { "layers.*.mlp_norm", "model.layers.*.pre_feedforward_layernorm" }
#define RP_GGUF_NORMS_AROUND RP_GGUF_NORMS_BEHIND, RP_GGUF_NORMS_BEFORE

/* Buffers that old files contain besides their parameters. */
extern const char *const rp__inert_rotary[];

/* "silu", "gelu", "gelu_pytorch_tanh", … */
extern const rp_field_word rp__config_activations[];

/* Read a boolean that rp_model_config does not store, for finish functions. */
bool rp__config_flag(rp_config_reader *reader, const char *key, bool otherwise);

/* Finish a decoder with RMSNorm, a gated MLP and rotary positions: checks the numbers of heads, sets their size and scale.
 * Keeps attn_scale if it is already set. */
void rp__config_finish_decoder(rp_config_reader *reader, rp_model_config *config);

/* The same for Gemma 2 and 3: norms around attention and MLP, scaled embeddings, and a scale that is read as its inverse square. */
void rp__config_finish_gemma(rp_config_reader *reader, rp_model_config *config);

/* Check that no more experts are chosen than exist. */
void rp__config_finish_experts(rp_config_reader *reader, const rp_model_config *config);

#endif
