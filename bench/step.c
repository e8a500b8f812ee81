/* bench/step.c -- training steps of a model shape, timed: tokens/s and the ledger's bytes, one JSON line.
 *
 *   bench_step CONFIG.json [--dtype fp32|bf16] [--seq N] [--batch N] [--ac none|full] [--steps N] [--warmup N] [--threads N]
 *
 * Random weights; tokens by the same generator as the PyTorch peer, so that both do the same work. AdamW with states in the
 * parameters' dtype, as the peer has them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weights.h"
#include "train/optim.h"

typedef struct {
    const char *config, *dtype, *ac;
    int64_t seq, batch, steps, warmup, threads;
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

    make_batch(ctx, o, x, rp__model_config(m)->vocab, &batch);
    double start = rp__seconds();
    rp__pass_begin(ctx, step, 0);
    if (rp__model_loss(m, &batch, 1.0f / (float)(o->batch * (o->seq - 1)), -100, 0, &loss)) fail(ctx, "forward");
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
    if (rp__model_build(ctx, &config, dtype, &m)) fail(ctx, "model");
    rp__model_init(m, 1234);
    if (!strcmp(o->ac, "full")) rp_module_checkpoint(rp__model_root(m), rp__module_is_type, "TransformerBlock");
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

static bench_options parse(int argc, char **argv)
{
    bench_options o = { .dtype = "fp32", .ac = "none", .seq = 512, .batch = 2, .steps = 3, .warmup = 1 };

    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (name[0] != '-') { o.config = name; continue; }
        if (!strcmp(name, "--dtype")) o.dtype = value;
        else if (!strcmp(name, "--ac")) o.ac = value;
        else if (!strcmp(name, "--seq")) o.seq = atoll(value);
        else if (!strcmp(name, "--batch")) o.batch = atoll(value);
        else if (!strcmp(name, "--steps")) o.steps = atoll(value);
        else if (!strcmp(name, "--warmup")) o.warmup = atoll(value);
        else if (!strcmp(name, "--threads")) o.threads = atoll(value);
        else fail(NULL, name);
        i++;
    }
    if (!o.config) fail(NULL, "which config.json?");
    return o;
}

int main(int argc, char **argv)
{
    bench_options o        = parse(argc, argv);
    rp_ctx_options options = { .threads = (int)o.threads, .seed = 1234 };
    rp_dtype dtype         = strcmp(o.dtype, "bf16") ? RP_F32 : RP_BF16;
    uint64_t x             = 1234;
    timing best            = { .seconds = INFINITY };
    rp_ctx *ctx;
    rp_mem mem;

    if (rp_ctx_new(&options, &ctx)) fail(NULL, "context");
    rp_model *m     = build(ctx, &o, dtype);
    rp_optim *optim = build_optim(ctx, m, dtype);
    for (int64_t step = 1; step <= o.warmup + o.steps; step++) {
        if (step == o.warmup + 1) rp_mem_read(ctx, 0, true, &mem);
        timing t = one_step(ctx, &o, m, optim, step, &x);
        if (step > o.warmup && t.seconds < best.seconds) best = t;
    }
    rp_mem_read(ctx, 0, false, &mem);
    printf("{\"dtype\": \"%s\", \"ac\": \"%s\", \"seq\": %" PRId64 ", \"batch\": %" PRId64
           ", \"tokens_per_second\": %.1f, \"seconds\": %.3f, "
           "\"forward\": %.3f, \"backward\": %.3f, \"update\": %.3f, \"peak_mib\": %.1f, \"saved_mib\": %.1f, \"reserved_mib\": %.1f, "
           "\"loss\": %.9g}\n",
           o.dtype, o.ac, o.seq, o.batch, (double)(o.seq * o.batch) / best.seconds, best.seconds, best.forward, best.backward, best.update,
           (double)mem.peak_bytes / 1048576, (double)best.saved / 1048576, (double)mem.reserved_bytes / 1048576, best.loss);
    rp__optim_free(optim);
    rp__model_free(m);
    rp_ctx_free(ctx);
    return 0;
}
