/* bench/pointwise.c -- what a step does beside its products, kernel by kernel: milliseconds a step and GB/s.
 *
 *   bench_pointwise [ROUNDS] [KERNEL]            50 by default; all kernels
 *
 *   | kernel | fp32 ms | GB/s | bf16 ms | GB/s |     rows of a Markdown table, for SmolLM2-135M at 1024 tokens: the best round
 *
 * A call works on buffers that no call of the last half gigabyte touched, as in a step, where a layer's turn comes once. The row `copy`
 * is memcpy: what the memory does. Bytes are those a kernel must read and write; ms are those of all its calls in a step.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"

enum { MOST_ROUNDS = 10000, CALLS = 4, TOKENS = 1024, WIDTH = 576, INNER = 1536, HEAD = 64, VOCAB = 49152, LAYERS = 30, PARAMS = 134515008 };

static const int64_t ring_bytes = INT64_C(1) << 29;

typedef struct {
    const rp_kernels *k;
    rp_dtype dtype;
    rp_on on;
    uint8_t *ring;
    int64_t at;
    float *small, *cosine, *sine, *scratch;     /* statistics of rows, a table of angles */
    int32_t *ids, *order, *first;
} place;

/* n elements that were not touched for a while; all hold numbers near 1. */
static void *fresh(place *p, int64_t n)
{
    int64_t bytes = rp__align_up(n * rp_dtype_bytes(p->dtype));

    if (p->at + bytes > ring_bytes) p->at = 0;
    p->at += bytes;
    return p->ring + p->at - bytes;
}

/* ---- one call of each kernel; what it must move, in elements ---- */

static void run_copy(place *p) { memcpy(fresh(p, TOKENS * INNER), fresh(p, TOKENS * INNER), (size_t)(TOKENS * INNER * rp_dtype_bytes(p->dtype))); }

static void run_add(place *p)
{
    const rp_spread flat = { .ndim = 1, .has = { 1, 1, 0 }, .dim = { TOKENS * WIDTH } };

    p->k->binary_forward(RP_BINARY_ADD, p->dtype, &flat, fresh(p, TOKENS * WIDTH), fresh(p, TOKENS * WIDTH), NULL, fresh(p, TOKENS * WIDTH), &p->on);
}

static void run_rmsnorm(place *p)
{
    p->k->rmsnorm_forward(p->dtype, fresh(p, TOKENS * WIDTH), fresh(p, WIDTH), 0, fresh(p, TOKENS * WIDTH), p->small, TOKENS, WIDTH,
                          1e-5f, &p->on);
}

static void run_rmsnorm_backward(place *p)
{
    p->k->rmsnorm_backward(p->dtype, fresh(p, TOKENS * WIDTH), fresh(p, WIDTH), 0, p->small, fresh(p, TOKENS * WIDTH),
                           fresh(p, TOKENS * WIDTH), true, fresh(p, WIDTH), p->dtype, false, TOKENS, WIDTH, p->scratch, &p->on);
}

static void run_swiglu(place *p)
{
    p->k->swiglu_forward(p->dtype, fresh(p, TOKENS * INNER), fresh(p, TOKENS * INNER), fresh(p, TOKENS * INNER), TOKENS * INNER, &p->on);
}

static void run_swiglu_backward(place *p)
{
    p->k->swiglu_backward(p->dtype, fresh(p, TOKENS * INNER), fresh(p, TOKENS * INNER), fresh(p, TOKENS * INNER), fresh(p, TOKENS * INNER),
                          p->dtype, false, fresh(p, TOKENS * INNER), p->dtype, false, TOKENS * INNER, &p->on);
}

static void run_gelu(place *p)
{
    p->k->unary_forward(RP_UNARY_GELU_TANH, p->dtype, fresh(p, TOKENS * INNER), 0, fresh(p, TOKENS * INNER), TOKENS * INNER, &p->on);
}

static void run_gelu_backward(place *p)
{
    p->k->unary_backward(RP_UNARY_GELU_TANH, p->dtype, fresh(p, TOKENS * INNER), 0, fresh(p, TOKENS * INNER), fresh(p, TOKENS * INNER), p->dtype, false,
                         TOKENS * INNER, &p->on);
}

static void run_rotary(place *p)
{
    p->k->rotary(p->dtype, fresh(p, TOKENS * WIDTH), p->ids, p->cosine, p->sine, fresh(p, TOKENS * WIDTH), p->dtype, false, false, TOKENS,
                 WIDTH / HEAD, HEAD, TOKENS, HEAD / 2, &p->on);
}

static void run_embedding_backward(place *p)
{
    p->k->embedding_backward(p->dtype, fresh(p, TOKENS * WIDTH), p->order, p->first, fresh(p, (int64_t)VOCAB * WIDTH), p->dtype, true, VOCAB,
                             WIDTH, &p->on);
}

static void run_cross_entropy(place *p)
{
    static const float one = 1;
    void *logits = fresh(p, 256 * (int64_t)VOCAB);

    p->k->cross_entropy_forward(p->dtype, logits, p->ids, -100, p->small, p->small + 256, 256, VOCAB, &p->on);
    p->k->cross_entropy_backward(p->dtype, logits, p->ids, -100, p->small + 256, 1.0f, &one, logits, p->dtype, false, 256, VOCAB, &p->on);
}

static void run_column_sum(place *p)
{
    p->k->column_sum(p->dtype, fresh(p, TOKENS * INNER), TOKENS, INNER, p->small, RP_F32, false, &p->on);
}

static void run_sum_squares(place *p)
{
    double sum;

    p->k->sum_squares(p->dtype, fresh(p, INNER * WIDTH * 8), 0, INNER * WIDTH * 8, &sum, &p->on);
}

static void run_adamw(place *p)
{
    int64_t n          = INNER * WIDTH * 8;
    rp_optim_call call = { .on = p->on, .n = n, .param_dtype = p->dtype, .grad_dtype = p->dtype, .state_dtype = p->dtype,
                           .param = fresh(p, n), .state = { fresh(p, n), fresh(p, n) }, .grad = fresh(p, n), .lr = 1e-9, .grad_scale = 1,
                           .weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .bias1 = 0.1, .bias2 = 0.001, .step = 1 };

    p->k->adamw(&call);
}

typedef struct {
    const char *name;
    void (*run)(place *);
    int64_t elems;              /* read and written by a call */
    double calls;               /* a step */
} work;

static const work works[] = {
    { "copy", run_copy, 2 * TOKENS * INNER, LAYERS },
    { "add", run_add, 3 * TOKENS * WIDTH, 2 * LAYERS },
    { "rmsnorm", run_rmsnorm, 2 * TOKENS * WIDTH, 2 * LAYERS + 1 },
    { "rmsnorm backward", run_rmsnorm_backward, 4 * TOKENS * WIDTH, 2 * LAYERS + 1 },
    { "swiglu", run_swiglu, 3 * TOKENS * INNER, LAYERS },
    { "swiglu backward", run_swiglu_backward, 5 * TOKENS * INNER, LAYERS },
    { "gelu_tanh", run_gelu, 2 * TOKENS * INNER, LAYERS },
    { "gelu_tanh backward", run_gelu_backward, 3 * TOKENS * INNER, LAYERS },
    { "rotary", run_rotary, 2 * TOKENS * WIDTH, LAYERS * 4.0 / 3 },
    { "embedding backward", run_embedding_backward, 3 * TOKENS * WIDTH, 1 },
    { "cross_entropy, both", run_cross_entropy, 3 * 256 * VOCAB, 4 },
    { "column_sum", run_column_sum, TOKENS * INNER, LAYERS },
    { "sum_squares", run_sum_squares, INNER * WIDTH * 8, (double)PARAMS / (INNER * WIDTH * 8) },
    { "adamw", run_adamw, 7 * INNER * WIDTH * 8, (double)PARAMS / (INNER * WIDTH * 8) },
};

static void *must(void *p)
{
    if (!p) exit(1);
    return p;
}

static void fill(place *p, rp_dtype dtype)
{
    p->dtype = dtype;
    for (int64_t i = 0; i < ring_bytes / rp_dtype_bytes(dtype); i++) {
        float v = 0.5f + (float)(i * 37 % 101) / 101.0f;
        if (dtype == RP_F32) ((float *)p->ring)[i] = v;
        else ((uint16_t *)p->ring)[i] = rp__bf16_from_f32(v);
    }
}

static place place_new(rp_ctx *ctx)
{
    int64_t angles = TOKENS * HEAD / 2;
    place p        = { .k = rp__kernels_cpu(), .on = ctx->on, .ring = must(aligned_alloc(1 << 21, (size_t)ring_bytes)),
                       .small = must(malloc(VOCAB * sizeof(float))), .cosine = must(malloc((size_t)angles * sizeof(float))),
                       .sine = must(malloc((size_t)angles * sizeof(float))), .ids = must(malloc(TOKENS * sizeof(int32_t))),
                       .order = must(malloc(TOKENS * sizeof(int32_t))), .first = must(calloc(VOCAB + 1, sizeof(int32_t))),
                       .scratch = must(malloc((size_t)(4 * WIDTH * ctx->threads) * sizeof(float))) };

    for (int i = 0; i < VOCAB; i++) p.small[i] = 1;
    for (int64_t i = 0; i < angles; i++) p.cosine[i] = 0.8f, p.sine[i] = 0.6f;
    for (int i = 0; i < TOKENS; i++) p.ids[i] = p.order[i] = i;
    for (int i = 0; i < VOCAB; i++) p.first[i + 1] = p.first[i] + (i % (VOCAB / TOKENS) == 0);
    return p;
}

static double seconds_of(place *p, const work *w, int64_t rounds)
{
    double best = 1e9;

    for (int64_t r = 0; r <= rounds; r++) {
        double start = rp__seconds();
        for (int i = 0; i < CALLS; i++) w->run(p);
        double took = (rp__seconds() - start) / CALLS;
        if (took < best) best = took;
    }
    return best;
}

int main(int argc, char **argv)
{
    int64_t rounds   = 50;
    const char *only = argc > 2 ? argv[2] : "";
    double ms[2][RP_COUNT(works)];
    rp_ctx *ctx;

    if ((argc > 1 && !rp__parse_int(argv[1], 1, MOST_ROUNDS, &rounds)) || rp_ctx_new(NULL, &ctx)) return 2;
    place p       = place_new(ctx);
    unsigned mode = rp__fp_enter();
    for (int d = 0; d < 2; d++) {
        fill(&p, d ? RP_BF16 : RP_F32);
        for (int i = 0; i < RP_COUNT(works); i++)
            if (strstr(works[i].name, only)) ms[d][i] = 1e3 * works[i].calls * seconds_of(&p, &works[i], rounds);
    }
    rp__fp_leave(mode);
    printf("| kernel (%s) | fp32 ms | GB/s | bf16 ms | GB/s |\n| --- | --- | --- | --- | --- |\n", p.k->level);
    for (int i = 0; i < RP_COUNT(works); i++)
        if (strstr(works[i].name, only))
            printf("| %s | %.2f | %.1f | %.2f | %.1f |\n", works[i].name, ms[0][i], (double)works[i].elems * works[i].calls * 4e-6 / ms[0][i],
                   ms[1][i], (double)works[i].elems * works[i].calls * 2e-6 / ms[1][i]);
    rp_ctx_free(ctx);
    return 0;
}
