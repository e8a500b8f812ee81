/* kernels/cpu/pointwise.c -- elementwise kernels: one formula each, on vectors. Elements are independent, so the bits do not depend on how
 * the range is divided. */
#include "kernels/cpu/wide.h"

enum { STEP = 64 };             /* ranges begin at multiples of it: whole vectors, whole cache lines */

typedef struct {                /* to (+)= formula(a, b, factor) */
    rp_dtype dtype, to_dtype;
    const void *a, *b;          /* b NULL: the formula has one operand */
    void *to;
    float factor;
    bool adds;
} flat;

typedef wide flat_formula(wide a, wide b, float factor);

INLINE void flat_vector(const flat *f, int64_t at, int64_t n, flat_formula *formula)
{
    wide a = wide_load(f->dtype, f->a, at, n), b = f->b ? wide_load(f->dtype, f->b, at, n) : a;

    wide_add(f->to_dtype, f->to, at, n, formula(a, b, f->factor), f->adds);
}

/* Inlined into one function per formula; the formula becomes part of the loop. */
INLINE void flat_range(const flat *given, int64_t from, int64_t to, flat_formula *formula)
{
    flat f = *given;            /* a local copy stays in registers, because stores cannot change it */

    for (; from + WIDE <= to; from += WIDE) {
        wide_prefetch(f.dtype, f.a, from);
        if (f.b) wide_prefetch(f.dtype, f.b, from);
        wide_prefetch(f.to_dtype, f.to, from);
        flat_vector(&f, from, WIDE, formula);
    }
    if (from < to) flat_vector(&f, from, to - from, formula);
}

static void flat_run(const rp_on *on, int64_t n, rp_team_range *work, const flat *f)
{
    rp__team_ranges(on->threads, n, STEP, n * ((f->b ? 2 : 1) * width_of(f->dtype) + width_of(f->to_dtype)), work, f);
}

/* ---- one operand, and its gradient: dy times the slope ---- */

/* erfc(z) exp(z*z) / t with t = 1/(1 + 0.4 z): least squares on Chebyshev points for 0 <= z <= 10, within 8e-8 relative. */
INLINE wide scaled_erfc(wide t)
{
    wide p = 0.0419418029f * t - 0.143589124f;

    p = p * t + 0.0905594453f;
    p = p * t + 0.0806835741f;
    p = p * t + 0.0846026987f;
    p = p * t + 0.191415131f;
    p = p * t + 0.202369645f;
    p = p * t + 0.226379126f;
    return (p * t + 0.225637764f) * t;
}

/* The normal distribution function at x; *density is its derivative. */
INLINE wide normal_cdf(wide x, wide *density)
{
    wide size = (wide)((wide_bits)x & 0x7fffffffu), e = wide_exp(-0.5f * x * x);
    wide tail = 0.5f * e * scaled_erfc(1.0f / (1.0f + 0.4f * (size * 0.707106781f)));

    *density = 0.398942280f * e;
    return wide_select(x < 0.0f, tail, 1.0f - tail);
}

INLINE wide gelu_erf(wide x)
{
    wide density;

    return x * normal_cdf(x, &density);
}

INLINE wide gelu_erf_slope(wide x)
{
    wide density, cdf = normal_cdf(x, &density);

    return x * density + cdf;
}

/* (1 + tanh u)/2 is sigmoid(2u); u = sqrt(2/pi) (x + 0.044715 x^3). */
INLINE wide gelu_tanh(wide x) { return x * wide_sigmoid(x * (0.0713548163f * x * x + 1.59576912f)); }

INLINE wide gelu_tanh_slope(wide x)
{
    wide s = wide_sigmoid(x * (0.0713548163f * x * x + 1.59576912f));

    return x * s * (1.0f - s) * (0.214064449f * x * x + 1.59576912f) + s;
}

INLINE wide silu(wide x) { return x * wide_sigmoid(x); }

INLINE wide silu_slope(wide x)
{
    wide s = wide_sigmoid(x);

    return s * (x * (1.0f - s) + 1.0f);
}

INLINE wide relu(wide x) { return wide_select(x < 0.0f, wide_of(0), x); }

/* The square of exp(x / 2) exceeds the range of fp32 where exp(x) does; wide_exp stops at 88. */
INLINE wide exp_or_inf(wide x)
{
    wide half = wide_exp(0.5f * x);

    return wide_select(x > 88.0f, half * half, wide_exp(x));
}

INLINE wide softcap_slope(wide x, wide cap)
{
    wide slope;

    (void)wide_tanh(x / cap, &slope);
    return slope;
}

/* The function at x, and its slope at x or, where the op keeps the output instead, at y = the function. p is the parameter. */
#define UNARY(name, value, slope) \
    INLINE wide name##_value(wide x, wide same, float factor) \
    { \
        wide p = wide_of(factor), t; \
        return (void)same, (void)p, (void)t, (value); \
    } \
    INLINE wide name##_gradient(wide x, wide dy, float factor) \
    { \
        wide p = wide_of(factor), y = x; \
        return (void)p, (void)x, (void)y, dy * (slope); \
    } \
    static void name##_forward(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, name##_value); } \
    static void name##_backward(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, name##_gradient); }

UNARY(scale, p * x, p)
UNARY(softcap, p * wide_tanh(x / p, &t), softcap_slope(x, p))
UNARY(gelu_tanh, gelu_tanh(x), gelu_tanh_slope(x))
UNARY(gelu_erf, gelu_erf(x), gelu_erf_slope(x))
UNARY(silu, silu(x), silu_slope(x))
UNARY(relu, relu(x), wide_select(y > 0.0f, wide_of(1), wide_of(0)))
UNARY(relu2, relu(x) * relu(x), 2.0f * wide_sqrt(y))
UNARY(tanh, wide_tanh(x, &t), 1.0f - y * y)
UNARY(sigmoid, wide_sigmoid(x), y * (1.0f - y))
UNARY(exp, exp_or_inf(x), y)
UNARY(log, wide_log(x), 1.0f / x)

static rp_team_range *const forward_of[] = {
#define RP_UNARY(NAME, name) [RP_UNARY_##NAME] = name##_forward,
#include "kernels/pointwise.def"
};

static rp_team_range *const backward_of[] = {
#define RP_UNARY(NAME, name) [RP_UNARY_##NAME] = name##_backward,
#include "kernels/pointwise.def"
};

void RP_AT_LEVEL(unary_forward)(rp_unary f, rp_dtype dtype, const void *x, float parameter, void *y, int64_t n, const rp_on *on)
{
    flat_run(on, n, forward_of[f], &(flat){ .dtype = dtype, .to_dtype = dtype, .a = x, .to = y, .factor = parameter });
}

void RP_AT_LEVEL(unary_backward)(rp_unary f, rp_dtype dtype, const void *of, float parameter, const void *dy, void *dx, rp_dtype dx_dtype, bool adds,
                                 int64_t n, const rp_on *on)
{
    flat_run(on, n, backward_of[f],
             &(flat){ .dtype = dtype, .to_dtype = dx_dtype, .a = of, .b = dy, .to = dx, .factor = parameter, .adds = adds });
}

/* ---- two operands ---- */

INLINE wide swiglu(wide gate, wide up, float factor) { return (void)factor, silu(gate) * up; }

static void swiglu_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, swiglu); }

void RP_AT_LEVEL(swiglu_forward)(rp_dtype dtype, const void *gate, const void *up, void *y, int64_t n, const rp_on *on)
{
    flat_run(on, n, swiglu_range, &(flat){ .dtype = dtype, .to_dtype = dtype, .a = gate, .b = up, .to = y });
}

/* ---- both gradients of SwiGLU: dgate = dy up silu'(gate), dup = dy silu(gate) ---- */

typedef struct {
    rp_dtype dtype, dgate_dtype, dup_dtype;
    const void *gate, *up, *dy;
    void *dgate, *dup;
    bool dgate_adds, dup_adds;
} swiglu_gradients;

INLINE void swiglu_slopes(const swiglu_gradients *c, int64_t at, int64_t n)
{
    wide g = wide_load(c->dtype, c->gate, at, n), u = wide_load(c->dtype, c->up, at, n), dy = wide_load(c->dtype, c->dy, at, n);
    wide s = wide_sigmoid(g), part = dy * s;

    if (c->dgate) wide_add(c->dgate_dtype, c->dgate, at, n, part * u * (g * (1.0f - s) + 1.0f), c->dgate_adds);
    if (c->dup) wide_add(c->dup_dtype, c->dup, at, n, part * g, c->dup_adds);
}

static void swiglu_backward_range(const void *arg, int64_t from, int64_t to)
{
    swiglu_gradients c = *(const swiglu_gradients *)arg;

    for (; from + WIDE <= to; from += WIDE) {
        wide_prefetch(c.dtype, c.gate, from);
        wide_prefetch(c.dtype, c.up, from);
        wide_prefetch(c.dtype, c.dy, from);
        if (c.dgate) wide_prefetch(c.dgate_dtype, c.dgate, from);
        if (c.dup) wide_prefetch(c.dup_dtype, c.dup, from);
        swiglu_slopes(&c, from, WIDE);
    }
    if (from < to) swiglu_slopes(&c, from, to - from);
}

void RP_AT_LEVEL(swiglu_backward)(rp_dtype dtype, const void *gate, const void *up, const void *dy, void *dgate, rp_dtype dgate_dtype,
                                  bool dgate_adds, void *dup, rp_dtype dup_dtype, bool dup_adds, int64_t n, const rp_on *on)
{
    swiglu_gradients c = { dtype, dgate_dtype, dup_dtype, gate, up, dy, dgate, dup, dgate_adds, dup_adds };

    rp__team_ranges(on->threads, n, STEP, n * 5 * width_of(dtype), swiglu_backward_range, &c);
}

/* ---- the squared error: a block's sum is computed by one thread, lane by lane ---- */

typedef struct {
    rp_dtype dtype;
    const void *a, *b;
    float *sums;
    int64_t n;
} squares;

static void mse_blocks(const void *arg, int64_t from, int64_t to)
{
    const squares *c = arg;

    for (int64_t block = from; block < to; block++) {
        int64_t at = block * RP_MSE_BLOCK, end = c->n - at < RP_MSE_BLOCK ? c->n : at + RP_MSE_BLOCK;
        wide sum = { 0 };
        for (; at < end; at += WIDE) {
            int64_t width = wide_width(at, end);
            wide d        = wide_load(c->dtype, c->a, at, width) - wide_load(c->dtype, c->b, at, width);
            sum += d * d;
        }
        c->sums[block] = wide_sum(sum);
    }
}

void RP_AT_LEVEL(mse_sums)(rp_dtype dtype, const void *a, const void *b, float *sums, int64_t n, const rp_on *on)
{
    squares c = { dtype, a, b, sums, n };

    rp__team_ranges(on->threads, (n + RP_MSE_BLOCK - 1) / RP_MSE_BLOCK, 1, 2 * n * width_of(dtype), mse_blocks, &c);
}

INLINE wide scaled_difference(wide a, wide b, float factor) { return factor * (a - b); }
static void mse_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, scaled_difference); }

void RP_AT_LEVEL(mse_backward)(rp_dtype dtype, const void *a, const void *b, float weight, const float *dloss, void *d, rp_dtype d_dtype, bool adds,
                               int64_t n, const rp_on *on)
{
    flat_run(on, n, mse_range,
             &(flat){ .dtype = dtype, .to_dtype = d_dtype, .a = a, .b = b, .to = d, .factor = 2 * weight * *dloss, .adds = adds });
}
