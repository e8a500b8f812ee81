/* train/loop.h -- a recipe in motion.
 *
 *   new       model, data, optimizer states, regions; a rehearsal of one step on shapes sets the pool's final size;
 *             output_dir is made last, when nothing can be refused any more
 *   step      micro-batches forward and backward ─ norm, clipping ─ update ─ validation ─ a line of metrics ─ a state
 *   finish    final/ and the last state
 *
 *   one micro-batch:   batch in ─ rp__pass_begin ─ rp__model_loss (weight 1 / targets of the step) ─ saved_bytes read ─ rp__backward
 *
 * The loss of a step is the sum of its micro-batches' losses in order, as is the gradient.
 */
#ifndef RP_TRAIN_LOOP_H
#define RP_TRAIN_LOOP_H

#include "models/model.h"
#include "train/metrics.h"
#include "train/recipe.h"

/* Threads, seed and memory limit of a recipe, for the context it is to run in. */
rp_ctx_options rp__recipe_ctx_options(const rp_recipe *recipe);

/* Everything before step 1, or before the step a resume goes on with. The recipe is borrowed until free. Messages of a wrong
 * recipe, all of them, are in the report; nothing is written then.
 * errors  RP_ERR_CONFIG, RP_ERR_MATCH, RP_ERR_FORMAT, RP_ERR_UNSUPPORTED input · RP_ERR_MEMORY · RP_ERR_IO */
rp_status rp__trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_trainer **out);
void rp__trainer_free(rp_trainer *trainer);

rp_model *rp__trainer_model(rp_trainer *trainer);
int64_t rp__trainer_steps(const rp_trainer *trainer);       /* of the whole run */
int64_t rp__trainer_done(const rp_trainer *trainer);        /* steps done, those before a resume included */

/* One optimizer step with all that is due after it: validation, metrics.jsonl, a state. A failing step leaves parameters
 * and states undefined: the run goes on from its last state.
 * errors  RP_ERR_NUMERIC (or the status for it) a loss that is not finite; the message names the step and the state kept */
rp_status rp__trainer_step(rp_trainer *trainer, rp_metrics *line);

/* A state of what was done so far, unless there is one already. */
rp_status rp__trainer_save(rp_trainer *trainer);
/* The last state, and final/. */
rp_status rp__trainer_finish(rp_trainer *trainer);

/* All of it: steps until the end or until *stop is not 0 (a signal's number: the step is finished and the state saved).
 * `progress` may be NULL. */
rp_status rp__trainer_run(rp_trainer *trainer, const volatile int *stop, const rp_progress *progress);

#endif
