/* tape/region.c -- what a region's replay runs, what it leaves, and what it reads from outside; and the replay itself.
 *
 * Planned once, when the outermost region closes, for it and every region in it, the innermost first:
 *
 *   makes    values made in the region that the backward of one of its own calls reads, or that a region inside it reads as a
 *            bound, or that are made on demand; those of inner regions are left to the replay of the inner region
 *   run      the calls that `makes` depends on, found backwards from them: nothing else runs again
 *   bounds   what those calls read from outside the region
 *
 * The replay itself leaves out what turned out not to be needed: values that are held by then (a later region or an outer replay
 * asked for them) and values whose readers got no gradient. So it never runs a call behind the one whose backward asked for it.
 */
#include "tape/inside.h"

#include <string.h>

/* No replay makes it. */
static bool kept(const tape_value *v) { return v->producer == NONE || v->promised || v->fate != RP_RECOMPUTE; }

static bool inside(const rp_tape *tape, const tape_value *v, int region)
{
    return v->producer != NONE && rp__region_within(tape, v->region, region);
}

/* The innermost region that holds both, NONE where only the top does. */
static int common(const rp_tape *tape, int a, int b)
{
    while (a != NONE && !rp__region_within(tape, b, a)) a = tape->region[a].parent;
    return a;
}

/* What is made in the region and read by a backward elsewhere in it, or as a bound by a region inside it, at any depth: a region
 * between the two need not read it. What a call alone makes is made for whoever reads it, when he does. */
static void want(rp_tape *tape, int value, int reader, int region)
{
    tape_value *v = &tape->value[value];
    bool alone    = v->region != region && v->region != NONE && tape->region[v->region].single;

    if (!kept(v) && !alone && common(tape, reader, v->region) == region) v->needed = true;
}

static void mark_wanted(rp_tape *tape, int region)
{
    const tape_region *r = &tape->region[region];
    int needs[MOST_NEEDS];

    for (int at = r->first; at < r->end; at++) {
        int n = tape->call[at]->region == region ? rp__call_makes(tape->call[at], needs) : 0;
        for (int i = 0; i < n; i++) tape->value[needs[i]].needed = tape->value[needs[i]].needed || tape->value[needs[i]].on_demand;
        n = rp__call_needs(tape->call[at], needs);
        for (int i = 0; i < n; i++) want(tape, needs[i], tape->call[at]->region, region);
    }
    for (int child = region + 1; child < tape->n_region && tape->region[child].first < r->end; child++) {
        const tape_region *inner = &tape->region[child];
        for (int i = 0; i < inner->n_bounds; i++) want(tape, inner->bounds[i], child, region);
    }
}

static bool makes_needed(const rp_tape *tape, const tape_call *c)
{
    int made[MOST_MADE], n = rp__call_makes(c, made);

    for (int i = 0; i < n; i++)
        if (tape->value[made[i]].needed) return true;
    return false;
}

/* Room for the longest lists the region could have, in one piece. */
static rp_status take_lists(rp_tape *tape, tape_region *r)
{
    int calls = r->end - r->first, made = 0, read = 0;

    RP_BUG_IF(r->run);
    for (int at = r->first; at < r->end; at++) {
        made += tape->call[at]->meta.n_out + tape->call[at]->meta.n_slot;
        read += tape->call[at]->meta.n_in;
    }
    r->run = rp__host_alloc(tape->ctx, (2 * calls + made + read) * (int64_t)sizeof *r->run);
    if (!r->run) return RP_ERR_MEMORY;
    r->chosen = r->run + calls;
    r->makes  = r->chosen + calls;
    r->bounds = r->makes + made;
    return RP_OK;
}

static void list_makes(const rp_tape *tape, tape_region *r)
{
    int made[MOST_MADE];

    for (int at = r->first; at < r->end; at++) {
        int n = rp__call_makes(tape->call[at], made);
        for (int i = 0; i < n; i++)
            if (tape->value[made[i]].needed) r->makes[r->n_makes++] = made[i];
    }
}

static void list_reads(rp_tape *tape, int region, const tape_call *c)
{
    tape_region *r = &tape->region[region];

    for (int i = 0; i < c->meta.n_in; i++) {
        tape_value *v = &tape->value[c->in[i].value];
        if (inside(tape, v, region) && !kept(v)) {
            v->needed = true;
        } else if (v->bound_at != tape->plannings) {
            v->bound_at               = tape->plannings;
            r->bounds[r->n_bounds++] = c->in[i].value;
        }
    }
}

/* Upwards from what is wanted: the calls to run and what they read from outside. */
static void collect(rp_tape *tape, int region)
{
    tape_region *r = &tape->region[region];

    tape->plannings++;
    list_makes(tape, r);
    for (int at = r->end - 1; at >= r->first; at--) {
        if (!makes_needed(tape, tape->call[at])) continue;
        r->run[r->n_run++] = at;
        list_reads(tape, region, tape->call[at]);
    }
    for (int i = 0; i < r->n_run / 2; i++) {      /* collected backwards, run forwards */
        int last                 = r->run[r->n_run - 1 - i];
        r->run[r->n_run - 1 - i] = r->run[i];
        r->run[i]                = last;
    }
}

static void clear_needed(rp_tape *tape, int region)
{
    const tape_region *r = &tape->region[region];
    int made[MOST_MADE];

    for (int at = r->first; at < r->end; at++) {
        int n = rp__call_makes(tape->call[at], made);
        for (int i = 0; i < n; i++) tape->value[made[i]].needed = false;
    }
}

static void plan_one(rp_tape *tape, int region)
{
    mark_wanted(tape, region);
    collect(tape, region);
    clear_needed(tape, region);
}

/* From here on the bounds are used; those that no replay makes are promised. */
static void claim_bounds(rp_tape *tape, const tape_region *r)
{
    for (int i = 0; i < r->n_bounds; i++) {
        tape_value *v = &tape->value[r->bounds[i]];
        v->uses++;
        v->promised = v->promised || kept(v) || !rp__value_replayed_for(tape, v, tape->call[r->first]);
    }
}

static rp_status offload_bounds(rp_tape *tape, const tape_region *r)
{
    for (int i = 0; i < r->n_bounds; i++) RP_TRY(rp__value_offload(tape, &tape->value[r->bounds[i]]));
    return RP_OK;
}

/* What was held in case a replay reads it and is not read by one. Calls from the region's first on are all in regions with a plan. */
static void drop_unpromised(rp_tape *tape, int region)
{
    for (int at = tape->region[region].first; at < tape->n_call; at++) {
        const tape_call *c = tape->call[at];
        for (int i = 0; i < c->meta.n_in; i++) {
            tape_value *v = &tape->value[c->in[i].value];
            if (!v->promised) rp__value_drop(v);
        }
    }
}

static void forget_lists(rp_tape *tape, int first)
{
    for (int region = first; region < tape->n_region; region++) {
        tape_region *r = &tape->region[region];
        rp__release(r->run);
        r->run = r->chosen = r->makes = r->bounds = NULL;
        r->n_run = r->n_makes = r->n_bounds = 0;
    }
}

void rp__region_unplan(rp_tape *tape, int first)
{
    for (int region = first; region < tape->n_region; region++) {
        const tape_region *r = &tape->region[region];
        for (int i = 0; i < r->n_bounds; i++) tape->value[r->bounds[i]].uses--;
    }
    forget_lists(tape, first);
}

rp_status rp__region_plan_open(rp_tape *tape, int first)
{
    rp_status status = RP_OK;

    for (int region = tape->n_region - 1; region >= first && status == RP_OK; region--) {
        if (tape->region[region].first == tape->region[region].end) continue;
        status = take_lists(tape, &tape->region[region]);
        if (status == RP_OK) plan_one(tape, region);
    }
    for (int region = first; region < tape->n_region && status == RP_OK; region++) status = offload_bounds(tape, &tape->region[region]);
    for (int region = first; region < tape->n_region && status == RP_OK; region++) claim_bounds(tape, &tape->region[region]);
    if (status != RP_OK) forget_lists(tape, first);
    return status;
}

rp_status rp__region_plan(rp_tape *tape, int first)
{
    RP_TRY(rp__region_plan_open(tape, first));
    drop_unpromised(tape, first);
    return RP_OK;
}

rp_status rp__region_plan_single(rp_tape *tape, int region, int *lists)
{
    tape_region *r = &tape->region[region];

    r->run    = lists;
    r->chosen = r->run + 1;
    r->makes  = r->chosen + 1;
    r->bounds = r->makes + MOST_MADE;
    plan_one(tape, region);
    claim_bounds(tape, r);
    drop_unpromised(tape, region);
    return offload_bounds(tape, r);
}

/* ---- replay ---- */

static bool makes_missing(const rp_tape *tape, const tape_call *c)
{
    int made[MOST_MADE], n = rp__call_makes(c, made);

    for (int i = 0; i < n; i++) {
        const tape_value *v = &tape->value[made[i]];
        if (!v->held && v->away == NONE && (v->needed || v->pending > 0)) return true;
    }
    return false;
}

/* The calls of `run` that are needed as things stand are chosen. */
static void choose_calls(rp_tape *tape, const tape_region *r)
{
    for (int i = 0; i < r->n_makes; i++) tape->value[r->makes[i]].needed = tape->value[r->makes[i]].left > 0;
    for (int i = r->n_run - 1; i >= 0; i--) {
        const tape_call *c = tape->call[r->run[i]];
        r->chosen[i]       = makes_missing(tape, c);
        for (int j = 0; j < c->meta.n_in && r->chosen[i]; j++) tape->value[c->in[j].value].pending++;
    }
}

/* What the chosen calls read from outside is fetched, or made by another region where that is on demand. */
static rp_status make_bounds(rp_tape *tape, const tape_region *r)
{
    for (int i = 0; i < r->n_bounds; i++) {
        tape_value *v = &tape->value[r->bounds[i]];
        if (v->pending > 0) RP_TRY(rp__value_make(tape, v));
    }
    return RP_OK;
}

/* A value of the replay that only its later calls read goes at the last of these reads. */
static void read_done(tape_value *v)
{
    if (--v->pending == 0 && v->held && v->uses_replay && !v->needed) {
        v->uses_replay = false;
        rp__value_drop(v);
    }
}

static void take_result(rp_tape *tape, int value, rp_tensor *t)
{
    tape_value *v = &tape->value[value];

    if (v->held || v->away != NONE || (!v->needed && v->pending == 0)) return;
    v->version    = t->storage->version;
    v->made_again = true;
    rp__value_touch(tape, v);
    if (v->needed) {
        rp__value_hold(v, t);
    } else {
        v->held        = rp_tensor_ref(t);
        v->uses_replay = true;
    }
}

static rp_status check_prints(rp_tape *tape, int at, rp_tensor *const *made)
{
    int value[MOST_MADE], n = rp__call_makes(tape->call[at], value);

    for (int i = 0; i < n; i++)
        if (tape->value[value[i]].print) RP_TRY(rp__print_check(tape, at, &tape->value[value[i]], made[i]));
    return RP_OK;
}

static void count_replay(rp_tape *tape, int at)
{
    const tape_call *c = tape->call[at];

    if (c->meta.op->cost) tape->stats.recompute_flops += c->meta.op->cost(&c->meta, RP_FORWARD).flops;
    tape->stats.n_replayed++;
    if (tape->replay_hook) tape->replay_hook(tape->replay_user, at, c->path, c->meta.op->name);
}

rp_status rp__call_replay(rp_tape *tape, int at, rp_tensor **made)
{
    rp_tensor *in[RP_MAX_IN] = { 0 };
    tape_call *c     = tape->call[at];
    int n_out        = c->meta.n_out;
    rp_status status = RP_OK;

    memset(made, 0, MOST_MADE * sizeof *made);
    for (int i = 0; i < c->meta.n_in; i++) RP_TRY_GOTO(rp__input_open(tape, c, i, &in[i]));
    rp_tape_work before = rp__tape_work(tape, RP_TAPE_REPLAY, c, at);
    status              = rp__op_forward(&c->meta, c->stream, true, in, made, made + n_out);
    tape->now           = before;
    if (status != RP_OK) goto done;
    count_replay(tape, at);
    for (int i = 0; i < c->meta.n_in; i++) rp__value_touch(tape, &tape->value[c->in[i].value]);
    status = check_prints(tape, at, made);
done:
    for (int i = 0; i < c->meta.n_in; i++) rp__input_close(tape, c, i, in[i]);
    for (int i = 0; i < MOST_MADE && status != RP_OK; i++) rp_tensor_unref(made[i]);
    return status;
}

static rp_status replay_call(rp_tape *tape, int at)
{
    rp_tensor *made[MOST_MADE];
    const tape_call *c = tape->call[at];
    int value[MOST_MADE], n = rp__call_makes(c, value);

    RP_TRY(rp__call_replay(tape, at, made));
    for (int i = 0; i < n; i++) take_result(tape, value[i], made[i]);
    for (int i = 0; i < c->meta.n_in; i++) read_done(&tape->value[c->in[i].value]);
    for (int i = 0; i < n; i++) rp_tensor_unref(made[i]);
    return RP_OK;
}

static rp_status replay_calls(rp_tape *tape, int region)
{
    tape_region *r = &tape->region[region];
    int outer      = tape->replaying;

    choose_calls(tape, r);
    rp_status status = make_bounds(tape, r);
    tape->replaying  = region;
    for (int i = 0; i < r->n_run && status == RP_OK; i++)
        if (r->chosen[i]) status = replay_call(tape, r->run[i]);
    tape->replaying = outer;
    return status;
}

/* What it read is let go at once: all that it leaves is held until its last use, or claimed by calls that make it again (again.c).
 * Marked first: what a region reads on demand never leads back to it, as calls read what was made before them. */
rp_status rp__region_replay(rp_tape *tape, int region)
{
    if (region == NONE || tape->region[region].replayed) return RP_OK;
    RP_TRY(rp__region_replay(tape, tape->region[region].parent));
    tape->region[region].replayed = true;
    RP_TRY(replay_calls(tape, region));
    for (int i = 0; i < tape->region[region].n_makes; i++) tape->value[tape->region[region].makes[i]].needed = false;
    rp__region_finish(tape, region);
    return RP_OK;
}

void rp__region_finish(rp_tape *tape, int region)
{
    tape_region *r = &tape->region[region];

    if (r->finished) return;
    r->finished = true;
    for (int i = 0; i < r->n_bounds; i++) rp__value_used(tape, &tape->value[r->bounds[i]]);
}
