/* plan/graph.h -- plans of graphs: the solvers of our own steps on a step that exists only as a graph (trace/graph.h).
 *
 *   graph ─▶ problem ─ solvers ─▶ plan ─ simulated ─▶ bytes and seconds, bounds ─▶ P.json
 *                                  ▲
 *   a plan of another solver ──────┘ rp__graph_evaluate
 *
 * There is no step to run, so the figures are those of the simulation (simulate.h). Bytes are those live at the peak: no
 * addresses are chosen. docs/graphs.md describes plans of graphs.
 */
#ifndef RP_PLAN_GRAPH_H
#define RP_PLAN_GRAPH_H

#include <jansson.h>

#include "plan/step.h"
#include "trace/graph.h"

typedef struct {
    rp_plan *plan;                      /* its placement.height is the peak */
    bool feasible;                      /* it fits the budget, or there is none */
    int64_t budget;                     /* 0: none */
    int64_t least;                      /* bytes of the smallest plan found; 0: not searched … */
    bool least_at_most;                 /* … and the search was stopped early */
    int64_t least_bound;                /* no schedule needs fewer bytes */
} rp_graph_plan;

/* Plan a graph. budget 0: none. If nothing fits, the plan is the smallest one. Close *out even after an error. The graph
 * must outlive it.
 * Errors: RP_ERR_MEMORY. */
rp_status rp__graph_plan(rp_ctx *ctx, const rp_graph *graph, int64_t budget, rp_graph_plan *out);
/* Read a plan of the graph from a file, and compute its bytes, seconds and bounds without a search. budget as above. Close
 * *out even after an error.
 * Errors: RP_ERR_FORMAT the file is no plan of a graph; RP_ERR_CONFIG the plan is not valid for this graph: the message
 * names the value; RP_ERR_IO; RP_ERR_MEMORY. */
rp_status rp__graph_evaluate(rp_ctx *ctx, const rp_graph *graph, const char *path, int64_t budget, rp_graph_plan *out);
/* The same for a text. `file` is a name for messages. */
rp_status rp__graph_evaluate_text(rp_ctx *ctx, const rp_graph *graph, const char *file, const char *text, int64_t bytes,
                                  int64_t budget, rp_graph_plan *out);
void rp__graph_plan_close(rp_graph_plan *plan);

/* Set the fates of a plan that keeps everything to those in the text of a plan file. `file` is a name for messages. Errors:
 * as above. */
rp_status rp__graph_fates(rp_ctx *ctx, const rp_graph *graph, const char *file, const char *text, int64_t bytes,
                          rp_plan *plan);
/* Returns the plan as a plan file, yours to json_decref. NULL after RP_ERR_MEMORY. */
json_t *rp__graph_plan_json(rp_ctx *ctx, const rp_graph *graph, const rp_graph_plan *plan);

#endif
