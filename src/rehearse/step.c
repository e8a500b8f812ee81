/* rehearse/step.c -- one optimizer step, written once for data and for shapes.
 *
 * Both cases allocate and free in the same order; a rehearsal only skips reading a batch and reading numbers. So its ledger and pool equal
 * those of the run, to the byte.
 */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/watch.h"
#include "comm/comm.h"
#include "kernels/kernels.h"
#include "ops/prefetch.h"
#include "ops/reduce_async.h"
#include "rehearse/engine.h"
#include "shard/ranks.h"
#include "tape/tape.h"
#include "tensor/tensor.h"

/* ---- a batch ---- */

static rp_data_batch full_batch(const rp_recipe *r, const rp_recipe_dataset *of, int64_t rows)
{
    return (rp_data_batch){ .rows = rows, .length = r->max_seq_len, .padded = !of->packed };
}

/* Sums over ranks: each rank has the part of its own rows. */
static rp_status read_loss(const rp_engine *e, const rp_data *data, const rp_tensor *loss, double *out)
{
    *out = 0;
    if (!data) return RP_OK;
    RP_TRY(rp_tensor_read(loss, out, 1));
    return rp__ranks_sum(e->ctx, rp__world(e->ctx), out, "the loss");
}

/* ---- forward and backward ---- */

static const char *number_name(double value) { return isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

static void part_ends(const rp_engine *e, const char *name, double began)
{
    rp__watch_end(e->ctx, (rp_span){ .doing = RP_DOING_PART, .name = name, .began = began });
}

/* The recipe's policy is nested inside the policies of the context. */
static rp_status recorded_loss(rp_engine *e, const rp_model_batch *t, int64_t targets, rp_tensor **loss)
{
    rp_policy *policy = e->selection.policy;
    double began      = rp__watch_begin(e->ctx);

    if (policy) RP_TRY(rp__policy_push(e->ctx, policy));
    rp_status status = rp__batch_loss(e, t, targets, loss);
    if (policy) rp__policy_pop(e->ctx);
    part_ends(e, "forward", began);
    return status;
}

static rp_status read_batch(const rp_engine *e, rp_data *data, int64_t step, int64_t micro, rp_data_batch *b)
{
    double began     = rp__watch_begin(e->ctx);
    rp_status status = data ? rp__data_batch(data, step, micro, b) : RP_OK;

    rp__watch_end(e->ctx, (rp_span){ .doing = RP_DOING_DATA, .name = "batch", .began = began });
    return status;
}

static rp_status backward(const rp_engine *e, rp_tensor *loss)
{
    double began     = rp__watch_begin(e->ctx);
    rp_status status = rp__backward(e->ctx, loss);

    if (status == RP_OK) status = rp__reduce_async_settle(e->ctx, NULL);
    part_ends(e, "backward", began);
    return status;
}

/* ---- a device with a queue: loss, norm and clip factor stay there until the host reads them, so nothing waits in a step ---- */

/* Other ranks need the numbers in the middle of the step. */
static bool queues(const rp_engine *e, const rp_data *data)
{
    return data && rp__optim_queues(e->optim) && rp__comm_ranks(rp__world(e->ctx)) == 1;
}

static void queue_begin(const rp_engine *e, bool first, int64_t targets)
{
    rp_step_now now = { .first = first, .follows = e->n_late > 0, .step = e->ctx->step, .sample_base = e->ctx->sample_base,
                        .weight = rp__loss_weight(targets) };

    rp__optim_now(e->optim, &e->update, &now);
    rp__kernels(e->ctx)->step_begin(&now, &e->ctx->on);
}

/* step: from 1, as in messages */
static rp_status bad_loss(rp_ctx *ctx, int64_t step, double value)
{
    return rp_fail(ctx, RP_ERR_NONFINITE, "loss of step %" PRId64 " is %s", step, number_name(value));
}

static rp_status check_norm(rp_ctx *ctx, int64_t step, double norm)
{
    RP_CHECK(ctx, isfinite(norm), RP_ERR_NONFINITE, "grad_norm of step %" PRId64 " is %s", step, number_name(norm));
    return RP_OK;
}

static void queue_end(rp_engine *e, int64_t step, rp_step_result *out)
{
    rp__kernels(e->ctx)->step_end(&e->late[step % 2], &e->ctx->on);
    out->late = true;
    out->step = step;
    out->mark = rp__mem_mark(e->ctx);
}

/* After a loss or a clipped norm that is not finite, the step's updates have done nothing. */
static rp_status read_results(const rp_engine *e, rp_step_result *out)
{
    const rp_step_results *r = &e->late[out->step % 2];
    char name[64];

    out->device_seconds = rp__mem_reach(e->ctx, out->mark);
    snprintf(name, sizeof name, "the end of step %" PRId64, out->step + e->n_late);     /* the last one queued */
    RP_TRY(rp__mem_check(e->ctx, name));
    out->loss      = r->loss;
    out->grad_norm = r->norm;
    return r->stopped == RP_STEP_BAD_LOSS ? bad_loss(e->ctx, out->step + 1, r->first_bad) : check_norm(e->ctx, out->step + 1, r->norm);
}

void rp__engine_drop(rp_engine *e)
{
    if (e->n_late) rp__mem_sync(e->ctx);
    e->n_late = 0;
}

rp_status rp__engine_read(rp_engine *e, rp_step_result *result)
{
    if (!result->late) return RP_OK;
    rp_status status = read_results(e, result);
    result->late     = false;
    e->n_late--;
    if (status != RP_OK) rp__engine_drop(e);
    return status;
}

/* The loss is checked before its backward. So nothing has been updated by then, even if updates run in backward. */
static rp_status check_loss(const rp_engine *e, const rp_data *data, const rp_tensor *loss, rp_step_result *out)
{
    double value;

    if (e->queued) {
        rp__kernels(e->ctx)->step_loss(rp__tensor_data(loss), &e->ctx->on);
        return RP_OK;
    }
    RP_TRY(read_loss(e, data, loss, &value));
    out->loss += value;
    return isfinite(value) ? RP_OK : bad_loss(e->ctx, e->update.step, value);
}

static rp_status after_forward(rp_engine *e, rp_step_result *out)
{
    rp_status status = e->time ? rp__time_forward(e) : RP_OK;
    rp_mem now;

    rp_mem_read(e->ctx, 0, false, &now);
    out->saved_bytes = now.live_at[RP_MEM_SAVED];
    return status == RP_OK && e->explain ? rp__explain_slots(e->explain) : status;
}

static rp_status open_batch(rp_engine *e, rp_data *data, int64_t step, int64_t micro, int64_t targets, rp_data_batch *b)
{
    *b = full_batch(e->recipe, &e->recipe->dataset, e->recipe->batch_size);
    if (e->micro) {
        b->rows   = e->micro[micro].rows;
        b->length = e->micro[micro].length;
    }
    RP_TRY(read_batch(e, data, step, micro, b));
    rp__pass_begin(e->ctx, step, b->sample_base);
    if (e->queued) queue_begin(e, !micro, targets);
    return RP_OK;
}

/* *place: of its inputs. The last micro-batch of a step is recorded with the update. */
static rp_status micro_batch(rp_engine *e, rp_data *data, int64_t step, int64_t micro, int64_t targets, rp_step_result *out, rp_batch_place *place)
{
    rp_tensor *loss = NULL;
    rp_data_batch b;
    rp_model_batch t;

    RP_TRY(open_batch(e, data, step, micro, targets, &b));
    RP_TRY(rp__prefetch_pass(e->ctx));
    RP_TRY(rp__batch_open(e, &b, &t));
    *place = rp__batch_place(&t);
    rp__replay_begin(e);
    rp_status status = recorded_loss(e, &t, targets, &loss);
    rp__batch_close(&t);
    RP_TRY(status);
    status = after_forward(e, out);
    if (status == RP_OK) status = check_loss(e, data, loss, out);
    if (status == RP_OK) status = backward(e, loss);
    rp_tensor_unref(loss);
    return status;
}

static rp_status targets_of(const rp_engine *e, rp_data *data, int64_t step, int64_t *targets)
{
    rp_data_step all = { 0 };
    double began     = rp__watch_begin(e->ctx);

    if (data) RP_TRY(rp__data_step(data, step, &all));
    rp__watch_end(e->ctx, (rp_span){ .doing = RP_DOING_DATA, .name = "targets", .began = began });
    *targets = all.targets;
    return RP_OK;
}

static rp_status accumulate(rp_engine *e, rp_data *data, int64_t step, rp_step_result *out, rp_batch_place *place)
{
    int64_t targets;

    RP_TRY(targets_of(e, data, step, &targets));
    for (int64_t i = 0, n = e->recipe->gradient_accumulation_steps; i < n; i++) {
        rp__tape_ctx(e->ctx)->carries = !e->recipe->dist.sync_each_batch && i + 1 < n;
        RP_TRY(micro_batch(e, data, step, i, targets, out, place));
        if (i + 1 < n) rp__replay_end(e, i, place);
    }
    return RP_OK;
}

/* ---- update ---- */

static void update_param(rp_engine *e, int i)
{
    rp_tensor *leaf = rp__model_param(e->model, i)->tensor;

    if (!leaf->grad) return;
    rp__optim_update(e->optim, i, leaf->grad, &e->update);
    rp_tensor_drop_grad(leaf);
}

static rp_status update_in_backward(void *user, rp_tensor *leaf)
{
    rp_engine *e = user;

    RP_TRY(rp__reduce_async_settle(e->ctx, leaf->grad));
    for (int i = 0; i < rp__model_n_params(e->model); i++)
        if (rp__model_param(e->model, i)->tensor == leaf) update_param(e, i);
    return RP_OK;
}

/* Summed over slices in the order of ranks. A single rank gets no additional rounding. */
static rp_status norm_of_all(const rp_engine *e, bool real, double *norm)
{
    double squares = rp__optim_squares(e->optim);

    if (real) RP_TRY(rp__ranks_sum(e->ctx, rp__shards(e->ctx), &squares, "the norm of the gradients"));
    *norm = sqrt(squares);
    return RP_OK;
}

static rp_status clip(rp_engine *e, bool real, double *norm)
{
    double most = e->recipe->clip_grad_norm.value;

    if (e->queued) {
        rp__optim_queue_norm(e->optim, most);
        e->update.clipped = true;
        return RP_OK;
    }
    RP_TRY(norm_of_all(e, real, norm));
    RP_TRY(check_norm(e->ctx, e->update.step, *norm));
    e->update.grad_scale = rp__clip_scale(*norm, most);
    return RP_OK;
}

/* Clipping needs the norm first. Without clipping, the update computes the norm. */
static rp_status update_all(rp_engine *e, bool real, double *norm)
{
    bool clips   = e->recipe->clip_grad_norm.set;
    int n        = rp__model_n_params(e->model);
    double began = rp__watch_begin(e->ctx);

    for (int i = 0; i < n && clips; i++) {
        const rp_tensor *grad = rp__model_param(e->model, i)->tensor->grad;
        if (grad) rp__optim_measure(e->optim, i, grad);
    }
    if (clips) RP_TRY(clip(e, real, norm));
    e->update.measure = !clips;
    for (int i = 0; i < n; i++) update_param(e, i);
    part_ends(e, "update", began);
    return RP_OK;
}

static rp_status run_step(rp_engine *e, rp_data *data, int64_t step, rp_step_result *out)
{
    bool clips = e->recipe->clip_grad_norm.set;
    rp_batch_place place;

    RP_TRY(accumulate(e, data, step, out, &place));
    if (!e->variant.in_backward) RP_TRY(update_all(e, data != NULL, &out->grad_norm));
    if (e->queued && !clips) rp__optim_queue_norm(e->optim, 0);
    rp__replay_end(e, e->recipe->gradient_accumulation_steps - 1, &place);
    if (e->queued) queue_end(e, step, out);
    if (e->queued || clips) return RP_OK;
    RP_TRY(norm_of_all(e, data != NULL, &out->grad_norm));
    return check_norm(e->ctx, e->update.step, out->grad_norm);
}

static rp_status set_out(rp_engine *e)
{
    if (e->variant.in_backward) rp__tape_ctx(e->ctx)->on_grad = (rp_grad_hook){ update_in_backward, e };
    if (e->time) rp__time_begin(e);
    return e->follow ? rp__step_follow(e->ctx, e->follow) : RP_OK;
}

/* After any failure, no gradient, value or hook remains. */
static void clear(rp_engine *e)
{
    rp__tape_ctx(e->ctx)->on_grad = (rp_grad_hook){ 0 };
    if (e->time) rp__time_end(e);
    rp__reduce_async_drop(e->ctx);
    rp__tape_ctx(e->ctx)->carries = false;
    rp__tape_reset(e->ctx);
    for (int i = 0; i < rp__model_n_params(e->model); i++) rp_tensor_drop_grad(rp__model_param(e->model, i)->tensor);
    if (e->follow) rp__step_follow(e->ctx, NULL);
}

/* The step as it was recorded: the host builds no tape and takes no memory. */
static rp_status repeat_step(rp_engine *e, rp_data *data, int64_t step, rp_step_result *out)
{
    rp_data_batch b;
    int64_t targets;

    RP_TRY(targets_of(e, data, step, &targets));
    for (int64_t i = 0; i < e->recipe->gradient_accumulation_steps; i++) {
        RP_TRY(open_batch(e, data, step, i, targets, &b));
        RP_TRY(rp__replay_micro(e, i, &b));
    }
    queue_end(e, step, out);
    rp__replay_usage(e, out);
    return RP_OK;
}

static rp_status whole_step(rp_engine *e, rp_data *data, int64_t step, rp_step_result *out)
{
    rp__tape_stats(e->ctx, &out->work);
    rp_mem_read(e->ctx, 0, true, &out->memory);
    rp_status status = set_out(e);
    if (status == RP_OK) status = run_step(e, data, step, out);
    if (status == RP_OK) status = rp__optim_settle(e->optim);
    clear(e);
    if (status != RP_OK) return status;
    if (e->time) rp__time_update(e);
    rp__tape_stats(e->ctx, &out->work);
    rp_mem_read(e->ctx, 0, false, &out->memory);
    return RP_OK;
}

rp_status rp__engine_queue(rp_engine *e, rp_data *data, int64_t step, double lr, rp_step_result *out)
{
    rp_step_result result = { 0 };

    if (e->follow) e->variant = e->follow->variant;
    e->update = (rp_optim_step){ .step = step + 1, .lr = lr, .grad_scale = 1, .measure = true };
    e->queued = queues(e, data);
    rp_status status = rp__replay_open(e) ? repeat_step(e, data, step, &result) : whole_step(e, data, step, &result);
    status           = rp__file_pages_after(e->ctx, status);
    rp__replay_close(e, status == RP_OK ? &result : NULL);
    if (status != RP_OK && result.late) rp__mem_sync(e->ctx);       /* its results are on their way */
    if (status != RP_OK) return status;
    e->n_late += result.late;
    *out = result;
    return RP_OK;
}

rp_status rp__engine_step(rp_engine *e, rp_data *data, int64_t step, double lr, rp_step_result *out)
{
    rp_step_result result = { 0 };

    RP_TRY(rp__engine_queue(e, data, step, lr, &result));
    RP_TRY(rp__engine_read(e, &result));
    *out = result;
    return RP_OK;
}

/* ---- validation ---- */

static rp_status score_batch(rp_engine *e, rp_data *data, const rp_data_batch *b, int64_t targets, double *mean)
{
    rp_tensor *loss;
    rp_model_batch t;

    RP_TRY(rp__prefetch_pass(e->ctx));
    RP_TRY(rp__batch_open(e, b, &t));
    rp_status status = rp__batch_loss(e, &t, targets, &loss);
    rp__batch_close(&t);
    RP_TRY(status);
    status = read_loss(e, data, loss, mean);
    rp_tensor_unref(loss);
    return status;
}

static rp_status score_all(rp_engine *e, rp_data *data, int64_t rows, double *loss)
{
    double sum = 0, mean = 0;
    int64_t targets   = 0;
    rp_data_batch b   = full_batch(e->recipe, &e->recipe->dataset_val, rows);
    rp_data_step part = { 0 };

    if (!data) return score_batch(e, NULL, &b, 0, &mean);
    for (int64_t i = 0, n = rp__data_info(data).steps_per_epoch; i < n; i++) {
        RP_TRY(rp__data_step(data, i, &part));
        RP_TRY(rp__data_batch(data, i, 0, &b));
        RP_TRY(score_batch(e, data, &b, part.targets, &mean));
        sum += mean * (double)part.targets;
        targets += part.targets;
    }
    *loss = sum / (double)targets;
    return RP_OK;
}

rp_status rp__engine_score(rp_engine *e, rp_data *data, int64_t rows, double *loss)
{
    rp_tape_ctx *mode = rp__tape_ctx(e->ctx), before = *mode;

    mode->eval = mode->no_grad = true;
    rp_status status = rp__file_pages_after(e->ctx, score_all(e, data, rows, loss));
    mode->eval       = before.eval;
    mode->no_grad    = before.no_grad;
    return status;
}
