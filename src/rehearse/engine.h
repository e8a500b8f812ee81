/* rehearse/engine.h -- one optimizer step of a recipe, on shapes or on data.
 *
 *   engine.c   opens and closes everything a step needs
 *   step.c     one optimizer step, one validation score
 *   replay.c   repeats recorded steps on a GPU
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
#include "kernels/step.h"
#include "models/model.h"
#include "optim/optim.h"
#include "plan/step.h"
#include "policy/stack.h"
#include "recipe/recipe.h"
#include "shard/gather.h"
#include "shard/units.h"

/* ---- how a step runs: plan/step.h ---- */

/* Writes a plan to a file, with the resolved recipe. errors RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__step_plan_write(rp_ctx *ctx, const rp_plan *plan, const rp_recipe *recipe, const char *recipe_text, const char *path);
/* Describes the keys of the recipe that decide which bytes an update needs besides the weights. Returns `out`. */
enum { RP_OPTIMIZER_CHARS = 96 };
const char *rp__optimizer_text(const rp_recipe *recipe, char out[RP_OPTIMIZER_CHARS]);
/* Whether a budget decides what is kept: mode auto and a memory budget or limit. */
bool rp__recipe_leaves_open(const rp_recipe *recipe);
/* The variant of the recipe's steps unless a plan chooses another one. */
rp_step_variant rp__recipe_variant(const rp_recipe *recipe);

/* ---- engine: everything a step needs ---- */

typedef struct { int64_t rows, length; } rp_micro_shape;

typedef struct {
    rp_ctx *ctx;
    const rp_recipe *recipe;
    rp_model *model;
    rp_optim *optim;
    rp_optim_step update;               /* of the running step; read by the hook of backward */
    bool queued;                        /* of the running step: its loss, norm and clip factor stay on the device until they are read */
    int n_late;                         /* steps whose results have not been read, at most 2: the last one queued, and the one before it */
    rp_step_results late[2];            /* their results, which arrive when the host waits; step i has the place i % 2 */
    rp_selection selection;             /* regions, and the policy that decides fates in a step */
    bool offloads;                      /* the engine has set the context's offload target, and unsets it */
    rp_units units;                     /* of a sharded run: weights that are gathered together … */
    rp_gather *gather;                  /* … around forwards; NULL: weights are not sharded */
    rp_explain *explain;                /* records the slots when a forward ends; may be NULL */
    rp_plan *follow;                    /* the plan that steps follow; NULL: fates of the recipe, addresses of the pool */
    rp_step_variant variant;            /* of its steps, unless the plan followed has its own */
    rp_step_time *time;                 /* adds up seconds; may be NULL */
    struct rp_replays *replays;         /* of this engine's steps; NULL: none yet */
    struct rp_replay *replay;           /* that the running step records or repeats; NULL: neither */
    const rp_micro_shape *micro;        /* shape of each micro-batch of a rehearsal; NULL: full length */
} rp_engine;

typedef struct {
    double loss, grad_norm;             /* of a late step: known after rp__engine_read */
    int64_t saved_bytes;
    rp_mem memory;                      /* peaks of this step */
    rp_tape_stats work;
    bool late;
    int64_t step;                       /* of a late step, from 0 */
    uint64_t mark;                      /* of its end in the queue */
    double device_seconds;              /* of a late step after rp__engine_read: since the end of the one before, by the device; 0: not known */
} rp_step_result;

/* open: builds the model with its regions; parameters are still undefined. Takes over the config. ready, after the parameters have been
 * filled: creates the rope tables and the optimizer. Close an engine even if open fails.
 * errors  open: as rp__model_build, rp__model_freeze, rp__units_open, rp__gather_new, rp__recipe_selection, rp_set_offload
 * ready: as rp__model_reserve_length, rp__optim_new · RP_ERR_MEMORY */
rp_status rp__engine_open(rp_engine *e, rp_ctx *ctx, const rp_recipe *recipe, rp_model_config *config);
rp_status rp__engine_ready(rp_engine *e);
/* choose: replaces the fates by those of `recipe`, which differs in nothing else but the optimizer. errors as open
 * states: replaces the optimizer and its states. errors as rp__optim_new */
rp_status rp__engine_choose(rp_engine *e, const rp_recipe *recipe);
rp_status rp__engine_states(rp_engine *e);
/* The recipe's rules for shard units. */
rp_unit_rules rp__recipe_unit_rules(const rp_recipe *recipe);
/* Sets the model's regions to those of e->selection, in case another selection was put there. */
void rp__engine_regions(rp_engine *e);
void rp__engine_close(rp_engine *e);
int rp__engine_n_rules(const rp_engine *e);

/* The part of a step's result that a plan records. */
static inline rp_step_usage rp__step_usage(const rp_step_result *r)
{
    return (rp_step_usage){ r->memory, r->saved_bytes, r->work.step_flops, r->work.recompute_flops, r->work.offloaded_bytes };
}

/* Runs one optimizer step, counted from 0. data NULL: a rehearsal, on batches of full length.
 * errors  RP_ERR_NONFINITE before the update if it is known by then, "loss of step 7 is nan". A queued step ends first, with updates that do nothing
 * · RP_ERR_BACKEND · as rp__data_batch, rp__backward · RP_ERR_MEMORY */
rp_status rp__engine_step(rp_engine *e, rp_data *data, int64_t step, double lr, rp_step_result *out);
/* The same in two parts, so that the host looks at a step while the device computes the next one. queue: sets out->late if the device still computes it.
 * Then one more step may be queued before rp__engine_read of this one, which waits for it. Steps are read in their order. Without out->late, read does
 * nothing. A step that is queued behind one that is not finite updates nothing. If read fails, both steps are over. drop waits for all late steps and
 * forgets them. errors as rp__engine_step */
rp_status rp__engine_queue(rp_engine *e, rp_data *data, int64_t step, double lr, rp_step_result *out);
rp_status rp__engine_read(rp_engine *e, rp_step_result *result);
void rp__engine_drop(rp_engine *e);
/* A batch as tensors (rehearse/batch.c). open: creates them; a batch without data has only its shape. close drops the references. place: their
 * addresses. send: copies another batch of these shapes there. errors RP_ERR_MEMORY */
enum { RP_BATCH_TOKENS, RP_BATCH_LABELS, RP_BATCH_TARGETS, RP_BATCH_POSITIONS, RP_BATCH_STARTS, RP_BATCH_INPUTS };
typedef struct { void *at[RP_BATCH_INPUTS]; } rp_batch_place;
rp_status rp__batch_open(rp_engine *e, const rp_data_batch *batch, rp_model_batch *out);
void rp__batch_close(rp_model_batch *batch);
rp_batch_place rp__batch_place(rp_model_batch *batch);
rp_status rp__batch_send(const rp_engine *e, const rp_data_batch *batch, const rp_batch_place *to);
/* Computes the sum of -log p over the batch's targets, divided by `targets`. errors as rp__model_loss */
rp_status rp__batch_loss(rp_engine *e, const rp_model_batch *batch, int64_t targets, rp_tensor **loss);
/* ---- replays: a step that follows a placed plan makes the same launches each time, so a device with records repeats them (rehearse/replay.c) ---- */

/* Sets e->replay for a queued step. Returns true if the step can be repeated, instead of run, with rp__replay_micro for each micro-batch. */
bool rp__replay_open(rp_engine *e);
/* Around the launches of micro-batch i of a step that runs. Its inputs are at `place`. Without e->replay they do nothing. */
void rp__replay_begin(rp_engine *e);
void rp__replay_end(rp_engine *e, int64_t i, const rp_batch_place *place);
/* After a step: notes its result if it succeeded, else forgets its records (result NULL). */
void rp__replay_close(rp_engine *e, const rp_step_result *result);
/* Queues micro-batch i with the inputs of `batch`. errors RP_ERR_MEMORY */
rp_status rp__replay_micro(rp_engine *e, int64_t i, const rp_data_batch *batch);
/* The memory and the work of the step that was recorded. */
void rp__replay_usage(const rp_engine *e, rp_step_result *out);
/* Forgets all steps, because they would differ from now on. */
void rp__replays_free(rp_engine *e);

static inline float rp__loss_weight(int64_t targets) { return targets ? 1.0f / (float)targets : 0; }
/* Call these if e->time is set: before and after a step, after a forward, after the update (rehearse/time.c). */
void rp__time_begin(rp_engine *e);
void rp__time_end(rp_engine *e);
rp_status rp__time_forward(rp_engine *e);      /* errors RP_ERR_MEMORY */
void rp__time_update(rp_engine *e);
/* Computes the mean loss over all targets in evaluation mode, in batches of `rows`; NaN if there are no targets. data NULL: one batch.
 * errors as rp__data_batch, rp__batch_loss */
rp_status rp__engine_score(rp_engine *e, rp_data *data, int64_t rows, double *loss);

#endif
