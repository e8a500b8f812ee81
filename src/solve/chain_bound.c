/* solve/chain_bound.c -- Lagrangian lower bounds: a price on bytes replaces all but one of the constraints.
 *
 * The constraint of segment r alone is: saved before r + need of r <= budget. With a price l >= 0 for each byte above the budget,
 *
 *   ticks of any plan >= sum (i < r) min (ticks + l saved) + min (ticks of r + l need) + sum (i > r) min ticks - l budget
 *
 * The bound is the maximum over r and l. As a function of l it is concave and piecewise linear. Its pieces meet at the slopes of the lower
 * hulls of the options' (saved, ticks) and (need, ticks). Those slopes are tried first, then prices between two of them. The minimum at the
 * best price lies within one edge of one hull. So the best plan under that constraint alone exceeds the bound by less than one such edge.
 *
 * With regions, a segment before r is either open or in a region that has not been replayed yet. An open segment holds what its option
 * saves. In such a region only the last segment's output is held. Each of its segments still takes some option and a recomputed forward,
 * both at the cheapest position. So the first sum becomes a shortest path through the segments, by open ones and such regions. Only
 * backward constraints count, because in regions forwards run elsewhere.
 *
 * Bounds on parts of plans are in chain_cut.c. See Fisher, The Lagrangian relaxation method for solving integer programming problems (1981).
 */
#include "solve/chain_internal.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_PRICES = 160, REFINEMENTS = 48 };

bool rp__bound_allows(const rp_chain_bound *b, int i, const rp_chain_option *o)
{
    if (b->regions) return rp__chain_need_anywhere(b->work->chain, i, o) <= b->budget;
    return b->least[i] + rp__chain_need(b->work->chain, i, o) <= b->budget &&
           b->least[i] + o->saved + b->work->rest_bytes[i + 1] <= b->budget;
}

int64_t rp__bound_need(const rp_chain_bound *b, int i, const rp_chain_option *o)
{
    return b->regions ? rp__chain_need_anywhere(b->work->chain, i, o) : rp__chain_need(b->work->chain, i, o);
}

/* ---- hulls ---- */

static double slope_of(const rp_chain_point *a, const rp_chain_point *b)
{
    return (double)(a->ticks - b->ticks) / (double)(b->bytes - a->bytes);
}

/* From points by rising bytes, keeps the corners of the lower hull as far as ticks fall. */
static int keep_corners(rp_chain_point *p, int n)
{
    int kept = 0;

    for (int i = 0; i < n; i++) {
        if (kept && p[i].ticks >= p[kept - 1].ticks) continue;
        if (kept && p[i].bytes == p[kept - 1].bytes) kept--;
        while (kept > 1 && slope_of(&p[kept - 2], &p[kept - 1]) <= slope_of(&p[kept - 1], &p[i])) kept--;
        p[kept++] = p[i];
    }
    return kept;
}

static int saved_hull(const rp_chain_bound *b, int i, rp_chain_point *p)
{
    const rp_chain *chain   = b->work->chain;
    const rp_chain_class *c = rp__chain_class_at(chain, i);
    int class = chain->segment[i], n = 0;

    for (int at = 0; at < c->n_options; at++) {
        int o = b->work->by_saved[class][at];
        if (rp__bound_allows(b, i, &c->option[o])) p[n++] = (rp_chain_point){ c->option[o].saved, b->work->ticks[class][o] };
    }
    return keep_corners(p, n);
}

static int by_bytes(const void *left, const void *right)
{
    const rp_chain_point *a = left, *b = right;

    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    return (a->ticks > b->ticks) - (a->ticks < b->ticks);
}

static int need_hull(const rp_chain_bound *b, int i, rp_chain_point *p)
{
    const rp_chain_class *c = rp__chain_class_at(b->work->chain, i);
    int n                   = 0;

    for (int o = 0; o < c->n_options; o++)
        if (rp__bound_allows(b, i, &c->option[o]))
            p[n++] = (rp_chain_point){ rp__bound_need(b, i, &c->option[o]), b->work->ticks[b->work->chain->segment[i]][o] };
    qsort(p, (size_t)n, sizeof *p, by_bytes);
    return keep_corners(p, n);
}

/* The least of ticks + price * (bytes - origin) over the corners from *at on. Prices must fall from call to call, as *at only advances. */
static double lowest(const rp_chain_point *corner, int n, double price, int64_t origin, int *at)
{
    while (*at + 1 < n && slope_of(&corner[*at], &corner[*at + 1]) >= price) ++*at;
    return (double)corner[*at].ticks + price * (double)(corner[*at].bytes - origin);
}

/* Computes the least ticks of segment i in a region that has not been replayed yet, ignoring bytes, for two positions: last, and in the
 * middle, where it may be the last of an inner region. Adds them to the sums. Returns the greater of the two. */
static double sum_closed(rp_chain_bound *b, int i)
{
    const rp_chain_work *w  = b->work;
    const rp_chain_class *c = rp__chain_class_at(w->chain, i);
    int class               = w->chain->segment[i];
    double recompute[2] = { INFINITY, INFINITY }, closed[2] = { INFINITY, INFINITY };

    for (int o = 0; o < c->n_options; o++) {
        double ticks = (double)w->ticks[class][o], middle = (double)w->ticks_in[0][class][o], last = (double)w->ticks_in[1][class][o];
        if (!rp__bound_allows(b, i, &c->option[o])) continue;
        if (c->never_last) last = INFINITY;
        middle    = fmin(middle, last + (double)w->bare_ticks[class]);
        closed[0] = fmin(closed[0], middle);
        closed[1] = fmin(closed[1], last);
        recompute[0]  = fmin(recompute[0], middle - ticks);
        recompute[1]  = fmin(recompute[1], last - ticks);
    }
    for (int in = 0; in < 2; in++) {
        b->recompute[in][in ? i : i + 1]  = recompute[in] + (in ? 0 : b->recompute[0][i]);
        b->closed[in][in ? i : i + 1] = closed[in] + (in ? 0 : b->closed[0][i]);
    }
    return c->never_last ? closed[0] : fmax(closed[0], closed[1]);
}

static void make_hulls(rp_chain_bound *b)
{
    int n = 0;

    for (int i = 0; i < b->work->chain->n; i++) {
        b->hull[i]   = (rp_chain_hull){ .first = n, .n = saved_hull(b, i, b->corner + n) };
        b->fewest[i] = (double)b->corner[n + b->hull[i].n - 1].ticks;
        b->scale += (double)b->corner[n].ticks;
        if (b->regions) b->scale += sum_closed(b, i);
        n += b->hull[i].n;
    }
}

/* ---- prices ---- */

static int dearest_first(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return (a < b) - (a > b);
}

/* All slopes, or a sample if there are many, and 0. */
static void choose_prices(rp_chain_bound *b, double *slope)
{
    int n = 0, different = 0;

    for (int i = 0; i < b->work->chain->n; i++)
        for (int e = 0; e + 1 < b->hull[i].n; e++) {
            const rp_chain_point *corner = b->corner + b->hull[i].first + e;
            slope[n++]                   = slope_of(corner, corner + 1);
        }
    qsort(slope, (size_t)n, sizeof *slope, dearest_first);
    for (int e = 0; e < n; e++)
        if (!e || slope[e] != slope[different - 1]) slope[different++] = slope[e];
    b->n_prices = different < MOST_PRICES - 1 ? different : MOST_PRICES - 1;
    for (int p = 0; p < b->n_prices; p++) b->price[p] = slope[(int64_t)p * different / b->n_prices];
    b->price[b->n_prices++] = 0;
}

/* ---- the segments before a row ---- */

static double closed_middle(const rp_chain_bound *b, int i) { return b->closed[0][i + 1] - b->closed[0][i]; }

/* The least cost up to the end of segment i: by one of its options, or as the last segment of a region. *inside: the least cost if i lies
 * in a region that continues. */
static double step_on(const rp_chain_bound *b, int i, double price, double before, double open, double *inside)
{
    double longer = *inside, begun = fmin(*inside, before);

    if (!b->regions || i + 1 == b->work->chain->n) return before + open;
    *inside = begun + closed_middle(b, i);
    return fmin(before + open, (rp__chain_may_be_region(b->work, i, i + 1) ? begun : longer) + b->closed[1][i] + price * rp__bound_output(b, i));
}

static double *priced(const rp_chain_bound *b, int i) { return b->ways + (int64_t)i * b->n_prices; }

static void sum_ways(rp_chain_bound *b, double *inside)
{
    for (int p = 0; p < b->n_prices; p++) inside[p] = INFINITY;
    for (int i = 0; i < b->work->chain->n; i++) {
        const double *before = priced(b, i);
        int at               = 0;
        for (int p = 0; p < b->n_prices; p++) {
            double open         = lowest(b->corner + b->hull[i].first, b->hull[i].n, b->price[p], 0, &at);
            priced(b, i + 1)[p] = step_on(b, i, b->price[p], before[p], open, &inside[p]);
        }
    }
}

/* ---- rows ---- */

typedef struct { double ticks, price; } row_bound;

/* Bounds the segments up to and including r. */
static row_bound bound_row(const rp_chain_bound *b, int r, rp_chain_point *scratch)
{
    int n = need_hull(b, r, scratch), at = 0;
    row_bound best = { .ticks = -INFINITY };

    for (int p = 0; p < b->n_prices; p++) {
        double ticks = priced(b, r)[p] + lowest(scratch, n, b->price[p], b->budget, &at);
        if (ticks > best.ticks) best = (row_bound){ ticks, b->price[p] };
    }
    return best;
}

static void bound_rows(rp_chain_bound *b, rp_chain_point *scratch)
{
    int n      = b->work->chain->n;
    double end = 0;                 /* of the segments after r */

    for (int i = 0; i < n; i++) end += b->fewest[i];
    b->bound = -INFINITY;
    for (int r = 0; r < n; r++) {
        row_bound row = bound_row(b, r, scratch);
        end -= b->fewest[r];
        b->before[r + 1] = fmax(b->before[r] + b->fewest[r], row.ticks);
        if (row.ticks + end <= b->bound) continue;
        b->bound  = row.ticks + end;
        b->row    = r;
        b->lambda = row.price;
    }
}

/* ---- the best price, for the best row ---- */

static double open_ticks(const rp_chain_bound *b, int i, double price)
{
    int at = 0;

    return lowest(b->corner + b->hull[i].first, b->hull[i].n, price, 0, &at);
}

/* Sets upto[i], the least cost of the segments before i. */
static double sum_upto(rp_chain_bound *b, double price, const rp_chain_point *need, int n_need)
{
    double inside = INFINITY;
    int at        = 0;

    for (int i = 0; i < b->row; i++) b->upto[i + 1] = step_on(b, i, price, b->upto[i], open_ticks(b, i, price), &inside);
    return b->upto[b->row] + lowest(need, n_need, price, b->budget, &at);
}

/* Sets from[i], the least cost of the segments from i on; the row's need counts relative to the budget. `inside`: with i in a region that
 * has begun before i. */
static void sum_from(rp_chain_bound *b, const rp_chain_point *need, int n_need)
{
    int n = b->work->chain->n, at = 0;
    double inside = INFINITY;

    b->from[n] = 0;
    for (int i = n - 1; i > b->row; i--) b->from[i] = b->from[i + 1] + b->fewest[i];
    b->from[b->row] = b->from[b->row + 1] + lowest(need, n_need, b->lambda, b->budget, &at);
    for (int i = b->row - 1; i >= 0; i--) {
        double last = b->from[i + 1] + b->lambda * rp__bound_output(b, i) + (b->regions ? b->closed[1][i] : 0);
        double on   = inside + (b->regions ? closed_middle(b, i) : 0);
        b->from[i]  = b->from[i + 1] + open_ticks(b, i, b->lambda);
        if (!b->regions) continue;
        b->from[i] = fmin(b->from[i], on);
        if (rp__chain_may_be_region(b->work, i, i + 1)) b->from[i] = fmin(b->from[i], last);
        inside = fmin(on, last);
    }
}

/* The best price lies between the neighbours of the best one tried. Golden-section search finds it, as the bound is concave in the price. */
static void refine_price(rp_chain_bound *b, const rp_chain_point *need, int n_need)
{
    static const double golden = 0.6180339887498949;
    double low = 0, high = b->price[0] > 0 ? 2 * b->price[0] : 1, best = sum_upto(b, b->lambda, need, n_need);

    for (int p = 0; p < b->n_prices; p++) {
        if (b->price[p] > b->lambda) high = b->price[p];
        if (b->price[p] < b->lambda) low = fmax(low, b->price[p]);
    }
    for (int i = 0; i < REFINEMENTS; i++) {
        double x = high - golden * (high - low), y = low + golden * (high - low);
        double at_x = sum_upto(b, x, need, n_need), at_y = sum_upto(b, y, need, n_need);
        if (fmax(at_x, at_y) > best) {
            best      = fmax(at_x, at_y);
            b->lambda = at_x > at_y ? x : y;
        }
        if (at_x > at_y) high = y;
        else low = x;
    }
}

/* Largest difference in ticks between neighbours on a hull at the price: the possible gap of the bound. */
static double step_at(const rp_chain_bound *b)
{
    double step = 0;

    for (int i = 0; i < b->row; i++) {
        const rp_chain_point *corner = b->corner + b->hull[i].first;
        int at                       = 0;
        lowest(corner, b->hull[i].n, b->lambda * (1 + 0x1p-30), 0, &at);
        if (at + 1 < b->hull[i].n) step = fmax(step, (double)(corner[at].ticks - corner[at + 1].ticks));
    }
    return step;
}

static void chain_bound_settle(rp_chain_bound *b, rp_chain_point *scratch)
{
    int n = need_hull(b, b->row, scratch);

    refine_price(b, scratch, n);
    sum_upto(b, b->lambda, scratch, n);
    sum_from(b, scratch, n);
    b->bound      = b->from[0];
    b->step       = step_at(b);
    b->most_error = RP_CHAIN_ERROR * (b->scale + b->lambda * (double)(b->budget - scratch[0].bytes));
}

/* ---- all of it ---- */

static rp_status chain_bound_make_room(rp_chain_bound *b, int64_t n_corners)
{
    rp_bump *bump = &b->bump;
    int64_t n     = b->work->chain->n;

    b->hull   = rp__bump_alloc(bump, n * (int64_t)sizeof *b->hull);
    b->corner = rp__bump_alloc(bump, n_corners * (int64_t)sizeof *b->corner);
    b->least  = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *b->least);
    b->fewest = rp__bump_alloc(bump, (8 * (n + 1) + MOST_PRICES) * (int64_t)sizeof *b->fewest);
    if (!b->hull || !b->corner || !b->least || !b->fewest) return RP_ERR_MEMORY;
    b->before = b->fewest + n + 1;
    b->upto   = b->before + n + 1;
    b->from   = b->upto + n + 1;
    for (int in = 0; in < 2; in++) {
        b->recompute[in]  = b->from + (1 + 2 * in) * (n + 1);
        b->closed[in] = b->recompute[in] + n + 1;
    }
    b->price = b->closed[1] + n + 1;
    return RP_OK;
}

static void sum_least(rp_chain_bound *b)
{
    const rp_chain *chain = b->work->chain;

    for (int i = 0; i < chain->n; i++) {
        const rp_chain_class *c = rp__chain_class_at(chain, i);
        b->least[i + 1]         = b->least[i] + c->option[b->work->by_saved[chain->segment[i]][0]].saved;
    }
}

static rp_status bound_all(rp_chain_bound *b, int64_t n_corners, int most_options)
{
    rp_chain_point *scratch = rp__bump_alloc(&b->bump, most_options * (int64_t)sizeof *scratch);
    double *slope           = rp__bump_alloc(&b->bump, (n_corners + MOST_PRICES) * (int64_t)sizeof *slope);

    if (!scratch || !slope) return RP_ERR_MEMORY;
    sum_least(b);
    make_hulls(b);
    choose_prices(b, slope);
    b->ways = rp__bump_alloc(&b->bump, (b->work->chain->n + 1) * (int64_t)b->n_prices * (int64_t)sizeof *b->ways);
    if (!b->ways) return RP_ERR_MEMORY;
    sum_ways(b, slope);
    bound_rows(b, scratch);
    chain_bound_settle(b, scratch);
    return RP_OK;
}

bool rp__bound_exists(const rp_chain_work *w, int64_t budget, bool regions)
{
    if (!regions) return w->rest_bytes[0] <= budget;
    for (int i = 0; i < w->chain->n; i++) {
        const rp_chain_class *c = rp__chain_class_at(w->chain, i);
        int o                   = 0;
        while (o < c->n_options && rp__chain_need_anywhere(w->chain, i, &c->option[o]) > budget) o++;
        if (o == c->n_options) return false;
    }
    return true;
}

rp_status rp__bound_open(rp_chain_bound *b, rp_chain_work *w, int64_t budget, bool regions)
{
    int64_t n_corners = 0;
    int most_options  = 0;

    *b = (rp_chain_bound){ .work = w, .bump = { .ctx = w->ctx }, .budget = budget, .regions = regions };
    for (int i = 0; i < w->chain->n; i++) {
        int n = rp__chain_class_at(w->chain, i)->n_options;
        n_corners += n;
        if (n > most_options) most_options = n;
    }
    RP_TRY(chain_bound_make_room(b, n_corners));
    return bound_all(b, n_corners, most_options);
}
