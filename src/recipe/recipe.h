/* recipe/recipe.h -- a recipe: a YAML or JSON file, KEY=VALUE changes, and the struct they become.
 *
 *   text ─ rp__yaml_parse ─▶ tree ─ overrides ─▶ ─ ${...} ─▶ ─ keys of other systems ─▶ schema walk ─▶ rp_recipe
 *
 * Every key is one line of the table in schema.c: its path, type, range, default and help. All errors are found
 * in one reading and stand in the report with their lines; what was translated or has no effect is a note.
 * Errors that need the model come from rp__recipe_check_model. A recipe owns its texts and trees. */
#ifndef RP_RECIPE_H
#define RP_RECIPE_H

#include "policy/modes.h"

typedef struct { bool set; int64_t value; } rp_opt_int;
typedef struct { bool set; double value; } rp_opt_number;
typedef struct { int n; const char **item; } rp_text_list;
typedef struct { const char *first; rp_text_list all; } rp_file_list;       /* first NULL: none */

/* The words of the schema, in the order of the table. */
typedef enum { RP_NO, RP_YES, RP_AUTO } rp_choice;                         /* optimizer_in_bwd, loss.keep_logits */
typedef enum { RP_SWITCH_UNSET, RP_SWITCH_ON, RP_SWITCH_OFF } rp_switch;   /* enable_activation_checkpointing */
enum { RP_FORMAT_TEXT, RP_FORMAT_JSONL, RP_FORMAT_TOKENS, RP_FORMAT_CHAT, RP_FORMAT_ALPACA };
enum { RP_TOKEN_U16, RP_TOKEN_U32 };
enum { RP_TRAIN_BF16, RP_TRAIN_FP32 };
enum { RP_GRAD_AS_DTYPE, RP_GRAD_FP32 };
#define RP_MASK_PROBABILITY 0.15        /* the default */
enum { RP_OBJECTIVE_OF_MODEL, RP_OBJECTIVE_CAUSAL, RP_OBJECTIVE_MASKED };
enum { RP_OPTIMIZER_ADAMW, RP_OPTIMIZER_SGD };
enum { RP_STATE_FP32, RP_STATE_BF16 };
enum { RP_ROUND_NEAREST, RP_ROUND_STOCHASTIC };
enum { RP_LR_CONSTANT, RP_LR_COSINE, RP_LR_LINEAR };
enum { RP_OFFLOAD_DISK, RP_OFFLOAD_MEMORY };
enum { RP_VERIFY_NEVER, RP_VERIFY_STEP, RP_VERIFY_ALWAYS };
typedef struct {
    enum { RP_BUDGET_NONE, RP_BUDGET_AUTO, RP_BUDGET_BYTES } kind;
    int64_t bytes;
} rp_budget;

typedef struct {
    enum { RP_RESUME_NO, RP_RESUME_AUTO, RP_RESUME_PATH } kind;
    const char *path;
} rp_resume;

typedef struct {
    enum { RP_RESHARD_NO, RP_RESHARD_YES, RP_RESHARD_GROUP } kind;
    int64_t ranks;                              /* of a group */
} rp_reshard;

typedef struct {
    rp_file_list path;
    int format;
    const char *column;
    bool packed, cross_documents;
    int token_type;
    const char *prompt_column;
    bool use_chat_template, train_on_input;
} rp_recipe_dataset;

#define RP_RECIPE_MAX_KEYS 128

struct rp_recipe {
    struct { const char *path, *config, *stand_in, *adapter; rp_opt_number dropout; const rp_yaml_node *overrides; } model;
    rp_text_list freeze;
    struct { rp_opt_int rank; rp_opt_number alpha, dropout; rp_text_list modules, whole; bool rslora, dora, merge; } lora;
    struct { const char *path, *chat_template; } tokenizer;
    rp_recipe_dataset dataset, dataset_val;
    bool has_dataset_val;
    rp_opt_int run_val_every_n_steps;
    int64_t max_seq_len, batch_size, gradient_accumulation_steps, epochs;
    rp_opt_int max_steps;
    bool shuffle;
    int64_t seed;
    int dtype, grad_dtype;
    struct {
        int name;
        double lr, betas[2], eps, momentum, weight_decay;
        rp_text_list no_decay;
        int state_dtype;
        bool master_weights;
        int rounding;
    } optimizer;
    int optimizer_in_bwd;                       /* rp_choice */
    struct { int name; int64_t num_warmup_steps; } lr_scheduler;
    rp_opt_number clip_grad_norm;
    struct { rp_opt_int num_output_chunks; int64_t ignore_index; int keep_logits; int objective; double mask_probability; rp_opt_int mask_token_id; }
        loss;                                   /* chunks not set: auto */
    const char *output_dir;
    rp_opt_int save_every_n_steps;
    int64_t keep_last_n;
    rp_resume resume;
    int64_t log_every_n_steps, threads;
    bool tensorboard, profile;
    const char *plan;
    rp_budget memory_budget, memory_limit;      /* of the arena · of the whole process */
    int enable_activation_checkpointing;        /* rp_switch */
    struct {
        int mode;                               /* the one that applies, whether written, switched on or implied */
        const char *layers;
        int64_t every, offset;
        rp_text_list save;
        int n_conditions;
        rp_condition **condition;
        int n_rules;
        rp_rule *rule;
        struct { int to; const char *path; } offload;
        int verify;
    } activation_checkpointing;
    struct {
        rp_opt_int ranks;
        rp_reshard reshard_after_forward;
        int64_t prefetch, reduce_behind, replicate_dim;
        rp_text_list custom_sharded_layers, modules_to_wrap;
        bool state_offload, sync_each_batch;
        int64_t timeout;                        /* seconds */
    } dist;

    bool allow_plugins;                         /* whoever loads it says so; no key does */
    const char *file;                           /* the name it was read under */
    const rp_yaml_node *given[RP_RECIPE_MAX_KEYS];   /* by line of the table: what the user wrote, NULL for a default */
    rp_yaml_doc doc;
};

/* Read a recipe from its file, or from a text read under `name`. `setting` are KEY=VALUE and ~KEY arguments, applied in
 * order. The report gets every message, notes of a good recipe too, and borrows nothing.
 * owner   the recipe is yours: rp__recipe_free
 * errors  RP_ERR_CONFIG the report says why, rp_error has the first; or there is no such file · RP_ERR_IO reading failed */
rp_status rp__recipe_load(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, rp_report *report,
                          rp_recipe **out);
rp_status rp__recipe_read(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, int n_settings,
                          const char *const *setting, rp_report *report, rp_recipe **out);
/* As load; a recipe whose keys are wrong is given, too, with defaults in their places: to find what else is wrong. *out NULL: it could not
 * be read that far. Where it names no budget, or a larger one, its budget is `most_bytes`; 0: as it says. */
rp_status rp__recipe_load_with_errors(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, int64_t most_bytes,
                                      rp_report *report, rp_recipe **out);
void rp__recipe_free(rp_recipe *recipe);

/* The resolved recipe as YAML, in `bump`; reading it gives the same recipe. */
rp_status rp__recipe_write(const rp_recipe *recipe, rp_bump *bump, const char **out);

/* Does a key bound the arena? */
static inline bool rp__recipe_is_bounded(const rp_recipe *r) { return r->memory_budget.kind != RP_BUDGET_NONE || r->memory_limit.kind != RP_BUDGET_NONE; }

/* What the user wrote for a key ("optimizer.lr"); NULL: it has its default. */
const rp_yaml_node *rp__recipe_given(const rp_recipe *recipe, const char *path);
/* Where to point for a key: where it was written, else the recipe's name. */
rp_place rp__recipe_place(const rp_recipe *recipe, const char *path);

/* Is there a key of that path? */
bool rp__recipe_has_key(const char *path);
/* What to write for a key that other systems have; NULL: it is none of them. The i-th of all there are; NULL: past the last. */
const char *rp__recipe_elsewhere(const char *path);
const char *rp__recipe_elsewhere_at(int i);

/* In parts of how many ranks gathered weights stay; 0: they do not, or stay whole. */
static inline int64_t rp__recipe_stay(const rp_recipe *recipe)
{
    const rp_reshard *r = &recipe->dist.reshard_after_forward;

    return r->kind == RP_RESHARD_GROUP ? r->ranks : 0;
}

/* Open the libraries of its plug-ins. They stay open until the recipe goes; a second call does nothing. The only place where what a file
 * names is run: without `allow_plugins` a recipe that has a plug-in is refused here.
 * errors  RP_ERR_CONFIG a plug-in is not allowed · RP_ERR_MATCH the report says what is not there */
rp_status rp__recipe_open_plugins(const rp_recipe *recipe, rp_report *report);
/* Check that the files of its plug-ins are there, and run nothing. errors RP_ERR_MATCH */
rp_status rp__recipe_look_at_plugins(const rp_recipe *recipe, rp_report *report);
/* Which modules become regions, and what decides fates. A selection borrows the recipe, whose plug-ins are open. errors RP_ERR_MEMORY */
rp_status rp__recipe_selection(const rp_recipe *recipe, rp_ctx *ctx, rp_selection *out);
/* May a rule offload? */
bool rp__recipe_offloads(const rp_recipe *recipe);
/* Are its samples prompts with answers? Is a chat template asked for them, or for conversations? */
bool rp__dataset_has_pairs(const rp_recipe_dataset *dataset);
bool rp__dataset_by_template(const rp_recipe_dataset *dataset);
/* Is a validation set scored? One alone, without a word on when, is not read. */
bool rp__recipe_validates(const rp_recipe *recipe);

/* Keys that say how ranks share are notes: there is one. */
void rp__recipe_note_alone(const rp_recipe *recipe, rp_report *report);

/* Report what training needs beside a valid recipe and a plan does not: data. */
void rp__recipe_check_train(const rp_recipe *recipe, rp_report *report);

/* Report every key that a resumed run may not change: `before` is the config.yaml of the state. Free are budget,
 * checkpointing, offload, the length of the run, what is logged, scored and saved; and, while the global batch stays the
 * same, ranks, batch_size, accumulation and dist. */
void rp__recipe_check_resume(const rp_recipe *before, int64_t before_ranks, const rp_recipe *now, int64_t now_ranks,
                             rp_report *report);

/* The model as far as a recipe's names go. A parameter has a NULL type. */
typedef struct { const char *path, *type; const rp_module *in; } rp_recipe_module;
/* Paths and globs that match no module, `layers` that is no list of modules, block numbers beyond the last, ops that are
 * not in `known_ops` (ends with NULL): errors. */
void rp__recipe_check_model(const rp_recipe *recipe, int n_modules, const rp_recipe_module *module,
                            const char *const *known_ops, rp_report *report);
/* After a step: ops that the recipe names and the step did not call (`calls` says of a glob), and rules that decided nothing, are
 * notes. `policy` (may be NULL) is that of the recipe's selection, and has decided in the step. */
void rp__recipe_note_idle(const rp_recipe *recipe, bool (*calls)(void *user, const char *op), void *user, const rp_policy *policy,
                          rp_report *report);

/* docs/recipe.md, from the table. */
rp_status rp__recipe_manual(rp_bump *bump, const char **out);

#endif
