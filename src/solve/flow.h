/* solve/flow.h -- an exact minimum cut of a network, in 128-bit integers, without a tolerance.
 *
 *              supply          arcs           drain
 *     source ─────────▶ node ────────▶ node ─────────▶ sink
 *
 * A cut separates the nodes into two sides. It cuts the drain of each node on the source's side and that node's arcs to the other side, and the
 * supply of each node on the sink's side. Source and sink are not nodes. Only opening a network allocates; later networks use the same memory.
 */
#ifndef RP_SOLVE_FLOW_H
#define RP_SOLVE_FLOW_H

#include "base/base.h"

typedef __int128 rp_flow_units;                 /* needs a 64-bit machine, as the ledger's address range does */
#define RP_FLOW_ENDLESS ((rp_flow_units)1 << 120)   /* never cut: all finite capacities together are less */

typedef struct { int from, to; rp_flow_units units; } rp_flow_edge;
typedef struct { int to, back; rp_flow_units room; } rp_flow_arc;

typedef struct {
    int n, n_edges;
    rp_flow_units *supply, *drain;              /* of each node */
    rp_flow_edge *edge;                         /* as added; `arc` holds each edge and its opposite, sorted by node */
    rp_flow_arc *arc;
    int *first, *level, *queue;
} rp_flow;

/* Allocates room for networks up to this size. Close it even if this fails. errors RP_ERR_MEMORY */
rp_status rp__flow_open(rp_ctx *ctx, rp_flow *flow, int n, int n_edges);
void rp__flow_close(rp_flow *flow);

/* Starts a network of n nodes without supply, drain and edges. Then add to supply[] and drain[], and add the edges. */
void rp__flow_clear(rp_flow *flow, int n);
void rp__flow_edge(rp_flow *flow, int from, int to, rp_flow_units units);

/* Finds the minimum cut with the fewest nodes on the source's side. These nodes are on the source's side of every minimum cut. */
void rp__flow_cut(rp_flow *flow, bool *source_side);

#endif
