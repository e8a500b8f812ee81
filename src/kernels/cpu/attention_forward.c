/* kernels/cpu/attention_forward.c -- attention in fp32 with a running softmax. Each row has a maximum, a sum and an output so far; a new
 * maximum scales the sum and the output down. */
#include "kernels/cpu/attention_fp32.h"

typedef struct {
    float *rows, *keys, *values, *scores, *out;     /* [dim][ROWS] [KEYS][width] twice, [KEYS][ROWS] [ROWS][width] */
    uint32_t *kept;                                 /* [KEYS / 32][ROWS] bits */
    float top[ROWS], sum[ROWS], shrink[ROWS];
} work;

static int64_t carve_work(const rp_attention *a, float *base, work *w)
{
    int64_t used = 0, width = padded_dim(a);

    w->rows   = carve(base, &used, a->dim * ROWS);
    w->keys   = carve(base, &used, KEYS * width);
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
        for (int i = 0; i < COLUMN; i++) s[i] = ((at >= low[i]) & (at < high[i])) ? s[i] : -INFINITY;
    }
}

/* Scores become exp(score - new maximum). Updates the sums, and sets the factors for the earlier sums and outputs. */
static void soften(int64_t n, float *scores, float *row_top, float *row_sum, float *row_shrink)
{
    wide top[WIDE_VECTORS], sum[WIDE_VECTORS];

#pragma GCC unroll 4
    for (int v = 0; v < WIDE_VECTORS; v++) top[v] = *(const wide_at *)(row_top + v * WIDE);
    for (int64_t j = 0; j < n; j++)
#pragma GCC unroll 4
        for (int v = 0; v < WIDE_VECTORS; v++) top[v] = wide_max(*(const wide_at *)(scores + j * ROWS + v * WIDE), top[v]);
#pragma GCC unroll 4
    for (int v = 0; v < WIDE_VECTORS; v++) {
        wide base = wide_select(top[v] == -INFINITY, wide_of(0), top[v]);
        *(wide_at *)(row_shrink + v * WIDE) = wide_exp((wide)*(const wide_at *)(row_top + v * WIDE) - base);
        *(wide_at *)(row_top + v * WIDE)    = top[v];
        top[v] = base;
        sum[v] = wide_of(0);
    }
    for (int64_t j = 0; j < n; j++)
#pragma GCC unroll 4
        for (int v = 0; v < WIDE_VECTORS; v++) {
            wide_at *s = (wide_at *)(scores + j * ROWS + v * WIDE);
            wide p     = wide_exp((wide)*s - top[v]);
            *s         = p;
            sum[v] += p;
        }
#pragma GCC unroll 4
    for (int v = 0; v < WIDE_VECTORS; v++) {
        wide_at *to = (wide_at *)(row_sum + v * WIDE);
        *to         = (wide)*to * (wide)*(const wide_at *)(row_shrink + v * WIDE) + sum[v];
    }
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
    int64_t step;
    const float *keys = key_rows(r, &r->a->k, key, n, w->keys, &step);

    for (int64_t c = 0; c < ROWS && c < r->n; c += COLUMN) {
        span seen = rows_span(r, c, COLUMN, key, n);
        if (seen.to == 0) {
            clear_columns(w->scores, c, n);
            for (int i = 0; i < COLUMN; i++) w->shrink[c + i] = 1;
            continue;
        }
        score(r, keys, step, w->rows, seen, c, w->scores);
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
    add_to_rows(r, w->scores, values, step, key, n, w->out);
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
