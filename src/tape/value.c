/* tape/value.c -- a value's life on the tape.
 *
 *   forward    made ─ held where somebody needs it later and no replay makes it ─ (its fate: away) ─▶ backward
 *   backward   held, or fetched, or made again by a replay ─ let go at its last use
 *
 * A held value is the forward's own storage, never a copy. What is fetched or made again is dropped at its last use also where the
 * record is kept for another backward, unless that one is to use it, too.
 */
#include "tape/inside.h"

#include <stdio.h>

/* What ranks exchange is of class comm, held or not. */
static void reclass(rp_tensor *t, rp_mem_class c)
{
    if (t->storage->mem_class != RP_MEM_COMM) rp__tensor_reclass(t, c);
}

void rp__value_hold(tape_value *v, rp_tensor *t)
{
    if (v->held || v->away != NONE) return;
    v->held = rp_tensor_ref(t);
    if (v->producer != NONE) reclass(t, RP_MEM_SAVED);
}

/* What somebody else still holds is no longer saved for a backward. */
void rp__value_drop(tape_value *v)
{
    rp_tensor *t = v->held;

    v->held       = NULL;
    v->made_again = false;
    if (t && v->producer != NONE && (t->refs > 1 || t->storage->refs > 1)) reclass(t, RP_MEM_TEMP);
    rp_tensor_unref(t);
}

/* What a fetch would say now has no reader any more. */
static void end_fetch(rp_tape *tape, tape_value *v)
{
    if (v->fetching) (void)rp__away_wait(tape->ctx->away, v->away);
    v->fetching = false;
}

static void let_go(rp_tape *tape, tape_value *v)
{
    end_fetch(tape, v);
    rp__value_drop(v);
    if (v->away != NONE) rp__away_drop(tape->ctx->away, v->away);
    v->away = NONE;
}

void rp__value_forget(rp_tape *tape, tape_value *v)
{
    let_go(tape, v);
    rp__release(v->print);
    rp_tensor_unref(v->grad);
    v->print = NULL;
    v->grad  = NULL;
}

void rp__value_undo(rp_tape *tape, tape_value *v)
{
    rp_tensor_unref(v->grad);
    v->grad    = NULL;
    v->pending = v->pins = v->opened = v->reads = v->unread = 0;
    v->needed = v->uses_replay = false;
    if (!v->made_again || tape->keep_replays) return;
    end_fetch(tape, v);
    rp__value_drop(v);
}

/* Where the record is kept, what the forward left stays for the next backward. */
void rp__value_used(rp_tape *tape, tape_value *v)
{
    RP_BUG_IF(v->left <= 0);
    if (--v->left > 0) return;
    if (!tape->retain) {
        let_go(tape, v);
    } else if (v->made_again && !tape->keep_replays) {
        end_fetch(tape, v);
        rp__value_drop(v);
    }
}

const char *rp__value_name(const rp_tape *tape, const tape_value *v, char *out)
{
    const tape_call *c = v->producer == NONE ? NULL : tape->call[v->producer];

    if (!c) {
        snprintf(out, VALUE_CHARS, "%s", v->held && v->held->name ? v->held->name : "a leaf");
        return out;
    }
    bool slot = v->output >= c->meta.n_out;
    snprintf(out, VALUE_CHARS, "%s%s%s %s %d", c->path, *c->path ? ": " : "", c->meta.op->name, slot ? "by-product" : "output",
             slot ? v->output - c->meta.n_out : v->output);
    return out;
}

rp_status rp__value_check(rp_tape *tape, const tape_value *v, const tape_call *reader)
{
    const rp_storage *s = v->held->storage;
    char name[VALUE_CHARS];

    if (s->version == v->version || v->allow_mutation) return RP_OK;
    return rp_fail(tape->ctx, RP_ERR_MUTATED, "'%s' (%s) was changed by %s between forward and backward; %s of '%s' reads it",
                   rp__value_name(tape, v, name), rp_meta_str(&v->m), s->writer, reader->meta.op->name, reader->path);
}

/* ---- away ---- */

/* What was written since it was made stays, so that its reader finds out. */
rp_status rp__value_offload(rp_tape *tape, tape_value *v)
{
    if (v->fate != RP_OFFLOAD || v->away != NONE || !v->held) return RP_OK;
    if (v->held->storage->version != v->version && !v->allow_mutation) return RP_OK;
    RP_TRY(rp__away_put(tape->ctx->away, v->held, &v->away));
    tape->stats.offloaded_bytes += rp_meta_bytes(&v->m);
    rp__value_drop(v);
    return RP_OK;
}

rp_status rp__value_fetch(rp_tape *tape, tape_value *v)
{
    rp_tensor *t;

    if (v->held || v->away == NONE) return RP_OK;
    RP_TRY(rp__tensor_new_named(tape->ctx, &v->m, RP_MEM_SAVED, "an offloaded slot", &t));
    rp_status status = rp__away_fetch(tape->ctx->away, v->away, t);
    if (status != RP_OK) {
        rp_tensor_unref(t);
        return status;
    }
    v->held       = t;
    v->made_again = v->fetching = true;
    return RP_OK;
}

void rp__value_unfetch(rp_tape *tape, tape_value *v)
{
    end_fetch(tape, v);
    rp__value_drop(v);
}

rp_status rp__value_make(rp_tape *tape, tape_value *v)
{
    if (rp__value_gone(v) && v->producer != NONE && tape->call[v->producer]->again) {
        RP_TRY(rp__again_make(tape, (int)(v - tape->value)));
    } else if (rp__value_gone(v)) {
        RP_TRY(rp__region_replay(tape, v->region));
    }
    RP_TRY(rp__value_fetch(tape, v));
    RP_BUG_IF(!v->held);
    if (!v->fetching) return RP_OK;
    v->fetching      = false;
    rp_status status = rp__away_wait(tape->ctx->away, v->away);
    rp__tensor_wrote(v->held, "the fetch");
    v->version = v->held->storage->version;
    return status;
}
