/* fates/fates.c -- the record, the states of a value, and which values the forward holds. */
#include "fates/fates.h"

#include "base/list.h"

enum { NONE = RP_FATES_NONE };

/* ---- the record ---- */

rp_status rp__fates_reserve(rp_fates *w, int calls, int values, int regions, int listed)
{
    RP_TRY(RP_GROW(w->ctx, w->value, w->room_value, w->n_value + values));
    RP_TRY(RP_GROW(w->ctx, w->call, w->room_call, w->n_call + calls));
    RP_TRY(RP_GROW(w->ctx, w->region, w->room_region, w->n_region + regions));
    return RP_GROW(w->ctx, w->list, w->room_list, w->n_list + listed);
}

void rp__fates_truncate(rp_fates *w, int n_call, int n_value, int n_region)
{
    for (int r = n_region; r < w->n_region; r++) rp__release(w->region[r].run);
    if (n_call < w->n_call) w->n_list = w->call[n_call].list;
    w->n_call   = n_call;
    w->n_value  = n_value;
    w->n_region = n_region;
}

void rp__fates_close(rp_fates *w)
{
    rp__fates_truncate(w, 0, 0, 0);
    rp__release(w->value), rp__release(w->call), rp__release(w->region), rp__release(w->list);
    *w = (rp_fates){ 0 };
}

int rp__fates_add_call(rp_fates *w, int region, bool single, const char *path)
{
    int at = w->n_call++;

    w->call[at] = (rp_fate_call){ .region = single ? w->n_region : region, .list = w->n_list };
    if (single) w->region[w->n_region++] = (rp_fate_region){ .path = path, .parent = region, .first = at, .end = at + 1, .single = true };
    return at;
}

static rp_fate_call *last_call(const rp_fates *w) { return &w->call[w->n_call - 1]; }

void rp__fates_add_read(rp_fates *w, int value)
{
    rp_fate_call *c = last_call(w);

    for (int i = 0; i < c->n_reads; i++)
        if (w->list[c->list + i] == value) return;
    w->list[w->n_list++] = value;
    c->n_reads++;
}

/* Values of a single-call region are recomputed for each reader. So are values for which a must-rule says recompute. */
void rp__fates_add_made(rp_fates *w, int value, int decided, bool must, bool replays)
{
    rp_fate_call *c              = last_call(w);
    const rp_fate_region *region = c->region == NONE ? NULL : &w->region[c->region];
    rp_fate_value *v             = &w->value[value];
    bool single = region && region->single, around = single ? region->parent != NONE : region != NULL;

    v->call   = w->n_call - 1;
    v->region = c->region;
    v->fate   = (unsigned char)decided;
    if (decided == RP_NO_FATE) v->fate = around ? RP_RECOMPUTE : RP_KEEP;
    if (v->fate == RP_RECOMPUTE && !replays) v->fate = RP_KEEP;
    v->on_demand         = v->fate == RP_RECOMPUTE && (single || (must && decided == RP_RECOMPUTE));
    w->list[w->n_list++] = value;
    c->n_makes++;
}

void rp__fates_add_need(rp_fates *w, int value)
{
    w->list[w->n_list++] = value;
    last_call(w)->n_needs++;
}

/* ---- states ---- */

void rp__fates_hold(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    if (!rp__fate_gone(v)) return;
    v->here = true;
    w->live += v->bytes;
}

void rp__fates_drop(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    v->recomputed = v->passing = false;
    if (!v->here) return;
    v->here = false;
    w->live -= v->bytes;
    if (w->act->drop) w->act->drop(w->self, value);
}

/* The value has no reader left, so the result of the wait is ignored. */
void rp__fates_unfetch(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];

    if (v->fetching && w->act->wait) (void)w->act->wait(w->self, value);
    v->fetching = false;
    rp__fates_drop(w, value);
}

void rp__fates_release(rp_fates *w, int value)
{
    rp__fates_unfetch(w, value);
    if (w->value[value].offloaded && w->act->forget) w->act->forget(w->self, value);
    w->value[value].offloaded = false;
}

rp_status rp__fates_offload(rp_fates *w, int value)
{
    rp_fate_value *v = &w->value[value];
    bool put         = true;

    if (v->fate != RP_OFFLOAD || v->offloaded || !v->here) return RP_OK;
    if (w->act->put) RP_TRY(w->act->put(w->self, value, &put));
    if (!put) return RP_OK;
    v->offloaded = true;
    rp__fates_drop(w, value);
    return RP_OK;
}

void rp__fates_check(const rp_fates *w, int value)
{
    const rp_fate_value *v = &w->value[value];

    RP_BUG_IF(v->recomputed && !v->here);
    RP_BUG_IF(v->here && v->offloaded && !v->recomputed);
    RP_BUG_IF(v->fetching && !(v->here && v->offloaded));
    RP_BUG_IF(v->passing && !v->recomputed);
    RP_BUG_IF(v->call == NONE && (v->offloaded || v->recomputed || v->on_demand));
    RP_BUG_IF(v->on_demand && v->fate != RP_RECOMPUTE);
    RP_BUG_IF(v->offloaded && v->fate != RP_OFFLOAD);
    RP_BUG_IF(v->left < 0 || v->pending < 0);
}

/* ---- which values the forward holds ---- */

bool rp__fates_replayed_for(const rp_fates *w, const rp_fate_value *v, const rp_fate_call *c)
{
    if (v->call == NONE || v->fate != RP_RECOMPUTE) return false;
    if (v->on_demand) return true;
    int top = rp__fates_outermost(w, c->region);
    return top != NONE && rp__fates_within(w, v->region, top);
}

/* A value that a region reads from outside is held without a promise until the outermost region closes. Only then is it known whether the
 * replay reads it. */
bool rp__fates_keeps(rp_fates *w, int c, int value, bool backward)
{
    rp_fate_value *v = &w->value[value];

    v->uses += backward;
    if (rp__fates_replayed_for(w, v, &w->call[c])) return false;
    v->promised = v->promised || backward;
    return backward || w->call[c].region != NONE;
}

static void promise(const rp_fates *w, rp_fate_value *v, const rp_fate_call *reader)
{
    v->promised = v->promised || !rp__fates_replayed_for(w, v, reader);
}

static void promise_for(rp_fates *w, const rp_fate_call *c)
{
    const int *needs = rp__fate_needs(w, c), *reads = rp__fate_reads(w, c);

    for (int i = 0; i < c->n_needs; i++) promise(w, &w->value[needs[i]], c);
    for (int i = 0; i < c->n_reads && c->alone; i++) w->value[reads[i]].promised = w->value[reads[i]].promised || rp__fate_is_resident(&w->value[reads[i]]);
}

void rp__fates_promise(rp_fates *w)
{
    for (int v = 0; v < w->n_value; v++) w->value[v].promised = w->value[v].collects;
    for (int c = 0; c < w->n_call; c++) promise_for(w, &w->call[c]);
    for (int r = 0; r < w->n_region; r++) {
        int n             = 0;
        const int *bounds = w->region[r].listed ? rp__fates_bounds(w, &w->region[r], &n) : NULL;
        for (int i = 0; i < n; i++) promise(w, &w->value[bounds[i]], &w->call[w->region[r].first]);
    }
}
