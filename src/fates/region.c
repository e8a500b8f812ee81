/* fates/region.c -- finds the calls that the replay of a region runs, the values it leaves and the values it reads from outside.
 *
 * The lists are made once, when the outermost region closes, for it and every region in it, the innermost first:
 *
 *   makes    values made in the region that the backward of one of its own calls reads, or that a region inside it reads as a
 *            bound, or that are made on demand; values of inner regions are left to the replay of the inner region
 *   run      the calls that `makes` depends on, found backwards from them; no other call is rerun
 *   bounds   values from outside the region that those calls read
 *
 * A region of one call needs no lists: it runs that call, leaves the values the call makes on demand, and reads the call's inputs.
 */
#include "fates/fates.h"

enum { NONE = RP_FATES_NONE };

/* ---- nesting ---- */

bool rp__fates_within(const rp_fates *w, int region, int outer)
{
    if (outer == NONE) return true;
    while (region != NONE && region != outer) region = w->region[region].parent;
    return region == outer;
}

int rp__fates_outermost(const rp_fates *w, int region)
{
    while (region != NONE && w->region[region].parent != NONE) region = w->region[region].parent;
    return region;
}

int rp__fates_first_unlisted(const rp_fates *w, int open)
{
    for (int r = 0; r < w->n_region; r++)
        if (w->region[r].parent == NONE && w->region[r].first < w->region[r].end && !w->region[r].listed) return r;
    return rp__fates_outermost(w, open);
}

/* Returns the innermost region that contains both; NONE if only the top level does. */
static int common(const rp_fates *w, int a, int b)
{
    while (a != NONE && !rp__fates_within(w, b, a)) a = w->region[a].parent;
    return a;
}

const int *rp__fates_bounds(const rp_fates *w, const rp_fate_region *r, int *n)
{
    *n = r->single ? w->call[r->first].n_reads : r->n_bounds;
    return r->single ? rp__fate_reads(w, &w->call[r->first]) : r->bounds;
}

bool rp__fates_runs_in(const rp_fates *w, int region, int call)
{
    const rp_fate_region *r = &w->region[region];

    if (r->single) return call == r->first;
    for (int i = 0; i < r->n_run; i++)
        if (r->run[i] == call) return true;
    return false;
}

/* ---- values that a replay leaves ---- */

/* Is it kept, so that no replay makes it? */
static bool kept(const rp_fate_value *v) { return v->call == NONE || v->promised || v->fate != RP_RECOMPUTE; }

/* Mark a value as needed if it is made in the region, and one of two readers needs it: a backward elsewhere in the region, or a region
 * inside it that has the value as a bound, at any depth. Regions between the two need not read it. Values of single-call regions are left
 * out, because they are made for each reader. */
static void want(rp_fates *w, int value, int reader, int region)
{
    rp_fate_value *v = &w->value[value];
    bool single      = v->region != region && v->region != NONE && w->region[v->region].single;

    if (!kept(v) && !single && common(w, reader, v->region) == region) v->needed = true;
}

static void want_of_call(rp_fates *w, int at, int region)
{
    const rp_fate_call *c = &w->call[at];
    const int *makes = rp__fate_makes(w, c), *needs = rp__fate_needs(w, c);

    for (int i = 0; i < c->n_makes && c->region == region; i++)
        w->value[makes[i]].needed = w->value[makes[i]].needed || w->value[makes[i]].on_demand;
    for (int i = 0; i < c->n_needs; i++) want(w, needs[i], c->region, region);
}

static void mark_needed(rp_fates *w, int region)
{
    const rp_fate_region *r = &w->region[region];

    for (int at = r->first; at < r->end; at++) want_of_call(w, at, region);
    for (int child = region + 1; child < w->n_region && w->region[child].first < r->end; child++) {
        int n;
        const int *bounds = rp__fates_bounds(w, &w->region[child], &n);
        for (int i = 0; i < n; i++) want(w, bounds[i], child, region);
    }
}

static bool makes_needed(const rp_fates *w, const rp_fate_call *c)
{
    const int *makes = rp__fate_makes(w, c);

    for (int i = 0; i < c->n_makes; i++)
        if (w->value[makes[i]].needed) return true;
    return false;
}

/* ---- its lists ---- */

/* Allocate the longest lists the region could have, in one block. */
static rp_status take_lists(rp_fates *w, rp_fate_region *r)
{
    int calls = r->end - r->first, makes = 0, reads = 0;

    RP_BUG_IF(r->run);
    for (int at = r->first; at < r->end; at++) {
        makes += w->call[at].n_makes;
        reads += w->call[at].n_reads;
    }
    r->run = rp__host_alloc(w->ctx, (calls + makes + reads) * (int64_t)sizeof *r->run);
    if (!r->run) return RP_ERR_MEMORY;
    r->makes  = r->run + calls;
    r->bounds = r->makes + makes;
    return RP_OK;
}

static void list_makes(const rp_fates *w, rp_fate_region *r)
{
    for (int at = r->first; at < r->end; at++) {
        const int *makes = rp__fate_makes(w, &w->call[at]);
        for (int i = 0; i < w->call[at].n_makes; i++)
            if (w->value[makes[i]].needed) r->makes[r->n_makes++] = makes[i];
    }
}

static void list_reads(rp_fates *w, int region, const rp_fate_call *c)
{
    rp_fate_region *r = &w->region[region];
    const int *reads  = rp__fate_reads(w, c);

    for (int i = 0; i < c->n_reads; i++) {
        rp_fate_value *v = &w->value[reads[i]];
        bool inside      = v->call != NONE && rp__fates_within(w, v->region, region);
        if (inside && !kept(v)) {
            v->needed = true;
        } else if (v->bound_at != w->plannings) {
            v->bound_at              = w->plannings;
            r->bounds[r->n_bounds++] = reads[i];
        }
    }
}

/* Walk backwards from the needed values: list the calls to run and their reads from outside. */
static void collect(rp_fates *w, int region)
{
    rp_fate_region *r = &w->region[region];

    w->plannings++;
    list_makes(w, r);
    for (int at = r->end - 1; at >= r->first; at--) {
        if (!makes_needed(w, &w->call[at])) continue;
        r->run[r->n_run++] = at;
        list_reads(w, region, &w->call[at]);
    }
    for (int i = 0; i < r->n_run / 2; i++) {      /* collected backwards, run forwards */
        int last                 = r->run[r->n_run - 1 - i];
        r->run[r->n_run - 1 - i] = r->run[i];
        r->run[i]                = last;
    }
}

static void list_one(rp_fates *w, int region)
{
    const rp_fate_region *r = &w->region[region];

    mark_needed(w, region);
    collect(w, region);
    for (int at = r->first; at < r->end; at++) {
        const int *makes = rp__fate_makes(w, &w->call[at]);
        for (int i = 0; i < w->call[at].n_makes; i++) w->value[makes[i]].needed = false;
    }
}

/* Count the bounds as used. Bounds that no replay makes become promised. */
static void use_bounds(rp_fates *w, rp_fate_region *r)
{
    int n;
    const int *bounds = rp__fates_bounds(w, r, &n);

    RP_BUG_IF(r->listed);
    for (int i = 0; i < n; i++) {
        rp_fate_value *v = &w->value[bounds[i]];
        v->uses++;
        v->promised = v->promised || kept(v) || !rp__fates_replayed_for(w, v, &w->call[r->first]);
    }
    r->listed = true;
}

static rp_status offload_bounds(rp_fates *w, const rp_fate_region *r)
{
    int n;
    const int *bounds = rp__fates_bounds(w, r, &n);

    for (int i = 0; i < n; i++) RP_TRY(rp__fates_offload(w, bounds[i]));
    return RP_OK;
}

/* All calls from the region's first on are in regions with lists. */
void rp__fates_drop_unpromised(rp_fates *w, int region)
{
    for (int at = w->region[region].first; at < w->n_call; at++) {
        const int *reads = rp__fate_reads(w, &w->call[at]);
        for (int i = 0; i < w->call[at].n_reads; i++)
            if (!w->value[reads[i]].promised) rp__fates_drop(w, reads[i]);
    }
}

void rp__fates_unlist(rp_fates *w, int first)
{
    for (int region = first; region < w->n_region; region++) {
        rp_fate_region *r = &w->region[region];
        int n             = 0;
        const int *bounds = r->listed ? rp__fates_bounds(w, r, &n) : NULL;
        for (int i = 0; i < n; i++) w->value[bounds[i]].uses--;
        rp__release(r->run);
        r->run = r->makes = r->bounds = NULL;
        r->n_run = r->n_makes = r->n_bounds = 0;
        r->listed                           = false;
    }
}

static bool is_empty(const rp_fate_region *r) { return r->first == r->end; }

rp_status rp__fates_list(rp_fates *w, int first)
{
    rp_status status = RP_OK;

    for (int region = w->n_region - 1; region >= first && status == RP_OK; region--) {
        rp_fate_region *r = &w->region[region];
        if (is_empty(r) || r->single) continue;
        status = take_lists(w, r);
        if (status == RP_OK) list_one(w, region);
    }
    for (int region = first; region < w->n_region && status == RP_OK; region++)
        if (!is_empty(&w->region[region])) status = offload_bounds(w, &w->region[region]);
    for (int region = first; region < w->n_region && status == RP_OK; region++)
        if (!is_empty(&w->region[region])) use_bounds(w, &w->region[region]);
    if (status != RP_OK) rp__fates_unlist(w, first);
    return status;
}

rp_status rp__fates_list_single(rp_fates *w, int region)
{
    use_bounds(w, &w->region[region]);
    rp__fates_drop_unpromised(w, region);
    return offload_bounds(w, &w->region[region]);
}
