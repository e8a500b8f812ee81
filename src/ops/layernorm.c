/* ops/layernorm.c -- y = (x - mean) * rstd * w + b over the last dimension, rstd = 1/sqrt(variance + eps) (Ba, Kiros and Hinton 2016).
 *
 *   in     x [..., n]   w [n]   b [n]     one floating dtype
 *   out    y [..., n]
 *   slots  mean [rows], rstd [rows]       fp32
 *   order  every call sums a row in the same order, so a replayed forward is bitwise equal
 */
#include "ops/common.h"

enum { X, W, B };
enum { Y };
enum { MEAN, RSTD };

static rp_status layernorm_shape(rp_op_meta *m)
{
    int64_t n = rp_meta_dim(&m->in[X], -1);

    RP_TRY(rp__check_one_dtype(m));
    for (int i = W; i <= B; i++)
        RP_CHECK(m->ctx, m->in[i].ndim == 1 && m->in[i].dim[0] == n && n > 0, RP_ERR_SHAPE, "layernorm: %s is %s, expected [%" PRId64 "]",
                 i == W ? "weight" : "bias", rp_meta_str(&m->in[i]), n);
    m->out[Y]     = m->in[X];
    m->slot[MEAN] = m->slot[RSTD] = rp_meta_1d(rp_meta_stat_dtype(&m->in[X]), rp_meta_rows(&m->in[X]));
    m->scratch_bytes              = rp__op_fast(m) ? 0 : 4 * n * (int64_t)sizeof(double);
    m->scratch_backward_bytes     = 6 * n * (int64_t)sizeof(double);
    if (rp__op_fast(m)) rp__op_table(m)->layernorm_backward_scratch(n, &m->scratch_backward_bytes, rp__on(m));
    return RP_OK;
}

static rp_cost layernorm_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 8 : 15));
}

static void layernorm_forward(const rp_op_call *c)
{
    const rp_attr_norm *a = c->attr;
    const rp_kernels *k   = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);

    if (k->layernorm_forward) {
        k->layernorm_forward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[W]), rp__data(c->in[B]), rp__data(c->out[Y]),
                             rp__data(c->slot[MEAN]), rp__data(c->slot[RSTD]), rows, n, a->eps, rp__on(c->meta));
        return;
    }
    double *x = c->scratch, *w = x + n, *b = w + n, *y = b + n;
    rp_row_get(c->in[W], 0, w);
    rp_row_get(c->in[B], 0, b);
    for (int64_t r = 0; r < rows; r++) {
        double mean = 0, spread = 0;
        rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < n; i++) mean += x[i] / (double)n;
        for (int64_t i = 0; i < n; i++) spread += (x[i] - mean) * (x[i] - mean);
        double rstd = 1 / sqrt(spread / (double)n + (double)a->eps);
        for (int64_t i = 0; i < n; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
        rp_row_put(c->out[Y], r, y);
        if (!c->slot[MEAN]) continue;
        rp_elem_put(c->slot[MEAN], r, mean);
        rp_elem_put(c->slot[RSTD], r, rstd);
    }
}

/* With g = dy and h = (x - mean) rstd:  dx = rstd (g w - mean(g w) - h mean(g w h)),  dw = sum of g h,  db = sum of g. */
static void layernorm_reference_backward(const rp_op_call *c)
{
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);
    double *h = c->scratch, *w = h + n, *g = w + n, *d = g + n, *dw = d + n, *db = dw + n;

    rp_row_get(c->in[W], 0, w);
    memset(dw, 0, (size_t)(2 * n) * sizeof *dw);
    for (int64_t r = 0; r < rows; r++) {
        double mean = rp_elem_get(c->slot[MEAN], r), rstd = rp_elem_get(c->slot[RSTD], r), along_one = 0, along_h = 0;
        rp_row_get(c->in[X], r, h);
        rp_row_get(c->grad_out[Y], r, g);
        for (int64_t i = 0; i < n; i++) {
            h[i] = (h[i] - mean) * rstd;
            along_one += g[i] * w[i] / (double)n;
            along_h += g[i] * w[i] * h[i] / (double)n;
            dw[i] += g[i] * h[i];
            db[i] += g[i];
        }
        for (int64_t i = 0; i < n; i++) d[i] = rstd * (g[i] * w[i] - along_one - h[i] * along_h);
        if (c->grad_in[X]) rp_row_grad(c, X, r, d);
    }
    if (c->grad_in[W]) rp_row_grad(c, W, 0, dw);
    if (c->grad_in[B]) rp_row_grad(c, B, 0, db);
}

static void layernorm_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);

    if (!k->layernorm_backward) {
        layernorm_reference_backward(c);
        return;
    }
    k->layernorm_backward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[W]), rp__data(c->slot[MEAN]), rp__data(c->slot[RSTD]),
                          rp__data(c->grad_out[Y]), rp__data(c->grad_in[X]), rp__grad_dtype(c, X), c->grad_adds[X], rp__data(c->grad_in[W]),
                          rp__grad_dtype(c, W), c->grad_adds[W], rp__data(c->grad_in[B]), rp__grad_dtype(c, B), c->grad_adds[B],
                          rp_meta_rows(&c->meta->in[X]), rp_meta_dim(&c->meta->in[X], -1), c->scratch, rp__on(c->meta));
}

static const rp_op_case layernorm_cases[] = {
    { "one row",    .in = { { 1, 8 },     { 8 },  { 8 } },  .attr = &(rp_attr_norm){ .eps = 1e-6f } },
    { "odd sizes",  .in = { { 3, 5, 7 },  { 7 },  { 7 } },  .attr = &(rp_attr_norm){ .eps = 1e-5f } },
    { "wide rows",  .in = { { 9, 67 },    { 67 }, { 67 } }, .attr = &(rp_attr_norm){ .eps = 1e-5f } },
    { "bad weight", .in = { { 2, 4 },     { 5 },  { 4 } },  .attr = &(rp_attr_norm){ .eps = 1e-5f }, .expect = RP_ERR_SHAPE },
    { "bad bias",   .in = { { 2, 4 },     { 4 },  { 5 } },  .attr = &(rp_attr_norm){ .eps = 1e-5f }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_layernorm = {
    .name = "layernorm", .n_in = 3, .n_out = 1, .n_slot = 2, .attr_size = sizeof(rp_attr_norm),
    .wide_grad_in = RP_IN(W) | RP_IN(B),
    .needs = RP_IN(X) | RP_IN(W) | RP_SLOT(MEAN) | RP_SLOT(RSTD),
    .shape = layernorm_shape, .cost = layernorm_cost,
    .forward = layernorm_forward, .backward = layernorm_backward,
    .cases = layernorm_cases, .n_case = RP_COUNT(layernorm_cases),
};
