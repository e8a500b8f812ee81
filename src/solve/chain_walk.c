/* solve/chain_walk.c -- the bytes of a plan: the constraints of each segment, and a walk through a step. */
#include "solve/chain_internal.h"

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

/* A segment that meets its option: in the step (-1), or in a replay of `region`. */
static void walk_segment(walk *w, int region, int i, int64_t held)
{
    const rp_chain_option *o = &rp__chain_class_at(w->chain, i)->option[w->option[i]];
    int end                  = region < 0 ? w->chain->n : w->region[region].end;
    bool last                = region >= 0 && i + 1 == end;

    reach(w, held + rp__chain_need_backward(w->chain, i, last ? o->last_backward : o->backward));
    if (region < 0) reach(w, held + rp__chain_fixed_forward(w->chain, i) + o->forward);
    else reach(w, held + rp__chain_fixed_recompute(w->chain, end) + (last ? o->last : o->recompute));
}

/* Region r until its replay, in the step or in the region around it. */
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

/* Everything in a region (-1: the step) between its segments first and end; `held` bytes are held before. */
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

int64_t rp__chain_least_option(const rp_chain *chain, int i, int64_t behind)
{
    const rp_chain_class *c = rp__chain_class_at(chain, i);
    int64_t least           = INT64_MAX;

    for (int o = 0; o < c->n_options; o++)
        least = rp__less(least, rp__more(rp__chain_need(chain, i, &c->option[o]), c->option[o].saved + behind));
    return least;
}
