/* kernels/gpu/attention_plain.h -- tiles of attention without tensor cores: 64 x 64 scores by 256 threads, 4 x 4 each, in chains of FMA. */
#ifndef RP_GPU_ATTENTION_PLAIN_H
#define RP_GPU_ATTENTION_PLAIN_H

#include "kernels/gpu/attention_rows.h"

#define PLAIN_THREADS 256

/* own, stream: 16 columns of both operands. tile: probabilities or gradients of scores, [of the stream][own]. */
typedef struct {
    ALIGN(16) float own[16][68];
    ALIGN(16) float stream[16][68];
    ALIGN(16) float tile[64][68];
    int low[64], high[64];
} plain_shared;

/* Rows first … of a head; those from `end` on are 0. */
typedef struct { u64 address; i64 at, step; int dtype, first, end; } plain_rows;

FN plain_rows plain_rows_of(int dtype, attention_part p, i64 at, int first, int end)
{
    plain_rows r;

    r.address = p.address;
    r.at      = at;
    r.step    = row_step(p);
    r.dtype   = dtype;
    r.first   = first;
    r.end     = end;
    return r;
}

FN float plain_value(plain_rows r, int row, int column, int dim)
{
    return r.first + row < r.end && column < dim ? load(r.dtype, r.address, r.at + (r.first + row) * r.step + column) : 0.0f;
}

/* s[i][j]: the product of row TID / 16 * 4 + i of `own` and row TID % 16 * 4 + j of `stream`. Ends with a barrier. */
FN void plain_scores(float (*s)[4], plain_shared *to, int dim, plain_rows own, plain_rows stream)
{
    int down = TID / 16 * 4, right = TID % 16 * 4;

    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++) s[i][j] = 0.0f;
    ROLLED for (int c = 0; c < dim; c += 16) {
        UNROLL for (int e = 0; e < 4; e++) {
            int row = TID / 16 + e * 16, column = TID % 16;
            to->own[column][row]    = plain_value(own, row, c + column, dim);
            to->stream[column][row] = plain_value(stream, row, c + column, dim);
        }
        BARRIER();
        UNROLL_4 for (int d = 0; d < 16; d++)
            UNROLL for (int i = 0; i < 4; i++)
                UNROLL for (int j = 0; j < 4; j++) s[i][j] = FMA(to->own[d][down + i], to->stream[d][right + j], s[i][j]);
        BARRIER();
    }
}

/* Turns products of queries and keys into scores; `outer` is the cap. A function of many instructions is there once, since its arguments are in
 * shared memory: each thread uses places of its own in the tile. */
FN void plain_cap(const attention_args *a, float (*s)[4], float (*tile)[68])
{
    int down = TID / 16 * 4, right = TID % 16 * 4;

    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++) s[i][j] *= a->capped ? a->inner : a->scale;
    if (!a->capped) return;
    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++) tile[right + j][down + i] = s[i][j];
    ROLLED for (int e = 0; e < 16; e++) {
        float *at = &tile[right + e / 4][down + e % 4];
        *at = a->outer * tanh_(*at);
    }
    UNROLL for (int i = 0; i < 4; i++)
        UNROLL for (int j = 0; j < 4; j++) s[i][j] = tile[right + j][down + i];
}

/* Dropout's bits of 4 x 4 probabilities: bit 4 * i + j for row i from `head`'s `query` on and key j. A row that does not exist has any bits. */
FN u32 plain_kept(const attention_args *a, int batch, int head, int query, int key)
{
    u32 bits = 0;

    if (!a->limit) return 0xffffu;
    ROLLED for (int i = 0; i < 4; i++) bits |= (draw_kept(a, batch, element_of(a, head, query + i, key), 4) & 15u) << 4 * i;
    return bits;
}

/* The column of sum j of a thread, from the block's first column on. */
FN int plain_column(int right, int j) { return j / 4 * 64 + right + j % 4; }

/* sum[i][j] += the product of row TID / 16 * 4 + i of the tile and a column of `stream`, over its 64 rows. `values`: 16 * across floats of shared memory.
 * Begins by waiting for the tile, and ends with a barrier. */
FN void plain_add(float (*sum)[8], float (*tile)[68], float *values, int across, plain_rows stream, int first_column, int dim)
{
    int down = TID / 16 * 4, right = TID % 16 * 4;

    ROLLED for (int r = 0; r < 64; r += 16) {
        UNROLL for (int e = 0; e < 16 * across / PLAIN_THREADS; e++) {
            int place = TID + e * PLAIN_THREADS;
            values[place] = plain_value(stream, r + place / across, first_column + place % across, dim);
        }
        BARRIER();
        UNROLL_4 for (int k = 0; k < 16; k++)
            UNROLL for (int i = 0; i < 4; i++)
                UNROLL for (int j = 0; j < across / 16; j++)
                    sum[i][j] = FMA(tile[r + k][down + i], values[k * across + plain_column(right, j)], sum[i][j]);
        BARRIER();
    }
}

/* Writes sums through the tile, so that the code for the end exists once, and neighbours write neighbours. Begins with a barrier. */
FN void plain_put(target t, float (*sum)[8], float scale, float (*tile)[68], int across, int first_column)
{
    UNROLL for (int half = 0; half < across / 64; half++) {
        BARRIER();
        UNROLL for (int i = 0; i < 4; i++)
            UNROLL for (int j = 0; j < 4; j++) tile[TID / 16 * 4 + i][TID % 16 * 4 + j] = sum[i][half * 4 + j] * scale;
        BARRIER();
        ROLLED for (int e = TID; e < 64 * 64; e += PLAIN_THREADS) {
            int row = t.first + e / 64, column = first_column + half * 64 + e % 64;
            if (row < t.end && column < t.dim) put_one(t.to.address, t.dtype, t.adds, t.at + row * row_step(t.to) + column, tile[e / 64][e % 64]);
        }
    }
}

#endif
