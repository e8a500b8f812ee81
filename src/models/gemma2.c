/* models/gemma2.c -- Gemma 2: norms around attention and MLP, weights of norms stored less 1, embeddings scaled by sqrt(hidden), soft
 * caps of scores and logits, a window in every other block from the first on.
 */
#include "models/fields.h"

#include <math.h>

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_KV_HEADS(true), RP_FIELD_HEAD_DIM(256), RP_FIELD_CONTEXT(8192), RP_FIELD_EPS(1e-6), RP_FIELDS_WEIGHTS,
    RP_FIELD_TIED(1), RP_FIELDS_TOKENS(2, 1), RP_FIELDS_ROPE, RP_FIELD_WINDOW(4096),
    { "hidden_activation", .kind = RP_FIELD_WORD, RP_AT(activation), .nullable = true, .word = rp__config_activations,
      .otherwise = RP_ACT_GELU_TANH },
    { "hidden_act", .kind = RP_FIELD_ONLY, .only = "\"gelu_pytorch_tanh\"" },
    { "attention_bias", .kind = RP_FIELD_BOOL, RP_AT(qkv_bias) },
    { "query_pre_attn_scalar", .kind = RP_FIELD_NUMBER, RP_AT(attn_scale), .low = 1e-6, .high = 1e9, .otherwise = 256 },
    { "use_bidirectional_attention", .kind = RP_FIELD_ONLY, .only = "false" },
    RP_FIELD_CAP("attn_logit_softcapping", attn_softcap, 50),
    RP_FIELD_CAP("final_logit_softcapping", logit_softcap, 30),
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
    c->window_every = 2;
    rp__config_read_rope(reader, c, &c->rope);
}

static const rp_name_pair names[] = {
    { "tok_embeddings",           "model.embed_tokens" },
    { "layers.*.attn_norm",       "model.layers.*.input_layernorm" },
    { "layers.*.attn.q",          "model.layers.*.self_attn.q_proj" },
    { "layers.*.attn.k",          "model.layers.*.self_attn.k_proj" },
    { "layers.*.attn.v",          "model.layers.*.self_attn.v_proj" },
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

const rp_family rp__family_gemma2 = {
    .model_type = "gemma2", .architecture = "Gemma2ForCausalLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .honours_layer_types = true, .finish = finish, .name = names, .n_names = RP_COUNT(names), .prefix = "model.", .inert_tensor = inert_tensors,
    .gguf_architecture = "gemma2", .gguf_name = gguf_names, .n_gguf_names = RP_COUNT(gguf_names),
};
