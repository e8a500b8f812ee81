/* cli/bench/bench.h -- kernels and steps timed, each against what the machine does at best, in rounds.
 *
 *   one row:   warm │ round: ceilings ─ the thing, over and over │ round: ceilings ─ the thing │ …
 *
 *   seconds    of a round the mean of its runs; of the row the median of the rounds, with quartiles
 *   share      of a round: the least time its flops and bytes take at the ceilings of that very round, over its time. The ceilings are
 *              multiply-adds from registers alone, in fp32 or whichever of fp32 and bf16 is faster, and three streams through memory
 *              (kernels/cpu/peak.c); what fits caches may be above the latter
 *   products   of a step's round: what its matrix products and attentions take alone, on the same shapes, over the step's time
 *
 * What else the machine does falls on the thing and its ceilings alike. benches.def lists what there is; a call runs through its op's own
 * interface, in places of memory by turns, as in a step (cost/timed.h).
 */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "base/base.h"

#define RP_BENCH_NAME_CHARS 96

typedef struct { double median, low, high; } rp_bench_spread;     /* low, high: quartiles */

typedef struct {
    char name[RP_BENCH_NAME_CHARS];     /* "matmul:1024x576x1536:bf16:dw", "step:smollm2-135m:512x2:bf16:none" */
    int rounds;
    rp_bench_spread seconds;            /* of one run */
    int64_t flops, bytes;               /* of one run, as the op declares; of a step flops alone */
    const char *bound;                  /* the ceiling that is nearer: "fp32", "bf16", "memory"; NULL: none was measured */
    rp_bench_spread share;
    int64_t tokens;                     /* of a step; else 0 */
    rp_bench_spread products;           /* of a step */
} rp_bench_row;

typedef struct { double fp32, bf16, memory; } rp_bench_ceilings;  /* FLOP/s, bytes/s: medians of all rounds; 0: there is none */

typedef struct {
    const char *const *name;            /* what to run: whole names, beginnings that end before a colon, or globs. none: the usual */
    int n_names;
    int rounds;                         /* 0: as many as a third of a second holds, 5 to 15; of what is longer 3 */
    void (*told)(void *user, const rp_bench_row *row);     /* after each */
    void *user;
} rp_bench_options;

/* Every bench's name, in order; `usual`: it runs where no name is given. */
int rp__bench_count(void);
void rp__bench_name(int i, char out[RP_BENCH_NAME_CHARS], bool *usual);
/* How many a name means. */
int rp__bench_matches(const char *name);

/* errors those of what is run · RP_ERR_MEMORY · RP_ERR_STATE the context is of shapes alone */
rp_status rp__bench_run(rp_ctx *ctx, const rp_bench_options *options, rp_bench_ceilings *out);

#endif
