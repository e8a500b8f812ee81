/* bench/cost.c -- what the cost table says of a training step, and what the step takes.
 *
 *   bench_cost CONFIG.json [--dtype fp32|bf16] [--seq N] [--batch N] [--steps N] [--by-op]
 *
 * The step is recorded once: each call's forward and backward are asked of the table (the measured one where there is one) and added up,
 * with the update of all parameters. Then steps are timed, the best counts. One JSON line; with --by-op a line an op before it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weights.h"
#include "plan/cost.h"
#include "train/optim.h"

typedef struct { const char *config, *dtype; int64_t seq, batch, steps, by_op; } bench_options;
typedef struct { double seconds, forward, backward, update; } timing;

typedef struct {
    const rp_cost_table *table;
    timing sum;
    timing op[256];                     /* by place in the registry */
    int n_calls;
} prediction;

static void fail(rp_ctx *ctx, const char *what)
{
    fprintf(stderr, "bench_cost: %s: %s\n", what, ctx ? rp_error(ctx) : "");
    exit(1);
}

/* ---- what the table says ---- */

static rp_status add_call(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    prediction *p = self;
    double forward = rp__cost_seconds(p->table, meta, RP_FORWARD), backward = rp__cost_seconds(p->table, meta, RP_BACKWARD);

    (void)at, (void)scope, (void)verdict;
    for (int i = 0; i < rp__op_count(); i++) {
        if (rp__op_at(i) != meta->op) continue;
        p->op[i].forward += forward;
        p->op[i].backward += backward;
    }
    p->sum.forward += forward;
    p->sum.backward += backward;
    p->n_calls++;
    return RP_OK;
}

static void add_update(prediction *p, rp_model *m)
{
    for (int i = 0; i < rp__model_n_params(m); i++) {
        const rp_meta *meta = &rp__model_param(m, i)->tensor->m;
        p->sum.update += rp__cost_move(p->table, meta->dtype, 7 * rp_meta_bytes(meta));     /* AdamW reads four and writes three */
    }
    p->sum.seconds = p->sum.forward + p->sum.backward + p->sum.update;
}

static void print_ops(const prediction *p)
{
    for (int i = 0; i < rp__op_count(); i++)
        if (p->op[i].forward + p->op[i].backward > 0)
            printf("%-22s forward %8.4f s  backward %8.4f s\n", rp__op_at(i)->name, p->op[i].forward, p->op[i].backward);
}

/* ---- the step ---- */

static rp_tensor *batch_tensor(rp_ctx *ctx, const bench_options *o, int64_t vocab, int32_t seed)
{
    rp_meta meta  = rp_meta_2d(RP_I32, o->batch, o->seq);
    int64_t n     = o->batch * o->seq;
    int32_t *data = malloc((size_t)n * sizeof *data);
    rp_tensor *t;

    for (int64_t i = 0; i < n; i++) data[i] = (int32_t)((i + seed) * 7919 % vocab);
    if (rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t) || rp_tensor_write_i32(t, data, n)) fail(ctx, "batch");
    free(data);
    return t;
}

static void update(rp_model *m, rp_optim *optim, int64_t step)
{
    rp_optim_step s = { .step = step, .lr = 3e-4, .grad_scale = 1, .measure = true };

    for (int i = 0; i < rp__model_n_params(m); i++) {
        rp_tensor *t = rp__model_param(m, i)->tensor;
        rp__optim_update(optim, i, t->grad, &s);
        rp__tensor_wrote(t, "the optimizer");
        rp_tensor_drop_grad(t);
    }
}

static timing one_step(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim, int64_t step)
{
    int64_t vocab        = rp__model_config(m)->vocab;
    rp_model_batch batch = { .tokens = batch_tensor(ctx, o, vocab, 1), .labels = batch_tensor(ctx, o, vocab, 2) };
    rp_tensor *loss;
    timing t;

    double start = rp__seconds();
    rp__pass_begin(ctx, step, 0);
    if (rp__model_loss(m, &batch, 1.0f / (float)(o->batch * o->seq), -100, 0, &loss)) fail(ctx, "forward");
    double loss_at = rp__seconds();
    if (rp__backward(ctx, loss)) fail(ctx, "backward");
    double back_at = rp__seconds();
    update(m, optim, step);
    double end = rp__seconds();
    t          = (timing){ end - start, loss_at - start, back_at - loss_at, end - back_at };
    rp_tensor_unref(loss);
    rp_tensor_unref(batch.tokens);
    rp_tensor_unref(batch.labels);
    return t;
}

static rp_model *build(rp_ctx *ctx, const bench_options *o, rp_dtype dtype)
{
    rp_model_config config;
    rp_report report;
    rp_model *m;

    rp__report_open(&report, ctx);
    if (rp__model_config_load(ctx, o->config, NULL, &report, &config)) fail(ctx, o->config);
    rp__report_close(&report);
    if (rp__model_build(ctx, &config, dtype, &m)) fail(ctx, "model");
    rp__model_init(m, 1234);
    return m;
}

static rp_optim *build_optim(rp_ctx *ctx, rp_model *m, rp_dtype dtype)
{
    rp_optim_config config = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .state_dtype = dtype };
    int n                  = rp__model_n_params(m);
    rp_optim_param *params = calloc((size_t)n, sizeof *params);
    rp_optim *optim;

    for (int i = 0; i < n; i++) params[i] = (rp_optim_param){ rp__model_param(m, i)->path, rp__model_param(m, i)->tensor };
    if (rp__optim_new(ctx, &config, params, n, &optim)) fail(ctx, "optimizer");
    free(params);
    return optim;
}

static void compare(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim)
{
    prediction p = { .n_calls = 0 };
    timing best  = { .seconds = INFINITY };
    rp_cost_table *table;

    if (rp__cost_table_open(ctx, &table)) fail(ctx, "cost table");
    p.table = table;
    rp__tape_decide_by(ctx, &(rp_decider){ add_call, &p });
    one_step(ctx, o, m, optim, 1);
    rp__tape_decide_by(ctx, NULL);
    add_update(&p, m);
    for (int64_t step = 2; step < o->steps + 2; step++) {
        timing t = one_step(ctx, o, m, optim, step);
        if (t.seconds < best.seconds) best = t;
    }
    if (o->by_op) print_ops(&p);
    printf("{\"dtype\": \"%s\", \"seq\": %" PRId64 ", \"batch\": %" PRId64 ", \"machine\": \"%s\", \"measured\": %s, \"calls\": %d, "
           "\"predicted\": %.3f, \"seconds\": %.3f, \"ratio\": %.3f, \"forward\": [%.3f, %.3f], \"backward\": [%.3f, %.3f], "
           "\"update\": [%.3f, %.3f]}\n",
           o->dtype, o->seq, o->batch, rp__cost_machine(table), rp__cost_measured(table) ? "true" : "false", p.n_calls, p.sum.seconds,
           best.seconds, p.sum.seconds / best.seconds, p.sum.forward, best.forward, p.sum.backward, best.backward, p.sum.update, best.update);
    rp__cost_table_free(table);
}

static bench_options parse(int argc, char **argv)
{
    bench_options o = { .dtype = "fp32", .seq = 512, .batch = 2, .steps = 5 };

    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (name[0] != '-') { o.config = name; continue; }
        if (!strcmp(name, "--by-op")) { o.by_op = 1; continue; }
        if (!strcmp(name, "--dtype")) o.dtype = value;
        else if (!strcmp(name, "--seq")) o.seq = atoll(value);
        else if (!strcmp(name, "--batch")) o.batch = atoll(value);
        else if (!strcmp(name, "--steps")) o.steps = atoll(value);
        else fail(NULL, name);
        i++;
    }
    if (!o.config) fail(NULL, "which config.json?");
    return o;
}

int main(int argc, char **argv)
{
    bench_options o = parse(argc, argv);
    rp_dtype dtype  = strcmp(o.dtype, "bf16") ? RP_F32 : RP_BF16;
    rp_ctx *ctx;

    if (rp_ctx_new(&(rp_ctx_options){ .seed = 1234 }, &ctx)) fail(NULL, "context");
    rp_model *m     = build(ctx, &o, dtype);
    rp_optim *optim = build_optim(ctx, m, dtype);
    compare(ctx, &o, m, optim);
    rp__optim_free(optim);
    rp__model_free(m);
    rp_ctx_free(ctx);
    return 0;
}
