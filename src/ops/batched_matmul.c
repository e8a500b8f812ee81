/* ops/batched_matmul.c -- y = a b for each matrix of a batch. Both operands may be activations.
 *
 *   in     a [..., m, k] or [..., k, m] (transpose_a)   b [..., k, n] or [..., n, k] (transpose_b)     one floating dtype
 *   out    y [..., m, n]     the extents before the last two broadcast as in ops/broadcast.c
 *   needs  a for the gradient of b, b for that of a
 *   kernel kernels/gemm.h, matrix after matrix; the reference below sums in double
 *
 * A gradient is summed over the batch extents that its operand lacks: product after product in the order of y's matrices, in fp32, rounded once. So the
 * shape, the level and the threads fix its bits.
 */
#include "kernels/pointwise.h"
#include "ops/common.h"

enum { A, B };
enum { Y };

static const rp_attr_batched_matmul *attr_of(const rp_op_meta *m) { return m->attr; }
static bool transposed(const rp_op_meta *m, int operand) { return operand == A ? attr_of(m)->transpose_a : attr_of(m)->transpose_b; }

/* The product of one matrix: m, n and k of [m, k] [k, n]. */
typedef struct { int64_t m, n, k; } sizes;

static sizes sizes_of(const rp_op_meta *m)
{
    bool ta = transposed(m, A), tb = transposed(m, B);

    return (sizes){ rp_meta_dim(&m->in[A], ta ? -1 : -2), rp_meta_dim(&m->in[B], tb ? -2 : -1), rp_meta_dim(&m->in[A], ta ? -2 : -1) };
}

static rp_meta batch_of(const rp_meta *m)
{
    rp_meta batch = *m;

    batch.ndim -= 2;
    return batch;
}

static rp_spread spread_of(const rp_op_meta *m)
{
    rp_meta y = batch_of(&m->out[Y]), a = batch_of(&m->in[A]), b = batch_of(&m->in[B]);

    return rp__spread(&y, &a, &b, NULL);
}

static int64_t elems_of(const rp_op_meta *m, int operand)
{
    sizes s = sizes_of(m);

    return operand == A ? s.m * s.k : s.k * s.n;
}

static rp_gemm product_forward(const rp_op_meta *m)
{
    sizes s = sizes_of(m);

    return (rp_gemm){ .ab = m->in[A].dtype, .c = m->in[A].dtype, .m = s.m, .n = s.n, .k = s.k, .transpose_a = transposed(m, A),
                      .transpose_b = transposed(m, B), .on = *rp__on(m) };
}

/* da = dy b^T, db = a^T dy, or the transpose of it as the operand is stored. dy is the first matrix of da and of a transposed db. */
static rp_gemm product_gradient(const rp_op_meta *m, int of, rp_dtype grad, bool adds)
{
    sizes s = sizes_of(m);
    bool ta = transposed(m, A), tb = transposed(m, B);
    rp_gemm g = { .ab = m->in[A].dtype, .c = grad, .adds = adds, .on = *rp__on(m) };

    if (of == A) g.m = ta ? s.k : s.m, g.n = ta ? s.m : s.k, g.k = s.n;
    else g.m = tb ? s.n : s.k, g.n = tb ? s.k : s.n, g.k = s.m;
    if (of == A) g.transpose_a = ta && tb, g.transpose_b = ta || !tb;
    else g.transpose_a = tb || !ta, g.transpose_b = ta && tb;
    return g;
}

static bool dy_is_first(const rp_op_meta *m, int of) { return of == A ? !transposed(m, A) : transposed(m, B); }

/* A bf16 gradient of several products is summed in fp32. */
static bool sums_wide(const rp_op_meta *m, int of, rp_dtype grad)
{
    rp_spread s = spread_of(m);

    return grad == RP_BF16 && rp__spread_count(&s, ~s.has[of]) > 1;
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* Scratch of backward: the sum of one matrix, if a wanted gradient needs it, then that of a product. */
static int64_t sum_bytes(const rp_op_meta *m)
{
    int64_t bytes = 0;

    for (int of = A; of <= B; of++)
        if (m->in_grad[of] && sums_wide(m, of, m->in[A].dtype)) bytes = larger(bytes, elems_of(m, of) * (int64_t)sizeof(float));
    return rp__mem_rounded(m->ctx, bytes);
}

/* shape does not know the gradient's dtype and whether it adds, so scratch is the largest of all cases. */
static rp_status backward_scratch(rp_op_meta *m, int of)
{
    const rp_dtype dtypes[] = { RP_F32, m->in[A].dtype };

    for (int i = 0; i < RP_COUNT(dtypes); i++)
        for (int adds = 0; adds < 2; adds++) {
            rp_gemm g     = product_gradient(m, of, dtypes[i], adds);
            int64_t bytes = 0;
            RP_TRY(rp__gemm_scratch(m->ctx, rp__op_table(m), &g, &bytes));
            m->scratch_backward_bytes = larger(m->scratch_backward_bytes, sum_bytes(m) + bytes);
        }
    return RP_OK;
}

static rp_status fast_scratch(rp_op_meta *m)
{
    rp_gemm forward = product_forward(m);

    for (int of = A; of <= B; of++)
        if (m->in_grad[of]) RP_TRY(backward_scratch(m, of));
    return rp__gemm_scratch(m->ctx, rp__op_table(m), &forward, &m->scratch_bytes);
}

static rp_status batched_matmul_shape(rp_op_meta *m)
{
    const rp_meta *a = &m->in[A], *b = &m->in[B];
    rp_meta y;

    RP_TRY(rp__check_one_dtype(m));
    RP_CHECK(m->ctx, a->ndim >= 2 && b->ndim >= 2 && rp_meta_dim(b, transposed(m, B) ? -1 : -2) == rp_meta_dim(a, transposed(m, A) ? -2 : -1), RP_ERR_SHAPE,
             "batched_matmul: a is %s and b %s, expected a [..., %s] and b [..., %s]", rp_meta_str(a), rp_meta_str(b),
             transposed(m, A) ? "k, m" : "m, k", transposed(m, B) ? "n, k" : "k, n");
    rp_meta other = batch_of(b);
    y             = batch_of(a);
    RP_CHECK(m->ctx, rp__broadcast(&y, &other), RP_ERR_SHAPE, "batched_matmul: a is %s and b %s, whose batches do not broadcast", rp_meta_str(a),
             rp_meta_str(b));
    sizes s           = sizes_of(m);
    y.dim[y.ndim]     = s.m;
    y.dim[y.ndim + 1] = s.n;
    y.ndim += 2;
    m->out[Y] = y;
    RP_TRY(rp__check_size(m, "y", &m->out[Y]));
    rp__read_for(m, RP_IN(A), RP_IN(B));
    rp__read_for(m, RP_IN(B), RP_IN(A));
    return rp__op_fast(m) ? fast_scratch(m) : RP_OK;
}

static rp_cost batched_matmul_cost(const rp_op_meta *m, rp_pass pass)
{
    return rp__product_cost(m, pass, A, B, 2 * rp_meta_elems(&m->out[Y]) * sizes_of(m).k);
}

/* ---- the reference ---- */

/* Element [row, column] of the operand as the product sees it, in matrix `at`. */
static double value_at(const rp_op_call *c, int operand, int64_t at, int64_t row, int64_t column)
{
    sizes s      = sizes_of(c->meta);
    int64_t rows = operand == A ? s.m : s.k, columns = operand == A ? s.k : s.n;

    return rp_elem_get(c->in[operand], at * rows * columns + (transposed(c->meta, operand) ? column * rows + row : row * columns + column));
}

static void reference_forward(const rp_op_call *c, const rp_spread *spread)
{
    sizes s = sizes_of(c->meta);

    for (int64_t e = 0, n = rp_meta_elems(&c->meta->out[Y]); e < n; e++) {
        rp_spread_place p = rp__spread_at(spread, RP_SPREAD_ALL, e / (s.m * s.n));
        int64_t row = e / s.n % s.m, column = e % s.n;
        double sum = 0;
        for (int64_t k = 0; k < s.k; k++) sum += value_at(c, A, p.of[A], row, k) * value_at(c, B, p.of[B], k, column);
        rp_elem_put(c->out[Y], e, sum);
    }
}

/* The gradient of element [row, column] of an operand by matrix `y` of dy and matrix `other` of the other operand. */
static double gradient_by(const rp_op_call *c, int of, int64_t y, int64_t other, int64_t row, int64_t column)
{
    sizes s    = sizes_of(c->meta);
    double sum = 0;

    for (int64_t j = 0; of == A && j < s.n; j++)
        sum += rp_elem_get(c->grad_out[Y], (y * s.m + row) * s.n + j) * value_at(c, B, other, column, j);
    for (int64_t i = 0; of == B && i < s.m; i++)
        sum += value_at(c, A, other, i, row) * rp_elem_get(c->grad_out[Y], (y * s.m + i) * s.n + column);
    return sum;
}

static void reference_gradient(const rp_op_call *c, const rp_spread *spread, int of)
{
    sizes s       = sizes_of(c->meta);
    uint32_t kept = spread->has[of];
    int64_t rows = of == A ? s.m : s.k, columns = of == A ? s.k : s.n, terms = rp__spread_count(spread, ~kept);

    for (int64_t e = 0, n = rp_meta_elems(&c->meta->in[of]); e < n; e++) {
        rp_spread_place at = rp__spread_at(spread, kept, e / (rows * columns));
        int64_t in = e % (rows * columns), row = transposed(c->meta, of) ? in % rows : in / columns;
        int64_t column = transposed(c->meta, of) ? in / rows : in % columns;
        double sum = 0;
        for (int64_t t = 0; t < terms; t++) {
            rp_spread_place by = rp__spread_at(spread, ~kept, t);
            sum += gradient_by(c, of, at.y + by.y, at.of[!of] + by.of[!of], row, column);
        }
        rp__elem_grad(c, of, e, sum);
    }
}

/* ---- with kernels ---- */

static void fast_forward(const rp_op_call *c, const rp_spread *spread)
{
    rp_gemm g        = product_forward(c->meta);
    rp_status status = RP_OK;

    for (int64_t i = 0, n = rp__spread_count(spread, RP_SPREAD_ALL); i < n && status == RP_OK; i++) {
        rp_spread_place p = rp__spread_at(spread, RP_SPREAD_ALL, i);
        const void *from  = rp__data_at(c->in[A], p.of[A] * g.m * g.k);
        status            = rp__gemm(c->ctx, rp__op_table(c->meta), &g, from, rp__data_at(c->in[B], p.of[B] * g.k * g.n),
                                     rp__data_at(c->out[Y], i * g.m * g.n), NULL, c->scratch);
    }
    rp__op_failed(c, status);
}

/* One product of the gradient, by matrix y of dy and matrix `other` of the other operand. */
static rp_status gradient_term(const rp_op_call *c, int of, const rp_gemm *g, int64_t y, int64_t other, void *to)
{
    sizes s        = sizes_of(c->meta);
    const void *dy = rp__data_at(c->grad_out[Y], y * s.m * s.n), *x = rp__data_at(c->in[!of], other * elems_of(c->meta, !of));
    bool first     = dy_is_first(c->meta, of);

    return rp__gemm(c->ctx, rp__op_table(c->meta), g, first ? dy : x, first ? x : dy, to, NULL, (uint8_t *)c->scratch + sum_bytes(c->meta));
}

static rp_status fast_gradient(const rp_op_call *c, const rp_spread *spread, int of)
{
    uint32_t kept  = spread->has[of];
    int64_t elems  = elems_of(c->meta, of), terms = rp__spread_count(spread, ~kept);
    rp_dtype dtype = c->grad_in[of]->m.dtype;
    bool wide      = sums_wide(c->meta, of, dtype);
    float *sum     = c->scratch;
    rp_status status = RP_OK;

    for (int64_t i = 0, n = rp__spread_count(spread, kept); i < n; i++) {
        rp_spread_place at = rp__spread_at(spread, kept, i);
        void *to           = rp__data_at(c->grad_in[of], i * elems);
        for (int64_t t = 0; t < terms && status == RP_OK; t++) {
            rp_spread_place by = rp__spread_at(spread, ~kept, t);
            rp_gemm g          = product_gradient(c->meta, of, wide ? RP_F32 : dtype, t > 0 || (!wide && c->grad_adds[of]));
            status             = gradient_term(c, of, &g, at.y + by.y, at.of[!of] + by.of[!of], wide ? sum : to);
        }
        if (wide && status == RP_OK)
            rp__op_table(c->meta)->copy_strips(RP_F32, sum, elems, dtype, to, elems, c->grad_adds[of], 1, elems, rp__on(c->meta));
    }
    return status;
}

/* ---- forward and backward ---- */

static void batched_matmul_forward(const rp_op_call *c)
{
    rp_spread spread = spread_of(c->meta);

    if (rp__op_has_kernels(c)) fast_forward(c, &spread);
    else reference_forward(c, &spread);
}

static void batched_matmul_backward(const rp_op_call *c)
{
    rp_spread spread = spread_of(c->meta);

    for (int of = A; of <= B; of++) {
        if (!c->grad_in[of]) continue;
        if (!rp__op_has_kernels(c)) reference_gradient(c, &spread, of);
        else if (rp__op_failed(c, fast_gradient(c, &spread, of))) return;
    }
}

#define T(a, b) .attr = &(rp_attr_batched_matmul){ a, b }

static const rp_op_case batched_matmul_cases[] = {
    { "plain",           .in = { { 3, 4, 5 },    { 3, 5, 7 } },     T(false, false) },
    { "transposed b",    .in = { { 2, 3, 8 },    { 2, 6, 8 } },     T(false, true) },
    { "transposed a",    .in = { { 2, 5, 3 },    { 2, 5, 4 } },     T(true, false) },
    { "both transposed", .in = { { 2, 6, 5 },    { 2, 9, 6 } },     T(true, true) },
    { "one matrix",      .in = { { 33, 17 },     { 17, 20 } },      T(false, false) },
    { "one b for all",   .in = { { 3, 5, 6 },    { 6, 7 } },        T(false, false) },
    { "one a for all",   .in = { { 1, 4, 9 },    { 5, 3, 9 } },     T(false, true) },
    { "grouped heads",   .in = { { 2, 3, 2, 4, 8 }, { 2, 3, 1, 5, 8 } }, T(false, true) },
    { "both broadcast",  .in = { { 3, 1, 4, 5 }, { 2, 4, 6 } },     T(true, false) },
    { "inner differs",   .in = { { 2, 3, 4 },    { 2, 5, 6 } },     T(false, false), .expect = RP_ERR_SHAPE },
    { "other batches",   .in = { { 2, 3, 4 },    { 3, 4, 6 } },     T(false, false), .expect = RP_ERR_SHAPE },
    { "a vector",        .in = { { 4 },          { 4, 6 } },        T(false, false), .expect = RP_ERR_SHAPE },
};

const rp_op rp_op_batched_matmul = {
    .name = "batched_matmul", .n_in = 2, .n_out = 1, .attr_size = sizeof(rp_attr_batched_matmul), .wide_grad_in = RP_IN(A) | RP_IN(B),
    .needs = RP_IN(A) | RP_IN(B),
    .shape = batched_matmul_shape, .cost = batched_matmul_cost,
    .forward = batched_matmul_forward, .backward = batched_matmul_backward,
    .cases = batched_matmul_cases, .n_case = RP_COUNT(batched_matmul_cases),
};
