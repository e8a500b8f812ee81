/* models/families/qwen3.c -- Qwen 3, dense: Llama with a norm over each head of q and k before the rotation.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(true), RP_FIELD_HEAD_DIM(128), RP_FIELD_CONTEXT(32768), RP_FIELD_ACTIVATION("hidden_act"),
    RP_FIELD_EPS(1e-6), RP_FIELDS_WEIGHTS, RP_FIELD_TIED(0), RP_FIELDS_TOKENS(-1, -1), RP_FIELDS_ROPE, RP_FIELD_WINDOW(4096),
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) },
    { "use_sliding_window", .kind = RP_FIELD_LATER },
    { "max_window_layers", .kind = RP_FIELD_INT, RP_AT(window_from), .low = 0, .high = 1 << 16, .otherwise = 28 },
};

static void qwen3_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_decoder(reader, c);
    c->attn_output_bias = c->qkv_bias;
    c->qk_norm          = RP_QK_NORM_HEAD;
    if (!rp__config_flag(reader, "use_sliding_window", false)) c->window = 0;
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = { RP_NAMES_ENDS, RP_NAMES_QKV, RP_NAMES_QK_NORMS, RP_NAMES_GATE_UP, RP_NAMES_NORMS_BEFORE };
static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_QK_NORMS, RP_GGUF_GATE_UP, RP_GGUF_NORMS_BEFORE };

const rp_family rp__family_qwen3 = {
    .model_type = "qwen3", .architecture = "Qwen3ForCausalLM", .field = fields, .n_fields = RP_COUNT(fields),
    .honours_layer_types = true, .finish = qwen3_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "qwen3", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
