/* tape/record.c -- what happens when an op is called: it is prepared, its fates are asked for, it runs, it is entered.
 *
 * All memory for the entry is there before the op runs, so that only the writing of an offloaded slot can fail afterwards; then the call
 * is taken back.
 */
#include "tape/inside.h"

#include <string.h>

static tape_value *value_new(rp_tape *tape, rp_tensor *t)
{
    tape_value *v = &tape->value[tape->n_value];

    *v = (tape_value){ .serial = rp__tape_next_id(), .producer = NONE, .region = NONE, .away = NONE, .m = t->m, .version = t->storage->version,
                       .touched = tape->works };
    t->tape_id = v->serial;
    t->value   = tape->n_value++;
    return v;
}

/* A leaf that collects a gradient stays until the tape is reset; a constant is held for those who read it later. A frozen parameter costs
 * nothing to hold, and where memory may get short its readers can then run again. */
static int leaf_value(rp_tape *tape, rp_tensor *t)
{
    tape_value *v = value_new(tape, t);
    bool frozen   = t->storage->mem_class == RP_MEM_PARAM && tape->ctx->options.memory_limit_bytes;

    if (!t->requires_grad) {
        if (frozen) rp__value_hold(v, t);
        return t->value;
    }
    v->held       = rp_tensor_ref(t);
    v->wants_grad = v->promised = true;
    v->uses       = 1;
    return t->value;
}

static bool wants_grad(const rp_tape *tape, rp_tensor *t)
{
    const rp_tensor *w = rp__tensor_whole(t);

    return rp__tensor_on_tape(tape, w) ? tape->value[w->value].wants_grad : w->requires_grad;
}

/* A constant that was written since the tape saw it is another constant: a buffer may be used again once nobody needs what it held. */
static bool same_value(const rp_tape *tape, const rp_tensor *w)
{
    if (!rp__tensor_on_tape(tape, w)) return false;
    const tape_value *v = &tape->value[w->value];
    return v->producer != NONE || v->wants_grad || v->version == w->storage->version;
}

static tape_input input_of(rp_tape *tape, rp_tensor *t)
{
    rp_tensor *w  = rp__tensor_whole(t);
    tape_input in = { .whole = t == w, .m = t->m, .start = t->start };

    memcpy(in.stride, t->stride, sizeof in.stride);
    in.value = same_value(tape, w) ? w->value : leaf_value(tape, w);
    return in;
}

/* What a forward changes in train mode, it does not read, and what it held before is nobody's. */
static bool is_written(const tape_call *c, int i) { return c->meta.train && (c->meta.op->writes_in >> i & 1); }

enum { VIEW_REFS = 2 };             /* a view has a share of the tensor and one of the storage */

rp_status rp__input_open(rp_tape *tape, const tape_call *call, int i, rp_tensor **out)
{
    const tape_input *in = &call->in[i];
    tape_value *v        = &tape->value[in->value];

    RP_BUG_IF(!v->held);
    if (!is_written(call, i)) RP_TRY(rp__value_check(tape, v, call));
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

bool rp__value_replayed_for(const rp_tape *tape, const tape_value *v, const tape_call *c)
{
    int top = rp__region_outermost(tape, c->region);

    if (v->producer == NONE || v->fate != RP_RECOMPUTE) return false;
    return v->on_demand || (top != NONE && rp__region_within(tape, v->region, top));
}

/* What the call needs later is held now, unless a replay makes it. What a region reads from outside is held without a promise until
 * the outermost one closes and it is known whether its replay reads it. */
static rp_status hold_for(rp_tape *tape, tape_call *c, int value, rp_tensor *whole, bool backward_reads)
{
    tape_value *v = &tape->value[value];

    if (backward_reads) v->uses++;
    if (rp__value_replayed_for(tape, v, c)) return RP_OK;
    if (backward_reads) v->promised = true;
    if (backward_reads || c->region != NONE) rp__value_hold(v, whole);
    return backward_reads ? rp__value_offload(tape, v) : RP_OK;
}

static rp_status hold_all(rp_tape *tape, tape_call *c, rp_tensor *const *in, rp_tensor **out, rp_tensor **slot)
{
    uint32_t needs   = c->meta.needs;
    rp_status status = RP_OK, first = RP_OK;

    for (int i = 0; i < c->meta.n_in; i++) {
        status = hold_for(tape, c, c->in[i].value, rp__tensor_whole(in[i]), needs & RP_IN(i));
        if (first == RP_OK) first = status;
    }
    for (int i = 0; i < c->meta.n_out + c->meta.n_slot; i++) {
        bool made_slot = i >= c->meta.n_out;
        int at         = made_slot ? i - c->meta.n_out : i;
        if (!(needs & (made_slot ? RP_SLOT(at) : RP_OUT(at)))) continue;
        status = hold_for(tape, c, made_slot ? c->slot[at] : c->out[at], made_slot ? slot[at] : out[at], true);
        if (first == RP_OK) first = status;
    }
    return first;
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

/* ---- fates ---- */

/* Outside modules a region's name says more than nothing, unless a plan has made it. Streams know only modules: a region changes no mask. */
static const char *path_here(rp_tape *tape)
{
    const char *path = scope_of(tape)->path;
    bool named       = tape->open != NONE && !tape->region[tape->open].planned;

    return *path || !named ? path : tape->region[tape->open].path;
}

static rp_status ask(rp_tape *tape, const rp_op_meta *m, rp_verdict *verdict)
{
    rp_scope here = *scope_of(tape);

    here.path = path_here(tape);
    for (int i = 0; i < MOST_MADE; i++) verdict[i] = (rp_verdict){ .fate = RP_NO_FATE };
    if (tape->decider.decide) RP_TRY(tape->decider.decide(tape->decider.self, tape->n_call, m, &here, verdict));
    if (tape->planner.fate) RP_TRY(tape->planner.fate(tape->planner.self, tape->n_call, m, &here, verdict));
    for (int i = 0; i < m->n_out + m->n_slot; i++)
        if (verdict[i].fate == RP_OFFLOAD && !tape->ctx->away) {
            RP_CHECK(tape->ctx, !verdict[i].must, RP_ERR_STATE, "%s: slot of %s of '%s' is to be offloaded, but no place for that is set",
                     verdict[i].by ? verdict[i].by : "a policy", m->op->name, here.path);
            verdict[i].fate = RP_KEEP;
        }
    return RP_OK;
}

static bool any_alone(const rp_tape *tape, const rp_op_meta *m, const rp_verdict *verdict)
{
    for (int i = 0; i < m->n_out + m->n_slot && rp__op_replays(m->op); i++)
        if (verdict[i].fate == RP_RECOMPUTE && (verdict[i].alone || tape->open == NONE)) return true;
    return false;
}

static void settle(const rp_tape *tape, const tape_call *c, tape_value *v, const rp_verdict *verdict)
{
    bool single = c->region != NONE && tape->region[c->region].single;
    int around  = single ? tape->region[c->region].parent : c->region;

    v->fate = verdict->fate;
    v->by   = verdict->by;
    if (v->fate == RP_NO_FATE) v->fate = around != NONE ? RP_RECOMPUTE : RP_KEEP;
    if (v->fate == RP_RECOMPUTE && !rp__op_replays(c->meta.op)) v->fate = RP_KEEP;
    v->on_demand      = v->fate == RP_RECOMPUTE && (single || (verdict->must && verdict->fate == RP_RECOMPUTE));
    v->allow_mutation = verdict->allow_mutation;
    v->must           = verdict->must;
}

/* ---- calls ---- */

/* What a call that is about to be recorded may need, so that recording it cannot run out of memory. */
typedef struct {
    tape_call *c;
    bool recorded;                  /* else none of the rest */
    bool alone;                     /* it gets a region of its own … */
    int *lists;                     /* … with these lists, where no other is around it */
    rp_verdict verdict[MOST_MADE];
    tape_print *print[MOST_MADE];
} pending_call;

static void make_value(rp_tape *tape, pending_call *p, int i, rp_tensor *t, int *out)
{
    tape_value *v = value_new(tape, t);

    v->producer   = tape->n_call - 1;
    v->region     = p->c->region;
    v->output     = i;
    v->wants_grad = p->c->meta.want_grad && i < p->c->meta.n_out && rp_meta_is_float(&t->m);
    settle(tape, p->c, v, &p->verdict[i]);
    v->print    = p->print[i];
    p->print[i] = NULL;
    *out        = t->value;
}

/* Enter a call that has run. errors RP_ERR_IO alone */
static rp_status record(rp_tape *tape, pending_call *p, rp_tensor *const *in, rp_tensor **out, rp_tensor **slot)
{
    tape_call *c = p->c;
    int n_out    = c->meta.n_out;

    tape->call[tape->n_call++] = c;
    if (p->alone) {
        tape->region[tape->n_region] = (tape_region){ .path = c->path, .parent = tape->open, .first = tape->n_call - 1, .end = tape->n_call,
                                                      .single = true };
        c->region = tape->n_region++;
    }
    for (int i = 0; i < c->meta.n_in; i++) {
        c->in[i]      = input_of(tape, in[i]);
        tape_value *v = &tape->value[c->in[i].value];
        c->changed    = c->changed || (!is_written(c, i) && in[i]->storage->version != v->version);
        v->readers++;
        if (c->meta.in_grad[i] && v->producer != NONE) tape->call[v->producer]->read_on = true;
        rp__value_touch(tape, v);
    }
    for (int i = 0; i < n_out; i++) make_value(tape, p, i, out[i], &c->out[i]);
    for (int i = 0; i < c->meta.n_slot; i++) make_value(tape, p, n_out + i, slot[i], &c->slot[i]);
    rp_status status = hold_all(tape, c, in, out, slot);
    if (!p->lists) return status;
    rp_status planned = rp__region_plan_single(tape, c->region, p->lists);
    return status == RP_OK ? planned : status;
}

static rp_status reserve(rp_tape *tape, tape_call **c)
{
    rp_ctx *ctx = tape->ctx;

    if (!rp__tape_grow(ctx, (void **)&tape->value, tape->n_value, &tape->room_value, RP_MAX_IN + MOST_MADE, sizeof *tape->value) ||
        !rp__tape_grow(ctx, (void **)&tape->call, tape->n_call, &tape->room_call, 1, sizeof *tape->call) ||
        !rp__tape_grow(ctx, (void **)&tape->region, tape->n_region, &tape->room_region, 1, sizeof *tape->region) ||
        !(*c = rp__host_alloc(ctx, sizeof **c)))
        return RP_ERR_MEMORY;
    return RP_OK;
}

static void count_forward(rp_tape *tape, const rp_op_meta *m)
{
    if (m->op->cost) tape->stats.step_flops += m->op->cost(m, RP_FORWARD).flops;
    tape->stats.n_calls++;
}

/* Before the call runs: who keeps what. */
static rp_status decide(rp_tape *tape, pending_call *p)
{
    if (!p->recorded) return RP_OK;
    RP_TRY(ask(tape, &p->c->meta, p->verdict));
    p->alone = any_alone(tape, &p->c->meta, p->verdict);
    if (!p->alone || tape->open != NONE) return RP_OK;
    p->lists = rp__host_alloc(tape->ctx, SINGLE_LISTS * (int64_t)sizeof *p->lists);
    return p->lists ? RP_OK : RP_ERR_MEMORY;
}

static rp_status take_prints(rp_tape *tape, pending_call *p, rp_tensor **out, rp_tensor **slot)
{
    const rp_op_meta *m = &p->c->meta;

    if (!p->recorded || (!p->lists && tape->open == NONE) || !rp__verify_wanted(tape)) return RP_OK;
    for (int i = 0; i < m->n_out + m->n_slot; i++)
        RP_TRY(rp__print_take(tape->ctx, i < m->n_out ? out[i] : slot[i - m->n_out], &p->print[i]));
    return RP_OK;
}

static void give_up(pending_call *p, rp_tensor **made, rp_tensor **slot)
{
    for (int i = 0; i < MOST_MADE; i++) rp__release(p->print[i]);
    for (int i = 0; i < RP_MAX_OUT; i++) rp_tensor_unref(made[i]);
    for (int i = 0; i < RP_MAX_SLOT; i++) rp_tensor_unref(slot[i]);
    rp__release(p->lists);
    rp__release(p->c);
}

static rp_status run(rp_tape *tape, pending_call *p, const void *attr, rp_tensor *const *in, int n_in, const rp_op *op, rp_tensor **made,
                     rp_tensor **slot)
{
    bool wants[RP_MAX_IN] = { 0 };
    tape_call *c          = p->c;

    for (int i = 0; i < n_in && i < RP_MAX_IN; i++) wants[i] = !tape->no_grad && in[i] && wants_grad(tape, in[i]);
    if (attr) memcpy(c->attr, attr, op->attr_size);
    RP_TRY(rp__op_prepare(tape->ctx, op, attr ? c->attr : NULL, in, n_in, !tape->ctx->eval, wants, &c->meta));
    p->recorded = rp__tape_records(tape->ctx, &c->meta);
    c->stream   = stream_of(tape, op);
    c->region   = tape->open;
    c->path     = path_here(tape);
    if (!c->meta.want_grad) c->meta.needs = 0;
    RP_TRY(decide(tape, p));
    rp_tape_work before = rp__tape_work(tape, RP_TAPE_FORWARD, c, tape->n_call);
    rp_status status    = rp__op_forward(&c->meta, c->stream, false, in, made, slot);
    tape->now           = before;
    return status == RP_OK ? take_prints(tape, p, made, slot) : status;
}

rp_status rp__apply(rp_ctx *ctx, const rp_op *op, const void *attr, rp_tensor *const *in, int n_in, rp_tensor **out)
{
    rp_tape *tape = rp__tape(ctx);
    rp_tensor *made[RP_MAX_OUT] = { 0 }, *slot[RP_MAX_SLOT] = { 0 };
    pending_call p = { 0 };

    if (!tape) return RP_ERR_MEMORY;
    RP_TRY(rp__regions_planned_here(tape));
    RP_TRY(reserve(tape, &p.c));
    rp_tape_mark before = rp__tape_mark(ctx);
    rp_status status    = run(tape, &p, attr, in, n_in, op, made, slot);
    if (status != RP_OK) {
        give_up(&p, made, slot);
        return status;
    }
    int n_out = p.c->meta.n_out;
    count_forward(tape, &p.c->meta);
    if (p.recorded) status = record(tape, &p, in, made, slot);
    else rp__release(p.c);
    if (status == RP_OK && (op->flags & RP_OP_RANDOM)) scope_of(tape)->n_random++;      /* a call that failed has drawn nothing */
    for (int i = 0; i < RP_MAX_SLOT; i++) rp_tensor_unref(slot[i]);
    if (status == RP_OK) memcpy(out, made, (size_t)n_out * sizeof *out);
    for (int i = 0; i < n_out && status != RP_OK; i++) rp_tensor_unref(made[i]);
    if (status != RP_OK) rp__tape_rewind(ctx, before);
    return status;
}
