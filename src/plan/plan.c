/* plan/plan.c -- a solved chain as fates of calls, and the tape asking for them. */
#include "base/bump.h"
#include "plan/plan.h"
#include "solve/chain.h"
#include "tape/tape.h"

#include <math.h>
#include <string.h>

/* ---- the problem ---- */

static bool may_go(const rp_trace_pass *pass)
{
    for (int v = 0; v < pass->n_values; v++)
        if (pass->value[v].may_go) return true;
    return false;
}

static rp_status stay(rp_plan_problem *p)
{
    p->resident        = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *p->resident);
    p->resident_solver = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *p->resident_solver);
    if (!p->resident || !p->resident_solver) return RP_ERR_MEMORY;
    for (int i = 0; i < p->trace->n_passes; i++) RP_TRY(rp__segments(&p->bump, &p->trace->pass[i], RP_CUT_RESIDENT, &p->resident[i]));
    return RP_OK;
}

/* All passes have to. */
static rp_status plan_join(rp_plan_problem *p)
{
    p->joined_solver    = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *p->joined_solver);
    rp_cut_pass *joined = rp__bump_alloc(&p->bump, (p->trace->n_passes + 1) * (int64_t)sizeof *joined);

    if (!joined || !p->joined_solver) return RP_ERR_MEMORY;
    for (int i = 0; i < p->trace->n_passes; i++) {
        RP_TRY(rp__segments(&p->bump, &p->trace->pass[i], RP_CUT_RESIDENT | RP_CUT_JOINED, &joined[i]));
        if (!joined[i].chain.n) return RP_OK;
    }
    p->joined = p->trace->n_passes ? joined : NULL;
    return RP_OK;
}

rp_plan_problem rp__plan_view(const rp_plan_problem *problem, rp_cut_pass *pass, rp_chain_solver **solver)
{
    rp_plan_problem view = *problem;

    view.pass   = pass;
    view.solver = solver;
    view.resident = view.joined = NULL;
    return view;
}

int rp__plan_views(const rp_plan_problem *problem, rp_plan_problem out[RP_PLAN_VIEWS])
{
    int n = 0;

    if (problem->resident) out[n++] = rp__plan_view(problem, problem->resident, problem->resident_solver);
    out[n++] = *problem;
    if (problem->joined) out[n++] = rp__plan_view(problem, problem->joined, problem->joined_solver);
    return n;
}

rp_status rp__plan_problem(rp_ctx *ctx, const rp_trace *trace, rp_plan_problem *out)
{
    rp_status status = RP_OK;

    *out      = (rp_plan_problem){ .bump = { .ctx = ctx }, .trace = trace };
    out->pass = rp__bump_alloc(&out->bump, (trace->n_passes + 1) * (int64_t)sizeof *out->pass);
    out->bound = rp__bump_alloc(&out->bump, (trace->n_passes + 1) * (int64_t)sizeof *out->bound);
    out->solver = rp__bump_alloc(&out->bump, (trace->n_passes + 1) * (int64_t)sizeof *out->solver);
    if (!out->pass || !out->bound || !out->solver) status = RP_ERR_MEMORY;
    for (int i = 0; i < trace->n_passes && status == RP_OK; i++) status = rp__segments(&out->bump, &trace->pass[i], 0, &out->pass[i]);
    for (int i = 0; i < trace->n_passes && status == RP_OK && !out->resident; i++)
        if (may_go(&trace->pass[i])) status = stay(out);
    if (status == RP_OK) status = plan_join(out);
    for (int i = 0; i < trace->n_passes && status == RP_OK; i++) {
        out->n_bounds++;
        status = rp__pass_bound_open(ctx, &trace->pass[i], &out->bound[i]);
    }
    for (int i = 0; i < trace->n_passes && status == RP_OK && trace->n_passes > 1; i++) {
        out->pass[i].chain.regions = false;
        if (out->resident) out->resident[i].chain.regions = false;
        if (out->joined) out->joined[i].chain.regions = false;
    }
    if (status != RP_OK) rp__plan_problem_close(out);
    return status;
}

static void close_solvers(const rp_plan_problem *problem, rp_chain_solver **solver)
{
    for (int i = 0; solver && i < problem->trace->n_passes; i++) rp__chain_solver_close(solver[i]);
}

void rp__plan_problem_close(rp_plan_problem *problem)
{
    close_solvers(problem, problem->solver);
    close_solvers(problem, problem->resident_solver);
    close_solvers(problem, problem->joined_solver);
    for (int i = 0; i < problem->n_bounds; i++) rp__pass_bound_close(&problem->bound[i]);
    rp__bump_free(&problem->bump);
    *problem = (rp_plan_problem){ 0 };
}

/* A solver stays with the problem, as what it finds for one budget serves the next. */
static rp_status open_solvers(rp_ctx *ctx, const rp_plan_problem *problem)
{
    for (int i = 0; i < problem->trace->n_passes; i++) {
        if (problem->solver[i]) continue;
        rp_status status = rp__chain_solver_open(ctx, &problem->pass[i].chain, &problem->solver[i]);
        if (status == RP_OK) continue;
        rp__chain_solver_close(problem->solver[i]);
        problem->solver[i] = NULL;
        return status;
    }
    return RP_OK;
}

rp_status rp__plan_least(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes)
{
    RP_TRY(open_solvers(ctx, problem));
    *bytes = problem->trace->outside;
    for (int i = 0; i < problem->trace->n_passes; i++) {
        int64_t least = rp__chain_solver_least(problem->solver[i]);
        if (least > *bytes) *bytes = least;
    }
    return RP_OK;
}

/* Of the problem and of it joined. */
static rp_status least_of_all(rp_ctx *ctx, const rp_plan_problem *problem, int64_t *bytes)
{
    int64_t joined;

    RP_TRY(rp__plan_least(ctx, problem, bytes));
    if (!problem->joined) return RP_OK;
    rp_plan_problem view = rp__plan_view(problem, problem->joined, problem->joined_solver);
    RP_TRY(rp__plan_least(ctx, &view, &joined));
    if (joined < *bytes) *bytes = joined;
    return RP_OK;
}

rp_status rp__plan_bound(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, double *seconds)
{
    int64_t least;

    RP_TRY(least_of_all(ctx, problem, &least));
    *seconds = 0;
    for (int i = 0; i < problem->trace->n_passes; i++)
        *seconds += rp__pass_bound_seconds(&problem->bound[i], budget > least ? budget : least) * problem->trace->pass[i].n_passes;
    return RP_OK;
}

/* Both conditions of rp_plan_bounds. */
static bool knows_all(const rp_trace_pass *pass, const rp_cut_pass *cut)
{
    for (int c = 0; c < cut->chain.n_classes; c++)
        if (!cut->ways[c].all) return false;
    for (int v = 0; v < pass->n_values; v++) {
        const rp_trace_value *value = &pass->value[v];
        if (value->call >= 0 && (value->may_go || (value->must && value->fate != RP_RECOMPUTE))) return false;
    }
    return true;
}

/* By plans of one view; 0: not known. */
static rp_status block_bound(rp_ctx *ctx, const rp_plan_problem *view, int64_t budget, double *seconds)
{
    double one;

    *seconds = 0;
    RP_TRY(open_solvers(ctx, view));
    for (int i = 0; i < view->trace->n_passes; i++) {
        if (!knows_all(&view->trace->pass[i], &view->pass[i])) {
            *seconds = 0;
            return RP_OK;
        }
        RP_TRY(rp__chain_solver_bound(view->solver[i], budget, &one));
        *seconds += one * view->trace->pass[i].n_passes;
    }
    return RP_OK;
}

rp_status rp__plan_bounds(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan_bounds *out)
{
    rp_plan_problem view[RP_PLAN_VIEWS];
    int n        = rp__plan_views(problem, view);
    double fewest = INFINITY, one;

    for (int i = 0; i < n; i++) {
        RP_TRY(block_bound(ctx, &view[i], budget, &one));
        fewest = fmin(fewest, one);
    }
    RP_TRY(rp__plan_bound(ctx, problem, budget, &out->any));
    out->blocks = fmax(fewest, out->any);
    return RP_OK;
}

/* ---- a plan ---- */

static uint32_t may_go_of(const rp_segment *s, int c)
{
    uint32_t bits = 0;

    for (int i = 0; i < s->call[c].n_made && s->call[c].offloadable; i++) {
        const rp_segment_value *v = &s->value[s->call[c].made[i]];
        if (v->offloadable) bits |= UINT32_C(1) << v->nth;
    }
    return bits;
}

static void mark_may_go(const rp_cut_pass *cut, rp_plan_pass *to)
{
    for (int s = 0; s < cut->chain.n; s++) {
        const rp_segment *segment = &cut->class_of[cut->chain.segment[s]];
        for (int c = 0; c < segment->n_calls; c++) to->call[cut->first[s] + c].may_go = may_go_of(segment, c);
    }
}

static rp_status list_calls(rp_plan *plan, const rp_trace_pass *from, rp_plan_pass *to)
{
    *to      = (rp_plan_pass){ .hash = from->hash, .n_calls = from->n_calls };
    to->call = rp__bump_alloc(&plan->bump, (from->n_calls + 1) * (int64_t)sizeof *to->call);
    if (!to->call) return RP_ERR_MEMORY;
    for (int i = 0; i < from->n_calls; i++) {
        const rp_trace_call *c = &from->call[i];
        to->call[i]            = (rp_plan_call){ .op = c->meta.op->name, .path = rp__bump_text(&plan->bump, c->path, (int64_t)strlen(c->path)),
                                                 .out = c->meta.out[0] };
        if (!to->call[i].path) return RP_ERR_MEMORY;
    }
    return RP_OK;
}

/* "layers.3" of "layers.3.attn.q". */
static int module_chars(const char *path)
{
    int64_t layer;
    size_t n = 0;

    if (!rp_path_layer(path, &layer)) return (int)strlen(path);
    while (path[n] && !(path[n] >= '0' && path[n] <= '9' && (n == 0 || path[n - 1] == '.')))
        n += strcspn(path + n, ".") + (path[n + strcspn(path + n, ".")] == '.');
    n += strspn(path + n, "0123456789");
    return (int)n;
}

const char *rp__plan_region_name(rp_plan *plan, const rp_plan_pass *pass, const rp_stretch *r)
{
    const char *first = pass->call[r->first].path, *last = pass->call[r->end - 1].path;

    return rp__bump_format(&plan->bump, "%.*s to %.*s", module_chars(first), first, module_chars(last), last);
}

static rp_status take_regions(rp_plan *plan, const rp_cut_pass *cut, const rp_chain_plan *solved, rp_plan_pass *to)
{
    to->n_regions = solved->n_regions;
    to->region    = rp__bump_alloc(&plan->bump, (solved->n_regions + 1) * (int64_t)sizeof *to->region);
    if (!to->region) return RP_ERR_MEMORY;
    for (int i = 0; i < solved->n_regions; i++) {
        to->region[i]      = (rp_stretch){ cut->first[solved->region[i].first], cut->first[solved->region[i].end], NULL };
        to->region[i].path = rp__plan_region_name(plan, to, &to->region[i]);
        if (!to->region[i].path) return RP_ERR_MEMORY;
    }
    return RP_OK;
}

bool rp__plan_joins_layers(const rp_plan *plan)
{
    for (int p = 0; p < plan->n_passes; p++)
        for (int i = 0; i < plan->pass[p].n_regions; i++) {
            const rp_plan_pass *pass = &plan->pass[p];
            int64_t first, last;
            if (!rp_path_layer(pass->call[pass->region[i].first].path, &first)) first = -1;
            if (!rp_path_layer(pass->call[pass->region[i].end - 1].path, &last)) last = -1;
            if (first != last) return true;
        }
    return false;
}

static void take_ways(const rp_cut_pass *cut, const rp_chain_plan *solved, rp_plan_pass *to)
{
    for (int s = 0; s < cut->chain.n; s++) {
        const rp_segment *segment   = &cut->class_of[cut->chain.segment[s]];
        const rp_segment_ways *ways = &cut->ways[cut->chain.segment[s]];
        const uint64_t *recompute       = ways->recompute + (size_t)solved->option[s] * (size_t)ways->words;
        const uint64_t *offload        = ways->offload + (size_t)solved->option[s] * (size_t)ways->words;
        for (int c = 0; c < segment->n_calls; c++) {
            rp_plan_call *call = &to->call[cut->first[s] + c];
            call->open         = !segment->call[c].kept && !segment->call[c].recompute;
            call->recompute        = recompute[c / 64] >> (c % 64) & 1;
            call->offload         = offload[c / 64] >> (c % 64) & 1;
            to->n_recomputed += call->recompute;
        }
    }
}

/* Every call kept. */
static rp_status bare_pass(rp_plan *plan, const rp_plan_problem *problem, int i)
{
    const rp_trace_pass *pass = &problem->trace->pass[i];
    const rp_cut_pass *cut    = &problem->pass[i];

    RP_TRY(list_calls(plan, pass, &plan->pass[i]));
    mark_may_go(cut, &plan->pass[i]);
    for (int c = 0; c < cut->chain.n_classes; c++) plan->facts.left.ways = plan->facts.left.ways || !cut->ways[c].all;
    return RP_OK;
}

rp_status rp__plan_bare(rp_ctx *ctx, const rp_plan_problem *problem, rp_plan **out)
{
    int n         = problem->trace->n_passes;
    rp_plan *plan = rp__host_alloc(ctx, sizeof *plan);

    if (!plan) return RP_ERR_MEMORY;
    *plan = (rp_plan){ .bump = { .ctx = ctx }, .chosen = true, .n_passes = n,
                       .facts = { .bytes = problem->trace->outside, .seconds = problem->trace->seconds } };
    plan->pass       = rp__bump_alloc(&plan->bump, (n + 1) * (int64_t)sizeof *plan->pass);
    plan->order      = rp__bump_alloc(&plan->bump, (problem->trace->n_order + 1) * (int64_t)sizeof *plan->order);
    rp_status status = plan->pass && plan->order ? RP_OK : RP_ERR_MEMORY;
    if (status == RP_OK) {
        plan->n_order = problem->trace->n_order;
        memcpy(plan->order, problem->trace->order, (size_t)plan->n_order * sizeof *plan->order);
    }
    for (int i = 0; i < n && status == RP_OK; i++) status = bare_pass(plan, problem, i);
    if (status == RP_OK) *out = plan;
    else rp__plan_free(plan);
    return status;
}

static void note_left(rp_plan_left *left, const rp_chain_plan *solved)
{
    left->limit   = left->limit || !solved->exact;
    left->regions = left->regions || solved->thin;
    if (solved->grain > left->grain) left->grain = solved->grain;
}

static rp_status solved_pass(rp_plan *plan, const rp_plan_problem *problem, int i, const rp_chain_plan *solved)
{
    note_left(&plan->facts.left, solved);
    RP_TRY(take_regions(plan, &problem->pass[i], solved, &plan->pass[i]));
    take_ways(&problem->pass[i], solved, &plan->pass[i]);
    plan->facts.recompute_seconds += solved->seconds * problem->trace->pass[i].n_passes;
    if (solved->bytes > plan->facts.bytes) plan->facts.bytes = solved->bytes;
    return RP_OK;
}

static rp_status offload_seconds_of(const rp_cut_pass *cut, int i, const rp_plan_pass *pass, rp_bump *bump, double *seconds)
{
    const rp_segment *s = &cut->class_of[cut->chain.segment[i]];
    bool *recompute = rp__bump_alloc(bump, s->n_calls), *offload = rp__bump_alloc(bump, s->n_calls);
    rp_segment_room room;

    if (!recompute || !offload) return RP_ERR_MEMORY;
    RP_TRY(rp__segment_room(bump, s, &room));
    for (int c = 0; c < s->n_calls; c++) {
        recompute[c] = pass->call[cut->first[i] + c].recompute;
        offload[c]  = pass->call[cut->first[i] + c].offload;
    }
    *seconds = rp__segment_offload_seconds(s, recompute, offload, room);
    return RP_OK;
}

static bool any_offloaded(const rp_cut_pass *cut, int i, const rp_plan_pass *pass)
{
    for (int c = cut->first[i]; c < cut->first[i + 1]; c++)
        if (pass->call[c].offload) return true;
    return false;
}

rp_status rp__plan_count_offloaded(rp_plan *plan, const rp_plan_problem *problem)
{
    rp_bump bump     = { .ctx = plan->bump.ctx };
    rp_status status = RP_OK;
    double seconds;

    plan->facts.offload_seconds = 0;
    for (int p = 0; p < plan->n_passes; p++) {
        rp_plan_pass *pass     = &plan->pass[p];
        const rp_cut_pass *cut = &problem->pass[p];
        pass->n_offloaded           = 0;
        for (int c = 0; c < pass->n_calls; c++) pass->n_offloaded += pass->call[c].offload;
        for (int i = 0; i < cut->chain.n && status == RP_OK; i++) {
            if (!any_offloaded(cut, i, pass)) continue;
            status = offload_seconds_of(cut, i, pass, &bump, &seconds);
            if (status == RP_OK) plan->facts.offload_seconds += seconds * problem->trace->pass[p].n_passes;
        }
    }
    rp__bump_free(&bump);
    return status;
}

rp_status rp__plan_make(rp_ctx *ctx, const rp_plan_problem *problem, const rp_chain_plan *solved, rp_plan **out)
{
    rp_status status = rp__plan_bare(ctx, problem, out);

    if (status != RP_OK) return status;
    for (int i = 0; i < problem->trace->n_passes && status == RP_OK; i++) status = solved_pass(*out, problem, i, &solved[i]);
    if (status == RP_OK) status = rp__plan_count_offloaded(*out, problem);
    if (status == RP_OK) return RP_OK;
    rp__plan_free(*out);
    *out = NULL;
    return status;
}

rp_status rp__plan_solve(rp_ctx *ctx, const rp_plan_problem *problem, int64_t budget, rp_plan **out)
{
    int n                 = problem->trace->n_passes, done;
    rp_chain_plan *solved = rp__host_alloc(ctx, (n + 1) * (int64_t)sizeof *solved);
    bool feasible         = problem->trace->outside <= budget;
    rp_status status      = RP_OK;

    *out = NULL;
    if (!solved) return RP_ERR_MEMORY;
    status = open_solvers(ctx, problem);
    for (done = 0; done < n && feasible && status == RP_OK; done++) {
        status   = rp__chain_solver_solve(problem->solver[done], budget, &solved[done]);
        feasible = solved[done].feasible;
    }
    if (status == RP_OK && feasible) status = rp__plan_make(ctx, problem, solved, out);
    for (int i = 0; i < done; i++) rp__chain_plan_free(&solved[i]);
    rp__release(solved);
    return status;
}

void rp__plan_free(rp_plan *plan)
{
    if (!plan) return;
    rp__release(plan->place);
    rp__bump_free(&plan->bump);
    rp__release(plan);
}

/* ---- followed ---- */

static bool is_planned(const rp_plan_pass *pass, int at, const rp_op_meta *meta, const char *path)
{
    if (at >= pass->n_calls) return false;
    const rp_plan_call *call = &pass->call[at];
    return !strcmp(call->op, meta->op->name) && !strcmp(call->path, path) && rp_meta_same(&call->out, &meta->out[0]);
}

static const rp_plan_pass *pass_now(const rp_plan *plan) { return &plan->pass[plan->n_order ? plan->order[plan->done % plan->n_order] : 0]; }

static rp_status plan_refuse(const rp_plan_pass *pass, int at, const rp_op_meta *meta, const char *path)
{
    static const char what[] = "the step is not the one that was planned";
    const rp_plan_call *call = &pass->call[at];

    if (at >= pass->n_calls)
        return rp_fail(meta->ctx, RP_ERR_STATE, "%s: %s of '%s' is one call more than the %d there were", what, meta->op->name, path, pass->n_calls);
    return rp_fail(meta->ctx, RP_ERR_STATE, "%s: call %d is %s of '%s' with output %s, planned was %s of '%s' with output %s", what, at,
                   meta->op->name, path, rp_meta_str(&meta->out[0]), call->op, call->path, rp_meta_str(&call->out));
}

static rp_status fate(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    const rp_plan_pass *pass = pass_now(self);

    if (!is_planned(pass, at, meta, scope->path)) return plan_refuse(pass, at, meta, scope->path);
    const rp_plan_call *call = &pass->call[at];
    for (int i = 0; i < meta->n_out + meta->n_slot; i++) {
        verdict[i].alone = call->recompute;         /* what a rule has run again is made for whoever reads it, in a region, too */
        if (verdict[i].must) continue;
        bool offloadable        = call->offload && (call->may_go >> i & 1) && verdict[i].fate == RP_OFFLOAD;
        verdict[i].fate  = offloadable ? RP_OFFLOAD : call->recompute ? RP_RECOMPUTE : call->kept ? RP_KEEP : RP_NO_FATE;
        verdict[i].by    = "plan";
    }
    return RP_OK;
}

/* Its backward begins: the next call is of the next pass. */
static rp_status recorded(void *self)
{
    ((rp_plan *)self)->done++;
    return RP_OK;
}

void rp__plan_follow(rp_ctx *ctx, rp_plan *plan)
{
    if (!plan) {
        rp__tape_plan_by(ctx, NULL);
        return;
    }
    plan->done = 0;
    rp__tape_plan_by(ctx,
                     &(rp_planner){ .fate = fate, .recorded = recorded, .region = plan->pass[0].region, .n_regions = plan->pass[0].n_regions, .self = plan });
}
