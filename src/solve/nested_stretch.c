/* solve/nested_stretch.c -- chooses the regions that a plan may have, and finds which of their stretches are alike.
 *
 * Every chain has regions, however long it is. Their number depends on a limit of counted work. The first of these grains that fits is used:
 *
 *   grain 0      a region begins and ends at any segment
 *   grain 1      at any block
 *   grain g      at every g-th block, g = 2, 4, 8, …; besides, each block may be a region of its own
 *
 * For each grain, fronts of many points are tried before fronts of fewer. The work is computed from the chain alone, so the same chain
 * always has the same regions.
 *
 * Stretches share a front by their contents, not by their place. A stretch is described by its first segment's class, whether a block
 * begins there, how the fixed bytes change from there to its end, and the stretch after that segment.
 */
#include "base/list.h"
#include "solve/nested.h"

#include <math.h>
#include <string.h>

enum { FEWEST_BITS = 4, MOST_STRETCHES = 1 << 16, MOST_INSIDE = 24 };

static const double exact_points = 2048, work_limit = 20e6;

/* ---- which regions ---- */

static bool is_allowed(const rp_chain_nest *nest, int first, int end)
{
    int from = nest->block[first], to = nest->block[end], g = nest->grain;

    if (g == 0) return true;
    if (from < 0 || to < 0) return false;
    return to == from + 1 || g == 1 || (from % g == 0 && to % g == 0);
}

bool rp__nest_allows(const rp_chain_nest *nest, int first, int end)
{
    return is_allowed(nest, first, end) && rp__chain_may_be_region(nest->work, first, end);
}

/* Numbered so that the first layer's number is a multiple of every grain. */
static void number_blocks(rp_chain_nest *nest)
{
    const rp_chain *chain = nest->work->chain;
    int n                 = 1 << 24;

    for (int i = 0; chain->layer && i < chain->n && chain->layer[i] < 0; i++) n--;
    for (int i = 0; i <= chain->n; i++) nest->block[i] = rp__chain_begins_block(chain, i) ? n++ : -1;
}

/* Returns the number of stretches to store. */
static int64_t find_rows(rp_chain_nest *nest)
{
    int64_t all = 0;

    for (int end = 0; end <= nest->work->chain->n; end++) {
        int first         = 0;
        bool last         = end == nest->work->chain->n;      /* a region never ends after the last segment */
        while (first < end && (last || !is_allowed(nest, first, end))) first++;
        nest->lowest[end] = first;
        nest->row[end]    = all;
        all += end - first;
    }
    return all;
}

/* ---- which options ---- */

/* Bytes of an option inside a region: maximum over the replayed forward and the backwards. */
static int64_t most_inside(const rp_chain *chain, const rp_chain_option *o)
{
    int64_t most = o->recompute;

    for (int k = 0; k < chain->n_kinds; k++) most = rp__more(most, o->backward[k]);
    return most;
}

static bool is_worse(const rp_chain_nest *nest, int class, int a, int b)
{
    const rp_chain *chain    = nest->work->chain;
    const rp_chain_option *x = &chain->class_of[class].option[a], *y = &chain->class_of[class].option[b];
    const int64_t *ticks     = nest->work->ticks_in[0][class];
    bool same                = x->saved == y->saved && x->recompute == y->recompute && ticks[a] == ticks[b];

    if (x->saved < y->saved || x->recompute < y->recompute || ticks[a] < ticks[b]) return false;
    for (int k = 0; k < chain->n_kinds; k++) {
        if (x->backward[k] < y->backward[k]) return false;
        same = same && x->backward[k] == y->backward[k];
    }
    return !same || a > b;
}

/* Groups options by bytes saved and keeps two from each group: the one of fewest ticks and the one of fewest bytes. */
static int sample(const rp_chain_nest *nest, int class, int *list, int n)
{
    const rp_chain_option *option = nest->work->chain->class_of[class].option;
    const int64_t *ticks          = nest->work->ticks_in[0][class];
    int kept = 0, groups = MOST_INSIDE / 2;

    for (int group = 0; group < groups; group++) {
        int from = group * n / groups, to = (group + 1) * n / groups, fast = list[from], small = list[from];
        for (int at = from; at < to; at++) {
            if (ticks[list[at]] < ticks[fast]) fast = list[at];
            if (most_inside(nest->work->chain, &option[list[at]]) < most_inside(nest->work->chain, &option[small])) small = list[at];
        }
        list[kept++] = fast;
        if (small != fast) list[kept++] = small;
    }
    return kept;
}

static rp_status choose_options(rp_chain_nest *nest, int class)
{
    int n = nest->work->chain->class_of[class].n_options, kept = 0;
    const rp_chain_option *option = nest->work->chain->class_of[class].option;
    int *list                     = rp__bump_alloc(&nest->work->bump, n * (int64_t)sizeof *list);
    bool *tried                   = rp__bump_alloc(&nest->work->bump, n);

    if (!list || !tried) return RP_ERR_MEMORY;
    for (int at = 0; at < n; at++) {
        int o = nest->work->by_saved[class][at], by = 0;
        while (by < n && !is_worse(nest, class, o, by)) by++;
        if (by == n && option[o].recompute < RP_CHAIN_NEVER) list[kept++] = o;
    }
    nest->n_tried[class] = kept > MOST_INSIDE ? sample(nest, class, list, kept) : kept;
    for (int at = 0; at < nest->n_tried[class]; at++) tried[list[at]] = true;
    nest->tried[class] = tried;
    return RP_OK;
}

/* ---- which stretches are alike ---- */

static bool exceeds(const rp_chain *chain, int k, int by)
{
    for (int i = 0; i < chain->n; i++) {
        const rp_chain_class *c = rp__chain_class_at(chain, i);
        int64_t more            = chain->fixed_backward[by][i] - chain->fixed_backward[k][i];
        if (more < 0 || more + c->begun[by] < c->begun[k] || more + c->waiting[by] < c->waiting[k]) return false;
        for (int o = 0; o < c->n_options; o++) {
            const rp_chain_option *option = &c->option[o];
            if (more + option->backward[by] < option->backward[k] || more + option->last_backward[by] < option->last_backward[k]) return false;
        }
    }
    return true;
}

static void choose_kinds(rp_chain_nest *nest)
{
    const rp_chain *chain = nest->work->chain;

    for (int k = 0; k < chain->n_kinds; k++) {
        nest->counts[k] = true;
        for (int by = 0; by < chain->n_kinds; by++)
            if (by != k && (by < k ? nest->counts[by] : true) && exceeds(chain, k, by)) nest->counts[k] = false;
    }
}

static bool is_like(const rp_chain_nest *nest, const stretch *a, const stretch *b)
{
    if (a->class != b->class || a->begins != b->begins) return false;
    for (int k = 0; k < nest->work->chain->n_kinds; k++)
        if (nest->counts[k] && a->fixed[k] != b->fixed[k]) return false;
    return true;
}

static stretch describe(const rp_chain_nest *nest, int first, int end)
{
    const rp_chain *chain = nest->work->chain;
    stretch s             = { .first = first, .end = end, .class = chain->segment[first], .child = -1, .sibling = -1 };

    s.begins    = nest->block[first] >= 0;
    s.rest      = first + 1 < end ? index_of(nest, first + 1, end) : 0;
    s.end_fixed = rp__chain_fixed_recompute(chain, end);
    for (int k = 0; k < chain->n_kinds; k++) s.fixed[k] = chain->fixed_backward[k][first] - s.end_fixed;
    return s;
}

/* Stretch 0 is the empty one. */
static rp_status note_stretch(rp_chain_nest *nest, int first, int end)
{
    stretch s = describe(nest, first, end);
    int at    = nest->of[s.rest].child;

    while (at >= 0 && !is_like(nest, &nest->of[at], &s)) at = nest->of[at].sibling;
    if (at < 0) {
        RP_TRY(RP_GROW(nest->work->ctx, nest->of, nest->room, nest->n + 1));
        at                     = nest->n++;
        s.sibling              = nest->of[s.rest].child;
        nest->of[s.rest].child = at;
        nest->of[at]           = s;
    }
    nest->of[at].end_fixed                                     = rp__less(nest->of[at].end_fixed, s.end_fixed);
    nest->alike[nest->row[end] + first - nest->lowest[end]] = at;
    return RP_OK;
}

/* ---- how large fronts get ---- */

int64_t rp__nest_need(const rp_chain_nest *nest, const stretch *s, const rp_chain_option *o)
{
    const int64_t *backward = is_last(s) ? o->last_backward : o->backward;
    int64_t need            = is_last(s) ? o->last : o->recompute;

    for (int k = 0; k < nest->work->chain->n_kinds; k++)
        if (nest->counts[k]) need = rp__more(need, s->fixed[k] + backward[k]);
    return need;
}

static void bound_options(rp_chain_nest *nest, stretch *s)
{
    const rp_chain_class *c = &nest->work->chain->class_of[s->class];
    const int64_t *ticks    = ticks_in(nest, s);
    const stretch *rest     = &nest->of[s->rest];
    int64_t fewest          = INT64_MAX;

    s->least = s->most = INT64_MAX;
    for (int o = 0; o < c->n_options; o++) fewest = rp__less(fewest, ticks[o]);
    for (int o = 0; o < c->n_options; o++) {
        int64_t need = rp__nest_need(nest, s, &c->option[o]), saved = c->option[o].saved, bytes = rp__more(need, saved + rest->least);
        if (bytes < s->least) {
            s->least        = bytes;
            s->least_option = o;
        }
        if (ticks[o] == fewest) s->most = rp__less(s->most, rp__more(need, saved + rest->most));
        s->points += rest->points;
    }
}

static void bound_stretch(rp_chain_nest *nest, stretch *s)
{
    int64_t bare = RP_CHAIN_NOWHERE;

    bound_options(nest, s);
    for (int j = s->first + 1; j < s->end; j++) {
        bare = rp__more(bare, bare_of(nest, s->first, j - 1));
        if (!rp__nest_allows(nest, s->first, j)) continue;
        int64_t inside = rp__more(least_of(nest, s->first, j) + shift_between(nest, j, s->end), waiting_of(nest, j, s->end));
        int64_t bytes  = rp__more(rp__more(bare, inside), output_of(nest, j - 1) + least_of(nest, j, s->end));
        s->points += nest->of[index_of(nest, s->first, j)].points + nest->of[index_of(nest, j, s->end)].points;
        s->n_joins++;
        if (bytes >= s->least) continue;
        s->least        = bytes;
        s->least_option = -1;
    }
    s->thin = s->points > exact_points;
}

/* The number of cells that may hold points; sizes are multiples of a unit. */
static double cells(const rp_chain_nest *nest, const stretch *s, int bits)
{
    double octaves = log2(fmax((double)(s->most - s->least) / (double)nest->work->unit, 1)) - bits;

    return ldexp(1, bits) + ldexp(fmax(octaves, 0), bits - 1);
}

static double work_with(const rp_chain_nest *nest, int bits)
{
    double work = 0;

    for (int i = 1; i < nest->n; i++) {
        const stretch *s = &nest->of[i];
        double n         = s->thin ? 2 * cells(nest, s, bits) : s->points;
        work += n * (2.0 * nest->n_tried[s->class] + 4.0 * s->n_joins);
    }
    return work;
}

/* ---- all of them ---- */

static rp_status note_all(rp_chain_nest *nest, int64_t all)
{
    rp__release(nest->alike);
    nest->alike = rp__host_alloc(nest->work->ctx, (all + 1) * (int64_t)sizeof *nest->alike);
    if (!nest->alike) return RP_ERR_MEMORY;
    nest->n     = 1;
    nest->of[0] = (stretch){ .child = -1, .least = RP_CHAIN_NOWHERE, .most = RP_CHAIN_NOWHERE, .points = 1, .made = true };
    for (int end = 1; end < nest->work->chain->n; end++)
        for (int first = end - 1; first >= nest->lowest[end]; first--) RP_TRY(note_stretch(nest, first, end));
    return RP_OK;
}

/* Sets the number of bits. Returns whether the fronts of these regions fit the work limit with at least `fewest` bits. */
static bool choose_bits(rp_chain_nest *nest, int fewest)
{
    for (int i = 1; i < nest->n; i++) bound_stretch(nest, &nest->of[i]);
    nest->bits = nest->most_bits;
    while (nest->bits > fewest && work_with(nest, nest->bits) > work_limit) nest->bits--;
    return nest->bits > fewest || work_with(nest, nest->bits) <= work_limit;
}

static rp_status open_lists(rp_chain_nest *nest)
{
    rp_bump *bump   = &nest->work->bump;
    int64_t n       = nest->work->chain->n + 1, classes = nest->work->chain->n_classes;

    nest->block    = rp__bump_alloc(bump, n * (int64_t)sizeof *nest->block);
    nest->lowest   = rp__bump_alloc(bump, n * (int64_t)sizeof *nest->lowest);
    nest->row      = rp__bump_alloc(bump, n * (int64_t)sizeof *nest->row);
    nest->tried    = rp__bump_alloc(bump, classes * (int64_t)sizeof *nest->tried);
    nest->n_tried  = rp__bump_alloc(bump, classes * (int64_t)sizeof *nest->n_tried);
    if (!nest->block || !nest->lowest || !nest->row || !nest->tried || !nest->n_tried) return RP_ERR_MEMORY;
    return RP_GROW(nest->work->ctx, nest->of, nest->room, 1);
}

rp_status rp__nest_stretches(rp_chain_nest *nest)
{
    int n = nest->work->chain->n;

    RP_TRY(open_lists(nest));
    choose_kinds(nest);
    number_blocks(nest);
    for (int class = 0; class < nest->work->chain->n_classes; class++) RP_TRY(choose_options(nest, class));
    for (;; nest->grain = nest->grain ? 2 * nest->grain : 1) {
        bool coarsest = nest->grain > n;
        int64_t all   = find_rows(nest);
        if (all > MOST_STRETCHES && !coarsest) continue;
        RP_TRY(note_all(nest, all));
        if (choose_bits(nest, coarsest ? 0 : FEWEST_BITS) || coarsest) return RP_OK;
    }
}
