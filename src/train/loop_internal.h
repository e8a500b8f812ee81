/* train/loop_internal.h -- the trainer's own structures; only loop*.c and bench/memory.c include this.
 *
 *   loop.c         the trainer: steps, metrics, states, the end
 *   loop_new.c     everything before the first step
 *   loop_rehearsal.c  the engine on shapes: opened, begun again, and a recipe's names held against its model
 *   loop_settle.c  how a recipe's steps are to run, rehearsed; what is said where nothing fits
 *   loop_plan.c    how a step runs: what is kept, and where every buffer is
 *   loop_shapes.c  steps on batches of other shapes
 *   loop_sweep.c   the same over many budgets
 *   loop_measure.c the points of a sweep run for real, beside mode none
 *   loop_forecast.c  what steps will take, told to those who only ask
 *   loop_plan_file.c  how steps run, as a file
 *   loop_find.c    the fastest of many settings, told to the same
 *   loop_remedies.c  what would take less, where nothing fits
 *   loop_explain.c what other rules would do
 *   loop_inputs.c  model config, tokenizer and data as a recipe names them
 *   loop_engine.c  the engine: what a step needs, opened and closed
 *   loop_step.c    one optimizer step, one score; the same on shapes and on data
 *   loop_time.c    what a rehearsed step takes, by the cost table
 *   loop_dir.c     output_dir: what is there already, config.yaml, final/
 *   loop_resume.c  the state to go on from
 *   loop_frozen.c  the weights that a state does not have
 *   loop_ranks.c   who takes part, and what ranks tell each other of a step
 *   loop_alike.c   what ranks must have in common
 */
#ifndef RP_TRAIN_LOOP_INTERNAL_H
#define RP_TRAIN_LOOP_INTERNAL_H

#include "models/weights.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "plan/explain.h"
#include "plan/overlap.h"
#include "plan/plan_file.h"
#include "plan/step.h"
#include "policy/stack.h"
#include "shard/gather.h"
#include "shard/ranks.h"
#include "state/state.h"
#include "tokenizer/tokenizer.h"
#include "train/loop.h"
#include "train/profile.h"
#include "train/tensorboard.h"

/* ---- how a step runs: plan/step.h ---- */

/* As a file, with the resolved recipe. */
rp_status rp__step_plan_write(rp_ctx *ctx, const rp_plan *plan, const rp_recipe *recipe, const char *recipe_text, const char *path);
/* All of the recipe that decides what an update holds beside the weights. */
enum { RP_OPTIMIZER_CHARS = 96 };
const char *rp__optimizer_text(const rp_recipe *recipe, char out[RP_OPTIMIZER_CHARS]);
/* Does a budget decide what is kept? */
bool rp__recipe_leaves_open(const rp_recipe *recipe);
/* How its steps run where no plan says otherwise. */
rp_step_variant rp__recipe_variant(const rp_recipe *recipe);

/* ---- engine: what a step needs and nothing else ---- */

typedef struct { int64_t rows, length; } rp_micro_shape;

typedef struct {                        /* what a step's calls take by the machine's cost table */
    const rp_cost_table *costs;
    double seconds, recompute_seconds;      /* forward, backward and update · replays */
    double forward_seconds, update_seconds;     /* of `seconds` */
    double comm_seconds, comm_recompute_seconds;    /* of both, in talk with other ranks; of replays alone */
    int64_t state_bytes;                /* of optimizer states that an update reads from disk, and writes back … */
    double state_seconds;               /* … and what it takes longer for that */
    double *keep;                       /* of each call of the running pass, keeping what it makes (plan/keep.h); to be released */
    rp_overlap *overlap;                  /* what of it runs beside something else is told here; NULL: nothing does */
    int64_t comm_bytes;                 /* that a rank sends, replays included */
} rp_step_time;

typedef struct {
    rp_ctx *ctx;
    const rp_recipe *recipe;
    rp_model *model;
    rp_optim *optim;
    rp_optim_step update;               /* of the running step; the hook of backward reads it */
    rp_selection selection;             /* regions, and the policy that decides in a step */
    bool offloads;                      /* it has told the context where to */
    rp_units units;                     /* of a sharded run: what is gathered together … */
    rp_gather *gather;                  /* … around forwards; NULL: weights are whole */
    rp_explain *explain;                /* looks at the slots when a forward ends; may be NULL */
    rp_plan *follow;                    /* how its steps run; NULL: fates are the recipe's, addresses the pool's */
    rp_step_variant variant;                    /* of its steps, unless what it follows has one */
    rp_step_time *time;                 /* is added to; may be NULL */
    const rp_micro_shape *micro;        /* of each micro-batch of a rehearsal; NULL: of full length */
} rp_engine;

typedef struct {
    double loss, grad_norm;
    int64_t saved_bytes;
    rp_mem memory;                      /* peaks of this step */
    rp_tape_stats work;
} rp_step_result;

/* The model with its regions, parameters still undefined; the config is taken over. Then, with parameters filled, whatever
 * else outlives a step: rope tables and the optimizer. errors as rp__model_build, rp__optim_new. An engine is closed whatever open said. */
rp_status rp__engine_open(rp_engine *e, rp_ctx *ctx, const rp_recipe *recipe, rp_model_config *config);
rp_status rp__engine_ready(rp_engine *e);
/* Other fates, or another optimizer, of a recipe that leaves all else as it is: in place of what is there. errors as open · as ready */
rp_status rp__engine_choose(rp_engine *e, const rp_recipe *recipe);
rp_status rp__engine_states(rp_engine *e);
/* What its keys say about shard units. */
rp_unit_rules rp__recipe_unit_rules(const rp_recipe *recipe);
/* The model's regions are those of e->selection; another one may have been put there. */
void rp__engine_regions(rp_engine *e);
void rp__engine_close(rp_engine *e);
int rp__engine_n_rules(const rp_engine *e);

/* What a rehearsal notes of a step. */
static inline rp_step_usage rp__step_usage(const rp_step_result *r)
{
    return (rp_step_usage){ r->memory, r->saved_bytes, r->work.step_flops, r->work.recompute_flops, r->work.offloaded_bytes };
}

/* One optimizer step, counted from 0. data NULL: a rehearsal, on batches of full length.
 * errors  RP_ERR_NONFINITE before the update where that can be known, "loss of step 7 is nan" */
rp_status rp__engine_step(rp_engine *e, rp_data *data, int64_t step, double lr, rp_step_result *out);
/* Sum of -log p over the batch's targets, over `targets`. Of a batch without data: its shape alone (loop_batch.c). */
rp_status rp__batch_loss(rp_engine *e, const rp_data_batch *batch, int64_t targets, rp_tensor **loss);
/* Where e->time is wanted: before a step and after it; after a forward; after the update (loop_time.c). */
void rp__time_begin(rp_engine *e);
void rp__time_end(rp_engine *e);
rp_status rp__time_forward(rp_engine *e);      /* errors RP_ERR_MEMORY */
void rp__time_update(rp_engine *e);
/* Mean loss over all targets, in evaluation mode, in batches of `rows`; NaN where there are no targets. data NULL: one batch. */
rp_status rp__engine_score(rp_engine *e, rp_data *data, int64_t rows, double *loss);

/* ---- inputs ---- */

typedef struct {
    rp_model_config config;
    rp_model_files *files;              /* NULL: fresh weights */
} rp_model_source;

/* Wrong values are in the report as well as in the status. */
rp_status rp__source_open(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_model_source *out);
void rp__source_close(rp_model_source *source);
/* The adapters of the recipe are those of the config. errors RP_ERR_CONFIG both have some */
rp_status rp__source_adapt(rp_ctx *ctx, const rp_recipe *recipe, rp_model_config *config);
/* A second owner of the config, to build a second model from. */
rp_model_config rp__config_share(const rp_model_config *config);

/* ---- rehearsal: steps on shapes alone ----
 *
 *   open ─ check_names ─ plan or settle ─ begin, for another recipe ─ plan … ─ close
 *
 * Close it whatever open said. What runs on it counts for fault injection as if it ran on the caller's own context, and fails with its message. */

typedef struct {
    rp_ctx *caller, *ctx;               /* ctx: the rehearsal's own */
    int64_t told;                       /* errors of the caller's own, when the rehearsal's context was entered */
    const rp_recipe *recipe;            /* the caller's, or `changed` */
    rp_recipe changed;
    rp_model_source source;
    rp_engine engine;                   /* between steps its weights and states are live, and nothing else is */
    rp_explain *explain, own_explain;   /* of the step that is followed: the caller's, or for messages alone */
    const rp_micro_shape *micro;        /* the shape to rehearse; NULL: batches of full length */
    const char *device;                 /* another machine to reckon time for; NULL: this one */
    rp_cost_table *costs;               /* opened when first asked for */
    int64_t n_params, val_rows;
    int64_t limit;                      /* of the process; 0: none … */
    rp_allowance allowance;             /* … and what it leaves to others than the arena */
    int64_t budget, own_bytes;          /* 0: none · the arena of the recipe's own fates */
    double keep_all_seconds;            /* of these, where they keep all; else 0 */
    bool own_keeps_all;                 /* it is known that they recompute and offload nothing, since it was begun */
    rp_question question[RP_STEP_VARIANTS];     /* those that have been asked since it was begun, by variant … */
    rp_overlap_base base[RP_STEP_VARIANTS];      /* … and the time of a step without replays, whatever its fates are; seconds 0: none has been run */
    bool wants_least;                   /* who settles asks for the least, too */
    rp_plan *least;                     /* its arena alone counts; NULL: not found */
    rp_plan *steps;                     /* how steps run; NULL until they are settled */
    double solve_seconds;
    bool wants_remedies;                /* where nothing fits */
    rp_remedy remedy[RP_MOST_REMEDIES];
    int n_remedies;
} rp_rehearsal;

/* The recipe's model, its regions and rules. explain: of the step that is settled on; closed before the rehearsal, NULL: nobody asks. */
rp_status rp__rehearsal_open(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_rehearsal *out);
/* For a model that stands already. */
rp_status rp__rehearsal_open_like(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, const rp_model_config *config, rp_rehearsal *out);
void rp__rehearsal_close(rp_rehearsal *r);
/* Names that the model does not know are errors in the report. */
rp_status rp__rehearsal_check_names(rp_rehearsal *r, rp_report *report);

/* Begin again, for a recipe that differs from the one before in no more than this. A copy of it is kept. Nobody's explanation survives a new model. */
typedef enum {
    RP_ANEW_FATES,                      /* activation_checkpointing but for offload, memory_budget, batches, loss, variants */
    RP_ANEW_STATES,                     /* the optimizer, and where its states are, too */
    RP_ANEW_MODEL,                      /* anything but the model's config: it is built again, in a new context */
} rp_anew;
rp_status rp__rehearsal_begin(rp_rehearsal *r, const rp_recipe *recipe, rp_anew anew);
/* With the fates left open that the recipe's mode and conditions decide: its rules alone stand. */
rp_status rp__rehearsal_begin_open(rp_rehearsal *r);
/* Before anything runs on it: states and cost table are there; and what it came to, told the caller. errors as rp__engine_ready, rp__cost_table_open */
rp_status rp__rehearsal_ready(rp_rehearsal *r);
rp_status rp__rehearsal_end(rp_rehearsal *r, rp_status status);
/* Close the questions that plans are made of: they may be large. */
void rp__rehearsal_forget(rp_rehearsal *r);

/* Its budget, of the keys memory_budget and memory_limit: the smaller one where both are set. */
void rp__rehearsal_bound(rp_rehearsal *r);
/* What is kept and where, for steps of full-length batches, within `budget` bytes (0: none). *out is the caller's; NULL: nothing fits.
 * own_bytes: of the arena with the recipe's own fates. */
rp_status rp__rehearsal_plan(rp_rehearsal *r, int64_t budget, rp_plan **out, int64_t *own_bytes);
/* The same with a small arena, found quickly, whatever the recipe's budget and mode; with the least arena that a plan can have. */
rp_status rp__rehearsal_small(rp_rehearsal *r, rp_plan **out);
rp_status rp__rehearsal_least(rp_rehearsal *r, rp_plan **out);
/* With the recipe's own fates, in its own variant; in the fastest variant that it leaves open. */
rp_status rp__rehearsal_own(rp_rehearsal *r, rp_plan **out);
rp_status rp__rehearsal_own_fastest(rp_rehearsal *r, rp_plan **out);
/* How steps run at n budgets, from the least (its arena may need a little more) to what keeping everything takes. The longest stretch of the curve
 * is halved until there are n, its length told in parts of all bytes and of all seconds: steps[] of NULLs is
 * filled and the caller's, whatever the status. */
rp_status rp__rehearsal_curve(rp_rehearsal *r, rp_plan **steps, int n);

/* Plan for the recipe's budget, find the least where that is wanted, and run the step as planned, explained, then a score of val_rows rows (0: none): r->steps, NULL where nothing fits. */
rp_status rp__rehearsal_settle(rp_rehearsal *r, int64_t val_rows);
/* The same. Rules that decide nothing, and keys of ranks where there is one, are notes.
 * errors  RP_ERR_BUDGET nothing fits: the least budget is named, r->steps is its plan and explained */
rp_status rp__rehearsal_rehearse(rp_rehearsal *r, int64_t val_rows, rp_report *report);
/* Run r->steps, which was planned on another one. */
rp_status rp__rehearsal_show(rp_rehearsal *r);
/* Changes of the recipe that take less than r->steps, its least plan; that which saves most first. opens: the recipe's own mode is not auto, which
 * each of them takes, too. *n <= RP_MOST_REMEDIES. errors RP_ERR_MEMORY */
rp_status rp__rehearsal_find_remedies(rp_rehearsal *r, bool opens, rp_remedy *out, int *n);
/* Those of them that make weights, gradients or states smaller and apply to the recipe, by their keys: ", or take 'a', 'b' or 'c'", or "". */
enum { RP_HINTS_CHARS = 160 };
const char *rp__recipe_hints(const rp_recipe *recipe, char out[RP_HINTS_CHARS]);
/* Rules that would recompute what is kept, each tried in a step: they are the explanation's trials. */
rp_status rp__rehearsal_try_rules(rp_rehearsal *r);

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
/* Everything that fixes a step's calls, bytes and bits is the same at all ranks, weight files included (loop_alike.c).
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
