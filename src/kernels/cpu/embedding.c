/* kernels/cpu/embedding.c -- rows of a table by id, and the sum of gradients that fall on one row. */
#include "kernels/cpu/blocks.h"

void RP_AT_LEVEL(embedding_forward)(rp_dtype dtype, const void *table, const int32_t *ids, void *y, int64_t count, int64_t n, int threads)
{
    int64_t row_bytes = n * (dtype == RP_F32 ? 4 : 2);

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < count; i++)
        memcpy((uint8_t *)y + i * row_bytes, (const uint8_t *)table + ids[i] * row_bytes, (size_t)row_bytes);
}

static void add_row(rp_dtype dtype, const void *from, int64_t at, int64_t n, float *sums)
{
    if (dtype == RP_F32) {
        const float *f = (const float *)from + at;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) sums[i] += f[i];
        return;
    }
    const uint16_t *h = (const uint16_t *)from + at;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) sums[i] += rp__f32_from_bf16(h[i]);
}

/* Columns [from, to) of every row of the table. */
static void sum_columns(rp_dtype dtype, const void *dy, const int32_t *order, const int32_t *first, float *sums, void *dtable,
                        rp_dtype dtable_dtype, bool adds, int64_t vocab, int64_t n, int64_t from, int64_t to)
{
    for (int64_t v = 0; v < vocab; v++) {
        if (adds && first[v] == first[v + 1]) continue;
        memset(sums + from, 0, (size_t)(to - from) * sizeof *sums);
        for (int64_t i = first[v]; i < first[v + 1]; i++)
            add_row(dtype, dy, order[i] * n + from, to - from, sums + from);
        row_store_add(dtable_dtype, dtable, v * n + from, to - from, sums + from, adds);
    }
}

void RP_AT_LEVEL(embedding_backward)(rp_dtype dtype, const void *dy, const int32_t *order, const int32_t *first, float *sums, void *dtable,
                                     rp_dtype dtable_dtype, bool adds, int64_t vocab, int64_t n, int threads)
{
    int64_t groups = (n + 15) / 16;     /* 16 columns share a cache line of fp32 */

#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        int64_t from = groups * t / threads * 16, to = groups * (t + 1) / threads * 16;
        if (to > n) to = n;
        if (from < to) sum_columns(dtype, dy, order, first, sums, dtable, dtable_dtype, adds, vocab, n, from, to);
    }
}
