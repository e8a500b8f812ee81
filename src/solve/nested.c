/* solve/nested.c -- fronts of regions: everything that runs in a region's backward, inner regions included.
 *
 *   stretch [i, e)   in a region that ends at e, the part still to come from segment i on: its replayed forward and its backward
 *
 * After segment i comes the stretch [i+1, e). After an inner region [i, j) comes [j, e), and the inside of that region is then a stretch
 * [i, j) of its own. A stretch ends with the region's last segment, which takes the figures for that position:
 *
 *   bytes  = max(need of the option as the last one)                                        in [e-1, e)
 *   bytes  = max(need of the option in the middle, saved + bytes of [i+1, e))
 *   bytes  = max(forwards of i … j-1 that keep nothing, waiting of j-1, output of j-1 + bytes of [j, e), bytes of [i, j))
 *   ticks  = their sums, and the bare forwards of i … j-1 for an inner region
 *
 * Forwards in a stretch run when the backward of its last segment first reads a recomputed value. So bytes of a stretch are relative to the fixed
 * bytes at that time. Two stretches are alike, and share a front, if their segments have the same classes and the fixed bytes of their backwards
 * change in the same way from one segment to the next. So a model of equal blocks has as many fronts as blocks, however gradients grow.
 *
 * This is the recurrence of Griewank and Walther's revolve (2000) with the options and unequal chains of Beaumont et al.'s rotor (2019). A
 * region's input is held until its backward is done.
 *
 * Fronts are exact while they must be small. Larger ones are thinned (chain_front.c) by cells that depend on the chain alone. The points
 * that remain are existing ways with their exact bytes, and the way of least bytes always stays. Points beyond a budget are left out in
 * whole cells, so a larger budget finds the same ways and more.
 */
#include "solve/nested.h"

static const rp_chain_point nothing = { RP_CHAIN_NOWHERE, 0 };

/* Bytes are relative to the fixed bytes at its end, as everywhere in this file. */
rp_chain_front rp__nest_front(const rp_chain_nest *nest, int first, int end)
{
    if (first == end) return (rp_chain_front){ &nothing, 1 };
    return rp__list_front(&nest->fronts.store, nest->of[index_of(nest, first, end)].front);
}

/* ---- fronts ---- */

/* Cells do not depend on the other points of the front, so a larger budget does not change points. */
static void thin(rp_chain_nest *nest, const stretch *s)
{
    rp_chain_list *front = &nest->fronts.front;

    if (s->thin) front->n = rp__front_thin(front->at, front->n, s->least, nest->bits);
}

static rp_status add_option(rp_chain_nest *nest, const stretch *s, int o)
{
    const rp_chain_option *option = &nest->work->chain->class_of[s->class].option[o];
    rp_chain_move move            = { option->saved, rp__nest_need(nest, s, option), ticks_in(nest, s)[o], s->limit };

    RP_TRY(rp__fronts_merge(&nest->fronts, rp__nest_front(nest, s->first + 1, s->end), &move));
    thin(nest, s);
    return RP_OK;
}

static rp_status add_options(rp_chain_nest *nest, const stretch *s)
{
    for (int o = 0; o < nest->work->chain->class_of[s->class].n_options; o++)
        if (is_tried(nest, s, o)) RP_TRY(add_option(nest, s, o));
    return RP_OK;
}

static rp_status make_front(rp_chain_nest *nest, stretch *s)
{
    rp_chain_move both = { .most = s->limit };
    int64_t bare       = RP_CHAIN_NOWHERE;

    nest->fronts.front.n = 0;
    RP_TRY(add_options(nest, s));
    for (int j = s->first + 1; j < s->end; j++) {
        bare       = rp__more(bare, bare_of(nest, s->first, j - 1));
        both.floor = rp__more(bare, waiting_of(nest, j, s->end));
        both.ticks += nest->work->bare_ticks[nest->work->chain->segment[j - 1]];
        if (!rp__nest_allows(nest, s->first, j)) continue;
        RP_TRY(rp__fronts_join(&nest->fronts, rp__nest_front(nest, j, s->end), output_of(nest, j - 1), rp__nest_front(nest, s->first, j),
                               shift_between(nest, j, s->end), &both));
        thin(nest, s);
    }
    RP_TRY(rp__fronts_keep(&nest->fronts, &s->front));
    s->made = true;
    return RP_OK;
}

/* Builds a front after all fronts that it is made of. */
static rp_status make_all(rp_chain_nest *nest, int index)
{
    stretch *s = &nest->of[index];

    if (s->made) return RP_OK;
    RP_TRY(make_all(nest, s->rest));
    for (int j = s->first + 1; j < s->end; j++) {
        if (!rp__nest_allows(nest, s->first, j)) continue;
        RP_TRY(make_all(nest, index_of(nest, s->first, j)));
        RP_TRY(make_all(nest, index_of(nest, j, s->end)));
    }
    return make_front(nest, s);
}

/* Limits are whole cells. The parts of a front get limits that cover all points of those cells, so a larger budget does not change points.
 * With coarse cells and many stretches, limits grow beyond any useful size, so they are capped. */
static void limit_stretch(rp_chain_nest *nest, stretch *s)
{
    if (s->thin) s->limit = rp__less(rp__front_cell_end(s->limit, s->least, nest->bits), RP_CHAIN_MOST);
    nest->of[s->rest].limit = rp__more(nest->of[s->rest].limit, s->limit);
    for (int j = s->first + 1; j < s->end; j++) {
        if (!rp__nest_allows(nest, s->first, j)) continue;
        stretch *behind = &nest->of[index_of(nest, j, s->end)], *inside = &nest->of[index_of(nest, s->first, j)];
        behind->limit   = rp__more(behind->limit, s->limit);
        inside->limit   = rp__more(inside->limit, s->limit - shift_between(nest, j, s->end));
    }
}

/* ---- reading a way ---- */

static bool read_option(const rp_chain_nest *nest, int i, int end, rp_chain_point *left, int *option)
{
    const stretch *s        = &nest->of[index_of(nest, i, end)];
    const rp_chain_class *c = &nest->work->chain->class_of[s->class];

    for (int o = 0; o < c->n_options; o++) {
        rp_chain_point behind = { left->bytes - c->option[o].saved, left->ticks - ticks_in(nest, s)[o] };
        if (!is_tried(nest, s, o) || rp__nest_need(nest, s, &c->option[o]) > left->bytes) continue;
        const rp_chain_point *found = rp__front_find(rp__nest_front(nest, i + 1, end), behind.bytes);
        if (!found || found->ticks > behind.ticks) continue;
        *left   = *found;
        *option = o;
        return true;
    }
    return false;
}

static int read_region(const rp_chain_nest *nest, int i, int end, rp_chain_point *left, rp_chain_point *inside)
{
    int64_t bare = RP_CHAIN_NOWHERE, recompute = 0;

    for (int j = i + 1; j < end; j++) {
        bare = rp__more(bare, bare_of(nest, i, j - 1));
        recompute += nest->work->bare_ticks[nest->work->chain->segment[j - 1]];
        if (!rp__nest_allows(nest, i, j) || rp__more(bare, waiting_of(nest, j, end)) > left->bytes) continue;
        rp_chain_point behind       = { left->bytes - output_of(nest, j - 1), 0 };
        const rp_chain_point *found = rp__front_find(rp__nest_front(nest, j, end), behind.bytes);
        *inside                     = (rp_chain_point){ left->bytes - shift_between(nest, j, end), 0 };
        const rp_chain_point *in    = rp__front_find(rp__nest_front(nest, i, j), inside->bytes);
        if (!found || !in) continue;
        if (found->ticks + in->ticks + recompute > left->ticks) continue;
        *inside = *in;
        *left   = *found;
        return j;
    }
    return -1;
}

void rp__nest_read(const rp_chain_nest *nest, int first, int end, rp_chain_point left, int parent, rp_chain_plan *plan)
{
    int region = plan->n_regions++;
    rp_chain_point inside;

    plan->region[region] = (rp_chain_region){ first, end, parent };
    for (int i = first; i < end;) {
        if (read_option(nest, i, end, &left, &plan->option[i])) {
            i++;
            continue;
        }
        int j = read_region(nest, i, end, &left, &inside);
        RP_BUG_IF(j < 0);
        rp__nest_read(nest, i, j, inside, region, plan);
        i = j;
    }
}

/* ---- the least budget ---- */

/* The least bytes of a rest that begins with a region. */
static int64_t least_with_region(const rp_chain_nest *nest, int first, const int64_t *rest)
{
    const rp_chain *chain = nest->work->chain;
    int64_t least = INT64_MAX, bare = RP_CHAIN_NOWHERE;

    for (int end = first + 1; end < chain->n; end++) {
        bare = rp__more(bare, rp__chain_bare(chain, first, end - 1));
        if (!rp__nest_allows(nest, first, end)) continue;
        int64_t inside = rp__more(least_of(nest, first, end) + rp__chain_fixed_recompute(chain, end), rp__chain_waiting(chain, end));
        least = rp__less(least, rp__more(rp__more(bare, inside), output_of(nest, end - 1) + rest[end]));
    }
    return least;
}

rp_status rp__nest_least(const rp_chain_nest *nest, const rp_chain_work *w, int64_t *bytes)
{
    int n         = w->chain->n;
    int64_t *rest = rp__host_alloc(w->ctx, (n + 1) * (int64_t)sizeof *rest);

    if (!rest) return RP_ERR_MEMORY;
    rest[n] = RP_CHAIN_NOWHERE;
    for (int i = n - 1; i >= 0; i--) rest[i] = rp__less(rp__chain_least_option(w->chain, i, rest[i + 1]), least_with_region(nest, i, rest));
    *bytes = rest[0];
    rp__release(rest);
    return RP_OK;
}

/* ---- all of them ---- */

rp_status rp__nest_open(rp_chain_work *w, int bits, rp_chain_nest **out)
{
    rp_chain_nest *nest = rp__host_alloc(w->ctx, sizeof *nest);
    rp_status status;

    *out = NULL;
    if (!nest) return RP_ERR_MEMORY;
    nest->work      = nest->fronts.work = w;
    nest->most_bits = bits;
    nest->budget    = INT64_MIN;
    status          = rp__nest_stretches(nest);
    if (status == RP_OK) *out = nest;
    else rp__nest_close(nest);
    return status;
}

void rp__nest_limit(rp_chain_nest *nest, int64_t budget)
{
    if (budget <= nest->budget) return;
    nest->budget         = budget;
    nest->fronts.store.n = 0;
    for (int i = 1; i < nest->n; i++) {
        nest->of[i].made  = false;
        nest->of[i].front = (rp_chain_span){ 0 };
        nest->of[i].limit = budget - nest->of[i].end_fixed;
    }
    for (int i = nest->n - 1; i > 0; i--) limit_stretch(nest, &nest->of[i]);
}

rp_status rp__nest_fill(rp_chain_nest *nest, int first, int end) { return make_all(nest, index_of(nest, first, end)); }

bool rp__nest_is_thin(const rp_chain_nest *nest)
{
    for (int i = 1; i < nest->n; i++)
        if (nest->of[i].thin) return true;
    return nest->grain > 0;
}

int rp__nest_grain(const rp_chain_nest *nest) { return nest->grain; }

void rp__nest_close(rp_chain_nest *nest)
{
    if (!nest) return;
    RP_RELEASE(nest->alike, nest->of);
    rp__fronts_close(&nest->fronts);
    rp__release(nest);
}
