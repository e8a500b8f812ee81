/* kernels/gpu/rows.c -- launches the kernels of rows.k. */
#include "kernels/gpu/host.h"

void rp__gpu_op_cross_entropy_rows(const float *top, const float *sum, const float *picked, const int32_t *labels, int32_t ignore, float *loss, float *lse,
                                   int64_t rows, const rp_on *on)
{
    loss_rows_args args = { gpu_address(top), gpu_address(sum), gpu_address(picked), gpu_address(labels), gpu_address(loss), gpu_address(lse), rows,
                            ignore, 0 };

    gpu_line(on, &rp__gpu_cross_entropy_rows, gpu_blocks(rows, ROWS_THREADS), &args);
}

void rp__gpu_op_cross_entropy_total(const float *loss, float weight, float *total, int64_t rows, const rp_on *on)
{
    loss_total_args args = { gpu_address(loss), gpu_address(total), gpu_weight(on, weight), rows };

    gpu_line(on, &rp__gpu_cross_entropy_total, 1, &args);
}

void rp__gpu_op_embedding_order(const int32_t *ids, int32_t *order, int32_t *first, int64_t count, int64_t vocab, const rp_on *on)
{
    order_args args = { gpu_address(ids), gpu_address(order), gpu_address(first), count, vocab };

    gpu_line(on, &rp__gpu_order_places, gpu_blocks(count, ORDER_THREADS), &args);
    gpu_line(on, &rp__gpu_order_starts, gpu_blocks(vocab + 1, ORDER_THREADS), &args);
}
