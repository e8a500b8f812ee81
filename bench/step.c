/* bench/step.c -- training steps of a model shape, timed: tokens/s and the ledger's bytes, one JSON line.
 *
 *   bench_step CONFIG.json [--dtype fp32|bf16] [--seq N] [--batch N] [--ac MODE] [--lora RANK] [--keep-logits] [--steps N] [--warmup N] [--threads N]
 *   [--pairs N | --costs | --serve]
 *
 * MODE is none, full, selective_layer (every second block) or selective_op; --keep-logits is recipes' loss.keep_logits. With --lora
 * only adapters of that rank on every linear layer are trained, in the parameters' dtype. With --pairs, N pairs of a step
 * without checkpointing and one
 * with it are timed, in turn in one process: the overhead is the median of their ratios less 1, its interval that of base/median.h, the
 * share is recomputed over other FLOPs. With --costs what the machine's cost table says of the step stands beside what it took, after a
 * line an op: seconds forward, seconds backward. With --serve a line says that it is warm; then, for each line "step" that is read, a step
 * is run, and for each "bytes" one whose peak is looked at: bench/speed runs it so, in turn with peer.py.
 * Random weights; tokens by the same generator as the PyTorch peer, so that both do the same work. AdamW with states in the
 * parameters' dtype, as the peer has them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/median.h"
#include "cost/cost.h"
#include "models/adapter.h"
#include "models/weights.h"
#include "optim/optim.h"
#include "policy/modes.h"

typedef struct {
    const char *config, *dtype, *ac;
    int64_t seq, batch, steps, warmup, threads, pairs, lora;
    bool costs, serve, keep_logits;
} bench_options;

typedef struct { double seconds, forward, backward, update, loss; int64_t saved; } timing;

static void fail(rp_ctx *ctx, const char *what)
{
    fprintf(stderr, "bench_step: %s: %s\n", what, ctx ? rp_error(ctx) : "");
    exit(1);
}

static rp_tensor *batch_tensor(rp_ctx *ctx, const bench_options *o, const int32_t *v)
{
    rp_meta meta = rp_meta_2d(RP_I32, o->batch, o->seq);
    rp_tensor *t;

    if (rp_tensor_new(ctx, &meta, RP_MEM_TEMP, &t) || rp_tensor_write_i32(t, v, o->batch * o->seq)) fail(ctx, "batch");
    return t;
}

static void make_batch(rp_ctx *ctx, const bench_options *o, uint64_t *x, int64_t vocab, rp_model_batch *out)
{
    int64_t n       = o->batch * o->seq;
    int32_t *tokens = malloc((size_t)n * sizeof *tokens), *labels = malloc((size_t)n * sizeof *labels);

    for (int64_t i = 0; i < n; i++) {
        *x        = *x * 6364136223846793005u + 1442695040888963407u;
        tokens[i] = (int32_t)((*x >> 33) % (uint64_t)vocab);
    }
    for (int64_t i = 0; i < n; i++) labels[i] = i % o->seq == o->seq - 1 ? -100 : tokens[i + 1];
    *out = (rp_model_batch){ .tokens = batch_tensor(ctx, o, tokens), .labels = batch_tensor(ctx, o, labels) };
    free(tokens);
    free(labels);
}

static void update(rp_model *m, rp_optim *optim, int64_t step)
{
    rp_optim_step s = { .step = step, .lr = 3e-4, .grad_scale = 1, .measure = true };

    for (int i = 0; i < rp__model_n_params(m); i++) {
        rp_tensor *t = rp__model_param(m, i)->tensor;
        if (!t->requires_grad) continue;
        rp__optim_update(optim, i, t->grad, &s);
        rp__tensor_wrote(t, "the optimizer");
        rp_tensor_drop_grad(t);
    }
}

static timing one_step(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim, int64_t step, uint64_t *x)
{
    rp_model_batch batch;
    rp_tensor *loss;
    timing t = { 0 };
    rp_mem mem;
    rp_attr_cross_entropy how = { 1.0f / (float)(o->batch * (o->seq - 1)), -100, .keeps_logits = o->keep_logits };

    make_batch(ctx, o, x, rp__model_config(m)->vocab, &batch);
    double start = rp__seconds();
    rp__pass_begin(ctx, step, 0);
    if (rp__model_loss(m, &batch, &how, &loss)) fail(ctx, "forward");
    t.forward = rp__seconds() - start;
    rp_mem_read(ctx, 0, false, &mem);
    t.saved = mem.live_at[RP_MEM_SAVED];
    rp_tensor_read(loss, &t.loss, 1);
    if (rp__backward(ctx, loss)) fail(ctx, "backward");
    rp_tensor_unref(loss);
    t.backward = rp__seconds() - start - t.forward;
    update(m, optim, step);
    t.seconds = rp__seconds() - start;
    t.update  = t.seconds - t.forward - t.backward;
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
    if (o->lora) {
        static const char *const everywhere[] = { "all-linear" };
        config.adapter = (rp_adapter_config){ .lora = { .rank = o->lora, .alpha = 2 * (double)o->lora }, .n_modules = 1, .module = everywhere };
    }
    if (rp__model_build(ctx, &config, dtype, &m)) fail(ctx, "model");
    rp__tape_ctx(ctx)->records_frozen = rp__model_is_frozen(m);
    rp__model_init(m, 1234);
    return m;
}

/* ---- modes ---- */

static void choose(rp_ctx *ctx, rp_model *m, const char *ac, rp_selection *chosen)
{
    static const char *const modes[] = { "none", "full", "selective_layer", "selective_op" };
    static const char *const save[]  = { "matmul", "attention" };
    rp_mode_input in = { .mode = -1, .layers = "layers", .every = 2, .n_save = 2, .save = save, .save_place = { "bench", 0 } };

    for (int i = 0; i < RP_COUNT(modes); i++)
        if (!strcmp(ac, modes[i])) in.mode = i;
    if (in.mode < 0 || rp__selection_open(ctx, &in, chosen)) fail(ctx, ac);
    rp_module_checkpoint(rp__model_root(m), NULL, NULL);
    for (int i = 0; i < chosen->n_conditions; i++)
        rp_module_checkpoint(rp__model_root(m), rp_condition_holds, chosen->condition[i]);
    rp_set_policy(ctx, chosen->policy);
}

static void unchoose(rp_ctx *ctx, rp_selection *chosen)
{
    rp_set_policy(ctx, NULL);
    rp__selection_close(chosen);
}

static rp_optim *build_optim(rp_ctx *ctx, rp_model *m, rp_dtype dtype)
{
    rp_optim_config config = { .name = "adamw", .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .state_dtype = dtype };
    int n                  = rp__model_n_params(m);
    rp_optim_param *params = calloc((size_t)n, sizeof *params);
    rp_optim *optim;

    for (int i = 0; i < n; i++) {
        const rp_param *p = rp__model_param(m, i);
        params[i]         = (rp_optim_param){ .path = p->path, .tensor = p->tensor, .frozen = !p->tensor->requires_grad };
    }
    if (rp__optim_new(ctx, &config, params, n, &optim)) fail(ctx, "optimizer");
    free(params);
    return optim;
}

static bench_options parse(int argc, char **argv)
{
    bench_options o = { .dtype = "fp32", .ac = "none", .seq = 512, .batch = 2, .steps = 3, .warmup = 1 };

    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (name[0] != '-') { o.config = name; continue; }
        if (!strcmp(name, "--costs")) { o.costs = true; continue; }
        if (!strcmp(name, "--keep-logits")) { o.keep_logits = true; continue; }
        if (!strcmp(name, "--serve")) { o.serve = true; continue; }
        if (!strcmp(name, "--dtype")) o.dtype = value;
        else if (!strcmp(name, "--ac")) o.ac = value;
        else if (!strcmp(name, "--seq")) o.seq = atoll(value);
        else if (!strcmp(name, "--batch")) o.batch = atoll(value);
        else if (!strcmp(name, "--steps")) o.steps = atoll(value);
        else if (!strcmp(name, "--warmup")) o.warmup = atoll(value);
        else if (!strcmp(name, "--threads")) o.threads = atoll(value);
        else if (!strcmp(name, "--pairs")) o.pairs = atoll(value);
        else if (!strcmp(name, "--lora")) o.lora = atoll(value);
        else fail(NULL, name);
        i++;
    }
    if (!o.config) fail(NULL, "which config.json?");
    return o;
}

static double timed(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim, int64_t step, uint64_t *x, const char *ac,
                    rp_tape_stats *work)
{
    rp_selection chosen;

    choose(ctx, m, ac, &chosen);
    timing t = one_step(ctx, o, m, optim, step, x);
    rp__tape_stats(ctx, work);
    unchoose(ctx, &chosen);
    return t.seconds;
}

static void run_pairs(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim)
{
    double *ratio = calloc((size_t)o->pairs, sizeof *ratio);
    uint64_t x    = 1234;
    int64_t step  = 0;
    rp_tape_stats work;
    int n = (int)o->pairs;

    for (int i = 0; i < o->warmup; i++) {
        timed(ctx, o, m, optim, ++step, &x, "none", &work);
        timed(ctx, o, m, optim, ++step, &x, o->ac, &work);
    }
    for (int i = 0; i < n; i++) {       /* which comes first takes turns, too */
        const char *first = i % 2 ? o->ac : "none", *second = i % 2 ? "none" : o->ac;
        double a = timed(ctx, o, m, optim, ++step, &x, first, &work), b = timed(ctx, o, m, optim, ++step, &x, second, &work);
        ratio[i] = i % 2 ? a / b : b / a;
    }
    timed(ctx, o, m, optim, ++step, &x, o->ac, &work);
    rp_median over = rp__median(ratio, n);
    double share   = (double)work.recompute_flops / (double)work.step_flops;
    printf("{\"dtype\": \"%s\", \"ac\": \"%s\", \"seq\": %" PRId64 ", \"batch\": %" PRId64 ", \"pairs\": %d, \"overhead\": %.4f, "
           "\"interval\": [%.4f, %.4f], \"share\": %.4f, \"overhead_over_share\": %.3f, \"over_share_interval\": [%.3f, %.3f]}\n",
           o->dtype, o->ac, o->seq, o->batch, n, over.median - 1, over.low - 1, over.high - 1, share, (over.median - 1) / share,
           (over.low - 1) / share, (over.high - 1) / share);
    free(ratio);
}

static void run_steps(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim)
{
    uint64_t x  = 1234;
    timing best = { .seconds = INFINITY };
    rp_selection chosen;
    rp_mem mem;

    choose(ctx, m, o->ac, &chosen);
    for (int64_t step = 1; step <= o->warmup + o->steps; step++) {
        if (step == o->warmup + 1) rp_mem_read(ctx, 0, true, &mem);
        timing t = one_step(ctx, o, m, optim, step, &x);
        if (step > o->warmup && t.seconds < best.seconds) best = t;
        best.loss = t.loss;         /* of the last */
    }
    rp_mem_read(ctx, 0, false, &mem);
    printf("{\"dtype\": \"%s\", \"ac\": \"%s\", \"seq\": %" PRId64 ", \"batch\": %" PRId64
           ", \"tokens_per_second\": %.1f, \"seconds\": %.3f, "
           "\"forward\": %.3f, \"backward\": %.3f, \"update\": %.3f, \"peak_mib\": %.1f, \"saved_mib\": %.1f, \"reserved_mib\": %.1f, "
           "\"loss\": %.9g}\n",
           o->dtype, o->ac, o->seq, o->batch, (double)(o->seq * o->batch) / best.seconds, best.seconds, best.forward, best.backward, best.update,
           (double)mem.peak_bytes / 1048576, (double)best.saved / 1048576, (double)mem.reserved_bytes / 1048576, best.loss);
    unchoose(ctx, &chosen);
}

/* ---- what the cost table says ---- */

typedef struct {
    const rp_cost_table *table;
    double forward[256], backward[256];     /* by place in the registry */
    timing sum;
} prediction;

static rp_status add_call(void *self, int at, const rp_op_meta *meta, const rp_scope *scope, rp_verdict *verdict)
{
    prediction *p = self;
    double forward = rp__cost_seconds(p->table, meta, RP_FORWARD), backward = rp__cost_seconds(p->table, meta, RP_BACKWARD);

    (void)at, (void)scope, (void)verdict;
    for (int i = 0; i < rp__op_count(); i++) {
        if (rp__op_at(i) != meta->op) continue;
        p->forward[i] += forward;
        p->backward[i] += backward;
    }
    p->sum.forward += forward;
    p->sum.backward += backward;
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

static void run_costs(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim)
{
    prediction p = { .table = NULL };
    timing best  = { .seconds = INFINITY };
    uint64_t x   = 1234;
    rp_cost_table *table;

    if (rp__cost_table_open(ctx, &table)) fail(ctx, "cost table");
    p.table = table;
    rp__tape_ctx(ctx)->decider = (rp_decider){ add_call, &p };
    one_step(ctx, o, m, optim, 1, &x);
    rp__tape_ctx(ctx)->decider = (rp_decider){ 0 };
    add_update(&p, m);
    for (int64_t step = 2; step < o->steps + 2; step++) {
        timing t = one_step(ctx, o, m, optim, step, &x);
        if (t.seconds < best.seconds) best = t;
    }
    for (int i = 0; i < rp__op_count(); i++)
        if (p.forward[i] + p.backward[i] > 0) printf("%-22s %8.4f %8.4f\n", rp__op_at(i)->name, p.forward[i], p.backward[i]);
    printf("{\"dtype\": \"%s\", \"seq\": %" PRId64 ", \"batch\": %" PRId64 ", \"machine\": \"%s\", \"measured\": %s, "
           "\"predicted\": %.3f, \"seconds\": %.3f, \"ratio\": %.3f, \"forward\": [%.3f, %.3f], \"backward\": [%.3f, %.3f], \"update\": [%.3f, %.3f]}\n",
           o->dtype, o->seq, o->batch, rp__cost_machine(table), rp__cost_measured(table) ? "true" : "false", p.sum.seconds, best.seconds,
           p.sum.seconds / best.seconds, p.sum.forward, best.forward, p.sum.backward, best.backward, p.sum.update, best.update);
    rp__cost_table_free(table);
}

/* ---- one step a line ---- */

static void serve_bytes(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim, int64_t step, uint64_t *x)
{
    rp_mem mem;

    rp_mem_read(ctx, 0, true, &mem);
    one_step(ctx, o, m, optim, step, x);
    rp_mem_read(ctx, 0, false, &mem);
    printf("{\"peak_bytes\": %" PRId64 ", \"lasting_bytes\": %" PRId64 "}\n", mem.peak_bytes,
           2 * mem.live_at[RP_MEM_PARAM] + mem.live_at[RP_MEM_OPTIM]);      /* weights, as many gradients, moments */
}

static void serve(rp_ctx *ctx, const bench_options *o, rp_model *m, rp_optim *optim)
{
    char line[32], machine[RP_COST_MACHINE_CHARS];
    uint64_t x   = 1234;
    int64_t step = 0;
    rp_selection chosen;

    choose(ctx, m, o->ac, &chosen);
    while (step < o->warmup) one_step(ctx, o, m, optim, ++step, &x);
    printf("{\"ready\": true, \"machine\": \"%s\", \"version\": \"%s\"}\n", rp__cost_machine_text(ctx, machine), rp_version());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (!strcmp(line, "bytes\n")) serve_bytes(ctx, o, m, optim, ++step, &x);
        else if (strcmp(line, "step\n")) fail(NULL, line);
        else {
            timing t = one_step(ctx, o, m, optim, ++step, &x);
            printf("{\"seconds\": %.6f, \"loss\": %.9g}\n", t.seconds, t.loss);
        }
        fflush(stdout);
    }
    unchoose(ctx, &chosen);
}

int main(int argc, char **argv)
{
    bench_options o        = parse(argc, argv);
    rp_ctx_options options = { .threads = (int)o.threads, .seed = 1234 };
    rp_dtype dtype         = strcmp(o.dtype, "bf16") ? RP_F32 : RP_BF16;
    rp_ctx *ctx;

    if (rp_ctx_new(&options, &ctx)) fail(NULL, "context");
    rp_model *m     = build(ctx, &o, dtype);
    rp_optim *optim = build_optim(ctx, m, dtype);
    if (o.costs) run_costs(ctx, &o, m, optim);
    else if (o.serve) serve(ctx, &o, m, optim);
    else if (o.pairs) run_pairs(ctx, &o, m, optim);
    else run_steps(ctx, &o, m, optim);
    rp__optim_free(optim);
    rp__model_free(m);
    rp_ctx_free(ctx);
    return 0;
}
