/* kernels/cpu/attention_backward.c -- gradients of attention, probabilities made again tile by tile from the saved
 * log-sum-exp.
 *
 *   p = exp(s - lse)   dv += p' dout   dp = dout v'   ds = p (dp - sum(dout * out))   dq += ds k   dk += ds' q
 *
 * A task is one pair (batch, key head): it owns that pair's dk and dv, so nothing is added by two threads. Where pairs do not
 * fill the team, each is cut into chunks of row blocks with sums of their own, added afterwards in the order of the chunks.
 */
#include "kernels/cpu/attention_amx.h"
#include "kernels/cpu/attention_fp32.h"

typedef struct {
    float *rows_t, *grad_t, *rows, *grad;       /* q and dout: [dim][ROWS] twice, [ROWS][width] twice */
    float *keys_t, *values_t, *keys;            /* k and v: [dim][KEYS] twice, k as [KEYS][width] */
    float *p, *ds;                              /* [KEYS][ROWS] */
    uint32_t *kept;                             /* [KEYS / 32][ROWS] bits */
    float *dq, *dk, *dv;                        /* [ROWS][width], and sums over rows: [keys][width] twice */
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
    w->kept     = (uint32_t *)carve(base, &used, a->dropout > 0 ? KEYS / 32 * ROWS : 0);
    w->dq       = carve(base, &used, ROWS * width);
    return used;
}

/* dk and dv of one pair, or of one chunk of it. */
static int64_t sums_size(const rp_attention *a) { return round_up(a->keys, KEYS) * padded_dim(a); }

static int64_t chunks_of(const rp_attention *a) { return chunks_of_pair(a, blocks_of(a)); }

static int64_t n_sums(const rp_attention *a)
{
    int64_t chunks = chunks_of(a);

    return chunks > 1 ? pairs_of(a) * chunks : a->threads;
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

/* From scores and dp to what dv and ds need; what a row does not see is zero whatever stood there. */
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
        score(r, w->values_t, w->grad_t, seen, c, w->ds);
        if (r->a->dropout > 0) differentiate_dropped(r, w, c, key, n);
        else differentiate(r, w, c, key, n);
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

/* sums[key] += tile[key][rows] rows[row], for dv and dk. */
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

static void one_block(const rp_attention *a, int64_t pair, int64_t index, work *w)
{
    rows_block r;

    rows_begin(&r, a, pair, index, ROWS);
    begin_rows(&r, w);
    for (int64_t key = r.key_low / KEYS * KEYS; key < r.key_high; key += KEYS) {
        int64_t n = at_most(KEYS, a->keys - key);
        pack_keys(&r, &a->k, key, n, w->keys_t);
        pack_keys(&r, &a->v, key, n, w->values_t);
        differentiate_tile(&r, w, key, n);
        if (a->dq.data) add_dq(&r, w, key, n);
        if (a->dv.data) add_to_keys(&r, w->p, w->grad, key, n, w->dv);
        if (a->dk.data) add_to_keys(&r, w->ds, w->rows, key, n, w->dk);
    }
    if (a->dq.data) put_dq(&r, w);
}

static void one_chunk(const rp_attention *a, int64_t pair, int64_t chunk, int64_t chunks, float *sums, work *w)
{
    int64_t size = sums_size(a);

    w->dk = sums;
    w->dv = sums + size;
    memset(sums, 0, (size_t)(2 * size) * sizeof *sums);
    for (int64_t i = 0; i < blocks_of(a); i++)
        if (snake(i, chunks) == chunk) one_block(a, pair, i, w);
}

/* dk and dv of keys from .. to of a pair, from its chunks' sums in order; the first chunk's are used up. */
static void put_keys(const rp_attention *a, int64_t pair, int64_t chunks, float *sums, int64_t from, int64_t to)
{
    const rp_attention_part *parts[2] = { &a->dk, &a->dv };
    int64_t width = padded_dim(a), size = sums_size(a), batch = pair / a->kv_heads, head = pair % a->kv_heads;

    for (int which = 0; which < 2; which++) {
        const rp_attention_part *p = parts[which];
        for (int64_t key = from; key < to && p->data; key++) {
            float *row = sums + which * size + key * width;
            for (int64_t c = 1; c < chunks; c++)
#pragma omp simd
                for (int64_t d = 0; d < width; d++) row[d] += row[c * 2 * size + d];
            row_store_add(p->dtype, p->data, batch * p->batch_step + key * p->row_step + head * p->head_step, a->dim, row, p->adds);
        }
    }
}

static float *sums_of(const rp_attention *a, int64_t number)
{
    work w;

    return (float *)a->scratch + carve_work(a, NULL, &w) * a->threads + number * 2 * sums_size(a);
}

static void run_chunk(void *arg, int64_t part, int thread)
{
    const rp_attention *a = arg;
    int64_t chunks        = chunks_of(a);
    float *sums           = sums_of(a, chunks > 1 ? part : thread);
    work w;
    int64_t size = carve_work(a, NULL, &w);

    carve_work(a, (float *)a->scratch + thread * size, &w);
    one_chunk(a, part / chunks, part % chunks, chunks, sums, &w);
    if (chunks == 1) put_keys(a, part, 1, sums, 0, a->keys);
}

/* A part is a share of a pair's keys. */
static void run_sums(void *arg, int64_t part, int thread)
{
    const rp_attention *a = arg;
    int64_t chunks = chunks_of(a), pair = part / a->threads, share = part % a->threads;

    (void)thread;
    put_keys(a, pair, chunks, sums_of(a, pair * chunks), rp__part_from(a->keys, 1, a->threads, share),
             rp__part_from(a->keys, 1, a->threads, share + 1));
}

void RP_AT_LEVEL(attention_backward_scratch)(const rp_attention *a, int64_t *bytes)
{
    work w;

    *bytes = on_amx(a) ? amx_backward_scratch(a)
                       : (carve_work(a, NULL, &w) * a->threads + 2 * sums_size(a) * n_sums(a)) * (int64_t)sizeof(float);
}

void RP_AT_LEVEL(attention_backward)(const rp_attention *a)
{
    int64_t chunks = chunks_of(a);

    if (on_amx(a)) {
        amx_backward(a);
        return;
    }
    rp__team_run(a->threads, pairs_of(a) * chunks, run_chunk, (void *)a);
    if (chunks > 1) rp__team_run(a->threads, pairs_of(a) * a->threads, run_sums, (void *)a);
}
