/* kernels/gpu/loss.c -- launches the kernels of loss.k. */
#include "kernels/gpu/host.h"

/* Many rows fill a card without the barriers of a block for each. */
enum { MANY_ROWS = 4096 };

static int team_of(int64_t rows, int64_t n) { return rows >= MANY_ROWS ? 32 : gpu_team(n); }

void rp__gpu_op_cross_entropy_forward(rp_dtype dtype, const void *logits, const int32_t *labels, int32_t ignore, float *loss, float *lse, int64_t rows,
                                      int64_t n, const rp_on *on)
{
    loss_args args = { .logits = gpu_address(logits), .labels = gpu_address(labels), .loss = gpu_address(loss), .lse = gpu_address(lse), .rows = rows,
                       .n = n, .ignore = ignore, .dtype = (int)dtype, .packed = gpu_packed(n, logits, NULL, NULL, NULL), .team = team_of(rows, n) };

    gpu_line(on, &rp__gpu_cross_entropy_forward, gpu_row_blocks(rows, args.team), &args);
}

void rp__gpu_op_cross_entropy_backward(rp_dtype dtype, const void *logits, const int32_t *labels, int32_t ignore, const float *lse, float weight,
                                       const float *dloss,
                                       void *dlogits, rp_dtype dlogits_dtype, bool adds, int64_t rows, int64_t n, const rp_on *on)
{
    loss_args args = { .logits = gpu_address(logits), .labels = gpu_address(labels), .lse = gpu_address(lse), .d = gpu_address(dlogits), .rows = rows,
                       .n = n, .weight = gpu_weight(on, weight), .dloss = gpu_address(dloss), .ignore = ignore, .dtype = (int)dtype,
                       .d_dtype = (int)dlogits_dtype, .adds = adds,
                       .packed = gpu_packed(n, logits, dlogits, NULL, NULL), .team = team_of(rows, n) };

    gpu_line(on, &rp__gpu_cross_entropy_gradient, gpu_row_blocks(rows, args.team), &args);
}

void rp__gpu_op_cross_entropy_fold(rp_dtype dtype, const void *logits, float cap, const int32_t *labels, int64_t first, float *top, float *sum,
                                   float *picked, int64_t rows, int64_t n, const rp_on *on)
{
    loss_args args = { .logits = gpu_address(logits), .labels = gpu_address(labels), .top = gpu_address(top), .sum = gpu_address(sum),
                       .picked = gpu_address(picked), .rows = rows, .n = n, .first = first, .cap = cap, .dtype = (int)dtype,
                       .packed = gpu_packed(n, logits, NULL, NULL, NULL), .team = team_of(rows, n) };

    gpu_line(on, &rp__gpu_cross_entropy_fold, gpu_row_blocks(rows, args.team), &args);
}

void rp__gpu_op_cross_entropy_unfold(rp_dtype dtype, const void *logits, float cap, void *d, const int32_t *labels, int32_t ignore, int64_t first,
                                     const float *lse, float weight, const float *dloss, int64_t rows, int64_t n, const rp_on *on)
{
    loss_args args = { .logits = gpu_address(logits), .labels = gpu_address(labels), .lse = gpu_address(lse), .d = gpu_address(d), .rows = rows,
                       .n = n, .first = first, .weight = gpu_weight(on, weight), .dloss = gpu_address(dloss), .cap = cap, .ignore = ignore, .dtype = (int)dtype,
                       .d_dtype = (int)dtype,
                       .packed = gpu_packed(n, logits, d, NULL, NULL), .team = team_of(rows, n) };

    gpu_line(on, &rp__gpu_cross_entropy_gradient, gpu_row_blocks(rows, args.team), &args);
}

_Static_assert(MSE_BLOCK == RP_MSE_BLOCK, "mse_sums has the blocks of kernels/pointwise.h");

void rp__gpu_op_mse_sums(rp_dtype dtype, const void *a, const void *b, float *sums, int64_t n, const rp_on *on)
{
    mse_args args = { .a = gpu_address(a), .b = gpu_address(b), .sums = gpu_address(sums), .n = n, .dtype = (int)dtype,
                      .packed = gpu_packed(0, a, b, NULL, NULL) };

    gpu_line(on, &rp__gpu_mse_sums, gpu_blocks(n, MSE_BLOCK), &args);
}

void rp__gpu_op_mse_backward(rp_dtype dtype, const void *a, const void *b, float weight, const float *dloss, void *d, rp_dtype d_dtype, bool adds,
                             int64_t n, const rp_on *on)
{
    mse_args args = { .a = gpu_address(a), .b = gpu_address(b), .d = gpu_address(d), .weight = gpu_weight(on, weight), .dloss = gpu_address(dloss), .n = n,
                      .dtype = (int)dtype, .d_dtype = (int)d_dtype, .adds = adds, .packed = gpu_packed(0, a, b, d, NULL) };

    gpu_line(on, &rp__gpu_mse_gradient, gpu_blocks(n, FLAT_THREADS * PACK), &args);
}
