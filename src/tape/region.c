/* tape/region.c -- what a region's replay runs, what it leaves, and what it reads from outside; and the replay itself.
 *
 * Planned once, when the outermost region closes, for it and every region in it, the innermost first:
 *
 *   makes    values made in the region that the backward of one of its own calls reads, or that a region inside it reads as a
 *            bound; those of inner regions are left to the replay of the inner region
 *   run      the calls that `makes` depends on, found backwards from them: nothing else runs again
 *   bounds   what those calls read from outside the region
 */
#include "tape/inside.h"

#include <string.h>

static bool kept(const rp_tape *tape, const tape_value *v)
{
    return v->producer == NONE || (v->held && !v->tentative) ||
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

/* What is made in the region and read by a backward elsewhere in it, or as a bound by a region right inside it. */
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
    for (int child = region + 1; child < tape->n_region; child++) {
        const tape_region *inner = &tape->region[child];
        for (int i = 0; inner->parent == region && i < inner->n_bounds; i++) {
            tape_value *v = &tape->value[inner->bounds[i]];
            if (inside(tape, v, region) && !kept(tape, v)) v->needed = true;
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

static rp_status push(rp_ctx *ctx, int **list, int *n, int room, int item)
{
    if (!*list && !(*list = rp__host_alloc(ctx, room * (int64_t)sizeof **list))) return RP_ERR_MEMORY;
    for (int i = 0; i < *n; i++)
        if ((*list)[i] == item) return RP_OK;
    RP_BUG_IF(*n >= room);
    (*list)[(*n)++] = item;
    return RP_OK;
}

/* Upwards from what is wanted: the calls to run and what they read from outside. */
static rp_status collect(rp_tape *tape, int region)
{
    tape_region *r = &tape->region[region];
    int calls = r->end - r->first, made = calls * (RP_MAX_OUT + RP_MAX_SLOT), read = calls * RP_MAX_IN;

    if (calls == 0) return RP_OK;
    for (int i = 0; i < calls; i++) {
        const tape_call *c = tape->call[r->first + i];
        for (int j = 0; j < c->meta.n_out + c->meta.n_slot; j++) {
            int value = j < c->meta.n_out ? c->out[j] : c->slot[j - c->meta.n_out];
            if (tape->value[value].needed) RP_TRY(push(tape->ctx, &r->makes, &r->n_makes, made, value));
        }
    }
    for (int at = r->end - 1; at >= r->first; at--) {
        const tape_call *c = tape->call[at];
        if (!makes_needed(tape, c)) continue;
        RP_TRY(push(tape->ctx, &r->run, &r->n_run, calls, at));
        for (int i = 0; i < c->meta.n_in; i++) {
            tape_value *v = &tape->value[c->in[i].value];
            if (inside(tape, v, region) && !kept(tape, v)) v->needed = true;
            else RP_TRY(push(tape->ctx, &r->bounds, &r->n_bounds, read, c->in[i].value));
        }
    }
    for (int i = 0; i < r->n_run / 2; i++) {      /* collected backwards, run forwards */
        int last                = r->run[r->n_run - 1 - i];
        r->run[r->n_run - 1 - i] = r->run[i];
        r->run[i]               = last;
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

/* Values held on suspicion: kept if a bound or a backward reads them. */
static void settle_tentative(rp_tape *tape, int region)
{
    const tape_region *r = &tape->region[region];

    for (int at = r->first; at < r->end; at++) {
        const tape_call *c = tape->call[at];
        for (int i = 0; i < c->meta.n_in; i++) {
            tape_value *v = &tape->value[c->in[i].value];
            if (!v->tentative) continue;
            v->tentative = false;
            if (v->uses == 0) rp__value_drop(v);
        }
    }
}

rp_status rp__region_plan(rp_tape *tape, int outermost)
{
    for (int region = tape->n_region - 1; region >= outermost; region--) {
        mark_wanted(tape, region);
        RP_TRY(collect(tape, region));
        clear_needed(tape, region);
        for (int i = 0; i < tape->region[region].n_bounds; i++) tape->value[tape->region[region].bounds[i]].uses++;
    }
    settle_tentative(tape, outermost);
    return RP_OK;
}

/* ---- replay ---- */

static void count_reads(rp_tape *tape, const tape_region *r)
{
    for (int i = 0; i < r->n_run; i++) {
        const tape_call *c = tape->call[r->run[i]];
        for (int j = 0; j < c->meta.n_in; j++) tape->value[c->in[j].value].pending++;
    }
    for (int i = 0; i < r->n_makes; i++) tape->value[r->makes[i]].needed = true;
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
        rp__value_hold(tape, v, t);
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

    count_reads(tape, r);
    for (int i = 0; i < r->n_run; i++) RP_TRY(replay_call(tape, tape->call[r->run[i]]));
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
