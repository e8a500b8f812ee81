/* bench/memory.c -- where the memory of a training step goes, event by event: the step of a recipe on shapes alone, as CSV.
 *
 *   bench_memory RECIPE [KEY=VALUE ...]
 *
 *   work_flops,param,grad,optim,saved,temp,comm       bytes live by class after each allocation and release, and the
 *   ...                                               work done until then
 *
 * and on stderr one line about the whole step. It is the trainer's own rehearsal, so its peak is the `peak_memory_active` of
 * `reprise train` with that recipe, to the byte. Neither weights nor data are read.
 */
#include <stdio.h>
#include <stdlib.h>

#include "train/internal.h"

typedef struct { rp_ctx *ctx; int64_t step_flops, recompute_flops; } timeline;

static void fail(const rp_ctx *ctx, const char *what)
{
    fprintf(stderr, "bench_memory: %s: %s\n", what, ctx ? rp_error(ctx) : "");
    exit(1);
}

/* The ledger is read rather than summed from the events: a value that becomes saved changes its class without one. */
static void print_event(void *user, const rp_mem_event *event)
{
    timeline *t = user;
    rp_tape_stats work;
    rp_mem now;

    (void)event;
    rp__tape_stats(t->ctx, &work);
    t->step_flops += work.step_flops;
    t->recompute_flops += work.recompute_flops;
    rp_mem_read(t->ctx, 0, false, &now);
    printf("%" PRId64, t->step_flops + t->recompute_flops);
    for (int c = 0; c < RP_MEM_CLASSES; c++) printf(",%" PRId64, now.live_at[c]);
    putchar('\n');
}

static rp_model_source open_source(rp_ctx *ctx, const rp_recipe *recipe)
{
    rp_model_source source;
    rp_report report;

    rp__report_open(&report, ctx);
    if (rp__source_open(ctx, recipe, &report, &source)) fail(ctx, "model");
    rp__report_close(&report);
    return source;
}

static void print_step(rp_ctx *ctx, const rp_recipe *recipe)
{
    rp_model_source source = open_source(ctx, recipe);
    timeline t             = { .ctx = ctx };
    rp_step_result result;
    rp_engine engine;

    if (rp__engine_open(&engine, ctx, recipe, &source.config) || rp__engine_ready(&engine)) fail(ctx, "model");
    printf("work_flops");
    for (int c = 0; c < RP_MEM_CLASSES; c++) printf(",%s", rp_mem_class_name(c));
    putchar('\n');
    rp__mem_observe(ctx->space[0], print_event, &t);
    if (rp__engine_step(&engine, NULL, 0, 0, &result)) fail(ctx, "step");
    rp__mem_observe(ctx->space[0], NULL, NULL);
    fprintf(stderr, "peak %" PRId64 " bytes, saved for backward %" PRId64 ", work %" PRId64 " flops and %" PRId64 " again\n",
            result.memory.peak_bytes, result.saved_bytes, t.step_flops, t.recompute_flops);
    rp__engine_close(&engine);
    rp__source_close(&source);
}

int main(int argc, char **argv)
{
    rp_ctx *reading, *ctx;
    rp_recipe *recipe;

    if (argc < 2) fail(NULL, "which recipe?");
    if (rp_ctx_new(NULL, &reading)) fail(NULL, "context");
    if (rp_recipe_load(reading, argv[1], argc - 2, (const char *const *)argv + 2, &recipe)) fail(reading, argv[1]);
    rp_ctx_options options = rp__recipe_ctx_options(recipe);
    options.shapes_only    = true;
    if (rp_ctx_new(&options, &ctx)) fail(NULL, "context");
    print_step(ctx, recipe);
    rp_ctx_free(ctx);
    rp_recipe_free(recipe);
    rp_ctx_free(reading);
    return 0;
}
