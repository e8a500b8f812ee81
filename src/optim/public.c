/* optim/public.c -- optimizers of a program; reprise/train.h documents the functions.
 *
 * The states, the update and the norm are those of optim/optim.h. This file keeps the parameters, the number of steps and the schedule.
 */
#include "reprise/train.h"
#include "base/sized.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "tape/tape.h"

#include <math.h>
#include <string.h>

struct rp_optimizer {
    rp_ctx *ctx;
    rp_optim *optim;
    rp_tensor **param;                  /* counted */
    int n_params;
    double lr, clip_norm;
    rp_schedule schedule;
    int64_t steps;
    bool broken;                        /* an update has failed at the disk */
    rp_optim_step now;                  /* of the running backward */
};

rp_optim *rp__optimizer_optim(const rp_optimizer *o) { return o->optim; }
rp_ctx *rp__optimizer_ctx(const rp_optimizer *o) { return o->ctx; }
rp_tensor *rp__optimizer_param(const rp_optimizer *o, int i) { return o->param[i]; }
void rp__optimizer_resume(rp_optimizer *o, int64_t steps) { o->steps = steps; }
int64_t rp_optimizer_steps(const rp_optimizer *o) { return o ? o->steps : 0; }

/* ---- new and free ---- */

static rp_status check_param(rp_ctx *ctx, rp_tensor *const *params, int i)
{
    const char *name = rp_tensor_name(params[i]);

    RP_CHECK(ctx, *name, RP_ERR_ARG, "rp_optimizer_new: parameter %d (%s) has no name: call rp_tensor_set_name", i, rp_meta_str(&params[i]->m));
    RP_CHECK(ctx, !params[i]->base && rp_tensor_is_dense(params[i]), RP_ERR_ARG, "rp_optimizer_new: parameter %d is a view of '%s'", i, name);
    for (int j = 0; j < i; j++)
        RP_CHECK(ctx, strcmp(rp_tensor_name(params[j]), name) != 0, RP_ERR_ARG, "rp_optimizer_new: the parameters %d and %d are both named '%s'", j, i, name);
    return RP_OK;
}

static rp_status check_params(rp_ctx *ctx, rp_tensor *const *params, int n)
{
    RP_CHECK(ctx, n >= 0, RP_ERR_ARG, "rp_optimizer_new: the number of parameters is %d", n);
    for (int i = 0; i < n; i++) {
        RP_CHECK(ctx, params[i], RP_ERR_ARG, "rp_optimizer_new: parameter %d is NULL", i);
        RP_TRY(rp__same_ctx(ctx, params[i]->ctx, "rp_optimizer_new", "parameter"));
    }
    for (int i = 0; i < n; i++) RP_TRY(check_param(ctx, params, i));
    return RP_OK;
}

static rp_status check_rates(rp_ctx *ctx, const rp_optimizer_options *o)
{
    RP_CHECK(ctx, o->lr > 0 && isfinite(o->lr), RP_ERR_CONFIG, "rp_optimizer_new: lr is %g, expected a number above 0", o->lr);
    RP_CHECK(ctx, o->clip_norm >= 0, RP_ERR_ARG, "rp_optimizer_new: clip_norm is %g", o->clip_norm);
    return RP_OK;
}

static double or_default(double value, double fallback) { return value == 0 ? fallback : value; }

static rp_optim_config config_of(const rp_optimizer_options *o)
{
    return (rp_optim_config){
        .name = o->name ? o->name : "adamw", .beta1 = or_default(o->beta1, 0.9), .beta2 = or_default(o->beta2, 0.95), .eps = or_default(o->eps, 1e-8),
        .momentum = o->momentum, .weight_decay = o->weight_decay, .no_decay = o->no_decay, .n_no_decay = o->n_no_decay, .state_dtype = o->state_dtype,
        .master_weights = o->master_weights, .stochastic = o->stochastic, .offload = o->offload,
    };
}

/* The names of the schedules are static text, so the option itself need not stay. */
static rp_status set_schedule(rp_optimizer *opt, const rp_optimizer_options *o)
{
    opt->schedule = (rp_schedule){ o->schedule ? o->schedule : "constant", o->warmup_steps, o->n_steps };
    RP_TRY(rp__schedule_check(opt->ctx, &opt->schedule));
    opt->schedule.name = rp__schedule_name(opt->schedule.name);
    return RP_OK;
}

static rp_status open_optim(rp_optimizer *opt, const rp_optimizer_options *o)
{
    rp_optim_config config = config_of(o);
    rp_optim_param *listed = rp__host_alloc(opt->ctx, opt->n_params * (int64_t)sizeof *listed);

    if (!listed) return RP_ERR_MEMORY;
    for (int i = 0; i < opt->n_params; i++)
        listed[i] = (rp_optim_param){ .path = rp_tensor_name(opt->param[i]), .tensor = opt->param[i], .frozen = !opt->param[i]->requires_grad };
    rp_status status = rp__optim_new(opt->ctx, &config, listed, opt->n_params, &opt->optim);
    rp__release(listed);
    return status;
}

static rp_status take_params(rp_optimizer *opt, rp_tensor *const *params, int n)
{
    opt->param = rp__host_alloc(opt->ctx, n * (int64_t)sizeof *opt->param);
    if (!opt->param) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) opt->param[i] = rp_tensor_ref(params[i]);
    opt->n_params = n;
    return RP_OK;
}

rp_status rp_optimizer_new_sized(size_t size, rp_ctx *ctx, rp_tensor *const *params, int n_params, const rp_optimizer_options *options, rp_optimizer **out)
{
    RP_GIVEN(ctx, ctx && params && options && out);
    rp_optimizer_options own;

    RP_TAKE(ctx, own, options, size);
    RP_TRY(check_params(ctx, params, n_params));
    RP_TRY(check_rates(ctx, options));
    rp_optimizer *opt = rp__host_alloc(ctx, sizeof *opt);
    if (!opt) return RP_ERR_MEMORY;
    *opt             = (rp_optimizer){ .ctx = ctx, .lr = options->lr, .clip_norm = options->clip_norm };
    rp_status status = set_schedule(opt, options);
    if (status == RP_OK) status = take_params(opt, params, n_params);
    if (status == RP_OK) status = open_optim(opt, options);
    if (status != RP_OK) rp_optimizer_free(opt);
    else *out = opt;
    return status;
}

rp_status (rp_optimizer_new)(rp_ctx *ctx, rp_tensor *const *params, int n_params, const rp_optimizer_options *options, rp_optimizer **out)
{
    return rp_optimizer_new_sized(RP_FIRST_OPTIMIZER_OPTIONS, ctx, params, n_params, options, out);
}

void rp_optimizer_free(rp_optimizer *o)
{
    if (!o) return;
    rp__optim_free(o->optim);
    for (int i = 0; i < o->n_params; i++) rp_tensor_unref(o->param[i]);
    RP_RELEASE(o->param, o);
}

rp_status rp_optimizer_set_lr(rp_optimizer *o, double lr)
{
    RP_GIVEN(NULL, o);
    RP_CHECK(o->ctx, lr >= 0 && isfinite(lr), RP_ERR_ARG, "rp_optimizer_set_lr: the learning rate is %g", lr);
    o->lr = lr;
    return RP_OK;
}

rp_status rp_schedule_factor(rp_ctx *ctx, const char *schedule, int64_t warmup_steps, int64_t n_steps, int64_t step, double *factor)
{
    RP_GIVEN(ctx, ctx && schedule && factor);
    rp_schedule s = { schedule, warmup_steps, n_steps };

    RP_TRY(rp__schedule_check(ctx, &s));
    RP_CHECK(ctx, step >= 0, RP_ERR_CONFIG, "rp_schedule_factor: step %" PRId64 " is negative", step);
    *factor = rp__schedule_factor(&s, step);
    return RP_OK;
}

/* ---- steps ---- */

static bool has_data(const rp_optimizer *o) { return !o->ctx->options.shapes_only; }

static void begin_step(rp_optimizer *o)
{
    o->now = (rp_optim_step){ .step = o->steps + 1, .lr = o->lr * rp__schedule_factor(&o->schedule, o->steps), .grad_scale = 1, .measure = true };
    rp__optim_begin(o->optim);
}

static void drop_gradients(const rp_optimizer *o)
{
    for (int i = 0; i < o->n_params; i++) rp_tensor_drop_grad(o->param[i]);
}

/* A parameter without a gradient keeps its place in the norm: its sum of squares is 0. */
static void update_param(rp_optimizer *o, int i)
{
    if (!o->param[i]->grad) return;
    if (o->param[i]->requires_grad) rp__optim_update(o->optim, i, o->param[i]->grad, &o->now);
    rp_tensor_drop_grad(o->param[i]);
}

static rp_status check_norm(const rp_optimizer *o, double norm)
{
    RP_CHECK(o->ctx, !has_data(o) || isfinite(norm), RP_ERR_NONFINITE, "the norm of the gradients of step %" PRId64 " is %g", o->now.step, norm);
    return RP_OK;
}

static rp_status clip_all(rp_optimizer *o, double *norm)
{
    for (int i = 0; i < o->n_params; i++)
        if (o->param[i]->grad) rp__optim_measure(o->optim, i, o->param[i]->grad);
    *norm = rp__optim_norm(o->optim);
    RP_TRY(check_norm(o, *norm));
    o->now.grad_scale = rp__clip_scale(*norm, o->clip_norm);
    o->now.measure    = false;
    return RP_OK;
}

/* Update the parameters that still have a gradient, and count the step. */
static rp_status finish_step(rp_optimizer *o, bool clipped, double norm, rp_update *out)
{
    for (int i = 0; i < o->n_params; i++) update_param(o, i);
    rp_status status = rp__optim_settle(o->optim);
    o->broken        = status != RP_OK;
    RP_TRY(status);
    if (!clipped) norm = rp__optim_norm(o->optim);
    RP_TRY(check_norm(o, norm));
    o->steps += has_data(o);
    *out = (rp_update){ .step = o->now.step, .lr = o->now.lr, .grad_norm = has_data(o) ? norm : 0 };
    return RP_OK;
}

static rp_status check_usable(const rp_optimizer *o, const char *call)
{
    RP_CHECK(o->ctx, !o->broken, RP_ERR_STATE, "%s: an earlier update failed, so the parameters are no longer usable", call);
    return RP_OK;
}

static rp_status step_all(rp_optimizer *o, rp_update *out)
{
    double norm = 0;

    begin_step(o);
    rp_status status = o->clip_norm > 0 ? clip_all(o, &norm) : RP_OK;
    if (status == RP_OK) status = finish_step(o, o->clip_norm > 0, norm, out);
    drop_gradients(o);
    return status;
}

rp_status rp_optimizer_step_sized(size_t size, rp_optimizer *o, rp_update *out)
{
    RP_GIVEN(NULL, o);
    rp_update done;
    bool any = false;

    RP_TRY(check_usable(o, "rp_optimizer_step"));
    for (int i = 0; i < o->n_params; i++) any = any || o->param[i]->grad;
    RP_CHECK(o->ctx, any, RP_ERR_STATE, "rp_optimizer_step: no parameter has a gradient: call rp_backward first");
    RP_TRY(step_all(o, &done));
    if (out) rp__sized_give(out, size, &done, sizeof done);
    return RP_OK;
}

rp_status (rp_optimizer_step)(rp_optimizer *o, rp_update *out) { return rp_optimizer_step_sized(RP_FIRST_UPDATE, o, out); }

/* ---- updates in backward ---- */

static rp_status update_leaf(void *user, rp_tensor *leaf)
{
    rp_optimizer *o = user;

    for (int i = 0; i < o->n_params; i++)
        if (o->param[i] == leaf) update_param(o, i);
    return RP_OK;
}

static rp_status check_loss(const rp_optimizer *o, const rp_tensor *loss, double *value)
{
    if (!has_data(o) || rp_meta_elems(&loss->m) != 1) return RP_OK;         /* rp_backward refuses such a loss */
    RP_TRY(rp_tensor_read(loss, value, 1));
    RP_CHECK(o->ctx, isfinite(*value), RP_ERR_NONFINITE, "the loss of step %" PRId64 " is %g", o->steps + 1, *value);
    return RP_OK;
}

static rp_status backward_updating(rp_optimizer *o, rp_tensor *loss, rp_update *out)
{
    rp_grad_hook *hook = &rp__tape_ctx(o->ctx)->on_grad, before = *hook;

    begin_step(o);
    *hook            = (rp_grad_hook){ update_leaf, o };
    rp_status status = rp_backward(o->ctx, loss);
    *hook            = before;
    if (status == RP_OK) status = finish_step(o, false, 0, out);
    drop_gradients(o);
    return status;
}

static rp_status check_backward(const rp_optimizer *o, const rp_tensor *loss, double *value)
{
    RP_TRY(check_usable(o, "rp_optimizer_backward"));
    return check_loss(o, loss, value);
}

/* Clipping needs the norm of all gradients before the first update. */
static rp_status backward_then_step(rp_optimizer *o, rp_tensor *loss, rp_update *out)
{
    rp_status status = rp_backward(o->ctx, loss);

    if (status == RP_OK) return step_all(o, out);
    drop_gradients(o);
    return status;
}

rp_status rp_optimizer_backward_sized(size_t size, rp_optimizer *o, rp_tensor *loss, rp_update *out)
{
    RP_GIVEN(o ? o->ctx : NULL, o && loss);
    rp_update done;
    double value = 0;

    RP_SAME_CTX(o->ctx, loss->ctx, "loss");
    rp_status status = check_backward(o, loss, &value);
    if (status == RP_OK) status = (o->clip_norm > 0 ? backward_then_step : backward_updating)(o, loss, &done);
    else rp_forget(o->ctx);
    if (status == RP_OK) done.loss = value;
    if (status == RP_OK && out) rp__sized_give(out, size, &done, sizeof done);
    return status;
}

rp_status (rp_optimizer_backward)(rp_optimizer *o, rp_tensor *loss, rp_update *out) { return rp_optimizer_backward_sized(RP_FIRST_UPDATE, o, loss, out); }
