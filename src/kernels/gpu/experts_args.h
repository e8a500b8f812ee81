/* kernels/gpu/experts_args.h -- arguments of experts.k and batch_norm.k. */
#ifndef RP_GPU_EXPERTS_ARGS_H
#define RP_GPU_EXPERTS_ARGS_H

#ifndef __CUDACC__
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"     /* launches are compared by their bytes (device/record.c) */
#endif

#define EXPERTS_THREADS 256

typedef struct { u64 choices, first, place; i64 slots; } experts_order_args;
typedef struct { u64 choices, starts, sums, loads; i64 rows, k, n, blocks; } expert_loads_args;
typedef struct { u64 loss, loads, labels, total, dloads, weight; double factor; i64 count, n; int ignore, adds; } balance_args;
typedef struct {
    u64 x, w, b, running_mean, running_var, y, mean, rstd, dy, dx, dw, db;
    i64 rows, n;
    float eps, momentum;
    int train, moves, dtype, dx_dtype, dw_dtype, db_dtype, dx_adds, dw_adds, db_adds, padding;
} batch_norm_args;

#ifndef __CUDACC__
#pragma GCC diagnostic pop
#endif

#endif
