/* cli/bench/bench.h -- times kernels and steps in rounds, and compares them with the peak rates of the machine.
 *
 *   one row:   warm-up │ round: ceilings ─ repeated runs │ round: ceilings ─ repeated runs │ …
 *
 *   seconds    of a round: the mean of its runs; of a row: the median of its rounds, with quartiles
 *   share      of a round: the shortest possible time at the ceilings of the same round, divided by its time. The ceilings are multiply-adds
 *              from registers, in fp32 or the faster of fp32 and bf16, and three streams through memory (kernels/cpu/peak.c). Work that fits
 *              into caches may exceed the memory ceiling
 *   products   of a round of a step: the time of its matrix products and attentions alone, on the same shapes, divided by the time of the step
 *
 * Other load on the machine slows down the work and its ceilings alike. benches.def lists the benches. A call runs through the interface of
 * its op and alternates between several places in memory, as in a step (cost/timed.h).
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
    int64_t flops, bytes;               /* of one run, as the op declares; a step has only flops */
    const char *bound;                  /* the limiting ceiling: "fp32", "bf16", "memory"; NULL: not measured */
    rp_bench_spread share;
    int64_t tokens;                     /* of a step; 0 for other rows */
    rp_bench_spread products;           /* of a step only */
} rp_bench_row;

typedef struct { double fp32, bf16, memory; } rp_bench_ceilings;  /* FLOP/s, bytes/s: medians of all rounds; 0: not measured */

typedef struct {
    const char *const *name;            /* whole names, prefixes that end before a colon, or globs; none: the usual set */
    int n_names;
    int rounds;                         /* 0: as many as fit into 0.3 s, 5 to 15; 3 for long work */
    void (*measured)(void *user, const rp_bench_row *row);     /* called after each row */
    void *user;
} rp_bench_options;

/* The number of benches, and the name of bench i. *usual: it runs if no name is given. */
int rp__bench_count(void);
void rp__bench_name(int i, char out[RP_BENCH_NAME_CHARS], bool *usual);
/* The number of benches that a name matches. */
int rp__bench_matches(const char *name);

/* Run benches. *out: the ceilings. errors RP_ERR_STATE a shapes-only context · RP_ERR_MEMORY · those of the benches */
rp_status rp__bench_run(rp_ctx *ctx, const rp_bench_options *options, rp_bench_ceilings *out);

#endif
