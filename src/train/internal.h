/* train/internal.h -- the trainer's own structures; only files of train/ and bench/memory.c include this.
 *
 *   loop.c      the trainer: steps, metrics, states, the end
 *   new.c       everything before the first step
 *   inputs.c    tokenizer and data as a recipe names them
 *   shapes.c    steps on batches of other shapes
 *   sweep.c     steps under many budgets
 *   measure.c   the points of a sweep run for real, each paired with a step of mode none
 *   dir.c       output_dir: its contents before the run, config.yaml, final/
 *   resume.c    the state to go on from
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

enum { RP_MOST_SHAPES = 64 };           /* remembered */
typedef struct rp_shape_plans rp_shape_plans;
void rp__shape_plans_free(rp_shape_plans *plans);
/* The engine follows what is planned for the batches of the step that comes: made now, where such have not come before.
 * errors RP_ERR_BUDGET nothing fits · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__trainer_follow_shape(rp_trainer *t);

struct rp_trainer {
    rp_ctx *ctx;
    const rp_recipe *recipe;
    rp_bump texts;
    const char *recipe_text;            /* resolved */
    rp_engine engine;
    rp_tokenizer *tokenizer;            /* NULL: none was found, and none is needed */
    rp_data *data, *val;
    int64_t val_rows;
    rp_plan *steps;                     /* of full-length batches … */
    rp_shape_plans *shapes;             /* … and of those that came besides */
    rp_schedule schedule;
    rp_state_tensor *tensors;           /* all of a state */
    int n_tensors;
    uint64_t frozen_mark;
    const char *base;                   /* the model that adapters go beside; NULL: it has random weights */
    rp_metrics_file *metrics;           /* the first rank's; NULL at others */
    rp_tensorboard *board;              /* as metrics; NULL, too, where it is not asked for */
    rp_profile *profile;                /* NULL: not asked for */
    int32_t stopping;                   /* the signal that a rank was asked to stop by: all do after this step; 0: none */
    int64_t done, state_step;           /* state_step: of the newest state, 0 without one */
    char *state_path;
    int lock;                           /* of output_dir; below 0: not taken, or the first rank's */
    rp_trainer_info info;
};

/* A pool of `reserved` bytes, and on it the model with its weights (a state brings them all itself), and what outlives a step. The config
 * of the source is taken over. */
rp_status rp__trainer_stand(rp_trainer *t, int64_t reserved, rp_model_source *source, bool weights);
/* The tokenizer, where there is one, then dataset and dataset_val. */
rp_status rp__inputs_open(rp_trainer *t, const rp_model_config *config);
/* The model's folder, or the one that its config.json is in, or its .gguf file; yours to rp__release, NULL without memory. */
char *rp__model_folder(rp_ctx *ctx, const rp_recipe *recipe);

/* ---- a sweep, measured ---- */

enum { RP_SWEEP_MODES = 4 };

/* The recipe as point i of a sweep has it: with another mode in place of its own, or with every fate left open that no must takes. */
rp_recipe rp__sweep_recipe(const rp_recipe *recipe, int i);
/* The points of *out run for real: steps[i] is how those of point i run, the rehearsal has made them. */
rp_status rp__sweep_measure(rp_rehearsal *r, rp_plan *const *steps, const rp_sweep_options *options, rp_sweep *out);

/* ---- ranks: alone, all of these do nothing ---- */

/* The ranks are those of the context's communicator. errors RP_ERR_CONFIG the recipe has another number · as rp__ranks_join */
rp_status rp__trainer_join(rp_trainer *t);
/* Everything that fixes a step's calls, bytes and bits is the same at all ranks, weight files included (alike.c).
 * errors RP_ERR_CONFIG what differs · as rp__model_files_marks */
rp_status rp__trainer_alike(rp_trainer *t, const rp_model_source *source, const rp_model_config *config);
/* Sums and greatest over ranks. */
rp_status rp__trainer_share_line(rp_trainer *t, rp_metrics *line);

/* ---- output_dir ---- */

/* From here on it is this run's alone, where it is there. errors RP_ERR_EXISTS it holds a run, and this is no resume · another run has it */
rp_status rp__run_dir_check(rp_trainer *t);
/* Made, config.yaml written, what a resume passes over removed, metrics.jsonl opened. */
rp_status rp__run_dir_begin(rp_trainer *t);
rp_status rp__run_dir_final(rp_trainer *t);

/* The learning rates of a run: how many steps it has, and what they do to the rate. */
rp_schedule rp__recipe_schedule(const rp_recipe *recipe, int64_t steps_per_epoch);

/* ---- resume ---- */

/* The state the recipe asks for, checked against the recipe and the data; NULL: a fresh start. Call after the data is open. */
rp_status rp__resume_find(rp_trainer *t, rp_report *report, rp_state **out);
/* Parameters and optimizer states from it; the trainer stands after its step. */
rp_status rp__resume_load(rp_trainer *t, rp_state *state);

/* ---- frozen weights ---- */

/* The trainer's mark of them: 0 where there are none. All ranks call it. */
rp_status rp__frozen_mark(rp_trainer *t);
/* errors RP_ERR_CONFIG they are others than when the state was written */
rp_status rp__frozen_check(const rp_trainer *t, const rp_state *state);

#endif
