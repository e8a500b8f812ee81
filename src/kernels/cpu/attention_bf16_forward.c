/* kernels/cpu/attention_bf16_forward.c -- attention of bf16 by products of tiles. Blocks of ROWS rows visit their keys, KEYS at a time, so that each
 * group of 32 rows finds the keys in the first-level cache.
 *
 *   scores  [32][KEYS]  = q k'        lines of q, transposed lines of k
 *   p       [32][KEYS]  = 2^(scores - top), as lines, in bf16, overwriting the scores; a row's sum stays in 16 lanes until the end
 *   out     [32][dim]   = out * shrink + p v      pairs of v; shrink only if a row's top has grown
 */
#include "kernels/cpu/attention.h"

#if defined(__AVX512BF16__)
#include "kernels/cpu/attention_bf16.h"
#include "kernels/cpu/attention_draw.h"

enum { ROWS = 64, KEYS = 96, ROW_STEPS = ROWS / 32, STEPS = KEYS / 32, SLACK = 8 };

typedef struct {
    uint16_t *keys, *values;            /* of the pair: [keys/16][depth] transposed lines, [keys/32][2 depth] pairs */
    uint16_t *rows;                     /* lines: [ROWS/16][depth] */
    float *scores, *out;                /* tiles: of 32 rows: [2][2 STEPS]; [ROWS/16][2 depth] */
    float *sum, *top;                   /* [ROWS][16], [ROWS] */
    uint32_t *kept;                     /* of 32 rows: [32][STEPS] bits */
} work;

static int64_t carve_work(const rp_attention *a, float *base, work *w)
{
    int64_t used = 0, depth = depth_of(a), packed = key_steps(a) * 2 * depth * TILE_F;

    w->keys   = (uint16_t *)carve(base, &used, packed);
    w->values = (uint16_t *)carve(base, &used, packed);
    w->rows   = (uint16_t *)carve(base, &used, ROWS / 16 * depth * TILE_F);
    w->scores = carve(base, &used, 4 * STEPS * TILE_F);
    w->out    = carve(base, &used, ROWS / 8 * depth * TILE_F);
    w->sum    = carve(base, &used, ROWS * 16);
    w->top    = carve(base, &used, ROWS);
    w->kept   = (uint32_t *)carve(base, &used, a->dropout > 0 ? 32 * STEPS : 0);
    return used;
}

/* The buffer `out` serves as scratch for the lines. */
static void pack_pair(const rp_attention *a, int64_t pair, float *scratch)
{
    int64_t depth = depth_of(a);
    work w;

    carve_work(a, scratch, &w);
    uint16_t *lines = (uint16_t *)w.out;
    for (int64_t s = 0; s < key_steps(a); s++) {
        int64_t at = s * 2 * depth * TILE;
        pack_keys32(a, pair, &a->k, s, lines);
        for (int64_t i = 0; i < 2 * depth; i++) transpose_tile(lines + i * TILE, w.keys + at + i * TILE);
        pack_keys32(a, pair, &a->v, s, lines);
        for (int64_t i = 0; i < depth; i++) pair_lines(lines + i * TILE, lines + (depth + i) * TILE, w.values + at + 2 * i * TILE);
    }
}

/* 32 rows at the keys 32 step … 32 (step + n) - 1: their index in the block, and pointers to their data. */
typedef struct { int64_t row, step, n; const uint16_t *lines; float *out, *sum, *top; } turn;

static void score(const rp_attention *a, const work *w, const turn *t)
{
    int64_t depth        = depth_of(a);
    const uint16_t *keys = w->keys + t->step * 2 * depth * TILE;

    for (int64_t s = 0; s < t->n; s++, keys += 2 * depth * TILE) {
        tiles both = { t->lines, t->lines + depth * TILE, keys, keys + depth * TILE, TILE, TILE, depth };
        tiles_multiply(both, w->scores + 2 * s * TILE_F, 2 * STEPS * TILE_F, false);
    }
}

/* Applies the soft cap to the products of a turn. */
static void cap_scores(const rp_attention *a, const work *w, const turn *t)
{
    const __m512 factor = _mm512_set1_ps(cap_factor(a)), cap = _mm512_set1_ps(a->softcap);

    for (int64_t half = 0; half < 2; half++)
        for (int64_t i = 0; i < 2 * t->n * 16; i++) {
            float *s = w->scores + half * 2 * STEPS * TILE_F + 16 * i;
            __m512 slope;
            _mm512_store_ps(s, _mm512_mul_ps(cap, capped_tanh(_mm512_load_ps(s), factor, &slope)));
        }
}

/* Probabilities overwrite the first of each two tiles of scores. */
static void add_values(const rp_attention *a, const work *w, const turn *t)
{
    int64_t depth          = depth_of(a);
    const uint16_t *values = w->values + t->step * depth * 2 * TILE, *p = (const uint16_t *)w->scores;
    float *out             = t->out;

    for (int64_t d = 0; d < depth; d++, values += 2 * TILE, out += 2 * TILE_F) {
        tiles both = { p, p + 2 * STEPS * TILE, values, values + TILE, 2 * TILE, 2 * depth * TILE, t->n };
        tiles_multiply(both, out, 2 * depth * TILE_F, true);
    }
}

static void mask_step(const rows_block *r, const work *w, const turn *t, int64_t s)
{
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), none = _mm512_set1_epi32((int)0xff800000);
    const int32_t *low = r->low + t->row, *high = r->high + t->row;
    __m512i at = _mm512_add_epi32(lane, _mm512_set1_epi32((int)(32 * (t->step + s))));

    for (int h = 0; h < 2; h++, at = _mm512_add_epi32(at, _mm512_set1_epi32(16)))
        for (int i = 0; i < 32; i++) {
            float *scores  = w->scores + (i / 16 * 2 * STEPS + 2 * s + h) * TILE_F + i % 16 * 16;
            __mmask16 seen = within(at, _mm512_set1_epi32(low[i]), _mm512_set1_epi32(high[i]));
            _mm512_mask_storeu_epi32(scores, (__mmask16)~seen, none);
        }
}

/* Each lane gets the larger value of two halves, quarters … of x and y. After four rounds a lane is the maximum of a vector. */
#define RP_FOLD(shuffle, x, y, first, second) _mm512_max_ps(shuffle(x, y, first), shuffle(x, y, second))

/* Lane i: the maximum of x[i]. */
INLINE __m512 maxima(const __m512 x[16])
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

/* Updates the tops (maxima) of 16 rows, in powers of two. A top rises, and earlier sums shrink, only if it would rise by more than SLACK:
 * fp32 sums have room for a few powers of two, so most rows never shrink. */
static void raise_tops(const work *w, const turn *t, int64_t half, float factor, int64_t depth)
{
    const float *scores = w->scores + half * 2 * STEPS * TILE_F;
    float *top          = t->top + 16 * half;
    _Alignas(64) float shrink[16];
    __m512 x[16];

#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) x[i] = _mm512_load_ps(scores + 16 * i);
    for (int64_t s = 1; s < 2 * t->n; s++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) x[i] = _mm512_max_ps(x[i], _mm512_load_ps(scores + s * TILE_F + 16 * i));
    __m512 before = _mm512_load_ps(top), now = _mm512_max_ps(before, _mm512_mul_ps(maxima(x), _mm512_set1_ps(factor)));
    __mmask16 grown = _mm512_cmp_ps_mask(now, _mm512_add_ps(before, _mm512_set1_ps(SLACK)), _CMP_NLE_UQ);
    if (!grown) return;
    now = _mm512_mask_mov_ps(before, grown, now);
    _mm512_store_ps(top, now);
    _mm512_store_ps(shrink, power_of_two(_mm512_sub_ps(before, now)));
    for (int64_t i = 0; i < 16; i++) {
        if (!(grown >> i & 1)) continue;
        float *sum = t->sum + (16 * half + i) * 16, *out = t->out + half * 2 * depth * TILE_F + 16 * i;
        __m512 by  = _mm512_set1_ps(shrink[i]);
        _mm512_store_ps(sum, _mm512_mul_ps(by, _mm512_load_ps(sum)));
        for (int64_t d = 0; d < 2 * depth; d++)
            _mm512_store_ps(out + d * TILE_F, _mm512_mul_ps(by, _mm512_load_ps(out + d * TILE_F)));
    }
}

/* Replaces the scores of row i of a turn by probabilities, as lines. kept NULL: no dropout. */
INLINE void soften_row(const work *w, const turn *t, int64_t i, __m512 factor, const uint32_t *kept)
{
    float *scores = w->scores + i / 16 * 2 * STEPS * TILE_F + i % 16 * 16, *sums = t->sum + 16 * i;
    __m512 top    = _mm512_set1_ps(t->top[i] == -INFINITY ? 0 : t->top[i]), sum = _mm512_load_ps(sums), other = _mm512_setzero_ps();

    for (int64_t s = 0; s < t->n; s++, scores += 2 * TILE_F) {
        __m512 x = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(scores), factor, top));
        __m512 y = power_of_two(_mm512_fmsub_ps(_mm512_load_ps(scores + TILE_F), factor, top));
        __m512i both = to_bf16(x, y);
        sum   = _mm512_add_ps(sum, x);
        other = _mm512_add_ps(other, y);
        if (kept) both = _mm512_maskz_mov_epi16(kept[i * STEPS + s], both);
        _mm512_store_si512(scores, both);
    }
    _mm512_store_ps(sums, _mm512_add_ps(sum, other));
}

static void attention_bf16_forward_draw(const rows_block *r, const work *w, const turn *t)
{
    const rp_attention *a = r->a;
    uint32_t limit        = draw_limit(a->dropout);

    for (int64_t i = 0; i < at_most(32, r->n - t->row); i++)
        draw_bits(&a->stream, r->batch, first_element(r, t->row + i) + 32 * t->step, t->n, limit, w->kept + i * STEPS, 1);
}

static void soften(const rows_block *r, const work *w, const rows32 *seen, const turn *t)
{
    const rp_attention *a = r->a;
    __m512 factor         = _mm512_set1_ps(score_factor(a));

    for (int64_t s = 0; s < t->n; s++)
        if (32 * (t->step + s) < seen->all_low || 32 * (t->step + s + 1) > seen->all_high) mask_step(r, w, t, s);
    for (int half = 0; half < 2; half++) raise_tops(w, t, half, score_factor(a), depth_of(a));
    if (a->dropout > 0) {
        attention_bf16_forward_draw(r, w, t);
        for (int64_t i = 0; i < 32; i++) soften_row(w, t, i, factor, w->kept);
    } else
        for (int64_t i = 0; i < 32; i++) soften_row(w, t, i, factor, NULL);
}

static void attention_bf16_forward_finish(const rows_block *r, const work *w)
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

static int64_t begin_rows(const rows_block *r, const work *w, rows32 *seen)
{
    const rp_attention *a = r->a;
    int64_t depth = depth_of(a), steps = (r->n + 31) / 32;

    for (int64_t i = 0; i < steps; i++) {
        seen[i] = rows32_of(r, 32 * i);
        pack_rows32(r, &a->q, 32 * i, scale_sign(a), w->rows + i * 2 * depth * TILE);
    }
    memset(w->out, 0, (size_t)(steps * 4 * depth * TILE_F) * sizeof *w->out);
    memset(w->sum, 0, ROWS * 16 * sizeof *w->sum);
    for (int i = 0; i < ROWS; i++) w->top[i] = -INFINITY;
    return steps;
}

/* Visits blocks of keys; each block is processed by the groups of 32 rows that see any of its keys. */
static void one_block(const rp_attention *a, int64_t pair, int64_t index, float *scratch, float *dk, float *dv)
{
    int64_t depth = depth_of(a);
    rows_block r;
    rows32 seen[ROW_STEPS] = { 0 };
    work w;

    (void)dk, (void)dv;
    carve_work(a, scratch, &w);
    rows_begin(&r, a, pair, index, ROWS);
    int64_t steps = begin_rows(&r, &w, seen), last = (r.key_high + 31) / 32;
    for (int64_t step = r.key_low / KEYS * STEPS; step < last; step += STEPS)
        for (int64_t i = 0; i < steps; i++) {
            int64_t from = at_least(step, seen[i].low / 32), to = at_most(step + STEPS, (seen[i].high + 31) / 32);
            turn t       = { .row = 32 * i, .step = from, .n = to - from, .lines = w.rows + i * 2 * depth * TILE,
                             .out = w.out + i * 4 * depth * TILE_F, .sum = w.sum + i * 32 * 16, .top = w.top + 32 * i };
            if (from >= to) continue;
            score(a, &w, &t);
            if (a->softcap > 0) cap_scores(a, &w, &t);
            soften(&r, &w, &seen[i], &t);
            add_values(a, &w, &t);
        }
    attention_bf16_forward_finish(&r, &w);
}

static int64_t scratch_size(const rp_attention *a)
{
    work w;

    return carve_work(a, NULL, &w);
}

const attention_way RP_AT_LEVEL(attention_bf16_forward) = { .rows = ROWS, .scratch = scratch_size, .pack = pack_pair, .block = one_block,
                                                           .begin = tiles_begin, .end = tiles_end };
#endif
