/* optim/optim.h -- optimizers: states of parameters, the update of one parameter, the norm of the gradients.
 *
 *   new      allocates the states, class optim, before the first step
 *   measure  (if clipping needs the norm first)   each parameter once, any order
 *   norm     sqrt of the sums of squares, added in the order of the parameters
 *   update   each parameter once, any order: all after backward, or each from a hook as soon as its gradient is complete.
 *            Both give the same bits. With step.measure the same pass also computes the sums of squares
 *
 * Arithmetic is fp32 for all stored dtypes. A bf16 parameter or state is rounded once per step. `stochastic` rounds every bf16
 * value that the optimizer writes at random; the random bits are a function of (seed, parameter path, step, element). With round-to-nearest a
 * bf16 second moment stops decaying when beta2 > 0.998, and a bf16 parameter ignores updates smaller than its last bit.
 *
 * States in 8 bits have one fp32 number, absmax, for each block of RP_OPTIM_BLOCK elements (kernels/optim.h). They are rounded to the nearest code, and
 * slices of sharded parameters hold whole blocks.
 *
 * If a parameter is sharded, the optimizer holds one rank's slice. Its states are slices too, each element gets the same bits as in an
 * unsharded update, and sums of squares cover this rank's elements only.
 *
 * A frozen parameter has no state and is never updated. It is listed so that its name is known.
 *
 * States may live on disk between updates. An update then processes its parameter in windows: it reads the states of a window, updates them and
 * queues the write. Results do not depend on the windows, so the bits are the same.
 */
#ifndef RP_OPTIM_H
#define RP_OPTIM_H

#include "comm/comm.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

typedef struct {
    const char *name;                   /* a name in optim.def */
    double beta1, beta2, eps, momentum, weight_decay;
    const char *const *no_decay;        /* globs over parameter paths, or over modules that contain parameters */
    int n_no_decay;
    const rp_module *model;             /* globs may also match the names of its modules; NULL: they match paths only */
    rp_dtype state_dtype;               /* fp32, bf16 or, for states in 8 bits, uint8 */
    bool master_weights;                /* keep an fp32 copy of every bf16 parameter */
    bool stochastic;
    const char *offload;                   /* an existing folder: states and masters live on disk (optim/state_store.h); NULL: in memory */
} rp_optim_config;

/* `slice`: the elements of the parameter that the tensor holds; {0}: all. Further elements that the tensor has room for are not touched. */
typedef struct { const char *path; rp_tensor *tensor; rp_slice slice; bool frozen; } rp_optim_param;

typedef struct {                        /* arguments of an update that belong to the step */
    int64_t step;                       /* from 1 */
    double lr, grad_scale;              /* grad_scale: rp__clip_scale, or 1 */
    bool measure;                       /* store the sums of squares for rp__optim_norm */
    bool clipped;                       /* rp__optim_queue_norm has computed grad_scale on the device */
} rp_optim_step;

typedef struct rp_optim_kind {
    const char *name;
    const char *state_name[RP_OPTIM_MAX_STATES];    /* as in torch; ends with NULL if there are fewer */
    bool (*wants_state)(const rp_optim_config *config, int state);
    void (*update)(const rp_kernels *kernels, const rp_optim_call *call);
} rp_optim_kind;

typedef struct rp_optim rp_optim;

/* Create an optimizer. States start at zero, masters at their parameters. `params` is copied, but its paths and tensors are borrowed and must
 * outlive the optimizer.
 * errors  RP_ERR_CONFIG an unknown name, or a number out of range · RP_ERR_DTYPE · RP_ERR_MATCH a no_decay entry
 *         matches no parameter · RP_ERR_IO the folder of `offload` · RP_ERR_ARG a slice that begins within a block of states in 8 bits ·
 *         RP_ERR_MEMORY */
rp_status rp__optim_new(rp_ctx *ctx, const rp_optim_config *config, const rp_optim_param *params, int n_params,
                        rp_optim **out);
void rp__optim_free(rp_optim *optim);

/* Begin a step in which some parameters may get no gradient: their sums of squares become 0. */
void rp__optim_begin(rp_optim *optim);
/* Update parameter i with its gradient (same shape, bf16 or fp32). Without data nothing is computed. After a disk error nothing is updated
 * any more; rp__optim_settle reports the error. */
void rp__optim_update(rp_optim *optim, int i, const rp_tensor *grad, const rp_optim_step *step);
/* Finish the updates of a step: on success all states on disk are written. errors RP_ERR_IO; parameters and states are then invalid */
rp_status rp__optim_settle(rp_optim *optim);

/* Compute and store the sum of squares of the gradient of parameter i. */
void rp__optim_measure(rp_optim *optim, int i, const rp_tensor *grad);
/* Sum of squares of all gradients as last measured, and its square root, the 2-norm. */
double rp__optim_squares(const rp_optim *optim);
double rp__optim_norm(const rp_optim *optim);
/* On a device with a queue, updates and the norm may need no wait of the host (kernels/step.h). queues: whether they do here. queue_norm: the norm becomes
 * a result of the step; max_norm > 0: so does the factor for updates with `clipped`. now: the members of *now that belong to the update. */
bool rp__optim_queues(const rp_optim *optim);
void rp__optim_queue_norm(const rp_optim *optim, double max_norm);
void rp__optim_now(const rp_optim *optim, const rp_optim_step *step, rp_step_now *now);
/* As torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1. */
double rp__clip_scale(double norm, double max_norm);

/* Tensor i that the optimizer owns, in a fixed order. *name is "<parameter path>.exp_avg" and so on, borrowed. Returns NULL past the end (and
 * leaves *name), and for tensors on disk. */
rp_tensor *rp__optim_tensor(const rp_optim *optim, int i, const char **name);
int rp__optim_n_tensors(const rp_optim *optim);
/* Index of the parameter that the tensor belongs to. */
int rp__optim_tensor_param(const rp_optim *optim, int i);
/* The dtype and shape of the whole tensor, and this rank's slice of it. `param` is that of its parameter. absmax has an element for each block. */
rp_meta rp__optim_tensor_whole(const rp_optim *optim, int i, const rp_meta *param);
rp_slice rp__optim_tensor_slice(const rp_optim *optim, int i, rp_slice param);

/* Get a window of tensor i, which must live on disk: *data points to *count elements from `at` on. `at` counts from the start of the slice. They
 * are valid until the next window or update. Elements that were never written are zero; in a master they are the parameter's. errors RP_ERR_IO */
rp_status rp__optim_window(rp_optim *optim, int i, int64_t at, void **data, int64_t *count);
/* Write back the window that was got last, after the caller changed it. errors RP_ERR_IO */
rp_status rp__optim_window_keep(rp_optim *optim);
/* Bytes of one state of n elements of this dtype, with absmax of its blocks. */
int64_t rp__optim_state_bytes(rp_dtype dtype, int64_t n);
/* Bytes of all states in 8 bits, in memory or on disk. */
int64_t rp__optim_coded_bytes(const rp_optim *optim);
/* Bytes of all states and masters on disk, whether written yet or not; 0 if they are in memory. */
int64_t rp__optim_offload_bytes(const rp_optim *optim);

/* The parts of a program's optimizer (optim/public.c). resume: set the number of steps done. */
struct rp_optimizer;
rp_optim *rp__optimizer_optim(const struct rp_optimizer *optimizer);
rp_ctx *rp__optimizer_ctx(const struct rp_optimizer *optimizer);
rp_tensor *rp__optimizer_param(const struct rp_optimizer *optimizer, int i);
void rp__optimizer_resume(struct rp_optimizer *optimizer, int64_t steps);

/* Copy the parameters into their masters. Call this after parameters were loaded without a state. */
void rp__optim_refresh_masters(rp_optim *optim);

#endif
