/* solve/segment_ways.c -- which calls of a segment run again and which go: all ways for few calls, a search among those for many. */
#include "base/bump.h"
#include "solve/segment.h"

#include <string.h>

enum { MOST_WAYS = 1 << 15, MOST_WALKS = 30000, WALKED = 1, CHANGED };

/* Ways that have been walked, by open addressing: of each the calls that run again and those that go, behind a word that is not 0. */
typedef struct { uint64_t *at; int64_t n, room; int words; } walked;

typedef struct {
    rp_bump *bump;
    const rp_segment *s;
    rp_segment_ways *out;
    int room;
    int *open, n_open;                          /* calls with a choice */
    bool *kept, *gone;                          /* of open calls, what the way says; what has gone is kept, too, elsewhere */
    bool *recompute, *offload, *wanted;
    rp_segment_room notes;
    walked walked;
    uint64_t *bits;                             /* of the way that is set, as there */
} search;

/* ---- ways that have been walked ---- */

static uint64_t *walked_find(const walked *w, const uint64_t *bits)
{
    size_t bytes = (size_t)(w->words - 1) * sizeof *bits;

    for (uint64_t i = rp__hash(bits + 1, bytes, RP_HASH_START);; i++) {
        uint64_t *at = w->at + (int64_t)(i & (uint64_t)(w->room - 1)) * w->words;
        if (!*at || !memcmp(at + 1, bits + 1, bytes)) return at;
    }
}

static rp_status walked_grow(rp_ctx *ctx, walked *w)
{
    walked larger = { .n = w->n, .room = w->room ? 2 * w->room : 1024, .words = w->words };

    larger.at = rp__host_alloc(ctx, larger.room * larger.words * (int64_t)sizeof *larger.at);
    if (!larger.at) return RP_ERR_MEMORY;
    for (int64_t i = 0; i < w->room; i++) {
        const uint64_t *at = w->at + i * w->words;
        if (*at) memcpy(walked_find(&larger, at), at, (size_t)w->words * sizeof *at);
    }
    rp__release(w->at);
    *w = larger;
    return RP_OK;
}

/* *seen: it was there before. */
static rp_status walked_add(rp_ctx *ctx, walked *w, const uint64_t *bits, bool *seen)
{
    if (2 * w->n >= w->room) RP_TRY(walked_grow(ctx, w));
    uint64_t *at = walked_find(w, bits);
    *seen        = *at != 0;
    if (*seen) return RP_OK;
    memcpy(at, bits, (size_t)w->words * sizeof *at);
    w->n++;
    return RP_OK;
}

/* ---- a way ---- */

/* Upwards from what backward reads: what is read and not kept runs again. False: a call is kept that nobody reads, or nothing that may go
 * of one that has gone, so that this is another way, too. */
static bool close_way(search *w)
{
    const rp_segment *s = w->s;
    bool proper         = true;

    memset(w->wanted, 0, (size_t)s->n_values);
    for (int c = 0; c < s->n_calls; c++)
        for (int i = 0; i < s->call[c].n_needs; i++) w->wanted[s->call[c].needs[i]] = true;
    for (int c = s->n_calls - 1; c >= 0; c--) {
        const rp_segment_call *call = &s->call[c];
        bool read = false, offloadable = false;
        for (int i = 0; i < call->n_made; i++) {
            read = read || w->wanted[call->made[i]];
            offloadable = offloadable || (w->wanted[call->made[i]] && s->value[call->made[i]].offloadable);
        }
        w->recompute[c] = read && !w->kept[c];
        w->offload[c]  = w->gone[c] && offloadable;
        if ((w->kept[c] && !call->kept && !read) || (w->gone[c] && !offloadable)) proper = false;
        for (int i = 0; w->recompute[c] && i < call->n_reads; i++) w->wanted[call->reads[i]] = true;
    }
    return proper;
}

/* Is a nowhere worse than b? */
static bool covers(const rp_chain_option *a, const rp_chain_option *b, int kinds)
{
    if (a->saved > b->saved || a->forward > b->forward || a->seconds > b->seconds || a->recompute > b->recompute || a->last > b->last) return false;
    if (a->seconds + a->recompute_seconds > b->seconds + b->recompute_seconds || a->seconds + a->last_seconds > b->seconds + b->last_seconds) return false;
    for (int k = 0; k < kinds; k++)
        if (a->backward[k] > b->backward[k] || a->last_backward[k] > b->last_backward[k]) return false;
    return true;
}

static uint64_t *recompute_bits(const rp_segment_ways *ways, int i) { return ways->recompute + (size_t)i * (size_t)ways->words; }
static uint64_t *offload_bits(const rp_segment_ways *ways, int i) { return ways->offload + (size_t)i * (size_t)ways->words; }

static bool grow(search *w)
{
    rp_segment_ways *ways = w->out;

    if (ways->n < w->room) return true;
    int room                = w->room * 2 + 64;
    rp_chain_option *option = rp__bump_alloc(w->bump, room * (int64_t)sizeof *option);
    uint64_t *recompute         = rp__bump_alloc(w->bump, room * ways->words * (int64_t)sizeof *recompute);
    uint64_t *offload          = rp__bump_alloc(w->bump, room * ways->words * (int64_t)sizeof *offload);
    if (!option || !recompute || !offload) return false;
    if (ways->n) {
        memcpy(option, ways->option, (size_t)ways->n * sizeof *option);
        memcpy(recompute, ways->recompute, (size_t)ways->n * (size_t)ways->words * sizeof *recompute);
        memcpy(offload, ways->offload, (size_t)ways->n * (size_t)ways->words * sizeof *offload);
    }
    ways->option = option;
    ways->recompute  = recompute;
    ways->offload   = offload;
    w->room      = room;
    return true;
}

static void copy_way(rp_segment_ways *ways, int to, int from)
{
    size_t bytes = (size_t)ways->words * sizeof *ways->recompute;

    ways->option[to] = ways->option[from];
    memmove(recompute_bits(ways, to), recompute_bits(ways, from), bytes);
    memmove(offload_bits(ways, to), offload_bits(ways, from), bytes);
}

static void put_bits(const search *w, const bool *calls, uint64_t *bits)
{
    memset(bits, 0, (size_t)w->out->words * sizeof *bits);
    for (int c = 0; c < w->s->n_calls; c++)
        if (calls[c]) bits[c / 64] |= UINT64_C(1) << (c % 64);
}

/* Enter the way that is set, unless another covers it; those it covers go. *entered tells. */
static rp_status enter(search *w, bool *entered)
{
    rp_segment_ways *ways = w->out;
    int n                 = 0, kinds = w->s->n_kinds;
    bool seen;

    *entered = false;
    if (!close_way(w)) return RP_OK;
    put_bits(w, w->recompute, w->bits + 1);
    put_bits(w, w->offload, w->bits + 1 + ways->words);
    RP_TRY(walked_add(w->bump->ctx, &w->walked, w->bits, &seen));
    if (seen) return RP_OK;
    rp_chain_option o = rp__segment_walk(w->s, w->recompute, w->offload, w->notes);
    ways->walks++;
    for (int i = 0; i < ways->n; i++)
        if (covers(&ways->option[i], &o, kinds)) return RP_OK;
    for (int i = 0; i < ways->n; i++)
        if (!covers(&o, &ways->option[i], kinds)) copy_way(ways, n++, i);
    ways->n = n;
    if (!grow(w)) return RP_ERR_MEMORY;
    ways->option[ways->n] = o;
    put_bits(w, w->recompute, recompute_bits(ways, ways->n));
    put_bits(w, w->offload, offload_bits(ways, ways->n));
    ways->n++;
    *entered = true;
    return RP_OK;
}

/* ---- all, or a search ---- */

/* By digits, a call that may run again: 0 again, 1 kept, 2 away; another: 0 kept, 1 away. */
static int n_states(const search *w, int i)
{
    const rp_segment_call *call = &w->s->call[w->open[i]];

    return (call->kept ? 1 : 2) + call->offloadable;
}

static int state(const search *w, int i)
{
    int c = w->open[i];

    if (w->s->call[c].kept) return w->gone[c];
    return w->kept[c] + w->gone[c];
}

static void set_state(search *w, int i, int state)
{
    int c          = w->open[i];
    bool never     = w->s->call[c].kept;

    w->kept[c] = never || state > 0;
    w->gone[c] = state == (never ? 1 : 2);
}

/* The next one, the first call's digit soonest; false: that was the last. */
static bool next_way(search *w, bool with_offload)
{
    for (int i = 0; i < w->n_open; i++) {
        int next = state(w, i) + 1, n = n_states(w, i) - (with_offload ? 0 : w->s->call[w->open[i]].offloadable);
        set_state(w, i, next < n ? next : 0);
        if (next < n) return true;
    }
    return false;
}

static rp_status try_all(search *w, bool with_offload)
{
    bool entered;

    for (int i = 0; i < w->n_open; i++) set_state(w, i, 0);
    do {
        RP_TRY(enter(w, &entered));
    } while (next_way(w, with_offload));
    return RP_OK;
}

static bool has_bit(const uint64_t *bits, int c) { return bits[c / 64] >> (c % 64) & 1; }

/* An open call that does not run again is kept, in the spelling in which ways are entered. */
static void set_way(search *w, const uint64_t *recompute, const uint64_t *offload)
{
    for (int i = 0; i < w->n_open; i++) {
        int c      = w->open[i];
        w->kept[c] = !has_bit(recompute, c);
        w->gone[c] = has_bit(offload, c);
    }
    close_way(w);
    for (int i = 0; i < w->n_open; i++) {
        const rp_segment_call *call = &w->s->call[w->open[i]];
        bool read                   = call->kept;
        for (int j = 0; j < call->n_made; j++) read = read || w->wanted[call->made[j]];
        w->kept[w->open[i]] = w->kept[w->open[i]] && read;
    }
}

/* A way, with open calls a and b, the same or two, in other states than theirs. */
static rp_status try_changed(search *w, const uint64_t *from, int a, int b, bool *any)
{
    bool entered;

    for (int i = 1; i < n_states(w, a); i++)
        for (int j = 1; j < (a == b ? 2 : n_states(w, b)); j++) {
            set_way(w, from, from + w->out->words);
            set_state(w, a, (state(w, a) + i) % n_states(w, a));
            if (b != a) set_state(w, b, (state(w, b) + j) % n_states(w, b));
            RP_TRY(enter(w, &entered));
            *any = *any || entered;
        }
    return RP_OK;
}

/* Whether that was done with the way before; from here on it is. */
static bool is_changed(search *w, const uint64_t *from)
{
    memcpy(w->bits + 1, from, (size_t)(w->walked.words - 1) * sizeof *from);
    uint64_t *at = walked_find(&w->walked, w->bits);
    bool before  = *at == CHANGED;

    *at = CHANGED;
    return before;
}

/* Each way that was entered, with one call or two changed, until nothing new comes or the work is done. */
static rp_status try_near(search *w, int64_t most_walks)
{
    rp_segment_ways *ways = w->out;
    size_t bytes          = (size_t)ways->words * sizeof *ways->recompute;
    uint64_t *from        = rp__bump_alloc(w->bump, 2 * (int64_t)bytes);
    bool any              = true;

    if (!from) return RP_ERR_MEMORY;
    while (any && ways->walks < most_walks) {
        any = false;
        for (int i = 0; i < ways->n && ways->walks < most_walks; i++) {
            memcpy(from, recompute_bits(ways, i), bytes);
            memcpy(from + ways->words, offload_bits(ways, i), bytes);
            if (is_changed(w, from)) continue;
            for (int a = 0; a < w->n_open; a++)
                for (int b = a; b < w->n_open; b++) RP_TRY(try_changed(w, from, a, b, &any));
        }
    }
    return RP_OK;
}

static rp_status try_ends(search *w)
{
    uint64_t *zeros = rp__bump_alloc(w->bump, w->out->words * (int64_t)sizeof *zeros);
    bool entered;

    if (!zeros) return RP_ERR_MEMORY;
    for (int i = 0; i < w->n_open; i++) set_state(w, i, 0);
    RP_TRY(enter(w, &entered));
    set_way(w, zeros, zeros);
    return enter(w, &entered);
}

/* How many ways there are, or more than are tried. */
static int64_t count_ways(const search *w, bool with_offload)
{
    int64_t n = 1;

    for (int i = 0; i < w->n_open && n <= MOST_WAYS; i++) n *= n_states(w, i) - (with_offload ? 0 : w->s->call[w->open[i]].offloadable);
    return n;
}

/* Those in which nothing goes are tried in any case where they are few: so what may go makes no plan worse. */
static rp_status find_ways(search *w)
{
    bool few = count_ways(w, false) <= MOST_WAYS;

    w->out->all = count_ways(w, true) <= MOST_WAYS;
    if (w->out->all) return try_all(w, true);
    RP_TRY(few ? try_all(w, false) : try_ends(w));
    return try_near(w, MOST_WALKS + (few ? w->out->walks : 0));
}

rp_status rp__segment_ways(rp_bump *bump, const rp_segment *s, rp_segment_ways *out)
{
    search w = { .bump = bump, .s = s, .out = out };

    *out      = (rp_segment_ways){ .words = (s->n_calls + 63) / 64 };
    w.open    = rp__bump_alloc(bump, (s->n_calls + 1) * (int64_t)sizeof *w.open);
    w.kept    = rp__bump_alloc(bump, 4 * (s->n_calls + 1));
    w.wanted  = rp__bump_alloc(bump, s->n_values + 1);
    w.walked  = (walked){ .words = 1 + 2 * out->words };
    w.bits    = rp__bump_alloc(bump, w.walked.words * (int64_t)sizeof *w.bits);
    if (!w.open || !w.kept || !w.wanted || !w.bits) return RP_ERR_MEMORY;
    *w.bits = WALKED;
    w.gone  = w.kept + s->n_calls;
    w.recompute = w.gone + s->n_calls;
    w.offload  = w.recompute + s->n_calls;
    RP_TRY(rp__segment_room(bump, s, &w.notes));
    for (int c = 0; c < s->n_calls; c++) {
        w.kept[c] = s->call[c].kept;
        if ((!s->call[c].kept && !s->call[c].recompute) || s->call[c].offloadable) w.open[w.n_open++] = c;
    }
    rp_status status = find_ways(&w);
    rp__release(w.walked.at);
    return status;
}
