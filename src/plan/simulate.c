/* plan/simulate.c -- simulates a pass of a trace under a plan: see simulate.h. */
#include "fates/fates.h"
#include "ops/call.h"
#include "plan/simulate.h"

#include <limits.h>
#include <string.h>

enum { NONE = RP_FATES_NONE };

typedef struct {
    const rp_trace_pass *pass;
    const rp_plan_pass *plan;
    rp_fates fates;
    int open, n_opened;             /* open region of the plan · number of regions opened so far */
    int tick;                       /* position in the pass: one tick for each forward call, then one for each backward call */
    int *held_to;                   /* for each value: the last tick of the forward at which the record held it */
    int64_t *change;                /* for each tick of the forward: change of live bytes */
    int64_t *constants;             /* for each tick of the backward: bytes of constants that the trace counts as fixed */
    const rp_simulate_watch *watch; /* NULL: none */
    rp_simulated out;
} simulation;

/* ---- bytes ---- */

/* Update the peak: `bytes` on top of the fixed bytes before the tick's work, or at its maximum if `most`, for each kind of pass. In the
 * backward, the record counts constants itself. */
static void reach(simulation *p, bool most, int64_t bytes)
{
    bytes -= p->tick < p->pass->n_calls ? 0 : p->constants[p->tick - p->pass->n_calls];
    for (int k = 0; k < p->pass->n_fixed; k++) {
        const rp_trace_fixed *fixed = &p->pass->fixed[k][p->tick];
        int64_t all                 = (most ? fixed->most_unfetched : fixed->before_unfetched) + bytes;
        if (all > p->out.bytes) p->out.bytes = all;
    }
}

static void count_forward(simulation *p)
{
    const rp_trace_pass *pass = p->pass;
    int64_t live              = 0;

    for (int v = 0; v < pass->n_values; v++) {
        const rp_trace_value *value = &pass->value[v];
        if (value->call == NONE) continue;
        int held = p->fates.value[v].here ? pass->n_calls - 1 : p->held_to[v], to = value->own > held ? value->own : held;
        p->change[value->call] += value->bytes;
        if (to < pass->n_calls) p->change[(to > value->call ? to : value->call) + 1] -= value->bytes;
    }
    for (p->tick = 0; p->tick < pass->n_calls; p->tick++) {
        live += p->change[p->tick];
        reach(p, true, live);
    }
}

/* ---- functions for the record ---- */

static int backward_of(const simulation *p) { return 2 * p->pass->n_calls - 1 - p->tick; }

static rp_status simulate_run(void *self, int c, const rp_fate_take *take)
{
    simulation *p = self;

    (void)take;
    reach(p, false, p->fates.live + p->pass->call[c].run_bytes);
    p->out.recompute_seconds += p->pass->call[c].recompute;
    if (p->watch) p->watch->run(p->watch->user, backward_of(p), c);
    return RP_OK;
}

static rp_status fetch(void *self, int v)
{
    simulation *p = self;

    reach(p, false, p->fates.live + p->fates.value[v].bytes);
    if (p->watch) p->watch->fetch(p->watch->user, backward_of(p), v);
    return RP_OK;
}

static rp_status simulate_put(void *self, int v, bool *put)
{
    simulation *p = self;

    (void)put;
    p->out.offloaded_bytes += p->pass->value[v].bytes;
    p->out.copy_seconds += p->pass->value[v].copy;
    return RP_OK;
}

static void simulate_drop(void *self, int v)
{
    simulation *p = self;

    if (p->tick < p->pass->n_calls) p->held_to[v] = p->tick;
}

static const rp_fate_acts acts = { .run = simulate_run, .drop = simulate_drop, .put = simulate_put, .fetch = fetch };

/* ---- forward ---- */

static rp_status close_region(simulation *p)
{
    rp_fates *w = &p->fates;
    int closed  = p->open;

    p->open = w->region[closed].parent;
    if (p->open != NONE) return RP_OK;
    RP_TRY(rp__fates_list(w, closed));
    rp__fates_drop_unpromised(w, closed);
    return RP_OK;
}

static rp_status move_to(simulation *p, int at)
{
    rp_fates *w = &p->fates;

    while (p->open != NONE && w->region[p->open].end <= at) RP_TRY(close_region(p));
    for (; p->n_opened < p->plan->n_regions && p->plan->region[p->n_opened].first == at; p->n_opened++) {
        RP_TRY(rp__fates_reserve(w, 0, 0, 1, 0));
        w->region[w->n_region] = (rp_fate_region){ .parent = p->open, .first = at, .end = p->plan->region[p->n_opened].end };
        p->open                = w->n_region++;
    }
    return RP_OK;
}

static int decided(const simulation *p, int at, const rp_trace_value *v)
{
    return v->must ? (int)v->fate : (int)rp__plan_fate(&p->plan->call[at], v->offloadable);
}

static bool is_alone(const simulation *p, int at)
{
    const rp_trace_call *c = &p->pass->call[at];

    for (int i = 0; i < c->n_made; i++)
        if (rp__fate_is_single(decided(p, at, &p->pass->value[c->made[i]]), c->replays, p->plan->call[at].recompute, p->open != NONE)) return true;
    return false;
}

static void hold_for(rp_fates *w, int at, int value, bool backward)
{
    if (rp__fates_keeps(w, at, value, backward)) rp__fates_hold(w, value);
    if (backward) (void)rp__fates_offload(w, value);
}

static rp_status simulate_call(simulation *p, int at)
{
    const rp_trace_call *c = &p->pass->call[at];
    rp_fates *w            = &p->fates;
    uint32_t needs         = c->meta.needs;

    RP_TRY(move_to(p, at));
    p->tick = at;
    RP_TRY(rp__fates_reserve(w, 1, 0, 1, RP_FATES_LISTED));
    rp__fates_add_call(w, p->open, is_alone(p, at), c->path);
    for (int i = 0; i < c->n_in; i++) rp__fates_add_read(w, c->in[i]);
    for (int i = 0; i < c->n_made; i++) {
        const rp_trace_value *v = &p->pass->value[c->made[i]];
        rp__fates_add_made(w, c->made[i], decided(p, at, v), v->must, c->replays);
    }
    for (int i = 0; i < c->n_needs; i++) rp__fates_add_need(w, c->needs[i]);
    for (int i = 0; i < c->n_in; i++) hold_for(w, at, c->in[i], needs & RP_IN(i));
    for (int i = 0; i < c->n_made; i++)
        if (needs & rp__op_made_bit(&c->meta, i)) hold_for(w, at, c->made[i], true);
    return p->open == NONE && w->call[at].region != NONE ? rp__fates_list_single(w, w->call[at].region) : RP_OK;
}

static rp_status simulate_forward(simulation *p)
{
    for (int at = 0; at < p->pass->n_calls; at++) RP_TRY(simulate_call(p, at));
    return move_to(p, INT_MAX);
}

/* ---- backward ---- */

/* Bytes that the program holds until the end are always live. */
static void count_live(simulation *p)
{
    rp_fates *w = &p->fates;

    w->live = 0;
    for (int v = 0; v < w->n_value; v++) {
        const rp_trace_value *value = &p->pass->value[v];
        bool fixed                  = value->call == NONE ? !value->dropped : value->own == INT_MAX;
        w->value[v].bytes           = fixed ? 0 : value->bytes;
        w->live += value->call != NONE && fixed ? value->bytes : w->value[v].here ? w->value[v].bytes : 0;
        for (int t = p->pass->n_calls; t < value->dropped; t++) p->constants[t - p->pass->n_calls] += value->bytes;
    }
}

static rp_status simulate_backward(simulation *p)
{
    rp_fates *w = &p->fates;
    int n       = p->pass->n_calls;

    w->offloads = p->pass->bandwidth > 0;
    count_live(p);
    rp__fates_begin(w);
    for (int at = n - 1; at >= 0; at--) {
        p->tick = 2 * n - 1 - at;
        RP_TRY(rp__fates_make_needs(w, at));
        RP_TRY(rp__fates_prefetch(w, at));
        reach(p, true, w->live);
        rp__fates_passed(w, at);
    }
    return RP_OK;
}

/* ---- a pass ---- */

static rp_status open_record(simulation *p, rp_ctx *ctx)
{
    rp_fates *w = &p->fates;
    int n       = p->pass->n_values;

    *w           = (rp_fates){ .ctx = ctx, .act = &acts, .self = p, .replaying = NONE, .coming = NONE };
    p->change    = rp__host_alloc(ctx, (p->pass->n_calls + 2) * (int64_t)sizeof *p->change);
    p->held_to   = rp__host_alloc(ctx, (n + 1) * (int64_t)sizeof *p->held_to);
    p->constants = rp__host_alloc(ctx, (p->pass->n_calls + 1) * (int64_t)sizeof *p->constants);
    if (!p->change || !p->held_to || !p->constants) return RP_ERR_MEMORY;
    RP_TRY(rp__fates_reserve(w, p->pass->n_calls, n, 0, 0));
    for (int v = 0; v < n; v++) {
        bool leaf     = p->pass->value[v].call == NONE && !p->pass->value[v].dropped;
        w->value[v]   = (rp_fate_value){ .call = NONE, .region = NONE, .here = leaf, .promised = leaf, .collects = leaf };
        p->held_to[v] = p->pass->value[v].call;
    }
    w->n_value = n;
    return RP_OK;
}

rp_status rp__simulate_pass(rp_ctx *ctx, const rp_trace_pass *pass, const rp_plan_pass *plan, const rp_simulate_watch *watch,
                            rp_simulated *out)
{
    simulation p           = { .pass = pass, .plan = plan, .watch = watch, .open = NONE };
    rp_status status = open_record(&p, ctx);

    if (status == RP_OK) status = simulate_forward(&p);
    if (status == RP_OK) {
        count_forward(&p);
        status = simulate_backward(&p);
    }
    *out = p.out;
    rp__fates_close(&p.fates);
    RP_RELEASE(p.change, p.held_to, p.constants);
    return status;
}

rp_status rp__simulate(rp_plan *plan, const rp_trace *trace)
{
    plan->facts.bytes         = trace->outside;
    plan->facts.recompute_seconds = 0;
    for (int i = 0; i < plan->n_passes; i++) {
        rp_simulated one;
        RP_TRY(rp__simulate_pass(plan->bump.ctx, &trace->pass[i], &plan->pass[i], NULL, &one));
        plan->facts.recompute_seconds += one.recompute_seconds * trace->pass[i].n_passes;
        if (one.bytes > plan->facts.bytes) plan->facts.bytes = one.bytes;
    }
    return RP_OK;
}
