/* cli/bench/internal.h -- what the files of cli/bench/bench.h share.
 *
 *   bench.c   names, rounds, ceilings          calls.c   calls of ops, updates          step.c   steps
 */
#ifndef CLI_BENCH_INTERNAL_H
#define CLI_BENCH_INTERNAL_H

#include "cli/bench/bench.h"
#include "cost/timed.h"

enum { RP_BENCH_MOST_ROUNDS = 101, RP_MAX_BENCH_THREADS = 256 };

typedef struct { const char *op, *shape; bool usual; rp_op_case call; } bench_call;
typedef struct { const char *name, *shape; bool usual; int64_t elements; } bench_update;
typedef struct { const char *model, *mode; bool usual; int64_t rows, length; } bench_step;

typedef struct {                        /* one row to be: exactly one of the three is set */
    const bench_call *call;
    const bench_update *update;
    const bench_step *step;
    rp_dtype dtype;
    const char *part;                   /* "forward", "backward", "dx", "dw", "update"; of a step its mode */
} bench_item;

/* What is timed: run does it once. */
typedef struct {
    rp_status (*run)(void *self);
    void *self;
    int64_t flops, bytes;
    rp_dtype dtype;
} bench_work;

typedef struct {
    rp_ctx *ctx;
    int rounds;                         /* 0: by time */
    rp_tensor *stream[3];               /* of the triad */
    int64_t peak_rounds[2];             /* of multiply-adds that take a few ms: fp32, bf16 */
    int n_ceilings;                     /* rounds so far, the last MOST of them in: */
    double *ceiling[3];                 /* fp32, bf16, memory */
} bench_machine;

/* The ceilings at this moment. */
rp_bench_ceilings rp__bench_look(bench_machine *m);

/* ---- a row while it is measured ---- */

typedef struct {
    int n;
    const char *bound;
    double seconds[RP_BENCH_MOST_ROUNDS], share[RP_BENCH_MOST_ROUNDS], products[RP_BENCH_MOST_ROUNDS], spent;
} bench_rounds;

/* The least time the work takes at these ceilings; *bound: the one that says so, NULL: none. */
double rp__bench_ideal(const bench_work *work, const rp_bench_ceilings *c, const char **bound);
/* Is one more wanted? `least` of them at least. */
bool rp__bench_more(const bench_machine *m, const bench_rounds *r, int least);
/* The next round of the work: ceilings, then runs that take a few ms together. */
rp_status rp__bench_round(bench_machine *m, const bench_work *work, double warm_seconds, bench_rounds *r);
rp_bench_spread rp__bench_spread(double *x, int n);
/* Warm, then rounds, then the row. */
rp_status rp__bench_rows(bench_machine *m, const bench_work *work, rp_bench_row *row);
void rp__bench_fill(bench_rounds *r, const bench_work *work, rp_bench_row *row);

/* Rows by themselves. */
rp_status rp__bench_call(bench_machine *m, const bench_item *item, rp_bench_row *row);
rp_status rp__bench_update(bench_machine *m, const bench_item *item, rp_bench_row *row);
rp_status rp__bench_step(bench_machine *m, const bench_item *item, rp_bench_row *row);

/* benches.def */
extern const bench_call rp__bench_calls[];
extern const bench_update rp__bench_updates[];
extern const bench_step rp__bench_steps[];
extern const int rp__bench_n_calls, rp__bench_n_updates, rp__bench_n_steps;

#endif
