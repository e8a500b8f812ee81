/* bench/gemm.c -- the products of a linear layer by our kernel and, where the build found it, by oneDNN, in turn, in GF/s.
 *
 *   bench_gemm [ROUNDS]                          12 by default
 *
 *   | tokens, in -> out | ... |                  rows of a Markdown table; forward / dX / dW, dW added to fp32; the median round
 *
 * Both run in every round, so that what else the machine does falls on both. The greatest distance of a quartile from its median
 * is told at the end: a table with a large one says little. REPRISE_CPU names another level.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/onednn/gemm.h"
#include "kernels/kernels.h"

enum { MOST_ROUNDS = 200, PRODUCTS = 3, WAYS = 2, CALLS = 3 };      /* ways: ours, oneDNN's */

typedef struct { int64_t tokens, in, out; } shape;

static const shape shapes[] = {
    { 1024, 576, 576 },  { 1024, 576, 192 },   { 1024, 576, 1536 },  { 1024, 1536, 576 },   { 2048, 576, 1536 }, { 2048, 512, 1408 },
    { 1024, 768, 3072 }, { 512, 2048, 8192 },  { 2048, 2048, 8192 }, { 1024, 576, 49152 },
};

typedef struct {
    rp_gemm g;
    void *a, *b, *c, *scratch;
    onednn_product *other;          /* NULL: there is none */
} product;

static double sum_of_logs[2][WAYS];     /* by dtype */
static double widest;                   /* of all measurements: (quartile - median) / median */

static void *filled(rp_dtype dtype, int64_t n)
{
    size_t bytes = ((size_t)(n * rp_dtype_bytes(dtype)) | ((2 << 20) - 1)) + 1;
    void *p      = aligned_alloc(2 << 20, bytes);

    if (!p) exit(1);
    madvise(p, bytes, MADV_HUGEPAGE);       /* as the arena has them */
    for (int64_t i = 0; i < n; i++) {
        float v = (float)(i * 37 % 101) / 101.0f - 0.5f;
        if (dtype == RP_F32) ((float *)p)[i] = v;
        else ((uint16_t *)p)[i] = rp__bf16_from_f32(v);
    }
    return p;
}

static product product_new(rp_ctx *ctx, rp_dtype dtype, const shape *s, int which)
{
    static const struct { bool transpose_a, transpose_b, adds; } kind[PRODUCTS] = {
        { false, true, false }, { false, false, false }, { true, false, true },
    };
    int64_t m[] = { s->tokens, s->tokens, s->out }, n[] = { s->out, s->in, s->in }, k[] = { s->in, s->out, s->tokens };
    product p   = { .g = { .ab = dtype, .c = which == 2 ? RP_F32 : dtype, .m = m[which], .n = n[which], .k = k[which],
                           .transpose_a = kind[which].transpose_a, .transpose_b = kind[which].transpose_b, .adds = kind[which].adds,
                           .on = ctx->on } };
    int64_t scratch;

    if (rp__gemm_scratch(ctx, rp__kernels(ctx), &p.g, &scratch)) exit(1);
    p.a       = filled(dtype, p.g.m * p.g.k);
    p.b       = filled(dtype, p.g.k * p.g.n);
    p.c       = filled(p.g.c, p.g.m * p.g.n);
    p.scratch = aligned_alloc(RP_ALIGN, (size_t)rp__align_up(scratch + 1));
    if (!p.scratch) exit(1);
    p.other = onednn_new(&p.g, p.a, p.b, p.c);
    return p;
}

static void product_free(product *p)
{
    onednn_free(p->other);
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->scratch);
}

static double call_seconds(rp_ctx *ctx, const product *p, int way)
{
    double start = rp__seconds();

    if (way ? !onednn_run(p->other) : rp__gemm(ctx, rp__kernels(ctx), &p->g, p->a, p->b, p->c, NULL, p->scratch) != RP_OK) exit(1);
    return rp__seconds() - start;
}

/* The best of some calls. Each way has its own threads: before, those of the other, which wait for work busily, get time to give up, and
 * these to wake. */
static double seconds_of(rp_ctx *ctx, const product *p, int way)
{
    const double warm_seconds = 10e-3;
    double best = INFINITY, warm = 0;

    while (warm < warm_seconds) warm += call_seconds(ctx, p, way);
    for (int call = 0; call < CALLS; call++) best = fmin(best, call_seconds(ctx, p, way));
    return best;
}

static int upwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *seconds, int n)
{
    qsort(seconds, (size_t)n, sizeof *seconds, upwards);
    double middle = seconds[n / 2], low = seconds[n / 4], high = seconds[3 * n / 4];
    widest = fmax(widest, fmax(middle - low, high - middle) / middle);
    return middle;
}

/* GF/s of both ways; NAN where there is none. */
static void measure(rp_ctx *ctx, rp_dtype dtype, const shape *s, int which, int rounds, double out[WAYS])
{
    static double seconds[WAYS][MOST_ROUNDS];
    product p  = product_new(ctx, dtype, s, which);
    int n_ways = p.other ? WAYS : 1;

    for (int way = 0; way < n_ways; way++) seconds_of(ctx, &p, way);
    for (int round = 0; round < rounds; round++)
        for (int way = 0; way < n_ways; way++) seconds[way][round] = seconds_of(ctx, &p, way);
    out[1] = NAN;
    for (int way = 0; way < n_ways; way++)
        out[way] = 2e-9 * (double)p.g.m * (double)p.g.n * (double)p.g.k / median(seconds[way], rounds);
    product_free(&p);
}

static int n_columns(void) { return onednn_name() ? WAYS : 1; }      /* of each dtype */

static void print_cells(rp_ctx *ctx, rp_dtype dtype, const shape *s, int rounds)
{
    double gf[PRODUCTS][WAYS];

    for (int which = 0; which < PRODUCTS; which++) measure(ctx, dtype, s, which, rounds, gf[which]);
    for (int way = 0; way < n_columns(); way++) {
        printf(" %.0f / %.0f / %.0f |", gf[0][way], gf[1][way], gf[2][way]);
        for (int which = 0; which < PRODUCTS; which++) sum_of_logs[dtype == RP_BF16][way] += log(gf[which][way]);
    }
    fflush(stdout);
}

static void print_head(rp_ctx *ctx)
{
    printf("%d threads, level %s\n\n| tokens, in -> out |", ctx->threads, rp__kernels_cpu()->level);
    for (int d = 0; d < 2; d++)
        for (int way = 0; way < n_columns(); way++) printf(" %s %s |", way ? onednn_name() : "own", d ? "bf16" : "fp32");
    printf("\n| --- |");
    for (int column = 0; column < 2 * n_columns(); column++) printf(" --- |");
    putchar('\n');
}

static void print_ratios(void)
{
    putchar('\n');
    for (int d = 0; d < 2 && n_columns() == WAYS; d++)
        printf("%s own over %s, geometric mean: %.3f\n", d ? "bf16" : "fp32", onednn_name(),
               exp((sum_of_logs[d][0] - sum_of_logs[d][1]) / (PRODUCTS * RP_COUNT(shapes))));
    printf("quartiles within %.0f %% of their medians\n", 100 * widest);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 12;
    rp_ctx *ctx;

    if (rounds < 1 || rounds > MOST_ROUNDS || rp_ctx_new(NULL, &ctx)) return 2;
    print_head(ctx);
    for (int i = 0; i < RP_COUNT(shapes); i++) {
        printf("| %" PRId64 ", %" PRId64 " -> %" PRId64 " |", shapes[i].tokens, shapes[i].in, shapes[i].out);
        print_cells(ctx, RP_F32, &shapes[i], rounds);
        print_cells(ctx, RP_BF16, &shapes[i], rounds);
        putchar('\n');
    }
    print_ratios();
    rp_ctx_free(ctx);
    return 0;
}
