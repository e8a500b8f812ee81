/* probes.h -- what the tests of docs/parity.md share: small ops that write down each of their runs, and calls that must succeed.
 *
 *   op        computes       backward reads                    attribute: the number under which its runs are counted
 *   square    x x            its input
 *   logistic  1/(1+e^-x)     its output
 *   twice     2 x            nothing
 *   pair      2 x and 3 x    nothing
 *   uneven    2 x, but one element is another in a replay      its input
 *   counter   x, and adds one to `probes.counter`: never replayed
 *   tally     x, and adds one to `probes.tally`, which a replay leaves out
 *
 *   probes.log   "f1 f2 b2 r1 b1 ": first passes, replays and backwards by number, in their order
 */
#ifndef RP_PROBES_H
#define RP_PROBES_H

#include "rp_test.h"

#include "reprise/op.h"
#include "reprise/ops.h"
#include "tape/tape.h"

enum { ROWS = 4, COLUMNS = 8, ELEMS = ROWS * COLUMNS, BYTES = ELEMS * 4, MOST_PROBES = 32 };

typedef struct {
    int first[MOST_PROBES], again[MOST_PROBES], counter, tally;
    int64_t saved_at_backward[MOST_PROBES];     /* bytes of class saved while backward of this number runs */
    char region[MOST_PROBES][32];               /* what rp_in_checkpoint said in the last run; "" outside */
    int refused;                             /* runs in which rp_is_replaying was not what the call said */
    char log[1024];
} probe_record;
extern probe_record probes;

/* A context that knows the ops; the record is empty. */
rp_ctx *probe_ctx(const rp_ctx_options *options);

/* A tensor [ROWS, COLUMNS] drawn from (-1, 1) by `seed`. */
rp_tensor *drawn(rp_ctx *ctx, uint32_t seed, bool wanted);

/* Calls that must succeed, of one output. `call` leaves its inputs to the caller (b may be NULL), `then` takes x. */
rp_tensor *call(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *a, rp_tensor *b);
rp_tensor *then(rp_ctx *ctx, const char *op, const void *attr, rp_tensor *x);
rp_tensor *probe(rp_ctx *ctx, const char *op, int number, rp_tensor *x);
rp_tensor *then_probe(rp_ctx *ctx, const char *op, int number, rp_tensor *x);
/* The sum of all elements; takes x. */
rp_tensor *total(rp_ctx *ctx, rp_tensor *x);

/* Backward from the total of x, which is taken. */
rp_status backward_of(rp_ctx *ctx, rp_tensor *x);

typedef struct { double at[ELEMS]; } values;
values values_of(const rp_tensor *t);
/* The gradient, which is dropped. */
values take_grad(rp_tensor *leaf);
void assert_same_values(const values *got, const values *expected, const char *what);
/* Write what is there once more. */
void scribble(rp_tensor *t);

rp_mem ledger_of(rp_ctx *ctx, int device);
int64_t saved_bytes(rp_ctx *ctx);

/* A policy by its rules, as recipes write them, in use in the whole context; NULL text: none. The former one is freed. */
void rule_by(rp_ctx *ctx, rp_policy **policy, const char *rules);

#endif
