/* kernels/gpu/experts.c -- launches the kernels of experts.k and batch_norm.k. */
#include "kernels/gpu/host.h"

void rp__gpu_op_experts_order(const int32_t *choices, int32_t *first, int32_t *place, int64_t slots, int64_t experts, const rp_on *on)
{
    experts_order_args args = { gpu_address(choices), gpu_address(first), gpu_address(place), slots };

    gpu_line(on, &rp__gpu_experts_order, experts + 1, &args);
}

void rp__gpu_op_expert_loads(const int32_t *choices, const int32_t *starts, const float *sums, float *loads, int64_t rows, int64_t k, int64_t n,
                             int64_t blocks, const rp_on *on)
{
    expert_loads_args args = { gpu_address(choices), gpu_address(starts), gpu_address(sums), gpu_address(loads), rows, k, n, blocks };

    gpu_line(on, &rp__gpu_expert_loads, n, &args);
}

void rp__gpu_op_expert_loads_backward(const int32_t *starts, const float *dloads, float *dsum, int64_t rows, int64_t n, const rp_on *on)
{
    expert_loads_args args = { .starts = gpu_address(starts), .sums = gpu_address(dsum), .loads = gpu_address(dloads), .rows = rows, .n = n };

    gpu_line(on, &rp__gpu_expert_loads_backward, gpu_blocks(n, EXPERTS_THREADS), &args);
}

void rp__gpu_op_balance_loss_forward(const float *loss, const float *loads, const int32_t *labels, int32_t ignore, double factor, float weight,
                                     float *total, int64_t count, int64_t n, const rp_on *on)
{
    balance_args args = { .loss = gpu_address(loss), .loads = gpu_address(loads), .labels = gpu_address(labels), .total = gpu_address(total),
                          .weight = gpu_weight(on, weight), .factor = factor, .count = count, .n = n, .ignore = ignore };

    gpu_line(on, &rp__gpu_balance_loss_forward, 1, &args);
}

void rp__gpu_op_balance_loss_backward(const float *loads, const int32_t *labels, int32_t ignore, double factor, float weight,
                                      const float *dtotal, float *dloads, bool adds, int64_t count, int64_t n, const rp_on *on)
{
    balance_args args = { .loads = gpu_address(loads), .labels = gpu_address(labels), .total = gpu_address(dtotal), .dloads = gpu_address(dloads),
                          .weight = gpu_weight(on, weight), .factor = factor, .count = count, .n = n, .ignore = ignore, .adds = adds };

    gpu_line(on, &rp__gpu_balance_loss_backward, gpu_blocks(2 * n, EXPERTS_THREADS), &args);
}

void rp__gpu_op_batch_norm_forward(rp_dtype dtype, const void *x, const void *w, const void *b, float *running_mean, float *running_var, bool train,
                                   bool moves, float eps, float momentum, void *y, float *mean, float *rstd, int64_t rows, int64_t n, const rp_on *on)
{
    batch_norm_args args = { .x = gpu_address(x), .w = gpu_address(w), .b = gpu_address(b), .running_mean = gpu_address(running_mean),
                             .running_var = gpu_address(running_var), .y = gpu_address(y), .mean = gpu_address(mean), .rstd = gpu_address(rstd),
                             .rows = rows, .n = n, .eps = eps, .momentum = momentum, .train = train, .moves = moves, .dtype = (int)dtype };

    gpu_line(on, &rp__gpu_batch_norm_forward, gpu_blocks(n, 32), &args);
}

void rp__gpu_op_batch_norm_backward(rp_dtype dtype, const void *x, const void *w, const float *mean, const float *rstd, bool train, float eps,
                                    const void *dy, void *dx, rp_dtype dx_dtype, bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, void *db,
                                    rp_dtype db_dtype, bool db_adds, int64_t rows, int64_t n, const rp_on *on)
{
    batch_norm_args args = { .x = gpu_address(x), .w = gpu_address(w), .mean = gpu_address(mean), .rstd = gpu_address(rstd), .dy = gpu_address(dy),
                             .dx = gpu_address(dx), .dw = gpu_address(dw), .db = gpu_address(db), .rows = rows, .n = n, .eps = eps, .train = train,
                             .dtype = (int)dtype, .dx_dtype = (int)dx_dtype, .dw_dtype = (int)dw_dtype, .db_dtype = (int)db_dtype, .dx_adds = dx_adds,
                             .dw_adds = dw_adds, .db_adds = db_adds };

    gpu_line(on, &rp__gpu_batch_norm_backward, gpu_blocks(n, 32), &args);
}
