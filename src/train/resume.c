/* train/resume.c -- chooses the state from which a run resumes, and checks that it fits the recipe and the data. */
#include "train/internal.h"

#include "base/report.h"
#include "comm/comm.h"
#include "optim/optim.h"
#include "recipe/recipe.h"

/* A resumed run may be longer or shorter. Its schedule then changes at the next step, so the note has the old and the new rate. */
static void note_rate(const rp_trainer *t, const rp_recipe *before, int64_t step, rp_report *report)
{
    int64_t per_epoch = rp__data_info(t->data).steps_per_epoch;
    rp_schedule old = rp__recipe_schedule(before, per_epoch), now = rp__recipe_schedule(t->recipe, per_epoch);
    double rate = t->recipe->optimizer.lr, was = rate * rp__schedule_factor(&old, step), is = rate * rp__schedule_factor(&now, step);
    const char *key   = rp__recipe_given(t->recipe, "max_steps") ? "max_steps" : "epochs";

    if (old.n_steps == now.n_steps || step >= now.n_steps || !strcmp(now.name, "constant")) return;
    rp__report_note(report, rp__recipe_place(t->recipe, key), "the run has %" PRId64 " steps, it had %" PRId64 ": by the %s schedule the learning rate "
                    "of step %" PRId64 " is %g, it would have been %g", now.n_steps, old.n_steps, now.name, step + 1, is, was);
}

/* Report keys that must not change. Notes about the old recipe are dropped. */
static rp_status check_recipe(rp_trainer *t, const rp_state *state, rp_report *report)
{
    const rp_state_info *info = rp__state_info(state);
    rp_recipe *before         = NULL;
    rp_report own;

    rp__report_open(&own, t->ctx);
    rp_status status =
        rp__recipe_read(t->ctx, rp__state_path(state), info->recipe, (int64_t)strlen(info->recipe), 0, NULL, &own, &before);
    rp__report_close(&own);
    RP_TRY(status);
    rp__recipe_check_resume(before, info->ranks, t->recipe, rp__comm_ranks(rp__world(t->ctx)), report);
    note_rate(t, before, info->step, report);
    rp__recipe_free(before);
    return rp__report_status(report, RP_ERR_CONFIG);
}

static rp_status check_state(rp_trainer *t, const rp_state *state, rp_report *report)
{
    const rp_state_info *info = rp__state_info(state);
    uint64_t hash             = rp__data_info(t->data).hash;

    RP_TRY(check_recipe(t, state, report));
    RP_CHECK(t->ctx, info->seed == t->ctx->seed, RP_ERR_CONFIG,
             "cannot resume '%s': its seed is %" PRIu64 ", this run's %" PRIu64, rp__state_path(state), info->seed,
             t->ctx->seed);
    RP_CHECK(t->ctx, info->data_hash == hash, RP_ERR_CONFIG,
             "cannot resume '%s': the tokens of 'dataset' have changed since (hash %016" PRIx64 ", now %016" PRIx64 ")",
             rp__state_path(state), info->data_hash, hash);
    return RP_OK;
}

static rp_status open_state(rp_trainer *t, rp_report *report, rp_state **out)
{
    const rp_recipe *r = t->recipe;
    rp_place place     = rp__recipe_place(r, "resume");
    char *why          = NULL;

    if (r->resume.kind == RP_RESUME_NO) return RP_OK;
    if (r->resume.kind == RP_RESUME_PATH) return rp__state_open(t->ctx, r->resume.path, out);
    RP_TRY(rp__state_open_latest(t->ctx, r->output_dir, out, &why));
    if (why) rp__report_note(report, place, "a newer state is skipped: %s", why);
    rp__release(why);
    if (!*out) rp__report_note(report, place, "there is no state in '%s' yet: the run starts from its beginning", r->output_dir);
    return RP_OK;
}

/* Bits hold for one model of card, driver and compiler of kernels. */
static void note_card(const rp_trainer *t, const rp_state *state, rp_report *report)
{
    const char *was = rp__state_info(state)->card, *now = rp__mem_card(t->ctx);

    if (was == now || (was && now && !strcmp(was, now))) return;
    rp__report_note(report, rp__recipe_place(t->recipe, "resume"), "the state was written on '%s', this run computes on '%s': from here on bits may differ "
                    "from those of a run that stays there", was ? was : "cpu", now ? now : "cpu");
}

static void note_state(const rp_trainer *t, const rp_state *state, rp_report *report)
{
    const rp_state_info *info = rp__state_info(state);
    char by[64]               = "";

    if (info->ranks != rp__comm_ranks(rp__world(t->ctx)))
        snprintf(by, sizeof by, ", written by %" PRId64 " rank%s", info->ranks, info->ranks == 1 ? "" : "s");
    rp__report_note(report, rp__recipe_place(t->recipe, "resume"), "resuming after step %" PRId64 " from '%s'%s", info->step,
                    rp__state_path(state), by);
    note_card(t, state, report);
    if (rp__best_is_over(t->recipe, &info->best))
        rp__report_note(report, rp__recipe_place(t->recipe, "early_stopping.patience"), "the run has stopped early: its last %" PRId64 " validations were "
                        "not lower; raise 'early_stopping.patience' to continue it", info->best.waited);
}

rp_status rp__resume_find(rp_trainer *t, rp_report *report, rp_state **out)
{
    rp_state *state = NULL;

    RP_TRY(open_state(t, report, &state));
    rp_status status = state ? check_state(t, state, report) : RP_OK;
    if (status == RP_OK && state) note_state(t, state, report);
    if (status != RP_OK) rp__state_close(state);
    else *out = state;
    return status;
}

rp_status rp__resume_load(rp_trainer *t, rp_state *state)
{
    RP_TRY(rp__comm_agree(t->ctx, rp__world(t->ctx), rp__frozen_check(t, state)));
    RP_TRY(rp__state_load(state, t->tensors, t->n_tensors));        /* first, because all ranks reach it */
    RP_TRY(rp__optim_settle(t->engine.optim));
    t->state_path = rp__host_text(t->ctx, rp__state_path(state));
    if (!t->state_path) return RP_ERR_MEMORY;
    t->done = t->state_step = t->info.first_step = rp__state_info(state)->step;
    if (rp__best_is_wanted(t->recipe)) rp__best_set(t, &rp__state_info(state)->best);
    return RP_OK;
}
