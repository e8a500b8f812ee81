/* kernels/cpu/cross_entropy.c -- -log softmax(logits)[label] by rows, and its gradient. A row is one thread's. */
#include "kernels/cpu/softmax.h"

static float row_lse(rp_dtype dtype, const void *logits, int64_t row, int64_t n)
{
    float max, sum = exp_sum(dtype, logits, row, n, &max);

    return max + logf(sum);
}

/* d (+)= factor * (softmax - onehot) of one row; d may be the logits. The label's element is computed apart, from what stood there before:
 * (p - 1) is -factor times what the others have, without cancellation where p is near 1. */
static void row_gradient(rp_dtype dtype, const void *logits, int64_t row, int64_t n, int32_t label, float lse, float factor, void *d,
                         rp_dtype d_dtype, bool adds)
{
    float before = adds ? f32_at(d_dtype, d, row + label) : 0, target = factor * expm1f(f32_at(dtype, logits, row + label) - lse);
    int64_t i    = 0;

    for (; i + WIDE <= n; i += WIDE) {
        wide_ahead(dtype, logits, row + i);
        wide_add(d_dtype, d, row + i, WIDE, factor * wide_exp(wide_load(dtype, logits, row + i, WIDE) - lse), adds);
    }
    if (i < n) wide_add(d_dtype, d, row + i, n - i, factor * wide_exp(wide_load(dtype, logits, row + i, n - i) - lse), adds);
    put_at(d_dtype, d, row + label, before + target);
}

static void row_zero(rp_dtype dtype, void *d, int64_t row, int64_t n)
{
    memset((uint8_t *)d + row * width_of(dtype), 0, (size_t)(n * width_of(dtype)));
}

typedef struct {
    rp_dtype dtype, d_dtype;
    const void *logits;
    const int32_t *labels;
    int32_t ignore;
    float *loss, *lse, factor;
    void *d;
    bool adds;
    int64_t n;
} losses;

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    const losses *c = arg;

    for (int64_t r = from; r < to; r++) {
        bool counts = c->labels[r] != c->ignore;
        float sum   = counts ? row_lse(c->dtype, c->logits, r * c->n, c->n) : 0;
        c->loss[r]  = counts ? sum - f32_at(c->dtype, c->logits, r * c->n + c->labels[r]) : 0;
        if (c->lse) c->lse[r] = sum;
    }
}

void RP_AT_LEVEL(cross_entropy_forward)(rp_dtype dtype, const void *logits, const int32_t *labels, int32_t ignore, float *loss, float *lse,
                                        int64_t rows, int64_t n, int threads)
{
    losses c = { .dtype = dtype, .logits = logits, .labels = labels, .ignore = ignore, .loss = loss, .lse = lse, .n = n };

    rp__team_ranges(threads, rows, 1, rows * n * width_of(dtype), forward_rows, &c);
}

static void backward_rows(const void *arg, int64_t from, int64_t to)
{
    const losses *c = arg;
    int64_t n       = c->n;

    for (int64_t r = from; r < to; r++) {
        if (c->labels[r] != c->ignore)
            row_gradient(c->dtype, c->logits, r * n, n, c->labels[r], c->lse[r], c->factor, c->d, c->d_dtype, c->adds);
        else if (!c->adds) row_zero(c->d_dtype, c->d, r * n, n);
    }
}

void RP_AT_LEVEL(cross_entropy_backward)(rp_dtype dtype, const void *logits, const int32_t *labels, int32_t ignore, const float *lse,
                                         float factor, void *dlogits, rp_dtype dlogits_dtype, bool adds, int64_t rows, int64_t n,
                                         int threads)
{
    losses c = { .dtype = dtype, .d_dtype = dlogits_dtype, .logits = logits, .labels = labels, .ignore = ignore, .lse = (float *)lse,
                 .factor = factor, .d = dlogits, .adds = adds, .n = n };

    rp__team_ranges(threads, rows, 1, 2 * rows * n * width_of(dtype), backward_rows, &c);
}

static void in_place_rows(const void *arg, int64_t from, int64_t to)
{
    const losses *c = arg;
    int64_t n       = c->n;

    for (int64_t r = from; r < to; r++) {
        c->loss[r] = 0;
        if (c->labels[r] == c->ignore) {
            row_zero(c->dtype, c->d, r * n, n);
            continue;
        }
        float lse  = row_lse(c->dtype, c->d, r * n, n);
        c->loss[r] = lse - f32_at(c->dtype, c->d, r * n + c->labels[r]);
        row_gradient(c->dtype, c->d, r * n, n, c->labels[r], lse, c->factor, c->d, c->dtype, false);
    }
}

void RP_AT_LEVEL(cross_entropy_in_place)(rp_dtype dtype, void *logits, const int32_t *labels, int32_t ignore, float factor, float *loss,
                                         int64_t rows, int64_t n, int threads)
{
    losses c = { .dtype = dtype, .labels = labels, .ignore = ignore, .loss = loss, .factor = factor, .d = logits, .n = n };

    rp__team_ranges(threads, rows, 1, 2 * rows * n * width_of(dtype), in_place_rows, &c);
}
