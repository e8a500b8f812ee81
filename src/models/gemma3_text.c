/* models/gemma3_text.c -- Gemma 3, text alone: Gemma 2 without a cap of scores, with norms of q and k over each head, a window in all but
 * every sixth block, and two ropes: that of the blocks with a window never stretches.
 */
#include "models/fields.h"

#include <math.h>

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(true), RP_FIELD_HEAD_DIM(256), RP_FIELD_CONTEXT(131072), RP_FIELD_EPS(1e-6), RP_FIELDS_WEIGHTS,
    RP_FIELD_TIED(1), RP_FIELDS_TOKENS(2, 1), RP_FIELDS_ROPE, RP_FIELD_WINDOW(4096),
    { "hidden_activation", .kind = RP_FIELD_WORD, RP_AT(activation), .nullable = true, .word = rp__config_activations,
      .otherwise = RP_ACT_GELU_TANH },
    { "hidden_act", .kind = RP_FIELD_ONLY, .only = "\"gelu_pytorch_tanh\"" },
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) },
    { "query_pre_attn_scalar", .kind = RP_FIELD_NUMBER, RP_AT(attn_scale), .low = 1e-6, .high = 1e9, .otherwise = 256 },
    { "use_bidirectional_attention", .kind = RP_FIELD_ONLY, .only = "false" },
    { "rope_local_base_freq", .kind = RP_FIELD_LATER },
    { "sliding_window_pattern", "_sliding_window_pattern", .kind = RP_FIELD_INT, RP_AT(window_every), .low = 1, .high = 1 << 16, .otherwise = 6 },
    { "attn_logit_softcapping", .kind = RP_FIELD_ONLY, .only = "null" },
    RP_FIELD_CAP("final_logit_softcapping", logit_softcap, 0),
};

/* Which cache transformers would generate with. */
static const char *const inert[] = { "cache_implementation", NULL };

static void finish(rp_config_reader *reader, rp_model_config *c)
{
    c->attn_scale = c->attn_scale > 0 ? 1 / sqrt(c->attn_scale) : 0;
    rp__config_finish_decoder(reader, c);
    c->attn_output_bias = c->qkv_bias;
    c->norms            = RP_NORMS_AROUND;
    c->norm_plus        = 1;
    c->embedding_scale  = sqrt((double)c->hidden);
    c->qk_norm          = RP_QK_NORM_HEAD;
    rp__config_read_two_ropes(reader, c);
}

static const rp_name_pair names[] = {
    { "tok_embeddings",           "model.embed_tokens" },
    { "layers.*.attn_norm",       "model.layers.*.input_layernorm" },
    { "layers.*.attn.q",          "model.layers.*.self_attn.q_proj" },
    { "layers.*.attn.k",          "model.layers.*.self_attn.k_proj" },
    { "layers.*.attn.v",          "model.layers.*.self_attn.v_proj" },
    { "layers.*.attn.q_norm",     "model.layers.*.self_attn.q_norm" },
    { "layers.*.attn.k_norm",     "model.layers.*.self_attn.k_norm" },
    { "layers.*.attn.output",     "model.layers.*.self_attn.o_proj" },
    { "layers.*.post_attn_norm",  "model.layers.*.post_attention_layernorm" },
    { "layers.*.mlp_norm",        "model.layers.*.pre_feedforward_layernorm" },
    { "layers.*.mlp.gate",        "model.layers.*.mlp.gate_proj" },
    { "layers.*.mlp.up",          "model.layers.*.mlp.up_proj" },
    { "layers.*.mlp.down",        "model.layers.*.mlp.down_proj" },
    { "layers.*.post_mlp_norm",   "model.layers.*.post_feedforward_layernorm" },
    { "norm",                     "model.norm" },
    { "output",                   "lm_head" },
};

static const rp_name_pair gguf_names[] = {
    { "tok_embeddings",          "token_embd" },
    { "layers.*.attn_norm",      "blk.*.attn_norm" },
    { "layers.*.attn.q",         "blk.*.attn_q" },
    { "layers.*.attn.k",         "blk.*.attn_k" },
    { "layers.*.attn.v",         "blk.*.attn_v" },
    { "layers.*.attn.q_norm",    "blk.*.attn_q_norm" },
    { "layers.*.attn.k_norm",    "blk.*.attn_k_norm" },
    { "layers.*.attn.output",    "blk.*.attn_output" },
    { "layers.*.post_attn_norm", "blk.*.post_attention_norm" },
    { "layers.*.mlp_norm",       "blk.*.ffn_norm" },
    { "layers.*.mlp.gate",       "blk.*.ffn_gate" },
    { "layers.*.mlp.up",         "blk.*.ffn_up" },
    { "layers.*.mlp.down",       "blk.*.ffn_down" },
    { "layers.*.post_mlp_norm",  "blk.*.post_ffw_norm" },
    { "norm",                    "output_norm" },
    { "output",                  "output" },
};

static const char *const inert_tensors[] = { "*rotary_emb.inv_freq", NULL };

const rp_family rp__family_gemma3_text = {
    .model_type = "gemma3_text", .architecture = "Gemma3ForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .honours_layer_types = true, .finish = finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = inert_tensors,
    .gguf_architecture = "gemma3", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
