/* solve/segment_walk.c -- bytes and seconds of a segment's forward and backward, by the rules of fates/fates.h, as on the tape.
 *
 * A recomputed call is a region of one call. For a region around the segment, the segment's forward is replayed as one region. That replay
 * leaves the values that the segment's backward, or the next segment, reads.
 */
#include "base/bump.h"
#include "cost/cost.h"
#include "solve/segment.h"

#include <string.h>

enum { NONE = RP_FATES_NONE };

typedef struct {
    const rp_segment *s;
    const bool *recompute, *offload;            /* offload NULL: no offloading */
    rp_fates *fates;
    int64_t *change;
    const int64_t *before;                      /* fixed bytes before each backward; NULL: during a replay of the whole segment */
    int tick;
    double seconds;                             /* of replays */
    int64_t most;
} walk;

/* ---- which values are held ---- */

static bool is_output(const rp_segment_value *v) { return v->output && v->call != NONE; }

static bool offloadable(const walk *w, int v)
{
    const rp_segment_value *value = &w->s->value[v];

    return w->offload && value->offloadable && w->offload[value->call];
}

static bool is_held(const walk *w, int v)
{
    const rp_segment_value *value = &w->s->value[v];

    return value->call != NONE && !w->recompute[value->call] && !offloadable(w, v) && (w->fates->value[v].uses > 0 || value->output);
}

/* Counts the reads of each value in backward, by backwards and by recomputed calls. */
static void count_uses(walk *w)
{
    rp_fates *f = w->fates;

    for (int v = 0; v < f->n_value; v++) f->value[v].uses = 0;
    for (int c = 0; c < f->n_call; c++) {
        const rp_fate_call *call = &f->call[c];
        for (int i = 0; i < call->n_needs; i++) f->value[rp__fate_needs(f, call)[i]].uses++;
        for (int i = 0; w->recompute[c] && i < call->n_reads; i++) f->value[rp__fate_reads(f, call)[i]].uses++;
    }
}

/* ---- peak and seconds of a walk ---- */

static void reach(walk *w, int64_t bytes)
{
    if (bytes > w->most) w->most = bytes;
}

static int64_t base_of(const walk *w) { return w->before ? w->before[w->tick] : 0; }

static rp_status segment_walk_run(void *self, int c, const rp_fate_take *take)
{
    walk *w = self;

    (void)take;
    reach(w, base_of(w) + w->fates->live + w->s->call[c].run_bytes);
    w->seconds += w->s->call[c].seconds;
    return RP_OK;
}

static rp_status fetch(void *self, int v)
{
    walk *w = self;

    reach(w, base_of(w) + w->fates->live + w->s->value[v].bytes);
    return RP_OK;
}

static const rp_fate_acts acts = { .run = segment_walk_run, .fetch = fetch };

/* ---- forward ---- */

/* Peak of the forward. `behind` is the number of segments (0, 1, 2) before this one in its region. 0: the input counts as held from before.
 * 1 or more: the input counts for as long as the program holds it. 2: the lingering value counts as well. */
static int64_t forward_most(const walk *w, int behind)
{
    const rp_segment *s = w->s;
    int64_t *change = w->change, live = 0, most = 0;

    memset(change, 0, (size_t)(s->n_calls + 1) * sizeof *change);
    for (int v = 0; v < s->n_values; v++) {
        const rp_segment_value *value = &s->value[v];
        int from = value->call, to = is_held(w, v) ? s->n_calls - 1 : value->until;
        if (from == NONE && behind < 1 + value->lingers) continue;
        if (from == NONE) from = 0;
        else if (to < from) to = from;
        if (to < from) continue;
        change[from] += value->bytes;
        change[to + 1] -= value->bytes;
    }
    for (int c = 0; c < s->n_calls; c++) {
        live += change[c];
        if (live + s->forward_fixed[c] > most) most = live + s->forward_fixed[c];
    }
    return most;
}

/* ---- recomputed for a region ---- */

typedef enum { MIDDLE, LAST, BARE } position;   /* BARE: in an inner region, where only the output is wanted */

/* Whether a replay must leave the value for the backward or the next segment. The output of a region's last segment is already there if
 * something still reads it. */
static bool is_wanted(const walk *w, position at, int v)
{
    if (is_output(&w->s->value[v]) && at != MIDDLE) return at == BARE;
    return at != BARE && is_held(w, v);
}

static bool is_there(const walk *w, position at, int v) { return at == LAST && is_output(&w->s->value[v]) && w->fates->value[v].uses > 0; }

/* Peak of the replay, relative to the bytes held from segments before. `behind`: the input is freed after its last read, and counts. */
static int64_t recompute_most(walk *w, position at, bool behind, double *seconds)
{
    rp_fates *f = w->fates;

    f->live    = 0;
    w->before  = NULL;
    w->seconds = 0;
    for (int v = 0; v < f->n_value; v++) {
        const rp_segment_value *value = &w->s->value[v];
        bool read_once                = behind && value->call == NONE && !value->lingers;
        f->value[v] = (rp_fate_value){ .call = value->call, .region = NONE, .bytes = value->bytes, .uses = f->value[v].uses,
                                       .here = read_once || is_there(w, at, v) || value->call == NONE, .passing = read_once, .needed = is_wanted(w, at, v) };
        if (read_once || is_there(w, at, v)) f->live += value->bytes;
    }
    w->most = f->live;
    (void)rp__fates_run(f, f->n_region - 1);
    *seconds = w->seconds;
    return w->most;
}

/* The first call in backward order whose backward reads a value that a region ending here recomputes: a value the segment makes, except its
 * output, or with `input` its input. NONE: no such call. */
static int first_asking(const rp_segment *s, bool input)
{
    for (int c = s->n_calls - 1; c >= 0; c--)
        for (int i = 0; i < s->call[c].n_needs; i++) {
            const rp_segment_value *value = &s->value[s->call[c].needs[i]];
            if (value->call == NONE ? input : !value->output) return c;
        }
    return NONE;
}

/* ---- backward ---- */

static bool has(const rp_segment *s, bool input)
{
    for (int v = 0; v < s->n_values; v++)
        if (input ? s->value[v].call == NONE : s->value[v].output) return true;
    return false;
}

/* Starts the lane. The segment after this one has already prefetched this segment's first offloaded value. Returns the bytes of the guest:
 * the value of the segment before that is prefetched while this segment ends (0: none). */
static int64_t begin_lane(walk *w)
{
    rp_fates *f = w->fates;
    int first   = f->offloads ? rp__fates_next_offloaded(f, f->n_call) : NONE;

    if (first == NONE) return 0;
    if (has(w->s, false)) (void)rp__fates_prefetch(f, f->n_call);
    return has(w->s, true) ? w->s->value[first].bytes : 0;
}

static rp_fate fate_of(const walk *w, int v)
{
    if (w->s->value[v].call == NONE) return RP_KEEP;
    return offloadable(w, v) ? RP_OFFLOAD : w->recompute[w->s->value[v].call] ? RP_RECOMPUTE : RP_KEEP;
}

/* The input counts as held from before. It stays if the segment before may still need it. */
static void begin_backward(walk *w)
{
    rp_fates *f = w->fates;

    count_uses(w);
    f->live = w->most = 0;
    f->offloads       = w->offload;
    for (int v = 0; v < f->n_value; v++) {
        int call     = w->s->value[v].call, uses = f->value[v].uses + (call == NONE && w->s->input_resident);
        rp_fate fate = fate_of(w, v);
        bool held    = uses > 0 && is_held(w, v);
        f->value[v]  = (rp_fate_value){ .call = call, .region = fate == RP_RECOMPUTE ? call : NONE, .bytes = w->s->value[v].bytes, .uses = uses,
                                        .fate = (unsigned char)fate, .on_demand = fate == RP_RECOMPUTE, .here = call == NONE || held,
                                        .offloaded = fate == RP_OFFLOAD && uses > 0 };
        f->live += held ? f->value[v].bytes : 0;
    }
    for (int c = 0; c < f->n_call; c++) {
        f->call[c].region   = w->recompute[c] ? c : NONE;
        f->region[c].listed = w->recompute[c];
    }
    rp__fates_begin(f);
}

/* Peak of the backward. *from_asking: peak from call `asking` on; until then the last segment of a region has only its output. After the
 * segment's own offloaded values the first one of the segment before is prefetched. That segment is assumed to be alike: the guest has the
 * size of this segment's first offloaded value and stays until the end. */
static int64_t backward_most(walk *w, int kind, int asking, int64_t *from_asking)
{
    const rp_segment *s = w->s;
    rp_fates *f         = w->fates;
    int64_t most        = 0;

    w->before = s->backward_before[kind];
    w->tick   = s->n_calls - 1;
    begin_backward(w);
    int64_t guest = begin_lane(w);
    for (int c = s->n_calls - 1; c >= 0; c--) {
        if (c == asking) w->most = 0;
        w->tick = c;
        (void)rp__fates_make_needs(f, c);
        (void)rp__fates_prefetch(f, c);
        if (guest && f->coming == NONE) {
            f->coming = RP_FATES_ELSEWHERE;
            f->live += guest;
        }
        reach(w, s->backward_fixed[kind][c] + f->live);
        rp__fates_passed(f, c);
        most = w->most > most ? w->most : most;
    }
    *from_asking = w->most;
    return most;
}

/* ---- the lane ---- */

/* Transfers overlap with the segment's own forward and backward. Copies overlap with nothing. */
static double offload_seconds(const walk *w)
{
    const rp_segment *s = w->s;
    double copies = 0, forward = 0, backward = 0;
    int64_t bytes = 0;

    for (int v = 0; v < s->n_values; v++) {
        if (!offloadable(w, v) || w->fates->value[v].uses == 0) continue;
        bytes += s->value[v].bytes;
        copies += s->value[v].copy;
    }
    if (!bytes) return 0;
    for (int c = 0; c < s->n_calls; c++) {
        forward += s->call[c].seconds;
        backward += s->call[c].backward + (w->recompute[c] ? s->call[c].seconds : 0);
    }
    return copies + rp__cost_wait((double)bytes / s->bandwidth, forward, backward);
}

static walk walk_of(const rp_segment *s, const bool *recompute, const bool *offload, rp_segment_room *room)
{
    return (walk){ .s = s, .recompute = recompute, .offload = offload, .fates = &room->fates, .change = room->change };
}

double rp__segment_offload_seconds(const rp_segment *s, const bool *recompute, const bool *offload, rp_segment_room room)
{
    walk w = walk_of(s, recompute, offload, &room);

    count_uses(&w);
    return offload_seconds(&w);
}

static bool any_offloaded_call(const walk *w)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (offloadable(w, v) && w->fates->value[v].uses > 0) return true;
    return false;
}

/* ---- all of it ---- */

static void list_call(rp_fates *f, const rp_segment_call *from, int c)
{
    int *list  = f->list + f->n_list;
    f->call[c] = (rp_fate_call){ .region = NONE, .list = f->n_list, .n_reads = from->n_reads, .n_makes = from->n_made, .n_needs = from->n_needs };

    memcpy(list, from->reads, (size_t)from->n_reads * sizeof *list);
    memcpy(list + from->n_reads, from->made, (size_t)from->n_made * sizeof *list);
    memcpy(list + from->n_reads + from->n_made, from->needs, (size_t)from->n_needs * sizeof *list);
    f->n_list += from->n_reads + from->n_made + from->n_needs;
}

/* One region for each call, and one for all of them. */
rp_status rp__segment_room(rp_bump *bump, const rp_segment *s, rp_segment_room *out)
{
    rp_fates *f = &out->fates;
    int n       = s->n_calls, listed = n;

    for (int c = 0; c < n; c++) listed += s->call[c].n_reads + s->call[c].n_made + s->call[c].n_needs;
    *out = (rp_segment_room){ .fates = { .act = &acts, .n_value = s->n_values, .n_call = n, .n_region = n + 1, .replaying = NONE, .coming = NONE },
                              .change = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *out->change) };
    f->value  = rp__bump_alloc(bump, (s->n_values + 1) * (int64_t)sizeof *f->value);
    f->call   = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *f->call);
    f->region = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *f->region);
    f->list   = rp__bump_alloc(bump, (listed + 1) * (int64_t)sizeof *f->list);
    if (!out->change || !f->value || !f->call || !f->region || !f->list) return RP_ERR_MEMORY;
    for (int c = 0; c < n; c++) {
        f->list[c]   = c;
        f->region[c] = (rp_fate_region){ .parent = NONE, .first = c, .end = c + 1, .single = true };
    }
    f->region[n] = (rp_fate_region){ .parent = NONE, .end = n, .run = f->list, .n_run = n };
    f->n_list    = n;
    for (int c = 0; c < n; c++) list_call(f, &s->call[c], c);
    return RP_OK;
}

rp_chain_option rp__segment_walk(const rp_segment *s, const bool *recompute, const bool *offload, rp_segment_room room)
{
    walk w              = walk_of(s, recompute, NULL, &room);       /* NULL at first: nothing is offloaded in a region */
    rp_chain_option out = { 0 };
    int asking          = first_asking(s, true);

    room.fates.self = &w;
    count_uses(&w);
    out.recompute   = recompute_most(&w, MIDDLE, false, &out.recompute_seconds);
    out.last    = recompute_most(&w, LAST, false, &out.last_seconds);
    w.offload      = offload;
    out.forward = forward_most(&w, 0);
    if (any_offloaded_call(&w)) out.recompute = out.last = RP_CHAIN_NEVER;
    out.seconds = offload_seconds(&w);
    for (int v = 0; v < s->n_values; v++)
        if (is_held(&w, v)) out.saved += s->value[v].bytes;
    for (int k = 0; k < s->n_kinds; k++) out.backward[k] = backward_most(&w, k, asking, &out.last_backward[k]);
    for (int c = 0; c < s->n_calls; c++) out.seconds += recompute[c] ? s->call[c].seconds : 0;
    return out;
}

/* Peak of the backwards before call `asking`. The output is there during all of them if the segment itself reads it. */
static int64_t waiting_most(const rp_segment *s, int kind, int asking)
{
    int64_t most = 0, output = 0;

    for (int v = 0; v < s->n_values; v++) {
        bool read = false;
        for (int c = 0; c < s->n_calls && is_output(&s->value[v]); c++) {
            for (int i = 0; i < s->call[c].n_needs; i++) read = read || s->call[c].needs[i] == v;
            for (int i = 0; i < s->call[c].n_reads; i++) read = read || s->call[c].reads[i] == v;
        }
        output += read ? s->value[v].bytes : 0;
    }
    for (int c = s->n_calls - 1; c > asking; c--)
        if (s->backward_fixed[kind][c] > most) most = s->backward_fixed[kind][c];
    return output + most;
}

void rp__segment_bare(const rp_segment *s, bool *recompute, rp_segment_room room, rp_chain_class *out)
{
    walk w     = walk_of(s, recompute, NULL, &room);
    int asking = first_asking(s, true);
    bool held  = true;

    room.fates.self = &w;
    for (int v = 0; v < s->n_values; v++) {
        room.fates.value[v].uses = 0;
        out->output += is_output(&s->value[v]) ? s->value[v].bytes : 0;
        held = held && (s->value[v].wanted || !is_output(&s->value[v]));
    }
    memset(recompute, false, (size_t)s->n_calls);
    for (int behind = 0; behind < 3; behind++) out->bare[behind] = forward_most(&w, behind);
    for (int behind = 0; behind < 2; behind++) out->bare_recompute[behind] = recompute_most(&w, BARE, behind, &out->bare_seconds);
    out->never_last = !held || asking == NONE || asking != first_asking(s, false);
    for (int k = 0; k < s->n_kinds; k++) {
        out->waiting[k] = waiting_most(s, k, asking);
        out->begun[k]   = asking == NONE ? 0 : s->backward_before[k][asking];
    }
}
