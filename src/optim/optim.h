/* optim/optim.h -- optimizers: states of parameters, the update of one parameter, the norm of the gradients.
 *
 *   new      makes the states, class optim, before the first step
 *   measure  (where clipping needs the norm first)   each parameter once, any order
 *   norm     sqrt of the sums of squares, added in the order of the parameters
 *   update   each parameter once, any order: all after backward, or each from a hook as soon as its gradient stands.
 *            Either way the bits are the same; with step.measure the sums of squares come out of the same pass
 *
 * Arithmetic is fp32 whatever is stored. A bf16 parameter or state is rounded once a step; `stochastic` rounds every bf16
 * value the optimizer writes by bits that are a function of (seed, parameter path, step, element). With plain rounding a
 * bf16 second moment stops decaying when beta2 > 0.998, and a bf16 parameter ignores updates below its last bit.
 *
 * Of a sharded parameter the optimizer has one rank's slice: its states are such slices, an element is updated to the bits it
 * has in the whole, and sums of squares are of this rank's elements.
 *
 * A frozen parameter has no state and is never updated; it is listed so that names of it are known.
 *
 * States may live on disk between updates: an update then goes over its parameter window by window, reads a window's states, works on it
 * and writes them behind. Elements do not know of windows, so the bits are the same.
 */
#ifndef RP_OPTIM_H
#define RP_OPTIM_H

#include "comm/comm.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

typedef struct {
    const char *name;                   /* a line of optim.def */
    double beta1, beta2, eps, momentum, weight_decay;
    const char *const *no_decay;        /* globs over parameter paths, or over modules above them */
    int n_no_decay;
    const rp_module *model;             /* whose names globs may be in, too; NULL: of paths alone */
    rp_dtype state_dtype;               /* fp32 or bf16 */
    bool master_weights;                /* an fp32 copy beside every bf16 parameter */
    bool stochastic;
    const char *offload;                   /* a folder that exists: states and masters live on disk (optim/state_store.h); NULL: in memory */
} rp_optim_config;

/* `slice` says which elements of the parameter the tensor holds; zeros: all of them. What it has room for beyond them is left alone. */
typedef struct { const char *path; rp_tensor *tensor; rp_slice slice; bool frozen; } rp_optim_param;

typedef struct {                        /* what an update needs to know of the step */
    int64_t step;                       /* from 1 */
    double lr, grad_scale;              /* grad_scale: rp__clip_scale, or 1 */
    bool measure;                       /* leave the sums of squares for rp__optim_norm */
} rp_optim_step;

typedef struct rp_optim_kind {
    const char *name;
    const char *state_name[RP_OPTIM_MAX_STATES];    /* torch's names; NULL ends */
    bool (*wants_state)(const rp_optim_config *config, int state);
    void (*update)(const rp_kernels *kernels, const rp_optim_call *call);
} rp_optim_kind;

typedef struct rp_optim rp_optim;

/* States start at zero, masters at their parameters. `params` is copied: paths and tensors stay the caller's and must live
 * as long.  errors  RP_ERR_CONFIG unknown name, a number out of range · RP_ERR_DTYPE · RP_ERR_MATCH a no_decay entry
 * that fits no parameter · RP_ERR_IO the folder of `away` · RP_ERR_MEMORY */
rp_status rp__optim_new(rp_ctx *ctx, const rp_optim_config *config, const rp_optim_param *params, int n_params,
                        rp_optim **out);
void rp__optim_free(rp_optim *optim);

/* Update parameter i by its gradient, of the same shape, bf16 or fp32. Nothing is computed without data. After the disk failed nothing is
 * updated any more: settle tells. */
void rp__optim_update(rp_optim *optim, int i, const rp_tensor *grad, const rp_optim_step *step);
/* For the end of a step's updates: they are whole, and what lives on disk is there. errors RP_ERR_IO; parameters and states are then lost */
rp_status rp__optim_settle(rp_optim *optim);

/* Remember the sum of squares of the gradient of parameter i. */
void rp__optim_measure(rp_optim *optim, int i, const rp_tensor *grad);
/* The sum of squares over all parameters' gradients as last measured; the 2-norm is its root. */
double rp__optim_squares(const rp_optim *optim);
double rp__optim_norm(const rp_optim *optim);
/* As torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1. */
double rp__clip_scale(double norm, double max_norm);

/* Every tensor the optimizer owns, in a fixed order, for states on disk: name is "<parameter path>.exp_avg" and so on,
 * borrowed. NULL past the end, and of those that live on disk. */
rp_tensor *rp__optim_tensor(const rp_optim *optim, int i, const char **name);
int rp__optim_n_tensors(const rp_optim *optim);
rp_dtype rp__optim_tensor_dtype(const rp_optim *optim, int i);
/* The parameter it belongs to, whose slice it has. */
int rp__optim_tensor_param(const rp_optim *optim, int i);

/* Of tensor i, which lives on disk, the elements from `at` on (counted from the slice's first) that are at hand together: *count of them at
 * *data, until the next window or update. What was never written is zero, or the parameter. errors RP_ERR_IO */
rp_status rp__optim_window(rp_optim *optim, int i, int64_t at, void **data, int64_t *count);
/* The window that was asked for last was written to. errors RP_ERR_IO */
rp_status rp__optim_window_keep(rp_optim *optim);
/* What lives on disk, kept or not. */
int64_t rp__optim_offload_bytes(const rp_optim *optim);

/* Copy the parameters into their masters, after parameters were loaded without a state. */
void rp__optim_refresh_masters(rp_optim *optim);

#endif
