/* train/score.h -- the loss of a model on a text, or on the data of a recipe.
 *
 *   ids  0 1 2 3 4 5 6 7 8 9 …        one document, cut every `window` ids; attention and positions start anew in each window
 *       [0 1 2 3][4 5 6 7][8 9]       a window of n ids has n - 1 targets; the last window may be shorter
 */
#ifndef RP_TRAIN_SCORE_H
#define RP_TRAIN_SCORE_H

#include "data/data.h"
#include "models/model.h"
#include "recipe/recipe.h"
#include "tokenizer/tokenizer.h"

typedef struct {
    double loss;                        /* mean of -log p over all targets, in nats */
    int64_t targets, windows;           /* a window of one id is neither scored nor counted */
} rp_score;

/* Called after each window; the last call has done = n_ids. */
typedef void (*rp_score_progress)(void *user, int64_t done, int64_t n_ids);

/* Score ids in evaluation mode and without gradients. Afterwards the mode is as before, and gradients are on. progress may be NULL.
 * errors  RP_ERR_ARG no targets, a window longer than the context, an id outside the vocabulary · RP_ERR_UNSUPPORTED an encoder ·
 *         RP_ERR_NONFINITE · RP_ERR_MEMORY */
rp_status rp__score(rp_model *model, const int32_t *ids, int64_t n_ids, int64_t window, rp_score_progress progress, void *user,
                    rp_score *out);

/* Open `dataset` of a recipe as a run does, with one sample per batch, in the order of the files. The chat template is that of its model.
 * errors  those of rp__chat_load and rp__data_open */
rp_status rp__score_open(rp_ctx *ctx, const rp_recipe *recipe, const rp_model_config *config, rp_tokenizer *tokenizer, rp_data **out);
/* Score the targets of such data, sample by sample. Counts, progress and mode are those of rp__score, with samples as windows.
 * errors  RP_ERR_UNSUPPORTED an encoder · RP_ERR_NONFINITE · RP_ERR_IO · RP_ERR_MEMORY · those of rp__model_loss */
rp_status rp__score_samples(rp_model *model, rp_data *data, int32_t ignore_index, rp_score_progress progress, void *user, rp_score *out);

#endif
