/* tape/region.c -- what a region's replay runs, what it leaves, and what it reads from outside; and the replay itself.
 *
 * Planned once, when the outermost region closes, for it and every region in it, the innermost first:
 *
 *   makes    values made in the region that the backward of one of its own calls reads, or that a region inside it reads as a
 *            bound; those of inner regions are left to the replay of the inner region
 *   run      the calls that `makes` depends on, found backwards from them: nothing else runs again
 *   bounds   what those calls read from outside the region
 *
 * The replay itself leaves out what turned out not to be needed: values that are held by then (a later region or an outer replay
 * asked for them) and values whose readers got no gradient. So it never runs a call behind the one whose backward asked for it.
 */
#include "tape/inside.h"

#include <string.h>

/* No replay makes it. */
static bool kept(const rp_tape *tape, const tape_value *v)
{
    return v->producer == NONE || v->promised ||
           (tape->call[v->producer]->meta.op->flags & (RP_OP_EFFECT | RP_OP_COLLECTIVE));
}

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
 * between the two need not read it. */
static void mark_wanted(rp_tape *tape, int region)
{
    const tape_region *r = &tape->region[region];
    int needs[RP_MAX_IN + RP_MAX_OUT + RP_MAX_SLOT];

    for (int at = r->first; at < r->end; at++) {
        int n = rp__call_needs(tape->call[at], needs);
        for (int i = 0; i < n; i++) {
            tape_value *v = &tape->value[needs[i]];
            if (!kept(tape, v) && common(tape, tape->call[at]->region, v->region) == region) v->needed = true;
        }
    }
    for (int child = region + 1; child < tape->n_region && tape->region[child].first < r->end; child++) {
        const tape_region *inner = &tape->region[child];
        for (int i = 0; i < inner->n_bounds; i++) {
            tape_value *v = &tape->value[inner->bounds[i]];
            if (!kept(tape, v) && common(tape, child, v->region) == region) v->needed = true;
        }
    }
}

static bool makes_needed(const rp_tape *tape, const tape_call *c)
{
    for (int i = 0; i < c->meta.n_out; i++)
        if (tape->value[c->out[i]].needed) return true;
    for (int i = 0; i < c->meta.n_slot; i++)
        if (tape->value[c->slot[i]].needed) return true;
    return false;
}

/* Room for the longest lists the region could have, in one piece. */
static rp_status take_lists(rp_tape *tape, tape_region *r)
{
    int calls = r->end - r->first, made = 0, read = 0;

    for (int at = r->first; at < r->end; at++) {
        made += tape->call[at]->meta.n_out + tape->call[at]->meta.n_slot;
        read += tape->call[at]->meta.n_in;
    }
    r->run = rp__host_alloc(tape->ctx, (calls + made + read) * (int64_t)sizeof *r->run);
    if (!r->run) return RP_ERR_MEMORY;
    r->makes  = r->run + calls;
    r->bounds = r->makes + made;
    return RP_OK;
}

static void list_makes(const rp_tape *tape, tape_region *r)
{
    for (int at = r->first; at < r->end; at++) {
        const tape_call *c = tape->call[at];
        for (int i = 0; i < c->meta.n_out; i++)
            if (tape->value[c->out[i]].needed) r->makes[r->n_makes++] = c->out[i];
        for (int i = 0; i < c->meta.n_slot; i++)
            if (tape->value[c->slot[i]].needed) r->makes[r->n_makes++] = c->slot[i];
    }
}

static void list_reads(rp_tape *tape, int region, const tape_call *c)
{
    tape_region *r = &tape->region[region];

    for (int i = 0; i < c->meta.n_in; i++) {
        tape_value *v = &tape->value[c->in[i].value];
        if (inside(tape, v, region) && !kept(tape, v)) {
            v->needed = true;
        } else if (v->bound_at != tape->plannings) {
            v->bound_at               = tape->plannings;
            r->bounds[r->n_bounds++] = c->in[i].value;
        }
    }
}

/* Upwards from what is wanted: the calls to run and what they read from outside. */
static rp_status collect(rp_tape *tape, int region)
{
    tape_region *r = &tape->region[region];

    if (r->first == r->end) return RP_OK;
    RP_TRY(take_lists(tape, r));
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
    return RP_OK;
}

static void clear_needed(rp_tape *tape, int region)
{
    const tape_region *r = &tape->region[region];

    for (int at = r->first; at < r->end; at++) {
        const tape_call *c = tape->call[at];
        for (int i = 0; i < c->meta.n_out; i++) tape->value[c->out[i]].needed = false;
        for (int i = 0; i < c->meta.n_slot; i++) tape->value[c->slot[i]].needed = false;
    }
}

/* From here on the bounds are used; those that no outer replay makes are promised. */
static void claim_bounds(rp_tape *tape, const tape_region *r, int outermost)
{
    for (int i = 0; i < r->n_bounds; i++) {
        tape_value *v = &tape->value[r->bounds[i]];
        v->uses++;
        v->promised = v->promised || !inside(tape, v, outermost) || kept(tape, v);
    }
}

/* What was held in case a replay reads it and is not read by one. */
static void drop_unpromised(rp_tape *tape, const tape_region *r)
{
    for (int at = r->first; at < r->end; at++) {
        const tape_call *c = tape->call[at];
        for (int i = 0; i < c->meta.n_in; i++) {
            tape_value *v = &tape->value[c->in[i].value];
            if (!v->promised) rp__value_drop(v);
        }
    }
}

static void forget_lists(rp_tape *tape, int outermost)
{
    for (int region = outermost; region < tape->n_region; region++) {
        tape_region *r = &tape->region[region];
        rp__release(r->run);
        r->run = r->makes = r->bounds = NULL;
        r->n_run = r->n_makes = r->n_bounds = 0;
    }
}

rp_status rp__region_plan(rp_tape *tape, int outermost)
{
    for (int region = tape->n_region - 1; region >= outermost; region--) {
        mark_wanted(tape, region);
        rp_status status = collect(tape, region);
        clear_needed(tape, region);
        if (status == RP_OK) continue;
        forget_lists(tape, outermost);
        return status;
    }
    for (int region = outermost; region < tape->n_region; region++) claim_bounds(tape, &tape->region[region], outermost);
    drop_unpromised(tape, &tape->region[outermost]);
    return RP_OK;
}

/* ---- replay ---- */

static bool makes_missing(const rp_tape *tape, const int *values, int n)
{
    for (int i = 0; i < n; i++) {
        const tape_value *v = &tape->value[values[i]];
        if (!v->held && (v->needed || v->pending > 0)) return true;
    }
    return false;
}

/* The calls of `run` that are needed as things stand move to its end; returns where they start. */
static int choose_calls(rp_tape *tape, const tape_region *r)
{
    int start = r->n_run;

    for (int i = 0; i < r->n_makes; i++) tape->value[r->makes[i]].needed = tape->value[r->makes[i]].uses > 0;
    for (int i = r->n_run - 1; i >= 0; i--) {
        const tape_call *c = tape->call[r->run[i]];
        if (!makes_missing(tape, c->out, c->meta.n_out) && !makes_missing(tape, c->slot, c->meta.n_slot)) continue;
        for (int j = 0; j < c->meta.n_in; j++) tape->value[c->in[j].value].pending++;
        r->run[--start] = r->run[i];
    }
    return start;
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

    if (v->held || (!v->needed && v->pending == 0)) return;
    v->version = t->storage->version;
    if (v->needed) {
        rp__value_hold(v, t);
    } else {
        v->held        = rp_tensor_ref(t);
        v->uses_replay = true;
    }
}

static rp_status replay_call(rp_tape *tape, tape_call *c)
{
    rp_tensor *in[RP_MAX_IN] = { 0 }, *out[RP_MAX_OUT] = { 0 }, *slot[RP_MAX_SLOT] = { 0 };
    rp_status status = RP_OK;

    for (int i = 0; i < c->meta.n_in; i++) RP_TRY_GOTO(rp__input_open(tape, c, i, &in[i]));
    RP_TRY_GOTO(rp__op_forward(&c->meta, c->stream, in, out, slot));
    if (c->meta.op->cost) tape->stats.recompute_flops += c->meta.op->cost(&c->meta, RP_FORWARD).flops;
    tape->stats.n_replayed++;
    for (int i = 0; i < c->meta.n_out; i++) take_result(tape, c->out[i], out[i]);
    for (int i = 0; i < c->meta.n_slot; i++) take_result(tape, c->slot[i], slot[i]);
done:
    for (int i = 0; i < c->meta.n_in; i++) {
        rp_tensor_unref(in[i]);
        if (status == RP_OK) read_done(&tape->value[c->in[i].value]);
    }
    for (int i = 0; i < RP_MAX_OUT; i++) rp_tensor_unref(out[i]);
    for (int i = 0; i < RP_MAX_SLOT; i++) rp_tensor_unref(slot[i]);
    return status;
}

rp_status rp__region_replay(rp_tape *tape, int region)
{
    tape_region *r = &tape->region[region];

    for (int i = choose_calls(tape, r); i < r->n_run; i++) RP_TRY(replay_call(tape, tape->call[r->run[i]]));
    for (int i = 0; i < r->n_makes; i++) tape->value[r->makes[i]].needed = false;
    r->replayed = true;
    return RP_OK;
}

void rp__region_finish(rp_tape *tape, int region)
{
    tape_region *r = &tape->region[region];

    for (int i = 0; i < r->n_bounds; i++) rp__value_used(&tape->value[r->bounds[i]]);
    r->n_bounds = 0;
}
