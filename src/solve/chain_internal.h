/* solve/chain_internal.h -- what the parts of the chain's solver share: fronts, bounds, tables of regions, the search.
 *
 *   chain.c         the solver: which searches it tries
 *   chain_ticks.c   the objective: seconds as ticks, the better of two plans
 *   chain_walk.c    the bytes of a plan, by a walk through a step
 *   chain_front.c   fronts: the ways through a rest of the chain, by what they need and how long they take
 *   chain_bound.c   Lagrangian bounds
 *   chain_cut.c     what they say about parts of a plan
 *   chain_search.c  the exact search: fronts from the last segment to the first, cut by bounds
 *   nested.c        fronts of regions, thinned; nested_stretch.c which regions
 *   chain_modes.c   plans that everybody knows
 *
 * A front belongs to a rest of the chain, segments i … n-1. A point (bytes, ticks) of it says: there is a way through this rest which
 * fits wherever M(i) + bytes <= budget, and it runs `ticks` again. With an option of segment i in front of it
 *
 *   bytes(i) = max(need of the option at i, saved + bytes(i + 1))        ticks(i) = ticks of the option + ticks(i + 1)
 *
 * so bytes(0) is exactly what the whole plan takes, whatever the budget was, and fewer bytes with no more ticks is never worse.
 *
 * Time is counted in ticks, a power of two of a second so small that all of a plan takes less than 2^61 of them: sums are exact, so
 * that orders of summation and rounding decide nothing, and equal is equal.
 */
#ifndef RP_SOLVE_CHAIN_INTERNAL_H
#define RP_SOLVE_CHAIN_INTERNAL_H

#include "base/bump.h"
#include "solve/chain.h"

#define RP_CHAIN_NOWHERE (-(INT64_C(1) << 60))      /* what nothing needs */
#define RP_CHAIN_MOST (INT64_C(1) << 60)            /* no budget is greater */

typedef struct { int64_t bytes, ticks; } rp_chain_point;        /* of a front: bytes rise, ticks fall */
typedef struct { const rp_chain_point *at; int64_t n; } rp_chain_front;
typedef struct { rp_chain_point *at; int64_t n, room; } rp_chain_list;
typedef struct { int64_t first, n; } rp_chain_span;             /* a front that lies in a list */

/* What is derived from a chain once. */
typedef struct {
    rp_ctx *ctx;
    const rp_chain *chain;
    rp_bump bump;                   /* what is here and in bounds and tables of regions; lists are on their own */
    int tick;                       /* a tick is 2^tick seconds */
    int64_t **ticks;                /* [class][option] */
    int64_t **ticks_in[2];          /* the same in a region, run again for it: 0 in its middle, 1 as its last */
    int **by_saved;                 /* [class]: options by bytes saved, then by ticks */
    int64_t *bare_ticks;            /* [class] */
    bool *alone;                    /* [class]: a region of one such segment may be of use */
    int64_t *rest_bytes;            /* [n + 1]: no way through the rest from here needs fewer bytes; regions aside */
    int64_t unit;                   /* what is saved are multiples of it */
    int64_t work;                   /* points looked at */
} rp_chain_work;

rp_status rp__chain_open(rp_chain_work *w, rp_ctx *ctx, const rp_chain *chain);
void rp__chain_close(rp_chain_work *w);

static inline const rp_chain_class *rp__chain_class_at(const rp_chain *c, int i) { return &c->class_of[c->segment[i]]; }
static inline int64_t rp__more(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t rp__less(int64_t a, int64_t b) { return a < b ? a : b; }

static inline bool rp__chain_may_be_region(const rp_chain_work *w, int first, int end)
{
    return !rp__chain_class_at(w->chain, end - 1)->never_last && (end > first + 1 || w->alone[w->chain->segment[first]]);
}

/* The left sides of the constraints of segment i without M(i): of its backward, `bytes` by kind, and of both passes. */
int64_t rp__chain_need_backward(const rp_chain *chain, int i, const int64_t *bytes);
int64_t rp__chain_need(const rp_chain *chain, int i, const rp_chain_option *o);
/* What its backward needs at least, in a region or not. */
int64_t rp__chain_need_anywhere(const rp_chain *chain, int i, const rp_chain_option *o);
/* What is fixed in the forward of segment i, and in forwards run again for a region that ends at `end`. */
int64_t rp__chain_fixed_forward(const rp_chain *chain, int i);
int64_t rp__chain_fixed_recompute(const rp_chain *chain, int end);
/* The first forward of segment i of a region that begins at `first`, without M(first). */
int64_t rp__chain_bare(const rp_chain *chain, int first, int i);
/* In the backward of a region's last segment, before the region runs again: without M(first). */
int64_t rp__chain_waiting(const rp_chain *chain, int end);

/* The least that a rest from segment i needs which begins with one of its options and then needs `behind`. */
int64_t rp__chain_least_option(const rp_chain *chain, int i, int64_t behind);

/* ---- fronts ---- */

static inline rp_chain_front rp__list_front(const rp_chain_list *list, rp_chain_span s)
{
    return (rp_chain_front){ list->at + s.first, s.n };
}

/* How the points of a front change when something comes before it: bytes become max(floor, bytes + shift). */
typedef struct { int64_t shift, floor, ticks, most; } rp_chain_move;
/* All that is not dominated in `a` and in `b` moved, as far as it needs no more than `most`; returns how many. `out` has room for both. */
int64_t rp__front_merge(rp_chain_front a, rp_chain_front b, const rp_chain_move *move, rp_chain_point *out);
/* Both must be gone through, each with its own shift, where there are `floor` bytes at least: ticks add up. */
int64_t rp__front_join(rp_chain_front a, int64_t shift_a, rp_chain_front b, int64_t shift_b, const rp_chain_move *move,
                       rp_chain_point *out);
/* A cell is the bytes that, counted from the origin, have the same highest `bits` bits: no wider than 2^(1-bits) of the distance. Of its
 * points there remain that of fewest ticks and the one furthest below the line between the first and the last; returns how many in all. */
int64_t rp__front_thin(rp_chain_point *at, int64_t n, int64_t origin, int bits);
/* As many at most, and one or two more: cells of equal width. The first point remains. */
int64_t rp__front_thin_to(rp_chain_point *at, int64_t n, int64_t most);
/* The last byte of the cell of `bytes`. */
int64_t rp__front_cell_end(int64_t bytes, int64_t origin, int bits);
/* The points of at most so many ticks. */
rp_chain_front rp__front_fast(rp_chain_front f, double ticks);
/* The point of fewest ticks that needs no more than `bytes`, NULL: none. */
const rp_chain_point *rp__front_find(rp_chain_front f, int64_t bytes);

/* Fronts in `store`, and the one that is being made. */
typedef struct {
    rp_chain_work *work;
    rp_chain_list store, front, other, joined;
} rp_chain_fronts;

/* Merge a front, moved, into the one that is being made. errors RP_ERR_MEMORY */
rp_status rp__fronts_merge(rp_chain_fronts *f, rp_chain_front front, const rp_chain_move *move);
/* The same with two fronts joined (rp__front_join). errors RP_ERR_MEMORY */
rp_status rp__fronts_join(rp_chain_fronts *f, rp_chain_front a, int64_t shift_a, rp_chain_front b, int64_t shift_b, const rp_chain_move *move);
/* Append the front that is being made to the store. errors RP_ERR_MEMORY */
rp_status rp__fronts_keep(rp_chain_fronts *f, rp_chain_span *out);
void rp__fronts_close(rp_chain_fronts *f);

/* ---- bounds ---- */

#define RP_CHAIN_ERROR 0x1p-44      /* far more than sums of doubles lose here, relative */

typedef struct { int first, n; } rp_chain_hull;     /* corners of the lower hull of a segment's (saved, ticks) */

typedef struct {
    rp_chain_work *work;
    rp_bump bump;
    int64_t budget;
    bool regions;                   /* it holds for plans with regions, too */
    rp_chain_hull *hull;            /* of each segment */
    rp_chain_point *corner;
    int64_t *least;                 /* [n + 1]: sums of the least saved */
    double *fewest;                 /* [n]: ticks of each segment where bytes do not matter */
    double *price;                  /* of a byte, in ticks: those that are tried, dearest first */
    int n_prices;
    double *ways;                   /* [n + 1][n_prices]: what the segments before i take at least at each price */
    double *before;                 /* [n + 1]: and in any case, whatever follows */
    double scale, most_error;       /* of the sums; how far off the doubles that follow may be */
    double bound;                   /* no plan takes fewer ticks */
    int row;                        /* the segment whose constraint says so … */
    double lambda;                  /* … at this price */
    double step;                    /* what neighbours on a hull differ by there */
    double *upto, *from;            /* [n + 1]: at that price, the least of the segments before i, and from i on */
    double *recompute[2], *closed[2];   /* [n + 1]: ticks of a segment in a region at least, of its forward run again and in all. 0: sums up to i, of
                                     * those that are not its last; 1: of segment i as that */
} rp_chain_bound;

/* Whether it can be opened: as far as options alone say, some plan may fit. */
bool rp__bound_exists(const rp_chain_work *w, int64_t budget, bool regions);
/* Close it whatever comes back. errors RP_ERR_MEMORY */
rp_status rp__bound_open(rp_chain_bound *b, rp_chain_work *w, int64_t budget, bool regions);
static inline void rp__bound_close(rp_chain_bound *b) { rp__bump_free(&b->bump); }
/* Whether a plan in the budget may have the option, as far as its own constraints say; what of them counts in the bound. */
bool rp__bound_allows(const rp_chain_bound *b, int i, const rp_chain_option *o);
int64_t rp__bound_need(const rp_chain_bound *b, int i, const rp_chain_option *o);
static inline double rp__bound_output(const rp_chain_bound *b, int i) { return (double)rp__chain_class_at(b->work->chain, i)->output; }

/* ---- cuts ---- */

/* Drop the points of a front of the rest from i that are on no plan of at most `ticks`; returns how many remain. */
int64_t rp__bound_cut(const rp_chain_bound *b, int i, double ticks, rp_chain_point *at, int64_t n);
/* No plan in which segment i meets option o on the first level, in which [first, end) is a region there, takes fewer ticks than this. */
double rp__bound_option(const rp_chain_bound *b, int i, int o);
double rp__bound_region(const rp_chain_bound *b, int first, int end);
/* And in a plan of at most `ticks` the region's inside takes no more than this. */
double rp__bound_inside(const rp_chain_bound *b, int first, int end, double ticks);

/* ---- regions ---- */

typedef struct rp_chain_nest rp_chain_nest;

/* Whether a block begins with segment i; one ends with the chain. */
static inline bool rp__chain_begins_block(const rp_chain *c, int i)
{
    return i == 0 || i == c->n || !c->layer || c->layer[i] < 0 || c->layer[i] != c->layer[i - 1];
}

/* What regions there are. Long fronts will be thinned to cells of `bits` bits, of fewer where there were too much to do; where that does
 * not help, regions end at fewer places (nested_stretch.c). errors RP_ERR_MEMORY */
enum { RP_CHAIN_FINE = 10 };
rp_status rp__nest_open(rp_chain_work *w, int bits, rp_chain_nest **out);
/* From here on fronts go as far as the budget does, or further. */
void rp__nest_limit(rp_chain_nest *nest, int64_t budget);
/* The front of a region that is allowed is there from here on, until a greater limit. errors RP_ERR_MEMORY */
rp_status rp__nest_fill(rp_chain_nest *nest, int first, int end);
void rp__nest_close(rp_chain_nest *nest);
bool rp__nest_allows(const rp_chain_nest *nest, int first, int end);
/* Whether there could be more in its fronts, or more of them; where regions end: rp_chain_plan's grain. */
bool rp__nest_is_thin(const rp_chain_nest *nest);
int rp__nest_grain(const rp_chain_nest *nest);
/* The least budget of a plan with regions or without; needs no fronts. errors RP_ERR_MEMORY */
rp_status rp__nest_least(const rp_chain_nest *nest, const rp_chain_work *w, int64_t *bytes);
/* Bytes are relative to M(first) and to what is fixed when a region that ends there runs again. */
rp_chain_front rp__nest_front(const rp_chain_nest *nest, int first, int end);
/* Add the region and what is in it to a plan: that of the front's way which has `found` bytes and takes found.ticks. */
void rp__nest_read(const rp_chain_nest *nest, int first, int end, rp_chain_point found, int parent, rp_chain_plan *plan);

/* ---- the search ---- */

typedef struct { rp_chain_plan plan; int64_t ticks; } rp_chain_found;

/* The better of two plans stays at *best with the bounds that were there, the other is freed. */
void rp__chain_keep(rp_chain_found *best, rp_chain_found *other);
int64_t rp__chain_ticks(const rp_chain_work *w, const rp_chain_plan *plan);

/* The best plan in the bound's budget, in which some plan fits, with regions where `nest` has some. Of those of more ticks than `cap` it
 * knows nothing. The plan has all but its seconds and bound; it is the caller's even where this fails. errors RP_ERR_MEMORY */
rp_status rp__chain_search(rp_chain_bound *bound, rp_chain_nest *nest, int64_t cap, rp_chain_found *out);

/* ---- modes ---- */

/* Its bytes and ticks are those of the plan; not feasible: the chain does not have it. errors RP_ERR_MEMORY */
rp_status rp__chain_mode(const rp_chain_work *w, int mode, rp_chain_found *out);

#endif
