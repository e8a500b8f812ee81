/* tape/tape.c -- creates and frees the tape, sets its options and answers queries about the record. */
#include "tape/internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

uint64_t rp__tape_next_id(void)
{
    static _Atomic uint64_t last;

    return atomic_fetch_add(&last, 1) + 1;
}

static void tape_free(rp_tape *tape)
{
    rp__tape_reset(tape->ctx);
    rp__mem_on_pressure(tape->ctx->space[0], NULL, NULL);
    RP_RELEASE(tape->value, tape->call);
    rp__fates_close(&tape->fates);
    rp__release(tape);
}

static void open_part(rp_ctx *ctx)
{
    const char *word = getenv("REPRISE_VERIFY");

    if (word && !strcmp(word, "on")) rp__tape_ctx(ctx)->verify_all = RP_VERIFY_ON;
    if (word && !strcmp(word, "off")) rp__tape_ctx(ctx)->verify_all = RP_VERIFY_OFF;
}

/* Free the tape first: offloaded values hold tickets of the offload place. */
static void close_part(rp_ctx *ctx)
{
    if (rp__tape_opened(ctx)) tape_free(rp__tape_opened(ctx));
    rp__offload_close(rp__tape_ctx(ctx)->offload);
}

const rp_ctx_part rp__part_tape = { .bytes = sizeof(rp_tape_ctx), .open = open_part, .close = close_part };

rp_tape *rp__tape(rp_ctx *ctx)
{
    rp_tape *tape = rp__tape_opened(ctx);

    if (tape) return tape;
    if (!(tape = rp__host_alloc(ctx, sizeof *tape))) return NULL;
    tape->ctx      = ctx;
    tape->fates    = (rp_fates){ .ctx = ctx, .act = &rp__tape_acts, .self = tape, .replaying = NONE, .coming = NONE };
    tape->id       = rp__tape_next_id();
    tape->open     = tape->alone = tape->passed = NONE;
    tape->root     = (rp_scope){ .path = "" };
    rp__tape_ctx(ctx)->tape = tape;
    if (ctx->options.memory_limit_bytes) rp__mem_on_pressure(ctx->space[0], rp__tape_relieve, tape);
    return tape;
}

void rp__tape_reset(rp_ctx *ctx)
{
    rp_tape *tape = rp__tape_opened(ctx);

    if (!tape) return;
    for (int i = 0; i < tape->fates.n_value; i++) rp__value_forget(tape, i);
    for (int i = 0; i < tape->fates.n_call; i++) rp__release(tape->call[i]);
    rp__fates_truncate(&tape->fates, 0, 0, 0);
    if (tape->n_outermost) tape->last_outermost = tape->n_outermost;
    tape->open = tape->fates.replaying = tape->alone = tape->passed = NONE;
    tape->n_outermost = tape->n_off = tape->n_planned = tape->n_ignored = 0;
    tape->deferred = false;
    tape->id       = rp__tape_next_id();
}

bool rp__tape_records(const rp_ctx *ctx, const rp_op_meta *call)
{
    const rp_tape_ctx *tape = rp__tape_ctx(ctx);

    return call->want_grad || (tape->records_frozen && !tape->no_grad);
}

void rp__tape_stats(rp_ctx *ctx, rp_tape_stats *out)
{
    rp_tape *tape = rp__tape_opened(ctx);

    *out = tape ? tape->stats : (rp_tape_stats){ 0 };
    if (tape) tape->stats = (rp_tape_stats){ 0 };
}

rp_tape_work rp__tape_now(const rp_ctx *ctx) { return rp__tape_opened(ctx) ? rp__tape_opened(ctx)->now : (rp_tape_work){ 0 }; }

rp_tape_work rp__tape_work(rp_tape *tape, rp_tape_phase phase, const tape_call *call, int at)
{
    rp_tape_work before = tape->now;

    tape->now                    = (rp_tape_work){ phase, call->path, &call->meta, at, ++tape->works, false };
    rp__ops_ctx(tape->ctx)->path = call->path;
    return before;
}

/* ---- the current record ---- */

int rp__tape_n_calls(const rp_ctx *ctx) { return rp__tape_opened(ctx) ? rp__tape_opened(ctx)->fates.n_call : 0; }
int rp__tape_n_values(const rp_ctx *ctx) { return rp__tape_opened(ctx) ? rp__tape_opened(ctx)->fates.n_value : 0; }

static bool any_reader(const rp_tape *tape, const tape_call *c)
{
    for (int i = 0; i < c->meta.n_out; i++)
        if (tape->value[rp__call_makes(tape, c)[i]].readers) return true;
    return false;
}

rp_tape_call rp__tape_call_at(const rp_ctx *ctx, int at)
{
    const rp_tape *tape   = rp__tape_opened(ctx);
    const rp_fates *w     = &tape->fates;
    const rp_fate_call *f = &w->call[at];
    const tape_call *c    = tape->call[at];
    rp_tape_call out = { .meta = &c->meta, .path = c->path, .n_needs = f->n_needs,
                         .runs_back = (c->read_on || !any_reader(tape, c)) && !rp__grad_carries(tape, c) };

    for (int i = 0; i < c->meta.n_in; i++) out.in[i] = c->in[i].value;
    memcpy(out.made, rp__fate_makes(w, f), (size_t)f->n_makes * sizeof *out.made);
    memcpy(out.needs, rp__fate_needs(w, f), (size_t)f->n_needs * sizeof *out.needs);
    return out;
}

rp_tape_value rp__tape_value_at(const rp_ctx *ctx, int value)
{
    const tape_value *v    = &rp__tape_opened(ctx)->value[value];
    const rp_fate_value *f = rp__fate(rp__tape_opened(ctx), value);
    const rp_tensor *t     = v->held;
    bool shared            = t && (t->refs > 1 || t->storage->refs > 1), alone = t && !shared && (f->call != NONE || !v->wants_grad);

    return (rp_tape_value){ .meta = v->m, .producer = f->call, .fate = (rp_fate)f->fate, .must = v->must, .held = t, .shared = shared,
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

/* Did the forward promise the value, and has it been dropped since? */
static bool was_dropped(const rp_tape *tape, const rp_fate_value *f)
{
    return f->promised && rp__fate_gone(f) && tape->fates.call[f->call].alone;
}

static void show_slot(const rp_tape *tape, int value, rp_tape_slot *out)
{
    const tape_value *v          = &tape->value[value];
    const rp_fate_value *f       = rp__fate(tape, value);
    const rp_fate_region *region = f->region == NONE ? NULL : &tape->fates.region[f->region];
    const tape_call *c           = tape->call[f->call];
    bool by_product = v->output >= c->meta.n_out, dropped = was_dropped(tape, f), kept = f->fate == RP_RECOMPUTE && f->promised && !dropped;

    *out = (rp_tape_slot){
        .path = c->path, .op = c->meta.op->name, .by = dropped ? "memory limit" : v->by, .call = &c->meta, .at = c->at,
        .nth = count_before(tape, c->at), .by_product = by_product, .output = by_product ? v->output - c->meta.n_out : v->output,
        .saved = !rp__fate_gone(f), .offload = f->offloaded && !f->here, .overruled = kept,
        .fate = dropped ? RP_RECOMPUTE : kept ? RP_KEEP : (rp_fate)f->fate, .region = region && !region->single ? region->path : NULL, .meta = v->m,
    };
}

rp_status rp__tape_slots(rp_ctx *ctx, void (*visit)(void *user, const rp_tape_slot *slot), void *user)
{
    rp_tape *tape = rp__tape_opened(ctx);
    rp_tape_slot slot;

    if (!tape || !tape->fates.n_value) return RP_OK;
    const rp_fates *w = &tape->fates;
    int *reads        = rp__host_alloc(ctx, w->n_value * (int64_t)sizeof *reads);
    if (!reads) return RP_ERR_MEMORY;
    for (int at = 0; at < w->n_call; at++)
        for (int i = 0; i < w->call[at].n_needs; i++) reads[rp__fate_needs(w, &w->call[at])[i]]++;
    for (int i = 0; i < w->n_value; i++) {
        if (w->value[i].call == NONE || w->value[i].uses == 0) continue;
        show_slot(tape, i, &slot);
        slot.backward_reads = reads[i] > 0;
        visit(user, &slot);
    }
    rp__release(reads);
    return RP_OK;
}
