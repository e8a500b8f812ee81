/* plan/public.c -- plans and runs a program's own step; reprise.h documents the functions. */
#include "base/sized.h"
#include "cost/cost.h"
#include "plan/step.h"
#include "tape/decide.h"
#include "tape/offload.h"
#include "tape/tape.h"

typedef struct {
    rp_question question;
    rp_step_function step;
    void *user;
    rp_step_plan *how;                  /* plan of the running step; NULL: it is being recorded */
    rp_step_time time;
} own_step;

/* ---- a step ---- */

static void count_recomputed(void *self, int at, const char *path, const char *op)
{
    own_step *own         = self;
    const rp_trace *trace = &own->question.trace;
    int pass              = trace->order[(own->how->done - 1) % trace->n_order];

    (void)path, (void)op;
    own->time.recompute_seconds += trace->pass[pass].call[at].recompute;
}

static void public_begin(own_step *own, rp_tape_stats *work, rp_mem *memory)
{
    rp_ctx *ctx = own->question.ctx;

    if (own->how) rp__tape_ctx(ctx)->on_replay = (rp_call_hook){ count_recomputed, own };
    rp__tape_stats(ctx, work);
    rp_mem_read(ctx, 0, true, memory);
}

static void end(own_step *own, rp_tape_stats *work, rp_mem *memory)
{
    rp_ctx *ctx = own->question.ctx;

    rp__tape_ctx(ctx)->on_replay = (rp_call_hook){ 0 };
    rp__tape_reset(ctx);
    rp__tape_stats(ctx, work);
    rp_mem_read(ctx, 0, false, memory);
}

static rp_status public_run(const rp_question *q, rp_step_plan *how)
{
    own_step *own = q->self;
    rp_overlap_base base;
    rp_tape_stats work;
    rp_mem memory;

    own->how         = how;
    own->time        = (rp_step_time){ .costs = q->costs, .dtype = RP_F32,
                                       .seconds = q->trace.seconds, .forward_seconds = q->trace.forward_seconds };
    rp_status status = how ? rp__step_follow(q->ctx, how) : RP_OK;
    if (status != RP_OK) return status;
    public_begin(own, &work, &memory);
    status = own->step(q->ctx, own->user);
    end(own, &work, &memory);
    if (!how) return status;
    rp__step_follow(q->ctx, NULL);
    how->found = (rp_step_usage){ memory, 0, work.step_flops, work.recompute_flops, work.offloaded_bytes };
    RP_TRY(status);
    own->time.to_memory = rp__offload_in_memory(rp__tape_ctx(q->ctx)->offload);
    return rp__step_compute_time(&own->time, &base, how);
}

/* ---- a budget that is too small ---- */

typedef struct { rp_ctx *ctx; int64_t live, most; char where[256]; } peak_watcher;

static void watch(void *self, const rp_mem_event *event)
{
    static const char *const phase[] = {
        [RP_TAPE_FORWARD] = "the forward of", [RP_TAPE_REPLAY] = "the replay of", [RP_TAPE_BACKWARD] = "the backward of",
    };
    peak_watcher *w  = self;
    rp_tape_work now = rp__tape_now(w->ctx);

    if (event->reclass) return;
    w->live += event->take ? event->bytes : -event->bytes;
    if (w->live <= w->most) return;
    w->most = w->live;
    if (now.phase == RP_TAPE_OTHER) snprintf(w->where, sizeof w->where, "%s, outside ops", event->label);
    else snprintf(w->where, sizeof w->where, "%s %s%s%s", phase[now.phase], now.call->op->name, *now.path ? " of " : "", now.path);
}

static rp_status public_refuse(rp_question *q, int64_t budget)
{
    rp_ctx *ctx        = q->ctx;
    peak_watcher w     = { .ctx = ctx };
    rp_step_plan *best = NULL;
    char asked[RP_SIZE_CHARS], least[RP_SIZE_CHARS];
    rp_mem memory;

    RP_TRY(rp__step_least(q, &best));
    rp_mem_read(ctx, 0, false, &memory);
    w.live = memory.live_bytes;
    rp__mem_observe(ctx->space[0], watch, &w);
    rp_status status = public_run(q, best);
    rp__mem_observe(ctx->space[0], NULL, NULL);
    if (status == RP_OK)
        status = rp_fail(ctx, RP_ERR_BUDGET, "no plan fits a memory budget of %s; the least budget that fits is %s%s, for %s", rp__size_text(asked, budget),
                         best->at_most ? "at most " : "", rp__size_text_up(least, best->placement.height), w.where);
    rp__plan_free(best);
    return status;
}

/* ---- plans ---- */

static rp_status check_record(rp_ctx *ctx)
{
    RP_CHECK(ctx, !rp__tape_is_planned(ctx), RP_ERR_STATE, "a planned step cannot begin inside another one");
    RP_CHECK(ctx, !rp__tape_n_calls(ctx), RP_ERR_STATE, "the record holds %d calls before the step: call rp_backward or rp_forget first",
             rp__tape_n_calls(ctx));
    return RP_OK;
}

static rp_status solve(rp_question *q, int64_t budget, rp_step_plan **out)
{
    if (budget == RP_LEAST_BUDGET) return rp__step_least(q, out);
    RP_TRY(rp__step_within(q, budget, out));
    return *out ? RP_OK : public_refuse(q, budget);
}

/* If a step leaves memory behind, the next step would differ from it. */
static rp_status public_ask(rp_question *q)
{
    rp_ctx *ctx = q->ctx;
    rp_mem before, after;

    rp_mem_read(ctx, 0, false, &before);
    RP_TRY(rp__question_ask(q));
    rp_mem_read(ctx, 0, false, &after);
    int64_t left = after.live_bytes - before.live_bytes;
    RP_CHECK(ctx, left == 0, RP_ERR_STATE,
             "the step %s %" PRId64 " bytes that were %slive before it: drop gradients, and allocate one-time memory before planning",
             left > 0 ? "leaves" : "frees", left > 0 ? left : -left, left > 0 ? "not " : "");
    return RP_OK;
}

/* budget 0: no limit */
static rp_status plan(rp_question *q, int64_t budget, rp_step_plan **out)
{
    rp_step_plan *made = NULL;

    RP_TRY(public_ask(q));
    RP_TRY(solve(q, budget ? budget : INT64_MAX / 4, &made));
    int64_t bytes    = budget > 0 ? budget : budget == RP_LEAST_BUDGET ? made->placement.height : INT64_MAX / 4;
    rp_status status = rp__plan_bound(q->ctx, &q->problem, bytes, &made->bound_seconds);
    if (status != RP_OK) {
        rp__plan_free(made);
        return status;
    }
    made->budget                      = budget > 0 ? budget : 0;
    made->found.memory.reserved_bytes = made->placement.height;
    *out                              = made;
    return RP_OK;
}

static void log_plan(const rp_ctx *ctx, const rp_step_plan *p, const rp_cost_table *costs)
{
    char size[RP_SIZE_CHARS];

    rp__log(ctx, RP_LOG_INFO, "the plan reserves %s and adds %.3g s to a step of %.3g s, by the times of %s", rp__size_text(size, p->placement.height),
            p->recompute_seconds, p->seconds, rp__cost_machine(costs));
}

rp_status rp_plan_step(rp_ctx *ctx, rp_step_function step, void *user, int64_t budget_bytes, rp_step_plan **out)
{
    RP_GIVEN(ctx, ctx && step && out);
    rp_cost_table *costs;

    RP_CHECK(ctx, ctx->options.shapes_only, RP_ERR_ARG, "planning a step needs a shapes-only context");
    RP_CHECK(ctx, budget_bytes >= 0 || budget_bytes == RP_LEAST_BUDGET, RP_ERR_ARG, "the memory budget is negative: %" PRId64 " bytes", budget_bytes);
    RP_TRY(check_record(ctx));
    RP_TRY(rp__cost_table_open(ctx, &costs));
    own_step own      = { .question = { .ctx = ctx, .owner = ctx, .costs = costs, .run = public_run }, .step = step, .user = user };
    own.question.self = &own;
    rp_status status  = plan(&own.question, budget_bytes, out);
    if (status == RP_OK) log_plan(ctx, *out, costs);
    rp__question_close(&own.question);
    rp__cost_table_free(costs);
    return status;
}

void rp_step_plan_free(rp_step_plan *plan) { rp__plan_free(plan); }

rp_status rp_step_plan_run(rp_step_plan *plan, rp_ctx *ctx, rp_step_function step, void *user)
{
    RP_GIVEN(ctx, plan && ctx && step);
    RP_TRY(check_record(ctx));
    RP_TRY(rp__step_follow(ctx, plan));
    rp_status status = rp__mem_reserve(ctx, ctx->space[0], plan->placement.height);
    if (status == RP_OK) status = step(ctx, user);
    rp__tape_reset(ctx);
    rp__step_follow(ctx, NULL);
    return status;
}

static rp_step_facts facts_of(const rp_step_plan *p)
{
    rp_step_facts facts = {
        .memory = p->found.memory, .bound_bytes = p->placement.bound, .step_flops = p->found.step_flops, .recompute_flops = p->found.recompute_flops,
        .seconds = p->seconds, .recompute_seconds = p->recompute_seconds, .bound_seconds = p->bound_seconds, .offloaded_bytes = p->found.offloaded_bytes,
    };

    for (int i = 0; i < p->n_passes; i++) {
        facts.n_calls += p->pass[i].n_calls;
        facts.n_recomputed += p->pass[i].n_recomputed;
        facts.n_regions += p->pass[i].n_regions;
        facts.n_offloaded += p->pass[i].n_offloaded;
    }
    return facts;
}

void rp_step_plan_read_sized(size_t size, const rp_step_plan *p, rp_step_facts *out)
{
    rp_step_facts facts = { .n_calls = 0 };

    if (p) facts = facts_of(p);
    if (out) rp__sized_give(out, size, &facts, sizeof facts);
}

void (rp_step_plan_read)(const rp_step_plan *p, rp_step_facts *out) { rp_step_plan_read_sized(RP_FIRST_STEP_FACTS, p, out); }
