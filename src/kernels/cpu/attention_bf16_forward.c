/* kernels/cpu/attention_bf16_forward.c -- attention of bf16 by products of tiles. Blocks of ROWS rows visit their keys, KEYS at a time, so that each
 * group of 32 rows finds the keys in the first-level cache.
 *
 *   scores  [32][KEYS]  = q k'        lines of q, transposed lines of k
 *   p       [32][KEYS]  = 2^(scores - top), as lines, in bf16, overwriting the scores; a row's sum stays in 16 lanes until the end
 *   out     [32][dim]   = out * shrink + p v      pairs of v; shrink only if a row's top has grown
 */
#include "kernels/cpu/attention.h"

#ifdef RP_ATTENTION_BF16
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
    const lanes16 factor = all16(cap_factor(a)), cap = all16(a->softcap);

    for (int64_t half = 0; half < 2; half++)
        for (int64_t i = 0; i < 2 * t->n * 16; i++) {
            float *s = w->scores + half * 2 * STEPS * TILE_F + 16 * i;
            lanes16 slope;
            store16(s, mul16(cap, capped_tanh(load16(s), factor, &slope)));
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
    const int32_t *low = r->low + t->row, *high = r->high + t->row;

    for (int h = 0; h < 2; h++) {
        const ints16 at = count16((int)(32 * (t->step + s)) + 16 * h);
        for (int i = 0; i < 32; i++)
            hide16(w->scores + (i / 16 * 2 * STEPS + 2 * s + h) * TILE_F + i % 16 * 16, within(at, all_ints16(low[i]), all_ints16(high[i])));
    }
}

/* Updates the tops (maxima) of 16 rows, in powers of two. A top rises, and earlier sums shrink, only if it would rise by more than SLACK:
 * fp32 sums have room for a few powers of two, so most rows never shrink. */
static void raise_tops(const work *w, const turn *t, int64_t half, float factor, int64_t depth)
{
    const float *scores = w->scores + half * 2 * STEPS * TILE_F;
    float *top          = t->top + 16 * half;
    _Alignas(64) float shrink[16];
    lanes16 x[16];

#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) x[i] = load16(scores + 16 * i);
    for (int64_t s = 1; s < 2 * t->n; s++)
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++) x[i] = max16(x[i], load16(scores + s * TILE_F + 16 * i));
    lanes16 before = load16(top), now = max16(before, mul16(maxima16(x), all16(factor)));
    some16 grown = not_at_most(now, add16(before, all16(SLACK)));
    if (!any16(grown)) return;
    now = select16(grown, now, before);
    store16(top, now);
    store16(shrink, power_of_two(sub16(before, now)));
    for (int64_t i = 0; i < 16; i++) {
        if (!has_lane(grown, i)) continue;
        float *sum = t->sum + (16 * half + i) * 16, *out = t->out + half * 2 * depth * TILE_F + 16 * i;
        lanes16 by = all16(shrink[i]);
        store16(sum, mul16(by, load16(sum)));
        for (int64_t d = 0; d < 2 * depth; d++)
            store16(out + d * TILE_F, mul16(by, load16(out + d * TILE_F)));
    }
}

/* Replaces the scores of row i of a turn by probabilities, as lines. kept NULL: no dropout. */
INLINE void soften_row(const work *w, const turn *t, int64_t i, lanes16 factor, const uint32_t *kept)
{
    float *scores = w->scores + i / 16 * 2 * STEPS * TILE_F + i % 16 * 16, *sums = t->sum + 16 * i;
    lanes16 top   = all16(t->top[i] == -INFINITY ? 0 : t->top[i]), sum = load16(sums), other = all16(0);

    for (int64_t s = 0; s < t->n; s++, scores += 2 * TILE_F) {
        lanes16 x = power_of_two(fms16(load16(scores), factor, top));
        lanes16 y = power_of_two(fms16(load16(scores + TILE_F), factor, top));
        halves32 both = to_bf16(x, y);
        sum   = add16(sum, x);
        other = add16(other, y);
        if (kept) both = keep_halves(kept[i * STEPS + s], both);
        store_halves(scores, both);
    }
    store16(sums, add16(sum, other));
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
    lanes16 factor        = all16(score_factor(a));

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
        float sum = sum16(load16(w->sum + 16 * i));
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
