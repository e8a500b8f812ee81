/* cli/bench/bench.c -- the names, rounds and ceilings of cli/bench/bench.h. */
#include "cli/bench/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "ops/call.h"
#include "tensor/tensor.h"

enum { FP32, BF16, MEMORY, CEILINGS, MOST_LOOKS = 4096, STREAM_ELEMS = 1 << 24, SINK_FLOATS = 16, BURSTS = 3, STREAMINGS = 2 };
enum { LEAST_ROUNDS = 5, USUAL_ROUNDS = 15, MOST_RUNS = 2000 };

static const double look_seconds = 2e-3, runs_seconds = 4e-3, row_seconds = 0.3;
static const rp_dtype dtypes[] = { RP_F32, RP_BF16 };

/* ---- benches ---- */

/* An op without a backward has only a forward, and so has one that passes its gradient on: benches give it operands of one shape. */
static int n_parts(const bench_call *c)
{
    const rp_op *op = rp__op_find(c->op);

    if (op == &rp_op_matmul) return 3;
    return op->backward && !(op->flags & RP_OP_GRAD_PASS) ? 2 : 1;
}

static const char *part_name(const bench_call *c, int part)
{
    static const char *const whole[] = { "forward", "backward" }, *const halves[] = { "forward", "dx", "dw" };

    return n_parts(c) == 3 ? halves[part] : whole[part];
}

/* Bench i in order; false: past the end. */
static bool item_at(int i, bench_item *out)
{
    for (int c = 0; c < rp__bench_n_calls; c++) {
        const bench_call *call = &rp__bench_calls[c];
        int parts = n_parts(call), n = RP_COUNT(dtypes) * parts;
        if (i < n) {
            *out = (bench_item){ .call = call, .dtype = dtypes[i / parts], .part = part_name(call, i % parts) };
            return true;
        }
        i -= n;
    }
    int n_updates = RP_COUNT(dtypes) * rp__bench_n_updates, n_steps = RP_COUNT(dtypes) * rp__bench_n_steps;
    if (i < n_updates) {
        *out = (bench_item){ .update = &rp__bench_updates[i / 2], .dtype = dtypes[i % 2], .part = "update" };
        return true;
    }
    i -= n_updates;
    if (i >= n_steps) return false;
    *out = (bench_item){ .step = &rp__bench_steps[i / 2], .dtype = dtypes[i % 2], .part = rp__bench_steps[i / 2].mode };
    return true;
}

int rp__bench_count(void)
{
    bench_item item;
    int n = 0;

    while (item_at(n, &item)) n++;
    return n;
}

static void name_of(const bench_item *item, char out[RP_BENCH_NAME_CHARS])
{
    const char *dtype = rp_dtype_name(item->dtype);

    if (item->step)
        snprintf(out, RP_BENCH_NAME_CHARS, "step:%s:%" PRId64 "x%" PRId64 ":%s:%s", item->step->model, item->step->length, item->step->rows,
                 dtype, item->part);
    else
        snprintf(out, RP_BENCH_NAME_CHARS, "%s:%s:%s:%s", item->call ? item->call->op : item->update->name,
                 item->call ? item->call->shape : item->update->shape, dtype, item->part);
}

static bool is_usual(const bench_item *item) { return item->call ? item->call->usual : item->update ? item->update->usual : item->step->usual; }

void rp__bench_name(int i, char out[RP_BENCH_NAME_CHARS], bool *usual)
{
    bench_item item;

    RP_BUG_IF(!item_at(i, &item));
    name_of(&item, out);
    *usual = is_usual(&item);
}

/* Whether word is the name, a prefix of it that ends before a colon, or a glob of either. */
static bool means(const char *word, const char *name)
{
    char begins[2 * RP_BENCH_NAME_CHARS];

    if (snprintf(begins, sizeof begins, "%s:*", word) >= (int)sizeof begins) return false;
    return rp__glob(word, name) || rp__glob(begins, name);
}

int rp__bench_matches(const char *word)
{
    char name[RP_BENCH_NAME_CHARS];
    bench_item item;
    int n = 0;

    for (int i = 0; item_at(i, &item); i++) {
        name_of(&item, name);
        n += means(word, name);
    }
    return n;
}

static bool wanted(const rp_bench_options *o, const bench_item *item)
{
    char name[RP_BENCH_NAME_CHARS];

    if (!o->n_names) return is_usual(item);
    name_of(item, name);
    for (int i = 0; i < o->n_names; i++)
        if (means(o->name[i], name)) return true;
    return false;
}

/* ---- ceilings ---- */

static double multiply_add_rate(const bench_machine *m, rp_kernel_peak_fp32 *peak, int64_t n)
{
    float sink[RP_MAX_BENCH_THREADS * SINK_FLOATS];
    int64_t flops = 0;
    rp_on on      = m->ctx->on;
    double start  = rp__seconds();

    if (on.threads > RP_MAX_BENCH_THREADS) on.threads = RP_MAX_BENCH_THREADS;
    if (peak) peak(n, sink, &flops, &on);
    return flops ? (double)flops / (rp__seconds() - start) : 0;
}

/* The number of rounds that takes about look_seconds. */
static int64_t rounds_for(const bench_machine *m, rp_kernel_peak_fp32 *peak)
{
    int64_t n = 1000;

    for (double seconds = 0; peak && seconds < look_seconds; n *= 2) {
        double start = rp__seconds();
        if (multiply_add_rate(m, peak, n) == 0) return 0;
        seconds = rp__seconds() - start;
    }
    return n / 2;
}

static double triad_rate(const bench_machine *m)
{
    rp_kernel_triad *triad = rp__kernels(m->ctx)->triad;
    double start           = rp__seconds();

    if (!triad) return 0;
    rp__mem_enter(m->ctx);
    triad(rp__tensor_data(m->stream[0]), rp__tensor_data(m->stream[1]), rp__tensor_data(m->stream[2]), 0.5f, STREAM_ELEMS, &m->ctx->on);
    rp__mem_leave(m->ctx);
    return 3.0 * sizeof(float) * STREAM_ELEMS / (rp__seconds() - start);
}

/* The best of a few: spinning threads of a library may occupy the cores during the first one. */
rp_bench_ceilings rp__bench_look(bench_machine *m)
{
    const rp_kernels *k = rp__kernels(m->ctx);
    rp_bench_ceilings c = { 0 };

    for (int i = 0; i < BURSTS; i++) c.fp32 = fmax(c.fp32, multiply_add_rate(m, k->peak_fp32, m->peak_rounds[FP32]));
    for (int i = 0; i < BURSTS && m->peak_rounds[BF16]; i++) c.bf16 = fmax(c.bf16, multiply_add_rate(m, k->peak_bf16, m->peak_rounds[BF16]));
    for (int i = 0; i < STREAMINGS; i++) c.memory = fmax(c.memory, triad_rate(m));
    m->ceiling[FP32][m->n_ceilings]   = c.fp32;
    m->ceiling[BF16][m->n_ceilings]   = c.bf16;
    m->ceiling[MEMORY][m->n_ceilings] = c.memory;
    if (m->n_ceilings < MOST_LOOKS - 1) m->n_ceilings++;
    return c;
}

static rp_status machine_open(bench_machine *m)
{
    const rp_kernels *k = rp__kernels(m->ctx);
    rp_meta meta        = rp_meta_1d(RP_F32, STREAM_ELEMS);

    for (int i = 0; i < CEILINGS; i++) {
        m->ceiling[i] = rp__host_alloc(m->ctx, MOST_LOOKS * (int64_t)sizeof *m->ceiling[i]);
        if (!m->ceiling[i]) return RP_ERR_MEMORY;
        RP_TRY(rp__tensor_new_named(m->ctx, &meta, RP_MEM_TEMP, "a stream that is measured", &m->stream[i]));
        rp__tensor_zero(m->stream[i]);
    }
    m->peak_rounds[FP32] = rounds_for(m, k->peak_fp32);
    m->peak_rounds[BF16] = rounds_for(m, k->peak_bf16);
    triad_rate(m);
    return RP_OK;
}

static void machine_close(bench_machine *m)
{
    for (int i = 0; i < CEILINGS; i++) {
        rp_tensor_unref(m->stream[i]);
        rp__release(m->ceiling[i]);
    }
}

/* ---- rounds ---- */

static int upwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

rp_bench_spread rp__bench_spread(double *x, int n)
{
    if (!n) return (rp_bench_spread){ 0 };
    qsort(x, (size_t)n, sizeof *x, upwards);
    return (rp_bench_spread){ n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2, x[n / 4], x[n - 1 - n / 4] };
}

bool rp__bench_more(const bench_machine *m, const bench_rounds *r, int least)
{
    if (m->rounds) return r->n < m->rounds;
    return r->n < least || (r->n < USUAL_ROUNDS && r->spent < row_seconds);
}

double rp__bench_ideal(const bench_work *work, const rp_bench_ceilings *c, const char **bound)
{
    bool pairs  = work->dtype == RP_BF16 && c->bf16 > c->fp32;
    double peak = pairs ? c->bf16 : c->fp32;
    double computing = peak > 0 ? (double)work->flops / peak : 0, moving = c->memory > 0 ? (double)work->bytes / c->memory : 0;

    *bound = peak > 0 ? computing >= moving ? pairs ? "bf16" : "fp32" : "memory" : NULL;
    return fmax(computing, moving);
}

rp_status rp__bench_round(bench_machine *m, const bench_work *work, double warm_seconds, bench_rounds *r)
{
    double all          = rp__seconds();
    rp_bench_ceilings c = rp__bench_look(m);
    int runs            = warm_seconds * MOST_RUNS > runs_seconds ? (int)ceil(runs_seconds / warm_seconds) : MOST_RUNS;
    double start        = rp__seconds();

    for (int i = 0; i < runs; i++) RP_TRY(work->run(work->self));
    double end        = rp__seconds();
    r->seconds[r->n] = (end - start) / runs;
    r->share[r->n]   = rp__bench_ideal(work, &c, &r->bound) / r->seconds[r->n];
    r->spent += end - all;
    r->n++;
    return RP_OK;
}

rp_status rp__bench_rows(bench_machine *m, const bench_work *work, rp_bench_row *row)
{
    bench_rounds r = { 0 };
    double start   = rp__seconds(), warm;

    RP_TRY(work->run(work->self));
    warm  = rp__seconds() - start;
    start = rp__seconds();
    if (warm < runs_seconds) RP_TRY(work->run(work->self));      /* the first run generates code and touches new pages */
    if (warm < runs_seconds) warm = rp__seconds() - start;
    while (rp__bench_more(m, &r, warm > row_seconds / LEAST_ROUNDS ? 3 : LEAST_ROUNDS)) RP_TRY(rp__bench_round(m, work, warm, &r));
    rp__bench_fill(&r, work, row);
    return RP_OK;
}

void rp__bench_fill(bench_rounds *r, const bench_work *work, rp_bench_row *row)
{
    row->rounds  = r->n;
    row->flops   = work->flops;
    row->bytes   = work->bytes;
    row->bound   = r->bound;
    row->seconds = rp__bench_spread(r->seconds, r->n);
    row->share   = rp__bench_spread(r->share, r->n);
}

/* ---- a run ---- */

static rp_status run_item(bench_machine *m, const bench_item *item, rp_bench_row *row)
{
    *row = (rp_bench_row){ 0 };
    name_of(item, row->name);
    if (item->step) return rp__bench_step(m, item, row);
    return item->call ? rp__bench_call(m, item, row) : rp__bench_update(m, item, row);
}

static rp_status run_all(bench_machine *m, const rp_bench_options *o)
{
    rp_bench_row row;
    bench_item item;

    for (int i = 0; item_at(i, &item); i++) {
        if (!wanted(o, &item)) continue;
        RP_TRY(run_item(m, &item, &row));
        if (o->measured) o->measured(o->user, &row);
    }
    return RP_OK;
}

rp_status rp__bench_run(rp_ctx *ctx, const rp_bench_options *options, rp_bench_ceilings *out)
{
    bench_machine m = { .ctx = ctx, .rounds = options->rounds < RP_BENCH_MOST_ROUNDS ? options->rounds : RP_BENCH_MOST_ROUNDS };

    RP_CHECK(ctx, !ctx->options.shapes_only, RP_ERR_STATE, "a context of shapes alone has nothing to time");
    rp_status status = machine_open(&m);
    if (status == RP_OK) status = run_all(&m, options);
    if (status == RP_OK)
        *out = (rp_bench_ceilings){ rp__bench_spread(m.ceiling[FP32], m.n_ceilings).median, rp__bench_spread(m.ceiling[BF16], m.n_ceilings).median,
                                    rp__bench_spread(m.ceiling[MEMORY], m.n_ceilings).median };
    machine_close(&m);
    return status;
}
