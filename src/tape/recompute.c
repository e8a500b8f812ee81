/* tape/recompute.c -- reruns single calls, outside the plan of any region, to recompute values that were dropped under memory pressure.
 *
 *   claim    the inputs of a claimed call count one more use, until backward has passed the call. An input that does not stay by itself is
 *            made by a call that is claimed in turn. So everything above a claimed call is a value that stays, a leaf or a claimed call.
 *   make     the claimed calls above a missing value, back to available values, run once, in the order of the forward
 *
 *      x ──▶ a ──▶ b ──▶ c ──▶ v        x stays; a, b, c, v are gone. The calls of a, b, c and v run. If a, b or c has other readers, it
 *                                       is held from then on; otherwise it is dropped at its last read.
 *
 * A claim remains after the value is made, because the value may be dropped again. Fates and regions do not know about claims: a promised
 * value stays promised, and its call makes it if it is missing.
 */
#include "tape/internal.h"

/* ---- walks towards the inputs ---- */

typedef struct {                    /* visits calls reachable from one through inputs, the latest first */
    rp_tape *tape;
    uint64_t number;
    int at, open;                   /* calls above `at` have been visited · calls marked but not visited yet */
} walk;

static void walk_to(walk *w, int at)
{
    tape_call *c = w->tape->call[at];

    w->open += c->walk != w->number;
    c->walk = w->number;
}

static walk walk_from(rp_tape *tape, int at)
{
    walk w = { tape, ++tape->walks, at, 0 };

    walk_to(&w, at);
    return w;
}

static tape_call *walk_next(walk *w, int *at)
{
    if (!w->open) return NULL;
    while (w->tape->call[w->at]->walk != w->number) w->at--;
    w->open--;
    *at = w->at;
    return w->tape->call[w->at--];
}

/* ---- values that can be recomputed ---- */

/* Would the call read input i as the first pass did? Values that others may change count as no. */
static bool reads_the_same(const rp_tape *tape, const tape_call *c, int i)
{
    const tape_value *v    = &tape->value[c->in[i].value];
    const rp_fate_value *f = rp__fate(tape, c->in[i].value);

    if (f->call == NONE && !f->here) return false;
    if (rp__input_is_written(c, i)) return true;
    if (v->allow_mutation || (f->here && v->held->storage->version != v->version)) return false;
    return rp__fate_is_resident(f) || tape->call[f->call]->may;
}

void rp__recompute_check(rp_tape *tape)
{
    for (int at = 0; at < tape->fates.n_call; at++) {
        tape_call *c = tape->call[at];
        c->may       = rp__op_replays(c->meta.op) && !c->changed;
        for (int i = 0; i < c->meta.n_in && c->may; i++) c->may = reads_the_same(tape, c, i);
    }
}

static double cost_of(const tape_call *c)
{
    const rp_op_meta *m = &c->meta;
    int64_t bytes       = 0;

    if (m->op->cost) {
        rp_cost cost = m->op->cost(m, RP_FORWARD);
        return (double)cost.flops + FLOPS_A_BYTE * (double)(cost.read_bytes + cost.write_bytes);
    }
    for (int i = 0; i < m->n_in; i++) bytes += rp_meta_bytes(&m->in[i]);
    for (int i = 0; i < m->n_out; i++) bytes += rp_meta_bytes(&m->out[i]);
    return FLOPS_A_BYTE * (double)bytes;
}

double rp__recompute_cost(rp_tape *tape, int at)
{
    walk w      = walk_from(tape, at);
    double cost = 0;

    for (const tape_call *c; (c = walk_next(&w, &at));) {
        cost += cost_of(c);
        for (int i = 0; i < c->meta.n_in; i++) {
            const rp_fate_value *v = rp__fate(tape, c->in[i].value);
            if (v->call != NONE && rp__fate_gone(v)) walk_to(&w, v->call);
        }
    }
    return cost;
}

/* ---- claims ---- */

static bool to_be_passed(const rp_tape *tape, int at) { return tape->passed != NONE && at < tape->passed; }

void rp__recompute_claim(rp_tape *tape, int at)
{
    if (tape->fates.call[at].alone) return;
    walk w = walk_from(tape, at);
    for (tape_call *c; (c = walk_next(&w, &at));) {
        tape->fates.call[at].alone = true;
        for (int i = 0; i < c->meta.n_in; i++) {
            rp_fate_value *v = rp__fate(tape, c->in[i].value);
            v->uses++;
            v->left += to_be_passed(tape, at);
            v->promised = v->promised || rp__fate_is_resident(v);
            if (!rp__fate_is_resident(v) && !tape->fates.call[v->call].alone) walk_to(&w, v->call);
        }
    }
}

void rp__recompute_passed(rp_tape *tape, const tape_call *c)
{
    for (int i = 0; i < c->meta.n_in && tape->fates.call[c->at].alone; i++) rp__fates_used(&tape->fates, c->in[i].value);
}

/* ---- the run ---- */

/* Mark the calls to run and count their reads. Returns the first of them. */
static int choose_run(rp_tape *tape, int last)
{
    walk w    = walk_from(tape, last);
    int first = last;

    for (tape_call *c; (c = walk_next(&w, &first));) {
        RP_BUG_IF(!tape->fates.call[first].alone);
        c->runs = true;
        for (int i = 0; i < c->meta.n_in; i++) {
            rp_fate_value *f = rp__fate(tape, c->in[i].value);
            tape_value *v    = &tape->value[c->in[i].value];
            f->pending++;
            v->reads++;
            v->unread++;
            if (rp__fate_gone(f)) walk_to(&w, f->call);
        }
    }
    return first;
}

/* A value made by the run is dropped at its last read if all remaining uses are claims of calls that have run. */
static void read_done(rp_tape *tape, int value)
{
    rp_fate_value *f = rp__fate(tape, value);
    tape_value *v    = &tape->value[value];

    f->pending--;
    if (--v->unread > 0) return;
    bool ours = f->call != NONE && tape->call[f->call]->runs && f->recomputed;
    if (ours && f->left == v->reads) rp__fates_drop(&tape->fates, value);
    v->reads = 0;
}

static rp_status run_call(rp_tape *tape, int at)
{
    const tape_call *c = tape->call[at];
    const int *value   = rp__call_makes(tape, c);
    rp_fate_take take[MOST_MADE];

    for (int i = 0; i < c->meta.n_in; i++) RP_TRY(rp__fates_make(&tape->fates, c->in[i].value));      /* fetch the offloaded ones */
    for (int i = 0; i < tape->fates.call[at].n_makes; i++) {
        const rp_fate_value *f = rp__fate(tape, value[i]);
        take[i]                = rp__fate_gone(f) && f->left > 0 ? RP_FATES_HOLD : RP_FATES_LEAVE;
    }
    RP_TRY(rp__fates_rerun(&tape->fates, at, take));
    for (int i = 0; i < c->meta.n_in; i++) read_done(tape, c->in[i].value);
    return RP_OK;
}

/* After an error, cancel the reads that were counted but did not happen. */
static void end_run(rp_tape *tape, int first, int last)
{
    for (int at = first; at <= last; at++) {
        tape_call *c = tape->call[at];
        for (int i = 0; i < c->meta.n_in && c->runs; i++) {
            tape_value *v = &tape->value[c->in[i].value];
            rp__fate(tape, c->in[i].value)->pending -= v->unread;
            v->reads = v->unread = 0;
        }
        c->runs = false;
    }
}

rp_status rp__recompute_make(rp_tape *tape, int value)
{
    int last = rp__fate(tape, value)->call, first = choose_run(tape, last), outer = tape->alone;
    rp_status status = RP_OK;

    for (int at = first; at <= last && status == RP_OK; at++) {
        tape->alone = at;
        if (tape->call[at]->runs) status = run_call(tape, at);
    }
    tape->alone = outer;
    end_run(tape, first, last);
    return status;
}

bool rp__recompute_runs(const rp_tape *tape, int at)
{
    if (tape->alone != NONE) return tape->call[at]->runs;
    return tape->fates.replaying != NONE && rp__fates_runs_in(&tape->fates, tape->fates.replaying, at);
}
