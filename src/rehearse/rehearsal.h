/* rehearse/rehearsal.h -- rehearses steps of a recipe on shapes, and chooses how its steps run.
 *
 *   source.c      the model's config and files, as a recipe names them
 *   rehearsal.c   the engine on shapes: opened, begun again, and a recipe's names checked against its model
 *   plan.c        how a step runs: fates, and the address of each buffer
 *   settle.c      chooses the plan of a recipe and rehearses it; the error message if nothing fits
 *   remedies.c    changes of the recipe that need fewer bytes, if nothing fits
 *   fit.c         ways to train the model that fit a budget
 *   rules.c       effects of other rules
 *   plan_file.c   writes a plan to a file
 */
#ifndef RP_REHEARSE_REHEARSAL_H
#define RP_REHEARSE_REHEARSAL_H

#include "models/weights.h"
#include "rehearse/allowance.h"
#include "rehearse/engine.h"
#include "rehearse/forecast.h"

/* ---- inputs ---- */

typedef struct {
    rp_model_config config;
    rp_model_files *files;              /* NULL: fresh weights */
} rp_model_source;

/* Opens the model's config and files. errors RP_ERR_CONFIG, details in the report · as rp__model_files_open, rp__model_config_load */
rp_status rp__source_open(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_model_source *out);
void rp__source_close(rp_model_source *source);
/* Adds the recipe's adapters to the config. errors RP_ERR_CONFIG the config has adapters already */
rp_status rp__source_adapt(rp_ctx *ctx, const rp_recipe *recipe, rp_model_config *config);
/* Adds a failed status to the report at the place of `key`, unless the report already has more errors than `n_before`, the number before.
 * Returns status. */
rp_status rp__source_refuse(rp_ctx *ctx, const rp_recipe *recipe, const char *key, rp_status status, int n_before, rp_report *report);
/* Returns RP_ERR_CONFIG instead of RP_ERR_IO if `folder` is a folder without a file `name`: then the recipe is wrong, not the disk.
 * Otherwise returns status. */
rp_status rp__source_unless_absent(rp_ctx *ctx, rp_status status, const char *folder, const char *name);
/* Let the files store weights as `model.quantize` and `model.mapped` say. errors as rp__model_files_quantise, rp__model_files_map */
rp_status rp__source_store(const rp_recipe *recipe, rp_model_files *files);
/* The same for a config without files. `model.quantize` is not keep. */
void rp__source_quantise_config(const rp_recipe *recipe, rp_model_config *config);
/* Returns the config with a second reference to its source, to build a second model from. */
rp_model_config rp__config_share(const rp_model_config *config);

/* ---- rehearsal: steps on shapes alone ----
 *
 *   open ─ check_names ─ plan or settle ─ begin, for another recipe ─ plan … ─ close
 *
 * Close it even if open fails. Fault injection counts its allocations as if they were the caller's. Errors are set in the caller's context.
 */

/* A prompt that the run continues after some steps, and its continuation: numbers of tokens. */
typedef struct { int64_t prompt, tokens; } rp_sampled;

typedef struct {
    rp_ctx *caller, *ctx;               /* ctx: the rehearsal's own */
    int64_t n_errors;                   /* number of errors in the caller's context when the rehearsal's context was entered */
    const rp_recipe *recipe;            /* the caller's, or `changed` */
    rp_recipe changed;
    rp_model_source source;
    rp_engine engine;                   /* between steps only its weights and states are live */
    rp_explain *explain, own_explain;   /* of the step that is followed; own_explain: for messages if the caller passed none */
    const rp_micro_shape *micro;        /* the shape to rehearse; NULL: batches of full length */
    const char *device;                 /* the machine whose time is computed; NULL: this one */
    rp_cost_table *costs;               /* opened on first use */
    int64_t n_params, val_rows;
    const rp_sampled *sampled;          /* prompts that the run continues after steps … */
    int n_sampled;                      /* … and their number */
    int64_t limit;                      /* of the process; 0: none … */
    rp_allowance allowance;             /* … and the bytes of it that are not for the arena */
    int64_t budget, own_bytes;          /* 0: no budget · arena with the recipe's own fates */
    double keep_all_seconds;            /* seconds with the recipe's own fates if they keep everything; else 0 */
    bool own_keeps_all;                 /* the recipe's own fates recompute and offload nothing; known since begin */
    rp_question question[RP_STEP_VARIANTS];     /* asked since begin, by variant … */
    rp_overlap_base base[RP_STEP_VARIANTS];      /* … and the time of a step without replays, for any fates; seconds 0: none has run */
    bool wants_least;                   /* settle also finds the least budget */
    rp_plan *least;                     /* only its arena counts; NULL: not found */
    rp_plan *steps;                     /* how steps run; NULL until settled */
    double solve_seconds;
    bool wants_remedies;                /* if nothing fits */
    rp_remedy remedy[RP_MOST_REMEDIES];
    int n_remedies;
} rp_rehearsal;

/* Opens a rehearsal of the recipe's model, regions and rules. `explain` (may be NULL) records the step that is settled on; close it before
 * the rehearsal. errors as rp__source_open, rp__engine_open · RP_ERR_MEMORY */
rp_status rp__rehearsal_open(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, rp_report *report, rp_rehearsal *out);
/* The same for a model whose config is given. errors as rp__engine_open · RP_ERR_MEMORY */
rp_status rp__rehearsal_open_like(rp_ctx *caller, const rp_recipe *recipe, rp_explain *explain, const rp_model_config *config, rp_rehearsal *out);
void rp__rehearsal_close(rp_rehearsal *r);
/* Reports names that the model does not have as errors. errors RP_ERR_MEMORY */
rp_status rp__rehearsal_check_names(rp_rehearsal *r, rp_report *report);

/* Begins again with a recipe that differs from the one before only in what `rp_anew` allows. The recipe is copied. With a new model, the
 * caller's explanation is no longer filled.
 * errors as rp__engine_choose, rp__engine_states; RP_ANEW_MODEL: as rp__rehearsal_open_like */
typedef enum {
    RP_ANEW_FATES,                      /* activation_checkpointing except offload, memory_budget, batches, loss, variants */
    RP_ANEW_STATES,                     /* also the optimizer and the place of its states */
    RP_ANEW_MODEL,                      /* anything but the model's config: the model is built again in a new context */
} rp_anew;
rp_status rp__rehearsal_begin(rp_rehearsal *r, const rp_recipe *recipe, rp_anew anew);
/* Begins again with open fates: the recipe's mode and conditions are dropped, its rules remain. errors as rp__rehearsal_begin */
rp_status rp__rehearsal_begin_open(rp_rehearsal *r);
/* ready: call before anything runs on it; creates states and cost table. errors as rp__engine_ready, rp__cost_table_open
 * end: call afterwards, unless `ready` failed; passes a failure's message to the caller's context. Returns status. */
rp_status rp__rehearsal_ready(rp_rehearsal *r);
rp_status rp__rehearsal_end(rp_rehearsal *r, rp_status status);
/* Closes the questions from which plans are made; they may be large. */
void rp__rehearsal_forget(rp_rehearsal *r);

/* Sets the budget from memory_budget and memory_limit: the smaller one if both are set. Mapped weights use the free memory that `auto` measures. */
void rp__rehearsal_bound(rp_rehearsal *r);
/* Plans steps of full-length batches within `budget` bytes (0: no budget). *out is the caller's; NULL: nothing fits. *own_bytes: the arena
 * with the recipe's own fates. errors as rp__rehearsal_ready, rp__step_within · RP_ERR_MEMORY */
rp_status rp__rehearsal_plan(rp_rehearsal *r, int64_t budget, rp_plan **out, int64_t *own_bytes);
/* small: a plan with a small arena, found quickly. least: the plan with the smallest arena. Both ignore the recipe's budget and mode.
 * errors as rp__rehearsal_plan */
rp_status rp__rehearsal_small(rp_rehearsal *r, rp_plan **out);
rp_status rp__rehearsal_least(rp_rehearsal *r, rp_plan **out);
/* own: the recipe's own fates in its own variant. own_fastest: the same in the fastest variant that the recipe allows.
 * errors as rp__rehearsal_plan */
rp_status rp__rehearsal_own(rp_rehearsal *r, rp_plan **out);
rp_status rp__rehearsal_own_fastest(rp_rehearsal *r, rp_plan **out);
/* Plans steps at n budgets, from the least (its arena may need a little more) to the bytes of keeping everything. The longest stretch of
 * the curve is halved until there are n points. Its length is its share of all bytes plus its share of all seconds. steps[] must hold
 * NULLs; it is filled as far as possible and the caller's even if this fails. errors as rp__rehearsal_plan */
rp_status rp__rehearsal_curve(rp_rehearsal *r, rp_plan **steps, int n);

/* Plans for the recipe's budget, finds the least budget if wanted, runs the step as planned with an explanation, and then a score of
 * val_rows rows (0: none). Sets r->steps; NULL: nothing fits. errors as rp__rehearsal_plan, rp__engine_step */
rp_status rp__rehearsal_settle(rp_rehearsal *r, int64_t val_rows);
/* The same. Notes rules that decide nothing, and keys of ranks if there is only one rank.
 * errors  RP_ERR_BUDGET nothing fits: the message has the least budget, and r->steps is the least plan, explained · as rp__rehearsal_settle */
rp_status rp__rehearsal_rehearse(rp_rehearsal *r, int64_t val_rows, rp_report *report);
/* Runs r->steps, which was planned in another rehearsal. errors as rp__engine_step */
rp_status rp__rehearsal_show(rp_rehearsal *r);
/* Finds changes of the recipe that need fewer bytes than r->steps, its least plan; the one that saves most comes first. opens: the recipe's
 * mode is not auto, so each change sets that, too. *n <= RP_MOST_REMEDIES. errors RP_ERR_MEMORY · as rp__rehearsal_begin */
rp_status rp__rehearsal_find_remedies(rp_rehearsal *r, bool opens, rp_remedy *out, int *n);
/* Lists the keys of those remedies that make weights, gradients or states smaller and apply to the recipe: ", or set 'a', 'b' or 'c'", or
 * "". Returns `out`. */
enum { RP_HINTS_CHARS = 160 };
const char *rp__recipe_hints(const rp_recipe *recipe, char out[RP_HINTS_CHARS]);
/* Writes the step that r->steps runs as a graph (trace/graph.h) for the recipe's budget. The recipe's mode and conditions are dropped.
 * errors as rp__rehearsal_plan · RP_ERR_IO */
rp_status rp__rehearsal_write_graph(rp_rehearsal *r, const char *path);
/* Tries rules that would recompute kept values, each in a step of its own, and adds them to the explanation's trials.
 * errors RP_ERR_MEMORY · as rp__rehearsal_ready */
rp_status rp__rehearsal_try_rules(rp_rehearsal *r);

#endif
