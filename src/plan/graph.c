/* plan/graph.c -- plans and evaluates graphs: see graph.h. */
#include "plan/graph.h"

#include <math.h>

#include "base/file.h"
#include "plan/simulate.h"

enum { MOST_BYTES = 64 << 20 };

/* ---- the step of a graph ---- */

/* Offloading costs copies and waits, as in add_offload (time.c). A plan's own estimate may be higher, because it waits for
 * each segment. */
static double offload_seconds(const rp_trace *trace, const rp_simulated *all, const rp_plan *p)
{
    double backward = trace->seconds - trace->forward_seconds + all->recompute_seconds, transfer;

    if (!all->offloaded_bytes) return p->facts.offload_seconds;
    transfer = (double)all->offloaded_bytes / trace->pass[0].bandwidth;
    return fmax(p->facts.offload_seconds, all->copy_seconds + rp__cost_wait(transfer, trace->forward_seconds, backward));
}

static rp_status graph_run(const rp_question *q, rp_plan *p)
{
    const rp_graph *graph = q->self;
    const rp_trace *trace = &graph->trace;
    rp_simulated all      = { .bytes = trace->outside }, one;

    for (int i = 0; i < trace->n_passes; i++) {
        int n = trace->pass[i].n_passes;
        RP_TRY(rp__simulate_pass(q->ctx, &trace->pass[i], &p->pass[i], NULL, &one));
        if (one.bytes > all.bytes) all.bytes = one.bytes;
        all.recompute_seconds += one.recompute_seconds * n;
        all.offloaded_bytes += one.offloaded_bytes * n;
        all.copy_seconds += one.copy_seconds * n;
    }
    p->found.memory.peak_bytes = p->found.memory.reserved_bytes = all.bytes;
    p->found.offloaded_bytes   = all.offloaded_bytes;
    p->seconds                 = trace->seconds + graph->other_seconds;
    p->offload_seconds         = offload_seconds(trace, &all, p);
    p->recompute_seconds       = all.recompute_seconds + p->offload_seconds;
    p->base_seconds            = p->seconds;
    return RP_OK;
}

/* The trace stays the graph's; close the problem alone. */
static rp_status open_question(rp_ctx *ctx, const rp_graph *graph, rp_question *out)
{
    *out = (rp_question){
        .ctx = ctx, .owner = ctx, .run = graph_run, .self = (void *)(uintptr_t)graph, .unplaced = true, .trace = graph->trace
    };
    return rp__plan_problem(ctx, &out->trace, &out->problem);
}

/* ---- figures ---- */

static rp_status set_bounds(rp_question *q, rp_graph_plan *g)
{
    rp_overlap_base base = { .seconds = g->plan->seconds };
    rp_plan_bounds b;

    RP_TRY(rp__step_bounds(q, &base, g->feasible && g->budget ? g->budget : g->plan->placement.height, &b));
    g->plan->bound_seconds       = fmax(0, b.any - base.seconds);
    g->plan->block_bound_seconds = fmax(0, b.blocks - base.seconds);
    g->plan->budget              = g->budget;
    g->least_bound               = q->trace.outside;
    for (int i = 0; i < q->problem.n_bounds; i++) {
        int64_t bytes = rp__pass_bound_bytes(&q->problem.bound[i]);
        if (bytes > g->least_bound) g->least_bound = bytes;
    }
    return RP_OK;
}

/* ---- planning ---- */

static rp_status solve(rp_question *q, rp_graph_plan *g)
{
    rp_plan *least;

    RP_TRY(rp__step_within(q, g->budget ? g->budget : INT64_MAX / 4, &g->plan));
    RP_TRY(rp__step_least(q, &least));
    g->feasible      = g->plan != NULL;
    g->least         = least->placement.height;
    g->least_at_most = least->at_most;
    if (g->feasible) rp__plan_free(least);
    else g->plan = least;
    if (g->plan->placement.height < g->least) {             /* the search for the least missed it */
        g->least         = g->plan->placement.height;
        g->least_at_most = true;
    }
    return set_bounds(q, g);
}

rp_status rp__graph_plan(rp_ctx *ctx, const rp_graph *graph, int64_t budget, rp_graph_plan *out)
{
    rp_question q;

    *out             = (rp_graph_plan){ .budget = budget };
    rp_status status = open_question(ctx, graph, &q);
    if (status == RP_OK) status = solve(&q, out);
    rp__plan_problem_close(&q.problem);
    return status;
}

/* ---- evaluation ---- */

typedef struct { const char *file, *text; int64_t bytes; } plan_text;

static rp_status evaluate(rp_question *q, const plan_text *t, rp_graph_plan *g)
{
    rp_plan *plan;

    RP_TRY(rp__plan_bare(q->ctx, &q->problem, &plan));
    rp_status status = rp__graph_fates(q->ctx, q->self, t->file, t->text, t->bytes, plan);
    if (status == RP_OK) status = rp__plan_count_offloaded(plan, &q->problem);
    if (status != RP_OK) {
        rp__plan_free(plan);
        return status;
    }
    plan->facts.left = (rp_plan_left){ .ways = false };     /* nothing was searched */
    RP_TRY(rp__step_try(q, plan, RP_PLACE_ANY, &g->plan));
    g->feasible = !g->budget || g->plan->placement.height <= g->budget;
    return set_bounds(q, g);
}

rp_status rp__graph_evaluate_text(rp_ctx *ctx, const rp_graph *graph, const char *file, const char *text, int64_t bytes,
                                  int64_t budget, rp_graph_plan *out)
{
    const plan_text t = { file, text, bytes };
    rp_question q;

    *out             = (rp_graph_plan){ .budget = budget };
    rp_status status = open_question(ctx, graph, &q);
    if (status == RP_OK) status = evaluate(&q, &t, out);
    rp__plan_problem_close(&q.problem);
    return status;
}

rp_status rp__graph_evaluate(rp_ctx *ctx, const rp_graph *graph, const char *path, int64_t budget, rp_graph_plan *out)
{
    int64_t bytes;
    char *text;

    *out = (rp_graph_plan){ .budget = budget };
    RP_TRY(rp__file_read(ctx, path, MOST_BYTES, &text, &bytes));
    rp_status status = rp__graph_evaluate_text(ctx, graph, path, text, bytes, budget, out);
    rp__release(text);
    return status;
}

void rp__graph_plan_close(rp_graph_plan *g)
{
    rp__plan_free(g->plan);
    *g = (rp_graph_plan){ 0 };
}
