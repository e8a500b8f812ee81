/* rehearse/rehearsal.h -- steps of a recipe on shapes alone, and the choice of how steps run.
 *
 *   source.c      the model's config and files, as a recipe names them
 *   rehearsal.c   the engine on shapes: opened, begun again, and a recipe's names checked against its model
 *   plan.c        how a step runs: fates, and the address of each buffer
 *   settle.c      how a recipe's steps are to run, rehearsed; the message if nothing fits
 *   remedies.c    changes of the recipe that need fewer bytes, if nothing fits
 *   rules.c       effects of other rules
 *   plan_file.c   how steps run, as a file
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

/* Wrong values are in the report as well as in the status. */
rp_status rp__source_open(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_model_source *out);
void rp__source_close(rp_model_source *source);
/* The adapters of the recipe are those of the config. errors RP_ERR_CONFIG both have some */
rp_status rp__source_adapt(rp_ctx *ctx, const rp_recipe *recipe, rp_model_config *config);
/* A status that is not in the report is added to it, at the place of `key`. `told`: the report's number of errors before. Returns status. */
rp_status rp__source_refuse(rp_ctx *ctx, const rp_recipe *recipe, const char *key, rp_status status, int told, rp_report *report);
/* RP_ERR_CONFIG instead of RP_ERR_IO if `folder` is a folder that has no file `name`: then the recipe is wrong, not the disk. Else status. */
rp_status rp__source_unless_absent(rp_ctx *ctx, rp_status status, const char *folder, const char *name);
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

/* Plan for the recipe's budget, find the least where that is wanted, and run the step as planned, explained, then a score of val_rows rows (0: none):
 * r->steps, NULL where nothing fits. */
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

#endif
