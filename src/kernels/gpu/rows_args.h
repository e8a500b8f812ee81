/* kernels/gpu/rows_args.h -- arguments of rows.k and order.k. */
#ifndef RP_GPU_ROWS_ARGS_H
#define RP_GPU_ROWS_ARGS_H

#ifndef __CUDACC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"     /* launches are compared by their bytes (device/record.c) */
#endif

#define ROWS_THREADS 256
#define ORDER_THREADS 256

typedef struct { u64 top, sum, picked, labels, loss, lse; i64 rows; int ignore, padding; } loss_rows_args;
typedef struct { u64 loss, total, weight; i64 rows; } loss_total_args;       /* weight: the address of a float */
typedef struct { u64 ids, order, first; i64 count, vocab; } order_args;

#ifndef __CUDACC__
#pragma GCC diagnostic pop
#endif

#endif
