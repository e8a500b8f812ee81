/* trace/trace.c -- observes the ledger and the tape during a step in which everything that may be recomputed is.
 *
 * The tracer is the planner of that step. It makes the whole pass one region, so the tape keeps only values with must-rules. Then every
 * value that the forward frees was held by the program alone. Memory that backward takes, apart from the replay, is fixed.
 */
#include "base/list.h"
#include "tape/decide.h"
#include "tape/offload.h"
#include "trace/blocks.h"
#include "trace/internal.h"

#include <limits.h>
#include <string.h>

enum { NONE = -1, CONSTANT = -2, FETCHED = INT_MIN };      /* tags: CONSTANT - tick: not counted from that tick on; FETCHED: a fetched offloaded value */

struct rp_tracer {
    rp_ctx *ctx;
    const rp_cost_table *costs;
    rp_trace *trace;
    rp_blocks blocks; /* tag: call * RP_TRACE_MADE + nth of a value; NONE: fixed; or of a constant. Ignored: belongs to the replay caused by recording */
    int64_t live, fetched;                      /* fixed bytes now · of these, fetched offloaded values */
    bool lost;
    uint64_t serial;                            /* rp_tape_work.serial at the last event */
    int n_takes;                                /* takes so far in that work */
    int tick;                                   /* current tick of the pass; NONE: between passes */
    int pass, n_calls;                          /* the pass whose backward runs, and its calls; NONE: in a forward */
    rp_trace_tick *at;                          /* for each tick of the pass */
    int64_t *dropped;                              /* for each tick: bytes of constants that nothing reads from there on; owned by the trace */
    int room_ticks;
    int *shared;                                /* tags of existing values that others than the tape hold */
    int n_shared, room_shared;
    double bandwidth;                           /* of the place for offloaded values, bytes/s; 0: none */
    rp_stretch whole;
    int64_t most_outside;
};

/* ---- ticks ---- */

/* The tick's call has been recorded. Watch its values until they are freed or only the tape holds them. */
static bool watch_shared(rp_tracer *t)
{
    const rp_op_meta *m = t->tick >= 0 && t->tick < rp__tape_n_calls(t->ctx) ? rp__tape_call_at(t->ctx, t->tick).meta : NULL;
    int n = 0, made = m ? m->n_out + m->n_slot : 0;

    if (RP_GROW(t->ctx, t->shared, t->room_shared, t->n_shared + made) != RP_OK) return false;
    for (int i = 0; i < made; i++) t->shared[t->n_shared++] = t->tick * RP_TRACE_MADE + i;
    for (int i = 0; i < t->n_shared; i++) {
        int tag = t->shared[i], call = tag / RP_TRACE_MADE, nth = tag % RP_TRACE_MADE;
        rp_tape_value v = rp__tape_value_at(t->ctx, rp__tape_call_at(t->ctx, call).made[nth]);
        if (v.held && !v.shared) t->at[call].own[nth] = t->tick;
        else if (t->at[call].until[nth] == NONE) t->shared[n++] = tag;
    }
    t->n_shared = n;
    return true;
}

static bool reach(rp_tracer *t, int tick)
{
    if (RP_GROW(t->ctx, t->at, t->room_ticks, tick + 1) != RP_OK) return false;
    while (t->tick < tick) {
        if (t->n_calls == NONE && !watch_shared(t)) return false;
        t->tick++;
        if (t->n_calls != NONE && t->tick >= t->n_calls) t->live -= t->dropped[t->tick];
        t->at[t->tick].fixed = (rp_trace_fixed){ t->live, t->live, t->live - t->fetched, t->live - t->fetched };
        for (int i = 0; i < RP_TRACE_MADE; i++) t->at[t->tick].until[i] = t->at[t->tick].own[i] = NONE;
    }
    return true;
}

static int tick_of(const rp_tracer *t, const rp_tape_work *now)
{
    if (now->phase == RP_TAPE_FORWARD) return now->at;
    if (now->phase == RP_TAPE_OTHER) return t->tick;
    return t->n_calls == NONE ? t->tick : now->phase == RP_TAPE_BACKWARD ? 2 * t->n_calls - 1 - now->at : t->tick;
}

static int64_t more(int64_t a, int64_t b) { return a > b ? a : b; }

static void count(rp_tracer *t, int64_t bytes)
{
    t->live += bytes;
    if (t->tick == NONE) {
        if (t->live > t->most_outside) t->most_outside = t->live;
    } else {
        rp_trace_fixed *at = &t->at[t->tick].fixed;
        at->most           = more(at->most, t->live);
        at->most_unfetched = more(at->most_unfetched, t->live - t->fetched);
    }
}

static void trace_take(rp_tracer *t, const rp_mem_event *event, const rp_tape_work *now)
{
    bool forward = now->phase == RP_TAPE_FORWARD && rp__tape_records(t->ctx, now->call);
    rp_block b   = { event->offset, event->taken, NONE, now->phase == RP_TAPE_REPLAY };

    if (t->n_takes++ < (forward ? now->call->n_out + now->call->n_slot : 0)) b.tag = now->at * RP_TRACE_MADE + t->n_takes - 1;
    if (!b.bytes) return;
    t->lost = !rp__blocks_reserve(t->ctx, &t->blocks);
    if (t->lost) return;
    *rp__blocks_find(&t->blocks, event->offset) = b;
    t->blocks.n++;
    if (b.tag == NONE && !b.ignored && now->fetch) {
        t->fetched += b.bytes;
        rp__blocks_find(&t->blocks, event->offset)->tag = FETCHED;
    }
    if (b.tag == NONE && !b.ignored) count(t, b.bytes);
}

static void give(rp_tracer *t, const rp_mem_event *event)
{
    rp_block *b = event->bytes ? rp__blocks_find(&t->blocks, event->offset) : NULL;

    if (!b || !b->bytes) return;
    if (b->tag == FETCHED) t->fetched -= b->bytes;
    if ((b->tag == NONE && !b->ignored) || b->tag == FETCHED) count(t, -b->bytes);
    if (b->tag > NONE && t->tick != NONE && t->n_calls == NONE) t->at[b->tag / RP_TRACE_MADE].until[b->tag % RP_TRACE_MADE] = t->tick;
    rp__blocks_remove(&t->blocks, b);
}

static void observe(void *user, const rp_mem_event *event)
{
    rp_tracer *t     = user;
    rp_tape_work now = rp__tape_now(t->ctx);

    if (event->reclass || t->lost) return;
    if (now.serial != t->serial) t->n_takes = 0;
    t->serial = now.serial;
    if (now.phase != RP_TAPE_OTHER && !reach(t, tick_of(t, &now))) t->lost = true;
    if (t->lost) return;
    if (event->take) trace_take(t, event, &now);
    else give(t, event);
}

/* ---- a pass ---- */

/* Under a plan, a constant such as labels or positions is freed at the backward of its first reader, which may be rerun. In the recorded
 * step the whole pass is replayed at once, so the tape frees constants at other times. */
static rp_status let_constants_go(rp_tracer *t, rp_trace_pass *pass)
{
    t->dropped = rp__bump_alloc(&t->trace->bump, (2 * pass->n_calls + 1) * (int64_t)sizeof *t->dropped);
    if (!t->dropped) return RP_ERR_MEMORY;
    for (int i = 0; i < pass->n_values; i++) {
        rp_tape_value v = rp__tape_value_at(t->ctx, i);
        rp_block *b     = v.producer == NONE && v.offset >= 0 ? rp__blocks_find(&t->blocks, v.offset) : NULL;
        if (!b || !b->bytes || b->ignored || b->tag != NONE) continue;
        int reader = rp__trace_first_reader(pass, i), tick = reader == NONE ? pass->n_calls : 2 * pass->n_calls - reader;
        b->tag     = CONSTANT - tick;
        t->dropped[tick] += b->bytes;
        pass->value[i].dropped = tick;
    }
    return RP_OK;
}

/* The forward has ended and all its calls are known. */
static rp_status recorded(void *self)
{
    rp_tracer *t = self;

    if (t->lost || !reach(t, rp__tape_n_calls(t->ctx) - 1) || !watch_shared(t)) return RP_ERR_MEMORY;
    rp_trace_notes notes = { t->ctx, t->trace, t->costs, t->at, t->bandwidth };
    RP_TRY(rp__trace_add(&notes, &t->pass));
    rp_trace_pass *pass = &t->trace->pass[t->pass];
    pass->n_passes++;
    for (int at = 0; at < pass->n_calls; at++) {
        t->trace->seconds += pass->call[at].forward + pass->call[at].backward + pass->call[at].keep;
        t->trace->forward_seconds += pass->call[at].forward;
    }
    RP_TRY(let_constants_go(t, pass));
    t->n_calls = pass->n_calls;                 /* from here on constants are looked up by tick */
    return RP_OK;
}

static bool same_fixed(const rp_trace_fixed *a, const rp_trace_tick *at, int ticks)
{
    for (int i = 0; i < ticks; i++)
        if (memcmp(&a[i], &at[i].fixed, sizeof *a)) return false;
    return true;
}

static bool keep_fixed(rp_tracer *t)
{
    rp_trace_pass *pass = &t->trace->pass[t->pass];
    int ticks           = 2 * pass->n_calls;

    for (int i = 0; i < pass->n_fixed; i++)
        if (same_fixed(pass->fixed[i], t->at, ticks)) return true;
    rp_trace_fixed **list = rp__bump_alloc(&t->trace->bump, (pass->n_fixed + 1) * (int64_t)sizeof *list);
    rp_trace_fixed *new   = rp__bump_alloc(&t->trace->bump, (ticks + 1) * (int64_t)sizeof *new);
    if (!list || !new) return false;
    if (pass->n_fixed) memcpy(list, pass->fixed, (size_t)pass->n_fixed * sizeof *list);
    for (int i = 0; i < ticks; i++) new[i] = t->at[i].fixed;
    list[pass->n_fixed++] = new;
    pass->fixed           = list;
    return true;
}

/* Memory taken until the next call belongs to no pass. */
static void done(void *self)
{
    rp_tracer *t = self;

    if (t->n_calls != NONE && reach(t, 2 * t->n_calls - 1)) {
        t->live -= t->dropped[2 * t->n_calls];
        t->lost = t->lost || !keep_fixed(t);
    } else t->lost = t->lost || t->n_calls != NONE;
    t->tick = t->n_calls = t->pass = NONE;
    t->n_shared = 0;
    count(t, 0);
}

/* Values without a decision are left to the region, which recomputes them. A preference for offloading permits offloading. */
static rp_status leave_open(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    rp_tracer *t = self;

    (void)scope;
    RP_TRY(RP_GROW(t->ctx, t->at, t->room_ticks, at + 1));
    t->at[at].offloadable = 0;
    for (int i = 0; i < meta->n_out + meta->n_slot; i++) {
        if (verdict[i].must) continue;
        if (verdict[i].fate == RP_OFFLOAD && t->bandwidth > 0) t->at[at].offloadable |= UINT32_C(1) << i;
        verdict[i] = (rp_verdict){ .fate = RP_NO_FATE };
    }
    return RP_OK;
}

/* ---- begin and end ---- */

static void tracer_free(rp_tracer *t)
{
    RP_RELEASE(t->blocks.at, t->at, t->shared, t);
}

rp_status rp__trace_begin(rp_ctx *ctx, const rp_cost_table *costs, rp_tracer **out)
{
    rp_mem now;

    rp_tracer *t = rp__host_alloc(ctx, sizeof *t);
    if (!t) return RP_ERR_MEMORY;
    rp__mem_read(ctx->space[0], &now);
    *t = (rp_tracer){ .ctx = ctx, .costs = costs, .tick = NONE, .n_calls = NONE, .pass = NONE, .live = now.live_alloc_bytes,
                      .most_outside = now.live_alloc_bytes, .whole = { 0, INT_MAX, "the pass" } };
    if (!(t->trace = rp__host_alloc(ctx, sizeof *t->trace)) || !rp__blocks_reserve(ctx, &t->blocks)) {
        rp__release(t->trace);
        tracer_free(t);
        return RP_ERR_MEMORY;
    }
    t->trace->bump.ctx = ctx;
    t->bandwidth       = costs && rp__tape_ctx(ctx)->offload ? rp__cost_offload_bandwidth(costs, rp__offload_in_memory(rp__tape_ctx(ctx)->offload)) : 0;
    rp__tape_plan_by(ctx, &(rp_planner){ .fate = leave_open, .recorded = recorded, .done = done, .region = &t->whole, .n_regions = 1, .self = t });
    rp__mem_observe(ctx->space[0], observe, t);
    *out = t;
    return RP_OK;
}

rp_status rp__trace_end(rp_tracer *t, rp_trace *out)
{
    bool lost = t->lost;

    rp__mem_observe(t->ctx->space[0], NULL, NULL);
    rp__tape_plan_by(t->ctx, NULL);
    *out         = *t->trace;
    out->outside = t->most_outside;
    rp__release(t->trace);
    rp_ctx *ctx = t->ctx;
    tracer_free(t);
    RP_CHECK(ctx, !lost, RP_ERR_MEMORY, "no memory to record a step");
    return RP_OK;
}

void rp__trace_close(rp_trace *trace)
{
    rp__bump_free(&trace->bump);
    *trace = (rp_trace){ 0 };
}
