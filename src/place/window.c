/* place/window.c -- places one unplaced item anew, together with short-lived items around it, by branch and bound.
 *
 * A window in time contains the whole lives of its members. Other items that live in it stay in place and leave gaps for the members.
 * Members are placed from the bottom up, each as low as possible. Some order of this kind is at least as good as any packing, because
 * everything that can be pushed down is pushed down. So a member is never placed below the previous one. It is also never placed where
 * another member would still fit completely below it. The free space above an instant must hold all unplaced members that live then.
 * (Canonical packings and the bound by sections are those of MiniMalloc: Moffitt, ASPLOS 2023.)
 */
#include "place/internal.h"

#include <stdlib.h>

enum { MOST_MEMBERS = 60, MOST_INSTANTS = 400, MOST_WIDTHS = 24, MOST_NODES = 200 };

typedef struct { int64_t low, high; } gap;         /* high is exclusive */

typedef struct {
    place_item *item;
    const gap *gaps;                /* where it may lie */
    int n_gaps;
    int64_t low, offset;            /* lowest offset still possible · offset where it was put */
    bool done;
} member;

typedef struct {
    place_problem *p;
    rp_bump bump;
    place_item **placed, **resident;   /* by offset: all placed items · of these, items in the window that are not members */
    int n_placed, n_resident;
    member member[MOST_MEMBERS];
    int n, first, n_instants;
    int64_t need[MOST_INSTANTS], filled[MOST_INSTANTS];    /* bytes of members still to place · end of the last member placed */
    const gap *gaps[MOST_INSTANTS];
    int n_gaps[MOST_INSTANTS];
    int64_t low[MOST_MEMBERS][MOST_MEMBERS], below[MOST_MEMBERS][MOST_INSTANTS];     /* values before each step, to restore them */
    int nodes;
} window;

/* ---- gaps ---- */

static int64_t first_offset(const member *m, int64_t low)
{
    for (int i = 0; i < m->n_gaps; i++) {
        int64_t from = low > m->gaps[i].low ? low : m->gaps[i].low;
        if (from + m->item->bytes <= m->gaps[i].high) return from;
    }
    return INT64_MAX;
}

static int64_t room_above(const window *w, int instant, int64_t low)
{
    int64_t bytes = 0;

    for (int i = 0; i < w->n_gaps[instant]; i++) {
        const gap *g = &w->gaps[instant][i];
        if (g->high > low) bytes += g->high - (g->low > low ? g->low : low);
    }
    return bytes;
}

/* Returns the gaps of at least `bytes` that staying items leave free during all instants from `first` to `last`. NULL: RP_ERR_MEMORY. */
static const gap *find_gaps(window *w, int first, int last, int64_t bytes, int *n)
{
    gap *found  = rp__bump_alloc(&w->bump, (w->n_resident + 1) * (int64_t)sizeof *found);
    int64_t top = w->p->floor;

    *n = 0;
    for (int i = 0; found && i <= w->n_resident; i++) {
        const place_item *item = i < w->n_resident ? w->resident[i] : NULL;
        if (item && (item->first > last || item->last < first)) continue;
        int64_t end = item ? item->offset : w->p->roof;
        if (end - top >= bytes) found[(*n)++] = (gap){ top, end };
        if (item && place_end(item) > top) top = place_end(item);
    }
    return found;
}

/* ---- the window ---- */

static bool is_within(const place_item *item, int first, int last) { return item->first >= first && item->last <= last; }

/* Returns false if there are too many. */
static bool choose_members(window *w, place_item *missing, int first, int last)
{
    if (last - first + 1 > MOST_INSTANTS) return false;
    w->first              = first;
    w->n_instants         = last - first + 1;
    w->n_resident            = 0;
    w->n                  = 0;
    w->member[w->n++].item = missing;
    for (int i = 0; i < w->n_placed; i++) {
        place_item *item = w->placed[i];
        if (item->last < first || item->first > last) continue;
        if (item->fixed || !is_within(item, first, last)) {
            w->resident[w->n_resident++] = item;
            continue;
        }
        if (w->n == MOST_MEMBERS) return false;
        w->member[w->n++].item = item;
    }
    return true;
}

/* Find the gaps of all members and of all instants. */
static rp_status find_all_gaps(window *w)
{
    for (int i = 0; i < w->n; i++) {
        member *m = &w->member[i];
        m->gaps   = find_gaps(w, m->item->first, m->item->last, m->item->bytes, &m->n_gaps);
        if (!m->gaps) return RP_ERR_MEMORY;
    }
    for (int i = 0; i < w->n_instants; i++) {
        w->gaps[i] = find_gaps(w, w->first + i, w->first + i, 1, &w->n_gaps[i]);
        if (!w->gaps[i]) return RP_ERR_MEMORY;
    }
    w->p->work += (int64_t)(w->n + w->n_instants) * w->n_resident / PLACE_LOOKS_PER_TRY;
    return RP_OK;
}

/* ---- branch and bound ---- */

static void window_put(window *w, int depth, member *m)
{
    int64_t end = m->low + m->item->bytes;

    m->done   = true;
    m->offset = m->low;
    for (int i = 0; i < w->n; i++) w->low[depth][i] = w->member[i].low;
    for (int at = m->item->first - w->first; at <= m->item->last - w->first; at++) {
        w->below[depth][at] = w->filled[at];
        w->filled[at]       = end;
        w->need[at] -= m->item->bytes;
    }
    for (int i = 0; i < w->n; i++) {
        member *other = &w->member[i];
        if (!other->done && other->low < end && place_meet(other->item, m->item)) other->low = first_offset(other, end);
    }
}

static void take_back(window *w, int depth, member *m)
{
    m->done = false;
    for (int i = 0; i < w->n; i++) w->member[i].low = w->low[depth][i];
    for (int at = m->item->first - w->first; at <= m->item->last - w->first; at++) {
        w->filled[at] = w->below[depth][at];
        w->need[at] += m->item->bytes;
    }
}

static bool may_fit(const window *w, int64_t low)
{
    for (int i = 0; i < w->n; i++)
        if (!w->member[i].done && w->member[i].low == INT64_MAX) return false;
    for (int at = 0; at < w->n_instants; at++)
        if (w->need[at] && room_above(w, at, w->filled[at] > low ? w->filled[at] : low) < w->need[at]) return false;
    return true;
}

/* Returns the member with the lowest offset that was not tried; among equals the first in the order; NULL: none. */
static member *window_choose(window *w, int64_t low, const bool *tried)
{
    int64_t high  = INT64_MAX;
    member *found = NULL;

    for (int i = 0; i < w->n; i++) {
        const member *m = &w->member[i];
        if (!m->done && m->low + m->item->bytes < high) high = m->low + m->item->bytes;
    }
    for (int i = 0; i < w->n; i++) {
        member *m = &w->member[i];
        if (m->done || tried[i] || m->low < low || m->low >= high) continue;
        if (!found || m->low < found->low) found = m;
    }
    return found;
}

static bool branch(window *w, int depth, int64_t low)
{
    bool tried[MOST_MEMBERS] = { 0 };

    if (depth == w->n) return true;
    for (member *m; w->nodes < MOST_NODES && (m = window_choose(w, low, tried));) {
        int64_t offset        = m->low;
        tried[m - w->member] = true;
        w->nodes++;
        window_put(w, depth, m);
        if (may_fit(w, offset) && branch(w, depth + 1, offset)) return true;
        take_back(w, depth, m);
    }
    return false;
}

/* ---- one unplaced item ---- */

static int by_tight_area(const void *left, const void *right)
{
    return rp__place_by_tight_area(&((const member *)left)->item, &((const member *)right)->item);
}

static void window_begin(window *w)
{
    qsort(w->member, (size_t)w->n, sizeof *w->member, by_tight_area);
    for (int i = 0; i < w->n_instants; i++) w->need[i] = w->filled[i] = 0;
    for (int i = 0; i < w->n; i++) {
        member *m = &w->member[i];
        m->low    = first_offset(m, 0);
        m->done   = false;
        for (int at = m->item->first; at <= m->item->last; at++) w->need[at - w->first] += m->item->bytes;
    }
    w->nodes = 0;
}

static bool pack(window *w)
{
    window_begin(w);
    bool found = may_fit(w, 0) && branch(w, 0, 0);

    w->p->work += w->nodes;
    for (int i = 0; i < w->n && found; i++) w->member[i].item->offset = w->member[i].offset;
    return found;
}

/* Try wider and wider windows, as long as the members are few. */
static rp_status mend(window *w, place_item *missing, bool *found)
{
    *found = false;
    for (int i = 0; i < MOST_WIDTHS && !*found; i++) {
        int more  = i < 8 ? i : (i - 6) * (i - 6) / 2;
        int first = missing->first > more ? missing->first - more : 0, end = w->p->n_instants - 1;
        int last  = missing->last + more < end ? missing->last + more : end;
        if (!choose_members(w, missing, first, last)) return RP_OK;
        RP_TRY(find_all_gaps(w));
        *found = pack(w);
        rp__bump_free(&w->bump);
    }
    if (*found) w->n_placed = rp__place_list_placed(w->p, w->placed);
    return RP_OK;
}

static rp_status mend_all(window *w)
{
    place_problem *p = w->p;
    bool found       = true;

    w->n_placed = rp__place_list_placed(w->p, w->placed);
    for (int i = 0; i < p->n && found; i++)
        if (p->item[i].offset == PLACE_NOWHERE) RP_TRY(mend(w, &p->item[i], &found));
    return RP_OK;
}

rp_status rp__place_mend(place_problem *p)
{
    rp_bump bump     = { .ctx = p->bump.ctx };
    window *w        = rp__bump_alloc(&bump, sizeof *w);
    rp_status status = RP_ERR_MEMORY;

    if (w) {
        w->p          = p;
        w->bump.ctx   = p->bump.ctx;
        w->placed     = rp__bump_alloc(&bump, (p->n + 1) * (int64_t)sizeof *w->placed);
        w->resident      = rp__bump_alloc(&bump, (p->n + 1) * (int64_t)sizeof *w->resident);
        if (w->placed && w->resident) status = mend_all(w);
        rp__bump_free(&w->bump);
    }
    rp__bump_free(&bump);
    return status;
}
