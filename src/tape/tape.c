/* tape/tape.c -- the tape's life, its settings, and what can be asked of it. */
#include "tape/inside.h"

#include <stdatomic.h>
#include <string.h>

uint64_t rp__tape_next_id(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

bool rp__tape_grow(rp_ctx *ctx, void **array, int n, int *room, int more, int64_t size)
{
    if (n + more <= *room) return true;
    int wanted  = (n + more) * 2 + 32;
    void *grown = rp__host_grow(ctx, *array, *room * size, wanted * size);
    if (!grown) return false;
    *array = grown;
    *room  = wanted;
    return true;
}

static void tape_free(rp_tape *tape)
{
    rp__tape_reset(tape->ctx);
    rp__mem_on_pressure(tape->ctx->space[0], NULL, NULL);
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
    tape->id       = rp__tape_next_id();
    tape->open     = tape->replaying = tape->alone = tape->passed = NONE;
    tape->root     = (rp_scope){ .path = "" };
    ctx->tape      = tape;
    ctx->tape_free = tape_free;
    if (ctx->options.memory_limit_bytes) rp__mem_on_pressure(ctx->space[0], rp__tape_relieve, tape);
    return tape;
}

rp_status rp__tape_open(rp_ctx *ctx) { return rp__tape(ctx) ? RP_OK : RP_ERR_MEMORY; }

void rp__tape_reset(rp_ctx *ctx)
{
    rp_tape *tape = ctx->tape;

    if (!tape) return;
    for (int i = 0; i < tape->n_value; i++) rp__value_forget(tape, &tape->value[i]);
    for (int i = 0; i < tape->n_call; i++) rp__release(tape->call[i]);
    for (int i = 0; i < tape->n_region; i++) rp__release(tape->region[i].run);
    if (tape->n_outermost) tape->last_outermost = tape->n_outermost;
    tape->n_value = tape->n_call = tape->n_region = tape->n_outermost = 0;
    tape->open = tape->replaying = tape->alone = tape->passed = NONE;
    tape->n_off = tape->n_planned = tape->n_ignored = 0;
    tape->deferred = false;
    tape->id       = rp__tape_next_id();
}

void rp__tape_on_grad(rp_ctx *ctx, rp_grad_hook hook, void *user)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return;
    tape->hook      = hook;
    tape->hook_user = user;
}

void rp__tape_on_replay(rp_ctx *ctx, rp_replay_hook hook, void *user)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return;
    tape->replay_hook = hook;
    tape->replay_user = user;
}

void rp__tape_on_backward(rp_ctx *ctx, rp_replay_hook hook, void *user)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return;
    tape->backward_hook = hook;
    tape->backward_user = user;
}

void rp__tape_decide_by(rp_ctx *ctx, const rp_decider *decider)
{
    rp_tape *tape = rp__tape(ctx);

    if (tape) tape->decider = decider ? *decider : (rp_decider){ 0 };
}

void rp__tape_plan_by(rp_ctx *ctx, const rp_planner *planner)
{
    rp_tape *tape = ctx->tape;

    RP_BUG_IF(!tape || tape->n_call);
    tape->planner = planner ? *planner : (rp_planner){ 0 };
}

bool rp__tape_is_planned(const rp_ctx *ctx) { return ctx->tape && ctx->tape->planner.fate; }

void rp__tape_verify(rp_ctx *ctx, rp_tape_verify verify)
{
    rp_tape *tape = rp__tape(ctx);

    if (tape) tape->verify = verify;
}

void rp__tape_carries(rp_ctx *ctx, bool carries)
{
    rp_tape *tape = rp__tape(ctx);

    if (tape) tape->carries = carries;
}

void rp__tape_wide_grads(rp_ctx *ctx, bool wide)
{
    rp_tape *tape = rp__tape(ctx);

    if (tape) tape->wide_grads = wide;
}

void rp__tape_record_frozen(rp_ctx *ctx, bool on)
{
    rp_tape *tape = rp__tape(ctx);

    if (tape) tape->records_frozen = on;
}

bool rp__tape_records(const rp_ctx *ctx, const rp_op_meta *call)
{
    return call->want_grad || (ctx->tape && ctx->tape->records_frozen && !ctx->tape->no_grad);
}

void rp__tape_stats(rp_ctx *ctx, rp_tape_stats *out)
{
    *out = ctx->tape ? ctx->tape->stats : (rp_tape_stats){ 0 };
    if (ctx->tape) ctx->tape->stats = (rp_tape_stats){ 0 };
}

bool rp__tape_replaying(const rp_ctx *ctx) { return ctx->tape && (ctx->tape->replaying != NONE || ctx->tape->alone != NONE); }

const char *rp__tape_region(const rp_ctx *ctx)
{
    const rp_tape *tape = ctx->tape;
    int region          = !tape ? NONE : tape->replaying != NONE ? tape->replaying : tape->open;

    if (tape && tape->alone != NONE) return tape->call[tape->alone]->path;
    return region == NONE ? NULL : tape->region[region].path;
}

rp_status rp__tape_no_grad(rp_ctx *ctx, bool no_grad)
{
    rp_tape *tape = rp__tape(ctx);

    if (!tape) return RP_ERR_MEMORY;
    tape->no_grad = no_grad;
    return RP_OK;
}

rp_tape_work rp__tape_now(const rp_ctx *ctx) { return ctx->tape ? ctx->tape->now : (rp_tape_work){ 0 }; }

rp_tape_work rp__tape_work(rp_tape *tape, rp_tape_phase phase, const tape_call *call, int at)
{
    rp_tape_work before = tape->now;

    tape->now       = (rp_tape_work){ phase, call->path, &call->meta, at, ++tape->works };
    tape->ctx->path = call->path;
    return before;
}

/* ---- calls and regions ---- */

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

int rp__call_makes(const tape_call *c, int *values)
{
    memcpy(values, c->out, (size_t)c->meta.n_out * sizeof *values);
    memcpy(values + c->meta.n_out, c->slot, (size_t)c->meta.n_slot * sizeof *values);
    return c->meta.n_out + c->meta.n_slot;
}

bool rp__region_within(const rp_tape *tape, int region, int outer)
{
    if (outer == NONE) return true;
    while (region != NONE && region != outer) region = tape->region[region].parent;
    return region == outer;
}

int rp__region_first_unplanned(const rp_tape *tape)
{
    for (int r = 0; r < tape->n_region; r++)
        if (tape->region[r].parent == NONE && tape->region[r].first < tape->region[r].end && !tape->region[r].run) return r;
    return rp__region_outermost(tape, tape->open);
}

int rp__region_outermost(const rp_tape *tape, int region)
{
    while (region != NONE && tape->region[region].parent != NONE) region = tape->region[region].parent;
    return region;
}

int rp__tape_n_calls(const rp_ctx *ctx) { return ctx->tape ? ctx->tape->n_call : 0; }
int rp__tape_n_values(const rp_ctx *ctx) { return ctx->tape ? ctx->tape->n_value : 0; }

static bool any_reader(const rp_tape *tape, const tape_call *c)
{
    for (int i = 0; i < c->meta.n_out; i++)
        if (tape->value[c->out[i]].readers) return true;
    return false;
}

rp_tape_call rp__tape_call_at(const rp_ctx *ctx, int at)
{
    const tape_call *c = ctx->tape->call[at];
    rp_tape_call out   = { .meta = &c->meta, .path = c->path, .runs_back = (c->read_on || !any_reader(ctx->tape, c)) && !rp__grad_carries(ctx->tape, c) };

    for (int i = 0; i < c->meta.n_in; i++) out.in[i] = c->in[i].value;
    rp__call_makes(c, out.made);
    out.n_needs = rp__call_needs(c, out.needs);
    return out;
}

rp_tape_value rp__tape_value_at(const rp_ctx *ctx, int value)
{
    const tape_value *v = &ctx->tape->value[value];
    const rp_tensor *t  = v->held;
    bool alone          = t && t->refs == 1 && t->storage->refs == 1 && (v->producer != NONE || !v->wants_grad);

    return (rp_tape_value){ .meta = v->m, .producer = v->producer, .fate = (rp_fate)v->fate, .must = v->must,
                            .offset = alone ? t->storage->offset : -1 };
}

/* ---- slots ---- */

static int count_before(const rp_tape *tape, int at)
{
    const tape_call *c = tape->call[at];
    int n              = 0;

    for (int i = 0; i < at; i++) n += tape->call[i]->meta.op == c->meta.op && !strcmp(tape->call[i]->path, c->path);
    return n;
}

/* Promised by the forward, and dropped since. */
static bool was_dropped(const rp_tape *tape, const tape_value *v)
{
    return v->promised && rp__value_gone(v) && tape->call[v->producer]->again;
}

static void show_slot(const rp_tape *tape, const tape_value *v, rp_tape_slot *out)
{
    const tape_call *c = tape->call[v->producer];
    bool by_product    = v->output >= c->meta.n_out, dropped = was_dropped(tape, v), kept = v->fate == RP_RECOMPUTE && v->promised && !dropped;

    *out = (rp_tape_slot){
        .path = c->path, .op = c->meta.op->name, .by = dropped ? "memory limit" : v->by, .call = &c->meta, .at = v->producer,
        .nth = count_before(tape, v->producer), .by_product = by_product, .output = by_product ? v->output - c->meta.n_out : v->output,
        .saved = v->held || v->away != NONE, .away = v->away != NONE && !v->held, .overruled = kept,
        .fate = dropped ? RP_RECOMPUTE : kept ? RP_KEEP : (rp_fate)v->fate,
        .region = v->region == NONE || tape->region[v->region].single ? NULL : tape->region[v->region].path, .meta = v->m,
    };
}

rp_status rp__tape_slots(rp_ctx *ctx, void (*visit)(void *user, const rp_tape_slot *slot), void *user)
{
    rp_tape *tape = ctx->tape;
    int needs[MOST_NEEDS];
    rp_tape_slot slot;

    if (!tape || !tape->n_value) return RP_OK;
    int *reads = rp__host_alloc(ctx, tape->n_value * (int64_t)sizeof *reads);
    if (!reads) return RP_ERR_MEMORY;
    for (int at = 0; at < tape->n_call; at++) {
        int n = rp__call_needs(tape->call[at], needs);
        for (int i = 0; i < n; i++) reads[needs[i]]++;
    }
    for (int i = 0; i < tape->n_value; i++) {
        if (tape->value[i].producer == NONE || tape->value[i].uses == 0) continue;
        show_slot(tape, &tape->value[i], &slot);
        slot.backward_reads = reads[i] > 0;
        visit(user, &slot);
    }
    rp__release(reads);
    return RP_OK;
}
