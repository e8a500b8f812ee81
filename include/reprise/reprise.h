/* reprise.h -- train transformers inside a memory budget you name.
 *
 *   status   every call that can fail returns rp_status. On failure outputs are untouched and rp_error(ctx) holds
 *            one sentence, valid until the next failing call on that ctx.
 *   owner    *_new, *_load, *_build give you an owner; return it with the matching *_free (NULL is fine).
 *            rp_tensor alone is counted: rp_tensor_ref, rp_tensor_unref. Every other pointer returned is borrowed
 *            and lives as long as the object that returned it.
 *   units    are suffixes: _bytes _flops _ns _elems _tokens. All sizes are int64_t.
 *   growth   options, and structs that are filled, may grow at their end. Macros of the functions' names pass the size that the caller was compiled
 *            with to functions *_sized, so that a program and a library of different versions fit. Options that the library does not have are
 *            RP_ERR_UNSUPPORTED unless they are 0. rp_mem is part of rp_step_facts and does not grow.
 *   order    self, inputs, options, outputs.     threads: one ctx, one thread at a time; each thread may have ctxs of its own.
 *   misuse   wrong values and objects of another ctx are errors. NULL for an argument that is needed is RP_ERR_ARG; a function without a status
 *            then does nothing, or returns 0, NULL, "" or its fallback. Undefined are an object after its *_free or its last unref, and two threads
 *            on one ctx.
 */
#ifndef REPRISE_H
#define REPRISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reprise/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_VERSION_MAJOR 0
#define RP_VERSION_MINOR 1
#define RP_VERSION_PATCH 0

typedef struct rp_ctx rp_ctx;         /* errors, ledger, random streams, devices */
typedef struct rp_tensor rp_tensor;   /* shape, dtype and a counted share of one storage */
typedef struct rp_module rp_module;   /* a tree of named parts: "layers.3.mlp.up" */
typedef struct rp_condition rp_condition;   /* which modules become regions */
typedef struct rp_policy rp_policy;   /* rules: which slots are kept, recomputed, offloaded */
typedef struct rp_step_plan rp_step_plan;   /* what a step keeps for backward and where each buffer lies, for a budget */
typedef struct rp_model rp_model;     /* a language model: modules, parameters, config */
typedef struct rp_tokenizer rp_tokenizer;
typedef struct rp_recipe rp_recipe;   /* a checked YAML file: model, data, optimizer, checkpointing */
typedef struct rp_trainer rp_trainer; /* a recipe in motion */

/* "0.1.0" */
RP_API const char *rp_version(void);

/* ---- context ---- */

typedef struct {
    int64_t memory_limit_bytes;   /* 0: no limit but the machine's. Bounds reserved bytes of every device. Before a call fails for it, slots that
                                     can be made again are dropped; a must is kept. Gradients are the same bits */
    int threads;                  /* 0 to 4096. 0: all cores this process may use */
    bool shapes_only;             /* tensors get shapes and addresses but no memory; ops run their declarations alone */
    uint64_t seed;
    const char *device;           /* NULL or "cpu"; "sim" and "sealed" are for tests */
} rp_ctx_options;

/* A new context; NULL options are all zero.
 * errors  RP_ERR_ARG unknown device, negative numbers, more than 4096 threads · RP_ERR_MEMORY
 *         (a message without a context goes nowhere, so the status tells all) */
RP_API rp_status rp_ctx_new(const rp_ctx_options *options, rp_ctx **out);
RP_API rp_status rp_ctx_new_sized(size_t size, const rp_ctx_options *options, rp_ctx **out);
#define rp_ctx_new(...) rp_ctx_new_sized(sizeof(rp_ctx_options), __VA_ARGS__)

/* Frees everything the context owns. Tensors and modules of it must be gone: a leak is a bug and aborts in debug builds. */
RP_API void rp_ctx_free(rp_ctx *ctx);

/* The sentence of the last failing call, "" if none failed. */
RP_API const char *rp_error(const rp_ctx *ctx);

/* For functions of yours that a call runs (a step, an rp_checkpoint_function, the shape of an op): record why they fail, written as printf
 * writes it, and return `status`. */
RP_API rp_status rp_fail(rp_ctx *ctx, rp_status status, const char *format, ...) RP_PRINTF(3, 4);

/* ---- memory ---- */

typedef enum {
    RP_MEM_PARAM, RP_MEM_GRAD, RP_MEM_OPTIM, RP_MEM_SAVED, RP_MEM_TEMP, RP_MEM_COMM, RP_MEM_CLASSES
} rp_mem_class;

/* Bytes held on one device. live and peak count requested bytes; *_alloc_bytes the same rounded up to 64 each;
 * reserved_bytes is the pool's high water. peak_at[] splits the instant of the peak: its sum is peak_bytes exactly. */
typedef struct {
    int64_t live_bytes, peak_bytes, live_alloc_bytes, peak_alloc_bytes, reserved_bytes, limit_bytes;
    int64_t live_at[RP_MEM_CLASSES], peak_at[RP_MEM_CLASSES];
} rp_mem;

/* Read the ledger; when reset is true the peaks restart from the live bytes after reading. Device 0 is the context's, 1 the other one that
 * rp_set_offload was given; where there is none, all is 0. Cannot fail. */
RP_API void rp_mem_read(rp_ctx *ctx, int device, bool reset, rp_mem *out);
RP_API void rp_mem_read_sized(size_t size, rp_ctx *ctx, int device, bool reset, rp_mem *out);
#define rp_mem_read(...) rp_mem_read_sized(sizeof(rp_mem), __VA_ARGS__)

/* "param", "grad", … Never NULL. */
RP_API const char *rp_mem_class_name(rp_mem_class mem_class);

/* ---- tensors ---- */

typedef enum {
    RP_F32, RP_BF16, RP_I32,
    RP_F64,      /* for checking gradients: every op's reference runs in it, no fast kernel does */
    RP_DTYPES
} rp_dtype;

#define RP_MAX_DIM 5

/* A shape and its dtype: dense, last dimension fastest. */
typedef struct {
    rp_dtype dtype;
    int ndim;
    int64_t dim[RP_MAX_DIM];
} rp_meta;

RP_API const char *rp_dtype_name(rp_dtype dtype);      /* "fp32", "bf16", "int32", "fp64" */
RP_API int64_t rp_dtype_bytes(rp_dtype dtype);         /* of one element; 0: no such dtype */

/* A dense tensor on the context's device; contents are undefined until written. 0 dimensions are one element, a dimension of 0 is none.
 * owner   yours, with one reference
 * errors  RP_ERR_SHAPE negative or too many dimensions, or more than 2^56 bytes (a dimension of 0 counts as 1) · RP_ERR_DTYPE, RP_ERR_ARG no such
 *         dtype, no such class · RP_ERR_MEMORY */
RP_API rp_status rp_tensor_new(rp_ctx *ctx, const rp_meta *meta, rp_mem_class mem_class, rp_tensor **out);
RP_API rp_tensor *rp_tensor_ref(rp_tensor *tensor);      /* returns it; NULL is fine */
RP_API void rp_tensor_unref(rp_tensor *tensor);

RP_API const rp_meta *rp_tensor_meta(const rp_tensor *tensor);

/* Copy all elements in or out, in row-major order, converting between the tensor's dtype and doubles or int32; `count` says how
 * many they are. A write raises the storage's version; on a context of shapes alone that is all it does.
 * errors  RP_ERR_META a read where there are shapes alone · RP_ERR_ARG wrong count, a double that int32 does not hold */
RP_API rp_status rp_tensor_write(rp_tensor *tensor, const double *from, int64_t count);
RP_API rp_status rp_tensor_write_i32(rp_tensor *tensor, const int32_t *from, int64_t count);
RP_API rp_status rp_tensor_read(const rp_tensor *tensor, double *to, int64_t count);

/* Views share the storage, and gradients pass through them. reshape: same number of elements, the tensor must be dense. slice: [start,
 * start+length) of dimension `dim`. transpose: swap two dimensions. A negative `dim` counts from the end.
 * owner   the view is yours; it keeps the storage alive · errors RP_ERR_SHAPE · RP_ERR_MEMORY */
RP_API rp_status rp_tensor_reshape(rp_tensor *tensor, int ndim, const int64_t *dim, rp_tensor **out);
RP_API rp_status rp_tensor_slice(rp_tensor *tensor, int dim, int64_t start, int64_t length, rp_tensor **out);
RP_API rp_status rp_tensor_transpose(rp_tensor *tensor, int dim_a, int dim_b, rp_tensor **out);

/* ---- calls and gradients ---- */

/* Run an op by its name ("matmul"; reprise/ops.h lists them with their inputs and attributes) and record it where a gradient may be
 * wanted. attr is the op's attribute struct, copied; NULL where it has none. out[] takes as many new tensors as the op makes (one
 * but for split), yours to unref.
 * errors  RP_ERR_MATCH no such op · RP_ERR_SHAPE, RP_ERR_DTYPE, RP_ERR_ARG as the op says · RP_ERR_MEMORY */
RP_API rp_status rp_apply(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out);

/* Is the gradient of this tensor wanted? Set it before the tensor is used. A view wants and has that of the tensor it shows.
 * errors  RP_ERR_STATE the record already uses the tensor, and this would change the answer */
RP_API rp_status rp_tensor_require_grad(rp_tensor *tensor, bool wanted);

/* Gradients of everything recorded since the last backward, from a scalar, added to those there are; then the record is forgotten.
 * errors  RP_ERR_ARG `loss` is not one recorded element · RP_ERR_MUTATED a tensor that backward reads was written since ·
 *         RP_ERR_MEMORY. The record is forgotten in every case */
RP_API rp_status rp_backward(rp_ctx *ctx, rp_tensor *loss);

/* Backward with a choice; NULL options are those of rp_backward. Inside a region the record is kept in any case: the region goes on. */
typedef struct {
    bool keep_record;             /* it can be run again, from this loss or another; rp_forget ends it */
    bool keep_replays;            /* with keep_record: what replays made stays, so that the next backward need not replay */
    rp_tensor *const *only;       /* leaves: only their gradients are computed. NULL: of all */
    int n_only;
} rp_backward_options;
RP_API rp_status rp_backward_with(rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options);
RP_API rp_status rp_backward_with_sized(size_t size, rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options);
#define rp_backward_with(...) rp_backward_with_sized(sizeof(rp_backward_options), __VA_ARGS__)

/* Borrowed; NULL: none yet. */
RP_API rp_tensor *rp_tensor_grad(const rp_tensor *tensor);
RP_API void rp_tensor_drop_grad(rp_tensor *tensor);

/* Forget what was recorded without a backward. */
RP_API void rp_forget(rp_ctx *ctx);
/* Without gradients nothing is recorded and nothing saved. On at first. errors RP_ERR_MEMORY */
RP_API rp_status rp_set_grad(rp_ctx *ctx, bool on);
/* In train mode dropout acts. On at first. */
RP_API void rp_set_train(rp_ctx *ctx, bool on);
/* Begin a pass: random numbers are a function of the context's seed, this step, the module path and call, and the sample, row 0
 * of the batch being sample `sample_base` of the step. */
RP_API void rp_pass_begin(rp_ctx *ctx, int64_t step, int64_t sample_base);

/* ---- modules ---- */

RP_API const char *rp_module_path(const rp_module *module);       /* "layers.3.mlp.up"; "" of the root */
RP_API const char *rp_module_type(const rp_module *module);       /* "Linear" */
RP_API rp_module *rp_module_parent(const rp_module *module);      /* NULL of the root */
RP_API rp_module *rp_module_find(rp_module *root, const char *path);      /* NULL: none */
/* Visit root and everything under it, parents first. */
typedef void (*rp_module_visit)(const char *path, rp_module *module, void *user);
RP_API void rp_module_walk(rp_module *root, rp_module_visit visit, void *user);
/* The tree as text, a module a line; *text is yours to rp_release. Checkpointing does not show in it. errors RP_ERR_MEMORY */
RP_API rp_status rp_module_print(const rp_module *root, char **text);
/* Everything under root runs in train mode, or in evaluation mode whatever rp_set_train says. All train at first. */
RP_API void rp_module_train(rp_module *root, bool on);
/* The number of the layer that a path leads to or through: the first part that is a number ("decoder.layers.3.attn": 3). */
RP_API bool rp_path_layer(const char *path, int64_t *layer);

/* ---- activation checkpointing: regions ---- */

/* What a region computes is not kept for backward but computed again there. Gradients are the same bits whatever is chosen.
 *
 * A module is a region when the condition holds for it; of nested modules that one condition holds for only the outermost. Each call
 * adds to the choice, so that other conditions make regions inside regions; a NULL condition takes all back. Lists of modules, which
 * are not computed themselves, are passed over. Returns for how many modules this condition holds. */
typedef bool (*rp_module_condition)(const char *path, const rp_module *module, void *user);
RP_API int rp_module_checkpoint(rp_module *root, rp_module_condition condition, void *user);

/* A condition as recipes write it: "{ every_k_layers: { k: 2 } }", "{ any: [{ path: '*.mlp' }, { layers: [0, 7-9] }] }". A module type may be
 * one of your own.
 * A plug-in in the text is loaded and runs code: pass no text that you do not trust.
 * errors  RP_ERR_CONFIG the text is no condition · RP_ERR_MATCH a plug-in that is not there · RP_ERR_MEMORY */
RP_API rp_status rp_condition_read(rp_ctx *ctx, const char *text, rp_condition **out);
RP_API void rp_condition_free(rp_condition *condition);
/* For rp_module_checkpoint, with the condition as `user`. */
RP_API bool rp_condition_holds(const char *path, const rp_module *module, void *condition);

typedef struct {
    const char *name;             /* of the region, in messages and in explain; outside modules also the path of what it computes.
                                     NULL: "checkpoint". Must outlive the record */
    rp_policy *policy;            /* fates of what it computes; NULL: none of its own */
    int n_outputs;                /* that rp_checkpoint takes back, to NULL, where memory fails after fn; 0: one */
} rp_checkpoint_options;

/* Run fn as a region, whatever it calls; it is called once. outputs[] is filled by fn. NULL options are all zero. user and inputs may be NULL: they
 * are fn's.
 * errors  those of fn, after which nothing of what it recorded is left · RP_ERR_STATE fn left gradients off that were on · RP_ERR_MEMORY */
typedef rp_status (*rp_checkpoint_function)(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs);
RP_API rp_status rp_checkpoint(rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs,
                               const rp_checkpoint_options *options, rp_tensor **outputs);
RP_API rp_status rp_checkpoint_sized(size_t size, rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs,
                                     const rp_checkpoint_options *options, rp_tensor **outputs);
#define rp_checkpoint(...) rp_checkpoint_sized(sizeof(rp_checkpoint_options), __VA_ARGS__)
/* Run n functions one after the other, each on the output of the one before, in `segments` regions of consecutive functions, such
 * that the region with the most bytes has as few as can be; leave out of it what is to be kept. user[i] belongs to fn[i]; user may be NULL.
 * errors  RP_ERR_ARG segments is below 1 or above n · those of the functions */
RP_API rp_status rp_checkpoint_sequential(rp_ctx *ctx, const rp_checkpoint_function *fn, void *const *user, int n, int segments,
                                          rp_tensor *input, const rp_checkpoint_options *options, rp_tensor **output);
RP_API rp_status rp_checkpoint_sequential_sized(size_t size, rp_ctx *ctx, const rp_checkpoint_function *fn, void *const *user, int n, int segments,
                                                rp_tensor *input, const rp_checkpoint_options *options, rp_tensor **output);
#define rp_checkpoint_sequential(...) rp_checkpoint_sequential_sized(sizeof(rp_checkpoint_options), __VA_ARGS__)

/* A module of your own: conditions, policies, random numbers and messages know what it computes by its path and type, as they know a model's.
 * Its forward is a function as rp_checkpoint runs them, with one output; its weights are the program's tensors. NULL: a list, whose members
 * alone are called. parent NULL: a root, whose name may be ""; a module under one of a model's belongs to the model. name and type are copied.
 * errors  RP_ERR_ARG no type; a name that is empty, has a dot, or is a sibling's · RP_ERR_MEMORY */
RP_API rp_status rp_module_new(rp_ctx *ctx, rp_module *parent, const char *name, const char *type, rp_checkpoint_function forward, void *user,
                               rp_module **out);
/* Run its forward, as a region where the module is one, by its policy and in its mode. *output is a new reference.
 * errors  RP_ERR_ARG it is a list, or not made by rp_module_new · RP_ERR_STATE its forward made nothing · those of the forward · RP_ERR_MEMORY */
RP_API rp_status rp_module_call(rp_module *module, rp_tensor *const *inputs, rp_tensor **output);
/* A root that rp_module_new made, with all under it; no record has any of it. NULL is fine. */
RP_API void rp_module_free(rp_module *root);

/* Is an op being run again for a backward? */
RP_API bool rp_is_replaying(const rp_ctx *ctx);
/* The path of the innermost region that is being recorded or replayed; NULL outside. */
RP_API const char *rp_in_checkpoint(const rp_ctx *ctx);

/* ---- activation checkpointing: fates ---- */

/* What backward reads of what was computed is a slot. A must cannot be overruled: where it cannot be done the call fails. A preference
 * yields to a must. RP_NO_FATE leaves a slot to the next rule, in the end to the region it is made in, or to be kept outside one. */
typedef enum {
    RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD, RP_PREFER_KEEP, RP_PREFER_RECOMPUTE, RP_PREFER_OFFLOAD, RP_NO_FATE,
    RP_ALLOW_MUTATION = 64        /* or'ed to a fate: the slot may be written before its backward, which then reads what is there */
} rp_fate;

/* What is known of a slot when its fate is decided: before the call that makes it, without data. Grows at its end. */
typedef struct {
    const char *path;             /* of the module that makes it, "" outside modules */
    const rp_module *module;      /* NULL outside modules */
    const char *op;
    int call;                     /* counts the calls of this op under this path in the pass, from 0 */
    int output;                   /* which output of the call, or which by-product */
    bool by_product;              /* no output but the op's own: log-sum-exp, statistics */
    rp_meta meta;
    int64_t bytes, flops;         /* flops: of the call that makes it, once more */
    bool is_rehearsal;
} rp_slot_info;

/* An ordered list of rules. Asked once for every slot of a shape of step, in the order of the calls, views excepted; the answers are
 * used for every later step of that shape. */
RP_API rp_status rp_policy_new(rp_ctx *ctx, const char *name, rp_policy **out);
/* Rules as recipes write them: "[{ op: matmul, fate: keep }, { path: 'layers.0', fate: recompute }]".
 * A plug-in in the text is loaded and runs code: pass no text that you do not trust.
 * errors  RP_ERR_CONFIG the text is no list of rules · RP_ERR_MATCH a plug-in that is not there · RP_ERR_MEMORY */
RP_API rp_status rp_policy_read(rp_ctx *ctx, const char *name, const char *text, rp_policy **out);
/* It must be in use nowhere: no module, no context, no record has it. */
RP_API void rp_policy_free(rp_policy *policy);
/* Add a rule: slots made by ops that match `op` in modules that match `path`, and in those under them. NULL matches all.
 * errors  RP_ERR_ARG no such fate · RP_ERR_MEMORY */
RP_API rp_status rp_policy_rule(rp_policy *policy, const char *path, const char *op, rp_fate fate);
/* Add a function as a rule. reset (may be NULL) is called before each pass that asks, so that one with a state answers alike. */
typedef rp_fate (*rp_policy_function)(const rp_slot_info *slot, void *user);
RP_API rp_status rp_policy_call(rp_policy *policy, rp_policy_function function, void (*reset)(void *user), void *user);
/* The same with a yes or no: true is RP_KEEP, false is RP_PREFER_RECOMPUTE. */
typedef bool (*rp_policy_predicate)(const rp_slot_info *slot, void *user);
RP_API rp_status rp_policy_keep_if(rp_policy *policy, rp_policy_predicate predicate, void (*reset)(void *user), void *user);

/* The rules that have answered for no slot since the policy was asked from the beginning of a pass: a line each, "rule 2 (op 'matmull')", counted from 1
 * in the order they were added. Functions that gave no fate are among them. Ask after the first step of a shape. *text is yours to rp_release; NULL: every
 * rule has answered. errors RP_ERR_STATE nothing was asked yet · RP_ERR_MEMORY */
RP_API rp_status rp_policy_idle(const rp_policy *policy, char **text);

/* Decide by this policy: in everything the context records, or in what the module computes. NULL: no more. Policies stack: the
 * context's, then those of modules and regions from outside in. Different musts on one slot are an error that names both; of preferences
 * the innermost counts.
 * errors  RP_ERR_ARG a policy of another context · RP_ERR_MEMORY */
RP_API rp_status rp_set_policy(rp_ctx *ctx, rp_policy *policy);
RP_API rp_status rp_module_policy(rp_module *module, rp_policy *policy);

/* Where RP_OFFLOAD puts slots: unlinked files in a folder that exists, or the memory of another device. */
typedef struct {
    const char *folder;           /* this or `device` */
    const char *device;           /* "cpu": memory of the host that memory_limit_bytes does not count */
    int64_t buffer_bytes;         /* for files: memory between slots and disk. 0: 16 MiB */
} rp_offload_options;
/* NULL: no more offloading. errors  RP_ERR_IO the folder · RP_ERR_ARG no such device, neither or both, a buffer below 8 KiB or above 16 GiB ·
 * RP_ERR_STATE slots of a pass are away · RP_ERR_MEMORY */
RP_API rp_status rp_set_offload(rp_ctx *ctx, const rp_offload_options *options);
RP_API rp_status rp_set_offload_sized(size_t size, rp_ctx *ctx, const rp_offload_options *options);
#define rp_set_offload(...) rp_set_offload_sized(sizeof(rp_offload_options), __VA_ARGS__)

/* ---- a budget for a step of your own ---- */

/* One training step: forward, backward, update. It leaves live what was live before it (what a first step would make for all later ones, as
 * rotary tables, is made before: rp_model_reserve), drops the gradients it makes, and calls the same ops
 * on the same shapes whenever it is called, whatever the data; it looks at numbers only where the context has any. */
typedef rp_status (*rp_step_function)(rp_ctx *ctx, void *user);

/* Plan a step: what is kept, what is computed again, where each buffer lies. ctx is of shapes alone (rp_ctx_options.shapes_only); on it stands,
 * made by the same calls in the same order, what will stand on the context that runs the steps. The step is run on it three times or more.
 * budget_bytes bounds everything on the context, what stands before the step included; 0: none, all is kept; RP_LEAST_BUDGET: the least that a
 * plan keeps to; if the search for less was cut short, the sentence of a refusal says "at most". Fates that are a must hold; regions of the program are
 * the plan's to choose. Times are those of the machine's cost table.
 * errors  RP_ERR_BUDGET no plan fits; the sentence has the least and the op that sets it · RP_ERR_ARG the context has data, the budget is
 *         negative · RP_ERR_STATE the step leaves something live, or takes it away · those of the step · RP_ERR_MEMORY */
#define RP_LEAST_BUDGET ((int64_t)-1)
RP_API rp_status rp_plan_step(rp_ctx *ctx, rp_step_function step, void *user, int64_t budget_bytes, rp_step_plan **out);
RP_API void rp_step_plan_free(rp_step_plan *plan);

/* Run a step as planned; the context has the threads and the device of the one it was planned on. The first run reserves the memory. What the
 * step recorded and left is forgotten.
 * errors  RP_ERR_STATE what is live before the step, its calls or its buffers are not those that were planned · RP_ERR_MEMORY the context's
 *         limit is below what the plan reserves · those of the step */
RP_API rp_status rp_step_plan_run(rp_step_plan *plan, rp_ctx *ctx, rp_step_function step, void *user);

/* Every step takes exactly this; seconds are predicted. Grows at its end. */
typedef struct {
    rp_mem memory;                /* its peaks; reserved_bytes is what the plan reserves */
    int64_t bound_bytes;          /* no arrangement of these buffers reserves less */
    int64_t step_flops, recompute_flops;
    double seconds, recompute_seconds;      /* of a step that computes nothing again; of what is, and of waiting for what is away */
    double bound_seconds;         /* no schedule within the budget computes less again */
    int n_calls, n_recomputed;    /* of all passes that differ: calls; those computed again, alone */
    int n_regions;                /* stretches of calls that are computed again */
    int64_t offloaded_bytes;      /* by the plan, or by a must */
    int n_offloaded;              /* calls of which the plan has offloaded something */
} rp_step_facts;
RP_API void rp_step_plan_read(const rp_step_plan *plan, rp_step_facts *out);
RP_API void rp_step_plan_read_sized(size_t size, const rp_step_plan *plan, rp_step_facts *out);
#define rp_step_plan_read(...) rp_step_plan_read_sized(sizeof(rp_step_facts), __VA_ARGS__)

/* Compare what replays make with what the first pass made: RP_VERIFY_ON and RP_VERIFY_OFF overrule recipes and everything else,
 * RP_VERIFY_DEFER (at first) does not. The variable REPRISE_VERIFY=on|off sets it when a context is made. */
typedef enum { RP_VERIFY_DEFER, RP_VERIFY_ON, RP_VERIFY_OFF } rp_verify;
RP_API void rp_set_verify(rp_ctx *ctx, rp_verify verify);

/* A condition in a library of your own, named by a recipe: { plugin: { library: ./mine.so, symbol: wide, args: { k: 4 } } }. Asked about
 * a module, slot is NULL; in a rule it is asked about slots, module and path being those of the module that makes it. */
typedef struct rp_args rp_args;
typedef bool (*rp_plugin)(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args);
/* The arguments the recipe gives; the fallback where it does not, or where they are of another kind. An int may be a size ("16KiB"). */
RP_API int64_t rp_args_int(const rp_args *args, const char *name, int64_t fallback);
RP_API double rp_args_number(const rp_args *args, const char *name, double fallback);
RP_API const char *rp_args_text(const rp_args *args, const char *name, const char *fallback);

/* ---- models ---- */

typedef struct {
    rp_dtype dtype;               /* of parameters and activations: RP_F32 or RP_BF16 */
    bool checkpoint;              /* every block is computed again in backward … */
    rp_module_condition checkpoint_if;   /* … or the modules for which this holds; NULL: none */
    void *checkpoint_user;
    rp_policy *policy;            /* fates of what the model computes; must outlive it. NULL: none of its own */
} rp_model_options;

/* A model with its weights, from a Hugging Face directory, a .gguf file, or the folder of an adapter as peft writes it: then the weights that
 * the adapter goes beside want no gradient. Of a directory with other parts, for images, it is the text model. NULL options are all zero.
 * errors  RP_ERR_IO · RP_ERR_MATCH a folder without weights · RP_ERR_FORMAT · RP_ERR_CONFIG · RP_ERR_UNSUPPORTED a family or field not honoured,
 *         named · RP_ERR_MEMORY */
RP_API rp_status rp_model_load(rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out);
RP_API rp_status rp_model_load_sized(size_t size, rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out);
#define rp_model_load(...) rp_model_load_sized(sizeof(rp_model_options), __VA_ARGS__)
/* The same with random weights, from a config.json and the context's seed. */
RP_API rp_status rp_model_new(rp_ctx *ctx, const char *config, const rp_model_options *options, rp_model **out);
RP_API rp_status rp_model_new_sized(size_t size, rp_ctx *ctx, const char *config, const rp_model_options *options, rp_model **out);
#define rp_model_new(...) rp_model_new_sized(sizeof(rp_model_options), __VA_ARGS__)
/* What was recorded with it must be gone: rp_backward or rp_forget. */
RP_API void rp_model_free(rp_model *model);
RP_API rp_module *rp_model_root(rp_model *model);

/* Parameters in the order of the forward, a tied weight once; the tensor is borrowed. NULL past the end. */
RP_API rp_tensor *rp_model_param(const rp_model *model, int i, const char **path);

/* Make what depends on the length of rows alone (tables of rotary positions) for rows up to `length`; else the first row that long makes it.
 * errors RP_ERR_ARG more than the model's context · RP_ERR_MEMORY */
RP_API rp_status rp_model_reserve(rp_model *model, int64_t length);
/* tokens int32 [rows, length] to logits [rows, length, vocabulary] of the model's dtype, yours.
 * errors  RP_ERR_SHAPE · RP_ERR_ARG an id outside · RP_ERR_MEMORY */
RP_API rp_status rp_model_logits(rp_model *model, rp_tensor *tokens, rp_tensor **logits);
/* labels int32 [rows, length]: what each place should predict (nothing is shifted here), -100 where nothing. loss fp32 [1] = weight * the sum
 * of -log p, yours. errors as rp_model_logits */
RP_API rp_status rp_model_loss(rp_model *model, rp_tensor *tokens, rp_tensor *labels, float weight, rp_tensor **loss);

/* Write config.json and model.safetensors as transformers reads them into a directory that exists; an adapter is added into the weights.
 * errors RP_ERR_IO */
RP_API rp_status rp_model_save(rp_model *model, const char *directory);

/* ---- tokenizers ---- */

/* `path`: a Hugging Face directory, a tokenizer.json, or a .gguf file. errors RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED */
RP_API rp_status rp_tokenizer_load(rp_ctx *ctx, const char *path, rp_tokenizer **out);
RP_API void rp_tokenizer_free(rp_tokenizer *tokenizer);
/* UTF-8 to ids and back, neither bos nor eos added; bytes that are no UTF-8 are read as U+FFFD. *ids and *text are yours to rp_release, *ids NULL
 * where there are none. errors RP_ERR_ARG an id outside the vocabulary, a negative count · RP_ERR_MEMORY */
RP_API rp_status rp_tokenizer_encode(rp_tokenizer *tokenizer, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids);
RP_API rp_status rp_tokenizer_decode(rp_tokenizer *tokenizer, const int32_t *ids, int64_t n_ids, char **text, int64_t *bytes);
RP_API void rp_release(void *memory);

/* ---- training ---- */

/* A line of metrics.jsonl. Sizes in bytes. */
typedef struct {
    int64_t step;                 /* from 1 */
    double loss, lr, grad_norm;   /* grad_norm before clipping */
    int64_t tokens;               /* input tokens of the step, padding excluded */
    double step_seconds, tokens_per_second;
    int64_t peak_memory_active, peak_memory_alloc, peak_memory_reserved, saved_bytes;
    int64_t recompute_flops, step_flops, offloaded_bytes, rss;
    bool has_val_loss;
    double val_loss;
} rp_metrics;

/* Read a recipe: a YAML or JSON file with n_settings KEY=VALUE changes. The sentence of rp_error names the first error and how many
 * more there are. errors RP_ERR_CONFIG · RP_ERR_IO */
RP_API rp_status rp_recipe_load(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, rp_recipe **out);
/* Allow rp_trainer_new to load the libraries that the recipe names as plug-ins (default: false). A library runs code of its author as soon as
 * it is loaded: allow it for recipes that you trust. Without it such a recipe is refused with RP_ERR_CONFIG. */
RP_API void rp_recipe_allow_plugins(rp_recipe *recipe, bool allow);
RP_API void rp_recipe_free(rp_recipe *recipe);

/* Everything before step 1, or before the step a resume goes on with: model, data, optimizer states, a rehearsal of the step's
 * memory. The recipe is borrowed until free; its seed becomes the context's, and its threads, where set, must be the context's.
 * output_dir is made last. The context has one trainer at a time, and with a budget nothing else may live on it from here on.
 * errors  RP_ERR_CONFIG, RP_ERR_MATCH, RP_ERR_FORMAT, RP_ERR_UNSUPPORTED, RP_ERR_EXISTS input · RP_ERR_ARG a recipe of another context ·
 *         RP_ERR_META a context of shapes alone · RP_ERR_MEMORY · RP_ERR_IO */
RP_API rp_status rp_trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_trainer **out);
RP_API void rp_trainer_free(rp_trainer *trainer);
RP_API int64_t rp_trainer_steps(const rp_trainer *trainer);       /* of the whole run */
RP_API int64_t rp_trainer_done(const rp_trainer *trainer);        /* so far */
RP_API rp_model *rp_trainer_model(rp_trainer *trainer);
/* One optimizer step, and what is due after it: validation, a line of metrics.jsonl, a state. `line` may be NULL.
 * errors  RP_ERR_NONFINITE · RP_ERR_MEMORY · RP_ERR_IO */
RP_API rp_status rp_trainer_step(rp_trainer *trainer, rp_metrics *line);
RP_API rp_status rp_trainer_step_sized(size_t size, rp_trainer *trainer, rp_metrics *line);
#define rp_trainer_step(...) rp_trainer_step_sized(sizeof(rp_metrics), __VA_ARGS__)
/* A state to resume from, now. */
RP_API rp_status rp_trainer_save(rp_trainer *trainer);
/* The last state, and final/ for transformers to load. */
RP_API rp_status rp_trainer_finish(rp_trainer *trainer);
/* output_dir/report.html: what was learnt so far, and every byte of a step, as one page. Between any two steps; it changes no bit of the next.
 * Of several ranks the first one writes it. errors RP_ERR_MEMORY · RP_ERR_IO; the page that was there stays */
RP_API rp_status rp_trainer_report(rp_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
