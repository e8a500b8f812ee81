/* plan/bound.c -- a pass of a trace as the graph that plan/cut.h cuts. */
#include "plan/bound.h"

#include <limits.h>
#include <math.h>

typedef struct {
    int64_t *bytes;
    int *call, *first_read, *read;
    bool *needed, *fixed;
    double *seconds;
} graph;

/* What is away, or in the program's own hands, is there whatever is planned. */
static bool is_fixed(const rp_trace_value *v)
{
    return v->call >= 0 && ((v->must && v->fate == RP_OFFLOAD) || (v->until == INT_MAX && !v->must));
}

static bool may_run_again(const rp_trace_pass *pass, int call)
{
    const rp_trace_call *c = &pass->call[call];

    for (int i = 0; i < c->n_made; i++) {
        const rp_trace_value *v = &pass->value[c->made[i]];
        if (v->must && v->fate != RP_RECOMPUTE) return false;
    }
    return c->replays;
}

static void fill(const rp_trace_pass *pass, graph *g)
{
    int n = 0;

    for (int v = 0; v < pass->n_values; v++) {
        g->bytes[v] = pass->value[v].bytes;
        g->call[v]  = pass->value[v].call;
        g->fixed[v] = is_fixed(&pass->value[v]);
    }
    for (int c = 0; c < pass->n_calls; c++) {
        const rp_trace_call *call = &pass->call[c];
        g->seconds[c]    = may_run_again(pass, c) ? call->forward : INFINITY;
        g->first_read[c] = n;
        for (int i = 0; i < call->n_in; i++) g->read[n++] = call->in[i];
        for (int i = 0; i < call->n_needs; i++) g->needed[call->needs[i]] = pass->value[call->needs[i]].call >= 0;
    }
    g->first_read[pass->n_calls] = n;
}

rp_status rp__bound_hull(rp_ctx *ctx, const rp_trace_pass *pass, rp_cut_hull *out)
{
    rp_bump bump    = { .ctx = ctx };
    int64_t values  = pass->n_values + 1, calls = pass->n_calls + 1;
    graph g         = { rp__bump_alloc(&bump, values * (int64_t)sizeof *g.bytes), rp__bump_alloc(&bump, values * (int64_t)sizeof *g.call),
                        rp__bump_alloc(&bump, calls * (int64_t)sizeof *g.first_read), rp__bump_alloc(&bump, calls * RP_MAX_IN * (int64_t)sizeof *g.read),
                        rp__bump_alloc(&bump, values), rp__bump_alloc(&bump, values), rp__bump_alloc(&bump, calls * (int64_t)sizeof *g.seconds) };
    bool room        = g.bytes && g.call && g.first_read && g.read && g.needed && g.fixed && g.seconds;
    rp_status status = RP_ERR_MEMORY;

    if (room) {
        fill(pass, &g);
        status = rp__cut_hull(ctx, &(rp_cut){ pass->n_values, pass->n_calls, g.bytes, g.call, g.needed, g.fixed, g.seconds, g.first_read, g.read }, out);
    }
    rp__bump_free(&bump);
    return status;
}

/* The turn is the last call's forward, or its backward: what other backwards read is live then or made again later, and so is what it makes
 * itself. What else there is then is not for values; of passes that differ in that, the plan has to serve the worst. */
double rp__bound_seconds(const rp_trace_pass *pass, const rp_cut_hull *hull, int64_t budget)
{
    int n         = pass->n_calls;
    int64_t fixed = 0;

    for (int i = 0; i < pass->n_fixed; i++)
        for (int t = n - 1; t <= n; t++)
            if (pass->fixed[i].most[t] > fixed) fixed = pass->fixed[i].most[t];
    return rp__cut_hull_bound(hull, budget - fixed);
}
