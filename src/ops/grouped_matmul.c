/* ops/grouped_matmul.c -- one product per expert: y = x w[e]', for the rows of each expert e.
 *
 *   in     x [R, k], rows by expert (ops/experts.h)   w [experts, n, k], may be quantised   choices, R of them: int32, each in [0, experts): checked
 *   out    y [R, n]
 *   needs  x for the gradient of w, w for that of x; choices, which give the number of rows of each expert
 *   kernel kernels/gemm.h, expert after expert, in scratch that suffices for every distribution of rows, so memory follows from shapes; or one kernel
 *          of the device for all experts.
 *          The bits of an element depend only on its own row and expert; in dw, only on the expert's rows
 *
 * The gradient of an expert without rows is zero; it is written if gradients are assigned.
 */
#include "ops/experts.h"

enum { X, W, CHOICES };
enum { Y };

static int64_t rows_of(const rp_op_meta *m) { return rp_meta_rows(&m->in[X]); }
static int64_t experts_of(const rp_op_meta *m) { return m->in[W].dim[0]; }
static int64_t width(const rp_op_meta *m) { return m->in[W].dim[1]; }
static int64_t depth(const rp_op_meta *m) { return m->in[W].dim[2]; }

/* The three products of an expert with `rows` rows, as in ops/matmul.c with transpose_w. */
static rp_gemm product_forward(const rp_op_meta *m, int64_t rows)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = m->in[X].dtype, .m = rows, .n = width(m), .k = depth(m), .transpose_b = true,
                      .on = *rp__on(m) };
}

static rp_gemm product_dx(const rp_op_meta *m, int64_t rows, bool adds)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = m->in[X].dtype, .m = rows, .n = depth(m), .k = width(m), .adds = adds,
                      .on = *rp__on(m) };
}

static rp_gemm product_dw(const rp_op_meta *m, int64_t rows, rp_dtype grad, bool adds)
{
    return (rp_gemm){ .ab = m->in[X].dtype, .c = grad, .m = width(m), .n = depth(m), .k = rows, .transpose_a = true, .adds = adds,
                      .on = *rp__on(m) };
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t first_bytes(const rp_op_meta *m) { return rp__mem_rounded(m->ctx, (experts_of(m) + 1) * (int64_t)sizeof(int32_t)); }

static rp_status backward_scratch(rp_op_meta *m, rp_gemm product)
{
    int64_t bytes = 0;

    RP_TRY(rp__gemm_scratch_most(m->ctx, rp__op_table(m), &product, &bytes));
    m->scratch_backward_bytes = larger(m->scratch_backward_bytes, first_bytes(m) + bytes);
    return RP_OK;
}

/* shape does not know the gradient's dtype and whether it adds, so scratch is the largest of all cases. */
static rp_status fast_scratch(rp_op_meta *m)
{
    rp_gemm forward = product_forward(m, rows_of(m));
    int64_t bytes   = 0;

    m->scratch_bytes = m->scratch_backward_bytes = first_bytes(m);
    if (rp__op_table(m)->grouped_gemm) return RP_OK;
    RP_TRY(rp__gemm_scratch_most(m->ctx, rp__op_table(m), &forward, &bytes));
    m->scratch_bytes += bytes;
    for (int adds = 0; adds < 2; adds++) {
        if (m->in_grad[X]) RP_TRY(backward_scratch(m, product_dx(m, rows_of(m), adds)));
        if (!m->in_grad[W]) continue;
        RP_TRY(backward_scratch(m, product_dw(m, rows_of(m), RP_F32, adds)));
        if (m->in[X].dtype != RP_F32) RP_TRY(backward_scratch(m, product_dw(m, rows_of(m), m->in[X].dtype, adds)));
    }
    return RP_OK;
}

static rp_status grouped_matmul_shape(rp_op_meta *m)
{
    const rp_meta *x = &m->in[X], *w = &m->in[W];

    RP_CHECK(m->ctx, rp__weight_fits(m, X, W), RP_ERR_DTYPE, "grouped_matmul: x is %s and w %s, expected one floating "
             "dtype", rp_meta_str(x), rp_meta_str(w));
    RP_TRY(rp__check_weight_grad(m, W));
    RP_CHECK(m->ctx, x->ndim == 2 && w->ndim == 3 && w->dim[2] == x->dim[1], RP_ERR_SHAPE, "grouped_matmul: x is %s and w %s, expected x "
             "[rows, k] and w [experts, n, k]", rp_meta_str(x), rp_meta_str(w));
    RP_TRY(rp__check_routes(m, CHOICES, rows_of(m), experts_of(m)));
    RP_CHECK(m->ctx, rp_meta_elems(&m->in[CHOICES]) == rows_of(m), RP_ERR_SHAPE, "grouped_matmul: x is %s and choices %s, expected a choice "
             "for each row", rp_meta_str(x), rp_meta_str(&m->in[CHOICES]));
    m->out[Y] = rp_meta_2d(x->dtype, x->dim[0], w->dim[1]);
    RP_TRY(rp__check_size(m, "y", &m->out[Y]));
    rp__read_for(m, RP_IN(X), RP_IN(W));
    rp__read_for(m, RP_IN(W), RP_IN(X));
    if (rp__op_fast(m)) return fast_scratch(m);
    int64_t n = width(m), k = depth(m);
    m->scratch_bytes          = first_bytes(m) + (k + n) * (int64_t)sizeof(double);
    m->scratch_backward_bytes = first_bytes(m) + (2 * k + n + k * n) * (int64_t)sizeof(double);
    return RP_OK;
}

/* Every weight counts as read once, although experts without rows are not read. */
static rp_cost grouped_matmul_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__product_cost(m, pass, X, W, 2 * rp_meta_elems(&m->in[X]) * width(m));
}

/* ---- the reference ---- */

static void forward_row(const rp_op_call *c, int64_t expert, int64_t row, double *x, double *y)
{
    int64_t n = width(c->meta), k = depth(c->meta);

    rp_row_get(c->in[X], row, x);
    for (int64_t j = 0; j < n; j++) {
        y[j] = 0;
        for (int64_t i = 0; i < k; i++) y[j] += x[i] * rp__weight_get(c, X, W, (expert * n + j) * k + i);
    }
    rp_row_put(c->out[Y], row, y);
}

static void dx_row(const rp_op_call *c, int64_t expert, int64_t row, const double *dy, double *dx)
{
    int64_t n = width(c->meta), k = depth(c->meta);

    memset(dx, 0, (size_t)k * sizeof *dx);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < k; i++) dx[i] += dy[j] * rp__weight_get(c, X, W, (expert * n + j) * k + i);
    rp_row_grad(c, X, row, dx);
}

static void grouped_matmul_reference_backward(const rp_op_call *c, const int32_t *first, double *x)
{
    int64_t n  = width(c->meta), k = depth(c->meta);
    double *dx = x + k, *dy = dx + k, *dw = dy + n;

    for (int64_t e = 0; e < experts_of(c->meta); e++) {
        memset(dw, 0, (size_t)(n * k) * sizeof *dw);
        for (int64_t r = first[e]; r < first[e + 1]; r++) {
            rp_row_get(c->grad_out[Y], r, dy);
            if (c->grad_in[X]) dx_row(c, e, r, dy, dx);
            if (!c->grad_in[W]) continue;
            rp_row_get(c->in[X], r, x);
            for (int64_t j = 0; j < n; j++)
                for (int64_t i = 0; i < k; i++) dw[j * k + i] += dy[j] * x[i];
        }
        for (int64_t j = 0; j < n && c->grad_in[W]; j++) rp_row_grad(c, W, e * n + j, dw + j * k);
    }
}

/* ---- with kernels ---- */

static rp_status forward_of(const rp_op_call *c, int64_t expert, int64_t from, int64_t rows, void *scratch)
{
    rp_gemm g     = product_forward(c->meta, rows);
    const void *w = rp__weight_at(c, W, expert * g.n * g.k, &g);

    return rp__gemm(c->ctx, rp__op_table(c->meta), &g, rp__data_at(c->in[X], from * g.k), w, rp__data_at(c->out[Y], from * g.n), NULL, scratch);
}

static rp_status dx_of(const rp_op_call *c, int64_t expert, int64_t from, int64_t rows, void *scratch)
{
    rp_gemm g     = product_dx(c->meta, rows, c->grad_adds[X]);
    const void *w = rp__weight_at(c, W, expert * g.k * g.n, &g);

    return rp__gemm(c->ctx, rp__op_table(c->meta), &g, rp__data_at(c->grad_out[Y], from * g.k), w, rp__data_at(c->grad_in[X], from * g.n), NULL,
                    scratch);
}

static rp_status dw_of(const rp_op_call *c, int64_t expert, int64_t from, int64_t rows, void *scratch)
{
    rp_gemm g = product_dw(c->meta, rows, c->grad_in[W]->m.dtype, c->grad_adds[W]);
    void *to  = rp__data_at(c->grad_in[W], expert * g.m * g.n);

    if (rows) return rp__gemm(c->ctx, rp__op_table(c->meta), &g, rp__data_at(c->grad_out[Y], from * g.m), rp__data_at(c->in[X], from * g.n), to, NULL, scratch);
    if (!g.adds) memset(to, 0, (size_t)(g.m * g.n * rp_dtype_bytes(g.c)));
    return RP_OK;
}

static void fast_backward(const rp_op_call *c, const int32_t *first, void *scratch)
{
    rp_status status = RP_OK;

    for (int64_t e = 0; e < experts_of(c->meta) && status == RP_OK; e++) {
        int64_t rows = first[e + 1] - first[e];
        if (c->grad_in[X] && rows) status = dx_of(c, e, first[e], rows, scratch);
        if (c->grad_in[W] && status == RP_OK) status = dw_of(c, e, first[e], rows, scratch);
    }
    rp__op_failed(c, status);
}

/* ---- with the device's kernels, which read the number of rows of each expert from its memory ---- */

static void grouped_forward(const rp_op_call *c, const int32_t *first)
{
    rp_gemm g     = product_forward(c->meta, rows_of(c->meta));
    const void *w = rp__weight_at(c, W, 0, &g);

    rp__op_kernels(c)->grouped_gemm(&g, first, experts_of(c->meta), rp__data(c->in[X]), w, rp__data(c->out[Y]));
}

static void grouped_backward(const rp_op_call *c, const int32_t *first)
{
    rp_gemm dx = product_dx(c->meta, rows_of(c->meta), c->grad_adds[X]);
    rp_gemm dw = product_dw(c->meta, rows_of(c->meta), rp__grad_dtype(c, W), c->grad_adds[W]);
    int64_t n  = experts_of(c->meta);

    if (c->grad_in[X]) {        /* otherwise the call may lack w */
        const void *w = rp__weight_at(c, W, 0, &dx);
        rp__op_kernels(c)->grouped_gemm(&dx, first, n, rp__data(c->grad_out[Y]), w, rp__data(c->grad_in[X]));
    }
    if (c->grad_in[W]) rp__op_kernels(c)->grouped_gemm(&dw, first, n, rp__data(c->grad_out[Y]), rp__data(c->in[X]), rp__data(c->grad_in[W]));
}

/* ---- forward and backward ---- */

static void *after_first(const rp_op_call *c) { return (uint8_t *)c->scratch + first_bytes(c->meta); }

static void grouped_matmul_forward(const rp_op_call *c)
{
    int32_t *first   = c->scratch;
    double *x        = after_first(c);
    rp_status status = rp__check_choices(c, CHOICES, experts_of(c->meta));

    if (rp__op_failed(c, status)) return;
    rp__experts_first(c, CHOICES, experts_of(c->meta), first);
    if (rp__op_kernels(c)->grouped_gemm) {
        grouped_forward(c, first);
        return;
    }
    for (int64_t e = 0; e < experts_of(c->meta) && status == RP_OK; e++) {
        if (first[e] == first[e + 1]) continue;
        if (rp__op_has_kernels(c)) status = forward_of(c, e, first[e], first[e + 1] - first[e], after_first(c));
        else for (int64_t r = first[e]; r < first[e + 1]; r++) forward_row(c, e, r, x, x + depth(c->meta));
    }
    rp__op_failed(c, status);
}

static void grouped_matmul_backward(const rp_op_call *c)
{
    int32_t *first = c->scratch;

    rp__experts_first(c, CHOICES, experts_of(c->meta), first);
    if (rp__op_kernels(c)->grouped_gemm) grouped_backward(c, first);
    else if (rp__op_has_kernels(c)) fast_backward(c, first, after_first(c));
    else grouped_matmul_reference_backward(c, first, after_first(c));
}

#define CHOICES_FROM(low, high) .int_inputs = RP_IN(CHOICES), .int_low = { [CHOICES] = low }, .int_high = { [CHOICES] = high }

static const rp_op_case grouped_matmul_cases[] = {
    { "four experts",      .in = { { 12, 5 },   { 4, 7, 5 },    { 6, 2 } }, CHOICES_FROM(0, 3) },
    { "some without rows", .in = { { 9, 33 },   { 20, 17, 33 }, { 9 } },    CHOICES_FROM(3, 17) },
    { "all to one",        .in = { { 70, 24 },  { 3, 40, 24 },  { 70 } },   CHOICES_FROM(1, 1) },
    { "many rows",         .in = { { 150, 16 }, { 5, 33, 16 },  { 50, 3 } }, CHOICES_FROM(0, 4) },
    { "no such expert",    .in = { { 4, 7 },    { 4, 2, 7 },    { 4 } },    CHOICES_FROM(4, 4),   .expect = RP_ERR_ARG },
    { "negative",          .in = { { 4, 7 },    { 4, 2, 7 },    { 4 } },    CHOICES_FROM(-2, -1), .expect = RP_ERR_ARG },
    { "too few choices",   .in = { { 4, 7 },    { 4, 2, 7 },    { 3 } },    CHOICES_FROM(0, 3),   .expect = RP_ERR_SHAPE },
    { "twice the choices", .in = { { 4, 7 },    { 4, 2, 7 },    { 4, 2 } }, CHOICES_FROM(0, 3),   .expect = RP_ERR_SHAPE },
    { "inner differs",     .in = { { 4, 7 },    { 4, 2, 6 },    { 4 } },    CHOICES_FROM(0, 3),   .expect = RP_ERR_SHAPE },
    { "floating",          .in = { { 4, 7 },    { 4, 2, 7 },    { 4 } },                          .expect = RP_ERR_DTYPE },
};

const rp_op rp_op_grouped_matmul = {
    .name = "grouped_matmul", .n_in = 3, .n_out = 1, .no_grad_in = RP_IN(CHOICES), .wide_grad_in = RP_IN(W),
    .needs = RP_IN(X) | RP_IN(W) | RP_IN(CHOICES),
    .shape = grouped_matmul_shape, .cost = grouped_matmul_cost,
    .forward = grouped_matmul_forward, .backward = grouped_matmul_backward,
    .cases = grouped_matmul_cases, .n_case = RP_COUNT(grouped_matmul_cases),
};
