/* kernels/cpu/pointwise.c -- elementwise kernels. Blocks are split over threads statically; no element depends on another, so
 * neither the split nor the vector width can show in the bits. */
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

#define UNARY(name) \
    void RP_AT_LEVEL(name##_forward)(rp_dtype dtype, const void *x, void *y, int64_t n, int threads) \
    { \
        _Pragma("omp parallel for schedule(static) num_threads(threads)") \
        for (int64_t at = 0; at < n; at += BLOCK) { \
            float xbuf[BLOCK], ybuf[BLOCK]; \
            int64_t width = block_width(at, n); \
            const float *xf = row_f32(dtype, x, at, width, xbuf); \
            float *yf       = block_target(dtype, y, at, false, ybuf); \
            _Pragma("omp simd") \
            for (int64_t i = 0; i < width; i++) yf[i] = name(xf[i]); \
            block_done(dtype, y, at, width, yf, false); \
        } \
    } \
    void RP_AT_LEVEL(name##_backward)(rp_dtype dtype, const void *x, const void *dy, void *dx, rp_dtype dx_dtype, bool adds, int64_t n, \
                                      int threads) \
    { \
        _Pragma("omp parallel for schedule(static) num_threads(threads)") \
        for (int64_t at = 0; at < n; at += BLOCK) { \
            float xbuf[BLOCK], gbuf[BLOCK], dbuf[BLOCK]; \
            int64_t width = block_width(at, n); \
            const float *xf = row_f32(dtype, x, at, width, xbuf), *g = row_f32(dtype, dy, at, width, gbuf); \
            float *d        = block_target(dx_dtype, dx, at, adds, dbuf); \
            _Pragma("omp simd") \
            for (int64_t i = 0; i < width; i++) d[i] = g[i] * name##_slope(xf[i]); \
            block_done(dx_dtype, dx, at, width, d, adds); \
        } \
    }

UNARY(gelu_tanh)
UNARY(gelu_erf)
UNARY(silu)
UNARY(relu)

void RP_AT_LEVEL(add)(rp_dtype dtype, const void *a, const void *b, void *to, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t at = 0; at < n; at += BLOCK) {
        float abuf[BLOCK], bbuf[BLOCK], ybuf[BLOCK];
        int64_t width   = block_width(at, n);
        const float *af = row_f32(dtype, a, at, width, abuf), *bf = row_f32(dtype, b, at, width, bbuf);
        float *y        = block_target(dtype, to, at, false, ybuf);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) y[i] = af[i] + bf[i];
        block_done(dtype, to, at, width, y, false);
    }
}

void RP_AT_LEVEL(mul)(rp_dtype dtype, const void *a, const void *b, void *to, rp_dtype to_dtype, bool adds, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t at = 0; at < n; at += BLOCK) {
        float abuf[BLOCK], bbuf[BLOCK], ybuf[BLOCK];
        int64_t width   = block_width(at, n);
        const float *af = row_f32(dtype, a, at, width, abuf), *bf = row_f32(dtype, b, at, width, bbuf);
        float *y        = block_target(to_dtype, to, at, adds, ybuf);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) y[i] = af[i] * bf[i];
        block_done(to_dtype, to, at, width, y, adds);
    }
}

void RP_AT_LEVEL(scale)(rp_dtype dtype, const void *x, float factor, void *to, rp_dtype to_dtype, bool adds, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t at = 0; at < n; at += BLOCK) {
        float xbuf[BLOCK], ybuf[BLOCK];
        int64_t width   = block_width(at, n);
        const float *xf = row_f32(dtype, x, at, width, xbuf);
        float *y        = block_target(to_dtype, to, at, adds, ybuf);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) y[i] = factor * xf[i];
        block_done(to_dtype, to, at, width, y, adds);
    }
}

void RP_AT_LEVEL(swiglu_forward)(rp_dtype dtype, const void *gate, const void *up, void *y, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t at = 0; at < n; at += BLOCK) {
        float gbuf[BLOCK], ubuf[BLOCK], ybuf[BLOCK];
        int64_t width  = block_width(at, n);
        const float *g = row_f32(dtype, gate, at, width, gbuf), *u = row_f32(dtype, up, at, width, ubuf);
        float *yf      = block_target(dtype, y, at, false, ybuf);
#pragma omp simd
        for (int64_t i = 0; i < width; i++) yf[i] = silu(g[i]) * u[i];
        block_done(dtype, y, at, width, yf, false);
    }
}

/* One block of both gradients: dgate = dy up silu'(gate), dup = dy silu(gate). */
static void swiglu_slopes(const float *g, const float *u, const float *d, float *dg, float *du, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = sigmoid(g[i]), dy = d[i];
        dg[i] = dy * u[i] * s * (g[i] * (1.0f - s) + 1.0f);
        du[i] = dy * g[i] * s;
    }
}

void RP_AT_LEVEL(swiglu_backward)(rp_dtype dtype, const void *gate, const void *up, const void *dy, void *dgate, rp_dtype dgate_dtype,
                                  bool dgate_adds, void *dup, rp_dtype dup_dtype, bool dup_adds, int64_t n, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t at = 0; at < n; at += BLOCK) {
        float gbuf[BLOCK], ubuf[BLOCK], dbuf[BLOCK], dgbuf[BLOCK], dubuf[BLOCK];
        int64_t width  = block_width(at, n);
        const float *g = row_f32(dtype, gate, at, width, gbuf), *u = row_f32(dtype, up, at, width, ubuf),
                    *d = row_f32(dtype, dy, at, width, dbuf);
        float *dg = dgate ? block_target(dgate_dtype, dgate, at, dgate_adds, dgbuf) : dgbuf;
        float *du = dup ? block_target(dup_dtype, dup, at, dup_adds, dubuf) : dubuf;
        swiglu_slopes(g, u, d, dg, du, width);
        if (dgate) block_done(dgate_dtype, dgate, at, width, dg, dgate_adds);
        if (dup) block_done(dup_dtype, dup, at, width, du, dup_adds);
    }
}
