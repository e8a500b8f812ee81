/* kernels/gpu/attention_tiles.h -- tiles of attention on tensor cores: bf16 in shared memory, 4 warps a block, 16 rows a warp at a time. */
#ifndef RP_GPU_ATTENTION_TILES_H
#define RP_GPU_ATTENTION_TILES_H

#include "kernels/gpu/attention_rows.h"
#include "kernels/gpu/elements.h"

#define TILE_THREADS 128
#define MOST_WIDTH 256          /* of a head */
#define MOST_HIGH 2             /* times 16 rows of a warp */

/* Element of a row and a piece of eight columns, in a tile `width` wide. The pieces are permuted so that eight rows read at one piece use all banks. */
FN int tile_at(int width, int row, int piece) { return row * width + (piece ^ (row & 7)) * 8; }

/* Begins to copy `rows` rows from `first` on. Rows from `end` on and columns from `dim` on become 0. */
FN void copy_tile(bf16 *to, int rows, int width, const bf16 *from, i64 step, int first, int end, int dim)
{
    int row = TID / (width / 8), piece = TID % (width / 8), down = TILE_THREADS / (width / 8), left = piece * 8 < dim ? end - first - row : 0;
    const bf16 *at = from + (first + row) * step + piece * 8;

    UNROLL for (int i = 0; i < rows / down; i++) {
        copy16(to + tile_at(width, row + i * down, piece), i * down < left ? at + i * down * step : from, i * down < left ? 16 : 0);
    }
}

/* A lane's element of 16 rows and 16 columns of a tile, as ldmatrix reads them. Rows are the sums' direction in _down, columns in _across. Column c
 * (a multiple of 16) of these rows is at place ^ c. */
FN int place_down(int width) { return tile_at(width, LANE % 16, LANE / 16); }
FN int place_across(int width) { return tile_at(width, LANE % 8 + LANE / 16 * 8, LANE / 8 % 2); }

/* 2^x for x <= 2, or 0 below 2^-126: relative error 4e-6. Not finite for a NaN. */
FN float exp2_short(float x)
{
    float shifted = x + 12582912.0f, f = x - (shifted - 12582912.0f), p = 0.00978291253f;

    p = FMA(p, f, 0.0559768836f);
    p = FMA(p, f, 0.240207111f);
    p = FMA(p, f, 0.693113604f);
    p = FMA(p, f, 1.0f);
    return x < -126.0f ? 0.0f : FLOAT(BITS(p) + (BITS(shifted) << 23));
}

/* tanh without branches: absolute error 3e-7. With u = exp(-2 |x|) it is (1 - u) / (1 + u); the quotient is by Newton's method. */
FN float tanh_short(float x)
{
    float y = MAX(ABS(x) * -2.88539008f, -60.0f), shifted = y + 12582912.0f, f = y - (shifted - 12582912.0f), p = 0.000154732344f, u, d, r;

    p = FMA(p, f, 0.00134004366f);
    p = FMA(p, f, 0.00961801541f);
    p = FMA(p, f, 0.0555032723f);
    p = FMA(p, f, 0.240226512f);
    p = FMA(p, f, 0.693147207f);
    u = FLOAT(BITS(FMA(p, f, 1.0f)) + (BITS(shifted) << 23));
    d = 1.0f + u;
    r = FMA(d, -0.470588235f, 1.41176471f);
    UNROLL for (int i = 0; i < 3; i++) r = FMA(r, FMA(-d, r, 1.0f), r);
    return is_nan(x) ? x : with_sign((1.0f - u) * r, x);
}

#endif
