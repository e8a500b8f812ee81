/* tape/rollback.c -- calls that never were, and regions that turn out to be one.
 *
 * An error inside a region takes back all that was recorded since it began: calls, values, inner regions, and what they made the tape
 * hold. rp_checkpoint_sequential records a region for each function and joins them when it knows their bytes.
 */
#include "tape/inside.h"

/* A reader for which no replay makes the value has it kept. */
static void promise_needs(rp_tape *tape, const tape_call *c)
{
    int needs[MOST_NEEDS], n = rp__call_needs(c, needs);

    for (int i = 0; i < n; i++) {
        tape_value *v = &tape->value[needs[i]];
        v->promised   = v->promised || !rp__value_replayed_for(tape, v, c);
    }
}

static void promise_bounds(rp_tape *tape, const tape_region *r)
{
    for (int i = 0; i < r->n_bounds; i++) {
        tape_value *v = &tape->value[r->bounds[i]];
        v->promised   = v->promised || !rp__value_replayed_for(tape, v, tape->call[r->first]);
    }
}

static void promise_claims(rp_tape *tape, const tape_call *c)
{
    for (int i = 0; i < c->meta.n_in && c->again; i++) {
        tape_value *v = &tape->value[c->in[i].value];
        v->promised   = v->promised || rp__value_stays(v);
    }
}

void rp__promise_again(rp_tape *tape)
{
    for (int i = 0; i < tape->n_value; i++) tape->value[i].promised = tape->value[i].producer == NONE && tape->value[i].wants_grad;
    for (int i = 0; i < tape->n_call; i++) promise_needs(tape, tape->call[i]);
    for (int i = 0; i < tape->n_call; i++) promise_claims(tape, tape->call[i]);
    for (int i = 0; i < tape->n_region; i++) promise_bounds(tape, &tape->region[i]);
}

/* ---- forgetting ---- */

static void forget_call(rp_tape *tape, int at)
{
    tape_call *c = tape->call[at];
    int needs[MOST_NEEDS], n = rp__call_needs(c, needs);

    for (int i = 0; i < n; i++) tape->value[needs[i]].uses--;
    for (int i = 0; i < c->meta.n_in; i++) {
        tape->value[c->in[i].value].readers--;
        tape->value[c->in[i].value].uses -= c->again;
    }
    rp__release(c);
}

static void forget_region(rp_tape *tape, tape_region *r)
{
    for (int i = 0; i < r->n_bounds; i++) tape->value[r->bounds[i]].uses--;
    rp__release(r->run);
}

/* Held in case a region that has no plan yet reads it. */
static bool unplanned_reads(const rp_tape *tape, int value)
{
    int top = rp__region_first_unplanned(tape);

    for (int at = top == NONE ? tape->n_call : tape->region[top].first; at < tape->n_call; at++)
        for (int i = 0; i < tape->call[at]->meta.n_in; i++)
            if (tape->call[at]->in[i].value == value) return true;
    return false;
}

void rp__tape_truncate(rp_tape *tape, int n_call, int n_value, int n_region)
{
    for (int i = tape->n_region - 1; i >= n_region; i--) {
        tape->n_planned -= tape->region[i].planned;
        tape->n_outermost -= tape->region[i].parent == NONE && !tape->region[i].single;
        forget_region(tape, &tape->region[i]);
    }
    tape->n_region = n_region;
    for (int i = tape->n_call - 1; i >= n_call; i--) forget_call(tape, i);
    tape->n_call = n_call;
    for (int i = tape->n_value - 1; i >= n_value; i--) rp__value_forget(tape, &tape->value[i]);
    tape->n_value = n_value;
    rp__promise_again(tape);
    for (int i = 0; i < tape->n_value; i++) {
        tape_value *v = &tape->value[i];
        if (!v->promised && !v->made_again && !unplanned_reads(tape, i)) rp__value_drop(v);
    }
}

rp_tape_mark rp__tape_mark(const rp_ctx *ctx)
{
    rp_tape *tape = ctx->tape;

    if (!tape) return (rp_tape_mark){ .open = NONE };
    return (rp_tape_mark){ tape->id, tape->n_call, tape->n_value, tape->n_region, tape->open, *rp__tape_n_off(tape), tape->n_ignored };
}

void rp__tape_rewind(rp_ctx *ctx, rp_tape_mark mark)
{
    rp_tape *tape = ctx->tape;

    if (!tape || (mark.id && mark.id != tape->id)) return;      /* forgotten since */
    tape->open            = mark.open;
    *rp__tape_n_off(tape) = mark.n_off;
    tape->n_ignored       = mark.n_ignored;
    rp__tape_truncate(tape, mark.n_call, mark.n_value, mark.n_region);
}

/* ---- joining ---- */

/* The tape may be new: what is deferred then is remembered by it from here on. */
bool rp__regions_defer(rp_ctx *ctx, bool defer)
{
    rp_tape *tape = rp__tape(ctx);
    bool before   = tape && tape->deferred;

    if (tape) tape->deferred = defer;
    return before;
}

int rp__region_count(const rp_ctx *ctx) { return ctx->tape ? ctx->tape->n_region : 0; }

int64_t rp__region_bytes(const rp_ctx *ctx, int region)
{
    const rp_tape *tape = ctx->tape;
    int64_t bytes       = 0;

    for (int i = 0; i < tape->n_value; i++) {
        const tape_value *v = &tape->value[i];
        if (v->producer != NONE && v->uses > 0 && rp__region_within(tape, v->region, region)) bytes += rp_meta_bytes(&v->m);
    }
    return bytes;
}

/* The calls of `from` become calls of `into`, which ends where `from` begins. */
static void join(rp_tape *tape, int into, int from)
{
    tape_region *a = &tape->region[into], *b = &tape->region[from];

    for (int at = b->first; at < b->end; at++)
        if (tape->call[at]->region == from) tape->call[at]->region = into;
    for (int i = 0; i < tape->n_value; i++)
        if (tape->value[i].region == from) tape->value[i].region = into;
    for (int i = from + 1; i < tape->n_region; i++)
        if (tape->region[i].parent == from) tape->region[i].parent = into;
    a->end    = b->end;
    b->end    = b->first;
    b->parent = into;
}

rp_status rp__regions_join(rp_ctx *ctx, const int *region, const int *group, int n)
{
    rp_tape *tape = ctx->tape;
    int first     = 0;

    for (int i = 1; i < n; i++) {
        if (group[i] != group[first]) first = i;
        else join(tape, region[first], region[i]);
    }
    if (tape->region[region[0]].parent != NONE) return RP_OK;
    rp__promise_again(tape);
    return rp__region_plan(tape, region[0]);
}
