/* rehearse/forecast.h -- answers about a recipe without weights or data: memory, seconds, the fastest setting. */
#ifndef RP_REHEARSE_FORECAST_H
#define RP_REHEARSE_FORECAST_H

#include "base/report.h"
#include "explain/explain.h"
#include "nn/module.h"
#include "plan/step.h"
#include "recipe/recipe.h"
#include "rehearse/allowance.h"
#include "shard/units.h"

/* Which modules under root are regions, in a line: "15 of 30 blocks: layers 1, 3, 5, …; and 60 modules: layers.0.attn, …; 2 rules". */
#define RP_REGIONS_CHARS 512
const char *rp__regions_text(rp_module *root, int n_rules, char out[RP_REGIONS_CHARS]);

/* The first file of the model or the tokenizer that the recipe names and that is not there, NULL: all are. */
const char *rp__recipe_missing_file(const rp_recipe *recipe);
/* Hold the recipe against its model and rehearse a step on shapes, as a run would: what is wrong is in the report as well as in the
 * status; "" is told then, and of units where weights are whole. */
typedef struct {
    char regions[RP_REGIONS_CHARS];     /* as above */
    char units[RP_UNITS_CHARS];         /* what is gathered together */
} rp_recipe_words;
rp_status rp__recipe_try(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_recipe_words *words);

/* ---- what would take less, where nothing fits ---- */

enum { RP_REMEDY_CHARS = 96, RP_MOST_REMEDIES = 8 };

typedef struct {
    char setting[RP_REMEDY_CHARS];      /* as arguments of a command: "optimizer.state_dtype=bf16" */
    int64_t least, saved;               /* the least budget with it alone, and how many bytes less that is */
} rp_remedy;

/* ---- a forecast: what steps on batches of full length will take, by a rehearsal; neither weights nor data are read ---- */

typedef struct {
    bool feasible;                      /* false: nothing fits the budget; then what is told is of the least plan */
    int64_t limit;                      /* of the process; 0: none … */
    rp_allowance allowance;             /* … and what of it is not the arena's */
    rp_plan plan;                       /* what its steps take; without passes and addresses */
    bool loose_bounds;                  /* its bounds may be far below what can be had */
    int64_t least;                      /* that any plan's arena takes, under the recipe's musts; 0: not asked */
    bool least_at_most;                 /* a smaller one may be possible: the search for it was cut short */
    rp_remedy remedy[RP_MOST_REMEDIES]; /* where nothing fits, that which saves most first … */
    int n_remedies;                     /* … with fates that a plan decides; 0: none, or not asked */
    int ranks;                          /* they all take the same: slices are padded to one room */
    rp_cost_links links;                /* that they talk over; assumed until somebody measures them */
    char units[RP_UNITS_CHARS];         /* what is gathered together; "" for one rank */
    int64_t keep_all_bytes;             /* the recipe's own step, where it keeps all and was rehearsed besides; else 0 … */
    double keep_all_seconds;            /* … a plan of fewer bytes may be faster */
    double offload_bandwidth;           /* that slots and states are reckoned with, bytes per second … */
    bool offload_guessed;               /* … which nobody has measured or given */
    bool estimated;                     /* the cost table is of another machine, scratch is of this one */
    double solve_seconds;
    char regions[RP_REGIONS_CHARS];
    rp_explain explain;
} rp_forecast;

typedef struct {
    const char *device;                 /* of `plan --device`; NULL: this machine */
    bool least, trials;                 /* are wanted: the least budget, and remedies where nothing fits; what other rules would do */
    bool events;                        /* are wanted: what the explanation says of each */
    const char *file;                   /* where to write the plan that fits; NULL: nowhere */
} rp_forecast_options;

/* The context has no more than shapes, and the recipe's threads and budget. Close *out whatever this said.
 * errors as rp__recipe_try; a budget that nothing fits is none, but the context's error says so */
rp_status rp__recipe_forecast(rp_ctx *ctx, const rp_recipe *recipe, const rp_forecast_options *options, rp_report *report, rp_forecast *out);
void rp__forecast_close(rp_forecast *forecast);

/* How much longer a step takes than the fastest step without a budget, which takes `base` seconds, as a part of that. Never negative. base 0: 0. */
double rp__overhead(double base, double seconds, double recompute_seconds);
/* A forecast of steps that are planned already: nothing is solved again. Events are wanted. val_rows: of a validation's batches, 0: none. Close *out
 * whatever this returns. errors RP_ERR_MEMORY · as rp__cost_table_open */
rp_status rp__forecast_planned(rp_ctx *ctx, const rp_recipe *recipe, const rp_model_config *config, rp_plan *steps, int64_t val_rows, rp_forecast *out);

/* ---- a search: the fastest setting for so much memory ---- */

typedef struct {
    int64_t ranks, copies, batch_size, accumulation;    /* copies: dist.replicate_dim */
    bool own_units;                     /* dist.custom_sharded_layers: [tok_embeddings, output] … */
    bool recipes_units;                 /* … or what the recipe names; neither: none */
    bool reshard;
    int64_t stay;                       /* dist.reshard_after_forward: N; 0: reshard says */
    int64_t reduce_async;                     /* dist.reduce_behind */
    double bound_seconds;               /* no plan of this setting gets below … */
    int64_t bound_bytes;                /* … either */
    bool fits;
    rp_step_variant variant;
    int64_t reserved, peak, comm_bytes; /* of a rank */
    double seconds, overhead, tokens_per_second;    /* of a step by the cost table · over the fastest without a budget · of all ranks */
} rp_setting;

typedef struct {
    rp_setting *setting;                /* those that were planned and fit, the fastest first */
    int n, n_tried, n_discarded;        /* n_discarded were not planned: their bounds say that they do not fit, or that four others are faster */
    rp_cost_links links;
    int64_t budget, samples;            /* bytes of a rank · of a step, the same in each */
    char machine[128];
    bool measured;                      /* the cost table was */
} rp_find;

typedef struct {
    const char *device;                 /* as of a forecast */
    bool all;                           /* plan every setting, whatever its bounds say */
} rp_find_options;

/* Ranks, copies, wrapping, resharding, sums behind, batch and accumulation of the recipe are tried; what is kept is a plan's, under the recipe's rules.
 * The context
 * as for a forecast, with the budget to fit.
 * errors  RP_ERR_BUDGET no setting fits: the message has the least · RP_ERR_CONFIG no budget · as of a forecast */
rp_status rp__recipe_find(rp_ctx *ctx, const rp_recipe *recipe, const rp_find_options *options, rp_report *report, rp_find *out);
void rp__find_close(rp_find *found);

#endif
