/* bench/attention.c -- causal attention, forward and backward, by the levels of this CPU in turn, in ms and GF/s.
 *
 *   bench_attention [ROUNDS [LEVEL ...]]                12 rounds, levels amx, zen4 and v4 by default
 *
 *   | shape | level | dtype | forward ms | GF/s | backward ms | GF/s |     rows of a Markdown table; the median round
 *
 * All levels run in every round, so that what else the machine does falls on each. Work is counted as two products forward, five
 * backward, over the half that is seen.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { MOST_ROUNDS = 200, PASSES = 2 };

typedef struct { int64_t batch, length, heads, kv_heads, dim; float dropout; } shape;

static const shape shapes[] = {
    { 2, 512, 9, 3, 64, 0 },   { 1, 2048, 9, 3, 64, 0 },  { 2, 512, 9, 9, 64, 0 },      { 1, 2048, 9, 9, 64, 0 },
    { 2, 512, 8, 8, 128, 0 },  { 1, 2048, 8, 8, 128, 0 }, { 2, 512, 12, 12, 64, 0.1f }, { 1, 2048, 9, 3, 64, 0.1f },
};

static void *filled(rp_dtype dtype, int64_t n)
{
    void *p       = aligned_alloc(RP_ALIGN, (size_t)rp__align_up(n * rp_dtype_bytes(dtype)));
    unsigned seed = 1;

    if (!p) exit(1);
    for (int64_t i = 0; i < n; i++) {
        seed    = seed * 1664525u + 1013904223u;
        float v = (float)(seed >> 8) / 8388608.0f - 1.0f;
        if (dtype == RP_F32) ((float *)p)[i] = v;
        else ((uint16_t *)p)[i] = rp__bf16_from_f32(v);
    }
    return p;
}

static rp_attention_part part(rp_dtype dtype, const shape *s, int64_t heads)
{
    return (rp_attention_part){ .dtype = dtype, .data = filled(dtype, s->batch * s->length * heads * s->dim),
                                .batch_step = s->length * heads * s->dim, .row_step = heads * s->dim, .head_step = s->dim };
}

static rp_attention call_new(const rp_kernels *level, rp_dtype dtype, const shape *s, int threads)
{
    rp_attention a = { .batch = s->batch, .queries = s->length, .keys = s->length, .heads = s->heads, .kv_heads = s->kv_heads, .dim = s->dim,
                       .scale = 1.0f / sqrtf((float)s->dim), .dropout = s->dropout, .causal = true, .stream = { 1, 2, 3 }, .on.threads = threads };
    rp_attention_part *rows[] = { &a.q, &a.out, &a.grad_out, &a.dq }, *keys[] = { &a.k, &a.v, &a.dk, &a.dv };
    int64_t forward, backward;

    for (int i = 0; i < 4; i++) *rows[i] = part(dtype, s, s->heads), *keys[i] = part(dtype, s, s->kv_heads);
    a.lse = filled(RP_F32, s->batch * s->heads * s->length);
    level->attention_forward_scratch(&a, &forward);
    level->attention_backward_scratch(&a, &backward);
    a.scratch = filled(RP_F32, (forward > backward ? forward : backward) / 4 + 1);
    return a;
}

static void call_free(rp_attention *a)
{
    void *all[] = { a->q.data, a->k.data, a->v.data, a->out.data, a->grad_out.data, a->dq.data, a->dk.data, a->dv.data, a->lse, a->scratch };

    for (int i = 0; i < RP_COUNT(all); i++) free(all[i]);
}

static double seconds_of(const rp_kernels *level, const rp_attention *a, int pass)
{
    double start = rp__seconds();

    if (pass) level->attention_backward(a);
    else level->attention_forward(a);
    return rp__seconds() - start;
}

static int upwards(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_row(const shape *s, const rp_kernels *level, rp_dtype dtype, double seconds[PASSES][MOST_ROUNDS], int rounds)
{
    double work = 2e-9 * (double)(s->batch * s->heads * s->dim) * (double)(s->length * (s->length + 1) / 2);

    printf("| %d x %d, %d/%d heads of %d, dropout %g | %s | %s |", (int)s->batch, (int)s->length, (int)s->heads, (int)s->kv_heads, (int)s->dim,
           (double)s->dropout, level->level, rp_dtype_name(dtype));
    for (int pass = 0; pass < PASSES; pass++) {
        qsort(seconds[pass], (size_t)rounds, sizeof(double), upwards);
        double median = seconds[pass][rounds / 2];
        printf(" %.2f (%.2f) | %.0f |", median * 1e3, seconds[pass][0] * 1e3, (pass ? 5 : 2) * work / median);
    }
    putchar('\n');
    fflush(stdout);
}

static void measure(const shape *s, rp_dtype dtype, const rp_kernels **levels, int n_levels, int rounds, int threads)
{
    static double seconds[RP_MAX_LEVELS][PASSES][MOST_ROUNDS];
    rp_attention call[RP_MAX_LEVELS];

    for (int l = 0; l < n_levels; l++) call[l] = call_new(levels[l], dtype, s, threads);
    for (int round = -1; round < rounds; round++)
        for (int l = 0; l < n_levels; l++)
            for (int pass = 0; pass < PASSES; pass++) seconds[l][pass][round < 0 ? 0 : round] = seconds_of(levels[l], &call[l], pass);
    for (int l = 0; l < n_levels; l++) {
        print_row(s, levels[l], dtype, seconds[l], rounds);
        call_free(&call[l]);
    }
}

int main(int argc, char **argv)
{
    static const char *usual[] = { "amx", "zen4", "v4" };
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 12, n_names = argc > 2 ? argc - 2 : RP_COUNT(usual), n = 0;
    const char **names = argc > 2 ? (const char **)argv + 2 : usual;
    const rp_kernels *all[RP_MAX_LEVELS], *levels[RP_MAX_LEVELS];
    int n_all = rp__kernels_levels(all, RP_MAX_LEVELS);
    rp_ctx *ctx;

    if (rounds < 1 || rounds > MOST_ROUNDS || rp_ctx_new(NULL, &ctx)) return 2;
    for (int i = 0; i < n_names; i++)
        for (int l = 0; l < n_all && n < RP_MAX_LEVELS; l++)
            if (!strcmp(all[l]->level, names[i])) levels[n++] = all[l];
    printf("%d threads; the median round and (the best)\n\n", ctx->threads);
    printf("| batch x length | level | dtype | forward ms | GF/s | backward ms | GF/s |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (int i = 0; i < RP_COUNT(shapes); i++) {
        measure(&shapes[i], RP_BF16, levels, n, rounds, ctx->threads);
        measure(&shapes[i], RP_F32, levels, n ? 1 : 0, rounds, ctx->threads);
    }
    rp_ctx_free(ctx);
    return 0;
}
