/* solve/bound.c -- describes a pass of a trace as graphs for solve/cut.h, one for each instant. */
#include "base/bump.h"
#include "solve/bound.h"

#include <limits.h>
#include <math.h>
#include <string.h>

typedef struct {
    const rp_trace_pass *pass;
    rp_ctx *ctx;
    int64_t *bytes, *early;             /* early: for each tick, fixed bytes of constants that a plan may have freed */
    int *call, *first_read, *read;
    bool *needed, *fixed, *free;        /* fixed: at every instant; free: at the current one */
    double *seconds;
    rp_pass_bound *out;
} graph;

/* ---- the same at every instant ---- */

/* A value offloaded by a must-rule, or held by the program over the whole pass, does not depend on the plan. An offloadable value costs
 * nothing here, so the bound holds for lanes of any speed. */
static bool is_fixed(const rp_trace_value *v)
{
    return v->call >= 0 && (v->offloadable || (v->must && v->fate == RP_OFFLOAD) || (v->until == INT_MAX && !v->must));
}

/* Whether a plan may recompute the call: it replays, and a must-rule neither keeps nor offloads all of its results. */
static bool may_recompute(const rp_trace_pass *pass, int call)
{
    const rp_trace_call *c = &pass->call[call];

    for (int i = 0; i < c->n_made; i++) {
        const rp_trace_value *v = &pass->value[c->made[i]];
        if (!v->must || v->fate == RP_RECOMPUTE) return c->replays;
    }
    return false;
}

static void bound_fill(graph *g)
{
    const rp_trace_pass *pass = g->pass;
    int n                     = 0;

    for (int v = 0; v < pass->n_values; v++) {
        g->bytes[v] = pass->value[v].bytes;
        g->call[v]  = pass->value[v].call;
        g->fixed[v] = is_fixed(&pass->value[v]);
    }
    for (int c = 0; c < pass->n_calls; c++) {
        const rp_trace_call *call = &pass->call[c];
        g->seconds[c]    = may_recompute(pass, c) ? call->recompute : INFINITY;
        g->first_read[c] = n;
        for (int i = 0; i < call->n_in; i++) g->read[n++] = call->in[i];
    }
    g->first_read[pass->n_calls] = n;
}

/* `fixed` includes a constant until its first reader, which may be a call that a plan does not rerun. A plan surely holds it until the last
 * backward that reads it. */
static void find_early(graph *g)
{
    const rp_trace_pass *pass = g->pass;

    for (int v = 0; v < pass->n_values; v++) {
        int dropped = pass->value[v].dropped, need = dropped ? rp__trace_first_need(pass, v) : -1;
        for (int t = need < 0 ? pass->n_calls : 2 * pass->n_calls - need; t < dropped; t++) g->early[t] += pass->value[v].bytes;
    }
}

/* ---- an instant ---- */

/* Passes that share the record differ in their fixed bytes. The plan has to fit the worst of them. */
static int64_t most_at(const graph *g, int tick)
{
    const rp_trace_pass *pass = g->pass;
    int64_t most              = 0;

    for (int i = 0; i < pass->n_fixed; i++)
        if (pass->fixed[i][tick].most > most) most = pass->fixed[i][tick].most;
    return most - g->early[tick];
}

static void need(graph *g, int calls)
{
    memset(g->needed, 0, (size_t)g->pass->n_values * sizeof *g->needed);
    for (int c = 0; c < calls; c++)
        for (int i = 0; i < g->pass->call[c].n_needs; i++) {
            int v        = g->pass->call[c].needs[i];
            g->needed[v] = g->pass->value[v].call >= 0;
        }
}

/* Makes the values that c's backward reads free: they are live. Returns their bytes. */
static int64_t free_needs(graph *g, const rp_trace_call *c)
{
    int64_t bytes = 0;

    memcpy(g->free, g->fixed, (size_t)g->pass->n_values * sizeof *g->free);
    for (int i = 0; i < c->n_needs; i++) {
        int v = c->needs[i];
        if (g->free[v] || g->pass->value[v].call < 0) continue;
        g->free[v] = true;
        bytes += g->bytes[v];
    }
    return bytes;
}

/* Adds an instant. `calls`: the backwards of calls 0 … calls-1 are still to come. `taken`: bytes besides the values they read. */
static rp_status bound_add(graph *g, int calls, int64_t taken)
{
    const rp_trace_pass *pass = g->pass;
    rp_cut cut = { pass->n_values, pass->n_calls, g->bytes, g->call, g->needed, g->free, g->seconds, g->first_read, g->read };

    need(g, calls);
    RP_TRY(rp__cut_hull(g->ctx, &cut, &g->out->at[g->out->n].hull));
    g->out->at[g->out->n++].taken = taken;
    return RP_OK;
}

/* The last call's forward, or its backward, which needs the call's values. */
static rp_status add_turn(graph *g)
{
    int n           = g->pass->n_calls;
    int64_t forward = most_at(g, n - 1), backward = most_at(g, n);

    memcpy(g->free, g->fixed, (size_t)g->pass->n_values * sizeof *g->free);
    return bound_add(g, n, forward > backward ? forward : backward);
}

static rp_status add_tick(graph *g, int tick)
{
    int call      = 2 * g->pass->n_calls - 1 - tick;
    int64_t reads = free_needs(g, &g->pass->call[call]);

    return bound_add(g, call, most_at(g, tick) + reads);
}

/* One tick from each stretch of the backward. The first stretch is much shorter than the others, because gradients arrive with weights, the
 * largest at the turn. */
static rp_status add_ticks(graph *g)
{
    int n = g->pass->n_calls, stretches = RP_BOUND_INSTANTS - 1, from = n;

    for (int i = 0; i < stretches; i++) {
        int to = i == 0 ? n + n / 32 + 1 : n + (int)((int64_t)n * i / (stretches - 1)), best = from;
        for (int tick = from; tick < to && tick < 2 * n; tick++)
            if (most_at(g, tick) > most_at(g, best)) best = tick;
        if (from < to && from < 2 * n) RP_TRY(add_tick(g, best));
        if (to > from) from = to;
    }
    return RP_OK;
}

rp_status rp__pass_bound_open(rp_ctx *ctx, const rp_trace_pass *pass, rp_pass_bound *out)
{
    rp_bump bump   = { .ctx = ctx };
    int64_t values = pass->n_values + 1, calls = pass->n_calls + 1;
    graph g        = {
        .pass = pass, .ctx = ctx, .out = out,
        .bytes = rp__bump_alloc(&bump, values * (int64_t)sizeof *g.bytes), .call = rp__bump_alloc(&bump, values * (int64_t)sizeof *g.call),
        .first_read = rp__bump_alloc(&bump, calls * (int64_t)sizeof *g.first_read),
        .read = rp__bump_alloc(&bump, calls * RP_MAX_IN * (int64_t)sizeof *g.read), .needed = rp__bump_alloc(&bump, values),
        .fixed = rp__bump_alloc(&bump, values), .free = rp__bump_alloc(&bump, values),
        .seconds = rp__bump_alloc(&bump, calls * (int64_t)sizeof *g.seconds),
        .early = rp__bump_alloc(&bump, 2 * calls * (int64_t)sizeof *g.early),
    };
    bool room        = g.bytes && g.call && g.first_read && g.read && g.needed && g.fixed && g.free && g.seconds && g.early;
    rp_status status = RP_ERR_MEMORY;

    out->n = 0;
    if (room) {
        bound_fill(&g);
        find_early(&g);
        status = add_turn(&g);
        if (status == RP_OK) status = add_ticks(&g);
    }
    rp__bump_free(&bump);
    return status;
}

void rp__pass_bound_close(rp_pass_bound *bound)
{
    while (bound->n) rp__cut_hull_free(&bound->at[--bound->n].hull);
}

double rp__pass_bound_seconds(const rp_pass_bound *bound, int64_t budget)
{
    double most = 0;

    for (int i = 0; i < bound->n; i++) most = fmax(most, rp__cut_hull_bound(&bound->at[i].hull, budget - bound->at[i].taken));
    return most;
}

int64_t rp__pass_bound_bytes(const rp_pass_bound *bound)
{
    int64_t most = 0;

    for (int i = 0; i < bound->n; i++) {
        const rp_cut_hull *hull = &bound->at[i].hull;
        int64_t bytes           = bound->at[i].taken + hull->point[hull->n_points - 1].bytes;
        if (bytes > most) most = bytes;
    }
    return most;
}
