/* bench/plan.c -- how fast the chain's solver is and how good its plans are: chains like a step of Llama 3 8B with 8192 tokens.
 *
 *   bench_plan [BLOCKS ...]                 32, 80 and 126 where none are named
 *
 * For each budget, given as a share of what lies between the least budget of one level and that of the fastest plan (below 0: between
 * the least with regions and the least of one level): time to solve, overhead, gap to the bound, and what the best policy that treats
 * all blocks alike, and k blocks made again as a whole, cost in the same bytes. Overhead and gap are in % of a step in which nothing
 * runs again. Then 50 budgets one after another. Times are the processor's, the least of three.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/plan/chain_solve.h"
#include "../tests/plan/llama_chain.h"

enum { TRIES = 3, SWEEP = 50 };

static rp_ctx *ctx;
static llama_chain c;

static void must(rp_status status)
{
    if (status == RP_OK) return;
    fprintf(stderr, "bench_plan: %s\n", rp_error(ctx));
    exit(1);
}

static double ms_since(clock_t start) { return 1e3 * (double)(clock() - start) / CLOCKS_PER_SEC; }

static double ms_to_solve(int64_t budget, rp_chain_plan *plan)
{
    double least = INFINITY;

    for (int i = 0; i < TRIES; i++) {
        if (i) rp__chain_plan_free(plan);
        clock_t start = clock();
        must(chain_solve(ctx, &c.chain, budget, plan));
        least = fmin(least, ms_since(start));
    }
    return least;
}

/* Blocks 0 … n-1 meet `here`, the others `elsewhere`: seconds, or infinity where that does not fit. */
static double seconds_of(int n, int here, int elsewhere, int64_t budget)
{
    int option[LLAMA_MOST_SEGMENTS] = { 0 };
    double sum                      = 0;

    for (int i = 1; i + 1 < c.chain.n; i++) {
        option[i] = i <= n ? here : elsewhere;
        sum += c.block[option[i]].seconds;
    }
    return rp__chain_bytes(&c.chain, option, NULL, 0) <= budget ? sum : INFINITY;
}

static double best_alike(int64_t budget)
{
    double best = INFINITY;

    for (int o = 0; o < c.class_of[1].n_options; o++) best = fmin(best, seconds_of(0, o, o, budget));
    return best;
}

static double best_whole(int64_t budget)
{
    double best = INFINITY;

    for (int n = 0; n + 2 <= c.chain.n; n++) best = fmin(best, seconds_of(n, 0, c.class_of[1].n_options - 1, budget));
    return best;
}

static void print_share(int percent, int64_t budget)
{
    rp_chain_plan plan;
    double ms = ms_to_solve(budget, &plan), of_step = 100 / c.step_seconds;

    printf("| %3d %% | %6.1f ms | %8.3f %% | %.4f %% | %6.2f %% | %6.2f %% | %d%s |\n", percent, ms, of_step * plan.seconds,
           of_step * (plan.seconds - plan.bound), of_step * best_alike(budget), of_step * best_whole(budget), plan.n_regions,
           plan.exact ? "" : ", work limit met");
    rp__chain_plan_free(&plan);
}

static double sweep_ms(int64_t least, int64_t most)
{
    clock_t start = clock();

    for (int i = 0; i < SWEEP; i++) {
        rp_chain_plan plan;
        must(chain_solve(ctx, &c.chain, least + (most - least) * i / (SWEEP - 1), &plan));
        rp__chain_plan_free(&plan);
    }
    return ms_since(start);
}

static void print_chain(int blocks)
{
    int64_t flat, least;
    rp_chain_plan fastest;

    llama_chain_make(&c, blocks, &llama_8b);
    must(chain_least(ctx, &c.chain, &flat));
    must(chain_solve(ctx, &c.chain, INT64_MAX, &fastest));
    c.chain.regions = true;
    must(chain_least(ctx, &c.chain, &least));
    printf("%d blocks, %d options each; bytes: %" PRId64 " least, %" PRId64 " of one level, %" PRId64 " of the fastest plan\n\n", blocks,
           c.class_of[1].n_options, least, flat, fastest.bytes);
    printf("| budget | time | overhead | gap | alike | whole blocks | regions |\n| --- | --- | --- | --- | --- | --- | --- |\n");
    for (int share = -20; share < 0; share += 5) print_share(share * 4, flat + (flat - least) * share / 20);
    for (int share = 0; share <= 100; share += 5) print_share(share, flat + (fastest.bytes - flat) * share / 100);
    printf("\n%d budgets from the least on: %.0f ms\n\n", SWEEP, sweep_ms(least, fastest.bytes));
    rp__chain_plan_free(&fastest);
}

int main(int argc, char **argv)
{
    static const int blocks[] = { 32, 80, 126 };

    if (rp_ctx_new(&(rp_ctx_options){ .shapes_only = true }, &ctx)) return 1;
    for (int i = 1; i < argc; i++) print_chain((int)strtol(argv[i], NULL, 10));
    for (int i = 0; i < RP_COUNT(blocks) && argc == 1; i++) print_chain(blocks[i]);
    rp_ctx_free(ctx);
    return 0;
}
