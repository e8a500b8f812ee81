/* models/families/qwen3_moe.c -- Qwen 3 with experts: attention as in the dense family; most blocks have a mixture of experts instead of an MLP.
 *
 * Every decoder_sparse_step-th block has experts, except those in mlp_only_layers. The optional window applies to all
 * blocks.
 */
#include "models/fields.h"

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(true), RP_FIELD_HEAD_DIM(0), RP_FIELD_CONTEXT(32768), RP_FIELD_EPS(1e-6), RP_FIELDS_WEIGHTS,
    RP_FIELD_TIED(0), RP_FIELDS_TOKENS(-1, -1), RP_FIELDS_ROPE, RP_FIELD_WINDOW(4096), RP_FIELD_EXPERT_ACTIVATION,
    RP_FIELDS_EXPERTS("num_experts", "num_local_experts", 128, 8),
    { "moe_intermediate_size", .kind = RP_FIELD_INT, RP_AT(expert_hidden), .low = 1, .high = 1 << 26, .otherwise = 768 },
    { "norm_topk_prob", .kind = RP_FIELD_BOOL, RP_AT(experts_renormalise) },
    { "decoder_sparse_step", .kind = RP_FIELD_INT, RP_AT(experts_every), .low = 1, .high = 1 << 16, .otherwise = 1 },
    { "mlp_only_layers", .kind = RP_FIELD_LATER },
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) },
    { "use_sliding_window", .kind = RP_FIELD_LATER },
};

/* Present in files, but transformers does not read it. */
static const char *const inert[] = { "max_window_layers", NULL };

static void check_mlp_only(rp_config_reader *reader, const rp_model_config *c)
{
    const json_t *list = json_object_get(reader->json, "mlp_only_layers"), *layer;
    char shown[RP_SHOWN_CHARS];
    size_t i;

    if (list && !json_is_null(list) && !json_is_array(list))
        rp__config_error(reader, "mlp_only_layers", RP_ERR_CONFIG, "'mlp_only_layers' is %s, expected a list", rp__config_show(list, shown));
    json_array_foreach(list, i, layer)
        if (!json_is_integer(layer) || json_integer_value(layer) < 0 || (c->n_layers && json_integer_value(layer) >= c->n_layers)) {
            rp__config_error(reader, "mlp_only_layers", RP_ERR_CONFIG, "'mlp_only_layers' has %s, expected the numbers of blocks",
                             rp__config_show(layer, shown));
            return;
        }
}

static void qwen3_moe_finish(rp_config_reader *reader, rp_model_config *c)
{
    rp__config_finish_decoder(reader, c);
    rp__config_finish_experts(reader, c);
    check_mlp_only(reader, c);
    c->attn_output_bias = c->qkv_bias;
    c->qk_norm          = RP_QK_NORM_HEAD;
    if (!rp__config_flag(reader, "use_sliding_window", false)) c->window = 0;
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = {
    RP_NAMES_ENDS, RP_NAMES_QKV, RP_NAMES_QK_NORMS, RP_NAMES_GATE_UP, RP_NAMES_NORMS_BEFORE,
    { "layers.*.mlp.router",       "model.layers.*.mlp.gate" },
    { "layers.*.mlp.experts.gate", "model.layers.*.mlp.experts.*.gate_proj" },
    { "layers.*.mlp.experts.up",   "model.layers.*.mlp.experts.*.up_proj" },
    { "layers.*.mlp.experts.down", "model.layers.*.mlp.experts.*.down_proj" },
};

static const rp_name_pair gguf_names[] = { RP_GGUF_ENDS, RP_GGUF_QKV, RP_GGUF_QK_NORMS, RP_GGUF_GATE_UP, RP_GGUF_NORMS_BEFORE, RP_GGUF_EXPERTS };

const rp_family rp__family_qwen3_moe = {
    .model_type = "qwen3_moe", .architecture = "Qwen3MoeForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .finish = qwen3_moe_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = rp__inert_rotary,
    .gguf_architecture = "qwen3moe", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
