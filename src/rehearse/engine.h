/* rehearse/engine.h -- one optimizer step of a recipe, on shapes or on data.
 *
 *   engine.c   all that a step needs, opened and closed
 *   step.c     one optimizer step, one score
 *   batch.c    a batch as tensors, and its loss
 *   time.c     the seconds of a step on shapes, by the cost table
 *
 * A rehearsal runs the same code as a training step. So the memory that a rehearsal measures is the memory of every step of that shape.
 */
#ifndef RP_REHEARSE_ENGINE_H
#define RP_REHEARSE_ENGINE_H

#include "cost/overlap.h"
#include "data/data.h"
#include "explain/explain.h"
#include "models/model.h"
#include "optim/optim.h"
#include "plan/step.h"
#include "policy/stack.h"
#include "recipe/recipe.h"
#include "shard/gather.h"
#include "shard/units.h"

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
/* Sum of -log p over the batch's targets, over `targets`. Of a batch without data: its shape alone (rehearse/batch.c). */
rp_status rp__batch_loss(rp_engine *e, const rp_data_batch *batch, int64_t targets, rp_tensor **loss);
/* Where e->time is wanted: before a step and after it; after a forward; after the update (rehearse/time.c). */
void rp__time_begin(rp_engine *e);
void rp__time_end(rp_engine *e);
rp_status rp__time_forward(rp_engine *e);      /* errors RP_ERR_MEMORY */
void rp__time_update(rp_engine *e);
/* Mean loss over all targets, in evaluation mode, in batches of `rows`; NaN where there are no targets. data NULL: one batch. */
rp_status rp__engine_score(rp_engine *e, rp_data *data, int64_t rows, double *loss);

#endif
