/* kernels/cpu/layernorm.c -- LayerNorm over rows: first the mean, then the variance around it. Sums run in lanes of the level's vectors. A row is
 * read several times, from the first-level cache after the first time.
 *
 * dw and db: the rows are divided into parts, each with two sums in scratch, and the sums are added in order.
 */
#include "kernels/cpu/wide.h"

enum { PARTS_A_THREAD = 2 };

typedef struct {
    rp_dtype dtype, dx_dtype, dw_dtype, db_dtype;
    const void *x, *w, *b, *dy;
    void *y, *dx, *dw, *db;
    float *mean, *rstd;
    int64_t rows, n;
    float eps;
    bool dx_adds, dw_adds, db_adds;
    float *sums;                /* [parts, dw and db, stride] */
    int64_t parts, stride;
} norm;

/* ---- forward ---- */

static float row_mean(const norm *c, int64_t at)
{
    const norm o = *c;
    wide sum     = { 0 };

    for (int64_t i = 0; i < o.n; i += WIDE) {
        wide_prefetch(o.dtype, o.x, at + i);
        sum += wide_load(o.dtype, o.x, at + i, wide_width(i, o.n));
    }
    return wide_sum(sum) / (float)o.n;
}

static float row_rstd(const norm *c, int64_t at, float mean)
{
    const norm o = *c;
    wide sum     = { 0 };

    for (int64_t i = 0; i < o.n; i += WIDE) {
        int64_t m = wide_width(i, o.n);
        wide away = wide_inside(wide_load(o.dtype, o.x, at + i, m) - mean, m);
        sum += away * away;
    }
    return 1.0f / sqrtf(wide_sum(sum) / (float)o.n + o.eps);
}

static void forward_row(const norm *c, int64_t r)
{
    const norm o = *c;
    int64_t n    = o.n, at = r * n;
    float mean   = row_mean(c, at), s = row_rstd(c, at, mean);

    if (o.mean) o.mean[r] = mean;
    if (o.rstd) o.rstd[r] = s;
    for (int64_t i = 0; i < n; i += WIDE) {
        int64_t m = wide_width(i, n);
        wide y    = (wide_load(o.dtype, o.x, at + i, m) - mean) * s * wide_load(o.dtype, o.w, i, m) + wide_load(o.dtype, o.b, i, m);
        wide_prefetch(o.dtype, o.y, at + i);
        wide_store(o.dtype, o.y, at + i, m, y);
    }
}

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    for (int64_t r = from; r < to; r++) forward_row(arg, r);
}

void RP_AT_LEVEL(layernorm_forward)(rp_dtype dtype, const void *x, const void *w, const void *b, void *y, float *mean, float *rstd,
                                    int64_t rows, int64_t n, float eps, const rp_on *on)
{
    norm c = { .dtype = dtype, .x = x, .w = w, .b = b, .y = y, .mean = mean, .rstd = rstd, .n = n, .eps = eps };

    rp__team_ranges(on->threads, rows, 1, rows * n * 2 * width_of(dtype), forward_rows, &c);
}

/* ---- backward ---- */

/* Means over a row that dx needs: of dy w, and of dy w times the normalised x. */
typedef struct { float plain, normal; } means;

static means row_means(const norm *c, int64_t r)
{
    const norm o = *c;
    int64_t at   = r * o.n;
    float mean   = o.mean[r], rstd = o.rstd[r];
    wide a = { 0 }, b = { 0 };

    for (int64_t i = 0; i < o.n; i += WIDE) {
        int64_t m = wide_width(i, o.n);
        wide gw   = wide_load(o.dtype, o.dy, at + i, m) * wide_load(o.dtype, o.w, i, m);
        wide_prefetch(o.dtype, o.dy, at + i);
        wide_prefetch(o.dtype, o.x, at + i);
        a += gw;
        b += gw * (wide_load(o.dtype, o.x, at + i, m) - mean) * rstd;
    }
    return (means){ wide_sum(a) / (float)o.n, wide_sum(b) / (float)o.n };
}

/* Computes dx of the row and adds its share to dw and db. */
static void backward_row(const norm *c, int64_t r, float *dw, float *db)
{
    const norm o    = *c;
    int64_t n       = o.n, at = r * n;
    float mean      = o.mean[r], rstd = o.rstd[r];
    means over      = row_means(c, r);

    for (int64_t i = 0; i < n; i += WIDE) {
        int64_t m   = wide_width(i, n);
        wide normal = (wide_load(o.dtype, o.x, at + i, m) - mean) * rstd, g = wide_load(o.dtype, o.dy, at + i, m);
        *(wide_at *)(dw + i) += g * normal;
        *(wide_at *)(db + i) += g;
        if (!o.dx) continue;
        wide_prefetch(o.dx_dtype, o.dx, at + i);
        wide_add(o.dx_dtype, o.dx, at + i, m, rstd * (g * wide_load(o.dtype, o.w, i, m) - over.plain - normal * over.normal), o.dx_adds);
    }
}

static void backward_part(void *arg, int64_t part, int thread)
{
    const norm *c = arg;
    float *dw = c->sums + part * 2 * c->stride, *db = dw + c->stride;
    int64_t to = rp__part_from(c->rows, 1, c->parts, part + 1);

    (void)thread;
    memset(dw, 0, (size_t)(2 * c->stride) * sizeof *dw);
    for (int64_t r = rp__part_from(c->rows, 1, c->parts, part); r < to; r++) backward_row(c, r, dw, db);
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

/* Room for dw and db of each part. */
void RP_AT_LEVEL(layernorm_backward_scratch)(int64_t n, int64_t *bytes, const rp_on *on)
{
    *bytes = 2 * PARTS_A_THREAD * rp__align_up(n * (int64_t)sizeof(float)) * on->threads;
}

void RP_AT_LEVEL(layernorm_backward)(rp_dtype dtype, const void *x, const void *w, const float *mean, const float *rstd, const void *dy,
                                     void *dx, rp_dtype dx_dtype, bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, void *db,
                                     rp_dtype db_dtype, bool db_adds, int64_t rows, int64_t n, void *scratch, const rp_on *on)
{
    norm c = { .dtype = dtype, .dx_dtype = dx_dtype, .dw_dtype = dw_dtype, .db_dtype = db_dtype, .x = x, .w = w, .dy = dy, .dx = dx,
               .dw = dw, .db = db, .mean = (float *)mean, .rstd = (float *)rstd, .rows = rows, .n = n, .dx_adds = dx_adds,
               .dw_adds = dw_adds, .db_adds = db_adds, .sums = scratch, .parts = PARTS_A_THREAD * on->threads,
               .stride = (n + 15) / 16 * 16 };

    rp__team_run(rows * n * 3 * width_of(dtype) < RP_TEAM_BYTES ? 1 : on->threads, c.parts, backward_part, &c);
    if (dw || db) rp__team_ranges(on->threads, n, 64, c.parts * n * 8, add_sums, &c);
}
