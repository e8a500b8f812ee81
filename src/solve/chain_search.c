/* solve/chain_search.c -- the exact search for the fastest plan.
 *
 * It goes from the last segment to the first. The front of the rest from i merges two sources: an option followed by the rest from i+1, and
 * a region [i, j) followed by the rest from j. Points, options and regions that belong to no plan of at most `most` ticks are cut: a point
 * is cut if its ticks and the least ticks of the segments before it (chain_bound.c) exceed `most`.
 *
 * `most` starts at the lower bound and is raised until a plan is found. No plan within `most` ticks was cut. So the first plan found is the
 * fastest one, and has the fewest bytes of these; no initial plan is needed. The work is counted. Beyond a limit fronts are thinned: the
 * result is a good plan, but not proved fastest.
 *
 * The plan is read from the fronts, from the first segment on: the first option that still leads to the point found. So of equal plans the
 * first in lexicographic order is chosen.
 */
#include "solve/chain_internal.h"

#include <math.h>

#include "base/list.h"

enum { FIRST_SHARE = 64, GROWTH = 4, A_LITTLE = 1 << 20, LEAST_POINTS = 64 };      /* A_LITTLE: of some 2^60 ticks */

static const int64_t million = 1000 * 1000, most_points = 2 * 1000 * 1000;

/* If fronts of regions are thinned, no plan can be proved fastest, so less work is spent. */
static bool is_proof(const rp_chain_nest *nest) { return !nest || !rp__nest_is_thin(nest); }
static int64_t work_limit(const rp_chain_nest *nest) { return (is_proof(nest) ? 60 : 9) * million; }
static int64_t thin_work(const rp_chain_nest *nest) { return (is_proof(nest) ? 20 : 8) * million; }

typedef struct {
    rp_chain_work *work;
    rp_chain_nest *nest;            /* NULL: no regions */
    int64_t budget, until;          /* until: a limit on work->work */
    int64_t thin;                   /* points of a front at most; 0: all */
    rp_chain_bound *bound;
    double most;                    /* ticks */
    rp_chain_fronts fronts;
    rp_chain_span *rest;            /* [n + 1]: fronts in store */
} search;

static rp_chain_front rest_of(const search *s, int i) { return rp__list_front(&s->fronts.store, s->rest[i]); }

static bool tired(const search *s)
{
    return !s->thin && (s->work->work > s->until || s->fronts.store.n + s->fronts.front.n > most_points);
}

/* ---- one pass ---- */

static void thin(search *s)
{
    rp_chain_list *front = &s->fronts.front;

    if (s->thin && front->n > 4 * s->thin) front->n = rp__front_thin_to(front->at, front->n, 2 * s->thin);
}

static rp_status add_options(search *s, int i)
{
    const rp_chain *chain   = s->work->chain;
    const rp_chain_class *c = rp__chain_class_at(chain, i);
    const int64_t *ticks    = s->work->ticks[chain->segment[i]];

    for (int o = 0; o < c->n_options; o++) {
        rp_chain_move move = { c->option[o].saved, rp__chain_need(chain, i, &c->option[o]), ticks[o], s->budget };
        if (rp__bound_option(s->bound, i, o) > s->most) continue;
        if (tired(s)) break;
        RP_TRY(rp__fronts_merge(&s->fronts, rest_of(s, i + 1), &move));
        thin(s);
    }
    return RP_OK;
}

/* The ways through a region that a plan of at most `most` ticks can use: the last ones of its front. */
static rp_chain_front inside_of(const search *s, int first, int end)
{
    return rp__front_fast(rp__nest_front(s->nest, first, end), rp__bound_inside(s->bound, first, end, s->most));
}

static rp_status add_region(search *s, int first, int end, int64_t floor)
{
    const rp_chain *chain = s->work->chain;

    RP_TRY(rp__nest_fill(s->nest, first, end));
    rp_chain_front rest = rest_of(s, end), inside = inside_of(s, first, end);
    rp_chain_move both = { .floor = floor, .most = s->budget };

    RP_TRY(rp__fronts_join(&s->fronts, rest, rp__chain_class_at(chain, end - 1)->output, inside, rp__chain_fixed_recompute(chain, end), &both));
    thin(s);
    return RP_OK;
}

static bool is_tried(const search *s, int first, int end)
{
    return rp__nest_allows(s->nest, first, end) && rp__bound_region(s->bound, first, end) <= s->most;
}

static rp_status add_regions(search *s, int i)
{
    const rp_chain *chain = s->work->chain;
    int64_t bare          = RP_CHAIN_NOWHERE;

    for (int end = i + 1; end < chain->n; end++) {
        bare = rp__more(bare, rp__chain_bare(chain, i, end - 1));
        if (bare > s->budget) break;
        if (!is_tried(s, i, end)) continue;
        RP_TRY(add_region(s, i, end, rp__more(bare, rp__chain_waiting(chain, end))));
    }
    return RP_OK;
}

static rp_status add_rest(search *s, int i)
{
    rp_chain_list *front = &s->fronts.front;

    front->n = 0;
    RP_TRY(add_options(s, i));
    if (s->nest) RP_TRY(add_regions(s, i));
    front->n = rp__bound_cut(s->bound, i, s->most, front->at, front->n);
    if (s->thin) front->n = rp__front_thin_to(front->at, front->n, s->thin);
    return rp__fronts_keep(&s->fronts, &s->rest[i]);
}

static rp_status pass(search *s)
{
    int n = s->work->chain->n;

    s->fronts.store.n = 0;
    s->fronts.front.n = 0;
    RP_TRY(RP_GROW(s->work->ctx, s->fronts.front.at, s->fronts.front.room, 1));
    s->fronts.front.at[s->fronts.front.n++] = (rp_chain_point){ RP_CHAIN_NOWHERE, 0 };
    RP_TRY(rp__fronts_keep(&s->fronts, &s->rest[n]));
    for (int i = 0; i < n; i++) s->rest[i] = (rp_chain_span){ 0 };
    for (int i = n - 1; i >= 0; i--) {
        RP_TRY(add_rest(s, i));
        if (!s->rest[i].n && !s->nest) break;
        if (tired(s)) break;
    }
    return RP_OK;
}

/* ---- reading the plan ---- */

static bool read_option(const search *s, int i, rp_chain_point *left, int *option)
{
    const rp_chain *chain   = s->work->chain;
    const rp_chain_class *c = rp__chain_class_at(chain, i);

    for (int o = 0; o < c->n_options; o++) {
        rp_chain_point behind = { left->bytes - c->option[o].saved, left->ticks - s->work->ticks[chain->segment[i]][o] };
        if (rp__chain_need(chain, i, &c->option[o]) > left->bytes) continue;
        const rp_chain_point *found = rp__front_find(rest_of(s, i + 1), behind.bytes);
        if (!found || found->ticks > behind.ticks) continue;
        *left   = s->thin ? *found : behind;
        *option = o;
        return true;
    }
    return false;
}

/* Returns the end of the region that begins at i. */
static int read_region(const search *s, int i, rp_chain_point *left, rp_chain_point *inside)
{
    const rp_chain *chain = s->work->chain;
    int64_t bare          = RP_CHAIN_NOWHERE;

    for (int end = i + 1; end < chain->n; end++) {
        bare = rp__more(bare, rp__chain_bare(chain, i, end - 1));
        if (bare > left->bytes) break;
        if (!is_tried(s, i, end) || rp__chain_waiting(chain, end) > left->bytes) continue;
        rp_chain_point behind       = { left->bytes - rp__chain_class_at(chain, end - 1)->output, 0 };
        const rp_chain_point *found = rp__front_find(rest_of(s, end), behind.bytes);
        *inside                     = (rp_chain_point){ left->bytes - rp__chain_fixed_recompute(chain, end), 0 };
        const rp_chain_point *in    = rp__front_find(rp__nest_front(s->nest, i, end), inside->bytes);
        if (!found || !in || found->ticks + in->ticks > left->ticks) continue;
        behind.ticks = left->ticks - in->ticks;
        *inside      = *in;
        *left        = s->thin ? *found : behind;
        return end;
    }
    return -1;
}

static void read_plan(const search *s, rp_chain_point left, rp_chain_plan *plan)
{
    rp_chain_point inside;

    for (int i = 0; i < s->work->chain->n;) {
        if (read_option(s, i, &left, &plan->option[i])) {
            i++;
            continue;
        }
        int end = s->nest ? read_region(s, i, &left, &inside) : -1;
        RP_BUG_IF(end < 0);
        rp__nest_read(s->nest, i, end, inside, -1, plan);
        i = end;
    }
}

static const rp_chain_point *found_point(const search *s) { return rp__front_find(rest_of(s, 0), s->budget); }

/* If fronts were thinned on the way, the plan that is read may be better than the point found. */
static rp_status take_plan(const search *s, rp_chain_found *out)
{
    const rp_chain *chain = s->work->chain;
    rp_chain_plan *plan   = &out->plan;

    plan->option = rp__host_alloc(s->work->ctx, chain->n * (int64_t)sizeof *plan->option);
    if (s->nest) plan->region = rp__host_alloc(s->work->ctx, 2 * chain->n * (int64_t)sizeof *plan->region);
    if (!plan->option || (s->nest && !plan->region)) return RP_ERR_MEMORY;
    plan->feasible = true;
    plan->exact    = !s->thin;
    plan->thin     = s->nest && rp__nest_is_thin(s->nest);
    plan->grain    = s->nest ? rp__nest_grain(s->nest) : 0;
    read_plan(s, *found_point(s), plan);
    plan->bytes = rp__chain_bytes(chain, plan->option, plan->region, plan->n_regions);
    out->ticks  = rp__chain_ticks(s->work, plan);
    RP_BUG_IF(plan->exact && (plan->bytes != found_point(s)->bytes || out->ticks != found_point(s)->ticks));
    return RP_OK;
}

/* ---- the search ---- */

static bool found_one(const search *s)
{
    const rp_chain_point *found = found_point(s);

    return found && (double)found->ticks <= s->most;
}

/* Raises `most` by *room, which grows, until a plan is found, or the work limit or the cap is reached. */
static rp_status deepen(search *s, int64_t cap, double *room)
{
    for (;; *room = GROWTH * *room + s->bound->most_error + A_LITTLE) {
        s->most = fmin(s->bound->bound + *room, (double)cap);
        RP_TRY(pass(s));
        if (tired(s) || found_one(s) || s->most >= (double)cap) return RP_OK;
    }
}

/* So that a pass takes about as much work as is left for it. */
static int64_t points_for(const search *s)
{
    int64_t merges = 1;

    for (int i = 0; i < s->work->chain->n; i++)
        merges += rp__chain_class_at(s->work->chain, i)->n_options + (s->nest ? s->work->chain->n : 0);
    return rp__more(thin_work(s->nest) / merges, LEAST_POINTS);
}

static rp_status search_all(search *s, int64_t cap)
{
    double room = s->bound->step / FIRST_SHARE + s->bound->most_error;

    RP_TRY(deepen(s, cap, &room));
    if (!tired(s)) return RP_OK;
    s->thin = points_for(s);
    return deepen(s, cap, &room);
}

rp_status rp__chain_search(rp_chain_bound *bound, rp_chain_nest *nest, int64_t cap, rp_chain_found *out)
{
    rp_chain_work *w = bound->work;
    search s         = { .work = w, .nest = nest, .budget = bound->budget, .until = w->work + work_limit(nest), .bound = bound,
                         .fronts = { .work = w } };
    rp_status status = RP_OK;

    s.rest = rp__host_alloc(w->ctx, (w->chain->n + 1) * (int64_t)sizeof *s.rest);
    RP_TRY_GOTO(s.rest ? RP_OK : RP_ERR_MEMORY);
    RP_TRY_GOTO(search_all(&s, cap));
    if (found_one(&s)) RP_TRY_GOTO(take_plan(&s, out));
done:
    rp__release(s.rest);
    rp__fronts_close(&s.fronts);
    return status;
}
