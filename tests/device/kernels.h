/* tests/device/kernels.h -- kernels that only tests use, and the mistakes that can be planted in them. */
#ifndef RP_TEST_KERNELS_H
#define RP_TEST_KERNELS_H

#include "kernels/gpu/dialect.h"

enum { PLANT_NOTHING, PLANT_NO_BARRIER, PLANT_NO_LAST_BARRIER, PLANT_NO_COPY_WAIT, PLANT_WRONG_ROW, PLANT_PAST_END, PLANT_NO_LANE };
enum { EXP2, EXP, LOG, LOG2, TANH, ERF, SIGMOID, SQUARE_ROOT, NARROW, FUNCTIONS };

typedef struct {
    u64 x, y, z;            /* addresses of inputs x, y and of the output z */
    i64 n;                  /* elements; for test_product the columns */
    i32 m, k;               /* rows and depth of test_product */
    i32 dtype, function;
    i32 plant;
    float factor;
    u32 first, step;        /* test_functions: element i is the function of the float with bits first + i * step */
} test_args;

#endif
