/* models/families/olmo2.c -- OLMo 2: norms only after attention and MLP, and norms over all of q and all of k before the rotation.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(false), RP_FIELD_CONTEXT(2048), RP_FIELD_ACTIVATION("hidden_act"), RP_FIELD_EPS(1e-5),
    RP_FIELDS_WEIGHTS, RP_FIELD_TIED(0), RP_FIELDS_TOKENS(-1, 50279), RP_FIELDS_ROPE,
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) },
};

static void olmo2_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_decoder(reader, c);
    c->attn_output_bias = c->qkv_bias;
    c->norms            = RP_NORMS_BEHIND;
    c->qk_norm          = RP_QK_NORM_WHOLE;
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = { RP_NAMES_ENDS, RP_NAMES_QKV, RP_NAMES_QK_NORMS, RP_NAMES_GATE_UP, RP_NAMES_NORMS_BEHIND };
static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_QK_NORMS, RP_GGUF_GATE_UP, RP_GGUF_NORMS_BEHIND };

const rp_family rp__family_olmo2 = {
    .model_type = "olmo2", .architecture = "Olmo2ForCausalLM", .field = fields, .n_fields = RP_COUNT(fields),
    .finish = olmo2_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "olmo2", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
