/* models/families/llama.c -- Llama 2 and 3.x, TinyLlama, SmolLM2 and other models with model_type "llama".
 *
 *   block   x + attn(rms(x)), then x + down(silu(gate(rms(x))) * up(rms(x))); rotary positions, grouped heads
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(false), RP_FIELD_HEAD_DIM(0), RP_FIELD_CONTEXT(2048), RP_FIELD_ACTIVATION("hidden_act"),
    RP_FIELD_EPS(1e-6), RP_FIELDS_WEIGHTS, RP_FIELD_TIED(0), RP_FIELDS_TOKENS(1, 2), RP_FIELDS_ROPE,
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) },
    { "mlp_bias", .kind = RP_FIELD_BOOL, RP_AT(mlp_bias) },
    { "pretraining_tp", .kind = RP_FIELD_ONLY, .only = "1" },
    { "rope_interleaved", .kind = RP_FIELD_ONLY, .only = "false" },
    { "partial_rotary_factor", .kind = RP_FIELD_ONLY, .only = "1" },
    { "original_max_position_embeddings", .kind = RP_FIELD_ONLY, .only = "null" },
};

/* These are in files of Llama 1 and SmolLM2. */
static const char *const inert[] = { "max_sequence_length", "is_llama_config", "transformers.js_config", NULL };

static void llama_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_decoder(reader, c);
    c->attn_output_bias = c->qkv_bias;
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = { RP_NAMES_ENDS, RP_NAMES_QKV, RP_NAMES_GATE_UP, RP_NAMES_NORMS_BEFORE };
static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_GATE_UP, RP_GGUF_NORMS_BEFORE };

/* rope_freqs is read with the config. */
static const char *const inert_tensors[] = { "*rotary_emb.inv_freq", "rope_freqs.weight", NULL };
static const char *const rotated[]       = { "layers.*.attn.q.*", "layers.*.attn.k.*", NULL };

const rp_family rp__family_llama = {
    .model_type = "llama", .architecture = "LlamaForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .finish = llama_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = inert_tensors,
    .gguf_architecture = "llama", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names), .gguf_rotated = rotated,
};
