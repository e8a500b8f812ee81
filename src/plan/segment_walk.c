/* plan/segment_walk.c -- a segment's forward and backward as the tape runs them, in bytes and seconds.
 *
 * It has to say what tape/ does (record.c holds, region.c makes again, backward.c lets go), to the byte: tests compare the two. */
#include "plan/segment.h"

#include <string.h>

enum { NONE = -1, FOREIGN = -2 };

typedef struct {
    const rp_segment *s;
    const bool *again, *away;                   /* away NULL: nothing goes */
    int kind, tick;
    int ahead, coming;                          /* calls below have not been searched for what to fetch · fetched and not asked for yet, or
                                                 * NONE, or of another segment: FOREIGN */
    rp_segment_room room;
    int64_t live;                               /* of values, over what is held from segments before */
    int64_t most;
} walk;

/* ---- who is kept ---- */

/* How often each value is read in backward, by a backward or by a call that runs again. */
static void count_readers(const rp_segment *s, const bool *again, int *left)
{
    memset(left, 0, (size_t)s->n_values * sizeof *left);
    for (int c = 0; c < s->n_calls; c++) {
        const rp_segment_call *call = &s->call[c];
        for (int i = 0; i < call->n_needs; i++) left[call->needs[i]]++;
        for (int i = 0; again[c] && i < call->n_reads; i++) left[call->reads[i]]++;
    }
}

static bool is_output(const rp_segment_value *v) { return v->output && v->call != NONE; }

static bool goes(const walk *w, int v)
{
    const rp_segment_value *value = &w->s->value[v];

    return w->away && value->goes && w->away[value->call];
}

static bool is_held(const walk *w, int v)
{
    const rp_segment_value *value = &w->s->value[v];

    return value->call != NONE && !w->again[value->call] && !goes(w, v) && (w->room.left[v] > 0 || value->output);
}

/* ---- forward ---- */

/* behind: so many segments of a region, the input is there for as long as the program holds it, and counts; else it counts as held from
 * before. Behind two what lingers counts, too. */
static int64_t forward_most(const walk *w, int behind)
{
    const rp_segment *s = w->s;
    int64_t *change = w->room.change, live = 0, most = 0;

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

static void reach(walk *w, int64_t bytes)
{
    if (bytes > w->most) w->most = bytes;
}

/* ---- run again for a region ---- */

typedef enum { MIDDLE, LAST, BARE } position;   /* bare: in a region inside, so that nothing is wanted but the output */

/* For the backward, or for the next segment. The last segment's output is there if anybody still reads it. */
static bool is_wanted(const walk *w, position at, int v)
{
    if (is_output(&w->s->value[v]) && at != MIDDLE) return at == BARE;
    return at != BARE && is_held(w, v);
}

static bool is_there(const walk *w, position at, int v) { return at == LAST && is_output(&w->s->value[v]) && w->room.left[v] > 0; }

/* Upwards from what is wanted. */
static void choose_calls(walk *w, position at)
{
    const rp_segment *s = w->s;
    int *pending        = w->room.pending;

    memset(pending, 0, (size_t)s->n_values * sizeof *pending);
    for (int c = s->n_calls - 1; c >= 0; c--) {
        const rp_segment_call *call = &s->call[c];
        bool runs                   = false;
        for (int i = 0; i < call->n_made; i++) {
            int v = call->made[i];
            runs  = runs || (!is_there(w, at, v) && (is_wanted(w, at, v) || pending[v] > 0));
        }
        w->room.runs[c] = runs;
        for (int i = 0; i < call->n_reads && runs; i++) pending[call->reads[i]]++;
    }
}

static void run_again(walk *w, position at, int c)
{
    const rp_segment_call *call = &w->s->call[c];
    bool *present               = w->room.present;
    int *pending                = w->room.pending;

    reach(w, w->live + call->run_bytes);
    for (int i = 0; i < call->n_made; i++) {
        int v      = call->made[i];
        present[v] = !is_there(w, at, v) && (is_wanted(w, at, v) || pending[v] > 0);
        w->live += present[v] ? w->s->value[v].bytes : 0;
    }
    for (int i = 0; i < call->n_reads; i++) {
        int v = call->reads[i];
        if (--pending[v] > 0 || !present[v] || is_wanted(w, at, v)) continue;
        present[v] = false;
        w->live -= w->s->value[v].bytes;
    }
}

/* The most that is live, over what is held from segments before; behind: the input is there until it has been read, and counts. */
static int64_t again_most(walk *w, position at, bool behind, double *seconds)
{
    const rp_segment *s = w->s;

    choose_calls(w, at);
    w->live  = 0;
    *seconds = 0;
    for (int v = 0; v < s->n_values; v++) {
        w->room.present[v] = behind && s->value[v].call == NONE && !s->value[v].lingers;
        w->live += w->room.present[v] || is_there(w, at, v) ? s->value[v].bytes : 0;
    }
    w->most = w->live;
    for (int c = 0; c < s->n_calls; c++) {
        if (!w->room.runs[c]) continue;
        run_again(w, at, c);
        *seconds += s->call[c].seconds;
    }
    return w->most;
}

/* The call whose backward is the first to read what a region that ends with this segment makes: of its own, or as input. NONE: none does. */
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

static void used(walk *w, int v)
{
    if (--w->room.left[v] > 0 || !w->room.present[v]) return;
    if (w->s->value[v].call == NONE && w->s->input_stays) return;
    w->room.present[v] = false;
    w->live -= w->s->value[v].bytes;
}

static void finish(walk *w, int c)
{
    if (!w->again[c] || w->room.finished[c]) return;
    w->room.finished[c] = true;
    for (int i = 0; i < w->s->call[c].n_reads; i++) used(w, w->s->call[c].reads[i]);
}

static void fetch(walk *w, int v)
{
    w->room.present[v] = true;
    w->live += w->s->value[v].bytes;
}

/* The first value that is away among what the backward of a call reads, or the call when it runs again; NONE. */
static int away_for(const walk *w, int c)
{
    const rp_segment_call *call = &w->s->call[c];

    for (int i = 0; i < call->n_needs + (w->again[c] ? call->n_reads : 0); i++) {
        int v = i < call->n_needs ? call->needs[i] : call->reads[i - call->n_needs];
        if (goes(w, v) && !w->room.present[v] && w->room.left[v] > 0) return v;
    }
    return NONE;
}

/* The next one for the calls below `below`. */
static int next_away(walk *w, int below)
{
    if (w->ahead > below) w->ahead = below;
    for (; w->ahead > 0; w->ahead--) {
        int v = away_for(w, w->ahead - 1);
        if (v != NONE) return v;
    }
    return NONE;
}

static int first_away(walk *w)
{
    w->ahead = w->s->n_calls;
    return next_away(w, w->s->n_calls);
}

static bool has(const rp_segment *s, bool input)
{
    for (int v = 0; v < s->n_values; v++)
        if (input ? s->value[v].call == NONE : s->value[v].output) return true;
    return false;
}

/* One is on its way while the calls before its reader run. Behind the segment's own comes the first of the segment before, which is taken to
 * be alike: it is there, a guest, until the end. */
static void fetch_ahead(walk *w, int c, int64_t guest)
{
    if (w->coming != NONE) return;
    w->coming = next_away(w, c);
    if (w->coming != NONE) {
        fetch(w, w->coming);
    } else if (guest) {
        w->coming = FOREIGN;
        w->live += guest;
    }
}

static void make(walk *w, int v)
{
    int c = w->s->value[v].call;

    if (w->coming == v) w->coming = NONE;
    if (w->room.present[v] || c == NONE) return;
    if (goes(w, v)) {
        fetch(w, v);
        reach(w, w->s->backward_before[w->kind][w->tick] + w->live);
        return;
    }
    const rp_segment_call *call = &w->s->call[c];
    for (int i = 0; i < call->n_reads; i++) make(w, call->reads[i]);
    reach(w, w->s->backward_before[w->kind][w->tick] + w->live + call->run_bytes);
    for (int i = 0; i < call->n_made; i++) {
        int made = call->made[i];
        if (w->room.left[made] <= 0 || w->room.present[made]) continue;
        w->room.present[made] = true;
        w->live += w->s->value[made].bytes;
    }
    finish(w, c);
}

/* The segment behind this one has fetched the first that is away, if there is one. Returns the bytes of a guest to come. */
static int64_t begin_lane(walk *w)
{
    const rp_segment *s = w->s;
    int first           = w->away ? first_away(w) : NONE;

    w->coming = NONE;
    if (first == NONE) return 0;
    if (has(s, false)) fetch(w, w->coming = first);
    return has(s, true) ? s->value[first].bytes : 0;
}

static void begin_backward(walk *w)
{
    const rp_segment *s = w->s;

    count_readers(s, w->again, w->room.left);
    memset(w->room.finished, 0, (size_t)s->n_calls * sizeof *w->room.finished);
    w->live = w->most = 0;
    for (int v = 0; v < s->n_values; v++) {
        bool input         = s->value[v].call == NONE;
        w->room.present[v] = input || (w->room.left[v] > 0 && is_held(w, v));
        if (!input && w->room.present[v]) w->live += s->value[v].bytes;
    }
}

/* *from_asking: of the backwards from call `asking` on, until which a region's last segment has nothing but its output. */
static int64_t backward_most(walk *w, int asking, int64_t *from_asking)
{
    const rp_segment *s = w->s;
    int64_t most        = 0;

    begin_backward(w);
    int64_t guest = begin_lane(w);
    for (int c = s->n_calls - 1; c >= 0; c--) {
        const rp_segment_call *call = &s->call[c];
        if (c == asking) w->most = 0;
        w->tick = c;
        for (int i = 0; i < call->n_needs; i++) make(w, call->needs[i]);
        fetch_ahead(w, c, guest);
        reach(w, s->backward_fixed[w->kind][c] + w->live);
        for (int i = 0; i < call->n_needs; i++) used(w, call->needs[i]);
        finish(w, c);
        most = w->most > most ? w->most : most;
    }
    *from_asking = w->most;
    return most;
}

/* ---- the lane ---- */

static double more(double a, double b) { return a > b ? a : b; }

/* Transfers hide behind the segment's own work, and copies behind nothing. */
static double away_seconds(const walk *w)
{
    const rp_segment *s = w->s;
    double copies = 0, forward = 0, backward = 0;
    int64_t bytes = 0;

    for (int v = 0; v < s->n_values; v++) {
        if (!goes(w, v) || w->room.left[v] == 0) continue;
        bytes += s->value[v].bytes;
        copies += s->value[v].copy;
    }
    if (!bytes) return 0;
    for (int c = 0; c < s->n_calls; c++) {
        forward += s->call[c].seconds;
        backward += s->call[c].backward + (w->again[c] ? s->call[c].seconds : 0);
    }
    double transfer = (double)bytes / s->bandwidth;
    return copies + more(transfer - forward, 0) + more(transfer - backward, 0);
}

double rp__segment_away_seconds(const rp_segment *s, const bool *again, const bool *away, rp_segment_room room)
{
    walk w = { .s = s, .again = again, .away = away, .room = room };

    count_readers(s, again, room.left);
    return away_seconds(&w);
}

static bool any_goes(const walk *w)
{
    for (int v = 0; v < w->s->n_values; v++)
        if (goes(w, v) && w->room.left[v] > 0) return true;
    return false;
}

/* ---- all of it ---- */

rp_status rp__segment_room(rp_bump *bump, const rp_segment *s, rp_segment_room *out)
{
    int *ints   = rp__bump_alloc(bump, 2 * (s->n_values + 1) * (int64_t)sizeof *ints);
    bool *bools = rp__bump_alloc(bump, s->n_values + 2 * s->n_calls + 1);
    int64_t *change = rp__bump_alloc(bump, (s->n_calls + 1) * (int64_t)sizeof *change);

    if (!ints || !bools || !change) return RP_ERR_MEMORY;
    *out = (rp_segment_room){ .change = change, .left = ints, .pending = ints + s->n_values, .present = bools, .finished = bools + s->n_values,
                              .runs = bools + s->n_values + s->n_calls };
    return RP_OK;
}

rp_chain_option rp__segment_walk(const rp_segment *s, const bool *again, const bool *away, rp_segment_room room)
{
    walk w              = { .s = s, .again = again, .room = room };       /* a region's first: in it nothing goes */
    rp_chain_option out = { 0 };
    int asking          = first_asking(s, true);

    count_readers(s, again, room.left);
    out.again   = again_most(&w, MIDDLE, false, &out.again_seconds);
    out.last    = again_most(&w, LAST, false, &out.last_seconds);
    w.away      = away;
    out.forward = forward_most(&w, 0);
    if (any_goes(&w)) out.again = out.last = RP_CHAIN_NEVER;
    out.seconds = away_seconds(&w);
    for (int v = 0; v < s->n_values; v++)
        if (is_held(&w, v)) out.saved += s->value[v].bytes;
    for (w.kind = 0; w.kind < s->n_kinds; w.kind++) out.backward[w.kind] = backward_most(&w, asking, &out.last_backward[w.kind]);
    for (int c = 0; c < s->n_calls; c++) out.seconds += again[c] ? s->call[c].seconds : 0;
    return out;
}

/* The backwards before the first that asks; the output is there all the while if the segment reads it itself. */
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

void rp__segment_bare(const rp_segment *s, bool *again, rp_segment_room room, rp_chain_class *out)
{
    walk w     = { .s = s, .again = again, .room = room };
    int asking = first_asking(s, true);
    bool held  = true;

    for (int v = 0; v < s->n_values; v++) {
        room.left[v] = 0;
        out->output += is_output(&s->value[v]) ? s->value[v].bytes : 0;
        held = held && (s->value[v].wanted || !is_output(&s->value[v]));
    }
    memset(again, false, (size_t)s->n_calls);
    for (int behind = 0; behind < 3; behind++) out->bare[behind] = forward_most(&w, behind);
    for (int behind = 0; behind < 2; behind++) out->bare_again[behind] = again_most(&w, BARE, behind, &out->bare_seconds);
    out->never_last = !held || asking == NONE || asking != first_asking(s, false);
    for (int k = 0; k < s->n_kinds; k++) {
        out->waiting[k] = waiting_most(s, k, asking);
        out->begun[k]   = asking == NONE ? 0 : s->backward_before[k][asking];
    }
}
