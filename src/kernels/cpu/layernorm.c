/* kernels/cpu/layernorm.c -- LayerNorm over rows, mean first and then the spread around it. Sums run in lanes of the level's vectors; a row is
 * read again from the first cache.
 *
 * dw and db: the rows are cut into a part of scratch each, two sums of its own each, and the sums are added in order.
 */
#include "kernels/cpu/cpu.h"

enum { PARTS_A_THREAD = 2 };

typedef struct {
    rp_dtype dtype, dx_dtype, dw_dtype, db_dtype;
    const void *x, *w, *b, *dy;
    void *y, *dx, *dw, *db;
    float *mean, *rstd;
    int64_t rows, n;
    float eps;
    bool dx_adds, dw_adds, db_adds;
    float *sums;                /* [parts, dw and db, stride], then a row for each thread */
    int64_t parts, stride;
} norm;

/* ---- forward ---- */

INLINE float row_mean(rp_dtype dtype, const void *x, int64_t at, int64_t n)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += f32_at(dtype, x, at + i);
    return sum / (float)n;
}

INLINE float row_rstd(rp_dtype dtype, const void *x, int64_t at, int64_t n, float mean, float eps)
{
    float sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += (f32_at(dtype, x, at + i) - mean) * (f32_at(dtype, x, at + i) - mean);
    return 1.0f / sqrtf(sum / (float)n + eps);
}

INLINE void forward_row(rp_dtype dtype, const norm *c, int64_t r)
{
    int64_t n     = c->n, at = r * n;
    const void *x = c->x, *w = c->w, *b = c->b;
    void *y       = c->y;
    float m = row_mean(dtype, x, at, n), s = row_rstd(dtype, x, at, n, m, c->eps);

    if (c->mean) c->mean[r] = m;
    if (c->rstd) c->rstd[r] = s;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        put_at(dtype, y, at + i, (f32_at(dtype, x, at + i) - m) * s * f32_at(dtype, w, i) + f32_at(dtype, b, i));
}

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    const norm *c = arg;

    if (c->dtype == RP_BF16)
        for (int64_t r = from; r < to; r++) forward_row(RP_BF16, c, r);
    else
        for (int64_t r = from; r < to; r++) forward_row(RP_F32, c, r);
}

void RP_AT_LEVEL(layernorm_forward)(rp_dtype dtype, const void *x, const void *w, const void *b, void *y, float *mean, float *rstd,
                                    int64_t rows, int64_t n, float eps, int threads)
{
    norm c = { .dtype = dtype, .x = x, .w = w, .b = b, .y = y, .mean = mean, .rstd = rstd, .n = n, .eps = eps };

    rp__team_ranges(threads, rows, 1, rows * n * 2 * width_of(dtype), forward_rows, &c);
}

/* ---- backward ---- */

/* One row's part of dw and db; d = dx of the row. */
INLINE void backward_row(rp_dtype dtype, const norm *c, int64_t r, float *restrict d, float *restrict dw, float *restrict db)
{
    int64_t n     = c->n, at = r * n;
    const void *x = c->x, *w = c->w, *dy = c->dy;
    float mean = c->mean[r], rstd = c->rstd[r], a = 0, b = 0;

#pragma omp simd reduction(+ : a, b)
    for (int64_t i = 0; i < n; i++) {
        float gw = f32_at(dtype, dy, at + i) * f32_at(dtype, w, i);
        a += gw;
        b += gw * (f32_at(dtype, x, at + i) - mean) * rstd;
    }
    a /= (float)n;
    b /= (float)n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float normal = (f32_at(dtype, x, at + i) - mean) * rstd, g = f32_at(dtype, dy, at + i);
        dw[i] += g * normal;
        db[i] += g;
        d[i] = rstd * (g * f32_at(dtype, w, i) - a - normal * b);
    }
}

static void backward_part(void *arg, int64_t part, int thread)
{
    const norm *c = arg;
    float *dw = c->sums + part * 2 * c->stride, *db = dw + c->stride, *d = c->sums + (c->parts * 2 + thread) * c->stride;
    int64_t to = rp__part_from(c->rows, 1, c->parts, part + 1);

    memset(dw, 0, (size_t)(2 * c->stride) * sizeof *dw);
    for (int64_t r = rp__part_from(c->rows, 1, c->parts, part); r < to; r++) {
        if (c->dtype == RP_BF16) backward_row(RP_BF16, c, r, d, dw, db);
        else backward_row(RP_F32, c, r, d, dw, db);
        if (c->dx) row_store_add(c->dx_dtype, c->dx, r * c->n, c->n, d, c->dx_adds);
    }
}

static void add_sums(const void *arg, int64_t from, int64_t to)
{
    const norm *c = arg;
    float *dw = c->sums, *db = dw + c->stride;

    for (int64_t part = 1; part < c->parts; part++) {
        const float *more = dw + part * 2 * c->stride, *more_b = more + c->stride;
#pragma omp simd
        for (int64_t i = from; i < to; i++) {
            dw[i] += more[i];
            db[i] += more_b[i];
        }
    }
    if (c->dw) row_store_add(c->dw_dtype, c->dw, from, to - from, dw + from, c->dw_adds);
    if (c->db) row_store_add(c->db_dtype, c->db, from, to - from, db + from, c->db_adds);
}

void RP_AT_LEVEL(layernorm_backward)(rp_dtype dtype, const void *x, const void *w, const float *mean, const float *rstd, const void *dy,
                                     void *dx, rp_dtype dx_dtype, bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, void *db,
                                     rp_dtype db_dtype, bool db_adds, int64_t rows, int64_t n, void *scratch, int threads)
{
    norm c = { .dtype = dtype, .dx_dtype = dx_dtype, .dw_dtype = dw_dtype, .db_dtype = db_dtype, .x = x, .w = w, .dy = dy, .dx = dx,
               .dw = dw, .db = db, .mean = (float *)mean, .rstd = (float *)rstd, .rows = rows, .n = n, .dx_adds = dx_adds,
               .dw_adds = dw_adds, .db_adds = db_adds, .sums = scratch, .parts = PARTS_A_THREAD * (int64_t)threads,
               .stride = (n + 15) / 16 * 16 };

    rp__team_run(rows * n * 3 * width_of(dtype) < RP_TEAM_BYTES ? 1 : threads, c.parts, backward_part, &c);
    if (dw || db) rp__team_ranges(threads, n, 64, c.parts * n * 8, add_sums, &c);
}
