/* kernels/gpu/dora.c -- launches the kernels of dora.k. */
#include "kernels/gpu/host.h"

void rp__gpu_op_weight_norm_scratch(bool in_out, int64_t out, int64_t in, int64_t rank, int64_t *bytes, const rp_on *on)
{
    (void)on;
    *bytes = rank * (in_out ? out : in) * (int64_t)sizeof(float);
}

void rp__gpu_op_weight_norm(rp_dtype dtype, rp_dtype w_dtype, const void *w, const void *a, const void *b, float factor, bool in_out, void *norm,
                            int64_t out, int64_t in, int64_t rank, float *scratch, const rp_on *on)
{
    weight_norm_args args = { gpu_address(w), gpu_address(a), gpu_address(b), gpu_address(norm), gpu_address(scratch), out, in, rank, factor,
                              (int)dtype, (int)w_dtype, in_out, gpu_packed(in, rp__is_quant(w_dtype) ? NULL : w, scratch, NULL, NULL), 0 };

    gpu_line(on, &rp__gpu_weight_norm_half, gpu_blocks(rank * (in_out ? out : in), FLAT_THREADS), &args);
    if (in_out) gpu_line(on, &rp__gpu_weight_norm_columns, gpu_blocks(out, 32), &args);
    else gpu_line(on, &rp__gpu_weight_norm_rows, out, &args);
}

void rp__gpu_op_magnitude_forward(rp_dtype dtype, const void *x, const void *m, const void *n, const void *b, void *y, int64_t rows, int64_t k,
                                  const rp_on *on)
{
    magnitude_args args = { .x = gpu_address(x), .m = gpu_address(m), .n = gpu_address(n), .b = gpu_address(b), .y = gpu_address(y), .rows = rows,
                            .k = k, .dtype = (int)dtype };

    gpu_line(on, &rp__gpu_magnitude_forward, gpu_blocks(rows * k, FLAT_THREADS), &args);
}

void rp__gpu_op_magnitude_backward(rp_dtype dtype, const void *x, const void *m, const void *n, const void *dy, void *dx, rp_dtype dx_dtype,
                                   bool dx_adds, void *dm, rp_dtype dm_dtype, bool dm_adds, int64_t rows, int64_t k, const rp_on *on)
{
    magnitude_args args = { .x = gpu_address(x), .m = gpu_address(m), .n = gpu_address(n), .dy = gpu_address(dy), .dx = gpu_address(dx),
                            .dm = gpu_address(dm), .rows = rows, .k = k, .dtype = (int)dtype, .dx_dtype = (int)dx_dtype, .dm_dtype = (int)dm_dtype,
                            .dx_adds = dx_adds, .dm_adds = dm_adds };

    if (dx) gpu_line(on, &rp__gpu_magnitude_dx, gpu_blocks(rows * k, FLAT_THREADS), &args);
    if (dm) gpu_line(on, &rp__gpu_magnitude_dm, gpu_blocks(k, 16), &args);
}
