/* train/internal.h -- the structures of the trainer, for the files of train/ and bench/memory.c only.
 *
 *   loop.c      steps, metrics, states, the end of a run
 *   new.c       everything before the first step
 *   inputs.c    the tokenizer and the data of a recipe
 *   sample.c    a sample as text, with its targets
 *   prompts.c   continues the prompts of the recipe after some steps
 *   shapes.c    steps on batches of other shapes
 *   sweep.c     a step under many budgets
 *   measure.c   runs the points of a sweep, each paired with a step of mode none
 *   dir.c       output_dir: its contents before the run, config.yaml, final/
 *   final_gguf.c  final.gguf
 *   best.c      the lowest validation loss: best/, and the early end of a run
 *   resume.c    the state from which a run resumes
 *   frozen.c    the weights that a state does not contain
 *   ranks.c     sums and checks over ranks in a step
 *   alike.c     the properties that all ranks must have in common
 */
#ifndef RP_TRAIN_INTERNAL_H
#define RP_TRAIN_INTERNAL_H

#include "optim/schedule.h"
#include "rehearse/rehearsal.h"
#include "state/state.h"
#include "tokenizer/tokenizer.h"
#include "train/loop.h"
#include "train/profile.h"
#include "train/tensorboard.h"

/* ---- trainer ---- */

enum { RP_MOST_SHAPES = 64 };           /* plans of other shapes that are kept */
typedef struct rp_shape_plans rp_shape_plans;
void rp__shape_plans_free(rp_shape_plans *plans);
/* Make the engine follow the plan for the batches of a step, counted from 0. A plan for a new shape is made now.
 * errors RP_ERR_BUDGET no plan fits · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__trainer_follow_shape(rp_trainer *t, int64_t step);

/* A step from its beginning until the host has read its results. */
typedef struct {
    bool begun;
    rp_status status;                   /* of its beginning; `why` is the message */
    char why[RP_ERROR_CHARS];
    double lr, began, seconds;
    int64_t tokens;
    rp_step_result result;
} rp_running_step;

struct rp_trainer {
    rp_ctx *ctx;
    const rp_recipe *recipe;
    rp_bump texts;
    const char *recipe_text;            /* with all defaults */
    rp_engine engine;
    rp_tokenizer *tokenizer;            /* NULL: not found and not needed */
    rp_data *data, *val;
    int64_t val_rows;
    struct rp_samples *samples;         /* prompts to continue during the run; NULL: none */
    rp_plan *steps;                     /* plan for full-length batches */
    rp_shape_plans *shapes;             /* plans for batches of other shapes */
    rp_schedule schedule;
    rp_state_tensor *tensors;           /* everything that a state contains */
    int n_tensors;
    uint64_t frozen_mark;
    const char *base;                   /* path of the base model of adapters; NULL: its weights are random */
    rp_metrics_file *metrics;           /* first rank only; else NULL */
    rp_tensorboard *board;              /* first rank only, if the recipe asks for it; else NULL */
    rp_profile *profile;                /* NULL: the recipe does not ask for it */
    int32_t stopping;                   /* a signal that one rank received: all ranks stop after this step; 0: none */
    rp_state_best best;                 /* the validations so far, if the recipe needs them */
    int64_t done, state_step;           /* state_step: step of the newest state, 0 without one */
    rp_running_step running[2];         /* the step after `done`, at its number % 2, and the one after that, which a device computes meanwhile */
    double read_at;                     /* when the results of the last step were read */
    char *state_path;                   /* of the newest state */
    int lock;                           /* file descriptor that locks output_dir; negative: not locked by this rank */
    rp_trainer_info info;
};

/* Reserve a pool of `reserved` bytes and build in it the model and everything that outlives a step.
 * weights  true: read or initialise the weights; false: a state will fill them
 * source   its config is moved into the model
 * errors   those of reading the weights · RP_ERR_MEMORY */
rp_status rp__trainer_stand(rp_trainer *t, int64_t reserved, rp_model_source *source, bool weights);
/* ---- prompts that are continued during the run ---- */

/* Encode the prompts of the recipe. chat: messages are written by the template; NULL: prompts are text. Without prompts, nothing is done.
 * The tokenizer must be open. errors RP_ERR_CONFIG an encoder, or a prompt that leaves no room in max_seq_len · those of rp__tokenizer_encode, rp__chat_ask */
rp_status rp__samples_open(rp_trainer *t, const rp_model_config *config, struct rp_chat *chat);
void rp__samples_close(struct rp_samples *samples);
/* For rehearsals: the numbers of tokens. Returns the number of prompts. */
int rp__samples_lengths(const struct rp_samples *samples, const rp_sampled **out);
/* Continue all prompts with the present weights. All ranks must call it. errors those of rp__generate and rp__tokenizer_decode */
rp_status rp__samples_take(rp_trainer *t);
/* The texts taken last. Prompt i and its continuation, which is UTF-8; all of them as a JSON array; borrowed until the next take. */
const char *rp__samples_text(const struct rp_samples *samples, int i);
const char *rp__samples_json(const struct rp_samples *samples);

/* Render the first sample of the data. tokenizer NULL: its ids. errors RP_ERR_IO · RP_ERR_MEMORY · those of rp__tokenizer_decode */
rp_status rp__sample_render(rp_ctx *ctx, rp_data *data, rp_tokenizer *tokenizer, int64_t max_seq_len, rp_sample *out);
/* Open the tokenizer, if there is one, then dataset and dataset_val. */
rp_status rp__inputs_open(rp_trainer *t, const rp_model_config *config);
/* The folder of the model, the folder of its config.json, or its .gguf file; yours to rp__release. NULL after RP_ERR_MEMORY. */
char *rp__model_folder(rp_ctx *ctx, const rp_recipe *recipe);

/* ---- a sweep, measured ---- */

enum { RP_SWEEP_MODES = 4 };

/* The recipe of point i of a sweep: with mode i, or, from RP_SWEEP_MODES on, with every fate open that no must decides. */
rp_recipe rp__sweep_recipe(const rp_recipe *recipe, int i);
/* Run the points of *out and fill in their times. steps[i] is the plan of point i, made on the rehearsal r. */
rp_status rp__sweep_measure(rp_rehearsal *r, rp_plan *const *steps, const rp_sweep_options *options, rp_sweep *out);

/* ---- ranks: with one rank, these do nothing ---- */

/* Join the ranks of the context's communicator. errors RP_ERR_CONFIG the recipe has another number of ranks · those of rp__ranks_join */
rp_status rp__trainer_join(rp_trainer *t);
/* Check that everything that determines the calls, bytes and bits of a step is the same at all ranks, weight files included (alike.c).
 * errors RP_ERR_CONFIG names the difference · those of rp__model_files_marks */
rp_status rp__trainer_alike(rp_trainer *t, const rp_model_source *source, const rp_model_config *config);
/* Combine the metrics of all ranks: sums or maxima. */
rp_status rp__trainer_share_line(rp_trainer *t, rp_metrics *line);

/* ---- output_dir ---- */

/* Check output_dir and the folder for offloading, and lock output_dir if it exists. Errors are in the report and in the status.
 * errors RP_ERR_EXISTS output_dir contains a run and this is no resume, or another run uses it · RP_ERR_CONFIG a folder cannot be written */
rp_status rp__run_dir_check(rp_trainer *t, rp_report *report);
/* Create output_dir, write config.yaml and plan.json, remove states after the resumed step, open metrics.jsonl and the event file. */
rp_status rp__run_dir_begin(rp_trainer *t);
/* Write the model to the folder `name` of output_dir, "final" or "best". A complete folder of that name is replaced at once. All ranks must call it. */
rp_status rp__run_dir_model(rp_trainer *t, const char *name);
/* With `final_format: gguf`, write output_dir/final.gguf from final/. It appears when it is complete. All ranks must call it.
 * errors as rp__gguf_opened_open and rp__gguf_export */
rp_status rp__run_dir_gguf(rp_trainer *t);

/* The learning-rate schedule of a run, with its number of steps. */
rp_schedule rp__recipe_schedule(const rp_recipe *recipe, int64_t steps_per_epoch);

/* ---- the best validation ---- */

/* Take over the validations of a state or of none: set the figures of t->info, and end the run if it has stopped early. */
void rp__best_set(rp_trainer *t, const rp_state_best *best);
/* Note the validation loss of a step, which is the same on all ranks. If the recipe keeps the best and the loss is the lowest, write best/. */
rp_status rp__best_validated(rp_trainer *t, int64_t step, double loss);
/* Does the recipe need the validations so far? / Have too many of them passed without a lower loss? */
bool rp__best_is_wanted(const rp_recipe *recipe);
bool rp__best_is_over(const rp_recipe *recipe, const rp_state_best *best);

/* ---- resume ---- */

/* Open the state that the recipe asks for and check it against the recipe and the data. *out NULL: a fresh start. Open the data first. */
rp_status rp__resume_find(rp_trainer *t, rp_report *report, rp_state **out);
/* Load parameters and optimizer states; the run continues after the step of the state. */
rp_status rp__resume_load(rp_trainer *t, rp_state *state);

/* ---- frozen weights ---- */

/* Set t->frozen_mark; it stays 0 without frozen weights. All ranks must call it. */
rp_status rp__frozen_mark(rp_trainer *t);
/* errors RP_ERR_CONFIG the frozen weights differ from those of the run that wrote the state */
rp_status rp__frozen_check(const rp_trainer *t, const rp_state *state);

#endif
