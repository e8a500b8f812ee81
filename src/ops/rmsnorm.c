/* ops/rmsnorm.c -- y = x * rstd * w, rstd = 1/sqrt(mean(x*x) + eps), over the last dimension (Zhang and Sennrich 2019). With the
 * attribute plus, w + plus replaces w, without rounding; Gemma stores weights minus 1.
 *
 *   in     x [..., n]   w [n]     fp32 or bf16, one dtype for both
 *   out    y [..., n]             dtype of x
 *   slot   rstd [rows] fp32       4 bytes per row; backward reads x, w and rstd
 *   order  every call sums a row in the same order, so a replayed forward is bitwise equal
 */
#include "ops/common.h"

enum { X, W };    /* inputs */
enum { Y };       /* outputs */
enum { RSTD };    /* slots */

static rp_status rmsnorm_shape(rp_op_meta *m)
{
    int64_t n = rp_meta_dim(&m->in[X], -1);

    RP_CHECK(m->ctx, rp_meta_is_float(&m->in[X]) && m->in[W].dtype == m->in[X].dtype, RP_ERR_DTYPE,
             "rmsnorm: x is %s and weight %s, expected one floating dtype", rp_meta_str(&m->in[X]), rp_meta_str(&m->in[W]));
    RP_CHECK(m->ctx, m->in[W].ndim == 1 && m->in[W].dim[0] == n && n > 0, RP_ERR_SHAPE, "rmsnorm: weight is %s, expected [%" PRId64 "]",
             rp_meta_str(&m->in[W]), n);
    m->out[Y]                 = m->in[X];
    m->slot[RSTD]             = rp_meta_1d(rp_meta_stat_dtype(&m->in[X]), rp_meta_rows(&m->in[X]));
    m->scratch_bytes          = 3 * n * (int64_t)sizeof(double);
    m->scratch_backward_bytes = 5 * n * (int64_t)sizeof(double);
    if (rp__op_fast(m)) {
        m->scratch_bytes = 0;
        rp__op_table(m)->rmsnorm_backward_scratch(n, &m->scratch_backward_bytes, rp__on(m));
    }
    return RP_OK;
}

static rp_cost rmsnorm_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 4 : 11));
}

static void rmsnorm_forward(const rp_op_call *c)
{
    const rp_attr_norm *a = c->attr;
    const rp_kernels *k   = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);

    if (k->rmsnorm_forward) {
        k->rmsnorm_forward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[W]), a->plus, rp__data(c->out[Y]),
                           rp__data(c->slot[RSTD]), rows, n, a->eps, rp__on(c->meta));
        return;
    }
    double *x = c->scratch, *w = x + n, *y = w + n;
    rp_row_get(c->in[W], 0, w);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
        double rstd = 1 / sqrt(sum / (double)n + (double)a->eps);
        for (int64_t i = 0; i < n; i++) y[i] = x[i] * rstd * (w[i] + (double)a->plus);
        rp_row_put(c->out[Y], r, y);
        if (c->slot[RSTD]) rp_elem_put(c->slot[RSTD], r, rstd);
    }
}

/* With g = dL/dy, and w including plus:  dx = rstd * (g*w - x * rstd^2 * mean(g*w*x)),  dw = sum over rows of g*x*rstd. */
static void rmsnorm_backward(const rp_op_call *c)
{
    const rp_attr_norm *a = c->attr;
    const rp_kernels *k   = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);

    if (k->rmsnorm_backward) {
        k->rmsnorm_backward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[W]), a->plus, rp__data(c->slot[RSTD]),
                            rp__data(c->grad_out[Y]), rp__data(c->grad_in[X]), c->grad_adds[X], rp__data(c->grad_in[W]),
                            c->grad_in[W] ? c->grad_in[W]->m.dtype : RP_F32, c->grad_adds[W], rows, n, c->scratch, rp__on(c->meta));
        return;
    }
    double *x = c->scratch, *w = x + n, *g = w + n, *d = g + n, *dw = d + n;
    rp_row_get(c->in[W], 0, w);
    for (int64_t i = 0; i < n; i++) w[i] += (double)a->plus;
    memset(dw, 0, (size_t)n * sizeof *dw);         /* summed completely, rounded once */
    for (int64_t r = 0; r < rows; r++) {
        double rstd = rp_elem_get(c->slot[RSTD], r), dot = 0;
        rp_row_get(c->in[X], r, x);
        rp_row_get(c->grad_out[Y], r, g);
        for (int64_t i = 0; i < n; i++) dot += g[i] * w[i] * x[i];
        double s = rstd * rstd * dot / (double)n;
        for (int64_t i = 0; i < n; i++) d[i] = rstd * (g[i] * w[i] - x[i] * s);
        if (c->grad_in[X]) rp_row_grad(c, X, r, d);
        for (int64_t i = 0; i < n; i++) dw[i] += g[i] * x[i] * rstd;
    }
    if (c->grad_in[W]) rp_row_grad(c, W, 0, dw);
}

/* tests/ops/run_cases.c runs all its checks on each line, for each dtype and each registered kernel. */
static const rp_op_case rmsnorm_cases[] = {
    { "one row",    .in = { { 1, 8 },     { 8 } },  .attr = &(rp_attr_norm){ .eps = 1e-6f } },
    { "odd sizes",  .in = { { 3, 5, 7 },  { 7 } },  .attr = &(rp_attr_norm){ .eps = 1e-5f } },
    { "wide rows",  .in = { { 9, 67 },    { 67 } }, .attr = &(rp_attr_norm){ .eps = 1e-5f } },
    { "weights less 1", .in = { { 5, 37 }, { 37 } }, .attr = &(rp_attr_norm){ .eps = 1e-6f, .plus = 1 } },
    { "bad weight", .in = { { 2, 4 },     { 5 } },  .attr = &(rp_attr_norm){ .eps = 1e-5f }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_rmsnorm = {
    .name = "rmsnorm", .n_in = 2, .n_out = 1, .n_slot = 1, .attr_size = sizeof(rp_attr_norm),
    .wide_grad_in = RP_IN(W),
    .needs = RP_IN(X) | RP_IN(W) | RP_SLOT(RSTD),
    .shape = rmsnorm_shape, .cost = rmsnorm_cost,
    .forward = rmsnorm_forward, .backward = rmsnorm_backward,
    .cases = rmsnorm_cases, .n_case = RP_COUNT(rmsnorm_cases),
};
