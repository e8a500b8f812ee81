/* random_graph.h -- graphs that are drawn, as JSON text, and the least seconds of any schedule of one, by exhaustion.
 *
 *   schedule   values that stay from the forward; before each backward any calls rerun, in any order and number, and any
 *              values dropped
 *   state      the call whose backward comes next, and the set of live values
 *
 * The cheapest way through all states is exact: no schedule of this kind takes fewer seconds in the bytes.
 */
#ifndef RP_RANDOM_GRAPH_H
#define RP_RANDOM_GRAPH_H

#include <limits.h>
#include <math.h>

#include "plan/graph.h"
#include "rp_test.h"

enum { DRAWN_CALLS = 8, DRAWN_VALUES = 12, DRAWN_CHARS = 8192 };

typedef struct { char at[DRAWN_CHARS]; int n; } drawn_text;

static inline uint32_t drawn_next(uint32_t *seed) { return (*seed = *seed * 1664525u + 1013904223u) >> 8; }
static inline int drawn_below(uint32_t *seed, int n) { return (int)(drawn_next(seed) % (uint32_t)n); }

static inline RP_PRINTF(2, 3) void drawn_put(drawn_text *t, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    t->n += vsnprintf(t->at + t->n, sizeof t->at - (size_t)t->n, fmt, args);
    va_end(args);
    assert_true(t->n < DRAWN_CHARS);
}

/* One call: reads of the latest values, one or two results, backward reads of some of both. */
static inline void drawn_call(drawn_text *t, uint32_t *seed, int c, bool layers, int *n_values)
{
    int reads[3], n = 1 + drawn_below(seed, 3), made = 1 + (drawn_below(seed, 4) == 0 && *n_values + 2 < DRAWN_VALUES);
    const char *between = "";

    drawn_put(t, "%s{\"path\": \"%d.m\", ", c ? ", " : "", layers ? c / 3 : 0);
    drawn_put(t, "\"reads\": [");
    for (int i = 0; i < n; i++) {
        reads[i] = *n_values - 1 - drawn_below(seed, *n_values < 3 || (layers && i == 0) ? 1 : 3);
        drawn_put(t, "%s\"v%d\"", i ? ", " : "", reads[i]);
    }
    drawn_put(t, "], \"makes\": [");
    for (int i = 0; i < made; i++)
        drawn_put(t, "%s{\"name\": \"v%d\", \"bytes\": %d}", i ? ", " : "", *n_values + i, 1 + drawn_below(seed, 9));
    drawn_put(t, "], \"backward_reads\": [");
    for (int i = 0; i < n + made; i++) {
        if (drawn_below(seed, 2)) continue;
        drawn_put(t, "%s\"v%d\"", between, i < n ? reads[i] : *n_values + i - n);
        between = ", ";
    }
    drawn_put(t, "], \"forward_seconds\": %d, \"scratch_bytes\": %d, \"reruns\": %s}", 1 + drawn_below(seed, 20),
              drawn_below(seed, 4), drawn_below(seed, 12) ? "true" : "false");
    *n_values += made;
}

/* A graph of one pass whose values are v0 (an input), v1, …: of layers of three calls, or without layers. */
static inline void drawn_graph(uint32_t seed, drawn_text *t)
{
    uint32_t rng = seed * 977 + 5;
    int n = 3 + drawn_below(&rng, DRAWN_CALLS - 2), n_values = 1;
    bool layers = drawn_below(&rng, 2);

    t->n = 0;
    drawn_put(t, "{\"reprise_graph\": 1, \"passes\": [{\"inputs\": [\"v0\"], \"calls\": [");
    for (int c = 0; c < n; c++) drawn_call(t, &rng, c, layers, &n_values);
    drawn_put(t, "], \"fixed_bytes\": [{\"forward\": [");
    for (int c = 0; c < n; c++) drawn_put(t, "%s[%d, %d]", c ? ", " : "", 3, 3 + drawn_below(&rng, 4));
    drawn_put(t, "], \"backward\": [");
    for (int c = 0; c < n; c++) drawn_put(t, "%s[%d, %d]", c ? ", " : "", 3 + n - c, 3 + n - c + drawn_below(&rng, 6));
    drawn_put(t, "]}]}]}");
}

/* ---- every schedule ---- */

static inline int64_t bytes_of(const rp_trace_pass *p, uint32_t set)
{
    int64_t bytes = 0;

    for (int v = 0; v < p->n_values; v++) bytes += set >> v & 1 ? p->value[v].bytes : 0;
    return bytes;
}

static inline uint32_t set_of(const rp_trace_pass *p, const int *list, int n)
{
    uint32_t set = 0;

    for (int i = 0; i < n; i++) set |= p->value[list[i]].call < 0 ? 0 : UINT32_C(1) << list[i];
    return set;
}

/* Does the forward fit if these values stay? */
static inline bool forward_fits(const rp_trace_pass *p, uint32_t stays, int64_t budget)
{
    for (int t = 0; t < p->n_calls; t++) {
        uint32_t live = 0;
        for (int v = 0; v < p->n_values; v++) {
            const rp_trace_value *value = &p->value[v];
            if (value->call >= 0 && value->call <= t && (value->own >= t || stays >> v & 1)) live |= UINT32_C(1) << v;
        }
        if (p->fixed[0][t].most + bytes_of(p, live) > budget) return false;
    }
    return true;
}

/* Reruns from all states before the backward of call c. Costs fall until none changes: reruns cost at least 0, so this
 * ends. */
static inline void rerun_all(const rp_trace_pass *p, int c, int64_t budget, double *cost)
{
    uint32_t n = UINT32_C(1) << p->n_values;
    int64_t before = p->fixed[0][2 * p->n_calls - 1 - c].before;

    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t s = 0; s < n; s++) {
            if (cost[s] == HUGE_VAL) continue;
            for (int v = 0; v < p->n_values; v++)            /* a value is dropped */
                if (s >> v & 1 && cost[s & ~(UINT32_C(1) << v)] > cost[s])
                    cost[s & ~(UINT32_C(1) << v)] = cost[s], changed = true;
            for (int k = 0; k < p->n_calls; k++) {
                const rp_trace_call *call = &p->call[k];
                uint32_t reads = set_of(p, call->in, call->n_in), to = s | set_of(p, call->made, call->n_made);
                if (!call->replays || (reads & ~s) || before + bytes_of(p, s) + call->run_bytes > budget) continue;
                if (cost[to] > cost[s] + call->recompute) cost[to] = cost[s] + call->recompute, changed = true;
            }
        }
    }
}

/* The least recomputed seconds of any schedule within the budget; HUGE_VAL: none fits. */
static inline double least_seconds(const rp_trace_pass *p, int64_t budget)
{
    static double cost[1 << (DRAWN_VALUES + 1)], next[1 << (DRAWN_VALUES + 1)];
    uint32_t n  = UINT32_C(1) << p->n_values;
    double best = HUGE_VAL;

    assert_true(p->n_values <= DRAWN_VALUES + 1);
    for (uint32_t s = 0; s < n; s++) cost[s] = !(s & 1) && forward_fits(p, s, budget) ? 0 : HUGE_VAL;
    for (int c = p->n_calls - 1; c >= 0; c--) {
        uint32_t needs = set_of(p, p->call[c].needs, p->call[c].n_needs);
        rerun_all(p, c, budget, cost);
        for (uint32_t s = 0; s < n; s++) {
            bool runs = !(needs & ~s) && p->fixed[0][2 * p->n_calls - 1 - c].most + bytes_of(p, s) <= budget;
            next[s]   = runs ? cost[s] : HUGE_VAL;
        }
        memcpy(cost, next, n * sizeof *cost);
    }
    for (uint32_t s = 0; s < n; s++) best = fmin(best, cost[s]);
    return best;
}

#endif
