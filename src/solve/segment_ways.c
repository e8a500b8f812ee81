/* solve/segment_ways.c -- finds the ways of a segment: tries all of them if its open calls are few, searches if they are many.
 */
#include "base/bump.h"
#include "solve/segment.h"

#include <string.h>

/* A segment with more than MANY_OPEN open calls, which no model has, is searched less: the work stays bounded. */
enum { MOST_WAYS = 1 << 15, MOST_WALKS = 30000, MANY_OPEN = 128, WALKED = 1, CHANGED };

/* The set of ways that have been walked, with open addressing. An entry is a nonzero word, then the bits of the recomputed calls, then
 * those of the offloaded calls. */
typedef struct { uint64_t *at; int64_t n, room; int words; } walked;

typedef struct {
    rp_bump *bump;
    const rp_segment *s;
    rp_segment_ways *out;
    int room;
    int *open, n_open;                          /* calls with a choice */
    bool *kept, *offloaded;                     /* choices of the way for open calls; an offloaded call is `kept`, too */
    bool *recompute, *offload, *wanted;
    rp_segment_room notes;
    walked walked;
    uint64_t *bits;                             /* an entry for the current way, as in `walked` */
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

/* *seen: the way was already in the set. */
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

/* Completes the way from the last call to the first: a value that is read and not kept is recomputed, and so its inputs are read. Returns false
 * if another choice gives the same way. Then a call is kept that nothing reads, or an offloaded call has no offloadable value that is read. */
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
        w->offload[c]  = w->offloaded[c] && offloadable;
        if ((w->kept[c] && !call->kept && !read) || (w->offloaded[c] && !offloadable)) proper = false;
        for (int i = 0; w->recompute[c] && i < call->n_reads; i++) w->wanted[call->reads[i]] = true;
    }
    return proper;
}

/* Is `a` in no respect worse than `b`? */
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

/* Adds the current way unless another one covers it, and removes those it covers. *entered: it was added. */
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

/* ---- all ways, or a search ---- */

/* States of an open call. If it may be recomputed: 0 recompute, 1 keep, 2 offload. Otherwise: 0 keep, 1 offload. Only a call with an
 * offloadable value has the last state. */
static int n_states(const search *w, int i)
{
    const rp_segment_call *call = &w->s->call[w->open[i]];

    return (call->kept ? 1 : 2) + call->offloadable;
}

static int state(const search *w, int i)
{
    int c = w->open[i];

    if (w->s->call[c].kept) return w->offloaded[c];
    return w->kept[c] + w->offloaded[c];
}

static void set_state(search *w, int i, int state)
{
    int c          = w->open[i];
    bool never     = w->s->call[c].kept;

    w->kept[c] = never || state > 0;
    w->offloaded[c] = state == (never ? 1 : 2);
}

/* Counts up to the next way; the first call is the lowest digit. Returns false after the last way. */
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

/* Sets the way with these bits, in the form that enter() accepts: an open call that nothing reads is not kept. */
static void set_way(search *w, const uint64_t *recompute, const uint64_t *offload)
{
    for (int i = 0; i < w->n_open; i++) {
        int c      = w->open[i];
        w->kept[c] = !has_bit(recompute, c);
        w->offloaded[c] = has_bit(offload, c);
    }
    close_way(w);
    for (int i = 0; i < w->n_open; i++) {
        const rp_segment_call *call = &w->s->call[w->open[i]];
        bool read                   = call->kept;
        for (int j = 0; j < call->n_made; j++) read = read || w->wanted[call->made[j]];
        w->kept[w->open[i]] = w->kept[w->open[i]] && read;
    }
}

/* Tries the way `from` with open calls a and b, which may be the same, in all other states. */
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

/* Whether changes of this way have been tried; from now on they have. */
static bool is_changed(search *w, const uint64_t *from)
{
    memcpy(w->bits + 1, from, (size_t)(w->walked.words - 1) * sizeof *from);
    uint64_t *at = walked_find(&w->walked, w->bits);
    bool before  = *at == CHANGED;

    *at = CHANGED;
    return before;
}

/* Changes one call of a way, or two. */
static rp_status change(search *w, const uint64_t *from, int64_t most_walks, bool *any)
{
    bool many = w->n_open > MANY_OPEN;

    for (int a = 0; a < w->n_open; a++) {
        if (many && w->out->walks >= most_walks) break;
        for (int b = a; b < (many ? a + 1 : w->n_open); b++) RP_TRY(try_changed(w, from, a, b, any));
    }
    return RP_OK;
}

/* Tries each entered way with one or two calls changed, until that adds no way or the work limit is reached. */
static rp_status try_near(search *w, int64_t most_walks)
{
    rp_segment_ways *ways = w->out;
    size_t bytes          = (size_t)ways->words * sizeof *ways->recompute;
    uint64_t *from        = rp__bump_alloc(w->bump, 2 * (int64_t)bytes);
    bool any              = true;

    if (!from) return RP_ERR_MEMORY;
    if (w->n_open > MANY_OPEN) most_walks = most_walks * MANY_OPEN / w->s->n_calls;
    while (any && ways->walks < most_walks) {
        any = false;
        for (int i = 0; i < ways->n && ways->walks < most_walks; i++) {
            memcpy(from, recompute_bits(ways, i), bytes);
            memcpy(from + ways->words, offload_bits(ways, i), bytes);
            if (is_changed(w, from)) continue;
            RP_TRY(change(w, from, most_walks, &any));
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

/* The number of ways; if above MOST_WAYS, any number above it. */
static int64_t count_ways(const search *w, bool with_offload)
{
    int64_t n = 1;

    for (int i = 0; i < w->n_open && n <= MOST_WAYS; i++) n *= n_states(w, i) - (with_offload ? 0 : w->s->call[w->open[i]].offloadable);
    return n;
}

/* If the ways without offloading are few, all of them are tried first, so allowing offload never makes a plan worse. */
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
    w.offloaded = w.kept + s->n_calls;
    w.recompute = w.offloaded + s->n_calls;
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
