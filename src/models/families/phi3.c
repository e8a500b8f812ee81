/* models/families/phi3.c -- Phi-3 and Phi-4 mini: Llama with q, k, v fused in one projection and gate, up in another, and dropout before each
 * sum. Optional are a window in every block, partial rotation of heads, and other frequencies for long texts.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(false), RP_FIELD_CONTEXT(4096), RP_FIELD_ACTIVATION("hidden_act"), RP_FIELD_EPS(1e-5),
    RP_FIELDS_WEIGHTS, RP_FIELD_TIED(0), RP_FIELDS_TOKENS(1, 32000), RP_FIELDS_ROPE, RP_FIELD_WINDOW(0),
    { "resid_pdrop", .kind = RP_FIELD_NUMBER, RP_AT(resid_dropout), .low = 0, .high = 1 },
    { "partial_rotary_factor", .kind = RP_FIELD_LATER },
    { "original_max_position_embeddings", .kind = RP_FIELD_LATER },
    { "attention_bias", .kind = RP_FIELD_ONLY, .only = "false" },
    { "mlp_bias", .kind = RP_FIELD_ONLY, .only = "false" },
    { "lm_head_bias", .kind = RP_FIELD_ONLY, .only = "false" },
};

/* transformers applies no dropout to embeddings. */
static const char *const inert[] = { "embd_pdrop", "interpolate_factor", NULL };

static void phi3_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_decoder(reader, c);
    c->fused_qkv     = true;
    c->fused_gate_up = true;
    rp__config_read_partial_rope(reader, c);
}

static const rp_name_pair names[] = {
    RP_NAMES_ENDS, RP_NAMES_NORMS_BEFORE,
    { "layers.*.attn.qkv", "model.layers.*.self_attn.qkv_proj" }, { "layers.*.mlp.gate_up", "model.layers.*.mlp.gate_up_proj" },
};

static const rp_name_pair gguf_names[] = {
    RP_GGUF_ENDS, RP_GGUF_NORMS_BEFORE, { "layers.*.attn.qkv", "blk.*.attn_qkv" }, { "layers.*.mlp.gate_up", "blk.*.ffn_up" },
};

const rp_family rp__family_phi3 = {
    .model_type = "phi3", .architecture = "Phi3ForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .finish = phi3_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "phi3", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
