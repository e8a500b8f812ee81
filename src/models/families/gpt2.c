/* models/families/gpt2.c -- GPT-2: learned positions, LayerNorm, one projection for q, k and v, weights stored [in, out].
 *
 *   block   x + attn(norm(x)), then x + down(gelu(up(norm(x)))); dropout after embeddings, in attention and before each sum
 *
 * Defaults are those of transformers' GPT2Config, but sizes are required. */
#include "models/family.h"

#include <math.h>

static const rp_field_word activations[] = {
    { "gelu_new", RP_ACT_GELU_TANH }, { "gelu_pytorch_tanh", RP_ACT_GELU_TANH }, { "gelu", RP_ACT_GELU_ERF },
    { "relu", RP_ACT_RELU }, { "silu", RP_ACT_SILU }, { "swish", RP_ACT_SILU }, { NULL, 0 },
};

static const rp_config_field fields[] = {
    { "vocab_size", .kind = RP_FIELD_INT, RP_AT(vocab), .required = true, .low = 1, .high = INT32_MAX },
    { "n_embd", "hidden_size", .kind = RP_FIELD_INT, RP_AT(hidden), .required = true, .low = 1, .high = 1 << 24 },
    { "n_layer", "num_hidden_layers", .kind = RP_FIELD_INT, RP_AT(n_layers), .required = true, .low = 1, .high = RP_MOST_LAYERS },
    { "n_head", "num_attention_heads", .kind = RP_FIELD_INT, RP_AT(n_heads), .required = true, .low = 1, .high = 1 << 16 },
    { "n_positions", "max_position_embeddings", .kind = RP_FIELD_INT, RP_AT(context), .low = 1, .high = INT32_MAX,
      .otherwise = 1024 },
    { "n_inner", .kind = RP_FIELD_INT, RP_AT(mlp_hidden), .nullable = true, .low = 1, .high = 1 << 26 },
    { "activation_function", .kind = RP_FIELD_WORD, RP_AT(activation), .word = activations, .otherwise = RP_ACT_GELU_TANH },
    { "layer_norm_epsilon", .kind = RP_FIELD_NUMBER, RP_AT(norm_eps), .low = 0, .high = 1, .otherwise = 1e-5 },
    { "initializer_range", .kind = RP_FIELD_NUMBER, RP_AT(init_std), .low = 0, .high = 1, .otherwise = 0.02 },
    { "embd_pdrop", .kind = RP_FIELD_NUMBER, RP_AT(embd_dropout), .low = 0, .high = 1, .otherwise = 0.1 },
    { "attn_pdrop", .kind = RP_FIELD_NUMBER, RP_AT(attn_dropout), .low = 0, .high = 1, .otherwise = 0.1 },
    { "resid_pdrop", .kind = RP_FIELD_NUMBER, RP_AT(resid_dropout), .low = 0, .high = 1, .otherwise = 0.1 },
    { "scale_attn_by_inverse_layer_idx", .kind = RP_FIELD_BOOL, RP_AT(attn_scale_by_layer) },
    { "scale_attn_weights", .kind = RP_FIELD_LATER },
    { "tie_word_embeddings", .kind = RP_FIELD_BOOL, RP_AT(tied), .otherwise = 1 },
    { "bos_token_id", .kind = RP_FIELD_ID, RP_AT(bos), .otherwise = 50256 },
    { "eos_token_id", .kind = RP_FIELD_ID, RP_AT(eos), .otherwise = 50256 },
};

/* n_ctx was the size of mask buffers; reorder_and_upcast_attn affects the order of roundings in half precision; summaries belong to
 * another head. */
static const char *const inert[] = { "n_ctx", "reorder_and_upcast_attn", "summary_*", NULL };

static bool scales_scores(rp_config_reader *reader)
{
    const json_t *value = json_object_get(reader->json, "scale_attn_weights");
    char shown[RP_SHOWN_CHARS];

    if (value && !json_is_boolean(value))
        rp__config_error(reader, "scale_attn_weights", RP_ERR_CONFIG, "'scale_attn_weights' is %s, expected true or false",
                         rp__config_show(value, shown));
    return !json_is_false(value);
}

static void gpt2_finish(rp_config_reader *reader, rp_model_config *c)
{
    if (c->hidden && c->n_heads && c->hidden % c->n_heads)
        rp__config_error(reader, "n_head", RP_ERR_CONFIG, "'n_embd' %" PRId64 " is not a multiple of 'n_head' %" PRId64, c->hidden,
                         c->n_heads);
    if (!c->mlp_hidden) c->mlp_hidden = 4 * c->hidden;
    c->n_kv_heads           = c->n_heads;
    c->head_dim             = c->n_heads ? c->hidden / c->n_heads : 0;
    c->norm                 = RP_NORM_LAYER;
    c->fused_qkv            = true;
    c->qkv_bias             = c->attn_output_bias = c->mlp_bias = true;
    c->weights_in_out       = true;
    c->learned_positions    = true;
    c->scaled_residual_init = true;
    c->attn_scale           = scales_scores(reader) && c->head_dim ? 1 / sqrt((double)c->head_dim) : 1;
}

static const rp_name_pair names[] = {
    { "tok_embeddings",       "transformer.wte" },
    { "pos_embeddings",       "transformer.wpe" },
    { "layers.*.attn_norm",   "transformer.h.*.ln_1" },
    { "layers.*.attn.qkv",    "transformer.h.*.attn.c_attn" },
    { "layers.*.attn.output", "transformer.h.*.attn.c_proj" },
    { "layers.*.mlp_norm",    "transformer.h.*.ln_2" },
    { "layers.*.mlp.up",      "transformer.h.*.mlp.c_fc" },
    { "layers.*.mlp.down",    "transformer.h.*.mlp.c_proj" },
    { "norm",                 "transformer.ln_f" },
    { "output",               "lm_head" },
};

/* The causal mask, which old versions stored as a buffer. */
static const char *const inert_tensors[] = { "*h.*.attn.bias", "*h.*.attn.masked_bias", NULL };

/* ---- GGUF ---- */

static const rp_name_pair gguf_keys[] = {
    { "context_length",                   "n_positions" },
    { "embedding_length",                 "n_embd" },
    { "feed_forward_length",              "n_inner" },
    { "block_count",                      "n_layer" },
    { "attention.head_count",             "n_head" },
    { "attention.layer_norm_epsilon",     "layer_norm_epsilon" },
    { "attention.layer_norm_rms_epsilon", NULL },
    { "attention.head_count_kv",          NULL },
    { "rope.freq_base",                   NULL },
};

static const rp_name_pair gguf_names[] = {
    { "tok_embeddings",       "token_embd" },
    { "pos_embeddings",       "position_embd" },
    { "layers.*.attn_norm",   "blk.*.attn_norm" },
    { "layers.*.attn.qkv",    "blk.*.attn_qkv" },
    { "layers.*.attn.output", "blk.*.attn_output" },
    { "layers.*.mlp_norm",    "blk.*.ffn_norm" },
    { "layers.*.mlp.up",      "blk.*.ffn_up" },
    { "layers.*.mlp.down",    "blk.*.ffn_down" },
    { "norm",                 "output_norm" },
    { "output",               "output" },
};

static const char *const turned[] = { "layers.*.attn.*.weight", "layers.*.mlp.*.weight", NULL };

const rp_family rp__family_gpt2 = {
    .model_type = "gpt2", .architecture = "GPT2LMHeadModel", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .finish = gpt2_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "transformer.", .inert_tensor = inert_tensors,
    .gguf_architecture = "gpt2", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names), .gguf_turned = turned,
    .gguf_key = gguf_keys, .n_gguf_keys = RP_COUNT(gguf_keys),
};
