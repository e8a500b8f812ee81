/* models/model.h -- a language model: the decoder that a config describes, with its parameters.
 *
 *   tokens [B,T] ─ tok_embeddings (+ pos_embeddings) ─ layers.0 … layers.N-1 ─ norm ─ output ─▶ logits [B,T,vocab]
 *                                                                                └ linear_cross_entropy ─▶ loss [1]
 *
 * An encoder (BERT) differs: the sum of embeddings (+ type_embeddings) is normalised (embed_norm), attention is bidirectional, a
 * head (dense, activation, norm) replaces the norm, and the output has the head's bias.
 *
 * One decoder serves all families; rp_model_config holds their differences. Module paths are the same in all of them.
 * The model owns its rope tables (class temp), which are computed once in double.
 */
#ifndef RP_MODELS_MODEL_H
#define RP_MODELS_MODEL_H

#include "models/config.h"
#include "nn/module.h"

/* int32, [B, T] each. doc_start NULL: one document per row. positions NULL: 0, 1, … (continued after the cache). types NULL: all of type 0; used
 * only by an encoder with token types. targets [n], if not NULL, restricts the loss to the rows b * T + t that it lists, and `labels` [n] belong
 * to them. padded: each row is one document, followed by padding. Attention separates padding like any other document, and balancing of
 * experts ignores it. */
typedef struct { rp_tensor *tokens, *labels, *positions, *doc_start, *types, *targets; bool padded; } rp_model_batch;

/* Build a model with allocated parameters (class param, `dtype`, or quantised as config->quant says). Their contents are undefined until they are
 * loaded or initialised.
 * owner   the caller; on success the model takes the config over (*config is then empty)
 * errors  RP_ERR_MEMORY · RP_ERR_CONFIG · RP_ERR_MATCH, RP_ERR_UNSUPPORTED from the adapter */
rp_status rp__model_build(rp_ctx *ctx, rp_model_config *config, rp_dtype dtype, rp_model **out);
void rp__model_free(rp_model *model);

/* Make the rope tables for positions below `length` now, instead of at the first batch that needs them.
 * errors  RP_ERR_ARG beyond the model's context · RP_ERR_MEMORY */
rp_status rp__model_reserve_length(rp_model *model, int64_t length);
/* Do the calls of a pass depend on the values of its positions, and not on shapes alone? */
bool rp__model_reads_positions(const rp_model *model);

const rp_model_config *rp__model_config(const rp_model *model);
rp_module *rp__model_root(rp_model *model);
rp_ctx *rp__model_ctx(const rp_model *model);
/* The dtype of activations, and of all parameters that are not quantised. */
rp_dtype rp__model_dtype(const rp_model *model);

/* List every parameter once, in the order of the forward; a tied weight has the path of the module that owns it. */
int rp__model_n_params(const rp_model *model);
const rp_param *rp__model_param(const rp_model *model, int i);
const rp_param *rp__model_find_param(const rp_model *model, const char *path);      /* NULL: none */

/* Compute the logits of all positions. errors RP_ERR_SHAPE · RP_ERR_ARG an id or position outside its table · RP_ERR_MEMORY */
rp_status rp__model_logits(rp_model *model, const rp_model_batch *batch, rp_tensor **logits);
/* Compute [rows, 1, vocab]: the logits of the last position, for the next token. Only for use without gradients. errors as rp__model_logits */
rp_status rp__model_next_logits(rp_model *model, const rp_model_batch *batch, rp_tensor **logits);
/* Compute loss [1] fp32 = how->weight * the sum of -log p over all labels except how->ignore_index. If the config balances experts, it adds that
 * term (ops/balance_loss.c) over all mixtures together, times how->weight * the number of those labels. With batch->targets the layers after
 * the blocks are computed only for the targets. errors as rp__model_logits */
rp_status rp__model_loss(rp_model *model, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss);
/* The same without the balancing term. errors as rp__model_loss */
rp_status rp__model_label_loss(rp_model *model, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss);

/* Bytes of the parameters that stay in the model's files. They are not in the ledger. */
int64_t rp__model_mapped_bytes(const rp_model *model);

/* ---- generation ---- */

/* Allocate the cache: keys and values of earlier positions for `rows` sequences of at most `length` tokens (class temp). While the cache exists,
 * the tokens of a call continue the sequences of the calls before. Only for use without gradients.
 * errors  RP_ERR_MEMORY · RP_ERR_ARG longer than the model's context · RP_ERR_UNSUPPORTED an encoder */
rp_status rp__model_cache_new(rp_model *model, int64_t rows, int64_t length);
void rp__model_cache_drop(rp_model *model);
int64_t rp__model_cache_used(const rp_model *model);

#endif
