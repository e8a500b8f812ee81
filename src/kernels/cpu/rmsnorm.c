/* kernels/cpu/rmsnorm.c -- RMSNorm over rows. Sums run in lanes of the level's vectors, in the same order in every call. A row is read twice, the
 * second time from the first-level cache.
 *
 * dw: the rows are divided into parts, each with a sum in scratch, and the sums are added in order.
 */
#include "kernels/cpu/wide.h"

enum { SUMS_A_THREAD = 4 };

typedef struct {
    rp_dtype dtype, dw_dtype;
    const void *x, *w, *dy;
    void *to;                   /* y or dx */
    float *rstd;
    int64_t rows, n;
    float eps, plus;            /* plus is added to each element of w */
    bool dx_adds, dw_adds;
    void *dw;
    float *sums;                /* [parts, stride] */
    int64_t parts, stride;
} norm;

INLINE wide weights(const norm *c, int64_t i, int64_t m) { return wide_load(c->dtype, c->w, i, m) + c->plus; }

/* ---- forward ---- */

static void forward_row(const norm *c, int64_t r)
{
    const norm o = *c;
    int64_t n    = o.n, at = r * n;
    wide sum     = { 0 };

    for (int64_t i = 0; i < n; i += WIDE) {
        wide x = wide_load(o.dtype, o.x, at + i, wide_width(i, n));
        wide_prefetch(o.dtype, o.x, at + i);
        sum += x * x;
    }
    float s = 1.0f / sqrtf(wide_sum(sum) / (float)n + o.eps);
    if (o.rstd) o.rstd[r] = s;
    for (int64_t i = 0; i < n; i += WIDE) {
        int64_t m = wide_width(i, n);
        wide_prefetch(o.dtype, o.to, at + i);
        wide_store(o.dtype, o.to, at + i, m, wide_load(o.dtype, o.x, at + i, m) * s * weights(&o, i, m));
    }
}

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    for (int64_t r = from; r < to; r++) forward_row(arg, r);
}

void RP_AT_LEVEL(rmsnorm_forward)(rp_dtype dtype, const void *x, const void *w, float plus, void *y, float *rstd, int64_t rows, int64_t n,
                                  float eps, const rp_on *on)
{
    norm c = { .dtype = dtype, .x = x, .w = w, .to = y, .rstd = rstd, .n = n, .eps = eps, .plus = plus };

    rp__team_ranges(on->threads, rows, 1, rows * n * 2 * width_of(dtype), forward_rows, &c);
}

/* ---- backward ---- */

static float row_dot(const norm *c, int64_t at)
{
    const norm o = *c;
    wide sum     = { 0 };

    for (int64_t i = 0; i < o.n; i += WIDE) {
        int64_t m = wide_width(i, o.n);
        wide_prefetch(o.dtype, o.x, at + i);
        wide_prefetch(o.dtype, o.dy, at + i);
        sum += wide_load(o.dtype, o.dy, at + i, m) * weights(&o, i, m) * wide_load(o.dtype, o.x, at + i, m);
    }
    return wide_sum(sum);
}

/* Computes dx of the row and adds its share to dw. */
static void backward_row(const norm *c, int64_t r, float *dw)
{
    const norm o = *c;
    int64_t n    = o.n, at = r * n;
    float s      = o.rstd[r], k = o.to ? s * s * row_dot(c, at) / (float)n : 0;

    for (int64_t i = 0; i < n; i += WIDE) {
        int64_t m = wide_width(i, n);
        wide x = wide_load(o.dtype, o.x, at + i, m), g = wide_load(o.dtype, o.dy, at + i, m);
        *(wide_at *)(dw + i) += g * x * s;
        if (!o.to) continue;
        wide_prefetch(o.dtype, o.to, at + i);
        wide_add(o.dtype, o.to, at + i, m, s * (g * weights(&o, i, m) - x * k), o.dx_adds);
    }
}

static void backward_part(void *arg, int64_t part, int thread)
{
    const norm *c = arg;
    int64_t from = rp__part_from(c->rows, 1, c->parts, part), to = rp__part_from(c->rows, 1, c->parts, part + 1);
    float *dw = c->sums + part * c->stride;

    (void)thread;
    memset(dw, 0, (size_t)c->stride * sizeof *dw);
    for (int64_t r = from; r < to; r++) backward_row(c, r, dw);
}

static void add_sums(const void *arg, int64_t from, int64_t to)
{
    const norm *c = arg;
    float *sums   = c->sums;

    for (int64_t part = 1; part < c->parts; part++) {
        const float *more = sums + part * c->stride;
#pragma omp simd
        for (int64_t i = from; i < to; i++) sums[i] += more[i];
    }
    row_store_add(c->dw_dtype, c->dw, from, to - from, c->sums + from, c->dw_adds);
}

/* Room for dw of each part. */
void RP_AT_LEVEL(rmsnorm_backward_scratch)(int64_t n, int64_t *bytes, const rp_on *on)
{
    *bytes = SUMS_A_THREAD * rp__align_up(n * (int64_t)sizeof(float)) * on->threads;
}

void RP_AT_LEVEL(rmsnorm_backward)(rp_dtype dtype, const void *x, const void *w, float plus, const float *rstd, const void *dy,
                                   void *dx, bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, int64_t rows, int64_t n, void *scratch,
                                   const rp_on *on)
{
    norm c = { .dtype = dtype, .dw_dtype = dw_dtype, .x = x, .w = w, .dy = dy, .to = dx, .rstd = (float *)rstd, .rows = rows, .n = n,
               .plus = plus, .dx_adds = dx_adds, .dw_adds = dw_adds, .dw = dw, .sums = scratch, .parts = SUMS_A_THREAD * on->threads,
               .stride = (n + 15) / 16 * 16 };

    rp__team_run(rows * n * 3 * width_of(dtype) < RP_TEAM_BYTES ? 1 : on->threads, c.parts, backward_part, &c);
    if (dw) rp__team_ranges(on->threads, n, 64, c.parts * n * 4, add_sums, &c);
}
