/* kernels/cpu/optim.c -- AdamW, SGD and the sum of squares, one pass each over memory.
 *
 * The layout of the work and the random bits of stochastic rounding are those of kernels/optim.h. Arithmetic is fp32,
 * the sum of squares fp64.
 */
#include "kernels/cpu/cpu.h"

enum { PARAM, STATE };      /* whose bits: PARAM, STATE + i */

typedef struct {            /* a tile in fp32, and the random bits that round it */
    float param[RP_OPTIM_TILE], grad[RP_OPTIM_TILE], state[RP_OPTIM_MAX_STATES][RP_OPTIM_TILE];
    uint32_t noise[2][RP_OPTIM_TILE];
} tile_buffer;

/* Never inlined: AdamW and sum_squares must add in one order, and one copy of the loop is one order. */
static __attribute__((noinline)) double tile_squares(const float *x, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
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

static void store(const rp_optim_call *c, const tile_buffer *t, int whose, rp_dtype dtype, void *to, int64_t at, int64_t n,
                  const float *from)
{
    if (dtype == RP_F32 || !c->stochastic) {
        row_store(dtype, to, at, n, from);
        return;
    }
    const uint32_t *noise = t->noise[rp__optim_bits[whose].plane];
    uint16_t *h = (uint16_t *)to + at;
    int shift   = rp__optim_bits[whose].shift;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) h[i] = rp__bf16_stochastic(from[i], noise[i] >> shift & 0xffffu);
}

/* The truth of the parameter goes to the master where there is one, then to the parameter in its own dtype. */
static void store_param(const rp_optim_call *c, const tile_buffer *t, int64_t at, int64_t n, const float *from)
{
    if (c->master) row_store(RP_F32, c->master, at, n, from);
    store(c, t, PARAM, c->param_dtype, c->param, at, n, from);
}

static const float *load_param(const rp_optim_call *c, int64_t at, int64_t n, float *buffer)
{
    return c->master ? c->master + at : row_f32(c->param_dtype, c->param, at, n, buffer);
}

typedef double tile_work(const rp_optim_call *c, tile_buffer *t, int64_t tile, int64_t at, int64_t n);

static void load_noise(const rp_optim_call *c, tile_buffer *t, int64_t tile)
{
    if (!c->stochastic) return;
    if (c->param_dtype == RP_BF16 || c->state_dtype == RP_BF16) fill_noise(c, 0, tile, t->noise[0]);
    if (c->state_dtype == RP_BF16 && c->state[1]) fill_noise(c, 1, tile, t->noise[1]);
}

/* Decoupled weight decay, Loshchilov and Hutter 2019 (arXiv 1711.05101), in the order of torch.optim.AdamW:
 * p *= 1 - lr*wd;  m += (1-b1)(g - m);  v = b2*v + (1-b2)g*g;  p -= lr/(1-b1^t) * m / (sqrt(v)/sqrt(1-b2^t) + eps) */
static double adamw_tile(const rp_optim_call *c, tile_buffer *t, int64_t tile, int64_t at, int64_t n)
{
    const float *p = load_param(c, at, n, t->param), *g = row_f32(c->grad_dtype, c->grad, at, n, t->grad);
    const float *m = row_f32(c->state_dtype, c->state[0], at, n, t->state[0]);
    const float *v = row_f32(c->state_dtype, c->state[1], at, n, t->state[1]);
    float *p_new = t->param, *m_new = t->state[0], *v_new = t->state[1];
    double sum = c->sum_squares ? tile_squares(g, n) : 0;
    float scale = (float)c->grad_scale, decay = (float)(1 - c->lr * c->weight_decay), eps = (float)c->eps;
    float w1 = (float)(1 - c->beta1), b2 = (float)c->beta2, w2 = (float)(1 - c->beta2);
    float rate = (float)(c->lr / c->bias1), unbias = (float)(1 / sqrt(c->bias2));

    load_noise(c, t, tile);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float gi = g[i] * scale, mi = m[i] + w1 * (gi - m[i]), vi = b2 * v[i] + w2 * gi * gi;
        m_new[i] = mi;
        v_new[i] = vi;
        p_new[i] = p[i] * decay - rate * mi / (sqrtf(vi) * unbias + eps);
    }
    store(c, t, STATE, c->state_dtype, c->state[0], at, n, m_new);
    store(c, t, STATE + 1, c->state_dtype, c->state[1], at, n, v_new);
    store_param(c, t, at, n, p_new);
    return sum;
}

/* As torch.optim.SGD without dampening: g += wd*p;  b = momentum*b + g;  p -= lr*b */
static double sgd_tile(const rp_optim_call *c, tile_buffer *t, int64_t tile, int64_t at, int64_t n)
{
    const float *p = load_param(c, at, n, t->param), *g = row_f32(c->grad_dtype, c->grad, at, n, t->grad);
    float *p_new = t->param, *b_new = t->state[0];
    double sum = c->sum_squares ? tile_squares(g, n) : 0;
    float scale = (float)c->grad_scale, wd = (float)c->weight_decay, lr = (float)c->lr, momentum = (float)c->momentum;

    load_noise(c, t, tile);
    if (c->state[0]) {
        const float *b = row_f32(c->state_dtype, c->state[0], at, n, t->state[0]);
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            b_new[i] = momentum * b[i] + (g[i] * scale + wd * p[i]);
            p_new[i] = p[i] - lr * b_new[i];
        }
        store(c, t, STATE, c->state_dtype, c->state[0], at, n, b_new);
    } else {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) p_new[i] = p[i] - lr * (g[i] * scale + wd * p[i]);
    }
    store_param(c, t, at, n, p_new);
    return sum;
}

static double squares_tile(const rp_optim_call *c, tile_buffer *t, int64_t tile, int64_t at, int64_t n)
{
    (void)tile;
    return tile_squares(row_f32(c->grad_dtype, c->grad, at, n, t->grad), n);
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
    tile_buffer t;

    for (int64_t s = from; s < to; s++) {
        double here = 0;
        for (int64_t i = s * c->length; i < c->tiles && i < (s + 1) * c->length; i++) {
            int64_t at = i * RP_OPTIM_TILE, n = call->n - at < RP_OPTIM_TILE ? call->n - at : RP_OPTIM_TILE;
            here += c->work(call, &t, i, at, n);
        }
        c->span_sum[s] = here;
    }
}

static void run(const rp_optim_call *c, tile_work *work)
{
    int64_t tiles = (c->n + RP_OPTIM_TILE - 1) / RP_OPTIM_TILE, length = (tiles + RP_OPTIM_SPANS - 1) / RP_OPTIM_SPANS;
    int64_t spans = length ? (tiles + length - 1) / length : 0;
    double span_sum[RP_OPTIM_SPANS], sum = 0;

    rp__team_ranges(c->threads, spans, 1, c->n * (c->param ? 14 : 2), run_spans, &(spans_of){ c, work, tiles, length, span_sum });
    if (!c->sum_squares) return;
    for (int64_t s = 0; s < spans; s++) sum += span_sum[s];
    *c->sum_squares = sum;
}

void RP_AT_LEVEL(adamw)(const rp_optim_call *c) { run(c, adamw_tile); }

void RP_AT_LEVEL(sgd)(const rp_optim_call *c) { run(c, sgd_tile); }

void RP_AT_LEVEL(sum_squares)(rp_dtype dtype, const void *from, int64_t n, double *sum, int threads)
{
    run(&(rp_optim_call){ .threads = threads, .grad_dtype = dtype, .grad = from, .n = n, .sum_squares = sum }, squares_tile);
}
