/* plan/segment_ways.c -- which calls of a segment may run again: all sets of few calls, a search over those of many. */
#include "plan/segment.h"

#include <string.h>

enum { NONE = -1, MOST_OPEN = 14, MOST_WALKS = 30000 };

typedef struct {
    rp_bump *bump;
    const rp_segment *s;
    rp_segment_ways *out;
    int room;
    int *open, n_open;                          /* calls that may be kept or run again */
    bool *kept, *again, *wanted;                /* kept: of open calls, what the way says */
    rp_segment_room notes;
} search;

/* ---- a way ---- */

/* Upwards from what backward reads: what is read and not kept runs again. False: a call is kept that nobody reads, so that this is
 * another way, too. */
static bool close_way(search *w)
{
    const rp_segment *s = w->s;
    bool proper         = true;

    memset(w->wanted, 0, (size_t)s->n_values);
    for (int c = 0; c < s->n_calls; c++)
        for (int i = 0; i < s->call[c].n_needs; i++) w->wanted[s->call[c].needs[i]] = true;
    for (int c = s->n_calls - 1; c >= 0; c--) {
        const rp_segment_call *call = &s->call[c];
        bool read                   = false;
        for (int i = 0; i < call->n_made; i++) read = read || w->wanted[call->made[i]];
        w->again[c] = read && !w->kept[c];
        if (w->kept[c] && !call->kept && !read) proper = false;
        for (int i = 0; w->again[c] && i < call->n_reads; i++) w->wanted[call->reads[i]] = true;
    }
    return proper;
}

/* Is a nowhere worse than b? */
static bool covers(const rp_chain_option *a, const rp_chain_option *b, int kinds)
{
    if (a->saved > b->saved || a->forward > b->forward || a->seconds > b->seconds || a->again > b->again || a->last > b->last) return false;
    if (a->seconds + a->again_seconds > b->seconds + b->again_seconds || a->seconds + a->last_seconds > b->seconds + b->last_seconds) return false;
    for (int k = 0; k < kinds; k++)
        if (a->backward[k] > b->backward[k] || a->last_backward[k] > b->last_backward[k]) return false;
    return true;
}

static uint64_t *bits_of(const rp_segment_ways *ways, int i) { return ways->again + (size_t)i * (size_t)ways->words; }

static bool grow(search *w)
{
    rp_segment_ways *ways = w->out;

    if (ways->n < w->room) return true;
    int room                = w->room * 2 + 64;
    rp_chain_option *option = rp__bump_alloc(w->bump, room * (int64_t)sizeof *option);
    uint64_t *again         = rp__bump_alloc(w->bump, room * ways->words * (int64_t)sizeof *again);
    if (!option || !again) return false;
    if (ways->n) {
        memcpy(option, ways->option, (size_t)ways->n * sizeof *option);
        memcpy(again, ways->again, (size_t)ways->n * (size_t)ways->words * sizeof *again);
    }
    ways->option = option;
    ways->again  = again;
    w->room      = room;
    return true;
}

/* Enter the way that is set, unless another covers it; those it covers go. *entered tells. */
static rp_status enter(search *w, bool *entered)
{
    rp_segment_ways *ways = w->out;
    int n                 = 0, kinds = w->s->n_kinds;

    *entered = false;
    if (!close_way(w)) return RP_OK;
    rp_chain_option o = rp__segment_walk(w->s, w->again, w->notes);
    ways->walks++;
    for (int i = 0; i < ways->n; i++)
        if (covers(&ways->option[i], &o, kinds)) return RP_OK;
    for (int i = 0; i < ways->n; i++) {
        if (covers(&o, &ways->option[i], kinds)) continue;
        ways->option[n] = ways->option[i];
        memmove(bits_of(ways, n++), bits_of(ways, i), (size_t)ways->words * sizeof *ways->again);
    }
    ways->n = n;
    if (!grow(w)) return RP_ERR_MEMORY;
    ways->option[ways->n] = o;
    memset(bits_of(ways, ways->n), 0, (size_t)ways->words * sizeof *ways->again);
    for (int c = 0; c < w->s->n_calls; c++)
        if (w->again[c]) bits_of(ways, ways->n)[c / 64] |= UINT64_C(1) << (c % 64);
    ways->n++;
    *entered = true;
    return RP_OK;
}

/* ---- all, or a search ---- */

static rp_status try_all(search *w)
{
    bool entered;

    for (uint32_t mask = 0; mask < UINT32_C(1) << w->n_open; mask++) {
        for (int i = 0; i < w->n_open; i++) w->kept[w->open[i]] = mask >> i & 1;
        RP_TRY(enter(w, &entered));
    }
    return RP_OK;
}

/* An open call that does not run again is kept, in the spelling in which ways are entered. */
static void set_way(search *w, const uint64_t *again)
{
    for (int i = 0; i < w->n_open; i++) w->kept[w->open[i]] = !(again[w->open[i] / 64] >> (w->open[i] % 64) & 1);
    close_way(w);
    for (int i = 0; i < w->n_open; i++) {
        const rp_segment_call *call = &w->s->call[w->open[i]];
        bool read                   = false;
        for (int j = 0; j < call->n_made; j++) read = read || w->wanted[call->made[j]];
        w->kept[w->open[i]] = w->kept[w->open[i]] && read;
    }
}

/* Each way that was entered, with one call or two changed, until nothing new comes or the work is done. */
static rp_status try_near(search *w)
{
    rp_segment_ways *ways = w->out;
    uint64_t *from        = rp__bump_alloc(w->bump, ways->words * (int64_t)sizeof *from);
    bool entered, any     = true;

    if (!from) return RP_ERR_MEMORY;
    while (any && ways->walks < MOST_WALKS) {
        any = false;
        for (int i = 0; i < ways->n && ways->walks < MOST_WALKS; i++) {
            memcpy(from, bits_of(ways, i), (size_t)ways->words * sizeof *from);
            for (int a = 0; a < w->n_open; a++)
                for (int b = a; b < w->n_open; b++) {
                    set_way(w, from);
                    w->kept[w->open[a]] = !w->kept[w->open[a]];
                    if (b != a) w->kept[w->open[b]] = !w->kept[w->open[b]];
                    RP_TRY(enter(w, &entered));
                    any = any || entered;
                }
        }
    }
    return RP_OK;
}

static rp_status try_ends(search *w)
{
    bool entered;

    for (int i = 0; i < w->n_open; i++) w->kept[w->open[i]] = false;
    RP_TRY(enter(w, &entered));
    uint64_t none[1] = { 0 };
    if (w->out->words > 1) {
        uint64_t *zeros = rp__bump_alloc(w->bump, w->out->words * (int64_t)sizeof *zeros);
        if (!zeros) return RP_ERR_MEMORY;
        set_way(w, zeros);
    } else set_way(w, none);
    return enter(w, &entered);
}

rp_status rp__segment_ways(rp_bump *bump, const rp_segment *s, rp_segment_ways *out)
{
    search w = { .bump = bump, .s = s, .out = out };

    *out      = (rp_segment_ways){ .words = (s->n_calls + 63) / 64 };
    w.open    = rp__bump_alloc(bump, (s->n_calls + 1) * (int64_t)sizeof *w.open);
    w.kept    = rp__bump_alloc(bump, s->n_calls + 1);
    w.again   = rp__bump_alloc(bump, s->n_calls + 1);
    w.wanted  = rp__bump_alloc(bump, s->n_values + 1);
    if (!w.open || !w.kept || !w.again || !w.wanted) return RP_ERR_MEMORY;
    RP_TRY(rp__segment_room(bump, s, &w.notes));
    for (int c = 0; c < s->n_calls; c++) {
        w.kept[c] = s->call[c].kept;
        if (!s->call[c].kept && !s->call[c].again) w.open[w.n_open++] = c;
    }
    out->all = w.n_open <= MOST_OPEN;
    if (out->all) return try_all(&w);
    RP_TRY(try_ends(&w));
    return try_near(&w);
}
