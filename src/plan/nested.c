/* plan/nested.c -- fronts of regions: what runs in a region's backward, and regions in regions.
 *
 *   stretch [i, e)   what of a region that ends at e is still to come from segment i on: its forward, run again, and its backward
 *
 * Behind segment i of it there is the stretch [i+1, e); behind a region [i, j) inside there is [j, e), and when that is done the region
 * itself is a stretch [i, j) of its own. A stretch ends with the region's last segment, which takes what an option takes there:
 *
 *   bytes  = max(need of the option as the last one)                                        in [e-1, e)
 *   bytes  = max(need of the option in the middle, saved + bytes of [i+1, e))
 *   bytes  = max(forwards of i … j-1 that keep nothing, waiting of j-1, output of j-1 + bytes of [j, e), bytes of [i, j))
 *   ticks  = their sums, and the bare forwards of i … j-1 for a region inside
 *
 * Forwards in a stretch run where the backward of its last segment first asks, so what is fixed there is counted from, and bytes of a
 * stretch are relative to that. Stretches are alike if their segments' classes are and what is fixed in their backwards changes alike
 * from one to the next: they share one front. So a model of equal blocks has as many fronts as blocks, whatever gradients grow by.
 *
 * This is the recurrence of Griewank and Walther's revolve (2000) with the options and unequal chains of Beaumont et al.'s rotor (2019);
 * a region's input is held until its backward is done.
 *
 * Fronts are exact while they must be small. Others are thinned (chain_front.c), by cells that depend on the chain alone: their points
 * remain ways that exist, with what they exactly need, and the way of least bytes always stays. What a budget cannot use is left out in
 * whole cells, so that under a greater budget the same ways, and more, are found.
 */
#include "plan/chain_inside.h"

#include <math.h>
#include <string.h>

enum { MOST_BITS = 14, LEAST_BITS = 3, MOST_SEGMENTS = 2048 };

static const double exact_points = 4096, work_limit = 60e6;

typedef struct {
    int first, end;                 /* one of the stretches that are so */
    int class, rest, child, sibling; /* of its first segment; rest: the stretch without that; a tree of stretches, by rest */
    int64_t fixed[RP_CHAIN_KINDS];  /* in the first segment's backward, relative to the end's */
    int64_t end_fixed;              /* the least of the ends' */
    int64_t limit;                  /* of bytes that are of use in the budget */
    int64_t least, most;            /* bytes of the ways of least bytes and of least ticks */
    double points;                  /* its front has no more of them */
    bool thin;
    rp_chain_span front;
} stretch;

struct rp_chain_nest {
    rp_chain_work *work;
    bool counts[RP_CHAIN_KINDS];    /* kinds of pass that another one does not always exceed */
    int *alike;                     /* [first * n + end - 1]: index of the stretch that stands for it */
    stretch *of;
    int n, room, bits;
    rp_chain_list store, side[2], joined;
};

static const rp_chain_point nothing = { RP_CHAIN_NOWHERE, 0 };

static int index_of(const rp_chain_nest *nest, int first, int end) { return nest->alike[first * nest->work->chain->n + end - 1]; }

/* Relative to what is fixed at its end, as everything here. */
static rp_chain_front front_of(const rp_chain_nest *nest, int first, int end)
{
    if (first == end) return (rp_chain_front){ &nothing, 1 };
    return rp__list_front(&nest->store, nest->of[index_of(nest, first, end)].front);
}

static int64_t least_of(const rp_chain_nest *nest, int first, int end)
{
    return first == end ? RP_CHAIN_NOWHERE : nest->of[index_of(nest, first, end)].least;
}

static bool is_last(const stretch *s) { return s->end == s->first + 1; }

static int64_t need_in(const rp_chain_nest *nest, const stretch *s, const rp_chain_option *o)
{
    const int64_t *backward = is_last(s) ? o->last_backward : o->backward;
    int64_t need            = is_last(s) ? o->last : o->again;

    for (int k = 0; k < nest->work->chain->n_kinds; k++)
        if (nest->counts[k]) need = rp__more(need, s->fixed[k] + backward[k]);
    return need;
}

static const int64_t *ticks_in(const rp_chain_nest *nest, const stretch *s) { return nest->work->ticks_in[is_last(s)][s->class]; }

static int64_t output_of(const rp_chain_nest *nest, int i) { return rp__chain_class_at(nest->work->chain, i)->output; }

/* From bytes relative to one end to bytes relative to another. */
static int64_t shift_between(const rp_chain_nest *nest, int from_end, int to_end)
{
    return rp__chain_fixed_again(nest->work->chain, from_end) - rp__chain_fixed_again(nest->work->chain, to_end);
}

/* A region inside that begins at `first`, so far as it is the same wherever it ends: segment i of it run again with nothing kept. */
static int64_t bare_of(const rp_chain_nest *nest, int first, int i)
{
    return rp__chain_class_at(nest->work->chain, i)->bare_again[i > first];
}

static int64_t waiting_of(const rp_chain_nest *nest, int inner_end, int end)
{
    return rp__chain_waiting(nest->work->chain, inner_end) - rp__chain_fixed_again(nest->work->chain, end);
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
    if (a->class != b->class) return false;
    for (int k = 0; k < nest->work->chain->n_kinds; k++)
        if (nest->counts[k] && a->fixed[k] != b->fixed[k]) return false;
    return true;
}

static stretch describe(const rp_chain_nest *nest, int first, int end)
{
    const rp_chain *chain = nest->work->chain;
    stretch s             = { .first = first, .end = end, .class = chain->segment[first], .child = -1, .sibling = -1 };

    s.rest      = first + 1 < end ? index_of(nest, first + 1, end) : 0;
    s.end_fixed = rp__chain_fixed_again(chain, end);
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
        if (nest->n == nest->room) {
            int room       = 2 * nest->room;
            stretch *grown = rp__host_grow(nest->work->ctx, nest->of, nest->room * (int64_t)sizeof s, room * (int64_t)sizeof s);
            if (!grown) return RP_ERR_MEMORY;
            nest->of   = grown;
            nest->room = room;
        }
        at                     = nest->n++;
        s.sibling              = nest->of[s.rest].child;
        nest->of[s.rest].child = at;
        nest->of[at]           = s;
    }
    nest->of[at].end_fixed                              = rp__less(nest->of[at].end_fixed, s.end_fixed);
    nest->alike[first * nest->work->chain->n + end - 1] = at;
    return RP_OK;
}

/* ---- how large fronts get ---- */

static void bound_stretch(rp_chain_nest *nest, stretch *s)
{
    const rp_chain_class *c = &nest->work->chain->class_of[s->class];
    const int64_t *ticks    = ticks_in(nest, s);
    const stretch *rest     = &nest->of[s->rest];
    int64_t fewest = INT64_MAX, bare = RP_CHAIN_NOWHERE;

    s->least = s->most = INT64_MAX;
    for (int o = 0; o < c->n_options; o++) fewest = rp__less(fewest, ticks[o]);
    for (int o = 0; o < c->n_options; o++) {
        int64_t need = need_in(nest, s, &c->option[o]), saved = c->option[o].saved;
        s->least = rp__less(s->least, rp__more(need, saved + rest->least));
        if (ticks[o] == fewest) s->most = rp__less(s->most, rp__more(need, saved + rest->most));
        s->points += rest->points;
    }
    for (int j = s->first + 1; j < s->end; j++) {
        int64_t inside = rp__more(least_of(nest, s->first, j) + shift_between(nest, j, s->end), waiting_of(nest, j, s->end));
        bare           = rp__more(bare, bare_of(nest, s->first, j - 1));
        if (!rp__chain_may_be_region(nest->work, s->first, j)) continue;
        s->least = rp__less(s->least, rp__more(rp__more(bare, inside), output_of(nest, j - 1) + least_of(nest, j, s->end)));
        s->points += nest->of[index_of(nest, s->first, j)].points + nest->of[index_of(nest, j, s->end)].points;
    }
    s->thin = s->points > exact_points;
}

/* How many cells may hold points, where sizes are multiples of a unit. */
static double cells(const rp_chain_nest *nest, const stretch *s, int bits)
{
    double octaves = log2(fmax((double)(s->most - s->least) / (double)nest->work->unit, 1)) - bits;

    return ldexp(1, bits) + ldexp(fmax(octaves, 0), bits - 1);
}

static double work_with(rp_chain_nest *nest, int bits)
{
    double work = 0;

    for (int i = 1; i < nest->n; i++) {
        stretch *s = &nest->of[i];
        double n   = s->thin ? 2 * cells(nest, s, bits) : s->points;
        work += n * (2.0 * nest->work->chain->class_of[s->class].n_options + 4.0 * (s->end - s->first));
    }
    return work;
}

/* ---- fronts ---- */

static rp_status merge(rp_chain_nest *nest, rp_chain_front front, const rp_chain_move *move)
{
    rp_chain_list *from = &nest->side[0], *to = &nest->side[1], swap;

    to->n = 0;
    if (!rp__list_room(nest->work->ctx, to, from->n + front.n)) return RP_ERR_MEMORY;
    nest->work->work += from->n + front.n;
    to->n = rp__front_merge((rp_chain_front){ from->at, from->n }, front, move, to->at);
    swap  = *from;
    *from = *to;
    *to   = swap;
    return RP_OK;
}

static rp_status add_region(rp_chain_nest *nest, const stretch *s, int j, const rp_chain_move *both)
{
    rp_chain_front behind = front_of(nest, j, s->end), inside = front_of(nest, s->first, j);
    rp_chain_move as_it_is = { .floor = RP_CHAIN_NOWHERE, .most = both->most };

    nest->joined.n = 0;
    if (!rp__list_room(nest->work->ctx, &nest->joined, behind.n + inside.n)) return RP_ERR_MEMORY;
    nest->work->work += behind.n + inside.n;
    nest->joined.n = rp__front_join(behind, output_of(nest, j - 1), inside, shift_between(nest, j, s->end), both, nest->joined.at);
    return merge(nest, (rp_chain_front){ nest->joined.at, nest->joined.n }, &as_it_is);
}

static rp_status make_front(rp_chain_nest *nest, stretch *s)
{
    const rp_chain_class *c = &nest->work->chain->class_of[s->class];
    rp_chain_list *front    = &nest->side[0];
    rp_chain_move both      = { .most = s->limit };
    int64_t bare            = RP_CHAIN_NOWHERE;

    front->n = 0;
    for (int o = 0; o < c->n_options; o++) {
        rp_chain_move move = { c->option[o].saved, need_in(nest, s, &c->option[o]), ticks_in(nest, s)[o], s->limit };
        RP_TRY(merge(nest, front_of(nest, s->first + 1, s->end), &move));
    }
    for (int j = s->first + 1; j < s->end; j++) {
        bare       = rp__more(bare, bare_of(nest, s->first, j - 1));
        both.floor = rp__more(bare, waiting_of(nest, j, s->end));
        both.ticks += nest->work->bare_ticks[nest->work->chain->segment[j - 1]];
        if (rp__chain_may_be_region(nest->work, s->first, j)) RP_TRY(add_region(nest, s, j, &both));
    }
    if (s->thin) front->n = rp__front_thin(front->at, front->n, s->least, nest->bits);
    if (!rp__list_room(nest->work->ctx, &nest->store, front->n)) return RP_ERR_MEMORY;
    s->front = (rp_chain_span){ nest->store.n, front->n };
    if (front->n) memcpy(nest->store.at + nest->store.n, front->at, (size_t)front->n * sizeof *front->at);
    nest->store.n += front->n;
    return RP_OK;
}

/* Whole cells, and of what a front is made from all that may lie in them: so its points do not change with a greater budget. Where cells are coarse
 * and stretches many, that grows past anything that could be of use. */
static void limit_stretch(rp_chain_nest *nest, stretch *s)
{
    if (s->thin) s->limit = rp__less(rp__front_cell_end(s->limit, s->least, nest->bits), RP_CHAIN_MOST);
    nest->of[s->rest].limit = rp__more(nest->of[s->rest].limit, s->limit);
    for (int j = s->first + 1; j < s->end; j++) {
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
        if (need_in(nest, s, &c->option[o]) > left->bytes) continue;
        const rp_chain_point *found = rp__front_find(front_of(nest, i + 1, end), behind.bytes);
        if (!found || found->ticks > behind.ticks) continue;
        *left   = *found;
        *option = o;
        return true;
    }
    return false;
}

static int read_region(const rp_chain_nest *nest, int i, int end, rp_chain_point *left, rp_chain_point *inside)
{
    int64_t bare = RP_CHAIN_NOWHERE, again = 0;

    for (int j = i + 1; j < end; j++) {
        bare = rp__more(bare, bare_of(nest, i, j - 1));
        again += nest->work->bare_ticks[nest->work->chain->segment[j - 1]];
        rp_chain_point behind       = { left->bytes - output_of(nest, j - 1), 0 };
        const rp_chain_point *found = rp__front_find(front_of(nest, j, end), behind.bytes);
        *inside                     = (rp_chain_point){ left->bytes - shift_between(nest, j, end), 0 };
        const rp_chain_point *in    = rp__front_find(front_of(nest, i, j), inside->bytes);
        if (!rp__chain_may_be_region(nest->work, i, j) || rp__more(bare, waiting_of(nest, j, end)) > left->bytes || !found || !in) continue;
        if (found->ticks + in->ticks + again > left->ticks) continue;
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

rp_chain_front rp__nest_front(const rp_chain_nest *nest, int first, int end) { return front_of(nest, first, end); }

/* ---- the least budget ---- */

/* Of a rest that begins with a region. */
static int64_t least_with_region(const rp_chain_nest *nest, int first, const int64_t *rest)
{
    const rp_chain *chain = nest->work->chain;
    int64_t least = INT64_MAX, bare = RP_CHAIN_NOWHERE;

    for (int end = first + 1; end < chain->n; end++) {
        int64_t inside = rp__more(least_of(nest, first, end) + rp__chain_fixed_again(chain, end), rp__chain_waiting(chain, end));
        bare           = rp__more(bare, rp__chain_bare(chain, first, end - 1));
        if (!rp__chain_may_be_region(nest->work, first, end)) continue;
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

/* A region never ends behind the last segment. */
static rp_status note_stretches(rp_chain_nest *nest)
{
    int n = nest->work->chain->n;

    nest->alike = rp__host_alloc(nest->work->ctx, (int64_t)n * n * (int64_t)sizeof *nest->alike);
    nest->room  = 4 * n + 16;
    nest->of    = rp__host_alloc(nest->work->ctx, nest->room * (int64_t)sizeof *nest->of);
    if (!nest->alike || !nest->of) return RP_ERR_MEMORY;
    nest->of[nest->n++] = (stretch){ .child = -1, .least = RP_CHAIN_NOWHERE, .most = RP_CHAIN_NOWHERE, .points = 1 };
    for (int end = 1; end < n; end++)
        for (int first = end - 1; first >= 0; first--) RP_TRY(note_stretch(nest, first, end));
    for (int i = 1; i < nest->n; i++) bound_stretch(nest, &nest->of[i]);
    return RP_OK;
}

rp_status rp__nest_open(rp_chain_work *w, int bits, rp_chain_nest **out)
{
    rp_chain_nest *nest = rp__host_alloc(w->ctx, sizeof *nest);
    rp_status status;

    *out = NULL;
    if (!nest) return RP_ERR_MEMORY;
    nest->work = w;
    nest->bits = bits;
    choose_kinds(nest);
    status = w->chain->n > MOST_SEGMENTS ? RP_OK : note_stretches(nest);
    while (nest->bits >= LEAST_BITS && work_with(nest, nest->bits) > work_limit) nest->bits--;
    if (status == RP_OK && nest->n && nest->bits >= LEAST_BITS) *out = nest;
    else rp__nest_close(nest);
    return status;
}

rp_status rp__nest_fill(rp_chain_nest *nest, int64_t budget)
{
    for (int i = 1; i < nest->n; i++) nest->of[i].limit = budget - nest->of[i].end_fixed;
    for (int i = nest->n - 1; i > 0; i--) limit_stretch(nest, &nest->of[i]);
    for (int i = 1; i < nest->n; i++) RP_TRY(make_front(nest, &nest->of[i]));
    return RP_OK;
}

void rp__nest_close(rp_chain_nest *nest)
{
    if (!nest) return;
    rp__release(nest->alike);
    rp__release(nest->of);
    rp__release(nest->store.at);
    rp__release(nest->side[0].at);
    rp__release(nest->side[1].at);
    rp__release(nest->joined.at);
    rp__release(nest);
}
