/* kernels/cpu/route.c -- chooses the experts of each row of logits, their weights and the gradient. Each row is computed by one thread. */
#include "kernels/cpu/softmax.h"

typedef struct {
    rp_dtype dtype, dx_dtype;
    const void *x;
    const float *weights, *dw;
    const int32_t *choices;
    float *to_weights;
    int32_t *to_choices;
    void *dx;
    int64_t n, k;
    bool renormalise, adds;
} routes_of;

/* A NaN counts as the smallest value. */
static inline float logit_at(rp_dtype dtype, const void *x, int64_t i)
{
    float v = f32_at(dtype, x, i);

    return v == v ? v : -INFINITY;
}

/* Index of the largest value after (before, before_at) in descending order; equal values are ordered by index. One must remain (k <= n). */
INLINE int32_t next_largest(rp_dtype dtype, const routes_of *c, int64_t row, float before, int32_t before_at)
{
    int32_t best = -1;
    float most   = 0;

    for (int32_t i = 0; i < c->n; i++) {
        float v = logit_at(dtype, c->x, row * c->n + i);
        if (v > before || (v == before && i <= before_at)) continue;
        if (best < 0 || v > most) {
            best = i;
            most = v;
        }
    }
    return best;
}

INLINE void choose(rp_dtype dtype, const routes_of *c, int64_t row)
{
    float before = INFINITY;
    int32_t at   = -1;

    for (int64_t j = 0; j < c->k; j++) {
        at     = next_largest(dtype, c, row, before, at);
        before = logit_at(dtype, c->x, row * c->n + at);
        c->to_choices[row * c->k + j] = at;
    }
}

static void weigh(const routes_of *c, int64_t row)
{
    float max, all = exp_sum(c->dtype, c->x, row * c->n, c->n, &max), *w = c->to_weights + row * c->k, sum = 0;

    for (int64_t j = 0; j < c->k; j++)
        sum += w[j] = fast_exp(f32_at(c->dtype, c->x, row * c->n + c->to_choices[row * c->k + j]) - max);
    for (int64_t j = 0; j < c->k; j++) w[j] /= c->renormalise ? sum : all;
}

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    const routes_of *c = arg;

    for (int64_t r = from; r < to; r++) {
        if (c->dtype == RP_BF16) choose(RP_BF16, c, r);
        else choose(RP_F32, c, r);
        weigh(c, r);
    }
}

void RP_AT_LEVEL(route_forward)(rp_dtype dtype, const void *logits, float *weights, int32_t *choices, int64_t rows, int64_t n, int64_t k,
                                bool renormalise, const rp_on *on)
{
    routes_of c = { .dtype = dtype, .x = logits, .to_weights = weights, .to_choices = choices, .n = n, .k = k, .renormalise = renormalise };

    rp__team_ranges(on->threads, rows, 1, rows * n * k * width_of(dtype), forward_rows, &c);
}

static float weight_of(const routes_of *c, int64_t row, int64_t i, float max, float all)
{
    return fast_exp(f32_at(c->dtype, c->x, row * c->n + i) - max) / all;
}

/* dx = p * (d - dot), where dot is the sum of dw * p, and d is dw for a chosen expert, else 0. p is over all experts; with renormalise p of the
 * others is 0. */
static void backward_row(const routes_of *c, int64_t row)
{
    const int32_t *choice = c->choices + row * c->k;
    const float *dw = c->dw + row * c->k, *w = c->renormalise ? c->weights + row * c->k : NULL;
    float max = 0, all = c->renormalise ? 1 : exp_sum(c->dtype, c->x, row * c->n, c->n, &max), dot = 0;

    for (int64_t j = 0; j < c->k; j++) dot += dw[j] * (c->renormalise ? w[j] : weight_of(c, row, choice[j], max, all));
    for (int64_t i = 0; i < c->n; i++) {
        float p = c->renormalise ? 0 : weight_of(c, row, i, max, all), d = 0.0f - dot;
        for (int64_t j = 0; j < c->k; j++) {
            if (choice[j] != i) continue;
            d = dw[j] - dot;
            if (c->renormalise) p = w[j];
        }
        put_add_at(c->dx_dtype, c->dx, row * c->n + i, p * d, c->adds);
    }
}

static void backward_rows(const void *arg, int64_t from, int64_t to)
{
    const routes_of *c = arg;

    for (int64_t r = from; r < to; r++) backward_row(c, r);
}

void RP_AT_LEVEL(route_backward)(rp_dtype dtype, const void *logits, const float *weights, const int32_t *choices, const float *dweights,
                                 void *dlogits, rp_dtype dlogits_dtype, bool adds, int64_t rows, int64_t n, int64_t k, bool renormalise,
                                 const rp_on *on)
{
    routes_of c = { .dtype = dtype, .dx_dtype = dlogits_dtype, .x = logits, .weights = weights,
                    .choices = choices, .dw = dweights, .dx = dlogits, .n = n, .k = k, .renormalise = renormalise,
                    .adds = adds };

    rp__team_ranges(on->threads, rows, 1, rows * n * k * width_of(dtype), backward_rows, &c);
}
