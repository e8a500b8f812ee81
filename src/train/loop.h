/* train/loop.h -- a recipe in motion.
 *
 *   new       checks, data, a rehearsal of the step on shapes, then the pool at its final size, model, optimizer states;
 *             output_dir is made last, when nothing can be refused any more
 *   step      micro-batches forward and backward ─ norm, clipping ─ update ─ validation ─ a line of metrics ─ a state
 *   finish    the last state, and final/
 *
 *   one micro-batch:   batch in ─ rp__pass_begin ─ rp__model_loss (weight 1 / targets of the step) ─ saved_bytes read ─ rp__backward
 *
 * The loss of a step is the sum of its micro-batches' losses in order, as is the gradient. A rehearsal runs the very code of
 * the step, so what it says of memory is what every step of that shape will measure.
 */
#ifndef RP_TRAIN_LOOP_H
#define RP_TRAIN_LOOP_H

#include "base/median.h"
#include "data/data.h"
#include "models/model.h"
#include "rehearse/forecast.h"
#include "train/metrics.h"
#include "train/profile.h"

typedef struct {
    int n_ranks;                        /* that make a step together */
    int64_t n_params;                   /* elements, a tied weight once */
    int64_t n_trained;                  /* of them, those that are not frozen */
    int64_t n_steps;                    /* of the whole run */
    int64_t first_step;                 /* steps done before this trainer: 0 unless a state was resumed */
    rp_data_info data, val;             /* val: all 0 where no validation is scored */
    rp_step_usage rehearsal;             /* of full-length batches */
    int64_t limit, allowance;           /* of the process, 0: none; what of it is not the arena's */
} rp_trainer_info;

/* Threads, seed and memory limit of a recipe, for the context it is to run in. */
rp_ctx_options rp__recipe_ctx_options(const rp_recipe *recipe);

/* Checks the recipe's data. The files must exist. With a tokenizer, up to `most_bytes` of data are read and cut into samples as a run does. Of more
 * data, the first RP_LOOK_OBJECTS JSON objects of as many files are read and dropped (`looked`). Errors are in the report and in the status. If the
 * model's files are missing too, missing data is a note: the recipe is for another machine. */
#define RP_LOOK_OBJECTS 16
typedef struct {
    struct { const char *key; bool read, looked; int64_t n_files, bytes; char text[RP_DATA_TEXT_CHARS], skipped[RP_ERROR_CHARS]; } set[2];
    int n;                              /* 0: the recipe names no data */
    const char *unread;                 /* why it was not read */
} rp_recipe_data;
rp_status rp__recipe_try_data(rp_ctx *ctx, const rp_recipe *recipe, int64_t most_bytes, rp_report *report, rp_recipe_data *out);

/* ---- a sweep: the same over many budgets, with modes as points beside the curve ---- */

typedef struct {
    const char *mode;                   /* NULL: a point of the curve */
    int64_t budget;                     /* of the curve's; reserved keeps to it */
    int64_t reserved, peak, saved, recompute_flops;
    double seconds, recompute_seconds;      /* by the cost table, as in a forecast */
    rp_step_variant variant;
    double step_seconds;                /* measured: the median of its steps … */
    rp_median overhead;                 /* … and of its pairs' ratios, less 1; of mode none 0 */
} rp_sweep_point;

typedef struct {
    rp_sweep_point *point;              /* modes, none first, then the curve from the least budget up; yours to rp__release */
    int n_points, n_modes;
    double base_seconds;                /* of the fastest step without a budget */
    char machine[128];
    bool measured;                      /* the cost table was */
    int pairs;                          /* of steps that were measured at each point; 0: none was */
    int64_t n_steps;                    /* of all of them, those to warm up included */
} rp_sweep;

/* How much longer a point takes than the fastest step without a budget, as a part of that. By the cost table. */
double rp__sweep_overhead(const rp_sweep *sweep, int i);

typedef struct {
    int n;                              /* points of the curve, 2 at least */
    const char *device;                 /* as of a forecast */
    int pairs;                          /* of steps to measure at each point; 0: none */
    void (*told)(void *user, int pair, double seconds_left);    /* after each pair of every point; may be NULL */
    void *user;
} rp_sweep_options;

/* The context as for a forecast. With pairs it has memory, no limit and nothing live; the recipe's steps are run on it, on its data, from its
 * weights, and nothing is written: every point in turn beside mode none, on one batch, with a learning rate of 0. So weights stay what they are, and
 * the two steps of a pair must have one loss and one norm, to the bit; each step must take what was rehearsed, to the byte.
 * errors as of a forecast · RP_ERR_STATE a step that takes something else, or other bits · as of a trainer */
rp_status rp__recipe_sweep(rp_ctx *ctx, const rp_recipe *recipe, const rp_sweep_options *options, rp_report *report, rp_sweep *out);

/* Everything before step 1, or before the step a resume goes on with. The recipe is borrowed until free. Messages of a wrong
 * recipe, all of them, are in the report; nothing is written then. So are notes: which state is resumed, and why a newer one
 * is not.
 * errors  RP_ERR_CONFIG, RP_ERR_MATCH, RP_ERR_FORMAT, RP_ERR_UNSUPPORTED, RP_ERR_EXISTS input · RP_ERR_MEMORY · RP_ERR_IO */
rp_status rp__trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_trainer **out);
void rp__trainer_free(rp_trainer *trainer);

rp_model *rp__trainer_model(rp_trainer *trainer);
const rp_recipe *rp__trainer_recipe(const rp_trainer *trainer);
const rp_trainer_info *rp__trainer_info(const rp_trainer *trainer);
/* Its shard units in a line; NULL: weights are whole. */
const char *rp__trainer_units_text(const rp_trainer *trainer, char out[RP_UNITS_CHARS]);
/* The rules that decide in its steps: the recipe's and its mode's. */
int rp__trainer_n_rules(const rp_trainer *trainer);
int64_t rp__trainer_done(const rp_trainer *trainer);        /* steps done, those before a resume included */

/* One optimizer step with all that is due after it: validation, metrics.jsonl, a state. A failing step leaves parameters
 * and states undefined: the run goes on from its last state.
 * errors  RP_ERR_NONFINITE a loss or a norm; the message names the step and the state kept · RP_ERR_MEMORY · RP_ERR_IO */
rp_status rp__trainer_step(rp_trainer *trainer, rp_metrics *line);

/* Where the time of the profiled steps went, in a line (rp__profile_text); NULL: none was. */
const char *rp__trainer_profile_text(const rp_trainer *trainer, char out[RP_PROFILE_TEXT_CHARS]);

/* What its steps of full-length batches take, events included: by the plan that it has, so nothing is solved again. Close *out whatever this
 * said. errors RP_ERR_MEMORY · as rp__cost_table_open */
rp_status rp__trainer_forecast(rp_trainer *trainer, rp_forecast *out);

/* A state of what was done so far, unless nothing was or there is one already. */
rp_status rp__trainer_save(rp_trainer *trainer);
/* The last state, and final/. */
rp_status rp__trainer_finish(rp_trainer *trainer);

/* Called after each step that is to be shown: every log_every_n_steps, those with a validation, and the last. */
typedef struct {
    void (*step)(void *user, const rp_metrics *line, double seconds_left);
    void *user;
} rp_progress;

/* All of it: steps to the end, then finish. When *stop is not 0 (a signal's number; stop may be NULL) the step is finished and
 * a state saved, and that is RP_ERR_INTERRUPTED: the message says how to go on. `progress` may be NULL. */
rp_status rp__trainer_run(rp_trainer *trainer, const volatile int *stop, const rp_progress *progress);
/* After RP_ERR_INTERRUPTED: the signal that the first rank was stopped by; the same on all ranks. */
int rp__trainer_stopped_by(const rp_trainer *trainer);

#endif
