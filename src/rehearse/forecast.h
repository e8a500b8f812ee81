/* rehearse/forecast.h -- predicts memory, seconds and the fastest setting of a recipe, without weights or data. */
#ifndef RP_REHEARSE_FORECAST_H
#define RP_REHEARSE_FORECAST_H

#include "base/report.h"
#include "explain/explain.h"
#include "nn/module.h"
#include "plan/step.h"
#include "recipe/recipe.h"
#include "rehearse/allowance.h"
#include "shard/units.h"

/* Lists in one line which modules under root are regions: "15 of 30 blocks: layers 1, 3, 5, …; and 60 modules: layers.0.attn, …; 2 rules".
 * Returns `out`. */
#define RP_REGIONS_CHARS 512
const char *rp__regions_text(rp_module *root, int n_rules, char out[RP_REGIONS_CHARS]);

/* Returns the first file of the model or the tokenizer that the recipe names and that does not exist; NULL: all exist. */
const char *rp__recipe_missing_file(const rp_recipe *recipe);
/* Checks the recipe against its model and rehearses a step on shapes, as a run would. Errors are in the report as well as in the status;
 * both texts are "" then. `units` is also "" if weights are not sharded.
 * errors RP_ERR_CONFIG · RP_ERR_BUDGET nothing fits · as rp__rehearsal_open */
typedef struct {
    char regions[RP_REGIONS_CHARS];     /* as rp__regions_text */
    char units[RP_UNITS_CHARS];         /* weights that are gathered together */
} rp_recipe_words;
rp_status rp__recipe_try(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_recipe_words *words);

/* ---- changes that need fewer bytes, if nothing fits ---- */

enum { RP_REMEDY_CHARS = 96, RP_MOST_REMEDIES = 9 };

typedef struct {
    char setting[RP_REMEDY_CHARS];      /* as arguments of a command: "optimizer.state_dtype=bf16" */
    int64_t least, saved;               /* the least budget with this change alone; by how many bytes it is lower */
} rp_remedy;

/* ---- forecast: memory and time of steps on batches of full length, by a rehearsal; reads neither weights nor data ---- */

typedef struct {
    bool feasible;                      /* false: nothing fits the budget; the other members describe the least plan */
    int64_t limit;                      /* of the process, bytes; 0: none … */
    rp_allowance allowance;             /* … and the bytes of it that are not for the arena */
    int64_t mapped_bytes;               /* weights that stay in the model's files, outside the arena */
    rp_plan plan;                       /* figures of its steps; without passes and addresses */
    bool loose_bounds;                  /* its lower bounds may be far below the best plan */
    int64_t least;                      /* bytes of the smallest arena under the recipe's must-rules; 0: not computed */
    bool least_at_most;                 /* a smaller one may exist: the search was cut short */
    rp_remedy remedy[RP_MOST_REMEDIES]; /* if nothing fits: the change that saves most comes first … */
    int n_remedies;                     /* … with fates decided by a plan; 0: none, or not computed */
    int ranks;                          /* all ranks take the same bytes, because slices are padded to one size */
    rp_cost_links links;                /* between ranks; assumed until `reprise calibrate` measures them */
    char units[RP_UNITS_CHARS];         /* weights that are gathered together; "" for one rank */
    int64_t keep_all_bytes;             /* arena of the recipe's own step, if it keeps everything and was rehearsed as well; else 0 … */
    double keep_all_seconds;            /* … its seconds; a plan of fewer bytes may be faster */
    double offload_bandwidth;           /* assumed for slots and states, bytes per second … */
    bool offload_guessed;               /* … neither measured nor given */
    bool elsewhere;                     /* the cost table is of another machine … */
    bool estimated;                     /* … while scratch is of this CPU */
    double solve_seconds;
    char regions[RP_REGIONS_CHARS];
    rp_explain explain;
} rp_forecast;

typedef struct {
    const char *device;                 /* of `plan --device`; NULL: this machine */
    bool least, trials;                 /* compute the least budget, and remedies if nothing fits; try other rules */
    bool events;                        /* record what the explanation has on each event */
    const char *file;                   /* path for the plan if it fits; NULL: write no file */
    const char *graph;                  /* path for the step as a graph if it fits; NULL: write no file */
} rp_forecast_options;

/* Predicts a recipe's steps. The context must be of shapes only, with the recipe's threads and budget. Close *out even if this fails.
 * errors as rp__recipe_try, except RP_ERR_BUDGET: if nothing fits, the status is RP_OK, *out is not feasible, and the context has the message */
rp_status rp__recipe_forecast(rp_ctx *ctx, const rp_recipe *recipe, const rp_forecast_options *options, rp_report *report, rp_forecast *out);
void rp__forecast_close(rp_forecast *forecast);

/* Returns by what fraction a step is slower than the fastest step without a budget, which takes `base` seconds. Never negative; 0 if base is 0. */
double rp__overhead(double base, double seconds, double recompute_seconds);
/* Describes steps that are already planned, without solving; records events. val_rows: rows of a validation batch, 0: none. Close *out even
 * if this fails. errors RP_ERR_MEMORY · as rp__cost_table_open */
rp_status rp__forecast_planned(rp_ctx *ctx, const rp_recipe *recipe, const rp_model_config *config, rp_plan *steps, int64_t val_rows, rp_forecast *out);

/* ---- search: the fastest setting for a given memory ---- */

typedef struct {
    int64_t ranks, copies, batch_size, accumulation;    /* copies: dist.replicate_dim */
    bool own_units;                     /* dist.custom_sharded_layers: [tok_embeddings, output] … */
    bool recipes_units;                 /* … or the recipe's value; neither: none */
    bool reshard;
    int64_t stay;                       /* dist.reshard_after_forward: N; 0: `reshard` decides */
    int64_t reduce_async;               /* dist.reduce_behind */
    double bound_seconds;               /* lower bound for every plan of this setting … */
    int64_t bound_bytes;                /* … likewise */
    bool fits;
    rp_step_variant variant;
    int64_t reserved, peak, comm_bytes; /* of one rank */
    double seconds, overhead, tokens_per_second;    /* of a step by the cost table · relative to the fastest without a budget · of all ranks */
} rp_setting;

typedef struct {
    rp_setting *setting;                /* settings that were planned and fit, the fastest first */
    int n, n_tried, n_discarded;        /* n_discarded were not planned: by their bounds they do not fit, or four others are faster */
    rp_cost_links links;
    int64_t budget, samples;            /* bytes of a rank · of a step, the same in all settings */
    char machine[128];
    bool measured;                      /* the cost table was measured */
} rp_find;

typedef struct {
    const char *device;                 /* as in rp_forecast_options */
    bool all;                           /* plan every setting regardless of its bounds */
} rp_find_options;

/* Finds the fastest settings: ranks, copies, wrapping, resharding, asynchronous sums, batch and accumulation vary. A plan decides what is
 * kept, under the recipe's rules. The context is as for a forecast, with the budget to fit. Close *out with rp__find_close.
 * errors  RP_ERR_BUDGET no setting fits: the message has the least budget · RP_ERR_CONFIG no budget · as rp__recipe_forecast */
rp_status rp__recipe_find(rp_ctx *ctx, const rp_recipe *recipe, const rp_find_options *options, rp_report *report, rp_find *out);
void rp__find_close(rp_find *found);

/* ---- the ways to train a model that fit a given memory ---- */

typedef struct {
    const char *way, *states;           /* "all weights", "LoRA" … · the states' dtype; NULL: the optimizer has none */
    const char *quantize;               /* of model.quantize; NULL: null */
    int64_t rank;                       /* of fresh adapters; 0: none */
    int64_t length, batch_size, accumulation, reserved;
    double seconds, overhead, tokens_per_second;    /* as in rp_setting */
    bool own;                           /* way, states and length are the recipe's */
} rp_fit_row;

typedef struct {
    rp_fit_row *row;                    /* rows that fit, the best first */
    int n, n_planned;
    int64_t budget;
    char machine[128];
    bool measured;                      /* the cost table was measured */
} rp_fit;

/* Finds the ways that fit, on the recipe's number of ranks. The context is as for a forecast, with the budget to fit; device as in
 * rp_forecast_options. Close *out with rp__fit_close. errors RP_ERR_BUDGET nothing fits · RP_ERR_CONFIG no budget · as rp__recipe_forecast */
rp_status rp__recipe_fit(rp_ctx *ctx, const rp_recipe *recipe, const char *device, rp_report *report, rp_fit *out);
void rp__fit_close(rp_fit *fit);

#endif
