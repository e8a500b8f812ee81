/* kernels/cpu/attention_amx_forward.c -- attention of bf16 on tiles: 32 rows at a time walk their keys, KEYS of them at once.
 *
 *   scores  [32][KEYS]  = q k'        lines of q, transposed lines of k
 *   p       [32][KEYS]  = 2^(scores - top), as lines, in bf16; a row's sum stays in 16 lanes until the end
 *   out     [32][dim]   = out * shrink + p v      pairs of v; shrink only where a row's top has grown
 *
 * A part is a block of 32 rows; those that see most go first.
 */
#include "kernels/cpu/attention_amx.h"

#if defined(__AMX_BF16__)
#include "kernels/cpu/attention_draw.h"

enum { ROWS = 32, KEYS = 128, STEPS = KEYS / 32 };

typedef struct {
    int64_t *packed;                    /* the pair whose keys and values these are */
    uint16_t *keys, *values;            /* [keys/16][depth] transposed lines, [keys/32][2 depth] pairs */
    uint16_t *rows, *p;                 /* lines: [2][depth], [2][STEPS] */
    float *scores, *out, *sum;          /* [2][2 STEPS] and [2][2 depth] tiles, [ROWS][16] */
    uint32_t *kept;                     /* [ROWS][STEPS] bits */
    float top[ROWS];
} work;

static int64_t blocks_of(const rp_attention *a) { return (rows_of(a) + ROWS - 1) / ROWS; }

static int64_t carve_work(const rp_attention *a, float *base, work *w)
{
    int64_t used = 0, depth = depth_of(a), packed = key_steps(a) * 2 * depth * TILE_F;

    w->packed = (int64_t *)carve(base, &used, 16);
    w->keys   = (uint16_t *)carve(base, &used, packed);
    w->values = (uint16_t *)carve(base, &used, packed);
    w->rows   = (uint16_t *)carve(base, &used, 2 * depth * TILE_F);
    w->p      = (uint16_t *)carve(base, &used, 2 * STEPS * TILE_F);
    w->scores = carve(base, &used, 4 * STEPS * TILE_F);
    w->out    = carve(base, &used, 4 * depth * TILE_F);
    w->sum    = carve(base, &used, ROWS * 16);
    w->kept   = (uint32_t *)carve(base, &used, a->dropout > 0 ? ROWS * STEPS : 0);
    return used;
}

/* The lines lie in `out` meanwhile. */
static void pack_pair(const rp_attention *a, int64_t pair, work *w)
{
    int64_t depth   = depth_of(a);
    uint16_t *lines = (uint16_t *)w->out;

    if (*w->packed == pair) return;
    for (int64_t s = 0; s < key_steps(a); s++) {
        int64_t at = s * 2 * depth * TILE;
        pack_keys32(a, pair, &a->k, s, lines);
        for (int64_t i = 0; i < 2 * depth; i++) transpose_tile(lines + i * TILE, w->keys + at + i * TILE);
        pack_keys32(a, pair, &a->v, s, lines);
        for (int64_t i = 0; i < depth; i++) pair_lines(lines + i * TILE, lines + (depth + i) * TILE, w->values + at + 2 * i * TILE);
    }
    *w->packed = pair;
}

static void score(const rp_attention *a, const work *w, int64_t step, int64_t n)
{
    int64_t depth = depth_of(a);

    for (int64_t s = 0; s < n; s++) {
        const uint16_t *keys = w->keys + (step + s) * 2 * depth * TILE;
        tiles_zero();
        tiles_multiply(w->rows, w->rows + depth * TILE, TILE, keys, keys + depth * TILE, TILE, depth);
        tiles_store(w->scores + 2 * s * TILE_F, 2 * STEPS * TILE_F);
    }
}

static void mask(const rows_block *r, const work *w, int64_t step, int64_t s)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), none = _mm512_set1_epi32((int)0xff800000);
    __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(32 * (step + s))));

    for (int t = 0; t < 2; t++, at = _mm512_add_epi32(at, _mm512_set1_epi32(16)))
        for (int i = 0; i < ROWS; i++) {
            int32_t *score = (int32_t *)w->scores + (i / 16 * 2 * STEPS + 2 * s + t) * TILE_F + i % 16 * 16;
            __mmask16 seen = within(at, _mm512_set1_epi32(r->low[i]), _mm512_set1_epi32(r->high[i]));
            _mm512_mask_storeu_epi32(score, (__mmask16)~seen, none);
        }
}

/* Lane by lane the larger of two halves, quarters … of x and of y: after four rounds a lane is the maximum of a vector. */
#define RP_FOLD(shuffle, x, y, first, second) _mm512_max_ps(shuffle(x, y, first), shuffle(x, y, second))

/* Lane i: the maximum of x[i]. */
static inline __attribute__((always_inline)) __m512 maxima(const __m512 x[16])
{
    __m512 y[4];

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        __m512 a = RP_FOLD(_mm512_shuffle_f32x4, x[i], x[4 + i], 0x44, 0xee), b = RP_FOLD(_mm512_shuffle_f32x4, x[8 + i], x[12 + i], 0x44, 0xee);
        y[i]     = RP_FOLD(_mm512_shuffle_f32x4, a, b, 0x88, 0xdd);
    }
    y[0] = RP_FOLD(_mm512_shuffle_ps, y[0], y[1], 0x44, 0xee);
    y[2] = RP_FOLD(_mm512_shuffle_ps, y[2], y[3], 0x44, 0xee);
    return RP_FOLD(_mm512_shuffle_ps, y[0], y[2], 0x88, 0xdd);
}

/* The rows' new tops in powers of two; what was summed before shrinks to them. */
static void raise_tops(work *w, int64_t half, int64_t n, float factor, int64_t depth)
{
    const float *scores = w->scores + half * 2 * STEPS * TILE_F;
    float *top          = w->top + 16 * half;
    _Alignas(64) float shrink[16];
    __m512 x[16];

#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) x[i] = _mm512_load_ps(scores + 16 * i);
    for (int64_t t = 1; t < 2 * n; t++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) x[i] = _mm512_max_ps(x[i], _mm512_load_ps(scores + t * TILE_F + 16 * i));
    __m512 before = _mm512_loadu_ps(top), now = _mm512_max_ps(before, _mm512_mul_ps(maxima(x), _mm512_set1_ps(factor)));
    __mmask16 grown = _mm512_cmp_ps_mask(now, before, _CMP_NEQ_UQ);
    if (!grown) return;
    _mm512_storeu_ps(top, now);
    _mm512_store_ps(shrink, _mm512_mask_blend_ps(grown, _mm512_set1_ps(1), power_of_two(_mm512_sub_ps(before, now))));
    for (int64_t i = 0; i < 16; i++) {
        if (!(grown >> i & 1)) continue;
        float *sum = w->sum + (16 * half + i) * 16, *out = w->out + half * 2 * depth * TILE_F + 16 * i;
        __m512 by  = _mm512_set1_ps(shrink[i]);
        _mm512_store_ps(sum, _mm512_mul_ps(by, _mm512_load_ps(sum)));
        for (int64_t t = 0; t < 2 * depth; t++)
            _mm512_store_ps(out + t * TILE_F, _mm512_mul_ps(by, _mm512_load_ps(out + t * TILE_F)));
    }
}

static inline __attribute__((always_inline)) void soften_rows(const rp_attention *a, work *w, int64_t n, bool drops)
{
    const __m512 factor = _mm512_set1_ps(score_factor(a));

    for (int64_t i = 0; i < ROWS; i++) {
        const float *scores = w->scores + i / 16 * 2 * STEPS * TILE_F + i % 16 * 16;
        uint16_t *p         = w->p + i / 16 * STEPS * TILE + i % 16 * 32;
        __m512 top = _mm512_set1_ps(w->top[i] == -INFINITY ? 0 : w->top[i]), sum = _mm512_load_ps(w->sum + 16 * i), other = _mm512_setzero_ps();
        for (int64_t s = 0; s < n; s++) {
            __m512 x = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(scores + 2 * s * TILE_F), factor, top));
            __m512 y = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(scores + (2 * s + 1) * TILE_F), factor, top));
            __m512i both = to_bf16(x, y);
            sum   = _mm512_add_ps(sum, x);
            other = _mm512_add_ps(other, y);
            if (drops) both = _mm512_maskz_mov_epi16(w->kept[i * STEPS + s], both);
            _mm512_store_si512(p + s * TILE, both);
        }
        _mm512_store_ps(w->sum + 16 * i, _mm512_add_ps(sum, other));
    }
}

static void soften(const rows_block *r, work *w, int64_t step, int64_t n)
{
    const rp_attention *a = r->a;

    for (int half = 0; half < 2; half++) raise_tops(w, half, n, score_factor(a), depth_of(a));
    if (a->dropout == 0) {
        soften_rows(a, w, n, false);
        return;
    }
    for (int64_t i = 0; i < r->n; i++)
        draw_bits(&a->stream, r->batch, first_element(r, i) + 32 * step, n, draw_limit(a->dropout), w->kept + i * STEPS, 1);
    soften_rows(a, w, n, true);
}

static void add_values(const rp_attention *a, work *w, int64_t step, int64_t n)
{
    int64_t depth = depth_of(a);

    for (int64_t d = 0; d < depth; d++) {
        const uint16_t *values = w->values + (step * depth + d) * 2 * TILE;
        float *out             = w->out + 2 * d * TILE_F;
        tiles_load(out, 2 * depth * TILE_F);
        tiles_multiply(w->p, w->p + STEPS * TILE, TILE, values, values + TILE, 2 * depth * TILE, n);
        tiles_store(out, 2 * depth * TILE_F);
    }
}

static void finish(const rows_block *r, const work *w)
{
    const rp_attention *a = r->a;
    rp_attention_part out = a->out;
    float kept            = 1.0f / (1.0f - a->dropout);

    out.adds = false;
    for (int64_t i = 0; i < r->n; i++) {
        float sum = _mm512_reduce_add_ps(_mm512_load_ps(w->sum + 16 * i));
        put_row(&out, row_at(r, &out, i), a->dim, w->out + i / 16 * 2 * depth_of(a) * TILE_F + i % 16 * 16,
                r->high[i] ? kept / sum : 0);
        if (a->lse) *lse_of(r, i) = r->high[i] ? w->top[i] * 0.693147181f + logf(sum) : -INFINITY;
    }
}

static void one_block(const rp_attention *a, int64_t pair, int64_t index, work *w)
{
    rows_block r;
    rows32 seen;

    pack_pair(a, pair, w);
    rows_begin(&r, a, pair, index, ROWS);
    seen = rows32_of(&r, 0);
    pack_rows32(&r, &a->q, 0, scale_sign(a), w->rows);
    memset(w->out, 0, (size_t)(4 * depth_of(a) * TILE_F) * sizeof *w->out);
    memset(w->sum, 0, ROWS * 16 * sizeof *w->sum);
    for (int i = 0; i < ROWS; i++) w->top[i] = -INFINITY;
    for (int64_t step = seen.low / 32, last = (seen.high + 31) / 32; step < last; step += STEPS) {
        int64_t n = at_most(STEPS, last - step);
        RP_STORED();
        score(a, w, step, n);
        for (int64_t s = 0; s < n; s++)
            if (32 * (step + s) < seen.all_low || 32 * (step + s + 1) > seen.all_high) mask(&r, w, step, s);
        soften(&r, w, step, n);
        RP_STORED();
        add_values(a, w, step, n);
    }
    finish(&r, w);
}

static void run_part(void *arg, int64_t part, int thread)
{
    const rp_attention *a = arg;
    int64_t blocks        = blocks_of(a);
    work w;
    int64_t size = carve_work(a, NULL, &w);

    carve_work(a, (float *)a->scratch + thread * size, &w);
    tiles_begin();
    one_block(a, part / blocks, blocks - 1 - part % blocks, &w);
    _tile_release();
}

int64_t amx_forward_scratch(const rp_attention *a)
{
    work w;

    return carve_work(a, NULL, &w) * (int64_t)sizeof(float) * a->threads;
}

void amx_forward(const rp_attention *a)
{
    work w;
    int64_t size = carve_work(a, NULL, &w);

    for (int t = 0; t < a->threads; t++) {
        carve_work(a, (float *)a->scratch + t * size, &w);
        *w.packed = -1;
    }
    rp__team_run(a->threads, pairs_of(a) * blocks_of(a), run_part, (void *)a);
}
#endif
