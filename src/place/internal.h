/* place/internal.h -- shared by the parts of the placement; only place/, bench/place.c and tests include it.
 *
 *   place.c     turns buffers into items and back; the bound
 *   room.c      finds room for an item without looking at every other item
 *   greedy.c    places item after item, each in the first gap from its wall
 *   skyline.c   places valley after valley, from the bottom up
 *   window.c    places a few remaining items by branch and bound
 *   search.c    decides which of these run, and when
 *
 * Time is counted in instants. Everything that is live at some event is also live at the last take of a run of consecutive takes. Nothing
 * is born between two such events. So a run of takes is one instant, and two buffers overlap in time exactly if they share an instant.
 */
#ifndef RP_PLACE_INTERNAL_H
#define RP_PLACE_INTERNAL_H

#include "base/bump.h"
#include "place/place.h"

enum { PLACE_NOWHERE = -1 };
enum { PLACE_LOOKS_PER_TRY = 32 };      /* unit of work: finding room for one item takes as long as looking at this many other items */

typedef struct {
    int64_t bytes, offset;          /* PLACE_NOWHERE: not placed, or no place found */
    int64_t tight;                  /* largest live sum during its life; items with a large one have few possible places */
    int first, last;                /* instants, both inclusive */
    int buffer;                     /* index of the caller's buffer */
    int turned;                     /* how often it changed to the other wall */
    int rank;                       /* position in the current order */
    bool high, fixed;               /* high: its place is searched from the top down */
} place_item;

typedef struct place_room place_room;

typedef struct {
    rp_bump bump;                   /* owns all memory of the problem */
    place_item *item;
    place_item **order;             /* all items, in the order of placement */
    int n, n_instants;
    int64_t floor, roof, most;      /* items may lie in [floor, roof); a roof above `most` is useless */
    place_room *room;
    int64_t work;
    unsigned without;               /* bits of heuristics to leave out, as for rp__place_without */
} place_problem;

static inline bool place_meet(const place_item *a, const place_item *b) { return a->first <= b->last && b->first <= a->last; }
static inline int64_t place_end(const place_item *item) { return item->offset + item->bytes; }
static inline int place_life(const place_item *item) { return item->last - item->first + 1; }

/* ---- the maximum of a stretch of numbers, in constant time ---- */

typedef struct { int64_t *at; int n; } place_peaks;    /* [level][i]: maximum of 2^level numbers from i on */

/* Allocate zeros. Fill in at[0 … n-1], then call rp__place_peaks_find to compute the other levels. Errors: RP_ERR_MEMORY. */
rp_status rp__place_peaks_new(rp_bump *bump, int n, place_peaks *out);
void rp__place_peaks_find(place_peaks *peaks);
int64_t rp__place_peak(const place_peaks *peaks, int first, int last);

/* ---- room: an arena, empty at first, into which items are put. Errors: RP_ERR_MEMORY ---- */

rp_status rp__place_room_new(place_problem *p);
void rp__place_room_clear(place_problem *p);
/* Returns the lowest offset from the floor up at which the item overlaps no other. rp__place_room_high: the highest one below the roof.
 * PLACE_NOWHERE: none. */
int64_t rp__place_room_low(place_problem *p, const place_item *item);
int64_t rp__place_room_high(place_problem *p, const place_item *item);
rp_status rp__place_room_take(place_problem *p, const place_item *item);

/* ---- orders ---- */

typedef int place_compare(const void *left, const void *right);
/* Compare pointers to items. tight_life and tight_area: tightest first, then longest life or largest area. area: largest area first.
 * offset: lowest offset first. No order has ties. */
place_compare rp__place_by_tight_life, rp__place_by_tight_area, rp__place_by_area, rp__place_by_offset;
void rp__place_sort(place_problem *p, place_compare *order);
/* List the placed items, lowest first; returns their number. `list` must have room for all items. */
int rp__place_list_placed(place_problem *p, place_item **list);

/* ---- heuristics that place items in the current order; some items may stay unplaced. Errors: RP_ERR_MEMORY ---- */

/* Choose the wall of each item before a greedy pass. Items that live for fewer than `life` instants use the lower wall. */
rp_status rp__place_choose_walls(place_problem *p, int life);
/* Move items that keep holes open during the life of an unplaced item to the other wall. *n: their number. */
rp_status rp__place_turn(place_problem *p, int *n);
/* Place the items that live for at least `life` instants into an empty arena. */
rp_status rp__place_greedy(place_problem *p, int life);
/* Place the unplaced items between the placed ones. */
rp_status rp__place_skyline(place_problem *p);
/* Place a few unplaced items by moving others. */
rp_status rp__place_mend(place_problem *p);

/* ---- the search ---- */

/* Bits of heuristics: first the parts of the search, then the entries of its table. */
enum { PLACE_TURNS, PLACE_WINDOWS, PLACE_RAISES, PLACE_WAYS };
/* Returns the name of entry i of the table; NULL: no such entry. */
const char *rp__place_way(int i);
/* Like rp__place, without some heuristics, to measure their effect. Errors: RP_ERR_MEMORY. */
rp_status rp__place_without(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, unsigned without, rp_placement *out);

/* Find the best of many tries. With most == RP_PLACE_ANY, items without a place below the roof are put above it, as low as possible.
 * *placed: all items lie below p->most. Errors: RP_ERR_MEMORY. */
rp_status rp__place_search(place_problem *p, bool *placed);

#endif
