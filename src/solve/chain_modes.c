/* solve/chain_modes.c -- the classic modes as plans, so that no plan found is worse than one of them.
 *
 *   keep all       nothing is recomputed
 *   each layer     every layer is a region, which keeps only its input and, once it has been replayed, all its values
 *   every k-th     every k-th layer is such a region, k = 2 … 8; the others keep all
 *   root           regions of about sqrt(L) of L layers
 *
 * Each is an ordinary plan of the chain: its bytes and its time come from the same walk.
 */
#include "solve/chain_internal.h"

#include <math.h>

typedef struct { int first, end; } layer;

/* Lists layers in order; without layer numbers, each segment except the last. Returns their number. */
static int list_layers(const rp_chain *chain, layer *out)
{
    bool numbered = false;
    int n         = 0;

    for (int i = 0; i < chain->n; i++) numbered = numbered || (chain->layer && chain->layer[i] >= 0);
    for (int first = 0, end; first < chain->n; first = end) {
        for (end = first + 1; !rp__chain_begins_block(chain, end);) end++;
        if (end == chain->n || (numbered && chain->layer[first] < 0)) continue;
        out[n++] = (layer){ first, end };
    }
    return n;
}

/* The option that recomputes least by itself; of equals the one that needs fewest bytes. */
static int keep_option(const rp_chain_work *w, int i, bool in_region)
{
    const rp_chain_class *c = rp__chain_class_at(w->chain, i);
    const int64_t *ticks    = w->ticks[w->chain->segment[i]];
    int best                = -1;

    for (int o = 0; o < c->n_options; o++) {
        if (in_region && c->option[o].recompute >= RP_CHAIN_NEVER) continue;
        if (best < 0 || ticks[o] < ticks[best] ||
            (ticks[o] == ticks[best] && rp__chain_need(w->chain, i, &c->option[o]) < rp__chain_need(w->chain, i, &c->option[best])))
            best = o;
    }
    return best;
}

static bool add_region(const rp_chain_work *w, rp_chain_plan *plan, int first, int end)
{
    if (rp__chain_class_at(w->chain, end - 1)->never_last) return false;
    plan->region[plan->n_regions++] = (rp_chain_region){ first, end, -1 };
    for (int i = first; i < end; i++) {
        plan->option[i] = keep_option(w, i, true);
        if (plan->option[i] < 0) return false;
    }
    return true;
}

/* Makes a region of every k-th layer, or regions of `together` layers from all of them. */
static bool add_regions(const rp_chain_work *w, rp_chain_plan *plan, const layer *at, int n, int every, int together)
{
    for (int i = every - 1; i < n; i += every > 1 ? every : together) {
        int last = every > 1 ? i : (int)rp__less(i + together, n) - 1;
        if (!add_region(w, plan, at[i].first, at[last].end)) return false;
    }
    return true;
}

static bool make_mode(const rp_chain_work *w, int mode, rp_chain_plan *plan, layer *at)
{
    int n = list_layers(w->chain, at);

    for (int i = 0; i < w->chain->n; i++) {
        plan->option[i] = keep_option(w, i, false);
        if (plan->option[i] < 0) return false;
    }
    if (mode == RP_CHAIN_KEEP_ALL) return true;
    if (!w->chain->regions || !n) return false;
    if (mode == RP_CHAIN_ROOT) return add_regions(w, plan, at, n, 1, (int)ceil(sqrt(n)));
    return add_regions(w, plan, at, n, mode - RP_CHAIN_EACH_LAYER + 1, 1);
}

rp_status rp__chain_mode(const rp_chain_work *w, int mode, rp_chain_found *out)
{
    rp_chain_plan plan = { .option = rp__host_alloc(w->ctx, w->chain->n * (int64_t)sizeof *plan.option),
                           .region = rp__host_alloc(w->ctx, w->chain->n * (int64_t)sizeof *plan.region) };
    layer *at          = rp__host_alloc(w->ctx, w->chain->n * (int64_t)sizeof *at);
    rp_status status   = plan.option && plan.region && at ? RP_OK : RP_ERR_MEMORY;

    plan.feasible = status == RP_OK && make_mode(w, mode, &plan, at);
    if (plan.feasible) {
        plan.bytes = rp__chain_bytes(w->chain, plan.option, plan.region, plan.n_regions);
        *out       = (rp_chain_found){ plan, rp__chain_ticks(w, &plan) };
    } else {
        rp__chain_plan_free(&plan);
        *out = (rp_chain_found){ 0 };
    }
    rp__release(at);
    return status;
}
