/* tape/record.c -- handles a call of an op: prepares it, asks for its fates, runs it, records it.
 *
 * All memory for the record is allocated before the op runs. Afterwards only writing an offloaded slot can fail; the call is then removed
 * from the record.
 */
#include "base/list.h"
#include "tape/internal.h"

#include <string.h>

static tape_value *value_new(rp_tape *tape, rp_tensor *t)
{
    tape_value *v = &tape->value[tape->fates.n_value];

    *v = (tape_value){ .serial = rp__tape_next_id(), .m = t->m, .version = t->storage->version, .touched = tape->works };
    tape->fates.value[tape->fates.n_value] = (rp_fate_value){ .call = NONE, .region = NONE };
    t->tape_id = v->serial;
    t->value   = tape->fates.n_value++;
    return v;
}

/* A leaf that collects a gradient is held until the tape is reset; a constant is held for its later readers. Holding a frozen parameter
 * costs nothing, and lets its readers be rerun under a memory limit. */
static int leaf_value(rp_tape *tape, rp_tensor *t)
{
    tape_value *v = value_new(tape, t);
    bool frozen   = t->storage->mem_class == RP_MEM_PARAM && tape->ctx->options.memory_limit_bytes;

    if (t->requires_grad || frozen) rp__value_hold(tape, t->value, t);
    if (!t->requires_grad) return t->value;
    rp_fate_value *f = rp__fate(tape, t->value);
    v->wants_grad    = true;
    f->promised = f->collects = true;
    f->uses                   = 1;
    return t->value;
}

static bool wants_grad(const rp_tape *tape, rp_tensor *t)
{
    const rp_tensor *w = rp__tensor_whole(t);

    return rp__tensor_on_tape(tape, w) ? tape->value[w->value].wants_grad : w->requires_grad;
}

/* A constant that was written since the tape saw it counts as a new constant. So a buffer may be reused once its old contents are unused. */
static bool same_value(const rp_tape *tape, const rp_tensor *w)
{
    if (!rp__tensor_on_tape(tape, w)) return false;
    const tape_value *v = &tape->value[w->value];
    return !rp__is_leaf(tape, v) || v->wants_grad || v->version == w->storage->version;
}

static tape_input input_of(rp_tape *tape, rp_tensor *t)
{
    rp_tensor *w  = rp__tensor_whole(t);
    tape_input in = { .whole = t == w, .m = t->m, .start = t->start };

    memcpy(in.stride, t->stride, sizeof in.stride);
    in.value = same_value(tape, w) ? w->value : leaf_value(tape, w);
    return in;
}

/* A list of the values that a call makes has its outputs, then its by-products. */
static int n_made(const tape_call *c) { return c->meta.n_out + c->meta.n_slot; }

enum { VIEW_REFS = 2 };             /* a view takes a reference to the tensor and one to its storage */

rp_status rp__input_open(rp_tape *tape, const tape_call *call, int i, rp_tensor **out)
{
    const tape_input *in = &call->in[i];
    tape_value *v        = &tape->value[in->value];

    RP_BUG_IF(!rp__fate(tape, in->value)->here);
    if (!rp__input_is_written(call, i)) RP_TRY(rp__value_check(tape, v, call));
    if (in->whole) {
        *out = rp_tensor_ref(v->held);
        v->opened++;
        return RP_OK;
    }
    RP_TRY(rp__tensor_alias(v->held, out));
    v->opened += VIEW_REFS;
    (*out)->m     = in->m;
    (*out)->start = in->start;
    memcpy((*out)->stride, in->stride, sizeof in->stride);
    return RP_OK;
}

void rp__input_close(rp_tape *tape, const tape_call *call, int i, rp_tensor *opened)
{
    if (opened) tape->value[call->in[i].value].opened -= call->in[i].whole ? 1 : VIEW_REFS;
    rp_tensor_unref(opened);
}

/* Hold a value now if it is needed later, unless a replay makes it. */
static rp_status hold_for(rp_tape *tape, const tape_call *c, int value, rp_tensor *whole, bool backward_reads)
{
    if (rp__fates_keeps(&tape->fates, c->at, value, backward_reads)) rp__value_hold(tape, value, whole);
    return backward_reads ? rp__fates_offload(&tape->fates, value) : RP_OK;
}

static rp_status hold_all(rp_tape *tape, const tape_call *c, rp_tensor *const *in, rp_tensor *const *made)
{
    uint32_t needs   = c->meta.needs;
    rp_status status = RP_OK, first = RP_OK;

    for (int i = 0; i < c->meta.n_in; i++) {
        status = hold_for(tape, c, c->in[i].value, rp__tensor_whole(in[i]), needs & RP_IN(i));
        if (first == RP_OK) first = status;
    }
    for (int i = 0; i < n_made(c); i++) {
        if (!(needs & rp__op_made_bit(&c->meta, i))) continue;
        status = hold_for(tape, c, made[i]->value, made[i], true);
        if (first == RP_OK) first = status;
    }
    return first;
}

static rp_op_stream stream_of(rp_tape *tape, const rp_op *op)
{
    rp_ctx *ctx     = tape->ctx;
    rp_scope *scope = rp__tape_scope(tape);
    uint64_t ordinal, key;

    if (!(op->flags & RP_OP_RANDOM)) return (rp_op_stream){ 0 };
    if (scope->pass != rp__tape_ctx(ctx)->pass) {
        scope->pass     = rp__tape_ctx(ctx)->pass;
        scope->n_random = 0;
    }
    ordinal = (uint64_t)scope->n_random;
    key     = rp__hash(scope->path, strlen(scope->path), RP_HASH_START);
    key     = rp__hash(&ordinal, sizeof ordinal, key);
    key     = rp__hash(&ctx->seed, sizeof ctx->seed, key);
    return (rp_op_stream){ .key = key, .step = ctx->step, .sample_base = ctx->sample_base };
}

/* ---- calls ---- */

/* Everything that recording a call may need, allocated beforehand so that recording cannot run out of memory. */
typedef struct {
    tape_call *c;
    bool recorded;                  /* if false, the members below are unused */
    bool alone;                     /* the call gets a region of its own */
    rp_verdict verdict[MOST_MADE];
    tape_print *print[MOST_MADE];
} pending_call;

static void make_value(rp_tape *tape, pending_call *p, int i, rp_tensor *t)
{
    tape_value *v        = value_new(tape, t);
    const rp_verdict *by = &p->verdict[i];

    v->output         = i;
    v->wants_grad     = p->c->meta.want_grad && i < p->c->meta.n_out && rp_meta_is_float(&t->m);
    v->allow_mutation = by->allow_mutation;
    v->must           = by->must;
    v->by             = by->by;
    v->print          = p->print[i];
    p->print[i]       = NULL;
    rp__fates_add_made(&tape->fates, t->value, by->fate, by->must, rp__op_replays(p->c->meta.op));
}

static void read_value(rp_tape *tape, tape_call *c, int i, rp_tensor *t)
{
    c->in[i]      = input_of(tape, t);
    tape_value *v = &tape->value[c->in[i].value];
    c->changed    = c->changed || (!rp__input_is_written(c, i) && t->storage->version != v->version);
    v->readers++;
    if (c->meta.in_grad[i] && !rp__is_leaf(tape, v)) tape->call[rp__fate(tape, c->in[i].value)->call]->read_on = true;
    rp__value_touch(tape, v);
}

/* Record which values the call reads, makes and needs. */
static void add_values(rp_tape *tape, pending_call *p, rp_tensor *const *in, rp_tensor *const *made)
{
    rp_fates *w   = &tape->fates;
    tape_call *c  = p->c;
    rp_op_meta *m = &c->meta;

    for (int i = 0; i < m->n_in; i++) {
        read_value(tape, c, i, in[i]);
        rp__fates_add_read(w, c->in[i].value);
    }
    for (int i = 0; i < n_made(c); i++) make_value(tape, p, i, made[i]);
    for (int i = 0; i < m->n_in; i++)
        if (m->needs & RP_IN(i)) rp__fates_add_need(w, c->in[i].value);
    for (int i = 0; i < n_made(c); i++)
        if (m->needs & rp__op_made_bit(m, i)) rp__fates_add_need(w, made[i]->value);
}

/* Record a call that has run. Errors: those of offloading. */
static rp_status record(rp_tape *tape, pending_call *p, rp_tensor *const *in, rp_tensor *const *made)
{
    rp_fates *w  = &tape->fates;
    tape_call *c = p->c;

    c->at             = rp__fates_add_call(w, tape->open, p->alone, c->path);
    tape->call[c->at] = c;
    add_values(tape, p, in, made);
    rp_status status = hold_all(tape, c, in, made);
    if (!p->alone || tape->open != NONE) return status;
    rp_status listed = rp__fates_list_single(w, w->call[c->at].region);
    return status == RP_OK ? listed : status;
}

static rp_status reserve(rp_tape *tape, tape_call **c)
{
    rp_ctx *ctx = tape->ctx;
    rp_fates *w = &tape->fates;

    RP_TRY(RP_GROW(ctx, tape->value, tape->room_value, w->n_value + RP_MAX_IN + MOST_MADE));
    RP_TRY(RP_GROW(ctx, tape->call, tape->room_call, w->n_call + 1));
    RP_TRY(rp__fates_reserve(w, 1, RP_MAX_IN + MOST_MADE, 1, RP_FATES_LISTED));
    *c = rp__host_alloc(ctx, sizeof **c);
    return *c ? RP_OK : RP_ERR_MEMORY;
}

/* Once for each op, as long as there is room. */
static void log_host_op(rp_tape_ctx *t, const rp_op_meta *m)
{
    for (int i = 0; i < t->n_host_ops; i++)
        if (t->host_op[i] == m->op) return;
    if (t->n_host_ops == RP_COUNT(t->host_op)) return;
    t->host_op[t->n_host_ops++] = m->op;
    rp__log(m->ctx, RP_LOG_WARNING, "the device '%s' has no kernels for the op '%s' on %s, so the host computes it", m->ctx->device[0]->name, m->op->name,
            m->n_in ? rp_meta_str(&m->in[0]) : "nothing");
}

static void count_forward(rp_tape *tape, const rp_op_meta *m)
{
    rp__op_add_flops(&tape->stats.step_flops, m, RP_FORWARD);
    tape->stats.n_calls++;
    if (!rp__op_falls_back(m)) return;
    tape->stats.host_fallback_ops++;
    log_host_op(rp__tape_ctx(tape->ctx), m);
}

static rp_status take_prints(rp_tape *tape, pending_call *p, rp_tensor *const *made)
{
    if (!p->recorded || (!p->alone && tape->open == NONE) || !rp__verify_wanted(tape)) return RP_OK;
    for (int i = 0; i < n_made(p->c); i++) RP_TRY(rp__print_take(tape->ctx, made[i], &p->print[i]));
    return RP_OK;
}

static void give_up(pending_call *p, rp_tensor **made)
{
    for (int i = 0; i < MOST_MADE; i++) {
        rp__release(p->print[i]);
        rp_tensor_unref(made[i]);
    }
    rp__release(p->c);
}

static rp_status record_run(rp_tape *tape, pending_call *p, const void *attr, rp_tensor *const *in, int n_in, const rp_op *op, rp_tensor **made)
{
    bool wants[RP_MAX_IN] = { 0 };
    tape_call *c          = p->c;

    for (int i = 0; i < n_in && i < RP_MAX_IN; i++) wants[i] = !rp__tape_ctx(tape->ctx)->no_grad && in[i] && wants_grad(tape, in[i]);
    if (attr) memcpy(c->attr, attr, op->attr_size);
    RP_TRY(rp__op_prepare(tape->ctx, op, attr ? c->attr : NULL, in, n_in, !rp__tape_ctx(tape->ctx)->eval, wants, &c->meta));
    p->recorded = rp__tape_records(tape->ctx, &c->meta);
    c->stream   = stream_of(tape, op);
    c->path     = rp__tape_path(tape);
    if (!c->meta.want_grad) c->meta.needs = 0;
    if (p->recorded) RP_TRY(rp__tape_decide(tape, &c->meta, p->verdict, &p->alone));
    rp_tape_work before = rp__tape_work(tape, RP_TAPE_FORWARD, c, tape->fates.n_call);
    rp_status status    = rp__op_forward(&c->meta, c->stream, false, in, made, made + c->meta.n_out);
    tape->now           = before;
    return status == RP_OK ? take_prints(tape, p, made) : status;
}

rp_status rp__apply(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out)
{
    rp_tape *tape = rp__tape(ctx);
    rp_tensor *made[MOST_MADE] = { 0 };
    pending_call p             = { 0 };

    if (!tape) return RP_ERR_MEMORY;
    RP_TRY(rp__regions_planned_here(tape));
    RP_TRY(reserve(tape, &p.c));
    rp_tape_mark before = rp__tape_mark(ctx);
    rp_status status    = record_run(tape, &p, attr, in, n_in, op, made);
    if (status != RP_OK) {
        give_up(&p, made);
        return status;
    }
    int n_out = p.c->meta.n_out;
    count_forward(tape, &p.c->meta);
    if (p.recorded) status = record(tape, &p, in, made);
    else rp__release(p.c);
    if (status == RP_OK && (op->flags & RP_OP_RANDOM)) rp__tape_scope(tape)->n_random++;      /* a call that failed has drawn nothing */
    if (status == RP_OK) memcpy(out, made, (size_t)n_out * sizeof *out);
    for (int i = status == RP_OK ? n_out : 0; i < MOST_MADE; i++) rp_tensor_unref(made[i]);
    if (status != RP_OK) rp__tape_rewind(ctx, before);
    return status;
}
