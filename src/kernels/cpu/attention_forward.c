/* kernels/cpu/attention_forward.c -- attention in fp32 with a running softmax. Each row has a maximum, a sum and an output so far; a new
 * maximum scales the sum and the output down. */
#include "kernels/cpu/attention_fp32.h"

typedef struct {
    float *rows, *keys, *values, *scores, *out;     /* [dim][ROWS] [dim][KEYS] [KEYS][width] [KEYS][ROWS] [ROWS][width] */
    uint32_t *kept;                                 /* [KEYS / 32][ROWS] bits */
    float top[ROWS], sum[ROWS], shrink[ROWS];
} work;

static int64_t carve_work(const rp_attention *a, float *base, work *w)
{
    int64_t used = 0, width = padded_dim(a);

    w->rows   = carve(base, &used, a->dim * ROWS);
    w->keys   = carve(base, &used, a->dim * KEYS);
    w->values = carve(base, &used, KEYS * width);
    w->scores = carve(base, &used, KEYS * ROWS);
    w->kept   = (uint32_t *)carve(base, &used, a->dropout > 0 ? KEYS / 32 * ROWS : 0);
    w->out    = carve(base, &used, ROWS * width);
    return used;
}

static void mask(const rows_block *r, int64_t column, int64_t key, int64_t n, float *scores)
{
    const int32_t *low = r->low + column, *high = r->high + column;

    for (int32_t j = 0; j < n; j++) {
        float *s   = scores + j * ROWS + column;
        int32_t at = (int32_t)key + j;
#pragma omp simd
        for (int i = 0; i < TILE_COLUMNS; i++) s[i] = ((at >= low[i]) & (at < high[i])) ? s[i] : -INFINITY;
    }
}

/* Scores become exp(score - new maximum). Updates the sums, and sets the factors for the earlier sums and outputs. */
static void soften(int64_t n, float *scores, float *row_top, float *row_sum, float *row_shrink)
{
    float top[TILE_COLUMNS], sum[TILE_COLUMNS] = { 0 };

    memcpy(top, row_top, sizeof top);
    for (int64_t j = 0; j < n; j++) {
        const float *s = scores + j * ROWS;
#pragma omp simd
        for (int64_t i = 0; i < TILE_COLUMNS; i++) top[i] = s[i] > top[i] ? s[i] : top[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < TILE_COLUMNS; i++) {
        float base    = top[i] == -INFINITY ? 0.0f : top[i];
        row_shrink[i] = fast_exp(row_top[i] - base);
        row_top[i]    = top[i];
        top[i]        = base;
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < TILE_COLUMNS; i += WIDE) {
            wide_at *s = (wide_at *)(scores + j * ROWS + i);
            wide p     = wide_exp((wide)*s - *(const wide_at *)(top + i));
            *s         = p;
            *(wide_at *)(sum + i) += p;
        }
#pragma omp simd
    for (int64_t i = 0; i < TILE_COLUMNS; i++) row_sum[i] = row_sum[i] * row_shrink[i] + sum[i];
}

static void attention_forward_drop(const rows_block *r, work *w, int64_t key, int64_t n)
{
    float factor = 1.0f / (1.0f - r->a->dropout);

    draw_tile(r, key, w->kept);
    for (int64_t j = 0; j < n; j++) {
        const uint32_t *kept = w->kept + j / 32 * ROWS, bit = 1u << j % 32;
        float *s             = w->scores + j * ROWS;
#pragma omp simd
        for (int64_t i = 0; i < ROWS; i++) s[i] *= kept[i] & bit ? factor : 0.0f;
    }
}

static void probabilities(const rows_block *r, work *w, int64_t key, int64_t n)
{
    for (int64_t c = 0; c < ROWS && c < r->n; c += TILE_COLUMNS) {
        span seen = rows_span(r, c, TILE_COLUMNS, key, n);
        if (seen.to == 0) {
            clear_columns(w->scores, c, n);
            for (int i = 0; i < TILE_COLUMNS; i++) w->shrink[c + i] = 1;
            continue;
        }
        score(r, w->keys, w->rows, seen, c, w->scores);
        if (r->a->softcap > 0) cap_scores(r->a->softcap, seen.from, seen.to, w->scores + c, NULL);
        if (!seen.whole) mask(r, c, key, n, w->scores);
        soften(n, w->scores + c, w->top + c, w->sum + c, w->shrink + c);
    }
    if (r->a->dropout > 0) attention_forward_drop(r, w, key, n);
}

static void add_values(const rows_block *r, work *w, int64_t key, int64_t n)
{
    int64_t width = padded_dim(r->a), step;
    const float *values = key_rows(r, &r->a->v, key, n, w->values, &step);

    for (int64_t i = 0; i < r->n; i++) {
        float *row = w->out + i * width, factor = w->shrink[i];
#pragma omp simd
        for (int64_t d = 0; d < width; d++) row[d] *= factor;
    }
    for (int64_t i = 0; i < r->n; i += TILE_ROWS) {
        span seen = rows_span(r, i, TILE_ROWS, key, n);
        for (int64_t d = 0; d < width && seen.to; d += TILE_COLUMNS)
            tile_multiply(seen.to - seen.from, w->scores + seen.from * ROWS + i, 1, ROWS, values + seen.from * step + d, step,
                          w->out + i * width + d, width, true);
    }
}

static void attention_forward_finish(const rows_block *r, work *w)
{
    const rp_attention *a = r->a;
    int64_t width         = padded_dim(a);

    for (int64_t i = 0; i < r->n; i++) {
        float *row = w->out + i * width, factor = w->sum[i] > 0 ? 1.0f / w->sum[i] : w->sum[i];
#pragma omp simd
        for (int64_t d = 0; d < width; d++) row[d] *= factor;
        row_store(a->out.dtype, a->out.data, row_at(r, &a->out, i), a->dim, row);
        if (a->lse) *lse_of(r, i) = r->high[i] ? w->top[i] + logf(w->sum[i]) : -INFINITY;
    }
}

static void one_block(const rp_attention *a, int64_t pair, int64_t index, float *scratch, float *dk, float *dv)
{
    int64_t width = padded_dim(a);
    rows_block r;
    work w;

    (void)dk, (void)dv;
    carve_work(a, scratch, &w);
    rows_begin(&r, a, pair, index, ROWS);
    gather_rows(&r, &a->q, a->scale, width, w.out);
    pack_transposed(RP_F32, w.out, 0, width, ROWS, a->dim, ROWS, w.rows);
    memset(w.out, 0, (size_t)(ROWS * width) * sizeof *w.out);
    for (int i = 0; i < ROWS; i++) w.top[i] = -INFINITY, w.sum[i] = 0;
    for (int64_t key = r.key_low / KEYS * KEYS; key < r.key_high; key += KEYS) {
        int64_t n = at_most(KEYS, a->keys - key);
        pack_keys(&r, &a->k, key, n, w.keys);
        probabilities(&r, &w, key, n);
        add_values(&r, &w, key, n);
    }
    attention_forward_finish(&r, &w);
}

static int64_t scratch_size(const rp_attention *a)
{
    work w;

    return carve_work(a, NULL, &w);
}

const attention_way RP_AT_LEVEL(attention_fp32_forward) = { .rows = ROWS, .scratch = scratch_size, .block = one_block };
