/* cli/bench/internal.h -- shared by the files of bench.
 *
 *   bench.c   names, rounds, ceilings          calls.c   calls of ops, updates          step.c   steps
 */
#ifndef CLI_BENCH_INTERNAL_H
#define CLI_BENCH_INTERNAL_H

#include "cli/bench/bench.h"
#include "cost/timed.h"

enum { RP_BENCH_MOST_ROUNDS = 101, RP_MAX_BENCH_THREADS = 256 };

typedef struct { const char *op, *shape; bool usual; rp_op_case call; } bench_call;
typedef struct { const char *name, *shape; bool usual; int64_t elements; bool coded; } bench_update;     /* coded: states in 8 bits */
typedef struct { const char *model, *mode; bool usual; int64_t rows, length; } bench_step;

typedef struct {                        /* a row to measure: exactly one of the three pointers is set */
    const bench_call *call;
    const bench_update *update;
    const bench_step *step;
    rp_dtype dtype;
    const char *part;                   /* "forward", "backward", "dx", "dw", "update"; for a step its mode */
} bench_item;

/* The timed work; run does it once. */
typedef struct {
    rp_status (*run)(void *self);
    void *self;
    int64_t flops, bytes;
    rp_dtype dtype;
} bench_work;

typedef struct {
    rp_ctx *ctx;
    int rounds;                         /* 0: decided by time */
    rp_tensor *stream[3];               /* tensors of the triad */
    int64_t peak_rounds[2];             /* rounds of multiply-adds that take a few ms: fp32, bf16 */
    int n_ceilings;                     /* number of measured ceilings, in: */
    double *ceiling[3];                 /* fp32, bf16, memory */
} bench_machine;

/* Measure the ceilings now. */
rp_bench_ceilings rp__bench_look(bench_machine *m);

/* ---- the rounds of a row ---- */

typedef struct {
    int n;
    const char *bound;
    double seconds[RP_BENCH_MOST_ROUNDS], share[RP_BENCH_MOST_ROUNDS], products[RP_BENCH_MOST_ROUNDS], spent;
} bench_rounds;

/* The shortest possible time of the work at these ceilings. *bound: the limiting ceiling; NULL: none was measured. */
double rp__bench_ideal(const bench_work *work, const rp_bench_ceilings *c, const char **bound);
/* Whether to run another round; `least`: minimum number of rounds. */
bool rp__bench_more(const bench_machine *m, const bench_rounds *r, int least);
/* Run the next round: ceilings, then runs that together take a few ms. */
rp_status rp__bench_round(bench_machine *m, const bench_work *work, double warm_seconds, bench_rounds *r);
rp_bench_spread rp__bench_spread(double *x, int n);
/* Warm up, run rounds, fill the row. */
rp_status rp__bench_rows(bench_machine *m, const bench_work *work, rp_bench_row *row);
void rp__bench_fill(bench_rounds *r, const bench_work *work, rp_bench_row *row);

/* Measure one row. errors those of its ops · RP_ERR_MEMORY */
rp_status rp__bench_call(bench_machine *m, const bench_item *item, rp_bench_row *row);
rp_status rp__bench_update(bench_machine *m, const bench_item *item, rp_bench_row *row);
rp_status rp__bench_step(bench_machine *m, const bench_item *item, rp_bench_row *row);

/* benches.def */
extern const bench_call rp__bench_calls[];
extern const bench_update rp__bench_updates[];
extern const bench_step rp__bench_steps[];
extern const int rp__bench_n_calls, rp__bench_n_updates, rp__bench_n_steps;

#endif
