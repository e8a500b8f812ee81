/* fates/replay.c -- runs replays, and makes, prefetches and drops the values that a backward reads, in a fixed order.
 *
 * A region is replayed when the first value it makes is read. The replay leaves out calls that turned out not to be needed. Their values
 * are already here, because a later region or an outer replay asked for them, or their readers got no gradient. So a replay never runs a
 * call recorded after the one whose backward asked for it.
 */
#include "fates/fates.h"

enum { NONE = RP_FATES_NONE };

/* ---- a replay ---- */

static bool makes_missing(const rp_fates *w, const rp_fate_call *c)
{
    const int *makes = rp__fate_makes(w, c);

    for (int i = 0; i < c->n_makes; i++) {
        const rp_fate_value *v = &w->value[makes[i]];
        if (rp__fate_gone(v) && (v->needed || v->pending > 0)) return true;
    }
    return false;
}

static int n_run(const rp_fate_region *r) { return r->single ? 1 : r->n_run; }
static int run_at(const rp_fate_region *r, int i) { return r->single ? r->first : r->run[i]; }

/* Select the calls of the region's list whose values are needed now, and count their reads. */
static void choose_calls(rp_fates *w, const rp_fate_region *r)
{
    for (int i = n_run(r) - 1; i >= 0; i--) {
        rp_fate_call *c  = &w->call[run_at(r, i)];
        const int *reads = rp__fate_reads(w, c);
        c->runs          = makes_missing(w, c);
        for (int j = 0; j < c->n_reads && c->runs; j++) w->value[reads[j]].pending++;
    }
}

/* Make the outside values that the selected calls read: fetch them, or replay the region that makes them on demand. */
static rp_status make_bounds(rp_fates *w, const rp_fate_region *r)
{
    int n;
    const int *bounds = rp__fates_bounds(w, r, &n);

    for (int i = 0; i < n; i++)
        if (w->value[bounds[i]].pending > 0) RP_TRY(rp__fates_make(w, bounds[i]));
    return RP_OK;
}

/* A value that only later calls of the replay read is dropped at the last of these reads. */
static void read_done(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    if (--v->pending == 0 && v->here && v->passing && !v->needed) rp__fates_drop(w, value);
}

rp_status rp__fates_rerun(rp_fates *w, int call, const rp_fate_take *take)
{
    const int *makes = rp__fate_makes(w, &w->call[call]);

    RP_TRY(w->act->run(w->self, call, take));
    for (int i = 0; i < w->call[call].n_makes; i++) {
        if (take[i] == RP_FATES_LEAVE) continue;
        rp__fates_hold(w, makes[i]);
        w->value[makes[i]].recomputed = true;
        w->value[makes[i]].passing    = take[i] == RP_FATES_PASS;
    }
    return RP_OK;
}

static rp_status run_call(rp_fates *w, int at)
{
    const rp_fate_call *c = &w->call[at];
    const int *makes = rp__fate_makes(w, c), *reads = rp__fate_reads(w, c);
    rp_fate_take how[RP_FATES_MADE];

    for (int i = 0; i < c->n_makes; i++) {
        const rp_fate_value *v = &w->value[makes[i]];
        how[i]                 = !rp__fate_gone(v) ? RP_FATES_LEAVE : v->needed ? RP_FATES_HOLD : v->pending > 0 ? RP_FATES_PASS : RP_FATES_LEAVE;
    }
    RP_TRY(rp__fates_rerun(w, at, how));
    for (int i = 0; i < c->n_reads; i++) read_done(w, reads[i]);
    return RP_OK;
}

rp_status rp__fates_run(rp_fates *w, int region)
{
    const rp_fate_region *r = &w->region[region];
    int outer               = w->replaying;

    choose_calls(w, r);
    rp_status status = make_bounds(w, r);
    w->replaying     = region;
    for (int i = 0; i < n_run(r) && status == RP_OK; i++)
        if (w->call[run_at(r, i)].runs) status = run_call(w, run_at(r, i));
    w->replaying = outer;
    return status;
}

/* In a region of one call, only values made on demand are needed. A running replay around it may have made one of them for its own calls
 * (`passing`): it stays for the others, because the region is replayed once. */
static void set_needed(rp_fates *w, const rp_fate_region *r, bool needed)
{
    int n             = r->single ? w->call[r->first].n_makes : r->n_makes;
    const int *makes  = r->single ? rp__fate_makes(w, &w->call[r->first]) : r->makes;

    for (int i = 0; i < n; i++) {
        rp_fate_value *v = &w->value[makes[i]];
        v->needed        = needed && v->left > 0 && (!r->single || v->on_demand);
        v->passing       = v->passing && !v->needed;
    }
}

static void replay_finish(rp_fates *w, rp_fate_region *r)
{
    int n = 0;

    if (r->finished) return;
    r->finished       = true;
    const int *bounds = r->listed ? rp__fates_bounds(w, r, &n) : NULL;
    for (int i = 0; i < n; i++) rp__fates_used(w, bounds[i]);
}

/* The bounds are released at once: every value the replay leaves is held until its last use, or is claimed by calls that run alone.
 * `replayed` is set first. On-demand reads never lead back to the region, because calls read only values made before them. */
static rp_status replay(rp_fates *w, int region)
{
    if (region == NONE || w->region[region].replayed) return RP_OK;
    rp_fate_region *r = &w->region[region];
    RP_TRY(replay(w, r->parent));
    r->replayed = true;
    set_needed(w, r, true);
    RP_TRY(rp__fates_run(w, region));
    set_needed(w, r, false);
    replay_finish(w, r);
    return RP_OK;
}

/* ---- reads of backward ---- */

static rp_status fetch(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    if (v->here || !v->offloaded) return RP_OK;
    RP_TRY(w->act->fetch(w->self, value));
    w->live += v->bytes;
    v->here = v->recomputed = v->fetching = true;
    return RP_OK;
}

rp_status rp__fates_make(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    if (rp__fate_gone(v) && v->call != NONE && w->call[v->call].alone) RP_TRY(w->act->alone(w->self, value));
    else if (rp__fate_gone(v)) RP_TRY(replay(w, v->region));
    RP_TRY(fetch(w, value));
    RP_BUG_IF(!v->here);
    if (!v->fetching) return RP_OK;
    v->fetching = false;
    return w->act->wait ? w->act->wait(w->self, value) : RP_OK;
}

rp_status rp__fates_make_needs(rp_fates *w, int call)
{
    const rp_fate_call *c = &w->call[call];

    for (int i = 0; i < c->n_needs; i++) RP_TRY(rp__fates_make(w, rp__fate_needs(w, c)[i]));
    return RP_OK;
}

static bool is_offloaded(const rp_fate_value *v) { return v->offloaded && !v->here && v->left > 0; }

static int first_offloaded(const rp_fates *w, const int *list, int n)
{
    for (int i = 0; i < n; i++)
        if (is_offloaded(&w->value[list[i]])) return list[i];
    return NONE;
}

/* Returns the first offloaded value that is read by the backward of a call, or by its regions if backward enters them here; NONE. */
static int offloaded_for(const rp_fates *w, int call)
{
    const rp_fate_call *c = &w->call[call];
    int value             = first_offloaded(w, rp__fate_needs(w, c), c->n_needs), n;

    for (int r = c->region; r != NONE && value == NONE; r = w->region[r].parent) {
        if (w->region[r].end != call + 1 || !w->region[r].listed) continue;
        const int *bounds = rp__fates_bounds(w, &w->region[r], &n);
        value             = first_offloaded(w, bounds, n);
    }
    return value;
}

int rp__fates_next_offloaded(rp_fates *w, int call)
{
    if (w->unsearched > call) w->unsearched = call;
    for (; w->unsearched > 0; w->unsearched--) {
        int value = offloaded_for(w, w->unsearched - 1);
        if (value != NONE) return value;
    }
    return NONE;
}

/* The choice of the value to prefetch depends only on the record, never on time. */
rp_status rp__fates_prefetch(rp_fates *w, int call)
{
    bool coming = w->coming == RP_FATES_ELSEWHERE || (w->coming != NONE && w->value[w->coming].fetching);

    if (!w->offloads || coming) return RP_OK;
    w->coming = rp__fates_next_offloaded(w, call);
    return w->coming == NONE ? RP_OK : fetch(w, w->coming);
}

/* If the record is kept, values that the forward left stay for the next backward. */
void rp__fates_used(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    RP_BUG_IF(v->left <= 0);
    if (--v->left > 0) return;
    if (!w->retain) rp__fates_release(w, value);
    else if (v->recomputed && !w->keep_replays) rp__fates_unfetch(w, value);
}

void rp__fates_passed(rp_fates *w, int call)
{
    const rp_fate_call *c = &w->call[call];

    for (int i = 0; i < c->n_needs; i++) rp__fates_used(w, rp__fate_needs(w, c)[i]);
    for (int r = c->region; r != NONE; r = w->region[r].parent)
        if (w->region[r].first == call) replay_finish(w, &w->region[r]);
}

void rp__fates_begin(rp_fates *w)
{
    w->unsearched = w->n_call;
    w->coming     = NONE;
    for (int i = 0; i < w->n_value; i++) w->value[i].left = w->value[i].uses;
    for (int i = 0; i < w->n_region; i++) w->region[i].replayed = w->region[i].finished = false;
}

void rp__fates_undo(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    v->pending = 0;
    v->needed = v->passing = false;
    if (v->recomputed && !w->keep_replays) rp__fates_unfetch(w, value);
}
