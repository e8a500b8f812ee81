/* plan/plan_modes.c -- marks of calls and regions, as each mode sets them. */
#include "plan/plan_modes.h"

#include <math.h>
#include <string.h>

#include "policy/modes.h"

enum { NONE = -1 };

/* ---- blocks ---- */

static bool gathers(const rp_trace_call *c) { return c->meta.op->flags & RP_OP_COLLECTIVE; }

/* Stretches of calls of one layer. Returns how many. */
static int list_layers(const rp_trace_pass *pass, rp_stretch *out)
{
    int64_t layer, here;
    int n = 0;

    for (int first = 0, end; first < pass->n_calls; first = end) {
        bool is = rp_path_layer(pass->call[first].path, &layer);
        for (end = first + 1; end < pass->n_calls && rp_path_layer(pass->call[end].path, &here) == is && (!is || here == layer);) end++;
        int from = first;
        while (from < end && gathers(&pass->call[from])) from++;
        if (is && from < end) out[n++] = (rp_stretch){ from, end, NULL };
    }
    return n;
}

static int list_segments(const rp_cut_pass *cut, rp_stretch *out)
{
    for (int s = 0; s + 1 < cut->chain.n; s++) out[s] = (rp_stretch){ cut->first[s], cut->first[s + 1], NULL };
    return cut->chain.n - 1;
}

/* ---- regions ---- */

static rp_status add_region(rp_plan *plan, rp_plan_pass *to, int first, int end)
{
    rp_stretch *r = &to->region[to->n_regions++];

    *r      = (rp_stretch){ first, end, NULL };
    r->path = rp__plan_region_name(plan, to, r);
    return r->path ? RP_OK : RP_ERR_MEMORY;
}

/* Every k-th block, or all of them, `together` to a region. */
static rp_status add_regions(rp_plan *plan, rp_plan_pass *to, const rp_stretch *block, int n, int every, int together)
{
    for (int i = every - 1; i < n; i += every > 1 ? every : together) {
        int last = every > 1 ? i : i + together < n ? i + together - 1 : n - 1;
        RP_TRY(add_region(plan, to, block[i].first, block[last].end));
    }
    return RP_OK;
}

/* What the ops of the list make in a block. */
static void keep_ops(const rp_trace_pass *pass, rp_plan_pass *to)
{
    for (int r = 0; r < to->n_regions; r++)
        for (int c = to->region[r].first; c < to->region[r].end; c++) to->call[c].kept = rp__mode_saves(pass->call[c].meta.op->name);
}

static rp_status mark(rp_plan *plan, const rp_plan_problem *problem, int mode, rp_stretch *block, bool *has)
{
    const rp_trace_pass *pass = &problem->trace->pass[0];
    rp_plan_pass *to          = &plan->pass[0];
    int n = list_layers(pass, block), every = mode >= RP_PLAN_EVERY_2ND && mode <= RP_PLAN_EVERY_8TH ? mode - RP_PLAN_FULL + 1 : 1;

    if (!n) n = list_segments(&problem->pass[0], block);
    *has = n >= every;
    if (!*has) return RP_OK;
    to->region = rp__bump_alloc(&plan->bump, n * (int64_t)sizeof *to->region);
    if (!to->region) return RP_ERR_MEMORY;
    RP_TRY(add_regions(plan, to, block, n, every, mode == RP_PLAN_ROOT ? (int)ceil(sqrt(n)) : 1));
    if (mode == RP_PLAN_SELECTIVE_OP) keep_ops(pass, to);
    return RP_OK;
}

/* ---- what it takes ---- */

typedef struct {
    const rp_trace_pass *pass;
    const rp_plan_pass *to;
    int *region;                        /* of each call; NONE */
    bool *gone, *held, *needed;         /* of each value: a replay makes it · it is there at the turn · its region's backward reads it */
} reckoning;

static bool goes(const reckoning *k, int call, int value)
{
    const rp_trace_value *v = &k->pass->value[value];

    if (v->must) return v->fate == RP_RECOMPUTE;
    return k->region[call] != NONE && !k->to->call[call].kept && k->pass->call[call].replays;
}

static void find_gone(reckoning *k)
{
    for (int c = 0, r = 0; c < k->pass->n_calls; c++) {
        while (r < k->to->n_regions && k->to->region[r].end <= c) r++;
        k->region[c] = r < k->to->n_regions && k->to->region[r].first <= c ? r : NONE;
        for (int i = 0; i < k->pass->call[c].n_made; i++) k->gone[k->pass->call[c].made[i]] = goes(k, c, k->pass->call[c].made[i]);
    }
}

/* Somebody outside of its region reads it, as a backward or to run again: then it is there, unless a rule has it made again for whoever reads it. */
static void hold(reckoning *k, int value, int reader)
{
    const rp_trace_value *v = &k->pass->value[value];
    bool made_again         = v->must && v->fate == RP_RECOMPUTE;

    if (v->call == NONE || made_again || (k->gone[value] && k->region[v->call] == k->region[reader])) return;
    k->gone[value] = false;
    k->held[value] = true;
}

static void hold_needed(reckoning *k)
{
    for (int c = 0; c < k->pass->n_calls - 1; c++)      /* the last call's backward comes at once */
        for (int i = 0; i < k->pass->call[c].n_needs; i++) hold(k, k->pass->call[c].needs[i], c);
}

static bool runs_again(const reckoning *k, const rp_trace_call *c)
{
    for (int i = 0; i < c->n_made; i++)
        if (k->needed[c->made[i]] && k->gone[c->made[i]]) return true;
    return false;
}

/* Upwards from what the region's own backward reads. */
static double region_seconds(reckoning *k, const rp_stretch *r)
{
    double seconds = 0;

    memset(k->needed, 0, (size_t)k->pass->n_values);
    for (int c = r->first; c < r->end; c++)
        for (int i = 0; i < k->pass->call[c].n_needs; i++) k->needed[k->pass->call[c].needs[i]] = true;
    for (int c = r->end - 1; c >= r->first; c--) {
        const rp_trace_call *call = &k->pass->call[c];
        if (!runs_again(k, call)) continue;
        seconds += call->again;
        for (int i = 0; i < call->n_in; i++) {
            k->needed[call->in[i]] = true;
            hold(k, call->in[i], c);
        }
    }
    return seconds;
}

static int64_t bytes_at_turn(const reckoning *k)
{
    int64_t bytes = k->pass->turn;

    for (int v = 0; v < k->pass->n_values; v++) {
        bool away = k->pass->value[v].must && k->pass->value[v].fate == RP_OFFLOAD;
        if (k->held[v] && !away) bytes += k->pass->value[v].bytes;
    }
    return bytes;
}

/* The last region first: what it reads from one before it is not gone there. */
static rp_status reckon_pass(rp_bump *bump, const rp_trace_pass *pass, const rp_plan_pass *to, rp_plan_facts *facts)
{
    reckoning k    = { .pass = pass, .to = to };
    double seconds = 0;

    k.region = rp__bump_alloc(bump, (pass->n_calls + 1) * (int64_t)sizeof *k.region);
    k.gone   = rp__bump_alloc(bump, 3 * (pass->n_values + 1));
    if (!k.region || !k.gone) return RP_ERR_MEMORY;
    k.held   = k.gone + pass->n_values;
    k.needed = k.held + pass->n_values;
    find_gone(&k);
    hold_needed(&k);
    for (int r = to->n_regions - 1; r >= 0; r--) seconds += region_seconds(&k, &to->region[r]);
    facts->again_seconds += seconds * pass->n_passes;
    int64_t bytes = bytes_at_turn(&k);
    if (bytes > facts->bytes) facts->bytes = bytes;
    return RP_OK;
}

static rp_status reckon(rp_plan *plan, const rp_trace *trace)
{
    rp_bump bump     = { .ctx = plan->bump.ctx };
    rp_status status = RP_OK;

    for (int i = 0; i < plan->n_passes && status == RP_OK; i++) status = reckon_pass(&bump, &trace->pass[i], &plan->pass[i], &plan->facts);
    rp__bump_free(&bump);
    return status;
}

/* ---- a mode ---- */

static rp_status make_mode(rp_plan *plan, const rp_plan_problem *problem, int mode, bool *has)
{
    rp_bump bump = { .ctx = plan->bump.ctx };

    *has = true;
    if (mode != RP_PLAN_NONE) {
        rp_stretch *block = rp__bump_alloc(&bump, (problem->trace->pass[0].n_calls + 1) * (int64_t)sizeof *block);
        rp_status status  = block ? mark(plan, problem, mode, block, has) : RP_ERR_MEMORY;
        rp__bump_free(&bump);
        RP_TRY(status);
    }
    return *has ? reckon(plan, problem->trace) : RP_OK;
}

rp_status rp__plan_mode(rp_ctx *ctx, const rp_plan_problem *problem, int mode, rp_plan **out)
{
    int n = problem->trace->n_passes;
    bool has;

    *out = NULL;
    if (n < 1 || (n > 1 && mode != RP_PLAN_NONE)) return RP_OK;
    RP_TRY(rp__plan_bare(ctx, problem, out));
    rp_status status = make_mode(*out, problem, mode, &has);
    if (status == RP_OK && has) return RP_OK;
    rp__plan_free(*out);
    *out = NULL;
    return status;
}
