/* train/score.h -- how well a model predicts a text.
 *
 *   ids  0 1 2 3 4 5 6 7 8 9 …        one document, cut every `window` ids; attention and positions begin anew in each
 *       [0 1 2 3][4 5 6 7][8 9]       a window of n ids has n - 1 targets, its last one may be shorter
 */
#ifndef RP_TRAIN_SCORE_H
#define RP_TRAIN_SCORE_H

#include "models/model.h"

typedef struct {
    double loss;                        /* mean of -log p over all targets, in nats */
    int64_t targets, windows;           /* windows of one id are not scored and not counted */
} rp_score;

/* Told after each window, at the end that all n_ids are done; may be NULL. */
typedef void (*rp_score_progress)(void *user, int64_t done, int64_t n_ids);

/* Dropout rests while it runs; the context is left recording.
 * errors  RP_ERR_ARG no targets, a window beyond the context, an id beyond the vocabulary · RP_ERR_NONFINITE · RP_ERR_MEMORY */
rp_status rp__score(rp_model *model, const int32_t *ids, int64_t n_ids, int64_t window, rp_score_progress progress, void *user,
                    rp_score *out);

#endif
