/* solve/flow.h -- a minimum cut of a network, exactly: integers of 128 bits, no tolerance.
 *
 *              supply          arcs           drain
 *     source ─────────▶ node ────────▶ node ─────────▶ sink
 *
 * What is cut: of a node on the source's side its drain and its arcs to nodes on the other side, of a node on the sink's side its supply.
 * Source and sink are no nodes. A network is made again and again in the memory of the first: only opening it allocates.
 */
#ifndef RP_SOLVE_FLOW_H
#define RP_SOLVE_FLOW_H

#include "base/base.h"

typedef __int128 rp_flow_units;                 /* at least 64-bit machines only; the ledger's address range asks for one anyway */
#define RP_FLOW_ENDLESS ((rp_flow_units)1 << 120)   /* no cut takes it; all finite capacities together are less */

typedef struct { int from, to; rp_flow_units units; } rp_flow_edge;
typedef struct { int to, back; rp_flow_units room; } rp_flow_arc;

typedef struct {
    int n, n_edges;
    rp_flow_units *supply, *drain;              /* of each node */
    rp_flow_edge *edge;                         /* as told; arcs are they and their opposites, those of a node together */
    rp_flow_arc *arc;
    int *first, *level, *queue;
} rp_flow;

/* Room for networks up to this size; close it in any case. errors RP_ERR_MEMORY */
rp_status rp__flow_open(rp_ctx *ctx, rp_flow *flow, int n, int n_edges);
void rp__flow_close(rp_flow *flow);

/* n nodes without supply, drain and arcs. Then add to supply[] and drain[] and tell the arcs. */
void rp__flow_clear(rp_flow *flow, int n);
void rp__flow_edge(rp_flow *flow, int from, int to, rp_flow_units units);

/* The source's side: of all minimum cuts the one with the fewest nodes there, which is part of every other one's. */
void rp__flow_cut(rp_flow *flow, bool *source_side);

#endif
