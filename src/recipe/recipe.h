/* recipe/recipe.h -- a recipe: a YAML or JSON file, KEY=VALUE changes, and the struct that they become.
 *
 *   text ─ rp__yaml_parse ─▶ tree ─ overrides ─▶ ─ ${...} ─▶ ─ keys of other systems ─▶ schema walk ─▶ rp_recipe
 *
 * Every key is one line of the table in schema.c: its path, type, range, default and help. One reading finds all errors; the report lists them with
 * their lines. Translated keys and keys without effect are notes. Errors that need the model come from rp__recipe_check_model. A recipe owns its
 * texts and trees.
 */
#ifndef RP_RECIPE_H
#define RP_RECIPE_H

#include "reprise/train.h"
#include "kernels/optim.h"
#include "policy/modes.h"

typedef enum { RP_DEVICE_CPU, RP_DEVICE_SIM, RP_DEVICE_EMU, RP_DEVICE_CUDA } rp_recipe_device;

typedef struct { bool set; int64_t value; } rp_opt_int;
typedef struct { bool set; double value; } rp_opt_number;
typedef struct { int n; const char **item; } rp_text_list;
typedef struct { const char *first; rp_text_list all; } rp_file_list;       /* first NULL: no files */

/* Words of the schema, in the order of the table. */
typedef enum { RP_NO, RP_YES, RP_AUTO } rp_choice;                         /* optimizer_in_bwd, loss.keep_logits */
typedef enum { RP_SWITCH_UNSET, RP_SWITCH_ON, RP_SWITCH_OFF } rp_switch;   /* enable_activation_checkpointing */
enum { RP_FORMAT_TEXT, RP_FORMAT_JSONL, RP_FORMAT_TOKENS, RP_FORMAT_CHAT, RP_FORMAT_ALPACA };
enum { RP_TOKEN_U16, RP_TOKEN_U32 };
enum { RP_TRAIN_BF16, RP_TRAIN_FP32 };
enum { RP_GRAD_AS_DTYPE, RP_GRAD_FP32 };
enum { RP_KEEP_NO_BEST, RP_KEEP_VAL_LOSS };
#define RP_MASK_PROBABILITY 0.15        /* the default */
enum { RP_OBJECTIVE_OF_MODEL, RP_OBJECTIVE_CAUSAL, RP_OBJECTIVE_MASKED };
enum { RP_FINAL_SAFETENSORS, RP_FINAL_GGUF };
enum { RP_OPTIMIZER_ADAMW, RP_OPTIMIZER_SGD };
enum { RP_QUANTIZE_NO, RP_QUANTIZE_KEEP, RP_QUANTIZE_NF4, RP_QUANTIZE_Q8_0, RP_QUANTIZE_Q4_0 };
enum { RP_STATE_FP32, RP_STATE_BF16, RP_STATE_INT8 };
enum { RP_ROUND_NEAREST, RP_ROUND_STOCHASTIC };
enum { RP_LR_CONSTANT, RP_LR_COSINE, RP_LR_LINEAR };
enum { RP_OFFLOAD_DISK, RP_OFFLOAD_MEMORY };
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
    int64_t ranks;                              /* of a group; used only with RP_RESHARD_GROUP */
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
    struct { const char *path, *config, *stand_in, *adapter; rp_opt_number dropout; const rp_yaml_node *overrides; int quantize; bool mapped; } model;
    rp_text_list freeze;
    struct { rp_opt_int rank; rp_opt_number alpha, dropout; rp_text_list modules, whole; bool rslora, dora, merge; } lora;
    struct { const char *path, *chat_template; } tokenizer;
    rp_recipe_dataset dataset, dataset_val;
    bool has_dataset_val;
    rp_opt_int run_val_every_n_steps;
    rp_text_list sample_prompts;
    rp_opt_int sample_every;
    int64_t sample_tokens;
    int keep_best;
    struct { rp_opt_int patience; double min_delta; } early_stopping;
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
        loss;                                   /* num_output_chunks not set: auto */
    const char *output_dir;
    int final_format;                           /* RP_FINAL_… */
    rp_opt_int save_every_n_steps;
    int64_t keep_last_n;
    rp_resume resume;
    int device;                                 /* rp_recipe_device */
    int64_t log_every_n_steps, threads;
    bool tensorboard, profile;
    const char *plan;
    rp_budget memory_budget, memory_limit;      /* of the arena · of the whole process */
    int enable_activation_checkpointing;        /* rp_switch */
    struct {
        int mode;                               /* the mode that applies: given, set by the plain switch, or implied */
        const char *layers;
        int64_t every, offset;
        rp_text_list save;
        int n_conditions;
        rp_condition **condition;
        int n_rules;
        rp_rule *rule;
        struct { int to; const char *path; } offload;
        int verify;                             /* rp_tape_verify */
    } activation_checkpointing;
    struct {
        rp_opt_int ranks;
        rp_reshard reshard_after_forward;
        int64_t prefetch, reduce_behind, replicate_dim;
        rp_text_list custom_sharded_layers, modules_to_wrap;
        bool state_offload, sync_each_batch;
        int64_t timeout;                        /* seconds */
    } dist;

    bool allow_plugins;                         /* set by the caller that loads the recipe; no key sets it */
    rp_documents documents;                     /* the same: documents of the program replace `dataset`; NULL: none */
    void *documents_user;
    const char *file;                           /* the name under which it was read */
    const rp_yaml_node *given[RP_RECIPE_MAX_KEYS];   /* by index in the table: the user's value, NULL for a default */
    rp_yaml_doc doc;
};

/* Read a recipe from its file / from a text, under `name` in messages. `setting` has KEY=VALUE and ~KEY arguments, applied in order. The report
 * collects every message, including the notes of a valid recipe, and borrows nothing.
 * owner   the recipe is yours: rp__recipe_free
 * errors  RP_ERR_CONFIG the recipe is wrong (the report has all reasons, rp_error the first) or the file cannot be opened · RP_ERR_IO · RP_ERR_MEMORY */
rp_status rp__recipe_load(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, rp_report *report,
                          rp_recipe **out);
rp_status rp__recipe_read(rp_ctx *ctx, const char *name, const char *text, int64_t bytes, int n_settings,
                          const char *const *setting, rp_report *report, rp_recipe **out);
/* As rp__recipe_load, but return a recipe with wrong keys, too, with defaults in their places, so that the caller can look for further errors. *out
 * is NULL if the reading did not get that far. `most_bytes` limits the memory budget: it replaces a missing or larger one; 0: no limit.
 * errors  as rp__recipe_load */
rp_status rp__recipe_load_with_errors(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, int64_t most_bytes,
                                      rp_report *report, rp_recipe **out);
void rp__recipe_free(rp_recipe *recipe);

/* Write the resolved recipe as YAML into `bump`. Reading it gives the same recipe. errors RP_ERR_MEMORY */
rp_status rp__recipe_write(const rp_recipe *recipe, rp_bump *bump, const char **out);

/* Does a key limit the size of the arena? */
static inline bool rp__recipe_is_bounded(const rp_recipe *r) { return r->memory_budget.kind != RP_BUDGET_NONE || r->memory_limit.kind != RP_BUDGET_NONE; }

/* The user's value for a key ("optimizer.lr"); NULL if the key has its default. */
const rp_yaml_node *rp__recipe_given(const rp_recipe *recipe, const char *path);
/* The place to name in a message about a key: the key's line if the user set it, otherwise the recipe's name. */
rp_place rp__recipe_place(const rp_recipe *recipe, const char *path);

/* Does the key exist? */
bool rp__recipe_has_key(const char *path);
/* Hint for a key of another system: the key to write instead; NULL if the key is unknown. / Hint number i of all; NULL past the last. */
const char *rp__recipe_elsewhere(const char *path);
const char *rp__recipe_elsewhere_at(int i);

/* The dtype of optimizer states, and the number of elements of which slices hold a multiple (rp__ranks_slice). */
static inline rp_dtype rp__recipe_states(const rp_recipe *recipe)
{
    int dtype = recipe->optimizer.state_dtype;

    return dtype == RP_STATE_INT8 ? RP_U8 : dtype == RP_STATE_BF16 ? RP_BF16 : RP_F32;
}
static inline int64_t rp__recipe_slice_elems(const rp_recipe *recipe) { return recipe->optimizer.state_dtype == RP_STATE_INT8 ? RP_OPTIM_BLOCK : 0; }

/* Number of ranks of the groups within which gathered weights stay; 0 if they are freed after the forward, or stay whole on each rank. */
static inline int64_t rp__recipe_stay(const rp_recipe *recipe)
{
    const rp_reshard *r = &recipe->dist.reshard_after_forward;

    return r->kind == RP_RESHARD_GROUP ? r->ranks : 0;
}

/* Open the libraries of the recipe's plug-ins. They stay open until the recipe is freed; a second call does nothing. This is the only place that runs
 * code named by a file: without `allow_plugins` a recipe with a plug-in is refused here.
 * errors  RP_ERR_CONFIG a plug-in is not allowed · RP_ERR_MATCH a library or symbol is missing (the report names it) */
rp_status rp__recipe_open_plugins(const rp_recipe *recipe, rp_report *report);
/* Check that the files of the plug-ins exist, without running them. errors RP_ERR_MATCH */
rp_status rp__recipe_look_at_plugins(const rp_recipe *recipe, rp_report *report);
/* Derive which modules become regions and which rules decide fates. The selection borrows the recipe, whose plug-ins must be open.
 * errors  RP_ERR_MEMORY */
rp_status rp__recipe_selection(const rp_recipe *recipe, rp_ctx *ctx, rp_selection *out);
/* Is there a rule that may offload? */
bool rp__recipe_offloads(const rp_recipe *recipe);
/* Are the samples prompts with answers? / Does a chat template write the samples (prompts with answers, or conversations)? */
bool rp__dataset_has_pairs(const rp_recipe_dataset *dataset);
bool rp__dataset_by_template(const rp_recipe_dataset *dataset);
/* Is a validation set scored? A validation set without `run_val_every_n_steps` is not read. */
bool rp__recipe_validates(const rp_recipe *recipe);

/* For a run with one rank: note the keys under `dist` that have no effect. */
void rp__recipe_note_alone(const rp_recipe *recipe, rp_report *report);

/* Report the keys that training needs in addition to a valid recipe and that a plan does not need: the data. */
void rp__recipe_check_train(const rp_recipe *recipe, rp_report *report);

/* Report every key that a resumed run may not change. `before` is the config.yaml of the state. These may change: memory budget, checkpointing,
 * offload, the length of the run, logging, scoring and saving. While the global batch stays the same, these may change, too: ranks, batch_size,
 * gradient accumulation and dist. */
void rp__recipe_check_resume(const rp_recipe *before, int64_t before_ranks, const rp_recipe *now, int64_t now_ranks,
                             rp_report *report);

/* The names of a model that a recipe can refer to. A parameter has a NULL type. */
typedef struct { const char *path, *type; const rp_module *in; } rp_recipe_module;
/* Check the names in a recipe against a model. `known_ops` is a list that ends with NULL. These are errors in the report: a path or glob that matches
 * no module, a `layers` that is not a list of modules, a block number beyond the last, an op that is not in `known_ops`. */
void rp__recipe_check_model(const rp_recipe *recipe, int n_modules, const rp_recipe_module *module,
                            const char *const *known_ops, rp_report *report);
/* After a step: note the ops that the recipe names but the step did not call, and the rules that decided nothing. `calls` returns whether the step
 * called an op that matches a glob. `policy` (may be NULL) belongs to the recipe's selection and has decided during the step. */
void rp__recipe_note_idle(const rp_recipe *recipe, bool (*calls)(void *user, const char *op), void *user, const rp_policy *policy,
                          rp_report *report);

/* Write docs/recipe.md from the table. errors RP_ERR_MEMORY */
rp_status rp__recipe_manual(rp_bump *bump, const char **out);

#endif
