/* tape/replay.c -- reruns a call, and provides the tape's functions for the record of fates: drop, offload and fetch a tensor. */
#include "tape/internal.h"

#include <string.h>

/* ---- rerunning a call ---- */

static rp_status check_prints(rp_tape *tape, const tape_call *c, rp_tensor *const *made)
{
    const int *value = rp__call_makes(tape, c);

    for (int i = 0; i < c->meta.n_out + c->meta.n_slot; i++)
        if (tape->value[value[i]].print) RP_TRY(rp__print_check(tape, c->at, &tape->value[value[i]], made[i]));
    return RP_OK;
}

static void count_replay(rp_tape *tape, const tape_call *c)
{
    const rp_call_hook *hook = &rp__tape_ctx(tape->ctx)->on_replay;

    rp__op_add_flops(&tape->stats.recompute_flops, &c->meta, RP_FORWARD);
    tape->stats.n_replayed++;
    if (hook->call) hook->call(hook->user, c->at, c->path, c->meta.op->name);
}

/* Reruns a call as it was recorded. made[] receives its outputs, then its slots; the caller must unref them. */
static rp_status call_replay(rp_tape *tape, int at, rp_tensor **made)
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
    count_replay(tape, c);
    for (int i = 0; i < c->meta.n_in; i++) rp__value_touch(tape, &tape->value[c->in[i].value]);
    status = check_prints(tape, c, made);
done:
    for (int i = 0; i < c->meta.n_in; i++) rp__input_close(tape, c, i, in[i]);
    for (int i = 0; i < MOST_MADE && status != RP_OK; i++) rp_tensor_unref(made[i]);
    return status;
}

/* Tensors that ranks exchange stay in class comm, held or not. */
static void reclass(rp_tensor *t, rp_mem_class c)
{
    if (t->storage->mem_class != RP_MEM_COMM) rp__tensor_reclass(t, c);
}

static void value_take(rp_tape *tape, int value, rp_tensor *t, rp_fate_take how)
{
    tape_value *v = &tape->value[value];

    v->held    = rp_tensor_ref(t);
    v->version = t->storage->version;
    if (how == RP_FATES_HOLD) reclass(t, RP_MEM_SAVED);
    rp__value_touch(tape, v);
}

static rp_status replay_run(void *self, int at, const rp_fate_take *take)
{
    rp_tape *tape      = self;
    const tape_call *c = tape->call[at];
    rp_tensor *made[MOST_MADE];
    const int *value = rp__call_makes(tape, c);

    RP_TRY(call_replay(tape, at, made));
    for (int i = 0; i < c->meta.n_out + c->meta.n_slot; i++) {
        if (take[i] != RP_FATES_LEAVE) value_take(tape, value[i], made[i], take[i]);
        rp_tensor_unref(made[i]);
    }
    return RP_OK;
}

static rp_status alone(void *self, int value) { return rp__recompute_make(self, value); }

/* ---- dropping, offloading and fetching ---- */

void rp__value_hold(rp_tape *tape, int value, rp_tensor *t)
{
    if (!rp__fate_gone(rp__fate(tape, value))) return;
    tape->value[value].held = rp_tensor_ref(t);
    if (rp__fate(tape, value)->call != NONE) reclass(t, RP_MEM_SAVED);
    rp__fates_hold(&tape->fates, value);
}

/* A tensor that others still hold is no longer saved for a backward, so its class becomes temp. */
static void replay_drop(void *self, int value)
{
    rp_tape *tape = self;
    rp_tensor *t  = tape->value[value].held;

    tape->value[value].held = NULL;
    if (rp__fate(tape, value)->call != NONE && (t->refs > 1 || t->storage->refs > 1)) reclass(t, RP_MEM_TEMP);
    rp_tensor_unref(t);
}

/* A value that was written since it was made is not offloaded, so that its reader detects the write. */
static rp_status replay_put(void *self, int value, bool *put)
{
    rp_tape *tape = self;
    tape_value *v = &tape->value[value];

    *put = v->held->storage->version == v->version || v->allow_mutation;
    if (!*put) return RP_OK;
    RP_TRY(rp__offload_put(rp__tape_ctx(tape->ctx)->offload, v->held, &v->ticket));
    tape->stats.offloaded_bytes += rp_meta_bytes(&v->m);
    return RP_OK;
}

static rp_status fetch(void *self, int value)
{
    rp_tape *tape = self;
    tape_value *v = &tape->value[value];
    rp_tensor *t;

    tape->now.fetch  = true;
    rp_status status = rp__tensor_new_named(tape->ctx, &v->m, RP_MEM_SAVED, "an offloaded slot", &t);
    tape->now.fetch  = false;
    if (status != RP_OK) return status;
    status = rp__offload_fetch(rp__tape_ctx(tape->ctx)->offload, v->ticket, t);
    return rp__tensor_give(status, t, &v->held);
}

static rp_status wait(void *self, int value)
{
    rp_tape *tape    = self;
    tape_value *v    = &tape->value[value];
    rp_status status = rp__offload_wait(rp__tape_ctx(tape->ctx)->offload, v->ticket);

    rp__tensor_wrote(v->held, "the fetch");
    v->version = v->held->storage->version;
    return status;
}

static void forget(void *self, int value)
{
    rp_tape *tape = self;

    rp__offload_drop(rp__tape_ctx(tape->ctx)->offload, tape->value[value].ticket);
}

const rp_fate_acts rp__tape_acts = {
    .run = replay_run, .alone = alone, .drop = replay_drop, .put = replay_put, .fetch = fetch, .wait = wait, .forget = forget
};
