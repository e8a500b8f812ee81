/* kernels/cpu/optim.c -- AdamW, SGD and the sum of squares, in one pass each over memory.
 *
 * kernels/optim.h defines the layout of the work and the random bits of stochastic rounding. Arithmetic is fp32,
 * the sum of squares is fp64.
 */
#include "kernels/cpu/wide.h"

enum { PARAM, STATE };      /* index into rp__optim_bits: PARAM, STATE + i */

typedef struct { uint32_t noise[2][RP_OPTIM_TILE]; } tile_noise;    /* the random bits that round a tile */

typedef struct {            /* arguments of a call in fp32, converted once for many tiles */
    float scale, decay, weight_decay, eps, lr, rate, unbias, momentum, w1, b2, w2;
} factors;

typedef double wide_double __attribute__((vector_size(4 * WIDE)));
typedef float narrow __attribute__((vector_size(2 * WIDE)));

/* Adds the squares of the lower half of the lanes to *low, those of the upper half to *high. */
INLINE void add_squares(wide v, wide_double *low, wide_double *high)
{
    wide_double a, b;
#if defined(__AVX512F__)
    a = (wide_double)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
    b = (wide_double)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
#else
    narrow half[2];
    memcpy(half, &v, sizeof half);
    a = __builtin_convertvector(half[0], wide_double);
    b = __builtin_convertvector(half[1], wide_double);
#endif
    *low += a * a;
    *high += b * b;
}

/* Never inlined: AdamW and sum_squares must add in the same order, which one copy of the loop guarantees. */
static __attribute__((noinline)) double tile_squares(rp_dtype dtype, const void *x, int64_t at, int64_t n)
{
    wide_double a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    double total  = 0;
    int64_t i     = 0;

    for (; i + 2 * WIDE <= n; i += 2 * WIDE) {
        wide_prefetch(dtype, x, at + i);
        wide_prefetch(dtype, x, at + i + WIDE);
        add_squares(wide_load(dtype, x, at + i, WIDE), &a, &b);
        add_squares(wide_load(dtype, x, at + i + WIDE, WIDE), &c, &d);
    }
    for (; i < n; i += WIDE) add_squares(wide_load(dtype, x, at + i, wide_width(i, n)), &a, &b);
    a = (a + b) + (c + d);
    for (int l = 0; l < WIDE / 2; l++) total += a[l];
    return total;
}

static void fill_noise(const rp_optim_call *c, int plane, int64_t tile, uint32_t *out)
{
    int64_t first = tile * RP_OPTIM_BLOCKS;

#pragma omp simd
    for (int64_t b = 0; b < RP_OPTIM_BLOCKS; b++) {
        rp_philox p = rp__optim_noise_block(c->key, c->step, plane, first + b);
        out[b]                       = p.word[0];
        out[b + RP_OPTIM_BLOCKS]     = p.word[1];
        out[b + 2 * RP_OPTIM_BLOCKS] = p.word[2];
        out[b + 3 * RP_OPTIM_BLOCKS] = p.word[3];
    }
}

/* Stores elements [at + i, at + i + n) of a tile that begins at `at`. Stochastic rounding first rounds v to a bf16 value. */
INLINE void store(const rp_optim_call *c, const tile_noise *t, int whose, rp_dtype dtype, void *to, int64_t at, int64_t i, int64_t n, wide v)
{
    if (dtype == RP_BF16 && c->stochastic) {
        wide_bits noise  = *(const wide_bits_at *)(t->noise[rp__optim_bits[whose].plane] + i) >> rp__optim_bits[whose].shift & 0xffffu;
        wide_int special = ((wide_int)v & 0x7f800000) == 0x7f800000;
        v                = wide_select(special, v, (wide)(((wide_bits)v + noise) & 0xffff0000u));
    }
    wide_store(dtype, to, at + i, n, v);
}

/* Stores to the master if there is one, then to the parameter in its own dtype. */
INLINE void store_param(const rp_optim_call *c, const tile_noise *t, int64_t at, int64_t i, int64_t n, wide v)
{
    if (c->master) wide_store(RP_F32, c->master, at + i, n, v);
    store(c, t, PARAM, c->param_dtype, c->param, at, i, n, v);
}

INLINE wide load_param(const rp_optim_call *c, int64_t at, int64_t n)
{
    rp_dtype dtype   = c->master ? RP_F32 : c->param_dtype;
    const void *from = c->master ? c->master : c->param;

    wide_prefetch(dtype, from, at);
    return wide_load(dtype, from, at, n);
}

INLINE wide load(rp_dtype dtype, const void *from, int64_t at, int64_t n)
{
    wide_prefetch(dtype, from, at);
    return wide_load(dtype, from, at, n);
}

typedef double tile_work(const rp_optim_call *c, const factors *f, const tile_noise *t, int64_t at, int64_t n);

/* `skip`: elements of the tile before the slice. */
static void load_noise(const rp_optim_call *c, tile_noise *t, int64_t tile, int64_t skip)
{
    if (!c->stochastic) return;
    if (c->param_dtype == RP_BF16 || c->state_dtype == RP_BF16) fill_noise(c, 0, tile, t->noise[0]);
    if (c->state_dtype == RP_BF16 && c->state[1]) fill_noise(c, 1, tile, t->noise[1]);
    for (int plane = 0; plane < 2 && skip; plane++)
        memmove(t->noise[plane], t->noise[plane] + skip, (size_t)(RP_OPTIM_TILE - skip) * sizeof t->noise[plane][0]);
}

/* Decoupled weight decay, Loshchilov and Hutter 2019 (arXiv 1711.05101), in the order of torch.optim.AdamW:
 * p *= 1 - lr*wd;  m += (1-b1)(g - m);  v = b2*v + (1-b2)g*g;  p -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps) */
static double adamw_tile(const rp_optim_call *given, const factors *with, const tile_noise *t, int64_t at, int64_t length)
{
    const rp_optim_call call = *given, *c = &call;
    const factors f          = *with;

    for (int64_t i = 0; i < length; i += WIDE) {
        int64_t n = wide_width(i, length);
        wide p = load_param(c, at + i, n), g = load(c->grad_dtype, c->grad, at + i, n) * f.scale;
        wide m = load(c->state_dtype, c->state[0], at + i, n), v = load(c->state_dtype, c->state[1], at + i, n);
        m = m + f.w1 * (g - m);
        v = f.b2 * v + f.w2 * g * g;
        store(c, t, STATE, c->state_dtype, c->state[0], at, i, n, m);
        store(c, t, STATE + 1, c->state_dtype, c->state[1], at, i, n, v);
        store_param(c, t, at, i, n, p * f.decay - f.rate * m / (wide_sqrt(v) * f.unbias + f.eps));
    }
    return c->sum_squares ? tile_squares(c->grad_dtype, c->grad, at, length) : 0;
}

/* As torch.optim.SGD without dampening: g += wd*p;  b = momentum*b + g;  p -= lr*b */
static double sgd_tile(const rp_optim_call *given, const factors *with, const tile_noise *t, int64_t at, int64_t length)
{
    const rp_optim_call call = *given, *c = &call;
    const factors f          = *with;

    for (int64_t i = 0; i < length; i += WIDE) {
        int64_t n = wide_width(i, length);
        wide p    = load_param(c, at + i, n), b = load(c->grad_dtype, c->grad, at + i, n) * f.scale + f.weight_decay * p;
        if (c->state[0]) {
            b = f.momentum * load(c->state_dtype, c->state[0], at + i, n) + b;
            store(c, t, STATE, c->state_dtype, c->state[0], at, i, n, b);
        }
        store_param(c, t, at, i, n, p - f.lr * b);
    }
    return c->sum_squares ? tile_squares(c->grad_dtype, c->grad, at, length) : 0;
}

static double squares_tile(const rp_optim_call *c, const factors *f, const tile_noise *t, int64_t at, int64_t n)
{
    (void)f, (void)t;
    return tile_squares(c->grad_dtype, c->grad, at, n);
}

static factors factors_of(const rp_optim_call *c)
{
    return (factors){ .scale = (float)c->grad_scale, .decay = (float)(1 - c->lr * c->weight_decay), .weight_decay = (float)c->weight_decay,
                      .eps = (float)c->eps, .lr = (float)c->lr, .rate = (float)(c->lr / c->bias1), .unbias = (float)(1 / sqrt(c->bias2)),
                      .momentum = (float)c->momentum, .w1 = (float)(1 - c->beta1), .b2 = (float)c->beta2, .w2 = (float)(1 - c->beta2) };
}

typedef struct {
    const rp_optim_call *call;
    tile_work *work;
    int64_t tiles, length;              /* length: tiles of a span */
    double *span_sum;
} spans_of;

static void run_spans(const void *arg, int64_t from, int64_t to)
{
    const spans_of *c         = arg;
    const rp_optim_call *call = c->call;
    int64_t before            = call->first % RP_OPTIM_TILE;       /* elements before the slice in its first tile */
    factors f                 = factors_of(call);
    tile_noise t;

    for (int64_t s = from; s < to; s++) {
        double here = 0;
        for (int64_t i = s * c->length; i < c->tiles && i < (s + 1) * c->length; i++) {
            int64_t begin = i * RP_OPTIM_TILE - before, at = begin > 0 ? begin : 0, end = begin + RP_OPTIM_TILE;
            load_noise(call, &t, call->first / RP_OPTIM_TILE + i, at - begin);
            here += c->work(call, &f, &t, at, (end < call->n ? end : call->n) - at);
        }
        c->span_sum[s] = here;
    }
}

static void optim_run(const rp_optim_call *c, tile_work *work)
{
    int64_t tiles = c->n ? (c->first % RP_OPTIM_TILE + c->n + RP_OPTIM_TILE - 1) / RP_OPTIM_TILE : 0;
    int64_t length = (tiles + RP_OPTIM_SPANS - 1) / RP_OPTIM_SPANS;
    int64_t spans = length ? (tiles + length - 1) / length : 0;
    double span_sum[RP_OPTIM_SPANS], sum = 0;

    rp__team_ranges(c->on.threads, spans, 1, c->n * (c->param ? 14 : 2), run_spans, &(spans_of){ c, work, tiles, length, span_sum });
    if (!c->sum_squares) return;
    for (int64_t s = 0; s < spans; s++) sum += span_sum[s];
    *c->sum_squares = sum;
}

void RP_AT_LEVEL(adamw)(const rp_optim_call *c) { optim_run(c, adamw_tile); }

void RP_AT_LEVEL(sgd)(const rp_optim_call *c) { optim_run(c, sgd_tile); }

void RP_AT_LEVEL(sum_squares)(rp_dtype dtype, const void *from, int64_t first, int64_t n, double *sum, const rp_on *on)
{
    optim_run(&(rp_optim_call){ .on = *on, .grad_dtype = dtype, .grad = from, .first = first, .n = n, .sum_squares = sum },
        squares_tile);
}
