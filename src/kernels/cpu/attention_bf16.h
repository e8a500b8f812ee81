/* kernels/cpu/attention_bf16.h -- attention of bf16 by products of tiles (attention_tiles.h), with sums in fp32.
 *
 *   A [16][32]       16 rows, 32 of the depth         a tile is 1 KiB, 16 rows of 64 bytes; all tiles are loaded from and
 *   B [16][16][2]    pairs of the depth, 16 columns   stored to scratch, where they are contiguous
 *   C [16][16]       fp32:  C += A B
 *
 * A matrix M, with rows of the head's dim, is packed into tiles in three layouts. "lines" are its rows as A; the others are made from lines.
 *
 *   lines      A: row, d              transpose_tile(lines)   B: pairs of d, columns are rows of M       M'  as the right operand
 *   pairs      B: pairs of rows, d    pair_lines(lines)                                                  M   as the right operand
 *   columns    A: d, row              transpose_tile(pairs)                                              M'  as the left operand
 *
 * Rows and dim are padded with zeros to multiples of 32. Each thread that works on a pair packs the pair's keys and values once.
 * Compiled for the levels with instructions for bf16 (RP_ATTENTION_BF16).
 */
#ifndef RP_KERNELS_CPU_ATTENTION_BF16_H
#define RP_KERNELS_CPU_ATTENTION_BF16_H

#include "kernels/cpu/attention.h"
#include "kernels/cpu/attention_lanes.h"
#include "kernels/cpu/attention_tiles.h"

/* ---- packing ---- */

static inline int64_t depth_of(const rp_attention *a) { return (a->dim + 31) / 32; }       /* steps of 32 in dim */
static inline int64_t key_steps(const rp_attention *a) { return (a->keys + 31) / 32; }

/* Packs one row into its line of the tiles at `to`, multiplied by `sign`: 1, 0 or -1. */
static inline void pack_line(const uint16_t *from, int64_t dim, int sign, uint16_t *to)
{
    for (int64_t d = 0; d < dim; d += 32, to += TILE) store_halves(to, flip_signs(load_halves(from + d, sign ? dim - d : 0), sign < 0));
}

static inline void zero_line(int64_t depth, uint16_t *to)
{
    for (int64_t s = 0; s < depth; s++) memset(to + s * TILE, 0, 64);
}

/* Turns lines of 32 rows and 32 d, in tiles `top` and `bottom`, into pairs of rows: d 0 … 15 in `to`, 16 … 31 in the tile after it. */
static inline void pair_lines(const uint16_t *top, const uint16_t *bottom, uint16_t *to)
{
    for (int i = 0; i < 16; i++, to += 32) {
        const uint16_t *line = i < 8 ? top + 64 * i : bottom + 64 * (i - 8);
        store_pairs(line, line + 32, to, to + TILE);
    }
}

/* Packs the keys 32 step … 32 step + 31 as lines: two rows of depth tiles. */
static inline void pack_keys32(const rp_attention *a, int64_t pair, const rp_attention_part *p, int64_t step, uint16_t *to)
{
    int64_t depth = depth_of(a), at = pair_at(a, p, pair);

    for (int64_t i = 0; i < 32; i++) {
        uint16_t *line = to + i / 16 * depth * TILE + i % 16 * 32;
        int64_t key    = 32 * step + i;
        if (key < a->keys) pack_line((const uint16_t *)p->data + at + key * p->row_step, a->dim, 1, line);
        else zero_line(depth, line);
    }
}

/* Packs the rows row … row + 31 of a block as lines. */
static inline void pack_rows32(const rows_block *r, const rp_attention_part *p, int64_t row, int sign, uint16_t *to)
{
    int64_t depth = depth_of(r->a);

    for (int64_t i = 0; i < 32; i++) {
        uint16_t *line = to + i / 16 * depth * TILE + i % 16 * 32;
        if (row + i < r->n) pack_line((const uint16_t *)p->data + row_at(r, p, row + i), r->a->dim, sign, line);
        else zero_line(depth, line);
    }
}

/* ---- softmax ---- */

/* Scores are powers of two: score_factor converts a product, and log2(e) is part of it. Queries are packed with the sign of the scale, so that
 * the largest product gives the largest score; if the scale is 0 they are zero. */
static inline int scale_sign(const rp_attention *a) { return (a->scale > 0) - (a->scale < 0); }
static inline float score_size(const rp_attention *a) { return a->scale != 0 ? fabsf(a->scale) : 1.0f; }
/* With a soft cap, scale and cap are applied to the scores first, so only log2(e) remains. */
static inline float score_factor(const rp_attention *a) { return (a->softcap > 0 ? 1.0f : score_size(a)) * 1.44269504f; }

/* tanh(scale * x / softcap) of products x, and its slope; `factor` is cap_factor. */
static inline float cap_factor(const rp_attention *a) { return a->softcap > 0 ? score_size(a) / a->softcap : 0; }
INLINE lanes16 capped_tanh(lanes16 x, lanes16 factor, lanes16 *slope) { return tanh16(mul16(x, factor), slope); }

/* Keys that 32 rows from `row` on see. */
typedef struct { int64_t low, high, all_low, all_high; } rows32;       /* some row sees keys in [low, high); every row sees [all_low, all_high) */

static inline rows32 rows32_of(const rows_block *r, int64_t row)
{
    rows32 s = { r->a->keys, 0, 0, r->a->keys };

    for (int64_t i = row; i < row + 32; i++) {
        s.all_low  = at_least(s.all_low, r->low[i]);
        s.all_high = at_most(s.all_high, r->high[i]);
        if (r->low[i] == r->high[i]) continue;
        s.low  = at_most(s.low, r->low[i]);
        s.high = at_least(s.high, r->high[i]);
    }
    if (s.low >= s.high) s.low = s.high = 0;
    return s;
}

/* ---- results ---- */

/* Writes or adds n <= 16 numbers to a row of out or of a gradient. */
static inline void put_some(const rp_attention_part *p, int64_t at, int64_t n, lanes16 x)
{
    if (p->adds) x = add16(x, load_first(p->dtype, p->data, at, n));
    store_first(p->dtype, p->data, at, n, x);
}

/* Writes a row times `factor`. `from` points to the row in its first tile; each tile of sums holds 16 of dim. */
static inline void put_row(const rp_attention_part *p, int64_t at, int64_t dim, const float *from, float factor)
{
    for (int64_t d = 0; d < dim; d += 16, from += TILE_F)
        put_some(p, at + d, at_most(16, dim - d), mul16(load16(from), all16(factor)));
}

#endif
