/* kernels/cpu/attention_fp32.h -- common code of attention in fp32, used at every level and for every dtype.
 *
 * Scores are stored transposed, [KEYS][ROWS]. The softmax of a row then runs down a column, for whole vectors of rows at a time, and a
 * tile of probabilities is an operand of the next product without repacking. Tiles start at multiples of KEYS.
 */
#ifndef RP_KERNELS_CPU_ATTENTION_FP32_H
#define RP_KERNELS_CPU_ATTENTION_FP32_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_draw.h"
#include "kernels/cpu/pack.h"
#include "kernels/cpu/tile.h"
#include "kernels/cpu/wide.h"

/* ROWS and KEYS are multiples of every level's sides of tiles and of 32. A column is a number of rows whose scores are processed together. */
enum { ROWS = 192, KEYS = 96, COLUMN = WIDE_COLUMNS };

typedef struct { int64_t from, to; bool whole; } span;      /* range of keys of a tile; whole: each of the rows sees the whole tile */

static inline int64_t padded_dim(const rp_attention *a) { return round_up(a->dim, TILE_COLUMNS); }

/* Gathers the block's rows of q or of a gradient, times `factor`, as [ROWS][width] fp32. */
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

/* Keys key .. key+n of k or v as rows: in place if they are fp32 and dim needs no padding, else packed into `buffer`. *step is the row stride.
 * A last tile of fewer than KEYS keys is packed, too, and padded with zeros, because score() reads whole strips of rows. */
static inline const float *key_rows(const rows_block *r, const rp_attention_part *p, int64_t key, int64_t n, float *buffer, int64_t *step)
{
    int64_t width = padded_dim(r->a), at = key_at(r, p, key);

    *step = width;
    if (p->dtype == RP_F32 && width == r->a->dim && n == KEYS) {
        *step = p->row_step;
        return (const float *)p->data + at;
    }
    pack_rows(p->dtype, p->data, at, p->row_step, n, r->a->dim, width, buffer);
    memset(buffer + n * width, 0, (size_t)((KEYS - n) * width) * sizeof *buffer);
    return buffer;
}

/* Whether all rows of the block see all of the keys key .. key+n. */
static inline bool all_see(const rows_block *r, int64_t key, int64_t n) { return key >= r->all_low && key + n <= r->all_high; }

/* Range of the tile of n keys at `key` that the rows row .. row+count see. */
static inline span rows_span(const rows_block *r, int64_t row, int64_t count, int64_t key, int64_t n)
{
    span s = { n, 0, true };

    if (all_see(r, key, n) && row + count <= r->n) return (span){ 0, n, true };
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

/* Range of rows [from, to) that contains all rows that see any of the keys key .. key+n. */
static inline span keys_span(const rows_block *r, int64_t key, int64_t n)
{
    span s = { r->n, 0, false };

    if (all_see(r, key, n)) return (span){ 0, r->n, false };
    for (int64_t i = 0; i < r->n; i++)
        if (r->low[i] < key + n && r->high[i] > key) {
            s.from = at_most(s.from, i);
            s.to   = i + 1;
        }
    if (s.from >= s.to) s.from = s.to = 0;
    return s;
}

/* Tiles are functions of their own, because in a larger function the compiler keeps some of the sums in memory. */
#define TILE_FUNCTION static __attribute__((noinline))

/* WIDE_ROWS keys by a column of rows: rows of keys, `step` apart, times [dim][ROWS]. */
TILE_FUNCTION void score_tile(int64_t dim, const float *keys, int64_t step, const float *rows, float *to)
{
    tile_of(WIDE_ROWS, WIDE_VECTORS, dim, keys, step, 1, rows, ROWS, to, ROWS, false);
}

/* to += TILE_ROWS rows of a transposed tile times n rows of keys or values, `step` apart. */
TILE_FUNCTION void rows_tile(int64_t n, const float *tile, const float *keys, int64_t step, float *to, int64_t to_step)
{
    tile_multiply(n, tile, 1, ROWS, keys, step, to, to_step, true);
}

/* Computes scores of the COLUMN rows at `column` with the keys of a tile that they see. Keys are rows, `step` apart; rows: [dim][ROWS]. */
static inline void score(const rows_block *r, const float *keys, int64_t step, const float *rows, span seen, int64_t column, float *to)
{
    for (int64_t j = seen.from / WIDE_ROWS * WIDE_ROWS; j < seen.to; j += WIDE_ROWS)
        score_tile(r->a->dim, keys + j * step, step, rows + column, to + j * ROWS + column);
}

/* sums[row][width] += the tile, transposed, times rows of keys or values that the rows see. */
static inline void add_to_rows(const rows_block *r, const float *tile, const float *keys, int64_t step, int64_t key, int64_t n, float *sums)
{
    int64_t width = padded_dim(r->a);

    for (int64_t i = 0; i < r->n; i += TILE_ROWS) {
        span seen = rows_span(r, i, TILE_ROWS, key, n);
        for (int64_t d = 0; d < width && seen.to; d += TILE_COLUMNS)
            rows_tile(seen.to - seen.from, tile + seen.from * ROWS + i, keys + seen.from * step + d, step, sums + i * width + d, width);
    }
}

/* Applies the soft cap to the scores of keys from … to - 1 of the tile. slopes: its derivative 1 - tanh^2, or NULL if not needed. */
static inline void cap_scores(float cap, int64_t from, int64_t to, float *scores, float *slopes)
{
    for (int64_t j = from; j < to; j++)
        for (int64_t i = 0; i < COLUMN; i += WIDE) {
            wide_at *s = (wide_at *)(scores + j * ROWS + i);
            wide slope, t = wide_tanh((wide)*s / cap, &slope);
            *s = cap * t;
            if (slopes) *(wide_at *)(slopes + j * ROWS + i) = slope;
        }
}

static inline void clear_columns(float *tile, int64_t column, int64_t n)
{
    for (int64_t j = 0; j < n; j++) memset(tile + j * ROWS + column, 0, COLUMN * sizeof *tile);
}

/* bits[key / 32][row]: bit key % 32 is 1 if dropout keeps the probability. */
static inline void draw_tile(const rows_block *r, int64_t key, uint32_t *bits)
{
    const rp_attention *a = r->a;
    uint32_t limit        = draw_limit(a->dropout);

    memset(bits, 0, KEYS / 32 * ROWS * sizeof *bits);
    for (int64_t i = 0; i < r->n; i++) draw_bits(&a->stream, r->batch, first_element(r, i) + key, KEYS / 32, limit, bits + i, ROWS);
}

#endif
