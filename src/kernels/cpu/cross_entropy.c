/* kernels/cpu/cross_entropy.c -- computes -log softmax(logits)[label] by rows, and its gradient. Each row is computed by one thread. */
#include "kernels/cpu/softmax.h"

static float row_lse(rp_dtype dtype, const void *logits, int64_t row, int64_t n)
{
    float max, sum = exp_sum(dtype, logits, row, n, &max);

    return max + logf(sum);
}

/* d (+)= factor * (softmax - onehot) of one row, whose label may be outside it; d may be the same buffer as logits. The label's element is computed
 * separately from its old value, as factor * (p - 1) by expm1, which avoids cancellation if p is near 1. */
static void row_gradient(rp_dtype dtype, const void *logits, int64_t row, int64_t n, int64_t label, float lse, float factor, void *d,
                         rp_dtype d_dtype, bool adds)
{
    bool has_label = label >= 0 && label < n;
    float before   = has_label && adds ? f32_at(d_dtype, d, row + label) : 0;
    float target   = has_label ? factor * expm1f(f32_at(dtype, logits, row + label) - lse) : 0;
    int64_t i      = 0;

    for (; i + WIDE <= n; i += WIDE) {
        wide_prefetch(dtype, logits, row + i);
        wide_add(d_dtype, d, row + i, WIDE, factor * wide_exp(wide_load(dtype, logits, row + i, WIDE) - lse), adds);
    }
    if (i < n) wide_add(d_dtype, d, row + i, n - i, factor * wide_exp(wide_load(dtype, logits, row + i, n - i) - lse), adds);
    if (has_label) put_at(d_dtype, d, row + label, before + target);
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
    float *loss, *lse, factor, cap;     /* cap 0: none */
    void *d;
    bool adds;
    int64_t first, n;           /* the classes first … first + n - 1 of a row */
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
                                        int64_t rows, int64_t n, const rp_on *on)
{
    losses c = { .dtype = dtype, .logits = logits, .labels = labels, .ignore = ignore, .loss = loss, .lse = lse, .n = n };

    rp__team_ranges(on->threads, rows, 1, rows * n * width_of(dtype), forward_rows, &c);
}

void RP_AT_LEVEL(cross_entropy_total)(const float *loss, float weight, float *total, int64_t rows, const rp_on *on)
{
    double sum = 0;

    (void)on;
    for (int64_t r = 0; r < rows; r++) sum += (double)loss[r];
    *total = (float)((double)weight * sum);
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
                                         float weight, const float *dloss, void *dlogits, rp_dtype dlogits_dtype, bool adds, int64_t rows,
                                         int64_t n, const rp_on *on)
{
    losses c = { .dtype = dtype, .d_dtype = dlogits_dtype, .logits = logits, .labels = labels, .ignore = ignore, .lse = (float *)lse,
                 .factor = weight * *dloss, .d = dlogits, .adds = adds, .n = n };

    rp__team_ranges(on->threads, rows, 1, 2 * rows * n * width_of(dtype), backward_rows, &c);
}

/* ---- one block of classes at a time ---- */

INLINE float capped_at(rp_dtype dtype, const void *logits, int64_t i, float cap, float *slope)
{
    float z = f32_at(dtype, logits, i);
    wide slopes, t = wide_tanh(wide_of(z / cap), &slopes);

    *slope = slopes[0];
    return cap * t[0];
}

/* exp_fold of capped logits, SOFTMAX_BLOCK of them at a time in fp32. */
static void exp_fold_capped(rp_dtype dtype, const void *logits, float cap, int64_t row, int64_t n, float *top, float *sum)
{
    float z[SOFTMAX_BLOCK];

    for (int64_t at = 0; at < n; at += SOFTMAX_BLOCK) {
        int64_t width = n - at < SOFTMAX_BLOCK ? n - at : SOFTMAX_BLOCK;
        for (int64_t i = 0; i < width; i += WIDE) {
            int64_t m = wide_width(i, width);
            wide slope;
            wide_store(RP_F32, z, i, m, cap * wide_tanh(wide_load(dtype, logits, row + at + i, m) / cap, &slope));
        }
        exp_fold(RP_F32, z, 0, width, top, sum);
    }
}

/* row_gradient through the cap: with z = cap tanh(logit / cap), d = factor (exp(z - lse) - onehot) times the slope. */
static void row_gradient_capped(const losses *c, int64_t row, int64_t label, float lse)
{
    const losses o = *c;
    float target   = 0, slope;

    if (label >= 0 && label < o.n) {
        float z = capped_at(o.dtype, o.logits, row + label, o.cap, &slope);
        target  = o.factor * expm1f(z - lse) * slope;
    }
    for (int64_t i = 0; i < o.n; i += WIDE) {
        int64_t m = wide_width(i, o.n);
        wide slopes, t = wide_tanh(wide_load(o.dtype, o.logits, row + i, m) / o.cap, &slopes);
        wide_store(o.dtype, o.d, row + i, m, o.factor * wide_exp(o.cap * t - lse) * slopes);
    }
    if (label >= 0 && label < o.n) put_at(o.dtype, o.d, row + label, target);
}

typedef struct {
    rp_dtype dtype;
    const void *logits;
    const int32_t *labels;
    int64_t first, n;
    float cap, *top, *sum, *picked;
} folding;

static void fold_rows(const void *arg, int64_t from, int64_t to)
{
    const folding *c = arg;

    for (int64_t r = from; r < to; r++) {
        int64_t label = c->labels[r] - c->first;
        float slope;
        if (c->first == 0) c->top[r] = -FLT_MAX, c->sum[r] = 0, c->picked[r] = 0;
        if (c->cap > 0) exp_fold_capped(c->dtype, c->logits, c->cap, r * c->n, c->n, &c->top[r], &c->sum[r]);
        else exp_fold(c->dtype, c->logits, r * c->n, c->n, &c->top[r], &c->sum[r]);
        if (label < 0 || label >= c->n) continue;
        if (c->cap > 0) c->picked[r] = capped_at(c->dtype, c->logits, r * c->n + label, c->cap, &slope);
        else c->picked[r] = f32_at(c->dtype, c->logits, r * c->n + label);
    }
}

void RP_AT_LEVEL(cross_entropy_fold)(rp_dtype dtype, const void *logits, float cap, const int32_t *labels, int64_t first, float *top,
                                     float *sum, float *picked, int64_t rows, int64_t n, const rp_on *on)
{
    folding c = { dtype, logits, labels, first, n, cap, top, sum, picked };

    rp__team_ranges(on->threads, rows, 1, rows * n * width_of(dtype), fold_rows, &c);
}

void RP_AT_LEVEL(cross_entropy_rows)(const float *top, const float *sum, const float *picked, const int32_t *labels, int32_t ignore, float *loss,
                                     float *lse, int64_t rows, const rp_on *on)
{
    (void)on;
    for (int64_t r = 0; r < rows; r++) {
        bool counts = labels[r] != ignore;
        float whole = counts ? top[r] + logf(sum[r]) : 0;
        loss[r]     = counts ? whole - picked[r] : 0;
        if (lse) lse[r] = whole;
    }
}

static void unfold_rows(const void *arg, int64_t from, int64_t to)
{
    const losses *c = arg;
    int64_t n       = c->n;

    for (int64_t r = from; r < to; r++)
        if (c->labels[r] != c->ignore && c->cap > 0) row_gradient_capped(c, r * n, c->labels[r] - c->first, c->lse[r]);
        else if (c->labels[r] != c->ignore)
            row_gradient(c->dtype, c->logits, r * n, n, c->labels[r] - c->first, c->lse[r], c->factor, c->d, c->dtype, false);
        else row_zero(c->dtype, c->d, r * n, n);
}

void RP_AT_LEVEL(cross_entropy_unfold)(rp_dtype dtype, const void *logits, float cap, void *d, const int32_t *labels, int32_t ignore,
                                       int64_t first, const float *lse, float weight, const float *dloss, int64_t rows, int64_t n,
                                       const rp_on *on)
{
    losses c = { .dtype = dtype, .logits = logits, .labels = labels, .ignore = ignore, .first = first, .lse = (float *)lse,
                 .factor = weight * *dloss, .cap = cap, .d = d, .n = n };

    rp__team_ranges(on->threads, rows, 1, 2 * rows * n * width_of(dtype), unfold_rows, &c);
}
