/* train/loop_plan.c -- how every step on full-length batches runs: what is kept for backward, and the address of each buffer.
 *
 *   as the recipe has it ──fits, and nothing is done again or goes that may stay──▶ done
 *      │ else
 *   planned for the budget (plan/step.h), every variant that the recipe leaves open: the update after backward or within it, the head's
 *   logits kept or made again. The fastest stays. Where logits are left open, what fits as it is may still be planned: kept ones are faster
 */
#include <math.h>
#include <string.h>

#include "ops/behind.h"
#include "tape/away.h"
#include "train/loop_inside.h"

bool rp__recipe_leaves_open(const rp_recipe *r)
{
    return r->activation_checkpointing.mode == RP_MODE_AUTO && rp__recipe_is_bounded(r);
}

/* ---- variants ---- */

enum { MOST_VARIANTS = 4 };

rp_step_variant rp__recipe_variant(const rp_recipe *r)
{
    return (rp_step_variant){ .in_backward = r->optimizer_in_bwd == RP_YES, .keeps_logits = r->loss.keep_logits == RP_YES };
}

/* The update may go into backward where the recipe leaves that open, and where one micro-batch brings the whole gradient. */
static bool may_update_in_backward(const rp_recipe *r)
{
    return r->optimizer_in_bwd == RP_AUTO && !r->clip_grad_norm.set && r->gradient_accumulation_steps == 1;
}

static bool may_keep_logits(const rp_recipe *r) { return r->loss.keep_logits == RP_AUTO; }

/* What a plan chooses among; the recipe's own is the first. */
static int list_variants(const rp_recipe *r, rp_step_variant out[MOST_VARIANTS])
{
    const rp_step_variant own = rp__recipe_variant(r);
    int n                 = 0;

    for (int backward = 0; backward <= may_update_in_backward(r); backward++)
        for (int logits = 0; logits <= may_keep_logits(r); logits++)
            out[n++] = (rp_step_variant){ .in_backward = own.in_backward || backward, .keeps_logits = own.keeps_logits || logits };
    return n;
}

/* ---- the stage's step, as a program ---- */

typedef struct {
    rp_stage *stage;
    rp_step_program program;
    rp_step_question question;
} asked;

/* A plan reckons segment by segment with what it offloads; musts and preferences that are followed offload besides. */
static double away_seconds(const rp_stage *stage, const rp_step_time *t, const rp_step_plan *how)
{
    rp_dtype dtype  = stage->recipe->dtype == RP_TRAIN_BF16 ? RP_BF16 : RP_F32;
    double backward = t->seconds - t->forward_seconds - t->update_seconds + t->again_seconds;
    double all      = rp__cost_offload_seconds(stage->costs, rp__away_in_memory(stage->ctx->away), dtype, how->found.offloaded_bytes,
                                               t->forward_seconds, backward);

    return fmax(all, how->plan ? how->plan->facts.away_seconds : 0);
}

/* What was added up, less what runs beside something else. */
static rp_status tell_time(const rp_stage *stage, const rp_step_time *t, rp_step_plan *how)
{
    how->seconds            = t->seconds;
    how->again_seconds      = t->again_seconds;
    how->comm_seconds       = t->comm_seconds;
    how->comm_again_seconds = t->comm_again_seconds;
    how->comm_bytes         = t->comm_bytes;
    how->budget             = stage->budget;
    if (t->beside) {
        RP_TRY(t->beside->status);
        how->beside         = rp__beside_base(t->beside);
        how->seconds        = how->beside.seconds;
        how->again_seconds  = fmax(0, rp__beside_seconds(t->beside, true) - how->seconds);
        how->hidden_seconds = t->seconds + t->again_seconds - how->seconds - how->again_seconds;
    }
    RP_CHECK(stage->ctx, isfinite(how->again_seconds), RP_ERR_MEMORY, "cannot allocate memory for the time of a step");
    how->away_seconds = away_seconds(stage, t, how);
    how->again_seconds += how->away_seconds;
    how->state_bytes   = t->state_bytes;
    how->state_seconds = t->state_seconds;
    return RP_OK;
}

static rp_status run_step(void *self, rp_step_plan *how)
{
    asked *a           = self;
    rp_engine *e       = &a->stage->engine;
    rp_beside beside   = { .ctx = a->stage->ctx, .buffer_bytes = rp__ahead_bytes(a->stage->ctx), .sums_bytes = rp__behind_bytes(a->stage->ctx) };
    rp_step_time time  = { .costs = a->stage->costs, .beside = (beside.buffer_bytes || beside.sums_bytes) && rp__cost_beside(a->stage->costs) ? &beside : NULL };
    rp_step_result step;

    e->variant       = a->program.variant;
    e->follow        = how;
    e->time          = how ? &time : NULL;
    rp_status status = rp__engine_step(e, NULL, 0, 0, &step);
    e->follow        = NULL;
    e->time          = NULL;
    if (status == RP_OK && how) {
        how->found = (rp_rehearsal){ step.memory, step.saved_bytes, step.work.step_flops, step.work.recompute_flops, step.work.offloaded_bytes };
        status     = tell_time(a->stage, &time, how);
    }
    rp__beside_close(&beside);
    rp__release(time.keep);
    return status;
}

/* Closed whatever open and ask said. */
static rp_status open_program(rp_stage *stage, rp_step_variant variant, asked *a)
{
    *a = (asked){ .stage = stage };
    RP_TRY(rp__stage_costs(stage));
    a->program = (rp_step_program){ .ctx = stage->ctx, .owner = stage->caller, .costs = stage->costs, .run = run_step, .self = a, .variant = variant };
    return RP_OK;
}

static rp_status ask(rp_stage *stage, rp_step_variant variant, asked *a)
{
    RP_TRY(open_program(stage, variant, a));
    return rp__step_ask(&a->program, &a->question);
}

static void close_asked(asked *a) { rp__step_question_close(&a->question); }

/* The plan is taken over; NULL: the recipe's own fates. */
static rp_status try_plan(rp_stage *stage, rp_plan *plan, rp_step_variant variant, rp_step_plan **out)
{
    asked a;
    rp_status status = open_program(stage, variant, &a);

    if (status == RP_OK) return rp__step_try(&a.program, plan, RP_PLACE_ANY, out);
    rp__plan_free(plan);
    return status;
}

/* ---- a budget ---- */

/* The variant's plan, NULL: there is none, and its time without replays. */
typedef rp_status plan_maker(asked *a, int64_t budget, rp_step_plan **out);

/* The recipe's own fates in the question's variant are a plan like any other, where they are not those of mode none. */
static rp_status try_own(asked *a, int64_t most, rp_step_better *better, rp_step_plan **best)
{
    rp_step_plan *own;

    if (a->stage->own_keeps_all) return RP_OK;
    RP_TRY(rp__step_try(&a->program, NULL, most, &own));
    if (own->placement.height <= most) rp__step_keep(best, own, better);
    else rp__step_plan_free(own);
    return RP_OK;
}

static rp_status within(asked *a, int64_t budget, rp_step_plan **out)
{
    RP_TRY(rp__step_within(&a->program, &a->question, budget, out));
    rp_status status = try_own(a, budget, rp__step_is_faster, out);
    if (status == RP_OK) return RP_OK;
    rp__step_plan_free(*out);
    *out = NULL;
    return status;
}

/* What the recipe says may take less than any plan that is reckoned with, where its rules leave nothing open, or offload. */
static rp_status least_one(asked *a, int64_t unused, rp_step_plan **out)
{
    (void)unused;
    RP_TRY(rp__step_least(&a->program, &a->question, out));
    return try_own(a, (*out)->placement.height - 1, rp__step_is_smaller, out);
}

/* Who asks for the least, too, is told it from the same question, where all variants fit; else it is asked for later. */
static rp_status note_least(asked *a, const rp_step_plan *fits)
{
    rp_stage *stage   = a->stage;
    rp_step_plan *one = NULL;

    if (!fits) {
        rp__step_plan_free(stage->least);
        stage->least       = NULL;
        stage->wants_least = false;
    }
    rp_status status = stage->wants_least ? least_one(a, 0, &one) : RP_OK;
    if (status == RP_OK) rp__step_keep(&stage->least, one, rp__step_is_smaller);
    else rp__step_plan_free(one);
    return status;
}

static rp_status plan_one(asked *a, int64_t budget, rp_step_plan **out)
{
    RP_TRY(within(a, budget, out));
    return note_least(a, *out);
}

/* Of a variant that has no plan, too: another schedule may have its budget. */
static rp_status bound_one(asked *a, int64_t budget, const rp_step_plan *planned, rp_plan_bounds *bounds)
{
    rp_step_plan *own = NULL;
    rp_plan_bounds b;

    if (!planned) RP_TRY(rp__step_try(&a->program, NULL, 0, &own));       /* for its time alone */
    rp_status status = rp__step_bounds(&a->program, &a->question, planned ? planned : own, budget, &b);
    if (status == RP_OK) *bounds = (rp_plan_bounds){ fmin(bounds->any, b.any), fmin(bounds->blocks, b.blocks) };
    rp__step_plan_free(own);
    return status;
}

/* The bounds are the least of all variants so far. budget 0: the plan's own bytes. */
static rp_status make_one(rp_stage *stage, rp_step_variant variant, int64_t budget, plan_maker *make, rp_step_plan **out, rp_plan_bounds *bounds)
{
    asked a;

    *out             = NULL;
    rp_status status = ask(stage, variant, &a);
    if (status == RP_OK) status = make(&a, budget, out);
    if (status == RP_OK) status = bound_one(&a, budget ? budget : (*out)->placement.height, *out, bounds);
    close_asked(&a);
    if (status == RP_OK) return RP_OK;
    rp__step_plan_free(*out);
    *out = NULL;
    return status;
}

static void set_bounds(rp_step_plan *p, const rp_plan_bounds *bounds)
{
    p->bound_seconds       = fmax(0, bounds->any - p->seconds);
    p->block_bound_seconds = fmax(0, bounds->blocks - p->seconds);
}

/* Every variant planned; what no plan gets below is that of all of them. */
static rp_status best_of(rp_stage *stage, int64_t budget, plan_maker *make, rp_step_better *better, rp_step_plan **out)
{
    rp_step_variant variant[MOST_VARIANTS];
    int n                 = list_variants(stage->recipe, variant);
    rp_plan_bounds bounds = { INFINITY, INFINITY };
    rp_status status      = RP_OK;

    *out = NULL;
    for (int i = 0; i < n && status == RP_OK; i++) {
        rp_step_plan *one;
        status = make_one(stage, variant[i], budget, make, &one, &bounds);
        if (status == RP_OK) rp__step_keep(out, one, better);
    }
    if (*out) set_bounds(*out, &bounds);
    if (status == RP_OK) return RP_OK;
    rp__step_plan_free(*out);
    *out = NULL;
    return status;
}

/* ---- the base of overheads ---- */

/* Without replays and transfers a step takes what its variant says, whatever its fates are. */
static rp_status find_base(rp_stage *stage, rp_step_plan *p)
{
    rp_step_variant variant[MOST_VARIANTS];
    int n = list_variants(stage->recipe, variant);

    p->base_seconds = p->seconds;
    for (int i = 0; i < n; i++) {
        rp_step_plan *one;
        if (variant[i].in_backward == p->variant.in_backward && variant[i].keeps_logits == p->variant.keeps_logits) continue;
        RP_TRY(try_plan(stage, NULL, variant[i], &one));
        p->base_seconds = fmin(p->base_seconds, one->seconds);
        rp__step_plan_free(one);
    }
    return RP_OK;
}

/* With its base, or not at all. */
static rp_status with_base(rp_stage *stage, rp_step_plan **step)
{
    rp_status status = *step ? find_base(stage, *step) : RP_OK;

    if (status == RP_OK) return RP_OK;
    rp__step_plan_free(*step);
    *step = NULL;
    return status;
}

static rp_status small_one(asked *a, int64_t unused, rp_step_plan **out)
{
    (void)unused;
    return rp__step_small(&a->program, &a->question, out);
}

rp_status rp__stage_small(rp_stage *stage, rp_step_plan **out) { return best_of(stage, 0, small_one, rp__step_is_smaller, out); }

rp_status rp__stage_least(rp_stage *stage, rp_step_plan **out)
{
    RP_TRY(best_of(stage, 0, least_one, rp__step_is_smaller, out));
    return with_base(stage, out);
}

/* ---- many budgets ---- */

/* All questions of a curve, each asked once. */
typedef struct { asked each[MOST_VARIANTS]; int n; int64_t least, most; } curve;

/* With room for all: the recipe's own step, or, where that computes again what a plan may keep, the plan that does not. */
static rp_status roomiest(asked *a, rp_step_plan **best)
{
    rp_step_plan *own, *planned;

    RP_TRY(try_plan(a->stage, NULL, a->program.variant, &own));
    bool again = own->found.recompute_flops > 0;
    rp__step_keep(best, own, rp__step_is_faster);
    if (!again) return RP_OK;
    RP_TRY(within(a, INT64_MAX / 4, &planned));
    rp__step_keep(best, planned, rp__step_is_faster);
    return RP_OK;
}

/* The right end is the fastest step that keeps all. */
static rp_status open_curve(rp_stage *stage, curve *c, rp_step_plan **end)
{
    bool in_backward = stage->recipe->optimizer_in_bwd == RP_YES || may_update_in_backward(stage->recipe);
    rp_step_variant variant[MOST_VARIANTS];
    int n = list_variants(stage->recipe, variant);

    *c = (curve){ .least = INT64_MAX };
    for (int i = 0; i < n; i++) {
        asked *a = &c->each[c->n];
        int64_t least;
        if (variant[i].in_backward != in_backward) continue;
        c->n++;
        RP_TRY(ask(stage, variant[i], a));
        RP_TRY(roomiest(a, end));
        RP_TRY(rp__plan_least(stage->ctx, &a->question.problem, &least));
        if (least < c->least) c->least = least;
    }
    c->most = (*end)->budget = (*end)->placement.height;
    return RP_OK;
}

static rp_status plan_point(curve *c, int64_t budget, rp_step_plan **out)
{
    for (int i = 0; i < c->n; i++) {
        rp_step_plan *one;
        RP_TRY(within(&c->each[i], budget, &one));
        rp__step_keep(out, one, rp__step_is_faster);
    }
    if (*out) (*out)->budget = budget;
    return RP_OK;
}

/* What keeps to a smaller budget keeps to this one: where it is faster it is planned again. *at: the budget that the fastest so far was asked for. */
static rp_status no_slower(curve *c, const rp_step_plan *before, int64_t *at, rp_step_plan **step)
{
    int64_t budget = (*step)->budget;

    if (!before || !rp__step_is_faster(before, *step)) {
        *at = budget;
        return RP_OK;
    }
    RP_TRY(plan_point(c, *at, step));
    (*step)->budget = budget;
    return RP_OK;
}

/* The first budget from `from` on that has a plan, in steps of a small part of the curve; none up to `to`: *out stays NULL. */
static rp_status first_point(curve *c, int64_t from, int64_t to, rp_step_plan **out)
{
    int64_t more = (c->most - c->least) / 1024 + 1;

    for (int64_t budget = from; !*out && budget <= to; budget += more) RP_TRY(plan_point(c, budget, out));
    return RP_OK;
}

static double seconds_at(const rp_step_plan *p) { return p->seconds + p->again_seconds; }

/* How far a curve goes between two points: in parts of all its bytes, and of all its seconds. */
static double stretch(const curve *c, const rp_step_plan *least, const rp_step_plan *end, const rp_step_plan *a, const rp_step_plan *b)
{
    double bytes = (double)(b->budget - a->budget) / (double)(c->most - c->least + 1), all = fabs(seconds_at(least) - seconds_at(end));

    return b->budget - a->budget < 2 * RP_ALIGN ? 0 : bytes + (all > 0 ? fabs(seconds_at(a) - seconds_at(b)) / all : 0);
}

/* Halves the longest stretch. steps[0 … m - 1] by rising budgets, then `end`. *m stays where no stretch can be halved. */
static rp_status add_point(curve *c, rp_step_plan **steps, const rp_step_plan *end, int *m)
{
    rp_step_plan *one = NULL;
    double longest    = 0;
    int at            = 0;

    for (int i = 0; i < *m; i++) {
        double length = stretch(c, steps[0], end, steps[i], i + 1 < *m ? steps[i + 1] : end);
        if (length > longest) at = i;
        longest = fmax(longest, length);
    }
    int64_t low = steps[at]->budget, high = at + 1 < *m ? steps[at + 1]->budget : end->budget;
    if (longest > 0) RP_TRY(first_point(c, low + (high - low) / 2, high - 1, &one));
    if (!one) return RP_OK;
    memmove(steps + at + 2, steps + at + 1, (size_t)(*m - at - 1) * sizeof *steps);
    steps[at + 1] = one;
    ++*m;
    return RP_OK;
}

static rp_status spread_points(curve *c, rp_step_plan **steps, int n)
{
    int64_t at = 0;
    int m      = 0, before = -1;

    RP_TRY(first_point(c, c->least, c->most, &steps[0]));
    if (!steps[0]) return RP_OK;
    for (m = 1; m < n - 1 && m != before;) {
        before = m;
        RP_TRY(add_point(c, steps, steps[n - 1], &m));
    }
    for (int i = 0; i < m; i++) RP_TRY(no_slower(c, i ? steps[i - 1] : NULL, &at, &steps[i]));
    return RP_OK;
}

rp_status rp__stage_curve(rp_stage *stage, rp_step_plan **steps, int n)
{
    curve c;
    rp_status status = open_curve(stage, &c, &steps[n - 1]);

    if (status == RP_OK && n > 1) status = spread_points(&c, steps, n);
    for (int i = 0; i < c.n; i++) close_asked(&c.each[i]);
    return status;
}

rp_status rp__stage_own(rp_stage *stage, rp_step_plan **out)
{
    return try_plan(stage, NULL, rp__recipe_variant(stage->recipe), out);
}

rp_status rp__stage_own_fastest(rp_stage *stage, rp_step_plan **out)
{
    rp_step_variant variant[MOST_VARIANTS];
    int n            = list_variants(stage->recipe, variant);
    rp_status status = RP_OK;

    *out = NULL;
    for (int i = 0; i < n && status == RP_OK; i++) {
        rp_step_plan *one = NULL;
        status            = try_plan(stage, NULL, variant[i], &one);
        rp__step_keep(out, one, rp__step_is_faster);
    }
    if (status == RP_OK) return RP_OK;
    rp__step_plan_free(*out);
    *out = NULL;
    return status;
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

static rp_plan_stamp stamp_of(const rp_stage *stage, char optimizer[RP_OPTIMIZER_CHARS])
{
    return (rp_plan_stamp){ rp_version(), rp__cost_machine(stage->costs), stage->ctx->threads, rp__cost_hash(stage->costs), stage->budget,
                            rp__optimizer_text(stage->recipe, optimizer), rp__step_stands(stage->ctx) };
}

static rp_status no_plan(asked *a, int64_t budget, rp_step_plan **out)
{
    (void)a, (void)budget, (void)out;
    return RP_OK;
}

/* As of the plan that was made. */
static rp_status bound_file(rp_stage *stage, rp_step_plan *p)
{
    rp_step_variant variant[MOST_VARIANTS];
    int n                 = list_variants(stage->recipe, variant);
    rp_plan_bounds bounds = { INFINITY, INFINITY };
    rp_step_plan *none;

    for (int i = 0; i < n; i++) RP_TRY(make_one(stage, variant[i], stage->budget ? stage->budget : p->placement.height, no_plan, &none, &bounds));
    set_bounds(p, &bounds);
    return RP_OK;
}

static rp_status plan_of_text(rp_stage *stage, const rp_plan_text *text, const rp_plan_stamp *stamp, rp_step_plan **out)
{
    rp_step_variant variant = rp__plan_text_variant(text);
    rp_plan *plan           = NULL;
    asked a;

    rp_status status = ask(stage, variant, &a);
    if (status == RP_OK) status = rp__plan_from_text(stage->ctx, text, &a.question.problem, stamp, &plan);
    close_asked(&a);
    if (status == RP_OK) status = try_plan(stage, plan, variant, out);
    if (status == RP_OK) status = bound_file(stage, *out);
    if (status == RP_OK) return RP_OK;
    rp__step_plan_free(*out);
    *out = NULL;
    return status;
}

/* Nothing is planned in it: the recipe's own step, as long as it is the one that the file was made for. */
static rp_status plan_of_nothing(rp_stage *stage, const rp_plan_text *text, const rp_plan_stamp *stamp, rp_step_plan **out)
{
    RP_TRY(rp__plan_text_check(stage->ctx, text, stamp));
    return try_plan(stage, NULL, rp__plan_text_variant(text), out);
}

static rp_status plan_of_file(rp_stage *stage, rp_step_plan **out)
{
    char optimizer[RP_OPTIMIZER_CHARS];
    rp_plan_text *text;

    RP_TRY(rp__stage_costs(stage));
    RP_TRY(rp__plan_read(stage->ctx, stage->recipe->plan, &text));
    const rp_plan_stamp stamp = stamp_of(stage, optimizer);
    rp_status status = (rp__plan_text_is_empty(text) ? plan_of_nothing : plan_of_text)(stage, text, &stamp, out);
    rp__plan_text_free(text);
    return status;
}

/* Whether the recipe's own step offloads what need not go: how much of it does is for a plan to say. */
static rp_status may_stay(rp_stage *stage, const rp_step_plan *own, bool *out)
{
    asked a;

    *out = false;
    if (!own->found.offloaded_bytes) return RP_OK;
    rp_status status = ask(stage, own->variant, &a);
    if (status == RP_OK) *out = a.question.problem.stays != NULL;
    close_asked(&a);
    return status;
}

static rp_status solve(rp_stage *stage, int64_t budget, rp_step_plan **out)
{
    double began         = rp__seconds();
    rp_status status     = best_of(stage, budget, plan_one, rp__step_is_faster, out);
    stage->solve_seconds = rp__seconds() - began;
    return status;
}

/* What fits as the recipe has it is planned all the same where a plan may do better: where it does something again or offloads, as a preference
 * for that is a plan's to follow, and where logits are left open. It stays where no plan is faster. */
static rp_status settle_own(rp_stage *stage, int64_t budget, rp_step_plan *own, rp_step_plan **out)
{
    bool stays;

    RP_TRY(may_stay(stage, own, &stays));
    if (stays || own->found.recompute_flops || may_keep_logits(stage->recipe)) RP_TRY(solve(stage, budget, out));
    if (stays && *out) {
        rp__step_plan_free(own);
        return RP_OK;
    }
    rp__step_keep(&own, *out, rp__step_is_faster);
    *out = own;
    return RP_OK;
}

rp_status rp__stage_plan(rp_stage *stage, int64_t budget, rp_step_plan **out, int64_t *own_bytes)
{
    bool of_file      = stage->recipe->plan && !stage->micro;      /* a file is of batches of full length */
    rp_step_plan *own = NULL;

    *out = NULL;
    if (of_file) RP_TRY(plan_of_file(stage, &own));
    else RP_TRY(rp__stage_own(stage, &own));
    *own_bytes       = own->placement.height;
    stage->own_keeps_all    = !own->found.recompute_flops && !own->found.offloaded_bytes;
    stage->keep_all_seconds = own->found.recompute_flops || own->found.offloaded_bytes ? 0 : own->seconds;
    bool fits        = !budget || *own_bytes <= budget, open = budget && rp__recipe_leaves_open(stage->recipe) && !of_file;
    rp_status status = RP_OK;
    if (fits && !open) *out = own;
    else if (fits) status = settle_own(stage, budget, own, out);
    else if (open) status = solve(stage, budget, out);
    if (status != RP_OK || !fits) rp__step_plan_free(own);
    return status == RP_OK ? with_base(stage, out) : status;
}
