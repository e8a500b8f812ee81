/* solve/segment.c -- cuts a pass into segments and describes each of them in small numbers. */
#include "base/bump.h"
#include "solve/segment.h"

#include <limits.h>
#include <string.h>

enum { NONE = -1, FEW_OPEN = 14 };

typedef struct {
    rp_bump *bump;
    const rp_trace_pass *pass;
    bool resident;
    bool *fixed;                                /* of each value: no plan changes its bytes. It is a leaf, or held or offloaded under every plan */
    int *last_reader;                           /* of each value, the last call that reads it in the forward */
    int *segment;                               /* of each call */
    int *small;                                 /* of each value, its number in the segment being made */
    int *first, n;                              /* segments */
    int64_t *most[RP_CHAIN_KINDS], *before[RP_CHAIN_KINDS];     /* fixed bytes by tick, fixed values included */
    int n_kinds;
} cutter;

/* ---- cuts ---- */

/* The last call of the pass. Recomputing or offloading its values gains nothing, because its backward follows at once. */
static bool is_last(const cutter *k, const rp_trace_call *c) { return c == &k->pass->call[k->pass->n_calls - 1]; }

static bool is_open(const cutter *k, const rp_trace_call *c)
{
    for (int i = 0; i < c->n_made && c->replays && !is_last(k, c); i++)
        if (!k->pass->value[c->made[i]].must) return true;
    return false;
}

/* Fixed: leaves, values that a must-rule keeps or offloads, empty values, and values that the program holds over the whole pass. */
static void find_fixed(cutter *k)
{
    for (int v = 0; v < k->pass->n_values; v++) {
        const rp_trace_value *value = &k->pass->value[v];
        bool kept                   = value->must && value->fate != RP_RECOMPUTE;
        k->fixed[v]       = value->call == NONE || kept || value->bytes == 0 || (value->until == INT_MAX && !value->must);
        k->last_reader[v] = NONE;
    }
    for (int c = 0; c < k->pass->n_calls; c++)
        for (int i = 0; i < k->pass->call[c].n_in; i++) k->last_reader[k->pass->call[c].in[i]] = c;
}

/* crossings[c]: the number of values made before call c and read by c or later. */
static void count_crossings(const cutter *k, int *crossings)
{
    for (int v = 0; v < k->pass->n_values; v++) {
        const rp_trace_value *value = &k->pass->value[v];
        if (k->fixed[v]) continue;
        for (int c = value->call + 1; c <= k->last_reader[v]; c++) crossings[c]++;
    }
}

static bool begins_layer(const cutter *k, int c)
{
    int64_t before = -1, here = -1;
    bool was = rp_path_layer(k->pass->call[c - 1].path, &before), is = rp_path_layer(k->pass->call[c].path, &here);

    return was != is || before != here;
}

static int open_between(const cutter *k, int from, int to)
{
    int n = 0;

    for (int c = from; c < to; c++) n += is_open(k, &k->pass->call[c]);
    return n;
}

/* Cuts at the beginning of each layer, and within a layer if a segment would have too many calls to choose among. */
static void cut(cutter *k, const int *crossings)
{
    int n = k->pass->n_calls, last = 0;         /* last: the latest possible cut since the segment began */

    k->first[k->n++] = 0;
    for (int c = 1; c < n; c++) {
        if (crossings[c] > 1) continue;
        int begin = k->first[k->n - 1];
        if (begins_layer(k, c)) {
            if (last > begin && open_between(k, begin, c) > FEW_OPEN) k->first[k->n++] = last;
            k->first[k->n++] = c;
        } else if (last > begin && open_between(k, begin, c) > FEW_OPEN) {
            k->first[k->n++] = last;
        }
        last = c;
    }
    k->first[k->n] = n;
}

/* Joins the first segment with the first layer. Unless they are one, every plan keeps the value that crosses between them. The whole layer
 * is joined, because the program holds that value until the layer ends. */
static bool segment_join(cutter *k)
{
    int end = 2;

    while (end < k->n && !begins_layer(k, k->first[end])) end++;
    if (end >= k->n || open_between(k, k->first[0], k->first[end]) > FEW_OPEN + 2) return false;     /* the last call of the first segment has no
                                                                                                      * choice: its value crosses */
    memmove(&k->first[1], &k->first[end], (size_t)(k->n + 1 - end) * sizeof *k->first);
    k->n -= end - 1;
    return true;
}

/* Makes the pass one segment, if it has several and not too many calls. */
static bool join_all(cutter *k)
{
    if (k->n < 2 || open_between(k, 0, k->pass->n_calls) > FEW_OPEN) return false;
    k->first[1] = k->pass->n_calls;
    k->n        = 1;
    return true;
}

static void number_segments(cutter *k)
{
    for (int s = 0; s < k->n; s++)
        for (int c = k->first[s]; c < k->first[s + 1]; c++) k->segment[c] = s;
}

/* ---- fixed bytes ---- */

/* Makes long-lived values fixed. A value that stays in its segment may be held by the program to the segment's end. A value that the next
 * segment reads may be held up to two segments longer, as the input of a block that is cut in two is. A value read even later is fixed. */
static void fix_long_lived(cutter *k)
{
    const rp_trace_pass *p = k->pass;

    for (int v = 0; v < p->n_values; v++) {
        if (k->fixed[v] || p->value[v].must) continue;
        int s = k->segment[p->value[v].call];
        bool over = k->last_reader[v] >= k->first[s + 1];
        if (over && k->segment[k->last_reader[v]] > s + 1) k->fixed[v] = true;
        int end = over ? s + 3 : s + 1;
        if (p->value[v].until >= k->first[end < k->n ? end : k->n]) k->fixed[v] = true;
    }
}

static rp_status copy_fixed(cutter *k)
{
    const rp_trace_pass *p = k->pass;
    int ticks              = 2 * p->n_calls;

    k->n_kinds = p->n_fixed < RP_CHAIN_KINDS ? p->n_fixed : RP_CHAIN_KINDS;
    for (int i = 0; i < k->n_kinds; i++) {
        k->most[i]   = rp__bump_alloc(k->bump, (ticks + 1) * (int64_t)sizeof **k->most);
        k->before[i] = rp__bump_alloc(k->bump, (ticks + 1) * (int64_t)sizeof **k->before);
        if (!k->most[i] || !k->before[i]) return RP_ERR_MEMORY;
    }
    for (int i = 0; i < p->n_fixed; i++) {      /* the last kind of the chain takes the maximum of all remaining kinds */
        int64_t *most = k->most[i < k->n_kinds ? i : k->n_kinds - 1], *before = k->before[i < k->n_kinds ? i : k->n_kinds - 1];
        for (int t = 0; t < ticks; t++) {
            if (p->fixed[i][t].most > most[t]) most[t] = p->fixed[i][t].most;
            if (p->fixed[i][t].before > before[t]) before[t] = p->fixed[i][t].before;
        }
    }
    return RP_OK;
}

/* The first tick at which the value is gone: the program has released it, and the backward of its first reader has run. */
static int end_tick(const rp_trace_pass *p, int v)
{
    int n = p->n_calls, until = p->value[v].until, reader = rp__trace_first_reader(p, v);
    int held = until == INT_MAX ? n : until + 1, read = reader == NONE ? 0 : 2 * n - reader;

    return read > held ? read : held;
}

/* A fixed value occupies memory from its call until end_tick, or for the whole pass if the program holds it that long. */
static void add_fixed_values(cutter *k)
{
    const rp_trace_pass *p = k->pass;
    int ticks              = 2 * p->n_calls;

    for (int v = 0; v < p->n_values; v++) {
        const rp_trace_value *value = &p->value[v];
        bool offload                   = value->must && value->fate == RP_OFFLOAD;
        bool whole_pass             = value->until == INT_MAX && !value->must;
        if (value->call == NONE || !k->fixed[v] || offload) continue;
        for (int i = 0; i < k->n_kinds; i++)
            for (int t = value->call, end = whole_pass ? ticks : end_tick(p, v); t < end; t++) {
                k->most[i][t] += value->bytes;
                k->before[i][t] += t > value->call ? value->bytes : 0;
            }
    }
}

/* ---- a segment ---- */

/* Whether a backward of the calls from `from` on reads v, or a must-rule applies to it. */
static bool is_wanted_from(const rp_trace_pass *p, int v, int from)
{
    if (p->value[v].must) return true;
    for (int c = from; c < p->n_calls; c++)
        for (int i = 0; i < p->call[c].n_needs; i++)
            if (p->call[c].needs[i] == v) return true;
    return false;
}

static int small_value(cutter *k, rp_segment *s, int v)
{
    if (k->small[v] != NONE || k->fixed[v]) return k->small[v];
    rp_segment_value *value = &s->value[s->n_values];
    int call                = k->pass->value[v].call, until = k->pass->value[v].until, end = s->first + s->n_calls;

    value->call   = call < s->first ? NONE : call - s->first;       /* assigned field by field: padding stays zero, and is_class compares it */
    value->bytes  = k->pass->value[v].bytes;
    value->until  = (until < end ? until : end - 1) - s->first;
    value->output = k->last_reader[v] >= end;
    value->wanted = value->output && is_wanted_from(k->pass, v, end);
    value->offloadable   = !k->resident && k->pass->value[v].offloadable && value->call != NONE && !value->output;
    value->nth    = value->offloadable ? k->pass->value[v].nth : 0;
    value->copy   = value->offloadable ? k->pass->value[v].copy : 0;
    return k->small[v] = s->n_values++;
}

static void add_once(int *list, int *n, int value)
{
    for (int i = 0; i < *n; i++)
        if (list[i] == value) return;
    list[(*n)++] = value;
}

static void small_call(cutter *k, rp_segment *s, int c)
{
    const rp_trace_call *from = &k->pass->call[s->first + c];
    rp_segment_call *to       = &s->call[c];

    to->run_bytes = from->run_bytes;
    to->seconds   = from->recompute;
    to->kept      = !is_open(k, from);
    for (int i = 0; i < from->n_in; i++) {
        int v = small_value(k, s, from->in[i]);
        if (v != NONE) add_once(to->reads, &to->n_reads, v);
    }
    for (int i = 0; i < from->n_made; i++) {
        const rp_trace_value *value = &k->pass->value[from->made[i]];
        int v                       = small_value(k, s, from->made[i]);
        if (v == NONE) continue;
        to->made[to->n_made++] = v;
        if (value->must && value->fate == RP_RECOMPUTE && from->replays) to->recompute = true;
        if (s->value[v].output) to->kept = true;
        if (s->value[v].offloadable && !is_last(k, from)) to->offloadable = true;
    }
    if (to->recompute) to->kept = to->offloadable = false;
    for (int i = 0; i < from->n_needs; i++) {
        int v = small_value(k, s, from->needs[i]);
        if (v != NONE) to->needs[to->n_needs++] = v;
    }
}

/* Whether the segment reads its own output in its backward, or may read it in calls that are recomputed. */
static bool reads_its_output(const cutter *k, int segment)
{
    for (int c = k->first[segment]; c < k->first[segment + 1]; c++) {
        const rp_trace_call *call = &k->pass->call[c];
        for (int i = 0; i < call->n_in + call->n_needs; i++) {
            int v = i < call->n_in ? call->in[i] : call->needs[i - call->n_in];
            if (!k->fixed[v] && k->pass->value[v].call >= k->first[segment] && k->last_reader[v] >= k->first[segment + 1]) return true;
        }
    }
    return false;
}

/* Adds the value that the segment before has read and this one does not read, if the program still holds it. It is the only one that
 * crosses the cut before the previous segment. */
static void add_lingering(cutter *k, int segment, rp_segment *s)
{
    if (segment < 2) return;
    for (int c = k->first[segment - 2]; c < k->first[segment - 1]; c++)
        for (int i = 0; i < k->pass->call[c].n_made; i++) {
            int v                       = k->pass->call[c].made[i];
            const rp_trace_value *value = &k->pass->value[v];
            if (!k->fixed[v] && k->last_reader[v] >= k->first[segment - 1] && value->until >= s->first) {
                s->value[small_value(k, s, v)].lingers = true;
                return;
            }
        }
}

static rp_status alloc_segment(cutter *k, rp_segment *s)
{
    int most_values = 2;

    for (int c = 0; c < s->n_calls; c++) most_values += k->pass->call[s->first + c].n_made + k->pass->call[s->first + c].n_in;
    s->call          = rp__bump_alloc(k->bump, s->n_calls * (int64_t)sizeof *s->call);
    s->value         = rp__bump_alloc(k->bump, most_values * (int64_t)sizeof *s->value);
    s->forward_fixed = rp__bump_alloc(k->bump, s->n_calls * (int64_t)sizeof *s->forward_fixed);
    if (!s->call || !s->value || !s->forward_fixed) return RP_ERR_MEMORY;
    for (int i = 0; i < k->n_kinds; i++) {
        s->backward_before[i] = rp__bump_alloc(k->bump, s->n_calls * (int64_t)sizeof(int64_t));
        s->backward_fixed[i]  = rp__bump_alloc(k->bump, s->n_calls * (int64_t)sizeof(int64_t));
        if (!s->backward_before[i] || !s->backward_fixed[i]) return RP_ERR_MEMORY;
    }
    return RP_OK;
}

static int64_t forward_base(const cutter *k, int kind, int first) { return k->before[kind][first]; }
static int64_t backward_base(const cutter *k, int kind, int end) { return k->before[kind][2 * k->pass->n_calls - end]; }

static void set_fixed(cutter *k, rp_segment *s)
{
    int ticks = 2 * k->pass->n_calls, end = s->first + s->n_calls;

    for (int c = 0; c < s->n_calls; c++)
        for (int i = 0; i < k->n_kinds; i++) {
            int64_t forward = k->most[i][s->first + c] - forward_base(k, i, s->first);
            int tick        = ticks - 1 - (s->first + c);
            if (i == 0 || forward > s->forward_fixed[c]) s->forward_fixed[c] = forward;
            s->backward_before[i][c] = k->before[i][tick] - backward_base(k, i, end);
            s->backward_fixed[i][c]  = k->most[i][tick] - backward_base(k, i, end);
        }
}

static void set_lane(const cutter *k, rp_segment *s)
{
    bool any = false;

    for (int c = 0; c < s->n_calls; c++) any = any || s->call[c].offloadable;
    if (any) s->bandwidth = k->pass->bandwidth;
    for (int c = 0; c < s->n_calls && any; c++) s->call[c].backward = k->pass->call[s->first + c].backward;
}

static rp_status make_segment(cutter *k, int i, rp_segment *s)
{
    *s = (rp_segment){ .first = k->first[i], .n_calls = k->first[i + 1] - k->first[i], .n_kinds = k->n_kinds };
    RP_TRY(alloc_segment(k, s));
    for (int v = 0; v < k->pass->n_values; v++) k->small[v] = NONE;
    for (int c = 0; c < s->n_calls; c++) small_call(k, s, c);
    add_lingering(k, i, s);
    s->input_resident = i > 0 && reads_its_output(k, i - 1);
    set_fixed(k, s);
    set_lane(k, s);
    return RP_OK;
}

/* ---- classes ---- */

static rp_status describe(rp_bump *bump, const rp_segment *s, const rp_segment_ways *ways, rp_chain_class *out)
{
    bool *recompute = rp__bump_alloc(bump, s->n_calls + 1);
    rp_segment_room room;

    if (!recompute) return RP_ERR_MEMORY;
    RP_TRY(rp__segment_room(bump, s, &room));
    *out = (rp_chain_class){ .option = ways->option, .n_options = ways->n };
    rp__segment_bare(s, recompute, room, out);
    return RP_OK;
}

typedef struct { rp_chain_class *chain; rp_segment *segment; rp_segment_ways *ways; int n; } classes;

/* Whether every way has the same figures in both. Both are of one pass. */
static bool is_class(const rp_segment *a, const rp_segment *b)
{
    size_t bytes = (size_t)a->n_calls * sizeof(int64_t);

    if (a->n_calls != b->n_calls || a->n_values != b->n_values || a->input_resident != b->input_resident) return false;
    if (memcmp(a->call, b->call, (size_t)a->n_calls * sizeof *a->call) || memcmp(a->value, b->value, (size_t)a->n_values * sizeof *a->value)) return false;
    for (int i = 0; i < a->n_kinds; i++)
        if (memcmp(a->backward_before[i], b->backward_before[i], bytes) || memcmp(a->backward_fixed[i], b->backward_fixed[i], bytes)) return false;
    return !memcmp(a->forward_fixed, b->forward_fixed, bytes);
}

static rp_status add_class(rp_bump *bump, classes *all, const rp_segment *s, int *index)
{
    for (*index = 0; *index < all->n; ++*index)
        if (is_class(&all->segment[*index], s)) return RP_OK;
    all->segment[all->n] = *s;
    RP_TRY(rp__segment_ways(bump, s, &all->ways[all->n]));
    RP_TRY(describe(bump, s, &all->ways[all->n], &all->chain[all->n]));
    all->n++;
    return RP_OK;
}

static int layer_of(const cutter *k, const rp_segment *s)
{
    int64_t layer;

    return rp_path_layer(k->pass->call[s->first].path, &layer) ? (int)layer : NONE;
}

static rp_status make_chain(cutter *k, rp_cut_pass *out)
{
    int n             = k->n;
    int *index        = rp__bump_alloc(k->bump, n * (int64_t)sizeof *index);
    int *layer        = rp__bump_alloc(k->bump, n * (int64_t)sizeof *layer);
    int64_t *fixed[2] = { rp__bump_alloc(k->bump, RP_CHAIN_KINDS * n * (int64_t)sizeof **fixed),
                          rp__bump_alloc(k->bump, RP_CHAIN_KINDS * n * (int64_t)sizeof **fixed) };
    classes all       = { rp__bump_alloc(k->bump, n * (int64_t)sizeof *all.chain), rp__bump_alloc(k->bump, n * (int64_t)sizeof *all.segment),
                          rp__bump_alloc(k->bump, n * (int64_t)sizeof *all.ways), 0 };
    rp_segment s;

    if (!index || !layer || !fixed[0] || !fixed[1] || !all.chain || !all.segment || !all.ways) return RP_ERR_MEMORY;
    for (int i = 0; i < n; i++) {
        RP_TRY(make_segment(k, i, &s));
        layer[i] = layer_of(k, &s);
        RP_TRY(add_class(k->bump, &all, &s, &index[i]));
        for (int j = 0; j < k->n_kinds; j++) {
            fixed[0][j * n + i] = forward_base(k, j, s.first);
            fixed[1][j * n + i] = backward_base(k, j, s.first + s.n_calls);
        }
    }
    *out = (rp_cut_pass){ .chain = { .class_of = all.chain, .n_classes = all.n, .n = n, .n_kinds = k->n_kinds, .segment = index, .layer = layer,
                                     .regions = true },
                          .class_of = all.segment, .ways = all.ways, .first = k->first };
    for (int j = 0; j < k->n_kinds; j++) {
        out->chain.fixed_forward[j]  = fixed[0] + j * n;
        out->chain.fixed_backward[j] = fixed[1] + j * n;
    }
    return RP_OK;
}

rp_status rp__segments(rp_bump *bump, const rp_trace_pass *pass, int how, rp_cut_pass *out)
{
    cutter k       = { .bump = bump, .pass = pass, .resident = how & RP_CUT_RESIDENT };
    int n          = pass->n_calls;
    int *crossings = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *crossings);

    k.fixed       = rp__bump_alloc(bump, pass->n_values + 1);
    k.last_reader = rp__bump_alloc(bump, (pass->n_values + 1) * (int64_t)sizeof *k.last_reader);
    k.small       = rp__bump_alloc(bump, (pass->n_values + 1) * (int64_t)sizeof *k.small);
    k.segment     = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *k.segment);
    k.first       = rp__bump_alloc(bump, (n + 3) * (int64_t)sizeof *k.first);
    if (!crossings || !k.fixed || !k.last_reader || !k.small || !k.segment || !k.first) return RP_ERR_MEMORY;
    find_fixed(&k);
    count_crossings(&k, crossings);
    cut(&k, crossings);
    *out = (rp_cut_pass){ 0 };
    if (how & RP_CUT_JOINED && !segment_join(&k)) return RP_OK;
    if (how & RP_CUT_WHOLE && !join_all(&k)) return RP_OK;
    number_segments(&k);
    fix_long_lived(&k);
    RP_TRY(copy_fixed(&k));
    add_fixed_values(&k);
    return make_chain(&k, out);
}
