/* tape/rollback.c -- removes calls from the record, and joins regions.
 *
 * An error inside a region removes everything recorded since the region began: calls, values, inner regions, and the values the tape held
 * for them. rp_checkpoint_sequential records a region for each function and joins regions once their bytes are known.
 */
#include "tape/internal.h"

/* ---- forgetting ---- */

static void forget_call(rp_tape *tape, int at)
{
    const rp_fate_call *f = &tape->fates.call[at];
    tape_call *c          = tape->call[at];

    for (int i = 0; i < f->n_needs; i++) rp__fate(tape, rp__fate_needs(&tape->fates, f)[i])->uses--;
    for (int i = 0; i < c->meta.n_in; i++) {
        tape->value[c->in[i].value].readers--;
        rp__fate(tape, c->in[i].value)->uses -= f->alone;
    }
    rp__release(c);
}

static void forget_regions(rp_tape *tape, int first)
{
    rp_fates *w = &tape->fates;

    for (int i = first; i < w->n_region; i++) {
        tape->n_planned -= w->region[i].planned;
        tape->n_outermost -= w->region[i].parent == NONE && !w->region[i].single;
    }
    rp__fates_unlist(w, first);
}

/* Does a call in a region without lists read the value? It is then held in case the replay reads it. */
static bool unlisted_reads(const rp_tape *tape, int value)
{
    const rp_fates *w = &tape->fates;
    int top           = rp__fates_first_unlisted(w, tape->open);

    for (int at = top == NONE ? w->n_call : w->region[top].first; at < w->n_call; at++)
        for (int i = 0; i < w->call[at].n_reads; i++)
            if (rp__fate_reads(w, &w->call[at])[i] == value) return true;
    return false;
}

void rp__tape_truncate(rp_tape *tape, int n_call, int n_value, int n_region)
{
    rp_fates *w = &tape->fates;

    forget_regions(tape, n_region);
    for (int i = w->n_call - 1; i >= n_call; i--) forget_call(tape, i);
    for (int i = w->n_value - 1; i >= n_value; i--) rp__value_forget(tape, i);
    rp__fates_truncate(w, n_call, n_value, n_region);
    rp__fates_promise(w);
    for (int i = 0; i < n_value; i++) {
        const rp_fate_value *v = rp__fate(tape, i);
        if (!v->promised && !v->recomputed && !unlisted_reads(tape, i)) rp__fates_drop(w, i);
    }
}

rp_tape_mark rp__tape_mark(const rp_ctx *ctx)
{
    rp_tape *tape = rp__tape_opened(ctx);

    if (!tape) return (rp_tape_mark){ .open = NONE };
    return (rp_tape_mark){ tape->id, tape->fates.n_call, tape->fates.n_value, tape->fates.n_region, tape->open, *rp__tape_n_off(tape), tape->n_ignored };
}

void rp__tape_rewind(rp_ctx *ctx, rp_tape_mark mark)
{
    rp_tape *tape = rp__tape_opened(ctx);

    if (!tape || (mark.id && mark.id != tape->id)) return;      /* the tape was reset since */
    tape->open            = mark.open;
    *rp__tape_n_off(tape) = mark.n_off;
    tape->n_ignored       = mark.n_ignored;
    rp__tape_truncate(tape, mark.n_call, mark.n_value, mark.n_region);
}

/* ---- joining ---- */

/* Creates the tape if needed, so that the setting is stored. */
bool rp__regions_defer(rp_ctx *ctx, bool defer)
{
    rp_tape *tape = rp__tape(ctx);
    bool before   = tape && tape->deferred;

    if (tape) tape->deferred = defer;
    return before;
}

int rp__region_count(const rp_ctx *ctx) { return rp__tape_opened(ctx) ? rp__tape_opened(ctx)->fates.n_region : 0; }

int64_t rp__region_bytes(const rp_ctx *ctx, int region)
{
    const rp_tape *tape = rp__tape_opened(ctx);
    int64_t bytes       = 0;

    for (int i = 0; i < tape->fates.n_value; i++) {
        const rp_fate_value *v = rp__fate(tape, i);
        if (v->call != NONE && v->uses > 0 && rp__fates_within(&tape->fates, v->region, region)) bytes += rp_meta_bytes(&tape->value[i].m);
    }
    return bytes;
}

/* Move the calls of `from` to `into`, which ends where `from` begins. */
static void rollback_join(rp_fates *w, int into, int from)
{
    rp_fate_region *a = &w->region[into], *b = &w->region[from];

    for (int at = b->first; at < b->end; at++)
        if (w->call[at].region == from) w->call[at].region = into;
    for (int i = 0; i < w->n_value; i++)
        if (w->value[i].region == from) w->value[i].region = into;
    for (int i = from + 1; i < w->n_region; i++)
        if (w->region[i].parent == from) w->region[i].parent = into;
    a->end    = b->end;
    b->end    = b->first;
    b->parent = into;
}

rp_status rp__regions_join(rp_ctx *ctx, const int *region, const int *group, int n)
{
    rp_tape *tape = rp__tape_opened(ctx);
    int first     = 0;

    for (int i = 1; i < n; i++) {
        if (group[i] != group[first]) first = i;
        else rollback_join(&tape->fates, region[first], region[i]);
    }
    if (tape->fates.region[region[0]].parent != NONE) return RP_OK;
    rp__fates_promise(&tape->fates);
    return rp__region_plan(tape, region[0]);
}
