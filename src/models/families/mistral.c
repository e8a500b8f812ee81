/* models/families/mistral.c -- Mistral 7B and other models with model_type "mistral": Llama without biases, with a window in every block.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(true), RP_FIELD_HEAD_DIM(0), RP_FIELD_CONTEXT(131072), RP_FIELD_ACTIVATION("hidden_act"),
    RP_FIELD_EPS(1e-6), RP_FIELDS_WEIGHTS, RP_FIELD_TIED(0), RP_FIELDS_TOKENS(1, 2), RP_FIELDS_ROPE, RP_FIELD_WINDOW(4096),
    { "attention_bias", .kind = RP_FIELD_ONLY, .only = "false" },
    { "mlp_bias", .kind = RP_FIELD_ONLY, .only = "false" },
};

static void mistral_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_decoder(reader, c);
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = { RP_NAMES_ENDS, RP_NAMES_QKV, RP_NAMES_GATE_UP, RP_NAMES_NORMS_BEFORE };
static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_GATE_UP, RP_GGUF_NORMS_BEFORE };
static const char *const rotated[]     = { "layers.*.attn.q.*", "layers.*.attn.k.*", NULL };

/* Written to GGUF as a llama, and read from it as one. */
const rp_family rp__family_mistral = {
    .model_type = "mistral", .architecture = "MistralForCausalLM", .field = fields, .n_fields = RP_COUNT(fields),
    .finish = mistral_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "llama", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names), .gguf_rotated = rotated,
};
