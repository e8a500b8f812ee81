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

/* ---- states in 8 bits: decoded to fp32, updated as such, encoded ---- */

typedef uint8_t wide_bytes __attribute__((vector_size(WIDE)));
typedef uint8_t wide_bytes_at __attribute__((vector_size(WIDE), aligned(1), may_alias));

INLINE wide_bits wide_lookup(const void *table, wide_bits at)
{
#if defined(__AVX512F__)
    return (wide_bits)_mm512_i32gather_epi32((__m512i)at, table, 4);
#elif defined(__AVX2__)
    return (wide_bits)_mm256_i32gather_epi32(table, (__m256i)at, 4);
#else
    wide_bits found;
    for (int l = 0; l < WIDE; l++) found[l] = ((const uint32_t *)table)[at[l]];
    return found;
#endif
}

INLINE wide_bits wide_bits_min(wide_bits a, wide_bits b)
{
#if defined(__AVX512F__)
    return (wide_bits)_mm512_min_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (wide_bits)_mm256_min_epu32((__m256i)a, (__m256i)b);
#else
    return (wide_bits)wide_select(a < b, (wide)a, (wide)b);
#endif
}

INLINE wide_bits wide_bits_max(wide_bits a, wide_bits b)
{
#if defined(__AVX512F__)
    return (wide_bits)_mm512_max_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (wide_bits)_mm256_max_epu32((__m256i)a, (__m256i)b);
#else
    return (wide_bits)wide_select(a > b, (wide)a, (wide)b);
#endif
}

/* Stores the low bytes of the lanes. */
INLINE void wide_to_bytes(void *to, wide_bits v)
{
#if defined(__AVX512F__)
    _mm_storeu_si128(to, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined(__AVX2__)
    __m256i half = _mm256_packus_epi32((__m256i)v, (__m256i)v), all = _mm256_packus_epi16(half, half);
    _mm_storel_epi64(to, _mm_unpacklo_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
#else
    for (int l = 0; l < WIDE; l++) ((uint8_t *)to)[l] = (uint8_t)v[l];
#endif
}

/* Decodes elements [at, at + n) of state k, which begin a block. Elements after the last one, up to a whole vector, become 0. */
static void decode(const rp_optim_call *c, const rp_optim_codes *codes, int k, int64_t at, int64_t n, float *to)
{
    const uint8_t *from = (const uint8_t *)c->state[k] + at;

    for (int64_t i = 0; i < n; i += WIDE) {
        wide_bytes code = { 0 };
        int64_t count   = wide_width(i, n);
        if (count == WIDE) code = *(const wide_bytes_at *)(from + i);
        else memcpy(&code, from + i, (size_t)count);
        __builtin_prefetch(from + i + AHEAD, 0, 3);
        wide v = (wide)wide_lookup(codes->value[k], __builtin_convertvector(code, wide_bits)) * c->absmax[k][(at + i) / RP_OPTIM_BLOCK];
        *(wide_at *)(to + i) = wide_inside(v, count);
    }
}

/* The largest magnitude of n elements, followed by zeros up to a whole vector; NaN if there is one. Bits of magnitudes are in their order. */
static float block_absmax(const float *v, int64_t n)
{
    wide_bits most = { 0 };
    uint32_t lane[WIDE];
    union { uint32_t u; float f; } all;

    for (int64_t i = 0; i < n; i += WIDE) most = wide_bits_max(most, *(const wide_bits_at *)(v + i) & 0x7fffffffu);
    memcpy(lane, &most, sizeof lane);
    for (int half = WIDE / 2; half; half /= 2)
        for (int l = 0; l < half; l++) lane[l] = lane[l + half] > lane[l] ? lane[l + half] : lane[l];
    all.u = lane[0];
    return all.f;
}

/* Same as rp__optim_encode. */
INLINE wide_bits wide_encode(const rp_optim_codes *codes, int k, wide x)
{
    wide_bits low = (wide_bits){ 0 } + ((uint32_t)RP_CODE_BOTTOM << 16), top = (wide_bits){ 0 } + RP_CODE_TOP;
    wide_bits size = wide_bits_max(low, wide_bits_min(top, (wide_bits)x & 0x7fffffffu));
    wide_bits near = wide_lookup(codes->near[k], (size >> 16) - RP_CODE_BOTTOM);
    wide_int place = (wide_int)(near >> 16) - ((size & 0xffffu) > (near & 0xffffu));
    if (k) return (wide_bits)place;
    wide_int negative = (wide_int)x >> 31, last = place > RP_CODE_ZERO;
    place += last & negative;                           /* there is no -1 */
    return (wide_bits)(RP_CODE_ZERO + ((place ^ negative) - negative));
}

/* Encodes a block that begins at element `at`. A magnitude whose reciprocal is not a normal number is divided by four first. */
static void encode_block(const rp_optim_call *c, const rp_optim_codes *codes, int k, int64_t at, int64_t n, const float *from)
{
    uint8_t *to = (uint8_t *)c->state[k] + at;
    float most  = block_absmax(from, n), before = most > 0x1p126f ? 0.25f : 1.0f;

    if (most < 0x1p-126f) most = 0;                     /* NaN stays */
    c->absmax[k][at / RP_OPTIM_BLOCK] = most;
    float factor = most == 0 ? 0 : 1.0f / (most * before);
    for (int64_t i = 0; i < n; i += WIDE) {
        wide_bits code = wide_encode(codes, k, *(const wide_at *)(from + i) * before * factor);
        wide_bytes rest;
        if (wide_width(i, n) == WIDE) {
            wide_to_bytes(to + i, code);
        } else {
            wide_to_bytes(&rest, code);
            memcpy(to + i, &rest, (size_t)(n - i));
        }
    }
}

/* The part of a call in elements [at, at + n), with its states in fp32. */
static rp_optim_call decoded_call(const rp_optim_call *c, int64_t at, int64_t n, float state[][RP_OPTIM_TILE])
{
    rp_optim_call part = *c;

    part.n           = n;
    part.first       = c->first + at;
    part.state_dtype = RP_F32;
    part.param       = (uint8_t *)c->param + at * width_of(c->param_dtype);
    part.grad        = element(c->grad_dtype, c->grad, at);
    if (c->master) part.master = c->master + at;
    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++)
        if (c->state[k]) part.state[k] = state[k];
    return part;
}

static double coded_tile(const rp_optim_call *c, const factors *f, const tile_noise *t, int64_t at, int64_t n, tile_work *work)
{
    const rp_optim_codes *codes = rp__optim_codes();
    _Alignas(64) float state[RP_OPTIM_MAX_STATES][RP_OPTIM_TILE];
    rp_optim_call part = decoded_call(c, at, n, state);

    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++)
        if (c->state[k]) decode(c, codes, k, at, n, state[k]);
    double sum = work(&part, f, t, 0, n);
    for (int k = 0; k < RP_OPTIM_MAX_STATES; k++)
        for (int64_t i = 0; c->state[k] && i < n; i += RP_OPTIM_BLOCK)
            encode_block(c, codes, k, at + i, n - i < RP_OPTIM_BLOCK ? n - i : RP_OPTIM_BLOCK, state[k] + i);
    return sum;
}

/* ---- tiles to spans ---- */

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
            int64_t n = (end < call->n ? end : call->n) - at;
            load_noise(call, &t, call->first / RP_OPTIM_TILE + i, at - begin);
            here += call->state_dtype == RP_U8 ? coded_tile(call, &f, &t, at, n, c->work) : c->work(call, &f, &t, at, n);
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
