/* reprise/train.h -- training a network of your own: parameters and their first values, optimizers, files. docs/howto/own.md has a whole program.
 *
 *   rp_param_new        a tensor with a name, random first values and a gradient
 *   rp_optimizer_new    the states of the parameters, which the ledger and a plan count
 *   your forward        rp_apply, or modules; then rp_backward
 *   rp_optimizer_step   clips the gradients, updates the parameters and drops the gradients
 *   rp_save, rp_load    parameters, states and the number of steps in one file
 *
 * The conventions are those of reprise/reprise.h.
 */
#ifndef REPRISE_TRAIN_H
#define REPRISE_TRAIN_H

#include "reprise/reprise.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_optimizer rp_optimizer;   /* the states of parameters, and the number of steps done */

/* ---- names and first values ---- */

/* Name a tensor. Messages, optimizers and files use the name. A view shares the name of the tensor that it views.
 * name    copied; 1 to 512 bytes. Names may be equal, but those of an optimizer or a file must differ
 * errors  RP_ERR_STATE the tensor has a name already, such as a parameter of a model */
RP_API rp_status rp_tensor_set_name(rp_tensor *tensor, const char *name);
/* The name; "" if the tensor has none. Borrowed from the tensor, or from the tensor that it views. */
RP_API const char *rp_tensor_name(const rp_tensor *tensor);

/* Distributions of first values. Here `in` and `out` are the extents of a weight: y = x w has x [..., in] and y [..., out]. */
typedef enum {
    RP_INIT_ZEROS, RP_INIT_ONES,
    RP_INIT_NORMAL,               /* mean 0, standard deviation `scale` */
    RP_INIT_UNIFORM,              /* in [-scale, scale) */
    RP_INIT_KAIMING_NORMAL,       /* mean 0, standard deviation scale * sqrt(1 / in). scale: default sqrt(2), for ReLU */
    RP_INIT_KAIMING_UNIFORM,      /* in [-b, b), b = scale * sqrt(3 / in). scale: default sqrt(2) */
    RP_INIT_XAVIER_NORMAL,        /* mean 0, standard deviation scale * sqrt(2 / (in + out)) */
    RP_INIT_XAVIER_UNIFORM        /* in [-b, b), b = scale * sqrt(6 / (in + out)) */
} rp_init_kind;

typedef struct {
    rp_init_kind kind;            /* default: RP_INIT_ZEROS */
    double scale;                 /* default: 0 (means 1; sqrt(2) for Kaiming) */
    bool out_in;                  /* the last two dimensions are [out, in], as with transpose_w of matmul. Default: false ([in, out]) */
} rp_init;

/* Write first values. A random value depends only on the seed of the context, the name of the tensor and the place of the element: not on threads,
 * other tensors or the dtype. On a shapes-only context nothing is computed.
 * init    NULL: zeros
 * errors  RP_ERR_STATE random values for a tensor without a name · RP_ERR_DTYPE neither fp32, bf16 nor fp64 · RP_ERR_SHAPE a view that is not dense; Kaiming
 *         or Xavier for fewer than 2 dimensions · RP_ERR_ARG unknown kind, scale that is negative or not finite */
RP_API rp_status rp_tensor_init(rp_tensor *tensor, const rp_init *init);
RP_API rp_status rp_tensor_init_sized(size_t size, rp_tensor *tensor, const rp_init *init);
#define rp_tensor_init(...) rp_tensor_init_sized(sizeof(rp_init), __VA_ARGS__)

/* Create a parameter: rp_tensor_new with the class RP_MEM_PARAM, rp_tensor_set_name, rp_tensor_init and rp_tensor_require_grad in one call.
 * owner   you, with one reference
 * errors  those of these functions */
RP_API rp_status rp_param_new(rp_ctx *ctx, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out);
RP_API rp_status rp_param_new_sized(size_t size, rp_ctx *ctx, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out);
#define rp_param_new(...) rp_param_new_sized(sizeof(rp_init), __VA_ARGS__)

/* ---- modules ---- */

/* Create a parameter of a module from rp_module_new: rp_param_new with the name "PATH.NAME", where PATH is the path of the module.
 * name    without a dot, and unique among the parameters of the module
 * owner   the module, with which it is freed; *out is borrowed
 * errors  RP_ERR_ARG a name that is not allowed, or a module of a model · those of rp_param_new */
RP_API rp_status rp_module_param(rp_module *module, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out);
RP_API rp_status rp_module_param_sized(size_t size, rp_module *module, const char *name, const rp_meta *meta, const rp_init *init, rp_tensor **out);
#define rp_module_param(...) rp_module_param_sized(sizeof(rp_init), __VA_ARGS__)
/* List the parameters of root and of the modules under it, a parent before its children; parameters that are shared come once. Works for models, too.
 * Returns their number, which may exceed `room`.
 * params  receives the first `room` of them, borrowed; NULL: none */
RP_API int rp_module_params(rp_module *root, rp_tensor **params, int room);
/* As rp_module_call, for a forward with n_outputs outputs, 1 to 8. The forward must fill as many. You own the outputs.
 * errors  RP_ERR_ARG n_outputs is out of range · RP_ERR_STATE the forward made fewer outputs · those of rp_module_call */
RP_API rp_status rp_module_call_outputs(rp_module *module, rp_tensor *const *inputs, int n_outputs, rp_tensor **outputs);

/* ---- raw bytes ---- */

/* Copy all elements in or out as they are stored, in row-major order and in the byte order of the machine. A quantised tensor is read as its
 * blocks. A write increments the version of the storage; on a shapes-only context it does nothing else.
 * bytes   must be the size of the tensor
 * errors  RP_ERR_ARG wrong size · RP_ERR_SHAPE a view that is not dense · RP_ERR_META a read on a shapes-only context · RP_ERR_DTYPE a write to a
 *         quantised tensor */
RP_API rp_status rp_tensor_write_raw(rp_tensor *tensor, const void *from, int64_t bytes);
RP_API rp_status rp_tensor_read_raw(const rp_tensor *tensor, void *to, int64_t bytes);

/* Create a tensor on existing host memory, without a copy. The ledger does not count the memory. A shapes-only context ignores it. After writing to it call
 * rp_tensor_touch (reprise/op.h): otherwise gradients may be wrong without an error.
 * memory  `bytes` bytes in row-major order, at an address that is a multiple of RP_IMPORT_ALIGNMENT. It stays yours, and must outlive the tensor, its views
 *         and each record that uses it. It may be read-only if no call writes to the tensor
 * owner   you, with one reference; the memory is never freed
 * errors  RP_ERR_ARG wrong size or alignment · RP_ERR_UNSUPPORTED the device of the context does not compute in host memory · those of rp_tensor_new */
#define RP_IMPORT_ALIGNMENT 64
RP_API rp_status rp_tensor_import(rp_ctx *ctx, const rp_meta *meta, void *memory, int64_t bytes, rp_tensor **out);

/* ---- optimizers ---- */

typedef struct {
    double lr;                    /* learning rate, above 0; `schedule` multiplies it. No default */
    const char *name;             /* "adamw" or "sgd". Default: NULL ("adamw") */
    double beta1, beta2, eps;     /* adamw. Default: 0 (means 0.9, 0.95 and 1e-8, as in recipes). 1e-300 acts as 0 */
    double momentum;              /* sgd. Default: 0 */
    double weight_decay;          /* decoupled (adamw) or added to the gradient (sgd). Default: 0 */
    const char *const *no_decay;  /* n_no_decay globs of names without weight decay, such as "*.bias". Default: NULL */
    int n_no_decay;
    rp_dtype state_dtype;         /* of the moments: RP_F32, RP_BF16 or RP_U8 (codes of 8 bits and a scale for each 256 elements). Default: 0 (RP_F32) */
    bool master_weights;          /* keep an fp32 copy of each bf16 parameter and update it. Default: false */
    bool stochastic;              /* round bf16 parameters and states at random. Default: false (to nearest) */
    const char *offload;          /* existing folder: states and masters are kept in an unlinked file there. Default: NULL (in memory) */
    double clip_norm;             /* maximum norm of all gradients together. Default: 0 (no clipping) */
    const char *schedule;         /* "constant", "cosine" or "linear": rp_schedule_factor. Default: NULL ("constant") */
    int64_t warmup_steps;         /* steps of linear warm-up. Default: 0 */
    int64_t n_steps;              /* steps of the whole run, for "cosine" and "linear". Default: 0 */
} rp_optimizer_options;

/* Facts about an update. Grows at its end. */
typedef struct {
    int64_t step;                 /* steps done, this one included */
    double lr;                    /* learning rate of this step */
    double grad_norm;             /* norm of all gradients before clipping; 0 on a shapes-only context */
    double loss;                  /* of rp_optimizer_backward; 0 after rp_optimizer_step and on a shapes-only context */
} rp_update;

/* Create an optimizer. Its states have the class RP_MEM_OPTIM, so the ledger counts them; create it before rp_plan_step, and a plan counts them, too.
 * params  n_params leaves with different names, dense and not views. The optimizer keeps a reference to each. A parameter that requires no gradient is
 *         frozen: it has no state and is never updated. With master_weights the parameters must have their first values
 * errors  RP_ERR_ARG a parameter without a name, with the name of another one, or a view; clip_norm is negative · RP_ERR_CONFIG an unknown name or schedule,
 *         or a number out of range · RP_ERR_DTYPE a parameter that is not floating-point, or state_dtype · RP_ERR_MATCH a glob matches no parameter ·
 *         RP_ERR_IO the folder of `offload` */
RP_API rp_status rp_optimizer_new(rp_ctx *ctx, rp_tensor *const *params, int n_params, const rp_optimizer_options *options, rp_optimizer **out);
RP_API rp_status rp_optimizer_new_sized(size_t size, rp_ctx *ctx, rp_tensor *const *params, int n_params, const rp_optimizer_options *options,
                                        rp_optimizer **out);
#define rp_optimizer_new(...) rp_optimizer_new_sized(sizeof(rp_optimizer_options), __VA_ARGS__)
RP_API void rp_optimizer_free(rp_optimizer *optimizer);

/* Update each parameter that has a gradient, and drop the gradients. On a shapes-only context nothing is computed and no step is counted.
 * out     receives the facts; may be NULL
 * errors  RP_ERR_STATE no parameter has a gradient, or an earlier update failed at the disk · RP_ERR_NONFINITE the norm of the gradients is not finite: with
 *         clip_norm nothing is updated, without it the parameters are no longer usable · RP_ERR_IO states on disk; the parameters are no longer usable.
 *         After RP_ERR_NONFINITE and RP_ERR_IO all gradients are dropped and no step is counted */
RP_API rp_status rp_optimizer_step(rp_optimizer *optimizer, rp_update *out);
RP_API rp_status rp_optimizer_step_sized(size_t size, rp_optimizer *optimizer, rp_update *out);
#define rp_optimizer_step(...) rp_optimizer_step_sized(sizeof(rp_update), __VA_ARGS__)

/* Run rp_backward from `loss` and update each parameter in it, as soon as its gradient is complete. So not all gradients exist at once. With clip_norm
 * they do, because the first update needs the norm of all. The bits are those of rp_backward and rp_optimizer_step. Gradients of earlier passes are
 * included.
 * errors  RP_ERR_NONFINITE the loss is not finite, and nothing is updated; or the norm of the gradients is not · those of rp_backward and
 *         rp_optimizer_step. After an error that came later than the loss, the parameters are
 *         no longer usable. The record is cleared after an error, too */
RP_API rp_status rp_optimizer_backward(rp_optimizer *optimizer, rp_tensor *loss, rp_update *out);
RP_API rp_status rp_optimizer_backward_sized(size_t size, rp_optimizer *optimizer, rp_tensor *loss, rp_update *out);
#define rp_optimizer_backward(...) rp_optimizer_backward_sized(sizeof(rp_update), __VA_ARGS__)

/* The number of steps done, those before rp_load included. */
RP_API int64_t rp_optimizer_steps(const rp_optimizer *optimizer);
/* Change the learning rate that the schedule multiplies. errors RP_ERR_ARG negative or not finite */
RP_API rp_status rp_optimizer_set_lr(rp_optimizer *optimizer, double lr);

/* Compute the factor of the learning rate in step `step`, from 0. With w warm-up steps of n it is
 *   step / w                                          if step < w. So the first of several warm-up steps has a rate of 0
 *   1                                                 "constant"
 *   (n - step) / (n - w), at least 0                  "linear"
 *   (1 + cos(pi (step - w) / (n - w))) / 2            "cosine"
 * errors  RP_ERR_CONFIG an unknown schedule, or a negative number */
RP_API rp_status rp_schedule_factor(rp_ctx *ctx, const char *schedule, int64_t warmup_steps, int64_t n_steps, int64_t step, double *factor);

/* ---- chains of calls ---- */

/* A chain of calls: each op gets the value that the one before made. The first error ends the chain: later calls do nothing. So a forward needs one check,
 * at its end. For an op with more than two inputs, apply it to `value` yourself and replace `value` by the output. */
typedef struct {
    rp_ctx *ctx;
    rp_tensor *value;             /* owned by the chain; NULL after an error and after the end */
    rp_status status;             /* of the first error, or RP_OK */
} rp_calls;

/* Begin with `value`. The chain takes a reference of its own. */
static inline rp_calls rp_calls_begin(rp_ctx *context, rp_tensor *value)
{
    rp_calls chain = { context, rp_tensor_ref(value), RP_OK };

    if (!value) chain.status = rp_fail(context, RP_ERR_ARG, "rp_calls_begin: an argument is NULL");
    return chain;
}

/* For the functions below: the value is replaced by `value`, or released after an error. */
static inline void rp_calls_replace(rp_calls *chain, rp_tensor *value)
{
    rp_tensor_unref(chain->value);
    chain->value = value;
}

/* Replace the value by an op with one output on it and, unless it is NULL, `other`. */
static inline void rp_calls_op(rp_calls *chain, const char *op, const void *attr, rp_tensor *other)
{
    rp_tensor *in[2] = { chain->value, other }, *out[8] = { NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL };

    if (chain->status != RP_OK) return;
    chain->status = rp_apply(chain->ctx, op, attr, in, other ? 2 : 1, out);
    if (out[1]) chain->status = rp_fail(chain->ctx, RP_ERR_ARG, "rp_calls_op: '%s' has more than one output", op);
    for (int i = chain->status == RP_OK; i < 8; i++) rp_tensor_unref(out[i]);
    rp_calls_replace(chain, chain->status == RP_OK ? out[0] : NULL);
}

/* Replace the value by a view of it in which dimensions dim_a and dim_b are swapped. */
static inline void rp_calls_transpose(rp_calls *chain, int dim_a, int dim_b)
{
    rp_tensor *view = NULL;

    if (chain->status != RP_OK) return;
    chain->status = rp_tensor_transpose(chain->value, dim_a, dim_b, &view);
    rp_calls_replace(chain, view);
}

/* End the chain and return its status. *out receives the value, which is yours; it is NULL after an error. */
static inline rp_status rp_calls_end(rp_calls *chain, rp_tensor **out)
{
    *out         = chain->value;
    chain->value = NULL;
    return chain->status;
}

/* End the chain by rp_optimizer_backward from its value. After an error of the chain, clear the record and return its status. */
static inline rp_status rp_calls_train(rp_calls *chain, rp_optimizer *optimizer, rp_update *out)
{
    if (chain->status == RP_OK) chain->status = rp_optimizer_backward(optimizer, chain->value, out);
    else rp_forget(chain->ctx);
    rp_calls_replace(chain, NULL);
    return chain->status;
}

/* ---- files ---- */

/* Write tensors under their names, and the states of an optimizer, into one safetensors file. It replaces an older file in one step, after all its bytes are on
 * the disk. The states are called "optimizer/NAME.exp_avg" and so on; the number of steps is in the metadata of the file.
 * tensors    n_tensors of them, dense, with different names that do not begin with "optimizer/"
 * optimizer  NULL: tensors only
 * errors     RP_ERR_ARG a tensor without a name, or with a wrong one · RP_ERR_SHAPE a view that is not dense · RP_ERR_DTYPE a quantised tensor · RP_ERR_META
 *            a shapes-only context · RP_ERR_IO. After an error the older file is unchanged */
RP_API rp_status rp_save(rp_ctx *ctx, const char *path, rp_tensor *const *tensors, int n_tensors, rp_optimizer *optimizer);

/* Read a file of rp_save, or any safetensors file with these tensors. The file must hold exactly the tensors, with their shapes and dtypes. All is checked
 * before the first tensor is written. On a shapes-only context nothing is read after the checks.
 * optimizer  receives its states and the number of steps. NULL: states in the file are ignored. An optimizer with master_weights keeps its masters
 *            then: load the parameters before you create it
 * errors     RP_ERR_MATCH the file lacks a tensor, or has a further one; the message names it · RP_ERR_SHAPE, RP_ERR_DTYPE a tensor of another shape or
 *            dtype; the message has both · RP_ERR_FORMAT no safetensors file, or one that was cut short · RP_ERR_ARG as rp_save · RP_ERR_IO; if it comes while
 *            tensors are read, their contents are undefined */
RP_API rp_status rp_load(rp_ctx *ctx, const char *path, rp_tensor *const *tensors, int n_tensors, rp_optimizer *optimizer);

/* ---- explanations ---- */

/* A slot of the recorded pass, and its fate. Texts are valid during the visit. Grows at its end. */
typedef struct {
    const char *path, *op;        /* the module and the op that make it; path "" outside modules */
    int call;                     /* number of the call among those of this op under this path, from 0 */
    int output;                   /* index of the output, or of the by-product */
    bool by_product;              /* an internal result of the op */
    rp_meta meta;
    int64_t bytes, flops;         /* size; FLOPs of running the call that makes it once more */
    rp_fate fate;                 /* RP_KEEP, RP_RECOMPUTE or RP_OFFLOAD */
    bool saved;                   /* it is in memory now */
    bool overruled;               /* its region would recompute it, but a reader outside needs it: it is kept */
    const char *by;               /* the rule or policy that decided; "memory limit"; NULL: the region, or none */
    const char *region;           /* path of its innermost region; NULL: none */
} rp_slot_fate;

/* Call `visit` for each slot that rp_backward would read from here, in the order of the calls. Call it after a forward. rp_policy_idle lists the
 * rules that decided no slot. */
typedef void (*rp_slot_visit)(const rp_slot_fate *slot, void *user);
RP_API rp_status rp_explain_slots(rp_ctx *ctx, rp_slot_visit visit, void *user);

/* ---- documents of your own for a trainer ---- */

/* Return document `document`, counted from 0: *ids and *n_ids, borrowed until the next call. *ids is NULL on entry; leave it NULL at the end. A document
 * without ids is skipped. Every rank gets the same documents. On a failure return a status, after rp_fail. */
typedef rp_status (*rp_documents)(rp_ctx *ctx, void *user, int64_t document, const int32_t **ids, int64_t *n_ids);
/* Train on documents of the program instead of the `dataset` of the recipe, which then needs no dataset.path and no tokenizer. rp_trainer_new asks for each
 * document once, stores the ids in an unlinked file, and shuffles, packs and pads them as the recipe says. Nothing is added to the ids. A run that is
 * resumed must return the same documents. rp_trainer_new fails with RP_ERR_ARG if an id is outside the vocabulary of the model, and passes on the
 * status of `documents`.
 * documents  NULL: the dataset of the recipe */
RP_API void rp_recipe_documents(rp_recipe *recipe, rp_documents documents, void *user);

#ifdef __cplusplus
}
#endif
#endif
