/* train/loop.c -- the trainer: runs steps and the actions due after each, saves states, finishes a run. */
#include <math.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine.h"
#include "comm/comm.h"
#include "rehearse/engine.h"
#include "shard/units.h"
#include "state/json.h"
#include "train/internal.h"

rp_model *rp__trainer_model(rp_trainer *t) { return t->engine.model; }
const rp_recipe *rp__trainer_recipe(const rp_trainer *t) { return t->recipe; }
const char *rp__trainer_units_text(const rp_trainer *t, char out[RP_UNITS_CHARS])
{
    return t->engine.gather ? rp__units_text(&t->engine.units, out) : NULL;
}

int rp__trainer_n_rules(const rp_trainer *t) { return rp__engine_n_rules(&t->engine); }
const rp_trainer_info *rp__trainer_info(const rp_trainer *t) { return &t->info; }
int64_t rp__trainer_done(const rp_trainer *t) { return t->done; }
int rp__trainer_stopped_by(const rp_trainer *t) { return t->stopping; }

/* ---- one step ---- */

static void fill_line(rp_metrics *m, const rp_step_result *r, int64_t step, double lr, int64_t tokens, double seconds)
{
    *m = (rp_metrics){
        .step = step, .loss = r->loss, .lr = lr, .grad_norm = r->grad_norm, .tokens = tokens, .step_seconds = seconds,
        .tokens_per_second = seconds > 0 ? (double)tokens / seconds : 0, .peak_memory_active = r->memory.peak_bytes,
        .peak_memory_alloc = r->memory.peak_alloc_bytes, .peak_memory_reserved = r->memory.reserved_bytes,
        .saved_bytes = r->saved_bytes, .recompute_flops = r->work.recompute_flops, .step_flops = r->work.step_flops,
        .offloaded_bytes = r->work.offloaded_bytes, .rss = rp__machine_resident(),
    };
}

/* Append to the error message which state is kept: to its sentence, or as a further line if it has several lines. */
static rp_status name_kept_state(const rp_trainer *t, rp_status status)
{
    char why[RP_ERROR_CHARS], kept[RP_ERROR_CHARS] = "no state was saved";

    if (status == RP_OK) return status;
    if (t->state_path) snprintf(kept, sizeof kept, "state of step %" PRId64 " in '%s' is kept", t->state_step, t->state_path);
    if (strchr(t->ctx->error, '\n')) {
        rp__fail_line(t->ctx, "%s", kept);
        return status;
    }
    memcpy(why, t->ctx->error, sizeof why);
    return rp_fail(t->ctx, status, "%s; %s", why, kept);
}

static bool profiled(const rp_trainer *t, int64_t step, bool (*when)(int64_t here, int64_t n))
{
    return t->profile && when(step - t->info.first_step, t->info.n_steps - t->info.first_step);
}

/* A profiled step is over when this returns. */
static rp_status queue_step(rp_trainer *t, int64_t step, rp_running_step *r)
{
    bool watched = profiled(t, step, rp__profile_wants);
    rp_data_step all;

    if (watched) rp__profile_step_begin(t->profile, step + 1);
    rp_status status = rp__trainer_follow_shape(t, step);
    if (status == RP_OK) status = rp__engine_queue(&t->engine, t->data, step, r->lr, &r->result);
    if (status == RP_OK && watched) status = rp__engine_read(&t->engine, &r->result);
    r->seconds = rp__seconds() - r->began;
    if (status == RP_OK) status = rp__data_step(t->data, step, &all);
    if (watched && status == RP_OK) rp__profile_step_end(t->profile, all.tokens, &r->result.work);
    else if (watched) rp__profile_step_failed(t->profile);
    if (status == RP_OK) r->tokens = all.tokens;
    return status;
}

/* An error is kept until the step is read, because the steps before it come first. */
static void begin_step(rp_trainer *t, int64_t step, rp_running_step *r)
{
    *r        = (rp_running_step){ .begun = true, .lr = t->recipe->optimizer.lr * rp__schedule_factor(&t->schedule, step), .began = rp__seconds() };
    r->status = queue_step(t, step, r);
    if (r->status != RP_OK) memcpy(r->why, t->ctx->error, sizeof r->why);
}

/* A step that was queued before the one before it was read takes the device's time since that one's end. By the host's clock it takes the time from one
 * reading to the next, which differs if the host had to wait while it queued a step. */
static double seconds_of_late(const rp_trainer *t, const rp_running_step *r, double now)
{
    bool follows = r->began < t->read_at;

    if (follows && r->result.device_seconds > 0) return r->result.device_seconds;
    return now - (follows ? t->read_at : r->began);
}

static rp_status read_step(rp_trainer *t, rp_running_step *r, rp_metrics *line)
{
    bool late = r->result.late;

    if (r->status != RP_OK) memcpy(t->ctx->error, r->why, sizeof r->why);
    RP_TRY(r->status);
    RP_TRY(rp__engine_read(&t->engine, &r->result));
    double now = rp__seconds();
    if (late) r->seconds = seconds_of_late(t, r, now);
    t->read_at = now;
    fill_line(line, &r->result, t->done + 1, r->lr, r->tokens, r->seconds);
    return rp__trainer_share_line(t, line);
}

static bool due(const rp_opt_int *every, int64_t step) { return every->set && step % every->value == 0; }

/* May the device begin another step before this one is read? Not if something is due that needs this step's weights. */
static bool looks_ahead(const rp_trainer *t, const rp_running_step *r)
{
    const rp_recipe *recipe = t->recipe;
    int64_t step            = t->done + 1;

    if (r->status != RP_OK || !r->result.late || t->stopping || step >= t->info.n_steps || profiled(t, step, rp__profile_wants)) return false;
    return !due(&recipe->run_val_every_n_steps, step) && !due(&recipe->save_every_n_steps, step) && !(t->samples && due(&recipe->sample_every, step));
}

static rp_status train(rp_trainer *t, bool ahead, rp_metrics *line)
{
    rp_running_step *r = &t->running[t->done % 2], *next = &t->running[(t->done + 1) % 2];

    if (!r->begun) begin_step(t, t->done, r);
    if (ahead && looks_ahead(t, r)) begin_step(t, t->done + 1, next);
    rp_status status = read_step(t, r, line);
    r->begun         = false;
    if (status != RP_OK) next->begun = false;
    return status;
}

static rp_status save(rp_trainer *t)
{
    const rp_recipe *r = t->recipe;

    RP_TRY(rp__file_pages_check(t->ctx));           /* a step that failed for it has changed weights */
    if (t->done == t->state_step) return RP_OK;
    rp_state_info info = {
        .step = t->done, .epoch = t->done / t->info.data.steps_per_epoch,
        .samples = t->done * r->batch_size * r->gradient_accumulation_steps * rp__comm_ranks(rp__world(t->ctx)), .seed = t->ctx->seed,
        .data_hash = t->info.data.hash, .best = t->best, .frozen_mark = t->frozen_mark, .recipe = t->recipe_text,
        .card = rp__mem_card(t->ctx),
    };
    char *path = rp__state_name(t->ctx, r->output_dir, "step-#", t->done);
    if (!path) return RP_ERR_MEMORY;
    rp_status status = t->metrics ? rp__metrics_sync(t->metrics) : RP_OK;
    if (status == RP_OK && t->board) status = rp__tensorboard_sync(t->board);
    int keep         = r->keep_last_n < INT32_MAX ? (int)r->keep_last_n : INT32_MAX;
    if (status == RP_OK) status = rp__state_save(t->ctx, r->output_dir, &info, t->tensors, t->n_tensors, keep);
    if (status != RP_OK) {
        rp__release(path);
        return status;
    }
    rp__release(t->state_path);
    t->state_path = path;
    t->state_step = t->done;
    rp__log(t->ctx, RP_LOG_INFO, "the state after step %" PRId64 " is saved in '%s'", t->done, path);
    return RP_OK;
}

/* ahead: the device may begin the next step meanwhile */
static rp_status step_and_due(rp_trainer *t, bool ahead, rp_metrics *out)
{
    rp_metrics line;

    RP_TRY(train(t, ahead, &line));
    if (due(&t->recipe->run_val_every_n_steps, line.step)) {
        RP_TRY(rp__engine_score(&t->engine, t->val, t->val_rows, &line.val_loss));
        line.has_val_loss = true;
    }
    bool sampled = t->samples && due(&t->recipe->sample_every, line.step);
    if (sampled) RP_TRY(rp__samples_take(t));
    if (t->metrics) RP_TRY(rp__metrics_put(t->metrics, &line, sampled ? rp__samples_json(t->samples) : NULL));
    if (t->board) RP_TRY(rp__tensorboard_put(t->board, &line));
    if (line.has_val_loss) RP_TRY(rp__best_validated(t, line.step, line.val_loss));
    bool whole = profiled(t, t->done, rp__profile_ends);
    t->done    = line.step;
    *out       = line;
    rp__best_set(t, &t->best);
    if (whole) RP_TRY(rp__profile_write(t->profile, t->recipe->output_dir));
    return due(&t->recipe->save_every_n_steps, t->done) ? save(t) : RP_OK;
}

rp_status rp__trainer_step(rp_trainer *t, rp_metrics *out)
{
    RP_CHECK(t->ctx, t->done < t->info.n_steps, RP_ERR_STATE, "the run has %" PRId64 " steps, and all are done",
             t->info.n_steps);
    return name_kept_state(t, step_and_due(t, false, out));
}

rp_status rp__trainer_forecast(rp_trainer *t, rp_forecast *out)
{
    return rp__forecast_planned(t->ctx, t->recipe, rp__model_config(t->engine.model), t->steps, t->val ? t->val_rows : 0, out);
}

/* ---- states ---- */

const char *rp__trainer_profile_text(const rp_trainer *t, char out[RP_PROFILE_TEXT_CHARS])
{
    return t->profile && rp__profile_n_steps(t->profile) ? rp__profile_text(t->profile, out) : NULL;
}

static rp_status loop_finish(rp_trainer *t)
{
    RP_TRY(save(t));
    RP_TRY(rp__run_dir_model(t, "final"));
    return rp__run_dir_gguf(t);
}

rp_status rp__trainer_save(rp_trainer *t) { return name_kept_state(t, save(t)); }

rp_status rp__trainer_finish(rp_trainer *t) { return name_kept_state(t, loop_finish(t)); }

/* ---- a whole run ---- */

static void show(const rp_trainer *t, const rp_progress *progress, const rp_metrics *line, double began)
{
    int64_t left = t->info.n_steps - t->done, here = t->done - t->info.first_step;

    if (!progress || (t->done % t->recipe->log_every_n_steps && left && !line->has_val_loss)) return;
    progress->step(progress->user, line, (rp__seconds() - began) / (double)here * (double)left);
}

static void show_samples(const rp_trainer *t, const rp_progress *progress)
{
    if (!progress || !progress->sample || !t->samples || !due(&t->recipe->sample_every, t->done)) return;
    for (int i = 0; i < t->recipe->sample_prompts.n; i++)
        progress->sample(progress->user, t->done, t->recipe->sample_prompts.item[i], rp__samples_text(t->samples, i));
}

/* Write the profile of a run that stopped before all profiled steps were done. */
static rp_status write_early(rp_trainer *t)
{
    int n = t->profile ? rp__profile_n_steps(t->profile) : 0;

    return n && n < RP_PROFILE_STEPS && (t->done < t->info.n_steps || t->info.stopped_early) ? rp__profile_write(t->profile, t->recipe->output_dir) : RP_OK;
}

/* Any rank may have received a signal. All ranks stop after the same step. */
static rp_status asked_to_stop(rp_trainer *t, const volatile int *stop)
{
    t->stopping = stop ? *stop : 0;
    return rp__comm_any(t->ctx, rp__world(t->ctx), &t->stopping, "the end of a step");
}

static rp_status loop_run(rp_trainer *t, const volatile int *stop, const rp_progress *progress)
{
    double began = rp__seconds();
    rp_metrics line;

    RP_TRY(asked_to_stop(t, stop));
    while (t->done < t->info.n_steps && (!t->stopping || t->running[t->done % 2].begun)) {
        RP_TRY(step_and_due(t, true, &line));
        show(t, progress, &line, began);
        show_samples(t, progress);
        RP_TRY(asked_to_stop(t, stop));
    }
    RP_TRY(t->stopping ? save(t) : loop_finish(t));
    return write_early(t);
}

rp_status rp__trainer_run(rp_trainer *t, const volatile int *stop, const rp_progress *progress)
{
    RP_TRY(name_kept_state(t, loop_run(t, stop, progress)));
    if (!t->stopping) return RP_OK;
    if (!t->done) return rp_fail(t->ctx, RP_ERR_INTERRUPTED, "interrupted before the first step");
    return rp_fail(t->ctx, RP_ERR_INTERRUPTED,
                   "interrupted after step %" PRId64 " of %" PRId64 "; its state is '%s': continue with resume=auto", t->done,
                   t->info.n_steps, t->state_path);
}
