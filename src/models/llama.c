/* models/llama.c -- Llama 2 and 3.x, SmolLM2 and whatever else calls itself "llama".
 *
 *   block   x + attn(rms(x)), then x + down(silu(gate(rms(x))) * up(rms(x))); rotary positions, grouped heads
 *
 * Defaults are those of transformers' LlamaConfig, but sizes must be there. */
#include "models/family.h"

#include <math.h>

static const rp_field_word activations[] = {
    { "silu", RP_ACT_SILU }, { "swish", RP_ACT_SILU }, { "gelu", RP_ACT_GELU_ERF }, { "gelu_new", RP_ACT_GELU_TANH },
    { "gelu_pytorch_tanh", RP_ACT_GELU_TANH }, { "relu", RP_ACT_RELU }, { NULL, 0 },
};

static const rp_config_field fields[] = {
    { "vocab_size", .kind = RP_FIELD_INT, RP_AT(vocab), .required = true, .low = 1, .high = INT32_MAX },
    { "hidden_size", .kind = RP_FIELD_INT, RP_AT(hidden), .required = true, .low = 1, .high = 1 << 24 },
    { "intermediate_size", .kind = RP_FIELD_INT, RP_AT(mlp_hidden), .required = true, .low = 1, .high = 1 << 26 },
    { "num_hidden_layers", .kind = RP_FIELD_INT, RP_AT(n_layers), .required = true, .low = 1, .high = 1 << 16 },
    { "num_attention_heads", .kind = RP_FIELD_INT, RP_AT(n_heads), .required = true, .low = 1, .high = 1 << 16 },
    { "num_key_value_heads", .kind = RP_FIELD_INT, RP_AT(n_kv_heads), .nullable = true, .low = 1, .high = 1 << 16 },
    { "head_dim", .kind = RP_FIELD_INT, RP_AT(head_dim), .nullable = true, .low = 2, .high = 1 << 16 },
    { "max_position_embeddings", .kind = RP_FIELD_INT, RP_AT(context), .low = 1, .high = INT32_MAX, .otherwise = 2048 },
    { "hidden_act", .kind = RP_FIELD_WORD, RP_AT(activation), .word = activations, .otherwise = RP_ACT_SILU },
    { "rms_norm_eps", .kind = RP_FIELD_NUMBER, RP_AT(norm_eps), .low = 0, .high = 1, .otherwise = 1e-6 },
    { "initializer_range", .kind = RP_FIELD_NUMBER, RP_AT(init_std), .low = 0, .high = 1, .otherwise = 0.02 },
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) },
    { "mlp_bias", .kind = RP_FIELD_BOOL, RP_AT(mlp_bias) },
    { "attention_dropout", .kind = RP_FIELD_NUMBER, RP_AT(attn_dropout), .nullable = true, .low = 0, .high = 1 },
    { "tie_word_embeddings", .kind = RP_FIELD_BOOL, RP_AT(tied) },
    { "bos_token_id", .kind = RP_FIELD_ID, RP_AT(bos), .otherwise = 1 },
    { "eos_token_id", .kind = RP_FIELD_ID, RP_AT(eos), .otherwise = 2 },
    { "rope_theta", .kind = RP_FIELD_LATER },
    { "rope_scaling", .kind = RP_FIELD_LATER },
    { "rope_parameters", .kind = RP_FIELD_LATER },
    { "pretraining_tp", .kind = RP_FIELD_ONLY, .only = "1" },
    { "rope_interleaved", .kind = RP_FIELD_ONLY, .only = "false" },
    { "partial_rotary_factor", .kind = RP_FIELD_ONLY, .only = "1" },
    { "original_max_position_embeddings", .kind = RP_FIELD_ONLY, .only = "null" },
};

/* The last three are in files of Llama 1 and SmolLM2. */
static const char *const inert[] = { "max_sequence_length", "is_llama_config", "transformers.js_config", NULL };

static void finish(rp_config_reader *reader, rp_model_config *c)
{
    if (c->hidden && c->n_heads && c->hidden % c->n_heads)
        rp__config_error(reader, "num_attention_heads", RP_ERR_CONFIG, "'hidden_size' %" PRId64 " is not a multiple of 'num_attention_"
                         "heads' %" PRId64, c->hidden, c->n_heads);
    if (!c->n_kv_heads) c->n_kv_heads = c->n_heads;
    if (c->n_heads && c->n_heads % c->n_kv_heads)
        rp__config_error(reader, "num_key_value_heads", RP_ERR_CONFIG, "'num_attention_heads' %" PRId64 " is not a multiple of "
                         "'num_key_value_heads' %" PRId64, c->n_heads, c->n_kv_heads);
    if (!c->head_dim && c->n_heads) c->head_dim = c->hidden / c->n_heads;
    if (c->head_dim % 2)
        rp__config_error(reader, "head_dim", RP_ERR_CONFIG, "heads of %" PRId64 " elements cannot be turned in pairs", c->head_dim);
    c->norm             = RP_NORM_RMS;
    c->gated_mlp        = true;
    c->attn_output_bias = c->qkv_bias;
    c->attn_scale       = c->head_dim ? 1 / sqrt((double)c->head_dim) : 0;
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = {
    { "tok_embeddings",       "model.embed_tokens" },
    { "layers.*.attn_norm",   "model.layers.*.input_layernorm" },
    { "layers.*.attn.q",      "model.layers.*.self_attn.q_proj" },
    { "layers.*.attn.k",      "model.layers.*.self_attn.k_proj" },
    { "layers.*.attn.v",      "model.layers.*.self_attn.v_proj" },
    { "layers.*.attn.output", "model.layers.*.self_attn.o_proj" },
    { "layers.*.mlp_norm",    "model.layers.*.post_attention_layernorm" },
    { "layers.*.mlp.gate",    "model.layers.*.mlp.gate_proj" },
    { "layers.*.mlp.up",      "model.layers.*.mlp.up_proj" },
    { "layers.*.mlp.down",    "model.layers.*.mlp.down_proj" },
    { "norm",                 "model.norm" },
    { "output",               "lm_head" },
};

static const rp_name_pair gguf_names[] = {
    { "tok_embeddings",       "token_embd" },
    { "layers.*.attn_norm",   "blk.*.attn_norm" },
    { "layers.*.attn.q",      "blk.*.attn_q" },
    { "layers.*.attn.k",      "blk.*.attn_k" },
    { "layers.*.attn.v",      "blk.*.attn_v" },
    { "layers.*.attn.output", "blk.*.attn_output" },
    { "layers.*.mlp_norm",    "blk.*.ffn_norm" },
    { "layers.*.mlp.gate",    "blk.*.ffn_gate" },
    { "layers.*.mlp.up",      "blk.*.ffn_up" },
    { "layers.*.mlp.down",    "blk.*.ffn_down" },
    { "norm",                 "output_norm" },
    { "output",               "output" },
};

/* rope_freqs is read with the config. */
static const char *const inert_tensors[] = { "*rotary_emb.inv_freq", "rope_freqs.weight", NULL };
static const char *const rotated[]       = { "layers.*.attn.q.*", "layers.*.attn.k.*", NULL };

const rp_family rp__family_llama = {
    .model_type = "llama", .architecture = "LlamaForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .finish = finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = inert_tensors,
    .gguf_architecture = "llama", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names), .gguf_rotated = rotated,
};
