/* run_cases.h -- what the case table of an op buys. Each line is run in fp64, fp32 and bf16, with the kernels of every CPU level
 * this machine can run, without kernels, on the test device and with strided inputs. A failure names op, case, dtype, variant,
 * element and both values. */
#ifndef TESTS_RUN_CASES_H
#define TESTS_RUN_CASES_H

#include "reprise/op.h"

void run_cases(const rp_op *op);

#endif
