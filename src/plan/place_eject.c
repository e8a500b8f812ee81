/* plan/place_eject.c -- those that are nowhere take places of others, which then look for others in turn.
 *
 * An item that is nowhere goes where those in its way weigh least; they lose their places and look for others. Whoever has lost his weighs more
 * from then on, so that a few do not chase each other for ever. Who lives long weighs most: there many would have to move with him. A greedy pass
 * leaves a few without a place, each in another part of the step: here all the rest stays.
 */
#include "plan/place_inside.h"

#include <stdlib.h>

enum { LONG_LIFE = 100, LONG_WEIGHT = 1000 };

typedef struct {
    place_problem *p;
    place_item **at;                /* all items, by birth; the numbers below are places here */
    int *last;                      /* of the tree whose root is the middle, and so on: the latest death below each */
    int *lost;                      /* how often each has lost its place */
    place_heap heap;                /* those that are nowhere, the largest on top */
    int *by_offset, *by_end, n;     /* those that have a place and meet the one that looks */
} eject;

/* ---- who meets whom ---- */

static int by_first(const void *left, const void *right)
{
    const place_item *a = *(place_item *const *)left, *b = *(place_item *const *)right;

    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->buffer - b->buffer;
}

static int find_last(eject *e, int from, int to)
{
    int middle = from + (to - from) / 2;

    if (from >= to) return -1;
    int most = e->at[middle]->last, left = find_last(e, from, middle), right = find_last(e, middle + 1, to);
    most     = left > most ? left : most;
    return e->last[middle] = right > most ? right : most;
}

static void list_near(eject *e, const place_item *item, int from, int to)
{
    int middle = from + (to - from) / 2;

    if (from >= to || e->last[middle] < item->first) return;
    list_near(e, item, from, middle);
    if (e->at[middle]->first > item->last) return;
    if (e->at[middle]->last >= item->first && e->at[middle]->offset != PLACE_NOWHERE) e->by_offset[e->n++] = middle;
    list_near(e, item, middle + 1, to);
}

/* By insertion: they come nearly in order. */
static void sort(const eject *e, int *list, bool by_end)
{
    for (int i = 1; i < e->n; i++) {
        int moved = list[i], j = i;
        int64_t key = e->at[moved]->offset + (by_end ? e->at[moved]->bytes : 0);
        for (; j && e->at[list[j - 1]]->offset + (by_end ? e->at[list[j - 1]]->bytes : 0) > key; j--) list[j] = list[j - 1];
        list[j] = moved;
    }
}

/* ---- who is nowhere ---- */

static bool larger(const void *owner, int a, int b)
{
    const eject *e = owner;

    return e->at[a]->bytes != e->at[b]->bytes ? e->at[a]->bytes > e->at[b]->bytes : a < b;
}

/* ---- a place ---- */

#define NEVER 1e300

static double weight(const eject *e, int i)
{
    const place_item *item = e->at[i];

    if (item->fixed) return NEVER;
    return (double)item->bytes * (1 + e->lost[i]) * (place_life(item) > LONG_LIFE ? LONG_WEIGHT : 1);
}

/* Those who begin below an address, and those who end at or below another, as both rise. */
typedef struct { double begun, ended; int n_begun, n_ended; } sweep;

typedef struct { int64_t offset; double weight; } found;

static void try_offset(const eject *e, sweep *s, const place_item *item, int64_t offset, found *best)
{
    if (offset < e->p->floor || offset + item->bytes > e->p->roof) return;
    for (; s->n_begun < e->n && e->at[e->by_offset[s->n_begun]]->offset < offset + item->bytes; s->n_begun++) s->begun += weight(e, e->by_offset[s->n_begun]);
    for (; s->n_ended < e->n && place_end(e->at[e->by_end[s->n_ended]]) <= offset; s->n_ended++) s->ended += weight(e, e->by_end[s->n_ended]);
    if (s->begun - s->ended < best->weight) *best = (found){ offset, s->begun - s->ended };
}

/* On top of another, or just below one. PLACE_NOWHERE: what is fixed leaves none. */
static int64_t find_place(eject *e, const place_item *item)
{
    found best = { PLACE_NOWHERE, NEVER / 2 };
    sweep up = { 0 }, down = { 0 };

    e->n = 0;
    list_near(e, item, 0, e->p->n);
    sort(e, e->by_offset, false);
    for (int i = 0; i < e->n; i++) e->by_end[i] = e->by_offset[i];
    sort(e, e->by_end, true);
    try_offset(e, &up, item, e->p->floor, &best);
    for (int i = 0; i < e->n; i++) try_offset(e, &up, item, place_end(e->at[e->by_end[i]]), &best);
    for (int i = 0; i < e->n; i++) try_offset(e, &down, item, e->at[e->by_offset[i]]->offset - item->bytes, &best);
    try_offset(e, &down, item, e->p->roof - item->bytes, &best);
    e->p->work += 1 + e->n / PLACE_LOOKS_PER_TRY;
    return best.offset;
}

static void clear_place(eject *e, int64_t offset, int64_t bytes)
{
    for (int i = 0; i < e->n; i++) {
        place_item *other = e->at[e->by_offset[i]];
        if (other->offset >= offset + bytes || place_end(other) <= offset) continue;
        other->offset = PLACE_NOWHERE;
        e->lost[e->by_offset[i]]++;
        place_heap_put(&e->heap, e->by_offset[i]);
    }
}

/* ---- all of them ---- */

static rp_status make_room(eject *e, rp_bump *bump)
{
    int64_t n = e->p->n + 1;

    e->at   = rp__bump_alloc(bump, n * (int64_t)sizeof *e->at);
    e->last = rp__bump_alloc(bump, 5 * n * (int64_t)sizeof *e->last);
    if (!e->at || !e->last) return RP_ERR_MEMORY;
    e->lost      = e->last + n;
    e->heap      = (place_heap){ .at = e->lost + n, .before = larger, .owner = e };
    e->by_offset = e->heap.at + n;
    e->by_end    = e->by_offset + n;
    for (int i = 0; i < e->p->n; i++) e->at[i] = &e->p->item[i];
    qsort(e->at, (size_t)e->p->n, sizeof *e->at, by_first);
    find_last(e, 0, e->p->n);
    for (int i = 0; i < e->p->n; i++)
        if (e->at[i]->offset == PLACE_NOWHERE) place_heap_put(&e->heap, i);
    return RP_OK;
}

rp_status rp__place_eject(place_problem *p, int64_t most_work)
{
    rp_bump bump     = { .ctx = p->bump.ctx };
    eject e          = { .p = p };
    rp_status status = make_room(&e, &bump);

    for (int64_t until = p->work + most_work; status == RP_OK && e.heap.n && p->work < until;) {
        place_item *item = e.at[place_heap_take(&e.heap)];
        int64_t offset   = find_place(&e, item);
        if (offset == PLACE_NOWHERE) break;
        clear_place(&e, offset, item->bytes);
        item->offset = offset;
    }
    rp__bump_free(&bump);
    return status;
}
