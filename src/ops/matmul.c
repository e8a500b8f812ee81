/* ops/matmul.c -- y = x w (+ b): a linear layer, or a product with a plain matrix.
 *
 *   in     x [..., k]   w [n, k] (transpose_w) or [k, n]   b [n], optional     one floating dtype; w may be quantised
 *   out    y [..., n]
 *   needs  x for the gradient of w, w for that of x; the bias gradient is a sum over rows of dy
 *   kernel kernels/gemm.h if rp__op_fast; the reference below sums in double
 */
#include "ops/common.h"

enum { X, W, B };
enum { Y };

static int64_t width(const rp_op_meta *m) { return rp_meta_dim(&m->out[Y], -1); }

/* The three products of a layer: forward y = x w, dx = dy w^T, dw = x^T dy (or dy^T x for a transposed w). */
static rp_gemm product_forward(const rp_op_meta *m)
{
    bool transpose_w = ((const rp_attr_matmul *)m->attr)->transpose_w;

    return (rp_gemm){ .ab = m->in[X].dtype, .c = m->in[X].dtype, .m = rp_meta_rows(&m->in[X]), .n = width(m),
                      .k = rp_meta_dim(&m->in[X], -1), .transpose_b = transpose_w, .bias = m->n_in > B, .on = *rp__on(m) };
}

static rp_gemm product_dx(const rp_op_meta *m, bool adds)
{
    bool transpose_w = ((const rp_attr_matmul *)m->attr)->transpose_w;

    return (rp_gemm){ .ab = m->in[X].dtype, .c = m->in[X].dtype, .m = rp_meta_rows(&m->in[X]), .n = rp_meta_dim(&m->in[X], -1),
                      .k = width(m), .transpose_b = !transpose_w, .adds = adds, .on = *rp__on(m) };
}

static rp_gemm product_dw(const rp_op_meta *m, rp_dtype grad, bool adds)
{
    bool transpose_w = ((const rp_attr_matmul *)m->attr)->transpose_w;
    int64_t k = rp_meta_dim(&m->in[X], -1), n = width(m);

    return (rp_gemm){ .ab = m->in[X].dtype, .c = grad, .m = transpose_w ? n : k, .n = transpose_w ? k : n, .k = rp_meta_rows(&m->in[X]),
                      .transpose_a = true, .adds = adds, .on = *rp__on(m) };
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static rp_status backward_scratch(rp_op_meta *m, rp_gemm product)
{
    int64_t bytes = 0;

    RP_TRY(rp__gemm_scratch(m->ctx, rp__op_table(m), &product, &bytes));
    m->scratch_backward_bytes = larger(m->scratch_backward_bytes, bytes);
    return RP_OK;
}

/* shape does not know the gradient's dtype and whether it adds, so scratch is the largest of all cases. */
static rp_status fast_scratch(rp_op_meta *m)
{
    rp_gemm forward = product_forward(m);

    RP_TRY(rp__gemm_scratch(m->ctx, rp__op_table(m), &forward, &m->scratch_bytes));
    for (int adds = 0; adds < 2; adds++) {
        if (m->in_grad[X]) RP_TRY(backward_scratch(m, product_dx(m, adds)));
        if (!m->in_grad[W]) continue;
        RP_TRY(backward_scratch(m, product_dw(m, RP_F32, adds)));
        if (m->in[X].dtype != RP_F32) RP_TRY(backward_scratch(m, product_dw(m, m->in[X].dtype, adds)));
    }
    return RP_OK;
}

static rp_status matmul_shape(rp_op_meta *m)
{
    const rp_attr_matmul *a = m->attr;
    int64_t k = rp_meta_dim(&m->in[X], -1);

    RP_CHECK(m->ctx, m->n_in >= 2, RP_ERR_ARG, "matmul: x and w are needed");
    for (int i = 0; i < m->n_in; i++)
        RP_CHECK(m->ctx, i == W ? rp__weight_fits(m, X, W) : rp_meta_is_float(&m->in[i]) && m->in[i].dtype == m->in[X].dtype, RP_ERR_DTYPE,
                 "matmul: inputs are %s and %s, expected one floating dtype", rp_meta_str(&m->in[X]), rp_meta_str(&m->in[i]));
    RP_TRY(rp__check_weight_grad(m, W));
    RP_CHECK(m->ctx, m->in[X].ndim >= 1 && m->in[W].ndim == 2 && m->in[W].dim[a->transpose_w ? 1 : 0] == k, RP_ERR_SHAPE,
             "matmul: x is %s and w %s, expected w %s", rp_meta_str(&m->in[X]), rp_meta_str(&m->in[W]),
             a->transpose_w ? "[n, k]" : "[k, n]");
    int64_t n = m->in[W].dim[a->transpose_w ? 0 : 1];
    RP_CHECK(m->ctx, m->n_in <= B || (m->in[B].ndim == 1 && m->in[B].dim[0] == n), RP_ERR_SHAPE,
             "matmul: bias is %s, expected [%" PRId64 "]", rp_meta_str(&m->in[B]), n);
    m->out[Y]                            = m->in[X];
    m->out[Y].dim[m->out[Y].ndim - 1]    = n;
    RP_TRY(rp__check_size(m, "y", &m->out[Y]));
    rp__read_for(m, RP_IN(X), RP_IN(W));
    rp__read_for(m, RP_IN(W), RP_IN(X));
    if (rp__op_fast(m)) return fast_scratch(m);
    m->scratch_bytes          = (k + n) * (int64_t)sizeof(double);
    m->scratch_backward_bytes = (2 * k + 2 * n + k * n) * (int64_t)sizeof(double);
    return RP_OK;
}

static rp_cost matmul_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__product_cost(m, pass, X, W, 2 * rp_meta_elems(&m->in[X]) * width(m));
}

static double weight_at(const rp_op_call *c, int64_t k, int64_t n)
{
    const rp_attr_matmul *a = c->attr;
    int64_t columns = c->meta->in[W].dim[1];

    return rp__weight_get(c, X, W, a->transpose_w ? n * columns + k : k * columns + n);
}

static void reference_forward(const rp_op_call *c)
{
    int64_t k = rp_meta_dim(&c->meta->in[X], -1), n = width(c->meta), rows = rp_meta_rows(&c->meta->in[X]);
    double *x = c->scratch, *y = x + k;

    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->in[X], r, x);
        for (int64_t j = 0; j < n; j++) {
            double sum = c->meta->n_in > B ? rp_elem_get(c->in[B], j) : 0;
            for (int64_t i = 0; i < k; i++) sum += x[i] * weight_at(c, i, j);
            y[j] = sum;
        }
        rp_row_put(c->out[Y], r, y);
    }
}

static void matmul_forward(const rp_op_call *c)
{
    if (rp__op_kernels(c) == rp__kernels_none()) {
        reference_forward(c);
        return;
    }
    rp_gemm g     = product_forward(c->meta);
    const void *w = rp__weight_at(c, W, 0, &g);
    rp__op_failed(c, rp__gemm(c->ctx, rp__op_table(c->meta), &g, rp__data(c->in[X]), w, rp__data(c->out[Y]),
                              g.bias ? rp__data(c->in[B]) : NULL, c->scratch));
}

static void put_dw(const rp_op_call *c, const double *dw, int64_t k, int64_t n, double *row)
{
    const rp_attr_matmul *a = c->attr;
    int64_t rows = a->transpose_w ? n : k, columns = a->transpose_w ? k : n;

    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < columns; i++) row[i] = a->transpose_w ? dw[i * n + r] : dw[r * n + i];
        rp_row_grad(c, W, r, row);
    }
}

static void matmul_reference_backward(const rp_op_call *c)
{
    int64_t k = rp_meta_dim(&c->meta->in[X], -1), n = width(c->meta), rows = rp_meta_rows(&c->meta->in[X]);
    double *x = c->scratch, *d = x + k, *g = d + larger(k, n), *dw = g + n;

    memset(dw, 0, (size_t)(k * n) * sizeof *dw);
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->grad_out[Y], r, g);
        if (c->grad_in[W]) rp_row_get(c->in[X], r, x);
        for (int64_t i = 0; i < k && c->grad_in[W]; i++)
            for (int64_t j = 0; j < n; j++) dw[i * n + j] += x[i] * g[j];
        for (int64_t i = 0; i < k && c->grad_in[X]; i++) {
            d[i] = 0;
            for (int64_t j = 0; j < n; j++) d[i] += g[j] * weight_at(c, i, j);
        }
        if (c->grad_in[X]) rp_row_grad(c, X, r, d);
    }
    if (c->grad_in[W]) put_dw(c, dw, k, n, d);
}

/* Sum of the rows of dy, in fp32 over a fixed order, for a bias. */
static void bias_backward(const rp_op_call *c)
{
    int64_t n = width(c->meta), rows = rp_meta_rows(&c->meta->in[X]);
    const rp_kernels *k = rp__op_kernels(c);

    if (k->column_sum) {
        k->column_sum(c->meta->in[X].dtype, rp__data(c->grad_out[Y]), rows, n, rp__data(c->grad_in[B]), c->grad_in[B]->m.dtype,
                      c->grad_adds[B], rp__on(c->meta));
        return;
    }
    double *sum = c->scratch, *g = sum + n;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int64_t r = 0; r < rows; r++) {
        rp_row_get(c->grad_out[Y], r, g);
        for (int64_t j = 0; j < n; j++) sum[j] += g[j];
    }
    rp_row_grad(c, B, 0, sum);
}

static void fast_backward(const rp_op_call *c)
{
    rp_status status = RP_OK;

    if (c->grad_in[X]) {
        rp_gemm g     = product_dx(c->meta, c->grad_adds[X]);
        const void *w = rp__weight_at(c, W, 0, &g);
        status        = rp__gemm(c->ctx, rp__op_table(c->meta), &g, rp__data(c->grad_out[Y]), w, rp__data(c->grad_in[X]), NULL, c->scratch);
    }
    if (c->grad_in[W] && status == RP_OK) {
        const rp_attr_matmul *a = c->attr;
        rp_gemm g = product_dw(c->meta, c->grad_in[W]->m.dtype, c->grad_adds[W]);
        void *x = rp__data(c->in[X]), *dy = rp__data(c->grad_out[Y]);
        status = rp__gemm(c->ctx, rp__op_table(c->meta), &g, a->transpose_w ? dy : x, a->transpose_w ? x : dy, rp__data(c->grad_in[W]), NULL, c->scratch);
    }
    rp__op_failed(c, status);
}

static void matmul_backward(const rp_op_call *c)
{
    if (rp__op_kernels(c) == rp__kernels_none()) matmul_reference_backward(c);
    else fast_backward(c);
    if (c->meta->n_in > B && c->grad_in[B]) bias_backward(c);
}

static const rp_op_case matmul_cases[] = {
    { "linear",        .in = { { 3, 5 },     { 7, 5 } },         .attr = &(rp_attr_matmul){ true } },
    { "linear, bias",  .in = { { 2, 3, 8 },  { 6, 8 }, { 6 } },  .attr = &(rp_attr_matmul){ true } },
    { "plain",         .in = { { 4, 6 },     { 6, 9 } },         .attr = &(rp_attr_matmul){ false } },
    { "plain, bias",   .in = { { 33, 17 },   { 17, 5 }, { 5 } }, .attr = &(rp_attr_matmul){ false } },
    { "one row",       .in = { { 1, 64 },    { 32, 64 } },       .attr = &(rp_attr_matmul){ true } },
    { "inner differs", .in = { { 2, 4 },     { 3, 5 } },         .attr = &(rp_attr_matmul){ true }, .expect = RP_ERR_SHAPE },
    { "bad bias",      .in = { { 2, 4 },     { 3, 4 }, { 4 } },  .attr = &(rp_attr_matmul){ true }, .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_matmul = {
    .name = "matmul", .n_in = 3, .n_out = 1, .attr_size = sizeof(rp_attr_matmul), .flags = RP_OP_VARIADIC,
    .wide_grad_in = RP_IN(W) | RP_IN(B),
    .needs = RP_IN(X) | RP_IN(W),
    .shape = matmul_shape, .cost = matmul_cost,
    .forward = matmul_forward, .backward = matmul_backward,
    .cases = matmul_cases, .n_case = RP_COUNT(matmul_cases),
};
