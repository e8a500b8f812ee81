/* models/families/bert.c -- BERT and MiniLM: an encoder with learned positions and token types, and norms after the sums.
 *
 *   embed   norm(word + type + position), dropout
 *   block   norm(x + attn(x)), then norm(x + down(gelu(up x))); attention is bidirectional
 *   head    output(norm(gelu(dense x))) + bias; the output shares the word embeddings
 *
 * Files of a bare encoder (BertModel, sentence-transformers) have no head; it is then initialised. Other heads and the pooler are not part of
 * the masked-language loss and are left out of exports. Defaults are those of transformers' BertConfig, but sizes are
 * required. */
#include "models/fields.h"

#include <math.h>

static const rp_config_field fields[] = {
    RP_FIELDS_SIZES, RP_FIELD_CONTEXT(512), RP_FIELDS_TOKENS(-1, -1),
    { "hidden_act", .kind = RP_FIELD_WORD, RP_AT(activation), .word = rp__config_activations, .otherwise = RP_ACT_GELU_ERF },
    { "type_vocab_size", .kind = RP_FIELD_INT, RP_AT(token_types), .low = 1, .high = 1 << 16, .otherwise = 2 },
    { "layer_norm_eps", .kind = RP_FIELD_NUMBER, RP_AT(norm_eps), .low = 0, .high = 1, .otherwise = 1e-12 },
    { "initializer_range", .kind = RP_FIELD_NUMBER, RP_AT(init_std), .low = 0, .high = 1, .otherwise = 0.02 },
    { "hidden_dropout_prob", .kind = RP_FIELD_NUMBER, RP_AT(resid_dropout), .low = 0, .high = 1, .otherwise = 0.1 },
    { "attention_probs_dropout_prob", .kind = RP_FIELD_NUMBER, RP_AT(attn_dropout), .low = 0, .high = 1, .otherwise = 0.1 },
    { "tie_word_embeddings", .kind = RP_FIELD_ONLY, .only = "true" },
    { "position_embedding_type", .kind = RP_FIELD_ONLY, .only = "\"absolute\"" },
    { "is_decoder", .kind = RP_FIELD_ONLY, .only = "false" },
};

/* For heads of other tasks, and for the creation of the model. */
static const char *const inert[] = { "classifier_dropout", "pooler_*", "directionality", "model_max_length", NULL };

static void bert_finish(rp_config_reader *reader, rp_model_config *c)
{
    if (c->hidden && c->n_heads && c->hidden % c->n_heads)
        rp__config_error(reader, "num_attention_heads", RP_ERR_CONFIG, "'hidden_size' %" PRId64 " is not a multiple of "
                         "'num_attention_heads' %" PRId64, c->hidden, c->n_heads);
    c->n_kv_heads        = c->n_heads;
    c->head_dim          = c->n_heads ? c->hidden / c->n_heads : 0;
    c->tied              = true;
    c->norm              = RP_NORM_LAYER;
    c->norms             = RP_NORMS_BEHIND_SUM;
    c->embd_dropout      = c->resid_dropout;
    c->qkv_bias          = c->attn_output_bias = c->mlp_bias = true;
    c->learned_positions = c->embed_norm = c->both_ways = c->masked_head = true;
    c->attn_scale        = c->head_dim ? 1 / sqrt((double)c->head_dim) : 1;
}

static const rp_name_pair names[] = {
    { "tok_embeddings",          "bert.embeddings.word_embeddings" },
    { "pos_embeddings",          "bert.embeddings.position_embeddings" },
    { "type_embeddings",         "bert.embeddings.token_type_embeddings" },
    { "embed_norm",              "bert.embeddings.LayerNorm" },
    { "layers.*.attn.q",         "bert.encoder.layer.*.attention.self.query" },
    { "layers.*.attn.k",         "bert.encoder.layer.*.attention.self.key" },
    { "layers.*.attn.v",         "bert.encoder.layer.*.attention.self.value" },
    { "layers.*.attn.output",    "bert.encoder.layer.*.attention.output.dense" },
    { "layers.*.post_attn_norm", "bert.encoder.layer.*.attention.output.LayerNorm" },
    { "layers.*.mlp.up",         "bert.encoder.layer.*.intermediate.dense" },
    { "layers.*.mlp.down",       "bert.encoder.layer.*.output.dense" },
    { "layers.*.post_mlp_norm",  "bert.encoder.layer.*.output.LayerNorm" },
    { "head.dense",              "cls.predictions.transform.dense" },
    { "head.norm",               "cls.predictions.transform.LayerNorm" },
    { "head",                    "cls.predictions" },
    { "output",                  "cls.predictions.decoder" },
};

/* Names from the first TensorFlow files, which many files still have. */
static const rp_name_pair tails[] = { { "weight", "gamma" }, { "bias", "beta" } };

/* Buffers, heads for other tasks, and the second name of the bias. */
static const char *const inert_tensors[] = {
    "*embeddings.position_ids", "*embeddings.token_type_ids", "*pooler.dense.*", "cls.seq_relationship.*", "cls.predictions.decoder.bias", NULL,
};

static const char *const head[] = { "head.*", NULL };

const rp_family rp__family_bert = {
    .model_type = "bert", .architecture = "BertForMaskedLM", .field = fields, .n_fields = RP_COUNT(fields), .inert = inert,
    .finish = bert_finish, .name = names, .n_names = RP_COUNT(names), .prefix = "bert.", .tail = tails, .n_tails = RP_COUNT(tails),
    .inert_tensor = inert_tensors, .may_be_fresh = head,
};
