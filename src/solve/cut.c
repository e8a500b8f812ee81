/* solve/cut.c -- computes the lower hull of (bytes kept, seconds recomputed) by divide and conquer over prices.
 *
 *     order   [ source's side of point 0 | of point 1 | …     | of the last point | never ]     values and calls, as nodes
 *              0                    point[0].nodes    …          point[n-1].nodes
 *
 * Cuts are nested, so one order of the nodes holds all of them: the source's side of a point is the first `nodes` nodes. Between two points
 * the search tries the price at which both cost the same. If a cut costs less, it is a point between them. Sorting the stretch between them
 * by the cut's sides makes that point a prefix, too. Otherwise the two are neighbours on the hull.
 *
 * Nodes before the stretch act as the source and nodes after it as the sink, so a cut works on its stretch alone. The two end points come
 * from prices below and above all prices that can separate points.
 */
#include "solve/cut.h"

#include <float.h>
#include <string.h>

#include "solve/flow.h"

enum { NEVER = -1 };

typedef struct {
    int nodes;
    int64_t bytes, quanta;
} corner;

typedef struct {
    const rp_cut *in;
    int n;                          /* nodes: values, then calls */
    int64_t *quanta;                /* of each call; NEVER: it cannot be recomputed */
    int *first_made, *made;         /* values of each call, indexed as first_read and read */
    int *order, *place, *aside;     /* place[order[i]] == i */
    bool *source_side;              /* by place, relative to the beginning of the stretch */
    corner *corner;
    int n_corners;
    double quantum;
    int64_t all_bytes, all_quanta;
    rp_flow flow;
} search;

/* ---- setting up ---- */

static bool is_free(const rp_cut *in, int v) { return in->call[v] < 0 || in->fixed[v]; }

/* The quantum is a power of two, so division is exact. All quanta together stay below 2^53, where a double holds every integer. */
static void count_quanta(search *s)
{
    const rp_cut *in = s->in;
    double total     = 0;
    int exponent;

    for (int c = 0; c < in->n_calls; c++) {
        RP_BUG_IF(!(in->seconds[c] >= 0));
        if (!isinf(in->seconds[c])) total += in->seconds[c];
    }
    RP_BUG_IF(isinf(total));
    frexp(total, &exponent);
    s->quantum = fmax(ldexp(1, exponent - 52), DBL_MIN);
    for (int c = 0; c < in->n_calls; c++) {
        s->quanta[c] = isinf(in->seconds[c]) ? NEVER : (int64_t)(in->seconds[c] / s->quantum);
        if (s->quanta[c] > 0) s->all_quanta += s->quanta[c];
    }
}

static void list_made(search *s)
{
    const rp_cut *in = s->in;

    for (int v = 0; v < in->n_values; v++) {
        RP_BUG_IF(in->bytes[v] < 0 || in->call[v] >= in->n_calls || in->bytes[v] >= (INT64_C(1) << 62) - s->all_bytes);
        s->all_bytes += in->bytes[v];
        if (!is_free(in, v)) s->first_made[in->call[v] + 1]++;
    }
    for (int c = 0; c < in->n_calls; c++) s->first_made[c + 1] += s->first_made[c];
    memcpy(s->aside, s->first_made, (size_t)in->n_calls * sizeof *s->aside);
    for (int v = 0; v < in->n_values; v++)
        if (!is_free(in, v)) s->made[s->aside[in->call[v]]++] = v;
}

static void check_order(const rp_cut *in)
{
    for (int c = 0; c < in->n_calls; c++)
        for (int i = in->first_read[c]; i < in->first_read[c + 1]; i++)
            RP_BUG_IF(in->read[i] < 0 || in->read[i] >= in->n_values || in->call[in->read[i]] >= c);
}

static rp_status search_open(rp_ctx *ctx, const rp_cut *in, search *s)
{
    int64_t n = (int64_t)in->n_values + in->n_calls, reads = in->n_calls ? in->first_read[in->n_calls] : 0;

    *s = (search){ .in = in, .n = (int)n };
    RP_BUG_IF(n + reads > INT32_MAX / 2);
    s->quanta      = rp__host_alloc(ctx, in->n_calls * (int64_t)sizeof *s->quanta);
    s->first_made  = s->quanta ? rp__host_alloc(ctx, (in->n_calls + 1 + in->n_values + 3 * n) * (int64_t)sizeof *s->made) : NULL;
    s->source_side = s->first_made ? rp__host_alloc(ctx, n * (int64_t)sizeof *s->source_side) : NULL;
    s->corner      = s->source_side ? rp__host_alloc(ctx, (n + 2) * (int64_t)sizeof *s->corner) : NULL;
    if (!s->corner) return RP_ERR_MEMORY;
    s->made  = s->first_made + in->n_calls + 1;
    s->order = s->made + in->n_values;
    s->place = s->order + n;
    s->aside = s->place + n;
    for (int u = 0; u < s->n; u++) s->order[u] = s->place[u] = u;
    check_order(in);
    count_quanta(s);
    list_made(s);
    return rp__flow_open(ctx, &s->flow, s->n, (int)reads + in->n_values);
}

static void search_close(search *s)
{
    rp__flow_close(&s->flow);
    RP_RELEASE(s->corner, s->source_side, s->first_made, s->quanta);
}

/* ---- one cut ---- */

/* The nodes between two prefixes of the order, and the prices: units per quantum and units per byte. */
typedef struct { int begin, end; rp_flow_units per_quantum, per_byte; } stretch;

static int call_node(const search *s, int v) { return s->in->n_values + s->in->call[v]; }
static bool runs_never(const search *s, int v) { return s->quanta[s->in->call[v]] == NEVER; }

static void add_value(search *s, const stretch *at, int v)
{
    rp_flow_units price = at->per_byte * s->in->bytes[v];
    int node            = s->place[v] - at->begin;

    if (is_free(s->in, v)) return;
    if (s->in->needed[v]) s->flow.supply[node] = RP_FLOW_ENDLESS;
    int call = s->place[call_node(s, v)];
    if (runs_never(s, v) || call >= at->end) s->flow.drain[node] += price;
    else if (call >= at->begin) rp__flow_edge(&s->flow, node, call - at->begin, price);
}

/* No value that the call reads lies on the sink's side after the stretch: no finite cut separates a call from its inputs. */
static void add_call(search *s, const stretch *at, int c)
{
    const rp_cut *in = s->in;
    int node         = s->place[in->n_values + c] - at->begin;

    if (s->quanta[c] == NEVER) return;
    s->flow.drain[node] += at->per_quantum * s->quanta[c];
    for (int i = s->first_made[c]; i < s->first_made[c + 1]; i++)
        if (s->place[s->made[i]] < at->begin) s->flow.supply[node] += at->per_byte * in->bytes[s->made[i]];
    for (int i = in->first_read[c]; i < in->first_read[c + 1]; i++) {
        int v = in->read[i];
        if (is_free(in, v) || s->place[v] < at->begin) continue;
        RP_BUG_IF(s->place[v] >= at->end);
        rp__flow_edge(&s->flow, node, s->place[v] - at->begin, RP_FLOW_ENDLESS);
    }
}

/* Moves the stretch's nodes on the source's side to its front, keeping the order on each side. Returns where the other side begins. */
static int sort_by_side(search *s, const stretch *at)
{
    int next = at->begin, n_aside = 0;

    for (int i = at->begin; i < at->end; i++)
        if (s->source_side[i - at->begin]) s->order[next++] = s->order[i];
        else s->aside[n_aside++] = s->order[i];
    memcpy(s->order + next, s->aside, (size_t)n_aside * sizeof *s->order);
    for (int i = at->begin; i < at->end; i++) s->place[s->order[i]] = i;
    return next;
}

static int cut_stretch(search *s, const stretch *at)
{
    rp__flow_clear(&s->flow, at->end - at->begin);
    for (int i = at->begin; i < at->end; i++)
        if (s->order[i] < s->in->n_values) add_value(s, at, s->order[i]);
        else add_call(s, at, s->order[i] - s->in->n_values);
    rp__flow_cut(&s->flow, s->source_side);
    return sort_by_side(s, at);
}

/* ---- the points ---- */

/* Computes the corner of the first `nodes` nodes from the corner of a shorter prefix. */
static corner extend(const search *s, corner from, int nodes)
{
    corner to = { nodes, from.bytes, from.quanta };

    for (int i = from.nodes; i < nodes; i++) {
        int v = s->order[i], c = v - s->in->n_values;
        if (c < 0) {
            if (runs_never(s, v) || s->place[call_node(s, v)] >= nodes) to.bytes += s->in->bytes[v];
            continue;
        }
        to.quanta += s->quanta[c];
        for (int k = s->first_made[c]; k < s->first_made[c + 1]; k++)
            if (s->place[s->made[k]] < from.nodes) to.bytes -= s->in->bytes[s->made[k]];
    }
    return to;
}

/* Is there a corner between two? */
static bool between(search *s, corner left, corner right, corner *out)
{
    stretch at = { left.nodes, right.nodes, left.bytes - right.bytes, right.quanta - left.quanta };
    int nodes  = cut_stretch(s, &at);

    if (nodes == left.nodes) return false;
    *out = extend(s, left, nodes);
    RP_BUG_IF(out->bytes >= left.bytes || out->bytes <= right.bytes || out->quanta <= left.quanta || out->quanta >= right.quanta);
    return true;
}

/* Finds the corners from left to right. The list of final corners grows from the left end of the array, the list of corners still to be
 * reached from the right end, the next one first. */
static void find_corners(search *s)
{
    int fewest   = cut_stretch(s, &(stretch){ 0, s->n, 1, (rp_flow_units)s->all_quanta + 1 });
    int fastest  = cut_stretch(s, &(stretch){ 0, fewest, (rp_flow_units)s->all_bytes + 1, 1 });
    corner *last = s->corner, *next = s->corner + s->n + 1, *end = next + 1, found;

    *last = extend(s, (corner){ 0 }, fastest);
    *next = extend(s, *last, fewest);
    if (fewest == fastest) next++;
    while (next < end) {
        if (between(s, *last, *next, &found)) *--next = found;
        else *++last = *next++;
    }
    s->n_corners = (int)(last - s->corner) + 1;
}

/* ---- the hull ---- */

/* Quanta are few enough that seconds are exact as doubles. */
static rp_status fill_hull(rp_ctx *ctx, const search *s, rp_cut_hull *out)
{
    rp_cut_hull hull = { .n_points = s->n_corners, .quantum = s->quantum };

    hull.point = rp__host_alloc(ctx, hull.n_points * (int64_t)sizeof *hull.point);
    if (!hull.point) return RP_ERR_MEMORY;
    for (int k = 0; k < hull.n_points; k++)
        hull.point[k] = (rp_cut_point){ s->corner[k].bytes, (double)s->corner[k].quanta * s->quantum };
    *out = hull;
    return RP_OK;
}

rp_status rp__cut_hull(rp_ctx *ctx, const rp_cut *cut, rp_cut_hull *out)
{
    search s;
    rp_status status = search_open(ctx, cut, &s);

    if (status == RP_OK) {
        find_corners(&s);
        status = fill_hull(ctx, &s, out);
    }
    search_close(&s);
    return status;
}

void rp__cut_hull_free(rp_cut_hull *hull)
{
    rp__release(hull->point);
    *hull = (rp_cut_hull){ 0 };
}

/* On the line between two corners, rounded down to whole quanta. So it is a bound, and it never rises with capacity. */
static double on_line(corner left, corner right, int64_t capacity, double quantum)
{
    rp_flow_units more = (rp_flow_units)(right.quanta - left.quanta) * (left.bytes - capacity) / (left.bytes - right.bytes);

    return (double)(left.quanta + (int64_t)more) * quantum;
}

static corner corner_of(const rp_cut_hull *hull, int k)
{
    return (corner){ .bytes = hull->point[k].bytes, .quanta = (int64_t)(hull->point[k].seconds / hull->quantum) };
}

double rp__cut_hull_bound(const rp_cut_hull *hull, int64_t capacity)
{
    int k = 0;

    while (k < hull->n_points && hull->point[k].bytes > capacity) k++;
    if (k == hull->n_points) return HUGE_VAL;
    corner right = corner_of(hull, k);
    return k ? on_line(corner_of(hull, k - 1), right, capacity, hull->quantum) : (double)right.quanta * hull->quantum;
}
