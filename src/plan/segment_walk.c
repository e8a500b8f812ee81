/* plan/segment_walk.c -- a segment's forward and backward as the tape runs them, in bytes and seconds.
 *
 * It has to say what tape/ does (record.c holds, region.c makes again, backward.c lets go), to the byte: tests compare the two. */
#include "plan/segment.h"

#include <string.h>

enum { NONE = -1 };

typedef struct {
    const rp_segment *s;
    const bool *again;
    int kind, tick;
    int *left;                                  /* readers still to come, of each value */
    bool *present, *finished;                   /* finished: the call has let go of what it read to run again */
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

static bool is_held(const rp_segment *s, const bool *again, const int *left, int v)
{
    const rp_segment_value *value = &s->value[v];

    return value->call != NONE && !again[value->call] && (left[v] > 0 || value->output);
}

/* ---- forward ---- */

static int64_t forward_most(const rp_segment *s, const bool *again, const int *left)
{
    int64_t most = 0;

    for (int c = 0; c < s->n_calls; c++) {
        int64_t live = s->forward_fixed[c];
        for (int v = 0; v < s->n_values; v++) {
            int born = s->value[v].call;
            if (born == NONE || born > c) continue;
            if (born == c || s->value[v].until >= c || is_held(s, again, left, v)) live += s->value[v].bytes;
        }
        if (live > most) most = live;
    }
    return most;
}

/* ---- backward ---- */

static void reach(walk *w, int64_t bytes)
{
    if (bytes > w->most) w->most = bytes;
}

static void used(walk *w, int v)
{
    if (--w->left[v] > 0 || !w->present[v]) return;
    if (w->s->value[v].call == NONE && w->s->input_stays) return;
    w->present[v] = false;
    w->live -= w->s->value[v].bytes;
}

static void finish(walk *w, int c)
{
    if (!w->again[c] || w->finished[c]) return;
    w->finished[c] = true;
    for (int i = 0; i < w->s->call[c].n_reads; i++) used(w, w->s->call[c].reads[i]);
}

static void make(walk *w, int v)
{
    int c = w->s->value[v].call;

    if (w->present[v] || c == NONE) return;
    const rp_segment_call *call = &w->s->call[c];
    for (int i = 0; i < call->n_reads; i++) make(w, call->reads[i]);
    reach(w, w->s->backward_before[w->kind][w->tick] + w->live + call->run_bytes);
    for (int i = 0; i < call->n_made; i++) {
        int made = call->made[i];
        if (w->left[made] <= 0 || w->present[made]) continue;
        w->present[made] = true;
        w->live += w->s->value[made].bytes;
    }
    finish(w, c);
}

static int64_t backward_most(walk *w)
{
    const rp_segment *s = w->s;

    count_readers(s, w->again, w->left);
    memset(w->finished, 0, (size_t)s->n_calls * sizeof *w->finished);
    w->live = w->most = 0;
    for (int v = 0; v < s->n_values; v++) {
        bool input    = s->value[v].call == NONE;
        w->present[v] = input || (w->left[v] > 0 && is_held(s, w->again, w->left, v));
        if (!input && w->present[v]) w->live += s->value[v].bytes;
    }
    for (int c = s->n_calls - 1; c >= 0; c--) {
        const rp_segment_call *call = &s->call[c];
        w->tick = c;
        for (int i = 0; i < call->n_needs; i++) make(w, call->needs[i]);
        reach(w, s->backward_fixed[w->kind][c] + w->live);
        for (int i = 0; i < call->n_needs; i++) used(w, call->needs[i]);
        finish(w, c);
    }
    return w->most;
}

rp_chain_option rp__segment_walk(const rp_segment *s, const bool *again, bool *scratch)
{
    int *left           = (int *)scratch;
    walk w              = { .s = s, .again = again, .left = left, .present = (bool *)(left + s->n_values) };
    rp_chain_option out = { 0 };

    w.finished = w.present + s->n_values;
    count_readers(s, again, left);
    out.forward = forward_most(s, again, left);
    for (int v = 0; v < s->n_values; v++)
        if (is_held(s, again, left, v)) out.saved += s->value[v].bytes;
    for (w.kind = 0; w.kind < s->n_kinds; w.kind++) out.backward[w.kind] = backward_most(&w);
    for (int c = 0; c < s->n_calls; c++) out.seconds += again[c] ? s->call[c].seconds : 0;
    return out;
}
