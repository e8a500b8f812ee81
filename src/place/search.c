/* place/search.c -- the table of heuristics, and the order in which they are tried.
 *
 *   1. walls: a greedy pass, which places most traces; then passes in which buffers that keep holes open take the other wall
 *   2. skylines: a greedy pass for long-lived buffers and a skyline for the others, with an increasing limit for "long-lived"
 *   3. the same below a higher roof, raised by as little as possible
 *
 * After each try, if few buffers are unplaced, each of them is placed in a window of its own.
 *
 * To add a heuristic, write a function that places items and ends with search_settle(), and add an entry to `ways`. bench/place then shows
 * which traces need it.
 */
#include "place/internal.h"

#include <limits.h>

enum { WALLS_WORK = 300000, SKYLINE_WORK = 350000, ASKED_WORK = 100000, RAISED_WORK = 15000 };
enum { MOST_ROUNDS = 4, MOST_MENDED = 8, LONG_LIFE = 16, BRIEF = 4, LEAST_RAISE = 4096 };

typedef struct {
    place_problem *p;
    int64_t *best, least;           /* offsets of the best try · bytes it left unplaced */
    int64_t most_work;
} search;

/* ---- tries ---- */

static int64_t missing(const place_problem *p, int *n)
{
    int64_t bytes = 0;

    *n = 0;
    for (int i = 0; i < p->n; i++) {
        if (p->item[i].offset != PLACE_NOWHERE) continue;
        bytes += p->item[i].bytes;
        ++*n;
    }
    return bytes;
}

/* Returns the number of unplaced items. */
static int search_note(search *s)
{
    int n;
    int64_t bytes = missing(s->p, &n);

    if (bytes >= s->least) return n;
    s->least = bytes;
    for (int i = 0; i < s->p->n; i++) s->best[i] = s->p->item[i].offset;
    return n;
}

static bool is_left_out(const place_problem *p, int heuristic) { return p->without >> heuristic & 1; }

static rp_status search_settle(search *s)
{
    int n = search_note(s);

    if (!n || n > MOST_MENDED || is_left_out(s->p, PLACE_WINDOWS)) return RP_OK;
    RP_TRY(rp__place_mend(s->p));
    search_note(s);
    return RP_OK;
}

static bool enough(const search *s) { return s->least == 0 || s->p->work > s->most_work; }

/* *turned: number of items that use the other wall in the next pass. */
static rp_status try_greedy(search *s, int *turned)
{
    rp__place_sort(s->p, rp__place_by_tight_life);
    RP_TRY(rp__place_greedy(s->p, 1));
    RP_TRY(rp__place_turn(s->p, turned));
    return search_settle(s);
}

/* Items that live for at least `life` instants may use either wall, others only the lower one. */
static rp_status try_turned(search *s, int life)
{
    int most = is_left_out(s->p, PLACE_TURNS) ? 0 : MOST_ROUNDS;

    if (enough(s)) return RP_OK;
    RP_TRY(rp__place_choose_walls(s->p, life));
    for (int round = 0, turned = 1; round <= most && turned && !enough(s); round++) RP_TRY(try_greedy(s, &turned));
    return RP_OK;
}

static rp_status try_walls(search *s, place_compare *order)
{
    (void)order;
    return try_turned(s, 1);
}

static rp_status try_long_walls(search *s, place_compare *order)
{
    (void)order;
    for (int64_t life = LONG_LIFE; life < s->p->n_instants; life *= 4) RP_TRY(try_turned(s, (int)life));
    return RP_OK;
}

/* Place items that live for at least `life` instants first, then the others. */
static rp_status try_mixed(search *s, int life, place_compare *order)
{
    if (enough(s)) return RP_OK;
    rp__place_sort(s->p, rp__place_by_tight_life);
    RP_TRY(rp__place_greedy(s->p, life));
    rp__place_sort(s->p, order);
    RP_TRY(rp__place_skyline(s->p));
    return search_settle(s);
}

static rp_status try_skylines(search *s, place_compare *order)
{
    if (enough(s)) return RP_OK;
    RP_TRY(rp__place_choose_walls(s->p, 1));
    RP_TRY(try_mixed(s, INT_MAX, order));
    for (int64_t life = BRIEF; life < s->p->n_instants; life *= 2) RP_TRY(try_mixed(s, (int)life, order));
    return RP_OK;
}

/* ---- the table ---- */

enum { WALLS, SKYLINES, KINDS };        /* entries of one kind share a work limit */

static const struct {
    const char *name;
    int kind;
    rp_status (*try)(search *s, place_compare *order);
    place_compare *order;
} ways[] = {
    { "walls", WALLS, try_walls, NULL },
    { "walls for long lives", WALLS, try_long_walls, NULL },
    { "skylines by area", SKYLINES, try_skylines, rp__place_by_tight_area },
    { "skylines by life", SKYLINES, try_skylines, rp__place_by_tight_life },
};

const char *rp__place_way(int i) { return i < RP_COUNT(ways) ? ways[i].name : NULL; }

static rp_status try_ways(search *s, int64_t walls_work, int64_t skyline_work)
{
    const int64_t work[KINDS] = { walls_work, skyline_work };

    for (int i = 0; i < RP_COUNT(ways); i++) {
        if (!i || ways[i].kind != ways[i - 1].kind) s->most_work = s->p->work + work[ways[i].kind];
        if (!is_left_out(s->p, PLACE_WAYS + i)) RP_TRY(ways[i].try(s, ways[i].order));
    }
    return RP_OK;
}

/* ---- above the roof ---- */

static rp_status raise_roof(search *s)
{
    place_problem *p = s->p;
    int64_t bound = p->roof, height = p->roof - p->floor;

    if (is_left_out(p, PLACE_RAISES)) return RP_OK;
    for (int part = LEAST_RAISE; part >= 1 && s->least && p->roof < p->most; part /= 4) {
        int64_t roof = bound + rp__align_up(height / part);
        p->roof      = roof < p->most ? roof : p->most;
        RP_TRY(try_ways(s, RAISED_WORK, RAISED_WORK));
    }
    return RP_OK;
}

/* If nothing helps, unplaced items are put above all others, as low as possible. */
static rp_status put_on_top(place_problem *p)
{
    p->roof = INT64_MAX;
    rp__place_sort(p, rp__place_by_area);
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

rp_status rp__place_search(place_problem *p, bool *placed)
{
    search s = { .p = p, .least = INT64_MAX };

    s.best = rp__bump_alloc(&p->bump, (p->n + 1) * (int64_t)sizeof *s.best);
    if (!s.best) return RP_ERR_MEMORY;
    RP_TRY(rp__place_room_new(p));
    RP_TRY(try_ways(&s, WALLS_WORK, p->most < RP_PLACE_ANY ? ASKED_WORK : SKYLINE_WORK));     /* with a limit, the caller may try another plan */
    RP_TRY(raise_roof(&s));
    for (int i = 0; i < p->n; i++) p->item[i].offset = s.best[i];
    *placed = !s.least || p->most >= RP_PLACE_ANY;
    return s.least && *placed ? put_on_top(p) : RP_OK;
}
