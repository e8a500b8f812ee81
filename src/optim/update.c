/* optim/update.c -- updates one parameter: at once if its states are in memory, else window by window. */
#include "optim/internal.h"

#include <math.h>
#include <string.h>

#include "base/watch.h"

/* ---- at once ---- */

static bool is_fast(const rp_tensor *param, const rp_tensor *grad)
{
    return param->m.dtype != RP_F64 && grad->m.dtype != RP_F64 && rp_tensor_is_dense(param) && rp_tensor_is_dense(grad);
}

bool rp__optim_launches(const rp_optim *o, const rp_tensor *param, const rp_tensor *grad) { return o->ctx->device[0]->runs && is_fast(param, grad); }

const rp_kernels *rp__optim_kernels(const rp_optim *o, const rp_tensor *param, const rp_tensor *grad, bool launches)
{
    if (launches) return rp__kernels(o->ctx);
    return is_fast(param, grad) ? rp__kernels_inside(o->ctx) : rp__kernels_none();
}

static void *data_of(const rp_tensor *t) { return t ? rp__tensor_data(t) : NULL; }

static double bias_of(double beta, const rp_optim_step *step) { return 1 - pow(beta, (double)step->step); }

void rp__optim_now(const rp_optim *o, const rp_optim_step *step, rp_step_now *now)
{
    now->update     = step->step;
    now->lr         = step->lr;
    now->grad_scale = step->grad_scale;
    now->bias1      = bias_of(o->config.beta1, step);
    now->bias2      = bias_of(o->config.beta2, step);
}

static rp_optim_call make_call(rp_optim *o, int i, const rp_tensor *grad, const rp_optim_step *step, bool launches)
{
    const rp_optim_config *c = &o->config;
    rp_optim_slot *s         = &o->slots[i];
    rp_optim_call call       = {
              .on = o->ctx->on, .n = s->param.slice.count, .first = s->param.slice.first, .param_dtype = s->param.tensor->m.dtype,
              .grad_dtype = grad->m.dtype, .state_dtype = c->state_dtype, .param = data_of(s->param.tensor),
              .master = data_of(s->part[RP_OPTIM_MASTER]), .grad = data_of(grad), .lr = step->lr, .grad_scale = step->grad_scale,
              .weight_decay = s->decays ? c->weight_decay : 0, .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->eps,
              .momentum = c->momentum, .bias1 = bias_of(c->beta1, step), .bias2 = bias_of(c->beta2, step), .step = step->step,
              .clipped = step->clipped, .stochastic = c->stochastic, .key = s->key, .sum_squares = step->measure ? rp__optim_sum(o, i, launches) : NULL,
    };

    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++) {
        call.state[k]  = data_of(s->part[k]);
        call.absmax[k] = data_of(s->part[RP_OPTIM_ABSMAX + k]);
    }
    return call;
}

/* Weights, states and masters are read and written; the gradient is read. */
static int64_t update_bytes_of(const rp_optim_slot *s, const rp_tensor *grad)
{
    int64_t bytes = rp_meta_bytes(&s->param.tensor->m);

    for (int k = 0; k < RP_OPTIM_PARTS; k++) bytes += s->part[k] ? rp_meta_bytes(&s->part[k]->m) : 0;
    return 2 * bytes + rp_meta_bytes(&grad->m);
}

static void *element(void *base, rp_dtype dtype, int64_t at) { return (uint8_t *)base + at * rp_dtype_bytes(dtype); }

/* The call for elements of a window. */
static rp_optim_call in_window(rp_optim_call call, const rp_state_store_view *v)
{
    call.n = v->count;
    call.first += v->first;
    call.param = element(call.param, call.param_dtype, v->first);
    call.grad  = element((void *)call.grad, call.grad_dtype, v->first);
    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++) {
        call.state[k]  = v->part[k];
        call.absmax[k] = v->part[RP_OPTIM_ABSMAX + k];
    }
    call.master      = v->part[RP_OPTIM_MASTER];
    call.sum_squares = NULL;
    return call;
}

/* window NULL: the whole parameter. */
static void update_run(rp_optim *o, int i, const rp_tensor *grad, const rp_optim_step *step, const rp_state_store_view *window, int64_t bytes)
{
    const rp_optim_slot *s = &o->slots[i];
    bool launches          = rp__optim_launches(o, s->param.tensor, grad);
    double began           = rp__watch_begin(o->ctx);
    unsigned mode          = rp__fp_enter();

    if (!launches) rp__mem_enter(o->ctx);
    rp_optim_call call = make_call(o, i, grad, step, launches);
    if (window) call = in_window(call, window);
    o->kind->update(rp__optim_kernels(o, s->param.tensor, grad, launches), &call);
    if (!launches) rp__mem_leave(o->ctx);
    if (call.sum_squares) rp__optim_sum_settle(o, i, launches);
    rp__fp_leave(mode);
    rp__watch_end(o->ctx, (rp_span){ .doing = RP_DOING_UPDATE, .name = o->kind->name, .path = s->param.path, .bytes = bytes, .began = began });
}

/* ---- window by window ---- */

/* Fills parts that no update has written: states with zero, a master with its bf16 parameter. */
static rp_status fill_fresh(const rp_optim *o, const rp_state_store_view *v)
{
    const rp_tensor *param = o->slots[v->group].param.tensor;
    rp_host h;

    for (int k = 0; k < RP_OPTIM_PARTS; k++)
        if (k != RP_OPTIM_MASTER && v->fresh >> k & 1) memset(v->part[k], 0, (size_t)rp__state_store_view_bytes(o->store, v, k));
    if (!(v->fresh >> RP_OPTIM_MASTER & 1)) return RP_OK;
    RP_TRY(rp__tensor_host(param, v->first, v->count, RP_HOST_READ, &h));
    const uint16_t *from = h.data;
    float *master        = v->part[RP_OPTIM_MASTER];
    for (int64_t e = 0; e < v->count; e++) master[e] = rp__f32_from_bf16(from[e]);
    rp__tensor_host_end(&h);
    return RP_OK;
}

static rp_status update_take(rp_optim *o, int i, unsigned parts, int64_t at)
{
    double began = rp__watch_begin(o->ctx);

    RP_TRY(rp__state_store_take(o->store, i, parts, at, &o->window));
    RP_TRY(fill_fresh(o, &o->window));
    rp__watch_end(o->ctx, (rp_span){ .doing = RP_DOING_OFFLOAD, .name = "states read", .path = o->slots[i].param.path, .began = began });
    return RP_OK;
}

static rp_status keep(rp_optim *o)
{
    double began = rp__watch_begin(o->ctx);

    RP_TRY(rp__state_store_keep(o->store, &o->window));
    rp__watch_end(o->ctx, (rp_span){ .doing = RP_DOING_OFFLOAD, .name = "states written", .path = o->slots[o->window.group].param.path,
                                     .began = began });
    return RP_OK;
}

static void update_window(rp_optim *o, int i, const rp_tensor *grad, const rp_optim_step *step)
{
    const rp_tensor *param = o->slots[i].param.tensor;
    int64_t bytes          = o->window.count * (2 * rp_dtype_bytes(param->m.dtype) + rp_dtype_bytes(grad->m.dtype));

    if (!rp__optim_launches(o, param, grad)) {
        update_run(o, i, grad, step, &o->window, bytes);
        return;
    }
    rp_state_store_view lent = rp__state_store_lend(o->store, &o->window);
    update_run(o, i, grad, step, &lent, bytes);
    rp__state_store_fetch(o->store, &o->window, &lent);
}

/* The sum of squares is computed over the whole gradient, because adding sums of windows would round differently. */
static rp_status update_windows(rp_optim *o, int i, const rp_tensor *grad, const rp_optim_step *step)
{
    int64_t n = o->slots[i].param.slice.count;

    if (step->measure) rp__optim_measure(o, i, grad);
    for (int64_t at = 0; at < n; at += o->window.count) {
        RP_TRY(update_take(o, i, ~0u, at));
        update_window(o, i, grad, step);
        RP_TRY(keep(o));
    }
    return RP_OK;
}

/* ---- both ways ---- */

static void note_writes(const rp_optim_slot *s)
{
    rp__tensor_wrote(s->param.tensor, "the optimizer");
    for (int k = 0; k < RP_OPTIM_PARTS; k++)
        if (s->part[k]) rp__tensor_wrote(s->part[k], "the optimizer");
}

void rp__optim_update(rp_optim *o, int i, const rp_tensor *grad, const rp_optim_step *step)
{
    RP_BUG_IF(i < 0 || i >= o->n_params || !rp_meta_same_shape(&grad->m, &o->slots[i].param.tensor->m));
    RP_BUG_IF(!rp_tensor_is_dense(o->slots[i].param.tensor) || !rp_tensor_is_dense(grad));
    if (grad->storage->data && !o->store) update_run(o, i, grad, step, NULL, update_bytes_of(&o->slots[i], grad));
    else if (grad->storage->data && !o->failed) o->failed = update_windows(o, i, grad, step) != RP_OK;
    note_writes(&o->slots[i]);
}

/* The disk queue remembers any error and returns it here. */
rp_status rp__optim_settle(rp_optim *o)
{
    if (!o->store) return RP_OK;
    rp_status status = rp__state_store_flush(o->store);
    RP_BUG_IF(o->failed && status == RP_OK);
    return status;
}

/* ---- windows for states on disk ---- */

rp_status rp__optim_window(rp_optim *o, int i, int64_t at, void **data, int64_t *count)
{
    const rp_optim_named *named = &o->names[i];
    int64_t each = rp__optim_each(named->part);

    RP_TRY(update_take(o, named->param, 1u << named->part, at * each));
    int64_t skip = at - o->window.first / each;
    *data        = element(o->window.part[named->part], named->dtype, skip);
    *count       = rp__optim_part_elems(named->part, o->window.count) - skip;
    return RP_OK;
}

rp_status rp__optim_window_keep(rp_optim *o) { return keep(o); }
int64_t rp__optim_offload_bytes(const rp_optim *o) { return o->store ? rp__state_store_bytes(o->store) : 0; }
