/* cost/measure.c -- measures the calls of calls.c, an optimizer update and the disk.
 *
 *   round   every call once: a warm-up run, then as many runs as fit its share of time; the median counts
 *   time    the smallest median of up to three rounds: other work on the machine makes a round slower, never faster
 *   pace    at the end, calls of all ops one after the other (pace.c)
 *
 * Each round also times an update, at a size that few caches can hold.
 */
#include "cost/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk_queue.h"
#include "kernels/kernels.h"
#include "tensor/tensor.h"

enum { LEAST_RUNS = 3, MOST_SECONDS = 55, TURNS = 15, UPDATE_ELEMS = 1 << 24, CODED_BYTES = UPDATE_ELEMS / RP_OPTIM_BLOCK * (RP_OPTIM_BLOCK + 4) };

typedef struct {
    rp_ctx *ctx;
    bool quick;
    int64_t spread;                     /* bytes that the places of a call fill */
    double move[RP_DTYPES];             /* bytes/s; 0: not timed */
    double near;                        /* how many times faster a call runs in one place, which caches hold, than in many */
    int n;
    rp_cost_sample *sample;             /* for each call, dtype and pass; seconds INFINITY: not timed */
} measuring;

/* ---- one call ---- */

/* Compute the median of runs that take `share` seconds together, at least three. Long runs get fewer, and only the warm-up run counts if it
 * took half a second. A backward uses the by-products of some forward. In a place without a forward they are generated values, which does
 * not change the time. */
static rp_status time_pass(rp_cost_timed *t, rp_pass pass, double share, double *median)
{
    double seconds[RP_COST_MOST_RUNS], start = rp__seconds();
    int n = 0;

    RP_TRY(rp__cost_timed_run(t, pass));
    *median = rp__seconds() - start;
    if (*median > 0.5) return RP_OK;
    for (double all = 0; n < RP_COST_MOST_RUNS && (all < share || (n < LEAST_RUNS && all < 0.3)); n++) {
        start = rp__seconds();
        RP_TRY(rp__cost_timed_run(t, pass));
        seconds[n] = rp__seconds() - start;
        all += seconds[n];
    }
    *median = rp__cost_middle(seconds, n);
    return RP_OK;
}

/* ---- all calls ---- */

static bool has_kernels(const measuring *m, rp_dtype dtype)
{
    return dtype != RP_F64 && rp__kernels(m->ctx) != rp__kernels_none();
}

static bool wanted(const measuring *m, int when, rp_dtype dtype)
{
    if (when == RP_COST_TINY) return true;
    return has_kernels(m, dtype) ? when == RP_COST_SOON || (when == RP_COST_LATE && !m->quick) : when == RP_COST_SLOW;
}

static rp_status time_call(const measuring *m, rp_cost_timed *t, int when, rp_cost_sample *sample)
{
    double share = when == RP_COST_TINY ? 0.0005 : m->quick ? 0.002 : 0.02;

    for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
        rp_cost_sample *s = &sample[pass];
        double seconds;
        s->work = rp__cost_work(rp__cost_timed_meta(t), pass);
        if (s->work.flops == 0 && rp__cost_bytes(s->work) == 0) continue;
        RP_TRY(time_pass(t, pass, share, &seconds));
        s->seconds = fmin(s->seconds, seconds);
        s->slowest = fmax(s->slowest, seconds);
    }
    return RP_OK;
}

static rp_status visit_call(measuring *m, const rp_cost_call *c, rp_dtype dtype, rp_cost_sample *sample)
{
    const rp_op *op = rp__op_find(c->op);
    rp_cost_timed *t;

    if (!wanted(m, c->when, dtype)) return RP_OK;
    for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++) {
        sample[pass].op    = rp__cost_place(op);
        sample[pass].when  = c->when;
        sample[pass].dtype = dtype;
        sample[pass].pass  = pass;
    }
    RP_TRY(rp__cost_timed_new(m->ctx, op, &c->call, dtype, 0, c->when & (RP_COST_SOON | RP_COST_LATE) ? m->spread : 0, &t));
    rp_status status = time_call(m, t, c->when, sample);
    rp__cost_timed_free(t);
    return status;
}

/* ---- other measurements ---- */

enum { PARAM, GRAD, STATES, ABSMAX = STATES + RP_OPTIM_MAX_STATES, UPDATE_TENSORS = ABSMAX + RP_OPTIM_MAX_STATES };

/* The tensors of an update of n elements. States in 8 bits follow a gradient of many magnitudes, because equal codes would stay in the caches. */
static rp_status make_update(measuring *m, const rp_optim_call *c, rp_tensor **t)
{
    bool coded = c->state_dtype == RP_U8;
    rp_host h;

    for (int i = 0; i < (coded ? UPDATE_TENSORS : ABSMAX); i++) {
        rp_dtype dtype = i < STATES ? c->param_dtype : i < ABSMAX ? c->state_dtype : RP_F32;
        rp_meta meta   = rp_meta_1d(dtype, i < ABSMAX ? c->n : c->n / RP_OPTIM_BLOCK);
        RP_TRY(rp__tensor_new_named(m->ctx, &meta, RP_MEM_TEMP, "an update that is measured", &t[i]));
        rp__tensor_zero(t[i]);
    }
    if (!coded) return RP_OK;
    RP_TRY(rp__tensor_host_all(t[GRAD], RP_HOST_WRITE, &h));
    for (int64_t i = 0; i < c->n; i++) ((float *)h.data)[i] = 1.0f / (float)(i * 37 % 4099 + 1);
    rp__tensor_host_end(&h);
    return RP_OK;
}

static double run_update(rp_ctx *ctx, rp_optim_call c, rp_tensor *const *t)
{
    c.param = rp__tensor_data(t[PARAM]);
    c.grad  = rp__tensor_data(t[GRAD]);
    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++) {
        c.state[k]  = rp__tensor_data(t[STATES + k]);
        c.absmax[k] = t[ABSMAX + k] ? rp__tensor_data(t[ABSMAX + k]) : NULL;
    }
    double start = rp__seconds();
    rp__mem_enter(ctx);
    rp__kernels(ctx)->adamw(&c);
    rp__mem_leave(ctx);
    return rp__seconds() - start;
}

/* The least seconds of an AdamW update of weights and gradients of `dtype`. */
static rp_status time_update(measuring *m, rp_dtype dtype, rp_dtype states, double *seconds)
{
    rp_tensor *t[UPDATE_TENSORS] = { NULL };
    rp_optim_call c  = { .on = m->ctx->on, .n = UPDATE_ELEMS, .param_dtype = dtype, .grad_dtype = dtype, .state_dtype = states, .lr = 1e-9,
                         .grad_scale = 1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .bias1 = 0.1, .bias2 = 0.001, .step = 1 };
    rp_status status = make_update(m, &c, t);

    *seconds = INFINITY;
    for (int i = 0; i < LEAST_RUNS && status == RP_OK; i++) *seconds = fmin(*seconds, run_update(m->ctx, c, t));
    for (int i = 0; i < RP_COUNT(t); i++) rp_tensor_unref(t[i]);
    return status;
}

/* An update reads four tensors and writes three. The time that states in 8 bits add to weights and gradients is that of their bytes. */
static rp_status time_updates(measuring *m)
{
    double seconds, rest;

    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
        rp_dtype dtype = rp__cost_dtypes[d];
        if (!has_kernels(m, dtype)) continue;
        RP_TRY(time_update(m, dtype, dtype, &seconds));
        m->move[dtype] = fmax(m->move[dtype], 7.0 * UPDATE_ELEMS * (double)rp_dtype_bytes(dtype) / seconds);
    }
    if (!has_kernels(m, RP_F32)) return RP_OK;
    RP_TRY(time_update(m, RP_F32, RP_U8, &seconds));
    rest           = 3.0 * UPDATE_ELEMS * sizeof(float) / m->move[RP_F32];
    m->move[RP_U8] = fmax(m->move[RP_U8], 4.0 * CODED_BYTES / fmax(seconds - rest, 0.1 * seconds));
    return RP_OK;
}

/* Time a sum of two tensors, which is limited by memory traffic, in many places and in one. */
static rp_status time_near(measuring *m)
{
    static const rp_op_case call = { .in = { { 1024, 576 }, { 1024, 576 } } };
    double seconds[2]            = { 0 };

    for (int i = 0; i < 2; i++) {
        rp_cost_timed *t;
        RP_TRY(rp__cost_timed_new(m->ctx, rp__op_find("add"), &call, RP_F32, 0, i ? 0 : m->spread, &t));
        rp_status status = time_pass(t, RP_FORWARD, m->quick ? 0.002 : 0.02, &seconds[i]);
        rp__cost_timed_free(t);
        RP_TRY(status);
    }
    m->near = fmax(m->near, seconds[1] > 0 ? seconds[0] / seconds[1] : 1);
    return RP_OK;
}

enum { PIECES = 16 };

static rp_status time_disk_queue(rp_disk_queue *queue, uint8_t *data, int64_t piece, double *bandwidth)
{
    int64_t ticket[PIECES];
    double start = rp__seconds();

    for (int i = 0; i < PIECES; i++) RP_TRY(rp__disk_queue_write(queue, data, piece, &ticket[i]));
    for (int i = 0; i < PIECES; i++) RP_TRY(rp__disk_queue_wait(queue, ticket[i]));
    double write = rp__seconds() - start;
    for (int i = 0; i < PIECES; i++) {
        RP_TRY(rp__disk_queue_read(queue, ticket[i], data));
        RP_TRY(rp__disk_queue_wait(queue, ticket[i]));
    }
    *bandwidth = PIECES * (double)piece / fmax(write, rp__seconds() - start - write);
    return RP_OK;
}

/* Measure writing and reading in the current folder, where runs store offloaded slots; the slower one counts. A folder that cannot be
 * written has bandwidth 0. */
static rp_status time_disk(const measuring *m, double *bandwidth)
{
    int64_t piece   = INT64_C(1) << (m->quick ? 20 : 22);
    rp_disk_queue *queue = NULL;
    uint8_t *data   = rp__host_alloc(m->ctx, piece);

    if (!data) return RP_ERR_MEMORY;
    memset(data, 0x5a, (size_t)piece);
    rp_status status = rp__disk_queue_open(m->ctx, ".", INT64_C(16) << 20, &queue);
    if (status == RP_OK) status = time_disk_queue(queue, data, piece, bandwidth);
    rp__disk_queue_close(queue);
    rp__release(data);
    if (status != RP_ERR_IO) return status;
    m->ctx->error[0] = 0;
    *bandwidth       = 0;
    return RP_OK;
}

/* ---- rounds ---- */

static rp_status one_round(measuring *m)
{
    int n_dtypes = RP_COUNT(rp__cost_dtypes);

    for (int i = 0; i < rp__cost_n_calls(); i++)
        for (int d = 0; d < n_dtypes; d++)
            RP_TRY(visit_call(m, rp__cost_call_at(i), rp__cost_dtypes[d], &m->sample[(i * n_dtypes + d) * RP_COST_PASSES]));
    if (rp__kernels(m->ctx)->adamw) RP_TRY(time_updates(m));
    return has_kernels(m, RP_F32) ? time_near(m) : RP_OK;
}

static rp_status time_all(measuring *m)
{
    double start = rp__seconds(), took = 0;
    int rounds   = m->quick ? 1 : 3;

    m->n      = rp__cost_n_calls() * RP_COUNT(rp__cost_dtypes) * RP_COST_PASSES;
    m->sample = rp__host_alloc(m->ctx, m->n * (int64_t)sizeof *m->sample);
    if (!m->sample) return RP_ERR_MEMORY;
    for (int i = 0; i < m->n; i++) m->sample[i].seconds = INFINITY;
    for (int i = 0; i < rounds && took * (i + 1) <= MOST_SECONDS * i; i++) {        /* is there time for one more round? */
        RP_TRY(one_round(m));
        took = rp__seconds() - start;
    }
    return RP_OK;
}

static rp_status time_paces(const measuring *m, double pace[RP_DTYPES])
{
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
        rp_dtype dtype = rp__cost_dtypes[d];
        pace[dtype]    = 1;
        if (has_kernels(m, dtype)) RP_TRY(rp__cost_pace(m->ctx, dtype, m->sample, m->quick ? LEAST_RUNS : TURNS, &pace[dtype]));
    }
    return RP_OK;
}

/* ---- the table ---- */

static void round_all(rp_cost_table *t)
{
    int rows = (rp__op_count() + 1) * RP_DTYPES * RP_COST_PASSES;

    for (int i = 0; i < rows; i++)
        t->row[i] = (rp_cost_row){ rp__cost_rounded(t->row[i].overhead), rp__cost_rounded(t->row[i].rate), rp__cost_rounded(t->row[i].bandwidth), 0 };
    for (int i = 0; i < RP_DTYPES; i++) t->move[i] = rp__cost_rounded(t->move[i]);
    t->offload = rp__cost_rounded(t->offload);
    t->cache   = rp__cost_rounded(t->cache);
    t->near    = rp__cost_rounded(t->near);
}

static void print_rows(const rp_cost_table *t, void (*print)(void *user, const char *line), void *user)
{
    char line[RP_COST_LINE_CHARS];

    for (int op = 0; op <= rp__op_count(); op++)
        for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++)
            for (rp_pass pass = RP_FORWARD; pass <= RP_BACKWARD; pass++)
                if (rp__cost_row(t, op, rp__cost_dtypes[d], pass)->rate > 0)
                    print(user, rp__cost_line(t, op, rp__cost_dtypes[d], pass, line));
}

/* Without an update kernel, the bandwidth of the reference is used. */
static void set_moves(const measuring *m, rp_cost_table *t)
{
    for (int d = 0; d < RP_COUNT(rp__cost_dtypes); d++) {
        rp_dtype dtype = rp__cost_dtypes[d];
        t->move[dtype] = m->move[dtype] > 0 ? m->move[dtype] : rp__cost_row(t, rp__op_count(), dtype, RP_FORWARD)->bandwidth;
    }
    t->move[RP_U8] = m->move[RP_U8] > 0 ? m->move[RP_U8] : t->move[RP_F32];
}

/* Returns the fraction of calls whose slowest round took more than 1.3 times as long as the fastest. */
static double unsteady(const measuring *m)
{
    int n = 0, n_unsteady = 0;

    for (int i = 0; i < m->n; i++) {
        if (!isfinite(m->sample[i].seconds)) continue;
        n++;
        if (m->sample[i].slowest > 1.3 * m->sample[i].seconds) n_unsteady++;
    }
    return n ? (double)n_unsteady / n : 0;
}

static rp_status fill_table(measuring *m, rp_cost_table *t)
{
    double pace[RP_DTYPES];

    rp__cost_machine_find(m->ctx, &t->machine);
    rp__cost_machine_name(&t->machine, t->name);
    RP_TRY(time_all(m));
    RP_TRY(time_paces(m, pace));
    RP_TRY(time_disk(m, &t->offload));
    rp__cost_fit(t, m->sample, m->n, pace);
    set_moves(m, t);
    t->unsteady = unsteady(m);
    t->near     = fmin(fmax(m->near, 1), 20);
    t->cache    = m->near > 0 ? rp__cost_system_cache(t->machine.threads) : 0;
    round_all(t);
    return RP_OK;
}

rp_status rp__cost_measure(rp_ctx *ctx, bool quick, void (*print)(void *user, const char *line), void *user, rp_cost_table **out)
{
    measuring m      = { .ctx = ctx, .quick = quick, .spread = INT64_C(1) << (quick ? 26 : 28) };
    rp_cost_table *t = NULL;

    RP_CHECK(ctx, !ctx->options.shapes_only, RP_ERR_STATE, "measuring needs a context with data, not shapes alone");
    RP_TRY(rp__cost_table_new(ctx, quick ? RP_COST_QUICK : RP_COST_FULL, &t));
    rp_status status = fill_table(&m, t);
    rp__release(m.sample);
    if (status != RP_OK) {
        rp__cost_table_free(t);
        return status;
    }
    if (print) print_rows(t, print, user);
    *out = t;
    return RP_OK;
}
