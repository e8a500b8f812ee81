/* train/loop_inside.h -- the trainer's own structures; only loop*.c and bench/memory.c include this.
 *
 *   loop.c         the trainer: steps, metrics, states, the end
 *   loop_new.c     everything before the first step
 *   loop_stage.c   the engine on shapes: a recipe held against its model, the rehearsal
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
#ifndef RP_TRAIN_LOOP_INSIDE_H
#define RP_TRAIN_LOOP_INSIDE_H

#include "io/tokenizer.h"
#include "models/weights.h"
#include "plan/beside.h"
#include "plan/explain.h"
#include "plan/plan_file.h"
#include "plan/step.h"
#include "policy/stack.h"
#include "shard/gather.h"
#include "shard/ranks.h"
#include "train/loop.h"
#include "train/optim.h"
#include "train/profile.h"
#include "train/schedule.h"
#include "train/state.h"
#include "train/tensorboard.h"

/* ---- how a step runs: plan/step.h ---- */

/* As a file, with the resolved recipe. */
rp_status rp__step_plan_write(rp_ctx *ctx, const rp_step_plan *plan, const rp_recipe *recipe, const char *recipe_text, const char *path);
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
    double seconds, again_seconds;      /* forward, backward and update · replays */
    double forward_seconds, update_seconds;     /* of `seconds` */
    double comm_seconds, comm_again_seconds;    /* of both, in talk with other ranks; of replays alone */
    int64_t state_bytes;                /* of optimizer states that an update reads from disk, and writes back … */
    double state_seconds;               /* … and what it takes longer for that */
    double *keep;                       /* of each call of the running pass, keeping what it makes (plan/keep.h); to be released */
    rp_beside *beside;                  /* what of it runs beside something else is told here; NULL: nothing does */
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
    const rp_step_plan *follow;         /* how its steps run; NULL: fates are the recipe's, addresses the pool's */
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
/* What its keys say about shard units. */
rp_unit_rules rp__recipe_unit_rules(const rp_recipe *recipe);
/* The model's regions are those of e->selection; another one may have been put there. */
void rp__engine_regions(rp_engine *e);
void rp__engine_close(rp_engine *e);
int rp__engine_n_rules(const rp_engine *e);

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

/* ---- stage: the same on shapes alone ---- */

typedef struct {
    rp_ctx *caller, *ctx;               /* ctx: the stage's own */
    const rp_recipe *recipe;
    rp_model_source source;
    rp_engine engine;
    rp_explain *explain;
    int64_t n_params, val_rows;
    int64_t limit;                      /* of the process; 0: none … */
    rp_allowance allowance;             /* … and what it leaves to others than the arena */
    int64_t budget, own_bytes;          /* 0: none · the arena of the recipe's own fates */
    double keep_all_seconds;            /* of these, where they keep all; else 0 */
    bool own_keeps_all;                 /* it is known that they recompute and offload nothing, in the context of now */
    bool wants_least;                   /* a plan for a budget is to find the least, too: with it, unless a variant does not fit */
    rp_step_plan *least;                /* its arena alone counts; NULL: not found */
    rp_step_plan *steps;                /* how steps run; NULL until the rehearsal */
    const char *device;                 /* another machine to reckon time for; NULL: this one */
    rp_cost_table *costs;               /* opened when first asked for */
    double solve_seconds;
    bool wants_remedies;                /* where nothing fits */
    rp_remedy remedy[RP_MOST_REMEDIES];
    int n_remedies;
    const rp_micro_shape *micro;        /* the shape to rehearse; NULL: batches of full length */
    rp_step_plan **curve;               /* of a sweep: n_curve of them */
    int n_curve;
    rp_recipe open;                     /* the recipe once more, with every fate left open that no must takes */
} rp_stage;

/* The recipe's model, its regions and rules. A stage is closed whatever open said. */
rp_status rp__stage_open(rp_ctx *caller, const rp_recipe *recipe, rp_report *report, rp_stage *out);
void rp__stage_close(rp_stage *stage);
/* Names that the model does not know are errors in the report. */
rp_status rp__stage_check_names(rp_stage *stage, rp_report *report);
/* The stage's budget, of the keys memory_budget and memory_limit: the smaller one where both are set. */
void rp__stage_bound(rp_stage *stage);
/* Find how a step is to run and what it takes, with a validation in batches of val_rows (0: none) after it. Rules that decide nothing, and
 * keys of ranks where there is one, are notes.
 * errors  RP_ERR_BUDGET nothing fits the context's limit, where the recipe has a budget: the least budget is named */
rp_status rp__stage_rehearse(rp_stage *stage, int64_t val_rows, rp_explain *explain, rp_report *report);
/* Open, check and rehearse, for those who only ask. Close it whatever this said. */
rp_status rp__stage_try(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_stage *out);
/* A new context in place of the stage's, for the same model: nothing is live on it, and who explains observes it from here on. */
rp_status rp__stage_renew(rp_stage *stage, rp_explain *explain);
/* The same with the fates left open that the recipe's mode and conditions decide: its rules alone stand. */
rp_status rp__stage_renew_open(rp_stage *stage, rp_explain *explain);
/* What is kept and where, for steps of full-length batches, within `budget` bytes (0: none). *out is the caller's; NULL: nothing fits.
 * own_bytes: of the arena with the recipe's own fates. */
rp_status rp__stage_plan(rp_stage *stage, int64_t budget, rp_step_plan **out, int64_t *own_bytes);
/* The same with a small arena, found quickly, whatever the recipe's budget and mode. */
rp_status rp__stage_small(rp_stage *stage, rp_step_plan **out);
/* The same with the least arena that a plan can have, whatever the recipe's budget and mode. */
rp_status rp__stage_least(rp_stage *stage, rp_step_plan **out);
/* How steps run at n budgets, from the least (its arena may need a little more) to what keeping everything takes. The longest stretch of the curve
 * is halved until there are n, its length told in parts of all bytes and of all seconds: steps[] of NULLs is
 * filled and the caller's, whatever the status. */
rp_status rp__stage_curve(rp_stage *stage, rp_step_plan **steps, int n);
/* Plans a step with the recipe's own fates, in the fastest variant that the recipe leaves open. */
rp_status rp__stage_own_fastest(rp_stage *stage, rp_step_plan **out);
/* Plans a step with the recipe's own fates, in the recipe's own variant. */
rp_status rp__stage_own(rp_stage *stage, rp_step_plan **out);
/* Run a step as planned, then a score, on a stage where nothing but weights and states is live: what they take is noted in the plan. */
rp_status rp__stage_follow(rp_stage *stage, rp_step_plan *steps);
/* The stage's cost table is open. errors as rp__cost_table_open, rp__cost_table_device */
rp_status rp__stage_costs(rp_stage *stage);
/* Changes of the recipe that take less than stage->steps, its least plan; that which saves most first. opens: the recipe's own mode is not auto, which
 * each of them takes, too. *n <= RP_MOST_REMEDIES. The stage is to be renewed after it. errors RP_ERR_MEMORY */
rp_status rp__stage_find_remedies(rp_stage *stage, bool opens, rp_remedy *out, int *n);
/* A step as planned, explained; on a stage where it has not run yet. */
rp_status rp__stage_watch(rp_stage *stage);
rp_status rp__stage_show(rp_stage *stage);
/* Rules that would recompute what is kept, each tried in a step: they are the explanation's trials. */
rp_status rp__stage_try_rules(rp_stage *stage);
/* What runs on the stage counts for fault injection as if it ran on the caller's own context, and fails with its message. */
rp_status rp__stage_run(rp_stage *stage, rp_status (*run)(rp_stage *stage));

/* A stage for a model that stands already. */
rp_status rp__stage_open_like(rp_ctx *caller, const rp_recipe *recipe, const rp_model_config *config, rp_stage *out);
/* Plan and rehearse: stage->steps, NULL where nothing fits the budget. */
rp_status rp__stage_settle(rp_stage *stage, int64_t val_rows, rp_explain *explain);

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
    rp_step_plan *steps;                /* of full-length batches … */
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
char *rp__beside_model(rp_ctx *ctx, const rp_recipe *recipe);

/* ---- a sweep, measured ---- */

enum { RP_SWEEP_MODES = 4 };

/* The recipe as point i of a sweep has it: with another mode in place of its own, or with every fate left open that no must takes. */
rp_recipe rp__sweep_recipe(const rp_recipe *recipe, int i);
/* The points of *out run for real: steps[i] is how those of point i run, the stage has made them. */
rp_status rp__sweep_measure(rp_stage *stage, const rp_step_plan *const *steps, const rp_sweep_options *options, rp_sweep *out);

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
