/* kernels/cpu/attention_bf16_backward.c -- gradients of attention of bf16 by products of tiles. Blocks of ROWS rows visit their keys, KEYS at a time.
 * Probabilities are recomputed from the saved log-sum-exp, transposed, so that a lane is a row.
 *
 *   s  [32 keys][32 rows] = k q'     p  = 2^(s - lse)              lines of k and v, transposed lines of q and dout
 *   dp [32 keys][32 rows] = v dout'  ds = p (dp - delta)           delta = sum(dout * out)
 *                                    with a soft cap, s is cap tanh(s / cap), and ds is multiplied by its slope
 *
 *   dv [KEYS][dim] += p dout         dk [KEYS][dim] += ds q        lines of p and ds, pairs of dout and q
 *   dq'[dim][ROWS] += k' ds                                        columns of k, pairs of ds
 */
#include "kernels/cpu/attention.h"

#ifdef RP_ATTENTION_BF16
#include "kernels/cpu/attention_bf16.h"
#include "kernels/cpu/attention_draw.h"

enum { ROWS = 128, KEYS = 128, ROW_STEPS = ROWS / 32, KEY_STEPS = KEYS / 32 };

typedef struct {
    uint16_t *keys, *values;            /* of the pair, as lines: [keys/16][depth] */
    uint16_t *key_columns;              /* [keys/32][2 depth] */
    uint16_t *rows_t, *grad_t;          /* q and dout: transposed lines, [ROWS/16][depth] */
    uint16_t *rows, *grad;              /* pairs: [ROW_STEPS][2 depth] */
    uint16_t *p, *ds, *ds_pairs;        /* lines: [KEYS/16][ROW_STEPS] twice; pairs: [KEY_STEPS][ROWS/16] */
    float *s, *dp;                      /* of a block of 32 x 32: [2][2] tiles */
    float *dq;                          /* tiles: [2 depth][ROWS/16] */
    uint32_t *kept;                     /* [KEY_STEPS][ROWS] bits */
    float *lse, *delta;                 /* [ROWS]; lse in powers of two */
} work;

static uint16_t *carve_tiles(float *base, int64_t *used, int64_t n) { return (uint16_t *)carve(base, used, n * TILE_F); }

static int64_t carve_work(const rp_attention *a, float *base, work *w)
{
    int64_t used = 0, depth = depth_of(a), key_tiles = key_steps(a) * 2 * depth, row_tiles = ROW_STEPS * 2 * depth;

    w->keys        = carve_tiles(base, &used, key_tiles);
    w->values      = carve_tiles(base, &used, key_tiles);
    w->key_columns = carve_tiles(base, &used, key_tiles);
    w->rows_t      = carve_tiles(base, &used, row_tiles);
    w->grad_t      = carve_tiles(base, &used, row_tiles);
    w->rows        = carve_tiles(base, &used, row_tiles);
    w->grad        = carve_tiles(base, &used, row_tiles);
    w->p           = carve_tiles(base, &used, 2 * KEY_STEPS * ROW_STEPS);
    w->ds          = carve_tiles(base, &used, 2 * KEY_STEPS * ROW_STEPS);
    w->ds_pairs    = carve_tiles(base, &used, 2 * KEY_STEPS * ROW_STEPS);
    w->s           = carve(base, &used, 4 * TILE_F);
    w->dp          = carve(base, &used, 4 * TILE_F);
    w->dq          = carve(base, &used, 2 * row_tiles * TILE_F);
    w->kept        = (uint32_t *)carve(base, &used, a->dropout > 0 ? KEY_STEPS * ROWS : 0);
    w->lse         = carve(base, &used, ROWS);
    w->delta       = carve(base, &used, ROWS);
    return used;
}

/* ---- packing ---- */

/* The buffer dq serves as scratch for the pairs. */
static void pack_pair(const rp_attention *a, int64_t pair, float *scratch)
{
    int64_t depth = depth_of(a);
    work w;

    carve_work(a, scratch, &w);
    uint16_t *pairs = (uint16_t *)w.dq;
    for (int64_t s = 0; s < key_steps(a); s++) {
        int64_t at = s * 2 * depth * TILE;
        pack_keys32(a, pair, &a->k, s, w.keys + at);
        pack_keys32(a, pair, &a->v, s, w.values + at);
        for (int64_t i = 0; i < depth; i++) {
            pair_lines(w.keys + at + i * TILE, w.keys + at + (depth + i) * TILE, pairs);
            for (int t = 0; t < 2; t++) transpose_tile(pairs + t * TILE, w.key_columns + at + (2 * i + t) * TILE);
        }
    }
}

static void pack_rows(const rows_block *r, const rp_attention_part *p, int sign, uint16_t *lines, uint16_t *transposed, uint16_t *pairs)
{
    int64_t depth = depth_of(r->a);

    for (int64_t row = 0; row < r->n; row += 32, transposed += 2 * depth * TILE) {
        pack_rows32(r, p, row, sign, lines);
        for (int64_t i = 0; i < 2 * depth; i++) transpose_tile(lines + i * TILE, transposed + i * TILE);
        for (int64_t i = 0; i < depth; i++, pairs += 2 * TILE) pair_lines(lines + i * TILE, lines + (depth + i) * TILE, pairs);
    }
}

static float dot_of_row(const rows_block *r, int64_t row)
{
    const uint16_t *out  = (const uint16_t *)r->a->out.data + row_at(r, &r->a->out, row);
    const uint16_t *grad = (const uint16_t *)r->a->grad_out.data + row_at(r, &r->a->grad_out, row);
    lanes16 sum          = all16(0);

    for (int64_t d = 0; d < r->a->dim; d += 32) sum = dot_halves(sum, load_halves(out + d, r->a->dim - d), load_halves(grad + d, r->a->dim - d));
    return sum16(sum);
}

static void begin_rows(const rows_block *r, work *w)
{
    const rp_attention *a = r->a;
    int64_t row_tiles     = ROW_STEPS * 2 * depth_of(a);

    pack_rows(r, &a->q, scale_sign(a), (uint16_t *)w->dq, w->rows_t, w->rows);
    pack_rows(r, &a->grad_out, 1, (uint16_t *)w->dq, w->grad_t, w->grad);
    for (int64_t i = 0; i < ROWS; i++) {
        w->lse[i]   = i < r->n ? *lse_of(r, i) * 1.44269504f : 0;
        w->delta[i] = i < r->n ? dot_of_row(r, i) : 0;
    }
    memset(w->dq, 0, (size_t)(2 * row_tiles * TILE_F) * sizeof *w->dq);
}

/* ---- a block of 32 keys x 32 rows ---- */

/* Position of a block among the current keys and rows, and its first key. */
typedef struct { int64_t key_step, row_step, key; } place;

/* 32 keys are 2 depth tiles of 16 keys x 32, and so are 32 rows. */
static inline void multiply_block(int64_t depth, const uint16_t *keys, const uint16_t *rows, float *to)
{
    tiles_multiply((tiles){ keys, keys + depth * TILE, rows, rows + depth * TILE, TILE, TILE, depth }, to, 2 * TILE_F, false);
}

typedef struct { lanes16 lse[2], delta[2], factor, kept, cap, cap_factor; ints16 low[2], high[2], bits[2]; } row_lanes;

static inline row_lanes row_lanes_of(const rows_block *r, const work *w, const place *at)
{
    row_lanes x = { .factor = all16(score_factor(r->a)), .kept = all16(1.0f / (1.0f - r->a->dropout)),
                    .cap = all16(r->a->softcap), .cap_factor = all16(cap_factor(r->a)) };

    for (int h = 0; h < 2; h++) {
        int64_t row = 32 * at->row_step + 16 * h;
        x.lse[h]    = load16(w->lse + row);
        x.delta[h]  = load16(w->delta + row);
        x.low[h]    = load_ints16(r->low + row);
        x.high[h]   = load_ints16(r->high + row);
        if (r->a->dropout > 0) x.bits[h] = load_ints16((const int32_t *)w->kept + at->key_step * ROWS + row);
    }
    return x;
}

typedef struct { lanes16 p, ds; } derivative;

/* Optional steps: masking, dropout, soft cap. Constants after inlining. */
typedef struct { bool masks, drops, caps; } besides;

INLINE derivative differentiate(const row_lanes *x, int h, int key, int at, lanes16 s, lanes16 dp, besides with)
{
    lanes16 slope;

    if (with.caps) s = mul16(capped_tanh(s, x->cap_factor, &slope), x->cap);
    lanes16 p = power_of_two(fms16(s, x->factor, x->lse[h])), kept = p;

    if (with.drops) {
        some16 k = has_bits(x->bits[h], all_ints16((int)(1u << key)));
        dp       = where16(k, mul16(dp, x->kept));
        kept     = where16(k, p);
    }
    lanes16 ds = mul16(p, sub16(dp, x->delta[h]));
    if (with.caps) ds = mul16(ds, slope);
    if (with.masks) {
        some16 seen = within(all_ints16(at), x->low[h], x->high[h]);
        kept        = where16(seen, kept);
        ds          = where16(seen, ds);
    }
    return (derivative){ kept, ds };
}

/* Processes 16 keys of the block, two at a time, because their ds form pairs. In such a vector the lanes are the rows
 * [0 … 3 | 8 … 11 | 16 … 19 | 24 … 27], in the second vector the other rows. */
INLINE void differentiate_keys(const row_lanes *x, const work *w, const place *at, int half, besides with)
{
    const float *s = w->s + half * 2 * TILE_F, *dp = w->dp + half * 2 * TILE_F;
    int64_t lines   = ((2 * at->key_step + half) * ROW_STEPS + at->row_step) * TILE;
    uint16_t *pairs = w->ds_pairs + (at->key_step * 2 * ROW_STEPS + 2 * at->row_step) * TILE + half * 8 * 32;

    for (int i = 0; i < 16; i += 2, pairs += 32) {
        halves32 ds[2];
#pragma GCC unroll 2
        for (int e = i; e < i + 2; e++) {
            int key      = 16 * half + e;
            derivative y = differentiate(x, 0, key, (int)at->key + key, load16(s + 16 * e), load16(dp + 16 * e), with);
            derivative z = differentiate(x, 1, key, (int)at->key + key, load16(s + TILE_F + 16 * e),
                                         load16(dp + TILE_F + 16 * e), with);
            ds[e - i] = to_bf16(y.ds, z.ds);
            store_halves(w->p + lines + 32 * e, to_bf16(y.p, z.p));
            store_halves(w->ds + lines + 32 * e, ds[e - i]);
        }
        store_pairs_in_eights(ds[0], ds[1], pairs, pairs + TILE);
    }
}

static int64_t row_of_lane(int64_t half, int64_t lane) { return lane / 4 * 8 + 4 * half + lane % 4; }

INLINE void differentiate_block(const row_lanes *x, const work *w, const place *at, besides with)
{
    for (int half = 0; half < 2; half++) differentiate_keys(x, w, at, half, with);
}

static void one_step(const rows_block *r, const work *w, const rows32 *seen, const place *at)
{
    int64_t depth = depth_of(r->a), keys = at->key * depth * 32, rows = at->row_step * depth * 2 * TILE;
    bool masks = at->key < seen->all_low || at->key + 32 > seen->all_high, drops = r->a->dropout > 0;
    row_lanes x = row_lanes_of(r, w, at);

    multiply_block(depth, w->keys + keys, w->rows_t + rows, w->s);
    multiply_block(depth, w->values + keys, w->grad_t + rows, w->dp);
    if (r->a->softcap > 0 && drops) differentiate_block(&x, w, at, (besides){ true, true, true });
    else if (r->a->softcap > 0) differentiate_block(&x, w, at, (besides){ true, false, true });
    else if (masks && drops) differentiate_block(&x, w, at, (besides){ true, true, false });
    else if (masks) differentiate_block(&x, w, at, (besides){ true, false, false });
    else if (drops) differentiate_block(&x, w, at, (besides){ false, true, false });
    else differentiate_block(&x, w, at, (besides){ false, false, false });
}

static void clear_step(const work *w, const place *at)
{
    for (int64_t t = 0; t < 2; t++) {
        memset(w->p + ((2 * at->key_step + t) * ROW_STEPS + at->row_step) * TILE, 0, TILE * sizeof *w->p);
        memset(w->ds + ((2 * at->key_step + t) * ROW_STEPS + at->row_step) * TILE, 0, TILE * sizeof *w->ds);
        memset(w->ds_pairs + (at->key_step * 2 * ROW_STEPS + 2 * at->row_step + t) * TILE, 0, TILE * sizeof *w->ds_pairs);
    }
}

/* ---- a block of KEYS x ROWS ---- */

typedef struct { int64_t from, to; } span;

/* Key steps that each row step meets, and row steps that each key step meets, as ranges from the first to the last. */
typedef struct { int64_t n_rows, n_keys; rows32 seen[ROW_STEPS]; span keys[ROW_STEPS], rows[KEY_STEPS]; } meeting;

static void widen(span *s, int64_t i)
{
    if (s->from >= s->to) *s = (span){ i, i + 1 };
    s->from = at_most(s->from, i);
    s->to   = at_least(s->to, i + 1);
}

static bool meets(const rows32 *seen, int64_t key) { return seen->low < key + 32 && seen->high > key; }

static void meet(meeting *m, int64_t step, int64_t n_keys)
{
    m->n_keys = n_keys;
    memset(m->keys, 0, sizeof m->keys);
    memset(m->rows, 0, sizeof m->rows);
    for (int64_t k = 0; k < n_keys; k++)
        for (int64_t i = 0; i < m->n_rows; i++)
            if (meets(&m->seen[i], 32 * (step + k))) {
                widen(&m->keys[i], k);
                widen(&m->rows[k], i);
            }
}

static void attention_bf16_backward_draw(const rows_block *r, const work *w, const meeting *m, int64_t step)
{
    const rp_attention *a = r->a;
    uint32_t limit        = draw_limit(a->dropout);

    for (int64_t i = 0; i < r->n; i++)
        draw_bits(&a->stream, r->batch, first_element(r, i) + 32 * step, m->n_keys, limit, w->kept + i, ROWS);
}

static void differentiate_all(const rows_block *r, const work *w, const meeting *m, int64_t step)
{
    if (r->a->dropout > 0) attention_bf16_backward_draw(r, w, m, step);
    for (int64_t k = 0; k < m->n_keys; k++)
        for (int64_t i = 0; i < m->n_rows; i++) {
            place at = { k, i, 32 * (step + k) };
            if (meets(&m->seen[i], at.key)) one_step(r, w, &m->seen[i], &at);
            else clear_step(w, &at);
        }
}

/* sums[keys][dim] += tile[keys][rows] rows[rows][dim], for dv and dk. */
static void add_to_keys(const rp_attention *a, const meeting *m, const uint16_t *tile, const uint16_t *rows, int64_t step, float *sums)
{
    int64_t depth = depth_of(a);

    for (int64_t k = 0; k < m->n_keys; k++) {
        span met           = m->rows[k];
        const uint16_t *at = tile + (2 * k * ROW_STEPS + met.from) * TILE;
        for (int64_t d = 0; d < depth && met.from < met.to; d++) {
            float *to          = sums + ((step + k) * 2 * depth + d) * 2 * TILE_F;
            const uint16_t *by = rows + (met.from * depth + d) * 2 * TILE;
            tiles both         = { at, at + ROW_STEPS * TILE, by, by + TILE, TILE, 2 * depth * TILE, met.to - met.from };
            tiles_multiply(both, to, 2 * depth * TILE_F, true);
        }
    }
}

static void add_dq(const rp_attention *a, const work *w, const meeting *m, int64_t step)
{
    int64_t depth = depth_of(a);

    for (int64_t i = 0; i < m->n_rows; i++) {
        span met           = m->keys[i];
        const uint16_t *by = w->ds_pairs + (met.from * ROW_STEPS + i) * 2 * TILE;
        for (int64_t d = 0; d < depth && met.from < met.to; d++) {
            float *to          = w->dq + (2 * d * ROW_STEPS + i) * 2 * TILE_F;
            const uint16_t *at = w->key_columns + ((step + met.from) * depth + d) * 2 * TILE;
            tiles both         = { at, at + TILE, by, by + TILE, 2 * depth * TILE, 2 * ROW_STEPS * TILE, met.to - met.from };
            tiles_multiply(both, to, 2 * ROW_STEPS * TILE_F, true);
        }
    }
}

/* dq of 16 rows is transposed into the buffer of the rows, which are no longer needed. */
static void put_dq(const rows_block *r, const work *w)
{
    const rp_attention *a = r->a;
    int64_t depth         = depth_of(a);
    float *turned         = (float *)w->rows_t;

    for (int64_t t = 0; t < 2 * ((r->n + 31) / 32); t++) {
        for (int64_t d = 0; d < 2 * depth; d++) transpose_tile(w->dq + (d * 2 * ROW_STEPS + t) * TILE_F, turned + d * TILE_F);
        for (int64_t lane = 0; lane < 16; lane++) {
            int64_t row = t / 2 * 32 + row_of_lane(t % 2, lane);
            if (row < r->n) put_row(&a->dq, row_at(r, &a->dq, row), a->dim, turned + 16 * lane, a->scale);
        }
    }
}

static void one_block(const rp_attention *a, int64_t pair, int64_t index, float *scratch, float *dk, float *dv)
{
    rows_block r;
    meeting m;
    work w;

    carve_work(a, scratch, &w);
    rows_begin(&r, a, pair, index, ROWS);
    begin_rows(&r, &w);
    m.n_rows = (r.n + 31) / 32;
    for (int64_t i = 0; i < m.n_rows; i++) m.seen[i] = rows32_of(&r, 32 * i);
    for (int64_t step = r.key_low / 32, last = (r.key_high + 31) / 32; step < last; step += KEY_STEPS) {
        meet(&m, step, at_most(KEY_STEPS, last - step));
        differentiate_all(&r, &w, &m, step);
        if (a->dq.data) add_dq(a, &w, &m, step);
        if (a->dv.data) add_to_keys(a, &m, w.p, w.grad, step, dv);
        if (a->dk.data) add_to_keys(a, &m, w.ds, w.rows, step, dk);
    }
    if (a->dq.data) put_dq(&r, &w);
}

/* Sums are tiles: [keys/16][2 depth]. */
static int64_t sums_width(const rp_attention *a) { return 32 * depth_of(a); }

static void put_keys(const rp_attention *a, const rp_attention_part *part, int64_t pair, const float *sums, int64_t from, int64_t to)
{
    float factor = part == &a->dk ? fabsf(a->scale) : 1.0f / (1.0f - a->dropout);
    int64_t at   = pair_at(a, part, pair);

    for (int64_t key = from; key < to; key++)
        put_row(part, at + key * part->row_step, a->dim, sums + key / 16 * 2 * depth_of(a) * TILE_F + key % 16 * 16, factor);
}

static int64_t scratch_size(const rp_attention *a)
{
    work w;

    return carve_work(a, NULL, &w);
}

const attention_way RP_AT_LEVEL(attention_bf16_backward) = { .rows = ROWS, .keys = 32, .scratch = scratch_size, .pack = pack_pair,
                                                            .block = one_block, .begin = tiles_begin, .end = tiles_end, .width = sums_width,
                                                            .put_keys = put_keys };
#endif
