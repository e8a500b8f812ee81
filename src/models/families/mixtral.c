/* models/families/mixtral.c -- Mixtral: Mistral with a mixture of experts in every block; the weights of the chosen experts sum to 1.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(true), RP_FIELD_HEAD_DIM(0), RP_FIELD_CONTEXT(131072), RP_FIELD_EPS(1e-5), RP_FIELDS_WEIGHTS,
    RP_FIELD_TIED(0), RP_FIELDS_TOKENS(1, 2), RP_FIELDS_ROPE, RP_FIELD_WINDOW(0), RP_FIELD_EXPERT_ACTIVATION,
    RP_FIELDS_EXPERTS("num_local_experts", "num_experts", 8, 2),
    { "router_jitter_noise", .kind = RP_FIELD_ONLY, .only = "0" },
};

static void mixtral_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_decoder(reader, c);
    c->expert_hidden       = c->mlp_hidden;
    c->experts_renormalise = true;
    rp__config_finish_experts(reader, c);
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = {
    RP_NAMES_BUT_MLP, RP_NAMES_QKV, RP_NAMES_NORMS_BEFORE,
    { "layers.*.mlp.router",       "model.layers.*.block_sparse_moe.gate" },
    { "layers.*.mlp.experts.gate", "model.layers.*.block_sparse_moe.experts.*.w1" },
    { "layers.*.mlp.experts.up",   "model.layers.*.block_sparse_moe.experts.*.w3" },
    { "layers.*.mlp.experts.down", "model.layers.*.block_sparse_moe.experts.*.w2" },
};

static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_NORMS_BEFORE, RP_GGUF_EXPERTS };
static const rp_name_pair gguf_apart[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_NORMS_BEFORE, RP_GGUF_EXPERTS_APART };
static const char *const rotated[]     = { "layers.*.attn.q.*", "layers.*.attn.k.*", NULL };

/* In GGUF, Mixtral has the architecture "llama" with experts. */
static const rp_name_pair gguf_keys[] = { { "expert_count", "num_local_experts" } };

const rp_family rp__family_mixtral = {
    .model_type = "mixtral", .architecture = "MixtralForCausalLM", .field = fields, .n_fields = RP_COUNT(fields),
    .finish = mixtral_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "llama", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names), .gguf_apart = gguf_apart,
    .n_gguf_apart = RP_COUNT(gguf_apart), .gguf_rotated = rotated, .gguf_key = gguf_keys, .n_gguf_keys = RP_COUNT(gguf_keys),
};
