/* kernels/gpu/reduce.c -- launches the kernels of reduce.k. */
#include "kernels/gpu/host.h"

void rp__gpu_op_sum_forward(rp_dtype dtype, const void *x, float factor, void *y, int64_t outer, int64_t n, int64_t inner, const rp_on *on)
{
    reduce_args args = { .x = gpu_address(x), .y = gpu_address(y), .outer = outer, .n = n, .inner = inner, .factor = factor, .dtype = (int)dtype,
                         .y_dtype = (int)dtype, .packed = gpu_packed(n, x, NULL, NULL, NULL), .team = gpu_team(n) };

    if (inner == 1) gpu_line(on, &rp__gpu_sum_rows, gpu_row_blocks(outer, args.team), &args);
    else gpu_line(on, &rp__gpu_sum_columns, outer * gpu_blocks(inner, 32), &args);
}

void rp__gpu_op_sum_backward(rp_dtype dtype, const void *dy, float factor, void *dx, rp_dtype dx_dtype, bool adds, int64_t outer, int64_t n,
                             int64_t inner, const rp_on *on)
{
    reduce_args args = { .x = gpu_address(dy), .y = gpu_address(dx), .outer = outer, .n = n, .inner = inner, .factor = factor, .dtype = (int)dtype,
                         .y_dtype = (int)dx_dtype, .adds = adds };

    gpu_line(on, &rp__gpu_sum_backward, gpu_blocks(outer * n * inner, FLAT_THREADS), &args);
}

void rp__gpu_op_max_forward(rp_dtype dtype, const void *x, void *y, int32_t *argmax, int64_t outer, int64_t n, int64_t inner, const rp_on *on)
{
    reduce_args args = { .x = gpu_address(x), .y = gpu_address(y), .which = gpu_address(argmax), .outer = outer, .n = n, .inner = inner,
                         .dtype = (int)dtype, .y_dtype = (int)dtype };

    gpu_line(on, &rp__gpu_max_forward, outer * gpu_blocks(inner, 32), &args);
}

void rp__gpu_op_max_backward(rp_dtype dtype, const void *dy, const int32_t *argmax, void *dx, rp_dtype dx_dtype, bool adds, int64_t outer, int64_t n,
                             int64_t inner, const rp_on *on)
{
    reduce_args args = { .x = gpu_address(dy), .y = gpu_address(dx), .which = gpu_address(argmax), .outer = outer, .n = n, .inner = inner,
                         .dtype = (int)dtype, .y_dtype = (int)dx_dtype, .adds = adds };

    gpu_line(on, &rp__gpu_max_backward, gpu_blocks(outer * n * inner, FLAT_THREADS), &args);
}

void rp__gpu_op_softmax_forward(rp_dtype dtype, const void *x, void *y, int64_t rows, int64_t n, const rp_on *on)
{
    softmax_args args = { .x = gpu_address(x), .to = gpu_address(y), .rows = rows, .n = n, .dtype = (int)dtype, .to_dtype = (int)dtype,
                          .packed = gpu_packed(n, x, y, NULL, NULL), .team = gpu_team(n) };

    gpu_line(on, &rp__gpu_softmax_forward, gpu_row_blocks(rows, args.team), &args);
}

void rp__gpu_op_softmax_backward(rp_dtype dtype, const void *y, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t rows, int64_t n,
                                 const rp_on *on)
{
    softmax_args args = { .x = gpu_address(y), .dy = gpu_address(dy), .to = gpu_address(dx), .rows = rows, .n = n, .dtype = (int)dtype,
                          .to_dtype = (int)dx_dtype, .adds = adds, .packed = gpu_packed(n, y, dy, dx, NULL), .team = gpu_team(n) };

    gpu_line(on, &rp__gpu_softmax_backward, gpu_row_blocks(rows, args.team), &args);
}

/* ---- sums of softmax over rows, and the choice of experts ---- */

void rp__gpu_op_softmax_sums(rp_dtype dtype, const void *logits, const int32_t *starts, float *sums, int64_t rows, int64_t n, int64_t each,
                             const rp_on *on)
{
    softmax_sums_args args = { .logits = gpu_address(logits), .starts = gpu_address(starts), .sums = gpu_address(sums), .rows = rows, .n = n,
                               .each = each, .dtype = (int)dtype, .packed = gpu_packed(n, logits, NULL, NULL, NULL), .team = ROW_THREADS };

    gpu_line(on, &rp__gpu_softmax_sums, gpu_blocks(rows, each), &args);
}

void rp__gpu_op_softmax_sums_backward(rp_dtype dtype, const void *logits, const int32_t *starts, const float *dsum, void *dlogits,
                                      rp_dtype dlogits_dtype, bool adds, int64_t rows, int64_t n, const rp_on *on)
{
    softmax_sums_args args = { .logits = gpu_address(logits), .starts = gpu_address(starts), .sums = gpu_address(dsum), .dx = gpu_address(dlogits),
                               .rows = rows, .n = n, .dtype = (int)dtype, .dx_dtype = (int)dlogits_dtype, .adds = adds,
                               .packed = gpu_packed(n, logits, dsum, dlogits, NULL), .team = gpu_team(n) };

    gpu_line(on, &rp__gpu_softmax_sums_backward, gpu_row_blocks(rows, args.team), &args);
}

void rp__gpu_op_route_forward(rp_dtype dtype, const void *logits, float *weights, int32_t *choices, int64_t rows, int64_t n, int64_t k,
                              bool renormalise, const rp_on *on)
{
    route_args args = { .logits = gpu_address(logits), .weights = gpu_address(weights), .choices = gpu_address(choices), .rows = rows, .n = n, .k = k,
                        .dtype = (int)dtype, .renormalise = renormalise };

    gpu_line(on, &rp__gpu_route_forward, gpu_row_blocks(rows, 32), &args);
}

void rp__gpu_op_route_backward(rp_dtype dtype, const void *logits, const float *weights, const int32_t *choices, const float *dweights, void *dlogits,
                               rp_dtype dlogits_dtype, bool adds, int64_t rows, int64_t n, int64_t k, bool renormalise, const rp_on *on)
{
    route_args args = { .logits = gpu_address(logits), .weights = gpu_address(weights), .choices = gpu_address(choices),
                        .dweights = gpu_address(dweights), .dlogits = gpu_address(dlogits), .rows = rows, .n = n, .k = k, .dtype = (int)dtype,
                        .d_dtype = (int)dlogits_dtype, .adds = adds, .renormalise = renormalise };

    gpu_line(on, &rp__gpu_route_backward, gpu_row_blocks(rows, 32), &args);
}
