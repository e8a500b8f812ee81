/* tape/backward.c -- runs the backward from the loss to the leaves, call by call, and makes the reads of each call just before it.
 *
 * A region is replayed when the first value it makes is read. A record that is kept (retain) is returned to its state after the forward:
 * values that were fetched or recomputed are dropped, unless the next backward uses them (keep_replays). Inside a region that is still
 * open, the calls so far are planned for the duration of the backward.
 */
#include "tape/internal.h"

/* ---- values to read ---- */

/* Pins keep making one value from dropping another. */
static void pin_needs(rp_tape *tape, int at, int pins)
{
    const rp_fate_call *c = &tape->fates.call[at];

    for (int i = 0; i < c->n_needs; i++) tape->value[rp__fate_needs(&tape->fates, c)[i]].pins += pins;
}

static rp_status make_needs(rp_tape *tape, int at)
{
    const rp_fate_call *c = &tape->fates.call[at];

    RP_TRY(rp__fates_make_needs(&tape->fates, at));
    for (int i = 0; i < c->n_needs; i++) rp__value_touch(tape, &tape->value[rp__fate_needs(&tape->fates, c)[i]]);
    return rp__fates_prefetch(&tape->fates, at);
}

/* ---- one call ---- */

static bool has_grad(rp_tape *tape, const tape_call *c)
{
    const int *out = rp__call_makes(tape, c);

    if (c->meta.n_out == 1) rp__grad_resume(tape, &tape->value[out[0]]);
    for (int i = 0; i < c->meta.n_out; i++)
        if (tape->value[out[i]].grad) return true;
    return false;
}

static void release_call(rp_tape *tape, int at)
{
    const tape_call *c = tape->call[at];

    rp__fates_passed(&tape->fates, at);
    for (int i = 0; i < c->meta.n_out; i++) {
        tape_value *v = &tape->value[rp__call_makes(tape, c)[i]];
        rp_tensor_unref(v->grad);
        v->grad = NULL;
    }
    rp__recompute_passed(tape, c);
    tape->passed = at;
}

/* If backward has passed all readers of a leaf, the leaf gets no more contributions. No later backward or replay reads it, because a replay
 * runs no call recorded after the one that asked for it. */
static rp_status leaves_done(rp_tape *tape, const tape_call *c)
{
    const rp_grad_hook *hook = &rp__tape_ctx(tape->ctx)->on_grad;

    for (int i = 0; i < c->meta.n_in; i++) {
        tape_value *v = &tape->value[c->in[i].value];
        if (--v->readers_left > 0 || !rp__is_leaf(tape, v) || !v->wanted) continue;
        if (hook->call && v->held->grad) RP_TRY(hook->call(hook->user, v->held));
    }
    return RP_OK;
}

static rp_status run_call(rp_tape *tape, int at)
{
    const rp_call_hook *hook = &rp__tape_ctx(tape->ctx)->on_backward;
    const tape_call *c       = tape->call[at];

    RP_TRY(make_needs(tape, at));
    rp__tape_check(tape, at);
    if (hook->call) hook->call(hook->user, at, c->path, c->meta.op->name);
    return rp__call_backward(tape, c);
}

static rp_status walk(rp_tape *tape)
{
    for (int at = tape->fates.n_call - 1; at >= 0; at--) {
        tape_call *c = tape->call[at];
        rp__tape_work(tape, RP_TAPE_BACKWARD, c, at);
        bool reached = has_grad(tape, c);
        if (reached && rp__grad_carries(tape, c)) rp__grad_carry(tape, c);
        else if (reached) {
            pin_needs(tape, at, 1);
            RP_TRY(run_call(tape, at));
            pin_needs(tape, at, -1);
        }
        release_call(tape, at);
        rp__tape_check(tape, at);
        RP_TRY(leaves_done(tape, c));
    }
    return RP_OK;
}

/* ---- a backward ---- */

static bool is_listed(const rp_backward_options *o, const rp_tensor *leaf)
{
    for (int i = 0; i < o->n_only; i++)
        if (rp__tensor_whole(o->only[i]) == leaf) return true;
    return !o->only;
}

/* Which of its outputs can get a gradient in this backward? */
static void mark_wanted(rp_tape *tape, const tape_call *c)
{
    const int *out = rp__call_makes(tape, c);
    bool wanted    = false;

    for (int i = 0; i < c->meta.n_in; i++) wanted = wanted || rp__input_wants(tape, c, i);
    for (int i = 0; i < c->meta.n_out; i++) tape->value[out[i]].wanted = wanted && tape->value[out[i]].wants_grad;
}

static void backward_begin(rp_tape *tape, const rp_backward_options *o)
{
    rp_fates *w     = &tape->fates;
    w->retain       = o->keep_record || tape->open != NONE;
    w->keep_replays = w->retain && o->keep_replays && tape->open == NONE;
    w->offloads     = rp__tape_ctx(tape->ctx)->offload;
    tape->passed    = w->n_call;
    rp__fates_begin(w);
    for (int i = 0; i < w->n_value; i++) {
        tape_value *v   = &tape->value[i];
        v->readers_left = v->readers;
        v->wanted       = rp__is_leaf(tape, v) && v->wants_grad && is_listed(o, v->held);
    }
    for (int at = 0; at < w->n_call; at++) mark_wanted(tape, tape->call[at]);
    rp__tape_check(tape, NONE);
}

static void end(rp_tape *tape)
{
    tape->passed = NONE;
    for (int i = 0; i < tape->fates.n_value; i++) rp__value_undo(tape, i);
    rp__tape_check(tape, NONE);
}

static rp_status seed(rp_tape *tape, rp_tensor *loss)
{
    bool fresh;

    RP_TRY(rp__grad_own(tape, &tape->value[loss->value], &fresh));
    rp_tensor *g = tape->value[loss->value].grad;
    if (rp__tensor_real(g)) rp_elem_put(g, 0, 1);
    return RP_OK;
}

/* The memory of the loss's gradient is attributed to the backward of the call that made the loss. */
static rp_status begin_at_loss(rp_tape *tape, rp_tensor *loss)
{
    RP_CHECK(tape->ctx, rp__tensor_on_tape(tape, loss) && !loss->base && rp_meta_elems(&loss->m) == 1 && !rp__is_leaf(tape, &tape->value[loss->value]),
             RP_ERR_ARG, "backward starts from a scalar that was recorded, not from %s", rp_meta_str(&loss->m));
    int at = rp__fate(tape, loss->value)->call;
    rp__tape_work(tape, RP_TAPE_BACKWARD, tape->call[at], at);
    return seed(tape, loss);
}

static rp_status backward_run(rp_tape *tape, rp_tensor *loss)
{
    unsigned mode    = rp__fp_enter();
    rp_status status = begin_at_loss(tape, loss);

    if (status == RP_OK) status = walk(tape);
    tape->now = (rp_tape_work){ 0 };
    rp__fp_leave(mode);
    return status;
}

/* For the duration of the backward, open regions end at the last recorded call. */
static rp_status run_in_region(rp_tape *tape, rp_tensor *loss, const rp_backward_options *o)
{
    rp_fates *w = &tape->fates;
    int first   = rp__fates_first_unlisted(w, tape->open);

    for (int r = tape->open; r != NONE; r = w->region[r].parent) w->region[r].end = w->n_call;
    RP_TRY(rp__fates_list(w, first));
    backward_begin(tape, o);
    rp_status status = backward_run(tape, loss);
    end(tape);
    rp__fates_unlist(w, first);
    return status;
}

static rp_status run_all(rp_tape *tape, rp_tensor *loss, const rp_backward_options *o)
{
    if (tape->open != NONE) return run_in_region(tape, loss, o);
    backward_begin(tape, o);
    rp_status status = backward_run(tape, loss);
    if (status == RP_OK && tape->fates.retain) end(tape);
    else rp__tape_reset(tape->ctx);
    return status;
}

rp_status rp__backward_with(rp_ctx *ctx, rp_tensor *loss, const rp_backward_options *options)
{
    rp_backward_options o = options ? *options : (rp_backward_options){ 0 };
    rp_tape *tape         = rp__tape(ctx);
    const rp_planner *by  = &rp__tape_ctx(ctx)->planner;

    if (!tape) return RP_ERR_MEMORY;
    rp_status status = rp__regions_planned_end(tape);
    if (status == RP_OK && by->recorded) status = by->recorded(by->self);
    if (status != RP_OK) {
        rp__tape_reset(ctx);                    /* its regions are the plan's: no caller has one open */
        return status;
    }
    status = run_all(tape, loss, &o);
    if (by->done) by->done(by->self);
    return status;
}
