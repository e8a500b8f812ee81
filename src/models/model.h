/* models/model.h -- a language model: the decoder that a config describes, with its parameters.
 *
 *   tokens [B,T] ─ tok_embeddings (+ pos_embeddings) ─ layers.0 … layers.N-1 ─ norm ─ output ─▶ logits [B,T,vocab]
 *                                                                                └ linear_cross_entropy ─▶ loss [1]
 *
 * An encoder (BERT): the sum of embeddings (+ type_embeddings) is normed (embed_norm), attention sees both ways, in place of norm stands
 * a head (dense, activation, norm) and the output has the head's bias.
 *
 * One decoder serves every family: what differs is in rp_model_config. Paths are those of the contract in each of them.
 * The rope tables are the model's, class temp, computed in double once.
 */
#ifndef RP_MODELS_MODEL_H
#define RP_MODELS_MODEL_H

#include "models/config.h"
#include "nn/module.h"

/* int32, [B, T] each. doc_start may be NULL: one document a row. positions may be NULL: 0, 1, … (a cache counts on). types, of an encoder
 * that has such, may be NULL: all are of type 0. targets [n] may be NULL; else the loss is asked for these rows alone, b * T + t of each, and
 * `labels` are theirs, [n]. padded: a row is one document, and what begins behind it is padding, which attention keeps apart as it does any
 * document; experts are balanced without it. */
typedef struct { rp_tensor *tokens, *labels, *positions, *doc_start, *types, *targets; bool padded; } rp_model_batch;

/* The model with its parameters allocated (class param, `dtype`), their contents undefined until loaded or initialised.
 * owner   yours; the config is taken over on success (*config is then empty)
 * errors  RP_ERR_MEMORY · RP_ERR_CONFIG */
rp_status rp__model_build(rp_ctx *ctx, rp_model_config *config, rp_dtype dtype, rp_model **out);
void rp__model_free(rp_model *model);

/* Make the rope tables for positions below `length` now rather than at the first batch that is longer than they are.
 * errors  RP_ERR_ARG beyond the model's context · RP_ERR_MEMORY */
rp_status rp__model_reserve_length(rp_model *model, int64_t length);

const rp_model_config *rp__model_config(const rp_model *model);
rp_module *rp__model_root(rp_model *model);
rp_ctx *rp__model_ctx(const rp_model *model);

/* Every parameter once, in the order of the forward; a tied weight under the path of the module that owns it. */
int rp__model_n_params(const rp_model *model);
const rp_param *rp__model_param(const rp_model *model, int i);
const rp_param *rp__model_find_param(const rp_model *model, const char *path);      /* NULL: none */

/* errors  RP_ERR_SHAPE · RP_ERR_ARG an id or position outside its table · RP_ERR_MEMORY */
rp_status rp__model_logits(rp_model *model, const rp_model_batch *batch, rp_tensor **logits);
/* [rows, 1, vocab]: the logits of the last position alone, which say what comes next. For use without gradients. */
rp_status rp__model_next_logits(rp_model *model, const rp_model_batch *batch, rp_tensor **logits);
/* loss [1] fp32 = how->weight * the sum of -log p over all labels but how->ignore_index; and, where the config balances experts, that term
 * (ops/balance_loss.c) over all mixtures together, times how->weight * the number of those labels. What stands behind the blocks is computed
 * for targets alone, where they are given. */
rp_status rp__model_loss(rp_model *model, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss);
/* The first alone: how likely the labels are. */
rp_status rp__model_label_loss(rp_model *model, const rp_model_batch *batch, const rp_attr_cross_entropy *how, rp_tensor **loss);

/* ---- generation ---- */

/* Keys and values of positions seen so far, for `rows` sequences of at most `length` tokens (class temp). While it is there,
 * logits continue the sequences: the tokens of a call follow those of the calls before. For use without gradients.
 * errors  RP_ERR_MEMORY · RP_ERR_ARG longer than the model's context */
rp_status rp__model_cache_new(rp_model *model, int64_t rows, int64_t length);
void rp__model_cache_drop(rp_model *model);
int64_t rp__model_cache_used(const rp_model *model);

#endif
