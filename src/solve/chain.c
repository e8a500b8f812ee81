/* solve/chain.c -- what chain.h promises: the walk through a step, and the plans that the search finds. */
#include "solve/chain_internal.h"

#include <math.h>
#include <string.h>

/* ---- constraints ---- */

int64_t rp__chain_need_backward(const rp_chain *chain, int i, const int64_t *bytes)
{
    int64_t need = RP_CHAIN_NOWHERE;

    for (int k = 0; k < chain->n_kinds; k++) need = rp__more(need, chain->fixed_backward[k][i] + bytes[k]);
    return need;
}

int64_t rp__chain_need(const rp_chain *chain, int i, const rp_chain_option *o)
{
    return rp__more(rp__chain_fixed_forward(chain, i) + o->forward, rp__chain_need_backward(chain, i, o->backward));
}

int64_t rp__chain_need_anywhere(const rp_chain *chain, int i, const rp_chain_option *o)
{
    int64_t need = rp__chain_need_backward(chain, i, o->backward);

    if (rp__chain_class_at(chain, i)->never_last) return need;
    return rp__less(need, rp__chain_need_backward(chain, i, o->last_backward));
}

int64_t rp__chain_fixed_forward(const rp_chain *chain, int i)
{
    int64_t most = RP_CHAIN_NOWHERE;

    for (int k = 0; k < chain->n_kinds; k++) most = rp__more(most, chain->fixed_forward[k][i]);
    return most;
}

int64_t rp__chain_fixed_recompute(const rp_chain *chain, int end)
{
    return rp__chain_need_backward(chain, end - 1, rp__chain_class_at(chain, end - 1)->begun);
}

int64_t rp__chain_bare(const rp_chain *chain, int first, int i)
{
    return rp__chain_fixed_forward(chain, i) + rp__chain_class_at(chain, i)->bare[rp__less(i - first, 2)];
}

int64_t rp__chain_waiting(const rp_chain *chain, int end)
{
    return rp__chain_need_backward(chain, end - 1, rp__chain_class_at(chain, end - 1)->waiting);
}

/* ---- the walk ---- */

typedef struct {
    const rp_chain *chain;
    const int *option;
    const rp_chain_region *region;
    int n_regions;
    int64_t most;
} walk;

static int region_at(const walk *w, int parent, int first)
{
    for (int r = 0; r < w->n_regions; r++)
        if (w->region[r].parent == parent && w->region[r].first == first) return r;
    return -1;
}

static void reach(walk *w, int64_t bytes) { w->most = rp__more(w->most, bytes); }

/* A segment that meets its option: in the step (-1) or in a region, for which it has run again. */
static void walk_segment(walk *w, int region, int i, int64_t held)
{
    const rp_chain_option *o = &rp__chain_class_at(w->chain, i)->option[w->option[i]];
    int end                  = region < 0 ? w->chain->n : w->region[region].end;
    bool last                = region >= 0 && i + 1 == end;

    reach(w, held + rp__chain_need_backward(w->chain, i, last ? o->last_backward : o->backward));
    if (region < 0) reach(w, held + rp__chain_fixed_forward(w->chain, i) + o->forward);
    else reach(w, held + rp__chain_fixed_recompute(w->chain, end) + (last ? o->last : o->recompute));
}

/* Region r until it runs again, in the step or in the region around it. */
static void walk_bare(walk *w, int r, int64_t held)
{
    const rp_chain_region *in = &w->region[r];

    for (int i = in->first; i < in->end; i++) {
        const rp_chain_class *c = rp__chain_class_at(w->chain, i);
        if (in->parent < 0) reach(w, held + rp__chain_bare(w->chain, in->first, i));
        else reach(w, held + rp__chain_fixed_recompute(w->chain, w->region[in->parent].end) + c->bare_recompute[i > in->first]);
    }
    reach(w, held + rp__chain_waiting(w->chain, in->end));
}

/* What goes on in a region (-1: the step) between its segments first and end, where `held` bytes are held. */
static void walk_through(walk *w, int parent, int first, int end, int64_t held)
{
    for (int i = first; i < end;) {
        int r = region_at(w, parent, i);
        if (r < 0) {
            walk_segment(w, parent, i, held);
            held += rp__chain_class_at(w->chain, i)->option[w->option[i]].saved;
            i++;
            continue;
        }
        walk_bare(w, r, held);
        walk_through(w, r, i, w->region[r].end, held);
        i = w->region[r].end;
        held += rp__chain_class_at(w->chain, i - 1)->output;
    }
}

int64_t rp__chain_bytes(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions)
{
    walk w = { .chain = chain, .option = option, .region = region, .n_regions = n_regions, .most = RP_CHAIN_NOWHERE };

    walk_through(&w, -1, 0, chain->n, 0);
    return w.most;
}

/* ---- what is derived once ---- */

static double class_seconds(const rp_chain *chain, int class)
{
    const rp_chain_class *c = &chain->class_of[class];
    double most             = 0;

    for (int o = 0; o < c->n_options; o++) {
        const rp_chain_option *option = &c->option[o];
        most                          = fmax(most, option->seconds + fmax(option->recompute_seconds, option->last_seconds));
    }
    return most + (chain->regions ? chain->n : 1) * c->bare_seconds;
}

/* No plan takes more, nor one that has each class in it once. */
static double most_seconds(const rp_chain *chain)
{
    double sum = 0;

    for (int i = 0; i < chain->n; i++) sum += class_seconds(chain, chain->segment[i]);
    for (int class = 0; class < chain->n_classes; class++) sum += class_seconds(chain, class);
    return sum;
}

static int64_t ticks_of(const rp_chain_work *w, double seconds) { return (int64_t)llround(ldexp(seconds, -w->tick)); }

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a            = b;
        b            = rest;
    }
    return a;
}

static int64_t unit_of(const rp_chain *chain)
{
    int64_t unit = 0;

    for (int i = 0; i < chain->n; i++) {
        const rp_chain_class *c = rp__chain_class_at(chain, i);
        unit                    = common_divisor(c->output, unit);
        for (int o = 0; o < c->n_options; o++) unit = common_divisor(c->option[o].saved, unit);
    }
    return rp__more(unit, 1);
}

/* The option takes no more in anything than a region of this segment alone would in which it meets `inside`. */
static bool replaces(const rp_chain_work *w, int class, int o, int inside)
{
    const rp_chain_class *c  = &w->chain->class_of[class];
    const rp_chain_option *a = &c->option[o], *b = &c->option[inside];

    if (a->saved > c->output || a->forward > c->bare[0]) return false;
    for (int k = 0; k < w->chain->n_kinds; k++)
        if (a->backward[k] > rp__more(c->waiting[k], rp__more(c->begun[k] + b->last, b->last_backward[k]))) return false;
    return w->ticks[class][o] <= w->ticks_in[1][class][inside];
}

static bool may_stand_alone(const rp_chain_work *w, int class)
{
    int n = w->chain->class_of[class].n_options;

    for (int o = 0; o < n; o++) {
        int inside = 0;
        while (inside < n && replaces(w, class, o, inside)) inside++;
        if (inside == n) return false;
    }
    return true;
}

static rp_status open_class(rp_chain_work *w, int class)
{
    const rp_chain_class *c = &w->chain->class_of[class];
    int64_t *ticks          = rp__bump_alloc(&w->bump, 3 * c->n_options * (int64_t)sizeof *ticks);
    int *order              = rp__bump_alloc(&w->bump, c->n_options * (int64_t)sizeof *order);

    if (!ticks || !order) return RP_ERR_MEMORY;
    w->ticks[class]       = ticks;
    w->ticks_in[0][class] = ticks + c->n_options;
    w->ticks_in[1][class] = ticks + 2 * c->n_options;
    w->by_saved[class]    = order;
    w->bare_ticks[class]  = ticks_of(w, c->bare_seconds);
    for (int o = 0; o < c->n_options; o++) {
        int at   = o;
        ticks[o] = ticks_of(w, c->option[o].seconds);
        w->ticks_in[0][class][o] = ticks[o] + ticks_of(w, c->option[o].recompute_seconds);
        w->ticks_in[1][class][o] = ticks[o] + ticks_of(w, c->option[o].last_seconds);
        for (; at && (c->option[order[at - 1]].saved > c->option[o].saved ||
                      (c->option[order[at - 1]].saved == c->option[o].saved && ticks[order[at - 1]] > ticks[o])); at--)
            order[at] = order[at - 1];
        order[at] = o;
    }
    w->alone[class] = w->chain->regions && may_stand_alone(w, class);
    return RP_OK;
}

int64_t rp__chain_least_option(const rp_chain *chain, int i, int64_t behind)
{
    const rp_chain_class *c = rp__chain_class_at(chain, i);
    int64_t least           = INT64_MAX;

    for (int o = 0; o < c->n_options; o++)
        least = rp__less(least, rp__more(rp__chain_need(chain, i, &c->option[o]), c->option[o].saved + behind));
    return least;
}

rp_status rp__chain_open(rp_chain_work *w, rp_ctx *ctx, const rp_chain *chain)
{
    int64_t n_classes = chain->n_classes;
    int power;

    RP_BUG_IF(chain->n < 1);
    *w = (rp_chain_work){ .ctx = ctx, .chain = chain, .bump = { .ctx = ctx } };
    frexp(most_seconds(chain), &power);
    w->tick          = power - 60;
    w->unit          = unit_of(chain);
    w->ticks         = rp__bump_alloc(&w->bump, n_classes * (int64_t)sizeof *w->ticks);
    w->by_saved      = rp__bump_alloc(&w->bump, n_classes * (int64_t)sizeof *w->by_saved);
    w->ticks_in[0]   = rp__bump_alloc(&w->bump, n_classes * (int64_t)sizeof *w->ticks_in[0]);
    w->ticks_in[1]   = rp__bump_alloc(&w->bump, n_classes * (int64_t)sizeof *w->ticks_in[1]);
    w->bare_ticks    = rp__bump_alloc(&w->bump, n_classes * (int64_t)sizeof *w->bare_ticks);
    w->alone         = rp__bump_alloc(&w->bump, n_classes * (int64_t)sizeof *w->alone);
    w->rest_bytes    = rp__bump_alloc(&w->bump, (chain->n + 1) * (int64_t)sizeof *w->rest_bytes);
    if (!w->ticks || !w->by_saved || !w->ticks_in[0] || !w->ticks_in[1] || !w->bare_ticks || !w->alone || !w->rest_bytes) return RP_ERR_MEMORY;
    for (int class = 0; class < n_classes; class++) RP_TRY(open_class(w, class));
    w->rest_bytes[chain->n] = RP_CHAIN_NOWHERE;
    for (int i = chain->n - 1; i >= 0; i--) w->rest_bytes[i] = rp__chain_least_option(chain, i, w->rest_bytes[i + 1]);
    return RP_OK;
}

void rp__chain_close(rp_chain_work *w) { rp__bump_free(&w->bump); }

/* ---- plans ---- */

void rp__chain_plan_free(rp_chain_plan *plan)
{
    rp__release(plan->option);
    rp__release(plan->region);
    *plan = (rp_chain_plan){ 0 };
}

static double seconds_of(const rp_chain_work *w, double ticks) { return ldexp(ticks, w->tick); }

/* Less what its doubles may be off: it must hold. */
static double bound_seconds(const rp_chain_bound *b) { return seconds_of(b->work, fmax(b->bound - b->most_error, 0)); }

/* Of plans of one level. */
static rp_status find_flat(rp_chain_work *w, int64_t budget, rp_chain_found *best)
{
    rp_chain_bound bound;

    if (w->rest_bytes[0] > budget) return RP_OK;
    rp_status status = rp__bound_open(&bound, w, budget, false);
    if (status == RP_OK) status = rp__chain_search(&bound, NULL, INT64_MAX, best);
    if (status == RP_OK) best->plan.bound = bound_seconds(&bound);
    rp__bound_close(&bound);
    return status;
}

/* Whether a plan with a region may take no more ticks. */
static bool regions_may_help(const rp_chain_nest *nest, const rp_chain_bound *b, int64_t ticks)
{
    for (int first = 0; first + 1 < b->work->chain->n; first++)
        for (int end = first + 1; end < b->work->chain->n; end++)
            if (rp__nest_allows(nest, first, end) && rp__bound_region(b, first, end) <= (double)ticks) return true;
    return false;
}

/* Of two the better one stays at *best, the other goes. */
static void keep(rp_chain_found *best, rp_chain_found *other)
{
    rp_chain_found worse = *other;
    rp_chain_plan found  = best->plan;

    if (other->plan.feasible && (!best->plan.feasible || other->ticks < best->ticks ||
                                 (other->ticks == best->ticks && other->plan.bytes < best->plan.bytes))) {
        worse            = *best;
        *best            = *other;
        best->plan.bound = found.bound;
        best->plan.thin  = found.thin;
        best->plan.grain = found.grain;
    }
    rp__chain_plan_free(&worse.plan);
}

/* The search knows plans of one level, too, so it finds one that is no slower, unless it met its work limit. */
static rp_status search_nested(rp_chain_nest *nest, rp_chain_bound *bound, rp_chain_found *best)
{
    rp_chain_found found = { 0 };
    int64_t cap          = best->plan.feasible ? best->ticks : INT64_MAX;

    rp__nest_limit(nest, bound->budget);
    rp_status status = rp__chain_search(bound, nest, cap, &found);
    if (status == RP_OK && found.plan.feasible && found.ticks <= cap) {
        rp_chain_found worse = *best;
        *best                = found;
        found                = worse;
    }
    rp__chain_plan_free(&found.plan);
    return status;
}

static rp_status try_nested(rp_chain_nest *nest, rp_chain_work *w, int64_t budget, rp_chain_found *best)
{
    rp_chain_bound bound;
    int64_t least;

    RP_TRY(rp__nest_least(nest, w, &least));
    if (least > budget) return RP_OK;
    rp_status status = rp__bound_open(&bound, w, budget, true);
    bool helps       = status == RP_OK && (!best->plan.feasible || regions_may_help(nest, &bound, best->ticks));
    if (helps) status = search_nested(nest, &bound, best);
    if (status == RP_OK) best->plan.bound = bound_seconds(&bound);
    rp__bound_close(&bound);
    return status;
}

/* ---- many budgets ---- */

struct rp_chain_solver {
    rp_chain_work work;
    rp_chain_nest *nest;            /* NULL: no regions */
    rp_chain_found mode[RP_CHAIN_MODES];
    int64_t least;
};

static rp_status open_solver(rp_chain_solver *s, rp_ctx *ctx, const rp_chain *chain)
{
    RP_TRY(rp__chain_open(&s->work, ctx, chain));
    if (chain->regions) RP_TRY(rp__nest_open(&s->work, RP_CHAIN_FINE, &s->nest));
    s->least = s->work.rest_bytes[0];
    if (s->nest) RP_TRY(rp__nest_least(s->nest, &s->work, &s->least));
    for (int mode = 0; mode < RP_CHAIN_MODES; mode++) {
        RP_TRY(rp__chain_mode(&s->work, mode, &s->mode[mode]));
        if (s->mode[mode].plan.feasible) s->least = rp__less(s->least, s->mode[mode].plan.bytes);
    }
    return RP_OK;
}

rp_status rp__chain_solver_open(rp_ctx *ctx, const rp_chain *chain, rp_chain_solver **out)
{
    rp_chain_solver *s = rp__host_alloc(ctx, sizeof *s);

    *out = s;
    return s ? open_solver(s, ctx, chain) : RP_ERR_MEMORY;
}

int64_t rp__chain_solver_least(const rp_chain_solver *s) { return s->least; }

rp_status rp__chain_solver_bound(rp_chain_solver *s, int64_t budget, double *seconds)
{
    rp_chain_work *w = &s->work;
    rp_chain_bound bound;

    budget   = rp__less(budget, RP_CHAIN_MOST);
    *seconds = INFINITY;
    if (!rp__bound_exists(w, budget, w->chain->regions)) return RP_OK;
    rp_status status = rp__bound_open(&bound, w, budget, w->chain->regions);
    if (status == RP_OK) *seconds = bound_seconds(&bound);
    rp__bound_close(&bound);
    return status;
}

void rp__chain_solver_close(rp_chain_solver *s)
{
    if (!s) return;
    for (int mode = 0; mode < RP_CHAIN_MODES; mode++) rp__chain_plan_free(&s->mode[mode].plan);
    rp__nest_close(s->nest);
    rp__chain_close(&s->work);
    rp__release(s);
}

static rp_status copy_plan(const rp_chain_work *w, const rp_chain_plan *from, rp_chain_plan *out)
{
    int n        = w->chain->n;
    int *option  = rp__host_alloc(w->ctx, n * (int64_t)sizeof *option);
    void *region = rp__host_alloc(w->ctx, (from->n_regions + 1) * (int64_t)sizeof *from->region);

    *out        = *from;
    out->option = option;
    out->region = region;
    if (!option || !region) return RP_ERR_MEMORY;
    memcpy(option, from->option, (size_t)n * sizeof *option);
    if (from->n_regions) memcpy(region, from->region, (size_t)from->n_regions * sizeof *from->region);
    return RP_OK;
}

static rp_status try_mode(const rp_chain_solver *s, int mode, int64_t budget, rp_chain_found *best)
{
    rp_chain_found copy = { .ticks = s->mode[mode].ticks };

    if (!s->mode[mode].plan.feasible || s->mode[mode].plan.bytes > budget) return RP_OK;
    rp_status status = copy_plan(&s->work, &s->mode[mode].plan, &copy.plan);
    if (status == RP_OK) keep(best, &copy);
    else rp__chain_plan_free(&copy.plan);
    return status;
}

static rp_status chain_find(rp_chain_solver *s, int64_t budget, rp_chain_found *best)
{
    RP_TRY(find_flat(&s->work, budget, best));
    if (s->nest) RP_TRY(try_nested(s->nest, &s->work, budget, best));
    for (int mode = 0; mode < RP_CHAIN_MODES; mode++) RP_TRY(try_mode(s, mode, budget, best));
    return RP_OK;
}

rp_status rp__chain_solver_solve(rp_chain_solver *s, int64_t budget, rp_chain_plan *out)
{
    rp_chain_found best = { 0 };

    *out             = (rp_chain_plan){ 0 };
    rp_status status = chain_find(s, rp__less(budget, RP_CHAIN_MOST), &best);
    if (status == RP_OK) {
        *out         = best.plan;
        out->seconds = seconds_of(&s->work, (double)best.ticks);
        out->bound   = fmin(out->bound, out->seconds);
    } else rp__chain_plan_free(&best.plan);
    return status;
}
