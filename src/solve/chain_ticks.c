/* solve/chain_ticks.c -- the objective: seconds as ticks, and the ticks of a plan. */
#include "solve/chain_internal.h"

#include <math.h>

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

/* No plan takes longer, and neither does a plan that has each class once. */
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

/* The option is in nothing worse than a region of this segment alone in which the segment meets `inside`. */
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

/* ---- a plan ---- */

/* The innermost region that contains segment i, -1: none. *depth: how many contain it. Inner regions follow the regions around them in the list. */
static int innermost(const rp_chain_plan *plan, int i, int *depth)
{
    int innermost = -1;

    *depth = 0;
    for (int r = 0; r < plan->n_regions; r++) {
        if (i < plan->region[r].first || i >= plan->region[r].end) continue;
        innermost = r;
        ++*depth;
    }
    return innermost;
}

int64_t rp__chain_ticks(const rp_chain_work *w, const rp_chain_plan *plan)
{
    int64_t sum = 0;
    int depth;

    for (int i = 0; i < w->chain->n; i++) {
        int class = w->chain->segment[i], in = innermost(plan, i, &depth);
        if (in < 0) sum += w->ticks[class][plan->option[i]];
        else sum += w->ticks_in[i + 1 == plan->region[in].end][class][plan->option[i]] + (depth - 1) * w->bare_ticks[class];
    }
    return sum;
}
