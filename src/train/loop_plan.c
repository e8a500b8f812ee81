/* train/loop_plan.c -- how every step on full-length batches runs: what is kept for backward, and the address of each buffer.
 *
 *   as the recipe has it ──fits, and nothing is done again or goes that may stay──▶ done
 *      │ else
 *   planned for the budget (plan/step.h), with the update after backward and, where that is left open, within it: the cheaper of the two
 */
#include <math.h>

#include "ops/behind.h"
#include "train/loop_inside.h"

bool rp__recipe_leaves_open(const rp_recipe *r)
{
    return r->activation_checkpointing.mode == RP_MODE_AUTO && r->memory_budget.kind != RP_BUDGET_NONE;
}

/* ---- the stage's step, as a program ---- */

typedef struct {
    rp_stage *stage;
    rp_step_program program;
    rp_step_question question;
} way;

/* What was added up, less what runs beside something else. */
static rp_status tell_time(const rp_stage *stage, const rp_step_time *t, rp_step_plan *how)
{
    const rp_plan_facts *facts = how->plan ? &how->plan->facts : NULL;

    how->seconds            = t->seconds;
    how->again_seconds      = t->again_seconds;
    how->bound_seconds      = facts ? facts->bound_seconds : 0;
    how->comm_seconds       = t->comm_seconds;
    how->comm_again_seconds = t->comm_again_seconds;
    how->comm_bytes         = t->comm_bytes;
    how->budget             = stage->budget;
    if (t->beside) {
        RP_TRY(t->beside->status);
        how->seconds        = rp__beside_seconds(t->beside, false);
        how->again_seconds  = fmax(0, rp__beside_seconds(t->beside, true) - how->seconds);
        how->bound_seconds  = rp__beside_bound(t->beside, how->bound_seconds);
        how->hidden_seconds = t->seconds + t->again_seconds - how->seconds - how->again_seconds;
    }
    RP_CHECK(stage->ctx, isfinite(how->again_seconds), RP_ERR_MEMORY, "cannot allocate memory for the time of a step");
    if (facts) how->again_seconds += facts->away_seconds;
    return RP_OK;
}

static rp_status run_step(void *self, rp_step_plan *how)
{
    way *w             = self;
    rp_engine *e       = &w->stage->engine;
    rp_beside beside   = { .ctx = w->stage->ctx, .buffer_bytes = rp__ahead_bytes(w->stage->ctx), .sums_bytes = rp__behind_bytes(w->stage->ctx) };
    rp_step_time time  = { .costs = w->stage->costs, .beside = (beside.buffer_bytes || beside.sums_bytes) && rp__cost_beside(w->stage->costs) ? &beside : NULL };
    rp_step_result step;

    e->in_backward   = w->program.in_backward;
    e->follow        = how;
    e->time          = how ? &time : NULL;
    rp_status status = rp__engine_step(e, NULL, 0, 0, &step);
    e->follow        = NULL;
    e->time          = NULL;
    if (status == RP_OK && how) {
        how->found = (rp_rehearsal){ step.memory, step.saved_bytes, step.work.step_flops, step.work.recompute_flops, step.work.offloaded_bytes };
        status     = tell_time(w->stage, &time, how);
    }
    rp__beside_close(&beside);
    return status;
}

/* A way is closed whatever open and ask said. */
static rp_status way_open(rp_stage *stage, bool in_backward, way *w)
{
    *w = (way){ .stage = stage };
    RP_TRY(rp__stage_costs(stage));
    w->program = (rp_step_program){ .ctx = stage->ctx, .owner = stage->caller, .costs = stage->costs, .run = run_step, .self = w,
                                    .in_backward = in_backward };
    return RP_OK;
}

static rp_status way_ask(rp_stage *stage, bool in_backward, way *w)
{
    RP_TRY(way_open(stage, in_backward, w));
    return rp__step_ask(&w->program, &w->question);
}

static void way_close(way *w) { rp__step_question_close(&w->question); }

/* The plan is taken over; NULL: the recipe's own fates. */
static rp_status try_plan(rp_stage *stage, rp_plan *plan, bool in_backward, rp_step_plan **out)
{
    way w;
    rp_status status = way_open(stage, in_backward, &w);

    if (status == RP_OK) return rp__step_try(&w.program, plan, out);
    rp__plan_free(plan);
    return status;
}

/* ---- a budget ---- */

/* The update may go into backward where the recipe leaves that open, and where one micro-batch brings the whole gradient. */
static bool may_update_in_backward(const rp_recipe *r)
{
    return r->optimizer_in_bwd == RP_AUTO && !r->clip_grad_norm.set && r->gradient_accumulation_steps == 1;
}

static rp_status plan_one(rp_stage *stage, bool in_backward, int64_t budget, rp_step_plan **out)
{
    way w;

    *out             = NULL;
    rp_status status = way_ask(stage, in_backward, &w);
    if (status == RP_OK) status = rp__step_within(&w.program, &w.question, budget, out);
    way_close(&w);
    return status;
}

static rp_status least_one(rp_stage *stage, bool in_backward, int64_t unused, rp_step_plan **out)
{
    way w;

    (void)unused;
    rp_status status = way_ask(stage, in_backward, &w);
    if (status == RP_OK) status = rp__step_least(&w.program, &w.question, out);
    way_close(&w);
    return status;
}

static double seconds_of(const rp_step_plan *p) { return p->seconds + p->again_seconds; }
/* By more than what the order of additions makes. */
static bool faster(const rp_step_plan *a, const rp_step_plan *b) { return a && (!b || seconds_of(a) < seconds_of(b) * (1 - 1e-9)); }

static bool smaller(const rp_step_plan *a, const rp_step_plan *b) { return a->placement.height < b->placement.height; }

typedef rp_status plan_maker(rp_stage *stage, bool in_backward, int64_t budget, rp_step_plan **out);

/* The other is freed. */
static void take_faster(rp_step_plan **plan, rp_step_plan *other)
{
    bool take          = faster(other, *plan);
    rp_step_plan *slow = take ? *plan : other;

    if (take) *plan = other;
    rp__step_plan_free(slow);
}

/* Planned with each place of the update that the recipe allows; the better plan stays. */
static rp_status best_of(rp_stage *stage, int64_t budget, plan_maker *make, bool (*better)(const rp_step_plan *, const rp_step_plan *), rp_step_plan **out)
{
    bool in_backward    = stage->recipe->optimizer_in_bwd == RP_YES;
    rp_step_plan *other = NULL;

    RP_TRY(make(stage, in_backward, budget, out));
    if (in_backward || !may_update_in_backward(stage->recipe)) return RP_OK;
    rp_status status = make(stage, true, budget, &other);
    if (status == RP_OK && better(other, *out)) {
        rp__step_plan_free(*out);
        *out = other;
    } else rp__step_plan_free(other);
    return status;
}

rp_status rp__stage_least(rp_stage *stage, rp_step_plan **out) { return best_of(stage, 0, least_one, smaller, out); }

/* ---- many budgets ---- */

/* With room for all: the recipe's own step, or, where that computes again what a plan may keep, the plan that does not. */
static rp_status roomiest(rp_stage *stage, way *w, rp_step_plan **out)
{
    rp_step_plan *planned = NULL;

    RP_TRY(try_plan(stage, NULL, w->program.in_backward, out));
    if (!(*out)->found.recompute_flops) return RP_OK;
    RP_TRY(rp__step_within(&w->program, &w->question, INT64_MAX / 2, &planned));
    take_faster(out, planned);
    return RP_OK;
}

rp_status rp__stage_curve(rp_stage *stage, rp_step_plan **steps, int n)
{
    bool in_backward = stage->recipe->optimizer_in_bwd == RP_YES || may_update_in_backward(stage->recipe);
    int64_t least = 0, most = 0, before = 0;
    way w;

    rp_status status = way_ask(stage, in_backward, &w);
    if (status == RP_OK) status = roomiest(stage, &w, &steps[n - 1]);
    if (status == RP_OK) most = steps[n - 1]->budget = steps[n - 1]->placement.height;
    if (status == RP_OK) status = rp__plan_least(stage->ctx, &w.question.problem, &least);
    for (int i = 0; i < n && status == RP_OK; i++) {
        int64_t budget = least + (most - least) * i / (n - 1), more = (most - least) / n / 64 + 1;
        if (budget < before) budget = before;           /* no smaller one had a plan */
        while (status == RP_OK && !steps[i] && budget <= most) {
            status = rp__step_within(&w.program, &w.question, budget, &steps[i]);
            if (steps[i]) steps[i]->budget = before = budget;
            budget += more;
        }
    }
    way_close(&w);
    return status;
}

rp_status rp__stage_own(rp_stage *stage, rp_step_plan **out)
{
    return try_plan(stage, NULL, stage->recipe->optimizer_in_bwd == RP_YES, out);
}

/* ---- the rehearsal ---- */

rp_status rp__stage_follow(rp_stage *stage, rp_step_plan *steps)
{
    rp_engine *e = &stage->engine;
    rp_step_result step;
    double score;

    e->follow = steps;
    RP_TRY(rp__mem_reserve(stage->ctx, stage->ctx->space[0], steps->placement.height));
    RP_TRY(rp__engine_step(e, NULL, 0, 0, &step));
    steps->found = (rp_rehearsal){ step.memory, step.saved_bytes, step.work.step_flops, step.work.recompute_flops, step.work.offloaded_bytes };
    if (stage->val_rows) RP_TRY(rp__engine_score(e, NULL, stage->val_rows, &score));
    rp_mem_read(stage->ctx, 0, false, &step.memory);
    steps->found.memory.reserved_bytes = step.memory.reserved_bytes;
    return RP_OK;
}

/* ---- files ---- */

static double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

rp_status rp__step_plan_write(rp_ctx *ctx, const rp_step_plan *p, const char *recipe, const char *path)
{
    const rp_plan_stamp stamp = { rp_version(), p->machine, ctx->threads, p->costs, p->budget };
    const rp_plan_takes takes = {
        p->found.memory.peak_bytes, p->found.memory.reserved_bytes, p->found.saved_bytes, p->found.step_flops, p->found.recompute_flops,
        ratio(p->again_seconds, p->seconds), ratio(p->bound_seconds, p->seconds),
    };

    return rp__plan_write(ctx, path, p->plan, p->in_backward, &stamp, &takes, recipe);
}

static rp_status plan_of_text(rp_stage *stage, const rp_plan_text *text, rp_step_plan **out)
{
    bool in_backward = rp__plan_text_in_backward(text);
    rp_plan *plan    = NULL;
    way w;

    rp_status status = way_ask(stage, in_backward, &w);
    if (status == RP_OK) {
        const rp_plan_stamp stamp = { rp_version(), rp__cost_machine(stage->costs), stage->ctx->threads, rp__cost_hash(stage->costs), stage->budget };
        status = rp__plan_from_text(stage->ctx, text, &w.question.problem, &stamp, &plan);
    }
    way_close(&w);
    return status == RP_OK ? try_plan(stage, plan, in_backward, out) : status;
}

static rp_status plan_of_file(rp_stage *stage, rp_step_plan **out)
{
    rp_plan_text *text;

    RP_TRY(rp__plan_read(stage->ctx, stage->recipe->plan, &text));
    rp_status status = rp__plan_text_is_empty(text) ? try_plan(stage, NULL, rp__plan_text_in_backward(text), out) : plan_of_text(stage, text, out);
    rp__plan_text_free(text);
    return status;
}

/* Whether the recipe's own step offloads what need not go: how much of it does is for a plan to say. */
static rp_status may_stay(rp_stage *stage, const rp_step_plan *own, bool *out)
{
    way w;

    *out = false;
    if (!own->found.offloaded_bytes) return RP_OK;
    rp_status status = way_ask(stage, own->in_backward, &w);
    if (status == RP_OK) *out = w.question.problem.stays != NULL;
    way_close(&w);
    return status;
}

static rp_status solve(rp_stage *stage, int64_t budget, rp_step_plan **out)
{
    double began         = rp__seconds();
    rp_status status     = best_of(stage, budget, plan_one, faster, out);
    stage->solve_seconds = rp__seconds() - began;
    return status;
}

/* What fits as the recipe has it is planned all the same where it does something again or offloads: a preference for that is a plan's to
 * follow. */
static rp_status settle_own(rp_stage *stage, int64_t budget, rp_step_plan *own, rp_step_plan **out)
{
    bool stays;

    RP_TRY(may_stay(stage, own, &stays));
    if (stays || own->found.recompute_flops) RP_TRY(solve(stage, budget, out));
    if (stays && *out) {
        rp__step_plan_free(own);
        return RP_OK;
    }
    take_faster(&own, *out);
    *out = own;
    return RP_OK;
}

rp_status rp__stage_plan(rp_stage *stage, int64_t budget, rp_step_plan **out, int64_t *own_bytes)
{
    bool of_file      = stage->recipe->plan && !stage->micro;      /* a file is of batches of full length */
    rp_step_plan *own = NULL;

    *out = NULL;
    if (of_file) RP_TRY(plan_of_file(stage, &own));
    else RP_TRY(try_plan(stage, NULL, stage->recipe->optimizer_in_bwd == RP_YES, &own));
    *own_bytes       = own->placement.height;
    bool fits        = !budget || *own_bytes <= budget, open = budget && rp__recipe_leaves_open(stage->recipe) && !of_file;
    rp_status status = RP_OK;
    if (fits && !open) *out = own;
    else if (fits) status = settle_own(stage, budget, own, out);
    else if (open) status = solve(stage, budget, out);
    if (status != RP_OK || !fits) rp__step_plan_free(own);
    return status;
}
