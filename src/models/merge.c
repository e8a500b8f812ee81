/* models/merge.c -- computes w + scale · b a. */
#include "models/merge.h"

#include <math.h>

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

/* n elements of a row of the weight from `column` on. Element i belongs to output first + i * step, which selects its factor and its sum of
 * squares. */
typedef struct { int64_t column, n, first, step; } stretch;

static double elem(rp_dtype dtype, const void *from, int64_t i)
{
    return dtype == RP_BF16 ? (double)rp__f32_from_bf16(((const uint16_t *)from)[i]) :
           dtype == RP_F64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

static void add_delta(const rp_merge *m, rp_dtype dtype, stretch at, const void *from, void *out)
{
    static const float one = 1;
    const float *delta = m->delta + at.column, *by = m->magnitude ? m->magnitude + at.first : &one;
    int64_t step       = m->magnitude ? at.step : 0;

    switch (dtype) {
    case RP_BF16:
        for (int64_t i = 0; i < at.n; i++)
            ((uint16_t *)out)[i] = rp__bf16_from_f32((rp__f32_from_bf16(((const uint16_t *)from)[i]) + delta[i]) * by[i * step]);
        break;
    case RP_F64:
        for (int64_t i = 0; i < at.n; i++) ((double *)out)[i] = (((const double *)from)[i] + (double)delta[i]) * (double)by[i * step];
        break;
    default:
        for (int64_t i = 0; i < at.n; i++) ((float *)out)[i] = (((const float *)from)[i] + delta[i]) * by[i * step];
    }
}

static void add_squares(const rp_merge *m, rp_dtype dtype, stretch at, const void *from, void *unused)
{
    const float *delta = m->delta + at.column;

    (void)unused;
    for (int64_t i = 0; i < at.n; i++) {
        double v = elem(dtype, from, i) + (double)delta[i];
        m->squares[at.first + i * at.step] += v * v;
    }
}

typedef void work(const rp_merge *m, rp_dtype dtype, stretch at, const void *from, void *out);

static void go_through(rp_merge *m, rp_dtype dtype, int64_t at, int64_t n, const void *from, void *out, work *each)
{
    int64_t width = rp__merge_width(m), size = rp_dtype_bytes(dtype);

    for (int64_t done = 0; done < n;) {
        int64_t row = (at + done) / width, column = (at + done) % width, part = width - column < n - done ? width - column : n - done;
        make_delta(m, row);
        each(m, dtype, (stretch){ column, part, m->in_out ? column : row, m->in_out }, (const char *)from + done * size,
             (char *)out + done * size);
        done += part;
    }
}

void rp__merge_elems(rp_merge *m, rp_dtype dtype, int64_t at, int64_t n, const void *from, void *out)
{
    go_through(m, dtype, at, n, from, out, add_delta);
}

void rp__merge_measure(rp_merge *m, rp_dtype dtype, int64_t at, int64_t n, const void *from)
{
    go_through(m, dtype, at, n, from, m->squares, add_squares);
}

void rp__merge_measured(rp_merge *m, rp_dtype dtype)
{
    for (int64_t i = 0; i < m->out; i++) {
        float norm      = (float)sqrt(m->squares[i]);
        if (dtype == RP_BF16) norm = rp__f32_from_bf16(rp__bf16_from_f32(norm));
        m->magnitude[i] = norm != 0 ? m->magnitude[i] / norm : 0;
    }
}
