/* place/internal.h -- what the parts of the placement share; place*.c alone include this.
 *
 *   place.c           buffers become items, items get their offsets; the bound
 *   room.c      where there is room for an item, found without looking at the others one by one
 *   greedy.c    item after item, each in the first gap from its wall
 *   skyline.c   valley after valley, from the bottom up
 *   window.c    the few that find no place, by branch and bound
 *   search.c    which of these when
 *
 * Time is counted in instants. What lives at an event lives, with others or not, at the last take of a row of takes; between two such
 * events nobody is born. So a row of takes is one instant, and two buffers meet if and only if they share one.
 */
#ifndef RP_PLACE_INTERNAL_H
#define RP_PLACE_INTERNAL_H

#include "base/bump.h"
#include "place/place.h"

enum { PLACE_NOWHERE = -1 };
enum { PLACE_LOOKS_PER_TRY = 32 };      /* of work: to find room for one item takes as long as that many looks at others */

typedef struct {
    int64_t bytes, offset;          /* PLACE_NOWHERE: none yet, or none was found */
    int64_t tight;                  /* the greatest live sum while it lives: who has much has little room to choose from */
    int first, last;                /* instants, both included */
    int buffer;                     /* the caller's */
    int turned;                     /* how often it took the other wall */
    int rank;                       /* in the order of the moment */
    bool high, fixed;               /* high: it looks for its place from the top down */
} place_item;

typedef struct place_room place_room;

typedef struct {
    rp_bump bump;                   /* all that is allocated */
    place_item *item;
    place_item **order;             /* all items, in the order they are placed in */
    int n, n_instants;
    int64_t floor, roof, most;      /* items may lie in [floor, roof); nobody asks for a roof above `most` */
    place_room *room;
    int64_t work;
    unsigned without;               /* bits of heuristics that are left out, as rp__place_without */
} place_problem;

static inline bool place_meet(const place_item *a, const place_item *b) { return a->first <= b->last && b->first <= a->last; }
static inline int64_t place_end(const place_item *item) { return item->offset + item->bytes; }
static inline int place_life(const place_item *item) { return item->last - item->first + 1; }

/* ---- the greatest of a stretch of numbers, in constant time ---- */

typedef struct { int64_t *at; int n; } place_peaks;    /* [level][i]: of 2^level numbers from i on */

/* Zeros, to be filled in at[0 … n-1]; then find the rest. errors RP_ERR_MEMORY */
rp_status rp__place_peaks_new(rp_bump *bump, int n, place_peaks *out);
void rp__place_peaks_find(place_peaks *peaks);
int64_t rp__place_peak(const place_peaks *peaks, int first, int last);

/* ---- room: an empty arena, in which items are put down ---- */

rp_status rp__place_room_new(place_problem *p);
void rp__place_room_clear(place_problem *p);
/* The lowest offset from the floor up where the item meets nobody, or the highest one below the roof; PLACE_NOWHERE. */
int64_t rp__place_room_low(place_problem *p, const place_item *item);
int64_t rp__place_room_high(place_problem *p, const place_item *item);
rp_status rp__place_room_take(place_problem *p, const place_item *item);

/* ---- orders ---- */

typedef int place_compare(const void *left, const void *right);
/* Compare pointers to items. The tightest first, and among these the longest lived or the one of the greatest area; or the greatest area
 * first; or the lowest offset first. No order leaves a tie. */
place_compare rp__place_by_tight_life, rp__place_by_tight_area, rp__place_by_area, rp__place_by_offset;
void rp__place_sort(place_problem *p, place_compare *order);
/* Items that have a place, the lowest first; returns how many. `list` has room for all items. */
int rp__place_list_placed(place_problem *p, place_item **list);

/* ---- ways to place items, in the order of the moment; some may be nowhere afterwards ---- */

/* Which wall each looks from: before a greedy pass. Who lives for fewer instants than `life` looks from below. */
rp_status rp__place_choose_walls(place_problem *p, int life);
/* Those who keep holes open beside who is nowhere take the other wall; *n: how many. */
rp_status rp__place_turn(place_problem *p, int *n);
/* From nothing, those that live at least so many instants. */
rp_status rp__place_greedy(place_problem *p, int life);
/* Those that are nowhere, between the others. */
rp_status rp__place_skyline(place_problem *p);
/* The few that are nowhere, others being moved for them. */
rp_status rp__place_mend(place_problem *p);

/* ---- the search ---- */

/* The bits of heuristics: parts of the search, then the lines of its table. */
enum { PLACE_TURNS, PLACE_WINDOWS, PLACE_RAISES, PLACE_WAYS };
/* The name of line i of the table; NULL: there is none. */
const char *rp__place_way(int i);
/* rp__place with some heuristics left out, to measure what they are worth. errors RP_ERR_MEMORY */
rp_status rp__place_without(rp_ctx *ctx, rp_place_buffer *buffer, int n, int64_t most, unsigned without, rp_placement *out);

/* The best of many tries. Who finds no place below the roof is put above it, as low as can be. *placed: all lie below p->most. */
rp_status rp__place_search(place_problem *p, bool *placed);

#endif
