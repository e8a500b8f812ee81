/* solve/chain_cut.c -- bounds on parts of a plan: the least ticks of plans with a given option, region or end.
 *
 * At the bound's price and row, upto[] holds the least cost of everything before a part, and from[] of everything after it. With the part's
 * own cost in between they bound every plan that contains it. An end of a plan is bounded at the best of all prices instead, by the bytes
 * that it leaves to the segments before it.
 */
#include "solve/chain_internal.h"

#include <math.h>
#include <string.h>

double rp__bound_option(const rp_chain_bound *b, int i, int o)
{
    const rp_chain *chain         = b->work->chain;
    const rp_chain_option *option = &rp__chain_class_at(chain, i)->option[o];
    double ticks                  = (double)b->work->ticks[chain->segment[i]][o] - b->most_error;

    if (!rp__bound_allows(b, i, option)) return INFINITY;
    if (i > b->row) return b->bound + ticks - b->fewest[i];
    if (i == b->row) return b->upto[i] + ticks + b->lambda * (double)(rp__bound_need(b, i, option) - b->budget) + b->from[i + 1];
    return b->upto[i] + ticks + b->lambda * (double)option->saved + b->from[i + 1];
}

static double sum_in(double *const *ticks, int first, int end) { return ticks[0][end - 1] - ticks[0][first] + ticks[1][end - 1]; }

/* A region that is open in the row's backward, or lies after the row, adds its replay to the bound. */
double rp__bound_region(const rp_chain_bound *b, int first, int end)
{
    if (end > b->row) return b->bound + sum_in(b->recompute, first, end) - b->most_error;
    return b->upto[first] + sum_in(b->closed, first, end) + b->lambda * rp__bound_output(b, end - 1) + b->from[end] - b->most_error;
}

double rp__bound_inside(const rp_chain_bound *b, int first, int end, double ticks)
{
    return end > b->row ? INFINITY : sum_in(b->closed, first, end) + ticks - rp__bound_region(b, first, end) + b->most_error;
}

/* Goes from the point that needs most, so leaves least to the segments before it, to the one that needs least. The best price falls meanwhile. */
int64_t rp__bound_cut(const rp_chain_bound *b, int i, double ticks, rp_chain_point *at, int64_t n)
{
    const double *ways = b->ways + (int64_t)i * b->n_prices;
    int64_t to = n, saved = b->regions ? 0 : b->least[i];
    int p = 0;

    for (int64_t j = n - 1; j >= 0; j--) {
        double left = (double)(b->budget - at[j].bytes);
        if (b->budget - at[j].bytes < saved) continue;
        while (p + 1 < b->n_prices && ways[p + 1] - b->price[p + 1] * left >= ways[p] - b->price[p] * left) p++;
        double error = RP_CHAIN_ERROR * (b->scale + b->price[p] * left);
        if ((double)at[j].ticks + fmax(ways[p] - b->price[p] * left, b->before[i]) <= ticks + error) at[--to] = at[j];
    }
    if (to < n) memmove(at, at + to, (size_t)(n - to) * sizeof *at);
    return n - to;
}
