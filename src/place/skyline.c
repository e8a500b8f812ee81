/* place/skyline.c -- places items valley by valley, from the bottom up, between items that are already placed.
 *
 *     ▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔▔
 *     items from above      ┌──────
 *                       ┌───┘        The placed items form a skyline over the instants. Its lowest valley receives the first item of
 *               ┌───┐   └──┐         the order that lives within the valley and fits below the items above. If no item fits, the
 *       ┌───────┘   │   ┌──┘         valley is filled up to its lower edge; that space is wasted.
 *       │    ▲      └───┘
 *       └──────────────────▶ instants
 *
 * Greedy passes leave holes into which no remaining item fits. Here space is wasted only where no item fits. Each method often succeeds
 * where the other fails.
 */
#include "place/internal.h"

#include <stdlib.h>

typedef struct {
    int first, last;                /* instants */
    int64_t height;
    int before, after;              /* neighbouring valleys; NONE at the ends */
    bool gone;                      /* merged into another valley */
} valley;

enum { NONE = -1 };

typedef struct {
    place_problem *p;
    rp_bump bump;
    valley *valley;
    int n;
    int *heap, n_heap;              /* valleys, the lowest first */
    place_peaks ceiling;            /* for each instant, negated: the maximum is the lowest ceiling */
    place_item **born;              /* items to place, sorted by instant of birth, then by rank; NULL: placed, or can no longer fit */
    int *start;                     /* for each instant, the first of its items in `born` */
    int *next;                      /* link to the next instant that has items to place */
    int64_t n_looked;
} skyline;

/* ---- valleys ---- */

static bool lower(const skyline *s, int a, int b)
{
    const valley *x = &s->valley[a], *y = &s->valley[b];

    return x->height != y->height ? x->height < y->height : x->first < y->first;
}

static void heap_put(skyline *s, int v)
{
    int i = s->n_heap++;

    for (; i > 0 && lower(s, v, s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = v;
}

static int heap_take(skyline *s)
{
    int top = s->heap[0], v = s->heap[--s->n_heap], i = 0;

    for (int child; (child = 2 * i + 1) < s->n_heap; i = child) {
        if (child + 1 < s->n_heap && lower(s, s->heap[child + 1], s->heap[child])) child++;
        if (!lower(s, s->heap[child], v)) break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = v;
    return top;
}

/* Insert a valley between its neighbours. It merges with neighbours of the same height. Returns the number of the new valley. */
static int put_valley(skyline *s, valley v)
{
    if (v.before != NONE && s->valley[v.before].height == v.height) {
        s->valley[v.before].gone = true;
        v.first  = s->valley[v.before].first;
        v.before = s->valley[v.before].before;
    }
    if (v.after != NONE && s->valley[v.after].height == v.height) {
        s->valley[v.after].gone = true;
        v.last  = s->valley[v.after].last;
        v.after = s->valley[v.after].after;
    }
    s->valley[s->n] = v;
    if (v.before != NONE) s->valley[v.before].after = s->n;
    if (v.after != NONE) s->valley[v.after].before = s->n;
    heap_put(s, s->n);
    return s->n++;
}

static bool skyline_fill(skyline *s, valley v)
{
    int64_t left = v.before != NONE ? s->valley[v.before].height : INT64_MAX;
    int64_t right = v.after != NONE ? s->valley[v.after].height : INT64_MAX;

    v.height = left < right ? left : right;
    if (v.height == INT64_MAX) return false;
    put_valley(s, v);
    return true;
}

static void skyline_build(skyline *s, valley v, const place_item *item)
{
    int before = v.before, after = v.after;

    if (item->first > v.first)
        before = put_valley(s, (valley){ .first = v.first, .last = item->first - 1, .height = v.height, .before = before, .after = NONE });
    if (item->last < v.last)
        after = put_valley(s, (valley){ .first = item->last + 1, .last = v.last, .height = v.height, .before = NONE, .after = after });
    put_valley(s, (valley){ .first = item->first, .last = item->last, .height = place_end(item), .before = before, .after = after });
}

/* ---- items ---- */

static int by_birth(const void *left, const void *right)
{
    const place_item *a = *(place_item *const *)left, *b = *(place_item *const *)right;

    return a->first != b->first ? a->first - b->first : a->rank - b->rank;
}

static int next_birth(skyline *s, int instant)
{
    while (s->next[instant] != instant) instant = s->next[instant] = s->next[s->next[instant]];
    return instant;
}

/* Returns the first item born at an instant that lives within the valley and fits. Valleys only rise, so an item that does not fit now
 * never will. */
static int first_within(skyline *s, int instant, const valley *v)
{
    bool any = false;

    for (int i = s->start[instant]; i < s->start[instant + 1]; i++) {
        const place_item *item = s->born[i];
        s->n_looked++;
        if (!item) continue;
        any = true;
        if (item->last > v->last) continue;
        if (v->height + item->bytes <= -rp__place_peak(&s->ceiling, item->first, item->last)) return i;
        s->born[i] = NULL;
    }
    if (!any) s->next[instant] = instant + 1;
    return NONE;
}

/* Returns the first item of the order that fits; NULL: none. */
static place_item *skyline_choose(skyline *s, const valley *v)
{
    int found = NONE;

    for (int at = next_birth(s, v->first); at <= v->last; at = next_birth(s, at + 1)) {
        int i = first_within(s, at, v);
        if (i != NONE && (found == NONE || s->born[i]->rank < s->born[found]->rank)) found = i;
    }
    if (found == NONE) return NULL;
    place_item *item = s->born[found];
    s->born[found]   = NULL;
    return item;
}

static void list_births(skyline *s)
{
    place_problem *p = s->p;
    int n            = 0;

    for (int i = 0; i < p->n; i++)
        if (p->item[i].offset == PLACE_NOWHERE) s->born[n++] = &p->item[i];
    qsort(s->born, (size_t)n, sizeof *s->born, by_birth);
    for (int i = 0, at = 0; i <= p->n_instants; i++) {
        while (at < n && s->born[at]->first < i) at++;
        s->start[i] = at;
        s->next[i]  = i;
    }
}

/* ---- between placed items ---- */

/* Note that [low, high) is taken from instant `first` to `last`. Everything taken below must have been noted. */
static void note_taken(skyline *s, int64_t *ground, int64_t *top, int first, int last, int64_t low, int64_t high)
{
    for (int i = first; i <= last; i++) {
        if (low - top[i] > -s->ceiling.at[i] - ground[i]) {
            ground[i]        = top[i];
            s->ceiling.at[i] = -low;
        }
        if (high > top[i]) top[i] = high;
    }
}

/* Find the largest gap of each instant. */
static rp_status find_gaps(skyline *s, int64_t *ground)
{
    place_problem *p    = s->p;
    int64_t *top        = rp__bump_alloc(&s->bump, (p->n_instants + 1) * (int64_t)sizeof *top);
    place_item **placed = rp__bump_alloc(&s->bump, (p->n + 1) * (int64_t)sizeof *placed);

    if (!top || !placed) return RP_ERR_MEMORY;
    for (int i = 0; i < p->n_instants; i++) {
        top[i] = ground[i] = p->floor;
        s->ceiling.at[i]   = -p->floor;
    }
    for (int i = 0, n = rp__place_list_placed(p, placed); i < n; i++)
        note_taken(s, ground, top, placed[i]->first, placed[i]->last, placed[i]->offset, place_end(placed[i]));
    note_taken(s, ground, top, 0, p->n_instants - 1, p->roof, p->roof);
    rp__place_peaks_find(&s->ceiling);
    return RP_OK;
}

static rp_status lay_ground(skyline *s)
{
    int n           = s->p->n_instants, before = NONE;
    int64_t *ground = rp__bump_alloc(&s->bump, (n + 1) * (int64_t)sizeof *ground);

    if (!ground) return RP_ERR_MEMORY;
    RP_TRY(rp__place_peaks_new(&s->bump, n, &s->ceiling));
    RP_TRY(find_gaps(s, ground));
    for (int i = 0; i < n; i++)
        before = put_valley(s, (valley){ .first = i, .last = i, .height = ground[i], .before = before, .after = NONE });
    return RP_OK;
}

/* ---- the whole skyline ---- */

/* An item makes at most three valleys. Each valley that is filled up merges with another. */
static rp_status open_skyline(skyline *s)
{
    const place_problem *p = s->p;
    int64_t most           = 3 * ((int64_t)p->n_instants + 2 * p->n) + 8;

    s->valley = rp__bump_alloc(&s->bump, most * (int64_t)sizeof *s->valley);
    s->heap   = rp__bump_alloc(&s->bump, most * (int64_t)sizeof *s->heap);
    s->born   = rp__bump_alloc(&s->bump, (p->n + 1) * (int64_t)sizeof *s->born);
    s->start  = rp__bump_alloc(&s->bump, (p->n_instants + 1) * (int64_t)sizeof *s->start);
    s->next   = rp__bump_alloc(&s->bump, (p->n_instants + 1) * (int64_t)sizeof *s->next);
    return s->valley && s->heap && s->born && s->start && s->next ? RP_OK : RP_ERR_MEMORY;
}

static void fill_in(skyline *s)
{
    while (s->n_heap) {
        valley v = s->valley[heap_take(s)];
        if (v.gone) continue;
        place_item *item = skyline_choose(s, &v);
        if (item) {
            item->offset = v.height;
            skyline_build(s, v, item);
        } else if (!skyline_fill(s, v)) return;
    }
}

rp_status rp__place_skyline(place_problem *p)
{
    skyline s        = { .p = p, .bump = { .ctx = p->bump.ctx } };
    rp_status status = open_skyline(&s);

    if (status == RP_OK) {
        list_births(&s);
        status = lay_ground(&s);
    }
    if (status == RP_OK) fill_in(&s);
    p->work += s.n_looked / PLACE_LOOKS_PER_TRY;
    rp__bump_free(&s.bump);
    return status;
}
