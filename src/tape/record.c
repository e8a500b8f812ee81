/* tape/record.c -- the tape's life, and what happens when an op is called. */
#include "tape/inside.h"

#include <stdatomic.h>
#include <string.h>

static uint64_t next_id(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

static void tape_free(rp_tape *tape)
{
    rp__tape_reset(tape->ctx);
    rp__release(tape->value);
    rp__release(tape->call);
    rp__release(tape->region);
    rp__release(tape);
}

rp_tape *rp__tape(rp_ctx *ctx)
{
    if (ctx->tape) return ctx->tape;
    rp_tape *tape = rp__host_alloc(ctx, sizeof *tape);
    if (!tape) return NULL;
    tape->ctx      = ctx;
    tape->id       = next_id();
    tape->open     = NONE;
    tape->root     = (rp_scope){ .path = "" };
    ctx->tape      = tape;
    ctx->tape_free = tape_free;
    return tape;
}

void rp__tape_reset(rp_ctx *ctx)
{
    rp_tape *tape = ctx->tape;

    if (!tape) return;
    for (int i = 0; i < tape->n_value; i++) {
        rp__value_drop(&tape->value[i]);
        rp_tensor_unref(tape->value[i].grad);
    }
    for (int i = 0; i < tape->n_call; i++) rp__release(tape->call[i]);
    for (int i = 0; i < tape->n_region; i++) rp__release(tape->region[i].run);
    tape->n_value = tape->n_call = tape->n_region = 0;
    tape->open = NONE;
    tape->id   = next_id();
}

void rp__tape_on_grad(rp_ctx *ctx, rp_grad_hook hook, void *user)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return;
    tape->hook      = hook;
    tape->hook_user = user;
}

void rp__tape_decide_by(rp_ctx *ctx, const rp_decider *decider)
{
    rp_tape *tape = rp__tape(ctx);

    if (tape) tape->decider = decider ? *decider : (rp_decider){ 0 };
}

void rp__tape_wide_grads(rp_ctx *ctx, bool wide)
{
    rp_tape *tape = rp__tape(ctx);

    if (tape) tape->wide_grads = wide;
}

void rp__tape_stats(rp_ctx *ctx, rp_tape_stats *out)
{
    *out = ctx->tape ? ctx->tape->stats : (rp_tape_stats){ 0 };
    if (ctx->tape) ctx->tape->stats = (rp_tape_stats){ 0 };
}

rp_status rp__tape_no_grad(rp_ctx *ctx, bool no_grad)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return RP_ERR_MEMORY;
    tape->no_grad = no_grad;
    return RP_OK;
}

/* ---- values ---- */

void rp__value_hold(tape_value *v, rp_tensor *t)
{
    if (v->held) return;
    v->held = rp_tensor_ref(t);
    if (v->producer != NONE) rp__tensor_reclass(t, RP_MEM_SAVED);
}

/* What somebody else still holds is no longer saved for a backward. */
void rp__value_drop(tape_value *v)
{
    rp_tensor *t = v->held;

    v->held = NULL;
    if (t && v->producer != NONE && (t->refs > 1 || t->storage->refs > 1)) rp__tensor_reclass(t, RP_MEM_TEMP);
    rp_tensor_unref(t);
}

void rp__value_used(tape_value *v)
{
    RP_BUG_IF(v->uses <= 0);
    if (--v->uses == 0) rp__value_drop(v);
}

rp_status rp__value_check(rp_tape *tape, const tape_value *v, const tape_call *reader)
{
    const rp_storage *s = v->held->storage;

    if (s->version == v->version) return RP_OK;
    const char *maker = v->producer == NONE ? v->held->name : tape->call[v->producer]->meta.op->name;
    const char *where = v->producer == NONE ? "" : tape->call[v->producer]->path;
    return rp__fail(tape->ctx, RP_ERR_MUTATED, "'%s%s%s' (%s) was changed by %s between forward and backward; %s of '%s' reads it",
                    where, *where ? "." : "", maker ? maker : "a leaf", rp_meta_str(&v->m), s->writer, reader->meta.op->name,
                    reader->path);
}

/* Room for `more` entries of `size` bytes behind *n. */
static bool grow(rp_ctx *ctx, void **array, int n, int *room, int more, int64_t size)
{
    if (n + more <= *room) return true;
    int wanted  = (n + more) * 2 + 32;
    void *grown = rp__host_grow(ctx, *array, *room * size, wanted * size);
    if (!grown) return false;
    *array = grown;
    *room  = wanted;
    return true;
}

static int value_new(rp_tape *tape, rp_tensor *t, int producer, int region, int output)
{
    tape_value *v = &tape->value[tape->n_value];

    *v = (tape_value){ .producer = producer, .region = region, .output = output, .m = t->m, .version = t->storage->version };
    t->tape_id = tape->id;
    t->value   = tape->n_value;
    return tape->n_value++;
}

/* A leaf that collects a gradient stays until the tape is reset; a constant is held for those who read it later. */
static int leaf_value(rp_tape *tape, rp_tensor *t)
{
    int at = value_new(tape, t, NONE, NONE, 0);

    if (!t->requires_grad) return at;
    tape->value[at].held       = rp_tensor_ref(t);
    tape->value[at].wants_grad = tape->value[at].promised = true;
    tape->value[at].uses       = 1;
    return at;
}

static bool wants_grad(const rp_tape *tape, rp_tensor *t)
{
    const rp_tensor *w = rp__tensor_whole(t);

    return w->tape_id == tape->id ? tape->value[w->value].wants_grad : w->requires_grad;
}

/* A constant that was written since the tape saw it is another constant: a buffer may be used again once nobody needs what it held. */
static bool on_tape(const rp_tape *tape, const rp_tensor *w)
{
    if (w->tape_id != tape->id) return false;
    const tape_value *v = &tape->value[w->value];
    return v->producer != NONE || v->wants_grad || v->version == w->storage->version;
}

static tape_input input_of(rp_tape *tape, rp_tensor *t)
{
    rp_tensor *w  = rp__tensor_whole(t);
    tape_input in = { .whole = t == w, .m = t->m, .start = t->start };

    memcpy(in.stride, t->stride, sizeof in.stride);
    in.value = on_tape(tape, w) ? w->value : leaf_value(tape, w);
    return in;
}

rp_status rp__input_open(rp_tape *tape, const tape_call *call, int i, rp_tensor **out)
{
    const tape_input *in = &call->in[i];
    const tape_value *v  = &tape->value[in->value];

    RP_BUG_IF(!v->held);
    RP_TRY(rp__value_check(tape, v, call));
    if (in->whole) {
        *out = rp_tensor_ref(v->held);
        return RP_OK;
    }
    RP_TRY(rp__tensor_alias(v->held, out));
    (*out)->m     = in->m;
    (*out)->start = in->start;
    memcpy((*out)->stride, in->stride, sizeof in->stride);
    return RP_OK;
}

int rp__call_needs(const tape_call *c, int *values)
{
    uint32_t needs = c->meta.needs;
    int n = 0;

    for (int i = 0; i < c->meta.n_in; i++)
        if (needs & RP_IN(i)) values[n++] = c->in[i].value;
    for (int i = 0; i < c->meta.n_out; i++)
        if (needs & RP_OUT(i)) values[n++] = c->out[i];
    for (int i = 0; i < c->meta.n_slot; i++)
        if (needs & RP_SLOT(i)) values[n++] = c->slot[i];
    return n;
}

bool rp__region_within(const rp_tape *tape, int region, int outer)
{
    if (outer == NONE) return true;
    while (region != NONE && region != outer) region = tape->region[region].parent;
    return region == outer;
}

static int outermost(const rp_tape *tape, int region)
{
    while (region != NONE && tape->region[region].parent != NONE) region = tape->region[region].parent;
    return region;
}

/* An op that may not run again keeps what it made, in a region too. */
static bool replayable(const tape_call *c) { return !(c->meta.op->flags & (RP_OP_EFFECT | RP_OP_COLLECTIVE)); }

/* What the call needs later is held now, unless its region makes it again. A value from outside the outermost region is held
 * without a promise until that region closes and knows whether its replay reads it. */
static void hold_for(rp_tape *tape, tape_call *c, int value, rp_tensor *whole, bool backward_reads)
{
    tape_value *v = &tape->value[value];
    int top       = outermost(tape, c->region);
    bool inside   = top != NONE && v->producer != NONE && rp__region_within(tape, v->region, top);

    if (backward_reads) v->uses++;
    if (inside && replayable(tape->call[v->producer])) return;
    if (backward_reads) v->promised = true;
    if (backward_reads || top != NONE) rp__value_hold(v, whole);
}

static void hold_all(rp_tape *tape, tape_call *c, rp_tensor *const *in, rp_tensor **out, rp_tensor **slot)
{
    uint32_t needs = c->meta.needs;

    for (int i = 0; i < c->meta.n_in; i++) hold_for(tape, c, c->in[i].value, rp__tensor_whole(in[i]), needs & RP_IN(i));
    for (int i = 0; i < c->meta.n_out; i++)
        if (needs & RP_OUT(i)) hold_for(tape, c, c->out[i], out[i], true);
    for (int i = 0; i < c->meta.n_slot; i++)
        if (needs & RP_SLOT(i)) hold_for(tape, c, c->slot[i], slot[i], true);
}

static rp_scope *scope_of(rp_tape *tape) { return tape->ctx->scope ? tape->ctx->scope : &tape->root; }

static rp_op_stream stream_of(rp_tape *tape, const rp_op *op)
{
    rp_ctx *ctx     = tape->ctx;
    rp_scope *scope = scope_of(tape);
    uint64_t ordinal, key;

    if (!(op->flags & RP_OP_RANDOM)) return (rp_op_stream){ 0 };
    if (scope->pass != ctx->pass) {
        scope->pass     = ctx->pass;
        scope->n_random = 0;
    }
    ordinal = (uint64_t)scope->n_random;
    key     = rp__hash(scope->path, strlen(scope->path), RP_HASH_SEED);
    key     = rp__hash(&ordinal, sizeof ordinal, key);
    key     = rp__hash(&ctx->seed, sizeof ctx->seed, key);
    return (rp_op_stream){ .key = key, .step = ctx->step, .sample_base = ctx->sample_base };
}

/* Enter a call that has run. All memory for it is there, so it cannot fail. */
static void record(rp_tape *tape, tape_call *c, rp_tensor *const *in, rp_tensor **out, rp_tensor **slot)
{
    int at = tape->n_call++;

    tape->call[at] = c;
    for (int i = 0; i < c->meta.n_in; i++) {
        c->in[i] = input_of(tape, in[i]);
        tape->value[c->in[i].value].readers++;
    }
    for (int i = 0; i < c->meta.n_out; i++) {
        c->out[i] = value_new(tape, out[i], at, c->region, i);
        tape->value[c->out[i]].wants_grad = rp_meta_is_float(&c->meta.out[i]);
    }
    for (int i = 0; i < c->meta.n_slot; i++) c->slot[i] = value_new(tape, slot[i], at, c->region, c->meta.n_out + i);
    hold_all(tape, c, in, out, slot);
}

static rp_status reserve(rp_tape *tape, int n_value, tape_call **c)
{
    rp_ctx *ctx = tape->ctx;

    if (!grow(ctx, (void **)&tape->value, tape->n_value, &tape->room_value, n_value, sizeof *tape->value) ||
        !grow(ctx, (void **)&tape->call, tape->n_call, &tape->room_call, 1, sizeof *tape->call) ||
        !(*c = rp__host_alloc(ctx, sizeof **c)))
        return RP_ERR_MEMORY;
    return RP_OK;
}

/* A call that failed has drawn nothing: the next random call has its number. */
static void count_forward(rp_tape *tape, const rp_op_meta *m)
{
    if (m->op->cost) tape->stats.step_flops += m->op->cost(m, RP_FORWARD).flops;
    tape->stats.n_calls++;
    if (m->op->flags & RP_OP_RANDOM) scope_of(tape)->n_random++;
}

rp_status rp__apply(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out)
{
    rp_tape *tape = rp__tape(ctx);
    rp_tensor *made[RP_MAX_OUT] = { 0 }, *slot[RP_MAX_SLOT] = { 0 };
    bool wants[RP_MAX_IN] = { 0 };
    tape_call *c  = NULL;

    if (!tape) return RP_ERR_MEMORY;
    for (int i = 0; i < n_in && i < RP_MAX_IN; i++) wants[i] = !tape->no_grad && in[i] && wants_grad(tape, in[i]);
    RP_TRY(reserve(tape, RP_MAX_IN + RP_MAX_OUT + RP_MAX_SLOT, &c));
    if (attr) memcpy(c->attr, attr, op->attr_size);
    rp_status status = rp__op_prepare(ctx, op, attr ? c->attr : NULL, in, n_in, !ctx->eval, wants, &c->meta);
    if (status == RP_OK) {
        c->stream = stream_of(tape, op);
        c->region = tape->open;
        c->path   = scope_of(tape)->path;
        status    = rp__op_forward(&c->meta, c->stream, in, made, slot);
    }
    if (status != RP_OK) {
        rp__release(c);
        return status;
    }
    count_forward(tape, &c->meta);
    memcpy(out, made, (size_t)c->meta.n_out * sizeof *out);
    int n_slot = c->meta.n_slot;
    if (c->meta.want_grad) record(tape, c, in, made, slot);
    else rp__release(c);
    for (int i = 0; i < n_slot; i++) rp_tensor_unref(slot[i]);
    return RP_OK;
}

/* ---- regions ---- */

rp_status rp__region_begin(rp_ctx *ctx, const char *path)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return RP_ERR_MEMORY;
    if (tape->no_grad) return RP_OK;
    if (!grow(ctx, (void **)&tape->region, tape->n_region, &tape->room_region, 1, sizeof *tape->region)) return RP_ERR_MEMORY;
    tape->region[tape->n_region] = (tape_region){ .path = path, .parent = tape->open, .first = tape->n_call };
    tape->open = tape->n_region++;
    return RP_OK;
}

rp_status rp__region_end(rp_ctx *ctx)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return RP_ERR_MEMORY;
    if (tape->no_grad) return RP_OK;
    RP_CHECK(ctx, tape->open != NONE, RP_ERR_STATE, "a checkpointed region is ended that was not begun");
    int closed = tape->open, parent = tape->region[closed].parent;
    tape->region[closed].end = tape->n_call;
    if (parent == NONE) RP_TRY(rp__region_plan(tape, closed));
    tape->open = parent;
    return RP_OK;
}
