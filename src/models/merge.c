/* models/merge.c -- w + scale · b a. */
#include "models/merge.h"

/* delta[j] += b[row, k] * a[k, j], or a[k, row] * b[j, k]. */
static void add_rank(const rp_merge *m, int64_t row, int64_t k)
{
    int64_t width = rp__merge_width(m);
    float by      = m->in_out ? m->a[k * m->in + row] : m->b[row * m->rank + k];

    if (m->in_out)
        for (int64_t j = 0; j < width; j++) m->delta[j] += by * m->b[j * m->rank + k];
    else
        for (int64_t j = 0; j < width; j++) m->delta[j] += by * m->a[k * m->in + j];
}

static void make_delta(rp_merge *m, int64_t row)
{
    int64_t width = rp__merge_width(m);

    if (m->row == row) return;
    for (int64_t j = 0; j < width; j++) m->delta[j] = 0;
    for (int64_t k = 0; k < m->rank; k++) add_rank(m, row, k);
    for (int64_t j = 0; j < width; j++) m->delta[j] *= m->scale;
    m->row = row;
}

static void add_delta(rp_dtype dtype, const float *delta, int64_t n, const void *from, void *out)
{
    switch (dtype) {
    case RP_BF16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)out)[i] = rp__bf16_from_f32(rp__f32_from_bf16(((const uint16_t *)from)[i]) + delta[i]);
        break;
    case RP_F64:
        for (int64_t i = 0; i < n; i++) ((double *)out)[i] = ((const double *)from)[i] + (double)delta[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++) ((float *)out)[i] = ((const float *)from)[i] + delta[i];
    }
}

void rp__merge_elems(rp_merge *m, rp_dtype dtype, int64_t at, int64_t n, const void *from, void *out)
{
    int64_t width = rp__merge_width(m), size = rp_dtype_bytes(dtype);

    for (int64_t done = 0; done < n;) {
        int64_t column = (at + done) % width, part = width - column < n - done ? width - column : n - done;
        make_delta(m, (at + done) / width);
        add_delta(dtype, m->delta + column, part, (const char *)from + done * size, (char *)out + done * size);
        done += part;
    }
}
