/* ops/magnitude.c -- y = x * m / n + b, per column: rescales the output of a layer whose weight rows have norms n to norms m (Liu et al.
 * 2024, arXiv 2402.09353, eq. 5). The bias is not scaled. If n is 0, x is 0, too, and the first term is 0.
 *
 *   in     x [..., k]   m [k]   n [k]   b [k], optional     one floating dtype
 *   out    y [..., k]
 *   needs  m and n for the gradient of x, x and n for that of m; n is a constant
 *   order  a column is summed over the rows in order, so a replayed forward is bitwise equal
 */
#include "ops/common.h"

enum { X, M, N, B };
enum { Y };

static rp_status magnitude_shape(rp_op_meta *m)
{
    int64_t k = rp_meta_dim(&m->in[X], -1);

    RP_CHECK(m->ctx, m->n_in > N, RP_ERR_ARG, "magnitude: x, m and n are needed");
    RP_TRY(rp__check_one_dtype(m));
    for (int i = M; i < m->n_in; i++)
        RP_CHECK(m->ctx, m->in[i].ndim == 1 && m->in[i].dim[0] == k, RP_ERR_SHAPE, "magnitude: input %d is %s, expected [%" PRId64 "]", i,
                 rp_meta_str(&m->in[i]), k);
    m->out[Y] = m->in[X];
    rp__read_for(m, RP_IN(M), RP_IN(X));
    rp__read_for(m, RP_IN(X), RP_IN(M));
    rp__read_for(m, RP_IN(N), RP_IN(X) | RP_IN(M));
    if (!rp__op_fast(m)) m->scratch_backward_bytes = 2 * k * (int64_t)sizeof(double);
    return RP_OK;
}

static rp_cost magnitude_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__cost(m, pass, rp_meta_elems(&m->in[X]) * (pass == RP_FORWARD ? 2 : 4));
}

static double over(double by, double norm) { return norm != 0 ? by / norm : 0; }

static void magnitude_forward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);

    if (k->magnitude_forward) {
        k->magnitude_forward(c->meta->in[X].dtype, rp__data(c->in[X]), rp__data(c->in[M]), rp__data(c->in[N]),
                             c->meta->n_in > B ? rp__data(c->in[B]) : NULL, rp__data(c->out[Y]), rows, n, rp__on(c->meta));
        return;
    }
    for (int64_t e = 0; e < rows * n; e++) {
        double by = over(rp_elem_get(c->in[M], e % n), rp_elem_get(c->in[N], e % n));
        rp_elem_put(c->out[Y], e, rp_elem_get(c->in[X], e) * by + (c->meta->n_in > B ? rp_elem_get(c->in[B], e % n) : 0));
    }
}

/* With g = dL/dy:  dx = g * m / n,  dm = sum over rows of g * x / n,  db = sum over rows of g. */
static void magnitude_reference_backward(const rp_op_call *c)
{
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);
    double *dm = c->scratch, *db = dm + n;

    memset(dm, 0, (size_t)(2 * n) * sizeof *dm);         /* summed completely, rounded once */
    for (int64_t e = 0; e < rows * n; e++) {
        double g = rp_elem_get(c->grad_out[Y], e);
        if (c->grad_in[X]) rp__elem_grad(c, X, e, g * over(rp_elem_get(c->in[M], e % n), rp_elem_get(c->in[N], e % n)));
        if (c->grad_in[M]) dm[e % n] += over(g * rp_elem_get(c->in[X], e), rp_elem_get(c->in[N], e % n));
        db[e % n] += g;
    }
    if (c->grad_in[M]) rp_row_grad(c, M, 0, dm);
    if (c->meta->n_in > B && c->grad_in[B]) rp_row_grad(c, B, 0, db);
}

static void magnitude_backward(const rp_op_call *c)
{
    const rp_kernels *k = rp__op_kernels(c);
    int64_t n = rp_meta_dim(&c->meta->in[X], -1), rows = rp_meta_rows(&c->meta->in[X]);
    rp_dtype dtype      = c->meta->in[X].dtype;

    if (!k->magnitude_backward) {
        magnitude_reference_backward(c);
        return;
    }
    if (c->grad_in[X] || c->grad_in[M])
        k->magnitude_backward(dtype, rp__data(c->in[X]), rp__data(c->in[M]), rp__data(c->in[N]), rp__data(c->grad_out[Y]),
                              rp__data(c->grad_in[X]), rp__grad_dtype(c, X), c->grad_adds[X], rp__data(c->grad_in[M]), rp__grad_dtype(c, M),
                              c->grad_adds[M], rows, n, rp__on(c->meta));
    if (c->meta->n_in > B && c->grad_in[B])
        k->column_sum(dtype, rp__data(c->grad_out[Y]), rows, n, rp__data(c->grad_in[B]), rp__grad_dtype(c, B), c->grad_adds[B], rp__on(c->meta));
}

static const rp_op_case magnitude_cases[] = {
    { "one row",   .in = { { 1, 8 },     { 8 },   { 8 } } },
    { "biased",    .in = { { 3, 5, 7 },  { 7 },   { 7 },  { 7 } } },
    { "two blocks", .in = { { 9, 531 },   { 531 }, { 531 } } },
    { "many rows", .in = { { 130, 67 },  { 67 },  { 67 }, { 67 } } },
    { "bad norm",  .in = { { 2, 4 },     { 4 },   { 5 } }, .expect = RP_ERR_SHAPE },
    { "bad bias",  .in = { { 2, 4 },     { 4 },   { 4 },  { 2 } }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_magnitude = {
    .name = "magnitude", .n_in = 4, .n_out = 1, .flags = RP_OP_VARIADIC,
    .no_grad_in = RP_IN(N), .wide_grad_in = RP_IN(M) | RP_IN(B), .needs = RP_IN(X) | RP_IN(M) | RP_IN(N),
    .shape = magnitude_shape, .cost = magnitude_cost,
    .forward = magnitude_forward, .backward = magnitude_backward,
    .cases = magnitude_cases, .n_case = RP_COUNT(magnitude_cases),
};
