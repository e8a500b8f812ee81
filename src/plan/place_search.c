/* plan/place_search.c -- which way to place when, and what to do about the few that find no place.
 *
 *   1. greedy, then skylines, in several orders; most traces are done with the first of these
 *   2. rounds of greedy passes: who found no place has its turn sooner in the next one
 *   3. a window in time around one that found none: all that live in it are arranged alone, as if nobody lived longer, which is a small
 *      problem and can be tried often; then they are fixed, and the rest is placed around them
 *   4. the roof is raised, by as little as helps
 */
#include "plan/place_inside.h"

enum { MOST_WORK = 400000, ROUNDS = 20, ROUNDS_ALONE = 100, MOST_WINDOWS = 8, MOST_WIDTHS = 7, LEAST_RAISE = 4096 };

typedef struct {
    place_problem *p;
    int64_t *best, least;           /* offsets of the best try, and the bytes it found no place for */
    int64_t most_work;
} search;

static rp_status open_search(search *s, place_problem *p, int64_t most_work)
{
    *s = (search){ .p = p, .least = INT64_MAX, .most_work = most_work };
    s->best = rp__bump_alloc(&p->bump, (p->n + 1) * (int64_t)sizeof *s->best);
    return s->best ? rp__place_room_new(p) : RP_ERR_MEMORY;
}

/* ---- tries ---- */

static int64_t missing(const place_problem *p)
{
    int64_t bytes = 0;

    for (int i = 0; i < p->n; i++)
        if (p->item[i].offset == PLACE_NOWHERE) bytes += p->item[i].bytes;
    return bytes;
}

static void keep_best(search *s)
{
    int64_t bytes = missing(s->p);

    if (bytes >= s->least) return;
    s->least = bytes;
    for (int i = 0; i < s->p->n; i++) s->best[i] = s->p->item[i].offset;
}

static void restore_best(search *s)
{
    for (int i = 0; i < s->p->n; i++) s->p->item[i].offset = s->best[i];
}

static bool enough(const search *s) { return s->least == 0 || s->p->work > s->most_work; }

/* A skyline that fails leaves out all that would have come next, which is nothing to go on from. */
static rp_status try_skylines(search *s)
{
    static place_compare *const orders[] = { rp__place_by_tight_area, rp__place_by_tight_life, rp__place_by_tight_bytes,
                                             rp__place_by_bytes, rp__place_by_area };

    for (int i = 0; i < RP_COUNT(orders) && !enough(s); i++) {
        rp__place_sort(s->p, orders[i]);
        RP_TRY(rp__place_skyline(s->p));
        if (missing(s->p) == 0) keep_best(s);
    }
    return RP_OK;
}

/* Those who found no place go `tenths` of their way towards the front: at the very front they may be in everybody's way. */
static void take_turns(place_problem *p, int tenths)
{
    for (int i = 0; i < p->n; i++) {
        place_item *item = &p->item[i];
        item->rank       = item->offset == PLACE_NOWHERE ? 2 * (int)((int64_t)item->rank * (10 - tenths) / 10) : 2 * item->rank + 1;
    }
    rp__place_sort(p, rp__place_by_rank);
}

static rp_status try_rounds(search *s, place_compare *order, int rounds, int tenths)
{
    rp__place_sort(s->p, order);
    for (int i = 0; i < rounds && !enough(s); i++) {
        RP_TRY(rp__place_greedy(s->p));
        keep_best(s);
        take_turns(s->p, tenths);
    }
    return RP_OK;
}

static rp_status arrange(search *s, int rounds)
{
    RP_TRY(try_rounds(s, rp__place_by_tight_life, 1, 0));
    RP_TRY(try_skylines(s));
    RP_TRY(try_rounds(s, rp__place_by_tight_life, rounds, 1));
    RP_TRY(try_rounds(s, rp__place_by_tight_life, rounds, 5));
    return try_rounds(s, rp__place_by_tight_bytes, rounds, 1);
}

/* ---- a window ---- */

static rp_status cut_out(const place_problem *p, int first, int last, place_problem *out)
{
    *out       = (place_problem){ .bump = { .ctx = p->bump.ctx }, .n_instants = last - first + 1, .floor = p->floor, .roof = p->roof };
    out->item  = rp__bump_alloc(&out->bump, (p->n + 1) * (int64_t)sizeof *out->item);
    out->order = rp__bump_alloc(&out->bump, (p->n + 1) * (int64_t)sizeof *out->order);
    if (!out->item || !out->order) return RP_ERR_MEMORY;
    for (int i = 0; i < p->n; i++) {
        place_item item = p->item[i];
        if (item.last < first || item.first > last) continue;
        item.buffer         = i;
        item.first          = item.first > first ? item.first - first : 0;
        item.last           = (item.last < last ? item.last : last) - first;
        out->order[out->n]  = &out->item[out->n];
        out->item[out->n++] = item;
    }
    return RP_OK;
}

/* Found: all that live in the window have their places in p, and are fixed there. */
static rp_status arrange_alone(search *s, int first, int last, bool *found)
{
    place_problem *p = s->p, window;
    search alone;
    rp_status status = cut_out(p, first, last, &window);

    if (status == RP_OK) status = open_search(&alone, &window, s->most_work - p->work);
    if (status == RP_OK) status = arrange(&alone, ROUNDS_ALONE);
    *found = status == RP_OK && alone.least == 0;
    p->work += window.work;
    for (int i = 0; i < window.n && *found; i++) {
        place_item *item = &p->item[window.item[i].buffer];
        item->offset     = alone.best[i];
        item->fixed      = true;
    }
    rp__bump_free(&window.bump);
    return status;
}

static const place_item *briefest_missing(const place_problem *p)
{
    const place_item *found = NULL;

    for (int i = 0; i < p->n; i++) {
        const place_item *item = &p->item[i];
        if (item->offset == PLACE_NOWHERE && (!found || place_life(item) < place_life(found))) found = item;
    }
    return found;
}

/* Wider and wider, as long as the window alone can be arranged and the rest does not get better for it. */
static rp_status focus(search *s, const bool *fixed, bool *better)
{
    place_problem *p = s->p;
    int64_t least    = s->least;
    bool found       = true;

    restore_best(s);
    place_item item = *briefest_missing(p);
    for (int i = 0; i < MOST_WIDTHS && found && s->least == least && !enough(s); i++) {
        int more  = i ? (place_life(&item) + 1) / 2 << i : 0;
        int first = item.first > more ? item.first - more : 0;
        int last  = item.last + more < p->n_instants ? item.last + more : p->n_instants - 1;
        RP_TRY(arrange_alone(s, first, last, &found));
        if (found) RP_TRY(arrange(s, ROUNDS));
        for (int k = 0; k < p->n; k++) p->item[k].fixed = fixed[k];
    }
    *better = s->least < least;
    return RP_OK;
}

static rp_status try_windows(search *s)
{
    bool *fixed = rp__bump_alloc(&s->p->bump, (s->p->n + 1) * (int64_t)sizeof *fixed), better = true;

    if (!fixed) return RP_ERR_MEMORY;
    for (int i = 0; i < s->p->n; i++) fixed[i] = s->p->item[i].fixed;
    for (int i = 0; i < MOST_WINDOWS && better && !enough(s); i++) RP_TRY(focus(s, fixed, &better));
    return RP_OK;
}

/* ---- above the roof ---- */

static rp_status put_on_top(place_problem *p)
{
    p->roof = INT64_MAX;
    rp__place_sort(p, rp__place_by_bytes);
    rp__place_room_clear(p);
    for (int i = 0; i < p->n; i++)
        if (p->order[i]->offset != PLACE_NOWHERE) RP_TRY(rp__place_room_take(p, p->order[i]));
    for (int i = 0; i < p->n; i++) {
        place_item *item = p->order[i];
        if (item->offset != PLACE_NOWHERE) continue;
        item->offset = rp__place_room_low(p, item);
        RP_TRY(rp__place_room_take(p, item));
    }
    return RP_OK;
}

static rp_status raise_roof(search *s)
{
    place_problem *p = s->p;
    int64_t bound = p->roof, height = p->roof - p->floor;

    for (int part = LEAST_RAISE; part >= 1 && s->least; part /= 4) {
        p->roof      = bound + rp__align_up(height / part);
        s->most_work = p->work + 8 * (int64_t)p->n;
        RP_TRY(try_rounds(s, rp__place_by_tight_life, 1, 0));
        RP_TRY(try_skylines(s));
    }
    restore_best(s);
    return put_on_top(p);
}

rp_status rp__place_search(place_problem *p)
{
    search s;

    RP_TRY(open_search(&s, p, MOST_WORK));
    RP_TRY(rp__place_choose_walls(p));
    RP_TRY(arrange(&s, ROUNDS));
    RP_TRY(try_windows(&s));
    if (s.least) return raise_roof(&s);
    restore_best(&s);
    return RP_OK;
}
