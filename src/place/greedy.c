/* place/greedy.c -- places item after item, each in the first gap from its wall.
 *
 * The tightest instant has no byte to spare. Items that live then are placed first, side by side; the order only decides what is free at
 * other instants. This works well for nested lives: long ones at the wall, short ones towards the middle. There are two walls because two
 * kinds of long lives cross: values saved by a forward end while long-lived values of the backward begin. So each item takes the wall at
 * which fewer bytes of longer lives cross its own life.
 */
#include "place/internal.h"

#include <stdlib.h>

enum { MOST_TURNS = 3 };

/* ---- orders ---- */

static int most_first(int64_t a, int64_t b) { return a == b ? 0 : a > b ? -1 : 1; }

static int earliest(const place_item *a, const place_item *b)
{
    return a->first != b->first ? (a->first < b->first ? -1 : 1) : a->buffer - b->buffer;
}

static int by_life(const void *left, const void *right)
{
    const place_item *a = *(place_item *const *)left, *b = *(place_item *const *)right;
    int order           = most_first(place_life(a), place_life(b));

    if (!order) order = most_first(a->bytes, b->bytes);
    return order ? order : earliest(a, b);
}

int rp__place_by_area(const void *left, const void *right)
{
    const place_item *a = *(place_item *const *)left, *b = *(place_item *const *)right;
    double x = (double)a->bytes * place_life(a), y = (double)b->bytes * place_life(b);

    return x != y ? (x > y ? -1 : 1) : earliest(a, b);
}

int rp__place_by_offset(const void *left, const void *right)
{
    const place_item *a = *(place_item *const *)left, *b = *(place_item *const *)right;

    return a->offset != b->offset ? (a->offset < b->offset ? -1 : 1) : a->buffer - b->buffer;
}

static int by_tight(const void *left, const void *right, place_compare *then)
{
    int order = most_first((*(place_item *const *)left)->tight, (*(place_item *const *)right)->tight);

    return order ? order : then(left, right);
}

int rp__place_by_tight_life(const void *left, const void *right) { return by_tight(left, right, by_life); }
int rp__place_by_tight_area(const void *left, const void *right) { return by_tight(left, right, rp__place_by_area); }

void rp__place_sort(place_problem *p, place_compare *order)
{
    qsort(p->order, (size_t)p->n, sizeof *p->order, order);
    for (int i = 0; i < p->n; i++) p->order[i]->rank = i;
}

int rp__place_list_placed(place_problem *p, place_item **list)
{
    int n = 0;

    for (int i = 0; i < p->n; i++)
        if (p->item[i].offset != PLACE_NOWHERE) list[n++] = &p->item[i];
    qsort(list, (size_t)n, sizeof *list, rp__place_by_offset);
    return n;
}

/* ---- walls ---- */

/* Bytes for each instant, as a binary indexed tree. */
typedef struct { int64_t *at; int n; } sums;

static void sums_add(sums *s, int instant, int64_t bytes)
{
    for (int i = instant + 1; i <= s->n; i += i & -i) s->at[i] += bytes;
}

static int64_t sums_before(const sums *s, int instant)
{
    int64_t sum = 0;

    for (int i = instant; i > 0; i -= i & -i) sum += s->at[i];
    return sum;
}

typedef struct { sums first, last; } wall;         /* births and deaths of the items at this wall */

static rp_status wall_new(place_problem *p, wall *w)
{
    int64_t bytes = (p->n_instants + 1) * (int64_t)sizeof(int64_t);

    *w = (wall){ { rp__bump_alloc(&p->bump, bytes), p->n_instants }, { rp__bump_alloc(&p->bump, bytes), p->n_instants } };
    return w->first.at && w->last.at ? RP_OK : RP_ERR_MEMORY;
}

/* Returns the bytes of items at the wall that are born or die during the item's life. They live at least as long as the item, so their
 * lives cross its life. */
static int64_t crossing(const wall *w, const place_item *item)
{
    return sums_before(&w->first, item->last + 1) - sums_before(&w->first, item->first + 1) + sums_before(&w->last, item->last) -
           sums_before(&w->last, item->first);
}

rp_status rp__place_choose_walls(place_problem *p, int life)
{
    wall low, high;

    RP_TRY(wall_new(p, &low));
    RP_TRY(wall_new(p, &high));
    rp__place_sort(p, by_life);
    for (int i = 0; i < p->n; i++) {
        place_item *item = p->order[i];
        item->turned     = 0;
        item->high       = !item->fixed && place_life(item) >= life && crossing(&high, item) < crossing(&low, item);
        wall *w          = item->high ? &high : &low;
        sums_add(&w->first, item->first, item->bytes);
        sums_add(&w->last, item->last, item->bytes);
    }
    return RP_OK;
}

static bool turn(place_item *item, bool from_high)
{
    if (item->fixed || item->high != from_high || item->turned >= MOST_TURNS) return false;
    item->high = !from_high;
    item->turned++;
    return true;
}

/* During the life of an unplaced item, the largest gap is the middle between the two stacks. Any other free space is a hole in a stack. The
 * item next to the hole on the side of the middle keeps it open, so it changes to the other wall. Returns how many changed. */
static int turn_around(place_problem *p, const place_item *missing, place_item **near)
{
    int n = 0, turned = 0;
    int64_t top = p->floor, widest = -1, middle = 0;

    for (int i = 0; i < p->n; i++)
        if (p->item[i].offset != PLACE_NOWHERE && place_meet(&p->item[i], missing)) near[n++] = &p->item[i];
    qsort(near, (size_t)n, sizeof *near, rp__place_by_offset);
    for (int i = 0; i <= n; i++) {
        int64_t end = i < n ? near[i]->offset : p->roof;
        if (end - top > widest) {
            widest = end - top;
            middle = top;
        }
        if (i < n && place_end(near[i]) > top) top = place_end(near[i]);
    }
    top = p->floor;
    for (int i = 0, below = -1; i <= n; i++) {
        int64_t end = i < n ? near[i]->offset : p->roof;
        int at      = top > middle ? below : i < n ? i : -1;
        if (end > top && top != middle && at >= 0 && turn(near[at], top > middle)) turned++;
        if (i < n && place_end(near[i]) > top) {
            top   = place_end(near[i]);
            below = i;
        }
    }
    return turned;
}

rp_status rp__place_turn(place_problem *p, int *n)
{
    rp_bump bump      = { .ctx = p->bump.ctx };
    place_item **near = rp__bump_alloc(&bump, (p->n + 1) * (int64_t)sizeof *near);

    *n = 0;
    if (!near) return RP_ERR_MEMORY;
    for (int i = 0; i < p->n; i++) {
        if (p->item[i].offset != PLACE_NOWHERE) continue;
        *n += turn_around(p, &p->item[i], near);
        p->work += p->n / PLACE_LOOKS_PER_TRY;
    }
    rp__bump_free(&bump);
    return RP_OK;
}

/* ---- the greedy pass ---- */

rp_status rp__place_greedy(place_problem *p, int life)
{
    rp__place_room_clear(p);
    for (int i = 0; i < p->n; i++)
        if (p->item[i].fixed) RP_TRY(rp__place_room_take(p, &p->item[i]));
    for (int i = 0; i < p->n; i++) {
        place_item *item = p->order[i];
        if (item->fixed) continue;
        item->offset = PLACE_NOWHERE;
        if (place_life(item) < life) continue;
        item->offset = item->high ? rp__place_room_high(p, item) : rp__place_room_low(p, item);
        if (item->offset != PLACE_NOWHERE) RP_TRY(rp__place_room_take(p, item));
    }
    return RP_OK;
}
