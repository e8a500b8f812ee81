/* bench/tape.c -- what the tape itself costs: microseconds a call for recording, planning and backward, on shapes alone.
 *
 *   bench_tape
 *
 * A chain of calls in no region, in one, in small ones, in small ones inside one, and each in its own; few calls and eight times as many. Work that
 * is not proportional to the calls shows as a second number above the first. Processor time, the least of five.
 */
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tape/tape.h"

enum { CALLS = 5000, A_REGION = 20, TRIES = 5 };

typedef struct { const char *name; bool one; int small; } shape;      /* small: calls of a region; 0: none */

static const shape shapes[] = {
    { "no region", false, 0 }, { "one region", true, 0 }, { "small regions", false, A_REGION }, { "small regions in one", true, A_REGION },
    { "a region a call", false, 1 },
};

static void must(const rp_ctx *ctx, rp_status status)
{
    if (status == RP_OK) return;
    fprintf(stderr, "bench_tape: %s\n", rp_error(ctx));
    exit(1);
}

static rp_tensor *next(rp_ctx *ctx, rp_tensor *x, rp_tensor *w, int i)
{
    rp_tensor *y;

    must(ctx, rp_apply(ctx, i % 2 ? "mul" : "silu", NULL, (rp_tensor *[]){ x, w }, i % 2 ? 2 : 1, &y));
    rp_tensor_unref(x);
    return y;
}

static void chain(rp_ctx *ctx, rp_tensor *w, const shape *s, int calls)
{
    rp_tensor *x = rp_tensor_ref(w), *row, *loss;

    if (s->one) must(ctx, rp__region_begin(ctx, "all"));
    for (int i = 0; i < calls; i++) {
        if (s->small && i % s->small == 0) must(ctx, rp__region_begin(ctx, "small"));
        x = next(ctx, x, w, i);
        if (s->small && i % s->small == s->small - 1) must(ctx, rp__region_end(ctx));
    }
    if (s->one) must(ctx, rp__region_end(ctx));
    must(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &x, 1, &row));
    must(ctx, rp_apply(ctx, "sum", &(rp_attr_dim){ 0 }, &row, 1, &loss));
    must(ctx, rp__backward(ctx, loss));
    rp_tensor_unref(x);
    rp_tensor_unref(row);
    rp_tensor_unref(loss);
    rp_tensor_drop_grad(w);
}

static double us_a_call(rp_ctx *ctx, rp_tensor *w, const shape *s, int calls)
{
    double least = INFINITY;

    for (int i = 0; i < TRIES; i++) {
        clock_t start = clock();
        chain(ctx, w, s, calls);
        least = fmin(least, 1e6 * (double)(clock() - start) / CLOCKS_PER_SEC / calls);
    }
    return least;
}

int main(void)
{
    rp_ctx *ctx;
    rp_tensor *w;
    double plain = 0;

    mallopt(M_TRIM_THRESHOLD, INT_MAX);      /* fresh pages are not the tape's cost */
    mallopt(M_MMAP_MAX, 0);
    if (rp_ctx_new(&(rp_ctx_options){ .shapes_only = true }, &ctx)) return 1;
    must(ctx, rp_tensor_new(ctx, &(rp_meta){ RP_F32, 2, { 4, 4 } }, RP_MEM_PARAM, &w));
    rp_tensor_require_grad(w, true);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        double us = us_a_call(ctx, w, &shapes[i], CALLS);
        if (i == 0) plain = us;
        printf("%-22s %6.2f us a call of %d, %6.2f of %d\n", shapes[i].name, us, CALLS, us_a_call(ctx, w, &shapes[i], 8 * CALLS), 8 * CALLS);
        if (shapes[i].small == 1) printf("%-22s %6.2f us: nothing in it runs again\n", "a region itself", us - plain);
    }
    rp_tensor_unref(w);
    rp_ctx_free(ctx);
    return 0;
}
