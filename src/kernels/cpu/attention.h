/* kernels/cpu/attention.h -- what attention's forward and backward share (Dao et al., FlashAttention, 2022).
 *
 *   the queries of all heads that share one key head are rows: row = query * group + head of the group
 *
 *            keys ->                            Scores are kept transposed, [KEYS][ROWS]: the softmax of a row then runs
 *   rows   +------+------+------+               down a column, whole vectors of rows at a time, and a tile of probabilities
 *    |     | tile | tile |      |  <- block     is an operand of the next product as it stands.
 *    v     +------+------+------+
 *
 * A block of ROWS rows walks the tiles of KEYS keys that any of its rows sees, in order; tiles start at multiples of KEYS.
 * What a row sees is [low, high); parts of a tile nobody sees are not computed, the rest is masked. Nothing has the size
 * of rows x keys.
 */
#ifndef RP_KERNELS_CPU_ATTENTION_H
#define RP_KERNELS_CPU_ATTENTION_H

#include "kernels/cpu/pack.h"
#include "kernels/cpu/tile.h"

enum { ROWS = 96, KEYS = 96 };          /* multiples of every level's TILE_ROWS and TILE_COLUMNS */

typedef struct {
    const rp_attention *a;
    int64_t batch, kv_head, group;
    int64_t first, n;                   /* rows of this block */
    int64_t key_low, key_high;          /* keys any of them sees */
    int32_t low[ROWS], high[ROWS];      /* keys each of them sees; none beyond n */
} rows_block;

typedef struct { int64_t from, to; bool whole; } span;      /* of a tile; whole: each of the rows sees all of it */

static inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }
static inline int64_t at_least(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t padded_dim(const rp_attention *a) { return round_up(a->dim, TILE_COLUMNS); }
static inline int64_t rows_of(const rp_attention *a) { return a->queries * (a->heads / a->kv_heads); }
static inline int64_t blocks_of(const rp_attention *a) { return (rows_of(a) + ROWS - 1) / ROWS; }

/* The next `n` floats of a thread's scratch, 64-byte aligned. With no base it only counts. */
static inline float *carve(float *base, int64_t *used, int64_t n)
{
    float *at = base ? base + *used : NULL;

    *used += round_up(n, 16);
    return at;
}

/* Work i of a run of pieces that grow: 0 1 2 2 1 0 0 1 2 … gives each of `n` the same share. */
static inline int64_t snake(int64_t i, int64_t n) { return i % (2 * n) < n ? i % (2 * n) : 2 * n - 1 - i % (2 * n); }

static inline void see(rows_block *r, int64_t row)
{
    const rp_attention *a = r->a;
    int64_t query = (r->first + row) / r->group, position = a->keys - a->queries + query;
    int64_t low = a->window ? at_least(position - a->window + 1, 0) : 0, high = a->causal ? at_least(position + 1, 0) : a->keys;

    if (a->doc_start) low = at_least(low, a->doc_start[r->batch * a->doc_batch_step + query * a->doc_row_step]);
    if (low >= high) low = high = 0;
    r->low[row]  = (int32_t)low;
    r->high[row] = (int32_t)high;
}

/* Block `index` of pair (batch, key head) number `pair`. */
static inline void rows_begin(rows_block *r, const rp_attention *a, int64_t pair, int64_t index)
{
    r->a        = a;
    r->batch    = pair / a->kv_heads;
    r->kv_head  = pair % a->kv_heads;
    r->group    = a->heads / a->kv_heads;
    r->first    = index * ROWS;
    r->n        = at_most(ROWS, rows_of(a) - r->first);
    r->key_low  = a->keys;
    r->key_high = 0;
    for (int64_t i = 0; i < r->n; i++) {
        see(r, i);
        if (r->low[i] == r->high[i]) continue;
        r->key_low  = at_most(r->key_low, r->low[i]);
        r->key_high = at_least(r->key_high, r->high[i]);
    }
    for (int64_t i = r->n; i < ROWS; i++) r->low[i] = r->high[i] = 0;
    r->key_low = r->key_low / KEYS * KEYS;
}

static inline int64_t query_of(const rows_block *r, int64_t row) { return (r->first + row) / r->group; }
static inline int64_t head_of(const rows_block *r, int64_t row) { return r->kv_head * r->group + (r->first + row) % r->group; }

static inline int64_t row_at(const rows_block *r, const rp_attention_part *p, int64_t row)
{
    return r->batch * p->batch_step + query_of(r, row) * p->row_step + head_of(r, row) * p->head_step;
}

static inline int64_t key_at(const rows_block *r, const rp_attention_part *p, int64_t key)
{
    return r->batch * p->batch_step + key * p->row_step + r->kv_head * p->head_step;
}

static inline float *lse_of(const rows_block *r, int64_t row)
{
    return r->a->lse + (r->batch * r->a->heads + head_of(r, row)) * r->a->queries + query_of(r, row);
}

/* The block's rows of q or of a gradient, times `factor`, as [ROWS][width] fp32. */
static inline void gather_rows(const rows_block *r, const rp_attention_part *p, float factor, int64_t width, float *to)
{
    for (int64_t i = 0; i < r->n; i++) {
        float *row = to + i * width;
        pack_rows(p->dtype, p->data, row_at(r, p, i), 0, 1, r->a->dim, width, row);
#pragma omp simd
        for (int64_t d = 0; d < width; d++) row[d] *= factor;
    }
    memset(to + r->n * width, 0, (size_t)((ROWS - r->n) * width) * sizeof *to);
}

/* Keys key .. key+n of k or v as [dim][KEYS]. */
static inline void pack_keys(const rows_block *r, const rp_attention_part *p, int64_t key, int64_t n, float *to)
{
    pack_transposed(p->dtype, p->data, key_at(r, p, key), p->row_step, n, r->a->dim, KEYS, to);
}

/* The same keys as rows: where they stand when they are fp32 of whole tiles, else packed into `buffer`. */
static inline const float *key_rows(const rows_block *r, const rp_attention_part *p, int64_t key, int64_t n, float *buffer, int64_t *step)
{
    int64_t width = padded_dim(r->a), at = key_at(r, p, key);

    *step = width;
    if (p->dtype == RP_F32 && width == r->a->dim) {
        *step = p->row_step;
        return (const float *)p->data + at;
    }
    pack_rows(p->dtype, p->data, at, p->row_step, n, r->a->dim, width, buffer);
    return buffer;
}

/* What rows row .. row+count see of the tile of n keys at `key`. */
static inline span rows_span(const rows_block *r, int64_t row, int64_t count, int64_t key, int64_t n)
{
    span s = { n, 0, true };

    for (int64_t i = row; i < row + count; i++) {
        int64_t from = at_least(r->low[i] - key, 0), to = at_most(r->high[i] - key, n);
        if (from > 0 || to < n) s.whole = false;
        if (from >= to) continue;
        s.from = at_most(s.from, from);
        s.to   = at_least(s.to, to);
    }
    if (s.from >= s.to) s.from = s.to = 0;
    return s;
}

/* Which rows see any of the keys key .. key+n, as [from, to). */
static inline span keys_span(const rows_block *r, int64_t key, int64_t n)
{
    span s = { r->n, 0, false };

    for (int64_t i = 0; i < r->n; i++)
        if (r->low[i] < key + n && r->high[i] > key) {
            s.from = at_most(s.from, i);
            s.to   = i + 1;
        }
    if (s.from >= s.to) s.from = s.to = 0;
    return s;
}

/* Scores of the TILE_COLUMNS rows at `column` against the keys of a tile that they see, from [dim][KEYS] and [dim][ROWS]. */
static inline void score(const rows_block *r, const float *keys, const float *rows, span seen, int64_t column, float *to)
{
    for (int64_t j = seen.from / TILE_ROWS * TILE_ROWS; j < seen.to; j += TILE_ROWS)
        tile_multiply(r->a->dim, keys + j, 1, KEYS, rows + column, ROWS, to + j * ROWS + column, ROWS, false);
}

static inline void clear_columns(float *tile, int64_t column, int64_t n)
{
    for (int64_t j = 0; j < n; j++) memset(tile + j * ROWS + column, 0, TILE_COLUMNS * sizeof *tile);
}

/* keep[key][row] = 0 where dropped, else 1 / (1 - p). An element's number is that of [heads, queries, keys] in its sample; four
 * neighbours share a block of the generator, and a tile may begin inside one. */
static inline void draw_keep(const rows_block *r, int64_t key, int64_t n, float *keep)
{
    enum { BLOCKS = (KEYS / 4 + 1 + 15) / 16 * 16 };
    const rp_attention *a = r->a;
    float factor[4][BLOCKS], p = a->dropout, kept = 1.0f / (1.0f - p);

    for (int64_t i = 0; i < r->n; i++) {
        int64_t element = (head_of(r, i) * a->queries + query_of(r, i)) * a->keys + key, skip = element & 3;
#pragma omp simd
        for (int b = 0; b < BLOCKS; b++) {
            rp_philox x  = rp__stream_block(&a->stream, r->batch, (element >> 2) + b);
            factor[0][b] = rp__uniform(x.word[0]) < p ? 0.0f : kept;
            factor[1][b] = rp__uniform(x.word[1]) < p ? 0.0f : kept;
            factor[2][b] = rp__uniform(x.word[2]) < p ? 0.0f : kept;
            factor[3][b] = rp__uniform(x.word[3]) < p ? 0.0f : kept;
        }
        for (int64_t w = 0; w < 4; w++)
            for (int64_t b = w < skip; 4 * b + w - skip < n; b++) keep[(4 * b + w - skip) * ROWS + i] = factor[w][b];
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = r->n; i < ROWS; i++) keep[j * ROWS + i] = 0;
}

#endif
