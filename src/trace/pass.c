/* trace/pass.c -- copies the pass recorded on the tape into the trace: its calls and values. */
#include "ops/call.h"
#include "tensor/tensor.h"
#include "trace/internal.h"

#include <limits.h>
#include <string.h>

enum { NONE = -1 };

static uint64_t hash_call(const rp_tape_call *c, uint64_t hash)
{
    const rp_op_meta *m = c->meta;

    hash = rp__hash(m->op->name, strlen(m->op->name), hash);
    hash = rp__hash(c->path, strlen(c->path), hash);
    hash = rp__hash(c->in, (size_t)m->n_in * sizeof *c->in, hash);
    hash = rp__hash(c->made, (size_t)(m->n_out + m->n_slot) * sizeof *c->made, hash);
    hash = rp__hash(c->needs, (size_t)c->n_needs * sizeof *c->needs, hash);
    for (int i = 0; i < m->n_in; i++) hash = rp__meta_hash(&m->in[i], hash);
    for (int i = 0; i < m->n_out; i++) hash = rp__meta_hash(&m->out[i], hash);
    hash = rp__hash(&m->scratch_bytes, sizeof m->scratch_bytes, hash);
    return rp__hash(&m->scratch_backward_bytes, sizeof m->scratch_backward_bytes, hash);
}

static uint64_t hash_pass(const rp_trace_notes *notes)
{
    uint64_t hash = RP_HASH_START;

    for (int at = 0; at < rp__tape_n_calls(notes->ctx); at++) {
        rp_tape_call c = rp__tape_call_at(notes->ctx, at);
        hash           = hash_call(&c, hash);
        if (notes->at[at].offloadable) hash = rp__hash(&notes->at[at].offloadable, sizeof notes->at[at].offloadable, hash);
    }
    return hash;
}

static rp_status copy_call(const rp_trace_notes *notes, const rp_tape_call *from, rp_trace_call *to)
{
    rp_bump *bump = &notes->trace->bump;
    size_t attr   = from->meta->attr ? from->meta->op->attr_size : 0;

    *to      = (rp_trace_call){ .meta = *from->meta, .n_in = from->meta->n_in, .n_made = from->meta->n_out + from->meta->n_slot,
                                .n_needs = from->n_needs, .replays = rp__op_replays(from->meta->op) };
    to->path = rp__bump_text(bump, from->path, (int64_t)strlen(from->path));
    if (attr) {
        void *copy = rp__bump_alloc(bump, (int64_t)attr);
        if (!copy) return RP_ERR_MEMORY;
        to->meta.attr = memcpy(copy, from->meta->attr, attr);
    }
    memcpy(to->in, from->in, sizeof to->in);
    memcpy(to->made, from->made, sizeof to->made);
    memcpy(to->needs, from->needs, sizeof to->needs);
    to->run_bytes = rp__mem_rounded(from->meta->ctx, from->meta->scratch_bytes);
    for (int i = 0; i < to->n_made; i++) to->run_bytes += rp__mem_rounded(to->meta.ctx, rp_meta_bytes(rp__op_made(&to->meta, i)));
    to->forward  = rp__trace_seconds(notes, &to->meta, RP_FORWARD);
    to->backward = from->runs_back ? rp__trace_seconds(notes, &to->meta, RP_BACKWARD) : 0;
    return to->path ? RP_OK : RP_ERR_MEMORY;
}

static void copy_value(const rp_ctx *ctx, int i, rp_trace_value *to)
{
    rp_tape_value v = rp__tape_value_at(ctx, i);

    *to = (rp_trace_value){ .call = v.producer, .bytes = rp__mem_rounded(ctx, rp_meta_bytes(&v.meta)), .until = INT_MAX, .fate = v.fate, .must = v.must };
}

static rp_status copy_pass(const rp_trace_notes *notes, uint64_t hash, rp_trace_pass *to)
{
    rp_bump *bump = &notes->trace->bump;
    int n = rp__tape_n_calls(notes->ctx), n_values = rp__tape_n_values(notes->ctx);

    *to = (rp_trace_pass){ .hash = hash, .n_calls = n, .n_values = n_values, .bandwidth = notes->bandwidth,
                           .call = rp__bump_alloc(bump, (n + 1) * (int64_t)sizeof *to->call),
                           .value = rp__bump_alloc(bump, (n_values + 1) * (int64_t)sizeof *to->value) };
    if (!to->call || !to->value) return RP_ERR_MEMORY;
    for (int i = 0; i < n_values; i++) copy_value(notes->ctx, i, &to->value[i]);
    for (int at = 0; at < n; at++) {
        rp_tape_call c = rp__tape_call_at(notes->ctx, at);
        RP_TRY(copy_call(notes, &c, &to->call[at]));
        for (int i = 0; i < to->call[at].n_made; i++) {
            rp_trace_value *v = &to->value[c.made[i]];
            int until         = notes->at[at].until[i];
            v->nth            = i;
            if (until != NONE) v->until = until;
            v->own    = notes->at[at].own[i] == NONE ? v->until : notes->at[at].own[i];
            v->offloadable = notes->at[at].offloadable >> i & 1;
            bool offloaded = v->must && v->fate == RP_OFFLOAD && notes->bandwidth > 0;
            if (v->offloadable || offloaded) v->copy = rp__trace_copy_seconds(notes, rp__op_made(c.meta, i));
        }
    }
    return rp__trace_price(notes, to);
}

static int known_pass(const rp_trace *trace, uint64_t hash)
{
    for (int i = 0; i < trace->n_passes; i++)
        if (trace->pass[i].hash == hash) return i;
    return NONE;
}

static rp_status new_pass(const rp_trace_notes *notes, uint64_t hash)
{
    rp_trace *trace     = notes->trace;
    rp_trace_pass *list = rp__bump_alloc(&trace->bump, (trace->n_passes + 1) * (int64_t)sizeof *list);

    if (!list) return RP_ERR_MEMORY;
    if (trace->n_passes) memcpy(list, trace->pass, (size_t)trace->n_passes * sizeof *list);
    trace->pass = list;
    RP_TRY(copy_pass(notes, hash, &list[trace->n_passes]));
    trace->n_passes++;
    return RP_OK;
}

/* The list's room doubles at each power of two. */
static rp_status add_to_order(rp_trace *trace, int pass)
{
    int n = trace->n_order;

    if (!(n & (n - 1))) {
        int *order = rp__bump_alloc(&trace->bump, (n ? 2 * n : 1) * (int64_t)sizeof *order);
        if (!order) return RP_ERR_MEMORY;
        if (n) memcpy(order, trace->order, (size_t)n * sizeof *order);
        trace->order = order;
    }
    trace->order[trace->n_order++] = pass;
    return RP_OK;
}

rp_status rp__trace_add(const rp_trace_notes *notes, int *pass)
{
    uint64_t hash = hash_pass(notes);
    int known     = known_pass(notes->trace, hash);

    if (known == NONE) RP_TRY(new_pass(notes, hash));
    *pass = known == NONE ? notes->trace->n_passes - 1 : known;
    return add_to_order(notes->trace, *pass);
}

static bool reads(const int *list, int n, int value)
{
    for (int i = 0; i < n; i++)
        if (list[i] == value) return true;
    return false;
}

int rp__trace_first_reader(const rp_trace_pass *pass, int value)
{
    for (int at = 0; at < pass->n_calls; at++) {
        const rp_trace_call *c = &pass->call[at];
        if (reads(c->needs, c->n_needs, value) || (at < pass->n_calls - 1 && reads(c->in, c->n_in, value))) return at;
    }
    return NONE;
}

int rp__trace_first_need(const rp_trace_pass *pass, int value)
{
    for (int at = 0; at < pass->n_calls; at++)
        if (reads(pass->call[at].needs, pass->call[at].n_needs, value)) return at;
    return NONE;
}

void rp__trace_last_readers(const rp_trace_pass *pass, int *last)
{
    for (int v = 0; v < pass->n_values; v++) last[v] = pass->value[v].call;
    for (int at = 0; at < pass->n_calls; at++)
        for (int i = 0; i < pass->call[at].n_in; i++) last[pass->call[at].in[i]] = at;
}
