/* run_cases.h -- what the case table of an op buys. Each line is run in fp64, fp32 and bf16, with the kernels of every CPU level
 * this machine can run, without kernels, on the test device and with strided inputs. A failure names op, case, dtype, variant,
 * element and both values. */
#ifndef TESTS_RUN_CASES_H
#define TESTS_RUN_CASES_H

#include "kernels/kernels.h"
#include "reprise/op.h"

void run_cases(const rp_op *op);

/* The same in fp32 and bf16 on one device. */
void run_cases_on(const rp_op *op, const char *device);

/* Each case that is not refused runs once forward and backward, with the kernels of each level and without: nothing outside its tensors is
 * touched. */
void run_within_bounds(const rp_op *op);

/* A value that `needs` lists must matter: without it some gradient differs, in one case of the op that lists it for the same gradients. Else
 * backward would keep a value that it does not read. */
void run_needs(const rp_op *op);

/* The same for a case that need not be one of the table's, or be accepted at all: an op may refuse it by RP_ERR_SHAPE or RP_ERR_ARG.
 * Returns how often it was accepted. */
int run_if_accepted(const rp_op *op, const rp_op_case *test);

#endif
