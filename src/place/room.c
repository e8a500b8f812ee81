/* place/room.c -- finds room for an item.
 *
 * The data structure is a tree over the instants. Each node has two sets of addresses. `any` holds addresses taken at some instant below
 * the node. `all` holds addresses taken at every instant below it, by an item that covers the node. The life of an item, [a, b], is made up
 * of a few nodes. The item is added to `all` of these nodes, and to `any` of these nodes and their ancestors. The addresses taken for an
 * item are then `any` of the nodes that make up its life and `all` of their ancestors. A set is a list of extents that do not touch, so a
 * whole stack of items is one extent.
 */
#include "place/internal.h"

#include <string.h>

enum { MOST_LISTS = 128 };

typedef struct { int64_t low, high; } extent;             /* high is exclusive */
typedef struct { extent *at; int n, room; } extents;     /* sorted */

struct place_room {
    int n_leaves;                   /* a power of two; node 1 is the root, node n_leaves + i is instant i */
    extents *any, *all;
};

rp_status rp__place_room_new(place_problem *p)
{
    place_room *room = rp__bump_alloc(&p->bump, sizeof *room);

    if (!room) return RP_ERR_MEMORY;
    room->n_leaves = 1;
    while (room->n_leaves < p->n_instants) room->n_leaves *= 2;
    room->any = rp__bump_alloc(&p->bump, 2 * room->n_leaves * (int64_t)sizeof *room->any);
    room->all = rp__bump_alloc(&p->bump, 2 * room->n_leaves * (int64_t)sizeof *room->all);
    p->room   = room;
    return room->any && room->all ? RP_OK : RP_ERR_MEMORY;
}

void rp__place_room_clear(place_problem *p)
{
    for (int i = 0; i < 2 * p->room->n_leaves; i++) p->room->any[i].n = p->room->all[i].n = 0;
}

/* ---- extents ---- */

static bool widen(rp_bump *bump, extents *list)
{
    int room   = list->room ? 2 * list->room : 2;
    extent *at = rp__bump_alloc(bump, room * (int64_t)sizeof *at);

    if (!at) return false;
    if (list->n) memcpy(at, list->at, (size_t)list->n * sizeof *at);
    list->at   = at;
    list->room = room;
    return true;
}

/* Returns the first extent that ends at or after `low`. */
static int room_find(const extents *list, int64_t low)
{
    int a = 0, b = list->n;

    while (a < b) {
        int middle = (a + b) / 2;
        if (list->at[middle].high < low) a = middle + 1;
        else b = middle;
    }
    return a;
}

static bool room_add(rp_bump *bump, extents *list, int64_t low, int64_t high)
{
    int i = room_find(list, low), j = i;

    for (; j < list->n && list->at[j].low <= high; j++) {
        if (list->at[j].low < low) low = list->at[j].low;
        if (list->at[j].high > high) high = list->at[j].high;
    }
    if (i == j && list->n == list->room && !widen(bump, list)) return false;
    if (j != i + 1) memmove(list->at + i + 1, list->at + j, (size_t)(list->n - j) * sizeof *list->at);
    list->n += 1 - (j - i);
    list->at[i] = (extent){ low, high };
    return true;
}

/* ---- nodes ---- */

static bool room_fill(rp_bump *bump, place_room *room, int node, int64_t low, int64_t high)
{
    return room_add(bump, &room->all[node], low, high) && room_add(bump, &room->any[node], low, high);
}

rp_status rp__place_room_take(place_problem *p, const place_item *item)
{
    place_room *room = p->room;
    int64_t low = item->offset, high = low + item->bytes;
    int a = item->first + room->n_leaves, b = item->last + room->n_leaves;
    bool ok = true;

    for (int l = a, r = b + 1; ok && l < r; l /= 2, r /= 2) {
        if (l % 2) ok = room_fill(&p->bump, room, l++, low, high);
        if (r % 2) ok = ok && room_fill(&p->bump, room, --r, low, high);
    }
    for (; ok && a; a /= 2, b /= 2) {
        ok = room_add(&p->bump, &room->any[a], low, high);
        if (ok && b != a) ok = room_add(&p->bump, &room->any[b], low, high);
    }
    return ok ? RP_OK : RP_ERR_MEMORY;
}

static int room_put(const extents *list, const extents **lists, int n)
{
    if (list->n) lists[n++] = list;
    return n;
}

static int lists_of(const place_room *room, const place_item *item, const extents **lists)
{
    int a = item->first + room->n_leaves, b = item->last + room->n_leaves, n = 0;

    for (int l = a, r = b + 1; l < r; l /= 2, r /= 2) {
        if (l % 2) n = room_put(&room->any[l++], lists, n);
        if (r % 2) n = room_put(&room->any[--r], lists, n);
    }
    for (a /= 2, b /= 2; a; a /= 2, b /= 2) {
        n = room_put(&room->all[a], lists, n);
        if (b != a) n = room_put(&room->all[b], lists, n);
    }
    return n;
}

/* ---- searching a gap ---- */

int64_t rp__place_room_low(place_problem *p, const place_item *item)
{
    const extents *lists[MOST_LISTS];
    int n = lists_of(p->room, item, lists), next[MOST_LISTS];
    int64_t offset = p->floor;
    bool moved     = true;

    p->work++;
    for (int i = 0; i < n; i++) next[i] = room_find(lists[i], offset + 1);
    while (moved) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const extents *list = lists[i];
            for (; next[i] < list->n && list->at[next[i]].low < offset + item->bytes; next[i]++) {
                if (list->at[next[i]].high <= offset) continue;
                offset = list->at[next[i]].high;
                moved  = true;
            }
        }
    }
    return offset + item->bytes <= p->roof ? offset : PLACE_NOWHERE;
}

int64_t rp__place_room_high(place_problem *p, const place_item *item)
{
    const extents *lists[MOST_LISTS];
    int n = lists_of(p->room, item, lists), next[MOST_LISTS];
    int64_t end = p->roof;
    bool moved  = true;

    p->work++;
    for (int i = 0; i < n; i++) next[i] = lists[i]->n - 1;
    while (moved) {
        moved = false;
        for (int i = 0; i < n; i++) {
            const extents *list = lists[i];
            for (; next[i] >= 0 && list->at[next[i]].high > end - item->bytes; next[i]--) {
                if (list->at[next[i]].low >= end) continue;
                end   = list->at[next[i]].low;
                moved = true;
            }
        }
    }
    return end - item->bytes >= p->floor ? end - item->bytes : PLACE_NOWHERE;
}
