/* kernels/cpu/rmsnorm.c -- RMSNorm over rows. Sums run in lanes of the level's vectors: the same order in every call. A row is read twice, the
 * second time from the first cache.
 *
 * dw: the rows are cut into a part of scratch each, a sum of its own each, and the sums are added in order.
 */
#include "kernels/cpu/cpu.h"

enum { SUMS_A_THREAD = 4 };

typedef struct {
    rp_dtype dtype, dw_dtype;
    const void *x, *w, *dy;
    void *to;                   /* y or dx */
    float *rstd;
    int64_t rows, n;
    float eps;
    bool dx_adds, dw_adds;
    void *dw;
    float *sums;                /* [parts, stride] */
    int64_t parts, stride;
} norm;

/* ---- forward ---- */

INLINE void forward_row(rp_dtype dtype, const norm *c, int64_t r)
{
    int64_t n     = c->n, at = r * n;
    const void *x = c->x, *w = c->w;
    void *y       = c->to;
    float sum     = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += f32_at(dtype, x, at + i) * f32_at(dtype, x, at + i);
    float s = 1.0f / sqrtf(sum / (float)n + c->eps);
    if (c->rstd) c->rstd[r] = s;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) put_at(dtype, y, at + i, f32_at(dtype, x, at + i) * s * f32_at(dtype, w, i));
}

static void forward_rows(const void *arg, int64_t from, int64_t to)
{
    const norm *c = arg;

    if (c->dtype == RP_BF16)
        for (int64_t r = from; r < to; r++) forward_row(RP_BF16, c, r);
    else
        for (int64_t r = from; r < to; r++) forward_row(RP_F32, c, r);
}

void RP_AT_LEVEL(rmsnorm_forward)(rp_dtype dtype, const void *x, const void *w, void *y, float *rstd, int64_t rows, int64_t n, float eps,
                                  int threads)
{
    norm c = { .dtype = dtype, .x = x, .w = w, .to = y, .rstd = rstd, .n = n, .eps = eps };

    rp__team_ranges(threads, rows, 1, rows * n * 2 * width_of(dtype), forward_rows, &c);
}

/* ---- backward ---- */

INLINE void backward_row(rp_dtype dtype, const norm *c, int64_t r, bool adds, float *restrict dw)
{
    int64_t n     = c->n, at = r * n;
    const void *x = c->x, *w = c->w, *dy = c->dy;
    void *dx      = c->to;
    float s       = c->rstd[r], dot = 0;

#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < n; i++) dot += f32_at(dtype, dy, at + i) * f32_at(dtype, w, i) * f32_at(dtype, x, at + i);
    float k = s * s * dot / (float)n;
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float xi = f32_at(dtype, x, at + i), g = f32_at(dtype, dy, at + i);
        dw[i] += g * xi * s;
        put_add_at(dtype, dx, at + i, s * (g * f32_at(dtype, w, i) - xi * k), adds);
    }
}

INLINE void weight_row(rp_dtype dtype, const norm *c, int64_t r, float *restrict dw)
{
    int64_t n     = c->n, at = r * n;
    const void *x = c->x, *dy = c->dy;
    float s       = c->rstd[r];

#pragma omp simd
    for (int64_t i = 0; i < n; i++) dw[i] += f32_at(dtype, dy, at + i) * f32_at(dtype, x, at + i) * s;
}

INLINE void backward_rows(rp_dtype dtype, const norm *c, int64_t from, int64_t to, float *dw)
{
    for (int64_t r = from; r < to; r++) {
        if (!c->to) weight_row(dtype, c, r, dw);
        else if (c->dx_adds) backward_row(dtype, c, r, true, dw);
        else backward_row(dtype, c, r, false, dw);
    }
}

static void backward_part(void *arg, int64_t part, int thread)
{
    const norm *c = arg;
    int64_t from = rp__part_from(c->rows, 1, c->parts, part), to = rp__part_from(c->rows, 1, c->parts, part + 1);
    float *dw = c->sums + part * c->stride;

    (void)thread;
    memset(dw, 0, (size_t)c->n * sizeof *dw);
    if (c->dtype == RP_BF16) backward_rows(RP_BF16, c, from, to, dw);
    else backward_rows(RP_F32, c, from, to, dw);
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

void RP_AT_LEVEL(rmsnorm_backward)(rp_dtype dtype, const void *x, const void *w, const float *rstd, const void *dy, void *dx,
                                   bool dx_adds, void *dw, rp_dtype dw_dtype, bool dw_adds, int64_t rows, int64_t n, void *scratch,
                                   int threads)
{
    norm c = { .dtype = dtype, .dw_dtype = dw_dtype, .x = x, .w = w, .dy = dy, .to = dx, .rstd = (float *)rstd, .rows = rows, .n = n,
               .dx_adds = dx_adds, .dw_adds = dw_adds, .dw = dw, .sums = scratch, .parts = SUMS_A_THREAD * (int64_t)threads,
               .stride = (n + 15) / 16 * 16 };

    rp__team_run(rows * n * 3 * width_of(dtype) < RP_TEAM_BYTES ? 1 : threads, c.parts, backward_part, &c);
    if (dw) rp__team_ranges(threads, n, 64, c.parts * n * 4, add_sums, &c);
}
