/* chain_test.c -- what chain_test.h names. */
#include "chain_test.h"

#include <math.h>

/* ---- random chains ---- */

uint64_t roll(dice *d)
{
    d->state ^= d->state << 13;
    d->state ^= d->state >> 7;
    d->state ^= d->state << 17;
    return d->state * 0x2545f4914f6cdd1dull;
}

int64_t between(dice *d, int64_t low, int64_t high) { return low + (int64_t)((roll(d) >> 1) % (uint64_t)(high - low + 1)); }

static double random_seconds(dice *d, const chain_sort *sort)
{
    return sort->whole_seconds ? (double)between(d, 0, 6) : (double)(roll(d) >> 11) * 0x1p-53;
}

/* Or none. */
static int64_t some_bytes(dice *d, const chain_sort *sort) { return between(d, 0, 1) ? between(d, 0, sort->bytes) : 0; }

static void make_class(random_chain *c, int k, const chain_sort *sort, dice *d)
{
    rp_chain_class *class = &c->class_of[k];
    int64_t bare          = between(d, 0, 1) ? 8 * sort->bytes : 2 * sort->bytes;

    class->option          = c->option[k];
    class->n_options       = (int)between(d, 1, sort->options);
    class->output          = between(d, 0, sort->bytes);
    class->bare_seconds    = random_seconds(d, sort);
    class->never_last      = between(d, 0, 4) == 0;
    for (int i = 0; i < 2; i++) class->bare_recompute[i] = between(d, 0, bare);
    for (int i = 0; i < 3; i++) class->bare[i] = between(d, 0, bare);
    for (int i = 0; i < RP_CHAIN_KINDS; i++) {
        class->waiting[i] = between(d, 0, 2 * sort->bytes);
        class->begun[i]   = between(d, 0, sort->bytes);
    }
    for (int o = 0; o < class->n_options; o++) {
        rp_chain_option *option = &c->option[k][o];
        option->saved           = between(d, 0, 4 * sort->bytes);
        option->forward         = option->saved + between(d, 0, sort->bytes);
        option->recompute           = option->saved + between(d, 0, sort->bytes);
        option->last            = between(d, 0, 5 * sort->bytes);
        for (int i = 0; i < RP_CHAIN_KINDS; i++) {
            option->backward[i]      = between(d, option->saved, 6 * sort->bytes);
            option->last_backward[i] = between(d, 0, option->backward[i]);
        }
        option->seconds       = random_seconds(d, sort);
        option->recompute_seconds = random_seconds(d, sort);
        option->last_seconds  = random_seconds(d, sort);
    }
    if (!sort->layers) return;
    class->never_last        = false;
    c->option[k][0].seconds  = 0;
    for (int o = 1; o < class->n_options; o++) c->option[k][o].seconds += 1;
}

static void make_layers(random_chain *c, int n, dice *d)
{
    int layer = -1, left = 0;

    for (int i = 0; i < n; i++, left--) {
        if (i > 0 && left <= 0) {
            layer++;
            left = (int)between(d, 1, 3);
        }
        c->layer[i] = i == 0 || i + 1 == n ? -1 : layer;
    }
    c->chain.layer = c->layer;
}

void random_chain_make(random_chain *c, const chain_sort *sort, uint64_t seed)
{
    dice d      = { seed * 0x9e3779b97f4a7c15ull + 1 };
    int classes = (int)between(&d, 1, sort->classes);

    *c = (random_chain){ .chain = { .class_of = c->class_of, .n_classes = classes, .n = sort->segments, .n_kinds = (int)between(&d, 1, 2),
                                    .segment = c->segment, .regions = sort->regions } };
    for (int k = 0; k < classes; k++) make_class(c, k, sort, &d);
    for (int i = 0; i < sort->segments; i++) c->segment[i] = (int)between(&d, 0, classes - 1);
    for (int k = 0; k < RP_CHAIN_KINDS; k++) {
        int64_t growth = some_bytes(&d, sort);
        for (int i = 0; i < sort->segments; i++) {
            c->forward[k][i]  = between(&d, 0, sort->bytes);
            c->backward[k][i] = some_bytes(&d, sort) + growth * (sort->segments - i);
        }
        c->chain.fixed_forward[k]  = c->forward[k];
        c->chain.fixed_backward[k] = c->backward[k];
    }
    if (sort->layers) make_layers(c, sort->segments, &d);
}

/* ---- a step, played ---- */

typedef struct {
    const rp_chain *chain;
    const int *option;
    const rp_chain_region *region;
    int n_regions;
    int64_t held[MOST_SEGMENTS * 16], live, most;
} player;

static const rp_chain_class *class_at(const rp_chain *chain, int i) { return &chain->class_of[chain->segment[i]]; }
static const rp_chain_option *met_by(const player *p, int i) { return &class_at(p->chain, i)->option[p->option[i]]; }

static void hold(player *p, int i, int64_t bytes)
{
    p->live += bytes - p->held[i];
    p->held[i] = bytes;
}

/* at: the segment whose backward is due, -1 in the forward of the step. more: by kind, NULL: 0. */
static void pass(player *p, int at, int i, const int64_t *more, int64_t bytes)
{
    for (int k = 0; k < p->chain->n_kinds; k++) {
        int64_t fixed = at < 0 ? p->chain->fixed_forward[k][i] : p->chain->fixed_backward[k][at];
        int64_t live  = fixed + p->live + bytes + (more ? more[k] : 0);
        if (live > p->most) p->most = live;
    }
}

static int child_with(const player *p, int parent, int i)
{
    for (int r = 0; r < p->n_regions; r++)
        if (p->region[r].parent == parent && p->region[r].first <= i && i < p->region[r].end) return r;
    return -1;
}

/* The forward of the step (-1), or of a region that is replayed. */
static void play_forward(player *p, int parent, int first, int end)
{
    int at              = parent < 0 ? -1 : end - 1;
    const int64_t *more = parent < 0 ? NULL : class_at(p->chain, at)->begun;

    for (int i = first; i < end; i++) {
        const rp_chain_class *c  = class_at(p->chain, i);
        const rp_chain_option *o = met_by(p, i);
        int r                    = child_with(p, parent, i);
        if (r < 0) {
            pass(p, at, i, more, parent < 0 ? o->forward : i == at ? o->last : o->recompute);
            hold(p, i, i == at ? 0 : o->saved);
            continue;
        }
        int behind = i - p->region[r].first;
        if (behind) hold(p, i - 1, 0);          /* what it reads of that counts as its own */
        pass(p, at, i, more, parent < 0 ? c->bare[behind < 2 ? behind : 2] : c->bare_recompute[behind > 0]);
        hold(p, i, c->output);
    }
}

static void play_backward(player *p, int parent, int first, int end)
{
    for (int i = end - 1; i >= first; i--) {
        int r = child_with(p, parent, i);
        hold(p, i, 0);
        if (r < 0) {
            pass(p, i, i, parent >= 0 && i == end - 1 ? met_by(p, i)->last_backward : met_by(p, i)->backward, 0);
            continue;
        }
        pass(p, i, i, class_at(p->chain, i)->waiting, 0);
        play_forward(p, r, p->region[r].first, i + 1);
        play_backward(p, r, p->region[r].first, i + 1);
        i = p->region[r].first;
    }
}

int64_t play(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions)
{
    player p = { .chain = chain, .option = option, .region = region, .n_regions = n_regions, .most = INT64_MIN };

    assert_true(chain->n <= RP_COUNT(p.held));
    play_forward(&p, -1, 0, chain->n);
    play_backward(&p, -1, 0, chain->n);
    assert_int_equal(p.live, 0);
    return p.most;
}

double segment_seconds(const rp_chain *chain, int i, int option, const rp_chain_region *region, int n_regions)
{
    const rp_chain_class *c  = class_at(chain, i);
    const rp_chain_option *o = &c->option[option];
    double around            = 0;
    int innermost            = -1;

    for (int r = 0; r < n_regions; r++) {
        if (i < region[r].first || i >= region[r].end) continue;
        around += innermost < 0 ? 0 : c->bare_seconds;
        innermost = r;
    }
    if (innermost < 0) return o->seconds;
    return o->seconds + around + (i == region[innermost].end - 1 ? o->last_seconds : o->recompute_seconds);
}

double recompute_seconds(const rp_chain *chain, const int *option, const rp_chain_region *region, int n_regions)
{
    double sum = 0;

    for (int i = 0; i < chain->n; i++) sum += segment_seconds(chain, i, option[i], region, n_regions);
    return sum;
}

/* ---- all plans ---- */

static int order_of(const one_plan *a, const one_plan *b, int n)
{
    for (int i = 0; i < n; i++)
        if (a->option[i] != b->option[i]) return a->option[i] - b->option[i];
    return a->n_regions - b->n_regions;
}

static bool no_worse(const one_plan *a, const one_plan *b, int n)
{
    if (a->bytes == b->bytes && a->seconds == b->seconds) return order_of(a, b, n) <= 0;
    return a->bytes <= b->bytes && a->seconds <= b->seconds;
}

static void note_plan(void *user, const rp_chain *chain, const one_plan *plan, const rp_chain_region *region)
{
    all_plans *plans = user;
    int kept = 0, n = chain->n;

    (void)region;
    for (int i = 0; i < plans->n; i++)
        if (no_worse(&plans->at[i], plan, n)) return;
    for (int i = 0; i < plans->n; i++)
        if (!no_worse(plan, &plans->at[i], n)) plans->at[kept++] = plans->at[i];
    if (kept == plans->room) {
        plans->room = 2 * plans->room + 16;
        plans->at   = realloc(plans->at, (size_t)plans->room * sizeof *plans->at);
        assert_non_null(plans->at);
    }
    plans->at[kept] = *plan;
    plans->n        = kept + 1;
}

static void all_options(const rp_chain *chain, const rp_chain_region *region, int n_regions, plan_visitor *visit, void *user)
{
    one_plan plan = { .n_regions = n_regions };

    for (int i = 0; i < chain->n;) {
        plan.bytes   = play(chain, plan.option, region, n_regions);
        plan.seconds = recompute_seconds(chain, plan.option, region, n_regions);
        visit(user, chain, &plan, region);
        for (i = 0; i < chain->n && ++plan.option[i] == class_at(chain, i)->n_options; i++) plan.option[i] = 0;
    }
}

static bool lies_in(const rp_chain_region *a, const rp_chain_region *b) { return a->first >= b->first && a->end <= b->end; }
static bool apart(const rp_chain_region *a, const rp_chain_region *b) { return a->end <= b->first || b->end <= a->first; }

/* They come by falling length, so whoever may be around one comes before it, the nearest last. */
static bool set_parents(const rp_chain *chain, rp_chain_region *region, int n)
{
    for (int i = 0; i < n; i++) {
        region[i].parent = -1;
        for (int j = 0; j < i; j++) {
            if (lies_in(&region[i], &region[j])) region[i].parent = j;
            else if (!apart(&region[i], &region[j])) return false;
            if (region[i].end == region[j].end) return false;
        }
        if (class_at(chain, region[i].end - 1)->never_last) return false;
    }
    return true;
}

static void all_regions(const rp_chain *chain, plan_visitor *visit, void *user)
{
    rp_chain_region span[16], chosen[16];
    int n_spans = 0;

    for (int length = chain->n - 1; length > 0; length--)
        for (int first = 0; first + length < chain->n; first++) span[n_spans++] = (rp_chain_region){ first, first + length, -1 };
    for (unsigned set = 0; set < 1u << n_spans; set++) {
        int n = 0;
        for (int i = 0; i < n_spans; i++)
            if (set >> i & 1) chosen[n++] = span[i];
        if (set_parents(chain, chosen, n)) all_options(chain, chosen, n, visit, user);
    }
}

static int by_bytes(const void *left, const void *right)
{
    const one_plan *a = left, *b = right;

    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

void each_plan(const rp_chain *chain, plan_visitor *visit, void *user)
{
    if (chain->regions) all_regions(chain, visit, user);
    else all_options(chain, NULL, 0, visit, user);
}

all_plans best_plans(const rp_chain *chain)
{
    all_plans out = { 0 };

    each_plan(chain, note_plan, &out);
    qsort(out.at, (size_t)out.n, sizeof *out.at, by_bytes);
    return out;
}

const one_plan *best_in(const all_plans *plans, int64_t budget)
{
    const one_plan *best = NULL;

    for (int i = 0; i < plans->n && plans->at[i].bytes <= budget; i++) best = &plans->at[i];
    return best;
}

void free_plans(all_plans *plans) { free(plans->at); }

/* ---- solving ---- */

rp_chain_plan solve(rp_ctx *ctx, const rp_chain *chain, int64_t budget)
{
    rp_chain_plan plan;

    assert_ok(ctx, chain_solve(ctx, chain, budget, &plan));
    return plan;
}

int64_t least_budget(rp_ctx *ctx, const rp_chain *chain)
{
    int64_t bytes = 0;

    assert_ok(ctx, chain_least(ctx, chain, &bytes));
    return bytes;
}

int64_t greatest_budget(rp_ctx *ctx, const rp_chain *chain)
{
    rp_chain_plan plan = solve(ctx, chain, INT64_MAX);
    int64_t bytes      = plan.bytes;

    rp__chain_plan_free(&plan);
    return bytes;
}

/* ---- checks ---- */

void check_plan(const rp_chain *chain, const rp_chain_plan *plan, int64_t budget)
{
    double seconds = recompute_seconds(chain, plan->option, plan->region, plan->n_regions);

    assert_true(plan->feasible);
    assert_true(plan->bytes <= budget);
    assert_int_equal(play(chain, plan->option, plan->region, plan->n_regions), plan->bytes);
    assert_int_equal(rp__chain_bytes(chain, plan->option, plan->region, plan->n_regions), plan->bytes);
    assert_true(fabs(seconds - plan->seconds) <= 1e-12 * seconds);
    assert_true(plan->bound <= plan->seconds);
    for (int r = 0; r < plan->n_regions; r++) {
        assert_true(plan->region[r].parent < r);
        assert_true(plan->region[r].first < plan->region[r].end);
    }
}

void check_same(const rp_chain *chain, const rp_chain_plan *a, const rp_chain_plan *b)
{
    assert_int_equal(a->bytes, b->bytes);
    assert_true(a->seconds == b->seconds);
    assert_memory_equal(a->option, b->option, (size_t)chain->n * sizeof *a->option);
    assert_int_equal(a->n_regions, b->n_regions);
    if (a->n_regions) assert_memory_equal(a->region, b->region, (size_t)a->n_regions * sizeof *a->region);
}

void check_sweep(rp_ctx *ctx, const rp_chain *chain, int steps)
{
    int64_t least = least_budget(ctx, chain), most = greatest_budget(ctx, chain);
    double before = INFINITY;

    for (int i = 0; i <= steps; i++) {
        int64_t budget     = least + (most - least) / steps * i;
        rp_chain_plan plan = solve(ctx, chain, budget);
        check_plan(chain, &plan, budget);
        assert_true(plan.exact);
        assert_true(plan.seconds <= before);
        rp_chain_plan tight = solve(ctx, chain, plan.bytes), under = solve(ctx, chain, plan.bytes - 1);
        check_same(chain, &plan, &tight);
        assert_true(under.feasible ? under.seconds > plan.seconds : plan.bytes == least);
        before = plan.seconds;
        rp__chain_plan_free(&plan);
        rp__chain_plan_free(&tight);
        rp__chain_plan_free(&under);
    }
}
