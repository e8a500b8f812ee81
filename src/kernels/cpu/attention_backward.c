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
    float *keys_t, *values_t, *keys;            /* k and v: [dim][KEYS] twice, k as [KEYS][width] */
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
    w->keys_t   = carve(base, &used, a->dim * KEYS);
    w->values_t = carve(base, &used, a->dim * KEYS);
    w->keys     = carve(base, &used, KEYS * width);
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

/* Replaces scores by p and dp by ds. Keys that a row does not see become zero, even if the buffers held NaN. */
static void differentiate(const rows_block *r, const work *w, int64_t column, int64_t key, int64_t n)
{
    const int32_t *low = r->low + column, *high = r->high + column;
    const float *lse = w->lse + column, *delta = w->delta + column;

    for (int64_t j = 0; j < n; j++) {
        float *p = w->p + j * ROWS + column, *ds = w->ds + j * ROWS + column;
        int32_t at = (int32_t)(key + j);
#pragma omp simd
        for (int i = 0; i < TILE_COLUMNS; i++) {
            float q  = fast_exp(p[i] - lse[i]), d = q * (ds[i] - delta[i]);
            int seen = (at >= low[i]) & (at < high[i]);
            p[i]     = seen ? q : 0.0f;
            ds[i]    = seen ? d : 0.0f;
        }
    }
}

static void differentiate_dropped(const rows_block *r, const work *w, int64_t column, int64_t key, int64_t n)
{
    const int32_t *low = r->low + column, *high = r->high + column;
    const float *lse = w->lse + column, *delta = w->delta + column;
    float factor = 1.0f / (1.0f - r->a->dropout);

    for (int64_t j = 0; j < n; j++) {
        float *p = w->p + j * ROWS + column, *ds = w->ds + j * ROWS + column;
        const uint32_t *kept = w->kept + j / 32 * ROWS + column, bit = 1u << j % 32;
        int32_t at           = (int32_t)(key + j);
#pragma omp simd
        for (int i = 0; i < TILE_COLUMNS; i++) {
            float keep = kept[i] & bit ? factor : 0.0f, q = fast_exp(p[i] - lse[i]), d = q * (ds[i] * keep - delta[i]);
            int seen   = (at >= low[i]) & (at < high[i]);
            p[i]       = seen ? q * keep : 0.0f;
            ds[i]      = seen ? d : 0.0f;
        }
    }
}

/* A ds of 0 stays 0, because the slope of a key that the row does not see is undefined. */
static void slope_down(const work *w, int64_t column, span seen)
{
    for (int64_t j = seen.from; j < seen.to; j++)
        for (int64_t i = column; i < column + TILE_COLUMNS; i += WIDE) {
            wide_at *at = (wide_at *)(w->ds + j * ROWS + i);
            wide ds     = *at;
            *at         = wide_select(ds == 0.0f, ds, ds * (wide)*(wide_at *)(w->slopes + j * ROWS + i));
        }
}

static void differentiate_tile(const rows_block *r, work *w, int64_t key, int64_t n)
{
    if (r->a->dropout > 0) draw_tile(r, key, w->kept);
    for (int64_t c = 0; c < ROWS; c += TILE_COLUMNS) {
        span seen = rows_span(r, c, TILE_COLUMNS, key, n);
        if (seen.to == 0) {
            clear_columns(w->p, c, n);
            clear_columns(w->ds, c, n);
            continue;
        }
        score(r, w->keys_t, w->rows_t, seen, c, w->p);
        if (r->a->softcap > 0) cap_scores(r->a->softcap, seen.from, seen.to, w->p + c, w->slopes + c);
        score(r, w->values_t, w->grad_t, seen, c, w->ds);
        if (r->a->dropout > 0) differentiate_dropped(r, w, c, key, n);
        else differentiate(r, w, c, key, n);
        if (r->a->softcap > 0) slope_down(w, c, seen);
    }
}

static void add_dq(const rows_block *r, work *w, int64_t key, int64_t n)
{
    int64_t width = padded_dim(r->a), step;
    const float *keys = key_rows(r, &r->a->k, key, n, w->keys, &step);

    for (int64_t i = 0; i < r->n; i += TILE_ROWS) {
        span seen = rows_span(r, i, TILE_ROWS, key, n);
        for (int64_t d = 0; d < width && seen.to; d += TILE_COLUMNS)
            tile_multiply(seen.to - seen.from, w->ds + seen.from * ROWS + i, 1, ROWS, keys + seen.from * step + d, step,
                          w->dq + i * width + d, width, true);
    }
}

/* sums[key][width] += tile[key][rows] rows[row], for dv and dk. */
static void add_to_keys(const rows_block *r, const float *tile, const float *rows, int64_t key, int64_t n, float *sums)
{
    int64_t width = padded_dim(r->a);

    for (int64_t j = 0; j < n; j += TILE_ROWS) {
        span seen = keys_span(r, key + j, TILE_ROWS);
        for (int64_t d = 0; d < width && seen.to; d += TILE_COLUMNS)
            tile_multiply(seen.to - seen.from, tile + j * ROWS + seen.from, ROWS, 1, rows + seen.from * width + d, width,
                          sums + (key + j) * width + d, width, true);
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
        int64_t n = at_most(KEYS, a->keys - key);
        pack_keys(&r, &a->k, key, n, w.keys_t);
        pack_keys(&r, &a->v, key, n, w.values_t);
        differentiate_tile(&r, &w, key, n);
        if (a->dq.data) add_dq(&r, &w, key, n);
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
