/* rehearse/settle.c -- chooses how a recipe's steps run and rehearses them; if nothing fits, the error message with the reason. */
#include "base/file.h"
#include "base/report.h"
#include "comm/comm.h"
#include "models/generate.h"
#include "rehearse/rehearsal.h"

/* ---- follow the plan ---- */

static rp_status run_explained(rp_rehearsal *r, rp_step_result *step)
{
    rp_engine *e = &r->engine;

    r->explain->costs = r->costs;
    rp__explain_begin(r->explain);
    e->explain       = r->explain;
    rp_status status = rp__engine_step(e, NULL, 0, 0, step);
    e->explain       = NULL;
    return status == RP_OK ? rp__explain_end(r->explain, &step->work) : status;
}

/* The passes of all continuations. They may need more of the pool than a step. */
static rp_status sample(rp_rehearsal *r)
{
    for (int i = 0; i < r->n_sampled; i++) {
        const rp_generate_options o = { .max_new_tokens = r->sampled[i].tokens };
        RP_TRY(rp__generate(r->engine.model, NULL, r->sampled[i].prompt, &o, NULL, NULL, NULL));
    }
    return RP_OK;
}

/* As in a run, nothing is live at the beginning and the pool is as large as the arena. So the figures are those of the run. */
static rp_status follow(rp_rehearsal *r, bool explained)
{
    rp_plan *steps = r->steps;
    rp_engine *e        = &r->engine;
    rp_step_result step;
    double score;

    RP_TRY(rp__engine_choose(e, r->recipe));
    rp__mem_trim(r->ctx->space[0]);
    RP_TRY(rp__mem_reserve(r->ctx, r->ctx->space[0], steps->placement.height));
    e->follow = steps;
    RP_TRY(explained ? run_explained(r, &step) : rp__engine_step(e, NULL, 0, 0, &step));
    e->follow    = NULL;
    steps->found = rp__step_usage(&step);
    if (r->val_rows) RP_TRY(rp__engine_score(e, NULL, r->val_rows, &score));
    RP_TRY(sample(r));
    rp_mem_read(r->ctx, 0, false, &step.memory);
    steps->found.memory.reserved_bytes = step.memory.reserved_bytes;
    return RP_OK;
}

static rp_status ready_and_follow(rp_rehearsal *r, bool explained)
{
    RP_TRY(rp__rehearsal_ready(r));
    return rp__rehearsal_end(r, follow(r, explained));
}

rp_status rp__rehearsal_show(rp_rehearsal *r) { return ready_and_follow(r, true); }

/* ---- nothing fits ---- */

/* The smallest memory_limit whose arena has room for the least plan, the page tables included. */
static int64_t least_limit(const rp_rehearsal *r)
{
    int64_t without_pages = r->steps->placement.height + rp__allowance_bytes(&r->allowance) - r->allowance.pages;

    return without_pages + (without_pages - 1) / (RP_PAGES_PART - 1);
}

typedef struct { char asked[2 * RP_SIZE_CHARS + 64], raise[RP_SIZE_CHARS + 64]; } bound_words;

/* Which key limits the arena, and to which value it must be raised. */
static void word_bound(const rp_rehearsal *r, bound_words *w)
{
    char budget[RP_SIZE_CHARS], of[RP_SIZE_CHARS];
    int64_t left = r->limit - rp__allowance_bytes(&r->allowance);

    rp__size_text(budget, r->budget);
    snprintf(w->asked, sizeof w->asked, "%s", budget);
    snprintf(w->raise, sizeof w->raise, "'memory_budget'");
    if (!r->limit || (left > r->budget && r->budget > 1)) return;
    snprintf(w->asked, sizeof w->asked, "%s, left by 'memory_limit' of %s", budget, rp__size_text(of, r->limit));
    snprintf(w->raise, sizeof w->raise, "'memory_limit' to %" PRId64, least_limit(r));
}

/* The error message: the least budget and its cause, an op or the bytes that exist before the step. */
static rp_status settle_refuse(rp_rehearsal *r, bool chosen)
{
    char own[RP_SIZE_CHARS], size[RP_SIZE_CHARS], least[RP_SIZE_CHARS + 16];
    bool fits = r->steps->placement.height <= r->budget;
    const rp_explain *e = r->explain;
    int64_t stands      = e->peak_at[RP_MEM_PARAM] + e->peak_at[RP_MEM_GRAD] + e->peak_at[RP_MEM_OPTIM];
    char hints[RP_HINTS_CHARS];
    bound_words w;

    word_bound(r, &w);
    snprintf(least, sizeof least, "%s%s", r->steps->at_most ? "at most " : "", rp__size_text_up(size, r->steps->placement.height));
    if (r->recipe->plan)
        return rp_fail(r->caller, RP_ERR_BUDGET, "plan '%s' needs %s, more than the memory budget of %s; the least budget that fits is %s: make a "
                       "new plan with 'reprise plan', or raise %s", r->recipe->plan, rp__size_text(own, r->own_bytes), w.asked, least, w.raise);
    if (!chosen && fits)
        return rp_fail(r->caller, RP_ERR_BUDGET, "the recipe's step needs %s, more than the memory budget of %s; a plan would need %s: "
                       "set 'activation_checkpointing.mode: auto', or raise %s", rp__size_text(own, r->own_bytes), w.asked, least, w.raise);
    if (stands > r->budget)
        return rp_fail(r->caller, RP_ERR_BUDGET, "no plan fits a memory budget of %s; the least budget that fits is %s, %s of it for weights, "
                       "gradients and optimizer states: raise %s%s%s", w.asked, least, rp__size_text(own, stands), w.raise,
                       r->recipe->dist.ranks.set && r->recipe->dist.ranks.value > 1 ? " or 'dist.ranks'" : "", rp__recipe_hints(r->recipe, hints));
    return rp_fail(r->caller, RP_ERR_BUDGET, "no plan fits a memory budget of %s; the least budget that fits is %s, for the %s of %s%s%s: raise "
                   "%s, or lower 'batch_size' or 'max_seq_len'", w.asked, least, e->peak_event, e->peak_path, *e->peak_path ? " " : "",
                   e->peak_op, w.raise);
}

/* Nothing fits: finds the least plan and the remedies, and explains the least plan. */
static rp_status report_least(rp_rehearsal *r)
{
    bool chosen = rp__recipe_leaves_open(r->recipe);

    RP_TRY(rp__rehearsal_begin_open(r));
    RP_TRY(rp__rehearsal_least(r, &r->steps));
    rp__rehearsal_forget(r);
    if (r->wants_remedies) RP_TRY(rp__rehearsal_find_remedies(r, !chosen, r->remedy, &r->n_remedies));
    RP_TRY(rp__rehearsal_show(r));
    return settle_refuse(r, chosen);
}

/* ---- the rehearsal ---- */

rp_status rp__rehearsal_settle(rp_rehearsal *r, int64_t val_rows)
{
    r->val_rows = val_rows;
    rp__rehearsal_bound(r);
    RP_TRY(rp__rehearsal_plan(r, r->budget, &r->steps, &r->own_bytes));
    if (r->steps && r->wants_least) RP_TRY(rp__rehearsal_least(r, &r->least));
    rp__rehearsal_forget(r);
    return r->steps ? ready_and_follow(r, r->explain != &r->own_explain) : RP_OK;
}

static bool calls(void *user, const char *op) { return rp__policy_has_seen(((rp_rehearsal *)user)->ctx, op); }

rp_status rp__rehearsal_rehearse(rp_rehearsal *r, int64_t val_rows, rp_report *report)
{
    RP_TRY(rp__rehearsal_settle(r, val_rows));
    if (!r->steps) return report_least(r);
    rp__recipe_note_idle(r->recipe, calls, r, r->engine.selection.policy, report);
    if (rp__comm_ranks(rp__world(r->ctx)) == 1) rp__recipe_note_alone(r->recipe, report);
    return RP_OK;
}

/* ---- checks without a run ---- */

const char *rp__recipe_missing_file(const rp_recipe *recipe)
{
    const char *const files[] = { recipe->model.path, recipe->model.config, recipe->tokenizer.path };

    for (int i = 0; i < RP_COUNT(files); i++)
        if (files[i] && !rp__file_exists(files[i])) return files[i];
    return NULL;
}

/* A recipe with errors is not rehearsed. */
static rp_status check_and_rehearse(rp_rehearsal *r, rp_report *report)
{
    RP_TRY(rp__rehearsal_check_names(r, report));
    return report->n_errors ? RP_OK : rp__rehearsal_rehearse(r, 0, report);
}

rp_status rp__recipe_try(rp_ctx *ctx, const rp_recipe *recipe, rp_report *report, rp_recipe_words *words)
{
    int n_before = report->n_errors;
    rp_rehearsal r;
    rp_status status = rp__rehearsal_open(ctx, recipe, NULL, report, &r);

    *words = (rp_recipe_words){ "", "" };
    if (status == RP_OK) status = check_and_rehearse(&r, report);
    if (status == RP_OK && report->n_errors > n_before) status = rp__report_status(report, RP_ERR_CONFIG);
    if (status == RP_OK && report->n_errors == 0) {
        rp__regions_text(rp__model_root(r.engine.model), rp__engine_n_rules(&r.engine), words->regions);
        if (r.engine.gather) rp__units_text(&r.engine.units, words->units);
    }
    rp__rehearsal_close(&r);
    return status;
}
