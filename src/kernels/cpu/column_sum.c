/* kernels/cpu/column_sum.c -- bias gradients. A thread owns whole blocks of columns and walks the rows in order. */
#include "kernels/cpu/cpu.h"

enum { BLOCK = 256 };

void RP_AT_LEVEL(column_sum)(rp_dtype dtype, const void *x, int64_t rows, int64_t n, void *sum, rp_dtype sum_dtype, bool adds,
                             int threads)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t b = 0; b < blocks; b++) {
        float total[BLOCK] = { 0 }, buffer[BLOCK];
        int64_t width = n - b * BLOCK < BLOCK ? n - b * BLOCK : BLOCK;
        for (int64_t r = 0; r < rows; r++) {
            const float *row = row_f32(dtype, x, r * n + b * BLOCK, width, buffer);
#pragma omp simd
            for (int64_t i = 0; i < width; i++) total[i] += row[i];
        }
        row_store_add(sum_dtype, sum, b * BLOCK, width, total, adds);
    }
}
