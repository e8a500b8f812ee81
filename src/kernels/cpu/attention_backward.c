/* kernels/cpu/attention_backward.c -- gradients of attention in fp32. Probabilities are recomputed tile by tile from the saved
 * log-sum-exp.
 *
 *   p = exp(s - lse)   dv += p' dout   dp = dout v'   ds = p (dp - sum(dout * out))   dq += ds k   dk += ds' q
 *
 * With a soft cap, s is cap tanh(s / cap), and ds is multiplied by its slope.
 */
#include "kernels/cpu/attention_fp32.h"

typedef struct {
    float *rows_t, *grad_t, *rows, *grad;       /* q and dout: [dim][ROWS] twice, [ROWS][width] twice */
    float *keys, *values;                       /* k and v: [KEYS][width], unless they are read in place */
    float *p, *ds, *slopes;                     /* [KEYS][ROWS]; slopes only with a soft cap */
    uint32_t *kept;                             /* [KEYS / 32][ROWS] bits */
    float *dq;                                  /* [ROWS][width] */
    float lse[ROWS], delta[ROWS];
} work;

static int64_t carve_work(const rp_attention *a, float *base, work *w)
{
    int64_t used = 0, width = padded_dim(a);

    w->rows_t   = carve(base, &used, a->dim * ROWS);
    w->grad_t   = carve(base, &used, a->dim * ROWS);
    w->rows     = carve(base, &used, ROWS * width);
    w->grad     = carve(base, &used, ROWS * width);
    w->keys     = carve(base, &used, KEYS * width);
    w->values   = carve(base, &used, KEYS * width);
    w->p        = carve(base, &used, KEYS * ROWS);
    w->ds       = carve(base, &used, KEYS * ROWS);
    w->slopes   = carve(base, &used, a->softcap > 0 ? KEYS * ROWS : 0);
    w->kept     = (uint32_t *)carve(base, &used, a->dropout > 0 ? KEYS / 32 * ROWS : 0);
    w->dq       = carve(base, &used, ROWS * width);
    return used;
}

static void begin_rows(const rows_block *r, work *w)
{
    const rp_attention *a = r->a;
    int64_t width         = padded_dim(a);

    gather_rows(r, &a->out, 1.0f, width, w->dq);
    gather_rows(r, &a->grad_out, 1.0f, width, w->grad);
    gather_rows(r, &a->q, a->scale, width, w->rows);
    for (int64_t i = 0; i < ROWS; i++) {
        const float *out = w->dq + i * width, *grad = w->grad + i * width;
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (int64_t d = 0; d < width; d++) dot += out[d] * grad[d];
        w->delta[i] = dot;
        w->lse[i]   = i < r->n ? *lse_of(r, i) : 0;
    }
    pack_transposed(RP_F32, w->grad, 0, width, ROWS, a->dim, ROWS, w->grad_t);
    pack_transposed(RP_F32, w->rows, 0, width, ROWS, a->dim, ROWS, w->rows_t);
    memset(w->dq, 0, (size_t)(ROWS * width) * sizeof *w->dq);
}

/* Rows of a column: the keys that they see, and the sums of their softmax. */
typedef struct { wide_int low, high; wide lse, delta; } column_rows;

static column_rows column_rows_of(const rows_block *r, const work *w, int64_t row)
{
    column_rows c;

    memcpy(&c.low, r->low + row, sizeof c.low);
    memcpy(&c.high, r->high + row, sizeof c.high);
    memcpy(&c.lse, w->lse + row, sizeof c.lse);
    memcpy(&c.delta, w->delta + row, sizeof c.delta);
    return c;
}

/* Replaces scores by p and dp by ds. Keys that a row does not see become zero, even if the buffers held NaN. `masks` and `drops` are constants. */
INLINE void differentiate(const rows_block *r, const work *w, int64_t column, int64_t key, int64_t n, bool masks, bool drops)
{
    column_rows c = column_rows_of(r, w, column);
    float factor  = 1.0f / (1.0f - r->a->dropout);

    for (int64_t j = 0; j < n; j++) {
        wide_at *p = (wide_at *)(w->p + j * ROWS + column), *ds = (wide_at *)(w->ds + j * ROWS + column);
        wide q = wide_exp((wide)*p - c.lse), keep = wide_of(1), dp = *ds;
        if (drops) {
            wide_bits bits = *(const wide_bits_at *)(w->kept + j / 32 * ROWS + column) >> (uint32_t)(j % 32) & 1u;
            keep           = __builtin_convertvector(bits, wide) * factor;
        }
        wide kept = drops ? q * keep : q, d = q * ((drops ? dp * keep : dp) - c.delta);
        if (masks) {
            wide_int at = (int32_t)(key + j) - (wide_int){ 0 }, seen = (at >= c.low) & (at < c.high);
            kept        = wide_select(seen, kept, wide_of(0));
            d           = wide_select(seen, d, wide_of(0));
        }
        *p  = kept;
        *ds = d;
    }
}

static void differentiate_column(const rows_block *r, const work *w, int64_t column, int64_t key, int64_t n, bool masks)
{
    if (r->a->dropout > 0) differentiate(r, w, column, key, n, true, true);
    else if (masks) differentiate(r, w, column, key, n, true, false);
    else differentiate(r, w, column, key, n, false, false);
}

/* A ds of 0 stays 0, because the slope of a key that the row does not see is undefined. */
static void slope_down(const work *w, int64_t column, span seen)
{
    for (int64_t j = seen.from; j < seen.to; j++)
        for (int64_t i = column; i < column + COLUMN; i += WIDE) {
            wide_at *at = (wide_at *)(w->ds + j * ROWS + i);
            wide ds     = *at;
            *at         = wide_select(ds == 0.0f, ds, ds * (wide)*(wide_at *)(w->slopes + j * ROWS + i));
        }
}

static void differentiate_tile(const rows_block *r, work *w, const float *keys, int64_t keys_step, int64_t key, int64_t n)
{
    int64_t values_step;
    const float *values = key_rows(r, &r->a->v, key, n, w->values, &values_step);

    if (r->a->dropout > 0) draw_tile(r, key, w->kept);
    for (int64_t c = 0; c < ROWS; c += COLUMN) {
        span seen = rows_span(r, c, COLUMN, key, n);
        if (seen.to == 0) {
            clear_columns(w->p, c, n);
            clear_columns(w->ds, c, n);
            continue;
        }
        score(r, keys, keys_step, w->rows_t, seen, c, w->p);
        if (r->a->softcap > 0) cap_scores(r->a->softcap, seen.from, seen.to, w->p + c, w->slopes + c);
        score(r, values, values_step, w->grad_t, seen, c, w->ds);
        for (int64_t i = c; i < c + COLUMN; i += WIDE) differentiate_column(r, w, i, key, n, !seen.whole);
        if (r->a->softcap > 0) slope_down(w, c, seen);
    }
}

/* to += TILE_ROWS keys of a tile times n rows. */
TILE_FUNCTION void keys_tile(int64_t n, const float *tile, const float *rows, int64_t width, float *to)
{
    tile_multiply(n, tile, ROWS, 1, rows, width, to, width, true);
}

/* sums[key][width] += tile[key][rows] rows[row], for dv and dk. */
static void add_to_keys(const rows_block *r, const float *tile, const float *rows, int64_t key, int64_t n, float *sums)
{
    int64_t width = padded_dim(r->a);

    for (int64_t j = 0; j < n; j += TILE_ROWS) {
        span seen = keys_span(r, key + j, TILE_ROWS);
        for (int64_t d = 0; d < width && seen.to; d += TILE_COLUMNS)
            keys_tile(seen.to - seen.from, tile + j * ROWS + seen.from, rows + seen.from * width + d, width, sums + (key + j) * width + d);
    }
}

static void put_dq(const rows_block *r, work *w)
{
    const rp_attention_part *dq = &r->a->dq;
    int64_t width               = padded_dim(r->a);

    for (int64_t i = 0; i < r->n; i++) {
        float *row = w->dq + i * width;
#pragma omp simd
        for (int64_t d = 0; d < width; d++) row[d] *= r->a->scale;
        row_store_add(dq->dtype, dq->data, row_at(r, dq, i), r->a->dim, row, dq->adds);
    }
}

static void one_block(const rp_attention *a, int64_t pair, int64_t index, float *scratch, float *dk, float *dv)
{
    rows_block r;
    work w;

    carve_work(a, scratch, &w);
    rows_begin(&r, a, pair, index, ROWS);
    begin_rows(&r, &w);
    for (int64_t key = r.key_low / KEYS * KEYS; key < r.key_high; key += KEYS) {
        int64_t n = at_most(KEYS, a->keys - key), step;
        const float *keys = key_rows(&r, &a->k, key, n, w.keys, &step);
        differentiate_tile(&r, &w, keys, step, key, n);
        if (a->dq.data) add_to_rows(&r, w.ds, keys, step, key, n, w.dq);
        if (a->dv.data) add_to_keys(&r, w.p, w.grad, key, n, dv);
        if (a->dk.data) add_to_keys(&r, w.ds, w.rows, key, n, dk);
    }
    if (a->dq.data) put_dq(&r, &w);
}

static void put_keys(const rp_attention *a, const rp_attention_part *part, int64_t pair, const float *sums, int64_t from, int64_t to)
{
    int64_t width = padded_dim(a), at = pair_at(a, part, pair);

    for (int64_t key = from; key < to; key++)
        row_store_add(part->dtype, part->data, at + key * part->row_step, a->dim, sums + key * width, part->adds);
}

static int64_t scratch_size(const rp_attention *a)
{
    work w;

    return carve_work(a, NULL, &w);
}

const attention_way RP_AT_LEVEL(attention_fp32_backward) = { .rows = ROWS, .keys = KEYS, .scratch = scratch_size, .block = one_block,
                                                             .width = padded_dim, .put_keys = put_keys };
