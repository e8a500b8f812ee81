/* reprise/reprise.h -- the public interface of Reprise: training transformers within a memory budget.
 *
 *   status   A function that can fail returns rp_status. If it fails, its outputs are unchanged unless its comment says otherwise, and
 *            rp_error(ctx) returns the error message. The message is valid until the next call on that ctx fails.
 *   errors   Each function lists the errors that it adds to these: RP_ERR_ARG for misuse, RP_ERR_UNSUPPORTED for unknown options, RP_ERR_MEMORY
 *            if memory runs out or memory_limit_bytes would be exceeded.
 *   owner    *_new, *_load, rp_condition_read, rp_policy_read and rp_plan_step create an object that you own. Free it with the matching *_free;
 *            NULL is ignored. Tensors are reference counted (rp_tensor_ref, rp_tensor_unref). Text and arrays that are yours are freed with
 *            rp_release. Every other returned pointer is borrowed: it is valid as long as the object that returned it.
 *   units    A suffix names the unit: _bytes _flops _seconds _elems. Sizes in bytes are int64_t.
 *   growth   Structs of options, and structs that the library fills, may grow at their end. A macro with the name of the function passes the size
 *            of the struct that the caller was compiled with to the function *_sized. So a program works with a library of another version.
 *            Options that the library does not have must be 0, else RP_ERR_UNSUPPORTED. rp_mem is a part of rp_step_facts and does not grow.
 *   order    of parameters: self, inputs, options, outputs.
 *   threads  Only one thread at a time may use a ctx. Different threads may use different ctxs at the same time.
 *   misuse   Wrong values and objects of another ctx are RP_ERR_ARG. So is NULL for a required argument; a function that returns no rp_status then
 *            does nothing, or returns 0, NULL, "" or its fallback. Undefined behaviour: using an object after its *_free or its last unref, and
 *            two threads on one ctx.
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

typedef struct rp_ctx rp_ctx;         /* error message, ledger of memory, random streams, devices, threads */
typedef struct rp_tensor rp_tensor;   /* a shape, a dtype and a counted reference to a storage */
typedef struct rp_module rp_module;   /* a node in a tree of named parts: "layers.3.mlp.up" */
typedef struct rp_condition rp_condition;   /* selects the modules that become regions */
typedef struct rp_policy rp_policy;   /* rules that select the slots to keep, recompute or offload */
typedef struct rp_step_plan rp_step_plan;   /* for one step and one budget: the fate of each slot and the address of each buffer */
typedef struct rp_model rp_model;     /* a language model: modules, parameters, configuration */
typedef struct rp_tokenizer rp_tokenizer;
typedef struct rp_recipe rp_recipe;   /* a checked YAML file: model, data, optimizer, checkpointing */
typedef struct rp_trainer rp_trainer; /* a training run of a recipe */

/* The version of the library: "0.1.0". */
RP_API const char *rp_version(void);

/* ---- context ---- */

/* The levels of messages. The library prints nothing: rp_error has the error of a call, and these messages come in addition. */
typedef enum {
    RP_LOG_INFO,                  /* progress: a plan is found, a state is saved, kernels are loaded */
    RP_LOG_NOTE,                  /* about a setting: it has no effect, it is read in another way, a run resumes */
    RP_LOG_WARNING,               /* results are right, but time is lost: values are dropped under a memory limit, the host computes an op of a GPU */
    RP_LOG_ERROR                  /* each error of a recipe or of a text with rules. rp_error has the first of them */
} rp_log_level;
/* Receives one message: a line without a newline, valid during the call. It runs in the thread that called the library and must not use the ctx. */
typedef void (*rp_log_function)(rp_log_level level, const char *text, void *user);

typedef struct {
    int64_t memory_limit_bytes;   /* limit on the reserved bytes of each device. Default: 0 (no limit). Under memory pressure recomputable slots are
                                     dropped before a call fails; must-keep slots are never dropped. Gradients stay bit-identical */
    int threads;                  /* 0 to 4096. Default: 0 (all cores that this process may use) */
    bool shapes_only;             /* tensors get shapes and addresses but no memory; ops check and declare but compute nothing. Default: false */
    uint64_t seed;                /* of random weights and of dropout. Default: 0 */
    const char *device;           /* default: NULL ("cpu"). "cuda": an NVIDIA GPU. "emu": the same code on an emulated GPU. "sim", "sealed": for tests */
    rp_log_function log;          /* receives messages. Default: NULL (they are dropped) */
    void *log_user;               /* passed to `log` */
} rp_ctx_options;

/* Create a context. options: NULL means all defaults.
 * errors  RP_ERR_ARG unknown device, a negative number, more than 4096 threads · RP_ERR_UNSUPPORTED · RP_ERR_MEMORY
 *         RP_ERR_BACKEND the device cannot be used. rp_error(NULL) has the message */
RP_API rp_status rp_ctx_new(const rp_ctx_options *options, rp_ctx **out);
RP_API rp_status rp_ctx_new_sized(size_t size, const rp_ctx_options *options, rp_ctx **out);
#define rp_ctx_new(...) rp_ctx_new_sized(sizeof(rp_ctx_options), __VA_ARGS__)

/* Free the context and everything it owns. Free its tensors and modules first: a leak aborts debug builds. */
RP_API void rp_ctx_free(rp_ctx *ctx);

/* The error message of the last call that failed; "" if none failed. ctx NULL: of this thread's last rp_ctx_new. */
RP_API const char *rp_error(const rp_ctx *ctx);

/* Record an error message (printf format) and return `status`. For your functions that the library calls: a step, an rp_checkpoint_function,
 * the shape of an op. */
RP_API rp_status rp_fail(rp_ctx *ctx, rp_status status, const char *format, ...) RP_PRINTF(3, 4);

/* ---- memory ---- */

typedef enum {
    RP_MEM_PARAM, RP_MEM_GRAD, RP_MEM_OPTIM, RP_MEM_SAVED, RP_MEM_TEMP, RP_MEM_COMM, RP_MEM_CLASSES
} rp_mem_class;

/* The ledger of one device. live_bytes and peak_bytes count bytes as requested; *_alloc_bytes count them rounded up to the alignment of the device
 * (CPU: 64). reserved_bytes is the largest size the pool has had. limit_bytes: 0 means no limit. live_at[] splits live_bytes by class; peak_at[]
 * splits peak_bytes by class at the instant of the peak, and its sum is exactly peak_bytes. */
typedef struct {
    int64_t live_bytes, peak_bytes, live_alloc_bytes, peak_alloc_bytes, reserved_bytes, limit_bytes;
    int64_t live_at[RP_MEM_CLASSES], peak_at[RP_MEM_CLASSES];
} rp_mem;

/* Read the ledger of a device into *out. Cannot fail.
 * device  0: the context's. 1: the device that rp_set_offload opened. All numbers are 0 if the context has no such device.
 * reset   true: after reading, the peaks start from the live bytes */
RP_API void rp_mem_read(rp_ctx *ctx, int device, bool reset, rp_mem *out);
RP_API void rp_mem_read_sized(size_t size, rp_ctx *ctx, int device, bool reset, rp_mem *out);
#define rp_mem_read(...) rp_mem_read_sized(sizeof(rp_mem), __VA_ARGS__)

/* The name of a class: "param", "grad", … Never NULL. */
RP_API const char *rp_mem_class_name(rp_mem_class mem_class);

/* ---- tensors ---- */

typedef enum {
    RP_F32, RP_BF16, RP_I32,
    RP_F64,      /* for checking gradients: the reference of each op supports it, fast kernels do not */
    RP_U8,       /* codes of optimizer states in 8 bits; no op reads it */
    /* Blocks of weights that are not trained: ggml's, and NF4 of bitsandbytes, with fp32 scales and with quantised ones. A row is a whole number of
     * blocks, of 32 elements, of 256 (K), or of 64 (NF4). Such a tensor is read, but not written or sliced. */
    RP_Q4_0, RP_Q4_1, RP_Q5_0, RP_Q5_1, RP_Q8_0, RP_Q2_K, RP_Q3_K, RP_Q4_K, RP_Q5_K, RP_Q6_K, RP_IQ4_NL, RP_NF4_FP32, RP_NF4,
    RP_DTYPES
} rp_dtype;

#define RP_MAX_DIM 8      /* the most dimensions of a tensor */

/* The dtype and shape of a dense, row-major tensor. */
typedef struct {
    rp_dtype dtype;
    int ndim;
    int64_t dim[RP_MAX_DIM];
} rp_meta;

RP_API const char *rp_dtype_name(rp_dtype dtype);      /* "fp32", "bf16", "int32", "fp64", "q4_0", …; else "unknown dtype" */
RP_API int64_t rp_dtype_bytes(rp_dtype dtype);         /* bytes of one element; 0 for a quantised or an unknown dtype */

/* Create a dense tensor on the context's device. Its contents are undefined until they are written. With 0 dimensions it has one element; a
 * dimension of 0 makes it empty.
 * owner   you, with one reference
 * errors  RP_ERR_SHAPE a negative dimension, more than RP_MAX_DIM dimensions, more than 2^56 bytes (a dimension of 0 counts as 1) ·
 *         RP_ERR_DTYPE unknown dtype · RP_ERR_ARG unknown class · RP_ERR_SHAPE rows that are not whole blocks of a quantised dtype */
RP_API rp_status rp_tensor_new(rp_ctx *ctx, const rp_meta *meta, rp_mem_class mem_class, rp_tensor **out);
RP_API rp_tensor *rp_tensor_ref(rp_tensor *tensor);      /* add a reference and return the tensor; NULL is allowed */
RP_API void rp_tensor_unref(rp_tensor *tensor);          /* release a reference; NULL is allowed */

/* The dtype and shape; borrowed. */
RP_API const rp_meta *rp_tensor_meta(const rp_tensor *tensor);

/* Copy all elements in or out, in row-major order, converted between the dtype of the tensor and double or int32. Fractions are truncated in an
 * int32 tensor. `count` is the number of elements and must be that of the tensor. A write increments the version of the storage; on a shapes-only
 * context it does nothing else.
 * errors  RP_ERR_ARG wrong count, a double that does not fit into int32 · RP_ERR_META a read on a shapes-only context · RP_ERR_DTYPE a write to a
 *         quantised tensor */
RP_API rp_status rp_tensor_write(rp_tensor *tensor, const double *from, int64_t count);
RP_API rp_status rp_tensor_write_i32(rp_tensor *tensor, const int32_t *from, int64_t count);
RP_API rp_status rp_tensor_read(const rp_tensor *tensor, double *to, int64_t count);

/* Create a view: it shares the storage, and gradients pass through it. A negative dimension counts from the end.
 *   reshape    another shape with the same number of elements; the tensor must be dense
 *   slice      indices [start, start + length) of dimension `dim`
 *   transpose  dimensions dim_a and dim_b swapped
 * owner   you; the view keeps the storage alive
 * errors  RP_ERR_SHAPE · RP_ERR_DTYPE a slice or a transpose of a quantised tensor */
RP_API rp_status rp_tensor_reshape(rp_tensor *tensor, int ndim, const int64_t *dim, rp_tensor **out);
RP_API rp_status rp_tensor_slice(rp_tensor *tensor, int dim, int64_t start, int64_t length, rp_tensor **out);
RP_API rp_status rp_tensor_transpose(rp_tensor *tensor, int dim_a, int dim_b, rp_tensor **out);

/* ---- calls and gradients ---- */

/* Run an op and record the call if an input requires a gradient.
 * op      its name, such as "matmul"; reprise/ops.h lists the ops with their inputs and attributes
 * attr    the attribute struct of the op, which is copied; NULL for an op without attributes
 * out     receives the outputs, which you own: one tensor, but two for route and up to eight for split
 * errors  RP_ERR_MATCH unknown op · RP_ERR_SHAPE, RP_ERR_DTYPE, RP_ERR_ARG inputs or attributes that the op refuses, such as an id outside the
 *         table · RP_ERR_CONFIG policies conflict, or demand to recompute an op that cannot be replayed · RP_ERR_STATE a policy demands
 *         RP_OFFLOAD without rp_set_offload, or the call is not the one that was planned · RP_ERR_IO an offloaded slot cannot be written ·
 *         RP_ERR_BACKEND another rank failed, or the CPU has no kernel for matrix products */
RP_API rp_status rp_apply(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out);

/* Set whether backward computes the gradient of this tensor (default: false). Call it before the tensor is used. A view shares the setting and the
 * gradient of the tensor that it views.
 * errors  RP_ERR_STATE the call would change the setting of a tensor that the record already uses */
RP_API rp_status rp_tensor_require_grad(rp_tensor *tensor, bool wanted);

/* Compute the gradients of everything recorded since the record was last cleared, add them to the existing gradients, and clear the record.
 * loss    a recorded tensor with one element; not a view
 * errors  RP_ERR_ARG `loss` is no such tensor · RP_ERR_MUTATED a tensor that backward reads was written after its forward · RP_ERR_REPLAY a
 *         verified replay differs from the forward (rp_set_verify) · RP_ERR_IO an offloaded slot cannot be read · those of rp_apply.
 *         The record is cleared after an error, too, unless loss is NULL or of another context */
RP_API rp_status rp_backward(rp_ctx *ctx, rp_tensor *loss);

/* rp_backward with options. NULL: the behaviour of rp_backward. Inside an open region the record is always kept, because the region continues. */
typedef struct {
    bool keep_record;             /* keep the record for another backward, from this loss or another one; rp_forget clears it. An error clears it,
                                     too. Default: false */
    bool keep_replays;            /* with keep_record: keep the values that replays made, so that the next backward needs no replay. Default: false */
    rp_tensor *const *only;       /* leaves: only their gradients are computed. Default: NULL (the gradients of all leaves) */
    int n_only;                   /* number of tensors in `only`; each must require a gradient, else RP_ERR_ARG */
} rp_backward_options;
RP_API rp_status rp_backward_with(rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options);
RP_API rp_status rp_backward_with_sized(size_t size, rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options);
#define rp_backward_with(...) rp_backward_with_sized(sizeof(rp_backward_options), __VA_ARGS__)

/* The gradient, borrowed until it is dropped; NULL if there is none. */
RP_API rp_tensor *rp_tensor_grad(const rp_tensor *tensor);
/* Release the gradient. */
RP_API void rp_tensor_drop_grad(rp_tensor *tensor);

/* Clear the record without running backward. */
RP_API void rp_forget(rp_ctx *ctx);
/* Turn gradients on or off (default: on). While they are off, calls are not recorded and nothing is saved for backward. */
RP_API rp_status rp_set_grad(rp_ctx *ctx, bool on);
/* Set train mode (default: on). Off is evaluation mode: dropout does nothing, and batch_norm reads its running statistics. */
RP_API void rp_set_train(rp_ctx *ctx, bool on);
/* Begin a pass. A random number depends only on the seed of the context, this step, the module path, the call, the sample and the element. Row 0 of
 * the batch is sample `sample_base` of the step. */
RP_API void rp_pass_begin(rp_ctx *ctx, int64_t step, int64_t sample_base);

/* ---- modules ---- */

RP_API const char *rp_module_path(const rp_module *module);       /* "layers.3.mlp.up"; "" for a root without a name */
RP_API const char *rp_module_type(const rp_module *module);       /* "Linear" */
RP_API rp_module *rp_module_parent(const rp_module *module);      /* NULL for a root */
RP_API rp_module *rp_module_find(rp_module *root, const char *path);      /* root or the module under it that has this path; NULL: no such module */
/* Call `visit` for root and for every module under it, a parent before its children. */
typedef void (*rp_module_visit)(const char *path, rp_module *module, void *user);
RP_API void rp_module_walk(rp_module *root, rp_module_visit visit, void *user);
/* Print the tree, one module a line, into *text, which is yours to rp_release. The text does not show checkpointing. */
RP_API rp_status rp_module_print(const rp_module *root, char **text);
/* Set the mode of root and of every module under it. true (default): the mode that rp_set_train sets. false: always evaluation mode. */
RP_API void rp_module_train(rp_module *root, bool on);
/* Read the layer number of a path: its first part that is a number ("decoder.layers.3.attn": 3). Returns false, and leaves *layer unchanged, if no part
 * is one. */
RP_API bool rp_path_layer(const char *path, int64_t *layer);

/* ---- activation checkpointing: regions ---- */

/* Make every module under root (root included) a region if the condition holds for it. Values computed in a region are not kept for backward, but
 * recomputed there, except those that are read outside the region or kept by a policy. Gradients are bit-identical for every choice.
 *
 * If the condition holds for nested modules, only the outermost becomes a region. Each call adds regions, so another condition can make
 * regions inside regions. condition NULL: no module under root is a region any more. A list of modules computes nothing itself and never becomes a
 * region; its members can. Returns the number of modules for which this condition holds, nested ones not counted. */
typedef bool (*rp_module_condition)(const char *path, const rp_module *module, void *user);
RP_API int rp_module_checkpoint(rp_module *root, rp_module_condition condition, void *user);

/* Read a condition as recipes write it: "{ every_k_layers: { k: 2 } }", "{ any: [{ path: '*.mlp' }, { layers: [0, 7-9] }] }". A module type may be
 * one of rp_module_new.
 * Plug-ins that the text names are loaded and run code: pass only text that you trust.
 * errors  RP_ERR_CONFIG the text is not a condition · RP_ERR_MATCH a plug-in library or its function is missing */
RP_API rp_status rp_condition_read(rp_ctx *ctx, const char *text, rp_condition **out);
RP_API void rp_condition_free(rp_condition *condition);
/* Whether a condition holds for a module. Pass it to rp_module_checkpoint with the condition as `user`. */
RP_API bool rp_condition_holds(const char *path, const rp_module *module, void *condition);

typedef struct {
    const char *name;             /* of the region, in messages and in explain; outside modules also the path of the calls in it. It must outlive
                                     the record. Default: NULL ("checkpoint") */
    rp_policy *policy;            /* sets fates of the slots made in the region. Default: NULL (no policy of its own) */
    int n_outputs;                /* number of outputs that fn fills. If closing the region fails after fn, they are released and set to NULL.
                                     Default: 0 (means 1) */
} rp_checkpoint_options;

/* Run fn as a region: all calls that it makes, directly or indirectly, belong to the region. fn is called once. It fills outputs[], which you
 * own; if it fails it must have released them. `user` and `inputs` are passed to fn as they are and may be NULL. options: NULL means all defaults.
 * errors  those of fn: then nothing that fn recorded is left · RP_ERR_STATE fn turned gradients off and left them off · RP_ERR_ARG a negative
 *         n_outputs */
typedef rp_status (*rp_checkpoint_function)(rp_ctx *ctx, void *user, rp_tensor *const *inputs, rp_tensor **outputs);
RP_API rp_status rp_checkpoint(rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs,
                               const rp_checkpoint_options *options, rp_tensor **outputs);
RP_API rp_status rp_checkpoint_sized(size_t size, rp_ctx *ctx, rp_checkpoint_function fn, void *user, rp_tensor *const *inputs,
                                     const rp_checkpoint_options *options, rp_tensor **outputs);
#define rp_checkpoint(...) rp_checkpoint_sized(sizeof(rp_checkpoint_options), __VA_ARGS__)
/* Run n functions one after the other, each on the output of the one before, as `segments` regions of consecutive functions. The split minimises the
 * bytes of the largest region. Functions whose values must be kept are better called outside. Each function has one output.
 * user    user[i] is passed to fn[i]; NULL: every function gets NULL
 * output  the output of the last function; you own it
 * errors  RP_ERR_ARG segments is below 1 or above n · RP_ERR_STATE a function returned RP_OK without an output · those of the functions and of
 *         rp_checkpoint */
RP_API rp_status rp_checkpoint_sequential(rp_ctx *ctx, const rp_checkpoint_function *fn, void *const *user, int n, int segments,
                                          rp_tensor *input, const rp_checkpoint_options *options, rp_tensor **output);
RP_API rp_status rp_checkpoint_sequential_sized(size_t size, rp_ctx *ctx, const rp_checkpoint_function *fn, void *const *user, int n, int segments,
                                                rp_tensor *input, const rp_checkpoint_options *options, rp_tensor **output);
#define rp_checkpoint_sequential(...) rp_checkpoint_sequential_sized(sizeof(rp_checkpoint_options), __VA_ARGS__)

/* Create a module of your own. Conditions, policies, random streams and messages identify its calls by its path and type, like those of a model.
 * parent  NULL: a root. The module is freed with its root; a module under one of a model's belongs to the model
 * name    copied; without a dot, and unique among its siblings; "" is allowed for a root
 * type    copied; not empty
 * forward its function, with one output; its weights are tensors of the program. NULL: a list, which cannot be called; its members can
 * errors  RP_ERR_ARG a name or type that is not allowed */
RP_API rp_status rp_module_new(rp_ctx *ctx, rp_module *parent, const char *name, const char *type, rp_checkpoint_function forward, void *user,
                               rp_module **out);
/* Run the forward of a module from rp_module_new: as a region if the module is one, with its policy and in its mode. You own *output.
 * errors  RP_ERR_ARG the module is a list, or not from rp_module_new · RP_ERR_STATE the forward made no output · those of the forward */
RP_API rp_status rp_module_call(rp_module *module, rp_tensor *const *inputs, rp_tensor **output);
/* Free a root from rp_module_new and every module under it. No record may use them (rp_backward, rp_forget). NULL is allowed. */
RP_API void rp_module_free(rp_module *root);

/* Whether an op is running as part of a replay. */
RP_API bool rp_is_replaying(const rp_ctx *ctx);
/* The path of the innermost region that is being recorded or replayed; NULL outside regions. */
RP_API const char *rp_in_checkpoint(const rp_ctx *ctx);

/* ---- activation checkpointing: fates ---- */

/* The fate of a slot: a computed value that a backward reads. RP_KEEP, RP_RECOMPUTE and RP_OFFLOAD are musts: a must cannot be overruled, and the
 * call fails if it is impossible. The RP_PREFER_* fates are preferences: a must overrides a preference. RP_NO_FATE leaves the slot to the next
 * rule; if no rule decides, a slot made in a region is recomputed and any other is kept. Under a plan (rp_plan_step) the planner decides
 * every slot that has no must. */
typedef enum {
    RP_KEEP, RP_RECOMPUTE, RP_OFFLOAD, RP_PREFER_KEEP, RP_PREFER_RECOMPUTE, RP_PREFER_OFFLOAD, RP_NO_FATE,
    RP_ALLOW_MUTATION = 64        /* flag, or'ed to a fate: the slot may be written before its backward, which then reads the new contents */
} rp_fate;

/* The facts about a slot when its fate is decided, which is before the call that makes it: no data. Grows at its end. */
typedef struct {
    const char *path;             /* of the module that makes it; "" outside modules */
    const rp_module *module;      /* NULL outside modules */
    const char *op;
    int call;                     /* number of the call among those of this op under this path in the pass, from 0 */
    int output;                   /* index of the output, or of the by-product */
    bool by_product;              /* true: not an output but an internal result of the op, such as log-sum-exp or statistics */
    rp_meta meta;
    int64_t bytes, flops;         /* size of the slot; FLOPs of running the call that makes it once more */
    bool is_rehearsal;            /* the context is shapes-only */
} rp_slot_info;

/* Create a policy: an ordered list of rules, at first empty. The first rule that gives a fate decides. A policy is asked once for every slot in a
 * step of one shape, in the order of the calls; views are not slots. The answers are reused in every later step of that shape.
 * name  copied; names the policy in messages */
RP_API rp_status rp_policy_new(rp_ctx *ctx, const char *name, rp_policy **out);
/* Create a policy from rules as recipes write them: "[{ op: matmul, fate: keep }, { path: 'layers.0', fate: recompute }]".
 * Plug-ins that the text names are loaded and run code: pass only text that you trust.
 * errors  RP_ERR_CONFIG the text is not a list of rules · RP_ERR_MATCH a plug-in library or its function is missing */
RP_API rp_status rp_policy_read(rp_ctx *ctx, const char *name, const char *text, rp_policy **out);
/* Free a policy. Detach it first: no module, context or record may still use it. */
RP_API void rp_policy_free(rp_policy *policy);
/* Append a rule: slots made by ops whose name matches `op`, in modules whose path matches `path` and in modules under them, get `fate`. Both are
 * globs, in which * matches any characters, and are copied. NULL matches everything.
 * errors  RP_ERR_ARG unknown fate, or RP_NO_FATE */
RP_API rp_status rp_policy_rule(rp_policy *policy, const char *path, const char *op, rp_fate fate);
/* Append a rule that is a function. If it returns an unknown fate, the call that asks fails with RP_ERR_ARG.
 * reset  called before each pass in which the policy is asked, so that a function with a state gives the same answers; may be NULL */
typedef rp_fate (*rp_policy_function)(const rp_slot_info *slot, void *user);
RP_API rp_status rp_policy_call(rp_policy *policy, rp_policy_function function, void (*reset)(void *user), void *user);
/* Append a rule that is a predicate: true means RP_KEEP, false means RP_PREFER_RECOMPUTE. reset: as in rp_policy_call. */
typedef bool (*rp_policy_predicate)(const rp_slot_info *slot, void *user);
RP_API rp_status rp_policy_keep_if(rp_policy *policy, rp_policy_predicate predicate, void (*reset)(void *user), void *user);

/* List the rules that decided no slot since the policy was last asked from the beginning of a pass. Functions that gave no fate are listed, too.
 * Call it after the first step of a shape.
 * text    one line a rule, such as "rule 2 (op 'matmull')", numbered from 1 in the order of the list; yours to rp_release. NULL: every rule decided a slot
 * errors  RP_ERR_STATE the policy has not been asked yet */
RP_API rp_status rp_policy_idle(const rp_policy *policy, char **text);

/* Use a policy for everything that the context records, or for everything that the module computes. NULL removes the policy. Policies stack: the
 * context's is outermost, then follow those of modules and regions from outside in. Between preferences the innermost wins. Different musts on one
 * slot are an error of the call that makes it (RP_ERR_CONFIG); the message names both. */
RP_API rp_status rp_set_policy(rp_ctx *ctx, rp_policy *policy);
RP_API rp_status rp_module_policy(rp_module *module, rp_policy *policy);

/* Where offloaded slots go: set exactly one of `folder` and `device`. */
typedef struct {
    const char *folder;           /* an existing folder, for unlinked temporary files */
    const char *device;           /* "cpu": host memory, counted as device 1. memory_limit_bytes limits it separately */
    int64_t buffer_bytes;         /* for files: size of the memory buffer between slots and disk, 8 KiB to 16 GiB. Default: 0 (16 MiB) */
} rp_offload_options;
/* Set where RP_OFFLOAD puts slots. options NULL (the initial state): nowhere; then a preference for offloading keeps the slot, and a must is
 * RP_ERR_STATE.
 * errors  RP_ERR_IO the folder cannot be used · RP_ERR_ARG unknown device, neither or both of folder and device, buffer_bytes out of range ·
 *         RP_ERR_STATE slots of a recorded pass are offloaded */
RP_API rp_status rp_set_offload(rp_ctx *ctx, const rp_offload_options *options);
RP_API rp_status rp_set_offload_sized(size_t size, rp_ctx *ctx, const rp_offload_options *options);
#define rp_set_offload(...) rp_set_offload_sized(sizeof(rp_offload_options), __VA_ARGS__)

/* ---- a budget for a step of your own ---- */

/* One training step: forward, backward, update. It must
 *   - call the same ops on the same shapes every time, independent of the data;
 *   - leave exactly those objects live that were live before: drop its gradients, and create shared data beforehand (rotary tables: rp_model_reserve);
 *   - read numbers only on a context that has data. */
typedef rp_status (*rp_step_function)(rp_ctx *ctx, void *user);

/* Plan a step: which slots to keep, recompute or offload, and the address of each buffer. Times are predicted from the cost table of the machine.
 * ctx     shapes-only. It holds the same objects as the context that will run the steps, created by the same calls in the same order
 * step    is called on ctx several times
 * budget_bytes  limit on everything on the context, including objects that are live before the step. 0: no budget, everything is kept. RP_LEAST_BUDGET: the
 *         smallest budget for which a plan is found
 * Musts are honoured. Regions marked by the program are hints that the planner may ignore.
 * errors  RP_ERR_BUDGET no plan fits; the message has the smallest budget and the op that sets it ("at most" if the search for a smaller one was cut
 *         short) · RP_ERR_ARG ctx has data, or the budget is negative · RP_ERR_STATE the step leaves a new object live, or frees an object that was
 *         live before; ctx has recorded calls or runs a planned step · RP_ERR_FORMAT the file of the cost table is damaged · those of the step */
#define RP_LEAST_BUDGET ((int64_t)-1)
RP_API rp_status rp_plan_step(rp_ctx *ctx, rp_step_function step, void *user, int64_t budget_bytes, rp_step_plan **out);
RP_API void rp_step_plan_free(rp_step_plan *plan);

/* Run a step as planned. ctx must have as many threads as the planning context and the same device, and nothing recorded. The first run reserves the
 * memory. Afterwards the record is cleared.
 * errors  RP_ERR_STATE the objects that are live before the step, its calls or its buffers differ from the planned ones; ctx has recorded
 *         calls or runs a planned step · RP_ERR_MEMORY the limit of the context is below the bytes the plan reserves · those of the step */
RP_API rp_status rp_step_plan_run(rp_step_plan *plan, rp_ctx *ctx, rp_step_function step, void *user);

/* The figures of a plan. Bytes are exact for every step; seconds are predicted. Numbers of calls and regions count each group of identical passes once.
 * Grows at its end. */
typedef struct {
    rp_mem memory;                /* peaks of the step; reserved_bytes: the bytes the plan reserves */
    int64_t bound_bytes;          /* lower bound of reserved_bytes for any placement of these buffers */
    int64_t step_flops, recompute_flops;      /* forward and backward without replays; replays */
    double seconds, recompute_seconds;      /* of a step without replays; added by replays and by waiting for offloaded slots */
    double bound_seconds;         /* lower bound of recompute_seconds for every schedule within the budget */
    int n_calls, n_recomputed;    /* calls; those among them that are recomputed one by one, outside regions */
    int n_regions;                /* stretches of calls that are recomputed together */
    int64_t offloaded_bytes;      /* offloaded by the plan or by a must */
    int n_offloaded;              /* calls with at least one output or by-product that the plan offloads */
} rp_step_facts;
RP_API void rp_step_plan_read(const rp_step_plan *plan, rp_step_facts *out);
RP_API void rp_step_plan_read_sized(size_t size, const rp_step_plan *plan, rp_step_facts *out);
#define rp_step_plan_read(...) rp_step_plan_read_sized(sizeof(rp_step_facts), __VA_ARGS__)

/* Set whether the values of replays are compared with those of the forward; a difference is RP_ERR_REPLAY. RP_VERIFY_ON and RP_VERIFY_OFF override recipes.
 * RP_VERIFY_DEFER (default) leaves it to them. The environment variable REPRISE_VERIFY=on|off sets the default of new contexts. */
typedef enum { RP_VERIFY_DEFER, RP_VERIFY_ON, RP_VERIFY_OFF } rp_verify;
RP_API void rp_set_verify(rp_ctx *ctx, rp_verify verify);

/* A condition in a library of your own, which a recipe names: { plugin: { library: ./mine.so, symbol: wide, args: { k: 4 } } }. As a condition about a
 * module, it gets slot = NULL. In a rule it gets each slot; path and module are those of the module that makes it. */
typedef struct rp_args rp_args;
typedef bool (*rp_plugin)(const char *path, const rp_module *module, const rp_slot_info *slot, const rp_args *args);
/* An argument that the recipe gives, or `fallback` if it is missing or of another type. An int may be written as a size ("16KiB"). */
RP_API int64_t rp_args_int(const rp_args *args, const char *name, int64_t fallback);
RP_API double rp_args_number(const rp_args *args, const char *name, double fallback);
RP_API const char *rp_args_text(const rp_args *args, const char *name, const char *fallback);

/* ---- models ---- */

typedef struct {
    rp_dtype dtype;               /* of parameters and activations: RP_F32 or RP_BF16. Default: RP_F32 */
    bool checkpoint;              /* make every transformer block a region. Default: false */
    rp_module_condition checkpoint_if;   /* also make regions of the modules for which this holds (rp_module_checkpoint). Default: NULL (none) */
    void *checkpoint_user;        /* passed to checkpoint_if */
    rp_policy *policy;            /* sets fates of the slots made in the model; must outlive it. Default: NULL (no policy of its own) */
} rp_model_options;

/* Load a model with its weights. options: NULL means all defaults.
 * path    a Hugging Face directory, a .gguf file, or the directory of an adapter written by peft. The weights under an adapter are frozen. If a
 *         directory has further parts, such as a vision encoder, only the text model is loaded
 * errors  RP_ERR_IO · RP_ERR_MATCH the directory has no weights · RP_ERR_FORMAT · RP_ERR_CONFIG · RP_ERR_SHAPE a tensor does not fit the configuration ·
 *         RP_ERR_DTYPE options.dtype is neither RP_F32 nor RP_BF16 · RP_ERR_UNSUPPORTED a family or field that is not supported; the message names it */
RP_API rp_status rp_model_load(rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out);
RP_API rp_status rp_model_load_sized(size_t size, rp_ctx *ctx, const char *path, const rp_model_options *options, rp_model **out);
#define rp_model_load(...) rp_model_load_sized(sizeof(rp_model_options), __VA_ARGS__)
/* Create a model with random weights from the path of a config.json; the seed of the context sets the weights.
 * errors  those of rp_model_load that do not concern weights */
RP_API rp_status rp_model_new(rp_ctx *ctx, const char *config, const rp_model_options *options, rp_model **out);
RP_API rp_status rp_model_new_sized(size_t size, rp_ctx *ctx, const char *config, const rp_model_options *options, rp_model **out);
#define rp_model_new(...) rp_model_new_sized(sizeof(rp_model_options), __VA_ARGS__)
/* Free a model. No record may use it: call rp_backward or rp_forget first. */
RP_API void rp_model_free(rp_model *model);
/* The root of the module tree. */
RP_API rp_module *rp_model_root(rp_model *model);

/* Parameter i (from 0) in the order of the forward; a tied weight comes once. The tensor and *path are borrowed; `path` may be NULL. Returns NULL past
 * the end. */
RP_API rp_tensor *rp_model_param(const rp_model *model, int i, const char **path);

/* Create the tables that depend only on the length of rows (rotary positions), for rows of up to `length` tokens. Otherwise the first longer
 * row creates them.
 * errors  RP_ERR_ARG `length` exceeds the context of the model */
RP_API rp_status rp_model_reserve(rp_model *model, int64_t length);
/* Compute logits [rows, length, vocabulary] in the dtype of the model; you own *logits.
 * tokens  int32 [rows, length]
 * errors  RP_ERR_SHAPE · RP_ERR_ARG an id outside the vocabulary, or rows longer than the context of the model · those of rp_apply.
 *         After an error nothing of this call is recorded */
RP_API rp_status rp_model_logits(rp_model *model, rp_tensor *tokens, rp_tensor **logits);
/* Compute the loss, fp32 [1]: weight * sum of -log p(label); you own *loss.
 * labels  int32 [rows, length]: the token that each position should predict (labels are not shifted here); -100: the position has no target
 * errors  those of rp_model_logits */
RP_API rp_status rp_model_loss(rp_model *model, rp_tensor *tokens, rp_tensor *labels, float weight, rp_tensor **loss);

/* Write config.json and model.safetensors, as transformers reads them, into an existing directory. Adapters are merged into the weights.
 * errors  RP_ERR_IO */
RP_API rp_status rp_model_save(rp_model *model, const char *directory);

/* ---- tokenizers ---- */

/* Load a tokenizer. path: a Hugging Face directory, a tokenizer.json, or a .gguf file.
 * errors  RP_ERR_IO · RP_ERR_FORMAT · RP_ERR_UNSUPPORTED */
RP_API rp_status rp_tokenizer_load(rp_ctx *ctx, const char *path, rp_tokenizer **out);
RP_API void rp_tokenizer_free(rp_tokenizer *tokenizer);
/* Encode UTF-8 text of `bytes` bytes. bos and eos are not added. Bytes that are not UTF-8 are read as U+FFFD. *ids is yours to rp_release; NULL if
 * there are no ids.
 * errors  RP_ERR_ARG a negative `bytes` */
RP_API rp_status rp_tokenizer_encode(rp_tokenizer *tokenizer, const char *text, int64_t bytes, int32_t **ids, int64_t *n_ids);
/* Decode ids to text; special tokens are left out. *text is yours to rp_release and ends with a 0 byte, which *bytes does not count.
 * errors  RP_ERR_ARG an id outside the vocabulary */
RP_API rp_status rp_tokenizer_decode(rp_tokenizer *tokenizer, const int32_t *ids, int64_t n_ids, char **text, int64_t *bytes);
/* Free memory that a function returned as yours to rp_release. NULL is allowed. */
RP_API void rp_release(void *memory);

/* ---- training ---- */

/* One line of metrics.jsonl. Sizes are in bytes. */
typedef struct {
    int64_t step;                 /* from 1 */
    double loss, lr, grad_norm;   /* grad_norm: before clipping */
    int64_t tokens;               /* input tokens of the step, without padding */
    double step_seconds, tokens_per_second;
    int64_t peak_memory_active, peak_memory_alloc, peak_memory_reserved, saved_bytes;     /* rp_mem: peak_bytes, peak_alloc_bytes, reserved_bytes */
    int64_t recompute_flops, step_flops, offloaded_bytes, rss;      /* step_flops: without replays. rss: resident memory of the process */
    bool has_val_loss;            /* validation ran after this step */
    double val_loss;
} rp_metrics;

/* Read a recipe: a YAML or JSON file, changed by n_settings texts "KEY=VALUE". The error message has the first error and the number of further ones.
 * errors  RP_ERR_CONFIG a wrong recipe, or the file cannot be opened · RP_ERR_IO the file cannot be read */
RP_API rp_status rp_recipe_load(rp_ctx *ctx, const char *path, int n_settings, const char *const *setting, rp_recipe **out);
/* Allow rp_trainer_new to load the libraries that the recipe names as plug-ins (default: false). Loading a library runs its code: allow it only for
 * recipes that you trust. If it is not allowed, rp_trainer_new refuses such a recipe with RP_ERR_CONFIG. */
RP_API void rp_recipe_allow_plugins(rp_recipe *recipe, bool allow);
RP_API void rp_recipe_free(rp_recipe *recipe);

/* Prepare the first step of a run, or the next step of a resumed one: load model and data, create optimizer states, rehearse the memory of a step.
 * output_dir is created last. A context has one trainer at a time. With a budget nothing else may be live on the context from now on.
 * recipe  borrowed until rp_trainer_free. Its seed replaces that of the context. If it sets threads, they must be those of the context
 * errors  RP_ERR_CONFIG, RP_ERR_MATCH, RP_ERR_FORMAT, RP_ERR_UNSUPPORTED, RP_ERR_SHAPE, RP_ERR_EXISTS wrong recipe or files · RP_ERR_BUDGET no plan fits
 *         the memory budget · RP_ERR_META a shapes-only context · RP_ERR_IO · RP_ERR_BACKEND another rank failed, or MPI */
RP_API rp_status rp_trainer_new(rp_ctx *ctx, const rp_recipe *recipe, rp_trainer **out);
RP_API void rp_trainer_free(rp_trainer *trainer);
RP_API int64_t rp_trainer_steps(const rp_trainer *trainer);       /* steps of the whole run */
RP_API int64_t rp_trainer_done(const rp_trainer *trainer);        /* steps done so far, including those before a resume */
RP_API rp_model *rp_trainer_model(rp_trainer *trainer);           /* borrowed */
/* Run one optimizer step and everything due after it: validation, a line of metrics.jsonl, saving a state. After an error parameters and optimizer
 * states are undefined; resume from the last state.
 * line    receives the metrics; may be NULL
 * errors  RP_ERR_STATE all steps are done · RP_ERR_NONFINITE the loss or the gradient norm is not finite · RP_ERR_BUDGET no plan fits a batch of another
 *         shape · RP_ERR_IO · RP_ERR_BACKEND · those of rp_backward */
RP_API rp_status rp_trainer_step(rp_trainer *trainer, rp_metrics *line);
RP_API rp_status rp_trainer_step_sized(size_t size, rp_trainer *trainer, rp_metrics *line);
#define rp_trainer_step(...) rp_trainer_step_sized(sizeof(rp_metrics), __VA_ARGS__)
/* Save a state now, from which a run can resume; nothing happens if this step is saved already. errors RP_ERR_IO · RP_ERR_BACKEND */
RP_API rp_status rp_trainer_save(rp_trainer *trainer);
/* Save the last state, and the model into final/ for transformers. errors RP_ERR_IO · RP_ERR_BACKEND */
RP_API rp_status rp_trainer_finish(rp_trainer *trainer);
/* Write output_dir/report.html: one page with the losses so far and every byte of a step. Call it between any two steps. It changes no bit of
 * the next one. With several ranks the first one writes the page.
 * errors  RP_ERR_IO · RP_ERR_FORMAT the file of the cost table is damaged. After an error the old page is unchanged */
RP_API rp_status rp_trainer_report(rp_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
