/* Any bytes as a graph, and after a zero byte as a plan of it: refused with a sentence, or planned. A small graph is
 * planned, and the figures keep the order that holds for any graph. */
/* ctest: watched */
#include "plan/graph.h"

#include "fuzz.h"

enum { FEW_CALLS = 12 };

static bool is_small(const rp_graph *g)
{
    for (int i = 0; i < g->trace.n_passes; i++)
        if (g->trace.pass[i].n_calls > FEW_CALLS || g->trace.n_passes > 2) return false;
    return true;
}

static void plan(rp_ctx *ctx, const rp_graph *graph)
{
    rp_graph_plan g;

    FUZZ_CHECK(rp__graph_plan(ctx, graph, graph->budget, &g) == RP_OK);
    FUZZ_CHECK(g.least_bound <= g.least && g.least > -1);
    FUZZ_CHECK(g.feasible == (!g.budget || g.plan->placement.height <= g.budget));
    FUZZ_CHECK(!g.feasible || g.least <= g.plan->placement.height);
    FUZZ_CHECK(!g.feasible || g.plan->bound_seconds <= g.plan->recompute_seconds + 1e-6 * g.plan->seconds + 1e-6);
    json_t *json = rp__graph_plan_json(ctx, graph, &g);
    FUZZ_CHECK(json != NULL);
    json_decref(json);
    rp__graph_plan_close(&g);
}

/* A plan that the graph allows can be simulated. */
static void evaluate(rp_ctx *ctx, const rp_graph *graph, const char *text, int64_t bytes)
{
    rp_graph_plan g;
    rp_status status = rp__graph_evaluate_text(ctx, graph, "input", text, bytes, 0, &g);

    if (status != RP_OK) {
        if (status != RP_ERR_CONFIG) fuzz_refused(ctx, status);
    } else FUZZ_CHECK(g.least_bound <= g.plan->placement.height);
    rp__graph_plan_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    rp_ctx *ctx     = fuzz_ctx();
    size_t n        = 0;
    rp_graph graph;

    while (n < size && data[n]) n++;
    rp_status status = rp__graph_parse(ctx, "input", (const char *)data, (int64_t)n, &graph);
    if (status != RP_OK) {
        fuzz_refused(ctx, status);
        return 0;
    }
    if (is_small(&graph)) plan(ctx, &graph);
    if (is_small(&graph) && n < size) evaluate(ctx, &graph, (const char *)data + n + 1, (int64_t)(size - n - 1));
    rp__graph_close(&graph);
    return 0;
}
