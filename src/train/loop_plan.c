/* train/loop_plan.c -- how every step on full-length batches runs: what is kept for backward, and the address of each buffer.
 *
 *   all kept ──fits──▶ done
 *      │ does not
 *   trace ─▶ problem ─▶ plan for the budget ─▶ its step on shapes ─▶ addresses ──reserved fits──▶ done
 *                            ▲                                          │ does not
 *                            └────── the plan before it, a byte less ───┘
 *
 * What is told of a step is what its rehearsal did, never what the solver reckons; the two agree to the byte, but an arena may be larger
 * than what is live at once.
 */
#include "train/loop_inside.h"

enum { MOST_TRIES = 64 };

void rp__step_plan_free(rp_step_plan *p)
{
    if (!p) return;
    rp__plan_free(p->plan);
    rp__release(p->place);
    rp__release(p);
}

bool rp__recipe_leaves_open(const rp_recipe *r)
{
    return r->activation_checkpointing.mode == RP_MODE_AUTO && r->memory_budget.kind != RP_BUDGET_NONE;
}

/* ---- one step on shapes, followed and noted ---- */

static void note_time(const rp_stage *stage, rp_step_plan *steps, const rp_step_time *time)
{
    steps->seconds       = time->seconds;
    steps->again_seconds = time->again_seconds;
    steps->costs         = rp__cost_hash(stage->costs);
    steps->measured      = rp__cost_measured(stage->costs);
    steps->budget        = stage->budget;
    snprintf(steps->machine, sizeof steps->machine, "%s", rp__cost_machine(stage->costs));
}

static rp_status noted_step(rp_stage *stage, rp_step_plan *steps)
{
    rp_engine *e = &stage->engine;
    rp_step_result step;
    rp_place_log *log;

    RP_TRY(rp__stage_costs(stage));
    rp_step_time time = { .costs = stage->costs };
    RP_TRY(rp__place_log_begin(stage->ctx, &log));
    e->log           = log;
    e->follow        = steps;
    e->time          = &time;
    rp_status status = rp__engine_step(e, NULL, 0, 0, &step);
    e->log           = NULL;
    e->follow        = NULL;
    e->time          = NULL;
    note_time(stage, steps, &time);
    rp_status noted  = rp__place_log_end(log, &steps->place, &steps->n_places, &steps->placement);
    if (status != RP_OK || noted != RP_OK) return status != RP_OK ? status : noted;
    steps->found = (rp_rehearsal){ step.memory, step.saved_bytes, step.work.step_flops, step.work.recompute_flops };
    return RP_OK;
}

/* A way to run steps, from a plan that is taken over; NULL: the recipe's own fates. */
static rp_status try_plan(rp_stage *stage, rp_plan *plan, bool in_backward, rp_step_plan **out)
{
    rp_step_plan *steps = rp__host_alloc(stage->ctx, sizeof *steps);

    if (!steps) {
        rp__plan_free(plan);
        return RP_ERR_MEMORY;
    }
    if (plan) plan->bump.ctx = stage->caller;       /* the stage goes before the plan does */
    *steps                    = (rp_step_plan){ .plan = plan, .in_backward = in_backward };
    stage->engine.in_backward = in_backward;
    rp_status status          = noted_step(stage, steps);
    if (status == RP_OK) *out = steps;
    else rp__step_plan_free(steps);
    return status;
}

/* ---- a budget ---- */

typedef struct {
    rp_trace trace;
    rp_plan_problem problem;
    bool in_backward;
} question;

static rp_status record(rp_stage *stage, question *q)
{
    rp_tracer *tracer;
    rp_step_result step;

    RP_TRY(rp__stage_costs(stage));
    RP_TRY(rp__trace_begin(stage->ctx, stage->costs, &tracer));
    stage->engine.in_backward = q->in_backward;
    rp_status status          = rp__engine_step(&stage->engine, NULL, 0, 0, &step);
    rp_status ended           = rp__trace_end(tracer, &q->trace);
    if (status == RP_OK) status = ended;
    return status == RP_OK ? rp__plan_problem(stage->ctx, &q->trace, &q->problem) : status;
}

static void close_question(question *q)
{
    rp__plan_problem_close(&q->problem);
    rp__trace_close(&q->trace);
}

/* What to ask for next, where the arena of a plan of `bytes` was too large: the plan just below, after many of those one far below, at last
 * the least. */
static int64_t next_below(int64_t bytes, int64_t least, int tries)
{
    return tries < MOST_TRIES ? bytes - 1 : rp__align_up(bytes - 1 - (bytes - least) / 8) > least ? bytes - 1 - (bytes - least) / 8 : least;
}

/* The plan for the budget whose arena keeps to it, too. *out NULL: there is none. */
static rp_status plan_within(rp_stage *stage, const question *q, int64_t budget, rp_step_plan **out)
{
    int64_t most = budget, least;
    rp_plan *plan;

    *out = NULL;
    RP_TRY(rp__plan_least(stage->ctx, &q->problem, &least));
    for (int i = 0; most >= least; i++) {
        RP_TRY(rp__plan_solve(stage->ctx, &q->problem, most, &plan));
        if (!plan) return RP_OK;
        int64_t bytes = plan->facts.bytes;
        RP_TRY(try_plan(stage, plan, q->in_backward, out));
        if ((*out)->placement.height <= budget) return RP_OK;
        rp__step_plan_free(*out);
        *out = NULL;
        if (bytes <= least) return RP_OK;
        most = next_below(bytes, least, i);
    }
    return RP_OK;
}

/* The update may go into backward where the recipe leaves that open, and where one micro-batch brings the whole gradient. */
static bool may_update_in_backward(const rp_recipe *r)
{
    return r->optimizer_in_bwd == RP_AUTO && !r->clip_grad_norm.set && r->gradient_accumulation_steps == 1;
}

static bool better(const rp_step_plan *a, const rp_step_plan *b)
{
    return !b || (a && a->plan->facts.again_seconds < b->plan->facts.again_seconds);
}

static rp_status plan_for(rp_stage *stage, int64_t budget, rp_step_plan **out)
{
    question q = { .in_backward = stage->recipe->optimizer_in_bwd == RP_YES };
    rp_step_plan *other = NULL;
    double began = rp__seconds();

    *out             = NULL;
    rp_status status = record(stage, &q);
    if (status == RP_OK) status = plan_within(stage, &q, budget, out);
    stage->solve_seconds = rp__seconds() - began;
    close_question(&q);
    if (status != RP_OK || q.in_backward || !may_update_in_backward(stage->recipe)) return status;
    q      = (question){ .in_backward = true };
    status = record(stage, &q);
    if (status == RP_OK) status = plan_within(stage, &q, budget, &other);
    close_question(&q);
    if (status == RP_OK && other && better(other, *out)) {
        rp__step_plan_free(*out);
        *out = other;
    } else rp__step_plan_free(other);
    return status;
}

/* ---- the least ---- */

/* A plan of more bytes may have a smaller arena, where that of the least plan has holes. */
static rp_status shrink(rp_stage *stage, const question *q, rp_step_plan **best)
{
    while ((*best)->placement.height > (*best)->placement.bound) {
        rp_step_plan *smaller;
        RP_TRY(plan_within(stage, q, (*best)->placement.height - 1, &smaller));
        if (!smaller) return RP_OK;
        rp__step_plan_free(*best);
        *best = smaller;
    }
    return RP_OK;
}

/* The plan that takes least, what its arena adds included. */
static rp_status plan_least(rp_stage *stage, bool in_backward, rp_step_plan **out)
{
    question q = { .in_backward = in_backward };
    int64_t bytes;
    rp_plan *plan;

    *out             = NULL;
    rp_status status = record(stage, &q);
    if (status == RP_OK) status = rp__plan_least(stage->ctx, &q.problem, &bytes);
    if (status == RP_OK) status = rp__plan_solve(stage->ctx, &q.problem, bytes, &plan);
    RP_BUG_IF(status == RP_OK && !plan);
    if (status == RP_OK) status = try_plan(stage, plan, in_backward, out);
    if (status == RP_OK) status = shrink(stage, &q, out);
    close_question(&q);
    return status;
}

rp_status rp__stage_least(rp_stage *stage, rp_step_plan **out)
{
    bool in_backward    = stage->recipe->optimizer_in_bwd == RP_YES;
    rp_step_plan *other = NULL;

    RP_TRY(plan_least(stage, in_backward, out));
    if (in_backward || !may_update_in_backward(stage->recipe)) return RP_OK;
    rp_status status = plan_least(stage, true, &other);
    if (status == RP_OK && other->placement.height < (*out)->placement.height) {
        rp__step_plan_free(*out);
        *out = other;
    } else rp__step_plan_free(other);
    return status;
}

/* ---- many budgets ---- */

rp_status rp__stage_curve(rp_stage *stage, rp_step_plan **steps, int n)
{
    question q    = { .in_backward = stage->recipe->optimizer_in_bwd == RP_YES || may_update_in_backward(stage->recipe) };
    int64_t least = 0, most = 0;

    RP_TRY(try_plan(stage, NULL, q.in_backward, &steps[n - 1]));
    most             = steps[n - 1]->budget = steps[n - 1]->placement.height;
    rp_status status = record(stage, &q);
    if (status == RP_OK) status = rp__plan_least(stage->ctx, &q.problem, &least);
    for (int i = 0; i < n && status == RP_OK; i++) {
        int64_t budget = least + (most - least) * i / (n - 1), more = (most - least) / n / 64 + 1;
        while (status == RP_OK && !steps[i] && budget <= most) {
            status = plan_within(stage, &q, budget, &steps[i]);
            if (steps[i]) steps[i]->budget = budget;
            budget += more;
        }
    }
    close_question(&q);
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
    steps->found = (rp_rehearsal){ step.memory, step.saved_bytes, step.work.step_flops, step.work.recompute_flops };
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
        ratio(p->again_seconds, p->seconds), p->plan ? ratio(p->plan->facts.bound_seconds, p->seconds) : 0,
    };

    return rp__plan_write(ctx, path, p->plan, p->in_backward, &stamp, &takes, recipe);
}

static rp_status plan_of_text(rp_stage *stage, const rp_plan_text *text, rp_step_plan **out)
{
    question q = { .in_backward = rp__plan_text_in_backward(text) };
    rp_plan *plan;

    rp_status status = record(stage, &q);
    if (status == RP_OK) {
        const rp_plan_stamp stamp = { rp_version(), rp__cost_machine(stage->costs), stage->ctx->threads, rp__cost_hash(stage->costs), stage->budget };
        status = rp__plan_from_text(stage->ctx, text, &q.problem, &stamp, &plan);
    }
    close_question(&q);
    return status == RP_OK ? try_plan(stage, plan, rp__plan_text_in_backward(text), out) : status;
}

static rp_status plan_of_file(rp_stage *stage, rp_step_plan **out)
{
    rp_plan_text *text;

    RP_TRY(rp__plan_read(stage->ctx, stage->recipe->plan, &text));
    rp_status status = rp__plan_text_is_empty(text) ? try_plan(stage, NULL, rp__plan_text_in_backward(text), out) : plan_of_text(stage, text, out);
    rp__plan_text_free(text);
    return status;
}

rp_status rp__stage_plan(rp_stage *stage, int64_t budget, rp_step_plan **out, int64_t *own_bytes)
{
    rp_step_plan *own = NULL;

    *out = NULL;
    if (stage->recipe->plan) RP_TRY(plan_of_file(stage, &own));
    else RP_TRY(try_plan(stage, NULL, stage->recipe->optimizer_in_bwd == RP_YES, &own));
    *own_bytes = own->placement.height;
    if (!budget || *own_bytes <= budget) {
        *out = own;
        return RP_OK;
    }
    rp__step_plan_free(own);
    return rp__recipe_leaves_open(stage->recipe) && !stage->recipe->plan ? plan_for(stage, budget, out) : RP_OK;
}
