/* plan/plan.c -- makes a plan from solved chains: sets the fates of its calls. */
#include "plan/problem.h"

#include <string.h>

static uint32_t offloadable_of(const rp_segment *s, int c)
{
    uint32_t bits = 0;

    for (int i = 0; i < s->call[c].n_made && s->call[c].offloadable; i++) {
        const rp_segment_value *v = &s->value[s->call[c].made[i]];
        if (v->offloadable) bits |= UINT32_C(1) << v->nth;
    }
    return bits;
}

static void mark_offloadable(const rp_cut_pass *cut, rp_plan_pass *to)
{
    for (int s = 0; s < cut->chain.n; s++) {
        const rp_segment *segment = &cut->class_of[cut->chain.segment[s]];
        for (int c = 0; c < segment->n_calls; c++) to->call[cut->first[s] + c].offloadable = offloadable_of(segment, c);
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

/* Returns the length of the module's part of a path: "layers.3" of "layers.3.attn.q". */
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

bool rp__plan_nests(const rp_plan_pass *pass, int n)
{
    const rp_stretch *r = &pass->region[n];

    if (r->first < 0 || r->first >= r->end || r->end >= pass->n_calls) return false;
    for (int i = 0; i < n; i++) {
        const rp_stretch *before = &pass->region[i];
        bool inside = r->first >= before->first && r->end <= before->end, behind = r->first >= before->end;
        if (!inside && !behind) return false;
    }
    return n == 0 || pass->region[n - 1].first <= r->first;
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

/* Fill in a pass in which every call is kept. */
static rp_status bare_pass(rp_plan *plan, const rp_plan_problem *problem, int i)
{
    const rp_trace_pass *pass = &problem->trace->pass[i];
    const rp_cut_pass *cut    = &problem->cut.pass[i];

    RP_TRY(list_calls(plan, pass, &plan->pass[i]));
    mark_offloadable(cut, &plan->pass[i]);
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
    RP_TRY(take_regions(plan, &problem->cut.pass[i], solved, &plan->pass[i]));
    take_ways(&problem->cut.pass[i], solved, &plan->pass[i]);
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
        const rp_cut_pass *cut = &problem->cut.pass[p];
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

void rp__plan_free(rp_plan *plan)
{
    if (!plan) return;
    rp__release(plan->place);
    rp__bump_free(&plan->bump);
    rp__release(plan);
}
