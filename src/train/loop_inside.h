/* train/loop_inside.h -- the trainer's own structures; only loop*.c and bench/memory.c include this.
 *
 *   loop.c         the trainer: steps, metrics, states, the end
 *   loop_new.c     everything before the first step
 *   loop_stage.c   the engine on shapes: a recipe held against its model, the rehearsal
 *   loop_explain.c what a step on shapes does with its slots, and what other rules would do
 *   loop_inputs.c  model config, tokenizer and data as a recipe names them
 *   loop_step.c    the engine: one optimizer step, one score; the same on shapes and on data
 *   loop_dir.c     output_dir: what is there already, config.yaml, final/
 *   loop_resume.c  the state to go on from
 */
#ifndef RP_TRAIN_LOOP_INSIDE_H
#define RP_TRAIN_LOOP_INSIDE_H

#include "io/tokenizer.h"
#include "models/weights.h"
#include "plan/explain.h"
#include "policy/stack.h"
#include "train/loop.h"
#include "train/optim.h"
#include "train/schedule.h"
#include "train/state.h"

/* ---- engine: what a step needs and nothing else ---- */

typedef struct {
    rp_ctx *ctx;
    const rp_recipe *recipe;
    rp_model *model;
    rp_optim *optim;
    rp_optim_step update;               /* of the running step; the hook of backward reads it */
    rp_selection selection;             /* regions, and the policy that decides in a step */
    bool offloads;                      /* it has told the context where to */
    rp_explain *explain;                /* looks at the slots when a forward ends; may be NULL */
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
void rp__engine_close(rp_engine *e);
int rp__engine_n_rules(const rp_engine *e);

/* One optimizer step, counted from 0. data NULL: a rehearsal, on batches of full length.
 * errors  RP_ERR_NONFINITE before the update where that can be known, "loss of step 7 is nan" */
rp_status rp__engine_step(rp_engine *e, rp_data *data, int64_t step, double lr, rp_step_result *out);
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
    rp_rehearsal found;
} rp_stage;

/* The recipe's model, its regions and rules, observed from the beginning where somebody explains. A stage is closed whatever open said. */
rp_status rp__stage_open(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_stage *out);
void rp__stage_close(rp_stage *stage);
/* Names that the model does not know are errors in the report. */
rp_status rp__stage_check_names(rp_stage *stage, rp_report *report);
/* Find what a step takes, with a validation in batches of val_rows (0: none) after it. Rules that decide nothing are notes. */
rp_status rp__stage_rehearse(rp_stage *stage, int64_t val_rows, rp_report *report);
/* Open, check and rehearse, for those who only ask. Close it whatever this said. */
rp_status rp__stage_try(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_stage *out);
/* What runs on the stage counts for fault injection as if it ran on the caller's own context, and fails with its message. */
rp_status rp__stage_run(rp_stage *stage, rp_status (*run)(rp_stage *stage));

/* ---- trainer ---- */

struct rp_trainer {
    rp_ctx *ctx;
    const rp_recipe *recipe;
    rp_bump texts;
    const char *recipe_text;            /* resolved */
    rp_engine engine;
    rp_tokenizer *tokenizer;            /* NULL: none was found, and none is needed */
    rp_data *data, *val;
    int64_t val_rows;
    rp_schedule schedule;
    rp_state_tensor *tensors;           /* all of a state */
    int n_tensors;
    rp_metrics_file *metrics;
    int64_t done, state_step;           /* state_step: of the newest state, 0 without one */
    char *state_path;
    rp_trainer_info info;
};

/* The tokenizer, where there is one, then dataset and dataset_val. */
rp_status rp__inputs_open(rp_trainer *t, const rp_model_config *config);

/* ---- output_dir ---- */

/* errors RP_ERR_EXISTS it holds a run, and this is no resume */
rp_status rp__run_dir_check(const rp_trainer *t);
/* Made, config.yaml written, what a resume passes over removed, metrics.jsonl opened. */
rp_status rp__run_dir_begin(rp_trainer *t);
rp_status rp__run_dir_final(rp_trainer *t);

/* ---- resume ---- */

/* The state the recipe asks for, checked against the recipe and the data; NULL: a fresh start. Call after the data is open. */
rp_status rp__resume_find(rp_trainer *t, rp_report *report, rp_state **out);
/* Parameters and optimizer states from it; the trainer stands after its step. */
rp_status rp__resume_load(rp_trainer *t, rp_state *state);

#endif
