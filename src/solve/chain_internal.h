/* solve/chain_internal.h -- what the files of the chain solver share: fronts, bounds, tables of regions and the search.
 *
 *   chain.c         the solver: the searches it tries
 *   chain_ticks.c   the objective: seconds as ticks
 *   chain_walk.c    the bytes of a plan, by a walk through a step
 *   chain_front.c   fronts: the ways through a rest of the chain, by bytes and ticks
 *   chain_bound.c   Lagrangian bounds
 *   chain_cut.c     bounds on parts of a plan
 *   chain_search.c  the exact search: fronts from the last segment to the first, cut by bounds
 *   nested.c        fronts of regions, thinned; nested_stretch.c chooses the regions
 *
 * A front belongs to a rest of the chain, segments i … n-1. Its point (bytes, ticks) stands for a way through this rest that fits whenever
 * M(i) + bytes <= budget and recomputes for `ticks`. With an option of segment i before it
 *
 *   bytes(i) = max(need of the option at i, saved + bytes(i + 1))        ticks(i) = ticks of the option + ticks(i + 1)
 *
 * So bytes(0) is exactly the bytes of the whole plan for any budget. A point with fewer bytes and no more ticks is never worse.
 *
 * Time is counted in ticks. A tick is a power of two of a second, so small that a whole plan takes less than 2^61 of them. Sums are exact,
 * so neither the order of summation nor rounding decides anything, and equal times compare equal.
 */
#ifndef RP_SOLVE_CHAIN_INTERNAL_H
#define RP_SOLVE_CHAIN_INTERNAL_H

#include "base/bump.h"
#include "solve/chain.h"

#define RP_CHAIN_NOWHERE (-(INT64_C(1) << 60))      /* minus infinity: the bytes that an empty rest needs */
#define RP_CHAIN_MOST (INT64_C(1) << 60)            /* larger budgets count as this one */

typedef struct { int64_t bytes, ticks; } rp_chain_point;        /* of a front: bytes rise, ticks fall */
typedef struct { const rp_chain_point *at; int64_t n; } rp_chain_front;
typedef struct { rp_chain_point *at; int64_t n, room; } rp_chain_list;
typedef struct { int64_t first, n; } rp_chain_span;             /* a front that lies in a list */

/* Derived from a chain once. */
typedef struct {
    rp_ctx *ctx;
    const rp_chain *chain;
    rp_bump bump;                   /* memory of these arrays and of tables of regions; lists own theirs */
    int tick;                       /* a tick is 2^tick seconds */
    int64_t **ticks;                /* [class][option] */
    int64_t **ticks_in[2];          /* the same in a region, replay included: 0 in its middle, 1 as its last segment */
    int **by_saved;                 /* [class]: options by bytes saved, then by ticks */
    int64_t *bare_ticks;            /* [class] */
    bool *alone;                    /* [class]: a region of one such segment may be useful */
    int64_t *rest_bytes;            /* [n + 1]: every way through the rest from i needs at least these bytes; without regions */
    int64_t unit;                   /* all saved bytes and outputs are multiples of it */
    int64_t work;                   /* points visited */
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

/* Maximum of the left sides of the constraints of segment i, without M(i): of its backward with `bytes` by kind; of forward and backward. */
int64_t rp__chain_need_backward(const rp_chain *chain, int i, const int64_t *bytes);
int64_t rp__chain_need(const rp_chain *chain, int i, const rp_chain_option *o);
/* Minimum over both positions, in a region or not, of the bytes that its backward needs. */
int64_t rp__chain_need_anywhere(const rp_chain *chain, int i, const rp_chain_option *o);
/* Fixed bytes of the forward of segment i; fixed bytes of replays of a region that ends at `end`. */
int64_t rp__chain_fixed_forward(const rp_chain *chain, int i);
int64_t rp__chain_fixed_recompute(const rp_chain *chain, int end);
/* Bytes of the first forward of segment i in a region that begins at `first`, without M(first). */
int64_t rp__chain_bare(const rp_chain *chain, int first, int i);
/* Bytes of the backward of a region's last segment before the replay, without M(first). */
int64_t rp__chain_waiting(const rp_chain *chain, int end);

/* The least bytes of a rest from segment i that begins with one of its options and needs `behind` bytes after it. */
int64_t rp__chain_least_option(const rp_chain *chain, int i, int64_t behind);

/* ---- fronts ---- */

static inline rp_chain_front rp__list_front(const rp_chain_list *list, rp_chain_span s)
{
    return (rp_chain_front){ list->at + s.first, s.n };
}

/* How the points of a front change when something precedes it: bytes become max(floor, bytes + shift), `ticks` are added. */
typedef struct { int64_t shift, floor, ticks, most; } rp_chain_move;
/* Merges `a` with `b` moved, without dominated points and without moved points above `most` bytes. Returns the number of points. `out` has
 * room for both fronts. */
int64_t rp__front_merge(rp_chain_front a, rp_chain_front b, const rp_chain_move *move, rp_chain_point *out);
/* Combines two fronts that must both be passed, each with its own shift, above `floor` bytes: ticks add up. Returns the number of points. */
int64_t rp__front_join(rp_chain_front a, int64_t shift_a, rp_chain_front b, int64_t shift_b, const rp_chain_move *move,
                       rp_chain_point *out);
/* Thins a front. A cell holds the points whose bytes, counted from the origin, agree in their highest `bits` bits, so it is at most
 * 2^(1-bits) of the distance wide. Each cell keeps the point of fewest ticks and the point furthest below the line from its first to its
 * last point. Returns the number of points kept. */
int64_t rp__front_thin(rp_chain_point *at, int64_t n, int64_t origin, int bits);
/* Thins a front to about `most` points (one or two more at most), by cells of equal width. The first point is kept. */
int64_t rp__front_thin_to(rp_chain_point *at, int64_t n, int64_t most);
/* Returns the last byte of the cell that contains `bytes`. */
int64_t rp__front_cell_end(int64_t bytes, int64_t origin, int bits);
/* Returns the points of at most `ticks` ticks. */
rp_chain_front rp__front_fast(rp_chain_front f, double ticks);
/* Returns the point of fewest ticks among those of at most `bytes` bytes; NULL: none. */
const rp_chain_point *rp__front_find(rp_chain_front f, int64_t bytes);

/* Finished fronts in `store`, and the front being built in `front`; the other lists are scratch. */
typedef struct {
    rp_chain_work *work;
    rp_chain_list store, front, other, joined;
} rp_chain_fronts;

/* Merges a front, moved, into the front being built. errors RP_ERR_MEMORY */
rp_status rp__fronts_merge(rp_chain_fronts *f, rp_chain_front front, const rp_chain_move *move);
/* Merges two fronts, joined as by rp__front_join, into the front being built. errors RP_ERR_MEMORY */
rp_status rp__fronts_join(rp_chain_fronts *f, rp_chain_front a, int64_t shift_a, rp_chain_front b, int64_t shift_b, const rp_chain_move *move);
/* Appends the front being built to the store. errors RP_ERR_MEMORY */
rp_status rp__fronts_keep(rp_chain_fronts *f, rp_chain_span *out);
void rp__fronts_close(rp_chain_fronts *f);

/* ---- bounds ---- */

#define RP_CHAIN_ERROR 0x1p-44      /* relative; far above the rounding error of these sums of doubles */

typedef struct { int first, n; } rp_chain_hull;     /* corners of the lower hull of a segment's (saved, ticks) */

typedef struct {
    rp_chain_work *work;
    rp_bump bump;
    int64_t budget;
    bool regions;                   /* it holds for plans with regions as well */
    rp_chain_hull *hull;            /* of each segment */
    rp_chain_point *corner;
    int64_t *least;                 /* [n + 1]: prefix sums of the least `saved` */
    double *fewest;                 /* [n]: fewest ticks of each segment, ignoring bytes */
    double *price;                  /* of a byte, in ticks: the prices tried, highest first */
    int n_prices;
    double *ways;                   /* [n + 1][n_prices]: the least cost of the segments before i at each price */
    double *before;                 /* [n + 1]: the least ticks of the segments before i, for any rest */
    double scale, most_error;       /* magnitude of the sums; largest error of the doubles that follow */
    double bound;                   /* every plan takes at least these ticks */
    int row;                        /* the segment whose constraint gives the bound … */
    double lambda;                  /* … at this price */
    double step;                    /* largest difference in ticks between neighbours on a hull at that price */
    double *upto, *from;            /* [n + 1]: at that price, the least cost of the segments before i, and from i on */
    double *recompute[2], *closed[2];   /* [n + 1]: least ticks of segments in a region: added by its replay, and in total. [0]: sums up to i for
                                         * segments that are not its last; [1]: for segment i as its last */
} rp_chain_bound;

/* Whether rp__bound_open may be called: judged by the options alone, some plan may fit the budget. */
bool rp__bound_exists(const rp_chain_work *w, int64_t budget, bool regions);
/* Opens a bound. Close it even if this fails. errors RP_ERR_MEMORY */
rp_status rp__bound_open(rp_chain_bound *b, rp_chain_work *w, int64_t budget, bool regions);
static inline void rp__bound_close(rp_chain_bound *b) { rp__bump_free(&b->bump); }
/* Whether a plan within the budget may have the option, judged by the option's own constraints; the bytes of it that count in the bound. */
bool rp__bound_allows(const rp_chain_bound *b, int i, const rp_chain_option *o);
int64_t rp__bound_need(const rp_chain_bound *b, int i, const rp_chain_option *o);
static inline double rp__bound_output(const rp_chain_bound *b, int i) { return (double)rp__chain_class_at(b->work->chain, i)->output; }

/* ---- cuts ---- */

/* Drops the points of a front of the rest from i that belong to no plan of at most `ticks`. Returns the number of points left. */
int64_t rp__bound_cut(const rp_chain_bound *b, int i, double ticks, rp_chain_point *at, int64_t n);
/* Lower bounds on the ticks of a plan in which, outside regions, segment i meets option o, or [first, end) is an outermost region. */
double rp__bound_option(const rp_chain_bound *b, int i, int o);
double rp__bound_region(const rp_chain_bound *b, int first, int end);
/* In a plan of at most `ticks`, the inside of the region takes at most the returned ticks. */
double rp__bound_inside(const rp_chain_bound *b, int first, int end, double ticks);

/* ---- regions ---- */

typedef struct rp_chain_nest rp_chain_nest;

/* Whether a block begins with segment i. The end of the chain counts as the beginning of a block. */
static inline bool rp__chain_begins_block(const rp_chain *c, int i)
{
    return i == 0 || i == c->n || !c->layer || c->layer[i] < 0 || c->layer[i] != c->layer[i - 1];
}

/* Chooses the regions that plans may have. Long fronts will be thinned to cells of `bits` bits, or fewer if the work limit requires it. If
 * that is not enough, regions end at fewer places (nested_stretch.c). errors RP_ERR_MEMORY */
enum { RP_CHAIN_FINE = 10 };
rp_status rp__nest_open(rp_chain_work *w, int bits, rp_chain_nest **out);
/* From here on fronts cover the budget at least. A budget larger than all before discards existing fronts. */
void rp__nest_limit(rp_chain_nest *nest, int64_t budget);
/* Builds the front of an allowed region; it exists until a call of rp__nest_limit with a larger budget. errors RP_ERR_MEMORY */
rp_status rp__nest_fill(rp_chain_nest *nest, int first, int end);
void rp__nest_close(rp_chain_nest *nest);
bool rp__nest_allows(const rp_chain_nest *nest, int first, int end);
/* Whether fronts were thinned or regions left out; rp_chain_plan's grain. */
bool rp__nest_is_thin(const rp_chain_nest *nest);
int rp__nest_grain(const rp_chain_nest *nest);
/* Finds the least budget of a plan with or without regions; needs no fronts. errors RP_ERR_MEMORY */
rp_status rp__nest_least(const rp_chain_nest *nest, const rp_chain_work *w, int64_t *bytes);
/* Bytes are relative to M(first) and to the fixed bytes at the beginning of the replay of a region that ends at `end`. */
rp_chain_front rp__nest_front(const rp_chain_nest *nest, int first, int end);
/* Adds the region and its contents to a plan: the way of its front with found.bytes and found.ticks. */
void rp__nest_read(const rp_chain_nest *nest, int first, int end, rp_chain_point found, int parent, rp_chain_plan *plan);

/* ---- the search ---- */

typedef struct { rp_chain_plan plan; int64_t ticks; } rp_chain_found;

int64_t rp__chain_ticks(const rp_chain_work *w, const rp_chain_plan *plan);

/* Finds the best plan for the bound's budget, which must have one, with regions unless `nest` is NULL. Plans of more than `cap` ticks may
 * be missed. Sets everything but the plan's seconds and bound. The caller owns the plan even if this fails. errors RP_ERR_MEMORY */
rp_status rp__chain_search(rp_chain_bound *bound, rp_chain_nest *nest, int64_t cap, rp_chain_found *out);

#endif
