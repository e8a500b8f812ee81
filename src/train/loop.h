/* train/loop.h -- the trainer: a training run of a recipe.
 *
 *   new       checks, data, a rehearsal of the step on shapes, then the pool at its final size, the model, optimizer states;
 *             output_dir is created last, when no check can fail any more
 *   step      micro-batches forward and backward ─ norm, clipping ─ update ─ validation, prompts ─ a line of metrics ─ best/ ─ a state
 *   finish    the last state, and final/
 *
 *   one micro-batch:   batch in ─ rp__pass_begin ─ rp__model_loss (weight 1 / targets of the step) ─ saved_bytes read ─ rp__backward
 *
 * The loss of a step is the sum of the losses of its micro-batches in order, and so is the gradient. A rehearsal runs the same code as
 * the step. So its memory figures are those of every step of that shape.
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
    int n_ranks;                        /* ranks of the run */
    int64_t n_params;                   /* elements of all parameters; a tied weight counts once */
    int64_t n_trained;                  /* elements that are not frozen */
    int64_t n_quantised, quantised_bytes;   /* elements that are stored quantised, and their bytes */
    int64_t mapped_bytes;               /* of weights that stay in the model's files */
    const char *device;                 /* a GPU, its driver and how much of its memory others hold; NULL: the host computes */
    int64_t n_steps;                    /* of the whole run; once it has stopped early, the steps done */
    bool stopped_early;                 /* by `early_stopping` */
    int64_t best_step;                  /* of the lowest validation loss, if the recipe keeps it or stops early; 0: none yet … */
    double best_loss;                   /* … and that loss */
    int64_t first_step;                 /* steps done before this trainer: 0 unless a state was resumed */
    rp_data_info data, val;             /* val: all 0 without validation */
    rp_step_usage rehearsal;             /* a step on full-length batches */
    int64_t limit, allowance;           /* memory_limit of the process, 0: none; the part of it that is not for the arena */
} rp_trainer_info;

/* The options of a context for this recipe: threads, seed and memory limit. */
rp_ctx_options rp__recipe_ctx_options(const rp_recipe *recipe);
/* The recipe's device for rp_ctx_options; NULL: the CPU. */
const char *rp__recipe_device(const rp_recipe *recipe);

/* Check the recipe's data. The files must exist. With a tokenizer, up to `most_bytes` of data are read and cut into samples as a run does. If there is
 * more data, the first RP_LOOK_OBJECTS JSON objects of as many files are read and dropped (`looked`). Errors are in the report and in the status.
 * If the model's files are missing, too, missing data is a note: the recipe is for another machine. If the report has errors already, errors of the
 * model are not added again. */
#define RP_LOOK_OBJECTS 16
#define RP_LOOK_BYTES (INT64_C(16) << 20)       /* data up to this size takes a few seconds */
/* The first sample of the data, in stretches of targets and of masked tokens, which are no targets. A text is cut in its middle, at RP_SAMPLE_CHARS. */
enum { RP_SAMPLE_SPANS = 8, RP_SAMPLE_CHARS = 240 };
typedef struct {
    int64_t tokens, targets, more;      /* more: stretches after the last one */
    int n;                              /* 0: the data was not read */
    bool hidden;                        /* targets are tokens that may be hidden */
    struct { bool target; int64_t tokens; char text[RP_SAMPLE_CHARS]; } span[RP_SAMPLE_SPANS];     /* of any characters, on one line */
} rp_sample;
typedef struct {
    rp_sample sample;
    struct { const char *key; bool read, looked; int64_t n_files, bytes; char text[RP_DATA_TEXT_CHARS], skipped[RP_ERROR_CHARS]; } set[2];
    int n;                              /* number of sets; 0: the recipe names no data */
    const char *unread;                 /* why the data was not read; NULL: it was */
} rp_recipe_data;
rp_status rp__recipe_try_data(rp_ctx *ctx, const rp_recipe *recipe, int64_t most_bytes, rp_report *report, rp_recipe_data *out);
/* Check output_dir and the folder for offloading as a run does, but lock nothing. Errors are in the report and in the status. */
rp_status rp__recipe_check_folders(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report);

/* ---- a sweep: the same step under many budgets, and the usual modes for comparison ---- */

typedef struct {
    const char *mode;                   /* NULL: a point of the curve */
    int64_t budget;                     /* a point of the curve: reserved does not exceed it */
    int64_t reserved, peak, saved, recompute_flops;
    double seconds, recompute_seconds;      /* predicted from the cost table, as in a forecast */
    rp_step_variant variant;
    double step_seconds;                /* measured: median of its steps */
    rp_median overhead;                 /* measured: median of the ratios of its pairs, minus 1; 0 for mode none */
} rp_sweep_point;

typedef struct {
    rp_sweep_point *point;              /* modes, none first, then the curve by rising budget; yours to rp__release */
    int n_points, n_modes;
    double base_seconds;                /* fastest step without a budget */
    char machine[128];
    bool measured;                      /* the cost table was measured on this machine */
    int pairs;                          /* measured pairs of steps at each point; 0: nothing was measured */
    int64_t n_steps;                    /* steps run in all, warm-up included */
} rp_sweep;

/* The overhead of a point over the fastest step without a budget, as a fraction of that step; predicted from the cost table. */
double rp__sweep_overhead(const rp_sweep *sweep, int i);

typedef struct {
    int n;                              /* points of the curve, at least 2 */
    const char *device;                 /* as in a forecast */
    int pairs;                          /* pairs of steps to measure at each point; 0: measure nothing */
    void (*measured)(void *user, int pair, double seconds_left);    /* called when every point has one more pair; may be NULL */
    void *user;
} rp_sweep_options;

/* Plan the recipe's step under many budgets and, with options->pairs, measure each plan. The context is as for a forecast. To measure, it needs
 * memory, no limit, and nothing live on it. Steps then run on the data and weights of the recipe, and no file is written. Each pair is a step of a
 * point and a step of mode none on the same batch, with a learning rate of 0, so weights do not change.
 * errors  those of a forecast · RP_ERR_STATE a step takes other bytes than rehearsed, or the loss or gradient norm of a pair differ in a bit ·
 *         those of rp__trainer_new and rp__trainer_step */
rp_status rp__recipe_sweep(rp_ctx *ctx, const rp_recipe *recipe, const rp_sweep_options *options, rp_report *report, rp_sweep *out);

/* Prepare the first step, or the next step of a resumed run. The recipe is borrowed until rp__trainer_free. All errors of the recipe are put into
 * the report; nothing is written then. Notes are put there, too: which state is resumed, and why a newer one is skipped.
 * errors  RP_ERR_CONFIG, RP_ERR_MATCH, RP_ERR_FORMAT, RP_ERR_UNSUPPORTED, RP_ERR_SHAPE, RP_ERR_EXISTS wrong recipe or files · RP_ERR_BUDGET no plan
 *         fits · RP_ERR_MEMORY · RP_ERR_IO · RP_ERR_BACKEND */
rp_status rp__trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_trainer **out);
void rp__trainer_free(rp_trainer *trainer);

rp_model *rp__trainer_model(rp_trainer *trainer);
const rp_recipe *rp__trainer_recipe(const rp_trainer *trainer);
const rp_trainer_info *rp__trainer_info(const rp_trainer *trainer);
/* The shard units in one line; NULL: weights are not sharded. */
const char *rp__trainer_units_text(const rp_trainer *trainer, char out[RP_UNITS_CHARS]);
/* The number of rules that decide fates: those of the recipe and of its mode. */
int rp__trainer_n_rules(const rp_trainer *trainer);
int64_t rp__trainer_done(const rp_trainer *trainer);        /* steps done, including those before a resume */

/* Run one optimizer step and everything due after it: validation, metrics.jsonl, best/, a state. After an error parameters and optimizer states are
 * undefined; resume from the last state.
 * errors  RP_ERR_STATE all steps are done · RP_ERR_NONFINITE loss or gradient norm; the message names the step and the state that is kept ·
 *         RP_ERR_BUDGET no plan fits a new shape · RP_ERR_MEMORY · RP_ERR_IO · RP_ERR_BACKEND */
rp_status rp__trainer_step(rp_trainer *trainer, rp_metrics *line);

/* Where the time of the profiled steps went, in one line (rp__profile_text); NULL: no step was profiled. */
const char *rp__trainer_profile_text(const rp_trainer *trainer, char out[RP_PROFILE_TEXT_CHARS]);

/* Forecast the step on full-length batches, events included, from the existing plan without solving. Close *out even after an error.
 * errors RP_ERR_MEMORY · those of rp__cost_table_open */
rp_status rp__trainer_forecast(rp_trainer *trainer, rp_forecast *out);

/* Save a state, unless no step was done or the last step is saved already. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__trainer_save(rp_trainer *trainer);
/* Save the last state and write final/. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__trainer_finish(rp_trainer *trainer);

/* step is called after each step to be shown: every log_every_n_steps, every step with a validation, and the last. sample is called after it for each
 * prompt that the step continued; may be NULL. */
typedef struct {
    void (*step)(void *user, const rp_metrics *line, double seconds_left);
    void (*sample)(void *user, int64_t step, const char *prompt, const char *text);
    void *user;
} rp_progress;

/* Run all steps, then finish. If *stop becomes a signal number, the running step is finished and a state saved. `stop` and `progress` may be NULL.
 * errors  RP_ERR_INTERRUPTED stopped by *stop; the message says how to resume · those of rp__trainer_step and rp__trainer_finish */
rp_status rp__trainer_run(rp_trainer *trainer, const volatile int *stop, const rp_progress *progress);
/* After RP_ERR_INTERRUPTED: the number of the signal; the same on all ranks. */
int rp__trainer_stopped_by(const rp_trainer *trainer);

#endif
