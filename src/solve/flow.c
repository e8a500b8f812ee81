/* solve/flow.c -- minimum cut by a preflow (Goldberg and Tarjan, J. ACM 35, 1988) that is pushed upstream, from drains to supply.
 *
 * Each round computes exact distances to supply. A node that drains draws from nodes one step nearer to supply, the farthest node first. So
 * the units drawn along one path are summed up: a chain of a thousand calls takes one round, not a thousand paths. Units that cannot be
 * drawn stay at their node, which is farther away in the next round. When no supply reaches a drain, the cut is known; the flow need not be.
 */
#include "solve/flow.h"

#include <string.h>

enum { FAR = INT32_MAX };

rp_status rp__flow_open(rp_ctx *ctx, rp_flow *f, int n, int n_edges)
{
    int64_t nodes = n + 1, edges = n_edges;

    *f        = (rp_flow){ 0 };
    f->supply = rp__host_alloc(ctx, nodes * (int64_t)sizeof *f->supply);
    f->drain  = f->supply ? rp__host_alloc(ctx, nodes * (int64_t)sizeof *f->drain) : NULL;
    f->edge   = f->drain ? rp__host_alloc(ctx, edges * (int64_t)sizeof *f->edge) : NULL;
    f->arc    = f->edge ? rp__host_alloc(ctx, 2 * edges * (int64_t)sizeof *f->arc) : NULL;
    f->first  = f->arc ? rp__host_alloc(ctx, 3 * nodes * (int64_t)sizeof *f->first) : NULL;
    if (!f->first) return RP_ERR_MEMORY;
    f->level  = f->first + nodes;
    f->queue  = f->level + nodes;
    return RP_OK;
}

void rp__flow_close(rp_flow *f)
{
    RP_RELEASE(f->supply, f->drain, f->edge, f->arc, f->first);
    *f = (rp_flow){ 0 };
}

void rp__flow_clear(rp_flow *f, int n)
{
    f->n       = n;
    f->n_edges = 0;
    memset(f->supply, 0, (size_t)n * sizeof *f->supply);
    memset(f->drain, 0, (size_t)n * sizeof *f->drain);
}

void rp__flow_edge(rp_flow *f, int from, int to, rp_flow_units units)
{
    f->edge[f->n_edges++] = (rp_flow_edge){ from, to, units };
}

static rp_flow_units least(rp_flow_units a, rp_flow_units b) { return a < b ? a : b; }

static void lay_out_arcs(rp_flow *f)
{
    int *next = f->level;

    memset(f->first, 0, (size_t)(f->n + 1) * sizeof *f->first);
    for (int i = 0; i < f->n_edges; i++) f->first[f->edge[i].from + 1]++, f->first[f->edge[i].to + 1]++;
    for (int v = 0; v < f->n; v++) {
        f->first[v + 1] += f->first[v];
        next[v] = f->first[v];
    }
    for (int i = 0; i < f->n_edges; i++) {
        const rp_flow_edge *e = &f->edge[i];
        int there = next[e->from]++, back = next[e->to]++;
        f->arc[there] = (rp_flow_arc){ e->to, back, e->units };
        f->arc[back]  = (rp_flow_arc){ e->from, there, 0 };
    }
}

static void pass_through(rp_flow *f)
{
    for (int v = 0; v < f->n; v++) {
        rp_flow_units through = least(f->supply[v], f->drain[v]);
        f->supply[v] -= through;
        f->drain[v] -= through;
    }
}

/* Computes into `level` each node's distance to remaining supply. Lists the nodes that supply reaches in `queue`, nearest first, and
 * returns their number. *drains: one of them has a drain. */
static int measure(rp_flow *f, bool *drains)
{
    int n_queue = 0;

    *drains = false;
    for (int v = 0; v < f->n; v++) {
        f->level[v] = f->supply[v] > 0 ? 0 : FAR;
        if (f->supply[v] > 0) f->queue[n_queue++] = v;
    }
    for (int i = 0; i < n_queue; i++) {
        int v = f->queue[i];
        *drains |= f->drain[v] > 0;
        for (int a = f->first[v]; a < f->first[v + 1]; a++) {
            int u = f->arc[a].to;
            if (f->level[u] != FAR || !(f->arc[a].room > 0)) continue;
            f->level[u]         = f->level[v] + 1;
            f->queue[n_queue++] = u;
        }
    }
    return n_queue;
}

/* Draws v's drain from neighbours one step nearer, which drain it instead. Units that no arc has room for stay. */
static void flow_draw(rp_flow *f, int v)
{
    for (int a = f->first[v]; f->drain[v] > 0 && a < f->first[v + 1]; a++) {
        rp_flow_arc *out = &f->arc[a], *in = &f->arc[out->back];
        if (f->level[out->to] != f->level[v] - 1 || !(in->room > 0)) continue;
        rp_flow_units units = least(f->drain[v], in->room);
        in->room -= units;
        out->room += units;
        f->drain[v] -= units;
        f->drain[out->to] += units;
    }
}

void rp__flow_cut(rp_flow *f, bool *source_side)
{
    bool drains;

    lay_out_arcs(f);
    pass_through(f);
    for (int n = measure(f, &drains); drains; n = measure(f, &drains)) {
        while (n--) flow_draw(f, f->queue[n]);
        pass_through(f);
    }
    for (int v = 0; v < f->n; v++) source_side[v] = f->level[v] != FAR;
}
