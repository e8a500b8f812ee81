/* train/measure.c -- runs the points of a sweep, each paired with a step of mode none, to measure the overhead of a budget.
 *
 *   warm up    none  P1  P2  P3 …                      one step each: touches pages, loads kernels, checks the bytes
 *   pair 1     none P1   P2 none   none P2 … Pn        each point is paired with a step of mode none; the order alternates
 *   pair 2     P1 none   none P2   …
 *
 * All points share one model, one pool and one process; switching to a point changes only how steps run. So drift (clock speed, other
 * processes, temperature) affects both steps of a pair, and their ratio is the overhead. The learning rate is 0: the update does all its
 * work, weights do not change, and both steps of a pair must give the same bits.
 */
#include "base/machine.h"
#include "policy/modes.h"
#include "recipe/recipe.h"
#include "rehearse/engine.h"
#include "train/internal.h"

enum { N_WAYS = RP_SWEEP_MODES + 1 };           /* one for each mode, and one for all budgets */

typedef struct {
    rp_ctx *ctx;
    rp_trainer *t;                              /* inputs and engine; writes no files */
    rp_recipe recipe[N_WAYS];
    rp_selection selection[N_WAYS];
    int n_ways;                                 /* selections that are open; the engine has a copy of one of them */
    rp_plan *const *steps;
    const rp_sweep_options *options;
    rp_sweep *out;
    double *ratio, *seconds;                    /* [n_points][pairs] */
    int64_t top;                                /* the highest end of a buffer in the running step */
} measuring;

/* ---- one step ---- */

static void measure_note(void *user, int64_t offset, int64_t bytes)
{
    measuring *m = user;

    if (offset + bytes > m->top) m->top = offset + bytes;
}

static void watch(void *user, const rp_mem_event *e)
{
    if (e->take) measure_note(user, e->offset, e->taken);
}

static void measure_choose(measuring *m, int i)
{
    rp_engine *e = &m->t->engine;
    int way      = i < RP_SWEEP_MODES ? i : RP_SWEEP_MODES;

    e->recipe    = &m->recipe[way];
    e->selection = m->selection[way];
    e->follow    = m->steps[i];
    rp__engine_regions(e);
}

static const char *point_name(const rp_sweep_point *p, char out[64])
{
    if (p->mode) snprintf(out, 64, "mode '%s'", p->mode);
    else snprintf(out, 64, "budget %" PRId64, p->budget);
    return out;
}

static rp_status check_bytes(const measuring *m, const rp_sweep_point *p, const rp_step_result *r)
{
    char name[64];

    RP_CHECK(m->ctx, m->top == p->reserved, RP_ERR_STATE, "a step of %s reserves %" PRId64 " bytes; planned were %" PRId64, point_name(p, name), m->top,
             p->reserved);
    RP_CHECK(m->ctx, r->memory.peak_bytes == p->peak, RP_ERR_STATE, "a step of %s peaks at %" PRId64 " bytes; planned were %" PRId64,
             point_name(p, name), r->memory.peak_bytes, p->peak);
    RP_CHECK(m->ctx, r->saved_bytes == p->saved, RP_ERR_STATE, "a step of %s saves %" PRId64 " bytes; planned were %" PRId64, point_name(p, name),
             r->saved_bytes, p->saved);
    return RP_OK;
}

static rp_status run_step(measuring *m, int i, int64_t batch, rp_step_result *out, double *seconds)
{
    rp_mem_space *space = m->ctx->space[0];

    measure_choose(m, i);
    m->top = 0;
    rp__mem_used(space, measure_note, m);
    rp__mem_observe(space, watch, m);
    double began     = rp__seconds();
    rp_status status = rp__engine_step(&m->t->engine, m->t->data, batch, 0, out);
    *seconds         = rp__seconds() - began;
    rp__mem_observe(space, NULL, NULL);
    m->out->n_steps++;
    return status == RP_OK ? check_bytes(m, &m->out->point[i], out) : status;
}

/* ---- pairs ---- */

static rp_status run_pair(measuring *m, int i, int k)
{
    int n         = m->options->pairs, first = (k + i) % 2;
    int64_t batch = k % m->t->info.data.steps_per_epoch;
    double seconds[2];
    rp_step_result r[2];                        /* [0]: mode none, [1]: the point */
    char name[64];

    RP_TRY(run_step(m, first ? i : 0, batch, &r[first], &seconds[first]));
    RP_TRY(run_step(m, first ? 0 : i, batch, &r[!first], &seconds[!first]));
    RP_CHECK(m->ctx, r[0].loss == r[1].loss && r[0].grad_norm == r[1].grad_norm, RP_ERR_STATE,
             "a step of %s has the loss %.17g and the norm %.17g; of mode 'none' %.17g and %.17g", point_name(&m->out->point[i], name), r[1].loss,
             r[1].grad_norm, r[0].loss, r[0].grad_norm);
    m->seconds[k]         = seconds[0];
    m->seconds[i * n + k] = seconds[1];
    m->ratio[i * n + k]   = seconds[1] / seconds[0];
    return RP_OK;
}

static rp_status run_all(measuring *m)
{
    double seconds;
    rp_step_result r;

    for (int i = 0; i < m->out->n_points; i++) RP_TRY(run_step(m, i, 0, &r, &seconds));
    double began = rp__seconds();
    for (int k = 0; k < m->options->pairs; k++) {
        for (int i = 1; i < m->out->n_points; i++) RP_TRY(run_pair(m, i, k));
        double each = (rp__seconds() - began) / (k + 1);
        if (m->options->measured) m->options->measured(m->options->user, k + 1, each * (m->options->pairs - k - 1));
    }
    return RP_OK;
}

static void sum_up(measuring *m)
{
    int n = m->options->pairs;

    m->out->pairs = n;
    for (int i = 0; i < m->out->n_points; i++) {
        rp_sweep_point *p = &m->out->point[i];
        p->step_seconds   = rp__median(m->seconds + i * n, n).median;
        if (i == 0) continue;
        p->overhead = rp__median(m->ratio + i * n, n);
        p->overhead.median -= 1;
        p->overhead.low -= 1;
        p->overhead.high -= 1;
    }
}

/* ---- before and after ---- */

static rp_status check_room(const measuring *m, int64_t *most)
{
    char need[RP_SIZE_CHARS], there[RP_SIZE_CHARS];
    int64_t left = rp__machine_memory();

    *most = 0;
    for (int i = 0; i < m->out->n_points; i++)
        if (m->out->point[i].reserved > *most) *most = m->out->point[i].reserved;
    RP_CHECK(m->ctx, *most <= left, RP_ERR_MEMORY, "the points of this sweep are paired with mode 'none' and need up to %s, but this machine has %s free",
             rp__size_text(need, *most), rp__size_text(there, left));
    return RP_OK;
}

static rp_status open_ways(measuring *m)
{
    m->selection[m->n_ways++] = m->t->engine.selection;
    for (int i = 1; i < N_WAYS; i++) RP_TRY(rp__recipe_selection(&m->recipe[i], m->ctx, &m->selection[m->n_ways++]));
    return RP_OK;
}

static rp_status open_run(measuring *m, rp_rehearsal *r)
{
    int64_t most, points = (int64_t)m->out->n_points * m->options->pairs;

    RP_TRY(check_room(m, &most));
    m->ratio   = rp__host_alloc(m->ctx, points * (int64_t)sizeof *m->ratio);
    m->seconds = rp__host_alloc(m->ctx, points * (int64_t)sizeof *m->seconds);
    m->t       = rp__host_alloc(m->ctx, sizeof *m->t);
    if (!m->ratio || !m->seconds || !m->t) return RP_ERR_MEMORY;
    *m->t = (rp_trainer){ .ctx = m->ctx, .recipe = &m->recipe[0], .texts = { .ctx = m->ctx }, .lock = -1 };
    for (int i = 0; i < N_WAYS; i++) m->recipe[i] = rp__sweep_recipe(r->recipe, i);
    RP_TRY(rp__inputs_open(m->t, &r->source.config));
    m->t->info.data = rp__data_info(m->t->data);
    RP_TRY(rp__trainer_stand(m->t, most, &r->source, true));
    return open_ways(m);
}

static void close_run(measuring *m)
{
    if (m->n_ways) m->t->engine.selection = m->selection[0];
    rp__trainer_free(m->t);
    for (int i = 1; i < m->n_ways; i++) rp__selection_close(&m->selection[i]);
    RP_RELEASE(m->ratio, m->seconds);
}

rp_status rp__sweep_measure(rp_rehearsal *r, rp_plan *const *steps, const rp_sweep_options *options, rp_sweep *out)
{
    measuring m      = { .ctx = r->caller, .steps = steps, .options = options, .out = out };
    rp_status status = open_run(&m, r);

    if (status == RP_OK) status = run_all(&m);
    if (status == RP_OK) sum_up(&m);
    close_run(&m);
    return status;
}
