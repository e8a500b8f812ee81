/* kernels/cpu/pointwise.c -- elementwise kernels: a formula each, which blocks.h runs over ranges. No element depends on another, so
 * neither the cut nor the vector width can show in the bits. */
#include "kernels/cpu/blocks.h"

/* erfc(z) exp(z*z) / t with t = 1/(1 + 0.4 z): least squares on Chebyshev points for 0 <= z <= 10, within 8e-8 relative. */
static inline float scaled_erfc(float t)
{
    float p = 0.0419418029f;

    p = p * t - 0.143589124f;
    p = p * t + 0.0905594453f;
    p = p * t + 0.0806835741f;
    p = p * t + 0.0846026987f;
    p = p * t + 0.191415131f;
    p = p * t + 0.202369645f;
    p = p * t + 0.226379126f;
    return (p * t + 0.225637764f) * t;
}

/* The normal distribution function at x; *density its derivative. */
static inline float normal_cdf(float x, float *density)
{
    float z = fabsf(x) * 0.707106781f, e = fast_exp(-0.5f * x * x), tail = 0.5f * e * scaled_erfc(1.0f / (1.0f + 0.4f * z));

    *density = 0.398942280f * e;
    return x < 0 ? tail : 1.0f - tail;
}

static inline float gelu_erf(float x)
{
    float density;

    return x * normal_cdf(x, &density);
}

static inline float gelu_erf_slope(float x)
{
    float density, cdf = normal_cdf(x, &density);

    return x * density + cdf;
}

/* (1 + tanh u)/2 is sigmoid(2u); u = sqrt(2/pi) (x + 0.044715 x^3). */
static inline float gelu_tanh(float x) { return x * sigmoid(x * (0.0713548163f * x * x + 1.59576912f)); }

static inline float gelu_tanh_slope(float x)
{
    float s = sigmoid(x * (0.0713548163f * x * x + 1.59576912f));

    return x * s * (1.0f - s) * (0.214064449f * x * x + 1.59576912f) + s;
}

static inline float silu(float x) { return x * sigmoid(x); }

static inline float silu_slope(float x)
{
    float s = sigmoid(x);

    return s * (x * (1.0f - s) + 1.0f);
}

static inline float relu(float x) { return x < 0 ? 0.0f : x; }
static inline float relu_slope(float y) { return y > 0 ? 1.0f : 0.0f; }

/* ---- one operand, and its gradient: dy times the slope ---- */

#define UNARY(name) \
    INLINE float name##_of(float x, float same, float factor) { return (void)same, (void)factor, name(x); } \
    INLINE float name##_gradient(float x, float dy, float factor) { return (void)factor, dy * name##_slope(x); } \
    static void name##_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, name##_of); } \
    static void name##_gradient_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, name##_gradient); } \
    void RP_AT_LEVEL(name##_forward)(rp_dtype dtype, const void *x, void *y, int64_t n, int threads) \
    { \
        flat_run(threads, n, name##_range, &(flat){ .dtype = dtype, .to_dtype = dtype, .a = x, .b = x, .to = y }); \
    } \
    void RP_AT_LEVEL(name##_backward)(rp_dtype dtype, const void *x, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t n, \
                                      int threads) \
    { \
        flat_run(threads, n, name##_gradient_range, \
                 &(flat){ .dtype = dtype, .to_dtype = dx_dtype, .a = x, .b = dy, .to = dx, .adds = adds }); \
    }

UNARY(gelu_tanh)
UNARY(gelu_erf)
UNARY(silu)
UNARY(relu)

/* ---- two operands, or one and a factor ---- */

INLINE float add(float a, float b, float factor) { return (void)factor, a + b; }
INLINE float mul(float a, float b, float factor) { return (void)factor, a * b; }
INLINE float scale(float a, float same, float factor) { return (void)same, factor * a; }
INLINE float swiglu(float gate, float up, float factor) { return (void)factor, silu(gate) * up; }

static void add_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, add); }
static void mul_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, mul); }
static void scale_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, scale); }
static void swiglu_range(const void *f, int64_t from, int64_t to) { flat_range(f, from, to, swiglu); }

void RP_AT_LEVEL(add)(rp_dtype dtype, const void *a, const void *b, void *to, int64_t n, int threads)
{
    flat_run(threads, n, add_range, &(flat){ .dtype = dtype, .to_dtype = dtype, .a = a, .b = b, .to = to });
}

void RP_AT_LEVEL(mul)(rp_dtype dtype, const void *a, const void *b, void *to, rp_dtype to_dtype, bool adds, int64_t n, int threads)
{
    flat_run(threads, n, mul_range, &(flat){ .dtype = dtype, .to_dtype = to_dtype, .a = a, .b = b, .to = to, .adds = adds });
}

void RP_AT_LEVEL(scale)(rp_dtype dtype, const void *x, float factor, void *to, rp_dtype to_dtype, bool adds, int64_t n, int threads)
{
    flat_run(threads, n, scale_range,
             &(flat){ .dtype = dtype, .to_dtype = to_dtype, .a = x, .b = x, .to = to, .factor = factor, .adds = adds });
}

void RP_AT_LEVEL(swiglu_forward)(rp_dtype dtype, const void *gate, const void *up, void *y, int64_t n, int threads)
{
    flat_run(threads, n, swiglu_range, &(flat){ .dtype = dtype, .to_dtype = dtype, .a = gate, .b = up, .to = y });
}

/* ---- both gradients of SwiGLU: dgate = dy up silu'(gate), dup = dy silu(gate) ---- */

typedef struct {
    rp_dtype dtype, dgate_dtype, dup_dtype;
    const void *gate, *up, *dy;
    void *dgate, *dup;
    bool dgate_adds, dup_adds;
} swiglu_gradients;

INLINE void swiglu_slopes(rp_dtype dtype, const swiglu_gradients *c, int64_t at, rp_dtype to_dtype, void *dgate, void *dup, int64_t to_at,
                          int64_t n)
{
    const void *gate = c->gate, *up = c->up, *slope = c->dy;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float g = f32_at(dtype, gate, at + i), u = f32_at(dtype, up, at + i), dy = f32_at(dtype, slope, at + i), s = sigmoid(g);
        put_at(to_dtype, dgate, to_at + i, dy * u * s * (g * (1.0f - s) + 1.0f));
        put_at(to_dtype, dup, to_at + i, dy * g * s);
    }
}

INLINE void swiglu_blocks(rp_dtype dtype, const swiglu_gradients *c, int64_t from, int64_t to)
{
    float dg[BLOCK], du[BLOCK];

    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t width = block_width(at, to);
        swiglu_slopes(dtype, c, at, RP_F32, dg, du, 0, width);
        if (c->dgate) row_store_add(c->dgate_dtype, c->dgate, at, width, dg, c->dgate_adds);
        if (c->dup) row_store_add(c->dup_dtype, c->dup, at, width, du, c->dup_adds);
    }
}

static void swiglu_backward_range(const void *arg, int64_t from, int64_t to)
{
    const swiglu_gradients *c = arg;
    bool direct = c->dgate && c->dup && c->dgate_dtype == c->dtype && c->dup_dtype == c->dtype && !c->dgate_adds && !c->dup_adds;

    if (c->dtype == RP_BF16 && direct) swiglu_slopes(RP_BF16, c, from, RP_BF16, c->dgate, c->dup, from, to - from);
    else if (c->dtype == RP_BF16) swiglu_blocks(RP_BF16, c, from, to);
    else if (direct) swiglu_slopes(RP_F32, c, from, RP_F32, c->dgate, c->dup, from, to - from);
    else swiglu_blocks(RP_F32, c, from, to);
}

void RP_AT_LEVEL(swiglu_backward)(rp_dtype dtype, const void *gate, const void *up, const void *dy, void *dgate, rp_dtype dgate_dtype,
                                  bool dgate_adds, void *dup, rp_dtype dup_dtype, bool dup_adds, int64_t n, int threads)
{
    swiglu_gradients c = { dtype, dgate_dtype, dup_dtype, gate, up, dy, dgate, dup, dgate_adds, dup_adds };

    rp__team_ranges(threads, n, BLOCK, n * 5 * width_of(dtype), swiglu_backward_range, &c);
}
