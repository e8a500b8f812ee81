/* cell.h -- one cell of the table that run_cases.c walks: a case, somewhere, in one dtype. */
#ifndef TESTS_CELL_H
#define TESTS_CELL_H

#include "ops/one_call.h"

typedef struct {
    const rp_op *op;
    const rp_op_case *test;
    const variant *where;
    rp_dtype dtype;
    rp_ctx *ctx;
} cell;

/* A context as the variant says; its kernels are in force from here on. */
rp_ctx *cell_ctx(const variant *where, bool shapes_only);
/* call_run with what the cell names. */
void cell_run(one_call *c, const cell *at, const request *ask);

/* What the forward made: outputs, and inputs that both were to write. */
void check_same_outputs(const one_call *base, const one_call *again, const char *claim);
void check_same_gradients(const one_call *base, const one_call *again, const char *claim);

/* The ledger of a real run equals that of a rehearsal; every allocation may fail; scratch is kept to, whatever lies in it. */
void check_memory(const cell *at, const one_call *base);

#endif
