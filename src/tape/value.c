/* tape/value.c -- ends a value, names it, checks its state in test builds, and detects writes after it was recorded. */
#include "tape/internal.h"

#include <stdio.h>

static void drop_grad(tape_value *v)
{
    rp_tensor_unref(v->grad);
    v->grad = NULL;
}

void rp__value_forget(rp_tape *tape, int value)
{
    tape_value *v = &tape->value[value];

    rp__fates_release(&tape->fates, value);
    drop_grad(v);
    rp__release(v->print);
    v->print = NULL;
}

void rp__value_undo(rp_tape *tape, int value)
{
    tape_value *v = &tape->value[value];

    drop_grad(v);
    v->pins = v->opened = v->reads = v->unread = 0;
    rp__fates_undo(&tape->fates, value);
}

static void check_value(const rp_tape *tape, int value)
{
    const rp_fate_value *f = rp__fate(tape, value);
    const tape_value *v    = &tape->value[value];

    rp__fates_check(&tape->fates, value);
    RP_BUG_IF(f->here != (v->held != NULL));
    RP_BUG_IF(f->call == NONE && v->grad);              /* the gradient of a leaf is stored in its tensor */
    RP_BUG_IF(v->grad && !v->wants_grad);
    RP_BUG_IF(v->pins < 0 || v->opened < 0 || v->readers_left < 0 || v->unread < 0);
}

void rp__tape_check(const rp_tape *tape, int at)
{
    const rp_fate_call *c = at == NONE ? NULL : &tape->fates.call[at];
    int n                 = c ? c->n_reads + c->n_makes + c->n_needs : tape->fates.n_value;

    for (int i = 0; i < n && TAPE_CHECKED; i++) check_value(tape, c ? tape->fates.list[c->list + i] : i);
}

const char *rp__value_name(const rp_tape *tape, const tape_value *v, char *out)
{
    if (rp__is_leaf(tape, v)) {
        snprintf(out, VALUE_CHARS, "%s", v->held && v->held->name ? v->held->name : "a leaf");
        return out;
    }
    const tape_call *c = tape->call[rp__fate(tape, rp__number(tape, v))->call];
    bool slot          = v->output >= c->meta.n_out;
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
