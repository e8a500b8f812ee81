/* kernels/cpu/magnitude.c -- computes norms of the rows of a weight plus its adapter, and scales columns by magnitude / norm. fp32 inside.
 *
 *   w [out, in]     a thread owns rows and computes their norms             wide: a
 *   w [in, out]     a thread owns columns and adds the rows in order        wide: b transposed
 *
 * In both cases a stored row of w gets, for each rank, one number of one half of the adapter times a row of `wide`. */
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/quant.h"

typedef struct {
    rp_dtype dtype;
    const rp_quant_type *quant; /* of w; NULL: w has dtype */
    const void *w, *by;         /* `by` is [rows, r], or [r, rows] if in_out */
    const float *wide;          /* [r, columns], scaled */
    bool in_out;
    void *norm;
    int64_t rows, columns, rank;
} norms;

/* Loads elements of w. Not inlined: then one compiled loop sums loaded rows, however w is stored, and rounds in one order. */
static __attribute__((noinline)) void load_row(const norms *c, int64_t at, int64_t width, float *v)
{
    if (c->quant) quant_rounded(c->dtype, c->quant, c->w, at, width, v);
    else if (c->dtype == RP_F32) memcpy(v, (const float *)c->w + at, (size_t)width * sizeof *v);
    else row_f32(RP_BF16, c->w, at, width, v);
}

/* Adds the adapter to columns [at, at + width) of row r of w. */
INLINE void add_adapter(rp_dtype dtype, const norms *c, int64_t r, int64_t at, int64_t width, float *v)
{
    for (int64_t k = 0; k < c->rank; k++) {
        float by          = f32_at(dtype, c->by, c->in_out ? k * c->rows + r : r * c->rank + k);
        const float *wide = c->wide + k * c->columns + at;
#pragma omp simd
        for (int64_t j = 0; j < width; j++) v[j] += by * wide[j];
    }
}

/* Columns [at, at + width) of row r of w, plus the adapter. */
INLINE void row_block(rp_dtype dtype, const norms *c, int64_t r, int64_t at, int64_t width, float *v)
{
    load_row(c, r * c->columns + at, width, v);
    add_adapter(dtype, c, r, at, width, v);
}

INLINE void row_norms(rp_dtype dtype, const norms *c, int64_t from, int64_t to)
{
    float v[BLOCK];

    for (int64_t r = from; r < to; r++) {
        float total = 0;
        for (int64_t at = 0; at < c->columns; at += BLOCK) {
            int64_t width = block_width(at, c->columns);
            float sum     = 0;
            row_block(dtype, c, r, at, width, v);
#pragma omp simd reduction(+ : sum)
            for (int64_t j = 0; j < width; j++) sum += v[j] * v[j];
            total += sum;
        }
        put_at(dtype, c->norm, r, sqrtf(total));
    }
}

INLINE void column_norms(rp_dtype dtype, const norms *c, int64_t from, int64_t to)
{
    float v[BLOCK], total[BLOCK];

    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t width = block_width(at, to);
        memset(total, 0, sizeof total);
        for (int64_t r = 0; r < c->rows; r++) {
            row_block(dtype, c, r, at, width, v);
#pragma omp simd
            for (int64_t j = 0; j < width; j++) total[j] += v[j] * v[j];
        }
        for (int64_t j = 0; j < width; j++) put_at(dtype, c->norm, at + j, sqrtf(total[j]));
    }
}

/* The same sums for a quantised w, which is [out, in]: runs of some of its rows are turned. */
static void quant_column_norms(const norms *c, int64_t from, int64_t to)
{
    enum { SIDE = 32 };
    float turned[SIDE * QUANT_RUN], v[SIDE], total[SIDE];

    for (int64_t at = from; at < to; at += SIDE) {
        int64_t width = to - at < SIDE ? to - at : SIDE;
        memset(total, 0, sizeof total);
        for (int64_t run, first = 0; first < c->rows; first += run) {
            run = c->rows - first < QUANT_RUN ? c->rows - first : QUANT_RUN;
            for (int64_t j = 0; j < width; j++) quant_rounded(c->dtype, c->quant, c->w, (at + j) * c->rows + first, run, turned + j * QUANT_RUN);
            for (int64_t r = 0; r < run; r++) {
                for (int64_t j = 0; j < width; j++) v[j] = turned[j * QUANT_RUN + r];
                add_adapter(c->dtype, c, first + r, at, width, v);
#pragma omp simd
                for (int64_t j = 0; j < width; j++) total[j] += v[j] * v[j];
            }
        }
        for (int64_t j = 0; j < width; j++) put_at(c->dtype, c->norm, at + j, sqrtf(total[j]));
    }
}

static void norm_range(const void *arg, int64_t from, int64_t to)
{
    const norms *c = arg;

    if (c->in_out && c->quant) quant_column_norms(c, from, to);
    else if (c->in_out && c->dtype == RP_BF16) column_norms(RP_BF16, c, from, to);
    else if (c->in_out) column_norms(RP_F32, c, from, to);
    else if (c->dtype == RP_BF16) row_norms(RP_BF16, c, from, to);
    else row_norms(RP_F32, c, from, to);
}

/* Room for the half of the adapter that runs along w's rows. */
void RP_AT_LEVEL(weight_norm_scratch)(bool in_out, int64_t out, int64_t in, int64_t rank, int64_t *bytes, const rp_on *on)
{
    (void)on;
    *bytes = rank * (in_out ? out : in) * (int64_t)sizeof(float);
}

void RP_AT_LEVEL(weight_norm)(rp_dtype dtype, rp_dtype w_dtype, const void *w, const void *a, const void *b, float factor, bool in_out, void *norm,
                              int64_t out, int64_t in, int64_t rank, float *scratch, const rp_on *on)
{
    int64_t columns = in_out ? out : in, rows = in_out ? in : out;
    norms c         = { dtype, rp__quant_type(w_dtype), w, in_out ? a : b, scratch, in_out, norm, rows, columns, rank };

    for (int64_t k = 0; k < rank; k++)
        for (int64_t j = 0; j < columns; j++)
            scratch[k * columns + j] = factor * (in_out ? f32_at(dtype, b, j * rank + k) : f32_at(dtype, a, k * columns + j));
    rp__team_ranges(on->threads, out, in_out ? 64 : 1, rows * columns * (rank + width_of(dtype)), norm_range, &c);
}

/* ---- x * m / n + b ---- */

typedef struct {
    rp_dtype dtype, dx_dtype, dm_dtype;
    const void *x, *m, *n, *b, *dy;
    void *y, *dx, *dm;
    bool dx_adds, dm_adds;
    int64_t rows, k;
} turned;

/* to = of / n, with 1 if `of` is NULL; 0 if n is 0. */
static void over_norm(const turned *c, const void *of, int64_t at, int64_t width, float *to)
{
    for (int64_t j = 0; j < width; j++) {
        float n = f32_at(c->dtype, c->n, at + j);
        to[j]   = n != 0 ? (of ? f32_at(c->dtype, of, at + j) : 1.0f) / n : 0;
    }
}

static void forward_columns(const void *arg, int64_t from, int64_t to)
{
    const turned *c = arg;
    float by[BLOCK], bias[BLOCK] = { 0 }, xbuf[BLOCK], y[BLOCK];

    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t width = block_width(at, to);
        over_norm(c, c->m, at, width, by);
        for (int64_t j = 0; j < width && c->b; j++) bias[j] = f32_at(c->dtype, c->b, at + j);
        for (int64_t r = 0; r < c->rows; r++) {
            const float *x = row_f32(c->dtype, c->x, r * c->k + at, width, xbuf);
#pragma omp simd
            for (int64_t j = 0; j < width; j++) y[j] = x[j] * by[j] + bias[j];
            row_store(c->dtype, c->y, r * c->k + at, width, y);
        }
    }
}

void RP_AT_LEVEL(magnitude_forward)(rp_dtype dtype, const void *x, const void *m, const void *n, const void *b, void *y, int64_t rows, int64_t k,
                                    const rp_on *on)
{
    turned c = { .dtype = dtype, .x = x, .m = m, .n = n, .b = b, .y = y, .rows = rows, .k = k };

    rp__team_ranges(on->threads, k, 64, 2 * rows * k * width_of(dtype), forward_columns, &c);
}

static void backward_columns(const void *arg, int64_t from, int64_t to)
{
    const turned *c = arg;
    float by[BLOCK], one[BLOCK], total[BLOCK], xbuf[BLOCK], gbuf[BLOCK], d[BLOCK];

    for (int64_t at = from; at < to; at += BLOCK) {
        int64_t width = block_width(at, to);
        if (c->dx) over_norm(c, c->m, at, width, by);
        over_norm(c, NULL, at, width, one);
        memset(total, 0, sizeof total);
        for (int64_t r = 0; r < c->rows; r++) {
            const float *g = row_f32(c->dtype, c->dy, r * c->k + at, width, gbuf);
            const float *x = c->dm ? row_f32(c->dtype, c->x, r * c->k + at, width, xbuf) : NULL;
            for (int64_t j = 0; j < width && x; j++) total[j] += g[j] * x[j];
            if (!c->dx) continue;
            for (int64_t j = 0; j < width; j++) d[j] = g[j] * by[j];
            row_store_add(c->dx_dtype, c->dx, r * c->k + at, width, d, c->dx_adds);
        }
        for (int64_t j = 0; j < width; j++) total[j] *= one[j];
        if (c->dm) row_store_add(c->dm_dtype, c->dm, at, width, total, c->dm_adds);
    }
}

void RP_AT_LEVEL(magnitude_backward)(rp_dtype dtype, const void *x, const void *m, const void *n, const void *dy, void *dx, rp_dtype dx_dtype,
                                     bool dx_adds, void *dm, rp_dtype dm_dtype, bool dm_adds, int64_t rows, int64_t k, const rp_on *on)
{
    turned c = { .dtype = dtype, .dx_dtype = dx_dtype, .dm_dtype = dm_dtype, .x = x, .m = m, .n = n, .dy = dy, .dx = dx, .dm = dm,
                 .dx_adds = dx_adds, .dm_adds = dm_adds, .rows = rows, .k = k };

    rp__team_ranges(on->threads, k, 64, 3 * rows * k * width_of(dtype), backward_columns, &c);
}
