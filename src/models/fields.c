/* models/fields.c -- derives and checks values from fields that many families share. */
#include "models/fields.h"

#include <math.h>

const rp_field_word rp__config_activations[] = {
    { "silu", RP_ACT_SILU }, { "swish", RP_ACT_SILU }, { "gelu", RP_ACT_GELU_ERF }, { "gelu_new", RP_ACT_GELU_TANH },
    { "gelu_pytorch_tanh", RP_ACT_GELU_TANH }, { "relu", RP_ACT_RELU }, { NULL, 0 },
};

const char *const rp__inert_rotary[] = { "*rotary_emb.inv_freq", NULL };

bool rp__config_flag(rp_config_reader *reader, const char *key, bool otherwise)
{
    const json_t *value = json_object_get(reader->json, key);
    char shown[RP_SHOWN_CHARS];

    if (!value || json_is_null(value)) return otherwise;
    if (!json_is_boolean(value))
        rp__config_error(reader, key, RP_ERR_CONFIG, "'%s' is %s, expected true or false", key, rp__config_show(value, shown));
    return json_is_true(value);
}

static void check_heads(rp_config_reader *reader, const rp_model_config *c)
{
    if (c->hidden && c->n_heads && c->hidden % c->n_heads)
        rp__config_error(reader, "num_attention_heads", RP_ERR_CONFIG, "'hidden_size' %" PRId64 " is not a multiple of 'num_attention_"
                         "heads' %" PRId64, c->hidden, c->n_heads);
    if (c->n_heads && c->n_heads % c->n_kv_heads)
        rp__config_error(reader, "num_key_value_heads", RP_ERR_CONFIG, "'num_attention_heads' %" PRId64 " is not a multiple of "
                         "'num_key_value_heads' %" PRId64, c->n_heads, c->n_kv_heads);
    if (c->head_dim % 2)
        rp__config_error(reader, "head_dim", RP_ERR_CONFIG, "heads of %" PRId64 " elements cannot be rotated in pairs", c->head_dim);
}

void rp__config_finish_decoder(rp_config_reader *reader, rp_model_config *c)
{
    if (!c->n_kv_heads) c->n_kv_heads = c->n_heads;
    if (!c->head_dim && c->n_heads) c->head_dim = c->hidden / c->n_heads;
    check_heads(reader, c);
    c->norm      = RP_NORM_RMS;
    c->gated_mlp = true;
    if (!(c->attn_scale > 0)) c->attn_scale = c->head_dim ? 1 / sqrt((double)c->head_dim) : 0;
}

void rp__config_finish_gemma(rp_config_reader *reader, rp_model_config *c)
{
    c->attn_scale = c->attn_scale > 0 ? 1 / sqrt(c->attn_scale) : 0;
    rp__config_finish_decoder(reader, c);
    c->attn_output_bias = c->qkv_bias;
    c->norms            = RP_NORMS_AROUND;
    c->norm_plus        = 1;
    c->embedding_scale  = sqrt((double)c->hidden);
}

void rp__config_finish_experts(rp_config_reader *reader, const rp_model_config *c)
{
    if (c->experts && c->experts_chosen > c->experts)
        rp__config_error(reader, "num_experts_per_tok", RP_ERR_CONFIG, "'num_experts_per_tok' %" PRId64 " exceeds the number of experts, %" PRId64,
                         c->experts_chosen, c->experts);
}
